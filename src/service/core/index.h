/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_INDEX_H
#define MST_SERVICE_CORE_INDEX_H

/* An ordered set of records by one or two numbers. The entry in the record holds the numbers. */

#include <stdint.h>

#include "base/tree.h"

struct mst_index_node {
    struct mst_tree_node node;
    uint64_t high, low;
};

void mst_index_init(struct mst_tree *index);

/* False, and nothing done: another entry has these numbers. Put: none has. */
bool mst_index_try(struct mst_tree *index, struct mst_index_node *entry, uint64_t high,
                   uint64_t low);
void mst_index_put(struct mst_tree *index, struct mst_index_node *entry, uint64_t high,
                   uint64_t low);
/* A no-op for an entry that is in no set. */
void mst_index_remove(struct mst_tree *index, struct mst_index_node *entry);
bool mst_index_linked(const struct mst_index_node *entry);

/* The entry of these numbers; the first at or after them; NULL: none. */
struct mst_index_node *mst_index_find(const struct mst_tree *index, uint64_t high, uint64_t low);
struct mst_index_node *mst_index_from(const struct mst_tree *index, uint64_t high, uint64_t low);
struct mst_index_node *mst_index_first(const struct mst_tree *index);
struct mst_index_node *mst_index_next(const struct mst_index_node *entry);

#endif
