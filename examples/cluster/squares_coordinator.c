/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator: the workers (squares_worker.c) square the numbers from 1 to 1000, and it adds up
 * what they return.
 *
 *   muster run --no-label -n 1 cluster_squares_coordinator : -n 4 cluster_squares_worker
 */
#include <stdio.h>

#include <muster/muster.h>

enum { NUMBERS = 1000 };

static muster_status schedule_all(muster_cluster *cluster, muster_closure *closure[NUMBERS],
                                  struct muster_error *err)
{
    muster_status status = MUSTER_OK;

    for (int i = 0; status == MUSTER_OK && i < NUMBERS; i++) {
        const double number = i + 1;
        const struct muster_part part = {.data = &number, .size = sizeof number};
        status = muster_cluster_schedule(cluster, "square", &part, 1, NULL, -1, &closure[i], err);
    }
    return status;
}

static muster_status add_up(muster_closure *closure[NUMBERS], struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    double sum = 0;

    for (int i = 0; status == MUSTER_OK && i < NUMBERS; i++) {
        const struct muster_part *parts = NULL;
        size_t count = 0;
        status = muster_closure_fetch(closure[i], -1, &parts, &count, err);
        if (status == MUSTER_OK && count == 1) {
            sum += *(const double *)parts[0].data;
        }
    }
    if (status == MUSTER_OK) {
        printf("the squares of 1 to %d add up to %.0f\n", NUMBERS, sum);
        (void)fflush(stdout);
    }
    return status;
}

static muster_status coordinate(muster_cluster *cluster, struct muster_error *err)
{
    muster_closure *closure[NUMBERS] = {NULL};
    muster_status status = schedule_all(cluster, closure, err);

    if (status == MUSTER_OK) {
        status = add_up(closure, err);
    }
    for (int i = 0; i < NUMBERS; i++) {
        muster_closure_release(closure[i]);
    }
    return status;
}

int main(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_client *client = NULL;
    muster_cluster *cluster = NULL;

    options.role = MUSTER_ROLE_WORKER; /* a member, and no rank of a generation */
    muster_status status = muster_client_open(&client, &options, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_cluster_open(&cluster, client, NULL, -1, &err);
    }
    /* Dismissed already: the process before this one was killed when its work was done. */
    if (status == MUSTER_OK && !muster_cluster_dismissed(cluster)) {
        status = coordinate(cluster, &err);
    }
    if (status == MUSTER_OK) {
        status = muster_cluster_dismiss(cluster, -1, &err); /* all workers end, late ones too */
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "coordinator: %s\n", err.text);
    }
    muster_cluster_close(cluster);
    muster_client_close(client);
    return muster_exit_code(status);
}
