/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/typed.h"
#include "os/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "os/system.h"

#define PIPE_BYTES 4096 /* one page: then a pipe that takes something is empty */
#define BACKGROUND_MS 200

struct mst_typed {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    int bell, terminal;
    bool stopping;
    int next; /* where to write from now on; -1: unchanged */
    uint32_t index;
    struct mst_output *output;
    /* Of the thread alone. */
    int to; /* -1: nobody reads */
    bool room, away;
    char bytes[PIPE_BYTES];
};

enum { BELL, TO, TERMINAL, POLLED };

/* One that is not our own has no foreground. */
static bool in_foreground(const struct mst_typed *typed)
{
    pid_t group = tcgetpgrp(typed->terminal);

    return group < 0 || group == getpgrp();
}

static bool echoes(const struct mst_typed *typed)
{
    struct termios now;

    return tcgetattr(typed->terminal, &now) == 0 && (now.c_lflag & ECHO) != 0;
}

static void leave(struct mst_typed *typed)
{
    if (typed->to >= 0) {
        (void)close(typed->to);
        typed->to = -1;
    }
}

/* False: it is to stop. */
static bool take_orders(struct mst_typed *typed)
{
    bool stopping;

    mst_system_event_quiet(typed->bell);
    (void)pthread_mutex_lock(&typed->lock);
    stopping = typed->stopping;
    if (typed->next >= 0) {
        leave(typed);
        typed->to = typed->next;
        typed->next = -1;
        typed->room = false;
    }
    (void)pthread_mutex_unlock(&typed->lock);
    return !stopping;
}

/* The pipe is empty, so all of it fits. */
static void pass_on(struct mst_typed *typed)
{
    ssize_t got = read(typed->terminal, typed->bytes, sizeof typed->bytes);
    uint32_t index;

    if (got < 0 && errno == EIO && !in_foreground(typed)) {
        typed->away = true; /* what is typed now is for another program */
        return;
    }
    if (got > 0 && typed->bytes[got - 1] == '\n' && echoes(typed)) {
        (void)pthread_mutex_lock(&typed->lock);
        index = typed->index;
        (void)pthread_mutex_unlock(&typed->lock);
        mst_output_echoed(typed->output, index);
    }
    if (got <= 0 || write(typed->to, typed->bytes, (size_t)got) < 0) {
        leave(typed);
    }
    typed->room = false;
}

static void *typed_main(void *arg)
{
    struct mst_typed *typed = arg;

    for (;;) {
        bool reads = typed->to >= 0 && typed->room && !typed->away;
        struct pollfd polled[POLLED] = {
            [BELL] = {.fd = typed->bell, .events = POLLIN},
            [TO] = {.fd = typed->to, .events = (short)(typed->room ? 0 : POLLOUT)},
            [TERMINAL] = {.fd = reads ? typed->terminal : -1, .events = POLLIN}};

        (void)poll(polled, POLLED, typed->away ? BACKGROUND_MS : -1);
        typed->away = false;
        if (polled[BELL].revents != 0) {
            if (!take_orders(typed)) {
                return NULL;
            }
        } else if ((polled[TO].revents & (POLLERR | POLLHUP)) != 0) {
            leave(typed); /* the reader is gone, or has closed it */
        } else if (polled[TO].revents != 0) {
            typed->room = true;
        } else if (polled[TERMINAL].revents != 0) {
            pass_on(typed);
        }
    }
}

static void typed_release(struct mst_typed *typed)
{
    leave(typed);
    if (typed->next >= 0) {
        (void)close(typed->next);
    }
    if (typed->bell >= 0) {
        (void)close(typed->bell);
    }
    free(typed);
}

muster_status mst_typed_new(struct mst_typed **out, int terminal, struct mst_output *output)
{
    struct mst_typed *typed = calloc(1, sizeof *typed);

    if (typed == NULL) {
        return MUSTER_ENOMEM;
    }
    typed->terminal = terminal;
    typed->output = output;
    typed->next = typed->to = -1;
    typed->bell = mst_system_event();
    if (typed->bell < 0) {
        typed_release(typed);
        return MUSTER_ENOMEM;
    }
    (void)pthread_mutex_init(&typed->lock, NULL);
    if (mst_thread_start(&typed->thread, 0, typed_main, typed) != 0) {
        (void)pthread_mutex_destroy(&typed->lock);
        typed_release(typed);
        return MUSTER_EFAILED;
    }
    *out = typed;
    return MUSTER_OK;
}

void mst_typed_free(struct mst_typed *typed)
{
    if (typed == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&typed->lock);
    typed->stopping = true;
    (void)pthread_mutex_unlock(&typed->lock);
    mst_system_event_ring(typed->bell);
    (void)pthread_join(typed->thread, NULL);
    (void)pthread_mutex_destroy(&typed->lock);
    typed_release(typed);
}

int mst_typed_open(struct mst_typed *typed, uint32_t index)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    (void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
    (void)pthread_mutex_lock(&typed->lock);
    if (typed->next >= 0) {
        (void)close(typed->next);
    }
    typed->next = ends[1];
    typed->index = index;
    (void)pthread_mutex_unlock(&typed->lock);
    mst_system_event_ring(typed->bell);
    return ends[0];
}
