/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_ENVIRONMENT_H
#define MST_CLIENT_SHELL_ENVIRONMENT_H

#include "process/environment.h"

/* The library both reads the environment and, in a run, writes RANK and WORLD_SIZE: never at once,
 * also in two threads. The program must order its own threads' accesses. */
void mst_environment_lock(void);
void mst_environment_unlock(void);

/* As it is now, for a process to be started. Lock not held. ENOMEM. */
muster_status mst_environment_copy(struct mst_environment *out);

/* restart/shell/export.c: getenv, but as if no run had written RANK and WORLD_SIZE: those are the
 * place of a function, not of this process. Lock held; borrowed until it is released. */
const char *mst_environment_before(const char *name);

/* MUSTER_<NAME>, or NULL when it is not set or empty. Borrowed from the environment. Lock not held.
 */
const char *mst_lib_setting_text(const char *name);

#endif
