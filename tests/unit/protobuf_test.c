/* SPDX-License-Identifier: Apache-2.0 */
/* The codec by the tables, beside what tests/process/test_schema.py compares with Google's: the
 * tables are sound, no byte beyond the message is read or written, and what is odd is taken as
 * docs/protocol.md says.
 *
 * behaviour: wire / The tables and their codec */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_generator.h"
#include "failing_mem.h"
#include "message_generator.h"
#include "proto/copy.h"
#include "proto/greeting.h"
#include "proto/protobuf.h"

enum { ROUNDS = 20000, ROOM = 1 << 17 };

struct scene {
    struct message_generator native;
    struct cluster_generator cluster;
    struct failing_mem mem;
    struct mst_native_arena first, second;
    unsigned char bytes[ROOM], again[ROOM];
    size_t size;
};

static struct scene *begin(uint64_t seed)
{
    struct scene *scene = calloc(1, sizeof *scene);

    assert_non_null(scene);
    message_generator_init(&scene->native, seed);
    cluster_generator_init(&scene->cluster, seed);
    failing_mem_init(&scene->mem, 0);
    mst_native_arena_init(&scene->first, &scene->mem.mem);
    mst_native_arena_init(&scene->second, &scene->mem.mem);
    return scene;
}

static void end(struct scene *scene)
{
    mst_native_arena_fini(&scene->first);
    mst_native_arena_fini(&scene->second);
    assert_int_equal(scene->mem.live, 0);
    free(scene);
}

/* ---- the tables ---- */

enum { MESSAGES_MAX = 64 };

struct found {
    const struct mst_message *messages[MESSAGES_MAX];
    unsigned depth[MESSAGES_MAX];
    bool merged[MESSAGES_MAX];
    unsigned count;
};

static void find(struct found *found, const struct mst_message *message, unsigned depth,
                 bool merged)
{
    assert_true(found->count < MESSAGES_MAX);
    found->messages[found->count] = message;
    found->merged[found->count] = merged;
    found->depth[found->count++] = depth;
}

static void assert_row(unsigned i, unsigned number, struct found *found)
{
    const struct mst_message *message = found->messages[i];
    const struct mst_field *row = &message->fields[number];
    bool bounded = row->bounded && row->type != MST_FIELD_MESSAGE && row->type != MST_FIELD_ARRAY;

    if (row->type == MST_FIELD_NONE) { /* between the fields and the cases, or among these */
        assert_true(message->which && number > message->plain);
        return;
    }
    assert_int_equal(row->tag >> MST_TAG_SHIFT, number);
    assert_non_null(row->name);
    assert_int_equal(message->bounded >> number & 1, bounded);
    assert_int_equal(message->plus_one >> number & 1, row->type == MST_FIELD_PLUS_ONE);
    assert_true(!row->bounded || row->least <= row->most);
    assert_true(row->type != MST_FIELD_MESSAGE || row->message);
    assert_int_equal(row->label == MST_FIELD_CASE, message->which && number > message->plain);
    if (row->label == MST_FIELD_MANY || row->label == MST_FIELD_FEW ||
        row->label == MST_FIELD_CHAIN) {
        assert_true(number < 64 && row->size > 0);
        assert_true(row->type != MST_FIELD_MESSAGE || row->size == row->message->size);
    }
    if (row->type == MST_FIELD_MESSAGE) {
        bool single = row->label == MST_FIELD_ONE || row->label == MST_FIELD_CASE;

        /* A default that is not 0 is set once: where its message cannot be there before. */
        assert_false(row->label == MST_FIELD_ONE && row->message->plus_one && found->merged[i]);
        find(found, row->message, found->depth[i] + 1, single);
    }
}

static void tables_are_sound(void **state)
{
    struct found found = {.count = 0};

    (void)state;
    find(&found, &mst_hello_fields, 1, false);
    find(&found, &mst_welcome_fields, 1, false);
    find(&found, &mst_request_fields, 1, false);
    find(&found, &mst_reply_fields, 1, false);
    find(&found, &mst_cluster_fields, 1, false);
    for (unsigned i = 0; i < found.count; i++) {
        const struct mst_message *message = found.messages[i];

        assert_true(found.depth[i] <= MST_MESSAGE_DEPTH_MAX && message->last < 64);
        for (unsigned number = 1; number <= message->last; number++) {
            assert_row(i, number, &found);
        }
        assert_true(!message->fields || message->fields[0].type == MST_FIELD_NONE);
    }
    assert_true(found.count > 40);
}

/* ---- anything, whole and damaged ---- */

/* Any message of the two protocols; the struct is overwritten by the next one. */
static const void *any_of(struct scene *scene, unsigned i, const struct mst_message **type)
{
    switch (i % 4) {
    case 0:
        *type = &mst_reply_fields;
        return message_generator_reply(&scene->native);
    case 1:
        *type = &mst_cluster_fields;
        return cluster_generator_any(&scene->cluster);
    default:
        *type = &mst_request_fields;
        return message_generator_request(&scene->native);
    }
}

union any {
    struct mst_request request;
    struct mst_reply reply;
    struct mst_cluster_message message;
};

static bool equal(const struct mst_message *type, const void *a, const void *b)
{
    if (type == &mst_request_fields) {
        return message_request_equal(a, b);
    }
    return type == &mst_reply_fields ? message_reply_equal(a, b) : cluster_message_equal(a, b);
}

/* In memory of exactly its size, so that a byte written or read beside it is noticed. */
static unsigned char *encode_alone(const struct mst_message *type, const void *from, size_t size)
{
    unsigned char *alone = malloc(size > 0 ? size : 1);

    assert_non_null(alone);
    assert_int_equal(mst_encode(type, from, alone, size), size);
    return alone;
}

static muster_status decode_alone(const struct mst_message *type, void *out, struct mst_slice in,
                                  struct mst_native_arena *arena, unsigned char **alone)
{
    struct mst_wrong wrong;

    *alone = malloc(in.size > 0 ? in.size : 1);
    assert_non_null(*alone);
    memcpy(*alone, in.data, in.size);
    memset(out, 0xa5, type->size);
    mst_native_arena_reset(arena, SIZE_MAX);
    return mst_decode(type, out, mst_slice_of(*alone, in.size), arena, &wrong);
}

static void what_is_encoded_is_decoded(void **state)
{
    struct scene *scene = begin(1);

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct mst_message *type;
        const void *sent = any_of(scene, i, &type);
        size_t size = mst_encode(type, sent, NULL, 0);
        unsigned char *bytes = encode_alone(type, sent, size), *alone;
        union any got;

        assert_true(size > 0);
        assert_int_equal(decode_alone(type, &got, mst_slice_of(bytes, size), &scene->first, &alone),
                         MUSTER_OK);
        if (type == &mst_cluster_fields && got.message.failure.origin == 0) {
            got.message.failure.worker = MST_WORKER_NONE; /* which the codec says */
        }
        assert_true(equal(type, sent, &got));
        free(alone);
        free(bytes);
    }
    end(scene);
}

/* A message is written without any room, or with too little. Its size is returned, and no byte
 * beside the room is touched. */
static void a_room_is_too_small_or_not_touched_outside(void **state)
{
    struct scene *scene = begin(2);
    unsigned small = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS / 10; i++) {
        const struct mst_message *type;
        const void *sent = any_of(scene, i, &type);
        size_t size = mst_encode(type, sent, NULL, 0);
        size_t room = (size_t)mst_prng_below(&scene->native.prng, 2 * size + 1);
        unsigned char *alone = malloc(room > 0 ? room : 1), *whole;

        assert_non_null(alone);
        assert_int_equal(mst_encode(type, sent, alone, room), size);
        small += room < size;
        if (room >= size) {
            whole = encode_alone(type, sent, size);
            assert_memory_equal(alone + room - size, whole, size);
            free(whole);
        }
        free(alone);
    }
    assert_true(small > ROUNDS / 40);
    end(scene);
}

static void damage(struct scene *scene, size_t within)
{
    struct mst_prng *prng = &scene->native.prng;
    size_t at = (size_t)mst_prng_below(prng, scene->size < within ? scene->size : within);
    size_t rest = scene->size - at;

    switch (mst_prng_below(prng, 4)) {
    case 0: /* another byte */
        scene->bytes[at] = (unsigned char)mst_prng_below(prng, 256);
        break;
    case 1: /* one bit */
        scene->bytes[at] ^= (unsigned char)(1u << mst_prng_below(prng, 8));
        break;
    case 2: /* one more */
        memmove(scene->bytes + at + 1, scene->bytes + at, rest);
        scene->bytes[at] = (unsigned char)(mst_prng_below(prng, 2) * 0x80);
        scene->size++;
        break;
    default: /* one less */
        memmove(scene->bytes + at, scene->bytes + at + 1, rest - 1);
        scene->size--;
        break;
    }
}

/* Any byte of a message is damaged. It is refused with a reason, or it is another valid message,
 * which means the same when it is sent again; nothing is read that is not there. */
static void damaged_messages_are_refused_or_mean_something(void **state)
{
    struct scene *scene = begin(3);
    unsigned taken = 0, refused = 0;

    (void)state;
    for (unsigned i = 0; i < 5 * ROUNDS; i++) {
        const struct mst_message *type;
        const void *sent = any_of(scene, i, &type);
        unsigned char *alone, *alone_again;
        union any got, other;
        size_t size;

        scene->size = mst_encode(type, sent, NULL, 0);
        if (scene->size < 4 || scene->size + 4 > ROOM) {
            continue;
        }
        (void)mst_encode(type, sent, scene->bytes, scene->size);
        for (unsigned wounds = 1 + i % 3 % 2; wounds > 0; wounds--) {
            damage(scene, i % 5 ? 40 : ROOM);
        }
        if (decode_alone(type, &got, mst_slice_of(scene->bytes, scene->size), &scene->first,
                         &alone) != MUSTER_OK) {
            refused++;
        } else {
            taken++;
            size = mst_encode(type, &got, scene->again, ROOM);
            assert_int_equal(decode_alone(type, &other,
                                          mst_slice_of(scene->again + ROOM - size, size),
                                          &scene->second, &alone_again),
                             MUSTER_OK);
            assert_true(equal(type, &got, &other));
            free(alone_again);
        }
        free(alone);
    }
    assert_true(taken > ROUNDS && refused > ROUNDS);
    end(scene);
}

/* ---- copies ---- */

/* It is encoded to the same bytes when the original and all that it pointed at are gone. */
static void assert_copied(struct scene *scene, const struct mst_message *type, const void *from)
{
    size_t size = mst_encode(type, from, NULL, 0), room = mst_copy_size(type, from);
    unsigned char *before = encode_alone(type, from, size), *after;
    void *own = malloc(room > 0 ? room : 1);
    union any copy;

    assert_non_null(own);
    mst_copy(type, &copy, from, own);
    memset(&scene->native, 0xa5, sizeof scene->native);
    memset(&scene->cluster, 0xa5, sizeof scene->cluster);
    after = encode_alone(type, &copy, size);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
    free(own);
}

static void a_copy_has_all_of_its_own(void **state)
{
    struct scene *scene = begin(10);

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        message_generator_init(&scene->native, i);
        cluster_generator_init(&scene->cluster, i);
        if (i % 2) {
            assert_copied(scene, &mst_request_fields, message_generator_request(&scene->native));
        } else {
            assert_copied(scene, &mst_cluster_fields, cluster_generator_any(&scene->cluster));
        }
    }
    end(scene);
}

/* A chain has more causes than are ever sent. The last one of its copy has none, not the
 * original's. */
static void a_copy_of_a_long_chain_ends(void **state)
{
    struct mst_failure causes[MST_FAILURE_DEPTH_MAX + 2] = {{.origin = MST_ORIGIN_INPUT}};
    struct mst_cluster_message message = {.type = MST_CLUSTER_BUILT,
                                          .failure = {.origin = MST_ORIGIN_INPUT, .cause = causes}};
    size_t count = sizeof causes / sizeof causes[0], depth = 1;
    struct mst_cluster_message copy;
    void *own;

    (void)state;
    for (size_t i = 0; i + 1 < count; i++) {
        causes[i].cause = &causes[i + 1];
    }
    own = malloc(mst_copy_size(&mst_cluster_fields, &message));
    assert_non_null(own);
    mst_copy(&mst_cluster_fields, &copy, &message, own);
    for (const struct mst_failure *at = copy.failure.cause; at; at = at->cause) {
        for (size_t i = 0; i < count; i++) {
            assert_ptr_not_equal(at, &causes[i]);
        }
        depth++;
    }
    assert_int_equal(depth, MST_FAILURE_DEPTH_MAX);
    free(own);
}

/* More than memory can hold is no size. */
static void a_size_beyond_all_memory_is_told(void **state)
{
    const struct mst_request get = {.command = MST_GET, .get = {.key = {"k", SIZE_MAX - 3}}};
    const struct mst_request list = {
        .command = MST_LIST,
        .list = {.prefix = {"k", SIZE_MAX / 2 - 1}, .after = {"k", SIZE_MAX / 2 - 1}}};

    (void)state;
    assert_true(mst_copy_size(&mst_request_fields, &get) == SIZE_MAX);
    assert_true(mst_copy_size(&mst_request_fields, &list) == SIZE_MAX);
}

/* ---- what is odd ---- */

static muster_status decode(struct scene *scene, const struct mst_message *type, void *out,
                            const unsigned char *bytes, size_t size, struct mst_wrong *wrong)
{
    mst_native_arena_reset(&scene->first, SIZE_MAX);
    return mst_decode(type, out, mst_slice_of(bytes, size), &scene->first, wrong);
}

#define DECODE(scene, type, out, wrong, ...)                                                       \
    decode(scene, type, out, (const unsigned char[]){__VA_ARGS__},                                 \
           sizeof((const unsigned char[]){__VA_ARGS__}), wrong)

static void assert_said(const struct mst_wrong *wrong, const char *expected)
{
    char line[256];
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_wrong_say(&text, wrong);
    assert_string_equal(line, expected);
}

static void assert_broken(const char *expected, const unsigned char *bytes, size_t size)
{
    struct scene *scene = begin(1);
    struct mst_request request;
    struct mst_wrong wrong;

    assert_int_equal(decode(scene, &mst_request_fields, &request, bytes, size, &wrong),
                     MUSTER_EPROTO);
    assert_said(&wrong, expected);
    end(scene);
}

#define ASSERT_BROKEN(expected, ...)                                                               \
    assert_broken(expected, (const unsigned char[]){__VA_ARGS__},                                  \
                  sizeof((const unsigned char[]){__VA_ARGS__}))

/* A tag or a length is written with more bytes than it needs. It is accepted up to a varint's
 * longest, and refused beyond. */
static void numbers_are_only_so_long(void **state)
{
    struct scene *scene = begin(4);
    struct mst_request request;
    struct mst_wrong wrong;

    (void)state;
    assert_int_equal(DECODE(scene, &mst_request_fields, &request, &wrong, 0x88, 0x80, 0x80, 0x80, 0,
                            0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x9a, 1, 0x80,
                            0x80, 0x80, 0x80, 0),
                     MUSTER_OK);
    assert_int_equal(request.id, 1);
    assert_int_equal(request.command, MST_RENEW);
    end(scene);
    ASSERT_BROKEN("no Request: ?, 0 bytes into the message: a length or a tag of more than 5 bytes",
                  0x88, 0x80, 0x80, 0x80, 0x80, 0, 1, 0x9a, 1, 0);
    ASSERT_BROKEN("no Request: renew, 2 bytes into the message: a length or a tag of more than 5 "
                  "bytes",
                  8, 1, 0x9a, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0);
    ASSERT_BROKEN("no Request: id, 0 bytes into the message: a number of more than 10 bytes", 8,
                  0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0);
}

static void the_place_of_what_is_broken_is_named(void **state)
{
    (void)state;
    ASSERT_BROKEN("no Request: ?, 2 bytes into the message: a field without a number", 8, 1, 0, 1);
    ASSERT_BROKEN("no Request: ?, 2 bytes into the message: a field without a number", 8, 1, 0x80,
                  0, 1);
    ASSERT_BROKEN("no Request: open.token_high, 5 bytes into the message: goes beyond the end with "
                  "a length of 8",
                  8, 1, 0x8a, 1, 3, 9, 1, 2);
    ASSERT_BROKEN("no Request: get.wait, 5 bytes into the message: its wire type does not fit its "
                  "field: 1",
                  8, 1, 0xba, 1, 9, 0x19, 1, 0, 0, 0, 0, 0, 0, 0);
    ASSERT_BROKEN("no Request: round.participants, 5 bytes into the message: ends in the middle of "
                  "a number",
                  8, 1, 0xda, 1, 4, 0x22, 2, 1, 0x80);
    ASSERT_BROKEN("no Request: ?, 2 bytes into the message: goes beyond the end with a length of 4",
                  8, 1, 0x7d, 1, 2);
    ASSERT_BROKEN("no Request: open.?, 5 bytes into the message: a wire type that does not exist: "
                  "3",
                  8, 1, 0x8a, 1, 2, 0xfb, 1);
}

/* A number is there twice, or two commands are. The last one counts; what the first command said is
 * forgotten, also what was wrong in it. */
static void the_last_one_counts(void **state)
{
    struct scene *scene = begin(5);
    struct mst_request request;
    struct mst_wrong wrong;

    (void)state;
    assert_int_equal(DECODE(scene, &mst_request_fields, &request, &wrong, 8, 1, 8, 2, 0xda, 1, 2,
                            0x38, 99, 0xda, 1, 2, 8, 7, 0xba, 1, 3, 0x12, 1, 'k'),
                     MUSTER_OK); /* a round that makes no sense, another one, and a get */
    assert_int_equal(request.id, 2);
    assert_int_equal(request.command, MST_GET);
    assert_int_equal(request.get.generation, 0);
    assert_memory_equal(request.get.key.data, "k", 1);
    assert_int_equal(
        DECODE(scene, &mst_request_fields, &request, &wrong, 0xda, 1, 4, 0x38, 99, 0x38, 1),
        MUSTER_OK);
    assert_int_equal(request.round.reduce, MST_REDUCE_GATHER);
    end(scene);
}

/* A command is there twice, or a view. The second one is merged into the first: its numbers count,
 * its lists are appended, and what it does not have stays. What is wrong in either is refused. */
static void the_second_one_is_merged(void **state)
{
    struct scene *scene = begin(11);
    struct mst_request request;
    struct mst_reply reply;
    struct mst_wrong wrong;

    (void)state;
    assert_int_equal(DECODE(scene, &mst_reply_fields, &reply, &wrong, 8, 1, 16, 7, 0x42, 4, 8, 3,
                            16, 5, 0x42, 2, 8, 4),
                     MUSTER_OK);
    assert_true(reply.has_view && reply.view.generation == 4 && reply.view.size == 5);
    assert_int_equal(DECODE(scene, &mst_request_fields, &request, &wrong, 0x8a, 1, 2, 0x70, 8, 0x8a,
                            1, 2, 0x28, 3),
                     MUSTER_OK); /* the node of a session, and its index */
    assert_true(request.open.node == 7 && request.open.index == 3);
    assert_int_equal(DECODE(scene, &mst_request_fields, &request, &wrong, 0xda, 1, 7, 0x18, 9, 0x22,
                            3, 1, 2, 3, 0xda, 1, 4, 0x22, 2, 4, 5),
                     MUSTER_OK);
    assert_true(request.round.number == 9 && request.round.participant_count == 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(request.round.participants[i], i + 1);
    }
    assert_int_equal(DECODE(scene, &mst_request_fields, &request, &wrong, 0xda, 1, 2, 0x38, 99,
                            0xda, 1, 2, 0x38, 1),
                     MUSTER_EPROTO);
    assert_said(&wrong, "round.reduce 99 is not known");
    end(scene);
}

/* A list of numbers is packed, or not, or comes in several pieces, among other fields. It is the
 * same list. */
static void arrays_come_in_pieces(void **state)
{
    struct scene *scene = begin(6);
    struct mst_request request;
    struct mst_wrong wrong;

    (void)state;
    assert_int_equal(DECODE(scene, &mst_request_fields, &request, &wrong, 0xda, 1, 18, 0x20, 5,
                            0x22, 0, 0x18, 9, 0x22, 3, 6, 0xac, 2, 0x5a, 1, 1, 0x22, 2, 7, 8),
                     MUSTER_OK);
    assert_int_equal(request.round.participant_count, 5);
    assert_int_equal(request.round.participants[0], 5);
    assert_int_equal(request.round.participants[2], 300);
    assert_int_equal(request.round.participants[4], 8);
    assert_int_equal(request.round.order_count, 1);
    assert_int_equal(request.round.number, 9);
    end(scene);
}

/* A message has fields that this version does not know. They are skipped, and the caller knows
 * that there were some. */
static void unknown_fields_are_skipped(void **state)
{
    struct scene *scene = begin(7);
    struct mst_request request;
    struct mst_wrong wrong;

    (void)state;
    assert_int_equal(DECODE(scene, &mst_request_fields, &request, &wrong, 8, 3, 0x9a, 1, 0),
                     MUSTER_OK);
    assert_false(wrong.unknown);
    assert_int_equal(DECODE(scene, &mst_request_fields, &request, &wrong, 0x7a, 2, 'a', 'b', 8, 3,
                            0x9a, 1, 2, 0x28, 1, 0x7d, 1, 2, 3, 4, 0x79, 1, 2, 3, 4, 5, 6, 7, 8),
                     MUSTER_OK);
    assert_int_equal(request.id, 3);
    assert_true(wrong.unknown);
    ASSERT_BROKEN("command 83 is not known", 8, 5, 0x9a, 6, 0);
    end(scene);
}

/* A field makes no sense. It is named by its path, of a message within a message too. */
static void the_wrong_field_is_named(void **state)
{
    struct scene *scene = begin(8);
    unsigned char names[2 + 2 * (MST_NAMES_MAX + 1)] = {0x4a, 2 * (MST_NAMES_MAX + 1)};
    unsigned char payload[4 + sizeof names] = {8, 1, 16, 7};
    struct mst_reply reply;
    struct mst_wrong wrong;

    (void)state;
    assert_int_equal(DECODE(scene, &mst_reply_fields, &reply, &wrong, 8, 1, 16, 7, 0x52, 6, 8, 1,
                            0x42, 2, 0x30, 99, 0x52, 2, 8, 77),
                     MUSTER_EPROTO);
    assert_said(&wrong, "items.who.cause 99 is not known");
    assert_int_equal(reply.id, 1);
    assert_int_equal(reply.item_count, 2);
    assert_int_equal(
        DECODE(scene, &mst_reply_fields, &reply, &wrong, 8, 1, 16, 99, 0x52, 2, 8, 77, 0x18, 2),
        MUSTER_EPROTO);
    assert_said(&wrong, "command 99 is not known"); /* the outer one goes before */
    assert_int_equal(DECODE(scene, &mst_reply_fields, &reply, &wrong, 8, 1, 16, 7, 0x18, 2),
                     MUSTER_EPROTO);
    assert_said(&wrong, "status 1 is not known");
    for (size_t i = 2; i < sizeof names; i += 2) {
        names[i] = 0x32;
    }
    memcpy(payload + 4, names, sizeof names);
    assert_int_equal(decode(scene, &mst_reply_fields, &reply, payload, sizeof payload, &wrong),
                     MUSTER_EPROTO);
    assert_said(&wrong, "more names than a detail may have: 9");
    end(scene);
}

/* A message has very many pieces of lists, whose place is not known yet. They are counted once:
 * the time it takes grows with its size alone. */
static void counting_ends(void **state)
{
    enum { MANY = 100000 };
    struct scene *scene = begin(9);
    unsigned char *bytes = malloc(5 + 4 * MANY);
    size_t body = (size_t)4 * MANY, at = 0;
    struct mst_request request;
    struct mst_wrong wrong;

    (void)state;
    assert_non_null(bytes);
    bytes[at++] = 0xda;
    bytes[at++] = 1;
    for (; body >= 128; body >>= 7) {
        bytes[at++] = (unsigned char)(body | 128);
    }
    bytes[at++] = (unsigned char)body;
    for (unsigned i = 0; i < MANY; i++) {
        memcpy(bytes + at, (const unsigned char[]){0x22, 0, 0x58, 1}, 4);
        at += 4;
    }
    assert_int_equal(decode(scene, &mst_request_fields, &request, bytes, at, &wrong), MUSTER_OK);
    assert_int_equal(request.round.participant_count, 0);
    assert_int_equal(request.round.order_count, MANY);
    free(bytes);
    end(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_sound),
        cmocka_unit_test(what_is_encoded_is_decoded),
        cmocka_unit_test(a_room_is_too_small_or_not_touched_outside),
        cmocka_unit_test(damaged_messages_are_refused_or_mean_something),
        cmocka_unit_test(a_copy_has_all_of_its_own),
        cmocka_unit_test(a_copy_of_a_long_chain_ends),
        cmocka_unit_test(a_size_beyond_all_memory_is_told),
        cmocka_unit_test(numbers_are_only_so_long),
        cmocka_unit_test(the_place_of_what_is_broken_is_named),
        cmocka_unit_test(the_last_one_counts),
        cmocka_unit_test(the_second_one_is_merged),
        cmocka_unit_test(arrays_come_in_pieces),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(the_wrong_field_is_named),
        cmocka_unit_test(counting_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
