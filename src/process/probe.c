/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/probe.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/monotonic.h"
#include "os/short_slice.h"
#include "process/death.h"
#include "process/forked.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define FUTEX_32_BITS 2u
#define PATIENCE_S 2 /* with a notice that may never come */

/* Waits for two words, one of which has another value than is waited for; and then for one that
 * nobody changes, until its time is over. */
static bool waitv_works(void)
{
    struct {
        uint64_t value, address;
        uint32_t flags, reserved;
    } words[2];
    static uint32_t word;
    struct timespec over = {.tv_sec = 0};

    for (size_t i = 0; i < 2; i++) {
        words[i].value = i;
        words[i].address = (uint64_t)(uintptr_t)&word;
        words[i].flags = FUTEX_32_BITS;
        words[i].reserved = 0;
    }
    return syscall(SYS_futex_waitv, words, 2, 0, NULL, CLOCK_MONOTONIC) < 0 && errno == EAGAIN &&
           syscall(SYS_futex_waitv, words, 1, 0, &over, CLOCK_MONOTONIC) < 0 && errno == ETIMEDOUT;
}

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

static bool pidfd_works(void)
{
    pid_t pid = victim(NULL);
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    struct pollfd event = {.fd = fd, .events = POLLIN};
    bool works = false;

    if (fd >= 0) {
        (void)kill(pid, SIGKILL);
        works = poll(&event, 1, PATIENCE_S * 1000) == 1;
        (void)close(fd);
    }
    end(pid);
    return works;
}

struct told {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    uint64_t at_ns;
};

static void on_death(void *ctx, uint64_t tag)
{
    struct told *told = ctx;

    (void)tag;
    (void)pthread_mutex_lock(&told->lock);
    told->done = true;
    told->at_ns = mst_clock_ns(CLOCK_MONOTONIC);
    (void)pthread_cond_signal(&told->changed);
    (void)pthread_mutex_unlock(&told->lock);
}

static void wait_told(struct told *told)
{
    struct timespec until = mst_monotonic_in(PATIENCE_S * 1000);

    (void)pthread_mutex_lock(&told->lock);
    while (!told->done &&
           pthread_cond_timedwait(&told->changed, &told->lock, &until) != ETIMEDOUT) {
    }
    (void)pthread_mutex_unlock(&told->lock);
}

/* The child first: it is forked before there are threads. */
static void try_notice(struct mst_probe *out)
{
    struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct mst_page *page = NULL;
    struct mst_death *death = NULL;
    pid_t pid = -1;
    int fd = -1;
    uint64_t start_ns;

    if (mst_page_create(&page, &fd) != MUSTER_OK) {
        return;
    }
    mst_monotonic_cond_init(&told.changed);
    pid = victim(page);
    if (pid > 0 && mst_death_new(&death, on_death, &told, MST_DEATH_BEST) == MUSTER_OK &&
        mst_death_add(death, 1, page) == MUSTER_OK) {
        start_ns = mst_clock_ns(CLOCK_MONOTONIC);
        (void)kill(pid, SIGKILL);
        wait_told(&told);
        out->notice = told.done;
        out->notice_ns = told.done ? told.at_ns - start_ns : 0;
    }
    mst_death_free(death);
    end(pid);
    mst_page_unmap(page);
    (void)close(fd);
}

static void *slice_main(void *arg)
{
    mst_short_slice();
    *(bool *)arg = mst_short_slice_works();
    return NULL;
}

/* On a thread of its own: the slice stays with whoever asked for it. */
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
        .waitv = waitv_works(),
        .pidfd = pidfd_works(),
    };
    try_notice(out);
    out->short_slice = slice_works();
}
