/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_CALL_H
#define MUSTER_CALL_H

/* Asynchronous calls. Every blocking function X of a client has a twin X_start. X_start sends the
 * same request and returns at once; the muster_call that it gives reports the result. These have no
 * twin: muster_client_open, muster_client_close, muster_restart_run, muster_heartbeat_start and the
 * functions of preempt.h. Open the client before the event loop begins, or on another thread.
 * docs/async.md is the guide.
 *
 * The following holds for every X_start:
 * - Arguments: those of X, with the same meaning. Inputs are borrowed for the start only. Results
 *   are written where X writes them, before the call is over; so the place must stay valid until
 *   then, or until the call is freed. The caller owns the results, as after X.
 * - Ownership: on success the caller owns *call_out, and frees it with muster_call_free. On failure
 *   no call was started, *call_out is NULL, and status and `err` give the reason: an invalid
 *   argument, ENOMEM, ELIMIT, or the status that X returns at once when the client is closing,
 *   interrupted or over. The call reports every other end. `timeout_ms` limits the call, from its
 *   start.
 * - Order: calls are sent in the order of their starts, and may end in any order.
 * - Limits: 4000 calls may be open on a client, and beside them those that wait for a key or a
 *   change, as many as fit 64 MiB (ELIMIT). 56 of the first are answered at a time; the rest are
 *   sent as others end. The service limits the memory of those that wait, see
 *   --waiting-bytes-max (ELIMIT). A call that waits never delays one that does not.
 * - Rounds: a round counts when it is started, so all ranks must start rounds in the same order. A
 *   round that is cancelled or times out while a later one of its name is open has used its number
 *   up.
 * - Restart: inside muster_restart_run an interruption ends all open calls with EINTERRUPTED at
 *   once. The function frees the calls that it started before it returns.
 * - Close: closing the client ends its calls with ECANCELLED, and their callbacks no longer run. A
 *   handle stays valid until it is freed, also after the close.
 * - Fork: in the child a call is dead as its client is; it can only be freed.
 *
 * The background thread of the client drives open calls, so no other thread is needed. A thread
 * that blocks in any function of the client drives them too. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A started call: the request, and later its result. */
typedef struct muster_call muster_call;

/* Waits until the call is over and returns the status that X would have returned, each time it is
 * called; fills `err` as X does. MUSTER_MORE: the call is not over after timeout_ms (-1: no limit),
 * and continues; 0 only polls. EDEADLK: called from a callback of the client, which must not wait.
 * Thread: any, several at once. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_call_wait(muster_call *call, int64_t timeout_ms,
                                                          struct muster_error *err);

/* Waits as muster_call_wait does, for a program whose signal handlers only note the signal, as
 * those of Python do: it also returns MUSTER_MORE when a signal handler has run on this thread.
 * That is at once while this thread drives the connection, and within 50 ms while another one does.
 * A signal that arrives just before the wait does not end it, so pass a timeout. MUSTER_MORE may
 * also come without a signal. Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_call_wait_signal(muster_call *call,
                                                                 int64_t timeout_ms,
                                                                 struct muster_error *err);

/* Ends the call with ECANCELLED, at once. A call that is over is not changed. A write may or may
 * not have been applied. NULL: a no-op. Thread: any. Since 0.1. */
MUSTER_API void muster_call_cancel(muster_call *call);

/* Cancels the call if it is not over, and frees the handle. From then on no result is written and
 * no callback is called. Waits for a callback that runs on another thread; the callback itself may
 * free its call. NULL: a no-op. Thread: any, but no other thread may use the handle meanwhile.
 * Since 0.1. */
MUSTER_API void muster_call_free(muster_call *call);

/* Called when the call is over. It may start, wait for, cancel and free calls, also this one. A
 * slow callback delays the loop that it runs in. It must not close the client. */
typedef void muster_call_done(void *ctx, muster_call *call);

/* Sets the callback that muster_client_dispatch calls once when the call is over, also if it is
 * over already. Replaces an earlier callback; NULL: none. Since 0.1. */
MUSTER_API void muster_call_on_done(muster_call *call, muster_call_done *done, void *ctx);

/* A descriptor for poll, epoll, libuv and the like: readable while there are finished calls to
 * dispatch. Poll it only; it belongs to the client and is closed with it. It is created on the
 * first request. ELIMIT: no descriptor is free. Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_client_fd(muster_client *client, int *fd_out,
                                                          struct muster_error *err);

/* Runs the callbacks of the finished calls on this thread, in the order in which the calls ended.
 * Calls that end meanwhile are left to the next dispatch. Never waits. Thread: any; two threads
 * that dispatch at once share the callbacks. Since 0.1. */
MUSTER_API void muster_client_dispatch(muster_client *client);

#ifdef __cplusplus
}
#endif

#endif
