/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as the service narrates them: who is lost together, and who is not. Times are the
 * service's. */
#include <stdlib.h>
#include <string.h>

#include "seen.h"

static bool begins(const char *text, const char *event)
{
    return strncmp(text, event, strlen(event)) == 0;
}

/* Of "#2" or "agent#1". */
static uint32_t index_of(const char *text)
{
    return (uint32_t)strtoul(text + strcspn(text, "#") + 1, NULL, 10);
}

/* Somebody's place is its own still. */
static bool holds(const struct sim_proc *proc)
{
    const struct model_member *member = &proc->member;
    const struct model_place *place;

    if (member->incarnation == 0 || member->lost || member->left) {
        return false;
    }
    if (proc->kind == SIM_AGENT) {
        return true; /* and its index may be beyond the places, which are the ranks' */
    }
    place = &proc->job->places[member->index];
    return place->incarnation == member->incarnation &&
           place->lost_incarnation < member->incarnation;
}

struct sim_proc *sim_node_agent(struct sim *sim, const struct model_job *job, uint64_t index)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_AGENT && proc->job == job && holds(proc) &&
            proc->member.index == index) {
            return proc;
        }
    }
    return NULL;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* It was asked, and no answer was refused: an answer of this turn is not seen yet. */
static uint64_t renewed_ns(const struct sim *sim, const struct sim_proc *proc)
{
    return later(later(proc->member.heard_ns, proc->member.asked_ns), sim->service.excused_ns);
}

/* NODE_ALONE */
static void alone(struct sim *sim, const struct sim_proc *rank)
{
    const struct sim_proc *agent =
        rank->member.agent ? sim_node_agent(sim, rank->job, rank->member.agent - 1) : NULL;

    if (agent &&
        sim_service_clock(sim) > renewed_ns(sim, agent) + sim->plan.lease_ns / 5 * 2 + SIM_MS) {
        sim_fail(sim, SIM_P_NODE_ALONE, "#%u is lost, agent#%u was heard %.3f ms ago",
                 rank->member.index, agent->member.index,
                 (double)(sim_service_clock(sim) - renewed_ns(sim, agent)) / 1e6);
    }
}

static void rank_gone(struct sim *sim, struct model_job *job, const char *text)
{
    uint32_t index = index_of(text);
    const struct sim_proc *proc =
        sim_proc_of(sim, job, index, sim_trace_number(text, "incarnation"));

    if (!proc || !begins(text, "member-lost")) {
        return;
    }
    if (job->losing.now && proc->member.agent == job->losing.node + 1) {
        job->losing.ranks_left--;
    } else if (strstr(text, "cause=lease")) {
        alone(sim, proc);
    }
}

/* LEASE_WHOLE, STALL_FORGIVEN, LIVE_NOT_LOST of an agent */
static void agent_lost(struct sim *sim, const struct sim_proc *agent)
{
    uint64_t lease = sim->plan.lease_ns;
    uint64_t now = sim_service_clock(sim);

    if (now < agent->member.heard_ns + lease) {
        sim_fail(sim, SIM_P_LEASE_WHOLE, "agent#%u was heard %.3f ms ago", agent->member.index,
                 (double)(now - agent->member.heard_ns) / 1e6);
    }
    if (sim->service.back_ns != 0 && now < sim->service.back_ns + lease) {
        sim_fail(sim, SIM_P_STALL_FORGIVEN, "agent#%u", agent->member.index);
    }
    if (agent->alive && !agent->frozen && !agent->ended &&
        sim->now_ns > agent->troubled_ns + 2 * lease + 2500 * SIM_MS) {
        sim_fail(sim, SIM_P_LIVE_NOT_LOST, "agent#%u pid=%" PRIu64 " had no trouble since %.6f",
                 agent->member.index, agent->pid, (double)agent->troubled_ns / 1e9);
    }
}

static void agent_event(struct sim *sim, struct model_job *job, const char *text)
{
    struct sim_proc *agent;

    if (begins(text, "member-present")) {
        agent = sim_proc_by_pid(sim, sim_trace_number(text, "pid"));
        if (agent) {
            agent->member.index = index_of(text);
            agent->member.incarnation = sim_trace_number(text, "incarnation");
            agent->member.lost = agent->member.left = false;
        }
        return;
    }
    agent = sim_node_agent(sim, job, index_of(text));
    if (!agent) {
        return;
    }
    if (begins(text, "member-lost")) {
        agent_lost(sim, agent);
        agent->member.lost = true;
        agent->member.gone_ns = sim->now_ns;
        if (agent->member.index == job->losing.node) {
            job->losing.agent_left = false;
        }
    } else if (begins(text, "member-left")) {
        agent->member.left = true;
    }
}

/* NODE_TOGETHER: the members follow, and nobody else is of this node. Claims of it are over. */
static void node_lost(struct sim *sim, struct model_job *job, const char *text)
{
    uint32_t node = (uint32_t)sim_trace_number(text, "node");
    uint32_t ranks = 0;

    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind != SIM_RANK || proc->job != job) {
            continue;
        }
        ranks += proc->member.agent == node + 1 && holds(proc);
        if (proc->member.claims && proc->node == node) {
            proc->member.claims = false;
        }
    }
    if (!sim_node_agent(sim, job, node) || ranks != sim_trace_number(text, "ranks")) {
        sim_fail(sim, SIM_P_NODE_TOGETHER, "node %u has %u ranks: %s", node, ranks, text);
    }
    job->losing =
        (struct model_losing){.now = true, .agent_left = true, .node = node, .ranks_left = ranks};
}

/* NODE_TOGETHER */
void sim_node_over(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        struct model_losing *losing = &sim->jobs[i].losing;

        if (losing->now && (losing->agent_left || losing->ranks_left != 0)) {
            sim_fail(sim, SIM_P_NODE_TOGETHER, "node %u was lost without %u of its ranks%s",
                     losing->node, losing->ranks_left, losing->agent_left ? " and its agent" : "");
        }
        losing->now = false;
    }
}

void sim_node_traced(struct sim *sim, struct model_job *job, const char *text)
{
    struct sim_proc *proc;

    if (begins(text, "node-lost")) {
        node_lost(sim, job, text);
    } else if (begins(text, "member-joining")) {
        proc = sim_proc_by_pid(sim, sim_trace_number(text, "pid"));
        if (proc) {
            proc->member.agent = (uint32_t)(sim_trace_number(text, "node") + 1);
        }
    } else if (begins(text, "member-") && strstr(text, " agent#")) {
        agent_event(sim, job, text);
    } else if (begins(text, "member-lost #") || begins(text, "member-left #")) {
        rank_gone(sim, job, text);
    }
}
