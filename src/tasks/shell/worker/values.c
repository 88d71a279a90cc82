/* SPDX-License-Identifier: Apache-2.0 */
/* The per-worker values of one process, the worker's own or a child's. What is dropped while a run
 * uses it goes with the last of these; the user's destroy is called without the lock. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "tasks/shell/worker/worker.h"

static struct mst_work_value *value_of(struct mst_list *link)
{
    return (struct mst_work_value *)(void *)((char *)link - offsetof(struct mst_work_value, link));
}

void mst_work_values_init(struct mst_work_values *values)
{
    mst_list_init(&values->all);
    mst_list_init(&values->garbage);
}

struct mst_work_value *mst_work_value_find(struct mst_work_values *values, uint64_t number)
{
    MST_LIST_EACH(link, following, &values->all)
    {
        if (value_of(link)->number == number) {
            return value_of(link);
        }
    }
    return NULL;
}

/* The parts and their bytes, in one piece. */
static bool copy_parts(struct mst_parts *out, struct mst_parts parts)
{
    size_t size = parts.count * sizeof(struct mst_part);
    struct mst_part *items;
    unsigned char *at;

    *out = (struct mst_parts){0};
    if (parts.count == 0) {
        return true;
    }
    for (uint32_t i = 0; i < parts.count; i++) {
        size += parts.items[i].data.size;
    }
    items = malloc(size);
    if (!items) {
        return false;
    }
    at = (unsigned char *)(items + parts.count);
    for (uint32_t i = 0; i < parts.count; i++) {
        items[i] = parts.items[i];
        items[i].data.data = at;
        if (parts.items[i].data.size > 0) {
            memcpy(at, parts.items[i].data.data, parts.items[i].data.size);
        }
        at += parts.items[i].data.size;
    }
    *out = (struct mst_parts){.items = items, .count = parts.count};
    return true;
}

struct mst_work_value *mst_work_value_add(struct mst_work_values *values,
                                          const struct mst_cluster_message *build)
{
    struct mst_work_value *value = mst_work_value_find(values, build->value);

    if (value) {
        return value;
    }
    value = calloc(1, sizeof(*value));
    if (!value || !copy_parts(&value->parts, build->parts)) {
        free(value);
        return NULL;
    }
    value->number = build->value;
    value->function = build->function;
    mst_list_append(&values->all, &value->link);
    return value;
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
        value->state = MST_WORK_BUILD_FAILED;
        value->result.origin = failed->origin;
        value->result.code = failed->code;
        if (!value->result.text && failed->text.size > 0) {
            value->result.text = strndup(failed->text.data, failed->text.size);
        }
    }
}

void mst_work_value_use(struct mst_work_value *value)
{
    value->users++;
}

static void discard(struct mst_work_values *values, struct mst_work_value *value)
{
    mst_list_remove(&value->link);
    mst_list_append(&values->garbage, &value->link);
}

void mst_work_value_let_go(struct mst_work_values *values, struct mst_work_value *value)
{
    value->users--;
    if (value->users == 0 && value->dropped) {
        discard(values, value);
    }
}

void mst_work_value_drop(struct mst_work_values *values, uint64_t number)
{
    struct mst_work_value *value = mst_work_value_find(values, number);

    if (!value) {
        return;
    }
    value->dropped = true;
    value->number = UINT64_MAX; /* nobody finds it any more */
    if (value->users == 0) {
        discard(values, value);
    }
}

struct mst_work_value *mst_work_value_garbage(struct mst_work_values *values)
{
    struct mst_list *link = mst_list_take(&values->garbage);

    return link ? value_of(link) : NULL;
}

void mst_work_value_destroy(struct mst_work_value *value)
{
    void *parts;

    if (value->destroy) {
        value->destroy(value->object);
    }
    mst_work_result_fini(&value->result);
    memcpy(&parts, &value->parts.items, sizeof(parts)); /* ours, borrowed as const */
    free(parts);
    free(value);
}

static void destroy_all(struct mst_list *list)
{
    MST_LIST_EACH(link, following, list)
    {
        mst_list_remove(link);
        mst_work_value_destroy(value_of(link));
    }
}

void mst_work_values_fini(struct mst_work_values *values)
{
    destroy_all(&values->all);
    destroy_all(&values->garbage);
}
