/* SPDX-License-Identifier: Apache-2.0 */
/* An ordinary MPI program, which adds up the series of pi, with the lines that let it stop and
 * continue. When any rank receives the notice (SIGTERM, for example), all save the same step and
 * exit with status 75, "saved, run me again". The same command then continues from there, to the
 * same result.
 *
 *   mpirun -n 3 ./mpi_train 2000 FILE
 *
 * bin/ has mpi_train_openmpi and mpi_train_mpich, for the MPIs that were present at build time. */
#define _GNU_SOURCE /* fsync, fileno */
#include <mpi.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TERMS = 100000, NAME_ROOM = 4096 };

/* Files of each rank. A written file counts when all ranks have written it; until then the previous
 * one stays. */
static char committed[NAME_ROOM], written[NAME_ROOM + 8];

/* Yours: here a step of all ranks, and a file of each with the step and the sum so far. */
static double compute(long step, int rank, int size);
static long load(const char *file, double *sum);
static void save(const char *file, long step, double sum);

static long resume(double *sum);
static muster_status commit(muster_client *client, long step, struct muster_error *err);

int main(int argc, char **argv)
{
    long steps = argc > 1 ? strtol(argv[1], NULL, 10) : 2000;
    muster_client *client = NULL;
    muster_preempt *preempt = NULL;
    struct muster_error err;
    muster_status status;
    double sum = 0;
    int rank, size;
    long step;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    status = muster_client_open(&client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_preempt_open(&preempt, client, NULL, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "rank %d: %s\n", rank, err.text);
        MPI_Abort(MPI_COMM_WORLD, muster_exit_code(status));
    }

    (void)snprintf(committed, NAME_ROOM, "%s.%d", argc > 2 ? argv[2] : "checkpoint", rank);
    (void)snprintf(written, sizeof(written), "%s.new", committed);
    step = resume(&sum);
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    printf("rank %d of %d, process %d, begins at step %ld\n", rank, size, (int)getpid(), step);
    for (; step < steps; step++) {
        if (muster_preempt_reached(preempt, step) == MUSTER_SAVE_NOW) {
            save(written, step, sum);
            status = muster_preempt_saved(preempt, step, -1, &err);
            if (status == MUSTER_OK || status == MUSTER_EPREEMPTED) { /* all have */
                muster_status done = commit(client, step, &err);

                status = done == MUSTER_OK ? status : done;
            }
            if (status != MUSTER_OK && status != MUSTER_ESTALE) {
                printf("rank %d has saved step %ld: %s\n", rank, step, muster_status_text(status));
                break; /* EPREEMPTED: all have saved; else err names the missing ranks */
            }
            status = MUSTER_OK; /* the notice was withdrawn: continue */
        }
        sum += compute(step, rank, size);
        if (rank == 0 && step % 10 == 0) {
            printf("step %ld: pi is about %.7f\n", step, 4 * sum);
        }
    }
    if (status == MUSTER_OK && rank == 0) {
        printf("after %ld steps pi is %.17g\n", step, 4 * sum);
    }

    muster_preempt_close(preempt);
    muster_client_close(client);
    MPI_Finalize();
    return muster_exit_code(status);
}

/* The newest step that any rank has committed. All have written that one: a rank that was killed
 * before its commit has it under the other name. */
static long resume(double *sum)
{
    long mine = load(committed, sum), newest = 0;

    MPI_Allreduce(&mine, &newest, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (mine != newest && (load(written, sum) != newest || rename(written, committed) != 0)) {
        (void)fprintf(stderr, "%s has no step %ld, which others have\n", committed, newest);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return newest;
}

/* The first rank inserts the key, in the generation's own key space, for all. A rank that was
 * replaced meanwhile is refused: EFENCED. */
static muster_status commit(muster_client *client, long step, struct muster_error *err)
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
    if (status != MUSTER_OK && status != MUSTER_ECONFLICT) { /* ECONFLICT: another was first */
        return status;
    }
    if (rename(written, committed) != 0) {
        perror(committed);
        return MUSTER_EFAILED;
    }
    return MUSTER_OK;
}

static double compute(long step, int rank, int size)
{
    double mine = 0, all = 0;

    for (int64_t i = rank; i < TERMS; i += size) {
        int64_t term = step * TERMS + i;

        mine += (double)(term % 2 ? -1 : 1) / (double)(2 * term + 1);
    }
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static long load(const char *file, double *sum)
{
    char words[64] = "0 0";
    char *rest;
    long step;
    FILE *open = fopen(file, "r");

    if (open) {
        if (!fgets(words, sizeof(words), open)) {
            words[0] = 0;
        }
        (void)fclose(open);
    }
    step = strtol(words, &rest, 10);
    *sum = strtod(rest, NULL);
    return step;
}

static void save(const char *file, long step, double sum)
{
    FILE *open = fopen(file, "w");

    if (!open || fprintf(open, "%ld %a\n", step, sum) < 0 || fflush(open) != 0 ||
        fsync(fileno(open)) != 0 || fclose(open) != 0) {
        perror(file);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}
