/* SPDX-License-Identifier: Apache-2.0 */
/* A program that continues when a member of its job is preempted. When the run fails and a member
 * was noticed, it waits until that one has left, connects again and runs again. When the run fails
 * and no member was noticed, it ends.
 *
 * Here rank 1 gets a notice, and is killed in the middle. The second time its replacement takes
 * part; with --max-restarts 0 there is none, and the job runs with one rank less.
 *
 *   muster run -n 2 -- preempt_reconnect */
#define _GNU_SOURCE
#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>

enum { STEPS = 10, EXIT_MS = 20000 };

/* One run of the job; in the first one rank 1 is lost. Its steps need all members. */
static muster_status run(muster_client *client, struct muster_error *err)
{
    struct muster_view me;
    muster_status status = MUSTER_OK;

    muster_client_view(client, &me);
    for (int step = 0; step < STEPS && status == MUSTER_OK; step++) {
        if (step == 3 && me.index == 1 && me.generation == 1) {
            status = muster_preempt_announce(client, me.index, 60000, "the machine goes away", err);
            if (status == MUSTER_OK) {
                (void)raise(SIGKILL); /* without a report to the others */
            }
        }
        if (status == MUSTER_OK) {
            status = muster_barrier_wait(client, "step", -1, err);
        }
    }
    return status;
}

/* The cause of a failed run. OK: a member was preempted and is gone. */
static muster_status after(muster_preempt *preempt, struct muster_error *err)
{
    struct muster_notice notice;
    struct muster_error why;
    muster_status status;

    if (!muster_preempt_notice(preempt, &notice)) {
        return MUSTER_EFAILED; /* no member was: the failure is the program's own */
    }
    printf("#%u was preempted (%s)\n", notice.index, notice.reason);
    status = muster_preempt_wait_exit(preempt, EXIT_MS, &why);
    if (status != MUSTER_OK && err) {
        *err = why;
    }
    return status;
}

int main(void)
{
    struct muster_error err = {0};
    muster_status status = MUSTER_OK;
    bool again = true;

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    while (again) {
        muster_client *client = NULL;
        muster_preempt *preempt = NULL;
        struct muster_view me = {0};

        again = false;
        status = muster_client_open(&client, NULL, -1, &err);
        if (status == MUSTER_OK) {
            status = muster_preempt_open(&preempt, client, NULL, &err);
        }
        if (status == MUSTER_OK) {
            muster_client_view(client, &me);
            printf("rank %u of %u runs\n", me.rank, me.size);
            status = run(client, &err);
            again = status != MUSTER_OK && after(preempt, &err) == MUSTER_OK;
        }
        muster_preempt_close(preempt);
        muster_client_close(client);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "reconnect: %s\n", err.text);
        return muster_exit_code(status);
    }
    printf("all steps are done\n");
    return 0;
}
