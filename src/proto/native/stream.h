/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_STREAM_H
#define MST_PROTO_NATIVE_STREAM_H

/* Frames in both directions: what the two sides of the native dialect have in common. */

#include "base/buffer.h"
#include "base/text.h"
#include "muster/status.h"
#include "proto/native/arena.h"
#include "proto/protobuf.h"

enum {
    MST_NATIVE_PREAMBLE_SIZE = 8,
    MST_NATIVE_HEAD_SIZE = 4, /* the length of a frame, big-endian */
    MST_NATIVE_REASON_ROOM = 256
};

/* `MUSTER`, 0, the version of the framing. */
extern const unsigned char mst_native_preamble[MST_NATIVE_PREAMBLE_SIZE];

struct mst_native_stream {  /* what every message touches first, and close together */
    muster_status dead;     /* OK, or what ended it */
    size_t frame_bytes_max; /* of the frames that come in */
    size_t memory_factor;   /* what a message may unpack to, times its size */
    struct mst_slice lent;  /* what comes next, where it was read; empty: it is in `in` */
    size_t taken;           /* at the front: what the current message came from */
    uint64_t offset;        /* of the front in all that was ever fed */
    struct mst_buffer in, out;
    const struct mst_mem *mem;
    struct mst_native_arena arena; /* of the current message */
    char reason[MST_NATIVE_REASON_ROOM];
};

void mst_native_stream_init(struct mst_native_stream *stream, const struct mst_mem *mem,
                            size_t frame_bytes_max, size_t output_bytes_max);

/* Another limit for the frames of both directions. What is buffered stays. */
void mst_native_stream_limit(struct mst_native_stream *stream, size_t frame_bytes_max);
void mst_native_stream_fini(struct mst_native_stream *stream);

/* Takes the bytes in, and copies an incomplete rest: OK, ENOMEM, or EPROTO: close the connection.
 */
muster_status mst_native_stream_feed(struct mst_native_stream *stream, struct mst_slice in);
/* Likewise without copying: the bytes stay until next says MORE, or until keep has copied the rest.
 */
muster_status mst_native_stream_lend(struct mst_native_stream *stream, struct mst_slice in);
muster_status mst_native_stream_keep(struct mst_native_stream *stream);

/* Takes the other side's first bytes, which must be these: OK, MORE, or EPROTO; `offset` is then
 * the place of the first that differs, the last byte being the version of the framing. The reason
 * says that it is no `peer`, or that `self` does not speak that version. */
muster_status mst_native_stream_preamble(struct mst_native_stream *stream,
                                         const unsigned char expected[MST_NATIVE_PREAMBLE_SIZE],
                                         const char *peer, const char *self);

/* What was fed and is not taken yet. */
struct mst_slice mst_native_stream_content(const struct mst_native_stream *stream);

struct mst_slice mst_native_stream_output(const struct mst_native_stream *stream);
void mst_native_stream_written(struct mst_native_stream *stream, size_t size);

/* No more bytes will come. OK between two frames, EPROTO within one. */
muster_status mst_native_stream_end(struct mst_native_stream *stream);

/* Marks the stream dead with `status`, which it returns, and begins its reason with where it
 * happened. */
muster_status mst_native_stream_fail(struct mst_native_stream *stream, muster_status status,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Likewise, with what decoding found wrong. */
muster_status mst_native_stream_wrong(struct mst_native_stream *stream, muster_status status,
                                      const struct mst_wrong *wrong);

/* The payload of the frame at the front: OK, MORE or EPROTO. It and what the arena gives live until
 * the next call. */
muster_status mst_native_stream_frame(struct mst_native_stream *stream, struct mst_slice *out);

/* The same payload as the type says, see mst_decode: OK, ENOMEM or EPROTO. Unless it is a message
 * that makes no sense, of which the caller has to say so, the stream is dead then. */
muster_status mst_native_stream_decode(struct mst_native_stream *stream,
                                       const struct mst_message *type, struct mst_slice payload,
                                       void *out, struct mst_wrong *wrong);

/* The whole message at the front: OK, MORE, or likewise. */
muster_status mst_native_stream_next(struct mst_native_stream *stream,
                                     const struct mst_message *type, void *out,
                                     struct mst_wrong *wrong);

/* Encodes a message as a frame behind the output, and says in `*size` how large its payload is.
 * ENOMEM; ELIMIT: that is more than a frame may have, or the output is full; EINVAL: its oneof says
 * a case that does not exist. */
muster_status mst_native_stream_put(struct mst_native_stream *stream,
                                    const struct mst_message *type, const void *from, size_t *size);

#endif
