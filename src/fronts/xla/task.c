/* SPDX-License-Identifier: Apache-2.0 */
/* A task: its registration, its heartbeats, the errors that reach it, and its end. */
#include "fronts/xla/machine.h"

enum {
    /* A connection that closes without ShutdownTask: how the process ended is reported by then. */
    GONE_MS = 2000,
    /* A tick that comes so much later than a task's time is the agent's own delay. */
    LATE_MS = 1000,
    BEATS = 2,                /* its heartbeats' time, in their periods */
    SHUTDOWN_MS = 300000,     /* JAX's own limit */
    SHUTDOWN_SPARE_MS = 5000, /* it waits so much longer for the answer */
    SHUTDOWN_LEAST_MS = 10000
};

static const char published[] = "xla-task/";

/* ---- tasks ---- */

struct mst_xla_task *mst_xla_task_at(const struct mst_xla *front, uint32_t index)
{
    return MST_CONTAINER_OR_NULL(mst_tree_find(&front->tasks, &index), struct mst_xla_task,
                                 by_index);
}

static struct mst_xla_task *task_new(struct mst_xla *front, uint32_t index)
{
    struct mst_xla_task *task = mst_mem_zalloc(&front->mem, sizeof *task);

    if (!task) {
        return NULL;
    }
    task->front = front;
    task->index = index;
    task->gone_ns = NEVER;
    mst_list_init(&task->registering);
    mst_list_init(&task->polls);
    mst_list_init(&task->leaving);
    mst_list_init(&task->ops);
    mst_xla_keys_init(task);
    mst_xla_rounds_init(task);
    (void)mst_tree_insert(&front->tasks, &index, &task->by_index);
    return task;
}

void mst_xla_task_free(struct mst_xla_task *task)
{
    mst_tree_remove(&task->front->tasks, &task->by_index);
    mst_xla_rounds_fini(task);
    mst_mem_release(&task->front->mem, task);
}

/* It has a session, or will have. */
static bool is_here(const struct mst_xla_task *task)
{
    return task->stage == MST_XLA_OPENING || task->stage == MST_XLA_HERE ||
           task->stage == MST_XLA_LEAVING;
}

/* ---- errors ---- */

static struct mst_xla_error about(const struct mst_xla_task *task, struct mst_xla_error error)
{
    error.has_source = true;
    error.origin.source.id = task->index;
    return error;
}

/* The other one's text as well. */
static struct mst_xla_error quoting(enum mst_xla_code code, const char *words,
                                    const struct mst_xla_error *inner)
{
    struct mst_xla_error error = mst_xla_error_of(code, "%s", words);
    struct mst_text text = {
        .start = error.text, .size = strlen(error.text), .room = sizeof error.text};

    mst_text_add(&text, inner->text);
    error.has_source = inner->has_source;
    error.origin = inner->origin;
    return error;
}

static void drop_ops(struct mst_xla_task *task, const struct mst_xla_error *error)
{
    MST_EACH(op, &task->ops, struct mst_xla_op, in_task) {
        struct mst_xla_error own = *error;

        if (op->request.command == MST_ROUND && op->name.size > 0) {
            own.has_barrier = true;
            own.barrier = (struct mst_xla_barrier_error){op->name, op->counter};
        }
        mst_xla_refuse_all(&op->calls, &own);
        mst_xla_op_drop(op);
    }
}

static void leave(struct mst_xla_task *task)
{
    task->leave.out.session = task->session;
    mst_xla_emit(task->front, &task->leave, MST_FRONT_LEAVE);
    task->session = 0;
}

void mst_xla_propagate(struct mst_xla *front, const struct mst_xla_error *error)
{
    if (front->config.recoverable || front->has_error) {
        return;
    }
    front->has_error = true;
    front->error = *error;
    MST_TREE_EACH(task, &front->tasks, struct mst_xla_task, by_index) {
        mst_xla_refuse_all(&task->polls, error);
    }
}

void mst_xla_task_fail(struct mst_xla_task *task, const struct mst_xla_error *error,
                       enum mst_xla_end end)
{
    struct mst_xla *front = task->front;
    struct mst_xla_error quoted = quoting(MST_XLA_INTERNAL, "Barrier failed because: ", error);
    struct mst_xla_error aborted = quoting(MST_XLA_ABORTED, "", error);

    mst_xla_members_stop(task);
    task->error = *error;
    task->stage = MST_XLA_FAILED;
    task->gone_ns = NEVER;
    mst_xla_propagate(front, error);
    mst_xla_refuse_all(&task->registering, &aborted);
    mst_xla_refuse_all(&task->polls, error);
    mst_xla_refuse_all(&task->leaving, &quoted);
    drop_ops(task, &quoted);
    mst_xla_members_set(front, task->index, MST_XLA_ERROR, task->incarnation, error);
    if (end == MST_XLA_REPORTS || end == MST_XLA_UNHEALTHY) {
        task->fail.out.session = task->session;
        task->fail.out.cause = end == MST_XLA_UNHEALTHY ? MST_CAUSE_UNHEALTHY : MST_CAUSE_NONE;
        task->fail.out.code = (int32_t)error->code;
        task->fail.out.bytes = mst_slice_text(task->error.text);
        mst_xla_emit(front, &task->fail, MST_FRONT_FAIL);
    }
    if (end != MST_XLA_KEEPS) {
        leave(task);
    }
}

/* ---- RegisterTask ---- */

static void registered(struct mst_xla_call *call, const struct mst_xla_task *task)
{
    mst_xla_answer(call, &(struct mst_xla_reply){.incarnation = task->generation});
}

static void open_session(struct mst_xla_task *task)
{
    struct mst_xla *front = task->front;

    task->stage = MST_XLA_OPENING;
    task->session = ++front->next_session;
    task->generation = 0;
    task->open.out.session = task->session;
    task->open.out.connection = task->connection->id;
    task->open.out.index = task->index;
    task->open.out.size = front->config.size;
    mst_xla_emit(front, &task->open, MST_FRONT_OPEN);
}

static void publish_done(struct mst_xla *front, struct mst_xla_op *op,
                         const struct mst_reply *reply)
{
    if (reply->status != MUSTER_OK) {
        mst_xla_log(front, "jax: task %u: publishing its incarnation: %s", op->task->index,
                    mst_status_text(reply->status));
    }
}

/* For all agents: its incarnation, for WatchTasks, and the job's time between heartbeats in ns. */
static void publish(struct mst_xla_task *task)
{
    enum { ROOM = 256 };
    struct mst_xla_op *op = mst_xla_op_new(task, MST_WRITE, ROOM, publish_done);
    struct mst_write *write;
    char text[64];

    if (!op) {
        return;
    }
    write = mst_xla_op_room(op, sizeof *write);
    *write = (struct mst_write){.kind = MST_PUT};
    write->key = mst_xla_op_keep(
        op, mst_slice_of(text, mst_text_print(text, sizeof text, "%s%u", published, task->index)));
    write->value = mst_xla_op_keep(
        op, mst_slice_of(text, mst_text_print(text, sizeof text, "%" PRIu64 " %" PRIu64,
                                              task->incarnation, task->front->beat_every_ns)));
    op->request.write.generation = task->generation;
    op->request.write.ops = write;
    op->request.write.count = 1;
    op->stays = true;
    mst_xla_op_post(op);
}

void mst_xla_task_opened(struct mst_xla_task *task, uint64_t generation)
{
    struct mst_xla_call *call;

    task->generation = generation;
    task->stage = MST_XLA_HERE;
    task->beat_ns = task->front->now_ns;
    task->front->generation = mst_later(task->front->generation, generation);
    publish(task);
    mst_xla_members_set(task->front, task->index, MST_XLA_CONNECTED, task->incarnation, NULL);
    mst_xla_members_begin(task);
    if (task->front->noticed) {
        mst_xla_notice(task->front);
    }
    while ((call = mst_xla_next_waiting(&task->registering)) != NULL) {
        registered(call, task);
    }
}

/* The process that had this place was another one. */
static void replace(struct mst_xla_call *call, struct mst_xla_task *task, uint64_t incarnation)
{
    struct mst_xla *front = task->front;
    struct mst_xla_error error;

    if (front->config.recoverable) {
        error = mst_xla_error_of(MST_XLA_CANCELLED, "task %u has registered anew", task->index);
        mst_xla_refuse_all(&task->polls, &error);
        task->incarnation = incarnation;
        task->beat_ns = front->now_ns;
        task->beat_every_ns = 0;
        publish(task);
        registered(call, task);
        return;
    }
    error = about(task, mst_xla_error_of(MST_XLA_ABORTED,
                                         "task %u registered again with a different incarnation: "
                                         "its process was started anew",
                                         task->index));
    mst_xla_task_fail(task, &error, MST_XLA_REPORTS);
    mst_xla_refuse(call, &error);
}

static void superseded(struct mst_xla_task *task, uint64_t incarnation)
{
    struct mst_xla_error error = mst_xla_error_of(
        MST_XLA_ALREADY_EXISTS, "task %u was registered by a newer process", task->index);

    mst_xla_refuse_all(&task->registering, &error);
    task->incarnation = incarnation;
}

static void register_at(struct mst_xla_call *call, struct mst_xla_task *task, uint64_t incarnation)
{
    struct mst_xla_error error;

    if (task->stage == MST_XLA_FAILED) {
        error = quoting(MST_XLA_ABORTED, "the task is already in error: ", &task->error);
        mst_xla_refuse(call, &error);
        return;
    }
    task->connection = call->connection;
    task->gone_ns = NEVER;
    task->wire = call->wire;
    call->connection->task = task;
    if (task->stage == MST_XLA_ABSENT) {
        task->incarnation = incarnation;
        task->beat_every_ns = 0;
        open_session(task);
    }
    if (task->stage == MST_XLA_OPENING) {
        if (task->incarnation != incarnation) {
            superseded(task, incarnation);
        }
        mst_list_append(&task->registering, &call->waits);
    } else if (task->incarnation == incarnation) {
        task->beat_ns = task->front->now_ns;
        registered(call, task);
    } else {
        replace(call, task, incarnation);
    }
}

void mst_xla_register(struct mst_xla_call *call, const struct mst_xla_request *request)
{
    struct mst_xla *front = call->connection->front;
    uint32_t index = request->source.id;
    uint64_t most = front->config.size > 0 ? front->config.size : front->config.limits.members_max;
    struct mst_xla_task *task = mst_xla_task_at(front, index);
    struct mst_xla_error error;

    if (index >= most) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT,
                                 "RegisterTask: task %d is not in the cluster, which has %" PRIu64
                                 " tasks",
                                 (int)index, most);
    } else if (!task && !(task = task_new(front, index))) {
        error = mst_xla_error_of(MST_XLA_RESOURCE_EXHAUSTED, "RegisterTask: no memory");
    } else {
        register_at(call, task, request->incarnation);
        return;
    }
    mst_xla_refuse(call, &error);
}

void mst_xla_task_ended(struct mst_xla_task *task, muster_status status, struct mst_slice text)
{
    enum mst_xla_code code = status == MUSTER_ETIMEDOUT ? MST_XLA_DEADLINE_EXCEEDED
                             : status == MUSTER_EINVAL || status == MUSTER_EEXISTS
                                 ? MST_XLA_FAILED_PRECONDITION
                                 : MST_XLA_INTERNAL;
    struct mst_xla_error error;

    if (task->stage == MST_XLA_OPENING) {
        error =
            mst_xla_error_of(code, "task %u cannot join: %.*s", task->index, MST_SLICE_ARGS(text));
        task->stage = MST_XLA_ABSENT;
        task->session = 0;
        mst_xla_refuse_all(&task->registering, &error);
    } else if (task->stage != MST_XLA_FAILED) {
        error = about(task, mst_xla_error_of(MST_XLA_UNAVAILABLE,
                                             "task %u has lost its place in the job: %.*s",
                                             task->index, MST_SLICE_ARGS(text)));
        mst_xla_task_fail(task, &error, MST_XLA_KEEPS);
        task->session = 0;
    }
}

/* ---- Heartbeat, PollForError ---- */

void mst_xla_heartbeat(struct mst_xla_call *call, struct mst_xla_task *task,
                       const struct mst_xla_request *request)
{
    struct mst_xla *front = task->front;
    struct mst_xla_error error;

    if (task->stage == MST_XLA_FAILED) {
        error = quoting(MST_XLA_ABORTED, "the task is already in error: ", &task->error);
    } else if (!is_here(task) && !task->has_left) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT, "Heartbeat: task %u is not registered",
                                 task->index);
    } else if (task->incarnation != request->incarnation && !front->config.recoverable) {
        error = about(task, mst_xla_error_of(MST_XLA_ABORTED,
                                             "Heartbeat: task %u has a different incarnation: its "
                                             "process was started anew",
                                             task->index));
        if (task->stage != MST_XLA_ABSENT) {
            mst_xla_task_fail(task, &error, MST_XLA_REPORTS);
        }
    } else {
        if (task->incarnation == request->incarnation) {
            task->beat_ns = front->now_ns;
            task->beat_every_ns = call->timeout_ns;
        }
        if (call->timeout_ns > front->beat_every_ns && is_here(task)) {
            front->beat_every_ns = call->timeout_ns;
            publish(task);
        }
        registered(call, task);
        return;
    }
    mst_xla_refuse(call, &error);
}

void mst_xla_poll(struct mst_xla_call *call, struct mst_xla_task *task,
                  const struct mst_xla_request *request)
{
    struct mst_xla_error error;

    (void)request;
    if (task->stage == MST_XLA_FAILED) {
        error =
            quoting(MST_XLA_FAILED_PRECONDITION, "the task is already in error: ", &task->error);
    } else if (task->stage == MST_XLA_ABSENT || task->stage == MST_XLA_OPENING) {
        error =
            mst_xla_error_of(MST_XLA_FAILED_PRECONDITION,
                             "task %u has not been registered or has disconnected", task->index);
    } else if (task->front->has_error) {
        error = task->front->error;
    } else {
        error = mst_xla_error_of(MST_XLA_CANCELLED, "task %u polls again", task->index);
        mst_xla_refuse_all(&task->polls, &error);
        mst_list_append(&task->polls, &call->waits);
        return;
    }
    mst_xla_refuse(call, &error);
}

/* ---- its end ---- */

static void left(struct mst_xla_task *task)
{
    struct mst_xla_error error =
        mst_xla_error_of(MST_XLA_CANCELLED, "task %u has disconnected", task->index);

    mst_xla_members_stop(task);
    task->stage = MST_XLA_ABSENT;
    task->has_left = true;
    task->gone_ns = NEVER;
    mst_xla_answer_all(&task->leaving, &(struct mst_xla_reply){0});
    mst_xla_refuse_all(&task->polls, &error);
    drop_ops(task, &error);
    mst_xla_members_set(task->front, task->index, MST_XLA_DISCONNECTED, task->incarnation, NULL);
    leave(task);
}

static void shutdown_done(struct mst_xla *front, struct mst_xla_op *op,
                          const struct mst_reply *reply)
{
    struct mst_xla_task *task = op->task;
    struct mst_xla_error error;

    (void)front;
    if (reply->status == MUSTER_OK) {
        left(task);
        return;
    }
    error = mst_xla_error_round(MST_XLA_INTERNAL, "Shutdown barrier has failed: ", reply);
    mst_xla_refuse_all(&task->leaving, &error);
    mst_xla_task_fail(task, &error, MST_XLA_LEAVES);
}

void mst_xla_shutdown(struct mst_xla_call *call, struct mst_xla_task *task,
                      const struct mst_xla_request *request)
{
    static const char name[] = "xla/shutdown";
    uint64_t timeout_ms = call->timeout_ns / NS_PER_MS;
    struct mst_xla_op *op;
    struct mst_xla_error error;

    (void)request;
    if (task->stage == MST_XLA_LEAVING) {
        mst_list_append(&task->leaving, &call->waits);
        return;
    }
    if (task->stage != MST_XLA_HERE) {
        error = mst_xla_error_of(MST_XLA_FAILED_PRECONDITION,
                                 "ShutdownTask: task %u has already disconnected", task->index);
        mst_xla_refuse(call, &error);
        return;
    }
    op = task->front->config.recoverable
             ? NULL
             : mst_xla_op_new(task, MST_ROUND, sizeof name + sizeof(max_align_t), shutdown_done);
    if (!op && !task->front->config.recoverable) {
        error = mst_xla_error_of(MST_XLA_RESOURCE_EXHAUSTED, "ShutdownTask: no memory");
        mst_xla_refuse(call, &error);
        return;
    }
    task->stage = MST_XLA_LEAVING;
    mst_list_append(&task->leaving, &call->waits);
    if (!op) {
        left(task);
        return;
    }
    op->request.round = (struct mst_round_request){
        .generation = task->generation,
        .name = mst_xla_op_keep(op, mst_slice_text(name)),
        .deadline_ms =
            timeout_ms > SHUTDOWN_LEAST_MS ? timeout_ms - SHUTDOWN_SPARE_MS : SHUTDOWN_MS,
        .any_deadline = true,
        .on_loss = MST_FAIL};
    op->stays = true;
    mst_xla_op_post(op);
}

void mst_xla_report(struct mst_xla_call *call, struct mst_xla_task *task,
                    const struct mst_xla_request *request)
{
    struct mst_xla_error error;

    if (request->code == 0) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT,
                                 "ReportErrorToService: the code of an error is not 0");
        mst_xla_refuse(call, &error);
        return;
    }
    if (task->stage != MST_XLA_HERE && task->stage != MST_XLA_LEAVING) {
        error = mst_xla_error_of(MST_XLA_FAILED_PRECONDITION,
                                 "ReportErrorToService: task %u is not connected", task->index);
        mst_xla_refuse(call, &error);
        return;
    }
    error = about(task, mst_xla_error_of(request->code <= MST_XLA_CODE_LAST
                                             ? (enum mst_xla_code)request->code
                                             : MST_XLA_UNKNOWN,
                                         "%.*s", MST_SLICE_ARGS(request->text)));
    error.origin.reported = true;
    mst_xla_task_fail(task, &error, MST_XLA_REPORTS);
    mst_xla_answer(call, &(struct mst_xla_reply){0});
}

/* It dies while it registers: another process may come in its place. */
static void forget(struct mst_xla_task *task, bool leaves)
{
    struct mst_xla_error error =
        mst_xla_error_of(MST_XLA_CANCELLED, "task %u died while it registered", task->index);

    task->stage = MST_XLA_ABSENT;
    task->gone_ns = NEVER;
    mst_xla_refuse_all(&task->registering, &error);
    if (leaves) {
        leave(task);
    }
    task->session = 0;
}

void mst_xla_task_dead(struct mst_xla_task *task, struct mst_slice text)
{
    struct mst_xla_error error;

    if (task->stage == MST_XLA_OPENING) {
        forget(task, false);
    } else if (is_here(task)) {
        error = about(task, mst_xla_error_of(MST_XLA_UNAVAILABLE, "task %u is lost: %.*s",
                                             task->index, MST_SLICE_ARGS(text)));
        mst_xla_task_fail(task, &error, MST_XLA_KEEPS);
    }
}

void mst_xla_task_unconnected(struct mst_xla_task *task,
                              const struct mst_xla_connection *connection)
{
    if (task->connection == connection) {
        task->connection = NULL;
        if (is_here(task)) {
            task->gone_ns = mst_after_ms(task->front->now_ns, GONE_MS);
        }
    }
}

static uint64_t beat_every_ns(const struct mst_xla_task *task)
{
    return task->beat_every_ns > 0 ? task->beat_every_ns : task->front->beat_every_ns;
}

static uint64_t stale_ns(const struct mst_xla_task *task)
{
    uint64_t every_ns = beat_every_ns(task);

    return (task->stage == MST_XLA_HERE || task->stage == MST_XLA_LEAVING) && every_ns > 0 &&
                   every_ns < NEVER / BEATS
               ? mst_after_ns(task->beat_ns, BEATS * every_ns)
               : NEVER;
}

uint64_t mst_xla_task_deadline_ns(const struct mst_xla_task *task)
{
    return mst_sooner(task->gone_ns, stale_ns(task));
}

void mst_xla_task_tick(struct mst_xla_task *task)
{
    uint64_t now_ns = task->front->now_ns, stale = stale_ns(task);
    bool closed = now_ns >= task->gone_ns;
    struct mst_xla_error error;

    if (closed && task->stage == MST_XLA_OPENING) {
        forget(task, true);
        return;
    }
    if (closed) {
        error = about(task, mst_xla_error_of(MST_XLA_UNAVAILABLE,
                                             "task %u is lost: it closed its connection without "
                                             "ShutdownTask",
                                             task->index));
    } else if (now_ns < stale) {
        return;
    } else if (now_ns >= mst_after_ms(stale, LATE_MS)) {
        task->beat_ns = now_ns - beat_every_ns(task); /* another beat */
        return;
    } else {
        error = about(task, mst_xla_error_of(MST_XLA_UNAVAILABLE,
                                             "The following tasks are unhealthy (stopped sending "
                                             "heartbeats; heartbeat timeout):\n%u\n",
                                             task->index));
    }
    /* A connection may be closed because of another's failure. A silence has no such cause. */
    mst_xla_task_fail(task, &error, closed ? MST_XLA_REPORTS : MST_XLA_UNHEALTHY);
}

/* ---- which task calls ---- */

static struct mst_xla_task *caller_of(const struct mst_xla_call *call,
                                      const struct mst_xla_request *request)
{
    struct mst_xla *front = call->connection->front;
    struct mst_xla_task *last = call->connection->task;

    if (call->method <= MST_XLA_REPORT || call->method >= MST_XLA_BARRIER) {
        return mst_xla_task_at(front, request->source.id);
    }
    if (call->wire == MST_XLA_T || (last && last->incarnation == request->incarnations.task)) {
        return last;
    }
    MST_TREE_EACH(task, &front->tasks, struct mst_xla_task, by_index) {
        if (task->incarnation == request->incarnations.task) {
            return task;
        }
    }
    return NULL;
}

/* X says which service it means. */
static bool is_meant(const struct mst_xla_call *call, const struct mst_xla_task *task,
                     const struct mst_xla_request *request, struct mst_xla_error *error)
{
    uint64_t meant = request->incarnations.service;
    uint64_t generation = task ? task->generation : call->connection->front->generation;

    if (call->wire == MST_XLA_T || (meant != 0 && meant == generation)) {
        return true;
    }
    *error = mst_xla_error_of(MST_XLA_INTERNAL,
                              "wrong service incarnation: %" PRIu64 ", and this is %" PRIu64, meant,
                              generation);
    error->has_mismatch = true;
    error->mismatch.incarnation = generation;
    return false;
}

void mst_xla_serve_call(struct mst_xla_call *call, const struct mst_xla_request *request)
{
    static mst_xla_serve *const methods[MST_XLA_METHODS] = {[MST_XLA_HEARTBEAT] = mst_xla_heartbeat,
                                                            [MST_XLA_POLL] = mst_xla_poll,
                                                            [MST_XLA_SHUTDOWN] = mst_xla_shutdown,
                                                            [MST_XLA_REPORT] = mst_xla_report,
                                                            [MST_XLA_WATCH] = mst_xla_watch,
                                                            [MST_XLA_INSERT] = mst_xla_insert,
                                                            [MST_XLA_GET] = mst_xla_get,
                                                            [MST_XLA_TRY_GET] = mst_xla_get,
                                                            [MST_XLA_INCREMENT] = mst_xla_increment,
                                                            [MST_XLA_LIST] = mst_xla_list,
                                                            [MST_XLA_DELETE] = mst_xla_delete,
                                                            [MST_XLA_BARRIER] = mst_xla_barrier,
                                                            [MST_XLA_ALIVE] = mst_xla_alive};
    struct mst_xla_task *task;
    struct mst_xla_error error;

    if (call->method == MST_XLA_REGISTER) {
        mst_xla_register(call, request);
        return;
    }
    task = caller_of(call, request);
    if (!is_meant(call, task, request, &error)) {
        mst_xla_refuse(call, &error);
        return;
    }
    if (!task) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT,
                                 "%s: the calling task is not in the cluster: it has not been "
                                 "registered here",
                                 mst_xla_method_name(call->method));
        mst_xla_refuse(call, &error);
        return;
    }
    if (!task->connection && is_here(task)) { /* it has connected again */
        task->connection = call->connection;
        task->gone_ns = NEVER;
    }
    if (call->method >= MST_XLA_WATCH && task->stage != MST_XLA_HERE &&
        task->stage != MST_XLA_LEAVING) {
        error = mst_xla_error_of(MST_XLA_FAILED_PRECONDITION, "%s: task %u is not connected",
                                 mst_xla_method_name(call->method), task->index);
        mst_xla_refuse(call, &error);
        return;
    }
    methods[call->method](call, task, request);
}
