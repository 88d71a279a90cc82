/* SPDX-License-Identifier: Apache-2.0 */
/* Requests per second of a server, whatever it is: one thread, epoll, and on each connection so
 * many requests under way; when all are answered, the next ones leave in one write.
 *
 *   generator [-c CPU] echo|redis|muster ADDRESS CONNECTIONS DEPTH MILLISECONDS
 *
 * echo: messages of 64 bytes, which come back. redis, muster: a key of 16 bytes is set to a value
 * of 64 bytes, one key for each request under way on each connection. */
#define _GNU_SOURCE
#include "measure.h"
#include "wire.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 1024,
    DEPTH_MAX = 63, /* the window of a session holds 64 */
    KEY_BYTES = 16,
    VALUE_BYTES = 64,
    ECHO_BYTES = 64,
    REQUEST_MAX = 192,
    READ_BYTES = 16384,
    WARM_MS = 200
};

struct connection {
    int fd;
    int pending;             /* requests that are not answered yet */
    size_t have;             /* bytes of an answer that is not whole */
    uint64_t id;             /* muster: of the last request */
    unsigned char rest[256]; /* those bytes */
    struct wire_message fields[DEPTH_MAX];
};

static struct connection connections[CONNECTIONS_MAX];
static long count, depth;

static const unsigned char value[VALUE_BYTES] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";

static void key_of(const struct connection *connection, unsigned number, char key[KEY_BYTES + 1])
{
    unsigned own = (unsigned)(connection - connections);

    (void)snprintf(key, KEY_BYTES + 1, "bench-%04u-%05u", own % 10000u, number % 100000u);
}

/* ---- the protocols ---- */

static size_t echo_requests(struct connection *connection, unsigned char *out)
{
    (void)connection;
    memset(out, 'x', (size_t)depth * ECHO_BYTES);
    return (size_t)depth * ECHO_BYTES;
}

static size_t echo_answer(const unsigned char *bytes, size_t size)
{
    (void)bytes;
    return size < ECHO_BYTES ? 0 : ECHO_BYTES;
}

static void redis_begin(struct connection *connection)
{
    for (unsigned i = 0; i < (unsigned)depth; i++) {
        struct wire_message *fields = &connection->fields[i];
        char key[KEY_BYTES + 1];

        key_of(connection, i, key);
        fields->size = (size_t)snprintf((char *)fields->bytes, sizeof fields->bytes,
                                        "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", KEY_BYTES, key,
                                        VALUE_BYTES);
        memcpy(fields->bytes + fields->size, value, VALUE_BYTES);
        memcpy(fields->bytes + fields->size + VALUE_BYTES, "\r\n", 2);
        fields->size += VALUE_BYTES + 2;
    }
}

static size_t redis_requests(struct connection *connection, unsigned char *out)
{
    unsigned char *at = out;

    for (int i = 0; i < depth; i++) {
        memcpy(at, connection->fields[i].bytes, connection->fields[i].size);
        at += connection->fields[i].size;
    }
    return (size_t)(at - out);
}

static size_t redis_answer(const unsigned char *bytes, size_t size)
{
    static const char ok[] = "+OK\r\n";

    if (size < sizeof ok - 1) {
        return 0;
    }
    if (memcmp(bytes, ok, sizeof ok - 1) != 0) {
        (void)fprintf(stderr, "generator: redis did not say OK\n");
        exit(1);
    }
    return sizeof ok - 1;
}

static void muster_begin(struct connection *connection)
{
    const struct wire_session session = {.number = (uint64_t)(connection - connections) + 1};

    wire_greet(connection->fd, &session);
    for (unsigned i = 0; i < (unsigned)depth; i++) {
        char key[KEY_BYTES + 1];

        key_of(connection, i, key);
        connection->fields[i] = wire_put_of(key, KEY_BYTES, value, VALUE_BYTES);
    }
}

static size_t muster_requests(struct connection *connection, unsigned char *out)
{
    unsigned char *at = out;

    for (int i = 0; i < depth; i++) {
        at += wire_request(at, ++connection->id, WIRE_WRITE, &connection->fields[i]);
    }
    return (size_t)(at - out);
}

static size_t muster_answer(const unsigned char *bytes, size_t size)
{
    if (size < WIRE_HEAD || size < wire_frame_size(bytes)) {
        return 0;
    }
    if (wire_reply_of(bytes, wire_frame_size(bytes)).status != 0) {
        (void)fprintf(stderr, "generator: a put was refused\n");
        exit(1);
    }
    return wire_frame_size(bytes);
}

static const struct protocol {
    const char *name;
    void (*begin)(struct connection *connection);
    size_t (*requests)(struct connection *connection, unsigned char *out);
    size_t (*answer)(const unsigned char *bytes, size_t size); /* of one that is whole, or 0 */
} protocols[] = {{"echo", NULL, echo_requests, echo_answer},
                 {"redis", redis_begin, redis_requests, redis_answer},
                 {"muster", muster_begin, muster_requests, muster_answer}};

static const struct protocol *protocol;

/* ---- the loop ---- */

static void ask(struct connection *connection)
{
    unsigned char out[DEPTH_MAX * REQUEST_MAX];
    size_t size = protocol->requests(connection, out);

    connection->pending = (int)depth;
    if (!write_full(connection->fd, out, size)) {
        die("send");
    }
}

/* How many answers came. */
static int receive(struct connection *connection)
{
    unsigned char data[sizeof connection->rest + READ_BYTES];
    unsigned char *at = data;
    ssize_t got;
    size_t size;
    size_t one;
    int answers = 0;

    memcpy(data, connection->rest, connection->have);
    got = read(connection->fd, data + connection->have, READ_BYTES);
    if (got <= 0) {
        die("receive");
    }
    size = connection->have + (size_t)got;
    while ((one = protocol->answer(at, size)) > 0) {
        at += one;
        size -= one;
        answers++;
    }
    if (size > sizeof connection->rest || answers > connection->pending) {
        (void)fprintf(stderr, "generator: an answer to no question\n");
        exit(1);
    }
    memcpy(connection->rest, at, size);
    connection->have = size;
    connection->pending -= answers;
    return answers;
}

static uint64_t drive_until(int poller, uint64_t end_ns)
{
    uint64_t done = 0;

    while (now_ns() < end_ns) {
        struct epoll_event events[CONNECTIONS_MAX];
        int ready = epoll_wait(poller, events, CONNECTIONS_MAX, 1000);

        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;

            done += (uint64_t)receive(connection);
            if (connection->pending == 0) {
                ask(connection);
            }
        }
    }
    return done;
}

static int begin(const struct wire_address *address)
{
    int poller = epoll_create1(EPOLL_CLOEXEC);

    for (long i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};

        connections[i].fd = wire_connect(address);
        if (protocol->begin) {
            protocol->begin(&connections[i]);
        }
        (void)epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event);
    }
    for (long i = 0; i < count; i++) {
        ask(&connections[i]);
    }
    return poller;
}

static double own_cpu_us(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void generate(const struct wire_address *address, long milliseconds)
{
    int poller = begin(address);
    uint64_t begin_ns = now_ns() + (uint64_t)WARM_MS * 1000000u;
    uint64_t done;
    double cpu_us;
    double took_us;

    (void)drive_until(poller, begin_ns);
    cpu_us = own_cpu_us();
    begin_ns = now_ns();
    done = drive_until(poller, begin_ns + (uint64_t)milliseconds * 1000000u);
    took_us = (double)(now_ns() - begin_ns) / 1e3;
    printf("{\"name\":\"%s\",\"connections\":%ld,\"depth\":%ld,\"done\":%llu,\"per_second\":%.0f,"
           "\"generator_cpu\":%.2f}\n",
           protocol->name, count, depth, (unsigned long long)done, (double)done / took_us * 1e6,
           (own_cpu_us() - cpu_us) / took_us);
}

static void stay_on(long cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        die("sched_setaffinity");
    }
}

int main(int argc, char **argv)
{
    long cpu = -1;
    struct wire_address address;
    long milliseconds = 0;

    if (argc == 8 && strcmp(argv[1], "-c") == 0 && parse_number(argv[2], &cpu)) {
        argv += 2;
        argc -= 2;
    }
    for (size_t i = 0; argc == 6 && i < sizeof protocols / sizeof *protocols; i++) {
        if (strcmp(argv[1], protocols[i].name) == 0) {
            protocol = &protocols[i];
        }
    }
    if (!protocol || !wire_address_parse(&address, argv[2]) || !parse_number(argv[3], &count) ||
        count < 1 || count > CONNECTIONS_MAX || !parse_number(argv[4], &depth) || depth < 1 ||
        depth > DEPTH_MAX || !parse_number(argv[5], &milliseconds)) {
        (void)fprintf(stderr,
                      "usage: generator [-c CPU] echo|redis|muster ADDRESS CONNECTIONS DEPTH "
                      "MILLISECONDS\n");
        return 2;
    }
    if (cpu >= 0) {
        stay_on(cpu);
    }
    generate(&address, milliseconds);
    return 0;
}
