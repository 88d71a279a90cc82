/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/thread.h"

#include <signal.h>

int mst_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *ctx), void *ctx)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);

    if (error) {
        return error;
    }
    if (stack > 0) {
        (void)pthread_attr_setstacksize(&attributes, stack);
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attributes, run, ctx);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error;
}
