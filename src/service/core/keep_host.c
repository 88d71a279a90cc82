/* SPDX-License-Identifier: Apache-2.0 */
/* What the hosts of a job lost. Who is there follows from the sessions. */
#include "service/core/host.h"
#include "service/core/keep.h"

static struct mst_host *load_host(struct mst_archive *archive, struct mst_job *job,
                                  struct mst_slice name)
{
    struct mst_host *host;

    if (!mst_archive_expect(archive,
                            name.size > 0 && name.size < UINT32_MAX && !mst_host_find(job, name))) {
        return NULL;
    }
    host = mst_host_restore(job, name);
    if (!host) {
        mst_archive_break(archive, MUSTER_ENOMEM);
    }
    return host;
}

/* Its serial, which is larger than the one before; 0: broken. */
static uint64_t keep_host(struct mst_archive *archive, struct mst_job *job, struct mst_host *host,
                          uint64_t before)
{
    struct mst_slice name = host ? mst_host_name(host) : mst_slice_of(NULL, 0);

    mst_archive_slice(archive, &name);
    if (archive->loading) {
        host = load_host(archive, job, name);
    }
    if (!host) {
        return 0;
    }
    mst_archive_u64(archive, &host->serial);
    mst_archive_u32(archive, &host->node_losses);
    mst_archive_u32(archive, &host->rank_losses);
    (void)mst_archive_expect(archive, host->serial > before && host->serial <= job->host_serial);
    return host->serial;
}

void mst_keep_hosts(struct mst_archive *archive, struct mst_job *job)
{
    struct mst_list *node = job->host_list.next;
    uint32_t count = (uint32_t)job->hosts.count;
    uint64_t before = 0;

    mst_archive_u64(archive, &job->host_serial);
    mst_archive_count(archive, &count, 3 * sizeof(uint64_t));
    for (uint32_t i = 0; i < count && mst_archive_good(archive); i++) {
        struct mst_host *host = NULL;

        if (!archive->loading) {
            host = mst_host_of_list(node);
            node = node->next;
        }
        before = keep_host(archive, job, host, before);
    }
}

/* After the sessions: each is known for a reason. */
bool mst_keep_hosts_whole(const struct mst_job *job)
{
    for (struct mst_list *node = job->host_list.next; node != &job->host_list; node = node->next) {
        const struct mst_host *host = MST_OF(node, struct mst_host, in_list);

        if (host->sessions == 0 && host->node_losses == 0 && host->rank_losses == 0) {
            return false;
        }
    }
    return true;
}
