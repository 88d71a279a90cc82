/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a libuv loop never blocks in muster: a uv_poll_t on the client's descriptor
 * dispatches, and started calls end in a callback of that. A timer of each rank puts three keys.
 * Each rank follows all keys: the callback of each change starts the wait for the next one.
 *
 *   muster run -n 3 -- async_uv */
#define _GNU_SOURCE /* uv.h */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { TICKS = 3, TICK_MS = 20 };

struct rank {
    muster_client *client;
    struct muster_view me;
    uv_poll_t poll;
    uv_timer_t timer;
    muster_watch *watch;
    struct muster_event event; /* the result of the open call of the watch */
    unsigned ticks, put, seen;
};

static void need(muster_status status, const struct muster_error *err)
{
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "%s\n", err->text);
        exit(1);
    }
}

/* Nothing is left: the loop ends. */
static void end_if_done(struct rank *rank)
{
    if (rank->put == TICKS && rank->seen == TICKS * rank->me.size) {
        uv_close((uv_handle_t *)&rank->poll, NULL);
    }
}

static void put_done(void *ctx, muster_call *call)
{
    struct rank *rank = ctx;
    struct muster_error err;

    need(muster_call_wait(call, 0, &err), &err); /* it is over: this does not wait */
    muster_call_free(call);
    rank->put++;
    end_if_done(rank);
}

static void on_tick(uv_timer_t *timer)
{
    struct rank *rank = timer->data;
    struct muster_error err;
    muster_call *call = NULL;
    char key[64];

    (void)snprintf(key, sizeof(key), "tick/%u/%u", rank->me.rank, rank->ticks++);
    need(muster_key_put_start(rank->client, key, (struct muster_slice){0}, NULL, -1, NULL, &call,
                              &err),
         &err);
    muster_call_on_done(call, put_done, rank);
    if (rank->ticks == TICKS) {
        uv_close((uv_handle_t *)timer, NULL);
    }
}

static void follow(struct rank *rank);

static void change_done(void *ctx, muster_call *call)
{
    struct rank *rank = ctx;
    struct muster_error err;

    need(muster_call_wait(call, 0, &err), &err);
    muster_call_free(call);
    if (++rank->seen < TICKS * rank->me.size) {
        follow(rank);
    }
    end_if_done(rank);
}

static void follow(struct rank *rank)
{
    struct muster_error err;
    muster_call *call = NULL;

    need(muster_watch_next_start(rank->watch, -1, &rank->event, &call, &err), &err);
    muster_call_on_done(call, change_done, rank);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    muster_client_dispatch(((struct rank *)poll->data)->client);
}

int main(void)
{
    struct rank rank = {0};
    struct muster_watch_options options = MUSTER_WATCH_OPTIONS_INIT;
    struct muster_error err;
    int fd = -1;

    need(muster_client_open(&rank.client, NULL, 10000, &err), &err);
    need(muster_client_fd(rank.client, &fd, &err), &err);
    muster_client_view(rank.client, &rank.me);
    options.prefix = "tick/";
    need(muster_watch_open(&rank.watch, rank.client, &options, &err), &err);
    rank.poll.data = rank.timer.data = &rank;
    (void)uv_poll_init(uv_default_loop(), &rank.poll, fd);
    (void)uv_poll_start(&rank.poll, UV_READABLE, on_readable);
    (void)uv_timer_init(uv_default_loop(), &rank.timer);
    (void)uv_timer_start(&rank.timer, on_tick, TICK_MS, TICK_MS);
    follow(&rank);
    (void)uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    printf("rank %u saw %u ticks of %u ranks\n", rank.me.rank, rank.seen, rank.me.size);
    muster_watch_close(rank.watch);
    muster_client_close(rank.client);
    return 0;
}
