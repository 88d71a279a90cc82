/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_SIDECAR_SERVE_H
#define MST_CLIENT_SHELL_SIDECAR_SERVE_H

/* Starting `muster serve` from a program. */

#include <stdint.h>
#include <sys/types.h>

#include "muster/status.h"
#include "net/socket_dir.h"
#include "process/serve.h"

#define MST_LIB_PROGRAM_ROOM 4096
#define MST_LIB_ADDR_ROOM (MST_SOCKET_PATH_MAX + 8) /* "unix:PATH" */
#define MST_LIB_ALONE_JOB_ROOM 40

/* The path of `muster`: $MUSTER_PROGRAM; in the bin folder beside the folder of this library, or in
 * the latter; where `make install` put it; else the name, for the PATH. */
void mst_lib_program(char path[MST_LIB_PROGRAM_ROOM]);

/* process/serve.h with the environment of the program. 0 or an errno. */
int mst_lib_serve(struct mst_served *served, const char *program, const char *addr,
                  const char *const *flags, bool detaches);

/* Ensures that a service listens at the socket of `job` in the user's runtime directory: one for
 * all the ranks of this machine. The first rank starts it, and says so in one line on stderr with
 * `whose`; it ends by itself when its last session is over. `addr`: its address. EUNREACHABLE,
 * EINVAL. */
muster_status mst_lib_share(const char *job, const char *whose, uint64_t deadline_ns,
                            char addr[MST_LIB_ADDR_ROOM], struct muster_error *err);

struct mst_lib_alone;

/* Starts a service for this process alone: its address, and the job under which the commands find
 * it. */
muster_status mst_lib_alone_start(struct mst_lib_alone **out, char job[MST_LIB_ALONE_JOB_ROOM],
                                  char addr[MST_LIB_ADDR_ROOM], struct muster_error *err);
/* Whether the service is still running; false: `err` says how it ended. */
bool mst_lib_alone_runs(struct mst_lib_alone *alone, struct muster_error *err);
/* NULL: a no-op in these. */
void mst_lib_alone_stop(struct mst_lib_alone *alone);
void mst_lib_alone_abandon(struct mst_lib_alone *alone); /* in a forked child */
void mst_lib_alone_disown(struct mst_lib_alone *alone);  /* the program has closed them */

#endif
