/* SPDX-License-Identifier: Apache-2.0 */
/* A worker and its coordinator in one process: what they are given, and functions on one slot and
 * on several. Children, commands and all that dies is shown by
 * tests/process/test_cluster_worker*.py.
 *
 * behaviour: cluster / Workers */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "muster/cluster.h"
#include "muster/worker.h"
#include "tasks/shell/worker/worker.h"

enum { CLOSURES = 2000, LONG_US = 3000, LARGE_BYTES = 16000000 };

static int setup(void **state)
{
    return setenv("MUSTER_AGENT", "0", 1) == 0 ? library_stage_setup(state) : -1;
}

static muster_client *client_beside(const muster_client *first, enum muster_role role)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.addr = first->addr;
    options.job = first->job;
    options.role = role;
    options.index = MUSTER_INDEX_ANY;
    return library_open(&options);
}

static muster_status add(muster_task *task, void *arg)
{
    const struct muster_part *parts;
    uint64_t sum = *(const uint64_t *)arg;
    size_t count = muster_task_parts(task, &parts);

    for (size_t i = 0; i < count; i++) {
        uint64_t number;

        memcpy(&number, parts[i].data, sizeof(number));
        sum += number;
    }
    return muster_task_add(task, &sum, sizeof(sum), (uint32_t)count);
}

/* Some take so long that another thread looks after the loop meanwhile. */
static muster_status mixed(muster_task *task, void *arg)
{
    uint64_t closure = muster_task_closure(task);

    if (closure % 97 == 0) {
        struct timespec begin, now;

        (void)clock_gettime(CLOCK_MONOTONIC, &begin);
        do {
            muster_task_progress(task, 0.5, "half");
            (void)clock_gettime(CLOCK_MONOTONIC, &now);
        } while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 <
                 LONG_US);
    }
    return add(task, arg);
}

static muster_status waits(muster_task *task, void *arg)
{
    atomic_store((atomic_bool *)arg, true);
    while (!muster_task_cancelled(task)) {
    }
    return MUSTER_ECANCELLED;
}

static const uint64_t zero;

static muster_worker *worker_of(muster_client *client, uint32_t slots)
{
    struct muster_worker_options options = MUSTER_WORKER_OPTIONS_INIT;
    struct muster_error err;
    muster_worker *worker = NULL;

    options.slots = slots;
    options.signals = "";
    library_ok(muster_worker_open(&worker, client, &options, &err), &err);
    return worker;
}

static void offer(muster_worker *worker, const char *name, uint32_t flags, muster_task_fn *fn,
                  const void *arg)
{
    struct muster_error err;
    void *mutable;

    memcpy(&mutable, &arg, sizeof(mutable));
    library_ok(muster_worker_register(worker, name, 1, flags, fn, mutable, &err), &err);
}

/* ---- what it is given ---- */

static void says(muster_status status, muster_status wanted, const struct muster_error *err,
                 const char *text)
{
    assert_int_equal(status, wanted);
    assert_int_equal(err->status, wanted);
    assert_string_equal(err->text, text);
}

static void test_options(void **state)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    struct muster_worker_options options = MUSTER_WORKER_OPTIONS_INIT;
    struct muster_error err;
    muster_worker *worker = NULL, *other = NULL;

    (void)state;
    says(muster_worker_open(&worker, rank, NULL, &err), MUSTER_EINVAL, &err,
         "worker: this client is no worker; open it with MUSTER_ROLE_WORKER");
    options.slots = 4097;
    assert_int_equal(muster_worker_open(&worker, client, &options, &err), MUSTER_EINVAL);
    assert_non_null(strstr(err.text, "worker_slots"));
    options.slots = 0;
    options.signals = "NOSUCH";
    assert_int_equal(muster_worker_open(&worker, client, &options, &err), MUSTER_EINVAL);
    options.signals = "";
    options.cluster = "two words"; /* no coordinator could have it */
    says(muster_worker_open(&worker, client, &options, &err), MUSTER_EINVAL, &err,
         "worker: its cluster's name may have letters, digits, '.', '_' and '-', at most 64");
    options.cluster = NULL;
    options.scratch = "/nonexistent/folder";
    says(muster_worker_open(&worker, client, &options, &err), MUSTER_EINVAL, &err,
         "worker: options.scratch is no folder");
    assert_null(worker);
    worker = worker_of(client, 1);
    says(muster_worker_open(&other, client, NULL, &err), MUSTER_EEXISTS, &err,
         "worker: this client has a worker already");
    muster_worker_close(worker);
    worker = worker_of(client, 1); /* it has none any more */
    muster_worker_close(worker);
    muster_worker_close(NULL);
    muster_client_close(client);
    muster_client_close(rank);
}

static void test_functions(void **state)
{
    static const char *const empty[] = {NULL};
    static const char *const echo[] = {"echo", NULL};
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    struct muster_command_options options = MUSTER_COMMAND_OPTIONS_INIT;
    muster_worker *worker = worker_of(client, 1);
    struct muster_error err;
    char *name = calloc(1, 300);

    (void)state;
    memset(name, 'x', 256);
    says(muster_worker_serve(worker, &err), MUSTER_EINVAL, &err,
         "serve: no function is registered");
    says(muster_worker_register(worker, "", 1, 0, add, NULL, &err), MUSTER_EINVAL, &err,
         "register: a function's name has 1 to 255 bytes");
    assert_int_equal(muster_worker_register(worker, name, 1, 0, add, NULL, &err), MUSTER_EINVAL);
    says(muster_worker_register(worker, "add", 0, 0, add, NULL, &err), MUSTER_EINVAL, &err,
         "register: versions begin with 1");
    says(muster_worker_register(worker, "add", 1, 64, add, NULL, &err), MUSTER_EINVAL, &err,
         "register: flags has bits of no enum muster_function_flag");
    says(muster_worker_register(worker, "add", 1, 0, NULL, NULL, &err), MUSTER_EINVAL, &err,
         "register: the function is NULL");
    offer(worker, "add", 0, add, &zero);
    says(muster_worker_register(worker, "add", 1, 0, add, NULL, &err), MUSTER_EEXISTS, &err,
         "register: this version of the function is there already");
    library_ok(muster_worker_register(worker, "add", 2, 0, add, NULL, &err), &err);
    says(muster_worker_register_command(worker, "sh", 1, 0, empty, NULL, &err), MUSTER_EINVAL, &err,
         "register: argv is empty");
    options.stdout_bytes_max = 17u << 20;
    assert_int_equal(muster_worker_register_command(worker, "sh", 1, 0, echo, &options, &err),
                     MUSTER_EINVAL);
    library_ok(muster_worker_register_command(worker, "sh", 1, 0, echo, NULL, &err), &err);
    muster_worker_close(worker);
    muster_client_close(client);
    muster_client_close(rank);
    free(name);
}

static void test_drained_before_it_begins(void **state)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, 1);
    struct muster_error err;

    (void)state;
    offer(worker, "add", 0, add, &zero);
    muster_worker_drain(worker);
    muster_worker_drain(NULL);
    library_ok(muster_worker_serve(worker, &err), &err);
    says(muster_worker_serve(worker, &err), MUSTER_EINVAL, &err,
         "serve: this worker has served already; open another one");
    says(muster_worker_register(worker, "late", 1, 0, add, NULL, &err), MUSTER_EINVAL, &err,
         "register: muster_worker_serve was called already");
    muster_worker_close(worker);
    muster_client_close(client);
    muster_client_close(rank);
}

/* ---- serving ---- */

struct served {
    pthread_t thread;
    muster_worker *worker;
    muster_status status;
    struct muster_error err;
};

static void *serve(void *ctx)
{
    struct served *served = ctx;

    served->status = muster_worker_serve(served->worker, &served->err);
    return NULL;
}

static void start(struct served *served, muster_worker *worker)
{
    served->worker = worker;
    assert_int_equal(pthread_create(&served->thread, NULL, serve, served), 0);
}

static void run_many(muster_cluster *cluster)
{
    static muster_closure *closures[CLOSURES];
    struct muster_error err;

    for (uint64_t i = 0; i < CLOSURES; i++) {
        const uint64_t numbers[2] = {i, 3 * i};
        const struct muster_part parts[2] = {{.data = &numbers[0], .size = sizeof(uint64_t)},
                                             {.data = &numbers[1], .size = sizeof(uint64_t)}};

        library_ok(
            muster_cluster_schedule(cluster, "mixed", parts, 2, NULL, LIMIT_MS, &closures[i], &err),
            &err);
    }
    for (uint64_t i = 0; i < CLOSURES; i++) {
        const struct muster_part *parts;
        uint64_t sum;
        size_t count;

        library_ok(muster_closure_fetch(closures[i], LIMIT_MS, &parts, &count, &err), &err);
        assert_int_equal(count, 1);
        assert_int_equal(parts->type, 2);
        memcpy(&sum, parts->data, sizeof(sum));
        assert_int_equal(sum, 4 * i);
        muster_closure_release(closures[i]);
    }
}

static void many(uint32_t slots, uint32_t flags)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, slots);
    struct served served = {0};
    muster_cluster *cluster = NULL;
    struct muster_error err;

    offer(worker, "mixed", flags, mixed, &zero);
    library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
    start(&served, worker);
    run_many(cluster);
    muster_worker_drain(worker);
    (void)pthread_join(served.thread, NULL);
    library_ok(served.status, &served.err);
    muster_worker_close(worker);
    muster_cluster_close(cluster);
    muster_client_close(client);
    muster_client_close(rank);
}

static void test_one_slot(void **state)
{
    (void)state;
    many(1, 0);
}

static void test_several_slots(void **state)
{
    (void)state;
    many(4, MUSTER_FUNCTION_THREADS);
}

static void test_several_slots_one_at_a_time(void **state)
{
    (void)state;
    many(3, 0);
}

/* ---- the thread that stands in, held between what it sees and what it does ---- */

enum scene {
    SCENE_NONE,
    SCENE_SET,    /* a function runs until somebody stands in and sees that something has come */
    SCENE_SEEN,   /* which is held there, until the function's thread has dealt with all of it */
    SCENE_ASLEEP, /* and is about to wait. Now something else comes, */
    SCENE_COME,   /* and has come: who was held goes on */
    SCENE_OVER    /* and is through: the other one waits */
};

static atomic_int scene;
static atomic_int loop_epoll = -1; /* the worker's */
static _Thread_local int last_epoll = -1;
static _Thread_local bool stands_in;

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
int __real_poll(struct pollfd *polled, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout);
int __real_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout);
ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

static void pass_scene(enum scene from, enum scene to)
{
    int expected = from;

    (void)atomic_compare_exchange_strong(&scene, &expected, to);
}

static void await_scene(enum scene wanted)
{
    while (atomic_load(&scene) < (int)wanted) {
        (void)sched_yield();
    }
}

/* Only who stands in waits for the loop's so. */
int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout)
{
    int found = __real_poll(polled, count, timeout);

    if (atomic_load(&scene) == SCENE_SET && count == 2 &&
        polled[0].fd == atomic_load(&loop_epoll) && polled[0].revents != 0 &&
        polled[1].revents == 0) {
        stands_in = true;
        pass_scene(SCENE_SET, SCENE_SEEN);
        await_scene(SCENE_COME);
    }
    return found;
}

/* Its next look at its timer: it is through with what it saw. */
ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    if (stands_in) {
        stands_in = false;
        pass_scene(SCENE_COME, SCENE_OVER);
    }
    return __real_read(fd, bytes, size);
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    last_epoll = epoll;
    if (timeout != 0 && epoll == atomic_load(&loop_epoll) && atomic_load(&scene) == SCENE_SEEN) {
        struct pollfd loop = {.fd = epoll, .events = POLLIN};

        pass_scene(SCENE_SEEN, SCENE_ASLEEP);
        (void)__real_poll(&loop, 1, LIMIT_MS);
        pass_scene(SCENE_ASLEEP, SCENE_COME);
        await_scene(SCENE_OVER);
    }
    return __real_epoll_wait(epoll, events, most, timeout);
}

static muster_status until_seen(muster_task *task, void *arg)
{
    (void)task;
    atomic_store(&loop_epoll, last_epoll);
    atomic_store(&scene, SCENE_SET);
    *(atomic_bool *)arg = true;
    await_scene(SCENE_SEEN);
    return MUSTER_ECANCELLED;
}

/* A closure comes as a function ends, between the look of the thread that stands in and its
 * lock. It is left to the thread that waits by then, and runs. */
static void test_a_closure_that_comes_as_a_function_ends(void **state)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, 1);
    muster_closure *seen = NULL, *after = NULL;
    struct served served = {0};
    muster_cluster *cluster = NULL;
    atomic_bool began = false;
    struct muster_error err;

    (void)state;
    offer(worker, "until seen", 0, until_seen, &began);
    offer(worker, "add", 0, add, &zero);
    library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
    start(&served, worker);
    library_ok(muster_cluster_schedule(cluster, "until seen", NULL, 0, NULL, LIMIT_MS, &seen, &err),
               &err);
    while (!atomic_load(&began)) {
        (void)sched_yield();
    }
    muster_closure_cancel(seen);
    await_scene(SCENE_ASLEEP);
    library_ok(muster_cluster_schedule(cluster, "add", NULL, 0, NULL, LIMIT_MS, &after, &err),
               &err);
    library_ok(muster_closure_wait(after, LIMIT_MS, &err), &err);
    atomic_store(&scene, SCENE_NONE);
    muster_closure_release(seen);
    muster_closure_release(after);
    muster_worker_drain(worker);
    (void)pthread_join(served.thread, NULL);
    library_ok(served.status, &served.err);
    muster_worker_close(worker);
    muster_cluster_close(cluster);
    muster_client_close(client);
    muster_client_close(rank);
}

/* A function that runs long is cancelled, by the coordinator and by the end of the worker. It
 * stops. */
static void test_stopped(void **state)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, 1);
    atomic_bool began = false;
    struct served served = {0};
    muster_cluster *cluster = NULL;
    muster_closure *closure = NULL;
    struct muster_error err;

    (void)state;
    offer(worker, "waits", 0, waits, &began);
    library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
    start(&served, worker);
    for (int i = 0; i < 2; i++) {
        atomic_store(&began, false);
        library_ok(
            muster_cluster_schedule(cluster, "waits", NULL, 0, NULL, LIMIT_MS, &closure, &err),
            &err);
        while (!atomic_load(&began)) {
        }
        if (i == 0) {
            muster_closure_cancel(closure);
            library_ok(muster_closure_wait(closure, LIMIT_MS, &err), &err);
        } else {
            muster_cluster_close(cluster);
        }
        muster_closure_release(closure);
    }
    muster_worker_drain(worker);
    (void)pthread_join(served.thread, NULL);
    library_ok(served.status, &served.err);
    muster_worker_close(worker);
    muster_client_close(client);
    muster_client_close(rank);
}

/* A short function's result is there when the next function on its thread takes its time. The
 * result is sent before. */
static void test_a_result_before_a_long_function(void **state)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, 2);
    const struct muster_closure_call calls[] = {{.function = "add"}, {.function = "waits"}};
    muster_closure *first = NULL, *two[2] = {NULL, NULL};
    struct served served = {0};
    muster_cluster *cluster = NULL;
    atomic_bool began = false;
    struct muster_error err;

    (void)state;
    offer(worker, "add", MUSTER_FUNCTION_THREADS, add, &zero);
    offer(worker, "waits", MUSTER_FUNCTION_THREADS, waits, &began);
    library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
    start(&served, worker);
    library_ok(muster_cluster_schedule(cluster, "waits", NULL, 0, NULL, LIMIT_MS, &first, &err),
               &err);
    while (!atomic_load(&began)) {
        (void)sched_yield();
    }
    library_ok(muster_cluster_schedule_many(cluster, calls, 2, LIMIT_MS, two, NULL, &err), &err);
    library_ok(muster_closure_wait(two[0], LIMIT_MS, &err), &err);
    muster_cluster_cancel_all(cluster);
    library_ok(muster_closure_wait(two[1], LIMIT_MS, &err), &err);
    muster_closure_release(first);
    muster_closure_release(two[0]);
    muster_closure_release(two[1]);
    muster_worker_drain(worker);
    (void)pthread_join(served.thread, NULL);
    library_ok(served.status, &served.err);
    muster_worker_close(worker);
    muster_cluster_close(cluster);
    muster_client_close(client);
    muster_client_close(rank);
}

/* One part of a value that does not come about, and two of the error. */
static muster_status fails_with_parts(muster_task *task, void *arg)
{
    const uint32_t types[] = {MUSTER_PART_ERROR, 7, MUSTER_PART_ERROR};
    muster_status status = MUSTER_OK;

    for (uint32_t i = 0; i < 3 && status == MUSTER_OK; i++) {
        status = muster_task_add(task, &i, sizeof(i), types[i]);
    }
    return *(const uint64_t *)arg == 0 ? muster_task_fail(task, 5, "no such file") : status;
}

static void has_error_parts(const struct muster_part *parts, size_t count)
{
    assert_int_equal(count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(parts[i].type, MUSTER_PART_ERROR);
        assert_int_equal(parts[i].size, sizeof(uint32_t));
        assert_int_equal(*(const uint32_t *)parts[i].data, 2 * i);
    }
}

static void fails_so(muster_cluster *cluster, const char *function, muster_per_worker *need)
{
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;
    struct muster_failure failure = {0};
    const struct muster_part *parts;
    muster_closure *closure = NULL;
    struct muster_error err;
    size_t count;

    options.needs = &need;
    options.need_count = need ? 1 : 0;
    library_ok(
        muster_cluster_schedule(cluster, function, NULL, 0, &options, LIMIT_MS, &closure, &err),
        &err);
    assert_int_equal(muster_closure_fetch(closure, LIMIT_MS, &parts, &count, &err), MUSTER_EFAILED);
    has_error_parts(parts, count);
    assert_true(muster_closure_failure(closure, &failure));
    assert_int_equal(failure.origin, need ? MUSTER_ORIGIN_INPUT : MUSTER_ORIGIN_FUNCTION);
    assert_int_equal(need ? failure.cause->code : failure.code, 5);
    muster_closure_release(closure);
}

/* A function, or the one that builds a per-worker value, adds parts, some of them
 * MUSTER_PART_ERROR, and fails. A fetch of its closure, of one that needs the value, and of the
 * value itself has these parts beside EFAILED, and no others. With OK all parts are the value. */
static void test_an_error_has_parts(void **state)
{
    const struct muster_cluster_options isolate = {.size = sizeof(isolate),
                                                   .policy = MUSTER_CLUSTER_ISOLATE};
    const uint64_t well = 1;
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, 1);
    muster_per_worker *value = NULL;
    const struct muster_part *parts;
    muster_closure *closure = NULL;
    struct served served = {0};
    muster_cluster *cluster = NULL;
    struct muster_error err;
    size_t count;

    (void)state;
    offer(worker, "add", 0, add, &zero);
    offer(worker, "fails", 0, fails_with_parts, &zero);
    offer(worker, "well", 0, fails_with_parts, &well);
    library_ok(muster_cluster_open(&cluster, rank, &isolate, LIMIT_MS, &err), &err);
    start(&served, worker);
    fails_so(cluster, "fails", NULL);
    library_ok(muster_cluster_per_worker(cluster, "fails", NULL, 0, NULL, &value, &err), &err);
    fails_so(cluster, "add", value);
    assert_int_equal(muster_per_worker_fetch(value, 0, LIMIT_MS, &parts, &count, &err),
                     MUSTER_EFAILED);
    has_error_parts(parts, count);
    library_ok(muster_cluster_schedule(cluster, "well", NULL, 0, NULL, LIMIT_MS, &closure, &err),
               &err);
    library_ok(muster_closure_fetch(closure, LIMIT_MS, &parts, &count, &err), &err);
    assert_int_equal(count, 3);
    muster_closure_release(closure);
    muster_per_worker_drop(value);
    muster_worker_drain(worker);
    (void)pthread_join(served.thread, NULL);
    library_ok(served.status, &served.err);
    muster_worker_close(worker);
    muster_cluster_close(cluster);
    muster_client_close(client);
    muster_client_close(rank);
}

struct gate {
    atomic_bool began, open;
};

/* A result that no socket takes in one piece, once it may. */
static muster_status large(muster_task *task, void *arg)
{
    static char bytes[LARGE_BYTES];
    struct gate *gate = arg;

    atomic_store(&gate->began, true);
    while (!atomic_load(&gate->open)) {
        (void)sched_yield();
    }
    return muster_task_add(task, bytes, sizeof(bytes), 0);
}

/* A worker is drained while it runs what gives 16 MB and must not begin twice. Its coordinator
 * has all of the result before the worker hangs up. A coordinator that takes nothing any more is
 * waited for 2 s. */
static void test_a_large_result_of_one_that_drains(void **state)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, 1);
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;
    const struct muster_part *parts;
    muster_closure *closure = NULL;
    struct served served = {0};
    muster_cluster *cluster = NULL;
    struct gate gate = {false, false};
    struct muster_error err;
    size_t count;

    (void)state;
    offer(worker, "large", 0, large, &gate);
    library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
    start(&served, worker);
    options.once = true;
    library_ok(
        muster_cluster_schedule(cluster, "large", NULL, 0, &options, LIMIT_MS, &closure, &err),
        &err);
    while (!atomic_load(&gate.began)) {
        (void)sched_yield();
    }
    muster_worker_drain(worker);
    atomic_store(&gate.open, true);
    (void)pthread_join(served.thread, NULL);
    library_ok(served.status, &served.err);
    muster_worker_close(worker);
    muster_client_close(client);
    library_ok(muster_closure_fetch(closure, LIMIT_MS, &parts, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_int_equal(parts->size, LARGE_BYTES);
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    muster_client_close(rank);
}

/* A worker's client is closed while it serves. serve ends with ECANCELLED; the worker says so
 * when it is asked again, and is closed after its client. */
static void test_its_client_is_closed_while_it_serves(void **state)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, 1);
    struct served served = {0};
    muster_cluster *cluster = NULL;
    muster_closure *closure = NULL;
    struct muster_error err;

    (void)state;
    offer(worker, "add", 0, add, &zero);
    library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
    start(&served, worker);
    library_ok(muster_cluster_schedule(cluster, "add", NULL, 0, NULL, LIMIT_MS, &closure, &err),
               &err);
    library_ok(muster_closure_wait(closure, LIMIT_MS, &err), &err);
    muster_closure_release(closure);
    muster_client_close(client);
    (void)pthread_join(served.thread, NULL);
    assert_int_equal(served.status, MUSTER_ECANCELLED);
    says(muster_worker_serve(worker, &err), MUSTER_EINVAL, &err,
         "serve: the client of this worker was closed");
    muster_worker_close(worker);
    muster_cluster_close(cluster);
    muster_client_close(rank);
}

static muster_status close_the_epoll(muster_task *task, void *arg)
{
    (void)task;
    (void)close(((const muster_worker *)arg)->epoll);
    return MUSTER_OK;
}

/* A worker's descriptors are closed while it serves. `muster_worker_serve` ends with
 * EUNREACHABLE. [library / Opening and closing] */
static void test_its_descriptors_are_closed_while_it_serves(void **state)
{
    muster_client *rank = library_alone();
    muster_client *client = client_beside(rank, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, 1);
    struct served served = {0};
    muster_cluster *cluster = NULL;
    muster_closure *closure = NULL;
    struct muster_error err;

    (void)state;
    offer(worker, "close", 0, close_the_epoll, worker);
    library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
    start(&served, worker);
    library_ok(muster_cluster_schedule(cluster, "close", NULL, 0, NULL, LIMIT_MS, &closure, &err),
               &err);
    (void)pthread_join(served.thread, NULL);
    assert_int_equal(served.status, MUSTER_EUNREACHABLE);
    muster_closure_release(closure);
    muster_worker_close(worker);
    muster_client_close(client);
    muster_cluster_close(cluster);
    muster_client_close(rank);
}

static bool is_looked_after(muster_worker *worker)
{
    bool is;

    mst_work_lock(worker);
    is = worker->slots > 1 || worker->standing_in;
    mst_work_unlock(worker);
    return is;
}

/* All of the library's go, while another thread is at the loop. Once that has seen it, files of the
 * program are there instead. */
static muster_status close_all(muster_task *task, void *arg)
{
    muster_worker *worker = arg;

    (void)task;
    while (!is_looked_after(worker)) {
        (void)sched_yield();
    }
    closefrom(STDERR_FILENO + 1);
    while (!atomic_load(&worker->lost)) {
        (void)sched_yield();
    }
    library_occupy();
    return MUSTER_OK;
}

/* In a process of its own. 0: as it should be. */
static int lose_all(const muster_client *first, uint32_t slots)
{
    muster_client *client = client_beside(first, MUSTER_ROLE_WORKER);
    muster_worker *worker = worker_of(client, slots);

    offer(worker, "close", 0, close_all, worker);
    if (muster_worker_serve(worker, NULL) != MUSTER_EUNREACHABLE) {
        return 1;
    }
    muster_worker_close(worker);
    muster_client_close(client);
    return library_is_untouched() ? 0 : 2;
}

/* A function of a worker closes all descriptors. `muster_worker_serve` ends with EUNREACHABLE;
 * the log says why. [library / Opening and closing] */
static void test_a_function_closes_all_descriptors(void **state)
{
    static muster_client *rank; /* the child has it too: else memcheck calls it lost there */

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it knows the parent's threads by numbers that those of the child get again */
#endif
    rank = library_alone();
    for (uint32_t slots = 1; slots <= 2; slots++) {
        muster_cluster *cluster = NULL;
        muster_closure *closure = NULL;
        struct muster_error err;
        int how = 0;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            (void)alarm(LIMIT_MS / 1000);
            _exit(lose_all(rank, slots));
        }
        library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
        library_ok(
            muster_cluster_schedule(cluster, "close", NULL, 0, NULL, LIMIT_MS, &closure, &err),
            &err);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
        muster_closure_release(closure);
        muster_cluster_close(cluster);
    }
    muster_client_close(rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_drained_before_it_begins),
        cmocka_unit_test(test_one_slot),
        cmocka_unit_test(test_several_slots),
        cmocka_unit_test(test_several_slots_one_at_a_time),
        cmocka_unit_test(test_a_closure_that_comes_as_a_function_ends),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_a_result_before_a_long_function),
        cmocka_unit_test(test_an_error_has_parts),
        cmocka_unit_test(test_a_large_result_of_one_that_drains),
        cmocka_unit_test(test_its_client_is_closed_while_it_serves),
        cmocka_unit_test(test_its_descriptors_are_closed_while_it_serves),
        cmocka_unit_test(test_a_function_closes_all_descriptors),
    };

    return cmocka_run_group_tests(tests, setup, library_stage_teardown);
}
