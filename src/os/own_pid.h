/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_OWN_PID_H
#define MST_OS_OWN_PID_H

#include <sys/types.h>

/* getpid, at most once per process: each call of the library asks, to refuse a forked child. */
pid_t mst_own_pid(void);

#endif
