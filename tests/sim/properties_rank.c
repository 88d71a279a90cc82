/* SPDX-License-Identifier: Apache-2.0 */
/* What is seen of the processes: their calls, their machines, their runs of fn. */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "journal.h"
#include "proto/command.h"
#include "proto/secondary.h"
#include "seen.h"

#define BIT(status) (1u << (unsigned)-(status))

/* ---- calls --------------------------------------------------------------------------------------
 */

/* What any call may end with, and what only this command may. */
static uint64_t allowed(enum mst_command command)
{
    uint64_t common = BIT(MUSTER_OK) | BIT(MUSTER_ENOMEM) | BIT(MUSTER_ETIMEDOUT) |
                      BIT(MUSTER_ECANCELLED) | BIT(MUSTER_EUNREACHABLE);

    switch (command) {
    case MST_JOIN:
        return common | BIT(MUSTER_EEXISTS);
    case MST_WRITE:
        return common | BIT(MUSTER_EEXISTS) | BIT(MUSTER_ECONFLICT);
    case MST_GET:
    case MST_CUT: /* nobody holds the place any more */
        return common | BIT(MUSTER_ENOTFOUND);
    case MST_ROUND:
        return common | BIT(MUSTER_ESTALE) | BIT(MUSTER_ELOST) | BIT(MUSTER_EMISMATCH) |
               BIT(MUSTER_ERANGE) | BIT(MUSTER_ETOOFEW);
    case MST_OPEN:
    case MST_RENEW:
    case MST_LEAVE:
    case MST_CANCEL:
    case MST_LIST:
    case MST_WAIT:
    case MST_WATCH:
    case MST_ROUND_MEMBERS:
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
    case MST_HISTORY:
    case MST_FAULT:
    case MST_LOST:
    case MST_DELETE_PREFIX:
        break;
    }
    return common;
}

/* EXPECTED_STATUS, FULL_ENDS */
static void check_full(struct sim *sim, const struct sim_proc *proc, enum mst_command command)
{
    if (!sim->service.journal || !sim->service.journal->full_ever) {
        sim_fail(sim, SIM_P_EXPECTED_STATUS, "pid=%" PRIu64 " %s: the disk was never full",
                 proc->pid, mst_command_name(command));
    }
    if (sim->calm && sim->now_ns > sim->calm_ns + 2 * sim->plan.lease_ns + 2500 * SIM_MS) {
        sim_fail(sim, SIM_P_FULL_ENDS, "pid=%" PRIu64 " %s", proc->pid, mst_command_name(command));
    }
}

/* CALL_ONCE, EXPECTED_STATUS */
void sim_saw_done(struct sim *sim, struct sim_proc *proc, uint64_t tag, bool was_open,
                  enum mst_command command, const struct mst_reply *reply)
{
    if (!was_open) {
        sim_fail(sim, SIM_P_CALL_ONCE, "pid=%" PRIu64 " call %" PRIx64 " ends again", proc->pid,
                 tag);
    }
    /* EEXISTS: a claim that was refused ends everything the claimant asked for. */
    if (reply->status == MUSTER_EFENCED || reply->status == MUSTER_EEXISTS) {
        return;
    }
    /* ELIMIT: who took any place found none. */
    if (reply->status == MUSTER_ELIMIT && proc->place == MST_INDEX_ANY) {
        return;
    }
    if (reply->status == MUSTER_ENOSPACE) {
        check_full(sim, proc, command);
        return;
    }
    if (reply->status > 0 || reply->status < -40 || (allowed(command) & BIT(reply->status)) == 0) {
        sim_fail(sim, SIM_P_EXPECTED_STATUS, "pid=%" PRIu64 " %s ends with %d", proc->pid,
                 mst_command_name(command), (int)reply->status);
    }
}

void sim_saw_death(struct sim *sim, struct sim_proc *proc)
{
    sim_job_death(sim, proc);
}

/* ---- the lease
 * ----------------------------------------------------------------------------------- */

void sim_saw_sent(struct sim *sim, struct sim_proc *proc, const struct mst_request *request)
{
    if (request->command == MST_RENEW || request->command == MST_OPEN) {
        uint32_t at = proc->renewals++ % SIM_RENEWALS_MAX;

        proc->renewal_id[at] = request->id;
        proc->renewal_ns[at] = sim_proc_clock(sim, proc);
    }
}

/* Opening counts as a renewal, once. */
void sim_saw_answer(const struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    bool counts =
        reply->status == MUSTER_OK &&
        (reply->command == MST_RENEW || (reply->command == MST_OPEN && proc->answered_ns == 0));
    uint32_t kept = proc->renewals < SIM_RENEWALS_MAX ? proc->renewals : SIM_RENEWALS_MAX;

    for (uint32_t i = 0; counts && i < kept; i++) {
        if (proc->renewal_id[i] == reply->id && proc->renewal_ns[i] > proc->answered_ns) {
            proc->answered_ns = proc->renewal_ns[i];
        }
    }
    /* Its agent is silent, so it is not renewed. */
    if (reply->status == MUSTER_ETIMEDOUT &&
        (reply->command == MST_RENEW || reply->command == MST_OPEN) &&
        proc->troubled_ns < sim->now_ns) {
        proc->troubled_ns = sim->now_ns;
    }
}

/* SELF_STOP */
static void check_stop(struct sim *sim, const struct sim_proc *proc)
{
    if (proc->answered_ns != 0 && !proc->ended && !mst_client_stopped(proc->client) &&
        sim_proc_clock(sim, proc) > proc->answered_ns + sim->plan.lease_ns / 5 * 4 + SIM_MS) {
        sim_fail(sim, SIM_P_SELF_STOP, "pid=%" PRIu64 " goes on %.3f ms after it", proc->pid,
                 (double)(sim_proc_clock(sim, proc) - proc->answered_ns) / 1e6);
    }
}

/* How long it may be away so that a rank that renews as it should need not stop itself: 0.8 of the
 * lease, less the age of the last renewal, the longest wait for the next attempt, and the way. On
 * the way are three answers, the first of which the death eats: each waits for what is being
 * written when its request comes, and for its own. */
static bool can_ride(const struct sim *sim, uint64_t away_ns)
{
    const struct sim_plan *plan = &sim->plan;
    uint64_t wait = 2 * away_ns + 20 * SIM_MS;
    uint64_t way = 12 * plan->latency_ns + 6 * plan->latency_tail_ns + 6 * plan->write_ns;

    wait = wait < 1000 * SIM_MS ? wait : 1000 * SIM_MS;
    if (plan->two_endpoints || plan->fat) {
        return false;
    }
    /* A host that dies says nothing: whoever waits for an answer just then waits for two fifths. */
    if (sim->service.journal->with_host &&
        plan->lease_ns / 5 * 3 + 60 * SIM_MS + way > plan->lease_ns / 5 * 4) {
        return false;
    }
    return away_ns + wait + way + plan->lease_ns / 4 <= plan->lease_ns / 5 * 4;
}

void sim_saw_service_dead(struct sim *sim, uint64_t until_ns)
{
    bool ride = can_ride(sim, until_ns - sim->now_ns);

    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];
        bool well = proc->kind == SIM_RANK && proc->alive && !proc->frozen && proc->started &&
                    !proc->ended && !mst_client_stopped(proc->client) &&
                    proc->troubled_ns + sim->plan.lease_ns * 3 / 2 + 1000 * SIM_MS < sim->now_ns;

        if (proc->troubled_ns <= until_ns) {
            proc->troubled_ns = until_ns;
            proc->rides_ns = ride && well ? until_ns : 0;
        }
    }
}

/* What it heard last it may have forgotten with its host: leases begin anew. */
void sim_saw_service_back(struct sim *sim)
{
    uint64_t now = sim_service_clock(sim);

    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct model_member *member = &sim->procs[i]->member;

        member->heard_ns = member->heard_ns < now ? member->heard_ns : now;
        member->asked_ns = member->asked_ns < now ? member->asked_ns : now;
        member->claims = false; /* who claims is not told of before it speaks again */
        member->ready = false;  /* no JOIN outlives its connection */
    }
}

/* DEATH_UNNOTICED */
static void check_ride(struct sim *sim, const struct sim_proc *proc)
{
    if (proc->rides_ns != 0 && proc->rides_ns == proc->troubled_ns && !proc->ended &&
        mst_client_stopped(proc->client)) {
        sim_fail(sim, SIM_P_DEATH_UNNOTICED, "pid=%" PRIu64 " stops itself, it was back at %.6f",
                 proc->pid, (double)proc->rides_ns / 1e9);
    }
}

/* ---- the session --------------------------------------------------------------------------------
 */

void sim_saw_attention(struct sim *sim, struct sim_proc *proc)
{
    const struct mst_view *told = mst_client_view(proc->client);

    if (told->attention == MST_INTERRUPT && told->generation != proc->member.attention_in) {
        proc->member.attention_in = told->generation;
        proc->member.attention_ns = sim->now_ns;
    }
    if (proc->kind == SIM_RANK && mst_client_stopped(proc->client) &&
        sim_view_has(&proc->job->view, proc)) {
        sim_blame(proc->job, MODEL_SELF, false);
    }
}

void sim_saw_ended(struct sim *sim, struct sim_proc *proc, const struct mst_client_effect *effect)
{
    sim_tell(sim, "%s: pid=%" PRIu64 " session ended: %d", proc->job->name, proc->pid,
             (int)effect->status);
    if (proc->kind == SIM_RANK && sim_view_has(&proc->job->view, proc)) {
        sim_blame(proc->job, MODEL_SELF, false);
    }
}

void sim_saw_joined(struct sim *sim, struct sim_proc *proc, const struct mst_view *view)
{
    sim_view_told(sim, proc, view);
    if ((view->rank == MST_RANK_NONE && !view->spare) || view->generation == 0) {
        sim_fail(sim, SIM_P_VIEW_EXACT, "pid=%" PRIu64 " joined without a rank", proc->pid);
    }
}

/* ---- fn -----------------------------------------------------------------------------------------
 */

void sim_saw_unwinds(struct sim *sim, struct sim_proc *proc)
{
    sim_tell(sim, "%s: pid=%" PRIu64 " unwinds", proc->job->name, proc->pid);
    if (proc->fn.state != SIM_FN_NOT) {
        sim_fail(sim, SIM_P_ENTER_ONCE, "pid=%" PRIu64 " unwinds while fn runs", proc->pid);
    }
}

static bool in_attempt(const struct sim_proc *proc)
{
    return proc->fn.state != SIM_FN_NOT || proc->unwind_ns != SIM_NEVER;
}

/* ENTER_ONCE */
static void check_once(struct sim *sim, const struct sim_proc *proc, const struct model_view *view)
{
    if (in_attempt(proc)) {
        sim_fail(sim, SIM_P_ENTER_ONCE, "pid=%" PRIu64 " is in generation %" PRIu64, proc->pid,
                 proc->fn.view.generation);
    }
    for (uint32_t rank = 0; rank < view->size; rank++) {
        const struct sim_proc *other = view->proc[rank];

        if (other->alive && !view->gone[rank] && in_attempt(other) &&
            other->fn.view.generation < view->generation) {
            sim_fail(sim, SIM_P_ENTER_ONCE, "pid=%" PRIu64 " is in generation %" PRIu64 " still",
                     other->pid, other->fn.view.generation);
        }
    }
}

static uint64_t record_of(const struct mst_restart_effect *effect)
{
    uint64_t digest = mst_digest_number(MST_DIGEST_INIT, effect->faults->total);

    for (uint32_t i = 0; i < effect->faults->count; i++) {
        const struct muster_fault *fault = &effect->faults->first[i];

        digest = mst_digest_number(digest, (uint64_t)fault->kind << 32 | fault->index);
        digest = mst_digest_number(digest, fault->generation);
        digest = mst_digest_number(digest, fault->incarnation);
        digest = mst_digest_slice(digest, mst_slice_text(fault->text));
    }
    return digest;
}

/* ENTER_AGREES, STOP_TOGETHER */
static void check_agrees(struct sim *sim, const struct sim_proc *proc, struct model_view *view,
                         const struct mst_restart_effect *effect)
{
    uint64_t record = record_of(effect);

    if (view->stopped != 0) {
        sim_fail(sim, SIM_P_STOP_TOGETHER, "pid=%" PRIu64 " enters, the run was given up: %d",
                 proc->pid, view->stopped);
    }
    if (view->entered && view->iteration != effect->iteration) {
        sim_fail(sim, SIM_P_ENTER_AGREES, "pid=%" PRIu64 " iteration %" PRIu64 ", another %" PRIu64,
                 proc->pid, effect->iteration, view->iteration);
    }
    if (view->entered && view->record != record) {
        sim_fail(sim, SIM_P_ENTER_AGREES, "pid=%" PRIu64 " is told %u faults of %u, not the same",
                 proc->pid, effect->faults->count, effect->faults->total);
    }
    view->entered = true;
    view->iteration = effect->iteration;
    view->record = record;
}

static bool index_in(const char *text, const char *before, uint32_t *out)
{
    const char *at = strstr(text, before);

    *out = at ? (uint32_t)strtoul(at + strlen(before), NULL, 10) : 0;
    return at != NULL;
}

/* Which rank reported a broken connection, and to which. */
static bool read_broken(const char *text, uint32_t *reporter, uint32_t *peer)
{
    return strncmp(text, "the connection of ", strlen("the connection of ")) == 0 &&
           index_in(text, "(#", reporter) && index_in(text, "to #", peer);
}

static bool is_death(const struct muster_fault *fault)
{
    return mst_cause_is_death((enum mst_cause)fault->kind);
}

/* It stands before a failure that was reported earlier, and has its time: its own was later. */
static bool was_moved(const struct mst_record_list *faults, uint32_t death)
{
    return death + 1 < faults->count && faults->first[death + 1].kind == MUSTER_FAULT_FAILED &&
           faults->first[death + 1].after_ms == faults->first[death].after_ms;
}

/* CAUSE_FIRST. Milliseconds are rounded down. */
static void check_cause(struct sim *sim, const struct mst_restart_effect *effect)
{
    const struct muster_fault *first = effect->faults->first;

    for (uint32_t i = 0; i < effect->faults->count; i++) {
        for (uint32_t j = i + 1; j < effect->faults->count; j++) {
            if (first[i].kind == MUSTER_FAULT_FAILED && first[i].detector < 0 &&
                is_death(&first[j]) && !was_moved(effect->faults, j) &&
                first[j].index != first[i].index &&
                first[j].after_ms - first[i].after_ms < MST_SECONDARY_MS) {
                sim_fail(sim, SIM_P_CAUSE_FIRST, "record %u: #%u failed; %u: death of #%u", i,
                         first[i].index, j, first[j].index);
            }
        }
    }
}

/* The record of the generation in which it failed last says why. */
static void acquit(struct sim_proc *proc, const struct mst_restart_effect *effect)
{
    for (uint32_t i = 0; i < effect->faults->count; i++) {
        const struct muster_fault *fault = &effect->faults->first[i];
        bool own = fault->index == effect->view.index;

        if (fault->generation == proc->failed_in && (own || is_death(fault))) {
            proc->failures -= !own;
            break;
        }
    }
    proc->failed_in = 0;
}

/* Whether a broken connection has only deaths before it that came after it. */
static bool only_deaths_before(const struct mst_restart_effect *effect, uint32_t at)
{
    const struct muster_fault *first = effect->faults->first;
    bool only = true;

    for (uint32_t i = 0; i < at; i++) {
        only = only && is_death(&first[i]) && first[i].after_ms == first[at].after_ms;
    }
    return only;
}

/* BROKEN_BLAMES. A rank that got the named place only later has no part in it. */
static void check_blames(struct sim *sim, const struct sim_proc *proc,
                         const struct mst_restart_effect *effect)
{
    for (uint32_t i = 0; i < effect->faults->count; i++) {
        const struct muster_fault *fault = &effect->faults->first[i];
        const struct model_view *view = sim_view_of(proc->job, fault->generation);
        uint32_t reporter, peer;
        bool seated = false;

        if (!read_broken(fault->text, &reporter, &peer)) {
            continue;
        }
        for (uint32_t rank = 0; view && rank < view->size; rank++) {
            seated = seated || view->index[rank] == peer;
        }
        if (!only_deaths_before(effect, i) || fault->code != MUSTER_ELOST ||
            (view && fault->index != (seated ? peer : reporter))) {
            sim_fail(sim, SIM_P_BROKEN_BLAMES, "record %u is of #%u: %s", i, fault->index,
                     fault->text);
        }
    }
}

/* FENCED_SILENT, ENTER_GROWS, ENTER_CALM, CAUSE_FIRST */
void sim_saw_enter(struct sim *sim, struct sim_proc *proc, const struct mst_restart_effect *effect)
{
    const struct mst_view *view = &effect->view;
    struct model_view *known = sim_view_of(proc->job, view->generation);

    sim_tell(sim,
             "%s: pid=%" PRIu64 " enters fn, generation %" PRIu64 " rank %u of %u (#%u), "
             "iteration %" PRIu64 " after %u faults",
             proc->job->name, proc->pid, view->generation, view->rank, view->size, view->index,
             effect->iteration, effect->faults->total);
    if (known) {
        check_once(sim, proc, known);
        check_agrees(sim, proc, known, effect);
        check_blames(sim, proc, effect);
        check_cause(sim, effect);
        sim_view_told(sim, proc, view);
        if (!sim_view_has(known, proc)) {
            sim_fail(sim, SIM_P_FENCED_SILENT, "pid=%" PRIu64 " generation %" PRIu64, proc->pid,
                     view->generation);
        }
    }
    acquit(proc, effect);
    if (view->generation <= proc->member.entered) {
        sim_fail(sim, SIM_P_ENTER_GROWS, "pid=%" PRIu64 " generation %" PRIu64 " after %" PRIu64,
                 proc->pid, view->generation, proc->member.entered);
    }
    if (mst_client_stopped(proc->client) || proc->ended) {
        sim_fail(sim, SIM_P_ENTER_CALM, "pid=%" PRIu64, proc->pid);
    }
    proc->member.entered = view->generation;
}

/* RESTART_REASON */
void sim_saw_told(struct sim *sim, struct sim_proc *proc)
{
    const struct model_view *view = sim_view_of(proc->job, proc->fn.view.generation);

    sim_tell(sim, "%s: pid=%" PRIu64 " is told to return", proc->job->name, proc->pid);
    if (view && view->reasons == 0 && !mst_client_stopped(proc->client) && !proc->ended) {
        sim_fail(sim, SIM_P_RESTART_REASON, "pid=%" PRIu64 " in generation %" PRIu64, proc->pid,
                 proc->fn.view.generation);
    }
}

/* CHECK_CALLED. Called for checks that say: go on. */
static void check_called(struct sim *sim, const struct sim_proc *proc)
{
    const struct model_view *view = &proc->job->view;
    uint64_t told_by = view->called_ns + 2 * proc->job->settle_ns + sim->plan.lease_ns / 4 +
                       100 * SIM_MS + 4 * sim->plan.write_ns;

    if (view->generation == proc->fn.view.generation && view->called_ns != 0 &&
        proc->troubled_ns + 2500 * SIM_MS < view->called_ns && sim->now_ns > told_by) {
        sim_fail(sim, SIM_P_CHECK_CALLED, "pid=%" PRIu64 " goes on, all were called at %.6f",
                 proc->pid, (double)view->called_ns / 1e9);
    }
}

/* CHECK_HEEDS, CHECK_CALLED */
void sim_saw_check(struct sim *sim, struct sim_proc *proc)
{
    const struct mst_view *view = mst_client_view(proc->client);
    bool settled = proc->job->settle_ns == 0 || view->attention == MST_GROW ||
                   sim->now_ns > proc->member.attention_ns + proc->job->settle_ns * 11 / 10;
    bool called =
        (view->generation > proc->fn.view.generation && settled) ||
        (view->generation == proc->fn.view.generation && view->attention != MST_CALM && settled) ||
        mst_client_stopped(proc->client) || proc->ended;

    if (called && !proc->fn.told) {
        sim_fail(sim, SIM_P_CHECK_HEEDS, "pid=%" PRIu64 " generation %" PRIu64, proc->pid,
                 proc->fn.view.generation);
    }
    if (!proc->fn.told) {
        check_called(sim, proc);
    }
}

void sim_saw_return(struct sim *sim, struct sim_proc *proc, muster_status status)
{
    sim_tell(sim, "%s: pid=%" PRIu64 " fn returns %d", proc->job->name, proc->pid, (int)status);
    if (status != MUSTER_OK && !proc->fn.delivered) {
        sim_blame(proc->job, MODEL_FAULT, false);
    }
}

void sim_saw_report(struct sim *sim, struct sim_proc *proc)
{
    sim_tell(sim, "%s: pid=%" PRIu64 " fn has had enough", proc->job->name, proc->pid);
}

void sim_saw_broken(struct sim *sim, struct sim_proc *proc)
{
    sim_tell(sim, "%s: pid=%" PRIu64 " lost its connection to #%u and waits %.6f", proc->job->name,
             proc->pid, proc->fn.peer, (double)proc->fn.wait_ns / 1e9);
}

/* BROKEN_WAITS */
static void check_waited(struct sim *sim, struct sim_proc *proc)
{
    const struct sim_fn *fn = &proc->fn;

    sim_blame(proc->job, MODEL_FAULT, false);
    if (fn->state != SIM_FN_BROKEN || fn->told ||
        sim_proc_clock(sim, proc) < fn->broken_ns + fn->wait_ns) {
        sim_fail(sim, SIM_P_BROKEN_WAITS, "pid=%" PRIu64 " reports #%u", proc->pid, fn->peer);
    }
}

/* BROKEN_ENDS */
static void check_ends(struct sim *sim, const struct sim_proc *proc)
{
    const struct sim_fn *fn = &proc->fn;
    uint64_t over_ns = sim->plan.lease_ns * 2 + 2500 * SIM_MS;

    if (sim->calm && fn->state == SIM_FN_BROKEN && sim->now_ns > sim->calm_ns + over_ns &&
        sim_proc_clock(sim, proc) > fn->broken_ns + fn->wait_ns + over_ns) {
        sim_fail(sim, SIM_P_BROKEN_ENDS, "pid=%" PRIu64 " still waits for #%u", proc->pid,
                 fn->peer);
    }
}

/* Out of the generation that its fn runs in. */
static bool is_called(const struct sim_proc *proc)
{
    const struct mst_view *view = mst_client_view(proc->client);

    return view->generation > proc->fn.view.generation || view->attention == MST_INTERRUPT;
}

void sim_saw_restart_request(struct sim *sim, struct sim_proc *proc,
                             const struct mst_request *request)
{
    if (request->command == MST_FAULT && request->fault.peer != 0) {
        check_waited(sim, proc);
    }
    if (request->command == MST_FAULT && request->fault.kind == MST_CAUSE_FAULT &&
        request->fault.generation != proc->failed_in && !is_called(proc)) {
        proc->failed_in = request->fault.generation;
        proc->failures++;
    }
    sim_tell(sim, "%s: pid=%" PRIu64 " asks %s %.*s", proc->job->name, proc->pid,
             mst_command_name(request->command),
             request->command == MST_ROUND ? (int)request->round.name.size : 0,
             request->command == MST_ROUND ? (const char *)request->round.name.data : "");
}

/* STOP_TOGETHER, STOP_RIGHT */
static void check_stopped(struct sim *sim, struct sim_proc *proc,
                          const struct mst_restart_effect *effect)
{
    struct model_job *job = proc->job;
    struct model_view *view = NULL; /* not looked for when it was passed over */
    bool set = (effect->why == MST_WHY_ITERATIONS && job->iterations_max > 0) ||
               (effect->why == MST_WHY_STALLED && job->stalled_max > 0) ||
               (effect->why == MST_WHY_ABORTED && sim->plan.has[SIM_ABORT]) ||
               (effect->why == MST_WHY_ASSIGNMENT && job->by_table);

    if (!set) {
        sim_fail(sim, SIM_P_STOP_RIGHT, "pid=%" PRIu64 " why=%d", proc->pid, (int)effect->why);
    }
    if (sim_view_has(&job->view, proc)) {
        view = &job->view;
    } else if (sim_view_has(&job->before, proc) && proc->member.entered < job->before.generation) {
        view = &job->before;
    }
    if (!view) {
        return;
    }
    if (view->stopped != 0 && view->stopped != (int)effect->why) {
        sim_fail(sim, SIM_P_STOP_TOGETHER, "pid=%" PRIu64 " why=%d, another %d", proc->pid,
                 (int)effect->why, view->stopped);
    }
    view->stopped = (int)effect->why;
    for (uint32_t rank = 0; rank < view->size; rank++) {
        if (view->proc[rank]->member.entered >= view->generation) {
            sim_fail(sim, SIM_P_STOP_TOGETHER,
                     "pid=%" PRIu64 " is given up, pid=%" PRIu64 " has entered", proc->pid,
                     view->proc[rank]->pid);
        }
    }
}

/* The rules that end the run of one rank alone. STOP_RIGHT, EFFECT_FREE */
static void check_alone(struct sim *sim, const struct sim_proc *proc,
                        const struct mst_restart_effect *effect)
{
    bool ails = sim->plan.has[SIM_UNHEALTHY];
    bool right = effect->why == MST_WHY_FAULTS ? proc->job->faults_max > 0
                 : effect->why == MST_WHY_SUSPECT
                     ? proc->job->soft_ns > 0 /* an agent said that a rank makes no progress */
                     : ails;

    if (!right) {
        sim_fail(sim, SIM_P_STOP_RIGHT, "pid=%" PRIu64 " why=%d", proc->pid, (int)effect->why);
    }
    if (effect->why == MST_WHY_FAULTS && proc->failures <= proc->job->faults_max) {
        sim_fail(sim, SIM_P_EFFECT_FREE, "pid=%" PRIu64 " has only %" PRIu64, proc->pid,
                 proc->failures);
    }
}

/* FINISH_TOGETHER */
void sim_saw_finish(struct sim *sim, struct sim_proc *proc, const struct mst_restart_effect *effect)
{
    struct model_view *view = sim_view_of(proc->job, proc->member.entered);

    sim_tell(sim, "%s: pid=%" PRIu64 " run ends: %d why=%d", proc->job->name, proc->pid,
             (int)effect->status, (int)effect->why);
    switch (effect->why) {
    case MST_WHY_REPLY:
        break;
    case MST_WHY_ITERATIONS:
    case MST_WHY_STALLED:
    case MST_WHY_ABORTED:
    case MST_WHY_ASSIGNMENT:
        check_stopped(sim, proc, effect);
        break;
    case MST_WHY_FAULTS:
    case MST_WHY_UNHEALTHY:
    case MST_WHY_FINALIZE:
    case MST_WHY_SUSPECT:
        check_alone(sim, proc, effect);
        break;
    }
    if (effect->status != MUSTER_OK || proc->leaves || !view) {
        return;
    }
    for (uint32_t rank = 0; rank < view->size; rank++) {
        const struct sim_proc *other = view->proc[rank];

        if (other && other->alive && !view->gone[rank] && other->fn.state != SIM_FN_NOT) {
            sim_fail(sim, SIM_P_FINISH_TOGETHER, "pid=%" PRIu64 " ends while pid=%" PRIu64 " runs",
                     proc->pid, other->pid);
        }
    }
}

void sim_saw_result(struct sim *sim, struct sim_proc *proc, uint32_t name,
                    const struct mst_reply *reply)
{
    const struct model_round *round =
        sim_round_find(proc->job, proc->fn.view.generation, name, proc->fn.numbers[name]);

    if (reply->status == MUSTER_OK && round && !round->ok) {
        sim_fail(sim, SIM_P_ROUND_SAME, "pid=%" PRIu64 " is told of success", proc->pid);
    }
}

/* GENERATION_KEY */
void sim_saw_greeting(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    uint64_t generation = 0;

    if (reply->command != MST_GET) {
        return;
    }
    for (unsigned i = 0; i < 8 && i < reply->value.size; i++) {
        generation |= (uint64_t)((const unsigned char *)reply->value.data)[i] << (8 * i);
    }
    if (generation != proc->fn.view.generation) {
        sim_fail(sim, SIM_P_GENERATION_KEY, "generation %" PRIu64 " reads a key of %" PRIu64,
                 proc->fn.view.generation, generation);
    }
}

/* OLD_GENERATION: checked wherever a process has looked around, and for all when a view is sealed.
 */
static void check_old(struct sim *sim, const struct sim_proc *proc)
{
    const struct model_job *job = proc->job;

    if (proc->kind != SIM_RANK || proc->fn.state == SIM_FN_NOT || !proc->alive) {
        return;
    }
    if (proc->fn.view.generation < job->view.generation && !proc->member.lost &&
        !proc->member.left) {
        sim_fail(sim, SIM_P_OLD_GENERATION,
                 "pid=%" PRIu64 " is in fn of %" PRIu64 ", %" PRIu64 " is sealed", proc->pid,
                 proc->fn.view.generation, job->view.generation);
    }
}

void sim_saw_look(struct sim *sim, struct sim_proc *proc)
{
    check_old(sim, proc);
    check_ends(sim, proc);
    check_stop(sim, proc);
    check_ride(sim, proc);
}
