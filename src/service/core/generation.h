/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_GENERATION_H
#define MST_SERVICE_CORE_GENERATION_H

/* Sealed memberships: the next one, and the interruption of its ranks.
 *
 *   CALM --newcomer ready, grow = check--> GROW --fault, loss, a rank at the seal--> INTERRUPT
 *   any --sealed--> CALM
 *
 * Which members get a rank by a seal: seating.h. */

#include "service/core/member.h"

struct mst_view mst_generation_view(const struct mst_job *job, const struct mst_member *member);

/* The view of a process that does not hold the place, or no longer does: it has no incarnation and
 * no rank, unlike the current holder. */
struct mst_view mst_generation_outside_view(const struct mst_job *job,
                                            const struct mst_member *member);

/* Of a session, which may still claim its place. */
struct mst_view mst_generation_session_view(const struct mst_session *session);

/* Answers a request that names another generation than the job's: EFENCED, with the view. */
muster_status mst_generation_fence(const struct mst_session *session, struct mst_waiter *waiter);

void mst_generation_attention(struct mst_job *job, enum mst_attention attention);

/* Closes the open seal, or seals a generation without predecessors. Part of settling a job. */
void mst_generation_settle(struct mst_job *job);

/* The first seal with too few ranks ends at once, so that the ranks learn of it. A later one of the
 * same generation waits for newcomers until its deadline. */
bool mst_generation_waits_for_more(const struct mst_round *seal);

/* A seal for which there is time (replace_ms of its ranks) waits for lost ranks that their agents
 * replace. Each loss starts that time again; once it is over, the seal closes as if no agent
 * replaced any. */
bool mst_generation_waits_for_places(const struct mst_round *seal);

/* Ends the generation: ranks, rounds and keys. */
void mst_generation_end(struct mst_job *job);

/* Frees its place in the generation, for any rank in it. */
void mst_generation_clear_seat(struct mst_member *member);

/* The answer to the JOIN of a member with a rank. */
void mst_generation_tell_join(struct mst_waiter *join, const struct mst_member *member);

uint32_t mst_generation_min_size(const struct mst_job *job);

/* False: there is no generation, and no session has named a condition for the first one: a number
 * of ranks, or a time. */
bool mst_generation_can_begin(const struct mst_job *job);

#endif
