/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's end of its children, one for each slot: sends them their jobs, takes their answers,
 * and answers for a child that cannot. A child is started when it is first needed and lives on. */
#define _GNU_SOURCE
#include "tasks/shell/worker/child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/system.h"

enum { TRIES_MAX = 3 };

void mst_work_child_forget(struct mst_work_child *child)
{
    mst_cluster_link_free(child->link);
    mst_work_values_fini(&child->known);
    *child = (struct mst_work_child){.tries = child->tries};
    mst_work_values_init(&child->known);
}

/* ---- sending ---- */

static bool start(struct muster_worker *worker, uint32_t slot)
{
    struct mst_work_child *child = &worker->slot[slot].child;
    int ends[2];
    bool asked;

    if (child->lives) {
        return child->link != NULL;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return false;
    }
    asked = mst_work_supervisor_ask(worker, MST_SUPERVISOR_CHILD, slot, 0, NULL, &ends[1], 1);
    (void)close(ends[1]);
    child->lives = asked;
    child->number = MST_WORKER_NONE;
    if (mst_cluster_link_adopt(&child->link, ends[0], NULL, &mst_system_mem) != MUSTER_OK) {
        child->link = NULL;
        return false;
    }
    return asked && mst_cluster_link_enrol(child->link, worker->epoll,
                                           mst_work_key(MST_WORK_EVENT_CHILD, slot)) == 0;
}

static bool note(struct mst_work_child *child, uint64_t value)
{
    return mst_work_value_add(&child->known, &(struct mst_cluster_message){.value = value}) != NULL;
}

/* How it is made, or, of a command that has made it, what it is. */
static bool give(struct muster_worker *worker, struct mst_work_child *child, uint64_t number)
{
    const struct mst_work_value *value = mst_work_value_find(&worker->values, number);
    struct mst_cluster_message message = {.type = MST_CLUSTER_BUILD, .value = number};

    if (!value || mst_work_value_find(&child->known, number)) {
        return true; /* without the value, the child reports that it misses it */
    }
    message.function = value->function;
    message.parts = worker->functions[value->function].place == MST_WORK_COMMAND
                        ? mst_work_result_parts(&value->result)
                        : value->parts;
    return note(child, number) && mst_cluster_link_send(child->link, &message) == MUSTER_OK;
}

static bool send_number(struct muster_worker *worker, struct mst_work_child *child)
{
    const struct mst_cluster_message message = {.type = MST_CLUSTER_WELCOME,
                                                .worker =
                                                    mst_worker_number(mst_work_machine(worker)),
                                                .term = worker->term};

    if (child->number == message.worker && child->term == message.term) {
        return true;
    }
    child->number = message.worker;
    child->term = message.term;
    return mst_cluster_link_send(child->link, &message) == MUSTER_OK;
}

static bool send_job(struct muster_worker *worker, struct mst_work_child *child,
                     const struct mst_work_job *job)
{
    struct mst_cluster_message message = *job->message;
    uint64_t now_ns = mst_system_now_ns();

    if (!send_number(worker, child)) {
        return false;
    }
    if (message.type == MST_CLUSTER_BUILD) {
        return note(child, message.value) &&
               mst_cluster_link_send(child->link, &message) == MUSTER_OK;
    }
    for (uint32_t i = 0; i < message.need_count; i++) {
        if (!give(worker, child, message.needs[i])) {
            return false;
        }
    }
    message.left_ms = 0;
    if (job->deadline_ns != 0) {
        message.left_ms =
            job->deadline_ns > now_ns ? (job->deadline_ns - now_ns) / NS_PER_MS + 1 : 1;
    }
    return mst_cluster_link_send(child->link, &message) == MUSTER_OK;
}

static void begin(struct muster_worker *worker, struct mst_work_job *job)
{
    struct mst_work_child *child = &worker->slot[job->slot].child;

    atomic_store(&worker->flags[job->slot].begun, false);
    if (child->lives && child->doomed) {
        return; /* its end begins the job anew */
    }
    if (!start(worker, job->slot) || !send_job(worker, child, job)) {
        mst_work_owe(worker, job, MST_ORIGIN_EXHAUSTED, errno,
                     "the worker has no memory or descriptors for a child process");
        return;
    }
    mst_cluster_link_flush(child->link);
}

void mst_work_child_begin(struct muster_worker *worker, struct mst_work_job *job)
{
    worker->slot[job->slot].child.tries = 0;
    job->running = true;
    if (job->message->type == MST_CLUSTER_BUILD &&
        !mst_work_value_add(&worker->values, job->message)) {
        mst_work_owe(worker, job, MST_ORIGIN_EXHAUSTED, 0, MST_WORK_NO_MEMORY);
        return;
    }
    begin(worker, job);
}

void mst_work_child_stop(struct muster_worker *worker, struct mst_work_job *job, bool kill)
{
    if (kill) {
        worker->slot[job->slot].child.doomed = worker->slot[job->slot].child.lives;
        (void)mst_work_supervisor_ask(worker, MST_SUPERVISOR_SIGNAL, job->slot, SIGKILL, NULL, NULL,
                                      0);
    }
}

void mst_work_child_drop(struct muster_worker *worker, const struct mst_cluster_message *drop)
{
    for (uint32_t slot = 0; slot < worker->slots; slot++) {
        struct mst_work_child *child = &worker->slot[slot].child;

        if (mst_work_value_find(&child->known, drop->value)) {
            mst_work_value_drop(&child->known, drop->value);
            mst_work_values_sweep(&child->known);
            if (child->link) {
                (void)mst_cluster_link_send(child->link, drop);
                mst_cluster_link_flush(child->link);
            }
        }
    }
}

/* ---- answers ---- */

static struct mst_work_job *job_of(struct muster_worker *worker, uint32_t slot)
{
    struct mst_work_job *job = &worker->slot[slot].job;

    return job->active && job->function->place == MST_WORK_CHILD && job->origin == MST_ORIGIN_NONE
               ? job
               : NULL;
}

/* A child sends nothing else. */
static void take(struct muster_worker *worker, uint32_t slot,
                 const struct mst_cluster_message *message)
{
    struct mst_work_job *job = job_of(worker, slot);
    const struct mst_failure *failure =
        message->failure.origin != MST_ORIGIN_NONE ? &message->failure : NULL;

    if (!job) {
        return;
    }
    if (job->message->type == MST_CLUSTER_BUILD) {
        if (message->type == MST_CLUSTER_BUILT && job->message->value == message->value) {
            mst_work_answer(worker, job, failure, message->parts, 0);
        }
    } else if (message->type == MST_CLUSTER_RESULT) {
        mst_work_answer(worker, job, failure, message->parts, message->run_ns);
    } else if (message->type == MST_CLUSTER_PROGRESS || message->type == MST_CLUSTER_LOG) {
        mst_work_report(worker, slot, message->type, message->fraction, message->text);
    }
}

/* All there is now. False: it is over. */
static bool hear(struct muster_worker *worker, uint32_t slot, uint32_t events)
{
    struct mst_work_child *child = &worker->slot[slot].child;
    struct mst_cluster_message message;
    muster_status status;
    bool again = false;

    do {
        status = mst_cluster_link_ready(child->link, events, worker->room, &again);
        while (mst_cluster_link_next(child->link, &message) == MUSTER_OK) {
            take(worker, slot, &message);
        }
    } while (status >= MUSTER_OK && again);
    return status >= MUSTER_OK && mst_cluster_link_fd(child->link, &events) >= 0;
}

void mst_work_child_ready(struct muster_worker *worker, uint32_t slot, uint32_t events)
{
    struct mst_work_child *child = &worker->slot[slot].child;

    if (child->link && !hear(worker, slot, events)) {
        mst_cluster_link_free(child->link);
        child->link = NULL;
        child->doomed = true;
        /* It has ended, which is reported soon; or it has closed what is not its. */
        (void)mst_work_supervisor_ask(worker, MST_SUPERVISOR_SIGNAL, slot, SIGKILL, NULL, NULL, 0);
    }
}

/* ---- its end ---- */

/* The coordinator reports the signal or the status; this adds a word. */
static void blame(struct muster_worker *worker, struct mst_work_job *job, int status)
{
    if (WIFSIGNALED(status)) {
        mst_work_owe(worker, job, MST_ORIGIN_CRASH, -WTERMSIG(status),
                     mst_work_signal_name(WTERMSIG(status)));
    } else {
        mst_work_owe(worker, job, MST_ORIGIN_CRASH, WEXITSTATUS(status),
                     "it called exit(): a function is to return");
    }
}

const char *mst_work_signal_name(int signal)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
                 {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},   {SIGKILL, "SIGKILL"},
                 {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},   {SIGPIPE, "SIGPIPE"},
                 {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].number == signal) {
            return names[i].name;
        }
    }
    return "";
}

void mst_work_child_ended(struct muster_worker *worker, uint32_t slot, int error, int status)
{
    struct mst_work_child *child = &worker->slot[slot].child;
    struct mst_work_job *job;

    if (!child->lives) {
        return;
    }
    if (child->link) {
        (void)hear(worker, slot, EPOLLIN); /* what it sent before it died counts */
    }
    mst_work_child_forget(child);
    job = job_of(worker, slot);
    if (!job) {
        return; /* it was idle */
    }
    if (error != 0) {
        mst_work_owe(worker, job, MST_ORIGIN_EXHAUSTED, error,
                     "no child process could be started for it");
    } else if (!atomic_load(&worker->flags[slot].begun) && !job->asked &&
               ++child->tries < TRIES_MAX) {
        begin(worker, job);
    } else {
        blame(worker, job, status);
    }
}
