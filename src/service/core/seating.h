/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_SEATING_H
#define MST_SERVICE_CORE_SEATING_H

/* The ranks of the next generation.
 *
 *   stands at the seal, or is ready --> chosen --> seated
 *                                         +------> passed over: waits as a spare, in no generation
 *
 * Survivors come first, by index; then joiners, in the order in which they became ready; together
 * at most max_size, and a multiple of size_multiple. Ranks follow the indices. A seal with an order
 * seats exactly the members it names, if all of them have arrived. */

#include "service/core/member.h"
#include "service/core/round.h"

/* The number of ranks that a seal allows for this many candidates. */
uint32_t mst_seating_fit(const struct mst_job *job, uint32_t count);
/* The same for parameters that are not the job's yet; 0: any. */
uint32_t mst_seating_fit_to(uint32_t max_size, uint32_t size_multiple, uint32_t count);

struct mst_seating {
    uint32_t survivors; /* arrived at the seal */
    uint32_t there;     /* these and the admitted joiners */
    uint32_t seats;
    bool ordered;
};

/* Of the job's current seal, if there is one; else without predecessors. */
struct mst_seating mst_seating_plan(const struct mst_job *job);

/* A rank of the generation is lost, or has left after a fault, its agent starts another process in
 * its place, and none is ready there yet. */
bool mst_seating_awaits(const struct mst_member *member);
/* How many there are, if a seal of the plan would seat more with them; else 0. */
uint32_t mst_seating_awaited(const struct mst_job *job, const struct mst_seating *seating);

/* Seats them: `ranks` and every seat are those of the next generation. */
void mst_seating_carry_out(struct mst_job *job, const struct mst_seating *seating);

/* It has become ready: it requests growth, or is passed over. */
void mst_seating_newcomer(struct mst_member *member);
/* The same for all ready members, when the seats have changed. */
void mst_seating_survey(struct mst_job *job);

/* A run of the job is complete: answers the waiting JOINs. */
void mst_seating_finish(struct mst_job *job);
/* It waits to join: it becomes ready, or its JOIN is answered for an earlier completed run. */
void mst_seating_joins(struct mst_member *member);
/* The completed-run count to send to a spare that has acknowledged `heard` runs. */
uint64_t mst_seating_heard(const struct mst_job *job, uint64_t heard);

/* Stores the order that a participant of a seal brings. OK, or what the request is refused with,
 * and nothing was changed; EMISMATCH: there is one already. */
muster_status mst_seating_order(struct mst_round *round, const struct mst_round_request *request,
                                struct mst_waiter *waiter);

/* Whether each place of the order is taken, and by one. */
bool mst_seating_order_whole(const struct mst_round *round);

#endif
