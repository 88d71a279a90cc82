/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_IO_UV_PRESSURE_H
#define MST_IO_UV_PRESSURE_H

/* What all connections together may hold in memory, and how much one turn of the loop may copy.
 * Each connection has its own limits; there may be a hundred thousand connections.
 *
 *   output  A large reply waits in the core, where it costs a few hundred bytes, while its reader
 *           has a MiB unread, while this turn has copied its measure, or while the connections
 *           together hold half of their bound. Then it is made from the state of that moment. A
 *           connection with replies that wait is read no further. Small replies never wait for
 *           others' bytes.
 *   search  Then a watch, which may have to look at many keys, waits for the next turn as well.
 *   input   While the connections hold half of their bound, those in the middle of a frame of
 *           some size are read one after the other, the latest first, each for a second.
 *   both    Over the bound, the connection that holds most is closed. At half of it, when replies
 *           wait, so is the largest of those that have taken nothing of their output for a second.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mem.h"
#include "msg/reply.h"

struct mst_uv_connection;
struct mst_uv_hub;

struct mst_uv_pressure {
    struct mst_mem mem; /* of what connections hold: large pieces are counted */
    struct mst_mem below;
    uint64_t held;     /* bytes */
    uint64_t held_max; /* of all connections */
    uint64_t peak;     /* since memory was given back to the system */
    uint64_t copied;   /* bytes of replies in this turn, and what their search cost */
    uint64_t walked;   /* of mst_core_walked, in earlier turns */
    uint64_t looked_ns;
    uint64_t given_back_ns;
    struct mst_list behind, parked;
    struct mst_uv_connection *favoured; /* is read although it was parked */
    uint64_t favoured_until_ns;
};

void mst_uv_pressure_init(struct mst_uv_pressure *pressure, const struct mst_mem *below,
                          uint64_t held_max);

/* True: this reply is to be deferred. */
bool mst_uv_pressure_defers(const struct mst_uv_connection *connection,
                            const struct mst_reply *reply);
/* The last reply that was made for it was deferred. */
void mst_uv_pressure_deferred(struct mst_uv_connection *connection);
/* A reply was copied. True: it was large. */
bool mst_uv_pressure_copied(struct mst_uv_pressure *pressure, const struct mst_reply *reply);
/* A watch was looked up. */
void mst_uv_pressure_looked(struct mst_uv_hub *hub);
/* This turn has copied and searched enough. */
bool mst_uv_pressure_spent(const struct mst_uv_pressure *pressure);

/* It took output, or something else changed. */
void mst_uv_pressure_moved(struct mst_uv_connection *connection);
/* How much of it to read at a time. */
size_t mst_uv_pressure_piece(const struct mst_uv_connection *connection);
/* It was read. */
void mst_uv_pressure_read(struct mst_uv_connection *connection);
void mst_uv_pressure_forget(struct mst_uv_connection *connection);

/* Whether it may be read now. */
bool mst_uv_pressure_may_read(const struct mst_uv_connection *connection);

/* Closes the largest until the rest is within the bound. Not while an effect is at hand. */
void mst_uv_pressure_shed(struct mst_uv_hub *hub);

/* Before the effects of a turn: replies that waited for room are made again. */
void mst_uv_pressure_resume(struct mst_uv_hub *hub);
/* After a turn. */
void mst_uv_pressure_turn(struct mst_uv_hub *hub);

/* When the next turn is due for all this, on the core's clock; UINT64_MAX: never. */
uint64_t mst_uv_pressure_deadline_ns(const struct mst_uv_hub *hub);

#endif
