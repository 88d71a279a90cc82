/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_NAMED_H
#define MST_SERVICE_CORE_NAMED_H

/* Records with a name: found by it, and listed in the order they came. Such a record begins with a
 * struct mst_named; the bytes of its name follow it in the same memory. */

#include "base/list.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/tree.h"

struct mst_named {
    struct mst_tree_node node;
    struct mst_list in_list;
    struct mst_slice name;
};

struct mst_names {
    struct mst_tree tree;
    struct mst_list list;
};

void mst_names_init(struct mst_names *names);

/* A zeroed record of `size` bytes, in no set yet; NULL: no memory. */
void *mst_named_new(const struct mst_mem *mem, size_t size, struct mst_slice name);

/* The record becomes the last one. No other one there has its name. */
void mst_named_add(struct mst_names *names, struct mst_named *named);
void mst_named_remove(struct mst_names *names, struct mst_named *named);
bool mst_named_added(const struct mst_named *named);

/* A record; NULL: none. */
void *mst_named_find(const struct mst_names *names, struct mst_slice name);
void *mst_named_first(const struct mst_names *names);
void *mst_named_next(const struct mst_names *names, const struct mst_named *named);

/* NOLINTBEGIN(bugprone-macro-parentheses): a declared name cannot be in parentheses. */
#define MST_NAMED_EACH(type, record, names)                                                        \
    for (type *record = mst_named_first(names); record;                                            \
         record = mst_named_next(names, &record->named))
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
