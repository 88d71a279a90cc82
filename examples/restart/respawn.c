/* SPDX-License-Identifier: Apache-2.0 */
/* A dead process is restarted and takes its place, while the others keep running.
 *
 * A newcomer gets the current iteration of the others, so `iteration == 0` means the first attempt
 * of the job, not of the process. While it starts, the others may run one attempt with one rank
 * less: code that depends on the size asks muster_restart_view each time. With `muster run
 * --replace-wait` they wait for it instead.
 *
 *   muster run -n 3 -- restart_respawn */
#define _GNU_SOURCE
#include <muster/muster.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { RANKS = 3 };

static muster_status work(muster_restart *restart, void *client)
{
    struct muster_view me;
    muster_status status = MUSTER_OK;

    muster_restart_view(restart, &me);
    printf("attempt %d: process %d is #%u, rank %u of %u\n", (int)me.iteration, (int)getpid(),
           me.index, me.rank, me.size);
    if (me.iteration == 0 && me.index == 2) {
        (void)kill(getpid(), SIGKILL);
    }
    /* With fewer, wait until the lost one is back: the check then returns EINTERRUPTED. */
    while (status == MUSTER_OK && me.size < RANKS) {
        (void)poll(NULL, 0, 1);
        status = muster_restart_check(restart);
    }
    return status == MUSTER_OK ? muster_barrier_wait(client, "all-are-back", -1, NULL) : status;
}

int main(void)
{
    struct muster_error err = {0};
    muster_client *client = NULL;
    muster_status status = muster_client_open(&client, NULL, -1, &err);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    if (status == MUSTER_OK) {
        status = muster_restart_run(client, NULL, work, client, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "respawn: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
