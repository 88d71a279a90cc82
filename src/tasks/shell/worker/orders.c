/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's end of the supervisor (supervisor.c): forks it when serve begins, gives it orders
 * and takes its reports. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/descriptors.h"
#include "process/forked.h"
#include "tasks/shell/worker/supervisor.h"

enum { FDS_MAX = MST_WORK_COMMAND_FDS };

/* No handler may run in it, and no thread of ours may be in the middle of something: the client's
 * is the only other one, and waits for the lock. */
static pid_t fork_supervisor(struct muster_worker *worker, int control, const int *ours)
{
    struct mst_supervisor supervisor = {
        .worker = worker,
        .count = 2 * worker->slots,
        .processes = calloc(2 * (size_t)worker->slots, sizeof(*supervisor.processes)),
        .control = control,
        .parent = getpid()};
    sigset_t all;
    pid_t pid;
    int error;

    if (!supervisor.processes) {
        errno = ENOMEM;
        return -1;
    }
    mst_lib_lock(worker->client);
    pid = mst_forked(&supervisor.before);
    if (pid == 0) {
        (void)sigfillset(&all);
        (void)close(*ours);
        /* Each process below it gets the standard streams anew. */
        supervisor.control = mst_descriptor_beyond_streams(control);
        supervisor.signals =
            mst_descriptor_beyond_streams(signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
        mst_work_supervisor_main(&supervisor);
    }
    error = errno;
    mst_lib_unlock(worker->client);
    free(supervisor.processes);
    errno = error;
    return pid;
}

muster_status mst_work_supervisor_start(struct muster_worker *worker, struct muster_error *err)
{
    int ends[2], failed;

    if ((worker->places & ~(1U << MST_WORK_HERE)) == 0) {
        return MUSTER_OK;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return mst_lib_fail_system(err, "serve", errno);
    }
    worker->supervisor_pid = fork_supervisor(worker, ends[1], &ends[0]);
    failed = errno;
    (void)close(ends[1]);
    if (worker->supervisor_pid < 0) {
        (void)close(ends[0]);
        return mst_lib_fail_system(err, "serve", failed);
    }
    worker->supervisor = ends[0];
    return MUSTER_OK;
}

bool mst_work_supervisor_ask(struct muster_worker *worker, enum mst_supervisor_order what,
                             uint32_t id, int signal, const char *scratch, const int *fds,
                             int count)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } rest = {0};
    struct mst_supervisor_word order = {.order = what, .id = id, .signal = signal};
    struct iovec bytes = {.iov_base = &order, .iov_len = sizeof(order)};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    ssize_t sent;

    if (scratch) {
        (void)snprintf(order.scratch, sizeof(order.scratch), "%s", scratch);
    }
    if (count > 0) {
        struct cmsghdr *head = &rest.head;

        message.msg_control = rest.room;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, (size_t)count * sizeof(int));
    }
    do {
        sent = sendmsg(worker->supervisor, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof(order);
}

/* It cannot be replaced: a threaded process should not fork another. */
static void lost(struct muster_worker *worker)
{
    (void)epoll_ctl(worker->epoll, EPOLL_CTL_DEL, worker->supervisor, NULL);
    for (uint32_t slot = 0; slot < worker->slots; slot++) {
        mst_work_child_ended(worker, slot, 0, SIGKILL);
        mst_work_command_ended(worker, slot, 0, SIGKILL);
    }
    mst_work_fail(worker, MUSTER_EINTERNAL,
                  "the process that keeps this worker's children and commands was killed: the "
                  "worker ends");
}

void mst_work_supervisor_ready(struct muster_worker *worker)
{
    struct mst_supervisor_report report;
    ssize_t got;

    while ((got = recv(worker->supervisor, &report, sizeof(report), MSG_DONTWAIT)) ==
           (ssize_t)sizeof(report)) {
        if (report.id < worker->slots) {
            mst_work_child_ended(worker, report.id, report.error, report.status);
        } else {
            mst_work_command_ended(worker, report.id - worker->slots, report.error, report.status);
        }
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        lost(worker);
    }
}

void mst_work_supervisor_end(struct muster_worker *worker)
{
    if (worker->supervisor >= 0) {
        for (uint32_t i = 0; i < worker->slots; i++) {
            mst_work_child_forget(&worker->slot[i].child);
        }
        (void)mst_work_supervisor_ask(worker, MST_SUPERVISOR_END, 0, 0, NULL, NULL, 0);
        while (waitpid(worker->supervisor_pid, NULL, 0) < 0 && errno == EINTR) {
        }
        (void)close(worker->supervisor);
        worker->supervisor = -1;
    }
}
