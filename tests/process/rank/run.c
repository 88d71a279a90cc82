/* SPDX-License-Identifier: Apache-2.0 */

/* run [MIB]
 *
 * A rank of `muster run` that says on stdout where it is. In each generation it waits for the key
 * order-INDEX-GENERATION and carries out its value, one of those of rank.h or:
 *
 *   wait      for another order, in order-INDEX-GENERATION-then, as after each that the process
 *             survives
 *
 * MIB: how much memory it has resident. */

#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "events.h"
#include "muster/muster.h"
#include "rank.h"

static muster_client *client;

/* MORE: it is still here, and needs another order. */
static muster_status obey(muster_restart *restart, char *order)
{
    char *rest = order_split(order);
    muster_status status;

    if (order_ends(restart, order, rest, &status)) {
        return status;
    }
    (void)fprintf(stderr, "order: %s %s\n", order, rest);
    if (!order_obey(order, rest) && strcmp(order, "wait") != 0) {
        die(order);
    }
    return MUSTER_MORE;
}

/* Asks again and again, because a newcomer is let in at checks only. */
static muster_status next_order(muster_restart *restart, const char *key)
{
    struct muster_error err;
    muster_value *value = NULL;
    muster_status status;

    do {
        status = muster_restart_ping(restart);
        if (status == MUSTER_OK) {
            status = muster_key_get(client, key, NULL, 20, &value, &err);
        }
    } while (status == MUSTER_ETIMEDOUT);
    if (status == MUSTER_OK) {
        char order[LINE_ROOM];

        (void)snprintf(order, sizeof order, "%s", (const char *)muster_value_data(value));
        status = obey(restart, order);
    } else if (status != MUSTER_EINTERRUPTED) {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    muster_value_free(value);
    return status;
}

static muster_status work(muster_restart *restart, void *arg)
{
    struct muster_view view;
    char key[64];
    muster_status status;

    (void)arg;
    muster_restart_view(restart, &view);
    say("entered generation=%" PRIu64 " rank=%" PRIu32 " size=%" PRIu32 " iteration=%" PRIu64
        " index=%" PRIu32 " pid=%d",
        view.generation, view.rank, view.size, view.iteration, view.index, (int)getpid());
    (void)snprintf(key, sizeof key, "order-%" PRIu32 "-%" PRIu64, view.index, view.generation);
    status = next_order(restart, key);
    if (status == MUSTER_MORE) {
        (void)snprintf(key, sizeof key, "order-%" PRIu32 "-%" PRIu64 "-then", view.index,
                       view.generation);
        status = next_order(restart, key);
    }
    return status;
}

int rank_run(int argc, char **argv)
{
    struct muster_error err;
    muster_status status;

    if (argc > 1) {
        be_large(argv[1]);
    }
    status = muster_client_open(&client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(client, NULL, work, NULL, &err);
        muster_client_close(client);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "rank: %s\n", err.text);
    }
    say("finished pid=%d", (int)getpid());
    return muster_exit_code(status);
}
