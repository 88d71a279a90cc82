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
#include "restart/shell/restart.h"

enum { NS_PER_MS = 1000000 };

static bool unhealthy(struct mst_run_trouble *trouble, int code, const char *what,
                      const char *subject, const char *why)
{
    struct mst_text text = mst_text_in(trouble->text, sizeof(trouble->text));

    trouble->status = MUSTER_EUNHEALTHY;
    trouble->code = code;
    mst_text_add(&text, what);
    mst_text_add(&text, " '");
    mst_text_slice(&text, mst_slice_text(subject));
    mst_text_add(&text, "': ");
    mst_text_add(&text, why);
    return false;
}

/* --- the folder --- */

static bool folder_failed(struct mst_run_trouble *trouble, const char *folder, int error)
{
    char why[128];
    struct mst_text text = mst_text_in(why, sizeof(why));

    mst_text_add(&text, "no file can be written there: ");
    mst_text_add(&text, strerror(error));
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
    char why[64];
    struct mst_text text = mst_text_in(why, sizeof(why));

    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) {
        return true;
    }
    if (WIFEXITED(how)) {
        mst_text_add(&text, "ended with status ");
        mst_text_i64(&text, WEXITSTATUS(how));
        return unhealthy(trouble, WEXITSTATUS(how), "health_command", command, why);
    }
    mst_text_add(&text, "killed by signal ");
    mst_text_i64(&text, WTERMSIG(how));
    return unhealthy(trouble, WTERMSIG(how), "health_command", command, why);
}

bool mst_health_command(const char *command, int64_t timeout_ms, struct mst_run_trouble *trouble)
{
    uint64_t until_ns = mst_lib_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    char why[96];
    struct mst_text text = mst_text_in(why, sizeof(why));
    struct mst_child child;
    int how = 0;
    int error = command_start(&child, command);

    if (error != 0) {
        mst_text_add(&text, "cannot be started: ");
        mst_text_add(&text, strerror(error));
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
        mst_text_add(&text, "did not end within ");
        mst_text_seconds(&text, (uint64_t)timeout_ms);
        mst_text_add(&text, " and was killed");
        return unhealthy(trouble, ETIMEDOUT, "health_command", command, why);
    }
    return command_ended(trouble, command, how);
}
