/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/links.h"

#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text.h"
#include "base/time.h"
#include "service/server/links/link.h"

/* ---- texts ---- */

void mst_uv_links_say(struct mst_uv_links *links, enum mst_level level, const char *event,
                      const char *address, const char *reason)
{
    mst_uv_log_line(links->config.log, level, "replica", "%s address=%s reason=\"%s\"", event,
                    address, reason);
}

void mst_uv_links_copy(char *out, size_t room, struct mst_slice text)
{
    size_t size = text.size < room ? text.size : room - 1;

    if (size > 0) {
        memcpy(out, text.data, size);
    }
    out[size] = '\0';
}

/* ---- targets ---- */

static void free_target(struct mst_uv_links *links, struct mst_uv_target *target)
{
    if (target->link) {
        target->link->is_quiet = true;
        mst_uv_link_drop(target->link, "its address is no longer dialed");
    }
    mst_list_remove(&target->node);
    mst_mem_release(links->mem, target);
}

static struct mst_uv_target *find_target(struct mst_uv_links *links, struct mst_slice address)
{
    for (struct mst_list *at = links->targets.next; at != &links->targets; at = at->next) {
        struct mst_uv_target *target = MST_CONTAINER(at, struct mst_uv_target, node);

        if (mst_slice_is(address, target->address.text)) {
            return target;
        }
    }
    return NULL;
}

/* One of too many gives way: the one that was not used for longest. False: all are wanted. */
static bool make_room(struct mst_uv_links *links)
{
    struct mst_uv_target *oldest = NULL;
    unsigned count = 0;

    for (struct mst_list *at = links->targets.next; at != &links->targets; at = at->next) {
        struct mst_uv_target *target = MST_CONTAINER(at, struct mst_uv_target, node);

        count++;
        if (!target->reach && (!oldest || target->used_ns < oldest->used_ns)) {
            oldest = target;
        }
    }
    if (count < MST_UV_LINKS_TARGETS_MAX) {
        return true;
    }
    if (oldest) {
        free_target(links, oldest);
    }
    return oldest != NULL;
}

/* NULL: it is no address, or there is no room; a line says so. */
static struct mst_uv_target *target_at(struct mst_uv_links *links, struct mst_slice address)
{
    struct mst_uv_target *target = find_target(links, address);
    char line[MST_UV_LINK_LINE];
    const char *wrong;

    if (target) {
        return target;
    }
    target = make_room(links) ? mst_mem_zalloc(links->mem, sizeof(*target)) : NULL;
    wrong = target ? mst_address_parse(&target->address, address) : "is one too many";
    if (wrong) {
        mst_text_print(line, sizeof(line), "%.*s", MST_SLICE_ARGS(address));
        mst_uv_links_say(links, MST_WARN, "address-left-out", line, wrong);
        mst_mem_release(links->mem, target);
        return NULL;
    }
    mst_list_append(&links->targets, &target->node);
    return target;
}

static bool is_idle(const struct mst_uv_links *links, const struct mst_uv_target *target)
{
    return !target->link && target->twin != links->config.id &&
           (target->twin == 0 || !mst_uv_links_connected(links, target->twin));
}

static bool may_dial(const struct mst_uv_links *links, const struct mst_uv_target *target)
{
    return is_idle(links, target) && uv_hrtime() >= target->retry_ns;
}

void mst_uv_links_reach(struct mst_uv_links *links, const char *addresses)
{
    struct mst_slice rest = mst_slice_text(addresses ? addresses : "");

    for (struct mst_list *at = links->targets.next; at != &links->targets; at = at->next) {
        struct mst_uv_target *target = MST_CONTAINER(at, struct mst_uv_target, node);

        target->reach = false;
        target->twin = 0;
    }
    while (rest.size > 0) {
        struct mst_slice one = mst_slice_cut(&rest, ',');
        struct mst_uv_target *target =
            one.size > 0 && !mst_slice_is(one, links->address) ? target_at(links, one) : NULL;

        if (target) {
            target->reach = true;
        }
    }
    mst_uv_links_settle(links);
}

/* ---- time ---- */

static uint64_t deadline_of(const struct mst_uv_links *links)
{
    uint64_t deadline_ns = UINT64_MAX;

    for (struct mst_list *at = links->all.next; at != &links->all; at = at->next) {
        const struct mst_uv_link *link = MST_CONTAINER(at, struct mst_uv_link, node);

        deadline_ns = mst_sooner(deadline_ns, link->unread ? 0 : link->until_ns);
    }
    for (struct mst_list *at = links->targets.next; at != &links->targets; at = at->next) {
        const struct mst_uv_target *target = MST_CONTAINER(at, struct mst_uv_target, node);

        if (target->reach && is_idle(links, target)) {
            deadline_ns = mst_sooner(deadline_ns, target->retry_ns);
        }
    }
    return deadline_ns;
}

/* Links that a callback drops leave the list: it is gone through from the start after each. */
static bool expire_one(struct mst_uv_links *links)
{
    for (struct mst_list *at = links->all.next; at != &links->all; at = at->next) {
        struct mst_uv_link *link = MST_CONTAINER(at, struct mst_uv_link, node);

        if (link->unread) {
            mst_uv_link_pump(link);
            return true;
        }
        if (link->until_ns <= uv_hrtime()) {
            mst_uv_link_drop(link, mst_uv_link_overdue(link));
            return true;
        }
    }
    return false;
}

static void on_timer(uv_timer_t *timer)
{
    struct mst_uv_links *links = timer->data;

    while (expire_one(links)) {
    }
    for (struct mst_list *at = links->targets.next; at != &links->targets; at = at->next) {
        struct mst_uv_target *target = MST_CONTAINER(at, struct mst_uv_target, node);

        if (target->reach && may_dial(links, target)) {
            mst_uv_link_dial(links, target);
        }
    }
    mst_uv_links_settle(links);
}

void mst_uv_links_settle(struct mst_uv_links *links)
{
    uint64_t deadline_ns = deadline_of(links);
    uint64_t now_ns = uv_hrtime();

    if (links->closing) {
        return;
    }
    if (deadline_ns == UINT64_MAX) {
        (void)uv_timer_stop(&links->timer);
        return;
    }
    uv_update_time(links->config.loop); /* the loop may have rested for long */
    (void)uv_timer_start(&links->timer, on_timer,
                         deadline_ns > now_ns ? (deadline_ns - now_ns) / NS_PER_MS + 1 : 0, 0);
}

/* ---- sending and taking ---- */

/* The one on which it was heard last: question and answer then share a connection, and what one
 * side sends acknowledges what came from the other. */
static struct mst_uv_link *link_to(struct mst_uv_links *links, uint64_t peer)
{
    struct mst_uv_link *found = NULL;

    for (struct mst_list *at = links->all.next; at != &links->all; at = at->next) {
        struct mst_uv_link *link = MST_CONTAINER(at, struct mst_uv_link, node);

        if (link->stage == MST_UV_LINK_GREETED && link->peer.id == peer &&
            (!found || link->heard > found->heard)) {
            found = link;
        }
    }
    return found;
}

static void keep(struct mst_uv_link *link, uint64_t peer, struct mst_slice bytes)
{
    if (link->meant != peer) {
        mst_buffer_take(&link->kept, mst_buffer_content(&link->kept).size);
        link->meant = peer;
    }
    (void)mst_buffer_append(&link->kept, bytes);
}

void mst_uv_links_send(struct mst_uv_links *links, uint64_t peer, const char *address,
                       struct mst_slice bytes)
{
    struct mst_uv_link *link = link_to(links, peer);
    struct mst_uv_target *target;

    if (link) {
        if (link->target) {
            link->target->used_ns = uv_hrtime();
        }
        mst_uv_link_send(link, bytes);
        return;
    }
    target = target_at(links, mst_slice_text(address));
    if (!target) {
        return;
    }
    target->used_ns = uv_hrtime();
    if (may_dial(links, target)) {
        mst_uv_link_dial(links, target);
    }
    if (target->link && target->link->stage < MST_UV_LINK_GREETED) {
        keep(target->link, peer, bytes);
    }
    mst_uv_links_settle(links);
}

/* The oldest of too many that have said nothing. */
static void shed_strangers(struct mst_uv_links *links)
{
    struct mst_uv_link *oldest = NULL;
    unsigned count = 0;

    for (struct mst_list *at = links->all.next; at != &links->all; at = at->next) {
        struct mst_uv_link *link = MST_CONTAINER(at, struct mst_uv_link, node);

        if (!link->target && link->stage != MST_UV_LINK_GREETED) {
            oldest = oldest ? oldest : link;
            count++;
        }
    }
    if (count > MST_UV_LINKS_STRANGERS_MAX) {
        mst_uv_link_drop(oldest, "too many say no hello, and this is the oldest");
    }
}

void mst_uv_links_take(struct mst_uv_links *links, int fd, struct mst_tls *tls,
                       struct mst_slice bytes)
{
    struct mst_uv_link *link = mst_uv_link_new(links, NULL);

    if (!link || uv_poll_init(links->config.loop, &link->poll, fd) != 0) {
        if (link) {
            mst_list_remove(&link->node);
            link->is_quiet = true;
            mst_uv_link_free(link);
        }
        mst_tls_free(tls);
        (void)close(fd);
        return;
    }
    mst_uv_link_watch(link, &link->poll);
    link->channel = (struct mst_channel){.fd = fd, .tls = tls};
    mst_uv_link_guard(fd);
    if (mst_replica_reader_take(&link->reader, bytes) != MUSTER_OK) {
        mst_uv_link_drop(link, "out of memory");
        return;
    }
    link->unread = bytes.size > 0;
    mst_uv_link_flush(link);
    shed_strangers(links);
    mst_uv_links_settle(links);
}

/* ---- connected peers ---- */

size_t mst_uv_links_peers(const struct mst_uv_links *links,
                          struct mst_uv_links_peer out[MST_UV_LINKS_PEERS_MAX])
{
    size_t count = 0;

    for (struct mst_list *at = links->all.next; at != &links->all; at = at->next) {
        const struct mst_uv_link *link = MST_CONTAINER(at, struct mst_uv_link, node);
        bool known = link->stage != MST_UV_LINK_GREETED;

        for (size_t i = 0; i < count && !known; i++) {
            known = out[i].id == link->peer.id;
        }
        if (!known && count < MST_UV_LINKS_PEERS_MAX) {
            out[count++] = link->peer;
        }
    }
    return count;
}

bool mst_uv_links_connected(const struct mst_uv_links *links, uint64_t peer)
{
    for (struct mst_list *at = links->all.next; at != &links->all; at = at->next) {
        const struct mst_uv_link *link = MST_CONTAINER(at, struct mst_uv_link, node);

        if (link->stage == MST_UV_LINK_GREETED && link->peer.id == peer) {
            return true;
        }
    }
    return false;
}

/* ---- birth and death ---- */

void mst_uv_links_free_when_closed(struct mst_uv_links *links)
{
    if (links->closing && links->handles == 0) {
        mst_tls_context_free(links->tls);
        mst_mem_release(links->mem, links);
    }
}

static struct mst_replica_message hello_of(const struct mst_uv_links *links)
{
    return (struct mst_replica_message){.type = MST_REPLICA_HELLO,
                                        .hello = {.protocol = MST_REPLICA_PROTOCOL,
                                                  .rules = links->config.rules,
                                                  .id = links->config.id,
                                                  .run = mst_slice_text(links->run),
                                                  .address = mst_slice_text(links->address),
                                                  .version = mst_slice_text(links->version)}};
}

muster_status mst_uv_links_open(struct mst_uv_links **out, const struct mst_uv_links_config *config,
                                struct muster_error *err)
{
    struct mst_address address;
    const char *wrong = mst_address_parse(&address, mst_slice_text(config->address));
    struct mst_uv_links *links;
    muster_status status = MUSTER_OK;

    if (wrong) {
        return mst_fail(err, MUSTER_EINVAL, 0, "the address of this replica, '%s', %s",
                        config->address, wrong);
    }
    links = mst_mem_zalloc(config->mem, sizeof(*links));
    if (!links) {
        return mst_fail(err, MUSTER_ENOMEM, 0, "no memory for the connections of a replica");
    }
    links->config = *config;
    links->config.secret = NULL;
    links->mem = config->mem;
    mst_uv_links_copy(links->run, sizeof(links->run), mst_slice_text(config->run));
    mst_uv_links_copy(links->address, sizeof(links->address), mst_slice_text(config->address));
    mst_uv_links_copy(links->version, sizeof(links->version), mst_slice_text(config->version));
    links->hello = hello_of(links);
    mst_list_init(&links->all);
    mst_list_init(&links->targets);
    if (config->secret) {
        status = mst_tls_context_new(&links->tls, MST_TLS_CLIENT, config->secret, err);
    }
    if (status != MUSTER_OK) {
        mst_mem_release(links->mem, links);
        return status;
    }
    (void)uv_timer_init(config->loop, &links->timer);
    links->timer.data = links;
    links->handles = 1;
    *out = links;
    return MUSTER_OK;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct mst_uv_links *links = handle->data;

    links->handles--;
    mst_uv_links_free_when_closed(links);
}

void mst_uv_links_close(struct mst_uv_links *links)
{
    if (!links) {
        return;
    }
    links->closing = true;
    while (!mst_list_empty(&links->all)) {
        struct mst_uv_link *link = MST_CONTAINER(links->all.next, struct mst_uv_link, node);

        link->is_quiet = true;
        mst_uv_link_drop(link, "");
    }
    while (!mst_list_empty(&links->targets)) {
        free_target(links, MST_CONTAINER(links->targets.next, struct mst_uv_target, node));
    }
    uv_close((uv_handle_t *)&links->timer, on_timer_closed);
}
