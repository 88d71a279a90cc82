/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "rank.h"

enum { LONG_TIME_S = 1000000 };

void pass(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

/* ---- threads ---- */

static void *lock_and_end(void *mutex)
{
    (void)pthread_mutex_lock(mutex);
    return NULL;
}

static void *never_ends(void *arg)
{
    (void)arg;
    for (;;) {
        (void)pause();
    }
    return NULL;
}

/* No signal comes to it. */
static pthread_t thread_of(void *(*does)(void *), void *arg)
{
    sigset_t all, before;
    pthread_t thread;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, does, arg) != 0) {
        die("pthread_create");
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return thread;
}

static int block_mutex(void)
{
    static pthread_mutex_t mutex;

    (void)pthread_mutex_init(&mutex, NULL);
    (void)pthread_join(thread_of(lock_and_end, &mutex), NULL);
    return pthread_mutex_lock(&mutex);
}

static int block_condition(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

    (void)pthread_mutex_lock(&mutex);
    for (;;) {
        (void)pthread_cond_wait(&condition, &mutex);
    }
    return 0;
}

static int block_join(void)
{
    return pthread_join(thread_of(never_ends, NULL), NULL);
}

static int block_semaphore(void)
{
    sem_t never;

    (void)sem_init(&never, 0, 0);
    return sem_wait(&never) < 0 ? errno : 0;
}

/* ---- calls of the kernel: the peer is well, and never speaks ---- */

static void pair_open(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        die("socketpair");
    }
}

static int pair_close(const int pair[2], ssize_t rc)
{
    int error = rc < 0 ? errno : 0;

    (void)close(pair[0]);
    (void)close(pair[1]);
    return error;
}

static int block_read(void)
{
    int pair[2];
    char byte;

    pair_open(pair);
    return pair_close(pair, read(pair[0], &byte, 1));
}

static int block_recv(void)
{
    int pair[2];
    char byte;

    pair_open(pair);
    return pair_close(pair, recv(pair[0], &byte, 1, 0));
}

static int block_poll(void)
{
    int pair[2];

    pair_open(pair);
    return pair_close(pair, poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, -1));
}

static int block_deaf(void)
{
    int pair[2];
    char byte;

    pair_open(pair);
    while (read(pair[0], &byte, 1) < 0 && errno == EINTR) {
    }
    return pair_close(pair, 0);
}

static int block_sleep(void)
{
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = LONG_TIME_S}, NULL);
}

static int block_sleep_on(void)
{
    struct timespec left = {.tv_sec = LONG_TIME_S};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
    return 0;
}

/* ---- no call that ends ---- */

static int block_malloc(void)
{
    static void *volatile kept;

    for (;;) {
        free(kept);
        kept = malloc(64);
    }
    return 0;
}

static int block_printf(void)
{
    int ends[2];
    FILE *file;

    if (pipe(ends) != 0 || (file = fdopen(ends[1], "w")) == NULL) {
        die("pipe");
    }
    while (fprintf(file, "a line that nobody reads\n") > 0) {
    }
    (void)fclose(file);
    (void)close(ends[0]);
    return 0;
}

static int block_spin(void)
{
    static volatile unsigned spun;

    for (;;) {
        spun = spun + 1;
    }
    return 0;
}

int block_in(const char *how)
{
    static const struct {
        const char *name;
        int (*block)(void);
    } ways[] = {
        {"condition", block_condition}, {"deaf", block_deaf},   {"join", block_join},
        {"malloc", block_malloc},       {"mutex", block_mutex}, {"poll", block_poll},
        {"printf", block_printf},       {"read", block_read},   {"recv", block_recv},
        {"semaphore", block_semaphore}, {"sleep", block_sleep}, {"sleep-on", block_sleep_on},
        {"spin", block_spin},
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        if (strcmp(how, ways[i].name) == 0) {
            return ways[i].block();
        }
    }
    die(how);
}
