/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_SHELL_ATOMIC_H
#define MST_RESTART_SHELL_ATOMIC_H

/* Whether the function was interrupted, and whether it is inside an atomic section, in one word: so
 * the two cannot cross. Either the section was entered first: then the interruption stays hidden
 * until its end, no call in it is cut short, and a thread that needs the end sleeps. Or the
 * interruption came first: then the section is not entered.
 *
 *   bit 31: told      bits 0-30: how deep the sections are nested */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

struct mst_atomic {
    _Atomic uint32_t word;
};

#define MST_ATOMIC_TOLD (UINT32_C(1) << 31)

/* A new attempt: not interrupted, in no section. No thread waits. */
void mst_atomic_reset(struct mst_atomic *atomic);

/* From any thread. */
void mst_atomic_tell(struct mst_atomic *atomic);

/* Interrupted, and in no section that hides it. */
static inline bool mst_atomic_told(const struct mst_atomic *atomic)
{
    return atomic_load_explicit(&atomic->word, memory_order_acquire) == MST_ATOMIC_TOLD;
}

bool mst_atomic_inside(const struct mst_atomic *atomic);

/* The function's thread. OK; EINTERRUPTED: not entered, the interruption came first; ELIMIT. */
muster_status mst_atomic_begin(struct mst_atomic *atomic);

/* The function's thread. OK; EINTERRUPTED: left, and the interruption came meanwhile; EINVAL: in
 * none. */
muster_status mst_atomic_end(struct mst_atomic *atomic);

/* The function has returned: whatever it left open is ended. */
void mst_atomic_close(struct mst_atomic *atomic);

/* After mst_atomic_tell: sleeps until the function is in no section. Any thread. */
void mst_atomic_wait(struct mst_atomic *atomic);

#endif
