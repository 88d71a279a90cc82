/* SPDX-License-Identifier: Apache-2.0 */
/* Per-worker values: made where they are needed, lost with their worker, made again on its return.
 */
#include "base/panic.h"
#include "tasks/machine.h"

struct mst_value *mst_value_find(const struct mst_cluster *cluster, uint64_t number)
{
    return MST_CONTAINER_OR_NULL(mst_table_find(&cluster->values_by_number, number),
                                 struct mst_value, node);
}

static void entry_clear(struct mst_cluster *cluster, struct mst_entry *entry)
{
    mst_mem_release(&cluster->mem, entry->result);
    mst_failure_drop(&cluster->mem, entry->failure);
    *entry = (struct mst_entry){.state = MST_CLOSURE_ABORTED};
}

static void value_free(struct mst_cluster *cluster, struct mst_value *value)
{
    for (uint32_t i = 0; i < value->room; i++) {
        entry_clear(cluster, &value->entries[i]);
    }
    mst_table_remove(&cluster->values_by_number, &value->node);
    mst_list_remove(&value->place);
    mst_mem_release(&cluster->mem, value->entries);
    mst_mem_release(&cluster->mem, value);
}

void mst_values_free(struct mst_cluster *cluster)
{
    struct mst_list *lists[] = {&cluster->values_all, &cluster->values_dropped};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        MST_EACH(value, lists[i], struct mst_value, place) {
            value_free(cluster, value);
        }
    }
}

static bool entries_grow(struct mst_cluster *cluster, struct mst_value *value, uint32_t room)
{
    struct mst_entry *entries;

    if (value->room >= room) {
        return true;
    }
    entries = mst_array_grow(&cluster->mem, value->entries, value->room, room, sizeof(*entries));
    if (!entries) {
        return false;
    }
    for (uint32_t i = value->room; i < room; i++) {
        entries[i].state = MST_CLOSURE_ABORTED;
    }
    value->entries = entries;
    value->room = room;
    return true;
}

bool mst_values_room(struct mst_cluster *cluster, uint32_t workers)
{
    struct mst_list *lists[] = {&cluster->values_all, &cluster->values_dropped};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        MST_EACH(value, lists[i], struct mst_value, place) {
            if (!entries_grow(cluster, value, workers)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- the user's side ---- */

static void builds(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    worker->owe_builds = true;
    mst_task_worker_todo(cluster, worker);
}

muster_status mst_cluster_value_new(struct mst_cluster *cluster, uint64_t now_ns,
                                    struct mst_slice function, uint32_t version,
                                    const struct mst_parts *parts, bool lazy, uint64_t *number)
{
    const struct mst_closure_call call = {.function = function, .parts = *parts};
    size_t size = 0;
    muster_status status = mst_closure_refusal(cluster, &call, &size);
    struct mst_value *value;
    struct mst_kind *kind;

    if (status != MUSTER_OK) {
        return status;
    }
    cluster->now_ns = now_ns;
    kind = mst_kind_of(cluster, function, version);
    value = kind ? mst_mem_zalloc(&cluster->mem,
                                  sizeof(*value) + parts->count * sizeof(struct mst_part) + size)
                 : NULL;
    if (!value || !entries_grow(cluster, value, cluster->worker_room)) {
        mst_mem_release(&cluster->mem, value);
        return MUSTER_ENOMEM;
    }
    value->kind = kind;
    value->lazy = lazy;
    value->number = ++cluster->values_made;
    value->parts = (struct mst_parts){.items = value->items, .count = parts->count};
    (void)mst_parts_copy(value->items, (char *)&value->items[parts->count], parts);
    mst_table_insert(&cluster->values_by_number, value->number, &value->node);
    mst_list_append(&cluster->values_all, &value->place);
    for (uint32_t i = 0; i < cluster->worker_count && !lazy; i++) {
        builds(cluster, cluster->workers[i]);
    }
    *number = value->number;
    return MUSTER_OK;
}

void mst_cluster_value_look(const struct mst_cluster *cluster, uint64_t number, uint32_t worker,
                            struct mst_closure_look *out)
{
    const struct mst_value *value = mst_value_find(cluster, number);
    const struct mst_entry *entry;

    *out = (struct mst_closure_look){.worker = worker, .fraction = -1};
    if (!value || value->dropped || worker >= cluster->worker_count) {
        return;
    }
    entry = &value->entries[worker];
    out->state = entry->state;
    if (entry->result) {
        out->parts = entry->result->parts;
    }
    if (entry->failure) {
        out->failure = entry->failure->chain[0];
    } else if (entry->state == MST_CLOSURE_ABORTED) {
        out->failure = (struct mst_failure){
            .origin = MST_ORIGIN_LOST,
            .worker = worker,
            .incarnation = cluster->workers[worker]->incarnation,
            .text = mst_slice_text("it is not built on this worker, or was lost with it")};
    }
}

static void dropped(struct mst_cluster *cluster, struct mst_value *value)
{
    if (value->dropped && value->users == 0) {
        mst_list_remove(&value->place);
        mst_list_append(&cluster->values_dropped, &value->place);
        value->cursor = 0;
    }
}

void mst_cluster_value_drop(struct mst_cluster *cluster, uint64_t now_ns, uint64_t number)
{
    struct mst_value *value = mst_value_find(cluster, number);

    cluster->now_ns = now_ns;
    if (value && !value->dropped) {
        value->dropped = true;
        dropped(cluster, value);
    }
}

void mst_value_use(struct mst_cluster *cluster, const struct mst_closure *closure)
{
    for (uint32_t i = 0; i < closure->need_count; i++) {
        mst_value_find(cluster, mst_closure_needs(closure)[i])->users++;
    }
}

void mst_value_leave(struct mst_cluster *cluster, const struct mst_closure *closure)
{
    for (uint32_t i = 0; i < closure->need_count; i++) {
        struct mst_value *value = mst_value_find(cluster, mst_closure_needs(closure)[i]);

        value->users--;
        dropped(cluster, value);
    }
}

/* ---- the workers' side ---- */

void mst_values_lost(struct mst_cluster *cluster, const struct mst_task_worker *worker)
{
    MST_EACH(value, &cluster->values_all, struct mst_value, place) {
        entry_clear(cluster, &value->entries[worker->number]);
    }
    cluster->changed = true;
}

static bool lists(const struct mst_cluster_message *hello, uint64_t number)
{
    for (uint32_t i = 0; i < hello->value_count; i++) {
        if (hello->values[i] == number) {
            return true;
        }
    }
    return false;
}

/* A value that it has and that is unknown here is dropped. */
void mst_values_back(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    const struct mst_cluster_message *hello = worker->hello;

    for (uint32_t i = 0; i < hello->value_count; i++) {
        if (!mst_value_find(cluster, hello->values[i])) {
            worker->orphaned_values[worker->orphaned_value_count++] = hello->values[i];
        }
    }
    MST_EACH(value, &cluster->values_all, struct mst_value, place) {
        struct mst_entry *entry = &value->entries[worker->number];
        bool there = lists(hello, value->number);

        if (entry->state == MST_CLOSURE_RUNNING || (entry->state == MST_CLOSURE_VALUE && !there)) {
            entry_clear(cluster, entry);
        }
        /* Its state there is asked for when it is needed; a drop reaches it in any case. */
        entry->held = there && entry->state == MST_CLOSURE_ABORTED;
    }
}

/* False: it is there, or being built. */
static bool build(struct mst_cluster *cluster, const struct mst_task_worker *worker,
                  struct mst_value *value)
{
    struct mst_entry *entry = &value->entries[worker->number];

    if (entry->state != MST_CLOSURE_ABORTED) {
        return false;
    }
    entry->state = MST_CLOSURE_RUNNING;
    mst_effect_message(cluster, worker, MST_CLUSTER_BUILD);
    cluster->message.value = value->number;
    cluster->message.function = mst_task_worker_place(worker, value->kind);
    cluster->message.parts = value->parts;
    cluster->changed = true;
    return true;
}

bool mst_value_build_next(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    MST_EACH(value, &cluster->values_all, struct mst_value, place) {
        if (!value->lazy && !value->dropped && build(cluster, worker, value)) {
            return true;
        }
    }
    return false;
}

bool mst_value_build_for(struct mst_cluster *cluster, struct mst_task_worker *worker,
                         const struct mst_closure *closure)
{
    for (uint32_t i = 0; i < closure->need_count; i++) {
        if (build(cluster, worker, mst_value_find(cluster, mst_closure_needs(closure)[i]))) {
            return true;
        }
    }
    return false;
}

bool mst_value_drop_next(struct mst_cluster *cluster)
{
    while (!mst_list_empty(&cluster->values_dropped)) {
        struct mst_value *value =
            MST_CONTAINER(cluster->values_dropped.next, struct mst_value, place);

        while (value->cursor < cluster->worker_count) {
            const struct mst_task_worker *worker = cluster->workers[value->cursor];
            const struct mst_entry *entry = &value->entries[value->cursor++];

            if ((entry->state != MST_CLOSURE_ABORTED || entry->held) && worker->link) {
                mst_effect_message(cluster, worker, MST_CLUSTER_DROP);
                cluster->message.value = value->number;
                return true;
            }
        }
        value_free(cluster, value);
    }
    return false;
}

void mst_value_built(struct mst_cluster *cluster, struct mst_task_worker *worker,
                     const struct mst_cluster_message *message)
{
    struct mst_value *value = mst_value_find(cluster, message->value);
    struct mst_entry *entry = value ? &value->entries[worker->number] : NULL;
    struct mst_entry fresh = {.state = MST_CLOSURE_VALUE};
    struct mst_failure failure = message->failure;

    if (!value || entry->state == MST_CLOSURE_ABORTED) {
        return; /* dropped meanwhile */
    }
    cluster->progress_ns = cluster->now_ns;
    if (message->failure.origin == MST_ORIGIN_LOST) {
        entry_clear(cluster, entry);
        builds(cluster, worker);
        cluster->changed = true;
        return;
    }
    if (message->failure.origin == MST_ORIGIN_NONE || message->parts.count > 0) {
        fresh.result = mst_result_new(&cluster->mem, &message->parts);
    }
    if (message->failure.origin != MST_ORIGIN_NONE) {
        fresh.state = MST_CLOSURE_FAILED;
        failure.worker = worker->number;
        failure.incarnation = worker->incarnation;
        fresh.failure = mst_failure_copy(&cluster->mem, &failure);
    }
    if (fresh.state == MST_CLOSURE_VALUE ? !fresh.result : !fresh.failure) {
        mst_mem_release(&cluster->mem, fresh.result);
        mst_link_break(cluster, worker->link);
        return;
    }
    if (fresh.failure) { /* if no closure needs it, this line is the only report */
        mst_effect_say(cluster, MST_CLUSTER_LINE_UNBUILT, worker, 0, value->number,
                       message->failure.text);
    }
    entry_clear(cluster, entry);
    *entry = fresh;
    cluster->changed = true;
}
