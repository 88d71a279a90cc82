/* SPDX-License-Identifier: Apache-2.0 */
#include "view/front_waits.h"

#include <stdlib.h>

#include "proto/run_keys.h"

static bool add(struct mst_front_waits *waits, size_t *room, const struct mst_front_waiter *waiter)
{
    if (waits->count == *room) {
        size_t more = *room > 0 ? 2 * *room : 16;
        struct mst_front_waiter *grown = realloc(waits->list, more * sizeof *grown);

        if (!grown) {
            return false;
        }
        waits->list = grown;
        *room = more;
    }
    waits->list[waits->count++] = *waiter;
    return true;
}

static bool add_key(const struct mst_item *key, struct mst_front_waits *waits, size_t *room)
{
    struct mst_slice value = key->value;
    struct mst_run_front_wait one;

    while (key->kind == MST_ITEM_KEY && mst_run_front_wait_take(&value, &one)) {
        const struct mst_front_waiter waiter = {
            .index = one.index == MST_RUN_NO_INDEX ? MST_INDEX_ANY : one.index,
            .pid = one.pid,
            .for_ms = one.for_ms + key->number,
            .what = one.what};

        waits->more += one.more;
        if (one.more == 0 && !add(waits, room, &waiter)) {
            return false;
        }
    }
    return true;
}

static int order(const void *a, const void *b)
{
    const struct mst_front_waiter *left = a, *right = b;

    if (left->index != right->index) {
        return left->index < right->index ? -1 : 1;
    }
    return (left->for_ms < right->for_ms) - (left->for_ms > right->for_ms);
}

bool mst_front_waits_of(const struct mst_status *status, struct mst_front_waits *out)
{
    size_t room = 0;

    *out = (struct mst_front_waits){.count = 0};
    for (size_t i = 0; i < status->front_waits.count; i++) {
        if (!add_key(&status->front_waits.items[i], out, &room)) {
            free(out->list);
            *out = (struct mst_front_waits){.count = 0};
            return false;
        }
    }
    if (out->count > 0) {
        qsort(out->list, out->count, sizeof *out->list, order);
    }
    return true;
}

static int compare(const void *key, const void *element)
{
    const uint32_t *index = key;
    const struct mst_front_waiter *waiter = element;

    return (*index > waiter->index) - (*index < waiter->index);
}

bool mst_front_waits_has(const struct mst_front_waits *waits, uint32_t index)
{
    return waits->count > 0 &&
           bsearch(&index, waits->list, waits->count, sizeof *waits->list, compare) != NULL;
}
