/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "io/poll/driver.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/panic.h"
#include "base/text.h"
#include "wire/native/native.h"

enum { INPUT_ROOM = 65536, LINE_ROOM = 400, READS_MAX = 64 };

struct mst_driver {
    struct mst_mem mem;
    struct mst_driver_config config;
    struct mst_endpoints endpoints;
    struct mst_client *client;

    int fd; /* -1: none */
    bool connecting;
    bool blocked; /* the socket takes no more for now */
    uint32_t endpoint;
    uint64_t epoch;
    struct mst_native_client *codec;
    /* The codec of a connection that was given up in the middle of a turn: replies that are still
     * being told borrow from it. */
    struct mst_native_client *late;
    bool draining;
    unsigned char *input;
};

/* ---- birth and death ---- */

static muster_status set_up(struct mst_driver *driver)
{
    driver->input = driver->mem.alloc(driver->mem.ctx, INPUT_ROOM);
    if (!driver->input) {
        return MUSTER_ENOMEM;
    }
    return mst_client_new(&driver->client, &driver->config.client, &driver->mem);
}

muster_status mst_driver_new(struct mst_driver **out, const struct mst_driver_config *config,
                             const struct mst_mem *mem)
{
    struct mst_driver *driver = mst_mem_zalloc(mem, sizeof(*driver));
    muster_status status;

    if (!driver) {
        return MUSTER_ENOMEM;
    }
    driver->mem = *mem;
    driver->config = *config;
    driver->endpoints = *config->endpoints;
    driver->config.endpoints = &driver->endpoints;
    driver->config.client.endpoint_count = driver->endpoints.count;
    driver->fd = -1;
    status = set_up(driver);
    if (status != MUSTER_OK) {
        mst_driver_free(driver);
        return status;
    }
    *out = driver;
    return MUSTER_OK;
}

static void drop_codec(struct mst_native_client **codec)
{
    mst_native_client_free(*codec);
    *codec = NULL;
}

static void close_connection(struct mst_driver *driver)
{
    if (driver->fd >= 0) {
        (void)close(driver->fd);
        driver->fd = -1;
        driver->epoch++;
    }
    driver->connecting = false;
    driver->blocked = false;
    if (driver->codec) {
        drop_codec(&driver->late);
        driver->late = driver->codec;
        driver->codec = NULL;
    }
}

void mst_driver_abandon(struct mst_driver *driver)
{
    if (driver->fd >= 0) {
        (void)close(driver->fd);
        driver->fd = -1;
    }
}

void mst_driver_free(struct mst_driver *driver)
{
    struct mst_mem mem;

    if (!driver) {
        return;
    }
    close_connection(driver);
    drop_codec(&driver->late);
    mst_client_free(driver->client);
    mst_mem_release(&driver->mem, driver->input);
    mem = driver->mem;
    mst_mem_release(&mem, driver);
}

struct mst_client *mst_driver_client(struct mst_driver *driver)
{
    return driver->client;
}

/* ---- the connection ---- */

static void tell_trouble(struct mst_driver *driver, int os_errno, const char *what,
                         const char *reason)
{
    char line[LINE_ROOM];
    char words[128];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_text_add(&text, what);
    mst_text_add(&text, driver->endpoints.at[driver->endpoint].text);
    mst_text_add(&text, ": ");
    mst_text_add(&text, reason ? reason : strerror_r(os_errno, words, sizeof(words)));
    if (driver->config.trouble) {
        driver->config.trouble(driver->config.ctx, os_errno, line);
    }
}

/* The connection is no more; the machine may be told of it. */
static void lost(struct mst_driver *driver, uint64_t now_ns, int os_errno, const char *reason)
{
    tell_trouble(driver, os_errno, driver->connecting ? "connecting to " : "connection to ",
                 reason);
    close_connection(driver);
    mst_client_disconnected(driver->client, now_ns);
}

static void connected(struct mst_driver *driver, uint64_t now_ns)
{
    driver->connecting = false;
    driver->epoch++;
    if (mst_native_client_new(&driver->codec, &driver->config.client.limits, &driver->mem) !=
        MUSTER_OK) {
        lost(driver, now_ns, ENOMEM, NULL);
        return;
    }
    mst_client_connected(driver->client, now_ns);
}

static void start_connecting(struct mst_driver *driver, uint64_t now_ns, uint32_t endpoint)
{
    bool done = false;

    close_connection(driver);
    driver->endpoint = endpoint;
    driver->connecting = true;
    driver->fd = mst_endpoint_connect(&driver->endpoints.at[endpoint], &done);
    driver->epoch++;
    if (driver->fd < 0) {
        lost(driver, now_ns, errno, NULL);
    } else if (done) {
        connected(driver, now_ns);
    }
}

static void finish_connecting(struct mst_driver *driver, uint64_t now_ns)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(driver->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) {
        error = errno;
    }
    if (error != 0) {
        lost(driver, now_ns, error, NULL);
    } else {
        connected(driver, now_ns);
    }
}

/* ---- effects ---- */

/* What cannot even be encoded is answered here: it is refused, and the connection goes on. */
static void send_request(struct mst_driver *driver, uint64_t now_ns,
                         const struct mst_client_effect *effect)
{
    uint64_t id = effect->request->id;
    muster_status status = MUSTER_OK;

    if (driver->codec) {
        status = mst_native_client_send(driver->codec, effect->request);
    }
    mst_client_done(driver->client, effect);
    if (status != MUSTER_OK) {
        mst_client_refused(driver->client, now_ns, id, status);
    }
}

static void carry_out(struct mst_driver *driver, uint64_t now_ns,
                      const struct mst_client_effect *effect)
{
    switch (effect->type) {
    case MST_CLIENT_CONNECT: {
        uint32_t endpoint = effect->endpoint;

        mst_client_done(driver->client, effect);
        start_connecting(driver, now_ns, endpoint);
        return;
    }
    case MST_CLIENT_SEND:
        send_request(driver, now_ns, effect);
        return;
    case MST_CLIENT_DONE:
        driver->config.done(driver->config.ctx, effect);
        break;
    case MST_CLIENT_ATTENTION:
        driver->config.attention(driver->config.ctx, now_ns);
        break;
    case MST_CLIENT_DISCONNECT:
        close_connection(driver);
        break;
    case MST_CLIENT_ENDED:
        driver->config.ended(driver->config.ctx, now_ns, effect);
        break;
    }
    mst_client_done(driver->client, effect);
}

static void drain(struct mst_driver *driver, uint64_t now_ns)
{
    const struct mst_client_effect *effect;

    MST_ASSERT(!driver->draining);
    driver->draining = true;
    while ((effect = mst_client_next(driver->client)) != NULL) {
        carry_out(driver, now_ns, effect);
    }
    driver->draining = false;
}

static void flush(struct mst_driver *driver, uint64_t now_ns)
{
    bool was_blocked = driver->blocked;

    while (driver->codec) {
        struct mst_slice output = mst_native_client_output(driver->codec);
        ssize_t wrote;

        driver->blocked = false;
        if (output.size == 0) {
            break;
        }
        wrote = send(driver->fd, output.data, output.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote > 0) {
            mst_native_client_written(driver->codec, (size_t)wrote);
        } else if (wrote < 0 && errno == EINTR) {
            continue;
        } else if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            driver->blocked = true;
            break;
        } else {
            lost(driver, now_ns, errno, NULL);
            drain(driver, now_ns);
        }
    }
    if (driver->blocked != was_blocked) {
        driver->epoch++;
    }
}

static void settle(struct mst_driver *driver, uint64_t now_ns)
{
    drain(driver, now_ns);
    flush(driver, now_ns);
    drop_codec(&driver->late);
}

/* Effects first, so that a call whose time is up at once is sent at least: its answer names who is
 * missing. */
void mst_driver_turn(struct mst_driver *driver, uint64_t now_ns)
{
    settle(driver, now_ns);
    if (mst_client_deadline_ns(driver->client) <= now_ns) {
        mst_client_tick(driver->client, now_ns);
        settle(driver, now_ns);
    }
}

struct pollfd mst_driver_interest(const struct mst_driver *driver, uint64_t *epoch_out)
{
    struct pollfd interest = {.fd = driver->fd};

    interest.events = driver->connecting ? POLLOUT : POLLIN;
    if (driver->blocked) {
        interest.events |= POLLOUT;
    }
    *epoch_out = driver->epoch;
    return interest;
}

/* Replies in the codec reach the machine one by one: each borrows from the codec. */
static muster_status take_replies(struct mst_driver *driver, uint64_t now_ns)
{
    struct mst_native_client *codec = driver->codec;
    struct mst_reply reply;
    muster_status status = MUSTER_MORE;

    while (driver->codec == codec) {
        status = mst_native_client_next(codec, &reply);
        if (status != MUSTER_OK) {
            break;
        }
        mst_client_reply(driver->client, now_ns, &reply);
        drain(driver, now_ns);
    }
    return driver->codec == codec ? status : MUSTER_MORE;
}

static void take_input(struct mst_driver *driver, uint64_t now_ns)
{
    struct mst_native_client *codec = driver->codec;

    for (int reads = 0; reads < READS_MAX && driver->codec && driver->codec == codec; reads++) {
        ssize_t got = recv(driver->fd, driver->input, INPUT_ROOM, MSG_DONTWAIT);
        muster_status status;

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (got <= 0) {
            lost(driver, now_ns, got < 0 ? errno : 0, got < 0 ? NULL : "closed by the service");
            return;
        }
        status = mst_native_client_feed(codec, mst_slice_of(driver->input, (size_t)got));
        if (status == MUSTER_OK) {
            status = take_replies(driver, now_ns);
        }
        if (status < 0) {
            lost(driver, now_ns, 0,
                 status == MUSTER_ENOMEM ? "out of memory" : mst_native_client_reason(codec));
            return;
        }
        if (got < INPUT_ROOM) {
            return; /* what comes later makes poll return again */
        }
    }
}

void mst_driver_ready(struct mst_driver *driver, uint64_t now_ns, short revents)
{
    if (revents == 0 || driver->fd < 0) {
        return;
    }
    if (driver->connecting) {
        finish_connecting(driver, now_ns);
    } else if (revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) {
        take_input(driver, now_ns);
    }
    settle(driver, now_ns);
}
