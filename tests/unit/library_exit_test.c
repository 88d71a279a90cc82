/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a rank whose process ends, or whose client is closed, in the function.
 *
 * behaviour: restart / Options, callbacks and clients */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "restart/shell/restart.h"

enum exit_from { FUNCTION, OTHER_THREAD, ABORT_CALLBACK, EXITS };

struct leaver {
    enum exit_from from;
    int code, go;
    bool early; /* its handler that closes the client is called before ours */
};

static muster_client *to_close;

static void close_it(void)
{
    muster_client_close(to_close);
    muster_client_close(to_close); /* it was not freed */
}

static void *exit_now(void *arg)
{
    exit(((const struct leaver *)arg)->code);
}

static muster_status exit_in_abort(muster_restart *restart, void *arg)
{
    (void)restart;
    exit_now(arg);
    return MUSTER_OK;
}

static muster_status exit_in_it(muster_restart *restart, void *arg)
{
    struct leaver *leaver = arg;
    pthread_t thread;
    char byte;

    (void)!read(leaver->go, &byte, 1);
    if (leaver->from == ABORT_CALLBACK) {
        return muster_restart_again(restart);
    }
    if (leaver->from == OTHER_THREAD) {
        assert_int_equal(pthread_create(&thread, NULL, exit_now, leaver), 0);
        (void)pthread_join(thread, NULL);
    }
    if (leaver->early) {
        (void)atexit(close_it);
    }
    exit_now(leaver);
    return MUSTER_OK;
}

/* A process that runs the function and ends in it. Its own handler of exit() closes the client, as
 * the destructor of an object would: it must not wait for a function that does not return. */
static void run_and_exit(struct leaver *leaver)
{
    char addr[256];
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_restart_options run = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_restart_hook step = {.call = exit_in_abort, .arg = leaver};
    muster_client *client = NULL;

    run.abort = (struct muster_restart_hooks){.list = &step, .count = 1};
    if (leaver->from == FUNCTION && !leaver->early) {
        (void)atexit(close_it);
    }

    (void)!read(leaver->go, addr, sizeof(addr));
    options.addr = addr;
    options.job = "leaver";
    options.size_of_job = 1;
    if (muster_client_open(&client, &options, LIMIT_MS, NULL) == MUSTER_OK) {
        to_close = client;
        (void)!muster_restart_run(client, &run, exit_in_it, leaver, NULL);
    }
    _exit(99);
}

/* One that ends well, or has saved, leaves; another one dies with its status, as its helper tells.
 */
static void exit_ends(enum exit_from from, bool early, int code)
{
    const int status = code & 0xff; /* what there is of it to the others */
    const bool leaves = status == 0 || status == 75;
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_watch_options kinds = MUSTER_WATCH_OPTIONS_INIT;
    struct muster_event event = {0};
    struct muster_error err;
    muster_watch *watch = NULL;
    muster_client *service, *observer;
    char addr[256] = "";
    bool fault = false;
    struct leaver leaver = {.from = from, .code = code, .early = early};
    int how = 0, ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    leaver.go = ends[0];
    child = fork(); /* before this process has any other thread */
    assert_true(child >= 0);
    if (child == 0) {
        run_and_exit(&leaver);
    }
    service = library_alone();
    (void)snprintf(addr, sizeof(addr), "%s", service->addr);
    assert_int_equal(write(ends[1], addr, sizeof(addr)), sizeof(addr));
    options.role = MUSTER_ROLE_OBSERVER;
    options.addr = addr;
    options.job = "leaver";
    observer = library_open(&options);
    kinds.kinds = MUSTER_WATCH_MEMBERS | MUSTER_WATCH_FAULTS | MUSTER_WATCH_VIEW;
    library_ok(muster_watch_open(&watch, observer, &kinds, &err), &err);
    do {
        library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    } while (event.type != MUSTER_EVENT_VIEW);
    assert_int_equal(write(ends[1], "g", 1), 1);
    while (event.type != MUSTER_EVENT_MEMBER ||
           (event.member.state != MUSTER_MEMBER_LEFT && event.member.state != MUSTER_MEMBER_LOST)) {
        library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
        fault = fault || event.type == MUSTER_EVENT_FAULT;
    }
    assert_int_equal(event.member.state, leaves ? MUSTER_MEMBER_LEFT : MUSTER_MEMBER_LOST);
    if (!leaves) {
        assert_int_equal(event.member.cause, MUSTER_CAUSE_EXIT);
        assert_int_equal(event.member.code, status);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), status);
    assert_true(fault || !leaves);
    (void)close(ends[0]);
    (void)close(ends[1]);
    muster_watch_close(watch);
    muster_client_close(observer);
    muster_client_close(service);
}

/* A function calls exit() in a job. With status 0 or 75 the rank leaves, with another one it
 * dies. [Atomic sections, leaving, giving up] */
static void exit_in_the_function_leaves_the_job_if_it_ends_well_23(void **state)
{
    static const int codes[] = {0, 75, 1, 5, 255, 256 + 75};

    (void)state;
    for (int from = FUNCTION; from < EXITS; from++) {
        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
            exit_ends((enum exit_from)from, false, codes[i]);
        }
    }
}

/* The function calls exit(), and a handler of it closes the client. With status 0 or 75 the rank
 * leaves, with another one it dies; nothing waits for the function, which does not return. */
static void a_client_closed_by_a_handler_of_exit_leaves_if_it_ends_well(void **state)
{
    (void)state;
    exit_ends(FUNCTION, true, 0);
    exit_ends(FUNCTION, true, 1);
}

static muster_status close_within(muster_restart *restart, void *arg)
{
    (void)restart;
    muster_client_close(arg);
    return MUSTER_OK;
}

/* The function closes its client. The rank leaves, the run ends with ECANCELLED, and the handle
 * can be closed after it. */
static void closed_within_the_function_it_only_leaves(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    assert_int_equal(muster_restart_run(client, NULL, close_within, client, &err),
                     MUSTER_ECANCELLED);
    assert_string_equal(err.text, "run the function again: cancelled");
    muster_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_in_the_function_leaves_the_job_if_it_ends_well_23),
        cmocka_unit_test(a_client_closed_by_a_handler_of_exit_leaves_if_it_ends_well),
        cmocka_unit_test(closed_within_the_function_it_only_leaves),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
