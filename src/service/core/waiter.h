/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_WAITER_H
#define MST_SERVICE_CORE_WAITER_H

/* A request between its admission and its answer. It is also the reply: the memory for an answer is
 * reserved here when the request is admitted, so that answering never allocates.
 *
 *   ADMITTED --answer--> QUEUED --mst_core_next--> sent
 *       |wait               ^
 *       +----> WAITING -----+
 *
 * Pages (LIST, WATCH, MEMBERS, ...) are read when they are sent, not when they are decided: they
 * show the state of that moment, which is never older than the request. */

#include "proto/limit_kinds.h"
#include "service/core/state.h"

/* What a watch can follow beside keys, in the order of their bits in MST_WATCH_... */
enum mst_topic { MST_TOPIC_MEMBERS, MST_TOPIC_FAULTS, MST_TOPIC_VIEW, MST_TOPICS };

enum mst_waiter_stage { MST_ADMITTED = 1, MST_WAITING = 2, MST_QUEUED = 3 };

/* The source of the reply's detail. */
enum mst_waiter_detail {
    MST_DETAIL_NONE = 0,
    MST_DETAIL_LIMIT,  /* `limit`; of an ELIMIT also `limit_kind` and `asked` */
    MST_DETAIL_HOLDER, /* the holder of `member` */
    MST_DETAIL_JOIN,   /* the members that are not ready in `job` */
    MST_DETAIL_ROUND   /* of `round` as it is or as it ended; `limit` if not 0 */
};

/* One of the keys of a GET or WAIT that waits. */
struct mst_key_wait {
    struct mst_list in_key;
    struct mst_waiter *waiter;
    struct mst_key *key; /* NULL: it exists */
};

struct mst_waiter {
    struct mst_todo todo; /* first what deciding touches: a round decides thousands at once */
    struct mst_list in_round;
    struct mst_core *core;
    enum mst_command command;
    enum mst_waiter_stage stage;
    muster_status status;
    enum mst_waiter_detail detail;

    struct mst_link *link; /* then what sending touches, mostly */
    struct mst_list in_link;
    struct mst_index_node in_waiting; /* of the link, while it waits: by its rows and its id */
    struct mst_job *job;              /* counted; NULL: none */
    uint64_t id;
    struct mst_round *round; /* counted; ROUND, ROUND_MEMBERS */
    struct mst_blob *value;  /* GET; JOIN: of the seal that gave it a rank */
    uint64_t after;          /* WATCH, pages: a cursor */
    int64_t number;
    uint64_t revision;
    bool has_view;
    struct mst_view view;
    int64_t limit;
    enum mst_limit_kind limit_kind;
    uint64_t asked;
    struct mst_member *member; /* the caller's place, or the one HOLDER means */
    /* From here on only in the memory of a command that has such a part. */
    uint64_t waiting_bytes; /* GET, WAIT, WATCH: what its link is charged while it waits */
    union {
        struct {
            struct mst_key_wait *waits;
            uint32_t room, pending; /* of the list; of them, keys that do not exist yet */
        } keys;                     /* GET, WAIT */
        struct {
            struct mst_session *session; /* while WAITING */
            bool spare;                  /* is answered also when it is passed over */
            uint64_t heard;              /* the completed-run count that it knows */
        } join;
        struct {
            uint32_t kinds;
            uint64_t generation; /* of the keys */
            struct mst_prefix *prefix;
            struct mst_list in_prefix;
            struct mst_list in_topic[MST_TOPICS];
            uint32_t node; /* of the members only those of it; NODE_NONE: all */
            struct mst_index_node in_node;
        } watch;
        struct {
            uint64_t generation;
            struct mst_blob *prefix, *after_name;
        } list;
    };
};

/* ADMITTED, bound to the link; NULL: no memory. */
struct mst_waiter *mst_waiter_new(struct mst_core *core, struct mst_link *link,
                                  const struct mst_request *request);
void mst_waiter_free(struct mst_waiter *waiter);
/* A few waiters without a part are kept for the next requests. This gives back their memory. */
void mst_waiter_free_spares(struct mst_core *core);

/* From now on it is being sent: it stays, whatever happens to the link. */
void mst_waiter_leave_link(struct mst_waiter *waiter);

/* It was not sent after all. */
void mst_waiter_return_to_link(struct mst_waiter *waiter, struct mst_link *link);

/* Counts the job's references. */
void mst_waiter_set_job(struct mst_waiter *waiter, struct mst_job *job);

void mst_waiter_set_view(struct mst_waiter *waiter, struct mst_view view);

/* Reads may wait beyond the window of ids. They end with the connection and leave nothing behind,
 * so their limit is one of memory: OK, or ELIMIT where its connection would keep too much waiting.
 */
muster_status mst_waiter_check_wait(struct mst_waiter *waiter, uint64_t bytes);

/* From now on it waits. `bytes`: what it costs; 0: a ROUND or JOIN, of which a session has few. */
void mst_waiter_wait(struct mst_waiter *waiter, uint64_t bytes);

/* The ROUNDs and JOINs of `link` that wait: the first, and the next; NULL: no more. */
struct mst_waiter *mst_waiter_first_few(const struct mst_link *link);
struct mst_waiter *mst_waiter_next_few(const struct mst_waiter *waiter);

/* The decision: leaves its wait list, and enters the queue of effects. */
void mst_waiter_answer(struct mst_waiter *waiter, muster_status status);

/* What a handler returns for a request beyond a limit: ELIMIT, with the limit in the detail. */
muster_status mst_waiter_exceed(struct mst_waiter *waiter, enum mst_limit_kind kind, uint64_t most,
                                uint64_t asked);

/* The same with a limit of the service. */
muster_status mst_waiter_exceed_limit(struct mst_waiter *waiter, enum mst_limit_kind kind,
                                      uint64_t asked);

/* Another status whose detail is one number. */
muster_status mst_waiter_refuse(struct mst_waiter *waiter, muster_status status, uint64_t limit);

/* The detail is the holder of this place. */
void mst_waiter_name_holder(struct mst_waiter *waiter, struct mst_member *member);

/* One of `link` that still waits under this id; NULL: none. */
struct mst_waiter *mst_waiter_find(const struct mst_link *link, uint64_t id);

#endif
