/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_FRONT_H
#define MST_FRONTS_FRONT_H

/* A front answers foreign clients in their own protocol, and asks the service in the native one. It
 * lives in the agent of a node, and speaks only to processes of that node: the service learns no
 * other protocol, and the secret, TLS, the journal and a new leader are the native session's.
 *
 * A front is a pure machine, as a value: bytes of connections and replies of the service go in,
 * bytes and requests come out. Its driver has the sockets and the sessions. Each input carries the
 * time and may be followed by effects, which the driver drains before the next input.
 *
 *   connection  --received-->          --SEND, CLOSE-->  connection
 *   session     --opened, reply-->     --OPEN, POST, DROP, LEAVE-->  session
 *
 * A front begins anew with each attempt of the job's processes: its sessions are the members of one
 * generation, and its keys are those of that generation. */

#include "base/mem.h"
#include "proto/limits.h"
#include "proto/reply.h"
#include "proto/request.h"

struct mst_front_config {
    uint32_t size;    /* of the job, in processes; 0: each process says it */
    uint32_t attempt; /* of the job's processes, from 0: the same on all nodes */
    uint64_t seed;    /* of numbers that differ between runs */
    bool recoverable; /* a lost process does not end the others */
    struct mst_limits limits;
};

enum mst_front_effect_kind {
    MST_FRONT_SEND = 1, /* `bytes` to `connection`, in order */
    MST_FRONT_CLOSE,    /* `connection`, once all bytes are out; no `closed` is owed for it */
    MST_FRONT_PAUSE,    /* read no more of `connection`: its client is ahead of its requests */
    MST_FRONT_RESUME,   /* read on */
    /* Open `session` for the process `index` of a job of `size`, which speaks by `connection`:
     * `opened` follows once the generation is sealed, or `ended`. INDEX_NONE: a session that is no
     * member. */
    MST_FRONT_OPEN,
    MST_FRONT_POST,  /* make `request` in `session`: `reply` follows once, with `tag` */
    MST_FRONT_DROP,  /* stop the call `tag` of `session`; no `reply` is owed for it */
    MST_FRONT_FAIL,  /* a fault of the process of `session`: `cause`, `code`, `bytes`: one line */
    MST_FRONT_LEAVE, /* the process of `session` is done: it leaves; no `ended` is owed */
    MST_FRONT_LOG,   /* `bytes`: one line for the operator */
    MST_FRONT_WAITS  /* `waits` has something else to say */
};

#define MST_FRONT_INDEX_NONE UINT32_MAX

struct mst_front_effect {
    enum mst_front_effect_kind kind;
    uint64_t connection;
    uint64_t session;                  /* the front's number for it: never reused */
    uint64_t tag;                      /* never 0, never reused */
    const struct mst_request *request; /* POST: borrowed, as `bytes` is, until the next input */
    uint64_t deadline_ns;              /* POST: the call ends with ETIMEDOUT; UINT64_MAX: never */
    struct mst_slice bytes;
    uint32_t index, size;
    /* NONE: the process reports it. UNHEALTHY: the front has observed it, and LEAVE follows. */
    enum mst_cause cause;
    int32_t code;
};

/* A client that waits for others. */
struct mst_front_wait {
    uint32_t pid; /* as it says; 0: it does not */
    uint64_t since_ns;
    struct mst_slice what; /* for people: "for the key 'x'"; borrowed */
};

/* The functions of one front. `front` is what its `new` made. */
struct mst_front {
    const char *name; /* as `--front` has it */
    muster_status (*new)(void **out, const struct mst_front_config *config,
                         const struct mst_mem *mem);
    void (*free)(void *front);

    /* A client has connected, sent bytes, or closed its end: bytes before that are processed. */
    void (*connected)(void *front, uint64_t now_ns, uint64_t connection);
    void (*received)(void *front, uint64_t now_ns, uint64_t connection, struct mst_slice bytes);
    void (*closed)(void *front, uint64_t now_ns, uint64_t connection);
    /* `backlog` bytes to the connection wait for its reader: the front reads no further requests of
     * a client that does not read. Called after it has changed. */
    void (*written)(void *front, uint64_t now_ns, uint64_t connection, size_t backlog);

    /* The session is open in `generation`; 0: it is no member, and has the job's keys only. */
    void (*opened)(void *front, uint64_t now_ns, uint64_t session, uint64_t generation);
    /* A call ended: a reply of the service, or one made here (ETIMEDOUT, EFENCED, ...). */
    void (*reply)(void *front, uint64_t now_ns, uint64_t session, uint64_t tag,
                  const struct mst_reply *reply);
    /* The session could not be opened, or is over for good; `text`: one line. */
    void (*ended)(void *front, uint64_t now_ns, uint64_t session, muster_status status,
                  struct mst_slice text);
    /* The agent knows that the process `index` is dead; `text`: how it died, one line. The service
     * is told by the agent. */
    void (*dead)(void *front, uint64_t now_ns, uint32_t index, struct mst_slice text);
    /* A notice of preemption of the job is due; `text`: its source. */
    void (*notice)(void *front, uint64_t now_ns, struct mst_slice text);

    /* The clients that wait for others for a second or more, the first one first. NULL: the service
     * knows of all waits of this protocol. */
    void (*waits)(const void *front, void (*each)(void *ctx, const struct mst_front_wait *wait),
                  void *ctx);

    void (*tick)(void *front, uint64_t now_ns);
    uint64_t (*deadline_ns)(const void *front); /* of the next tick; UINT64_MAX: never */
    /* The next effect, which lives until the next input or the next call of this. NULL: none. */
    const struct mst_front_effect *(*next)(void *front);
    void (*check)(const void *front); /* its invariants, for tests */
};

#endif
