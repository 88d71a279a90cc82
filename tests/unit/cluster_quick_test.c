/* SPDX-License-Identifier: Apache-2.0 */
/* What is read and written without protobuf-c is what protobuf-c would have made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_generator.h"
#include "proto/cluster/cluster.h"
#include "proto/cluster/message.h"
#include "proto/cluster/quick.h"
#include "quick_scene.h"

static struct cluster_generator generator;

static struct scene *begin(uint64_t seed)
{
    cluster_generator_init(&generator, seed);
    return scene_new();
}

static void pack(struct scene *scene, const struct mst_cluster_message *message)
{
    struct mst_cluster_schema_message schema;

    mst_native_arena_reset(&scene->sent, SIZE_MAX);
    assert_int_equal(mst_cluster_message_encode(&schema, message, &scene->sent), MUSTER_OK);
    scene->size = muster__cluster__message__get_packed_size(&schema.base);
    assert_true(scene->size <= ROOM);
    muster__cluster__message__pack(&schema.base, scene->bytes);
}

static bool read_quickly(struct scene *scene, struct mst_cluster_message *out,
                         unsigned char **alone)
{
    *alone = scene_alone(scene);
    mst_native_arena_reset(&scene->quick, SIZE_MAX);
    return mst_cluster_quick_read(out, mst_slice_of(*alone, scene->size), &scene->quick);
}

static bool read_slowly(struct scene *scene, struct mst_cluster_message *out)
{
    ProtobufCAllocator allocator = mst_native_arena_allocator(&scene->slow);
    struct mst_native_fault fault;
    Muster__Cluster__Message *message;

    mst_native_arena_reset(&scene->slow, SIZE_MAX);
    message = muster__cluster__message__unpack(&allocator, scene->size, scene->bytes);
    return message && mst_cluster_message_decode(out, message, &scene->slow, &fault) == MUSTER_OK;
}

/* Numbers of ten digits are left to protobuf-c. */
static bool common(const struct mst_cluster_message *message)
{
    const uint64_t most = UINT64_MAX >> 1;
    bool good = message->attempt.closure <= most && message->series <= most &&
                message->run_limit_ms <= most && message->left_ms <= most &&
                message->run_ns <= most;

    for (uint32_t i = 0; i < message->need_count; i++) {
        good = good && message->needs[i] <= most;
    }
    return good && mst_cluster_quick_suits(message);
}

static const enum mst_cluster_message_type often[] = {MST_CLUSTER_RUN, MST_CLUSTER_RESULT};

static void common_messages_are_read(void **state)
{
    struct scene *scene = begin(1);
    unsigned taken = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct mst_cluster_message *sent =
            i % 3 == 2 ? cluster_generator_any(&generator)
                       : cluster_generator_of(&generator, often[i % 3]);
        struct mst_cluster_message got;
        unsigned char *alone;
        bool quick;

        pack(scene, sent);
        quick = read_quickly(scene, &got, &alone);
        assert_true(quick || !common(sent));
        assert_true(!quick || cluster_message_equal(sent, &got));
        taken += quick;
        free(alone);
    }
    assert_true(taken > ROUNDS / 10);
    scene_free(scene);
}

static void common_messages_are_the_same_bytes(void **state)
{
    struct scene *scene = begin(2);
    unsigned suited = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct mst_cluster_message *sent = cluster_generator_of(&generator, often[i % 2]);
        struct mst_cluster_quick_size size;
        unsigned char *written;

        if (!mst_cluster_quick_suits(sent)) {
            continue;
        }
        suited++;
        pack(scene, sent);
        size = mst_cluster_quick_size(sent);
        assert_int_equal(size.payload, scene->size);
        assert_true(scene->size <= mst_cluster_codec_size_max(sent));
        written = malloc(scene->size);
        assert_non_null(written);
        mst_cluster_quick_write(written, sent, size);
        assert_memory_equal(written, scene->bytes, scene->size);
        free(written);
    }
    assert_true(suited > ROUNDS / 2);
    scene_free(scene);
}

static void damaged_messages_are_the_same_or_left_alone(void **state)
{
    struct scene *scene = begin(3);
    unsigned taken = 0;

    (void)state;
    for (unsigned i = 0; i < 5 * ROUNDS; i++) {
        struct mst_cluster_message quick;
        struct mst_cluster_message slow;
        unsigned char *alone;

        pack(scene, cluster_generator_of(&generator, often[i % 2]));
        if (scene->size + 4 > ROOM || scene->size < 4) {
            continue;
        }
        for (unsigned wounds = 1 + i % 3 % 2; wounds > 0; wounds--) {
            scene_damage(scene, &generator.base.prng, 40);
        }
        if (read_quickly(scene, &quick, &alone)) {
            taken++;
            assert_true(read_slowly(scene, &slow));
            assert_true(cluster_message_equal(&quick, &slow));
        }
        free(alone);
    }
    assert_true(taken > ROUNDS / 20);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_messages_are_read),
        cmocka_unit_test(common_messages_are_the_same_bytes),
        cmocka_unit_test(damaged_messages_are_the_same_or_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
