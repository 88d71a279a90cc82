/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/exec_signals.h"

static int executable(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        return errno == ENOTDIR ? ENOENT : errno;
    }
    if (!S_ISREG(status.st_mode) || access(path, X_OK) != 0) {
        return EACCES;
    }
    return 0;
}

/* One folder of PATH; an empty one is the current one. */
static int in_folder(const char *folder, size_t size, const char *program, char path[PATH_MAX])
{
    int length = size == 0 ? snprintf(path, PATH_MAX, "./%s", program)
                           : snprintf(path, PATH_MAX, "%.*s/%s", (int)size, folder, program);

    return length < 0 || length >= PATH_MAX ? ENOENT : executable(path);
}

int mst_spawn_find(const char *program, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");
    int worst = ENOENT;

    if (strchr(program, '/') != NULL) {
        if (strlen(program) >= PATH_MAX) {
            return ENOENT;
        }
        (void)snprintf(path, PATH_MAX, "%s", program);
        return executable(path);
    }
    if (folders == NULL) {
        folders = "/usr/local/bin:/usr/bin:/bin";
    }
    while (*program != '\0') {
        size_t size = strcspn(folders, ":");
        int error = in_folder(folders, size, program, path);

        if (error == 0) {
            return 0;
        }
        if (error == EACCES) {
            worst = EACCES;
        }
        if (folders[size] == '\0') {
            break;
        }
        folders += size + 1;
    }
    return worst;
}

/* ---- in the child, between fork and exec: nothing but system calls ---- */

/* One byte makes the kernel skip the dump. Zero would not where dumps are piped to a program. */
static void child_no_dump(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max < 1 ? limit.rlim_max : 1;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
}

static bool child_keeps(int fd)
{
    return fd < 0 || fcntl(fd, F_SETFD, 0) == 0;
}

static bool child_descriptors(const struct mst_spawn *spawn)
{
    int input = spawn->input != 0 ? spawn->input : open("/dev/null", O_RDONLY | O_CLOEXEC);

    return input >= 0 && dup2(input, STDIN_FILENO) >= 0 &&
           (spawn->out < 0 || dup2(spawn->out, STDOUT_FILENO) >= 0) &&
           (spawn->error < 0 || dup2(spawn->error, STDERR_FILENO) >= 0) &&
           child_keeps(spawn->keep[0]) && child_keeps(spawn->keep[1]);
}

static _Noreturn void child_main(const struct mst_spawn *spawn, pid_t parent, int report)
{
    int error;

    if (setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, spawn->death_signal) == 0 &&
        child_descriptors(spawn)) {
        if (getppid() != parent) {
            _exit(125); /* it died before it could be the cause of our death */
        }
        if (!spawn->dump) {
            child_no_dump();
        }
        mst_exec_signals();
        (void)execve(spawn->path, spawn->arguments, spawn->environment);
    }
    error = errno;
    (void)!write(report, &error, sizeof error);
    _exit(127);
}

/* ---- in the parent ---- */

/* The pipe closes without a word when exec succeeds. */
static int exec_error(int report)
{
    int error = 0;
    ssize_t got;

    do {
        got = read(report, &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof error ? error : 0;
}

int mst_spawn(const struct mst_spawn *spawn, pid_t *pid_out)
{
    int ends[2], error;
    sigset_t all, before;
    pid_t parent = getpid(), pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    /* No handler of ours may run in the child, where it would write into our pipes. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) {
        child_main(spawn, parent, ends[1]);
    }
    error = pid < 0 ? errno : 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(ends[1]);
    if (error == 0) {
        error = exec_error(ends[0]);
        if (error != 0) {
            (void)waitpid(pid, NULL, 0);
        }
    }
    (void)close(ends[0]);
    if (error == 0) {
        *pid_out = pid;
    }
    return error;
}
