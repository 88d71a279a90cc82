/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/named.h"

#include <string.h>

#include "service/core/part.h"

static int order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_slice *name = key;

    return mst_slice_compare(*name, MST_CONTAINER_CONST(node, struct mst_named, node)->name);
}

void mst_names_init(struct mst_names *names)
{
    mst_tree_init(&names->tree, order);
    mst_list_init(&names->list);
}

void *mst_named_new(const struct mst_mem *mem, size_t size, struct mst_slice name)
{
    struct mst_named *named = mst_mem_zalloc(mem, size + name.size);
    char *bytes;

    if (!named) {
        return NULL;
    }
    bytes = (char *)named + size;
    if (name.size > 0) {
        memcpy(bytes, name.data, name.size);
    }
    named->name = mst_slice_of(bytes, name.size);
    return named;
}

void mst_named_add(struct mst_names *names, struct mst_named *named)
{
    bool fresh = mst_tree_insert(&names->tree, &named->name, &named->node);

    MST_ASSERT(fresh);
    mst_list_append(&names->list, &named->in_list);
}

void mst_named_remove(struct mst_names *names, struct mst_named *named)
{
    mst_tree_remove(&names->tree, &named->node);
    mst_list_remove(&named->in_list);
}

bool mst_named_added(const struct mst_named *named)
{
    return mst_list_linked(&named->in_list);
}

void *mst_named_find(const struct mst_names *names, struct mst_slice name)
{
    return MST_CONTAINER_OR_NULL(mst_tree_find(&names->tree, &name), struct mst_named, node);
}

static void *in_list(const struct mst_names *names, struct mst_list *node)
{
    return node != &names->list ? MST_CONTAINER(node, struct mst_named, in_list) : NULL;
}

void *mst_named_first(const struct mst_names *names)
{
    return in_list(names, names->list.next);
}

void *mst_named_next(const struct mst_names *names, const struct mst_named *named)
{
    return in_list(names, named->in_list.next);
}
