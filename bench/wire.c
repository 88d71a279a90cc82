/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "measure.h"

enum { VARINT = 0, FIXED = 1, BYTES = 2, COMMAND_BASE = 16 };

/* ---- out ---- */

unsigned char *wire_varint(unsigned char *at, uint64_t number)
{
    for (; number > 0x7f; number >>= 7) {
        *at++ = (unsigned char)(number | 0x80);
    }
    *at++ = (unsigned char)number;
    return at;
}

static void add_varint(struct wire_message *message, uint64_t number)
{
    message->size = (size_t)(wire_varint(message->bytes + message->size, number) - message->bytes);
}

void wire_number(struct wire_message *message, unsigned field, uint64_t number)
{
    add_varint(message, field << 3 | VARINT);
    add_varint(message, number);
}

void wire_fixed(struct wire_message *message, unsigned field, uint64_t number)
{
    add_varint(message, field << 3 | FIXED);
    memcpy(message->bytes + message->size, &number, sizeof number);
    message->size += sizeof number;
}

void wire_bytes(struct wire_message *message, unsigned field, const void *data, size_t size)
{
    add_varint(message, field << 3 | BYTES);
    add_varint(message, size);
    memcpy(message->bytes + message->size, data, size);
    message->size += size;
}

size_t wire_request(unsigned char *out, uint64_t id, enum wire_command command,
                    const struct wire_message *fields)
{
    unsigned char *at = out + WIRE_HEAD;
    uint32_t size;

    *at++ = 1 << 3;
    at = wire_varint(at, id);
    *at++ = 2 << 3;
    at = wire_varint(at, id);
    at = wire_varint(at, (COMMAND_BASE + (unsigned)command) << 3 | BYTES);
    at = wire_varint(at, fields->size);
    memcpy(at, fields->bytes, fields->size);
    at += fields->size;
    size = htonl((uint32_t)(at - out - WIRE_HEAD));
    memcpy(out, &size, sizeof size);
    return (size_t)(at - out);
}

struct wire_message wire_put_of(const void *key, size_t key_size, const void *value,
                                size_t value_size)
{
    struct wire_message operation = {.size = 0};
    struct wire_message write = {.size = 0};

    wire_number(&operation, 1, 2);
    wire_bytes(&operation, 3, key, key_size);
    wire_bytes(&operation, 4, value, value_size);
    wire_bytes(&write, 2, operation.bytes, operation.size);
    return write;
}

/* ---- in ---- */

size_t wire_frame_size(const unsigned char *bytes)
{
    uint32_t size;

    memcpy(&size, bytes, sizeof size);
    return WIRE_HEAD + ntohl(size);
}

static uint64_t take_varint(const unsigned char **at, const unsigned char *end)
{
    uint64_t number = 0;

    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = *(*at)++;

        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return number;
        }
    }
    (void)fprintf(stderr, "bench: a reply that is none\n");
    exit(1);
}

static uint64_t view_generation(const unsigned char *at, const unsigned char *end)
{
    return at < end && *at == 1 << 3 ? (at++, take_varint(&at, end)) : 0;
}

struct wire_reply wire_reply_of(const unsigned char *frame, size_t size)
{
    const unsigned char *at = frame + WIRE_HEAD;
    const unsigned char *end = frame + size;
    struct wire_reply reply = {0};

    while (at < end) {
        uint64_t tag = take_varint(&at, end);
        uint64_t number = take_varint(&at, end); /* a value, or the size of one */

        switch (tag) {
        case 1 << 3:
            reply.id = number;
            break;
        case 2 << 3:
            reply.command = number;
            break;
        case 3 << 3:
            reply.status = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
            break;
        case 5 << 3:
            reply.revision = number;
            break;
        case 8 << 3 | BYTES:
            reply.generation = view_generation(at, end);
            break;
        default:
            break;
        }
        at += (tag & 7) == BYTES ? number : 0;
    }
    return reply;
}

/* One frame, which is all that is under way, in one read if it came at once. */
static size_t read_frame(int fd, unsigned char *frame, size_t room)
{
    size_t have = 0;

    while (have < WIRE_HEAD || have < wire_frame_size(frame)) {
        ssize_t got = read(fd, frame + have, room - have);

        if (got <= 0) {
            die("receive");
        }
        have += (size_t)got;
    }
    if (have > wire_frame_size(frame)) {
        (void)fprintf(stderr, "bench: more than one reply to one request\n");
        exit(1);
    }
    return have;
}

struct wire_reply wire_await(int fd, enum wire_command command)
{
    unsigned char frame[4 * WIRE_MESSAGE_MAX];
    size_t size = read_frame(fd, frame, sizeof frame);
    struct wire_reply reply;

    reply = wire_reply_of(frame, size);
    if (reply.command != (uint64_t)command || reply.status != 0) {
        (void)fprintf(stderr, "bench: a reply to command %d with status %d, awaited was %d\n",
                      (int)reply.command, (int)reply.status, (int)command);
        exit(1);
    }
    return reply;
}

/* ---- a session ---- */

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        die(path);
    }
    return fd;
}

static int connect_tcp(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        die("connect");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

bool wire_address_parse(struct wire_address *out, const char *text)
{
    long port = 0;

    *out = (struct wire_address){.path = text && text[0] == '/' ? text : NULL};
    if (out->path) {
        return true;
    }
    if (!parse_number(text, &port) || port < 1 || port > UINT16_MAX) {
        return false;
    }
    out->port = (uint16_t)port;
    return true;
}

int wire_connect(const struct wire_address *address)
{
    return address->path ? connect_unix(address->path) : connect_tcp(address->port);
}

void wire_send(int fd, uint64_t id, enum wire_command command, const struct wire_message *fields)
{
    unsigned char frame[2 * WIRE_MESSAGE_MAX];
    size_t size = wire_request(frame, id, command, fields);

    if (!write_full(fd, frame, size)) {
        die("send");
    }
}

void wire_greet(int fd, const struct wire_session *session)
{
    static const unsigned char begin[] = {
        'M', 'U', 'S', 'T', 'E', 'R', 0,  1, /* the preamble */
        0,   0,   0,   4,   8,   1,   16, 1 /* versions 1 to 1 */};
    struct wire_message open = {.size = 0};
    unsigned char welcome[WIRE_MESSAGE_MAX];

    if (!write_full(fd, begin, sizeof begin)) {
        die("greet");
    }
    (void)read_frame(fd, welcome, sizeof welcome);
    wire_fixed(&open, 1, 1 + (uint64_t)getpid());
    wire_fixed(&open, 2, session->number);
    wire_bytes(&open, 3, "bench", 5);
    wire_number(&open, 4, session->role);
    wire_number(&open, 5, session->role == WIRE_OBSERVER ? UINT32_MAX : session->index);
    if (session->size > 0) {
        wire_number(&open, 8, session->size);
    }
    wire_bytes(&open, 12, "here", 4);
    wire_send(fd, 1, WIRE_OPEN, &open);
    (void)wire_await(fd, WIRE_OPEN);
}
