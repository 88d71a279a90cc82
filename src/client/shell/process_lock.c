/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/process_lock.h"

#include "client/shell/uncancelled.h"

static pthread_mutex_t locks[MST_PROCESS_LOCKS] = {[MST_LOCK_ENVIRONMENT] =
                                                       PTHREAD_MUTEX_INITIALIZER,
                                                   [MST_LOCK_HEARD] = PTHREAD_MUTEX_INITIALIZER,
                                                   [MST_LOCK_EXIT] = PTHREAD_MUTEX_INITIALIZER,
                                                   [MST_LOCK_SIGNALS] = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void take_all(void)
{
    for (int i = 0; i < MST_PROCESS_LOCKS; i++) {
        (void)pthread_mutex_lock(&locks[i]);
    }
}

static void give_all_back(void)
{
    for (int i = MST_PROCESS_LOCKS - 1; i >= 0; i--) {
        (void)pthread_mutex_unlock(&locks[i]);
    }
}

static void survive_fork(void)
{
    (void)pthread_atfork(take_all, give_all_back, give_all_back);
}

void mst_process_lock(enum mst_process_lock which)
{
    (void)pthread_once(&once, survive_fork);
    mst_uncancelled_begin();
    (void)pthread_mutex_lock(&locks[which]);
}

void mst_process_unlock(enum mst_process_lock which)
{
    (void)pthread_mutex_unlock(&locks[which]);
    mst_uncancelled_end();
}
