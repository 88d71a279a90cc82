/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_CALL_H
#define MUSTER_CALL_H

/* Calls that nobody blocks for. Every blocking function X of a client has a twin X_start, which
 * sends what X sends and returns at once; what X would return is learned from the muster_call that
 * it gives. Only muster_client_open, muster_client_close, muster_restart_run,
 * muster_heartbeat_start and the functions of preempt.h have none: open before the event loop
 * begins, or on another thread. docs/async.md is the guide.
 *
 * What holds for every X_start:
 * - The arguments are those of X, and mean the same. Inputs are borrowed for the start only.
 *   Results are written where X writes them, before the call is over; so the place must stay until
 *   then, or until the call is freed. What is written there is the caller's, as after X.
 * - On success the caller owns *call_out, and frees it with muster_call_free. On failure nothing
 *   was started, *call_out is NULL, and status and `err` say why: an argument that makes no sense,
 *   ENOMEM, ELIMIT, or what X returns at once when the client is closing, interrupted or over.
 *   Every other end is the call's. `timeout_ms` is the call's, from the start.
 * - Calls are sent in the order of their starts, and may end in any. 4000 may be open on a client
 *   (ELIMIT). Of these 56 are answered at a time, and 240 more may wait for something (for a key,
 *   for a change; rounds do not count); the rest are sent, by themselves, as others end. A call
 *   that waits never holds up one that does not.
 * - A round counts when it is started, so the order of starts is to be the same on all ranks. One
 *   that is cancelled or times out while a later one of its name is open has used its number up.
 * - Inside muster_restart_run an interruption ends all open calls with EINTERRUPTED at once. What
 *   the function started it frees before it returns.
 * - Closing the client ends them with ECANCELLED; their callbacks are not run any more. A handle
 *   stays valid until it is freed, also after that.
 * - In a child after fork a call is dead as its client is: it can only be freed.
 *
 * The background thread of the client looks after open calls; no other thread is needed, and one
 * that blocks in any function of the client helps. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_call muster_call;

/* Waits until the call is over and returns what became of it, as X would have, again and again;
 * `err` is filled as by X. MUSTER_MORE: it is not over after timeout_ms (-1: no limit), and goes
 * on; with 0 this only looks. EDEADLK: from a callback of the client that must not wait. Thread:
 * any, several at once. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_call_wait(muster_call *call, int64_t timeout_ms,
                                                          struct muster_error *err);

/* Ends the call with ECANCELLED, at once; one that is over stays as it is. A write may or may not
 * be applied. NULL: a no-op. Thread: any. Since 0.1. */
MUSTER_API void muster_call_cancel(muster_call *call);

/* Cancels what is not over, and frees the handle: results are not written and the callback is not
 * called from then on. If it is running on another thread, that is waited for; in the callback
 * itself the call may be freed. NULL: a no-op. Thread: any, but nobody may use the handle
 * meanwhile. Since 0.1. */
MUSTER_API void muster_call_free(muster_call *call);

/* The call is over. It may start, wait for, cancel and free calls, also this one; what must be
 * quick is the loop that it runs in. It must not close the client. */
typedef void muster_call_done(void *ctx, muster_call *call);

/* Has `done` called once by muster_client_dispatch when the call is over, which it may be already;
 * NULL: nothing. Instead of an earlier one. Since 0.1. */
MUSTER_API void muster_call_on_done(muster_call *call, muster_call_done *done, void *ctx);

/* A descriptor for poll, epoll, libuv and the like: readable while calls are over that were not
 * dispatched. Only to be polled; it belongs to the client and ends with it. A process that does not
 * ask for it pays nothing. ELIMIT: no descriptor is free. Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_client_fd(muster_client *client, int *fd_out,
                                                          struct muster_error *err);

/* Runs the callbacks of the calls that are over, on this thread, in the order in which they ended;
 * those that end meanwhile are left to the next time. Never waits. Thread: any; two that dispatch
 * at once share the callbacks. Since 0.1. */
MUSTER_API void muster_client_dispatch(muster_client *client);

#ifdef __cplusplus
}
#endif

#endif
