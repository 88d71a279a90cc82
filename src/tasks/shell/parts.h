/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_PARTS_H
#define MST_TASKS_SHELL_PARTS_H

/* Lists of parts at the edge of the library. A user's part is ours under its public name, so a list
 * is lent in either direction without a copy. A copy that is kept is one piece of memory. */

#include "muster/cluster.h"
#include "proto/cluster.h"

_Static_assert(sizeof(struct muster_part) == sizeof(struct mst_part) &&
                   offsetof(struct muster_part, size) ==
                       offsetof(struct mst_part, data) + offsetof(struct mst_slice, size) &&
                   offsetof(struct muster_part, type) == offsetof(struct mst_part, type),
               "a struct mst_part is a struct muster_part");

static inline struct mst_parts mst_parts_lend(const struct muster_part *parts, size_t count)
{
    return (struct mst_parts){.items = (const struct mst_part *)(const void *)parts,
                              .count = (uint32_t)count};
}

static inline const struct muster_part *mst_parts_public(struct mst_parts parts)
{
    return (const struct muster_part *)(const void *)parts.items;
}

static inline size_t mst_align8(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

/* The size of a copy. The bytes of each part begin at a multiple of 8, if `room` does. */
size_t mst_parts_room(struct mst_parts parts);
struct mst_parts mst_parts_keep(void *room, struct mst_parts parts);

#endif
