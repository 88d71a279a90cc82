/* SPDX-License-Identifier: Apache-2.0 */
/* A rank without an agent that does what programs do to children, descriptors and clients. It says
 * on stdout what a test looks at.
 *
 *   agent again N   opens a client, runs a function and closes it, N times: descriptors,
 *                        threads and children after the first and after the last
 *   agent wait      in the function: waits for all children it has
 *   agent ignore    the same with SIGCHLD ignored
 *   agent fork      in the function: forks a child that stays, says its pid, and blocks
 *   agent block     in the function: blocks
 *   agent log       says what the library logs */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

enum { PATIENCE_MS = 5000 };

static const char *mode;
static unsigned threads_before; /* the first client */

static void tell_children(void)
{
    int how;
    pid_t child;

    while ((child = waitpid(-1, &how, 0)) > 0) {
        say("child %d ended with %d", (int)child, how);
    }
    say("no child: %s", strerror(errno));
}

static muster_status function(muster_restart *restart, void *arg)
{
    (void)arg;
    if (strcmp(mode, "wait") == 0 || strcmp(mode, "ignore") == 0) {
        tell_children();
    }
    if (strcmp(mode, "fork") == 0) {
        pid_t child = fork();

        if (child == 0) {
            for (;;) {
                (void)pause();
            }
        }
        say("forked %d", (int)child);
    }
    if (strcmp(mode, "fork") == 0 || strcmp(mode, "block") == 0) {
        say("blocked");
        while (muster_restart_check(restart) == MUSTER_OK) {
            (void)pause();
        }
        return MUSTER_EINTERRUPTED;
    }
    return MUSTER_OK;
}

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    (void)level;
    say("log: %s", line);
}

static int once(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err;
    muster_client *client;
    muster_status status;

    options.log = on_log;
    if (muster_client_open(&client, &options, 30000, &err) != MUSTER_OK) {
        (void)fprintf(stderr, "open: %s\n", err.text);
        return 1;
    }
    status = muster_restart_run(client, NULL, function, NULL, &err);
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "run: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}

/* A thread that has been joined takes a moment to leave the kernel. */
static unsigned threads(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    unsigned count = entries_of("/proc/self/task");

    for (int i = 0; i < PATIENCE_MS && count > threads_before; i++) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
        count = entries_of("/proc/self/task");
    }
    return count;
}

static void tell_counts(const char *when)
{
    say("%s: descriptors %u threads %u children %d", when, entries_of("/proc/self/fd"), threads(),
        waitpid(-1, NULL, WNOHANG) >= 0);
}

int rank_agent(int argc, char **argv)
{
    int times = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1;
    int code = 0;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: agent MODE [N]\n");
        return 2;
    }
    mode = argv[1];
    threads_before = entries_of("/proc/self/task");
    if (strcmp(mode, "ignore") == 0) {
        (void)signal(SIGCHLD, SIG_IGN);
    }
    for (int i = 0; i < times && code == 0; i++) {
        code = once();
        if (i == 0) {
            tell_counts("first");
        }
    }
    tell_counts("last");
    return code;
}
