/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_THREAD_H
#define MST_OS_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread that takes no signal: those of the program are its own. `stack`: its size in
 * bytes; 0: the system's. Returns 0 or an error number. */
int mst_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *ctx), void *ctx);

#endif
