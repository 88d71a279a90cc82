/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "process/environment.h"
#include "process/spawn.h"
#include "process/tagged.h"
#include "service/server/journal_folder.h"

#define READY_LIMIT_MS 10000

extern char **environ;

static muster_status fail(struct muster_error *err, const char *what, int os_errno)
{
    return mst_fail(err, MUSTER_EFAILED, os_errno,
                    "the service of the job cannot be started: %s%s%s", what,
                    os_errno != 0 ? ": " : "", os_errno != 0 ? strerror(os_errno) : "");
}

/* Who may connect, as the service is told. */
static char *access_of(const struct mst_service *service, char *text, size_t room)
{
    if (service->secret_fd >= 0) {
        (void)snprintf(text, room, "--secret-fd=%d", service->secret_fd);
    } else if (service->secret[0] != '\0') {
        (void)snprintf(text, room, "--secret-file=%s", service->secret);
    } else {
        (void)snprintf(text, room, "--insecure");
    }
    return text;
}

/* `ready` is its end of a pipe, or -1. What it says on stdout is not for our reader. */
static int spawn_with(struct mst_service *service, const struct mst_environment *environment,
                      int ready, int input)
{
    char name[] = "muster", serve[] = "serve", addr[] = "--addr", log[] = "--log-level=warn";
    char ready_fd[32], lease[sizeof service->lease + 8], parent[] = "--parent";
    char http[sizeof service->http_got + 8], record[sizeof "--record=" + PATH_MAX],
        job[sizeof service->job + 8];
    char buffered[48], journal[] = "--journal", access[sizeof "--secret-file=" + PATH_MAX];
    char orphan[] = "--orphan-removes=journal", orphan_all[] = "--orphan-removes=secret";
    char *arguments[24] = {name,
                           serve,
                           addr,
                           service->addr,
                           log,
                           journal,
                           service->journal,
                           service->secret_made ? orphan_all : orphan,
                           parent};
    unsigned count = 9;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC), error;
    struct mst_spawn how = {
        .path = "/proc/self/exe",
        .arguments = arguments,
        .environment = environment->entries,
        .input = input,
        .out = nowhere,
        .error = -1,
        .keep = {ready, service->secret_fd},
    };

    if (nowhere < 0) {
        return errno;
    }
    if (ready >= 0) {
        (void)snprintf(ready_fd, sizeof ready_fd, "--ready-fd=%d", ready);
        arguments[count++] = ready_fd;
    }
    /* Said also when it is nowhere: the environment may be that of another run's. */
    (void)snprintf(http, sizeof http, "--http=%s",
                   mst_service_http(service) != NULL ? mst_service_http(service) : "");
    (void)snprintf(job, sizeof job, "--job=%s", service->job);
    (void)snprintf(record, sizeof record, "--record=%s",
                   service->record != NULL ? service->record : "");
    (void)snprintf(buffered, sizeof buffered, "--buffered-bytes-max=%" PRIu64,
                   service->buffered_bytes_max);
    arguments[count++] = http;
    arguments[count++] = buffered;
    arguments[count++] = record;
    arguments[count++] = job;
    if (service->lease[0] != '\0') {
        (void)snprintf(lease, sizeof lease, "--lease=%s", service->lease);
        arguments[count++] = lease;
    }
    if (service->bound[0] != '\0') {
        arguments[count++] = addr;
        arguments[count++] = service->bound;
        arguments[count++] = access_of(service, access, sizeof access);
    }
    error = mst_spawn(&how, &service->pid);
    (void)close(nowhere);
    return error;
}

/* Where the run is what another one has started, that one kills all with its tag when it ends, and
 * nobody would remove this one's journal and socket. */
static int spawn_untagged(struct mst_service *service, int ready, int input)
{
    struct mst_environment environment;
    int error = ENOMEM;

    if (mst_environment_init(&environment, environ) == MUSTER_OK) {
        (void)mst_environment_set(&environment, MST_TAG_VARIABLE, NULL);
        error = spawn_with(service, &environment, ready, input);
        mst_environment_fini(&environment);
    }
    return error;
}

/* What it reads tells it to stop; that nothing more can come, that we were killed. */
static int spawn(struct mst_service *service, int ready)
{
    int ends[2], error;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    error = spawn_untagged(service, ready, ends[0]);
    (void)close(ends[0]);
    if (service->line != 0) {
        (void)close(service->line);
    }
    service->line = ends[1];
    return error;
}

/* The port that the system chose is kept: whoever reads it finds the next service there, too. */
static void keep_port(struct mst_service *service, const char *got)
{
    const char *given = service->http != NULL ? strrchr(service->http, ':') : NULL;
    const char *port = strrchr(got, ':');

    if (given != NULL && port != NULL) {
        (void)snprintf(service->http_got, sizeof service->http_got, "%.*s%s",
                       (int)(given - service->http), service->http, port);
    }
}

/* Where it serves health and metrics, in a line. False: it ended, which it explained itself, or it
 * says nothing. */
static bool wait_ready(struct mst_service *service, int ready)
{
    struct pollfd polled = {.fd = ready, .events = POLLIN};
    char line[sizeof service->http_got];
    ssize_t size = 0;
    int count;

    do {
        count = poll(&polled, 1, READY_LIMIT_MS);
    } while (count < 0 && errno == EINTR);
    if (count == 1) {
        size = read(ready, line, sizeof line);
    }
    if (size < 1 || line[size - 1] != '\n') {
        return false;
    }
    line[size - 1] = '\0';
    if (line[0] != '\0' && strncmp(line, "unix:", strlen("unix:")) != 0) {
        keep_port(service, line);
    }
    return true;
}

const char *mst_service_http(const struct mst_service *service)
{
    return service->http_got[0] != '\0' ? service->http_got : service->http;
}

/* Beside the socket. */
muster_status mst_service_claim(struct mst_service *service, const char *job,
                                struct muster_error *err)
{
    char socket[MST_SOCKET_PATH_MAX];
    const char *dot;
    size_t size;

    if (mst_socket_path(job, socket, true, err) != MUSTER_OK) {
        return err->status;
    }
    size = strlen(socket);
    dot = strrchr(socket, '.');
    if (dot != NULL && strchr(dot, '/') == NULL) {
        size = (size_t)(dot - socket);
    }
    (void)snprintf(service->journal, sizeof service->journal, "%.*s.journal", (int)size, socket);
    return mst_journal_folder_claim(&service->journal_owner, service->journal, err);
}

void mst_service_forget(struct mst_service *service)
{
    if (service->journal_owner != 0) {
        mst_journal_folder_remove(service->journal, NULL);
        (void)close(service->journal_owner);
    }
    service->journal_owner = 0;
}

muster_status mst_service_start(struct mst_service *service, const char *job, const char *lease,
                                struct muster_error *err)
{
    char path[MST_SOCKET_PATH_MAX];
    int ends[2], error;
    bool is_ready;

    if (mst_socket_path(job, path, true, err) != MUSTER_OK) {
        return err->status;
    }
    (void)snprintf(service->job, sizeof service->job, "%s", job);
    (void)snprintf(service->addr, sizeof service->addr, "unix:%s", path);
    (void)snprintf(service->lease, sizeof service->lease, "%s", lease != NULL ? lease : "");
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail(err, "no pipe", errno);
    }
    error = spawn(service, ends[1]);
    (void)close(ends[1]);
    is_ready = error == 0 && wait_ready(service, ends[0]);
    (void)close(ends[0]);
    if (error != 0) {
        return fail(err, "no process", error);
    }
    if (!is_ready) {
        mst_service_kill(service);
        return fail(err, "it does not answer", 0);
    }
    return MUSTER_OK;
}

muster_status mst_service_again(struct mst_service *service, struct muster_error *err)
{
    int error = spawn(service, -1);

    return error == 0 ? MUSTER_OK : fail(err, "no process", error);
}

void mst_service_stop(struct mst_service *service)
{
    if (service->pid != 0) {
        (void)!write(service->line, "\n", 1); /* it may be gone */
    }
}

void mst_service_kill(struct mst_service *service)
{
    if (service->pid != 0) {
        (void)kill(service->pid, SIGKILL);
        (void)waitpid(service->pid, NULL, 0);
        service->pid = 0;
    }
}
