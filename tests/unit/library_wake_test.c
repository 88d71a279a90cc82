/* SPDX-License-Identifier: Apache-2.0 */
/* Which thread a call wakes: the one that waits for it, and no other.
 *
 * behaviour: library / Threads and time */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
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
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"

enum { CALLS = 200, SHORT_MS = 1, ASLEEP_MS = 1000 };

/* One of the counters of a thread of this process. */
static unsigned long counter_of(const char *task, const char *name)
{
    char path[300];
    char line[200];
    unsigned long count = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            count = strtoul(line + strlen(name) + 1, NULL, 10);
        }
    }
    (void)fclose(file);
    return count;
}

/* How often this thread has lost its processor. After each time the background thread may drive. */
static unsigned long losses(void)
{
    char task[16];

    (void)snprintf(task, sizeof(task), "%d", (int)gettid());
    return counter_of(task, "nonvoluntary_ctxt_switches");
}

/* How often all threads but this one have waited. */
static unsigned long waits_of_others(void)
{
    unsigned long waits = 0;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;

    assert_non_null(tasks);
    while ((task = readdir(tasks)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread does */
        if (task->d_name[0] != '.' && strtol(task->d_name, NULL, 10) != gettid()) {
            waits += counter_of(task->d_name, "voluntary_ctxt_switches");
        }
    }
    (void)closedir(tasks);
    return waits;
}

/* What may wake others while this thread makes calls: the background thread looks for callers, each
 * few milliseconds. */
static unsigned long may_wake(uint64_t began_ns, unsigned long lost)
{
    return CALLS / 4 + (mst_lib_now_ns() - began_ns) / (3 * NS_PER_MS) + losses() - lost;
}

/* A call is made as soon as another has ended, for which the thread waited long, as at a barrier.
 * They wake no other thread. */
static void calls_that_follow_each_other_wake_one_thread(void **state)
{
    muster_client *client = library_alone();
    muster_value *value = NULL;
    unsigned long before, lost;
    uint64_t began_ns;

    (void)state;
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL), NULL);
    before = waits_of_others();
    lost = losses();
    began_ns = mst_lib_now_ns();
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(muster_key_get(client, "never", NULL, SHORT_MS, &value, NULL),
                         MUSTER_ETIMEDOUT);
    }
    assert_in_range(waits_of_others() - before, 0, may_wake(began_ns, lost));
    muster_client_close(client);
}

/* A thread starts a call and waits for it, and so again and again. No other thread is woken. A call
 * for which it does not wait ends all the same. */
static void a_call_that_is_waited_for_at_once_wakes_one_thread(void **state)
{
    muster_client *client = library_alone();
    muster_call *call = NULL;
    unsigned long before = 0, lost = 0;
    uint64_t began_ns = 0;

    (void)state;
    for (int i = -1; i < CALLS; i++) {
        library_ok(
            muster_key_put_start(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &call, NULL),
            NULL);
        library_ok(muster_call_wait(call, LIMIT_MS, NULL), NULL);
        muster_call_free(call);
        before = i < 0 ? waits_of_others() : before;
        lost = i < 0 ? losses() : lost;
        began_ns = i < 0 ? mst_lib_now_ns() : began_ns;
    }
    assert_in_range(waits_of_others() - before, 0, may_wake(began_ns, lost));
    for (int i = 0; i < 2; i++) {
        library_ok(
            muster_key_put_start(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &call, NULL),
            NULL);
        while (muster_call_wait(call, 0, NULL) == MUSTER_MORE) {
            (void)poll(NULL, 0, 1);
        }
        library_ok(muster_call_wait(call, 0, NULL), NULL);
        muster_call_free(call);
    }
    muster_client_close(client);
}

static void *get_other(void *ctx)
{
    muster_value *value = NULL;
    muster_status status = muster_key_get(ctx, "other", NULL, -1, &value, NULL);

    muster_value_free(value);
    return status == MUSTER_OK ? NULL : ctx;
}

/* ---- the background thread ---- */

/* Whether it waits for a ring, without one. */
static bool sleeps(muster_client *client)
{
    struct pollfd event = {.fd = client->background_event, .events = POLLIN};
    bool found;

    mst_lib_lock(client);
    found = client->rest_ms == ASLEEP_MS && poll(&event, 1, 0) == 0;
    mst_lib_unlock(client);
    return found;
}

/* A thread has made many calls. The background thread takes the connection over. */
static void a_thread_that_calls_no_more_leaves_the_connection(void **state)
{
    muster_client *client = library_alone();

    (void)state;
    for (int i = 0; i < CALLS; i++) {
        library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL), NULL);
    }
    library_wait_for_background(client, MST_LIB_DRIVES);
    muster_client_close(client);
}

/* A thread waits for long. When it leaves, it wakes the background thread, which looks for callers
 * no more. */
static void a_thread_that_waited_for_long_wakes_the_background_thread(void **state)
{
    muster_client *client = library_alone();
    pthread_t other;
    void *failed;

    (void)state;
    assert_int_equal(pthread_create(&other, NULL, get_other, client), 0);
    while (!sleeps(client)) {
        (void)sched_yield();
    }
    library_ok(muster_key_put(client, "other", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL), NULL);
    assert_int_equal(pthread_join(other, &failed), 0);
    assert_null(failed);
    assert_false(sleeps(client));
    muster_client_close(client);
}

/* ---- signals ---- */

static atomic_bool handled, over;
static pthread_t waiting;

static void on_signal(int number)
{
    (void)number;
    atomic_store(&handled, true);
}

static void *strike(void *ctx)
{
    while (!atomic_load(&over)) {
        (void)pthread_kill(waiting, SIGUSR1);
        (void)poll(NULL, 0, 1);
    }
    return ctx;
}

/* A thread has a handler for a signal that comes while it waits for a call. muster_call_wait_signal
 * returns MORE after the handler, muster_call_wait waits on. The call continues in either case. */
static void a_signal_ends_a_wait_and_not_the_call(void **state)
{
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *call = NULL;
    pthread_t striker;

    (void)state;
    waiting = pthread_self();
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &call, &err), &err);
    assert_int_equal(pthread_create(&striker, NULL, strike, NULL), 0);
    assert_int_equal(muster_call_wait_signal(call, -1, &err), MUSTER_MORE);
    assert_true(handled);
    assert_int_equal(muster_call_wait(call, 20, &err), MUSTER_MORE);
    atomic_store(&over, true);
    assert_int_equal(pthread_join(striker, NULL), 0);
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_call_wait_signal(call, -1, &err), &err);
    assert_string_equal(muster_value_data(value), "x");
    muster_call_free(call);
    muster_value_free(value);
    muster_client_close(client);
}

/* A thread waits for a call while another one drives the connection, which no signal of the first
 * interrupts. muster_call_wait_signal returns MORE by itself, for the thread to look. */
static void a_wait_beside_another_thread_looks_for_signals(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *call = NULL;
    pthread_t other;
    void *failed;

    (void)state;
    assert_int_equal(pthread_create(&other, NULL, get_other, client), 0);
    library_wait_for_waiters(client, 1);
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &call, &err), &err);
    assert_int_equal(muster_call_wait_signal(call, -1, &err), MUSTER_MORE);
    library_ok(muster_key_put(client, "other", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    assert_int_equal(pthread_join(other, &failed), 0);
    assert_null(failed);
    muster_call_free(call);
    muster_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_follow_each_other_wake_one_thread),
        cmocka_unit_test(a_call_that_is_waited_for_at_once_wakes_one_thread),
        cmocka_unit_test(a_thread_that_calls_no_more_leaves_the_connection),
        cmocka_unit_test(a_thread_that_waited_for_long_wakes_the_background_thread),
        cmocka_unit_test(a_signal_ends_a_wait_and_not_the_call),
        cmocka_unit_test(a_wait_beside_another_thread_looks_for_signals),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
