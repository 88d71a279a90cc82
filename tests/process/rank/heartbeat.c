/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat [ORDER,ORDER,...]
 *
 * A rank whose heart beats. It tells each step as a line, carries out the orders of its command
 * line, and then one order per line of its stdin, one of those of rank.h or:
 *
 *   start               the heartbeat, with the options of the environment
 *   stop                it
 *   close               of the client
 *   forge A B TOKEN     takes part by hand: contributes A and -B to the agreement (0: nothing of
 *                       its own), and then TOKEN in each period
 *   run                 a function that ends when there is a key 'done', and lingers in its
 *                       finalize for LINGER_MS after a fault
 *   barrier NAME        meets the others
 *
 * It ends with its stdin. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

static muster_client *client;
static muster_heartbeat *heartbeat;

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    (void)level;
    say("log: %s", line);
}

static void on_crash(void *ctx, const char *line)
{
    say("crash %s: %s", (const char *)ctx, line);
}

static void start(void)
{
    static char word[] = "told";
    struct muster_heartbeat_options options = MUSTER_HEARTBEAT_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_heartbeat *before = heartbeat;
    muster_heartbeat *started = NULL;
    muster_status status;

    options.on_crash = on_crash;
    options.ctx = word;
    status = muster_heartbeat_start(&started, client, &options, &err);
    if (status != MUSTER_OK) {
        say("refused %d: %s", (int)status, err.text);
        return;
    }
    heartbeat = started;
    say("started %s", before == started ? "the same" : "anew");
}

/* ---- by hand ---- */

static void put(unsigned char *at, int64_t number)
{
    for (unsigned byte = 0; byte < 8; byte++) {
        at[byte] = (unsigned char)((uint64_t)number >> (8 * byte));
    }
}

static muster_status contribute(enum muster_reduce reduce, int64_t deadline_ms, const void *data,
                                size_t size)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_slice mine = {data, size};

    options.reduce = reduce;
    options.deadline_ms = deadline_ms;
    options.on_loss = MUSTER_ON_LOSS_PROCEED;
    return muster_round_join(client, "muster/heartbeat", &options, mine, -1, NULL, NULL);
}

static void forge(long a, long b, long token)
{
    unsigned char terms[32];
    unsigned char bytes[2] = {(unsigned char)token, (unsigned char)(token >> 8)};
    const char *timeout = getenv("MUSTER_HEARTBEAT_TIMEOUT");
    muster_status status;

    put(terms, a != 0 ? a : INT64_MIN);
    put(terms + 8, b != 0 ? -b : INT64_MIN);
    put(terms + 16, 1);
    put(terms + 24, 1);
    say("agreed %d", (int)contribute(MUSTER_REDUCE_MAX, 0, terms, sizeof(terms)));
    do {
        status = contribute(MUSTER_REDUCE_EQUAL, timeout ? strtol(timeout, NULL, 10) : 0, bytes, 2);
        say("showed %d", (int)status);
    } while (status == MUSTER_OK);
}

/* ---- a run ---- */

static muster_status linger(muster_restart *restart, void *arg)
{
    const char *ms = getenv("LINGER_MS");

    (void)restart;
    (void)arg;
    say("unwinds");
    (void)poll(NULL, 0, ms ? (int)strtol(ms, NULL, 10) : 0);
    return MUSTER_OK;
}

static muster_status function(muster_restart *restart, void *arg)
{
    struct muster_view view;
    muster_value *value = NULL;
    muster_status status;

    (void)arg;
    muster_restart_view(restart, &view);
    say("entered generation=%" PRIu64 " rank=%u size=%u", view.generation, view.rank, view.size);
    status = muster_key_get(client, "done", NULL, -1, &value, NULL);
    muster_value_free(value);
    return status;
}

static void run(void)
{
    const struct muster_restart_hook hook = {linger, NULL};
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_status status;

    options.finalize = (struct muster_restart_hooks){&hook, 1};
    status = muster_restart_run(client, &options, function, NULL, &err);
    say("ran %d %s", (int)status, err.text);
}

/* ---- orders ---- */

static void obey(char *order)
{
    char *rest = order_split(order);
    struct muster_error err = {0};
    char *end;

    if (strcmp(order, "start") == 0) {
        start();
    } else if (strcmp(order, "stop") == 0) {
        muster_heartbeat_stop(heartbeat);
        say("stopped");
    } else if (strcmp(order, "close") == 0) {
        muster_client_close(client);
        client = NULL;
        say("closed");
    } else if (strcmp(order, "forge") == 0) {
        long a = strtol(rest, &end, 10);
        long b = strtol(end, &end, 10);

        forge(a, b, strtol(end, NULL, 10));
    } else if (strcmp(order, "run") == 0) {
        run();
    } else if (strcmp(order, "barrier") == 0) {
        muster_status status = muster_barrier_wait(client, rest, -1, &err);

        say("met %d %s", (int)status, err.text);
    } else if (!order_obey(order, rest)) {
        say("no such order: %s", order);
    }
}

int rank_heartbeat(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    struct muster_view view;
    char line[256];

    options.log = on_log;
    if (muster_client_open(&client, &options, -1, &err) != MUSTER_OK) {
        say("not opened: %s", err.text);
        return 2;
    }
    muster_client_view(client, &view);
    say("opened index=%u pid=%d generation=%" PRIu64, view.index, (int)getpid(), view.generation);
    for (char *rest = argc > 1 ? argv[1] : NULL; rest;) {
        obey(strsep(&rest, ","));
    }
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
    }
    return 0;
}
