/* SPDX-License-Identifier: Apache-2.0 */

/* Very many ranks in one process, each with a thread and a connection of its own. Says "in" when
 * all are, then waits for a line on stdin; each of them adds 1 to a key, and "back" says that all
 * could.
 *
 *   crowd COUNT */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "muster/muster.h"

enum { STACK = 256 * 1024, RANKS_MAX = 10000 };

static uint32_t count;
static pthread_barrier_t all;

_Noreturn static void give_up(const char *what, const struct muster_error *err)
{
    (void)printf("wrong: %s: %s\n", what, err->text);
    exit(1);
}

static void *be_a_rank(void *unused)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err;
    muster_client *client;

    options.index = MUSTER_INDEX_ANY;
    options.size_of_job = count;
    if (muster_client_open(&client, &options, -1, &err) != MUSTER_OK) {
        give_up("open", &err);
    }
    (void)pthread_barrier_wait(&all);
    (void)pthread_barrier_wait(&all);
    if (muster_key_add(client, "sum", 1, NULL, -1, NULL, &err) != MUSTER_OK) {
        give_up("add", &err);
    }
    (void)pthread_barrier_wait(&all);
    muster_client_close(client);
    return unused;
}

int main(int argument_count, char **arguments)
{
    pthread_attr_t attributes;
    static pthread_t threads[RANKS_MAX];

    count = argument_count == 2 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 0;
    if (count > RANKS_MAX || pthread_barrier_init(&all, NULL, count + 1) != 0 ||
        pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, STACK) != 0) {
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (pthread_create(&threads[i], &attributes, be_a_rank, NULL) != 0) {
            return 1;
        }
    }
    (void)pthread_barrier_wait(&all);
    (void)puts("in");
    (void)fflush(stdout);
    (void)getchar();
    (void)pthread_barrier_wait(&all);
    (void)pthread_barrier_wait(&all);
    (void)puts("back");
    (void)fflush(stdout);
    for (uint32_t i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_barrier_destroy(&all);
    return 0;
}
