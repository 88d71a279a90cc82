/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: heartbeat / Starting and stopping */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "failing_mem.h"
#include "heartbeat/heartbeat.h"

#define MS UINT64_C(1000000)
#define PERIOD UINT64_C(10000)
#define TIMEOUT UINT64_C(4000)
#define TOKEN 4711

/* One member, and what its shell was told. */
struct member {
    struct failing_mem memory;
    struct mst_heartbeat *machine;
    struct mst_heartbeat_sight sight;
    uint64_t now_ns;

    uint64_t tag; /* of the open call */
    uint64_t generation, number, deadline_ms;
    enum mst_reduce reduce;
    unsigned char data[64];
    size_t size;

    unsigned requests, agreed, late, failed, crashed;
    struct mst_heartbeat_effect last; /* but for requests */
};

static void take_call(struct member *member, const struct mst_machine_effect *effect)
{
    const struct mst_round_request *round = &effect->request->round;

    assert_int_equal(effect->request->command, MST_ROUND);
    assert_int_equal(round->on_loss, MST_PROCEED);
    assert_true(mst_slice_equal(round->name, mst_slice_text("muster/heartbeat")));
    member->requests++;
    assert_true(effect->tag > member->tag);
    member->tag = effect->tag;
    member->generation = round->generation;
    member->number = round->number;
    member->deadline_ms = round->deadline_ms;
    member->reduce = round->reduce;
    member->size = round->data.size;
    memcpy(member->data, round->data.data, round->data.size);
}

static void drain(struct member *member)
{
    const struct mst_heartbeat_effect *effect;

    while ((effect = mst_heartbeat_machine.next(member->machine)) != NULL) {
        assert_int_equal(member->crashed, 0);
        if (effect->head.kind == MST_MACHINE_CALL) {
            take_call(member, &effect->head);
        } else {
            member->last = *effect;
        }
        switch (effect->type) {
        case MST_HEARTBEAT_AGREED:
            member->agreed++;
            break;
        case MST_HEARTBEAT_LATE:
            member->late++;
            break;
        case MST_HEARTBEAT_FAILED:
            member->failed++;
            break;
        case MST_HEARTBEAT_CRASH:
            member->crashed++;
            break;
        }
    }
    mst_heartbeat_check(member->machine);
}

static void look(struct member *member)
{
    mst_heartbeat_look(member->machine, member->now_ns, &member->sight);
    drain(member);
}

/* Time passes, up to a moment, and all that is due is done. */
static void until(struct member *member, uint64_t at_ns)
{
    while (mst_heartbeat_machine.deadline_ns(member->machine) <= at_ns) {
        uint64_t due_ns = mst_heartbeat_machine.deadline_ns(member->machine);

        member->now_ns = due_ns > member->now_ns ? due_ns : member->now_ns;
        look(member);
        mst_heartbeat_machine.tick(member->machine, member->now_ns);
        drain(member);
    }
    member->now_ns = at_ns;
}

static void pass(struct member *member, uint64_t ms)
{
    until(member, member->now_ns + ms * MS);
}

/* It sleeps, and looks at what is due only then. */
static void sleep_for(struct member *member, uint64_t ms)
{
    member->now_ns += ms * MS;
    look(member);
    mst_heartbeat_machine.tick(member->machine, member->now_ns);
    drain(member);
}

static void reply(struct member *member, const struct mst_reply *reply)
{
    look(member);
    mst_heartbeat_machine.reply(member->machine, member->now_ns, member->tag, reply);
    drain(member);
}

static void reply_status(struct member *member, muster_status status)
{
    const struct mst_reply said = {.command = MST_ROUND, .status = status};

    reply(member, &said);
}

static void reply_number(struct member *member, muster_status status, int64_t at)
{
    const struct mst_reply said = {
        .command = MST_ROUND, .status = status, .has_detail = true, .detail = {.limit = at}};

    reply(member, &said);
}

static void put(unsigned char *at, int64_t number)
{
    for (unsigned byte = 0; byte < 8; byte++) {
        at[byte] = (unsigned char)((uint64_t)number >> (8 * byte));
    }
}

static int64_t get(const unsigned char *at)
{
    uint64_t number = 0;

    for (unsigned byte = 8; byte > 0; byte--) {
        number = number << 8 | at[byte - 1];
    }
    return (int64_t)number;
}

/* All have agreed on these numbers. */
static void reply_terms(struct member *member, int64_t token, int64_t minus, int64_t period,
                        int64_t timeout, const struct mst_detail *detail)
{
    unsigned char terms[32];
    struct mst_reply said = {.command = MST_ROUND, .status = MUSTER_OK};

    put(terms, token);
    put(terms + 8, minus);
    put(terms + 16, period);
    put(terms + 24, timeout);
    said.value = mst_slice_of(terms, sizeof(terms));
    if (detail) {
        said.has_detail = true;
        said.detail = *detail;
    }
    assert_int_equal(member->number, 0);
    reply(member, &said);
}

static void reply_agreed(struct member *member)
{
    reply_terms(member, TOKEN, -TOKEN, PERIOD, TIMEOUT, NULL);
}

static void reply_shown(struct member *member, uint32_t token, const struct mst_detail *detail)
{
    const unsigned char bytes[2] = {(unsigned char)token, (unsigned char)(token >> 8)};
    struct mst_reply said = {
        .command = MST_ROUND, .status = MUSTER_OK, .value = mst_slice_of(bytes, sizeof(bytes))};

    if (detail) {
        said.has_detail = true;
        said.detail = *detail;
    }
    reply(member, &said);
}

static const struct mst_heartbeat_config standard = {
    .period_ms = PERIOD, .timeout_ms = TIMEOUT, .failures_max = 3, .seed = 77};

static void member_init(struct member *member, uint32_t rank)
{
    *member = (struct member){.now_ns = 5 * MS};
    failing_mem_init(&member->memory, 0);
    assert_int_equal(mst_heartbeat_new(&member->machine, &standard, &member->memory.mem),
                     MUSTER_OK);
    member->sight.view = (struct mst_view){.generation = 1, .size = 3, .rank = rank, .index = rank};
    mst_heartbeat_judge(member->machine, true);
    look(member);
}

static void member_fini(struct member *member)
{
    mst_heartbeat_free(member->machine);
    assert_int_equal(member->memory.live, 0);
}

/* The same, agreed, and with its first beat out. */
static void member_beating(struct member *member)
{
    member_init(member, 1);
    pass(member, 0);
    reply_agreed(member);
    pass(member, PERIOD);
    assert_int_equal(member->number, 1);
}

/* The beat that is out comes to that, and the next one is sent. */
static void beat_fails(struct member *member)
{
    uint64_t number = member->number;

    pass(member, TIMEOUT);
    reply_status(member, MUSTER_ETIMEDOUT);
    if (member->crashed == 0) {
        pass(member, PERIOD - TIMEOUT);
        assert_int_equal(member->number, number + 1);
    }
}

static void beat_succeeds(struct member *member)
{
    uint64_t number = member->number;

    reply_shown(member, TOKEN, NULL);
    pass(member, PERIOD);
    assert_int_equal(member->number, number + 1);
}

/* ---- the agreement ---- */

/* All ranks start the heartbeat. Rank 0 draws a token of 1 to 65535, all agree on it, and from
 * then on there is one round per period, in which nothing fails. (141) */
static void rank_0_draws_the_token(void **state)
{
    struct member first;
    struct member other;
    int64_t token;

    (void)state;
    member_init(&first, 0);
    member_init(&other, 2);
    pass(&first, 0);
    pass(&other, 0);
    assert_int_equal(first.reduce, MST_REDUCE_MAX);
    assert_int_equal(first.deadline_ms, 0); /* the heart beats once everybody's does */
    token = get(first.data);
    assert_true(token >= 1 && token <= 65535);
    assert_int_equal(get(first.data + 8), -token);
    assert_true(get(other.data) == INT64_MIN && get(other.data + 8) == INT64_MIN);
    assert_int_equal(get(other.data + 16), PERIOD);
    assert_int_equal(get(other.data + 24), TIMEOUT);
    reply_agreed(&other);
    assert_int_equal(other.agreed, 1);
    assert_int_equal(mst_heartbeat_token(other.machine), TOKEN);
    pass(&other, PERIOD - 1);
    assert_int_equal(other.requests, 1);
    pass(&other, 1);
    assert_int_equal(other.requests, 2);
    assert_int_equal(other.reduce, MST_REDUCE_EQUAL);
    assert_int_equal(other.deadline_ms, TIMEOUT);
    assert_int_equal(other.size, 2);
    assert_int_equal(other.data[0] | other.data[1] << 8, TOKEN);
    member_fini(&first);
    member_fini(&other);
}

/* The token of a heartbeat is never 0. */
static void a_token_is_never_0(void **state)
{
    struct member first;

    (void)state;
    member_init(&first, 0);
    for (uint64_t generation = 2; generation < 400000; generation++) {
        int64_t token;

        first.sight.view.generation = generation;
        look(&first);
        pass(&first, 0);
        token = get(first.data);
        assert_true(token >= 1 && token <= 65535);
    }
    member_fini(&first);
}

/* Members name different periods or timeouts. The largest that any of them names holds for all. */
static void the_largest_options_are_everybodys(void **state)
{
    struct member member;

    (void)state;
    member_init(&member, 1);
    pass(&member, 0);
    reply_terms(&member, TOKEN, -TOKEN, 2 * PERIOD, 3 * TIMEOUT, NULL);
    pass(&member, 2 * PERIOD);
    assert_int_equal(member.requests, 2);
    assert_int_equal(member.deadline_ms, 3 * TIMEOUT);
    member_fini(&member);
}

/* The token agreed on is of no range, or two ranks contributed different ones. A rank that
 * judges ends. (146) */
static void no_single_token_is_the_end(void **state)
{
    static const int64_t wrong[][2] = {
        {TOKEN, -TOKEN + 1},       {TOKEN + 1, -TOKEN}, {0, 0}, {65536, -65536}, {-3, 3},
        {INT64_MAX, INT64_MIN + 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct member member;

        member_init(&member, 1);
        pass(&member, 0);
        reply_terms(&member, wrong[i][0], wrong[i][1], PERIOD, TIMEOUT, NULL);
        assert_int_equal(member.crashed, 1);
        assert_int_equal(member.last.why, MST_BEAT_UNEQUAL);
        assert_true(mst_heartbeat_machine.deadline_ns(member.machine) == NEVER);
        member_fini(&member);
    }
}

/* The token agreed on is of no range. A rank that does not judge goes on. (146) */
static void one_who_does_not_judge_survives_that(void **state)
{
    struct member member;

    (void)state;
    member_init(&member, 1);
    mst_heartbeat_judge(member.machine, false);
    pass(&member, 0);
    reply_terms(&member, TOKEN, -5, PERIOD, TIMEOUT, NULL);
    assert_int_equal(member.crashed, 0);
    pass(&member, 100 * PERIOD);
    assert_int_equal(member.crashed + member.failed, 0);
    member_fini(&member);
}

/* Rank 0 is gone before it drew a token. There is no heartbeat in this generation: a failure per
 * period if it died, none if it left. */
static void rank_0_is_gone_before_it_drew(void **state)
{
    struct mst_detail lost = {
        .arrived = 2, .expected = 3, .lost = 1, .who_count = 1, .who = {{.state = MST_STATE_LOST}}};

    (void)state;
    for (int left = 0; left < 2; left++) {
        struct member member;

        lost.who[0].cause = left ? MST_CAUSE_LEFT : MST_CAUSE_SIGNAL;
        member_init(&member, 1);
        pass(&member, 0);
        reply_terms(&member, INT64_MIN, INT64_MIN, PERIOD, TIMEOUT, &lost);
        assert_int_equal(member.agreed, 1);
        assert_int_equal(member.last.status, MUSTER_ELOST);
        assert_int_equal(member.last.why, MST_BEAT_NO_TOKEN);
        pass(&member, 3 * PERIOD);
        assert_int_equal(member.crashed, left ? 0 : 1);
        member_fini(&member);
    }
}

/* An agreement on the token is refused. It is tried again. */
static void a_refused_agreement_is_tried_again(void **state)
{
    struct member member;

    (void)state;
    member_init(&member, 1);
    pass(&member, 0);
    reply_status(&member, MUSTER_ENOSPACE);
    pass(&member, 1000);
    assert_int_equal(member.requests, 2);
    reply_status(&member, MUSTER_ECANCELLED); /* its shell wanted to know who is missing */
    pass(&member, 0);
    assert_int_equal(member.requests, 3);
    assert_int_equal(member.number, 0);
    reply_agreed(&member);
    assert_int_equal(mst_heartbeat_token(member.machine), TOKEN);
    assert_int_equal(member.failed, 0);
    member_fini(&member);
}

/* A member waits long for the token. One line says so. */
static void a_long_wait_for_a_token_is_told_once(void **state)
{
    struct member member;

    (void)state;
    member_init(&member, 1);
    pass(&member, TIMEOUT - 1);
    assert_int_equal(member.late, 0);
    pass(&member, 1);
    assert_int_equal(member.late, 1);
    pass(&member, 100 * PERIOD);
    assert_int_equal(member.late, 1);
    assert_int_equal(member.requests, 1);
    member_fini(&member);
}

/* ---- failures ---- */

/* A period succeeds after a failure. The count is 0 again. (143) [Failures] */
static void a_success_resets_the_count(void **state)
{
    struct member member;

    (void)state;
    member_beating(&member);
    for (unsigned turn = 0; turn < 5; turn++) {
        beat_fails(&member);
        assert_int_equal(member.last.failures, 1);
        beat_fails(&member);
        assert_int_equal(member.last.failures, 2);
        beat_succeeds(&member);
    }
    assert_int_equal(member.failed, 10);
    assert_int_equal(member.crashed, 0);
    member_fini(&member);
}

/* Three periods in a row fail. The process ends at the third: one line that says why and which
 * are missing, the callback, SIGABRT. (144) [Failures] */
static void the_third_failure_is_the_end(void **state)
{
    struct member member;

    (void)state;
    member_beating(&member);
    beat_fails(&member);
    beat_fails(&member);
    assert_int_equal(member.crashed, 0);
    beat_fails(&member);
    assert_int_equal(member.failed, 3);
    assert_int_equal(member.crashed, 1);
    assert_int_equal(member.last.failures, 3);
    assert_int_equal(member.last.status, MUSTER_ETIMEDOUT);
    member_fini(&member);
}

/* A member shows another token. All others end at the next round, with one line that names the
 * one that differs. (142) [Failures] */
static void a_mismatch_is_the_end_at_once(void **state)
{
    (void)state;
    for (int as_value = 0; as_value < 2; as_value++) {
        struct member member;

        member_beating(&member);
        if (as_value) {
            reply_shown(&member, TOKEN + 1, NULL);
        } else {
            reply_status(&member, MUSTER_EMISMATCH);
        }
        assert_int_equal(member.crashed, 1);
        assert_int_equal(member.failed, 0);
        assert_int_equal(member.last.why, MST_BEAT_MISMATCH);
        member_fini(&member);
    }
}

/* A member stopped its heartbeat. It goes on showing the token, and its peers count no failure.
 * (145) */
static void who_stopped_goes_on_showing_the_token(void **state)
{
    struct member member;

    (void)state;
    member_beating(&member);
    beat_fails(&member);
    beat_fails(&member);
    mst_heartbeat_judge(member.machine, false);
    beat_fails(&member);
    beat_fails(&member);
    reply_status(&member, MUSTER_EMISMATCH);
    pass(&member, PERIOD);
    assert_int_equal(member.number, 6);
    assert_int_equal(member.data[0] | member.data[1] << 8, TOKEN);
    assert_int_equal(member.failed, 2);
    mst_heartbeat_judge(member.machine, true); /* and begins at 0 */
    beat_fails(&member);
    beat_fails(&member);
    assert_int_equal(member.crashed, 0);
    beat_fails(&member);
    assert_int_equal(member.crashed, 1);
    member_fini(&member);
}

/* A member stopped its heartbeat. No failure is reported to it any more, also one that was about
 * to be. */
static void who_stopped_is_told_of_no_failure(void **state)
{
    const struct mst_reply late = {.command = MST_ROUND, .status = MUSTER_ETIMEDOUT};
    struct member member;

    (void)state;
    member_beating(&member);
    pass(&member, TIMEOUT);
    mst_heartbeat_machine.reply(member.machine, member.now_ns, member.tag, &late);
    mst_heartbeat_judge(member.machine, false);
    drain(&member);
    assert_int_equal(member.failed, 0);
    member_fini(&member);
}

/* A member left. It is not missed. (145) */
static void who_left_is_not_missed(void **state)
{
    struct mst_detail detail = {.arrived = 1, .expected = 3, .lost = 2, .who_count = 2};
    struct member member;

    (void)state;
    member_beating(&member);
    detail.who[0].cause = MST_CAUSE_LEFT;
    detail.who[1].cause = MST_CAUSE_LEFT;
    reply_shown(&member, TOKEN, &detail);
    assert_int_equal(member.failed, 0);
    detail.who[1].cause = MST_CAUSE_SIGNAL;
    pass(&member, PERIOD);
    reply_shown(&member, TOKEN, &detail);
    assert_int_equal(member.failed, 1);
    assert_int_equal(member.last.why, MST_BEAT_LOST);
    member_fini(&member);
}

/* Many have left, and a member beyond the eight named ones dies. It counts: a death calls the
 * generation for attention. */
static void beyond_eight_the_generation_tells_of_deaths(void **state)
{
    struct mst_detail detail = {
        .arrived = 1, .expected = 20, .lost = 9, .who_count = MST_NAMES_MAX};
    struct member member;

    (void)state;
    member_beating(&member);
    for (unsigned i = 0; i < MST_NAMES_MAX; i++) {
        detail.who[i].cause = MST_CAUSE_LEFT;
    }
    reply_shown(&member, TOKEN, &detail);
    assert_int_equal(member.failed, 0);
    member.sight.view.attention = MST_INTERRUPT;
    pass(&member, PERIOD);
    reply_shown(&member, TOKEN, &detail);
    assert_int_equal(member.failed, 1);
    member_fini(&member);
}

/* ---- the service ---- */

/* The service is out of reach for a period. No failure is counted. [The service, and recovery] */
static void an_outage_excuses_the_period(void **state)
{
    struct member member;

    (void)state;
    member_beating(&member);
    for (unsigned turn = 0; turn < 9; turn++) {
        member.sight.outages++;
        beat_fails(&member);
        assert_int_equal(member.last.failures, 0);
    }
    beat_fails(&member);
    assert_int_equal(member.last.failures, 1);
    member.sight.outages++;
    beat_fails(&member); /* stands still, and is no success */
    beat_fails(&member);
    assert_int_equal(member.last.failures, 2);
    member.sight.away = true; /* as the next beat is due */
    reply_shown(&member, TOKEN, NULL);
    pass(&member, PERIOD);
    member.sight.away = false;
    beat_fails(&member);
    assert_int_equal(member.last.failures, 0);
    member_fini(&member);
}

/* The service has no room: memory, disk, a limit. No failure is counted; the same number is
 * tried again. [The service, and recovery] */
static void a_service_without_room_excuses_it(void **state)
{
    static const muster_status refusals[] = {MUSTER_ENOMEM, MUSTER_ENOSPACE, MUSTER_ELIMIT,
                                             MUSTER_EUNREACHABLE};
    struct member member;

    (void)state;
    member_beating(&member);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        reply_status(&member, refusals[i]);
        assert_int_equal(member.last.failures, 0);
        pass(&member, PERIOD);
        assert_int_equal(member.number, 1);
        assert_int_equal(member.requests, 3 + i);
    }
    member_fini(&member);
}

/* No answer comes and the lease is over. From then on each period is a failure.
 * [The service, and recovery] */
static void no_answer_counts_once_the_lease_is_over(void **state)
{
    struct member member;

    (void)state;
    member_beating(&member);
    pass(&member, 20 * PERIOD);
    assert_int_equal(member.failed, 0);
    member.sight.stopped = true;
    pass(&member, 2 * PERIOD);
    assert_int_equal(member.failed, 2);
    reply_shown(&member, TOKEN, NULL); /* it is back */
    member.sight.stopped = false;
    pass(&member, PERIOD);
    member.sight.stopped = true;
    pass(&member, 2 * PERIOD);
    assert_int_equal(member.crashed, 0);
    pass(&member, PERIOD);
    assert_int_equal(member.crashed, 1);
    assert_int_equal(member.last.why, MST_BEAT_ALONE);
    member_fini(&member);
}

/* This process was lost to the job. Each period is a failure; after its own close none is.
 * [The service, and recovery] */
static void the_end_of_the_session_counts(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct member member;

        member_beating(&member);
        member.sight.ended = own ? MUSTER_ECANCELLED : MUSTER_EFENCED;
        reply_status(&member, MUSTER_EFENCED);
        pass(&member, 2 * PERIOD);
        assert_int_equal(member.failed, own ? 0 : 2);
        pass(&member, PERIOD);
        assert_int_equal(member.crashed, own ? 0 : 1);
        member_fini(&member);
    }
}

/* ---- generations ---- */

/* A generation begins. The heartbeat begins anew, with another token and the count 0.
 * [The service, and recovery] */
static void a_generation_begins_anew(void **state)
{
    struct member member;
    uint64_t old_tag;
    const struct mst_reply fenced = {.command = MST_ROUND, .status = MUSTER_EFENCED};

    (void)state;
    member_beating(&member);
    beat_fails(&member);
    beat_fails(&member);
    old_tag = member.tag;
    member.sight.view.generation = 2;
    member.sight.view.rank = 0;
    look(&member);
    pass(&member, 0);
    assert_int_equal(member.generation, 2);
    assert_int_equal(member.number, 0);
    mst_heartbeat_machine.reply(member.machine, member.now_ns, old_tag, &fenced);
    drain(&member);
    reply_terms(&member, 99, -99, PERIOD, TIMEOUT, NULL);
    pass(&member, PERIOD);
    assert_int_equal(member.data[0], 99);
    pass(&member, TIMEOUT);
    reply_status(&member, MUSTER_ETIMEDOUT);
    assert_int_equal(member.last.failures, 1);
    member_fini(&member);
}

/* A beat is fenced by the next generation. It waits for that one. [The service, and recovery] */
static void a_fenced_beat_waits_for_the_next_generation(void **state)
{
    struct member member;

    (void)state;
    member_beating(&member);
    reply_status(&member, MUSTER_EFENCED);
    pass(&member, 9 * PERIOD);
    assert_int_equal(member.failed, 0);
    assert_int_equal(member.requests, 2);
    member.sight.view.generation = 2;
    look(&member);
    pass(&member, 0);
    assert_int_equal(member.requests, 3);
    assert_int_equal(member.number, 0);
    member_fini(&member);
}

/* A spare starts the heartbeat. It is not waited for: its heart beats from when it is seated.
 * [The service, and recovery] */
static void a_spare_waits(void **state)
{
    struct member member;

    (void)state;
    member_init(&member, MST_RANK_NONE);
    pass(&member, 9 * PERIOD);
    assert_int_equal(member.requests, 0);
    member.sight.view.generation = 2;
    member.sight.view.rank = 1;
    look(&member);
    pass(&member, 0);
    assert_int_equal(member.requests, 1);
    reply_agreed(&member);
    member.sight.view.generation = 3; /* passed over */
    member.sight.view.rank = MST_RANK_NONE;
    look(&member);
    pass(&member, 9 * PERIOD);
    assert_int_equal(member.requests, 1);
    member_fini(&member);
}

/* ---- recovery ---- */

/* A run recovers from a fault. The periods meanwhile do not count. [The service, and recovery] */
static void what_a_run_recovers_from_does_not_count(void **state)
{
    struct member member;
    struct mst_detail lost = {
        .arrived = 2, .expected = 3, .lost = 1, .who_count = 1, .who = {{.state = MST_STATE_LOST}}};

    (void)state;
    lost.who[0].cause = MST_CAUSE_SIGNAL;
    member_beating(&member);
    member.sight.restarting = true;
    member.sight.view.attention = MST_INTERRUPT;
    for (unsigned turn = 0; turn < 9; turn++) {
        reply_shown(&member, TOKEN, &lost);
        pass(&member, PERIOD);
    }
    assert_int_equal(member.failed, 0);
    member.sight.view.attention = MST_CALM;
    member.sight.stopped = true; /* held until the service is back */
    pass(&member, 9 * PERIOD);
    assert_int_equal(member.failed, 0);
    member.sight.restarting = false; /* nobody recovers from it any more */
    pass(&member, 3 * PERIOD);
    assert_int_equal(member.crashed, 1);
    member_fini(&member);
}

/* A run is in progress. Only another token is the end; a frozen rank is warned of.
 * [The service, and recovery] */
static void in_a_run_only_a_mismatch_is_the_end(void **state)
{
    struct member member;

    (void)state;
    member_beating(&member);
    beat_fails(&member);
    member.sight.restarting = true;
    for (unsigned turn = 0; turn < 9; turn++) {
        beat_fails(&member);
        assert_int_equal(member.last.failures, 0);
    }
    assert_int_equal(member.failed, 10); /* all of them are told */
    member.sight.restarting = false;
    beat_fails(&member);
    assert_int_equal(member.last.failures, 2);
    member.sight.restarting = true;
    reply_status(&member, MUSTER_EMISMATCH);
    assert_int_equal(member.crashed, 1);
    member_fini(&member);
}

/* ---- out of step ---- */

/* A beat is late by another member's clock. It is followed by one in time. [Failures] */
static void a_late_beat_is_followed_by_one_in_time(void **state)
{
    struct member member;
    uint64_t base_ns;

    (void)state;
    member_init(&member, 1);
    pass(&member, 0);
    reply_agreed(&member);
    base_ns = member.now_ns + PERIOD * MS;
    sleep_for(&member, PERIOD + 7000); /* the round of the others is over */
    assert_int_equal(member.number, 1);
    reply_status(&member, MUSTER_ETIMEDOUT); /* at once: the recorded result */
    until(&member, base_ns + PERIOD * MS - 1);
    assert_int_equal(member.requests, 2);
    until(&member, base_ns + PERIOD * MS);
    assert_int_equal(member.number, 2);
    member_fini(&member);
}

/* A member slept through several beats. It has missed as many. [Failures] */
static void who_slept_through_several_missed_as_many(void **state)
{
    struct member member;
    uint64_t base_ns;

    (void)state;
    member_init(&member, 1);
    pass(&member, 0);
    reply_agreed(&member);
    base_ns = member.now_ns + PERIOD * MS;
    sleep_for(&member, PERIOD + PERIOD + 7000);
    assert_int_equal(member.number, 1);
    reply_number(&member, MUSTER_ESTALE, 3);
    assert_int_equal(member.last.failures, 2);
    until(&member, base_ns + 2 * PERIOD * MS - 1);
    assert_int_equal(member.requests, 2);
    until(&member, base_ns + 2 * PERIOD * MS);
    assert_int_equal(member.number, 3);
    beat_succeeds(&member);
    assert_int_equal(member.crashed, 0);
    member_fini(&member);
}

/* A member was stopped right after its call, and sees the answer late. It moves no beat: the
 * others have the answer, and go by it. [Failures] */
static void an_answer_heard_late_moves_no_beat(void **state)
{
    struct member member;
    uint64_t sent_ns;

    (void)state;
    member_beating(&member);
    sent_ns = member.now_ns;
    member.now_ns += (PERIOD + 7000) * MS;
    reply_shown(&member, TOKEN, NULL);
    until(&member, member.now_ns);
    assert_int_equal(member.number, 2);
    reply_status(&member, MUSTER_ETIMEDOUT);
    until(&member, sent_ns + 2 * PERIOD * MS - 1);
    assert_int_equal(member.requests, 3);
    until(&member, sent_ns + 2 * PERIOD * MS);
    assert_int_equal(member.number, 3);
    member_fini(&member);
}

/* A member agreed late, and so is late for each beat. A failure brings it nearer. [Failures] */
static void a_failure_brings_a_late_one_nearer(void **state)
{
    struct member member;
    uint64_t base_ns;

    (void)state;
    member_init(&member, 1);
    pass(&member, 0);
    base_ns = member.now_ns;
    pass(&member, TIMEOUT + 100);
    reply_agreed(&member);
    pass(&member, PERIOD);
    assert_int_equal(member.number, 1);
    reply_status(&member, MUSTER_ETIMEDOUT);
    until(&member, base_ns + (2 * PERIOD + 100) * MS);
    assert_int_equal(member.number, 2);
    member_fini(&member);
}

/* The service refuses the number of a beat as ahead. That is one failure, and the number is
 * taken back. [Failures] */
static void a_number_ahead_is_taken_back(void **state)
{
    struct member member;

    (void)state;
    member_beating(&member);
    beat_succeeds(&member);
    reply_number(&member, MUSTER_EINVAL, 1);
    assert_int_equal(member.failed, 1);
    pass(&member, PERIOD);
    assert_int_equal(member.number, 1);
    member_fini(&member);
}

/* ---- birth ---- */

/* Options of a heartbeat make no sense. They are refused. */
static void what_makes_no_sense_is_refused(void **state)
{
    struct mst_heartbeat_config configs[5] = {standard, standard, standard, standard, standard};
    struct failing_mem memory;
    struct mst_heartbeat *machine;

    (void)state;
    configs[0].period_ms = 0;
    configs[1].timeout_ms = 0;
    configs[2].failures_max = 0;
    configs[3].period_ms = 86400001;
    configs[4].timeout_ms = 86400001;
    failing_mem_init(&memory, 0);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(mst_heartbeat_new(&machine, &configs[i], &memory.mem), MUSTER_EINVAL);
    }
    assert_int_equal(memory.count, 0);
    failing_mem_init(&memory, 1);
    assert_int_equal(mst_heartbeat_new(&machine, &standard, &memory.mem), MUSTER_ENOMEM);
    assert_null(machine);
    mst_heartbeat_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_draws_the_token),
        cmocka_unit_test(a_token_is_never_0),
        cmocka_unit_test(the_largest_options_are_everybodys),
        cmocka_unit_test(no_single_token_is_the_end),
        cmocka_unit_test(one_who_does_not_judge_survives_that),
        cmocka_unit_test(rank_0_is_gone_before_it_drew),
        cmocka_unit_test(a_refused_agreement_is_tried_again),
        cmocka_unit_test(a_long_wait_for_a_token_is_told_once),
        cmocka_unit_test(a_success_resets_the_count),
        cmocka_unit_test(the_third_failure_is_the_end),
        cmocka_unit_test(a_mismatch_is_the_end_at_once),
        cmocka_unit_test(who_stopped_goes_on_showing_the_token),
        cmocka_unit_test(who_stopped_is_told_of_no_failure),
        cmocka_unit_test(who_left_is_not_missed),
        cmocka_unit_test(beyond_eight_the_generation_tells_of_deaths),
        cmocka_unit_test(an_outage_excuses_the_period),
        cmocka_unit_test(a_service_without_room_excuses_it),
        cmocka_unit_test(no_answer_counts_once_the_lease_is_over),
        cmocka_unit_test(the_end_of_the_session_counts),
        cmocka_unit_test(a_generation_begins_anew),
        cmocka_unit_test(a_fenced_beat_waits_for_the_next_generation),
        cmocka_unit_test(a_spare_waits),
        cmocka_unit_test(what_a_run_recovers_from_does_not_count),
        cmocka_unit_test(in_a_run_only_a_mismatch_is_the_end),
        cmocka_unit_test(a_late_beat_is_followed_by_one_in_time),
        cmocka_unit_test(who_slept_through_several_missed_as_many),
        cmocka_unit_test(an_answer_heard_late_moves_no_beat),
        cmocka_unit_test(a_failure_brings_a_late_one_nearer),
        cmocka_unit_test(a_number_ahead_is_taken_back),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
