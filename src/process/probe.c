/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/probe.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/short_slice.h"
#include "os/system.h"
#include "process/death.h"
#include "process/forked.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define PATIENCE_S 2 /* with a notice that may never come */

/* A child that waits to be killed, holding `page` if there is one. It has said that it is there. */
static pid_t victim(struct mst_page *page)
{
    int ends[2];
    char word = 0;
    pid_t self = getpid();
    pid_t pid;

    if (pipe(ends) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        if (!mst_forked_dies_with(self, SIGKILL) || (page && !mst_page_hold(page))) {
            _exit(1);
        }
        (void)!write(ends[1], "\n", 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    while (read(ends[0], &word, 1) < 0 && errno == EINTR) {
    }
    (void)close(ends[0]);
    return pid;
}

static void end(pid_t pid)
{
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
}

static bool comes(int fd)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};

    return poll(&event, 1, PATIENCE_S * 1000) == 1;
}

static bool pidfd_works(void)
{
    pid_t pid = victim(NULL);
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    bool works = false;

    if (fd >= 0) {
        (void)kill(pid, SIGKILL);
        works = comes(fd);
        (void)close(fd);
    }
    end(pid);
    return works;
}

struct notice {
    int bell;
    uint64_t at_ns;
};

static void on_death(void *ctx, uint64_t tag)
{
    struct notice *notice = ctx;

    (void)tag;
    notice->at_ns = mst_system_now_ns();
    mst_system_event_ring(notice->bell);
}

/* The child first: it is forked before there are threads. */
static void try_notice(struct mst_probe *out)
{
    struct notice notice = {.bell = mst_system_event()};
    struct mst_page *page = NULL;
    struct mst_death *death = NULL;
    pid_t pid = -1;
    int fd = -1;
    uint64_t start_ns;

    if (mst_page_create(&page, &fd) == MUSTER_OK) {
        pid = victim(page);
        (void)close(fd);
    }
    if (pid > 0 && mst_death_new(&death, on_death, &notice, MST_DEATH_BEST) == MUSTER_OK &&
        mst_death_add(death, 1, page) == MUSTER_OK) {
        start_ns = mst_system_now_ns();
        (void)kill(pid, SIGKILL);
        out->notice = comes(notice.bell);
        out->notice_ns = out->notice ? notice.at_ns - start_ns : 0;
    }
    mst_death_free(death);
    end(pid);
    mst_page_unmap(page);
    if (notice.bell >= 0) {
        (void)close(notice.bell);
    }
}

static void *slice_main(void *works_out)
{
    mst_short_slice();
    *(bool *)works_out = mst_short_slice_works();
    return NULL;
}

/* On a thread of its own: the slice stays with the thread that asked. */
static bool slice_works(void)
{
    pthread_t thread;
    bool works = false;

    if (pthread_create(&thread, NULL, slice_main, &works) == 0) {
        (void)pthread_join(thread, NULL);
    }
    return works;
}

void mst_probe(struct mst_probe *out)
{
    *out = (struct mst_probe){
        .waitv = mst_death_many_at_once(),
        .pidfd = pidfd_works(),
    };
    try_notice(out);
    out->short_slice = slice_works();
}
