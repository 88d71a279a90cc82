/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include "base/panic.h"
#include "properties.h"
#include "sim.h"

static const struct {
    const char *name;
    uint32_t chance, weight;
    const char *words;
} faults[SIM_FAULT_COUNT] = {
#define X(NAME, name, chance, weight, words) [SIM_##NAME] = {#name, chance, weight, words},
    SIM_FAULTS(X)
#undef X
};

const char *sim_fault_name(enum sim_fault fault)
{
    return faults[fault].name;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Spares, and what the seal seats. */
static void draw_seats(struct sim *sim, struct model_job *job)
{
    job->places_used = job->size;
    if (sim_chance(sim, 35)) {
        job->places_used += (uint32_t)sim_between(sim, 1, 2);
        job->max_size = (uint32_t)sim_between(sim, job->size, job->places_used - 1);
    } else if (sim_chance(sim, 10)) {
        job->max_size = job->size;
    }
    if (sim_chance(sim, 15)) {
        job->size_multiple = (uint32_t)sim_between(sim, 1, 2);
    }
    if (sim_model_fit(job, job->size) < job->min_size || sim_model_fit(job, job->size) == 0) {
        job->size_multiple = 0;
    }
    job->by_table = sim_chance(sim, 20);
    if (job->max_size > 0) { /* then there is always another index */
        job->any_index = false;
    }
}

/* When it is given up. */
static void draw_rules(struct sim *sim, struct model_job *job)
{
    uint64_t lease = sim->plan.lease_ns;

    job->iterations_max = sim_chance(sim, 12) ? (uint32_t)sim_between(sim, 1, 6) : 0;
    job->stalled_max = sim_chance(sim, 15) ? (int32_t)sim_between(sim, 1, 5) : -1;
    job->faults_max = sim_chance(sim, 20) ? (uint32_t)sim_between(sim, 1, 2) : 0;
    job->completion_timeout_ns = sim_chance(sim, 12) ? sim_between(sim, 1, 4) * lease : 0;
    job->settle_ns = sim_chance(sim, 15) ? lease / sim_between(sim, 20, 100) : 0;
    job->tells_steps = sim_chance(sim, 50);
    job->pings = sim_chance(sim, 50);
    job->from_start = sim_chance(sim, 50);
    if (sim_chance(sim, 40)) {
        /* More than a step takes where nothing is wrong, or nobody would ever come to an end. */
        job->soft_ns = 4 * (job->step_ns + sim->plan.write_ns) + sim_below(sim, lease);
        job->hard_ns = job->soft_ns + lease / 4 + sim_below(sim, lease);
    }
}

static void draw_job(struct sim *sim, struct model_job *job, uint32_t number)
{
    const struct sim_plan *plan = &sim->plan;
    uint64_t lease = plan->lease_ns;

    job->name[0] = (char)('j' + (int)number);
    job->seed = mst_prng_next(&sim->prng);
    job->size = (uint32_t)sim_between(sim, 1, 5);
    job->min_size = sim_chance(sim, 60) ? 1 : (uint32_t)sim_between(sim, 1, job->size);
    job->join_wait_ns = sim_chance(sim, 40) ? 0 : sim_between(sim, 1, 4) * lease / 2;
    job->replace_ms = sim_chance(sim, 60) ? sim_between(sim, 1, 6) * lease / 2 / SIM_MS : 0;
    job->grow = sim_chance(sim, 70) ? MST_GROW_CHECK : (enum mst_grow)sim_below(sim, 3);
    job->barrier_timeout_ns = sim_between(sim, 2, 6) * lease;
    job->round_deadline_ns = lease / 4 + sim_below(sim, 2 * lease);
    job->step_ns = lease / sim_between(sim, 4, 30);
    job->until_calm = sim_chance(sim, 70);
    job->collective = sim_chance(sim, 15) ? 0 : (uint32_t)sim_between(sim, 10, 90);
    if (plan->has[SIM_NOTICE] && sim_chance(sim, 40)) {
        job->collective = 0; /* so that ranks part, and one may be past what the others agreed on */
    }
    job->votes = job->collective > 0 && (job->until_calm || sim_chance(sim, 50));
    job->steps = (uint32_t)sim_between(sim, 1, 30);
    job->greets = sim_chance(sim, 60);
    draw_rules(sim, job);
    job->any_index = !plan->has[SIM_TWIN] && !plan->has[SIM_LOOPER] && sim_chance(sim, 10);
    draw_seats(sim, job);
    for (uint32_t place = 0; place < job->size; place++) {
        if (job->join_wait_ns > 0 && place >= job->min_size && sim_chance(sim, 30)) {
            job->slots[place].late_ns = sim_between(sim, 3, 12) * lease;
        }
    }
    if (plan->has[SIM_LOOPER] && job->size > 1) {
        struct model_slot *slot = &job->slots[1 + sim_below(sim, job->size - 1)];

        slot->loops = 1 + (uint32_t)sim_below(sim, 3);
        slot->late_ns = job->join_wait_ns > 0 && sim_chance(sim, 50) ? 4 * lease : 0;
    }
}

static void draw_journal(struct sim *sim)
{
    struct sim_plan *plan = &sim->plan;

    plan->syncs = plan->has[SIM_POWER] || sim_chance(sim, 30);
    plan->journal =
        plan->has[SIM_POWER] || plan->has[SIM_DEATH] || plan->has[SIM_FULL] || sim_chance(sim, 10);
    plan->write_ns =
        plan->journal && sim_chance(sim, 25) ? plan->lease_ns / sim_between(sim, 6, 100) : 0;
    plan->follows = plan->has[SIM_POWER] || sim_chance(sim, 10);
    plan->chunk_bytes = sim_chance(sim, 50) ? 4096 : 65536;
    plan->snapshot_every = sim_chance(sim, 75)   ? sim_between(sim, 5, 60)
                           : sim_chance(sim, 80) ? sim_between(sim, 60, 600)
                                                 : 200000;
}

void sim_plan_draw(struct sim *sim)
{
    static const uint64_t leases_ms[] = {500, 1000, 3000, 10000};
    struct sim_plan *plan = &sim->plan;

    plan->lease_ns = leases_ms[sim_below(sim, 4)] * SIM_MS;
    plan->latency_ns = plan->lease_ns / (sim_chance(sim, 50) ? 2000 : 200);
    plan->latency_tail_ns = sim_chance(sim, 50) ? plan->latency_ns : plan->lease_ns / 25;
    plan->window_bytes = sim_chance(sim, 70) ? 65536 : 256 + sim_below(sim, 4096);
    plan->split = (enum sim_split)sim_below(sim, 3);
    plan->chaos_ns = sim_between(sim, 5, 45) * plan->lease_ns;
    plan->fault_every_ns = plan->lease_ns / 5 + sim_below(sim, 3 * plan->lease_ns);
    plan->notices = sim_chance(sim, 70);
    plan->respawns_fast = sim_chance(sim, 60);
    plan->drains_each = sim_chance(sim, 30);
    plan->two_endpoints = sim_chance(sim, 20);
    plan->sends_on = plan->two_endpoints && sim->seed % 2 == 0;
    plan->fat = sim_chance(sim, 15);
    if (plan->fat) { /* a page may take long, but not all the time there is */
        plan->split = plan->split == SIM_SPLIT_TINY ? SIM_SPLIT_SOME : plan->split;
        plan->window_bytes = plan->window_bytes < 16384 ? 16384 : plan->window_bytes;
    }
    plan->jobs = sim_chance(sim, 80) ? 1 : 2;
    plan->nodes = (uint32_t)sim_between(sim, 1, 4);
    plan->observers = (uint32_t)sim_below(sim, 4);
    plan->tied = sim_chance(sim, 65);
    plan->parents = plan->tied && sim_chance(sim, 65);
    plan->replaces = sim_chance(sim, 60);
    plan->think_ns = plan->lease_ns / sim_between(sim, 5, 40);
    for (unsigned fault = 0; fault < SIM_FAULT_COUNT; fault++) {
        plan->has[fault] = sim_chance(sim, faults[fault].chance);
    }
    if (sim_chance(sim, 8)) {
        for (unsigned fault = 0; fault < SIM_FAULT_COUNT; fault++) {
            plan->has[fault] = false;
        }
    }
    draw_journal(sim);
    for (uint32_t i = 0; i < SIM_NODES_MAX; i++) {
        sim->nodes[i].clock.offset_ns = sim_below(sim, UINT64_C(1) << 50);
        sim->nodes[i].clock.ppm = (int64_t)sim_below(sim, 20001) - 10000;
    }
    for (uint32_t i = 0; i < plan->jobs; i++) {
        draw_job(sim, &sim->jobs[i], i);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static struct sim_proc *pick_proc(struct sim *sim, bool running)
{
    for (unsigned tries = 0; tries < 20; tries++) {
        struct sim_proc *proc = sim->procs[sim_below(sim, sim->proc_count)];

        if (proc->alive && (!running || !proc->frozen) && proc->kind != SIM_AUDITOR) {
            return proc;
        }
    }
    return NULL;
}

/* Mostly short, sometimes beyond the lease. */
static uint64_t spell(struct sim *sim)
{
    uint64_t lease = sim->plan.lease_ns;

    if (sim_chance(sim, 50)) {
        return sim_between(sim, 1, lease / 4);
    }
    return sim_chance(sim, 60) ? sim_between(sim, lease / 8, lease)
                               : sim_between(sim, lease, 4 * lease);
}

static void thaw(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)arg;
    sim_proc_thaw(sim, ctx);
}

static void heal(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    sim_net_resume(sim);
}

static void memory_back(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    sim->service.memory.fail_1_in = 0;
}

static void kill_host(struct sim *sim, uint32_t node)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->node == node && proc->alive && proc->kind != SIM_AUDITOR) {
            sim_proc_kill(sim, proc, true);
        }
    }
}

/* Whatever it was to ride out, this is more. */
static void trouble_one(struct sim_proc *proc, uint64_t until_ns)
{
    proc->rides_ns = 0;
    if (proc->troubled_ns < until_ns) {
        proc->troubled_ns = until_ns;
    }
}

static void trouble(struct sim *sim, uint32_t node, uint64_t until_ns)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        if (sim->procs[i]->node == node) {
            trouble_one(sim->procs[i], until_ns);
        }
    }
}

static void cut_off_again(struct sim *sim, void *ctx, uint64_t arg);

/* `more` times the path is open for a moment only, in which late answers arrive. */
static void cut_off(struct sim *sim, uint32_t node, uint64_t until_ns, uint64_t more)
{
    uint64_t moment = sim_chance(sim, 50) ? 4 * sim->plan.latency_ns : sim->plan.lease_ns / 10;

    sim_tell(sim, "fault: node %u is cut off until %.6f", node, (double)until_ns / 1e9);
    sim->nodes[node].away_until_ns = until_ns;
    trouble(sim, node, until_ns);
    sim_at(sim, until_ns, heal, NULL, 0);
    if (more > 0) {
        sim_at(sim, until_ns + sim_below(sim, moment), cut_off_again, NULL,
               (more - 1) << 32 | node);
    }
}

static void cut_off_again(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    if (!sim->calm) {
        cut_off(sim, (uint32_t)arg, sim->now_ns + spell(sim), arg >> 32);
    }
}

static void strike_node(struct sim *sim, enum sim_fault fault)
{
    uint32_t node = (uint32_t)sim_below(sim, sim->plan.nodes);
    uint64_t until = sim->now_ns + spell(sim);

    if (fault == SIM_HOST) {
        sim_tell(sim, "fault: node %u dies", node);
        kill_host(sim, node);
    } else if (fault == SIM_PARTITION) {
        cut_off(sim, node, until, sim_chance(sim, 50) ? sim_between(sim, 1, 6) : 0);
    } else {
        sim_tell(sim, "fault: the clock of node %u jumps", node);
        sim->nodes[node].clock.offset_ns += spell(sim);
        trouble(sim, node, sim->now_ns);
        for (uint32_t i = 0; i < sim->proc_count; i++) {
            if (sim->procs[i]->node == node && sim->procs[i]->alive) {
                sim_proc_wake(sim, sim->procs[i], sim->now_ns);
            }
        }
    }
}

static void strike_this(struct sim *sim, struct sim_proc *proc, enum sim_fault fault)
{
    uint64_t until = sim->now_ns + spell(sim);

    if (fault == SIM_CRASH) {
        sim_proc_kill(sim, proc, false);
        return;
    }
    trouble_one(proc, until);
    if (fault == SIM_FREEZE) {
        sim_proc_freeze(sim, proc, until);
        sim_at(sim, until, thaw, proc, 0);
    } else {
        sim_tell(sim, "fault: pid=%" PRIu64 " does not read until %.6f", proc->pid,
                 (double)until / 1e9);
        proc->blind_until_ns = until;
    }
}

static void strike_proc(struct sim *sim, enum sim_fault fault)
{
    struct sim_proc *proc = pick_proc(sim, true);

    if (proc) {
        strike_this(sim, proc, fault);
    }
}

static void strike_agent(struct sim *sim)
{
    for (unsigned tries = 0; tries < 20; tries++) {
        struct sim_proc *proc = pick_proc(sim, true);

        if (proc && proc->kind == SIM_AGENT) {
            strike_this(sim, proc, sim_chance(sim, 50) ? SIM_CRASH : SIM_FREEZE);
            return;
        }
    }
}

static void hold(struct sim *sim, struct sim_conn *conn, uint64_t until_ns)
{
    sim_tell(sim, "fault: connection %" PRIu64 " of pid=%" PRIu64 " is held until %.6f",
             conn->id.id, conn->proc->pid, (double)until_ns / 1e9);
    trouble_one(conn->proc, until_ns);
    sim_net_hold(sim, conn, until_ns);
}

/* Held up just when it begins, and again just when it goes on: when an answer is late, and what
 * should follow it does not come. */
static void hold_early(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_conn *conn = ctx;
    uint64_t until = sim->now_ns + spell(sim);

    if (sim->calm || !conn->end[SIM_CLIENT].open) {
        return;
    }
    hold(sim, conn, until);
    if (arg > 0) {
        sim_at(sim, until + sim_below(sim, 4 * sim->plan.latency_ns), hold_early, conn, arg - 1);
    }
}

void sim_chaos_connection(struct sim *sim, struct sim_conn *conn)
{
    if (!sim->calm && sim->plan.has[SIM_HOLD] && sim_chance(sim, 12)) {
        sim_at(sim, sim->now_ns + sim_below(sim, 6 * sim->plan.latency_ns), hold_early, conn,
               sim_below(sim, 3));
    }
}

static void strike_conn(struct sim *sim, enum sim_fault fault)
{
    struct sim_conn *conn = sim_net_pick(sim);
    uint64_t until = sim->now_ns + spell(sim);

    if (!conn) {
        return;
    }
    if (fault == SIM_CUT) {
        unsigned told = 1 + (unsigned)sim_below(sim, 3);

        sim_tell(sim, "fault: connection %" PRIu64 " of pid=%" PRIu64 " is cut, told=%u",
                 conn->id.id, conn->proc->pid, told);
        trouble_one(conn->proc, sim->now_ns);
        sim_net_cut(sim, conn, told);
    } else {
        hold(sim, conn, until);
    }
}

static void strike_service(struct sim *sim, enum sim_fault fault)
{
    uint64_t until = sim->now_ns + spell(sim);

    sim_tell(sim, "fault: service %s until %.6f", sim_fault_name(fault), (double)until / 1e9);
    for (uint32_t node = 0; node < sim->plan.nodes; node++) {
        trouble(sim, node, until);
    }
    if (fault == SIM_MEMORY) {
        sim->service.memory.fail_1_in = (uint32_t)sim_between(sim, 3, 80);
        sim_at(sim, until, memory_back, NULL, 0);
    } else if (fault == SIM_STALL) {
        sim->service.stalled_until_ns = until;
    } else {
        sim_service_leave(sim, until);
    }
}

static void disk_back(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    sim_journal_full(sim, false);
}

static void strike_journal(struct sim *sim, enum sim_fault fault)
{
    uint64_t until = sim->now_ns + spell(sim);

    if (fault == SIM_FULL) {
        sim_tell(sim, "fault: the disk of the journal is full until %.6f", (double)until / 1e9);
        sim_journal_full(sim, true);
        sim_at(sim, until, disk_back, NULL, 0);
    } else {
        sim_service_doom(sim, fault == SIM_POWER, 1 + sim_below(sim, sim_chance(sim, 50) ? 8 : 80),
                         until - sim->now_ns);
    }
}

static void strike_twin(struct sim *sim)
{
    struct model_job *job = &sim->jobs[sim_below(sim, sim->plan.jobs)];
    uint32_t place = (uint32_t)sim_below(sim, job->places_used);
    struct sim_proc *proc;

    if (job->finished || job->slots[place].loops || sim->proc_count + 8 > SIM_PROCS_MAX) {
        return;
    }
    proc = sim_proc_spawn(sim, SIM_RANK, job, (uint32_t)sim_below(sim, sim->plan.nodes), place);
    proc->slot = place;
    proc->twin = true;
    sim_proc_begin(sim, proc);
}

/* Any agent of its job asks for it. What comes of it is known when the service says so. */
static void strike_network(struct sim *sim)
{
    const struct sim_proc *rank = pick_proc(sim, true);
    struct sim_proc *agent = pick_proc(sim, true);
    struct mst_request request = {.command = MST_CUT};
    uint64_t tag = 0;

    if (!rank || !agent || rank->kind != SIM_RANK || agent->kind != SIM_AGENT ||
        rank->job != agent->job || agent->call_count >= SIM_CALLS_MAX / 2) {
        return;
    }
    request.cut.index = rank->member.index;
    request.cut.incarnation = sim_chance(sim, 50) ? rank->member.incarnation : 0;
    request.cut.for_ms = sim_chance(sim, 25) ? 0 : spell(sim) / SIM_MS;
    sim_tell(sim, "fault: #%" PRIu32 " is to be cut off for %" PRIu64 " ms", request.cut.index,
             request.cut.for_ms);
    (void)sim_proc_call(sim, agent, SIM_OWNER_WORK, &request, SIM_NEVER, &tag);
}

static void strike_notice(struct sim *sim)
{
    struct sim_proc *proc = pick_proc(sim, true);

    if (proc && proc->kind == SIM_RANK) {
        sim_preempt_strike(sim, proc);
    }
}

static void strike(struct sim *sim, enum sim_fault fault)
{
    switch (fault) {
    case SIM_CRASH:
    case SIM_FREEZE:
    case SIM_SLOW:
        strike_proc(sim, fault);
        break;
    case SIM_HOST:
    case SIM_PARTITION:
    case SIM_JUMP:
        strike_node(sim, fault);
        break;
    case SIM_CUT:
    case SIM_HOLD:
        strike_conn(sim, fault);
        break;
    case SIM_STALL:
    case SIM_AWAY:
    case SIM_MEMORY:
        strike_service(sim, fault);
        break;
    case SIM_AGENT_FAULT:
        strike_agent(sim);
        break;
    case SIM_DEATH:
    case SIM_POWER:
    case SIM_FULL:
        strike_journal(sim, fault);
        break;
    case SIM_TWIN:
        strike_twin(sim);
        break;
    case SIM_SEVER:
        strike_network(sim);
        break;
    case SIM_NOTICE:
        strike_notice(sim);
        break;
    case SIM_LOOPER: /* in the plan of the job */
    case SIM_FAIL:   /* these strike in fn */
    case SIM_AGAIN:
    case SIM_HANG:
    case SIM_BROKEN:
    case SIM_LEAVE:
    case SIM_ABORT:
    case SIM_UNHEALTHY:
    case SIM_FAULT_COUNT:
        break;
    }
}

static void next_fault(struct sim *sim, void *ctx, uint64_t arg)
{
    uint64_t total = 0;
    uint64_t at;

    (void)ctx;
    (void)arg;
    if (sim->calm) {
        return;
    }
    sim_at(sim, sim->now_ns + 1 + sim_below(sim, 2 * sim->plan.fault_every_ns), next_fault, NULL,
           0);
    for (unsigned fault = 0; fault < SIM_FAULT_COUNT; fault++) {
        total += sim->plan.has[fault] ? faults[fault].weight : 0;
    }
    if (total == 0 || sim->proc_count == 0) {
        return;
    }
    at = sim_below(sim, total);
    for (unsigned fault = 0; fault < SIM_FAULT_COUNT; fault++) {
        uint64_t weight = sim->plan.has[fault] ? faults[fault].weight : 0;

        if (at < weight) {
            strike(sim, (enum sim_fault)fault);
            return;
        }
        at -= weight;
    }
}

void sim_chaos_start(struct sim *sim)
{
    sim_at(sim, sim_below(sim, 2 * sim->plan.fault_every_ns), next_fault, NULL, 0);
}

void sim_chaos_end(struct sim *sim)
{
    sim->calm = true;
    sim->calm_ns = sim->now_ns;
    sim_tell(sim, "---- faults stop ----");
    sim_service_spare(sim);
    sim->service.memory.fail_1_in = 0;
    sim->service.stalled_until_ns = 0;
    sim->service.away_until_ns = 0;
    for (uint32_t node = 0; node < SIM_NODES_MAX; node++) {
        sim->nodes[node].away_until_ns = 0;
    }
    for (size_t i = sim->net.first_live; i < sim->net.count; i++) {
        sim->net.conns[i]->held_until_ns = 0;
    }
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        proc->blind_until_ns = 0;
        sim_proc_thaw(sim, proc);
        if (proc->troubled_ns > sim->now_ns) { /* but a cut that was asked for goes on */
            proc->troubled_ns = proc->cut_off_ns > sim->now_ns ? proc->cut_off_ns : sim->now_ns;
        }
        if (proc->fn.state == SIM_FN_HUNG && proc->fn.due_ns > sim->now_ns) {
            proc->fn.due_ns = sim->now_ns;
        }
        if (proc->alive) {
            sim_proc_wake(sim, proc, sim->now_ns);
        }
    }
    sim_net_resume(sim);
    sim_service_wake(sim, sim->now_ns);
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        sim_job_calm(sim, &sim->jobs[i]);
    }
}
