/* SPDX-License-Identifier: Apache-2.0 */
/* The signal that cuts blocking calls short: which calls it frees, and that nothing of it is left.
 *
 * behaviour: restart / Being called out */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/shell/interrupt.h"

struct sender {
    const struct mst_interrupt *interrupt;
    void (*send)(const struct mst_interrupt *interrupt);
    sem_t returned;
};

/* As the library does it: again and again until the call has returned. */
static void *send_until_returned(void *ctx)
{
    struct sender *sender = ctx;
    struct timespec until;

    do {
        sender->send(sender->interrupt);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
    } while (sem_timedwait(&sender->returned, &until) != 0);
    return NULL;
}

static int pair[2];
static volatile sig_atomic_t counted;

static int block_read(void)
{
    char byte;

    return (int)read(pair[0], &byte, 1);
}

static int block_recv(void)
{
    char byte;

    return (int)recv(pair[0], &byte, 1, 0);
}

static int block_poll(void)
{
    struct pollfd fd = {.fd = pair[0], .events = POLLIN};

    return poll(&fd, 1, -1);
}

static int block_semaphore(void)
{
    sem_t never;
    int rc;

    sem_init(&never, 0, 0);
    rc = sem_wait(&never);
    sem_destroy(&never);
    return rc;
}

/* A thread is blocked in each of the calls that can block. It is freed by the signal, and the
 * call ends with EINTR. */
static void test_calls_are_freed(void **state)
{
    static int (*const calls[])(void) = {block_read, block_recv, block_poll, block_semaphore};

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
        struct mst_interrupt interrupt;
        struct sender sender = {.interrupt = &interrupt,
                                .send = i % 2 ? mst_interrupt_send : mst_interrupt_send_sparing};
        pthread_t thread;
        int rc;
        int error;

        assert_int_equal(mst_interrupt_arm(&interrupt, mst_interrupt_standard(), false, NULL),
                         MUSTER_OK);
        sem_init(&sender.returned, 0, 0);
        assert_int_equal(pthread_create(&thread, NULL, send_until_returned, &sender), 0);
        rc = calls[i / 2]();
        error = errno;
        sem_post(&sender.returned);
        pthread_join(thread, NULL);
        mst_interrupt_disarm(&interrupt);
        sem_destroy(&sender.returned);
        assert_int_equal(rc, -1);
        assert_int_equal(error, EINTR);
    }
    close(pair[0]);
    close(pair[1]);
}

/* ---- stdout and stderr ---- */

static sem_t holds, released;

static void *hold_stderr(void *arg)
{
    flockfile(stderr);
    sem_post(&holds);
    sem_wait(&released);
    funlockfile(stderr);
    return arg;
}

/* Another thread holds stderr while this one is blocked in `recv`. That is known from the kernel,
 * and this one is freed all the same. */
static void test_a_stream_that_another_thread_holds_spares_nobody(void **state)
{
    struct mst_interrupt interrupt;
    struct sender sender = {.interrupt = &interrupt, .send = mst_interrupt_send_sparing};
    pthread_t holder, thread;
    int rc, error;

    (void)state;
    sem_init(&holds, 0, 0);
    sem_init(&released, 0, 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pthread_create(&holder, NULL, hold_stderr, NULL), 0);
    sem_wait(&holds);
    assert_int_equal(mst_interrupt_arm(&interrupt, mst_interrupt_standard(), false, NULL),
                     MUSTER_OK);
    sem_init(&sender.returned, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, send_until_returned, &sender), 0);
    rc = block_recv();
    error = errno;
    sem_post(&sender.returned);
    pthread_join(thread, NULL);
    sem_post(&released);
    pthread_join(holder, NULL);
    mst_interrupt_disarm(&interrupt);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(rc, -1);
    assert_int_equal(error, EINTR);
}

static void count(int signal)
{
    (void)signal;
    counted++;
}

struct reader {
    const struct mst_interrupt *interrupt;
    int fd;
    int before; /* signals, while the pipe was full */
};

static bool in_write(pid_t tid)
{
    char path[64], call[8] = "";
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, call, sizeof(call) - 1);
        close(fd);
    }
    return strtol(call, NULL, 10) == SYS_write;
}

/* Interrupts the thread while it waits in its write, then reads what it has to say. */
static void *interrupt_and_read(void *ctx)
{
    struct reader *reader = ctx;
    char bytes[4096];

    while (!in_write(reader->interrupt->tid)) {
        (void)sched_yield();
    }
    for (int i = 0; i < 100; i++) {
        mst_interrupt_send_sparing(reader->interrupt);
    }
    reader->before = counted;
    while (read(reader->fd, bytes, sizeof(bytes)) > 0) {
    }
    return NULL;
}

/* What `stream` writes goes to a full pipe; its own end comes back. */
static int fill(FILE *stream, int ends[2])
{
    int own = dup(fileno(stream));

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], "", 1) == 1) {
    }
    assert_int_equal(fcntl(ends[0], F_SETFL, 0), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    assert_true(dup2(ends[1], fileno(stream)) >= 0);
    close(ends[1]);
    return own;
}

/* A thread prints to stdout, or stderr, and waits in a full pipe. No signal is sent to it, and what
 * it prints is printed. Then one is. */
static void test_a_thread_that_prints_is_spared(void **state)
{
    FILE *const streams[] = {stdout, stderr};
    const struct sigaction counts = {.sa_handler = count};
    struct mst_interrupt interrupt;

    (void)state;
    assert_int_equal(mst_interrupt_arm(&interrupt, mst_interrupt_standard(), false, NULL),
                     MUSTER_OK);
    sigaction(mst_interrupt_standard(), &counts, NULL);
    for (size_t i = 0; i < 2; i++) {
        struct reader reader = {.interrupt = &interrupt};
        int own, put, flushed, ends[2];
        pthread_t thread;

        (void)fflush(streams[i]);
        counted = 0;
        own = fill(streams[i], ends);
        reader.fd = ends[0];
        assert_int_equal(pthread_create(&thread, NULL, interrupt_and_read, &reader), 0);
        put = fputs("a line\n", streams[i]);
        flushed = fflush(streams[i]);
        dup2(own, fileno(streams[i])); /* the pipe's end for the reader */
        close(own);
        pthread_join(thread, NULL);
        close(ends[0]);
        assert_true(put >= 0);
        assert_int_equal(flushed, 0);
        assert_int_equal(reader.before, 0);
        mst_interrupt_send_sparing(&interrupt);
        assert_int_equal(counted, 1);
    }
    mst_interrupt_disarm(&interrupt);
}

/* A run ends. Signal handler and signal mask are as before. */
static void test_put_back(void **state)
{
    int signal = mst_interrupt_standard();
    struct mst_interrupt outer;
    struct mst_interrupt inner;
    struct sigaction action;
    sigset_t set;

    (void)state;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    assert_int_equal(mst_interrupt_arm(&outer, signal, false, NULL), MUSTER_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    assert_int_equal(sigismember(&set, signal), 0);
    assert_int_equal(mst_interrupt_arm(&inner, signal, false, NULL), MUSTER_OK);
    mst_interrupt_disarm(&inner);
    sigaction(signal, NULL, &action);
    assert_true(action.sa_handler != SIG_DFL);
    assert_int_equal(action.sa_flags & SA_RESTART, 0);
    sigaddset(&set, SIGUSR2); /* what the function blocks meanwhile is its own */
    sigdelset(&set, signal);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    mst_interrupt_disarm(&outer);
    sigaction(signal, NULL, &action);
    assert_true(action.sa_handler == SIG_DFL);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    assert_int_equal(sigismember(&set, signal), 1);
    assert_int_equal(sigismember(&set, SIGUSR2), 1);
    sigemptyset(&set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

/* A signal was sent but not delivered when the run ends. It does no harm: it must not end the
 * process. */
static void test_late_signal(void **state)
{
    int signal = mst_interrupt_standard();
    struct mst_interrupt interrupt;
    sigset_t set;

    (void)state;
    assert_int_equal(mst_interrupt_arm(&interrupt, signal, false, NULL), MUSTER_OK);
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    mst_interrupt_send(&interrupt);
    mst_interrupt_send(&interrupt);
    mst_interrupt_disarm(&interrupt);
    sigpending(&set);
    assert_int_equal(sigismember(&set, signal), 0);
}

static void handler(int signal)
{
    (void)signal;
}

/* The signal is in use by the program, or is none that can be used, as those that end a process.
 * The run is refused and nothing is changed. */
static void test_refused(void **state)
{
    const int bad[] = {SIGKILL, SIGSTOP, SIGSEGV, -3, 65, 1000};
    int signal = mst_interrupt_standard();
    struct sigaction action = {.sa_handler = handler};
    struct sigaction before;
    struct mst_interrupt interrupt;
    struct muster_error error = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(mst_interrupt_arm(&interrupt, bad[i], false, &error), MUSTER_EINVAL);
        assert_int_equal(interrupt.signal, 0);
    }
    sigaction(signal, &action, &before);
    assert_int_equal(mst_interrupt_arm(&interrupt, signal, false, &error), MUSTER_EINVAL);
    assert_int_equal(error.status, MUSTER_EINVAL);
    assert_non_null(strstr(error.text, "SIGRTMIN+7"));
    assert_non_null(strstr(error.text, "has a handler"));
    sigaction(signal, NULL, &action);
    assert_true(action.sa_handler == handler);
    sigaction(signal, &before, NULL);
    assert_int_equal(mst_interrupt_arm(&interrupt, signal, false, NULL), MUSTER_OK);
    mst_interrupt_disarm(&interrupt);
}

static volatile sig_atomic_t handled;

static void counting(int signal)
{
    (void)signal;
    handled = handled + 1;
}

/* The program's own handler is to stay. It is called at each interruption, and a second run of the
 * process may use it too; the signal mask is as before, and the handler stays after the runs. */
static void test_kept(void **state)
{
    int signal = mst_interrupt_standard();
    struct sigaction action = {.sa_handler = counting};
    struct sigaction before;
    struct mst_interrupt outer;
    struct mst_interrupt inner;
    sigset_t set;

    (void)state;
    handled = 0;
    sigaction(signal, &action, &before);
    assert_int_equal(mst_interrupt_arm(&outer, signal, true, NULL), MUSTER_OK);
    assert_int_equal(mst_interrupt_arm(&inner, signal, true, NULL), MUSTER_OK);
    mst_interrupt_send(&inner);
    assert_int_equal(handled, 1);
    mst_interrupt_disarm(&inner);
    assert_true(mst_interrupt_uses(signal)); /* not as a notice */
    mst_interrupt_send(&outer);
    assert_int_equal(handled, 2);
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    mst_interrupt_send(&outer);
    mst_interrupt_disarm(&outer);
    assert_int_equal(handled, 2); /* one that comes late is dropped */
    assert_false(mst_interrupt_uses(signal));
    sigaction(signal, &before, &action);
    assert_true(action.sa_handler == counting);
}

/* The program's own handler is to stay, and it has none, or one by which system calls go on, or a
 * run in another thread has ours. The run is refused with what to do. */
static void test_kept_refused(void **state)
{
    int signal = mst_interrupt_standard();
    struct sigaction action = {.sa_handler = counting, .sa_flags = SA_RESTART};
    struct sigaction before;
    struct mst_interrupt interrupt;
    struct mst_interrupt kept;
    struct muster_error error = {0};

    (void)state;
    assert_int_equal(mst_interrupt_arm(&kept, signal, true, &error), MUSTER_EINVAL);
    assert_string_equal(error.text, "run with interrupt signal 41 (SIGRTMIN+7): the application "
                                    "has no handler for it; install one without SA_RESTART before "
                                    "the run, or leave keep_handler out");
    sigaction(signal, &action, &before);
    assert_int_equal(mst_interrupt_arm(&kept, signal, true, &error), MUSTER_EINVAL);
    assert_non_null(strstr(error.text, "has SA_RESTART"));
    sigaction(signal, &before, NULL);
    assert_int_equal(mst_interrupt_arm(&interrupt, signal, false, NULL), MUSTER_OK);
    assert_int_equal(mst_interrupt_arm(&kept, signal, true, &error), MUSTER_EINVAL);
    assert_non_null(strstr(error.text, "a run in another thread"));
    mst_interrupt_disarm(&interrupt);
    assert_false(mst_interrupt_uses(signal));
}

/* The signal is switched off. None is sent. */
static void test_off(void **state)
{
    struct mst_interrupt interrupt;

    (void)state;
    assert_int_equal(mst_interrupt_arm(&interrupt, 0, false, NULL), MUSTER_OK);
    mst_interrupt_send(&interrupt);
    mst_interrupt_disarm(&interrupt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_freed),
        cmocka_unit_test(test_a_stream_that_another_thread_holds_spares_nobody),
        cmocka_unit_test(test_a_thread_that_prints_is_spared),
        cmocka_unit_test(test_put_back),
        cmocka_unit_test(test_late_signal),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_kept_refused),
        cmocka_unit_test(test_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
