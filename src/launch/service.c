/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "launch/job.h"
#include "launch/say.h"
#include "os/system.h"
#include "process/environment.h"
#include "process/tagged.h"
#include "service/server/journal_folder.h"

#define BACK_OFF_FIRST_MS 1000u
#define BACK_OFF_MOST_MS 60000u
#define SOON_NS 100000000u /* a service that dies in this time may do so again */
#define SOON_MAX 3u        /* times in a row, before the next try waits */
#define READY_LIMIT_NS UINT64_C(10000000000)

extern char **environ;

static muster_status fail(struct muster_error *err, const char *what, int os_errno)
{
    return mst_fail(err, MUSTER_EFAILED, os_errno,
                    "the service of the job cannot be started: %s%s%s", what,
                    os_errno != 0 ? ": " : "", os_errno != 0 ? strerror(os_errno) : "");
}

/* Its flags, in texts of their own. */
struct flags {
    const char *list[MST_SERVE_FLAGS_MAX + 1];
    unsigned count;
    char text[9 * PATH_MAX];
    size_t size;
};

static void add(struct flags *flags, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct flags *flags, const char *format, ...)
{
    char *text = flags->text + flags->size;
    va_list args;

    va_start(args, format);
    flags->size += (size_t)vsnprintf(text, sizeof flags->text - flags->size, format, args) + 1;
    va_end(args);
    flags->list[flags->count++] = text;
}

/* Which clients may connect. */
static void add_access(struct flags *flags, const struct mst_nodes *nodes)
{
    if (nodes->secret_fd >= 0) {
        add(flags, "--secret-fd=%d", nodes->secret_fd);
    } else if (nodes->secret[0] != '\0') {
        add(flags, "--secret-file=%s", nodes->secret);
    } else {
        add(flags, "--insecure");
    }
}

/* The first of the list founds the group, and only node 0 begins alone. */
static void add_replica(struct flags *flags, struct mst_run_job *job)
{
    char list[MST_ADDRESSES_TEXT];

    mst_replicas_list(job, list, sizeof list);
    add(flags, "--replica=%s", list);
    add(flags, "--replicas=%u", job->options->replicas);
    add(flags, "--advertise=%s", job->replicas.address);
    if (!job->nodes.first) {
        add(flags, "--until-idle");
    }
}

/* Some are given although they are empty: the environment may be that of another run. */
static void add_all(struct flags *flags, struct mst_run_job *job, int ready)
{
    const struct mst_run_options *options = job->options;

    if (job->replicas.address[0] != '\0') {
        add_replica(flags, job);
    }
    add(flags, "--log-level=warn");
    add(flags, "--log-format=%s", options->log_json ? "json" : "text");
    add(flags, "--journal=%s", job->service.journal);
    add(flags, "--end-removes=%s", job->nodes.secret_made ? "secret" : "journal");
    if (ready >= 0) {
        add(flags, "--ready-fd=%d", ready);
    }
    add(flags, "--http=%s", job->service.http);
    add(flags, "--history=%" PRIu64, options->history);
    add(flags, "--straggler-percent=%" PRIu64, options->straggler_percent);
    add(flags, "--buffered-bytes-max=%" PRIu64, options->buffered_bytes_max);
    add(flags, "--record=%.4095s",
        options->record != NULL && job->nodes.first ? options->record : "");
    add(flags, "--job=%s", job->name);
    add(flags, "--kept-run=%s", job->kept.path);
    if (options->lease != NULL && *options->lease != '\0') {
        add(flags, "--lease=%s", options->lease);
    }
    if (job->service.bound[0] != '\0') {
        if (strcmp(job->service.bound, job->service.addr) != 0) {
            add(flags, "--addr=%s", job->service.bound);
        }
        add_access(flags, &job->nodes);
    }
}

/* 0, or the error number. `ready` is its end of a pipe, or -1. Where the run is what another one
 * has started, that one kills all with its tag when it ends, and this one's journal and socket
 * would be left. */
static int serve(struct mst_run_job *job, int ready)
{
    struct mst_service *service = &job->service;
    struct flags flags = {.count = 0};
    struct mst_environment environment;
    struct mst_serve how = {.program = "/proc/self/exe",
                            .name = "muster",
                            .addr = service->addr,
                            .flags = flags.list,
                            .given = {{ready, ready}, {job->nodes.secret_fd, job->nodes.secret_fd}},
                            .tied = true};
    struct mst_served served;
    int error;

    if (mst_environment_init(&environment, environ) != MUSTER_OK) {
        return ENOMEM;
    }
    (void)mst_environment_set(&environment, MST_TAG_VARIABLE, NULL);
    add_all(&flags, job, ready);
    how.environment = environment.entries;
    error = mst_serve(&served, &how);
    mst_environment_fini(&environment);
    if (error == 0) {
        if (service->served.line > 0) {
            (void)close(service->served.line);
        }
        service->served = served;
    }
    return error;
}

/* The port that the system chose is kept: a reader finds the next service there, too. */
static void keep_port(struct mst_service *service, const char *got)
{
    char *given = strrchr(service->http, ':');
    const char *port = strrchr(got, ':');

    if (given != NULL && port != NULL) {
        (void)snprintf(given, sizeof service->http - (size_t)(given - service->http), "%s", port);
    }
}

/* Where it serves health and metrics, in a line. False: it ended, which it explained itself, or it
 * says nothing. */
static bool wait_ready(struct mst_service *service, int ready)
{
    char line[sizeof service->http];
    size_t size;

    (void)mst_child_read(ready, mst_system_now_ns() + READY_LIMIT_NS, -1, line, sizeof line, &size);
    if (size < 1 || line[size - 1] != '\n') {
        return false;
    }
    line[size - 1] = '\0';
    if (line[0] != '\0' && strncmp(line, "unix:", strlen("unix:")) != 0) {
        keep_port(service, line);
    }
    return true;
}

/* Beside the socket, or where that would be: of a replica on another node one for each of these, as
 * they may share a machine. */
muster_status mst_service_claim(struct mst_run_job *job, struct muster_error *err)
{
    struct mst_service *service = &job->service;
    char socket[MST_SOCKET_PATH_MAX];
    const char *dot;
    size_t size;

    if (mst_socket_path(job->name, socket, true, err) != MUSTER_OK) {
        return err->status;
    }
    size = strlen(socket);
    dot = strrchr(socket, '.');
    if (dot != NULL && strchr(dot, '/') == NULL) {
        size = (size_t)(dot - socket);
    }
    if (job->options->join == NULL) {
        (void)snprintf(service->journal, sizeof service->journal, "%.*s.journal", (int)size,
                       socket);
    } else {
        (void)snprintf(service->journal, sizeof service->journal, "%.*s.%" PRIu32 ".journal",
                       (int)size, socket, job->nodes.number);
    }
    if (mst_journal_folder_claim(&service->journal_owner, service->journal, err) != MUSTER_OK) {
        service->journal[0] = '\0';
        return err->status;
    }
    return MUSTER_OK;
}

static void disown(struct mst_service *service)
{
    if (service->journal_owner != 0) {
        (void)close(service->journal_owner);
    }
    service->journal_owner = 0;
}

/* While no other run can take the secret for its own. */
static void forget_owned(struct mst_run_job *job)
{
    if (job->nodes.secret_made) {
        (void)unlink(job->nodes.secret);
    }
    mst_journal_folder_remove(job->service.journal, NULL);
    disown(&job->service);
}

void mst_service_forget(struct mst_run_job *job)
{
    if (job->service.journal_owner != 0) {
        forget_owned(job);
    } else if (job->service.journal[0] != '\0') { /* the service was killed at its end */
        mst_journal_folder_remove(job->service.journal,
                                  job->nodes.secret_made ? job->nodes.secret : NULL);
    }
    job->service.journal[0] = '\0';
    job->nodes.secret_made = false;
}

muster_status mst_service_start(struct mst_run_job *job, struct muster_error *err)
{
    const char *http = job->options->http;
    char path[MST_SOCKET_PATH_MAX];
    int ends[2], error;
    bool is_ready;

    if (mst_socket_path(job->name, path, true, err) != MUSTER_OK) {
        return err->status;
    }
    (void)snprintf(job->service.addr, sizeof job->service.addr, "unix:%s", path);
    (void)snprintf(job->service.http, sizeof job->service.http, "%s", http != NULL ? http : "");
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail(err, "no pipe", errno);
    }
    error = serve(job, ends[1]);
    (void)close(ends[1]);
    is_ready = error == 0 && wait_ready(&job->service, ends[0]);
    (void)close(ends[0]);
    if (error != 0) {
        return fail(err, "no process", error);
    }
    if (!is_ready) {
        mst_service_kill(&job->service);
        return fail(err, "it does not answer", 0);
    }
    return MUSTER_OK;
}

/* From now on the service owns the journal and removes it: this run may be killed before the
 * service has ended. */
void mst_service_stop(struct mst_service *service)
{
    if (service->served.child.pid != 0) {
        disown(service);
        (void)!write(service->served.line, "\n", 1); /* it may be gone */
    }
}

void mst_service_kill(struct mst_service *service)
{
    if (service->served.child.pid != 0) {
        mst_child_signal(&service->served.child, SIGKILL);
        (void)mst_child_reap(&service->served.child, NULL);
    }
}

/* ---- it dies ---- */

uint64_t mst_back_off_ms(uint32_t failures)
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
    int error;

    job->service.begun_ns = mst_lib_now_ns();
    job->service.again_due = false;
    error = serve(job, -1);
    if (error != 0) {
        (void)fail(&err, "no process", error);
        mst_say("%s", err.text);
        job->service.again_due = true;
        (void)uv_timer_start(timer, on_again, mst_back_off_ms(job->service.deaths++), 0);
    }
}

void mst_service_start_replica(struct mst_run_job *job)
{
    struct mst_service *service = &job->service;
    struct muster_error err;

    if (service->again_due) {
        return;
    }
    if (service->journal[0] == '\0' && mst_service_claim(job, &err) != MUSTER_OK) {
        mst_say("no replica of the service here: %s", err.text);
        job->replicas.cannot = true;
        return;
    }
    (void)snprintf(service->addr, sizeof service->addr, "%s", job->replicas.address);
    (void)snprintf(service->bound, sizeof service->bound, "%s", job->replicas.address);
    service->begun_ns = mst_lib_now_ns();
    on_again(&service->again);
}

/* It ended by itself: it cannot bring its state back, or not keep it, and said why. */
static void lost(struct mst_run_job *job, pid_t pid, const char *how)
{
    job->service.lost = pid;
    (void)snprintf(job->service.how, sizeof job->service.how, "%s", how);
    mst_say("the service of the job %s; the state of the job cannot be brought back", how);
    mst_ending_begin(job, MST_ENDS_FAILED, SIGTERM);
}

static void say_again(const struct mst_run_job *job, int status, const char *how, uint64_t delay_ms)
{
    const char *when = delay_ms == 0 ? "" : " after a while";

    if (!mst_replicas_wanted(job)) {
        mst_say("the service of the job %s; it is started again%s and goes on from its journal",
                how, when);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        mst_say("the replica of the service on this node %s; it is started again%s", how, when);
    } /* else nobody needed it for a lease, as while a third node is not there */
}

static void gone(struct mst_run_job *job, pid_t pid, int status)
{
    uint64_t delay_ms;
    uint32_t soon;
    char how[sizeof job->service.how];

    if (job->end.closing) {
        uv_stop(&job->loop);
        return;
    }
    mst_status_how(status, how, sizeof how);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && !mst_replicas_wanted(job)) {
        lost(job, pid, how);
    } else {
        if (mst_lib_now_ns() - job->service.begun_ns > SOON_NS) {
            job->service.deaths = 0;
        }
        soon = job->service.deaths++;
        delay_ms = soon < SOON_MAX ? 0 : mst_back_off_ms(soon - SOON_MAX);
        say_again(job, status, how, delay_ms);
        job->service.again_due = true;
        (void)uv_timer_start(&job->service.again, on_again, delay_ms, 0);
    }
}

void mst_service_reap(struct mst_run_job *job)
{
    struct mst_child *child = &job->service.served.child;
    pid_t pid = child->pid;
    int status = 0;

    if (pid != 0 && mst_child_await(child, 0, -1)) {
        (void)mst_child_reap(child, &status);
        gone(job, pid, status);
    }
}

void mst_service_open(struct mst_run_job *job)
{
    (void)uv_timer_init(&job->loop, &job->service.again);
    job->service.again.data = job;
}
