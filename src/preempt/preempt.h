/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PREEMPT_PREEMPT_H
#define MST_PREEMPT_PREEMPT_H

/* One notice, one step saved by all: the agreement, as a pure machine of one client. It speaks to
 * the service in requests and to the shell in effects; docs/design/preempt.md draws its states and
 * says why it is right.
 *
 * The gate is the shell's. While it is open with a limit, `reached(step)` says SAVE_NOW at or past
 * the limit and GO_ON before it; while it is closed, a caller waits. The machine closes it (GATE),
 * gets the last step that was answered GO_ON, and opens it (LIMIT). It never stays closed for
 * ever: the next view, the end of the session or the result opens it.
 *
 * Inputs carry now_ns; next and done drain effects, one at a time. Only a watch's news can find no
 * memory: it is then asked for again. */

#include "base/mem.h"
#include "base/tree.h"
#include "proto/machine.h"
#include "proto/notice.h"

struct mst_preempt;

struct mst_preempt_config {
    uint64_t window_ms;        /* a notice is acted on when not more than this is left */
    uint64_t agree_timeout_ms; /* a rank that has not contributed by then is left out */
    bool leave_all;            /* all leave after the save, if any rank has this */
};

enum mst_preempt_effect_type {
    MST_PREEMPT_GATE = 1, /* close the gate, so that no step is answered GO_ON any more; then answer
                             with mst_preempt_gated, before the next input. Also where it is
                             closed already */
    MST_PREEMPT_LIMIT = 2,   /* open it with `limit`; INT64_MAX: no save is due. `forget`: a new
                                generation, the last step that was answered is -1 again */
    MST_PREEMPT_NOTICED = 3, /* what mst_preempt_noticed says has changed */
    MST_PREEMPT_SAVED = 4,   /* the answer to mst_preempt_saved: `outcome` */
    MST_PREEMPT_LOG = 5      /* a line for the user: `log` */
};

/* One notice's key. */
struct mst_preempt_seen {
    struct mst_tree_node node; /* first */
    uint64_t revision;
    int64_t deadline_ns;      /* on the caller's clock */
    bool listed;              /* since the watch began anew */
    struct mst_notice notice; /* left_ms as it was written; use deadline_ns */
};

struct mst_preempt_saver {
    uint32_t index;
    int64_t step; /* INT64_MIN: it could not */
};

enum { MST_PREEMPT_SAVERS = 16 };

/* EPREEMPTED: saved by all, leave. OK: saved by all, go on, the noticed ones leave. EMISMATCH: the
 * savers. ELOST, ETIMEDOUT: the detail names the ranks. EFAILED: savers[0] had passed the step when
 * the others saved it. ESTALE: agreed again, or withdrawn: ask `reached`. EINVAL: no save is due.
 * EINTERRUPTED: a new generation. Others: why the session ended. */
struct mst_preempt_outcome {
    muster_status status;
    int64_t step;                    /* that was agreed; -1: none */
    uint32_t of;                     /* ranks of the generation */
    const struct mst_detail *detail; /* the machine's, as the effect is; NULL: none */
    uint32_t saver_count, savers_total;
    struct mst_preempt_saver savers[MST_PREEMPT_SAVERS]; /* those that differ from most first */
};

enum mst_preempt_log {
    MST_PREEMPT_LOG_NOTICED = 1, /* `index`: a notice, `left_ms` */
    MST_PREEMPT_LOG_GARBAGE = 2, /* `index`: the value of its notice is none; it is ignored */
    MST_PREEMPT_LOG_AGREED = 3,  /* `step` is to be saved; said by one rank */
    MST_PREEMPT_LOG_FROZEN = 4,  /* of one rank: `detail` names those that did not answer in time */
    MST_PREEMPT_LOG_POSTPONED = 5, /* for `left_ms` at most: a rank cannot save now */
    MST_PREEMPT_LOG_AGAIN = 6,     /* this rank was past `step` already (at `other`): agree again */
    MST_PREEMPT_LOG_WITHDRAWN = 7, /* all go on */
    MST_PREEMPT_LOG_WAITING = 8,   /* `step` is due here since `since_ms`, and was not saved */
    MST_PREEMPT_LOG_LATE = 9,      /* the deadline passed, `step` was not saved here */
    MST_PREEMPT_LOG_FAILED = 10,   /* the agreement ended with `status` */
    MST_PREEMPT_LOG_PASSED = 11    /* this rank was past `step` (at `other`) when others saved it */
};

struct mst_preempt_line {
    enum mst_preempt_log what;
    uint32_t index;
    int64_t step, other;
    int64_t left_ms; /* until the deadline */
    uint64_t since_ms;
    muster_status status;
    const struct mst_detail *detail; /* the machine's, as the effect is; NULL: none */
};

struct mst_preempt_effect {
    struct mst_machine_effect head;
    enum mst_preempt_effect_type type; /* MST_MACHINE_OWN */
    int64_t limit;
    bool forget;
    struct mst_preempt_outcome outcome;
    struct mst_preempt_line log;
};

/* ENOMEM; EINVAL for a configuration that makes no sense. It begins to watch at once. */
muster_status mst_preempt_new(struct mst_preempt **out, uint64_t now_ns,
                              const struct mst_preempt_config *config, const struct mst_mem *mem);
void mst_preempt_free(struct mst_preempt *preempt);

/* Its effects are struct mst_preempt_effect. A round may be cancelled, to learn who is missing in
 * it: it is made again. Attention of a new generation before the function is entered in it, so that
 * nothing of it is forgotten; without a rank it only sees notices. When the session ends the
 * gate opens, and a save that is waited for is answered. */
extern const struct mst_machine mst_preempt_machine;

/* The answer to GATE: the largest step that was answered GO_ON in this generation, or that the
 * program saves now: if that is not the agreed one, it goes on with it. -1: none. */
void mst_preempt_gated(struct mst_preempt *preempt, uint64_t now_ns, int64_t last);

/* The program asked: the answer was SAVE_NOW, or it waits at the gate. This distinguishes a rank
 * that does not ask from one that is about to save; may be left out and repeated. */
void mst_preempt_waiting(struct mst_preempt *preempt, uint64_t now_ns);

/* The program has saved `step` (>= 0) and waits for the others; the answer is SAVED. Again, with
 * the same step: the same answer once it is there. */
void mst_preempt_saved(struct mst_preempt *preempt, uint64_t now_ns, int64_t step);

/* The program cannot save now. They nest; the bound of the outermost counts. */
void mst_preempt_hold_begin(struct mst_preempt *preempt, uint64_t now_ns, uint64_t limit_ms);
void mst_preempt_hold_end(struct mst_preempt *preempt, uint64_t now_ns);

void mst_preempt_check(const struct mst_preempt *preempt);
/* What it is about: two runs of the same inputs must agree. */
uint64_t mst_preempt_digest(const struct mst_preempt *preempt);

/* ---- what it knows, at any time ---- */

/* The notice that matters most: a certain one before an advisory one, then the first deadline.
 * Level-triggered: NOTICED says when it changes. NULL: none. The machine's, until the next input.
 */
const struct mst_preempt_seen *mst_preempt_noticed(const struct mst_preempt *preempt);

/* That of an index, or MST_NOTICE_ALL. NULL: none. */
const struct mst_preempt_seen *mst_preempt_notice_of(const struct mst_preempt *preempt,
                                                     uint32_t index);

/* The step that is agreed on; -1: none. */
int64_t mst_preempt_agreed(const struct mst_preempt *preempt);

#endif
