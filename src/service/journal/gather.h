/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_GATHER_H
#define MST_SERVICE_JOURNAL_GATHER_H

/* A frame while its records are gathered: room for its head, the records, room to align. */

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "service/journal/format.h"

struct mst_gather {
    unsigned char *bytes;
    size_t used, room; /* of the payload */
};

/* `room` to begin with. False: no memory. */
bool mst_gather_init(struct mst_gather *gather, const struct mst_mem *mem, size_t room);
void mst_gather_fini(struct mst_gather *gather, const struct mst_mem *mem);

/* Where the next `size` bytes go; they count once `used` includes them. NULL: no memory, and the
 * gathered records are unchanged. */
unsigned char *mst_gather_room(struct mst_gather *gather, const struct mst_mem *mem, size_t size);

/* Behind what was gathered, the body behind its head included. */
void mst_gather_keep(struct mst_gather *gather, const struct mst_journal_record *record,
                     size_t body_size);

#endif
