/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_STREAM_H
#define FUZZ_STREAM_H

/* What one side of a connection says, made of a fuzzer's bytes, and how it arrives: in pieces. */

#include "base/prng.h"
#include "bytes.h"
#include "muster/status.h"

struct fuzz_stream {
    unsigned char bytes[16384];
    size_t size;
    size_t room; /* of `bytes`; what does not fit is left out */
};

/* Of `mode`: 1, `greeting` goes before the rest; 2, the rest is cut into frames, each after two
 * bytes of its size. `room` is at most that of the struct. */
void fuzz_stream_compose(struct fuzz_stream *stream, size_t room, unsigned mode,
                         struct mst_slice greeting, struct fuzz_bytes *input);

/* Gives a piece to one of the codecs and takes out what is whole by then: MORE, or why it ended. */
typedef muster_status fuzz_give(void *ctx, struct mst_slice piece, struct mst_prng *prng);

/* Gives all of it, as long as it is MORE that is wanted. `status`: before the first piece. */
muster_status fuzz_stream_give(struct mst_slice bytes, uint64_t seed, muster_status status,
                               fuzz_give *give, void *ctx);

#endif
