/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's shell: peers, the disk, applying, snapshots. */
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../properties.h"
#include "base/panic.h"
#include "plant.h"
#include "proto/status.h"
#include "service/core/snapshot.h"
#include "service/journal/input.h"

static uint32_t host_of(const struct rep_service *service)
{
    return service->actor.host;
}

static struct rep_host *home(struct rep_service *service)
{
    return &service->replicas->hosts[host_of(service)];
}

static void die(struct rep_service *service, const char *why)
{
    if (service->exit == REP_EXIT_NO) {
        sim_tell(&service->replicas->sim, "service %u: ends: %.120s", host_of(service), why);
        service->exit = REP_EXIT_ENDED;
    }
}

/* ---- applying -------------------------------------------------------------------------------- */

static struct mst_core_config core_config(struct rep_service *service)
{
    return rep_core_config(service->replicas);
}

static void apply_records(struct rep_service *service, struct mst_slice payload)
{
    struct mst_core_config config = core_config(service);
    struct mst_journal_record record;

    service->touched = true;
    while (service->exit == REP_EXIT_NO && mst_record_read(&record, &payload)) {
        service->core_ns = record.now_ns;
        if (mst_input_again(service->core, &service->arena, &record, &config) != MUSTER_OK) {
            die(service, "a committed record cannot be applied");
        }
    }
}

/* SAME_STATE, DIGEST_STOPS */
static void compare_digest(struct rep_service *service, const struct mst_replica_effect *effect)
{
    uint64_t own = mst_core_kept_digest(service->core);
    uint64_t theirs = effect->payload.size == 8 ? mst_get_u64(effect->payload.data) : own + 1;

    if (own != theirs && !PLANT(DIGEST_IGNORED)) {
        sim_tell(&service->replicas->sim,
                 "service %u: its state differs at entry %" PRIu64 ": %016" PRIx64
                 ", the leader's is %016" PRIx64,
                 host_of(service), effect->index, own, theirs);
        service->exit = REP_EXIT_DIVERGED;
    } else if (own != theirs) {
        sim_fail(&service->replicas->sim, SIM_P_DIGEST_STOPS,
                 "host %u goes on behind entry %" PRIu64 " with another state", host_of(service),
                 effect->index);
    }
}

static void committed(struct rep_service *service, const struct mst_replica_effect *effect)
{
    bool own = effect->own || PLANT(OLDER_TERM);

    if (effect->index <= service->skip) {
        return;
    }
    if (effect->kind == MST_REPLICA_DIGEST) {
        compare_digest(service, effect);
    }
    if (service->awaits == effect->index && own) {
        service->awaits_done = true;
        return;
    }
    if (effect->kind == MST_REPLICA_RECORDS) {
        apply_records(service, effect->payload);
    }
    service->applied = effect->index;
    if (service->exit == REP_EXIT_NO && !service->diverged) {
        rep_oracle_applied(service->replicas, host_of(service), effect->index, service->core);
    }
}

/* ---- a state as bytes: the core's time, and what it keeps -------------------------------------
 */

static bool put_bytes(void *ctx, struct mst_slice bytes)
{
    struct rep_child *child = ctx;

    if (child->size + bytes.size > child->room) {
        child->room = 2 * (child->size + bytes.size);
        child->bytes = sim_grown(child->bytes, child->room, 1);
    }
    memcpy(child->bytes + child->size, bytes.data, bytes.size);
    child->size += bytes.size;
    return true;
}

struct mst_core *rep_service_copy(struct rep_service *service)
{
    struct rep_child bytes = {.runs = false};
    const struct mst_snapshot_sink sink = {&bytes, put_bytes};
    struct mst_core_config config = core_config(service);
    struct mst_core *copy = NULL;

    MST_ASSERT(mst_core_save(service->core, &sink));
    (void)mst_core_load(&copy, service->core_ns, mst_slice_of(bytes.bytes, bytes.size), &config,
                        &service->memory.mem);
    free(bytes.bytes);
    return copy;
}

static void restore(struct rep_service *service, uint64_t index)
{
    const struct mst_replica_snapshot *about = mst_replica_log_snapshot(service->log);
    struct mst_core_config config = core_config(service);
    struct mst_core *core = NULL;
    struct muster_error err = {.text = ""};
    unsigned char *bytes;

    MST_ASSERT(about && about->index == index && about->bytes >= 8);
    bytes = sim_new((size_t)about->bytes);
    if (mst_replica_log_read(service->log, index, 0, bytes, (size_t)about->bytes, &err) !=
        MUSTER_OK) {
        die(service, err.text);
    } else if (mst_core_load(&core, mst_get_u64(bytes),
                             mst_slice_of(bytes + 8, (size_t)about->bytes - 8), &config,
                             &service->memory.mem) != MUSTER_OK) {
        die(service, "the snapshot cannot be loaded");
    } else {
        mst_core_free(service->core);
        service->core = core;
        service->touched = true;
        service->core_ns = mst_get_u64(bytes);
        service->diverged = false;
        service->applied = index;
        service->snapshot_at = index + service->replicas->plan.snapshot_every;
        service->replicas->oracle.installs++;
        sim_tell(&service->replicas->sim, "service %u: goes on from the snapshot at %" PRIu64,
                 host_of(service), index);
        rep_oracle_applied(service->replicas, host_of(service), index, core);
    }
    free(bytes);
}

static void end_child(struct rep_service *service)
{
    free(service->child.bytes);
    service->child = (struct rep_child){.born = service->child.born + 1};
}

static void child_step(struct sim *sim, void *ctx, uint64_t born)
{
    struct rep_service *service = ctx;
    struct rep_child *child = &service->child;
    struct mst_replica_saving *saving;
    size_t piece;
    muster_status status = MUSTER_OK;

    if (!service->actor.alive || !child->runs || child->born != born) {
        return;
    }
    saving = mst_replica_log_saving(service->log);
    MST_ASSERT(saving);
    piece = child->size - child->at;
    piece = piece > 4096 ? 4096 : piece;
    if (piece > 0) {
        status = mst_replica_saving_put(saving, mst_slice_of(child->bytes + child->at, piece));
        child->at += piece;
    }
    if (status == MUSTER_OK && child->at < child->size) {
        sim_at(sim, sim->now_ns + sim_below(sim, service->replicas->plan.election_ns / 8),
               child_step, service, born);
    } else {
        bool whole = status == MUSTER_OK && mst_replica_saving_close(saving) == MUSTER_OK;

        end_child(service);
        sim_tell(sim, "service %u: its snapshot is %s", host_of(service),
                 whole ? "written" : "not written");
        service->replicas->oracle.snapshots += whole;
        if (!home(service)->disk.dead) {
            mst_replica_snapshot_end(service->replica, rep_service_clock(service), whole);
            (void)rep_service_drive(service);
        }
    }
    rep_service_after(service);
}

static void snapshot(struct rep_service *service)
{
    struct rep_child *child = &service->child;
    struct mst_replica_snapshot about;
    struct mst_replica_saving *saving = NULL;
    unsigned char time[8];
    const struct mst_snapshot_sink sink = {child, put_bytes};

    if (child->runs || service->applied < service->snapshot_at || service->awaits != 0 ||
        service->fed || service->pending || service->diverged ||
        mst_replica_log_saving(service->log) ||
        mst_replica_snapshot_begin(service->replica, &about) != MUSTER_OK) {
        return;
    }
    service->snapshot_at = service->applied + service->replicas->plan.snapshot_every;
    mst_put_u64(time, service->core_ns);
    end_child(service);
    (void)put_bytes(child, mst_slice_of(time, sizeof(time)));
    MST_ASSERT(mst_core_save(service->core, &sink));
    about.bytes = child->size;
    if (PLANT(CONFIGURATION_LOST)) {
        about.configuration =
            mst_slice_of(service->first_configuration, service->first_configuration_size);
    }
    if (mst_replica_log_save(service->log, &about, &saving) != MUSTER_OK) {
        end_child(service);
        (void)rep_service_drive(service);
        return;
    }
    child->runs = true;
    sim_at(&service->replicas->sim, service->replicas->sim.now_ns, child_step, service,
           child->born);
}

/* ---- the log and the machine ------------------------------------------------------------------
 */

static void told(void *ctx, enum mst_level level, const char *line)
{
    struct rep_service *service = ctx;

    (void)level;
    sim_tell(&service->replicas->sim, "service %u: %s", host_of(service), line);
}

static void found_of(const struct replicas *replicas, struct mst_replica_servers *out)
{
    memset(out, 0, sizeof(*out));
    out->count = replicas->plan.grows ? 1 : replicas->plan.voters;
    for (uint32_t i = 0; i < out->count; i++) {
        out->of[i].id = i + 1;
        out->of[i].role = MST_REPLICA_VOTER;
        rep_address_of(out->of[i].address, i);
    }
}

static bool founds(const struct rep_host *host, const struct mst_replica_servers *found,
                   const struct mst_replica_log_recovered *recovered)
{
    return recovered->fresh && !recovered->thrown && host->index < found->count &&
           recovered->id == host->index + 1;
}

/* An id that was never used before, once a vote under the one before may be forgotten. */
static uint64_t next_id(struct rep_host *host)
{
    return (host->ids++ << 8) + host->index + 1;
}

static void silent(void *ctx, enum mst_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static struct mst_replica_log_config log_config(struct rep_service *service)
{
    const struct replicas *replicas = service->replicas;
    const struct rep_host *host = home(service);
    struct mst_replica_log_config config = {.id = host->id,
                                            .sync = replicas->plan.sync,
                                            .version = "sim",
                                            .rules = MST_CORE_RULES,
                                            .segment_bytes = replicas->plan.segment_bytes,
                                            .chunk_bytes = replicas->plan.chunk_bytes,
                                            .tell = told,
                                            .tell_ctx = service};

    config.boot[0] = PLANT(BOOT_KEPT) ? 1 : (unsigned char)host->boot;
    config.boot[1] = (unsigned char)(host->index + 1);
    return config;
}

void rep_service_has_voted(struct rep_service *service, uint64_t term, uint64_t candidate)
{
    struct sim *sim = &service->replicas->sim;
    struct mst_replica_log_config config = log_config(service);
    struct mst_replica_log *log = NULL;
    struct muster_error err = {.text = ""};
    struct sim_disk copy;
    struct mst_disk disk;

    config.tell = silent;
    sim_disk_copy(&copy, &home(service)->disk);
    copy.full = false;
    disk = sim_disk_seen(&copy);
    if (mst_replica_log_open(&log, &disk, &config, &sim->memory.mem, &err) != MUSTER_OK ||
        mst_replica_log_term(log) < term ||
        (mst_replica_log_term(log) == term && mst_replica_log_vote_of(log) != candidate)) {
        sim_fail(sim, SIM_P_VOTE_KEPT,
                 "the vote of host %u in term %" PRIu64 " for %" PRIu64 " is not on its disk: %s",
                 host_of(service), term, candidate, err.text);
    }
    mst_replica_log_free(log);
    sim_disk_fini(&copy);
}

static bool open_log(struct rep_service *service, struct muster_error *err)
{
    struct replicas *replicas = service->replicas;
    struct rep_host *host = home(service);
    struct mst_disk disk = sim_disk_seen(&host->disk);
    struct mst_replica_servers found;
    struct mst_replica_log_config log = log_config(service);
    struct mst_replica_config config = {.seed = mst_prng_next(&replicas->sim.prng),
                                        .trailing = replicas->plan.trailing,
                                        .entry_bytes = replicas->plan.trailing};
    char address[8];

    rep_address_of(address, host->index);
    config.address = address;
    config.election_ms = (uint32_t)(replicas->plan.election_ns / SIM_MS);
    if (mst_replica_log_open(&service->log, &disk, &log, &service->memory.mem, err) != MUSTER_OK) {
        return false;
    }
    found_of(replicas, &found);
    if (founds(host, &found, mst_replica_log_recovery(service->log))) {
        config.found = &found;
    }
    service->id = mst_replica_log_id(service->log);
    host->id = service->id;
    return mst_replica_new(&service->replica, service->log, &config, &service->memory.mem, err) ==
           MUSTER_OK;
}

static bool open_all(struct rep_service *service, struct muster_error *err)
{
    struct mst_core_config core = core_config(service);

    return mst_core_new(&service->core, &core, &service->memory.mem) == MUSTER_OK &&
           mst_gather_init(&service->gather, &service->memory.mem, 4096) && open_log(service, err);
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* What its log says is committed is the same on all hosts. */
static void observe(struct rep_service *service)
{
    uint64_t first = mst_replica_log_first(service->log);
    uint64_t last = mst_replica_committed(service->replica);

    if (service->observed + 1 < first) {
        service->observed = first - 1;
    }
    while (service->observed < last) {
        const struct mst_replica_entry *entry =
            mst_replica_log_at(service->log, service->observed + 1);

        if (!entry) {
            return;
        }
        service->observed++;
        if (entry->type == MST_REPLICA_CHANGE && service->first_configuration_size == 0 &&
            entry->bytes.size <= sizeof(service->first_configuration)) {
            service->first_configuration_size = entry->bytes.size;
            memcpy(service->first_configuration, entry->bytes.data, entry->bytes.size);
        }
        rep_oracle_committed(service->replicas, host_of(service), service->observed, entry->term,
                             (int)entry->type, entry->bytes);
    }
}

static void tell_members(struct rep_service *service)
{
    struct mst_replica_status status;
    char line[160];
    size_t used = 0;

    mst_replica_status_of(service->replica, &status);
    line[0] = '\0';
    for (size_t i = 0; i < status.servers->count && used + 32 < sizeof(line); i++) {
        used +=
            (size_t)snprintf(line + used, sizeof(line) - used, " %s=%" PRIu64 "%s",
                             status.servers->of[i].address, status.servers->of[i].id,
                             status.servers->of[i].role == MST_REPLICA_VOTER ? "" : "(standby)");
    }
    sim_tell(&service->replicas->sim, "service %u: the members are%s", host_of(service), line);
}

static void carry_out(struct rep_service *service, const struct mst_replica_effect *effect)
{
    struct sim *sim = &service->replicas->sim;

    switch (effect->type) {
    case MST_REPLICA_SEND:
        rep_peers_send(service, effect);
        break;
    case MST_REPLICA_RESTORE:
        restore(service, effect->index);
        break;
    case MST_REPLICA_COMMITTED:
        committed(service, effect);
        break;
    case MST_REPLICA_SERVERS:
        tell_members(service);
        break;
    case MST_REPLICA_LEADS:
        service->leads_due = true;
        if (service->diverged) {
            die(service, "its state was changed, and it would lead");
        }
        break;
    case MST_REPLICA_FOLLOWS:
        sim_tell(sim, "service %u: follows %" PRIu64, host_of(service), effect->peer);
        break;
    case MST_REPLICA_YIELD_SNAPSHOT:
        service->yields = true;
        break;
    case MST_REPLICA_DEPOSED:
        if (PLANT(DEPOSED_STAYS) || PLANT(OLDER_TERM)) {
            service->stays = true;
        } else {
            die(service, effect->reason);
        }
        break;
    case MST_REPLICA_BROKEN:
        sim_fail(sim, SIM_P_ONE_LOG, "host %u: a broken invariant: %s", host_of(service),
                 effect->reason);
    case MST_REPLICA_FAILED:
        die(service, effect->reason);
        break;
    }
}

/* A bug that is planted: it goes on as a follower, with the core that it has. */
static void stay(struct rep_service *service)
{
    struct muster_error err;

    service->stays = false;
    service->skip = service->awaits > service->applied ? service->awaits : service->applied;
    service->applied = service->skip;
    if (PLANT(OLDER_TERM)) { /* it waits for the entry of its turn, whoever commits that */
        service->skip -= service->awaits != 0;
    } else {
        service->awaits = 0;
    }
    service->awaits_done = false;
    service->pending = false;
    service->resuming = false;
    service->digesting = false;
    service->fed = false;
    service->serves = false;
    service->leads_due = false;
    service->gather.used = 0;
    if (!PLANT(OLDER_TERM)) {
        rep_serve_drop_all(service);
    }
    end_child(service);
    mst_replica_free(service->replica);
    mst_replica_log_free(service->log);
    service->replica = NULL;
    service->log = NULL;
    if (!open_log(service, &err)) {
        die(service, "it cannot stay");
        return;
    }
    mst_replica_start(service->replica, rep_service_clock(service));
}

bool rep_service_drive(struct rep_service *service)
{
    const struct mst_replica_effect *effect;

    for (;;) {
        if (home(service)->disk.dead) {
            die(service, "it dies");
        }
        if (service->exit != REP_EXIT_NO) {
            return false;
        }
        observe(service);
        effect = mst_replica_next(service->replica);
        if (effect) {
            carry_out(service, effect);
            mst_replica_done(service->replica, effect);
        } else if (service->stays) {
            stay(service);
        } else if (service->yields) {
            service->yields = false;
            end_child(service);
            mst_replica_snapshot_end(service->replica, rep_service_clock(service), false);
        } else if (service->awaits_done) {
            service->awaits_done = false;
            rep_serve_committed(service);
        } else if (service->leads_due) {
            rep_serve_resume(service);
        } else {
            return true;
        }
    }
}

static void lead_voters(struct rep_service *service)
{
    struct replicas *replicas = service->replicas;
    struct mst_voters_present present[REP_HOSTS_MAX];
    char addresses[REP_HOSTS_MAX][8];
    struct mst_voters_wanted wanted = {.voters = replicas->plan.voters, .present = present};

    if (!service->serves || service->awaits != 0 || replicas->sim.now_ns < service->voters_ns) {
        return;
    }
    service->voters_ns = replicas->sim.now_ns + replicas->plan.election_ns;
    for (uint32_t i = 0; i < replicas->plan.hosts; i++) {
        const struct rep_host *host = &replicas->hosts[i];

        if (host->id != 0 &&
            (host->up || replicas->sim.now_ns < host->down_ns + replicas->plan.lease_ns)) {
            rep_address_of(addresses[i], i);
            present[wanted.count++] =
                (struct mst_voters_present){.id = host->id, .address = addresses[i]};
        }
    }
    mst_replica_lead_voters(service->replica, rep_service_clock(service), &wanted);
    (void)rep_service_drive(service);
}

/* ---- the turn -------------------------------------------------------------------------------- */

static void cleanup(struct rep_service *service)
{
    rep_peers_fini(service);
    rep_serve_fini(service);
    end_child(service);
    mst_replica_free(service->replica);
    mst_replica_log_free(service->log);
    mst_native_arena_fini(&service->arena);
    mst_core_free(service->core);
    service->replica = NULL;
    service->log = NULL;
    service->core = NULL;
    if (service->memory.live != 0) {
        sim_fail(&service->replicas->sim, SIM_P_MEMORY, "%" PRIu64 " in the service of host %u",
                 service->memory.live, host_of(service));
    }
}

static void begin_again(struct sim *sim, void *ctx, uint64_t boot)
{
    struct rep_host *host = ctx;

    if (host->up && host->boot == boot && !host->service->actor.alive) {
        rep_service_start(rep_of(sim), host->index);
    }
}

/* The process is dead; it is started again soon, if its host is there. */
static void bury(struct rep_service *service, bool with_host)
{
    struct replicas *replicas = service->replicas;
    struct rep_host *host = home(service);

    service->actor.alive = false;
    service->actor.frozen = false;
    rep_wire_death(replicas, &service->actor, with_host);
    cleanup(service);
    sim_disk_crash(&host->disk, with_host);
    if (service->exit == REP_EXIT_DIVERGED) {
        host->wiped = true;
    }
    rep_oracle_reach(replicas);
    if (!with_host) {
        sim_at(&replicas->sim,
               replicas->sim.now_ns + 50 * SIM_MS +
                   sim_below(&replicas->sim, replicas->plan.election_ns),
               begin_again, host, host->boot);
    }
}

/* The last thing of whatever the process did: is it still there? */
void rep_service_after(struct rep_service *service)
{
    if (service->actor.alive && service->exit != REP_EXIT_NO &&
        !rep_host_dies(service->replicas, host_of(service))) {
        bury(service, false);
    }
}

static void write_turn(struct rep_service *service)
{
    uint64_t slow = home(service)->slow_ns;

    if (slow > 0 && service->busy_ns == 0) {
        service->busy_ns = service->replicas->sim.now_ns + slow;
        return;
    }
    service->busy_ns = 0;
    mst_replica_write(service->replica, rep_service_clock(service));
    (void)rep_service_drive(service);
}

static void schedule(struct rep_service *service)
{
    struct replicas *replicas = service->replicas;
    uint64_t now = replicas->sim.now_ns;
    uint64_t local = mst_replica_deadline_ns(service->replica);
    uint64_t serve = rep_serve_deadline_ns(service);
    uint64_t at;

    if (service->busy_ns > now) {
        rep_wake(replicas, &service->actor, service->busy_ns);
        return;
    }
    local = serve < local ? serve : local;
    at = sim_clock_when(&home(service)->clock, local);
    if (service->serves && service->voters_ns < at) {
        at = service->voters_ns;
    }
    rep_wake(replicas, &service->actor, at > now ? at : now + SIM_MS / 10);
}

static void turn(struct rep_service *service)
{
    rep_peers_accept_all(service);
    /* Sockets are served in any order. */
    if (sim_chance(&service->replicas->sim, 30)) {
        rep_serve_turn(service);
    }
    if (service->exit == REP_EXIT_NO) {
        rep_peers_turn(service);
    }
    if (service->exit == REP_EXIT_NO) {
        mst_replica_tick(service->replica, rep_service_clock(service));
        (void)rep_service_drive(service);
    }
    if (service->exit == REP_EXIT_NO) {
        rep_serve_turn(service);
    }
    if (service->exit == REP_EXIT_NO) {
        lead_voters(service);
    }
    if (service->exit == REP_EXIT_NO) {
        snapshot(service);
    }
}

static void check_core(struct rep_service *service)
{
    if (service->touched) {
        service->touched = false;
        mst_core_check(service->core);
    }
}

static void look(struct replicas *replicas, struct rep_actor *actor)
{
    struct rep_service *service = (struct rep_service *)(void *)actor;

    if (service->busy_ns > replicas->sim.now_ns) {
        rep_wake(replicas, actor, service->busy_ns);
        return;
    }
    if (service->busy_ns == 0) {
        turn(service);
    }
    if (service->exit == REP_EXIT_NO) {
        write_turn(service);
    }
    if (service->exit == REP_EXIT_NO) {
        rep_serve_flush(service);
        mst_replica_check(service->replica);
        check_core(service);
        schedule(service);
    }
    rep_service_after(service);
    rep_oracle_reach(replicas);
}

/* ---- birth and death ------------------------------------------------------------------------- */

static void wipe(struct rep_host *host)
{
    for (uint32_t i = 0; i < SIM_FILES_MAX; i++) {
        host->disk.names[i].inode = NULL;
        host->disk.kept[i].inode = NULL;
    }
    host->disk.change_count = 0;
}

void rep_service_start(struct replicas *replicas, uint32_t index)
{
    struct rep_host *host = &replicas->hosts[index];
    struct rep_service *service = host->service;
    struct muster_error err = {.text = ""};
    uint64_t life = service->actor.life + 1;
    bool renamed = host->wiped || (!replicas->plan.sync && host->booted != host->boot);

    if (host->wiped) {
        wipe(host);
        host->wiped = false;
    }
    if (host->id == 0 || (renamed && !PLANT(BOOT_KEPT))) {
        host->id = next_id(host);
    }
    host->booted = host->boot;
    *service = (struct rep_service){
        .actor = {.host = index, .alive = true, .life = life, .wake_ns = SIM_NEVER, .look = look},
        .replicas = replicas,
        .child = {.born = service->child.born + 1},
        .digest_at = replicas->plan.digest_every,
        .snapshot_at = replicas->plan.snapshot_every};
    sim_memory_init(&service->memory, replicas->sim.memory.fill,
                    mst_prng_next(&replicas->sim.prng));
    mst_native_arena_init(&service->arena, &service->memory.mem);
    sim_tell(&replicas->sim, "service %u: begins, boot %" PRIu64, index, host->boot);
    if (!open_all(service, &err)) {
        die(service, err.text[0] ? err.text : "no memory");
    } else {
        sim_tell(&replicas->sim, "service %u: is %" PRIu64 ", log %" PRIu64 " to %" PRIu64, index,
                 service->id, mst_replica_log_first(service->log),
                 mst_replica_log_last(service->log));
        mst_replica_start(service->replica, rep_service_clock(service));
        if (rep_service_drive(service)) {
            rep_wake(replicas, &service->actor, replicas->sim.now_ns);
        }
    }
    rep_service_after(service);
}

void rep_service_kill(struct replicas *replicas, uint32_t index, bool with_host)
{
    struct rep_service *service = replicas->hosts[index].service;

    if (service->actor.alive) {
        sim_tell(&replicas->sim, "service %u: is killed", index);
        bury(service, with_host);
    }
}

void rep_service_fini(struct replicas *replicas, uint32_t index)
{
    struct rep_host *host = &replicas->hosts[index];

    if (host->service->actor.alive) {
        host->service->actor.alive = false;
        cleanup(host->service);
    }
    free(host->service);
    sim_disk_fini(&host->disk);
}

/* Something else than an entry changes the state of a follower: a connection that no client has. A
 * leader that has such a state cannot be told from one that has not; so it ends before it leads. */
void rep_service_diverge(struct replicas *replicas, uint32_t index)
{
    struct rep_service *service = replicas->hosts[index].service;
    const struct mst_conn conn = {.id = UINT64_MAX / 4};

    if (service->actor.alive && !service->leads_due && service->awaits == 0 && !service->serves &&
        !service->diverged && mst_core_open(service->core, service->core_ns, conn) == MUSTER_OK) {
        sim_tell(&replicas->sim, "fault: the state of host %u is changed", index);
        service->diverged = true;
    }
}

struct rep_actor *rep_service_actor(struct replicas *replicas, uint32_t index)
{
    struct rep_service *service = replicas->hosts[index].service;

    return service->actor.alive ? &service->actor : NULL;
}

bool rep_service_frozen(const struct replicas *replicas, uint32_t index)
{
    return replicas->hosts[index].service->actor.frozen;
}

/* ---- for the observer ------------------------------------------------------------------------ */

static bool is_well(const struct replicas *replicas, uint32_t index)
{
    const struct rep_host *host = &replicas->hosts[index];

    return host->up && host->service->actor.alive && !host->service->actor.frozen &&
           !host->disk.full && host->slow_ns == 0 && host->service->memory.fail_1_in == 0;
}

/* It leads, serves, and a majority of the voters can hear and answer it. */
bool rep_service_serves(const struct replicas *replicas, uint32_t index)
{
    const struct rep_service *service = replicas->hosts[index].service;
    struct mst_replica_status status;
    size_t voters = 0;
    size_t reached = 0;

    if (!is_well(replicas, index) || !service->serves || service->pending) {
        return false;
    }
    mst_replica_status_of(service->replica, &status);
    for (size_t i = 0; i < status.servers->count; i++) {
        const struct mst_replica_server *server = &status.servers->of[i];
        uint32_t other = rep_host_at(server->address);

        if (server->role != MST_REPLICA_VOTER) {
            continue;
        }
        voters++;
        reached += is_well(replicas, other) && replicas->hosts[other].service->id == server->id &&
                   rep_wire_passes(replicas, index, other) &&
                   rep_wire_passes(replicas, other, index);
    }
    return status.state == MST_REPLICA_LEADER && reached * 2 > voters;
}
