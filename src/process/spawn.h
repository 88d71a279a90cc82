/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_SPAWN_H
#define MST_PROCESS_SPAWN_H

/* Starting a program. It leads a process group of its own, so that a Ctrl-C at the terminal reaches
 * it only through us and so that its children can be ended with it; no signal is blocked in it, and
 * no handler of ours runs in it. */

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum {
    MST_SPAWN_OURS = -1,    /* it inherits the stream */
    MST_SPAWN_NOWHERE = -2, /* /dev/null */
    MST_SPAWN_GIVEN_MAX = 4
};

/* An open file, and the number under which it has it. -1: none. */
struct mst_spawn_given {
    int fd, number;
};

struct mst_cpus; /* binding.h */

struct mst_spawn {
    const char *program; /* a path, or a name, which is looked for in the PATH that it gets */
    char *const *arguments;
    char *const *environment;
    int input, out, error;                             /* its streams: an open file, or as above */
    struct mst_spawn_given given[MST_SPAWN_GIVEN_MAX]; /* number 0: no more of them */
    bool session;                                      /* it leads a session of its own too */
    const struct mst_cpus *cpus; /* of mst_spawn_tied: those it may use; NULL: ours */
    int terminal;                /* that session's, by mst_spawn_tied; 0: it has none */
    bool deaf; /* SIGTERM, which a scheduler sends to all processes of a job, does not end it */
    bool bare; /* it gets nothing else, also where our file is not close-on-exec */
};

/* Where the shell would find `program`: 0, ENOENT, or EACCES when it is there and not executable.
 */
int mst_spawn_find(const char *program, char path[PATH_MAX]);

/* 0, or the error number of what failed, exec included. All signals are at their default in it.
 * By posix_spawn: no memory of a large process is copied, and no handler of pthread_atfork runs. */
int mst_spawn(const struct mst_spawn *spawn, pid_t *pid_out);

/* The same by fork, for a process that does not outlive this one: it gets `death_signal` when this
 * one dies (0: none), and does not run where that has happened already. Only from the main thread:
 * the kernel sends that signal when the *thread* that started it ends. Signals that our own caller
 * ignores (nohup) it ignores too. Without `dump` it leaves no core. */
int mst_spawn_tied(const struct mst_spawn *spawn, int death_signal, bool dump, pid_t *pid_out);

#endif
