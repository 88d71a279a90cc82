/* SPDX-License-Identifier: Apache-2.0 */
/* The progress pages: what a rank says of itself without a word to the service, and what the agent
 * of its node makes of it, by the rules of restart/hang.h. What those find is compared with what
 * the world knows: when the rank last did something. */
#include "properties.h"
#include "sim.h"

#define PHASES 8u

void sim_page_turn(const struct sim *sim, struct sim_proc *proc, enum sim_phase phase)
{
    struct sim_page *page = &proc->page;

    page->turn = (page->turn / PHASES + 1) * PHASES + (unsigned)phase;
    page->checks_start = page->checks;
    page->pings_start = page->pings;
    page->turn_ns = sim->now_ns;
    page->changed_ns = sim->now_ns;
}

void sim_page_check(const struct sim *sim, struct sim_proc *proc)
{
    struct sim_page *page = &proc->page;

    page->checks++;
    if (page->pings == page->pings_start) {
        page->changed_ns = sim->now_ns;
    }
}

void sim_page_ping(const struct sim *sim, struct sim_proc *proc)
{
    proc->page.pings++;
    proc->page.changed_ns = sim->now_ns;
}

void sim_page_told(const struct sim *sim, struct sim_proc *proc)
{
    if (proc->page.told != proc->page.turn) {
        proc->page.told = proc->page.turn;
        proc->page.told_ns = sim->now_ns;
    }
}

/* ---- the agent's look ------------------------------------------------------------------------ */

static bool runs_late(const struct sim_proc *proc)
{
    return proc->fn.state == SIM_FN_COMPUTING &&
           proc->fn.due_ns > proc->page.changed_ns + proc->job->soft_ns;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Since when it has done nothing that counts, as the world knows; SIM_NEVER: no clock runs. */
static uint64_t since_ns(const struct sim_proc *proc, bool hard)
{
    const struct sim_page *page = &proc->page;
    enum sim_phase phase = (enum sim_phase)(page->turn % PHASES);
    bool counted = page->checks != page->checks_start || page->pings != page->pings_start;

    if (phase == SIM_PHASE_AFTER) {
        return hard ? page->turn_ns : SIM_NEVER;
    }
    if (phase != SIM_PHASE_FUNCTION) {
        return SIM_NEVER;
    }
    counted = counted || proc->job->from_start;
    if (page->told != page->turn) {
        return counted ? page->changed_ns : SIM_NEVER;
    }
    if (!hard) {
        return SIM_NEVER;
    }
    return counted && page->changed_ns < page->told_ns ? page->changed_ns : page->told_ns;
}

/* HANG_EARLY: neither verdict before its time; HANG_RIGHT: nobody is ended who does something. */
static void check_verdict(struct sim *sim, const struct sim_proc *agent,
                          const struct sim_proc *proc, bool hard)
{
    const struct model_job *job = proc->job;
    uint64_t limit = hard ? job->hard_ns : job->soft_ns;
    /* Its agent may have been refused when it blamed it. */
    bool refused = sim->plan.has[SIM_FULL] || sim->plan.has[SIM_MEMORY];
    uint64_t since = since_ns(proc, hard);
    bool stuck = proc->frozen || proc->fn.state == SIM_FN_HUNG || proc->unwind_ns != SIM_NEVER ||
                 runs_late(proc);

    /* Clocks run at other rates; and of a jump of its clock the agent does not see what ends before
     * its next look, which is after an eighth of the limit at the latest. */
    if (since == SIM_NEVER ||
        sim->now_ns + limit / (sim->plan.has[SIM_JUMP] ? 3 : 40) < since + limit) {
        sim_fail(sim, SIM_P_HANG_EARLY, "pid=%" PRIu64 " %s after %.3f ms", proc->pid,
                 hard ? "is ended" : "is blamed",
                 since == SIM_NEVER ? 0.0 : (double)(sim->now_ns - since) / 1e6);
    }
    if (hard && !stuck && !refused && proc->troubled_ns + limit + SIM_MS < sim->now_ns &&
        agent->troubled_ns + limit + SIM_MS < sim->now_ns) {
        sim_fail(sim, SIM_P_HANG_RIGHT, "pid=%" PRIu64 " is ended, fn=%d", proc->pid,
                 (int)proc->fn.state);
    }
}

/* HANG_ENDED */
static void check_late(struct sim *sim, const struct sim_proc *agent, const struct sim_proc *proc)
{
    const struct model_job *job = proc->job;
    uint64_t since = since_ns(proc, true);
    uint64_t slack = job->hard_ns / 4 + sim->plan.lease_ns / 5 + SIM_MS;

    if (since != SIM_NEVER && proc->alive &&
        sim->now_ns >
            later(since, later(agent->troubled_ns, agent->born_ns)) + job->hard_ns + slack) {
        sim_fail(sim, SIM_P_HANG_ENDED, "pid=%" PRIu64 " does nothing since %.6f", proc->pid,
                 (double)since / 1e9);
    }
}

static void blame(struct sim *sim, struct sim_proc *agent, const struct sim_proc *proc)
{
    struct mst_request request = {.command = MST_FAULT,
                                  .fault = {.generation = proc->fn.view.generation,
                                            .kind = MST_CAUSE_SOFT_TIMEOUT,
                                            .text = mst_slice_text("no progress"),
                                            .pid = proc->pid,
                                            .index = proc->member.index}};
    uint64_t tag = 0;

    sim_tell(sim, "%s: pid=%" PRIu64 " makes no progress", proc->job->name, proc->pid);
    if (agent->call_count < SIM_CALLS_MAX / 2) {
        (void)sim_proc_call(sim, agent, SIM_OWNER_WORK, &request, SIM_NEVER, &tag);
    }
}

static uint64_t look(struct sim *sim, struct sim_proc *agent, struct sim_proc *proc)
{
    const struct sim_page *page = &proc->page;
    const struct mst_hang_sample sample = {
        .turn = page->turn,
        .told = page->told,
        .checks = page->checks,
        .pings = page->pings,
        .soft_ms = (int64_t)(proc->job->soft_ns / SIM_MS),
        .hard_ms = (int64_t)(proc->job->hard_ns / SIM_MS),
        .section_limit_ms = -1,
        .from_start = proc->job->from_start,
        .start_known = true,
        .checks_start = page->checks_start,
        .pings_start = page->pings_start,
    };
    struct mst_hang_finding finding;

    if (proc->watcher != agent->pid) {
        proc->watcher = agent->pid;
        mst_hang_init(&proc->hang);
    }
    finding = mst_hang_look(&proc->hang, sim_proc_clock(sim, agent), &sample);
    if (finding.verdict == MST_HANG_SOFT) {
        check_verdict(sim, agent, proc, false);
        blame(sim, agent, proc);
    } else if (finding.verdict == MST_HANG_HARD) {
        check_verdict(sim, agent, proc, true);
        sim_tell(sim, "%s: pid=%" PRIu64 " is ended, it does nothing", proc->job->name, proc->pid);
        proc->hard = true;
        sim_proc_kill(sim, proc, false);
    }
    check_late(sim, agent, proc);
    return sim_clock_when(&sim->nodes[agent->node].clock, mst_hang_deadline_ns(&proc->hang));
}

uint64_t sim_pages_look(struct sim *sim, struct sim_proc *agent)
{
    uint64_t next = sim->now_ns + sim->plan.lease_ns / 10;

    if (agent->job->soft_ns == 0) {
        return SIM_NEVER;
    }
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_RANK && proc->job == agent->job && proc->node == agent->node &&
            proc->alive && proc->started) {
            uint64_t due = look(sim, agent, proc);

            next = due < next ? due : next;
        }
    }
    return next > sim->now_ns ? next : sim->now_ns + SIM_MS;
}
