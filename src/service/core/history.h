/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_HISTORY_H
#define MST_SERVICE_CORE_HISTORY_H

/* What happened to a job, for people: the last incidents, each with its time. No decision depends
 * on it, so it is in the snapshot and not in the digest, and an incident for which there is no
 * memory is left out.
 *
 * Of the faults and losses that end one generation the first few are kept, as in its records
 * (record.h): a thousand losses at once leave what came before them. Those of agents are of nodes.
 * The loss of a worker ends none, and is always kept: a job of workers alone has no generation. */

#include "service/core/member.h"

struct mst_preempt_name;
struct mst_round;

struct mst_incident {
    enum mst_incident_kind kind;
    uint64_t at_ns;
    uint64_t generation; /* it belongs to; SEALED: the new one */
    struct mst_who who;  /* as it was; but for state, heard_ms and host */
    uint32_t told_by;    /* FAULT, LOST: 1 + the agent; 0: the rank itself or the service */
    uint32_t before;     /* SEALED: the size of the generation that ended; 0: there was none */
    uint32_t after; /* SEALED: of the new one. TOO_FEW: min_size. SAVED, NODE: ranks. GROUP: which
                        one */
    /* SEALED: the faults and losses of the generation that ended. STRAGGLER: how slow, 1/1000. */
    uint32_t total;
    int64_t step; /* SAVED, STRAGGLER. SEALED: how many steps are done again in it; 0: not known */
    uint64_t interrupt_ns; /* SEALED: from the interruption to the first arrival at the seal */
    uint64_t gather_ns;    /* SEALED: from there to the sealing */
    struct mst_blob *host, *text;
};

struct mst_history {
    struct mst_incident *ring;
    uint32_t room, first, count;
    uint64_t total;   /* the number of the last one */
    uint32_t of_seal; /* faults, losses and nodes that end this generation, so far */
};

void mst_history_clear(struct mst_job *job);

/* ---- called where it is decided ---- */

void mst_history_fault(struct mst_job *job, struct mst_who who, const struct mst_loss *fault,
                       struct mst_blob *host);
void mst_history_lost(const struct mst_member *member, const struct mst_loss *loss);
void mst_history_node(const struct mst_member *agent, uint64_t ranks);
/* The exit status of a process whose death was recorded as GONE. */
void mst_history_refine(const struct mst_session *teller, const struct mst_request *request,
                        const struct mst_loss *loss);
/* The generation was sealed, and its records too; `seal` is NULL if it had no predecessors. */
void mst_history_sealed(struct mst_job *job, const struct mst_round *seal, uint32_t before);
void mst_history_too_few(struct mst_job *job, uint32_t there);
/* A key of preemption of that name was stored: a notice, or a save. */
void mst_history_preempt(struct mst_job *job, const struct mst_key *key,
                         const struct mst_preempt_name *name);
/* Its work in a step in thousandths of the median, and the step that it reached. */
void mst_history_straggler(const struct mst_member *member, uint32_t slower, int64_t step);
/* So many steps are done again by a rank of that generation. */
void mst_history_repeated(struct mst_job *job, uint64_t generation, uint32_t steps);
/* A key was stored: one by which a run starts all its processes anew. */
void mst_history_key(struct mst_job *job, const struct mst_key *key);
void mst_history_resumed(struct mst_core *core); /* the service began again */

/* ---- for a snapshot ---- */

struct mst_incident *mst_history_at(const struct mst_history *history, uint32_t i); /* from 0 */
/* The next one; its texts are taken over. */
void mst_history_take(struct mst_job *job, struct mst_incident *loaded);

/* ---- in replies ---- */

/* The incident with the lowest number above `after`; NULL: none. Its number in `number_out`. */
const struct mst_incident *mst_history_after(const struct mst_history *history, uint64_t after,
                                             uint64_t *number_out);
void mst_history_fill(const struct mst_core *core, const struct mst_incident *incident,
                      struct mst_item *item);

#endif
