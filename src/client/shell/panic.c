/* SPDX-License-Identifier: Apache-2.0 */
/* A broken invariant inside the library. The process is somebody's training run, so it is not
 * ended. The machine cannot be used any more, and the function that found it broken cannot return:
 * the hook is called in the middle of pure code that relies on it not returning.
 *
 * So the handle is poisoned, its lock is released, calls of all other threads on it return
 * EINTERNAL from then on, and the thread that hit it stops here for good. If that is the background
 * thread, as it is while the program computes, only the log shows it. If it is a thread of the
 * program, it hangs; its renewals end with it, so the service declares this incarnation lost after
 * one lease, and the process is killed and replaced like any hung one. The thread must not end: it
 * may hold the progress page, whose release means that the process died.
 *
 * Outside of a client's lock no machine of the library broke: the program around it, `muster serve`
 * above all, aborts. */
#define _GNU_SOURCE
#include "base/panic.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/shell/handle.h"
#include "os/system.h"

_Thread_local struct mst_lib_guard mst_lib_guard;

static void poison(struct muster_client *client, const char *words)
{
    atomic_store(&client->poisoned, true);
    mst_lib_log(client, MUSTER_LEVEL_ERROR, "%s", words);
    MST_LIB_HOOKS(hook, client, poisoned)
    {
        hook->poisoned(hook->ctx);
    }
    MST_LIST_EACH(link, following, &client->waiters)
    {
        (void)pthread_cond_signal(&MST_CONTAINER(link, struct mst_lib_waiter, link)->wake);
    }
    mst_system_event_ring(client->caller_event);
    mst_lib_background_ring(client);
    mst_system_event_ring(client->call_event);
    mst_lib_holding = client->outer;
    (void)pthread_mutex_unlock(&client->lock);
}

_Noreturn void mst_panic(const char *file, int line, const char *what)
{
    struct muster_client *client = mst_lib_holding;
    struct mst_lib_guard guard = mst_lib_guard;
    char words[256];

    if (!client && !guard.poison) {
        fprintf(stderr, "muster: broken invariant at %s:%d: %s\n", file, line, what);
        abort();
    }
    mst_text_print(words, sizeof(words), "broken invariant at %s:%d: %s", file, line, what);
    if (guard.poison) {
        guard.poison(guard.ctx, words);
    }
    if (client) {
        poison(client, words);
    }
    for (;;) {
        (void)pause();
    }
}
