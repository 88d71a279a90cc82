/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a poll loop of its own never blocks in muster: the client adds one descriptor to
 * the loop, and started calls end in a callback of the dispatch. Here each line of stdin becomes a
 * key of the job. However slow the service is, the next line is read at once.
 *
 *   printf 'one\ntwo\nthree\n' | async_poll */
#include <muster/muster.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096 };

static muster_client *client;
static int lines, open_calls;

static void die(const struct muster_error *err)
{
    (void)fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void line_is_there(void *ctx, muster_call *call)
{
    struct muster_error err;

    (void)ctx;
    if (muster_call_wait(call, 0, &err) != MUSTER_OK) { /* it is over: this does not wait */
        die(&err);
    }
    muster_call_free(call);
    open_calls--;
}

/* Key and value are this function's again when the start returns. */
static void put_line(const char *text, size_t size)
{
    struct muster_error err;
    muster_call *call = NULL;
    char key[32];

    (void)snprintf(key, sizeof(key), "line/%d", ++lines);
    if (muster_key_put_start(client, key, (struct muster_slice){text, size}, NULL, -1, NULL, &call,
                             &err) != MUSTER_OK) {
        die(&err);
    }
    muster_call_on_done(call, line_is_there, NULL);
    open_calls++;
}

/* False: that was the last one. A line longer than the buffer is split. */
static bool read_lines(void)
{
    static char room[ROOM];
    static size_t used;
    ssize_t got = read(STDIN_FILENO, room + used, sizeof(room) - used);
    char *begin = room;
    char *end;

    used += got > 0 ? (size_t)got : 0;
    while ((end = memchr(begin, '\n', used)) != NULL) {
        put_line(begin, (size_t)(end - begin));
        used -= (size_t)(end + 1 - begin);
        begin = end + 1;
    }
    if (used == sizeof(room) || (got <= 0 && used > 0)) {
        put_line(begin, used);
        used = 0;
    }
    memmove(room, begin, used);
    return got > 0;
}

int main(void)
{
    struct pollfd polled[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
    struct muster_error err;

    if (muster_client_open(&client, NULL, 10000, &err) != MUSTER_OK || /* before the loop */
        muster_client_fd(client, &polled[1].fd, &err) != MUSTER_OK) {
        die(&err);
    }
    while (polled[0].fd >= 0 || open_calls > 0) {
        if (poll(polled, 2, -1) < 0) {
            continue;
        }
        if (polled[0].revents != 0 && !read_lines()) {
            polled[0].fd = -1;
        }
        if (polled[1].revents != 0) {
            muster_client_dispatch(client);
        }
    }
    printf("%d lines are keys of the job\n", lines);
    muster_client_close(client);
    return 0;
}
