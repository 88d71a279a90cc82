/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks that need no code. Their waits are repeated on EINTR: neither a late interruption
 * of our own nor a signal of the program's makes a healthy rank an unhealthy one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "restart/shell/restart.h"

enum { NS_PER_MS = 1000000, LOOK_MS = 10 };

extern char **environ;

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

/* In a process group of its own, with no signal blocked or ignored (a shell could not wait where
 * the program ignores SIGCHLD) and nothing of ours but the three standard descriptors. 0: it runs.
 */
static int command_start(pid_t *pid, const char *command)
{
    union {
        const char *in;
        char *out;
    } words = {.in = command};
    char *const argv[] = {(char *)"sh", (char *)"-c", words.out, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t standard;
    int error;

    sigemptyset(&none);
    sigfillset(&standard);
    if (posix_spawnattr_init(&attributes) != 0) {
        return ENOMEM;
    }
    if (posix_spawn_file_actions_init(&actions) != 0) {
        (void)posix_spawnattr_destroy(&attributes);
        return ENOMEM;
    }
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setsigdefault(&attributes, &standard);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    if (error == 0) {
        error = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    }
#endif
#endif
    if (error == 0) {
        mst_environment_lock();
        error = posix_spawn(pid, "/bin/sh", &actions, &attributes, argv, environ);
        mst_environment_unlock();
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

static int left_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = mst_lib_now_ns();

    return now_ns >= deadline_ns ? 0 : (int)((deadline_ns - now_ns - 1) / NS_PER_MS) + 1;
}

/* Until the process has ended, which stays to be reaped; false: not in time. */
static bool command_await(pid_t pid, int pidfd, uint64_t deadline_ns)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    siginfo_t info = {0};

    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
        int wait_ms = left_ms(deadline_ns);

        if (wait_ms == 0) {
            return false;
        }
        /* Without a pidfd (Linux before 5.3) it has to look now and then. */
        (void)poll(&ended, 1, pidfd >= 0 || wait_ms < LOOK_MS ? wait_ms : LOOK_MS);
    }
    return true;
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
    uint64_t deadline_ns = mst_lib_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    char why[96];
    struct mst_text text = mst_text_in(why, sizeof(why));
    pid_t pid = 0;
    int how = 0;
    int error = command_start(&pid, command);
    bool in_time;
    int pidfd;
    pid_t reaped;

    if (error != 0) {
        mst_text_add(&text, "cannot be started: ");
        mst_text_add(&text, strerror(error));
        return unhealthy(trouble, error, "health_command", command, why);
    }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
    in_time = command_await(pid, pidfd, deadline_ns);
    if (pidfd >= 0) {
        (void)close(pidfd);
    }
    /* What it left behind goes with it. The group is there as long as it was not reaped. */
    (void)kill(-pid, SIGKILL);
    do {
        reaped = waitpid(pid, &how, 0);
    } while (reaped < 0 && errno == EINTR);
    if (!in_time) {
        mst_text_add(&text, "did not end within ");
        mst_text_seconds(&text, (uint64_t)timeout_ms);
        mst_text_add(&text, " and was killed");
        return unhealthy(trouble, ETIMEDOUT, "health_command", command, why);
    }
    if (reaped != pid) {
        return unhealthy(trouble, ECHILD, "health_command", command,
                         "its end is unknown: the program ignores SIGCHLD, or waits for all "
                         "children; use a health_check callback instead");
    }
    return command_ended(trouble, command, how);
}
