/* SPDX-License-Identifier: Apache-2.0 */

/* Ranks of the run that make no progress: the monitor on the run's loop, and what its findings do.
 * A soft one is told to the service, which has all ranks interrupted; a process that makes none
 * for too long is ended here, and is then a process that failed, as any other. */

#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "launch/job.h"
#include "launch/say.h"

static void on_look(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;
    uint64_t now_ns = uv_hrtime();
    uint64_t next_ns;

    job->hung.monitor.held = mst_stall_owed(&job->session.stall, job->session.client);
    next_ns = mst_monitor_look(&job->hung.monitor, now_ns);
    mst_progress_report_set(&job->hung.report, job->session.client, &job->hung.monitor);
    if (next_ns != UINT64_MAX) { /* a timer may ring in the millisecond before */
        (void)uv_timer_start(timer, on_look, (next_ns - now_ns) / NS_PER_MS + 1, 0);
    }
}

static struct mst_process *process_of(struct mst_run_job *job, const struct mst_watched *one)
{
    return job->places.list[one->tag].process;
}

static void on_soft(void *ctx, struct mst_watched *suspect, struct mst_watched *one,
                    const char *text)
{
    struct mst_run_job *job = ctx;
    struct mst_process *process = process_of(job, suspect != NULL ? suspect : one);
    char name[64] = "the ranks";

    if (suspect != NULL) {
        mst_process_name(process, name, sizeof name);
    }
    mst_say("%s %s; all ranks are interrupted", name, text);
    if (job->session.client != NULL) {
        mst_stall_set(&job->session.stall, job->session.client,
                      &(struct mst_stalled){.generation = one->generation,
                                            .pid = mst_process_pid(process),
                                            .index = process->index,
                                            .named = suspect != NULL,
                                            .text = text});
    }
}

static bool on_waits(void *ctx, const struct mst_watched *one, uint64_t now_ns, char *text,
                     size_t room)
{
    struct mst_run_job *job = ctx;

    return mst_waits_look(&job->session.waits, job->session.client, &job->hung.monitor, one, now_ns,
                          text, room);
}

static bool on_hard(void *ctx, struct mst_watched *one, const char *text)
{
    struct mst_run_job *job = ctx;
    struct mst_process *process = process_of(job, one);
    char name[64];
    bool runs;

    mst_shared_lock(&job->shared);
    runs = process->end == MST_PROCESS_RUNS && process->verdict == MST_CAUSE_NONE;
    if (runs) {
        process->verdict = MST_CAUSE_HARD_TIMEOUT;
        process->ended_by = SIGTERM;
        mst_monitor_why(&one->hard, process->why, sizeof process->why);
    }
    mst_shared_unlock(&job->shared);
    if (runs) {
        mst_process_name(process, name, sizeof name);
        mst_say("%s %s: it is ended", name, text);
    }
    return runs;
}

/* Once it is gone its number may be another's. */
static void on_send(void *ctx, struct mst_watched *one, int number)
{
    struct mst_run_job *job = ctx;
    struct mst_process *process = process_of(job, one);

    mst_shared_lock(&job->shared);
    if (process->end != MST_PROCESS_GONE) {
        process->ended_by = number;
        mst_process_signal(process, number);
    }
    mst_shared_unlock(&job->shared);
    mst_shared_wake(&job->shared); /* a process that lingered is reaped */
}

void mst_hung_init(struct mst_run_job *job)
{
    const struct mst_monitor_events events = {
        .soft = on_soft, .waits = on_waits, .hard = on_hard, .send = on_send, .ctx = job};

    mst_monitor_init(&job->hung.monitor, &events);
    (void)uv_timer_init(&job->loop, &job->hung.look);
    job->hung.look.data = job;
}

void mst_hung_watch(struct mst_place *place)
{
    struct mst_run_job *job = place->job;
    struct mst_watched *one = &place->process->watched;

    if (job->end.how != MST_GOES_ON) {
        return;
    }
    *one = (struct mst_watched){.tag = place->slot,
                                .index = place->process->index,
                                .page = place->process->page,
                                .pid = place->process->pid,
                                .pidfd = -1};
    mst_monitor_add(&job->hung.monitor, one);
    if (!uv_is_active((uv_handle_t *)&job->hung.look)) {
        (void)uv_timer_start(&job->hung.look, on_look, 0, 0);
    }
}
