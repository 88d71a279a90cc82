/* SPDX-License-Identifier: Apache-2.0 */
/* What a function may do: the same in the worker's process and in its children. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "os/system.h"
#include "proto/status.h"
#include "tasks/shell/parts.h"
#include "tasks/shell/worker/worker.h"

enum { STATE_MAX = 255 };

/* ---- results ---- */

static void part_free(const struct mst_part *part)
{
    void *bytes;

    memcpy(&bytes, &part->data.data, sizeof(bytes)); /* ours, borrowed as const */
    free(bytes);
}

void mst_work_result_fini(struct mst_work_result *result)
{
    for (uint32_t i = 0; i < result->count; i++) {
        part_free(&result->parts[i]);
    }
    free(result->parts);
    free(result->text);
    free(result->state);
    *result = (struct mst_work_result){0};
}

static bool grow(struct mst_work_result *result)
{
    uint32_t room = result->room > 0 ? result->room * 2 : 4;
    struct mst_part *parts;

    if (result->count < result->room) {
        return true;
    }
    parts = realloc(result->parts, room * sizeof(*parts));
    if (!parts) {
        return false;
    }
    result->parts = parts;
    result->room = room;
    return true;
}

muster_status mst_work_result_add(struct mst_work_result *result, struct mst_slice data,
                                  uint32_t type)
{
    void *copy = NULL;

    /* Each part costs a few bytes of the message beside its own. */
    if (data.size > MST_WORK_RESULT_MAX - result->bytes ||
        result->bytes + data.size + 16 > MST_WORK_RESULT_MAX) {
        result->too_large = true;
        return MUSTER_ELIMIT;
    }
    if (result->count == MST_CLUSTER_PARTS_MAX) {
        result->too_many = true;
        return MUSTER_ELIMIT;
    }
    if (!grow(result)) {
        return MUSTER_ENOMEM;
    }
    if (data.size > 0) {
        copy = malloc(data.size);
        if (!copy) {
            return MUSTER_ENOMEM;
        }
        memcpy(copy, data.data, data.size);
    }
    result->parts[result->count++] =
        (struct mst_part){.data = mst_slice_of(copy, data.size), .type = type};
    result->bytes += data.size + 16;
    return MUSTER_OK;
}

void mst_work_result_failed(struct mst_work_result *result)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < result->count; i++) {
        if (result->parts[i].type == MUSTER_PART_ERROR) {
            result->parts[kept++] = result->parts[i];
        } else {
            part_free(&result->parts[i]);
        }
    }
    result->count = kept;
}

struct mst_failure mst_work_result_failure(const struct mst_work_result *result)
{
    return (struct mst_failure){.origin = result->origin,
                                .code = result->code,
                                .worker = MST_WORKER_NONE,
                                .text = mst_slice_text(result->text),
                                .state = mst_slice_text(result->state)};
}

muster_status muster_task_add(muster_task *task, const void *data, size_t size, uint32_t type)
{
    if (!task || (!data && size > 0)) {
        return MUSTER_EINVAL;
    }
    return mst_work_result_add(&task->result, mst_slice_of(data, size), type);
}

static muster_status fail(muster_task *task, enum mst_origin origin, int code, const char *text)
{
    if (!task) {
        return MUSTER_EINVAL;
    }
    free(task->result.text);
    free(task->result.state);
    task->result.state = NULL;
    task->result.origin = origin;
    task->result.code = code;
    task->result.text = text && *text ? strndup(text, MST_FAILURE_TEXT_MAX) : NULL;
    return MUSTER_EFAILED;
}

muster_status muster_task_fail(muster_task *task, int code, const char *text)
{
    return fail(task, MST_ORIGIN_FUNCTION, code, text);
}

muster_status muster_task_retry(muster_task *task, int code, const char *text)
{
    return fail(task, MST_ORIGIN_RETRYABLE, code, text);
}

muster_status muster_task_state_failed(muster_task *task, const char *server, const char *text)
{
    muster_status status = fail(task, MST_ORIGIN_STATE, 0, text);

    if (task) {
        task->result.state = server && *server ? strndup(server, STATE_MAX) : NULL;
    }
    return status;
}

/* ---- asking ---- */

size_t muster_task_parts(const muster_task *task, const struct muster_part **out)
{
    if (out) {
        *out = task ? mst_parts_public(task->message->parts) : NULL;
    }
    return task ? task->message->parts.count : 0;
}

bool muster_task_cancelled(const muster_task *task)
{
    return task && (atomic_load_explicit(&task->flags->stop, memory_order_relaxed) ||
                    (task->deadline_ns != 0 && muster_task_left_ms(task) == 0));
}

int muster_task_cancel_fd(muster_task *task)
{
    return task ? task->cancel_fd : -1;
}

int64_t muster_task_left_ms(const muster_task *task)
{
    if (!task || task->deadline_ns == 0) {
        return -1;
    }
    return (int64_t)mst_ms_until(task->deadline_ns, mst_system_now_ns());
}

uint32_t muster_task_worker(const muster_task *task)
{
    return task ? task->worker : MST_WORKER_NONE;
}

uint32_t muster_task_slot(const muster_task *task)
{
    return task ? task->slot : 0;
}

uint32_t muster_task_attempt(const muster_task *task)
{
    return task ? task->message->attempt.attempt : 0;
}

uint64_t muster_task_closure(const muster_task *task)
{
    return task ? task->message->attempt.closure : 0;
}

const char *muster_task_key(const muster_task *task)
{
    if (!task) {
        return "";
    }
    return task->given_key ? task->given_key : task->made_key;
}

const char *muster_task_host(const muster_task *task)
{
    return task ? task->host : "";
}

void muster_task_progress(muster_task *task, double fraction, const char *text)
{
    if (task) {
        double within = fraction >= 0 ? fraction : 0; /* also of what is no number */

        mst_work_task_report(task, MST_CLUSTER_PROGRESS, within < 1 ? within : 1,
                             mst_slice_of(text, text ? strnlen(text, MST_FAILURE_TEXT_MAX) : 0));
    }
}

void muster_task_log(muster_task *task, const char *text)
{
    if (task && text) {
        mst_work_task_report(task, MST_CLUSTER_LOG, 0,
                             mst_slice_of(text, strnlen(text, MST_FAILURE_TEXT_MAX)));
    }
}

/* ---- per-worker values ---- */

muster_status muster_task_keep(muster_task *task, void *object, void (*destroy)(void *object))
{
    struct mst_work_value *value = task ? task->builds : NULL;

    if (!value) {
        return MUSTER_EINVAL;
    }
    if (value->object != object && value->destroy) {
        value->destroy(value->object);
    }
    value->object = object;
    value->destroy = destroy;
    return MUSTER_OK;
}

static const struct mst_work_value *need_at(const muster_task *task, size_t need)
{
    return task && task->message->type == MST_CLUSTER_RUN && need < task->message->need_count
               ? task->needs[need]
               : NULL;
}

void *muster_task_object(muster_task *task, size_t need)
{
    const struct mst_work_value *value = need_at(task, need);

    return value ? value->object : NULL;
}

size_t muster_task_value(muster_task *task, size_t need, const struct muster_part **out)
{
    const struct mst_work_value *value = need_at(task, need);
    size_t count = value ? value->result.count : 0;

    if (out) {
        *out = count > 0 ? mst_parts_public(mst_work_result_parts(&value->result)) : NULL;
    }
    return count;
}

size_t muster_task_need(const muster_task *task, const char *builder)
{
    const struct mst_work_value *value;

    for (size_t i = 0; builder && (value = need_at(task, i)) != NULL; i++) {
        if (strcmp(task->functions[value->function].name, builder) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* ---- beginning and end ---- */

/* A key of muster's own differs from those of all closures of all coordinators of this cluster. */
static bool make_key(struct muster_task *task)
{
    const struct mst_cluster_message *message = task->message;

    if (message->key.size > 0) {
        task->given_key = strndup(message->key.data, message->key.size);
        return task->given_key != NULL;
    }
    if (message->type == MST_CLUSTER_RUN) {
        mst_text_print(task->made_key, sizeof(task->made_key), "%s/%" PRIu64 "/%" PRIu64,
                       task->owner->cluster, task->owner->term, message->attempt.closure);
    }
    return true;
}

static bool make_needs(struct muster_task *task, uint32_t count)
{
    task->needs = count <= sizeof(task->few_needs) / sizeof(task->few_needs[0])
                      ? task->few_needs
                      : calloc(count, sizeof(struct mst_work_value *));
    return task->needs != NULL;
}

muster_status mst_work_task_init(struct muster_task *task, struct muster_worker *worker,
                                 const struct mst_work_job *job,
                                 const struct mst_cluster_message *message)
{
    *task = (struct muster_task){
        .message = message,
        .owner = worker,
        .functions = worker->functions,
        .flags = &worker->flags[job->slot],
        .cancel_fd = worker->slot[job->slot].cancel_fd,
        .worker = worker->home ? worker->home_number : mst_worker_number(mst_work_machine(worker)),
        .slot = job->slot,
        .host = worker->client->host,
        .deadline_ns = job->deadline_ns};
    if (make_key(task) && make_needs(task, message->need_count)) {
        return MUSTER_OK;
    }
    mst_work_task_fini(task);
    return MUSTER_ENOMEM;
}

void mst_work_task_fini(struct muster_task *task)
{
    if (task->needs != task->few_needs) {
        free(task->needs);
    }
    free(task->given_key);
    mst_work_result_fini(&task->result);
}

const struct mst_failure *mst_work_task_failure(const struct muster_task *task,
                                                muster_status status, struct mst_failure *failure)
{
    const struct mst_work_result *result = &task->result;

    *failure = (struct mst_failure){.worker = MST_WORKER_NONE};
    if (result->too_large) {
        failure->origin = MST_ORIGIN_EXHAUSTED;
        failure->text =
            mst_slice_text("its result is more than the 16711680 bytes that are allowed: let "
                           "it write to a file, and give where that is");
    } else if (result->too_many) {
        failure->origin = MST_ORIGIN_EXHAUSTED;
        failure->text = mst_slice_text("its result has more than the 65536 parts that are allowed: "
                                       "put several of them into one");
    } else if (result->origin != MST_ORIGIN_NONE) {
        *failure = mst_work_result_failure(result);
    } else if (status != MUSTER_OK) {
        failure->origin = MST_ORIGIN_FUNCTION;
        failure->code = status;
        failure->text = mst_slice_text(muster_status_text(status));
    } else {
        return NULL;
    }
    if (status != MUSTER_OK && atomic_load(&task->flags->stop)) {
        failure->origin = MST_ORIGIN_CANCELLED;
    }
    return failure;
}
