/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator, a worker or a cluster's status sends any bytes, in any pieces, or any message
 * with its fields chosen freely. The same messages come out of any pieces, with the same words
 * at the end, and mean the same when they are sent again; memory is bounded, and an idle
 * connection has next to none; a status that is accepted is written and read as the same.
 *
 * The first byte: 1, the preamble goes before the rest; 2, the rest is cut into frames; 4, it is
 * no bytes at all but chooses messages, field by field; 8, it is what a coordinator says of
 * itself in a key.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "base/panic.h"
#include "cluster_generator.h"
#include "counted_mem.h"
#include "fuzz.h"
#include "proto/cluster/cluster.h"
#include "proto/cluster_status.h"
#include "stream.h"

enum {
    FRAME_MAX = 8192,
    INPUT_MAX = 16384,
    OUTPUT_MAX = 65536,
    MESSAGES_MAX = 16,
    MEMORY_MAX = 4 * (FRAME_MAX + 4) + 2 * OUTPUT_MAX + 2 * (16 << 20) + 4 * FRAME_MAX + 8192,
    IDLE_MAX = 8192
};

static const struct mst_cluster_codec_limits limits = {.frame_bytes_max = FRAME_MAX,
                                                       .output_bytes_max = OUTPUT_MAX};

static const unsigned char preamble[] = {'M', 'U', 'S', 'T', 'E', 'R', 'C', 1};

struct stage {
    struct counted_mem mem, spare_mem;
    struct mst_cluster_codec *whole, *pieces, *here, *there;
};

static void stage_init(struct stage *stage)
{
    const struct mst_mem *mem = &stage->spare_mem.mem;

    counted_mem_init(&stage->mem, 0xa5);
    counted_mem_init(&stage->spare_mem, 0x5a);
    MST_ASSERT(mst_cluster_codec_new(&stage->pieces, &limits, &stage->mem.mem) == MUSTER_OK);
    MST_ASSERT(mst_cluster_codec_new(&stage->whole, &limits, mem) == MUSTER_OK);
    MST_ASSERT(mst_cluster_codec_new(&stage->here, NULL, mem) == MUSTER_OK);
    MST_ASSERT(mst_cluster_codec_new(&stage->there, NULL, mem) == MUSTER_OK);
}

static void stage_fini(struct stage *stage)
{
    mst_cluster_codec_free(stage->whole);
    mst_cluster_codec_free(stage->pieces);
    mst_cluster_codec_free(stage->here);
    mst_cluster_codec_free(stage->there);
    MST_ASSERT(stage->mem.live == 0 && stage->spare_mem.live == 0);
}

/* All but the last byte, which is nothing yet; then that. */
static void travels(struct stage *stage, const struct mst_cluster_message *sent)
{
    struct mst_cluster_message got;
    struct mst_slice output;

    MST_ASSERT(mst_cluster_codec_send(stage->here, sent) == MUSTER_OK);
    output = mst_native_stream_output(&stage->here->stream);
    MST_ASSERT(mst_native_stream_feed(&stage->there->stream,
                                      mst_slice_of(output.data, output.size - 1)) == MUSTER_OK);
    MST_ASSERT(mst_cluster_codec_next(stage->there, &got) == MUSTER_MORE);
    MST_ASSERT(mst_native_stream_feed(
                   &stage->there->stream,
                   mst_slice_of((const char *)output.data + output.size - 1, 1)) == MUSTER_OK);
    mst_native_stream_written(&stage->here->stream, output.size);
    MST_ASSERT(mst_cluster_codec_next(stage->there, &got) == MUSTER_OK);
    MST_ASSERT(cluster_message_equal(sent, &got));
    MST_ASSERT(mst_cluster_codec_next(stage->there, &got) == MUSTER_MORE);
}

static muster_status take(struct stage *stage)
{
    struct mst_cluster_message message, other;
    muster_status status;

    while ((status = mst_cluster_codec_next(stage->pieces, &message)) == MUSTER_OK) {
        MST_ASSERT(mst_cluster_codec_next(stage->whole, &other) == MUSTER_OK);
        MST_ASSERT(cluster_message_equal(&message, &other));
        travels(stage, &message);
    }
    MST_ASSERT(stage->mem.peak <= MEMORY_MAX);
    return status;
}

/* What is lent is taken out, or kept, before the next piece. */
static muster_status give(void *ctx, struct mst_slice piece, struct mst_prng *prng)
{
    struct stage *stage = ctx;
    bool lent = mst_prng_below(prng, 2);
    muster_status status;

    MST_ASSERT((lent ? mst_native_stream_lend(&stage->pieces->stream, piece)
                     : mst_native_stream_feed(&stage->pieces->stream, piece)) == MUSTER_OK);
    status = take(stage);
    if (lent && status == MUSTER_MORE) {
        MST_ASSERT(mst_native_stream_keep(&stage->pieces->stream) == MUSTER_OK);
    }
    return status;
}

static void same_end(struct stage *stage, muster_status status)
{
    struct mst_cluster_codec *pieces = stage->pieces, *whole = stage->whole;
    struct mst_cluster_message message;

    MST_ASSERT(mst_cluster_codec_next(whole, &message) == status);
    if (status == MUSTER_MORE) {
        status = mst_native_stream_end(&pieces->stream);
        MST_ASSERT(mst_native_stream_end(&whole->stream) == status);
    }
    MST_ASSERT(strcmp(pieces->stream.reason, whole->stream.reason) == 0);
    MST_ASSERT((pieces->stream.reason[0] == '\0') == (status == MUSTER_OK));
    mst_native_stream_written(&pieces->stream, mst_native_stream_output(&pieces->stream).size);
    MST_ASSERT(status != MUSTER_OK || stage->mem.live <= IDLE_MAX);
}

static void bytes_arrive(struct stage *stage, struct fuzz_bytes *input, unsigned mode)
{
    static struct fuzz_stream stream;
    uint64_t seed = fuzz_number(input, 2);

    fuzz_stream_compose(&stream, INPUT_MAX, mode, mst_slice_of(preamble, sizeof preamble), input);
    MST_ASSERT(mst_native_stream_feed(&stage->whole->stream,
                                      mst_slice_of(stream.bytes, stream.size)) == MUSTER_OK);
    same_end(stage, fuzz_stream_give(mst_slice_of(stream.bytes, stream.size), seed, take(stage),
                                     give, stage));
}

static void messages_arrive(struct stage *stage, struct fuzz_bytes *input)
{
    static struct cluster_generator generator;

    cluster_generator_init(&generator, 0);
    generator.base.bytes = input;
    for (int i = 0; i < MESSAGES_MAX && input->left > 0; i++) {
        travels(stage, cluster_generator_any(&generator));
    }
    generator.base.bytes = NULL;
}

static void status_is_read(struct fuzz_bytes *input)
{
    struct mst_cluster_status status, again;
    char text[2][MST_CLUSTER_STATUS_ROOM];
    struct mst_slice name, key = fuzz_slice(input, fuzz_u8(input));
    size_t size;

    if (mst_cluster_status_key_read(key, &name)) {
        size = mst_cluster_status_key(text[0], sizeof text[0], name);
        MST_ASSERT(mst_slice_equal(mst_slice_of(text[0], size), key));
    }
    if (!mst_cluster_status_read(mst_slice_of(input->at, input->left), &status)) {
        return;
    }
    size = mst_cluster_status_write(text[0], sizeof text[0], &status);
    MST_ASSERT(size < sizeof text[0] - 1 &&
               mst_cluster_status_read(mst_slice_of(text[0], size), &again));
    MST_ASSERT(mst_cluster_status_write(text[1], sizeof text[1], &again) == size);
    MST_ASSERT(memcmp(text[0], text[1], size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes input = {.at = data, .left = size};
    unsigned mode = fuzz_u8(&input);
    struct stage stage;

    if (mode & 8) {
        status_is_read(&input);
        return 0;
    }
    stage_init(&stage);
    if (mode & 4) {
        messages_arrive(&stage, &input);
    } else {
        bytes_arrive(&stage, &input, mode);
    }
    stage_fini(&stage);
    return 0;
}
