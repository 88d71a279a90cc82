/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_DEATH_H
#define MST_PROCESS_DEATH_H

/* The agent's waiter: it watches many progress pages and tells at once whose holder died, 0.15 ms
 * after a SIGKILL whatever the size of the process, before its memory is torn down.
 *
 * It must be the only waiter of a page: the kernel wakes one. A holder that released the page, or
 * never took it, is no death, and neither is a stopped one; a core dump is told only after the
 * dump. */

#include <stdint.h>

#include "process/page.h"

struct mst_death;

/* The holder of the page added under `tag` died. On a thread of the waiter, with its short slice;
 * it may call add and remove. The page is no longer watched. */
typedef void mst_death_fn(void *ctx, uint64_t tag);

enum mst_death_way {
    MST_DEATH_BEST = 0,    /* many pages per thread where the kernel can, since Linux 5.16 */
    MST_DEATH_ONE_EACH = 1 /* one thread per page, on any kernel */
};

/* The word of an own page added to what the thread waits for makes one call full at 128 words. */
#define MST_DEATH_PAGES_MAX 127u

/* Whether the kernel lets a thread wait for many pages. */
bool mst_death_many_at_once(void);

/* ENOMEM. */
muster_status mst_death_new(struct mst_death **out, mst_death_fn *told, void *ctx,
                            enum mst_death_way way);

/* Stops all threads; nothing is told afterwards. Not from `told`. NULL: no-op. */
void mst_death_free(struct mst_death *death);

/* Watches `page` under a tag that is not in use. The page must live until it is removed, or until
 * `told` was called for it. ENOMEM, or EFAILED when the system gives no thread. Thread: any. */
muster_status mst_death_add(struct mst_death *death, uint64_t tag, struct mst_page *page);

/* When it returns, the page is not looked at any more, and `told` is not running for it and will
 * not be called. From `told` itself it does not wait. An unknown tag is a no-op. Thread: any. */
void mst_death_remove(struct mst_death *death, uint64_t tag);

/* How many threads there are; for tests. */
unsigned mst_death_threads(struct mst_death *death);

#endif
