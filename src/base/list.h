/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_LIST_H
#define MST_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/panic.h"

/* An intrusive doubly linked ring. A head is a node whose ring holds the others; a zeroed node is
 * in no list, and removing it is a no-op, so owners need not remember whether they are linked. */
struct mst_list {
    struct mst_list *next;
    struct mst_list *prev;
};

static inline void mst_list_init(struct mst_list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool mst_list_empty(const struct mst_list *head)
{
    return head->next == head;
}

static inline bool mst_list_linked(const struct mst_list *node)
{
    return node->next != NULL;
}

static inline void mst_list_append(struct mst_list *head, struct mst_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void mst_list_remove(struct mst_list *node)
{
    if (node->next) {
        node->next->prev = node->prev;
        node->prev->next = node->next;
        node->next = NULL;
        node->prev = NULL;
    }
}

/* All of `others` become the first of the list. */
static inline void mst_list_put_before(struct mst_list *head, struct mst_list *others)
{
    if (!mst_list_empty(others)) {
        others->prev->next = head->next;
        head->next->prev = others->prev;
        others->next->prev = head;
        head->next = others->next;
        mst_list_init(others);
    }
}

/* The first node, taken out; NULL when the list is empty. */
static inline struct mst_list *mst_list_take(struct mst_list *head)
{
    struct mst_list *node = head->next;

    if (node == head) {
        return NULL;
    }
    mst_list_remove(node);
    return node;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): a declared name cannot be in parentheses. */
/* Walk; `node` may be removed while it is the current one. */
#define MST_LIST_EACH(node, following, head)                                                       \
    for (struct mst_list *node = (head)->next, *following = node->next; node != (head);            \
         node = following, following = node->next)

/* Walk over the objects that the nodes are the `member` of; likewise. */
#define MST_EACH(item, head, type, member)                                                         \
    for (type *item = MST_CONTAINER((head)->next, type, member),                                   \
              *item##_next = MST_CONTAINER(item->member.next, type, member);                       \
         &item->member != (head);                                                                  \
         item = item##_next, item##_next = MST_CONTAINER(item->member.next, type, member))
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
