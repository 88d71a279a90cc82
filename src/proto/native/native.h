/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_NATIVE_H
#define MST_PROTO_NATIVE_NATIVE_H

/* muster's own dialect: protobuf messages in length-prefixed frames. docs/protocol.md has the
 * bytes, proto/muster.proto the schema. */

#include "proto/limits.h"
#include "proto/native/stream.h"
#include "proto/reply.h"
#include "proto/request.h"

#define MST_NATIVE_VERSION 1u

/* The first byte of a connection in this dialect. */
#define MST_NATIVE_FIRST_BYTE 'M'

/* ---- the service's side ----
 *
 * Bytes go in and out by mst_native_stream_feed (or lend and keep), _output, _written and _end of
 * the stream; after an error its `reason` is one line about the bad input.
 */

enum mst_native_state { MST_NATIVE_PREAMBLE = 1, MST_NATIVE_HELLO, MST_NATIVE_REQUESTS };

struct mst_native_service {
    enum mst_native_state state;
    struct mst_native_stream stream;
    uint64_t key_bytes_max, value_bytes_max, contribution_bytes_max; /* for the welcome */
};

/* ENOMEM. Take the messages out after each feed: beside one unfinished frame it holds about as much
 * again (ENOMEM beyond). Memory goes back when next says MORE and when the output is written. */
muster_status mst_native_service_new(struct mst_native_service **out,
                                     const struct mst_limits *limits, const struct mst_mem *mem);
void mst_native_service_free(struct mst_native_service *service); /* NULL: no-op */

/* Refuses a client before its first byte: the output has the reason. Then flush and hang up. */
void mst_native_service_refuse(struct mst_native_service *service, const char *why);

/* Sends the client on, whatever it asked: this process does not serve, and the service is at the
 * first of `addresses`. `why` is one line for clients that know no addresses. Then flush and hang
 * up. An error, as of answer: close the connection. */
muster_status mst_native_service_send_on(struct mst_native_service *service, const char *why,
                                         struct mst_slice addresses);

/* The next complete request: OK (everything in it is borrowed until the next call of next, feed or
 * keep), MORE, or an error after which the connection is dead: flush the output, then close it. */
muster_status mst_native_service_next(struct mst_native_service *service, struct mst_request *out);

/* next returns the same request again: not after an error or MORE. */
void mst_native_service_again(struct mst_native_service *service);

/* Appends a reply to the output. An error (ENOMEM, or ELIMIT: the reader does not read): close the
 * connection; the session survives that. */
muster_status mst_native_service_answer(struct mst_native_service *service,
                                        const struct mst_reply *reply);

/* ---- the client's side ----
 *
 * Requests become bytes, bytes become replies; of its stream the same holds. The preamble and the
 * hello are in the output of a new one, and the service's welcome is taken in silently.
 */

struct mst_native_client {
    bool welcomed;
    bool refused; /* the service, and not this side, ended it with its first words */
    /* As given at birth; of frames, keys, values and contributions what the service takes, once it
     * is welcomed. */
    struct mst_limits limits;
    struct mst_native_stream stream;
};

muster_status mst_native_client_new(struct mst_native_client **out, const struct mst_limits *limits,
                                    const struct mst_mem *mem);
void mst_native_client_free(struct mst_native_client *client);

/* Encodes a request behind the output. ENOMEM; ELIMIT: the output is full, or the request larger
 * than a frame may be. Either way nothing was sent, and the codec goes on. */
muster_status mst_native_client_send(struct mst_native_client *client,
                                     const struct mst_request *request);

/* The next whole reply: OK (borrowed until the next call of next or feed), MORE, or EPROTO. One
 * with id 0 is the last: mst_native_service_send_on. */
muster_status mst_native_client_next(struct mst_native_client *client, struct mst_reply *out);

#endif
