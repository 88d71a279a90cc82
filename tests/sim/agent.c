/* SPDX-License-Identifier: Apache-2.0 */
/* Who starts the ranks of a job. The agent of a node is a process with a session: it tells the
 * deaths of the ranks of its node, and kills those that were evicted. Starting them again is done
 * by the world itself, with a back-off, so that it goes on without agents. */
#include <string.h>

#include "base/panic.h"
#include "properties.h"
#include "sim.h"

#define DEATHS_MAX 8u
#define PROGRESS_MAX 8u

struct death {
    uint64_t at_ns; /* when it is told; SIM_NEVER: being told */
    uint64_t tag;
    uint32_t index;
    uint64_t pid;
    enum mst_cause cause;
    int32_t code;
    bool last; /* the agent says so: another one may follow all the same */
};

struct sim_agent {
    struct death deaths[DEATHS_MAX];
    uint32_t count;
    uint64_t watch_tag, join_tag;
    uint64_t watch_ns; /* when to ask again */
    uint64_t look_ns;  /* when it looks at the pages of its ranks */
    uint64_t after;
    bool joined;
    struct mst_rank_progress progress[PROGRESS_MAX]; /* in its renewals */
};

/* ---- the process ----------------------------------------------------------------------------- */

void sim_agent_start(struct sim *sim, struct sim_proc *proc)
{
    proc->agent = sim_new(sizeof(*proc->agent));
    proc->agent->watch_ns = sim->now_ns;
}

uint64_t sim_agent_due_ns(const struct sim_proc *proc)
{
    const struct sim_agent *agent = proc->agent;
    uint64_t due = proc->ended ? 0 : agent->watch_tag ? SIM_NEVER : agent->watch_ns;

    if (agent->look_ns < due) {
        due = agent->look_ns;
    }
    for (uint32_t i = 0; i < agent->count; i++) {
        if (agent->deaths[i].at_ns < due) {
            due = agent->deaths[i].at_ns;
        }
    }
    return due;
}

static void tell_death(struct sim *sim, struct sim_proc *proc, struct death *death)
{
    struct mst_request request = {.command = MST_LOST,
                                  .lost = {.index = death->index,
                                           .pid = death->pid,
                                           .cause = death->cause,
                                           .code = death->code,
                                           .last = death->last,
                                           .text = mst_slice_text("last words")}};

    death->at_ns = SIM_NEVER;
    (void)sim_proc_call(sim, proc, SIM_OWNER_WORK, &request, SIM_NEVER, &death->tag);
}

static void watch(struct sim *sim, struct sim_proc *proc)
{
    struct sim_agent *agent = proc->agent;
    struct mst_request request = {.command = MST_WATCH,
                                  .watch = {.kinds = MST_WATCH_MEMBERS,
                                            .after = agent->after,
                                            .node = sim->plan.tied ? proc->node : MST_NODE_NONE}};

    (void)sim_proc_call(sim, proc, SIM_OWNER_WORK, &request, SIM_NEVER, &agent->watch_tag);
}

/* Whatever it says of any rank, in its renewals, decides nothing: the journal does not have it, and
 * its copies of the state are the same. */
static void report_progress(struct sim *sim, struct sim_proc *proc)
{
    struct mst_rank_progress *list = proc->agent->progress;
    uint32_t count = 0;

    for (uint32_t i = 0; i < sim->proc_count && count < PROGRESS_MAX; i++) {
        const struct sim_proc *rank = sim->procs[i];

        if (rank->kind == SIM_RANK && rank->job == proc->job && rank->alive && rank->started) {
            list[count++] = (struct mst_rank_progress){
                .index = rank->member.index,
                .pid = rank->pid,
                .generation = rank->fn.view.generation,
                .step = (int64_t)rank->page.pings,
                .stepped = true,
                .rate = 1000,
                .work = MST_WORK_WAITS,
                .work_us = 1000 * (1 + (uint32_t)rank->pid % 3),
                .share = 900,
                .section = mst_slice_text(rank->pid % 2 == 0 ? "forward" : ""),
            };
        }
    }
    mst_client_report(proc->client, list, count);
}

void sim_agent_step(struct sim *sim, struct sim_proc *proc)
{
    struct sim_agent *agent = proc->agent;

    if (proc->ended) {
        sim_proc_exit(sim, proc, 4);
        return;
    }
    if (!agent->watch_tag && agent->watch_ns <= sim->now_ns) {
        agent->watch_ns = SIM_NEVER;
        watch(sim, proc);
    }
    report_progress(sim, proc);
    if (agent->look_ns <= sim->now_ns) {
        agent->look_ns = sim_pages_look(sim, proc);
    }
    for (uint32_t i = 0; i < agent->count; i++) {
        if (agent->deaths[i].at_ns <= sim->now_ns) {
            tell_death(sim, proc, &agent->deaths[i]);
        }
    }
}

/* A rank of this node that the service has given up is killed, whatever it does. */
static void heed_member(struct sim *sim, struct sim_proc *proc, const struct mst_who *who)
{
    if (who->state != MST_STATE_LOST || who->role != MST_ROLE_RANK) {
        return;
    }
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *rank = sim->procs[i];

        if (rank->alive && rank->pid == who->pid && rank->job == proc->job &&
            rank->node == proc->node) {
            sim_proc_kill(sim, rank, false);
        }
    }
}

static void watched(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_agent *agent = proc->agent;

    agent->watch_tag = 0;
    agent->watch_ns = sim->now_ns;
    if (reply->status != MUSTER_OK) {
        agent->watch_ns += sim->plan.lease_ns / 10;
        return;
    }
    sim_saw_watch(sim, proc, agent->after, reply);
    agent->after = reply->revision;
    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].kind == MST_ITEM_MEMBER) {
            heed_member(sim, proc, &reply->items[i].who);
        }
    }
}

void sim_agent_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                    const struct mst_reply *reply)
{
    struct sim_agent *agent = proc->agent;

    if (tag == agent->watch_tag) {
        watched(sim, proc, reply);
        return;
    }
    for (uint32_t i = 0; i < agent->count; i++) {
        if (agent->deaths[i].tag != tag) {
            continue;
        }
        if (reply->status == MUSTER_OK) {
            agent->deaths[i] = agent->deaths[--agent->count];
        } else { /* out of memory: again */
            agent->deaths[i].at_ns = sim->now_ns + sim->plan.lease_ns / 20;
            agent->deaths[i].tag = 0;
        }
        return;
    }
}

/* ---- the job --------------------------------------------------------------------------------- */

static struct sim_proc *holder(struct sim *sim, const struct model_job *job, uint32_t place)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_RANK && proc->job == job && proc->slot == place && proc->alive) {
            return proc;
        }
    }
    return NULL;
}

static struct sim_proc *agent_of(struct sim *sim, const struct model_job *job, uint32_t node)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_AGENT && proc->job == job && proc->node == node && proc->alive) {
            return proc;
        }
    }
    return NULL;
}

static void spawn_rank(struct sim *sim, void *ctx, uint64_t arg)
{
    struct model_job *job = ctx;
    uint32_t place = (uint32_t)arg;
    struct model_slot *slot = &job->slots[place];
    struct sim_proc *proc;

    slot->spawning = false;
    if (job->finished || slot->done || holder(sim, job, place) ||
        sim->proc_count + 8 > SIM_PROCS_MAX) {
        return;
    }
    proc = sim_proc_spawn(sim, SIM_RANK, job, slot->node, job->any_index ? MST_INDEX_ANY : place);
    proc->slot = place;
    if (slot->loops && !sim->calm) {
        proc->looper = true;
        proc->looper_dies = slot->loops - 1;
        if (proc->looper_dies == 0) {
            proc->suicide_ns = sim->now_ns + sim_below(sim, sim->plan.lease_ns / 4);
        }
    }
    sim_proc_begin(sim, proc);
}

static void spawn_agent(struct sim *sim, void *ctx, uint64_t arg)
{
    struct model_job *job = ctx;
    uint32_t node = (uint32_t)arg;

    if (!agent_of(sim, job, node) && !job->over && sim->proc_count + 8 <= SIM_PROCS_MAX) {
        sim_proc_begin(
            sim, sim_proc_spawn(sim, SIM_AGENT, job, node, sim->plan.tied ? node : MST_INDEX_ANY));
    }
}

static void spawn_observer(struct sim *sim, void *ctx, uint64_t arg)
{
    struct model_job *job = ctx;

    if (!sim->calm && sim->proc_count + 8 <= SIM_PROCS_MAX) {
        sim_proc_begin(sim, sim_proc_spawn(sim, SIM_OBSERVER, job, (uint32_t)arg, 0));
    }
}

void sim_job_start(struct sim *sim, struct model_job *job)
{
    uint64_t spread = sim->plan.lease_ns / 3;

    for (uint32_t node = 0; node < sim->plan.nodes; node++) {
        sim_at(sim, sim->now_ns + sim_below(sim, spread), spawn_agent, job, node);
    }
    for (uint32_t place = 0; place < job->places_used; place++) {
        struct model_slot *slot = &job->slots[place];
        uint64_t late = slot->late_ns ? slot->late_ns : sim_below(sim, spread);

        slot->node = (uint32_t)sim_below(sim, sim->plan.nodes);
        slot->spawning = true;
        sim_at(sim, sim->now_ns + late, spawn_rank, job, place);
    }
    for (uint32_t i = 0; i < sim->plan.observers; i++) {
        sim_at(sim, sim->now_ns + sim_below(sim, spread), spawn_observer, job,
               sim_below(sim, sim->plan.nodes));
    }
}

static uint64_t backoff(struct sim *sim, struct model_slot *slot)
{
    uint64_t least = sim->plan.respawns_fast ? sim->plan.lease_ns / 10 : sim->plan.lease_ns / 2;

    if (slot->backoff_ns < least || sim->now_ns - slot->spawned_ns > 8 * sim->plan.lease_ns) {
        slot->backoff_ns = least;
    } else if (slot->backoff_ns < 6 * sim->plan.lease_ns) {
        slot->backoff_ns *= 2;
    }
    return slot->backoff_ns;
}

static void respawn(struct sim *sim, struct model_job *job, uint32_t place)
{
    struct model_slot *slot = &job->slots[place];

    if (!slot->spawning && !slot->done && !job->finished) {
        uint64_t at = sim->now_ns + backoff(sim, slot);

        slot->spawning = true;
        slot->spawned_ns = at;
        sim_at(sim, at, spawn_rank, job, place);
    }
}

static void notice(struct sim *sim, const struct sim_proc *proc)
{
    struct sim_proc *agent = agent_of(sim, proc->job, proc->node);
    struct death *death;

    if (!sim->plan.notices || proc->job->any_index || !agent || agent->agent->count == DEATHS_MAX) {
        return;
    }
    death = &agent->agent->deaths[agent->agent->count++];
    *death = (struct death){.at_ns = sim->now_ns + sim_below(sim, sim->plan.lease_ns / 20),
                            .index = proc->place,
                            .pid = proc->pid,
                            .cause = proc->hard            ? MST_CAUSE_HARD_TIMEOUT
                                     : proc->exit_code < 0 ? MST_CAUSE_SIGNAL
                                                           : MST_CAUSE_EXIT,
                            .code = proc->exit_code < 0 ? -proc->exit_code : proc->exit_code,
                            .last = sim_chance(sim, 10)};
    sim_proc_wake(sim, agent, death->at_ns);
}

/* When the run of a job is over, who still waits to join is sent home; but who waits in its run is
 * told, if the run was completed: else the simulation never ends. */
static void send_home(struct sim *sim, struct model_job *job)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        const struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_RANK && proc->job == job && proc->alive &&
            ((proc->started && (!proc->waits || job->completed)) || !job->finished)) {
            return;
        }
    }
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_RANK && proc->job == job && proc->alive) {
            sim_proc_exit(sim, proc, 15);
        }
    }
    if (!job->over) {
        sim_tell(sim, "%s: the job is over", job->name);
    }
    job->over = true;
}

static bool all_done(const struct model_job *job)
{
    for (uint32_t place = 0; place < job->places_used; place++) {
        if (!job->slots[place].done) {
            return false;
        }
    }
    return true;
}

void sim_job_death(struct sim *sim, struct sim_proc *proc)
{
    struct model_job *job = proc->job;

    if (job->over) {
        return;
    }
    switch (proc->kind) {
    case SIM_RANK:
        if (proc->exit_code == 0) {
            job->slots[proc->slot].done = true;
            job->completed = job->completed || !proc->leaves;
            job->finished = job->completed || all_done(job);
        } else {
            notice(sim, proc);
            respawn(sim, job, proc->slot);
        }
        if (job->finished) {
            send_home(sim, job);
        }
        break;
    case SIM_AGENT:
        sim_at(sim, sim->now_ns + sim_between(sim, 1, sim->plan.lease_ns), spawn_agent, job,
               proc->node);
        break;
    case SIM_OBSERVER:
        sim_at(sim, sim->now_ns + sim_between(sim, 1, sim->plan.lease_ns), spawn_observer, job,
               sim_below(sim, sim->plan.nodes));
        break;
    case SIM_AUDITOR:
    case SIM_COORDINATOR:
    case SIM_WORKER:
        break;
    }
}

/* From now on every place is filled, and nothing fails any more. */
void sim_job_calm(struct sim *sim, struct model_job *job)
{
    for (uint32_t place = 0; place < job->places_used; place++) {
        job->slots[place].loops = 0;
        if (!holder(sim, job, place) && !job->over) {
            respawn(sim, job, place);
        }
    }
}

bool sim_job_over(const struct sim *sim, const struct model_job *job)
{
    (void)sim;
    return job->over;
}
