/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_MEMBER_H
#define MUSTER_MEMBER_H

/* The membership of a job: which members are present, which are lost, and why. What client.h says
 * of threads, time and errors holds here. */

#include "muster/call.h"
#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a member is. */
enum muster_member_state {
    MUSTER_MEMBER_JOINING = 1, /* ready, or waiting for its place; in no generation yet */
    MUSTER_MEMBER_PRESENT = 2,
    MUSTER_MEMBER_SILENT = 3, /* its connection broke, its lease runs */
    MUSTER_MEMBER_LOST = 4,   /* lost for good; `cause` says why */
    MUSTER_MEMBER_LEFT = 5,
    MUSTER_MEMBER_ABSENT = 6, /* its place was never taken */
    MUSTER_MEMBER_SPARE = 7   /* the generation had no rank for it: it waits for one */
};

/* Why a member was lost, or which fault it had. */
enum muster_cause {
    MUSTER_CAUSE_NONE = 0,
    MUSTER_CAUSE_EXIT = 1,         /* its process ended: code is the exit status */
    MUSTER_CAUSE_SIGNAL = 2,       /* its process was killed: code is the signal */
    MUSTER_CAUSE_GONE = 3,         /* its process ended, status unknown */
    MUSTER_CAUSE_LEASE = 4,        /* silent for longer than the lease */
    MUSTER_CAUSE_FAULT = 5,        /* it reported a fault: code and text are its own */
    MUSTER_CAUSE_EVICTED = 6,      /* it did not arrive at the seal in time */
    MUSTER_CAUSE_LEFT = 7,         /* from here on faults; HARD_TIMEOUT, UNHEALTHY also losses */
    MUSTER_CAUSE_SOFT_TIMEOUT = 8, /* it made no progress */
    MUSTER_CAUSE_HARD_TIMEOUT = 9, /* no progress until its agent killed it: code is the signal */
    MUSTER_CAUSE_UNHEALTHY = 10,   /* its health check or its heartbeats to JAX's front failed */
    MUSTER_CAUSE_AGAIN = 11,       /* it asked all ranks to restart */
    MUSTER_CAUSE_ABORTED = 12      /* it asked all ranks to end */
};

/* One member of the job, or a place that had one. */
struct muster_member {
    uint64_t incarnation;
    uint64_t heard_ms; /* since the service last received anything from it */
    uint64_t pid;
    uint64_t waits_number; /* number of the round it waits at */
    const char *waits_at;  /* name of the round it waits at; NULL: none */
    const char *host;      /* never NULL */
    const char *text;      /* text of its fault, or its last output; never NULL */
    uint32_t index;
    uint32_t rank; /* in the current generation, or MUSTER_RANK_NONE */
    enum muster_role role;
    enum muster_member_state state;
    enum muster_cause cause; /* of its last loss or fault */
    int32_t code;
    uint32_t losses; /* losses of this place so far */
    bool arrived;    /* muster_round_members: it has contributed */
    int64_t node;    /* the place of the agent that started it; -1: none */
    uint64_t reserved[3];
};

/* Members of a job: a copy, which does not change. */
typedef struct muster_members muster_members;

/* Lists every place of the job that was ever taken, by role and index. On success the caller owns
 * *out. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_member_list(muster_client *client,
                                                            int64_t timeout_ms,
                                                            muster_members **out,
                                                            struct muster_error *err);

/* The number of members in the list. Since 0.1. */
MUSTER_API size_t muster_members_count(const muster_members *members);

/* The i-th member, from 0; NULL beyond the count. Borrowed from the list. Since 0.1. */
MUSTER_API const struct muster_member *muster_members_get(const muster_members *members, size_t i);

/* Frees the list. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_members_free(muster_members *members);

/* Reports a fault of this rank in its current generation: all its ranks are interrupted. `text` is
 * one line for people, or NULL. EFENCED: the generation is over. Inside muster_restart_run use
 * muster_restart_fail. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_member_fault(muster_client *client, int code,
                                                             const char *text, int64_t timeout_ms,
                                                             struct muster_error *err);

/* Leaves the job: no fault, and final. Rounds count this member as lost. Afterwards only
 * muster_client_close is useful. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_member_leave(muster_client *client,
                                                             int64_t timeout_ms,
                                                             struct muster_error *err);

/* The same without blocking: call.h. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_member_list_start(muster_client *client,
                                                                  int64_t timeout_ms,
                                                                  muster_members **out,
                                                                  muster_call **call_out,
                                                                  struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_member_fault_start(muster_client *client, int code,
                                                                   const char *text,
                                                                   int64_t timeout_ms,
                                                                   muster_call **call_out,
                                                                   struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_member_leave_start(muster_client *client,
                                                                   int64_t timeout_ms,
                                                                   muster_call **call_out,
                                                                   struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
