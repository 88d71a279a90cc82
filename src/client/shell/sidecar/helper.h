/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_SIDECAR_HELPER_H
#define MST_CLIENT_SHELL_SIDECAR_HELPER_H

/* The helper of a process that no agent has started (srun, mpirun, a shell): `muster agent` does
 * for this one rank what `muster run` does for all of a node: it knows of the death at once, looks
 * for hangs on the progress page, and kills who was given up.
 *
 * It is nobody's child that a program could wait for: the process that is spawned ends as soon as
 * the helper runs, and is reaped here. A helper that ends costs nothing; whoever drives the
 * connection notices and starts the next one, on the same page. */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct muster_client;
struct mst_lib_helper;

/* At the first run of a function: makes the page, waits until the background thread holds it, and
 * starts the helper. Where one is of no use, or there is one, or it cannot be had, it does nothing
 * but say so. Lock held; it is given up while this waits, but whoever closes the client waits for
 * us.
 */
void mst_lib_helper_begin(struct muster_client *client);

/* What whoever polls the connection looks at as well, and tells mst_lib_helper_turn: something came
 * from it (also its end). NULL: there is no helper; then the descriptor is -1. Lock held. */
struct pollfd mst_lib_helper_interest(const struct mst_lib_helper *helper);
uint64_t mst_lib_helper_deadline_ns(const struct mst_lib_helper *helper); /* UINT64_MAX: never */
void mst_lib_helper_turn(struct muster_client *client, uint64_t now_ns, bool ready);

/* Ends it and waits for its end. The background thread is gone. NULL: no-op. */
void mst_lib_helper_end(struct mst_lib_helper *helper);

/* In a forked child: its copies of the descriptors. NULL: no-op. */
void mst_lib_helper_abandon(struct mst_lib_helper *helper);

/* Their numbers may be other files' by now: they are used no more, nor closed. NULL: no-op. */
void mst_lib_helper_disown(struct mst_lib_helper *helper);

#endif
