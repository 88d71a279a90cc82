/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/run.h"
#include "launch/say.h"

/* ---- before anything runs ---- */

/* It exists now, made by this process or another one. 0, or the error number. */
static int make_folder(const char *path)
{
    struct stat is;
    int error = mkdir(path, 0777) == 0 ? 0 : errno;

    if (error == 0 || stat(path, &is) != 0) {
        return error;
    }
    return S_ISDIR(is.st_mode) ? 0 : ENOTDIR; /* network file systems do not all say EEXIST */
}

/* With those above it. */
static int make_folders(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            (void)make_folder(path); /* what is wrong with it is wrong with the last one too */
            *at = '/';
        }
    }
    return make_folder(path);
}

/* 0, or the error number. */
static int open_folder(struct mst_logs *logs, const char *given, const char *job)
{
    char path[PATH_MAX], real[PATH_MAX];
    int error;

    if ((size_t)snprintf(path, sizeof path, "%s", given) >= sizeof path) {
        return ENAMETOOLONG;
    }
    error = make_folders(path);
    if (error != 0) {
        return error;
    }
    if (realpath(path, real) == NULL) {
        return errno;
    }
    if ((size_t)snprintf(logs->folder, sizeof logs->folder, "%s/%s", real, job) >=
        sizeof logs->folder) {
        return ENAMETOOLONG;
    }
    error = make_folder(logs->folder);
    return error != 0 || access(logs->folder, W_OK | X_OK) == 0 ? error : errno;
}

int mst_logs_open(struct mst_logs *logs, const char *given, const char *job)
{
    int error;

    if (given == NULL) {
        return 0;
    }
    if (strchr(job, '/') != NULL || job[0] == '.') {
        return mst_refuse(
            "--log-dir %s: the job's name '%s' can name no folder; choose another with -j", given,
            job);
    }
    error = open_folder(logs, given, job);
    if (error != 0) {
        return mst_refuse("--log-dir %s: %s; name a folder in which this user can write", given,
                          strerror(error));
    }
    return 0;
}

/* ---- while it runs ---- */

static void why(const struct mst_logs *logs, int error, char *text, size_t room)
{
    (void)snprintf(text, room, "the logs in %s: %s; what they do not take comes here", logs->folder,
                   strerror(error));
}

/* On the thread of the output, which may wait for the terminal as for any other line. */
static void on_failure(void *ctx, int error)
{
    struct mst_logs *logs = ctx;
    char text[PATH_MAX + 128], line[PATH_MAX + 160];

    if (!atomic_exchange(&logs->told, true)) {
        why(logs, error, text, sizeof text);
        (void)snprintf(line, sizeof line, "muster run: %s\n", text);
        (void)!write(STDERR_FILENO, line, strlen(line));
    }
}

void mst_logs_begin(struct mst_logs *logs, struct mst_output *output)
{
    if (logs->folder[0] != '\0') {
        mst_output_on_failure(output, on_failure, logs);
        mst_say("the ranks' output is in %s/INDEX/ATTEMPT/stdout.log and stderr.log", logs->folder);
    }
}

static int make_file(const struct mst_logs *logs, uint32_t index, const struct mst_log *log,
                     const char *name)
{
    char path[PATH_MAX];

    mst_logs_path(logs, index, log, name, path, sizeof path);
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0666);
}

/* The first free number. 0, or the error number. */
static int take_number(const struct mst_logs *logs, uint32_t index, struct mst_log *log)
{
    char path[PATH_MAX];
    int error;

    if ((size_t)snprintf(path, sizeof path, "%s/%" PRIu32, logs->folder, index) >= sizeof path) {
        return ENAMETOOLONG;
    }
    error = make_folder(path);
    if (error != 0) {
        return error;
    }
    for (;; log->attempt++) {
        mst_logs_path(logs, index, log, "", path, sizeof path);
        if (mkdir(path, 0777) == 0) {
            return 0;
        }
        if (errno != EEXIST) {
            return errno;
        }
    }
}

void mst_logs_make(struct mst_logs *logs, uint32_t index, uint32_t attempts, struct mst_log *out)
{
    char text[PATH_MAX + 128];
    int error;

    *out = (struct mst_log){.attempt = attempts, .out = -1, .error = -1};
    if (logs->folder[0] == '\0') {
        return;
    }
    out->made = true;
    error = take_number(logs, index, out);
    if (error == 0) {
        out->out = make_file(logs, index, out, "stdout.log");
        out->error = out->out >= 0 ? make_file(logs, index, out, "stderr.log") : -1;
        error = out->error >= 0 ? 0 : errno;
    }
    if (error == 0) {
        return;
    }
    if (out->out >= 0) {
        (void)close(out->out);
    }
    *out = (struct mst_log){.out = -1, .error = -1};
    if (!atomic_exchange(&logs->told, true)) {
        why(logs, error, text, sizeof text);
        mst_say("%s", text);
    }
}

void mst_logs_path(const struct mst_logs *logs, uint32_t index, const struct mst_log *log,
                   const char *name, char *path, size_t room)
{
    path[0] = '\0';
    if (log->made && (size_t)snprintf(path, room, "%s/%" PRIu32 "/%" PRIu32 "/%s", logs->folder,
                                      index, log->attempt, name) >= room) {
        path[0] = '\0';
    }
}
