/* SPDX-License-Identifier: Apache-2.0 */
/* As masks_test: the signal mask of the caller is what it was. Here of what a service starts for
 * itself, what the agent looks for notices with and ends by, what a client looks a host up with,
 * and what a worker runs functions in.
 *
 * behaviour: run / Descriptors and signals */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failing_mem.h"
#include "launch/job.h"
#include "library_stage.h"
#include "muster/cluster.h"
#include "muster/worker.h"
#include "net/lookup.h"
#include "own_mask.h"
#include "service/journal/journal.h"
#include "service/server/http.h"
#include "service/server/journal_disk.h"
#include "service/server/journal_folder.h"
#include "service/server/record_file.h"
#include "sources/shell/sources.h"

static int setup(void **state)
{
    /* The launcher of the tests may ignore signals, and programs would inherit that. */
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL);
    }
    own_mask_set();
    return setenv("MUSTER_AGENT", "0", 1) == 0 ? library_stage_setup(state) : -1;
}

/* ---- the service ---- */

static int listening(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(fd, SOMAXCONN), 0);
    return fd;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* The thread that serves HTTP is started with signals blocked for that moment. The signal mask
 * of its caller is what it was. */
static void what_serves_http(void **state)
{
    struct mst_http_config config = {.fd = listening(), .connections_max = 100, .wake = nothing};
    struct muster_error err;
    struct mst_http *http;

    (void)state;
    library_ok(mst_http_open(&http, &config, &err), &err);
    own_mask_assert("mst_http_open");
    mst_http_close(http);
    own_mask_assert("mst_http_close");
    (void)close(config.fd);
}

/* The thread that writes a record is started. The signal mask of its caller is what it was. */
static void what_writes_a_record(void **state)
{
    char folder[] = "/tmp/muster-masks-XXXXXX";
    struct mst_record_file *file;
    struct muster_error err;

    (void)state;
    assert_non_null(mkdtemp(folder));
    library_ok(mst_record_file_open(&file, folder, &err), &err);
    own_mask_assert("mst_record_file_open");
    assert_true(mst_record_file_finish(file));
    assert_int_equal(unlink(mst_record_file_path(file)), 0);
    mst_record_file_free(file);
    own_mask_assert("mst_record_file_free");
    assert_int_equal(rmdir(folder), 0);
}

static muster_status write_snapshot(void *journal)
{
    return mst_journal_snapshot_write(journal);
}

/* The process that writes a snapshot is started. The signal mask of its caller is what it was. */
static void what_writes_a_snapshot(void **state)
{
    const struct mst_journal_config config = {
        .core = {.lease_ns = 10000000000u, .limits = mst_limits_default}, .version = "0.1.0"};
    char parent[] = "/tmp/muster-masks-XXXXXX", folder[64];
    struct mst_journal_disk *disk;
    struct mst_journal *journal;
    struct failing_mem mem;
    struct mst_core *core;
    struct muster_error err;
    pid_t child;
    int end;

    (void)state;
    assert_non_null(mkdtemp(parent));
    (void)snprintf(folder, sizeof folder, "%s/journal", parent);
    failing_mem_init(&mem, 0);
    library_ok(mst_journal_disk_open(&disk, folder, false, &err), &err);
    library_ok(
        mst_journal_open(&journal, &core, mst_journal_disk_of(disk), &config, &mem.mem, &err),
        &err);
    assert_true(mst_journal_snapshot_begin(journal));
    assert_true(mst_journal_disk_fork(disk, write_snapshot, journal, &child, &end));
    own_mask_assert("mst_journal_disk_fork");
    mst_journal_snapshot_end(journal, mst_journal_disk_reap(child, end, false));
    mst_core_free(core);
    mst_journal_free(journal);
    mst_journal_disk_close(disk);
    mst_journal_folder_remove(folder, NULL);
    assert_int_equal(rmdir(parent), 0);
}

/* ---- the agent ---- */

/* The thread that looks for notices is started. The signal mask of its caller is what it was. */
static void what_looks_for_notices(void **state)
{
    const struct mst_sources_options options = {
        .list = "file=/nonexistent/stop", .period_ms = 1000, .told = nothing};
    struct mst_sources *sources;
    char why[400] = "";

    (void)state;
    if (mst_sources_open(&sources, &options, why, sizeof why) != MUSTER_OK) {
        fail_msg("%s", why);
    }
    own_mask_assert("mst_sources_open");
    mst_sources_close(sources);
    own_mask_assert("mst_sources_close");
}

/* All have saved, and a notice comes while the run ends. It does not end the run; the signal
 * mask is what it was afterwards. */
static void what_keeps_the_notice_from_the_end_of_a_run(void **state)
{
    struct mst_run_options options = {.preempt_signals = UINT64_C(1) << (SIGTERM - 1)};
    struct mst_run_job *job = calloc(1, sizeof *job);
    struct sigaction now;

    (void)state;
    assert_non_null(job);
    job->options = &options;
    job->preempted.saving.complete.there = true;
    mst_preempted_settle(job);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(sigaction(SIGTERM, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
    mst_preempted_settled(job); /* it is let in */
    own_mask_assert("mst_preempted_settled");
    (void)signal(SIGTERM, SIG_DFL);
    free(job);
}

/* ---- the library ---- */

/* The thread that looks up a host is started. The signal mask of its caller is what it was. */
static void what_looks_a_host_up(void **state)
{
    struct mst_address address = {.host = "localhost"};
    struct mst_lookup *lookup = mst_lookup_start(&address);
    struct pollfd over;

    (void)state;
    assert_non_null(lookup);
    own_mask_assert("mst_lookup_start");
    over = (struct pollfd){.fd = mst_lookup_fd(lookup), .events = POLLIN};
    assert_int_equal(poll(&over, 1, LIMIT_MS), 1);
    mst_lookup_drop(lookup);
}

static muster_status looks(muster_task *task, void *arg)
{
    bool stands = own_mask_stands();

    (void)arg;
    return muster_task_add(task, stands ? "its own" : "another", 7, 0);
}

struct served {
    pthread_t thread;
    muster_worker *worker;
    muster_status status;
    struct muster_error err;
    bool stands; /* its mask, afterwards */
};

static void *serve(void *ctx)
{
    struct served *served = ctx;

    served->status = muster_worker_serve(served->worker, &served->err);
    served->stands = own_mask_stands();
    return NULL;
}

static muster_worker *worker_of(muster_client *client)
{
    static const char *const blocked[] = {"grep", "^SigBlk", "/proc/self/status", NULL};
    struct muster_worker_options options = MUSTER_WORKER_OPTIONS_INIT;
    struct muster_error err;
    muster_worker *worker;

    options.signals = "";
    library_ok(muster_worker_open(&worker, client, &options, &err), &err);
    library_ok(muster_worker_register(worker, "here", 1, 0, looks, NULL, &err), &err);
    library_ok(muster_worker_register(worker, "child", 1, MUSTER_FUNCTION_CHILD, looks, NULL, &err),
               &err);
    library_ok(muster_worker_register_command(worker, "command", 1, 0, blocked, NULL, &err), &err);
    return worker;
}

static void assert_value(muster_cluster *cluster, const char *function, const char *expected)
{
    const struct muster_part *parts;
    struct muster_error err;
    muster_closure *closure;
    char value[128] = "";
    size_t count;

    library_ok(muster_cluster_schedule(cluster, function, NULL, 0, NULL, LIMIT_MS, &closure, &err),
               &err);
    library_ok(muster_closure_fetch(closure, LIMIT_MS, &parts, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_true(parts->size < sizeof value);
    memcpy(value, parts->data, parts->size);
    if (strcmp(value, expected) != 0) {
        fail_msg("%s: %s", function, value);
    }
    muster_closure_release(closure);
}

/* The threads that run the functions of a worker are started. The signal mask of their caller is
 * what it was. */
static void what_runs_the_functions_of_a_worker(void **state)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *rank = library_alone(), *client;
    struct served served = {0};
    struct muster_error err;
    muster_cluster *cluster;

    (void)state;
    options.addr = rank->addr;
    options.job = rank->job;
    options.role = MUSTER_ROLE_WORKER;
    options.index = MUSTER_INDEX_ANY;
    client = library_open(&options);
    served.worker = worker_of(client);
    library_ok(muster_cluster_open(&cluster, rank, NULL, LIMIT_MS, &err), &err);
    assert_int_equal(pthread_create(&served.thread, NULL, serve, &served), 0);
    assert_value(cluster, "here", "its own");
    assert_value(cluster, "child", "its own");
    assert_value(cluster, "command", "SigBlk:\t0000000000000000\n");
    muster_worker_drain(served.worker);
    assert_int_equal(pthread_join(served.thread, NULL), 0);
    library_ok(served.status, &served.err);
    assert_true(served.stands);
    muster_worker_close(served.worker);
    muster_cluster_close(cluster);
    muster_client_close(client);
    muster_client_close(rank);
    own_mask_assert("all was closed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_serves_http),
        cmocka_unit_test(what_writes_a_record),
        cmocka_unit_test(what_writes_a_snapshot),
        cmocka_unit_test(what_looks_for_notices),
        cmocka_unit_test(what_keeps_the_notice_from_the_end_of_a_run),
        cmocka_unit_test(what_looks_a_host_up),
        cmocka_unit_test(what_runs_the_functions_of_a_worker),
    };

    return cmocka_run_group_tests(tests, setup, library_stage_teardown);
}
