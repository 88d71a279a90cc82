/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a TLS connection in memory: any split of the bytes is the same, and whatever is
 * changed, cut or said by a stranger ends it.
 *
 * behaviour: security / Without it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "net/tls.h"

#define TEXT_ROOM 400000

static struct mst_tls_context *service_side, *client_side, *wrong_side;
static struct mst_prng prng;

struct pair {
    struct mst_tls *service, *client;
};

static struct mst_secret secret_of(const char *text)
{
    struct mst_secret secret = {.size = strlen(text)};

    memcpy(secret.bytes, text, secret.size);
    return secret;
}

static int set_up(void **state)
{
    struct mst_secret right = secret_of("the secret of this job");
    struct mst_secret wrong = secret_of("the secret of that job");
    struct muster_error err = {0};

    (void)state;
    prng = (struct mst_prng){7};
    assert_int_equal(mst_tls_context_new(&service_side, MST_TLS_SERVICE, &right, &err), MUSTER_OK);
    assert_int_equal(mst_tls_context_new(&client_side, MST_TLS_CLIENT, &right, &err), MUSTER_OK);
    assert_int_equal(mst_tls_context_new(&wrong_side, MST_TLS_CLIENT, &wrong, &err), MUSTER_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mst_tls_context_free(service_side);
    mst_tls_context_free(client_side);
    mst_tls_context_free(wrong_side);
    return 0;
}

static struct pair open_pair(struct mst_tls_context *client)
{
    struct pair pair;

    assert_int_equal(mst_tls_new(&pair.service, service_side), MUSTER_OK);
    assert_int_equal(mst_tls_new(&pair.client, client), MUSTER_OK);
    return pair;
}

static void close_pair(struct pair *pair)
{
    mst_tls_free(pair->service);
    mst_tls_free(pair->client);
}

/* At most `most` bytes of what one says reach the other. */
static muster_status carry(struct mst_tls *from, struct mst_tls *to, size_t most)
{
    struct mst_slice output = mst_tls_output(from);
    muster_status status;
    unsigned char *copy;

    if (output.size > most) {
        output.size = most;
    }
    if (output.size == 0) {
        return MUSTER_MORE;
    }
    copy = malloc(output.size); /* exactly as long: a read beyond it is found */
    assert_non_null(copy);
    memcpy(copy, output.data, output.size);
    status = mst_tls_feed(to, mst_slice_of(copy, output.size));
    mst_tls_written(from, output.size);
    free(copy);
    return status;
}

static void shake_hands(struct pair *pair, size_t most)
{
    for (unsigned i = 0; i < 10000; i++) {
        muster_status there = carry(pair->client, pair->service, most);
        muster_status back = carry(pair->service, pair->client, most);

        assert_true(there >= 0 && back >= 0);
        if (there == MUSTER_MORE && back == MUSTER_MORE) {
            break;
        }
    }
    assert_true(mst_tls_trusted(pair->client));
    assert_true(mst_tls_trusted(pair->service));
}

static size_t read_all(struct mst_tls *tls, unsigned char *room, size_t size, size_t piece)
{
    size_t got = 0;
    muster_status status = MUSTER_OK;

    while (status == MUSTER_OK && got < size) {
        size_t part = 0;

        status = mst_tls_read(tls, room + got, piece < size - got ? piece : size - got, &part);
        got += part;
    }
    assert_true(status >= 0);
    return got;
}

/* Bytes arrive in any pieces, in both directions. They mean the same. [With the secret] */
static void any_split_is_the_same(void **state)
{
    static const size_t pieces[] = {1, 2, 3, 7, 100, 1000, 100000};
    static unsigned char sent[TEXT_ROOM], got[TEXT_ROOM];

    (void)state;
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (unsigned char)mst_prng_below(&prng, 256);
    }
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct pair pair = open_pair(client_side);
        size_t size = pieces[i] < 100 ? 20000 : sizeof(sent);
        size_t at = 0;

        assert_int_equal(mst_tls_write(pair.client, mst_slice_of(sent, 1)), MUSTER_MORE);
        shake_hands(&pair, pieces[i]);
        assert_int_equal(mst_tls_write(pair.client, mst_slice_of(sent, size / 2)), MUSTER_OK);
        assert_int_equal(mst_tls_write(pair.client, mst_slice_of(sent + size / 2, size - size / 2)),
                         MUSTER_OK);
        while (carry(pair.client, pair.service, pieces[i]) == MUSTER_OK) {
            at += read_all(pair.service, got + at, size - at, 1 + mst_prng_below(&prng, 5000));
        }
        assert_int_equal(at, size);
        assert_memory_equal(sent, got, size);
        close_pair(&pair);
    }
}

/* Both ends of a TLS connection talk and say goodbye. Each sees an orderly end.
 * [With the secret] */
static void both_ends_talk_and_say_goodbye(void **state)
{
    struct pair pair = open_pair(client_side);
    unsigned char room[64];
    size_t got = 0;

    (void)state;
    shake_hands(&pair, SIZE_MAX);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(mst_tls_write(pair.client, mst_slice_text("how are you?")), MUSTER_OK);
        assert_int_equal(carry(pair.client, pair.service, SIZE_MAX), MUSTER_OK);
        assert_int_equal(read_all(pair.service, room, sizeof(room), sizeof(room)), 12);
        assert_int_equal(mst_tls_write(pair.service, mst_slice_text("fine")), MUSTER_OK);
        assert_int_equal(carry(pair.service, pair.client, SIZE_MAX), MUSTER_OK);
        assert_int_equal(read_all(pair.client, room, sizeof(room), sizeof(room)), 4);
    }
    mst_tls_close(pair.service);
    mst_tls_close(pair.service);
    assert_int_equal(carry(pair.service, pair.client, SIZE_MAX), MUSTER_OK);
    assert_int_equal(mst_tls_read(pair.client, room, sizeof(room), &got), MUSTER_ECANCELLED);
    close_pair(&pair);
}

/* The secrets of both ends differ. Both sides say so. */
static void a_wrong_secret_is_told_to_both(void **state)
{
    struct pair pair = open_pair(wrong_side);

    (void)state;
    assert_int_equal(carry(pair.client, pair.service, SIZE_MAX), MUSTER_EPROTO);
    assert_string_equal(mst_tls_reason(pair.service), "wrong secret");
    assert_int_equal(carry(pair.service, pair.client, SIZE_MAX), MUSTER_EPROTO);
    assert_string_equal(mst_tls_reason(pair.client), "wrong secret: the service has another one");
    assert_false(mst_tls_trusted(pair.service));
    assert_false(mst_tls_trusted(pair.client));
    assert_int_equal(mst_tls_feed(pair.service, mst_slice_text("more")), MUSTER_EPROTO);
    assert_int_equal(mst_tls_write(pair.client, mst_slice_text("more")), MUSTER_EPROTO);
    close_pair(&pair);
}

/* A service without a secret answers a client that has one. The client recognises it. */
static void a_service_without_a_secret_is_recognised(void **state)
{
    struct mst_tls *client;

    (void)state;
    assert_int_equal(mst_tls_new(&client, client_side), MUSTER_OK);
    assert_int_equal(mst_tls_feed(client, mst_tls_refusal()), MUSTER_EPROTO);
    assert_string_equal(mst_tls_reason(client),
                        "the service speaks no TLS there: --secret-file is not set there");
    mst_tls_free(client);
    assert_int_equal(mst_tls_new(&client, client_side), MUSTER_OK);
    assert_int_equal(mst_tls_feed(client, mst_slice_text("HTTP/1.1 400 Bad Request\r\n")),
                     MUSTER_EPROTO);
    assert_string_equal(mst_tls_reason(client),
                        "the peer speaks no TLS: is it a muster service with --secret-file?");
    mst_tls_free(client);
}

/* What TLS 1.3 itself says to ignore: the version in a record's head, and the record that is there
 * only to look like TLS 1.2 (change_cipher_spec). */
static bool means_nothing(const unsigned char *bytes, size_t size, size_t at)
{
    size_t start = 0;

    while (start + 5 <= size) {
        size_t length = 5 + (size_t)bytes[start + 3] * 256 + bytes[start + 4];

        if (at < start + length) {
            return bytes[start] == 0x14 || at == start + 1 || at == start + 2;
        }
        start += length;
    }
    return false;
}

/* Carries a handshake to its end, changing one bit of byte `at` of all that is said. False: there
 * is no such byte, or it means nothing. */
static bool shake_changed(struct pair *pair, size_t at)
{
    bool changed = false;
    size_t seen = 0;

    for (unsigned i = 0; i < 6; i++) {
        struct mst_tls *from = i % 2 ? pair->service : pair->client;
        struct mst_tls *to = i % 2 ? pair->client : pair->service;
        struct mst_slice output = mst_tls_output(from);
        unsigned char bytes[4096];

        assert_true(output.size <= sizeof(bytes));
        if (output.size == 0) {
            continue;
        }
        memcpy(bytes, output.data, output.size);
        if (at >= seen && at < seen + output.size) {
            changed = !means_nothing(bytes, output.size, at - seen);
            bytes[at - seen] ^= (unsigned char)(1u << (at % 8));
        }
        seen += output.size;
        (void)mst_tls_feed(to, mst_slice_of(bytes, output.size));
        mst_tls_written(from, output.size);
    }
    return changed;
}

/* A byte of a handshake is changed on the way. The two do not trust each other: what is not
 * covered by the proof of the secret is covered by that of the transcript. */
static void a_changed_handshake_is_not_trusted(void **state)
{
    size_t changed = 0;

    (void)state;
    for (size_t at = 0; at < 1200; at++) {
        struct pair pair = open_pair(client_side);

        if (shake_changed(&pair, at)) {
            changed++;
            if (mst_tls_trusted(pair.service) && mst_tls_trusted(pair.client)) {
                fail_msg("byte %zu of the handshake may be anything", at);
            }
        }
        close_pair(&pair);
    }
    assert_true(changed > 400);
}

/* A byte of a record is changed. It is not read, and the connection ends. */
static void a_changed_record_is_not_read(void **state)
{
    (void)state;
    for (size_t at = 0; at < 60; at++) {
        struct pair pair = open_pair(client_side);
        unsigned char bytes[256], room[256];
        struct mst_slice output;
        muster_status status;
        size_t got = 0;

        shake_hands(&pair, SIZE_MAX);
        assert_int_equal(mst_tls_write(pair.client, mst_slice_text("save the step 4711 now")),
                         MUSTER_OK);
        output = mst_tls_output(pair.client);
        assert_true(output.size <= sizeof(bytes));
        memcpy(bytes, output.data, output.size);
        if (at < output.size) {
            bytes[at] ^= 0x20;
            (void)mst_tls_feed(pair.service, mst_slice_of(bytes, output.size));
            status = mst_tls_read(pair.service, room, sizeof(room), &got);
            assert_true(status == MUSTER_EPROTO || status == MUSTER_MORE); /* a longer length */
        }
        close_pair(&pair);
    }
}

/* A record is sent again. It is not read, and the connection ends. */
static void a_record_sent_again_is_not_read(void **state)
{
    struct pair pair = open_pair(client_side);
    unsigned char bytes[256], room[256];
    struct mst_slice output;
    size_t got = 0;

    (void)state;
    shake_hands(&pair, SIZE_MAX);
    assert_int_equal(mst_tls_write(pair.client, mst_slice_text("add 1")), MUSTER_OK);
    output = mst_tls_output(pair.client);
    assert_true(output.size <= sizeof(bytes));
    memcpy(bytes, output.data, output.size);
    assert_int_equal(mst_tls_feed(pair.service, mst_slice_of(bytes, output.size)), MUSTER_OK);
    assert_int_equal(mst_tls_read(pair.service, room, sizeof(room), &got), MUSTER_OK);
    assert_int_equal(got, 5);
    assert_int_equal(mst_tls_feed(pair.service, mst_slice_of(bytes, output.size)), MUSTER_OK);
    assert_int_equal(mst_tls_read(pair.service, room, sizeof(room), &got), MUSTER_EPROTO);
    close_pair(&pair);
}

/* A handshake is cut anywhere. It is not finished, and the service has answered with less than
 * ten times what it was sent. [Strangers] */
static void a_handshake_cut_short_is_not_finished(void **state)
{
    struct mst_tls *client;
    unsigned char bytes[4096];
    struct mst_slice output;

    (void)state;
    assert_int_equal(mst_tls_new(&client, client_side), MUSTER_OK);
    output = mst_tls_output(client);
    assert_true(output.size <= sizeof(bytes));
    memcpy(bytes, output.data, output.size);
    for (size_t size = 0; size <= output.size; size++) {
        struct mst_tls *service;

        assert_int_equal(mst_tls_new(&service, service_side), MUSTER_OK);
        assert_int_equal(mst_tls_feed(service, mst_slice_of(bytes, size)), MUSTER_OK);
        assert_false(mst_tls_trusted(service));
        assert_true(mst_tls_output(service).size <= 10 * size);
        mst_tls_free(service);
    }
    mst_tls_free(client);
}

/* A stranger sends and sends. After 16 KiB it is hung up on. [Strangers] */
static void a_stranger_may_say_only_so_much(void **state)
{
    static const unsigned char head[] = {0x16, 3, 1, 0x40, 0};
    static unsigned char zeros[1000];
    struct mst_tls *service;
    muster_status status;
    size_t fed = sizeof(head);

    (void)state;
    assert_int_equal(mst_tls_new(&service, service_side), MUSTER_OK);
    status = mst_tls_feed(service, mst_slice_of(head, sizeof(head)));
    while (status == MUSTER_OK) {
        status = mst_tls_feed(service, mst_slice_of(zeros, sizeof(zeros)));
        fed += sizeof(zeros);
    }
    assert_int_equal(status, MUSTER_EPROTO);
    assert_true(fed <= MST_TLS_HANDSHAKE_BYTES_MAX + sizeof(zeros));
    mst_tls_free(service);
}

/* Noise arrives where a handshake is due. It costs its sender the connection. */
static void noise_is_no_handshake(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        struct pair pair = open_pair(client_side);
        unsigned char noise[300];

        for (size_t k = 0; k < sizeof(noise); k++) {
            noise[k] = (unsigned char)mst_prng_below(&prng, 256);
        }
        noise[0] = MST_TLS_FIRST_BYTE;
        noise[1] = 3;
        noise[2] = 3;
        noise[3] = 0;
        (void)mst_tls_feed(pair.service, mst_slice_of(noise, sizeof(noise)));
        (void)mst_tls_feed(pair.client, mst_slice_of(noise, sizeof(noise)));
        assert_false(mst_tls_trusted(pair.service));
        assert_false(mst_tls_trusted(pair.client));
        close_pair(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_is_the_same),
        cmocka_unit_test(both_ends_talk_and_say_goodbye),
        cmocka_unit_test(a_wrong_secret_is_told_to_both),
        cmocka_unit_test(a_service_without_a_secret_is_recognised),
        cmocka_unit_test(a_changed_handshake_is_not_trusted),
        cmocka_unit_test(a_changed_record_is_not_read),
        cmocka_unit_test(a_record_sent_again_is_not_read),
        cmocka_unit_test(a_handshake_cut_short_is_not_finished),
        cmocka_unit_test(a_stranger_may_say_only_so_much),
        cmocka_unit_test(noise_is_no_handshake),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
