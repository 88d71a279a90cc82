/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: restart / Hangs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "restart/hang.h"

#define MS UINT64_C(1000000)
#define SOFT 600
#define HARD 900

enum { OUTSIDE = 0, BEFORE = 1, FUNCTION = 2, AFTER = 3, WAITS = 4 };

/* A rank as its page shows it, and who looks when it asked to. */
struct rank {
    struct mst_hang hang;
    struct mst_hang_sample page;
    struct mst_hang_finding found; /* by the last look */
    uint64_t now_ns;
};

static struct rank rank_new(void)
{
    struct rank rank = {.page = {.soft_ms = SOFT, .hard_ms = HARD, .section_limit_ms = -1},
                        .now_ns = 1000 * MS};

    mst_hang_init(&rank.hang);
    return rank;
}

static enum mst_hang_verdict look(struct rank *rank)
{
    rank->found = mst_hang_look(&rank->hang, rank->now_ns, &rank->page);
    return rank->found.verdict;
}

static void turn(struct rank *rank, unsigned phase)
{
    rank->page.turn = (rank->page.turn / 8 + 1) * 8 + phase;
    rank->page.checks_start = rank->page.checks;
    rank->page.pings_start = rank->page.pings;
    rank->page.start_known = true;
}

/* Looks whenever it is asked for, until something is found or `most_ms` have passed. */
static enum mst_hang_verdict watch(struct rank *rank, uint64_t most_ms)
{
    uint64_t end_ns = rank->now_ns + most_ms * MS;

    while (look(rank) == MST_HANG_NONE && rank->now_ns < end_ns) {
        uint64_t next_ns = mst_hang_deadline_ns(&rank->hang);

        assert_true(next_ns > rank->now_ns);
        rank->now_ns = next_ns < end_ns ? next_ns : end_ns;
    }
    return rank->found.verdict;
}

/* soft at `soft_ms` and hard at `hard_ms` from now, to the nanosecond; -1: not that one. */
static void is_found(struct rank *rank, int64_t soft_ms, int64_t hard_ms,
                     enum mst_hang_reason reason)
{
    uint64_t begin_ns = rank->now_ns;

    if (soft_ms >= 0) {
        assert_int_equal(watch(rank, 1000000), MST_HANG_SOFT);
        assert_int_equal(rank->found.reason, reason);
        assert_int_equal(rank->now_ns - begin_ns, (uint64_t)soft_ms * MS);
        assert_true(rank->found.since_ms >= (uint64_t)soft_ms);
    }
    if (hard_ms >= 0) {
        assert_int_equal(watch(rank, 1000000), MST_HANG_HARD);
        assert_int_equal(rank->found.reason, reason);
        assert_int_equal(rank->now_ns - begin_ns, (uint64_t)hard_ms * MS);
    }
    assert_int_equal(watch(rank, 1000000), MST_HANG_NONE);
}

static struct rank in_function(void)
{
    struct rank rank = rank_new();

    turn(&rank, BEFORE);
    (void)look(&rank);
    turn(&rank, FUNCTION);
    (void)look(&rank);
    return rank;
}

/* ---- the rows ---- */

/* A rank that pinged in this attempt stops pinging. It is found after `soft`. */
static void pings_count_once_one_came(void **state)
{
    struct rank rank = in_function();

    (void)state;
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE); /* nothing came: nothing is counted */
    assert_int_equal(mst_hang_deadline_ns(&rank.hang), UINT64_MAX);
    rank.page.pings = 5;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 100), MST_HANG_NONE);
    rank.page.pings = 6;
    rank.page.checks = 70;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
    assert_int_equal(rank.found.count, 6);
    assert_false(rank.found.never);
}

/* A rank never pinged, but called muster otherwise. Those calls count instead. */
static void checks_count_where_no_ping_came(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.checks = 1;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
    assert_int_equal(rank.found.count, 1);
}

/* A function that pinged goes on calling muster but pings no more. It is found after `soft`.
 * [restart] */
static void checks_do_not_count_beside_pings_55(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    (void)look(&rank);
    for (unsigned i = 0; i < SOFT - 1; i++) { /* faster than looks are asked for */
        rank.now_ns += MS;
        rank.page.checks += 1000;
        assert_int_equal(look(&rank), MST_HANG_NONE);
    }
    rank.now_ns += MS;
    rank.page.checks += 1000;
    assert_int_equal(look(&rank), MST_HANG_SOFT);
    assert_int_equal(rank.found.since_ms, SOFT);
}

/* A limit is set and a rank does nothing. The limit counts from the start of the function. */
static void from_start_counts_from_the_start(void **state)
{
    struct rank rank = rank_new();

    (void)state;
    rank.page.from_start = true;
    turn(&rank, BEFORE);
    (void)look(&rank);
    assert_int_equal(watch(&rank, 500), MST_HANG_NONE);
    turn(&rank, FUNCTION); /* each phase has its own time */
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
    assert_true(rank.found.never);
}

/* A rank stands still before the function. That counts as the function. */
static void before_the_function_counts_as_the_function(void **state)
{
    struct rank rank = rank_new();

    (void)state;
    turn(&rank, BEFORE);
    (void)look(&rank);
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE);
    rank.page.checks++;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
}

/* A rank called muster in the attempt before. That does not count. */
static void what_came_in_another_phase_is_not_counted(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1000;
    (void)look(&rank);
    rank.page.pings = 2000; /* not seen before the turn */
    rank.page.checks = 50;
    turn(&rank, AFTER);
    turn(&rank, WAITS);
    turn(&rank, BEFORE);
    turn(&rank, FUNCTION);
    assert_int_equal(look(&rank), MST_HANG_NONE);
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE); /* it computes, and never called */
    assert_true(rank.found.never);
}

/* A rank pinged once between its turn and the first look at it. That counts. */
static void the_one_ping_before_the_first_look_counts(void **state)
{
    struct rank rank = rank_new();

    (void)state;
    turn(&rank, FUNCTION);
    rank.page.pings++;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
    assert_int_equal(rank.found.count, 1);
}

/* The start of an attempt is not known. The first look counts as the start. */
static void with_unknown_start_the_first_look_is_it(void **state)
{
    struct rank rank = rank_new();

    (void)state;
    turn(&rank, FUNCTION);
    rank.page.start_known = false;
    rank.page.pings = 7;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE);
    rank.page.pings = 9;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
    assert_int_equal(rank.found.count, 2);
}

/* A rank is in a declared section. The section has its own limit. */
static void a_section_has_its_own_limit(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 500), MST_HANG_NONE);
    rank.page.section = 1;
    rank.page.section_limit_ms = 5000;
    (void)look(&rank);
    is_found(&rank, 5000, 5000 + HARD - SOFT, MST_HANG_SECTION);
}

/* Sections are nested. The limit of the innermost counts. */
static void the_innermost_section_counts(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.section = 1;
    rank.page.section_limit_ms = 5000;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 4000), MST_HANG_NONE);
    rank.page.section = 3;
    rank.page.section_limit_ms = 2000;
    assert_int_equal(watch(&rank, 1999), MST_HANG_NONE);
    rank.page.section = 5; /* the outer one again, from now */
    rank.page.section_limit_ms = 5000;
    (void)look(&rank);
    is_found(&rank, 5000, 5000 + HARD - SOFT, MST_HANG_SECTION);
}

/* A section ends and the function hangs. The clock begins again there, and the rank is found:
 * one restart. [restart] */
static void after_a_section_the_clock_begins_again_52_53(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    (void)look(&rank);
    rank.page.section = 1;
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE); /* without a limit */
    rank.page.section = 2;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
}

/* A rank is in an atomic section. `soft` and `hard` count from its beginning, whatever is
 * counted inside. */
static void an_atomic_section_counts_from_its_beginning_66(void **state)
{
    struct rank rank = in_function();
    unsigned i;

    (void)state;
    rank.page.pings = 1;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 500), MST_HANG_NONE);
    rank.page.section = 1; /* which it is even within a section */
    rank.page.atomic = 1;
    (void)look(&rank);
    for (i = 1; i < SOFT; i++) { /* whatever is counted in it */
        rank.now_ns += MS;
        rank.page.pings++;
        assert_int_equal(look(&rank), MST_HANG_NONE);
    }
    rank.now_ns += MS;
    assert_int_equal(look(&rank), MST_HANG_SOFT);
    is_found(&rank, -1, HARD - SOFT, MST_HANG_ATOMIC);
}

/* An atomic section is over. Its time is no lack of progress. */
static void the_time_in_an_atomic_section_is_no_lack_of_progress(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 400), MST_HANG_NONE);
    rank.page.atomic = 1;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 500), MST_HANG_NONE);
    rank.page.atomic = 2;
    (void)look(&rank);
    is_found(&rank, SOFT - 400, HARD - 400, MST_HANG_PROGRESS);
}

/* A rank was interrupted. It has `hard` from then on, even if it goes on pinging. */
static void who_was_told_has_the_hard_time_whatever_it_counts(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    (void)look(&rank);
    rank.page.told = rank.page.turn;
    (void)look(&rank);
    for (unsigned i = 1; i < HARD; i++) {
        rank.now_ns += MS;
        rank.page.pings++;
        assert_int_equal(look(&rank), MST_HANG_NONE);
    }
    rank.now_ns += MS;
    assert_int_equal(look(&rank), MST_HANG_HARD);
    assert_int_equal(rank.found.reason, MST_HANG_TOLD);
    assert_int_equal(rank.found.since_ms, HARD);
}

/* A rank that stood still is interrupted, and does nothing. It gets no more time by that. */
static void who_was_told_and_does_nothing_gets_no_more_time(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 500), MST_HANG_NONE);
    rank.page.told = rank.page.turn;
    (void)look(&rank); /* and no soft: it is told already */
    is_found(&rank, -1, HARD - 500, MST_HANG_PROGRESS);
}

/* A rank was interrupted in an earlier turn. That is over. */
static void told_in_an_earlier_turn_is_over(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.told = rank.page.turn;
    (void)look(&rank);
    turn(&rank, BEFORE);
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE);
}

/* `finalize` or the health check after it never ends on one rank: it is blocked, or in a loop
 * that pings. It is killed after `hard`, the others go on. [restart] */
static void after_has_the_hard_time_60(void **state)
{
    struct rank rank = in_function();

    (void)state;
    turn(&rank, AFTER);
    (void)look(&rank);
    rank.page.pings = 1;
    rank.page.checks = 1;
    (void)look(&rank);
    is_found(&rank, -1, HARD, MST_HANG_AFTER);
}

/* A rank is done three times `soft` before the others, waits in muster, or is outside of the
 * function. It is not found. [restart] */
static void who_waits_or_is_outside_is_not_counted_56_59(void **state)
{
    static const unsigned phases[] = {OUTSIDE, WAITS, 5, 7};

    (void)state;
    for (unsigned i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        struct rank rank = in_function();

        rank.page.from_start = true;
        rank.page.pings = 1;
        turn(&rank, phases[i]);
        rank.page.pings = 2;
        rank.page.told = rank.page.turn;
        rank.page.atomic = rank.page.section = 1;
        assert_int_equal(watch(&rank, 100000), MST_HANG_NONE);
        assert_int_equal(mst_hang_deadline_ns(&rank.hang), UINT64_MAX);
    }
}

/* ---- limits that are off ---- */

/* A limit is off. It is never reached. */
static void what_is_never_is_never(void **state)
{
    static const struct {
        int64_t soft_ms, hard_ms, soft_at, hard_at;
    } cases[] = {{-1, -1, -1, -1},
                 {-1, HARD, -1, HARD},
                 {SOFT, -1, SOFT, -1},
                 {0, HARD, -1, -1},
                 {SOFT, INT64_MAX, SOFT, -1}};

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rank rank = rank_new();

        rank.page.soft_ms = cases[i].soft_ms;
        rank.page.hard_ms = cases[i].hard_ms;
        turn(&rank, FUNCTION);
        rank.page.pings = 1;
        (void)look(&rank);
        is_found(&rank, cases[i].soft_at, cases[i].hard_at, MST_HANG_PROGRESS);
    }
}

/* A section switches a limit off. That limit is never reached in it. */
static void a_section_where_a_limit_is_off(void **state)
{
    static const struct {
        int64_t soft_ms, hard_ms, limit_ms, soft_at, hard_at;
    } cases[] = {{-1, HARD, 100, -1, 100 + HARD},
                 {SOFT, -1, 100, 100, -1},
                 {SOFT, HARD, INT64_MAX, -1, -1},
                 {SOFT, HARD, 0, 0, HARD - SOFT}};

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rank rank = rank_new();

        rank.page.soft_ms = cases[i].soft_ms;
        rank.page.hard_ms = cases[i].hard_ms;
        rank.page.section_limit_ms = cases[i].limit_ms;
        turn(&rank, FUNCTION);
        rank.page.section = 1;
        is_found(&rank, cases[i].soft_at, cases[i].hard_at, MST_HANG_SECTION);
    }
}

/* ---- once, and whose time ---- */

/* A rank does nothing for long. `soft` is reported once in an attempt. */
static void soft_is_said_once_in_an_attempt(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    assert_int_equal(watch(&rank, SOFT), MST_HANG_SOFT);
    rank.page.pings = 2; /* it goes on, and stops again */
    assert_int_equal(watch(&rank, HARD - 1), MST_HANG_NONE);
    rank.page.pings = 3;
    assert_int_equal(look(&rank), MST_HANG_NONE);
    turn(&rank, BEFORE); /* the next attempt */
    (void)look(&rank);
    turn(&rank, FUNCTION);
    rank.page.pings++;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
}

/* A rank goes from before the function into it. That is one attempt. */
static void from_before_into_the_function_is_one_attempt(void **state)
{
    struct rank rank = rank_new();

    (void)state;
    turn(&rank, BEFORE);
    rank.page.pings = 1;
    (void)look(&rank);
    assert_int_equal(watch(&rank, SOFT), MST_HANG_SOFT);
    turn(&rank, FUNCTION);
    rank.page.pings++;
    (void)look(&rank);
    is_found(&rank, -1, HARD, MST_HANG_PROGRESS);
}

/* An attempt begins and ends between two looks. The next one counts as another. */
static void an_attempt_between_two_looks_is_another_one(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    assert_int_equal(watch(&rank, SOFT), MST_HANG_SOFT);
    turn(&rank, AFTER);
    turn(&rank, WAITS);
    turn(&rank, BEFORE);
    turn(&rank, FUNCTION);
    rank.page.pings++;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
}

/* The watcher looks as often as it is asked to, is stopped for so long at each possible moment,
 * and then the rank, stopped with it, goes on. The time is taken off all clocks: no rank is
 * blamed for it. */
static void a_watcher_that_was_stopped_blames_nobody_62(void **state)
{
    (void)state;
    for (uint64_t begin_ms = 1; begin_ms < SOFT; begin_ms += 7) {
        struct rank rank = in_function();
        uint64_t asked_ns;

        rank.page.pings = 1;
        assert_int_equal(watch(&rank, begin_ms), MST_HANG_NONE);
        asked_ns = mst_hang_deadline_ns(&rank.hang);
        rank.now_ns = asked_ns + 100000 * MS;
        if (asked_ns - 1000 * MS >= SOFT * MS) { /* it would have been found just then */
            assert_int_equal(look(&rank), MST_HANG_SOFT);
            assert_int_equal(rank.found.since_ms, SOFT);
            continue;
        }
        assert_int_equal(look(&rank), MST_HANG_NONE);
        rank.page.pings = 2;
        (void)look(&rank);
        is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
    }
}

/* Each clock, by what makes it run and how it is found. */
static const struct {
    struct mst_hang_sample from;
    enum mst_hang_reason reason;
    uint64_t limit_ms;
    unsigned phase;
    bool told;
} clocks[] = {
    {{.pings = 1}, MST_HANG_PROGRESS, SOFT, FUNCTION, false},
    {{.checks = 1}, MST_HANG_PROGRESS, SOFT, FUNCTION, false},
    {{.from_start = true}, MST_HANG_PROGRESS, SOFT, FUNCTION, false},
    {{.section = 1}, MST_HANG_SECTION, SOFT, FUNCTION, false},
    {{.atomic = 1}, MST_HANG_ATOMIC, SOFT, FUNCTION, false},
    {{.pings = 0}, MST_HANG_TOLD, HARD, FUNCTION, true},
    {{.pings = 0}, MST_HANG_AFTER, HARD, AFTER, false},
};

static struct rank with_clock(size_t row)
{
    struct rank rank = rank_new();

    rank.page.from_start = clocks[row].from.from_start;
    rank.page.section_limit_ms = SOFT;
    turn(&rank, FUNCTION);
    (void)look(&rank);
    if (clocks[row].phase != FUNCTION) {
        turn(&rank, clocks[row].phase);
    }
    rank.page.pings = clocks[row].from.pings;
    rank.page.checks = clocks[row].from.checks;
    rank.page.section = clocks[row].from.section;
    rank.page.atomic = clocks[row].from.atomic;
    rank.page.told = clocks[row].told ? rank.page.turn : 0;
    (void)look(&rank);
    return rank;
}

/* A watcher looks late, or says that it was stopped. The pause is taken off each clock. */
static void a_pause_of_the_watcher_is_taken_off_each_clock(void **state)
{
    const uint64_t pause_ns = 100000 * MS;

    (void)state;
    for (size_t row = 0; row < 2 * (sizeof clocks / sizeof clocks[0]); row++) {
        struct rank rank = with_clock(row / 2);
        uint64_t begin_ns = rank.now_ns;

        assert_int_equal(watch(&rank, clocks[row / 2].limit_ms / 2), MST_HANG_NONE);
        if (row % 2 == 0) {
            rank.now_ns = mst_hang_deadline_ns(&rank.hang) + pause_ns;
        } else {
            rank.now_ns += pause_ns;
            mst_hang_pause(&rank.hang, pause_ns);
        }
        assert_int_equal(look(&rank), MST_HANG_NONE);
        assert_int_not_equal(watch(&rank, 10000), MST_HANG_NONE);
        assert_int_equal(rank.found.reason, clocks[row / 2].reason);
        assert_int_equal(rank.now_ns - pause_ns - begin_ns, clocks[row / 2].limit_ms * MS);
    }
}

/* ---- waiting in muster ---- */

/* A rank waits in muster, however long. The time is no lack of progress; before it and behind it
 * the clock runs. The clocks of an interruption, and of what follows the function, go on. */
static void the_time_in_a_wait_is_no_lack_of_progress(void **state)
{
    const uint64_t look_ms = SOFT / 8 + 1;

    (void)state;
    for (size_t row = 0; row < sizeof clocks / sizeof clocks[0]; row++) {
        enum mst_hang_reason reason = clocks[row].reason;
        struct rank rank = with_clock(row);
        uint64_t begin_ns = rank.now_ns;

        assert_int_equal(watch(&rank, 200), MST_HANG_NONE);
        rank.now_ns += SOFT / 10 * MS; /* in which it may have begun to wait */
        rank.page.waits = 1;
        if (reason != MST_HANG_PROGRESS && reason != MST_HANG_SECTION) {
            assert_int_not_equal(watch(&rank, 10000), MST_HANG_NONE);
            assert_int_equal(rank.now_ns - begin_ns, clocks[row].limit_ms * MS);
            continue;
        }
        assert_int_equal(watch(&rank, 100000), MST_HANG_NONE);
        rank.page.waits = 2;
        (void)look(&rank);
        begin_ns = rank.now_ns;
        assert_int_not_equal(watch(&rank, 10000), MST_HANG_NONE);
        assert_int_equal(rank.found.reason, reason);
        assert_in_range(rank.now_ns - begin_ns, (SOFT - 200) * MS, (SOFT - 200 + look_ms) * MS);
    }
}

/* A rank loops over waits. One that is over and another one are seen as one wait. */
static void one_wait_after_the_other_is_waiting(void **state)
{
    struct rank rank = in_function();
    uint64_t since_ns;

    (void)state;
    rank.page.pings = 1;
    rank.page.waits = 1;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(watch(&rank, SOFT / 2), MST_HANG_NONE);
        rank.page.waits += 2;
    }
    (void)look(&rank);
    assert_true(mst_hang_waits(&rank.hang, &since_ns));
    assert_int_equal(since_ns, UINT64_C(100) * (SOFT / 2) * MS);
    rank.page.waits++;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
}

/* The watcher says whether a rank waits in muster and for how long. */
static void whether_it_waits_and_for_how_long(void **state)
{
    struct rank rank = in_function();
    uint64_t since_ns;

    (void)state;
    assert_false(mst_hang_waits(&rank.hang, &since_ns));
    rank.page.pings = 1;
    rank.page.waits = 1;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 250), MST_HANG_NONE);
    assert_true(mst_hang_waits(&rank.hang, &since_ns));
    assert_int_equal(since_ns, 250 * MS);
    rank.now_ns += 7000 * MS;
    mst_hang_pause(&rank.hang, 7000 * MS);
    (void)look(&rank);
    assert_true(mst_hang_waits(&rank.hang, &since_ns));
    assert_int_equal(since_ns, 250 * MS);
    rank.page.told = rank.page.turn; /* its call is cut short */
    (void)look(&rank);
    assert_false(mst_hang_waits(&rank.hang, &since_ns));
    turn(&rank, WAITS);
    (void)look(&rank);
    rank.now_ns += 30 * MS;
    (void)look(&rank);
    assert_true(mst_hang_waits(&rank.hang, &since_ns));
    assert_int_equal(since_ns, 30 * MS);
    turn(&rank, AFTER);
    (void)look(&rank);
    assert_false(mst_hang_waits(&rank.hang, &since_ns));
    turn(&rank, OUTSIDE);
    (void)look(&rank);
    assert_false(mst_hang_waits(&rank.hang, &since_ns));
}

/* The next look finds it in another wait, or between two of them. */
static void goes_on_waiting(struct rank *rank, bool between)
{
    rank->now_ns += SOFT / 10 * MS;
    rank->page.waits = (rank->page.waits / 2 + 1) * 2 + !between;
    rank->page.checks++;
    assert_int_equal(look(rank), MST_HANG_NONE);
}

/* A rank that pinged waits for a short time again and again. Its waits count from the last ping,
 * as calls are no progress of it: it may be a livelock. */
static void a_row_of_waits_counts_from_the_last_ping(void **state)
{
    (void)state;
    for (unsigned pinged = 0; pinged < 2; pinged++) {
        struct rank rank = in_function();
        uint64_t since_ns;

        rank.page.pings = pinged;
        goes_on_waiting(&rank, false);
        for (unsigned i = 1; i <= 50; i++) {
            goes_on_waiting(&rank, i % 5 == 4);
        }
        assert_true(mst_hang_waits(&rank.hang, &since_ns));
        assert_int_equal(since_ns, pinged ? UINT64_C(5) * SOFT * MS : 0);
        rank.page.pings += pinged;
        goes_on_waiting(&rank, false);
        assert_true(mst_hang_waits(&rank.hang, &since_ns));
        assert_int_equal(since_ns, 0);
    }
}

/* A rank's own clock runs. It does not wait, so the row of its waits ends; a pause of the
 * watcher is no time of that either. */
static void a_row_of_waits_ends_where_the_clock_runs(void **state)
{
    struct rank rank = in_function();
    uint64_t since_ns;

    (void)state;
    rank.page.pings = 1;
    for (unsigned i = 0; i < 10; i++) {
        goes_on_waiting(&rank, false);
    }
    goes_on_waiting(&rank, true);
    rank.now_ns += SOFT / 10 * MS;
    assert_int_equal(look(&rank), MST_HANG_NONE);
    goes_on_waiting(&rank, false);
    goes_on_waiting(&rank, false);
    assert_true(mst_hang_waits(&rank.hang, &since_ns));
    assert_int_equal(since_ns, UINT64_C(2) * (SOFT / 10) * MS);
    rank.now_ns += 7000 * MS;
    mst_hang_pause(&rank.hang, 7000 * MS);
    goes_on_waiting(&rank, false);
    assert_true(mst_hang_waits(&rank.hang, &since_ns));
    assert_int_equal(since_ns, UINT64_C(3) * (SOFT / 10) * MS);
}

/* ---- all others wait for it ---- */

/* A rank is silent if it has not called muster, and how long is known. Each thing that it did or
 * is in ends that. */
static void whether_it_is_silent_and_for_how_long(void **state)
{
    static const struct mst_hang_sample others[] = {{.pings = 1},  {.checks = 1},
                                                    {.waits = 1},  {.section = 1},
                                                    {.atomic = 1}, {.from_start = true}};
    uint64_t since_ns;

    (void)state;
    for (size_t i = 0; i <= sizeof others / sizeof others[0]; i++) {
        struct rank rank = in_function();

        assert_int_equal(watch(&rank, UINT64_C(7) * SOFT), MST_HANG_NONE);
        assert_true(mst_hang_silent(&rank.hang, &since_ns));
        assert_int_equal(since_ns, UINT64_C(7) * SOFT * MS);
        if (i < sizeof others / sizeof others[0]) {
            rank.page.pings = others[i].pings;
            rank.page.checks = others[i].checks;
            rank.page.waits = others[i].waits;
            rank.page.section = others[i].section;
            rank.page.atomic = others[i].atomic;
            rank.page.from_start = others[i].from_start;
        } else {
            rank.page.told = rank.page.turn;
        }
        (void)look(&rank);
        assert_false(mst_hang_silent(&rank.hang, &since_ns));
    }
}

/* Silence begins with the phase, or behind a section: a section without a clock is no silence. */
static void silence_begins_with_the_phase_or_behind_a_section(void **state)
{
    struct rank rank = rank_new();
    uint64_t since_ns;

    (void)state;
    (void)look(&rank);
    assert_false(mst_hang_silent(&rank.hang, &since_ns));
    turn(&rank, BEFORE);
    (void)look(&rank);
    assert_int_equal(watch(&rank, 500), MST_HANG_NONE);
    assert_true(mst_hang_silent(&rank.hang, &since_ns));
    assert_int_equal(since_ns, 500 * MS);
    turn(&rank, FUNCTION);
    (void)look(&rank);
    assert_int_equal(watch(&rank, 300), MST_HANG_NONE);
    assert_true(mst_hang_silent(&rank.hang, &since_ns));
    assert_int_equal(since_ns, 300 * MS);
    rank.page.section = 2;
    (void)look(&rank);
    assert_int_equal(watch(&rank, 200), MST_HANG_NONE);
    assert_true(mst_hang_silent(&rank.hang, &since_ns));
    assert_int_equal(since_ns, 200 * MS);
    for (unsigned phase = AFTER; phase <= WAITS; phase++) {
        turn(&rank, phase);
        (void)look(&rank);
        assert_false(mst_hang_silent(&rank.hang, &since_ns));
    }
}

/* Others wait for a silent rank, and `soft` was reported. It is killed as any other, however
 * long it was silent before. */
static void one_that_is_awaited_is_ended_as_any_other(void **state)
{
    struct rank rank = in_function();

    (void)state;
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE);
    mst_hang_await(&rank.hang);
    assert_int_not_equal(mst_hang_deadline_ns(&rank.hang), UINT64_MAX);
    assert_int_equal(watch(&rank, HARD - SOFT), MST_HANG_HARD);
    assert_int_equal(rank.found.reason, MST_HANG_PROGRESS);
    assert_int_equal(rank.found.since_ms, HARD);
    assert_true(rank.found.never);
}

/* Others wait for a silent rank. That is over with the phase or a call. */
static void awaited_is_over_with_the_phase_or_a_call(void **state)
{
    struct rank rank = in_function();

    (void)state;
    assert_int_equal(watch(&rank, SOFT), MST_HANG_NONE);
    mst_hang_await(&rank.hang);
    turn(&rank, BEFORE);
    (void)look(&rank);
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE);
    mst_hang_await(&rank.hang);
    rank.page.checks++;
    (void)look(&rank);
    is_found(&rank, -1, HARD, MST_HANG_PROGRESS);
}

/* A rank was stopped for over an eighth of its limit before it would be found, or later, unseen.
 * Of the stop an eighth counts at most. */
static void a_stop_counts_for_an_eighth_at_most(void **state)
{
    struct rank rank = in_function();
    uint64_t begin_ns = rank.now_ns;

    (void)state;
    rank.page.pings = 1;
    assert_int_equal(watch(&rank, 300), MST_HANG_NONE);
    rank.now_ns += 550 * MS; /* 600 would be over */
    assert_int_equal(look(&rank), MST_HANG_NONE);
    assert_int_equal(watch(&rank, 100000), MST_HANG_SOFT);
    assert_true(rank.now_ns - begin_ns >= (SOFT + 550 - SOFT / 8) * MS);
    assert_true(rank.now_ns - begin_ns <= (SOFT + 550) * MS);
}

/* A watcher may look as often as it likes: the result is the same. */
static void a_watcher_may_look_as_often_as_it_likes(void **state)
{
    struct rank rank = in_function();

    (void)state;
    rank.page.pings = 1;
    (void)look(&rank);
    for (uint64_t ms = 1; ms < SOFT; ms++) {
        rank.now_ns += MS;
        assert_int_equal(look(&rank), MST_HANG_NONE);
    }
    rank.now_ns += MS;
    assert_int_equal(look(&rank), MST_HANG_SOFT);
}

/* Counters are large. All 64 bits count. */
static void all_counters_are_wide_84(void **state)
{
    struct rank rank = rank_new();

    (void)state;
    rank.page.turn = (UINT64_C(1) << 60) - 8;
    rank.page.pings = UINT64_C(1) << 32;
    rank.page.checks = UINT64_MAX - 3;
    rank.page.atomic = UINT64_C(1) << 40;
    turn(&rank, FUNCTION);
    (void)look(&rank);
    assert_int_equal(watch(&rank, 100000), MST_HANG_NONE);
    rank.page.checks += 5; /* over the end */
    (void)look(&rank);
    assert_int_equal(rank.found.count, 5);
    assert_int_equal(watch(&rank, 100), MST_HANG_NONE);
    rank.page.pings += UINT64_C(1) << 32; /* as 32 bits nothing would have changed */
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
    assert_int_equal(rank.found.count, UINT64_C(1) << 32);
}

/* A watcher begins to look later. It counts from then on. */
static void who_looks_from_now_on_counts_from_now_on(void **state)
{
    struct rank rank = rank_new();

    (void)state;
    rank.page.turn = 8 * 7 + FUNCTION; /* it has been at it for long */
    rank.page.start_known = true;
    rank.page.pings = 100;
    rank.page.pings_start = 50;
    (void)look(&rank);
    is_found(&rank, SOFT, HARD, MST_HANG_PROGRESS);
    assert_int_equal(rank.found.count, 50);
}

/* The watcher knows at which pings and calls a rank stands; between attempts at none. */
static void where_it_stands(void **state)
{
    struct rank rank = in_function();
    uint64_t pings, checks;

    (void)state;
    rank.page.pings = 3;
    rank.page.checks = 4;
    (void)look(&rank);
    assert_true(mst_hang_stands(&rank.hang, &pings, &checks));
    assert_int_equal(pings, 3);
    assert_int_equal(checks, 4);
    turn(&rank, WAITS);
    (void)look(&rank);
    assert_false(mst_hang_stands(&rank.hang, &pings, &checks));
    assert_int_equal(pings, 0);
    assert_int_equal(checks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pings_count_once_one_came),
        cmocka_unit_test(checks_count_where_no_ping_came),
        cmocka_unit_test(checks_do_not_count_beside_pings_55),
        cmocka_unit_test(from_start_counts_from_the_start),
        cmocka_unit_test(before_the_function_counts_as_the_function),
        cmocka_unit_test(what_came_in_another_phase_is_not_counted),
        cmocka_unit_test(the_one_ping_before_the_first_look_counts),
        cmocka_unit_test(with_unknown_start_the_first_look_is_it),
        cmocka_unit_test(a_section_has_its_own_limit),
        cmocka_unit_test(the_innermost_section_counts),
        cmocka_unit_test(after_a_section_the_clock_begins_again_52_53),
        cmocka_unit_test(an_atomic_section_counts_from_its_beginning_66),
        cmocka_unit_test(the_time_in_an_atomic_section_is_no_lack_of_progress),
        cmocka_unit_test(who_was_told_has_the_hard_time_whatever_it_counts),
        cmocka_unit_test(who_was_told_and_does_nothing_gets_no_more_time),
        cmocka_unit_test(told_in_an_earlier_turn_is_over),
        cmocka_unit_test(after_has_the_hard_time_60),
        cmocka_unit_test(who_waits_or_is_outside_is_not_counted_56_59),
        cmocka_unit_test(what_is_never_is_never),
        cmocka_unit_test(a_section_where_a_limit_is_off),
        cmocka_unit_test(soft_is_said_once_in_an_attempt),
        cmocka_unit_test(from_before_into_the_function_is_one_attempt),
        cmocka_unit_test(an_attempt_between_two_looks_is_another_one),
        cmocka_unit_test(a_watcher_that_was_stopped_blames_nobody_62),
        cmocka_unit_test(a_pause_of_the_watcher_is_taken_off_each_clock),
        cmocka_unit_test(the_time_in_a_wait_is_no_lack_of_progress),
        cmocka_unit_test(one_wait_after_the_other_is_waiting),
        cmocka_unit_test(whether_it_waits_and_for_how_long),
        cmocka_unit_test(a_row_of_waits_counts_from_the_last_ping),
        cmocka_unit_test(a_row_of_waits_ends_where_the_clock_runs),
        cmocka_unit_test(whether_it_is_silent_and_for_how_long),
        cmocka_unit_test(silence_begins_with_the_phase_or_behind_a_section),
        cmocka_unit_test(one_that_is_awaited_is_ended_as_any_other),
        cmocka_unit_test(awaited_is_over_with_the_phase_or_a_call),
        cmocka_unit_test(a_stop_counts_for_an_eighth_at_most),
        cmocka_unit_test(a_watcher_may_look_as_often_as_it_likes),
        cmocka_unit_test(all_counters_are_wide_84),
        cmocka_unit_test(who_looks_from_now_on_counts_from_now_on),
        cmocka_unit_test(where_it_stands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
