/* SPDX-License-Identifier: Apache-2.0 */
/* A client sends anything at all, in any pieces, fed or lent. The same requests come out, and
 * the same words end the connection; a request that is understood means the same when it is sent
 * again; the memory of the connection is bounded, and an idle one has next to none.
 *
 * The first byte: 1, the preamble and a hello go before the rest; 2, the rest is cut into
 * frames, each after two bytes of its size. Two bytes more choose the pieces.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "base/panic.h"
#include "counted_mem.h"
#include "fuzz.h"
#include "message_generator.h"
#include "proto/native/native.h"
#include "stream.h"

enum {
    FRAME_MAX = 8192,
    OUTPUT_MAX = 65536,
    INPUT_MAX = FRAME_MAX, /* what a codec takes in without being asked for what is whole */
    /* Two input buffers while one grows, the same of output, and what a message may unpack to. */
    MEMORY_MAX = 4 * (FRAME_MAX + 4) + 2 * OUTPUT_MAX + 2 * (16 << 20) + 8 * FRAME_MAX + 4096,
    IDLE_MAX = 4096
};

static const unsigned char greeting[] = {'M', 'U', 'S', 'T', 'E', 'R', 0,  1,
                                         0,   0,   0,   4,   8,   1,   16, 1};

/* Two connections of one service, and a third, freed from limits, over which every request is said
 * once more. */
struct stage {
    struct counted_mem mem, spare_mem;
    struct mst_native_service *whole, *pieces, *again;
    struct mst_native_client *client;
};

static void stage_init(struct stage *stage)
{
    struct mst_limits limits = mst_limits_default;

    limits.frame_bytes_max = FRAME_MAX;
    limits.output_bytes_max = OUTPUT_MAX;
    counted_mem_init(&stage->mem, 0xa5);
    counted_mem_init(&stage->spare_mem, 0x5a);
    MST_ASSERT(mst_native_service_new(&stage->pieces, &limits, &stage->mem.mem) == MUSTER_OK);
    MST_ASSERT(mst_native_service_new(&stage->whole, &limits, &stage->spare_mem.mem) == MUSTER_OK);
    MST_ASSERT(mst_native_service_new(&stage->again, &mst_limits_default, &stage->spare_mem.mem) ==
               MUSTER_OK);
    MST_ASSERT(mst_native_client_new(&stage->client, &mst_limits_default, &stage->spare_mem.mem) ==
               MUSTER_OK);
}

static void stage_fini(struct stage *stage)
{
    mst_native_service_free(stage->whole);
    mst_native_service_free(stage->pieces);
    mst_native_service_free(stage->again);
    mst_native_client_free(stage->client);
    MST_ASSERT(stage->mem.live == 0 && stage->spare_mem.live == 0);
}

static void say_again(struct stage *stage, const struct mst_request *request)
{
    struct mst_request got;
    struct mst_slice output;

    MST_ASSERT(mst_native_client_send(stage->client, request) == MUSTER_OK);
    output = mst_native_stream_output(&stage->client->stream);
    MST_ASSERT(mst_native_stream_feed(&stage->again->stream, output) == MUSTER_OK);
    mst_native_stream_written(&stage->client->stream, output.size);
    MST_ASSERT(mst_native_service_next(stage->again, &got) == MUSTER_OK);
    MST_ASSERT(message_request_equal(request, &got));
    MST_ASSERT(mst_native_service_next(stage->again, &got) == MUSTER_MORE);
}

/* What is whole by now, and the same from the one that was given everything at once. */
static muster_status take(struct stage *stage)
{
    struct mst_request request, other;
    muster_status status;

    while ((status = mst_native_service_next(stage->pieces, &request)) == MUSTER_OK) {
        MST_ASSERT(mst_native_service_next(stage->whole, &other) == MUSTER_OK);
        MST_ASSERT(message_request_equal(&request, &other));
        say_again(stage, &request);
    }
    MST_ASSERT(stage->mem.peak <= MEMORY_MAX);
    return status;
}

static muster_status give(void *ctx, struct mst_slice piece, struct mst_prng *prng)
{
    struct stage *stage = ctx;

    (void)prng;
    MST_ASSERT(mst_native_stream_feed(&stage->pieces->stream, piece) == MUSTER_OK);
    return take(stage);
}

static void same_end(struct stage *stage, muster_status status)
{
    struct mst_request request;
    struct mst_native_service *pieces = stage->pieces, *whole = stage->whole;

    MST_ASSERT(mst_native_service_next(whole, &request) == status);
    if (status == MUSTER_MORE) {
        status = mst_native_stream_end(&pieces->stream);
        MST_ASSERT(mst_native_stream_end(&whole->stream) == status);
    }
    MST_ASSERT(strcmp(pieces->stream.reason, whole->stream.reason) == 0);
    MST_ASSERT((pieces->stream.reason[0] == '\0') == (status == MUSTER_OK));
    MST_ASSERT(mst_slice_equal(mst_native_stream_output(&pieces->stream),
                               mst_native_stream_output(&whole->stream)));
    mst_native_stream_written(&pieces->stream, mst_native_stream_output(&pieces->stream).size);
    MST_ASSERT(status != MUSTER_OK || stage->mem.live <= IDLE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes input = {.at = data, .left = size};
    unsigned mode = fuzz_u8(&input);
    uint64_t seed = fuzz_number(&input, 2);
    struct fuzz_stream stream;
    struct stage stage;

    fuzz_stream_compose(&stream, INPUT_MAX, mode, mst_slice_of(greeting, sizeof greeting), &input);
    stage_init(&stage);
    MST_ASSERT(mst_native_stream_lend(&stage.whole->stream,
                                      mst_slice_of(stream.bytes, stream.size)) == MUSTER_OK);
    same_end(&stage, fuzz_stream_give(mst_slice_of(stream.bytes, stream.size), seed, take(&stage),
                                      give, &stage));
    stage_fini(&stage);
    return 0;
}
