/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_SHORT_SLICE_H
#define MST_OS_SHORT_SLICE_H

#include <stdbool.h>

/* Asks the scheduler for a short time slice for the calling thread, at its nice value. A thread
 * that wakes up on the CPU where a killed process frees its memory otherwise waits for that
 * process's whole slice, 3 ms and more; with a short slice of its own it is let in at once. Needs
 * no privilege; honoured since Linux 6.12, and where it is not, nothing but the wake-up is later.
 */
void mst_short_slice(void);

/* Whether the calling thread runs with the short slice. */
bool mst_short_slice_works(void);

#endif
