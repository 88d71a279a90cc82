/* SPDX-License-Identifier: Apache-2.0 */
/* SIGKILL of a rank of some size, its main thread computing, until each other rank has been told,
 * and until the last of them is in the next generation.
 *
 *   death MIB KILLS RANKS PROGRAM     starts PROGRAM (the muster program) run -n RANKS -- death
 * FILE death FILE                        one of the ranks
 *
 * All processes share the memory of FILE. The first one chooses a victim, waits until it is big and
 * computes while the others are blocked in a system call, kills it, waits until the others have
 * told when they were told, and until the victim's replacement is there. */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <muster/muster.h>

enum { RANKS_MAX = 64, KEPT = 16, CHECK_MS = 100, PATIENCE_MS = 60000 };

/* What one rank says of one generation. */
struct stamps {
    _Atomic uint64_t generation; /* the others below are of this one; 0 while they change */
    _Atomic uint64_t entered_ns; /* fn was called */
    _Atomic uint64_t running_ns; /* its first step begins: a round with all others is over */
    _Atomic uint64_t told_ns;    /* the blocking call was cut short, and muster says why */
};

struct rank_board {
    _Atomic uint64_t pid;
    _Atomic uint64_t generation; /* the newest */
    _Atomic uint32_t size;       /* of that */
    struct stamps kept[KEPT];    /* by generation: no event is overwritten before it was read */
};

struct board {
    _Atomic int32_t victim; /* index, or -1 */
    _Atomic uint32_t ready; /* the victim is big, and computes */
    _Atomic uint32_t stop;
    long mib;
    struct rank_board rank[RANKS_MAX];
};

static struct stamps *stamps_of(struct board *board, uint32_t index, uint64_t generation)
{
    return &board->rank[index].kept[generation % KEPT];
}

/* ---- one rank ---- */

struct rank {
    struct board *board;
    muster_client *client;
};

_Noreturn static void compute(struct board *board)
{
    resident_memory(board->mib);
    atomic_store(&board->ready, 1);
    for (volatile uint64_t i = 0;; i++) {
    }
}

static muster_status work(muster_restart *restart, void *arg)
{
    struct rank *self = arg;
    struct board *board = self->board;
    struct muster_view view;
    struct muster_error err;
    const uint64_t entered = now_ns();
    muster_restart_view(restart, &view);
    struct rank_board *mine = &board->rank[view.index];
    struct stamps *stamps = stamps_of(board, view.index, view.generation);
    atomic_store(&stamps->generation, 0);
    atomic_store(&stamps->told_ns, 0);
    atomic_store(&stamps->running_ns, 0);
    atomic_store(&stamps->entered_ns, entered);
    atomic_store(&stamps->generation, view.generation);
    muster_status status = muster_barrier_wait(self->client, "begin", -1, &err);
    if (status == MUSTER_OK) {
        atomic_store(&stamps->running_ns, now_ns());
    }
    atomic_store(&mine->pid, (uint64_t)getpid());
    atomic_store(&mine->size, view.size);
    atomic_store(&mine->generation, view.generation);
    while (status == MUSTER_OK && atomic_load(&board->stop) == 0) {
        if (atomic_load(&board->victim) == (int32_t)view.index) {
            compute(board);
        }
        /* The interruption ends it at once. It ends by itself now and then, to let newcomers in and
         * to see whether this is the victim. */
        poll(NULL, 0, CHECK_MS);
        status = muster_restart_check(restart);
    }
    atomic_store(&stamps->told_ns, now_ns());
    return status;
}

static int rank_main(const char *path)
{
    struct rank self = {.board = shared_file(path, 0, sizeof(struct board))};
    struct muster_error err = {0};
    muster_status status = muster_client_open(&self.client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(self.client, NULL, work, &self, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "death: %s\n", err.text);
    }
    muster_client_close(self.client);
    return muster_exit_code(status);
}

/* ---- who kills ---- */

struct job {
    struct board *board;
    const char *path;
    uint32_t ranks;
    pid_t runner;
};

_Noreturn static void give_up(const struct job *job, const char *why)
{
    (void)fprintf(stderr, "death: %s\n", why);
    kill(job->runner, SIGTERM);
    unlink(job->path);
    exit(1);
}

/* Between two looks at the board. */
static void look_away(const struct job *job, uint64_t deadline, const char *what)
{
    char why[128];
    pause_us(500);
    if (waitpid(job->runner, NULL, WNOHANG) != 0) {
        give_up(job, "the job has ended early");
    }
    if (now_ns() > deadline) {
        (void)snprintf(why, sizeof why, "%s took longer than %d s", what, PATIENCE_MS / 1000);
        give_up(job, why);
    }
}

static uint64_t patience(void)
{
    return now_ns() + (uint64_t)PATIENCE_MS * 1000000u;
}

/* Waits until all ranks are in one generation; returns it. */
static uint64_t await_all(const struct job *job)
{
    const uint64_t deadline = patience();
    for (;;) {
        uint64_t generation = atomic_load(&job->board->rank[0].generation);
        bool all = generation != 0;
        for (uint32_t i = 0; i < job->ranks; i++) {
            const struct rank_board *rank = &job->board->rank[i];
            all = all && atomic_load(&rank->generation) == generation &&
                  atomic_load(&rank->size) == job->ranks;
        }
        if (all) {
            return generation;
        }
        look_away(job, deadline, "the start of the ranks");
    }
}

struct samples {
    uint64_t *told;              /* of each survivor of each kill */
    uint64_t *entered, *running; /* of the last survivor */
    uint64_t *beyond_return;     /* running, since the last one had returned from fn */
    size_t told_count, count;
};

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Whether every survivor has told of both generations; then `samples` has it. */
static bool collect(const struct job *job, uint32_t victim, uint64_t generation, uint64_t begin,
                    struct samples *samples)
{
    uint64_t told[RANKS_MAX];
    size_t count = 0;
    uint64_t last_told = 0;
    uint64_t entered = 0;
    uint64_t running = 0;
    for (uint32_t i = 0; i < job->ranks; i++) {
        const struct stamps *old = stamps_of(job->board, i, generation);
        const struct stamps *next = stamps_of(job->board, i, generation + 1);
        if (i == victim) {
            continue;
        }
        told[count] = atomic_load(&old->told_ns);
        if (told[count] == 0 || atomic_load(&next->generation) != generation + 1 ||
            atomic_load(&next->running_ns) == 0) {
            return false;
        }
        last_told = max(last_told, told[count++]);
        entered = max(entered, atomic_load(&next->entered_ns));
        running = max(running, atomic_load(&next->running_ns));
    }
    for (size_t i = 0; i < count; i++) {
        samples->told[samples->told_count++] = told[i] - begin;
    }
    samples->entered[samples->count] = entered - begin;
    samples->running[samples->count] = running - begin;
    samples->beyond_return[samples->count++] = running - last_told;
    return true;
}

static void one_kill(const struct job *job, uint32_t victim, struct samples *samples)
{
    struct board *board = job->board;
    const uint64_t deadline = patience();
    const uint64_t generation = await_all(job);
    atomic_store(&board->ready, 0);
    atomic_store(&board->victim, (int32_t)victim);
    while (atomic_load(&board->ready) == 0) {
        look_away(job, deadline, "the victim's growth");
    }
    atomic_store(&board->victim, -1);
    pause_us(20000);
    pid_t pid = (pid_t)atomic_load(&board->rank[victim].pid);
    const uint64_t begin = now_ns();
    if (kill(pid, SIGKILL) != 0) {
        give_up(job, "the victim was gone");
    }
    while (!collect(job, victim, generation, begin, samples)) {
        look_away(job, deadline, "the next generation");
    }
}

static pid_t start(const char *self, const char *program, const char *ranks, const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, "run", "-n", ranks, "--max-restarts", "10000", "--", self, path,
              (char *)NULL);
        die(program);
    }
    return child;
}

static uint64_t *room(size_t count)
{
    uint64_t *memory = calloc(count, sizeof *memory);
    if (memory == NULL) {
        die("calloc");
    }
    return memory;
}

static int drive(const char *self, long mib, long kills, const char *ranks, const char *program)
{
    char path[64];
    struct job job = {.path = path};
    long count = 0;
    int status = 0;
    if (!parse_number(ranks, &count) || count < 2 || count > RANKS_MAX || kills < 1) {
        return 2;
    }
    (void)snprintf(path, sizeof path, "/dev/shm/muster-bench-%d", (int)getpid());
    job.ranks = (uint32_t)count;
    job.board = shared_file(path, O_CREAT | O_EXCL, sizeof(struct board));
    job.board->mib = mib;
    atomic_store(&job.board->victim, -1);
    job.runner = start(self, program, ranks, path);

    const size_t total = (size_t)kills;
    struct samples samples = {.told = room(total * job.ranks),
                              .entered = room(total),
                              .running = room(total),
                              .beyond_return = room(total)};
    for (size_t i = 0; i < total; i++) {
        one_kill(&job, (uint32_t)((7 * i + 3) % job.ranks), &samples);
    }
    await_all(&job);
    atomic_store(&job.board->stop, 1);
    waitpid(job.runner, &status, 0);
    unlink(path);
    report("told", samples.told, samples.told_count);
    report("entered", samples.entered, samples.count);
    report("running", samples.running, samples.count);
    report("beyond_return", samples.beyond_return, samples.count);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    long mib = 0;
    long kills = 0;
    if (argc == 2) {
        return rank_main(argv[1]);
    }
    if (argc != 5 || !parse_number(argv[1], &mib) || !parse_number(argv[2], &kills)) {
        (void)fprintf(stderr, "usage: death MIB KILLS RANKS PROGRAM\n");
        return 2;
    }
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        die("/proc/self/exe");
    }
    return drive(self, mib, kills, argv[3], argv[4]);
}
