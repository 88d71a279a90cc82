/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/hub.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/panic.h"
#include "os/clock.h"
#include "os/system.h"
#include "proto/native/native.h"
#include "service/server/addresses.h"
#include "service/server/complaint.h"
#include "service/server/connection.h"
#include "service/server/kept_file.h"
#include "service/server/peer.h"
#include "service/server/replica/follow.h"

#define BATCH 32u            /* requests of one connection in one turn */
#define CARRIED 64u          /* effects before their bytes are written */
#define PATIENCE_NS NS_PER_S /* the least time a peer has to send or read something */
#define STOP_NS NS_PER_S     /* to write pending output when the service stops */
#define GIVE_WAY 512u        /* connections that may have to in one turn */
/* After one its session ends, unless all sessions were extended, because the service itself was
 * stopped or its disk was full. */
#define QUIET_LEASES 2u
#define HEARD_PARTS 8u /* the time of the last request is rounded to such a part of a patience */
#define STRANGER_READS (2u * MST_UV_GREETINGS) /* in one turn: a handshake takes two */
#define WHY_ROOM 300u

uint64_t mst_uv_hub_now_ns(struct mst_uv_hub *hub)
{
    if (hub->now_ns == 0) {
        hub->now_ns = mst_uv_feed_now_ns(&hub->feed);
    }
    return hub->now_ns;
}

static uint64_t now(struct mst_uv_hub *hub)
{
    return mst_uv_hub_now_ns(hub);
}

/* ---- the table ---- */

static struct mst_uv_connection **slot(struct mst_uv_hub *hub, struct mst_conn id)
{
    struct mst_uv_connection **at = &hub->buckets[id.id & (MST_UV_BUCKETS - 1)];

    while (*at && (*at)->id.id != id.id) {
        at = &(*at)->chain;
    }
    return at;
}

/* ---- closing ---- */

static void on_closed(uv_handle_t *handle)
{
    struct mst_uv_connection *connection = handle->data;

    mst_tls_free(connection->channel.tls);
    mst_mem_release(&connection->hub->mem, connection);
}

static void forget(struct mst_uv_connection *connection)
{
    if (connection->known) {
        connection->known = false;
        mst_journal_conn_close(connection->hub->feed.journal, now(connection->hub), connection->id);
    }
}

static void no_stranger(struct mst_uv_connection *connection)
{
    if (mst_list_linked(&connection->unproven)) {
        mst_list_remove(&connection->unproven);
        connection->hub->strangers--;
    }
}

/* Informs the core; must not be called while an effect is being delivered. Its socket is the
 * caller's. */
static void let_go(struct mst_uv_connection *connection)
{
    struct mst_uv_connection **at = slot(connection->hub, connection->id);

    MST_ASSERT(*at == connection);
    forget(connection);
    *at = connection->chain;
    connection->hub->count--;
    mst_list_remove(&connection->dirty);
    mst_list_remove(&connection->ready);
    mst_list_remove(&connection->probation);
    mst_uv_pressure_forget(connection);
    no_stranger(connection);
    if (connection->codec) { /* at once: others may be waiting for the memory */
        mst_native_service_free(connection->codec);
        connection->codec = NULL;
    }
    uv_close((uv_handle_t *)&connection->poll, on_closed);
}

static void drop(struct mst_uv_connection *connection)
{
    let_go(connection);
    close(connection->channel.fd);
}

static void drop_quietly(struct mst_uv_connection *connection, const char *reason)
{
    mst_uv_tell(connection, MST_DEBUG, "connection-closed", reason);
    drop(connection);
}

void mst_uv_connection_refuse(struct mst_uv_connection *connection, const char *reason)
{
    mst_uv_complain(connection, reason);
    drop(connection);
}

size_t mst_uv_connection_unread(const struct mst_uv_connection *connection)
{
    size_t plain =
        connection->codec ? mst_native_stream_output(&connection->codec->stream).size : 0;

    return plain + mst_channel_pending(&connection->channel);
}

static void mark_dirty(struct mst_uv_connection *connection)
{
    if (!mst_list_linked(&connection->dirty)) {
        mst_list_append(&connection->hub->dirty, &connection->dirty);
    }
}

static void put_on_probation(struct mst_uv_connection *connection, uint64_t time_ns)
{
    mst_list_remove(&connection->probation);
    connection->until_ns = now(connection->hub) + time_ns;
    mst_list_append(&connection->hub->probation, &connection->probation);
}

/* It has sent a request, or need not yet. The time is rounded: a busy connection would otherwise be
 * moved each time, which touches two others far away in memory. */
static void hear(struct mst_uv_connection *connection)
{
    struct mst_uv_hub *hub = connection->hub;
    uint64_t until_ns = now(hub) + QUIET_LEASES * hub->patience_ns;

    if (until_ns - connection->until_ns < hub->patience_ns / HEARD_PARTS) {
        return; /* not on probation, which ends earlier */
    }
    mst_list_remove(&connection->probation);
    connection->until_ns = until_ns;
    mst_list_append(&hub->quiet, &connection->probation);
}

/* Stops reading, and writes the pending output. */
static void drain(struct mst_uv_connection *connection)
{
    connection->draining = true;
    mst_list_remove(&connection->ready);
    mst_uv_pressure_forget(connection);
    put_on_probation(connection,
                     connection->hub->stopping ? STOP_NS : connection->hub->patience_ns);
    mark_dirty(connection);
}

/* ---- what the loop watches ---- */

static void on_event(uv_poll_t *poll, int status, int events);

void mst_uv_connection_watch(struct mst_uv_connection *connection)
{
    size_t left = mst_uv_connection_unread(connection);
    bool listens =
        !connection->draining && left <= MST_UV_OUTPUT_MARK && mst_uv_pressure_may_read(connection);
    int events = 0;

    if (left > 0) {
        events |= UV_WRITABLE;
    }
    if (listens && !connection->more) {
        events |= UV_READABLE;
    }
    if (listens && connection->more && !mst_list_linked(&connection->ready)) {
        mst_list_append(&connection->hub->ready, &connection->ready);
    }
    if (events != connection->events) {
        connection->events = events;
        if (events == 0) {
            uv_poll_stop(&connection->poll);
        } else {
            uv_poll_start(&connection->poll, events, on_event);
        }
    }
}

/* ---- bytes in, requests to the core ---- */

/* The sender loses only this connection. Earlier output is still written. */
static void hang_up_on(struct mst_uv_connection *connection, const char *reason)
{
    mst_uv_complain(connection, reason);
    forget(connection);
    drain(connection);
}

/* From now on the core and its journal know the connection. They never learn of one without the
 * secret. */
static bool let_in(struct mst_uv_connection *connection)
{
    struct mst_uv_hub *hub = connection->hub;

    no_stranger(connection);
    if (hub->elsewhere) {
        return true;
    }
    hub->reserve.storing = true;
    connection->known =
        mst_journal_conn_open(hub->feed.journal, now(hub), connection->id) == MUSTER_OK;
    hub->reserve.storing = false;
    if (!connection->known) {
        hang_up_on(connection, "no room for another connection");
    }
    return connection->known;
}

/* Whether the request may keep memory. Renewals, reports of failure, lookups and requests that free
 * memory do not, and may use the reserve. */
static bool stores(const struct mst_request *request)
{
    if (request->command == MST_WRITE) {
        for (uint32_t i = 0; i < request->write.count; i++) {
            if (request->write.ops[i].kind != MST_DELETE) {
                return true;
            }
        }
        return false;
    }
    if (request->command == MST_GET) {
        return request->get.wait;
    }
    return request->command != MST_RENEW && request->command != MST_LEAVE &&
           request->command != MST_CANCEL && request->command != MST_FAULT &&
           request->command != MST_LOST && request->command != MST_DELETE_PREFIX;
}

/* By itself: to clear a reply costs as much as a request. */
static bool refuse_request(struct mst_uv_connection *connection, const struct mst_request *request,
                           muster_status status)
{
    const struct mst_reply refusal = {
        .id = request->id, .command = request->command, .status = status};

    return mst_native_service_answer(connection->codec, &refusal) == MUSTER_OK;
}

static bool feed_request(struct mst_uv_connection *connection, const struct mst_request *request)
{
    struct mst_uv_hub *hub = connection->hub;
    muster_status status;

    hub->reserve.storing = stores(request);
    hub->feed.asked = true;
    status = mst_journal_request(hub->feed.journal, now(hub), connection->id, request);
    hub->reserve.storing = false;
    return status == MUSTER_OK || refuse_request(connection, request, status);
}

static void pass_on(struct mst_uv_connection *connection, const struct mst_reply *reply)
{
    muster_status status = mst_uv_addresses_answer(connection, reply);

    if (status != MUSTER_OK) {
        mst_uv_complain(connection, status == MUSTER_ELIMIT
                                        ? "its unread output reached output_bytes_max"
                                        : "out of memory");
        connection->draining = true;
        connection->doomed = true;
    }
    mark_dirty(connection);
}

/* When this turn has searched enough, pages wait for the next one: they are not even looked for. */
static void defer_searches(struct mst_uv_hub *hub)
{
    while (mst_uv_pressure_spent(&hub->pressure) && mst_core_next_searches(hub->core)) {
        struct mst_uv_connection *connection = *slot(hub, mst_core_defer_next(hub->core));

        if (connection) {
            connection->wants = 0; /* not known yet */
            mst_uv_pressure_deferred(connection);
        }
    }
}

static const struct mst_effect *next_effect(struct mst_uv_hub *hub)
{
    defer_searches(hub);
    return mst_core_next(hub->core);
}

/* To the codec, or back into the core until there is room. True: it was large, or waits. */
static bool pass_on_or_defer(struct mst_uv_connection *connection, const struct mst_effect *effect)
{
    struct mst_uv_hub *hub = connection->hub;
    bool large;

    mst_uv_pressure_looked(hub);
    if (mst_uv_pressure_defers(connection, effect->reply)) {
        mst_core_defer(hub->core, effect);
        mst_uv_pressure_deferred(connection);
        return true;
    }
    pass_on(connection, effect->reply);
    large = mst_uv_pressure_copied(&hub->pressure, effect->reply);
    mst_core_done(hub->core, effect);
    return large;
}

/* An immediate answer is encoded at once: it is still in the cache of the processor, and the memory
 * of one answer is reused for the next. A watch is answered later, when it can report more. False:
 * this was enough for this turn. */
static bool answer_at_once(struct mst_uv_connection *connection, const struct mst_request *request)
{
    struct mst_uv_hub *hub = connection->hub;
    const struct mst_effect *effect;

    mst_uv_pressure_looked(hub);
    if (request->command == MST_WATCH) {
        return true;
    }
    defer_searches(hub);
    effect = mst_core_answer(hub->core, connection->id, request->id);
    if (effect && pass_on_or_defer(connection, effect)) {
        return !connection->deferred && mst_uv_connection_unread(connection) <= MST_UV_OUTPUT_MARK;
    }
    return !connection->deferred;
}

/* Requests that search when they arrive. */
static bool searches(const struct mst_request *request)
{
    return request->command == MST_WATCH || request->command == MST_WAIT;
}

/* The client has asked for something. */
static void send_on(struct mst_uv_connection *connection)
{
    char why[WHY_ROOM];
    muster_status status = mst_uv_addresses_send_on(connection, why, sizeof why);

    if (mst_uv_may_complain(connection->hub)) {
        mst_uv_tell(connection, MST_INFO, "client-sent-on", why);
    }
    connection->doomed = status != MUSTER_OK;
    drain(connection);
}

/* Feeds whole requests, at most a batch; further ones wait for other connections. */
static void pump(struct mst_uv_connection *connection)
{
    struct mst_native_service *codec = connection->codec;
    struct mst_request request;

    mark_dirty(connection); /* a codec may have output of its own */
    connection->more = false;
    connection->searches = false;
    for (unsigned i = 0; i < BATCH; i++) {
        muster_status status = mst_native_service_next(codec, &request);

        if (status == MUSTER_MORE) {
            return;
        }
        if (status != MUSTER_OK) {
            hang_up_on(connection, codec->stream.reason);
            return;
        }
        if (connection->hub->elsewhere) {
            send_on(connection);
            return;
        }
        if (i == 0) {
            hear(connection);
        }
        if (searches(&request) && mst_uv_pressure_spent(&connection->hub->pressure)) {
            mst_native_service_again(codec);
            connection->searches = true;
            break;
        }
        if (!feed_request(connection, &request)) {
            hang_up_on(connection, "out of memory");
            return;
        }
        if (!answer_at_once(connection, &request) || connection->draining) {
            break;
        }
    }
    if (connection->draining) {
        return;
    }
    connection->more = true;
    if (mst_native_stream_keep(&codec->stream) != MUSTER_OK) {
        hang_up_on(connection, "out of memory");
    }
}

/* Which dialect a connection speaks shows in its first byte; others are kept free for more. */
static bool choose_codec(struct mst_uv_connection *connection, unsigned char first)
{
    struct mst_uv_hub *hub = connection->hub;
    char reason[80];

    if (first == MST_TLS_FIRST_BYTE) {
        struct mst_slice refusal = mst_tls_refusal();

        (void)send(connection->channel.fd, refusal.data, refusal.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        hang_up_on(connection, "speaks TLS, but --secret-file is not set here");
        return false;
    }
    if (first != MST_NATIVE_FIRST_BYTE) {
        (void)snprintf(reason, sizeof reason, "no dialect begins with the byte 0x%02x", first);
        hang_up_on(connection, reason);
        return false;
    }
    if (mst_native_service_new(&connection->codec, &hub->limits, &hub->pressure.mem) != MUSTER_OK) {
        hang_up_on(connection, "out of memory");
        return false;
    }
    return true;
}

static void take_in(struct mst_uv_connection *connection, struct mst_slice bytes)
{
    const unsigned char *data = bytes.data;
    muster_status status;

    if (!connection->codec && !choose_codec(connection, data[0])) {
        return;
    }
    status = mst_native_stream_lend(&connection->codec->stream, bytes);
    if (status == MUSTER_OK) {
        pump(connection);
    } else if (status == MUSTER_ENOMEM) {
        hang_up_on(connection, "out of memory");
    } else {
        hang_up_on(connection, connection->codec->stream.reason);
    }
}

/* Another replica dialed this one: the socket and its TLS are the links' from now on. */
static void hand_over(struct mst_uv_connection *connection, struct mst_slice bytes)
{
    struct mst_tls *tls = connection->channel.tls;

    let_go(connection);
    connection->channel.tls = NULL;
    mst_uv_links_take(connection->hub->links, connection->channel.fd, tls, bytes);
}

static void end(struct mst_uv_connection *connection)
{
    struct mst_native_service *codec = connection->codec;

    if (connection->channel.tls && !mst_tls_trusted(connection->channel.tls)) {
        mst_uv_complain(connection, mst_tls_cut_short(MST_TLS_SERVICE));
        drop(connection);
    } else if (codec && mst_native_stream_end(&codec->stream) != MUSTER_OK) {
        mst_uv_complain(connection, codec->stream.reason);
        drop(connection);
    } else {
        drop_quietly(connection, "closed by the peer");
    }
}

/* A client without a secret gets the reason in its own protocol. What it sent is read first:
 * closing a socket with unread bytes could discard the message. */
static void refuse_plain(struct mst_uv_connection *connection)
{
    struct mst_uv_hub *hub = connection->hub;

    (void)recv(connection->channel.fd, hub->input, sizeof hub->input, MSG_DONTWAIT);
    if (mst_native_service_new(&connection->codec, &hub->limits, &hub->pressure.mem) == MUSTER_OK) {
        mst_native_service_refuse(connection->codec,
                                  "this service wants TLS: set MUSTER_SECRET_FILE (--secret-file)");
    }
    hang_up_on(connection, "speaks plain, but this address wants TLS (--secret-file is set here)");
}

/* Looks at the first byte of a connection without the secret. True: it speaks TLS. */
static bool greet(struct mst_uv_connection *connection)
{
    unsigned char first = 0;
    ssize_t size = recv(connection->channel.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

    if (size == 0) {
        drop_quietly(connection, "closed by the peer");
    } else if (size < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            drop_quietly(connection, strerror(errno));
        }
    } else if (first == MST_NATIVE_FIRST_BYTE) {
        refuse_plain(connection);
    } else if (first != MST_TLS_FIRST_BYTE) {
        hang_up_on(connection, "speaks no TLS");
    } else if (mst_uv_peer_gone(connection->channel.fd)) {
        mst_uv_complain(connection, "left before its TLS handshake began"); /* costs nothing more */
        drop(connection);
    } else if (mst_tls_new(&connection->channel.tls, connection->hub->tls) != MUSTER_OK) {
        hang_up_on(connection, "out of memory");
    } else {
        return true;
    }
    return false;
}

/* True: it may be read. Beyond a limit per turn, the bytes of strangers stay in their sockets. */
static bool may_speak(struct mst_uv_connection *connection)
{
    if (!mst_list_linked(&connection->unproven)) {
        return true;
    }
    if (connection->hub->strangers_read >= STRANGER_READS) {
        return false;
    }
    connection->hub->strangers_read++;
    return connection->channel.tls || greet(connection);
}

static void receive(struct mst_uv_connection *connection)
{
    struct mst_uv_hub *hub = connection->hub;
    ssize_t size;

    if (!may_speak(connection)) {
        return;
    }
    size = mst_channel_receive(&connection->channel, hub->input, mst_uv_pressure_piece(connection));
    if (connection->channel.tls) {
        mark_dirty(connection); /* the handshake may have output of its own */
        if (mst_tls_trusted(connection->channel.tls) && !connection->known && !let_in(connection)) {
            return;
        }
    }
    if (size > 0 && hub->links && !connection->codec && *hub->input == MST_UV_LINKS_FIRST_BYTE) {
        hand_over(connection, mst_slice_of(hub->input + 1, (size_t)size - 1));
    } else if (size > 0) {
        take_in(connection, mst_slice_of(hub->input, (size_t)size));
        mst_uv_pressure_read(connection, (size_t)size);
    } else if (size == 0) {
        end(connection);
    } else if (connection->channel.tls && (errno == EPROTO || errno == ENOMEM)) {
        hang_up_on(connection, mst_tls_reason(connection->channel.tls));
    } else if (errno != EAGAIN && errno != EINTR) {
        drop_quietly(connection, strerror(errno));
    }
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct mst_uv_connection *connection = poll->data;

    if (status < 0) {
        drop_quietly(connection, "connection lost");
        return;
    }
    if (events & UV_WRITABLE) {
        mark_dirty(connection);
    }
    if ((events & UV_READABLE) && !connection->draining) {
        struct mst_uv_hub *hub = connection->hub;

        receive(connection);
        mst_uv_pressure_shed(hub);
        mst_uv_feed_pulse(&hub->feed);
    }
}

/* ---- effects to the codecs, bytes out ---- */

static void carry(struct mst_uv_hub *hub, const struct mst_effect *effect)
{
    struct mst_uv_connection *connection = *slot(hub, effect->conn);

    if (!connection || connection->draining) {
        mst_core_done(hub->core, effect);
        return;
    }
    switch (effect->type) {
    case MST_EFFECT_HANGUP:
        mst_uv_tell(connection, MST_INFO, "connection-ended", effect->reason);
        drain(connection);
        mst_core_done(hub->core, effect);
        break;
    case MST_EFFECT_REPLY:
        (void)pass_on_or_defer(connection, effect);
        break;
    }
}

void mst_uv_hub_carry_all(struct mst_uv_hub *hub)
{
    const struct mst_effect *effect;

    while ((effect = next_effect(hub))) {
        carry(hub, effect);
    }
}

/* False: it was dropped. */
static bool send_out(struct mst_uv_connection *connection)
{
    struct mst_slice out = {.size = 0};
    ssize_t taken;

    if (connection->codec) {
        out = mst_native_stream_output(&connection->codec->stream);
    }
    if (out.size == 0 && mst_channel_pending(&connection->channel) == 0) {
        return true;
    }
    mst_uv_pressure_offer(connection);
    taken = mst_channel_send(&connection->channel, out);
    if (taken < 0) {
        drop_quietly(connection, strerror(errno));
        return false;
    }
    if (taken > 0) {
        mst_native_stream_written(&connection->codec->stream, (size_t)taken);
    }
    mst_uv_pressure_taken(connection, (size_t)taken);
    return true;
}

static void flush(struct mst_uv_connection *connection)
{
    struct mst_tls *tls = connection->channel.tls;

    if (connection->doomed) {
        drop(connection);
        return;
    }
    if (!send_out(connection)) {
        return;
    }
    if (connection->draining && tls && mst_uv_connection_unread(connection) == 0) {
        mst_tls_close(tls);
        if (!send_out(connection)) {
            return;
        }
    }
    if (connection->draining && mst_uv_connection_unread(connection) == 0) {
        drop(connection);
        return;
    }
    if (connection->channel.over && !connection->more && !connection->draining) {
        receive(connection); /* the end came with the last request, and the socket is silent */
        return;
    }
    mst_uv_connection_watch(connection);
}

/* Effects first: replies of one turn to one connection share a write. But when a round releases ten
 * thousand, the first are written before the processor's cache has forgotten them. A connection
 * that is dropped may cause effects for others, so this goes round until both are exhausted. No
 * byte leaves before the journal has kept what was fed so far. */
static void settle(struct mst_uv_hub *hub)
{
    unsigned carried = 0;

    for (;;) {
        const struct mst_effect *effect = carried < CARRIED ? next_effect(hub) : NULL;
        struct mst_list *node;

        if (effect) {
            carry(hub, effect);
            carried++;
            continue;
        }
        if (mst_list_empty(&hub->dirty) && carried > 0) {
            carried = 0;
            continue;
        }
        node = mst_list_take(&hub->dirty);
        if (!node || !mst_uv_feed_commit(&hub->feed)) {
            return;
        }
        flush(MST_CONTAINER(node, struct mst_uv_connection, dirty));
    }
}

static const char *overdue(const struct mst_uv_connection *connection)
{
    if (connection->draining) {
        return "does not read what it is told";
    }
    return connection->channel.tls && !mst_tls_trusted(connection->channel.tls)
               ? "does not finish its TLS handshake"
               : "asks nothing";
}

/* The first of a list, if it is due by then. */
static struct mst_uv_connection *due(const struct mst_list *list, uint64_t by_ns)
{
    struct mst_uv_connection *first =
        MST_CONTAINER(list->next, struct mst_uv_connection, probation);

    return !mst_list_empty(list) && first->until_ns <= by_ns ? first : NULL;
}

/* After everything readable was read, so requests that arrived in time count. */
static void expire(struct mst_uv_hub *hub)
{
    struct mst_uv_connection *first;

    while ((first = due(&hub->probation, now(hub)))) {
        mst_uv_complain(first, overdue(first));
        drop(first);
    }
    while ((first = due(&hub->quiet, now(hub)))) {
        if (mst_core_in_session(hub->core, first->id)) { /* of which more in QUIET_LEASES */
            hear(first);
            continue;
        }
        mst_uv_tell(first, MST_INFO, "connection-ended", "asks nothing any more");
        drop(first);
    }
    for (unsigned i = 0; hub->crowded && i < GIVE_WAY; i++) {
        first = due(&hub->probation, now(hub) + hub->patience_ns - PATIENCE_NS);
        if (!first) {
            break;
        }
        mst_uv_complain(first, "gives way to others: it has asked nothing so far");
        drop(first);
    }
    hub->crowded = false;
}

/* ---- the hub ---- */

static void on_trace(void *ctx, const struct mst_trace *line)
{
    const struct mst_uv_hub *hub = ctx;

    if (!hub->recovering && mst_uv_log_wants(hub->log, line->level)) {
        mst_uv_log_story(hub->log, line);
    }
}

static void on_incident(void *ctx, const struct mst_core *core, struct mst_slice job)
{
    const struct mst_uv_hub *hub = ctx;

    if (!hub->recovering) {
        mst_uv_kept_incident(hub->kept, core, job, mst_clock_ms(CLOCK_REALTIME));
    }
}

muster_status mst_uv_hub_init(struct mst_uv_hub *hub, uv_loop_t *loop, struct mst_uv_log *log,
                              const struct mst_uv_service_config *config, struct muster_error *err)
{
    struct mst_core_config core = {.lease_ns = config->lease_ns,
                                   .limits = config->limits,
                                   .history = config->history,
                                   .straggler_percent = config->straggler_percent,
                                   .waiting_bytes_max = config->waiting_bytes_max,
                                   .trace = on_trace,
                                   .incident = on_incident,
                                   .trace_ctx = hub};
    muster_status status;

    mst_system_random(core.secret.halves, 2);
    memset(hub, 0, sizeof *hub);
    hub->loop = loop;
    hub->log = log;
    hub->limits = config->limits;
    hub->patience_ns = mst_later(config->lease_ns, PATIENCE_NS);
    hub->mem = mst_uv_reserve_init(&hub->reserve);
    mst_uv_pressure_init(&hub->pressure, &hub->mem, config->buffered_bytes_max);
    mst_list_init(&hub->dirty);
    mst_list_init(&hub->ready);
    mst_list_init(&hub->probation);
    mst_list_init(&hub->quiet);
    mst_list_init(&hub->unproven);
    hub->recovering = true;
    status = mst_uv_feed_init(&hub->feed, loop, log, &core, &config->journal, &hub->mem, err);
    hub->recovering = !mst_uv_feed_serves(&hub->feed);
    hub->core = hub->feed.core;
    hub->last_id = hub->feed.last_conn;
    if (status == MUSTER_OK && config->kept && *config->kept) {
        hub->kept = mst_uv_kept_open(config->kept, config->job, log);
        mst_uv_kept_incident(hub->kept, hub->core, mst_slice_text(config->job),
                             mst_clock_ms(CLOCK_REALTIME));

        /* recovered */
    }
    return status == MUSTER_OK ? mst_uv_follow_begin(hub, err) : status;
}

void mst_uv_hub_fini(struct mst_uv_hub *hub)
{
    mst_uv_kept_close(hub->kept);
    hub->core = NULL;
    free(hub->addresses);
    mst_uv_feed_fini(&hub->feed);
    mst_uv_reserve_fini(&hub->reserve);
}

static bool room_for_one_more(struct mst_uv_hub *hub, int fd)
{
    if (hub->count >= hub->limits.connections_max) {
        hub->crowded = true;
        if (hub->refused++ == 0) {
            mst_uv_log_line(hub->log, MST_WARN, "service",
                            "connection-limit-reached limit=%" PRIu64
                            " (--connections-max): new connections are closed",
                            hub->limits.connections_max);
        }
        close(fd);
        return false;
    }
    if (hub->refused > 0) {
        mst_uv_log_line(hub->log, MST_WARN, "service", "connection-limit-left refused=%" PRIu64,
                        hub->refused);
        hub->refused = 0;
    }
    return true;
}

/* One more connection without the secret; the oldest of too many is closed. */
static void add_stranger(struct mst_uv_connection *connection)
{
    struct mst_uv_hub *hub = connection->hub;

    mst_list_append(&hub->unproven, &connection->unproven);
    hub->strangers++;
    if (hub->strangers > hub->limits.handshakes_max) {
        struct mst_uv_connection *oldest =
            MST_CONTAINER(hub->unproven.next, struct mst_uv_connection, unproven);

        mst_uv_complain(oldest,
                        "too many handshakes are under way (--handshakes-max), and this is the "
                        "oldest");
        drop(oldest);
    }
}

void mst_uv_hub_accept(struct mst_uv_hub *hub, int fd)
{
    struct mst_uv_connection *connection;
    struct mst_uv_connection **at;
    bool tcp = false;

    if (!mst_uv_peer_allowed(fd, &tcp)) {
        mst_uv_refuse(hub, fd, "another user");
        return;
    }
    if (!room_for_one_more(hub, fd)) {
        return;
    }
    hub->reserve.storing = true;
    connection = mst_mem_zalloc(&hub->mem, sizeof *connection);
    hub->reserve.storing = false;
    if (!connection || uv_poll_init(hub->loop, &connection->poll, fd) != 0) {
        mst_mem_release(&hub->mem, connection);
        mst_uv_refuse(hub, fd, "out of memory");
        return;
    }
    connection->hub = hub;
    connection->channel.fd = fd;
    connection->poll.data = connection;
    connection->id.id = ++hub->last_id;
    connection->drained = true;
    hub->count++;
    at = slot(hub, connection->id);
    *at = connection;
    put_on_probation(connection, hub->patience_ns);
    mst_uv_tell(connection, MST_DEBUG, "connection-accepted", "");
    mst_uv_connection_watch(connection);
    if (tcp && hub->tls) {
        add_stranger(connection);
    } else {
        (void)let_in(connection);
    }
}

void mst_uv_hub_resume(struct mst_uv_hub *hub)
{
    struct mst_list *last = hub->ready.prev;
    struct mst_list later;

    /* The time of a turn is limited: waiting replies and new requests come first in turns. */
    hub->waiting_first = !hub->waiting_first;
    if (hub->waiting_first) {
        mst_uv_pressure_resume(hub);
    }
    mst_list_init(&later);
    /* A connection with further requests is appended again, and waits for the next turn. */
    for (struct mst_list *node = NULL; node != last && !mst_list_empty(&hub->ready);) {
        struct mst_uv_connection *connection;

        node = mst_list_take(&hub->ready);
        connection = MST_CONTAINER(node, struct mst_uv_connection, ready);
        if (connection->searches && mst_uv_pressure_spent(&hub->pressure)) {
            mst_list_append(&later, node);
        } else if (mst_uv_pressure_may_read(connection)) { /* else it comes back with its watch */
            pump(connection);
        }
    }
    mst_list_put_before(&hub->ready, &later);
}

void mst_uv_hub_turn(struct mst_uv_hub *hub)
{
    mst_uv_follow_turn(hub);
    if (mst_uv_feed_serves(&hub->feed)) {
        mst_journal_tick(hub->feed.journal, now(hub));
    }
    mst_uv_pressure_resume(hub);
    settle(hub);
    expire(hub);
    mst_uv_pressure_turn(hub);
    settle(hub);
    hub->strangers_read = 0;
    mst_uv_reserve_refill(&hub->reserve);
    if (mst_uv_feed_commit(&hub->feed)) {
        mst_uv_feed_rest(&hub->feed);
    }
    hub->now_ns = 0;
}

static uint64_t sooner(const struct mst_list *list, uint64_t deadline_ns)
{
    const struct mst_uv_connection *first = due(list, deadline_ns);

    return first ? first->until_ns : deadline_ns;
}

uint64_t mst_uv_hub_deadline_ns(const struct mst_uv_hub *hub)
{
    uint64_t deadline_ns = mst_uv_feed_deadline_ns(&hub->feed);
    uint64_t now_ns = mst_uv_feed_now_ns(&hub->feed);

    if (!mst_list_empty(&hub->ready) || !mst_list_empty(&hub->dirty)) {
        return 0;
    }
    deadline_ns = mst_sooner(deadline_ns, mst_uv_pressure_deadline_ns(hub));
    deadline_ns = sooner(&hub->probation, sooner(&hub->quiet, deadline_ns));
    if (deadline_ns != UINT64_MAX) { /* from one clock to the other */
        deadline_ns = deadline_ns > now_ns ? uv_hrtime() + (deadline_ns - now_ns) : 0;
    }
    return mst_sooner(deadline_ns, mst_uv_feed_wake_ns(&hub->feed));
}

void mst_uv_hub_stop(struct mst_uv_hub *hub)
{
    hub->stopping = true;
    for (size_t i = 0; i < MST_UV_BUCKETS; i++) {
        for (struct mst_uv_connection *one = hub->buckets[i]; one; one = one->chain) {
            drain(one);
        }
    }
}

void mst_uv_hub_drop_all(struct mst_uv_hub *hub)
{
    for (size_t i = 0; i < MST_UV_BUCKETS; i++) {
        while (hub->buckets[i]) {
            drop(hub->buckets[i]);
        }
    }
}
