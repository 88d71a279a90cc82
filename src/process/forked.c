/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/forked.h"
#include "process/binding.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t mst_forked(sigset_t *before)
{
    sigset_t all, own;
    pid_t pid;
    int error;

    before = before != NULL ? before : &own;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, before);
    pid = fork();
    error = errno;
    if (pid != 0) {
        (void)pthread_sigmask(SIG_SETMASK, before, NULL);
    }
    errno = error;
    return pid;
}

bool mst_forked_dies_with(pid_t parent, int number)
{
    return prctl(PR_SET_PDEATHSIG, number) == 0 && getppid() == parent;
}

bool mst_forked_keep(int fd, int number)
{
    return fd == number ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, number) >= 0;
}

void mst_forked_close_on_exec(int first)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) == 0) {
        return;
    }
#endif
    for (int fd = first; fd < 65536; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

void mst_forked_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;

        if (sigaction(number, NULL, &action) == 0 &&
            (action.sa_handler != SIG_IGN || number == SIGPIPE)) {
            (void)signal(number, SIG_DFL);
        }
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

void mst_forked_kill_group(pid_t pid, int number)
{
    if (kill(-pid, number) != 0) {
        (void)kill(pid, number);
    }
}

/* ---- mst_spawn_tied ---- */

/* One byte makes the kernel skip the dump. Zero would not where dumps are piped to a program. */
static void no_dump(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max < 1 ? limit.rlim_max : 1;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
}

static bool stream(int fd, int number)
{
    if (fd == MST_SPAWN_NOWHERE) {
        fd = open("/dev/null", (number == STDIN_FILENO ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
        return fd >= 0 && mst_forked_keep(fd, number);
    }
    return fd < 0 || mst_forked_keep(fd, number);
}

static bool files(const struct mst_spawn *spawn)
{
    bool ok = stream(spawn->input, STDIN_FILENO) && stream(spawn->out, STDOUT_FILENO) &&
              stream(spawn->error, STDERR_FILENO);

    if (spawn->bare) {
        mst_forked_close_on_exec(STDERR_FILENO + 1);
    }
    for (unsigned i = 0; i < MST_SPAWN_GIVEN_MAX && spawn->given[i].number != 0; i++) {
        const struct mst_spawn_given *given = &spawn->given[i];

        ok = ok && (given->fd < 0 || mst_forked_keep(given->fd, given->number));
    }
    return ok;
}

_Noreturn void mst_forked_exec(const struct mst_spawn *spawn, const char *path,
                               const struct mst_forked_tie *tie)
{
    int error;

    if ((spawn->session ? setsid() >= 0 : setpgid(0, 0) == 0) &&
        (spawn->terminal == 0 || ioctl(spawn->terminal, TIOCSCTTY, 0) == 0) &&
        prctl(PR_SET_PDEATHSIG, tie->signal) == 0 && files(spawn) &&
        (!spawn->cpus || mst_cpus_use(spawn->cpus) == 0)) {

        if (getppid() != tie->parent) {
            _exit(125); /* it died before it could be the cause of our death */
        }
        if (!tie->dump) {
            no_dump();
        }
        mst_forked_signals();
        (void)execve(path, spawn->arguments, spawn->environment);
    }
    error = errno;
    (void)!write(tie->report, &error, sizeof error);
    _exit(127);
}
