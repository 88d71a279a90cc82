/* SPDX-License-Identifier: Apache-2.0 */
/* A service answers anything at all, in any pieces. The client takes the same replies out of any
 * pieces, and the same words end the connection; memory is bounded.
 *
 * See fuzz_native_service.c. The first byte: 1, a welcome goes before the rest; 2, the rest is
 * cut into frames.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "base/panic.h"
#include "counted_mem.h"
#include "fuzz.h"
#include "message_generator.h"
#include "proto/native/native.h"
#include "stream.h"

enum {
    FRAME_MAX = 65536, /* the least that a client takes for a welcome's limit */
    INPUT_MAX = 16384,
    OUTPUT_MAX = 65536,
    MEMORY_MAX = 4 * (FRAME_MAX + 4) + 2 * OUTPUT_MAX + 2 * (16 << 20) + 64 * FRAME_MAX + 4096,
    IDLE_MAX = 8192
};

/* Of version 1, with frames of 65536. */
static const unsigned char welcome[] = {0, 0, 0, 6, 8, 1, 32, 128, 128, 4};

struct stage {
    struct counted_mem mem, spare_mem;
    struct mst_native_client *whole, *pieces, *again;
    struct mst_native_service *service;
};

/* The hello reaches the service and the welcome the client, so that replies can follow. */
static void greet(struct stage *stage)
{
    struct mst_slice hello = mst_native_stream_output(&stage->again->stream);
    struct mst_native_service *service = stage->service;
    struct mst_request none;
    struct mst_reply nothing;

    MST_ASSERT(mst_native_stream_feed(&service->stream, hello) == MUSTER_OK);
    mst_native_stream_written(&stage->again->stream, hello.size);
    MST_ASSERT(mst_native_service_next(service, &none) == MUSTER_MORE);
    MST_ASSERT(mst_native_stream_feed(&stage->again->stream,
                                      mst_native_stream_output(&service->stream)) == MUSTER_OK);
    mst_native_stream_written(&service->stream, mst_native_stream_output(&service->stream).size);
    MST_ASSERT(mst_native_client_next(stage->again, &nothing) == MUSTER_MORE);
}

static void stage_init(struct stage *stage)
{
    struct mst_limits limits = mst_limits_default;

    limits.frame_bytes_max = FRAME_MAX;
    limits.output_bytes_max = OUTPUT_MAX;
    counted_mem_init(&stage->mem, 0xa5);
    counted_mem_init(&stage->spare_mem, 0x5a);
    MST_ASSERT(mst_native_client_new(&stage->pieces, &limits, &stage->mem.mem) == MUSTER_OK);
    MST_ASSERT(mst_native_client_new(&stage->whole, &limits, &stage->spare_mem.mem) == MUSTER_OK);
    MST_ASSERT(mst_native_client_new(&stage->again, &mst_limits_default, &stage->spare_mem.mem) ==
               MUSTER_OK);
    MST_ASSERT(mst_native_service_new(&stage->service, &mst_limits_default,
                                      &stage->spare_mem.mem) == MUSTER_OK);
    greet(stage);
}

static void stage_fini(struct stage *stage)
{
    mst_native_client_free(stage->whole);
    mst_native_client_free(stage->pieces);
    mst_native_client_free(stage->again);
    mst_native_service_free(stage->service);
    MST_ASSERT(stage->mem.live == 0 && stage->spare_mem.live == 0);
}

static void say_again(struct stage *stage, const struct mst_reply *reply)
{
    struct mst_native_service *service = stage->service;
    struct mst_reply got;

    MST_ASSERT(mst_native_service_answer(service, reply) == MUSTER_OK);
    MST_ASSERT(mst_native_stream_feed(&stage->again->stream,
                                      mst_native_stream_output(&service->stream)) == MUSTER_OK);
    mst_native_stream_written(&service->stream, mst_native_stream_output(&service->stream).size);
    MST_ASSERT(mst_native_client_next(stage->again, &got) == MUSTER_OK);
    MST_ASSERT(message_reply_equal(reply, &got));
    MST_ASSERT(mst_native_client_next(stage->again, &got) == MUSTER_MORE);
}

static muster_status take(struct stage *stage)
{
    struct mst_reply reply, other;
    muster_status status;

    while ((status = mst_native_client_next(stage->pieces, &reply)) == MUSTER_OK) {
        MST_ASSERT(mst_native_client_next(stage->whole, &other) == MUSTER_OK);
        MST_ASSERT(message_reply_equal(&reply, &other));
        say_again(stage, &reply);
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
    struct mst_native_client *pieces = stage->pieces, *whole = stage->whole;
    struct mst_reply reply;

    MST_ASSERT(mst_native_client_next(whole, &reply) == status);
    if (status == MUSTER_MORE) {
        status = mst_native_stream_end(&pieces->stream);
        MST_ASSERT(mst_native_stream_end(&whole->stream) == status);
    }
    MST_ASSERT(strcmp(pieces->stream.reason, whole->stream.reason) == 0);
    MST_ASSERT((pieces->stream.reason[0] == '\0') == (status == MUSTER_OK));
    MST_ASSERT(pieces->refused == whole->refused);
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

    fuzz_stream_compose(&stream, INPUT_MAX, mode, mst_slice_of(welcome, sizeof welcome), &input);
    stage_init(&stage);
    MST_ASSERT(mst_native_stream_feed(&stage.whole->stream,
                                      mst_slice_of(stream.bytes, stream.size)) == MUSTER_OK);
    same_end(&stage, fuzz_stream_give(mst_slice_of(stream.bytes, stream.size), seed, take(&stage),
                                      give, &stage));
    stage_fini(&stage);
    return 0;
}
