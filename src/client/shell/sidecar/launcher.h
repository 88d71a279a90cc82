/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_SIDECAR_LAUNCHER_H
#define MST_CLIENT_SHELL_SIDECAR_LAUNCHER_H

#include <stdint.h>
#include <sys/types.h>

/* The launcher's process: the nearest ancestor of this one that does not have `variable` with this
 * one's value. It tells two jobs of a launcher apart that names none; its start, in ticks since the
 * boot, also where a number is used again, or means another process in another container. */
struct mst_lib_launcher {
    pid_t pid;
    uint64_t started;
};
struct mst_lib_launcher mst_lib_launcher(const char *variable);

#endif
