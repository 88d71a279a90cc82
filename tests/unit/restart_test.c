/* SPDX-License-Identifier: Apache-2.0 */
/* The restart machine alone: stories of one rank, told by its effects; and a few of them together
 * around a service small enough to be seen through, with everything in a seeded order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/text.h"
#include "msg/command.h"
#include "msg/status.h"
#include "restart/restart.h"

#define MS UINT64_C(1000000)

enum { STORY_ROOM = 1024 };

static int allocations_left = -1; /* -1: no limit */
static int allocated;

static void *test_alloc(void *ctx, size_t size)
{
    void *p;

    (void)ctx;
    if (allocations_left == 0) {
        return NULL;
    }
    if (allocations_left > 0) {
        allocations_left--;
    }
    p = malloc(size);
    allocated += p != NULL;
    return p;
}

static void test_release(void *ctx, void *p)
{
    (void)ctx;
    allocated -= p != NULL;
    free(p);
}

static const struct mst_mem test_mem = {.alloc = test_alloc, .release = test_release};

static struct mst_restart *restart_new(void)
{
    const struct mst_restart_config config = {.barrier_timeout_ms = 1000};
    struct mst_restart *restart;

    assert_int_equal(mst_restart_new(&restart, &config, &test_mem), MUSTER_OK);
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
        mst_text_add(text, " ");
        mst_text_slice(text, request->round.name);
        mst_text_add(text, " g");
        mst_text_u64(text, request->round.generation);
        mst_text_add(text, " #");
        mst_text_u64(text, request->round.number);
    } else if (request->command == MST_FAULT) {
        mst_text_add(text, " g");
        mst_text_u64(text, request->fault.generation);
        mst_text_add(text, " ");
        mst_text_i64(text, request->fault.code);
        mst_text_add(text, " '");
        mst_text_slice(text, request->fault.text);
        mst_text_add(text, "'");
    }
}

static void effect_tell(struct mst_text *text, const struct mst_restart_effect *effect)
{
    switch (effect->type) {
    case MST_RESTART_REQUEST:
        mst_text_u64(text, effect->tag);
        mst_text_add(text, ":");
        request_tell(text, effect->request);
        break;
    case MST_RESTART_CANCEL:
        mst_text_add(text, "cancel ");
        mst_text_u64(text, effect->tag);
        break;
    case MST_RESTART_ENTER:
        mst_text_add(text, "enter g");
        mst_text_u64(text, effect->view.generation);
        mst_text_add(text, " i");
        mst_text_u64(text, effect->iteration);
        break;
    case MST_RESTART_TELL:
        mst_text_add(text, "tell");
        break;
    case MST_RESTART_INTERRUPT:
        mst_text_add(text, "interrupt");
        break;
    case MST_RESTART_FINISH:
        mst_text_add(text, "finish ");
        mst_text_add(text, mst_status_name(effect->status));
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
    while ((effect = mst_restart_next(restart)) != NULL) {
        effect_tell(&text, effect);
        mst_restart_done(restart, effect);
        mst_restart_check(restart);
    }
    return line;
}

static void attention(struct mst_restart *restart, uint64_t generation, enum mst_attention level)
{
    struct mst_view view = view_of(generation, level);

    mst_restart_attention(restart, 0, &view, false);
}

static void reply(struct mst_restart *restart, uint64_t tag, muster_status status)
{
    mst_restart_reply(restart, 0, tag, &(struct mst_reply){.status = status});
}

static void reply_view(struct mst_restart *restart, uint64_t tag, uint64_t generation)
{
    mst_restart_reply(restart, 0, tag,
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
    assert_true(mst_restart_deadline_ns(restart) == UINT64_MAX);
    return restart;
}

static void returned(struct mst_restart *restart, muster_status status, bool delivered)
{
    mst_restart_returned(restart, 0, status, delivered);
}

static void test_birth(void **state)
{
    const struct mst_restart_config none = {0};
    const struct mst_restart_config config = {.barrier_timeout_ms = 1};
    struct mst_restart *restart;

    (void)state;
    assert_int_equal(mst_restart_new(&restart, &none, &test_mem), MUSTER_EINVAL);
    allocations_left = 0;
    assert_int_equal(mst_restart_new(&restart, &config, &test_mem), MUSTER_ENOMEM);
    assert_null(restart);
    /* One allocation, at birth: no input can fail. */
    allocations_left = 1;
    restart = running();
    returned(restart, MUSTER_EFAILED, false);
    story(restart);
    reply_view(restart, 2, 2);
    assert_string_equal(story(restart), "enter g2 i1; ");
    allocations_left = -1;
    mst_restart_free(restart);
    mst_restart_free(NULL);
    assert_int_equal(allocated, 0);
}

static void test_done(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "1:round muster/complete g1 #0; ");
    reply(restart, 1, MUSTER_OK);
    assert_string_equal(story(restart), "finish MUSTER_OK; ");

    /* The next run in the same generation goes on counting. */
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
    effect = mst_restart_next(restart);
    assert_int_equal(effect->request->round.on_loss, MST_FAIL);
    assert_int_equal(effect->request->round.deadline_ms, 0);
    assert_false(effect->request->round.seal);
    assert_null(effect->request->round.participants);
    mst_restart_done(restart, effect);
    reply(restart, effect->tag, MUSTER_ELOST);
    effect = mst_restart_next(restart);
    assert_int_equal(effect->request->round.on_loss, MST_PROCEED);
    assert_int_equal(effect->request->round.deadline_ms, 1000);
    assert_true(effect->request->round.seal);
    mst_restart_done(restart, effect);
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
    assert_true(mst_restart_deadline_ns(restart) == UINT64_MAX);
    assert_string_equal(story(restart), "1:round muster/seal g1 #0; ");
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "");
    reply_view(restart, 1, 2);
    assert_string_equal(story(restart), "enter g2 i1; ");
    /* What was said of the old generation is of no interest. */
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "");
    mst_restart_free(restart);
}

/* 0, 1, 2, 4 ... 50 ms, until the function returned. */
static void test_backoff(void **state)
{
    static const uint64_t waits[] = {1, 2, 4, 8, 16, 32, 50, 50};
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, MST_INTERRUPT);
    uint64_t now_ns = 100 * MS;

    (void)state;
    mst_restart_attention(restart, now_ns, &view, false);
    assert_string_equal(story(restart), "tell; interrupt; ");
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        now_ns += waits[i] * MS;
        assert_true(mst_restart_deadline_ns(restart) == now_ns);
        mst_restart_tick(restart, now_ns - 1);
        assert_string_equal(story(restart), "");
        mst_restart_tick(restart, now_ns);
        assert_string_equal(story(restart), "interrupt; ");
    }
    mst_restart_tick(restart, now_ns + 50 * MS);
    returned(restart, MUSTER_OK, true);
    assert_string_equal(story(restart), "1:round muster/seal g1 #0; ");
    mst_restart_tick(restart, now_ns + 500 * MS);
    assert_string_equal(story(restart), "");
    mst_restart_free(restart);
}

static void test_grow(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    attention(restart, 1, MST_GROW);
    assert_string_equal(story(restart), "tell; ");
    assert_true(mst_restart_deadline_ns(restart) == UINT64_MAX);
    attention(restart, 1, MST_CALM);
    assert_string_equal(story(restart), "");
    /* The first one stands at the seal: the others may be waiting for it. */
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "interrupt; ");
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_string_equal(story(restart), "1:round muster/seal g1 #0; ");
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
    assert_string_equal(story(restart), "1:round muster/seal g1 #0; ");
    mst_restart_free(restart);
}

static void test_failed_by_return(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    returned(restart, (muster_status)7, false);
    assert_string_equal(story(restart), "1:fault g1 7 'the function returned MUSTER_? (7)'; "
                                        "2:round muster/seal g1 #0; ");
    reply(restart, 1, MUSTER_OK);
    reply_view(restart, 2, 3);
    assert_string_equal(story(restart), "enter g3 i1; ");
    returned(restart, MUSTER_EFAILED, false);
    assert_string_equal(story(restart),
                        "3:fault g3 -17 'the function returned MUSTER_EFAILED (-17)'; "
                        "4:round muster/seal g3 #0; ");
    mst_restart_free(restart);

    /* A broken socket after the interruption is no fault of this rank. */
    restart = running();
    attention(restart, 1, MST_INTERRUPT);
    story(restart);
    returned(restart, MUSTER_EFAILED, false);
    assert_string_equal(story(restart), "1:round muster/seal g1 #0; ");
    mst_restart_free(restart);

    /* Nor is what a call of muster said about the others. */
    restart = running();
    returned(restart, MUSTER_ELOST, false);
    assert_string_equal(story(restart), "1:round muster/seal g1 #0; ");
    mst_restart_free(restart);
}

static void test_failed_by_call(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    mst_restart_failed(restart, 0, 3, mst_slice_text("disk full"));
    assert_string_equal(story(restart), "1:fault g1 3 'disk full'; ");
    mst_restart_failed(restart, 0, 4, mst_slice_text("again"));
    assert_string_equal(story(restart), "");
    attention(restart, 1, MST_INTERRUPT);
    assert_string_equal(story(restart), "tell; interrupt; ");
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "2:round muster/seal g1 #0; ");
    mst_restart_free(restart);

    restart = running();
    returned(restart, MUSTER_EINTERRUPTED, false);
    assert_string_equal(story(restart), "1:fault g1 -12 'asked for a restart'; "
                                        "2:round muster/seal g1 #0; ");
    mst_restart_free(restart);
}

static void test_fault_text_cut(void **state)
{
    static char words[5000];
    struct mst_restart *restart = running();
    const struct mst_restart_effect *effect;
    struct mst_reply refusal = {.status = MUSTER_ELIMIT, .has_detail = true};

    (void)state;
    memset(words, 'x', sizeof(words));
    mst_restart_failed(restart, 0, 3, mst_slice_of(words, sizeof(words)));
    effect = mst_restart_next(restart);
    assert_int_equal(effect->request->fault.text.size, 1024);
    mst_restart_done(restart, effect);
    refusal.detail.limit = 128;
    mst_restart_reply(restart, 0, 1, &refusal);
    effect = mst_restart_next(restart);
    assert_int_equal(effect->request->fault.text.size, 128);
    assert_int_equal(effect->tag, 2);
    mst_restart_done(restart, effect);
    mst_restart_reply(restart, 0, 2, &refusal);
    assert_string_equal(story(restart), "");
    mst_restart_free(restart);
}

/* Completion against the seal: the service decides. */
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
    assert_string_equal(story(restart), "2:round muster/seal g1 #0; ");
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
    assert_string_equal(story(restart), "2:round muster/seal g1 #0; ");
    mst_restart_free(restart);
}

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

static void test_too_few(void **state)
{
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, MST_INTERRUPT);
    char host[300];
    struct mst_reply few = {.status = MUSTER_ETOOFEW, .has_detail = true};
    const struct mst_restart_effect *effect;

    (void)state;
    memset(host, 'h', sizeof(host));
    few.detail = (struct mst_detail){.arrived = 1, .expected = 4, .limit = 2, .who_count = 1};
    few.detail.who[0] = (struct mst_who){.index = 3, .host = {host, sizeof(host)}};
    returned(restart, MUSTER_EFAILED, false);
    story(restart);
    mst_restart_reply(restart, 0, 2, &few);
    memset(host, '!', sizeof(host)); /* the reply was borrowed for the call only */
    effect = mst_restart_next(restart);
    assert_int_equal(effect->type, MST_RESTART_FINISH);
    assert_int_equal(effect->status, MUSTER_ETOOFEW);
    assert_int_equal(effect->reply->detail.arrived, 1);
    assert_int_equal(effect->reply->detail.limit, 2);
    assert_int_equal(effect->reply->detail.who[0].host.size, 256);
    assert_int_equal(((const char *)effect->reply->detail.who[0].host.data)[0], 'h');
    mst_restart_done(restart, effect);
    mst_restart_check(restart);

    /* Tried again in the same generation: not entered, the next number of the seal. */
    mst_restart_start(restart, 0, &view);
    assert_string_equal(story(restart), "3:round muster/seal g1 #1; ");
    reply_view(restart, 3, 2);
    assert_string_equal(story(restart), "enter g2 i0; ");
    mst_restart_free(restart);
}

static void test_fenced(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    /* A newer generation is there without this rank. */
    attention(restart, 2, MST_CALM);
    assert_string_equal(story(restart), "tell; interrupt; ");
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_string_equal(story(restart), "1:round muster/seal g1 #0; ");
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
    reply_view(restart, 3, 2);
    assert_string_equal(story(restart), "enter g2 i1; ");
    mst_restart_free(restart);
}

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

/* The next generation is broken before its view is here: the function is not entered. */
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

static void test_stopped(void **state)
{
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, MST_CALM);

    (void)state;
    mst_restart_attention(restart, 0, &view, true);
    assert_string_equal(story(restart), "tell; interrupt; ");
    mst_restart_attention(restart, 0, &view, false);
    assert_string_equal(story(restart), "");
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_string_equal(story(restart), "1:round muster/seal g1 #0; ");
    /* Not entered while the lease is in doubt. */
    mst_restart_attention(restart, 0, &view, true);
    reply_view(restart, 1, 2);
    assert_string_equal(story(restart), "");
    view = view_of(2, MST_CALM);
    mst_restart_attention(restart, 0, &view, true);
    assert_string_equal(story(restart), "");
    mst_restart_attention(restart, 0, &view, false);
    assert_string_equal(story(restart), "enter g2 i1; ");
    mst_restart_free(restart);
}

static void test_ended(void **state)
{
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, MST_CALM);

    (void)state;
    mst_restart_ended(restart, 0, MUSTER_EFENCED);
    assert_string_equal(story(restart), "tell; interrupt; ");
    mst_restart_failed(restart, 0, 1, mst_slice_text("too late"));
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "finish MUSTER_EFENCED; ");
    mst_restart_start(restart, 0, &view);
    assert_string_equal(story(restart), "finish MUSTER_EFENCED; ");
    mst_restart_free(restart);

    restart = running();
    returned(restart, MUSTER_OK, false);
    story(restart);
    mst_restart_ended(restart, 0, MUSTER_EUNREACHABLE);
    assert_string_equal(story(restart), "finish MUSTER_EUNREACHABLE; ");
    reply(restart, 1, MUSTER_ECANCELLED);
    assert_string_equal(story(restart), "");
    mst_restart_free(restart);
}

static void test_leave(void **state)
{
    struct mst_restart *restart = running();

    (void)state;
    mst_restart_left(restart, 0);
    assert_string_equal(story(restart), "");
    returned(restart, MUSTER_OK, false);
    assert_string_equal(story(restart), "1:fault g1 0 'left the job'; 2:leave; ");
    reply(restart, 2, MUSTER_OK);
    assert_string_equal(story(restart), "finish MUSTER_OK; ");
    mst_restart_free(restart);

    restart = running();
    mst_restart_left(restart, 0);
    attention(restart, 1, MST_INTERRUPT);
    story(restart);
    returned(restart, MUSTER_EINTERRUPTED, true);
    assert_string_equal(story(restart), "1:leave; ");
    mst_restart_ended(restart, 0, MUSTER_EFENCED);
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

/* --- several ranks around a model of the service, everything in a seeded order --- */

enum { RANKS = 4, QUEUE = 256, SEEDS = 3000 };

struct model_reply {
    uint64_t tag; /* 0: a view */
    struct mst_reply reply;
};

struct model_rank {
    struct mst_restart *restart;
    bool alive, inside, told, delivered, finished;
    muster_status result;
    uint64_t finished_in; /* generation */
    uint64_t generation;
    uint64_t seal_tag, complete_tag;
    bool seal_waits, complete_waits;
    struct mst_request up[QUEUE]; /* to the service: a stream */
    uint64_t up_tag[QUEUE];
    bool up_cancel[QUEUE];
    struct model_reply down[QUEUE];
    uint32_t up_start, up_end, down_start, down_end;
};

struct model {
    struct mst_prng prng;
    uint64_t now_ns;
    uint64_t generation;
    enum mst_attention attention;
    bool member[RANKS];
    bool sealed[RANKS], completed[RANKS];
    bool complete_over, complete_broken;
    uint32_t troubles; /* failures, losses and growths still to come */
    struct model_rank ranks[RANKS];
};

static struct mst_view model_view(const struct model *model, uint32_t i)
{
    uint32_t rank = 0;
    uint32_t size = 0;

    for (uint32_t k = 0; k < RANKS; k++) {
        size += model->member[k];
        rank += k < i && model->member[k];
    }
    return (struct mst_view){.generation = model->generation,
                             .size = size,
                             .rank = rank,
                             .index = i,
                             .incarnation = 1,
                             .attention = model->attention};
}

static void model_answer(struct model *model, uint32_t i, uint64_t tag, muster_status status)
{
    struct model_rank *rank = &model->ranks[i];

    if (rank->alive) {
        assert_true(rank->down_end - rank->down_start < QUEUE);
        rank->down[rank->down_end++ % QUEUE] = (struct model_reply){
            .tag = tag,
            .reply = {.status = status, .has_view = true, .view = model_view(model, i)}};
    }
}

static void model_raise(struct model *model, enum mst_attention level)
{
    if (level <= model->attention) {
        return;
    }
    model->attention = level;
    for (uint32_t i = 0; i < RANKS; i++) {
        model_answer(model, i, 0, MUSTER_OK);
    }
}

static void model_complete_close(struct model *model, muster_status status)
{
    model->complete_over = true;
    model->complete_broken = status != MUSTER_OK;
    for (uint32_t i = 0; i < RANKS; i++) {
        if (model->ranks[i].complete_waits) {
            model->ranks[i].complete_waits = false;
            model_answer(model, i, model->ranks[i].complete_tag, status);
        }
    }
}

static void model_settle(struct model *model)
{
    bool all_completed = true;
    bool all_sealed = true;
    bool any_sealed = false;
    bool any_completed = false;
    bool lost = false;

    for (uint32_t i = 0; i < RANKS; i++) {
        if (model->member[i]) {
            any_completed = any_completed || model->completed[i];
            any_sealed = any_sealed || model->sealed[i];
            all_completed = all_completed && model->completed[i];
            all_sealed = all_sealed && (model->sealed[i] || !model->ranks[i].alive);
            lost = lost || !model->ranks[i].alive;
        }
    }
    if (any_completed && !model->complete_over && (lost || all_completed)) {
        model_complete_close(model, lost ? MUSTER_ELOST : MUSTER_OK);
    }
    if (!any_sealed || !all_sealed) {
        return;
    }
    /* Nobody may stand at a seal when others were told that all are done. */
    assert_true(!model->complete_over || model->complete_broken);
    model->generation++;
    model->attention = MST_CALM;
    model->complete_over = false;
    for (uint32_t i = 0; i < RANKS; i++) {
        model->member[i] = model->member[i] && model->ranks[i].alive;
        model->sealed[i] = false;
        model->completed[i] = false;
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        struct model_rank *rank = &model->ranks[i];

        if (model->member[i] && rank->seal_waits) {
            rank->seal_waits = false;
            model_answer(model, i, rank->seal_tag, MUSTER_OK);
        }
    }
}

static void model_round(struct model *model, uint32_t i, const struct mst_request *request,
                        uint64_t tag)
{
    struct model_rank *rank = &model->ranks[i];

    assert_true(request->round.generation == model->generation);
    if (request->round.seal) {
        model->sealed[i] = true;
        rank->seal_waits = true;
        rank->seal_tag = tag;
        model_raise(model, MST_INTERRUPT);
    } else if (model->complete_over) {
        model_answer(model, i, tag, model->complete_broken ? MUSTER_ELOST : MUSTER_OK);
    } else {
        model->completed[i] = true;
        rank->complete_waits = true;
        rank->complete_tag = tag;
    }
    model_settle(model);
}

static void model_request(struct model *model, uint32_t i)
{
    struct model_rank *rank = &model->ranks[i];
    uint32_t at = rank->up_start++ % QUEUE;
    const struct mst_request *request = &rank->up[at];

    if (rank->up_cancel[at]) {
        if (rank->complete_waits && rank->complete_tag == rank->up_tag[at]) {
            rank->complete_waits = false;
            model_answer(model, i, rank->up_tag[at], MUSTER_ECANCELLED);
        }
    } else if (request->command == MST_FAULT) {
        model_answer(model, i, rank->up_tag[at], MUSTER_OK);
        if (request->fault.generation == model->generation) {
            model_raise(model, MST_INTERRUPT);
        }
    } else {
        assert_int_equal(request->command, MST_ROUND);
        model_round(model, i, request, rank->up_tag[at]);
    }
}

static void model_up(struct model_rank *rank, const struct mst_restart_effect *effect)
{
    uint32_t at = rank->up_end++ % QUEUE;

    assert_true(rank->up_end - rank->up_start <= QUEUE);
    rank->up_cancel[at] = effect->type == MST_RESTART_CANCEL;
    rank->up_tag[at] = effect->tag;
    if (effect->request) {
        rank->up[at] = *effect->request;
    }
}

static void model_drain(struct model_rank *rank)
{
    const struct mst_restart_effect *effect;

    mst_restart_check(rank->restart);
    while ((effect = mst_restart_next(rank->restart)) != NULL) {
        switch (effect->type) {
        case MST_RESTART_REQUEST:
        case MST_RESTART_CANCEL:
            model_up(rank, effect);
            break;
        case MST_RESTART_ENTER:
            assert_false(rank->inside);
            assert_true(effect->view.generation > rank->generation);
            rank->generation = effect->view.generation;
            rank->inside = true;
            rank->told = false;
            rank->delivered = false;
            break;
        case MST_RESTART_TELL:
        case MST_RESTART_INTERRUPT:
            assert_true(rank->inside);
            rank->told = true;
            break;
        case MST_RESTART_FINISH:
            rank->finished = true;
            rank->result = effect->status;
            rank->finished_in = rank->generation;
            break;
        }
        mst_restart_done(rank->restart, effect);
        mst_restart_check(rank->restart);
    }
}

static void model_down(struct model *model, struct model_rank *rank)
{
    struct model_reply *reply = &rank->down[rank->down_start++ % QUEUE];

    if (reply->tag == 0) {
        mst_restart_attention(rank->restart, model->now_ns, &reply->reply.view, false);
    } else {
        mst_restart_reply(rank->restart, model->now_ns, reply->tag, &reply->reply);
    }
    model_drain(rank);
}

static void model_function(struct model *model, struct model_rank *rank)
{
    uint64_t dice = mst_prng_below(&model->prng, 8);
    muster_status status = MUSTER_MORE;

    if (rank->told && dice < 4) {
        rank->delivered = true;
        status = MUSTER_EINTERRUPTED;
    } else if (dice == 4) {
        status = MUSTER_OK;
    } else if (dice == 5 && model->troubles > 0) {
        model->troubles--;
        status = MUSTER_EFAILED;
    }
    if (status != MUSTER_MORE) {
        rank->inside = false;
        mst_restart_returned(rank->restart, model->now_ns, status, rank->delivered);
        model_drain(rank);
    }
}

static void model_trouble(struct model *model, uint32_t i)
{
    uint32_t alive = 0;

    for (uint32_t k = 0; k < RANKS; k++) {
        alive += model->ranks[k].alive;
    }
    if (model->troubles == 0 || mst_prng_below(&model->prng, 20) != 0) {
        return;
    }
    model->troubles--;
    if (alive > 1 && !model->ranks[i].finished && mst_prng_below(&model->prng, 2) == 0) {
        model->ranks[i].alive = false;
        model_raise(model, MST_INTERRUPT);
        model_settle(model);
    } else {
        model_raise(model, MST_GROW);
    }
}

/* One thing happens to one rank. False when there was nothing to happen. */
static void model_step(struct model *model)
{
    uint32_t i = (uint32_t)mst_prng_below(&model->prng, RANKS);
    struct model_rank *rank = &model->ranks[i];
    uint64_t dice = mst_prng_below(&model->prng, 4);

    model->now_ns += mst_prng_below(&model->prng, MS);
    if (!rank->alive) {
        return;
    }
    if (dice == 0 && rank->up_start != rank->up_end) {
        model_request(model, i);
    } else if (dice == 1 && rank->down_start != rank->down_end) {
        model_down(model, rank);
    } else if (dice == 2 && rank->inside) {
        model_function(model, rank);
    } else if (dice == 3) {
        model_trouble(model, i);
    }
    mst_restart_tick(rank->restart, model->now_ns);
    model_drain(rank);
}

static bool model_over(const struct model *model)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        if (model->ranks[i].alive && !model->ranks[i].finished) {
            return false;
        }
    }
    return true;
}

static uint64_t model_run(uint64_t seed)
{
    static struct model model;
    uint64_t generation = 0;
    uint64_t digest = 0;

    model = (struct model){.prng = {seed}, .generation = 1};
    model.troubles = (uint32_t)mst_prng_below(&model.prng, 6);
    for (uint32_t i = 0; i < RANKS; i++) {
        model.member[i] = true;
        model.ranks[i].alive = true;
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        struct mst_view view = model_view(&model, i);

        model.ranks[i].restart = restart_new();
        mst_restart_start(model.ranks[i].restart, 0, &view);
        model_drain(&model.ranks[i]);
    }
    for (uint32_t steps = 0; !model_over(&model); steps++) {
        assert_true(steps < 200000);
        model_step(&model);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        struct model_rank *rank = &model.ranks[i];

        if (rank->alive) {
            assert_int_equal(rank->result, MUSTER_OK);
            assert_true(generation == 0 || generation == rank->finished_in);
            generation = rank->finished_in;
        }
        digest = digest * 31 + mst_restart_digest(rank->restart);
        mst_restart_free(rank->restart);
    }
    return digest;
}

/* All who live are done in one generation, nobody hangs, the same seed gives the same run. */
static void test_together(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_true(model_run(seed) == model_run(seed));
    }
    assert_int_equal(allocated, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_birth),
        cmocka_unit_test(test_done),
        cmocka_unit_test(test_round_parameters),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_backoff),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_failed_by_return),
        cmocka_unit_test(test_failed_by_call),
        cmocka_unit_test(test_fault_text_cut),
        cmocka_unit_test(test_completing_interrupted),
        cmocka_unit_test(test_completion_refused),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_fenced),
        cmocka_unit_test(test_seal_without_view),
        cmocka_unit_test(test_broken_before_entry),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_ended),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
