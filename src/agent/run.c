/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "agent/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/job.h"
#include "agent/spawn.h"

#define BACK_OFF_FIRST_MS 1000u
#define BACK_OFF_MOST_MS 60000u
#define SERVICE_STOP_MS 3000 /* then it is killed */
#define JOINERS_ALONE_MS 500 /* a seal that just let them in is told by then */

extern char **environ;

/* Where mst_say writes. */
static int said_to = STDERR_FILENO;

void mst_say(const char *format, ...)
{
    char line[1024] = "muster run: ";
    size_t size = strlen(line);
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(line + size, sizeof line - size - 1, format, args);
    va_end(args);
    if (length > 0) {
        size = size + (size_t)length < sizeof line - 2 ? size + (size_t)length : sizeof line - 2;
    }
    line[size] = '\n';
    (void)!write(said_to, line, size + 1); /* at once: the ranks write there too */
}

/* While ranks run, what is said goes the way of their output. A terminal or a pager that is held up
 * must not hold up the loop: it has to start ranks again, and to stop them. */
static void say_with_output(struct mst_job *job)
{
    struct mst_output_stream *stream;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return;
    }
    if (mst_output_add(job->output, MST_OUTPUT_NO_LABEL, ends[0], STDERR_FILENO, &stream) ==
        MUSTER_OK) {
        said_to = ends[1];
    } else {
        (void)close(ends[1]);
    }
}

static void say_directly(struct mst_job *job)
{
    mst_output_drain(job->output);
    if (said_to != STDERR_FILENO) {
        (void)close(said_to);
        said_to = STDERR_FILENO;
    }
}

uint64_t mst_back_off_ms(uint32_t failures)
{
    uint64_t delay_ms = BACK_OFF_FIRST_MS;

    for (uint32_t i = 0; i < failures && delay_ms < BACK_OFF_MOST_MS; i++) {
        delay_ms *= 2;
    }
    return delay_ms < BACK_OFF_MOST_MS ? delay_ms : BACK_OFF_MOST_MS;
}

/* ---- before anything runs ---- */

/* "train-4242": readable, and nobody else's. */
static void name_job(struct mst_job *job)
{
    const char *program = strrchr(job->options->arguments[0], '/');
    size_t size = 0;

    program = program != NULL ? program + 1 : job->options->arguments[0];
    for (; *program != '\0' && size < 32; program++) {
        bool plain = (*program >= 'a' && *program <= 'z') || (*program >= 'A' && *program <= 'Z') ||
                     (*program >= '0' && *program <= '9') || *program == '-' || *program == '_';

        job->name[size] = '-';
        if (plain) {
            job->name[size] = *program;
        }
        size++;
    }
    (void)snprintf(job->name + size, sizeof job->name - size, "-%d", (int)getpid());
}

static bool set(struct mst_environment *environment, const char *name, const char *value)
{
    return mst_environment_set(environment, name, value) == MUSTER_OK;
}

static bool set_number(struct mst_environment *environment, const char *name, uint64_t value)
{
    return mst_environment_number(environment, name, value) == MUSTER_OK;
}

static bool set_muster(struct mst_job *job, struct mst_environment *environment)
{
    const struct mst_run_options *options = job->options;

    return set(environment, "MUSTER_ADDR", job->service.addr) &&
           set(environment, "MUSTER_JOB", job->name) &&
           set_number(environment, "MUSTER_SIZE", options->size) &&
           set_number(environment, "MUSTER_MIN_SIZE",
                      options->min_size != 0 ? options->min_size : 1) &&
           set_number(environment, "MUSTER_JOIN_WAIT", (uint64_t)options->join_wait_ms) &&
           set(environment, "MUSTER_GROW", options->grow);
}

/* What scripts written for torchrun look at. */
static bool set_torch(struct mst_job *job, struct mst_environment *environment)
{
    const struct mst_run_options *options = job->options;

    if (options->nproc > 1 && mst_environment_get(environment, "OMP_NUM_THREADS") == NULL) {
        mst_say("OMP_NUM_THREADS=1 for each of the %" PRIu32 " ranks, as it is not set",
                options->nproc);
        if (!set(environment, "OMP_NUM_THREADS", "1")) {
            return false;
        }
    }
    return set_number(environment, "WORLD_SIZE", options->size) &&
           set_number(environment, "ROLE_WORLD_SIZE", options->size) &&
           set_number(environment, "LOCAL_WORLD_SIZE", options->nproc) &&
           set(environment, "GROUP_RANK", "0") && set(environment, "MASTER_ADDR", "127.0.0.1") &&
           set(environment, "TORCHELASTIC_RUN_ID", job->name) &&
           set_number(environment, "TORCHELASTIC_MAX_RESTARTS", options->max_restarts);
}

static int find_program(struct mst_job *job)
{
    const char *program = job->options->arguments[0];
    int error = mst_spawn_find(program, job->path);

    if (error == 0) {
        return 0;
    }
    if (error == EACCES) {
        mst_say("'%s' is not executable", program);
        return MST_EXIT_NOT_EXECUTABLE;
    }
    mst_say("'%s' is not found%s", program, strchr(program, '/') == NULL ? " in PATH" : "");
    return MST_EXIT_NOT_FOUND;
}

static int no_memory(void)
{
    mst_say("out of memory");
    return MST_EXIT_LAUNCHER;
}

/* ---- the end ---- */

static void signal_all(struct mst_job *job, int number)
{
    (void)pthread_mutex_lock(&job->lock);
    for (uint32_t i = 0; i < job->place_count; i++) {
        const struct mst_process *process = job->places[i].process;

        if (process != NULL && process->end != MST_PROCESS_GONE) {
            mst_process_signal(process, number);
        }
    }
    (void)pthread_mutex_unlock(&job->lock);
}

static void on_grace_over(uv_timer_t *timer)
{
    signal_all(timer->data, SIGKILL);
}

void mst_job_end(struct mst_job *job, enum mst_ending ending, int number)
{
    if (job->ending == MST_GOES_ON) {
        job->ending = ending;
        job->ended_ns = mst_lib_now_ns();
    }
    (void)uv_timer_stop(&job->joiners);
    for (uint32_t i = 0; i < job->place_count; i++) {
        struct mst_place *place = &job->places[i];

        if (place->state == MST_PLACE_WAITS) {
            (void)uv_timer_stop(&place->again);
            place->state = MST_PLACE_GIVEN_UP;
        }
    }
    signal_all(job, number);
    if (!uv_is_active((uv_handle_t *)&job->grace)) {
        (void)uv_timer_start(&job->grace, on_grace_over, (uint64_t)job->options->grace_ms, 0);
    }
}

static void on_service_late(uv_timer_t *timer)
{
    struct mst_job *job = timer->data;

    mst_service_kill(&job->service);
    uv_stop(&job->loop);
}

/* No rank is left: the service is the last to go. */
static void close_job(struct mst_job *job)
{
    job->closing = true;
    (void)uv_timer_stop(&job->joiners);
    mst_session_close(&job->session);
    mst_service_stop(&job->service);
    if (job->service.pid == 0) {
        uv_stop(&job->loop);
    } else {
        (void)uv_timer_start(&job->grace, on_service_late, SERVICE_STOP_MS, 0);
    }
}

/* Some have ended well, and whoever is left was started again and never got in: nobody will take
 * it in. */
static bool only_joiners(struct mst_job *job)
{
    bool done = false, joiner = false, other = false;

    (void)pthread_mutex_lock(&job->lock);
    for (uint32_t i = 0; i < job->place_count; i++) {
        const struct mst_place *place = &job->places[i];
        const struct mst_process *process = place->process;
        bool runs = place->state == MST_PLACE_RUNS;
        bool waits =
            place->state == MST_PLACE_WAITS || (runs && process->attempt > 0 && !process->joined &&
                                                mst_process_generation(process) == 0);

        done = done || place->state == MST_PLACE_DONE;
        joiner = joiner || waits;
        other = other || (runs && !waits);
    }
    (void)pthread_mutex_unlock(&job->lock);
    return job->uses_muster && done && joiner && !other;
}

/* Whether a rank ended well after the last of the others had failed: then the work was done without
 * those. Else it left before, and who was to go on has failed. */
static bool done_without_them(const struct mst_job *job)
{
    uint64_t failed_ns = 0, done_ns = 0;

    for (const struct mst_process *one = job->processes; one != NULL; one = one->older) {
        uint64_t *last = mst_process_failed(one) ? &failed_ns : &done_ns;

        if (one->end == MST_PROCESS_GONE && one->died_ns > *last) {
            *last = one->died_ns;
        }
    }
    return done_ns > failed_ns;
}

static void on_joiners(uv_timer_t *timer)
{
    struct mst_job *job = timer->data;

    if (job->ending == MST_GOES_ON && only_joiners(job)) {
        mst_job_end(job, done_without_them(job) ? MST_ENDS_WELL : MST_ENDS_FAILED, SIGTERM);
        mst_job_look(job);
    }
}

void mst_job_look(struct mst_job *job)
{
    bool over = true;

    for (uint32_t i = 0; i < job->place_count; i++) {
        over = over && job->places[i].state != MST_PLACE_RUNS &&
               job->places[i].state != MST_PLACE_WAITS;
    }
    if (job->closing) {
        return;
    }
    if (over) {
        close_job(job);
    } else if (job->ending == MST_GOES_ON && only_joiners(job) &&
               !uv_is_active((uv_handle_t *)&job->joiners)) {
        (void)uv_timer_start(&job->joiners, on_joiners, JOINERS_ALONE_MS, 0);
    }
}

/* ---- what happens ---- */

/* Its state is lost, but whoever needs it is told so by the next one, instead of waiting. */
static void on_service_again(uv_timer_t *timer)
{
    struct mst_job *job = timer->data;
    struct muster_error err;

    if (mst_service_again(&job->service, &err) != MUSTER_OK) {
        mst_say("%s", err.text);
        (void)uv_timer_start(timer, on_service_again, mst_back_off_ms(job->service_deaths++), 0);
    }
}

static void service_gone(struct mst_job *job, int status)
{
    uint64_t delay_ms = 0;
    char how[sizeof job->service_how];

    if (job->closing) {
        job->service.pid = 0;
        uv_stop(&job->loop);
        return;
    }
    mst_status_how(status, how, sizeof how);
    if (job->service_lost == 0) {
        job->service_lost = job->service.pid;
        memcpy(job->service_how, how, sizeof how);
        mst_say("the service of the job %s; its state is lost, and ranks that need it will fail",
                how);
    } else {
        delay_ms = mst_back_off_ms(job->service_deaths++);
        mst_say("the service of the job %s again; the next try is in %" PRIu64 " s", how,
                delay_ms / 1000);
    }
    job->service.pid = 0;
    (void)uv_timer_start(&job->service_again, on_service_again, delay_ms, 0);
}

static void reap_service(struct mst_job *job)
{
    int status;

    if (job->service.pid != 0 && waitpid(job->service.pid, &status, WNOHANG) == job->service.pid) {
        service_gone(job, status);
    }
}

static void on_child(uv_signal_t *handle, int number)
{
    struct mst_job *job = handle->data;

    (void)number;
    reap_service(job);
    for (uint32_t i = 0; i < job->place_count; i++) {
        mst_place_reap(&job->places[i]);
    }
    mst_job_look(job);
}

static void on_woken(uv_async_t *handle)
{
    struct mst_job *job = handle->data;

    for (uint32_t i = 0; i < job->place_count; i++) {
        mst_place_notice(&job->places[i]);
    }
}

/* Who types Ctrl-C twice means it, whatever else the run was ending by. */
static void stop(struct mst_job *job, int number)
{
    if (job->signal != 0) {
        signal_all(job, SIGKILL);
        return;
    }
    job->signal = number;
    mst_say("%s: stopping within %" PRId64 ".%" PRId64 " s; once more kills at once",
            strsignal(number), job->options->grace_ms / 1000, job->options->grace_ms % 1000 / 100);
    mst_job_end(job, MST_ENDS_SIGNAL, number);
    mst_job_look(job);
}

/* Only to the processes themselves: what they started need not know these. */
static void pass_on(struct mst_job *job, int number)
{
    for (uint32_t i = 0; i < job->place_count; i++) {
        if (job->places[i].state == MST_PLACE_RUNS) {
            (void)kill(job->places[i].process->pid, number);
        }
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct mst_job *job = handle->data;

    if (number == SIGUSR1 || number == SIGUSR2) {
        pass_on(job, number);
    } else if (!job->closing) {
        stop(job, number);
    }
}

static void on_member(void *ctx, const struct mst_who *who)
{
    mst_place_member(ctx, who);
}

/* ---- the run ---- */

/* What the caller ignores, as nohup makes it, stays ignored. */
static void listen_to(struct mst_job *job, uv_signal_t *handle, int number)
{
    struct sigaction action;

    handle->data = job;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
        (void)uv_signal_start(handle, on_signal, number);
    }
}

static bool start_loop(struct mst_job *job)
{
    static const int numbers[MST_JOB_SIGNALS] = {SIGTERM, SIGINT,  SIGHUP,
                                                 SIGQUIT, SIGUSR1, SIGUSR2};

    (void)signal(SIGPIPE, SIG_IGN);
    if (uv_loop_init(&job->loop) != 0) {
        return false;
    }
    if (uv_async_init(&job->loop, &job->woken, on_woken) != 0) {
        (void)uv_loop_close(&job->loop);
        return false;
    }
    (void)uv_timer_init(&job->loop, &job->grace);
    (void)uv_timer_init(&job->loop, &job->joiners);
    (void)uv_timer_init(&job->loop, &job->service_again);
    (void)uv_signal_init(&job->loop, &job->child);
    (void)uv_signal_start(&job->child, on_child, SIGCHLD);
    job->woken.data = job->grace.data = job->joiners.data = job->child.data = job;
    job->service_again.data = job;
    for (size_t i = 0; i < MST_JOB_SIGNALS; i++) {
        (void)uv_signal_init(&job->loop, &job->signals[i]);
        listen_to(job, &job->signals[i], numbers[i]);
    }
    for (uint32_t i = 0; i < job->place_count; i++) {
        struct mst_place *place = &job->places[i];

        place->job = job;
        place->index = i;
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

static void end_loop(struct mst_job *job)
{
    uv_walk(&job->loop, on_walk, NULL);
    (void)uv_run(&job->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&job->loop);
}

static int start_service(struct mst_job *job)
{
    struct muster_error err;

    if (mst_service_start(&job->service, job->name, job->options->lease, &err) != MUSTER_OK) {
        mst_say("%s", err.text);
        return MST_EXIT_LAUNCHER;
    }
    if (mst_session_open(&job->session, job->service.addr, job->name, job->options, on_member, job,
                         &err) != MUSTER_OK) {
        mst_say("%s", err.text);
        mst_service_kill(&job->service);
        return MST_EXIT_LAUNCHER;
    }
    return 0;
}

static void start_places(struct mst_job *job)
{
    for (uint32_t i = 0; i < job->place_count && job->launch_code == 0; i++) {
        job->launch_code = mst_place_start(&job->places[i]);
    }
    if (job->launch_code != 0) {
        mst_job_end(job, MST_ENDS_FAILED, SIGTERM);
    }
}

static void run_all(struct mst_job *job)
{
    job->launch_code = start_service(job);
    if (job->launch_code != 0) {
        return;
    }
    if (mst_environment_init(&job->environment, environ) != MUSTER_OK ||
        !set_muster(job, &job->environment) || !set_torch(job, &job->environment)) {
        mst_service_kill(&job->service);
        job->launch_code = no_memory();
        return;
    }
    say_with_output(job);
    start_places(job);
    mst_job_look(job);
    (void)uv_run(&job->loop, UV_RUN_DEFAULT);
}

static void release(struct mst_job *job)
{
    mst_keeper_stop(&job->keeper);
    mst_death_free(job->death);
    mst_output_free(job->output);
    while (job->processes != NULL) {
        struct mst_process *process = job->processes;

        job->processes = process->older;
        mst_process_page_end(process);
        free(process);
    }
    mst_environment_fini(&job->environment);
    free(job->places);
    (void)pthread_mutex_destroy(&job->lock);
}

static bool prepare(struct mst_job *job)
{
    const struct mst_run_options *options = job->options;

    (void)pthread_mutex_init(&job->lock, NULL);
    (void)gethostname(job->host, sizeof job->host - 1);
    if (options->job != NULL) {
        (void)snprintf(job->name, sizeof job->name, "%s", options->job);
    } else {
        name_job(job);
    }
    if (!mst_keeper_start(&job->keeper, job->place_count)) {
        mst_say("no keeper for the ranks: %s", strerror(errno));
        return false;
    }
    job->places = calloc(job->place_count, sizeof *job->places);
    if (job->places != NULL && mst_output_new(&job->output, options->label) == MUSTER_OK &&
        mst_death_new(&job->death, mst_place_told, job, MST_DEATH_BEST) == MUSTER_OK &&
        start_loop(job)) {
        return true;
    }
    (void)no_memory();
    return false;
}

int mst_run(const struct mst_run_options *options)
{
    struct mst_job job = {
        .options = options, .place_count = options->nproc, .service = {.http = options->http}};
    int code = find_program(&job);

    if (code != 0) {
        return code;
    }
    code = MST_EXIT_LAUNCHER;
    if (prepare(&job)) {
        run_all(&job);
        mst_session_close(&job.session); /* its callbacks wake the loop */
        end_loop(&job); /* signals end us again: nothing is left that needs us, but a reader */
        say_directly(&job);
        mst_cause_tell(&job);
        code = mst_cause_code(&job);
    }
    release(&job);
    return code;
}
