/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_NATIVE_H
#define MST_PROTO_NATIVE_NATIVE_H

/* muster's own dialect: protobuf messages in length-prefixed frames. docs/protocol.md has the
 * bytes, proto/muster.proto the schema. */

#include "proto/codec.h"

#define MST_NATIVE_VERSION 1u

/* The service's side of one connection. ENOMEM. Take the messages out after each feed: beside one
 * unfinished frame it holds about as much again (ENOMEM beyond). Memory goes back when next says
 * MORE and when the output is written. */
muster_status mst_native_codec_new(struct mst_codec **out, const struct mst_limits *limits,
                                   const struct mst_mem *mem);

/* Refuses a client that has said nothing yet: its output tells it why. Then flush and hang up. */
void mst_native_codec_refuse(struct mst_codec *codec, const char *why);

/* The first byte of whoever speaks this dialect. */
#define MST_NATIVE_FIRST_BYTE 'M'

/* The client's side: requests become bytes, bytes become replies. The preamble and the hello are
 * the codec's business: they are in the output of a new one, and the service's welcome is taken
 * in silently. */
struct mst_native_client;

muster_status mst_native_client_new(struct mst_native_client **out, const struct mst_limits *limits,
                                    const struct mst_mem *mem);
void mst_native_client_free(struct mst_native_client *client);

/* Encodes a request behind the output. ENOMEM; ELIMIT: the output is full, or the request larger
 * than a frame may be. Either way nothing was sent, and the codec goes on. */
muster_status mst_native_client_send(struct mst_native_client *client,
                                     const struct mst_request *request);
muster_status mst_native_client_feed(struct mst_native_client *client, struct mst_slice in);

/* The next whole reply: OK (borrowed until the next call of next or feed), MORE, or EPROTO. */
muster_status mst_native_client_next(struct mst_native_client *client, struct mst_reply *out);
struct mst_slice mst_native_client_output(const struct mst_native_client *client);

/* How large a frame may be, as far as is known: what the service said, or its default. */
uint64_t mst_native_client_frame_max(const struct mst_native_client *client);
void mst_native_client_written(struct mst_native_client *client, size_t size);
const char *mst_native_client_reason(const struct mst_native_client *client);

/* After an error: whether the service, and not this side, ended it with its first words. */
bool mst_native_client_refused(const struct mst_native_client *client);

/* The service will send no more. OK: it stopped between two frames; EPROTO: within one. */
muster_status mst_native_client_end(struct mst_native_client *client);

/* What the service takes (frames, keys, values, contributions), once its welcome was taken in; the
 * rest, and before that everything, as given at birth. */
const struct mst_limits *mst_native_client_limits(const struct mst_native_client *client);

#endif
