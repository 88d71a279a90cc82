/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that trains until it is preempted: one step after the other, all together, and what it
 * saves is the step's number in the file FOLDER/INDEX. Begins where that says, and tells it.
 *
 * usage: train FOLDER [STEPS]     STEPS: then it is done; without: never
 *
 * Environment: TRAIN_END=FILE: the last step is over when FILE is there. */
#define _GNU_SOURCE
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

enum { STEP_MS = 5 }; /* how long a step takes: there is no end to them meanwhile */

static void path_of(char *path, size_t room, const char *folder, uint32_t rank)
{
    (void)snprintf(path, room, "%s/%u", folder, rank);
}

static long load(const char *folder, uint32_t rank)
{
    char path[512], words[32] = "0";
    FILE *file;

    path_of(path, sizeof path, folder, rank);
    file = fopen(path, "r");
    if (file && !fgets(words, sizeof words, file)) {
        words[0] = '\0';
    }
    if (file) {
        (void)fclose(file);
    }
    return strtol(words, NULL, 10);
}

static void save(const char *folder, uint32_t rank, long step)
{
    char path[512];
    FILE *file;

    path_of(path, sizeof path, folder, rank);
    file = fopen(path, "w");
    if (!file || fprintf(file, "%ld\n", step) < 0 || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* What a rank has to say of a step that all have taken. */
static void took(uint32_t rank, long step, bool first, bool last)
{
    const char *end = getenv("TRAIN_END");

    if (first) {
        say("rank %u has taken step %ld", rank, step);
    }
    while (last && end && access(end, F_OK) != 0) {
        (void)poll(NULL, 0, STEP_MS);
    }
}

static muster_status train(muster_client *client, muster_preempt *preempt, uint32_t rank,
                           const char *folder, long steps, struct muster_error *err)
{
    long first = load(folder, rank), step = first;
    muster_status status = MUSTER_OK;

    say("rank %u begins at step %ld", rank, step);
    for (; step < steps && status == MUSTER_OK; step++) {
        enum muster_reach reach = muster_preempt_reached(preempt, step);

        if (reach == MUSTER_STOP) {
            return MUSTER_EFENCED;
        }
        if (reach == MUSTER_SAVE_NOW) {
            struct muster_notice notice;

            if (muster_preempt_notice(preempt, &notice)) {
                say("rank %u saves step %ld: source=%s reason=%s", rank, step, notice.source,
                    notice.reason);
            }
            save(folder, rank, step);
            status = muster_preempt_saved(preempt, step, -1, err);
            status = status == MUSTER_ESTALE ? MUSTER_OK : status;
        }
        if (status == MUSTER_OK) {
            status = muster_barrier_wait(client, "step", -1, err);
        }
        if (status == MUSTER_OK) {
            took(rank, step, step == first, step + 1 == steps);
        }
        (void)poll(NULL, 0, STEP_MS);
    }
    return status;
}

int rank_train(int argc, char **argv)
{
    muster_client *client = NULL;
    muster_preempt *preempt = NULL;
    struct muster_view me;
    struct muster_error err = {0};
    muster_status status = muster_client_open(&client, NULL, -1, &err);

    if (status == MUSTER_OK) {
        status = muster_preempt_open(&preempt, client, NULL, &err);
    }
    if (status == MUSTER_OK) {
        muster_client_view(client, &me);
        status = train(client, preempt, me.rank, argc > 1 ? argv[1] : ".",
                       argc > 2 ? strtol(argv[2], NULL, 10) : LONG_MAX, &err);
    }
    if (status != MUSTER_OK && status != MUSTER_EPREEMPTED) {
        (void)fprintf(stderr, "rank: %s\n", err.text);
    }
    muster_preempt_close(preempt);
    muster_client_close(client);
    return muster_exit_code(status);
}
