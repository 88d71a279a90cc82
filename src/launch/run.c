/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/cause.h"
#include "launch/job.h"
#include "launch/programs.h"
#include "launch/say.h"
#include "os/descriptors.h"
#include "os/system.h"

#define OPEN_LIMIT_MS 10000
#define PLACES_MAX 131072u /* what --nproc and --spares allow */
/* Until its service starts, and for the end to remove the journal's folder: 12, and some. */
#define DESCRIPTORS_OF_A_RUN 16u

extern char **environ;

/* ---- before anything runs ---- */

/* "train-4242": readable, and unique on this machine. */
static void name_job(struct mst_run_job *job)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const char *given = job->options->programs[0].name;
    const char *program = strrchr(given, '/');

    program = program != NULL ? program + 1 : given;
    (void)snprintf(job->name, sizeof job->name, "%.32s-%d", program, (int)getpid());
    for (char *at = job->name; *at != '\0'; at++) {
        *at = (char)(strchr(plain, *at) != NULL ? *at : '-');
    }
}

/* ---- what happens ---- */

static void on_child(uv_signal_t *handle, int number)
{
    struct mst_run_job *job = handle->data;
    bool gone = false;

    (void)number;
    mst_service_reap(job);
    mst_hosts_look(job);
    for (uint32_t i = 0; i < job->places.count; i++) {
        gone = mst_place_reap(&job->places.list[i]) || gone;
    }
    if (gone) { /* before another one takes its place */
        mst_place_sweep(job);
    }
    mst_nodes_look(job);
    mst_group_look(job);
    mst_plain_look(job);
    mst_stopped_look(job);
    mst_restarts_left_look(job);
    mst_ending_look(job);
}

static void on_woken(uv_async_t *handle)
{
    struct mst_run_job *job = handle->data;
    bool some_linger = false;

    for (uint32_t i = 0; i < job->places.count; i++) {
        const struct mst_process *process = job->places.list[i].process;

        mst_place_notice(&job->places.list[i]);
        some_linger = some_linger || (process != NULL && process->lingers);
    }
    if (some_linger) { /* of these the kernel has told once */
        on_child(&job->child, SIGCHLD);
    }
    mst_nodes_look(job);
    mst_preempted_look(job);
    mst_fronted_look(job);
    /* Why, and then what is done about it. */
    mst_faults_look(&job->faults, &job->group, mst_fronted_had(job));
    mst_group_look(job);
    mst_plain_look(job);
    mst_restarts_left_look(job);
    mst_ending_look(job);
}

/* A second Ctrl-C kills at once, whatever else the run was ending by. */
static void stop(struct mst_run_job *job, int number)
{
    if (job->end.signal != 0) {
        mst_ending_signal(job, SIGKILL);
        return;
    }
    if (job->nodes.joining) { /* nothing runs that would have to be ended */
        mst_say("stopped by signal %d (%s) while it joined job '%s'", number, strsignal(number),
                job->name);
        mst_say_directly(job->output);
        mst_nodes_forget(job);
        mst_service_forget(job);
        job->end.signal = number;
        job->end.how = MST_ENDS_SIGNAL;
        mst_report_write(job, 128 + number);
        mst_preempted_close(job);
        _exit(128 + number);
    }
    job->end.signal = number;
    mst_say("%s: stopping within " MST_SECONDS "; once more kills at once", strsignal(number),
            MST_SECONDS_ARGS(job->options->grace_ms));
    mst_ending_stop(job, number);
}

/* Only to the processes themselves: what they started need not know these. */
static void pass_on(struct mst_run_job *job, int number)
{
    for (uint32_t i = 0; i < job->places.count; i++) {
        if (job->places.list[i].state == MST_PLACE_RUNS) {
            (void)kill(job->places.list[i].process->pid, number);
        }
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct mst_run_job *job = handle->data;
    bool passed_on = number == SIGUSR1 || number == SIGUSR2;

    if (passed_on && (job->end.closing || !mst_preempted_signal(job, number))) {
        pass_on(job, number);
    } else if (!passed_on && !job->end.closing && !mst_preempted_signal(job, number)) {
        stop(job, number);
    }
}

/* ---- the run ---- */

/* What the caller ignores, as nohup makes it, stays ignored. */
static void listen_to(struct mst_run_job *job, uv_signal_t *handle, int number)
{
    struct sigaction action;

    handle->data = job;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
        (void)uv_signal_start(handle, on_signal, number);
    }
}

static bool start_loop(struct mst_run_job *job)
{
    static const int numbers[MST_JOB_SIGNALS] = {SIGTERM, SIGINT,  SIGHUP,
                                                 SIGQUIT, SIGUSR1, SIGUSR2};

    (void)signal(SIGPIPE, SIG_IGN);
    if (uv_loop_init(&job->loop) != 0) {
        return false;
    }
    if (uv_async_init(&job->loop, &job->shared.woken, on_woken) != 0) {
        (void)uv_loop_close(&job->loop);
        return false;
    }
    mst_faults_open(&job->faults, &job->loop, &job->shared);
    (void)uv_timer_init(&job->loop, &job->end.grace);
    (void)uv_timer_init(&job->loop, &job->end.time);
    (void)uv_timer_init(&job->loop, &job->end.joiners);
    mst_plain_open(job);
    mst_service_open(job);
    mst_hung_init(job);
    mst_awaited_init(job);
    mst_leaders_init(job);
    mst_reach_init(job);
    mst_streams_listen(job);
    (void)uv_signal_init(&job->loop, &job->child);
    (void)uv_signal_start(&job->child, on_child, SIGCHLD);
    job->shared.woken.data = job->end.grace.data = job->end.joiners.data = job->child.data = job;
    job->end.time.data = job;
    for (size_t i = 0; i < MST_JOB_SIGNALS; i++) {
        (void)uv_signal_init(&job->loop, &job->signals[i]);
        listen_to(job, &job->signals[i], numbers[i]);
    }
    for (uint32_t i = 0; i < job->places.count; i++) {
        struct mst_place *place = &job->places.list[i];

        place->job = job;
        place->slot = place->index = i;
        place->again.data = place->overdue.data = place;
        (void)uv_timer_init(&job->loop, &place->again);
        (void)uv_timer_init(&job->loop, &place->overdue);
    }
    return true;
}

static void on_walk(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static int start_service(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    const char *http = job->service.http;
    struct muster_error err;

    mst_replicas_first(job);
    if (mst_service_start(job, &err) != MUSTER_OK) {
        return mst_refuse("%s", err.text);
    }
    if (*http != '\0') {
        mst_say("health and metrics on %s%s", *http == 'u' ? "" : "http://", http);
    }
    (void)snprintf(nodes->addr, sizeof nodes->addr, "%s", job->service.addr);
    if (mst_session_open(&job->session, job, 0, OPEN_LIMIT_MS, &nodes->number, &err) != MUSTER_OK) {
        return mst_refuse("%s", err.text);
    }
    mst_nodes_begin(job);
    return mst_nodes_publish(job);
}

uint32_t mst_run_indices(const struct mst_run_options *options)
{
    uint32_t started = options->nodes_max * (options->nproc + options->spares);

    return started > options->size ? started : options->size;
}

uint32_t mst_run_enough(const struct mst_run_options *options)
{
    if (options->min_size != 0 || options->spares == 0) {
        return options->min_size;
    }
    return options->size;
}

static void run_all(struct mst_run_job *job)
{
    job->end.launch_code = mst_preempted_open(job);
    if (job->end.launch_code == 0) {
        job->end.launch_code = mst_fronted_open(job);
    }
    if (job->end.launch_code == 0 && job->nodes.first) {
        job->end.launch_code = start_service(job);
    }
    if (job->end.launch_code != 0) {
        return;
    }
    if (mst_environment_init(&job->environment, environ) != MUSTER_OK ||
        !mst_variables_set(&job->environment, job)) {
        job->end.launch_code = mst_no_memory();
        return;
    }
    mst_say_with_output(job->output);
    mst_logs_begin(&job->logs, job->output);
    if (job->nodes.first) {
        mst_ending_limit(job);
        mst_place_start_all(job);
    } else {
        mst_nodes_join(job,
                       job->options->node_rank < 0 ? MUSTER_INDEX_ANY : job->options->node_rank,
                       job->options->service_wait_ms);
    }
    mst_ending_look(job);
    (void)uv_run(&job->loop, UV_RUN_DEFAULT);
}

static void release(struct mst_run_job *job)
{
    mst_keeper_stop(&job->keeper);
    mst_death_free(job->death);
    mst_streams_end(job); /* before the output, which it uses */
    mst_output_free(job->output);
    while (job->places.processes != NULL) {
        struct mst_process *process = job->places.processes;

        job->places.processes = process->older;
        mst_process_page_end(process);
        free(process);
    }
    mst_environment_fini(&job->environment);
    mst_binding_close(&job->binding);
    mst_nodes_release(job);
    mst_service_forget(job);
    free(job->preempted.indices);
    mst_items_fini(&job->report.history);
    free(job->places.list);
    (void)pthread_mutex_destroy(&job->shared.lock);
}

/* 0, or the exit code after one line. */
static int prepare(struct mst_run_job *job)
{
    job->places.count = job->options->nproc + job->options->spares;
    job->places.list = calloc(job->places.count, sizeof *job->places.list);
    if (job->places.list != NULL && mst_descriptors_left(MST_DESCRIPTORS_OF_A_LOOP) &&
        mst_output_new(&job->output, job->options->label) == MUSTER_OK && mst_streams_begin(job) &&
        mst_death_new(&job->death, mst_place_told, job, MST_DEATH_BEST) == MUSTER_OK &&
        start_loop(job) && mst_nodes_prepare(job)) {
        return 0;
    }
    return mst_no_memory();
}

/* Before the secret that is there already is taken for this run's: it may be about to go. */
static int own_job(struct mst_run_job *job)
{
    struct muster_error err;
    char why[128];

    if (!mst_descriptors_left(DESCRIPTORS_OF_A_RUN)) {
        mst_descriptors_text(why, sizeof why);
        return mst_refuse("%s", why);
    }
    if (mst_service_claim(job, &err) != MUSTER_OK) {
        return mst_refuse("%s", err.text);
    }
    return 0;
}

static int open_binding(struct mst_run_job *job)
{
    struct mst_cpus allowed;
    int error = mst_cpus_allowed(&allowed);

    if (error == 0) {
        error = mst_binding_open(&job->binding, job->options->bind, &allowed, MST_BINDING_SYSTEM);
    }
    return error == 0
               ? 0
               : mst_refuse("--bind: cannot find the CPUs of this process: %s", strerror(error));
}

/* Of a node that joins the number of processes may be node 0's. */
static void say_binding(const struct mst_run_job *job)
{
    uint32_t units = job->binding.count, processes = job->places.count;
    const char *what = job->options->bind == MST_BIND_NUMA ? "NUMA node" : "core";

    if (units > 0) {
        mst_say("--bind: %" PRIu32 " %s%s for %" PRIu32 " process%s%s", units, what,
                units == 1 ? "" : "s", processes, processes == 1 ? "" : "es",
                units < processes ? "; several share one" : "");
    }
}

/* 0, or the exit code after one line. Nothing runs yet, and signals end us. */
static int enter(struct mst_run_job *job)
{
    const struct mst_run_options *options = job->options;
    int code;

    if (options->job != NULL) {
        (void)snprintf(job->name, sizeof job->name, "%s", options->job);
    } else {
        name_job(job);
    }
    code = mst_programs_find(options);
    if (code == 0 && options->bind != MST_BIND_NONE) {
        code = open_binding(job);
    }

    if (code == 0) {
        code = mst_logs_open(&job->logs, options->log_dir, job->name);
    }
    if (code != 0) {
        return code;
    }
    mst_system_random(&job->tag, 1);
    mst_tagged_reserve();
    if (!mst_keeper_start(&job->keeper,
                          options->join == NULL ? options->nproc + options->spares : PLACES_MAX,
                          job->tag)) {
        return mst_refuse("no keeper for the ranks: %s", strerror(errno));
    }
    if (options->join == NULL && (code = own_job(job)) != 0) {
        return code;
    }
    return mst_nodes_enter(job);
}

static int run_to_end(struct mst_run_job *job)
{
    run_all(job);
    mst_preempted_close(job);
    mst_fronted_close(job);
    mst_session_close(&job->session); /* its callbacks wake the loop */
    mst_progress_report_fini(&job->hung.report);
    mst_service_kill(&job->service);
    mst_nodes_forget(job);
    mst_service_forget(job);
    mst_preempted_settle(job);
    uv_walk(&job->loop, on_walk, NULL);
    (void)uv_run(&job->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&job->loop); /* signals end us again: only a reader still needs us */
    mst_preempted_settled(job);
    mst_say_directly(job->output);
    mst_hosts_finish(job->options->hosts);
    mst_output_drain(job->output);
    mst_faults_say_more(&job->faults);
    mst_cause_tell(job);
    return mst_cause_code(job);
}

int mst_run(const struct mst_run_options *options)
{
    struct mst_run_job job = {.own = *options, .nodes = {.secret_fd = -1, .elsewhere = -1}};
    int code;

    if (options->log_json) {
        mst_say_as_json();
    }
    job.options = &job.own;
    (void)pthread_mutex_init(&job.shared.lock, NULL);
    (void)gethostname(job.host, sizeof job.host - 1);
    code = mst_report_open(&job.report, options->report, job.host);
    if (code == 0) {
        code = enter(&job);
    }
    if (code == 0 && job.nodes.first) {
        mst_kept_begin(&job);
    }
    if (code == 0) {
        code = prepare(&job);
    }
    job.end.launch_code = code;
    if (code == 0) {
        say_binding(&job);
        code = run_to_end(&job);
    }
    mst_preempted_requeue(&job, code); /* what it did is in the report, unless it ended us */
    mst_report_write(&job, code);
    release(&job);
    return code;
}
