/* SPDX-License-Identifier: Apache-2.0 */
/* Each limit of the library's own, of a cluster and of the system, in each way that a call goes
 * over it: the line names the limit, its value, what was asked for and what to do. The service's
 * are in limit_test and error_test.
 *
 * behaviour: library / Reading the errors */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "net/socket_dir.h"
#include "tasks/shell/coordinator/cluster.h"

/* ---- the system has none left ---- */

enum source { NOWHERE, EVENT, EPOLL, EPOLL_ADD, PAIR, TIMER, FORK, THREAD };

static enum source fails_at; /* the next call of this function, and the ones after it */
static int fails_with;
static int passes; /* so many calls go well before */
static _Thread_local bool counts;

static bool is_short(enum source source)
{
    if (!counts || fails_at != source || passes-- > 0) {
        return false;
    }
    errno = fails_with;
    return true;
}

/* The names are the linker's. */
/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
int __real_eventfd(unsigned start, int flags);
int __wrap_eventfd(unsigned start, int flags);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __real_socketpair(int domain, int type, int protocol, int ends[2]);
int __wrap_socketpair(int domain, int type, int protocol, int ends[2]);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *ctx);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *ctx);

int __wrap_eventfd(unsigned start, int flags)
{
    return is_short(EVENT) ? -1 : __real_eventfd(start, flags);
}

int __wrap_epoll_create1(int flags)
{
    return is_short(EPOLL) ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    return is_short(EPOLL_ADD) ? -1 : __real_epoll_ctl(epoll, what, fd, event);
}

int __wrap_socketpair(int domain, int type, int protocol, int ends[2])
{
    return is_short(PAIR) ? -1 : __real_socketpair(domain, type, protocol, ends);
}

int __wrap_timerfd_create(int clock, int flags)
{
    return is_short(TIMER) ? -1 : __real_timerfd_create(clock, flags);
}

pid_t __wrap_fork(void)
{
    return is_short(FORK) ? -1 : __real_fork();
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *ctx)
{
    return is_short(THREAD) ? fails_with : __real_pthread_create(thread, attributes, start, ctx);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

static muster_client *beside(const muster_client *client, enum muster_role role)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.addr = client->addr;
    options.job = client->job;
    options.role = role;
    options.index = MUSTER_INDEX_ANY;
    return library_open(&options);
}

static muster_status open_client(muster_client *client, struct muster_error *err)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *opened = NULL;
    muster_status status;

    options.addr = client->addr;
    options.job = client->job;
    options.role = MUSTER_ROLE_OBSERVER;
    status = muster_client_open(&opened, &options, LIMIT_MS, err);
    muster_client_close(opened);
    return status;
}

static muster_status poll_client(muster_client *client, struct muster_error *err)
{
    int fd;

    return muster_client_fd(client, &fd, err);
}

static muster_status open_cluster(muster_client *client, struct muster_error *err)
{
    muster_cluster *cluster = NULL;
    muster_status status = muster_cluster_open(&cluster, client, NULL, LIMIT_MS, err);

    muster_cluster_close(cluster);
    return status;
}

static muster_status task(muster_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return MUSTER_OK;
}

static muster_status work(muster_client *client, uint32_t slots, uint32_t flags,
                          struct muster_error *err)
{
    struct muster_worker_options options = MUSTER_WORKER_OPTIONS_INIT;
    muster_client *own = beside(client, MUSTER_ROLE_WORKER);
    muster_worker *worker = NULL;
    muster_status status;

    options.slots = slots;
    options.signals = "";
    counts = true;
    status = muster_worker_open(&worker, own, &options, err);
    if (status == MUSTER_OK) {
        status = muster_worker_register(worker, "f", 1, flags, task, NULL, err);
    }
    if (status == MUSTER_OK) {
        muster_worker_drain(worker); /* it would end at once */
        status = muster_worker_serve(worker, err);
    }
    counts = false;
    muster_worker_close(worker);
    muster_client_close(own);
    return status;
}

static muster_status work_here(muster_client *client, struct muster_error *err)
{
    return work(client, 1, 0, err);
}

static muster_status work_on_threads(muster_client *client, struct muster_error *err)
{
    return work(client, 2, 0, err);
}

static muster_status work_in_children(muster_client *client, struct muster_error *err)
{
    return work(client, 1, MUSTER_FUNCTION_CHILD, err);
}

static const struct shortage {
    const char *what;
    muster_status (*run)(muster_client *client, struct muster_error *err);
    enum source source;
    int passes, error;
} shortages[] = {
    {"open", open_client, EVENT, 0, EMFILE},
    {"open", open_client, EVENT, 1, ENFILE},
    {"open", open_client, THREAD, 0, EAGAIN},
    {"get a descriptor to poll", poll_client, EVENT, 0, EMFILE},
    {"cluster", open_cluster, EPOLL, 0, EMFILE},
    {"cluster", open_cluster, EVENT, 0, ENFILE},
    {"cluster", open_cluster, EPOLL_ADD, 0, ENOSPC},
    {"cluster", open_cluster, EPOLL_ADD, 1, ENOSPC},
    {"cluster", open_cluster, THREAD, 0, EAGAIN},
    {"worker", work_here, EVENT, 0, EMFILE},
    {"serve", work_here, EVENT, 1, EMFILE},
    {"serve", work_here, EPOLL, 0, EMFILE},
    {"serve", work_here, EPOLL_ADD, 0, ENOSPC},
    {"serve", work_here, TIMER, 0, EMFILE},
    {"serve", work_here, EVENT, 2, EMFILE},
    {"serve", work_here, THREAD, 0, EAGAIN},
    {"serve", work_on_threads, THREAD, 1, EAGAIN},
    {"serve", work_in_children, PAIR, 0, ENFILE},
    {"serve", work_in_children, FORK, 0, EAGAIN},
    {"serve", work_in_children, EPOLL_ADD, 1, ENOSPC},
};

static unsigned long long number_in(const char *path)
{
    unsigned long long number = 0;
    FILE *file = fopen(path, "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &number), 1); /* NOLINT(cert-err34-c) */
    (void)fclose(file);
    return number;
}

static void line_of(const struct shortage *row, char *line, size_t room)
{
    struct rlimit limit;

    switch (row->error) {
    case EMFILE:
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        (void)snprintf(line, room,
                       "%s: no descriptors left: the limit is %llu (ulimit -n); raise it, or close "
                       "some",
                       row->what, (unsigned long long)limit.rlim_cur);
        return;
    case ENFILE:
        (void)snprintf(line, room,
                       "%s: no descriptors left on this machine: the limit is %llu (sysctl "
                       "fs.file-max); raise it, or end a process that has many",
                       row->what, number_in("/proc/sys/fs/file-max"));
        return;
    case ENOSPC:
        (void)snprintf(line, room,
                       "%s: no epoll watches left: the limit of this user is %llu (sysctl "
                       "fs.epoll.max_user_watches); raise it",
                       row->what, number_in("/proc/sys/fs/epoll/max_user_watches"));
        return;
    default:
        assert_int_equal(row->error, EAGAIN);
        assert_int_equal(getrlimit(RLIMIT_NPROC, &limit), 0);
        (void)snprintf(line, room,
                       row->source == FORK
                           ? "%s: no more processes: the limit of this user is %llu (ulimit -u), "
                             "and the control group may have a lower one (pids.max); raise it, or "
                             "end some"
                           : "%s: a thread could not be started: raise the limit of this user, "
                             "which is %llu (ulimit -u), or that of the control group (pids.max), "
                             "or it is out of memory",
                       row->what, (unsigned long long)limit.rlim_cur);
        return;
    }
}

/* The system has no more descriptors, epoll watches, threads or processes. The line says which
 * of these, with the limit, its value and where it is raised. */
static void what_the_system_has_none_left_of_is_named(void **state)
{
    muster_client *client = library_alone();

    (void)state;
    for (size_t i = 0; i < sizeof(shortages) / sizeof(shortages[0]); i++) {
        const struct shortage *row = &shortages[i];
        struct muster_error err = {0};
        muster_status status;
        char line[sizeof(err.text)];

        line_of(row, line, sizeof(line));
        fails_at = row->source;
        fails_with = row->error;
        passes = row->passes;
        counts = strcmp(row->what, "worker") != 0 && strcmp(row->what, "serve") != 0;
        status = row->run(client, &err);
        counts = false;
        fails_at = NOWHERE;
        if (status != (row->source == THREAD ? MUSTER_ENOMEM : MUSTER_ELIMIT) ||
            strcmp(err.text, line) != 0) {
            fail_msg("row %zu: %s: '%s', not '%s'", i, muster_status_name(status), err.text, line);
        }
        assert_int_equal(err.status, status);
        assert_int_equal(err.os_errno, row->error);
    }
    muster_client_close(client);
}

/* ---- a cluster's ---- */

static const char *of_size(size_t size)
{
    static char text[1024];

    memset(text, 'x', size);
    text[size] = '\0';
    return text;
}

static muster_status schedules(muster_cluster *cluster, const char *function,
                               const struct muster_part *parts, size_t count,
                               const struct muster_closure_options *options, int64_t timeout_ms,
                               struct muster_error *err)
{
    return muster_cluster_schedule(cluster, function, parts, count, options, timeout_ms, NULL, err);
}

static muster_status long_name(muster_cluster *cluster, struct muster_error *err)
{
    return schedules(cluster, of_size(256), NULL, 0, NULL, 0, err);
}

static muster_status long_builder(muster_cluster *cluster, struct muster_error *err)
{
    muster_per_worker *value = NULL;

    return muster_cluster_per_worker(cluster, of_size(256), NULL, 0, NULL, &value, err);
}

static muster_status long_key(muster_cluster *cluster, struct muster_error *err)
{
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;

    options.key = of_size(300);
    return schedules(cluster, "f", NULL, 0, &options, 0, err);
}

static muster_status many_needs(muster_cluster *cluster, struct muster_error *err)
{
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;
    muster_per_worker **needs = calloc(65537, sizeof(muster_per_worker *));
    muster_status status;

    assert_non_null(needs);
    options.needs = needs;
    options.need_count = 65537;
    status = schedules(cluster, "f", NULL, 0, &options, 0, err);
    free(needs);
    return status;
}

static muster_status many_parts(muster_cluster *cluster, struct muster_error *err)
{
    struct muster_part *parts = calloc(65537, sizeof(*parts));
    muster_status status;

    assert_non_null(parts);
    status = schedules(cluster, "f", parts, 65537, NULL, 0, err);
    free(parts);
    return status;
}

enum { LARGE = 16 * 1024 * 1024 };

static muster_status large_parts(muster_cluster *cluster, struct muster_error *err)
{
    struct muster_part parts[2] = {{.size = LARGE}, {.size = 5}};
    muster_status status;
    char *data = calloc(1, LARGE);

    assert_non_null(data);
    parts[0].data = parts[1].data = data;
    status = schedules(cluster, "f", parts, 2, NULL, 0, err);
    free(data);
    return status;
}

static muster_status fills(muster_cluster *cluster, size_t size, uint32_t count, int64_t timeout_ms,
                           struct muster_error *err)
{
    struct muster_part part = {.data = of_size(size), .size = size};
    muster_status status = MUSTER_OK;

    for (uint32_t i = 0; i < count && status == MUSTER_OK; i++) {
        status = schedules(cluster, "f", &part, 1, NULL, timeout_ms, err);
    }
    muster_cluster_cancel_all(cluster);
    return status;
}

static muster_status full_queue(muster_cluster *cluster, struct muster_error *err)
{
    return fills(cluster, 1, 4, 0, err);
}

static muster_status full_queue_awaited(muster_cluster *cluster, struct muster_error *err)
{
    return fills(cluster, 1, 4, 1, err);
}

static muster_status queue_of_many_bytes(muster_cluster *cluster, struct muster_error *err)
{
    return fills(cluster, 60, 2, 0, err);
}

static muster_status queue_of_many_bytes_awaited(muster_cluster *cluster, struct muster_error *err)
{
    return fills(cluster, 60, 2, 1, err);
}

static const struct way {
    enum mst_cluster_limit limit;
    muster_status status;
    muster_status (*go)(muster_cluster *cluster, struct muster_error *err);
    const char *what;
    const char *end; /* of the line: a long name is cut */
} ways[] = {
    {MST_CLUSTER_LIMIT_NAME, MUSTER_ELIMIT, long_name, "schedule 'xxx",
     ": over the longest name of a function (bytes): 256 asked for, at most 255; give it a shorter "
     "one"},
    {MST_CLUSTER_LIMIT_NAME, MUSTER_ELIMIT, long_builder, "per-worker value 'xxx",
     ": over the longest name of a function (bytes): 256 asked for, at most 255; give it a shorter "
     "one"},
    {MST_CLUSTER_LIMIT_KEY, MUSTER_ELIMIT, long_key, "schedule 'f': ",
     ": over the longest key of a closure (bytes): 300 asked for, at most 255; give it a shorter "
     "one, such as a digest of this one"},
    {MST_CLUSTER_LIMIT_NEEDS, MUSTER_ELIMIT, many_needs, "schedule 'f': ",
     ": over the needs that one closure may have: 65537 asked for, at most 65536; build one "
     "per-worker value of several"},
    {MST_CLUSTER_LIMIT_PARTS, MUSTER_ELIMIT, many_parts, "schedule 'f': ",
     ": over the parts that a message may have: 65537 asked for, at most 65536; put several of "
     "them into one"},
    {MST_CLUSTER_LIMIT_BYTES, MUSTER_ELIMIT, large_parts, "schedule 'f': ",
     ": over the arguments that a message may have (bytes): 16777221 asked for, at most 16777216; "
     "write them to a file, and give where that is"},
    {MST_CLUSTER_LIMIT_QUEUE, MUSTER_ELIMIT, full_queue, "schedule 'f': over ",
     ": over queue_limit (MUSTER_CLUSTER_QUEUE_LIMIT: queued closures): 4 asked for, at most 3; "
     "wait longer for room, raise it, or start more workers"},
    {MST_CLUSTER_LIMIT_QUEUE, MUSTER_ETIMEDOUT, full_queue_awaited, "schedule 'f': timed out: ",
     ": over queue_limit (MUSTER_CLUSTER_QUEUE_LIMIT: queued closures): 4 asked for, at most 3; "
     "wait longer for room, raise it, or start more workers"},
    {MST_CLUSTER_LIMIT_QUEUE_BYTES, MUSTER_ELIMIT, queue_of_many_bytes, "schedule 'f': over ",
     ": over queue_bytes (MUSTER_CLUSTER_QUEUE_BYTES: their arguments): 120 asked for, at most "
     "100; wait longer for room, raise it, or start more workers"},
    {MST_CLUSTER_LIMIT_QUEUE_BYTES, MUSTER_ETIMEDOUT, queue_of_many_bytes_awaited,
     "schedule 'f': timed out: ",
     ": over queue_bytes (MUSTER_CLUSTER_QUEUE_BYTES: their arguments): 120 asked for, at most "
     "100; wait longer for room, raise it, or start more workers"},
};

static void says(muster_status status, const struct muster_error *err, const struct way *way)
{
    size_t size = strlen(err->text), end = strlen(way->end);

    if (status != way->status || strncmp(err->text, way->what, strlen(way->what)) != 0 ||
        size < end || strcmp(err->text + size - end, way->end) != 0) {
        fail_msg("%s: '%s', not '%s...%s'", muster_status_name(status), err->text, way->what,
                 way->end);
    }
    assert_int_equal(err->status, status);
}

/* A closure has too long a name or key, too many needs or parts, too large arguments, or finds
 * the queue full. The line names the limit, its value, what was asked for, and what to do; also
 * where a wait for room timed out. [cluster / A coordinator and its program] */
static void each_limit_of_a_cluster_is_named(void **state)
{
    struct muster_cluster_options options = MUSTER_CLUSTER_OPTIONS_INIT;
    muster_client *client = library_alone();
    bool covered[MST_CLUSTER_LIMIT_QUEUE_BYTES + 1] = {[MST_CLUSTER_LIMIT_NONE] = true};

    (void)state;
    options.queue_limit = 3;
    options.queue_bytes = 100;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct muster_error err = {0};
        muster_cluster *cluster = NULL;

        library_ok(muster_cluster_open(&cluster, client, &options, LIMIT_MS, &err), &err);
        says(ways[i].go(cluster, &err), &err, &ways[i]);
        covered[ways[i].limit] = true;
        muster_cluster_close(cluster);
    }
    for (size_t i = 0; i < sizeof(covered) / sizeof(covered[0]); i++) {
        assert_true(covered[i]);
    }
    muster_client_close(client);
}

/* ---- the library's own ---- */

static muster_status large_value(muster_client *client, struct muster_error *err)
{
    static const char data[1];

    return muster_key_put(client, "k", (struct muster_slice){.data = data, .size = 1000000000},
                          NULL, LIMIT_MS, NULL, err);
}

static muster_status many_calls(muster_client *client, struct muster_error *err)
{
    enum { MOST = 4000 };
    muster_call **calls = calloc(MOST + 1, sizeof(muster_call *));
    pid_t service = mst_socket_alive(client->addr + strlen("unix:"));
    muster_status status = MUSTER_OK;

    assert_true(calls && kill(service, SIGSTOP) == 0); /* so that they stay open */
    for (size_t i = 0; i <= MOST && status == MUSTER_OK; i++) {
        status = muster_key_add_start(client, "n", 1, NULL, -1, NULL, &calls[i], err);
    }
    assert_int_equal(kill(service, SIGCONT), 0);
    for (size_t i = 0; i < MOST; i++) {
        muster_call_free(calls[i]);
    }
    free(calls);
    return status;
}

static muster_status many_functions(muster_client *client, struct muster_error *err)
{
    muster_client *own = beside(client, MUSTER_ROLE_WORKER);
    muster_worker *worker = NULL;
    muster_status status = muster_worker_open(&worker, own, NULL, err);

    for (uint32_t version = 1; version <= 4097 && status == MUSTER_OK; version++) {
        status = muster_worker_register(worker, "f", version, 0, task, NULL, err);
    }
    muster_worker_close(worker);
    muster_client_close(own);
    return status;
}

static const struct own {
    muster_status (*go)(muster_client *client, struct muster_error *err);
    const char *line;
} own[] = {
    {large_value, "put 'k': 1000000000 bytes, and a message to this service has at most 17825792 "
                  "(--frame-bytes-max of `muster serve`); raise it there, or send less at once"},
    {many_calls, "add to 'n': 4000 calls of this client are open, which is the limit; let some "
                 "end first"},
    {many_functions, "register: over the functions of one worker: 4097 asked for, at most 4096; "
                     "open another worker for the others"},
};

/* A call is over a limit of the library's own. The line has the limit, what was asked for, and
 * what to do. */
static void each_limit_of_the_library_is_named(void **state)
{
    muster_client *client = library_alone();

    (void)state;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        struct muster_error err = {0};

        assert_int_equal(own[i].go(client, &err), MUSTER_ELIMIT);
        assert_string_equal(err.text, own[i].line);
        assert_int_equal(err.status, MUSTER_ELIMIT);
    }
    muster_client_close(client);
}

static int setup(void **state)
{
    return setenv("MUSTER_AGENT", "0", 1) == 0 ? library_stage_setup(state) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_of_the_library_is_named),
        cmocka_unit_test(each_limit_of_a_cluster_is_named),
        cmocka_unit_test(what_the_system_has_none_left_of_is_named),
    };

    return cmocka_run_group_tests(tests, setup, library_stage_teardown);
}
