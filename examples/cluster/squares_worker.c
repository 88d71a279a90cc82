/* SPDX-License-Identifier: Apache-2.0 */
/* A worker of squares_coordinator.c. Start as many as you like, at any time:
 *
 *   muster run --no-label -n 1 cluster_squares_coordinator : -n 4 cluster_squares_worker
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <muster/muster.h>
#include <muster/worker.h>

static muster_status square(muster_task *task, void *arg)
{
    const struct muster_part *part = NULL;
    double number = 0;

    (void)arg;
    if (muster_task_parts(task, &part) != 1 || part->size != sizeof number) {
        return muster_task_fail(task, EINVAL, "one number is expected");
    }
    memcpy(&number, part->data, sizeof number);
    number *= number;
    return muster_task_add(task, &number, sizeof number, 0);
}

int main(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_client *client = NULL;
    muster_worker *worker = NULL;

    options.role = MUSTER_ROLE_WORKER;
    muster_status status = muster_client_open(&client, &options, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_worker_open(&worker, client, NULL, &err);
    }
    if (status == MUSTER_OK) {
        status =
            muster_worker_register(worker, "square", 1, MUSTER_FUNCTION_PURE, square, NULL, &err);
    }
    if (status == MUSTER_OK) {
        status = muster_worker_serve(worker, &err); /* until the cluster is dismissed */
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "worker: %s\n", err.text);
    }
    muster_worker_close(worker);
    muster_client_close(client);
    return muster_exit_code(status);
}
