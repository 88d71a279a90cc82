/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_CALL_H
#define MST_CLIENT_SHELL_CALL_H

/* One call of the public API, blocking or started. Its function describes it: a struct mst_call on
 * the stack. mst_lib_make then blocks until it is over, and the whole call costs no memory, or
 * moves it into a muster_call and returns.
 *
 *   begin --MORE--> posted --reply, take--> over --> ended
 *     |OK             ^        |MORE
 *     +--> over       +--------+        posted --cancelled, interrupted, closed--> over --> ended
 *
 * `begin`, `take` and `ended` are called with the lock held, and must not block. */

#include "client/shell/handle.h"
#include "client/shell/items.h"
#include "muster/call.h"

#define MST_LIB_OF_THE_PARENT                                                                      \
    "this client belongs to the parent process; after fork, open one of its own"

struct mst_call {
    struct mst_lib_post post;
    struct muster_client *client;
    const char *what; /* the attempt, for texts */
    struct muster_error *err;
    /* The name that later requests need too, or the keys of a batch; NULL: none. */
    const char *kept;
    int64_t timeout_ms;
    uint64_t deadline_ns;

    /* Its slices must live until the first post. For further ones `take` sets them again. */
    struct mst_request request;
    /* MORE: post the request; OK: over, no request is needed; else refused, with its text. NULL:
     * MORE. */
    muster_status (*begin)(struct mst_call *call);
    /* Each reply, also one that failed or was made here: the call's status, or MORE: post the
     * request again. A status that is not the reply's is this side's own. NULL: the reply's. */
    muster_status (*take)(struct mst_call *call, const struct mst_reply *reply);
    /* Once, when it is over, however it ended; but not after `begin` refused. May be NULL. */
    void (*ended)(struct mst_call *call);

    void *subject;  /* of the call, if it has one: the watch */
    uint64_t place; /* ROUND: of the last result in the list that its request tells of */
    uint64_t total; /* DELETE_PREFIX: of its steps so far */
    void *out;      /* the caller's, for the result; may be NULL */
    /* Of a listing: its pages, and the function that turns them into *out, or NULL. */
    struct mst_items items;
    muster_status (*make)(struct mst_call *call);

    muster_status status; /* once it is over */
    muster_status said;   /* by the reply, or by this side */
    bool local;           /* by this side: the service does not know of it */
    bool started;         /* it is part of a muster_call */
    bool over;
};

/* The key of a write of a batch, from its call's `kept`. Empty: there is no such write. */
struct mst_slice mst_batch_key(const char *keys, uint64_t place);

/* How it is made: it blocks, or it is started and `out` gets its handle. */
struct mst_lib_how {
    bool start;
    muster_call **out; /* start */
    struct muster_error *err;
};
struct mst_lib_how mst_lib_blocking(struct muster_error *err);
struct mst_lib_how mst_lib_starting(muster_call **out, struct muster_error *err);

/* Defines X and its twin X_start, which differ only in how the call is made. The body of both
 * follows; it has the parameters, and `how`. `handle`: client or watch, the first parameter. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a declared name cannot be in parentheses */
#define MST_LIB_TWINS(name, handle, parameters, arguments)                                         \
    static muster_status name##_how(muster_##handle *handle, MST_LIB_PARTS parameters,             \
                                    struct mst_lib_how how);                                       \
    muster_status name(muster_##handle *handle, MST_LIB_PARTS parameters,                          \
                       struct muster_error *err)                                                   \
    {                                                                                              \
        return name##_how(handle, MST_LIB_PARTS arguments, mst_lib_blocking(err));                 \
    }                                                                                              \
    muster_status name##_start(muster_##handle *handle, MST_LIB_PARTS parameters,                  \
                               muster_call **call_out, struct muster_error *err)                   \
    {                                                                                              \
        return name##_how(handle, MST_LIB_PARTS arguments, mst_lib_starting(call_out, err));       \
    }                                                                                              \
    static muster_status name##_how(muster_##handle *handle, MST_LIB_PARTS parameters,             \
                                    struct mst_lib_how how)
/* NOLINTEND(bugprone-macro-parentheses) */
#define MST_LIB_PARTS(...) __VA_ARGS__

static inline struct mst_slice mst_lib_slice(struct muster_slice bytes)
{
    return mst_slice_of(bytes.data, bytes.size);
}

static inline struct muster_slice mst_lib_muster_slice(struct mst_slice bytes)
{
    return (struct muster_slice){.data = bytes.data, .size = bytes.size};
}

/* The caller sets client, what, timeout_ms, request, and the other fields that it needs. */
muster_status mst_lib_make(struct mst_call *call, const struct mst_lib_how *how);

/* ---- lock held ---- */

/* Begins it: MORE: it is open; OK: it is over; else it is refused, with its text. */
muster_status mst_call_begin(struct mst_call *call);

/* Ends it with a status of this side's own, unless it is over. */
void mst_call_end(struct mst_call *call, muster_status status);

/* Its status, once it is over; where the service is gone, with the text that says so now. */
muster_status mst_call_status(struct mst_call *call);

/* start.c: a started call is over: it is to be dispatched. */
void mst_call_queue(struct mst_call *call);

/* start.c. Lock not held. */
muster_status mst_call_start(struct mst_call *call, muster_call **out);

#endif
