/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking put and get of one small key, one after the other, by an observer of the job that
 * MUSTER_ADDR and MUSTER_JOB name. keys [-p none|same] COUNT */
#define _GNU_SOURCE
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>

enum { VALUE_BYTES = 16, WARM = 500 };

static void need(muster_status status, const struct muster_error *err)
{
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "keys: %s\n", err->text);
        exit(1);
    }
}

static void put(muster_client *client)
{
    static const char value[VALUE_BYTES] = "a small value";
    struct muster_error err = {0};
    need(muster_key_put(client, "bench", (struct muster_slice){value, sizeof value}, NULL, -1, NULL,
                        &err),
         &err);
}

static void get(muster_client *client)
{
    struct muster_error err = {0};
    muster_value *value = NULL;
    need(muster_key_get(client, "bench", NULL, 0, &value, &err), &err);
    muster_value_free(value);
}

static void repeat(muster_client *client, const char *name, void (*call)(muster_client *client),
                   size_t count)
{
    uint64_t *sample = calloc(count, sizeof *sample);
    if (sample == NULL) {
        die("calloc");
    }
    for (size_t i = 0; i < WARM + count; i++) {
        uint64_t begin = now_ns();
        call(client);
        if (i >= WARM) {
            sample[i - WARM] = now_ns() - begin;
        }
    }
    report(name, sample, count);
    free(sample);
}

int main(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_client *client = NULL;
    long count = 0;
    if (argc == 4 && strcmp(argv[1], "-p") == 0 && pinning_set(argv[2])) {
        argv += 2;
        argc -= 2;
    }
    if (argc != 2 || !parse_number(argv[1], &count) || count < 1) {
        (void)fprintf(stderr, "usage: keys [-p none|same] COUNT\n");
        return 2;
    }
    pin(false); /* before there is a second thread, which then stays here too */
    options.role = MUSTER_ROLE_OBSERVER;
    need(muster_client_open(&client, &options, 10000, &err), &err);
    repeat(client, "put", put, (size_t)count);
    repeat(client, "get", get, (size_t)count);
    muster_client_close(client);
    return 0;
}
