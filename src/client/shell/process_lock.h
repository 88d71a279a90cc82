/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_PROCESS_LOCK_H
#define MST_CLIENT_SHELL_PROCESS_LOCK_H

/* The locks of what belongs to the process and to no client. A forked child may open a client of
 * its own, and its exit() looks for runs and heartbeats: so a fork takes all of them, and they are
 * free in the child, whatever the parent's other threads held. No thread holds two of them, or
 * forks with one; posix_spawn takes none. */

#include <pthread.h>

enum mst_process_lock {
    MST_LOCK_ENVIRONMENT, /* environment.c: the variables, which restarts set */
    MST_LOCK_HEARD,       /* heard.c: the count of the last client */
    MST_LOCK_EXIT,        /* at_exit.c: what is to be done in exit() */
    MST_LOCK_SIGNALS,     /* interrupt.c, signals.c: the handlers of signals */
    MST_PROCESS_LOCKS
};

void mst_process_lock(enum mst_process_lock which);
void mst_process_unlock(enum mst_process_lock which);

#endif
