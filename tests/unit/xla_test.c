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

#include "failing_mem.h"
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
    stage_init_with(&world->stage, 1, &config);
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

/* A process is killed on another node. The polls of this node end, with what the service knows. */
static void a_loss_on_another_node(void **state)
{
    struct mst_request lost = {.command = MST_LOST};
    const struct mst_open agent = {.role = MST_ROLE_AGENT, .index = 0};
    struct stage_call *poll, *watch;
    struct mst_xla_request request;
    struct mst_xla_reply reply;
    struct world world;
    uint32_t client;

    (void)state;
    memset(&world, 0, sizeof world);
    stage_init(&world.stage, 2, 2);
    for (uint32_t i = 0; i < 2; i++) {
        world.clients[i] = stage_connect(&world.stage, i);
        register_task(&world, i, MST_XLA_X);
    }
    check_registered(&world, 0, MST_XLA_X);
    check_registered(&world, 1, MST_XLA_X);
    poll = call(&world, 0, MST_XLA_X, MST_XLA_POLL, by(&world, 0));
    request = by(&world, 0);
    request.number = -1;
    watch = call(&world, 0, MST_XLA_X, MST_XLA_WATCH, request);
    assert_true(stage_reply(watch, MST_XLA_X, MST_XLA_WATCH, &reply));
    assert_int_equal(reply.state_count, 2);
    assert_int_equal(reply.states[1].state, MST_XLA_CONNECTED);
    assert_int_equal(reply.states[1].incarnation, incarnation(1));
    request.number = (int64_t)reply.version;
    watch = call(&world, 0, MST_XLA_X, MST_XLA_WATCH, request);
    assert_false(watch->done || poll->done);
    client = core_service_open(&world.stage.service, &agent);
    lost.lost.index = 1;
    lost.lost.pid = 101;
    lost.lost.cause = MST_CAUSE_SIGNAL;
    lost.lost.code = 9;
    (void)core_service_send(&world.stage.service, client, &lost);
    stage_flow(&world.stage);
    expect(poll, 14, "task 1 was killed by signal 9");
    assert_true(stage_reply(watch, MST_XLA_X, MST_XLA_WATCH, &reply));
    assert_int_equal(reply.states[1].state, MST_XLA_ERROR);
    assert_int_equal(reply.states[1].code, 14);
    assert_true(reply.states[1].has_origin);
    assert_int_equal(reply.states[1].origin.source.id, 1);
    end(&world);
}

/* A task reports its failure. It has failed and leaves the job; those that poll, on all nodes, get
 * its code and its text. */
static void a_reported_failure(void **state)
{
    struct mst_xla_request request;
    struct stage_call *polls[2];
    struct world world;

    (void)state;
    memset(&world, 0, sizeof world);
    stage_init(&world.stage, 2, 2);
    for (uint32_t i = 0; i < 2; i++) {
        world.clients[i] = stage_connect(&world.stage, i);
        register_task(&world, i, MST_XLA_X);
    }
    for (uint32_t i = 0; i < 2; i++) {
        check_registered(&world, i, MST_XLA_X);
        polls[i] = call(&world, i, MST_XLA_X, MST_XLA_POLL, by(&world, i));
    }
    request = by(&world, 1);
    expect(call(&world, 1, MST_XLA_X, MST_XLA_REPORT, request), 3, "ReportErrorToService");
    request.code = 9;
    request.text = mst_slice_text("the loss is nan");
    expect_ok(call(&world, 1, MST_XLA_X, MST_XLA_REPORT, request));
    expect(polls[0], 9, "the loss is nan");
    expect(polls[1], 9, "the loss is nan");
    assert_true(world.stage.sessions[1].failed && world.stage.sessions[1].left);
    expect(call(&world, 1, MST_XLA_X, MST_XLA_HEARTBEAT, by(&world, 1)), 10, "the task is already");
    expect(call(&world, 1, MST_XLA_X, MST_XLA_REPORT, request), 9, "ReportErrorToService");
    end(&world);
}

static struct stage_call *alive(struct world *world, uint32_t task, enum mst_xla_wire wire)
{
    static const uint32_t ids[] = {2, 0, 1, 0};
    static struct mst_xla_place places[] = {{.id = 2}, {.id = 0}, {.id = 1}, {.id = 0}};
    struct mst_xla_request request = by(world, task);

    request.ids = ids;
    request.places = places;
    request.id_count = request.place_count = 4;
    return call(world, task, wire, MST_XLA_ALIVE, request);
}

/* With recovery a process is killed while the others ask which tasks are alive. They get the
 * others, with their incarnations, and go on; nothing ends their polls, and each shuts down alone.
 */
static void recovery(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        struct world world;
        struct stage_call *poll, *first, *second, *third;
        struct mst_xla_reply reply;

        begin_with(&world, 3, wires[w], true);
        poll = call(&world, 0, wires[w], MST_XLA_POLL, by(&world, 0));
        first = alive(&world, 0, wires[w]);
        second = alive(&world, 1, wires[w]);
        third = alive(&world, 2, wires[w]);
        assert_true(stage_reply(first, wires[w], MST_XLA_ALIVE, &reply));
        assert_int_equal(reply.id_count + reply.place_count, 3);
        expect_ok(second);
        expect_ok(third);
        first = alive(&world, 0, wires[w]);
        second = alive(&world, 0, wires[w]);
        third = alive(&world, 1, wires[w]);
        assert_false(first->done || second->done || third->done);
        stage_dead(&world.stage, 0, 2, "was killed by signal 9");
        stage_lose(&world.stage, 0, 2);
        assert_true(stage_reply(second, wires[w], MST_XLA_ALIVE, &reply));
        assert_int_equal(reply.id_count + reply.place_count, 2);
        assert_int_equal(reply.incarnations.size, 16);
        assert_int_equal(((const unsigned char *)reply.incarnations.data)[8], 1);
        expect_ok(first);
        expect_ok(third);
        assert_false(poll->done);
        expect_ok(call(&world, 0, wires[w], MST_XLA_SHUTDOWN, by(&world, 0)));
        assert_int_equal(poll->status, 1);
        end(&world);
    }
}

/* A barrier is not reached by all in its time. Who called it gets DEADLINE_EXCEEDED, with the
 * count and the missing task, and so does a task that comes late. */
static void a_barrier_that_times_out(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        struct world world;
        struct stage_call *first;

        begin(&world, 2, wires[w]);
        first = barrier(&world, 0, wires[w], "b", 0, 500);
        stage_pass(&world.stage, 400);
        assert_false(first->done);
        stage_pass(&world.stage, 200);
        expect(first, 4,
               "Barrier timed out. Id: b::0. 1/2 tasks arrived; missing: task 1 (present");
        expect(barrier(&world, 1, wires[w], "b", 0, 500), 4, "Barrier timed out. Id: b::0.");
        first = barrier(&world, 0, wires[w], "b", 1, 500);
        expect_ok(barrier(&world, 1, wires[w], "b", 1, 500));
        expect_ok(first);
        end(&world);
    }
}

/* Barriers with wrong arguments are refused: a task that does not take part, one that is there
 * twice, one that is not in the job, an instance that is not the next one. */
static void wrong_barriers(void **state)
{
    static const uint32_t one[] = {1}, twice[] = {0, 0}, far[] = {0, 7};
    struct mst_xla_request request;
    struct stage_call *made;
    struct world world;

    (void)state;
    begin(&world, 2, MST_XLA_X);
    request = of_key(&world, 0, "b");
    request.timeout_ms = 1000;
    request.ids = one;
    request.id_count = 1;
    expect(call(&world, 0, MST_XLA_X, MST_XLA_BARRIER, request), 3, "A non-participating task");
    request.ids = twice;
    request.id_count = 2;
    expect(call(&world, 0, MST_XLA_X, MST_XLA_BARRIER, request), 3, "Conflicting tasks specified");
    request.ids = far;
    expect(call(&world, 0, MST_XLA_X, MST_XLA_BARRIER, request), 3, "task 7 of barrier b is not");
    made = barrier(&world, 0, MST_XLA_X, "b", 0, 1000);
    expect_ok(barrier(&world, 1, MST_XLA_X, "b", 0, 1000));
    expect_ok(made);
    expect(barrier(&world, 1, MST_XLA_X, "b", 5, 1000), 13, "task 1 calls the 5-th instance");
    /* The same call again has the same answer. */
    expect_ok(barrier(&world, 1, MST_XLA_X, "b", 0, 1000));
    made = barrier(&world, 0, MST_XLA_X, "c", 0, 1000);
    expect_ok(barrier(&world, 1, MST_XLA_X, "c", 0, 1000));
    expect_ok(made);
    end(&world);
}

/* A task calls a barrier again while its first call waits. The first one is cancelled, and the task
 * counts once. */
static void a_repeated_barrier(void **state)
{
    struct world world;
    struct stage_call *first, *second;

    (void)state;
    begin(&world, 2, MST_XLA_X);
    first = barrier(&world, 0, MST_XLA_X, "b", 0, 10000);
    second = barrier(&world, 0, MST_XLA_X, "b", 0, 10000);
    expect(first, 1, "task 0 calls the barrier again");
    assert_string_equal(first->details, "");
    assert_false(second->done);
    stage_cancel(second); /* its arrival counts */
    expect_ok(barrier(&world, 1, MST_XLA_X, "b", 0, 10000));
    end(&world);
}

/* A job names each of its barriers anew, more often than the service keeps names. All pass. */
static void many_names(void **state)
{
    struct world world;
    char name[400];

    (void)state;
    begin(&world, 2, MST_XLA_X);
    for (unsigned i = 0; i < 1500; i++) {
        struct stage_call *first;

        (void)snprintf(name, sizeof name, "%0*u", i % 2 == 0 ? 300 : 5, i);
        first = barrier(&world, 0, MST_XLA_X, name, 0, 10000);
        expect_ok(barrier(&world, 1, MST_XLA_X, name, 0, 10000));
        expect_ok(first);
    }
    end(&world);
}

static struct stage_call *increment(struct world *world, enum mst_xla_wire wire, const char *key,
                                    int64_t number)
{
    struct mst_xla_request request = of_key(world, 0, key);

    request.number = number;
    return call(world, 0, wire, MST_XLA_INCREMENT, request);
}

/* A key counts. A value that is no number is refused, and so is a sum beyond 64 bits; the value
 * stays. */
static void counting(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        struct world world;

        begin(&world, 1, wires[w]);
        expect_kv(increment(&world, wires[w], "n", 5), wires[w], "n", "5");
        expect_kv(increment(&world, wires[w], "/n", -7), wires[w], "/n", "-2");
        expect_kv(increment(&world, wires[w], "n", INT64_MAX), wires[w], "n",
                  "9223372036854775805");
        expect(increment(&world, wires[w], "n", 3), 11, "IncrementKeyValue: the sum of key n");
        expect_ok(insert(&world, 0, wires[w], "word", "abc", false));
        expect(increment(&world, wires[w], "word", 1), 9,
               "Failed to parse value of key word as an integer");
        end(&world);
    }
}

static uint32_t listed(struct world *world, enum mst_xla_wire wire, const char *folder,
                       struct mst_xla_reply *reply)
{
    assert_true(stage_reply(call(world, 0, wire, MST_XLA_LIST, of_key(world, 0, folder)), wire,
                            MST_XLA_LIST, reply));
    return reply->entry_count;
}

/* Folders are listed and deleted: with all that is below them, and nothing beside them. */
static void folders(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        struct world world;
        struct mst_xla_reply reply;
        char name[32];

        begin(&world, 1, wires[w]);
        for (unsigned i = 0; i < 700; i++) { /* several pages of the service */
            (void)snprintf(name, sizeof name, "a/b/%04u", i);
            expect_ok(insert(&world, 0, wires[w], name, "v", false));
        }
        expect_ok(insert(&world, 0, wires[w], "a/bc", "beside", false));
        expect_ok(insert(&world, 0, wires[w], "a/b", "itself", false));
        assert_int_equal(listed(&world, wires[w], "/a//b/", &reply), 700);
        assert_true(mst_slice_is(reply.entries[0].key, "a/b/0000"));
        assert_true(mst_slice_is(reply.entries[699].key, "a/b/0699"));
        assert_true(mst_slice_is(reply.entries[699].value, "v"));
        assert_int_equal(listed(&world, wires[w], "", &reply), 0);
        expect_ok(call(&world, 0, wires[w], MST_XLA_DELETE, of_key(&world, 0, "a/b")));
        assert_int_equal(listed(&world, wires[w], "a", &reply), 1);
        assert_true(mst_slice_is(reply.entries[0].key, "a/bc"));
        expect_ok(call(&world, 0, wires[w], MST_XLA_DELETE, of_key(&world, 0, "none")));
        end(&world);
    }
}

/* Readers wait for a key that is never written, and give up without a word, again and again. They
 * cost the service one wait for each key. */
static void abandoned_gets(void **state)
{
    struct world world;
    struct stage_call *first, *last = NULL;

    (void)state;
    begin(&world, 1, MST_XLA_X);
    first = call(&world, 0, MST_XLA_X, MST_XLA_GET, of_key(&world, 0, "k"));
    for (unsigned i = 0; i < 1000; i++) {
        last = call(&world, 0, MST_XLA_X, MST_XLA_GET, of_key(&world, 0, "k"));
    }
    assert_int_equal(stage_posts(&world.stage), 2); /* the other one watches */
    stage_cancel(first);
    assert_int_equal(stage_posts(&world.stage), 2);
    expect_ok(insert(&world, 0, MST_XLA_X, "k", "v", false));
    expect_kv(last, MST_XLA_X, "k", "v");
    first = call(&world, 0, MST_XLA_X, MST_XLA_GET, of_key(&world, 0, "none"));
    assert_int_equal(stage_posts(&world.stage), 2);
    stage_cancel(first);
    assert_int_equal(stage_posts(&world.stage), 1);
    end(&world);
}

/* A call means another service, as a process of an earlier attempt does. It is refused with the
 * number of this one. */
static void another_service(void **state)
{
    static const enum mst_xla_method methods[] = {
        MST_XLA_HEARTBEAT, MST_XLA_POLL,      MST_XLA_SHUTDOWN, MST_XLA_WATCH,
        MST_XLA_INSERT,    MST_XLA_GET,       MST_XLA_TRY_GET,  MST_XLA_LIST,
        MST_XLA_DELETE,    MST_XLA_INCREMENT, MST_XLA_BARRIER,  MST_XLA_ALIVE};
    struct world world;

    (void)state;
    begin(&world, 1, MST_XLA_X);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        struct mst_xla_request request = of_key(&world, 0, "k");
        struct stage_call *made;

        request.incarnations.service = 77;
        made = call(&world, 0, MST_XLA_X, methods[i], request);
        expect(made, 13, "wrong service incarnation: 77, and this is 1");
        assert_true(strlen(made->details) > strlen(COORDINATION));
        request.incarnations.service = 0;
        expect(call(&world, 0, MST_XLA_X, methods[i], request), 13, "wrong service incarnation");
    }
    end(&world);
}

/* A process dies while it registers, and another one comes in its place. The first one's call is
 * refused, and the job begins with the second. A third one, later, is an error of the task. */
static void registered_again(void **state)
{
    struct mst_xla_request request;
    struct stage_call *first, *second, *third, *poll;
    struct mst_xla_reply reply;
    struct world world;

    (void)state;
    memset(&world, 0, sizeof world);
    stage_init(&world.stage, 1, 2);
    world.clients[0] = stage_connect(&world.stage, 0);
    world.clients[1] = stage_connect(&world.stage, 0);
    first = call(&world, 0, MST_XLA_X, MST_XLA_REGISTER, by(&world, 0));
    request = by(&world, 0);
    request.incarnation = 99;
    second = call(&world, 1, MST_XLA_X, MST_XLA_REGISTER, request);
    expect(first, 6, "task 0 was registered by a newer process");
    assert_false(second->done);
    register_task(&world, 1, MST_XLA_X);
    check_registered(&world, 1, MST_XLA_X);
    assert_true(stage_reply(second, MST_XLA_X, MST_XLA_REGISTER, &reply));
    expect_ok(call(&world, 1, MST_XLA_X, MST_XLA_REGISTER, request));
    poll = call(&world, 1, MST_XLA_X, MST_XLA_POLL, by(&world, 1));
    request.incarnation = 100;
    third = call(&world, 0, MST_XLA_X, MST_XLA_REGISTER, request);
    expect(third, 10, "task 0 registered again with a different incarnation");
    expect(poll, 10, "task 0 registered again with a different incarnation");
    request.source.id = 7;
    expect(call(&world, 0, MST_XLA_X, MST_XLA_REGISTER, request), 3, "RegisterTask: task 7 is not");
    end(&world);
}

/* A process stops beating. Twice its heartbeat's time later it is lost, and its fault is one that
 * it has not reported itself. After a stall of the agent itself it has another chance. */
static void silence(void **state)
{
    struct mst_xla_request request;
    struct stage_call *poll;
    struct world world;

    (void)state;
    begin(&world, 2, MST_XLA_X);
    poll = call(&world, 0, MST_XLA_X, MST_XLA_POLL, by(&world, 0));
    request = by(&world, 0);
    expect_ok(stage_call(world.clients[0], MST_XLA_X, MST_XLA_HEARTBEAT, &request, "500S"));
    request = by(&world, 1);
    expect_ok(stage_call(world.clients[1], MST_XLA_X, MST_XLA_HEARTBEAT, &request, "50S"));
    stage_pass(&world.stage, 99000);
    assert_false(poll->done);
    expect_ok(stage_call(world.clients[1], MST_XLA_X, MST_XLA_HEARTBEAT, &request, "50S"));
    world.stage.now_ns += UINT64_C(200000000000); /* the machine was suspended */
    mst_xla_front.tick(world.stage.fronts[0], world.stage.now_ns);
    stage_drain(&world.stage, 0);
    stage_pass(&world.stage, 49000);
    assert_false(poll->done);
    stage_pass(&world.stage, 2000);
    expect(poll, 14, "The following tasks are unhealthy (stopped sending heartbeats");
    assert_true(world.stage.sessions[1].failed && world.stage.sessions[1].left);
    assert_int_equal(world.stage.sessions[1].cause, MST_CAUSE_UNHEALTHY);
    end(&world);
}

/* A process is frozen before its first heartbeat. It is lost after twice the time of another one of
 * the job, on its own node or elsewhere. */
static void silence_from_the_start(void **state)
{
    (void)state;
    for (uint32_t nodes = 1; nodes <= 2; nodes++) {
        struct mst_xla_request request;
        struct stage_call *poll;
        struct world world;

        memset(&world, 0, sizeof world);
        stage_init(&world.stage, nodes, 2);
        for (uint32_t i = 0; i < 2; i++) {
            world.clients[i] = stage_connect(&world.stage, i % nodes);
            register_task(&world, i, MST_XLA_X);
        }
        for (uint32_t i = 0; i < 2; i++) {
            check_registered(&world, i, MST_XLA_X);
        }
        poll = call(&world, 0, MST_XLA_X, MST_XLA_POLL, by(&world, 0));
        request = by(&world, 0);
        for (uint32_t beat = 0; beat < 2; beat++) {
            stage_pass(&world.stage, beat == 0 ? 50000 : 49000);
            assert_false(poll->done);
            expect_ok(stage_call(world.clients[0], MST_XLA_X, MST_XLA_HEARTBEAT, &request, "50S"));
        }
        stage_pass(&world.stage, 2000);
        expect(poll, 14, "The following tasks are unhealthy");
        assert_true(world.stage.sessions[1].failed && world.stage.sessions[1].left);
        end(&world);
    }
}

/* A process ends without a word, and its agent does not watch it. Its connection closes, and two
 * seconds later it is lost; with the agent's word it is lost at once. */
static void a_closed_connection(void **state)
{
    struct stage_call *poll;
    struct world world;

    (void)state;
    begin(&world, 2, MST_XLA_X);
    poll = call(&world, 0, MST_XLA_X, MST_XLA_POLL, by(&world, 0));
    stage_close(world.clients[1]);
    stage_pass(&world.stage, 1900);
    assert_false(poll->done);
    stage_pass(&world.stage, 200);
    expect(poll, 14, "task 1 is lost: it closed its connection without ShutdownTask");
    assert_true(world.stage.sessions[1].failed && world.stage.sessions[1].left);
    assert_int_equal(world.stage.sessions[1].cause,
                     MST_CAUSE_NONE); /* others' failure may be why */
    end(&world);

    begin(&world, 2, MST_XLA_X);
    poll = call(&world, 0, MST_XLA_X, MST_XLA_POLL, by(&world, 0));
    stage_close(world.clients[1]);
    stage_dead(&world.stage, 0, 1, "ended with status 3");
    expect(poll, 14, "task 1 is lost: ended with status 3");
    stage_pass(&world.stage, 3000);
    assert_false(world.stage.sessions[1].failed);
    end(&world);
}

/* A notice of preemption comes, or came before the job began. JAX reads it as the key it waits for.
 */
static void a_notice(void **state)
{
    struct stage_call *held;
    struct world world;

    (void)state;
    for (unsigned early = 0; early < 2; early++) {
        memset(&world, 0, sizeof world);
        stage_init(&world.stage, 1, 1);
        if (early) {
            mst_xla_front.notice(world.stage.fronts[0], world.stage.now_ns,
                                 mst_slice_text("slurm"));
            stage_drain(&world.stage, 0);
        }
        world.clients[0] = stage_connect(&world.stage, 0);
        register_task(&world, 0, MST_XLA_X);
        check_registered(&world, 0, MST_XLA_X);
        held = call(&world, 0, MST_XLA_X, MST_XLA_GET,
                    of_key(&world, 0, "RECEIVED_PREEMPTION_NOTICE"));
        if (!early) {
            assert_false(held->done);
            mst_xla_front.notice(world.stage.fronts[0], world.stage.now_ns,
                                 mst_slice_text("slurm"));
            stage_drain(&world.stage, 0);
            stage_flow(&world.stage);
        }
        expect_kv(held, MST_XLA_X, "RECEIVED_PREEMPTION_NOTICE", "infinite-past");
        end(&world);
    }
}

/* A session ends for good. Its task's calls end, and those of the others go on. */
static void a_session_that_ends(void **state)
{
    struct stage_call *held, *bar, *poll, *other;
    struct world world;

    (void)state;
    begin(&world, 2, MST_XLA_X);
    held = call(&world, 1, MST_XLA_X, MST_XLA_GET, of_key(&world, 1, "k"));
    bar = barrier(&world, 1, MST_XLA_X, "b", 0, 10000);
    poll = call(&world, 1, MST_XLA_X, MST_XLA_POLL, by(&world, 1));
    other = call(&world, 0, MST_XLA_X, MST_XLA_GET, of_key(&world, 0, "k"));
    mst_xla_front.ended(world.stage.fronts[0], world.stage.now_ns, 2, MUSTER_EFENCED,
                        mst_slice_text("given up"));
    stage_drain(&world.stage, 0);
    stage_flow(&world.stage);
    expect(held, 13, "Barrier failed because: task 1 has lost its place in the job: given up");
    expect(bar, 13, "Barrier failed because: task 1 has lost its place in the job: given up");
    expect(poll, 14, "task 1 has lost its place in the job: given up");
    assert_false(other->done);
    end(&world);
}

/* Memory ends at any point of a job. No call is lost without its connection, and all is given
 * back. */
static void without_memory(void **state)
{
    const struct mst_front_config config = {.size = 1, .limits = mst_limits_default};

    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        struct failing_mem failing;
        struct world world;
        void *front;

        memset(&world, 0, sizeof world);
        stage_init(&world.stage, 0, 1);
        failing_mem_init(&failing, fail_at);
        if (mst_xla_front.new(&front, &config, &failing.mem) == MUSTER_OK) {
            world.stage.fronts[0] = front;
            world.stage.front_count = 1;
            world.stage.may_lack = true;
            world.clients[0] = stage_connect(&world.stage, 0);
            register_task(&world, 0, MST_XLA_X);
            if (world.registered[0]->done && world.registered[0]->status == 0) {
                check_registered(&world, 0, MST_XLA_X);
                (void)insert(&world, 0, MST_XLA_X, "a/k", "v", false);
                (void)call(&world, 0, MST_XLA_X, MST_XLA_GET, of_key(&world, 0, "a/k"));
                (void)call(&world, 0, MST_XLA_X, MST_XLA_GET, of_key(&world, 0, "none"));
                (void)call(&world, 0, MST_XLA_X, MST_XLA_LIST, of_key(&world, 0, "a"));
                (void)increment(&world, MST_XLA_X, "n", 1);
                (void)barrier(&world, 0, MST_XLA_X, "b", 0, 100);
                (void)barrier(&world, 0, MST_XLA_X, "c", 0, 100);
                (void)call(&world, 0, MST_XLA_X, MST_XLA_DELETE, of_key(&world, 0, "a"));
                (void)call(&world, 0, MST_XLA_X, MST_XLA_WATCH, by(&world, 0));
                (void)call(&world, 0, MST_XLA_X, MST_XLA_POLL, by(&world, 0));
                (void)call(&world, 0, MST_XLA_X, MST_XLA_SHUTDOWN, by(&world, 0));
            }
        }
        end(&world);
        assert_int_equal(failing.live, 0);
        if (!failing.failed) {
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_job),
        cmocka_unit_test(keys),
        cmocka_unit_test(counting),
        cmocka_unit_test(folders),
        cmocka_unit_test(abandoned_gets),
        cmocka_unit_test(a_barrier),
        cmocka_unit_test(a_barrier_that_times_out),
        cmocka_unit_test(wrong_barriers),
        cmocka_unit_test(a_repeated_barrier),
        cmocka_unit_test(many_names),
        cmocka_unit_test(a_killed_process),
        cmocka_unit_test(a_loss_on_another_node),
        cmocka_unit_test(a_reported_failure),
        cmocka_unit_test(recovery),
        cmocka_unit_test(another_service),
        cmocka_unit_test(registered_again),
        cmocka_unit_test(silence),
        cmocka_unit_test(silence_from_the_start),
        cmocka_unit_test(a_closed_connection),
        cmocka_unit_test(a_notice),
        cmocka_unit_test(a_session_that_ends),
        cmocka_unit_test(without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
