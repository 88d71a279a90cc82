/* SPDX-License-Identifier: Apache-2.0 */
/* The front for torch's TCPStore clients before the real core, byte by byte: the scenarios of an
 * acceptance list, each of which torch's own server passes too unless it says otherwise.
 * behaviour: fronts / TCPStore */
#include "tcpstore_stage.h"

#include "base/text.h"

/* ---- opening ---- */

/* A client says VALIDATE and PING. It gets its number back, and nothing else. */
static void opening(struct stage *stage)
{
    struct peer *peer = stage_connect(stage, 0);

    stage_give(peer, "\x00\xCE\xF7\x85\x3C\x0D\x39\x30\x00\x00", 10);
    EXPECT(stage, stage_got(peer, "39 30 00 00"));
    EXPECT(stage, !peer->closed);
}

/* The opening comes one byte at a time. The answer is the same. */
static void opening_in_bytes(struct stage *stage)
{
    static const char bytes[] = "\x00\xCE\xF7\x85\x3C\x0D\x39\x30\x00\x00";
    struct peer *peer = stage_connect(stage, 0);

    for (size_t i = 0; i < 10; i++) {
        stage_give(peer, bytes + i, 1);
    }
    EXPECT(stage, stage_got(peer, "39 30 00 00"));
}

/* The opening and a first request come together. Both are answered, in order. */
static void opening_and_request(struct stage *stage)
{
    struct peer *peer = stage_connect(stage, 0);

    stage_give(peer, "\x00\xCE\xF7\x85\x3C\x0D\x39\x30\x00\x00\x07", 11);
    EXPECT(stage, stage_got(peer, "39 30 00 00  00 00 00 00 00 00 00 00"));
}

/* PING is answered although the session with the service is not open. The first request waits for
 * it, and is then answered. */
static void request_before_the_session(struct stage *stage)
{
    struct peer *peer;

    stage->shut = true;
    peer = stage_connect(stage, 0);
    stage_give(peer, "\x00\xCE\xF7\x85\x3C\x0D\x39\x30\x00\x00\x07", 11);
    EXPECT(stage, stage_got(peer, "39 30 00 00"));
    stage->shut = false;
    stage_written(peer, 0);
    EXPECT(stage, stage_got(peer, "00 00 00 00 00 00 00 00"));
}

/* A client says nothing. After 10 s it is disconnected, and another one is not. */
static void silent_client(struct stage *stage)
{
    struct peer *silent = stage_connect(stage, 0);
    struct peer *other = stage_client(stage, 0);

    stage_pass(stage, 9999);
    EXPECT(stage, !silent->closed);
    stage_pass(stage, 1);
    EXPECT(stage, silent->closed && !other->closed);
    EXPECT(stage, strstr(stage->line, "client 1 is disconnected: it has not said within 10 s"));
}

static bool is_refused(struct stage *stage, bool greeted, const void *bytes, size_t size,
                       const char *why)
{
    struct peer *peer = greeted ? stage_client(stage, 0) : stage_connect(stage, 0);
    size_t bytes_before = stage->mem.bytes;
    bool refused;

    stage_give(peer, bytes, size);
    refused = peer->closed && stage_got_nothing(peer) && strstr(stage->line, why);
    stage_give(peer, "\x07", 1);
    return (refused && stage_got_nothing(peer) && stage->mem.bytes - bytes_before < 1 << 16) ||
           stage->mem.failed;
}

/* The first bytes are not those of a client of torch 2.2 or later, or an opcode is unknown, or a
 * second VALIDATE comes. The client is disconnected without an answer, nothing more is done for it,
 * and one line says why. */
static void refused(struct stage *stage)
{
    EXPECT(stage, is_refused(stage, false, "\x0D\x39\x30\x00\x00", 5, "its first byte, 13,"));
    EXPECT(stage, is_refused(stage, false, "GET / HTTP/1.1\r\n", 16, "its first byte, 71,"));
    EXPECT(stage, is_refused(stage, false, "\x00\xCE\xF7\x85\x3D", 5, "its first bytes are not"));
    EXPECT(stage, is_refused(stage, true, "\x00\xCE\xF7\x85\x3C", 5, "opcode 0"));
    EXPECT(stage, is_refused(stage, true, "\x13", 1, "opcode 19 is none that may come here"));
    EXPECT(stage, is_refused(stage, true, "\x2a", 1, "opcode 42"));
    EXPECT(stage, is_refused(stage, true, "\xff", 1, "opcode 255"));
}

/* A request says that a key, a value or a list is larger than any may be. Its client alone is
 * disconnected as soon as the number is there, and no memory is taken for it. */
static void absurd_sizes(struct stage *stage)
{
    struct peer *other = stage_client(stage, 0);

    EXPECT(stage, is_refused(stage, true, "\x01\x00\x00\x00\x00\x00\x00\x00\x10", 9,
                             "SET: a key with a size of 1152921504606846976"));
    EXPECT(stage, is_refused(stage, true, "\x06\xff\xff\xff\xff\xff\xff\xff\xff", 9,
                             "WAIT: a number of keys of 18446744073709551615"));
    EXPECT(stage, is_refused(stage, true, "\x05\x01\x00\x02\x00\x00\x00\x00\x00", 9,
                             "CHECK: a number of keys of 131073"));
    EXPECT(stage,
           is_refused(stage, true,
                      "\x01\x01\x00\x00\x00\x00\x00\x00\x00k\x01\x00\x10\x00\x00\x00\x00\x00", 18,
                      "SET: a value with a size of 1048577, and at most 1048576"));
    stage_say(other, MST_TCPSTORE_GETNUMKEYS, "");
    EXPECT(stage, stage_got_number(other, 0));
}

/* ---- keys ---- */

/* Keys are set, read, appended to, counted and deleted. Each reply is the one that torch's server
 * gives, byte by byte. */
static void transcript(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);

    stage_give(peer, "\x01\x02\0\0\0\0\0\0\0/a\x01\0\0\0\0\0\0\0v", 20);
    EXPECT(stage, stage_got_nothing(peer));
    stage_give(peer, "\x03\x02\0\0\0\0\0\0\0/a", 11);
    EXPECT(stage, stage_got(peer, "01 00 00 00 00 00 00 00 76"));
    stage_give(peer, "\x04\x02\0\0\0\0\0\0\0/n\xff\xff\xff\xff\xff\xff\xff\xff", 19);
    EXPECT(stage, stage_got(peer, "ff ff ff ff ff ff ff ff"));
    stage_give(peer, "\x03\x02\0\0\0\0\0\0\0/n", 11);
    EXPECT(stage, stage_got(peer, "02 00 00 00 00 00 00 00 2d 31"));
    stage_give(peer, "\x09\x02\0\0\0\0\0\0\0/a\x02\0\0\0\0\0\0\0wx", 21);
    stage_give(peer,
               "\x0a\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/a\x02\0\0\0\0\0\0\0/m\x02\0\0\0\0\0\0\0/n",
               39);
    EXPECT(stage, stage_got(peer, "03 00 00 00 00 00 00 00 76 77 78  00 00 00 00 00 00 00 00"
                                  " 02 00 00 00 00 00 00 00 2d 31"));
    stage_give(peer, "\x05\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/a\x02\0\0\0\0\0\0\0/n", 29);
    EXPECT(stage, stage_got(peer, "00"));
    stage_give(peer, "\x05\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/a\x02\0\0\0\0\0\0\0/m", 29);
    EXPECT(stage, stage_got(peer, "01"));
    stage_give(peer, "\x07", 1);
    EXPECT(stage, stage_got(peer, "02 00 00 00 00 00 00 00"));
    stage_give(peer, "\x08\x02\0\0\0\0\0\0\0/a\x08\x02\0\0\0\0\0\0\0/a", 22);
    EXPECT(stage, stage_got(peer, "01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"));
    stage_give(peer, "\x11", 1);
    EXPECT(stage, stage_got(peer, "01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 2f 6e"));
    stage_give(peer, "\x0c", 1);
    EXPECT(stage, stage_got(peer, "01"));
}

/* The clients of two nodes see one store, which is in the keys of the job. */
static void two_nodes(struct stage *stage)
{
    struct peer *one = stage_client(stage, 0);
    struct peer *two = stage_client(stage, 1);
    const struct mst_reply *key;

    stage_say(one, MST_TCPSTORE_SET, "kv", "/default_pg/0//cpu//0/1", "address");
    stage_say(two, MST_TCPSTORE_GET, "k", "/default_pg/0//cpu//0/1");
    EXPECT(stage, stage_got_bytes(two, "address"));
    key = stage_key(stage, "tcpstore/0/keys//default_pg/0//cpu//0/1");
    EXPECT(stage, key && mst_slice_is(key->value, "address"));
}

static void prepare_attempt(struct stage *stage)
{
    stage->config.attempt = 3;
}

/* Another attempt of the job's processes has a store of its own. */
static void attempts(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);

    stage_say(peer, MST_TCPSTORE_SET, "kv", "k", "v");
    EXPECT(stage, stage_key(stage, "tcpstore/3/keys/k"));
}

/* A key has bytes that a key of the service cannot have, or none at all. It is read, listed and
 * deleted as it was set, and is not mixed up with another one. */
static void odd_keys(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    static const struct {
        const char *bytes;
        size_t size;
    } keys[] = {{"", 0}, {"\0", 1}, {"\1", 1}, {"\1\1", 2}, {"\1\2", 2}, {"a\0\xff/\xc3\xa9", 6}};

    for (size_t i = 0; i < 6; i++) {
        char value[] = {(char)('a' + i), '\0'};

        stage_say(peer, MST_TCPSTORE_SET, "bv", keys[i].bytes, keys[i].size, value);
    }
    for (size_t i = 0; i < 6; i++) {
        char value[] = {(char)('a' + i), '\0'};

        stage_say(peer, MST_TCPSTORE_GET, "b", keys[i].bytes, keys[i].size);
        EXPECT(stage, stage_got_bytes(peer, value));
    }
    for (size_t i = 1; i < 5; i++) {
        stage_say(peer, MST_TCPSTORE_DELETE_KEY, "b", keys[i].bytes, keys[i].size);
        EXPECT(stage, stage_got_number(peer, 1));
    }
    stage_say(peer, MST_TCPSTORE_LIST_KEYS, "");
    EXPECT(stage, stage_got(peer, "02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"
                                  " 06 00 00 00 00 00 00 00 61 00 ff 2f c3 a9"));
}

/* GET and MULTI_GET of missing keys give values without a byte, and the client stays connected. */
static void missing_keys(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);

    stage_say(peer, MST_TCPSTORE_GET, "k", "none");
    EXPECT(stage, stage_got(peer, "00 00 00 00 00 00 00 00"));
    stage_say(peer, MST_TCPSTORE_MULTI_GET, "K", 2, "none", "neither");
    EXPECT(stage, stage_got(peer, "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"));
    stage_say(peer, MST_TCPSTORE_MULTI_GET, "K", 0);
    stage_say(peer, MST_TCPSTORE_CHECK, "K", 0);
    EXPECT(stage, stage_got(peer, "00"));
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 0);
    EXPECT(stage, stage_got(peer, "00"));
    EXPECT(stage, !peer->closed);
}

/* An empty value is a value: the key exists. An empty APPEND makes one. */
static void empty_values(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);

    stage_say(peer, MST_TCPSTORE_SET, "kv", "set", "");
    stage_say(peer, MST_TCPSTORE_APPEND, "kv", "appended", "");
    stage_say(peer, MST_TCPSTORE_CHECK, "K", 2, "set", "appended");
    EXPECT(stage, stage_got(peer, "00"));
    stage_say(peer, MST_TCPSTORE_GETNUMKEYS, "");
    EXPECT(stage, stage_got_number(peer, 2));
}

static bool adds(struct stage *stage, const char *value, int64_t delta, int64_t sum,
                 const char *after)
{
    struct peer *peer = stage_client(stage, 0);
    bool right;

    stage_say(peer, MST_TCPSTORE_SET, "kv", "n", value);
    stage_say(peer, MST_TCPSTORE_ADD, "ki", "n", delta);
    right = stage_got_number(peer, sum);
    stage_say(peer, MST_TCPSTORE_GET, "k", "n");
    return (right && stage_got_bytes(peer, after)) || stage->mem.failed;
}

/* ADD reads the number at the start of a value, as torch's server does, and wraps. */
static void odd_numbers(struct stage *stage)
{
    EXPECT(stage, adds(stage, "12abc", 1, 13, "13"));
    EXPECT(stage, adds(stage, " 7", 1, 8, "8"));
    EXPECT(stage, adds(stage, "+3", 1, 4, "4"));
    EXPECT(stage, adds(stage, "0x10", 1, 1, "1"));
    EXPECT(stage, adds(stage, "1.9", 1, 2, "2"));
    EXPECT(stage, adds(stage, "-0", 1, 1, "1"));
    EXPECT(stage, adds(stage, "41", 1, 42, "42"));
    EXPECT(stage, adds(stage, "9223372036854775807", 1, INT64_MIN, "-9223372036854775808"));
    EXPECT(stage, adds(stage, "-9223372036854775808", -1, INT64_MAX, "9223372036854775807"));
}

/* ADD to a value that is no number. The client is disconnected, the value stays, and others go on.
 */
static void no_numbers(struct stage *stage)
{
    static const char *const values[] = {
        "", "abc", "99999999999999999999", "-", " ", "9223372036854775808", "-9223372036854775809"};
    struct peer *other = stage_client(stage, 0);

    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        struct peer *peer = stage_client(stage, 0);

        stage_say(other, MST_TCPSTORE_SET, "kv", "n", values[i]);
        stage_say(peer, MST_TCPSTORE_ADD, "ki", "n", INT64_C(1));
        EXPECT(stage, peer->closed && stage_got_nothing(peer));
        EXPECT(stage, strstr(stage->line, "ADD: the value of its key is no number"));
        stage_say(other, MST_TCPSTORE_GET, "k", "n");
        EXPECT(stage, stage_got_bytes(other, values[i]));
    }
}

/* ADD of 0 to a missing key creates it. */
static void add_nothing(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);

    stage_say(peer, MST_TCPSTORE_ADD, "ki", "n", INT64_C(0));
    EXPECT(stage, stage_got_number(peer, 0));
    stage_say(peer, MST_TCPSTORE_GET, "k", "n");
    EXPECT(stage, stage_got_bytes(peer, "0"));
}

static bool compares(struct peer *peer, const char *expected, const char *desired,
                     const char *reply)
{
    stage_say(peer, MST_TCPSTORE_COMPARE_SET, "kvv", "k", expected, desired);
    return stage_got_bytes(peer, reply);
}

/* COMPARE_SET stores if the value is the expected one, or if the key is missing and nothing is
 * expected. It replies the value that is there then, and of a missing key what was expected. */
static void compare_set(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);

    EXPECT(stage, compares(peer, "x", "a", "x"));
    stage_say(peer, MST_TCPSTORE_CHECK, "K", 1, "k");
    EXPECT(stage, stage_got(peer, "01"));
    EXPECT(stage, compares(peer, "", "a", "a"));
    EXPECT(stage, compares(peer, "", "b", "a"));
    EXPECT(stage, compares(peer, "x", "b", "a"));
    EXPECT(stage, compares(peer, "a", "b", "b"));
    EXPECT(stage, compares(peer, "b", "", ""));
    EXPECT(stage, compares(peer, "", "c", "c"));
    stage_say(peer, MST_TCPSTORE_GET, "k", "k");
    EXPECT(stage, stage_got_bytes(peer, "c"));
}

static void pairs(struct peer *peer, uint64_t count, bool half)
{
    struct failing_mem mem;
    struct mst_buffer buffer;
    struct mst_slice whole;
    unsigned char number[8];

    failing_mem_init(&mem, 0);
    mst_buffer_init(&buffer, &mem.mem, 1 << 20);
    mst_tcpstore_put_number(number, count);
    assert_true(mst_buffer_append(&buffer, mst_slice_of("\x0b", 1)));
    assert_true(mst_buffer_append(&buffer, mst_slice_of(number, 8)));
    for (uint64_t i = 0; i < count; i++) {
        char text[24];

        for (unsigned j = 0; j < 2; j++) {
            struct mst_slice word = {.data = text};

            word.size =
                mst_text_print(text, sizeof(text), j == 0 ? "key%" PRIu64 : "value%" PRIu64, i);
            mst_tcpstore_put_number(number, word.size);
            assert_true(mst_buffer_append(&buffer, mst_slice_of(number, 8)));
            assert_true(mst_buffer_append(&buffer, word));
        }
    }
    whole = mst_buffer_content(&buffer);
    stage_give(peer, whole.data, half ? whole.size / 2 : whole.size);
    mst_buffer_fini(&buffer);
}

/* A client is lost in the middle of a MULTI_SET. None of its keys is set. */
static void half_of_many(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 0);

    pairs(peer, 2, true);
    stage_say(other, MST_TCPSTORE_GETNUMKEYS, "");
    EXPECT(stage, stage_got_number(other, 0));
    stage_end(peer);
    EXPECT(stage, peer->closed);
    stage_say(other, MST_TCPSTORE_CHECK, "K", 1, "key0");
    EXPECT(stage, stage_got(other, "01"));
}

/* 5,000 keys are set, checked, listed and counted in one request each. */
static void many_keys(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);

    pairs(peer, 5000, false);
    stage_say(peer, MST_TCPSTORE_MULTI_GET, "K", 3, "key0", "key128", "key4999");
    EXPECT(stage, stage_got(peer, "06 0 0 0 0 0 0 0 76 61 6c 75 65 30"
                                  " 08 0 0 0 0 0 0 0 76 61 6c 75 65 31 32 38"
                                  " 09 0 0 0 0 0 0 0 76 61 6c 75 65 34 39 39 39"));
    stage_say(peer, MST_TCPSTORE_GETNUMKEYS, "");
    EXPECT(stage, stage_got_number(peer, 5000));
    stage_say(peer, MST_TCPSTORE_LIST_KEYS, "");
    EXPECT(stage, stage_got_size(peer) == 8 + 5000 * 8 + 10 * 4 + 90 * 5 + 900 * 6 + 4000 * 7);
}

/* A value is longer than the service takes after an APPEND, or a key is. The client is
 * disconnected, and the line names the limit. */
static void limits_of_the_service(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    char *bytes = calloc(1, 1 << 20);

    assert_non_null(bytes);
    stage_say(peer, MST_TCPSTORE_SET, "kb", "k", bytes, (size_t)1 << 20);
    EXPECT(stage, !peer->closed);
    stage_say(peer, MST_TCPSTORE_APPEND, "kv", "k", "x");
    EXPECT(stage, peer->closed &&
                      strstr(stage->line, "APPEND: a limit is reached (value_bytes_max: 1048576)"));
    peer = stage_client(stage, 0);
    memset(bytes, 'k', 8192);
    stage_say(peer, MST_TCPSTORE_SET, "bv", bytes, (size_t)8192, "v");
    EXPECT(stage,
           peer->closed && strstr(stage->line, "SET: a limit is reached (key_bytes_max: 4096)"));
    peer = stage_client(stage, 0);
    stage_say(peer, MST_TCPSTORE_WAIT, "ib", INT64_C(1), bytes, (size_t)8192);
    EXPECT(stage,
           peer->closed && strstr(stage->line, "WAIT: a limit is reached (key_bytes_max: 4096)"));
    free(bytes);
}

/* ---- order ---- */

/* A thousand requests come at once. They are answered in order. */
static void pipeline(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    static const unsigned char add[18] = {4, 1, 0, 0, 0, 0, 0, 0, 0, 'n', 1};
    unsigned char bytes[1000][18];

    for (size_t i = 0; i < 1000; i++) {
        memcpy(bytes[i], add, sizeof(add));
    }
    stage_give(peer, bytes, sizeof(bytes));
    EXPECT(stage, stage_got_size(peer) == 8000);
    for (size_t i = 0; i < 1000; i++) {
        unsigned char number[8];

        mst_tcpstore_put_number(number, i + 1);
        EXPECT(stage, memcmp(peer->got + 8 * i, number, 8) == 0);
    }
}

/* A client sends requests and closes its end, as a process that exits at once. All of them are done
 * and answered, and then the connection is closed. */
static void requests_before_the_end(struct stage *stage)
{
    struct peer *peer;
    struct peer *other = stage_client(stage, 0);

    stage->shut = true;
    peer = stage_client(stage, 0);
    stage_say(peer, MST_TCPSTORE_SET, "kv", "a", "1");
    stage_say(peer, MST_TCPSTORE_SET, "kv", "b", "2");
    stage_say(peer, MST_TCPSTORE_GET, "k", "a");
    stage_end(peer);
    EXPECT(stage, !peer->closed);
    stage->shut = false;
    stage_say(other, MST_TCPSTORE_GETNUMKEYS, "");
    EXPECT(stage, stage_got_bytes(peer, "1") && peer->closed);
    stage_say(other, MST_TCPSTORE_CHECK, "K", 2, "a", "b");
    EXPECT(stage, other->got_size > 0 && other->got[other->got_size - 1] == 0);
}

/* A client does not read its replies. No further request of it is done until it does, and it is not
 * read from while many wait. */
static void slow_reader(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    static const unsigned char get[10] = {3, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
    size_t size = (size_t)20000 * sizeof(get);
    unsigned char *bytes = malloc(2 * size);
    size_t posts;

    assert_non_null(bytes);
    for (size_t i = 0; i < 2 * size; i += 10) {
        memcpy(bytes + i, get, sizeof(get));
    }
    stage_written(peer, (1 << 20) + 1);
    posts = stage->posts;
    stage_give(peer, bytes, size);
    EXPECT(stage, !peer->paused && stage->posts == posts);
    stage_give(peer, bytes, size);
    EXPECT(stage, peer->paused && stage->posts == posts && stage_got_nothing(peer));
    stage_written(peer, 0);
    EXPECT(stage, !peer->paused && stage_got_size(peer) == (size_t)40000 * 8);
    free(bytes);
}

/* ---- waits ---- */

/* WAIT is answered at once if its keys exist, and else when the last of them does, once. The keys
 * may be set by clients of another node, by any request that creates one. */
static void waits(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 1);

    stage_say(peer, MST_TCPSTORE_WAIT, "K", 3, "a", "b", "c");
    stage_say(other, MST_TCPSTORE_SET, "kv", "a", "");
    stage_say(other, MST_TCPSTORE_ADD, "ki", "c", INT64_C(1));
    EXPECT(stage, stage_got_nothing(peer));
    stage_say(other, MST_TCPSTORE_APPEND, "kv", "b", "x");
    EXPECT(stage, stage_got(peer, "00"));
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 2, "a", "b");
    EXPECT(stage, stage_got(peer, "00"));
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, "key1");
    pairs(other, 2, false);
    EXPECT(stage, stage_got(peer, "00"));
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, "d");
    stage_say(other, MST_TCPSTORE_COMPARE_SET, "kvv", "d", "", "x");
    EXPECT(stage, stage_got(peer, "00"));
}

/* A key that existed while a WAIT was held counts, also if it is deleted before the others exist. A
 * key twice in a WAIT counts once. */
static void latched(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 0);

    stage_say(peer, MST_TCPSTORE_WAIT, "K", 2, "a", "b");
    stage_say(other, MST_TCPSTORE_SET, "kv", "a", "x");
    stage_say(other, MST_TCPSTORE_DELETE_KEY, "k", "a");
    stage_say(other, MST_TCPSTORE_SET, "kv", "b", "x");
    EXPECT(stage, stage_got(peer, "00"));
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 2, "k", "k");
    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "x");
    EXPECT(stage, stage_got(peer, "00"));
}

static bool waits_for(struct peer *peer, const char *key)
{
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, key);
    return stage_got(peer, "00") || peer->stage->mem.failed;
}

static bool reads(struct peer *peer, const char *key, const char *value)
{
    stage_say(peer, MST_TCPSTORE_GET, "k", key);
    return stage_got_bytes(peer, value) || peer->stage->mem.failed;
}

/* torch's `get` is a WAIT and then a GET. The service is asked once for both, whether the key is
 * there or comes. */
static void get_of_torch(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 1);
    size_t posts;

    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "there");
    EXPECT(stage, waits_for(peer, "k")); /* its session is open */
    posts = stage->posts;
    EXPECT(stage, waits_for(peer, "k") && reads(peer, "k", "there"));
    EXPECT(stage, stage->posts == posts + 1);
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, "empty");
    stage_say(other, MST_TCPSTORE_SET, "kv", "empty", "");
    posts = stage->posts;
    EXPECT(stage, stage_got(peer, "00") && reads(peer, "empty", ""));
    EXPECT(stage, stage->posts == posts);
}

/* A value that ended a WAIT is for the GET of its key that comes next, within a second. Any other
 * GET has the value of its own time. */
static void get_after_a_wait(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 1);

    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "1");
    EXPECT(stage, waits_for(peer, "k") && reads(peer, "k", "1"));
    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "2");
    EXPECT(stage, reads(peer, "k", "2"));
    EXPECT(stage, waits_for(peer, "k") && reads(peer, "none", ""));
    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "3");
    EXPECT(stage, reads(peer, "k", "3"));
    EXPECT(stage, waits_for(peer, "k"));
    stage_say(peer, MST_TCPSTORE_SET, "kv", "k", "4");
    EXPECT(stage, reads(peer, "k", "4"));
    EXPECT(stage, waits_for(peer, "k"));
    stage_say(peer, MST_TCPSTORE_CANCEL_WAIT, "");
    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "5");
    EXPECT(stage, stage_got(peer, "01") && reads(peer, "k", "5"));
    EXPECT(stage, waits_for(peer, "k"));
    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "6");
    stage_pass(stage, 1000);
    EXPECT(stage, reads(peer, "k", "6"));
}

/* A COMPARE_SET that stores nothing wakes no WAIT. */
static void failed_compare(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 0);

    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, "k");
    stage_say(other, MST_TCPSTORE_COMPARE_SET, "kvv", "k", "x", "y");
    EXPECT(stage, stage_got_bytes(other, "x"));
    EXPECT(stage, stage_got_nothing(peer));
}

/* CANCEL_WAIT is always answered by one byte, and a wait that it ended by none. */
static void cancels(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 0);

    stage_say(peer, MST_TCPSTORE_CANCEL_WAIT, "");
    EXPECT(stage, stage_got(peer, "01"));
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, "k");
    stage_say(peer, MST_TCPSTORE_CANCEL_WAIT, "");
    EXPECT(stage, stage_got(peer, "01"));
    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "x");
    EXPECT(stage, stage_got_nothing(peer));
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, "later");
    stage_say(other, MST_TCPSTORE_SET, "kv", "later", "x");
    stage_say(peer, MST_TCPSTORE_CANCEL_WAIT, "");
    EXPECT(stage, stage_got(peer, "00 01"));
}

/* Requests are answered while a WAIT is held, and a new WAIT replaces it. */
static void beside_a_wait(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);

    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, "k");
    stage_say(peer, MST_TCPSTORE_GETNUMKEYS, "");
    EXPECT(stage, stage_got_number(peer, 0));
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 1, "other");
    stage_say(peer, MST_TCPSTORE_SET, "kv", "k", "x");
    EXPECT(stage, stage_got_nothing(peer));
    stage_say(peer, MST_TCPSTORE_SET, "kv", "other", "x");
    EXPECT(stage, stage_got(peer, "00"));
}

/* 500 clients wait for one key. One SET releases all of them, each once; one that is lost
 * before disturbs none of them. */
static void many_wait(struct stage *stage)
{
    struct peer *peers[500];
    struct peer *other = stage_client(stage, 1);

    for (size_t i = 0; i < 500; i++) {
        peers[i] = stage_client(stage, 0);
        stage_say(peers[i], MST_TCPSTORE_WAIT, "K", 2, "k", "here");
    }
    stage_end(peers[7]);
    EXPECT(stage, peers[7]->closed);
    stage_say(other, MST_TCPSTORE_SET, "kv", "here", "x");
    stage_say(other, MST_TCPSTORE_SET, "kv", "k", "x");
    for (size_t i = 0; i < 500; i++) {
        EXPECT(stage, stage_got(peers[i], i == 7 ? "" : "00"));
    }
}

/* A WAIT for more keys than one request to the service waits for. It ends when all of them exist.
 */
static void wide_wait(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 0);
    unsigned char bytes[9 + 130 * 10] = "\x06\x82";

    for (size_t i = 0; i < 130; i++) {
        unsigned char *at = bytes + 9 + 10 * i;

        at[0] = 2;
        at[8] = (unsigned char)('a' + i / 16);
        at[9] = (unsigned char)('a' + i % 16);
    }
    stage_give(peer, bytes, sizeof(bytes));
    for (size_t i = 0; i < 130; i++) {
        char key[3] = {(char)('a' + i / 16), (char)('a' + i % 16), '\0'};

        EXPECT(stage, stage_got_nothing(peer));
        stage_say(other, MST_TCPSTORE_SET, "kv", key, "");
    }
    EXPECT(stage, stage_got(peer, "00"));
}

/* Two clients wait for 30 s. One line says which process waits, and for what; it is not repeated,
 * and a wait that ends before is not in it. After the first second they are shown, until they
 * end. */
static void long_wait(struct stage *stage)
{
    struct peer *quick = stage_client(stage, 0);
    struct peer *peer = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 0);

    stage_give(peer, "\x0D\x39\x30\x00\x00", 5);
    EXPECT(stage, stage_got(peer, "39 30 00 00"));
    stage_say(quick, MST_TCPSTORE_WAIT, "K", 1, "quick");
    stage_say(peer, MST_TCPSTORE_WAIT, "K", 3, "/default_pg/0//cpu//0/1", "b", "c");
    stage_say(other, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(2));
    stage_say(other, MST_TCPSTORE_SET, "kv", "quick", "");
    stage_pass(stage, 29999);
    EXPECT(stage, stage_got(quick, "00") && stage->line[0] == '\0');
    EXPECT(stage,
           strcmp(stage->waits, "12345 1000 for the key '/default_pg/0//cpu//0/1' and 2 more;"
                                "0 1000 at the barrier 'b';") == 0);
    stage_pass(stage, 1);
    EXPECT(stage, strcmp(stage->line, "process 12345 has waited 30 s for the key "
                                      "'/default_pg/0//cpu//0/1' and 2 more; 1 other client has "
                                      "waited as long") == 0);
    stage->line[0] = '\0';
    stage_pass(stage, 100000);
    EXPECT(stage, stage->line[0] == '\0');
    stage_say(quick, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(2));
    EXPECT(stage, stage_got(other, "00") && strstr(stage->waits, "12345 ") == stage->waits &&
                      !strstr(stage->waits, "barrier"));
    stage_say(quick, MST_TCPSTORE_BARRIER, "ki", "alone", INT64_C(2));
    stage_pass(stage, 30000);
    EXPECT(stage, strcmp(stage->line, "process 0 has waited 30 s at the barrier 'alone'") == 0);
}

/* ---- barriers ---- */

/* BARRIER is answered when as many have arrived as it says, on any node. Its count is the value of
 * its key. It opens again only when the key is deleted. */
static void barrier(struct stage *stage)
{
    struct peer *one = stage_client(stage, 0);
    struct peer *two = stage_client(stage, 1);
    struct peer *three = stage_client(stage, 1);

    stage_say(one, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(3));
    stage_say(two, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(3));
    EXPECT(stage, stage_got_nothing(one) && stage_got_nothing(two));
    stage_say(three, MST_TCPSTORE_GET, "k", "b");
    EXPECT(stage, stage_got_bytes(three, "2"));
    stage_say(three, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(3));
    EXPECT(stage, stage_got(one, "00") && stage_got(two, "00") && stage_got(three, "00"));
    stage_say(one, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(3));
    EXPECT(stage, stage_got(one, "00"));
    stage_say(one, MST_TCPSTORE_DELETE_KEY, "k", "b");
    EXPECT(stage, stage_got_number(one, 1));
    stage_say(one, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(2));
    EXPECT(stage, stage_got_nothing(one));
    stage_say(one, MST_TCPSTORE_CANCEL_WAIT, "");
    EXPECT(stage, stage_got(one, "01"));
    stage_say(two, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(2));
    EXPECT(stage, stage_got(two, "00") && stage_got_nothing(one));
    stage_say(two, MST_TCPSTORE_BARRIER, "ki", "none", INT64_C(0));
    EXPECT(stage, stage_got(two, "00"));
}

/* A SET of a barrier's key does not open it. A BARRIER whose key is no number is disconnected. */
static void barrier_and_set(struct stage *stage)
{
    struct peer *one = stage_client(stage, 0);
    struct peer *two = stage_client(stage, 0);

    stage_say(one, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(2));
    stage_say(two, MST_TCPSTORE_SET, "kv", "b", "word");
    EXPECT(stage, stage_got_nothing(one));
    stage_say(two, MST_TCPSTORE_BARRIER, "ki", "b", INT64_C(2));
    EXPECT(stage, two->closed && strstr(stage->line, "BARRIER: the value of its key"));
    EXPECT(stage, stage_got_nothing(one) && !one->closed);
}

/* ---- the service ---- */

/* The session with the service is over. The clients of the front are disconnected, for they would
 * wait for ever, and one line says why; a client that connects then is served. */
static void session_over(struct stage *stage)
{
    struct peer *peer = stage_client(stage, 0);
    struct peer *waiting = stage_client(stage, 0);
    struct peer *other = stage_client(stage, 1);

    stage_say(peer, MST_TCPSTORE_SET, "kv", "k", "v");
    stage_say(waiting, MST_TCPSTORE_WAIT, "K", 1, "none");
    stage_say(other, MST_TCPSTORE_GETNUMKEYS, "");
    stage_end_session(stage, 0, MUSTER_EFENCED);
    EXPECT(stage, peer->closed && waiting->closed && !other->closed);
    EXPECT(stage, strstr(stage->line, "the store is over: given up"));
    EXPECT(stage, strstr(stage->line, "the service is gone; its clients are disconnected"));
    peer = stage_client(stage, 0);
    stage_say(peer, MST_TCPSTORE_GET, "k", "k");
    EXPECT(stage, stage_got_bytes(peer, "v"));
}

static void run_third_attempt(stage_scenario *scenario)
{
    stage_run_with(scenario, prepare_attempt);
}

#define SCENARIO(name, run)                                                                        \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        run(name);                                                                                 \
    }

#define SCENARIOS(X)                                                                               \
    X(opening, stage_run)                                                                          \
    X(opening_in_bytes, stage_run)                                                                 \
    X(opening_and_request, stage_run)                                                              \
    X(request_before_the_session, stage_run)                                                       \
    X(silent_client, stage_run)                                                                    \
    X(refused, stage_run)                                                                          \
    X(absurd_sizes, stage_run)                                                                     \
    X(transcript, stage_run)                                                                       \
    X(two_nodes, stage_run)                                                                        \
    X(attempts, run_third_attempt)                                                                 \
    X(odd_keys, stage_run)                                                                         \
    X(missing_keys, stage_run)                                                                     \
    X(empty_values, stage_run)                                                                     \
    X(odd_numbers, stage_run)                                                                      \
    X(no_numbers, stage_run)                                                                       \
    X(add_nothing, stage_run)                                                                      \
    X(compare_set, stage_run)                                                                      \
    X(half_of_many, stage_run)                                                                     \
    X(many_keys, stage_run_once)                                                                   \
    X(limits_of_the_service, stage_run_once)                                                       \
    X(pipeline, stage_run_once)                                                                    \
    X(requests_before_the_end, stage_run)                                                          \
    X(slow_reader, stage_run_once)                                                                 \
    X(waits, stage_run)                                                                            \
    X(latched, stage_run)                                                                          \
    X(get_of_torch, stage_run)                                                                     \
    X(get_after_a_wait, stage_run)                                                                 \
    X(failed_compare, stage_run)                                                                   \
    X(cancels, stage_run)                                                                          \
    X(beside_a_wait, stage_run)                                                                    \
    X(many_wait, stage_run_once)                                                                   \
    X(wide_wait, stage_run_once)                                                                   \
    X(long_wait, stage_run)                                                                        \
    X(barrier, stage_run)                                                                          \
    X(barrier_and_set, stage_run)                                                                  \
    X(session_over, stage_run)

SCENARIOS(SCENARIO)

#define ROW(name, run) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {SCENARIOS(ROW)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
