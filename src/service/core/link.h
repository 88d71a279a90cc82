/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_LINK_H
#define MST_SERVICE_CORE_LINK_H

/* A connection. It carries at most one session; requests wait on the connection and are dropped
 * with it, because the client repeats unanswered ones. */

#include "service/core/state.h"

/* Why a link has no session any more. */
enum mst_link_end {
    MST_LINK_NEVER = 0,   /* it had none yet */
    MST_LINK_FENCED = 1,  /* the incarnation is lost, or left */
    MST_LINK_REFUSED = 2, /* the holder of the claimed place is alive */
    MST_LINK_OVER = 3     /* an observer's lease ended */
};

struct mst_link {
    struct mst_table_node in_table;
    struct mst_conn conn;
    struct mst_session *session;
    const char *reason;      /* of the hangup; NULL: none */
    struct mst_list waiters; /* struct mst_waiter.in_link: waiting, or not sent yet */
    uint32_t waiter_count;
    struct mst_tree waiting;  /* struct mst_waiter.in_waiting: those that wait */
    uint64_t waiting_bytes;   /* what its gets, waits and watches that wait cost */
    uint64_t wide;            /* keys in the lists of its WAITs */
    struct mst_list deferred; /* struct mst_todo: replies that the shell has no room for yet */
    struct mst_index_node node;
    struct mst_todo hangup;
    enum mst_link_end end;
    struct mst_job *job;       /* FENCED, REFUSED: counted */
    struct mst_member *member; /* FENCED, REFUSED: the place; may be NULL */
};

/* By id; NULL: no more. */
struct mst_link *mst_link_first(const struct mst_core *core);
struct mst_link *mst_link_next(const struct mst_link *link);
struct mst_link *mst_link_find(const struct mst_core *core, struct mst_conn conn);
struct mst_link *mst_link_new(struct mst_core *core, struct mst_conn conn);

/* Its waiters are dropped, its session becomes silent. */
void mst_link_free(struct mst_core *core, struct mst_link *link);

/* Asks the shell to close it. No more input or output; asking again changes nothing. */
void mst_link_hang_up(struct mst_core *core, struct mst_link *link, const char *reason);

/* Drops its waiting and undelivered requests. */
void mst_link_drop_waiters(struct mst_link *link);

void mst_link_set_end(struct mst_link *link, enum mst_link_end end, struct mst_job *job,
                      struct mst_member *member);

#endif
