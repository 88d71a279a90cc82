/* SPDX-License-Identifier: Apache-2.0 */
/* The process that forks the children and commands of a worker, waits for them and ends them. It
 * has one thread, so that a process that is started later is never forked from a threaded one, and
 * a crashed child can be replaced. It outlives a killed worker for as long as it takes to kill all
 * others: the end of their socket and its parent-death signal show it the worker's death. It is in
 * a group of its own, or a kill of the worker's group would kill the supervisor of the other groups
 * as well. A command has a process of its own above it (subreaper.c), which is what is started and
 * ended here.
 *
 * The worker may have had threads when it forked this process, in the middle of anything: so this
 * file, subreaper.c and exec.c call async-signal-safe functions only, which tools/tidy checks. A
 * child that runs functions is a process like any other from mst_work_child_main on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/forked.h"
#include "tasks/shell/worker/supervisor.h"

#define SOFT_END_MS 2000

enum { FDS_MAX = MST_WORK_COMMAND_FDS };

/* ---- descriptors ---- */

/* No descriptor that comes later is taken for one of them. */
static void have_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* ---- in the processes that it forks ---- */

static _Noreturn void be_child(const struct mst_supervisor *supervisor, pid_t parent,
                               const struct mst_supervisor_word *order, const int *fds)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)setpgid(0, 0);
    if (!mst_forked_dies_with(parent, SIGKILL)) {
        _exit(125);
    }
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)close(null);
    }
    (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* what a function prints is no answer */
    (void)close(supervisor->control);
    (void)close(supervisor->signals);
    (void)sigprocmask(SIG_SETMASK, &supervisor->before, NULL);
    mst_work_child_main(supervisor->worker, order->id, fds[0]);
}

/* ---- in the supervisor ---- */

static void report(struct mst_supervisor *supervisor, struct mst_work_process *process)
{
    if (send(supervisor->control, &process->report, sizeof(process->report),
             MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ||
        (errno != EAGAIN && errno != EWOULDBLOCK)) {
        process->ended = false;
    }
}

static void signal_to(const struct mst_work_process *process, int number)
{
    if (process->ending < 0) {
        mst_forked_kill_group(process->pid, number);
    } else {
        (void)kill(process->pid, number == SIGKILL ? MST_WORK_SUBREAPER_KILL : number);
    }
}

static void clean_after(struct mst_supervisor *supervisor, struct mst_work_process *process)
{
    if (process->scratch[0] == '\0') {
        return;
    }
    if (supervisor->ending) {
        mst_folder_remove(process->scratch);
    } else {
        pid_t pid = fork();

        if (pid == 0) {
            (void)close(supervisor->control); /* its end means the supervisor's */
            mst_folder_remove(process->scratch);
            _exit(0);
        }
    }
    process->scratch[0] = '\0';
}

static void end_of(struct mst_supervisor *supervisor, struct mst_work_process *process, int error,
                   int status)
{
    uint32_t id = (uint32_t)(process - supervisor->processes);

    if (process->ending >= 0) {
        (void)close(process->ending);
        process->ending = -1;
    }
    process->pid = 0;
    process->ended = true;
    process->report = (struct mst_supervisor_report){.id = id, .error = error, .status = status};
    clean_after(supervisor, process);
    report(supervisor, process);
}

static struct mst_work_process *process_of(struct mst_supervisor *supervisor, pid_t pid)
{
    for (uint32_t i = 0; i < supervisor->count; i++) {
        if (supervisor->processes[i].pid == pid) {
            return &supervisor->processes[i];
        }
    }
    return NULL;
}

/* The first word counts: of the command, that it could not be run; or of its subreaper at the end.
 */
static struct mst_work_ending ending_of(const struct mst_work_process *process, int status)
{
    struct mst_work_ending ending;

    if (process->ending < 0 ||
        read(process->ending, &ending, sizeof(ending)) != (ssize_t)sizeof(ending)) {
        ending = (struct mst_work_ending){.status = status};
    }
    return ending;
}

/* False: there is none left; or with `wait` false, none that has ended. */
static bool reap(struct mst_supervisor *supervisor, bool wait)
{
    siginfo_t info = {0};
    struct mst_work_process *process;
    int status = 0;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | (wait ? 0 : WNOHANG)) != 0 ||
        info.si_pid == 0) {
        return wait && errno == EINTR;
    }
    process = process_of(supervisor, info.si_pid);
    if (process && process->ending < 0) {
        mst_forked_kill_group(info.si_pid, SIGKILL); /* not reaped: no other group has the number */
    }
    (void)waitpid(info.si_pid, &status, 0);
    if (process) {
        struct mst_work_ending ending = ending_of(process, status);

        end_of(supervisor, process, ending.error, ending.status);
    }
    return true;
}

static _Noreturn void be_subreaper(const struct mst_supervisor *supervisor, pid_t parent,
                                   const struct mst_supervisor_word *order, const int *fds,
                                   int ending)
{
    (void)close(supervisor->control); /* its end means the supervisor's */
    (void)close(supervisor->signals);
    mst_work_subreaper_main(parent, order->scratch, fds, ending);
}

static void start(struct mst_supervisor *supervisor, const struct mst_supervisor_word *order,
                  const int *fds, int count)
{
    struct mst_work_process *process = &supervisor->processes[order->id];
    bool child = order->order == MST_SUPERVISOR_CHILD;
    int ends[2] = {-1, -1};
    pid_t self = getpid(), pid = -1;

    memcpy(process->scratch, order->scratch, sizeof(process->scratch));
    process->ending = -1;
    if (count < (child ? 1 : FDS_MAX)) { /* not all of them found a place here */
        end_of(supervisor, process, EMFILE, 0);
        return;
    }
    if (child || pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
        process->ending = ends[0];
        pid = fork();
    }
    if (pid == 0 && child) {
        be_child(supervisor, self, order, fds);
    } else if (pid == 0) {
        be_subreaper(supervisor, self, order, fds, ends[1]);
    } else if (pid < 0) {
        end_of(supervisor, process, errno, 0);
    } else {
        process->pid = pid;
    }
    if (ends[1] >= 0) {
        (void)close(ends[1]);
    }
}

static ssize_t receive(int control, struct mst_supervisor_word *order, int *fds, int *count)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } rest = {0};
    struct iovec bytes = {.iov_base = order, .iov_len = sizeof(*order)};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = rest.room,
                             .msg_controllen = sizeof(rest.room)};
    ssize_t got = recvmsg(control, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    *count = 0;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        *count = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(head), (size_t)*count * sizeof(int));
    }
    return got;
}

/* False: the worker has died. */
static bool obey(struct mst_supervisor *supervisor)
{
    struct mst_supervisor_word order;
    int fds[FDS_MAX], count;
    ssize_t got = receive(supervisor->control, &order, fds, &count);

    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        return false;
    }
    if (got != (ssize_t)sizeof(order)) {
        return true;
    }
    switch ((enum mst_supervisor_order)order.order) {
    case MST_SUPERVISOR_CHILD:
    case MST_SUPERVISOR_COMMAND:
        start(supervisor, &order, fds, count);
        break;
    case MST_SUPERVISOR_SIGNAL:
        if (supervisor->processes[order.id].pid != 0) {
            signal_to(&supervisor->processes[order.id], order.signal);
        }
        break;
    case MST_SUPERVISOR_END:
        supervisor->ending = true;
        break;
    }
    for (int i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
    return true;
}

static void kill_all(struct mst_supervisor *supervisor)
{
    supervisor->ending = true;
    for (uint32_t i = 0; i < supervisor->count; i++) {
        if (supervisor->processes[i].pid != 0) {
            signal_to(&supervisor->processes[i], SIGKILL);
        }
    }
    while (reap(supervisor, true)) {
    }
}

/* False: the worker has died. */
static bool look(struct mst_supervisor *supervisor, short control)
{
    struct signalfd_siginfo info;

    while (read(supervisor->signals, &info, sizeof(info)) > 0) {
    }
    while (reap(supervisor, false)) {
    }
    for (uint32_t i = 0; i < supervisor->count; i++) {
        if (supervisor->processes[i].ended) {
            report(supervisor, &supervisor->processes[i]);
        }
    }
    return getppid() == supervisor->parent && ((control & ~POLLOUT) == 0 || obey(supervisor));
}

/* Whether one is running; and whether the end of one is still to be reported. */
static bool has_any(const struct mst_supervisor *supervisor, bool *unreported)
{
    bool any = false;

    *unreported = false;
    for (uint32_t i = 0; i < supervisor->count; i++) {
        any = any || supervisor->processes[i].pid != 0;
        *unreported = *unreported || supervisor->processes[i].ended;
    }
    return any;
}

_Noreturn void mst_work_supervisor_main(struct mst_supervisor *supervisor)
{
    struct pollfd polled[2] = {{.fd = supervisor->control},
                               {.fd = supervisor->signals, .events = POLLIN}};
    bool unreported;

    (void)setpgid(0, 0);
    muster_client_close(supervisor->worker->client); /* its descriptors are the worker's */
    have_streams();
    (void)signal(SIGCHLD, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGUSR2) != 0 || supervisor->signals < 0) {
        _exit(1);
    }
    while (has_any(supervisor, &unreported) || !supervisor->ending) {
        polled[0].events = unreported ? POLLIN | POLLOUT : POLLIN;
        if (poll(polled, 2, supervisor->ending ? SOFT_END_MS : -1) == 0 ||
            !look(supervisor, polled[0].revents)) {
            break;
        }
    }
    kill_all(supervisor);
    _exit(0);
}
