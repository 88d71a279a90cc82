/* SPDX-License-Identifier: Apache-2.0 */
/* Per-worker values, and the datasets that make them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tasks/shell/coordinator/cluster.h"

/* How a value is built. What it points at is borrowed. */
struct recipe {
    const char *function;
    struct mst_parts parts;
    uint32_t version;
    bool eager;
};

struct muster_per_worker {
    muster_cluster *cluster; /* its memory is held */
    uint64_t number;
    struct mst_coord_outcome *fetched; /* by the last fetch */
};

struct muster_dataset {
    muster_cluster *cluster; /* likewise */
    struct recipe recipe;    /* its parts and its function lie behind */
};

uint64_t mst_per_worker_number(const muster_per_worker *value, const muster_cluster *cluster)
{
    return value && value->cluster == cluster ? value->number : 0;
}

/* ---- per-worker values ---- */

static muster_status read_recipe(struct recipe *out, const struct muster_part *parts, size_t count,
                                 const struct muster_per_worker_options *given, const char *what,
                                 struct muster_error *err)
{
    struct muster_per_worker_options options = MUSTER_PER_WORKER_OPTIONS_INIT;
    muster_status status = mst_coord_parts_check(parts, count, what, err);

    if (status == MUSTER_OK) {
        status = mst_lib_options(&options, sizeof(options), given, "MUSTER_PER_WORKER_OPTIONS_INIT",
                                 err, what);
    }
    out->parts = mst_parts_lend(parts, count);
    out->version = options.version;
    out->eager = options.eager;
    return status;
}

static muster_status new_value(muster_cluster *cluster, const struct recipe *recipe,
                               const char *what, muster_per_worker **out, struct muster_error *err)
{
    const struct mst_closure_call call = {.function = mst_slice_text(recipe->function),
                                          .parts = recipe->parts};
    muster_status status = mst_coord_enter(cluster, false, err, what);
    muster_per_worker *value;

    if (status != MUSTER_OK) {
        return status;
    }
    value = calloc(1, sizeof(*value));
    if (!value) {
        return mst_coord_leave(cluster, mst_lib_fail(err, MUSTER_ENOMEM, what, NULL));
    }
    status = mst_cluster_value_new(mst_coord_machine(cluster), mst_lib_now_ns(), call.function,
                                   recipe->version, &recipe->parts, !recipe->eager, &value->number);
    mst_coord_turn(cluster);
    if (status == MUSTER_OK) {
        value->cluster = cluster;
        mst_coord_hold(cluster);
        *out = value;
    } else {
        (void)mst_coord_refuse(cluster, &call, status, what, err);
        free(value);
    }
    return mst_coord_leave(cluster, status);
}

muster_status muster_cluster_per_worker(muster_cluster *cluster, const char *function,
                                        const struct muster_part *parts, size_t count,
                                        const struct muster_per_worker_options *given,
                                        muster_per_worker **out, struct muster_error *err)
{
    struct recipe recipe = {.function = function};
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    if (!function || !*function) {
        return mst_lib_refuse(err, "per-worker value", "the function has no name");
    }
    mst_lib_describe(what, "per-worker value", function);
    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    *out = NULL;
    status = read_recipe(&recipe, parts, count, given, what, err);
    return status == MUSTER_OK ? new_value(cluster, &recipe, what, out, err) : status;
}

struct fetching {
    const muster_per_worker *value;
    uint32_t worker;
    struct mst_closure_look look;
};

static bool is_away(const muster_cluster *cluster, uint32_t number)
{
    struct mst_cluster_worker worker;

    return !mst_cluster_worker_at(mst_coord_machine(cluster), mst_lib_now_ns(), number, &worker) ||
           worker.state == MST_WORKER_LOST || worker.state == MST_WORKER_LEFT ||
           worker.state == MST_WORKER_ABSENT;
}

/* What is not built may be, as long as its worker is there. */
static bool is_there(void *ctx)
{
    struct fetching *fetching = ctx;
    const muster_cluster *cluster = fetching->value->cluster;

    mst_cluster_value_look(mst_coord_machine(cluster), fetching->value->number, fetching->worker,
                           &fetching->look);
    return fetching->look.state == MST_CLOSURE_VALUE ||
           fetching->look.state == MST_CLOSURE_FAILED ||
           fetching->look.state == MST_CLOSURE_UNKNOWN ||
           (fetching->look.state == MST_CLOSURE_ABORTED && is_away(cluster, fetching->worker));
}

/* Lock held; `fetching` has looked. The handle keeps what a caller that asks for the parts borrows.
 */
static muster_status take(muster_per_worker *value, const struct fetching *fetching,
                          const char *what, const struct muster_part **parts, size_t *count,
                          struct muster_error *err)
{
    struct mst_coord_outcome *outcome, *over;
    muster_status status;

    if (fetching->look.state == MST_CLOSURE_UNKNOWN) {
        return mst_lib_refuse(err, what, "there is no worker of that number");
    }
    outcome = over = mst_coord_outcome_of(&fetching->look, value->number);
    if (!outcome) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    if (parts) {
        over = value->fetched;
        value->fetched = outcome;
    }
    if (parts && (outcome->status == MUSTER_OK || outcome->parts.count > 0)) {
        *parts = mst_parts_public(outcome->parts);
    }
    if (count) {
        *count = outcome->parts.count;
    }
    status = outcome->status;
    if (fetching->look.state == MST_CLOSURE_ABORTED) {
        status =
            mst_fail(err, MUSTER_ELOST, 0, "%s: its worker was lost, and the value with it", what);
    } else if (outcome->failure) {
        (void)mst_coord_say_failure(outcome->failure, 1, what, err);
    }
    free(over);
    return status;
}

muster_status muster_per_worker_fetch(muster_per_worker *value, uint32_t worker, int64_t timeout_ms,
                                      const struct muster_part **parts, size_t *count,
                                      struct muster_error *err)
{
    static const char what[] = "fetch a per-worker value";
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, 0);
    struct fetching fetching = {.value = value, .worker = worker};
    muster_status status;

    if (parts) {
        *parts = NULL;
    }
    if (count) {
        *count = 0;
    }
    if (!value) {
        return mst_lib_refuse(err, what, "the handle is NULL");
    }
    status = mst_coord_enter(value->cluster, timeout_ms != 0, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    status =
        mst_coord_fail(mst_coord_wait(value->cluster, is_there, &fetching, deadline_ns), what, err);
    if (status == MUSTER_OK) {
        status = take(value, &fetching, what, parts, count, err);
    }
    return mst_coord_leave(value->cluster, status);
}

void muster_per_worker_drop(muster_per_worker *value)
{
    muster_cluster *cluster = value ? value->cluster : NULL;

    if (!value || cluster->pid != getpid()) {
        return;
    }
    if (!cluster->poisoned) {
        mst_coord_lock(cluster);
        if (mst_coord_machine(cluster)) {
            mst_cluster_value_drop(mst_coord_machine(cluster), mst_lib_now_ns(), value->number);
            mst_coord_turn(cluster);
        }
        mst_coord_unlock(cluster);
    }
    free(value->fetched);
    mst_coord_let_go(cluster);
    free(value);
}

/* ---- datasets ---- */

static muster_dataset *copy(const struct recipe *recipe)
{
    size_t parts = mst_parts_room(recipe->parts), name = strlen(recipe->function) + 1;
    muster_dataset *dataset = malloc(sizeof(*dataset) + parts + name);

    if (dataset) {
        char *function = (char *)(dataset + 1) + parts;

        dataset->recipe = *recipe;
        dataset->recipe.parts = mst_parts_keep(dataset + 1, recipe->parts);
        dataset->recipe.function = memcpy(function, recipe->function, name);
    }
    return dataset;
}

muster_status muster_cluster_dataset(muster_cluster *cluster, const char *function,
                                     const struct muster_part *parts, size_t count,
                                     const struct muster_per_worker_options *given,
                                     muster_dataset **out, struct muster_error *err)
{
    struct recipe recipe = {.function = function};
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    if (!function || !*function) {
        return mst_lib_refuse(err, "dataset", "the function has no name");
    }
    mst_lib_describe(what, "dataset", function);
    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    *out = NULL;
    status = read_recipe(&recipe, parts, count, given, what, err);
    if (status == MUSTER_OK) {
        status = mst_coord_enter(cluster, false, err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    *out = copy(&recipe);
    if (!*out) {
        return mst_coord_leave(cluster, mst_lib_fail(err, MUSTER_ENOMEM, what, NULL));
    }
    (*out)->cluster = cluster;
    mst_coord_hold(cluster);
    return mst_coord_leave(cluster, MUSTER_OK);
}

muster_status muster_dataset_iterate(muster_dataset *dataset, muster_per_worker **out,
                                     struct muster_error *err)
{
    if (!dataset || !out) {
        return mst_lib_refuse(err, "iterate", "the dataset or out is NULL");
    }
    *out = NULL;
    return new_value(dataset->cluster, &dataset->recipe, "iterate", out, err);
}

void muster_dataset_drop(muster_dataset *dataset)
{
    if (dataset && dataset->cluster->pid == getpid()) {
        mst_coord_let_go(dataset->cluster);
        free(dataset);
    }
}
