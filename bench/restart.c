/* SPDX-License-Identifier: Apache-2.0 */
/* A fault of one rank until the function is entered again on the last one, and what lies between:
 *
 *   detect      fault -> the first rank is told
 *   interrupt   -> the last one has left the function
 *   seal        -> the last one has the view of the next generation
 *   enter       -> the last one is in the function again
 *
 *   restart KIND FAULTS RANKS PROGRAM [MIB]   starts PROGRAM (the muster program) run -n RANKS --
 * restart FILE restart FILE                      one of the ranks
 *
 * KIND: exception, the function returns a failure; recv, the same, and all the others are blocked
 * in recv without ever looking up; kill, SIGKILL of a rank that computes and has MIB resident;
 * soft, a rank makes no progress, counted from where its soft timeout has passed; calls, what
 * muster_restart_check and _ping cost, each line per call in ns.
 *
 * All processes share the memory of FILE. A rank writes its own stamps; the first process asks one
 * of them to fail, by a message to its socket, and reads the stamps of all. */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <muster/muster.h>

enum {
    RANKS_MAX = 64,
    KEPT = 16, /* generations */
    CHECK_MS = 100,
    SETTLE_US = 50000, /* until all are blocked where they are to be */
    PATIENCE_MS = 60000,
    SOFT_PATIENCE_MS = 8000, /* beyond the soft timeout */
    SOFT_MS = 1000,
    END_MS = 10000,
    CALLS = 1000, /* of one sample */
    CALL_SAMPLES = 500
};

enum kind { EXCEPTION, RECV, KILL, SOFT, CALL_COSTS, KIND_COUNT };
static const char *const kind_name[] = {"exception", "recv", "kill", "soft", "calls"};

/* What a rank is asked to do. */
enum word { FAIL = 'f', GROW = 'g', STALL = 's', QUIT = 'q' };

/* What one rank says of one generation. */
struct stamps {
    _Atomic uint64_t generation; /* the others below are of this one; 0 while they change */
    _Atomic uint64_t sealed_ns;  /* its view was there; 0: not told */
    _Atomic uint64_t entered_ns; /* fn was called */
    _Atomic uint64_t told_ns;    /* muster said: interrupted */
    _Atomic uint64_t left_ns;    /* fn returns */
};

struct rank_board {
    _Atomic uint64_t pid;
    _Atomic uint64_t generation; /* the newest */
    _Atomic uint32_t size;       /* of that */
    struct stamps kept[KEPT];    /* by generation: none is overwritten before it was read */
};

struct board {
    enum kind kind;
    long mib;
    _Atomic uint64_t fault_ns;
    _Atomic uint32_t ready; /* the victim is big, and computes */
    _Atomic uint32_t stop;
    uint64_t load[CALL_SAMPLES], check[CALL_SAMPLES], ping[CALL_SAMPLES];
    struct rank_board rank[RANKS_MAX];
};

static struct stamps *stamps_of(struct board *board, uint32_t index, uint64_t generation)
{
    return &board->rank[index].kept[generation % KEPT];
}

/* Where a rank is spoken to: a name that needs no file. */
static socklen_t name_of(struct sockaddr_un *name, const char *path, uint32_t index)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int size =
        snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "%s-%u", path, (unsigned)index);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
}

/* ---- one rank ---- */

struct rank {
    struct board *board;
    const char *path;
    muster_client *client;
    int socket; /* -1: not yet */
};

static void open_socket(struct rank *self, uint32_t index)
{
    struct sockaddr_un name;
    socklen_t size = name_of(&name, self->path, index);
    const struct timeval limit = {.tv_usec = CHECK_MS * 1000L};
    if (self->socket >= 0) {
        return;
    }
    self->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (self->socket < 0 || bind(self->socket, (const struct sockaddr *)&name, size) != 0) {
        die("the rank's socket");
    }
    if (self->board->kind != RECV &&
        setsockopt(self->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
        die("SO_RCVTIMEO");
    }
}

static struct stamps *stamps_begin(struct board *board, const struct muster_view *view,
                                   uint64_t sealed)
{
    struct stamps *stamps = stamps_of(board, view->index, view->generation);
    if (atomic_load(&stamps->generation) != view->generation) {
        atomic_store(&stamps->generation, 0);
        atomic_store(&stamps->told_ns, 0);
        atomic_store(&stamps->left_ns, 0);
        atomic_store(&stamps->entered_ns, 0);
        atomic_store(&stamps->sealed_ns, sealed);
        atomic_store(&stamps->generation, view->generation);
    }
    return stamps;
}

/* The first of muster's that runs with the new view. */
static muster_status at_view(muster_restart *restart, void *arg)
{
    const struct rank *self = arg;
    const uint64_t now = now_ns();
    struct muster_view view;
    muster_restart_view(restart, &view);
    stamps_begin(self->board, &view, now);
    return MUSTER_OK;
}

_Noreturn static void compute(struct board *board)
{
    resident_memory(board->mib);
    atomic_store(&board->ready, 1);
    for (volatile uint64_t i = 0;; i++) {
    }
}

static muster_status obey(struct board *board, muster_restart *restart, unsigned word)
{
    switch (word) {
    case FAIL:
        atomic_store(&board->fault_ns, now_ns());
        return MUSTER_EFAILED;
    case GROW:
        compute(board);
    case STALL: {
        atomic_store(&board->fault_ns, now_ns() + (uint64_t)SOFT_MS * 1000000u);
        muster_status status = MUSTER_OK;
        while (status == MUSTER_OK) {
            poll(NULL, 0, -1); /* not a call of muster: no progress */
            status = muster_restart_check(restart);
        }
        return status;
    }
    default:
        return muster_restart_ping(restart);
    }
}

static void measure_calls(struct board *board, muster_restart *restart)
{
    static _Atomic uint32_t word;
    for (size_t i = 0; i < CALL_SAMPLES; i++) {
        uint64_t begin = now_ns();
        for (int call = 0; call < CALLS; call++) {
            (void)atomic_load_explicit(&word, memory_order_relaxed);
        }
        const uint64_t loaded = now_ns();
        bool good = true;
        for (int call = 0; call < CALLS; call++) {
            good = muster_restart_check(restart) == MUSTER_OK && good;
        }
        const uint64_t checked = now_ns();
        for (int call = 0; call < CALLS; call++) {
            good = muster_restart_ping(restart) == MUSTER_OK && good;
        }
        const uint64_t pinged = now_ns();
        if (!good) {
            die("interrupted");
        }
        board->load[i] = loaded - begin;
        board->check[i] = checked - loaded;
        board->ping[i] = pinged - checked;
    }
}

static muster_status work(muster_restart *restart, void *arg)
{
    const uint64_t entered = now_ns();
    struct rank *self = arg;
    struct board *board = self->board;
    struct muster_view view;
    muster_restart_view(restart, &view);
    struct rank_board *mine = &board->rank[view.index];
    struct stamps *stamps = stamps_begin(board, &view, 0);
    if (atomic_load(&stamps->sealed_ns) == 0) { /* nothing of muster's ran between the two */
        atomic_store(&stamps->sealed_ns, entered);
    }
    atomic_store(&stamps->entered_ns, entered);
    if (board->kind == CALL_COSTS) {
        measure_calls(board, restart);
        return MUSTER_OK;
    }
    open_socket(self, view.index);
    muster_status status = muster_restart_ping(restart);
    atomic_store(&mine->pid, (uint64_t)getpid());
    atomic_store(&mine->size, view.size);
    atomic_store(&mine->generation, view.generation);
    while (status == MUSTER_OK && atomic_load(&board->stop) == 0) {
        unsigned char word = 0;
        ssize_t got = recv(self->socket, &word, 1, 0);
        status = obey(board, restart, got == 1 ? word : 0u);
    }
    const uint64_t now = now_ns();
    if (status == MUSTER_EINTERRUPTED) {
        atomic_store(&stamps->told_ns, now);
    }
    atomic_store(&stamps->left_ns, now);
    return status;
}

static int rank_main(const char *path)
{
    struct rank self = {
        .board = shared_file(path, 0, sizeof(struct board)), .path = path, .socket = -1};
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    const struct muster_restart_hook step = {at_view, &self};
    struct muster_error err = {0};
    options.initialize.list = &step;
    options.initialize.count = 1;
    muster_status status = muster_client_open(&self.client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(self.client, &options, work, &self, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "restart: %s\n", err.text);
    }
    muster_client_close(self.client);
    return muster_exit_code(status);
}

/* ---- who lets them fail ---- */

struct job {
    struct board *board;
    const char *path;
    uint32_t ranks;
    pid_t runner;
    int socket;
};

/* False: it did not end by itself. */
static bool runner_ends(const struct job *job, int *status)
{
    const uint64_t deadline = now_ns() + (uint64_t)END_MS * 1000000u;
    while (waitpid(job->runner, status, WNOHANG) == 0) {
        if (now_ns() > deadline) {
            return false;
        }
        pause_us(1000);
    }
    return true;
}

/* Whatever state it is in: nothing is left behind. The ranks die with their agent. */
static void end_runner(const struct job *job)
{
    int status = 0;
    kill(job->runner, SIGTERM);
    if (!runner_ends(job, &status)) {
        kill(job->runner, SIGKILL);
        waitpid(job->runner, &status, 0);
    }
    unlink(job->path);
}

_Noreturn static void give_up(const struct job *job, const char *why)
{
    (void)fprintf(stderr, "restart: %s\n", why);
    end_runner(job);
    exit(1);
}

/* Between two looks at the board. */
static void look_away(const struct job *job, uint64_t deadline, const char *what)
{
    char why[128];
    pause_us(500);
    if (waitpid(job->runner, NULL, WNOHANG) != 0) {
        unlink(job->path);
        (void)fprintf(stderr, "restart: the job has ended early\n");
        exit(1);
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

static void ask(const struct job *job, uint32_t index, enum word word)
{
    const char byte = (char)word;
    struct sockaddr_un name;
    socklen_t size = name_of(&name, job->path, index);
    /* At the end there may be nobody any more. */
    if (sendto(job->socket, &byte, 1, MSG_DONTWAIT, (const struct sockaddr *)&name, size) != 1 &&
        word != QUIT) {
        give_up(job, "the victim cannot be spoken to");
    }
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
        look_away(job, deadline, "a generation of all ranks");
    }
}

enum phase { TOTAL, DETECT, INTERRUPT, SEAL, ENTER, BEYOND, PHASE_COUNT };
static const char *const phase_name[] = {"total", "detect", "interrupt",
                                         "seal",  "enter",  "beyond_return"};

struct samples {
    uint64_t *of[PHASE_COUNT];
    size_t count;
};

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t since(uint64_t begin, uint64_t end)
{
    return end > begin ? end - begin : 0;
}

/* When the phases ended. */
struct ends {
    uint64_t told, left, sealed, entered;
};

/* The first attempt of a rank after this generation; NULL: it is not so far yet. Mostly that is of
 * the next one. But when the replacement of the victim is ready before the last of 64 ranks has
 * entered that, it is over for this one before it began. */
static struct stamps *entered_after(const struct job *job, uint32_t index, uint64_t generation)
{
    for (uint64_t next = generation + 1; next < generation + KEPT; next++) {
        struct stamps *stamps = stamps_of(job->board, index, next);
        if (atomic_load(&stamps->generation) == next && atomic_load(&stamps->entered_ns) != 0) {
            return stamps;
        }
    }
    return NULL;
}

/* False: this rank is not so far yet. */
static bool look_at(const struct job *job, uint32_t index, uint64_t generation, struct ends *ends)
{
    struct stamps *old = stamps_of(job->board, index, generation);
    struct stamps *next = entered_after(job, index, generation);
    const uint64_t told = atomic_load(&old->told_ns);
    const uint64_t left = atomic_load(&old->left_ns);
    if (left == 0 || next == NULL) {
        return false;
    }
    if (told != 0 && (ends->told == 0 || told < ends->told)) {
        ends->told = told;
    }
    ends->left = max(ends->left, left);
    ends->sealed = max(ends->sealed, atomic_load(&next->sealed_ns));
    ends->entered = max(ends->entered, atomic_load(&next->entered_ns));
    return true;
}

/* Whether all are in the next generation; then `samples` has it. */
static bool collect(const struct job *job, uint32_t victim, uint64_t generation,
                    struct samples *samples)
{
    struct ends ends = {.told = 0};
    for (uint32_t i = 0; i < job->ranks; i++) {
        if (i == victim && job->board->kind == KILL) {
            continue;
        }
        if (!look_at(job, i, generation, &ends)) {
            return false;
        }
    }
    const uint64_t fault = atomic_load(&job->board->fault_ns);
    const size_t at = samples->count++;
    samples->of[TOTAL][at] = since(fault, ends.entered);
    samples->of[DETECT][at] = since(fault, ends.told);
    samples->of[INTERRUPT][at] = since(ends.told, ends.left);
    samples->of[SEAL][at] = since(ends.left, ends.sealed);
    samples->of[ENTER][at] = since(ends.sealed, ends.entered);
    samples->of[BEYOND][at] = since(ends.left, ends.entered);
    return true;
}

static void kill_one(const struct job *job, uint32_t victim, uint64_t deadline)
{
    struct board *board = job->board;
    atomic_store(&board->ready, 0);
    ask(job, victim, GROW);
    while (atomic_load(&board->ready) == 0) {
        look_away(job, deadline, "the victim's growth");
    }
    pause_us(SETTLE_US);
    pid_t pid = (pid_t)atomic_load(&board->rank[victim].pid);
    atomic_store(&board->fault_ns, now_ns());
    if (kill(pid, SIGKILL) != 0) {
        give_up(job, "the victim was gone");
    }
}

/* False: the soft timeout was not seen by anybody. */
static bool one_fault(const struct job *job, uint32_t victim, struct samples *samples)
{
    const enum kind kind = job->board->kind;
    const uint64_t generation = await_all(job);
    const uint64_t deadline = patience();
    pause_us(SETTLE_US);
    atomic_store(&job->board->fault_ns, 0);
    if (kind == KILL) {
        kill_one(job, victim, deadline);
    } else {
        ask(job, victim, kind == SOFT ? STALL : FAIL);
    }
    const uint64_t soft = now_ns() + (uint64_t)(SOFT_MS + SOFT_PATIENCE_MS) * 1000000u;
    while (!collect(job, victim, generation, samples)) {
        if (kind == SOFT && now_ns() > soft) {
            return false;
        }
        look_away(job, deadline, "the next generation");
    }
    return true;
}

static pid_t start(const char *self, const char *program, const char *ranks, const struct job *job)
{
    char soft[32];
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        (void)snprintf(soft, sizeof soft, "%dms", SOFT_MS);
        if (job->board->kind == SOFT && setenv("MUSTER_SOFT_TIMEOUT", soft, 1) != 0) {
            die("setenv");
        }
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) {
            _exit(1);
        }
        execl(program, program, "run", "-n", ranks, "--max-restarts", "10000", "--", self,
              job->path, (char *)NULL);
        die(program);
    }
    return child;
}

/* All are told to be done, again and again: one may be between two generations. */
static int finish(const struct job *job)
{
    int status = 0;
    const uint64_t deadline = patience();
    atomic_store(&job->board->stop, 1);
    while (waitpid(job->runner, &status, WNOHANG) == 0) {
        for (uint32_t i = 0; i < job->ranks; i++) {
            ask(job, i, QUIT);
        }
        if (now_ns() > deadline) {
            give_up(job, "the end took too long");
        }
        pause_us(20000);
    }
    unlink(job->path);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

static int run_faults(const struct job *job, size_t faults)
{
    struct samples samples = {.count = 0};
    for (int i = 0; i < PHASE_COUNT; i++) {
        samples.of[i] = calloc(faults, sizeof(uint64_t));
        if (samples.of[i] == NULL) {
            die("calloc");
        }
    }
    for (size_t i = 0; i < faults; i++) {
        if (!one_fault(job, (uint32_t)((7 * i + 3) % job->ranks), &samples)) {
            printf("{\"name\":\"skipped\"}\n");
            (void)fprintf(stderr,
                          "restart: nobody was interrupted within %d s of the soft "
                          "timeout: skipped\n",
                          SOFT_PATIENCE_MS / 1000);
            end_runner(job);
            return 0;
        }
    }
    await_all(job);
    int code = finish(job);
    for (int i = 0; i < PHASE_COUNT; i++) {
        report(phase_name[i], samples.of[i], samples.count);
        free(samples.of[i]);
    }
    return code;
}

static int run_calls(const struct job *job)
{
    int status = 0;
    if (!runner_ends(job, &status)) {
        give_up(job, "the calls took too long");
    }
    unlink(job->path);
    report("load", job->board->load, CALL_SAMPLES);
    report("check", job->board->check, CALL_SAMPLES);
    report("ping", job->board->ping, CALL_SAMPLES);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

static int drive(const char *self, enum kind kind, long faults, char **argument, long mib)
{
    char path[64];
    struct job job = {.path = path};
    long count = 0;
    if (!parse_number(argument[0], &count) || count < (kind == CALL_COSTS ? 1 : 2) ||
        count > RANKS_MAX || faults < 1) {
        return 2;
    }
    (void)snprintf(path, sizeof path, "/dev/shm/muster-bench-restart-%d", (int)getpid());
    job.ranks = (uint32_t)count;
    job.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (job.socket < 0) {
        die("socket");
    }
    job.board = shared_file(path, O_CREAT | O_EXCL, sizeof(struct board));
    job.board->kind = kind;
    job.board->mib = mib;
    job.runner = start(self, argument[1], argument[0], &job);
    return kind == CALL_COSTS ? run_calls(&job) : run_faults(&job, (size_t)faults);
}

int main(int argc, char **argv)
{
    char self[4096] = "";
    long faults = 0;
    long mib = 1;
    int kind = 0;
    if (argc == 2) {
        return rank_main(argv[1]);
    }
    while (argc > 1 && kind < KIND_COUNT && strcmp(argv[1], kind_name[kind]) != 0) {
        kind++;
    }
    if ((argc != 5 && argc != 6) || kind == KIND_COUNT || !parse_number(argv[2], &faults) ||
        (argc == 6 && !parse_number(argv[5], &mib))) {
        (void)fprintf(stderr,
                      "usage: restart exception|recv|kill|soft|calls FAULTS RANKS PROGRAM [MIB]\n");
        return 2;
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        die("/proc/self/exe");
    }
    return drive(self, (enum kind)kind, faults, argv + 3, mib);
}
