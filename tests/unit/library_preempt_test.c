/* SPDX-License-Identifier: Apache-2.0 */
/* Preemption, from one process: its sources, its handles and its gate. What several ranks agree on
 * is shown with real ones in tests/process/test_preempt.py.
 *
 * behaviour: preemption / The sources of a process */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "preempt/shell/preempt.h"

enum { PERIOD_MS = 5, TURNS = 300, FORKS = 100, HANGS_S = 60 };

static int setup(void **state)
{
    return setenv("MUSTER_AGENT", "0", 1) == 0 ? library_stage_setup(state) : -1;
}

static muster_preempt *preempt_of(muster_client *client,
                                  const struct muster_preempt_options *options)
{
    struct muster_error err;
    muster_preempt *preempt = NULL;

    library_ok(muster_preempt_open(&preempt, client, options, &err), &err);
    return preempt;
}

static void announce(muster_client *client, int64_t in_ms)
{
    struct muster_error err;

    library_ok(muster_preempt_announce(client, 0, in_ms, "a test", &err), &err);
}

static void withdraw(muster_client *client)
{
    struct muster_error err;

    library_ok(muster_preempt_withdraw(client, 0, &err), &err);
}

/* Each look is a round trip behind what it waits for, so this is no busy loop. */
static void look(muster_client *client)
{
    struct muster_error err;
    muster_members *members;

    library_ok(muster_member_list(client, LIMIT_MS, &members, &err), &err);
    muster_members_free(members);
}

static void await_notice(muster_client *client, muster_preempt *preempt, struct muster_notice *out)
{
    while (!muster_preempt_notice(preempt, out)) {
        look(client);
    }
}

static void await_agreed(muster_client *client, muster_preempt *preempt, struct muster_notice *out)
{
    do {
        await_notice(client, preempt, out);
        look(client);
    } while (out->agreed_step < 0);
}

static void await_none(muster_client *client, muster_preempt *preempt)
{
    struct muster_notice notice;

    while (muster_preempt_notice(preempt, &notice)) {
        look(client);
    }
}

/* ---- refused ---- */

static void refused(muster_client *client, const struct muster_preempt_options *options,
                    muster_status status, const char *text)
{
    struct muster_error err = {0};
    muster_preempt *preempt = NULL;

    assert_int_equal(muster_preempt_open(&preempt, client, options, &err), status);
    assert_null(preempt);
    assert_int_equal(err.status, status);
    if (!strstr(err.text, text)) {
        fail_msg("'%s' is not in '%s'", text, err.text);
    }
}

static muster_status never(void *ctx, struct muster_notice_given *out)
{
    (void)ctx;
    (void)out;
    return MUSTER_MORE;
}

static void options_that_make_no_sense(muster_client *client)
{
    struct muster_preempt_options options = MUSTER_PREEMPT_OPTIONS_INIT;
    struct muster_preempt_source source = {.name = "a,b", .poll = never};

    options.size = 1000;
    refused(client, &options, MUSTER_EINVAL, "begin with MUSTER_PREEMPT_OPTIONS_INIT");
    options.size = sizeof(options);
    options.signals = "TERM,KILL";
    refused(client, &options, MUSTER_EINVAL, "'KILL' is no signal that can be a notice");
    options.signals = "TERM,";
    refused(client, &options, MUSTER_EINVAL, "'' is no signal");
    options.signals = "33";
    refused(client, &options, MUSTER_EINVAL, "'33' is no signal");
    options.signals = NULL;
    options.window_ms = -1;
    refused(client, &options, MUSTER_EINVAL, "preempt_window: -1 is not from 1");
    options.window_ms = 0;
    options.leave = (enum muster_preempt_leave)3;
    refused(client, &options, MUSTER_EINVAL, "none of enum muster_preempt_leave");
    options.leave = MUSTER_PREEMPT_LEAVE_DEFAULT;
    options.source_count = 1;
    refused(client, &options, MUSTER_EINVAL, "options.sources is NULL");
    options.sources = &source;
    refused(client, &options, MUSTER_EINVAL, "a source needs a poll and a name");
    source.name = "a";
    source.period_ms = -1;
    refused(client, &options, MUSTER_EINVAL, "the period of a source is negative");
    options.source_count = 33;
    refused(client, &options, MUSTER_EINVAL, "more than 32 sources");
}

/* Names, signals, sources or options make no sense; a client has a handle already, or is no
 * rank. The open is refused, with the reason. */
static void what_makes_no_sense_is_refused(void **state)
{
    muster_client *client = library_alone();
    muster_client *observer = library_observer(client);
    muster_preempt *preempt;
    struct muster_error err;
    struct sigaction action;

    (void)state;
    refused(NULL, NULL, MUSTER_EINVAL, "the client is NULL");
    refused(observer, NULL, MUSTER_EINVAL, "not a rank of the job");
    options_that_make_no_sense(client);
    assert_int_equal(setenv("MUSTER_PREEMPT_LEAVE", "some", 1), 0);
    refused(client, NULL, MUSTER_EINVAL, "'some' is not one of all, noticed");
    assert_int_equal(unsetenv("MUSTER_PREEMPT_LEAVE"), 0);
    assert_int_equal(sigaction(SIGTERM, NULL, &action), 0);
    assert_true(action.sa_handler == SIG_DFL); /* nothing of it was left */
    preempt = preempt_of(client, NULL);
    refused(client, NULL, MUSTER_EEXISTS, "this client has a handle already");
    assert_int_equal(muster_preempt_announce(client, 0, -2, NULL, &err), MUSTER_EINVAL);
    assert_int_equal(muster_preempt_announce(client, UINT32_MAX, 1, NULL, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "notice for #4294967295: no place in a job");
    assert_int_equal(muster_preempt_hold_begin(preempt, 0), MUSTER_EINVAL);
    assert_int_equal(muster_preempt_hold_end(preempt), MUSTER_EINVAL);
    assert_int_equal(muster_preempt_saved(preempt, -1, 0, &err), MUSTER_EINVAL);
    assert_int_equal(muster_preempt_reached(preempt, -1), MUSTER_GO_ON);
    muster_preempt_close(preempt);
    muster_preempt_close(NULL);
    muster_client_close(observer);
    muster_client_close(client);
}

/* ---- signals ---- */

static volatile sig_atomic_t first_calls, second_calls;
static struct sigaction below;

static void first(int number)
{
    (void)number;
    first_calls++;
}

/* Of a program that puts its handler over ours, and calls what was there. */
static void second(int number, siginfo_t *info, void *context)
{
    second_calls++;
    below.sa_sigaction(number, info, context);
}

/* A handler was put over ours by the program, or two handles want one signal. All of them are
 * served, and the last one puts back what was there. */
static void handlers_are_chained_both_ways(void **state)
{
    muster_client *client = library_alone();
    struct sigaction mine = {.sa_handler = first};
    struct sigaction over = {.sa_sigaction = second, .sa_flags = SA_SIGINFO};
    struct sigaction now;
    struct mst_signals other;
    struct muster_notice notice;
    muster_preempt *preempt;
    pid_t from;

    (void)state;
    assert_int_equal(sigaction(SIGTERM, &mine, NULL), 0);
    preempt = preempt_of(client, NULL);
    assert_int_equal(mst_signals_open(&other, UINT64_C(1) << (SIGTERM - 1), NULL, NULL), MUSTER_OK);
    assert_int_equal(sigaction(SIGTERM, &over, &below), 0);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(first_calls, 1);
    assert_int_equal(second_calls, 1);
    await_notice(client, preempt, &notice);
    assert_string_equal(notice.source, "signals");
    assert_int_equal(mst_signals_next(&other, &from), SIGTERM);
    assert_int_equal(from, getpid());
    assert_int_equal(mst_signals_next(&other, &from), 0);
    /* Ours is below: it stays, and does nothing but what was there before. */
    muster_preempt_close(preempt);
    mst_signals_close(&other);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(first_calls, 2);
    assert_int_equal(second_calls, 2);
    /* A handle that is opened now is reached, and once. */
    assert_int_equal(sigaction(SIGTERM, &below, NULL), 0);
    preempt = preempt_of(client, NULL);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(first_calls, 3);
    muster_preempt_close(preempt);
    assert_int_equal(sigaction(SIGTERM, NULL, &now), 0);
    assert_true(now.sa_handler == first);
    muster_client_close(client);
    mine.sa_handler = SIG_DFL;
    assert_int_equal(sigaction(SIGTERM, &mine, NULL), 0);
}

/* A handle is closed under a handler that the program put over muster's, and another one opened.
 * Each handler is called once, those below too, also when it is closed again. */
static void a_handle_opened_again_leaves_no_handler_out(void **state)
{
    const uint64_t wanted = UINT64_C(1) << (SIGUSR2 - 1);
    struct sigaction mine = {.sa_handler = first};
    struct sigaction over = {.sa_sigaction = second, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    struct mst_signals signals;
    pid_t from;

    (void)state;
    first_calls = second_calls = 0;
    assert_int_equal(sigaction(SIGUSR2, &mine, &before), 0);
    assert_int_equal(mst_signals_open(&signals, wanted, NULL, NULL), MUSTER_OK);
    assert_int_equal(sigaction(SIGUSR2, &over, &below), 0);
    mst_signals_close(&signals);
    for (int turn = 1; turn <= 3; turn++) {
        assert_int_equal(mst_signals_open(&signals, wanted, NULL, NULL), MUSTER_OK);
        assert_int_equal(raise(SIGUSR2), 0);
        assert_int_equal(mst_signals_next(&signals, &from), SIGUSR2);
        assert_int_equal(mst_signals_next(&signals, &from), 0);
        assert_int_equal(first_calls, 2 * turn - 1);
        assert_int_equal(second_calls, 2 * turn - 1);
        mst_signals_close(&signals);
        assert_int_equal(raise(SIGUSR2), 0);
        assert_int_equal(first_calls, 2 * turn);
        assert_int_equal(second_calls, 2 * turn);
    }
    assert_int_equal(sigaction(SIGUSR2, &before, NULL), 0);
}

/* A program installs the same handler over and under muster's, and so calls itself by way of it.
 * It is called no more than twice, not for ever. */
static void a_handler_that_is_over_and_under_ours_is_called_no_more_than_twice(void **state)
{
    const uint64_t wanted = UINT64_C(1) << (SIGWINCH - 1);
    struct sigaction same = {.sa_sigaction = second, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    struct mst_signals signals;
    pid_t from;

    (void)state;
    second_calls = 0;
    assert_int_equal(sigaction(SIGWINCH, &same, &before), 0);
    assert_int_equal(mst_signals_open(&signals, wanted, NULL, NULL), MUSTER_OK);
    assert_int_equal(sigaction(SIGWINCH, &same, &below), 0);
    mst_signals_close(&signals);
    assert_int_equal(mst_signals_open(&signals, wanted, NULL, NULL), MUSTER_OK);
    assert_int_equal(raise(SIGWINCH), 0);
    assert_int_equal(second_calls, 2);
    assert_int_equal(mst_signals_next(&signals, &from), SIGWINCH);
    mst_signals_close(&signals);
    assert_int_equal(sigaction(SIGWINCH, &before, NULL), 0);
}

static atomic_bool stop_opening;

static void *open_and_close(void *ctx)
{
    struct mst_signals signals;

    while (!atomic_load(&stop_opening)) {
        (void)mst_signals_open(&signals, UINT64_C(1) << (SIGUSR2 - 1), NULL, NULL);
        mst_signals_close(&signals);
    }
    return ctx;
}

/* A process forks while another thread opens and closes handles. The child can open one of its
 * own. */
static void a_child_takes_signals_whatever_was_locked_when_it_was_forked(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, open_and_close, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        struct mst_signals signals;
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            (void)alarm(HANGS_S);
            _exit(mst_signals_open(&signals, UINT64_C(1) << (SIGUSR1 - 1), NULL, NULL) !=
                  MUSTER_OK);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop_opening, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void raise_another(int number)
{
    (void)number;
    (void)raise(SIGUSR1);
}

/* A signal comes while the program's own handler of another one runs. Both are notices, and both
 * handlers are called. */
static void a_signal_that_comes_in_the_handler_of_another_is_a_notice_too(void **state)
{
    const int numbers[] = {SIGTERM, SIGUSR1};
    struct sigaction mine[] = {{.sa_handler = raise_another}, {.sa_handler = first}};
    struct sigaction before[2];
    struct mst_signals signals;
    uint64_t wanted;
    pid_t from;

    (void)state;
    first_calls = 0;
    assert_int_equal(mst_signals_read(&wanted, "TERM,SIGUSR1", NULL), MUSTER_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sigaction(numbers[i], &mine[i], &before[i]), 0);
    }
    assert_int_equal(mst_signals_open(&signals, wanted, NULL, NULL), MUSTER_OK);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(first_calls, 1);
    assert_int_equal(mst_signals_next(&signals, &from), SIGUSR1);
    assert_int_equal(mst_signals_next(&signals, &from), SIGTERM);
    assert_int_equal(mst_signals_next(&signals, &from), 0);
    mst_signals_close(&signals);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sigaction(numbers[i], &before[i], NULL), 0);
    }
}

/* ---- sources ---- */

struct script {
    atomic_int what; /* OK: a notice; MORE: none; EFAILED: not known */
    atomic_llong in_ms;
    atomic_uint asked;
};

static muster_status from_script(void *ctx, struct muster_notice_given *out)
{
    struct script *script = ctx;

    atomic_fetch_add(&script->asked, 1);
    out->in_ms = atomic_load(&script->in_ms);
    (void)snprintf(out->reason, sizeof(out->reason), "as scripted");
    return (muster_status)atomic_load(&script->what);
}

/* So that what it says now was heard. */
static void await_asked(muster_client *client, struct script *script)
{
    unsigned asked = atomic_load(&script->asked);

    while (atomic_load(&script->asked) < asked + 3) {
        look(client);
    }
}

static uint64_t revision_of_notice(muster_client *client)
{
    struct muster_error err;
    muster_value *value = NULL;
    uint64_t revision;

    library_ok(muster_key_get(client, "muster/preempt/notice/0", NULL, LIMIT_MS, &value, &err),
               &err);
    revision = muster_value_revision(value);
    muster_value_free(value);
    return revision;
}

/* A program has a source of its own. What it says is a notice with its name and reason, once. */
static void a_source_gives_one_notice_until_it_takes_it_back(void **state)
{
    struct script script = {.what = MUSTER_EFAILED, .in_ms = 3000000};
    const struct muster_preempt_source source = {
        .name = "script", .poll = from_script, .ctx = &script, .period_ms = PERIOD_MS};
    struct muster_preempt_options options = MUSTER_PREEMPT_OPTIONS_INIT;
    muster_client *client = library_alone();
    struct muster_notice notice;
    muster_preempt *preempt;
    uint64_t revision;

    (void)state;
    options.signals = "";
    options.sources = &source;
    options.source_count = 1;
    preempt = preempt_of(client, &options);
    assert_string_equal(muster_preempt_sources(preempt), "script");
    await_asked(client, &script);
    assert_false(muster_preempt_notice(preempt, &notice));
    atomic_store(&script.what, MUSTER_OK);
    await_notice(client, preempt, &notice);
    assert_string_equal(notice.source, "script");
    assert_string_equal(notice.reason, "as scripted");
    assert_int_equal(notice.index, 0);
    assert_int_equal(notice.rank, 0);
    assert_false(notice.assumed);
    revision = revision_of_notice(client);
    await_asked(client, &script);
    assert_int_equal(revision_of_notice(client), revision); /* said again, and the same */
    atomic_store(&script.in_ms, 2000000);
    while (revision_of_notice(client) == revision) { /* earlier */
    }
    atomic_store(&script.what, MUSTER_MORE);
    await_asked(client, &script);
    withdraw(client);
    await_none(client, preempt);
    await_asked(client, &script);
    assert_false(muster_preempt_notice(preempt, &notice));
    atomic_store(&script.what, MUSTER_OK);
    await_notice(client, preempt, &notice);
    muster_preempt_close(preempt);
    muster_client_close(client);
}

/* A source says the largest number for the time that is left, and later a smaller one; another
 * has the largest period. The smaller one is news; the other is asked once: no arithmetic makes
 * a moment of such a number. */
static void the_largest_numbers_of_a_source_are_far_away(void **state)
{
    struct script script = {.what = MUSTER_OK, .in_ms = INT64_MAX};
    struct script once = {.what = MUSTER_MORE};
    const struct muster_preempt_source sources[] = {
        {.name = "script", .poll = from_script, .ctx = &script, .period_ms = PERIOD_MS},
        {.name = "once", .poll = from_script, .ctx = &once, .period_ms = INT64_MAX},
    };
    struct muster_preempt_options options = MUSTER_PREEMPT_OPTIONS_INIT;
    muster_client *client = library_alone();
    struct muster_notice notice;
    muster_preempt *preempt;

    (void)state;
    options.signals = "";
    options.sources = sources;
    options.source_count = 2;
    preempt = preempt_of(client, &options);
    await_notice(client, preempt, &notice);
    assert_true(notice.left_ms > INT64_C(86400000));
    atomic_store(&script.in_ms, 600000);
    do { /* earlier, and so it is news */
        await_notice(client, preempt, &notice);
        look(client);
    } while (notice.left_ms > 600000);
    await_asked(client, &script);
    assert_int_equal(atomic_load(&once.asked), 1);
    muster_preempt_close(preempt);
    muster_client_close(client);
}

/* ---- the gate ---- */

/* There is no notice, and the largest step that there is is asked for. It is to be computed,
 * like any other. [Frozen, late, lost or wrong ranks] */
static void the_largest_step_is_one_like_any_other(void **state)
{
    muster_client *client = library_alone();
    muster_preempt *preempt = preempt_of(client, NULL);
    struct muster_error err;

    (void)state;
    assert_int_equal(muster_preempt_reached(preempt, INT64_MAX), MUSTER_GO_ON);
    assert_int_equal(muster_preempt_saved(preempt, INT64_MAX, 0, &err), MUSTER_EINVAL);
    muster_preempt_close(preempt);
    muster_client_close(client);
}

struct asker {
    muster_preempt *preempt;
    int64_t step; /* the next one */
    atomic_bool stop;
    _Atomic int64_t saved_at; /* -1: goes on */
    bool stopped;
};

static void *ask(void *ctx)
{
    struct asker *asker = ctx;
    enum muster_reach reach;

    while (!atomic_load_explicit(&asker->stop, memory_order_relaxed)) {
        reach = muster_preempt_reached(asker->preempt, asker->step);
        if (reach == MUSTER_GO_ON) {
            asker->step++;
            atomic_store_explicit(&asker->saved_at, -1, memory_order_relaxed);
        } else if (reach == MUSTER_SAVE_NOW) {
            atomic_store(&asker->saved_at, asker->step);
        } else {
            asker->stopped = true;
            return NULL;
        }
    }
    return NULL;
}

static char warned[512];
static unsigned warnings;

static void on_warning(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    if (level == MUSTER_LEVEL_WARN) {
        warnings++;
        (void)snprintf(warned, sizeof(warned), "%s", line);
    }
}

/* No rank of the job has a handle, and a program or a helper gives a notice. The log of the
 * client that called `muster_preempt_announce` warns that nothing is saved until a rank has, and
 * the helper's line ends with the same words. [program / muster preempt] */
static void a_notice_that_no_rank_listens_for_is_told_to_the_log(void **state)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *client = library_alone();
    muster_preempt *preempt;
    muster_client *observer;
    char wanted[512];

    (void)state;
    options.role = MUSTER_ROLE_OBSERVER;
    options.addr = client->addr;
    options.job = client->job;
    options.log = on_warning;
    observer = library_open(&options);
    announce(observer, 600000);
    (void)snprintf(wanted, sizeof(wanted),
                   "notice for #0: no rank of job '%s' listens for notices yet "
                   "(muster_preempt_open): until one does, nothing is saved",
                   client->job);
    assert_string_equal(warned, wanted);
    withdraw(observer);
    preempt = preempt_of(client, NULL);
    look(client);
    announce(observer, 600000);
    withdraw(observer);
    announce(observer, 600000);
    assert_int_equal(warnings, 1);
    muster_preempt_close(preempt);
    muster_client_close(observer);
    muster_client_close(client);
}

/* Steps are asked for on one thread while notices come and are taken back, again and again. The
 * step agreed is never one that the thread was to go on with.
 * [Frozen, late, lost or wrong ranks] */
static void nobody_is_told_to_go_on_behind_the_gate(void **state)
{
    muster_client *client = library_alone();
    struct asker asker = {.preempt = preempt_of(client, NULL), .saved_at = -1};
    int wrong = 0;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
    for (int i = 0; i < TURNS; i++) {
        struct muster_notice notice;
        int64_t saved_at;

        announce(client, 600000);
        await_agreed(client, asker.preempt, &notice);
        while ((saved_at = atomic_load(&asker.saved_at)) < 0) {
        }
        wrong += saved_at != notice.agreed_step;
        withdraw(client);
        await_none(client, asker.preempt);
        while (atomic_load(&asker.saved_at) >= 0) {
            look(client);
        }
    }
    atomic_store(&asker.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(asker.stopped);
    assert_int_equal(wrong, 0);
    muster_preempt_close(asker.preempt);
    muster_client_close(client);
}

/* The client is closed before the handle. The handle says stop, and can still be closed. */
static void a_handle_outlives_its_client(void **state)
{
    struct script script = {.what = MUSTER_MORE};
    const struct muster_preempt_source source = {
        .name = "script", .poll = from_script, .ctx = &script, .period_ms = PERIOD_MS};
    struct muster_preempt_options options = MUSTER_PREEMPT_OPTIONS_INIT;
    muster_client *client = library_alone();
    struct muster_notice notice;
    struct muster_error err;
    struct sigaction action;
    muster_preempt *preempt;

    (void)state;
    options.sources = &source;
    options.source_count = 1;
    preempt = preempt_of(client, &options);
    assert_int_equal(muster_preempt_reached(preempt, 0), MUSTER_GO_ON);
    muster_client_close(client);
    assert_int_equal(muster_preempt_reached(preempt, 1), MUSTER_STOP);
    assert_false(muster_preempt_notice(preempt, &notice));
    assert_int_equal(muster_preempt_saved(preempt, 1, 0, &err), MUSTER_EINVAL);
    assert_int_equal(sigaction(SIGTERM, NULL, &action), 0);
    assert_true(action.sa_handler == SIG_DFL);
    muster_preempt_close(preempt);
}

struct driver {
    muster_client *client;
    atomic_bool stop;
    atomic_uint turns;
};

static void *drive(void *ctx)
{
    struct driver *driver = ctx;

    while (!atomic_load(&driver->stop)) {
        struct muster_error err;
        muster_members *members;

        if (muster_member_list(driver->client, LIMIT_MS, &members, &err) == MUSTER_OK) {
            muster_members_free(members);
        }
        atomic_fetch_add(&driver->turns, 1);
    }
    return NULL;
}

/* Handles are opened and closed while another thread drives the connection. Nothing is read that
 * is being written. */
static void handles_come_and_go_beside_who_drives(void **state)
{
    struct driver driver = {.client = library_alone()};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, drive, &driver), 0);
    for (unsigned i = 0; i < 500 || atomic_load(&driver.turns) == 0; i++) {
        muster_preempt *preempt = preempt_of(driver.client, NULL);

        assert_int_equal(muster_preempt_reached(preempt, i), MUSTER_GO_ON);
        muster_preempt_close(preempt);
    }
    atomic_store(&driver.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    muster_client_close(driver.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(handlers_are_chained_both_ways),
        cmocka_unit_test(a_handle_opened_again_leaves_no_handler_out),
        cmocka_unit_test(a_handler_that_is_over_and_under_ours_is_called_no_more_than_twice),
        cmocka_unit_test(a_child_takes_signals_whatever_was_locked_when_it_was_forked),
        cmocka_unit_test(a_signal_that_comes_in_the_handler_of_another_is_a_notice_too),
        cmocka_unit_test(a_source_gives_one_notice_until_it_takes_it_back),
        cmocka_unit_test(the_largest_numbers_of_a_source_are_far_away),
        cmocka_unit_test(the_largest_step_is_one_like_any_other),
        cmocka_unit_test(nobody_is_told_to_go_on_behind_the_gate),
        cmocka_unit_test(a_notice_that_no_rank_listens_for_is_told_to_the_log),
        cmocka_unit_test(a_handle_outlives_its_client),
        cmocka_unit_test(handles_come_and_go_beside_who_drives),
    };

    return cmocka_run_group_tests(tests, setup, library_stage_teardown);
}
