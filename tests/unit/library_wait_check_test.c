/* SPDX-License-Identifier: Apache-2.0 */
/* A callback while a run waits for its peers or for the service, with a real service.
 *
 * behaviour: restart / Options, callbacks and clients */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "net/socket_dir.h"
#include "restart/shell/restart.h"

/* How often a wait goes on before the check ends it. */
struct checks {
    unsigned good;
    muster_status status;
    unsigned seen;
    unsigned finalized, terminated;
    pid_t stops; /* a service, which is stopped at the end of the wait; 0: none */
};

static muster_status check(muster_restart *restart, void *arg)
{
    struct checks *checks = arg;

    assert_true(mst_run_is_mine(restart));
    assert_false(mst_lib_holds(restart->client));
    if (checks->seen++ < checks->good) {
        return MUSTER_OK;
    }
    if (checks->stops != 0) {
        assert_int_equal(kill(checks->stops, SIGSTOP), 0);
    }
    return checks->status;
}

static muster_status finalize(muster_restart *restart, void *arg)
{
    (void)restart;
    ((struct checks *)arg)->finalized++;
    return MUSTER_OK;
}

static muster_status terminate(muster_restart *restart, void *arg)
{
    (void)restart;
    ((struct checks *)arg)->terminated++;
    return MUSTER_OK;
}

/* One of two ranks, of which only the first one runs; a watcher of both. */
struct pair {
    muster_client *service, *first, *second, *observer;
    muster_watch *watch;
    struct muster_restart_hook hooks[3];
    struct muster_restart_options options;
    struct checks checks;
    pthread_t thread; /* of the second one's run */
};

static muster_client *member(const muster_client *service, int64_t index, uint32_t max_size)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.addr = service->addr;
    options.job = "pair";
    options.size_of_job = max_size == 1 ? 1 : 2;
    options.max_size = max_size;
    options.index = index;
    return library_open(&options);
}

static void *open_second(void *ctx)
{
    struct pair *pair = ctx;

    pair->second = member(pair->service, 1, 0);
    return NULL;
}

static void watch(struct pair *pair)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_watch_options kinds = MUSTER_WATCH_OPTIONS_INIT;
    struct muster_event event = {0};
    struct muster_error err;

    options.role = MUSTER_ROLE_OBSERVER;
    options.addr = pair->service->addr;
    options.job = "pair";
    pair->observer = library_open(&options);
    kinds.kinds = MUSTER_WATCH_MEMBERS | MUSTER_WATCH_FAULTS | MUSTER_WATCH_VIEW;
    library_ok(muster_watch_open(&pair->watch, pair->observer, &kinds, &err), &err);
    do {
        library_ok(muster_watch_next(pair->watch, LIMIT_MS, &event, &err), &err);
    } while (event.type != MUSTER_EVENT_VIEW);
}

static void pair_open(struct pair *pair, bool spare)
{
    const struct muster_restart_options standard = MUSTER_RESTART_OPTIONS_INIT;
    pthread_t thread;

    *pair = (struct pair){.options = standard, .service = library_alone()};
    pair->checks.status = MUSTER_ERANGE;
    pair->hooks[0] = (struct muster_restart_hook){.call = check, .arg = &pair->checks};
    pair->hooks[1] = (struct muster_restart_hook){.call = finalize, .arg = &pair->checks};
    pair->hooks[2] = (struct muster_restart_hook){.call = terminate, .arg = &pair->checks};
    pair->options.wait_check = (struct muster_restart_hooks){.list = &pair->hooks[0], .count = 1};
    pair->options.finalize = (struct muster_restart_hooks){.list = &pair->hooks[1], .count = 1};
    pair->options.terminate = (struct muster_restart_hooks){.list = &pair->hooks[2], .count = 1};
    if (spare) {
        pair->second = member(pair->service, 1, 1);
        pair->first = member(pair->service, 0, 1);
    } else {
        assert_int_equal(pthread_create(&thread, NULL, open_second, pair), 0);
        pair->first = member(pair->service, 0, 0);
        (void)pthread_join(thread, NULL);
    }
    watch(pair);
}

static void pair_close(struct pair *pair)
{
    muster_watch_close(pair->watch);
    muster_client_close(pair->observer);
    muster_client_close(pair->first);
    muster_client_close(pair->second);
    muster_client_close(pair->service);
}

/* The member left, and was not lost; whether its peers were told to begin again. */
static bool left(struct pair *pair)
{
    struct muster_event event = {0};
    struct muster_error err;
    bool fault = false;

    do {
        library_ok(muster_watch_next(pair->watch, LIMIT_MS, &event, &err), &err);
        fault = fault || (event.type == MUSTER_EVENT_FAULT && event.member.index == 0);
    } while (
        event.type != MUSTER_EVENT_MEMBER || event.member.index != 0 ||
        (event.member.state != MUSTER_MEMBER_LEFT && event.member.state != MUSTER_MEMBER_LOST));
    assert_int_equal(event.member.state, MUSTER_MEMBER_LEFT);
    return fault;
}

static muster_status done(muster_restart *restart, void *arg)
{
    (void)restart;
    (void)arg;
    return MUSTER_OK;
}

static muster_status fails(muster_restart *restart, void *arg)
{
    (void)arg;
    return muster_restart_fail(restart, 7, "at once");
}

static void ends_by_its_check(struct pair *pair, muster_restart_fn *fn)
{
    struct muster_error err = {0};

    assert_int_equal(muster_restart_run(pair->first, &pair->options, fn, NULL, &err),
                     MUSTER_ERANGE);
    assert_string_equal(err.text, "run: wait_check failed: callback returned MUSTER_ERANGE (-9); "
                                  "this rank has left the job");
    assert_int_equal(err.why, MUSTER_WHY_WAIT_CHECK);
    assert_int_equal(pair->checks.seen, pair->checks.good + 1);
    assert_int_equal(pair->checks.terminated, 1);
}

/* A rank is done and waits for the others, and its check fails. It leaves the job, the others are
 * interrupted, and its run ends with the check's status; its client is of no more use. */
static void the_wait_at_the_end_is_ended(void **state)
{
    struct muster_error err = {.why = MUSTER_WHY_SUSPECT};
    struct pair pair;

    (void)state;
    pair_open(&pair, false);
    pair.checks.good = 2;
    ends_by_its_check(&pair, done);
    assert_int_equal(pair.checks.finalized, 1);
    assert_true(left(&pair));
    assert_int_equal(muster_restart_run(pair.first, NULL, done, NULL, &err), MUSTER_ECANCELLED);
    assert_string_equal(err.text, "run: this member has left the job");
    assert_int_equal(err.why, MUSTER_WHY_STATUS);
    pair_close(&pair);
}

/* A rank waits for the others after a fault, and its check fails. It leaves the job. */
static void the_wait_for_the_seal_is_ended(void **state)
{
    struct pair pair;

    (void)state;
    pair_open(&pair, false);
    ends_by_its_check(&pair, fails);
    (void)left(&pair);
    pair_close(&pair);
}

/* A spare waits for a seat, and its check fails. It leaves the job, and no rank is interrupted. */
static void the_wait_of_a_spare_is_ended(void **state)
{
    struct muster_view view;
    struct pair pair;

    (void)state;
    pair_open(&pair, true);
    muster_client_view(pair.first, &view);
    assert_true(view.spare);
    pair.checks.good = 1;
    ends_by_its_check(&pair, done);
    assert_false(left(&pair));
    assert_int_equal(pair.checks.finalized, 0);
    pair_close(&pair);
}

/* The check fails while the service does not answer. The run ends all the same. */
static void the_wait_is_ended_without_the_service(void **state)
{
    struct pair pair;

    (void)state;
    pair_open(&pair, false);
    pair.checks.stops = mst_socket_alive(pair.service->addr + strlen("unix:"));
    assert_true(pair.checks.stops > 0);
    ends_by_its_check(&pair, done);
    assert_int_equal(kill(pair.checks.stops, SIGCONT), 0);
    pair_close(&pair);
}

static void *run_second(void *ctx)
{
    struct pair *pair = ctx;

    return muster_restart_run(pair->second, NULL, done, NULL, NULL) == MUSTER_OK ? NULL : ctx;
}

static muster_status start_the_second(muster_restart *restart, void *arg)
{
    struct pair *pair = arg;

    (void)restart;
    if (pair->checks.seen++ == 3) {
        assert_int_equal(pthread_create(&pair->thread, NULL, run_second, pair), 0);
    }
    return MUSTER_OK;
}

/* The check succeeds each time. The wait goes on, and the run ends as it does without. */
static void a_good_check_changes_nothing(void **state)
{
    struct muster_error err;
    struct pair pair;

    (void)state;
    pair_open(&pair, false);
    pair.hooks[0] = (struct muster_restart_hook){.call = start_the_second, .arg = &pair};
    library_ok(muster_restart_run(pair.first, &pair.options, done, NULL, &err), &err);
    assert_int_equal(pthread_join(pair.thread, NULL), 0);
    assert_true(pair.checks.seen > 3);
    assert_int_equal(pair.checks.finalized + pair.checks.terminated, 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wait_at_the_end_is_ended),
        cmocka_unit_test(the_wait_for_the_seal_is_ended),
        cmocka_unit_test(the_wait_of_a_spare_is_ended),
        cmocka_unit_test(the_wait_is_ended_without_the_service),
        cmocka_unit_test(a_good_check_changes_nothing),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
