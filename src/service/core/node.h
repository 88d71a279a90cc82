/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_NODE_H
#define MST_SERVICE_CORE_NODE_H

/* A node: an agent and the members that said they were started by it. What is lost together is told
 * together. There is no object for it: the agent's place is its number, and the sessions that name
 * it are found in an ordered set of the job.
 *
 * Each lease ends by itself. What follows is decided so (L: the lease; *quiet*: not renewed for
 * more than 0.4 L, which is two renewals):
 *
 *   a rank's lease ends, its agent is not quiet --------> the rank is lost, alone
 *   a rank's lease ends, its agent is quiet ------------> the rank waits for what becomes of the
 *                                                         agent
 *   the agent's lease ends, others' still run ----------> the node is *going*: nobody in it is
 *                                                         renewed, the agent waits for the last
 *                                                         lease
 *   the agent is heard of meanwhile --------------------> all of them have a whole lease again
 *   the agent's lease and all others' have ended -------> all are lost at once
 *
 * So nobody is given up before a whole lease has passed since it was heard, and who was cut off
 * with its node has stopped itself before. An agent that leaves, or is not there, holds nobody
 * back. */

#include "service/core/session.h"

void mst_node_tree_init(struct mst_tree *tree);

/* A session that names a node has a place, or waits for one; and again when that changes. */
void mst_node_enter(struct mst_session *session);
void mst_node_leave(struct mst_session *session);

/* The node that a newcomer names: MST_NODE_NONE if that is going, then it is on its own. */
uint32_t mst_node_named(const struct mst_job *job, const struct mst_open *open);

/* Its node is being given up: it cannot renew as long as its agent is not heard of. */
bool mst_node_going(const struct mst_session *session);

/* Before a session is extended because it was heard of: if it is the agent of a node that was
 * going, those who could not renew have a whole lease for it now. */
void mst_node_heard(const struct mst_session *session);

/* The lease of a holder has ended. True: its node decides, and its alarm is set; or all of them are
 * lost, itself included. False: it is on its own. */
bool mst_node_expire(struct mst_session *session);

/* Whether this session may speak of the deaths of processes that `agent` started, or nobody, on
 * `host`. */
bool mst_node_speaks(const struct mst_session *session, uint32_t agent, struct mst_slice host);

#endif
