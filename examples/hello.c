/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <muster/muster.h>
#include <stdio.h>

static muster_status work(muster_restart *restart, void *client)
{
    struct muster_view me;
    muster_restart_view(restart, &me);
    printf("generation %" PRIu64 ": rank %u of %u\n", me.generation, me.rank, me.size);
    return muster_barrier_wait(client, "all-said-hello", -1, NULL);
}

int main(void)
{
    struct muster_error err = {0};
    muster_client *client = NULL;
    muster_status status = muster_client_open(&client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(client, NULL, work, client, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "hello: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
