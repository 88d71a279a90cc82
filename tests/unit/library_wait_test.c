/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that block: whoever blocks drives, and nobody is forgotten. cmocka asserts on the main
 * thread only, so the others leave their results behind.
 *
 * behaviour: library / Threads and time */
#define _GNU_SOURCE
#include <errno.h>
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/panic.h"
#include "library_stage.h"
#include "restart/shell/restart.h"

enum { THREADS = 6, ADDS = 300, NAMES = 1500 /* more than --rounds-max */ };

struct thread {
    pthread_t id;
    muster_client *client;
    int64_t timeout_ms;
    int number;
    muster_status status;
    struct muster_error err;
};

static void start(struct thread *thread, muster_client *client, void *(*run)(void *))
{
    thread->client = client;
    assert_int_equal(pthread_create(&thread->id, NULL, run, thread), 0);
}

static void finish(struct thread *thread)
{
    assert_int_equal(pthread_join(thread->id, NULL), 0);
}

static void *get_it(void *ctx)
{
    struct thread *thread = ctx;
    muster_value *value = NULL;
    char name[32];

    (void)snprintf(name, sizeof(name), "it/%d", thread->number);
    thread->status =
        muster_key_get(thread->client, name, NULL, thread->timeout_ms, &value, &thread->err);
    muster_value_free(value);
    return NULL;
}

static void *add_often(void *ctx)
{
    struct thread *thread = ctx;

    for (int i = 0; i < ADDS && thread->status == MUSTER_OK; i++) {
        thread->status =
            muster_key_add(thread->client, "sum", 1, NULL, LIMIT_MS, NULL, &thread->err);
    }
    return NULL;
}

static void *meet_by_many_names(void *ctx)
{
    struct thread *thread = ctx;
    char name[32];

    for (int i = 0; i < NAMES && thread->status == MUSTER_OK; i++) {
        (void)snprintf(name, sizeof(name), "save %d", i);
        thread->status = muster_barrier_wait(thread->client, name, LIMIT_MS, &thread->err);
    }
    return NULL;
}

static void *run_barriers(void *ctx)
{
    struct thread *thread = ctx;

    for (int i = 0; i < ADDS && thread->status == MUSTER_OK; i++) {
        thread->status = muster_barrier_wait(thread->client, "b", LIMIT_MS, &thread->err);
    }
    return NULL;
}

/* Several threads use one client. Each gets its own answers. */
static void threads_share_a_client(void **state)
{
    muster_client *client = library_alone();
    struct thread threads[THREADS] = {{0}};
    int64_t sum = 0;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        start(&threads[i], client, add_often);
    }
    for (int i = 0; i < THREADS; i++) {
        finish(&threads[i]);
        library_ok(threads[i].status, &threads[i].err);
    }
    library_ok(muster_key_add(client, "sum", 0, NULL, LIMIT_MS, &sum, NULL), NULL);
    assert_int_equal(sum, THREADS * ADDS);
    muster_client_close(client);
}

/* Threads wait for keys that come in any order. An answered thread goes, the one that drives the
 * connection last, first or in between; another one takes over, and none is forgotten. */
static void waiters_are_answered_in_any_order(void **state)
{
    muster_client *client = library_alone();

    (void)state;
    for (int first = 0; first < THREADS; first++) {
        struct thread threads[THREADS] = {{0}};

        for (int i = 0; i < THREADS; i++) {
            threads[i].number = first * THREADS + i;
            threads[i].timeout_ms = LIMIT_MS;
            start(&threads[i], client, get_it);
        }
        library_wait_for_waiters(client, THREADS);
        for (int i = 0; i < THREADS; i++) {
            struct thread *thread = &threads[(first + i * 5) % THREADS];
            char name[32];

            (void)snprintf(name, sizeof(name), "it/%d", thread->number);
            library_ok(muster_key_put(client, name, bytes_of("x"), NULL, LIMIT_MS, NULL, NULL),
                       NULL);
            finish(thread);
            library_ok(thread->status, &thread->err);
        }
    }
    muster_client_close(client);
}

/* Callers have different timeouts, shorter than that of the thread that drives or longer. Each
 * one's time is its own. */
static void timeouts_are_each_caller_s_own(void **state)
{
    muster_client *client = library_alone();
    struct thread patient = {.number = 1, .timeout_ms = -1};
    struct thread hasty = {.number = 2, .timeout_ms = 50};

    (void)state;
    start(&patient, client, get_it);
    library_wait_for_waiters(client, 1);
    start(&hasty, client, get_it);
    finish(&hasty);
    assert_int_equal(hasty.status, MUSTER_ETIMEDOUT);
    library_ok(muster_key_put(client, "it/1", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL), NULL);
    finish(&patient);
    library_ok(patient.status, &patient.err);
    muster_client_close(client);
}

static bool is_polled(muster_client *client)
{
    bool polled;

    mst_lib_lock(client);
    polled = client->caller_polls || client->background_polls;
    mst_lib_unlock(client);
    return polled;
}

/* A call has an earlier deadline than the thread that polls knows of, which looks ahead to the
 * next renewal. That thread is woken: the call times out on time. */
static void a_thread_that_polls_is_told_of_an_earlier_deadline(void **state)
{
    int set = setenv("MUSTER_LEASE", "100s", 1);
    muster_client *client = library_alone();
    struct thread patient = {.number = 1, .timeout_ms = -1};
    struct thread hasty = {.number = 2, .timeout_ms = 50};
    uint64_t renewal_ns = mst_client_lease_ns(mst_driver_client(client->driver)) / 5;

    (void)state;
    assert_int_equal(set, 0);
    assert_int_equal(unsetenv("MUSTER_LEASE"), 0);
    assert_int_equal(renewal_ns, UINT64_C(20000000000));
    for (int drives = 0; drives < 2; drives++) { /* the background thread, then a caller */
        muster_call *call = NULL;
        muster_value *value = NULL;
        uint64_t began_ns;

        if (drives) {
            start(&patient, client, get_it);
            library_wait_for_waiters(client, 1);
        }
        while (!is_polled(client)) {
            (void)sched_yield();
        }
        began_ns = mst_lib_now_ns();
        library_ok(muster_key_get_start(client, "never", NULL, 50, &value, &call, NULL), NULL);
        start(&hasty, client, get_it);
        finish(&hasty);
        assert_int_equal(hasty.status, MUSTER_ETIMEDOUT);
        while (muster_call_wait(call, 0, NULL) == MUSTER_MORE) {
            (void)sched_yield();
        }
        muster_call_free(call);
        assert_true(mst_lib_now_ns() - began_ns < renewal_ns / 2);
    }
    library_ok(muster_key_put(client, "it/1", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL), NULL);
    finish(&patient);
    muster_client_close(client);
}

/* The job restarts while threads are in calls. All of the user's calls end with EINTERRUPTED,
 * also those that begin, until the function is entered again. */
static void an_interrupt_ends_the_user_s_calls(void **state)
{
    muster_client *client = library_alone();
    struct thread threads[2] = {{.number = 1, .timeout_ms = -1}, {.number = 2, .timeout_ms = -1}};
    struct muster_error err;

    (void)state;
    start(&threads[0], client, get_it);
    start(&threads[1], client, get_it);
    library_wait_for_waiters(client, 2);
    mst_lib_lock(client);
    mst_lib_interrupt(client, true);
    assert_true(mst_lib_interrupted(client));
    mst_lib_unlock(client);
    for (int i = 0; i < 2; i++) {
        finish(&threads[i]);
        assert_int_equal(threads[i].status, MUSTER_EINTERRUPTED);
    }
    assert_int_equal(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err),
                     MUSTER_EINTERRUPTED);
    assert_string_equal(
        err.text, "put 'k': interrupted, the job restarts: clean up and return from the function");
    mst_lib_lock(client);
    mst_lib_interrupt(client, false);
    mst_lib_unlock(client);
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    muster_client_close(client);
}

/* The client is closed while threads wait. They end with ECANCELLED, and the close waits for
 * that. [Opening and closing] */
static void close_ends_those_who_wait(void **state)
{
    muster_client *client = library_alone();
    struct thread threads[3] = {{.number = 1, .timeout_ms = -1},
                                {.number = 2, .timeout_ms = -1},
                                {.number = 3, .timeout_ms = -1}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        start(&threads[i], client, get_it);
    }
    library_wait_for_waiters(client, 3);
    muster_client_close(client);
    for (int i = 0; i < 3; i++) {
        finish(&threads[i]);
        assert_int_equal(threads[i].status, MUSTER_ECANCELLED);
        assert_string_equal(strchr(threads[i].err.text, ':'), ": the client is being closed");
    }
}

/* A program closes all descriptors while another thread blocks in a call. That call ends, and so
 * does closing the client: no thread waits for ever for what was closed. (The number may be
 * another event's by then; not by close, which the thread sanitizer would rightly call a race.)
 * [Opening and closing] */
static void close_ends_a_thread_whose_event_the_program_has_closed(void **state)
{
    muster_client *client = library_alone();
    struct thread patient = {.number = 1, .timeout_ms = -1};
    muster_status status;

    (void)state;
    start(&patient, client, get_it);
    library_wait_for_waiters(client, 1);
    library_wait_for_background(client, MST_LIB_PARKED);
    (void)syscall(SYS_close, client->background_event);
    (void)syscall(SYS_close, client->caller_event);
    status = muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL);
    assert_true(status == MUSTER_OK || status == MUSTER_EUNREACHABLE);
    finish(&patient); /* the answer woke it */
    assert_int_equal(patient.status, MUSTER_EUNREACHABLE);
    muster_client_close(client);
}

/* A call has its answer. It leaves no wake-up behind, which would cost the next one two system
 * calls. */
static void a_call_leaves_no_wake_up_behind(void **state)
{
    muster_client *client = library_alone();
    struct pollfd event = {.fd = client->caller_event, .events = POLLIN};

    (void)state;
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL), NULL);
    assert_int_equal(poll(&event, 1, 0), 0);
    muster_client_close(client);
}

static void *close_it(void *ctx)
{
    struct thread *thread = ctx;

    muster_client_close(thread->client);
    return NULL;
}

/* A call is over but its thread has something left to do with the handle. Closing waits until it
 * let go of it. [Opening and closing] */
static void close_waits_for_who_keeps_the_handle(void **state)
{
    muster_client *client = library_alone();
    struct thread closing = {0};

    (void)state;
    mst_lib_lock(client);
    mst_lib_keep(client);
    mst_lib_unlock(client);
    start(&closing, client, close_it);
    library_wait_for_waiters(client, 1);
    mst_lib_lock(client);
    mst_lib_let_go(client);
    mst_lib_unlock(client);
    finish(&closing);
}

/* ---- a run in another thread ---- */

static muster_status wait_for_a_key(muster_restart *restart, void *ctx)
{
    (void)restart;
    return muster_key_wait(ctx, (const char *[]){"never"}, 1, NULL, -1, NULL);
}

static muster_status be_done(muster_restart *restart, void *ctx)
{
    (void)restart;
    (void)ctx;
    return MUSTER_OK;
}

static void *run_waiting(void *ctx)
{
    struct thread *thread = ctx;

    thread->status =
        muster_restart_run(thread->client, NULL, wait_for_a_key, thread->client, &thread->err);
    return NULL;
}

static void *run_done(void *ctx)
{
    struct thread *thread = ctx;

    thread->status = muster_restart_run(thread->client, NULL, be_done, NULL, &thread->err);
    return NULL;
}

static muster_status fork_once(muster_restart *restart, void *ctx)
{
    int *how = ctx;
    pid_t child = fork();

    if (child == 0) {
        _exit(muster_restart_fail(restart, 1, "a child's") == MUSTER_EINVAL &&
                      muster_restart_leave(restart) == MUSTER_EINVAL
                  ? 0
                  : 1);
    }
    return waitpid(child, how, 0) == child ? MUSTER_OK : MUSTER_EFAILED;
}

/* A function's process forks. The child, with a copy of the thread and of the connection, cannot
 * speak for the function. [Opening and closing] */
static void a_forked_child_cannot_speak_for_the_function(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    int how = -1;

    (void)state;
    library_ok(muster_restart_run(client, NULL, fork_once, &how, &err), &err);
    assert_int_equal(how, 0);
    muster_client_close(client);
}

/* ---- posts ---- */

struct posted {
    struct mst_lib_post post;
    muster_status status;
    int completed;
};

static void on_posted(void *ctx, const struct mst_reply *reply)
{
    struct posted *posted = ctx;

    posted->status = reply->status;
    posted->completed++;
}

static bool is_posted(void *ctx)
{
    return ((struct posted *)ctx)->completed > 0;
}

static struct mst_request get_of(const char *name)
{
    return (struct mst_request){.command = MST_GET,
                                .get = {.key = mst_slice_text(name), .wait = true}};
}

/* No thread blocks and an answer comes. The background thread takes it. */
static void a_post_needs_no_thread(void **state)
{
    muster_client *client = library_alone();
    muster_client *observer = library_observer(client);
    struct posted posted = {.post = {.complete = on_posted}};
    struct mst_request request = get_of("posted");
    bool done = false;

    (void)state;
    posted.post.ctx = &posted;
    mst_lib_lock(client);
    assert_int_equal(mst_lib_post(client, &request, UINT64_MAX, &posted.post), MUSTER_OK);
    mst_lib_unlock(client);
    library_ok(muster_key_put(observer, "posted", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL), NULL);
    while (!done) {
        mst_lib_lock(client);
        done = posted.completed > 0;
        mst_lib_unlock(client);
    }
    assert_int_equal(posted.status, MUSTER_OK);
    assert_false(posted.post.open);
    muster_client_close(observer);
    muster_client_close(client);
}

/* A posted request is cancelled or dropped. It ends once with the service's word, or without
 * any. */
static void a_post_is_cancelled_or_dropped(void **state)
{
    muster_client *client = library_alone();
    struct posted posted = {.post = {.complete = on_posted}};
    struct posted dropped = {.post = {.complete = on_posted}};
    struct mst_request request = get_of("never");

    (void)state;
    posted.post.ctx = &posted;
    dropped.post.ctx = &dropped;
    mst_lib_lock(client);
    assert_int_equal(mst_lib_post(client, &request, UINT64_MAX, &posted.post), MUSTER_OK);
    assert_int_equal(mst_lib_post(client, &request, UINT64_MAX, &dropped.post), MUSTER_OK);
    mst_lib_unlock(client);
    mst_lib_lock(client);
    mst_lib_post_cancel(client, &posted.post);
    mst_lib_post_drop(client, &dropped.post);
    assert_true(mst_lib_wait(client, is_posted, &posted, UINT64_MAX));
    assert_int_equal(posted.status, MUSTER_ECANCELLED);
    assert_false(posted.post.local); /* it is the service's word */
    assert_false(mst_lib_wait(client, is_posted, &dropped, mst_lib_now_ns() + 1000000));
    mst_lib_unlock(client);
    assert_int_equal(posted.completed, 1);
    assert_int_equal(dropped.completed, 0);
    muster_client_close(client);
}

/* ---- a callback ---- */

static muster_status from_callback;
static char callback_text[sizeof(((struct muster_error *)0)->text)];

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    muster_client **client = ctx;
    struct muster_error err;

    (void)level;
    (void)line;
    if (*client) {
        struct muster_slice value = {0};

        from_callback = muster_key_put(*client, "k", value, NULL, LIMIT_MS, NULL, &err);
        (void)snprintf(callback_text, sizeof(callback_text), "%s", err.text);
    }
}

/* A callback calls muster on its own client. It fails with EDEADLK at once instead of waiting
 * for itself. */
static void a_callback_cannot_wait_for_itself(void **state)
{
    static muster_client *client;
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    (void)state;
    options.log = on_log;
    options.log_ctx = &client;
    client = library_open(&options);
    mst_lib_lock(client);
    mst_lib_log(client, MUSTER_LEVEL_INFO, "x");
    mst_lib_unlock(client);
    assert_int_equal(from_callback, MUSTER_EDEADLK);
    assert_string_equal(
        callback_text,
        "put 'k': called from a callback of the same client, it would wait for itself");
    muster_client_close(client);
}

static void on_log_of_another(void *ctx, enum muster_level level, const char *line)
{
    muster_client **clients = ctx; /* whose callback this is, and another */

    if (clients[0]) {
        struct muster_slice value = {0};

        library_ok(muster_key_put(clients[1], "k", value, NULL, LIMIT_MS, NULL, NULL), NULL);
        on_log(clients, level, line);
    }
}

/* A callback calls muster on its own client after it has called another client. It still fails
 * with EDEADLK. */
static void a_callback_may_use_another_client(void **state)
{
    static muster_client *clients[2];
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    (void)state;
    clients[1] = library_alone();
    options.addr = clients[1]->addr;
    options.role = MUSTER_ROLE_OBSERVER;
    options.log = on_log_of_another;
    options.log_ctx = clients;
    clients[0] = library_open(&options);
    from_callback = MUSTER_OK;
    mst_lib_lock(clients[0]);
    mst_lib_log(clients[0], MUSTER_LEVEL_INFO, "x");
    mst_lib_unlock(clients[0]);
    assert_int_equal(from_callback, MUSTER_EDEADLK);
    muster_client_close(clients[0]);
    muster_client_close(clients[1]);
}

/* ---- two ranks ---- */

static void *open_second(void *ctx)
{
    struct thread *thread = ctx;
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *client = NULL;

    options.addr = thread->client->addr;
    options.job = "two";
    options.size_of_job = 2;
    options.index = 1;
    thread->status = muster_client_open(&client, &options, LIMIT_MS, &thread->err);
    thread->client = client;
    return NULL;
}

/* Makes a job of two in one process. */
static void open_two(muster_client *service, muster_client *two[2])
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct thread second = {0};

    start(&second, service, open_second);
    options.addr = service->addr;
    options.job = "two";
    options.size_of_job = 2;
    options.index = 0;
    two[0] = library_open(&options);
    finish(&second);
    library_ok(second.status, &second.err);
    two[1] = second.client;
}

/* Two ranks meet often. Each barrier opens when both are there. [rounds / Meeting] */
static void two_ranks_meet_often(void **state)
{
    muster_client *service = library_alone();
    muster_client *two[2];
    struct thread threads[2] = {{0}};
    struct muster_view view;

    (void)state;
    open_two(service, two);
    for (uint32_t i = 0; i < 2; i++) {
        muster_client_view(two[i], &view);
        assert_int_equal(view.rank, i);
        assert_int_equal(view.size, 2);
        start(&threads[i], two[i], run_barriers);
    }
    for (int i = 0; i < 2; i++) {
        finish(&threads[i]);
        library_ok(threads[i].status, &threads[i].err);
    }
    muster_client_close(two[0]);
    muster_client_close(two[1]);
    muster_client_close(service);
}

/* Ranks meet at more barriers than a generation may have names, each with a name of its own, as for
 * each save. None fails. The result of one for which a rank gave up waiting is still there, and a
 * name that was forgotten can be used again. [rounds / Results] */
static void each_barrier_may_have_a_name_of_its_own(void **state)
{
    muster_client *service = library_alone();
    muster_client *two[2];
    struct thread threads[2] = {{0}};
    struct muster_error err;

    (void)state;
    open_two(service, two);
    assert_int_equal(muster_barrier_wait(two[0], "late", 30, &err), MUSTER_ETIMEDOUT);
    library_ok(muster_barrier_wait(two[1], "late", LIMIT_MS, &err), &err);
    for (int times = 0; times < 2; times++) {
        for (int i = 0; i < 2; i++) {
            start(&threads[i], two[i], meet_by_many_names);
        }
        for (int i = 0; i < 2; i++) {
            finish(&threads[i]);
            library_ok(threads[i].status, &threads[i].err);
        }
    }
    library_ok(muster_barrier_wait(two[0], "late", LIMIT_MS, &err), &err);
    muster_client_close(two[0]);
    muster_client_close(two[1]);
    muster_client_close(service);
}

/* A rank gives up waiting at a barrier and calls again. It is at the same barrier still.
 * [rounds / Meeting] */
static void a_barrier_is_taken_up_again(void **state)
{
    muster_client *service = library_alone();
    muster_client *two[2];
    struct muster_error err;

    (void)state;
    open_two(service, two);
    assert_int_equal(muster_barrier_wait(two[0], "b", 30, &err), MUSTER_ETIMEDOUT);
    assert_non_null(strstr(err.text, "barrier 'b': 1 of 2 arrived; missing rank 1 (#1, present"));
    assert_int_equal(muster_barrier_wait(two[0], "b", 30, &err), MUSTER_ETIMEDOUT);
    library_ok(muster_barrier_wait(two[1], "b", LIMIT_MS, &err), &err);
    library_ok(muster_barrier_wait(two[0], "b", LIMIT_MS, &err), &err); /* the same one */
    assert_int_equal(muster_barrier_wait(two[0], "b", 30, &err), MUSTER_ETIMEDOUT); /* the next */
    muster_client_close(two[0]);
    assert_int_equal(muster_barrier_wait(two[1], "b", LIMIT_MS, &err), MUSTER_ELOST);
    assert_non_null(strstr(err.text, "a participant was lost: rank 0 (#0, left"));
    muster_client_close(two[1]);
    muster_client_close(service);
}

/* A process opens a client for each run. The next client goes on where the one before was. */
static void the_next_client_knows_of_the_runs_before(void **state)
{
    muster_client *service = library_alone();
    muster_client *two[2];
    struct thread threads[2] = {{0}};

    (void)state;
    open_two(service, two);
    assert_int_equal(two[0]->heard, 0);
    for (int i = 0; i < 2; i++) {
        start(&threads[i], two[i], run_done);
    }
    for (int i = 0; i < 2; i++) {
        finish(&threads[i]);
        library_ok(threads[i].status, &threads[i].err);
        assert_int_equal(two[i]->heard, 1);
    }
    muster_client_close(two[0]);
    muster_client_close(two[1]);
    assert_int_equal(mst_lib_heard("two"), 1);
    assert_int_equal(mst_lib_heard("another"), 0);
    muster_client_close(service);
}

/* The client is closed while another thread runs a function, or waits behind it for the others.
 * The function is interrupted, its run ends with ECANCELLED, and the close waits for that.
 * [Opening and closing] */
static void close_ends_a_run(void **state)
{
    muster_client *service = library_alone();
    muster_client *two[2];
    struct thread inside = {0};
    struct thread behind = {0};

    (void)state;
    (void)setenv("MUSTER_AGENT", "0", 1); /* who waits then waits in the run */
    open_two(service, two);
    start(&inside, two[0], run_waiting);
    start(&behind, two[1], run_done);
    library_wait_for_waiters(two[0], 1);
    library_wait_for_waiters(two[1], 1);
    muster_client_close(two[1]);
    finish(&behind);
    assert_int_equal(behind.status, MUSTER_ECANCELLED);
    assert_string_equal(behind.err.text, "run the function again: the client is being closed");
    muster_client_close(two[0]);
    finish(&inside);
    assert_int_equal(inside.status, MUSTER_ECANCELLED);
    (void)unsetenv("MUSTER_AGENT");
    muster_client_close(service);
}

static muster_status fail_once(muster_restart *restart, void *ctx)
{
    int *times = ctx;

    return (*times)++ == 0 ? muster_restart_fail(restart, 1, "once") : MUSTER_OK;
}

static muster_client *open_of_few(const muster_client *service, int64_t index)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.addr = service->addr;
    options.job = "few";
    options.size_of_job = 2;
    options.min_size = 2;
    options.index = index;
    return library_open(&options);
}

static void *be_the_second_of_few(void *ctx)
{
    struct thread *thread = ctx;
    muster_client *client = open_of_few(thread->client, 1);

    thread->status = muster_restart_run(client, NULL, be_done, NULL, &thread->err);
    muster_client_close(client);
    return NULL;
}

static void *open_and_close_of_few(void *ctx)
{
    struct thread *thread = ctx;

    muster_client_close(open_of_few(thread->client, 1));
    return NULL;
}

enum { SOON_MS = 200 };

/* A run has ended because too few were left. The client is whole: the next run ends the same way
 * at once, or goes on once the missing one is back. [restart / Options, callbacks and clients] */
static void a_run_that_ended_for_too_few_is_followed_by_another(void **state)
{
    muster_client *service = library_alone();
    struct thread second = {0};
    struct muster_error err;
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    muster_client *first;
    int times = 0;

    (void)state;
    start(&second, service, open_and_close_of_few);
    first = open_of_few(service, 0);
    finish(&second);
    options.barrier_timeout_ms = SOON_MS;
    for (int i = 0; i < 2; i++) { /* the second one is not even entered, and waits before it ends */
        uint64_t begun_ns = mst_lib_now_ns();

        assert_int_equal(muster_restart_run(first, &options, fail_once, &times, &err),
                         MUSTER_ETOOFEW);
        assert_string_equal(err.text, "run the function again: 1 rank is left, min_size is 2");
        assert_true(i == 0 || mst_lib_now_ns() - begun_ns >= (uint64_t)SOON_MS * 1000000u);
    }
    start(&second, service, be_the_second_of_few);
    /* It waits until the missing one is there. */
    library_ok(muster_restart_run(first, NULL, fail_once, &times, &err), &err);
    finish(&second);
    library_ok(second.status, &second.err);
    muster_client_close(first);
    muster_client_close(service);
}

/* The client is closed while a run's helper starts. The run ends with ECANCELLED as early as it
 * can. [Opening and closing] */
static void close_ends_a_run_whose_helper_starts(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        muster_client *service = library_alone();
        muster_client *two[2];
        struct thread inside = {0};

        open_two(service, two);
        start(&inside, two[0], run_waiting);
        library_wait_for_waiters(two[0], 1);
        muster_client_close(two[0]);
        finish(&inside);
        assert_int_equal(inside.status, MUSTER_ECANCELLED);
        muster_client_close(two[1]);
        muster_client_close(service);
    }
}

/* ---- after fork ---- */

enum { FORKS = 50, HANGS_S = 60 };

static atomic_bool stop_running;

/* What the begin and the end of a run do. */
static bool run_nothing(struct muster_restart *restart)
{
    if (mst_interrupt_arm(&restart->interrupt, mst_interrupt_standard(), false, NULL) !=
        MUSTER_OK) {
        return false;
    }
    mst_run_exit_add(restart);
    mst_at_exit_remove(&restart->at_exit);
    mst_interrupt_disarm(&restart->interrupt);
    return true;
}

static void *run_on(void *ctx)
{
    bool good = true;

    while (good && !atomic_load(&stop_running)) {
        good = run_nothing(ctx);
    }
    return good ? ctx : NULL;
}

/* The process forks in the moment in which another thread begins or ends a run. The child can
 * run a function of its own, and its exit() returns. [restart / Options, callbacks and clients] */
static void a_child_runs_and_ends_whatever_was_locked_when_it_was_forked(void **state)
{
    static struct muster_client client;
    static struct muster_restart restart = {.client = &client};
    static struct muster_restart own = {.client = &client};
    pthread_t thread;
    void *good = NULL;

    (void)state;
    client.pid = getpid();
    assert_true(run_nothing(&restart)); /* the handler of exit() is there */
    assert_int_equal(pthread_create(&thread, NULL, run_on, &restart), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid;
        int status;

        (void)fflush(NULL);
        pid = fork();
        if (pid == 0) {
            (void)alarm(HANGS_S);
            exit(run_nothing(&own) ? 0 : 1); // NOLINT(concurrency-mt-unsafe): what is shown
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop_running, true);
    assert_int_equal(pthread_join(thread, &good), 0);
    assert_non_null(good);
}

/* ---- a broken invariant ---- */

static void *break_it(void *ctx)
{
    struct thread *thread = ctx;

    mst_lib_lock(thread->client);
    mst_panic("here.c", 7, "one is two");
}

static char last_words[400];

static void on_last_words(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)snprintf(last_words, sizeof(last_words), "%s", line);
}

/* In a process of its own: a thread of it stands still for good. 0: as it should be. */
static int poisoned_child(const muster_client *service)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct thread waiting = {.number = 1, .timeout_ms = -1};
    struct thread breaking = {0};
    muster_client *client = NULL;
    muster_status status;

    options.addr = service->addr;
    options.role = MUSTER_ROLE_OBSERVER;
    options.log = on_last_words;
    status = muster_client_open(&client, &options, LIMIT_MS, NULL);
    if (status != MUSTER_OK) {
        return 1;
    }
    waiting.client = client;
    breaking.client = client;
    if (pthread_create(&waiting.id, NULL, get_it, &waiting) != 0) {
        return 2;
    }
    library_wait_for_waiters(client, 1);
    if (pthread_create(&breaking.id, NULL, break_it, &breaking) != 0) {
        return 2;
    }
    (void)pthread_join(waiting.id, NULL);
    if (waiting.status != MUSTER_EINTERNAL) {
        return 3;
    }
    status = muster_key_put(client, "k", bytes_of("x"), NULL, -1, NULL, &waiting.err);
    if (status != MUSTER_EINTERNAL || !strstr(waiting.err.text, "poisoned")) {
        return 4;
    }
    if (strcmp(last_words, "broken invariant at here.c:7: one is two") != 0) {
        return 5;
    }
    muster_client_close(client);
    return 0;
}

static muster_status run_until_broken(muster_restart *restart, void *ctx)
{
    struct thread *thread = ctx;

    if (pthread_create(&thread->id, NULL, break_it, thread) != 0) {
        return MUSTER_OK;
    }
    while (muster_restart_check(restart) == MUSTER_OK) {
        (void)sched_yield();
    }
    return MUSTER_EINTERRUPTED;
}

/* As poisoned_child, with a function that runs: it is called out of it, and its run ends. */
static int poisoned_run(const muster_client *service)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct thread breaking = {0};

    options.addr = service->addr;
    options.job = "broken";
    options.size_of_job = 1;
    if (muster_client_open(&breaking.client, &options, LIMIT_MS, NULL) != MUSTER_OK) {
        return 1;
    }
    if (muster_restart_run(breaking.client, NULL, run_until_broken, &breaking, &breaking.err) !=
        MUSTER_EINTERNAL) {
        return 2;
    }
    return strstr(breaking.err.text, "run: a broken invariant inside muster") ? 0 : 3;
}

static void in_a_child(int (*run)(const muster_client *service))
{
    /* The child has it too: else memcheck may call it lost there. */
    static muster_client *service;
    int how = 0, result = -1, ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    service = library_alone();
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        result = run(service);
        (void)!write(ends[1], &result, sizeof(result));
        _exit(result);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &result, sizeof(result)), sizeof(result));
    assert_int_equal(result, 0);
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    /* Under memcheck the threads of a process end before it does, and the helper of a run, which
     * sees that the one that holds the page is dead, sees to it that all of the process is. */
    assert_true(how == 0 || (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL));
    muster_client_close(service);
}

/* An invariant of the library is broken. The client is poisoned: all its calls end with
 * EINTERNAL, the log says where, and the process lives. */
static void a_broken_invariant_poisons_the_client(void **state)
{
    (void)state;
    in_a_child(poisoned_child);
}

/* An invariant of the library is broken while a function runs. Its checks say so, it is
 * interrupted once, and its run ends with EINTERNAL when it has returned. */
static void a_broken_invariant_ends_a_run(void **state)
{
    (void)state;
    in_a_child(poisoned_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_client),
        cmocka_unit_test(waiters_are_answered_in_any_order),
        cmocka_unit_test(timeouts_are_each_caller_s_own),
        cmocka_unit_test(a_thread_that_polls_is_told_of_an_earlier_deadline),
        cmocka_unit_test(an_interrupt_ends_the_user_s_calls),
        cmocka_unit_test(close_ends_those_who_wait),
        cmocka_unit_test(close_ends_a_thread_whose_event_the_program_has_closed),
        cmocka_unit_test(close_waits_for_who_keeps_the_handle),
        cmocka_unit_test(the_next_client_knows_of_the_runs_before),
        cmocka_unit_test(a_run_that_ended_for_too_few_is_followed_by_another),
        cmocka_unit_test(close_ends_a_run),
        cmocka_unit_test(close_ends_a_run_whose_helper_starts),
        cmocka_unit_test(a_forked_child_cannot_speak_for_the_function),
        cmocka_unit_test(a_call_leaves_no_wake_up_behind),
        cmocka_unit_test(a_post_needs_no_thread),
        cmocka_unit_test(a_post_is_cancelled_or_dropped),
        cmocka_unit_test(a_callback_cannot_wait_for_itself),
        cmocka_unit_test(a_callback_may_use_another_client),
        cmocka_unit_test(two_ranks_meet_often),
        cmocka_unit_test(each_barrier_may_have_a_name_of_its_own),
        cmocka_unit_test(a_barrier_is_taken_up_again),
        cmocka_unit_test(a_child_runs_and_ends_whatever_was_locked_when_it_was_forked),
        cmocka_unit_test(a_broken_invariant_poisons_the_client),
        cmocka_unit_test(a_broken_invariant_ends_a_run),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
