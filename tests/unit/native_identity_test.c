/* SPDX-License-Identifier: Apache-2.0 */
/* What goes in on one side comes out on the other, however the bytes are cut on the way.
 *
 * behaviour: wire / The wire */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "message_generator.h"
#include "native_link.h"
#include "proto/command.h"

enum { ROUNDS = 300, BATCH = 12 };

static muster_status service_next(struct native_link *link, struct mst_request *out)
{
    return mst_native_service_next(link->service, out);
}

/* Any request is sent, of every command. What comes out on the other side is what went in. */
static void requests_of_every_command(void **state)
{
    struct message_generator *generator = malloc(sizeof(*generator));
    struct native_link link;

    (void)state;
    assert_non_null(generator);
    message_generator_init(generator, 1);
    native_link_open(&link, &mst_limits_default);
    for (uint32_t number = 1; mst_command_known(number); number++) {
        for (unsigned i = 0; i < ROUNDS; i++) {
            const struct mst_request *sent =
                message_generator_request_of(generator, (enum mst_command)number);
            struct mst_request got;

            assert_int_equal(mst_native_client_send(link.client, sent), MUSTER_OK);
            native_link_to_service(&link);
            assert_int_equal(service_next(&link, &got), MUSTER_OK);
            assert_true(message_request_equal(sent, &got));
            assert_int_equal(service_next(&link, &got), MUSTER_MORE);
        }
    }
    native_link_fini(&link);
    free(generator);
}

/* Any reply is sent. What comes out on the other side is what went in. */
static void replies(void **state)
{
    struct message_generator *generator = malloc(sizeof(*generator));
    struct native_link link;

    (void)state;
    assert_non_null(generator);
    message_generator_init(generator, 2);
    native_link_open(&link, &mst_limits_default);
    for (unsigned i = 0; i < 10 * ROUNDS; i++) {
        const struct mst_reply *sent = message_generator_reply(generator);
        struct mst_reply got;

        assert_int_equal(mst_native_service_answer(link.service, sent), MUSTER_OK);
        native_link_to_client(&link);
        assert_int_equal(mst_native_client_next(link.client, &got), MUSTER_OK);
        assert_true(message_reply_equal(sent, &got));
        assert_int_equal(mst_native_client_next(link.client, &got), MUSTER_MORE);
    }
    native_link_fini(&link);
    free(generator);
}

/* How many bytes to feed next. */
typedef size_t cut(struct mst_prng *prng);

static size_t single_bytes(struct mst_prng *prng)
{
    (void)prng;
    return 1;
}

static size_t small_pieces(struct mst_prng *prng)
{
    return (size_t)mst_prng_below(prng, 9);
}

static size_t large_pieces(struct mst_prng *prng)
{
    return (size_t)mst_prng_below(prng, 5000);
}

/* What is whole by now, but at most so many; how many. */
static unsigned take_requests(struct native_link *link, struct message_generator *expected,
                              unsigned most)
{
    struct mst_request got;
    unsigned count = 0;

    while (count < most && service_next(link, &got) == MUSTER_OK) {
        assert_true(message_request_equal(message_generator_request(expected), &got));
        count++;
    }
    assert_string_equal(link->service->stream.reason, "");
    return count;
}

/* One piece, in memory of its own, so that reading on, or later, is noticed. */
static unsigned feed_piece(struct native_link *link, struct message_generator *expected,
                           struct mst_slice piece, bool lent)
{
    struct mst_native_service *service = link->service;
    unsigned char *alone = malloc(piece.size > 0 ? piece.size : 1);
    unsigned count = 0;

    assert_non_null(alone);
    memcpy(alone, piece.data, piece.size);
    if (lent) {
        assert_int_equal(mst_native_stream_lend(&service->stream, mst_slice_of(alone, piece.size)),
                         MUSTER_OK);
        count = take_requests(link, expected, 2);
        assert_int_equal(mst_native_stream_keep(&service->stream), MUSTER_OK);
    } else {
        assert_int_equal(mst_native_stream_feed(&service->stream, mst_slice_of(alone, piece.size)),
                         MUSTER_OK);
    }
    memset(alone, 0xa5, piece.size);
    free(alone);
    return count + take_requests(link, expected, BATCH);
}

/* Feeds `bytes` piece by piece; what comes out is what a generator of the same seed makes. */
static void feed_requests(struct native_link *link, const unsigned char *bytes, size_t size,
                          cut *how, uint64_t seed)
{
    struct message_generator *expected = malloc(sizeof(*expected));
    struct mst_prng prng = {.state = seed};
    unsigned count = 0;

    assert_non_null(expected);
    message_generator_init(expected, seed);
    while (size > 0) {
        size_t piece = how(&prng);

        piece = piece < size ? piece : size;
        count += feed_piece(link, expected, mst_slice_of(bytes, piece), mst_prng_below(&prng, 2));
        bytes += piece;
        size -= piece;
    }
    assert_int_equal(count, BATCH);
    free(expected);
}

static void requests_cut(cut *how, uint64_t seed)
{
    struct message_generator *generator = malloc(sizeof(*generator));
    struct native_link link;
    unsigned char *bytes;
    size_t size;

    assert_non_null(generator);
    message_generator_init(generator, seed);
    native_link_init(&link, &mst_limits_default);
    for (unsigned i = 0; i < BATCH; i++) {
        assert_int_equal(mst_native_client_send(link.client, message_generator_request(generator)),
                         MUSTER_OK);
    }
    bytes = native_link_take_client(&link, &size);
    feed_requests(&link, bytes, size, how, seed);
    assert_int_equal(mst_native_stream_end(&link.service->stream), MUSTER_OK);
    free(bytes);
    native_link_fini(&link);
    free(generator);
}

/* The bytes of requests arrive in any pieces. The same messages come out. */
static void requests_cut_anywhere(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        requests_cut(single_bytes, seed);
        requests_cut(small_pieces, seed);
        requests_cut(large_pieces, seed);
    }
}

static void feed_replies(struct native_link *link, const unsigned char *bytes, size_t size,
                         cut *how, uint64_t seed)
{
    struct message_generator *expected = malloc(sizeof(*expected));
    struct mst_prng prng = {.state = seed};
    unsigned count = 0;

    assert_non_null(expected);
    message_generator_init(expected, seed);
    while (size > 0) {
        struct mst_reply got;
        size_t piece = how(&prng);

        piece = piece < size ? piece : size;
        assert_int_equal(mst_native_stream_feed(&link->client->stream, mst_slice_of(bytes, piece)),
                         MUSTER_OK);
        bytes += piece;
        size -= piece;
        while (mst_native_client_next(link->client, &got) == MUSTER_OK) {
            assert_true(message_reply_equal(message_generator_reply(expected), &got));
            count++;
        }
        assert_string_equal(link->client->stream.reason, "");
    }
    assert_int_equal(count, BATCH);
    free(expected);
}

static void replies_cut(cut *how, uint64_t seed)
{
    struct message_generator *generator = malloc(sizeof(*generator));
    struct native_link link;
    unsigned char *bytes;
    size_t size;
    struct mst_request none;

    assert_non_null(generator);
    message_generator_init(generator, seed);
    native_link_init(&link, &mst_limits_default);
    native_link_to_service(&link);
    assert_int_equal(service_next(&link, &none), MUSTER_MORE);
    for (unsigned i = 0; i < BATCH; i++) {
        assert_int_equal(
            mst_native_service_answer(link.service, message_generator_reply(generator)), MUSTER_OK);
    }
    bytes = native_link_take_service(&link, &size);
    feed_replies(&link, bytes, size, how, seed);
    assert_int_equal(mst_native_stream_end(&link.client->stream), MUSTER_OK);
    free(bytes);
    native_link_fini(&link);
    free(generator);
}

/* The bytes of replies arrive in any pieces. The same messages come out. */
static void replies_cut_anywhere(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        replies_cut(single_bytes, seed);
        replies_cut(small_pieces, seed);
        replies_cut(large_pieces, seed);
    }
}

/* A request arrives. Its bytes are there whole for a journal that keeps it, or not at all if it
 * has an unknown field. */
static void a_request_says_what_it_came_as(void **state)
{
    static const unsigned char bytes[] = {0, 0, 0, 8, 8, 0x81, 0, 16,   1, 0x9a, 1,    0, 0,
                                          0, 0, 9, 8, 2, 16,   1, 0x9a, 1, 2,    0x48, 1};
    struct mst_request got;
    struct native_link link;

    (void)state;
    native_link_open(&link, &mst_limits_default);
    assert_int_equal(
        mst_native_stream_feed(&link.service->stream, mst_slice_of(bytes, sizeof bytes)),
        MUSTER_OK);
    assert_int_equal(service_next(&link, &got), MUSTER_OK);
    assert_int_equal(got.bytes.size, 8);
    assert_memory_equal(got.bytes.data, bytes + 4, 8);
    assert_int_equal(service_next(&link, &got), MUSTER_OK);
    assert_int_equal(got.id, 2);
    assert_int_equal(got.bytes.size, 0);
    native_link_fini(&link);
}

/* A request lacks its last bytes. It is none yet, and no other one either. */
static void prefixes_wait_for_more(void **state)
{
    struct message_generator *generator = malloc(sizeof(*generator));

    (void)state;
    assert_non_null(generator);
    for (uint64_t seed = 100; seed < 110; seed++) {
        struct native_link whole;
        unsigned char *bytes;
        size_t size;

        message_generator_init(generator, seed);
        native_link_init(&whole, &mst_limits_default);
        assert_int_equal(mst_native_client_send(whole.client, message_generator_request(generator)),
                         MUSTER_OK);
        bytes = native_link_take_client(&whole, &size);
        for (size_t prefix = 0; prefix < size; prefix += 1 + prefix / 64) {
            struct native_link link;
            struct mst_request got;

            native_link_init(&link, &mst_limits_default);
            assert_int_equal(
                mst_native_stream_feed(&link.service->stream, mst_slice_of(bytes, prefix)),
                MUSTER_OK);
            assert_int_equal(service_next(&link, &got), MUSTER_MORE);
            assert_int_equal(service_next(&link, &got), MUSTER_MORE);
            native_link_fini(&link);
        }
        free(bytes);
        native_link_fini(&whole);
    }
    free(generator);
}

/* A value of the largest size travels. It arrives whole, and the buffers it took are given back. */
static void large_values(void **state)
{
    size_t size = (size_t)mst_limits_default.value_bytes_max;
    unsigned char *value = malloc(size);
    struct native_link link;
    struct mst_write op = {.kind = MST_PUT, .key = mst_slice_text("large")};
    struct mst_request request = {
        .id = 1, .oldest = 1, .command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    struct mst_reply reply = {.id = 1, .command = MST_GET};
    struct mst_request got_request;
    struct mst_reply got_reply;

    (void)state;
    assert_non_null(value);
    memset(value, 0x5a, size);
    op.value = mst_slice_of(value, size);
    reply.value = op.value;
    native_link_open(&link, &mst_limits_default);
    assert_int_equal(mst_native_client_send(link.client, &request), MUSTER_OK);
    native_link_to_service(&link);
    assert_int_equal(service_next(&link, &got_request), MUSTER_OK);
    assert_true(message_request_equal(&request, &got_request));
    assert_int_equal(mst_native_service_answer(link.service, &reply), MUSTER_OK);
    assert_true(message_request_equal(&request, &got_request)); /* still borrowed */
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &got_reply), MUSTER_OK);
    assert_true(message_reply_equal(&reply, &got_reply));
    native_link_fini(&link);
    free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_every_command),
        cmocka_unit_test(replies),
        cmocka_unit_test(requests_cut_anywhere),
        cmocka_unit_test(replies_cut_anywhere),
        cmocka_unit_test(a_request_says_what_it_came_as),
        cmocka_unit_test(prefixes_wait_for_more),
        cmocka_unit_test(large_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
