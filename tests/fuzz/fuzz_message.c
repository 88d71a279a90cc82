/* SPDX-License-Identifier: Apache-2.0 */
/* Any request or reply is sent, its fields chosen freely. It arrives as it was; without its last
 * byte it is none.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "fuzz.h"
#include "message_generator.h"
#include "proto/native/native.h"

enum { MESSAGES_MAX = 16 };

struct stage {
    struct counted_mem mem;
    struct mst_native_service *service;
    struct mst_native_client *client;
    struct message_generator generator;
};

static void feed_service(struct stage *stage, struct mst_slice bytes)
{
    MST_ASSERT(mst_native_stream_feed(&stage->service->stream, bytes) == MUSTER_OK);
}

/* All but the last byte, which is nothing yet; then that. */
static void request_travels(struct stage *stage)
{
    const struct mst_request *sent = message_generator_request(&stage->generator);
    struct mst_request got;
    struct mst_slice output;

    MST_ASSERT(mst_native_client_send(stage->client, sent) == MUSTER_OK);
    output = mst_native_stream_output(&stage->client->stream);
    MST_ASSERT(output.size > 0);
    feed_service(stage, mst_slice_of(output.data, output.size - 1));
    MST_ASSERT(mst_native_service_next(stage->service, &got) == MUSTER_MORE);
    feed_service(stage, mst_slice_of((const char *)output.data + output.size - 1, 1));
    mst_native_stream_written(&stage->client->stream, output.size);
    MST_ASSERT(mst_native_service_next(stage->service, &got) == MUSTER_OK);
    MST_ASSERT(message_request_equal(sent, &got));
    MST_ASSERT(mst_native_service_next(stage->service, &got) == MUSTER_MORE);
}

static void reply_travels(struct stage *stage)
{
    const struct mst_reply *sent = message_generator_reply(&stage->generator);
    struct mst_reply got;
    struct mst_slice output;

    MST_ASSERT(mst_native_service_answer(stage->service, sent) == MUSTER_OK);
    output = mst_native_stream_output(&stage->service->stream);
    MST_ASSERT(output.size > 0);
    MST_ASSERT(mst_native_stream_feed(&stage->client->stream,
                                      mst_slice_of(output.data, output.size - 1)) == MUSTER_OK);
    MST_ASSERT(mst_native_client_next(stage->client, &got) == MUSTER_MORE);
    MST_ASSERT(mst_native_stream_feed(
                   &stage->client->stream,
                   mst_slice_of((const char *)output.data + output.size - 1, 1)) == MUSTER_OK);
    mst_native_stream_written(&stage->service->stream, output.size);
    if (sent->id == 0) { /* which is the service's goodbye */
        MST_ASSERT(mst_native_client_next(stage->client, &got) == MUSTER_EPROTO);
        return;
    }
    MST_ASSERT(mst_native_client_next(stage->client, &got) == MUSTER_OK);
    MST_ASSERT(message_reply_equal(sent, &got));
    MST_ASSERT(mst_native_client_next(stage->client, &got) == MUSTER_MORE);
}

static void greet(struct stage *stage)
{
    struct mst_slice output = mst_native_stream_output(&stage->client->stream);
    struct mst_request none;
    struct mst_reply nothing;

    feed_service(stage, output);
    mst_native_stream_written(&stage->client->stream, output.size);
    MST_ASSERT(mst_native_service_next(stage->service, &none) == MUSTER_MORE);
    output = mst_native_stream_output(&stage->service->stream);
    MST_ASSERT(mst_native_stream_feed(&stage->client->stream, output) == MUSTER_OK);
    mst_native_stream_written(&stage->service->stream, output.size);
    MST_ASSERT(mst_native_client_next(stage->client, &nothing) == MUSTER_MORE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct stage stage;
    struct fuzz_bytes input = {.at = data, .left = size};
    struct mst_reply reply;

    message_generator_init(&stage.generator, 0);
    stage.generator.bytes = &input;
    counted_mem_init(&stage.mem, 0xa5);
    MST_ASSERT(mst_native_service_new(&stage.service, &mst_limits_default, &stage.mem.mem) ==
               MUSTER_OK);
    MST_ASSERT(mst_native_client_new(&stage.client, &mst_limits_default, &stage.mem.mem) ==
               MUSTER_OK);
    greet(&stage);
    for (int i = 0; i < MESSAGES_MAX && input.left > 0; i++) {
        if (fuzz_below(&input, 2) == 0) {
            request_travels(&stage);
        } else if (mst_native_client_next(stage.client, &reply) == MUSTER_MORE) {
            reply_travels(&stage);
        }
    }
    mst_native_service_free(stage.service);
    mst_native_client_free(stage.client);
    MST_ASSERT(stage.mem.live == 0);
    return 0;
}
