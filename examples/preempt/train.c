/* SPDX-License-Identifier: Apache-2.0 */
/* A training loop that is preempted: whoever gets the notice, all save the same step, and the exit
 * code 75 says "saved, run me again". Here rank 1 sends itself the signal that a scheduler would.
 *
 *   muster run -n 3 -- preempt_train FILE; test $? -eq 75 && muster run -n 3 -- preempt_train FILE
 */
#define _GNU_SOURCE
#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Yours. Here a checkpoint is one number in a file of this rank. */
static long load(const char *file);
static void save(const char *file, long step);

static muster_status train(muster_client *client, muster_preempt *preempt, const char *checkpoints,
                           struct muster_error *err)
{
    struct muster_view me;
    char file[4096];
    long step;

    muster_client_view(client, &me);
    (void)snprintf(file, sizeof(file), "%s.%u", checkpoints, me.rank);
    step = load(file);
    printf("rank %u begins at step %ld\n", me.rank, step);
    for (; step < 20; step++) {
        enum muster_reach reach = muster_preempt_reached(preempt, step);
        muster_status status;

        if (reach == MUSTER_STOP) {
            return MUSTER_EFENCED;
        }
        if (reach == MUSTER_SAVE_NOW) {
            save(file, step);
            status = muster_preempt_saved(preempt, step, -1, err);
            if (status != MUSTER_ESTALE && status != MUSTER_OK) {
                printf("rank %u has saved step %ld: %s\n", me.rank, step,
                       muster_status_text(status));
                return status; /* EPREEMPTED, or why it is not saved by all */
            }
        }
        if (step == 5 && me.rank == 1) {
            (void)raise(SIGTERM); /* only the first time: a later run begins after it */
        }
        status = muster_barrier_wait(client, "step", -1, err); /* your step: all take part */
        if (status != MUSTER_OK) {
            return status;
        }
    }
    (void)unlink(file);
    printf("rank %u is done\n", me.rank);
    return MUSTER_OK;
}

int main(int argc, char **argv)
{
    muster_client *client = NULL;
    muster_preempt *preempt = NULL;
    struct muster_error err = {0};
    muster_status status = muster_client_open(&client, NULL, -1, &err);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* each line when it is said */
    if (status == MUSTER_OK) {
        status = muster_preempt_open(&preempt, client, NULL, &err);
    }
    if (status == MUSTER_OK) {
        status = train(client, preempt, argc > 1 ? argv[1] : "checkpoint", &err);
    }
    if (status != MUSTER_OK && status != MUSTER_EPREEMPTED) {
        (void)fprintf(stderr, "train: %s\n", err.text);
    }
    muster_preempt_close(preempt);
    muster_client_close(client);
    return muster_exit_code(status);
}

static long load(const char *file)
{
    char words[32] = "0";
    FILE *open = fopen(file, "r");

    if (open) {
        if (!fgets(words, sizeof(words), open)) {
            words[0] = 0;
        }
        (void)fclose(open);
    }
    return strtol(words, NULL, 10);
}

/* Under another name first: what is there is whole. */
static void save(const char *file, long step)
{
    char fresh[4200];
    FILE *open;

    (void)snprintf(fresh, sizeof(fresh), "%s.new", file);
    open = fopen(fresh, "w");
    if (!open || fprintf(open, "%ld\n", step) < 0 || fclose(open) != 0 ||
        rename(fresh, file) != 0) {
        perror(file);
        exit(1);
    }
}
