/* SPDX-License-Identifier: Apache-2.0 */
/* The losses on the hosts of a job. Which sessions are on them follows from the sessions. */
#include "service/core/host.h"
#include "service/core/keep.h"

static void keep_host(struct mst_archive *archive, void *ctx, struct mst_list *node)
{
    struct mst_job *job = ctx;
    const struct mst_host *last =
        MST_FOUND(mst_list_empty(&job->hosts.list) ? NULL : job->hosts.list.prev, struct mst_host,
                  named.in_list);
    struct mst_host *host = MST_FOUND(node, struct mst_host, named.in_list);
    struct mst_slice name = mst_archive_name(archive, &job->hosts, node);

    if (archive->loading && mst_archive_good(archive)) {
        host = mst_archive_made(archive, mst_host_restore(job, name));
    }
    if (!host) {
        return;
    }
    mst_archive_u64(archive, &host->serial);
    MST_ARCHIVE_U32S(archive, &host->node_losses, &host->rank_losses);
    (void)mst_archive_expect(archive, host->serial > (last ? last->serial : 0) &&
                                          host->serial <= job->host_serial);
}

void mst_keep_hosts(struct mst_archive *archive, struct mst_job *job)
{
    mst_archive_u64(archive, &job->host_serial);
    mst_archive_list(archive, &job->hosts.list, 3 * sizeof(uint64_t), keep_host, job);
}

/* After the sessions: there is a reason for each. */
bool mst_keep_hosts_whole(const struct mst_job *job)
{
    MST_NAMED_EACH(const struct mst_host, host, &job->hosts)
    {
        if (host->sessions == 0 && host->node_losses == 0 && host->rank_losses == 0) {
            return false;
        }
    }
    return true;
}
