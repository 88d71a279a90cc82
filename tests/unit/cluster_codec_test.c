/* SPDX-License-Identifier: Apache-2.0 */
/* What a coordinator and a worker send each other arrives as it was, whatever way its bytes take.
 *
 * behaviour: wire / Between a coordinator and its workers */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_generator.h"
#include "failing_mem.h"
#include "proto/cluster/cluster.h"

enum { ROUNDS = 4000, BATCH = 60 };

struct scene {
    struct failing_mem mem;
    struct mst_cluster_codec *here, *there;
    struct cluster_generator generator, expected;
};

static struct scene *scene_new(uint64_t seed, const struct mst_cluster_codec_limits *limits)
{
    struct scene *scene = calloc(1, sizeof *scene);

    assert_non_null(scene);
    failing_mem_init(&scene->mem, 0);
    assert_int_equal(mst_cluster_codec_new(&scene->here, limits, &scene->mem.mem), MUSTER_OK);
    assert_int_equal(mst_cluster_codec_new(&scene->there, limits, &scene->mem.mem), MUSTER_OK);
    cluster_generator_init(&scene->generator, seed);
    cluster_generator_init(&scene->expected, seed);
    return scene;
}

static void scene_free(struct scene *scene)
{
    mst_cluster_codec_free(scene->here);
    mst_cluster_codec_free(scene->there);
    assert_int_equal(scene->mem.live, 0);
    free(scene);
}

static void send(struct scene *scene, const struct mst_cluster_message *message)
{
    assert_int_equal(mst_cluster_codec_send(scene->here, message), MUSTER_OK);
}

static void carry(struct scene *scene)
{
    struct mst_slice output = mst_native_stream_output(&scene->here->stream);

    assert_int_equal(mst_native_stream_feed(&scene->there->stream, output), MUSTER_OK);
    mst_native_stream_written(&scene->here->stream, output.size);
}

/* Any message is sent. What comes out on the other side is what went in. */
static void every_message_arrives_as_it_was(void **state)
{
    struct scene *scene = scene_new(1, NULL);
    struct mst_cluster_message got;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct mst_cluster_message *sent =
            cluster_generator_of(&scene->generator, cluster_types[i % CLUSTER_TYPES]);

        send(scene, sent);
        carry(scene);
        assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_OK);
        assert_true(cluster_message_equal(sent, &got));
        assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_MORE);
        assert_string_equal(scene->there->stream.reason, "");
    }
    assert_int_equal(mst_native_stream_end(&scene->there->stream), MUSTER_OK);
    scene_free(scene);
}

/* ---- in pieces ---- */

/* How many bytes come next. */
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

static unsigned take_expected(struct scene *scene, unsigned most)
{
    struct mst_cluster_message got;
    unsigned count = 0;

    while (count < most && mst_cluster_codec_next(scene->there, &got) == MUSTER_OK) {
        assert_true(cluster_message_equal(cluster_generator_any(&scene->expected), &got));
        count++;
    }
    assert_string_equal(scene->there->stream.reason, "");
    return count;
}

/* In memory of its own, which is gone afterwards: what is lent is kept, or was taken. */
static unsigned feed_piece(struct scene *scene, struct mst_slice piece, bool lent)
{
    unsigned char *alone = malloc(piece.size > 0 ? piece.size : 1);
    unsigned count = 0;

    assert_non_null(alone);
    memcpy(alone, piece.data, piece.size);
    piece.data = alone;
    if (lent) {
        assert_int_equal(mst_native_stream_lend(&scene->there->stream, piece), MUSTER_OK);
        count = take_expected(scene, 2);
        assert_int_equal(mst_native_stream_keep(&scene->there->stream), MUSTER_OK);
    } else {
        assert_int_equal(mst_native_stream_feed(&scene->there->stream, piece), MUSTER_OK);
    }
    memset(alone, 0xa5, piece.size);
    free(alone);
    return count + take_expected(scene, BATCH);
}

static void messages_cut(cut *how, uint64_t seed)
{
    struct scene *scene = scene_new(seed, NULL);
    struct mst_prng prng = {.state = seed};
    struct mst_slice output;
    unsigned count = 0;

    for (unsigned i = 0; i < BATCH; i++) {
        send(scene, cluster_generator_any(&scene->generator));
    }
    output = mst_native_stream_output(&scene->here->stream);
    for (size_t at = 0; at < output.size;) {
        size_t size = how(&prng);

        size = size < output.size - at ? size : output.size - at;
        count += feed_piece(scene, mst_slice_of((const char *)output.data + at, size),
                            mst_prng_below(&prng, 2));
        at += size;
    }
    assert_int_equal(count, BATCH);
    assert_int_equal(mst_native_stream_end(&scene->there->stream), MUSTER_OK);
    scene_free(scene);
}

/* The bytes arrive in any pieces, copied or lent. The same messages come out. */
static void messages_cut_anywhere(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        messages_cut(single_bytes, seed);
        messages_cut(small_pieces, seed);
        messages_cut(large_pieces, seed);
    }
}

/* ---- bytes ---- */

struct golden {
    const char *name;
    struct mst_cluster_message message;
    unsigned char bytes[64];
    size_t size;
};

static const struct mst_part golden_parts[] = {{.data = {"ab", 2}, .type = 7}, {.type = 0}};
static const uint64_t golden_needs[] = {3, 300};
static const struct mst_function golden_functions[] = {
    {.name = {"f", 1}, .version = 2, .flags = MST_FUNCTION_PURE | MST_FUNCTION_CHILD}};
static const struct mst_attempt golden_held[] = {{.closure = 5, .attempt = 1}};
static const struct mst_failure golden_cause = {
    .origin = MST_ORIGIN_CRASH, .code = -11, .worker = MST_WORKER_NONE};

#define BYTES(...) .bytes = {__VA_ARGS__}, .size = sizeof((unsigned char[]){__VA_ARGS__})

static const struct golden goldens[] = {
    {"hello",
     {.type = MST_CLUSTER_HELLO,
      .version = 1,
      .cluster = {"c", 1},
      .index = 2,
      .incarnation = 3,
      .pid = 4,
      .host = {"h", 1},
      .slots = 5,
      .functions = golden_functions,
      .function_count = 1,
      .held = golden_held,
      .held_count = 1,
      .values = golden_needs,
      .value_count = 2,
      .results = 7,
      .turn = 8,
      .term = 6},
     BYTES(0, 0, 0, 44, 0x0a, 42, 0x08, 1, 0x12, 1, 'c', 0x18, 2, 0x20, 3, 0x28, 4, 0x32, 1, 'h',
           0x38, 5, 0x40, 6, 0x4a, 3, 3, 0xac, 2, 0x52, 7, 0x0a, 1, 'f', 0x10, 2, 0x18, 17, 0x5a, 4,
           8, 5, 0x10, 1, 0x60, 7, 0x68, 8)},
    {"result",
     {.type = MST_CLUSTER_RESULT,
      .attempt = {.closure = 300, .attempt = 1},
      .series = 2,
      .run_ns = 9,
      .parts = {.items = golden_parts, .count = 2}},
     BYTES(0, 0, 0, 21, 0x12, 19, 8, 0xac, 2, 0x10, 1, 0x18, 2, 0x20, 9, 0x32, 6, 8, 7, 0x12, 2,
           'a', 'b', 0x32, 0)},
    {"failure",
     {.type = MST_CLUSTER_RESULT,
      .attempt = {.closure = 1, .attempt = 1},
      .failure = {.origin = MST_ORIGIN_INPUT,
                  .worker = 0,
                  .attempt = 1,
                  .incarnation = 2,
                  .text = {"no", 2},
                  .state = {"s", 1},
                  .cause = &golden_cause}},
     BYTES(0, 0, 0, 29, 0x12, 27, 8, 1, 0x10, 1, 0x2a, 15, 8, 5, 0x18, 1, 0x20, 1, 0x28, 2, 0x32, 2,
           'n', 'o', 0x3a, 1, 's', 0x2a, 4, 8, 2, 0x10, 21)},
    {"built",
     {.type = MST_CLUSTER_BUILT,
      .value = 4,
      .failure = {.worker = MST_WORKER_NONE},
      .parts = {.items = golden_parts, .count = 1}},
     BYTES(0, 0, 0, 12, 0x1a, 10, 8, 4, 0x1a, 6, 8, 7, 0x12, 2, 'a', 'b')},
    {"progress",
     {.type = MST_CLUSTER_PROGRESS,
      .attempt = {.closure = 1, .attempt = 1},
      .series = 1,
      .fraction = 0.5,
      .text = {"t", 1}},
     BYTES(0, 0, 0, 20, 0x22, 18, 8, 1, 0x10, 1, 0x18, 1, 0x21, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0x2a,
           1, 't')},
    {"progress of one whose time is over",
     {.type = MST_CLUSTER_PROGRESS,
      .attempt = {.closure = 1, .attempt = 1},
      .series = 1,
      .overdue = true},
     BYTES(0, 0, 0, 10, 0x22, 8, 8, 1, 0x10, 1, 0x18, 1, 0x30, 1)},
    {"log",
     {.type = MST_CLUSTER_LOG,
      .attempt = {.closure = 1, .attempt = 1},
      .series = 1,
      .text = {"t", 1}},
     BYTES(0, 0, 0, 11, 0x2a, 9, 8, 1, 0x10, 1, 0x18, 1, 0x22, 1, 't')},
    {"draining", {.type = MST_CLUSTER_DRAINING}, BYTES(0, 0, 0, 2, 0x32, 0)},
    {"welcome",
     {.type = MST_CLUSTER_WELCOME, .term = 9, .worker = 1, .results = 2},
     BYTES(0, 0, 0, 9, 0x82, 1, 6, 8, 9, 0x10, 1, 0x18, 2)},
    {"welcome with a grace",
     {.type = MST_CLUSTER_WELCOME, .term = 9, .worker = 1, .results = 2, .left_ms = 300},
     BYTES(0, 0, 0, 12, 0x82, 1, 9, 8, 9, 0x10, 1, 0x18, 2, 0x20, 0xac, 2)},
    {"refused",
     {.type = MST_CLUSTER_REFUSED, .term = 9, .status = MUSTER_EFENCED, .text = {"no", 2}},
     BYTES(0, 0, 0, 11, 0x8a, 1, 8, 8, 9, 0x10, 2 * -MUSTER_EFENCED - 1, 0x1a, 2, 'n', 'o')},
    {"run",
     {.type = MST_CLUSTER_RUN,
      .attempt = {.closure = 300, .attempt = 1},
      .series = 2,
      .function = 3,
      .key = {"k", 1},
      .run_limit_ms = 4,
      .left_ms = 5,
      .needs = golden_needs,
      .need_count = 2,
      .parts = {.items = golden_parts, .count = 1}},
     BYTES(0, 0, 0, 32, 0x92, 1, 29, 8, 0xac, 2, 0x10, 1, 0x18, 2, 0x20, 3, 0x2a, 1, 'k', 0x30, 4,
           0x38, 5, 0x42, 3, 3, 0xac, 2, 0x4a, 6, 8, 7, 0x12, 2, 'a', 'b')},
    {"cancel",
     {.type = MST_CLUSTER_CANCEL,
      .attempt = {.closure = 1, .attempt = 2},
      .series = 3,
      .left_ms = 4},
     BYTES(0, 0, 0, 11, 0x9a, 1, 8, 8, 1, 0x10, 2, 0x18, 3, 0x20, 4)},
    {"take_back",
     {.type = MST_CLUSTER_TAKE_BACK, .attempt = {.closure = 1, .attempt = 2}, .series = 3},
     BYTES(0, 0, 0, 9, 0xa2, 1, 6, 8, 1, 0x10, 2, 0x18, 3)},
    {"build",
     {.type = MST_CLUSTER_BUILD,
      .value = 1,
      .function = 2,
      .parts = {.items = golden_parts, .count = 1}},
     BYTES(0, 0, 0, 15, 0xaa, 1, 12, 8, 1, 0x10, 2, 0x1a, 6, 8, 7, 0x12, 2, 'a', 'b')},
    {"drop", {.type = MST_CLUSTER_DROP, .value = 7}, BYTES(0, 0, 0, 5, 0xb2, 1, 2, 8, 7)},
    {"drain", {.type = MST_CLUSTER_DRAIN}, BYTES(0, 0, 0, 3, 0xba, 1, 0)},
};

static void drop_preamble(struct mst_cluster_codec *codec)
{
    static const unsigned char preamble[] = {'M', 'U', 'S', 'T', 'E', 'R', 'C', 1};
    struct mst_slice output = mst_native_stream_output(&codec->stream);

    assert_true(output.size >= sizeof preamble);
    assert_memory_equal(output.data, preamble, sizeof preamble);
    mst_native_stream_written(&codec->stream, sizeof preamble);
}

/* Each message is sent. The bytes are those that docs/protocol.md prints. */
static void golden_bytes(void **state)
{
    struct scene *scene = scene_new(1, NULL);

    (void)state;
    drop_preamble(scene->here);
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        struct mst_slice output;

        send(scene, &goldens[i].message);
        output = mst_native_stream_output(&scene->here->stream);
        if (output.size != goldens[i].size) {
            print_error("%s\n", goldens[i].name);
        }
        assert_int_equal(output.size, goldens[i].size);
        assert_memory_equal(output.data, goldens[i].bytes, output.size);
        mst_native_stream_written(&scene->here->stream, output.size);
    }
    scene_free(scene);
}

/* ---- damage ---- */

/* Everything in it can be read; false: the connection is dead, with a reason. */
static bool drain(struct mst_cluster_codec *codec)
{
    struct mst_cluster_message got;
    muster_status status;

    while ((status = mst_cluster_codec_next(codec, &got)) == MUSTER_OK) {
        assert_true(cluster_message_equal(&got, &got));
    }
    if (status == MUSTER_MORE) {
        return true;
    }
    assert_int_equal(status, MUSTER_EPROTO);
    assert_string_not_equal(codec->stream.reason, "");
    assert_int_equal(mst_cluster_codec_next(codec, &got), MUSTER_EPROTO);
    assert_int_equal(mst_native_stream_feed(&codec->stream, mst_slice_of("", 0)), MUSTER_EPROTO);
    return false;
}

/* Any byte of a stream of all types is damaged, in three ways. Either it is another valid
 * message or the connection ends with a reason; nothing is read that is not there. */
static void damage_at_every_byte(void **state)
{
    static const unsigned char wounds[] = {0x01, 0x80, 0xff};
    struct scene *scene = scene_new(1, NULL);
    unsigned char *bytes;
    unsigned dead = 0, alive = 0;
    size_t size;

    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        send(scene, &goldens[i].message);
    }
    size = mst_native_stream_output(&scene->here->stream).size;
    bytes = malloc(size);
    assert_non_null(bytes);
    memcpy(bytes, mst_native_stream_output(&scene->here->stream).data, size);
    for (size_t at = 0; at < size; at++) {
        for (size_t i = 0; i < sizeof wounds; i++) {
            struct mst_cluster_codec *codec = NULL;

            assert_int_equal(mst_cluster_codec_new(&codec, NULL, &scene->mem.mem), MUSTER_OK);
            bytes[at] ^= wounds[i];
            assert_int_equal(mst_native_stream_feed(&codec->stream, mst_slice_of(bytes, size)),
                             MUSTER_OK);
            bytes[at] ^= wounds[i];
            if (drain(codec)) {
                alive++;
            } else {
                dead++;
            }
            mst_cluster_codec_free(codec);
        }
    }
    assert_true(dead > size / 4 && alive > size / 4);
    free(bytes);
    scene_free(scene);
}

/* A frame with this payload, behind a preamble or what is said of one. */
static void assert_refused(const char *reason, const unsigned char *payload, size_t size)
{
    static const unsigned char preamble[] = {'M', 'U', 'S', 'T', 'E', 'R', 'C', 1};
    unsigned char head[4] = {0, 0, (unsigned char)(size >> 8), (unsigned char)size};
    struct scene *scene = scene_new(1, NULL);
    struct mst_cluster_message got;

    assert_int_equal(mst_native_stream_feed(&scene->there->stream, mst_slice_of(preamble, 8)),
                     MUSTER_OK);
    assert_int_equal(mst_native_stream_feed(&scene->there->stream, mst_slice_of(head, 4)),
                     MUSTER_OK);
    assert_int_equal(mst_native_stream_feed(&scene->there->stream, mst_slice_of(payload, size)),
                     MUSTER_OK);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_EPROTO);
    assert_string_equal(scene->there->stream.reason, reason);
    scene_free(scene);
}

#define ASSERT_REFUSED(reason, ...)                                                                \
    assert_refused(reason, (const unsigned char[]){__VA_ARGS__},                                   \
                   sizeof((const unsigned char[]){__VA_ARGS__}))

/* A message names a type, an origin or a status that does not exist, or has too many failures or
 * too long a text. The connection ends, and the reason says which. */
static void reasons_name_what_makes_no_sense(void **state)
{
    unsigned char failures[2 + 4 * (MST_FAILURE_DEPTH_MAX + 1)];
    unsigned char text[3 + 3 + 5 + MST_FAILURE_TEXT_MAX + 1] = {0x12, 0x89, 8,    0x2a, 0x86, 8,
                                                                8,    1,    0x32, 0x81, 8};

    (void)state;
    ASSERT_REFUSED("at byte 8: a message of a type that does not exist: 7", 0x3a, 0);
    ASSERT_REFUSED("at byte 8: an origin that does not exist: 0", 0x12, 2, 0x2a, 0);
    ASSERT_REFUSED("at byte 8: an origin that does not exist: 15", 0x12, 4, 0x2a, 2, 8, 15);
    ASSERT_REFUSED("at byte 8: refused with a status that is no error: 0", 0x8a, 1, 0);
    ASSERT_REFUSED("at byte 8: no Message: run.key, 3 bytes into the message: goes beyond the end "
                   "with a length of 9",
                   0x92, 1, 2, 0x2a, 9);
    failures[0] = 0x12;
    failures[1] = sizeof failures - 2;
    for (size_t at = 2; at < sizeof failures; at += 4) {
        memcpy(failures + at, (const unsigned char[]){0x2a, 2, 8, 1}, 4);
    }
    assert_refused("at byte 8: more failures than a message may have: 9", failures,
                   sizeof failures);
    assert_refused("at byte 8: a failure whose text is too long: 1025", text, sizeof text);
}

static void assert_first_words(const char *reason, const char *words, size_t size)
{
    struct scene *scene = scene_new(1, NULL);
    struct mst_cluster_message got;

    assert_int_equal(mst_native_stream_feed(&scene->there->stream, mst_slice_of(words, size)),
                     MUSTER_OK);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_EPROTO);
    assert_string_equal(scene->there->stream.reason, reason);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_EPROTO);
    scene_free(scene);
}

/* Something else connects: a browser, a client of a service, a newer version. It is refused at
 * the first byte that differs. */
static void the_preamble_is_checked_from_its_first_byte(void **state)
{
    (void)state;
    assert_first_words("at byte 0: no muster cluster: byte 0x47 where the preamble has 0x4d", "GET",
                       3);
    assert_first_words("at byte 6: no muster cluster: byte 0x0 where the preamble has 0x43",
                       "MUSTER\0\1", 8);
    assert_first_words("at byte 7: framing version 2, this cluster speaks 1", "MUSTERC\2", 8);
}

/* ---- limits ---- */

static const struct mst_cluster_codec_limits small = {.frame_bytes_max = 1000,
                                                      .output_bytes_max = 4000};

/* A message is larger than a frame may be. It is neither sent nor accepted; nothing else is
 * lost. */
static void a_frame_has_a_limit_both_ways(void **state)
{
    static const unsigned char head[] = {'M', 'U', 'S', 'T', 'E', 'R', 'C', 1, 0, 0, 0x3, 0xe9};
    unsigned char data[1000] = {0};
    struct mst_part part = {.data = {data, 990}};
    struct mst_cluster_message message = {.type = MST_CLUSTER_RUN,
                                          .parts = {.items = &part, .count = 1}};
    struct scene *scene = scene_new(1, &small);
    struct mst_cluster_message got;

    (void)state;
    send(scene, &message); /* of 990, 2 and 3 for the part, 3 for it, and 5 for the message */
    drop_preamble(scene->here);
    assert_true(mst_native_stream_output(&scene->here->stream).size <= 4 + 1000);
    for (; part.data.size < 1000; part.data.size++) {
        size_t before = mst_native_stream_output(&scene->here->stream).size;
        muster_status status = mst_cluster_codec_send(scene->here, &message);

        if (status != MUSTER_OK) {
            assert_int_equal(status, MUSTER_ELIMIT);
            assert_int_equal(mst_native_stream_output(&scene->here->stream).size, before);
            break;
        }
        mst_native_stream_written(&scene->here->stream, before);
    }
    assert_int_equal(part.data.size, 1000 - 9);
    message.type = MST_CLUSTER_BUILD;
    part.data.size = 1000;
    assert_int_equal(mst_cluster_codec_send(scene->here, &message), MUSTER_ELIMIT);

    assert_int_equal(mst_native_stream_feed(&scene->there->stream, mst_slice_of(head, sizeof head)),
                     MUSTER_OK);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_EPROTO);
    assert_string_equal(scene->there->stream.reason,
                        "at byte 8: a frame of 1001 bytes is over the limit of 1000");
    scene_free(scene);
}

/* A peer does not read. Output stops at its limit, and what was taken before is whole. */
static void output_has_a_limit(void **state)
{
    unsigned char data[500] = {0};
    struct mst_part part = {.data = {data, sizeof data}};
    struct mst_cluster_message message = {
        .type = MST_CLUSTER_RUN, .attempt = {.closure = 1}, .parts = {.items = &part, .count = 1}};
    struct mst_cluster_message log = {.type = MST_CLUSTER_LOG, .text = {data, sizeof data}};
    struct mst_cluster_message got;
    struct scene *scene = scene_new(1, &small);
    uint64_t taken = 0;

    (void)state;
    while (mst_cluster_codec_send(scene->here, &message) == MUSTER_OK) {
        message.attempt.closure++;
    }
    assert_int_equal(mst_cluster_codec_send(scene->here, &message), MUSTER_ELIMIT);
    assert_int_equal(mst_cluster_codec_send(scene->here, &log), MUSTER_ELIMIT);
    assert_in_range(mst_native_stream_output(&scene->here->stream).size, 3400, 4000);
    assert_int_equal(mst_native_stream_lend(&scene->there->stream,
                                            mst_native_stream_output(&scene->here->stream)),
                     MUSTER_OK);
    while (mst_cluster_codec_next(scene->there, &got) == MUSTER_OK) {
        assert_int_equal(got.attempt.closure, ++taken);
    }
    assert_int_equal(taken, message.attempt.closure - 1);
    mst_native_stream_written(&scene->here->stream,
                              mst_native_stream_output(&scene->here->stream).size);
    send(scene, &message); /* it goes on */
    scene_free(scene);
}

static void output_may_be_without_a_limit(void **state)
{
    static const struct mst_cluster_codec_limits none = {.frame_bytes_max = 1000};
    unsigned char data[900] = {0};
    struct mst_cluster_message log = {.type = MST_CLUSTER_LOG, .text = {data, sizeof data}};
    struct scene *scene = scene_new(1, &none);

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        send(scene, &log);
    }
    assert_true(mst_native_stream_output(&scene->here->stream).size > 900000);
    scene_free(scene);
}

/* A message has more parts than any message may have. It is neither sent nor accepted. */
static void counts_have_limits(void **state)
{
    enum { MANY = MST_CLUSTER_PARTS_MAX + 1 };
    struct mst_part *parts = calloc(MANY, sizeof *parts);
    struct mst_cluster_message message = {.type = MST_CLUSTER_RUN,
                                          .parts = {.items = parts, .count = MANY}};
    struct scene *scene = scene_new(1, NULL);
    struct mst_cluster_message got;
    unsigned char *bytes = malloc(8 + 4 + 5 + 2 * MANY);
    static const unsigned char head[] = {'M', 'U', 'S', 'T',  'E', 'R',  'C',  1, 0,
                                         2,   0,   7,   0x92, 1,   0x82, 0x80, 8};
    size_t at = sizeof head;

    (void)state;
    assert_non_null(parts);
    assert_non_null(bytes);
    assert_int_equal(mst_cluster_codec_send(scene->here, &message), MUSTER_ELIMIT);
    message.parts.count--;
    send(scene, &message);
    carry(scene);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_OK);
    assert_true(cluster_message_equal(&message, &got) || got.failure.worker == MST_WORKER_NONE);
    assert_int_equal(got.parts.count, MST_CLUSTER_PARTS_MAX);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_MORE);

    memcpy(bytes, head, sizeof head);
    for (unsigned i = 0; i < MANY; i++) {
        bytes[at++] = 0x4a;
        bytes[at++] = 0;
    }
    mst_cluster_codec_free(scene->there);
    assert_int_equal(mst_cluster_codec_new(&scene->there, NULL, &scene->mem.mem), MUSTER_OK);
    assert_int_equal(mst_native_stream_feed(&scene->there->stream, mst_slice_of(bytes, at)),
                     MUSTER_OK);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_EPROTO);
    assert_string_equal(scene->there->stream.reason,
                        "at byte 8: more parts than a message may have: 65537");
    free(bytes);
    free(parts);
    scene_free(scene);
}

/* A failure has too long a text, or causes without end. The excess is cut, so that the failure
 * can always be sent. */
static void failures_are_cut(void **state)
{
    struct mst_failure chain[12];
    char text[MST_FAILURE_TEXT_MAX + 1];
    struct mst_cluster_message message = {.type = MST_CLUSTER_BUILT};
    struct scene *scene = scene_new(1, NULL);
    const struct mst_failure *at;
    struct mst_cluster_message got;
    unsigned depth = 0;

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < 12; i++) {
        chain[i] = (struct mst_failure){.origin = MST_ORIGIN_INPUT,
                                        .code = (int32_t)i,
                                        .text = {text, sizeof text},
                                        .state = {text, sizeof text},
                                        .cause = i + 1 < 12 ? &chain[i + 1] : NULL};
    }
    message.failure = chain[0];
    send(scene, &message);
    assert_true(mst_native_stream_output(&scene->here->stream).size <=
                4 + 8 + 256 + (size_t)MST_FAILURE_DEPTH_MAX * (64 + 2 * MST_FAILURE_TEXT_MAX));
    carry(scene);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_OK);
    for (at = &got.failure; at; at = at->cause) {
        assert_int_equal(at->code, depth++);
        assert_int_equal(at->text.size, MST_FAILURE_TEXT_MAX);
        assert_int_equal(at->state.size, MST_FAILURE_TEXT_MAX);
    }
    assert_int_equal(depth, MST_FAILURE_DEPTH_MAX);
    scene_free(scene);
}

/* A function's progress is no share: below 0, above 1, no number. It counts as none, and
 * troubles no printer of it. */
static void progress_is_a_share_or_none(void **state)
{
    static const double wrong[] = {-0.5, 1.5, -1e300, 0.0 / 0.0, 1.0 / 0.0};
    struct scene *scene = scene_new(1, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct mst_cluster_message message = {.type = MST_CLUSTER_PROGRESS, .fraction = wrong[i]};
        struct mst_cluster_message got;

        send(scene, &message);
        carry(scene);
        assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_OK);
        assert_true(got.fraction >= -1 && got.fraction <= -1);
    }
    scene_free(scene);
}

static void a_message_of_no_type_is_not_sent(void **state)
{
    struct mst_cluster_message message = {.type = (enum mst_cluster_message_type)7};
    struct scene *scene = scene_new(1, NULL);

    (void)state;
    drop_preamble(scene->here);
    assert_int_equal(mst_cluster_codec_send(scene->here, &message), MUSTER_EINVAL);
    assert_int_equal(mst_native_stream_output(&scene->here->stream).size, 0);
    scene_free(scene);
}

/* A connection closes within a frame. That is distinct from an orderly end. */
static void closed_within_a_frame(void **state)
{
    struct mst_cluster_message message = {.type = MST_CLUSTER_DROP, .value = 1}, got;
    struct scene *scene = scene_new(1, NULL);
    struct mst_slice output;

    (void)state;
    send(scene, &message);
    output = mst_native_stream_output(&scene->here->stream);
    assert_int_equal(
        mst_native_stream_feed(&scene->there->stream, mst_slice_of(output.data, output.size - 1)),
        MUSTER_OK);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_MORE);
    assert_int_equal(mst_native_stream_end(&scene->there->stream), MUSTER_EPROTO);
    assert_string_equal(scene->there->stream.reason,
                        "at byte 8: closed in the middle of a frame, after 8 bytes of it");
    scene_free(scene);
}

/* ---- memory ---- */

static muster_status exchange(const struct mst_mem *mem, struct cluster_generator *generator)
{
    struct mst_cluster_codec *here = NULL, *there = NULL;
    struct mst_cluster_message got;
    muster_status status = mst_cluster_codec_new(&here, NULL, mem);

    status = status ? status : mst_cluster_codec_new(&there, NULL, mem);
    for (unsigned i = 0; i < CLUSTER_TYPES && !status; i++) {
        size_t before = mst_native_stream_output(&here->stream).size;

        status = mst_cluster_codec_send(here, cluster_generator_of(generator, cluster_types[i]));
        assert_true(!status || mst_native_stream_output(&here->stream).size == before);
    }
    status = status
                 ? status
                 : mst_native_stream_feed(&there->stream, mst_native_stream_output(&here->stream));
    for (unsigned i = 0; i < CLUSTER_TYPES && !status; i++) {
        status = mst_cluster_codec_next(there, &got);
        assert_true(!status || there->stream.reason[0] != '\0');
    }
    mst_cluster_codec_free(here);
    mst_cluster_codec_free(there);
    return status;
}

/* An allocation fails at any point. What was to be sent was not, in no part; everything is given
 * back. */
static void every_allocation_fails_once(void **state)
{
    struct cluster_generator *generator = malloc(sizeof *generator);

    (void)state;
    assert_non_null(generator);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct failing_mem failing;
        size_t at = 0;

        do {
            muster_status status;

            cluster_generator_init(generator, seed);
            failing_mem_init(&failing, ++at);
            status = exchange(&failing.mem, generator);
            assert_int_equal(status, failing.failed ? MUSTER_ENOMEM : MUSTER_OK);
            assert_int_equal(failing.live, 0);
        } while (failing.failed);
        assert_in_range(at, 5, 80);
    }
    free(generator);
}

/* A connection that carried large messages is idle. It holds next to nothing. */
static void an_idle_connection_holds_little(void **state)
{
    unsigned char *data = calloc(1, 100000);
    struct mst_part part = {.data = {data, 100000}};
    struct mst_cluster_message message = {.type = MST_CLUSTER_RUN,
                                          .parts = {.items = &part, .count = 1}};
    struct scene *scene = scene_new(1, NULL);
    struct mst_cluster_message got;

    (void)state;
    assert_non_null(data);
    send(scene, &message);
    carry(scene);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_OK);
    assert_true(scene->mem.live > 2);
    assert_int_equal(mst_cluster_codec_next(scene->there, &got), MUSTER_MORE);
    mst_native_stream_written(&scene->there->stream,
                              mst_native_stream_output(&scene->there->stream).size);
    assert_in_range(scene->mem.live, 2, 3); /* the codecs, and room for a few bytes of output */
    mst_cluster_codec_free(NULL);
    scene_free(scene);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_arrives_as_it_was),
        cmocka_unit_test(messages_cut_anywhere),
        cmocka_unit_test(golden_bytes),
        cmocka_unit_test(damage_at_every_byte),
        cmocka_unit_test(reasons_name_what_makes_no_sense),
        cmocka_unit_test(the_preamble_is_checked_from_its_first_byte),
        cmocka_unit_test(a_frame_has_a_limit_both_ways),
        cmocka_unit_test(output_has_a_limit),
        cmocka_unit_test(output_may_be_without_a_limit),
        cmocka_unit_test(counts_have_limits),
        cmocka_unit_test(failures_are_cut),
        cmocka_unit_test(progress_is_a_share_or_none),
        cmocka_unit_test(a_message_of_no_type_is_not_sent),
        cmocka_unit_test(closed_within_a_frame),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(an_idle_connection_holds_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
