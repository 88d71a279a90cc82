/* SPDX-License-Identifier: Apache-2.0 */
/* A heartbeat beside threads that close its client, and in a child after fork. What several ranks
 * tell each other is shown with real ones in tests/process/test_heartbeat.py.
 *
 * behaviour: heartbeat / Starting and stopping */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "heartbeat/shell/heartbeat.h"
#include "library_stage.h"

#if defined(__SANITIZE_THREAD__) || defined(MST_TEST_MEMCHECK)
enum { FORKS = 10 }; /* each exit() takes long then: it waits for threads, or looks for leaks */
#else
enum { FORKS = 200 };
#endif
enum { THREADS = 3, HANGS_S = 60 };

static int setup(void **state)
{
    return setenv("MUSTER_AGENT", "0", 1) == 0 ? library_stage_setup(state) : -1;
}

/* ---- a start, and who closes ---- */

static muster_client *shared;
static atomic_bool adding, over, closed, was_closed;
static _Thread_local bool starting;

/* Whether who closes has to wait; and that it does. */
static bool is_kept(void)
{
    bool kept;

    mst_lib_lock(shared);
    kept = shared->keepers > 0;
    mst_lib_unlock(shared);
    return kept;
}

static bool somebody_waits(void)
{
    bool waits;

    mst_lib_lock(shared);
    waits = shared->closing && !mst_list_empty(&shared->waiters);
    mst_lib_unlock(shared);
    return waits;
}

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
int __real_pthread_once(pthread_once_t *once, void (*routine)(void));
int __wrap_pthread_once(pthread_once_t *once, void (*routine)(void));
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

static bool has_token(void)
{
    const struct muster_heartbeat *heartbeat = mst_lib_hook_ctx(shared, MST_USER_HEARTBEAT);

    return heartbeat && mst_heartbeat_token(heartbeat->host.machine) != 0;
}

/* The handle is about to be put where exit() looks: who closes has come to its end by then, or
 * waits for us. */
int __wrap_pthread_once(pthread_once_t *once, void (*routine)(void))
{
    if (starting && !mst_lib_holds(shared) && has_token()) {
        bool kept = is_kept();

        starting = false;
        atomic_store(&adding, true);
        while (!atomic_load(&closed) && !(kept && somebody_waits())) {
            (void)sched_yield();
        }
        atomic_store(&was_closed, atomic_load(&closed));
    }
    return __real_pthread_once(once, routine);
}

static void *start(void *ctx)
{
    muster_heartbeat *heartbeat;
    muster_status *status = ctx;

    starting = true;
    *status = muster_heartbeat_start(&heartbeat, shared, NULL, NULL);
    atomic_store(&over, true);
    return NULL;
}

/* The client is closed while a start of another thread is nearly over. The closing thread waits
 * for it, and nothing of it is left behind. */
static void who_closes_waits_for_a_start_that_is_nearly_over(void **state)
{
    muster_status status = MUSTER_EINTERNAL;
    pthread_t thread;

    (void)state;
    shared = library_alone();
    assert_int_equal(pthread_create(&thread, NULL, start, &status), 0);
    while (!atomic_load(&adding) && !atomic_load(&over)) {
        (void)sched_yield();
    }
    muster_client_close(shared);
    atomic_store(&closed, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, MUSTER_OK);
    assert_true(atomic_load(&adding));
    assert_false(atomic_load(&was_closed));
}

/* ---- after fork ---- */

static atomic_bool stop;

static void *come_and_go(void *ctx)
{
    struct muster_heartbeat *heartbeat = ctx;

    while (!atomic_load(&stop)) {
        mst_at_exit_add(&heartbeat->at_exit);
        mst_at_exit_remove(&heartbeat->at_exit);
    }
    return NULL;
}

/* A member forks in the moment in which another thread starts or stops a heartbeat. The child
 * ends all the same. */
static void a_child_ends_whatever_was_locked_when_it_was_forked(void **state)
{
    struct muster_client client = {.pid = getpid()};
    struct muster_heartbeat heartbeats[THREADS] = {{.client = NULL}};
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        heartbeats[i].at_exit.client = &client;
        mst_at_exit_add(&heartbeats[i].at_exit); /* the handler of exit() is there */
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &heartbeats[i]), 0);
    }
    for (int i = 0; i < FORKS; i++) {
        pid_t pid;
        int status;

        (void)fflush(NULL);
        pid = fork();
        if (pid == 0) {
            (void)signal(SIGALRM, SIG_DFL);
            (void)alarm(HANGS_S);
            exit(0); // NOLINT(concurrency-mt-unsafe): what is shown
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_closes_waits_for_a_start_that_is_nearly_over),
        cmocka_unit_test(a_child_ends_whatever_was_locked_when_it_was_forked),
    };

    return cmocka_run_group_tests(tests, setup, library_stage_teardown);
}
