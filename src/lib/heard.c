/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "base/digest.h"
#include "lib/handle.h"

/* Of the last job that a client of this process was closed of. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_job;
static uint64_t last_heard;

static uint64_t digest_of(const char *job)
{
    return mst_digest_slice(MST_DIGEST_INIT, mst_slice_of(job, strlen(job)));
}

uint64_t mst_lib_heard(const char *job)
{
    uint64_t heard;

    (void)pthread_mutex_lock(&lock);
    heard = last_job == digest_of(job) ? last_heard : 0;
    (void)pthread_mutex_unlock(&lock);
    return heard;
}

void mst_lib_heard_keep(const char *job, uint64_t heard)
{
    (void)pthread_mutex_lock(&lock);
    last_job = digest_of(job);
    last_heard = heard;
    (void)pthread_mutex_unlock(&lock);
}
