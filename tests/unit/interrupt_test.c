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
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/shell/interrupt.h"

struct sender {
    const struct mst_interrupt *interrupt;
    sem_t returned;
};

/* As the library does it: again and again until the call has returned. */
static void *send_until_returned(void *ctx)
{
    struct sender *sender = ctx;
    struct timespec until;

    do {
        mst_interrupt_send(sender->interrupt);
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
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct mst_interrupt interrupt;
        struct sender sender = {.interrupt = &interrupt};
        pthread_t thread;
        int rc;
        int error;

        assert_int_equal(mst_interrupt_arm(&interrupt, mst_interrupt_standard(), NULL), MUSTER_OK);
        sem_init(&sender.returned, 0, 0);
        assert_int_equal(pthread_create(&thread, NULL, send_until_returned, &sender), 0);
        rc = calls[i]();
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
    assert_int_equal(mst_interrupt_arm(&outer, signal, NULL), MUSTER_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    assert_int_equal(sigismember(&set, signal), 0);
    assert_int_equal(mst_interrupt_arm(&inner, signal, NULL), MUSTER_OK);
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
    assert_int_equal(mst_interrupt_arm(&interrupt, signal, NULL), MUSTER_OK);
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
        assert_int_equal(mst_interrupt_arm(&interrupt, bad[i], &error), MUSTER_EINVAL);
        assert_int_equal(interrupt.signal, 0);
    }
    sigaction(signal, &action, &before);
    assert_int_equal(mst_interrupt_arm(&interrupt, signal, &error), MUSTER_EINVAL);
    assert_int_equal(error.status, MUSTER_EINVAL);
    assert_non_null(strstr(error.text, "SIGRTMIN+7"));
    assert_non_null(strstr(error.text, "has a handler"));
    sigaction(signal, NULL, &action);
    assert_true(action.sa_handler == handler);
    sigaction(signal, &before, NULL);
    assert_int_equal(mst_interrupt_arm(&interrupt, signal, NULL), MUSTER_OK);
    mst_interrupt_disarm(&interrupt);
}

/* The signal is switched off. None is sent. */
static void test_off(void **state)
{
    struct mst_interrupt interrupt;

    (void)state;
    assert_int_equal(mst_interrupt_arm(&interrupt, 0, NULL), MUSTER_OK);
    mst_interrupt_send(&interrupt);
    mst_interrupt_disarm(&interrupt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_freed),
        cmocka_unit_test(test_put_back),
        cmocka_unit_test(test_late_signal),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
