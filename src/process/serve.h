/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_SERVE_H
#define MST_PROCESS_SERVE_H

/* `muster serve` as a child. What it reads is a pipe of ours: a byte there stops it, and so does
 * the end of this process, however that comes. */

#include <stdbool.h>

#include "process/child.h"

enum { MST_SERVE_FLAGS_MAX = 24 };

struct mst_serve {
    const char *program; /* `muster` */
    const char *name;    /* as which it runs; NULL: that */
    const char *addr;
    const char *const *flags; /* further ones; NULL at the end */
    char *const *environment;
    struct mst_spawn_given given[MST_SPAWN_GIVEN_MAX];
    bool detaches; /* it has --background: it reads nothing, and the child ends once it serves */
    bool tied;     /* by mst_spawn_tied, without a core; else by mst_spawn */
};

struct mst_served {
    struct mst_child child;
    int line; /* our end of the pipe; -1: none */
};

/* 0, or the error number. */
int mst_serve(struct mst_served *served, const struct mst_serve *how);

#endif
