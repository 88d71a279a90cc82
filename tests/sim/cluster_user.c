/* SPDX-License-Identifier: Apache-2.0 */
/* The program around a coordinator: it schedules, cancels, and takes the failures. */
#include "base/panic.h"
#include "cluster.h"
#include "properties.h"

#define CLOSURES 24u

static uint32_t some_function(struct sim *sim)
{
    static const uint32_t often[] = {SIM_CLUSTER_WORK, SIM_CLUSTER_WORK, SIM_CLUSTER_ONCE,
                                     SIM_CLUSTER_IDEMPOTENT};

    if (sim_cluster_below(sim, 8) == 0) {
        return SIM_CLUSTER_FAIL;
    }
    if (!sim->calm && sim_cluster_below(sim, 24) == 0) {
        return SIM_CLUSTER_KILL;
    }
    return sim_cluster_below(sim, 12) == 0 ? (uint32_t)SIM_CLUSTER_LONG
                                           : often[sim_cluster_below(sim, sizeof(often) / 4)];
}

static void schedule(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;
    struct sim_closure *closure = &tasks->closures[tasks->closure_count];
    struct mst_closure_options options = {0};
    struct mst_closure_call call = {.options = &options, .needs = &tasks->value};
    uint64_t now = sim_proc_clock(sim, proc);
    muster_status status;

    if (tasks->closure_count == CLOSURES) {
        return;
    }
    closure->function = some_function(sim);
    call.function = sim_cluster_functions[closure->function].name;
    call.need_count = tasks->value != 0 && sim_cluster_below(sim, 3) == 0 ? 1 : 0;
    if (closure->function == SIM_CLUSTER_LONG) {
        options.run_ns = sim->plan.lease_ns / 2;
    }
    status = mst_cluster_schedule(tasks->cluster, now, &call, &closure->number);
    if (status == MUSTER_OK) {
        tasks->closure_count++;
        sim_saw_admission(sim, proc);
    } else {
        MST_ASSERT(status == MUSTER_MORE || status == MUSTER_EFAILED || status == MUSTER_EFENCED ||
                   status == MUSTER_ECANCELLED);
    }
}

static void cancel(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;
    uint64_t which = sim_cluster_below(sim, CLOSURES);

    if (which < tasks->closure_count) {
        mst_cluster_cancel(tasks->cluster, sim_proc_clock(sim, proc),
                           tasks->closures[which].number);
    }
}

void sim_cluster_act(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;
    struct mst_cluster_failures failures;
    struct mst_parts none = {0};

    tasks->act_ns = sim->now_ns + 1 + sim_cluster_below(sim, sim->plan.lease_ns / 4);
    if (tasks->superseded) {
        return;
    }
    if (tasks->value == 0) {
        (void)mst_cluster_value_new(tasks->cluster, sim_proc_clock(sim, proc),
                                    sim_cluster_functions[SIM_CLUSTER_BUILD].name, 1, &none, true,
                                    &tasks->value);
    }
    for (uint64_t i = sim_cluster_below(sim, 4); i > 0; i--) {
        schedule(sim, proc);
    }
    if (sim_cluster_below(sim, 8) == 0) {
        cancel(sim, proc);
    }
    (void)mst_cluster_deliver(tasks->cluster, sim_proc_clock(sim, proc), &failures);
    if (tasks->closure_count == CLOSURES && sim_cluster_drained(proc)) {
        tasks->act_ns = SIM_NEVER; /* nothing more comes */
        if (sim->cluster->dismisses) {
            mst_cluster_dismiss(tasks->cluster, sim_proc_clock(sim, proc));
        }
    }
}
