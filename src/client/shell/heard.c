/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "base/digest.h"
#include "client/shell/handle.h"
#include "client/shell/process_lock.h"

/* The job of the client that this process closed last, and its count. */
static uint64_t last_job;
static uint64_t last_heard;

static uint64_t digest_of(const char *job)
{
    return mst_digest_slice(MST_DIGEST_INIT, mst_slice_of(job, strlen(job)));
}

uint64_t mst_lib_heard(const char *job)
{
    uint64_t heard;

    mst_process_lock(MST_LOCK_HEARD);
    heard = last_job == digest_of(job) ? last_heard : 0;
    mst_process_unlock(MST_LOCK_HEARD);
    return heard;
}

void mst_lib_heard_keep(const char *job, uint64_t heard)
{
    mst_process_lock(MST_LOCK_HEARD);
    last_job = digest_of(job);
    last_heard = heard;
    mst_process_unlock(MST_LOCK_HEARD);
}
