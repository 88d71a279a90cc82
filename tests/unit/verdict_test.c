/* SPDX-License-Identifier: Apache-2.0 */
/* The one sentence about a job.
 *
 * behaviour: program / muster status */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/notice.h"
#include "proto/run_keys.h"
#include "view/span.h"
#include "view/unusual.h"
#include "view/verdict.h"

enum { SIZE = 4 };

#define TEXT(words) mst_slice_text(words)

/* A job of four ranks that run, generation 2. */
struct stage {
    struct mst_status status;
    struct mst_item job, members[SIZE + 2], rounds[2], fault, incident, notice, plain;
};

static struct mst_item rank(uint32_t index)
{
    return (struct mst_item){.kind = MST_ITEM_MEMBER,
                             .since_ms = 1 + 180000,
                             .who = {.index = index,
                                     .rank = index,
                                     .role = MST_ROLE_RANK,
                                     .state = MST_PRESENT,
                                     .host = TEXT("b2")}};
}

static void set(struct stage *stage)
{
    *stage = (struct stage){.status = {.job = "train", .address = "here"}};
    stage->job = (struct mst_item){.kind = MST_ITEM_JOB,
                                   .name = TEXT("train"),
                                   .number = 2,
                                   .arrived = SIZE,
                                   .expected = SIZE,
                                   .since_ms = 1 + 180000};
    for (uint32_t i = 0; i < SIZE; i++) {
        stage->members[i] = rank(i);
    }
    stage->status.jobs = (struct mst_items){.items = &stage->job, .count = 1};
    stage->status.members = (struct mst_items){.items = stage->members, .count = SIZE};
}

static void lose(struct stage *stage, uint32_t index)
{
    struct mst_item *member = &stage->members[index];

    member->who.state = MST_STATE_LOST;
    member->who.cause = MST_CAUSE_EXIT;
    member->who.code = 3;
    member->since_ms = 1 + 20000;
    stage->job.arrived--;
}

static void wait_in(struct stage *stage, struct mst_item *round)
{
    stage->status.rounds = (struct mst_items){.items = round, .count = 1};
}

static void expect(const struct stage *stage, const char *word, const char *level, uint32_t index,
                   const char *sentence)
{
    struct mst_job_verdict verdict;

    mst_job_verdict_of(&stage->status, &verdict);
    assert_string_equal(verdict.sentence, sentence);
    assert_string_equal(mst_job_verdict_word(verdict.kind), word);
    assert_string_equal(mst_job_verdict_level_word(verdict.level), level);
    assert_int_equal(verdict.index, index);
}

/* All ranks run, with spares or with ranks that do not use muster beside them. The sentence says
 * how many, and since when. */
static void all_is_well(void **state)
{
    struct stage stage;

    (void)state;
    set(&stage);
    expect(&stage, "runs", "good", MST_INDEX_ANY, "all 4 ranks run for 3 min");
    stage.members[SIZE] = rank(SIZE);
    stage.members[SIZE].who.state = MST_SPARE;
    stage.members[SIZE].who.rank = MST_RANK_NONE;
    stage.status.members.count = SIZE + 1;
    expect(&stage, "runs", "good", MST_INDEX_ANY, "all 4 ranks run for 3 min, and 1 spare waits");
    set(&stage);
    stage.job.expected = SIZE + 1;
    stage.plain = (struct mst_item){
        .kind = MST_ITEM_KEY, .name = TEXT(MST_RUN_PLAIN_PREFIX "0"), .value = TEXT("4:17")};
    stage.status.plain = (struct mst_items){.items = &stage.plain, .count = 1};
    expect(&stage, "runs", "good", MST_INDEX_ANY,
           "all 5 ranks run for 3 min, 1 of them without muster");
    stage.status.members.count = 0;
    expect(&stage, "plain", "good", MST_INDEX_ANY, "1 of 5 ranks run, without muster");
}

/* A job begins, and ends. Its ranks wait for others, or have left, or none of them is left. */
static void the_begin_and_the_end(void **state)
{
    struct stage stage;

    (void)state;
    set(&stage);
    stage.status.members.count = 0;
    expect(&stage, "empty", "note", MST_INDEX_ANY, "none of 4 ranks has joined yet");
    set(&stage);
    stage.status.members.count = 2;
    stage.job.number = 0;
    stage.job.arrived = 2;
    expect(&stage, "starts", "note", MST_INDEX_ANY,
           "2 of 4 ranks wait for the first generation for 3 min: #2, #3 are missing");
    set(&stage);
    stage.members[1].who.state = MST_LEFT;
    stage.job.arrived = 3;
    expect(&stage, "missing", "good", 1, "3 of 4 ranks run, and 1 has left");
    for (uint32_t i = 0; i < SIZE; i++) {
        stage.members[i].who.state = MST_LEFT;
    }
    stage.job.arrived = 0;
    expect(&stage, "finished", "good", MST_INDEX_ANY, "finished: all 4 ranks left");
    stage.job.arrived = 1;
    lose(&stage, 2);
    expect(&stage, "over", "trouble", 2, "no rank is left: rank 2 (#2) on b2 ended with status 3");
}

/* Ranks wait in a round. The one that is missing is named, or the first three with the number of
 * the others; a round that has just been opened is nothing unusual. */
static void who_waits_for_whom(void **state)
{
    static const uint32_t missing[] = {1, 2, 3, 9, 11};
    struct mst_item round = {.kind = MST_ITEM_ROUND,
                             .name = TEXT("epoch"),
                             .arrived = 3,
                             .expected = SIZE,
                             .since_ms = 1 + 12000,
                             .missing = missing,
                             .missing_count = 1};
    struct stage stage;

    (void)state;
    set(&stage);
    wait_in(&stage, &round);
    expect(&stage, "waits", "note", 1,
           "3 of 4 wait in 'epoch' for 12 s: rank 1 (#1) on b2 has not come");
    round.since_ms = 1 + 900;
    expect(&stage, "runs", "good", MST_INDEX_ANY, "all 4 ranks run for 3 min");
    round.since_ms = 0; /* an older service */
    expect(&stage, "waits", "note", 1, "3 of 4 wait in 'epoch': rank 1 (#1) on b2 has not come");
    round.since_ms = 1 + 12000;
    round.expected = 12;
    round.arrived = 1;
    round.missing_count = 5;
    expect(&stage, "waits", "note", MST_INDEX_ANY,
           "1 of 12 wait in 'epoch' for 12 s: #1, #2, #3 and 8 more have not come");
}

/* A rank is lost. The cause is in the sentence, since when the job is interrupted, and for whom the
 * others wait; once they go on without it, that it is missing. */
static void what_interrupted_it(void **state)
{
    struct mst_item round = {
        .kind = MST_ITEM_ROUND, .name = TEXT("seal"), .arrived = 3, .expected = 4};
    struct stage stage;

    (void)state;
    set(&stage);
    lose(&stage, 1);
    stage.fault = stage.members[1];
    stage.fault.number = 2;
    stage.fault.who.heard_ms = 3240;
    stage.fault.value = TEXT("no\nroom");
    stage.status.faults = (struct mst_items){.items = &stage.fault, .count = 1};
    expect(&stage, "interrupted", "trouble", 1,
           "interrupted for 3.2 s: rank 1 (#1) on b2 ended with status 3: no\\x0aroom");
    wait_in(&stage, &round);
    round.awaited = 1;
    round.who = stage.members[1].who;
    expect(&stage, "interrupted", "trouble", 1,
           "interrupted for 3.2 s: rank 1 (#1) on b2 ended with status 3: no\\x0aroom; 3 of 4 wait "
           "in 'seal' for #1, which is starting");
    stage.incident = (struct mst_item){
        .incident = MST_INCIDENT_TOO_FEW, .arrived = 3, .expected = 4, .who = {.heard_ms = 2000}};
    stage.status.history = (struct mst_items){.items = &stage.incident, .count = 1};
    expect(&stage, "too-few", "trouble", MST_INDEX_ANY,
           "could not go on: 3 ranks are here, and 4 are needed, for 2.0 s now");
    stage.incident.incident = MST_INCIDENT_SEALED;
    stage.fault.number = 1;
    stage.status.rounds.count = 0;
    expect(&stage, "missing", "note", 1, "3 of 4 ranks run: rank 1 (#1) on b2 ended with status 3");
}

/* A notice of preemption is there: how long is left. A rank is stopped by a signal, or silent: for
 * how long. Processes wait in a front: for what, and which ranks do not. */
static void what_is_coming(void **state)
{
    struct stage stage;

    (void)state;
    set(&stage);
    stage.notice = (struct mst_item){.kind = MST_ITEM_KEY,
                                     .name = TEXT("muster/preempt/notice/3"),
                                     .value = TEXT("left_ms=30000 source=spot"),
                                     .number = 6000};
    stage.status.preemption = (struct mst_items){.items = &stage.notice, .count = 1};
    expect(&stage, "preemption", "note", 3, "preemption of #3 in 24 s (spot)");
    stage.notice.number = 33000;
    expect(&stage, "preemption", "note", 3, "preemption of #3 was due 3.0 s ago (spot)");
    stage.status.preemption.count = 0;
    stage.plain =
        (struct mst_item){.kind = MST_ITEM_KEY, .value = TEXT("2:17:9000"), .number = 3000};
    stage.status.stopped = (struct mst_items){.items = &stage.plain, .count = 1};
    expect(&stage, "stopped", "trouble", 2, "rank 2 (#2) on b2 is stopped by a signal for 12 s");
    stage.plain.value = TEXT("2:17:9000 7:18:0");
    expect(&stage, "stopped", "trouble", 2,
           "rank 2 (#2) on b2 is stopped by a signal for 12 s, and 1 more");
    stage.status.stopped.count = 0;
    stage.plain.value = TEXT("1\t17\t9000\tfor the key 'k'\n\t18\t100\tat the barrier 'b'\n"
                             "3\t19\t5\tfor the key 'k'");
    stage.status.front_waits = (struct mst_items){.items = &stage.plain, .count = 1};
    expect(
        &stage, "waits", "note", MST_INDEX_ANY,
        "3 processes wait in TCPStore for 12 s, the first one: #1 for the key 'k'; #0, #2 do not "
        "wait");
    stage.plain.value = TEXT("1\t17\t9000\tfor the key 'k'\n+3");
    expect(&stage, "waits", "note", MST_INDEX_ANY,
           "4 processes wait in TCPStore for 12 s, the first one: #1 for the key 'k'");
    stage.plain.value = TEXT("0\t1\t0\tx\n1\t2\t0\tx\n2\t3\t0\tx");
    expect(&stage, "waits", "note", 3,
           "3 processes wait in TCPStore for 3.0 s, the first one: #0 x; #3 does not wait");
    stage.status.front_waits.count = 0;
    stage.members[2].who.state = MST_SILENT;
    stage.members[2].who.heard_ms = 3400;
    expect(&stage, "silent", "trouble", 2, "rank 2 (#2) on b2 is silent for 3.4 s");
    stage.members[3].who.state = MST_SILENT;
    expect(&stage, "silent", "trouble", 2, "rank 2 (#2) on b2 is silent for 3.4 s, and 1 more");
}

/* All ranks run, and the others wait for one of them in each step. The one that is slowest is named
 * with what its work takes, and how many more there are; what is worse comes before it. */
static void who_is_slow(void **state)
{
    struct stage stage;

    (void)state;
    set(&stage);
    stage.members[1].has_progress = true;
    stage.members[1].progress.slower =
        1900; /* and it is no straggler: it works for less of a step */
    expect(&stage, "runs", "good", MST_INDEX_ANY, "all 4 ranks run for 3 min");
    stage.members[3].has_progress = true;
    stage.members[3].progress = (struct mst_rank_progress){.slower = 1358, .straggler = true};
    expect(
        &stage, "straggles", "note", 3,
        "all 4 ranks run for 3 min; rank 3 (#3) on b2 is a straggler: 1.35 times the work of the "
        "median");
    stage.members[2].has_progress = true;
    stage.members[2].progress = (struct mst_rank_progress){.slower = 2000, .straggler = true};
    stage.members[0].has_progress = true;
    stage.members[0].progress = (struct mst_rank_progress){.slower = 1207, .straggler = true};
    expect(
        &stage, "straggles", "note", 2,
        "all 4 ranks run for 3 min; rank 2 (#2) on b2 is a straggler: 2.00 times the work of the "
        "median, and 2 more");
    stage.members[1].who.state = MST_SILENT;
    expect(&stage, "silent", "trouble", 1, "rank 1 (#1) on b2 is silent for 0.0 s");
}

/* A straggler is looked at, like what is worse; a row of its own says so. */
static void a_straggler_is_unusual(void **state)
{
    struct mst_job_verdict verdict;
    struct stage stage;

    (void)state;
    set(&stage);
    stage.members[3].has_progress = true;
    stage.members[3].progress.slower = 1358;
    mst_job_verdict_of(&stage.status, &verdict);
    assert_int_equal(mst_member_unusual(&stage.status, &verdict, &stage.members[3]), MST_ORDINARY);
    stage.members[3].progress.straggler = true;
    mst_job_verdict_of(&stage.status, &verdict);
    assert_int_equal(mst_member_unusual(&stage.status, &verdict, &stage.members[3]),
                     MST_UNUSUAL_STRAGGLER);
    assert_int_equal(mst_member_unusual(&stage.status, &verdict, &stage.members[2]), MST_ORDINARY);
    stage.members[3].who.state = MST_SILENT;
    mst_job_verdict_of(&stage.status, &verdict);
    assert_int_equal(mst_member_unusual(&stage.status, &verdict, &stage.members[3]),
                     MST_UNUSUAL_BLAMED);
}

/* Workers alone, of which one is lost. */
static void a_job_of_workers(void **state)
{
    struct stage stage;

    (void)state;
    set(&stage);
    for (uint32_t i = 0; i < SIZE; i++) {
        stage.members[i].who.role = MST_ROLE_WORKER;
        stage.members[i].who.rank = MST_RANK_NONE;
    }
    expect(&stage, "workers", "good", MST_INDEX_ANY, "all 4 workers are here");
    lose(&stage, 3);
    expect(&stage, "workers", "note", MST_INDEX_ANY,
           "3 of 4 workers are here: worker #3 on b2 ended with status 3");
}

/* Durations have one number each, which never jumps back. */
static void durations(void **state)
{
    static const struct {
        uint64_t ms;
        const char *words;
    } spans[] = {{0, "0.0 s"},      {9949, "9.9 s"},     {9950, "10 s"},
                 {119400, "119 s"}, {120000, "2 min"},   {7199999, "119 min"},
                 {7200000, "2 h"},  {172799999, "47 h"}, {172800000, "2 days"}};

    (void)state;
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        char words[32];
        struct mst_text text = mst_text_in(words, sizeof words);

        mst_span(&text, spans[i].ms);
        assert_string_equal(words, spans[i].words);
    }
}

/* The service was started again a moment ago, and all ranks run, or one has not come back to it
 * yet. The sentence says both; a minute later it is no news. */
static void a_service_that_was_started_again_is_news(void **state)
{
    struct stage stage;

    (void)state;
    set(&stage);
    stage.incident = (struct mst_item){.kind = MST_ITEM_INCIDENT,
                                       .incident = MST_INCIDENT_SERVICE,
                                       .who = {.index = MST_INDEX_ANY, .heard_ms = 2100}};
    stage.status.history = (struct mst_items){.items = &stage.incident, .count = 1};
    expect(&stage, "runs", "good", MST_INDEX_ANY,
           "all 4 ranks run for 3 min; the service was started again 2.1 s ago");
    stage.members[2].who.state = MST_SILENT; /* it has not come back to it yet */
    stage.members[2].who.heard_ms = 2100;
    expect(&stage, "silent", "trouble", 2,
           "rank 2 (#2) on b2 is silent for 2.1 s; the service was started again 2.1 s ago");
    stage.members[2].who.state = MST_PRESENT;
    stage.incident.who.heard_ms = 60000;
    expect(&stage, "runs", "good", MST_INDEX_ANY, "all 4 ranks run for 3 min");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(the_begin_and_the_end),
        cmocka_unit_test(who_waits_for_whom),
        cmocka_unit_test(what_interrupted_it),
        cmocka_unit_test(what_is_coming),
        cmocka_unit_test(a_job_of_workers),
        cmocka_unit_test(who_is_slow),
        cmocka_unit_test(a_straggler_is_unusual),
        cmocka_unit_test(durations),
        cmocka_unit_test(a_service_that_was_started_again_is_news),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
