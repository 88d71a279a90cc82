/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that tools/soak_preempt gives notices to. Under muster_restart_run it warms up, begins at
 * the largest step that all ranks of a generation have saved, and takes small steps; from time to
 * time it evaluates, and saves without being told to. What a rank saves is the empty file
 * FOLDER/STEP.RANK.SIZE. It tells what it does in lines of "@SECONDS #INDEX WORD FIELD=VALUE ...":
 *
 *   started pid=         its process is there, and hears notices
 *   warmup generation=   it is in the function
 *   begins at= generation=
 *   evaluates, checkpoint: from now on, for some milliseconds
 *   saves at=            it was told to
 *   saved at= status= generation=
 *   done                 all steps are
 *
 * usage: soak FOLDER; SOAK_STEPS, SOAK_WARMUP, SOAK_STEP, SOAK_EVALUATION, SOAK_SAVE: how many
 * steps, and how many milliseconds each of these takes. SOAK_HOLD: no save is possible while it
 * evaluates. SOAK_WRONG=INDEX: that rank saves a later step than it was told. SIGUSR1 makes it
 * fail. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

enum { EVALUATION_EVERY = 24, CHECKPOINT_EVERY = 17, BARRIER_EVERY = 5, HOLD_MS = 10000 };

struct rank {
    muster_client *client;
    muster_preempt *preempt;
    muster_restart *restart;
    const char *folder;
    struct muster_view view;
    bool alone; /* who is noticed leaves, and the others go on */
    bool saved; /* by all, and this process is to end */
};

static volatile sig_atomic_t failing;

static void on_usr1(int number)
{
    (void)number;
    failing = 1;
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 10) : otherwise;
}

static void take(const char *name)
{
    (void)poll(NULL, 0, (int)number(name, 2));
}

__attribute__((format(printf, 2, 3))) static void report(const struct rank *rank,
                                                         const char *format, ...)
{
    char words[256];
    struct timespec now;
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(words, sizeof(words), format, arguments);
    va_end(arguments);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    say("@%lld.%06ld #%u %s", (long long)now.tv_sec, now.tv_nsec / 1000, rank->view.index, words);
}

/* ---- what is saved ---- */

static void save(const struct rank *rank, long step)
{
    char path[512];
    int file;

    take("SOAK_SAVE");
    (void)snprintf(path, sizeof(path), "%s/%ld.%u.%u", rank->folder, step, rank->view.rank,
                   rank->view.size);
    file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        perror(path);
        exit(1);
    }
    (void)close(file);
}

static bool is_whole(const struct rank *rank, long step, unsigned long size)
{
    char path[512];

    for (unsigned long i = 0; i < size; i++) {
        (void)snprintf(path, sizeof(path), "%s/%ld.%lu.%lu", rank->folder, step, i, size);
        if (access(path, F_OK) != 0) {
            return false;
        }
    }
    return true;
}

/* The largest step that is whole. */
static long load(const struct rank *rank)
{
    DIR *folder = opendir(rank->folder);
    struct dirent *entry;
    long best = 0;

    if (!folder) {
        perror(rank->folder);
        exit(1);
    }
    while ((entry = readdir(folder))) {
        char *rest;
        long step = strtol(entry->d_name, &rest, 10);
        const char *size = strrchr(rest, '.');

        if (size && step > best && is_whole(rank, step, strtoul(size + 1, NULL, 10))) {
            best = step;
        }
    }
    (void)closedir(folder);
    return best;
}

/* ---- the steps ---- */

/* OK: it goes on. */
static muster_status save_if_told(struct rank *rank, long step)
{
    struct muster_error err = {.text = ""};
    muster_status status = MUSTER_OK;

    switch (muster_preempt_reached(rank->preempt, step)) {
    case MUSTER_GO_ON:
        return MUSTER_OK;
    case MUSTER_STOP:
        return MUSTER_EINTERRUPTED;
    case MUSTER_SAVE_NOW:
        step += number("SOAK_WRONG", -1) == (long)rank->view.index;
        report(rank, "saves at=%ld", step);
        save(rank, step);
        status = muster_preempt_saved(rank->preempt, step, -1, &err);
        report(rank, "saved at=%ld status=%s generation=%" PRIu64 " %s", step,
               muster_status_name(status), rank->view.generation, err.text);
        break;
    }
    rank->saved = status == MUSTER_EPREEMPTED;
    return status;
}

static void evaluate(const struct rank *rank)
{
    bool hold = number("SOAK_HOLD", 0) && muster_preempt_hold_begin(rank->preempt, HOLD_MS) == 0;

    report(rank, "evaluates");
    take("SOAK_EVALUATION");
    if (hold) {
        (void)muster_preempt_hold_end(rank->preempt);
    }
}

/* What has no save in it. */
static muster_status take_step(struct rank *rank, long step)
{
    if (failing) {
        failing = 0;
        return muster_restart_fail(rank->restart, 7, "it was told to");
    }
    if (step % EVALUATION_EVERY == EVALUATION_EVERY - 1) {
        evaluate(rank);
    }
    if (step % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1) {
        report(rank, "checkpoint");
        save(rank, step);
    }
    take("SOAK_STEP");
    if (step % BARRIER_EVERY == 0) {
        return muster_barrier_wait(rank->client, "step", -1, NULL);
    }
    return muster_restart_step(rank->restart, step);
}

static muster_status train(struct rank *rank)
{
    long steps = number("SOAK_STEPS", 1000000);
    muster_status status = MUSTER_OK;
    long step;

    take("SOAK_WARMUP");
    step = load(rank);
    report(rank, "begins at=%ld generation=%" PRIu64, step, rank->view.generation);
    while (step < steps && status == MUSTER_OK) {
        status = save_if_told(rank, step);
        if (status == MUSTER_OK) {
            status = take_step(rank, step);
            step++;
        } else if (status == MUSTER_ESTALE) {
            status = MUSTER_OK; /* agreed again, or taken back: it asks again */
        }
    }
    if (status == MUSTER_OK) {
        report(rank, "done");
    }
    return status;
}

static muster_status function(muster_restart *restart, void *arg)
{
    struct rank *rank = arg;
    muster_status status;

    rank->restart = restart;
    rank->saved = false;
    failing = 0;
    muster_restart_view(restart, &rank->view);
    report(rank, "warmup generation=%" PRIu64, rank->view.generation);
    status = train(rank);
    if (status == MUSTER_EPREEMPTED && rank->alone) {
        return muster_restart_leave(restart);
    }
    return status == MUSTER_EINTERRUPTED ? muster_restart_check(restart) : status;
}

int rank_soak(int argc, char **argv)
{
    const char *leave = getenv("MUSTER_PREEMPT_LEAVE");
    struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_RESTART};
    struct rank rank = {.folder = argc > 1 ? argv[1] : "."};
    struct muster_error err = {.text = ""};
    muster_status status;

    (void)sigaction(SIGUSR1, &action, NULL);
    rank.alone = leave && strcmp(leave, "noticed") == 0;
    status = muster_client_open(&rank.client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        muster_client_view(rank.client, &rank.view);
        status = muster_preempt_open(&rank.preempt, rank.client, NULL, &err);
    }
    if (status == MUSTER_OK) {
        report(&rank, "started pid=%d", (int)getpid());
        status = muster_restart_run(rank.client, NULL, function, &rank, &err);
    }
    if (status != MUSTER_OK && status != MUSTER_EPREEMPTED) {
        (void)fprintf(stderr, "rank: %s\n", err.text);
    }
    muster_preempt_close(rank.preempt);
    muster_client_close(rank.client);
    return muster_exit_code(rank.saved ? MUSTER_EPREEMPTED : status);
}
