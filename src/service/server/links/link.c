/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/links/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "base/time.h"
#include "net/endpoint.h"
#include "service/server/peer.h"

#define BACK_OFF_FIRST_NS (10 * NS_PER_MS)
#define BACK_OFF_MOST_NS NS_PER_S
#define LASTED_NS NS_PER_S /* a connection that did was no failure */
#define COMPLAINTS_NS (10 * NS_PER_S)
#define REFUSED_FAILURES 16u /* it is asked again, but not soon */
#define COMPLAINTS 20u       /* lines about connections that came in, in such a time */
#define READS 4u             /* of one connection, before others have their turn */

_Static_assert(MST_REPLICA_TAKE_MAX >= MST_CHANNEL_ROOM, "a piece of a channel fits a reader");

/* ---- for people ---- */

static const char *name_of(const struct mst_uv_link *link, char *text, size_t room)
{
    if (link->stage == MST_UV_LINK_GREETED) {
        return link->peer.address;
    }
    if (link->target) {
        return link->target->address.text;
    }
    mst_uv_peer_name(link->channel.fd, text, room);
    return text;
}

/* One that came in can come again as often as it likes. */
static bool may_complain(struct mst_uv_links *links)
{
    if (uv_hrtime() >= links->complaints_until_ns) {
        if (links->complaints > COMPLAINTS) {
            mst_uv_log_line(links->config.log, MST_WARN, "replica", "strangers-refused more=%u",
                            (unsigned)(links->complaints - COMPLAINTS));
        }
        links->complaints = 0;
        links->complaints_until_ns = uv_hrtime() + COMPLAINTS_NS;
    }
    return links->complaints++ < COMPLAINTS;
}

/* Of a target without an answer the first reason, else each reason once, since it was last
 * reached. */
static void explain(struct mst_uv_link *link, const char *reason)
{
    struct mst_uv_links *links = link->links;
    struct mst_uv_target *target = link->target;
    const bool is_attempt = link->stage < MST_UV_LINK_GREETING;
    char name[80];

    if (link->is_quiet) {
        return;
    }
    if (link->stage == MST_UV_LINK_GREETED) {
        mst_uv_links_say(links, MST_INFO, "replica-disconnected", link->peer.address, reason);
    } else if (target &&
               (is_attempt ? target->said[0] == '\0' : strcmp(target->said, reason) != 0)) {
        mst_text_print(target->said, sizeof(target->said), "%s", reason);
        mst_uv_links_say(links, MST_WARN, "replica-unreachable", target->address.text, reason);
    } else if (!target && may_complain(links)) {
        mst_uv_links_say(links, MST_WARN, "replica-refused", name_of(link, name, sizeof(name)),
                         reason);
    }
}

/* ---- the end of a link ---- */

void mst_uv_link_free(struct mst_uv_link *link)
{
    struct mst_uv_links *links = link->links;
    const struct mst_uv_links_peer peer = link->peer;
    const bool was_peer = link->stage == MST_UV_LINK_GREETED;

    mst_tls_free(link->channel.tls);
    mst_replica_reader_fini(&link->reader);
    mst_buffer_fini(&link->output);
    mst_buffer_fini(&link->kept);
    mst_mem_release(links->mem, link);
    if (was_peer && !links->closing && !mst_uv_links_connected(links, peer.id) &&
        links->config.lost) {
        links->config.lost(links->config.ctx, &peer);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct mst_uv_link *link = handle->data;
    struct mst_uv_links *links = link->links;

    links->handles--;
    if (--link->handles == 0) {
        mst_uv_link_free(link);
    }
    mst_uv_links_free_when_closed(links);
}

void mst_uv_link_watch(struct mst_uv_link *link, uv_poll_t *poll)
{
    poll->data = link;
    link->handles++;
    link->links->handles++;
}

static uint64_t back_off_ns(uint32_t failures)
{
    uint64_t delay_ns = BACK_OFF_FIRST_NS;

    for (uint32_t i = 1; i < failures && delay_ns < BACK_OFF_MOST_NS; i++) {
        delay_ns *= 2;
    }
    return delay_ns < BACK_OFF_MOST_NS ? delay_ns : BACK_OFF_MOST_NS;
}

static void leave_target(struct mst_uv_link *link)
{
    struct mst_uv_target *target = link->target;
    uint64_t now_ns = uv_hrtime();

    if (target) {
        if (link->stage == MST_UV_LINK_GREETED && now_ns - link->greeted_ns > LASTED_NS) {
            target->failures = 0;
        }
        target->failures++;
        target->retry_ns = now_ns + back_off_ns(target->failures);
        target->link = NULL;
        link->target = NULL;
    }
}

/* Its memory lives until the loop has closed its handles: it may be in use further up. */
void mst_uv_link_drop(struct mst_uv_link *link, const char *reason)
{
    if (link->dead) {
        return;
    }
    explain(link, reason);
    link->dead = true;
    mst_list_remove(&link->node);
    leave_target(link);
    if (link->lookup) {
        uv_close((uv_handle_t *)&link->lookup_poll, on_closed);
        mst_lookup_drop(link->lookup);
        link->lookup = NULL;
    }
    if (link->channel.fd >= 0) {
        uv_close((uv_handle_t *)&link->poll, on_closed);
        (void)close(link->channel.fd);
    }
    mst_uv_links_settle(link->links);
}

/* ---- bytes out ---- */

static void on_event(uv_poll_t *poll, int status, int events);

static bool may_write(const struct mst_uv_link *link)
{
    return !link->channel.tls || mst_tls_trusted(link->channel.tls);
}

static void rewatch(struct mst_uv_link *link)
{
    bool left = mst_channel_pending(&link->channel) > 0 ||
                (mst_buffer_content(&link->output).size > 0 && may_write(link));
    int events = UV_READABLE | (left ? UV_WRITABLE : 0);

    if (events != link->events) {
        link->events = events;
        (void)uv_poll_start(&link->poll, events, on_event);
    }
}

/* How many of the bytes were taken; the link is dropped if its socket is dead. */
static size_t offer(struct mst_uv_link *link, struct mst_slice bytes)
{
    ssize_t taken = mst_channel_send(&link->channel, bytes);

    if (taken < 0) {
        mst_uv_link_drop(link, errno == EPROTO && link->channel.tls
                                   ? mst_tls_reason(link->channel.tls)
                                   : strerror(errno));
    }
    return taken > 0 ? (size_t)taken : 0;
}

void mst_uv_link_flush(struct mst_uv_link *link)
{
    size_t taken;

    do {
        taken = offer(link, mst_buffer_content(&link->output));
        if (link->dead) {
            return;
        }
        mst_buffer_take(&link->output, taken);
    } while (taken > 0 && !link->channel.blocked && mst_buffer_content(&link->output).size > 0);
    if (mst_buffer_content(&link->output).size == 0) {
        if (link->dropped > 0) {
            mst_uv_log_line(link->links->config.log, MST_WARN, "replica",
                            "messages-dropped address=%s count=%" PRIu64, link->peer.address,
                            link->dropped);
            link->dropped = 0;
        }
        if (link->stage == MST_UV_LINK_REFUSING && mst_channel_pending(&link->channel) == 0) {
            mst_uv_link_drop(link, "");
            return;
        }
    }
    rewatch(link);
}

/* What the socket does not take is copied. The first message that finds no room is a line, and how
 * many it were another one. */
void mst_uv_link_send(struct mst_uv_link *link, struct mst_slice bytes)
{
    const bool others_wait = mst_buffer_content(&link->output).size > 0;
    size_t taken = others_wait ? 0 : offer(link, bytes);

    if (link->dead) {
        return;
    }
    if (!mst_buffer_append(&link->output, mst_slice_from(bytes, taken))) {
        if (taken > 0) {
            mst_uv_link_drop(link, "out of memory");
        } else if (link->dropped++ == 0) {
            mst_uv_links_say(link->links, MST_WARN, "output-full", link->peer.address,
                             "it does not read what it is sent; messages are dropped");
        }
    } else if (others_wait) {
        mst_uv_link_flush(link);
    } else {
        rewatch(link);
    }
}

static bool append_message(struct mst_uv_link *link, const struct mst_replica_message *message)
{
    return mst_replica_message_write(&link->output, message) == MUSTER_OK;
}

/* ---- hellos ---- */

/* The last that it hears; the line is for both sides. */
static void refuse(struct mst_uv_link *link, const char *line)
{
    const struct mst_replica_message message = {.type = MST_REPLICA_REFUSED,
                                                .refused = {.protocol = MST_REPLICA_PROTOCOL,
                                                            .rules = link->links->config.rules,
                                                            .text = mst_slice_text(line)}};

    explain(link, line);
    link->is_quiet = true;
    link->stage = MST_UV_LINK_REFUSING;
    if (link->target) {
        link->target->failures = REFUSED_FAILURES;
    }
    if (!append_message(link, &message)) {
        mst_uv_link_drop(link, line);
        return;
    }
    mst_uv_link_flush(link);
}

static void be_refused(struct mst_uv_link *link, struct mst_slice text)
{
    char line[MST_UV_LINK_LINE];

    mst_text_print(line, sizeof(line), "it refuses this replica: %.*s", MST_SLICE_ARGS(text));
    if (link->target) {
        link->target->failures = REFUSED_FAILURES;
    }
    mst_uv_link_drop(link, line);
}

/* Of a newer connection of one that dialed the older one knows nothing any more. */
static void replace_older(struct mst_uv_link *link)
{
    struct mst_uv_links *links = link->links;
    struct mst_list *next;

    for (struct mst_list *at = links->all.next; at != &links->all; at = next) {
        struct mst_uv_link *other = MST_CONTAINER(at, struct mst_uv_link, node);

        next = at->next;
        if (other != link && other->stage == MST_UV_LINK_GREETED && !other->target &&
            !link->target && other->peer.id == link->peer.id) {
            other->is_quiet = true;
            mst_uv_link_drop(other, "it has connected again");
        }
    }
}

static void greet(struct mst_uv_link *link, const struct mst_address *address,
                  const struct mst_replica_message *message)
{
    struct mst_uv_links *links = link->links;
    struct mst_slice kept = mst_buffer_content(&link->kept);

    link->peer.id = message->hello.id;
    link->peer.member = message->hello.member;
    mst_uv_links_copy(link->peer.address, sizeof(link->peer.address), message->hello.address);
    mst_uv_links_copy(link->peer.version, sizeof(link->peer.version), message->hello.version);
    if (!mst_address_is_local(address)) {
        mst_uv_links_copy(link->peer.host, sizeof(link->peer.host), mst_slice_text(address->host));
    }
    link->stage = MST_UV_LINK_GREETED;
    link->greeted_ns = uv_hrtime();
    link->until_ns = UINT64_MAX;
    mst_replica_reader_admit(&link->reader);
    mst_list_remove(&link->node);
    mst_list_append(&links->all, &link->node);
    replace_older(link);
    mst_uv_log_line(links->config.log, MST_INFO, "replica",
                    "replica-connected address=%s id=%" PRIu64 " dialed=%s", link->peer.address,
                    link->peer.id, link->target ? "yes" : "no");
    if (link->target) {
        link->target->said[0] = '\0';
    }
    if (kept.size > 0 && link->meant == link->peer.id) {
        mst_uv_link_send(link, kept);
    }
    mst_buffer_fini(&link->kept);
    if (!link->dead && links->config.connected) {
        links->config.connected(links->config.ctx, &link->peer);
    }
}

static size_t count_peers(const struct mst_uv_links *links)
{
    struct mst_uv_links_peer peers[MST_UV_LINKS_PEERS_MAX];

    return mst_uv_links_peers(links, peers);
}

/* There is no need for this one, as long as the other is there. */
static void leave_to_twin(struct mst_uv_link *link, uint64_t peer)
{
    link->is_quiet = true;
    if (link->target) {
        link->target->twin = peer;
    }
    mst_uv_link_drop(link, "");
}

/* Two addresses may be one replica's. */
static bool is_dialed(const struct mst_uv_links *links, uint64_t peer)
{
    for (struct mst_list *at = links->all.next; at != &links->all; at = at->next) {
        const struct mst_uv_link *link = MST_CONTAINER(at, struct mst_uv_link, node);

        if (link->stage == MST_UV_LINK_GREETED && link->target && link->peer.id == peer) {
            return true;
        }
    }
    return false;
}

static void hear_hello(struct mst_uv_link *link, const struct mst_replica_message *message)
{
    struct mst_uv_links *links = link->links;
    struct mst_address address;
    char line[MST_UV_LINK_LINE];

    if (message->type == MST_REPLICA_REFUSED) {
        be_refused(link, message->refused.text);
    } else if (message->type != MST_REPLICA_HELLO) {
        mst_uv_link_drop(link, "it says no hello");
    } else if (message->hello.id == links->config.id &&
               mst_slice_is(message->hello.address, links->address)) {
        leave_to_twin(link, links->config.id);
    } else if (mst_address_parse(&address, message->hello.address) != NULL) {
        refuse(link, "the address in its hello makes no sense");
    } else if (!mst_replica_hello_fits(&links->hello, message, line, 256)) {
        refuse(link, line);
    } else if (link->target && is_dialed(links, message->hello.id)) {
        leave_to_twin(link, message->hello.id);
    } else if (!mst_uv_links_connected(links, message->hello.id) &&
               count_peers(links) == MST_UV_LINKS_PEERS_MAX) {
        refuse(link, "too many replicas are connected");
    } else {
        greet(link, &address, message);
    }
}

/* ---- bytes in ---- */

static void hear(struct mst_uv_link *link, const struct mst_replica_message *message)
{
    link->heard = ++link->links->heard;
    if (link->stage != MST_UV_LINK_GREETED) {
        hear_hello(link, message);
    } else if (message->type == MST_REPLICA_REFUSED) {
        be_refused(link, message->refused.text);
    } else if (message->type == MST_REPLICA_HELLO) {
        mst_uv_link_drop(link, "it says hello twice");
    } else {
        link->links->config.received(link->links->config.ctx, &link->peer, message);
    }
}

void mst_uv_link_pump(struct mst_uv_link *link)
{
    struct mst_replica_message message;
    const char *why = "it makes no sense";
    muster_status status = MUSTER_OK;
    char line[MST_UV_LINK_LINE];

    link->unread = false;
    while (!link->dead && link->stage != MST_UV_LINK_REFUSING && status == MUSTER_OK) {
        status = mst_replica_reader_next(&link->reader, &message, &why);
        if (status == MUSTER_OK) {
            hear(link, &message);
        } else if (status != MUSTER_MORE) {
            mst_text_print(line, sizeof(line), "it sends what is no message: %s", why);
            mst_uv_link_drop(link, line);
        }
    }
}

static const char *reason_of(const struct mst_uv_link *link, ssize_t got)
{
    const struct mst_tls *tls = link->channel.tls;

    if (got == 0) {
        return tls && !mst_tls_trusted(tls) ? mst_tls_cut_short(MST_TLS_CLIENT)
                                            : "closed by the peer";
    }
    return tls && errno == EPROTO ? mst_tls_reason(tls) : strerror(errno);
}

static void receive(struct mst_uv_link *link)
{
    for (unsigned i = 0; !link->dead && i < READS; i++) {
        size_t size;
        unsigned char *room = mst_replica_reader_room(&link->reader, &size);
        ssize_t got;

        if (!room) {
            mst_uv_link_drop(link, "out of memory");
            return;
        }
        got = mst_channel_receive(&link->channel, room, size);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            const char *reason = reason_of(link, got);

            if (got < 0 && link->channel.tls) { /* an alert for the peer */
                (void)mst_channel_send(&link->channel, mst_slice_of(NULL, 0));
            }
            mst_uv_link_drop(link, reason);
            return;
        }
        if (got > 0 && link->stage != MST_UV_LINK_REFUSING) {
            mst_replica_reader_took(&link->reader, (size_t)got);
            mst_uv_link_pump(link);
        }
        if (!link->channel.over && !link->channel.more) {
            break;
        }
    }
    if (!link->dead) {
        mst_uv_link_flush(link); /* the handshake may have something to say, and opens the way */
    }
}

/* ---- dialing ---- */

/* A peer that stops reading for that long is as good as lost: it is dialed again. */
void mst_uv_link_guard(int fd)
{
    const unsigned silent_ms = MST_ENDPOINT_VANISHED_MS;

    mst_endpoint_guard(fd);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms));
}

static void be_connected(struct mst_uv_link *link)
{
    struct mst_uv_links *links = link->links;
    bool local = link->target->address.kind == MST_ADDRESS_UNIX;

    link->stage = MST_UV_LINK_GREETING;
    if (!local) {
        mst_uv_link_guard(link->channel.fd);
        if (links->tls && mst_tls_new(&link->channel.tls, links->tls) != MUSTER_OK) {
            mst_uv_link_drop(link, "out of memory");
            return;
        }
    }
    mst_uv_link_flush(link);
}

static void start_socket(struct mst_uv_link *link, const struct mst_address *address)
{
    const char *why = NULL;
    bool done = false;

    link->stage = MST_UV_LINK_CONNECTING;
    link->channel.fd = mst_endpoint_connect(address, true, &done, &why);
    if (link->channel.fd < 0) {
        mst_uv_link_drop(link, why ? why : strerror(errno));
        return;
    }
    (void)uv_poll_init(link->links->config.loop, &link->poll, link->channel.fd);
    mst_uv_link_watch(link, &link->poll);
    if (done) {
        be_connected(link);
    } else {
        link->events = UV_WRITABLE;
        (void)uv_poll_start(&link->poll, UV_WRITABLE, on_event);
    }
}

static void on_lookup(uv_poll_t *poll, int status, int events)
{
    struct mst_uv_link *link = poll->data;
    struct mst_address address = link->target->address;
    const char *wrong;

    (void)status;
    (void)events;
    if (!mst_lookup_is_over(link->lookup)) {
        return;
    }
    wrong = mst_lookup_take(link->lookup, link->target->failures, &address);
    uv_close((uv_handle_t *)&link->lookup_poll, on_closed);
    mst_lookup_drop(link->lookup);
    link->lookup = NULL;
    if (wrong) {
        mst_uv_link_drop(link, wrong);
    } else {
        start_socket(link, &address);
    }
}

static void look_up(struct mst_uv_link *link)
{
    link->stage = MST_UV_LINK_LOOKING_UP;
    link->lookup = mst_lookup_start(&link->target->address);
    if (!link->lookup) {
        mst_uv_link_drop(link, strerror(errno));
        return;
    }
    (void)uv_poll_init(link->links->config.loop, &link->lookup_poll, mst_lookup_fd(link->lookup));
    mst_uv_link_watch(link, &link->lookup_poll);
    (void)uv_poll_start(&link->lookup_poll, UV_READABLE, on_lookup);
}

/* NULL: no memory. Its hello is in its output. */
struct mst_uv_link *mst_uv_link_new(struct mst_uv_links *links, struct mst_uv_target *target)
{
    static const char first = MST_UV_LINKS_FIRST_BYTE;
    struct mst_uv_link *link = mst_mem_zalloc(links->mem, sizeof(*link));

    if (!link) {
        return NULL;
    }
    link->links = links;
    link->target = target;
    link->stage = MST_UV_LINK_GREETING;
    link->channel.fd = -1;
    link->until_ns = uv_hrtime() + MST_UV_LINKS_GREETING_MS * NS_PER_MS;
    links->hello.hello.member = links->config.member && *links->config.member;
    mst_replica_reader_init(&link->reader, links->mem);
    mst_buffer_init(&link->output, links->mem, MST_UV_LINKS_OUTPUT_MAX);
    mst_buffer_init(&link->kept, links->mem, MST_UV_LINKS_OUTPUT_MAX / 2);
    if ((target && !mst_buffer_append(&link->output, mst_slice_of(&first, 1))) ||
        !append_message(link, &links->hello)) {
        mst_buffer_fini(&link->output);
        mst_mem_release(links->mem, link);
        return NULL;
    }
    mst_list_append(&links->all, &link->node);
    return link;
}

void mst_uv_link_dial(struct mst_uv_links *links, struct mst_uv_target *target)
{
    struct mst_uv_link *link = mst_uv_link_new(links, target);

    target->link = link;
    if (!link) {
        target->retry_ns = uv_hrtime() + BACK_OFF_MOST_NS;
        return;
    }
    if (target->address.kind == MST_ADDRESS_NAME) {
        look_up(link);
    } else {
        start_socket(link, &target->address);
    }
    if (link->dead && link->handles == 0) {
        mst_uv_link_free(link);
    }
}

static int error_of(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct mst_uv_link *link = poll->data;
    const bool fails = link->stage == MST_UV_LINK_CONNECTING || status < 0;
    const int error = fails ? error_of(link->channel.fd) : 0;

    if (error != 0 || status < 0) {
        mst_uv_link_drop(link, error != 0 ? strerror(error) : "the connection is lost");
        return;
    }
    if (link->stage == MST_UV_LINK_CONNECTING) {
        be_connected(link);
        return;
    }
    if (events & UV_READABLE) {
        receive(link);
    }
    if ((events & UV_WRITABLE) && !link->dead) {
        mst_uv_link_flush(link);
    }
}

/* ---- time ---- */

const char *mst_uv_link_overdue(const struct mst_uv_link *link)
{
    switch (link->stage) {
    case MST_UV_LINK_LOOKING_UP:
        return "the name service does not answer";
    case MST_UV_LINK_CONNECTING:
        return "it does not answer";
    default:
        return may_write(link) ? "it says no hello" : "it does not finish its TLS handshake";
    }
}
