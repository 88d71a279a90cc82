/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_RESTART_H
#define MST_RESTART_RESTART_H

/* Restart of a function in the same process, as a pure machine of one rank. It speaks to the
 * service in requests, through the client machine, and to the shell in effects.
 *
 *   RUNNING --attention / stopped--> TOLD --returned--> SEALING --view--> RUNNING (iteration + 1)
 *      |returned EFAILED: FAULT first ----------------------^
 *      |returned OK--> COMPLETING --round OK--> FINISHED
 *                          |attention, ELOST, FENCED: --> SEALING
 *   SEALING --ETOOFEW, terminal error--> FINISHED
 *
 * There is one way to restart: a rank whose function failed goes through the same seal as those who
 * were interrupted. */

#include "base/mem.h"
#include "msg/reply.h"
#include "msg/request.h"

struct mst_restart;

struct mst_restart_config {
    uint64_t barrier_timeout_ms; /* of the seal: who has not arrived by then is evicted */
};

enum mst_restart_effect_type {
    MST_RESTART_REQUEST = 1,   /* make this call; give its reply to mst_restart_reply with `tag` */
    MST_RESTART_CANCEL = 2,    /* the call `tag` is no longer wanted; no reply is owed */
    MST_RESTART_ENTER = 3,     /* call the function: view and iteration are set */
    MST_RESTART_TELL = 4,      /* checks say interrupted from now on (GROW: at the next check) */
    MST_RESTART_INTERRUPT = 5, /* cut blocking calls of the function short, now; comes again with
                                  back-off until the function has returned */
    MST_RESTART_FINISH = 6     /* muster_restart_run returns `status` */
};

struct mst_restart_effect {
    enum mst_restart_effect_type type;
    const struct mst_request *request;
    uint64_t tag;
    struct mst_view view;
    uint64_t iteration;
    muster_status status;
    const struct mst_reply *reply; /* FINISH by a reply of the service: its detail; else NULL */
};

muster_status mst_restart_new(struct mst_restart **out, const struct mst_restart_config *config,
                              const struct mst_mem *mem);
void mst_restart_free(struct mst_restart *restart);

/* Begin with the view of a sealed generation. */
void mst_restart_start(struct mst_restart *restart, uint64_t now_ns, const struct mst_view *view);

/* The client's view or self-stop changed (level-triggered; repeats are harmless). */
void mst_restart_attention(struct mst_restart *restart, uint64_t now_ns, const struct mst_view *view,
                           bool stopped);

/* The function returned. OK after it was told to stop counts as interrupted. */
void mst_restart_returned(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                          int32_t code, struct mst_slice text);

void mst_restart_reply(struct mst_restart *restart, uint64_t now_ns, uint64_t tag,
                       const struct mst_reply *reply);

/* The session is over for good. */
void mst_restart_ended(struct mst_restart *restart, uint64_t now_ns, muster_status status);

void mst_restart_tick(struct mst_restart *restart, uint64_t now_ns);
uint64_t mst_restart_deadline_ns(const struct mst_restart *restart);
const struct mst_restart_effect *mst_restart_next(struct mst_restart *restart);
void mst_restart_done(struct mst_restart *restart, const struct mst_restart_effect *effect);
void mst_restart_check(const struct mst_restart *restart);
uint64_t mst_restart_digest(const struct mst_restart *restart);

#endif
