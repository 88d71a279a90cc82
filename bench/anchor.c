/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at best, without muster: the figures that those of muster stand beside.
 * Every test prints one JSON object on one line, and all are bounded. */
#define _GNU_SOURCE
#include "anchor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES_MAX = 100000 };

struct shared {             /* seen by parent and child */
    _Atomic uint64_t begin; /* stamp of the side that acts */
    _Atomic uint32_t word[2];
    uint64_t sample[SAMPLES_MAX];
};
static struct shared *shared;
static uint64_t sample[SAMPLES_MAX];

/* ---- one way of waking between two processes, and back ---- */

static void futex_wait_for(_Atomic uint32_t *word, uint32_t wanted)
{
    uint32_t value;
    while ((value = atomic_load(word)) != wanted) {
        syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
    }
}

static void wake_futex(int side, uint32_t value)
{
    atomic_store(&shared->word[side], value);
    syscall(SYS_futex, &shared->word[side], FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void await_futex(int side, uint32_t value)
{
    futex_wait_for(&shared->word[side], value);
}

static void wake_spin(int side, uint32_t value)
{
    atomic_store(&shared->word[side], value);
}

static void await_spin(int side, uint32_t value)
{
    while (atomic_load(&shared->word[side]) != value) {
    }
}

static int event_fd[2];

static void wake_eventfd(int side, uint32_t value)
{
    uint64_t one = 1;
    (void)value;
    if (!write_full(event_fd[side], &one, sizeof one)) {
        die("eventfd");
    }
}

static void await_eventfd(int side, uint32_t value)
{
    uint64_t number;
    (void)value;
    if (!read_full(event_fd[side], &number, sizeof number)) {
        die("eventfd");
    }
}

struct way {
    const char *name;
    void (*wake)(int side, uint32_t value);
    void (*await)(int side, uint32_t value);
};

static const struct way ways[] = {{"eventfd", wake_eventfd, await_eventfd},
                                  {"futex", wake_futex, await_futex},
                                  {"spin", wake_spin, await_spin}};

static void wake_by(const struct way *way, uint32_t count)
{
    char name[64];
    event_fd[0] = eventfd(0, 0);
    event_fd[1] = eventfd(0, 0);
    pid_t child = fork();
    pin(child == 0);
    for (uint32_t i = 1; i <= count; i++) {
        if (child != 0) {
            atomic_store(&shared->begin, now_ns());
            way->wake(0, i);
            way->await(1, i);
        } else {
            way->await(0, i);
            shared->sample[i - 1] = now_ns() - atomic_load(&shared->begin);
            way->wake(1, i);
        }
    }
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
    (void)snprintf(name, sizeof name, "wake_%s", way->name);
    report(name, shared->sample, count);
}

static int test_wake(char **argument)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(argument[0], ways[i].name) == 0) {
            wake_by(&ways[i], 20000);
            return 0;
        }
    }
    return 2;
}

/* ---- a queued signal: the receiver asleep in sigwaitinfo, or running code of its own ---- */

static int signal_done_fd;
static volatile sig_atomic_t signals_seen;

static void signal_taken(const siginfo_t *info)
{
    uint64_t one = 1;
    shared->sample[info->si_value.sival_int] = now_ns() - atomic_load(&shared->begin);
    signals_seen++;
    if (!write_full(signal_done_fd, &one, sizeof one)) {
        _exit(1);
    }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    signal_taken(info);
}

static void signal_receiver(bool busy, const sigset_t *set, int count)
{
    siginfo_t info;
    pin(true);
    if (busy) {
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
        sigaction(SIGRTMIN, &action, NULL);
        sigprocmask(SIG_UNBLOCK, set, NULL);
        while (signals_seen < count) {
        }
    }
    while (signals_seen < count) {
        if (sigwaitinfo(set, &info) < 0) {
            die("sigwaitinfo");
        }
        signal_taken(&info);
    }
    _exit(0);
}

static int test_sigqueue(char **argument)
{
    const int count = 10000;
    const bool busy = strcmp(argument[0], "busy") == 0;
    char name[64];
    uint64_t number;
    sigset_t set;
    signal_done_fd = eventfd(0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t child = fork();
    if (child == 0) {
        signal_receiver(busy, &set, count);
    }
    pin(false);
    pause_us(20000);
    for (int i = 0; i < count; i++) {
        atomic_store(&shared->begin, now_ns());
        if (sigqueue(child, SIGRTMIN, (union sigval){.sival_int = i}) != 0 ||
            !read_full(signal_done_fd, &number, sizeof number)) {
            die("sigqueue");
        }
    }
    waitpid(child, NULL, 0);
    (void)snprintf(name, sizeof name, "sigqueue_%s", busy ? "busy" : "asleep");
    report(name, shared->sample, (size_t)count);
    return 0;
}

/* ---- SIGKILL of a process of some size until somebody has seen it ---- */

static void victim(long mib, bool busy, int ready_fd)
{
    char ready = 0;
    alarm(60); /* SIGKILL comes first */
    if (mib > 0) {
        resident_memory(mib);
    }
    if (!write_full(ready_fd, &ready, 1)) {
        _exit(1);
    }
    for (volatile uint64_t i = 0;; i++) {
        if (!busy) {
            pause();
        }
    }
}

static uint64_t one_death(const char *kind, long mib, bool busy)
{
    int fd[2] = {-1, -1};
    int ready[2];
    char byte;
    const bool by_pidfd = strcmp(kind, "pidfd") == 0;
    if (!by_pidfd) {
        anchor_make_pair(kind, fd);
    }
    if (pipe(ready) != 0) {
        die("pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        if (fd[0] >= 0) {
            close(fd[0]);
        }
        victim(mib, busy, ready[1]);
    }
    if (fd[1] >= 0) {
        close(fd[1]);
    }
    if (!read_full(ready[0], &byte, 1)) {
        die("victim");
    }
    int watched = by_pidfd ? (int)syscall(SYS_pidfd_open, child, 0) : fd[0];
    pid_t killer = fork();
    if (killer == 0) {
        pause_us(3000); /* let the observer go to sleep */
        atomic_store(&shared->begin, now_ns());
        kill(child, SIGKILL);
        _exit(0);
    }
    struct pollfd event = {.fd = watched, .events = POLLIN | POLLRDHUP};
    if (poll(&event, 1, 10000) != 1) {
        die("poll");
    }
    uint64_t took = now_ns() - atomic_load(&shared->begin);
    waitpid(killer, NULL, 0);
    waitpid(child, NULL, 0);
    close(watched);
    close(ready[0]);
    close(ready[1]);
    return took;
}

/* death pidfd|tcp|unix MIB [COUNT [busy]] */
static int test_death(char **argument)
{
    char name[64];
    long mib = 0;
    long count = 10;
    if (!parse_number(argument[1], &mib) ||
        (argument[2] != NULL && (!parse_number(argument[2], &count) || count < 1))) {
        return 2;
    }
    const bool busy = argument[2] != NULL && argument[3] != NULL;
    for (long i = 0; i < count; i++) {
        sample[i] = one_death(argument[0], mib, busy);
    }
    (void)snprintf(name, sizeof name, "death_%s_%ld_mib", argument[0], mib);
    report(name, sample, (size_t)count);
    return 0;
}

/* ---- single operations ---- */

static uint64_t cost_clock(uint64_t count)
{
    struct timespec now = {0};
    for (uint64_t i = 0; i < count; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return (uint64_t)now.tv_nsec;
}

static uint64_t cost_clock_coarse(uint64_t count)
{
    struct timespec now = {0};
    for (uint64_t i = 0; i < count; i++) {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    }
    return (uint64_t)now.tv_nsec;
}

static uint64_t cost_load(uint64_t count)
{
    static _Atomic uint64_t word = 1;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += atomic_load_explicit(&word, memory_order_relaxed);
    }
    return sum;
}

static void *idle(void *argument)
{
    (void)argument;
    pause();
    return NULL;
}

static uint64_t cost_mutex(uint64_t count)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread; /* with a second thread locking is real */
    if (pthread_create(&thread, NULL, idle, NULL) != 0) {
        die("pthread_create");
    }
    for (uint64_t i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return 0;
}

static uint64_t cost_syscall(uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += (uint64_t)syscall(SYS_getppid);
    }
    return sum;
}

struct operation {
    const char *name;
    uint64_t (*repeat)(uint64_t count);
    uint64_t count;
};

static const struct operation operations[] = {{"clock", cost_clock, 10000000},
                                              {"clock_coarse", cost_clock_coarse, 10000000},
                                              {"load", cost_load, 10000000},
                                              {"mutex", cost_mutex, 10000000},
                                              {"syscall", cost_syscall, 2000000}};

static int test_cost(char **argument)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *operation = &operations[i];
        if (strcmp(argument[0], operation->name) != 0) {
            continue;
        }
        uint64_t begin = now_ns();
        uint64_t sink = operation->repeat(operation->count);
        uint64_t took = now_ns() - begin;
        printf("{\"name\":\"cost_%s\",\"n\":%llu,\"ns\":%.3f,\"sink\":%d}\n", operation->name,
               (unsigned long long)operation->count, (double)took / (double)operation->count,
               (int)(sink & 1));
        return 0;
    }
    return 2;
}

/* ---- sockets ---- */

static int test_rtt(char **argument)
{
    anchor_pingpong(argument[0], false, 0, 8000);
    return 0;
}

static int test_rtt_epoll(char **argument)
{
    anchor_pingpong(argument[0], true, 0, 8000);
    return 0;
}

static int test_rtt_cold(char **argument)
{
    anchor_pingpong(argument[0], false, 2000, 300);
    return 0;
}

static int test_echo(char **argument)
{
    long connections = 0;
    long depth = 0;
    if (!parse_number(argument[0], &connections) || !parse_number(argument[1], &depth)) {
        return 2;
    }
    anchor_echo((int)connections, (int)depth, 1.0);
    return 0;
}

static int test_barrier(char **argument)
{
    long count = 0;
    if (!parse_number(argument[0], &count) || argument[1] == NULL) {
        return 2;
    }
    anchor_barrier((int)count, strcmp(argument[1], "connections") == 0, 200);
    return 0;
}

static int test_news(char **argument)
{
    long count = 0;
    if (!parse_number(argument[0], &count) || count < 1 || count > 1024) {
        return 2;
    }
    anchor_news((int)count, 20);
    return 0;
}

static int test_connect(char **argument)
{
    (void)argument;
    anchor_connect(2000);
    return 0;
}

/* ---- other floors ---- */

static int test_flush(char **argument)
{
    const size_t warm = 5;
    const size_t count = 300;
    char path[4096];
    char data[512] = {1};
    (void)snprintf(path, sizeof path, "%s/anchor-flush-%d", argument[0], (int)getpid());
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (fd < 0) {
        die(path);
    }
    for (size_t i = 0; i < warm + count; i++) {
        uint64_t begin = now_ns();
        if (!write_full(fd, data, sizeof data) || fdatasync(fd) != 0) {
            die("fdatasync");
        }
        if (i >= warm) {
            sample[i - warm] = now_ns() - begin;
        }
    }
    close(fd);
    unlink(path);
    report("append512_fdatasync", sample, count);
    return 0;
}

static int test_spawn(char **argument)
{
    const size_t count = 500;
    char program[] = "/bin/true";
    char *argv[] = {program, NULL};
    char *environment[] = {NULL};
    (void)argument;
    for (size_t i = 0; i < count; i++) {
        pid_t child;
        uint64_t begin = now_ns();
        if (posix_spawn(&child, program, NULL, NULL, argv, environment) != 0) {
            die("posix_spawn");
        }
        waitpid(child, NULL, 0);
        sample[i] = now_ns() - begin;
    }
    report("spawn_true_wait", sample, count);
    return 0;
}

/* How late a sleeping timerfd fires. */
static int test_timer(char **argument)
{
    const size_t count = 200;
    long ms = 0;
    uint64_t expirations;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    if (!parse_number(argument[0], &ms) || ms < 1) {
        return 2;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t due = now_ns() + (uint64_t)ms * 1000000u;
        struct itimerspec spec = {
            .it_value = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)}};
        timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
        if (!read_full(fd, &expirations, sizeof expirations)) {
            die("timerfd");
        }
        sample[i] = now_ns() - due;
    }
    report("timerfd_lateness", sample, count);
    return 0;
}

static int test_io_uring(char **argument)
{
    uint32_t parameters[64] = {0}; /* struct io_uring_params fits; [5] is its features */
    (void)argument;
    long fd = syscall(SYS_io_uring_setup, 8, parameters);
    printf("{\"name\":\"io_uring\",\"available\":%s,\"errno\":%d,\"features\":\"0x%x\"}\n",
           fd >= 0 ? "true" : "false", fd >= 0 ? 0 : errno, parameters[5]);
    return 0;
}

/* ---- the table ---- */

struct test {
    const char *name;
    int (*run)(char **argument); /* 2: these arguments make no sense */
    int arguments;               /* it needs at least */
    const char *help;
};

static const struct test tests[] = {
    {"rtt", test_rtt, 1, "tcp|unix: a message of 64 bytes and back, blocking"},
    {"rtt_epoll", test_rtt_epoll, 1, "tcp|unix: the same with epoll_wait before each read"},
    {"rtt_cold", test_rtt_cold, 1, "tcp|unix: the same after 2 ms idle"},
    {"wake", test_wake, 1, "eventfd|futex|spin: wake another process"},
    {"sigqueue", test_sigqueue, 1, "asleep|busy: a signal to another process"},
    {"death", test_death, 2, "pidfd|tcp|unix MIB [COUNT [busy]]: SIGKILL until it is seen"},
    {"cost", test_cost, 1, "clock|clock_coarse|load|mutex|syscall"},
    {"echo", test_echo, 2, "CONNECTIONS DEPTH: requests per second of an epoll server"},
    {"barrier", test_barrier, 2, "COUNT processes|connections: over an epoll server"},
    {"news", test_news, 1, "COUNT: a message for all processes, then a barrier of all"},
    {"flush", test_flush, 1, "DIRECTORY: append 512 bytes and fdatasync"},
    {"spawn", test_spawn, 0, ": start /bin/true and wait for it"},
    {"connect", test_connect, 0, ": connect, a message and back, close"},
    {"timer", test_timer, 1, "MS: how late a timer is"},
    {"io_uring", test_io_uring, 0, ": whether it may be used"},
};

static int usage(void)
{
    (void)fprintf(stderr, "usage: anchor [-p none|split|same] TEST [ARGUMENT...]\n");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        (void)fprintf(stderr, "  %s %s\n", tests[i].name, tests[i].help);
    }
    return 2;
}

int main(int argc, char **argv)
{
    argv++;
    argc--;
    if (argc >= 2 && strcmp(argv[0], "-p") == 0) {
        if (!pinning_set(argv[1])) {
            return usage();
        }
        argv += 2;
        argc -= 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    shared = shared_memory(sizeof *shared);
    for (size_t i = 0; argc > 0 && i < sizeof tests / sizeof *tests; i++) {
        if (strcmp(argv[0], tests[i].name) == 0 && argc > tests[i].arguments) {
            return tests[i].run(argv + 1) == 0 ? 0 : usage();
        }
    }
    return usage();
}
