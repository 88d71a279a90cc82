/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection costs, in plain and under TLS: setting it up until the first answer, puts one
 * by one and sixteen at a time, and a large value. It speaks the wire itself, so that the service
 * and the stream are measured and not the hand-over between a program's threads. stream [-p
 * none|same] COUNT, with MUSTER_ADDR (one TCP address) and, for TLS, MUSTER_SECRET_FILE. */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/channel.h"
#include "net/endpoint.h"
#include "os/system.h"
#include "proto/native/native.h"

enum {
    VALUE_BYTES = 16,
    LARGE_BYTES = 1 << 18,
    DEPTH = 16,
    WARM = 100,
    CONNECTS_PER = 8, /* of COUNT */
    LARGE_PER = 32
};

struct stream {
    struct mst_channel channel;
    struct mst_native_client *codec;
    uint64_t id;
    unsigned char input[MST_CHANNEL_ROOM];
};

static struct mst_address address;
static struct mst_tls_context *tls;
static struct stream stream;

_Noreturn static void give_up(const char *what, const char *why)
{
    (void)fprintf(stderr, "stream: %s: %s\n", what, why);
    exit(1);
}

static void prepare(void)
{
    const char *file = getenv("MUSTER_SECRET_FILE");
    const char *where = getenv("MUSTER_ADDR");
    struct mst_endpoints endpoints;
    struct mst_secret secret;
    struct muster_error err = {0};
    char text[320];
    if (mst_endpoints_parse(&endpoints, where ? where : "", true, text, sizeof text) != MUSTER_OK) {
        give_up("MUSTER_ADDR", text);
    }
    address = endpoints.at[0];
    if (file == NULL || *file == '\0') {
        return;
    }
    if (mst_secret_read(file, &secret, &err) != MUSTER_OK ||
        mst_tls_context_new(&tls, MST_TLS_CLIENT, &secret, &err) != MUSTER_OK) {
        give_up("MUSTER_SECRET_FILE", err.text);
    }
}

static void wait_for(short events)
{
    struct pollfd one = {.fd = stream.channel.fd, .events = events};
    if (stream.channel.blocked) {
        one.events |= POLLOUT;
    }
    while (poll(&one, 1, -1) < 0) {
        if (errno != EINTR) {
            die("poll");
        }
    }
}

static void flush(void)
{
    for (;;) {
        struct mst_slice output = mst_native_stream_output(&stream.codec->stream);
        if (output.size == 0 && mst_channel_pending(&stream.channel) == 0) {
            return;
        }
        ssize_t taken = mst_channel_send(&stream.channel, output);
        if (taken < 0) {
            die("send");
        }
        mst_native_stream_written(&stream.codec->stream, (size_t)taken);
        if (stream.channel.blocked) {
            wait_for(POLLOUT);
        } else if (taken == 0 && mst_channel_pending(&stream.channel) == 0) {
            return; /* the handshake goes first */
        }
    }
}

/* The whole replies of what comes next; 0: nothing but TLS's own. */
static unsigned receive(void)
{
    struct mst_reply reply;
    unsigned count = 0;
    wait_for(POLLIN);
    ssize_t got = mst_channel_receive(&stream.channel, stream.input, sizeof stream.input);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        give_up("receive", got == 0             ? "the service closed the connection"
                           : stream.channel.tls ? mst_tls_reason(stream.channel.tls)
                                                : strerror(errno));
    }
    if (got > 0 && mst_native_stream_feed(&stream.codec->stream,
                                          mst_slice_of(stream.input, (size_t)got)) != MUSTER_OK) {
        give_up("feed", stream.codec->stream.reason);
    }
    while (mst_native_client_next(stream.codec, &reply) == MUSTER_OK) {
        if (reply.status != MUSTER_OK) {
            give_up("reply", "an error");
        }
        count++;
    }
    return count;
}

static void await(unsigned count)
{
    while (count > 0) {
        flush();
        unsigned came = receive();
        count -= came < count ? came : count;
    }
}

static void ask(struct mst_request *request)
{
    request->id = stream.id;
    request->oldest = stream.id > DEPTH ? stream.id - DEPTH : 1;
    if (mst_native_client_send(stream.codec, request) != MUSTER_OK) {
        give_up("send", "it cannot be encoded");
    }
}

static void open_stream(void)
{
    struct mst_request request = {.command = MST_OPEN};
    const char *why;
    bool done = false;
    uint64_t random[2];
    mst_system_random(random, 2);
    request.open.token = (struct mst_token){random[0] | 1, random[1]};
    request.open.job = mst_slice_text("bench");
    stream.id = 1;
    stream.channel = (struct mst_channel){.fd = mst_endpoint_connect(&address, false, &done, &why)};
    if (stream.channel.fd < 0 ||
        mst_native_client_new(&stream.codec, &mst_limits_default, &mst_system_mem) != MUSTER_OK) {
        die("connect");
    }
    if (!done) {
        wait_for(POLLOUT);
    }
    if (tls != NULL && mst_tls_new(&stream.channel.tls, tls) != MUSTER_OK) {
        die("tls");
    }
    ask(&request);
    await(1);
}

static void close_stream(void)
{
    mst_native_client_free(stream.codec);
    mst_tls_free(stream.channel.tls);
    (void)close(stream.channel.fd);
}

static void put(size_t size)
{
    static char value[LARGE_BYTES] = "a small value";
    const struct mst_write op = {
        .kind = MST_PUT, .key = mst_slice_text("bench"), .value = mst_slice_of(value, size)};
    struct mst_request request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    ask(&request);
    stream.id++;
}

/* `depth` puts at a time; a sample is what one of them took. */
static void puts_of(const char *name, size_t size, unsigned depth, size_t count)
{
    uint64_t *sample = calloc(count, sizeof *sample);
    if (sample == NULL) {
        die("calloc");
    }
    for (size_t i = 0; i < WARM + count; i++) {
        uint64_t begin = now_ns();
        for (unsigned k = 0; k < depth; k++) {
            put(size);
        }
        await(depth);
        if (i >= WARM) {
            sample[i - WARM] = (now_ns() - begin) / depth;
        }
    }
    report(name, sample, count);
    free(sample);
}

static void connects(size_t count)
{
    uint64_t *sample = calloc(count, sizeof *sample);
    if (sample == NULL) {
        die("calloc");
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = now_ns();
        open_stream();
        sample[i] = now_ns() - begin;
        close_stream();
    }
    report("connect", sample, count);
    free(sample);
}

int main(int argc, char **argv)
{
    long count = 0;
    if (argc == 4 && strcmp(argv[1], "-p") == 0 && pinning_set(argv[2])) {
        argv += 2;
        argc -= 2;
    }
    if (argc != 2 || !parse_number(argv[1], &count) || count < LARGE_PER) {
        (void)fprintf(stderr, "usage: stream [-p none|same] COUNT\n");
        return 2;
    }
    pin(false);
    prepare();
    connects((size_t)count / CONNECTS_PER);
    open_stream();
    puts_of("put_1", VALUE_BYTES, 1, (size_t)count);
    puts_of("put_16", VALUE_BYTES, DEPTH, (size_t)count / 4);
    puts_of("put_large", LARGE_BYTES, 1, (size_t)count / LARGE_PER);
    close_stream();
    mst_tls_context_free(tls);
    return 0;
}
