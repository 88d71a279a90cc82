/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter sweep: eight workers run an external program once for each of 128 values of a
 * parameter. Each value has its result once, however many workers are killed meanwhile.
 *
 * The first process is the coordinator, the others are workers. They may be killed at any time:
 * `muster run` restarts them, and their closures run elsewhere.
 *
 *   muster run -n 9 --max-restarts 100 --no-label -- cluster_sweep
 *
 * The program is awk here: it iterates x -> r x (1 - x) and prints how fast two neighbours part
 * (the Lyapunov exponent): below 0 there is order, above it chaos. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <muster/muster.h>
#include <muster/worker.h>

enum { RATES = 128 };

/* The closure's arguments, which follow, are `r`. */
static const char *const program[] = {
    "awk",
    "BEGIN { r = ARGV[1]; x = 0.4; sum = 0; n = 200000;"
    "        for (i = 0; i < n; i++) {"
    "            x = r * x * (1 - x);"
    "            slope = r * (1 - 2 * x);"
    "            sum += log(slope < 0 ? -slope : slope);"
    "        }"
    "        printf \"%.3f\", sum / n }",
    NULL,
};

static muster_status work(muster_client *client, struct muster_error *err)
{
    muster_worker *worker = NULL;
    muster_status status = muster_worker_open(&worker, client, NULL, err);

    if (status == MUSTER_OK) {
        status = muster_worker_register_command(worker, "exponent", 1, MUSTER_FUNCTION_PURE,
                                                program, NULL, err);
    }
    if (status == MUSTER_OK) {
        status = muster_worker_serve(worker, err);
    }
    muster_worker_close(worker);
    return status;
}

static double rate_of(int i)
{
    return 2.9 + 1.1 * i / (RATES - 1);
}

static muster_status schedule(muster_cluster *cluster, muster_closure *closure[RATES],
                              struct muster_error *err)
{
    muster_status status = MUSTER_OK;

    for (int i = 0; status == MUSTER_OK && i < RATES; i++) {
        char rate[16];
        struct muster_part part = {.data = rate,
                                   .size = (size_t)snprintf(rate, sizeof rate, "%.4f", rate_of(i))};
        status = muster_cluster_schedule(cluster, "exponent", &part, 1, NULL, -1, &closure[i], err);
    }
    return status;
}

/* In the order of the parameter, for any order of arrival. */
static muster_status tell(muster_closure *closure[RATES], struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    int chaos = 0;

    for (int i = 0; status == MUSTER_OK && i < RATES; i++) {
        const struct muster_part *part = NULL;
        size_t count = 0;
        status = muster_closure_fetch(closure[i], -1, &part, &count, err);
        if (status == MUSTER_OK && count == 1) {
            printf("rate %.4f exponent %.*s\n", rate_of(i), (int)part->size,
                   (const char *)part->data);
            chaos += part->size > 0 && *(const char *)part->data != '-';
        }
    }
    if (status == MUSTER_OK) {
        printf("%d of %d are chaotic\n", chaos, RATES);
    }
    return status;
}

static muster_status sweep(muster_client *client, struct muster_error *err)
{
    muster_closure *closure[RATES] = {NULL};
    muster_cluster *cluster = NULL;
    muster_status status = muster_cluster_open(&cluster, client, NULL, -1, err);

    /* Dismissed already: the process before this one was killed when its work was done. */
    if (status == MUSTER_OK && !muster_cluster_dismissed(cluster)) {
        status = schedule(cluster, closure, err);
        if (status == MUSTER_OK) {
            status = muster_cluster_join(cluster, -1, err);
        }
        if (status == MUSTER_OK) {
            status = tell(closure, err);
        }
    }
    for (int i = 0; i < RATES; i++) {
        muster_closure_release(closure[i]);
    }
    if (status == MUSTER_OK) {
        status = muster_cluster_dismiss(cluster, -1, err); /* all workers end */
    }
    muster_cluster_close(cluster);
    return status;
}

int main(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    struct muster_view me;
    muster_client *client = NULL;

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    options.role = MUSTER_ROLE_WORKER;      /* a member, and no rank of a generation */
    muster_status status = muster_client_open(&client, &options, -1, &err);
    if (status == MUSTER_OK) {
        muster_client_view(client, &me);
        status = me.index == 0 ? sweep(client, &err) : work(client, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "sweep: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
