/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/host.h"

#include "service/core/job.h"

struct mst_host *mst_host_restore(struct mst_job *job, struct mst_slice name)
{
    struct mst_host *host = mst_named_find(&job->hosts, name)
                                ? NULL
                                : mst_named_new(&job->core->mem, sizeof(*host), name);

    if (host) {
        host->job = job;
        mst_named_add(&job->hosts, &host->named);
    }
    return host;
}

muster_status mst_host_reach(struct mst_job *job, struct mst_slice name, struct mst_host **out)
{
    struct mst_host *host = mst_named_find(&job->hosts, name);

    *out = NULL;
    if (!host) {
        if (name.size == 0 || job->hosts.tree.count >= job->core->config.limits.members_max) {
            return MUSTER_OK;
        }
        host = mst_host_restore(job, name);
        if (!host) {
            return MUSTER_ENOMEM;
        }
        host->serial = ++job->host_serial;
    }
    host->sessions++;
    *out = host;
    return MUSTER_OK;
}

static void forget(struct mst_host *host)
{
    mst_named_remove(&host->job->hosts, &host->named);
    mst_mem_release(&host->job->core->mem, host);
}

void mst_host_let_go(struct mst_host *host)
{
    if (!host) {
        return;
    }
    MST_ASSERT(host->sessions > host->members);
    if (--host->sessions == 0 && host->node_losses == 0 && host->rank_losses == 0) {
        forget(host);
    }
}

void mst_host_hold(struct mst_host *host, int by)
{
    if (host) {
        host->members += (uint32_t)by;
    }
}

void mst_host_count(struct mst_host *host, enum mst_role lost)
{
    if (host) {
        uint32_t *losses = lost == MST_ROLE_AGENT ? &host->node_losses : &host->rank_losses;

        *losses += *losses < UINT32_MAX;
    }
}

void mst_host_free_all(struct mst_job *job)
{
    while (job->hosts.tree.count > 0) {
        forget(mst_named_first(&job->hosts));
    }
}
