/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true of agreements on one step to save. */
#include "preempt/machine.h"
#include "properties.h"
#include "sim.h"

static struct model_agreement *agreement_of(struct model_job *job, uint64_t generation, uint64_t k)
{
    struct model_agreement *found;

    for (uint32_t i = job->agreement_count; i-- > 0;) {
        found = &job->agreements[i];
        if (found->generation == generation && found->k == k) {
            return found;
        }
    }
    job->agreements =
        sim_grown(job->agreements, job->agreement_count + 1u, sizeof(*job->agreements));
    found = &job->agreements[job->agreement_count++];
    *found = (struct model_agreement){.generation = generation, .k = k, .agreed = -1, .saved = -1};
    return found;
}

/* STEP_SAME, STEP_GROWS */
void sim_saw_agreement(struct sim *sim, struct sim_proc *proc)
{
    const struct mst_preempt *preempt = proc->preempt;
    struct model_agreement *agreement;

    if (preempt->agreed < 0 || preempt->state == MST_PREEMPT_FENCED) {
        return;
    }
    agreement = agreement_of(proc->job, preempt->view.generation, preempt->k);
    if (agreement->agreed >= 0 && agreement->agreed != preempt->agreed) {
        sim_fail(sim, SIM_P_STEP_SAME,
                 "pid=%" PRIu64 " %" PRIu64 ".%" PRIu64 ": %" PRId64 ", others %" PRId64, proc->pid,
                 agreement->generation, agreement->k, preempt->agreed, agreement->agreed);
    }
    if (agreement->agreed < 0) {
        sim_tell(sim, "%s: %" PRIu64 ".%" PRIu64 ": step %" PRId64 " is agreed on", proc->job->name,
                 agreement->generation, agreement->k, preempt->agreed);
    }
    if (preempt->agreed < preempt->floor) {
        sim_fail(sim, SIM_P_STEP_GROWS, "pid=%" PRIu64 ": %" PRId64 " after %" PRId64, proc->pid,
                 preempt->agreed, preempt->floor);
    }
    agreement->agreed = preempt->agreed;
}

/* Nobody who has not heard of it yet may have been told to go on with that step. */
static void check_told_no(struct sim *sim, const struct sim_proc *proc,
                          const struct model_agreement *agreement)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        const struct sim_proc *other = sim->procs[i];

        if (other->job == proc->job && other->alive && other->preempt &&
            other->preempt->view.generation == agreement->generation &&
            other->preempt->view.rank != MST_RANK_NONE && other->preempt->k == agreement->k &&
            other->gate.last >= agreement->agreed) {
            sim_fail(sim, SIM_P_STEP_NO,
                     "pid=%" PRIu64 " was told to go on with %" PRId64 ", %" PRId64 " is saved",
                     other->pid, other->gate.last, agreement->agreed);
        }
    }
}

/* SAVED_SAME, SAVED_TOLD, STEP_NO */
void sim_saw_saved(struct sim *sim, struct sim_proc *proc,
                   const struct mst_preempt_outcome *outcome)
{
    struct model_agreement *agreement;
    bool all = outcome->status == MUSTER_OK || outcome->status == MUSTER_EPREEMPTED;

    sim_tell(sim, "%s: pid=%" PRIu64 " saved %" PRId64 " of %" PRId64 ": %d", proc->job->name,
             proc->pid, proc->gate.saved, outcome->step, (int)outcome->status);
    if (outcome->status == MUSTER_EMISMATCH) {
        sim_fail(sim, SIM_P_SAVED_TOLD, "pid=%" PRIu64 " saved %" PRId64 ", agreed is %" PRId64,
                 proc->pid, proc->gate.saved, outcome->step);
    }
    if (!all) {
        return;
    }
    agreement =
        agreement_of(proc->job, proc->preempt->outcome_generation, proc->preempt->outcome_k);
    if (agreement->saved >= 0 && agreement->saved != proc->gate.saved) {
        sim_fail(sim, SIM_P_SAVED_SAME, "pid=%" PRIu64 " saved %" PRId64 ", others %" PRId64,
                 proc->pid, proc->gate.saved, agreement->saved);
    }
    if (agreement->saved < 0) {
        check_told_no(sim, proc, agreement);
        sim->saves++;
    }
    agreement->saved = proc->gate.saved;
    if (proc->gate.last >= agreement->agreed) {
        sim_fail(sim, SIM_P_STEP_NO, "pid=%" PRIu64 " was told to go on with %" PRId64, proc->pid,
                 proc->gate.last);
    }
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* SAVE_ENDS, when the faults have stopped. */
void sim_check_preempt(struct sim *sim, const struct sim_proc *proc)
{
    uint64_t since = later(sim->calm_ns, proc->troubled_ns);
    uint64_t bound = 8 * sim->plan.lease_ns + 20000 * SIM_MS;

    if (!proc->preempt || !proc->alive || proc->frozen || proc->finished || proc->ended) {
        return;
    }
    if (proc->gate.closed && sim->now_ns > later(since, proc->gate.closed_ns) + bound) {
        sim_fail(sim, SIM_P_SAVE_ENDS, "pid=%" PRIu64 " waits at the gate since %.6f, state %d",
                 proc->pid, (double)proc->gate.closed_ns / 1e9, (int)proc->preempt->state);
    }
    if (proc->gate.saving && sim->now_ns > later(since, proc->gate.saving_ns) + bound) {
        sim_fail(sim, SIM_P_SAVE_ENDS, "pid=%" PRIu64 " waits for a save since %.6f, state %d",
                 proc->pid, (double)proc->gate.saving_ns / 1e9, (int)proc->preempt->state);
    }
}
