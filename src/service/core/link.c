/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/link.h"

#include "service/core/job.h"
#include "service/core/waiter.h"

struct mst_link *mst_link_first(const struct mst_core *core)
{
    return MST_CONTAINER_OR_NULL(mst_index_first(&core->links), struct mst_link, node);
}

struct mst_link *mst_link_next(const struct mst_link *link)
{
    return MST_CONTAINER_OR_NULL(mst_index_next(&link->node), struct mst_link, node);
}

struct mst_link *mst_link_find(const struct mst_core *core, struct mst_conn conn)
{
    /* Ids are given one after the other: no hash spreads them better. */
    return MST_CONTAINER_OR_NULL(mst_table_find(&core->link_table, conn.id), struct mst_link,
                                 in_table);
}

struct mst_link *mst_link_new(struct mst_core *core, struct mst_conn conn)
{
    struct mst_link *link = mst_mem_zalloc(&core->mem, sizeof(*link));

    if (!link) {
        return NULL;
    }
    link->conn = conn;
    link->hangup.type = MST_EFFECT_HANGUP;
    mst_list_init(&link->waiters);
    mst_list_init(&link->deferred);
    mst_index_init(&link->waiting);
    mst_index_put(&core->links, &link->node, conn.id, 0);
    mst_table_insert(&core->link_table, conn.id, &link->in_table);
    return link;
}

void mst_link_drop_waiters(struct mst_link *link)
{
    while (!mst_list_empty(&link->waiters)) {
        mst_waiter_free(MST_CONTAINER(link->waiters.next, struct mst_waiter, in_link));
    }
}

void mst_link_free(struct mst_core *core, struct mst_link *link)
{
    if (link->session) {
        mst_session_detach(link->session);
    }
    mst_link_drop_waiters(link);
    mst_link_set_end(link, MST_LINK_NEVER, NULL, NULL);
    mst_list_remove(&link->hangup.link);
    mst_index_remove(&core->links, &link->node);
    mst_table_remove(&core->link_table, &link->in_table);
    mst_mem_release(&core->mem, link);
}

void mst_link_hang_up(struct mst_core *core, struct mst_link *link, const char *reason)
{
    if (link->reason) { /* one that is being closed may still carry its session */
        return;
    }
    link->reason = reason;
    mst_list_append(&core->effects, &link->hangup.link);
}

void mst_link_set_end(struct mst_link *link, enum mst_link_end end, struct mst_job *job,
                      struct mst_member *member)
{
    struct mst_job *old = link->job;

    if (job) {
        mst_job_keep(job);
    }
    link->end = end;
    link->job = job;
    link->member = member;
    if (old) {
        mst_job_let_go(old);
    }
}
