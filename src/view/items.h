/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_ITEMS_H
#define MST_VIEW_ITEMS_H

/* The items of replies, kept beyond them: everything an item borrows is copied, and every text gets
 * a NUL behind it. Zeroed: empty. */

#include <stdbool.h>
#include <stddef.h>

#include "proto/reply.h"

struct mst_items_block;

struct mst_items {
    struct mst_item *items;
    size_t count, room;
    struct mst_items_block *blocks; /* the bytes they point to */
    int64_t number;                 /* of the reply they came with */
    struct mst_slice value;         /* and its bytes, a text */
};

/* Appends copies. False: no memory, and nothing was appended. */
bool mst_items_add(struct mst_items *items, const struct mst_item *from, size_t count);
/* Keeps a copy of the reply's bytes; those of an earlier page too, until the end. False: no memory.
 */
bool mst_items_value(struct mst_items *items, struct mst_slice value);

void mst_items_fini(struct mst_items *items);

#endif
