/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "restart/shell/atomic.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH_MAX = 1 << 20 };

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(int), "a futex word is an int");

static uint32_t depth_of(uint32_t word)
{
    return word & ~MST_ATOMIC_TOLD;
}

static void wake(struct mst_atomic *atomic)
{
    (void)syscall(SYS_futex, &atomic->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void mst_atomic_reset(struct mst_atomic *atomic)
{
    atomic_store(&atomic->word, 0);
}

void mst_atomic_tell(struct mst_atomic *atomic)
{
    (void)atomic_fetch_or(&atomic->word, MST_ATOMIC_TOLD);
}

bool mst_atomic_inside(const struct mst_atomic *atomic)
{
    return depth_of(atomic_load(&atomic->word)) > 0;
}

muster_status mst_atomic_begin(struct mst_atomic *atomic)
{
    uint32_t word = atomic_load_explicit(&atomic->word, memory_order_relaxed);

    do {
        if (word == MST_ATOMIC_TOLD) {
            return MUSTER_EINTERRUPTED;
        }
        if (depth_of(word) >= DEPTH_MAX) {
            return MUSTER_ELIMIT;
        }
    } while (!atomic_compare_exchange_weak(&atomic->word, &word, word + 1));
    return MUSTER_OK;
}

muster_status mst_atomic_end(struct mst_atomic *atomic)
{
    uint32_t word = atomic_load_explicit(&atomic->word, memory_order_relaxed);

    do {
        if (depth_of(word) == 0) {
            return MUSTER_EINVAL;
        }
    } while (!atomic_compare_exchange_weak(&atomic->word, &word, word - 1));
    if (word - 1 != MST_ATOMIC_TOLD) {
        return MUSTER_OK;
    }
    wake(atomic);
    return MUSTER_EINTERRUPTED;
}

void mst_atomic_close(struct mst_atomic *atomic)
{
    if (depth_of(atomic_fetch_and(&atomic->word, MST_ATOMIC_TOLD)) > 0) {
        wake(atomic);
    }
}

void mst_atomic_wait(struct mst_atomic *atomic)
{
    uint32_t word;

    /* The end of the outermost section wakes only if TOLD is set: it was, before this. */
    while (depth_of(word = atomic_load(&atomic->word)) > 0) {
        (void)syscall(SYS_futex, &atomic->word, FUTEX_WAIT_PRIVATE, word, NULL, NULL, 0);
    }
}
