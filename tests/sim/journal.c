/* SPDX-License-Identifier: Apache-2.0 */
/* The service keeps a journal on a disk that forgets, dies at any step of it, and comes back. What
 * it decides is told to the properties when it is kept; so they hold over deaths as they are. */
#include "journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "properties.h"
#include "record.h"
#include "service/core/snapshot.h"
#include "sim.h"

/* ---- a child that writes a snapshot ------------------------------------------------------------
 *
 * It sees the service as it was when it was forked. So it is run at once, on a disk that only takes
 * down what is wanted of it; then that is done, step by step, while the service goes on. */

static struct sim_child_op *op(struct sim_child *child, enum sim_child_op_kind kind)
{
    struct sim_child_op *one;

    if (child->count == child->room) {
        child->room = child->room ? child->room * 2 : 16;
        child->ops = sim_grown(child->ops, child->room, sizeof(*child->ops));
    }
    one = &child->ops[child->count++];
    memset(one, 0, sizeof(*one));
    one->kind = kind;
    return one;
}

static void set_name(char *out, const char *name)
{
    MST_ASSERT(strlen(name) < SIM_NAME_ROOM);
    memcpy(out, name, strlen(name) + 1);
}

static muster_status child_create(void *ctx, const char *name, int *out)
{
    set_name(op(ctx, SIM_CHILD_CREATE)->name, name);
    *out = 0;
    return MUSTER_OK;
}

static muster_status child_write(void *ctx, int file, uint64_t offset, struct mst_slice bytes)
{
    struct sim_child_op *one = op(ctx, SIM_CHILD_WRITE);

    (void)file;
    one->offset = offset;
    one->size = bytes.size;
    one->bytes = sim_new(bytes.size + 1);
    memcpy(one->bytes, bytes.data, bytes.size);
    return MUSTER_OK;
}

static muster_status child_sync(void *ctx, int file)
{
    (void)file;
    (void)op(ctx, SIM_CHILD_SYNC);
    return MUSTER_OK;
}

static muster_status child_rename(void *ctx, const char *from, const char *to)
{
    struct sim_child_op *one = op(ctx, SIM_CHILD_RENAME);

    set_name(one->name, from);
    set_name(one->to, to);
    return MUSTER_OK;
}

static muster_status child_sync_names(void *ctx)
{
    (void)op(ctx, SIM_CHILD_SYNC_NAMES);
    return MUSTER_OK;
}

static void child_close(void *ctx, int file)
{
    (void)ctx;
    (void)file;
}

static void end_child(struct sim_journal *journal)
{
    for (uint32_t i = 0; i < journal->child.count; i++) {
        free(journal->child.ops[i].bytes);
    }
    journal->child.count = 0;
    journal->child.at = 0;
    journal->child.runs = false;
}

static muster_status child_does(struct sim_journal *journal, const struct sim_child_op *one)
{
    struct mst_disk disk = sim_disk_seen(&journal->disk);

    switch (one->kind) {
    case SIM_CHILD_CREATE:
        return disk.create(disk.ctx, one->name, &journal->child.file);
    case SIM_CHILD_WRITE:
        return disk.write(disk.ctx, journal->child.file, one->offset,
                          mst_slice_of(one->bytes, one->size));
    case SIM_CHILD_SYNC:
        return disk.sync(disk.ctx, journal->child.file);
    case SIM_CHILD_RENAME:
        return disk.rename(disk.ctx, one->name, one->to);
    case SIM_CHILD_SYNC_NAMES:
        return disk.sync_names(disk.ctx);
    }
    return MUSTER_EINTERNAL;
}

static void child_step(struct sim *sim, void *ctx, uint64_t born)
{
    struct sim_journal *journal = ctx;
    struct sim_child *child = &journal->child;
    bool ok;

    if (!child->runs || child->born != born) {
        return;
    }
    ok = !sim_chance(sim, 2) && child_does(journal, &child->ops[child->at++]) == MUSTER_OK;
    journal->writes = journal->disk.writes; /* these are no commit */
    if (ok && child->at < child->count) {
        sim_at(sim, sim->now_ns + sim_below(sim, sim->plan.lease_ns / 20), child_step, journal,
               born);
        return;
    }
    if (!sim_service_dead(sim)) {
        sim_tell(sim, "service: the snapshot is %s", ok ? "written" : "not written");
        end_child(journal);
        mst_journal_snapshot_end(journal->journal, ok);
        journal->snapshots += ok;
    }
    if (sim_service_dead(sim)) {
        sim_service_die(sim);
    }
}

/* The disk that the journal writes a snapshot to is the one it has; so the child's is put in its
 * place for the call. */
static void fork_child(struct sim *sim, struct sim_journal *journal)
{
    sim_disk_record(&journal->disk, &(struct mst_disk){.ctx = &journal->child,
                                                       .create = child_create,
                                                       .write = child_write,
                                                       .sync = child_sync,
                                                       .close = child_close,
                                                       .rename = child_rename,
                                                       .sync_names = child_sync_names});
    MST_ASSERT(mst_journal_snapshot_write(journal->journal) == MUSTER_OK);
    sim_disk_record(&journal->disk, NULL);
    journal->child.runs = true;
    sim_at(sim, sim->now_ns + sim_below(sim, sim->plan.lease_ns / 20), child_step, journal,
           ++journal->child.born);
}

void sim_journal_snapshot(struct sim *sim)
{
    struct sim_journal *journal = sim->service.journal;

    if (!journal || sim_service_dead(sim) || journal->child.runs ||
        !mst_journal_snapshot_due(journal->journal) ||
        !mst_journal_snapshot_begin(journal->journal)) {
        return;
    }
    if (sim_chance(sim, 85)) {
        fork_child(sim, journal);
    } else {
        bool ok = mst_journal_snapshot_write(journal->journal) == MUSTER_OK;

        mst_journal_snapshot_end(journal->journal, ok);
        journal->snapshots += ok;
    }
    journal->writes = journal->disk.writes;
}

/* ---- which states may come back ----------------------------------------------------------------
 */

static void add_state(struct sim_journal *journal, uint64_t digest, bool pending)
{
    if (journal->state_count == journal->state_room) {
        journal->state_room = journal->state_room ? journal->state_room * 2 : 64;
        journal->states = sim_grown(journal->states, journal->state_room, sizeof(*journal->states));
    }
    journal->states[journal->state_count++] = (struct sim_state){digest, pending, false};
}

static void past(struct sim_journal *journal, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        journal->before[journal->before_count++ % SIM_BEFORE] = journal->states[i].digest;
    }
    memmove(journal->states, journal->states + count,
            (journal->state_count - count) * sizeof(*journal->states));
    journal->state_count -= count;
}

/* None before the newest may. */
static void promise(struct sim_journal *journal)
{
    past(journal, journal->state_count - 1);
}

/* A damaged tail is none if nothing behind it says that it was durable: without syncs that is the
 * last frame, with them all since the sync before the last. */
static bool is_past(const struct sim *sim, uint64_t digest)
{
    const struct sim_journal *journal = sim->service.journal;
    uint64_t most = sim->plan.syncs ? SIM_BEFORE : 3;

    for (uint64_t i = 1; i <= most && i <= journal->before_count; i++) {
        if (journal->before[(journal->before_count - i) % SIM_BEFORE] == digest) {
            return true;
        }
    }
    return false;
}

/* KEPT_FIRST. It was told of, so it survives whatever may die in this run. */
void sim_journal_promised(struct sim *sim, bool kept)
{
    struct sim_journal *journal = sim->service.journal;

    if (!journal) {
        return;
    }
    if (!kept) {
        sim_fail(sim, SIM_P_KEPT_FIRST, "a decision found no room on the disk, and goes out");
    }
    promise(journal);
}

static uint64_t newest(const struct sim_journal *journal)
{
    return journal->states[journal->state_count - 1].digest;
}

static int state_of(const struct sim_journal *journal, uint64_t digest)
{
    for (uint32_t i = journal->state_count; i-- > 0;) {
        if (journal->states[i].digest == digest) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- inputs ------------------------------------------------------------------------------------
 */

static void heard(struct sim *sim, struct mst_input input)
{
    input.now_ns = sim_service_clock(sim);
    sim_record_heard(sim, &input);
}

muster_status sim_journal_accept(struct sim *sim, struct mst_conn conn)
{
    struct sim_journal *journal = sim->service.journal;

    if (!journal) {
        muster_status status = mst_core_open(sim->service.core, sim_service_clock(sim), conn);

        heard(sim, (struct mst_input){.type = MST_RECORD_OPEN,
                                      .flags = status != MUSTER_OK ? MST_RECORD_REFUSED : 0,
                                      .conn = conn});
        return status;
    }
    journal->fed = true;
    return mst_journal_conn_open(journal->journal, sim_service_clock(sim), conn);
}

muster_status sim_journal_request(struct sim *sim, struct mst_conn conn,
                                  const struct mst_request *request)
{
    struct sim_journal *journal = sim->service.journal;

    if (!journal) {
        muster_status status =
            mst_core_request(sim->service.core, sim_service_clock(sim), conn, request);

        heard(sim, (struct mst_input){.type = MST_RECORD_REQUEST,
                                      .flags = mst_input_flags(sim->service.core),
                                      .conn = conn,
                                      .request = request});
        return status;
    }
    journal->fed = true;
    return mst_journal_request(journal->journal, sim_service_clock(sim), conn, request);
}

void sim_journal_close(struct sim *sim, struct mst_conn conn)
{
    struct sim_journal *journal = sim->service.journal;

    if (journal) {
        journal->fed = true;
        mst_journal_conn_close(journal->journal, sim_service_clock(sim), conn);
    } else {
        mst_core_close(sim->service.core, sim_service_clock(sim), conn);
        heard(sim, (struct mst_input){.type = MST_RECORD_CLOSE, .conn = conn});
    }
}

void sim_journal_tick(struct sim *sim)
{
    struct sim_journal *journal = sim->service.journal;

    if (journal) {
        bool in_gap = journal->in_gap;

        journal->fed = true;
        mst_journal_tick(journal->journal, sim_service_clock(sim));
        if (journal->disk.dead && in_gap) { /* in the snapshot that was to end it, or right after */
            add_state(journal, mst_core_kept_digest(sim->service.core), false);
            journal->states[journal->state_count - 1].ends_gap = journal->in_gap;
        }
    } else {
        mst_core_tick(sim->service.core, sim_service_clock(sim));
        heard(sim, (struct mst_input){.type = MST_RECORD_TICK});
    }
}

uint64_t sim_journal_deadline_ns(const struct sim *sim)
{
    uint64_t at = mst_core_deadline_ns(sim->service.core);
    uint64_t own =
        sim->service.journal ? mst_journal_deadline_ns(sim->service.journal->journal) : SIM_NEVER;

    return own < at ? own : at;
}

/* ---- keeping -----------------------------------------------------------------------------------
 */

bool sim_service_dead(const struct sim *sim)
{
    return sim->service.journal && sim->service.journal->disk.dead;
}

bool sim_service_step(struct sim *sim)
{
    return !sim->service.journal || sim_disk_step(&sim->service.journal->disk);
}

/* From now on: what it is now, and what comes. */
static void learn(struct sim *sim, struct sim_journal *journal)
{
    if (!journal->knows) {
        journal->knows = true;
        journal->state_count = 0;
        add_state(journal, mst_core_kept_digest(sim->service.core), false);
    }
}

/* The state after what was fed, if that is to be kept. */
static void expect(struct sim *sim, struct sim_journal *journal)
{
    uint64_t digest;

    if (journal->in_gap) {
        journal->pending = journal->gap_pending;
        journal->gap_pending = false;
        return;
    }
    if (!sim->plan.follows && journal->disk.dies_in == 0) {
        journal->knows = false;
        return;
    }
    MST_ASSERT(journal->knows);
    digest = mst_core_kept_digest(sim->service.core);
    journal->pending = digest != newest(journal);
    if (journal->pending) {
        add_state(journal, digest, true);
    }
}

/* KEPT_FIRST */
static void kept(struct sim *sim, struct sim_journal *journal)
{
    if (journal->disk.writes != journal->writes) {
        journal->writes = journal->disk.writes;
        journal->kept_ns = journal->in_gap ? journal->kept_ns : sim_service_clock(sim);
    } else if (journal->pending) {
        sim_fail(sim, SIM_P_KEPT_FIRST, "the state has changed, and nothing was written");
    }
    journal->pending = false;
    journal->states[journal->state_count - 1].pending = false;
    if (!sim->plan.syncs) {
        promise(journal);
    }
    if (!journal->in_gap) {
        sim->service.witness.unkept = UINT32_MAX;
    }
    sim_witness_settle(sim);
    if (journal->in_gap) {
        sim->service.witness.unkept = 0;
    }
}

bool sim_journal_keep(struct sim *sim)
{
    struct sim_journal *journal = sim->service.journal;
    struct muster_error err;

    if (!journal) {
        sim->service.witness.unkept = UINT32_MAX;
        sim_witness_settle(sim);
        return true;
    }
    if (journal->disk.dead || !journal->fed) {
        return !journal->disk.dead;
    }
    journal->fed = false;
    expect(sim, journal);
    if (mst_journal_commit(journal->journal, &err) != MUSTER_OK) {
        if (!journal->disk.dead) {
            sim_tell(sim, "service: %.150s", err.text);
            journal->away_ns = sim->plan.lease_ns / 10;
            journal->disk.dead = true;
        }
        return false;
    }
    kept(sim, journal);
    return true;
}

/* From here on nothing is kept; what was fed before is written with the commit. */
static void begin_gap(struct sim *sim, struct sim_journal *journal)
{
    uint64_t digest = sim->service.core ? mst_core_kept_digest(sim->service.core) : 0;

    if (sim->service.core && !journal->disk.dead) {
        learn(sim, journal);
    }
    journal->in_gap = true;
    /* The core's time is that of the last input, which may be of the turn before. */
    journal->gap_ns = sim->service.core ? sim->service.last_ns : sim_service_clock(sim);
    sim_witness_unkept(sim);
    if (sim->service.core && digest != newest(journal)) {
        add_state(journal, digest, true);
        journal->gap_pending = true;
    }
}

uint64_t sim_journal_writes(const struct sim *sim)
{
    return sim->service.journal ? sim->service.journal->disk.writes : 0;
}

uint64_t sim_service_free_ns(const struct sim *sim)
{
    const struct sim_journal *journal = sim->service.journal;

    if (!journal) {
        return 0;
    }
    return journal->in_gap ? sim->now_ns : journal->gap_over_ns;
}

bool sim_service_decides(const struct sim *sim)
{
    const struct sim_journal *journal = sim->service.journal;

    return !journal || (!journal->in_gap && journal->gap_over_ns != sim->now_ns);
}

/* No deadline runs while nothing can be decided. */
uint64_t sim_service_late_ns(const struct sim *sim)
{
    const struct sim_journal *journal = sim->service.journal;

    return sim->service.late_ns +
           (journal && journal->in_gap ? sim_service_clock(sim) - journal->gap_ns : 0);
}

static void told(void *ctx, enum mst_level level, const char *line)
{
    struct sim *sim = ctx;
    struct sim_journal *journal = sim->service.journal;

    (void)level;
    sim_tell(sim, "journal: %.180s", line);
    if (strncmp(line, "journal-full", 12) == 0) {
        begin_gap(sim, journal);
    } else if (strncmp(line, "journal-has-room-again", 22) == 0) {
        journal->in_gap = false;
        journal->gap_over_ns = sim->now_ns;
        sim->service.late_ns += sim_service_clock(sim) - journal->gap_ns;
    }
}

/* ---- death -------------------------------------------------------------------------------------
 */

void sim_service_doom(struct sim *sim, bool with_host, uint64_t steps, uint64_t away_ns)
{
    struct sim_journal *journal = sim->service.journal;

    if (!sim->service.core || journal->disk.dies_in > 0) {
        return;
    }
    sim_tell(sim, "fault: the service dies in %" PRIu64 " steps%s, for %.6f", steps,
             with_host ? " with its host" : "", (double)away_ns / 1e9);
    journal->with_host = with_host;
    journal->away_ns = away_ns;
    journal->disk.dies_in = steps;
    learn(sim, journal);
}

void sim_service_spare(struct sim *sim)
{
    if (sim->service.journal) {
        sim->service.journal->disk.dies_in = 0;
        sim_journal_full(sim, false);
    }
}

void sim_journal_full(struct sim *sim, bool full)
{
    struct sim_journal *journal = sim->service.journal;

    if (full != journal->disk.full) {
        sim_tell(sim, "the disk is %s", full ? "full" : "not full any more");
        journal->disk.full = full;
        journal->full_ever = true;
        sim_service_wake(sim, sim->now_ns);
    }
}

static void leave_connections(struct sim *sim, bool with_host)
{
    struct sim_net *net = &sim->net;

    for (size_t i = 0; i < net->count; i++) {
        struct sim_conn *conn = net->conns[i];

        if (conn->codec) {
            mst_native_service_free(conn->codec);
            conn->codec = NULL;
        }
        conn->orphaned = conn->orphaned || conn->admitted;
        conn->admitted = false;
        if (with_host) {
            sim_net_vanish(conn, SIM_SERVICE);
        } else {
            sim_net_close(sim, conn, SIM_SERVICE);
        }
    }
}

/* The process is gone, with everything in its memory. */
void sim_service_die(struct sim *sim)
{
    struct sim_service *service = &sim->service;
    struct sim_journal *journal = service->journal;
    uint64_t until = sim->now_ns + journal->away_ns;

    sim_tell(sim, "the service dies%s until %.6f", journal->with_host ? " with its host" : "",
             (double)until / 1e9);
    journal->deaths++;
    if (service->core) {
        journal->died_ns = sim_service_clock(sim);
        sim_record_end(sim);
        leave_connections(sim, journal->with_host);
        mst_journal_free(journal->journal);
        mst_core_free(service->core);
    }
    journal->journal = NULL;
    service->core = NULL;
    service->owes_answers = false;
    journal->fed = false;
    end_child(journal);
    sim_disk_crash(&journal->disk, journal->with_host);
    journal->lost_host = journal->lost_host || journal->with_host;
    if (journal->with_host || journal->in_gap) {
        sim_keys_time_lost(sim);
    }
    service->away_until_ns = until;
    sim_saw_service_dead(sim, until);
    journal->with_host = false;
    journal->away_ns = sim->plan.lease_ns / 10;
    sim_service_wake(sim, until);
}

/* ---- and back ----------------------------------------------------------------------------------
 */

static muster_status recover(struct sim *sim, struct sim_disk *disk, bool quiet,
                             struct mst_journal **journal, struct mst_core **core,
                             struct muster_error *err)
{
    struct mst_disk seen = sim_disk_seen(disk);
    struct mst_journal_config config = {.core = sim_service_config(sim),
                                        .version = "sim",
                                        .sync = sim->plan.syncs,
                                        .chunk_bytes = sim->plan.chunk_bytes,
                                        .records_max = sim->plan.snapshot_every,
                                        .tell = quiet ? NULL : told,
                                        .tell_ctx = sim};
    muster_status status;

    if (quiet) {
        config.core.trace = NULL;
    }
    memset(err, 0, sizeof(*err));
    sim->service.journal->recovers = true;
    status = mst_journal_open(journal, core, &seen, &config, &sim->service.memory.mem, err);
    sim->service.journal->recovers = false;
    return status;
}

/* The same files once more, in another process. Its digest before it was resumed; 0: it refused. */
static uint64_t recover_copy(struct sim *sim, struct sim_disk *copy, uint64_t *resumed,
                             struct muster_error *err)
{
    struct mst_journal *journal = NULL;
    struct mst_core *core = NULL;
    uint64_t digest;

    if (recover(sim, copy, true, &journal, &core, err) != MUSTER_OK) {
        return 0;
    }
    digest = mst_journal_recovery(journal)->digest;
    *resumed = mst_core_kept_digest(core);
    mst_journal_free(journal);
    mst_core_free(core);
    return digest;
}

/* DAMAGE_REFUSED */
static void try_damaged(struct sim *sim)
{
    struct sim_journal *journal = sim->service.journal;
    struct sim_disk copy;
    struct sim_inode *inode;
    struct muster_error err;
    uint64_t resumed = 0;
    uint64_t digest;
    size_t at;

    sim_disk_copy(&copy, &journal->disk);
    inode = copy.inode_count > 0 ? copy.inodes[sim_below(sim, copy.inode_count)] : NULL;
    if (inode && inode->size > 0) {
        at = (size_t)sim_below(sim, inode->size);
        sim_disk_damage(&copy, inode, at);
        digest = recover_copy(sim, &copy, &resumed, &err);
        sim_tell(sim, "damaged on trial at %zu of %zu: %.120s", at, inode->size,
                 digest ? "taken" : err.text);
        if (digest == 0 && (err.status == MUSTER_OK || err.text[0] == '\0')) {
            sim_fail(sim, SIM_P_DAMAGE_REFUSED, "refused without a word");
        }
        if (digest != 0 && state_of(journal, digest) < 0 && !is_past(sim, digest)) {
            sim_fail(sim, SIM_P_DAMAGE_REFUSED, "a state that never was, or one long past");
        }
    }
    sim_disk_fini(&copy);
}

/* KEPT_STATE, KEPT_TIME */
static void check_recovered(struct sim *sim, uint64_t digest)
{
    struct sim_journal *journal = sim->service.journal;
    uint64_t time = mst_journal_time_ns(journal->journal);
    int state = state_of(journal, digest);

    if (state < 0) {
        sim_fail(sim, SIM_P_KEPT_STATE,
                 "%016" PRIx64 " is none of %u states, the newest %016" PRIx64, digest,
                 journal->state_count, newest(journal));
    }
    if (time > journal->died_ns || (!journal->lost_host && time < journal->kept_ns)) {
        sim_fail(sim, SIM_P_KEPT_TIME, "it goes on at %.6f, it died at %.6f, kept %.6f",
                 (double)time / 1e9, (double)journal->died_ns / 1e9,
                 (double)journal->kept_ns / 1e9);
    }
    if (journal->states[state].ends_gap) {
        sim->service.late_ns += journal->died_ns - journal->gap_ns;
    }
    if (journal->states[state].pending) {
        sim->service.witness.unkept = UINT32_MAX;
        sim_witness_settle(sim);
    } else {
        sim_witness_forget(sim);
    }
    journal->pending = false;
}

/* Its clock goes on where its journal ends. */
static void turn_back(struct sim *sim)
{
    sim->service.clock.offset_ns -=
        sim_service_clock(sim) - mst_journal_time_ns(sim->service.journal->journal);
}

static void set_clock(struct sim *sim)
{
    struct sim_service *service = &sim->service;
    uint64_t time = sim_service_clock(sim);

    service->turn_ns = time;
    service->asked_ns = time;
    service->back_ns = time;
    service->turns++;
}

static void bury_connections(struct sim *sim)
{
    for (size_t i = 0; i < sim->net.count; i++) {
        if (sim->net.conns[i]->orphaned) {
            sim->net.conns[i]->orphaned = false;
            sim_saw_close(sim, sim->net.conns[i]);
        }
    }
}

/* What a recovery elsewhere made of the same files. */
struct second {
    uint64_t digest, resumed;
    struct muster_error err;
};

static void recover_second(struct sim *sim, struct second *second)
{
    struct sim_disk copy;

    second->resumed = 0;
    sim_disk_copy(&copy, &sim->service.journal->disk);
    second->digest = recover_copy(sim, &copy, &second->resumed, &second->err);
    sim_disk_fini(&copy);
}

/* KEPT_TAKEN. If it died at it, that it began again may have been written, or not. */
static bool recover_first(struct sim *sim, const struct second *second)
{
    struct sim_journal *journal = sim->service.journal;
    struct muster_error err;
    int state = state_of(journal, second->digest);

    if (recover(sim, &journal->disk, false, &journal->journal, &sim->service.core, &err) ==
        MUSTER_OK) {
        return true;
    }
    if (!journal->disk.dead) {
        sim_fail(sim, SIM_P_KEPT_TAKEN, "%.180s", err.text);
    }
    journal->journal = NULL;
    sim->service.core = NULL;
    if (second->digest != 0) {
        add_state(journal, second->resumed, false);
        if (state >= 0) {
            journal->states[journal->state_count - 1] = journal->states[state];
            journal->states[journal->state_count - 1].digest = second->resumed;
        }
    }
    sim_service_die(sim);
    return false;
}

/* KEPT_TWICE */
static void check_twice(struct sim *sim, const struct second *second, uint64_t digest)
{
    uint64_t resumed = mst_core_kept_digest(sim->service.core);

    if (second->digest != digest || second->resumed != resumed) {
        sim_fail(sim, SIM_P_KEPT_TWICE,
                 "%016" PRIx64 " and %016" PRIx64 ", begun again %016" PRIx64 " and %016" PRIx64
                 " %.100s",
                 digest, second->digest, resumed, second->resumed, second->err.text);
    }
}

/* It is there again: what may come back next is what it is now. */
static void begin_again(struct sim *sim, uint64_t digest)
{
    struct sim_service *service = &sim->service;
    struct sim_journal *journal = service->journal;

    bury_connections(sim);
    set_clock(sim);
    sim_saw_service_back(sim);
    journal->returns++;
    journal->in_gap = mst_journal_held(journal->journal) != NULL;
    journal->gap_ns = sim_service_clock(sim);
    journal->gap_pending = false;
    service->witness.unkept = journal->in_gap ? 0 : UINT32_MAX;
    journal->lost_host = false;
    journal->kept_ns = mst_journal_time_ns(journal->journal);
    journal->writes = journal->disk.writes;
    past(journal, journal->state_count);
    journal->knows = true;
    add_state(journal, journal->in_gap ? digest : mst_core_kept_digest(service->core), false);
}

bool sim_service_return(struct sim *sim)
{
    struct sim_service *service = &sim->service;
    struct sim_journal *journal = service->journal;
    const struct mst_journal_recovered *recovered;
    struct second second;

    service->memory.fail_1_in = 0;
    if (sim->plan.follows && sim_chance(sim, 50)) {
        try_damaged(sim);
    }
    recover_second(sim, &second);
    if (!sim->calm && sim_chance(sim, 25)) {
        sim_tell(sim, "fault: it dies again while it recovers, or soon after");
        journal->disk.dies_in = 1 + sim_below(sim, 12);
        journal->with_host = sim->plan.has[SIM_POWER] && sim_chance(sim, 50);
    }
    if (!recover_first(sim, &second)) {
        return false;
    }
    sim_record_begin(sim, mst_journal_time_ns(journal->journal));
    recovered = mst_journal_recovery(journal->journal);
    turn_back(sim); /* what was kept as it died is told now, and was decided then */
    check_recovered(sim, recovered->digest);
    check_twice(sim, &second, recovered->digest);
    begin_again(sim, recovered->digest);
    sim_tell(sim,
             "the service is back: snapshot %" PRIu64 ", %" PRIu64 " records, %" PRIu64
             " bytes cut",
             recovered->snapshot, recovered->records, recovered->cut_bytes);
    return true;
}

void sim_journal_start(struct sim *sim)
{
    struct sim_journal *journal = sim_new(sizeof(*journal));
    struct muster_error err;

    sim_disk_init(&journal->disk, mst_prng_next(&sim->prng));
    sim->service.journal = journal;
    if (recover(sim, &journal->disk, false, &journal->journal, &sim->service.core, &err) !=
        MUSTER_OK) {
        sim_fail(sim, SIM_P_KEPT_TAKEN, "an empty folder: %.150s", err.text);
    }
    sim_record_begin(sim, mst_journal_time_ns(journal->journal));
    learn(sim, journal);
}

void sim_journal_fini(struct sim *sim)
{
    struct sim_journal *journal = sim->service.journal;

    if (journal) {
        mst_journal_free(journal->journal);
        end_child(journal);
        free(journal->child.ops);
        free(journal->states);
        sim_disk_fini(&journal->disk);
        free(journal);
        sim->service.journal = NULL;
    }
}
