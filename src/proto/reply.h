/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_REPLY_H
#define MST_PROTO_REPLY_H

/* Replies of the service. Numbers here, words at the edge: the client turns a detail into the one
 * line that the user reads. */

#include "muster/status.h"
#include "proto/request.h"

enum mst_state {
    MST_JOINING = 1,
    MST_PRESENT = 2,
    MST_SILENT = 3,     /* its connection is lost, its lease runs */
    MST_STATE_LOST = 4, /* MST_LOST is the command */
    MST_LEFT = 5,
    MST_ABSENT = 6, /* only in details: this place was never taken */
    MST_SPARE = 7   /* in no generation: it waits for a rank */
};

static inline bool mst_state_is_here(enum mst_state state)
{
    return state == MST_JOINING || state == MST_PRESENT || state == MST_SILENT ||
           state == MST_SPARE;
}

/* One member, as replies describe it. */
struct mst_who {
    uint32_t index;
    uint32_t rank; /* in the current generation, or MST_RANK_NONE */
    uint64_t incarnation;
    enum mst_role role;
    enum mst_state state;
    enum mst_cause cause; /* of the loss or fault, if any */
    int32_t code;
    uint32_t losses;   /* losses of this place */
    uint64_t heard_ms; /* since the last contact */
    uint64_t pid;
    struct mst_slice host;
    uint32_t node; /* the agent that started it, or MST_NODE_NONE */
};

/* How urgently a rank of the current generation must return from its function. */
enum mst_attention {
    MST_CALM = 0,
    MST_GROW = 1,     /* a newcomer is ready: at the next check */
    MST_INTERRUPT = 2 /* a fault, a loss, or a rank at the seal: now */
};

struct mst_view {
    uint64_t generation; /* 0: none sealed yet */
    uint32_t size;
    uint32_t rank; /* of the receiver; MST_RANK_NONE: not in it */
    uint32_t index;
    uint64_t incarnation;
    enum mst_attention attention;
    uint64_t faults;      /* generations of this job that ended with a fault or a loss */
    bool spare;           /* it was passed over when this generation was sealed, and waits */
    bool ordered;         /* the ranks are in an order that was given with the seal */
    uint32_t size_of_job; /* ranks it starts with; 0: no member has said */
};

#define MST_NAMES_MAX 8

/* Members and counts, for results and errors of rounds and joins. */
struct mst_detail {
    uint32_t arrived, expected;
    uint32_t lost, missing;
    uint32_t multiple; /* ETOOFEW: there are min_size of them, but no multiple of this; else 0 */
    int64_t limit; /* ELIMIT: the limit. ETOOFEW: min_size. ESTALE, EINVAL of a round: its current
                      number */
    uint32_t
        limit_kind; /* ELIMIT: the limit's kind, see limit_kinds.def; 0 or unlisted: not known */
    uint64_t asked; /* with limit_kind: the requested amount, in the limit's unit */
    uint32_t who_count;
    struct mst_who
        who[MST_NAMES_MAX]; /* the lost, then the missing or differing; of a claim: the holder */
};

enum mst_item_kind {
    MST_ITEM_KEY = 1,     /* name, value, revision, number: its age, ms since it was written */
    MST_ITEM_DELETED = 2, /* name, revision, number: ms since it was deleted */
    MST_ITEM_MEMBER =
        3, /* who; name and number: the round it waits at, if any; value: last output; since */
    MST_ITEM_FAULT = 4, /* who (cause, code, heard_ms: its age), value: its text, number: the
                           generation, arrived: ms from its sealing to the fault, expected: 1 + the
                           agent that reported it, 0: the rank itself or the service */
    MST_ITEM_VIEW = 5,  /* the reply's view is set */
    MST_ITEM_RESET = 6, /* deletions that it has not seen are dropped: everything is listed again */
    MST_ITEM_ROUND = 7, /* name, number, arrived, expected; value empty; who: the first missing;
                           awaited, and then who: the first of these, lost_ms: since its loss;
                           since; missing */
    MST_ITEM_PART = 8,  /* who.index, value: its contribution */
    MST_ITEM_JOB = 9,   /* name, number: generation, arrived: ranks here but spares, expected: size,
                         * listening; since, of its generation; total: restarts of the job */
    MST_ITEM_HOST = 10, /* name; number: losses of the whole node; expected: ranks lost there
                           without their node; arrived: members there */
    MST_ITEM_INCIDENT = 11 /* incident; revision: its number; number: the generation; who (heard_ms:
                              its age); value: a text; the rest as the kind says */
};

/* What happened to a job. */
enum mst_incident_kind {
    MST_INCIDENT_SEALED = 1,  /* a generation; arrived, expected: the size before and after; total:
                                 faults and losses of the one that ended; interrupt_ms, gather_ms */
    MST_INCIDENT_LOST = 2,    /* who; value: last words; told_by */
    MST_INCIDENT_NODE = 3,    /* who: the agent; expected: ranks that were lost with it */
    MST_INCIDENT_FAULT = 4,   /* who, without an index if no rank is to blame; value; told_by */
    MST_INCIDENT_TOO_FEW = 5, /* arrived: ranks that were there; expected: min_size */
    MST_INCIDENT_NOTICE = 6,  /* of preemption: who.index, without one the whole job; value */
    MST_INCIDENT_SAVED = 7,   /* expected: ranks that saved the step for it; step */
    MST_INCIDENT_SERVICE = 8, /* the service began again */
    MST_INCIDENT_STRAGGLER = 9, /* who; total: its work in a step, in thousandths of the median;
                                   step. Once for a rank of a generation */
    MST_INCIDENT_GROUP = 10,    /* `muster run` is to start all processes anew; expected: which
                                   time; value: why */
    MST_INCIDENT_LAST = MST_INCIDENT_GROUP
};

struct mst_item {
    enum mst_item_kind kind;
    uint32_t listening; /* 1 + the number of waits for preemption notices; 0: not known */
    uint64_t revision;
    uint64_t number;
    uint32_t arrived, expected;
    struct mst_slice name, value;
    struct mst_who who;
    uint32_t awaited; /* lost ranks for which a seal stays open, as they are being replaced */
    enum mst_incident_kind incident;
    uint64_t lost_ms;
    uint32_t told_by; /* 1 + the agent that reported it; 0: the rank itself or the service */
    uint32_t total;
    uint64_t interrupt_ms; /* from the interruption to the first rank at the seal */
    uint64_t gather_ms;    /* from there to the sealing */
    int64_t step;
    uint64_t since_ms;       /* 1 + how long it is so; 0: not known */
    const uint32_t *missing; /* of a round: indices, the first MST_NAMES_MAX */
    uint32_t missing_count;
    bool has_progress;
    struct mst_rank_progress progress; /* MEMBER, of a rank whose agent reports it */
};

struct mst_reply {
    uint64_t id; /* of the request */
    enum mst_command command;
    muster_status status;
    int64_t number; /* GET: the key's age, ms since it was written. ADD: the sum. APPEND: the size.
                       ROUND: its number. OPEN: the lease in ms. FAULTS, HISTORY: ms since the
                       generation was sealed. JOIN: the completed-run count for the caller's next
                       JOIN */
    uint64_t revision;      /* of the key read or written; WATCH: continue after this */
    uint64_t next;          /* pages: continue after this; 0: that was the last page */
    struct mst_slice value; /* GET: the value. ROUND: the reduced vector or the equal bytes; at its
                               deadline, with PROCEED, of the arrived ranks */
    /* A seal, and a JOIN that gives a rank: `value` is the seal's, `items` are the first faults of
     * the generation that ended, at most MST_NAMES_MAX, and `next` is how many there were. */
    bool has_view; /* OPEN, JOIN, WATCH with a view, ROUND that sealed */
    struct mst_view view;
    const struct mst_item *items;
    uint32_t item_count;
    struct mst_slice addresses; /* OPEN: of the service, with commas; empty: nothing new. With id 0:
                                   it does not serve here, and the first of these does */
    bool has_detail;
    struct mst_detail detail; /* last, and not cleared where there is none */
};

/* Where a page ends: at this many items or, earlier, at about this many bytes. */
#define MST_PAGE_ITEMS 256u

/* In `revision` of a WATCH: more of the current state follows on the next page. */
#define MST_CURSOR_LISTING (UINT64_C(1) << 63)
#define MST_PAGE_BYTES 262144u

#endif
