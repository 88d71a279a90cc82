/* SPDX-License-Identifier: Apache-2.0 */
/* From a notice until the last rank knows the step that all save, and what the call of each step
 * costs.
 *
 *   preempt calls 1 1 PROGRAM             per 1,000 calls: a relaxed load, muster_preempt_reached
 *   preempt agree NOTICES RANKS PROGRAM   starts PROGRAM (the muster program) run -n RANKS --
 * preempt FILE preempt FILE               one of the ranks
 *
 * All processes share the memory of FILE. Rank 0 gives the notices; each rank stamps the moment at
 * which its library says that a step is agreed, on whichever thread hears it. Then all report the
 * save, so that the next notice is another one. */
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <muster/muster.h>

enum {
    RANKS_MAX = 64,
    NOTICES_MAX = 1000,
    SETTLE_US = 30000, /* until all wait where they are to wait */
    PATIENCE_MS = 60000,
    NOTICE_MS = 600000,
    LOOK_MS = 30,
    CALLS = 1000, /* of one sample */
    CALL_SAMPLES = 500
};

struct board {
    bool calls;
    uint32_t ranks, notices;
    _Atomic uint32_t notice;              /* that is measured, from 1 */
    _Atomic uint64_t known_ns[RANKS_MAX]; /* 0: not yet */
    uint64_t took_ns[NOTICES_MAX];
    uint64_t load[CALL_SAMPLES], reached[CALL_SAMPLES];
};

struct rank {
    struct board *board;
    muster_client *client;
    muster_preempt *preempt;
    struct muster_view view;
};

static void ok(muster_status status, const struct muster_error *err)
{
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "preempt: %s\n", err->text);
        exit(1);
    }
}

/* ---- one rank ---- */

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    const uint64_t now = now_ns();
    const struct rank *self = ctx;
    if (level == MUSTER_LEVEL_DEBUG && strstr(line, "to be saved here") != NULL) {
        atomic_store(&self->board->known_ns[self->view.rank], now);
    } else if (level <= MUSTER_LEVEL_WARN) {
        (void)fprintf(stderr, "preempt: %s\n", line);
    }
}

static void meet(const struct rank *self, const char *name)
{
    struct muster_error err;
    ok(muster_barrier_wait(self->client, name, PATIENCE_MS, &err), &err);
}

static bool all_know(const struct board *board)
{
    for (uint32_t i = 0; i < board->ranks; i++) {
        if (atomic_load(&board->known_ns[i]) == 0) {
            return false;
        }
    }
    return true;
}

/* Blocks in the library, as the others do, and so drives the connection. */
static void wait_a_moment(const struct rank *self)
{
    muster_value *value = NULL;
    struct muster_error err;
    if (muster_key_get(self->client, "nobody/writes/this", NULL, LOOK_MS, &value, &err) !=
        MUSTER_ETIMEDOUT) {
        die("the wait for a key that nobody writes");
    }
}

/* Rank 0: the others wait for it in a barrier, and whoever waits drives. */
static void give_notice(const struct rank *self, uint32_t i)
{
    struct board *board = self->board;
    const uint32_t noticed = board->ranks - 1 - i % board->ranks; /* one that has no notice yet */
    struct muster_error err;
    uint64_t last = 0;
    pause_us(SETTLE_US);
    for (uint32_t rank = 0; rank < board->ranks; rank++) {
        atomic_store(&board->known_ns[rank], 0);
    }
    const uint64_t begin = now_ns();
    ok(muster_preempt_announce(self->client, noticed, NOTICE_MS, "measured", &err), &err);
    while (!all_know(board)) {
        if (now_ns() > begin + (uint64_t)PATIENCE_MS * 1000000u) {
            die("not all know the step");
        }
        wait_a_moment(self);
    }
    for (uint32_t rank = 0; rank < board->ranks; rank++) {
        const uint64_t known = atomic_load(&board->known_ns[rank]);
        last = known > last ? known : last;
    }
    board->took_ns[i] = last - begin;
}

static void one_notice(const struct rank *self, uint32_t i)
{
    struct muster_error err;
    int64_t step = 10 * (int64_t)i;
    if (self->view.rank == 0) {
        give_notice(self, i);
    }
    meet(self, "known");
    while (muster_preempt_reached(self->preempt, step) == MUSTER_GO_ON) {
        step++;
    }
    muster_status status = muster_preempt_saved(self->preempt, step, PATIENCE_MS, &err);
    if (status != MUSTER_OK && status != MUSTER_EPREEMPTED) {
        ok(status, &err);
    }
    meet(self, "saved");
}

static void measure_calls(const struct rank *self)
{
    static _Atomic uint32_t word;
    struct board *board = self->board;
    int64_t step = 0;
    for (size_t i = 0; i < CALL_SAMPLES; i++) {
        const uint64_t begin = now_ns();
        for (int call = 0; call < CALLS; call++) {
            (void)atomic_load_explicit(&word, memory_order_relaxed);
        }
        const uint64_t loaded = now_ns();
        bool good = true;
        for (int call = 0; call < CALLS; call++) {
            good = muster_preempt_reached(self->preempt, step++) == MUSTER_GO_ON && good;
        }
        const uint64_t reached = now_ns();
        if (!good) {
            die("a notice");
        }
        board->load[i] = loaded - begin;
        board->reached[i] = reached - loaded;
    }
}

static int rank_main(const char *path)
{
    struct rank self = {.board = shared_file(path, 0, sizeof(struct board))};
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_preempt_options preempt = MUSTER_PREEMPT_OPTIONS_INIT;
    struct muster_error err;
    options.log = on_log;
    options.log_ctx = &self;
    preempt.leave = MUSTER_PREEMPT_LEAVE_NOTICED;
    preempt.agree_timeout_ms = PATIENCE_MS;
    ok(muster_client_open(&self.client, &options, -1, &err), &err);
    muster_client_view(self.client, &self.view);
    ok(muster_preempt_open(&self.preempt, self.client, &preempt, &err), &err);
    if (self.board->calls) {
        measure_calls(&self);
    } else {
        meet(&self, "begin");
        for (uint32_t i = 0; i < self.board->notices; i++) {
            one_notice(&self, i);
        }
    }
    muster_preempt_close(self.preempt);
    muster_client_close(self.client);
    return 0;
}

/* ---- who starts them ---- */

static pid_t start(const char *self, const char *program, const char *ranks, const char *path)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) {
            _exit(1);
        }
        execl(program, program, "run", "-n", ranks, "--max-restarts", "0", "--", self, path,
              (char *)NULL);
        die(program);
    }
    return child;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: preempt calls|agree NOTICES RANKS PROGRAM\n");
    return 2;
}

int main(int argc, char **argv)
{
    char self[4096] = "";
    char path[64];
    long notices = 0;
    long ranks = 0;
    int status = 0;
    if (argc == 2) {
        return rank_main(argv[1]);
    }
    if (argc != 5 || !parse_number(argv[2], &notices) || !parse_number(argv[3], &ranks) ||
        notices < 1 || notices > NOTICES_MAX || ranks < 1 || ranks > RANKS_MAX ||
        (strcmp(argv[1], "calls") != 0 && strcmp(argv[1], "agree") != 0)) {
        return usage();
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        die("/proc/self/exe");
    }
    (void)snprintf(path, sizeof path, "/dev/shm/muster-bench-preempt-%d", (int)getpid());
    struct board *board = shared_file(path, O_CREAT | O_EXCL, sizeof(struct board));
    board->calls = strcmp(argv[1], "calls") == 0;
    board->ranks = (uint32_t)ranks;
    board->notices = (uint32_t)notices;
    pid_t runner = start(self, argv[4], argv[3], path);
    bool ended = waitpid(runner, &status, 0) == runner;
    unlink(path);
    /* A run that was saved by all ends with 75, whatever became of it afterwards. */
    if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != (board->calls ? 0 : 75)) {
        (void)fprintf(stderr, "preempt: the job failed\n");
        return 1;
    }
    if (board->calls) {
        report("load", board->load, CALL_SAMPLES);
        report("reached", board->reached, CALL_SAMPLES);
    } else {
        report("known", board->took_ns, (size_t)notices);
    }
    return 0;
}
