/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_SHARED_H
#define MST_LAUNCH_SHARED_H

/* What the threads of a run share. One loop on the main thread decides; two other kinds of threads
 * tell it something: the waiter for deaths, and whichever thread drives the client. They touch what
 * is under the lock, wake the loop, and are never waited for with the lock held. */

#include <pthread.h>
#include <uv.h>

struct mst_shared {
    pthread_mutex_t lock; /* of what says so */
    uv_async_t woken;
};

static inline void mst_shared_lock(struct mst_shared *shared)
{
    (void)pthread_mutex_lock(&shared->lock);
}

static inline void mst_shared_unlock(struct mst_shared *shared)
{
    (void)pthread_mutex_unlock(&shared->lock);
}

static inline void mst_shared_wake(struct mst_shared *shared)
{
    (void)uv_async_send(&shared->woken);
}

#endif
