/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/supervise.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "launch/job.h"
#include "launch/say.h"

#define BACK_OFF_FIRST_MS 1000u
#define BACK_OFF_MOST_MS 60000u
#define SOON_NS 100000000u /* a service that dies in this time may do so again */
#define SOON_MAX 3u        /* times in a row, before the next try waits */

uint64_t mst_supervise_back_off_ms(uint32_t failures)
{
    uint64_t delay_ms = BACK_OFF_FIRST_MS;

    for (uint32_t i = 0; i < failures && delay_ms < BACK_OFF_MOST_MS; i++) {
        delay_ms *= 2;
    }
    return delay_ms < BACK_OFF_MOST_MS ? delay_ms : BACK_OFF_MOST_MS;
}

static void on_again(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;
    struct muster_error err;

    job->supervised.begun_ns = mst_lib_now_ns();
    if (mst_service_again(&job->service, &err) != MUSTER_OK) {
        mst_say("%s", err.text);
        (void)uv_timer_start(timer, on_again, mst_supervise_back_off_ms(job->supervised.deaths++),
                             0);
    }
}

/* It ended by itself: it cannot bring its state back, or not keep it, and said why. */
static void lost(struct mst_run_job *job, pid_t pid, const char *how)
{
    job->supervised.lost = pid;
    (void)snprintf(job->supervised.how, sizeof job->supervised.how, "%s", how);
    mst_say("the service of the job %s; the state of the job cannot be brought back", how);
    mst_ending_begin(job, MST_ENDS_FAILED, SIGTERM);
}

static uint64_t delay_ms_of(struct mst_run_job *job)
{
    if (mst_lib_now_ns() - job->supervised.begun_ns > SOON_NS) {
        job->supervised.deaths = 0;
    }
    if (job->supervised.deaths++ < SOON_MAX) {
        return 0;
    }
    return mst_supervise_back_off_ms(job->supervised.deaths - 1 - SOON_MAX);
}

static void gone(struct mst_run_job *job, pid_t pid, int status)
{
    uint64_t delay_ms;
    char how[sizeof job->supervised.how];

    if (job->end.closing) {
        uv_stop(&job->loop);
        return;
    }
    mst_status_how(status, how, sizeof how);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        lost(job, pid, how);
    } else {
        delay_ms = delay_ms_of(job);
        mst_say("the service of the job %s; it is started again%s and goes on from its journal",
                how, delay_ms == 0 ? "" : " after a while");
        (void)uv_timer_start(&job->supervised.again, on_again, delay_ms, 0);
    }
}

void mst_supervise_reap(struct mst_run_job *job)
{
    struct mst_child *child = &job->service.served.child;
    pid_t pid = child->pid;
    int status = 0;

    if (pid != 0 && mst_child_await(child, 0, -1)) {
        (void)mst_child_reap(child, &status);
        gone(job, pid, status);
    }
}

void mst_supervise_open(struct mst_run_job *job)
{
    (void)uv_timer_init(&job->loop, &job->supervised.again);
    job->supervised.again.data = job;
}
