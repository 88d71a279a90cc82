/* SPDX-License-Identifier: Apache-2.0 */
/* Data in memory survives the death of a rank, without a file.
 *
 * Each rank holds a block of cells that no other has. At every SAVE steps it keeps a save of its
 * block and sends one to the next rank, so each save is in two processes. Of both it keeps the last
 * two: at an interruption some ranks may have completed a save that others have not, but never two.
 * All continue from the newest save that all survivors have. A new process gets its block from the
 * next rank, and from the previous one the copy that it is to hold.
 *
 * In the first attempt rank 1 dies between two saves; the result is that of a calm run (with the
 * word `calm` behind it). Two neighbours that die at once are too many: then the run ends, and a
 * program would read a file.
 *
 *   muster run -n 4 -- restart_neighbour_copy */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collect.h"

enum { RANKS = 4, CELLS = 5000, STEPS = 90, SAVE = 20, DEATH = 50 };

struct block {
    int64_t step;
    double cell[CELLS];
};

struct data {
    muster_client *client;
    struct muster_view me;
    struct ring ring;
    bool calm;
    struct block now;
    int64_t saves; /* completed ones; 0: this process has no data yet */
    /* Save number k is at [k % 2]: this rank's, and the copy of the previous rank's. */
    struct block own[2], copy[2];
};

static uint32_t beside(uint32_t rank, int by)
{
    return (rank + RANKS + (uint32_t)by) % RANKS;
}

/* Sends to the next rank and receives as much from the previous one. Not all send first: more than
 * the sockets hold would be on its way, and none would receive. */
static muster_status exchange(struct data *data, void *mine, void *theirs, size_t size)
{
    bool first = data->me.rank % 2 == 0;
    muster_status status = first ? ring_move(&data->ring, RING_NEXT, mine, size)
                                 : ring_move(&data->ring, RING_PREVIOUS, theirs, size);

    if (status != MUSTER_OK) {
        return status;
    }
    return first ? ring_move(&data->ring, RING_PREVIOUS, theirs, size)
                 : ring_move(&data->ring, RING_NEXT, mine, size);
}

/* The save counts when all have it: after the barrier each rank may overwrite the one before the
 * last. */
static muster_status save(struct data *data, struct muster_error *err)
{
    size_t at = (size_t)(data->saves + 1) % 2;
    muster_status status;

    data->own[at] = data->now;
    status = exchange(data, &data->own[at], &data->copy[at], sizeof data->own[at]);
    if (status == MUSTER_OK) {
        status = muster_barrier_wait(data->client, "saved", -1, err);
    }
    data->saves += status == MUSTER_OK;
    return status;
}

static void begin(struct data *data)
{
    data->now = (struct block){0};
    for (int i = 0; i < CELLS; i++) {
        data->now.cell[i] = (double)((data->me.rank * CELLS + (uint32_t)i) * 7919 % 997);
    }
}

/* The blocks of a rank that has no data: all pass them on, it takes them. */
static muster_status refill(struct data *data, uint32_t rank, size_t at)
{
    struct block block = data->copy[at]; /* of the previous rank: the next one of `rank` has it */
    muster_status status = collect_share(&data->ring, beside(rank, 1), &block, sizeof block);

    if (status == MUSTER_OK && data->me.rank == rank) {
        data->own[at] = block;
    }
    block = data->own[at];
    if (status == MUSTER_OK) {
        status = collect_share(&data->ring, beside(rank, -1), &block, sizeof block);
    }
    if (status == MUSTER_OK && data->me.rank == rank) {
        data->copy[at] = block;
        printf("rank %u has its data from rank %u, of step %d\n", rank, beside(rank, 1),
               (int)data->own[at].step);
    }
    return status;
}

/* What each rank has, in the order of the ranks; then the ring of this generation. */
static muster_status meet(struct data *data, muster_restart *restart, int64_t saves[RANKS],
                          struct muster_error *err)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_slice mine = {&data->saves, sizeof data->saves};
    muster_round_result *all = NULL;
    muster_status status;

    options.reduce = MUSTER_REDUCE_GATHER;
    status = muster_round_join(data->client, "saves", &options, mine, -1, &all, err);
    for (uint32_t rank = 0; status == MUSTER_OK && rank < RANKS; rank++) {
        memcpy(&saves[rank], muster_round_part(all, rank, NULL).data, sizeof saves[rank]);
    }
    muster_round_free(all);
    ring_close(&data->ring); /* the old one: all have left it */
    return status == MUSTER_OK ? ring_open(&data->ring, data->client, restart, err) : status;
}

static muster_status recover(struct data *data, muster_restart *restart, struct muster_error *err)
{
    int64_t saves[RANKS], newest = INT64_MAX;
    muster_status status = meet(data, restart, saves, err);

    for (uint32_t rank = 0; status == MUSTER_OK && rank < RANKS; rank++) {
        newest = saves[rank] != 0 && saves[rank] < newest ? saves[rank] : newest;
    }
    if (status == MUSTER_OK && newest == INT64_MAX) { /* none has data: the job begins */
        begin(data);
        return save(data, err);
    }
    for (uint32_t rank = 0; status == MUSTER_OK && rank < RANKS; rank++) {
        if (saves[rank] == 0 && saves[beside(rank, 1)] == 0) {
            return muster_restart_abort(restart, 0, "two neighbours were lost at once");
        }
        status = saves[rank] == 0 ? refill(data, rank, (size_t)newest % 2) : MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        data->saves = newest;
        data->now = data->own[newest % 2];
    }
    return status;
}

/* Each cell becomes the mean of itself and its left neighbour. */
static muster_status step(struct data *data)
{
    double left, *cell = data->now.cell;
    muster_status status = exchange(data, &cell[CELLS - 1], &left, sizeof left);

    for (int i = CELLS - 1; status == MUSTER_OK && i >= 0; i--) {
        cell[i] = (cell[i] + (i > 0 ? cell[i - 1] : left)) / 2;
    }
    data->now.step += status == MUSTER_OK;
    return status;
}

static muster_status finish(struct data *data, struct muster_error *err)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    muster_round_result *all = NULL;
    double mine = 0, total = 0, part;
    muster_status status;

    for (int i = 0; i < CELLS; i++) {
        mine += data->now.cell[i] * data->now.cell[i];
    }
    options.reduce = MUSTER_REDUCE_GATHER;
    status = muster_round_join(data->client, "result", &options,
                               (struct muster_slice){&mine, sizeof mine}, -1, &all, err);
    for (uint32_t rank = 0; status == MUSTER_OK && rank < RANKS; rank++) {
        memcpy(&part, muster_round_part(all, rank, NULL).data, sizeof part);
        total += part;
    }
    muster_round_free(all);
    if (status == MUSTER_OK && data->me.rank == 0) {
        printf("result %.17g after step %d\n", total, (int)data->now.step);
    }
    return status;
}

static muster_status work(muster_restart *restart, void *arg)
{
    struct data *data = arg;
    struct muster_error err = {0};
    muster_status status = MUSTER_OK;

    muster_restart_view(restart, &data->me);
    while (status == MUSTER_OK && data->me.size < RANKS) { /* the replacement is on its way */
        (void)poll(NULL, 0, 1);
        status = muster_restart_check(restart);
    }
    status = status == MUSTER_OK ? recover(data, restart, &err) : status;
    while (status == MUSTER_OK && data->now.step < STEPS) {
        status = muster_restart_step(restart, data->now.step);
        if (!data->calm && data->me.iteration == 0 && data->me.rank == 1 &&
            data->now.step == DEATH) {
            (void)kill(getpid(), SIGKILL);
        }
        status = status == MUSTER_OK ? step(data) : status;
        if (status == MUSTER_OK && data->now.step % SAVE == 0) {
            status = save(data, &err);
        }
    }
    return status == MUSTER_OK ? finish(data, &err) : status;
}

int main(int argc, char **argv)
{
    static struct data data;
    struct muster_error err = {0};
    muster_status status;

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    data.ring = RING_CLOSED;
    data.calm = argc > 1 && strcmp(argv[1], "calm") == 0;
    status = muster_client_open(&data.client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(data.client, NULL, work, &data, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "neighbour_copy: %s\n", err.text);
    }
    ring_close(&data.ring);
    muster_client_close(data.client);
    return muster_exit_code(status);
}
