/* SPDX-License-Identifier: Apache-2.0 */
/* A spare process replaces a dead one.
 *
 * Four processes are started, three run the function. In the first attempt rank 1 dies; the fourth
 * process, which has waited in muster_restart_run, takes part in the second: still three ranks. The
 * dead one is restarted and is then the spare, if there is still time. (A spare that is not waiting
 * yet at the moment of the loss joins an attempt later: until then two run.)
 *
 *   muster run -n 3 --spares 1 -- restart_spare */
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
    printf("attempt %d: #%u is rank %u of %u\n", (int)me.iteration, me.index, me.rank, me.size);
    if (me.iteration == 0 && me.rank == 1) {
        muster_value *value = NULL;

        /* Not before the fourth process is there, and has had a moment to begin to wait. */
        if (muster_key_get(client, "the-spare-is-here", NULL, -1, &value, NULL) == MUSTER_OK) {
            (void)poll(NULL, 0, 100);
            (void)kill(getpid(), SIGKILL);
        }
        muster_value_free(value);
    }
    while (status == MUSTER_OK && me.size < RANKS) {
        (void)poll(NULL, 0, 1);
        status = muster_restart_check(restart);
    }
    return status == MUSTER_OK ? muster_barrier_wait(client, "all-are-here", -1, NULL) : status;
}

int main(void)
{
    struct muster_error err = {0};
    muster_client *client = NULL;
    struct muster_view me;
    muster_status status = muster_client_open(&client, NULL, -1, &err);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    if (status == MUSTER_OK) {
        muster_client_view(client, &me);
        if (me.spare) {
            status = muster_key_put(client, "the-spare-is-here", (struct muster_slice){NULL, 0},
                                    NULL, -1, NULL, &err);
        }
    }
    if (status == MUSTER_OK) {
        status = muster_restart_run(client, NULL, work, client, &err);
        muster_client_view(client, &me);
        if (status == MUSTER_OK && me.spare) {
            printf("#%u was not needed in the end\n", me.index);
        }
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "spare: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
