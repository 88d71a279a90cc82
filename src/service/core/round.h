/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_ROUND_H
#define MST_SERVICE_CORE_ROUND_H

/* One collective operation on small data. The first arrival fixes its parameters and reserves
 * everything its end needs.
 *
 *   OPEN --all arrived or lost--> DONE (OK, ERANGE; a seal: or ETOOFEW, see generation.h)
 *     |--a loss, on_loss = fail--> DONE (ELOST)
 *     |--two that differ-------> DONE (EMISMATCH)
 *     |--deadline--------------> DONE (ETIMEDOUT; on_loss = proceed: with the result of the arrived
 *     |                          ones, or ERANGE); a seal evicts the missing ranks instead
 *     |                          (and waits for replacements, see generation.c)
 *     |--generation sealed-----> gone: waiters get EFENCED */

#include "service/core/member.h"

/* A participant. */
struct mst_round_part {
    struct mst_member *member; /* NULL: this place was never taken */
    struct mst_blob *data;     /* of reductions that keep contributions, see reduce.h */
    uint32_t index;
    bool outside; /* not in the generation: it cannot arrive */
    bool arrived;
    bool lost;
    bool differs; /* EQUAL: from the first */
    enum mst_cause cause;
    int32_t code;
    uint32_t place; /* of a seal with an order: 1 + its next rank; 0: none */
    bool taken;     /* once DONE: it has the result, and does not ask for it again */
};

/* All rounds of one name in one generation: one open at most, the last finished one kept. At the
 * limit of names the first whose last result no participant may ask for is forgotten for a new one.
 */
struct mst_round_name {
    struct mst_named named;
    uint64_t serial;
    uint64_t number; /* of the open one, or of the next */
    struct mst_round *open, *last;
};

struct mst_round {
    uint32_t references; /* its name's, and waiters' */
    struct mst_job *job;
    struct mst_round_name *name; /* borrowed; meaningless once DONE */
    uint64_t number;
    uint64_t opened_ns; /* 0: not known */
    struct mst_alarm alarm;
    struct mst_list waiters; /* struct mst_waiter.in_round */

    struct mst_alarm replace_alarm; /* of a seal: it waits for replacements until then */
    uint64_t replace_ms; /* of a seal: how long it waits for them; 0: not, or not any more */

    uint64_t deadline_ms;
    enum mst_on_loss on_loss;
    enum mst_reduce reduce;
    uint32_t root; /* BROADCAST */
    bool present_only, seal, final;
    uint32_t order_count; /* of a seal: the number of ranks in its order; 0: there is none */
    uint32_t *wanted;     /* the requested participants; NULL: the generation's */
    uint32_t wanted_count;

    struct mst_round_part *parts; /* by index; of the generation: by rank */
    uint32_t part_count;
    uint32_t arrived, lost;
    uint32_t settled;  /* arrived or lost */
    uint32_t owed;     /* once DONE: parts that may ask for the result */
    size_t data_size;  /* of each contribution: vectors and EQUAL */
    size_t kept_bytes; /* of the parts' data */
    struct mst_blob *value;
    int32_t *carries; /* SUM: how often each element passed the end of int64, and where */

    uint64_t pinned_bytes; /* see pin.h */
    bool done;
    muster_status status;
    struct mst_item *items; /* GATHER: reserved from the start */
    uint32_t item_count;
    struct mst_detail detail; /* once DONE; the hosts in it are kept in `hosts` */
    struct mst_blob *hosts[MST_NAMES_MAX];
};

/* A rank is lost or left: every open round of the job counts it. After all simultaneous losses are
 * counted, the rounds that this ends are closed. */
void mst_round_lose(struct mst_job *job, const struct mst_member *member);
void mst_round_settle(struct mst_job *job);

/* Its deadline. */
void mst_round_expire(struct mst_round *round);

/* A seal that waits for replacements waits no more. */
void mst_round_replace_over(struct mst_round *seal);

/* The round is over: fixes the result, answers the waiters, and keeps it as the last one. */
void mst_round_decide(struct mst_round *round, muster_status status);
void mst_round_tell(struct mst_round *round);

/* Once it is done: each part that is in the generation may ask for the result until it says that it
 * has it. */
void mst_round_owe(struct mst_round *round);

/* Whether it ended with a reduced result: on success, and at the deadline of a round that proceeds
 * without the missing ranks as it does without the lost ones. */
bool mst_round_has_value(const struct mst_round *round);

/* Drops every round of the generation; waiters get EFENCED. */
void mst_round_drop_all(struct mst_job *job);

void mst_round_let_go(struct mst_core *core, struct mst_round *round);

struct mst_round_part *mst_round_part(const struct mst_round *round,
                                      const struct mst_member *member); /* NULL: not in it */
struct mst_who mst_round_part_who(const struct mst_round *round, const struct mst_round_part *part);
/* Indices of the first MST_NAMES_MAX that are missing; how many are in `out`. */
uint32_t mst_round_missing(const struct mst_round *round, uint32_t *out);
struct mst_who mst_round_first_missing(const struct mst_round *round); /* index ANY: none */
struct mst_detail mst_round_detail(const struct mst_round *round);
/* The name becomes visible. */
void mst_round_name_publish(struct mst_job *job, struct mst_round_name *name);

#endif
