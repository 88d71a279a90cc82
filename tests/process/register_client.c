/* SPDX-License-Identifier: Apache-2.0 */

/* A client that calls a few keys as its seed says, and writes each call as linearizable.py reads
 * it: its number, start and end in nanoseconds of the monotonic clock, what was called, and how it
 * ended. It also inserts keys of its own that nobody else writes ("own NAME kept|refused|unknown").
 * It ends when its stdin does.
 *
 *   register_client NUMBER SEED KEYS PAUSE_MS */

#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "muster/muster.h"

enum { KEYS_MAX = 64, OWN_EVERY = 16, SHORT_MS = 1000 };

static muster_client *client;
static struct muster_error err;
static uint64_t dice;
static unsigned number, calls;
static uint64_t seen[KEYS_MAX]; /* the revision of each key as this client saw it last; 0: absent */

static uint64_t draw(uint64_t below)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice % below;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Half of the calls give up soon, and do not know then what became of them. */
static int64_t patience_ms(void)
{
    return draw(2) ? -1 : SHORT_MS;
}

/* Of what did not succeed. */
static const char *outcome(muster_status status)
{
    if (status == MUSTER_ECONFLICT || status == MUSTER_EEXISTS) {
        return "conflict";
    }
    if (status == MUSTER_ENOSPACE) {
        return "refused";
    }
    if (status == MUSTER_ETIMEDOUT || status == MUSTER_EUNREACHABLE) {
        return "unknown";
    }
    (void)printf("wrong: %s\n", err.text);
    (void)fflush(stdout);
    exit(1);
}

/* What comes behind the name of the key: what was asked, and how it ended. */
struct said {
    char text[128];
};

static void say(struct said *said, const char *asked, muster_status status, uint64_t result)
{
    if (status == MUSTER_OK) {
        (void)snprintf(said->text, sizeof said->text, "%s ok %" PRIu64, asked, result);
    } else {
        (void)snprintf(said->text, sizeof said->text, "%s %s", asked, outcome(status));
    }
}

static const char *write_value(const char *key, unsigned place, bool cas, struct said *said)
{
    char text[24], asked[64];
    /* What is added later keeps the values of two writes apart. */
    uint64_t value = ((uint64_t)(number + 1) * 1000000000U + calls) * 10000;
    struct muster_slice bytes = {text, (size_t)snprintf(text, sizeof text, "%" PRIu64, value)};
    uint64_t expected = seen[place], revision = 0;
    muster_status status =
        cas ? muster_key_cas(client, key, expected, bytes, NULL, patience_ms(), &revision, &err)
            : muster_key_put(client, key, bytes, NULL, patience_ms(), &revision, &err);

    if (cas) {
        (void)snprintf(asked, sizeof asked, "%" PRIu64 " %s", expected, text);
    } else {
        (void)snprintf(asked, sizeof asked, "%s", text);
    }
    say(said, asked, status, revision);
    if (status == MUSTER_OK) {
        seen[place] = revision;
    }
    return cas ? "cas" : "put";
}

static const char *add_one(const char *key, struct said *said)
{
    int64_t sum = 0;
    muster_status status = muster_key_add(client, key, 1, NULL, patience_ms(), &sum, &err);

    say(said, "1", status, (uint64_t)sum);
    return "add";
}

static const char *delete (const char *key, struct said *said)
{
    muster_status status = muster_key_delete(client, key, NULL, patience_ms(), &err);

    (void)snprintf(said->text, sizeof said->text, "%s",
                   status == MUSTER_OK ? "ok" : outcome(status));
    return "delete";
}

static const char *get(const char *key, unsigned place, struct said *said)
{
    muster_value *value = NULL;
    muster_status status = muster_key_get(client, key, NULL, 0, &value, &err);

    if (status == MUSTER_OK) {
        seen[place] = muster_value_revision(value);
        (void)snprintf(said->text, sizeof said->text, "ok %s %" PRIu64,
                       (const char *)muster_value_data(value), seen[place]);
    } else if (status == MUSTER_ENOTFOUND) {
        seen[place] = 0;
        (void)snprintf(said->text, sizeof said->text, "ok");
    } else {
        (void)snprintf(said->text, sizeof said->text, "%s", outcome(status));
    }
    muster_value_free(value);
    return "get";
}

static void call_next(unsigned keys)
{
    unsigned place = (unsigned)draw(keys), what = (unsigned)draw(100);
    struct said said;
    char key[16];
    const char *op;
    uint64_t start;

    (void)snprintf(key, sizeof key, "k%u", place);
    start = now_ns();
    if (what < 35) {
        op = get(key, place, &said);
    } else if (what < 55) {
        op = write_value(key, place, false, &said);
    } else if (what < 75) {
        op = write_value(key, place, true, &said);
    } else if (what < 95) {
        op = add_one(key, &said);
    } else {
        op = delete (key, &said);
    }
    (void)printf("%u %" PRIu64 " %" PRIu64 " %s %s %s\n", number, start, now_ns(), op, key,
                 said.text);
}

static void insert_own(void)
{
    char key[48];
    muster_status status;

    (void)snprintf(key, sizeof key, "own-%u-%u", number, calls);
    status = muster_key_insert(client, key, (struct muster_slice){"1", 1}, NULL, patience_ms(),
                               NULL, &err);
    (void)printf("own %s %s\n", key, status == MUSTER_OK ? "kept" : outcome(status));
}

int main(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned keys;
    uint64_t pause_ms;

    if (argc != 5) {
        return 2;
    }
    number = (unsigned)strtoul(argv[1], NULL, 10);
    dice = strtoull(argv[2], NULL, 10) * 1000003 + number + 1;
    keys = (unsigned)strtoul(argv[3], NULL, 10);
    pause_ms = strtoull(argv[4], NULL, 10);
    options.role = MUSTER_ROLE_OBSERVER;
    if (keys == 0 || keys > KEYS_MAX ||
        muster_client_open(&client, &options, -1, &err) != MUSTER_OK) {
        (void)printf("wrong: %s\n", err.text);
        return 1;
    }
    (void)printf("open\n");
    do {
        calls++;
        call_next(keys);
        if (calls % OWN_EVERY == 0) {
            insert_own();
        }
        (void)fflush(stdout);
    } while (poll(&input, 1, (int)draw(pause_ms + 1)) == 0);
    muster_client_close(client);
    return 0;
}
