/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/child.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/descriptors.h"
#include "os/system.h"

enum { LOOK_MS = 10 };

int mst_child_start(struct mst_child *child, const struct mst_spawn *spawn)
{
    pid_t pid = 0;
    int error = mst_spawn(spawn, &pid);

    mst_child_adopt(child, pid);
    return error;
}

void mst_child_adopt(struct mst_child *child, pid_t pid)
{
    child->pid = pid;
    child->pidfd =
        pid > 0 ? mst_descriptor_beyond_streams((int)syscall(SYS_pidfd_open, pid, 0)) : -1;
}

static bool runs(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

static int left_ms(uint64_t until_ns)
{
    uint64_t left = mst_ms_until(until_ns, mst_system_now_ns());

    return left < INT_MAX ? (int)left : INT_MAX;
}

bool mst_child_await(const struct mst_child *child, uint64_t until_ns, int stop_fd)
{
    struct pollfd fds[2] = {{.fd = child->pidfd, .events = POLLIN},
                            {.fd = stop_fd, .events = POLLIN}};

    while (child->pid != 0 && runs(child->pid)) {
        int wait_ms = left_ms(until_ns);

        if (wait_ms == 0 || fds[1].revents != 0) {
            return false;
        }
        /* Without a pidfd (Linux before 5.3) it has to look now and then. */
        (void)poll(fds, 2, child->pidfd >= 0 || wait_ms < LOOK_MS ? wait_ms : LOOK_MS);
    }
    return true;
}

bool mst_child_read(int fd, uint64_t until_ns, int stop_fd, char *bytes, size_t room,
                    size_t *size_out)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
    bool ended = false;

    *size_out = 0;
    while (*size_out < room && !ended) {
        int wait_ms = left_ms(until_ns);
        int ready = wait_ms > 0 ? poll(fds, 2, wait_ms) : 0;
        ssize_t got;

        if (ready < 0) {
            continue; /* a signal */
        }
        if (ready == 0 || fds[1].revents != 0) {
            return false;
        }
        got = read(fd, bytes + *size_out, room - *size_out);
        if (got < 0 && errno != EINTR && errno != EAGAIN) {
            return false;
        }
        ended = got == 0;
        *size_out += got > 0 ? (size_t)got : 0;
    }
    return ended;
}

void mst_child_signal(const struct mst_child *child, int number)
{
    if (child->pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, child->pidfd, number, NULL, 0);
    } else if (child->pid > 0) {
        (void)kill(child->pid, number); /* not reaped by us: the number is its own */
    }
}

bool mst_child_reap(struct mst_child *child, int *status_out)
{
    pid_t reaped = 0;

    while (child->pid != 0 && (reaped = waitpid(child->pid, status_out, 0)) < 0 && errno == EINTR) {
    }
    if (child->pidfd >= 0) {
        (void)close(child->pidfd);
    }
    *child = (struct mst_child){.pidfd = -1};
    return reaped > 0;
}

enum mst_child_end mst_child_finish(struct mst_child *child, uint64_t until_ns, int stop_fd,
                                    int *status_out)
{
    bool in_time = mst_child_await(child, until_ns, stop_fd);
    bool known;

    if (child->pid > 0) {
        (void)kill(-child->pid, SIGKILL);
    }
    known = mst_child_reap(child, status_out);
    if (!in_time) {
        return MST_CHILD_LATE;
    }
    return known ? MST_CHILD_ENDED : MST_CHILD_UNKNOWN;
}
