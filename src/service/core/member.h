/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_MEMBER_H
#define MST_SERVICE_CORE_MEMBER_H

/* A place in a job (role and index) and its holder. The record stays as long as the job, because
 * its incarnations only grow.
 *
 *            claim                     sealed            connection gone
 *   absent ---------> joining (ranks) -------> present <-----------------> silent
 *   lost,left ------> present (worker, agent)     \_________ lost or left ___/
 *
 * joining, present and silent are not stored: they follow from the session and the seat. */

#include "service/core/session.h"

/* A rank's part in the current generation. It may outlive its incarnation: the place can have a new
 * holder while the generation still counts the old one as lost. */
struct mst_seat {
    uint64_t incarnation; /* 0: the place is not in the current generation */
    uint32_t rank;
    bool gone; /* lost or left */
    enum mst_cause cause;
    int32_t code;
    uint64_t pid, heard_ns;
    struct mst_blob *host;
    uint32_t agent;
    uint32_t losses;

    /* The first reported fault. */
    uint64_t fault_revision; /* 0: none */
    struct mst_index_node fault_node;
    enum mst_cause fault_cause;
    int32_t fault_code;
    struct mst_blob *fault_text;
    uint64_t fault_ns;
    uint32_t fault_told_by; /* 1 + the agent; 0: the rank itself or the service */
};

struct mst_progress_kept;

struct mst_member {
    uint64_t incarnation;       /* of the newest holder; first what each round touches */
    struct mst_round *waits_at; /* borrowed: the round it contributed to last, if that is open */
    struct mst_seat seat;

    struct mst_index_node place; /* in job->members */
    struct mst_job *job;
    enum mst_role role;
    uint32_t index;
    enum mst_state end;   /* STATE_LOST, LEFT, ABSENT; 0: held */
    enum mst_cause cause; /* of the last loss; it stays when the place has a new holder */
    int32_t code;
    uint32_t losses;
    struct mst_blob *text; /* last words */
    struct mst_blob *host;
    uint64_t pid, heard_ns;
    uint32_t agent;               /* that started it: its node */
    struct mst_session *session;  /* the holder */
    struct mst_session *claimant; /* waits for the holder's loss */
    bool last;                    /* its agent starts no other process after the last holder */
    bool loss_uncounted;          /* GONE, which may still be refined */
    bool owes_touch;              /* it has changed while the core is held; only a record that
                                     begins then keeps it */
    struct mst_index_node fence;  /* in core->fences: by the token of the last lost incarnation */
    uint64_t revision;            /* of its last change */
    enum mst_state state;         /* that it had then, */
    uint64_t state_ns;            /* and since when; 0: not known */
    struct mst_index_node change_node, node_change_node;
    struct mst_list in_ready;           /* linked: it is ready for the next generation */
    bool spare;                         /* it was passed over, and waits */
    bool chosen;                        /* while a generation is seated */
    struct mst_progress_kept *progress; /* NULL: no agent has reported it; progress.h */
};

/* A loss, or a fault. */
struct mst_loss {
    enum mst_cause cause;
    int32_t code;
    struct mst_blob *text; /* borrowed; NULL: none */
    uint32_t told_by;      /* 1 + the agent; 0: the rank itself or the service */
};

/* The place whose last holder with this token is lost, or NULL. */
struct mst_member *mst_member_fenced(struct mst_core *core, struct mst_token token);

struct mst_member *mst_member_find(const struct mst_job *job, enum mst_role role, uint32_t index);
struct mst_member *mst_member_first(const struct mst_job *job);
struct mst_member *mst_member_next(const struct mst_member *member);
/* The first at or after (role, index); NULL: none. */
struct mst_member *mst_member_from(const struct mst_job *job, enum mst_role role, uint32_t index);

/* The node it belongs to: its agent's index, an agent's own; NODE_NONE: none. */
uint32_t mst_member_node(const struct mst_member *member);

/* The first that changed at or after a revision, of all or of one node; NULL: none. */
struct mst_member *mst_member_changed(const struct mst_job *job, uint32_t node, uint64_t revision);
/* Puts one whose last change is known among the changes. False: another has that revision. */
bool mst_member_set_change(struct mst_member *member);
/* The first with a fault at or after a revision; NULL: none. */
struct mst_member *mst_member_faulted(const struct mst_job *job, uint64_t revision);

/* The lowest free index, from 0 or from MST_HELPERS_FROM on. */
uint32_t mst_member_free_index(struct mst_job *job, enum mst_role role, uint32_t from);

/* A new place, ABSENT; everything a later seal needs for it is reserved. NULL: no memory. The
 * caller checks the limit. */
struct mst_member *mst_member_new(struct mst_job *job, enum mst_role role, uint32_t index);
void mst_member_forget(struct mst_member *member); /* one that was never held after all */
void mst_member_free(struct mst_core *core, struct mst_member *member);

/* The token of the last lost incarnation. False: another one has the same. */
bool mst_member_set_fence(struct mst_member *member, struct mst_token token);
void mst_member_forget_fence(struct mst_member *member);

/* The session becomes its holder, in a new incarnation. */
void mst_member_admit(struct mst_member *member, struct mst_session *session);
void mst_member_set_ready(struct mst_member *member);
void mst_member_unready(struct mst_member *member);

/* Its state has changed: notify the watchers of members. */
void mst_member_touch(struct mst_member *member);

/* The holder is lost; with MST_CAUSE_LEFT it leaves. Decides everything that follows, but closes no
 * seal: the job is settled at the end of the input. */
void mst_member_lose(struct mst_member *member, struct mst_loss loss);

/* Counts its last loss by the currently known cause, unless it was counted already. */
void mst_member_count_loss(struct mst_member *member);

/* The same as mst_member_lose for one of several that are lost at once: no round is closed before
 * mst_round_settle, and its host is not blamed for it. */
void mst_member_lose_with_node(struct mst_member *member, struct mst_loss loss);

/* The holder is alive: a claim of its place is refused. */
void mst_member_heard(struct mst_member *member);

/* Its first fault in this generation. False: there is an earlier one, which is the cause; later
 * ones follow from it. */
bool mst_member_keep_fault(struct mst_member *member, const struct mst_loss *fault);
void mst_member_set_text(struct mst_member *member, struct mst_blob *text); /* last words */

bool mst_member_seated(const struct mst_member *member); /* its holder is in the generation */
enum mst_state mst_member_state(const struct mst_member *member);
/* 1 + milliseconds since it is in that state; 0: not known. */
uint64_t mst_member_since_ms(const struct mst_member *member);
struct mst_who mst_member_who(const struct mst_member *member);
struct mst_who mst_member_absent_who(uint32_t index); /* of a rank that was never here */
struct mst_who mst_member_seat_who(
    const struct mst_member *member); /* of the rank in the generation, not of the place's holder */

#endif
