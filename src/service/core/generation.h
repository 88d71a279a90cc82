/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_GENERATION_H
#define MST_SERVICE_CORE_GENERATION_H

/* Sealed memberships: who is in the next one, and how its ranks are called out of their work.
 *
 *   CALM --newcomer ready, grow = check--> GROW --fault, loss, somebody at the seal--> INTERRUPT
 *   any --sealed--> CALM
 *
 * Who is seated by a seal: seating.h. */

#include "service/core/member.h"

struct mst_view mst_generation_view(const struct mst_job *job, const struct mst_member *member);

/* Of a process that does not hold the place, or does no longer: it has no incarnation and no rank,
 * whoever sits there now. */
struct mst_view mst_generation_outside_view(const struct mst_job *job,
                                            const struct mst_member *member);

/* Of a session, which may still claim its place. */
struct mst_view mst_generation_session_view(const struct mst_session *session);

void mst_generation_attention(struct mst_job *job, enum mst_attention attention);

/* Whatever is due: the open seal, a generation from nobody. Part of settling a job. */
void mst_generation_settle(struct mst_job *job);

/* A seal that is too few is over at once the first time, so that the ranks learn of it. One that
 * comes after that in the same generation waits for newcomers until its deadline. */
bool mst_generation_waits_for_more(const struct mst_round *seal);

/* The job's ranks are gone, and with them all that belongs to the generation. */
void mst_generation_end(struct mst_job *job);

/* Its place in the generation is free, whoever sat there. */
void mst_generation_clear_seat(struct mst_member *member);

/* The answer to the JOIN of one who is seated. */
void mst_generation_tell_join(struct mst_waiter *join, const struct mst_member *member);

uint32_t mst_generation_min_size(const struct mst_job *job);

/* False: there is no generation, and nobody has said when the first one may begin: after how many
 * ranks, or after how long. */
bool mst_generation_can_begin(const struct mst_job *job);

#endif
