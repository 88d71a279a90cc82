/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_XLA_XLA_H
#define MST_FRONTS_XLA_XLA_H

/* The front for JAX: XLA's coordination service, as gRPC over plain HTTP/2. jaxlib 0.10 and later
 * speak xla.coordination.CoordinationService, jaxlib 0.9 tensorflow.CoordinationService.
 *
 *   RegisterTask         opens a session; the seal of its generation is the barrier of registration
 *   Heartbeat            is answered here: the session is the agent's, and renews its own lease
 *   PollForError         waits for the first loss or failure of a task
 *   *KeyValue*           keys of the generation, below xla/
 *   Barrier              a round, named xla/ID
 *   GetAliveTasks        a round that proceeds without lost tasks
 *   ShutdownTask         a round of all, then the session leaves
 *   WatchTasks           the members of the job
 *   ReportErrorToService the task fails, and leaves
 *
 * Every other method is UNIMPLEMENTED. */

#include "fronts/front.h"

extern const struct mst_front mst_xla_front;

#endif
