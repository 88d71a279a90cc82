/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_CLUSTER_H
#define MST_PROTO_CLUSTER_H

/* Messages between a coordinator and its workers on their direct connections. All slices and arrays
 * are borrowed. proto/cluster.proto has the bytes, proto/cluster/ the codec. */

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "muster/status.h"

#define MST_CLUSTER_VERSION 1u

/* Arguments and results are lists of parts. */
struct mst_part {
    struct mst_slice data;
    uint32_t type; /* the user's: muster never reads it */
};

struct mst_parts {
    const struct mst_part *items;
    uint32_t count;
};

/* Of one message: parts, or needs; bytes of all parts; of a function's name; of a key. */
enum {
    MST_CLUSTER_PARTS_MAX = 65536,
    MST_CLUSTER_BYTES_MAX = 16 * 1024 * 1024,
    MST_CLUSTER_NAME_MAX = 255,
    MST_CLUSTER_KEY_MAX = 255
};

/* Of a HELLO: more than it has a use for. */
enum {
    MST_CLUSTER_FUNCTIONS_MAX = 65536,
    MST_CLUSTER_VALUES_MAX = 65536,
    MST_CLUSTER_HELD_MAX = 1 << 20
};

/* The origin of a failure. The numbers are on the wire. */
enum mst_origin {
    MST_ORIGIN_NONE = 0,     /* there is a value */
    MST_ORIGIN_FUNCTION = 1, /* it returned an error: code and text are its own */
    MST_ORIGIN_CRASH = 2,    /* its process ended in it; code: exit status, or minus the signal */
    MST_ORIGIN_LOST = 3,     /* its worker was lost and it must not run twice */
    MST_ORIGIN_STATE = 4,    /* a registered state server failed: `state` names it */
    MST_ORIGIN_INPUT = 5,    /* a per-worker value it needs could not be built: `cause` */
    MST_ORIGIN_CANCELLED = 6,
    MST_ORIGIN_DEADLINE = 7,
    MST_ORIGIN_EXHAUSTED = 8, /* a limit of memory, of output; code: what */
    MST_ORIGIN_POISON = 9,    /* as many workers as `poison` died in it */
    MST_ORIGIN_UNKNOWN = 10,  /* no worker has this function, or this version */
    MST_ORIGIN_ARGUMENT = 11, /* the worker could not accept the arguments */
    MST_ORIGIN_INTERNAL = 12, /* a bug in muster */
    MST_ORIGIN_RETURNED = 13, /* taken back or drained before it began: never shown to a user */
    MST_ORIGIN_RETRYABLE = 14 /* FUNCTION, and marked as retryable (exit 75) */
};
enum { MST_ORIGINS = MST_ORIGIN_RETRYABLE + 1 };

struct mst_failure {
    enum mst_origin origin;
    int32_t code;
    uint32_t worker; /* its number in the cluster; MST_WORKER_NONE */
    uint32_t attempt;
    uint64_t incarnation;
    struct mst_slice text;           /* one line, at most MST_FAILURE_TEXT_MAX bytes */
    struct mst_slice state;          /* STATE: the name of the server */
    const struct mst_failure *cause; /* at most MST_FAILURE_DEPTH_MAX deep */
};

enum { MST_FAILURE_TEXT_MAX = 1024, MST_FAILURE_DEPTH_MAX = 8 };
#define MST_WORKER_NONE UINT32_MAX
#define MST_CLUSTER_EXIT_STUCK 70 /* of a worker that ended itself: stuck function */
#define MST_FUNCTION_NONE UINT32_MAX

enum mst_function_flag {
    MST_FUNCTION_PURE = 1,       /* same arguments, same result, no side effect */
    MST_FUNCTION_IDEMPOTENT = 2, /* may run again at once while its worker is silent */
    MST_FUNCTION_ONCE = 4,       /* no second attempt once one may have begun */
    MST_FUNCTION_THREADS = 8,    /* several at once in one process */
    MST_FUNCTION_CHILD = 16,     /* runs in a child of the worker: a crash is not the worker's */
    MST_FUNCTION_COMMAND = 32    /* an external program */
};

struct mst_function {
    struct mst_slice name;
    uint32_t version;
    uint32_t flags;
};

struct mst_attempt {
    uint64_t closure; /* its admission number: from 1, only growing, never reused in a term */
    uint32_t attempt; /* from 1 */
};

enum mst_cluster_message_type {
    /* worker -> coordinator */
    MST_CLUSTER_HELLO = 1, /* the first one */
    MST_CLUSTER_RESULT = 2,
    MST_CLUSTER_BUILT = 3, /* a per-worker value is built, or could not be built; with LOST: it is
                              gone although the worker is not */
    MST_CLUSTER_PROGRESS = 4,
    MST_CLUSTER_LOG = 5,
    MST_CLUSTER_DRAINING = 6, /* returns what has not begun, finishes what has, then leaves */
    /* coordinator -> worker */
    MST_CLUSTER_WELCOME = 16, /* the first one, or */
    MST_CLUSTER_REFUSED = 17, /* this; then it closes the connection */
    MST_CLUSTER_RUN = 18,
    MST_CLUSTER_CANCEL = 19,    /* ends with a RESULT in any case */
    MST_CLUSTER_TAKE_BACK = 20, /* if it has not begun: RESULT with RETURNED. Otherwise no answer */
    MST_CLUSTER_BUILD = 21,     /* a per-worker value; later runs on this connection may need it */
    MST_CLUSTER_DROP = 22,      /* it is no longer needed */
    MST_CLUSTER_DRAIN = 23      /* requests a drain */
};

struct mst_cluster_message { // NOLINT(clang-analyzer-optin.performance.Padding): by meaning
    enum mst_cluster_message_type type;

    /* HELLO */
    uint32_t version;
    struct mst_slice cluster; /* its name */
    uint32_t index;           /* the worker's place in the job... */
    uint64_t incarnation;     /* ...and its holder */
    uint64_t pid;
    struct mst_slice host;
    uint32_t slots; /* runs at once */
    const struct mst_function *functions;
    uint32_t function_count;
    const struct mst_attempt
        *held; /* it reconnected: attempts that it still runs or has results of */
    uint32_t held_count;
    const uint64_t *values; /* the per-worker values it has */
    uint32_t value_count;

    /* Results of this incarnation and term, counted in the order of sending. WELCOME: this many
     * arrived, later ones are sent again. HELLO: the number of the first of `held`, from 1,
     * followed by the rest and those that were never sent; 0: some were dropped that may not have
     * arrived. */
    uint64_t results;

    /* HELLO: the number of this connection of the incarnation, from 1. 0: not set, and its
     * `results` are not counted. */
    uint64_t turn;

    /* HELLO: the largest term it has seen. WELCOME, REFUSED: the coordinator's. */
    uint64_t term;

    /* WELCOME */
    uint32_t worker; /* its number in the cluster */

    /* REFUSED */
    muster_status status;

    /* RUN, RESULT, PROGRESS, LOG, CANCEL, TAKE_BACK */
    struct mst_attempt attempt;
    uint64_t series;
    /* RUN, BUILD */
    uint32_t function; /* its position in HELLO's list; BUILD: or MST_FUNCTION_NONE, which the
                          worker answers with BUILT of UNKNOWN */
    struct mst_slice
        key; /* RUN: the idempotency key; empty: the worker makes it, NAME/TERM/CLOSURE */
    uint64_t run_limit_ms; /* RUN: 0: none */
    uint64_t left_ms;      /* RUN: to its deadline; 0: none. CANCEL: the grace before it is killed.
                              WELCOME: the same for an overdue attempt; 0: the worker's own */
    const uint64_t *needs; /* RUN: per-worker values, in the order of the schedule */
    uint32_t need_count;
    struct mst_parts parts;     /* RUN, BUILD: arguments. RESULT, BUILT: the value, or what goes
                                   along with a failure */
    struct mst_failure failure; /* RESULT, BUILT */
    uint64_t run_ns;            /* RESULT */
    /* BUILD, BUILT, DROP */
    uint64_t value;
    /* PROGRESS */
    double fraction;
    bool overdue; /* its time is over, and it was asked to stop; no other field is set */
    /* PROGRESS, LOG, REFUSED */
    struct mst_slice text;
};

#endif
