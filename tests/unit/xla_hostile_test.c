/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that speak badly, or too much, to the front for JAX.
 *
 * behaviour: fronts / JAX: bytes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "xla_stage.h"

#define PATH "/xla.coordination.CoordinationService/"

enum { BODY_MAX = 1 << 21 };

/* A registered task on its own connection, whose service must not notice the others. */
struct world {
    struct stage stage;
    struct stage_client *good, *bad;
    struct mst_xla_request request;
};

static void begin(struct world *world)
{
    struct stage_call *made;
    struct mst_xla_reply reply;

    memset(world, 0, sizeof *world);
    stage_init(&world->stage, 1, 1);
    world->good = stage_connect(&world->stage, 0);
    world->request.incarnation = 7;
    made = stage_call(world->good, MST_XLA_X, MST_XLA_REGISTER, &world->request, NULL);
    assert_true(stage_reply(made, MST_XLA_X, MST_XLA_REGISTER, &reply));
    world->request.incarnations = (struct mst_xla_incarnations){7, reply.incarnation};
    world->bad = stage_connect(&world->stage, 0);
}

/* The other process is answered as ever. */
static void end(struct world *world)
{
    struct stage_call *beat;

    assert_false(world->good->closed);
    beat = stage_call(world->good, MST_XLA_X, MST_XLA_HEARTBEAT, &world->request, NULL);
    assert_true(beat->done);
    assert_int_equal(beat->status, 0);
    stage_fini(&world->stage);
}

static void give(struct world *world, const void *bytes, size_t size)
{
    mst_xla_front.received(world->stage.fronts[0], world->stage.now_ns, world->bad->connection,
                           mst_slice_of(bytes, size));
    stage_drain(&world->stage, 0);
}

static void refused(const struct stage_call *made, int status, const char *text)
{
    assert_true(made->done);
    assert_int_equal(made->status, status);
    assert_non_null(strstr(made->text, text));
}

/* A connection begins with bytes that are no HTTP/2: HTTP/1, TLS, nothing at all. It is closed. */
static void other_protocols(void **state)
{
    static const char *const first[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nx-not-a-frame-header"};

    (void)state;
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        struct world world;
        uint64_t connection;

        begin(&world);
        connection = ++world.stage.connections;
        world.bad->connection = connection;
        mst_xla_front.connected(world.stage.fronts[0], world.stage.now_ns, connection);
        nghttp2_session_del(world.bad->h2);
        world.bad->h2 = NULL;
        give(&world, first[i], i == 1 ? 5 : strlen(first[i]));
        assert_true(world.bad->closed);
        end(&world);
    }
}

/* A request is cut into single bytes. It is understood as if it had come whole. */
static void single_bytes(void **state)
{
    struct world world;
    struct stage_call *made;

    (void)state;
    begin(&world);
    world.bad->piece = 1;
    made = stage_call(world.bad, MST_XLA_X, MST_XLA_HEARTBEAT, &world.request, NULL);
    assert_int_equal(made->status, 0);
    end(&world);
}

/* Half a request comes, and no more; then the client goes. It costs nothing that stays. */
static void half_a_request(void **state)
{
    static const unsigned char half[] = {0, 0, 0, 0, 200, 10, 20};
    struct world world;
    struct stage_call *made;

    (void)state;
    begin(&world);
    world.bad->holds = true; /* the stream stays open */
    made = stage_call_raw(world.bad, PATH "Heartbeat", NULL, NULL, mst_slice_of(half, sizeof half));
    assert_false(made->done);
    stage_close(world.bad);
    end(&world);
}

/* Messages with a wrong size before them, none, two, or a size of a billion are refused. */
static void wrong_sizes(void **state)
{
    static const unsigned char none[] = {0}, two[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                               longer[] = {0, 0, 0, 0, 9, 8, 1},
                               billion[] = {0, 0x3b, 0x9a, 0xca, 0x00, 1},
                               broken[] = {0, 0, 0, 0, 2, 0x0a, 0x50};
    struct world world;

    (void)state;
    begin(&world);
    refused(stage_call_raw(world.bad, PATH "Heartbeat", NULL, NULL, mst_slice_of(none, 0)), 13,
            "expected one message");
    refused(stage_call_raw(world.bad, PATH "Heartbeat", NULL, NULL, mst_slice_of(two, sizeof two)),
            13, "expected one message");
    refused(stage_call_raw(world.bad, PATH "Heartbeat", NULL, NULL,
                           mst_slice_of(longer, sizeof longer)),
            13, "expected one message");
    refused(stage_call_raw(world.bad, PATH "Heartbeat", NULL, NULL,
                           mst_slice_of(broken, sizeof broken)),
            13, "could not parse: ");
    world.bad->holds = true;
    refused(stage_call_raw(world.bad, PATH "InsertKeyValue", NULL, NULL,
                           mst_slice_of(billion, sizeof billion)),
            8, "a message of 1000000000 bytes");
    end(&world);
}

/* Methods that this service does not have are UNIMPLEMENTED, in any service. */
static void other_methods(void **state)
{
    static const char *const paths[] = {PATH "CancelBarrier", PATH "ResetTask",
                                        "/tensorflow.CoordinationService/GetTaskState",
                                        "/grpc.health.v1.Health/Check", "/"};
    static const unsigned char empty[] = {0, 0, 0, 0, 0};
    struct world world;

    (void)state;
    begin(&world);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct stage_call *made =
            stage_call_raw(world.bad, paths[i], NULL, NULL, mst_slice_of(empty, sizeof empty));

        refused(made, 12, "no such method");
        assert_string_equal(made->details, "");
    }
    end(&world);
}

/* A message of gRPC whose content is packed, in `out`. */
static size_t packed(struct mst_slice content, int window, unsigned char *out, size_t room)
{
    z_stream stream = {0};
    size_t size;

    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    memcpy(&stream.next_in, &content.data, sizeof content.data);
    stream.avail_in = (uInt)content.size;
    stream.next_out = out + 5;
    stream.avail_out = (uInt)(room - 5);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size = room - 5 - stream.avail_out;
    assert_int_equal(deflateEnd(&stream), Z_OK);
    out[0] = 1;
    for (unsigned i = 0; i < 4; i++) {
        out[1 + i] = (unsigned char)(size >> (8 * (3 - i)));
    }
    return 5 + size;
}

/* A request is compressed, as jaxlib's are from some hundred bytes on. It is understood; damage, an
 * encoding that was not announced or is not known, and a few bytes that would become 64 MiB are
 * refused. */
static void compressed(void **state)
{
    static unsigned char out[BODY_MAX], content[512], bomb[64 << 20];
    struct mst_xla_request request;
    struct world world;
    size_t size;

    (void)state;
    begin(&world);
    request = world.request;
    request.kv = (struct mst_xla_entry){
        mst_slice_text("k"), mst_slice_text("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")};
    request.overwrite = true;
    size = mst_encode(&mst_xla_messages[MST_XLA_INSERT].request[MST_XLA_X], &request, content,
                      sizeof content);
    size = packed(mst_slice_of(content + sizeof content - size, size), 15 + 16, out, sizeof out);
    assert_int_equal(
        stage_call_raw(world.bad, PATH "InsertKeyValue", "gzip", NULL, mst_slice_of(out, size))
            ->status,
        0);
    refused(stage_call_raw(world.bad, PATH "InsertKeyValue", NULL, NULL, mst_slice_of(out, size)),
            13, "no grpc-encoding");
    refused(stage_call_raw(world.bad, PATH "InsertKeyValue", "br", NULL, mst_slice_of(out, size)),
            12, "identity, deflate, gzip");
    refused(
        stage_call_raw(world.bad, PATH "InsertKeyValue", "deflate", NULL, mst_slice_of(out, size)),
        13, "cannot be decompressed");
    out[4] -= 3; /* its end is missing */
    refused(
        stage_call_raw(world.bad, PATH "InsertKeyValue", "gzip", NULL, mst_slice_of(out, size - 3)),
        13, "cannot be decompressed");
    size = packed(mst_slice_of(bomb, sizeof bomb), 15 + 16, out, sizeof out);
    refused(stage_call_raw(world.bad, PATH "InsertKeyValue", "gzip", NULL, mst_slice_of(out, size)),
            8, "a message of ");
    end(&world);
}

/* A barrier with an id of 4,096 bytes times out, and a task reports as long a failure. Each error
 * fits into the headers that a client takes: its text is cut, and says so. */
static void a_long_error(void **state)
{
    static char id[4096];
    struct mst_xla_request request;
    struct stage_call *made;
    struct world world;

    (void)state;
    begin(&world);
    memset(id, '\n', sizeof id);
    request = world.request;
    request.key = mst_slice_of(id, sizeof id);
    request.timeout_ms = 1000;
    request.counter = 9;
    made = stage_call(world.good, MST_XLA_X, MST_XLA_BARRIER, &request, NULL);
    stage_pass(&world.stage, 2000);
    assert_true(made->done);
    assert_int_not_equal(made->status, 0);
    assert_true(strlen(made->text) + strlen(made->details) < 8000);
    request.code = 9;
    memset(id, '%', sizeof id);
    request.text = mst_slice_of(id, sizeof id);
    made = stage_call(world.good, MST_XLA_X, MST_XLA_POLL, &request, NULL);
    assert_int_equal(stage_call(world.good, MST_XLA_X, MST_XLA_REPORT, &request, NULL)->status, 0);
    assert_int_equal(made->status, 9);
    assert_non_null(strstr(made->text, " ... [truncated]"));
    assert_true(strlen(made->text) <= 3072);
    stage_fini(&world.stage);
}

/* A client opens 3,000 streams, each with a request that waits. All wait, and go with its
 * connection. */
static void many_streams(void **state)
{
    enum { STREAMS = 3000 };
    struct mst_xla_request request;
    struct stage_call *made = NULL;
    struct world world;

    (void)state;
    begin(&world);
    request = world.request;
    request.key = mst_slice_text("none");
    for (unsigned i = 0; i < STREAMS; i++) {
        made = stage_call(world.bad, MST_XLA_X, MST_XLA_GET, &request, NULL);
        assert_false(made->done);
    }
    stage_close(world.bad);
    end(&world);
}

/* A client asks for large values and reads none of them. The front keeps no more than a few MiB for
 * it, and reads no more of it; when it reads again it gets all of it. */
static void a_slow_reader(void **state)
{
    enum { VALUE = 1 << 20, READS = 40 };
    static char value[VALUE];
    struct stage_call *reads[READS];
    struct mst_xla_request request;
    struct world world;

    (void)state;
    begin(&world);
    memset(value, 'v', sizeof value);
    request = world.request;
    request.kv = (struct mst_xla_entry){mst_slice_text("k"), mst_slice_of(value, sizeof value)};
    assert_int_equal(stage_call(world.good, MST_XLA_X, MST_XLA_INSERT, &request, NULL)->status, 0);
    stage_widen(world.bad);
    world.bad->deaf = true;
    request.key = mst_slice_text("k");
    for (unsigned i = 0; i < READS; i++) {
        reads[i] = stage_call(world.bad, MST_XLA_X, MST_XLA_GET, &request, NULL);
    }
    assert_true(world.bad->paused);
    assert_true(world.bad->unread_size < 8u << 20);
    stage_listen(world.bad);
    assert_false(world.bad->paused);
    for (unsigned i = 0; i < READS; i++) {
        assert_true(reads[i]->done);
        assert_int_equal(reads[i]->status, 0);
        assert_true(reads[i]->reply_size > VALUE);
    }
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_protocols), cmocka_unit_test(single_bytes),
        cmocka_unit_test(half_a_request),  cmocka_unit_test(wrong_sizes),
        cmocka_unit_test(other_methods),   cmocka_unit_test(compressed),
        cmocka_unit_test(a_long_error),    cmocka_unit_test(many_streams),
        cmocka_unit_test(a_slow_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
