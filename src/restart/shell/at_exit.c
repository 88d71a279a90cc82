/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "restart/shell/at_exit.h"

#include <stdlib.h>

#include "client/shell/handle.h"
#include "client/shell/process_lock.h"
#include "os/own_pid.h"

enum { STATUS_SAVED = 75 };

static struct mst_list entries = {.next = &entries, .prev = &entries};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void at_exit(int status, void *arg)
{
    struct mst_list *link;

    (void)arg;
    do {
        mst_process_lock(MST_LOCK_EXIT);
        link = mst_list_take(&entries);
        mst_process_unlock(MST_LOCK_EXIT);
        if (link) {
            struct mst_at_exit *entry = MST_CONTAINER(link, struct mst_at_exit, link);
            const muster_client *client = entry->client;

            if (client->pid == mst_own_pid() && !client->poisoned && !mst_lib_holds(client)) {
                entry->call(entry, status & 0xff);
            }
        }
    } while (link);
}

static void hook(void)
{
    (void)on_exit(at_exit, NULL);
}

void mst_at_exit_add(struct mst_at_exit *entry)
{
    (void)pthread_once(&once, hook);
    mst_process_lock(MST_LOCK_EXIT);
    if (!mst_list_linked(&entry->link)) {
        mst_list_append(&entries, &entry->link);
    }
    mst_process_unlock(MST_LOCK_EXIT);
}

void mst_at_exit_remove(struct mst_at_exit *entry)
{
    mst_process_lock(MST_LOCK_EXIT);
    mst_list_remove(&entry->link);
    mst_process_unlock(MST_LOCK_EXIT);
}

bool mst_at_exit_well(int status)
{
    return status == 0 || status == STATUS_SAVED;
}
