/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct stage stage;

#define DEFAULTS                                                                                   \
    {                                                                                              \
        .name = {"jobs", 4}, .term = 7, .queue_limit = 1000, .queue_bytes = 1 << 20,               \
        .prefetch = 1, .poison = 3, .transient_limit = 3, .transient_window_ns = 60 * STAGE_S,     \
        .recovery_max_ns = 3600 * STAGE_S, .silent_ns = 2 * STAGE_S,                               \
        .cancel_grace_ns = 5 * STAGE_S, .series_grace_ns = 30 * STAGE_S,                           \
        .unknown_grace_ns = 30 * STAGE_S, .backoff_ns = STAGE_S, .backoff_max_ns = 60 * STAGE_S,   \
        .seed = 1                                                                                  \
    }

static const struct mst_cluster_config defaults = DEFAULTS;
struct mst_cluster_config stage_config = DEFAULTS;

static const struct mst_function functions[] = {{.name = {"f", 1}, .version = 1},
                                                {.name = {"g", 1}, .version = 1},
                                                {.name = {"v", 1}, .version = 2}};

bool stage_begin(void)
{
    struct mst_cluster_config config = stage_config;
    size_t fail_at = stage.failing.fail_at;

    stage_config = defaults;
    memset(&stage, 0, sizeof(stage));
    failing_mem_init(&stage.failing, fail_at);
    stage.now_ns = 1000 * STAGE_S;
    return mst_cluster_new(&stage.cluster, stage.now_ns, &config, &stage.failing.mem) == MUSTER_OK;
}

void stage_end(void)
{
    mst_cluster_free(stage.cluster);
    stage.cluster = NULL;
    stage.failing.fail_at = 0;
    assert_int_equal(stage.failing.live, 0);
}

/* ---- effects ---- */

static struct stage_worker *worker_of(uint64_t connection)
{
    for (uint32_t i = 0; i < STAGE_WORKERS; i++) {
        if (stage.workers[i].connection == connection) {
            return &stage.workers[i];
        }
    }
    return NULL;
}

static void take_run(struct stage_worker *worker, const struct mst_cluster_message *message)
{
    struct stage_run *run = &worker->runs[worker->run_count];

    assert_true(worker->run_count < STAGE_RUNS);
    worker->run_count++;
    worker->ran++;
    *run = (struct stage_run){.attempt = message->attempt,
                              .series = message->series,
                              .function = message->function,
                              .need_count = message->need_count,
                              .run_limit_ms = message->run_limit_ms,
                              .left_ms = message->left_ms};
    for (uint32_t i = 0; i < message->need_count && i < 4; i++) {
        run->needs[i] = message->needs[i];
    }
    for (uint32_t i = 0; i < message->parts.count; i++) {
        struct mst_slice data = message->parts.items[i].data;

        if (run->bytes + data.size < sizeof(run->data)) {
            memcpy(run->data + run->bytes, data.data, data.size);
        }
        run->bytes += data.size;
    }
}

static void mark(struct stage_worker *worker, const struct mst_cluster_message *message)
{
    worker->cancels += message->type == MST_CLUSTER_CANCEL;
    for (uint32_t i = 0; i < worker->run_count; i++) {
        struct stage_run *run = &worker->runs[i];

        if (run->attempt.closure == message->attempt.closure &&
            run->attempt.attempt == message->attempt.attempt) {
            run->cancelled = run->cancelled || message->type == MST_CLUSTER_CANCEL;
            run->grace_ms = message->left_ms;
            run->recalled = run->recalled || message->type == MST_CLUSTER_TAKE_BACK;
        }
    }
}

static void hear(struct stage_worker *worker, const struct mst_cluster_message *message)
{
    assert_true(worker->welcome || message->type == MST_CLUSTER_WELCOME ||
                message->type == MST_CLUSTER_REFUSED);
    switch (message->type) {
    case MST_CLUSTER_WELCOME:
        assert_int_equal(message->term, 7);
        worker->welcome = true;
        worker->number = message->worker;
        worker->results = message->results;
        worker->grace_ms = message->left_ms;
        return;
    case MST_CLUSTER_REFUSED:
        worker->refused = true;
        worker->refusal = message->status;
        return;
    case MST_CLUSTER_RUN:
        take_run(worker, message);
        return;
    case MST_CLUSTER_CANCEL:
    case MST_CLUSTER_TAKE_BACK:
        mark(worker, message);
        return;
    case MST_CLUSTER_BUILD:
        assert_true(worker->build_count < 64);
        worker->builds[worker->build_count++] = message->value;
        return;
    case MST_CLUSTER_DROP:
        assert_true(worker->drop_count < 64);
        worker->drops[worker->drop_count++] = message->value;
        return;
    case MST_CLUSTER_DRAIN:
        worker->draining = true;
        return;
    case MST_CLUSTER_HELLO:
    case MST_CLUSTER_RESULT:
    case MST_CLUSTER_BUILT:
    case MST_CLUSTER_PROGRESS:
    case MST_CLUSTER_LOG:
    case MST_CLUSTER_DRAINING:
        break;
    }
    fail_msg("a coordinator does not send message %d", message->type);
}

static void carry_out(const struct mst_cluster_effect *effect)
{
    struct stage_worker *worker = worker_of(effect->connection);

    switch (effect->type) {
    case MST_CLUSTER_SEND:
        if (effect->message->type == MST_CLUSTER_REFUSED && !worker) {
            return; /* who is that? */
        }
        assert_non_null(worker);
        assert_true(worker->connected);
        hear(worker, effect->message);
        return;
    case MST_CLUSTER_CLOSE:
        if (worker) {
            worker->connected = false;
            worker->connection = 0;
        }
        return;
    case MST_CLUSTER_CHANGED:
        stage.changed++;
        return;
    case MST_CLUSTER_RECORD:
        stage.records++;
        return;
    case MST_CLUSTER_SAY:
        assert_in_range(effect->line, 1, MST_CLUSTER_LINE_UNBUILT);
        stage.lines[effect->line]++;
        stage.last_count = effect->count;
        if (effect->text.size > 0 && effect->text.size < sizeof(stage.last_text)) {
            memcpy(stage.last_text, effect->text.data, effect->text.size);
            stage.last_text[effect->text.size] = '\0';
        }
        return;
    }
    fail_msg("no such effect: %d", effect->type);
}

void stage_settle(void)
{
    const struct mst_cluster_effect *effect;

    mst_cluster_check(stage.cluster);
    while ((effect = mst_cluster_next(stage.cluster))) {
        carry_out(effect);
        mst_cluster_done(stage.cluster, effect);
        mst_cluster_check(stage.cluster);
    }
}

void stage_pass(uint64_t ns)
{
    uint64_t until_ns = stage.now_ns + ns;
    uint64_t due_ns;

    while ((due_ns = mst_cluster_deadline_ns(stage.cluster)) <= until_ns) {
        stage.now_ns = due_ns > stage.now_ns ? due_ns : stage.now_ns;
        mst_cluster_tick(stage.cluster, stage.now_ns);
        stage_settle();
    }
    stage.now_ns = until_ns;
}

/* ---- workers ---- */

void stage_member(uint32_t i, enum mst_worker_state state)
{
    (void)mst_cluster_member(stage.cluster, stage.now_ns, i, stage.workers[i].incarnation, state,
                             (struct mst_worker_end){0}, mst_slice_text("node"));
    stage_settle();
}

void stage_hello(uint32_t i, const struct mst_attempt *held, uint32_t count, const uint64_t *values,
                 uint32_t value_count)
{
    struct stage_worker *worker = &stage.workers[i];
    struct mst_function own[3];
    struct mst_cluster_message hello = {.type = MST_CLUSTER_HELLO,
                                        .version = MST_CLUSTER_VERSION,
                                        .cluster = mst_slice_text("jobs"),
                                        .index = i,
                                        .incarnation = worker->incarnation,
                                        .pid = 100 + i,
                                        .host = mst_slice_text("node"),
                                        .slots = worker->slots,
                                        .functions = own,
                                        .function_count = 3,
                                        .held = held,
                                        .held_count = count,
                                        .values = values,
                                        .value_count = value_count,
                                        .turn = worker->turn,
                                        .results = worker->results,
                                        .term = 7};

    for (size_t k = 0; k < 3; k++) {
        own[k] = functions[k];
        own[k].flags = worker->flags;
    }
    worker->connection = ++stage.connections;
    worker->connected = true;
    worker->welcome = false;
    worker->turn += worker->turn != 0;
    mst_cluster_message(stage.cluster, stage.now_ns, worker->connection, &hello);
    stage_settle();
}

void stage_join(uint32_t i, uint32_t slots)
{
    stage.workers[i].incarnation = 1;
    stage.workers[i].slots = slots;
    stage_member(i, MST_WORKER_PRESENT);
    stage_hello(i, NULL, 0, NULL, 0);
}

void stage_gone(uint32_t i)
{
    uint64_t connection = stage.workers[i].connection;

    stage.workers[i].connected = false;
    stage.workers[i].connection = 0;
    mst_cluster_gone(stage.cluster, stage.now_ns, connection);
    stage_settle();
}

void stage_lose_as(uint32_t i, enum mst_worker_state state, struct mst_worker_end end)
{
    stage.workers[i].run_count = 0;
    (void)mst_cluster_member(stage.cluster, stage.now_ns, i, stage.workers[i].incarnation, state,
                             end, mst_slice_text("node"));
    stage_settle();
}

void stage_lose(uint32_t i, struct mst_worker_end end)
{
    stage_lose_as(i, MST_WORKER_LOST, end);
}

void stage_die(uint32_t i)
{
    stage_lose(i, (struct mst_worker_end){.cause = MST_CAUSE_SIGNAL, .code = 9});
}

void stage_revive(uint32_t i)
{
    stage.workers[i].run_count = 0;
    stage.workers[i].incarnation++;
    stage_member(i, MST_WORKER_PRESENT);
    stage_hello(i, NULL, 0, NULL, 0);
}

void stage_say(uint32_t i, const struct mst_cluster_message *message)
{
    if (stage.workers[i].connected) { /* else nobody hears it */
        mst_cluster_message(stage.cluster, stage.now_ns, stage.workers[i].connection, message);
        stage_settle();
    }
}

static void answer(uint32_t i, uint32_t at, const struct mst_failure *failure,
                   struct mst_parts parts)
{
    struct stage_worker *worker = &stage.workers[i];
    struct stage_run run = worker->runs[at];
    struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT,
                                         .attempt = run.attempt,
                                         .series = run.series,
                                         .parts = parts,
                                         .run_ns = STAGE_MS * 20};

    assert_true(at < worker->run_count);
    if (failure) {
        result.failure = *failure;
    }
    worker->run_count--;
    memmove(&worker->runs[at], &worker->runs[at + 1],
            (worker->run_count - at) * sizeof(struct stage_run));
    stage_say(i, &result);
}

void stage_value(uint32_t i, uint32_t at, const char *text)
{
    struct mst_part part = {.data = mst_slice_text(text), .type = 5};

    answer(i, at, NULL, (struct mst_parts){.items = &part, .count = text[0] != '\0'});
}

void stage_fail_with(uint32_t i, uint32_t at, const struct mst_failure *failure)
{
    answer(i, at, failure, (struct mst_parts){0});
}

void stage_fail(uint32_t i, uint32_t at, enum mst_origin origin, int32_t code)
{
    struct mst_failure failure = {.origin = origin, .code = code, .text = mst_slice_text("no")};

    stage_fail_with(i, at, &failure);
}

void stage_built(uint32_t i, uint64_t value, enum mst_origin origin)
{
    struct mst_part part = {.data = mst_slice_text("built")};
    struct mst_cluster_message built = {.type = MST_CLUSTER_BUILT, .value = value};

    built.parts = (struct mst_parts){.items = &part, .count = 1};
    if (origin != MST_ORIGIN_NONE) {
        part.data = mst_slice_text("error");
        built.failure = (struct mst_failure){.origin = origin, .text = mst_slice_text("not built")};
    }
    stage_say(i, &built);
}

void stage_all(uint32_t rounds)
{
    while (rounds-- > 0) {
        for (uint32_t i = 0; i < STAGE_WORKERS; i++) {
            struct stage_worker *worker = &stage.workers[i];

            for (uint32_t n = worker->run_count; n > 0 && worker->run_count > 0; n--) {
                stage_value(i, 0, "ok");
            }
        }
    }
}

/* ---- the user ---- */

muster_status stage_try(const char *function, const struct mst_closure_options *options,
                        uint64_t *number)
{
    struct mst_part parts[] = {{.data = {"ab", 2}, .type = 1}, {.data = {"c", 1}, .type = 2}};
    struct mst_closure_call call = {.function = mst_slice_text(function),
                                    .parts = {.items = parts, .count = 2},
                                    .options = options};
    muster_status status = mst_cluster_schedule(stage.cluster, stage.now_ns, &call, number);

    stage_settle();
    return status;
}

uint64_t stage_schedule_with(const char *function, const struct mst_closure_options *options)
{
    uint64_t number = 0;

    assert_int_equal(stage_try(function, options, &number), MUSTER_OK);
    return number;
}

uint64_t stage_schedule(const char *function)
{
    return stage_schedule_with(function, NULL);
}

enum mst_closure_state stage_state(uint64_t number)
{
    struct mst_closure_look look;

    mst_cluster_look(stage.cluster, number, &look);
    return look.state;
}

enum mst_origin stage_origin(uint64_t number)
{
    struct mst_closure_look look;

    mst_cluster_look(stage.cluster, number, &look);
    return look.state == MST_CLOSURE_FAILED ? look.failure.origin : MST_ORIGIN_NONE;
}

void stage_told(uint64_t number, const char *words)
{
    struct mst_closure_look look;
    char line[MST_FAILURE_TEXT_MAX + 1] = "";

    mst_cluster_look(stage.cluster, number, &look);
    assert_int_equal(look.state, MST_CLOSURE_FAILED);
    if (look.failure.text.size > 0) {
        memcpy(line, look.failure.text.data, look.failure.text.size);
    }
    if (!strstr(line, words)) {
        assert_string_equal(line, words);
    }
}

struct mst_cluster_counts stage_counts(void)
{
    struct mst_cluster_counts counts;

    mst_cluster_counts(stage.cluster, stage.now_ns, &counts);
    return counts;
}

muster_status stage_joined(void)
{
    return mst_cluster_joined(stage.cluster, stage_counts().admitted);
}

muster_status stage_deliver(struct mst_cluster_failures *out)
{
    muster_status status = mst_cluster_deliver(stage.cluster, stage.now_ns, out);

    stage_settle();
    return status;
}
