/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_LINKS_LINK_H
#define MST_SERVICE_SERVER_LINKS_LINK_H

/* One connection between two replicas (link.c), and the addresses to which there are some
 * (links.c). */

#include "base/list.h"
#include "net/address.h"
#include "net/channel.h"
#include "net/lookup.h"
#include "service/server/links.h"

enum { MST_UV_LINK_LINE = 400 }; /* room for a reason */

enum mst_uv_link_stage {
    MST_UV_LINK_LOOKING_UP = 1,
    MST_UV_LINK_CONNECTING,
    MST_UV_LINK_GREETING,
    MST_UV_LINK_GREETED,
    MST_UV_LINK_REFUSING
};

/* An address that is dialed. */
struct mst_uv_target {
    struct mst_list node;
    struct mst_address address;
    struct mst_uv_link *link; /* the attempt, or the connection; NULL: none */
    uint32_t failures;        /* in a row */
    uint64_t retry_ns;
    uint64_t used_ns;
    bool reach;                  /* it is dialed although there is nothing to send */
    uint64_t twin;               /* this replica answered there, or one with another connection */
    char said[MST_UV_LINK_LINE]; /* why it is not reached, in the log; empty: nothing yet */
};

struct mst_uv_link {
    struct mst_uv_links *links;
    struct mst_list node;
    struct mst_uv_target *target; /* NULL: it came in */
    enum mst_uv_link_stage stage;
    bool dead;     /* closed; lives until its handles are */
    bool unread;   /* the reader has bytes that were not looked at */
    bool is_quiet; /* its end is no news */
    unsigned handles;
    uv_poll_t poll, lookup_poll;
    struct mst_lookup *lookup;
    struct mst_channel channel; /* fd -1: none yet */
    int events;
    struct mst_replica_reader reader;
    struct mst_buffer output;
    struct mst_buffer kept; /* until the hello of `meant` is there */
    uint64_t meant;
    uint64_t dropped; /* messages without room, since the line about the first */
    uint64_t until_ns, greeted_ns;
    uint64_t heard;                /* the number of its last message, counted over all links */
    struct mst_uv_links_peer peer; /* MST_UV_LINK_GREETED */
};

struct mst_uv_links {
    struct mst_uv_links_config config;
    const struct mst_mem *mem;
    struct mst_tls_context *tls; /* for dialed connections; NULL: plain */
    struct mst_replica_message hello;
    char run[256], address[MST_REPLICA_ADDRESS_ROOM], version[64];
    struct mst_list all; /* links; those that were greeted are behind each other as they came */
    struct mst_list targets;
    uv_timer_t timer;
    unsigned handles; /* that are not closed */
    uint64_t heard;   /* messages */
    bool closing;
    uint64_t complaints_until_ns;
    uint32_t complaints;
};

/* ---- link.c ---- */

/* In GREETING, with its hello in its output. `target` NULL: it came in. NULL: no memory. */
struct mst_uv_link *mst_uv_link_new(struct mst_uv_links *links, struct mst_uv_target *target);

/* An attempt at the target, which has none; it may have failed when this returns. */
void mst_uv_link_dial(struct mst_uv_links *links, struct mst_uv_target *target);

/* `poll` was opened on the loop: the link lives until that is closed. */
void mst_uv_link_watch(struct mst_uv_link *link, uv_poll_t *poll);

/* The options of a connected socket. */
void mst_uv_link_guard(int fd);

/* One whole message; dropped without room. */
void mst_uv_link_send(struct mst_uv_link *link, struct mst_slice bytes);

/* Writes what the socket takes. */
void mst_uv_link_flush(struct mst_uv_link *link);

/* Hears the messages that its reader has. */
void mst_uv_link_pump(struct mst_uv_link *link);

/* Closes it, with a log line unless its end is no news. Its memory lives until the loop has closed
 * its handles: it may be in use further up. */
void mst_uv_link_drop(struct mst_uv_link *link, const char *reason);

/* Only without handles. */
void mst_uv_link_free(struct mst_uv_link *link);

/* Why it is not greeted after so long. */
const char *mst_uv_link_overdue(const struct mst_uv_link *link);

/* ---- links.c ---- */

/* Sets the timer, after a change of what it depends on. */
void mst_uv_links_settle(struct mst_uv_links *links);

void mst_uv_links_say(struct mst_uv_links *links, enum mst_level level, const char *event,
                      const char *address, const char *reason);
void mst_uv_links_copy(char *out, size_t room, struct mst_slice text);
void mst_uv_links_free_when_closed(struct mst_uv_links *links);

#endif
