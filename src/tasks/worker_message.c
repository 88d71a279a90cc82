/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the coordinator. */
#include "base/panic.h"
#include "tasks/worker_machine.h"

static void take_welcome(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    if (message->term != worker->term) {
        /* Its key names another term: the change of the key is on its way. */
        mst_worker_say(worker, "hung up: the coordinator reached has the term ", message->term,
                       mst_slice_of(NULL, 0));
        mst_worker_hang_up(worker);
        return;
    }
    worker->link = MST_LINK_WELCOMED;
    worker->failures = 0;
    worker->linger_ns = NEVER;
    worker->number = message->worker;
    worker->grace_ms = message->left_ms;
    mst_worker_send_again(worker, message->results);
    mst_worker_overdue_again(worker);
    mst_worker_say(worker, "takes work from the coordinator, as its worker ", message->worker,
                   mst_slice_of(NULL, 0));
    MST_TREE_EACH(value, &worker->values, struct mst_worker_value, node) {
        mst_worker_value_tell(worker, value);
    }
    if (worker->end == MST_WORKER_DRAINS) {
        mst_worker_post(worker, &worker->leaving, &worker->draining);
    }
}

static void take_refused(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    mst_worker_say(worker, "refused by the coordinator of term ", message->term, message->text);
    mst_worker_hang_up(worker);
}

static bool is_run_sane(const struct mst_worker *worker, const struct mst_cluster_message *message)
{
    uint64_t most = (uint64_t)worker->config.slots * MST_WORKER_QUEUED_MAX;

    return message->attempt.closure > 0 && message->attempt.attempt > 0 &&
           worker->runs.count - worker->sent_count < most &&
           !mst_worker_run_find(worker, message->attempt);
}

static void take_run(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    struct mst_worker_run *run;

    if (!is_run_sane(worker, message)) {
        mst_worker_lie(worker,
                       "a RUN without a number, of an attempt that is here, or beyond the limit");
        return;
    }
    if (!mst_worker_run_take(worker, message)) {
        mst_worker_say(worker,
                       "hung up: there was no memory for a run; slots in use: ", worker->busy,
                       mst_slice_of(NULL, 0));
        mst_worker_hang_up(worker);
        return;
    }
    run = mst_worker_run_find(worker, message->attempt);
    if (worker->end != MST_WORKER_LIVES) {
        mst_worker_run_end(worker, run, MST_ORIGIN_RETURNED, "the worker drains");
    } else if (message->function >= worker->config.function_count) {
        mst_worker_run_end(worker, run, MST_ORIGIN_UNKNOWN, "this worker has no such function");
    }
}

static void take_cancel(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    struct mst_worker_run *run = mst_worker_run_find(worker, message->attempt);
    uint64_t grace_ns = worker->config.cancel_grace_ns;

    if (!run || run->state == MST_RUN_ANSWERED) {
        return; /* its result is being sent */
    }
    if (mst_worker_run_recall(worker, run)) {
        mst_worker_run_end(worker, run, MST_ORIGIN_CANCELLED, "cancelled before it began");
        return;
    }
    if (message->left_ms > 0) {
        grace_ns = mst_after_ms(worker->now_ns, message->left_ms) - worker->now_ns;
    }
    mst_worker_ask(worker, mst_worker_slot_of(worker, run), MST_ORIGIN_CANCELLED, grace_ns);
}

static void take_take_back(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    struct mst_worker_run *run = mst_worker_run_find(worker, message->attempt);

    if (run && run->state != MST_RUN_ANSWERED && mst_worker_run_recall(worker, run)) {
        mst_worker_run_end(worker, run, MST_ORIGIN_RETURNED, "taken back before it began");
    }
}

static void take_build(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    struct mst_worker_value *value = mst_worker_value_find(worker, message->value);

    if (value && value->dropped) {
        mst_worker_lie(worker, "a BUILD of a value that was dropped");
    } else if (value && value->state == MST_VALUE_FAILED) {
        mst_worker_value_again(worker, value);
    } else if (value) {
        mst_worker_value_tell(worker, value);
    } else if (worker->values.count >= MST_WORKER_VALUES_MAX) {
        mst_worker_lie(worker, "a BUILD beyond the limit of per-worker values");
    } else if (!mst_worker_value_take(worker, message)) {
        mst_worker_say(worker, "hung up: there was no memory for the value ", message->value,
                       mst_slice_of(NULL, 0));
        mst_worker_hang_up(worker);
    }
}

static void take_drop(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    struct mst_worker_value *value = mst_worker_value_find(worker, message->value);

    if (value) {
        mst_worker_value_drop(worker, value);
    }
}

static void take_drain(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    (void)message;
    mst_worker_drain(worker, worker->now_ns);
}

static void take(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    static void (*const takes[])(struct mst_worker *, const struct mst_cluster_message *) = {
        [MST_CLUSTER_RUN] = take_run,
        [MST_CLUSTER_CANCEL] = take_cancel,
        [MST_CLUSTER_TAKE_BACK] = take_take_back,
        [MST_CLUSTER_BUILD] = take_build,
        [MST_CLUSTER_DROP] = take_drop,
        [MST_CLUSTER_DRAIN] = take_drain,
        [MST_CLUSTER_REFUSED] = take_refused, /* it is superseded, or has this worker as lost */
    };

    if (message->type < sizeof(takes) / sizeof(takes[0]) && takes[message->type]) {
        takes[message->type](worker, message);
    } else {
        mst_worker_lie(worker, "a message of a worker, or a second WELCOME");
    }
}

void mst_worker_message(struct mst_worker *worker, uint64_t now_ns,
                        const struct mst_cluster_message *message)
{
    worker->now_ns = now_ns;
    if (worker->link == MST_LINK_WELCOMED) {
        take(worker, message);
    } else if (worker->link == MST_LINK_HELLO && message->type == MST_CLUSTER_WELCOME) {
        take_welcome(worker, message);
    } else if (worker->link == MST_LINK_HELLO && message->type == MST_CLUSTER_REFUSED) {
        take_refused(worker, message);
    } else if (worker->link == MST_LINK_HELLO) {
        mst_worker_lie(worker, "a message before its WELCOME");
    }
    mst_worker_advance(worker);
}
