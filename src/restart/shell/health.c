/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks that need no code. Their waits are repeated on EINTR: neither a late interruption
 * of our own nor a signal of the program's makes a healthy rank an unhealthy one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "process/child.h"
#include "proto/words.h"
#include "restart/shell/restart.h"

static bool unhealthy(struct mst_run_trouble *trouble, int code, const char *what,
                      const char *subject, const char *why)
{
    trouble->status = MUSTER_EUNHEALTHY;
    trouble->code = code;
    mst_text_print(trouble->text, sizeof(trouble->text), "%s '%.*s': %s", what,
                   MST_TEXT_ARGS(subject), why);
    return false;
}

/* --- the folder --- */

static bool folder_failed(struct mst_run_trouble *trouble, const char *folder, int error)
{
    char why[128];

    mst_text_print(why, sizeof(why), "no file can be written there: %s", strerror(error));
    return unhealthy(trouble, error, "health_folder", folder, why);
}

bool mst_health_folder(const char *folder, struct mst_run_trouble *trouble)
{
    char path[PATH_MAX];
    ssize_t written;
    int error;
    int fd;

    if (snprintf(path, sizeof(path), "%s/.muster-health-XXXXXX", folder) >= (int)sizeof(path)) {
        return folder_failed(trouble, folder, ENAMETOOLONG);
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        return folder_failed(trouble, folder, errno);
    }
    do {
        written = write(fd, "muster\n", 7);
    } while (written < 0 && errno == EINTR);
    error = written < 0 ? errno : (written < 7 ? ENOSPC : 0);
    if (close(fd) != 0 && errno != EINTR && error == 0) {
        error = errno;
    }
    if (unlink(path) != 0 && error == 0) {
        error = errno;
    }
    return error == 0 || folder_failed(trouble, folder, error);
}

/* --- the command --- */

/* With nothing of ours but the three standard descriptors, and no signal ignored: a shell could not
 * wait where the program ignores SIGCHLD. 0: it runs. */
static int command_start(struct mst_child *child, const char *command)
{
    union {
        const char *in;
        char *out;
    } words = {.in = command};
    char *const arguments[] = {(char *)"sh", (char *)"-c", words.out, NULL};
    struct mst_spawn spawn = {.program = "/bin/sh",
                              .arguments = arguments,
                              .input = MST_SPAWN_NOWHERE,
                              .out = MST_SPAWN_OURS,
                              .error = MST_SPAWN_OURS,
                              .bare = true};
    struct mst_environment environment;
    int error = ENOMEM;

    if (mst_environment_copy(&environment) == MUSTER_OK) {
        spawn.environment = environment.entries;
        error = mst_child_start(child, &spawn);
        mst_environment_fini(&environment);
    }
    return error;
}

static bool command_ended(struct mst_run_trouble *trouble, const char *command, int how)
{
    int code = WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how);
    const struct mst_caused ended = {.cause = WIFEXITED(how) ? MST_CAUSE_EXIT : MST_CAUSE_SIGNAL,
                                     .code = code};
    char why[64];
    struct mst_text text = mst_text_in(why, sizeof(why));

    if (WIFEXITED(how) && code == 0) {
        return true;
    }
    mst_cause_phrase(&text, &ended);
    return unhealthy(trouble, code, "health_command", command, why);
}

bool mst_health_command(const char *command, int64_t timeout_ms, struct mst_run_trouble *trouble)
{
    uint64_t until_ns = mst_lib_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    char why[96];
    struct mst_child child;
    int how = 0;
    int error = command_start(&child, command);

    if (error != 0) {
        mst_text_print(why, sizeof(why), "cannot be started: %s", strerror(error));
        return unhealthy(trouble, error, "health_command", command, why);
    }
    switch (mst_child_finish(&child, until_ns, -1, &how)) {
    case MST_CHILD_ENDED:
        break;
    case MST_CHILD_UNKNOWN:
        return unhealthy(trouble, ECHILD, "health_command", command,
                         "its end is unknown: the program ignores SIGCHLD, or waits for all "
                         "children; use a health_check callback instead");
    case MST_CHILD_LATE:
        mst_text_print(why, sizeof(why), "did not end within " MST_SECONDS " and was killed",
                       MST_SECONDS_ARGS((uint64_t)timeout_ms));
        return unhealthy(trouble, ETIMEDOUT, "health_command", command, why);
    }
    return command_ended(trouble, command, how);
}
