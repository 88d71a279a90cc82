/* SPDX-License-Identifier: Apache-2.0 */
/* What is read and written without protobuf-c is what protobuf-c would have made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "message_generator.h"
#include "proto/native/quick.h"
#include "proto/native/reply_message.h"
#include "proto/native/request_message.h"
#include "quick_scene.h"

static struct message_generator generator;

static struct scene *begin(uint64_t seed)
{
    message_generator_init(&generator, seed);
    return scene_new();
}

static void pack(struct scene *scene, const struct mst_request *request)
{
    struct mst_native_request_message message;

    mst_native_arena_reset(&scene->sent, SIZE_MAX);
    assert_int_equal(mst_native_request_encode(&message, request, &scene->sent), MUSTER_OK);
    scene->size = protobuf_c_message_get_packed_size(&message.base.base);
    assert_true(scene->size <= ROOM);
    protobuf_c_message_pack(&message.base.base, scene->bytes);
}

static bool read_quickly(struct scene *scene, struct mst_request *out, unsigned char **alone)
{
    *alone = scene_alone(scene);
    mst_native_arena_reset(&scene->quick, SIZE_MAX);
    return mst_native_quick_request(out, mst_slice_of(*alone, scene->size), &scene->quick);
}

static bool read_slowly(struct scene *scene, struct mst_request *out)
{
    ProtobufCAllocator allocator = mst_native_arena_allocator(&scene->slow);
    struct mst_native_fault fault;
    Muster__Request *message;

    mst_native_arena_reset(&scene->slow, SIZE_MAX);
    message = muster__request__unpack(&allocator, scene->size, scene->bytes);
    return message && mst_native_request_decode(out, message, &scene->slow, &fault) == MUSTER_OK;
}

/* Numbers of ten digits and those without a session's numbers are left to protobuf-c. */
static bool common(const struct mst_request *request)
{
    const uint64_t most = UINT64_MAX >> 1;

    if (request->id == 0 || request->id > most || request->oldest == 0 || request->oldest > most) {
        return false;
    }
    switch ((int)request->command) {
    case MST_RENEW:
        return true;
    case MST_ROUND:
        return request->round.generation <= most && request->round.number <= most &&
               request->round.deadline_ms <= most && !request->round.participants &&
               !request->round.present_only && !request->round.seal &&
               request->round.order_count == 0 && !request->round.final;
    case MST_GET:
        return request->get.generation <= most;
    case MST_WATCH:
        return request->watch.generation <= most && request->watch.after <= most;
    case MST_WRITE:
        return request->write.count == 1 && request->write.generation <= most &&
               request->write.ops[0].expected <= most &&
               request->write.ops[0].delta > INT64_MIN / 2 &&
               request->write.ops[0].delta < INT64_MAX / 2;
    default:
        return false;
    }
}

static void common_requests_are_read(void **state)
{
    struct scene *scene = begin(1);
    unsigned taken = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct mst_request *sent = message_generator_request(&generator);
        struct mst_request got;
        unsigned char *alone;
        bool quick;

        pack(scene, sent);
        quick = read_quickly(scene, &got, &alone);
        assert_true(quick || !common(sent));
        assert_true(!quick || message_request_equal(sent, &got));
        taken += quick;
        free(alone);
    }
    assert_true(taken > ROUNDS / 100);
    scene_free(scene);
}

static const enum mst_command often[] = {MST_WRITE, MST_GET, MST_RENEW, MST_ROUND, MST_WATCH};

static void damaged_requests_are_the_same_or_left_alone(void **state)
{
    struct scene *scene = begin(2);
    unsigned taken = 0;

    (void)state;
    for (unsigned i = 0; i < 10 * ROUNDS; i++) {
        struct mst_request quick;
        struct mst_request slow;
        unsigned char *alone;

        pack(scene, message_generator_request_of(&generator, often[i % 5]));
        if (scene->size + 4 > ROOM || scene->size < 4) {
            continue;
        }
        for (uint64_t wounds = 1 + i % 3 % 2; wounds > 0; wounds--) {
            scene_damage(scene, &generator.prng, 24);
        }
        if (read_quickly(scene, &quick, &alone)) {
            taken++;
            assert_true(read_slowly(scene, &slow));
            assert_true(message_request_equal(&quick, &slow));
        }
        free(alone);
    }
    assert_true(taken > ROUNDS / 10);
    scene_free(scene);
}

/* A tag or a length may be written with more digits than it needs, but not with any number. */
static void numbers_are_no_longer_than_protobuf_takes(void **state)
{
    static const unsigned char tag[] = {0x88, 0x80, 0x80, 0x80, 0x80, 0x00, 1, 16, 1, 0x9a, 1, 0};
    static const unsigned char length[] = {8, 1, 16, 1, 0x9a, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    struct mst_native_arena arena;
    struct mst_request out;
    struct scene *scene = begin(3);

    (void)state;
    mst_native_arena_init(&arena, &scene->mem.mem);
    assert_false(mst_native_quick_request(&out, mst_slice_of(tag, sizeof tag), &arena));
    assert_false(mst_native_quick_request(&out, mst_slice_of(length, sizeof length), &arena));
    mst_native_arena_fini(&arena);
    scene_free(scene);
}

static void asked_quickly_it_is_the_same_bytes(void **state)
{
    struct scene *scene = begin(5);
    unsigned char *bytes = malloc(ROOM);
    unsigned asked = 0;

    (void)state;
    assert_non_null(bytes);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct mst_request *request =
            i % 2 ? message_generator_request(&generator)
                  : message_generator_request_of(&generator, often[i / 2 % 5]);
        size_t command_size = 0;
        size_t size = mst_native_quick_ask_size(request, &command_size);

        assert_true(size > 0 || !common(request));
        if (size == 0) {
            continue;
        }
        asked++;
        pack(scene, request);
        assert_int_equal(size, scene->size);
        mst_native_quick_ask(bytes, request, command_size);
        assert_memory_equal(bytes, scene->bytes, size);
    }
    assert_true(asked > ROUNDS / 4);
    free(bytes);
    scene_free(scene);
}

/* Most of the generator's have something nested: in half of them it is taken out. */
static void plainer(struct mst_reply *reply, unsigned i)
{
    if (i % 2 == 0) {
        reply->has_view = false;
        reply->item_count = 0;
        reply->has_detail = reply->has_detail && i % 4 == 0;
        reply->detail.who_count = 0;
        reply->value.size *= !reply->has_detail;
    }
}

/* With a few keys, as a watch has them. */
static void with_keys(struct mst_reply *reply, struct mst_item items[3])
{
    reply->item_count = (uint32_t)mst_prng_below(&generator.prng, 4);
    reply->items = items;
    for (uint32_t i = 0; i < reply->item_count; i++) {
        uint64_t number = mst_prng_next(&generator.prng);

        items[i] = (struct mst_item){.kind = (enum mst_item_kind)(1 + number % 11),
                                     .revision = number >> number % 64,
                                     .number = number % 3 ? 0 : number >> 7,
                                     .arrived = number % 5 ? 0 : (uint32_t)number,
                                     .expected = number % 7 ? 0 : (uint32_t)(number >> 9),
                                     .name = mst_slice_of("a/key", number % 6),
                                     .value = mst_slice_of("and its value", number % 14)};
    }
}

static void pack_reply(struct scene *scene, const struct mst_reply *reply)
{
    struct mst_native_reply_message message;

    mst_native_reply_encode(&message, reply);
    scene->size = mst_native_reply_size(&message, reply);
    assert_true(scene->size <= ROOM);
    mst_native_reply_pack(&message, reply, scene->bytes);
}

static void plain_replies_are_the_same_bytes(void **state)
{
    struct scene *scene = begin(4);
    unsigned suited = 0;
    unsigned detailed = 0;
    unsigned listed = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct mst_reply reply = *message_generator_reply(&generator);
        unsigned char head[MST_NATIVE_QUICK_HEAD];
        unsigned char tail[256];
        struct mst_item items[3];
        size_t head_size;
        size_t tail_size;

        plainer(&reply, i);
        if (i % 3 == 0) {
            with_keys(&reply, items);
        }
        assert_true(mst_native_quick_suits(&reply) || i % 2 == 1);
        if (!mst_native_quick_suits(&reply)) {
            continue;
        }
        suited++;
        detailed += reply.has_detail;
        listed += reply.item_count > 0 && i % 3 == 0;
        pack_reply(scene, &reply);
        head_size = mst_native_quick_reply(head, &reply);
        tail_size = mst_native_quick_items_size(&reply);
        assert_int_equal(head_size + reply.value.size + tail_size, scene->size);
        assert_memory_equal(head, scene->bytes, head_size);
        if (reply.value.size > 0) {
            assert_memory_equal(reply.value.data, scene->bytes + head_size, reply.value.size);
        }
        if (tail_size <= sizeof tail) {
            mst_native_quick_items(tail, &reply);
            assert_memory_equal(tail, scene->bytes + scene->size - tail_size, tail_size);
        }
    }
    assert_true(suited >= ROUNDS / 2 && detailed > ROUNDS / 20 && listed > ROUNDS / 10);
    scene_free(scene);
}

static bool answer_slowly(struct scene *scene, struct mst_reply *out)
{
    ProtobufCAllocator allocator = mst_native_arena_allocator(&scene->slow);
    struct mst_native_fault fault;
    Muster__Reply *message;

    mst_native_arena_reset(&scene->slow, SIZE_MAX);
    message = muster__reply__unpack(&allocator, scene->size, scene->bytes);
    return message && message->id != 0 &&
           mst_native_reply_decode(out, message, &scene->slow, &fault) == MUSTER_OK;
}

/* Whole or damaged: what is taken is what protobuf-c would have taken. */
static void plain_replies_are_read(void **state)
{
    struct scene *scene = begin(6);
    unsigned whole = 0;
    unsigned damaged = 0;

    (void)state;
    for (unsigned i = 0; i < 4 * ROUNDS; i++) {
        struct mst_reply sent = *message_generator_reply(&generator);
        struct mst_item items[3];
        struct mst_reply quick;
        struct mst_reply slow;
        unsigned char *alone;

        plainer(&sent, i);
        if (i % 3 == 0) {
            with_keys(&sent, items);
        }
        pack_reply(scene, &sent);
        if (i % 4 >= 2 && scene->size >= 4 && scene->size + 4 < ROOM) {
            scene_damage(scene, &generator.prng, 24);
        }
        alone = scene_alone(scene);
        mst_native_arena_reset(&scene->quick, SIZE_MAX);
        memset(&quick, 0xa5, sizeof quick);
        if (mst_native_quick_answer(&quick, mst_slice_of(alone, scene->size), &scene->quick)) {
            whole += i % 4 < 2;
            damaged += i % 4 >= 2;
            assert_true(answer_slowly(scene, &slow));
            assert_true(message_reply_equal(&slow, &quick));
            assert_true(quick.has_detail || quick.detail.limit == 0);
        }
        free(alone);
    }
    assert_true(whole > ROUNDS / 2 && damaged > ROUNDS / 20);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_requests_are_read),
        cmocka_unit_test(damaged_requests_are_the_same_or_left_alone),
        cmocka_unit_test(numbers_are_no_longer_than_protobuf_takes),
        cmocka_unit_test(asked_quickly_it_is_the_same_bytes),
        cmocka_unit_test(plain_replies_are_the_same_bytes),
        cmocka_unit_test(plain_replies_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
