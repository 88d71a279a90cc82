/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_CODEC_H
#define MST_PROTO_CODEC_H

/* One connection, one dialect, seen from the service: bytes become requests, replies become bytes.
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

    /* Takes the bytes in, copying what is not yet whole. OK, ENOMEM, or EPROTO: hang up. */
    muster_status (*feed)(struct mst_codec *codec, struct mst_slice in);

    /* Likewise without copying: the bytes stay where they are until next says MORE, or until keep
     * has copied what is left of them: OK, or ENOMEM. */
    muster_status (*lend)(struct mst_codec *codec, struct mst_slice in);
    muster_status (*keep)(struct mst_codec *codec);

    /* The next whole request: OK (everything in it is borrowed until the next call of next, feed or
     * keep), MORE, or an error after which the codec is dead: flush the output, then hang up. */
    muster_status (*next)(struct mst_codec *codec, struct mst_request *out);

    /* The request that next gave comes again with the next call: not after an error or MORE. */
    void (*again)(struct mst_codec *codec);

    /* Encodes a reply behind the output. An error (ENOMEM, or ELIMIT: the reader does not read):
     * hang up; the session survives that. */
    muster_status (*answer)(struct mst_codec *codec, const struct mst_reply *reply);

    /* Memory that it holds for bytes: input that is not whole yet, and output. */
    struct mst_codec_room (*room)(const struct mst_codec *codec);

    struct mst_slice (*output)(const struct mst_codec *codec); /* bytes to write now */
    void (*written)(struct mst_codec *codec, size_t size);

    /* After an error: one line that says what was wrong with the input. Never NULL. */
    const char *(*reason)(const struct mst_codec *codec);

    void (*free)(struct mst_codec *codec);

    /* The peer will send no more. OK: it stopped between two messages; EPROTO: within one, and the
     * reason says where. */
    muster_status (*end)(struct mst_codec *codec);
};

/* Every codec begins with this. */
struct mst_codec {
    const struct mst_codec_ops *ops;
};

#endif
