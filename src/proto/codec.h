/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_CODEC_H
#define MST_PROTO_CODEC_H

/* One connection, one protocol, seen from the service: bytes become requests, replies become bytes.
 * No sockets, no callbacks; the shell carries values between a codec and the core. */

#include "base/mem.h"
#include "proto/limits.h"
#include "proto/reply.h"
#include "proto/request.h"

struct mst_codec;

struct mst_codec_room {
    size_t input, output;
};

struct mst_codec_ops {
    const char *name; /* "native", later "grpc", ... */

    /* Takes the bytes in, and copies an incomplete rest. OK, ENOMEM, or EPROTO: close the
     * connection. */
    muster_status (*feed)(struct mst_codec *codec, struct mst_slice in);

    /* Likewise without copying: the bytes must stay until next returns MORE, or until keep has
     * copied the rest: OK, or ENOMEM. */
    muster_status (*lend)(struct mst_codec *codec, struct mst_slice in);
    muster_status (*keep)(struct mst_codec *codec);

    /* The next complete request: OK (everything in it is borrowed until the next call of next, feed
     * or keep), MORE, or an error after which the codec is dead: flush the output, then close the
     * connection. */
    muster_status (*next)(struct mst_codec *codec, struct mst_request *out);

    /* next returns the same request again: not after an error or MORE. */
    void (*again)(struct mst_codec *codec);

    /* Appends a reply to the output. An error (ENOMEM, or ELIMIT: the reader does not read): close
     * the connection; the session survives that. */
    muster_status (*answer)(struct mst_codec *codec, const struct mst_reply *reply);

    /* Memory for bytes: incomplete input, and output. */
    struct mst_codec_room (*room)(const struct mst_codec *codec);

    struct mst_slice (*output)(const struct mst_codec *codec); /* bytes to write now */
    void (*written)(struct mst_codec *codec, size_t size);

    /* After an error: one line about the bad input. Never NULL. */
    const char *(*reason)(const struct mst_codec *codec);

    void (*free)(struct mst_codec *codec);

    /* The peer will send no more. OK: it stopped between two messages; EPROTO: within one, and the
     * reason has the position. */
    muster_status (*end)(struct mst_codec *codec);
};

/* Every codec begins with this. */
struct mst_codec {
    const struct mst_codec_ops *ops;
};

#endif
