/* SPDX-License-Identifier: Apache-2.0 */
/* exit() of a process whose heart beats: with a status that says it ended well it leaves the job,
 * so that its peers go on without it. on_exit and not atexit, because only that tells the status.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "base/panic.h"
#include "client/shell/process_lock.h"
#include "heartbeat/shell/heartbeat.h"
#include "restart/shell/restart.h"

#define FAREWELL_NS NS_PER_S

enum { STATUS_SAVED = 75 };

static struct mst_list beats = {.next = &beats, .prev = &beats};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end_one(struct muster_heartbeat *heartbeat, int status)
{
    muster_client *client = heartbeat->client;
    const struct muster_restart *restart;

    if (client->pid != getpid() || client->poisoned || mst_lib_holds(client)) {
        return; /* a forked child's exit, or one from a callback with the lock */
    }
    mst_lib_lock(client);
    mst_heartbeat_stop(heartbeat);
    restart = mst_lib_hook_ctx(client, MST_USER_RESTART);
    if ((status == 0 || status == STATUS_SAVED) && mst_lib_status(client) == MUSTER_OK &&
        !(restart && restart->busy)) {
        const struct mst_request leave = {.command = MST_LEAVE};

        mst_lib_farewell(client, &leave, 1, mst_lib_now_ns() + FAREWELL_NS);
    }
    mst_lib_unlock(client);
}

static void at_exit(int status, void *arg)
{
    struct mst_list *link;

    (void)arg;
    do {
        mst_process_lock(MST_LOCK_HEARTBEATS);
        link = mst_list_take(&beats);
        mst_process_unlock(MST_LOCK_HEARTBEATS);
        if (link) {
            end_one(MST_CONTAINER(link, struct muster_heartbeat, link), status);
        }
    } while (link);
}

static void hook_exit(void)
{
    (void)on_exit(at_exit, NULL);
}

void mst_heartbeat_exit_add(struct muster_heartbeat *heartbeat)
{
    (void)pthread_once(&once, hook_exit);
    mst_process_lock(MST_LOCK_HEARTBEATS);
    mst_list_remove(&heartbeat->link);
    mst_list_append(&beats, &heartbeat->link);
    mst_process_unlock(MST_LOCK_HEARTBEATS);
}

void mst_heartbeat_exit_remove(struct muster_heartbeat *heartbeat)
{
    mst_process_lock(MST_LOCK_HEARTBEATS);
    mst_list_remove(&heartbeat->link);
    mst_process_unlock(MST_LOCK_HEARTBEATS);
}
