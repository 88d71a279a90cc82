/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that makes no progress is found, and all continue in the same processes.
 *
 * In the first attempt rank 1 waits for a message that is never sent; the others wait for rank 1.
 * After the soft timeout all are interrupted: the blocked call returns EINTR, the function returns,
 * and the second attempt succeeds. The record names the rank: the one that is a step behind. So a
 * rank reports its step when its own part of it is done, before it waits for the others.
 *
 *   MUSTER_SOFT_TIMEOUT=1s MUSTER_HARD_TIMEOUT=5s muster run -n 4 -- restart_hang */
#define _GNU_SOURCE
#include <muster/muster.h>
#include <stdio.h>
#include <unistd.h>

static muster_status work(muster_restart *restart, void *client)
{
    struct muster_view me;
    struct muster_fault fault;

    muster_restart_view(restart, &me);
    if (muster_restart_fault(restart, 0, &fault)) {
        printf("rank %u goes on in process %d (%s: rank %u %s)\n", me.rank, (int)getpid(),
               muster_fault_kind_name(fault.kind), fault.rank, fault.text);
    }
    for (int64_t step = 0; step < 10; step++) {
        muster_status status;

        if (me.iteration == 0 && me.rank == 1 && step == 5) {
            printf("rank 1 hangs in process %d\n", (int)getpid());
            pause(); /* only a signal ends it; muster sends one */
        }
        status = muster_restart_step(restart, step);
        if (status == MUSTER_OK) {
            status = muster_barrier_wait(client, "step", -1, NULL);
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
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
        (void)fprintf(stderr, "hang: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
