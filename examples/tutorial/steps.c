/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <muster/muster.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 100, SAVE_EVERY = 10, PAUSE_MS = 20 };

struct sum {
    int64_t step, total;
};

/* Loads the last save; without one, the beginning. */
static muster_status load(muster_client *client, struct sum *sum)
{
    muster_value *value = NULL;
    muster_status status = muster_key_get(client, "saved", NULL, 0, &value, NULL);

    *sum = (struct sum){0, 0};
    if (status == MUSTER_OK) {
        char *rest;

        sum->step = strtoll(muster_value_data(value), &rest, 10);
        sum->total = strtoll(rest, NULL, 10);
    }
    muster_value_free(value);
    return status == MUSTER_ENOTFOUND ? MUSTER_OK : status;
}

static muster_status save(muster_client *client, const struct sum *sum)
{
    char text[64];
    int size =
        snprintf(text, sizeof text, "%lld %lld", (long long)sum->step, (long long)sum->total);

    return muster_key_put(client, "saved", (struct muster_slice){text, (size_t)size}, NULL, -1,
                          NULL, NULL);
}

/* Whether the key "enough" exists. */
static int64_t is_enough(muster_client *client)
{
    muster_value *value = NULL;
    muster_status status = muster_key_get(client, "enough", NULL, 0, &value, NULL);

    muster_value_free(value);
    return status == MUSTER_OK;
}

/* One step: each rank adds up its share of the next numbers, and a round adds up the shares. */
static muster_status add(muster_client *client, const struct muster_view *me, struct sum *sum,
                         int64_t *enough)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    int64_t first = sum->step * NUMBERS + 1, mine[2] = {0, 0};
    muster_round_result *result = NULL;
    muster_status status;

    for (int64_t i = me->rank; i < NUMBERS; i += me->size) {
        mine[0] += first + i;
    }
    if (me->rank == 0) {
        mine[1] = is_enough(client); /* one rank looks, so that all agree */
    }
    options.reduce = MUSTER_REDUCE_SUM;
    status = muster_round_join(client, "shares", &options, (struct muster_slice){mine, sizeof mine},
                               -1, &result, NULL);
    if (status == MUSTER_OK) {
        sum->total += muster_round_int64(result, 0);
        *enough = muster_round_int64(result, 1);
        sum->step++;
    }
    muster_round_free(result);
    return status;
}

/* May be called many times. It begins at the last save, and returns what check and rounds return.
 */
static muster_status work(muster_restart *restart, void *client)
{
    struct muster_view me;
    struct sum sum;
    int64_t enough = 0;
    muster_status status = load(client, &sum);

    muster_restart_view(restart, &me);
    printf("rank %u of %u goes on from step %lld\n", me.rank, me.size, (long long)sum.step);
    while (status == MUSTER_OK && !enough) {
        (void)poll(NULL, 0, PAUSE_MS); /* here a real program computes */
        status = muster_restart_ping(restart);
        if (status == MUSTER_OK) {
            status = add(client, &me, &sum, &enough);
        }
        if (status == MUSTER_OK && me.rank == 0 && sum.step % SAVE_EVERY == 0) {
            status = save(client, &sum);
        }
    }
    if (status == MUSTER_OK && me.rank == 0) {
        int64_t n = sum.step * NUMBERS;

        printf("%lld steps, and the sum is %s\n", (long long)sum.step,
               sum.total == n * (n + 1) / 2 ? "right" : "wrong");
    }
    return status;
}

int main(void)
{
    struct muster_error err = {0};
    muster_client *client = NULL;
    muster_status status = muster_client_open(&client, NULL, -1, &err);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    if (status == MUSTER_OK) {
        status = muster_restart_run(client, NULL, work, client, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "steps: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
