/* SPDX-License-Identifier: Apache-2.0 */
/* The restart machine alone: stories of one rank, told by its effects.
 *
 * behaviour: restart / Fewer, and the end */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "failing_mem.h"
#include "proto/command.h"
#include "proto/status.h"
#include "restart/restart.h"

#define MS UINT64_C(1000000)

enum { STORY_ROOM = 1024 };

static struct failing_mem memory;

static struct mst_restart *restart_new(void)
{
    const struct mst_restart_config config = {
        .barrier_timeout_ms = 1000, .replace_ms = 700, .stalled_max = -1};
    struct mst_restart *restart;

    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    return restart;
}

static struct mst_view view_of(uint64_t generation, enum mst_attention attention)
{
    return (struct mst_view){.generation = generation,
                             .size = 4,
                             .rank = 1,
                             .index = 1,
                             .incarnation = 1,
                             .attention = attention};
}

static void request_tell(struct mst_text *text, const struct mst_request *request)
{
    mst_text_add(text, mst_command_name(request->command));
    if (request->command == MST_ROUND) {
        mst_text_format(text, " %.*s g%" PRIu64 " #%" PRIu64, MST_SLICE_ARGS(request->round.name),
                        request->round.generation, request->round.number);
    } else if (request->command == MST_FAULT) {
        mst_text_format(text, " g%" PRIu64 " %d '%.*s'", request->fault.generation,
                        request->fault.code, MST_SLICE_ARGS(request->fault.text));
    }
}

static void own_tell(struct mst_text *text, const struct mst_restart_effect *effect)
{
    switch (effect->type) {
    case MST_RESTART_ENTER:
        mst_text_format(text, "enter g%" PRIu64 " i%" PRIu64, effect->view.generation,
                        effect->iteration);
        break;
    case MST_RESTART_TELL:
        mst_text_add(text, "tell");
        break;
    case MST_RESTART_INTERRUPT:
        mst_text_add(text, "interrupt");
        break;
    case MST_RESTART_FINISH:
        mst_text_format(text, "finish %s", mst_status_name(effect->status));
        break;
    case MST_RESTART_UNWIND:
        mst_text_add(text, "unwind");
        break;
    case MST_RESTART_ASSIGN:
        mst_text_add(text, "assign");
        break;
    }
}

static void effect_tell(struct mst_text *text, const struct mst_restart_effect *effect)
{
    switch (effect->head.kind) {
    case MST_MACHINE_CALL:
        mst_text_format(text, "%" PRIu64 ":", effect->head.tag);
        request_tell(text, effect->head.request);
        break;
    case MST_MACHINE_CANCEL:
        mst_text_format(text, "cancel %" PRIu64, effect->head.tag);
        break;
    case MST_MACHINE_OWN:
        own_tell(text, effect);
        break;
    }
    mst_text_add(text, "; ");
}

/* What the machine wants now, as one line. */
static const char *story(struct mst_restart *restart)
{
    static char line[STORY_ROOM];
    struct mst_text text = mst_text_in(line, sizeof(line));
    const struct mst_restart_effect *effect;

    mst_restart_check(restart);
    while ((effect = mst_restart_machine.next(restart)) != NULL) {
        enum mst_restart_effect_type type = effect->type;

        effect_tell(&text, effect);
        if (type == MST_RESTART_UNWIND) { /* at once */
            mst_restart_unwound(restart, 0, MUSTER_OK, MST_WHY_REPLY, 0, mst_slice_of(NULL, 0));
        }
        mst_restart_check(restart);
    }
    return line;
}

static void attention(struct mst_restart *restart, uint64_t generation, enum mst_attention level)
{
    struct mst_view view = view_of(generation, level);

    mst_restart_machine.attention(restart, 0, &view, false);
}

static void reply(struct mst_restart *restart, uint64_t tag, muster_status status)
{
    mst_restart_machine.reply(restart, 0, tag, &(struct mst_reply){.status = status});
}

static void reply_view(struct mst_restart *restart, uint64_t tag, uint64_t generation)
{
    mst_restart_machine.reply(restart, 0, tag,
                              &(struct mst_reply){.status = MUSTER_OK,
                                                  .has_view = true,
                                                  .view = view_of(generation, MST_CALM)});
}

/* A machine whose function runs in generation 1. */
static struct mst_restart *running(void)
{
    struct mst_restart *restart = restart_new();
    struct mst_view view = view_of(1, MST_CALM);

    mst_restart_start(restart, 0, &view);
    assert_string_equal(story(restart), "enter g1 i0; ");
    assert_true(mst_restart_machine.deadline_ns(restart) == UINT64_MAX);
    return restart;
}

static void returned(struct mst_restart *restart, muster_status status, bool delivered)
{
    mst_restart_returned(restart, 0, status, delivered);
}

/* Options make no sense, there is no function, or the client is an observer. The run fails with
 * EINVAL with a word that says which, and the function is not entered. [What is refused] */
static void test_birth(void **state)
{
    const struct mst_restart_config none = {0};
    const struct mst_restart_config config = {.barrier_timeout_ms = 1};
    struct mst_restart *restart;

    (void)state;
    assert_int_equal(mst_restart_new(&restart, &none, &memory.mem), MUSTER_EINVAL);
    failing_mem_init(&memory, 1);
    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_ENOMEM);
    assert_null(restart);
    /* One allocation, at birth: no input can fail. */
    failing_mem_init(&memory, 2);
    restart = running();
    returned(restart, MUSTER_EFAILED, false);
    story(restart);
    reply_view(restart, 2, 2);
    assert_string_equal(story(restart), "enter g2 i1; ");
    assert_int_equal(memory.count, 1);
    mst_restart_free(restart);
    mst_restart_free(NULL);
    assert_int_equal(memory.live, 0);
}

/* The function returns OK on all ranks. The run is over. [The good case] */
static void test_done(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "1:round muster/complete g1 #0; ");
    reply(restart, 1, MUSTER_OK);
    assert_string_equal(story(restart), "finish MUSTER_OK; ");

    /* The next run in the same generation goes on counting. */
    assert_int_equal(mst_restart_configure(restart, &(struct mst_restart_config){0}),
                     MUSTER_EINVAL);
    assert_int_equal(
        mst_restart_configure(restart, &(struct mst_restart_config){.barrier_timeout_ms = 5}),
        MUSTER_OK);
    struct mst_view view = view_of(1, MST_CALM);
    mst_restart_start(restart, 0, &view);
    assert_string_equal(story(restart), "enter g1 i0; ");
    returned(restart, MUSTER_EPREEMPTED, false);
    assert_string_equal(story(restart), "2:round muster/complete g1 #1; ");
    reply(restart, 2, MUSTER_OK);
    assert_string_equal(story(restart), "finish MUSTER_EPREEMPTED; ");
    mst_restart_free(restart);
}

static void test_round_parameters(void **state)
{
    struct mst_restart *restart = running();
    const struct mst_restart_effect *effect;

    (void)state;
    returned(restart, MUSTER_OK, false);
    effect = mst_restart_machine.next(restart);
    assert_int_equal(effect->head.request->round.on_loss, MST_FAIL);
    assert_int_equal(effect->head.request->round.deadline_ms, 0);
    assert_false(effect->head.request->round.seal);
    assert_null(effect->head.request->round.participants);
    assert_int_equal(effect->head.request->round.replace_ms, 0);
    reply(restart, effect->head.tag, MUSTER_ELOST);
    effect = mst_restart_machine.next(restart);
    assert_int_equal(effect->type, MST_RESTART_UNWIND);
    mst_restart_unwound(restart, 0, MUSTER_OK, MST_WHY_REPLY, 0, mst_slice_of(NULL, 0));
    effect = mst_restart_machine.next(restart);
    assert_int_equal(effect->head.request->round.on_loss, MST_PROCEED);
    assert_int_equal(effect->head.request->round.deadline_ms, 1000);
    assert_int_equal(effect->head.request->round.replace_ms, 700);
    assert_true(effect->head.request->round.seal);
    mst_restart_free(restart);
}

static void test_interrupted(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "tell; interrupt; ");
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "");
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_true(mst_restart_machine.deadline_ns(restart) == UINT64_MAX);
    assert_string_equal(story(restart), "unwind; 1:round muster/seal g1 #0; ");
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "");
    reply_view(restart, 1, 2);
    assert_string_equal(story(restart), "enter g2 i1; ");
    /* What was said of the old generation is of no interest. */
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "");
    mst_restart_free(restart);
}

/* The signal comes just before a call blocks. It is sent again and again, after 0, 1, 2, 4 ...
 * 50 ms, until the function has returned. [Being called out] */
static void test_backoff(void **state)
{
    static const uint64_t waits[] = {1, 2, 4, 8, 16, 32, 50, 50};
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, MST_INTERRUPT);
    uint64_t now_ns = 100 * MS;

    (void)state;
    mst_restart_machine.attention(restart, now_ns, &view, false);
    assert_string_equal(story(restart), "tell; interrupt; ");
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        now_ns += waits[i] * MS;
        assert_true(mst_restart_machine.deadline_ns(restart) == now_ns);
        mst_restart_machine.tick(restart, now_ns - 1);
        assert_string_equal(story(restart), "");
        mst_restart_machine.tick(restart, now_ns);
        assert_string_equal(story(restart), "interrupt; ");
    }
    mst_restart_machine.tick(restart, now_ns + 50 * MS);
    returned(restart, MUSTER_OK, true);
    assert_string_equal(story(restart), "unwind; 1:round muster/seal g1 #0; ");
    mst_restart_machine.tick(restart, now_ns + 500 * MS);
    assert_string_equal(story(restart), "");
    mst_restart_free(restart);
}

/* A newcomer is ready. The next check says so; no rank is cut short until the first rank stands
 * at the seal. A function that is done before it looks is done. [Being called out] */
static void test_grow(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    attention(restart, 1, MST_GROW);
    assert_string_equal(story(restart), "tell; ");
    assert_true(mst_restart_machine.deadline_ns(restart) == UINT64_MAX);
    attention(restart, 1, MST_CALM);
    assert_string_equal(story(restart), "");
    /* The first one stands at the seal: the others may be waiting for it. */
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "interrupt; ");
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_string_equal(story(restart), "unwind; 1:round muster/seal g1 #0; ");
    mst_restart_free(restart);

    /* A function that never saw the call to grow and is done, is done. */
    restart = running();
    attention(restart, 1, MST_GROW);
    assert_string_equal(story(restart), "tell; ");
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "1:round muster/complete g1 #0; ");
    reply(restart, 1, MUSTER_OK);
    assert_string_equal(story(restart), "finish MUSTER_OK; ");
    mst_restart_free(restart);

    /* One that saw it is interrupted, whatever it returns. */
    restart = running();
    attention(restart, 1, MST_GROW);
    assert_string_equal(story(restart), "tell; ");
    returned(restart, MUSTER_OK, true);
    assert_string_equal(story(restart), "unwind; 1:round muster/seal g1 #0; ");
    mst_restart_free(restart);
}

/* A call of muster failed because of another rank. Returning that status is no fault of this
 * one. [Failures] */
static void test_failed_by_return(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    returned(restart, (muster_status)7, false);
    assert_string_equal(story(restart), "1:fault g1 7 'the function returned MUSTER_? (7)'; "
                                        "unwind; 2:round muster/seal g1 #0; ");
    reply(restart, 1, MUSTER_OK);
    reply_view(restart, 2, 3);
    assert_string_equal(story(restart), "enter g3 i1; ");
    returned(restart, MUSTER_EFAILED, false);
    assert_string_equal(story(restart),
                        "3:fault g3 -17 'the function returned MUSTER_EFAILED (-17)'; "
                        "unwind; 4:round muster/seal g3 #0; ");
    mst_restart_free(restart);

    /* A broken socket after the interruption is no fault of this rank. */
    restart = running();
    attention(restart, 1, MST_INTERRUPT);
    story(restart);
    returned(restart, MUSTER_EFAILED, false);
    assert_string_equal(story(restart), "unwind; 1:round muster/seal g1 #0; ");
    mst_restart_free(restart);

    /* Nor is what a call of muster said about the others: it is reported, and the service takes it
     * only where nothing has befallen them. */
    restart = running();
    attention(restart, 1, MST_INTERRUPT);
    story(restart);
    returned(restart, MUSTER_ELOST, false);
    assert_string_equal(story(restart), "unwind; 1:round muster/seal g1 #0; ");
    mst_restart_free(restart);
    restart = running();
    returned(restart, MUSTER_ELOST, false);
    assert_string_equal(story(restart),
                        "1:fault g1 -15 'the function returned MUSTER_ELOST (-15)'; "
                        "unwind; 2:round muster/seal g1 #0; ");
    mst_restart_free(restart);
}

/* A rank returns OK after it was interrupted. It counts as interrupted. [Failures] */
static void test_failed_by_call(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    mst_restart_failed(restart, 0, MST_CAUSE_FAULT, 3, mst_slice_text("disk full"));
    assert_string_equal(story(restart), "1:fault g1 3 'disk full'; ");
    mst_restart_failed(restart, 0, MST_CAUSE_FAULT, 4, mst_slice_text("again"));
    assert_string_equal(story(restart), "");
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "tell; interrupt; ");
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "unwind; 2:round muster/seal g1 #0; ");
    mst_restart_free(restart);

    restart = running();
    returned(restart, MUSTER_EINTERRUPTED, false);
    assert_string_equal(story(restart), "1:fault g1 0 'asked for a restart'; "
                                        "unwind; 2:round muster/seal g1 #0; ");
    mst_restart_free(restart);
}

/* The text of a fault is long. It is cut to what the service takes. [Failures] */
static void test_fault_text_cut(void **state)
{
    static char words[5000];
    struct mst_restart *restart = running();
    const struct mst_restart_effect *effect;
    struct mst_reply refusal = {.status = MUSTER_ELIMIT, .has_detail = true};

    (void)state;
    memset(words, 'x', sizeof(words));
    mst_restart_failed(restart, 0, MST_CAUSE_FAULT, 3, mst_slice_of(words, sizeof(words)));
    effect = mst_restart_machine.next(restart);
    assert_int_equal(effect->head.request->fault.text.size, 1024);
    refusal.detail.limit = 128;
    mst_restart_machine.reply(restart, 0, 1, &refusal);
    effect = mst_restart_machine.next(restart);
    assert_int_equal(effect->head.request->fault.text.size, 128);
    assert_int_equal(effect->head.tag, 2);
    mst_restart_machine.reply(restart, 0, 2, &refusal);
    assert_string_equal(story(restart), "");
    mst_restart_free(restart);
}

/* A rank's completion meets the seal. The service decides: either all are done or all run again.
 * [Deaths] */
static void test_completing_interrupted(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "1:round muster/complete g1 #0; ");
    attention(restart, 1, MST_GROW);
    assert_string_equal(story(restart), "");
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "cancel 1; ");
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "");
    reply(restart, 1, MUSTER_ECANCELLED);
    assert_string_equal(story(restart), "unwind; 2:round muster/seal g1 #0; ");
    mst_restart_free(restart);

    restart = running();
    returned(restart, MUSTER_OK, false);
    story(restart);
    attention(restart, 1, MST_INTERRUPT);
    story(restart);
    reply(restart, 1, MUSTER_OK);
    assert_string_equal(story(restart), "finish MUSTER_OK; ");
    mst_restart_free(restart);

    /* The reply is there before the cancel could leave. */
    restart = running();
    returned(restart, MUSTER_OK, false);
    story(restart);
    attention(restart, 1, MST_INTERRUPT);
    reply(restart, 1, MUSTER_ELOST);
    assert_string_equal(story(restart), "unwind; 2:round muster/seal g1 #0; ");
    mst_restart_free(restart);
}

/* The completion is refused. The run ends with that status. */
static void test_completion_refused(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    returned(restart, MUSTER_OK, false);
    story(restart);
    reply(restart, 1, MUSTER_ELIMIT);
    assert_string_equal(story(restart), "finish MUSTER_ELIMIT; ");
    mst_restart_free(restart);
}

/* The service has no room for a rank's part in the seal. The others, which may be blocked, are
 * interrupted by its fault before it leaves; its run ends with that status. */
static void test_seal_without_room(void **state)
{
    static const muster_status reasons[] = {MUSTER_ENOMEM, MUSTER_ENOSPACE, MUSTER_ELIMIT};

    (void)state;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        struct mst_restart *restart = running();
        char expected[128];

        attention(restart, 1, MST_GROW);
        returned(restart, MUSTER_EINTERRUPTED, true);
        story(restart);
        reply(restart, 1, reasons[i]);
        (void)snprintf(
            expected, sizeof(expected),
            "2:fault g1 %d 'the service has no room for its part in the seal'; 3:leave; ",
            reasons[i]);
        assert_string_equal(story(restart), expected);
        reply(restart, 2, MUSTER_OK);
        assert_string_equal(story(restart), "");
        reply(restart, 3, MUSTER_OK);
        (void)snprintf(expected, sizeof(expected), "finish %s; ", mst_status_name(reasons[i]));
        assert_string_equal(story(restart), expected);
        mst_restart_free(restart);
    }
}

/* Too few ranks are left. The run ends with the numbers (ETOOFEW). */
static void test_too_few(void **state)
{
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, MST_INTERRUPT);
    struct mst_reply few = {.status = MUSTER_ETOOFEW, .has_detail = true};
    const struct mst_restart_effect *effect;

    (void)state;
    few.detail = (struct mst_detail){.arrived = 1, .expected = 4, .limit = 2, .who_count = 1};
    returned(restart, MUSTER_EFAILED, false);
    story(restart);
    mst_restart_machine.reply(restart, 0, 2, &few);
    effect = mst_restart_machine.next(restart);
    assert_int_equal(effect->type, MST_RESTART_FINISH);
    assert_int_equal(effect->status, MUSTER_ETOOFEW);
    assert_ptr_equal(effect->reply, &few); /* the reply lives while its effects are drained */
    mst_restart_check(restart);

    /* Tried again in the same generation: not entered, the next number of the seal. */
    mst_restart_start(restart, 0, &view);
    assert_string_equal(story(restart), "3:round muster/seal g1 #1; ");
    reply_view(restart, 3, 2);
    assert_string_equal(story(restart), "enter g2 i0; ");
    mst_restart_free(restart);
}

/* This rank was lost to the job. Its run ends with that (EFENCED). If only the answer to its
 * seal was lost, it learns its view and goes on. */
static void test_fenced(void **state)
{
    static const unsigned char vote[] = {1, 0, 0, 0, 0, 0, 0, 0}; /* the next attempt */
    struct mst_reply told = {.status = MUSTER_OK, .has_view = true, .view = view_of(2, MST_CALM)};
    struct mst_restart *restart = running();

    (void)state;
    /* A newer generation is there without this rank. */
    attention(restart, 2, MST_CALM);
    assert_string_equal(story(restart), "tell; interrupt; ");
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_string_equal(story(restart), "unwind; 1:round muster/seal g1 #0; ");
    reply(restart, 1, MUSTER_EFENCED);
    assert_string_equal(story(restart), "2:join; ");
    reply(restart, 2, MUSTER_EFENCED);
    assert_string_equal(story(restart), "finish MUSTER_EFENCED; ");
    mst_restart_free(restart);

    /* The seal's reply was lost with its connection. */
    restart = running();
    returned(restart, MUSTER_EFAILED, false);
    story(restart);
    attention(restart, 2, MST_CALM);
    reply(restart, 2, MUSTER_EFENCED);
    assert_string_equal(story(restart), "3:join; ");
    told.value = mst_slice_of(vote, sizeof(vote));
    mst_restart_machine.reply(restart, 0, 3, &told);
    assert_string_equal(story(restart), "enter g2 i1; ");
    mst_restart_free(restart);
}

/* The service answers a seal without a view. The run ends with that status. */
static void test_seal_without_view(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    returned(restart, MUSTER_EFAILED, false);
    story(restart);
    reply(restart, 2, MUSTER_OK);
    assert_string_equal(story(restart), "finish MUSTER_EPROTO; ");
    mst_restart_free(restart);
}

/* The next generation is broken before its view has arrived. The function is not entered; the
 * one after it is sealed. [Deaths] */
static void test_broken_before_entry(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    attention(restart, 1, MST_INTERRUPT);
    story(restart);
    returned(restart, MUSTER_EINTERRUPTED, true);
    story(restart);
    attention(restart, 2, MST_INTERRUPT);
    reply_view(restart, 1, 2);
    assert_string_equal(story(restart), "2:round muster/seal g2 #0; ");
    reply_view(restart, 2, 3);
    assert_string_equal(story(restart), "enter g3 i1; ");
    mst_restart_free(restart);
}

/* A rank cannot renew its lease. It leaves the function and enters none until it can.
 * [Being called out] */
static void test_stopped(void **state)
{
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, MST_CALM);

    (void)state;
    mst_restart_machine.attention(restart, 0, &view, true);
    assert_string_equal(story(restart), "tell; interrupt; ");
    mst_restart_machine.attention(restart, 0, &view, false);
    assert_string_equal(story(restart), "");
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_string_equal(story(restart), "unwind; 1:round muster/seal g1 #0; ");
    /* Not entered while the lease is in doubt. */
    mst_restart_machine.attention(restart, 0, &view, true);
    reply_view(restart, 1, 2);
    assert_string_equal(story(restart), "");
    view = view_of(2, MST_CALM);
    mst_restart_machine.attention(restart, 0, &view, true);
    assert_string_equal(story(restart), "");
    mst_restart_machine.attention(restart, 0, &view, false);
    assert_string_equal(story(restart), "enter g2 i1; ");
    mst_restart_free(restart);
}

/* The session ends. The run ends with it. */
static void test_ended(void **state)
{
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, MST_CALM);

    (void)state;
    mst_restart_machine.ended(restart, 0, MUSTER_EFENCED);
    assert_string_equal(story(restart), "tell; interrupt; ");
    mst_restart_failed(restart, 0, MST_CAUSE_FAULT, 1, mst_slice_text("too late"));
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "unwind; finish MUSTER_EFENCED; ");
    mst_restart_start(restart, 0, &view);
    assert_string_equal(story(restart), "finish MUSTER_EFENCED; ");
    mst_restart_free(restart);

    restart = running();
    returned(restart, MUSTER_OK, false);
    story(restart);
    mst_restart_machine.ended(restart, 0, MUSTER_EUNREACHABLE);
    assert_string_equal(story(restart), "unwind; finish MUSTER_EUNREACHABLE; ");
    reply(restart, 1, MUSTER_ECANCELLED);
    assert_string_equal(story(restart), "");
    mst_restart_free(restart);
}

/* A rank leaves for good. Its own run ends well. */
static void test_leave(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    mst_restart_left(restart, 0);
    assert_string_equal(story(restart), "");
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "1:fault g1 0 'left the job'; unwind; 2:leave; ");
    reply(restart, 2, MUSTER_OK);
    assert_string_equal(story(restart), "finish MUSTER_OK; ");
    mst_restart_free(restart);

    restart = running();
    mst_restart_left(restart, 0);
    attention(restart, 1, MST_INTERRUPT);
    story(restart);
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_string_equal(story(restart), "unwind; 1:leave; ");
    mst_restart_machine.ended(restart, 0, MUSTER_EFENCED);
    assert_string_equal(story(restart), "finish MUSTER_OK; ");
    mst_restart_free(restart);
}

static void test_digest(void **state)
{
    struct mst_restart *a = running();
    struct mst_restart *b = running();

    (void)state;
    assert_true(mst_restart_digest(a) == mst_restart_digest(b));
    attention(a, 1, MST_INTERRUPT);
    assert_true(mst_restart_digest(a) != mst_restart_digest(b));
    attention(b, 1, MST_INTERRUPT);
    assert_true(mst_restart_digest(a) == mst_restart_digest(b));
    mst_restart_free(a);
    mst_restart_free(b);
}

static int after_each(void **state)
{
    (void)state;
    return memory.live == 0 ? 0 : -1;
}

static int before_each(void **state)
{
    (void)state;
    failing_mem_init(&memory, 0);
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, before_each, after_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_birth),
        TEST(test_done),
        TEST(test_round_parameters),
        TEST(test_interrupted),
        TEST(test_backoff),
        TEST(test_grow),
        TEST(test_failed_by_return),
        TEST(test_failed_by_call),
        TEST(test_fault_text_cut),
        TEST(test_completing_interrupted),
        TEST(test_completion_refused),
        TEST(test_seal_without_room),
        TEST(test_too_few),
        TEST(test_fenced),
        TEST(test_seal_without_view),
        TEST(test_broken_before_entry),
        TEST(test_stopped),
        TEST(test_ended),
        TEST(test_leave),
        TEST(test_digest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
