/* SPDX-License-Identifier: Apache-2.0 */
/* A process that forks while other threads of it are inside of the library.
 *
 * behaviour: library / Opening and closing */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"

enum { FORKS_CLOSING = 20, HANGS_S = 60 };

static atomic_bool stop_keeping;

static void *keep(void *ctx)
{
    while (!atomic_load(&stop_keeping)) {
        mst_lib_heard_keep("kept", 1);
    }
    return ctx;
}

/* A process forks while another thread holds a lock of the library. The child knows of the runs
 * before. */
static void a_child_knows_of_the_runs_before_whatever_was_locked_when_it_was_forked(void **state)
{
    pthread_t thread;

    (void)state;
    mst_lib_heard_keep("kept", 1);
    assert_int_equal(pthread_create(&thread, NULL, keep, NULL), 0);
    for (int i = 0; i < 200; i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            (void)alarm(HANGS_S); /* ends one that hangs */
            _exit(mst_lib_heard("kept") != 1);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop_keeping, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

struct closing {
    muster_client *service;
    atomic_int closed;
    atomic_bool stop;
};

static muster_client *open_beside(const muster_client *service, const char *job)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *client = NULL;

    options.addr = service->addr;
    options.job = job;
    options.size_of_job = 1;
    return muster_client_open(&client, &options, LIMIT_MS, NULL) == MUSTER_OK ? client : NULL;
}

static void *close_often(void *ctx)
{
    struct closing *closing = ctx;

    while (!atomic_load(&closing->stop)) {
        muster_client_close(open_beside(closing->service, "closing"));
        atomic_fetch_add(&closing->closed, 1);
    }
    return NULL;
}

static int open_and_put(const muster_client *service)
{
    muster_client *client = open_beside(service, "child");
    bool good = client &&
                muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL) == MUSTER_OK;

    muster_client_close(client);
    return good ? 0 : 1;
}

/* A process forks in the moment in which another thread closes a client. The child can open one
 * of its own, use it and close it. */
static void a_child_forked_while_another_thread_closes_opens_a_client_of_its_own(void **state)
{
    struct closing closing = {0};
    pthread_t thread;

    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* it knows the parent's threads by numbers that those of the child get again */
#elif defined(__SANITIZE_ADDRESS__)
    skip(); /* its allocator's locks stay as another thread held them at the fork */
#endif
    closing.service = library_alone();
    assert_int_equal(pthread_create(&thread, NULL, close_often, &closing), 0);
    for (int i = 0; i < FORKS_CLOSING; i++) {
        int before = atomic_load(&closing.closed);
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            (void)alarm(LIMIT_MS / 1000); /* ends one that hangs */
            _exit(open_and_put(closing.service));
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        while (atomic_load(&closing.closed) == before) {
            (void)sched_yield();
        }
    }
    atomic_store(&closing.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    muster_client_close(closing.service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_knows_of_the_runs_before_whatever_was_locked_when_it_was_forked),
        cmocka_unit_test(a_child_forked_while_another_thread_closes_opens_a_client_of_its_own),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
