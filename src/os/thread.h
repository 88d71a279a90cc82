/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_THREAD_H
#define MST_OS_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread with all signals blocked: they are for the threads of the program. `out` NULL: it
 * is detached. `stack_bytes` 0: the default. 0, or an errno. */
int mst_thread_start(pthread_t *out, size_t stack_bytes, void *(*run)(void *argument),
                     void *argument);

#endif
