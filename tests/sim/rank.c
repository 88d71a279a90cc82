/* SPDX-License-Identifier: Apache-2.0 */
/* A rank: it joins, runs fn through the restart machine, and leaves when the run is over.
 *
 * fn is a program of collective steps. Which step comes next is decided by the job, the generation
 * and the count of steps alone, so all ranks do the same; how long it computes, and whether it
 * fails, is chance. Nothing here calls a machine from within one of its own effects: what an effect
 * brings is noted, and acted upon in the next step. */
#include <string.h>

#include "base/digest.h"
#include "base/panic.h"
#include "base/text.h"
#include "properties.h"
#include "restart/assignment.h"
#include "sim.h"

void sim_rank_start(struct sim *sim, struct sim_proc *proc)
{
    proc->retry_ns = sim->now_ns;
}

uint64_t sim_rank_due_ns(const struct sim_proc *proc)
{
    uint64_t due = proc->finished ? SIM_NEVER : proc->retry_ns;

    if ((proc->finished && !proc->leaving) || (proc->ended && !proc->started)) {
        return 0;
    }
    if (proc->suicide_ns != 0 && proc->suicide_ns < due) {
        due = proc->suicide_ns;
    }
    if (proc->unwind_ns < due) {
        due = proc->unwind_ns;
    }
    if (proc->assign_ns < due) {
        due = proc->assign_ns;
    }
    if (proc->fn.state != SIM_FN_NOT && proc->fn.state != SIM_FN_BLOCKED && proc->fn.due_ns < due) {
        due = proc->fn.due_ns;
    }
    return due;
}

/* ---- before and after fn --------------------------------------------------------------------- */

static void join(struct sim *sim, struct sim_proc *proc)
{
    struct mst_request request = {.command = MST_JOIN};
    uint64_t tag = 0;
    uint64_t within = sim_chance(sim, 80) ? SIM_NEVER : sim_between(sim, 1, 4) * sim->plan.lease_ns;

    proc->retry_ns = SIM_NEVER;
    proc->asks_spare = sim_chance(sim, 50);
    request.join.spare = proc->asks_spare;
    if (!sim_proc_call(sim, proc, SIM_OWNER_LIFE, &request, within, &tag)) {
        sim_proc_exit(sim, proc, 5);
    } else if (proc->looper && proc->looper_dies == 1) {
        proc->retry_ns = sim->now_ns + sim_below(sim, sim->plan.lease_ns / 2);
    }
}

static void leave(struct sim *sim, struct sim_proc *proc)
{
    struct mst_request request = {.command = MST_LEAVE};
    uint64_t tag = 0;

    proc->leaving = true;
    if (!sim_proc_call(sim, proc, SIM_OWNER_LIFE, &request, 2 * sim->plan.lease_ns, &tag)) {
        sim_proc_exit(sim, proc, proc->finish_status == MUSTER_OK ? 0 : 1);
    }
}

static void joined(struct sim *sim, struct sim_proc *proc, const struct mst_view *view)
{
    const struct model_job *job = proc->job;
    struct mst_restart_config config = {
        .barrier_timeout_ms = job->barrier_timeout_ns / SIM_MS,
        .completion_timeout_ms = job->completion_timeout_ns / SIM_MS,
        .replace_ms = job->replace_ms,
        .settle_ms = job->settle_ns / SIM_MS,
        .soft_timeout_ms = job->soft_ns / SIM_MS,
        .iterations_max = job->iterations_max,
        .faults_max = job->faults_max,
        .stalled_max = job->stalled_max,
        .by_table = job->by_table,
        .host = mst_slice_text("host"),
        .label = mst_slice_text("label"),
        .node = proc->node,
    };

    config.heard = proc->heard;
    sim_saw_joined(sim, proc, view);
    MST_ASSERT(mst_restart_new(&proc->restart, &config, &sim->memory.mem) == MUSTER_OK);
    proc->started = true;
    /* First what is true now: a rank that has stopped itself must not begin. */
    mst_restart_machine.attention(proc->restart, sim_proc_clock(sim, proc),
                                  mst_client_view(proc->client), mst_client_stopped(proc->client));
    mst_restart_start(proc->restart, sim_proc_clock(sim, proc), view);
    sim_preempt_start(sim, proc);
    sim_preempt_view(sim, proc, view);
}

void sim_rank_life(struct sim *sim, struct sim_proc *proc, enum mst_command command,
                   const struct mst_reply *reply)
{
    if (command == MST_LEAVE) {
        sim_proc_exit(sim, proc, proc->finish_status == MUSTER_OK ? 0 : 1);
        return;
    }
    if (reply->status == MUSTER_OK && reply->view.rank == MST_RANK_NONE && !proc->asks_spare) {
        sim_tell(sim, "%s: pid=%" PRIu64 " was not needed", proc->job->name, proc->pid);
        proc->finished = true;
        proc->finish_status = MUSTER_OK;
    } else if (reply->status == MUSTER_OK) {
        proc->heard = reply->view.rank != MST_RANK_NONE ? (uint64_t)reply->number : 0;
        joined(sim, proc, &reply->view);
    } else if (reply->status == MUSTER_EEXISTS || reply->status == MUSTER_EFENCED ||
               reply->status == MUSTER_EINVAL) {
        sim_tell(sim, "%s: pid=%" PRIu64 " is refused: %d", proc->job->name, proc->pid,
                 (int)reply->status);
        sim_proc_exit(sim, proc, 3);
    } else { /* try again */
        proc->retry_ns = sim->now_ns + sim_between(sim, 1, sim->plan.lease_ns / 4);
    }
}

/* ---- effects of the restart machine ---------------------------------------------------------- */

static void enter(struct sim *sim, struct sim_proc *proc, const struct mst_restart_effect *effect)
{
    struct sim_fn *fn = &proc->fn;

    sim_saw_enter(sim, proc, effect);
    sim_page_turn(sim, proc, SIM_PHASE_FUNCTION);
    if (proc->looper && proc->looper_dies == 2) {
        sim_proc_exit(sim, proc, 7);
        return;
    }
    if (fn->view.generation != effect->view.generation) {
        memset(fn->numbers, 0, sizeof(fn->numbers));
    }
    sim_preempt_view(sim, proc, &effect->view);
    fn->state = SIM_FN_COMPUTING;
    fn->view = effect->view;
    fn->iteration = effect->iteration;
    fn->steps = 0;
    fn->told = false;
    fn->delivered = false;
    fn->cut = false;
    fn->struck = false;
    fn->result = MUSTER_OK;
    fn->returning = false;
    fn->due_ns = sim->now_ns + sim_below(sim, proc->job->step_ns);
}

static void return_later(struct sim *sim, struct sim_proc *proc, muster_status status)
{
    proc->fn.returning = true;
    proc->fn.result = status;
    proc->fn.state = SIM_FN_COMPUTING;
    proc->fn.due_ns = sim->now_ns + sim_below(sim, proc->job->step_ns / 4 + 1);
}

static void told(struct sim *sim, struct sim_proc *proc)
{
    proc->fn.told = true;
    sim_saw_told(sim, proc);
    if (proc->fn.state == SIM_FN_BROKEN) {
        proc->fn.delivered = true;
        return_later(sim, proc, MUSTER_EINTERRUPTED);
    }
}

static void cut(struct sim *sim, struct sim_proc *proc)
{
    struct sim_fn *fn = &proc->fn;

    sim_page_told(sim, proc);
    fn->cut = true;
    if (fn->state == SIM_FN_BLOCKED) {
        if (sim_chance(sim, 50)) {
            mst_client_cancel(proc->client, sim_proc_clock(sim, proc), fn->tag);
        } else {
            mst_client_drop(proc->client, sim_proc_clock(sim, proc), fn->tag);
            sim_proc_forget(proc, fn->tag);
        }
        fn->tag = 0;
        fn->delivered = true;
        fn->returning = true;
        fn->result = MUSTER_EINTERRUPTED;
        fn->state = SIM_FN_COMPUTING;
        fn->due_ns = sim->now_ns + sim_below(sim, proc->job->step_ns);
    } else if (fn->state == SIM_FN_COMPUTING && fn->due_ns > sim->now_ns + proc->job->step_ns) {
        fn->due_ns = sim->now_ns + proc->job->step_ns;
    }
}

/* Abort, finalize and the health check take their time. */
static void unwind(struct sim *sim, struct sim_proc *proc)
{
    uint64_t takes = sim_chance(sim, 50) ? 0 : sim_below(sim, proc->job->step_ns);

    if (sim->plan.has[SIM_HANG] && !sim->calm && sim_chance(sim, 3)) {
        takes = sim_below(sim, 2 * proc->job->barrier_timeout_ns);
    }
    sim_page_turn(sim, proc, SIM_PHASE_AFTER);
    proc->unwind_ns = sim->now_ns + takes;
    sim_saw_unwinds(sim, proc);
}

static bool ails(struct sim *sim)
{
    return sim->plan.has[SIM_UNHEALTHY] && !sim->calm && sim_chance(sim, 5);
}

static void unwound(struct sim *sim, struct sim_proc *proc)
{
    uint64_t now = sim_proc_clock(sim, proc);

    proc->unwind_ns = SIM_NEVER;
    sim_page_turn(sim, proc, SIM_PHASE_WAITS);
    if (!ails(sim)) {
        mst_restart_unwound(proc->restart, now, MUSTER_OK, MST_WHY_REPLY, 0, mst_slice_of(NULL, 0));
    } else if (sim_chance(sim, 50)) {
        mst_restart_unwound(proc->restart, now, MUSTER_EUNHEALTHY, MST_WHY_UNHEALTHY,
                            MUSTER_EUNHEALTHY, mst_slice_text("not well"));
    } else {
        mst_restart_unwound(proc->restart, now, MUSTER_EFAILED, MST_WHY_FINALIZE, MUSTER_EFAILED,
                            mst_slice_text("could not be put away"));
    }
}

/* Whoever can run does, but sometimes for one, in an order that chance decides. */
static void assign_by_chance(struct sim *sim, struct sim_proc *proc)
{
    uint32_t alive[MODEL_PLACES] = {0};
    uint32_t count = 0;
    uint32_t seats;

    for (size_t i = 0; i < proc->place_count; i++) {
        proc->places[i].number = MUSTER_NUMBER_NONE;
        if (proc->places[i].alive) {
            alive[count++] = (uint32_t)i;
        }
    }
    seats = count;
    if (seats > proc->job->min_size && sim_chance(sim, 20)) {
        seats--;
    }
    seats = sim_model_fit(proc->job, seats);
    for (uint32_t number = 0; number < seats; number++) {
        uint32_t at = number + (uint32_t)sim_below(sim, count - number);
        uint32_t place = alive[at];

        alive[at] = alive[number];
        proc->places[place].number = number;
    }
}

static muster_status assign_by_steps(struct sim *sim, struct sim_proc *proc)
{
    const struct model_job *job = proc->job;
    const struct muster_assignment_step steps[] = {
        {.kind = MUSTER_ASSIGN_FILL_GAPS},
        {.kind = MUSTER_ASSIGN_MAX, .count = job->max_size ? job->max_size : MODEL_PLACES},
        {.kind = MUSTER_ASSIGN_MULTIPLE, .count = job->size_multiple ? job->size_multiple : 1}};
    char line[128];
    struct mst_text why = mst_text_in(line, sizeof(line));

    return mst_assignment_apply(steps, 3, proc->places, proc->place_count, &sim->memory.mem, &why);
}

static void assign(struct sim *sim, struct sim_proc *proc)
{
    muster_status status = MUSTER_OK;

    proc->assign_ns = SIM_NEVER;
    if (proc->finished) {
        return;
    }
    if (ails(sim)) {
        status = MUSTER_EFAILED;
    } else if (sim_chance(sim, 50)) {
        assign_by_chance(sim, proc);
    } else {
        status = assign_by_steps(sim, proc);
        MST_ASSERT(status == MUSTER_OK);
    }
    sim_tell(sim, "%s: pid=%" PRIu64 " works out who runs: %d", proc->job->name, proc->pid,
             (int)status);
    mst_restart_assigned(proc->restart, sim_proc_clock(sim, proc), status,
                         mst_slice_text("no assignment"));
}

void sim_rank_effect(struct sim *sim, struct sim_proc *proc, const void *of_machine)
{
    const struct mst_restart_effect *effect = of_machine;

    if (effect->head.kind == MST_MACHINE_CALL) {
        sim_saw_restart_request(sim, proc, effect->head.request);
        proc->waits = effect->head.request->command == MST_JOIN;
    }
    switch (effect->type) {
    case MST_RESTART_ENTER:
        enter(sim, proc, effect);
        break;
    case MST_RESTART_TELL:
        told(sim, proc);
        break;
    case MST_RESTART_INTERRUPT:
        cut(sim, proc);
        break;
    case MST_RESTART_UNWIND:
        unwind(sim, proc);
        break;
    case MST_RESTART_ASSIGN:
        proc->assign_ns = sim->now_ns + sim_below(sim, proc->job->step_ns);
        proc->places = effect->places;
        proc->place_count = effect->place_count;
        break;
    case MST_RESTART_FINISH:
        proc->finished = true;
        sim_page_turn(sim, proc, SIM_PHASE_OUTSIDE);
        proc->finish_status = effect->status;
        sim_saw_finish(sim, proc, effect);
        break;
    }
}

/* ---- the steps of fn ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum mst_reduce reduce;
    enum mst_on_loss on_loss;
} rounds[MODEL_NAMES] = {
    {"barrier", MST_REDUCE_NONE, MST_FAIL},        {"least", MST_REDUCE_MIN, MST_FAIL},
    {"sum", MST_REDUCE_SUM, MST_PROCEED},          {"all", MST_REDUCE_GATHER, MST_PROCEED},
    {"same", MST_REDUCE_EQUAL, MST_FAIL},          {"some", MST_REDUCE_SUM, MST_PROCEED},
    {"added", MST_REDUCE_SUM_DOUBLE, MST_PROCEED}, {"flips", MST_REDUCE_XOR, MST_PROCEED},
    {"sent", MST_REDUCE_BROADCAST, MST_FAIL},      {"vote", MST_REDUCE_MAX, MST_PROCEED},
};

#define SOME 5u /* of some ranks only: the same ones throughout the generation */
#define VOTE 9u

/* What everybody knows without asking: the same on all ranks. */
static uint64_t common(const struct sim_proc *proc, uint64_t salt)
{
    uint64_t digest = mst_digest_number(proc->job->seed, proc->fn.view.generation);
    struct mst_prng prng = {mst_digest_number(mst_digest_number(digest, proc->fn.steps), salt)};

    return mst_prng_next(&prng);
}

static void compute(struct sim *sim, struct sim_proc *proc)
{
    proc->fn.state = SIM_FN_COMPUTING;
    proc->fn.due_ns = sim->now_ns + proc->job->step_ns / 4 + sim_below(sim, proc->job->step_ns);
}

static void fn_return(struct sim *sim, struct sim_proc *proc, muster_status status)
{
    struct sim_fn *fn = &proc->fn;

    fn->state = SIM_FN_NOT;
    fn->due_ns = SIM_NEVER;
    sim_saw_return(sim, proc, status);
    sim_page_turn(sim, proc, SIM_PHASE_WAITS);
    mst_restart_progress(proc->restart,
                         &(struct mst_restart_progress){
                             .pings = fn->steps,
                             .first = proc->job->tells_steps ? 0 : INT64_MIN,
                             .step = proc->job->tells_steps ? (int64_t)fn->steps : INT64_MIN});
    mst_restart_returned(proc->restart, sim_proc_clock(sim, proc), status, fn->delivered);
}

static void block(struct sim *sim, struct sim_proc *proc, const struct mst_request *call,
                  uint64_t within_ns)
{
    struct sim_fn *fn = &proc->fn;

    if (sim_proc_call(sim, proc, SIM_OWNER_FN, call, within_ns, &fn->tag)) {
        fn->state = SIM_FN_BLOCKED;
    } else {
        return_later(sim, proc, MUSTER_EFENCED);
    }
}

static void round_call(struct sim *sim, struct sim_proc *proc, uint32_t name)
{
    struct sim_fn *fn = &proc->fn;
    unsigned char data[MODEL_DATA_MAX];
    uint32_t most = sim_model_participants(
        proc->job, mst_digest_number(proc->job->seed, fn->view.generation), fn->participants);
    struct mst_request call = {
        .command = MST_ROUND,
        .round = {.generation = fn->view.generation,
                  .name = mst_slice_text(rounds[name].name),
                  .number = fn->numbers[name],
                  .on_loss = rounds[name].on_loss,
                  .reduce = rounds[name].reduce,
                  .deadline_ms = common(proc, 2) % 4 ? 0 : proc->job->round_deadline_ns / SIM_MS}};
    uint64_t within = call.round.deadline_ms || sim_chance(sim, 90)
                          ? SIM_NEVER
                          : sim_between(sim, 1, sim->plan.lease_ns);

    if (name == SOME && sim_model_among(fn->participants, most, fn->view.index)) {
        call.round.participants = fn->participants;
        call.round.participant_count = most;
        call.round.present_only = true;
    } else if (name == SOME) {
        fn->steps++; /* this one is not asked */
        compute(sim, proc);
        return;
    }
    fn->name = name;
    if (call.round.reduce == MST_REDUCE_BROADCAST) {
        call.round.root = (uint32_t)(common(proc, 3) % fn->view.size);
    }
    if (call.round.reduce != MST_REDUCE_BROADCAST || call.round.root == fn->view.rank) {
        call.round.data = mst_slice_of(
            data, sim_model_contribution(proc->job, &call.round, fn->view.index,
                                         name == VOTE && sim_rank_may_end(sim, proc), data));
    }
    block(sim, proc, &call, within);
}

/* Rank 0 tells where it is, the others wait for it: how a ring is built. */
static void greet(struct sim *sim, struct sim_proc *proc)
{
    struct sim_fn *fn = &proc->fn;
    unsigned char value[8];
    struct mst_write put = {.kind = MST_PUT, .key = mst_slice_text("addr")};
    struct mst_request call = {
        .command = MST_GET,
        .get = {.generation = fn->view.generation, .key = mst_slice_text("addr"), .wait = true}};

    for (unsigned i = 0; i < 8; i++) {
        value[i] = (unsigned char)(fn->view.generation >> (8 * i));
    }
    fn->name = MODEL_NAMES;
    if (fn->view.rank == 0) {
        put.value = mst_slice_of(value, sizeof(value));
        call = (struct mst_request){
            .command = MST_WRITE,
            .write = {.generation = fn->view.generation, .ops = &put, .count = 1}};
    }
    block(sim, proc, &call, SIM_NEVER);
}

bool sim_rank_may_end(const struct sim *sim, const struct sim_proc *proc)
{
    const struct model_job *job = proc->job;

    return proc->fn.steps >= job->steps && (!job->until_calm || sim->calm);
}

/* The connection to another rank of the generation breaks; or to a place that has none. */
static void lose_peer(struct sim *sim, struct sim_proc *proc)
{
    struct sim_fn *fn = &proc->fn;
    uint64_t wait_ms = sim_chance(sim, 30) ? 0 : sim_below(sim, 2 * sim->plan.lease_ns / SIM_MS);
    uint32_t step = 1 + (uint32_t)sim_below(sim, MODEL_PLACES - 1);

    fn->peer = (fn->view.index + step) % MODEL_PLACES;
    fn->wait_ns = wait_ms * SIM_MS;
    fn->broken_ns = sim_proc_clock(sim, proc);
    fn->state = SIM_FN_BROKEN;
    fn->due_ns = SIM_NEVER;
    sim_saw_broken(sim, proc);
    mst_restart_lost(proc->restart, fn->broken_ns, fn->peer, wait_ms);
}

/* Chance against this rank. True: it struck. */
static bool misfortune(struct sim *sim, struct sim_proc *proc)
{
    const struct sim_plan *plan = &sim->plan;
    struct sim_fn *fn = &proc->fn;
    struct mst_slice text = mst_slice_text("out of luck");

    if (sim->calm || !sim_chance(sim, 3)) {
        return false;
    }
    if (plan->has[SIM_HANG] && sim_chance(sim, 30)) {
        sim_tell(sim, "%s: pid=%" PRIu64 " hangs in fn", proc->job->name, proc->pid);
        fn->state = SIM_FN_HUNG;
        fn->due_ns = sim->now_ns + proc->job->barrier_timeout_ns / 2 +
                     sim_below(sim, 3 * proc->job->barrier_timeout_ns);
        return true;
    }
    if (plan->has[SIM_BROKEN] && sim_chance(sim, 40)) {
        lose_peer(sim, proc);
        return true;
    }
    if (plan->has[SIM_FAIL] && sim_chance(sim, 50)) {
        if (sim_chance(sim, 70)) {
            sim_saw_report(sim, proc);
            mst_restart_failed(proc->restart, sim_proc_clock(sim, proc), MST_CAUSE_FAULT, 9, text);
        }
        return_later(sim, proc, MUSTER_EFAILED);
        return true;
    }
    if (plan->has[SIM_ABORT] && sim_chance(sim, 10)) {
        sim_saw_report(sim, proc);
        mst_restart_failed(proc->restart, sim_proc_clock(sim, proc), MST_CAUSE_ABORTED, 3,
                           mst_slice_text("enough"));
        return_later(sim, proc, MUSTER_EFAILED);
        return true;
    }
    if (plan->has[SIM_AGAIN] && sim_chance(sim, 50)) {
        sim_saw_report(sim, proc);
        mst_restart_failed(proc->restart, sim_proc_clock(sim, proc), MST_CAUSE_AGAIN, 0,
                           mst_slice_text("asked for a restart"));
        return_later(sim, proc, MUSTER_EINTERRUPTED);
        return true;
    }
    if (plan->has[SIM_LEAVE] && sim_chance(sim, 30) && sim_model_may_leave(proc->job)) {
        sim_saw_report(sim, proc);
        proc->job->left++;
        proc->leaves = true;
        mst_restart_left(proc->restart, sim_proc_clock(sim, proc));
        return_later(sim, proc, MUSTER_OK);
        return true;
    }
    return false;
}

/* Before an agent can have said anything. */
void sim_rank_feel(struct sim *sim, const struct sim_proc *dead)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];
        struct sim_fn *fn = &proc->fn;

        if (proc->job == dead->job && proc->kind == SIM_RANK && proc->alive && !proc->frozen &&
            fn->state == SIM_FN_COMPUTING && !fn->returning &&
            fn->view.generation == dead->fn.view.generation && sim_chance(sim, 60)) {
            fn->struck = true;
            fn->due_ns = sim->now_ns + sim_below(sim, 2 * SIM_MS);
            sim_proc_wake(sim, proc, fn->due_ns);
        }
    }
}

static void next_step(struct sim *sim, struct sim_proc *proc)
{
    const struct model_job *job = proc->job;
    struct sim_fn *fn = &proc->fn;
    uint64_t kind = common(proc, 1) % 100;

    if (fn->struck) {
        sim_saw_report(sim, proc);
        mst_restart_failed(proc->restart, sim_proc_clock(sim, proc), MST_CAUSE_FAULT, 104,
                           mst_slice_text("connection reset by peer"));
        return_later(sim, proc, MUSTER_EFAILED);
        return;
    }
    if (misfortune(sim, proc)) {
        return;
    }
    if (fn->steps == 0 && job->greets) {
        greet(sim, proc);
    } else if (job->votes && fn->steps % 4 == 3) {
        round_call(sim, proc, VOTE);
    } else if (!job->votes && sim_rank_may_end(sim, proc)) {
        fn_return(sim, proc, MUSTER_OK);
    } else if (kind < job->collective) {
        round_call(sim, proc, (uint32_t)(common(proc, 5) % VOTE));
    } else {
        fn->steps++;
        compute(sim, proc);
    }
}

static void fn_step(struct sim *sim, struct sim_proc *proc)
{
    struct sim_fn *fn = &proc->fn;

    if (fn->returning) {
        fn_return(sim, proc, fn->result);
        return;
    }
    sim_saw_check(sim, proc);
    sim_page_check(sim, proc);
    if (proc->job->pings) {
        sim_page_ping(sim, proc);
    }
    if (fn->told) {
        fn->delivered = true;
        fn_return(sim, proc, sim_chance(sim, 95) ? MUSTER_EINTERRUPTED : MUSTER_OK);
        return;
    }
    sim_preempt_holds(sim, proc);
    if (sim_preempt_asks(sim, proc)) {
        next_step(sim, proc);
    } else {
        fn->due_ns = sim->now_ns + proc->job->step_ns / 4 + 1;
    }
}

/* All ranks are told the same, so all may go on. */
static bool is_result(muster_status status)
{
    return status == MUSTER_OK || status == MUSTER_ETIMEDOUT || status == MUSTER_EMISMATCH ||
           status == MUSTER_ESTALE;
}

static void round_over(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_fn *fn = &proc->fn;

    if (reply->status == MUSTER_ETIMEDOUT || reply->status == MUSTER_ECANCELLED) {
        if (common(proc, 2) % 4) { /* its own deadline: it asks again */
            compute(sim, proc);
            return;
        }
    }
    if (!is_result(reply->status)) {
        return_later(sim, proc, reply->status);
        return;
    }
    sim_saw_result(sim, proc, fn->name, reply);
    fn->numbers[fn->name]++;
    fn->steps++;
    if (fn->name == VOTE && reply->status == MUSTER_OK && reply->value.size >= 8 &&
        ((const unsigned char *)reply->value.data)[0] == 1) {
        return_later(sim, proc, MUSTER_OK);
        return;
    }
    compute(sim, proc);
}

void sim_rank_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                   const struct mst_reply *reply)
{
    struct sim_fn *fn = &proc->fn;

    if (fn->state != SIM_FN_BLOCKED || fn->tag != tag) {
        return; /* cut short before */
    }
    fn->tag = 0;
    if (fn->name < MODEL_NAMES) {
        round_over(sim, proc, reply);
    } else if (reply->status == MUSTER_OK) {
        sim_saw_greeting(sim, proc, reply);
        fn->steps++;
        compute(sim, proc);
    } else if (reply->status == MUSTER_ENOMEM) {
        compute(sim, proc);
    } else {
        return_later(sim, proc, reply->status);
    }
}

void sim_rank_step(struct sim *sim, struct sim_proc *proc)
{
    struct sim_fn *fn = &proc->fn;

    if (proc->ended && !proc->started) {
        sim_proc_exit(sim, proc, 4);
        return;
    }
    if (proc->suicide_ns != 0 && proc->suicide_ns <= sim->now_ns) {
        sim_proc_exit(sim, proc, 7);
        return;
    }
    if (proc->retry_ns <= sim->now_ns && !proc->finished) {
        if (proc->looper && proc->looper_dies == 1 && proc->asked_to_join) {
            sim_proc_exit(sim, proc, 7);
            return;
        }
        proc->asked_to_join = true;
        join(sim, proc);
    }
    if (fn->state != SIM_FN_NOT && fn->state != SIM_FN_BLOCKED && fn->due_ns <= sim->now_ns) {
        if (fn->state == SIM_FN_HUNG) {
            fn->state = SIM_FN_COMPUTING;
        }
        fn_step(sim, proc);
    }
    if (proc->unwind_ns <= sim->now_ns) {
        unwound(sim, proc);
    }
    if (proc->assign_ns <= sim->now_ns) {
        assign(sim, proc);
    }
    if (proc->finished && !proc->leaving) {
        /* Who was refused for want of room goes as one that failed: nobody waits for who has left.
         */
        bool refused =
            proc->finish_status == MUSTER_ENOMEM || proc->finish_status == MUSTER_ENOSPACE;

        if (proc->finish_status == MUSTER_OK || (!refused && sim_chance(sim, 50))) {
            leave(sim, proc);
        } else {
            sim_proc_exit(sim, proc, 1);
        }
    }
}
