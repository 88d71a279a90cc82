/* SPDX-License-Identifier: Apache-2.0 */
/* One run of one seed: faults, then calm, then what must have come of it. */
#include <stdio.h>
#include <stdlib.h>

#include "../properties.h"
#include "base/digest.h"
#include "base/panic.h"
#include "plant.h"
#include "service.h"

#define EVENTS_MAX UINT64_C(6000000)

static struct rep_service *server(struct replicas *replicas)
{
    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        if (rep_service_serves(replicas, i)) {
            return replicas->hosts[i].service;
        }
    }
    return NULL;
}

/* ---- members come back ------------------------------------------------------------------------
 */

static void tend_members(struct replicas *replicas)
{
    struct sim *sim = &replicas->sim;

    for (uint32_t i = 0; i < replicas->plan.members; i++) {
        struct rep_member *member = &replicas->members[i];
        uint32_t host = member->actor.host;

        if (member->actor.frozen || (member->actor.alive && !member->ended)) {
            continue;
        }
        rep_member_kill(replicas, member, false);
        if (replicas->hosts[host].gone) {
            host = (uint32_t)sim_below(sim, replicas->plan.hosts);
        }
        if (replicas->hosts[host].up) {
            rep_member_begin(replicas, i, host);
        }
    }
}

/* ---- the calm ---------------------------------------------------------------------------------
 */

/* LEADS_AGAIN */
static void check_leads(struct replicas *replicas)
{
    struct sim *sim = &replicas->sim;
    uint64_t limit = sim->calm_ns + 10 * replicas->plan.election_ns;

    if (replicas->oracle.calm_leads_ns == 0 && server(replicas)) {
        replicas->oracle.calm_leads_ns = sim->now_ns;
        sim_tell(sim, "a service serves %.3f s after the faults",
                 (double)(sim->now_ns - sim->calm_ns) / 1e9);
    }
    if (replicas->oracle.calm_leads_ns == 0 && sim->now_ns > limit) {
        sim_fail(sim, SIM_P_LEADS_AGAIN, "no service serves %.3f s after the faults",
                 (double)(sim->now_ns - sim->calm_ns) / 1e9);
    }
}

/* VOTERS_WANTED */
static void check_voters(struct replicas *replicas, const struct rep_service *leader)
{
    struct mst_replica_status status;
    size_t voters = 0;

    mst_replica_status_of(leader->replica, &status);
    for (size_t i = 0; i < status.servers->count; i++) {
        const struct mst_replica_server *one = &status.servers->of[i];
        const struct rep_host *host = &replicas->hosts[one->address[1] - '0'];

        if (one->role != MST_REPLICA_VOTER) {
            continue;
        }
        voters++;
        if (!host->up || host->id != one->id) {
            sim_fail(&replicas->sim, SIM_P_VOTERS_WANTED, "voter %" PRIu64 " of host %u is dead",
                     one->id, host->index);
        }
        if (host->service->applied + 8 < status.applied) {
            sim_fail(&replicas->sim, SIM_P_CATCHES_UP,
                     "host %u has applied entry %" PRIu64 ", the leader %" PRIu64, host->index,
                     host->service->applied, status.applied);
        }
    }
    if (voters != replicas->plan.voters) {
        sim_fail(&replicas->sim, SIM_P_VOTERS_WANTED, "%zu voters, and %u are wanted", voters,
                 replicas->plan.voters);
    }
}

static void check_end(struct replicas *replicas)
{
    struct sim *sim = &replicas->sim;
    const struct rep_service *leader = server(replicas);

    if (!leader) {
        sim_fail(sim, SIM_P_LEADS_AGAIN, "at the end no service serves");
    }
    check_voters(replicas, leader);
    for (uint32_t i = 0; i < replicas->plan.members; i++) {
        const struct rep_member *member = &replicas->members[i];

        if (!mst_client_online(member->client) || mst_client_stopped(member->client)) {
            sim_fail(sim, SIM_P_CONVERGES, "member %u has no session at the end", i);
        }
        if (member->calls == 0) {
            sim_fail(sim, SIM_P_CONVERGES, "no call of member %u has ever ended", i);
        }
    }
    sim->over = true;
}

static void tend(struct sim *sim, void *ctx, uint64_t arg)
{
    struct replicas *replicas = ctx;
    uint64_t lease = replicas->plan.lease_ns;

    (void)arg;
    rep_oracle_reach(replicas);
    if (!sim->calm && sim->now_ns >= replicas->plan.chaos_ns) {
        rep_calm(replicas);
        /* A service that was being started again is there by then. */
        sim->calm_ns = sim->now_ns + 50 * SIM_MS + replicas->plan.election_ns;
        sim->end_ns = sim->calm_ns + 10 * replicas->plan.election_ns + 5 * lease;
    }
    tend_members(replicas);
    if (sim->calm && sim->now_ns >= sim->calm_ns) {
        check_leads(replicas);
    }
    if (!sim->over && sim->calm && sim->now_ns >= sim->end_ns) {
        check_end(replicas);
    }
    sim_at(sim, sim->now_ns + replicas->plan.election_ns / 4, tend, replicas, 0);
}

/* ---- the run ----------------------------------------------------------------------------------
 */

static void start(struct replicas *replicas)
{
    struct sim *sim = &replicas->sim;

    rep_plan_draw(replicas);
    rep_oracle_start(replicas);
    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        struct rep_host *host = &replicas->hosts[i];

        host->index = i;
        host->up = true;
        host->clock.offset_ns = (UINT64_C(1) << 45) + sim_below(sim, UINT64_C(1) << 50);
        host->clock.ppm = (int64_t)sim_below(sim, 20001) - 10000;
        host->service = sim_new(sizeof(*host->service));
        sim_disk_init(&host->disk, mst_prng_next(&sim->prng));
    }
    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        rep_service_start(replicas, i);
    }
    for (uint32_t i = 0; i < replicas->plan.members; i++) {
        rep_member_begin(replicas, i, (uint32_t)sim_below(sim, replicas->plan.hosts));
    }
    rep_chaos_start(replicas);
    sim_at(sim, replicas->plan.election_ns, tend, replicas, 0);
}

static uint64_t finish(struct replicas *replicas)
{
    struct sim *sim = &replicas->sim;
    uint64_t digest = mst_digest_number(sim->digest, mst_core_digest(replicas->oracle.core));

    digest = mst_digest_number(digest, sim->events);
    for (uint32_t i = 0; i < replicas->plan.members; i++) {
        digest = mst_digest_number(digest, mst_client_digest(replicas->members[i].client));
        rep_member_fini(replicas, &replicas->members[i]);
    }
    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        rep_service_fini(replicas, i);
    }
    rep_wire_fini(replicas);
    rep_oracle_fini(replicas);
    sim_heap_fini(&sim->heap);
    sim_check_memory(sim);
    return digest;
}

uint64_t sim_run(uint64_t seed, struct sim_story *story, unsigned char fill, bool verbose)
{
    struct replicas *replicas = sim_new(sizeof(*replicas));
    struct sim *sim = &replicas->sim;
    struct sim_event event;
    uint64_t digest;

    if (rep_plant_wanted() == REP_PLANT_COUNT) {
        (void)fputs("replica_sim: MUSTER_SIM_PLANT is the name of no bug in plant.h\n", stderr);
        exit(SIM_USAGE);
    }
    story->count = 0;
    sim->seed = seed;
    sim->story = story;
    sim->verbose = verbose;
    sim->prng.state = mst_prng_next(&(struct mst_prng){.state = seed});
    sim->digest = MST_DIGEST_INIT;
    sim_memory_init(&sim->memory, fill, seed);
    start(replicas);
    while (!sim->over && sim_heap_take(&sim->heap, &event)) {
        MST_ASSERT(event.at_ns >= sim->now_ns);
        sim->now_ns = event.at_ns;
        event.run(sim, event.ctx, event.arg);
        if (++sim->events > EVENTS_MAX) {
            sim_fail(sim, SIM_P_CONVERGES, "too much happens");
        }
    }
    sim_tell(sim,
             "the end after %" PRIu64 " events: %" PRIu64 " entries, %" PRIu64
             " elections, %" PRIu64 " snapshots, %" PRIu64 " restored, %" PRIu64 " answers",
             sim->events, replicas->oracle.commits, replicas->oracle.elections,
             replicas->oracle.snapshots, replicas->oracle.installs, replicas->oracle.told);
    digest = finish(replicas);
    free(replicas);
    return digest;
}
