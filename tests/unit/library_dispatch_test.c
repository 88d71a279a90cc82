/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in an event loop, from many threads, and in great numbers. cmocka asserts on the main
 * thread only, so the others leave their results behind.
 *
 * behaviour: library / Calls that do not block */
#define _GNU_SOURCE
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/panic.h"
#include "library_stage.h"
#include "net/socket_dir.h"

/* ---- allocations that fail ---- */

static _Thread_local int fail_at; /* the allocation of this thread that fails, from 1; 0: none */

/* The linker turns the library's malloc into __wrap_malloc, and ours is __real_malloc. */
/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool fails(void)
{
    return fail_at > 0 && --fail_at == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

/* There is no memory for a start. It is refused, nothing was sent, and no handle is left. */
static void a_start_without_memory_is_refused(void **state)
{
    muster_client *client = library_alone();
    const char *names[] = {"a", "b"};
    struct muster_error err;
    int64_t sum = 0;
    int refused = 0;

    (void)state;
    for (int at = 1;; at++) {
        muster_call *call = NULL;
        muster_status status;

        fail_at = at;
        status = muster_key_add_start(client, "n", 1, NULL, LIMIT_MS, NULL, &call, &err);
        fail_at = 0;
        if (status == MUSTER_OK) {
            status = muster_call_wait(call, LIMIT_MS, &err);
            muster_call_free(call);
        } else {
            assert_null(call);
        }
        if (status == MUSTER_OK) {
            break;
        }
        assert_int_equal(status, MUSTER_ENOMEM);
        assert_string_equal(err.text, "add to 'n': out of memory");
        refused++;
    }
    assert_true(refused >= 2);
    library_ok(muster_key_add(client, "n", 0, NULL, LIMIT_MS, &sum, &err), &err);
    assert_int_equal(sum, 1);
    for (int at = 1; at <= 4; at++) {
        muster_call *call = NULL;

        fail_at = at;
        if (muster_key_wait_start(client, names, 2, NULL, -1, &call, NULL) == MUSTER_OK) {
            fail_at = 0;
            muster_call_free(call);
        }
        fail_at = at;
        if (muster_barrier_wait_start(client, "b", -1, &call, NULL) == MUSTER_OK) {
            fail_at = 0;
            library_ok(muster_call_wait(call, LIMIT_MS, &err), &err);
            muster_call_free(call);
        }
        fail_at = 0;
        library_ok(muster_barrier_wait(client, "b", LIMIT_MS, &err), &err); /* no number is lost */
    }
    muster_client_close(client);
}

/* ---- an event loop ---- */

static bool readable(int fd, int wait_ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    return poll(&poller, 1, wait_ms) == 1;
}

struct loop {
    muster_client *client;
    int fd;
    int left;
    int order[8], count;
};

static void run(struct loop *loop)
{
    while (loop->left > 0) {
        assert_true(readable(loop->fd, LIMIT_MS));
        muster_client_dispatch(loop->client);
    }
}

static struct loop loop_of(muster_client *client)
{
    struct loop loop = {.client = client};

    library_ok(muster_client_fd(client, &loop.fd, NULL), NULL);
    return loop;
}

struct named {
    struct loop *loop;
    int number;
    muster_status status;
};

static void note(void *ctx, muster_call *call)
{
    struct named *named = ctx;

    named->status = muster_call_wait(call, 0, NULL);
    named->loop->order[named->loop->count++] = named->number;
    named->loop->left--;
    muster_call_free(call);
}

/* The descriptor is polled. It is readable while something is over and not dispatched. */
static void the_descriptor_says_when(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *call = NULL;
    struct loop loop;
    struct named named = {.loop = &loop, .number = 1};
    int again = -1;

    (void)state;
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &call, &err), &err);
    muster_call_on_done(call, note, &named);
    loop = loop_of(client);
    loop.left = 1;
    library_ok(muster_client_fd(client, &again, &err), &err);
    assert_int_equal(again, loop.fd);
    assert_false(readable(loop.fd, 0));
    muster_client_dispatch(client);
    assert_int_equal(loop.left, 1);
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    run(&loop);
    assert_int_equal(named.status, MUSTER_OK);
    assert_string_equal(muster_value_data(value), "x");
    muster_value_free(value);
    assert_false(readable(loop.fd, 0));
    /* Also without a callback; and not for what was freed. */
    library_ok(muster_key_put_start(client, "k", bytes_of("x"), NULL, -1, NULL, &call, &err), &err);
    library_ok(muster_call_wait(call, -1, &err), &err);
    assert_true(readable(loop.fd, 0));
    muster_client_dispatch(client);
    assert_false(readable(loop.fd, 0));
    loop.left = 1;
    muster_call_on_done(call, note, &named); /* it is over: the callback comes all the same */
    run(&loop);
    library_ok(muster_key_put_start(client, "k", bytes_of("x"), NULL, -1, NULL, &call, &err), &err);
    library_ok(muster_call_wait(call, -1, &err), &err);
    muster_call_free(call);
    assert_false(readable(loop.fd, 0));
    muster_client_close(client);
}

/* Something was over before the descriptor was asked for. The descriptor is readable. */
static void a_late_descriptor_is_readable(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_call *call = NULL;
    struct loop loop;
    struct named named = {.loop = &loop};

    (void)state;
    library_ok(muster_key_put_start(client, "k", bytes_of("x"), NULL, -1, NULL, &call, &err), &err);
    library_ok(muster_call_wait(call, -1, &err), &err);
    muster_call_on_done(call, note, &named);
    loop = loop_of(client);
    loop.left = 1;
    run(&loop);
    muster_client_close(client);
}

/* Several calls end before the loop turns. Their callbacks come in the order of the ends. */
static void callbacks_come_in_the_order_of_the_ends(void **state)
{
    static const int puts[] = {2, 0, 3, 1};
    muster_client *client = library_alone();
    struct loop loop = loop_of(client);
    struct muster_error err;
    muster_value *values[4] = {NULL};
    struct named named[4];
    muster_call *calls[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "k%d", i);
        library_ok(muster_key_get_start(client, name, NULL, -1, &values[i], &calls[i], &err), &err);
        memset(name, 'x', sizeof(name)); /* lent for the start only */
        named[i] = (struct named){.loop = &loop, .number = i};
        muster_call_on_done(calls[i], note, &named[i]);
    }
    loop.left = 4;
    for (int i = 0; i < 4; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "k%d", puts[i]);
        library_ok(muster_key_put(client, name, bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    }
    run(&loop);
    assert_memory_equal(loop.order, puts, sizeof(puts));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(named[i].status, MUSTER_OK);
        muster_value_free(values[i]);
    }
    muster_client_close(client);
}

/* ---- what a callback may do ---- */

struct chain {
    struct loop *loop;
    int64_t sum;
    muster_call *last, *other;
    muster_status of_other;
};

static void start_next(void *ctx, muster_call *call)
{
    struct chain *chain = ctx;
    muster_call *next = NULL;

    library_ok(muster_call_wait(call, 0, NULL), NULL);
    muster_call_free(call);
    if (--chain->loop->left > 0) {
        library_ok(muster_key_add_start(chain->loop->client, "n", 1, NULL, LIMIT_MS, &chain->sum,
                                        &next, NULL),
                   NULL);
        muster_call_on_done(next, start_next, chain);
    }
}

/* A callback starts the next call. The call runs as any other. */
static void a_callback_starts_the_next_call(void **state)
{
    muster_client *client = library_alone();
    struct loop loop = loop_of(client);
    struct chain chain = {.loop = &loop};
    muster_call *call = NULL;

    (void)state;
    loop.left = 100;
    library_ok(muster_key_add_start(client, "n", 1, NULL, LIMIT_MS, &chain.sum, &call, NULL), NULL);
    muster_call_on_done(call, start_next, &chain);
    run(&loop);
    assert_int_equal(chain.sum, 100);
    muster_client_close(client);
}

static void deal_with_others(void *ctx, muster_call *call)
{
    struct chain *chain = ctx;
    struct muster_error err;

    library_ok(muster_key_put(chain->loop->client, "b", bytes_of("x"), NULL, -1, NULL, &err), &err);
    muster_call_cancel(chain->other);
    chain->of_other = muster_call_wait(chain->other, -1, NULL);
    muster_call_free(chain->other);
    muster_client_dispatch(chain->loop->client); /* finds nothing */
    muster_call_free(call);
    chain->loop->left--;
}

/* A callback blocks, cancels, frees. All of that works. */
static void a_callback_blocks_cancels_and_frees(void **state)
{
    muster_client *client = library_alone();
    struct loop loop = loop_of(client);
    struct chain chain = {.loop = &loop};
    muster_value *value = NULL;
    muster_call *call = NULL;

    (void)state;
    loop.left = 1;
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &chain.other, NULL), NULL);
    library_ok(muster_key_put_start(client, "a", bytes_of("x"), NULL, -1, NULL, &call, NULL), NULL);
    muster_call_on_done(call, deal_with_others, &chain);
    run(&loop);
    assert_int_equal(chain.of_other, MUSTER_ECANCELLED);
    assert_false(readable(loop.fd, 0));
    muster_client_close(client);
}

static void start_and_end_another(void *ctx, muster_call *call)
{
    struct chain *chain = ctx;
    muster_call *next = NULL;

    library_ok(
        muster_key_put_start(chain->loop->client, "a", bytes_of("x"), NULL, -1, NULL, &next, NULL),
        NULL);
    muster_call_on_done(next, start_and_end_another, chain);
    library_ok(muster_call_wait(next, -1, NULL), NULL);
    muster_call_free(call);
    chain->last = next;
    chain->sum++;
}

/* A call ends while others are dispatched. Its callback is left to the next turn, or a loop that
 * dispatches would never do anything else. */
static void what_ends_meanwhile_is_left_to_the_next_time(void **state)
{
    muster_client *client = library_alone();
    struct loop loop = loop_of(client);
    struct chain chains[2] = {{.loop = &loop}, {.loop = &loop}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        muster_call *call = NULL;

        library_ok(muster_key_put_start(client, "a", bytes_of("x"), NULL, -1, NULL, &call, NULL),
                   NULL);
        library_ok(muster_call_wait(call, -1, NULL), NULL);
        muster_call_on_done(call, start_and_end_another, &chains[i]);
    }
    for (int i = 1; i <= 5; i++) {
        assert_true(readable(loop.fd, LIMIT_MS));
        muster_client_dispatch(client);
        assert_int_equal(chains[0].sum, i);
        assert_int_equal(chains[1].sum, i);
    }
    muster_call_free(chains[0].last);
    muster_call_free(chains[1].last);
    assert_false(readable(loop.fd, 0));
    muster_client_close(client);
}

struct logged {
    muster_call *cancelled, *freed;
    muster_client *client;
};

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    struct logged *logged = ctx;

    (void)level;
    (void)line;
    muster_call_cancel(logged->cancelled);
    muster_call_free(logged->freed);
    muster_client_dispatch(logged->client);
    logged->freed = NULL;
}

/* The callback of the log cancels or frees a call, while the lock is held. The call ends;
 * nothing of it is touched afterwards. */
static void the_log_s_callback_cancels_and_frees(void **state)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct logged logged = {NULL, NULL, NULL};
    muster_client *service = library_alone();
    muster_value *value = NULL;
    struct muster_error err;

    (void)state;
    options.role = MUSTER_ROLE_OBSERVER;
    options.addr = service->addr;
    options.job = service->job;
    options.log = on_log;
    options.log_ctx = &logged;
    logged.client = library_open(&options);
    library_ok(muster_key_get_start(logged.client, "k", NULL, -1, &value, &logged.cancelled, NULL),
               NULL);
    library_ok(muster_key_get_start(logged.client, "k", NULL, -1, &value, &logged.freed, NULL),
               NULL);
    mst_lib_lock(logged.client);
    mst_lib_log(logged.client, MUSTER_LEVEL_INFO, "x");
    mst_lib_unlock(logged.client);
    assert_int_equal(muster_call_wait(logged.cancelled, 0, &err), MUSTER_ECANCELLED);
    muster_call_free(logged.cancelled);
    logged.cancelled = NULL;
    library_ok(muster_key_put(service, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL), NULL);
    assert_null(value);
    muster_client_close(logged.client);
    muster_client_close(service);
}

/* ---- great numbers ---- */

enum { LIMIT_CALLS = 4000, WAITS = 600 };

/* 4000 calls are open. They are carried out in the order of their starts; one more is refused
 * with the limit, but for one that waits for a key. */
static void thousands_of_calls_are_open(void **state)
{
    static muster_call *calls[LIMIT_CALLS];
    static int64_t sums[LIMIT_CALLS];
    muster_client *client = library_alone();
    struct muster_error err;
    muster_call *one = NULL;
    muster_value *value = NULL;
    pid_t service = mst_socket_alive(client->addr + strlen("unix:"));

    (void)state;
    for (int i = 0; i < LIMIT_CALLS; i++) {
        library_ok(muster_key_add_start(client, "n", 1, NULL, LIMIT_MS, &sums[i], &calls[i], &err),
                   &err);
    }
    for (int i = 0; i < LIMIT_CALLS; i++) {
        library_ok(muster_call_wait(calls[i], LIMIT_MS, &err), &err);
        assert_int_equal(sums[i], i + 1); /* in the order of the starts */
        muster_call_free(calls[i]);
    }
    assert_int_equal(kill(service, SIGSTOP), 0); /* so that they stay open */
    for (int i = 0; i < LIMIT_CALLS; i++) {
        library_ok(muster_key_add_start(client, "n", 1, NULL, -1, &sums[i], &calls[i], &err), &err);
    }
    assert_int_equal(muster_key_add_start(client, "n", 1, NULL, -1, NULL, &one, &err),
                     MUSTER_ELIMIT);
    assert_string_equal(err.text,
                        "add to 'n': 4000 calls of this client are open, which is the limit; "
                        "let some end first");
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &one, &err), &err);
    assert_int_equal(kill(service, SIGCONT), 0);
    muster_call_free(one); /* it waits for a key, and is not among them */
    for (int i = 0; i < LIMIT_CALLS; i++) {
        muster_call_free(calls[i]);
    }
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    assert_null(value);
    muster_client_close(client);
}

/* Hundreds of calls wait for keys, and this client writes them. Each wait ends: none shuts the
 * write out. */
static void waits_do_not_shut_out_what_ends_them(void **state)
{
    static muster_call *calls[WAITS];
    static muster_call *reads[WAITS];
    static muster_value *values[WAITS];
    muster_value *value = NULL;
    muster_client *client = library_alone();
    struct muster_error err;
    char name[32];

    (void)state;
    for (int i = 0; i < WAITS; i++) {
        (void)snprintf(name, sizeof(name), "w/%d", i);
        library_ok(muster_key_get_start(client, name, NULL, -1, &values[i], &calls[i], &err), &err);
    }
    for (int i = 0; i < WAITS; i++) { /* beside them all that the window takes */
        library_ok(muster_key_get_start(client, "no", NULL, 0, &value, &reads[i], &err), &err);
    }
    for (int i = 0; i < WAITS; i++) {
        assert_int_equal(muster_call_wait(reads[i], LIMIT_MS, &err), MUSTER_ENOTFOUND);
        muster_call_free(reads[i]);
    }
    for (int i = WAITS - 1; i >= 0; i--) {
        (void)snprintf(name, sizeof(name), "w/%d", i);
        library_ok(muster_key_put(client, name, bytes_of(name), NULL, LIMIT_MS, NULL, &err), &err);
    }
    for (int i = 0; i < WAITS; i++) {
        (void)snprintf(name, sizeof(name), "w/%d", i);
        library_ok(muster_call_wait(calls[i], LIMIT_MS, &err), &err);
        assert_string_equal(muster_value_data(values[i]), name);
        muster_value_free(values[i]);
        muster_call_free(calls[i]);
    }
    muster_client_close(client);
}

/* ---- threads ---- */

enum { THREADS = 4, ADDS = 200, OPEN = 16 };

struct worker {
    pthread_t id;
    muster_client *client;
    muster_status status;
    int64_t done;
};

/* Keeps several open, and waits for the oldest. */
static void *pipeline(void *ctx)
{
    struct worker *worker = ctx;
    muster_call *calls[OPEN] = {NULL};

    for (int i = 0; i < ADDS + OPEN && worker->status == MUSTER_OK; i++) {
        muster_call **call = &calls[i % OPEN];

        if (*call) {
            worker->status = muster_call_wait(*call, LIMIT_MS, NULL);
            muster_call_free(*call);
            *call = NULL;
        }
        if (worker->status == MUSTER_OK && i < ADDS) {
            worker->status =
                muster_key_add_start(worker->client, "n", 1, NULL, LIMIT_MS, NULL, call, NULL);
        }
    }
    return NULL;
}

static void count_end(void *ctx, muster_call *call)
{
    int *left = ctx;

    if (muster_call_wait(call, 0, NULL) == MUSTER_OK) {
        --*left;
    }
    muster_call_free(call);
}

/* Threads start and wait while another one dispatches. Each gets its own. */
static void threads_wait_while_another_dispatches(void **state)
{
    muster_client *client = library_alone();
    struct loop loop = loop_of(client);
    struct worker workers[THREADS] = {{0}};
    int64_t sum = 0;

    (void)state;
    loop.left = ADDS;
    for (int i = 0; i < THREADS; i++) {
        workers[i].client = client;
        assert_int_equal(pthread_create(&workers[i].id, NULL, pipeline, &workers[i]), 0);
    }
    for (int i = 0; i < ADDS; i++) {
        muster_call *call = NULL;

        library_ok(muster_key_add_start(client, "n", 1, NULL, LIMIT_MS, NULL, &call, NULL), NULL);
        muster_call_on_done(call, count_end, &loop.left);
        muster_client_dispatch(client);
    }
    run(&loop);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].id, NULL), 0);
        library_ok(workers[i].status, NULL);
    }
    library_ok(muster_key_add(client, "n", 0, NULL, LIMIT_MS, &sum, NULL), NULL);
    assert_int_equal(sum, ADDS * (THREADS + 1));
    muster_client_close(client);
}

struct slow {
    muster_client *client;
    atomic_bool runs, goes_on, returned, freed;
    bool freed_early;
    muster_call *call;
};

static void take_long(void *ctx, muster_call *call)
{
    struct slow *slow = ctx;

    (void)call;
    atomic_store(&slow->runs, true);
    while (!atomic_load(&slow->goes_on)) {
        (void)sched_yield();
    }
    slow->freed_early = atomic_load(&slow->freed);
    atomic_store(&slow->returned, true);
}

static void *dispatch(void *ctx)
{
    struct slow *slow = ctx;

    muster_client_dispatch(slow->client);
    return NULL;
}

static void *free_it(void *ctx)
{
    struct slow *slow = ctx;

    muster_call_free(slow->call);
    atomic_store(&slow->freed, true);
    return NULL;
}

/* A call is freed while its callback runs on another thread. The free waits for the callback. */
static void a_free_waits_for_the_callback_of_another_thread(void **state)
{
    muster_client *client = library_alone();
    struct slow slow = {.client = client};
    pthread_t dispatcher;
    pthread_t freer;

    (void)state;
    library_ok(muster_key_put_start(client, "k", bytes_of("x"), NULL, -1, NULL, &slow.call, NULL),
               NULL);
    library_ok(muster_call_wait(slow.call, -1, NULL), NULL);
    muster_call_on_done(slow.call, take_long, &slow);
    assert_int_equal(pthread_create(&dispatcher, NULL, dispatch, &slow), 0);
    while (!atomic_load(&slow.runs)) {
        (void)sched_yield();
    }
    assert_int_equal(pthread_create(&freer, NULL, free_it, &slow), 0);
    library_wait_for_waiters(client, 1);
    atomic_store(&slow.goes_on, true);
    assert_int_equal(pthread_join(freer, NULL), 0);
    assert_true(atomic_load(&slow.returned));
    assert_int_equal(pthread_join(dispatcher, NULL), 0);
    assert_false(slow.freed_early);
    muster_client_close(client);
}

/* ---- a broken invariant ---- */

static void *break_it(void *ctx)
{
    mst_lib_lock(ctx);
    mst_panic("here.c", 7, "one is two");
}

static void note_poison(void *ctx, muster_call *call)
{
    *(muster_status *)ctx = muster_call_wait(call, 0, NULL);
    muster_call_free(call);
}

/* In a process of its own: a thread of it stands still for good. 0: as it should be. */
static int poisoned_child(const muster_client *service)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *client = NULL;
    muster_value *value = NULL;
    muster_call *call = NULL;
    muster_status status = MUSTER_OK;
    pthread_t thread;
    int fd = -1;

    options.role = MUSTER_ROLE_OBSERVER;
    options.addr = service->addr;
    options.job = service->job;
    if (muster_client_open(&client, &options, LIMIT_MS, NULL) != MUSTER_OK ||
        muster_client_fd(client, &fd, NULL) != MUSTER_OK ||
        muster_key_get_start(client, "k", NULL, -1, &value, &call, NULL) != MUSTER_OK) {
        return 1;
    }
    muster_call_on_done(call, note_poison, &status);
    if (pthread_create(&thread, NULL, break_it, client) != 0 || !readable(fd, LIMIT_MS)) {
        return 2;
    }
    muster_client_dispatch(client);
    return status == MUSTER_EINTERNAL ? 0 : 3;
}

/* An invariant of the library is broken while calls are open. They end with EINTERNAL, and the
 * loop wakes up. */
static void a_broken_invariant_ends_open_calls(void **state)
{
    /* The child has it too: else memcheck may call it lost there. */
    static muster_client *service;
    int how = 0;
    pid_t child;

    (void)state;
    service = library_alone();
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(poisoned_child(service));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    muster_client_close(service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_without_memory_is_refused),
        cmocka_unit_test(the_descriptor_says_when),
        cmocka_unit_test(a_late_descriptor_is_readable),
        cmocka_unit_test(callbacks_come_in_the_order_of_the_ends),
        cmocka_unit_test(a_callback_starts_the_next_call),
        cmocka_unit_test(a_callback_blocks_cancels_and_frees),
        cmocka_unit_test(what_ends_meanwhile_is_left_to_the_next_time),
        cmocka_unit_test(the_log_s_callback_cancels_and_frees),
        cmocka_unit_test(thousands_of_calls_are_open),
        cmocka_unit_test(waits_do_not_shut_out_what_ends_them),
        cmocka_unit_test(threads_wait_while_another_dispatches),
        cmocka_unit_test(a_free_waits_for_the_callback_of_another_thread),
        cmocka_unit_test(a_broken_invariant_ends_open_calls),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
