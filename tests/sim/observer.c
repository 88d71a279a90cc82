/* SPDX-License-Identifier: Apache-2.0 */
/* An observer: it writes, reads, races with others and follows changes, over whatever happens to
 * its connections. What it learns goes to the properties. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/panic.h"
#include "observer.h"
#include "properties.h"
#include "sim.h"

#define DEADLINE_NONE SIM_NEVER

void sim_observer_start(struct sim *sim, struct sim_proc *proc)
{
    proc->work = sim_new(sizeof(*proc->work));
    proc->work->think_ns = sim->now_ns;
    proc->work->watch_ns = sim->now_ns;
    proc->work->own[0].candidates = 1;
    proc->work->holds = sim_chance(sim, 30);
    if (sim_chance(sim, 50)) {
        proc->work->prefix = "reg/";
    } else {
        proc->work->prefix = "";
    }
}

uint64_t sim_observer_due_ns(const struct sim_proc *proc)
{
    const struct sim_work *work = proc->work;
    uint64_t due = proc->ended ? 0 : work->think_ns;

    if (!work->watch_tag && work->watch_ns < due) {
        due = work->watch_ns;
    }
    return due;
}

bool sim_observer_idle(const struct sim_proc *proc)
{
    return proc->work->op_count == 0;
}

/* ---- names --------------------------------------------------------------------------------------
 */

static struct mst_slice name_of(struct sim_op *op, const char *kind, uint64_t number)
{
    int size = snprintf(op->name, sizeof(op->name), "%s/%" PRIu64, kind, number);

    return mst_slice_of(op->name, (size_t)size);
}

static struct mst_slice value_of(struct sim_op *op, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++) {
        op->bytes[i] = (unsigned char)(number >> (8 * i));
    }
    op->value = number;
    return mst_slice_of(op->bytes, 8);
}

static uint64_t unique(struct sim *sim)
{
    return ++sim->values;
}

/* ---- what to ask --------------------------------------------------------------------------------
 */

static bool ask_add(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct model_keys *keys = &proc->job->keys;
    struct model_counter *counter = &keys->counters[keys->counter];

    (void)sim;
    if (counter->used == MODEL_ADDS) {
        if (keys->counter + 1 == MODEL_COUNTERS) {
            return false;
        }
        counter = &keys->counters[++keys->counter];
    }
    op->which = keys->counter;
    op->slot = counter->used++;
    counter->fate[op->slot] = MODEL_UNKNOWN;
    op->writes[0] = (struct mst_write){.kind = MST_ADD,
                                       .key = name_of(op, "sum", op->which),
                                       .delta = (int64_t)(UINT64_C(1) << (2 * op->slot))};
    op->write_count = 1;
    return true;
}

static bool ask_append(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct model_keys *keys = &proc->job->keys;
    struct model_log *log = &keys->logs[keys->log];

    (void)sim;
    if (log->used == MODEL_TOKENS) {
        if (keys->log + 1 == MODEL_LOGS) {
            return false;
        }
        log = &keys->logs[++keys->log];
    }
    op->which = keys->log;
    op->slot = log->used++;
    log->fate[op->slot] = MODEL_UNKNOWN;
    op->bytes[0] = (unsigned char)('A' + op->slot);
    op->writes[0] = (struct mst_write){.kind = MST_APPEND,
                                       .key = name_of(op, "log", op->which),
                                       .value = mst_slice_of(op->bytes, 1)};
    op->write_count = 1;
    return true;
}

static bool ask_put(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    (void)proc;
    op->which = (uint32_t)sim_below(sim, MODEL_REGISTERS);
    op->writes[0] = (struct mst_write){
        .kind = MST_PUT, .key = name_of(op, "reg", op->which), .value = value_of(op, unique(sim))};
    op->write_count = 1;
    return true;
}

static bool ask_get(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    op->which = (uint32_t)sim_below(sim, MODEL_REGISTERS);
    op->key = name_of(op, "reg", op->which);
    op->before = proc->job->keys.registers[op->which].acked;
    return true;
}

static bool ask_sum(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct model_keys *keys = &proc->job->keys;

    op->which = (uint32_t)sim_below(sim, keys->counter + 1);
    op->key = name_of(op, "sum", op->which);
    op->counter = keys->counters[op->which];
    return true;
}

static bool ask_log(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct model_keys *keys = &proc->job->keys;

    op->which = (uint32_t)sim_below(sim, keys->log + 1);
    op->key = name_of(op, "log", op->which);
    op->log = keys->logs[op->which];
    return true;
}

static bool ask_cas(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    op->which = (uint32_t)sim_below(sim, MODEL_CELLS);
    op->before = proc->work->cell_known[op->which];
    op->writes[0] = (struct mst_write){.kind = MST_CAS,
                                       .key = name_of(op, "cell", op->which),
                                       .value = value_of(op, unique(sim)),
                                       .expected = op->before};
    op->write_count = 1;
    return true;
}

static bool ask_cell(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    op->which = (uint32_t)sim_below(sim, MODEL_CELLS);
    op->key = name_of(op, "cell", op->which);
    op->before = proc->job->keys.cells[op->which].acked;
    return true;
}

static bool ask_insert(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct model_keys *keys = &proc->job->keys;

    if (keys->flags[keys->flag].winners > 0 && keys->flag + 1 < MODEL_FLAGS) {
        keys->flag++;
    }
    op->which = keys->flag;
    keys->flags[op->which].tried = true;
    op->writes[0] = (struct mst_write){.kind = MST_INSERT,
                                       .key = name_of(op, "flag", op->which),
                                       .value = value_of(op, unique(sim))};
    op->write_count = 1;
    return true;
}

static bool ask_flag(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    op->which = (uint32_t)sim_below(sim, proc->job->keys.flag + 1);
    op->key = name_of(op, "flag", op->which);
    op->before = proc->job->keys.flags[op->which].revision;
    return true;
}

/* The blocking kinds may name a flag that nobody has set yet. */
static bool ask_await(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    if (sim->calm || proc->work->awaiting) {
        return false;
    }
    proc->work->awaiting = true;
    op->which = proc->job->keys.flag;
    op->key = name_of(op, "flag", op->which);
    op->deadline_ns = DEADLINE_NONE;
    return true;
}

static bool ask_pair(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct mst_slice value = value_of(op, unique(sim));

    (void)proc;
    op->writes[0] =
        (struct mst_write){.kind = MST_PUT, .key = mst_slice_text("pair/a"), .value = value};
    op->writes[1] =
        (struct mst_write){.kind = MST_PUT, .key = mst_slice_text("pair/b"), .value = value};
    op->write_count = 2;
    return true;
}

static bool ask_pairs(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    (void)sim;
    op->key = mst_slice_text("pair/");
    op->before = proc->job->keys.pair.acked;
    return true;
}

/* Only one of these at a time: the order of one's own writes is then known. */
static bool ask_own(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct sim_own *own = &proc->work->own[0];
    bool erase = sim_chance(sim, 40);

    if (own->busy) {
        return false;
    }
    own->busy = true;
    op->value = 0;
    op->writes[0] =
        (struct mst_write){.kind = erase ? MST_DELETE : MST_PUT,
                           .key = name_of(op, "own", proc->pid),
                           .value = erase ? mst_slice_of(NULL, 0) : value_of(op, unique(sim))};
    op->write_count = 1;
    if (own->candidates < SIM_OWN_MAX) {
        own->candidate[own->candidates++] = op->value;
        return true;
    }
    own->busy = false;
    return false;
}

static bool ask_own_get(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct sim_own *own = &proc->work->own[0];

    (void)sim;
    if (own->busy) {
        return false;
    }
    own->busy = true;
    op->key = name_of(op, "own", proc->pid);
    return true;
}

static bool ask_owned(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    op->writes[0] = (struct mst_write){.kind = MST_PUT,
                                       .owned = true,
                                       .key = name_of(op, "owned", proc->pid),
                                       .value = value_of(op, unique(sim))};
    op->write_count = 1;
    return true;
}

/* Keys that come and go, so that deletions are forgotten before every watch has heard of them. */
static bool ask_passing(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    static const unsigned char fat[8192] = {1};
    bool erase = sim_chance(sim, 60);

    (void)proc;
    op->writes[0] =
        (struct mst_write){.kind = erase ? MST_DELETE : MST_PUT,
                           .key = name_of(op, "reg/passing", sim_below(sim, 40)),
                           .value = erase ? mst_slice_of(NULL, 0) : value_of(op, unique(sim))};
    if (sim->plan.fat && !erase) {
        op->writes[0].value = mst_slice_of(fat, (size_t)sim_below(sim, sizeof(fat)));
    }
    op->write_count = 1;
    return true;
}

static bool ask_many(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    (void)sim;
    (void)proc;
    op->key = mst_slice_text("reg/passing");
    return true;
}

/* As a client of JAX does whose gets time out: it never says so. Some of the keys come. */
static bool ask_held(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    struct sim_work *work = proc->work;

    if (sim->calm || !work->holds || work->held == SIM_HELD_MAX) {
        return false;
    }
    work->held++;
    op->key = name_of(op, "flag", sim_below(sim, UINT64_C(2) * MODEL_FLAGS));
    op->deadline_ns =
        sim_chance(sim, 90) ? DEADLINE_NONE : sim_between(sim, 1, 2 * sim->plan.lease_ns);
    return true;
}

/* ---- a prefix of one's own, one operation at a time ---- */

static bool take_shelf(struct sim_proc *proc)
{
    bool free = !proc->work->shelf.busy;

    proc->work->shelf.busy = true;
    return free;
}

static bool ask_shelve(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    if (!take_shelf(proc)) {
        return false;
    }
    op->which = (uint32_t)sim_below(sim, SIM_SHELF_KEYS);
    (void)snprintf(op->name, sizeof(op->name), "shelf/%" PRIu64 "/%c", proc->pid,
                   (char)('a' + op->which));
    op->writes[0] = (struct mst_write){
        .kind = MST_PUT, .key = mst_slice_text(op->name), .value = value_of(op, unique(sim))};
    op->write_count = 1;
    return true;
}

static bool ask_shelf(struct sim *sim, struct sim_proc *proc, struct sim_op *op)
{
    (void)sim;
    if (!take_shelf(proc)) {
        return false;
    }
    (void)snprintf(op->name, sizeof(op->name), "shelf/%" PRIu64 "/", proc->pid);
    op->key = mst_slice_text(op->name);
    return true;
}

static const struct {
    bool (*ask)(struct sim *sim, struct sim_proc *proc, struct sim_op *op);
    enum mst_command command;
    uint32_t weight;
} kinds[SIM_OP_COUNT] = {
    [SIM_OP_ADD] = {ask_add, MST_WRITE, 12},
    [SIM_OP_APPEND] = {ask_append, MST_WRITE, 5},
    [SIM_OP_PUT] = {ask_put, MST_WRITE, 8},
    [SIM_OP_GET] = {ask_get, MST_GET, 8},
    [SIM_OP_SUM] = {ask_sum, MST_GET, 4},
    [SIM_OP_LOG] = {ask_log, MST_GET, 3},
    [SIM_OP_CAS] = {ask_cas, MST_WRITE, 6},
    [SIM_OP_CELL] = {ask_cell, MST_GET, 5},
    [SIM_OP_INSERT] = {ask_insert, MST_WRITE, 5},
    [SIM_OP_FLAG] = {ask_flag, MST_GET, 3},
    [SIM_OP_AWAIT] = {ask_await, MST_WAIT, 2},
    [SIM_OP_PAIR] = {ask_pair, MST_WRITE, 4},
    [SIM_OP_PAIRS] = {ask_pairs, MST_LIST, 4},
    [SIM_OP_OWN] = {ask_own, MST_WRITE, 4},
    [SIM_OP_OWN_GET] = {ask_own_get, MST_GET, 3},
    [SIM_OP_OWNED] = {ask_owned, MST_WRITE, 2},
    [SIM_OP_PASSING] = {ask_passing, MST_WRITE, 14},
    [SIM_OP_MANY] = {ask_many, MST_LIST, 4},
    [SIM_OP_SHELVE] = {ask_shelve, MST_WRITE, 8},
    [SIM_OP_CLEAR] = {ask_shelf, MST_DELETE_PREFIX, 3},
    [SIM_OP_SHELF] = {ask_shelf, MST_LIST, 3},
    [SIM_OP_HELD] = {ask_held, MST_GET, 30},
};

/* ---- what came back -----------------------------------------------------------------------------
 */

/* BATCH_WHOLE */
static void pairs_read(struct sim *sim, struct sim_proc *proc, const struct sim_op *op,
                       const struct mst_reply *reply)
{
    struct model_register *pair = &proc->job->keys.pair;

    if (reply->status != MUSTER_OK) {
        return;
    }
    if (reply->item_count != 0 &&
        (reply->item_count != 2 ||
         !mst_slice_equal(reply->items[0].value, reply->items[1].value))) {
        sim_fail(sim, SIM_P_BATCH_WHOLE, "%u keys that differ", reply->item_count);
    }
    if (reply->item_count == 0 ? op->before > 0 : reply->items[1].revision < op->before) {
        sim_fail(sim, SIM_P_READ_NEWEST, "a batch at revision %" PRIu64 " is not there",
                 op->before);
    }
    if (reply->item_count == 2) {
        sim_keys_version(sim, pair, reply->items[1].revision,
                         sim_keys_number(reply->items[1].value));
    }
}

static void own_written(struct sim_proc *proc, const struct sim_op *op,
                        const struct mst_reply *reply)
{
    struct sim_own *own = &proc->work->own[0];

    own->busy = false;
    if (reply->status == MUSTER_OK) {
        own->candidate[0] = op->value;
        own->candidates = 1;
    } else if (reply->status == MUSTER_ENOMEM || reply->status == MUSTER_ENOSPACE) {
        own->candidates--;
    }
}

/* OWN_KEY */
static void own_read(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_own *own = &proc->work->own[0];
    uint64_t value = reply->status == MUSTER_OK ? sim_keys_number(reply->value) : 0;

    own->busy = false;
    if (reply->status != MUSTER_OK && reply->status != MUSTER_ENOTFOUND) {
        return;
    }
    for (uint32_t i = 0; i < own->candidates; i++) {
        if (own->candidate[i] == value) {
            own->candidate[0] = value;
            own->candidates = 1;
            return;
        }
    }
    sim_fail(sim, SIM_P_OWN_KEY, "pid=%" PRIu64 " reads %" PRIu64 ", left %" PRIu64, proc->pid,
             value, own->candidate[own->candidates - 1]);
}

static bool changed_nothing(muster_status status)
{
    return status == MUSTER_ENOMEM || status == MUSTER_ENOSPACE || status == MUSTER_ELIMIT;
}

static void shelved(struct sim_proc *proc, const struct sim_op *op, const struct mst_reply *reply)
{
    struct sim_shelf *shelf = &proc->work->shelf;

    shelf->busy = false;
    if (!changed_nothing(reply->status)) {
        shelf->may |= 1u << op->which;
    }
    if (reply->status == MUSTER_OK) {
        shelf->must |= 1u << op->which;
    }
}

/* PREFIX_DELETED */
static void cleared(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_shelf *shelf = &proc->work->shelf;

    shelf->busy = false;
    if (reply->status == MUSTER_OK) {
        if (reply->number < __builtin_popcount(shelf->must) ||
            reply->number > __builtin_popcount(shelf->may)) {
            sim_fail(sim, SIM_P_PREFIX_DELETED,
                     "pid=%" PRIu64 " deletes %" PRId64 " keys, and had %d to %d", proc->pid,
                     reply->number, __builtin_popcount(shelf->must),
                     __builtin_popcount(shelf->may));
        }
        shelf->may = 0;
    }
    if (!changed_nothing(reply->status)) {
        shelf->must = 0;
    }
}

/* PREFIX_DELETED */
static void shelf_read(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_shelf *shelf = &proc->work->shelf;
    uint32_t found = 0;

    shelf->busy = false;
    if (reply->status != MUSTER_OK) {
        return;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        struct mst_slice name = reply->items[i].name;

        found |= 1u << (((const char *)name.data)[name.size - 1] - 'a');
    }
    if ((shelf->must & ~found) || (found & ~shelf->may)) {
        sim_fail(sim, SIM_P_PREFIX_DELETED,
                 "pid=%" PRIu64 " finds %x under its prefix, and left %x to %x", proc->pid, found,
                 shelf->must, shelf->may);
    }
    shelf->must = shelf->may = found;
}

static void cell_read(struct sim *sim, struct sim_proc *proc, const struct sim_op *op,
                      const struct mst_reply *reply)
{
    uint64_t revision = reply->status == MUSTER_OK ? reply->revision : 0;

    if (reply->status != MUSTER_OK && reply->status != MUSTER_ENOTFOUND) {
        return;
    }
    if (revision < op->before) {
        sim_fail(sim, SIM_P_READ_NEWEST, "a cell at %" PRIu64 ", %" PRIu64 " was acknowledged",
                 revision, op->before);
    }
    proc->work->cell_known[op->which] = revision;
}

static void op_done(struct sim *sim, struct sim_proc *proc, const struct sim_op *op,
                    const struct mst_reply *reply)
{
    struct model_keys *keys = &proc->job->keys;

    switch (op->kind) {
    case SIM_OP_ADD:
        sim_keys_added(sim, proc->job, op->which, op->slot, reply);
        break;
    case SIM_OP_APPEND:
        sim_keys_appended(proc->job, op->which, op->slot, reply);
        break;
    case SIM_OP_PUT:
        sim_keys_put(sim, &keys->registers[op->which], op->value, reply);
        break;
    case SIM_OP_GET:
        sim_keys_read(sim, &keys->registers[op->which], op->before, reply);
        break;
    case SIM_OP_SUM:
        if (reply->status == MUSTER_OK) {
            sim_keys_sum_read(sim, proc->job, op->which, reply->value, &op->counter);
        }
        break;
    case SIM_OP_LOG:
        if (reply->status == MUSTER_OK) {
            sim_keys_log_read(sim, proc->job, op->which, reply->value, &op->log);
        }
        break;
    case SIM_OP_CAS:
        sim_keys_swapped(sim, &keys->cells[op->which], op->before, reply);
        break;
    case SIM_OP_CELL:
        cell_read(sim, proc, op, reply);
        break;
    case SIM_OP_INSERT:
        sim_keys_inserted(sim, &keys->flags[op->which], op->value, reply);
        break;
    case SIM_OP_FLAG:
        sim_keys_flag_read(sim, &keys->flags[op->which], op->before, reply);
        break;
    case SIM_OP_AWAIT:
        proc->work->awaiting = false;
        break;
    case SIM_OP_PAIR:
        sim_keys_put(sim, &keys->pair, op->value, reply);
        break;
    case SIM_OP_PAIRS:
        pairs_read(sim, proc, op, reply);
        break;
    case SIM_OP_OWN:
        own_written(proc, op, reply);
        break;
    case SIM_OP_OWN_GET:
        own_read(sim, proc, reply);
        break;
    case SIM_OP_SHELVE:
        shelved(proc, op, reply);
        break;
    case SIM_OP_CLEAR:
        cleared(sim, proc, reply);
        break;
    case SIM_OP_SHELF:
        shelf_read(sim, proc, reply);
        break;
    case SIM_OP_HELD:
        proc->work->held--;
        break;
    case SIM_OP_OWNED:
    case SIM_OP_PASSING:
    case SIM_OP_MANY:
    case SIM_OP_COUNT:
        break;
    }
}

/* ---- the process --------------------------------------------------------------------------------
 */

static enum sim_op_kind draw_kind(struct sim *sim)
{
    uint32_t total = 0;
    uint64_t at;

    for (uint32_t kind = 0; kind < SIM_OP_COUNT; kind++) {
        total += kinds[kind].weight;
    }
    at = sim_below(sim, total);
    for (uint32_t kind = 0; kind < SIM_OP_COUNT; kind++) {
        if (at < kinds[kind].weight) {
            return (enum sim_op_kind)kind;
        }
        at -= kinds[kind].weight;
    }
    return SIM_OP_GET;
}

static void issue(struct sim *sim, struct sim_proc *proc)
{
    struct sim_work *work = proc->work;
    struct sim_op *op = &work->ops[work->op_count];
    struct mst_request request = {0};

    memset(op, 0, sizeof(*op));
    op->kind = draw_kind(sim);
    op->deadline_ns = sim_chance(sim, 70)
                          ? DEADLINE_NONE
                          : sim_between(sim, sim->plan.lease_ns / 10, 3 * sim->plan.lease_ns);
    if (!kinds[op->kind].ask(sim, proc, op)) {
        return;
    }
    request.command = kinds[op->kind].command;
    if (request.command == MST_WRITE) {
        request.write.ops = op->writes;
        request.write.count = op->write_count;
    } else if (request.command == MST_GET) {
        request.get.key = op->key;
        request.get.wait = op->kind == SIM_OP_HELD;
    } else if (request.command == MST_LIST) {
        request.list.prefix = op->key;
    } else if (request.command == MST_DELETE_PREFIX) {
        request.delete_prefix.prefix = op->key;
    } else {
        request.wait.keys = &op->key;
        request.wait.count = 1;
    }
    if (sim_proc_call(sim, proc, SIM_OWNER_WORK, &request, op->deadline_ns, &op->tag)) {
        work->op_count++;
    } else {
        struct mst_reply refused = {.status = MUSTER_ENOMEM};

        op_done(sim, proc, op, &refused);
    }
}

/* Of those that are held, any. */
static void cancel_one(struct sim *sim, struct sim_proc *proc)
{
    const struct sim_op *op = &proc->work->ops[sim_below(sim, proc->work->op_count)];

    if (op->kind == SIM_OP_HELD) {
        mst_client_cancel(proc->client, sim_proc_clock(sim, proc), op->tag);
    }
}

void sim_observer_step(struct sim *sim, struct sim_proc *proc)
{
    struct sim_work *work = proc->work;

    if (proc->ended) {
        sim_proc_exit(sim, proc, 4);
        return;
    }
    if (proc->kind == SIM_AUDITOR) {
        sim_audit_step(sim, proc);
        return;
    }
    if (!work->watch_tag && work->watch_ns <= sim->now_ns) {
        sim_replica_ask(sim, proc);
    }
    if (work->think_ns > sim->now_ns) {
        return;
    }
    work->think_ns = SIM_NEVER;
    if (sim_job_over(sim, proc->job) && sim->calm) {
        sim_observer_release(sim, proc);
        return;
    }
    work->think_ns = sim->now_ns + sim_below(sim, 2 * sim->plan.think_ns) + 1;
    if (work->op_count - work->held < SIM_OPS_MAX) {
        issue(sim, proc);
    }
    if (work->held > 0 && sim_chance(sim, 5)) {
        cancel_one(sim, proc);
    }
}

/* What it still waits for may never come: it says so itself, and is then idle. */
void sim_observer_release(struct sim *sim, struct sim_proc *proc)
{
    struct sim_work *work = proc->work;

    for (uint32_t i = 0; i < work->op_count; i++) {
        if (work->ops[i].kind == SIM_OP_AWAIT || work->ops[i].kind == SIM_OP_HELD) {
            mst_client_cancel(proc->client, sim_proc_clock(sim, proc), work->ops[i].tag);
        }
    }
}

void sim_observer_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                       const struct mst_reply *reply)
{
    struct sim_work *work = proc->work;

    if (tag == work->watch_tag) {
        if (proc->kind == SIM_AUDITOR) {
            sim_audit_page(sim, proc, reply);
        } else {
            sim_replica_page(sim, proc, reply);
        }
        return;
    }
    for (uint32_t i = 0; i < work->op_count; i++) {
        if (work->ops[i].tag == tag) {
            op_done(sim, proc, &work->ops[i], reply);
            work->ops[i] = work->ops[--work->op_count];
            return;
        }
    }
}
