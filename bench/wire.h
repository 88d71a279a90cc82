/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

/* muster's own dialect, as docs/protocol.md has it, written by hand: what drives a service in a
 * measure of the service must cost next to nothing itself, so it is not the library. Blocking
 * sockets; whatever goes wrong ends the program. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_MESSAGE_MAX = 512, WIRE_HEAD = 4 };

enum wire_command {
    WIRE_OPEN = 1,
    WIRE_JOIN = 2,
    WIRE_RENEW = 3,
    WIRE_WRITE = 6,
    WIRE_WATCH = 10,
    WIRE_ROUND = 11
};

enum wire_role { WIRE_OBSERVER = 0, WIRE_RANK = 1 };

struct wire_message {
    unsigned char bytes[WIRE_MESSAGE_MAX];
    size_t size;
};

/* Fields of the schema. */
void wire_number(struct wire_message *message, unsigned field, uint64_t number);
void wire_fixed(struct wire_message *message, unsigned field, uint64_t number);
void wire_bytes(struct wire_message *message, unsigned field, const void *data, size_t size);

/* Bytes of one number; where it ended. */
unsigned char *wire_varint(unsigned char *at, uint64_t number);

/* A frame with one request around the command's own fields: `id`, and every write before it is
 * answered. The size of it. */
size_t wire_request(unsigned char *out, uint64_t id, enum wire_command command,
                    const struct wire_message *fields);

/* One key is put. */
struct wire_message wire_put_of(const void *key, size_t key_size, const void *value,
                                size_t value_size);

/* The size of the frame that begins here, its length included. */
size_t wire_frame_size(const unsigned char *bytes);

/* What there is of a reply in a whole frame; fields that a measure needs. */
struct wire_reply {
    uint64_t id;
    uint64_t command;
    int64_t status;
    uint64_t revision;
    uint64_t generation; /* of the view */
};
struct wire_reply wire_reply_of(const unsigned char *frame, size_t size);

/* The next reply of a blocking socket, which must be to `command` and tell success. */
struct wire_reply wire_await(int fd, enum wire_command command);

/* A port of loopback TCP, or the path of a Unix socket. */
struct wire_address {
    const char *path; /* or NULL */
    uint16_t port;
};
bool wire_address_parse(struct wire_address *out, const char *text);

int wire_connect(const struct wire_address *address);

/* Opens session number `number` of this process; of a job of `size` ranks, or 0 for an observer. */
struct wire_session {
    uint64_t number;
    enum wire_role role;
    uint32_t index;
    uint32_t size;
};
void wire_greet(int fd, const struct wire_session *session);
void wire_send(int fd, uint64_t id, enum wire_command command, const struct wire_message *fields);

#endif
