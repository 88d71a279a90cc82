/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/reserve.h"

#include <stdlib.h>
#include <uv.h>

#define BLOCK_BYTES 4096u /* small enough for the holes that deleted keys leave */
#define GIVEN_MOST 65536u /* at a time */

/* The reserve of the one service in this process: the allocator of libuv has no context. */
static struct mst_uv_reserve *of_loop;

/* False: the reserve is empty already. */
static bool give_up(struct mst_uv_reserve *reserve)
{
    bool some = reserve->count > 0;

    while (reserve->count > 0) {
        free(reserve->blocks[--reserve->count]);
    }
    return some;
}

static void *take(void *ctx, size_t size)
{
    struct mst_uv_reserve *reserve = ctx;
    void *p = NULL;

    if (!reserve->storing || reserve->count == MST_UV_RESERVE_BLOCKS) {
        p = malloc(size);
    }
    if (!p && !reserve->storing && size <= GIVEN_MOST && give_up(reserve)) {
        p = malloc(size);
    }
    return p;
}

static void put_back(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* The loop's table of descriptors, which it cannot do without. */
static void *loop_realloc(void *old, size_t size)
{
    void *p = realloc(old, size);

    if (!p && size > 0 && of_loop && give_up(of_loop)) {
        p = realloc(old, size);
    }
    return p;
}

struct mst_mem mst_uv_reserve_init(struct mst_uv_reserve *reserve)
{
    *reserve = (struct mst_uv_reserve){0};
    mst_uv_reserve_refill(reserve);
    of_loop = reserve;
    (void)uv_replace_allocator(malloc, loop_realloc, calloc, free);
    return (struct mst_mem){.ctx = reserve, .alloc = take, .release = put_back};
}

void mst_uv_reserve_fini(struct mst_uv_reserve *reserve)
{
    (void)give_up(reserve);
    of_loop = NULL;
}

void mst_uv_reserve_refill(struct mst_uv_reserve *reserve)
{
    while (reserve->count < MST_UV_RESERVE_BLOCKS) {
        void *block = malloc(BLOCK_BYTES);

        if (!block) {
            return;
        }
        reserve->blocks[reserve->count++] = block;
    }
}
