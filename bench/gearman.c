/* SPDX-License-Identifier: Apache-2.0 */
/* What closures stand beside: empty jobs of Gearman, by its own C library and its own server, which
 * listens on PORT of loopback.
 *
 *   gearman [-p none|same] rate PORT WORKERS COUNT     jobs per second, all results fetched
 *   gearman [-p none|same] rtt PORT COUNT              one at a time, one worker
 *   gearman [-p none|same] worker PORT                 a worker, until it is ended
 *
 * For the rate, the client has many jobs under way at once on one connection, as its users do that
 * want throughput: add_task, then run_tasks. */
#define _GNU_SOURCE
#include "measure.h"

#include <libgearman/gearman.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS_MAX = 64, BATCH = 1000, WARM = 500, PORT_MAX = 65535 };

static const char *const host = "127.0.0.1";
static const char *const function = "empty";

static void need(bool well, const char *what, const char *why)
{
    if (!well) {
        (void)fprintf(stderr, "gearman: %s: %s\n", what, why == NULL ? "failed" : why);
        exit(1);
    }
}

/* ---- workers ---- */

static gearman_return_t empty(gearman_job_st *job, void *context)
{
    (void)job;
    (void)context;
    return GEARMAN_SUCCESS;
}

_Noreturn static void work(in_port_t port)
{
    gearman_worker_st *worker = gearman_worker_create(NULL);
    need(worker != NULL, "gearman_worker_create", NULL);
    need(gearman_success(gearman_worker_add_server(worker, host, port)),
         "gearman_worker_add_server", gearman_worker_error(worker));
    gearman_function_t call = gearman_function_create(empty);
    need(gearman_success(
             gearman_worker_define_function(worker, function, strlen(function), call, 0, NULL)),
         "gearman_worker_define_function", gearman_worker_error(worker));
    for (;;) {
        need(gearman_success(gearman_worker_work(worker)), "gearman_worker_work",
             gearman_worker_error(worker));
    }
}

static pid_t start_worker(in_port_t port)
{
    const pid_t parent = getpid();
    const pid_t child = fork();
    need(child >= 0, "fork", NULL);
    if (child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
            _exit(1);
        }
        work(port);
    }
    return child;
}

/* ---- the client ---- */

static gearman_client_st *open_client(in_port_t port)
{
    gearman_client_st *client = gearman_client_create(NULL);
    need(client != NULL, "gearman_client_create", NULL);
    need(gearman_success(gearman_client_add_server(client, host, port)),
         "gearman_client_add_server", gearman_client_error(client));
    return client;
}

static void call_one(gearman_client_st *client)
{
    size_t size = 0;
    gearman_return_t status = GEARMAN_UNKNOWN_STATE;
    free(gearman_client_do(client, function, NULL, NULL, 0, &size, &status));
    need(gearman_success(status), "gearman_client_do", gearman_client_error(client));
}

static gearman_return_t completed(gearman_task_st *task)
{
    size_t *count = gearman_task_context(task);
    (*count)++;
    return GEARMAN_SUCCESS;
}

static void call_many(gearman_client_st *client, size_t count)
{
    size_t done = 0;
    for (size_t begun = 0; begun < count;) {
        for (size_t i = 0; i < BATCH && begun < count; i++, begun++) {
            gearman_return_t status = GEARMAN_UNKNOWN_STATE;
            need(gearman_client_add_task(client, NULL, &done, function, NULL, NULL, 0, &status) !=
                         NULL &&
                     gearman_success(status),
                 "gearman_client_add_task", gearman_client_error(client));
        }
        need(gearman_success(gearman_client_run_tasks(client)), "gearman_client_run_tasks",
             gearman_client_error(client));
        gearman_client_task_free_all(client);
    }
    need(done == count, "completed", "not all jobs");
}

static void rate(in_port_t port, size_t count)
{
    gearman_client_st *client = open_client(port);
    gearman_client_set_complete_fn(client, completed);
    call_many(client, count / 10 + 1);
    const uint64_t begin = now_ns();
    call_many(client, count);
    const double seconds = (double)(now_ns() - begin) / 1e9;
    printf("{\"name\":\"rate\",\"n\":%zu,\"per_second\":%.0f}\n", count, (double)count / seconds);
    gearman_client_free(client);
}

static void round_trips(in_port_t port, size_t count)
{
    gearman_client_st *client = open_client(port);
    uint64_t *sample = calloc(count, sizeof *sample);
    need(sample != NULL, "calloc", NULL);
    for (size_t i = 0; i < WARM + count; i++) {
        const uint64_t begin = now_ns();
        call_one(client);
        if (i >= WARM) {
            sample[i - WARM] = now_ns() - begin;
        }
    }
    report("rtt", sample, count);
    free(sample);
    gearman_client_free(client);
}

int main(int argc, char **argv)
{
    pid_t worker[WORKERS_MAX];
    long port = 0;
    long workers = 1;
    long count = 0;
    if (argc >= 3 && strcmp(argv[1], "-p") == 0 && pinning_set(argv[2])) {
        argv += 2;
        argc -= 2;
    }
    const bool rates = argc == 5 && strcmp(argv[1], "rate") == 0;
    const bool alone = argc == 3 && strcmp(argv[1], "worker") == 0;
    if ((!rates && !alone && (argc != 4 || strcmp(argv[1], "rtt") != 0)) ||
        !parse_number(argv[2], &port) || port < 1 || port > PORT_MAX ||
        (rates && (!parse_number(argv[3], &workers) || workers < 1 || workers > WORKERS_MAX)) ||
        (!alone && (!parse_number(argv[argc - 1], &count) || count < 1))) {
        (void)fprintf(stderr, "usage: gearman [-p none|same] rate PORT WORKERS COUNT | rtt PORT "
                              "COUNT | worker PORT\n");
        return 2;
    }
    pin(false);
    if (alone) {
        work((in_port_t)port);
    }
    for (long i = 0; i < workers; i++) {
        worker[i] = start_worker((in_port_t)port);
    }
    (rates ? rate : round_trips)((in_port_t)port, (size_t)count);
    for (long i = 0; i < workers; i++) {
        kill(worker[i], SIGKILL);
        waitpid(worker[i], NULL, 0);
    }
    return 0;
}
