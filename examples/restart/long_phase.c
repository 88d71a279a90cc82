/* SPDX-License-Identifier: Apache-2.0 */
/* A declared long phase without progress is not taken for a hang.
 *
 * The compilation takes three times the soft timeout. Inside its section only its own limit counts.
 *
 *   MUSTER_SOFT_TIMEOUT=1s MUSTER_HARD_TIMEOUT=2s muster run -n 2 -- restart_long_phase */
#define _GNU_SOURCE
#include <muster/muster.h>
#include <stdio.h>
#include <time.h>

static muster_status compile(muster_restart *restart)
{
    struct timespec left = {.tv_sec = 3};
    muster_status status = muster_restart_section_begin(restart, "compile", 10000);

    while (status == MUSTER_OK && clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) != 0) {
        status = muster_restart_check(restart);
    }
    return status == MUSTER_OK ? muster_restart_section_end(restart) : status;
}

static muster_status work(muster_restart *restart, void *arg)
{
    struct muster_view me;
    muster_status status = muster_restart_ping(restart); /* from here on the clock runs */

    (void)arg;
    muster_restart_view(restart, &me);
    if (status == MUSTER_OK) {
        status = compile(restart);
    }
    for (int64_t step = 0; status == MUSTER_OK && step < 3; step++) {
        status = muster_restart_step(restart, step);
    }
    printf("rank %u compiled for three times the soft timeout, in attempt %d: %s\n", me.rank,
           (int)me.iteration, muster_status_text(status));
    return status;
}

int main(void)
{
    struct muster_error err = {0};
    muster_client *client = NULL;
    muster_status status = muster_client_open(&client, NULL, -1, &err);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    if (status == MUSTER_OK) {
        status = muster_restart_run(client, NULL, work, NULL, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "long_phase: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
