/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_PROC_STAT_H
#define MST_PROCESS_PROC_STAT_H

/* /proc/PID/stat, as proc(5) numbers its fields. Async-signal-safe, for processes that were forked
 * from one with threads. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "os/folder.h"

struct mst_proc_stat {
    char state;                  /* field 3; '\0': there is no such process */
    pid_t parent;                /* field 4 */
    uint64_t flags;              /* field 9 */
    uint64_t cpu;                /* 14 and 15: the time that it used, in ticks */
    uint64_t start;              /* 22: in ticks since the machine was started; kept by exec */
    uint64_t env_start, env_end; /* 50, 51; 0: they may not be read, or it is within exec */
    int end; /* 52: as waitpid gives it, once it exits; 0 also where it may not be read */
};

/* From an open file. False: the process has ended, its zombie included (also where only its first
 * thread has: then `out` is filled all the same), or this is no such file. */
bool mst_proc_stat_read(int fd, struct mst_proc_stat *out);

/* The same of a process; 0: this one. */
bool mst_proc_stat_of(pid_t pid, struct mst_proc_stat *out);

/* The same of one of its threads. */
bool mst_proc_stat_thread(pid_t pid, uint64_t thread, struct mst_proc_stat *out);

/* The start time of the process; with its number that identifies it. `pid` 0: this one. 0: it has
 * ended, or cannot be looked at. */
uint64_t mst_proc_stat_start(pid_t pid);

/* The next process of the open folder "/proc"; 0: that was the last one. */
pid_t mst_proc_stat_next(struct mst_folder *proc);

#endif
