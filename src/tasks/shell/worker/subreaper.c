/* SPDX-License-Identifier: Apache-2.0 */
/* A process above each command: whatever the command starts stays below it, in whichever
 * session, for orphans become its children. So it can end all of that with the command, when it is
 * asked to, and when the supervisor dies. It has one thread; supervisor.c says what it may call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/system.h"
#include "process/forked.h"
#include "process/proc_stat.h"
#include "tasks/shell/worker/child.h"

enum {
    SWEEP_MS = 2000,    /* for killed processes to end; the kernel keeps some longer */
    SWEEP_PAUSE_MS = 20 /* at most, between two looks */
};

/* ---- in the process that becomes the command ---- */

static _Noreturn void be_command(pid_t subreaper, const char *scratch, const int *fds, int ending)
{
    struct mst_work_ending failed = {0};

    (void)setsid();
    if (!mst_forked_dies_with(subreaper, SIGKILL)) {
        _exit(125);
    }
    if (mst_forked_keep(fds[0], STDIN_FILENO) && mst_forked_keep(fds[1], STDOUT_FILENO) &&
        mst_forked_keep(fds[2], STDERR_FILENO) && chdir(scratch) == 0) {
        mst_forked_close_on_exec(STDERR_FILENO + 1);
        mst_forked_signals();
        mst_work_exec(fds[3]);
    }
    failed.error = errno;
    (void)!write(ending, &failed, sizeof(failed));
    _exit(127);
}

/* ---- in the subreaper ---- */

static void kill_children(void)
{
    struct mst_folder proc;
    struct mst_proc_stat stat;
    pid_t self = getpid(), pid;

    if (!mst_folder_open(&proc, AT_FDCWD, "/proc")) {
        return;
    }
    while ((pid = mst_proc_stat_next(&proc)) != 0) {
        (void)mst_proc_stat_of(pid, &stat);
        if (stat.parent == self) {
            (void)kill(pid, SIGKILL);
        }
    }
    mst_folder_close(&proc);
}

static bool has_children(void)
{
    pid_t pid;

    do {
        pid = waitpid(-1, NULL, WNOHANG);
    } while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid == 0;
}

/* What has left the command's group is a child of this process by now, or will be, as those between
 * them die: each of these deaths is seen before the next look. */
static void sweep(void)
{
    const struct timespec pause = mst_clock_timespec(SWEEP_PAUSE_MS * NS_PER_MS);
    uint64_t until_ns = mst_system_now_ns() + (uint64_t)SWEEP_MS * NS_PER_MS;
    sigset_t ended;

    (void)sigemptyset(&ended);
    (void)sigaddset(&ended, SIGCHLD);
    while (has_children() && mst_system_now_ns() < until_ns) {
        kill_children();
        (void)sigtimedwait(&ended, NULL, &pause);
    }
}

/* Orphans that ended, until it is the command. */
static bool has_ended(pid_t command)
{
    siginfo_t info = {0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid != 0) {
        if (info.si_pid == command) {
            return true;
        }
        (void)waitpid(info.si_pid, NULL, 0);
        info.si_pid = 0;
    }
    return false;
}

/* Until it has ended: its status. */
static int look_after(pid_t command)
{
    sigset_t news;
    int status = 0;

    (void)sigemptyset(&news);
    (void)sigaddset(&news, SIGCHLD);
    (void)sigaddset(&news, SIGTERM);
    (void)sigaddset(&news, MST_WORK_SUBREAPER_KILL);
    while (!has_ended(command)) {
        int number = sigwaitinfo(&news, NULL);

        if (number == SIGTERM) {
            mst_forked_kill_group(command, SIGTERM);
        } else if (number == MST_WORK_SUBREAPER_KILL) {
            mst_forked_kill_group(command, SIGKILL);
        }
    }
    mst_forked_kill_group(command, SIGKILL); /* not reaped: the number can be no other group's */
    (void)waitpid(command, &status, 0);
    return status;
}

_Noreturn void mst_work_subreaper_main(pid_t supervisor, const char *scratch, const int *fds,
                                       int ending)
{
    struct mst_work_ending end = {0};
    pid_t self = getpid();
    pid_t command;

    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
        !mst_forked_dies_with(supervisor, MST_WORK_SUBREAPER_KILL)) {
        _exit(125);
    }
    command = fork();
    if (command == 0) {
        be_command(self, scratch, fds, ending);
    }
    if (command > 0) {
        for (int i = 0; i < MST_WORK_COMMAND_FDS; i++) {
            (void)close(fds[i]);
        }
        end.status = look_after(command);
        sweep();
    } else {
        end.error = errno;
    }
    (void)!write(ending, &end, sizeof(end));
    if (getppid() != supervisor) {
        mst_folder_remove(scratch);
    }
    _exit(0);
}
