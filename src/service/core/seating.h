/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_SEATING_H
#define MST_SERVICE_CORE_SEATING_H

/* Who sits where in the next generation.
 *
 *   stands at the seal, or is ready --> chosen --> seated
 *                                         +------> passed over: waits as a spare, in no generation
 *
 * Survivors come first, by index; then joiners, in the order in which they became ready; together
 * at most max_size, and a multiple of size_multiple. Ranks follow the indices. A seal with an order
 * seats exactly whom that names, if they all stand there. */

#include "service/core/member.h"
#include "service/core/round.h"

/* How many of so many a seal seats. */
uint32_t mst_seating_fit(const struct mst_job *job, uint32_t count);
/* The same for parameters that are not the job's yet; 0: any. */
uint32_t mst_seating_fit_to(uint32_t max_size, uint32_t size_multiple, uint32_t count);

/* Whether newcomers are let in now. */
bool mst_seating_lets_in(const struct mst_job *job);

struct mst_seating {
    uint32_t survivors; /* who stand at the seal */
    uint32_t there;     /* they and the joiners that are let in */
    uint32_t seats;
    bool ordered;
};

/* Of the job's seal as it stands, if there is one, else from nobody. */
struct mst_seating mst_seating_plan(const struct mst_job *job);

/* Seats them: `ranks` and every seat are those of the next generation. */
void mst_seating_carry_out(struct mst_job *job, const struct mst_seating *seating);

/* It has become ready: it asks to be let in, or there is no place for it. */
void mst_seating_newcomer(struct mst_member *member);
/* The same for all who are ready, when the seats have changed. */
void mst_seating_survey(struct mst_job *job);

/* There is no place for it now. */
void mst_seating_pass_over(struct mst_member *member);

/* A run of the job is over: who waits to join is told so. */
void mst_seating_finish(struct mst_job *job);
/* It waits to join: it becomes ready, or is told of a run that was over before. */
void mst_seating_joins(struct mst_member *member);
/* Of how many who has no seat and knows of `heard` knows when it is told of one. */
uint64_t mst_seating_heard(const struct mst_job *job, uint64_t heard);

/* Takes the order in that a participant of a seal brings. OK, or why it is refused: nothing was
 * changed then; EMISMATCH: there is one already. ELIMIT: `excess` says of what. */
muster_status mst_seating_order(struct mst_round *round, const struct mst_round_request *request,
                                struct mst_excess *excess);

/* Whether each place of the order is taken, and by one. */
bool mst_seating_order_whole(const struct mst_round *round);

#endif
