/* SPDX-License-Identifier: Apache-2.0 */
/* The barest servers: one thread, epoll, no protocol. They print their port and serve until they
 * are killed.
 *
 *   bare [-u PATH] echo              what was read is written back
 *   bare [-u PATH] answer BYTES      to whatever is read, so many bytes
 *   bare [-u PATH] barrier COUNT [REQUEST ANSWER]     messages of 64 bytes, or of REQUEST; when
 *                                    COUNT have come, one of 64 or ANSWER to each
 *
 * -u: on a Unix socket there, and its path is what is printed. */
#define _GNU_SOURCE
#include "measure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { EVENTS = 256, READ_BYTES = 65536, MESSAGE_BYTES = 64, MESSAGE_MAX = 4096 };

struct server {
    int listener;
    int poller;
    long number; /* the argument */
    long request, answer;
    int *members;
    long member_count, arrived;
};

static int listen_tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 4096) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        die("listen");
    }
    printf("%u\n", (unsigned)ntohs(address.sin_port));
    (void)fflush(stdout);
    return listener;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 4096) != 0) {
        die(path);
    }
    printf("%s\n", path);
    (void)fflush(stdout);
    return listener;
}

static int welcome(struct server *server)
{
    int on = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = accept(server->listener, NULL, NULL)};

    if (event.data.fd < 0 || epoll_ctl(server->poller, EPOLL_CTL_ADD, event.data.fd, &event) != 0) {
        die("accept");
    }
    (void)setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return event.data.fd;
}

static void echo(struct server *server, int fd)
{
    static char data[READ_BYTES];
    ssize_t got = read(fd, data, sizeof data);
    size_t size = server->number > 0 ? (size_t)server->number : (size_t)got;

    if (got <= 0) {
        close(fd);
    } else if (!write_full(fd, data, size)) {
        die("write");
    }
}

static void meet(struct server *server, int fd)
{
    static char message[MESSAGE_MAX];

    if (!read_full(fd, message, (size_t)server->request)) {
        exit(0); /* the first that leaves ends it */
    }
    if (++server->arrived < server->number) {
        return;
    }
    server->arrived = 0;
    for (long i = 0; i < server->member_count; i++) {
        (void)write_full(server->members[i], message, (size_t)server->answer);
    }
}

static _Noreturn void serve(struct server *server, void (*take)(struct server *, int fd))
{
    struct epoll_event own = {.events = EPOLLIN, .data.fd = server->listener};

    (void)epoll_ctl(server->poller, EPOLL_CTL_ADD, server->listener, &own);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(server->poller, events, EVENTS, -1);

        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != server->listener) {
                take(server, events[i].data.fd);
            } else if (server->members && server->member_count < server->number) {
                server->members[server->member_count++] = welcome(server);
            } else {
                (void)welcome(server);
            }
        }
    }
}

int main(int argc, char **argv)
{
    struct server server = {.request = MESSAGE_BYTES, .answer = MESSAGE_BYTES};
    const char *path = NULL;
    bool barrier;
    bool answer;

    if (argc > 2 && strcmp(argv[1], "-u") == 0) {
        path = argv[2];
        argv += 2;
        argc -= 2;
    }
    barrier = argc >= 3 && strcmp(argv[1], "barrier") == 0;
    if (barrier && argc == 5 && parse_number(argv[3], &server.request) &&
        parse_number(argv[4], &server.answer) && server.request <= MESSAGE_MAX &&
        server.answer <= MESSAGE_MAX) {
        argc = 3;
    }
    barrier = barrier && argc == 3;
    answer = argc == 3 && strcmp(argv[1], "answer") == 0;
    if (!(argc == 2 && strcmp(argv[1], "echo") == 0) &&
        !((barrier || answer) && parse_number(argv[2], &server.number) && server.number > 0 &&
          server.number <= READ_BYTES)) {
        (void)fprintf(stderr, "usage: bare [-u PATH] echo | answer BYTES | "
                              "barrier COUNT [REQUEST ANSWER]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    all_descriptors();
    if (barrier) {
        server.members = calloc((size_t)server.number, sizeof *server.members);
    }
    server.poller = epoll_create1(0);
    server.listener = path ? listen_unix(path) : listen_tcp();
    serve(&server, barrier ? meet : echo);
}
