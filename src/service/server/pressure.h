/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_PRESSURE_H
#define MST_SERVICE_SERVER_PRESSURE_H

/* What all connections together may hold in memory, and how much one turn of the loop may copy and
 * search. Each connection has its own limits; there may be a hundred thousand connections.
 *
 *   held    What the connections hold of input and output, and what the core holds only for them
 *           (mst_core_pinned).
 *   output  A large reply waits in the core, where it costs a few hundred bytes, while its reader
 *           has a MiB unread, while this turn has copied its measure, or while the connections
 *           together hold half of their bound; and behind those that wait already. Then it is made
 *           from the state of that moment. A connection with replies that wait is read no further.
 *           Small replies never wait for others' bytes.
 *   search  Pages are searched for in the turns that have time for it: when a turn has looked at
 *           its measure of records, the rest of them waits like large replies, unsearched, and so
 *           do watches and waits that are asked for.
 *   input   While the connections hold half of their bound, those in the middle of a frame of some
 *           size are parked, and read one after the other in the order they came, each for a second
 *           or until nothing comes.
 *   share   Three eighths of the bound are for connections that hold a thousandth part of it at
 * most, with what they ask for: they neither wait nor are parked before that is used up too.
 *   closing Over the bound, the connections that hold most are closed. At half of it, when others
 *           wait, so are those that neither take their output nor bring their frame to its end:
 * less than 16 KiB in a second.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mem.h"
#include "proto/reply.h"

struct mst_uv_connection;
struct mst_uv_hub;

struct mst_uv_pressure {
    struct mst_mem mem; /* of what connections hold: large pieces are counted */
    struct mst_mem below;
    uint64_t held;       /* bytes */
    uint64_t held_max;   /* of all connections */
    uint64_t peak;       /* since memory was given back to the system, */
    uint64_t peak_count; /* and of connections */
    uint64_t copied;     /* bytes of large replies in this turn */
    uint64_t searched;   /* and what searches cost, as bytes */
    uint64_t walked;     /* of mst_core_walked, in earlier turns */
    uint64_t looked_ns, shed_ns;
    uint64_t owes_since_ns; /* memory to the system; UINT64_MAX: it does not */
    struct mst_list behind, parked;
    bool hungry;                        /* some of `behind` were not looked at since they came */
    struct mst_uv_connection *resumed;  /* receives the replies that waited */
    struct mst_uv_connection *favoured; /* is read although it was parked */
    uint64_t favoured_until_ns, pause_until_ns;
};

void mst_uv_pressure_init(struct mst_uv_pressure *pressure, const struct mst_mem *below,
                          uint64_t held_max);

/* True: this reply is to be deferred. */
bool mst_uv_pressure_defers(struct mst_uv_connection *connection, const struct mst_reply *reply);
/* The last reply that was made for it was deferred. */
void mst_uv_pressure_deferred(struct mst_uv_connection *connection);
/* A reply was copied. True: it was large. */
bool mst_uv_pressure_copied(struct mst_uv_pressure *pressure, const struct mst_reply *reply);
/* Records may have been looked at. */
void mst_uv_pressure_looked(struct mst_uv_hub *hub);
/* This turn has copied and searched enough. */
bool mst_uv_pressure_spent(const struct mst_uv_pressure *pressure);

/* Output is about to be offered to its socket; so many bytes were taken. */
void mst_uv_pressure_offer(struct mst_uv_connection *connection);
void mst_uv_pressure_taken(struct mst_uv_connection *connection, size_t bytes);
/* The number of bytes to read at a time. */
size_t mst_uv_pressure_piece(const struct mst_uv_connection *connection);
/* Counts the bytes that were read. */
void mst_uv_pressure_read(struct mst_uv_connection *connection, size_t bytes);
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
