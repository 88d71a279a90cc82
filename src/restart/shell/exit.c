/* SPDX-License-Identifier: Apache-2.0 */
/* exit() while the function runs. With status 0 or 75 the rank leaves as muster_restart_leave does,
 * so that nobody takes its end for a death. It is done past the machine, which waits for a function
 * that does not return any more: the others are told (FAULT, LEFT), the place is given back
 * (LEAVE), and the progress page is released, each if it can be done within a moment. With another
 * status nothing is done: the process dies with that, as after _exit, and is replaced. on_exit and
 * not atexit, because only that tells the status; so who closes the client in the function, as a
 * handler of exit() may that is called before ours, has not left yet. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "base/panic.h"
#include "client/shell/process_lock.h"
#include "restart/shell/restart.h"

#define FAREWELL_NS NS_PER_S

enum { STATUS_SAVED = 75 };

static struct mst_list runs = {.next = &runs, .prev = &runs};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* With the lock. */
static void say_farewell(struct muster_restart *restart)
{
    muster_client *client = restart->client;
    const struct mst_view *view = mst_lib_view(client);
    bool tells = view->rank != MST_RANK_NONE && view->attention != MST_INTERRUPT;
    const struct mst_request words[] = {
        {.command = MST_FAULT,
         .fault = {.generation = view->generation,
                   .kind = MST_CAUSE_LEFT,
                   .text = mst_slice_text("left the job: exit() in the function")}},
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
        say_farewell(restart);
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
    atomic_store(&restart->page->exited, (uint32_t)(status & 0xff) + 1);
    mst_lib_unlock(restart->client);
}

static void end_one(struct muster_restart *restart, int status)
{
    const muster_client *client = restart->client;

    if (client->pid != getpid() || client->poisoned || mst_lib_holds(client)) {
        return; /* a forked child's exit, or one from a callback with the lock */
    }
    if ((status & 0xff) == 0 || (status & 0xff) == STATUS_SAVED) {
        leave_one(restart);
    } else {
        fail_one(restart, status);
    }
}

static void at_exit(int status, void *arg)
{
    struct mst_list *link;

    (void)arg;
    do {
        mst_process_lock(MST_LOCK_RUNS);
        link = mst_list_take(&runs);
        mst_process_unlock(MST_LOCK_RUNS);
        if (link) {
            end_one(MST_CONTAINER(link, struct muster_restart, link), status);
        }
    } while (link);
}

bool mst_run_exit_within(struct muster_restart *restart)
{
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
        mst_run_exit_remove(restart);
        leave_one(restart);
        mst_lib_lock(restart->client);
    }
}

static void hook_exit(void)
{
    (void)on_exit(at_exit, NULL);
}

void mst_run_exit_add(struct muster_restart *restart)
{
    (void)pthread_once(&once, hook_exit);
    mst_process_lock(MST_LOCK_RUNS);
    mst_list_append(&runs, &restart->link);
    mst_process_unlock(MST_LOCK_RUNS);
}

void mst_run_exit_remove(struct muster_restart *restart)
{
    mst_process_lock(MST_LOCK_RUNS);
    mst_list_remove(&restart->link);
    mst_process_unlock(MST_LOCK_RUNS);
}
