/* SPDX-License-Identifier: Apache-2.0 */
/* usage: discover_rank VARIABLE [ROUNDS]
 * Joins without being told anything, and says where it is: its launcher's number, which it takes
 * from VARIABLE, or from MPI itself when it is built with WITH_MPI, must be its rank. With ROUNDS
 * it does so several times, leaving the job in between. */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_MPI
#include <mpi.h>
#endif

static int failed(const char *what, const struct muster_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    return 1;
}

static int once(int expected, int round, bool hold)
{
    muster_client *client;
    struct muster_error err;
    struct muster_view view;
    const char *go = "go";
    const char *patience = getenv("DISCOVER_RANK_MS");
    int64_t open_ms = patience ? strtol(patience, NULL, 10) : 60000;

    if (muster_client_open(&client, NULL, open_ms, &err) != MUSTER_OK) {
        return failed("open", &err);
    }
    if (muster_barrier_wait(client, "here", 60000, &err) != MUSTER_OK) {
        return failed("barrier", &err);
    }
    muster_client_view(client, &view);
    (void)printf("round %d rank %u of %u index %u expected %d\n", round, view.rank, view.size,
                 view.index, expected);
    (void)fflush(stdout);
    if (hold && muster_key_wait(client, &go, 1, NULL, 60000, &err) != MUSTER_OK) {
        return failed("wait", &err);
    }
    muster_client_close(client);
    return (int)view.index == expected ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *value = argc > 1 ? getenv(argv[1]) : NULL;
    bool hold = argc > 2 && strcmp(argv[2], "hold") == 0;
    int rounds = argc > 2 && !hold ? (int)strtol(argv[2], NULL, 10) : 1;
    int expected = value ? (int)strtol(value, NULL, 10) : 0;
    int code = 0;

#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &expected);
#endif
    for (int round = 0; round < rounds && code == 0; round++) {
        code = once(expected, round, hold);
    }
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return code;
}
