/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/host.h"

#include <string.h>

#include "service/core/job.h"

static int order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_slice *name = key;

    return mst_slice_compare(*name, mst_host_name(MST_OF(node, struct mst_host, node)));
}

void mst_host_tree_init(struct mst_tree *tree)
{
    mst_tree_init(tree, order);
}

struct mst_slice mst_host_name(const struct mst_host *host)
{
    return mst_slice_of(host->name, host->name_size);
}

struct mst_host *mst_host_of_list(struct mst_list *node)
{
    return MST_CONTAINER(node, struct mst_host, in_list);
}

struct mst_host *mst_host_find(const struct mst_job *job, struct mst_slice name)
{
    struct mst_tree_node *node = mst_tree_find(&job->hosts, &name);

    return node ? MST_CONTAINER(node, struct mst_host, node) : NULL;
}

struct mst_host *mst_host_restore(struct mst_job *job, struct mst_slice name)
{
    struct mst_host *host = mst_host_find(job, name)
                                ? NULL
                                : mst_mem_zalloc(&job->core->mem, sizeof(*host) + name.size);

    if (host) {
        host->job = job;
        host->name_size = (uint32_t)name.size;
        memcpy(host->name, name.data, name.size);
        (void)mst_tree_insert(&job->hosts, &name, &host->node);
        mst_list_append(&job->host_list, &host->in_list);
    }
    return host;
}

muster_status mst_host_reach(struct mst_job *job, struct mst_slice name, struct mst_host **out)
{
    struct mst_host *host = mst_host_find(job, name);

    *out = NULL;
    if (!host) {
        if (name.size == 0 || job->hosts.count >= job->core->config.limits.members_max) {
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
    mst_tree_remove(&host->job->hosts, &host->node);
    mst_list_remove(&host->in_list);
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

void mst_host_admit(struct mst_host *host)
{
    if (host) {
        host->members++;
    }
}

void mst_host_part(struct mst_host *host)
{
    if (host) {
        host->members--;
    }
}

static void count(uint32_t *losses)
{
    *losses += *losses < UINT32_MAX;
}

void mst_host_count_node(struct mst_host *host)
{
    if (host) {
        count(&host->node_losses);
    }
}

void mst_host_count_rank(struct mst_host *host)
{
    if (host) {
        count(&host->rank_losses);
    }
}

void mst_host_free_all(struct mst_job *job)
{
    while (!mst_list_empty(&job->host_list)) {
        forget(mst_host_of_list(job->host_list.next));
    }
}
