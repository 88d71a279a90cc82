/* SPDX-License-Identifier: Apache-2.0 */
/* What the core counts, and looking at it without being anybody. */
#include "base/time.h"
#include "core_fixture.h"
#include "proto/heartbeat.h"
#include "proto/notice.h"
#include "service/core/counts.h"
#include "service/core/look.h"

static uint64_t renewals(const struct fixture *f)
{
    return mst_histogram_count(&mst_core_counts(f->core)->renewals);
}

static uint64_t rounds(const struct fixture *f, enum mst_result result)
{
    return mst_histogram_count(&mst_core_counts(f->core)->rounds[result]);
}

/* ---- keys ---- */

static void operations_on_keys(struct fixture *f)
{
    const struct mst_counts *counts = mst_core_counts(f->core);
    struct client one = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct client other = fixture_client(f, MST_ROLE_OBSERVER, 0);
    const struct mst_write batch[] = {
        {.kind = MST_PUT, .key = mst_slice_text("a"), .value = mst_slice_text("1")},
        {.kind = MST_INSERT, .key = mst_slice_text("a"), .value = mst_slice_text("2")},
        {.kind = MST_DELETE, .key = mst_slice_text("b")},
    };
    uint64_t waiting;

    fixture_connect(f, &one);
    fixture_connect(f, &other);
    fixture_write(f, &one, MST_PUT, "k", "v");
    fixture_write(f, &one, MST_INSERT, "k", "v");
    fixture_add(f, &one, "n", 1);
    fixture_get(f, &one, "k");
    fixture_get(f, &one, "nothing");
    waiting = fixture_wait_get(f, &other, "later");
    EXPECT_INT(f, counts->keys[MST_KEY_GET][MST_RESULT_OK], 1); /* not before it is answered */
    fixture_write(f, &one, MST_PUT, "later", "v");
    EXPECT_INT(f, fixture_reply(f, &other, waiting)->status, MUSTER_OK);
    EXPECT_INT(f, counts->keys[MST_KEY_PUT][MST_RESULT_OK], 2);
    EXPECT_INT(f, counts->keys[MST_KEY_INSERT][MST_RESULT_EXISTS], 1);
    EXPECT_INT(f, counts->keys[MST_KEY_INSERT][MST_RESULT_OK], 0);
    EXPECT_INT(f, counts->keys[MST_KEY_ADD][MST_RESULT_OK], 1);
    EXPECT_INT(f, counts->keys[MST_KEY_GET][MST_RESULT_OK], 2);
    EXPECT_INT(f, counts->keys[MST_KEY_GET][MST_RESULT_NOT_FOUND], 1);
    EXPECT_INT(f, counts->keys_at_once[MST_KEY_GET], 2);
    EXPECT_INT(f, counts->keys_at_once[MST_KEY_PUT], 2);
    /* All or nothing, and so they count. */
    fixture_call(f, &one,
                 (struct mst_request){.command = MST_WRITE, .write = {.ops = batch, .count = 3}});
    EXPECT_INT(f, counts->keys[MST_KEY_PUT][MST_RESULT_EXISTS], 1);
    EXPECT_INT(f, counts->keys[MST_KEY_INSERT][MST_RESULT_EXISTS], 2);
    EXPECT_INT(f, counts->keys[MST_KEY_DELETE][MST_RESULT_EXISTS], 1);
    fixture_call(f, &one,
                 (struct mst_request){.command = MST_DELETE_PREFIX,
                                      .delete_prefix = {.prefix = mst_slice_text("n")}});
    EXPECT_INT(f, counts->keys[MST_KEY_DELETE][MST_RESULT_OK], 1);
    mst_core_hold(f->core, "no room");
    fixture_write(f, &one, MST_PUT, "k", "v");
    EXPECT_INT(f, counts->keys[MST_KEY_PUT][MST_RESULT_NO_SPACE], 1);
    mst_core_hold(f->core, NULL);
    mst_core_forget_counts(f->core);
    EXPECT_INT(f, counts->keys[MST_KEY_PUT][MST_RESULT_OK], 0);
    EXPECT_INT(f, renewals(f), 0);
}

/* ---- time ---- */

static void renewals_and_rounds(struct fixture *f)
{
    const struct mst_counts *counts = mst_core_counts(f->core);
    struct client ranks[2];
    struct mst_request round;

    fixture_seal(f, ranks, 2);
    fixture_renew(f, &ranks[0]);
    EXPECT_INT(f, renewals(f), 0); /* an interval needs two */
    fixture_pass(f, 2000);
    fixture_renew(f, &ranks[0]);
    fixture_renew(f, &ranks[1]);
    EXPECT_INT(f, renewals(f), 1);
    EXPECT_INT(f, counts->renewals.sum_s, 2);

    round = fixture_round(1, "step", 0);
    fixture_send(f, &ranks[0], round);
    fixture_pass(f, 30);
    fixture_send(f, &ranks[1], round);
    EXPECT_INT(f, rounds(f, MST_RESULT_OK), 1);
    EXPECT_INT(f, counts->rounds[MST_RESULT_OK].sum_ns, 30000000);

    round = fixture_round(1, "late", 0);
    round.round.deadline_ms = 100;
    fixture_send(f, &ranks[0], round);
    fixture_pass(f, 100);
    EXPECT_INT(f, rounds(f, MST_RESULT_TIMEOUT), 1);
    EXPECT_INT(f, counts->rounds[MST_RESULT_TIMEOUT].sum_ns, 100000000);

    fixture_send(f, &ranks[0], fixture_round(1, "lonely", 0));
    fixture_call(f, &ranks[1], (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, rounds(f, MST_RESULT_MEMBER_LOST), 1);
    EXPECT_INT(f, rounds(f, MST_RESULT_OK), 1);
}

/* ---- losses ---- */

static void copy_look(void *ctx, const struct mst_job_look *look)
{
    *(struct mst_job_look *)ctx = *look;
}

static struct mst_job_look look_at(const struct fixture *f)
{
    struct mst_job_look look = {.generation = 0};

    mst_look_jobs(f->core, copy_look, &look);
    return look;
}

/* No job: none. */
static uint64_t losses(const struct fixture *f, enum mst_cause cause)
{
    struct mst_job_look look = look_at(f);

    return look.counts ? look.counts->losses[cause] : 0;
}

static void report(struct fixture *f, struct client *agent, const struct client *rank,
                   enum mst_cause cause, int32_t code)
{
    fixture_call(f, agent,
                 (struct mst_request){.command = MST_LOST,
                                      .lost = {.index = rank->open.index,
                                               .pid = rank->open.pid,
                                               .cause = cause,
                                               .code = code}});
}

/* Connects three ranks with pids of their own, and who reports their deaths. */
static void three(struct fixture *f, struct client ranks[3], struct client *agent)
{
    for (uint32_t i = 0; i < 3; i++) {
        ranks[i] = fixture_client(f, MST_ROLE_RANK, i);
        ranks[i].open.size = 3;
        ranks[i].open.pid = 100 + i;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
    *agent = fixture_client(f, MST_ROLE_AGENT, 0);
    fixture_connect(f, agent);
}

static void a_loss_counts_once_by_its_status(struct fixture *f)
{
    struct client ranks[3], agent;

    three(f, ranks, &agent);
    EXPECT_INT(f, look_at(f).members[MST_PRESENT], 3); /* the agent is none of them */
    report(f, &agent, &ranks[0], MST_CAUSE_EXIT, 3);
    report(f, &agent, &ranks[1], MST_CAUSE_GONE, 0);
    report(f, &agent, &ranks[1], MST_CAUSE_SIGNAL, 9); /* its status, before anybody looks */
    report(f, &agent, &ranks[2], MST_CAUSE_GONE, 0);
    EXPECT_INT(f, losses(f, MST_CAUSE_EXIT), 1);
    EXPECT_INT(f, losses(f, MST_CAUSE_SIGNAL), 1);
    EXPECT_INT(f, losses(f, MST_CAUSE_GONE), 1); /* told now: it stays so */
    report(f, &agent, &ranks[2], MST_CAUSE_SIGNAL, 9);
    EXPECT_INT(f, losses(f, MST_CAUSE_SIGNAL), 1);
    EXPECT_INT(f, losses(f, MST_CAUSE_GONE), 1);
    EXPECT_INT(f, look_at(f).members[MST_STATE_LOST], 3);
}

static void who_takes_the_place_settles_the_cause(struct fixture *f)
{
    struct client ranks[3], agent, next;

    three(f, ranks, &agent);
    report(f, &agent, &ranks[0], MST_CAUSE_GONE, 0);
    next = fixture_client(f, MST_ROLE_RANK, 0);
    next.open.size = 3;
    next.open.pid = 200;
    fixture_connect(f, &next);
    report(f, &agent, &ranks[0], MST_CAUSE_SIGNAL, 9); /* too late to be of anybody here */
    EXPECT_INT(f, losses(f, MST_CAUSE_GONE), 1);
    EXPECT_INT(f, losses(f, MST_CAUSE_SIGNAL), 0);
    EXPECT_INT(f, look_at(f).members[MST_JOINING], 1);
}

static void leases_and_leaving(struct fixture *f)
{
    struct client ranks[2];

    fixture_seal(f, ranks, 2);
    fixture_call(f, &ranks[0], (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, losses(f, MST_CAUSE_LEFT), 1);
    EXPECT_INT(f, look_at(f).members[MST_LEFT], 1);
    fixture_disconnect(f, &ranks[1]);
    EXPECT_INT(f, look_at(f).members[MST_SILENT], 1);
}

static void seal(struct fixture *f, struct client *rank)
{
    struct mst_request request = fixture_round(1, "seal", 0);

    request.round.seal = true;
    request.round.on_loss = MST_PROCEED;
    fixture_send(f, rank, request);
}

static uint64_t away_ms(const struct fixture *f, enum mst_cause cause)
{
    struct mst_job_look look = look_at(f);

    return look.counts ? look.counts->away_ns[cause] / NS_PER_MS : 0;
}

/* A rank runs for 5 s and is killed. The time until the others are in the next generation counts
 * under the status of its process, which arrives later; while it lasts, it is known as well. */
static void time_without_all_ranks_is_counted(struct fixture *f)
{
    struct client ranks[3], agent;

    three(f, ranks, &agent);
    fixture_pass_renewing(f, 5000);
    EXPECT_INT(f, look_at(f).away_ns, 0);
    EXPECT_INT(f, look_at(f).counted_ns / NS_PER_MS, 5000);
    report(f, &agent, &ranks[1], MST_CAUSE_GONE, 0);
    fixture_pass_renewing(f, 2000);
    EXPECT_INT(f, look_at(f).away_ns / NS_PER_MS, 2000);
    EXPECT_INT(f, look_at(f).away_cause, MST_CAUSE_GONE);
    seal(f, &ranks[0]);
    fixture_pass_renewing(f, 500);
    seal(f, &ranks[2]);
    EXPECT_INT(f, look_at(f).generation, 2);
    EXPECT_INT(f, look_at(f).away_ns, 0);
    report(f, &agent, &ranks[1], MST_CAUSE_SIGNAL, 9);
    EXPECT_INT(f, away_ms(f, MST_CAUSE_SIGNAL) + away_ms(f, MST_CAUSE_GONE), 2500);
    fixture_pass_renewing(f, 1000);
    EXPECT_INT(f, look_at(f).counted_ns / NS_PER_MS, 8500);
    mst_core_forget_counts(f->core); /* the service began again: it counts from now on */
    EXPECT_INT(f, away_ms(f, MST_CAUSE_SIGNAL), 0);
    fixture_pass_renewing(f, 1000);
    EXPECT_INT(f, look_at(f).counted_ns / NS_PER_MS, 1000);
}

/* ---- preemption ---- */

static void notice(struct fixture *f, struct client *client, uint32_t index, const char *value)
{
    char name[MST_PREEMPT_NAME_ROOM];

    (void)mst_notice_key(name, sizeof(name), index);
    fixture_write(f, client, MST_PUT, name, value);
}

static void notices_are_counted_by_source(struct fixture *f)
{
    const struct mst_counts *counts = mst_core_counts(f->core);
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    uint64_t revision;

    fixture_connect(f, &client);
    notice(f, &client, 0, "left_ms=30000 level=certain source=signals host=b3 reason=x");
    notice(f, &client, MST_NOTICE_ALL, "left_ms=120000 level=advisory source=slurm");
    notice(f, &client, 1, "left_ms=1000 source=my-own");
    notice(f, &client, 1, "left_ms=500");
    EXPECT_INT(f, counts->notices[MST_SOURCE_SIGNALS][0], 1);
    EXPECT_INT(f, counts->notices[MST_SOURCE_SIGNALS][1], 0);
    EXPECT_INT(f, counts->notices[MST_SOURCE_SLURM][1], 1);
    EXPECT_INT(f, counts->notices[MST_SOURCE_OTHER][0], 1);
    EXPECT_INT(f, counts->notices[MST_SOURCE_HAND][0], 1);
    EXPECT_INT(f, counts->leads[MST_SOURCE_SIGNALS].sum_s, 30);
    EXPECT_INT(f, counts->leads[MST_SOURCE_SLURM].sum_s, 120);
    /* What is none counts as none, and a deletion takes nothing back. */
    notice(f, &client, 2, "soon");
    fixture_write(f, &client, MST_PUT, MST_PREEMPT_PREFIX_NOTICE "x", "left_ms=1 source=file");
    fixture_write(f, &client, MST_PUT, "elsewhere/notice/1", "left_ms=1 source=file");
    fixture_write(f, &client, MST_DELETE, MST_PREEMPT_PREFIX_NOTICE "0", "");
    EXPECT_INT(f, counts->notices[MST_SOURCE_FILE][0], 0);
    EXPECT_INT(f, counts->notices[MST_SOURCE_HAND][0], 1);
    EXPECT_INT(f, counts->notices[MST_SOURCE_SIGNALS][0], 1);
    EXPECT_INT(f, counts->watchers, 0);
    fixture_watch(f, &client, MST_WATCH_KEYS, "other/", 0);
    revision = fixture_watch(f, &client, MST_WATCH_KEYS, MST_PREEMPT_PREFIX, 0);
    revision = fixture_reply(f, &client, revision)->revision;
    fixture_watch(f, &client, MST_WATCH_KEYS, MST_PREEMPT_PREFIX, revision); /* it goes on */
    EXPECT_INT(f, counts->watchers, 1);
}

static void complete(struct fixture *f, struct client *client, uint64_t k, uint32_t of)
{
    struct mst_preempt_name name = {.kind = MST_PREEMPT_KEY_COMPLETE, .generation = 1, .k = k};
    struct mst_preempt_fact fact = {.step = 17, .covered = 5, .of = of};
    char key[MST_PREEMPT_NAME_ROOM], value[MST_PREEMPT_FACT_ROOM];

    (void)mst_preempt_name_write(key, sizeof(key), &name);
    (void)mst_preempt_fact_write(value, sizeof(value), MST_PREEMPT_KEY_COMPLETE, &fact);
    fixture_write(f, client, MST_INSERT, key, value);
}

static void an_agreement_is_counted(struct fixture *f)
{
    const struct mst_counts *counts = mst_core_counts(f->core);
    const unsigned char contributed[8] = {17};
    struct client ranks[2];
    struct mst_request step = fixture_round(1, MST_PREEMPT_ROUND_STEP "0", 0);

    fixture_seal(f, ranks, 2);
    EXPECT_INT(f, look_at(f).saved_ranks, 0);
    step.round.on_loss = MST_PROCEED;
    step.round.deadline_ms = 2000;
    step.round.reduce = MST_REDUCE_MAX;
    step.round.data = mst_slice_of(contributed, sizeof(contributed));
    fixture_send(f, &ranks[0], step);
    fixture_pass(f, 30);
    fixture_send(f, &ranks[1], step);
    EXPECT_INT(f, counts->agreements[MST_RESULT_OK].sum_ns, 30000000);
    step.round.name = mst_slice_text(MST_PREEMPT_ROUND_STEP "1");
    fixture_send(f, &ranks[0], step);
    fixture_pass(f, 2000); /* the other one is frozen */
    EXPECT_INT(f, mst_histogram_count(&counts->agreements[MST_RESULT_TIMEOUT]), 1);
    complete(f, &ranks[0], 9, 1);
    complete(f, &ranks[0], 10, 2); /* by name it is before the other */
    complete(f, &ranks[1], 10, 2); /* who comes second */
    EXPECT_INT(f, counts->handled, 2);
    EXPECT_INT(f, look_at(f).saved_ranks, 2);
}

/* ---- the collective heartbeat ---- */

static uint64_t failures(const struct fixture *f)
{
    struct mst_job_look look = look_at(f);

    return look.counts ? look.counts->heartbeat_failures : 0;
}

static void failed_periods_are_counted(struct fixture *f)
{
    struct client ranks[3];
    struct mst_request beat = fixture_round(1, MST_HEARTBEAT_ROUND, 0);

    fixture_seal(f, ranks, 3);
    beat.round.on_loss = MST_PROCEED;
    beat.round.deadline_ms = 2000;
    for (uint32_t i = 0; i < 3; i++) {
        fixture_send(f, &ranks[i], beat);
    }
    beat.round.number = 1;
    fixture_send(f, &ranks[0], beat);
    fixture_send(f, &ranks[1], beat);
    fixture_call(f, &ranks[2], (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, failures(f), 0); /* it said that it goes */
    beat.round.number = 2;
    fixture_send(f, &ranks[0], beat);
    fixture_pass(f, 2000);
    EXPECT_INT(f, failures(f), 1); /* late */
    beat.round.number = 3;
    fixture_send(f, &ranks[0], beat);
    fixture_call(
        f, &ranks[0],
        (struct mst_request){
            .command = MST_LOST,
            .lost = {.index = 1, .pid = ranks[1].open.pid, .cause = MST_CAUSE_SIGNAL, .code = 9}});
    EXPECT_INT(f, failures(f), 2); /* lost */
    beat.round.number = 0;
    beat.round.name = mst_slice_text("other");
    fixture_send(f, &ranks[0], beat);
    EXPECT_INT(f, failures(f), 2);
}

/* ---- looking ---- */

static void looking_changes_nothing(struct fixture *f)
{
    struct client ranks[2];
    const struct mst_reply *page;
    uint64_t before;

    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], fixture_round(1, "step", 0));
    before = mst_core_digest(f->core);
    page = mst_look_page(f->core, MST_JOBS, mst_slice_text(""), 0);
    EXPECT_INT(f, page->status, MUSTER_OK);
    EXPECT_INT(f, page->item_count, 1);
    page = mst_look_page(f->core, MST_MEMBERS, ranks[0].open.job, 0);
    EXPECT_INT(f, page->item_count, 2);
    EXPECT_INT(f, page->items[1].who.index, 1);
    page = mst_look_page(f->core, MST_ROUNDS, ranks[0].open.job, 0);
    EXPECT_INT(f, page->item_count, 1);
    EXPECT_TEXT(f, page->items[0].name, "step");
    page = mst_look_page(f->core, MST_MEMBERS, mst_slice_text("nobody's"), 0);
    EXPECT_INT(f, page->status, MUSTER_ENOTFOUND);
    EXPECT_INT(f, page->item_count, 0);
    EXPECT_INT(f, look_at(f).generation, 1);
    EXPECT_INT(f, mst_core_sessions(f->core), 2);
    assert_int_equal(mst_core_digest(f->core), before);
    mst_core_check(f->core);
}

#define SCENARIO(name)                                                                             \
    static void run_##name(void **state)                                                           \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

SCENARIO(operations_on_keys)
SCENARIO(renewals_and_rounds)
SCENARIO(a_loss_counts_once_by_its_status)
SCENARIO(who_takes_the_place_settles_the_cause)
SCENARIO(leases_and_leaving)
SCENARIO(time_without_all_ranks_is_counted)
SCENARIO(notices_are_counted_by_source)
SCENARIO(an_agreement_is_counted)
SCENARIO(failed_periods_are_counted)
SCENARIO(looking_changes_nothing)

static void every_result_has_its_word(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MST_RESULTS; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(mst_result_word((enum mst_result)i),
                                    mst_result_word((enum mst_result)j));
        }
    }
    assert_string_equal(mst_result_word(mst_result_of(MUSTER_OK)), "ok");
    assert_string_equal(mst_result_word(mst_result_of(MUSTER_ETIMEDOUT)), "timeout");
    assert_string_equal(mst_result_word(mst_result_of(MUSTER_ELOST)), "member_lost");
    assert_string_equal(mst_result_word(mst_result_of(MUSTER_ECANCELLED)), "cancelled");
    assert_string_equal(mst_result_word(mst_result_of(MUSTER_ENOSPACE)), "no_space");
    assert_string_equal(mst_result_word(mst_result_of(MUSTER_EPROTO)), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_operations_on_keys),
        cmocka_unit_test(run_renewals_and_rounds),
        cmocka_unit_test(run_a_loss_counts_once_by_its_status),
        cmocka_unit_test(run_who_takes_the_place_settles_the_cause),
        cmocka_unit_test(run_leases_and_leaving),
        cmocka_unit_test(run_time_without_all_ranks_is_counted),
        cmocka_unit_test(run_notices_are_counted_by_source),
        cmocka_unit_test(run_an_agreement_is_counted),
        cmocka_unit_test(run_failed_periods_are_counted),
        cmocka_unit_test(run_looking_changes_nothing),
        cmocka_unit_test(every_result_has_its_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
