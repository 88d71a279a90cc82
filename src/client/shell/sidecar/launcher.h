/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_SIDECAR_LAUNCHER_H
#define MST_CLIENT_SHELL_SIDECAR_LAUNCHER_H

#include <stdint.h>
#include <sys/types.h>

/* The launcher's process: the nearest ancestor of this one that does not have `variable` with this
 * one's value. It distinguishes two jobs of a launcher that gives them no name. `started`, in ticks
 * since the boot, distinguishes pids that were reused, or are of another container. */
struct mst_lib_launcher {
    pid_t pid;
    uint64_t started;
};
struct mst_lib_launcher mst_lib_launcher(const char *variable);

#endif
