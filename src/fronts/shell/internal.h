/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_SHELL_INTERNAL_H
#define MST_FRONTS_SHELL_INTERNAL_H

/* The insides, for the files of this folder.
 *
 * The loop drives the clients of the sessions, and watches their sockets. A client calls back with
 * its lock held, also while a front is being drained. So a callback copies what it was given into
 * the call, or the session, and links that into the inbox, from which the loop takes it. */

#include "base/list.h"
#include "client/shell/internal.h"
#include "fronts/shell/fronts.h"

/* One front, as it is now. */
struct mst_fronts_one {
    const struct mst_front *front;
    unsigned char first;
    void *machine;
};

struct mst_fronts {
    struct mst_fronts_options options;
    struct muster_client_options client;
    uv_tcp_t listener;
    uv_async_t woken;
    uv_timer_t timer;
    bool taking;      /* the inbox is emptied next: nothing need wake the loop for it */
    unsigned handles; /* of the loop, that are not closed */
    bool closing;
    int asks;           /* whose a connection is: net/loopback_peer.h */
    bool stranger_said; /* one of another user was refused, and a line said so */
    struct mst_fronts_one *list;
    unsigned count;
    uint64_t last_connection;
    unsigned connection_count;
    struct mst_list connections, dirty, sessions;
    struct mst_list inbox; /* struct mst_fronts_news */
    char in[65536];        /* what a connection has read, for one input */
};

/* What a callback leaves for the loop. */
struct mst_fronts_news {
    struct mst_list link;
    void (*take)(struct mst_fronts_news *news);
};

/* session.c: carries out an effect that is for a session. */
void mst_fronts_session_effect(struct mst_fronts *fronts, struct mst_fronts_one *one,
                               const struct mst_front_effect *effect);
void mst_fronts_session_dead(struct mst_fronts *fronts, uint32_t index);
/* mst_fronts_has or mst_fronts_idle may say another thing. */
void mst_fronts_changed(const struct mst_fronts *fronts);
/* All of them; `leave`: those that are members leave, unless they are dead. */
void mst_fronts_sessions_end(struct mst_fronts *fronts, bool leave);

/* session.c: drives the sessions whose time has come. */
void mst_fronts_sessions_tick(struct mst_fronts *fronts);
uint64_t mst_fronts_sessions_deadline_ns(const struct mst_fronts *fronts);

/* fronts.c: into the inbox, for a later turn of the loop; all of it, now. */
void mst_fronts_post(struct mst_fronts *fronts, struct mst_fronts_news *news);
void mst_fronts_take(struct mst_fronts *fronts);

/* fronts.c: one of `handles` is closed. With the last one the fronts are freed. */
void mst_fronts_handle_closed(struct mst_fronts *fronts);

/* fronts.c: the descriptor of a connection; -1: it is closed. */
int mst_fronts_descriptor(const struct mst_fronts *fronts, uint64_t connection);

/* fronts.c: after each input to `one`: carries out its effects. */
void mst_fronts_drain(struct mst_fronts *fronts, struct mst_fronts_one *one);

#endif
