/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "os/system.h"
#include "process/environment.h"
#include "process/tagged.h"
#include "service/server/journal_folder.h"

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
    char text[8 * PATH_MAX];
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

/* Who may connect. */
static void add_access(struct flags *flags, const struct mst_service *service)
{
    if (service->secret_fd >= 0) {
        add(flags, "--secret-fd=%d", service->secret_fd);
    } else if (service->secret[0] != '\0') {
        add(flags, "--secret-file=%s", service->secret);
    } else {
        add(flags, "--insecure");
    }
}

/* Some are there also when they say nothing: the environment may be that of another run. */
static void add_all(struct flags *flags, const struct mst_service *service, int ready)
{
    const char *http = mst_service_http(service);

    add(flags, "--log-level=warn");
    add(flags, "--journal=%s", service->journal);
    add(flags, "--orphan-removes=%s", service->secret_made ? "secret" : "journal");
    if (ready >= 0) {
        add(flags, "--ready-fd=%d", ready);
    }
    add(flags, "--http=%.320s", http != NULL ? http : "");
    add(flags, "--buffered-bytes-max=%" PRIu64, service->buffered_bytes_max);
    add(flags, "--record=%.4095s", service->record != NULL ? service->record : "");
    add(flags, "--job=%s", service->job);
    if (service->lease[0] != '\0') {
        add(flags, "--lease=%s", service->lease);
    }
    if (service->bound[0] != '\0') {
        add(flags, "--addr=%s", service->bound);
        add_access(flags, service);
    }
}

/* `ready` is its end of a pipe, or -1. Where the run is what another one has started, that one
 * kills all with its tag when it ends, and nobody would remove this one's journal and socket. */
static int serve(struct mst_service *service, int ready)
{
    struct flags flags = {.count = 0};
    struct mst_environment environment;
    struct mst_serve how = {.program = "/proc/self/exe",
                            .name = "muster",
                            .addr = service->addr,
                            .flags = flags.list,
                            .given = {{ready, ready}, {service->secret_fd, service->secret_fd}},
                            .tied = true};
    struct mst_served served;
    int error;

    if (mst_environment_init(&environment, environ) != MUSTER_OK) {
        return ENOMEM;
    }
    (void)mst_environment_set(&environment, MST_TAG_VARIABLE, NULL);
    add_all(&flags, service, ready);
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
    char line[sizeof service->http_got];
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
    error = serve(service, ends[1]);
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
    int error = serve(service, -1);

    return error == 0 ? MUSTER_OK : fail(err, "no process", error);
}

void mst_service_stop(struct mst_service *service)
{
    if (service->served.child.pid != 0) {
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
