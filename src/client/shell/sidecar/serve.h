/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_SIDECAR_SERVE_H
#define MST_CLIENT_SHELL_SIDECAR_SERVE_H

/* Starting `muster serve` from a program. */

#include <stdint.h>
#include <sys/types.h>

#include "muster/status.h"
#include "process/serve.h"

#define MST_LIB_PROGRAM_ROOM 4096

/* Where `muster` is: $MUSTER_PROGRAM; the bin folder beside the one this library lies in, or that
 * folder's own; where `make install` put it; else whatever the PATH has. */
void mst_lib_program(char path[MST_LIB_PROGRAM_ROOM]);

/* process/serve.h with the environment of the program. 0 or an errno. */
int mst_lib_serve(struct mst_served *served, const char *program, const char *addr,
                  const char *const *flags, bool detaches);

/* Sees to it that a service listens at the socket of `job` in the user's runtime directory: one for
 * all the ranks of this machine. Who comes first starts it, and says so in one line on stderr with
 * `whose`; it ends by itself when its last session is over. `*addr_out` is its address and the
 * caller's. EUNREACHABLE, EINVAL, ENOMEM with `err` filled. */
muster_status mst_lib_share(const char *job, const char *whose, uint64_t deadline_ns,
                            char **addr_out, struct muster_error *err);

#endif
