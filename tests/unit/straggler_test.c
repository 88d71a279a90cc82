/* SPDX-License-Identifier: Apache-2.0 */
/* Progress and stragglers, from the progress pages of ranks over their agent to what the service
 * says of them, on one clock that only moves when told.
 *
 * behaviour: restart / Stragglers */
#define _GNU_SOURCE
#include "core_fixture.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/prng.h"
#include "launch/hang/pace.h"
#include "process/page.h"

#define MS UINT64_C(1000000)
#define LOOK_MS 100u
#define RENEW_MS 2000u
#define THOUSAND 1000u

enum { RANKS = 8, NOBODY = 99 };

/* A job of 8 ranks on one node, in the function of generation 1. */
struct train {
    struct fixture *f;
    struct client agent, observer, ranks[RANKS];
    struct mst_page *pages[RANKS];
    int fds[RANKS];
    struct mst_pace paces[RANKS];
    char sections[RANKS][MST_PACE_SECTION];
    struct mst_rank_progress list[RANKS];
    uint64_t look_ns, renew_ns;
    struct mst_prng prng;
    int64_t step;
    /* How the ranks are: */
    uint32_t slow, percent; /* this one works so much longer in each step */
    uint64_t work_ns;       /* of the others, without noise */
    uint32_t noise;         /* about that many thousandths, up and down; sometimes much more */
    bool sections_marked, no_waits;
};

static void train_open(struct train *t, struct fixture *f)
{
    *t = (struct train){.f = f, .slow = NOBODY, .work_ns = 100 * MS};
    t->observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    fixture_connect(f, &t->observer);
    t->agent = fixture_client(f, MST_ROLE_AGENT, 0);
    fixture_connect(f, &t->agent);
    for (uint32_t i = 0; i < RANKS; i++) {
        t->ranks[i] = fixture_rank(f, i, RANKS);
        t->ranks[i].open.node = 0;
        fixture_connect(f, &t->ranks[i]);
        fixture_join(f, &t->ranks[i]);
        assert_int_equal(mst_page_create(&t->pages[i], &t->fds[i]), MUSTER_OK);
        atomic_store(&t->pages[i]->step, MST_PAGE_NO_STEP);
        atomic_store(&t->pages[i]->thread, (uint64_t)syscall(SYS_gettid));
        atomic_store(&t->pages[i]->generation, 1);
        mst_page_turn(t->pages[i], MST_PHASE_FUNCTION);
    }
    t->look_ns = f->now_ns;
    t->renew_ns = f->now_ns + RENEW_MS * MS;
}

static void train_close(struct train *t)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        mst_page_unmap(t->pages[i]);
        (void)close(t->fds[i]);
    }
}

static void report(struct train *t, struct client *agent)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < RANKS; i++) {
        if (mst_pace_report(&t->paces[i], t->pages[i], t->sections[used], &t->list[used])) {
            t->list[used].index = i;
            t->list[used++].pid = t->ranks[i].open.pid;
        }
    }
    (void)fixture_call(
        t->f, agent,
        (struct mst_request){.command = MST_RENEW, .renew = {.progress = t->list, .count = used}});
}

static void look(struct train *t, uint64_t now_ns)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        mst_pace_look(&t->paces[i], t->pages[i], getpid(), now_ns);
    }
}

/* The agent looks ten times a second, and renews every fifth of the lease. */
static void pass_until(struct train *t, uint64_t then_ns)
{
    while (t->look_ns <= then_ns) {
        look(t, t->look_ns);
        if (t->look_ns >= t->renew_ns) {
            fixture_pass_renewing(t->f, (t->look_ns - t->f->now_ns) / MS);
            fixture_forget(t->f);
            report(t, &t->agent);
            t->renew_ns += RENEW_MS * MS;
        }
        t->look_ns += LOOK_MS * MS;
    }
}

/* Real ranks: most steps differ by a little, one in fifty takes three times as long. */
static uint64_t work_of(struct train *t, uint32_t rank)
{
    uint64_t percent = rank == t->slow ? 100 + t->percent : 100;
    uint64_t work_ns = t->work_ns * percent / 100;
    uint64_t spread =
        mst_prng_below(&t->prng, t->noise + 1) + mst_prng_below(&t->prng, t->noise + 1);

    work_ns = work_ns * (THOUSAND - t->noise + spread) / THOUSAND;
    return t->noise > 0 && mst_prng_below(&t->prng, 50) == 0 ? 3 * work_ns : work_ns;
}

static void wait_changes(struct train *t, struct mst_page *page, uint64_t now_ns)
{
    if (!t->no_waits) {
        mst_page_measure(page, now_ns);
        atomic_fetch_add(&page->waits, 1);
    }
}

static void section_changes(const struct train *t, struct mst_page *page, uint64_t now_ns)
{
    if (t->sections_marked) {
        mst_page_measure(page, now_ns);
        (void)snprintf(page->section_name, sizeof page->section_name, "forward");
        atomic_fetch_add(&page->section, 1);
    }
}

/* One step of all: each works for its own time, and waits for the last. */
static void step(struct train *t, uint64_t *at_ns)
{
    uint64_t work_ns[RANKS], longest_ns = 0;

    for (uint32_t i = 0; i < RANKS; i++) {
        work_ns[i] = work_of(t, i);
        longest_ns = work_ns[i] > longest_ns ? work_ns[i] : longest_ns;
        atomic_fetch_add(&t->pages[i]->pings, 1);
        atomic_store(&t->pages[i]->step, t->step);
        section_changes(t, t->pages[i], *at_ns);
        section_changes(t, t->pages[i], *at_ns + work_ns[i]);
        wait_changes(t, t->pages[i], *at_ns + work_ns[i]);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        wait_changes(t, t->pages[i], *at_ns + longest_ns + 2 * MS);
    }
    t->step++;
    *at_ns += longest_ns + 2 * MS;
    pass_until(t, *at_ns);
}

static uint64_t steps(struct train *t, uint64_t at_ns, int count)
{
    for (int i = 0; i < count; i++) {
        step(t, &at_ns);
    }
    return at_ns;
}

static const struct mst_item *member(struct train *t, uint32_t index)
{
    static const struct mst_item none;
    const struct mst_reply *reply =
        fixture_call(t->f, &t->observer, (struct mst_request){.command = MST_MEMBERS});

    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].who.role == MST_ROLE_RANK && reply->items[i].who.index == index) {
            return &reply->items[i];
        }
    }
    return &none;
}

/* The straggler; NOBODY: none. There is never a second one. */
static uint32_t named(struct train *t)
{
    uint32_t found = NOBODY;

    for (uint32_t i = 0; i < RANKS; i++) {
        if (member(t, i)->progress.straggler) {
            assert_int_equal(found, NOBODY);
            found = i;
        }
    }
    return found;
}

/* ---- what is measured ---- */

/* A rank works, waits in muster, and does both in a section. A step is the time outside the waits,
 * and its sections the part of it in there. */
static void work_is_the_time_outside_waits(void **state)
{
    struct train train = {.work_ns = 0};
    uint32_t work_us = 0, section_us = 0;
    uint64_t now_ns = 1000 * MS;

    (void)state;
    assert_int_equal(mst_page_create(&train.pages[0], &train.fds[0]), MUSTER_OK);
    mst_page_turn(train.pages[0], MST_PHASE_FUNCTION);
    for (unsigned i = 0; i < MST_METER_LEAST + 1; i++) {
        assert_false(mst_page_measured(train.pages[0], &work_us, &section_us));
        atomic_fetch_add(&train.pages[0]->pings, 1);
        now_ns += 3 * MS; /* works */
        train.sections_marked = true;
        section_changes(&train, train.pages[0], now_ns);
        now_ns += 10 * MS; /* works in a section */
        wait_changes(&train, train.pages[0], now_ns);
        now_ns += 500 * MS; /* waits there */
        wait_changes(&train, train.pages[0], now_ns);
        now_ns += 4 * MS;
        section_changes(&train, train.pages[0], now_ns);
    }
    assert_true(mst_page_measured(train.pages[0], &work_us, &section_us));
    assert_int_equal(work_us, 17000);
    assert_int_equal(section_us, 14000);
    mst_page_turn(train.pages[0], MST_PHASE_WAITS); /* and the next attempt has none of it */
    mst_page_turn(train.pages[0], MST_PHASE_FUNCTION);
    assert_false(mst_page_measured(train.pages[0], &work_us, &section_us));
    mst_page_unmap(train.pages[0]);
    (void)close(train.fds[0]);
}

/* A loop waits in muster only every ninth ping, as one that saves now and then. Nothing is said of
 * its work: it waits elsewhere in between. */
static void rare_waits_measure_no_work(void **state)
{
    struct train train = {.work_ns = 0};
    uint32_t work_us, section_us;
    uint64_t now_ns = 1000 * MS;

    (void)state;
    assert_int_equal(mst_page_create(&train.pages[0], &train.fds[0]), MUSTER_OK);
    mst_page_turn(train.pages[0], MST_PHASE_FUNCTION);
    for (unsigned i = 0; i < 20; i++) {
        atomic_fetch_add(&train.pages[0]->pings, 9);
        now_ns += 100 * MS;
        wait_changes(&train, train.pages[0], now_ns);
        wait_changes(&train, train.pages[0], now_ns);
    }
    assert_false(mst_page_measured(train.pages[0], &work_us, &section_us));
    mst_page_unmap(train.pages[0]);
    (void)close(train.fds[0]);
}

/* ---- what the service says ---- */

static void progress_is_kept(struct fixture *f)
{
    struct train t;
    uint64_t at_ns;

    train_open(&t, f);
    at_ns = steps(&t, f->now_ns, 60);
    (void)at_ns;
    EXPECT(f, member(&t, 3)->has_progress);
    EXPECT(f, member(&t, 3)->progress.stepped);
    EXPECT(f, member(&t, 3)->progress.step >= 50 && member(&t, 3)->progress.step < 60);
    EXPECT(f, member(&t, 3)->progress.rate > 9500 && member(&t, 3)->progress.rate < 10200);
    EXPECT_INT(f, member(&t, 3)->progress.work, MST_WORK_WAITS);
    EXPECT_INT(f, member(&t, 3)->progress.work_us, 100000);
    EXPECT_INT(f, member(&t, 3)->progress.slower, 1000);
    EXPECT(f, member(&t, 3)->progress.behind <= 1);
    EXPECT_INT(f, member(&t, 3)->progress.generation, 1);
    train_close(&t);
}

/* An agent's renewals say how far its ranks are. The members of the job have it: the step, how many
 * there are in a second, the work in one. Where there is no memory for it the agent's lease is
 * renewed all the same. */
static void renewals_carry_the_progress_of_ranks(void **state)
{
    (void)state;
    fixture_run(progress_is_kept);
}

static void by_another(struct fixture *f)
{
    struct train t;
    struct client other;

    train_open(&t, f);
    other = fixture_client(f, MST_ROLE_AGENT, 1);
    fixture_connect(f, &other);
    look(&t, f->now_ns);
    report(&t, &other);
    EXPECT(f, !member(&t, 0)->has_progress);
    report(&t, &t.ranks[0]);
    EXPECT(f, !member(&t, 0)->has_progress);
    report(&t, &t.agent);
    EXPECT(f, member(&t, 0)->has_progress);
    train_close(&t);
}

/* An agent that did not start a rank, or a rank, reports its progress. It is ignored. */
static void progress_is_reported_by_the_agent_alone(void **state)
{
    (void)state;
    fixture_run_once(by_another);
}

static void stands_still(struct fixture *f)
{
    struct train t;
    uint64_t at_ns;

    train_open(&t, f);
    at_ns = steps(&t, f->now_ns, 60);
    for (int i = 0; i < 60; i++) { /* all but rank 5, which does not meet the others */
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            if (rank != 5) {
                atomic_fetch_add(&t.pages[rank]->pings, 1);
                atomic_store(&t.pages[rank]->step, t.step);
            }
        }
        t.step++;
        at_ns += 100 * MS;
        pass_until(&t, at_ns);
    }
    EXPECT(f, member(&t, 5)->progress.behind >= 40 && member(&t, 5)->progress.behind <= 61);
    EXPECT(f, member(&t, 4)->progress.behind <= 1);
    EXPECT(f, member(&t, 5)->progress.quiet_ms >= 5000);
    EXPECT(f, member(&t, 4)->progress.quiet_ms < 1000);
    EXPECT(f, member(&t, 5)->progress.rate < member(&t, 4)->progress.rate);
    train_close(&t);
}

/* A rank stands still while the others go on. It is so many steps behind the median, and the time
 * since its last sign of progress grows. */
static void a_rank_that_stands_still_falls_behind(void **state)
{
    (void)state;
    fixture_run_once(stands_still);
}

/* ---- stragglers ---- */

static uint64_t seed;

static uint32_t steps_until_named(struct fixture *f, void (*prepare)(struct train *t))
{
    struct train t;
    uint64_t at_ns;
    uint32_t count = 0;

    train_open(&t, f);
    t.prng.state = seed;
    prepare(&t);
    at_ns = steps(&t, f->now_ns, 50);
    EXPECT_INT(f, named(&t), NOBODY);
    t.slow = (uint32_t)(seed % RANKS);
    t.percent = 30;
    while (named(&t) == NOBODY && count < 200) {
        step(&t, &at_ns);
        count++;
    }
    EXPECT_INT(f, named(&t), t.slow);
    t.slow = NOBODY;
    (void)steps(&t, at_ns, 60);
    EXPECT_INT(f, named(&t), NOBODY);
    train_close(&t);
    return count;
}

static void long_steps(struct train *t)
{
    t->work_ns = 250 * MS;
    t->noise = 60;
}

static void marked(struct train *t)
{
    long_steps(t);
    t->sections_marked = t->no_waits = true;
}

static void one_of_eight(struct fixture *f)
{
    assert_in_range(steps_until_named(f, long_steps), 1, 20);
}

static void one_with_sections(struct fixture *f)
{
    assert_in_range(steps_until_named(f, marked), 1, 20);
}

/* One of 8 ranks that meet in each step begins to work 30 % longer in it. It is named within 20
 * steps, and no longer a straggler when it works as the others do. */
static void a_straggler_is_named_within_twenty_steps(void **state)
{
    (void)state;
    for (seed = 0; seed < 24; seed++) {
        fixture_run_once(one_of_eight);
    }
}

/* The same where the ranks meet outside of muster, and their work is in declared sections. */
static void sections_name_it_where_muster_sees_no_wait(void **state)
{
    (void)state;
    for (seed = 0; seed < 24; seed++) {
        fixture_run_once(one_with_sections);
    }
}

static void nobody_slow(struct fixture *f)
{
    struct train t;
    uint64_t at_ns = f->now_ns;

    train_open(&t, f);
    t.prng.state = seed;
    t.noise = 20 + (uint32_t)(seed % 80);
    t.work_ns = (50 + seed % 200) * MS;
    for (int i = 0; i < 25; i++) {
        at_ns = steps(&t, at_ns, 8);
        EXPECT_INT(f, named(&t), NOBODY);
    }
    train_close(&t);
}

/* 200 jobs of 8 ranks whose steps differ by up to a tenth to either side, and one in fifty takes
 * three times as long. No rank is named in 200 steps. */
static void noise_names_nobody(void **state)
{
    (void)state;
    for (seed = 1; seed <= 200; seed++) {
        fixture_run_once(nobody_slow);
    }
}

static uint32_t observed;

static void observe_item(void *ctx, const struct mst_item *incident)
{
    (void)ctx;
    observed += incident->incident == MST_INCIDENT_STRAGGLER;
}

static void observe(void *ctx, const struct mst_core *core, struct mst_slice job)
{
    (void)ctx;
    mst_core_history(core, job, observe_item, NULL);
}

static void with_observer(struct mst_core_config *config)
{
    observed = 0;
    config->incident = observe;
}

static void history_of_one(struct fixture *f)
{
    const struct mst_reply *reply;
    struct train t;
    uint32_t found = 0;

    seed = 3;
    train_open(&t, f);
    t.slow = 3;
    t.percent = 30;
    (void)steps(&t, f->now_ns, 60);
    reply = fixture_call(f, &t.observer, (struct mst_request){.command = MST_HISTORY});
    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].incident == MST_INCIDENT_STRAGGLER) {
            found++;
            EXPECT_INT(f, reply->items[i].who.index, 3);
            EXPECT_INT(f, reply->items[i].total, 1300);
        }
    }
    EXPECT_INT(f, found, 1);
    EXPECT_INT(f, observed, 1);
    train_close(&t);
}

/* A rank is named. The log has it with its work, the history of the job once, and the file of the
 * run as soon as it is known. */
static void a_straggler_is_an_incident(void **state)
{
    (void)state;
    fixture_run_once_with(history_of_one, with_observer);
}

static uint64_t digest;

static void with_progress(struct fixture *f)
{
    struct train t;

    train_open(&t, f);
    t.slow = 3;
    t.percent = 30;
    (void)steps(&t, f->now_ns, 60);
    EXPECT_INT(f, named(&t), 3);
    digest = mst_core_digest(f->core);
    mst_core_check(f->core);
    train_close(&t);
}

static void without_progress(struct fixture *f)
{
    struct train t;

    train_open(&t, f);
    for (uint32_t i = 0; i < RANKS; i++) { /* in no function: nothing is reported */
        mst_page_turn(t.pages[i], MST_PHASE_WAITS);
    }
    t.slow = 3;
    t.percent = 30;
    (void)steps(&t, f->now_ns, 60);
    EXPECT_INT(f, named(&t), NOBODY);
    assert_true(mst_core_digest(f->core) == digest);
    train_close(&t);
}

/* The same run with the progress of its ranks and without. The state of the service is the same. */
static void progress_is_no_state(void **state)
{
    (void)state;
    fixture_run_once(with_progress);
    fixture_run_once(without_progress);
}

static void none_is_named(struct mst_core_config *config)
{
    config->straggler_percent = 0;
}

static void nobody_asked(struct fixture *f)
{
    struct train t;

    train_open(&t, f);
    t.slow = 3;
    t.percent = 300;
    (void)steps(&t, f->now_ns, 60);
    EXPECT_INT(f, member(&t, 3)->progress.slower, 4000);
    EXPECT_INT(f, named(&t), NOBODY);
    train_close(&t);
}

/* --straggler-percent 0. Ranks are compared, and none is named. */
static void none_is_named_where_none_is_to_be(void **state)
{
    (void)state;
    fixture_run_once_with(nobody_asked, none_is_named);
}

static void little_work_keeps_no_rank_waiting(struct fixture *f)
{
    struct train t;

    train_open(&t, f);
    look(&t, f->now_ns);
    report(&t, &t.agent);
    for (uint32_t i = 0; i < RANKS; i++) {
        t.list[i] = (struct mst_rank_progress){.index = i,
                                               .pid = t.ranks[i].open.pid,
                                               .generation = 1,
                                               .work = MST_WORK_CPU,
                                               .work_us = i == 2 ? 4000 : 1000,
                                               .share = i == 2 ? 40 : 10};
    }
    fixture_pass_renewing(f, RENEW_MS);
    (void)fixture_call(
        f, &t.agent,
        (struct mst_request){.command = MST_RENEW, .renew = {.progress = t.list, .count = RANKS}});
    EXPECT_INT(f, member(&t, 2)->progress.slower, 4000);
    EXPECT_INT(f, named(&t), NOBODY);
    train_close(&t);
}

/* A rank works longer than the others, in a small part of each step. No rank waits for it, so it is
 * no straggler. */
static void a_small_part_of_a_step_makes_no_straggler(void **state)
{
    (void)state;
    fixture_run_once(little_work_keeps_no_rank_waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_the_time_outside_waits),
        cmocka_unit_test(rare_waits_measure_no_work),
        cmocka_unit_test(renewals_carry_the_progress_of_ranks),
        cmocka_unit_test(progress_is_reported_by_the_agent_alone),
        cmocka_unit_test(a_rank_that_stands_still_falls_behind),
        cmocka_unit_test(a_straggler_is_named_within_twenty_steps),
        cmocka_unit_test(sections_name_it_where_muster_sees_no_wait),
        cmocka_unit_test(noise_names_nobody),
        cmocka_unit_test(a_straggler_is_an_incident),
        cmocka_unit_test(progress_is_no_state),
        cmocka_unit_test(none_is_named_where_none_is_to_be),
        cmocka_unit_test(a_small_part_of_a_step_makes_no_straggler),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
