/* SPDX-License-Identifier: Apache-2.0 */
/* The preemption machine of a rank beside its restart machine, the gate that fn asks before each
 * step, and the notices that are given and taken back. */
#include "preempt/preempt.h"

#include <string.h>

#include "base/panic.h"
#include "preempt/machine.h"
#include "preempt/publish.h"
#include "properties.h"
#include "sim.h"

void sim_preempt_start(struct sim *sim, struct sim_proc *proc)
{
    uint64_t lease_ms = sim->plan.lease_ns / SIM_MS;
    struct mst_preempt_config config = {.window_ms = 2 * lease_ms,
                                        .agree_timeout_ms = lease_ms / 5,
                                        .leave_all = sim_chance(sim, 50)};

    if (!sim->plan.has[SIM_NOTICE]) {
        return;
    }
    MST_ASSERT(mst_preempt_new(&proc->preempt, sim_proc_clock(sim, proc), &config,
                               &sim->memory.mem) == MUSTER_OK);
    proc->gate.limit = INT64_MAX;
    proc->gate.last = -1;
}

void sim_preempt_view(struct sim *sim, struct sim_proc *proc, const struct mst_view *view)
{
    if (proc->preempt) {
        mst_preempt_machine.attention(proc->preempt, sim_proc_clock(sim, proc), view, false);
    }
}

void sim_preempt_ended(struct sim *sim, struct sim_proc *proc, muster_status status)
{
    if (proc->preempt) {
        mst_preempt_machine.ended(proc->preempt, sim_proc_clock(sim, proc), status);
    }
}

/* ---- effects --------------------------------------------------------------------------------- */

void sim_preempt_effect(struct sim *sim, struct sim_proc *proc, const void *of_machine)
{
    const struct mst_preempt_effect *effect = of_machine;
    struct sim_gate *gate = &proc->gate;

    switch (effect->type) {
    case MST_PREEMPT_GATE:
        gate->closed = true;
        gate->closed_ns = sim->now_ns;
        break;
    case MST_PREEMPT_LIMIT:
        gate->closed = false;
        gate->limit = effect->limit;
        if (effect->forget) {
            gate->last = -1;
            gate->writing = false;
        }
        sim_tell(sim, "%s: pid=%" PRIu64 " opens its gate, limit %" PRId64, proc->job->name,
                 proc->pid, effect->limit);
        break;
    case MST_PREEMPT_SAVED:
        gate->saving = false;
        sim_saw_saved(sim, proc, &effect->outcome);
        break;
    case MST_PREEMPT_LOG:
        sim_tell(sim, "%s: pid=%" PRIu64 " says %d", proc->job->name, proc->pid,
                 (int)effect->log.what);
        break;
    case MST_PREEMPT_NOTICED:
        break;
    }
}

/* What is being saved counts as well: told that it is not this step, fn goes on with it. */
static int64_t last_of(const struct sim_gate *gate)
{
    return gate->writing && gate->saved > gate->last ? gate->saved : gate->last;
}

void sim_preempt_answer(struct sim *sim, struct sim_proc *proc, const void *of_machine)
{
    const struct mst_preempt_effect *effect = of_machine;

    if (effect->type == MST_PREEMPT_GATE) {
        mst_preempt_gated(proc->preempt, sim_proc_clock(sim, proc), last_of(&proc->gate));
    }
    sim_saw_agreement(sim, proc);
}

void sim_publish_effect(struct sim *sim, struct sim_proc *proc, const void *of_machine)
{
    const struct mst_publish_effect *effect = of_machine;

    if (effect->head.kind == MST_MACHINE_OWN) {
        sim_tell(sim, "%s: pid=%" PRIu64 " gave notice: %d", proc->job->name, proc->pid,
                 (int)effect->status);
    }
}

void sim_publish_answer(struct sim *sim, struct sim_proc *proc, const void *of_machine)
{
    const struct mst_publish_effect *effect = of_machine;

    (void)sim;
    if (effect->head.kind == MST_MACHINE_OWN) {
        mst_publish_free(proc->publish);
        proc->publish = NULL;
    }
}

void sim_preempt_fini(struct sim_proc *proc)
{
    mst_preempt_free(proc->preempt);
    mst_publish_free(proc->publish);
}

/* ---- fn -------------------------------------------------------------------------------------- */

bool sim_preempt_asks(struct sim *sim, struct sim_proc *proc)
{
    struct sim_gate *gate = &proc->gate;
    int64_t step = (int64_t)proc->fn.steps;

    if (!proc->preempt) {
        return true;
    }
    if (gate->saving || (gate->closed && !gate->writing)) {
        return false;
    }
    if (!gate->writing && step < gate->limit) {
        gate->last = step > gate->last ? step : gate->last;
        return true;
    }
    gate->saved = step;
    gate->writing = !sim->calm && sim_chance(sim, 60);
    if (gate->writing) {
        return false; /* it takes its time, whatever becomes of the agreement */
    }
    gate->saving = true;
    gate->saving_ns = sim->now_ns;
    sim_tell(sim, "%s: pid=%" PRIu64 " saved %" PRId64, proc->job->name, proc->pid, step);
    mst_preempt_saved(proc->preempt, sim_proc_clock(sim, proc), step);
    return false;
}

void sim_preempt_races(struct sim *sim, struct sim_proc *proc)
{
    struct sim_fn *fn = &proc->fn;

    if (!proc->preempt || proc->job->collective > 0 || fn->state != SIM_FN_COMPUTING ||
        fn->returning || fn->told || fn->steps == 0) {
        return;
    }
    for (uint64_t steps = sim_below(sim, 6); steps > 0; steps--) {
        if (!proc->gate.saving && !proc->gate.writing && !proc->gate.closed &&
            (int64_t)fn->steps < proc->gate.limit) {
            proc->gate.last = (int64_t)fn->steps++;
        }
    }
}

/* Sometimes it says that it cannot save now. */
void sim_preempt_holds(struct sim *sim, struct sim_proc *proc)
{
    uint64_t now = sim_proc_clock(sim, proc);

    if (!proc->preempt || sim->calm || !sim_chance(sim, 5)) {
        return;
    }
    if (sim_chance(sim, 50)) {
        mst_preempt_hold_begin(proc->preempt, now, sim_below(sim, sim->plan.lease_ns / SIM_MS + 1));
    } else {
        mst_preempt_hold_end(proc->preempt, now);
    }
}

/* A notice for one place or the whole job, by whichever rank. */
void sim_preempt_strike(struct sim *sim, struct sim_proc *proc)
{
    uint64_t lease_ms = sim->plan.lease_ns / SIM_MS;
    const uint64_t lefts[] = {0, lease_ms / 10, lease_ms, 3 * lease_ms};
    uint32_t index =
        sim_chance(sim, 20) ? MST_NOTICE_ALL : (uint32_t)sim_below(sim, proc->job->places_used);
    struct mst_publish_config config = {
        .withdraw = sim_chance(sim, 15),
        .notice = {.left_ms = lefts[sim_below(sim, 4)]},
        .indices = &index,
        .count = 1,
    };

    if (!proc->preempt || proc->publish || proc->ended || proc->finished ||
        proc->call_count > SIM_CALLS_MAX / 2) {
        return;
    }
    if (sim_chance(sim, 10)) {
        config.notice.level = MST_NOTICE_ADVISORY;
    }
    sim_tell(sim, "fault: pid=%" PRIu64 " %s #%" PRIu32 ", %" PRIu64 " ms left", proc->pid,
             config.withdraw ? "takes back the notice of" : "gives notice to", index,
             config.notice.left_ms);
    MST_ASSERT(mst_publish_new(&proc->publish, sim_proc_clock(sim, proc), &config,
                               &sim->memory.mem) == MUSTER_OK);
    sim_proc_wake(sim, proc, sim->now_ns);
}
