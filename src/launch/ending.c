/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE
#include <signal.h>

#include "base/time.h"
#include "launch/job.h"
#include "launch/say.h"
#include "service/server/record_file.h"

#define SERVICE_STOP_MS 3000  /* then it is killed; it gives a record time of its own */
#define REPLICA_STOP_MS 20000 /* likewise, of a replica that waits for the last session */
#define JOINERS_ALONE_MS 500  /* a seal that just let them in is told by then */

/* ---- the end ---- */

void mst_ending_signal(struct mst_run_job *job, int number)
{
    mst_shared_lock(&job->shared);
    for (uint32_t i = 0; i < job->places.count; i++) {
        const struct mst_process *process = job->places.list[i].process;

        if (process != NULL && process->end != MST_PROCESS_GONE) {
            mst_process_signal(process, number);
        }
    }
    mst_shared_unlock(&job->shared);
}

static void on_grace_over(uv_timer_t *timer)
{
    mst_ending_signal(timer->data, SIGKILL);
}

void mst_ending_processes(struct mst_run_job *job, int number)
{
    mst_ending_signal(job, number);
    if (!uv_is_active((uv_handle_t *)&job->end.grace)) {
        (void)uv_timer_start(&job->end.grace, on_grace_over, (uint64_t)job->options->grace_ms, 0);
    }
}

void mst_ending_begin(struct mst_run_job *job, enum mst_ending ending, int number)
{
    if (job->end.how == MST_GOES_ON) {
        job->end.how = ending;
        job->end.at_ns = mst_lib_now_ns();
        if (ending == MST_ENDS_FAILED && !job->nodes.joining) {
            /* First: whom the others end because of this is on record after it. */
            mst_faults_ask(&job->faults, &job->session);
        }
        mst_nodes_end(job, number);
    }
    (void)uv_timer_stop(&job->end.joiners);
    mst_monitor_stop(&job->hung.monitor);
    mst_shared_wake(&job->shared);
    for (uint32_t i = 0; i < job->places.count; i++) {
        struct mst_place *place = &job->places.list[i];

        if (place->state == MST_PLACE_WAITS) {
            (void)uv_timer_stop(&place->again);
            place->state = MST_PLACE_GIVEN_UP;
        }
    }
    mst_ending_processes(job, number);
}

void mst_ending_stop(struct mst_run_job *job, int number)
{
    mst_ending_begin(job, job->end.time_over ? MST_ENDS_TIME : MST_ENDS_SIGNAL, number);
    mst_ending_look(job);
}

bool mst_ending_decided(const struct mst_run_job *job)
{
    return job->end.how == MST_ENDS_FAILED || job->end.how == MST_ENDS_SIGNAL ||
           job->end.how == MST_ENDS_TIME;
}

/* ---- the time of the run ---- */

static void on_time_over(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;

    if (job->end.how != MST_GOES_ON || job->end.closing) {
        return;
    }
    job->end.time_over = true;
    if (!mst_preempted_time_over(job)) {
        mst_say("--max-time " MST_SECONDS ": stopping within " MST_SECONDS,
                MST_SECONDS_ARGS(job->options->max_time_ms),
                MST_SECONDS_ARGS(job->options->grace_ms));
        mst_ending_stop(job, SIGTERM);
    }
}

void mst_ending_limit(struct mst_run_job *job)
{
    if (job->options->max_time_ms > 0) {
        (void)uv_timer_start(&job->end.time, on_time_over, (uint64_t)job->options->max_time_ms, 0);
    }
}

/* ---- nothing is left ---- */

static void on_service_late(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;

    mst_service_kill(&job->service);
    uv_stop(&job->loop);
}

/* No rank is left: the service is the last to go. */
static void close_job(struct mst_run_job *job)
{
    const char *record = job->options->record;
    bool records = record != NULL && *record != '\0';
    uint64_t record_ms = records ? MST_RECORD_PATIENCE_NS / NS_PER_MS : 0;

    job->end.closing = true;
    (void)uv_timer_stop(&job->end.joiners);
    (void)uv_timer_stop(&job->end.time);
    mst_preempted_close(job);
    mst_fronted_close(job);
    mst_report_ask(job);
    mst_session_close(&job->session);
    (void)uv_timer_stop(&job->service.again);
    if (job->service.served.child.pid == 0) {
        uv_stop(&job->loop);
    } else if (job->nodes.first) {
        mst_service_stop(&job->service);
        (void)uv_timer_start(&job->end.grace, on_service_late, SERVICE_STOP_MS + record_ms, 0);
    } else { /* a replica ends with the last session: the others need it until then */
        (void)uv_timer_start(&job->end.grace, on_service_late, REPLICA_STOP_MS, 0);
    }
}

/* A rank ended well after it was in a generation. */
static bool some_finished(const struct mst_run_job *job)
{
    for (uint32_t i = 0; i < job->places.count; i++) {
        if (job->places.list[i].state == MST_PLACE_DONE && job->places.list[i].process->joined) {
            return true;
        }
    }
    return false;
}

/* It never joined, and was started again or for ranks that are done: with the lock held. */
static bool is_joiner(const struct mst_run_job *job, const struct mst_process *process,
                      bool elsewhere)
{
    bool late = process->again || (elsewhere && mst_process_client(process) != 0) ||
                (job->options->spares != 0 && (elsewhere || some_finished(job)));

    return late && !process->joined && mst_process_generation(process) == 0 &&
           !mst_process_returned(process); /* what it has still to do is its own business */
}

/* On all nodes: some have ended well, and each process left was started again and never joined, or
 * is a spare: no generation will take it in. */
static bool only_joiners(struct mst_run_job *job)
{
    bool elsewhere = mst_nodes_finished_elsewhere(job);
    bool done = elsewhere, joiner = false, other = false;

    mst_shared_lock(&job->shared);
    for (uint32_t i = 0; i < job->places.count; i++) {
        const struct mst_place *place = &job->places.list[i];
        const struct mst_process *process = place->process;
        bool runs = place->state == MST_PLACE_RUNS;
        bool waits =
            place->state == MST_PLACE_WAITS || (runs && is_joiner(job, process, elsewhere));

        done = done || place->state == MST_PLACE_DONE;
        joiner = joiner || waits;
        other = other || (runs && !waits);
    }
    mst_shared_unlock(&job->shared);
    if ((!job->places.uses_muster && !elsewhere) || !joiner || other) {
        mst_nodes_state(job, MST_PEER_RUNS);
        return false;
    }
    mst_nodes_state(job, MST_PEER_WAITS);
    return done && !mst_nodes_others_run(job);
}

/* Whether a rank ended well after the last of the others had failed: then the work was done without
 * those. Else it left before, and a rank that was to go on has failed. A replacement that never got
 * in was not to go on, whenever it died. */
static bool done_without_them(struct mst_run_job *job)
{
    uint64_t failed_ns = 0, done_ns = 0;

    if (mst_nodes_finished_elsewhere(job)) {
        return true;
    }
    for (const struct mst_process *one = job->places.processes;
         one != NULL && one->life == job->group.life; one = one->older) {
        bool failed = mst_process_failed(one), got_in = one->joined || !one->again;
        uint64_t *last = failed ? &failed_ns : &done_ns;

        if (one->end == MST_PROCESS_GONE && (got_in || !failed) && one->died_ns > *last) {
            *last = one->died_ns;
        }
    }
    return done_ns > failed_ns;
}

static void on_joiners(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;

    if (job->end.how == MST_GOES_ON && !job->nodes.joining && !mst_group_begins(&job->group) &&
        only_joiners(job)) {
        mst_ending_begin(job, done_without_them(job) ? MST_ENDS_WELL : MST_ENDS_FAILED, SIGTERM);
        mst_ending_look(job);
    }
}

void mst_ending_look(struct mst_run_job *job)
{
    bool over = !mst_place_any(&job->places, MST_PLACE_RUNS) &&
                !mst_place_any(&job->places, MST_PLACE_WAITS);

    if (job->end.closing || job->nodes.joining ||
        (mst_group_begins(&job->group) && job->end.how == MST_GOES_ON)) {
        return;
    }
    if (over) {
        if (mst_faults_answered(&job->faults) && mst_preempted_answered(job)) {
            mst_preempted_leave(job);
            if (mst_nodes_may_leave(job)) {
                close_job(job);
            }
        }
    } else if (job->end.how == MST_GOES_ON && !job->nodes.joining && only_joiners(job) &&
               !uv_is_active((uv_handle_t *)&job->end.joiners)) {
        (void)uv_timer_start(&job->end.joiners, on_joiners, JOINERS_ALONE_MS, 0);
    }
}
