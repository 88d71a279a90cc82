/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_PROTOBUF_H
#define MST_PROTO_PROTOBUF_H

/* Protobuf (proto3) by the tables of proto/field.h: bytes to structs and back. docs/protocol.md
 * says what is taken and what is refused. */

#include "base/text.h"
#include "muster/status.h"
#include "proto/field.h"
#include "proto/native/arena.h"

/* Writes a message into the end of `room` if there is room for all of it, and returns its size; if
 * not, what is in the room means nothing. 0: its oneof says a case that does not exist. Fields at
 * their default are not written; of bytes and of chains no more than their bounds allow. */
size_t mst_encode(const struct mst_message *type, const void *from, unsigned char *room,
                  size_t room_size);

/* What is wrong with a payload, and with which field. */
struct mst_wrong {
    const struct mst_message *type;
    const char *why;  /* it is no message of that type; NULL: it is one that makes no sense */
    bool with_number; /* the number belongs to the reason */
    bool unknown;     /* of a payload that is fine: it has fields that the table does not know */
    int64_t number;
    size_t at; /* where the field begins */
    unsigned depth;
    const struct mst_field
        *path[MST_MESSAGE_DEPTH_MAX]; /* from the outermost one on; NULL: unknown */
};

/* Fills `out`, a struct of that type. What it points at is in the payload and in the arena. Of a
 * field that is there twice the last value counts, and messages are merged, as in protobuf; of a
 * oneof the last case. ENOMEM: the arena had nothing, or was full.
 * EPROTO: `wrong` says why; if the message makes no sense, and only then, `out` is complete. */
muster_status mst_decode(const struct mst_message *type, void *out, struct mst_slice payload,
                         struct mst_native_arena *arena, struct mst_wrong *wrong);

/* The sentence: "no Request: write.ops.key, 12 bytes into the message: goes beyond the end with a
 * length of 300", or "round.reduce 6 is not known". */
void mst_wrong_say(struct mst_text *text, const struct mst_wrong *wrong);

#endif
