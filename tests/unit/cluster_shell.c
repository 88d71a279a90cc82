/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_shell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct shell shell;

static const struct mst_function functions[] = {
    {.name = {"f", 1}, .version = 1, .flags = MST_FUNCTION_THREADS},
    {.name = {"alone", 5}, .version = 1},
    {.name = {"child", 5}, .version = 2, .flags = MST_FUNCTION_CHILD},
};

const struct mst_worker_config shell_config = {
    .cluster = {"default", 7},
    .index = 3,
    .incarnation = 77,
    .pid = 4711,
    .host = {"b3", 2},
    .slots = SLOTS,
    .functions = functions,
    .function_count = 3,
    .cancel_grace_ns = GRACE_MS * MS,
    .backoff_ns = 100 * MS,
    .backoff_max_ns = 1000 * MS,
    .results_max = 1 << 20,
    .seed = 1,
};

/* ---- the shell ---- */

static void note_sent(const struct mst_cluster_message *message)
{
    struct sent *sent = &shell.sent[shell.count % SENT];
    const struct mst_failure *cause = message->failure.cause;

    *sent = (struct sent){
        .type = message->type,
        .attempt = message->attempt,
        .series = message->series,
        .value = message->value,
        .origin = message->failure.origin,
        .code = message->failure.code,
        .cause = cause ? cause->origin : MST_ORIGIN_NONE,
        .cause_of_cause = cause && cause->cause ? cause->cause->origin : MST_ORIGIN_NONE,
        .parts = message->parts.count,
        .size = message->parts.count > 0 ? message->parts.items[0].data.size : 0,
        .held = message->held_count,
        .results = message->results,
        .values = message->value_count,
        .overdue = message->overdue,
    };
    if (message->held_count > 0) {
        sent->held_first = message->held[0].closure;
        sent->held_last = message->held[message->held_count - 1].closure;
    }
    shell.count++;
}

static void take(const struct mst_worker_effect *effect)
{
    uint32_t slot = effect->slot;

    switch (effect->type) {
    case MST_WORKER_CONNECT:
        shell.connecting = true;
        shell.connects++;
        break;
    case MST_WORKER_HANG_UP:
        shell.connecting = shell.connected = false;
        shell.hang_ups++;
        break;
    case MST_WORKER_SEND:
        assert_true(shell.connected);
        note_sent(effect->message);
        break;
    case MST_WORKER_START:
        assert_true(shell.run[slot] == 0 && shell.built[slot] == 0);
        shell.run[slot] = effect->message->attempt.closure;
        shell.deadline_ns[slot] = effect->deadline_ns;
        shell.asked[slot] = shell.killed[slot] = false;
        shell.starts++;
        break;
    case MST_WORKER_BUILD:
        assert_true(shell.run[slot] == 0 && shell.built[slot] == 0);
        shell.built[slot] = effect->message->value;
        shell.asked[slot] = shell.killed[slot] = false;
        shell.builds++;
        break;
    case MST_WORKER_STOP:
        assert_true(shell.run[slot] != 0 || shell.built[slot] != 0);
        shell.asked[slot] = true;
        shell.killed[slot] = effect->kill;
        break;
    case MST_WORKER_DROP:
        shell.dropped = effect->message->value;
        shell.drops++;
        break;
    case MST_WORKER_END:
        shell.ends++;
        shell.end = effect->status;
        break;
    case MST_WORKER_SAY:
        memcpy(shell.line, effect->text.data, effect->text.size);
        shell.line[effect->text.size] = '\0';
        shell.lines++;
        break;
    }
}

void shell_drain(void)
{
    const struct mst_worker_effect *effect;

    while ((effect = mst_worker_next(shell.machine))) {
        take(effect);
        mst_worker_done(shell.machine, effect);
        mst_worker_check(shell.machine);
    }
    mst_worker_check(shell.machine);
}

bool shell_open(const struct mst_worker_config *with, size_t fail_at)
{
    shell = (struct shell){.now_ns = 1000 * MS};
    failing_mem_init(&shell.failing, fail_at);
    return mst_worker_new(&shell.machine, shell.now_ns, with, &shell.failing.mem) == MUSTER_OK;
}

void shell_close(void)
{
    mst_worker_free(shell.machine);
    assert_int_equal(shell.failing.live, 0);
}

void shell_pass(uint64_t ms)
{
    uint64_t end_ns = shell.now_ns + ms * MS;
    uint64_t next_ns;

    while ((next_ns = mst_worker_deadline_ns(shell.machine)) <= end_ns) {
        shell.now_ns = next_ns > shell.now_ns ? next_ns : shell.now_ns;
        mst_worker_tick(shell.machine, shell.now_ns);
        shell_drain();
        assert_true(mst_worker_deadline_ns(shell.machine) > shell.now_ns);
    }
    shell.now_ns = end_ns;
    mst_worker_tick(shell.machine, shell.now_ns);
    shell_drain();
}

void shell_say(const struct mst_cluster_message *message)
{
    mst_worker_message(shell.machine, shell.now_ns, message);
    shell_drain();
}

void shell_coordinator(uint64_t term)
{
    mst_worker_coordinator(shell.machine, shell.now_ns, term, mst_slice_of("unix:/x", 7));
    shell_drain();
}

void shell_link_up(uint64_t term)
{
    struct mst_cluster_message welcome = {.type = MST_CLUSTER_WELCOME,
                                          .term = term,
                                          .worker = 9,
                                          .results = shell.heard,
                                          .left_ms = shell.grace_ms};

    assert_true(shell.connecting);
    shell.connecting = false;
    shell.connected = true;
    mst_worker_connected(shell.machine, shell.now_ns);
    shell_drain();
    if (shell.connected) {
        shell_say(&welcome);
    }
}

void shell_link_down(void)
{
    shell.connecting = shell.connected = false;
    mst_worker_gone(shell.machine, shell.now_ns);
    shell_drain();
}

/* Connected to the coordinator of TERM. */
void shell_begin(const struct mst_worker_config *with)
{
    assert_true(shell_open(with, 0));
    shell_coordinator(TERM);
    shell_link_up(TERM);
    assert_int_equal(shell.sent[0].type, MST_CLUSTER_HELLO);
    shell.count = 0;
}

struct mst_cluster_message shell_run_of(uint64_t closure)
{
    return (struct mst_cluster_message){.type = MST_CLUSTER_RUN,
                                        .attempt = {.closure = closure, .attempt = 1},
                                        .series = 2,
                                        .function = F};
}

void shell_run(uint64_t closure)
{
    struct mst_cluster_message message = shell_run_of(closure);

    shell_say(&message);
}

void shell_run_with(uint64_t closure, uint32_t function, const uint64_t *need)
{
    struct mst_cluster_message message = shell_run_of(closure);

    message.function = function;
    message.needs = need;
    message.need_count = need ? 1 : 0;
    shell_say(&message);
}

void shell_tell(enum mst_cluster_message_type type, uint64_t closure, uint64_t ms)
{
    struct mst_cluster_message message = {
        .type = type, .attempt = {.closure = closure, .attempt = 1}, .left_ms = ms};

    shell_say(&message);
}

void shell_value(enum mst_cluster_message_type type, uint64_t number, uint32_t function)
{
    struct mst_cluster_message message = {.type = type, .value = number, .function = function};

    shell_say(&message);
}

void shell_finish_with(uint32_t slot, const struct mst_failure *failure, const char *text)
{
    struct mst_part part = {.data = mst_slice_text(text)};
    struct mst_parts parts = {.items = &part, .count = failure ? 0 : 1};

    assert_true(shell.run[slot] != 0);
    shell.run[slot] = 0;
    mst_worker_finished(shell.machine, shell.now_ns, slot, failure, parts, 1000);
    shell_drain();
}

void shell_finish(uint32_t slot)
{
    shell_finish_with(slot, NULL, "fine");
}

void shell_fail(uint32_t slot)
{
    struct mst_failure failure = {
        .origin = MST_ORIGIN_FUNCTION, .code = 3, .text = mst_slice_text("no such file")};

    shell_finish_with(slot, &failure, "");
}

void shell_built(uint32_t slot, const struct mst_failure *failure)
{
    struct mst_part part = {.data = mst_slice_text("shard"), .type = 1};
    struct mst_parts parts = {.items = &part, .count = 1}; /* of a failure: its error */
    uint64_t number = shell.built[slot];

    assert_true(number != 0);
    shell.built[slot] = 0;
    mst_worker_built(shell.machine, shell.now_ns, number, failure, parts);
    shell_drain();
}

/* The `place`-th thing that was sent since the last look. */
const struct sent *shell_sent(unsigned place)
{
    assert_true(place < shell.count);
    return &shell.sent[place];
}

void shell_result(const struct sent *sent, uint64_t closure, enum mst_origin origin)
{
    assert_int_equal(sent->type, MST_CLUSTER_RESULT);
    assert_int_equal(sent->attempt.closure, closure);
    assert_int_equal(sent->attempt.attempt, 1);
    assert_int_equal(sent->series, 2);
    assert_int_equal(sent->origin, origin);
}
