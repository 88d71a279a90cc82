/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include "base/panic.h"

static void add(struct fuzz_stream *stream, struct mst_slice bytes)
{
    size_t left = stream->room - stream->size;
    size_t size = bytes.size < left ? bytes.size : left;

    if (size > 0) {
        memcpy(stream->bytes + stream->size, bytes.data, size);
    }
    stream->size += size;
}

void fuzz_stream_compose(struct fuzz_stream *stream, size_t room, unsigned mode,
                         struct mst_slice greeting, struct fuzz_bytes *input)
{
    MST_ASSERT(room <= sizeof stream->bytes);
    stream->size = 0;
    stream->room = room;
    if (mode & 1) {
        add(stream, greeting);
    }
    while (mode & 2 && input->left > 0) {
        struct mst_slice payload = fuzz_slice(input, (size_t)fuzz_number(input, 2));
        unsigned char head[4] = {0, 0, (unsigned char)(payload.size >> 8),
                                 (unsigned char)payload.size};

        add(stream, mst_slice_of(head, sizeof head));
        add(stream, payload);
    }
    add(stream, mst_slice_of(input->at, input->left));
}

muster_status fuzz_stream_give(struct mst_slice bytes, uint64_t seed, muster_status status,
                               fuzz_give *give, void *ctx)
{
    struct mst_prng prng = {.state = seed};
    size_t most = 1 + (size_t)(seed & 0xff);

    while (bytes.size > 0 && status == MUSTER_MORE) {
        size_t size = (size_t)mst_prng_below(&prng, most + 1);

        size = size < bytes.size ? size : bytes.size;
        status = give(ctx, mst_slice_of(bytes.data, size), &prng);
        bytes = mst_slice_from(bytes, size);
    }
    return status;
}
