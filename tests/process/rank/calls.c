/* SPDX-License-Identifier: Apache-2.0 */

/* A rank that never blocks in muster: it polls the client's descriptor and dispatches.
 *
 *   calls add        keeps 64 adds to 'n' open until there is a key 'stop', then tells how
 * many of them ended well, and the sum calls restart    in a run of a function: the first
 * attempt waits for what never comes, and tells how its calls ended; the next one meets all at a
 * barrier */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

enum { OPEN = 64, STEP = 500 };

static muster_client *client;

/* Until the client has something to dispatch; a signal may come between. */
static void turn(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    if (poll(&poller, 1, -1) > 0) {
        muster_client_dispatch(client);
    }
}

/* ---- adding ---- */

struct adding {
    muster_value *stop;
    bool stopped;
    int open, well;
    muster_status failed;
};

static void start_add(struct adding *adding);

static void added(void *ctx, muster_call *call)
{
    struct adding *adding = ctx;
    struct muster_error err;
    muster_status status = muster_call_wait(call, 0, &err);

    muster_call_free(call);
    adding->open--;
    if (status == MUSTER_OK) {
        if (++adding->well % STEP == 0) {
            say("added %d", adding->well);
        }
    } else {
        (void)fprintf(stderr, "rank: %s\n", err.text);
        adding->failed = status;
    }
    if (!adding->stopped && status == MUSTER_OK) {
        start_add(adding);
    }
}

static void start_add(struct adding *adding)
{
    muster_call *call = NULL;
    muster_status status = muster_key_add_start(client, "n", 1, NULL, -1, NULL, &call, NULL);

    if (status != MUSTER_OK) {
        adding->failed = status;
        return;
    }
    muster_call_on_done(call, added, adding);
    adding->open++;
}

static void told_to_stop(void *ctx, muster_call *call)
{
    struct adding *adding = ctx;

    adding->stopped = true;
    muster_call_free(call);
}

static muster_status add(int fd)
{
    struct adding adding = {0};
    muster_call *call = NULL;
    muster_status status =
        muster_key_get_start(client, "stop", NULL, -1, &adding.stop, &call, NULL);
    int64_t sum = 0;

    if (status != MUSTER_OK) {
        return status;
    }
    muster_call_on_done(call, told_to_stop, &adding);
    for (int i = 0; i < OPEN; i++) {
        start_add(&adding);
    }
    while (adding.failed == MUSTER_OK && (adding.open > 0 || !adding.stopped)) {
        turn(fd);
    }
    muster_value_free(adding.stop);
    status = muster_key_add(client, "n", 0, NULL, -1, &sum, NULL);
    say("well=%d sum=%" PRId64, adding.well, sum);
    return adding.failed ? adding.failed : status;
}

/* ---- a function that is run again ---- */

struct ended {
    muster_status status;
    bool over;
};

static void note(void *ctx, muster_call *call)
{
    struct ended *ended = ctx;

    ended->status = muster_call_wait(call, 0, NULL);
    ended->over = true;
    muster_call_free(call);
}

static muster_status wait_in_vain(muster_restart *restart, int fd)
{
    struct ended ends[2] = {{0}};
    muster_value *value = NULL;
    muster_call *calls[2];
    muster_status status = muster_key_get_start(client, "never", NULL, -1, &value, &calls[0], NULL);

    if (status != MUSTER_OK) {
        return status;
    }
    muster_call_on_done(calls[0], note, &ends[0]);
    status = muster_key_wait_start(client, (const char *const[]){"never", "ever"}, 2, NULL, -1,
                                   &calls[1], NULL);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_call_on_done(calls[1], note, &ends[1]);
    say("waits");
    while (!ends[0].over || !ends[1].over) {
        turn(fd);
    }
    say("ended %s %s", muster_status_name(ends[0].status), muster_status_name(ends[1].status));
    return muster_restart_check(restart);
}

static muster_status meet(int fd)
{
    struct ended ended = {0};
    muster_call *call = NULL;
    muster_status status = muster_barrier_wait_start(client, "meet", -1, &call, NULL);

    if (status != MUSTER_OK) {
        return status;
    }
    muster_call_on_done(call, note, &ended);
    while (!ended.over) {
        turn(fd);
    }
    return ended.status;
}

static muster_status work(muster_restart *restart, void *arg)
{
    int fd = *(int *)arg;
    struct muster_view view;
    muster_status status;

    muster_restart_view(restart, &view);
    say("attempt=%" PRIu64 " index=%" PRIu32 " size=%" PRIu32 " pid=%d", view.iteration, view.index,
        view.size, (int)getpid());
    status = view.iteration == 0 ? wait_in_vain(restart, fd) : meet(fd);
    if (status == MUSTER_OK) {
        say("met %" PRIu32, view.size);
    }
    return status;
}

int rank_calls(int argc, char **argv)
{
    struct muster_error err = {0};
    muster_status status = muster_client_open(&client, NULL, -1, &err);
    int fd = -1;

    if (status == MUSTER_OK) {
        status = muster_client_fd(client, &fd, &err);
    }
    if (status == MUSTER_OK && argc > 1 && strcmp(argv[1], "restart") == 0) {
        status = muster_restart_run(client, NULL, work, &fd, &err);
    } else if (status == MUSTER_OK) {
        status = add(fd);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "rank: %s: %s\n", muster_status_name(status), err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
