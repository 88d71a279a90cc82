/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/uncancelled.h"

#include <pthread.h>

#include "base/panic.h"

static _Thread_local struct {
    unsigned depth;
    int before; /* the thread's own state */
} deferred;

void mst_uncancelled_begin(void)
{
    if (deferred.depth++ == 0) {
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &deferred.before);
    }
}

void mst_uncancelled_end(void)
{
    MST_ASSERT(deferred.depth > 0);
    if (--deferred.depth == 0) {
        int ignored;

        (void)pthread_setcancelstate(deferred.before, &ignored);
    }
}
