/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_PLACES_H
#define MST_RESTART_PLACES_H

/* The table from which an assignment is worked out.
 *
 * Each member writes its own place into the key space of the generation in which they meet. The
 * member that works the assignment out lists them, and adds those of its last table that are not
 * among them: the lost ones, which steps such as "fill gaps" need. Only that rank has the table, so
 * the rank with the newest one is elected again. When it is lost itself, the next one knows the
 * places of the members that live, with the ranks they had, and nothing of the lost ones: they are
 * absent instead of not alive. So a step that reserves numbers for lost places starts without them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "muster/assignment.h"
#include "proto/reply.h"

enum {
    MST_PLACE_HOST_ROOM = 256, /* with the 0 at the end */
    MST_PLACE_LABEL_ROOM = 64,
    MST_PLACE_NAME_ROOM = 32,
    MST_PLACE_VALUE_ROOM = 12 + MST_PLACE_HOST_ROOM + MST_PLACE_LABEL_ROOM
};

#define MST_PLACE_PREFIX "muster/place/"

struct mst_place_text {
    char host[MST_PLACE_HOST_ROOM];
    char label[MST_PLACE_LABEL_ROOM];
};

struct mst_places {
    struct muster_place *list; /* ascending by index; its words are in `texts` */
    struct mst_place_text *texts;
    uint32_t *order; /* the index of the place with a number, by number */
    uint32_t count, room, order_count;
    uint64_t generation; /* in which they met; 0: there is no table */
};

/* The key of a place, and what is in it. The size of both is returned. */
size_t mst_place_name(uint32_t index, char out[MST_PLACE_NAME_ROOM]);
size_t mst_place_value(uint32_t previous, uint32_t node, struct mst_slice host,
                       struct mst_slice label, unsigned char out[MST_PLACE_VALUE_ROOM]);

void mst_places_free(struct mst_places *places, const struct mst_mem *mem);

/* An empty table with room for `room` places. ENOMEM. */
muster_status mst_places_new(struct mst_places *places, uint32_t room, const struct mst_mem *mem);

/* The items of a page, which come in the order of the indices. EPROTO for what is no place. */
muster_status mst_places_add(struct mst_places *places, const struct mst_reply *page);

/* Those of `old` that are not there, as not alive; and numbers the others from 0 on. */
void mst_places_close(struct mst_places *places, const struct mst_places *old);

/* Puts the places with a number into `order`. EINVAL unless the numbers are 0 to n - 1 over places
 * that are alive, each once; ETOOFEW when there are none. */
muster_status mst_places_seat(struct mst_places *places);

/* The generation with this order was sealed: its ranks are those of the last attempt. */
void mst_places_sealed(struct mst_places *places);

#endif
