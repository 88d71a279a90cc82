/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to each job, and since when it is as it is, behind the state: it decides nothing,
 * and is in no digest of it. */
#include "service/core/job.h"
#include "service/core/keep.h"
#include "service/core/round.h"

enum { INCIDENT_BYTES = 64 }; /* one takes no less */

static void keep_who(struct mst_archive *archive, struct mst_who *who)
{
    MST_ARCHIVE_ENUM(archive, who->role, enum mst_role, MST_ROLE_OBSERVER, MST_ROLE_AGENT);
    MST_ARCHIVE_ENUM(archive, who->state, enum mst_state, 0, MST_SPARE);
    mst_keep_cause(archive, &who->cause, &who->code);
    MST_ARCHIVE_U32S(archive, &who->index, &who->rank, &who->node, &who->losses);
    MST_ARCHIVE_U64S(archive, &who->incarnation, &who->pid);
}

static void keep_incident(struct mst_archive *archive, struct mst_incident *incident)
{
    MST_ARCHIVE_ENUM(archive, incident->kind, enum mst_incident_kind, MST_INCIDENT_SEALED,
                     MST_INCIDENT_LAST);
    MST_ARCHIVE_U64S(archive, &incident->at_ns, &incident->generation, &incident->interrupt_ns,
                     &incident->gather_ns);
    keep_who(archive, &incident->who);
    MST_ARCHIVE_U32S(archive, &incident->told_by, &incident->before, &incident->after,
                     &incident->total);
    mst_archive_i64(archive, &incident->step);
    mst_archive_blob(archive, &incident->host);
    mst_archive_blob(archive, &incident->text);
}

/* A service that keeps fewer drops the oldest. */
static void load(struct mst_archive *archive, struct mst_job *job, uint32_t count)
{
    uint64_t last_ns = 0;

    for (uint32_t i = 0; i < count && mst_archive_good(archive); i++) {
        struct mst_incident loaded = {0};

        keep_incident(archive, &loaded);
        (void)mst_archive_expect(archive,
                                 loaded.at_ns >= last_ns && loaded.at_ns <= job->core->now_ns);
        last_ns = loaded.at_ns;
        mst_history_take(job, &loaded);
    }
}

static void keep_history(struct mst_archive *archive, struct mst_job *job)
{
    struct mst_history *history = &job->history;
    uint64_t total = history->total;
    uint32_t count = history->count;

    mst_archive_u64(archive, &total);
    mst_archive_u32(archive, &history->of_seal);
    mst_archive_count(archive, &count, INCIDENT_BYTES);
    (void)mst_archive_expect(archive, count <= total);
    if (archive->loading) {
        load(archive, job, count);
        history->total = total;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        keep_incident(archive, mst_history_at(history, i));
    }
}

void mst_keep_histories(struct mst_archive *archive, struct mst_core *core)
{
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        if (mst_archive_good(archive)) {
            keep_history(archive, job);
        }
    }
}

/* ---- since when ---- */

static void keep_moment(struct mst_archive *archive, const struct mst_core *core, uint64_t *at_ns)
{
    mst_archive_u64(archive, at_ns);
    (void)mst_archive_expect(archive, *at_ns <= core->now_ns);
}

static void keep_moments(struct mst_archive *archive, struct mst_job *job)
{
    struct mst_member *member = mst_member_first(job);

    for (; member; member = mst_member_next(member)) {
        keep_moment(archive, job->core, &member->state_ns);
        if (archive->loading) {
            member->state = mst_member_state(member);
        }
    }
    MST_NAMED_EACH(struct mst_round_name, name, &job->round_names)
    {
        if (name->open) {
            keep_moment(archive, job->core, &name->open->opened_ns);
        }
    }
}

void mst_keep_moments(struct mst_archive *archive, struct mst_core *core)
{
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        if (mst_archive_good(archive)) {
            keep_moments(archive, job);
        }
    }
}
