/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "client/shell/driver/driver.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/panic.h"
#include "base/text.h"
#include "base/time.h"
#include "net/channel.h"
#include "proto/native/native.h"

#define LOOK_NS (500 * NS_PER_MS)
#define DOUBT_NS (250 * NS_PER_MS)

enum { INPUT_ROOM = MST_CHANNEL_ROOM, LINE_ROOM = 400, READS_MAX = 64 };

/* The stages of a connection, in this order: a number needs no lookup, plain TCP no handshake. */
enum stage { NOWHERE = 0, LOOKING_UP, CONNECTING, SHAKING_HANDS, CONNECTED };

struct mst_driver {
    struct mst_mem mem;
    struct mst_driver_config config;
    struct mst_client *client;

    enum stage stage;
    struct mst_channel channel; /* fd -1: none */
    uint32_t endpoint;
    uint64_t epoch;
    struct mst_targets targets;
    struct mst_native_client *codec;
    /* The codec of a connection that was closed in the middle of a turn: replies that are still
     * being delivered borrow from it. */
    struct mst_native_client *late;
    uint64_t frame_bytes_max; /* of the service, on the last connection */
    uint64_t asked_ns;        /* when the first byte was sent that may have no acknowledgement */
    uint64_t look_ns;         /* when to look for that; UINT64_MAX: all have theirs */
    bool doubted;             /* at the last look the host seemed to have vanished */
    bool draining;
    unsigned char input[INPUT_ROOM];
};

/* ---- birth and death ---- */

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
    driver->config.client.endpoint_count = config->endpoints.count;
    mst_targets_init(&driver->targets, &config->endpoints);
    driver->channel.fd = -1;
    driver->frame_bytes_max = config->client.limits.frame_bytes_max;
    driver->look_ns = UINT64_MAX;
    status = mst_client_new(&driver->client, &driver->config.client, &driver->mem);
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
    if (driver->channel.fd >= 0) {
        (void)close(driver->channel.fd);
    }
    mst_tls_free(driver->channel.tls);
    driver->channel = (struct mst_channel){.fd = -1};
    driver->look_ns = UINT64_MAX;
    driver->epoch++;
    driver->stage = NOWHERE;
    if (driver->codec) {
        drop_codec(&driver->late);
        driver->late = driver->codec;
        driver->codec = NULL;
    }
}

void mst_driver_abandon(struct mst_driver *driver)
{
    if (driver->channel.fd >= 0) {
        (void)close(driver->channel.fd);
        driver->channel.fd = -1;
    }
}

void mst_driver_disown(struct mst_driver *driver)
{
    driver->channel.fd = -1;
    for (uint32_t i = 0; i < driver->targets.count; i++) {
        if (driver->targets.at[i].lookup) {
            mst_lookup_disown(driver->targets.at[i].lookup);
        }
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
    mst_targets_fini(&driver->targets);
    mst_client_free(driver->client);
    mem = driver->mem;
    mst_mem_release(&mem, driver);
}

struct mst_client *mst_driver_client(struct mst_driver *driver)
{
    return driver->client;
}

uint64_t mst_driver_frame_max(const struct mst_driver *driver)
{
    return driver->frame_bytes_max;
}

/* The one of the connection, or of the attempt. */
static struct mst_targets_one *target_of(struct mst_driver *driver)
{
    return &driver->targets.at[driver->endpoint];
}

int mst_driver_socket(const struct mst_driver *driver)
{
    return driver->stage == CONNECTED ? driver->channel.fd : -1;
}

bool mst_driver_speaks_tcp(const struct mst_driver *driver)
{
    for (uint32_t i = 0; i < driver->targets.count; i++) {
        if (driver->targets.at[i].address.kind != MST_ADDRESS_UNIX) {
            return true;
        }
    }
    return false;
}

void mst_driver_say_awaited(const struct mst_driver *driver, struct mst_text *text)
{
    static const char *const awaited[] = {
        [LOOKING_UP] = "the name service does not answer",
        [CONNECTING] = "it does not answer",
        [SHAKING_HANDS] = "it accepts, but does not answer the TLS handshake",
    };

    if (driver->stage == CONNECTED) {
        mst_text_format(text, "what listens there accepts, but does not answer");
    } else if (driver->stage != NOWHERE) {
        mst_text_format(text, "connecting to %s: %s",
                        driver->targets.at[driver->endpoint].address.text, awaited[driver->stage]);
    }
}

/* ---- the connection ---- */

/* Closes the connection and reports it to the machine. */
static void lost(struct mst_driver *driver, uint64_t now_ns, int os_errno, const char *reason)
{
    bool was_up = driver->stage == CONNECTED;
    char line[LINE_ROOM];
    char words[128];

    mst_text_print(line, sizeof(line), "%s%s: %s", was_up ? "connection to " : "connecting to ",
                   target_of(driver)->address.text,
                   reason ? reason : strerror_r(os_errno, words, sizeof(words)));
    if (driver->config.trouble) {
        driver->config.trouble(driver->config.ctx, os_errno, line);
    }
    target_of(driver)->failures += !was_up;
    close_connection(driver);
    mst_client_disconnected(driver->client, now_ns);
}

static void connected(struct mst_driver *driver, uint64_t now_ns)
{
    driver->epoch++;
    if (mst_native_client_new(&driver->codec, &driver->config.client.limits, &driver->mem) !=
        MUSTER_OK) {
        lost(driver, now_ns, ENOMEM, NULL);
        return;
    }
    driver->stage = CONNECTED;
    mst_client_connected(driver->client, now_ns);
}

/* There is another address to try when the host of this one vanishes. */
static bool is_guarded(const struct mst_driver *driver)
{
    return driver->targets.count > 1 && driver->channel.fd >= 0 &&
           driver->targets.at[driver->endpoint].address.kind != MST_ADDRESS_UNIX;
}

static void guard(struct mst_driver *driver)
{
    if (is_guarded(driver)) {
        mst_endpoint_guard(driver->channel.fd);
    }
}

/* The socket is connected. With a secret, nothing is sent over TCP in plain. */
static void greet(struct mst_driver *driver, uint64_t now_ns)
{
    const struct mst_address *address = &target_of(driver)->address;

    driver->epoch++;
    guard(driver);
    if (!driver->config.tls || address->kind == MST_ADDRESS_UNIX) {
        connected(driver, now_ns);
        return;
    }
    driver->stage = SHAKING_HANDS;
    if (mst_tls_new(&driver->channel.tls, driver->config.tls) != MUSTER_OK) {
        lost(driver, now_ns, ENOMEM, NULL);
    }
}

static void start_socket(struct mst_driver *driver, uint64_t now_ns,
                         const struct mst_address *address)
{
    const char *why;
    bool done = false;

    driver->stage = CONNECTING;
    driver->channel.fd = mst_endpoint_connect(address, driver->targets.count > 1, &done, &why);
    driver->epoch++;
    if (driver->channel.fd < 0) {
        lost(driver, now_ns, errno, why);
    } else if (done) {
        greet(driver, now_ns);
    }
}

/* A lookup that an earlier attempt has left is as good. */
static void start_looking_up(struct mst_driver *driver, uint64_t now_ns)
{
    struct mst_targets_one *target = target_of(driver);

    driver->stage = LOOKING_UP;
    driver->epoch++;
    if (!target->lookup) {
        target->lookup = mst_lookup_start(&target->address);
    }
    if (!target->lookup) {
        lost(driver, now_ns, errno, NULL);
    }
}

static void finish_looking_up(struct mst_driver *driver, uint64_t now_ns)
{
    struct mst_targets_one *target = target_of(driver);
    struct mst_address address = target->address;
    const char *wrong;

    if (!mst_lookup_is_over(target->lookup)) {
        return;
    }
    wrong = mst_lookup_take(target->lookup, target->failures, &address);
    mst_lookup_drop(target->lookup);
    target->lookup = NULL;
    if (wrong) {
        lost(driver, now_ns, 0, wrong);
    } else {
        start_socket(driver, now_ns, &address);
    }
}

static void start_connecting(struct mst_driver *driver, uint64_t now_ns, uint32_t endpoint)
{
    const struct mst_address *address = &driver->targets.at[endpoint].address;

    close_connection(driver);
    driver->endpoint = endpoint;
    if (address->kind == MST_ADDRESS_NAME) {
        start_looking_up(driver, now_ns);
    } else {
        start_socket(driver, now_ns, address);
    }
}

static void finish_connecting(struct mst_driver *driver, uint64_t now_ns)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(driver->channel.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) {
        error = errno;
    }
    if (error != 0) {
        lost(driver, now_ns, error, NULL);
    } else {
        greet(driver, now_ns);
    }
}

/* Why receive failed: the service closed, TLS's reason, or NULL for the socket's error. */
static const char *reason_of(struct mst_driver *driver, ssize_t got)
{
    if (got == 0) {
        return driver->stage == SHAKING_HANDS ? mst_tls_cut_short(MST_TLS_CLIENT)
                                              : "closed by the service";
    }
    return errno == EPROTO && driver->channel.tls ? mst_tls_reason(driver->channel.tls) : NULL;
}

/* The service sends nothing before a request: only the handshake can arrive. */
static void shake_hands(struct mst_driver *driver, uint64_t now_ns)
{
    ssize_t got = mst_channel_receive(&driver->channel, driver->input, INPUT_ROOM);

    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        if (mst_tls_trusted(driver->channel.tls)) {
            connected(driver, now_ns);
        }
        return;
    }
    if (got < 0 && errno == EPROTO) {
        (void)mst_channel_send(&driver->channel, mst_slice_of(NULL, 0)); /* the alert */
        lost(driver, now_ns, EKEYREJECTED, mst_tls_reason(driver->channel.tls));
        return;
    }
    lost(driver, now_ns, got < 0 ? errno : 0,
         got > 0 ? "the service speaks before it is spoken to" : reason_of(driver, got));
}

/* ---- effects ---- */

/* A request that cannot be encoded is refused here, and the connection continues. */
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

/* ---- a host that has vanished ---- */

static void sent(struct mst_driver *driver, uint64_t now_ns)
{
    if (driver->look_ns == UINT64_MAX && is_guarded(driver)) {
        driver->asked_ns = now_ns;
        driver->look_ns = mst_after_ns(now_ns, LOOK_NS);
        driver->doubted = false;
    }
}

/* A kernel answers even where its process is stopped or reads nothing, so only a host is given up
 * here. Twice: the first look may come just after a packet was sent. */
static void look(struct mst_driver *driver, uint64_t now_ns)
{
    uint64_t quiet_ms;

    if (driver->channel.fd < 0 ||
        !mst_endpoint_owed(driver->channel.fd, (now_ns - driver->asked_ns) / NS_PER_MS,
                           &quiet_ms)) {
        driver->look_ns = UINT64_MAX;
    } else if (quiet_ms < MST_ENDPOINT_VANISHED_MS) {
        driver->doubted = false;
        driver->look_ns = mst_after_ns(now_ns, LOOK_NS);
    } else if (!driver->doubted) {
        driver->doubted = true;
        driver->look_ns = mst_after_ns(now_ns, DOUBT_NS);
    } else {
        lost(driver, now_ns, ETIMEDOUT, "its host does not answer");
    }
}

uint64_t mst_driver_deadline_ns(const struct mst_driver *driver)
{
    return mst_sooner(mst_client_deadline_ns(driver->client), driver->look_ns);
}

/* Also during a handshake, which has output of its own. */
static void flush(struct mst_driver *driver, uint64_t now_ns)
{
    bool was_blocked = driver->channel.blocked;

    while (driver->stage >= SHAKING_HANDS) {
        struct mst_slice output = driver->codec ? mst_native_stream_output(&driver->codec->stream)
                                                : mst_slice_of(NULL, 0);
        ssize_t taken;

        driver->channel.blocked = false;
        if (output.size == 0 && mst_channel_pending(&driver->channel) == 0) {
            break;
        }
        taken = mst_channel_send(&driver->channel, output);
        if (taken > 0) {
            mst_native_stream_written(&driver->codec->stream, (size_t)taken);
        }
        if (taken >= 0) {
            sent(driver, now_ns);
        }
        if (taken >= 0 && driver->channel.blocked) {
            break;
        }
        if (taken < 0) {
            lost(driver, now_ns, errno, reason_of(driver, -1));
            drain(driver, now_ns);
        }
    }
    if (driver->channel.blocked != was_blocked) {
        driver->epoch++;
    }
}

static void settle(struct mst_driver *driver, uint64_t now_ns)
{
    drain(driver, now_ns);
    flush(driver, now_ns);
    drop_codec(&driver->late);
}

/* Effects first: a call that times out at once is sent at least, and its answer names the missing
 * ranks. */
void mst_driver_turn(struct mst_driver *driver, uint64_t now_ns)
{
    settle(driver, now_ns);
    if (mst_client_deadline_ns(driver->client) <= now_ns) {
        mst_client_tick(driver->client, now_ns);
        settle(driver, now_ns);
    }
    if (driver->look_ns <= now_ns) {
        look(driver, now_ns);
        settle(driver, now_ns);
    }
}

struct pollfd mst_driver_interest(const struct mst_driver *driver, uint64_t *epoch_out)
{
    struct pollfd interest = {.fd = driver->channel.fd, .events = POLLIN};

    if (driver->stage == LOOKING_UP) {
        interest.fd = mst_lookup_fd(driver->targets.at[driver->endpoint].lookup);
    } else if (driver->stage == CONNECTING) {
        interest.events = POLLOUT;
    } else if (driver->channel.blocked) {
        interest.events |= POLLOUT;
    }
    *epoch_out = driver->epoch;
    return interest;
}

/* ---- where the service is ---- */

/* The service says where it is. */
static void take_targets(struct mst_driver *driver, struct mst_slice named)
{
    uint32_t was[MST_TARGETS_MAX];
    char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof(line));

    if (!mst_targets_take(&driver->targets, named, driver->config.tcp, driver->endpoint, was)) {
        return;
    }
    for (uint32_t i = 0; i < driver->targets.count; i++) {
        if (was[i] == driver->endpoint) {
            driver->endpoint = i;
            break;
        }
    }
    mst_client_endpoints(driver->client, driver->targets.count, was);
    guard(driver);
    if (driver->config.targets) {
        mst_text_add(&text, "addresses of the service: ");
        mst_targets_say(&driver->targets, &text);
        driver->config.targets(driver->config.ctx, line);
    }
}

/* What listens there does not serve, and says where the service is. */
static void send_on(struct mst_driver *driver, uint64_t now_ns, const struct mst_reply *reply)
{
    char line[LINE_ROOM];
    uint32_t next;

    take_targets(driver, reply->addresses);
    next = mst_targets_find(&driver->targets, reply->addresses);
    if (next == driver->targets.count) {
        mst_text_print(line, sizeof(line),
                       "it sends this client to %.*s, an address that it may not use",
                       MST_SLICE_ARGS(reply->addresses));
        lost(driver, now_ns, 0, line);
        return;
    }
    if (driver->config.trouble) {
        mst_text_print(line, sizeof(line), "connection to %s: sent on to %s",
                       target_of(driver)->address.text, driver->targets.at[next].address.text);
        driver->config.trouble(driver->config.ctx, 0, line);
    }
    mst_client_sent_on(driver->client, now_ns, next);
}

static void take_reply(struct mst_driver *driver, uint64_t now_ns, const struct mst_reply *reply)
{
    if (reply->id == 0) {
        send_on(driver, now_ns, reply);
        return;
    }
    if ((reply->command == MST_OPEN || reply->command == MST_RENEW) && reply->status == MUSTER_OK) {
        take_targets(driver, reply->addresses);
    }
    mst_client_reply(driver->client, now_ns, reply);
}

/* Replies reach the machine one by one: each borrows from the codec. */
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
        take_reply(driver, now_ns, &reply);
        drain(driver, now_ns);
    }
    return driver->codec == codec ? status : MUSTER_MORE;
}

/* OK: the replies were processed. An error: it closed the connection. */
static muster_status take_bytes(struct mst_driver *driver, uint64_t now_ns, size_t size)
{
    struct mst_native_client *codec = driver->codec;
    muster_status status =
        mst_native_stream_feed(&codec->stream, mst_slice_of(driver->input, size));

    driver->frame_bytes_max = codec->limits.frame_bytes_max;
    if (status == MUSTER_OK) {
        status = take_replies(driver, now_ns);
    }
    if (status < 0) {
        lost(driver, now_ns, codec->refused ? EKEYREJECTED : 0,
             status == MUSTER_ENOMEM ? "out of memory" : codec->stream.reason);
    }
    return status < 0 ? status : MUSTER_OK;
}

static void take_input(struct mst_driver *driver, uint64_t now_ns)
{
    struct mst_native_client *codec = driver->codec;

    for (int reads = 0; reads < READS_MAX && driver->codec && driver->codec == codec; reads++) {
        ssize_t got = mst_channel_receive(&driver->channel, driver->input, INPUT_ROOM);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (got <= 0) {
            lost(driver, now_ns, got < 0 ? errno : 0, reason_of(driver, got));
            return;
        }
        mst_client_heard(driver->client, now_ns);
        if (take_bytes(driver, now_ns, (size_t)got) != MUSTER_OK) {
            return;
        }
        if (driver->codec == codec && !driver->channel.more && !driver->channel.over) {
            return; /* later input makes poll return again */
        }
    }
}

void mst_driver_ready(struct mst_driver *driver, uint64_t now_ns, short revents)
{
    if (revents == 0) {
        return;
    }
    switch (driver->stage) {
    case NOWHERE:
        break;
    case LOOKING_UP:
        finish_looking_up(driver, now_ns);
        break;
    case CONNECTING:
        finish_connecting(driver, now_ns);
        break;
    case SHAKING_HANDS:
        if (revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) {
            shake_hands(driver, now_ns);
        }
        break;
    case CONNECTED:
        if (revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) {
            take_input(driver, now_ns);
        }
        break;
    }
    settle(driver, now_ns);
}
