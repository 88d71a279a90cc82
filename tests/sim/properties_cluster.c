/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true of closures, runs and terms. */
#include <string.h>

#include "base/digest.h"
#include "cluster.h"
#include "properties.h"
#include "seen.h"

/* By the coordinator's process: when the service forgets a job, its terms begin anew. */
static struct sim_closure *closure_of(struct sim *sim, uint64_t pid, uint64_t number)
{
    const struct sim_proc *coordinator = sim_proc_by_pid(sim, pid);
    struct sim_tasks *tasks = coordinator ? coordinator->tasks : NULL;

    for (uint32_t i = 0; tasks && i < tasks->closure_count; i++) {
        if (tasks->closures[i].number == number) {
            return &tasks->closures[i];
        }
    }
    sim_fail(sim, SIM_P_CLOSURE_ONCE, "%" PRIu64 " of pid=%" PRIu64 " was never admitted", number,
             pid);
}

/* RUN_TERM, RUN_ONCE */
void sim_saw_begin(struct sim *sim, struct sim_proc *proc, const struct mst_worker_effect *effect)
{
    struct sim_tasks *tasks = proc->tasks;
    struct sim_slot *slot = &tasks->slots[effect->slot];
    struct sim_closure *closure;

    for (uint32_t i = 0; i < SIM_CLUSTER_SLOTS; i++) {
        if (tasks->slots[i].busy && tasks->slots[i].term != tasks->told_term) {
            sim_fail(sim, SIM_P_RUN_TERM, "pid=%" PRIu64 " begins beside a run of term %" PRIu64,
                     proc->pid, tasks->slots[i].term);
        }
    }
    if (slot->busy) {
        sim_fail(sim, SIM_P_RUN_TERM, "pid=%" PRIu64 " begins in a slot that is in use", proc->pid);
    }
    *slot =
        (struct sim_slot){.busy = true,
                          .term = tasks->told_term,
                          .function = effect->message->function,
                          .end_ns = sim->now_ns + sim_cluster_below(sim, sim->plan.lease_ns / 8)};
    if (effect->type == MST_WORKER_BUILD) {
        slot->value = effect->message->value;
        return;
    }
    slot->attempt = effect->message->attempt;
    if (slot->function == SIM_CLUSTER_LONG) {
        slot->end_ns = SIM_NEVER;
    }
    closure = closure_of(sim, tasks->target, slot->attempt.closure);
    closure->starts++;
    if (slot->function == SIM_CLUSTER_ONCE && closure->starts > 1) {
        sim_fail(sim, SIM_P_RUN_ONCE, "closure %" PRIu64 " of term %" PRIu64, closure->number,
                 tasks->told_term);
    }
}

static bool may_fail(enum mst_origin origin, uint32_t function)
{
    switch (origin) {
    case MST_ORIGIN_FUNCTION:
        return function == SIM_CLUSTER_FAIL || function == SIM_CLUSTER_LONG;
    case MST_ORIGIN_LOST:
        return function == SIM_CLUSTER_ONCE;
    case MST_ORIGIN_DEADLINE:
        return function == SIM_CLUSTER_LONG;
    case MST_ORIGIN_CANCELLED:
    case MST_ORIGIN_POISON:
        return true;
    case MST_ORIGIN_INPUT: /* builds never fail here */
    case MST_ORIGIN_NONE:
    case MST_ORIGIN_CRASH:
    case MST_ORIGIN_STATE:
    case MST_ORIGIN_EXHAUSTED:
    case MST_ORIGIN_UNKNOWN:
    case MST_ORIGIN_ARGUMENT:
    case MST_ORIGIN_INTERNAL:
    case MST_ORIGIN_RETURNED:
    case MST_ORIGIN_RETRYABLE:
        break;
    }
    return false;
}

static bool is_own(const struct sim_closure *closure, const struct mst_closure_look *look)
{
    return look->parts.count == 1 && look->parts.items[0].data.size == sizeof(uint64_t) &&
           memcmp(look->parts.items[0].data.data, &closure->number, sizeof(uint64_t)) == 0;
}

/* CLOSURE_ONCE, CLOSURE_RIGHT */
static void check_closure(struct sim *sim, const struct sim_proc *proc, struct sim_closure *closure)
{
    struct mst_closure_look look;

    mst_cluster_look(proc->tasks->cluster, closure->number, &look);
    if (closure->settled) {
        if (look.state != closure->state || look.failure.origin != closure->origin) {
            sim_fail(sim, SIM_P_CLOSURE_ONCE, "closure %" PRIu64 " of term %" PRIu64 " ended twice",
                     closure->number, proc->tasks->term);
        }
        return;
    }
    if (look.state == MST_CLOSURE_QUEUED || look.state == MST_CLOSURE_RUNNING) {
        return;
    }
    closure->settled = true;
    closure->state = look.state;
    closure->origin = look.failure.origin;
    sim->cluster->ends++;
    if (look.state == MST_CLOSURE_VALUE && is_own(closure, &look)) {
        sim->cluster->values++;
    } else if (look.state != MST_CLOSURE_FAILED ||
               (look.failure.origin == MST_ORIGIN_FUNCTION && !is_own(closure, &look))) {
        sim_fail(sim, SIM_P_CLOSURE_ONCE, "closure %" PRIu64 " has no parts of its own, state %d",
                 closure->number, (int)look.state);
    } else if (!may_fail(look.failure.origin, closure->function) && !proc->tasks->superseded) {
        sim_fail(sim, SIM_P_CLOSURE_RIGHT, "closure %" PRIu64 ", function %u failed: origin %d",
                 closure->number, closure->function, (int)look.failure.origin);
    }
}

/* and JOIN_EXACT */
void sim_check_closures(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;
    struct mst_cluster_counts counts;
    muster_status joined = mst_cluster_joined(tasks->cluster, UINT64_MAX - 1);
    uint64_t settled = 0;

    for (uint32_t i = 0; i < tasks->closure_count; i++) {
        check_closure(sim, proc, &tasks->closures[i]);
        settled += tasks->closures[i].settled;
    }
    mst_cluster_counts(tasks->cluster, sim_proc_clock(sim, proc), &counts);
    if (counts.values + counts.failures + counts.cancelled != settled) {
        sim_fail(sim, SIM_P_CLOSURE_ONCE, "%" PRIu64 " ended, %" PRIu64 " were counted", settled,
                 counts.values + counts.failures + counts.cancelled);
    }
    if ((joined == MUSTER_OK && settled < tasks->closure_count) ||
        (joined == MUSTER_MORE && settled == tasks->closure_count)) {
        sim_fail(sim, SIM_P_JOIN_EXACT, "%" PRIu64 " of %u ended, join says %d", settled,
                 tasks->closure_count, (int)joined);
    }
}

bool sim_cluster_drained(const struct sim_proc *proc)
{
    return proc->tasks->cluster &&
           mst_cluster_joined(proc->tasks->cluster, UINT64_MAX - 1) == MUSTER_OK;
}

/* DISMISS_LASTS: a coordinator that was replaced may not know of it yet. */
void sim_saw_admission(struct sim *sim, const struct sim_proc *proc)
{
    if (sim->cluster->recorded_term != 0 && proc->tasks->term > sim->cluster->recorded_term) {
        sim_fail(sim, SIM_P_DISMISS_LASTS, "term %" PRIu64 " admits, term %" PRIu64 " dismissed",
                 proc->tasks->term, sim->cluster->recorded_term);
    }
}

/* DISMISS_RECORDED */
void sim_saw_worker_end(struct sim *sim, const struct sim_proc *proc)
{
    if (!sim->cluster->recorded) {
        sim_fail(sim, SIM_P_DISMISS_RECORDED, "pid=%" PRIu64 " ends, and there is no record",
                 proc->pid);
    }
    sim->cluster->homes |= 1u << proc->place;
}

/* DISMISS_ENDS */
static bool has_ended(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->cluster->coordinator_count; i++) {
        if (sim->cluster->coordinators[i]->alive) {
            return false;
        }
    }
    return sim->cluster->recorded && sim->cluster->homes == (1u << SIM_CLUSTER_WORKERS) - 1;
}

bool sim_cluster_dismisses(const struct sim *sim)
{
    return sim->cluster && sim->cluster->dismisses;
}

/* QUEUE_DRAINS */
bool sim_cluster_over(const struct sim *sim)
{
    if (sim_cluster_dismisses(sim)) {
        return has_ended(sim);
    }
    for (uint32_t i = 0; sim->cluster && i < sim->cluster->coordinator_count; i++) {
        const struct sim_proc *proc = sim->cluster->coordinators[i];

        if (proc->alive && proc->tasks->closure_count > 0 && proc->tasks->act_ns == SIM_NEVER &&
            sim_cluster_drained(proc)) {
            return true;
        }
    }
    return !sim->cluster;
}

struct model_job *sim_cluster_job(const struct sim *sim)
{
    return &sim->cluster->job;
}

void sim_cluster_tell(struct sim *sim)
{
    if (sim->cluster) {
        sim_tell(sim,
                 "c: %" PRIu64 " closures ended under %u coordinators, %" PRIu64 " with a value",
                 sim->cluster->ends, sim->cluster->coordinator_count, sim->cluster->values);
        sim_tell(sim, "c: dismissed by term %" PRIu64 ", found by %u later coordinators",
                 sim->cluster->recorded_term, sim->cluster->successors);
    }
}

uint64_t sim_cluster_digest(const struct sim_proc *proc)
{
    const struct sim_tasks *tasks = proc->tasks;
    uint64_t digest = MST_DIGEST_INIT;

    if (tasks->cluster) {
        digest = mst_digest_number(digest, mst_cluster_digest(tasks->cluster));
    }
    if (tasks->worker) {
        digest = mst_digest_number(digest, mst_worker_digest(tasks->worker));
    }
    return digest;
}
