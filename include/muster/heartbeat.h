/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_HEARTBEAT_H
#define MUSTER_HEARTBEAT_H

/* The collective heartbeat: all ranks of the generation show each other a token once per period,
 * and a process that cannot, several times in a row, ends itself. It is for jobs whose collectives
 * would hang for ever when a peer is gone; a job that uses muster_restart_run goes on instead, and
 * the heartbeat lets it. What client.h says of threads, time and errors holds here.
 *
 * The token (1 to 65535) belongs to a generation: it is drawn by its rank 0 and agreed on by all
 * when the generation begins. From then on, once per period, all meet in a round:
 * - All are here with the same token: the count of failures is 0 again. Whoever has left the job
 *   (muster_client_close, muster_member_leave, exit with status 0) is not missed.
 * - Somebody is lost, or not here when the timeout is over: a failure, told to the log with who it
 *   is; with `failures_max` of them in a row the process ends.
 * - Somebody shows another token: the process ends at once.
 * - The service cannot be reached: nothing. The count stands still until it is back, or until the
 *   lease is over; from then on each period is a failure.
 * When the ranks are sealed into a new generation all this begins anew, by itself and with a count
 * of 0. While muster_restart_run is in progress nothing is counted but told to the log: whoever is
 * missing is given up when its lease is over, and the run recovers from that. Another token ends
 * the process all the same.
 *
 * The end: one line to the log function of the client (without one: to stderr) that says why and
 * who is missing, `on_crash`, abort(). All of it on whichever thread drives the connection.
 *
 * It costs no thread of its own, and each member some 100 bytes per period. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_heartbeat muster_heartbeat;

/* What is 0 is taken from MUSTER_HEARTBEAT_<NAME>, else from the default. Members that name
 * different periods or timeouts all use the largest that any of them names. */
struct muster_heartbeat_options {
    size_t size;           /* sizeof */
    int64_t period_ms;     /* 60 s; at least 10 ms */
    int64_t timeout_ms;    /* of one round, from its first arrival; period - 10 s, at least 2 s */
    uint32_t failures_max; /* 3 */
    /* Right before abort(); `line` says why. With the client's lock held: a muster call in it on
     * this client returns EDEADLK. It may end the process in its own way; if it returns, abort()
     * follows. NULL: nothing. */
    void (*on_crash)(void *ctx, const char *line);
    void *ctx;
};

#define MUSTER_HEARTBEAT_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(struct muster_heartbeat_options), 0, 0, 0, NULL, NULL                               \
    }

/* Starts it, and waits until all ranks of the generation have, or for `timeout_ms` of the options.
 * A spare does not wait: its heart beats from when it is seated. One per client: while it runs,
 * another start returns the same handle, and warns. The handle is the client's and lives as long;
 * after a stop it is taken up again.
 *
 * It installs a handler of exit(), once per process: a process that ends with status 0 or 75 leaves
 * the job (muster_member_leave, for at most a second), so that its peers count no failure. It does
 * nothing where muster_restart_run is in progress, which has a handler of its own, after
 * muster_client_close, and in a forked child; _exit runs nothing. Ends with another status are what
 * they look like: losses.
 *
 * Errors, beyond the general ones: ETIMEDOUT naming who has not started it; ELOST when a rank is
 * lost already; EINVAL when this client is no rank. It is then not running here; but the ranks that
 * wait for this one do not miss it, and another call goes on where this one ended. With ranks that
 * contribute two tokens, or none of the range, it does not return: the process ends. Thread: any.
 * Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_heartbeat_start(muster_heartbeat **out, muster_client *client,
                       const struct muster_heartbeat_options *options, struct muster_error *err);

/* From now on nothing that happens to the heartbeat ends this process. Returns at once. The library
 * goes on showing the token for as long as the client is open, so that no peer counts a failure.
 * NULL, or after a stop: a no-op. Not after muster_client_close. Thread: any. Since 0.1. */
MUSTER_API void muster_heartbeat_stop(muster_heartbeat *heartbeat);

#ifdef __cplusplus
}
#endif

#endif
