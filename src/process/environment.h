/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_ENVIRONMENT_H
#define MST_PROCESS_ENVIRONMENT_H

/* The environment of a process to be started: a copy of ours with changes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

struct mst_environment {
    char **entries; /* as execve takes them */
    size_t count, room;
};

/* ENOMEM. */
muster_status mst_environment_init(struct mst_environment *environment, char *const *from);
void mst_environment_fini(struct mst_environment *environment);

/* NULL: not set. */
const char *mst_environment_get(const struct mst_environment *environment, const char *name);

/* Takes out the entries ("NAME=value") that `is` says. */
void mst_environment_drop(struct mst_environment *environment, bool (*is)(const char *entry));

/* A `value` of NULL takes the variable out. ENOMEM. */
muster_status mst_environment_set(struct mst_environment *environment, const char *name,
                                  const char *value);
muster_status mst_environment_number(struct mst_environment *environment, const char *name,
                                     uint64_t value);

#endif
