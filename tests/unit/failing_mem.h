/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAILING_MEM_H
#define FAILING_MEM_H

/* An allocator that fails one chosen allocation and counts what is not given back. A scenario is
 * run again and again, failing its first, second, third... allocation, until one run did not fail.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct failing_mem {
    size_t live;    /* allocations not released */
    size_t bytes;   /* asked for, ever */
    size_t count;   /* allocations asked for, the failed one included */
    size_t fail_at; /* the allocation that fails, from 1; 0: none */
    bool failed;    /* it did */
    struct mst_mem mem;
};

/* `failing` must stay where it is: `mem.ctx` points at it. */
void failing_mem_init(struct failing_mem *failing, size_t fail_at);

#endif
