/* SPDX-License-Identifier: Apache-2.0 */
/* What the progress page shows of a function that waits in muster.
 *
 * behaviour: library / Opening and closing */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/shell/orphan.h"
#include "library_stage.h"
#include "process/proc_stat.h"
#include "restart/shell/restart.h"

/* Another thread of the function's process, and what it does to a wait of the function. */
enum waker { PUTS, INTERRUPTS, LOOKS };

struct watcher {
    muster_client *client;
    struct mst_page *page;
    enum waker does;
    char waits_for[64];
};

static void *watches_a_wait(void *arg)
{
    struct watcher *watcher = arg;

    while (atomic_load(&watcher->page->waits) % 2 == 0) {
        (void)sched_yield();
    }
    memcpy(watcher->waits_for, watcher->page->waits_for, sizeof watcher->waits_for);
    if (watcher->does == INTERRUPTS) {
        mst_lib_lock(watcher->client);
        mst_lib_interrupt(watcher->client, true);
        mst_lib_unlock(watcher->client);
    } else {
        (void)!muster_key_put(watcher->client, "go", (struct muster_slice){"1", 1}, NULL, LIMIT_MS,
                              NULL, NULL);
    }
    return NULL;
}

static void *puts_a_key(void *arg)
{
    struct watcher *watcher = arg;

    (void)!muster_key_put(watcher->client, "other", (struct muster_slice){"1", 1}, NULL, LIMIT_MS,
                          NULL, NULL);
    return NULL;
}

static void wait_for_key(struct watcher *watcher, enum waker does, muster_status expected)
{
    uint64_t waits = atomic_load(&watcher->page->waits);
    muster_value *value = NULL;
    pthread_t thread;

    watcher->does = does;
    assert_int_equal(waits % 2, 0);
    assert_int_equal(pthread_create(&thread, NULL, watches_a_wait, watcher), 0);
    assert_int_equal(muster_key_get(watcher->client, "go", NULL, LIMIT_MS, &value, NULL), expected);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&watcher->page->waits), waits + 2);
    assert_string_equal(watcher->waits_for, "get 'go'");
    muster_value_free(value);
}

static muster_status look_at_waits(muster_restart *restart, void *arg)
{
    struct watcher watcher = {.client = arg, .page = restart->page};
    uint64_t waits, checks;
    muster_call *call = NULL;
    muster_value *value = NULL;
    pthread_t thread;
    pid_t child;
    int status;

    wait_for_key(&watcher, INTERRUPTS, MUSTER_EINTERRUPTED);
    mst_lib_lock(arg);
    mst_lib_interrupt(arg, false);
    mst_lib_unlock(arg);
    wait_for_key(&watcher, PUTS, MUSTER_OK);

    /* Another thread's wait, and a call that goes on by itself, are none of the function's. */
    waits = atomic_load(&watcher.page->waits);
    assert_int_equal(pthread_create(&thread, NULL, puts_a_key, &watcher), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(muster_key_get_start(arg, "never", NULL, LIMIT_MS, &value, &call, NULL),
                     MUSTER_OK);
    assert_int_equal(muster_call_wait(call, 0, NULL), MUSTER_MORE);
    assert_int_equal(atomic_load(&watcher.page->waits), waits);
    assert_int_equal(muster_call_wait(call, 1, NULL), MUSTER_MORE); /* but to block for it is */
    assert_int_equal(atomic_load(&watcher.page->waits), waits + 2);
    muster_call_free(call);

    /* A child is not the function, though it has its page. */
    checks = atomic_load(&watcher.page->checks);
    child = fork();
    if (child == 0) {
        mst_lib_alive();
        mst_lib_wait_shown();
        _exit(mst_lib_thread.page != NULL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&watcher.page->waits), waits + 2);
    assert_int_equal(atomic_load(&watcher.page->checks), checks);
    return MUSTER_OK;
}

/* The function blocks in a call of muster. The page shows that, and for what, until it is done,
 * also when it was interrupted. Other threads, calls that were started without waiting, and
 * forked children show nothing. */
static void the_page_shows_a_wait_of_the_functions_thread_and_of_no_other(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    library_ok(muster_restart_run(client, NULL, look_at_waits, client, &err), &err);
    assert_null(mst_lib_thread.page);
    muster_client_close(client);
}

/* A process has ended and was not waited for, so it is there still. Its start is none. */
static void a_process_that_has_ended_has_no_start(void **state)
{
    siginfo_t info;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(0);
    }
    assert_true(mst_proc_stat_start(getpid()) != 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(mst_proc_stat_start(pid), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(mst_proc_stat_start(pid), 0);
}

/* Its agent ends it. */
static muster_status be_ended(muster_restart *restart, void *arg)
{
    (void)arg;
    atomic_store(&restart->page->ends, 1);
    (void)raise(SIGTERM);
    return MUSTER_OK;
}

/* In a process of its own, which has no number for the page when it opens preempt: the helper's
 * copies are from 10 on. Returns if the signal does not end it. */
static int take_the_page_later(const char *addr)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct rlimit limit, few;
    muster_preempt *preempt = NULL;
    muster_client *client = NULL;

    closefrom(STDERR_FILENO + 1);
    options.addr = addr;
    options.job = "paged";
    options.index = 0;
    options.size_of_job = 1;
    if (muster_client_open(&client, &options, LIMIT_MS, NULL) != MUSTER_OK ||
        getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 1;
    }
    few = (struct rlimit){.rlim_cur = 10, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0 ||
        muster_preempt_open(&preempt, client, NULL, NULL) != MUSTER_OK || client->page ||
        setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 2;
    }
    return muster_restart_run(client, NULL, be_ended, NULL, NULL) == MUSTER_OK ? 3 : 4;
}

/* No helper could be started when preempt was opened, for want of descriptors, and one is
 * started later. Its signals are no notices either. [preemption / The sources of a process] */
static void a_page_that_comes_later_tells_the_agents_signal_from_a_notice(void **state)
{
    static muster_client *service; /* the child has it too: else memcheck calls it lost there */
    pid_t child;
    int how;

    (void)state;
    service = library_alone();
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(LIMIT_MS / 1000);
        _exit(take_the_page_later(service->addr));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how)); /* under memcheck it dies so slowly that its helper helps */
    muster_client_close(service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_has_ended_has_no_start),
        cmocka_unit_test(the_page_shows_a_wait_of_the_functions_thread_and_of_no_other),
        cmocka_unit_test(a_page_that_comes_later_tells_the_agents_signal_from_a_notice),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
