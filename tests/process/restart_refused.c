/* SPDX-License-Identifier: Apache-2.0 */
/* What muster_restart_run refuses, and that nothing is changed then. Run as the only rank of a job;
 * one line per surprise, and exit code 1 if there was one. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "muster/muster.h"

static int surprises;
static int entered;

static void expect(const char *what, muster_status status, muster_status wanted,
                   const struct muster_error *err, const char *word)
{
    if (status != wanted || (wanted && (err->status != wanted || !strstr(err->text, word)))) {
        printf("%s: %s '%s'\n", what, muster_status_name(status), err->text);
        surprises++;
    }
}

static muster_status function(muster_restart *restart, void *arg)
{
    struct muster_view view;

    (void)arg;
    muster_restart_view(restart, &view);
    if (view.size != 1 || view.rank != 0 || view.iteration != 0 || view.generation == 0) {
        printf("an odd view\n");
        surprises++;
    }
    entered++;
    return muster_restart_ping(restart);
}

static void handler(int signal)
{
    (void)signal;
}

static void run(muster_client *client, const char *what,
                const struct muster_restart_options *options, muster_status wanted,
                const char *word)
{
    struct muster_error err = {0};
    muster_status status = muster_restart_run(client, options, function, NULL, &err);

    expect(what, status, wanted, &err, word);
}

static void try_options(muster_client *client)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct sigaction action = {.sa_handler = handler};
    struct sigaction before;
    struct muster_error err = {0};

    expect("no function", muster_restart_run(client, NULL, NULL, NULL, &err), MUSTER_EINVAL, &err,
           "fn");
    options.size = 1;
    run(client, "size", &options, MUSTER_EINVAL, "size");
    options.size = sizeof(options);
    options.barrier_timeout_ms = -1;
    run(client, "barrier_timeout", &options, MUSTER_EINVAL, "barrier_timeout");
    options.barrier_timeout_ms = 0;
    options.interrupt_signal = SIGKILL;
    run(client, "SIGKILL", &options, MUSTER_EINVAL, "signal 9");
    options.interrupt_signal = SIGUSR2;
    sigaction(SIGUSR2, &action, &before);
    run(client, "a signal in use", &options, MUSTER_EINVAL, "handler");
    sigaction(SIGUSR2, &before, &action);
    if (action.sa_handler != handler) {
        printf("the handler was replaced\n");
        surprises++;
    }
    setenv("MUSTER_BARRIER_TIMEOUT", "soon", 1);
    run(client, "a setting without sense", NULL, MUSTER_EINVAL, "barrier");
    unsetenv("MUSTER_BARRIER_TIMEOUT");
    if (entered != 0) {
        printf("the function was entered\n");
        surprises++;
    }
    run(client, "a signal of choice", &options, MUSTER_OK, "");
    options.interrupt_signal = -1;
    run(client, "no signal", &options, MUSTER_OK, "");
}

static void try_observer(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_client *client;

    options.role = MUSTER_ROLE_OBSERVER;
    if (muster_client_open(&client, &options, 10000, &err)) {
        printf("no observer: %s\n", err.text);
        surprises++;
        return;
    }
    run(client, "an observer", NULL, MUSTER_EINVAL, "not a rank");
    muster_client_close(client);
}

int main(void)
{
    struct muster_error err = {0};
    muster_client *client;

    if (muster_client_open(&client, NULL, 10000, &err)) {
        printf("%s\n", err.text);
        return 1;
    }
    try_options(client);
    try_observer();
    muster_client_close(client);
    return surprises > 0 || entered != 2;
}
