/* SPDX-License-Identifier: Apache-2.0 */
/* What muster.cluster and muster.worker do in C, for it is done per closure: arrays of structs are
 * expensive to fill from Python. It becomes part of the generated source, as extra.c does. */
#include <stdlib.h>
#include <string.h>

static muster_status muster_python_task(muster_task *task, size_t function, const void *data,
                                        size_t size, uint32_t type, const struct muster_part *parts,
                                        size_t count);
static void muster_python_drop(void *object);

/* A function of a worker: `arg` is its place in Python's list. The first part, which is nearly
 * always the only one, is passed by itself. */
static muster_status muster_python_run(muster_task *task, void *arg)
{
    const struct muster_part *parts;
    size_t count = muster_task_parts(task, &parts);
    const struct muster_part first = count > 0 ? parts[0] : (struct muster_part){0};

    return muster_python_task(task, (size_t)arg, first.data, first.size, first.type, parts, count);
}

static muster_task_fn *muster_python_run_address(void)
{
    return muster_python_run;
}

/* The object that a builder keeps is a number, for Python's objects are in a table of Python's. */
static muster_status muster_python_keep(muster_task *task, uintptr_t number)
{
    return muster_task_keep(task, (void *)number,
                            muster_python_drop); /* NOLINT(performance-no-int-to-ptr) */
}

static uintptr_t muster_python_object(muster_task *task, size_t need)
{
    return (uintptr_t)muster_task_object(task, need);
}

/* Closures of one function, each of one part: they lie in `data` one behind the other. */
static muster_status muster_python_schedule(muster_cluster *cluster, const char *function,
                                            const struct muster_closure_options *options,
                                            const char *data, const uint32_t *sizes, uint32_t type,
                                            size_t count, int64_t timeout_ms, muster_closure **out,
                                            size_t *admitted, struct muster_error *err)
{
    struct muster_closure_call *calls = calloc(count + 1, sizeof(*calls));
    struct muster_part *parts = calloc(count + 1, sizeof(*parts));
    muster_status status = MUSTER_ENOMEM;

    *admitted = 0;
    err->status = MUSTER_ENOMEM;
    err->text[0] = '\0';
    for (size_t i = 0; calls && parts && i < count; i++) {
        parts[i].data = data;
        parts[i].size = sizes[i];
        parts[i].type = type;
        data += sizes[i];
        calls[i].function = function;
        calls[i].parts = &parts[i];
        calls[i].count = 1;
        calls[i].options = options;
    }
    if (calls && parts) {
        status =
            muster_cluster_schedule_many(cluster, calls, count, timeout_ms, out, admitted, err);
    }
    free(calls);
    free(parts);
    return status;
}

/* One closure of one part. */
static muster_status muster_python_schedule_one(muster_cluster *cluster, const char *function,
                                                const struct muster_closure_options *options,
                                                const char *data, size_t size, uint32_t type,
                                                int64_t timeout_ms, muster_closure **out,
                                                struct muster_error *err)
{
    const struct muster_part part = {data, size, type};

    return muster_cluster_schedule(cluster, function, &part, 1, options, timeout_ms, out, err);
}

struct muster_python_value {
    const struct muster_part *parts;
    size_t count;
    const void *data; /* of the first */
    size_t size;
    uint32_t type;
};

static muster_status muster_python_fetch(muster_closure *closure, int64_t timeout_ms,
                                         struct muster_python_value *out, struct muster_error *err)
{
    muster_status status = muster_closure_fetch(closure, timeout_ms, &out->parts, &out->count, err);

    if (out->count > 0) {
        out->data = out->parts[0].data;
        out->size = out->parts[0].size;
        out->type = out->parts[0].type;
    }
    return status;
}

static bool muster_python_ended(muster_closure *closure)
{
    struct muster_closure_progress progress;

    muster_closure_look(closure, &progress);
    return progress.state != MUSTER_CLOSURE_QUEUED && progress.state != MUSTER_CLOSURE_RUNNING;
}

static bool muster_python_has_value(muster_closure *closure)
{
    struct muster_closure_progress progress;

    muster_closure_look(closure, &progress);
    return progress.state == MUSTER_CLOSURE_VALUE;
}

/* The places of those that have ended; their number. */
static size_t muster_python_which_ended(muster_closure *const *closures, size_t count,
                                        uint32_t *places)
{
    size_t ended = 0;

    for (size_t i = 0; i < count; i++) {
        if (muster_python_ended(closures[i])) {
            places[ended++] = (uint32_t)i;
        }
    }
    return ended;
}
