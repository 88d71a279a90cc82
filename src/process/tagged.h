/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_TAGGED_H
#define MST_PROCESS_TAGGED_H

/* The processes of a run, wherever they went. A wrapper (timeout, setsid, an interactive shell)
 * puts a rank into a process group or a session of its own, and a daemon gets another parent. All
 * of them inherit a variable that names the run and the process it started; so they are found by
 * their environment. One that has cleared or overwritten that is found if it has a progress page,
 * by the time at which it was started, or if it is still in the process group of what the run
 * started. No cgroup: few places let a user make one. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MST_TAG_VARIABLE "MUSTER_PROCESS_TAG"
#define MST_TAG_ROOM 64

/* The value of the variable for a process of the run that has this number, a random one. */
void mst_tag_text(uint64_t run, uint32_t index, uint32_t attempt, char text[MST_TAG_ROOM]);

/* Keeps some descriptors back: the functions below need a few, and find and signal no process
 * without. Before there are threads; a forked process has them as well. */
void mst_tagged_reserve(void);

/* Sends a signal to `pid` if it was started at `start` (process/proc_stat.h; 0: not known) or has
 * that tag: a number may be another process's by now. */
bool mst_tagged_signal(pid_t pid, uint64_t start, const char *tag, int number);

/* Kills all of the run that `doomed` says, until there are no more of them. Allocates nothing. */
typedef bool mst_tagged_doomed_fn(void *ctx, uint32_t index, uint32_t attempt);
void mst_tagged_kill(uint64_t run, mst_tagged_doomed_fn *doomed, void *ctx);

#endif
