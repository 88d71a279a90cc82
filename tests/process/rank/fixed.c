/* SPDX-License-Identifier: Apache-2.0 */

/* fixed STOP
 *
 * A rank of a job of fixed size. Each has a number; a step makes the next one from it and the sum
 * of all, so the result depends on every step of every rank, and on nothing else. The numbers are
 * in memory only: a replacement gets them from any rank that has the newest step. The job ends with
 * the step after the one at which a rank sees the file STOP.
 *
 *   born index= pid=                               the process is there
 *   entered generation= rank= size= iteration= index= pid= entries= step=
 *                                                  `entries`: of this process, in its memory
 *   result step= numbers=A,B,...                   by rank 0 */

#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

enum { RANKS_MAX = 64 };

/* What a rank brings to a round, and has in its memory. */
struct state {
    uint64_t step, stop;
    uint64_t numbers[RANKS_MAX];
};

struct rank {
    muster_client *client;
    const char *stop;
    uint32_t entries;
    struct muster_view view;
    struct state state;
};

/* All ranks go on from the newest state that any of them has. */
static muster_status gather(struct rank *rank, const char *name, struct state *all, size_t *count)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_slice mine = {&rank->state, sizeof rank->state};
    muster_round_result *result = NULL;
    muster_status status;

    options.reduce = MUSTER_REDUCE_GATHER;
    status = muster_round_join(rank->client, name, &options, mine, -1, &result, NULL);
    *count = status == MUSTER_OK ? muster_round_part_count(result) : 0;
    for (size_t i = 0; i < *count && i < RANKS_MAX; i++) {
        memcpy(&all[i], muster_round_part(result, i, NULL).data, sizeof *all);
    }
    muster_round_free(result);
    return status;
}

static muster_status load(struct rank *rank)
{
    struct state all[RANKS_MAX];
    size_t count;
    muster_status status = gather(rank, "load", all, &count);

    for (size_t i = 0; i < count; i++) {
        if (all[i].step > rank->state.step) {
            rank->state = all[i];
        }
    }
    return status;
}

/* The numbers change only when all of them are there: a step is done or not. */
static muster_status take_step(struct rank *rank)
{
    struct state all[RANKS_MAX];
    uint64_t sum = 0;
    size_t count;
    muster_status status;

    rank->state.stop = access(rank->stop, F_OK) == 0;
    status = gather(rank, "step", all, &count);
    if (status != MUSTER_OK) {
        return status;
    }
    rank->state.stop = 0;
    for (size_t i = 0; i < count; i++) {
        sum += rank->state.numbers[i];
        rank->state.stop = rank->state.stop || all[i].stop;
    }
    for (size_t i = 0; i < count; i++) {
        rank->state.numbers[i] = rank->state.numbers[i] * UINT64_C(6364136223846793005) + sum + i;
    }
    rank->state.step++;
    return MUSTER_OK;
}

static void say_result(const struct rank *rank)
{
    char numbers[RANKS_MAX * 22] = "";
    size_t size = 0;

    for (uint32_t i = 0; i < rank->view.size; i++) {
        size += (size_t)snprintf(numbers + size, sizeof numbers - size, "%s%" PRIu64,
                                 i > 0 ? "," : "", rank->state.numbers[i]);
    }
    say("result step=%" PRIu64 " numbers=%s", rank->state.step, numbers);
}

static muster_status work(muster_restart *restart, void *arg)
{
    struct rank *rank = arg;
    muster_status status;

    muster_restart_view(restart, &rank->view);
    say("entered generation=%" PRIu64 " rank=%" PRIu32 " size=%" PRIu32 " iteration=%" PRIu64
        " index=%" PRIu32 " pid=%d entries=%" PRIu32 " step=%" PRIu64,
        rank->view.generation, rank->view.rank, rank->view.size, rank->view.iteration,
        rank->view.index, (int)getpid(), ++rank->entries, rank->state.step);
    rank->state.stop = 0;
    status = load(rank);
    while (status == MUSTER_OK && !rank->state.stop) {
        pass(1); /* so that ranks on few CPUs leave time for one that starts */
        status = muster_restart_step(restart, (int64_t)rank->state.step);
        status = status == MUSTER_OK ? take_step(rank) : status;
    }
    return status;
}

int rank_fixed(int argc, char **argv)
{
    struct rank rank = {.stop = argc > 1 ? argv[1] : ""};
    struct muster_error err;
    muster_status status;

    say("born index=%s pid=%d", getenv("MUSTER_INDEX"), (int)getpid());
    status = muster_client_open(&rank.client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(rank.client, NULL, work, &rank, &err);
    }
    if (status == MUSTER_OK && rank.view.rank == 0) {
        say_result(&rank);
    } else if (status != MUSTER_OK) {
        (void)fprintf(stderr, "rank: %s\n", err.text);
    }
    muster_client_close(rank.client);
    return muster_exit_code(status);
}
