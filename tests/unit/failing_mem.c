/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_mem.h"

#include <stdlib.h>
#include <string.h>

static void *alloc(void *ctx, size_t size)
{
    struct failing_mem *failing = ctx;
    void *p;

    if (++failing->count == failing->fail_at) {
        failing->failed = true;
        return NULL;
    }
    p = malloc(size > 0 ? size : 1);
    if (!p) {
        abort();
    }
    memset(p, 0xa5, size); /* who forgets to initialise is noticed */
    failing->live++;
    failing->bytes += size;
    return p;
}

static void release(void *ctx, void *p)
{
    struct failing_mem *failing = ctx;

    if (p) {
        if (failing->live == 0) {
            abort();
        }
        failing->live--;
        free(p);
    }
}

void failing_mem_init(struct failing_mem *failing, size_t fail_at)
{
    *failing = (struct failing_mem){.fail_at = fail_at};
    failing->mem = (struct mst_mem){.ctx = failing, .alloc = alloc, .release = release};
}
