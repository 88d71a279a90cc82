/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_HEARTBEAT_H
#define MUSTER_HEARTBEAT_H

/* The collective heartbeat: once per period all ranks of the generation exchange a token. A process
 * that fails to do so several times in a row aborts. It is for jobs whose collectives would hang
 * forever when a peer is lost. A job that uses muster_restart_run recovers instead, and the
 * heartbeat lets it. What client.h says of threads, time and errors holds here.
 *
 * The token (1 to 65535) belongs to a generation. Rank 0 draws it, and all ranks agree on it when
 * the generation begins. Then all ranks meet in one round per period:
 * - All ranks arrive with the same token: the failure count is 0 again. A rank that has left the
 *   job (muster_client_close, muster_member_leave, exit with status 0) is not expected.
 * - A rank is lost, or missing at the timeout: one failure; the log names the rank. After
 *   `failures_max` failures in a row the process aborts.
 * - A rank contributes another token: the process aborts at once.
 * - The service is unreachable: no failure. The count does not change until the service is back or
 *   the lease is over. After the lease each period is a failure.
 *
 * When the ranks are sealed into a new generation, the heartbeat begins anew with a count of 0.
 * While muster_restart_run is in progress, failures are logged but not counted: a missing rank is
 * lost when its lease is over, and the run recovers from that. A different token ends the process
 * also then.
 *
 * The abort: one line to the client's log function (without one: to stderr) with the reason and the
 * missing ranks, then `on_crash`, then abort(). All this runs on the thread that drives the
 * connection.
 *
 * The heartbeat has no thread of its own. It costs each member some 100 bytes per period. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The heartbeat of a client: its thread, and the count of failures. */
typedef struct muster_heartbeat muster_heartbeat;

/* Options of a heartbeat. A field that is 0 is taken from MUSTER_HEARTBEAT_<NAME>, else from the
 * default. If members set different periods or timeouts, all use the largest. */
struct muster_heartbeat_options {
    size_t size;           /* sizeof */
    int64_t period_ms;     /* 60 s; at least 10 ms */
    int64_t timeout_ms;    /* of one round, from its first arrival; period - 10 s, at least 2 s */
    uint32_t failures_max; /* 3 */
    /* Called right before abort(); `line` is the reason. The client's lock is held: a muster call
     * on this client returns EDEADLK. The callback may end the process itself; if it returns,
     * abort() follows. NULL: none. */
    void (*on_crash)(void *ctx, const char *line);
    void *ctx;
};

#define MUSTER_HEARTBEAT_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(struct muster_heartbeat_options), 0, 0, 0, NULL, NULL                               \
    }

/* Starts the heartbeat, and waits until all ranks of the generation have started it, at most for
 * `timeout_ms` of the options. A spare does not wait: its heartbeat begins when it gets a rank. One
 * per client: while it runs, another start returns the same handle and warns. The client owns the
 * handle. A start after a stop continues the heartbeat.
 *
 * It installs an exit() handler, once per process: a process that ends with status 0 or 75 leaves
 * the job (muster_member_leave, for at most a second), so its peers count no failure. The handler
 * does nothing while muster_restart_run is in progress (which has a handler of its own), after
 * muster_client_close, and in a forked child. _exit runs no handler. An end with another status
 * counts as a loss.
 *
 * Errors, beyond the general ones: ETIMEDOUT naming the ranks that have not started it; ELOST when
 * a rank is lost already; EINVAL when this client is no rank. The heartbeat then does not run here,
 * but ranks that wait for this one do not miss it, and another call continues from there. If ranks
 * contribute two tokens, or one out of range, it does not return: the process aborts. Thread: any.
 * Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_heartbeat_start(muster_heartbeat **out, muster_client *client,
                       const struct muster_heartbeat_options *options, struct muster_error *err);

/* Stops the heartbeat: from now on it never ends this process. Returns at once. The library keeps
 * contributing the token while the client is open, so that no peer counts a failure. NULL, or after
 * a stop: a no-op. Not after muster_client_close. Thread: any. Since 0.1. */
MUSTER_API void muster_heartbeat_stop(muster_heartbeat *heartbeat);

#ifdef __cplusplus
}
#endif

#endif
