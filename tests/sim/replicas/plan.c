/* SPDX-License-Identifier: Apache-2.0 */
/* What a seed decides: sizes, times, which kinds of faults exist at all, and when each strikes. */
#include <string.h>

#include "base/panic.h"
#include "service.h"

static uint64_t pick(struct sim *sim, const uint64_t *of, size_t count)
{
    return of[sim_below(sim, count)];
}

static void draw_faults(struct replicas *replicas)
{
    struct rep_plan *plan = &replicas->plan;
    struct sim *sim = &replicas->sim;
    bool none = sim_chance(sim, 8);

    for (uint32_t i = 0; i < REP_FAULTS; i++) {
        plan->has[i] = !none && sim_chance(sim, 40);
    }
    plan->has[REP_REPLACE] = plan->has[REP_REPLACE] && plan->hosts > plan->voters;
}

void rep_plan_draw(struct replicas *replicas)
{
    static const uint64_t counts[] = {1, 3, 3, 3, 3, 3, 5, 5};
    struct rep_plan *plan = &replicas->plan;
    struct sim *sim = &replicas->sim;

    plan->voters = (uint32_t)pick(sim, counts, sizeof(counts) / sizeof(*counts));
    plan->hosts = plan->voters + (plan->voters > 1 ? (uint32_t)sim_below(sim, 3) : 0);
    plan->members = 1 + (uint32_t)sim_below(sim, REP_MEMBERS_MAX);
    plan->grows = plan->voters > 1 && sim_chance(sim, 40);
    plan->sync = sim_chance(sim, 50);
    plan->lease_ns = (6 + sim_below(sim, 7)) * 1000 * SIM_MS;
    plan->election_ns = (uint64_t)mst_replica_election_ms(plan->lease_ns) * SIM_MS;
    plan->latency_ns = SIM_MS / 20 + sim_below(sim, 2 * SIM_MS);
    plan->patience_ns = sim_between(sim, 1000, 2500) * SIM_MS;
    plan->write_ns = sim_between(sim, 1, plan->election_ns / SIM_MS / 2) * SIM_MS;
    plan->snapshot_every = sim_between(sim, 10, 120);
    plan->digest_every = sim_between(sim, 10, 60);
    plan->trailing = sim_between(sim, 1, 60);
    plan->segment_bytes = sim_between(sim, 8, 64) * 1024;
    plan->chunk_bytes = sim_between(sim, 1, 16) * 1024;
    plan->pause_ns = sim_chance(sim, 50) ? plan->election_ns / 2 : plan->lease_ns / 6;
    plan->chaos_ns = sim_between(sim, 2, 8) * plan->lease_ns;
    plan->strike_ns = plan->election_ns + sim_below(sim, plan->lease_ns);
    draw_faults(replicas);
    sim_tell(sim,
             "voters=%u hosts=%u members=%u grows=%d sync=%d lease=%.3fs election=%.3fs "
             "latency=%.3fms chaos=%.3fs",
             plan->voters, plan->hosts, plan->members, plan->grows, plan->sync,
             (double)plan->lease_ns / 1e9, (double)plan->election_ns / 1e9,
             (double)plan->latency_ns / 1e6, (double)plan->chaos_ns / 1e9);
    sim_tell(sim, "faults: %s%s%s%s%s%s%s%s%s%s%s", plan->has[REP_KILL] ? "kill " : "",
             plan->has[REP_POWER] ? "power " : "", plan->has[REP_CUT] ? "cut " : "",
             plan->has[REP_PART] ? "partition " : "", plan->has[REP_FREEZE] ? "freeze " : "",
             plan->has[REP_FULL] ? "full " : "", plan->has[REP_MEMORY] ? "memory " : "",
             plan->has[REP_SLOW] ? "slow " : "", plan->has[REP_BREAK] ? "break " : "",
             plan->has[REP_REPLACE] ? "replace " : "", plan->has[REP_DIVERGE] ? "diverge " : "");
}

/* ---- hosts ------------------------------------------------------------------------------------
 */

/* Whether the group survives when this host forgets what it had: every configuration that may
 * count keeps a majority of voters with their logs. Until the leader has removed a standby that
 * has forgotten its log, it may make it a voter: it counts as one. */
static bool can_lose(const struct replicas *replicas, uint32_t index)
{
    bool led = false;

    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        const struct rep_service *service = replicas->hosts[i].service;
        struct mst_replica_status status;
        size_t voters = 0;
        size_t left = 0;

        if (!rep_service_serves(replicas, i)) {
            continue;
        }
        led = true;
        mst_replica_status_of(service->replica, &status);
        for (size_t k = 0; k < status.servers->count; k++) {
            const struct mst_replica_server *server = &status.servers->of[k];
            uint32_t at = rep_host_at(server->address);
            const struct rep_host *host = &replicas->hosts[at];
            bool keeps = at != index && host->up && !host->wiped && !host->service->diverged &&
                         host->id == server->id;

            if (server->role == MST_REPLICA_VOTER || !keeps) {
                voters++;
                left += keeps && status.of[k].match > 0;
            }
        }
        if (status.changing || left * 2 <= voters) {
            return false;
        }
    }
    return led;
}

static void back(struct sim *sim, void *ctx, uint64_t boot)
{
    struct rep_host *host = ctx;
    struct replicas *replicas = rep_of(sim);

    if (!host->up && !host->gone && host->boot == boot) {
        sim_tell(sim, "host %u is back", host->index);
        host->up = true;
        replicas->wire.down[host->index] = false;
        rep_service_start(replicas, host->index);
    }
}

static void host_down(struct replicas *replicas, uint32_t index, bool for_good)
{
    struct rep_host *host = &replicas->hosts[index];
    struct sim *sim = &replicas->sim;

    sim_tell(sim, "fault: host %u loses its power%s", index, for_good ? " for good" : "");
    host->up = false;
    host->gone = for_good;
    host->boot++;
    host->down_ns = sim->now_ns;
    replicas->wire.down[index] = true;
    for (uint32_t i = 0; i < replicas->plan.members; i++) {
        if (replicas->members[i].actor.host == index) {
            rep_member_kill(replicas, &replicas->members[i], true);
        }
    }
    rep_service_kill(replicas, index, true);
    sim_at(sim, sim->now_ns + sim_between(sim, 1, 3 * replicas->plan.election_ns), back, host,
           host->boot);
}

/* Its disk dies in the midst of an operation, and perhaps its host with it. */
bool rep_host_dies(struct replicas *replicas, uint32_t index)
{
    struct rep_host *host = &replicas->hosts[index];
    bool dies = host->with_host && (replicas->plan.sync || can_lose(replicas, index));

    host->with_host = false;
    if (dies) {
        host_down(replicas, index, false);
    }
    return dies;
}

/* ---- strikes ----------------------------------------------------------------------------------
 */

static uint32_t any_host(struct replicas *replicas)
{
    struct sim *sim = &replicas->sim;

    /* The leader more often than another one. */
    for (uint32_t i = 0; i < replicas->plan.hosts && sim_chance(sim, 85); i++) {
        if (replicas->hosts[i].service->serves && sim_chance(sim, 50)) {
            return i;
        }
    }
    return (uint32_t)sim_below(sim, replicas->plan.hosts);
}

static uint64_t a_while(struct replicas *replicas)
{
    struct sim *sim = &replicas->sim;

    return sim_chance(sim, 70)
               ? sim_between(sim, replicas->plan.election_ns / 4, 6 * replicas->plan.election_ns)
               : sim_between(sim, replicas->plan.lease_ns / 4, replicas->plan.lease_ns * 3 / 2);
}

static void strike_kill(struct replicas *replicas, uint32_t host)
{
    struct sim *sim = &replicas->sim;

    if (sim_chance(sim, 30)) {
        sim_tell(sim, "fault: the service of host %u is killed", host);
        rep_service_kill(replicas, host, false);
    } else {
        replicas->hosts[host].disk.dies_in = 1 + sim_below(sim, 30);
        replicas->hosts[host].with_host = replicas->plan.has[REP_POWER] && sim_chance(sim, 40);
        sim_tell(sim, "fault: the service of host %u dies in %" PRIu64 " operations", host,
                 replicas->hosts[host].disk.dies_in);
    }
}

static void strike_power(struct replicas *replicas, uint32_t host)
{
    if (replicas->hosts[host].up && (replicas->plan.sync || can_lose(replicas, host))) {
        host_down(replicas, host, false);
    }
}

static void cut(struct replicas *replicas, uint32_t from, uint32_t to, uint64_t until)
{
    if (from != to && until > replicas->wire.cut_ns[from][to]) {
        replicas->wire.cut_ns[from][to] = until;
    }
}

static void look_again(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    rep_oracle_reach(rep_of(sim));
}

static void strike_cut(struct replicas *replicas, uint32_t host)
{
    struct sim *sim = &replicas->sim;
    uint64_t until = sim->now_ns + a_while(replicas);
    bool from = sim_chance(sim, 50);

    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        if (i != host && sim_chance(sim, 60)) {
            sim_tell(sim, "fault: nothing passes from host %u to %u until %.6f", from ? host : i,
                     from ? i : host, (double)until / 1e9);
            cut(replicas, from ? host : i, from ? i : host, until);
        }
    }
    sim_at(sim, until, look_again, NULL, 0);
}

static void strike_part(struct replicas *replicas, uint32_t host)
{
    struct sim *sim = &replicas->sim;
    uint64_t until = sim->now_ns + a_while(replicas);
    uint64_t sides = sim_chance(sim, 50) ? UINT64_C(1) << host : mst_prng_next(&sim->prng);

    sim_tell(sim, "fault: hosts %02" PRIx64 " are cut off until %.6f",
             sides & ((UINT64_C(1) << replicas->plan.hosts) - 1), (double)until / 1e9);
    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        for (uint32_t k = 0; k < replicas->plan.hosts; k++) {
            if ((sides >> i & 1) != (sides >> k & 1)) {
                cut(replicas, i, k, until);
            }
        }
    }
    sim_at(sim, until, look_again, NULL, 0);
}

static void thaw(struct sim *sim, void *ctx, uint64_t life)
{
    struct rep_actor *actor = ctx;

    if (actor->alive && actor->frozen && actor->life == life) {
        actor->frozen = false;
        rep_wake(rep_of(sim), actor, sim->now_ns);
    }
}

static void strike_freeze(struct replicas *replicas, uint32_t host)
{
    struct sim *sim = &replicas->sim;
    struct rep_actor *actor = &replicas->hosts[host].service->actor;
    uint64_t until = sim->now_ns + a_while(replicas);

    if (sim_chance(sim, 15)) {
        actor = &replicas->members[sim_below(sim, replicas->plan.members)].actor;
    }
    if (actor->alive && !actor->frozen) {
        sim_tell(sim, "fault: a process of host %u is frozen until %.6f", actor->host,
                 (double)until / 1e9);
        actor->frozen = true;
        sim_at(sim, until, thaw, actor, actor->life);
    }
}

static void disk_well(struct sim *sim, void *ctx, uint64_t arg)
{
    struct rep_host *host = ctx;

    (void)arg;
    host->disk.full = false;
    host->slow_ns = 0;
    host->service->memory.fail_1_in = 0;
    rep_oracle_reach(rep_of(sim));
}

static void strike_host(struct replicas *replicas, uint32_t index, enum rep_fault fault)
{
    struct rep_host *host = &replicas->hosts[index];
    struct sim *sim = &replicas->sim;
    uint64_t until = sim->now_ns + a_while(replicas);

    sim_tell(sim, "fault: host %u %s until %.6f", index,
             fault == REP_FULL   ? "has a full disk"
             : fault == REP_SLOW ? "has a slow disk"
                                 : "has little memory",
             (double)until / 1e9);
    if (fault == REP_FULL) {
        host->disk.full = true;
    } else if (fault == REP_SLOW) {
        host->slow_ns = replicas->plan.write_ns;
    } else {
        host->service->memory.fail_1_in = 20 + (uint32_t)sim_below(sim, 400);
    }
    sim_at(sim, until, disk_well, host, 0);
}

/* Whose connection breaks has to look for the service again from now on. */
static void begin_search(struct replicas *replicas, const struct rep_link *link)
{
    for (uint32_t i = 0; i < replicas->plan.members; i++) {
        if (replicas->members[i].link == link) {
            replicas->members[i].reach_ns = SIM_NEVER;
        }
    }
}

static void strike_break(struct replicas *replicas)
{
    struct rep_wire *wire = &replicas->wire;
    struct sim *sim = &replicas->sim;

    for (uint32_t i = wire->first_live; i < wire->count; i++) {
        struct rep_link *link = wire->links[i];

        if (link->attempt == REP_ACCEPTED && (link->ends[0].owner || link->ends[1].owner) &&
            sim_chance(sim, 30)) {
            sim_tell(sim, "fault: a connection of hosts %u and %u breaks", link->hosts[0],
                     link->hosts[1]);
            begin_search(replicas, link);
            rep_link_break(replicas, link);
        }
    }
}

static void strike_replace(struct replicas *replicas, uint32_t host)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        left += !replicas->hosts[i].gone;
    }
    if (replicas->hosts[host].up && left > replicas->plan.voters && can_lose(replicas, host)) {
        host_down(replicas, host, true);
    }
}

static void strike_diverge(struct replicas *replicas, uint32_t host)
{
    if (can_lose(replicas, host)) {
        rep_service_diverge(replicas, host);
    }
}

static void strike(struct sim *sim, void *ctx, uint64_t arg)
{
    struct replicas *replicas = ctx;
    enum rep_fault fault = (enum rep_fault)sim_below(sim, REP_FAULTS);
    uint32_t host = any_host(replicas);

    (void)arg;
    if (sim->calm) {
        return;
    }
    sim_at(sim, sim->now_ns + sim_below(sim, 2 * replicas->plan.strike_ns / 3), strike, replicas,
           0);
    if (!replicas->plan.has[fault]) {
        return;
    }
    switch (fault) {
    case REP_KILL:
        strike_kill(replicas, host);
        break;
    case REP_POWER:
        strike_power(replicas, host);
        break;
    case REP_CUT:
        strike_cut(replicas, host);
        break;
    case REP_PART:
        strike_part(replicas, host);
        break;
    case REP_FREEZE:
        strike_freeze(replicas, host);
        break;
    case REP_FULL:
    case REP_SLOW:
    case REP_MEMORY:
        strike_host(replicas, host, fault);
        break;
    case REP_BREAK:
        strike_break(replicas);
        break;
    case REP_REPLACE:
        strike_replace(replicas, host);
        break;
    case REP_DIVERGE:
        strike_diverge(replicas, host);
        break;
    case REP_FAULTS:
        break;
    }
    rep_oracle_reach(replicas);
}

void rep_chaos_start(struct replicas *replicas)
{
    sim_at(&replicas->sim, replicas->plan.strike_ns, strike, replicas, 0);
}

/* Nothing strikes any more, and what is not dead for good is there. */
void rep_calm(struct replicas *replicas)
{
    struct sim *sim = &replicas->sim;

    sim_tell(sim, "calm");
    sim->calm = true;
    memset(replicas->wire.cut_ns, 0, sizeof(replicas->wire.cut_ns));
    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        struct rep_host *host = &replicas->hosts[i];

        host->disk.dies_in = 0;
        host->with_host = false;
        disk_well(sim, host, 0);
        back(sim, host, host->boot);
        thaw(sim, &host->service->actor, host->service->actor.life);
    }
    for (uint32_t i = 0; i < replicas->plan.members; i++) {
        thaw(sim, &replicas->members[i].actor, replicas->members[i].actor.life);
    }
    rep_oracle_reach(replicas);
}
