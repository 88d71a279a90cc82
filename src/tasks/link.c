/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: the worker at the other end, and its messages. */
#include "base/panic.h"
#include "proto/copy.h"
#include "tasks/machine.h"

/* ---- links ---- */

struct mst_task_link *mst_link_of(const struct mst_cluster *cluster, uint64_t connection)
{
    return MST_CONTAINER_OR_NULL(mst_table_find(&cluster->links, connection), struct mst_task_link,
                                 node);
}

static struct mst_task_link *link_new(struct mst_cluster *cluster, uint64_t connection)
{
    struct mst_task_link *link = mst_mem_zalloc(&cluster->mem, sizeof(*link));

    if (link) {
        link->connection = connection;
        mst_table_insert(&cluster->links, connection, &link->node);
        mst_list_append(&cluster->all_links, &link->all);
    }
    return link;
}

void mst_link_forget(struct mst_cluster *cluster, struct mst_task_link *link)
{
    mst_table_remove(&cluster->links, &link->node);
    mst_list_remove(&link->all);
    mst_list_remove(&link->todo);
    cluster->hellos -= link->hello != NULL;
    mst_mem_release(&cluster->mem, link->hello);
    mst_mem_release(&cluster->mem, link);
}

void mst_links_free(struct mst_cluster *cluster)
{
    struct mst_list *node;

    while ((node = mst_list_take(&cluster->all_links))) {
        mst_link_forget(cluster, MST_CONTAINER(node, struct mst_task_link, all));
    }
}

/* Its worker has no connection from now on. */
static void detach(struct mst_cluster *cluster, struct mst_task_link *link)
{
    struct mst_task_worker *worker = link->worker;
    struct mst_list *node;

    link->worker = NULL;
    if (!worker) {
        return;
    }
    worker->link = NULL;
    worker->owe_welcome = false;
    worker->owe_builds = false;
    worker->orphan_count = 0;
    worker->orphaned_value_count = 0;
    cluster->connected--;
    cluster->slots -= worker->slots;
    mst_list_remove(&worker->todo);
    while ((node = mst_list_take(&worker->owed))) {
        MST_CONTAINER(node, struct mst_closure, owed)->recalled = false;
    }
    mst_alarm_at(cluster, &worker->start, NEVER);
    mst_kinds_withdrawn(cluster, worker);
    mst_task_worker_update(cluster, worker);
    mst_workers_few(cluster);
}

void mst_link_close(struct mst_cluster *cluster, struct mst_task_link *link)
{
    detach(cluster, link);
    if (!link->closing) {
        link->closing = true;
        mst_list_remove(&link->todo);
        mst_list_append(&cluster->links_todo, &link->todo);
    }
}

static void refuse(struct mst_cluster *cluster, struct mst_task_link *link, muster_status status)
{
    if (status == MUSTER_EPROTO) {
        cluster->counts.lies++;
        mst_effect_say(cluster, MST_CLUSTER_LINE_REFUSED, NULL, 0, 0,
                       mst_slice_text("its first message is not the HELLO of this version"));
    } else if (status == MUSTER_EINVAL) {
        mst_effect_say(cluster, MST_CLUSTER_LINE_REFUSED, NULL, 0, 0,
                       mst_slice_text("its HELLO is for another cluster, or makes no sense"));
    }
    link->refused = status;
    mst_link_close(cluster, link);
}

void mst_link_break(struct mst_cluster *cluster, struct mst_task_link *link)
{
    struct mst_task_worker *worker = link->worker;

    mst_link_close(cluster, link);
    if (worker) {
        mst_loss_silent(cluster, worker, false);
    }
}

void mst_cluster_gone(struct mst_cluster *cluster, uint64_t now_ns, uint64_t connection)
{
    struct mst_task_link *link = mst_link_of(cluster, connection);
    struct mst_task_worker *worker = link ? link->worker : NULL;

    cluster->now_ns = now_ns;
    if (!link) {
        return;
    }
    detach(cluster, link);
    mst_link_forget(cluster, link);
    if (worker) {
        mst_loss_silent(cluster, worker, false);
    }
}

/* ---- the first message ---- */

static muster_status hello_judge(const struct mst_cluster *cluster,
                                 const struct mst_cluster_message *hello)
{
    if (hello->type != MST_CLUSTER_HELLO || hello->version != MST_CLUSTER_VERSION) {
        return MUSTER_EPROTO;
    }
    if (cluster->end != MUSTER_OK) {
        return cluster->end;
    }
    if (hello->term > cluster->config.term) {
        return MUSTER_ESTALE; /* it follows a newer coordinator */
    }
    if (!mst_slice_equal(hello->cluster, cluster->config.name) || hello->slots == 0 ||
        hello->slots > MST_CLUSTER_SLOTS_MAX || hello->function_count > MST_CLUSTER_PARTS_MAX) {
        return MUSTER_EINVAL;
    }
    return MUSTER_OK;
}

static bool blamed_room(struct mst_cluster *cluster, struct mst_task_worker *worker, uint32_t slots)
{
    uint64_t *blamed;

    if (worker->blamed_room < slots) {
        blamed = mst_array_grow(&cluster->mem, worker->blamed, worker->blamed_count, slots,
                                sizeof(*blamed));
        if (!blamed) {
            return false;
        }
        worker->blamed = blamed;
        worker->blamed_room = slots;
    }
    return true;
}

static struct mst_cluster_message *hello_copy(const struct mst_mem *mem,
                                              const struct mst_cluster_message *hello)
{
    size_t size = mst_copy_size(&mst_cluster_fields, hello);
    struct mst_cluster_message *copy =
        size < SIZE_MAX / 2 ? mem->alloc(mem->ctx, sizeof(*copy) + size) : NULL;

    if (copy) {
        mst_copy(&mst_cluster_fields, copy, hello, copy + 1);
    }
    return copy;
}

/* All that needs memory, before anything is changed. */
static bool take(struct mst_cluster *cluster, struct mst_task_worker *worker,
                 const struct mst_cluster_message *hello)
{
    const struct mst_mem *mem = &cluster->mem;
    struct mst_cluster_message *copy = hello_copy(mem, hello);
    struct mst_attempt *orphans =
        mst_mem_array(mem, (size_t)hello->held_count + 1, sizeof(*orphans));
    uint64_t *values = mst_mem_array(mem, (size_t)hello->value_count + 1, sizeof(*values));

    if (!copy || !orphans || !values || !blamed_room(cluster, worker, hello->slots) ||
        !mst_task_worker_number(cluster, worker)) {
        mst_mem_release(mem, copy);
        mst_mem_release(mem, orphans);
        mst_mem_release(mem, values);
        return false;
    }
    mst_mem_release(mem, worker->hello);
    mst_mem_release(mem, worker->orphans);
    mst_mem_release(mem, worker->orphaned_values);
    worker->hello = copy;
    worker->orphans = orphans;
    worker->orphaned_values = values;
    worker->slots = hello->slots;
    return true;
}

static void start_delay(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    const struct mst_cluster_config *config = &cluster->config;
    uint64_t delay_ns;

    if (worker->ever || worker->returned || config->start_delay_ns == 0) {
        return;
    }
    delay_ns = worker->number < NEVER / config->start_delay_ns
                   ? worker->number * config->start_delay_ns
                   : NEVER;
    if (config->start_delay_max_ns > 0 && delay_ns > config->start_delay_max_ns) {
        delay_ns = config->start_delay_max_ns;
    }
    if (mst_after_ns(cluster->born_ns, delay_ns) > cluster->now_ns) {
        mst_alarm_at(cluster, &worker->start, mst_after_ns(cluster->born_ns, delay_ns));
    }
}

/* Whether every result that it sent has arrived, or is among what it holds. */
static bool is_whole(const struct mst_task_worker *worker, const struct mst_cluster_message *hello)
{
    return hello->turn != 0 && hello->results != 0 && hello->results <= worker->results + 1;
}

static void accept(struct mst_cluster *cluster, struct mst_task_link *link,
                   struct mst_task_worker *worker, const struct mst_cluster_message *said)
{
    struct mst_cluster_message hello = *said;
    bool again = worker->link != NULL;
    bool whole = is_whole(worker, said);
    uint64_t came = whole ? worker->results + 1 - said->results : 0;

    if (again) {
        mst_link_close(cluster,
                       worker->link); /* it reconnected before the old connection was seen to end */
    }
    if (came > said->held_count) {
        came = said->held_count;
    }
    if (came > 0) { /* WELCOME acknowledges them, and it holds them no more */
        hello.held += came;
        hello.held_count -= (uint32_t)came;
    }
    if (!take(cluster, worker, &hello)) {
        mst_link_close(cluster, link);
        if (again) {
            mst_loss_silent(cluster, worker, false);
        }
        return;
    }
    mst_loss_back(cluster, worker, whole);
    mst_values_back(cluster, worker);
    start_delay(cluster, worker);
    link->worker = worker;
    worker->link = link;
    worker->heard_ns = cluster->now_ns;
    worker->pid = hello.pid;
    worker->connection = link->connection;
    cluster->connected++;
    cluster->slots += worker->slots;
    mst_alarm_at(cluster, &worker->silent, NEVER);
    mst_alarm_at(cluster, &worker->away, NEVER);
    worker->owe_welcome = true;
    worker->draining = worker->draining || cluster->dismissal == MST_DISMISSED;
    worker->owe_drain = worker->draining;
    worker->owe_builds = true;
    mst_kinds_offered(cluster, worker);
    mst_effect_say(cluster, worker->ever ? MST_CLUSTER_LINE_BACK : MST_CLUSTER_LINE_JOINED, worker,
                   0, 0, mst_slice_of(NULL, 0));
    worker->ever = true;
    mst_task_worker_todo(cluster, worker);
    mst_dispatch_promote(cluster, worker);
    mst_workers_few(cluster);
    cluster->changed = true;
}

static void first(struct mst_cluster *cluster, struct mst_task_link *link,
                  const struct mst_cluster_message *hello)
{
    muster_status status = hello_judge(cluster, hello);
    struct mst_task_worker *worker = mst_task_worker_find(cluster, hello->index);

    if (status == MUSTER_OK && worker &&
        (worker->incarnation > hello->incarnation ||
         (worker->incarnation == hello->incarnation && !mst_task_worker_here(worker)))) {
        status = MUSTER_EFENCED;
    }
    if (status != MUSTER_OK) {
        refuse(cluster, link, status);
        return;
    }
    if (worker && worker->incarnation == hello->incarnation) {
        /* Its worker has hung up already: by the order in which they were accepted, for its own
         * count is the word of anybody who may connect. */
        if (link->connection < worker->connection) {
            mst_link_close(cluster, link);
            return;
        }
        accept(cluster, link, worker, hello);
        return;
    }
    link->hello = hello_copy(&cluster->mem, hello);
    if (!link->hello) {
        mst_link_close(cluster, link);
        return;
    }
    cluster->hellos++;
}

void mst_link_member(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    MST_EACH(link, &cluster->all_links, struct mst_task_link, all) {
        struct mst_cluster_message *hello = link->hello;

        if (hello && !link->closing && hello->index == worker->index &&
            hello->incarnation <= worker->incarnation) {
            link->hello = NULL;
            cluster->hellos--;
            first(cluster, link, hello);
            mst_mem_release(&cluster->mem, hello);
        }
    }
}

/* ---- messages ---- */

static void log_line(struct mst_cluster *cluster, struct mst_task_worker *worker,
                     const struct mst_cluster_message *message)
{
    mst_effect_say(cluster, MST_CLUSTER_LINE_TEXT, worker, message->attempt.closure, 0,
                   message->text);
}

static void draining(struct mst_cluster *cluster, struct mst_task_worker *worker,
                     const struct mst_cluster_message *message)
{
    (void)message;
    worker->draining = true;
    mst_task_worker_update(cluster, worker);
}

static void heard(struct mst_cluster *cluster, struct mst_task_link *link,
                  const struct mst_cluster_message *message)
{
    static void (*const takes[])(struct mst_cluster *, struct mst_task_worker *,
                                 const struct mst_cluster_message *) = {
        [MST_CLUSTER_RESULT] = mst_result_heard,
        [MST_CLUSTER_BUILT] = mst_value_built,
        [MST_CLUSTER_PROGRESS] = mst_result_progress,
        [MST_CLUSTER_LOG] = log_line,
        [MST_CLUSTER_DRAINING] = draining,
    };

    if (message->type < sizeof(takes) / sizeof(takes[0]) && takes[message->type]) {
        takes[message->type](cluster, link->worker, message);
        return;
    }
    cluster->counts.lies++;
    mst_effect_say(cluster, MST_CLUSTER_LINE_REFUSED, link->worker, 0, 0,
                   mst_slice_text("it sent a message that is not a worker's to send"));
    mst_link_break(cluster, link);
}

void mst_cluster_message(struct mst_cluster *cluster, uint64_t now_ns, uint64_t connection,
                         const struct mst_cluster_message *message)
{
    struct mst_task_link *link = mst_link_of(cluster, connection);

    cluster->now_ns = now_ns;
    if (link && link->closing) {
        return;
    }
    if (!link) {
        link = link_new(cluster, connection);
        if (!link) {
            cluster->unknown_connection = connection;
            cluster->owe_unknown = true;
            return;
        }
        first(cluster, link, message);
    } else if (link->worker) {
        link->worker->heard_ns = now_ns;
        heard(cluster, link, message);
    } else {
        refuse(cluster, link, MUSTER_EPROTO); /* a second message before its WELCOME */
    }
}
