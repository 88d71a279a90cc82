/* SPDX-License-Identifier: Apache-2.0 */
/* A worker of a job that says who it is, and waits for its end. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <muster/muster.h>

int main(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    struct muster_view me;
    muster_client *client = NULL;

    options.role = MUSTER_ROLE_WORKER;
    muster_status status = muster_client_open(&client, &options, -1, &err);
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "worker: %s\n", err.text);
        return 1;
    }
    muster_client_view(client, &me);
    printf("worker index=%" PRIu32 " pid=%d incarnation=%" PRIu64 "\n", me.index, (int)getpid(),
           me.incarnation);
    (void)fflush(stdout);
    for (;;) {
        pause();
    }
}
