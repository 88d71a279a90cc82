/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_PROC_STAT_H
#define MST_PROCESS_PROC_STAT_H

/* /proc/PID/stat, as proc(5) numbers its fields. Async-signal-safe, for processes that were forked
 * from one with threads. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mst_proc_stat {
    uint64_t flags;              /* field 9 */
    uint64_t start;              /* 22: in ticks since the machine was started; kept by exec */
    uint64_t env_start, env_end; /* 50, 51; 0: they may not be read, or it is within exec */
};

/* From an open file. False: the process has ended, its zombie included, or this is no such file. */
bool mst_proc_stat_read(int fd, struct mst_proc_stat *out);

/* When the process was started; with its number that tells it from any other. `pid` 0: this one.
 * 0: it has ended, or cannot be looked at. */
uint64_t mst_proc_stat_start(pid_t pid);

#endif
