/* SPDX-License-Identifier: Apache-2.0 */
/* Values that each worker has for itself, and datasets, from which such values are made. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tasks/shell/coordinator/cluster.h"

struct muster_per_worker {
    muster_cluster *cluster; /* its memory is held */
    uint64_t number;
    struct mst_coord_outcome *fetched; /* by the last fetch */
};

struct muster_dataset {
    muster_cluster *cluster;
    uint32_t version;
    bool eager;
    char *function;
    size_t count;
    struct muster_part parts[]; /* their bytes lie behind */
};

uint64_t mst_per_worker_number(const muster_per_worker *value, const muster_cluster *cluster)
{
    return value && value->cluster == cluster ? value->number : 0;
}

static muster_status read_options(struct muster_per_worker_options *out,
                                  const struct muster_per_worker_options *given, const char *what,
                                  struct muster_error *err)
{
    const struct muster_per_worker_options standard = MUSTER_PER_WORKER_OPTIONS_INIT;

    *out = standard;
    return mst_lib_options(out, sizeof(*out), given, "MUSTER_PER_WORKER_OPTIONS_INIT", err, what);
}

/* ---- per-worker values ---- */

struct made {
    const char *function;
    const struct muster_part *parts;
    size_t count;
    uint32_t version;
    bool eager;
};

/* Lock held. */
static muster_status make_value(muster_per_worker *value, const struct made *made, const char *what,
                                struct muster_error *err)
{
    muster_cluster *cluster = value->cluster;
    struct mst_part few[MST_CLUSTER_FEW];
    struct mst_part *items = mst_coord_parts_in(made->parts, made->count, few);
    const struct mst_closure_call call = {
        .function = mst_slice_text(made->function),
        .parts = {.items = items, .count = (uint32_t)made->count}};
    muster_status status = MUSTER_ENOMEM;

    if (items) {
        status = mst_cluster_value_new(mst_coord_machine(cluster), mst_lib_now_ns(), call.function,
                                       made->version, &call.parts, !made->eager, &value->number);
        mst_coord_turn(cluster);
    }
    if (status != MUSTER_OK) {
        (void)mst_coord_refuse(cluster, &call, status, what, err);
    }
    if (items != few) {
        free(items);
    }
    return status;
}

static muster_status new_value(muster_cluster *cluster, const struct made *made, const char *what,
                               muster_per_worker **out, struct muster_error *err)
{
    muster_status status = mst_coord_enter(cluster, false, err, what);
    muster_per_worker *value;

    if (status != MUSTER_OK) {
        return status;
    }
    value = calloc(1, sizeof(*value));
    if (!value) {
        mst_coord_leave(cluster);
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    value->cluster = cluster;
    status = make_value(value, made, what, err);
    if (status == MUSTER_OK) {
        mst_coord_hold(cluster);
        *out = value;
    } else {
        free(value);
    }
    mst_coord_leave(cluster);
    return status;
}

static muster_status check(const struct muster_part *parts, size_t count, const void *out,
                           const char *what, struct muster_error *err)
{
    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    return mst_coord_parts_check(parts, count, what, err);
}

muster_status muster_cluster_per_worker(muster_cluster *cluster, const char *function,
                                        const struct muster_part *parts, size_t count,
                                        const struct muster_per_worker_options *given,
                                        muster_per_worker **out, struct muster_error *err)
{
    struct muster_per_worker_options options;
    char what[MST_LIB_WHAT_ROOM];
    struct made made = {.function = function, .parts = parts, .count = count};
    muster_status status;

    if (!function || !*function) {
        return mst_lib_refuse(err, "per-worker value", "the function has no name");
    }
    mst_lib_describe(what, "per-worker value", function);
    status = check(parts, count, out, what, err);
    if (status == MUSTER_OK) {
        *out = NULL;
        status = read_options(&options, given, what, err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    made.version = options.version;
    made.eager = options.eager;
    return new_value(cluster, &made, what, out, err);
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

/* Lock held; `fetching` has looked. */
static muster_status take(muster_per_worker *value, const struct fetching *fetching,
                          const char *what, struct muster_error *err)
{
    struct mst_coord_outcome *outcome;

    if (fetching->look.state == MST_CLOSURE_UNKNOWN) {
        return mst_lib_refuse(err, what, "there is no worker of that number");
    }
    outcome = mst_coord_outcome_of(&fetching->look, value->number);
    if (!outcome) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    mst_coord_outcome_free(value->fetched);
    value->fetched = outcome;
    if (fetching->look.state == MST_CLOSURE_ABORTED) {
        return mst_fail(err, MUSTER_ELOST, 0, "%s: its worker was lost, and the value with it",
                        what);
    }
    if (outcome->failure) {
        (void)mst_coord_say_failure(outcome->failure, 1, what, err);
    }
    return outcome->status;
}

muster_status muster_per_worker_fetch(muster_per_worker *value, uint32_t worker, int64_t timeout_ms,
                                      const struct muster_part **parts, size_t *count,
                                      struct muster_error *err)
{
    static const char what[] = "fetch a per-worker value";
    uint64_t deadline_ns = mst_coord_until_ns(timeout_ms);
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
    if (!mst_coord_wait(value->cluster, is_there, &fetching, deadline_ns)) {
        status = mst_lib_fail(err, MUSTER_ETIMEDOUT, what, NULL);
    } else if (mst_coord_ending(value->cluster) != MUSTER_OK) {
        status = mst_coord_fail(value->cluster, mst_coord_ending(value->cluster), what, err);
    } else {
        status = take(value, &fetching, what, err);
    }
    if (status == MUSTER_OK && parts) {
        *parts = value->fetched->parts;
    }
    if (status == MUSTER_OK && count) {
        *count = value->fetched->count;
    }
    mst_coord_leave(value->cluster);
    return status;
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
    mst_coord_outcome_free(value->fetched);
    mst_coord_let_go(cluster);
    free(value);
}

/* ---- datasets ---- */

static muster_dataset *copy(const char *function, const struct muster_part *parts, size_t count)
{
    size_t size = sizeof(muster_dataset) + count * sizeof(*parts) + strlen(function) + 1;
    muster_dataset *dataset;
    char *at;

    for (size_t i = 0; i < count; i++) {
        size += parts[i].size;
    }
    dataset = calloc(1, size);
    if (!dataset) {
        return NULL;
    }
    dataset->count = count;
    at = (char *)&dataset->parts[count];
    for (size_t i = 0; i < count; i++) {
        dataset->parts[i] =
            (struct muster_part){.data = at, .size = parts[i].size, .type = parts[i].type};
        if (parts[i].size > 0) {
            memcpy(at, parts[i].data, parts[i].size);
        }
        at += parts[i].size;
    }
    dataset->function = at;
    memcpy(at, function, strlen(function) + 1);
    return dataset;
}

muster_status muster_cluster_dataset(muster_cluster *cluster, const char *function,
                                     const struct muster_part *parts, size_t count,
                                     const struct muster_per_worker_options *given,
                                     muster_dataset **out, struct muster_error *err)
{
    struct muster_per_worker_options options;
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    if (!function || !*function) {
        return mst_lib_refuse(err, "dataset", "the function has no name");
    }
    mst_lib_describe(what, "dataset", function);
    status = check(parts, count, out, what, err);
    if (status == MUSTER_OK) {
        *out = NULL;
        status = read_options(&options, given, what, err);
    }
    if (status == MUSTER_OK) {
        status = mst_coord_enter(cluster, false, err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    *out = copy(function, parts, count);
    if (*out) {
        (*out)->cluster = cluster;
        (*out)->version = options.version;
        (*out)->eager = options.eager;
        mst_coord_hold(cluster);
    }
    mst_coord_leave(cluster);
    return *out ? MUSTER_OK : mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
}

muster_status muster_dataset_iterate(muster_dataset *dataset, muster_per_worker **out,
                                     struct muster_error *err)
{
    struct made made;

    if (!dataset || !out) {
        return mst_lib_refuse(err, "iterate", "the dataset or out is NULL");
    }
    *out = NULL;
    made = (struct made){.function = dataset->function,
                         .parts = dataset->parts,
                         .count = dataset->count,
                         .version = dataset->version,
                         .eager = dataset->eager};
    return new_value(dataset->cluster, &made, "iterate", out, err);
}

void muster_dataset_drop(muster_dataset *dataset)
{
    if (dataset && dataset->cluster->pid == getpid()) {
        mst_coord_let_go(dataset->cluster);
        free(dataset);
    }
}
