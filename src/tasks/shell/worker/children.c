/* SPDX-License-Identifier: Apache-2.0 */
/* The child's end: reads what the worker sends, runs it on its one thread, and answers. It uses its
 * copy of the worker's structure, with `home` instead of a machine. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "os/system.h"
#include "tasks/shell/worker/child.h"

/* Unread progress that is kept for a worker that is busy; more is left out. */
#define PENDING_MAX 65536u

void mst_work_home_answer(struct muster_worker *worker, const struct mst_work_job *job,
                          const struct mst_failure *failure, struct mst_parts parts,
                          uint64_t run_ns)
{
    bool run = job->message->type == MST_CLUSTER_RUN;
    struct mst_cluster_message message = {.type = run ? MST_CLUSTER_RESULT : MST_CLUSTER_BUILT,
                                          .attempt = job->message->attempt,
                                          .value = job->message->value,
                                          .parts = parts,
                                          .run_ns = run_ns};

    if (failure) {
        message.failure = *failure;
    }
    if (mst_cluster_link_send(worker->home, &message) != MUSTER_OK) {
        message.parts = (struct mst_parts){0};
        message.failure = (struct mst_failure){
            .origin = MST_ORIGIN_EXHAUSTED,
            .worker = MST_WORKER_NONE,
            .text = mst_slice_text("its process has no memory to hand its result over")};
        if (mst_cluster_link_send(worker->home, &message) != MUSTER_OK) {
            _exit(125); /* the worker would wait for an answer */
        }
    }
    mst_cluster_link_flush(worker->home);
}

void mst_work_home_report(struct muster_worker *worker, const struct muster_task *task,
                          enum mst_cluster_message_type type, double fraction,
                          struct mst_slice text)
{
    const struct mst_cluster_message message = {
        .type = type, .attempt = task->message->attempt, .fraction = fraction, .text = text};

    if (mst_cluster_link_pending(worker->home) < PENDING_MAX) {
        (void)mst_cluster_link_send(worker->home, &message);
    }
    mst_cluster_link_flush(worker->home);
}

static void run(struct muster_worker *worker, uint32_t slot,
                const struct mst_cluster_message *message)
{
    struct mst_work_job job = {.message = message,
                               .function = &worker->functions[message->function],
                               .slot = slot,
                               .active = true};

    if (message->left_ms != 0) {
        job.deadline_ns = mst_system_now_ns() + message->left_ms * NS_PER_MS;
    }
    atomic_store(&worker->flags[slot].begun, true);
    mst_work_run(worker, &job);
}

/* A command has made the value of these parts. */
static void take_value(struct muster_worker *worker, const struct mst_cluster_message *message)
{
    const struct mst_cluster_message build = {.function = message->function,
                                              .value = message->value};
    struct mst_work_value *value = mst_work_value_add(&worker->values, &build);

    if (value) {
        mst_work_value_set(value, message->parts);
    }
}

/* The worker sends nothing else. */
static void take(struct muster_worker *worker, uint32_t slot,
                 const struct mst_cluster_message *message)
{
    if (message->type == MST_CLUSTER_BUILD &&
        worker->functions[message->function].place == MST_WORK_COMMAND) {
        take_value(worker, message);
    } else if (message->type == MST_CLUSTER_RUN || message->type == MST_CLUSTER_BUILD) {
        run(worker, slot, message);
    } else if (message->type == MST_CLUSTER_DROP) {
        mst_work_value_drop(&worker->values, message->value);
        mst_work_values_sweep(&worker->values);
    } else if (message->type == MST_CLUSTER_WELCOME) {
        worker->home_number = message->worker;
        worker->term = message->term;
    }
}

/* False: the worker has hung up. */
static bool turn(struct muster_worker *worker, uint32_t slot)
{
    struct mst_cluster_message message;
    bool again = false;
    muster_status status = mst_cluster_link_await(worker->home, -1, worker->room, &again);

    for (;;) {
        while (mst_cluster_link_next(worker->home, &message) == MUSTER_OK) {
            take(worker, slot, &message);
        }
        if (status < MUSTER_OK || !again) {
            break;
        }
        status = mst_cluster_link_ready(worker->home, EPOLLIN, worker->room, &again);
    }
    mst_cluster_link_flush(worker->home);
    return status >= MUSTER_OK;
}

_Noreturn void mst_work_child_main(struct muster_worker *worker, uint32_t slot, int fd)
{
    worker->pid = getpid();
    worker->timer = worker->leave = -1;
    worker->home_number = MST_WORKER_NONE;
    (void)pthread_mutex_init(&worker->lock, NULL);
    mst_work_lock(worker); /* held but while a function runs, as in the worker */
    mst_list_init(&worker->waiting);
    mst_list_init(&worker->owed);
    mst_work_values_init(&worker->values);
    worker->room = malloc(MST_CLUSTER_LINK_ROOM);
    if (!worker->room ||
        mst_cluster_link_adopt(&worker->home, fd, NULL, &mst_system_mem) != MUSTER_OK) {
        _exit(125);
    }
    while (turn(worker, slot)) {
    }
    mst_work_values_fini(&worker->values);
    _exit(0);
}
