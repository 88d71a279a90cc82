/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_COUNTED_MEM_H
#define FUZZ_COUNTED_MEM_H

/* An allocator that knows how many bytes are out, and that fails on order. */

#include "base/mem.h"

struct counted_mem {
    struct mst_mem mem;
    size_t live, peak;  /* bytes asked for and not given back; the most there ever were */
    size_t count;       /* allocations */
    size_t fail_at;     /* the one of this number has no memory; 0: none */
    unsigned char fill; /* of new memory: what is used without being set is another state */
};

void counted_mem_init(struct counted_mem *counted, unsigned char fill);

#endif
