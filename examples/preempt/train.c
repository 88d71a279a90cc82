/* SPDX-License-Identifier: Apache-2.0 */
/* A training loop that is preempted: when any rank receives a notice, all save the same step and
 * exit with status 75, "saved, run me again". Here rank 1 sends itself the signal that a scheduler
 * would send.
 *
 *   muster run -n 3 -- preempt_train FILE; test $? -eq 75 && muster run -n 3 -- preempt_train FILE
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NAME_ROOM = 4096 };

/* A checkpoint counts when all ranks have written it: until then the one before it stays. */
struct checkpoint {
    char committed[NAME_ROOM], written[NAME_ROOM + 8];
};

/* Yours. Here a checkpoint is one number in a file of this rank. */
static long load(const char *file);
static void save(const char *file, long step);

/* All have written it. The first rank inserts the key, which is in the generation's own key space,
 * for all. A rank that was replaced meanwhile is refused: EFENCED. */
static muster_status commit(muster_client *client, const struct checkpoint *checkpoint, long step,
                            struct muster_error *err)
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    struct muster_slice nothing = {"", 0};
    struct muster_view me;
    char key[48];
    muster_status status;

    muster_client_view(client, &me);
    options.generation = me.generation;
    (void)snprintf(key, sizeof(key), "checkpoint/%ld", step);
    status = muster_key_cas(client, key, 0, nothing, &options, -1, NULL, err);
    if (status != MUSTER_OK && status != MUSTER_ECONFLICT) {
        return status;
    }
    if (rename(checkpoint->written, checkpoint->committed) != 0) {
        perror(checkpoint->committed);
        return MUSTER_EFAILED;
    }
    return MUSTER_OK;
}

/* The newest step that any rank has committed. All have written that one: a rank that was killed
 * before its commit has it under the other name. */
static muster_status resume(muster_client *client, const struct checkpoint *checkpoint, long *step,
                            struct muster_error *err)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    muster_round_result *result = NULL;
    int64_t mine = load(checkpoint->committed);
    muster_status status;

    options.reduce = MUSTER_REDUCE_MAX;
    status = muster_round_join(client, "resume", &options,
                               (struct muster_slice){&mine, sizeof(mine)}, -1, &result, err);
    *step = (long)muster_round_int64(result, 0);
    muster_round_free(result);
    if (status == MUSTER_OK && mine != *step &&
        (load(checkpoint->written) != *step ||
         rename(checkpoint->written, checkpoint->committed) != 0)) {
        (void)snprintf(err->text, sizeof(err->text), "%.400s has no step %ld, which others have",
                       checkpoint->committed, *step);
        return MUSTER_EFAILED;
    }
    return status;
}

static muster_status train(muster_client *client, muster_preempt *preempt, const char *checkpoints,
                           struct muster_error *err)
{
    struct checkpoint checkpoint;
    struct muster_view me;
    muster_status status;
    long step = 0;

    muster_client_view(client, &me);
    (void)snprintf(checkpoint.committed, NAME_ROOM, "%s.%u", checkpoints, me.rank);
    (void)snprintf(checkpoint.written, sizeof(checkpoint.written), "%s.new", checkpoint.committed);
    status = resume(client, &checkpoint, &step, err);
    if (status != MUSTER_OK) {
        return status;
    }
    printf("rank %u begins at step %ld\n", me.rank, step);
    for (; step < 20; step++) {
        enum muster_reach reach = muster_preempt_reached(preempt, step);

        if (reach == MUSTER_STOP) {
            return MUSTER_EFENCED;
        }
        if (reach == MUSTER_SAVE_NOW) {
            muster_status committed = MUSTER_OK;

            save(checkpoint.written, step);
            status = muster_preempt_saved(preempt, step, -1, err);
            if (status == MUSTER_EPREEMPTED || status == MUSTER_OK) {
                committed = commit(client, &checkpoint, step, err);
            }
            if (committed != MUSTER_OK) {
                return committed;
            }
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
    status = muster_barrier_wait(client, "done", -1, err);
    if (status != MUSTER_OK) {
        return status;
    }
    (void)unlink(checkpoint.committed);
    (void)unlink(checkpoint.written);
    printf("rank %u is done\n", me.rank);
    return MUSTER_OK;
}

int main(int argc, char **argv)
{
    muster_client *client = NULL;
    muster_preempt *preempt = NULL;
    struct muster_error err = {0};
    muster_status status = muster_client_open(&client, NULL, -1, &err);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
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

static void save(const char *file, long step)
{
    FILE *open = fopen(file, "w");

    if (!open || fprintf(open, "%ld\n", step) < 0 || fflush(open) != 0 ||
        fsync(fileno(open)) != 0 || fclose(open) != 0) {
        perror(file);
        exit(1);
    }
}
