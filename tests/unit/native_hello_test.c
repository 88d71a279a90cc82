/* SPDX-License-Identifier: Apache-2.0 */
/* The first words of a connection, byte by byte as docs/protocol.md prints them.
 *
 * behaviour: wire / The wire */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "native_link.h"

static muster_status feed_and_next(struct mst_native_service *codec, const void *bytes, size_t size)
{
    struct mst_request request;
    muster_status status = mst_native_stream_feed(&codec->stream, mst_slice_of(bytes, size));

    return status == MUSTER_OK ? mst_native_service_next(codec, &request) : status;
}

/* clang-format off */
static const unsigned char golden_hello[] = {
    'M', 'U', 'S', 'T', 'E', 'R', 0x00, 0x01,                 /* preamble, framing version 1 */
    0x00, 0x00, 0x00, 0x0f,                                   /* a frame of 15 bytes: Hello */
    0x08, 0x01,                                               /* version_min = 1 */
    0x10, 0x01,                                               /* version_max = 1 */
    0x22, 0x09, 'l', 'i', 'b', 'm', 'u', 's', 't', 'e', 'r',  /* program */
};

static const unsigned char golden_open_and_join[] = {
    0x00, 0x00, 0x00, 0x2c,                                   /* a frame of 44 bytes: Request */
    0x08, 0x01,                                               /* id = 1 */
    0x10, 0x01,                                               /* oldest = 1 */
    0x8a, 0x01, 0x25,                                         /* open (field 17), 37 bytes */
    0x09, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,     /*   token_high */
    0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,     /*   token_low */
    0x1a, 0x04, 'd', 'e', 'm', 'o',                           /*   job */
    0x20, 0x01,                                               /*   role = RANK */
    0x40, 0x02,                                               /*   size = 2 */
    0x48, 0x01,                                               /*   min_size = 1 */
    0x62, 0x02, 'b', '3',                                     /*   host */
    0x68, 0x92, 0x21,                                         /*   pid = 4242 */
    0x00, 0x00, 0x00, 0x07,                                   /* a frame of 7 bytes: Request */
    0x08, 0x01,                                               /* id = 1: OPEN used none up */
    0x10, 0x01,                                               /* oldest = 1 */
    0x92, 0x01, 0x00,                                         /* join (field 18) */
};

static const unsigned char golden_admission[] = {
    0x00, 0x00, 0x00, 0x12,                                   /* a frame of 18 bytes: Reply */
    0x08, 0x01,                                               /* id = 1 */
    0x10, 0x01,                                               /* command = OPEN */
    0x20, 0xa0, 0x9c, 0x01,                                   /* number = 10000 */
    0x42, 0x08,                                               /* view, 8 bytes */
    0x18, 0xff, 0xff, 0xff, 0xff, 0x0f,                       /*   rank: none */
    0x28, 0x01,                                               /*   incarnation = 1 */
    0x00, 0x00, 0x00, 0x0c,                                   /* a frame of 12 bytes: Reply */
    0x08, 0x01,                                               /* id = 1 */
    0x10, 0x02,                                               /* command = JOIN */
    0x42, 0x06,                                               /* view, 6 bytes */
    0x08, 0x01,                                               /*   generation = 1 */
    0x10, 0x02,                                               /*   size = 2 */
    0x28, 0x01,                                               /*   incarnation = 1 */
};

static const unsigned char golden_put[] = {
    0x00, 0x00, 0x00, 0x16,                                   /* a frame of 22 bytes: Request */
    0x08, 0x02,                                               /* id = 2 */
    0x10, 0x02,                                               /* oldest = 2 */
    0xb2, 0x01, 0x0f,                                         /* write (field 22), 15 bytes */
    0x12, 0x0d,                                               /*   ops, 13 bytes */
    0x08, 0x02,                                               /*     kind = PUT */
    0x1a, 0x05, 'c', 'o', 'l', 'o', 'r',                      /*     key */
    0x22, 0x02, 'o', 'k',                                     /*     value */
};

static const unsigned char golden_reply[] = {
    0x00, 0x00, 0x00, 0x06,                                   /* a frame of 6 bytes: Reply */
    0x08, 0x02,                                               /* id = 2 */
    0x10, 0x06,                                               /* command = write */
    0x28, 0x07,                                               /* revision = 7 */
};

static const unsigned char golden_welcome[] = {
    0x00, 0x00, 0x00, 0x1a,                                   /* a frame of 26 bytes: Welcome */
    0x08, 0x01,                                               /* version = 1 */
    0x12, 0x06, 'm', 'u', 's', 't', 'e', 'r',                 /* service */
    0x20, 0x80, 0x80, 0xc0, 0x08,                             /* frame_bytes_max = 17825792 */
    0x28, 0x80, 0x20,                                         /* key_bytes_max = 4096 */
    0x30, 0x80, 0x80, 0x40,                                   /* value_bytes_max = 1048576 */
    0x38, 0x80, 0x80, 0x04,                                   /* contribution_bytes_max = 65536 */
};
/* clang-format on */

static void assert_bytes(struct mst_slice got, const unsigned char *expected, size_t size)
{
    assert_int_equal(got.size, size);
    assert_memory_equal(got.data, expected, size);
}

/* A client connects, opens, joins and writes. The bytes are those that the protocol page prints. */
static void golden_bytes(void **state)
{
    struct mst_write op = {
        .kind = MST_PUT, .key = mst_slice_text("color"), .value = mst_slice_text("ok")};
    struct mst_request request = {
        .id = 2, .oldest = 2, .command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    struct mst_reply reply = {.id = 2, .command = MST_WRITE, .revision = 7};
    struct native_link link;

    (void)state;
    native_link_init(&link, &mst_limits_default);
    assert_bytes(mst_native_stream_output(&link.client->stream), golden_hello,
                 sizeof(golden_hello));
    mst_native_stream_written(&link.client->stream, sizeof(golden_hello));
    assert_int_equal(mst_native_client_send(link.client, &request), MUSTER_OK);
    assert_bytes(mst_native_stream_output(&link.client->stream), golden_put, sizeof(golden_put));
    assert_int_equal(feed_and_next(link.service, golden_hello, sizeof(golden_hello)), MUSTER_MORE);
    assert_bytes(mst_native_stream_output(&link.service->stream), golden_welcome,
                 sizeof(golden_welcome));
    mst_native_stream_written(&link.service->stream, sizeof(golden_welcome));
    assert_int_equal(mst_native_service_answer(link.service, &reply), MUSTER_OK);
    assert_bytes(mst_native_stream_output(&link.service->stream), golden_reply,
                 sizeof(golden_reply));
    native_link_fini(&link);
}

/* A client connects, opens, joins and writes. The bytes are those that the protocol page prints. */
static void golden_bytes_of_a_start(void **state)
{
    struct mst_request open = {
        .id = 1,
        .oldest = 1,
        .command = MST_OPEN,
        .open = {.token = {.high = 0x1122334455667788u, .low = 0x99aabbccddeeff00u},
                 .job = mst_slice_text("demo"),
                 .role = MST_ROLE_RANK,
                 .size = 2,
                 .min_size = 1,
                 .host = mst_slice_text("b3"),
                 .pid = 4242,
                 .node = MST_NODE_NONE}};
    struct mst_request join = {.id = 1, .oldest = 1, .command = MST_JOIN};
    struct mst_reply opened = {.id = 1,
                               .command = MST_OPEN,
                               .number = 10000,
                               .has_view = true,
                               .view = {.rank = MST_RANK_NONE, .incarnation = 1}};
    struct mst_reply joined = {.id = 1,
                               .command = MST_JOIN,
                               .has_view = true,
                               .view = {.generation = 1, .size = 2, .incarnation = 1}};
    struct native_link link;

    (void)state;
    native_link_open(&link, &mst_limits_default);
    assert_int_equal(mst_native_client_send(link.client, &open), MUSTER_OK);
    assert_int_equal(mst_native_client_send(link.client, &join), MUSTER_OK);
    assert_bytes(mst_native_stream_output(&link.client->stream), golden_open_and_join,
                 sizeof(golden_open_and_join));
    assert_int_equal(mst_native_service_answer(link.service, &opened), MUSTER_OK);
    assert_int_equal(mst_native_service_answer(link.service, &joined), MUSTER_OK);
    assert_bytes(mst_native_stream_output(&link.service->stream), golden_admission,
                 sizeof(golden_admission));
    native_link_fini(&link);
}

/* Feeds the service `bytes` after the preamble; it must refuse, and the client must be told. */
static void assert_refused(const void *bytes, size_t size, const char *reason)
{
    static const unsigned char preamble[] = {'M', 'U', 'S', 'T', 'E', 'R', 0, 1};
    char told[300] = "at byte 0: the service refused: ";
    struct native_link link;
    struct mst_reply reply;

    native_link_init(&link, &mst_limits_default);
    assert_int_equal(feed_and_next(link.service, preamble, sizeof(preamble)), MUSTER_MORE);
    assert_int_equal(feed_and_next(link.service, bytes, size), MUSTER_EPROTO);
    assert_string_equal(link.service->stream.reason, reason);
    assert_int_equal(feed_and_next(link.service, bytes, size), MUSTER_EPROTO); /* for good */
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &reply), MUSTER_EPROTO);
    memcpy(told + strlen(told), reason, strlen(reason) + 1);
    assert_string_equal(link.client->stream.reason, told);
    native_link_fini(&link);
}

/* A client speaks versions this service does not. It is refused with the versions of each of
 * them. */
static void other_versions_are_refused(void **state)
{
    static const unsigned char newer[] = {0, 0, 0, 9, 0x08, 2, 0x10, 3, 0x22, 3, 'a', 'p', '\n'};
    static const unsigned char none[] = {0, 0, 0, 0};
    static const unsigned char wrong_order[] = {0, 0, 0, 4, 0x08, 2, 0x10, 1};

    (void)state;
    assert_refused(newer, sizeof(newer),
                   "at byte 8: the client 'ap\\x0a' speaks the versions 2 to 3, this service 1");
    assert_refused(none, sizeof(none),
                   "at byte 8: the client '' speaks the versions 0 to 0, this service 1");
    assert_refused(wrong_order, sizeof(wrong_order),
                   "at byte 8: the client '' speaks the versions 2 to 1, this service 1");
}

/* A client speaks several versions, this one among them. It is welcome. */
static void a_range_of_versions_is_welcome(void **state)
{
    static const unsigned char hello[] = {'M', 'U', 'S', 'T', 'E', 'R', 0,    1,
                                          0,   0,   0,   4,   8,   1,   0x10, 200 & 0x7f};
    struct native_link link;

    (void)state;
    native_link_init(&link, &mst_limits_default);
    assert_int_equal(feed_and_next(link.service, hello, sizeof(hello)), MUSTER_MORE);
    assert_bytes(mst_native_stream_output(&link.service->stream), golden_welcome,
                 sizeof(golden_welcome));
    native_link_fini(&link);
}

/* A client fills the field `auth`, which is reserved. It is refused, with the reason. */
static void auth_is_refused(void **state)
{
    static const unsigned char hello[] = {0, 0, 0, 7, 0x08, 1, 0x10, 1, 0x1a, 1, 'x'};

    (void)state;
    assert_refused(hello, sizeof(hello),
                   "at byte 8: auth is not empty, but this service has no secret");
}

/* The first message is broken or too long. It is refused with the place of the damage. */
static void a_malformed_hello_is_refused(void **state)
{
    static const unsigned char hello[] = {0, 0, 0, 3, 0x08, 1, 0x10};
    static const unsigned char large[] = {2, 0, 0, 0};

    (void)state;
    assert_refused(hello, sizeof(hello),
                   "at byte 8: no Hello: version_max, 2 bytes into the message: ends in the "
                   "middle of a number");
    assert_refused(large, sizeof(large),
                   "at byte 8: a frame of 33554432 bytes is over the limit of 17825792");
}

/* Another protocol connects. It is refused at the first byte that does not fit, and gets no
 * answer it could not read. */
static void the_preamble_is_checked_from_its_first_byte(void **state)
{
    struct native_link link;
    struct mst_reply reply;

    (void)state;
    native_link_init(&link, &mst_limits_default);
    assert_int_equal(feed_and_next(link.service, "GET / HTTP/1.1\r\n", 16), MUSTER_EPROTO);
    assert_string_equal(link.service->stream.reason,
                        "at byte 0: no muster client: byte 0x47 where the preamble has 0x4d");
    assert_int_equal(mst_native_stream_output(&link.service->stream).size, 0);
    native_link_fini(&link);

    native_link_init(&link, &mst_limits_default);
    assert_int_equal(feed_and_next(link.service, "MUSTA", 5), MUSTER_EPROTO);
    assert_string_equal(link.service->stream.reason,
                        "at byte 4: no muster client: byte 0x41 where the preamble has 0x45");
    native_link_fini(&link);

    native_link_init(&link, &mst_limits_default);
    assert_int_equal(feed_and_next(link.service, "MUSTER\0\7", 8), MUSTER_EPROTO);
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &reply), MUSTER_EPROTO);
    assert_string_equal(link.client->stream.reason,
                        "at byte 0: the service refused: at byte 7: framing version 7, this "
                        "service speaks 1");
    native_link_fini(&link);
}

/* A service with other limits answers. The client learns its limits. */
static void the_client_learns_the_limits(void **state)
{
    struct mst_limits limits = mst_limits_default;
    struct native_link link;

    (void)state;
    limits.frame_bytes_max = 70000;
    limits.key_bytes_max = 99;
    limits.value_bytes_max = 1234;
    limits.contribution_bytes_max = 55;
    native_link_init(&link, &limits);
    mst_native_client_free(link.client);
    assert_int_equal(mst_native_client_new(&link.client, &mst_limits_default, &native_link_mem),
                     MUSTER_OK);
    assert_int_equal(link.client->limits.key_bytes_max, 4096);
    native_link_to_service(&link);
    assert_int_equal(feed_and_next(link.service, "", 0), MUSTER_MORE);
    native_link_to_client(&link);
    {
        struct mst_reply reply;

        assert_int_equal(mst_native_client_next(link.client, &reply), MUSTER_MORE);
    }
    assert_int_equal(link.client->limits.frame_bytes_max, 70000);
    assert_int_equal(link.client->limits.key_bytes_max, 99);
    assert_int_equal(link.client->limits.value_bytes_max, 1234);
    assert_int_equal(link.client->limits.contribution_bytes_max, 55);
    native_link_fini(&link);
}

/* A service sends larger frames than the client would. The client takes them: how long they are
 * is for the service to say. */
static void the_client_takes_the_services_frames(void **state)
{
    struct mst_limits small = mst_limits_default;
    unsigned char *value = calloc(1, 200000);
    struct mst_reply reply = {.id = 1, .command = MST_GET, .value = mst_slice_of(value, 200000)};
    struct mst_reply got;
    struct native_link link;

    (void)state;
    assert_non_null(value);
    small.frame_bytes_max = 65536;
    native_link_init(&link, &mst_limits_default);
    mst_native_client_free(link.client);
    assert_int_equal(mst_native_client_new(&link.client, &small, &native_link_mem), MUSTER_OK);
    native_link_to_service(&link);
    assert_int_equal(feed_and_next(link.service, "", 0), MUSTER_MORE);
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &got), MUSTER_MORE);
    assert_int_equal(mst_native_service_answer(link.service, &reply), MUSTER_OK);
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &got), MUSTER_OK);
    assert_int_equal(got.value.size, 200000);
    native_link_fini(&link);
    free(value);
}

static void assert_client_refuses(const void *bytes, size_t size, const char *reason)
{
    struct native_link link;
    struct mst_reply reply;

    native_link_init(&link, &mst_limits_default);
    assert_int_equal(mst_native_stream_feed(&link.client->stream, mst_slice_of(bytes, size)),
                     MUSTER_OK);
    assert_int_equal(mst_native_client_next(link.client, &reply), MUSTER_EPROTO);
    assert_string_equal(link.client->stream.reason, reason);
    native_link_fini(&link);
}

/* What answers is no muster service, or a newer one. The client gives up with the reason. */
static void the_client_checks_the_welcome(void **state)
{
    static const unsigned char newer[] = {0, 0, 0, 2, 8, 2};
    static const unsigned char no_limits[] = {0, 0, 0, 2, 8, 1};

    (void)state;
    assert_client_refuses(newer, sizeof(newer), "at byte 0: version 2 is not known");
    assert_client_refuses(no_limits, sizeof(no_limits),
                          "at byte 0: a limit for frames of 0 is not known");
    assert_client_refuses("HTTP/1.1 400", 12,
                          "at byte 0: a frame of 1213486160 bytes is over the limit of 17825792: "
                          "it speaks another protocol");
}

/* clang-format off */
static const unsigned char golden_sent_on[] = {
    0x00, 0x00, 0x00, 0x18,                                   /* a frame of 24 bytes: Reply */
    0x10, 0x01,                                               /* command = OPEN; no id */
    0x18, 0x27,                                               /* status = EUNREACHABLE */
    0x3a, 0x04, 'g', 'o', 'n', 'e',                           /* value: for people */
    0x5a, 0x0c, '1', '0', '.', '0', '.', '0', '.', '2', ':', '7', '0', '0' /* addresses */
};
/* clang-format on */

/* A process that does not serve sends a client on, in these bytes. The client's side gets the
 * addresses; where there are none, the reply is a goodbye with its reason. */
static void golden_bytes_of_a_client_that_is_sent_on(void **state)
{
    struct native_link link;
    struct mst_slice output;
    struct mst_reply reply;

    (void)state;
    native_link_init(&link, &mst_limits_default);
    native_link_to_service(&link);
    assert_int_equal(feed_and_next(link.service, "", 0), MUSTER_MORE);
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &reply), MUSTER_MORE);
    assert_int_equal(
        mst_native_service_send_on(link.service, "gone", mst_slice_text("10.0.0.2:700")),
        MUSTER_OK);
    output = mst_native_stream_output(&link.service->stream);
    assert_int_equal(output.size, sizeof golden_sent_on);
    assert_memory_equal(output.data, golden_sent_on, sizeof golden_sent_on);
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &reply), MUSTER_OK);
    assert_int_equal(reply.id, 0);
    assert_int_equal(reply.status, MUSTER_EUNREACHABLE);
    assert_true(mst_slice_is(reply.addresses, "10.0.0.2:700"));
    assert_int_equal(mst_native_service_send_on(link.service, "gone", mst_slice_text("")),
                     MUSTER_OK);
    native_link_to_client(&link);
    assert_int_equal(mst_native_client_next(link.client, &reply), MUSTER_EPROTO);
    assert_non_null(strstr(link.client->stream.reason, "the service refused: gone"));
    native_link_fini(&link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_bytes),
        cmocka_unit_test(golden_bytes_of_a_start),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(a_range_of_versions_is_welcome),
        cmocka_unit_test(auth_is_refused),
        cmocka_unit_test(a_malformed_hello_is_refused),
        cmocka_unit_test(the_preamble_is_checked_from_its_first_byte),
        cmocka_unit_test(the_client_learns_the_limits),
        cmocka_unit_test(the_client_takes_the_services_frames),
        cmocka_unit_test(the_client_checks_the_welcome),
        cmocka_unit_test(golden_bytes_of_a_client_that_is_sent_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
