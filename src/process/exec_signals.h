/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_EXEC_SIGNALS_H
#define MST_PROCESS_EXEC_SIGNALS_H

/* In a child between fork and exec; system calls only. Handlers of ours must not run in it, and
 * what we ignore or block is no business of the program; what our own caller ignores (nohup) stays
 * so. */
void mst_exec_signals(void);

#endif
