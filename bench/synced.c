/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that survive the host, one at a time on each of some connections: to a service that keeps
 * a journal, or to the barest server that appends what it reads and syncs once per turn. The same
 * requests by the same generator.
 *
 *   synced bare FOLDER CONNECTIONS MILLISECONDS
 *   synced reserved FOLDER CONNECTIONS MILLISECONDS
 *   synced muster ADDRESS CONNECTIONS MILLISECONDS
 *   synced disk FOLDER PROCESSES MILLISECONDS
 *
 * `reserved` is the bare server with one thing of the service's: room reserved ahead, so that a
 * sync changes data only and not the size of the file. `disk` is nothing but such appends, by some
 * processes at a time, each to a file of its own. */
#define _GNU_SOURCE
#include "measure.h"
#include "wire.h"

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
    PATH_SIZE = 4096,
    RECORD_SIZE = 64, /* of `disk` */
    SAMPLES_MAX = 1 << 18,
    CHUNK = 4 << 20 /* the service's */
};

struct connection {
    int fd;
    uint64_t id; /* of the last request */
    size_t have;
    unsigned char reply[MESSAGE_MAX];
};

static struct connection connections[CONNECTIONS_MAX];

static void send_put(struct connection *connection)
{
    static const char value[16] = "a small value";
    struct wire_message put;
    char key[32];
    int size = snprintf(key, sizeof key, "bench-%d", connection->fd);

    put = wire_put_of(key, (size_t)size, value, sizeof value);
    wire_send(connection->fd, ++connection->id, WIRE_WRITE, &put);
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
    if (connection->have < WIRE_HEAD || connection->have < wire_frame_size(connection->reply)) {
        return false;
    }
    connection->have = 0;
    return true;
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
    int poller = epoll_create1(EPOLL_CLOEXEC);
    uint64_t begin, end, done = 0;
    double us;

    for (long i = 0; i < count; i++) {
        struct connection *connection = &connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

        connection->fd = wire_connect(&(const struct wire_address){.port = port});
        if (greeting) {
            const struct wire_session session = {.number = (uint64_t)i + 1};

            wire_greet(connection->fd, &session);
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

static struct log open_log(const char *folder, bool reserves)
{
    char path[PATH_SIZE];
    struct log log = {.reserves = reserves};

    (void)snprintf(path, sizeof path, "%s/bare.%ld.log", folder, (long)getpid());
    log.file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (log.file < 0) {
        die(path);
    }
    return log;
}

static _Noreturn void bare_server(int listener, const char *folder, long count, bool reserves)
{
    struct log log = open_log(folder, reserves);
    int poller = epoll_create1(0), on = 1;

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

/* ---- the disk alone ---- */

static size_t append_until(struct log *log, uint64_t end, uint64_t *sample_ns)
{
    static const char record[RECORD_SIZE];
    uint64_t begin = now_ns();
    size_t done = 0;

    while (begin < end && done < SAMPLES_MAX) {
        append(log, record, sizeof record);
        sample_ns[done] = now_ns() - begin;
        begin += sample_ns[done++];
    }
    return done;
}

/* The first one tells its times. */
static void disk(const char *folder, long count, long milliseconds)
{
    static uint64_t sample_ns[SAMPLES_MAX];
    uint64_t begin = now_ns() + (uint64_t)WARM_MS * 1000000u;
    bool first = true;
    struct log log;
    size_t done;

    for (long i = 1; first && i < count; i++) {
        first = fork() != 0;
    }
    log = open_log(folder, true);
    (void)append_until(&log, begin, sample_ns);
    done = append_until(&log, begin + (uint64_t)milliseconds * 1000000u, sample_ns);
    if (!first) {
        _exit(0);
    }
    while (wait(NULL) > 0) {
    }
    report("synced", sample_ns, done);
}

int main(int argc, char **argv)
{
    const char *what = argc == 5 ? argv[1] : "";
    bool is_muster = strcmp(what, "muster") == 0, is_disk = strcmp(what, "disk") == 0;
    bool reserves = strcmp(what, "reserved") == 0, is_bare = strcmp(what, "bare") == 0 || reserves;
    long count = 0, milliseconds = 0, port = 0;

    if ((!is_muster && !is_disk && !is_bare) || !parse_number(argv[3], &count) || count < 1 ||
        count > CONNECTIONS_MAX || !parse_number(argv[4], &milliseconds) ||
        (is_muster && !parse_number(argv[2], &port))) {
        (void)fprintf(stderr,
                      "usage: synced bare|reserved FOLDER | muster ADDRESS  CONNECTIONS MS\n"
                      "       synced disk FOLDER PROCESSES MS\n");
        return 2;
    }
    if (is_muster) {
        generate((uint16_t)port, count, milliseconds, true);
    } else if (is_disk) {
        disk(argv[2], count, milliseconds);
    } else {
        bare(argv[2], count, milliseconds, reserves);
    }
    return 0;
}
