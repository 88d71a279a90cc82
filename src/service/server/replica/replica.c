/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/replica/part.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/panic.h"
#include "base/text.h"
#include "base/time.h"
#include "os/system.h"
#include "proto/protobuf.h"

#define VOTERS_NS (100 * NS_PER_MS) /* between two looks at the connected replicas */
#define FULL_NS (20 * NS_PER_MS)    /* between two tries on a full disk */
#define FULL_ELECTIONS 10u          /* after which it ends */
#define DIGEST_INPUTS 10000u
#define DIGEST_SHARE 100u /* of the time, at most, for digests */
#define APPLY_ELECTION 8u /* of an election timeout: then the connections have their turn */
#define DIGEST_ELECTION                                                                            \
    8u /* of an election timeout: a follower that reads acknowledges nothing                       \
        */

/* ---- the end ---- */

static void end(struct mst_uv_replica *replica, const char *event, const char *reason)
{
    if (replica->role != MST_UV_REPLICA_ENDED && replica->stopping) {
        replica->role = MST_UV_REPLICA_ENDED;
        mst_uv_log_line(replica->lines, MST_INFO, "replica", "lead-handed-over");
    } else if (replica->role != MST_UV_REPLICA_ENDED) {
        replica->role = MST_UV_REPLICA_ENDED;
        mst_uv_log_line(replica->lines, MST_ERROR, "replica",
                        "%s reason=\"%s; this process ends, and is to be started again\"", event,
                        reason);
    }
}

/* ---- what is committed ---- */

static void restore(struct mst_uv_replica *replica, uint64_t index)
{
    const struct mst_replica_snapshot *about = mst_replica_log_snapshot(replica->log);
    struct muster_error err = {.text = ""};
    unsigned char *bytes;

    MST_ASSERT(about && about->index == index);
    bytes = malloc(about->bytes > 0 ? (size_t)about->bytes : 1);
    if (!bytes) {
        end(replica, "replica-failed", "out of memory for a snapshot");
        return;
    }
    if (mst_replica_log_read(replica->log, index, 0, bytes, (size_t)about->bytes, &err) !=
            MUSTER_OK ||
        mst_journal_load(replica->journal, mst_slice_of(bytes, (size_t)about->bytes),
                         &replica->core, &err) != MUSTER_OK) {
        end(replica, "replica-failed", err.text);
    } else {
        mst_uv_log_line(replica->lines, MST_INFO, "replica",
                        "snapshot-loaded index=%" PRIu64 " bytes=%" PRIu64, index, about->bytes);
    }
    free(bytes);
}

static void compare(struct mst_uv_replica *replica, const struct mst_replica_effect *effect)
{
    uint64_t own = mst_core_kept_digest(replica->core);
    char reason[200];

    if (effect->payload.size == 8 && mst_get_u64(effect->payload.data) == own) {
        return;
    }
    (void)snprintf(reason, sizeof reason,
                   "its state at entry %" PRIu64 " has the digest %016" PRIx64
                   ", and that of the leader another one: it is thrown away, and comes again from "
                   "the leader",
                   effect->index, own);
    replica->differs = true;
    end(replica, "replica-differs", reason);
}

/* What this one submitted as the leader, its core has had before. */
static void committed(struct mst_uv_replica *replica, const struct mst_replica_effect *effect)
{
    struct muster_error err;

    if (replica->role == MST_UV_REPLICA_LEADS) {
        if (effect->own) {
            replica->committed = effect->index;
        }
    } else if (effect->kind == MST_REPLICA_DIGEST) {
        compare(replica, effect);
    } else if (mst_journal_apply(replica->journal, effect->payload, &err) != MUSTER_OK) {
        end(replica, "replica-failed", err.text);
    }
}

/* ---- effects ---- */

static void tell_members(struct mst_uv_replica *replica)
{
    struct mst_replica_status status;
    char line[1024];
    size_t used = 0;

    mst_replica_status_of(replica->machine, &status);
    line[0] = '\0';
    for (size_t i = 0; i < status.servers->count && used < sizeof line - 300; i++) {
        const struct mst_replica_server *server = &status.servers->of[i];

        used +=
            (size_t)snprintf(line + used, sizeof line - used, "%s%s%s", i > 0 ? "," : "",
                             server->address, server->role == MST_REPLICA_VOTER ? "" : "(standby)");
    }
    mst_uv_log_line(replica->lines, MST_INFO, "replica", "members voters=%zu of=%s",
                    mst_replica_servers_voters(status.servers), line);
    replica->voters_ns = 0;
    replica->moved = true;
}

static void follows(struct mst_uv_replica *replica, const struct mst_replica_effect *effect)
{
    if (effect->peer != 0) {
        mst_uv_log_line(replica->lines, MST_INFO, "replica", "follows leader=%s", effect->address);
    } else {
        mst_uv_log_line(replica->lines, MST_INFO, "replica", "follows leader=none");
    }
    replica->moved = true;
}

static void carry_out(struct mst_uv_replica *replica, const struct mst_replica_effect *effect)
{
    switch (effect->type) {
    case MST_REPLICA_SEND:
        mst_uv_links_send(replica->links, effect->peer, effect->address, effect->bytes);
        break;
    case MST_REPLICA_RESTORE:
        restore(replica, effect->index);
        break;
    case MST_REPLICA_COMMITTED:
        committed(replica, effect);
        break;
    case MST_REPLICA_SERVERS:
        tell_members(replica);
        break;
    case MST_REPLICA_LEADS:
        replica->role = MST_UV_REPLICA_LEADS_DUE;
        break;
    case MST_REPLICA_FOLLOWS:
        follows(replica, effect);
        break;
    case MST_REPLICA_YIELD_SNAPSHOT:
        replica->yields = true;
        break;
    case MST_REPLICA_DEPOSED:
        end(replica, "deposed", effect->reason);
        break;
    case MST_REPLICA_BROKEN:
        end(replica, "replica-broken", effect->reason);
        break;
    case MST_REPLICA_FAILED:
        end(replica, "replica-failed", effect->reason);
        break;
    }
}

/* After each input of the machine. A replica that catches up has much to apply, and must
 * acknowledge heartbeats meanwhile: the rest is for the next turn. */
static void drive(struct mst_uv_replica *replica)
{
    uint64_t until_ns = uv_hrtime() + (uint64_t)replica->election_ms * NS_PER_MS / APPLY_ELECTION;
    const struct mst_replica_effect *effect;

    replica->unwritten = true;
    replica->unapplied = false;
    while (replica->role != MST_UV_REPLICA_ENDED && !replica->unapplied &&
           (effect = mst_replica_next(replica->machine))) {
        replica->unapplied = replica->role == MST_UV_REPLICA_FOLLOWS &&
                             effect->type == MST_REPLICA_COMMITTED && uv_hrtime() >= until_ns;
        carry_out(replica, effect);
        mst_replica_done(replica->machine, effect);
    }
}

static void write_out(struct mst_uv_replica *replica)
{
    if (replica->machine && replica->unwritten && replica->role != MST_UV_REPLICA_ENDED) {
        mst_replica_write(replica->machine, uv_hrtime());
        drive(replica);
        replica->unwritten = replica->unapplied;
    }
}

static void tick(struct mst_uv_replica *replica)
{
    uint64_t now_ns = uv_hrtime();

    if (replica->machine && replica->role != MST_UV_REPLICA_ENDED &&
        now_ns >= mst_replica_deadline_ns(replica->machine)) {
        mst_replica_tick(replica->machine, now_ns);
        drive(replica);
    }
}

/* ---- the machine ---- */

static bool begin(struct mst_uv_replica *replica, bool founds)
{
    struct mst_replica_servers found = {.count = 1};
    struct mst_replica_config config = {.election_ms = replica->election_ms,
                                        .address = replica->self,
                                        .found = founds ? &found : NULL};
    struct muster_error err;

    mst_system_random(&config.seed, 1);
    found.of[0].id = mst_replica_log_id(replica->log);
    found.of[0].role = MST_REPLICA_VOTER;
    (void)snprintf(found.of[0].address, sizeof found.of[0].address, "%s", replica->self);
    if (mst_replica_new(&replica->machine, replica->log, &config, &replica->mem, &err) !=
        MUSTER_OK) {
        end(replica, "replica-failed", err.text);
        return false;
    }
    if (founds) {
        mst_uv_log_line(replica->lines, MST_INFO, "replica", "founds-group address=%s",
                        replica->self);
    }
    mst_replica_start(replica->machine, uv_hrtime());
    drive(replica);
    write_out(replica);
    return true;
}

static bool is_first(const struct mst_uv_replica *replica)
{
    const char *list = replica->list;
    size_t size;
    const char *first = mst_uv_next_address(&list, &size);

    return first && mst_uv_is_address(replica->self, first, size);
}

/* A group exists if any of the others belongs to one; none does if all of them say so. */
static void look_for_group(struct mst_uv_replica *replica)
{
    struct mst_uv_links_peer peers[MST_UV_LINKS_PEERS_MAX];
    size_t count = mst_uv_links_peers(replica->links, peers);
    const char *list = replica->list, *at;
    bool all = true;
    size_t size;

    for (size_t i = 0; i < count; i++) {
        if (peers[i].member) {
            (void)begin(replica, false);
            return;
        }
    }
    while ((at = mst_uv_next_address(&list, &size))) {
        bool there = mst_uv_is_address(replica->self, at, size);

        for (size_t i = 0; i < count && !there; i++) {
            there = mst_uv_is_address(peers[i].address, at, size);
        }
        all = all && there;
    }
    if (all) {
        (void)begin(replica, true);
    }
}

static void received(void *ctx, const struct mst_uv_links_peer *peer,
                     const struct mst_replica_message *message)
{
    struct mst_uv_replica *replica = ctx;

    if (replica->machine && replica->role != MST_UV_REPLICA_ENDED) {
        mst_replica_receive(replica->machine, uv_hrtime(), peer->id, peer->address, message);
        drive(replica);
    }
}

static void connected(void *ctx, const struct mst_uv_links_peer *peer)
{
    struct mst_uv_replica *replica = ctx;

    replica->voters_ns = 0;
    if (replica->machine && replica->role != MST_UV_REPLICA_ENDED) {
        mst_replica_connected(replica->machine, uv_hrtime(), peer->id);
        drive(replica);
    }
}

/* ---- opening ---- */

static bool read_boot(unsigned char boot[MST_REPLICA_BOOT])
{
    char text[64];
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text);
    unsigned digits = 0;

    if (file >= 0) {
        (void)close(file);
    }
    memset(boot, 0, MST_REPLICA_BOOT);
    for (ssize_t i = 0; i < size && digits < 2 * MST_REPLICA_BOOT; i++) {
        const char *all = "0123456789abcdef";
        const char *digit = strchr(all, text[i]);

        if (digit && text[i] != '\0') {
            boot[digits / 2] = (unsigned char)(boot[digits / 2] << 4 | (digit - all));
            digits++;
        }
    }
    return digits == 2 * MST_REPLICA_BOOT;
}

static void on_tell(void *ctx, enum mst_level level, const char *line)
{
    mst_uv_log_line(ctx, level, "replica", "%s", line);
}

static muster_status open_log(struct mst_uv_replica *replica,
                              const struct mst_uv_replica_config *config, struct muster_error *err)
{
    struct mst_replica_log_config log = {.sync = config->sync,
                                         .version = config->version,
                                         .rules = MST_CORE_RULES,
                                         .tell = on_tell,
                                         .tell_ctx = replica->lines};
    muster_status status;

    if (!read_boot(log.boot)) {
        return mst_fail(err, MUSTER_EFAILED, 0,
                        "cannot be a replica: /proc/sys/kernel/random/boot_id cannot be read, so "
                        "it is not known whether this host was started again");
    }
    do {
        mst_system_random(&log.id, 1);
        log.id >>= 1;
    } while (log.id == 0);
    status = mst_journal_disk_open(&replica->disk, config->path, config->sync, err);
    if (status == MUSTER_OK) {
        status = mst_replica_log_open(&replica->log, mst_journal_disk_of(replica->disk), &log,
                                      &replica->mem, err);
    }
    return status;
}

static muster_status open_links(struct mst_uv_replica *replica,
                                const struct mst_uv_replica_config *config,
                                struct muster_error *err)
{
    const struct mst_uv_links_config links = {.loop = &replica->loop,
                                              .log = replica->lines,
                                              .mem = &replica->mem,
                                              .secret = config->secret,
                                              .run = config->run,
                                              .address = replica->self,
                                              .id = mst_replica_log_id(replica->log),
                                              .rules = MST_CORE_RULES,
                                              .version = config->version,
                                              .member = &replica->member,
                                              .ctx = replica,
                                              .received = received,
                                              .connected = connected};

    return mst_uv_links_open(&replica->links, &links, err);
}

/* The main loop wakes; its turn runs our loop. */
static void on_wake(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

static muster_status open_loop(struct mst_uv_replica *replica, uv_loop_t *loop,
                               struct muster_error *err)
{
    int code = uv_loop_init(&replica->loop);

    if (code == 0) {
        (void)uv_timer_init(&replica->loop, &replica->timer);
        code = uv_poll_init(loop, &replica->wake, uv_backend_fd(&replica->loop));
        if (code != 0) {
            uv_close((uv_handle_t *)&replica->timer, NULL);
            (void)uv_run(&replica->loop, UV_RUN_DEFAULT);
            (void)uv_loop_close(&replica->loop);
        }
    }
    if (code != 0) {
        return mst_fail(err, MUSTER_EFAILED, -code, "cannot make an event loop: %s",
                        uv_strerror(code));
    }
    replica->wake.data = replica;
    (void)uv_poll_start(&replica->wake, UV_READABLE, on_wake);
    return MUSTER_OK;
}

muster_status mst_uv_replica_open(struct mst_uv_replica **out, uv_loop_t *loop,
                                  struct mst_uv_log *log,
                                  const struct mst_uv_replica_config *config,
                                  const struct mst_mem *mem, struct muster_error *err)
{
    struct mst_uv_replica *replica = calloc(1, sizeof *replica);
    muster_status status;

    if (!replica) {
        return mst_fail(err, MUSTER_ENOMEM, 0, "cannot be a replica: out of memory");
    }
    replica->mem = *mem;
    replica->lines = log;
    replica->voters = config->voters;
    replica->lease_ns = config->lease_ns;
    mst_histogram_init(&replica->commits, &mst_key_time_bounds);
    replica->election_ms = mst_replica_election_ms(config->lease_ns);
    (void)snprintf(replica->self, sizeof replica->self, "%s", config->self);
    (void)snprintf(replica->list, sizeof replica->list, "%s", config->addresses);
    status = open_loop(replica, loop, err);
    if (status != MUSTER_OK) {
        free(replica);
        return status;
    }
    *out = replica; /* from here on its handles need their loops */
    status = open_log(replica, config, err);
    if (status == MUSTER_OK) {
        replica->member = !mst_replica_log_recovery(replica->log)->fresh;
        status = open_links(replica, config, err);
    }
    return status;
}

static bool take(void *ctx, struct mst_slice payload);

struct mst_journal_sink mst_uv_replica_sink(struct mst_uv_replica *replica)
{
    return (struct mst_journal_sink){.ctx = replica, .max = MST_REPLICA_PAYLOAD_MAX, .take = take};
}

muster_status mst_uv_replica_start(struct mst_uv_replica *replica, struct mst_journal *journal,
                                   struct mst_core *core, struct muster_error *err)
{
    replica->journal = journal;
    replica->core = core;
    replica->moved = true;
    mst_uv_log_line(replica->lines, MST_INFO, "replica",
                    "replica-begun address=%s id=%" PRIu64 " entries=%" PRIu64 "..%" PRIu64,
                    replica->self, mst_replica_log_id(replica->log),
                    mst_replica_log_first(replica->log), mst_replica_log_last(replica->log));
    mst_uv_links_reach(replica->links, replica->list);
    if (replica->member || !is_first(replica)) {
        if (!begin(replica, false)) {
            return mst_fail(err, MUSTER_EFAILED, 0, "cannot be a replica: the log says why");
        }
        if (!replica->member) {
            mst_uv_log_line(replica->lines, MST_INFO, "replica",
                            "waits-to-be-added reason=\"its folder is new\"");
        }
    } else {
        look_for_group(replica);
        if (!replica->machine) {
            mst_uv_log_line(replica->lines, MST_INFO, "replica",
                            "waits-to-found reason=\"its folder is new, and not all of %s said yet "
                            "that theirs are\"",
                            replica->list);
        }
    }
    return MUSTER_OK;
}

static void remove_file(void *ctx, const char *name)
{
    const struct mst_disk *disk = ctx;
    enum mst_file_kind kind;
    uint64_t sequence;

    if (mst_replica_name_read(name, &kind, &sequence)) {
        (void)disk->remove(disk->ctx, name);
    }
}

void mst_uv_replica_free(struct mst_uv_replica *replica)
{
    int code;

    if (!replica) {
        return;
    }
    mst_uv_links_close(replica->links);
    uv_close((uv_handle_t *)&replica->timer, NULL);
    while (uv_run(&replica->loop, UV_RUN_DEFAULT) != 0) {
    }
    code = uv_loop_close(&replica->loop);
    MST_ASSERT(code == 0);
    mst_replica_free(replica->machine);
    mst_replica_log_free(replica->log);
    if (replica->differs) {
        struct mst_disk disk = *mst_journal_disk_of(replica->disk);

        (void)disk.list(disk.ctx, remove_file, &disk);
    }
    mst_journal_disk_close(replica->disk);
    free(replica);
}

/* ---- turns ---- */

static void on_time(uv_timer_t *timer)
{
    (void)timer;
}

/* One run of our loop, which waits for `most_ns` at most. */
static void run_links(struct mst_uv_replica *replica, uint64_t until_ns)
{
    uint64_t now_ns = uv_hrtime();
    uint64_t wait_ms = until_ns > now_ns ? mst_ms_up(until_ns - now_ns) : 0;

    uv_update_time(&replica->loop);
    (void)uv_timer_start(&replica->timer, on_time, wait_ms, 0);
    (void)uv_run(&replica->loop, UV_RUN_ONCE);
    (void)uv_timer_stop(&replica->timer);
    tick(replica);
    write_out(replica);
}

void mst_uv_replica_turn(struct mst_uv_replica *replica)
{
    if (replica->role == MST_UV_REPLICA_ENDED) {
        return;
    }
    (void)uv_run(&replica->loop, UV_RUN_NOWAIT);
    if (!replica->machine) {
        look_for_group(replica);
    }
    tick(replica);
    write_out(replica);
    if (replica->machine && !replica->member) {
        replica->member = mst_replica_log_term(replica->log) > 0;
    }
}

void mst_uv_replica_pulse(struct mst_uv_replica *replica)
{
    if (replica->role == MST_UV_REPLICA_LEADS &&
        uv_hrtime() >= mst_replica_deadline_ns(replica->machine)) {
        mst_uv_replica_turn(replica);
    }
}

uint64_t mst_uv_replica_deadline_ns(struct mst_uv_replica *replica)
{
    uint64_t deadline_ns = UINT64_MAX;
    int wait_ms;

    if (replica->role == MST_UV_REPLICA_ENDED || replica->role == MST_UV_REPLICA_LEADS_DUE ||
        replica->moved || replica->unwritten) {
        return 0;
    }
    if (replica->machine) {
        deadline_ns = mst_replica_deadline_ns(replica->machine);
    }
    if (replica->role == MST_UV_REPLICA_LEADS) {
        deadline_ns = mst_sooner(deadline_ns, replica->voters_ns);
    }
    uv_update_time(&replica->loop);
    wait_ms = uv_backend_timeout(&replica->loop);
    return wait_ms < 0 ? deadline_ns
                       : mst_sooner(deadline_ns, uv_hrtime() + (uint64_t)wait_ms * NS_PER_MS);
}

enum mst_uv_replica_role mst_uv_replica_role(const struct mst_uv_replica *replica)
{
    return replica->role;
}

struct mst_core *mst_uv_replica_core(const struct mst_uv_replica *replica)
{
    return replica->core;
}

/* ---- the leader's entries ---- */

/* A full disk: another replica may have room. Until then nothing is fed and nothing leaves. */
static bool wait_for_room(struct mst_uv_replica *replica, muster_status status, uint64_t since_ns)
{
    uint64_t now_ns = uv_hrtime();
    uint64_t most_ns = (uint64_t)replica->election_ms * FULL_ELECTIONS * NS_PER_MS;

    if (now_ns - since_ns > most_ns) {
        end(replica, "replica-failed",
            status == MUSTER_ENOSPACE ? "its disk is full, and no other replica took the lead"
                                      : "it can add no entry, and no other replica took the lead");
        return false;
    }
    if (status != MUSTER_ECONFLICT) {
        (void)mst_replica_transfer(replica->machine, now_ns, 0);
        drive(replica);
    }
    run_links(replica, now_ns + FULL_NS);
    return replica->role != MST_UV_REPLICA_ENDED;
}

static bool submit(struct mst_uv_replica *replica, enum mst_replica_kind kind,
                   struct mst_slice payload, uint64_t *index)
{
    uint64_t since_ns = uv_hrtime();
    bool told = false;

    while (replica->role == MST_UV_REPLICA_LEADS) {
        muster_status status =
            mst_replica_submit(replica->machine, uv_hrtime(), kind, payload, index);

        drive(replica);
        if (status == MUSTER_OK) {
            return replica->role == MST_UV_REPLICA_LEADS;
        }
        MST_ASSERT(status != MUSTER_ELIMIT);
        if (!told) {
            told = true;
            mst_uv_log_line(replica->lines, MST_WARN, "replica",
                            "entry-refused reason=\"%s; the lead is handed over\"",
                            status == MUSTER_ENOSPACE ? "its disk is full"
                            : status == MUSTER_ENOMEM ? "out of memory"
                                                      : "it hands over the lead");
        }
        if (!wait_for_room(replica, status, since_ns)) {
            return false;
        }
    }
    return false;
}

static bool give(struct mst_uv_replica *replica, struct mst_slice payload)
{
    return submit(replica, MST_REPLICA_RECORDS, payload, &replica->given);
}

static bool take(void *ctx, struct mst_slice payload)
{
    return give(ctx, payload);
}

static bool wait_for_commit(struct mst_uv_replica *replica)
{
    const bool waits = replica->committed < replica->given;
    uint64_t since_ns = uv_hrtime();

    write_out(replica);
    if (waits && replica->committed >= replica->given) {
        mst_uv_replica_turn(replica); /* the only voter waits for nobody, and hears the others */
    }
    while (replica->role == MST_UV_REPLICA_LEADS && replica->committed < replica->given) {
        run_links(replica, mst_replica_deadline_ns(replica->machine));
    }
    if (waits) {
        mst_histogram_add(&replica->commits, uv_hrtime() - since_ns, 1);
    }
    return replica->role == MST_UV_REPLICA_LEADS;
}

bool mst_uv_replica_lead(struct mst_uv_replica *replica)
{
    struct mst_replica_status status;

    MST_ASSERT(replica->role == MST_UV_REPLICA_LEADS_DUE);
    mst_replica_status_of(replica->machine, &status);
    mst_uv_log_line(replica->lines, MST_INFO, "replica",
                    "leads term=%" PRIu64 " entry=%" PRIu64 " voters=%zu", status.term,
                    status.applied, mst_replica_servers_voters(status.servers));
    replica->role = MST_UV_REPLICA_LEADS;
    replica->digested = mst_journal_inputs(replica->journal);
    replica->moved = true;
    if (mst_journal_lead(replica->journal) != MUSTER_OK) {
        end(replica, "replica-failed", "out of memory, or limits that make no sense");
        return false;
    }
    return true;
}

uint64_t mst_uv_replica_given(const struct mst_uv_replica *replica)
{
    return replica->given;
}

bool mst_uv_replica_commit(struct mst_uv_replica *replica, bool more)
{
    if (more && !give(replica, mst_slice_of(NULL, 0))) {
        return false;
    }
    return wait_for_commit(replica);
}

/* ---- digests, and the voters ---- */

static bool is_in_time(void *ctx, struct mst_slice bytes)
{
    const uint64_t *until_ns = ctx;

    (void)bytes;
    return uv_hrtime() < *until_ns;
}

/* It reads the whole state, and nothing is served meanwhile, here and at the followers. One that is
 * so large that this would cost the lead is not compared. Nobody waits for its entry. */
static void digest(struct mst_uv_replica *replica)
{
    uint64_t since_ns = uv_hrtime(), took_ns, own, index;
    uint64_t until_ns = since_ns + (uint64_t)replica->election_ms * NS_PER_MS / DIGEST_ELECTION;
    const struct mst_snapshot_sink sink = {.ctx = &until_ns, .put = is_in_time};
    bool whole = mst_core_kept_digest_to(replica->core, &sink, &own);
    unsigned char bytes[8];

    replica->digested = mst_journal_inputs(replica->journal);
    took_ns = uv_hrtime() - since_ns;
    replica->digest_ns = since_ns + took_ns * DIGEST_SHARE;
    if (!whole) {
        mst_uv_log_line(replica->lines, replica->too_large ? MST_DEBUG : MST_WARN, "replica",
                        "digest-left-out reason=\"the state is not read within %u ms: whether the "
                        "replicas have the same one is not compared\"",
                        (unsigned)(replica->election_ms / DIGEST_ELECTION));
        replica->too_large = true;
        return;
    }
    mst_put_u64(bytes, own);
    mst_uv_log_line(replica->lines, MST_DEBUG, "replica",
                    "digest inputs=%" PRIu64 " took=%" PRIu64 "us", replica->digested,
                    took_ns / 1000);
    (void)submit(replica, MST_REPLICA_DIGEST, mst_slice_of(bytes, sizeof bytes), &index);
}

/* An address is one replica: the last that came there. */
static void see(struct mst_uv_replica *replica, const struct mst_uv_links_peer *peer,
                uint64_t now_ns)
{
    struct seen *place = NULL;

    for (size_t i = 0; i < SEEN_MAX; i++) {
        struct seen *seen = &replica->seen[i];

        if (strcmp(seen->peer.address, peer->address) == 0) {
            place = seen;
            break;
        }
        if (!place || seen->until_ns < place->until_ns) {
            place = seen;
        }
    }
    place->peer = *peer;
    place->until_ns = now_ns + replica->lease_ns;
}

static void lead_voters(struct mst_uv_replica *replica)
{
    struct mst_uv_links_peer peers[MST_UV_LINKS_PEERS_MAX];
    struct mst_voters_present present[SEEN_MAX + 1];
    struct mst_voters_wanted wanted = {.voters = replica->voters, .present = present, .count = 1};
    size_t count = mst_uv_links_peers(replica->links, peers);
    uint64_t now_ns = uv_hrtime();

    replica->voters_ns = now_ns + VOTERS_NS;
    for (size_t i = 0; i < count; i++) {
        see(replica, &peers[i], now_ns);
    }
    present[0] = (struct mst_voters_present){.id = mst_replica_log_id(replica->log),
                                             .address = replica->self};
    for (size_t i = 0; i < SEEN_MAX; i++) {
        const struct seen *seen = &replica->seen[i];

        if (seen->until_ns > now_ns) {
            present[wanted.count++] =
                (struct mst_voters_present){.id = seen->peer.id,
                                            .address = seen->peer.address,
                                            .host = mst_slice_text(seen->peer.host)};
        }
    }
    mst_replica_lead_voters(replica->machine, now_ns, &wanted);
    drive(replica);
    write_out(replica);
}

void mst_uv_replica_rest(struct mst_uv_replica *replica)
{
    if (replica->role != MST_UV_REPLICA_LEADS) {
        return;
    }
    if (mst_journal_inputs(replica->journal) - replica->digested >= DIGEST_INPUTS &&
        uv_hrtime() >= replica->digest_ns) {
        digest(replica);
    }
    if (replica->role == MST_UV_REPLICA_LEADS && uv_hrtime() >= replica->voters_ns) {
        lead_voters(replica);
    }
}

void mst_uv_replica_stop(struct mst_uv_replica *replica)
{
    uint64_t until_ns = uv_hrtime() + (uint64_t)replica->election_ms * NS_PER_MS;

    if (replica->role != MST_UV_REPLICA_LEADS ||
        mst_replica_transfer(replica->machine, uv_hrtime(), 0) != MUSTER_OK) {
        return;
    }
    replica->stopping = true;
    drive(replica);
    while (replica->role == MST_UV_REPLICA_LEADS && uv_hrtime() < until_ns) {
        run_links(replica, mst_sooner(until_ns, mst_replica_deadline_ns(replica->machine)));
    }
}

/* ---- own snapshots ---- */

bool mst_uv_replica_snapshot_due(const struct mst_uv_replica *replica)
{
    return replica->machine && replica->role != MST_UV_REPLICA_ENDED &&
           replica->committed >= replica->given && mst_journal_state_due(replica->journal) &&
           !mst_replica_log_saving(replica->log);
}

bool mst_uv_replica_snapshot_begin(struct mst_uv_replica *replica)
{
    struct mst_replica_snapshot about;
    struct mst_replica_saving *saving;

    mst_journal_state_kept(replica->journal); /* or, if it cannot be, later */
    return mst_replica_snapshot_begin(replica->machine, &about) == MUSTER_OK &&
           mst_replica_log_save(replica->log, &about, &saving) == MUSTER_OK;
}

static bool put_state(void *ctx, struct mst_slice bytes)
{
    return mst_replica_saving_put(ctx, bytes) == MUSTER_OK;
}

muster_status mst_uv_replica_snapshot_write(void *ctx)
{
    struct mst_uv_replica *replica = ctx;
    struct mst_replica_saving *saving = mst_replica_log_saving(replica->log);
    const struct mst_snapshot_sink sink = {.ctx = saving, .put = put_state};

    return mst_journal_save(replica->journal, &sink) ? mst_replica_saving_close(saving)
                                                     : MUSTER_EFAILED;
}

void mst_uv_replica_snapshot_end(struct mst_uv_replica *replica, bool written)
{
    replica->yields = false;
    if (!written) {
        mst_uv_log_line(replica->lines, MST_WARN, "replica", "snapshot-failed");
    }
    mst_replica_snapshot_end(replica->machine, uv_hrtime(), written);
    drive(replica);
}

bool mst_uv_replica_snapshot_yields(const struct mst_uv_replica *replica)
{
    return replica->yields;
}

struct mst_journal_disk *mst_uv_replica_disk(struct mst_uv_replica *replica)
{
    return replica->disk;
}
