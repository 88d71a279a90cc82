/* SPDX-License-Identifier: Apache-2.0 */
/* Functions, and what is queued for each: a list in the order of admission, and a tree of what came
 * back, which keeps its number and so its turn. */
#include "base/panic.h"
#include "tasks/machine.h"

int mst_queue_order(const void *key, const struct mst_tree_node *node)
{
    return mst_tree_compare(*(const uint64_t *)key,
                            MST_CONTAINER_CONST(node, struct mst_closure, place.tree)->number);
}

/* ---- functions ---- */

static bool is_kind(const struct mst_kind *kind, struct mst_slice name, uint32_t version)
{
    return kind->version == version && mst_slice_equal(kind->name, name);
}

static uint64_t kind_hash(struct mst_slice name, uint32_t version)
{
    /* Names of the program and its workers: no attacker gains by a collision. */
    static const struct mst_table_secret none = {{0, 0}};

    return mst_table_hash(&none, name) + version;
}

static struct mst_kind *kind_find(const struct mst_cluster *cluster, struct mst_slice name,
                                  uint32_t version)
{
    struct mst_table_node *node = mst_table_find(&cluster->kinds_by_name, kind_hash(name, version));

    while (node && !is_kind(MST_CONTAINER(node, struct mst_kind, node), name, version)) {
        node = mst_table_again(node);
    }
    return MST_CONTAINER_OR_NULL(node, struct mst_kind, node);
}

/* 1 + the place of the function in the worker's list. */
static uint32_t place_in(const struct mst_task_worker *worker, const struct mst_kind *kind)
{
    for (uint32_t i = 0; i < worker->hello->function_count; i++) {
        const struct mst_function *function = &worker->hello->functions[i];

        if ((kind->version == 0 || kind->version == function->version) &&
            mst_slice_equal(function->name, kind->name)) {
            return i + 1;
        }
    }
    return 0;
}

static void provide(struct mst_cluster *cluster, struct mst_kind *kind,
                    struct mst_task_worker *worker)
{
    kind->places[worker->number] = place_in(worker, kind);
    if (kind->places[worker->number] == 0) {
        return;
    }
    kind->providers++;
    kind->stuck = false;
    /* Where another worker had it before, nothing waited for this one. */
    mst_histogram_add(&cluster->timers[MST_TIMER_RESOLVE],
                      kind->resolved ? 0 : cluster->now_ns - kind->created_ns, 1);
    kind->resolved = true;
}

/* A closure that must run alone, which is not in its function's queue. */
static struct mst_closure *alone_of(const struct mst_cluster *cluster, const struct mst_kind *kind)
{
    MST_TREE_EACH(closure, &cluster->alone, struct mst_closure, place.tree) {
        if (closure->kind == kind) {
            return closure;
        }
    }
    return NULL;
}

/* An empty queue waits for no function; without workers everything waits. Where all workers are
 * here, no other one will bring it. */
static void watch_unknown(struct mst_cluster *cluster, struct mst_kind *kind)
{
    uint32_t expected = cluster->config.workers_expected;
    bool waits = kind->providers == 0 && cluster->connected > 0 &&
                 (mst_queue_head(kind) || alone_of(cluster, kind));

    if (!waits) {
        mst_alarm_at(cluster, &kind->unknown, NEVER);
    } else if (expected > 0 && cluster->connected >= expected) {
        mst_alarm_at(cluster, &kind->unknown, cluster->now_ns);
    } else if (!mst_tree_linked(&kind->unknown.node)) {
        mst_alarm_at(cluster, &kind->unknown,
                     mst_after_ns(cluster->now_ns, cluster->config.unknown_grace_ns));
    }
}

/* No worker has had it for too long. */
static void unknown(struct mst_cluster *cluster, struct mst_task_alarm *alarm)
{
    struct mst_kind *kind = MST_CONTAINER(alarm, struct mst_kind, unknown);
    struct mst_task_failure *failure;
    struct mst_closure *closure;

    if (kind->providers > 0 || cluster->connected == 0) {
        return;
    }
    failure = mst_kind_unknown(cluster, kind);
    while ((closure = mst_queue_head(kind)) || (closure = alone_of(cluster, kind))) {
        if (failure) {
            failure->references++;
        }
        mst_closure_fail(cluster, closure, MST_ORIGIN_UNKNOWN, failure);
    }
    mst_failure_drop(&cluster->mem, failure);
}

static struct mst_kind *kind_new(struct mst_cluster *cluster, struct mst_slice name,
                                 uint32_t version)
{
    struct mst_kind *kind = mst_mem_zalloc(&cluster->mem, sizeof(*kind) + name.size);

    if (kind && cluster->worker_room > 0) {
        kind->places = mst_mem_array(&cluster->mem, cluster->worker_room, sizeof(uint32_t));
    }
    if (!kind || (cluster->worker_room > 0 && !kind->places)) {
        mst_mem_release(&cluster->mem, kind);
        return NULL;
    }
    kind->room = cluster->worker_room;
    kind->version = version;
    kind->created_ns = cluster->now_ns;
    kind->unknown.ring = unknown;
    kind->name = mst_slice_of(memcpy(kind->bytes, name.data, name.size), name.size);
    mst_list_init(&kind->fifo);
    mst_tree_init(&kind->again, mst_queue_order);
    mst_list_append(&cluster->kinds, &kind->all);
    mst_table_insert(&cluster->kinds_by_name, kind_hash(name, version), &kind->node);
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        if (cluster->workers[i]->link) {
            provide(cluster, kind, cluster->workers[i]);
        }
    }
    return kind;
}

struct mst_kind *mst_kind_of(struct mst_cluster *cluster, struct mst_slice name, uint32_t version)
{
    struct mst_kind *kind = cluster->last_kind;

    if (kind && is_kind(kind, name, version)) {
        return kind;
    }
    kind = kind_find(cluster, name, version);
    if (!kind) {
        kind = kind_new(cluster, name, version);
    }
    if (kind) {
        cluster->last_kind = kind;
    }
    return kind;
}

void mst_kinds_free(struct mst_cluster *cluster)
{
    MST_EACH(kind, &cluster->kinds, struct mst_kind, all) {
        mst_table_remove(&cluster->kinds_by_name, &kind->node);
        mst_mem_release(&cluster->mem, kind->places);
        mst_mem_release(&cluster->mem, kind);
    }
}

bool mst_kinds_room(struct mst_cluster *cluster, uint32_t workers)
{
    MST_EACH(kind, &cluster->kinds, struct mst_kind, all) {
        uint32_t *places;

        if (kind->room >= workers) {
            continue;
        }
        places = mst_array_grow(&cluster->mem, kind->places, kind->room, workers, sizeof(*places));
        if (!places) {
            return false;
        }
        kind->places = places;
        kind->room = workers;
    }
    return true;
}

void mst_kinds_offered(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    MST_EACH(kind, &cluster->kinds, struct mst_kind, all) {
        provide(cluster, kind, worker);
        watch_unknown(cluster, kind);
    }
}

void mst_kinds_withdrawn(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    MST_EACH(kind, &cluster->kinds, struct mst_kind, all) {
        if (kind->places[worker->number] != 0) {
            kind->places[worker->number] = 0;
            kind->providers--;
        }
        watch_unknown(cluster, kind);
    }
}

void mst_kinds_unstick(struct mst_cluster *cluster, const struct mst_task_worker *worker)
{
    MST_EACH(kind, &cluster->ready, struct mst_kind, ready) {
        kind->stuck = kind->stuck && mst_task_worker_place(worker, kind) == MST_FUNCTION_NONE;
    }
}

/* ---- what is queued ---- */

struct mst_closure *mst_queue_head(const struct mst_kind *kind)
{
    struct mst_closure *again =
        MST_CONTAINER_OR_NULL(mst_tree_first(&kind->again), struct mst_closure, place.tree);
    struct mst_closure *first = NULL;

    if (!mst_list_empty(&kind->fifo)) {
        first = MST_CONTAINER(kind->fifo.next, struct mst_closure, place.list);
    }
    if (!first || (again && again->number < first->number)) {
        return again;
    }
    return first;
}

static void is_ready(struct mst_cluster *cluster, struct mst_kind *kind)
{
    if (!mst_list_linked(&kind->ready)) {
        kind->stuck = false;
        mst_list_append(&cluster->ready, &kind->ready);
    }
    if (kind->providers == 0) {
        watch_unknown(cluster, kind);
    }
}

void mst_queue_append(struct mst_cluster *cluster, struct mst_closure *closure)
{
    struct mst_kind *kind = closure->kind;

    closure->where = MST_WHERE_FIFO;
    mst_list_append(&kind->fifo, &closure->place.list);
    is_ready(cluster, kind);
}

/* In the order of numbers; a closure that may cost a worker is kept apart. */
void mst_queue_return(struct mst_cluster *cluster, struct mst_closure *closure)
{
    struct mst_tree *tree = closure->alone ? &cluster->alone : &closure->kind->again;

    closure->where = closure->alone ? MST_WHERE_ALONE : MST_WHERE_AGAIN;
    closure->place.tree = (struct mst_tree_node){0};
    closure->worker = NULL;
    (void)mst_tree_insert(tree, &closure->number, &closure->place.tree);
    if (!closure->alone) {
        closure->kind->stuck = false;
        is_ready(cluster, closure->kind);
    } else if (closure->kind->providers == 0) {
        watch_unknown(cluster, closure->kind);
    }
}

void mst_queue_remove(struct mst_cluster *cluster, struct mst_closure *closure)
{
    struct mst_kind *kind = closure->kind;

    if (closure->where == MST_WHERE_FIFO) {
        mst_list_remove(&closure->place.list);
    } else if (closure->where == MST_WHERE_AGAIN) {
        mst_tree_remove(&kind->again, &closure->place.tree);
    } else if (closure->where == MST_WHERE_ALONE) {
        mst_tree_remove(&cluster->alone, &closure->place.tree);
        if (closure->worker) {
            struct mst_task_worker *worker = closure->worker;

            worker->reserved = NULL;
            closure->worker = NULL;
            mst_task_worker_update(cluster, worker);
        }
    }
    if (mst_list_linked(&kind->ready) && !mst_queue_head(kind)) {
        mst_list_remove(&kind->ready);
    }
    if (!mst_list_linked(&kind->ready) && mst_tree_linked(&kind->unknown.node)) {
        watch_unknown(cluster, kind);
    }
}
