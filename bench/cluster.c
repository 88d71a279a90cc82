/* SPDX-License-Identifier: Apache-2.0 */
/* Closures: a job of a coordinator and workers, all started by `muster run`.
 *
 *   cluster [-p none|same] rate PROGRAM WORKERS COUNT    empty ones per second, results fetched
 *   cluster [-p none|same] rtt PROGRAM COUNT             one at a time, one worker
 *   cluster queued PROGRAM COUNT                         memory of each, while nobody works
 *   cluster takeover PROGRAM WORKERS KILLS               SIGKILL of a worker -> its closure runs
 *                                                        elsewhere
 *   cluster FILE                                         one process of the job
 *
 * PROGRAM is the muster program. All processes share the memory of FILE. Process 0 is the
 * coordinator, which measures; when it has finished, the job is ended from outside. */
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <muster/muster.h>
#include <muster/worker.h>

enum { WARM = 500, BATCH = 1000, ARGUMENT_BYTES = 64, PATIENCE_MS = 60000, LOOK_US = 200 };

enum kind { RATE, RTT, QUEUED, TAKEOVER, KIND_COUNT };

static const char *const kind_name[KIND_COUNT] = {"rate", "rtt", "queued", "takeover"};

struct board {
    enum kind kind;
    long workers, count;
    _Atomic uint32_t finished; /* the coordinator has its figures */
    /* of the closure that holds its worker */
    _Atomic uint64_t held_pid, held_ns; /* who runs it, and since when */
    _Atomic uint32_t starts;            /* how often it began */
    _Atomic uint32_t let_go;
};

static struct board *board;

static void need(muster_status status, const struct muster_error *err)
{
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "cluster: %s\n", err->text);
        exit(1);
    }
}

/* ---- workers ---- */

static muster_status empty(muster_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return MUSTER_OK;
}

static muster_status hold(muster_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&board->held_ns, now_ns());
    atomic_store(&board->held_pid, (uint64_t)getpid());
    atomic_fetch_add(&board->starts, 1);
    while (atomic_load(&board->let_go) == 0) {
        pause_us(LOOK_US);
    }
    return MUSTER_OK;
}

static void work(muster_client *client)
{
    muster_worker *worker = NULL;
    struct muster_error err = {0};
    need(muster_worker_open(&worker, client, NULL, &err), &err);
    need(muster_worker_register(worker, "empty", 1, 0, empty, NULL, &err), &err);
    need(muster_worker_register(worker, "hold", 1, 0, hold, NULL, &err), &err);
    need(muster_worker_serve(worker, &err), &err);
    muster_worker_close(worker);
}

/* ---- the coordinator ---- */

static void await_workers(muster_cluster *cluster)
{
    struct muster_cluster_counts counts = MUSTER_CLUSTER_COUNTS_INIT;
    const uint64_t deadline = now_ns() + (uint64_t)PATIENCE_MS * 1000000u;
    do {
        pause_us(1000);
        muster_cluster_look(cluster, &counts);
        if (now_ns() > deadline) {
            (void)fprintf(stderr, "cluster: the workers did not come\n");
            exit(1);
        }
    } while (counts.workers_present < (uint32_t)board->workers);
}

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) {
        die("calloc");
    }
    return memory;
}

static void admit(muster_cluster *cluster, const struct muster_closure_call *call, size_t count,
                  muster_closure **out)
{
    static struct muster_closure_call calls[BATCH];
    struct muster_error err = {0};
    for (size_t i = 0; i < BATCH; i++) {
        calls[i] = *call;
    }
    for (size_t begun = 0; begun < count;) {
        size_t admitted = 0;
        const size_t some = count - begun < BATCH ? count - begun : BATCH;
        need(muster_cluster_schedule_many(cluster, calls, some, -1, out ? out + begun : NULL,
                                          &admitted, &err),
             &err);
        begun += admitted;
    }
}

static void call_many(muster_cluster *cluster, size_t count)
{
    const struct muster_closure_call call = {.function = "empty"};
    struct muster_error err = {0};
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): handles */
    muster_closure **closure = room(count, sizeof *closure);
    admit(cluster, &call, count, closure);
    for (size_t i = 0; i < count; i++) {
        const struct muster_part *part = NULL;
        size_t parts = 0;
        need(muster_closure_fetch(closure[i], -1, &part, &parts, &err), &err);
        muster_closure_release(closure[i]);
    }
    free(closure);
}

static void rate(muster_cluster *cluster)
{
    const size_t count = (size_t)board->count;
    await_workers(cluster);
    call_many(cluster, count / 10 + 1);
    const uint64_t begin = now_ns();
    call_many(cluster, count);
    const double seconds = (double)(now_ns() - begin) / 1e9;
    printf("{\"name\":\"rate\",\"n\":%zu,\"per_second\":%.0f}\n", count, (double)count / seconds);
}

static void round_trips(muster_cluster *cluster)
{
    const size_t count = (size_t)board->count;
    uint64_t *sample = room(count, sizeof *sample);
    struct muster_error err = {0};
    await_workers(cluster);
    for (size_t i = 0; i < WARM + count; i++) {
        muster_closure *closure = NULL;
        const struct muster_part *part = NULL;
        size_t parts = 0;
        const uint64_t begin = now_ns();
        need(muster_cluster_schedule(cluster, "empty", NULL, 0, NULL, -1, &closure, &err), &err);
        need(muster_closure_fetch(closure, -1, &part, &parts, &err), &err);
        if (i >= WARM) {
            sample[i - WARM] = now_ns() - begin;
        }
        muster_closure_release(closure);
    }
    report("rtt", sample, count);
    free(sample);
}

/* Memory of this process, in bytes. */
static uint64_t resident(void)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "Pss:", 4) == 0) {
            kib = strtoull(line + 4, NULL, 10);
        }
    }
    if (file == NULL || kib == 0) {
        die("/proc/self/smaps_rollup");
    }
    (void)fclose(file);
    return kib << 10;
}

static void queued(muster_cluster *cluster)
{
    static const char argument[ARGUMENT_BYTES];
    const struct muster_part part = {.data = argument, .size = sizeof argument};
    const struct muster_closure_call call = {.function = "empty", .parts = &part, .count = 1};
    const size_t count = (size_t)board->count;
    admit(cluster, &call, BATCH, NULL); /* what the first ones need beside themselves */
    const uint64_t before = resident();
    const uint64_t begin = now_ns();
    admit(cluster, &call, count, NULL);
    const double seconds = (double)(now_ns() - begin) / 1e9;
    printf("{\"name\":\"queued\",\"n\":%zu,\"bytes\":%.1f,\"per_second\":%.0f}\n", count,
           (double)(resident() - before) / (double)count - ARGUMENT_BYTES, (double)count / seconds);
}

static void await_start(uint32_t starts)
{
    const uint64_t deadline = now_ns() + (uint64_t)PATIENCE_MS * 1000000u;
    while (atomic_load(&board->starts) < starts) {
        pause_us(LOOK_US);
        if (now_ns() > deadline) {
            (void)fprintf(stderr, "cluster: the closure did not begin\n");
            exit(1);
        }
    }
}

static void takeover(muster_cluster *cluster)
{
    const size_t count = (size_t)board->count;
    uint64_t *sample = room(count, sizeof *sample);
    struct muster_error err = {0};
    for (size_t i = 0; i < count; i++) {
        await_workers(cluster);
        const uint32_t starts = atomic_load(&board->starts);
        muster_closure *closure = NULL;
        atomic_store(&board->let_go, 0);
        need(muster_cluster_schedule(cluster, "hold", NULL, 0, NULL, -1, &closure, &err), &err);
        await_start(starts + 1);
        pause_us(20000);
        const pid_t victim = (pid_t)atomic_load(&board->held_pid);
        const uint64_t begin = now_ns();
        if (kill(victim, SIGKILL) != 0) {
            die("kill");
        }
        await_start(starts + 2);
        sample[i] = atomic_load(&board->held_ns) - begin;
        atomic_store(&board->let_go, 1);
        need(muster_closure_wait(closure, -1, &err), &err);
        muster_closure_release(closure);
    }
    report("takeover", sample, count);
    free(sample);
}

static void coordinate(muster_client *client)
{
    static void (*const measure[KIND_COUNT])(muster_cluster *) = {rate, round_trips, queued,
                                                                  takeover};
    struct muster_cluster_options options = MUSTER_CLUSTER_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_cluster *cluster = NULL;
    options.queue_limit = 2000000;
    need(muster_cluster_open(&cluster, client, &options, PATIENCE_MS, &err), &err);
    measure[board->kind](cluster);
    (void)fflush(stdout);
    atomic_store(&board->finished, 1);
    for (;;) { /* until the job is ended: to take a million back is not measured */
        pause_us(1000000);
    }
}

static int member(const char *path)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    struct muster_view me;
    muster_client *client = NULL;
    board = shared_file(path, 0, sizeof *board);
    options.role = MUSTER_ROLE_WORKER;
    need(muster_client_open(&client, &options, PATIENCE_MS, &err), &err);
    muster_client_view(client, &me);
    if (me.index == 0) {
        coordinate(client);
    }
    work(client);
    muster_client_close(client);
    return 0;
}

/* ---- who starts the job ---- */

static pid_t start(const char *self, const char *program, const char *path)
{
    char processes[32];
    const pid_t parent = getpid();
    (void)snprintf(processes, sizeof processes, "%ld", board->workers + 1);
    const pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) {
            _exit(1);
        }
        execl(program, program, "run", "-n", processes, "--max-restarts", "10000", "--no-label",
              "--", self, path, (char *)NULL);
        die(program);
    }
    return child;
}

static int drive(const char *self, const char *program)
{
    char path[64];
    const struct board wanted = *board;
    (void)snprintf(path, sizeof path, "/dev/shm/muster-bench-cluster-%d", (int)getpid());
    board = shared_file(path, O_CREAT | O_EXCL, sizeof *board);
    board->kind = wanted.kind;
    board->workers = wanted.workers;
    board->count = wanted.count;
    pin(false);
    const pid_t runner = start(self, program, path);
    while (atomic_load(&board->finished) == 0 && waitpid(runner, NULL, WNOHANG) == 0) {
        pause_us(5000);
    }
    const bool finished = atomic_load(&board->finished) != 0;
    if (finished) {
        kill(runner, SIGTERM);
        waitpid(runner, NULL, 0);
    }
    unlink(path);
    return finished ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct board wanted = {.workers = 1};
    char self[4096] = "";
    int kind = 0;
    if (argc == 2) {
        return member(argv[1]);
    }
    if (argc >= 3 && strcmp(argv[1], "-p") == 0 && pinning_set(argv[2])) {
        argv += 2;
        argc -= 2;
    }
    while (argc > 1 && kind < KIND_COUNT && strcmp(argv[1], kind_name[kind]) != 0) {
        kind++;
    }
    const bool workers = kind == RATE || kind == TAKEOVER;
    wanted.kind = (enum kind)kind;
    wanted.workers = kind == QUEUED ? 0 : 1;
    if (kind == KIND_COUNT || argc != (workers ? 5 : 4) ||
        (workers && !parse_number(argv[3], &wanted.workers)) ||
        !parse_number(argv[argc - 1], &wanted.count) || wanted.count < 1) {
        (void)fprintf(stderr, "usage: cluster [-p none|same] rate PROGRAM WORKERS COUNT | rtt "
                              "PROGRAM COUNT | queued PROGRAM COUNT | takeover PROGRAM WORKERS "
                              "KILLS\n");
        return 2;
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        die("/proc/self/exe");
    }
    board = &wanted;
    return drive(self, argv[2]);
}
