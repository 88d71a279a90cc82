/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "anchor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 256, CONNECTIONS_MAX = 1024, READ_BYTES = 65536 };

/* ---- connections ---- */

static int listen_tcp(struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)address, length) != 0 || listen(listener, 1024) != 0 ||
        getsockname(listener, (struct sockaddr *)address, &length) != 0) {
        die("listen");
    }
    return listener;
}

static void no_delay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static int connect_tcp(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        die("connect");
    }
    no_delay(fd);
    return fd;
}

static int accept_tcp(int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) {
        die("accept");
    }
    no_delay(fd);
    return fd;
}

void anchor_make_pair(const char *kind, int fd[2])
{
    if (strcmp(kind, "unix") == 0) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0) {
            die("socketpair");
        }
        return;
    }
    struct sockaddr_in address;
    int listener = listen_tcp(&address);
    fd[0] = connect_tcp(&address);
    fd[1] = accept_tcp(listener);
    close(listener);
}

static void watch(int poller, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) != 0) {
        die("epoll_ctl");
    }
}

/* ---- ping-pong ---- */

static int poller_on(int fd)
{
    int poller = epoll_create1(0);
    watch(poller, fd);
    return poller;
}

static bool receive(int fd, int poller, char *message)
{
    struct epoll_event event;
    if (poller >= 0 && epoll_wait(poller, &event, 1, -1) < 1) {
        return false;
    }
    return read_full(fd, message, MESSAGE_BYTES);
}

static void answer(int fd, bool use_epoll)
{
    char message[MESSAGE_BYTES];
    int poller = use_epoll ? poller_on(fd) : -1;
    while (receive(fd, poller, message) && write_full(fd, message, MESSAGE_BYTES)) {
    }
    _exit(0);
}

static void ask(int fd, bool use_epoll, unsigned idle_us, uint64_t *sample, size_t count)
{
    char message[MESSAGE_BYTES] = {0};
    int poller = use_epoll ? poller_on(fd) : -1;
    size_t warm = idle_us > 0 ? 10 : 1000;
    for (size_t i = 0; i < warm + count; i++) {
        if (idle_us > 0) {
            pause_us(idle_us);
        }
        uint64_t begin = now_ns();
        if (!write_full(fd, message, MESSAGE_BYTES) || !receive(fd, poller, message)) {
            die("ping-pong");
        }
        if (i >= warm) {
            sample[i - warm] = now_ns() - begin;
        }
    }
}

void anchor_pingpong(const char *kind, bool use_epoll, unsigned idle_us, size_t count)
{
    int fd[2];
    char name[64];
    uint64_t *sample = calloc(count, sizeof *sample);
    anchor_make_pair(kind, fd);
    pid_t child = fork();
    if (child == 0) {
        close(fd[0]);
        pin(true);
        answer(fd[1], use_epoll);
    }
    close(fd[1]);
    pin(false);
    ask(fd[0], use_epoll, idle_us, sample, count);
    close(fd[0]);
    waitpid(child, NULL, 0);
    (void)snprintf(name, sizeof name, "%s_%s%s", kind, use_epoll ? "epoll" : "block",
                   idle_us > 0 ? "_cold" : "");
    report(name, sample, count);
    free(sample);
}

/* ---- echo ---- */

static void echo_server(int listener, int connections)
{
    static char data[READ_BYTES];
    struct epoll_event event[EVENTS];
    int poller = epoll_create1(0);
    int open = 0;
    for (; open < connections; open++) {
        watch(poller, accept_tcp(listener));
    }
    while (open > 0) {
        int count = epoll_wait(poller, event, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            ssize_t got = read(event[i].data.fd, data, sizeof data);
            if (got <= 0) {
                close(event[i].data.fd);
                open--;
            } else if (!write_full(event[i].data.fd, data, (size_t)got)) {
                die("echo server");
            }
        }
    }
    _exit(0);
}

struct stream {
    int fd;
    size_t have; /* bytes of the answer so far */
};

/* Reads from one stream; sends the next requests when all before are answered. */
static uint64_t echo_turn(struct stream *stream, size_t want)
{
    static char data[READ_BYTES];
    ssize_t got = read(stream->fd, data, sizeof data);
    if (got <= 0) {
        die("echo");
    }
    stream->have += (size_t)got;
    if (stream->have < want) {
        return 0;
    }
    stream->have = 0;
    if (!write_full(stream->fd, data, want)) {
        die("echo");
    }
    return want / MESSAGE_BYTES;
}

static double cpu_us(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1e6 +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

static uint64_t echo_client(const struct sockaddr_in *address, int connections, size_t want,
                            double seconds, double *took)
{
    static char data[READ_BYTES];
    static struct stream stream[CONNECTIONS_MAX];
    struct epoll_event event[EVENTS];
    int poller = epoll_create1(0);
    for (int i = 0; i < connections; i++) {
        stream[i] = (struct stream){.fd = connect_tcp(address)};
        struct epoll_event on = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(poller, EPOLL_CTL_ADD, stream[i].fd, &on);
    }
    uint64_t done = 0;
    const uint64_t begin = now_ns();
    const uint64_t end = begin + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < connections; i++) {
        if (!write_full(stream[i].fd, data, want)) {
            die("echo");
        }
    }
    while (now_ns() < end) {
        int count = epoll_wait(poller, event, EVENTS, 1000);
        for (int i = 0; i < count; i++) {
            done += echo_turn(&stream[event[i].data.u32], want);
        }
    }
    *took = (double)(now_ns() - begin) / 1e9;
    for (int i = 0; i < connections; i++) {
        close(stream[i].fd);
    }
    return done;
}

void anchor_echo(int connections, int depth, double seconds)
{
    struct sockaddr_in address;
    struct rusage server;
    struct rusage client;
    double took = 0.0;
    if (connections > CONNECTIONS_MAX || depth * MESSAGE_BYTES > READ_BYTES) {
        (void)fprintf(stderr, "anchor: at most %d connections, depth %d\n", CONNECTIONS_MAX,
                      READ_BYTES / MESSAGE_BYTES);
        exit(2);
    }
    int listener = listen_tcp(&address);
    pid_t child = fork();
    if (child == 0) {
        pin(true);
        echo_server(listener, connections);
    }
    pin(false);
    uint64_t done =
        echo_client(&address, connections, (size_t)depth * MESSAGE_BYTES, seconds, &took);
    wait4(child, NULL, 0, &server);
    getrusage(RUSAGE_SELF, &client);
    printf("{\"name\":\"echo\",\"connections\":%d,\"depth\":%d,\"per_second\":%.0f,"
           "\"server_cpu_us\":%.3f,\"client_cpu_us\":%.3f}\n",
           connections, depth, (double)done / took, cpu_us(&server) / (double)done,
           cpu_us(&client) / (double)done);
}

/* ---- barrier ---- */

/* Waits for `first` messages, then for one of each, and so on; each time it tells all. */
static void barrier_server(int listener, int count, int first)
{
    struct epoll_event event[EVENTS];
    char message[MESSAGE_BYTES];
    int poller = epoll_create1(0);
    int *fd = calloc((size_t)count, sizeof *fd);
    int awaited[2] = {first, count};
    int arrived = 0;
    int turn = 0;
    for (int i = 0; i < count; i++) {
        fd[i] = accept_tcp(listener);
        watch(poller, fd[i]);
    }
    for (;;) {
        int ready = epoll_wait(poller, event, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            if (!read_full(event[i].data.fd, message, MESSAGE_BYTES)) {
                _exit(0); /* the first that leaves ends it */
            }
            arrived++;
        }
        if (arrived == awaited[turn]) {
            arrived = 0;
            turn = !turn;
            for (int i = 0; i < count; i++) {
                write_full(fd[i], message, MESSAGE_BYTES);
            }
        }
    }
}

static void barrier_rounds(const int *fd, int count, uint64_t *sample, size_t rounds)
{
    const size_t warm = 3;
    char message[MESSAGE_BYTES] = {0};
    for (size_t round = 0; round < warm + rounds; round++) {
        uint64_t begin = now_ns();
        for (int i = 0; i < count; i++) {
            if (!write_full(fd[i], message, MESSAGE_BYTES)) {
                die("barrier");
            }
        }
        for (int i = 0; i < count; i++) {
            if (!read_full(fd[i], message, MESSAGE_BYTES)) {
                die("barrier");
            }
        }
        if (round >= warm) {
            sample[round - warm] = now_ns() - begin;
        }
    }
}

void anchor_barrier(int count, bool one_process, size_t rounds)
{
    struct sockaddr_in address;
    char name[64];
    char last;
    int listener = listen_tcp(&address);
    uint64_t *sample = calloc(rounds, sizeof *sample);
    int *fd = calloc((size_t)count, sizeof *fd);
    int mine = one_process ? count : 1;
    bool first = true;
    if (fork() == 0) {
        barrier_server(listener, count, count);
    }
    for (int i = 1; i < count && first && !one_process; i++) {
        first = fork() != 0;
    }
    for (int i = 0; i < mine; i++) {
        fd[i] = connect_tcp(&address);
    }
    barrier_rounds(fd, mine, sample, rounds);
    if (!first) {
        read_full(fd[0], &last, 1); /* stay until the server ends */
        _exit(0);
    }
    close(fd[0]);
    while (wait(NULL) > 0) {
    }
    (void)snprintf(name, sizeof name, "barrier_%d_%s", count,
                   one_process ? "connections" : "processes");
    report(name, sample, rounds);
    free(sample);
    free(fd);
}

/* ---- news for all, and then a barrier ---- */

struct news {
    _Atomic uint64_t known_ns[CONNECTIONS_MAX];
    _Atomic size_t known; /* how often somebody knew */
};

static void news_member(struct news *news, int fd, int member)
{
    char message[MESSAGE_BYTES] = {0};
    if (!read_full(fd, message, MESSAGE_BYTES) || !write_full(fd, message, MESSAGE_BYTES) ||
        !read_full(fd, message, MESSAGE_BYTES)) {
        _exit(0); /* the server ended */
    }
    atomic_store(&news->known_ns[member], now_ns());
    atomic_fetch_add(&news->known, 1);
}

/* The first member gives them, when the others have waited for a while. */
static uint64_t give_news(struct news *news, int fd, int count, size_t round)
{
    char message[MESSAGE_BYTES] = {0};
    uint64_t last = 0;
    pause_us(30000);
    const uint64_t begin = now_ns();
    if (!write_full(fd, message, MESSAGE_BYTES)) {
        die("news");
    }
    news_member(news, fd, 0);
    while (atomic_load(&news->known) < (size_t)count * (round + 1)) {
        pause_us(1000);
    }
    for (int i = 0; i < count; i++) {
        const uint64_t known = atomic_load(&news->known_ns[i]);
        last = known > last ? known : last;
    }
    return last - begin;
}

/* Over Unix sockets, as the ranks of one machine speak to their service; the name needs no file. */
static int listen_unix(struct sockaddr_un *address)
{
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "muster-anchor-%d",
                   (int)getpid());
    if (bind(listener, (struct sockaddr *)address, sizeof *address) != 0 ||
        listen(listener, 1024) != 0) {
        die("listen");
    }
    return listener;
}

static int connect_unix(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        die("connect");
    }
    return fd;
}

void anchor_news(int count, size_t rounds)
{
    struct sockaddr_un address;
    struct news *news = shared_memory(sizeof *news);
    uint64_t *sample = calloc(rounds, sizeof *sample);
    char name[64];
    int listener = listen_unix(&address);
    if (fork() == 0) {
        barrier_server(listener, count, 1);
    }
    for (int i = 1; i < count; i++) {
        if (fork() == 0) {
            int fd = connect_unix(&address);
            for (;;) {
                news_member(news, fd, i);
            }
        }
    }
    int fd = connect_unix(&address);
    for (size_t round = 0; round < rounds; round++) {
        sample[round] = give_news(news, fd, count, round);
    }
    close(fd); /* the first that leaves ends it */
    while (wait(NULL) > 0) {
    }
    (void)snprintf(name, sizeof name, "news_%d", count);
    report(name, sample, rounds);
    free(sample);
}

/* ---- set-up ---- */

void anchor_connect(size_t count)
{
    struct sockaddr_in address;
    char message[MESSAGE_BYTES] = {0};
    uint64_t *sample = calloc(count, sizeof *sample);
    int listener = listen_tcp(&address);
    pid_t child = fork();
    if (child == 0) {
        pin(true);
        for (size_t i = 0; i < count; i++) {
            int fd = accept_tcp(listener);
            if (!read_full(fd, message, MESSAGE_BYTES) || !write_full(fd, message, MESSAGE_BYTES)) {
                die("connect");
            }
            close(fd);
        }
        _exit(0);
    }
    pin(false);
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = now_ns();
        int fd = connect_tcp(&address);
        if (!write_full(fd, message, MESSAGE_BYTES) || !read_full(fd, message, MESSAGE_BYTES)) {
            die("connect");
        }
        sample[i] = now_ns() - begin;
        close(fd);
    }
    waitpid(child, NULL, 0);
    report("connect_first_reply", sample, count);
    free(sample);
}
