/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "client/shell/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/panic.h"
#include "base/text.h"
#include "client/shell/process_lock.h"
#include "client/shell/signals.h"

enum { STANDARD_OFFSET = 7 };

/* Per signal: how many runs use our handler, and the action before it; and how many use the
 * application's. */
static struct {
    unsigned users, keepers;
    struct sigaction before;
} used[MST_SIGNALS_MAX + 1];

static void nothing(int signal)
{
    (void)signal;
}

int mst_interrupt_standard(void)
{
    return SIGRTMIN + STANDARD_OFFSET;
}

static muster_status refuse(struct muster_error *err, int signal, int os_errno, const char *why)
{
    return mst_fail(err, MUSTER_EINVAL, os_errno, "run with interrupt signal %d%s: %s%s%s", signal,
                    signal == mst_interrupt_standard() ? " (SIGRTMIN+7)" : "", why,
                    os_errno != 0 ? ": " : "", os_errno != 0 ? strerror(os_errno) : "");
}

/* Also those that end a process, which a handler that does nothing would prevent. */
static bool unusable(int signal)
{
    return mst_signals_unusable(signal) || signal == SIGTERM || signal == SIGINT ||
           signal == SIGHUP || signal == SIGQUIT;
}

static bool has_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* What is installed now. */
static muster_status look(int signal, struct sigaction *action, struct muster_error *err)
{
    if (sigaction(signal, NULL, action) != 0) {
        return refuse(err, signal, errno, "cannot be handled");
    }
    if (mst_signals_handle(action)) { /* each interruption would be a notice */
        return refuse(err, signal, 0,
                      "a handle of preempt, or a worker, takes it for a notice "
                      "(MUSTER_PREEMPT_SIGNALS, MUSTER_WORKER_SIGNALS); set "
                      "MUSTER_INTERRUPT_SIGNAL to an unused signal, or to 0 for none");
    }
    return MUSTER_OK;
}

/* With the lock. */
static muster_status install(int signal, struct muster_error *err)
{
    struct sigaction action = {.sa_handler = nothing};
    struct sigaction before;
    muster_status status;

    if (used[signal].users > 0) {
        used[signal].users++;
        return MUSTER_OK;
    }
    status = look(signal, &before, err);
    if (status) {
        return status;
    }
    if (has_handler(&before)) {
        return refuse(err, signal, 0,
                      "the application has a handler for it; set MUSTER_INTERRUPT_SIGNAL to an "
                      "unused signal, or to 0 for none, or use that handler (keep_handler)");
    }
    sigemptyset(&action.sa_mask);
    if (sigaction(signal, &action, NULL) != 0) {
        return refuse(err, signal, errno, "cannot be handled");
    }
    used[signal].before = before;
    used[signal].users = 1;
    return MUSTER_OK;
}

/* With the lock. */
static muster_status keep(int signal, struct muster_error *err)
{
    struct sigaction action;
    muster_status status = look(signal, &action, err);

    if (status) {
        return status;
    }
    if (used[signal].users > 0) {
        return refuse(
            err, signal, 0,
            "a run in another thread has installed muster's handler, so the application's "
            "cannot be used (keep_handler); set keep_handler in both runs");
    }
    if (!has_handler(&action)) {
        return refuse(err, signal, 0,
                      "the application has no handler for it; install one without SA_RESTART "
                      "before the run, or leave keep_handler out");
    }
    if ((action.sa_flags & SA_RESTART) != 0) {
        return refuse(err, signal, 0,
                      "the application's handler has SA_RESTART, so it would interrupt no system "
                      "call; install it without (sigaction, siginterrupt)");
    }
    used[signal].keepers++;
    return MUSTER_OK;
}

/* With the lock. */
static void put_back(const struct mst_interrupt *interrupt)
{
    int signal = interrupt->signal;
    unsigned *count = interrupt->kept ? &used[signal].keepers : &used[signal].users;

    MST_ASSERT(*count > 0);
    if (--*count == 0 && !interrupt->kept) {
        sigaction(signal, &used[signal].before, NULL);
    }
}

muster_status mst_interrupt_arm(struct mst_interrupt *interrupt, int signal, bool keep_handler,
                                struct muster_error *err)
{
    muster_status status;
    sigset_t set;

    *interrupt =
        (struct mst_interrupt){.thread = pthread_self(), .tid = (pid_t)syscall(SYS_gettid)};
    if (signal == 0) {
        return MUSTER_OK;
    }
    if (unusable(signal)) {
        return refuse(err, signal, 0, "this signal cannot be used for it");
    }
    mst_process_lock(MST_LOCK_SIGNALS);
    status = keep_handler ? keep(signal, err) : install(signal, err);
    mst_process_unlock(MST_LOCK_SIGNALS);
    if (status) {
        return status;
    }
    interrupt->signal = signal;
    interrupt->kept = keep_handler;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_UNBLOCK, &set, &interrupt->mask);
    return MUSTER_OK;
}

void mst_interrupt_disarm(struct mst_interrupt *interrupt)
{
    const struct timespec at_once = {0};
    int signal = interrupt->signal;
    sigset_t set;

    if (signal == 0) {
        return;
    }
    MST_ASSERT(pthread_equal(interrupt->thread, pthread_self()));
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    while (sigtimedwait(&set, NULL, &at_once) > 0 || errno == EINTR) {
    }
    mst_process_lock(MST_LOCK_SIGNALS);
    put_back(interrupt);
    mst_process_unlock(MST_LOCK_SIGNALS);
    if (sigismember(&interrupt->mask, signal) != 1) { /* the function may have changed the others */
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    }
    interrupt->signal = 0;
}

bool mst_interrupt_uses(int signal)
{
    return used[signal].users > 0 || used[signal].keepers > 0;
}

void mst_interrupt_send(const struct mst_interrupt *interrupt)
{
    if (interrupt->signal != 0) {
        (void)pthread_kill(interrupt->thread, interrupt->signal);
    }
}

/* Whether the thread is blocked in a system call that is no write. Where the kernel does not tell:
 * false. */
static bool waits_elsewhere(pid_t tid)
{
    char path[64], call[16] = "";
    long number;
    ssize_t size;
    char *end;
    int fd;

    mst_text_print(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size = read(fd, call, sizeof(call) - 1);
    (void)close(fd);
    number = size > 0 ? strtol(call, &end, 10) : -1; /* "running" has no number */
    return size > 0 && end != call && number >= 0 && number != SYS_write && number != SYS_writev;
}

static bool take(FILE *const streams[2])
{
    if (ftrylockfile(streams[0]) != 0) {
        return false;
    }
    if (ftrylockfile(streams[1]) != 0) {
        funlockfile(streams[0]);
        return false;
    }
    return true;
}

void mst_interrupt_send_sparing(const struct mst_interrupt *interrupt)
{
    FILE *const streams[2] = {stdout, stderr};

    if (interrupt->signal == 0) {
        return;
    }
    if (take(streams)) {
        mst_interrupt_send(interrupt);
        funlockfile(streams[1]);
        funlockfile(streams[0]);
    } else if (waits_elsewhere(interrupt->tid)) {
        mst_interrupt_send(interrupt);
    }
}
