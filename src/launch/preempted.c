/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/preempted.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/job.h"
#include "launch/say.h"

/* ---- the sources ---- */

/* On the thread of a source, or with the client's lock held. */
static void on_told(void *ctx)
{
    struct mst_run_job *job = ctx;

    mst_shared_wake(&job->shared);
}

/* Likewise, or before anything runs: said by the main thread. */
static void on_line(void *ctx, const char *line)
{
    struct mst_run_job *job = ctx;
    struct mst_preempted *preempted = &job->preempted;

    mst_shared_lock(&job->shared);
    if (preempted->line_count < MST_PREEMPTED_LINES) {
        (void)snprintf(preempted->lines[preempted->line_count++], sizeof preempted->lines[0], "%s",
                       line);
    }
    mst_shared_unlock(&job->shared);
    mst_shared_wake(&job->shared);
}

static void say_lines(struct mst_run_job *job)
{
    struct mst_preempted *preempted = &job->preempted;
    char lines[MST_PREEMPTED_LINES][sizeof preempted->lines[0]];
    unsigned count;

    mst_shared_lock(&job->shared);
    count = preempted->line_count;
    preempted->line_count = 0;
    memcpy(lines, preempted->lines, sizeof lines);
    mst_shared_unlock(&job->shared);
    for (unsigned i = 0; i < count; i++) {
        mst_say("%s", lines[i]);
    }
}

/* A rank of this node takes notices now. */
static bool opened_now(struct mst_run_job *job)
{
    for (uint32_t i = 0; i < job->places.count; i++) {
        const struct mst_process *process = job->places.list[i].process;

        if (job->places.list[i].state == MST_PLACE_RUNS &&
            atomic_load(&mst_process_page(process)->preempts) == 1) {
            return true;
        }
    }
    return mst_fronted_any(job); /* JAX agrees on a step itself */
}

/* The line may come after what caused it: ranks that have saved and closed their handle, or ended.
 */
static void on_say(void *ctx, const char *line)
{
    struct mst_run_job *job = ctx;
    bool opened = job->preempted.opened || mst_fronted_any(job);

    for (uint32_t i = 0; i < job->places.count; i++) {
        const struct mst_process *process = job->places.list[i].process;

        opened =
            opened || (process != NULL && atomic_load(&mst_process_page(process)->preempts) != 0);
    }
    mst_say("%s%s", line,
            opened ? "" : "; no rank of this node listens for notices yet (muster_preempt_open)");
}

int mst_preempted_open(struct mst_run_job *job)
{
    struct mst_preempted *preempted = &job->preempted;
    struct mst_announcer *announcer = &preempted->announcer;
    const struct mst_sources_options options = {
        .list = mst_announcer_list(job->options->preempt_sources),
        .period_ms = job->options->preempt_period_ms,
        .margin_ms = job->options->preempt_margin_ms,
        .grace_ms = job->options->preempt_grace_ms,
        .told = on_told,
        .say = on_line,
        .ctx = job};
    char why[512];

    (void)uv_timer_init(&job->loop, &preempted->again);
    (void)uv_timer_init(&job->loop, &preempted->end);
    preempted->again.data = preempted->end.data = job;
    preempted->saving.session = &job->session;
    (void)snprintf(announcer->host, sizeof announcer->host, "%.63s", job->host);
    announcer->say = on_say;
    announcer->publishing.ended = on_told;
    announcer->ctx = announcer->publishing.ctx = job;
    preempted->indices = calloc(job->places.count, sizeof *preempted->indices);
    if (preempted->indices == NULL) {
        return mst_no_memory();
    }
    if (mst_sources_open(&announcer->sources, &options, why, sizeof why) != MUSTER_OK) {
        return mst_refuse("%s", why);
    }
    return 0;
}

void mst_preempted_close(struct mst_run_job *job)
{
    mst_announcer_reset(&job->preempted.announcer);
    mst_sources_close(job->preempted.announcer.sources);
    job->preempted.announcer.sources = NULL;
}

void mst_preempted_begin(struct mst_run_job *job)
{
    for (uint32_t i = 0; i < job->places.count; i++) {
        job->preempted.indices[i] = job->places.list[i].index;
    }
    mst_announcer_reset(&job->preempted.announcer);
}

/* Where all have saved and ended here, what is left is that the others end, too. */
static void look_at_end(struct mst_run_job *job)
{
    const struct mst_preempted *preempted = &job->preempted;

    if (preempted->late && job->end.how == MST_GOES_ON &&
        mst_saving_answered(&job->preempted.saving) &&
        (mst_place_any(&job->places, MST_PLACE_RUNS) || !mst_preempted_saved(job))) {
        mst_say("the time of the notice is over; the ranks are ended");
        job->end.signal = job->end.time_over ? 0 : preempted->signal;
        mst_ending_stop(job, preempted->signal);
    }
}

static void on_again(uv_timer_t *timer)
{
    mst_preempted_look(timer->data);
}

void mst_preempted_look(struct mst_run_job *job)
{
    struct mst_preempted *preempted = &job->preempted;
    uint64_t at_ns, now_ns = mst_lib_now_ns();

    say_lines(job);
    if (job->nodes.joining || job->nodes.rejoins || job->end.closing) {
        return;
    }
    at_ns = mst_announcer_look(&preempted->announcer, job->session.client, preempted->indices,
                               job->places.count);
    if (at_ns != UINT64_MAX) {
        (void)uv_timer_start(&preempted->again, on_again,
                             at_ns > now_ns ? (at_ns - now_ns) / NS_PER_MS + 1 : 1, 0);
    }
    look_at_end(job);
}

/* ---- the signal ---- */

void mst_preempted_gone(struct mst_run_job *job, const struct mst_process *process)
{
    job->preempted.opened = job->preempted.opened ||
                            atomic_load(&mst_process_page(process)->preempts) != 0 ||
                            mst_process_code(process) == MST_EXIT_AGAIN;
}

/* Ctrl-C is none: its user is present. */
static bool is_notice(const struct mst_run_job *job, int number)
{
    return number != SIGINT && (job->options->preempt_signals & (UINT64_C(1) << (number - 1))) != 0;
}

/* The time is over: what was saved is asked first, as later no rank is left. */
static void on_end(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;

    if (job->end.how == MST_GOES_ON && !job->end.closing) {
        job->preempted.late = true;
        mst_saving_ask(&job->preempted.saving);
        mst_preempted_look(job);
    }
}

/* What the ranks get for `number`, at the latest when the grace time is over. False: none of them
 * takes notices. */
static bool give_notice(struct mst_run_job *job, int number, const char *what, const char *reason,
                        bool whole_job)
{
    struct mst_preempted *preempted = &job->preempted;
    int64_t grace_ms = job->options->preempt_grace_ms;

    if (!mst_sources_wants_signals(preempted->announcer.sources) || job->end.how != MST_GOES_ON ||
        job->nodes.joining) {
        return false;
    }
    if (preempted->signal != 0) {
        return true; /* the same once more */
    }
    if (!opened_now(job)) {
        return false;
    }
    preempted->signal = number;
    mst_say("%s: a notice for the ranks, which save and end within " MST_SECONDS, what,
            MST_SECONDS_ARGS(grace_ms));
    mst_sources_signal(preempted->announcer.sources, reason, whole_job);
    (void)uv_timer_start(&preempted->end, on_end, (uint64_t)grace_ms, 0);
    mst_preempted_look(job);
    return true;
}

bool mst_preempted_signal(struct mst_run_job *job, int number)
{
    bool step = mst_announcer_in_step();
    char reason[96];

    (void)snprintf(reason, sizeof reason, "signal %d (%s) to muster run%s", number,
                   strsignal(number), step ? ", a step of Slurm" : "");
    return is_notice(job, number) && give_notice(job, number, strsignal(number), reason, step);
}

bool mst_preempted_time_over(struct mst_run_job *job)
{
    char what[64];

    (void)snprintf(what, sizeof what, "--max-time " MST_SECONDS,
                   MST_SECONDS_ARGS(job->options->max_time_ms));
    return give_notice(job, SIGTERM, what, "--max-time of muster run", true);
}

static void on_once_more(int number)
{
    (void)number;
}

static const int notices[] = {SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

void mst_preempted_settle(struct mst_run_job *job)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof notices / sizeof notices[0]; i++) {
        if (mst_preempted_saved(job) && is_notice(job, notices[i])) {
            (void)sigaddset(&set, notices[i]);
        }
    }
    (void)pthread_sigmask(SIG_BLOCK, &set, &job->preempted.before);
}

void mst_preempted_settled(struct mst_run_job *job)
{
    /* Not ignored: what is started to ask for another run would inherit that. */
    struct sigaction action = {.sa_handler = on_once_more, .sa_flags = SA_RESTART}, was;

    for (size_t i = 0; i < sizeof notices / sizeof notices[0]; i++) {
        if (mst_preempted_saved(job) && is_notice(job, notices[i]) &&
            sigaction(notices[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN) {
            (void)sigaction(notices[i], &action, NULL);
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &job->preempted.before, NULL);
}

/* ---- the end ---- */

bool mst_preempted_saved(const struct mst_run_job *job)
{
    return mst_saving_saved(&job->preempted.saving, mst_place_generation(&job->places));
}

bool mst_preempted_past(const struct mst_run_job *job, const struct mst_process *process)
{
    const struct mst_saving_last *complete = &job->preempted.saving.complete;
    uint64_t generation = mst_process_generation(process);

    return complete->there && mst_process_code(process) == MST_EXIT_AGAIN &&
           generation <= complete->generation && generation < mst_place_generation(&job->places);
}

bool mst_preempted_answered(struct mst_run_job *job)
{
    struct mst_preempted *preempted = &job->preempted;
    bool asks = preempted->opened || preempted->signal != 0 || preempted->announcer.published;

    if (!asks || job->service.lost != 0 || job->end.launch_code != 0) {
        return true;
    }
    if (preempted->saving.step == MST_SAVING_NOT_ASKED) {
        mst_saving_ask(&job->preempted.saving);
    } else if (preempted->late && !preempted->asked_again &&
               mst_saving_answered(&job->preempted.saving)) {
        preempted->asked_again = true;
        mst_saving_ask_again(&job->preempted.saving);
    }
    return mst_saving_answered(&job->preempted.saving);
}

void mst_preempted_leave(struct mst_run_job *job)
{
    struct mst_preempted *preempted = &job->preempted;

    if (job->end.how != MST_GOES_ON || job->options->nodes_max <= 1 || !mst_preempted_saved(job) ||
        preempted->saving.complete.fact.leave_all) {
        return;
    }
    if (!job->nodes.first) {
        job->nodes.alone = "it was preempted; all have saved, and the others go on";
        job->end.how = MST_ENDS_ALONE;
    } else if (!preempted->stays && !mst_nodes_may_leave(job)) {
        preempted->stays = true;
        mst_say("the ranks of this node have saved and left; it has the service of the job, and "
                "stays until the other nodes have ended: without it the job ends");
    }
}
