/* SPDX-License-Identifier: Apache-2.0 */

/* journal
 *
 * A rank that never rests: rounds, a seal after every few of them, and beside that, through a
 * second session, writes whose outcome it knows. When the key "stop" is there it reads everything
 * back and says "verified", or what is wrong. */

#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

enum { ROUNDS = 7, SAY_EVERY = 50 };

static muster_client *client, *writer;
static uint64_t written, rounds;
static uint32_t place;

_Noreturn static void give_up(const char *what, const struct muster_error *err)
{
    say("wrong: %s: %s", what, err ? err->text : "");
    exit(1);
}

static void name(char key[64], const char *kind)
{
    (void)snprintf(key, 64, "%s-%" PRIu32, kind, place);
}

/* Each number once, three ways. */
static void write_next(void)
{
    struct muster_error err;
    char key[64], text[32];
    struct muster_slice value = {text, 0};

    written++;
    value.size = (size_t)snprintf(text, sizeof text, "%" PRIu64 ",", written);
    name(key, "sum");
    if (muster_key_add(writer, key, 1, NULL, -1, NULL, &err) != MUSTER_OK) {
        give_up("add", &err);
    }
    name(key, "list");
    if (muster_key_append(writer, key, value, NULL, -1, NULL, &err) != MUSTER_OK) {
        give_up("append", &err);
    }
    (void)snprintf(key, sizeof key, "key-%" PRIu32 "-%" PRIu64, place, written);
    if (muster_key_insert(writer, key, value, NULL, -1, NULL, &err) != MUSTER_OK) {
        give_up("insert", &err);
    }
    if (written % SAY_EVERY == 0) {
        say("wrote %" PRIu64, written);
    }
}

static bool told_to_stop(void)
{
    muster_value *value = NULL;
    muster_status status = muster_key_get(writer, "stop", NULL, 0, &value, NULL);

    muster_value_free(value);
    return status == MUSTER_OK;
}

static muster_status work(muster_restart *restart, void *arg)
{
    struct muster_view view;
    struct muster_error err;

    (void)arg;
    muster_restart_view(restart, &view);
    for (unsigned i = 0; i < ROUNDS || view.rank != 0; i++) {
        struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
        int64_t mine[2] = {1, told_to_stop()};
        muster_round_result *result = NULL;
        muster_status status;
        int64_t count, stop;

        write_next();
        options.reduce = MUSTER_REDUCE_SUM;
        status = muster_round_join(client, "count", &options,
                                   (struct muster_slice){mine, sizeof mine}, -1, &result, &err);
        count = muster_round_int64(result, 0);
        stop = muster_round_int64(result, 1);
        muster_round_free(result);
        if (status == MUSTER_EINTERRUPTED) {
            return status;
        }
        if (status != MUSTER_OK) {
            give_up("round", &err);
        }
        if (count != view.size) {
            give_up("a round counted somebody twice, or not at all", NULL);
        }
        rounds++;
        if (stop > 0) {
            return MUSTER_OK;
        }
    }
    return muster_restart_again(restart);
}

static void verify(void)
{
    struct muster_error err;
    muster_value *value = NULL;
    muster_keys *keys = NULL;
    char key[64], expected[32];
    const char *at;

    name(key, "sum");
    (void)snprintf(expected, sizeof expected, "%" PRIu64, written);
    if (muster_key_get(writer, key, NULL, 0, &value, &err) != MUSTER_OK ||
        strcmp(muster_value_data(value), expected) != 0) {
        give_up("the sum is another", NULL);
    }
    muster_value_free(value);
    name(key, "list");
    if (muster_key_get(writer, key, NULL, 0, &value, &err) != MUSTER_OK) {
        give_up("the list", &err);
    }
    at = muster_value_data(value);
    for (uint64_t i = 1; i <= written; i++) {
        int size = snprintf(expected, sizeof expected, "%" PRIu64 ",", i);

        if (strncmp(at, expected, (size_t)size) != 0) {
            give_up("the list lacks a number, or has one twice", NULL);
        }
        at += size;
    }
    if (*at != '\0') {
        give_up("the list has more", NULL);
    }
    muster_value_free(value);
    (void)snprintf(key, sizeof key, "key-%" PRIu32 "-", place);
    if (muster_key_list(writer, key, NULL, -1, &keys, &err) != MUSTER_OK ||
        muster_keys_count(keys) != written) {
        give_up("a key is missing, or one too many", NULL);
    }
    muster_keys_free(keys);
}

int rank_journal(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err;
    struct muster_view view;
    muster_status status = muster_client_open(&client, NULL, -1, &err);

    (void)argc;
    (void)argv;
    options.role = MUSTER_ROLE_OBSERVER;
    if (status != MUSTER_OK || muster_client_open(&writer, &options, -1, &err) != MUSTER_OK) {
        give_up("open", &err);
    }
    muster_client_view(client, &view);
    place = view.index;
    say("begun index=%" PRIu32 " pid=%d", place, (int)getpid());
    status = muster_restart_run(client, NULL, work, NULL, &err);
    if (status != MUSTER_OK) {
        give_up("run", &err);
    }
    verify();
    muster_client_view(client, &view);
    say("verified index=%" PRIu32 " written=%" PRIu64 " rounds=%" PRIu64 " generation=%" PRIu64,
        place, written, rounds, view.generation);
    muster_client_close(writer);
    muster_client_close(client);
    return 0;
}
