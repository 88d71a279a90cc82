/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_PTY_H
#define MST_PROCESS_PTY_H

/* A terminal of its own for a process that we stand around, of the size and in the modes of ours.
 */

/* Returns our side, close-on-exec and non-blocking, which reads what the process writes; `out` is
 * the side of the process. -1 with errno. */
int mst_pty_open(int terminal, int *out);

/* Takes over the size. If it is another one, the kernel sends SIGWINCH to the foreground there. */
void mst_pty_resize(int pty, int terminal);

#endif
