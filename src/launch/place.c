/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/cause.h"
#include "launch/hang/diagnose.h"
#include "launch/job.h"
#include "launch/programs.h"
#include "launch/say.h"
#include "launch/torch/error_file.h"
#include "net/rendezvous.h"
#include "os/descriptors.h"
#include "process/proc_stat.h"
#include "process/spawn.h"

#define OVERDUE_MS 5000
#define START_DESCRIPTORS 13u /* logs, streams, page, errors, and to hear that exec failed */
#define KEPT 8u               /* processes of a place */

bool mst_place_any(const struct mst_run_places *places, enum mst_place_state state)
{
    for (uint32_t i = 0; i < places->count; i++) {
        if (places->list[i].state == state) {
            return true;
        }
    }
    return false;
}

uint64_t mst_place_generation(const struct mst_run_places *places)
{
    uint64_t last = 0;

    for (const struct mst_process *one = places->processes; one != NULL; one = one->older) {
        uint64_t generation = mst_process_generation(one);

        last = generation > last ? generation : last;
    }
    return last;
}

/* ---- starting ---- */

/* What a process is started with: its streams, and its page; below 0: not open. */
enum { PAGE = MST_STREAMS, START_FDS };

/* 0, or the error number. */
static int start_prepare(struct mst_place *place, struct mst_process *process, int fds[START_FDS])
{
    if (!mst_descriptors_left(START_DESCRIPTORS) ||
        mst_page_create(&process->page, &fds[PAGE]) != MUSTER_OK) {
        return errno != 0 ? errno : ENOMEM;
    }
    atomic_store(&process->page->agent_start, mst_proc_stat_start(0));
    atomic_store(&process->page->agent, (uint64_t)getpid());
    if (place->process != NULL) {
        atomic_store(&process->page->reached, mst_page_reached(mst_process_page(place->process)));
    }
    return mst_streams_open(place->job, place->index, place->attempts, process, fds);
}

/* One line, and what `env` would end with. */
static int start_failed(struct mst_place *place, int error)
{
    const char *program = mst_program_of(place->job->options, place->slot)->arguments[0];
    char why[128];

    place->start_error = error;
    if (error == EMFILE) {
        mst_descriptors_text(why, sizeof why);
        mst_say("%s: %s", program, why);
    } else {
        mst_say("%s: %s", program, strerror(error));
    }
    if (error == ENOENT || error == ENOTDIR) {
        return MST_EXIT_NOT_FOUND;
    }
    return error == EACCES || error == ENOEXEC || error == EPERM ? MST_EXIT_NOT_EXECUTABLE
                                                                 : MST_EXIT_LAUNCHER;
}

static int start_spawn(struct mst_place *place, struct mst_process *process,
                       const int fds[START_FDS])
{
    struct mst_run_job *job = place->job;
    const struct mst_run_program *program = mst_program_of(job->options, place->slot);
    struct mst_cpus cpus;
    struct mst_spawn spawn = {
        .program = program->path,
        .arguments = program->arguments,
        .input = fds[MST_STREAM_INPUT],
        .out = fds[MST_STREAM_OUT],
        .error = fds[MST_STREAM_ERROR],
        .terminal = fds[MST_STREAM_TERMINAL] > 0 ? fds[MST_STREAM_TERMINAL] : 0,
        .session = fds[MST_STREAM_TERMINAL] > 0,

        .given = {{fds[PAGE], fds[PAGE]}, {job->nodes.secret_fd, job->nodes.secret_fd}}};

    mst_tag_text(job->tag, place->index, place->attempts, process->tag);
    if (!mst_variables_of(&job->environment, place, process, fds[PAGE])) {
        return ENOMEM;
    }
    spawn.environment = job->environment.entries;
    if (job->binding.count > 0) {
        mst_binding_share(&job->binding, place->slot, job->places.count, &cpus);
        spawn.cpus = &cpus;
    }
    return mst_spawn_tied(&spawn, SIGKILL, job->options->dump, &process->pid);
}

static void process_free(struct mst_run_job *job, struct mst_process *process)
{
    mst_output_forget(job->output, process->out);
    mst_output_forget(job->output, process->error);
    mst_page_unmap(process->page);
    if (process->error_fd >= 0) {
        (void)close(process->error_fd);
    }
    free(process);
}

/* It is only read by other threads, with the lock. */
void mst_place_forget(struct mst_run_job *job, uint32_t index)
{
    struct mst_process **link = &job->places.processes;
    unsigned newer = 0;

    while (*link != NULL) {
        struct mst_process *process = *link;

        if (process->index != index || newer++ < KEPT || process->end != MST_PROCESS_GONE ||
            !mst_cause_got_over(job, process) || !mst_session_heard_all(&job->session, process)) {
            link = &process->older;
            continue;
        }
        mst_shared_lock(&job->shared);
        *link = process->older;
        mst_shared_unlock(&job->shared);
        process_free(job, process);
    }
}

/* In this life of the group. */
static bool has_run(const struct mst_place *place)
{
    return place->attempts > 0 && place->life == place->job->group.life;
}

/* The process runs. False: its death would not be noticed. */
static bool adopt(struct mst_place *place, struct mst_process *process)
{
    struct mst_run_job *job = place->job;

    process->index = place->index;
    process->attempt = place->attempts;
    process->life = job->group.life;
    process->again = has_run(place);
    process->rank = MST_RANK_NONE;
    process->started_ns = mst_lib_now_ns();
    place->attempts++;
    place->life = process->life;
    place->state = MST_PLACE_RUNS;
    mst_keeper_keep(&job->keeper, (struct mst_kept){.group = process->pid});
    mst_shared_lock(&job->shared);
    process->older = job->places.processes;
    job->places.processes = process;
    place->process = process;
    mst_shared_unlock(&job->shared);
    mst_hung_watch(place);
    mst_place_forget(job, place->index);
    return mst_death_add(job->death, place->slot, process->page) == MUSTER_OK;
}

int mst_place_start(struct mst_place *place)
{
    struct mst_run_job *job = place->job;
    struct mst_process *process = calloc(1, sizeof *process);
    int fds[START_FDS] = {-1, -1, -1, -1, -1};
    int error = ENOMEM;

    if (process != NULL) {
        process->error_fd = -1;
        error = start_prepare(place, process, fds);
    }
    /* Of several nodes the ranks on the others know the first one only. */
    if (!job->nodes.master_given && (has_run(place) || job->nodes.master_port == 0)) {
        job->nodes.master_port = mst_rendezvous_free_port("127.0.0.1");
    }
    error = error == 0 ? start_spawn(place, process, fds) : error;
    for (unsigned i = 0; i < START_FDS; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    if (error == 0) {
        place->start_error = 0;
        return adopt(place, process) ? 0 : start_failed(place, ENOMEM);
    }
    if (process != NULL) {
        process_free(job, process);
    }
    return start_failed(place, error);
}

void mst_place_start_all(struct mst_run_job *job)
{
    for (uint32_t i = 0; i < job->places.count && job->end.launch_code == 0; i++) {
        if (job->places.list[i].state == MST_PLACE_WAITS) {
            job->end.launch_code = mst_place_start(&job->places.list[i]);
        }
    }
    mst_plain_look(job);
    if (job->end.launch_code != 0) {
        mst_ending_begin(job, MST_ENDS_FAILED, SIGTERM);
    }
}

/* ---- what other threads tell ---- */

static void note_time(struct mst_process *process)
{
    if (process->died_ns == 0) {
        process->died_ns = mst_lib_now_ns();
        (void)clock_gettime(CLOCK_REALTIME, &process->died);
    }
}

/* With the lock held: it is dead, and from now on that is true of all its threads and children. */
static void die(struct mst_process *process)
{
    if (process->end == MST_PROCESS_RUNS) {
        process->end = MST_PROCESS_DEAD;
        note_time(process);
        mst_process_signal(process, SIGKILL);
    }
}

/* With the lock held. The others go on before the process can be waited for, and are told why now
 * or not at all. */
static enum mst_cause cause_of(const struct mst_process *process, int *code_out)
{
    int status = process->status;

    *code_out = 0;
    if (process->verdict == MST_CAUSE_HARD_TIMEOUT) {
        *code_out = process->ended_by;
        return MST_CAUSE_HARD_TIMEOUT;
    }
    if (process->end != MST_PROCESS_GONE &&
        !mst_diagnose_end((pid_t)mst_process_pid(process), &status)) {
        return mst_process_exited(process, code_out) ? MST_CAUSE_EXIT : MST_CAUSE_GONE;
    }
    *code_out = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    return WIFSIGNALED(status) ? MST_CAUSE_SIGNAL : MST_CAUSE_EXIT;
}

void mst_place_told(void *ctx, uint64_t tag)
{
    struct mst_run_job *job = ctx;
    struct mst_process *process;
    enum mst_cause cause;
    int code;

    mst_shared_lock(&job->shared);
    process = job->places.list[tag].process; /* only the newest of a place is watched */
    process->told = true;
    cause = cause_of(process, &code);
    die(process);
    mst_shared_unlock(&job->shared);
    mst_session_lost(&job->session, process, cause, code);
    mst_shared_wake(&job->shared);
}

bool mst_place_unhealthy(const struct mst_place *place, int32_t code, struct mst_slice text)
{
    struct mst_run_job *job = place->job;
    struct mst_process *process = place->process;
    bool runs;

    mst_shared_lock(&job->shared);
    runs =
        process != NULL && process->end == MST_PROCESS_RUNS && process->verdict == MST_CAUSE_NONE;
    if (runs) {
        process->verdict = MST_CAUSE_UNHEALTHY;
        (void)snprintf(process->why, sizeof process->why, "%.*s", MST_SLICE_ARGS(text));
        note_time(process);
    }
    mst_shared_unlock(&job->shared);
    if (runs) {
        mst_session_lost(&job->session, process, MST_CAUSE_UNHEALTHY, code);
    }
    return runs;
}

static void member_of(struct mst_process *process, const struct mst_who *who)
{
    if (who->rank != MST_RANK_NONE) {
        process->joined = true;
        process->rank = who->rank;
    }
    if (who->role == MST_ROLE_WORKER) {
        process->joined = true; /* it is in no generation, ever */
    }
    if (who->state == MST_STATE_LOST && process->end == MST_PROCESS_RUNS &&
        (who->cause == MST_CAUSE_LEASE || who->cause == MST_CAUSE_EVICTED)) {
        if (process->verdict == MST_CAUSE_NONE) {
            process->verdict = who->cause;
        }
        die(process);
    }
}

void mst_place_member(struct mst_run_job *job, const struct mst_who *who)
{
    uint32_t slot =
        who->index - job->nodes.number * job->places.count; /* of the others: too large */
    struct mst_process *process = slot < job->places.count ? job->places.list[slot].process : NULL;

    if (process != NULL && process->end != MST_PROCESS_GONE &&
        who->pid == mst_process_pid(process)) {
        member_of(process, who);
    }
}

/* ---- on the loop: dead ---- */

static void on_overdue(uv_timer_t *timer)
{
    const struct mst_place *place = timer->data;
    char blocked[64];

    mst_diagnose_blocked(place->process->pid, blocked, sizeof blocked);
    mst_say("#%" PRIu32 " is dead but not gone: blocked in %s", place->index, blocked);
}

/* One that leaves its process group, and has no tag, is found by nothing else once the run is
 * killed; it ends itself then (client/shell/orphan.h), unless it is stopped. */
static void keep_rank(const struct mst_run_job *job, struct mst_process *process)
{
    uint64_t rank = mst_process_client(process);

    if (rank != process->client_kept) {
        process->client_kept = rank;
        mst_keeper_keep(&job->keeper,
                        (struct mst_kept){process->pid, (pid_t)rank,
                                          atomic_load(&mst_process_page(process)->start)});
    }
}

void mst_place_notice(struct mst_place *place)
{
    struct mst_run_job *job = place->job;
    struct mst_process *process = place->process;
    bool news;

    if (place->state != MST_PLACE_RUNS) {
        return;
    }
    keep_rank(job, process);
    mst_shared_lock(&job->shared);
    news = process->end == MST_PROCESS_DEAD && !process->noticed;
    process->noticed = process->noticed || news;
    mst_shared_unlock(&job->shared);
    if (news) {
        mst_monitor_remove(&job->hung.monitor, &process->watched);
        (void)uv_timer_start(&place->overdue, on_overdue, OVERDUE_MS, 0);
    }
}

/* ---- on the loop: gone ---- */

static void give_up(struct mst_place *place)
{
    struct mst_run_job *job = place->job;
    uint32_t left = 0;

    place->state = MST_PLACE_GIVEN_UP;
    for (uint32_t i = 0; i < job->places.count; i++) {
        left += job->places.list[i].state != MST_PLACE_GIVEN_UP;
    }
    if (job->end.how != MST_GOES_ON) {
        return;
    }
    left += mst_nodes_ranks_elsewhere(job);
    if (mst_run_enough(job->options) != 0 && left >= mst_run_enough(job->options) &&
        job->places.uses_muster && job->service.lost == 0 && !mst_process_aborted(place->process)) {
        mst_say("going on without #%" PRIu32 ": %" PRIu32 " are left, %" PRIu32 " are enough",
                place->index, left, mst_run_enough(job->options));
        mst_session_last(&job->session, place->process);
        place->process->excused = job->options->spares != 0; /* one of them takes its place */
        return;
    }
    mst_ending_begin(job, MST_ENDS_FAILED, SIGTERM);
}

/* JAX goes on with the devices that live (--jax-recoverable). */
static void go_on_without(struct mst_place *place)
{
    char name[64], how[128];

    mst_process_name(place->process, name, sizeof name);
    mst_process_how(place->process, how, sizeof how);
    mst_say("%s %s; the others go on without it", name, how);
    place->state = MST_PLACE_GIVEN_UP;
    place->process->excused = true;
    mst_session_last(&place->job->session, place->process);
}

static void on_again(uv_timer_t *timer)
{
    struct mst_place *place = timer->data;
    int code = mst_place_start(place), error = place->start_error;
    /* What others hold now and may give back. */
    bool is_short = error == EMFILE || error == ENFILE || error == EAGAIN || error == ENOMEM;

    mst_plain_look(place->job);
    if (code != 0 && place->state != MST_PLACE_RUNS && is_short) {
        uint64_t delay_ms = mst_back_off_ms(place->early++);

        mst_say("#%" PRIu32 " could not be started; trying again in %" PRIu64 " s", place->index,
                delay_ms / 1000);
        (void)uv_timer_start(timer, on_again, delay_ms, 0);
    } else if (code != 0) {
        place->job->end.launch_code = code;
        if (place->state != MST_PLACE_RUNS) {
            give_up(place);
        }
        mst_ending_begin(place->job, MST_ENDS_FAILED, SIGTERM);
        mst_ending_look(place->job);
    }
}

/* Only a process that dies again and again before it joins is held back: each attempt interrupts
 * the others. */
static uint64_t delay_ms_of(struct mst_place *place)
{
    if (place->process->joined) {
        place->early = 0;
        return 0;
    }
    return place->process->again ? mst_back_off_ms(place->early++) : 0;
}

static void start_again(struct mst_place *place, const char *name, const char *how)
{
    struct mst_run_job *job = place->job;
    uint64_t delay_ms = delay_ms_of(place);
    char when[32] = "", why[96] = "";

    if (delay_ms > 0) {
        (void)snprintf(when, sizeof when, " in %" PRIu64 " s", delay_ms / 1000);
        (void)snprintf(why, sizeof why,
                       ", as it ended %" PRIu32 " time%s in a row before it joined the others",
                       place->early, place->early == 1 ? "" : "s");
    }
    mst_say("%s %s; starting it again%s (%" PRIu32 " of %" PRIu32 ")%s%s", name, how, when,
            job->places.restarts, job->options->max_restarts, why,
            place->process->joined ? "; the others go on in their processes" : "");
    mst_awaited_begin(place);
    (void)uv_timer_start(&place->again, on_again, delay_ms, 0);
}

void mst_place_go_on(struct mst_place *place, bool may)
{
    const struct mst_run_job *job = place->job;
    char name[64], how[128];

    if (place->state != MST_PLACE_WAITS || job->group.ends) {
        return; /* the run has ended meanwhile, or all are started */
    }
    mst_process_name(place->process, name, sizeof name);
    mst_process_how(place->process, how, sizeof how);
    if (may) {
        start_again(place, name, how);
    } else {
        mst_say("%s %s; it is not started again: %" PRIu32 " of %" PRIu32 " restart%s used", name,
                how, job->places.restarts, job->options->max_restarts,
                job->options->max_restarts == 1 ? " is" : "s are");
        give_up(place);
    }
}

static void failed(struct mst_place *place)
{
    struct mst_run_job *job = place->job;
    struct mst_process *process = place->process;
    bool goes_on = job->end.how == MST_GOES_ON;

    place->state = MST_PLACE_WAITS;
    if (goes_on && job->nodes.rejoins) {
        process->excused = true;
    } else if (goes_on && job->service.lost == 0 && mst_fronted_recovers(job, process)) {
        go_on_without(place);
    } else if (!goes_on || job->service.lost != 0 || mst_process_aborted(process) ||
               (!job->places.uses_muster && job->options->restarts_given == 0)) {
        give_up(place); /* no generation could take it in again, or is to */
    } else if (!job->places.uses_muster || mst_process_gave_up(process)) {
        mst_group_ask(job, process);
    } else if (!mst_group_begins(&job->group)) { /* else it is started with all others */
        mst_nodes_ask_restart(job, place);
    }
}

/* To the service: that it is dead, or, when the waiter told that already, how it died. Of who left
 * or closed it takes no notice. How one that hung died is known as soon as that it did; of a rank
 * behind a shell the status says nothing. An older service did not take it that one is unhealthy.
 */
static void report(struct mst_run_job *job, struct mst_process *process, bool died)
{
    bool own = mst_process_pid(process) == (uint64_t)process->pid;

    if (process->verdict == MST_CAUSE_HARD_TIMEOUT && !process->told) {
        mst_session_lost(&job->session, process, MST_CAUSE_HARD_TIMEOUT,
                         own && WIFSIGNALED(process->status) ? WTERMSIG(process->status)
                                                             : process->ended_by);
    }
    if (process->verdict != MST_CAUSE_NONE && process->verdict != MST_CAUSE_UNHEALTHY) {
        return;
    }
    if (WIFSIGNALED(process->status)) {
        mst_session_lost(&job->session, process, MST_CAUSE_SIGNAL, WTERMSIG(process->status));
    } else if (process->told || died || WEXITSTATUS(process->status) != 0) {
        mst_session_lost(&job->session, process, MST_CAUSE_EXIT, WEXITSTATUS(process->status));
    }
}

/* What a worker of torch left as the reason. */
static void take_record(const struct mst_run_job *job, struct mst_process *process)
{
    char path[MST_LOGS_PATH_MAX];

    if (process->error_fd < 0 && process->log.made) {
        mst_logs_path(&job->logs, process->index, &process->log, MST_LOGS_ERROR, path, sizeof path);
        process->error_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    }
    if (process->error_fd < 0) {
        return;
    }
    if (mst_process_failed(process)) {
        (void)mst_error_file_read(process->error_fd, process->recorded, sizeof process->recorded);
    }
    (void)close(process->error_fd);
    process->error_fd = -1;
}

bool mst_place_uses_muster(const struct mst_run_job *job)
{
    bool uses = job->places.uses_muster;

    for (uint32_t i = 0; i < job->places.count && !uses; i++) {
        const struct mst_process *process = job->places.list[i].process;

        uses = process != NULL && mst_process_client(process) != 0;
    }
    return uses;
}

static void gone(struct mst_place *place)
{
    struct mst_run_job *job = place->job;
    struct mst_process *process = place->process;
    char name[64], how[128];
    bool died;

    (void)uv_timer_stop(&place->overdue);
    mst_streams_close(job, place->index);
    mst_monitor_remove(&job->hung.monitor, &process->watched);
    mst_death_remove(job->death, place->slot);
    died = mst_page_died(process->page);
    mst_preempted_gone(job, process);
    mst_shared_lock(&job->shared);
    mst_process_page_end(process);
    process->joined = process->joined || mst_process_generation(process) != 0;
    mst_shared_unlock(&job->shared);
    job->places.uses_muster = mst_place_uses_muster(job);
    take_record(job, process);
    report(job, process, died || process->fronted);
    mst_fronted_gone(job, process);
    if (job->end.how == MST_GOES_ON && job->group.ends) {
        process->excused = true;
        place->state = MST_PLACE_WAITS;
    } else if (mst_process_failed(process)) {
        failed(place);
    } else {
        place->state = MST_PLACE_DONE;
        place->code = mst_process_code(process);
        if (mst_process_left(process) && place->code != 0) {
            mst_process_name(process, name, sizeof name);
            mst_process_how(process, how, sizeof how);
            mst_say("%s left the job and %s; the others go on", name, how);
        }
        if (process->joined) {
            mst_nodes_finished(job);
        }
        if (process->lost_count > 0 || (process->again && !process->joined) ||
            mst_process_left(process)) {
            mst_session_last(&job->session, process);
        }
    }
}

/* What we started may be a shell that waits for the rank. It heeds SIGTERM at once; the rank has
 * its grace time all the same. */
static bool lingers(const struct mst_run_job *job, const struct mst_process *process)
{
    bool has_time = process->verdict == MST_CAUSE_HARD_TIMEOUT && process->ended_by == SIGTERM &&
                    process->end == MST_PROCESS_RUNS && job->end.how == MST_GOES_ON;
    pid_t rank = (pid_t)mst_process_pid(process);

    return has_time && (mst_page_held(process->page) ||
                        (rank != process->pid && getpgid(rank) == process->pid));
}

/* Its own group goes with it. While it is a zombie its number cannot belong to anybody else. */
bool mst_place_reap(struct mst_place *place)
{
    struct mst_run_job *job = place->job;
    struct mst_process *process = place->process;
    siginfo_t info = {0};
    int status = 0;

    if (place->state != MST_PLACE_RUNS ||
        waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != process->pid) {
        return false;
    }
    mst_shared_lock(&job->shared);
    process->lingers = lingers(job, process);
    if (process->lingers) {
        mst_shared_unlock(&job->shared);
        return false;
    }
    if (process->end == MST_PROCESS_RUNS) {
        die(process);
    }
    mst_process_signal(process, SIGKILL);
    mst_keeper_remove(&job->keeper, process->pid);
    (void)waitpid(process->pid, &status, 0);
    mst_process_gone(process, status);
    mst_shared_unlock(&job->shared);
    gone(place);
    return true;
}

/* All but what runs now. */
static bool is_doomed(void *ctx, uint32_t index, uint32_t attempt)
{
    const struct mst_run_job *job = ctx;

    for (uint32_t i = 0; i < job->places.count; i++) {
        const struct mst_place *place = &job->places.list[i];

        if (place->state == MST_PLACE_RUNS && place->process->index == index &&
            place->process->attempt == attempt) {
            return false;
        }
    }
    return true;
}

void mst_place_sweep(struct mst_run_job *job)
{
    mst_tagged_kill(job->tag, is_doomed, job);
}
