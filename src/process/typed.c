/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/typed.h"
#include "os/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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
    bool stopping, suspended, closes;
    int next; /* where to write from now on; -1: unchanged */
    bool next_keys;
    uint32_t index;
    bool raw, known; /* the terminal is; and it was this before: */
    struct termios before;
    struct mst_output *output;
    /* Of the thread alone. */
    int to;    /* -1: nobody reads */
    bool keys; /* it is a terminal */
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

/* With the lock held. */
static void restore(struct mst_typed *typed)
{
    if (typed->raw) {
        (void)tcsetattr(typed->terminal, TCSANOW, &typed->before);
        typed->raw = false;
    }
}

/* In the background the modes are another program's. What was there first is what is restored: a
 * shell may not have put it back when it continued us. False: not now. */
static bool make_raw(struct mst_typed *typed)
{
    struct termios modes;
    bool raw;

    (void)pthread_mutex_lock(&typed->lock);
    if (!typed->raw && !typed->suspended && !typed->closes && in_foreground(typed) &&
        tcgetattr(typed->terminal, &modes) == 0) {
        typed->before = typed->known ? typed->before : modes;
        typed->known = true;
        modes = typed->before;
        cfmakeraw(&modes);
        typed->raw = tcsetattr(typed->terminal, TCSANOW, &modes) == 0;
    }
    raw = typed->raw;
    (void)pthread_mutex_unlock(&typed->lock);
    return raw;
}

static void leave(struct mst_typed *typed)
{
    if (typed->to >= 0) {
        (void)close(typed->to);
        typed->to = -1;
    }
}

static void lose(struct mst_typed *typed)
{
    leave(typed);
    (void)pthread_mutex_lock(&typed->lock);
    restore(typed);
    (void)pthread_mutex_unlock(&typed->lock);
}

/* False: it is to stop. */
static bool take_orders(struct mst_typed *typed)
{
    bool stopping;

    mst_system_event_quiet(typed->bell);
    (void)pthread_mutex_lock(&typed->lock);
    stopping = typed->stopping;
    if (typed->next >= 0 || typed->closes) {
        leave(typed);
        typed->to = typed->next;
        typed->keys = typed->room = typed->next_keys; /* a terminal always takes something */
        typed->next = -1;
        typed->closes = false;
    }
    (void)pthread_mutex_unlock(&typed->lock);
    return !stopping;
}

/* The pipe is empty, so all of it fits. */
static void pass_line(struct mst_typed *typed, size_t size)
{
    uint32_t index;

    if (typed->bytes[size - 1] == '\n' && echoes(typed)) {
        (void)pthread_mutex_lock(&typed->lock);
        index = typed->index;
        (void)pthread_mutex_unlock(&typed->lock);
        mst_output_echoed(typed->output, index);
    }
    if (write(typed->to, typed->bytes, size) < 0) {
        lose(typed);
    }
    typed->room = false;
}

/* 0: the key is none. */
static int signal_of(const struct termios *modes, char key)
{
    static const struct {
        int key, number;
    } keys[] = {{VINTR, SIGINT}, {VQUIT, SIGQUIT}, {VSUSP, SIGTSTP}};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && (modes->c_lflag & ISIG) != 0; i++) {
        cc_t one = modes->c_cc[keys[i].key];

        if (one != _POSIX_VDISABLE && one == (cc_t)key) {
            return keys[i].number;
        }
    }
    return 0;
}

/* What a terminal has no room for is lost, as at any. */
static void pass_keys(struct mst_typed *typed, size_t size)
{
    struct termios modes = {0};
    size_t from = 0;

    (void)tcgetattr(typed->to, &modes); /* the process decides which keys are signals */
    for (size_t i = 0; i < size; i++) {
        int number = signal_of(&modes, typed->bytes[i]);

        if (number != 0) {
            (void)!write(typed->to, typed->bytes + from, i - from);
            from = i + 1;
            (void)kill(0, number);
        }
    }
    (void)!write(typed->to, typed->bytes + from, size - from);
}

static void pass_on(struct mst_typed *typed)
{
    ssize_t got = read(typed->terminal, typed->bytes, sizeof typed->bytes);

    if (got < 0 && errno == EIO && !in_foreground(typed)) {
        typed->away = true; /* what is typed now is for another program */
    } else if (got <= 0) {
        lose(typed);
    } else if (typed->keys) {
        pass_keys(typed, (size_t)got);
    } else {
        pass_line(typed, (size_t)got);
    }
}

static bool may_read(struct mst_typed *typed)
{
    if (typed->to < 0 || !typed->room) {
        return false;
    }
    typed->away = typed->away || (typed->keys && !make_raw(typed));
    return !typed->away;
}

static void *typed_main(void *arg)
{
    struct mst_typed *typed = arg;

    for (;;) {
        bool reads = may_read(typed);
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
            lose(typed); /* the reader is gone, or has closed it */
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
    restore(typed);
    (void)pthread_mutex_destroy(&typed->lock);
    typed_release(typed);
}

/* With the lock held. */
static void set_next(struct mst_typed *typed, int next, bool keys)
{
    if (typed->next >= 0) {
        (void)close(typed->next);
    }
    typed->next = next;
    typed->next_keys = keys;
    typed->closes = false;
}

int mst_typed_open(struct mst_typed *typed, uint32_t index)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    (void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
    (void)pthread_mutex_lock(&typed->lock);
    set_next(typed, ends[1], false);
    typed->index = index;
    (void)pthread_mutex_unlock(&typed->lock);
    mst_system_event_ring(typed->bell);
    return ends[0];
}

void mst_typed_open_pty(struct mst_typed *typed, int pty)
{
    (void)pthread_mutex_lock(&typed->lock);
    set_next(typed, pty, true);
    (void)pthread_mutex_unlock(&typed->lock);
    /* Before the program asks: what is typed early is echoed by its own terminal only. */
    (void)make_raw(typed);
    mst_system_event_ring(typed->bell);
}

void mst_typed_close(struct mst_typed *typed)
{
    (void)pthread_mutex_lock(&typed->lock);
    set_next(typed, -1, false);
    typed->closes = true;
    restore(typed);
    (void)pthread_mutex_unlock(&typed->lock);
    mst_system_event_ring(typed->bell);
}

void mst_typed_suspend(struct mst_typed *typed)
{
    (void)pthread_mutex_lock(&typed->lock);
    typed->suspended = true;
    restore(typed);
    (void)pthread_mutex_unlock(&typed->lock);
}

/* Its modes may be another program's meanwhile, also where this is not known. */
void mst_typed_resume(struct mst_typed *typed)
{
    (void)pthread_mutex_lock(&typed->lock);
    typed->suspended = typed->raw = false;
    (void)pthread_mutex_unlock(&typed->lock);
    mst_system_event_ring(typed->bell);
}
