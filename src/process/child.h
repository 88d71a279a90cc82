/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_CHILD_H
#define MST_PROCESS_CHILD_H

/* A program that this process starts, waits for and ends. Any thread, and also where the program
 * around us ignores SIGCHLD or waits for all children: then its status is not known. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "process/spawn.h"

struct mst_child {
    pid_t pid; /* 0: there is none, or it was reaped */
    int pidfd; /* -1: the kernel has none */
};

enum mst_child_end {
    MST_CHILD_ENDED,
    MST_CHILD_UNKNOWN, /* it ended, and something else has reaped it */
    MST_CHILD_LATE     /* it did not end in its time, and was killed */
};

/* 0, or an error number as mst_spawn gives it. */
int mst_child_start(struct mst_child *child, const struct mst_spawn *spawn);

/* One that was started otherwise. */
void mst_child_adopt(struct mst_child *child, pid_t pid);

/* Whether it has ended, or does before `until_ns` (monotonic; 0: now) and before `stop_fd` (-1:
 * none) is readable. It stays to be reaped, so its number and its group's remain its own. */
bool mst_child_await(const struct mst_child *child, uint64_t until_ns, int stop_fd);

/* What it writes to the other end of the pipe `fd`: until that is closed, which is true, or `room`
 * bytes were read, or as above. */
bool mst_child_read(int fd, uint64_t until_ns, int stop_fd, char *bytes, size_t room,
                    size_t *size_out);

void mst_child_signal(const struct mst_child *child, int number);

/* Waits for its end, without a limit. False: its status is not known. */
bool mst_child_reap(struct mst_child *child, int *status_out);

/* Waits as above, kills it if it is late, and in any case what is left of its group; reaps it. */
enum mst_child_end mst_child_finish(struct mst_child *child, uint64_t until_ns, int stop_fd,
                                    int *status_out);

#endif
