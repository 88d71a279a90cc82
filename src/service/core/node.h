/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_NODE_H
#define MST_SERVICE_CORE_NODE_H

/* A node: an agent and the members that it started, by their own account. A node is lost as one
 * event. There is no object for it: the agent's place is its number, and the sessions that name
 * it are found in an ordered set of the job.
 *
 * Each lease ends by itself. The rules (L: the lease; *quiet*: not renewed for more than 0.4 L,
 * which is two renewals):
 *
 *   a rank's lease ends, its agent is not quiet --------> the rank is lost, alone
 *   a rank's lease ends, its agent is quiet ------------> the rank waits for the agent's end
 *   the agent's lease ends, others' still run ----------> the node is *going*: no member of it is
 *                                                         renewed, the agent waits for the last
 *                                                         lease
 *   the agent renews meanwhile -------------------------> all of them have a whole lease again
 *   the agent's lease and all others' have ended -------> all are lost at once
 *
 * So no member is lost before a whole lease has passed since its last contact, and a member that
 * was cut off with its node has stopped itself before. An agent that leaves, or is absent, delays
 * no member. */

#include "service/core/session.h"

/* A session that names a node has a place, or waits for one; and again when that changes. */
void mst_node_enter(struct mst_session *session);
void mst_node_leave(struct mst_session *session);

/* The node that a newcomer names: MST_NODE_NONE if that is going; then it has none. */
uint32_t mst_node_named(const struct mst_job *job, const struct mst_open *open);

/* Its node is going: it cannot renew until its agent does. */
bool mst_node_going(const struct mst_session *session);

/* Called before a session is extended by a renewal: if it is the agent of a going node, the members
 * that could not renew have a whole lease from now. */
void mst_node_heard(const struct mst_session *session);

/* The lease of a holder has ended. True: its node decides, and its alarm is set; or all of them are
 * lost, itself included. False: it has no node. */
bool mst_node_expire(struct mst_session *session);

/* Whether there is such an agent, and it starts another process for each lost rank of its node. */
bool mst_node_replaces(const struct mst_job *job, uint32_t agent);

/* Whether this session may report deaths of processes that `agent` started, or no agent, on `host`.
 */
bool mst_node_speaks(const struct mst_session *session, uint32_t agent, struct mst_slice host);

#endif
