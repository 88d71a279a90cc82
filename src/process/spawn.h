/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_SPAWN_H
#define MST_PROCESS_SPAWN_H

/* Starting a process so that it cannot outlive this one, in a process group of its own, so that a
 * Ctrl-C at the terminal reaches it only through us and so that we can end its children with it. */

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct mst_spawn {
    const char *path; /* of the file, as mst_spawn_find gave it */
    char *const *arguments;
    char *const *environment;
    int input;        /* 0: /dev/null */
    int out, error;   /* its standard output and error; -1: ours */
    int keep[2];      /* more descriptors, inherited under the same numbers; -1: none */
    int death_signal; /* that it gets when this process dies; 0: none */
    bool dump;        /* it may leave core dumps, as far as we may */
};

/* Where the shell would find `program`: 0, ENOENT, or EACCES when it is there and not executable.
 */
int mst_spawn_find(const char *program, char path[PATH_MAX]);

/* 0, or the error number of what failed, execve included. Only from the main thread: the kernel
 * kills the child when the *thread* that started it ends. */
int mst_spawn(const struct mst_spawn *spawn, pid_t *pid_out);

#endif
