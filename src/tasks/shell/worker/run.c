/* SPDX-License-Identifier: Apache-2.0 */
/* Functions in this process: on the serving thread where there is one slot, with a thread that
 * stands in at the loop while one takes long; else on threads of their own. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/panic.h"
#include "os/system.h"
#include "tasks/shell/worker/worker.h"

/* How long a function may keep the serving thread from the loop; and how long results of short ones
 * may wait for others, to leave in one write. */
#define STAND_IN_NS 1000000
#define GATHER_NS 200000u

#define REPORTS_MAX                                                                                \
    ((size_t)1 << 20) /* bytes that wait to be sent; beyond: reports are left out                  \
                       */

/* ---- which ---- */

void mst_work_enqueue(struct muster_worker *worker, struct mst_work_job *job)
{
    mst_list_append(&worker->waiting, &job->link);
    if (worker->idle_threads > 0) {
        (void)pthread_cond_signal(&worker->work);
    }
}

/* Another thread is building a value that it needs. */
static bool is_held_up(struct muster_worker *worker, const struct mst_work_job *job)
{
    const struct mst_cluster_message *message = job->message;

    for (uint32_t i = 0; message->type == MST_CLUSTER_RUN && i < message->need_count; i++) {
        const struct mst_work_value *value =
            mst_work_value_find(&worker->values, message->needs[i]);

        if (value && value->state == MST_WORK_BUILDING) {
            return true;
        }
    }
    return false;
}

struct mst_work_job *mst_work_take(struct muster_worker *worker)
{
    MST_EACH(job, &worker->waiting, struct mst_work_job, link) {
        if (!is_held_up(worker, job)) {
            mst_list_remove(&job->link);
            return job;
        }
    }
    return NULL;
}

/* ---- reports of a run ---- */

void mst_work_report(struct muster_worker *worker, uint32_t slot,
                     enum mst_cluster_message_type type, double fraction, struct mst_slice text)
{
    uint64_t now_ns = mst_system_now_ns();

    if (worker->link && mst_cluster_link_pending(worker->link) >= REPORTS_MAX) {
        return; /* the coordinator does not read */
    }
    if (type == MST_CLUSTER_PROGRESS) {
        mst_worker_progress(mst_work_machine(worker), now_ns, slot, fraction, text);
    } else {
        mst_worker_log(mst_work_machine(worker), now_ns, slot, text);
    }
}

void mst_work_task_report(const struct muster_task *task, enum mst_cluster_message_type type,
                          double fraction, struct mst_slice text)
{
    struct muster_worker *worker = task->owner;

    if (task->message->type != MST_CLUSTER_RUN) {
        return;
    }
    if (worker->home) {
        mst_work_home_report(worker, task, type, fraction, text);
        return;
    }
    mst_work_lock(worker);
    mst_work_report(worker, task->slot, type, fraction, text);
    mst_work_drain(worker, mst_system_now_ns());
    mst_work_flush(worker);
    mst_work_unlock(worker);
}

/* ---- running, lock held ---- */

/* In a moment; and again and again, as the program may close the timer while it is waited for. */
static const struct itimerspec soon = {.it_value = {.tv_nsec = STAND_IN_NS},
                                       .it_interval = {.tv_sec = 1}};

/* The serving thread goes into a function: another one looks after the loop if it stays. */
static void go_in(struct muster_worker *worker)
{
    if (worker->timer < 0) {
        return;
    }
    worker->inside = true;
    worker->turn++;
    if (!worker->armed) {
        worker->armed = true;
        worker->armed_turn = worker->turn;
        (void)timerfd_settime(worker->timer, 0, &soon, NULL);
    }
}

static void come_out(struct muster_worker *worker)
{
    worker->inside = false;
    if (worker->standing_in) {
        mst_system_event_ring(worker->leave);
    }
}

static muster_status call(struct muster_worker *worker, const struct mst_work_function *function,
                          struct muster_task *task, uint64_t *run_ns_out)
{
    uint64_t began_ns;
    muster_status status;

    go_in(worker);
    mst_work_unlock(worker);
    began_ns = mst_system_now_ns();
    status = function->fn(task, function->arg);
    *run_ns_out = mst_system_now_ns() - began_ns;
    mst_work_lock(worker);
    come_out(worker);
    return status;
}

/* Makes the value in this process. False: there is no memory to begin. */
static bool build(struct muster_worker *worker, struct mst_work_job *job,
                  struct mst_work_value *value, uint64_t *run_ns_out)
{
    const struct mst_cluster_message message = {.type = MST_CLUSTER_BUILD,
                                                .function = value->function,
                                                .value = value->number,
                                                .parts = value->parts};
    struct muster_task task;
    muster_status status;

    if (mst_work_task_init(&task, worker, job, &message) != MUSTER_OK) {
        return false;
    }
    task.builds = value;
    value->state = MST_WORK_BUILDING;
    value->users++;
    status = call(worker, &worker->functions[value->function], &task, run_ns_out);
    mst_work_value_built(value, &task, status);
    mst_work_value_let_go(&worker->values, value);
    mst_work_task_fini(&task);
    if (worker->idle_threads > 0 && !mst_list_empty(&worker->waiting)) {
        (void)pthread_cond_broadcast(&worker->work); /* any number may have waited for it */
    }
    return true;
}

static void run_build(struct muster_worker *worker, struct mst_work_job *job)
{
    struct mst_work_value *value = mst_work_value_add(&worker->values, job->message);
    struct mst_failure failure;
    uint64_t run_ns = 0;

    if (value && value->state == MST_WORK_BUILD_FAILED) {
        value->state = MST_WORK_NOT_BUILT; /* it is asked for again */
    }
    if (!value || (value->state == MST_WORK_NOT_BUILT && !build(worker, job, value, &run_ns))) {
        mst_work_owe(worker, job, MST_ORIGIN_EXHAUSTED, 0, MST_WORK_NO_MEMORY);
        return;
    }
    failure = mst_work_result_failure(&value->result);
    mst_work_answer(worker, job, value->state == MST_WORK_BUILD_FAILED ? &failure : NULL,
                    mst_work_result_parts(&value->result), run_ns);
}

/* What it needs, built where that was not done yet. False: one could not be, see `failure`, whose
 * cause is in `cause`, and the parts of its error in `parts`; or, with no origin there, another
 * thread has begun with one meanwhile. */
static bool find_needs(struct muster_worker *worker, struct mst_work_job *job,
                       struct muster_task *task, struct mst_failure *failure,
                       struct mst_failure *cause, struct mst_parts *parts)
{
    *failure = (struct mst_failure){.origin = MST_ORIGIN_INPUT, .worker = MST_WORKER_NONE};
    for (uint32_t i = 0; i < task->message->need_count; i++) {
        struct mst_work_value *value =
            mst_work_value_find(&worker->values, task->message->needs[i]);
        uint64_t run_ns;

        if (!value) {
            failure->text = mst_slice_text("a per-worker value that it needs is not here");
            return false;
        }
        value->users++; /* also while it is built here */
        task->needs[i] = value;
        if (value->state == MST_WORK_NOT_BUILT &&
            worker->functions[value->function].place != MST_WORK_COMMAND &&
            !build(worker, job, value, &run_ns)) {
            failure->text = mst_slice_text("no memory to build a per-worker value");
            return false;
        }
        if (value->state == MST_WORK_BUILDING) { /* while the one before it was built here */
            failure->origin = MST_ORIGIN_NONE;
            return false;
        }
        if (value->state == MST_WORK_BUILD_FAILED) {
            *cause = mst_work_result_failure(&value->result);
            failure->cause = cause;
            *parts = mst_work_result_parts(&value->result);
            failure->text = mst_slice_text("a per-worker value that it needs could not be built");
            if (muster_task_cancelled(task)) { /* its builder was asked to stop, with this run */
                value->state = MST_WORK_NOT_BUILT;
            }
            return false;
        }
    }
    return true;
}

static void let_needs_go(struct muster_worker *worker, struct muster_task *task)
{
    for (uint32_t i = 0; i < task->message->need_count; i++) {
        if (task->needs[i]) {
            mst_work_value_let_go(&worker->values, task->needs[i]);
        }
    }
}

static void run_closure(struct muster_worker *worker, struct mst_work_job *job)
{
    struct mst_failure failure, cause;
    const struct mst_failure *failed = &failure;
    struct mst_parts parts = {0};
    struct muster_task task;
    uint64_t run_ns = 0;

    if (mst_work_task_init(&task, worker, job, job->message) != MUSTER_OK) {
        mst_work_owe(worker, job, MST_ORIGIN_EXHAUSTED, 0, MST_WORK_NO_MEMORY);
        return;
    }
    if (find_needs(worker, job, &task, &failure, &cause, &parts)) {
        muster_status status = call(worker, job->function, &task, &run_ns);

        failed = mst_work_task_failure(&task, status, &failure);
        if (failed) {
            mst_work_result_failed(&task.result);
        }
        parts = mst_work_result_parts(&task.result);
    }
    let_needs_go(worker, &task); /* before the answer, which frees the message */
    if (failed && failed->origin == MST_ORIGIN_NONE) {
        job->running = false;
        mst_work_enqueue(worker, job);
    } else {
        mst_work_answer(worker, job, failed, parts, run_ns);
    }
    mst_work_task_fini(&task);
}

bool mst_work_collect(struct muster_worker *worker)
{
    struct mst_work_value *value;
    bool any = false;

    while ((value = mst_work_value_garbage(&worker->values)) != NULL) {
        any = true;
        mst_work_unlock(worker);
        mst_work_value_destroy(value);
        mst_work_lock(worker);
    }
    return any;
}

void mst_work_run(struct muster_worker *worker, struct mst_work_job *job)
{
    uint64_t now_ns;

    job->running = true;
    if (job->message->type == MST_CLUSTER_RUN) {
        run_closure(worker, job);
    } else {
        run_build(worker, job);
    }
    (void)mst_work_collect(worker);
    now_ns = mst_system_now_ns();
    mst_work_drain(worker, now_ns);
    if (now_ns - worker->flushed_ns >= GATHER_NS) {
        mst_work_flush(worker);
        worker->flushed_ns = now_ns;
    } else if (worker->slots > 1 && worker->until_ns != 0 && !mst_list_empty(&worker->waiting)) {
        worker->until_ns = 0; /* the next one may be long: the thread that polls is to write */
        mst_system_event_ring(atomic_load(&worker->wake));
    }
}

/* ---- stopping ---- */

_Static_assert(MUSTER_WORKER_EXIT_STUCK == MST_CLUSTER_EXIT_STUCK,
               "the coordinator knows it by this status");

/* This line may be the only report of the end. */
static _Noreturn void end_process(struct muster_worker *worker, const struct mst_work_job *job)
{
    char line[512];

    mst_text_print(line, sizeof(line),
                   "muster: worker #%u: function '%s' (closure %" PRIu64
                   ", attempt %u) was asked to stop " MST_SECONDS
                   " ago and goes on; a thread cannot be stopped, so this process ends. Let it "
                   "look at muster_task_cancelled, or give it MUSTER_FUNCTION_CHILD",
                   worker->index, job->function->name, job->message->attempt.closure,
                   job->message->attempt.attempt,
                   MST_SECONDS_ARGS((mst_system_now_ns() - job->asked_ns) / NS_PER_MS));
    (void)dprintf(STDERR_FILENO, "%s\n", line);
    _exit(MUSTER_WORKER_EXIT_STUCK);
}

void mst_work_stop_here(struct muster_worker *worker, struct mst_work_job *job, bool kill)
{
    if (!job->running) {
        mst_list_remove(&job->link);
        mst_work_owe(worker, job, MST_ORIGIN_CANCELLED, 0, "cancelled before it began");
    } else if (kill) {
        end_process(worker, job);
    }
}

/* ---- threads ---- */

static void *run_jobs(void *ctx)
{
    struct muster_worker *worker = ctx;

    mst_work_lock(worker);
    while (!worker->stop_threads) {
        struct mst_work_job *job = mst_work_take(worker);

        if (job) {
            mst_work_run(worker, job);
        } else if (!mst_work_collect(worker)) {
            mst_work_flush(worker);
            worker->idle_threads++;
            (void)pthread_cond_wait(&worker->work, &worker->lock);
            worker->idle_threads--;
        }
    }
    mst_work_unlock(worker);
    return NULL;
}

static bool is_long(const struct muster_worker *worker, uint64_t turn)
{
    return worker->inside && worker->turn == turn && !worker->stop_threads && worker->timer >= 0;
}

static void look_after(struct muster_worker *worker)
{
    uint64_t turn = worker->armed_turn;

    worker->standing_in = is_long(worker, turn);
    while (is_long(worker, turn)) {
        mst_work_turn(worker, true, worker->leave);
    }
    worker->standing_in = false;
    mst_system_event_quiet(worker->leave);
    worker->armed = worker->inside && !worker->stop_threads;
    worker->armed_turn = worker->turn;
    if (worker->armed) {
        (void)timerfd_settime(worker->timer, 0, &soon, NULL);
    }
}

static void *stand_in(void *ctx)
{
    struct muster_worker *worker = ctx;
    uint64_t count;

    mst_work_lock(worker);
    while (!worker->stop_threads && worker->timer >= 0) {
        int timer = worker->timer;

        mst_work_unlock(worker);
        if (read(timer, &count, sizeof(count)) < 0 && errno != EINTR) {
            atomic_store(&worker->lost, true);
        }
        mst_work_lock(worker);
        if (!worker->stop_threads) {
            look_after(worker);
        }
    }
    mst_work_unlock(worker);
    return NULL;
}

muster_status mst_work_threads_start(struct muster_worker *worker, struct muster_error *err)
{
    bool one = worker->slots == 1;
    sigset_t all, before;
    int failed = 0;

    if ((worker->places & 1U << MST_WORK_HERE) == 0) {
        return MUSTER_OK;
    }
    if (one) {
        worker->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        worker->leave = worker->timer < 0 ? -1 : mst_system_event();
        if (worker->leave < 0) {
            return mst_lib_fail_system(err, "serve", errno);
        }
        (void)timerfd_settime(worker->timer, 0, &soon, NULL);
    }
    worker->threads = calloc(worker->slots, sizeof(*worker->threads));
    if (!worker->threads) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "serve", NULL);
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are its own */
    while (worker->thread_count < worker->slots && failed == 0) {
        failed = pthread_create(&worker->threads[worker->thread_count], NULL,
                                one ? stand_in : run_jobs, worker);
        worker->thread_count += failed == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed != 0 ? mst_lib_fail_thread(err, "serve") : MUSTER_OK;
}

void mst_work_threads_stop(struct muster_worker *worker)
{
    const struct itimerspec now = {.it_value = {.tv_nsec = 1}};

    mst_work_lock(worker);
    worker->stop_threads = true;
    (void)pthread_cond_broadcast(&worker->work);
    if (worker->timer >= 0) {
        (void)timerfd_settime(worker->timer, 0, &now, NULL);
        mst_system_event_ring(worker->leave);
    }
    mst_work_unlock(worker);
    for (uint32_t i = 0; i < worker->thread_count; i++) {
        (void)pthread_join(worker->threads[i], NULL);
    }
    worker->thread_count = 0;
    free(worker->threads);
    worker->threads = NULL;
    if (worker->timer >= 0) {
        (void)close(worker->timer);
        (void)close(worker->leave);
        worker->timer = worker->leave = -1;
    }
}
