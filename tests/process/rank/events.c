/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "events.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int orders_fd = -1;

static int out = -1;
static uint32_t my_index = UINT32_MAX;
static struct sockaddr_un to = {.sun_family = AF_UNIX}, mine = {.sun_family = AF_UNIX};

void die(const char *what)
{
    perror(what);
    _exit(3);
}

void events_open(const char *path)
{
    int size = snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    int own = snprintf(mine.sun_path, sizeof(mine.sun_path), "%.80s.%d", path, (int)getpid());

    if (size >= (int)sizeof(to.sun_path) || own >= (int)sizeof(mine.sun_path)) {
        die("the path of the events is too long");
    }
    out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    orders_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (out < 0 || orders_fd < 0 ||
        bind(orders_fd, (const struct sockaddr *)&mine, sizeof(mine)) != 0) {
        die("socket");
    }
}

void events_close(void)
{
    (void)unlink(mine.sun_path);
}

const char *events_mine(void)
{
    return mine.sun_path;
}

void events_index_set(uint32_t index)
{
    my_index = index;
}

void event(const char *format, ...)
{
    char line[LINE_ROOM];
    int at = snprintf(line, sizeof(line), "%d %d ", (int)getpid(), (int)my_index);
    va_list args;
    ssize_t rc;

    va_start(args, format);
    at += vsnprintf(line + at, sizeof(line) - (size_t)at, format, args);
    va_end(args);
    if (at >= (int)sizeof(line)) {
        at = (int)sizeof(line) - 1;
    }
    do {
        rc = sendto(out, line, (size_t)at, 0, (const struct sockaddr *)&to, sizeof(to));
    } while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        die("sendto");
    }
}

ssize_t order_take(char *order, size_t room, int flags)
{
    ssize_t size = recv(orders_fd, order, room - 1, flags);

    order[size > 0 ? size : 0] = '\0';
    return size;
}
