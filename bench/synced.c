/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that survive the host, one at a time on each of some connections: to a service that keeps
 * a journal, or to the barest server that appends what it reads and syncs once per turn. The same
 * requests by the same generator.
 *
 *   synced bare FOLDER CONNECTIONS MILLISECONDS
 *   synced reserved FOLDER CONNECTIONS MILLISECONDS
 *   synced muster PORT CONNECTIONS MILLISECONDS
 *
 * `reserved` is the bare server with one thing of the service's: room reserved ahead, so that a
 * sync changes data only and not the size of the file. */
#define _GNU_SOURCE
#include "measure.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 1024,
    MESSAGE_MAX = 256,
    WARM_MS = 300,
    RECORD_MAX = 4096,
    CHUNK = 4 << 20 /* the service's */
};

struct connection {
    int fd;
    uint64_t id; /* of the last request */
    size_t have;
    unsigned char reply[MESSAGE_MAX];
};

static struct connection connections[CONNECTIONS_MAX];

/* ---- messages: a length, and fields of the schema ---- */

struct message {
    unsigned char bytes[MESSAGE_MAX];
    size_t size;
};

static void put_varint(struct message *message, uint64_t number)
{
    for (; number > 0x7f; number >>= 7) {
        message->bytes[message->size++] = (unsigned char)(number | 0x80);
    }
    message->bytes[message->size++] = (unsigned char)number;
}

static void put_number(struct message *message, unsigned field, uint64_t number)
{
    put_varint(message, field << 3);
    put_varint(message, number);
}

static void put_bytes(struct message *message, unsigned field, const void *data, size_t size)
{
    put_varint(message, field << 3 | 2);
    put_varint(message, size);
    memcpy(message->bytes + message->size, data, size);
    message->size += size;
}

static void put_fixed(struct message *message, unsigned field, uint64_t number)
{
    put_varint(message, field << 3 | 1);
    memcpy(message->bytes + message->size, &number, sizeof number);
    message->size += sizeof number;
}

static void send_frame(struct connection *connection, const struct message *message)
{
    unsigned char frame[4 + MESSAGE_MAX];
    uint32_t size = htonl((uint32_t)message->size);

    memcpy(frame, &size, 4);
    memcpy(frame + 4, message->bytes, message->size);
    if (!write_full(connection->fd, frame, 4 + message->size)) {
        die("send");
    }
}

static void send_put(struct connection *connection)
{
    static const char value[16] = "a small value";
    struct message operation = {.size = 0}, write = {.size = 0}, request = {.size = 0};
    char key[32];
    int size = snprintf(key, sizeof key, "bench-%d", connection->fd);

    connection->id++;
    put_number(&operation, 1, 2);
    put_bytes(&operation, 3, key, (size_t)size);
    put_bytes(&operation, 4, value, sizeof value);
    put_bytes(&write, 2, operation.bytes, operation.size);
    put_number(&request, 1, connection->id);
    put_number(&request, 2, connection->id);
    put_bytes(&request, 22, write.bytes, write.size);
    send_frame(connection, &request);
}

static size_t frame_size(const struct connection *connection)
{
    uint32_t size;

    memcpy(&size, connection->reply, 4);
    return 4 + ntohl(size);
}

/* Whether a whole reply has come. */
static bool receive(struct connection *connection)
{
    ssize_t got = read(connection->fd, connection->reply + connection->have,
                       sizeof connection->reply - connection->have);

    if (got <= 0) {
        die("receive");
    }
    connection->have += (size_t)got;
    if (connection->have < 4 || connection->have < frame_size(connection)) {
        return false;
    }
    connection->have = 0;
    return true;
}

static void greet(struct connection *connection, uint64_t number)
{
    static const unsigned char preamble[8] = {'M', 'U', 'S', 'T', 'E', 'R', 0, 1};
    struct message hello = {.size = 0}, open = {.size = 0}, request = {.size = 0};

    if (!write_full(connection->fd, preamble, sizeof preamble)) {
        die("send");
    }
    put_number(&hello, 1, 1);
    put_number(&hello, 2, 1);
    send_frame(connection, &hello);
    while (!receive(connection)) {
    }
    put_fixed(&open, 1, 77);
    put_fixed(&open, 2, number);
    put_bytes(&open, 3, "bench", 5);
    put_number(&open, 5, UINT32_MAX);
    put_bytes(&open, 12, "here", 4);
    put_number(&request, 1, 1);
    put_number(&request, 2, 1);
    put_bytes(&request, 17, open.bytes, open.size);
    send_frame(connection, &request);
    while (!receive(connection)) {
    }
}

/* ---- the generator ---- */

static uint64_t serve_ready(int poller, bool going)
{
    struct epoll_event events[CONNECTIONS_MAX];
    int count = epoll_wait(poller, events, CONNECTIONS_MAX, -1);
    uint64_t done = 0;

    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;

        if (receive(connection)) {
            done++;
            if (going) {
                send_put(connection);
            }
        }
    }
    return done;
}

static void generate(uint16_t port, long count, long milliseconds, bool greeting)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int poller = epoll_create1(EPOLL_CLOEXEC), on = 1;
    uint64_t begin, end, done = 0;
    double us;

    for (long i = 0; i < count; i++) {
        struct connection *connection = &connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

        connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0) {
            die("connect");
        }
        (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (greeting) {
            greet(connection, (uint64_t)i + 1);
        }
        (void)epoll_ctl(poller, EPOLL_CTL_ADD, connection->fd, &event);
    }
    for (long i = 0; i < count; i++) {
        send_put(&connections[i]);
    }
    begin = now_ns() + (uint64_t)WARM_MS * 1000000u;
    while (now_ns() < begin) {
        (void)serve_ready(poller, true);
    }
    begin = now_ns();
    end = begin + (uint64_t)milliseconds * 1000000u;
    while (now_ns() < end) {
        done += serve_ready(poller, true);
    }
    us = (double)(now_ns() - begin) / 1000.0 / (double)done;
    (void)printf("{\"name\": \"synced\", \"per_second\": %.0f, \"p50_us\": %.3f, \"p90_us\": "
                 "%.3f}\n",
                 1e6 / us, us, us);
}

/* ---- the bare server ---- */

struct log {
    int file;
    bool reserves;
    off_t size, reserved;
};

static void append(struct log *log, const void *records, size_t size)
{
    if (log->reserves && log->size + (off_t)size > log->reserved) {
        log->reserved += CHUNK;
        if (fallocate(log->file, 0, 0, log->reserved) != 0) {
            die("reserve");
        }
    }
    if (pwrite(log->file, records, size, log->size) != (ssize_t)size || fdatasync(log->file) != 0) {
        die("append");
    }
    log->size += (off_t)size;
}

static void bare_turn(int poller, struct log *log)
{
    static unsigned char data[CONNECTIONS_MAX][MESSAGE_MAX];
    static unsigned char records[CONNECTIONS_MAX * MESSAGE_MAX];
    struct epoll_event events[CONNECTIONS_MAX];
    ssize_t sizes[CONNECTIONS_MAX];
    int count = epoll_wait(poller, events, CONNECTIONS_MAX, -1);
    size_t all = 0;

    for (int i = 0; i < count; i++) {
        sizes[i] = read(events[i].data.fd, data[i], sizeof data[i]);
        if (sizes[i] <= 0) {
            _exit(0);
        }
        memcpy(records + all, data[i], (size_t)sizes[i]);
        all += (size_t)sizes[i];
    }
    append(log, records, all);
    for (int i = 0; i < count; i++) {
        if (!write_full(events[i].data.fd, data[i], (size_t)sizes[i])) {
            _exit(0);
        }
    }
}

static _Noreturn void bare_server(int listener, const char *folder, long count, bool reserves)
{
    char path[RECORD_MAX];
    struct log log = {.reserves = reserves};
    int poller = epoll_create1(0), on = 1;

    (void)snprintf(path, sizeof path, "%s/bare.log", folder);
    log.file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (log.file < 0) {
        die(path);
    }
    for (long i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN};

        event.data.fd = accept(listener, NULL, NULL);
        (void)setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event);
    }
    for (;;) {
        bare_turn(poller, &log);
    }
}

static void bare(const char *folder, long count, long milliseconds, bool reserves)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pid_t child;

    if (bind(listener, (struct sockaddr *)&address, size) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
        listen(listener, CONNECTIONS_MAX) != 0) {
        die("listen");
    }
    child = fork();
    if (child == 0) {
        bare_server(listener, folder, count, reserves);
    }
    generate(ntohs(address.sin_port), count, milliseconds, false);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    long count = 0, milliseconds = 0, port = 0;
    bool reserves = argc == 5 && strcmp(argv[1], "reserved") == 0;
    bool is_bare = reserves || (argc == 5 && strcmp(argv[1], "bare") == 0);

    if (argc != 5 || !parse_number(argv[3], &count) || count < 1 || count > CONNECTIONS_MAX ||
        !parse_number(argv[4], &milliseconds) || (!is_bare && !parse_number(argv[2], &port))) {
        (void)fprintf(stderr, "usage: synced bare|reserved FOLDER | muster PORT  CONNECTIONS MS\n");
        return 2;
    }
    if (is_bare) {
        bare(argv[2], count, milliseconds, reserves);
    } else {
        generate((uint16_t)port, count, milliseconds, true);
    }
    return 0;
}
