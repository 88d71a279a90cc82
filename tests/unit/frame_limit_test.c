/* SPDX-License-Identifier: Apache-2.0 */
/* A frame of exactly the limit is sent and taken, one of a byte more is neither: by each codec, in
 * both directions, in one piece and in several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "native_link.h"
#include "proto/cluster/cluster.h"

enum { LIMIT = 65536, HEAD = 4, ROOM = 2 * LIMIT };

static char padding[ROOM];

/* Of the one frame in `bytes`: so large is what follows its head. */
static size_t payload_of(const unsigned char *bytes, size_t size)
{
    size_t length =
        (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | (size_t)bytes[3];

    assert_int_equal(length + HEAD, size);
    return length;
}

/* Bytes in one piece, or cut within the head, behind it and before the end. */
static muster_status feed_in(struct mst_native_stream *to, const unsigned char *bytes, size_t size,
                             bool pieces)
{
    const size_t cuts[] = {0, pieces ? 2 : size, pieces ? 5 : size, pieces ? size - 1 : size, size};
    muster_status status = MUSTER_OK;

    for (size_t i = 1; i < sizeof(cuts) / sizeof(cuts[0]) && status == MUSTER_OK; i++) {
        if (cuts[i] > cuts[i - 1]) {
            status = mst_native_stream_feed(
                to, mst_slice_of(bytes + cuts[i - 1], cuts[i] - cuts[i - 1]));
        }
    }
    return status;
}

/* ---- native: requests ---- */

struct asked {
    struct mst_request request;
    struct mst_write op;
};

/* A request with `size` bytes of padding. */
typedef void ask_fn(struct asked *out, size_t size);

static void ask_put(struct asked *out, size_t size)
{
    out->op = (struct mst_write){
        .kind = MST_PUT, .key = {"key", 3}, .value = mst_slice_of(padding, size)};
    out->request =
        (struct mst_request){.id = 1, .command = MST_WRITE, .write = {.ops = &out->op, .count = 1}};
}

static void ask_list(struct asked *out, size_t size)
{
    out->request = (struct mst_request){
        .id = 1, .command = MST_LIST, .list = {.prefix = mst_slice_of(padding, size)}};
}

static void ask_fault(struct asked *out, size_t size)
{
    out->request = (struct mst_request){
        .id = 1, .command = MST_FAULT, .fault = {.text = mst_slice_of(padding, size)}};
}

static struct mst_limits limits_of(size_t frame_bytes_max)
{
    struct mst_limits limits = mst_limits_default;

    limits.frame_bytes_max = frame_bytes_max;
    return limits;
}

/* So much padding makes a frame of `payload` bytes. */
static size_t request_padding(ask_fn *ask, size_t payload)
{
    struct mst_limits limits = limits_of(ROOM);
    struct native_link link;
    size_t size = payload - 64, length = 0;

    native_link_open(&link, &limits);
    for (int i = 0; i < 3 && length != payload; i++) {
        struct asked asked;
        unsigned char *bytes;
        size_t taken;

        ask(&asked, size);
        assert_int_equal(mst_native_client_send(link.client, &asked.request), MUSTER_OK);
        bytes = native_link_take_client(&link, &taken);
        length = payload_of(bytes, taken);
        size += payload - length;
        free(bytes);
    }
    assert_int_equal(length, payload);
    native_link_fini(&link);
    return size;
}

/* By a client whose service allows more. */
static unsigned char *request_bytes(ask_fn *ask, size_t payload, size_t *size_out)
{
    struct mst_limits limits = limits_of(ROOM);
    struct native_link link;
    struct asked asked;
    unsigned char *bytes;

    ask(&asked, request_padding(ask, payload));
    native_link_open(&link, &limits);
    assert_int_equal(mst_native_client_send(link.client, &asked.request), MUSTER_OK);
    bytes = native_link_take_client(&link, size_out);
    assert_int_equal(payload_of(bytes, *size_out), payload);
    native_link_fini(&link);
    return bytes;
}

static void try_request(ask_fn *ask, size_t payload, bool pieces)
{
    struct mst_limits limits = limits_of(LIMIT);
    muster_status wanted = payload > LIMIT ? MUSTER_ELIMIT : MUSTER_OK;
    struct native_link link;
    struct mst_request got;
    struct asked asked;
    unsigned char *bytes;
    size_t size;

    ask(&asked, request_padding(ask, payload));
    native_link_open(&link, &limits);
    assert_int_equal(mst_native_client_send(link.client, &asked.request), wanted);
    assert_int_equal(mst_native_stream_output(&link.client->stream).size,
                     wanted == MUSTER_OK ? payload + HEAD : 0);
    bytes = request_bytes(ask, payload, &size);
    assert_int_equal(feed_in(&link.service->stream, bytes, size, pieces), MUSTER_OK);
    assert_int_equal(mst_native_service_next(link.service, &got),
                     wanted == MUSTER_OK ? MUSTER_OK : MUSTER_EPROTO);
    if (wanted != MUSTER_OK) {
        assert_non_null(strstr(link.service->stream.reason, "is over the limit of"));
    }
    free(bytes);
    native_link_fini(&link);
}

static void a_request_of_exactly_the_limit_goes_through(void **state)
{
    static ask_fn *const asks[] = {ask_put, ask_list, ask_fault};

    (void)state;
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        for (size_t payload = LIMIT - 1; payload <= LIMIT + 1; payload++) {
            try_request(asks[i], payload, false);
            try_request(asks[i], payload, true);
        }
    }
}

/* ---- native: replies ---- */

struct told {
    struct mst_reply reply;
    struct mst_item item;
};

typedef void tell_fn(struct told *out, size_t size);

static void tell_value(struct told *out, size_t size)
{
    out->reply =
        (struct mst_reply){.id = 1, .command = MST_GET, .value = mst_slice_of(padding, size)};
}

static void tell_item(struct told *out, size_t size)
{
    out->item = (struct mst_item){
        .kind = MST_ITEM_KEY, .name = {"key", 3}, .value = mst_slice_of(padding, size)};
    out->reply =
        (struct mst_reply){.id = 1, .command = MST_LIST, .items = &out->item, .item_count = 1};
}

static void tell_detail(struct told *out, size_t size)
{
    tell_value(out, size);
    out->reply.has_detail = true;
    out->reply.detail.limit = 7;
}

static unsigned char *reply_bytes_of(size_t limit, tell_fn *tell, size_t padded, size_t *size_out)
{
    struct mst_limits limits = limits_of(limit);
    struct native_link link;
    struct told told;
    unsigned char *bytes;

    tell(&told, padded);
    native_link_open(&link, &limits);
    assert_int_equal(mst_native_service_answer(link.service, &told.reply), MUSTER_OK);
    bytes = native_link_take_service(&link, size_out);
    native_link_fini(&link);
    return bytes;
}

static size_t reply_padding(tell_fn *tell, size_t payload)
{
    size_t size = payload - 64, length = 0;

    for (int i = 0; i < 3 && length != payload; i++) {
        size_t taken;
        unsigned char *bytes = reply_bytes_of(ROOM, tell, size, &taken);

        length = payload_of(bytes, taken);
        size += payload - length;
        free(bytes);
    }
    assert_int_equal(length, payload);
    return size;
}

static void try_reply(tell_fn *tell, size_t payload, bool pieces)
{
    struct mst_limits limits = limits_of(LIMIT);
    size_t padded = reply_padding(tell, payload), size;
    unsigned char *bytes = reply_bytes_of(LIMIT, tell, padded, &size);
    struct native_link link;
    struct mst_reply got;

    native_link_open(&link, &limits);
    assert_int_equal(feed_in(&link.client->stream, bytes, size, pieces), MUSTER_OK);
    assert_int_equal(mst_native_client_next(link.client, &got), MUSTER_OK);
    assert_int_equal(got.status, payload > LIMIT ? MUSTER_ELIMIT : MUSTER_OK);
    free(bytes);
    bytes = reply_bytes_of(ROOM, tell, padded, &size); /* by a service that allows more */
    assert_int_equal(payload_of(bytes, size), payload);
    assert_int_equal(feed_in(&link.client->stream, bytes, size, pieces), MUSTER_OK);
    assert_int_equal(mst_native_client_next(link.client, &got),
                     payload > LIMIT ? MUSTER_EPROTO : MUSTER_OK);
    free(bytes);
    native_link_fini(&link);
}

static void a_reply_of_exactly_the_limit_goes_through(void **state)
{
    static tell_fn *const tells[] = {tell_value, tell_item, tell_detail};

    (void)state;
    for (size_t i = 0; i < sizeof(tells) / sizeof(tells[0]); i++) {
        for (size_t payload = LIMIT - 1; payload <= LIMIT + 1; payload++) {
            try_reply(tells[i], payload, false);
            try_reply(tells[i], payload, true);
        }
    }
}

/* ---- clusters ---- */

typedef void say_fn(struct mst_cluster_message *out, struct mst_part *part, size_t size);

static void say_run(struct mst_cluster_message *out, struct mst_part *part, size_t size)
{
    *part = (struct mst_part){.data = mst_slice_of(padding, size)};
    *out = (struct mst_cluster_message){.type = MST_CLUSTER_RUN,
                                        .attempt = {.closure = 1, .attempt = 1},
                                        .parts = {.items = part, .count = 1}};
}

static void say_result(struct mst_cluster_message *out, struct mst_part *part, size_t size)
{
    say_run(out, part, size);
    out->type = MST_CLUSTER_RESULT;
}

static void say_failure(struct mst_cluster_message *out, struct mst_part *part, size_t size)
{
    say_result(out, part, size);
    out->failure = (struct mst_failure){.origin = MST_ORIGIN_FUNCTION, .code = 3};
}

static void say_log(struct mst_cluster_message *out, struct mst_part *part, size_t size)
{
    (void)part;
    *out = (struct mst_cluster_message){.type = MST_CLUSTER_LOG,
                                        .attempt = {.closure = 1, .attempt = 1},
                                        .text = mst_slice_of(padding, size)};
}

static void codec_drop_output(struct mst_cluster_codec *codec)
{
    mst_native_stream_written(&codec->stream, mst_native_stream_output(&codec->stream).size);
}

static struct mst_cluster_codec *codec_new(size_t limit)
{
    const struct mst_cluster_codec_limits limits = {.frame_bytes_max = limit};
    struct mst_cluster_codec *codec;

    assert_int_equal(mst_cluster_codec_new(&codec, &limits, &native_link_mem), MUSTER_OK);
    return codec;
}

/* In the output of a codec that allows more, behind the preamble. */
static size_t message_send(struct mst_cluster_codec *codec, say_fn *say, size_t size)
{
    struct mst_cluster_message message;
    struct mst_part part;
    struct mst_slice output;

    codec_drop_output(codec);
    say(&message, &part, size);
    assert_int_equal(mst_cluster_codec_send(codec, &message), MUSTER_OK);
    output = mst_native_stream_output(&codec->stream);
    return payload_of(output.data, output.size);
}

static void try_message(say_fn *say, size_t payload, bool pieces)
{
    struct mst_cluster_codec *more = codec_new(ROOM), *here = codec_new(LIMIT),
                             *there = codec_new(LIMIT);
    struct mst_cluster_message message;
    struct mst_slice bytes = mst_native_stream_output(&here->stream); /* the preamble */
    struct mst_part part;
    size_t size = payload - 64, length = 0;

    assert_int_equal(mst_native_stream_feed(&there->stream, bytes), MUSTER_OK);
    assert_int_equal(mst_cluster_codec_next(there, &message), MUSTER_MORE);
    codec_drop_output(here);
    for (int i = 0; i < 3 && length != payload; i++) {
        length = message_send(more, say, size);
        size += payload - length;
    }
    assert_int_equal(length, payload);
    say(&message, &part, size);
    assert_int_equal(mst_cluster_codec_send(here, &message),
                     payload > LIMIT ? MUSTER_ELIMIT : MUSTER_OK);
    assert_int_equal(mst_native_stream_output(&here->stream).size,
                     payload > LIMIT ? 0 : payload + HEAD);
    bytes = mst_native_stream_output(&more->stream);
    assert_int_equal(feed_in(&there->stream, bytes.data, bytes.size, pieces), MUSTER_OK);
    assert_int_equal(mst_cluster_codec_next(there, &message),
                     payload > LIMIT ? MUSTER_EPROTO : MUSTER_OK);
    mst_cluster_codec_free(more);
    mst_cluster_codec_free(here);
    mst_cluster_codec_free(there);
}

static void a_message_of_a_cluster_of_exactly_the_limit_goes_through(void **state)
{
    static say_fn *const says[] = {say_run, say_result, say_failure, say_log};

    (void)state;
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        for (size_t payload = LIMIT - 1; payload <= LIMIT + 1; payload++) {
            try_message(says[i], payload, false);
            try_message(says[i], payload, true);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_of_exactly_the_limit_goes_through),
        cmocka_unit_test(a_reply_of_exactly_the_limit_goes_through),
        cmocka_unit_test(a_message_of_a_cluster_of_exactly_the_limit_goes_through),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
