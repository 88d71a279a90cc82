/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_SESSION_H
#define MST_SERVICE_CORE_SESSION_H

/* A session: one process's relation with the service, which outlives its connections. It has a
 * lease, and remembers the outcomes of its writes as long as they may be repeated. */

#include "service/core/link.h"
#include "service/core/waiter.h"

/* The outcome of a write, kept for the window of ids that may still be repeated. */
struct mst_outcome {
    uint64_t id; /* 0: empty */
    muster_status status;
    int64_t number;
    uint64_t revision;
};

struct mst_session {
    struct mst_core *core;     /* first what each request touches */
    struct mst_job *job;       /* counted */
    struct mst_link *link;     /* NULL: silent */
    struct mst_member *member; /* NULL: an observer */
    uint64_t heard_ns;
    uint64_t oldest;              /* the oldest id that a request may still have */
    struct mst_outcome *outcomes; /* id modulo room; a power of two, at most MST_WINDOW */
    uint32_t outcome_room;
    enum mst_role role;
    bool claiming; /* waits for `member`'s holder to be lost */

    struct mst_index_node node; /* in core->sessions */
    struct mst_token token;
    struct mst_list in_job;
    struct mst_blob *host;
    struct mst_host *place;        /* the same in the job's table; NULL: not counted there */
    struct mst_index_node in_node; /* job->nodes, if `agent` is set and it has a place */
    uint64_t pid;
    uint32_t agent;      /* index of the one that started it: its node. MST_NODE_NONE: none */
    bool replaces;       /* an agent that starts another process for each lost rank of its node */
    uint64_t renewed_ns; /* for the counts; 0: not yet */
    /* When it ends. The alarm rings then or, if renewed since, earlier; later when it has ended and
     * the node decides (node.h). */
    uint64_t lease_ns;
    struct mst_alarm alarm;
    uint64_t cut_ns;         /* until then no connection reaches it: cut.h */
    struct mst_list owned;   /* struct mst_key.in_owner */
    struct mst_waiter *join; /* its JOIN that waits */
};

struct mst_session *mst_session_find(struct mst_core *core, struct mst_token token);
struct mst_session *mst_session_first(const struct mst_core *core);
struct mst_session *mst_session_next(const struct mst_session *session);

/* A session of the job, without a place or a link yet; its lease runs. NULL: no memory. */
struct mst_session *mst_session_new(struct mst_core *core, struct mst_job *job,
                                    const struct mst_open *open);
/* It holds a place: it is no observer, and does not wait for a place. */
static inline bool mst_session_holds(const struct mst_session *session)
{
    return session->member && !session->claiming;
}

void mst_session_attach(struct mst_session *session, struct mst_link *link);

/* The effect of every request on its session, whether there is room for the request or not: it
 * renews the contact, moves the window, and ends a wait under the same id. OK, or the status that
 * refuses the request: EINVAL, EFENCED, ELIMIT. Depends only on state that a snapshot keeps. */
muster_status mst_session_take(struct mst_session *session, const struct mst_request *request);

/* That and the rest of the window. OK: the request is to be processed; else what a handler would
 * return: a repeat is answered here. */
muster_status mst_session_admit(struct mst_session *session, struct mst_waiter *waiter,
                                const struct mst_request *request);

/* After a WRITE-flagged request was answered: keep its outcome. */
void mst_session_record(struct mst_session *session, const struct mst_waiter *waiter);

/* One that was kept; `oldest` is set. False: not within the window, or no memory. */
bool mst_session_restore_outcome(struct mst_session *session, const struct mst_outcome *outcome);

/* The JOIN waits from now on. */
void mst_session_wait_to_join(struct mst_session *session, struct mst_waiter *waiter);

/* A renewal: the lease starts again, and a claim of its place is refused. */
void mst_session_heard(struct mst_session *session);

/* Its connection is lost. */
void mst_session_detach(struct mst_session *session);

/* The alarm rang. */
void mst_session_expire(struct mst_session *session);

/* At least a whole lease from now. */
void mst_session_extend(struct mst_session *session);
void mst_session_extend_all(struct mst_core *core);

/* Ends the session: answers its waits, deletes owned keys, releases memory. Says nothing about the
 * member; that is for the caller, before. */
void mst_session_end(struct mst_session *session, enum mst_link_end end);

#endif
