/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_SHELL_ATOMIC_H
#define MST_RESTART_SHELL_ATOMIC_H

/* Whether the function was told to stop, and whether it is inside an atomic section, in one word:
 * so the two cannot cross. Either the section was entered first, then what is told stays hidden
 * until its end, nobody cuts a call in it short, and who must wait for the end sleeps; or the word
 * came first, then the section is not entered.
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

/* A new attempt: not told, in no section. Nobody waits. */
void mst_atomic_reset(struct mst_atomic *atomic);

/* From any thread. */
void mst_atomic_tell(struct mst_atomic *atomic);

/* Told, and in no section that hides it. */
static inline bool mst_atomic_told(const struct mst_atomic *atomic)
{
    return atomic_load_explicit(&atomic->word, memory_order_acquire) == MST_ATOMIC_TOLD;
}

bool mst_atomic_inside(const struct mst_atomic *atomic);

/* The function's thread. OK; EINTERRUPTED: not entered, the word came first; ELIMIT. */
muster_status mst_atomic_begin(struct mst_atomic *atomic);

/* The function's thread. OK; EINTERRUPTED: left, and the word came meanwhile; EINVAL: in none. */
muster_status mst_atomic_end(struct mst_atomic *atomic);

/* The function has returned: whatever it left open is ended. */
void mst_atomic_close(struct mst_atomic *atomic);

/* After it was told: sleeps until the function is in no section. Any thread. */
void mst_atomic_wait(struct mst_atomic *atomic);

#endif
