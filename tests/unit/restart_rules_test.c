/* SPDX-License-Identifier: Apache-2.0 */
/* What all agree on at a seal, and when a run is given up: the vector, and the machine with it.
 *
 * behaviour: restart / Hangs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "restart/restart.h"
#include "restart/vote.h"

#define MS UINT64_C(1000000)
#define NOTHING mst_slice_of(NULL, 0)

enum { RANKS = 3 };

static struct failing_mem memory;

/* ---- the vector ---- */

static int64_t element(const unsigned char *vector, size_t at)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < 8; i++) {
        number |= (uint64_t)vector[8 * at + i] << (8 * i);
    }
    return (int64_t)number;
}

/* What the service makes of them. */
static void greatest(unsigned char *into, const unsigned char *more)
{
    for (size_t at = 0; at < MST_VOTE_LENGTH; at++) {
        if (element(more, at) > element(into, at)) {
            memcpy(into + 8 * at, more + 8 * at, 8);
        }
    }
}

static struct mst_vote vote_of(uint64_t iteration, uint64_t pings)
{
    struct mst_vote vote;

    mst_vote_begin(&vote, 4);
    vote.iteration = iteration;
    vote.entered = true;
    vote.pings = pings;
    vote.moved = pings > 0;
    return vote;
}

static struct mst_vote_result agree(struct mst_vote *votes, uint32_t count, uint64_t before,
                                    uint64_t after)
{
    unsigned char all[MST_VOTE_SIZE], one[MST_VOTE_SIZE];
    struct mst_vote_result result = {0};

    for (uint32_t i = 0; i < count; i++) {
        mst_vote_write(&votes[i], i, before, one);
        if (i == 0) {
            memcpy(all, one, sizeof(all));
        } else {
            greatest(all, one);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        result = mst_vote_take(&votes[i], mst_slice_of(all, sizeof(all)), after, false);
    }
    return result;
}

static void test_newcomer_takes_over_what_all_agreed_on(void **state)
{
    struct mst_vote votes[2] = {vote_of(7, 0), vote_of(7, 0)};
    struct mst_vote newcomer;
    unsigned char vector[MST_VOTE_SIZE];

    (void)state;
    votes[0].stalled = 2;
    votes[0].best = 40;
    mst_vote_write(&votes[0], 0, 9, vector);
    mst_vote_begin(&newcomer, 10);
    assert_true(mst_vote_take(&newcomer, mst_slice_of(vector, sizeof(vector)), 10, false).known);
    assert_int_equal(newcomer.iteration, 7);
    assert_int_equal(newcomer.base, 4);
    assert_int_equal(newcomer.best, 40);
    assert_int_equal(newcomer.stalled, 3);

    /* Nobody voted: it knows nothing of a run, so it begins one. */
    mst_vote_begin(&newcomer, 10);
    assert_false(mst_vote_take(&newcomer, NOTHING, 10, false).known);
    assert_int_equal(newcomer.iteration, 0);
    assert_int_equal(newcomer.base, 10);
}

static void test_shorter_vector_reads_as_zeros(void **state)
{
    struct mst_vote votes[1] = {vote_of(7, 5)};
    unsigned char vector[MST_VOTE_SIZE];
    struct mst_vote_result result;

    (void)state;
    votes[0].end = MST_END_ABORTED;
    mst_vote_write(&votes[0], 0, 4, vector);
    result = mst_vote_take(&votes[0], mst_slice_of(vector, (size_t)8 * MST_VOTE_END), 5, false);
    assert_true(result.known);
    assert_int_equal(result.end, MST_END_NONE);
    assert_false(result.has_lowest);
    assert_int_equal(votes[0].iteration, 7);
}

static void test_steps_tell_progress(void **state)
{
    struct mst_vote votes[2] = {vote_of(1, 9), vote_of(1, 9)};

    (void)state;
    votes[0].step = 10;
    votes[1].step = 12;
    (void)agree(votes, 2, 4, 5);
    assert_int_equal(votes[0].best, 12);
    assert_int_equal(votes[0].stalled, 0);
    /* The same step again is no progress, whatever is pinged. */
    for (uint64_t i = 1; i <= 3; i++) {
        votes[0].entered = true;
        votes[0].moved = true;
        votes[0].step = 12;
        (void)agree(votes, 2, 4 + i, 5 + i);
        assert_int_equal(votes[1].stalled, i);
    }
    votes[1].entered = true;
    votes[1].step = 13;
    (void)agree(votes, 2, 9, 10);
    assert_int_equal(votes[0].stalled, 0);
    /* Negative steps are steps. */
    mst_vote_begin(&votes[0], 0);
    votes[0].entered = true;
    votes[0].step = -5;
    (void)agree(votes, 1, 0, 1);
    assert_int_equal(votes[0].best, -5);
    assert_int_equal(votes[0].stalled, 0);
}

/* An attempt of both ranks that ended by a fault: attempts in a row without progress after it. */
static uint64_t attempted(struct mst_vote votes[2], int64_t first, int64_t last)
{
    uint64_t faults = votes[0].iteration++;

    for (int i = 0; i < 2; i++) {
        votes[i].iteration = faults + 1;
        votes[i].entered = true;
        votes[i].moved = true;
        votes[i].first = first;
        votes[i].step = last - (i > 0 && last > first); /* one behind */
    }
    (void)agree(votes, 2, faults, faults + 1);
    assert_int_equal(votes[0].stalled, votes[1].stalled);
    return votes[0].stalled;
}

/* A job went far back. The count of steps begins anew. [Fewer, and the end] */
static void test_far_rollback_begins_a_new_count_of_steps(void **state)
{
    struct mst_vote votes[2] = {vote_of(1, 9), vote_of(1, 9)};

    (void)state;
    assert_int_equal(attempted(votes, 0, 5000), 0);
    /* What is left is an old checkpoint: all of this is progress, below what was reached before. */
    assert_int_equal(attempted(votes, 4800, 5100), 0);
    for (int64_t step = 1000; step < 4000; step += 100) {
        assert_int_equal(attempted(votes, step, step + 150), 0);
    }
    /* Killed sooner than the attempt before, once: that was none. */
    assert_int_equal(attempted(votes, 4000, 4020), 1);
    assert_int_equal(attempted(votes, 4000, 4200), 0);
    /* A second one, which goes less far back. */
    assert_int_equal(attempted(votes, 3000, 3100), 0);
    assert_int_equal(attempted(votes, 3100, 3200), 0);
    /* It went back and got nowhere; from there on any step is progress. */
    assert_int_equal(attempted(votes, 2000, 2000), 1);
    assert_int_equal(attempted(votes, 2500, 2500), 0);
}

/* A job fails at the same step again and again. Running in circles is no progress.
 * [Fewer, and the end] */
static void test_running_in_circles_is_no_progress(void **state)
{
    struct mst_vote votes[2] = {vote_of(1, 9), vote_of(1, 9)};

    (void)state;
    /* It fails at step 110 each time, after a checkpoint at 100. */
    assert_int_equal(attempted(votes, 0, 105), 0);
    assert_int_equal(attempted(votes, 100, 110), 0);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(attempted(votes, 100, 110), i);
    }
    /* The same, where what ranks hold in memory differs by one. */
    assert_int_equal(attempted(votes, 100, 120), 0);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(attempted(votes, i % 2 ? 119 : 120, 120), i);
    }
    /* From the beginning each time. */
    assert_int_equal(attempted(votes, 0, 50), 0);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(attempted(votes, 0, 50 - (int64_t)i), i);
    }
}

/* A newcomer enters after a rollback. It knows how far the job went back. [Fewer, and the end] */
static void test_newcomer_knows_how_far_the_job_went_back(void **state)
{
    struct mst_vote votes[2] = {vote_of(1, 9), vote_of(1, 9)};
    struct mst_vote newcomer;
    unsigned char vector[MST_VOTE_SIZE];

    (void)state;
    (void)attempted(votes, 500, 900);
    (void)attempted(votes, 100, 200);
    mst_vote_write(&votes[0], 0, 9, vector);
    mst_vote_begin(&newcomer, 10);
    (void)mst_vote_take(&newcomer, mst_slice_of(vector, sizeof(vector)), 9, false);
    assert_int_equal(newcomer.best, 200);
    votes[1] = newcomer;
    assert_int_equal(attempted(votes, 100, 200), 1);
}

static void test_growth_is_no_attempt_without_progress(void **state)
{
    struct mst_vote votes[2] = {vote_of(1, 0), vote_of(1, 0)};

    (void)state;
    (void)agree(votes, 2, 4, 4);
    assert_int_equal(votes[0].stalled, 0);
    votes[0].entered = true;
    (void)agree(votes, 2, 4, 5);
    assert_int_equal(votes[0].stalled, 1);
    /* A generation that nobody entered counts for neither. */
    (void)agree(votes, 2, 5, 6);
    assert_int_equal(votes[1].stalled, 1);
    votes[1].entered = true;
    votes[1].moved = true;
    (void)agree(votes, 2, 6, 7);
    assert_int_equal(votes[0].stalled, 0);
}

static void test_lowest(void **state)
{
    struct mst_vote votes[RANKS] = {vote_of(1, 9), vote_of(1, 4), vote_of(1, 8)};
    struct mst_vote_result result = agree(votes, RANKS, 4, 5);

    (void)state;
    assert_true(result.has_lowest);
    assert_int_equal(result.lowest, 1);
    for (uint32_t i = 0; i < RANKS; i++) {
        votes[i] = vote_of(2, UINT64_MAX);
    }
    assert_false(agree(votes, RANKS, 5, 6).has_lowest); /* all are equal */
    votes[0] = vote_of(3, 5);
    votes[1] = vote_of(3, 5);
    votes[2] = vote_of(3, 0);
    votes[2].entered = false; /* a newcomer does not stand lowest */
    assert_false(agree(votes, RANKS, 6, 7).has_lowest);
    votes[0] = vote_of(4, 5);
    assert_false(agree(votes, 1, 7, 8).has_lowest); /* nobody stood higher, or waited */
}

/* Two ranks are equally low. Neither is the lowest: not both are why the others waited. */
static void test_of_equal_ones_none_is_the_lowest(void **state)
{
    struct mst_vote votes[RANKS] = {vote_of(1, 4), vote_of(1, 9), vote_of(1, 4)};

    (void)state;
    assert_false(agree(votes, RANKS, 4, 5).has_lowest);
    votes[0] = vote_of(1, UINT64_MAX);
    votes[1] = vote_of(1, UINT64_C(1) << 41);
    votes[2] = vote_of(1, UINT64_C(1) << 26);
    assert_false(agree(votes, RANKS, 4, 5).has_lowest); /* beyond what is told apart */
}

/* Ranks have equally many pings. Their other calls tell which is the lowest. */
static void test_the_other_calls_tell_of_equal_pings(void **state)
{
    struct mst_vote votes[RANKS] = {vote_of(1, 4), vote_of(1, 4), vote_of(1, 4)};
    struct mst_vote_result result;

    (void)state;
    votes[0].checks = 8;
    votes[1].checks = 8;
    votes[2].checks = 7;
    result = agree(votes, RANKS, 4, 5);
    assert_true(result.has_lowest);
    assert_int_equal(result.lowest, 2);
    for (uint32_t i = 0; i < RANKS; i++) {
        votes[i] = vote_of(1, i == 1 ? 3 : 4);
        votes[i].checks = i == 1 ? UINT64_MAX : 0; /* of more pings no call makes up for one less */
    }
    result = agree(votes, RANKS, 4, 5);
    assert_true(result.has_lowest);
    assert_int_equal(result.lowest, 1);
}

/* Ranks that waited are as low as may be. They are not the lowest: they are not what was waited
 * for. */
static void test_ranks_that_waited_are_not_the_lowest(void **state)
{
    struct mst_vote votes[RANKS] = {vote_of(1, 40), vote_of(1, 4), vote_of(1, 5)};
    struct mst_vote_result result;

    (void)state;
    votes[1].waited = votes[2].waited = true;
    result = agree(votes, RANKS, 4, 5);
    assert_true(result.has_lowest);
    assert_int_equal(result.lowest, 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        votes[i] = vote_of(1, i);
        votes[i].waited = true;
    }
    assert_false(agree(votes, RANKS, 5, 6).has_lowest);
}

/* A rank of an older version stands lower by its pings alone. It is the lowest. */
static void test_an_older_rank_that_stands_lower(void **state)
{
    unsigned char mine[MST_VOTE_SIZE], older[MST_VOTE_SIZE];

    (void)state;
    for (uint64_t pings = 3; pings <= 5; pings++) {
        struct mst_vote vote = vote_of(1, 9), low = vote_of(1, 4), old = vote_of(1, pings);
        struct mst_vote_result result;
        unsigned char all[MST_VOTE_SIZE];

        mst_vote_write(&vote, 0, 4, all);
        mst_vote_write(&low, 1, 4, mine);
        mst_vote_write(&old, 2, 4, older);
        memset(older + (size_t)8 * MST_VOTE_LAST_LOW, 0,
               MST_VOTE_SIZE - (size_t)8 * MST_VOTE_LAST_LOW);
        greatest(all, mine);
        greatest(all, older);
        result = mst_vote_take(&vote, mst_slice_of(all, sizeof(all)), 5, false);
        assert_int_equal(result.has_lowest, pings >= 4);
        assert_int_equal(result.lowest, 1);
    }
}

/* ---- the machine ---- */

static struct mst_restart_config config = {.barrier_timeout_ms = 1000, .stalled_max = -1};

static struct mst_view view_of(uint64_t generation, uint64_t faults)
{
    return (struct mst_view){
        .generation = generation, .size = 4, .rank = 1, .index = 1, .faults = faults};
}

/* The next effect, which must be of this type. */
static struct mst_restart_effect next_of(struct mst_restart *restart,
                                         enum mst_machine_effect_kind kind)
{
    const struct mst_restart_effect *effect = mst_restart_machine.next(restart);
    struct mst_restart_effect copy;

    assert_non_null(effect);
    assert_int_equal(effect->head.kind, kind);
    copy = *effect;
    if (copy.head.request) { /* what is asked for stays in the machine until the next effect */
        static struct mst_request request;

        request = *copy.head.request;
        copy.head.request = &request;
    }
    mst_restart_check(restart);
    return copy;
}

static struct mst_restart_effect next(struct mst_restart *restart,
                                      enum mst_restart_effect_type type)
{
    struct mst_restart_effect effect = next_of(restart, MST_MACHINE_OWN);

    assert_int_equal(effect.type, type);
    return effect;
}

static void quiet(struct mst_restart *restart)
{
    assert_null(mst_restart_machine.next(restart));
}

static struct mst_restart *running(void)
{
    struct mst_view view = view_of(1, 0);
    struct mst_restart *restart;

    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    mst_restart_start(restart, 0, &view);
    (void)next(restart, MST_RESTART_ENTER);
    return restart;
}

/* The function fails, is unwound, and this rank stands at the seal: its tag. */
static uint64_t fails(struct mst_restart *restart)
{
    struct mst_restart_effect effect;

    mst_restart_returned(restart, 0, MUSTER_EFAILED, false);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_FAULT);
    (void)next(restart, MST_RESTART_UNWIND);
    mst_restart_unwound(restart, 0, MUSTER_OK, MST_WHY_REPLY, 0, NOTHING);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_true(effect.head.request->round.seal);
    assert_int_equal(effect.head.request->round.reduce, MST_REDUCE_MAX);
    assert_int_equal(effect.head.request->round.data.size, MST_VOTE_SIZE);
    return effect.head.tag;
}

/* The seal is answered with this rank's own vote as the greatest, or with `vote`. */
static void sealed(struct mst_restart *restart, uint64_t tag, uint64_t generation, uint64_t faults,
                   const struct mst_vote *vote, const struct mst_item *items, uint32_t count)
{
    unsigned char vector[MST_VOTE_SIZE];
    struct mst_reply reply = {.status = MUSTER_OK,
                              .has_view = true,
                              .view = view_of(generation, faults),
                              .items = items,
                              .item_count = count,
                              .next = count};

    mst_vote_write(vote, 1, faults - 1, vector);
    reply.value = mst_slice_of(vector, sizeof(vector));
    mst_restart_machine.reply(restart, 0, tag, &reply);
    mst_restart_check(restart);
}

static struct mst_vote plain_vote(uint64_t iteration)
{
    struct mst_vote vote;

    mst_vote_begin(&vote, 0);
    vote.iteration = iteration;
    vote.entered = true;
    return vote;
}

static void test_stops_after_exactly_so_many_attempts(void **state)
{
    struct mst_restart *restart;
    struct mst_restart_effect effect;

    (void)state;
    config.iterations_max = 3;
    restart = running();
    for (uint64_t attempt = 1; attempt <= 3; attempt++) {
        struct mst_vote vote = plain_vote(attempt);
        uint64_t tag = fails(restart);

        sealed(restart, tag, attempt + 1, attempt, &vote, NULL, 0);
        if (attempt < 3) {
            assert_int_equal(next(restart, MST_RESTART_ENTER).iteration, attempt);
        }
    }
    effect = next(restart, MST_RESTART_FINISH);
    assert_int_equal(effect.status, MUSTER_EFAILED);
    assert_int_equal(effect.why, MST_WHY_ITERATIONS);
    mst_restart_free(restart);
}

static void test_stops_when_attempts_make_no_progress(void **state)
{
    struct mst_restart *restart;
    struct mst_vote vote = plain_vote(1);
    struct mst_restart_effect effect;

    (void)state;
    config.stalled_max = 3;
    restart = running();
    vote.stalled = 1;
    sealed(restart, fails(restart), 2, 1, &vote, NULL, 0);
    (void)next(restart, MST_RESTART_ENTER);
    vote.stalled = 2;
    sealed(restart, fails(restart), 3, 2, &vote, NULL, 0);
    effect = next(restart, MST_RESTART_FINISH);
    assert_int_equal(effect.why, MST_WHY_STALLED);
    mst_restart_free(restart);
}

/* Whoever asks again and again to begin again does not run in circles. */
static void test_asked_for_is_not_without_progress(void **state)
{
    static const enum mst_cause asked[] = {MST_CAUSE_AGAIN, MST_CAUSE_LEFT};
    struct mst_restart *restart;
    struct mst_vote vote = plain_vote(1);

    (void)state;
    config.stalled_max = 3;
    restart = running();
    vote.stalled = 2;
    for (uint64_t i = 0; i < 2; i++) {
        struct mst_item item = {.kind = MST_ITEM_FAULT, .who = {.cause = asked[i]}};

        sealed(restart, fails(restart), 2 + i, 1 + i, &vote, &item, 1);
        (void)next(restart, MST_RESTART_ENTER);
    }
    mst_restart_free(restart);
}

/* Long enough is progress where nobody pings; what this rank says of itself. */
static void test_vote_of_an_attempt(void **state)
{
    struct mst_restart *restart;
    struct mst_restart_effect effect;

    (void)state;
    config.soft_timeout_ms = 50;
    restart = running();
    mst_restart_progress(restart, &(struct mst_restart_progress){.first = 70, .step = 77});
    mst_restart_returned(restart, 50 * MS, MUSTER_EINTERRUPTED, true);
    (void)next(restart, MST_RESTART_UNWIND);
    mst_restart_unwound(restart, 50 * MS, MUSTER_OK, MST_WHY_REPLY, 0, NOTHING);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(element(effect.head.request->round.data.data, MST_VOTE_MOVED), 1);
    assert_int_equal(element(effect.head.request->round.data.data, MST_VOTE_BEST), 77);
    assert_int_equal(element(effect.head.request->round.data.data, MST_VOTE_ITERATION), 1);
    assert_int_equal(element(effect.head.request->round.data.data, MST_VOTE_ENTERED), 1);
    mst_restart_free(restart);
}

static void test_abort_ends_all(void **state)
{
    struct mst_restart *restart = running();
    struct mst_vote vote = plain_vote(1);
    struct mst_restart_effect effect;

    (void)state;
    mst_restart_failed(restart, 0, MST_CAUSE_ABORTED, 5, mst_slice_text("wrong input"));
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->fault.kind, MST_CAUSE_ABORTED);
    mst_restart_returned(restart, 0, MUSTER_EFAILED, false);
    effect = next(restart, MST_RESTART_UNWIND);
    assert_int_equal(effect.faults->count, 1);
    assert_string_equal(effect.faults->first[0].text, "wrong input");
    mst_restart_unwound(restart, 0, MUSTER_OK, MST_WHY_REPLY, 0, NOTHING);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(element(effect.head.request->round.data.data, MST_VOTE_END), MST_END_ABORTED);
    vote.end = MST_END_ABORTED;
    sealed(restart, effect.head.tag, 2, 1, &vote, NULL, 0);
    effect = next(restart, MST_RESTART_FINISH);
    assert_int_equal(effect.status, MUSTER_EFAILED);
    assert_int_equal(effect.why, MST_WHY_ABORTED);
    mst_restart_free(restart);

    /* Who asked for it died before the seal: the record says so as well. */
    restart = running();
    vote.end = MST_END_NONE;
    sealed(restart, fails(restart), 2, 1, &vote,
           &(struct mst_item){.kind = MST_ITEM_FAULT,
                              .who = {.cause = MST_CAUSE_ABORTED, .index = 3},
                              .value = mst_slice_text("wrong input")},
           1);
    effect = next(restart, MST_RESTART_FINISH);
    assert_int_equal(effect.why, MST_WHY_ABORTED);
    assert_string_equal(effect.faults->first[0].text, "wrong input");
    mst_restart_free(restart);
}

static void test_records_reach_the_next_entry(void **state)
{
    struct mst_restart *restart = running();
    struct mst_vote vote = plain_vote(1);
    char words[600];
    struct mst_item items[2] = {{.kind = MST_ITEM_FAULT,
                                 .number = 1,
                                 .arrived = 30,
                                 .expected = 3,
                                 .who = {.cause = MST_CAUSE_SOFT_TIMEOUT,
                                         .index = 2,
                                         .rank = 2,
                                         .incarnation = 4,
                                         .host = {"node7", 5},
                                         .heard_ms = 12}},
                                {.kind = MST_ITEM_FAULT, .who = {.cause = MST_CAUSE_SIGNAL}}};
    struct mst_restart_effect effect;
    struct mst_restart_effect unwind;

    (void)state;
    memset(words, 'w', sizeof(words));
    items[0].value = mst_slice_of(words, sizeof(words));
    sealed(restart, fails(restart), 2, 1, &vote, items, 2);
    memset(words, '!', sizeof(words)); /* they were borrowed */
    effect = next(restart, MST_RESTART_ENTER);
    assert_int_equal(effect.faults->count, 2);
    assert_int_equal(effect.faults->total, 2);
    assert_int_equal(effect.faults->first[0].kind, MST_CAUSE_SOFT_TIMEOUT);
    assert_int_equal(effect.faults->first[0].detector, 2);
    assert_int_equal(effect.faults->first[1].detector, -1);
    assert_int_equal(effect.faults->first[0].after_ms, 30);
    assert_int_equal(effect.faults->first[0].wall_ms, -12);
    assert_string_equal(effect.faults->first[0].host, "node7");
    assert_int_equal(strlen(effect.faults->first[0].text),
                     sizeof(effect.faults->first[0].text) - 1);
    assert_int_equal(effect.faults->first[0].text[0], 'w');
    /* The next attempt ends by nothing this rank knows of. */
    mst_restart_returned(restart, 0, MUSTER_EINTERRUPTED, true);
    unwind = next(restart, MST_RESTART_UNWIND);
    assert_int_equal(unwind.faults->count, 0);
    mst_restart_free(restart);
}

/* Of ranks 0 and 1, which vote after each of two attempts that hung, 1 stands lower each time. In
 * the last one another rank was ended, or none. */
static struct mst_restart *lowest_twice(bool other_ended)
{
    const struct mst_item faults[] = {
        {.kind = MST_ITEM_FAULT, .who = {.cause = MST_CAUSE_SOFT_TIMEOUT, .index = 1}},
        {.kind = MST_ITEM_FAULT, .who = {.cause = MST_CAUSE_HARD_TIMEOUT, .index = 2}}};
    struct mst_restart *restart = running();

    for (uint64_t attempt = 1; attempt <= 2; attempt++) {
        struct mst_vote vote = plain_vote(attempt);
        unsigned char mine[MST_VOTE_SIZE], other[MST_VOTE_SIZE];
        uint64_t tag = fails(restart);
        struct mst_reply reply = {.status = MUSTER_OK,
                                  .has_view = true,
                                  .view = view_of(attempt + 1, attempt),
                                  .items = faults,
                                  .item_count = attempt == 2 && other_ended ? 2 : 1,
                                  .next = 1};

        vote.pings = 3;
        mst_vote_write(&vote, 1, attempt - 1, mine);
        vote.pings = 8;
        mst_vote_write(&vote, 0, attempt - 1, other);
        greatest(mine, other);
        reply.value = mst_slice_of(mine, sizeof(mine));
        mst_restart_machine.reply(restart, 0, tag, &reply);
        if (attempt == 1) {
            (void)next(restart, MST_RESTART_ENTER);
        }
    }
    return restart;
}

static void test_a_rank_that_was_ended_stood_lower(void **state)
{
    struct mst_restart *restart = lowest_twice(true);

    (void)state;
    (void)next(restart, MST_RESTART_ENTER);
    mst_restart_free(restart);
}

static void test_suspect_twice_leaves(void **state)
{
    struct mst_restart *restart = lowest_twice(false);
    struct mst_restart_effect effect;

    (void)state;
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_FAULT);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_LEAVE);
    mst_restart_machine.reply(restart, 0, effect.head.tag,
                              &(struct mst_reply){.status = MUSTER_OK});
    effect = next(restart, MST_RESTART_FINISH);
    assert_int_equal(effect.status, MUSTER_EFAILED);
    assert_int_equal(effect.why, MST_WHY_SUSPECT);
    mst_restart_free(restart);
}

static void test_not_well_after_unwinding_leaves(void **state)
{
    struct mst_restart *restart = running();
    struct mst_restart_effect effect;

    (void)state;
    mst_restart_returned(restart, 0, MUSTER_EINTERRUPTED, true);
    (void)next(restart, MST_RESTART_UNWIND);
    quiet(restart); /* nothing before the answer */
    mst_restart_unwound(restart, 0, MUSTER_EUNHEALTHY, MST_WHY_UNHEALTHY, 31,
                        mst_slice_text("the disk is full"));
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->fault.kind, MST_CAUSE_UNHEALTHY);
    assert_int_equal(effect.head.request->fault.code, 31);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_LEAVE);
    mst_restart_machine.reply(restart, 0, effect.head.tag,
                              &(struct mst_reply){.status = MUSTER_OK});
    effect = next(restart, MST_RESTART_FINISH);
    assert_int_equal(effect.status, MUSTER_EUNHEALTHY);
    assert_int_equal(effect.why, MST_WHY_UNHEALTHY);
    mst_restart_free(restart);

    /* A fault told before is not told again. */
    restart = running();
    mst_restart_returned(restart, 0, MUSTER_EFAILED, false);
    (void)next_of(restart, MST_MACHINE_CALL);
    (void)next(restart, MST_RESTART_UNWIND);
    mst_restart_unwound(restart, 0, (muster_status)9, MST_WHY_FINALIZE, MUSTER_EFAILED,
                        mst_slice_text("x"));
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_LEAVE);
    mst_restart_machine.ended(restart, 0, MUSTER_EFENCED);
    effect = next(restart, MST_RESTART_FINISH);
    assert_int_equal(effect.status, 9);
    assert_int_equal(effect.why, MST_WHY_FINALIZE);
    mst_restart_free(restart);
}

static void test_completion_too_late_is_a_fault(void **state)
{
    struct mst_restart *restart;
    struct mst_reply late = {
        .status = MUSTER_ETIMEDOUT, .has_detail = true, .detail = {.arrived = 3, .expected = 4}};
    struct mst_restart_effect effect;

    (void)state;
    config.completion_timeout_ms = 5000;
    config.faults_max = 1;
    restart = running();
    mst_restart_returned(restart, 0, MUSTER_OK, false);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->round.deadline_ms, 5000);
    assert_true(effect.head.request->round.final);
    mst_restart_machine.reply(restart, 0, effect.head.tag, &late);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->fault.code, MUSTER_ETIMEDOUT);
    assert_memory_equal(effect.head.request->fault.text.data, "3 of 4 were done within 5.0 s", 29);
    (void)next(restart, MST_RESTART_UNWIND);
    mst_restart_free(restart);
}

static void test_settle_waits_for_more_faults(void **state)
{
    struct mst_restart *restart;
    struct mst_view view = view_of(1, 0);
    struct mst_restart_effect effect;

    (void)state;
    config.settle_ms = 20;
    restart = running();
    view.attention = MST_INTERRUPT;
    mst_restart_machine.attention(restart, 100 * MS, &view, false);
    quiet(restart);
    assert_true(mst_restart_machine.deadline_ns(restart) == 120 * MS);
    mst_restart_machine.tick(restart, 120 * MS - 1);
    quiet(restart);
    mst_restart_machine.tick(restart, 120 * MS);
    (void)next(restart, MST_RESTART_TELL);
    (void)next(restart, MST_RESTART_INTERRUPT);
    mst_restart_free(restart);

    /* A failure within it is this rank's own, and success is none. */
    restart = running();
    mst_restart_machine.attention(restart, 100 * MS, &view, false);
    mst_restart_returned(restart, 101 * MS, MUSTER_EFAILED, false);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_FAULT);
    (void)next(restart, MST_RESTART_UNWIND);
    mst_restart_free(restart);
    restart = running();
    mst_restart_machine.attention(restart, 100 * MS, &view, false);
    mst_restart_returned(restart, 101 * MS, MUSTER_OK, false);
    (void)next(restart, MST_RESTART_UNWIND);
    mst_restart_free(restart);

    /* Who must stop for its lease must stop now. */
    restart = running();
    mst_restart_machine.attention(restart, 100 * MS, &view, true);
    (void)next(restart, MST_RESTART_TELL);
    (void)next(restart, MST_RESTART_INTERRUPT);
    mst_restart_free(restart);
}

/* ---- spares and newcomers ---- */

static void test_newcomer_asks_what_was_told_with_its_seat(void **state)
{
    const struct mst_item fault = {.kind = MST_ITEM_FAULT, .who = {.cause = MST_CAUSE_EXIT}};
    struct mst_restart *restart;
    struct mst_view view = view_of(5, 3);
    struct mst_vote vote = plain_vote(4);
    struct mst_restart_effect effect;

    (void)state;
    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    mst_restart_start(restart, 0, &view);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_JOIN);
    assert_false(effect.head.request->join.spare);
    sealed(restart, effect.head.tag, 5, 3, &vote, &fault, 1);
    effect = next(restart, MST_RESTART_ENTER);
    assert_int_equal(effect.iteration, 4);
    assert_int_equal(effect.faults->count, 1);
    mst_restart_free(restart);

    /* What ended the run of the others ends its own. */
    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    mst_restart_start(restart, 0, &view);
    effect = next_of(restart, MST_MACHINE_CALL);
    vote.end = MST_END_ABORTED;
    sealed(restart, effect.head.tag, 5, 3, &vote, NULL, 0);
    assert_int_equal(next(restart, MST_RESTART_FINISH).why, MST_WHY_ABORTED);
    mst_restart_free(restart);
}

static struct mst_view spare_view(uint64_t generation)
{
    struct mst_view view = view_of(generation, 0);

    view.rank = MST_RANK_NONE;
    view.spare = true;
    return view;
}

static void test_spare_waits_for_a_seat(void **state)
{
    struct mst_restart *restart;
    struct mst_view view = spare_view(3);
    struct mst_vote vote = plain_vote(2);
    struct mst_restart_effect effect;

    (void)state;
    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    mst_restart_start(restart, 0, &view);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_JOIN);
    view.attention = MST_INTERRUPT; /* of a generation that is not its own */
    mst_restart_machine.attention(restart, 0, &view, false);
    quiet(restart);
    sealed(restart, effect.head.tag, 4, 1, &vote, NULL, 0);
    assert_int_equal(next(restart, MST_RESTART_ENTER).iteration, 2);
    mst_restart_free(restart);
}

static void test_spare_that_is_not_needed_is_done(void **state)
{
    struct mst_restart *restart;
    struct mst_view view = spare_view(3);
    struct mst_restart_effect effect;

    (void)state;
    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    mst_restart_start(restart, 0, &view);
    effect = next_of(restart, MST_MACHINE_CALL);
    mst_restart_machine.reply(
        restart, 0, effect.head.tag,
        &(struct mst_reply){.status = MUSTER_OK, .has_view = true, .view = view});
    assert_int_equal(next(restart, MST_RESTART_FINISH).status, MUSTER_OK);

    /* And one whose session ends. */
    mst_restart_start(restart, 0, &view);
    (void)next_of(restart, MST_MACHINE_CALL);
    mst_restart_machine.ended(restart, 0, MUSTER_EFENCED);
    assert_int_equal(next(restart, MST_RESTART_FINISH).status, MUSTER_EFENCED);
    mst_restart_free(restart);
}

/* A JOIN says how many ends of runs this rank knows of: what it was told of and its own. */
static void test_ends_of_runs_are_counted(void **state)
{
    struct mst_restart_config late = config;
    struct mst_restart *restart;
    struct mst_view view = spare_view(3);
    struct mst_restart_effect effect;

    (void)state;
    late.heard = 4;
    assert_int_equal(mst_restart_new(&restart, &late, &memory.mem), MUSTER_OK);
    for (uint64_t heard = 4; heard < 6; heard++) {
        mst_restart_start(restart, 0, &view);
        effect = next_of(restart, MST_MACHINE_CALL);
        assert_int_equal(effect.head.request->join.heard, heard);
        mst_restart_machine.reply(
            restart, 0, effect.head.tag,
            &(struct mst_reply){
                .status = MUSTER_OK, .number = (int64_t)heard + 1, .has_view = true, .view = view});
        effect = next(restart, MST_RESTART_FINISH);
        assert_int_equal(effect.status, MUSTER_OK);
        assert_int_equal(effect.heard, heard + 1);
    }

    /* With a seat it is where the job is; from there it counts what it completes itself. */
    mst_restart_start(restart, 0, &view);
    effect = next_of(restart, MST_MACHINE_CALL);
    view = view_of(4, 1);
    mst_restart_machine.reply(
        restart, 0, effect.head.tag,
        &(struct mst_reply){.status = MUSTER_OK, .number = 1, .has_view = true, .view = view});
    (void)next(restart, MST_RESTART_ENTER);
    mst_restart_returned(restart, 0, MUSTER_OK, false);
    effect = next_of(restart, MST_MACHINE_CALL);
    mst_restart_machine.reply(restart, 0, effect.head.tag,
                              &(struct mst_reply){.status = MUSTER_OK});
    assert_int_equal(next(restart, MST_RESTART_FINISH).heard, 2);
    mst_restart_free(restart);
}

static void test_passed_over_at_the_seal_waits(void **state)
{
    struct mst_restart *restart = running();
    struct mst_reply reply = {.status = MUSTER_OK, .has_view = true, .view = spare_view(2)};
    struct mst_vote vote = plain_vote(3);
    struct mst_restart_effect effect;
    unsigned char vector[MST_VOTE_SIZE];

    (void)state;
    mst_vote_write(&vote, 1, 0, vector);
    reply.value = mst_slice_of(vector, sizeof(vector));
    mst_restart_machine.reply(restart, 0, fails(restart), &reply);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_JOIN);
    sealed(restart, effect.head.tag, 3, 2, &vote, NULL, 0);
    assert_int_equal(next(restart, MST_RESTART_ENTER).iteration, 3);
    mst_restart_free(restart);

    /* All others are gone, and it is in a generation from nobody: that is another run. */
    restart = running();
    mst_restart_machine.reply(restart, 0, fails(restart), &reply);
    effect = next_of(restart, MST_MACHINE_CALL);
    mst_restart_machine.reply(
        restart, 0, effect.head.tag,
        &(struct mst_reply){.status = MUSTER_OK, .has_view = true, .view = view_of(3, 2)});
    assert_int_equal(next(restart, MST_RESTART_ENTER).iteration, 0);
    mst_restart_free(restart);

    /* A rule that ends the run ends it for who is passed over too. */
    restart = running();
    vote.end = MST_END_ABORTED;
    mst_vote_write(&vote, 1, 0, vector);
    mst_restart_machine.reply(restart, 0, fails(restart), &reply);
    assert_int_equal(next(restart, MST_RESTART_FINISH).why, MST_WHY_ABORTED);
    mst_restart_free(restart);
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
    config = (struct mst_restart_config){.barrier_timeout_ms = 1000, .stalled_max = -1};
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, before_each, after_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_newcomer_takes_over_what_all_agreed_on),
        TEST(test_shorter_vector_reads_as_zeros),
        TEST(test_steps_tell_progress),
        TEST(test_far_rollback_begins_a_new_count_of_steps),
        TEST(test_running_in_circles_is_no_progress),
        TEST(test_newcomer_knows_how_far_the_job_went_back),
        TEST(test_growth_is_no_attempt_without_progress),
        TEST(test_lowest),
        TEST(test_of_equal_ones_none_is_the_lowest),
        TEST(test_the_other_calls_tell_of_equal_pings),
        TEST(test_ranks_that_waited_are_not_the_lowest),
        TEST(test_an_older_rank_that_stands_lower),
        TEST(test_stops_after_exactly_so_many_attempts),
        TEST(test_stops_when_attempts_make_no_progress),
        TEST(test_asked_for_is_not_without_progress),
        TEST(test_vote_of_an_attempt),
        TEST(test_abort_ends_all),
        TEST(test_records_reach_the_next_entry),
        TEST(test_suspect_twice_leaves),
        TEST(test_a_rank_that_was_ended_stood_lower),
        TEST(test_not_well_after_unwinding_leaves),
        TEST(test_completion_too_late_is_a_fault),
        TEST(test_settle_waits_for_more_faults),
        TEST(test_newcomer_asks_what_was_told_with_its_seat),
        TEST(test_spare_waits_for_a_seat),
        TEST(test_spare_that_is_not_needed_is_done),
        TEST(test_ends_of_runs_are_counted),
        TEST(test_passed_over_at_the_seal_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
