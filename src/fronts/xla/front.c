/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs and effects of the front. */
#include "fronts/xla/machine.h"
#include "fronts/xla/xla.h"

enum { LOG_MAX = 512 };

static int connection_order(const void *key, const struct mst_tree_node *node)
{
    return mst_tree_compare(*(const uint64_t *)key,
                            MST_CONTAINER_CONST(node, struct mst_xla_connection, by_id)->id);
}

static int op_order(const void *key, const struct mst_tree_node *node)
{
    return mst_tree_compare(*(const uint64_t *)key,
                            MST_CONTAINER_CONST(node, struct mst_xla_op, by_tag)->effect.out.tag);
}

static int task_order(const void *key, const struct mst_tree_node *node)
{
    return mst_tree_compare(*(const uint32_t *)key,
                            MST_CONTAINER_CONST(node, struct mst_xla_task, by_index)->index);
}

static int peer_order(const void *key, const struct mst_tree_node *node)
{
    return mst_tree_compare(*(const uint32_t *)key,
                            MST_CONTAINER_CONST(node, struct mst_xla_peer, by_index)->index);
}

/* ---- effects ---- */

void mst_xla_emit(struct mst_xla *front, struct mst_xla_effect *effect,
                  enum mst_front_effect_kind kind)
{
    MST_ASSERT(!mst_list_linked(&effect->queue));
    effect->out.kind = kind;
    mst_list_append(&front->effects, &effect->queue);
}

void mst_xla_log(struct mst_xla *front, const char *format, ...)
{
    struct {
        struct mst_xla_effect effect;
        char text[LOG_MAX];
    } *line = mst_mem_zalloc(&front->mem, sizeof *line);
    struct mst_text text;
    va_list arguments;

    if (!line) {
        return;
    }
    text = mst_text_in(line->text, sizeof line->text);
    va_start(arguments, format);
    mst_text_format_list(&text, format, arguments);
    va_end(arguments);
    line->effect.out.bytes = mst_slice_of(line->text, text.size);
    mst_xla_emit(front, &line->effect, MST_FRONT_LOG);
}

/* ---- native calls ---- */

struct mst_xla_op *mst_xla_op_new(struct mst_xla_task *task, enum mst_command command, size_t size,
                                  mst_xla_replied *replied)
{
    struct mst_xla *front = task->front;
    struct mst_xla_op *op = mst_mem_zalloc(&front->mem, sizeof *op + size);

    if (!op) {
        return NULL;
    }
    op->task = task;
    op->replied = replied;
    op->room = size;
    op->request.command = command;
    mst_list_init(&op->calls);
    mst_list_init(&op->carried);
    mst_buffer_init(&op->listed, &front->mem, 0);
    mst_buffer_init(&op->after, &front->mem, 0);
    return op;
}

void *mst_xla_op_room(struct mst_xla_op *op, size_t size)
{
    void *room;

    size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    MST_ASSERT(size <= op->room - op->used);
    room = (char *)op + sizeof *op + op->used;
    op->used += size;
    return room;
}

struct mst_slice mst_xla_op_keep(struct mst_xla_op *op, struct mst_slice bytes)
{
    void *room = mst_xla_op_room(op, bytes.size);

    if (bytes.size > 0) {
        memcpy(room, bytes.data, bytes.size);
    }
    return mst_slice_of(room, bytes.size);
}

void mst_xla_op_post(struct mst_xla_op *op)
{
    struct mst_xla *front = op->task->front;
    struct mst_front_effect *out = &op->effect.out;

    out->session = op->task->session;
    out->tag = ++front->next_tag;
    out->request = &op->request;
    out->deadline_ns = NEVER;
    MST_ASSERT(mst_tree_append(&front->ops, &out->tag, &op->by_tag));
    mst_list_append(&op->task->ops, &op->in_task);
    mst_xla_emit(front, &op->effect, MST_FRONT_POST);
}

void mst_xla_op_wait(struct mst_xla_op *op, struct mst_xla_call *call)
{
    mst_list_append(&op->calls, &call->waits);
    call->op = op;
}

static void release(struct mst_xla_op *op)
{
    const struct mst_mem *mem = &op->task->front->mem;

    while (mst_xla_next_waiting(&op->calls)) { /* of a front that ends */
    }
    mst_list_remove(&op->effect.queue);
    mst_buffer_fini(&op->listed);
    mst_buffer_fini(&op->after);
    mst_mem_release(mem, op->names);
    mst_mem_release(mem, op->writes);
    mst_mem_release(mem, op);
}

void mst_xla_op_free(struct mst_xla_op *op)
{
    MST_EACH(carried, &op->carried, struct mst_xla_op, in_task) /* these carry nothing */
    {
        mst_list_remove(&carried->in_task);
        release(carried);
    }
    release(op);
}

/* It is no native call any longer. */
static void op_unlink(struct mst_xla_op *op)
{
    struct mst_xla_task *task = op->task;

    mst_tree_remove(&task->front->ops, &op->by_tag);
    mst_list_remove(&op->in_task);
    if (mst_tree_linked(&op->by_name)) {
        mst_tree_remove(op->request.command == MST_GET ? &task->gets : &task->rounds, &op->by_name);
    }
    if (task->front->watch == op) {
        task->front->watch = NULL;
    }
}

void mst_xla_op_drop(struct mst_xla_op *op)
{
    op_unlink(op);
    if (mst_list_linked(&op->effect.queue)) { /* it was never made */
        mst_xla_op_free(op);
        return;
    }
    op->dropped = true;
    mst_xla_emit(op->task->front, &op->effect, MST_FRONT_DROP);
}

/* ---- the machine ---- */

static void *h2_alloc(size_t size, void *context)
{
    const struct mst_xla *front = context;
    size_t *room = front->mem.alloc(front->mem.ctx, sizeof(max_align_t) + size);

    if (!room) {
        return NULL;
    }
    *room = size;
    return (char *)room + sizeof(max_align_t);
}

static void h2_release(void *p, void *context)
{
    const struct mst_xla *front = context;

    if (p) {
        mst_mem_release(&front->mem, (char *)p - sizeof(max_align_t));
    }
}

static void *h2_zalloc(size_t count, size_t size, void *context)
{
    void *p = size > 0 && count > SIZE_MAX / 2 / size ? NULL : h2_alloc(count * size, context);

    if (p) {
        memset(p, 0, count * size);
    }
    return p;
}

static void *h2_resize(void *p, size_t size, void *context)
{
    void *grown = h2_alloc(size, context);

    if (grown && p) {
        size_t before = *(size_t *)(void *)((char *)p - sizeof(max_align_t));

        memcpy(grown, p, before < size ? before : size);
        h2_release(p, context);
    }
    return grown;
}

static void front_free(void *object)
{
    struct mst_xla *front = object;
    struct mst_tree_node *node;

    while ((node = mst_tree_first(&front->connections)) != NULL) {
        mst_xla_connection_free(MST_CONTAINER(node, struct mst_xla_connection, by_id));
    }
    MST_EACH(effect, &front->effects, struct mst_xla_effect, queue) {
        mst_list_remove(&effect->queue);
        if (effect->out.kind == MST_FRONT_LOG) {
            mst_mem_release(&front->mem, effect);
        } else if (effect->out.kind == MST_FRONT_DROP) {
            mst_xla_op_free(MST_CONTAINER(effect, struct mst_xla_op, effect));
        }
    }
    while ((node = mst_tree_first(&front->ops)) != NULL) {
        struct mst_xla_op *op = MST_CONTAINER(node, struct mst_xla_op, by_tag);

        op_unlink(op);
        mst_xla_op_free(op);
    }
    while ((node = mst_tree_first(&front->tasks)) != NULL) {
        mst_xla_task_free(MST_CONTAINER(node, struct mst_xla_task, by_index));
    }
    mst_xla_members_free(front);
    mst_native_arena_fini(&front->arena);
    nghttp2_session_callbacks_del(front->callbacks);
    nghttp2_option_del(front->option);
    mst_mem_release(&front->mem, front->chunk);
    mst_mem_release(&front->mem, front->spent);
    mst_mem_release(&front->mem, front);
}

static muster_status front_new(void **out, const struct mst_front_config *config,
                               const struct mst_mem *mem)
{
    struct mst_xla *front = mst_mem_zalloc(mem, sizeof *front);

    if (!front) {
        return MUSTER_ENOMEM;
    }
    front->mem = *mem;
    front->config = *config;
    front->h2_mem = (nghttp2_mem){.mem_user_data = front,
                                  .malloc = h2_alloc,
                                  .free = h2_release,
                                  .calloc = h2_zalloc,
                                  .realloc = h2_resize};
    mst_tree_init(&front->connections, connection_order);
    mst_tree_init(&front->ops, op_order);
    mst_tree_init(&front->tasks, task_order);
    mst_tree_init(&front->peers, peer_order);
    mst_list_init(&front->effects);
    mst_list_init(&front->dirty);
    mst_list_init(&front->watching);
    mst_native_arena_init(&front->arena, &front->mem);
    if (mst_xla_callbacks_new(front) != MUSTER_OK) {
        front_free(front);
        return MUSTER_ENOMEM;
    }
    *out = front;
    return MUSTER_OK;
}

/* ---- inputs ---- */

static struct mst_xla_connection *connection_of(const struct mst_xla *front, uint64_t id)
{
    return MST_CONTAINER_OR_NULL(mst_tree_find(&front->connections, &id), struct mst_xla_connection,
                                 by_id);
}

static struct mst_xla_task *task_of(const struct mst_xla *front, uint64_t session)
{
    MST_TREE_EACH(task, &front->tasks, struct mst_xla_task, by_index) {
        if (task->session == session) {
            return task;
        }
    }
    return NULL;
}

static struct mst_xla *begin(void *object, uint64_t now_ns)
{
    struct mst_xla *front = object;

    front->now_ns = now_ns;
    return front;
}

static void front_connected(void *object, uint64_t now_ns, uint64_t id)
{
    struct mst_xla *front = begin(object, now_ns);

    if (mst_xla_connection_new(front, id) != MUSTER_OK) {
        mst_xla_log(front, "jax: a connection is not answered: no memory");
    }
}

static void front_received(void *object, uint64_t now_ns, uint64_t id, struct mst_slice bytes)
{
    struct mst_xla_connection *connection = connection_of(begin(object, now_ns), id);

    if (connection) {
        connection->burst = 0;
        mst_xla_connection_received(connection, bytes);
    }
}

static void front_closed(void *object, uint64_t now_ns, uint64_t id)
{
    struct mst_xla_connection *connection = connection_of(begin(object, now_ns), id);

    if (connection) {
        mst_xla_connection_free(connection);
    }
}

static void front_written(void *object, uint64_t now_ns, uint64_t id, size_t backlog)
{
    struct mst_xla_connection *connection = connection_of(begin(object, now_ns), id);

    if (connection) {
        mst_xla_connection_written(connection, backlog);
    }
}

static void front_opened(void *object, uint64_t now_ns, uint64_t session, uint64_t generation)
{
    struct mst_xla_task *task = task_of(begin(object, now_ns), session);

    if (task && task->stage == MST_XLA_OPENING) {
        mst_xla_task_opened(task, generation);
    }
}

static void front_reply(void *object, uint64_t now_ns, uint64_t session, uint64_t tag,
                        const struct mst_reply *reply)
{
    struct mst_xla *front = begin(object, now_ns);
    struct mst_tree_node *node = mst_tree_find(&front->ops, &tag);
    struct mst_xla_op *op = MST_CONTAINER_OR_NULL(node, struct mst_xla_op, by_tag);

    if (!op || op->task->session != session) {
        return;
    }
    op_unlink(op);
    op->replied(front, op, reply);
    if (!mst_tree_linked(&op->by_tag) && !op->taken) { /* neither made again nor kept */
        mst_xla_op_free(op);
    }
}

static void front_ended(void *object, uint64_t now_ns, uint64_t session, muster_status status,
                        struct mst_slice text)
{
    struct mst_xla_task *task = task_of(begin(object, now_ns), session);

    if (task) {
        mst_xla_task_ended(task, status, text);
    }
}

static void front_dead(void *object, uint64_t now_ns, uint32_t index, struct mst_slice text)
{
    struct mst_xla *front = begin(object, now_ns);
    struct mst_xla_task *task = mst_xla_task_at(front, index);

    if (task) {
        mst_xla_task_dead(task, text);
    }
}

static void front_notice(void *object, uint64_t now_ns, struct mst_slice text)
{
    struct mst_xla *front = begin(object, now_ns);

    (void)text;
    front->noticed = true;
    mst_xla_notice(front);
}

static void front_tick(void *object, uint64_t now_ns)
{
    struct mst_xla *front = begin(object, now_ns);

    MST_TREE_EACH(connection, &front->connections, struct mst_xla_connection, by_id) {
        if (connection->burst > 0) {
            connection->burst = 0;
            mst_xla_connection_touch(connection);
        }
    }
    MST_TREE_EACH(task, &front->tasks, struct mst_xla_task, by_index) {
        mst_xla_task_tick(task);
    }
    mst_xla_members_tick(front);
    front->bursts = false;
}

static uint64_t front_deadline_ns(const void *object)
{
    const struct mst_xla *front = object;
    uint64_t sooner = front->watcher && !front->watch ? front->follow.again_ns : NEVER;

    if (front->bursts) {
        return front->now_ns;
    }
    MST_TREE_EACH(task, &front->tasks, struct mst_xla_task, by_index) {
        sooner = mst_sooner(sooner, mst_xla_task_deadline_ns(task));
    }
    return sooner;
}

/* ---- outputs ---- */

/* The first one of the queue, whose node may be freed by now, but not what it borrows. */
static const struct mst_front_effect *take_effect(struct mst_xla *front)
{
    struct mst_list *node = mst_list_take(&front->effects);
    struct mst_xla_effect *effect = MST_CONTAINER(node, struct mst_xla_effect, queue);

    front->out = effect->out;
    if (effect->out.kind == MST_FRONT_LOG) {
        front->spent = effect;
    } else if (effect->out.kind == MST_FRONT_DROP) {
        mst_xla_op_free(MST_CONTAINER(effect, struct mst_xla_op, effect));
    }
    return &front->out;
}

static const struct mst_front_effect *next_output(struct mst_xla *front)
{
    while (!mst_list_empty(&front->dirty)) {
        struct mst_xla_connection *connection =
            MST_CONTAINER(front->dirty.next, struct mst_xla_connection, dirty);
        struct mst_slice bytes = mst_xla_connection_output(connection);

        if (bytes.size > 0) {
            front->out = (struct mst_front_effect){
                .kind = MST_FRONT_SEND, .connection = connection->id, .bytes = bytes};
            return &front->out;
        }
        mst_list_remove(&connection->dirty);
        front->bursts = front->bursts || mst_xla_connection_bursts(connection);
        if (connection->ending) {
            front->out =
                (struct mst_front_effect){.kind = MST_FRONT_CLOSE, .connection = connection->id};
            mst_xla_connection_free(connection);
            return &front->out;
        }
    }
    return NULL;
}

static const struct mst_front_effect *front_next(void *object)
{
    struct mst_xla *front = object;

    mst_mem_release(&front->mem, front->spent);
    front->spent = NULL;
    return mst_list_empty(&front->effects) ? next_output(front) : take_effect(front);
}

static void front_check(const void *object)
{
    const struct mst_xla *front = object;

    MST_TREE_EACH(connection, &front->connections, struct mst_xla_connection, by_id) {
        size_t bodies = 0;
        uint32_t calls = 0;

        MST_EACH(call, &connection->calls, struct mst_xla_call, in_connection) {
            bodies += call->room;
            calls++;
            /* Answered, or it waits somewhere, or its message is not whole. */
            MST_ASSERT(!(call->answered && mst_list_linked(&call->waits)));
            MST_ASSERT(call->op == NULL || mst_list_linked(&call->waits));
        }
        MST_ASSERT(bodies == connection->bodies && calls == connection->call_count);
    }
    MST_TREE_EACH(task, &front->tasks, struct mst_xla_task, by_index) {
        MST_ASSERT((task->stage == MST_XLA_OPENING) || mst_list_empty(&task->registering));
        MST_ASSERT(task->stage == MST_XLA_HERE || task->stage == MST_XLA_LEAVING ||
                   mst_list_empty(&task->polls));
        MST_ASSERT(task->stage == MST_XLA_LEAVING || mst_list_empty(&task->leaving));
    }
}

const struct mst_front mst_xla_front = {.name = "xla",
                                        .new = front_new,
                                        .free = front_free,
                                        .connected = front_connected,
                                        .received = front_received,
                                        .closed = front_closed,
                                        .written = front_written,
                                        .opened = front_opened,
                                        .reply = front_reply,
                                        .ended = front_ended,
                                        .dead = front_dead,
                                        .notice = front_notice,
                                        .tick = front_tick,
                                        .deadline_ns = front_deadline_ns,
                                        .next = front_next,
                                        .check = front_check};
