/* SPDX-License-Identifier: Apache-2.0 */
/* What a run and a result cost as bytes: nanoseconds of sending one, and of taking one in.
 *
 *   bench_closures [BYTES]     of one part; 16 unless told */
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "proto/cluster/cluster.h"

enum { BATCH = 64, BATCHES = 20000, BYTES = 16 };

static void *heap_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void heap_release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static void check(bool good, const char *what)
{
    if (!good) {
        die(what);
    }
}

/* As lanes are written and read: many messages between two writes. */
static void measure(const char *name, struct mst_cluster_message *message)
{
    const struct mst_mem mem = {.alloc = heap_alloc, .release = heap_release};
    uint64_t sending_ns = 0, taking_ns = 0, before_ns;
    struct mst_cluster_codec *here, *there;
    struct mst_cluster_message got;

    check(mst_cluster_codec_new(&here, NULL, &mem) == MUSTER_OK, "codec");
    check(mst_cluster_codec_new(&there, NULL, &mem) == MUSTER_OK, "codec");
    for (int batch = 0; batch < BATCHES; batch++) {
        struct mst_slice output;

        before_ns = now_ns();
        for (int i = 0; i < BATCH; i++) {
            message->attempt.closure++;
            check(mst_cluster_codec_send(here, message) == MUSTER_OK, "send");
        }
        sending_ns += now_ns() - before_ns;
        output = mst_native_stream_output(&here->stream);
        before_ns = now_ns();
        check(mst_native_stream_lend(&there->stream, output) == MUSTER_OK, "lend");
        for (int i = 0; i < BATCH; i++) {
            check(mst_cluster_codec_next(there, &got) == MUSTER_OK, "next");
        }
        taking_ns += now_ns() - before_ns;
        check(got.attempt.closure == message->attempt.closure, "what came is what was sent");
        check(mst_cluster_codec_next(there, &got) == MUSTER_MORE, "nothing more");
        mst_native_stream_written(&here->stream, output.size);
    }
    printf("{\"name\":\"%s\",\"send_ns\":%.1f,\"take_ns\":%.1f}\n", name,
           (double)sending_ns / BATCH / BATCHES, (double)taking_ns / BATCH / BATCHES);
    mst_cluster_codec_free(here);
    mst_cluster_codec_free(there);
}

int main(int argc, char **argv)
{
    long size = BYTES;
    void *data;
    struct mst_part part = {.type = 1};
    struct mst_cluster_message run = {.type = MST_CLUSTER_RUN,
                                      .attempt = {.closure = 1000000, .attempt = 1},
                                      .series = 3,
                                      .function = 2,
                                      .left_ms = 60000,
                                      .parts = {.items = &part, .count = 1}};
    struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT,
                                         .attempt = {.closure = 1000000, .attempt = 1},
                                         .series = 3,
                                         .run_ns = 123456,
                                         .parts = {.items = &part, .count = 1}};

    check(argc < 2 || parse_number(argv[1], &size), "usage: bench_closures [BYTES]");
    data = calloc(1, (size_t)size + 1);
    check(data != NULL, "memory");
    part.data = mst_slice_of(data, (size_t)size);
    measure("run", &run);
    measure("result", &result);
    free(data);
    return 0;
}
