/* SPDX-License-Identifier: Apache-2.0 */
/* The service at MUSTER_ADDR is killed, and this observer of the job that MUSTER_JOB names puts a
 * key: from the signal to the answer, which another replica gives. failover PID */
#define _GNU_SOURCE
#include "measure.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <muster/muster.h>

static void need(muster_status status, const struct muster_error *err)
{
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "failover: %s\n", err->text);
        exit(1);
    }
}

static void put(muster_client *client, const char *key)
{
    enum { PATIENCE_MS = 60000 };
    static const char value[16] = "a small value";
    struct muster_error err = {0};

    need(muster_key_put(client, key, (struct muster_slice){value, sizeof value}, NULL, PATIENCE_MS,
                        NULL, &err),
         &err);
}

/* Until it has ended: before, it could still answer. */
static void kill_at_once(pid_t service)
{
    struct pollfd ends = {.fd = (int)syscall(SYS_pidfd_open, service, 0), .events = POLLIN};

    if (ends.fd < 0 || kill(service, SIGKILL) != 0 || poll(&ends, 1, -1) != 1) {
        die("kill");
    }
    (void)close(ends.fd);
}

int main(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_client *client = NULL;
    uint64_t sample;
    long service = 0;

    if (argc != 2 || !parse_number(argv[1], &service) || service < 2) {
        (void)fprintf(stderr, "usage: failover PID\n");
        return 2;
    }
    options.role = MUSTER_ROLE_OBSERVER;
    need(muster_client_open(&client, &options, 10000, &err), &err);
    put(client, "before");
    sample = now_ns();
    kill_at_once((pid_t)service);
    put(client, "after");
    sample = now_ns() - sample;
    muster_client_close(client);
    report("failover", &sample, 1);
    return 0;
}
