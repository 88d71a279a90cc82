/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_SIDECAR_HELPER_H
#define MST_CLIENT_SHELL_SIDECAR_HELPER_H

/* The helper of a process that no agent has started (srun, mpirun, a shell): `muster agent` does
 * for this one rank what `muster run` does for all ranks of a node: it notices the death at once,
 * looks for hangs on the progress page, and kills a rank that was replaced.
 *
 * It is not a child that a program could wait for: the process that is spawned ends as soon as the
 * helper runs, and is reaped here. A helper that ends costs nothing; the thread that drives the
 * connection notices and starts the next one, on the same page. */

struct muster_client;
struct mst_lib_helper;

/* At the first run of a function: creates the page, waits until the background thread holds it, and
 * starts the helper. It ends with the client. Where a helper is of no use, exists already or cannot
 * be started, this only logs. Lock held; released while this waits, but closing waits for it. */
void mst_lib_helper_begin(struct muster_client *client);

/* In a forked child: its copies of the descriptors. NULL: no-op. */
void mst_lib_helper_abandon(struct mst_lib_helper *helper);

#endif
