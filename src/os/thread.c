/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/thread.h"

#include <signal.h>

int mst_thread_start(pthread_t *out, size_t stack_bytes, void *(*run)(void *argument),
                     void *argument)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    int error = pthread_attr_init(&attributes);

    if (error != 0) {
        return error;
    }
    if (stack_bytes > 0) {
        (void)pthread_attr_setstacksize(&attributes, stack_bytes);
    }
    (void)pthread_attr_setdetachstate(&attributes, out != NULL ? PTHREAD_CREATE_JOINABLE
                                                               : PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(out != NULL ? out : &thread, &attributes, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error;
}
