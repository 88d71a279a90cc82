/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "base/digest.h"
#include "lib/handle.h"

/* Of the last job that a client of this process was closed of. */
static pthread_mutex_t last = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t last_job;
static uint64_t last_heard;

static void lock(void)
{
    (void)pthread_mutex_lock(&last);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&last);
}

/* A child may open a client of its own: the lock is free there. */
static void survive_fork(void)
{
    (void)pthread_atfork(lock, unlock, unlock);
}

static void lock_last(void)
{
    (void)pthread_once(&once, survive_fork);
    lock();
}

static uint64_t digest_of(const char *job)
{
    return mst_digest_slice(MST_DIGEST_INIT, mst_slice_of(job, strlen(job)));
}

uint64_t mst_lib_heard(const char *job)
{
    uint64_t heard;

    lock_last();
    heard = last_job == digest_of(job) ? last_heard : 0;
    unlock();
    return heard;
}

void mst_lib_heard_keep(const char *job, uint64_t heard)
{
    lock_last();
    last_job = digest_of(job);
    last_heard = heard;
    unlock();
}
