/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_CLUSTER_CLUSTER_H
#define MST_PROTO_CLUSTER_CLUSTER_H

/* One connection between a coordinator and a worker: messages become bytes, bytes messages. Both
 * ends are the same. docs/protocol.md has the bytes, proto/cluster.proto the schema.
 *
 * The machines decide which side may send which message, and when. */

#include "base/mem.h"
#include "proto/cluster.h"
#include "proto/native/stream.h"

/* Bytes go in and out by mst_native_stream_feed (or lend and keep), _output, _written and _end of
 * the stream, and mst_native_stream_limit sets how large a frame may be from now on; after an error
 * its `reason` is one line about the bad input. */
struct mst_cluster_codec {
    bool greeted; /* the other side's preamble was taken in */
    struct mst_native_stream stream;
};

struct mst_cluster_codec_limits {
    size_t frame_bytes_max;  /* of a message, in both directions */
    size_t output_bytes_max; /* that are not written yet; 0: any */
};

/* Frames of 20 MiB, which hold any message of as many parts and bytes as proto/cluster.h allows,
 * and as many bytes of output as four of them. */
extern const struct mst_cluster_codec_limits mst_cluster_codec_limits_default;

/* NULL as limits: the default. The preamble is in the output of a new one. ENOMEM. */
muster_status mst_cluster_codec_new(struct mst_cluster_codec **out,
                                    const struct mst_cluster_codec_limits *limits,
                                    const struct mst_mem *mem);
void mst_cluster_codec_free(struct mst_cluster_codec *codec);

/* Encodes a message behind the output. ENOMEM; EINVAL: no such type; ELIMIT: it is larger than a
 * frame may be, one of its counts is beyond those of proto/cluster.h, or the output is full. Unless
 * OK nothing was encoded, and the codec goes on. A failure's texts and causes beyond what
 * proto/cluster.h allows are cut. */
muster_status mst_cluster_codec_send(struct mst_cluster_codec *codec,
                                     const struct mst_cluster_message *message);

/* The next whole message: OK (borrowed until the next call of next, feed, lend or keep), MORE, or
 * an error after which the codec is dead: ENOMEM, EPROTO. Fields that a message of its type does
 * not have are 0; a failure that is none has the worker MST_WORKER_NONE. */
muster_status mst_cluster_codec_next(struct mst_cluster_codec *codec,
                                     struct mst_cluster_message *out);

#endif
