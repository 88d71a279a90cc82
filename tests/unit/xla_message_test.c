/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of XLA's messages in both protocols.
 *
 * behaviour: fronts / JAX: bytes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fronts/xla/message.h"

enum { ROOM = 512 };

#define TASK UINT64_C(0x1111111111111111)
#define SERVICE UINT64_C(0x2222222222222222)
#define INC "0a12111111111111111111192222222222222222"

static void *give(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void take(void *ctx, void *memory)
{
    (void)ctx;
    free(memory);
}

static const struct mst_mem mem = {.alloc = give, .release = take};

static size_t from_hex(const char *hex, unsigned char *out)
{
    static const char digits[] = "0123456789abcdef";
    size_t size = strlen(hex) / 2;

    for (size_t i = 0; i < size; i++) {
        const char *high = strchr(digits, hex[2 * i]), *low = strchr(digits, hex[2 * i + 1]);

        out[i] = (unsigned char)((high - digits) << 4 | (low - digits));
    }
    return size;
}

/* It is written as these bytes, and what they are read as is written so again. */
static void check(const struct mst_message *type, const void *from, void *again, const char *hex)
{
    unsigned char expected[ROOM], room[ROOM];
    struct mst_native_arena arena;
    struct mst_wrong wrong;
    size_t size = from_hex(hex, expected);

    assert_int_equal(mst_encode(type, from, room, sizeof room), size);
    assert_memory_equal(room + sizeof room - size, expected, size);
    mst_native_arena_init(&arena, &mem);
    mst_native_arena_reset(&arena, 1 << 16);
    assert_int_equal(mst_decode(type, again, mst_slice_of(expected, size), &arena, &wrong),
                     MUSTER_OK);
    assert_int_equal(mst_encode(type, again, room, sizeof room), size);
    assert_memory_equal(room + sizeof room - size, expected, size);
    mst_native_arena_fini(&arena);
}

static void request_is(enum mst_xla_method method, enum mst_xla_wire wire,
                       struct mst_xla_request request, const char *hex)
{
    struct mst_xla_request again;

    if (wire == MST_XLA_X && method != MST_XLA_REGISTER) {
        request.incarnations = (struct mst_xla_incarnations){TASK, SERVICE};
    }
    check(&mst_xla_messages[method].request[wire], &request, &again, hex);
}

static void reply_is(enum mst_xla_method method, enum mst_xla_wire wire, struct mst_xla_reply reply,
                     const char *hex)
{
    struct mst_xla_reply again;

    check(&mst_xla_messages[method].reply[wire], &reply, &again, hex);
}

static const struct mst_xla_entry entry = {{"a/b", 3}, {"xy", 2}};

/* Messages of xla.coordination, of jaxlib 0.10 and later. They are the bytes that its client sends
 * and takes. */
static void messages_of_x(void **state)
{
    static const uint32_t ids[] = {0, 1};
    static const unsigned char both[] = {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
                                         0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22};

    (void)state;
    request_is(MST_XLA_REGISTER, MST_XLA_X, (struct mst_xla_request){.incarnation = TASK},
               "191111111111111111");
    request_is(MST_XLA_REGISTER, MST_XLA_X,
               (struct mst_xla_request){.incarnation = TASK, .source.id = 1},
               "1911111111111111112801");
    request_is(MST_XLA_HEARTBEAT, MST_XLA_X,
               (struct mst_xla_request){.incarnation = TASK, .source.id = 1},
               INC "1111111111111111111801");
    request_is(MST_XLA_POLL, MST_XLA_X, (struct mst_xla_request){.source.id = 1}, INC "1001");
    request_is(MST_XLA_GET, MST_XLA_X, (struct mst_xla_request){.key = {"a/b", 3}},
               INC "1203612f62");
    request_is(MST_XLA_INSERT, MST_XLA_X, (struct mst_xla_request){.kv = entry},
               INC "12090a03612f6212027879");
    request_is(MST_XLA_BARRIER, MST_XLA_X,
               (struct mst_xla_request){.key = {"b", 1},
                                        .timeout_ms = 1000,
                                        .ids = ids,
                                        .id_count = 2,
                                        .source.id = 1,
                                        .counter = 2},
               INC "12016218e8072202000128013002");
    request_is(MST_XLA_WATCH, MST_XLA_X, (struct mst_xla_request){.number = -1},
               INC "10ffffffffffffffffff01");
    request_is(MST_XLA_ALIVE, MST_XLA_X,
               (struct mst_xla_request){.source.id = 1, .ids = ids, .id_count = 2},
               INC "10011a020001");
    reply_is(MST_XLA_REGISTER, MST_XLA_X, (struct mst_xla_reply){.incarnation = SERVICE},
             "092222222222222222");
    reply_is(MST_XLA_GET, MST_XLA_X, (struct mst_xla_reply){.kv = entry}, "0a090a03612f6212027879");
    reply_is(MST_XLA_BARRIER, MST_XLA_X, (struct mst_xla_reply){.counter = 2}, "0802");
    reply_is(MST_XLA_ALIVE, MST_XLA_X,
             (struct mst_xla_reply){.ids = ids, .id_count = 2, .incarnations = {both, sizeof both}},
             "0a020001121011111111111111112222222222222222");
}

/* Messages of tensorflow.CoordinationService, of jaxlib 0.9. A task is a message, and the numbers
 * of fields are others. */
static void messages_of_t(void **state)
{
    static struct mst_xla_place places[] = {{.id = 0}, {.id = 1}};
    static const unsigned char both[] = {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
                                         0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22};

    (void)state;
    request_is(MST_XLA_REGISTER, MST_XLA_T,
               (struct mst_xla_request){.incarnation = TASK,
                                        .source = {.job = {"jax_worker", 10}, .id = 1}},
               "1911111111111111112a0e0a0a6a61785f776f726b65721001");
    request_is(MST_XLA_HEARTBEAT, MST_XLA_T,
               (struct mst_xla_request){.incarnation = TASK, .source.id = 1},
               "19111111111111111122021001");
    request_is(MST_XLA_INSERT, MST_XLA_T, (struct mst_xla_request){.kv = entry},
               "0a090a03612f6212027879");
    request_is(MST_XLA_BARRIER, MST_XLA_T,
               (struct mst_xla_request){.key = {"b", 1},
                                        .timeout_ms = 1000,
                                        .places = places,
                                        .place_count = 2,
                                        .source.id = 1,
                                        .counter = 2},
               "0a016210e8071a001a021001220210012802");
    reply_is(MST_XLA_GET, MST_XLA_T, (struct mst_xla_reply){.kv = entry}, "0a090a03612f6212027879");
    reply_is(MST_XLA_BARRIER, MST_XLA_T, (struct mst_xla_reply){.counter = 2}, "0802");
    reply_is(MST_XLA_ALIVE, MST_XLA_T,
             (struct mst_xla_reply){
                 .places = places, .place_count = 2, .incarnations = {both, sizeof both}},
             "0a000a021001121011111111111111112222222222222222");
}

static void method_is(const char *path, enum mst_xla_method method, enum mst_xla_wire wire)
{
    enum mst_xla_wire found = MST_XLA_WIRES;

    assert_int_equal(mst_xla_method_of(mst_slice_text(path), &found), method);
    if (method != MST_XLA_METHODS) {
        assert_int_equal(found, wire);
    }
}

/* A path names a method of one of the two protocols. Others are no method. */
static void paths(void **state)
{
    (void)state;
    method_is("/xla.coordination.CoordinationService/Barrier", MST_XLA_BARRIER, MST_XLA_X);
    method_is("/xla.coordination.CoordinationService/WatchTasks", MST_XLA_WATCH, MST_XLA_X);
    method_is("/tensorflow.CoordinationService/RegisterTask", MST_XLA_REGISTER, MST_XLA_T);
    method_is("/tensorflow.CoordinationService/WatchJobState", MST_XLA_WATCH, MST_XLA_T);
    method_is("/xla.coordination.CoordinationService/WatchJobState", MST_XLA_METHODS, MST_XLA_X);
    method_is("/xla.coordination.CoordinationService/CancelBarrier", MST_XLA_METHODS, MST_XLA_X);
    method_is("/xla.coordination.CoordinationService/", MST_XLA_METHODS, MST_XLA_X);
    method_is("/grpc.health.v1.Health/Check", MST_XLA_METHODS, MST_XLA_X);
    method_is("", MST_XLA_METHODS, MST_XLA_X);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_x),
        cmocka_unit_test(messages_of_t),
        cmocka_unit_test(paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
