/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and tombstones, by name, and the owners of keys. Names that are only awaited are not kept.
 */
#include "service/core/keep.h"

static void load_key(struct mst_archive *archive, struct mst_job *job, struct mst_keyspace *space,
                     struct mst_slice name, const struct mst_key *kept)
{
    muster_status status = MUSTER_EPROTO;

    if (mst_archive_expect(archive, name.size > 0 && name.size < UINT32_MAX && kept->revision > 0 &&
                                        kept->revision <= job->revision &&
                                        kept->since_ns <= job->core->now_ns)) {
        status = mst_key_restore(job, space, name, kept);
    }
    if (status != MUSTER_OK) {
        mst_archive_break(archive, status);
        mst_blob_drop(archive->mem, kept->value);
    }
}

static void keep_key(struct mst_archive *archive, struct mst_job *job, struct mst_keyspace *space,
                     const struct mst_key *key)
{
    struct mst_slice name = key ? mst_key_name(key) : mst_slice_of(NULL, 0);
    struct mst_key kept = {0};

    if (key) {
        kept = (struct mst_key){
            .revision = key->revision, .since_ns = key->since_ns, .value = key->value};
    }
    mst_archive_slice(archive, &name);
    MST_ARCHIVE_U64S(archive, &kept.revision, &kept.since_ns);
    mst_archive_blob(archive, &kept.value);
    if (archive->loading) {
        load_key(archive, job, space, name, &kept);
    }
}

static const struct mst_key *next_kept(const struct mst_key *key)
{
    while (key && key->revision == 0) {
        key = mst_key_next(key);
    }
    return key;
}

static void keep_space(struct mst_archive *archive, struct mst_job *job, struct mst_keyspace *space)
{
    const struct mst_key *key =
        archive->loading ? NULL : next_kept(mst_key_after(space, mst_slice_of(NULL, 0)));
    uint32_t count = (uint32_t)mst_keyspace_change_count(space);

    MST_ARCHIVE_U64S(archive, &space->forgotten, &space->epoch, &space->epoch_revision);
    mst_archive_count(archive, &count, 2 * sizeof(uint64_t));
    for (uint32_t i = 0; i < count && mst_archive_good(archive); i++) {
        keep_key(archive, job, space, key);
        key = archive->loading ? NULL : next_kept(mst_key_next(key));
    }
    if (archive->loading) {
        mst_keyspace_restore_order(space);
    }
}

/* ---- owners: their keys go in this order ---- */

static struct mst_key *find_by_revision(const struct mst_job *job, uint64_t revision)
{
    struct mst_key *key = mst_key_changed(&job->keys, revision);

    if (!key || key->revision != revision) {
        key = mst_key_changed(&job->generation_keys, revision);
    }
    return key && key->revision == revision ? key : NULL;
}

static void keep_owned(struct mst_archive *archive, void *ctx, struct mst_list *node)
{
    struct mst_session *session = ctx;
    struct mst_key *key = MST_CONTAINER_OR_NULL(node, struct mst_key, in_owner);
    uint64_t revision = key ? key->revision : 0;

    mst_archive_u64(archive, &revision);
    if (archive->loading && mst_archive_good(archive)) {
        key = find_by_revision(session->job, revision);
        if (mst_archive_expect(archive, key && key->value && !key->owner)) {
            mst_key_own(key, session);
        }
    }
}

void mst_keep_keys(struct mst_archive *archive, struct mst_job *job)
{
    keep_space(archive, job, &job->keys);
    keep_space(archive, job, &job->generation_keys);
    MST_EACH(session, &job->sessions, struct mst_session, in_job) {
        mst_archive_list(archive, &session->owned, sizeof(uint64_t), keep_owned, session);
    }
}
