/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_REPLY_MESSAGE_H
#define MST_PROTO_NATIVE_REPLY_MESSAGE_H

/* A reply of msg/ as a message of the schema, and back. Both borrow. */

#include "muster.pb-c.h"
#include "proto/native/arena.h"
#include "proto/native/enums.h"
#include "proto/reply.h"

/* A message and the parts it points at, but for the items: they are the last field, and there may
 * be many, so each is packed by itself, without memory, behind the message. */
struct mst_native_reply_message {
    Muster__Reply base;
    Muster__View view;
    Muster__Detail detail;
    Muster__Who *who_pointers[MST_NAMES_MAX];
    Muster__Who who[MST_NAMES_MAX];
};

void mst_native_reply_encode(struct mst_native_reply_message *out, const struct mst_reply *reply);

/* All of a reply, packed: its size, and its bytes. */
size_t mst_native_reply_size(const struct mst_native_reply_message *message,
                             const struct mst_reply *reply);
void mst_native_reply_pack(const struct mst_native_reply_message *message,
                           const struct mst_reply *reply, unsigned char *out);

/* OK; ENOMEM; EPROTO: `fault` says why. */
muster_status mst_native_reply_decode(struct mst_reply *out, const Muster__Reply *message,
                                      struct mst_native_arena *arena,
                                      struct mst_native_fault *fault);

#endif
