/* SPDX-License-Identifier: Apache-2.0 */
/* exit() while the function runs. If the process ends well (at_exit.h) the rank leaves as
 * muster_restart_leave does, so that its end is not taken for a death. It is done past the machine,
 * which waits for a function that does not return any more: the others get a fault (LEFT), the
 * place is given back (LEAVE), and the progress page is released, each if it can be done within a
 * moment. With another status nothing is done: the process dies with that, as after _exit, and is
 * replaced. A handler of exit() that closes the client and runs before ours has not left the job
 * yet. */
#define _GNU_SOURCE
#include "restart/shell/restart.h"

#define FAREWELL_NS NS_PER_S

void mst_run_farewell(struct muster_restart *restart, const char *why)
{
    muster_client *client = restart->client;
    const struct mst_view *view = mst_lib_view(client);
    bool tells = view->rank != MST_RANK_NONE && view->attention != MST_INTERRUPT;
    const struct mst_request words[] = {{.command = MST_FAULT,
                                         .fault = {.generation = view->generation,
                                                   .kind = MST_CAUSE_LEFT,
                                                   .text = mst_slice_text(why)}},
                                        {.command = MST_LEAVE}};

    mst_lib_farewell(client, tells ? words : words + 1, tells ? 2 : 1,
                     mst_lib_now_ns() + FAREWELL_NS);
}

static void leave_one(struct muster_restart *restart)
{
    muster_client *client = restart->client;

    mst_lib_lock(client);
    restart->host.silent = client->exiting = true;
    if (!client->ended && !client->poisoned) {
        atomic_store_explicit(&restart->page->left, 1, memory_order_relaxed);
        mst_run_farewell(restart, "left the job: exit() in the function");
    }
    mst_lib_unlock(client);
    if (!client->poisoned) {
        mst_lib_background_stop(client); /* which releases the page */
    }
}

/* The client may still be closed by a handler of exit(): that is no leave. */
static void fail_one(struct muster_restart *restart, int status)
{
    mst_lib_lock(restart->client);
    restart->client->exiting = true;
    atomic_store(&restart->page->exited, (uint32_t)status + 1);
    mst_lib_unlock(restart->client);
}

static void end_one(struct mst_at_exit *entry, int status)
{
    struct muster_restart *restart = MST_CONTAINER(entry, struct muster_restart, at_exit);

    if (mst_at_exit_well(status)) {
        leave_one(restart);
    } else {
        fail_one(restart, status);
    }
}

void mst_run_exit_add(struct muster_restart *restart)
{
    restart->at_exit = (struct mst_at_exit){.client = restart->client, .call = end_one};
    mst_at_exit_add(&restart->at_exit);
}

bool mst_run_exit_within(void *ctx)
{
    struct muster_restart *restart = ctx;
    bool within;

    if (restart->client->poisoned || mst_lib_holds(restart->client)) {
        return false;
    }
    mst_lib_lock(restart->client);
    within = restart->busy && mst_run_is_mine(restart);
    restart->closed = restart->closed || within;
    mst_lib_unlock(restart->client);
    return within;
}

void mst_run_exit_closed(struct muster_restart *restart)
{
    if (restart->closed && !restart->host.silent && !restart->client->poisoned) {
        mst_lib_unlock(restart->client);
        mst_at_exit_remove(&restart->at_exit);
        leave_one(restart);
        mst_lib_lock(restart->client);
    }
}
