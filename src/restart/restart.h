/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_RESTART_H
#define MST_RESTART_RESTART_H

/* Restart of a function in the same process, as a pure machine of one rank. It speaks to the
 * service in requests, through the client machine, and to the shell in effects. restart.c draws its
 * states.
 *
 * There is one way to restart: a rank whose function failed goes through the same seal as those who
 * were interrupted. Inputs carry now_ns; next and done drain effects, one at a time. Everything is
 * allocated at birth, so no input can fail. */

#include "base/mem.h"
#include "msg/reply.h"
#include "msg/request.h"

struct mst_restart;

struct mst_restart_config {
    uint64_t barrier_timeout_ms; /* of the seal: who has not arrived by then is evicted */
};

enum mst_restart_effect_type {
    MST_RESTART_REQUEST = 1, /* make this call without a deadline; give its reply, whatever it is,
                                to mst_restart_reply with `tag` */
    MST_RESTART_CANCEL = 2,  /* ask the service to stop the call `tag`. Its reply is still owed, and
                                must be the service's word: ECANCELLED made up locally while the
                                service had decided otherwise would tear the job apart */
    MST_RESTART_ENTER = 3,   /* call the function: view and iteration are set */
    MST_RESTART_TELL = 4, /* checks of the function say interrupted, from now until it returned */
    MST_RESTART_INTERRUPT = 5, /* cut blocking calls of the function short, now; comes again with
                                  back-off until the function has returned */
    MST_RESTART_FINISH = 6     /* muster_restart_run returns `status`; replies that are still owed
                                  are of no interest */
};

struct mst_restart_effect {
    enum mst_restart_effect_type type;
    const struct mst_request *request; /* borrowed until done */
    uint64_t tag;                      /* never 0, never reused by this machine */
    struct mst_view view;
    uint64_t iteration; /* 0 at the first entry after start */
    muster_status status;
    const struct mst_reply *reply; /* FINISH by a reply of the service: its detail; else NULL */
};

muster_status mst_restart_new(struct mst_restart **out, const struct mst_restart_config *config,
                              const struct mst_mem *mem);
void mst_restart_free(struct mst_restart *restart);

/* Another configuration, before a start. EINVAL for one that makes no sense. */
muster_status mst_restart_configure(struct mst_restart *restart,
                                    const struct mst_restart_config *config);

/* Begin with the view of a sealed generation. Again after FINISH: the machine belongs to a session,
 * not to one run, because the rounds of a generation are numbered through all runs in it. If the
 * view calls for attention INTERRUPT, the function is not entered before the next seal. */
void mst_restart_start(struct mst_restart *restart, uint64_t now_ns, const struct mst_view *view);

/* The client's view or self-stop changed (level-triggered; repeats are harmless; any state). */
void mst_restart_attention(struct mst_restart *restart, uint64_t now_ns,
                           const struct mst_view *view, bool stopped);

/* While the function runs: it says it failed, or wants all to start again. Reported at once, so
 * that the others need not wait for it to return; whatever it returns, the generation is then
 * sealed. The first report counts. A text too long is cut. */
void mst_restart_failed(struct mst_restart *restart, uint64_t now_ns, int32_t code,
                        struct mst_slice text);

/* While the function runs: when it has returned this rank leaves the job for good. */
void mst_restart_left(struct mst_restart *restart, uint64_t now_ns);

/* The function returned. `delivered`: a check or another call of muster has said EINTERRUPTED to it
 * since it was entered; then OK counts as interrupted. A failure nobody told it of and that it did
 * not report is reported now. */
void mst_restart_returned(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                          bool delivered);

/* A call ended. Unknown tags are ignored. */
void mst_restart_reply(struct mst_restart *restart, uint64_t now_ns, uint64_t tag,
                       const struct mst_reply *reply);

/* The session is over for good. A running function is interrupted; FINISH comes when it returned.
 */
void mst_restart_ended(struct mst_restart *restart, uint64_t now_ns, muster_status status);

void mst_restart_tick(struct mst_restart *restart, uint64_t now_ns);
uint64_t mst_restart_deadline_ns(const struct mst_restart *restart); /* UINT64_MAX: never */
const struct mst_restart_effect *mst_restart_next(struct mst_restart *restart);
void mst_restart_done(struct mst_restart *restart, const struct mst_restart_effect *effect);
void mst_restart_check(const struct mst_restart *restart);
uint64_t mst_restart_digest(const struct mst_restart *restart);

#endif
