/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: restart / Hangs */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/hang/monitor.h"

#define MS UINT64_C(1000000)
#define SOFT 600
#define HARD 900
#define GRACE 50

enum { RANKS = 3, SIGNALS_MAX = 64, NOBODY = 99 };

/* Ranks that are pages only, and what the monitor did about them. */
struct stage {
    struct mst_monitor monitor;
    struct mst_watched ranks[RANKS];
    int fds[RANKS];
    uint64_t now_ns;
    unsigned softs, hards, signals;
    int sent[SIGNALS_MAX];
    uint64_t sent_ns[SIGNALS_MAX];
    uint64_t suspect, generation;
    char text[512];
    bool refuses; /* to have them ended */
    bool forgets; /* who gets SIGKILL */
    bool asks, others_wait;
    const struct mst_watched *asked; /* whether those of other agents wait, too */
};

static void on_soft(void *ctx, struct mst_watched *suspect, struct mst_watched *one,
                    const char *text)
{
    struct stage *stage = ctx;

    stage->softs++;
    stage->suspect = suspect != NULL ? suspect->tag : NOBODY;
    stage->generation = one->generation;
    (void)snprintf(stage->text, sizeof stage->text, "%s", text);
}

static bool on_hard(void *ctx, struct mst_watched *one, const char *text)
{
    struct stage *stage = ctx;

    (void)one;
    stage->hards++;
    (void)snprintf(stage->text, sizeof stage->text, "%s", text);
    return !stage->refuses;
}

static void on_send(void *ctx, struct mst_watched *one, int number)
{
    struct stage *stage = ctx;

    assert_true(stage->signals < SIGNALS_MAX);
    stage->sent[stage->signals] = number;
    stage->sent_ns[stage->signals++] = stage->now_ns;
    if (stage->forgets && number == SIGKILL) {
        mst_monitor_remove(&stage->monitor, one);
    }
}

static bool on_waits(void *ctx, const struct mst_watched *one, uint64_t now_ns, char *text,
                     size_t room)
{
    struct stage *stage = ctx;

    (void)now_ns;
    stage->asked = one;
    (void)snprintf(text, room, "others");
    return stage->others_wait;
}

/* All in the function of generation 7. */
static void stage_open(struct stage *stage)
{
    const struct mst_monitor_events events = {
        .soft = on_soft, .hard = on_hard, .send = on_send, .ctx = stage};

    *stage = (struct stage){.now_ns = 1000 * MS};
    mst_monitor_init(&stage->monitor, &events);
    for (unsigned i = 0; i < RANKS; i++) {
        struct mst_watched *one = &stage->ranks[i];

        assert_int_equal(mst_page_create(&one->page, &stage->fds[i]), MUSTER_OK);
        one->tag = i;
        one->pid = getpid();
        one->pidfd = -1;
        atomic_store(&one->page->thread, (uint64_t)syscall(SYS_gettid));
        atomic_store(&one->page->soft_ms, SOFT);
        atomic_store(&one->page->hard_ms, HARD);
        atomic_store(&one->page->grace_ms, GRACE);
        atomic_store(&one->page->section_limit_ms, -1);
        atomic_store(&one->page->step, MST_PAGE_NO_STEP);
        atomic_store(&one->page->rank, i);
        atomic_store(&one->page->ranks, RANKS);
        atomic_store(&one->page->generation, 7);
        mst_page_turn(one->page, MST_PHASE_FUNCTION);
        mst_monitor_add(&stage->monitor, one);
    }
    (void)mst_monitor_look(&stage->monitor, stage->now_ns);
}

static void stage_close(struct stage *stage)
{
    mst_monitor_stop(&stage->monitor);
    for (unsigned i = 0; i < RANKS; i++) {
        mst_page_unmap(stage->ranks[i].page);
        (void)close(stage->fds[i]);
    }
}

static void pings(struct stage *stage, unsigned rank, uint64_t count)
{
    atomic_fetch_add(&stage->ranks[rank].page->pings, count);
}

static void checks(struct stage *stage, unsigned rank, uint64_t count)
{
    atomic_fetch_add(&stage->ranks[rank].page->checks, count);
}

/* Looks when it is asked to, for so long. */
static void passes(struct stage *stage, uint64_t ms)
{
    uint64_t end_ns = stage->now_ns + ms * MS;

    for (;;) {
        uint64_t next_ns = mst_monitor_look(&stage->monitor, stage->now_ns);

        if (next_ns > end_ns) {
            break;
        }
        assert_true(next_ns > stage->now_ns);
        stage->now_ns = next_ns;
    }
    stage->now_ns = end_ns;
}

/* ---- who is suspected ---- */

/* Ranks stand still, and nothing tells them apart, also not which was found first. The record
 * says at which step they stand, and names no rank; all are interrupted. */
static void of_equal_ones_nobody_is_suspected(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    pings(&stage, 1, 5);
    passes(&stage, SOFT / 2);
    pings(&stage, 0, 5);
    pings(&stage, 2, 5);
    passes(&stage, SOFT / 2 + 10);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, NOBODY);
    assert_int_equal(stage.generation, 7);
    assert_string_equal(stage.text,
                        "made no progress for 0.6 s: all stand at 5 pings: any of them");
    stage_close(&stage);
}

static void stand_at_step(struct stage *stage, unsigned rank, int64_t step)
{
    atomic_store(&stage->ranks[rank].page->step, step);
    pings(stage, rank, (uint64_t)step + 1);
}

/* Equal ranks stand still, and one at a higher step. The record names the step of the equal
 * ones, and no suspect. */
static void equal_ones_are_told_by_their_step(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    stand_at_step(&stage, 0, 6);
    stand_at_step(&stage, 1, 7);
    stand_at_step(&stage, 2, 6);
    passes(&stage, SOFT + 10);
    assert_int_equal(stage.suspect, NOBODY);
    assert_string_equal(stage.text,
                        "made no progress for 0.6 s: ranks 0, 2 stand at step 6: any of them");
    stage_close(&stage);
}

/* Ranks stand still at the same step, but one has not gone on to the call that follows. That one
 * is the suspect. */
static void of_equal_steps_the_other_calls_tell(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i++) {
        stand_at_step(&stage, i, 6);
        checks(&stage, i, i == 1 ? 6 : 7);
    }
    passes(&stage, SOFT + 10);
    assert_int_equal(stage.suspect, 1);
    assert_string_equal(stage.text, "made no progress for 0.6 s: 6 calls of muster in this "
                                    "attempt, others 7; running");
    stage_close(&stage);
}

static void waits(struct stage *stage, unsigned rank, const char *what)
{
    checks(stage, rank, 1);
    mst_page_wait_begin(stage->ranks[rank].page, what);
}

/* A rank waits in muster and stands as low as the others. It is no suspect. */
static void one_that_waits_in_muster_is_no_suspect(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i++) {
        stand_at_step(&stage, i, 6);
    }
    waits(&stage, 0, "barrier 'step'");
    waits(&stage, 2, "barrier 'step'");
    for (unsigned i = 0; i < 40; i++) {
        pings(&stage, 1, 1);
        passes(&stage, SOFT / 2);
    }
    assert_int_equal(stage.softs, 0);
    passes(&stage, SOFT / 2 + 10);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, 1);
    assert_string_equal(stage.text, "made no progress for 0.6 s: 47 pings in this attempt, others "
                                    "7, waiting in barrier 'step'; running");
    assert_int_equal(stage.hards, 0);
    stage_close(&stage);
}

/* A rank stops in a wait of a generation that is over, or the word that cuts its wait short does
 * not come. It does not count as waiting. */
static void nobody_waits_in_a_generation_that_is_over(void **state)
{
    enum { GOES_ON, UNWINDS, WAS_TOLD, CASES };

    (void)state;
    for (unsigned other = GOES_ON; other < CASES; other++) {
        struct stage stage;

        stage_open(&stage);
        for (unsigned i = 0; i < RANKS; i++) {
            stand_at_step(&stage, i, 6);
        }
        waits(&stage, 1, "barrier 'step'");
        waits(&stage, 2, "barrier 'step'");
        passes(&stage, SOFT / 2);
        if (other == UNWINDS) {
            mst_page_turn(stage.ranks[0].page, MST_PHASE_AFTER);
            mst_page_turn(stage.ranks[2].page, MST_PHASE_WAITS);
        } else if (other == WAS_TOLD) {
            atomic_store(&stage.ranks[0].page->told, atomic_load(&stage.ranks[0].page->turn));
            mst_page_turn(stage.ranks[2].page, MST_PHASE_WAITS);
        }
        for (unsigned i = 0; i < 20; i++) {
            pings(&stage, 0, 1);
            passes(&stage, HARD / 4);
            if (other == UNWINDS) {
                mst_page_turn(stage.ranks[0].page, MST_PHASE_WAITS);
            }
        }
        assert_int_equal(stage.hards, other); /* one that was told is to return, too */
        assert_int_equal(stage.ranks[1].ended_by, other == GOES_ON ? 0 : SIGKILL);
        assert_int_equal(stage.ranks[2].ended_by, 0);
        stage_close(&stage);
    }
}

static void all_wait(struct stage *stage, const char *const what[RANKS], uint32_t ranks)
{
    stage_open(stage);
    for (unsigned i = 0; i < RANKS; i++) {
        atomic_store(&stage->ranks[i].page->ranks, ranks);
        stand_at_step(stage, i, 6);
        waits(stage, i, what[i]);
    }
    passes(stage, SOFT + 10);
}

/* All ranks wait for a round but one, which waits for another. That one is named. */
static void all_wait_for_what_one_does_not_wait_for(void **state)
{
    static const char *const names[] = {"barrier 'a'", "barrier 'b'", "barrier 'a'"};
    struct stage stage;

    (void)state;
    all_wait(&stage, names, RANKS);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, 1);
    assert_int_equal(stage.generation, 7);
    assert_string_equal(stage.text,
                        "made no progress for 0.6 s: ranks 0, 2 wait in barrier 'a' (missing: rank "
                        "1), rank 1 waits in barrier 'b' (missing: ranks 0, 2); running");
    stage_close(&stage);
}

static void two_wait(struct stage *stage, const char *const what[2])
{
    stage_open(stage);
    mst_monitor_remove(&stage->monitor, &stage->ranks[2]);
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&stage->ranks[i].page->ranks, 2);
        stand_at_step(stage, i, 6);
        waits(stage, i, what[i]);
    }
}

/* Two ranks wait for each other's round. Each is missing where the other waits: neither is
 * named. */
static void two_that_wait_for_each_other_are_alike(void **state)
{
    static const char *const names[] = {"barrier 'a'", "barrier 'b'"};
    struct stage stage;

    (void)state;
    two_wait(&stage, names);
    passes(&stage, SOFT + 10);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, NOBODY);
    assert_string_equal(stage.text,
                        "made no progress for 0.6 s: any of them, as all wait: rank 0 waits in "
                        "barrier 'a' (missing: rank 1), rank 1 waits in barrier 'b' (missing: "
                        "rank 0)");
    stage_close(&stage);
}

/* All ranks wait and nothing tells them apart. No rank is named. */
static void all_wait_and_nothing_tells_them_apart(void **state)
{
    static const char *const names[] = {"barrier 'a'", "bar\nier 'b'", NULL};
    struct stage stage;

    (void)state;
    all_wait(&stage, names, RANKS);
    assert_int_equal(stage.suspect, NOBODY);
    assert_string_equal(stage.text, "made no progress for 0.6 s: any of them, as all wait: rank 0 "
                                    "waits in barrier 'a', rank 1 waits in bar?ier 'b', rank 2 "
                                    "waits in muster");
    stage_close(&stage);
}

/* All ranks wait and one stands lower: it does not see that its barrier is complete. That one is
 * named. */
static void all_wait_and_one_stands_lower(void **state)
{
    static const char *const names[] = {"barrier 'a'", "barrier 'a'", "barrier 'a'"};
    struct stage stage;

    (void)state;
    all_wait(&stage, names, RANKS);
    assert_int_equal(stage.suspect, NOBODY);
    stage_close(&stage);
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i++) {
        atomic_store(&stage.ranks[i].page->ranks, RANKS);
        stand_at_step(&stage, i, i == 1 ? 6 : 7);
        waits(&stage, i, names[i]);
    }
    passes(&stage, SOFT + 10);
    assert_int_equal(stage.suspect, 1);
    assert_string_equal(stage.text, "made no progress for 0.6 s: ranks 0-2 wait in barrier 'a'; 7 "
                                    "pings in this attempt, others 8, waiting in barrier 'a'; "
                                    "running");
    stage_close(&stage);
}

/* All ranks of a node, or of a helper, wait in muster, and others do not. Nothing happens: a
 * rank elsewhere may be why they wait. */
static void that_all_wait_is_known_where_all_are_watched(void **state)
{
    static const char *const names[] = {"barrier 'a'", "barrier 'b'", "barrier 'a'"};
    struct stage stage;

    (void)state;
    for (uint32_t ranks = 0; ranks <= RANKS + 1; ranks++) {
        all_wait(&stage, names, ranks);
        passes(&stage, UINT64_C(10) * HARD);
        assert_int_equal(stage.softs, ranks == RANKS);
        stage_close(&stage);
    }
}

/* Of ranks that stand equally, in muster or elsewhere, one is stopped by a signal, a debugger or
 * the freezer. It is the suspect. */
static void of_equal_ones_the_stopped_one_is_suspected(void **state)
{
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    for (unsigned in_muster = 0; in_muster < 2; in_muster++) {
        struct stage stage;

        stage_open(&stage);
        for (unsigned i = 0; i < RANKS; i++) {
            stand_at_step(&stage, i, 6);
            if (in_muster) {
                waits(&stage, i, "barrier 'step'");
            }
        }
        stage.ranks[1].pid = pid;
        atomic_store(&stage.ranks[1].page->thread, 0);
        passes(&stage, SOFT + 10);
        assert_int_equal(stage.suspect, 1);
        assert_non_null(strstr(stage.text, "7 pings in this attempt, others 7"));
        assert_non_null(strstr(stage.text, "; stopped by a signal"));
        stage_close(&stage);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Of two ranks that stand equally one is in a declared section. The other one, whose clock has
 * run out, is the suspect. */
static void of_equal_ones_one_in_a_section_is_not_suspected(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i++) {
        stand_at_step(&stage, i, i == 2 ? 9 : 6);
    }
    atomic_store(&stage.ranks[0].page->section, 1);
    passes(&stage, SOFT + 10);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, 1);
    assert_string_equal(stage.text, "made no progress for 0.6 s: 7 pings in this attempt, others 7 "
                                    "to 10; running");
    stage_close(&stage);
}

/* All ranks wait, each for the whole time in the same call. Only then do all wait. */
static void all_wait_only_if_all_do_for_long_enough(void **state)
{
    static const char *const names[] = {"barrier 'a'", "barrier 'b'", "barrier 'a'"};
    struct stage stage;

    (void)state;
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i++) {
        atomic_store(&stage.ranks[i].page->ranks, RANKS);
        waits(&stage, i, names[i]);
    }
    for (unsigned i = 0; i < 20; i++) {
        passes(&stage, SOFT / 2);
        mst_page_wait_end(stage.ranks[i % RANKS].page);
        mst_page_wait_begin(stage.ranks[i % RANKS].page, names[i % RANKS]);
    }
    assert_int_equal(stage.softs, 0);
    passes(&stage, SOFT + SOFT / 8 + 10);
    assert_int_equal(stage.softs, 1);
    stage_close(&stage);
}

/* A rank returned from the round where the others wait. It is named as missing. */
static void one_that_returned_is_missing_where_the_others_wait(void **state)
{
    static const char *const names[] = {"barrier 'a'", "barrier 'a'", "barrier 'a'"};
    struct stage stage;

    (void)state;
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i++) {
        atomic_store(&stage.ranks[i].page->ranks, RANKS);
        waits(&stage, i, names[i]);
    }
    mst_page_turn(stage.ranks[2].page, MST_PHASE_WAITS);
    passes(&stage, SOFT + SOFT / 8 + 10);
    assert_int_equal(stage.suspect, 2);
    assert_string_equal(stage.text, "made no progress for 0.6 s: ranks 0, 1 wait in barrier 'a' "
                                    "(missing: rank 2), rank 2 waits for the end of the run; "
                                    "running");
    stage_close(&stage);
}

/* ---- all others wait for one that never called muster ---- */

/* With the default limits rank 1 has no clock; the others wait. */
static void wait_for_silent(struct stage *stage)
{
    stage_open(stage);
    for (unsigned i = 0; i < RANKS; i += 2) {
        stand_at_step(stage, i, 6);
        waits(stage, i, "barrier 'step'");
    }
}

/* All ranks wait but one that never called muster. That one is the suspect. */
static void all_wait_for_one_that_never_called(void **state)
{
    struct stage stage;

    (void)state;
    wait_for_silent(&stage);
    passes(&stage, SOFT - 10);
    assert_int_equal(stage.softs, 0);
    passes(&stage, SOFT / 8 + 20);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, 1);
    assert_int_equal(stage.generation, 7);
    assert_string_equal(stage.text, "made no progress for 0.6 s: not one call of muster in this "
                                    "attempt, others 7, waiting in barrier 'step'; running");
    for (unsigned i = 0; i < RANKS; i += 2) { /* their attempt is over */
        mst_page_turn(stage.ranks[i].page, MST_PHASE_AFTER);
        mst_page_turn(stage.ranks[i].page, MST_PHASE_WAITS);
    }
    passes(&stage, HARD - SOFT - SOFT / 8 - 20);
    assert_int_equal(stage.hards, 0);
    passes(&stage, SOFT / 4 + 40);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.hards, 1);
    assert_int_equal(stage.ranks[1].ended_by, SIGKILL);
    stage_close(&stage);
}

/* Several ranks have not called muster in this attempt, and others wait for them; or it is one,
 * and all others have returned; or there is no other. Nothing happens: they may compute. */
static void of_two_silent_ranks_none_is_suspected(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    waits(&stage, 2, "barrier 'step'");
    passes(&stage, UINT64_C(10) * HARD);
    assert_int_equal(stage.softs, 0);
    assert_int_equal(stage.hards, 0);
    stage_close(&stage);
}

/* A rank has not called muster, and no other waits for it. It is left alone. */
static void a_silent_rank_for_which_nobody_waits_is_left_alone(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    stage.monitor.events.waits = on_waits;
    stage.others_wait = true;
    for (unsigned i = 0; i < RANKS; i++) {
        atomic_store(&stage.ranks[i].page->ranks, 1);
        atomic_store(&stage.ranks[i].page->generation, i);
    }
    passes(&stage, UINT64_C(10) * HARD);
    assert_int_equal(stage.softs, 0);
    assert_null(stage.asked);
    stage_close(&stage);
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i += 2) { /* they are done */
        stand_at_step(&stage, i, 6);
        mst_page_turn(stage.ranks[i].page, MST_PHASE_WAITS);
    }
    passes(&stage, UINT64_C(10) * HARD);
    assert_int_equal(stage.softs, 0);
    stage_close(&stage);
}

/* A rank has just entered, or is in a section, however long the others have waited. It is not
 * suspected. */
static void a_young_rank_or_one_in_a_section_is_not_suspected(void **state)
{
    struct stage stage;

    (void)state;
    for (unsigned section = 0; section < 2; section++) {
        wait_for_silent(&stage);
        atomic_store(&stage.ranks[1].page->section, section);
        for (unsigned i = 0; i < 20; i++) {
            if (!section) {
                mst_page_turn(stage.ranks[1].page, MST_PHASE_FUNCTION);
            }
            passes(&stage, SOFT / 2);
        }
        assert_int_equal(stage.softs, 0);
        atomic_store(&stage.ranks[1].page->section, UINT64_C(2) * section);
        passes(&stage, SOFT + SOFT / 4);
        assert_int_equal(stage.softs, 1);
        stage_close(&stage);
    }
}

/* A watcher was stopped. No rank counts as silent by that, which has no clock that could ask for
 * a look. */
static void a_watcher_that_was_stopped_takes_nobody_for_silent(void **state)
{
    struct stage stage;

    (void)state;
    wait_for_silent(&stage);
    passes(&stage, SOFT / 2);
    mst_page_turn(stage.ranks[1].page, MST_PHASE_FUNCTION);
    passes(&stage, SOFT * 3 / 4);
    stage.now_ns += UINT64_C(100) * SOFT * MS;
    passes(&stage, 10);
    assert_int_equal(stage.softs, 0);
    passes(&stage, SOFT / 4 + SOFT / 8);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, 1);
    stage_close(&stage);
}

/* The silent rank is watched by one of several agents, the others elsewhere, or the other way
 * round. The agent of the silent rank names it. */
static void of_several_agents_that_of_the_silent_rank_names_it(void **state)
{
    (void)state;
    for (unsigned here = 0; here < 2; here++) {
        struct stage stage;

        wait_for_silent(&stage);
        if (!here) {
            stand_at_step(&stage, 1, 6);
            waits(&stage, 1, "barrier 'step'");
        }
        for (unsigned i = 0; i < RANKS; i++) {
            atomic_store(&stage.ranks[i].page->ranks, RANKS + 2);
        }
        stage.monitor.events.waits = on_waits;
        passes(&stage, UINT64_C(3) * HARD);
        assert_int_equal(stage.softs, 0);
        stage.others_wait = true;
        passes(&stage, SOFT / 8 + 10);
        assert_int_equal(stage.softs, 1);
        assert_int_equal(stage.suspect, here ? 1 : NOBODY);
        assert_string_equal(strchr(stage.text, ':'), here ? ": others; running" : ": others");
        passes(&stage, HARD - SOFT);
        assert_int_equal(stage.ranks[1].ended_by != 0, here);
        stage_close(&stage);
    }
}

/* ---- a livelock ---- */

/* Ranks that pinged wait for a short time again and again. All wait; a rank that pings keeps
 * them excused. */
static void all_wait_in_a_row_of_short_waits(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i++) {
        stand_at_step(&stage, i, 6);
        waits(&stage, i, i == 1 ? "barrier 'a'" : "barrier 'b'");
    }
    for (unsigned turn = 0; turn < 24 + 12; turn++) {
        pings(&stage, turn % RANKS, turn <= 24 && turn % 8 == 0);
        assert_int_equal(stage.softs, turn > 24 + 10);
        passes(&stage, SOFT / 10);
        for (unsigned i = 0; i < RANKS; i++) {
            checks(&stage, i, 1);
            mst_page_wait_end(stage.ranks[i].page);
            mst_page_wait_begin(stage.ranks[i].page, i == 1 ? "barrier 'a'" : "barrier 'b'");
        }
    }
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, 1);
    assert_non_null(strstr(stage.text, "rank 1 waits in barrier 'a' (missing: ranks 0, 2)"));
    stage_close(&stage);
}

/* Two ranks that pinged equally often wait for each other again and again, one in more tries than
 * the other. Neither is named: only pings are compared of ranks that wait. */
static void of_two_that_try_again_how_often_tells_nothing(void **state)
{
    static const char *const names[] = {"barrier 'a'", "barrier 'b'"};
    struct stage stage;

    (void)state;
    two_wait(&stage, names);
    for (unsigned turn = 0; turn < 12; turn++) {
        passes(&stage, SOFT / 10);
        for (unsigned i = 0; i < 2; i++) {
            checks(&stage, i, 1 + i);
            mst_page_wait_end(stage.ranks[i].page);
            mst_page_wait_begin(stage.ranks[i].page, names[i]);
        }
    }
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, NOBODY);
    assert_non_null(strstr(stage.text, "any of them, as all wait: rank 0 waits in barrier 'a'"));
    stage_close(&stage);
}

/* Several ranks stand still. The one that stands lowest is the suspect, although it may still
 * move. */
static void who_stands_lowest_although_it_moves(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    pings(&stage, 0, 51);
    pings(&stage, 1, 53);
    for (unsigned i = 0; i < 40; i++) {
        pings(&stage, 2, 1);
        passes(&stage, SOFT / 40);
    }
    passes(&stage, 1);
    assert_int_equal(stage.softs, 1);
    assert_int_equal(stage.suspect, 2);
    assert_string_equal(stage.text,
                        "held up the others, which made no progress for 0.6 s: 40 pings "
                        "in this attempt, others 51 to 53; running");
    stage_close(&stage);
}

/* Several ranks stand still. The one that never called muster in this attempt is the suspect. */
static void who_never_called(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    pings(&stage, 0, 1);
    checks(&stage, 2, 1);
    passes(&stage, SOFT + 10);
    assert_int_equal(stage.suspect, 1);
    assert_string_equal(stage.text, "made no progress for 0.6 s: not one call of muster in "
                                    "this attempt, others 0 to 1; running");
    stage_close(&stage);
}

/* No rank pings. The checks are compared, also if all ranks wait. */
static void by_checks_where_nobody_pings(void **state)
{
    struct stage stage;

    (void)state;
    for (unsigned all_wait = 0; all_wait < 2; all_wait++) {
        stage_open(&stage);
        for (unsigned i = 0; i < RANKS; i++) {
            checks(&stage, i, i == 0 ? 1 : 2);
            if (all_wait) {
                waits(&stage, i, "barrier 'a'");
            }
        }
        passes(&stage, SOFT + 10);
        assert_int_equal(stage.suspect, 0);
        assert_non_null(strstr(stage.text, all_wait
                                               ? "2 calls of muster in this attempt, others 3"
                                               : "1 call of muster in this attempt, others 2"));
        stage_close(&stage);
    }
}

/* A rank waits between two attempts, or is in another generation. It is not compared. */
static void who_waits_or_is_elsewhere_is_not_compared(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    mst_page_turn(stage.ranks[0].page, MST_PHASE_WAITS);
    atomic_store(&stage.ranks[1].page->generation, 6);
    pings(&stage, 2, 9);
    passes(&stage, SOFT + 10);
    assert_int_equal(stage.suspect, 2);
    assert_string_equal(stage.text, "made no progress for 0.6 s: 9 pings in this attempt; running");
    stage_close(&stage);
}

/* The other ranks stand lower, and one is over the limit of its section or atomic section. That
 * one is the suspect: its own clock counts. */
static void its_own_section_or_atomic_section_is_its_own(void **state)
{
    struct stage stage;

    (void)state;
    for (unsigned atomic = 0; atomic < 2; atomic++) {
        struct mst_page *page;

        stage_open(&stage);
        page = stage.ranks[2].page;
        pings(&stage, 2, 9); /* the others stand lower */
        (void)snprintf(page->section_name, sizeof page->section_name, "com\npile");
        atomic_store(&page->section_limit_ms, 300);
        atomic_store(&page->section, 1);
        atomic_store(&page->atomic, atomic);
        passes(&stage, (atomic ? SOFT : 300) + 10);
        assert_int_equal(stage.suspect, 2);
        assert_string_equal(stage.text,
                            atomic ? "was in an atomic section for 0.6 s; running"
                                   : "was in the section com?pile for longer than its limit of "
                                     "0.3 s; running");
        stage_close(&stage);
    }
}

/* A rank moved and stands still again. The processor time it used before it moved says nothing
 * of how it stands still now. */
static void processor_time_is_of_one_standstill(void **state)
{
    struct stage stage;
    const struct mst_watched *one;
    uint64_t first_ns;

    (void)state;
    stage_open(&stage);
    one = &stage.ranks[0];
    pings(&stage, 0, 1);
    passes(&stage, SOFT / 2);
    first_ns = one->cpu_at_ns;
    assert_true(first_ns != 0);
    pings(&stage, 0, 1);
    passes(&stage, SOFT / 8);
    assert_int_equal(one->cpu_at_ns, 0);
    passes(&stage, SOFT / 2);
    assert_true(one->cpu_at_ns > first_ns);
    stage_close(&stage);
}

/* Many ranks stand still. A generation has one suspect on a node, and a rank is found once in an
 * attempt. */
static void suspected_once_in_a_generation(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    for (unsigned i = 0; i < RANKS; i++) {
        atomic_store(&stage.ranks[i].page->hard_ms, -1);
        pings(&stage, i, 1);
    }
    passes(&stage, (uint64_t)SOFT * 3);
    assert_int_equal(stage.softs, 1);
    for (unsigned i = 0; i < RANKS; i++) {
        atomic_store(&stage.ranks[i].page->generation, 8);
        mst_page_turn(stage.ranks[i].page, MST_PHASE_FUNCTION);
        pings(&stage, i, 1);
    }
    passes(&stage, (uint64_t)SOFT * 3);
    assert_int_equal(stage.softs, 2);
    assert_int_equal(stage.generation, 8);
    stage_close(&stage);
}

/* ---- nobody hears it ---- */

/* The service has not received the report of a hang. Until it has no rank is killed. */
static void while_it_is_not_heard_nobody_is_ended(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    pings(&stage, 0, 1);
    passes(&stage, SOFT + 10);
    assert_int_equal(stage.softs, 1);
    stage.monitor.held = true;
    passes(&stage, (uint64_t)HARD * 5);
    assert_int_equal(stage.hards, 0);
    stage.monitor.held = false;
    passes(&stage, HARD - SOFT - 100);
    assert_int_equal(stage.hards, 0);
    passes(&stage, 200);
    assert_int_equal(stage.hards, 1);
    assert_int_equal(stage.softs, 1);
    stage_close(&stage);
}

/* ---- how it is ended ---- */

/* A rank does not end at SIGTERM. After the grace time it gets SIGKILL, not sooner; again and
 * again until it is gone. */
static void term_then_kill_again_and_again_until_it_is_removed(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    pings(&stage, 0, 1);
    passes(&stage, HARD - 20);
    assert_int_equal(stage.hards, 0);
    passes(&stage, GRACE);
    assert_int_equal(stage.hards, 1);
    assert_string_equal(stage.text, "made no progress for 0.9 s; running");
    assert_int_equal(stage.signals, 1);
    assert_int_equal(stage.sent[0], SIGTERM);
    assert_int_equal(stage.ranks[0].ended_by, SIGTERM);
    passes(&stage, 10000);
    assert_int_equal(stage.hards, 1);
    assert_true(stage.signals > 10);
    assert_true(stage.signals < 40);
    assert_true(stage.sent_ns[1] - stage.sent_ns[0] >= GRACE * MS);
    assert_true(stage.sent_ns[2] - stage.sent_ns[1] <= 10 * MS);
    assert_int_equal(stage.sent[2], SIGKILL);
    assert_int_equal(stage.ranks[0].ended_by, SIGKILL);
    stage_close(&stage);
}

/* A rank is removed from the monitor while it is looked at. Nothing of it is touched afterwards. */
static void removed_while_it_is_looked_at(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    stage.forgets = true;
    for (unsigned i = 0; i < RANKS; i++) {
        pings(&stage, i, 1);
    }
    passes(&stage, 10000);
    assert_int_equal(stage.hards, RANKS);
    assert_int_equal(stage.signals, 2 * RANKS);
    assert_int_equal(mst_monitor_look(&stage.monitor, stage.now_ns), UINT64_MAX);
    stage_close(&stage);
}

/* A rank dies by itself in the moment in which it would be killed. It gets no signal, and is
 * reported as any death. */
static void who_is_dead_already_gets_no_signal(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage);
    stage.refuses = true;
    pings(&stage, 0, 1);
    passes(&stage, 10000);
    assert_int_equal(stage.hards, 1);
    assert_int_equal(stage.signals, 0);
    assert_int_equal(stage.ranks[0].ended_by, 0);
    stage_close(&stage);
}

/* A stopped rank is killed by the pidfd. It gets SIGCONT and SIGTERM. */
static void a_signal_goes_to_the_pidfd(void **state)
{
    struct stage stage;
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        (void)raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    stage_open(&stage);
    stage.monitor.events.send = NULL;
    stage.ranks[0].pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(stage.ranks[0].pidfd >= 0);
    pings(&stage, 0, 1);
    passes(&stage, HARD + 10);
    assert_int_equal(waitpid(pid, &status, 0), pid); /* although it was stopped */
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    (void)close(stage.ranks[0].pidfd);
    stage_close(&stage);
}

/* No restarts are left and a rank hangs. The run ends with 128 and the signal, and its last line
 * names the rank, how far it came, where it is blocked and that it was killed. */
static void what_it_was_ended_for(void **state)
{
    static const char *const texts[] = {
        [MST_HANG_PROGRESS] = "made no progress for 90.0 s",
        [MST_HANG_SECTION] = "was in a section for 90.0 s",
        [MST_HANG_ATOMIC] = "was in an atomic section for 90.0 s",
        [MST_HANG_TOLD] = "did not return within 90.0 s after it was told to stop",
        [MST_HANG_AFTER] = "spent 90.0 s in abort, finalize and health check",
    };
    char text[96];

    (void)state;
    for (unsigned i = MST_HANG_PROGRESS; i <= MST_HANG_AFTER; i++) {
        mst_monitor_why(
            &(struct mst_hang_finding){.reason = (enum mst_hang_reason)i, .since_ms = 90000}, text,
            sizeof text);
        assert_string_equal(text, texts[i]);
    }
}

/* ---- how often it is looked ---- */

/* The pages are looked at every 100 ms; while something is counted every 5 to 500 ms, after an
 * eighth of the smallest limit; with no process at all never. */
static void looks_are_as_frequent_as_needed_84(void **state)
{
    struct stage stage;
    struct mst_monitor empty;

    (void)state;
    mst_monitor_init(&empty, &(struct mst_monitor_events){.ctx = NULL});
    assert_int_equal(mst_monitor_look(&empty, 5), UINT64_MAX);

    stage_open(&stage); /* nothing is counted yet */
    assert_int_equal(mst_monitor_look(&stage.monitor, stage.now_ns), stage.now_ns + 100 * MS);
    atomic_store(&stage.ranks[0].page->soft_ms, 60000);
    atomic_store(&stage.ranks[0].page->hard_ms, 90000);
    pings(&stage, 0, 1);
    assert_int_equal(mst_monitor_look(&stage.monitor, stage.now_ns), stage.now_ns + 500 * MS);
    atomic_store(&stage.ranks[0].page->soft_ms, 400);
    assert_int_equal(mst_monitor_look(&stage.monitor, stage.now_ns), stage.now_ns + 50 * MS);
    atomic_store(&stage.ranks[0].page->soft_ms, 8);
    assert_int_equal(mst_monitor_look(&stage.monitor, stage.now_ns), stage.now_ns + 5 * MS);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_equal_ones_nobody_is_suspected),
        cmocka_unit_test(equal_ones_are_told_by_their_step),
        cmocka_unit_test(of_equal_steps_the_other_calls_tell),
        cmocka_unit_test(one_that_waits_in_muster_is_no_suspect),
        cmocka_unit_test(nobody_waits_in_a_generation_that_is_over),
        cmocka_unit_test(all_wait_for_what_one_does_not_wait_for),
        cmocka_unit_test(two_that_wait_for_each_other_are_alike),
        cmocka_unit_test(all_wait_and_nothing_tells_them_apart),
        cmocka_unit_test(all_wait_and_one_stands_lower),
        cmocka_unit_test(that_all_wait_is_known_where_all_are_watched),
        cmocka_unit_test(of_equal_ones_the_stopped_one_is_suspected),
        cmocka_unit_test(of_equal_ones_one_in_a_section_is_not_suspected),
        cmocka_unit_test(all_wait_only_if_all_do_for_long_enough),
        cmocka_unit_test(one_that_returned_is_missing_where_the_others_wait),
        cmocka_unit_test(all_wait_for_one_that_never_called),
        cmocka_unit_test(of_two_silent_ranks_none_is_suspected),
        cmocka_unit_test(a_silent_rank_for_which_nobody_waits_is_left_alone),
        cmocka_unit_test(a_young_rank_or_one_in_a_section_is_not_suspected),
        cmocka_unit_test(a_watcher_that_was_stopped_takes_nobody_for_silent),
        cmocka_unit_test(of_several_agents_that_of_the_silent_rank_names_it),
        cmocka_unit_test(all_wait_in_a_row_of_short_waits),
        cmocka_unit_test(of_two_that_try_again_how_often_tells_nothing),
        cmocka_unit_test(who_stands_lowest_although_it_moves),
        cmocka_unit_test(who_never_called),
        cmocka_unit_test(by_checks_where_nobody_pings),
        cmocka_unit_test(who_waits_or_is_elsewhere_is_not_compared),
        cmocka_unit_test(its_own_section_or_atomic_section_is_its_own),
        cmocka_unit_test(processor_time_is_of_one_standstill),
        cmocka_unit_test(suspected_once_in_a_generation),
        cmocka_unit_test(while_it_is_not_heard_nobody_is_ended),
        cmocka_unit_test(term_then_kill_again_and_again_until_it_is_removed),
        cmocka_unit_test(removed_while_it_is_looked_at),
        cmocka_unit_test(who_is_dead_already_gets_no_signal),
        cmocka_unit_test(a_signal_goes_to_the_pidfd),
        cmocka_unit_test(what_it_was_ended_for),
        cmocka_unit_test(looks_are_as_frequent_as_needed_84),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
