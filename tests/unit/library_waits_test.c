/* SPDX-License-Identifier: Apache-2.0 */
/* A function of muster_restart_run that waits in muster shows it in its progress page, so that the
 * wait is not taken for a hang. Each exported function is called by a thread that has a page, and
 * the system's functions that block look whether it says so. exported_calls.py says which functions
 * there are, and which of them block: none can be forgotten here.
 *
 * behaviour: library / Opening and closing */
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
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/shell/sidecar/serve.h"
#include "cluster_fake.h"
#include "exported_calls.h"
#include "process/page.h"

enum { SHORT_MS = 20, CALLS_ROOM = 256 };

/* ---- the list ---- */

static const char *const block_too[] = {
    /* with a limit of their own, or none */
    "cluster_done",     "heartbeat_start",  "preempt_reached",
    "preempt_announce", "preempt_withdraw", "worker_serve",
};

/* They give the service, workers or the library's own threads a second or two, and wait for
 * callbacks of the program for as long as these take: that is no wait for another rank, so the
 * clock of no progress runs. */
static const char *const close_something[] = {
    "client_close", "watch_close",   "heartbeat_stop", "preempt_close",
    "call_free",    "cluster_close", "worker_close",   "call_cancel",
};

/* They only look at memory of the caller's, or run on a thread of the library's. */
static const char *const need_no_try[] = {
    "assignment_",   "batch_new",    "batch_insert",      "batch_put",     "batch_cas",
    "batch_add",     "batch_append", "batch_delete",      "batch_free",    "value_",
    "keys_",         "members_",     "rounds_",           "round_status",  "round_number",
    "round_value",   "round_int64",  "round_count",       "round_part",    "round_part_count",
    "round_missing", "round_free",   "fault_kind_name",   "status_name",   "status_text",
    "version",       "exit_code",    "cluster_exit_code", "failures_free", "task_",
    "round_double",  "restart_run", /* around the function: it has a page of its own */
};

static bool is_among(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(names[i]);

        if (strncmp(name, names[i], size) == 0 &&
            (name[size] == '\0' || names[i][size - 1] == '_')) {
            return true;
        }
    }
    return false;
}

#define IS_AMONG(names, name) is_among(names, sizeof(names) / sizeof((names)[0]), name)

/* ---- a try ---- */

static struct call {
    bool tried;
    atomic_bool shown;
    const char *_Atomic unshown; /* what blocked while the page did not say so; NULL: nothing */
} calls[CALLS_ROOM];

static struct mst_page page;
static _Thread_local struct call *trying; /* NULL: nothing; by this thread */

static struct call *call_of(const char *name)
{
    for (size_t i = 0; exported_calls[i].name; i++) {
        assert_true(i < CALLS_ROOM);
        if (strcmp(exported_calls[i].name + strlen("muster_"), name) == 0) {
            return &calls[i];
        }
    }
    fail_msg("%s is no exported function", name);
    return calls;
}

static void try_begin(const char *name)
{
    trying = call_of(name);
    trying->tried = true;
    if (!mst_lib_thread.page) { /* else that of the run */
        mst_lib_thread.page = &page;
    }
}

static void try_end(void)
{
    trying = NULL;
    if (mst_lib_thread.page == &page) {
        mst_lib_thread.page = NULL;
    }
    assert_int_equal(atomic_load(&page.waits) % 2, 0);
}

static void ignore(muster_status status)
{
    (void)status;
}

#define TRY(name, ...) (try_begin(#name), ignore(muster_##name(__VA_ARGS__)), try_end())
#define TRY_PLAIN(name, ...) (try_begin(#name), (void)(muster_##name(__VA_ARGS__)), try_end())

/* This thread may block now. */
static void look(const char *in)
{
    if (!trying) {
        return;
    }
    if (atomic_load(&mst_lib_thread.page->waits) % 2 == 1) {
        atomic_store(&trying->shown, true);
    } else if (!atomic_load(&trying->unshown)) {
        atomic_store(&trying->unshown, in);
    }
}

/* Not pthread_join and waitpid: the library's own threads and processes end at once, or when the
 * program's function on them does. The names are the linker's. */
/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
#define WRAP(type, name, blocks, parameters, arguments)                                            \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        if (blocks) {                                                                              \
            look(#name);                                                                           \
        }                                                                                          \
        return __real_##name arguments;                                                            \
    }

WRAP(int, poll, wait_ms != 0, (struct pollfd * polled, nfds_t count, int wait_ms),
     (polled, count, wait_ms))
WRAP(int, ppoll, true,
     (struct pollfd * polled, nfds_t count, const struct timespec *limit, const sigset_t *mask),
     (polled, count, limit, mask))
WRAP(int, epoll_wait, wait_ms != 0, (int epoll, struct epoll_event *events, int most, int wait_ms),
     (epoll, events, most, wait_ms))
WRAP(int, pthread_cond_wait, true, (pthread_cond_t * condition, pthread_mutex_t *lock),
     (condition, lock))
WRAP(int, pthread_cond_timedwait, true,
     (pthread_cond_t * condition, pthread_mutex_t *lock, const struct timespec *limit),
     (condition, lock, limit))
WRAP(int, flock, (how & (LOCK_NB | LOCK_UN)) == 0, (int fd, int how), (fd, how))
#undef WRAP
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

/* ---- the calls ---- */

struct scene {
    muster_client *client; /* a rank, alone in its job */
    muster_client *other;  /* an observer, which may leave */
};

static muster_client *beside(const muster_client *client, enum muster_role role)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.addr = client->addr;
    options.job = client->job;
    options.role = role;
    options.index = MUSTER_INDEX_ANY;
    return library_open(&options);
}

static void end(muster_call *call)
{
    TRY(call_wait_signal, call, SHORT_MS, NULL);
    TRY(call_wait, call, SHORT_MS, NULL);
    TRY_PLAIN(call_free, call);
}

static void call_client(struct scene *scene)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_view view;
    muster_client *client = NULL;
    int fd;

    TRY_PLAIN(client_view, scene->client, &view);
    TRY(client_fd, scene->client, &fd, NULL);
    TRY_PLAIN(client_dispatch, scene->client);
    options.addr = scene->client->addr;
    options.job = scene->client->job;
    options.role = MUSTER_ROLE_OBSERVER;
    TRY(client_open, &client, &options, LIMIT_MS, NULL);
    assert_non_null(client);
    TRY_PLAIN(client_close, client);
    TRY(client_open, &client, NULL, LIMIT_MS, NULL); /* with a service of its own */
    assert_non_null(client);
    TRY_PLAIN(client_close, client);
}

/* The service that the ranks of a machine share is started by one of them, and waited for. */
static void call_client_with_others(struct scene *scene)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_client *client;
    char addr[MST_LIB_ADDR_ROOM], lock[128];

    (void)scene;
    try_begin("client_open");
    library_ok(
        mst_lib_share("shared", "the test", mst_lib_now_ns() + UINT64_C(20000000000), addr, &err),
        &err);
    try_end();
    options.addr = addr;
    options.job = "shared";
    options.role = MUSTER_ROLE_OBSERVER;
    client = library_open(&options);
    muster_client_close(client); /* the last one: the service ends */
    while (access(addr + strlen("unix:"), F_OK) == 0) {
        (void)sched_yield();
    }
    (void)snprintf(lock, sizeof(lock), "%s/.start", getenv("MUSTER_RUNTIME_DIR"));
    assert_int_equal(unlink(lock), 0);
}

static void call_keys(struct scene *scene)
{
    static const char *const names[] = {"never", "ever"};
    struct muster_slice value = bytes_of("x");
    muster_client *client = scene->client;
    muster_value *found = NULL;
    muster_keys *keys = NULL;
    muster_batch *batch = NULL;

    TRY(key_insert, client, "a", value, NULL, LIMIT_MS, NULL, NULL);
    TRY(key_put, client, "a", value, NULL, LIMIT_MS, NULL, NULL);
    TRY(key_cas, client, "a", 1, value, NULL, LIMIT_MS, NULL, NULL);
    TRY(key_add, client, "b", 1, NULL, LIMIT_MS, NULL, NULL);
    TRY(key_append, client, "a", value, NULL, LIMIT_MS, NULL, NULL);
    TRY(key_delete, client, "a", NULL, LIMIT_MS, NULL);
    TRY(key_delete_prefix, client, "a", NULL, LIMIT_MS, NULL, NULL);
    TRY(key_get, client, "never", NULL, SHORT_MS, &found, NULL);
    TRY(key_list, client, "", NULL, LIMIT_MS, &keys, NULL);
    muster_keys_free(keys);
    TRY(key_wait, client, names, 2, NULL, SHORT_MS, NULL);
    library_ok(muster_batch_new(&batch, NULL), NULL);
    library_ok(muster_batch_put(batch, "a", value), NULL);
    TRY(batch_apply, client, batch, LIMIT_MS, NULL);
    muster_batch_free(batch);
}

static void start_keys(struct scene *scene)
{
    static const char *const names[] = {"never", "ever"};
    struct muster_slice value = bytes_of("x");
    muster_client *client = scene->client;
    muster_value *found = NULL;
    muster_keys *keys = NULL;
    muster_batch *batch = NULL;
    muster_call *started[11] = {NULL};

    TRY(key_insert_start, client, "a", value, NULL, LIMIT_MS, NULL, &started[0], NULL);
    TRY(key_put_start, client, "a", value, NULL, LIMIT_MS, NULL, &started[1], NULL);
    TRY(key_cas_start, client, "a", 1, value, NULL, LIMIT_MS, NULL, &started[2], NULL);
    TRY(key_add_start, client, "b", 1, NULL, LIMIT_MS, NULL, &started[3], NULL);
    TRY(key_append_start, client, "a", value, NULL, LIMIT_MS, NULL, &started[4], NULL);
    TRY(key_delete_start, client, "a", NULL, LIMIT_MS, &started[5], NULL);
    TRY(key_get_start, client, "never", NULL, SHORT_MS, &found, &started[6], NULL);
    TRY(key_list_start, client, "", NULL, LIMIT_MS, &keys, &started[7], NULL);
    TRY(key_wait_start, client, names, 2, NULL, SHORT_MS, &started[8], NULL);
    library_ok(muster_batch_new(&batch, NULL), NULL);
    library_ok(muster_batch_put(batch, "a", value), NULL);
    TRY(batch_apply_start, client, batch, LIMIT_MS, &started[9], NULL);
    muster_batch_free(batch);
    TRY(key_delete_prefix_start, client, "a", NULL, LIMIT_MS, NULL, &started[10], NULL);
    for (size_t i = 0; i < sizeof(started) / sizeof(started[0]); i++) {
        end(started[i]);
    }
    muster_keys_free(keys);
}

static void on_done(void *ctx, muster_call *call)
{
    (void)ctx;
    (void)call;
}

static void call_calls(struct scene *scene)
{
    muster_value *value = NULL;
    muster_call *call = NULL;

    library_ok(muster_key_get_start(scene->client, "never", NULL, -1, &value, &call, NULL), NULL);
    TRY_PLAIN(call_on_done, call, on_done, NULL);
    TRY_PLAIN(call_cancel, call);
    TRY_PLAIN(client_dispatch, scene->client);
    TRY_PLAIN(call_free, call);
}

static void call_rounds(struct scene *scene)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_slice mine = bytes_of("x");
    muster_client *client = scene->client;
    muster_round_result *result = NULL;
    muster_members *members = NULL;
    muster_rounds *rounds = NULL;
    muster_call *call = NULL;

    options.reduce = MUSTER_REDUCE_GATHER;
    TRY(barrier_wait, client, "b", LIMIT_MS, NULL);
    TRY(round_join, client, "r", &options, mine, LIMIT_MS, &result, NULL);
    muster_round_free(result);
    result = NULL;
    TRY(round_broadcast, client, "s", 0, mine, LIMIT_MS, &result, NULL);
    muster_round_free(result);
    TRY(round_members, client, "r", 0, LIMIT_MS, &members, NULL);
    muster_members_free(members);
    TRY(round_list, client, LIMIT_MS, &rounds, NULL);
    muster_rounds_free(rounds);
    result = NULL;
    members = NULL;
    rounds = NULL;
    TRY(barrier_wait_start, client, "b", LIMIT_MS, &call, NULL);
    end(call);
    TRY(round_join_start, client, "r", &options, mine, LIMIT_MS, &result, &call, NULL);
    end(call);
    muster_round_free(result);
    result = NULL;
    TRY(round_broadcast_start, client, "s", 0, mine, LIMIT_MS, &result, &call, NULL);
    end(call);
    TRY(round_members_start, client, "r", 0, LIMIT_MS, &members, &call, NULL);
    end(call);
    TRY(round_list_start, client, LIMIT_MS, &rounds, &call, NULL);
    end(call);
    muster_round_free(result);
    muster_members_free(members);
    muster_rounds_free(rounds);
}

static void call_watch(struct scene *scene)
{
    struct muster_watch_options options = MUSTER_WATCH_OPTIONS_INIT;
    struct muster_event event;
    muster_watch *watch = NULL;
    muster_call *call = NULL;

    options.prefix = "never";
    TRY(watch_open, &watch, scene->client, &options, NULL);
    TRY(watch_next, watch, SHORT_MS, &event, NULL);
    TRY(watch_next_start, watch, SHORT_MS, &event, &call, NULL);
    end(call);
    TRY_PLAIN(watch_close, watch);
}

static void call_heartbeat(struct scene *scene)
{
    muster_heartbeat *heartbeat = NULL;

    TRY(heartbeat_start, &heartbeat, scene->client, NULL, NULL);
    assert_non_null(heartbeat);
    TRY_PLAIN(heartbeat_stop, heartbeat);
}

static struct muster_client_options one_of_two(const struct scene *scene, int64_t index)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.addr = scene->client->addr;
    options.job = "two";
    options.size_of_job = 2;
    options.index = index;
    return options;
}

static void *open_second(void *ctx)
{
    struct muster_client_options options = one_of_two(ctx, 1);
    muster_client *client = NULL;

    ignore(muster_client_open(&client, &options, LIMIT_MS, NULL));
    return client;
}

/* The other rank has opened no preempt: the step is agreed without it after a while, and it never
 * saves. */
static void call_preempt(struct scene *scene)
{
    struct muster_client_options options = one_of_two(scene, 0);
    muster_client *client;
    struct muster_notice notice;
    muster_preempt *preempt = NULL;
    pthread_t thread;
    int64_t step = 1;
    void *second;

    assert_int_equal(pthread_create(&thread, NULL, open_second, scene), 0);
    client = library_open(&options);
    assert_int_equal(pthread_join(thread, &second), 0);
    assert_non_null(second);
    TRY(preempt_open, &preempt, client, NULL, NULL);
    assert_non_null(preempt);
    TRY_PLAIN(preempt_sources, preempt);
    TRY(preempt_hold_begin, preempt, LIMIT_MS);
    TRY(preempt_hold_end, preempt);
    TRY(preempt_announce, client, MUSTER_INDEX_ALL, 60000, "x", NULL);
    while (!muster_preempt_notice(preempt, &notice)) {
        (void)sched_yield();
    }
    TRY_PLAIN(preempt_notice, preempt, &notice);
    TRY_PLAIN(preempt_reached, preempt, step);
    while (muster_preempt_reached(preempt, step) == MUSTER_GO_ON) {
        step++;
    }
    TRY(preempt_wait_exit, preempt, SHORT_MS, NULL);
    TRY(preempt_saved, preempt, step, SHORT_MS, NULL);
    TRY(preempt_withdraw, client, MUSTER_INDEX_ALL, NULL);
    TRY_PLAIN(preempt_close, preempt);
    muster_client_close(client);
    muster_client_close(second);
}

/* ---- a cluster ---- */

static void call_cluster(struct scene *scene)
{
    struct muster_cluster_options options = MUSTER_CLUSTER_OPTIONS_INIT;
    const struct muster_part part = {.data = "x", .size = 1};
    const struct muster_closure_call many[] = {{.function = "f"}};
    struct muster_cluster_counts counts = MUSTER_CLUSTER_COUNTS_INIT;
    struct muster_cluster_worker worker = MUSTER_CLUSTER_WORKER_INIT;
    struct muster_closure_progress progress;
    struct muster_failure failure;
    const struct muster_part *parts;
    muster_closure *closures[2] = {NULL, NULL};
    muster_per_worker *value = NULL;
    muster_dataset *dataset = NULL;
    muster_cluster *cluster = NULL;
    muster_status each[2];
    size_t count;

    options.queue_limit = 2;
    TRY(cluster_open, &cluster, scene->client, &options, LIMIT_MS, NULL);
    assert_non_null(cluster);
    TRY_PLAIN(cluster_fd, cluster);
    for (int i = 0; i < 2; i++) {
        library_ok(muster_cluster_schedule(cluster, "f", &part, 1, NULL, 0, &closures[i], NULL),
                   NULL);
    }
    TRY(cluster_schedule, cluster, "f", &part, 1, NULL, SHORT_MS, NULL, NULL);
    TRY(cluster_schedule_many, cluster, many, 1, SHORT_MS, NULL, &count, NULL);
    TRY(closure_wait, closures[0], SHORT_MS, NULL);
    TRY(closure_fetch, closures[0], SHORT_MS, &parts, &count, NULL);
    TRY(closure_fetch_many, closures, 2, SHORT_MS, each, NULL);
    TRY(closure_fetch_any, closures, 2, SHORT_MS, &count, NULL);
    TRY_PLAIN(closure_look, closures[0], &progress);
    TRY_PLAIN(closure_number, closures[0]);
    TRY_PLAIN(closure_failure, closures[0], &failure);
    TRY(cluster_per_worker, cluster, "v", &part, 1, NULL, &value, NULL);
    TRY_PLAIN(per_worker_drop, value);
    TRY(cluster_dataset, cluster, "v", &part, 1, NULL, &dataset, NULL);
    TRY(dataset_iterate, dataset, &value, NULL);
    muster_per_worker_drop(value);
    TRY_PLAIN(dataset_drop, dataset);
    TRY(cluster_state_server, cluster, "s", NULL);
    TRY_PLAIN(cluster_look, cluster, &counts);
    TRY_PLAIN(cluster_look_worker, cluster, 0, &worker);
    TRY(cluster_drain_worker, cluster, 0, NULL);
    TRY(cluster_join, cluster, SHORT_MS, NULL);
    TRY(cluster_drain, cluster, SHORT_MS, NULL);
    TRY(cluster_dismiss, cluster, SHORT_MS, NULL);
    TRY_PLAIN(cluster_dismissed, cluster);
    TRY_PLAIN(cluster_cancel_group, cluster, 1);
    TRY_PLAIN(closure_cancel, closures[0]);
    TRY_PLAIN(cluster_cancel_all, cluster);
    TRY_PLAIN(cluster_failures, cluster);
    TRY_PLAIN(closure_release, closures[0]);
    TRY_PLAIN(closure_release, closures[1]);
    TRY_PLAIN(cluster_close, cluster);
    ignore(
        muster_key_delete(scene->client, "muster/cluster/default/dismissed", NULL, LIMIT_MS, NULL));
}

static void *is_done(void *cluster)
{
    bool done;

    TRY(cluster_done, cluster, &done, NULL);
    return NULL;
}

/* One closure of two has failed: the other one is stopped before the failure is delivered. */
static void call_cluster_done(struct scene *scene)
{
    const struct mst_failure failure = {
        .origin = MST_ORIGIN_FUNCTION, .code = 5, .worker = MST_WORKER_NONE};
    const struct mst_failure stopped = {.origin = MST_ORIGIN_CANCELLED, .worker = MST_WORKER_NONE};
    struct muster_cluster_counts counts = MUSTER_CLUSTER_COUNTS_INIT;
    const struct muster_part *parts;
    muster_per_worker *value = NULL;
    muster_cluster *cluster = NULL;
    struct fake_worker *worker;
    struct mst_attempt attempt;
    size_t count;
    pthread_t thread;

    library_ok(muster_cluster_open(&cluster, scene->client, NULL, LIMIT_MS, NULL), NULL);
    worker = fake_worker(cluster, 2);
    library_ok(muster_cluster_per_worker(cluster, "twice", NULL, 0, NULL, &value, NULL), NULL);
    TRY(per_worker_fetch, value, 0, SHORT_MS, &parts, &count, NULL);
    muster_per_worker_drop(value);
    for (int i = 0; i < 2; i++) {
        library_ok(muster_cluster_schedule(cluster, "echo", NULL, 0, NULL, LIMIT_MS, NULL, NULL),
                   NULL);
    }
    fake_fail(worker, fake_expect(worker, MST_CLUSTER_RUN)->attempt, &failure);
    attempt = fake_expect(worker, MST_CLUSTER_RUN)->attempt;
    while (counts.failures == 0) {
        muster_cluster_look(cluster, &counts);
    }
    assert_int_equal(pthread_create(&thread, NULL, is_done, cluster), 0);
    (void)fake_expect(worker, MST_CLUSTER_CANCEL);
    fake_fail(worker, attempt, &stopped);
    assert_int_equal(pthread_join(thread, NULL), 0);
    muster_cluster_close(cluster);
    fake_leave(worker);
}

/* ---- a worker ---- */

static muster_status task(muster_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return MUSTER_OK;
}

static struct call *serving; /* the one that waits for something to run */

static void *drains_it(void *worker)
{
    while (!atomic_load(&serving->shown) && !atomic_load(&serving->unshown)) {
        (void)sched_yield();
    }
    muster_worker_drain(worker);
    return NULL;
}

static void call_worker(struct scene *scene)
{
    static const char *const argv[] = {"true", NULL};
    struct muster_worker_options options = MUSTER_WORKER_OPTIONS_INIT;
    muster_client *client = beside(scene->client, MUSTER_ROLE_WORKER);
    muster_worker *worker = NULL;
    pthread_t thread;

    options.signals = "";
    TRY(worker_open, &worker, client, &options, NULL);
    assert_non_null(worker);
    TRY(worker_register, worker, "f", 1, 0, task, NULL, NULL);
    TRY(worker_register_command, worker, "c", 1, 0, argv, NULL, NULL);
    serving = call_of("worker_serve");
    assert_int_equal(pthread_create(&thread, NULL, drains_it, worker), 0);
    TRY(worker_serve, worker, NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    TRY_PLAIN(worker_drain, worker);
    TRY_PLAIN(worker_close, worker);
    muster_client_close(client);
}

/* ---- within a function ---- */

static muster_status function(muster_restart *restart, void *arg)
{
    struct muster_fault fault;
    struct muster_view view;
    int *attempt = arg;

    TRY_PLAIN(restart_view, restart, &view);
    TRY(restart_check, restart);
    TRY(restart_interrupted, restart);
    TRY_PLAIN(restart_alive, restart);
    TRY(restart_hard_timeout_ms, restart);
    TRY(restart_ping, restart);
    TRY(restart_step, restart, 1);
    TRY(restart_atomic_begin, restart);
    TRY(restart_atomic_end, restart);
    TRY(restart_section_begin, restart, "s", LIMIT_MS);
    TRY(restart_section_end, restart);
    TRY_PLAIN(restart_fault_count, restart);
    TRY_PLAIN(restart_fault, restart, 0, &fault);
    switch ((*attempt)++) {
    case 0:
        TRY(restart_fail, restart, 1, "x");
        return MUSTER_EFAILED;
    case 1:
        TRY(restart_again, restart);
        return MUSTER_EINTERRUPTED;
    case 2:
        TRY(restart_lost, restart, 5, 0);
        return MUSTER_EINTERRUPTED;
    case 3:
        TRY(restart_abort, restart, 1, "x");
        return MUSTER_EFAILED;
    default:
        try_begin("restart_leave");
        ignore(muster_restart_leave(restart));
        try_end();
        return MUSTER_OK;
    }
}

static void call_restart(struct scene *scene)
{
    int attempt = 0;

    ignore(muster_restart_run(scene->client, NULL, function, &attempt, NULL));
    ignore(muster_restart_run(scene->client, NULL, function, &attempt, NULL));
    assert_int_equal(attempt, 5);
}

/* ---- members, the last as they leave ---- */

static void call_members(struct scene *scene)
{
    muster_client *another = library_observer(scene->client);
    muster_members *members = NULL;
    muster_call *call = NULL;

    TRY(member_list, scene->other, LIMIT_MS, &members, NULL);
    muster_members_free(members);
    members = NULL;
    TRY(member_fault, scene->client, 1, "x", LIMIT_MS, NULL);
    TRY(member_list_start, scene->other, LIMIT_MS, &members, &call, NULL);
    end(call);
    muster_members_free(members);
    TRY(member_fault_start, scene->other, 1, "x", LIMIT_MS, &call, NULL);
    end(call);
    TRY(member_leave, scene->other, LIMIT_MS, NULL);
    TRY(member_leave_start, another, LIMIT_MS, &call, NULL);
    end(call);
    muster_client_close(another);
}

/* ---- the test ---- */

static int judge(const char *name, bool blocks, struct call *call)
{
    const char *unshown = atomic_load(&call->unshown);
    bool waits = blocks || IS_AMONG(block_too, name);

    if (IS_AMONG(need_no_try, name) || (call->tried && IS_AMONG(close_something, name))) {
        return 0;
    }
    if (!call->tried) {
        print_error("muster_%s is called by nothing here\n", name);
        return 1;
    }
    if (unshown) {
        print_error("muster_%s: a wait in %s is not shown\n", name, unshown);
        return 1;
    }
    if (atomic_load(&call->shown) != waits) {
        print_error("muster_%s %s\n", name, waits ? "did not wait" : "waits");
        return 1;
    }
    return 0;
}

/* Any exported function is called within the function. Each wait in it is shown, wherever the
 * system blocks; a function that is added without being tried fails the test. */
static void each_wait_in_muster_is_shown(void **state)
{
    static void (*const scenes[])(struct scene *) = {
        call_client,       call_client_with_others,
        call_keys,         start_keys,
        call_calls,        call_rounds,
        call_watch,        call_heartbeat,
        call_preempt,      call_cluster,
        call_cluster_done, call_worker,
        call_members,      call_restart,
    };
    struct scene scene = {.client = library_alone()};
    int failed = 0, blocking = 0;

    (void)state;
    scene.other = library_observer(scene.client);
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        scenes[i](&scene);
    }
    muster_client_close(scene.other);
    muster_client_close(scene.client);
    for (size_t i = 0; exported_calls[i].name; i++) {
        blocking += exported_calls[i].blocks;
        failed +=
            judge(exported_calls[i].name + strlen("muster_"), exported_calls[i].blocks, &calls[i]);
    }
    assert_int_equal(failed, 0);
    assert_true(blocking > 30);
}

/* ---- a worker that runs something ---- */

static atomic_bool inside, goes_on;

static muster_status stays(muster_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&inside, true);
    while (!atomic_load(&goes_on)) {
        (void)sched_yield();
    }
    return MUSTER_OK;
}

static void *serves(void *worker)
{
    TRY(worker_serve, worker, NULL);
    return NULL;
}

/* A worker serves on the function's thread and has functions that run on others. It shows a wait
 * while it has nothing to run, and not while something runs. */
static void a_worker_with_something_to_run_shows_no_wait(void **state)
{
    struct muster_worker_options options = MUSTER_WORKER_OPTIONS_INIT;
    muster_client *client = library_alone(), *own = beside(client, MUSTER_ROLE_WORKER);
    struct call *call = serving = call_of("worker_serve");
    uint64_t until_ns = mst_lib_now_ns() + LIMIT_MS * UINT64_C(1000000);
    muster_closure *closure = NULL;
    muster_cluster *cluster = NULL;
    muster_worker *worker = NULL;
    pthread_t thread;

    (void)state;
    *call = (struct call){.tried = true};
    options.slots = 2;
    options.signals = "";
    library_ok(muster_cluster_open(&cluster, client, NULL, LIMIT_MS, NULL), NULL);
    library_ok(muster_worker_open(&worker, own, &options, NULL), NULL);
    library_ok(muster_worker_register(worker, "f", 1, MUSTER_FUNCTION_THREADS, stays, NULL, NULL),
               NULL);
    assert_int_equal(pthread_create(&thread, NULL, serves, worker), 0);
    library_ok(muster_cluster_schedule(cluster, "f", NULL, 0, NULL, LIMIT_MS, &closure, NULL),
               NULL);
    while (!atomic_load(&inside) || (!atomic_load(&call->unshown) && mst_lib_now_ns() < until_ns)) {
        (void)sched_yield();
    }
    assert_true(atomic_load(&call->shown)); /* before it had something to run */
    assert_non_null(atomic_load(&call->unshown));
    assert_int_equal(atomic_load(&page.waits) % 2, 0);
    atomic_store(&goes_on, true);
    library_ok(muster_closure_fetch(closure, LIMIT_MS, NULL, NULL, NULL), NULL);
    muster_closure_release(closure);
    muster_worker_drain(worker);
    assert_int_equal(pthread_join(thread, NULL), 0);
    muster_worker_close(worker);
    muster_cluster_close(cluster);
    muster_client_close(own);
    muster_client_close(client);
}

static int setup(void **state)
{
    return setenv("MUSTER_AGENT", "0", 1) == 0 ? library_stage_setup(state) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wait_in_muster_is_shown),
        cmocka_unit_test(a_worker_with_something_to_run_shows_no_wait),
    };

    return cmocka_run_group_tests(tests, setup, library_stage_teardown);
}
