/* SPDX-License-Identifier: Apache-2.0 */
/* Seals that wait for lost ranks whose agents replace them. */
#include "seen.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* An arrival or a loss: the wait is counted from the last one. */
void sim_replace_moved(const struct sim *sim, struct model_round *round)
{
    round->moved_ns = sim_service_clock(sim);
    round->moved_late_ns = sim_service_late_ns(sim);
}

/* The agent has said that no process follows the last one in this place. A word that was of no
 * effect counts here as well: then less is demanded. */
void sim_replace_last(struct model_job *job, const struct mst_request *request)
{
    if (request->lost.last && request->lost.index < MODEL_PLACES) {
        job->places[request->lost.index].last = true;
    }
}

/* The rank of the generation is lost, and its agent starts another process that is not ready yet.
 */
static bool is_awaited(struct sim *sim, struct model_job *job, uint32_t rank)
{
    uint32_t index = job->view.index[rank];
    const struct model_place *place = &job->places[index];
    const struct sim_proc *last = sim_proc_of(sim, job, index, place->incarnation);

    return job->view.gone[rank] && !job->view.proc[rank]->member.left && last &&
           !last->member.left && !last->member.ready && !place->last && sim->plan.replaces &&
           last->member.agent != 0 && sim_node_agent(sim, job, last->member.agent - 1);
}

/* REPLACED_FIRST. Of the seal that has just closed: `there` stood at it or were ready, and `seats`
 * of them got a rank, or would have. */
void sim_replace_closed(struct sim *sim, struct model_job *job, const struct model_round *seal,
                        uint32_t there, uint32_t seats)
{
    uint32_t awaited = 0;

    if (!seal || job->grow == MST_GROW_OFF || job->replace_ms == 0 ||
        sim_service_clock(sim) >= seal->moved_ns + job->replace_ms * SIM_MS) {
        return;
    }
    for (uint32_t rank = 0; rank < job->view.size; rank++) {
        awaited += is_awaited(sim, job, rank);
    }
    if (sim_model_fit(job, there + awaited) > seats) {
        sim_fail(sim, SIM_P_REPLACED_FIRST,
                 "%s: the seal of generation %" PRIu64 " closes for %u, %u are being replaced, "
                 "%.3f ms after the last arrival or loss",
                 job->name, seal->generation, seats, awaited,
                 (double)(sim_service_clock(sim) - seal->moved_ns) / 1e6);
    }
}

bool sim_replace_all_there(const struct model_round *seal)
{
    for (uint32_t i = 0; i < MODEL_PLACES; i++) {
        if (seal->part[i].expected && !seal->part[i].arrived && !seal->part[i].gone) {
            return false;
        }
    }
    return true;
}

/* The latest time by which the wait of an open seal is over. What it waited before its service died
 * or stood still may count anew. */
uint64_t sim_replace_until(const struct sim *sim, const struct model_job *job,
                           const struct model_round *seal)
{
    return later(seal->moved_ns, sim->service.back_ns) + job->replace_ms * SIM_MS +
           (sim_service_late_ns(sim) - seal->moved_late_ns) + SIM_MS;
}

/* REPLACE_ENDS */
void sim_replace_open(struct sim *sim, const struct model_job *job, const struct model_round *seal)
{
    if (seal->number == 0 && sim_replace_all_there(seal) &&
        sim_service_clock(sim) > sim_replace_until(sim, job, seal)) {
        sim_fail(sim, SIM_P_REPLACE_ENDS, "%s: the seal of generation %" PRIu64, job->name,
                 seal->generation);
    }
}
