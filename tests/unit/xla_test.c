/* SPDX-License-Identifier: Apache-2.0 */
/* A job of JAX: its tasks, their keys, barriers and ends.
 *
 * behaviour: fronts / JAX */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "xla_stage.h"

enum { TASKS = 3 };

/* Tasks of both protocols, each on a connection of its own. */
struct world {
    struct stage stage;
    struct stage_client *clients[TASKS];
    struct stage_call *registered[TASKS];
    uint64_t service[TASKS];
};

static const enum mst_xla_wire wires[] = {MST_XLA_X, MST_XLA_T};

static uint64_t incarnation(uint32_t task)
{
    return 0x1000 + task;
}

static struct mst_xla_request by(const struct world *world, uint32_t task)
{
    struct mst_xla_request request = {0};

    request.source.id = task;
    request.incarnation = incarnation(task);
    request.incarnations.task = incarnation(task);
    request.incarnations.service = world->service[task];
    return request;
}

static struct stage_call *call(struct world *world, uint32_t task, enum mst_xla_wire wire,
                               enum mst_xla_method method, struct mst_xla_request request)
{
    return stage_call(world->clients[task], wire, method, &request, NULL);
}

static void register_task(struct world *world, uint32_t task, enum mst_xla_wire wire)
{
    world->registered[task] = call(world, task, wire, MST_XLA_REGISTER, by(world, task));
}

static void check_registered(struct world *world, uint32_t task, enum mst_xla_wire wire)
{
    struct mst_xla_reply reply;

    assert_true(stage_reply(world->registered[task], wire, MST_XLA_REGISTER, &reply));
    assert_int_not_equal(reply.incarnation, 0);
    world->service[task] = reply.incarnation;
}

/* `count` tasks, registered, on one node. */
static void begin_with(struct world *world, uint32_t count, enum mst_xla_wire wire,
                       bool recoverable)
{
    const struct mst_front_config config = {
        .size = count, .limits = mst_limits_default, .recoverable = recoverable};

    memset(world, 0, sizeof *world);
    stage_init_with(&world->stage, 1, &config, &stage_mem);
    for (uint32_t i = 0; i < count; i++) {
        world->clients[i] = stage_connect(&world->stage, 0);
        register_task(world, i, wire);
    }
    for (uint32_t i = 0; i < count; i++) {
        check_registered(world, i, wire);
    }
}

static void begin(struct world *world, uint32_t count, enum mst_xla_wire wire)
{
    begin_with(world, count, wire, false);
}

static void end(struct world *world)
{
    stage_fini(&world->stage);
}

static void expect_ok(const struct stage_call *made)
{
    assert_true(made->done);
    assert_string_equal(made->text, "");
    assert_int_equal(made->status, 0);
}

/* Its text begins with `text`. */
static void expect(const struct stage_call *made, int status, const char *text)
{
    assert_true(made->done);
    assert_int_equal(made->status, status);
    assert_int_equal(strncmp(made->text, text, strlen(text)), 0);
}

/* An error of the service without more to say: its empty value is left out. */
#define COORDINATION                                                                               \
    "CjkKN3R5cGUuZ29vZ2xlYXBpcy5jb20vdGVuc29yZmxvdy5Db29yZGluYXRpb25TZXJ2aWNlRXJyb3I"

static struct mst_xla_request of_key(const struct world *world, uint32_t task, const char *key)
{
    struct mst_xla_request request = by(world, task);

    request.key = mst_slice_text(key);
    return request;
}

static struct stage_call *insert(struct world *world, uint32_t task, enum mst_xla_wire wire,
                                 const char *key, const char *value, bool overwrite)
{
    struct mst_xla_request request = by(world, task);

    request.kv = (struct mst_xla_entry){mst_slice_text(key), mst_slice_text(value)};
    request.overwrite = overwrite;
    return call(world, task, wire, MST_XLA_INSERT, request);
}

static void expect_kv(const struct stage_call *made, enum mst_xla_wire wire, const char *key,
                      const char *value)
{
    struct mst_xla_reply reply;

    assert_true(stage_reply(made, wire, MST_XLA_GET, &reply));
    assert_true(mst_slice_is(reply.kv.key, key));
    assert_true(mst_slice_is(reply.kv.value, value));
}

static struct stage_call *barrier(struct world *world, uint32_t task, enum mst_xla_wire wire,
                                  const char *id, uint64_t counter, uint64_t timeout_ms)
{
    struct mst_xla_request request = of_key(world, task, id);

    request.counter = counter;
    request.timeout_ms = timeout_ms;
    return call(world, task, wire, MST_XLA_BARRIER, request);
}

/* All tasks register, and each registration waits for the last one. They beat, poll for errors,
 * and shut down: each shutdown waits for the others', and then the polls end as cancelled. */
static void a_whole_job(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        struct stage_call *polls[2], *beat, *down[2];
        struct mst_xla_reply reply;
        struct world world;

        memset(&world, 0, sizeof world);
        stage_init(&world.stage, 1, 2);
        world.clients[0] = stage_connect(&world.stage, 0);
        world.clients[1] = stage_connect(&world.stage, 0);
        register_task(&world, 0, wires[w]);
        assert_false(world.registered[0]->done);
        register_task(&world, 1, wires[w]);
        check_registered(&world, 0, wires[w]);
        check_registered(&world, 1, wires[w]);
        assert_int_equal(world.service[0], world.service[1]);
        polls[0] = call(&world, 0, wires[w], MST_XLA_POLL, by(&world, 0));
        polls[1] = call(&world, 1, wires[w], MST_XLA_POLL, by(&world, 1));
        beat = call(&world, 1, wires[w], MST_XLA_HEARTBEAT, by(&world, 1));
        assert_true(stage_reply(beat, wires[w], MST_XLA_HEARTBEAT, &reply));
        assert_int_equal(reply.incarnation, world.service[1]);
        down[0] = call(&world, 0, wires[w], MST_XLA_SHUTDOWN, by(&world, 0));
        assert_false(down[0]->done || polls[0]->done);
        down[1] = call(&world, 1, wires[w], MST_XLA_SHUTDOWN, by(&world, 1));
        for (unsigned i = 0; i < 2; i++) {
            expect_ok(down[i]);
            expect(polls[i], 1, "task");
            assert_true(world.stage.sessions[i].left && !world.stage.sessions[i].failed);
        }
        expect_ok(call(&world, 0, wires[w], MST_XLA_HEARTBEAT, by(&world, 0)));
        expect(call(&world, 0, wires[w], MST_XLA_SHUTDOWN, by(&world, 0)), 9, "ShutdownTask");
        end(&world);
    }
}

/* A key is inserted, and once more. The second one is refused, without details, unless it may
 * overwrite; a reader sees the value under the name that it asked for, slashes aside. */
static void keys(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        struct world world;
        struct stage_call *held;

        begin(&world, 2, wires[w]);
        held = call(&world, 1, wires[w], MST_XLA_GET, of_key(&world, 1, "//a/k/"));
        assert_false(held->done);
        expect_ok(insert(&world, 0, wires[w], "a//k", "one", false));
        expect_kv(held, wires[w], "//a/k/", "one");
        held = insert(&world, 1, wires[w], "/a/k", "two", false);
        expect(held, 6, "key a/k already exists.");
        assert_string_equal(held->details, "");
        expect_ok(insert(&world, 1, wires[w], "a/k", "two", true));
        expect_kv(call(&world, 0, wires[w], MST_XLA_TRY_GET, of_key(&world, 0, "a/k")), wires[w],
                  "a/k", "two");
        held = call(&world, 0, wires[w], MST_XLA_TRY_GET, of_key(&world, 0, "a/none"));
        expect(held, 5, "Config key a/none not found.");
        assert_string_equal(held->details, COORDINATION);
        end(&world);
    }
}

/* Tasks call a barrier. It passes when the last one has come, and its next instance is another. */
static void a_barrier(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        struct world world;
        struct mst_xla_reply reply;
        struct stage_call *first, *second;

        begin(&world, 2, wires[w]);
        for (uint64_t counter = 0; counter < 3; counter++) {
            first = barrier(&world, 0, wires[w], "b", counter, 10000);
            assert_false(first->done);
            second = barrier(&world, 1, wires[w], "b", counter, 10000);
            assert_true(stage_reply(first, wires[w], MST_XLA_BARRIER, &reply));
            assert_int_equal(reply.counter, counter);
            expect_ok(second);
        }
        end(&world);
    }
}

/* A process is killed. The others' polls end as UNAVAILABLE, with the reason and the task. */
static void a_killed_process(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        struct world world;
        struct stage_call *poll;

        begin(&world, 2, wires[w]);
        poll = call(&world, 0, wires[w], MST_XLA_POLL, by(&world, 0));
        stage_dead(&world.stage, 0, 1, "was killed by signal 9");
        expect(poll, 14, "task 1 is lost: was killed by signal 9");
        assert_true(strlen(poll->details) > strlen(COORDINATION));
        expect(call(&world, 0, wires[w], MST_XLA_POLL, by(&world, 0)), 14, "task 1 is lost");
        end(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_job),
        cmocka_unit_test(keys),
        cmocka_unit_test(a_barrier),
        cmocka_unit_test(a_killed_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
