/* SPDX-License-Identifier: Apache-2.0 */
/* A rank under test control. What happens to it goes out as one datagram each to the socket EVENTS,
 * "PID INDEX WHAT key=value ..."; what it shall do comes in as datagrams on a socket of its own,
 * whose name its first datagram tells. The function is a loop over these orders: so it is blocked
 * exactly where the test has put it.
 *
 *   restart_rank EVENTS
 *
 * An order "@GENERATION WORDS" is for the function in that generation only, and forgotten in a
 * later one. Orders: ok | failed CODE TEXT | status N | again | leave | check | nested | block HOW:
 * read, recv, poll, semaphore, barrier, or mute, which ignores what it is told. After a run: run,
 * for another one; anything else ends the program. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "muster/muster.h"

enum { LINE_ROOM = 1024 };

struct rank {
    muster_client *client;
    struct sockaddr_un events;
    struct sockaddr_un mine;
    int out, in;
    uint32_t index;
};

static void die(const char *what)
{
    perror(what);
    exit(3);
}

__attribute__((format(printf, 2, 3))) static void event(const struct rank *rank, const char *format,
                                                        ...)
{
    char line[LINE_ROOM];
    int at = snprintf(line, sizeof(line), "%d %d ", (int)getpid(), (int)rank->index);
    va_list args;
    ssize_t rc;

    va_start(args, format);
    at += vsnprintf(line + at, sizeof(line) - (size_t)at, format, args);
    va_end(args);
    if (at >= (int)sizeof(line)) {
        at = (int)sizeof(line) - 1;
    }
    do {
        rc = sendto(rank->out, line, (size_t)at, 0, (const struct sockaddr *)&rank->events,
                    sizeof(rank->events));
    } while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        die("sendto");
    }
}

static void sockets_open(struct rank *rank, const char *events)
{
    rank->events = (struct sockaddr_un){.sun_family = AF_UNIX};
    rank->mine = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (snprintf(rank->events.sun_path, sizeof(rank->events.sun_path), "%s", events) >=
            (int)sizeof(rank->events.sun_path) ||
        snprintf(rank->mine.sun_path, sizeof(rank->mine.sun_path), "%.80s.%d", events,
                 (int)getpid()) >= (int)sizeof(rank->mine.sun_path)) {
        die("the path of the events is too long");
    }
    rank->out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    rank->in = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (rank->out < 0 || rank->in < 0 ||
        bind(rank->in, (const struct sockaddr *)&rank->mine, sizeof(rank->mine)) != 0) {
        die("socket");
    }
}

/* Waits in a call of the kernel for a peer that is well and never speaks. */
static int block_kernel(const char *how)
{
    int pair[2];
    char byte;
    int rc = -1;
    int error;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        die("socketpair");
    }
    errno = 0;
    if (strcmp(how, "read") == 0) {
        rc = (int)read(pair[0], &byte, 1);
    } else if (strcmp(how, "recv") == 0) {
        rc = (int)recv(pair[0], &byte, 1, 0);
    } else if (strcmp(how, "poll") == 0) {
        rc = poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, -1);
    } else if (strcmp(how, "semaphore") == 0) {
        sem_t never;

        sem_init(&never, 0, 0);
        rc = sem_wait(&never);
    } else if (strcmp(how, "mute") == 0) {
        while (poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, -1) < 0) {
        }
    }
    error = errno;
    close(pair[0]);
    close(pair[1]);
    return rc < 0 ? error : 0;
}

static muster_status block(const struct rank *rank, muster_restart *restart, const char *how)
{
    struct muster_error err = {0};
    muster_status status;

    event(rank, "blocked how=%s", how);
    if (strcmp(how, "barrier") == 0) {
        status = muster_barrier_wait(rank->client, "never", -1, &err);
        event(rank, "freed how=%s status=%s", how, muster_status_name(status));
        return status;
    }
    event(rank, "freed how=%s errno=%d", how, block_kernel(how));
    status = muster_restart_check(restart);
    return status == MUSTER_OK ? MUSTER_EFAILED : status;
}

static muster_status nested(muster_restart *restart, void *arg)
{
    (void)restart;
    (void)arg;
    return MUSTER_OK;
}

static void try_nested(const struct rank *rank)
{
    struct muster_error err = {0};
    muster_status status = muster_restart_run(rank->client, NULL, nested, NULL, &err);

    event(rank, "nested status=%s text=%s", muster_status_name(status), err.text);
}

/* The words of an order for this generation, or NULL. */
static char *order_for(char *order, uint64_t generation)
{
    char *end;

    if (order[0] != '@') {
        return order;
    }
    if (strtoull(order + 1, &end, 10) != generation || *end != ' ') {
        return NULL;
    }
    return end + 1;
}

/* MORE: the function goes on. */
static muster_status obey(const struct rank *rank, muster_restart *restart, char *order)
{
    char *rest = strchr(order, ' ');

    if (rest) {
        *rest++ = '\0';
    } else {
        rest = order + strlen(order);
    }
    if (strcmp(order, "ok") == 0) {
        return MUSTER_OK;
    }
    if (strcmp(order, "status") == 0) {
        return (muster_status)strtol(rest, NULL, 10);
    }
    if (strcmp(order, "failed") == 0) {
        return muster_restart_fail(restart, (int)strtol(rest, &rest, 10), rest + 1);
    }
    if (strcmp(order, "again") == 0) {
        return muster_restart_again(restart);
    }
    if (strcmp(order, "leave") == 0) {
        return muster_restart_leave(restart);
    }
    if (strcmp(order, "block") == 0) {
        return block(rank, restart, rest);
    }
    if (strcmp(order, "nested") == 0) {
        try_nested(rank);
    } else if (strcmp(order, "check") == 0) {
        event(rank, "checked status=%s", muster_status_name(muster_restart_check(restart)));
    } else {
        die(order);
    }
    return MUSTER_MORE;
}

static muster_status function(muster_restart *restart, void *arg)
{
    const struct rank *rank = arg;
    struct muster_view view;

    muster_restart_view(restart, &view);
    event(rank, "entered generation=%llu iteration=%llu rank=%u size=%u",
          (unsigned long long)view.generation, (unsigned long long)view.iteration, view.rank,
          view.size);
    for (;;) {
        char line[LINE_ROOM];
        struct pollfd in = {.fd = rank->in, .events = POLLIN};
        muster_status status = muster_restart_ping(restart);
        ssize_t size;

        if (status) {
            event(rank, "told status=%s", muster_status_name(status));
            return status;
        }
        if (poll(&in, 1, 5) <= 0) {
            continue;
        }
        size = recv(rank->in, line, sizeof(line) - 1, MSG_DONTWAIT);
        if (size > 0) {
            char *order;

            line[size] = '\0';
            order = order_for(line, view.generation);
            status = order ? obey(rank, restart, order) : MUSTER_MORE;
            if (status != MUSTER_MORE) {
                event(rank, "returns status=%d", (int)status);
                return status;
            }
        }
    }
}

/* Between two runs an order says whether there is another. */
static bool once_more(const struct rank *rank)
{
    char order[LINE_ROOM];
    ssize_t size = recv(rank->in, order, sizeof(order) - 1, 0);

    return size > 0 && strncmp(order, "run", 3) == 0;
}

static bool handler_is_default(void)
{
    struct sigaction action;

    sigaction(SIGRTMIN + 7, NULL, &action);
    return action.sa_handler == SIG_DFL;
}

int main(int argc, char **argv)
{
    struct rank rank = {.index = UINT32_MAX};
    struct muster_error err = {0};
    struct muster_view view;
    muster_status status;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: restart_rank EVENTS\n");
        return 2;
    }
    sockets_open(&rank, argv[1]);
    event(&rank, "started socket=%s", rank.mine.sun_path);
    status = muster_client_open(&rank.client, NULL, 60000, &err);
    if (status) {
        event(&rank, "refused status=%s text=%s", muster_status_name(status), err.text);
        return muster_exit_code(status);
    }
    muster_client_view(rank.client, &view);
    rank.index = view.index;
    event(&rank, "joined generation=%llu", (unsigned long long)view.generation);
    do {
        err = (struct muster_error){0};
        status = muster_restart_run(rank.client, NULL, function, &rank, &err);
        event(&rank, "done status=%s clean=%d text=%s", muster_status_name(status),
              handler_is_default(), err.text);
    } while (once_more(&rank));
    muster_client_close(rank.client);
    unlink(rank.mine.sun_path);
    return muster_exit_code(status);
}
