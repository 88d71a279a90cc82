/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_FORKED_H
#define MST_PROCESS_FORKED_H

/* The steps of a process that was forked from one that may have threads: async-signal-safe, which
 * tools/tidy checks. */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "process/spawn.h"

/* fork with all signals blocked, also in the child: no handler of ours runs there. `before`: what
 * was blocked, which the parent has again; NULL: not needed. */
pid_t mst_forked(sigset_t *before);

/* This process gets `number` when `parent` dies. False: it is dead already, or that cannot be. */
bool mst_forked_dies_with(pid_t parent, int number);

/* `fd` under that number, and kept by exec. */
bool mst_forked_keep(int fd, int number);

/* Files of that number and above are closed by exec. */
void mst_forked_close_on_exec(int first);

/* Before exec: handlers must not run in the program, and what we ignore or block is no business of
 * it; what our own caller ignores (nohup) stays so. */
void mst_forked_signals(void);

/* To the group of a child that is not reaped; to itself if it does not lead one yet. */
void mst_forked_kill_group(pid_t pid, int number);

/* What mst_spawn_tied does in the child. */
struct mst_forked_tie {
    pid_t parent;
    int signal, report; /* gets the error number of what failed */
    bool dump;
};
_Noreturn void mst_forked_exec(const struct mst_spawn *spawn, const char *path,
                               const struct mst_forked_tie *tie);

#endif
