/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CORE_CORE_H
#define MST_CORE_CORE_H

/* The coordination service without a world around it: members, keys, rounds and watches of several
 * jobs. Inputs carry the time; what must be done comes out as effects. It knows no socket, clock,
 * thread, environment or random source, so the same inputs give the same effects and digest.
 *
 * The shell calls: open, request, close as connections come, speak and go; tick once per loop turn
 * after everything readable was fed; then next and done until nothing is left. `now_ns` is
 * monotonic and never smaller than in the call before.
 *
 * Only admission can fail: a request reserves all it may ever need or changes nothing. Ticks,
 * closes and losses never allocate. */

#include <stdint.h>

#include "base/mem.h"
#include "msg/limits.h"
#include "msg/reply.h"
#include "msg/request.h"

struct mst_core;

enum mst_level { MST_ERROR = 0, MST_WARN = 1, MST_INFO = 2, MST_DEBUG = 3 };

/* One decision, as the log, the narration of a test and a replay print it:
 * "job: event key=value ...". Valid during the call. */
struct mst_trace {
    uint64_t now_ns;
    enum mst_level level;
    struct mst_slice job; /* empty: the service itself */
    const char *text;
};

struct mst_core_config {
    uint64_t lease_ns;
    struct mst_limits limits;
    void (*trace)(void *ctx,
                  const struct mst_trace *line); /* observer: must not call back. May be NULL */
    void *trace_ctx;
};

enum mst_effect_type {
    MST_EFFECT_REPLY = 1,
    MST_EFFECT_HANGUP = 2 /* close this connection after what was sent before; `reason` says why */
};

struct mst_effect {
    enum mst_effect_type type;
    struct mst_conn conn;
    const struct mst_reply *reply; /* REPLY: everything it borrows lives until mst_core_done */
    const char *reason;            /* HANGUP */
};

/* ENOMEM, or EINVAL for a config that makes no sense. */
muster_status mst_core_new(struct mst_core **out, const struct mst_core_config *config,
                           const struct mst_mem *mem);
void mst_core_free(struct mst_core *core);

/* A connection was accepted; `conn` was never used before. ENOMEM or ELIMIT: close it. */
muster_status mst_core_open(struct mst_core *core, uint64_t now_ns, struct mst_conn conn);

/* A request arrived. Whatever becomes of it is told by a reply to this connection: the return value
 * is OK, or ENOMEM when there is no memory even for a refusal; then the shell closes the connection
 * and the session goes on. A request on a connection without a session (other than OPEN) is
 * answered EPROTO and followed by HANGUP. */
muster_status mst_core_request(struct mst_core *core, uint64_t now_ns, struct mst_conn conn,
                               const struct mst_request *request);

/* The connection is gone. Decides nothing about the member: it is silent, and its lease goes on. */
void mst_core_close(struct mst_core *core, uint64_t now_ns, struct mst_conn conn);

void mst_core_tick(struct mst_core *core, uint64_t now_ns);
uint64_t mst_core_deadline_ns(
    const struct mst_core *core); /* when to tick at the latest; UINT64_MAX: never */

/* The next thing to do; NULL: nothing. One at a time: done before the next next. */
const struct mst_effect *mst_core_next(struct mst_core *core);
void mst_core_done(struct mst_core *core, const struct mst_effect *effect);

void mst_core_check(const struct mst_core *core);      /* asserts every invariant */
uint64_t mst_core_digest(const struct mst_core *core); /* same inputs, same digest */

#endif
