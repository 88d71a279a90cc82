/* SPDX-License-Identifier: Apache-2.0 */
/* What an observer who sees all hosts knows: the one log, what was told of it, who voted for whom;
 * and the checks of the properties that depend on it. */
#include "service.h"

#include <stdlib.h>
#include <string.h>

#include "../properties.h"
#include "base/digest.h"
#include "base/panic.h"
#include "base/time.h"
#include "proto/native/arena.h"
#include "proto/status.h"
#include "service/core/snapshot.h"
#include "service/journal/format.h"
#include "service/journal/input.h"
#include "service/replica/replica.h"

enum {
    TOKEN = 8,
    STATE_EVERY = 8 /* entries: a state that differs stays so, and a digest reads all of it */
};

/* ---- the reference: a core that has applied what is committed ----------------------------------
 */

static void given_up(struct replicas *replicas, uint32_t place, uint64_t incarnation);

/* The number behind " KEY=" in a line of the core; 0: there is none. */
static uint64_t number_in(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* "member-joining #3 incarnation=2 host=h1 pid=9", "member-lost #3 incarnation=2 cause=lease" */
static void traced(void *ctx, const struct mst_trace *line)
{
    static const char joins[] = "member-joining #";
    static const char lost[] = "member-lost #";
    struct replicas *replicas = ctx;
    uint64_t place = number_in(line->text, " #");
    uint64_t incarnation = number_in(line->text, " incarnation=");
    struct rep_member *member = &replicas->members[place % REP_MEMBERS_MAX];

    sim_tell(&replicas->sim, "committed %.*s: %s", (int)line->job.size,
             (const char *)line->job.data, line->text);
    if (strncmp(line->text, joins, sizeof(joins) - 1) == 0 &&
        number_in(line->text, " pid=") == member->pid) {
        member->incarnation = incarnation;
    } else if (strncmp(line->text, lost, sizeof(lost) - 1) == 0) {
        given_up(replicas, (uint32_t)place, incarnation);
    }
}

struct mst_core_config rep_core_config(struct replicas *replicas)
{
    return (struct mst_core_config){.lease_ns = replicas->plan.lease_ns,
                                    .limits = mst_limits_default};
}

void rep_oracle_start(struct replicas *replicas)
{
    struct rep_oracle *oracle = &replicas->oracle;
    struct mst_core_config config = rep_core_config(replicas);

    config.trace = traced;
    config.trace_ctx = replicas;
    sim_memory_init(&oracle->memory, replicas->sim.memory.fill, 1);
    MST_ASSERT(mst_core_new(&oracle->core, &config, &oracle->memory.mem) == MUSTER_OK);
    oracle->arena = sim_new(sizeof(*oracle->arena));
    mst_native_arena_init(oracle->arena, &oracle->memory.mem);
}

void rep_oracle_fini(struct replicas *replicas)
{
    struct rep_oracle *oracle = &replicas->oracle;

    mst_core_free(oracle->core);
    mst_native_arena_fini(oracle->arena);
    free(oracle->arena);
    free(oracle->truths);
    free(oracle->leaders);
    free(oracle->list);
    free(oracle->acked);
    if (oracle->memory.live != 0) {
        sim_fail(&replicas->sim, SIM_P_MEMORY, "%" PRIu64 " in the reference", oracle->memory.live);
    }
}

/* CORE_TIME, RESUME_WHOLE, and the state behind the entry. */
static void apply(struct replicas *replicas, struct mst_slice payload)
{
    struct rep_oracle *oracle = &replicas->oracle;
    struct mst_core_config config = rep_core_config(replicas);
    struct mst_journal_record record;

    config.trace = traced;
    config.trace_ctx = replicas;
    while (mst_record_read(&record, &payload)) {
        if (record.type > MST_RECORD_HOLD) {
            continue;
        }
        if (record.now_ns < oracle->core_ns) {
            sim_fail(&replicas->sim, SIM_P_CORE_TIME,
                     "entry %" PRIu64 " is of %.6f, and there was one of %.6f", oracle->last,
                     (double)record.now_ns / 1e9, (double)oracle->core_ns / 1e9);
        }
        oracle->core_ns = record.now_ns;
        if (record.type == MST_RECORD_RESUME) {
            oracle->resumed_ns = record.now_ns;
            oracle->resumed_term = oracle->truths[oracle->last].term;
        } else if (oracle->resumed_term != oracle->truths[oracle->last].term) {
            sim_fail(&replicas->sim, SIM_P_RESUME_WHOLE,
                     "the leader of term %" PRIu64 " has fed its core without a RESUME before",
                     oracle->truths[oracle->last].term);
        }
        if (mst_input_again(oracle->core, oracle->arena, &record, &config) != MUSTER_OK) {
            sim_fail(&replicas->sim, SIM_P_SAME_STATE,
                     "entry %" PRIu64 " cannot be applied by the reference", oracle->last);
        }
    }
}

/* VOTERS_KEPT */
static void changed(struct replicas *replicas, struct mst_slice bytes)
{
    struct mst_replica_servers *servers = &replicas->oracle.servers;
    struct mst_replica_servers before = *servers;
    size_t voters = mst_replica_servers_voters(&before);

    if (!mst_replica_configuration_read(bytes, servers)) {
        sim_fail(&replicas->sim, SIM_P_WELL_FORMED, "a configuration that makes no sense");
    }
    for (size_t i = 0; i < before.count && voters <= replicas->plan.voters; i++) {
        const struct mst_replica_server *server = &before.of[i];
        const struct rep_host *host = &replicas->hosts[rep_host_at(server->address)];

        if (server->role == MST_REPLICA_VOTER && host->id == server->id &&
            !mst_replica_servers_find(servers, server->id)) {
            sim_fail(&replicas->sim, SIM_P_VOTERS_KEPT,
                     "%" PRIu64 " of host %u is removed from %zu voters, and %u are wanted",
                     server->id, host->index, voters, replicas->plan.voters);
        }
    }
}

/* ONE_LOG */
void rep_oracle_committed(struct replicas *replicas, uint32_t host, uint64_t index, uint64_t term,
                          int type, struct mst_slice bytes)
{
    struct rep_oracle *oracle = &replicas->oracle;
    uint64_t digest = mst_digest_slice(MST_DIGEST_INIT, bytes);
    struct rep_truth *truth;

    if (index <= oracle->last) {
        truth = &oracle->truths[index];
        if (truth->term != term || truth->type != type || truth->bytes != digest) {
            sim_fail(&replicas->sim, SIM_P_ONE_LOG,
                     "host %u has entry %" PRIu64 " of term %" PRIu64
                     " committed, and another host one of term %" PRIu64,
                     host, index, term, truth->term);
        }
        return;
    }
    if (index != oracle->last + 1) {
        sim_fail(&replicas->sim, SIM_P_ONE_LOG,
                 "host %u commits entry %" PRIu64 ", and no host had %" PRIu64, host, index,
                 oracle->last + 1);
    }
    if (index + 1 >= oracle->room) {
        oracle->room = 2 * index + 64;
        oracle->truths = sim_grown(oracle->truths, oracle->room, sizeof(*oracle->truths));
    }
    oracle->last = index;
    truth = &oracle->truths[index];
    *truth = (struct rep_truth){.term = term, .type = type, .bytes = digest};
    if (type == MST_REPLICA_COMMAND && *(const unsigned char *)bytes.data == MST_REPLICA_RECORDS) {
        apply(replicas, mst_slice_of((const unsigned char *)bytes.data + 1, bytes.size - 1));
    }
    if (type == MST_REPLICA_CHANGE) {
        changed(replicas, bytes);
    }
    if (index % STATE_EVERY == 0) {
        truth->state = mst_core_kept_digest(oracle->core);
    }
    oracle->commits++;
}

/* SAME_STATE */
void rep_oracle_applied(struct replicas *replicas, uint32_t host, uint64_t index,
                        const struct mst_core *core)
{
    const struct rep_oracle *oracle = &replicas->oracle;
    uint64_t state;

    if (index == 0 || index > oracle->last) {
        sim_fail(&replicas->sim, SIM_P_SAME_STATE,
                 "host %u has applied entry %" PRIu64 ", and %" PRIu64 " are committed", host,
                 index, oracle->last);
    }
    if (index % STATE_EVERY != 0) {
        return;
    }
    state = mst_core_kept_digest(core);
    if (oracle->truths[index].state != state) {
        sim_fail(&replicas->sim, SIM_P_SAME_STATE,
                 "host %u has state %016" PRIx64 " at entry %" PRIu64 ", the reference %016" PRIx64,
                 host, state, index, oracle->truths[index].state);
    }
}

/* TOLD_COMMITTED */
void rep_oracle_tells(struct replicas *replicas, uint32_t host, uint64_t index, uint64_t term)
{
    struct rep_oracle *oracle = &replicas->oracle;

    if (index > oracle->last || oracle->truths[index].term != term) {
        sim_fail(&replicas->sim, SIM_P_TOLD_COMMITTED,
                 "host %u answers behind entry %" PRIu64 " of term %" PRIu64
                 ", and committed are %" PRIu64 " of term %" PRIu64,
                 host, index, term, oracle->last,
                 index <= oracle->last ? oracle->truths[index].term : 0);
    }
    oracle->told++;
}

/* VOTE_ONCE */
void rep_oracle_vote(struct replicas *replicas, uint64_t id, uint64_t term, uint64_t candidate)
{
    struct rep_oracle *oracle = &replicas->oracle;
    struct rep_vote *vote;

    for (uint32_t i = 0; i < oracle->vote_count; i++) {
        vote = &oracle->votes[i];
        if (vote->id == id && vote->term == term) {
            if (vote->candidate != candidate) {
                sim_fail(&replicas->sim, SIM_P_VOTE_ONCE,
                         "%" PRIu64 " votes in term %" PRIu64 " for %" PRIu64 " and for %" PRIu64,
                         id, term, vote->candidate, candidate);
            }
            return;
        }
    }
    MST_ASSERT(oracle->vote_count < REP_VOTES);
    oracle->votes[oracle->vote_count++] = (struct rep_vote){id, term, candidate};
}

/* LEADER_ONE */
void rep_oracle_leads(struct replicas *replicas, uint64_t id, uint64_t term)
{
    struct rep_oracle *oracle = &replicas->oracle;

    if (term >= oracle->leader_room) {
        uint64_t room = 2 * term + 16;

        oracle->leaders = sim_grown(oracle->leaders, room, sizeof(*oracle->leaders));
        memset(oracle->leaders + oracle->leader_room, 0,
               (room - oracle->leader_room) * sizeof(*oracle->leaders));
        oracle->leader_room = room;
    }
    if (oracle->leaders[term] != 0 && oracle->leaders[term] != id) {
        sim_fail(&replicas->sim, SIM_P_LEADER_ONE,
                 "%" PRIu64 " and %" PRIu64 " lead in term %" PRIu64, oracle->leaders[term], id,
                 term);
    }
    oracle->elections += oracle->leaders[term] == 0;
    oracle->leaders[term] = id;
}

/* ---- leases -----------------------------------------------------------------------------------
 */

static bool reaches(const struct replicas *replicas, const bool serves[REP_HOSTS_MAX],
                    const struct rep_member *member)
{
    bool leader = false;
    uint32_t mute = 0;

    for (uint32_t host = 0; host < replicas->plan.hosts; host++) {
        bool passes = rep_wire_passes(replicas, member->actor.host, host) &&
                      rep_wire_passes(replicas, host, member->actor.host);

        mute += !passes || rep_service_frozen(replicas, host);
        leader = leader || (passes && serves[host]);
    }
    return leader && mute <= 1;
}

/* Since when the member could reach a service that serves; what stood between is over. A client
 * waits for each host that neither answers nor refuses: one of them leaves it the time. */
void rep_oracle_reach(struct replicas *replicas)
{
    bool serves[REP_HOSTS_MAX];

    for (uint32_t host = 0; host < replicas->plan.hosts; host++) {
        serves[host] = rep_service_serves(replicas, host);
    }
    for (uint32_t i = 0; i < replicas->plan.members; i++) {
        struct rep_member *member = &replicas->members[i];

        if (!member->actor.alive || member->actor.frozen || !reaches(replicas, serves, member)) {
            member->reach_ns = SIM_NEVER;
        } else if (member->reach_ns == SIM_NEVER) {
            member->reach_ns = replicas->sim.now_ns;
        }
    }
}

/* It had the time to find it: the answer to a renewal that it sent then keeps it for 0.8 L. It
 * looks at one host after the other, with a second between two at most, and one may not answer: a
 * client leaves that after a fifth of the lease. */
static bool had_time(const struct replicas *replicas, const struct rep_member *member)
{
    uint64_t mute_ns = mst_later(replicas->plan.patience_ns, replicas->plan.lease_ns / 5);
    uint64_t round_ns = replicas->plan.hosts * (1000 * SIM_MS) + mute_ns;
    uint64_t least_ns = replicas->plan.lease_ns * 6 / 10;

    return member->reach_ns != SIM_NEVER &&
           replicas->sim.now_ns - member->reach_ns > (round_ns > least_ns ? round_ns : least_ns);
}

/* LEASE_KEPT */
void rep_oracle_stopped(struct replicas *replicas, const struct rep_member *member)
{
    if (had_time(replicas, member)) {
        sim_fail(&replicas->sim, SIM_P_LEASE_KEPT,
                 "member %u stops, and reaches a service that serves since %.6f", member->place,
                 (double)member->reach_ns / 1e9);
    }
}

/* RESUME_WHOLE, LEASE_KEPT, STOPS_FIRST */
static void given_up(struct replicas *replicas, uint32_t place, uint64_t incarnation)
{
    struct rep_member *member;

    if (place >= replicas->plan.members) {
        return;
    }
    member = &replicas->members[place];
    if (member->incarnation != incarnation || !member->actor.alive) {
        return;
    }
    member->given_up_ns = replicas->sim.now_ns;
    if (replicas->oracle.core_ns - replicas->oracle.resumed_ns < replicas->plan.lease_ns) {
        sim_fail(&replicas->sim, SIM_P_RESUME_WHOLE,
                 "member %u is given up %.3f s after a RESUME, and a lease is %.3f s", place,
                 (double)(replicas->oracle.core_ns - replicas->oracle.resumed_ns) / 1e9,
                 (double)replicas->plan.lease_ns / 1e9);
    }
    if (had_time(replicas, member)) {
        sim_fail(&replicas->sim, SIM_P_LEASE_KEPT,
                 "member %u is given up, and reaches a service that serves since %.6f",
                 member->place, (double)member->reach_ns / 1e9);
    }
    /* A frozen one stops as soon as it looks at its clock: before anything else. One that has not
     * heard yet that it is open has nothing to stop. */
    if (member->opened && !member->actor.frozen && !member->ended && !member->stopped) {
        sim_fail(&replicas->sim, SIM_P_STOPS_FIRST, "member %u is given up, and has not stopped",
                 member->place);
    }
}

void rep_oracle_ended(struct replicas *replicas, const struct rep_member *member,
                      muster_status status)
{
    /* ENOMEM: it was never open. EEXISTS: what the process before it had sent last arrived late:
     * the place is still held. */
    if (status == MUSTER_ENOMEM && !member->opened) {
        return;
    }
    /* Of who waits for a place that another holds no line says that it is given up. */
    if (status == MUSTER_EFENCED && member->incarnation == 0 && !had_time(replicas, member)) {
        return;
    }
    if (status != MUSTER_EEXISTS && (status != MUSTER_EFENCED || member->given_up_ns == 0)) {
        sim_fail(&replicas->sim, SIM_P_LEASE_KEPT,
                 "the session of member %u ends with %s, and it was not given up", member->place,
                 mst_status_name(status));
    }
}

/* ---- the list ---------------------------------------------------------------------------------
 */

size_t rep_oracle_known(const struct replicas *replicas)
{
    return replicas->oracle.known;
}

static void check_acked(struct replicas *replicas, size_t from, size_t to)
{
    struct rep_oracle *oracle = &replicas->oracle;

    for (size_t at = from; at + TOKEN <= to && at < oracle->known; at += TOKEN) {
        const char *token = oracle->acked + at;

        if (at < oracle->acked_room && *token != '\0' &&
            memcmp(token, oracle->list + at, TOKEN) != 0) {
            sim_fail(&replicas->sim, SIM_P_TOLD_STAYS, "%.8s was answered, and at %zu stands %.8s",
                     token, at, (const char *)oracle->list + at);
        }
    }
}

void rep_oracle_append(struct replicas *replicas, size_t size, const char *token)
{
    struct rep_oracle *oracle = &replicas->oracle;

    if (size > oracle->acked_room) {
        size_t room = 2 * size;

        oracle->acked = sim_grown(oracle->acked, room, 1);
        memset(oracle->acked + oracle->acked_room, 0, room - oracle->acked_room);
        oracle->acked_room = room;
    }
    if (oracle->acked[size - TOKEN] != '\0') {
        sim_fail(&replicas->sim, SIM_P_TOLD_STAYS, "%.8s and %.8s are both at %zu",
                 oracle->acked + size - TOKEN, token, size - TOKEN);
    }
    memcpy(oracle->acked + size - TOKEN, token, TOKEN);
    oracle->known = size > oracle->known ? size : oracle->known;
}

void rep_oracle_shown(struct replicas *replicas, uint32_t place, struct mst_slice value)
{
    struct rep_oracle *oracle = &replicas->oracle;
    size_t both = value.size < oracle->list_size ? value.size : oracle->list_size;
    size_t from = oracle->list_size;

    if (both > 0 && memcmp(value.data, oracle->list, both) != 0) {
        sim_fail(&replicas->sim, SIM_P_TOLD_STAYS,
                 "member %u is shown %zu bytes that differ from an earlier answer", place,
                 value.size);
    }
    if (value.size <= oracle->list_size) {
        return;
    }
    if (value.size > oracle->list_room) {
        oracle->list_room = 2 * value.size;
        oracle->list = sim_grown(oracle->list, oracle->list_room, 1);
    }
    memcpy(oracle->list, value.data, value.size);
    oracle->list_size = value.size;
    oracle->known = value.size > oracle->known ? value.size : oracle->known;
    check_acked(replicas, from, value.size);
    for (size_t at = from; at + TOKEN <= value.size; at += TOKEN) {
        for (size_t other = 0; other < at; other += TOKEN) {
            if (memcmp(oracle->list + at, oracle->list + other, TOKEN) == 0) {
                sim_fail(&replicas->sim, SIM_P_TOLD_STAYS, "%.8s was appended twice",
                         (const char *)oracle->list + at);
            }
        }
    }
}
