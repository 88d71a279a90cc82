/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_QUICK_H
#define MST_PROTO_NATIVE_QUICK_H

/* The few messages that make up most of the traffic, without the way over the structures of
 * protobuf-c, which costs more than all that the core does with them. Anything else, and anything
 * that is written in another way than encoders write it, is left to protobuf-c: what is taken here
 * is taken to the same result, and what is written here is the same bytes. */

#include "proto/native/arena.h"
#include "proto/reply.h"
#include "proto/request.h"

/* A write of one operation, a get, a watch, a round that seals nothing, or a renewal; what it
 * points at is in the payload and in the arena. False: it is for protobuf-c to say what it is. */
bool mst_native_quick_request(struct mst_request *out, struct mst_slice payload,
                              struct mst_native_arena *arena);

enum { MST_NATIVE_QUICK_HEAD = 128 };

/* The same requests, to be sent: how many bytes they are, and of these the command. 0: it is for
 * protobuf-c. */
size_t mst_native_quick_ask_size(const struct mst_request *request, size_t *command_size);
void mst_native_quick_ask(unsigned char *bytes, const struct mst_request *request,
                          size_t command_size);

/* A reply of numbers, with or without a value and a few keys: nobody is named in it. */
bool mst_native_quick_suits(const struct mst_reply *reply);

/* All of such a reply before the bytes of its value; the size of that. */
size_t mst_native_quick_reply(unsigned char head[MST_NATIVE_QUICK_HEAD],
                              const struct mst_reply *reply);
/* And what comes after them. */
size_t mst_native_quick_items_size(const struct mst_reply *reply);
void mst_native_quick_items(unsigned char *bytes, const struct mst_reply *reply);

/* Such a reply; what it points at is in the payload and in the arena. Of a detail the names are not
 * cleared. False: it is for protobuf-c to say what it is. */
bool mst_native_quick_answer(struct mst_reply *out, struct mst_slice payload,
                             struct mst_native_arena *arena);

#endif
