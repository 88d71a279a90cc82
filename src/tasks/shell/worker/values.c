/* SPDX-License-Identifier: Apache-2.0 */
/* The per-worker values of one process, the worker's own or a child's. A value that is dropped
 * while runs use it is freed with the last of these; the user's destroy is called without the lock.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "tasks/shell/parts.h"
#include "tasks/shell/worker/worker.h"

void mst_work_values_init(struct mst_work_values *values)
{
    mst_list_init(&values->all);
    mst_list_init(&values->garbage);
}

struct mst_work_value *mst_work_value_find(struct mst_work_values *values, uint64_t number)
{
    MST_EACH(value, &values->all, struct mst_work_value, link) {
        if (value->number == number) {
            return value;
        }
    }
    return NULL;
}

struct mst_work_value *mst_work_value_add(struct mst_work_values *values,
                                          const struct mst_cluster_message *build)
{
    struct mst_work_value *value = mst_work_value_find(values, build->value);

    if (value) {
        return value;
    }
    value = malloc(sizeof(*value) + mst_parts_room(build->parts));
    if (value) {
        *value = (struct mst_work_value){.number = build->value,
                                         .function = build->function,
                                         .parts = mst_parts_keep(value + 1, build->parts)};
        mst_list_append(&values->all, &value->link);
    }
    return value;
}

void mst_work_value_set(struct mst_work_value *value, struct mst_parts parts)
{
    mst_work_result_fini(&value->result);
    value->state = MST_WORK_BUILT;
    for (uint32_t i = 0; i < parts.count && value->state == MST_WORK_BUILT; i++) {
        if (mst_work_result_add(&value->result, parts.items[i].data, parts.items[i].type) !=
            MUSTER_OK) {
            value->state = MST_WORK_BUILD_FAILED;
            value->result.origin = MST_ORIGIN_EXHAUSTED;
        }
    }
}

void mst_work_value_built(struct mst_work_value *value, struct muster_task *task,
                          muster_status status)
{
    struct mst_failure failure;
    const struct mst_failure *failed = mst_work_task_failure(task, status, &failure);

    mst_work_result_fini(&value->result);
    value->result = task->result;
    task->result = (struct mst_work_result){0};
    value->state = MST_WORK_BUILT;
    if (failed) {
        mst_work_result_failed(&value->result);
        value->state = MST_WORK_BUILD_FAILED;
        value->result.origin = failed->origin;
        value->result.code = failed->code;
        if (!value->result.text && failed->text.size > 0) {
            value->result.text = strndup(failed->text.data, failed->text.size);
        }
    }
}

static void collect(struct mst_work_values *values, struct mst_work_value *value)
{
    if (value->dropped && value->users == 0) {
        mst_list_remove(&value->link);
        mst_list_append(&values->garbage, &value->link);
    }
}

void mst_work_value_let_go(struct mst_work_values *values, struct mst_work_value *value)
{
    value->users--;
    collect(values, value);
}

void mst_work_value_drop(struct mst_work_values *values, uint64_t number)
{
    struct mst_work_value *value = mst_work_value_find(values, number);

    if (value) {
        value->dropped = true;
        value->number = UINT64_MAX; /* it is found no more */
        collect(values, value);
    }
}

struct mst_work_value *mst_work_value_garbage(struct mst_work_values *values)
{
    struct mst_list *link = mst_list_take(&values->garbage);

    return link ? MST_CONTAINER(link, struct mst_work_value, link) : NULL;
}

void mst_work_value_destroy(struct mst_work_value *value)
{
    if (value->destroy) {
        value->destroy(value->object);
    }
    mst_work_result_fini(&value->result);
    free(value);
}

void mst_work_values_sweep(struct mst_work_values *values)
{
    MST_EACH(value, &values->garbage, struct mst_work_value, link) {
        mst_work_value_destroy(value);
    }
    mst_list_init(&values->garbage);
}

void mst_work_values_fini(struct mst_work_values *values)
{
    mst_list_put_before(&values->garbage, &values->all);
    mst_work_values_sweep(values);
}
