/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged input costs its sender the connection, with a reason, and nobody else anything.
 *
 * behaviour: wire / The wire */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "message_generator.h"
#include "native_link.h"
#include "proto/limit_kinds.h"
#include "proto/native/arena.h"

static muster_status service_next(struct native_link *link, struct mst_request *out)
{
    return mst_native_service_next(link->service, out);
}

/* Everything in a request can be read. */
static void touch(const struct mst_request *request)
{
    assert_true(message_request_equal(request, request));
}

static void drain_service(struct native_link *link)
{
    struct mst_request request;
    muster_status status = service_next(link, &request);

    while (status == MUSTER_OK) {
        touch(&request);
        status = service_next(link, &request);
    }
    if (status == MUSTER_EPROTO) {
        assert_string_not_equal(link->service->stream.reason, "");
        assert_int_equal(service_next(link, &request), MUSTER_EPROTO);
    } else {
        assert_int_equal(status, MUSTER_MORE);
    }
}

static void drain_client(struct native_link *link)
{
    struct mst_reply reply;
    muster_status status = mst_native_client_next(link->client, &reply);

    while (status == MUSTER_OK) {
        assert_true(message_reply_equal(&reply, &reply));
        status = mst_native_client_next(link->client, &reply);
    }
    if (status == MUSTER_EPROTO) {
        assert_string_not_equal(link->client->stream.reason, "");
    } else {
        assert_int_equal(status, MUSTER_MORE);
    }
}

/* A byte of a request is damaged. Either it is another valid message or the connection is
 * refused with a reason; nothing is read that is not there. */
static void one_byte_of_a_request(void **state)
{
    struct message_generator *generator = malloc(sizeof(*generator));
    struct mst_prng prng = {.state = 7};

    (void)state;
    assert_non_null(generator);
    message_generator_init(generator, 7);
    for (unsigned i = 0; i < 1500; i++) {
        struct native_link link;
        unsigned char *bytes;
        size_t size;

        native_link_open(&link, &mst_limits_default);
        assert_int_equal(mst_native_client_send(link.client, message_generator_request(generator)),
                         MUSTER_OK);
        bytes = native_link_take_client(&link, &size);
        bytes[mst_prng_below(&prng, size < 40 ? size : 40 + (size - 40) % 97)] ^=
            (unsigned char)(1 + mst_prng_below(&prng, 255));
        assert_int_equal(mst_native_stream_feed(&link.service->stream, mst_slice_of(bytes, size)),
                         MUSTER_OK);
        drain_service(&link);
        free(bytes);
        native_link_fini(&link);
    }
    free(generator);
}

/* A byte of a reply is damaged. Either it is another valid message or the connection is refused
 * with a reason. */
static void one_byte_of_a_reply(void **state)
{
    struct message_generator *generator = malloc(sizeof(*generator));
    struct mst_prng prng = {.state = 8};

    (void)state;
    assert_non_null(generator);
    message_generator_init(generator, 8);
    for (unsigned i = 0; i < 1500; i++) {
        struct native_link link;
        unsigned char *bytes;
        size_t size;

        native_link_open(&link, &mst_limits_default);
        assert_int_equal(
            mst_native_service_answer(link.service, message_generator_reply(generator)), MUSTER_OK);
        bytes = native_link_take_service(&link, &size);
        bytes[mst_prng_below(&prng, size)] ^= (unsigned char)(1 + mst_prng_below(&prng, 255));
        assert_int_equal(mst_native_stream_feed(&link.client->stream, mst_slice_of(bytes, size)),
                         MUSTER_OK);
        drain_client(&link);
        free(bytes);
        native_link_fini(&link);
    }
    free(generator);
}

/* Frames have the right length and any payload. Each is a valid message or the connection is
 * refused with a reason. */
static void random_payloads(void **state)
{
    struct mst_prng prng = {.state = 9};

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        unsigned char bytes[4 + 64] = {0};
        size_t size = (size_t)mst_prng_below(&prng, 65);
        struct native_link link;

        bytes[3] = (unsigned char)size;
        for (size_t at = 0; at < size; at++) {
            bytes[4 + at] = (unsigned char)mst_prng_next(&prng);
        }
        if (size > 3 && i % 2 == 0) { /* a plausible beginning gets further */
            bytes[4] = (unsigned char)(0x8a + 8 * mst_prng_below(&prng, 14));
            bytes[5] = (unsigned char)(1 + mst_prng_below(&prng, 2));
            bytes[6] = (unsigned char)(size - 3);
        }
        native_link_open(&link, &mst_limits_default);
        assert_int_equal(
            mst_native_stream_feed(&link.service->stream, mst_slice_of(bytes, 4 + size)),
            MUSTER_OK);
        drain_service(&link);
        assert_int_equal(
            mst_native_stream_feed(&link.client->stream, mst_slice_of(bytes, 4 + size)), MUSTER_OK);
        drain_client(&link);
        native_link_fini(&link);
    }
}

/* A payload is refused for this reason, and the client is told. */
static void assert_refused(const void *payload, size_t size, const char *reason)
{
    unsigned char head[4] = {0, 0, 0, (unsigned char)size};
    char told[400] = "the service refused: ";
    struct native_link link;
    struct mst_request request;
    struct mst_reply reply;

    native_link_open(&link, &mst_limits_default);
    assert_int_equal(mst_native_stream_feed(&link.service->stream, mst_slice_of(head, 4)),
                     MUSTER_OK);
    assert_int_equal(mst_native_stream_feed(&link.service->stream, mst_slice_of(payload, size)),
                     MUSTER_OK);
    assert_int_equal(service_next(&link, &request), MUSTER_EPROTO);
    assert_string_equal(link.service->stream.reason, reason);
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &reply), MUSTER_EPROTO);
    memcpy(told + strlen(told), reason, strlen(reason) + 1);
    assert_non_null(strstr(link.client->stream.reason, told));
    native_link_fini(&link);
}

#define ASSERT_REFUSED(reason, ...)                                                                \
    do {                                                                                           \
        static const unsigned char payload[] = {__VA_ARGS__};                                      \
        assert_refused(payload, sizeof(payload), reason);                                          \
    } while (0)

/* A message names a command or a value that does not exist. It is refused with the field and the
 * number. */
static void reasons_name_what_is_not_known(void **state)
{
    (void)state;
    ASSERT_REFUSED("at byte 27: request 5: command 0 is not known", 8, 5, 16, 5);
    ASSERT_REFUSED("at byte 27: request 5: command 83 is not known", 8, 5, 0x9a, 6, 0);
    ASSERT_REFUSED("at byte 27: request 1: open.role 9 is not known", 8, 1, 0x8a, 1, 2, 0x20, 9);
    ASSERT_REFUSED("at byte 27: request 1: open.grow 3 is not known", 8, 1, 0x8a, 1, 2, 0x58, 3);
    ASSERT_REFUSED("at byte 27: request 1: write.ops.kind 0 is not known", 8, 1, 0xb2, 1, 2, 0x12,
                   0);
    ASSERT_REFUSED("at byte 27: request 1: watch.kinds 16 is not known", 8, 1, 0xd2, 1, 2, 8, 16);
    ASSERT_REFUSED("at byte 27: request 1: round.on_loss 2 is not known", 8, 1, 0xda, 1, 2, 0x30,
                   2);
    ASSERT_REFUSED("at byte 27: request 1: round.reduce 99 is not known", 8, 1, 0xda, 1, 2, 0x38,
                   99);
    ASSERT_REFUSED("at byte 27: request 1: lost.cause 13 is not known", 8, 1, 0x8a, 2, 2, 0x18, 13);
    ASSERT_REFUSED("at byte 27: request 1: fault.kind 13 is not known", 8, 1, 0x82, 2, 2, 0x20, 13);
}

/* A message breaks off or contradicts itself. It is refused with the field and the byte. */
static void reasons_name_where_it_breaks(void **state)
{
    (void)state;
    ASSERT_REFUSED("at byte 27: no Request: write.ops.key, 9 bytes into the message: goes beyond "
                   "the end with a length of 9",
                   8, 1, 0xb2, 1, 8, 0x12, 6, 8, 2, 0x1a, 9, 'a', 'b');
    ASSERT_REFUSED("at byte 27: no Request: id, 0 bytes into the message: its wire type does not "
                   "fit its field: 2",
                   0x0a, 1, 'a');
    ASSERT_REFUSED("at byte 27: no Request: oldest, 2 bytes into the message: ends in the middle "
                   "of a number",
                   8, 1, 0x10, 0x80);
    ASSERT_REFUSED("at byte 27: no Request: ?, 2 bytes into the message: a wire type that does "
                   "not exist: 7",
                   8, 1, 0xff, 7);
    ASSERT_REFUSED("at byte 27: no Request: open, 0 bytes into the message: goes beyond the end "
                   "with a length of 100",
                   0x8a, 1, 100, 0);
}

/* A frame says it is larger than the limit. It is refused by its length alone, before it is
 * read. */
static void oversized_frames(void **state)
{
    static const unsigned char head[4] = {0xff, 0xff, 0xff, 0xff};
    struct native_link link;
    struct mst_request request;

    (void)state;
    native_link_open(&link, &mst_limits_default);
    assert_int_equal(mst_native_stream_feed(&link.service->stream, mst_slice_of(head, 4)),
                     MUSTER_OK);
    assert_int_equal(service_next(&link, &request), MUSTER_EPROTO);
    assert_string_equal(link.service->stream.reason,
                        "at byte 27: a frame of 4294967295 bytes is over the limit of 17825792");
    native_link_fini(&link);
}

/* A connection closes within a frame. That is distinct from an orderly end. */
static void closed_within_a_frame(void **state)
{
    static const unsigned char part[7] = {0, 0, 0, 9, 8, 1, 0x10};
    struct native_link link;
    struct mst_request request;

    (void)state;
    native_link_open(&link, &mst_limits_default);
    assert_int_equal(
        mst_native_stream_feed(&link.service->stream, mst_slice_of(part, sizeof(part))), MUSTER_OK);
    assert_int_equal(service_next(&link, &request), MUSTER_MORE);
    assert_int_equal(mst_native_stream_end(&link.service->stream), MUSTER_EPROTO);
    assert_string_equal(link.service->stream.reason,
                        "at byte 27: closed in the middle of a frame, after 7 bytes of it");
    native_link_fini(&link);
}

/* Two bytes on the wire would be a hundred in memory. The message is refused with the limit of
 * the sum. */
static void few_bytes_do_not_become_much_memory(void **state)
{
    size_t count = 1000000;
    size_t size = 3 + 1 + 2 * count;
    unsigned char *bytes = malloc(4 + size + 4);
    unsigned char *at = bytes + 4;
    struct native_link link;
    struct mst_request request;
    size_t body = 2 * count;

    (void)state;
    assert_non_null(bytes);
    *at++ = 0xb2; /* write */
    *at++ = 1;
    for (; body >= 128; body >>= 7) {
        *at++ = (unsigned char)(body | 128);
    }
    *at++ = (unsigned char)body;
    for (size_t i = 0; i < count; i++) {
        *at++ = 0x12; /* an empty operation */
        *at++ = 0;
    }
    size = (size_t)(at - bytes) - 4;
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (unsigned char)(size >> (24 - 8 * i));
    }
    native_link_open(&link, &mst_limits_default);
    assert_int_equal(mst_native_stream_feed(&link.service->stream, mst_slice_of(bytes, 4 + size)),
                     MUSTER_OK);
    assert_int_equal(service_next(&link, &request), MUSTER_EPROTO);
    assert_string_equal(link.service->stream.reason,
                        "at byte 27: a message of 2000005 bytes would take more than 24777236 of "
                        "memory");
    native_link_fini(&link);
    free(bytes);
}

/* A message consists of many single bytes. Each counts as the aligned memory that it takes, not
 * as one byte. */
static void single_bytes_count_as_what_they_take(void **state)
{
    enum { MANY = 100 };
    struct mst_native_arena arena;

    (void)state;
    mst_native_arena_init(&arena, &native_link_mem);
    mst_native_arena_reset(&arena, MANY * _Alignof(max_align_t));
    for (int i = 0; i < MANY; i++) {
        assert_non_null(mst_native_arena_alloc(&arena, 1));
    }
    assert_null(mst_native_arena_alloc(&arena, 1));
    assert_true(arena.full);
    mst_native_arena_fini(&arena);
}

/* A peer does not read. Output stops at its limit, and what was taken before is whole. */
static void a_reader_that_does_not_read(void **state)
{
    struct mst_limits limits = mst_limits_default;
    unsigned char value[1000] = {0};
    struct mst_reply reply = {
        .id = 1, .command = MST_GET, .value = mst_slice_of(value, sizeof(value))};
    struct native_link link;
    unsigned count = 0;

    (void)state;
    limits.output_bytes_max = 65536;
    native_link_open(&link, &limits);
    while (mst_native_service_answer(link.service, &reply) == MUSTER_OK) {
        count++;
    }
    assert_int_equal(mst_native_service_answer(link.service, &reply), MUSTER_ELIMIT);
    assert_true(mst_native_stream_output(&link.service->stream).size <= 65536);
    assert_int_equal(count, 64);
    native_link_to_client(&link); /* every one of them is whole */
    while (count > 0) {
        struct mst_reply got;

        assert_int_equal(mst_native_client_next(link.client, &got), MUSTER_OK);
        assert_true(message_reply_equal(&reply, &got));
        count--;
    }
    native_link_fini(&link);
}

/* A request or an answer does not fit one frame. The sender of the request learns the limit, and
 * the connection goes on. */
static void a_reply_beyond_a_frame(void **state)
{
    struct mst_limits limits = mst_limits_default;
    unsigned char *value = calloc(1, 70000);
    struct mst_reply reply = {.id = 3, .command = MST_GET, .value = mst_slice_of(value, 70000)};
    struct mst_write op = {.kind = MST_PUT, .value = mst_slice_of(value, 70000)};
    struct mst_request request = {.id = 4, .command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    struct mst_reply got;
    struct native_link link;

    (void)state;
    assert_non_null(value);
    limits.frame_bytes_max = 65536;
    native_link_open(&link, &limits);
    assert_int_equal(mst_native_service_answer(link.service, &reply), MUSTER_OK);
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &got), MUSTER_OK);
    assert_int_equal(got.id, 3);
    assert_int_equal(got.status, MUSTER_ELIMIT);
    assert_true(got.has_detail);
    assert_int_equal(got.detail.limit, 65536);
    assert_int_equal(got.detail.limit_kind, MST_LIMIT_FRAME_BYTES);
    assert_in_range(got.detail.asked, 70001, 70100);

    assert_int_equal(mst_native_client_send(link.client, &request), MUSTER_ELIMIT);
    assert_int_equal(mst_native_stream_output(&link.client->stream).size, 0);
    native_link_fini(&link);
    free(value);
}

static void carry(struct mst_native_service *service, struct mst_native_client *client, bool up,
                  muster_status *status)
{
    struct mst_slice output =
        up ? mst_native_stream_output(&client->stream) : mst_native_stream_output(&service->stream);

    if (*status == MUSTER_OK) {
        *status = up ? mst_native_stream_feed(&service->stream, output)
                     : mst_native_stream_feed(&client->stream, output);
    }
}

/* One request there and one reply back; the first failure ends it. */
static muster_status exchange(struct mst_native_service *service, struct mst_native_client *client,
                              struct message_generator *generator)
{
    struct mst_request request;
    struct mst_reply reply;
    muster_status status = mst_native_client_send(
        client,
        message_generator_request_of(generator, generator->prng.state % 2 ? MST_WRITE : MST_WAIT));

    carry(service, client, true, &status);
    status = status ? status : mst_native_service_next(service, &request);
    status =
        status ? status : mst_native_service_answer(service, message_generator_reply(generator));
    carry(service, client, false, &status);
    status = status ? status : mst_native_client_next(client, &reply);
    return status;
}

static muster_status scenario(const struct mst_mem *mem, struct message_generator *generator)
{
    struct mst_native_service *service = NULL;
    struct mst_native_client *client = NULL;
    muster_status status = mst_native_service_new(&service, &mst_limits_default, mem);

    if (status == MUSTER_OK) {
        status = mst_native_client_new(&client, &mst_limits_default, mem);
        if (status == MUSTER_OK) {
            status = exchange(service, client, generator);
            mst_native_client_free(client);
        }
        mst_native_service_free(service);
    }
    return status;
}

/* There is no memory at some point. The exchange fails with that, and everything is given back. */
static void every_allocation_fails_once(void **state)
{
    struct message_generator *generator = malloc(sizeof(*generator));

    (void)state;
    assert_non_null(generator);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct failing_mem failing;
        size_t at = 0;

        do {
            muster_status status;

            message_generator_init(generator, seed);
            failing_mem_init(&failing, ++at);
            status = scenario(&failing.mem, generator);
            assert_int_equal(status, failing.failed ? MUSTER_ENOMEM : MUSTER_OK);
            assert_int_equal(failing.live, 0);
        } while (failing.failed);
        assert_in_range(at, 5, 40); /* a small exchange does not allocate without end */
    }
    free(generator);
}

/* A connection that carried large messages is idle. It holds next to nothing: what a message
 * took is given back when it is dealt with. */
static void an_idle_connection_holds_little(void **state)
{
    unsigned char *value = calloc(1, 100000);
    struct mst_write op = {.kind = MST_PUT, .value = mst_slice_of(value, 100000)};
    struct mst_request request = {.id = 1, .command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    struct mst_reply reply = {.id = 1, .command = MST_GET, .value = op.value};
    struct failing_mem failing;
    struct native_link link;

    (void)state;
    assert_non_null(value);
    failing_mem_init(&failing, 0);
    native_link_init(&link, &mst_limits_default);
    mst_native_service_free(link.service);
    assert_int_equal(mst_native_service_new(&link.service, &mst_limits_default, &failing.mem),
                     MUSTER_OK);
    assert_int_equal(mst_native_client_send(link.client, &request), MUSTER_OK);
    native_link_to_service(&link);
    assert_int_equal(service_next(&link, &request), MUSTER_OK);
    assert_int_equal(mst_native_service_answer(link.service, &reply), MUSTER_OK);
    native_link_to_client(&link);
    assert_true(failing.live > 1);
    assert_int_equal(service_next(&link, &request), MUSTER_MORE);
    assert_int_equal(failing.live, 1); /* the codec itself */
    native_link_fini(&link);
    free(value);
}

static void free_of_nothing(void **state)
{
    (void)state;
    mst_native_client_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_byte_of_a_request),
        cmocka_unit_test(one_byte_of_a_reply),
        cmocka_unit_test(random_payloads),
        cmocka_unit_test(reasons_name_what_is_not_known),
        cmocka_unit_test(reasons_name_where_it_breaks),
        cmocka_unit_test(oversized_frames),
        cmocka_unit_test(closed_within_a_frame),
        cmocka_unit_test(few_bytes_do_not_become_much_memory),
        cmocka_unit_test(single_bytes_count_as_what_they_take),
        cmocka_unit_test(a_reader_that_does_not_read),
        cmocka_unit_test(a_reply_beyond_a_frame),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(an_idle_connection_holds_little),
        cmocka_unit_test(free_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
