/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SEEN_H
#define SIM_SEEN_H

/* What the files of the properties tell each other. */

#include "properties.h"
#include "sim.h"

/* properties_member.c */
struct model_job *sim_job_named(struct sim *sim, struct mst_slice name);
struct sim_proc *sim_proc_of(struct sim *sim, const struct model_job *job, uint32_t index,
                             uint64_t incarnation);
struct model_view *sim_view_of(struct model_job *job, uint64_t generation); /* or NULL */
bool sim_view_has(const struct model_view *view, const struct sim_proc *proc);
void sim_called(const struct sim *sim, struct model_job *job); /* everybody is to stop now */
void sim_blame(struct model_job *job, enum model_reason reason, bool looper);

struct sim_proc *sim_proc_by_pid(struct sim *sim, uint64_t pid);
uint64_t sim_trace_number(const char *text, const char *key);

/* properties_node.c */
void sim_node_traced(struct sim *sim, struct model_job *job, const char *text);
void sim_node_over(struct sim *sim); /* an input is over */

struct sim_proc *sim_node_agent(struct sim *sim, const struct model_job *job,
                                uint64_t index); /* that holds its place, or NULL */

/* properties_replace.c */
void sim_replace_moved(const struct sim *sim, struct model_round *round);
void sim_replace_last(struct model_job *job, const struct mst_request *request);
void sim_replace_closed(struct sim *sim, struct model_job *job, const struct model_round *seal,
                        uint32_t there, uint32_t seats);
void sim_replace_open(struct sim *sim, const struct model_job *job, const struct model_round *seal);
bool sim_replace_all_there(const struct model_round *seal);
uint64_t sim_replace_until(const struct sim *sim, const struct model_job *job,
                           const struct model_round *seal);

/* properties_round.c */
void sim_round_asked(struct sim *sim, struct sim_conn *conn, const struct mst_request *request,
                     struct sim_asked *asked);
void sim_round_answered(struct sim *sim, struct sim_conn *conn, const struct sim_asked *asked,
                        const struct mst_reply *reply);
void sim_round_refused(struct sim_conn *conn, const struct sim_asked *asked);
void sim_round_opened(struct sim *sim, struct model_job *job, struct mst_slice name,
                      uint64_t number);
void sim_round_closed(struct sim *sim, struct model_job *job, struct mst_slice name,
                      uint64_t number, struct mst_slice status, uint64_t arrived);
void sim_round_deadlines(struct sim *sim, struct model_job *job);
void sim_round_gone(const struct sim *sim, struct model_job *job, uint32_t index);
struct model_round *sim_round_find(struct model_job *job, uint64_t generation, uint32_t name,
                                   uint64_t number);
void sim_view_sealed(struct sim *sim, struct model_job *job, uint64_t generation, uint64_t size);
void sim_view_told(struct sim *sim, const struct sim_proc *proc, const struct mst_view *view);

#endif
