/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a cluster. A coordinator inserts the cluster's key, which it owns, and acts
 * under the term that this gives it; a worker is a member of the job and follows the key. A process
 * that dies is started again by the world, unless it ended with 0: as in a dismissed cluster. */
#include "cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "properties.h"
#include "seen.h"

#define KEY "muster/cluster/default"
#define RECORD KEY "/dismissed"

const struct mst_function sim_cluster_functions[SIM_CLUSTER_FUNCTIONS] = {
    [SIM_CLUSTER_WORK] = {{"work", 4}, 1, MST_FUNCTION_THREADS},
    [SIM_CLUSTER_ONCE] = {{"once", 4}, 1, MST_FUNCTION_ONCE | MST_FUNCTION_CHILD},
    [SIM_CLUSTER_IDEMPOTENT] = {{"idempotent", 10}, 1, MST_FUNCTION_IDEMPOTENT},
    [SIM_CLUSTER_FAIL] = {{"fail", 4}, 1, MST_FUNCTION_THREADS},
    [SIM_CLUSTER_KILL] = {{"kill", 4}, 1, MST_FUNCTION_THREADS},
    [SIM_CLUSTER_LONG] = {{"long", 4}, 1, MST_FUNCTION_COMMAND},
    [SIM_CLUSTER_BUILD] = {{"build", 5}, 1, MST_FUNCTION_THREADS},
};

/* Its own source of chance: what else happens in a run is the same with a cluster and without. */
uint64_t sim_cluster_below(struct sim *sim, uint64_t bound)
{
    return mst_prng_below(&sim->cluster->prng, bound);
}

/* ---- birth and death ---- */

static void spawn(struct sim *sim, void *ctx, uint64_t arg)
{
    enum sim_kind kind = (arg & 1) != 0 ? SIM_WORKER : SIM_COORDINATOR;

    (void)ctx;
    if (sim->proc_count + 16 <= SIM_PROCS_MAX) {
        sim_proc_begin(sim, sim_proc_spawn(sim, kind, &sim->cluster->job,
                                           (uint32_t)sim_cluster_below(sim, sim->plan.nodes),
                                           (uint32_t)(arg >> 1)));
    } else if (kind == SIM_WORKER) {
        sim->cluster->homes |= 1u << (arg >> 1); /* no process comes any more */
    }
}

static void breaks(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_wire *wire = &sim->cluster->wires[sim_cluster_below(sim, 8)];

    (void)ctx;
    (void)arg;
    if (sim->calm) {
        return;
    }
    if (wire->id != 0) {
        sim_tell(sim, "fault: connection %" PRIu64 " of a worker breaks", wire->id);
        sim_wire_break(sim, wire);
    }
    sim_at(sim, sim->now_ns + sim_cluster_below(sim, 2 * sim->plan.lease_ns), breaks, NULL, 0);
}

void sim_cluster_open(struct sim *sim)
{
    struct mst_prng prng = {.state = sim->seed ^ UINT64_C(0xc1a57e5)};

    if (mst_prng_below(&prng, 100) >= 15) {
        return;
    }
    sim->cluster = sim_new(sizeof(*sim->cluster));
    sim->cluster->prng = prng;
    sim->cluster->job.name[0] = 'c';
    sim->cluster->job.over = true; /* it has no ranks that would have to end */
    for (uint64_t i = 0; i < SIM_CLUSTER_WORKERS; i++) {
        sim_at(sim, sim_cluster_below(sim, sim->plan.lease_ns), spawn, NULL, i << 1 | 1);
    }
    sim_at(sim, sim_cluster_below(sim, sim->plan.lease_ns), spawn, NULL, 0);
    if (sim_cluster_below(sim, 2) == 0) { /* a second one, which waits for the key */
        sim_at(sim, 2 * sim->plan.lease_ns, spawn, NULL, 2);
    }
    if (sim->plan.has[SIM_CUT]) {
        sim_at(sim, 2 * sim->plan.lease_ns, breaks, NULL, 0);
    }
    sim->cluster->dismisses = sim_cluster_below(sim, 2) == 0;
}

void sim_cluster_close(struct sim *sim)
{
    if (sim->cluster) {
        sim_wires_free(sim);
        free(sim->cluster);
    }
}

void sim_cluster_start(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = sim_new(sizeof(*tasks));

    proc->tasks = tasks;
    tasks->connect_ns = SIM_NEVER;
    tasks->watch_ns = SIM_NEVER;
    tasks->claim_ns = sim->now_ns;
    tasks->act_ns = SIM_NEVER;
    if (proc->kind == SIM_COORDINATOR) {
        sim->cluster->coordinators[sim->cluster->coordinator_count++] = proc;
    }
}

void sim_cluster_death(struct sim *sim, struct sim_proc *proc, bool silently)
{
    uint64_t after = sim_cluster_below(sim, sim->plan.lease_ns);

    sim_wires_of_dead(sim, proc, silently);
    if (proc->exit_code == 0) {
        return;
    }
    sim_at(sim, sim->now_ns + after, spawn, NULL,
           (uint64_t)proc->place << 1 | (proc->kind == SIM_WORKER));
}

void sim_cluster_fini(struct sim_proc *proc)
{
    if (proc->tasks) {
        mst_cluster_free(proc->tasks->cluster);
        mst_worker_free(proc->tasks->worker);
        free(proc->tasks);
    }
}

/* ---- a worker ---- */

static void worker_new(struct sim *sim, struct sim_proc *proc)
{
    const struct mst_view *view = mst_client_view(proc->client);
    uint64_t lease = sim->plan.lease_ns;
    struct mst_worker_config config = {
        .cluster = mst_slice_text("default"),
        .index = view->index,
        .incarnation = view->incarnation,
        .pid = proc->pid,
        .host = mst_slice_text("host"),
        .slots = 1 + (uint32_t)sim_cluster_below(sim, SIM_CLUSTER_SLOTS),
        .functions = sim_cluster_functions,
        .function_count = SIM_CLUSTER_FUNCTIONS,
        .cancel_grace_ns = lease / 10,
        .backoff_ns = lease / 50,
        .backoff_max_ns = lease / 4,
        .results_max = 1 << 20,
        .seed = proc->pid,
    };

    MST_ASSERT(mst_worker_new(&proc->tasks->worker, sim_proc_clock(sim, proc), &config,
                              &sim->memory.mem) == MUSTER_OK);
    proc->tasks->watch_ns = sim->now_ns;
}

/* It waits until the place is its own. */
static void worker_joins(struct sim *sim, struct sim_proc *proc)
{
    struct mst_request request = {.command = MST_JOIN, .join.spare = true};

    proc->tasks->claim_ns = SIM_NEVER;
    (void)sim_proc_call(sim, proc, SIM_OWNER_WORK, &request, SIM_NEVER, &proc->tasks->claim_tag);
}

static void worker_joined(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    proc->tasks->claim_tag = 0;
    if (reply->status == MUSTER_OK) {
        worker_new(sim, proc);
    } else if (reply->status == MUSTER_EEXISTS || reply->status == MUSTER_EFENCED) {
        proc->tasks->refused = true;
    } else {
        proc->tasks->claim_ns = sim->now_ns + sim->plan.lease_ns / 10;
    }
}

static void worker_effect(struct sim *sim, struct sim_proc *proc,
                          const struct mst_worker_effect *effect)
{
    struct sim_tasks *tasks = proc->tasks;
    struct sim_wire *wire = sim_wire_find(sim, tasks->wire);
    struct sim_slot *slot = &tasks->slots[effect->slot];

    switch (effect->type) {
    case MST_WORKER_CONNECT:
        tasks->target = 0;
        for (size_t i = 0; i < effect->address.size; i++) {
            tasks->target =
                10 * tasks->target + (uint64_t)(((const char *)effect->address.data)[i] - '0');
        }
        tasks->connect_ns = sim->now_ns + sim->plan.latency_ns;
        break;
    case MST_WORKER_HANG_UP:
        tasks->connect_ns = SIM_NEVER;
        tasks->wire = 0;
        if (wire) {
            sim_wire_close(sim, wire, 0, false);
        }
        break;
    case MST_WORKER_SEND:
        if (wire) {
            sim_cluster_send(sim, wire, 1, effect->message);
        }
        break;
    case MST_WORKER_START:
    case MST_WORKER_BUILD:
        sim_saw_begin(sim, proc, effect);
        break;
    case MST_WORKER_STOP:
        slot->end_ns = effect->kill || sim_cluster_below(sim, 2) ? sim->now_ns : slot->end_ns;
        break;
    case MST_WORKER_END:
        tasks->told_end = true;
        tasks->end_status = effect->status;
        break;
    case MST_WORKER_SAY:
        sim_tell(sim, "pid=%" PRIu64 ": %.*s", proc->pid, (int)effect->text.size,
                 (const char *)effect->text.data);
        break;
    case MST_WORKER_DROP:
        break;
    }
}

static void worker_drain(struct sim *sim, struct sim_proc *proc)
{
    struct mst_worker *worker = proc->tasks->worker;
    const struct mst_worker_effect *effect;

    while ((effect = mst_worker_next(worker)) != NULL) {
        worker_effect(sim, proc, effect);
        mst_worker_done(worker, effect);
    }
    mst_worker_check(worker);
}

static void slot_ends(struct sim *sim, struct sim_proc *proc, uint32_t number)
{
    struct sim_tasks *tasks = proc->tasks;
    struct sim_slot slot = tasks->slots[number];
    struct mst_failure failure = {.origin = MST_ORIGIN_FUNCTION, .code = 3};
    struct mst_part part = {.data = {&slot.attempt.closure, sizeof(uint64_t)}};
    struct mst_parts parts = {.items = &part, .count = 1};
    bool fails = slot.function == SIM_CLUSTER_FAIL || slot.function == SIM_CLUSTER_LONG;
    uint64_t now = sim_proc_clock(sim, proc);

    if (slot.function == SIM_CLUSTER_KILL && slot.value == 0) {
        sim_proc_exit(sim, proc, 139);
        return;
    }
    tasks->slots[number].busy = false;
    if (slot.value != 0) {
        mst_worker_built(tasks->worker, now, slot.value, NULL, (struct mst_parts){0});
    } else {
        mst_worker_finished(tasks->worker, now, number, fails ? &failure : NULL, parts, 1000);
    }
    worker_drain(sim, proc);
}

static void worker_connects(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;
    struct sim_proc *other = sim_proc_by_pid(sim, tasks->target);
    struct sim_wire *wire = NULL;

    tasks->connect_ns = SIM_NEVER;
    if (other && other->alive && other->kind == SIM_COORDINATOR &&
        sim->nodes[other->node].away_until_ns <= sim->now_ns) {
        wire = sim_wire_new(sim, proc, other);
    }
    if (wire) {
        tasks->wire = wire->id;
        mst_worker_connected(tasks->worker, sim_proc_clock(sim, proc));
    } else {
        mst_worker_gone(tasks->worker, sim_proc_clock(sim, proc));
    }
    worker_drain(sim, proc);
}

static void worker_hears(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;
    struct sim_wire_message *message;
    uint64_t id;
    bool over;

    while ((message = sim_wire_take(sim, proc, &id, &over)) != NULL || over) {
        if (id == tasks->wire && message) {
            mst_worker_message(tasks->worker, sim_proc_clock(sim, proc), sim_wire_message(message));
        } else if (id == tasks->wire) {
            tasks->wire = 0;
            mst_worker_gone(tasks->worker, sim_proc_clock(sim, proc));
        }
        if (message) {
            sim_wire_message_free(message);
        }
        worker_drain(sim, proc);
    }
}

static void worker_step(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;

    if (!tasks->worker) {
        if (proc->ended || tasks->refused) {
            sim_proc_exit(sim, proc, 3);
        } else if (tasks->claim_ns <= sim->now_ns) {
            worker_joins(sim, proc);
        }
        return;
    }
    if (proc->ended) {
        mst_worker_ended(tasks->worker, sim_proc_clock(sim, proc), proc->end_status);
        worker_drain(sim, proc);
    }
    if (tasks->connect_ns <= sim->now_ns) {
        worker_connects(sim, proc);
    }
    for (uint32_t i = 0; i < SIM_CLUSTER_SLOTS && proc->alive; i++) {
        if (tasks->slots[i].busy && tasks->slots[i].end_ns <= sim->now_ns) {
            slot_ends(sim, proc, i);
        }
    }
    if (!proc->alive) {
        return;
    }
    worker_hears(sim, proc);
    mst_worker_tick(tasks->worker, sim_proc_clock(sim, proc));
    worker_drain(sim, proc);
    if (tasks->told_end && tasks->end_status == MUSTER_OK) {
        sim_saw_worker_end(sim, proc);
        sim_proc_exit(sim, proc, 0);
    } else if (tasks->told_end) {
        sim_proc_exit(sim, proc, 4);
    }
}

/* ---- a coordinator ---- */

static void coordinator_new(struct sim *sim, struct sim_proc *proc, uint64_t term, bool dismissed)
{
    uint64_t lease = sim->plan.lease_ns;
    struct mst_cluster_config config = {
        .name = mst_slice_text("default"),
        .term = term,
        .queue_limit = sim_cluster_below(sim, 4) ? 0 : 6,
        .policy = (enum mst_cluster_policy)sim_cluster_below(sim, 3),
        .prefetch = (uint32_t)sim_cluster_below(sim, 3),
        .poison = 3,
        .recovery_max_ns = 20 * lease,
        .silent_ns = lease / 5,
        .cancel_grace_ns = lease / 10,
        .series_grace_ns = lease / 10,
        .unknown_grace_ns = 4 * lease,
        .workers_expected = 1,
        .backoff_ns = lease / 20,
        .backoff_max_ns = lease / 2,
        .seed = proc->pid,
        .dismissed = dismissed,
    };

    sim->cluster->successors += dismissed;
    MST_ASSERT(mst_cluster_new(&proc->tasks->cluster, sim_proc_clock(sim, proc), &config,
                               &sim->memory.mem) == MUSTER_OK);
    proc->tasks->term = term;
    proc->tasks->watch_ns = sim->now_ns;
    proc->tasks->act_ns = sim->now_ns;
    sim_tell(sim, "pid=%" PRIu64 " is the coordinator of term %" PRIu64 "%s", proc->pid, term,
             dismissed ? " of a dismissed cluster" : "");
}

/* A record that cannot be asked for is refused in the next step. */
static void record(struct sim *sim, struct sim_proc *proc)
{
    struct mst_write op = {.kind = MST_PUT, .key = mst_slice_text(RECORD)};
    struct mst_request put = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};

    (void)sim_proc_call(sim, proc, SIM_OWNER_WORK, &put, SIM_NEVER, &proc->tasks->record_tag);
}

static void coordinator_drain(struct sim *sim, struct sim_proc *proc)
{
    struct mst_cluster *cluster = proc->tasks->cluster;
    const struct mst_cluster_effect *effect;

    while ((effect = mst_cluster_next(cluster)) != NULL) {
        struct sim_wire *wire = sim_wire_find(sim, effect->connection);

        if (effect->type == MST_CLUSTER_SEND && wire) {
            sim_cluster_send(sim, wire, 0, effect->message);
        } else if (effect->type == MST_CLUSTER_CLOSE && wire) {
            sim_wire_close(sim, wire, 1, false);
        } else if (effect->type == MST_CLUSTER_RECORD) {
            record(sim, proc);
        }
        mst_cluster_done(cluster, effect);
    }
    mst_cluster_check(cluster);
    sim_check_closures(sim, proc);
}

static void coordinator_hears(struct sim *sim, struct sim_proc *proc)
{
    struct mst_cluster *cluster = proc->tasks->cluster;
    struct sim_wire_message *message;
    uint64_t id;
    bool over;

    while ((message = sim_wire_take(sim, proc, &id, &over)) != NULL || over) {
        if (message) {
            mst_cluster_message(cluster, sim_proc_clock(sim, proc), id, sim_wire_message(message));
            sim_wire_message_free(message);
        } else {
            mst_cluster_gone(cluster, sim_proc_clock(sim, proc), id);
        }
        coordinator_drain(sim, proc);
    }
}

static void claim(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;
    char value[24];
    struct mst_text text = mst_text_in(value, sizeof(value));
    struct mst_write op = {.kind = MST_INSERT, .owned = true, .key = mst_slice_text(KEY)};
    struct mst_request insert = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    struct mst_request get = {.command = MST_GET, .get.key = mst_slice_text(RECORD)};
    struct mst_request watch = {.command = MST_WATCH,
                                .watch = {.kinds = MST_WATCH_KEYS,
                                          .prefix = mst_slice_text(KEY),
                                          .after = tasks->after,
                                          .node = MST_NODE_NONE}};

    mst_text_format(&text, "%" PRIu64, proc->pid);
    op.value = mst_slice_of(value, text.size);
    tasks->claim_ns = SIM_NEVER;
    (void)sim_proc_call(sim, proc, SIM_OWNER_WORK,
                        tasks->term != 0 ? &get
                        : tasks->waits   ? &watch
                                         : &insert,
                        SIM_NEVER, &tasks->claim_tag);
}

static void claimed(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_tasks *tasks = proc->tasks;

    tasks->claim_tag = 0;
    if (tasks->term != 0 && (reply->status == MUSTER_OK || reply->status == MUSTER_ENOTFOUND)) {
        tasks->after = 0;
        coordinator_new(sim, proc, tasks->term, reply->status == MUSTER_OK);
        return;
    }
    if (tasks->term != 0 || (!tasks->waits && reply->status == MUSTER_OK)) {
        tasks->claim_ns = tasks->term != 0 ? sim->now_ns + sim->plan.lease_ns / 10 : sim->now_ns;
        tasks->term = tasks->term != 0 ? tasks->term : reply->revision;
        return;

        /* next, or again: was the cluster dismissed? */
    }
    if (reply->status == MUSTER_OK || reply->status == MUSTER_EEXISTS) {
        tasks->after = reply->revision;

        /* of the key in the way: its end may be over already */
    }
    tasks->waits = !tasks->waits && reply->status == MUSTER_EEXISTS;
    tasks->claim_ns = sim->now_ns + (reply->status == MUSTER_OK || reply->status == MUSTER_EEXISTS
                                         ? 0
                                         : sim->plan.lease_ns / 10);
}

static void superseded(struct sim *sim, struct sim_proc *proc)
{
    if (!proc->tasks->superseded) {
        proc->tasks->superseded = true;
        mst_cluster_superseded(proc->tasks->cluster, sim_proc_clock(sim, proc), MUSTER_EFENCED);
        coordinator_drain(sim, proc);
    }
}

static void coordinator_step(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;

    if (!tasks->cluster) {
        if (proc->ended) {
            sim_proc_exit(sim, proc, 3);
        } else if (tasks->claim_ns <= sim->now_ns) {
            claim(sim, proc);
        }
        return;
    }
    if (proc->ended) {
        superseded(sim, proc);
    }
    coordinator_hears(sim, proc);
    if (tasks->act_ns <= sim->now_ns) {
        sim_cluster_act(sim, proc);
        coordinator_drain(sim, proc);
    }
    mst_cluster_tick(tasks->cluster, sim_proc_clock(sim, proc));
    coordinator_drain(sim, proc);
    if (tasks->superseded) {
        sim_proc_exit(sim, proc, 4);
    } else if (mst_cluster_dismissed(tasks->cluster) == MUSTER_OK) {
        sim_proc_exit(sim, proc, 0);
    }
}

static void recorded(struct sim *sim, struct sim_proc *proc, muster_status status)
{
    struct sim_tasks *tasks = proc->tasks;

    tasks->record_tag = 0;
    if (status == MUSTER_OK) {
        sim->cluster->recorded = true;
        sim->cluster->recorded_term = tasks->term;
    } else {
        tasks->act_ns = sim->now_ns + sim->plan.lease_ns / 10; /* again */
    }
    mst_cluster_recorded(tasks->cluster, sim_proc_clock(sim, proc), status);
    coordinator_drain(sim, proc);
}

/* ---- both ---- */

static void watch(struct sim *sim, struct sim_proc *proc)
{
    struct sim_tasks *tasks = proc->tasks;
    unsigned kinds = proc->kind == SIM_WORKER ? MST_WATCH_KEYS : MST_WATCH_KEYS | MST_WATCH_MEMBERS;
    struct mst_request request = {.command = MST_WATCH,
                                  .watch = {.kinds = kinds,
                                            .prefix = mst_slice_text(KEY),
                                            .after = tasks->after,
                                            .node = MST_NODE_NONE}};

    tasks->watch_ns = SIM_NEVER;
    (void)sim_proc_call(sim, proc, SIM_OWNER_WORK, &request, SIM_NEVER, &tasks->watch_tag);
}

static void worker_told(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    const struct mst_item *key = NULL;
    bool news = false, dismissed = false;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (mst_slice_equal(item->name, mst_slice_text(RECORD))) {
            dismissed = dismissed || item->kind == MST_ITEM_KEY;
            continue;
        }
        if (item->kind == MST_ITEM_KEY || item->kind == MST_ITEM_DELETED ||
            item->kind == MST_ITEM_RESET) {
            key = item->kind == MST_ITEM_KEY ? item : NULL;
            news = true;
        }
    }
    if (news) {
        uint64_t term = key ? key->revision : 0;

        proc->tasks->told_term = term > proc->tasks->told_term ? term : proc->tasks->told_term;
        mst_worker_coordinator(proc->tasks->worker, sim_proc_clock(sim, proc), term,
                               key ? key->value : mst_slice_of(NULL, 0));
        worker_drain(sim, proc);
    }
    if (dismissed) {
        sim->cluster->recorded = true;
        mst_worker_drain(proc->tasks->worker, sim_proc_clock(sim, proc));
        worker_drain(sim, proc);
    }
}

static enum mst_worker_state state_of(enum mst_state state)
{
    switch (state) {
    case MST_PRESENT:
        return MST_WORKER_PRESENT;
    case MST_SILENT:
        return MST_WORKER_SILENT;
    case MST_STATE_LOST:
        return MST_WORKER_LOST;
    case MST_LEFT:
        return MST_WORKER_LEFT;
    case MST_JOINING:
    case MST_ABSENT:
    case MST_SPARE:
        break;
    }
    return MST_WORKER_ABSENT;
}

static void coordinator_told(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_tasks *tasks = proc->tasks;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (mst_slice_equal(item->name, mst_slice_text(RECORD))) {
            continue;
        }
        if (item->kind == MST_ITEM_DELETED ||
            (item->kind == MST_ITEM_KEY && item->revision != tasks->term)) {
            superseded(sim, proc);
        } else if (item->kind == MST_ITEM_MEMBER && item->who.role == MST_ROLE_WORKER) {
            (void)mst_cluster_member(tasks->cluster, sim_proc_clock(sim, proc), item->who.index,
                                     item->who.incarnation, state_of(item->who.state),
                                     (struct mst_worker_end){item->who.cause, item->who.code},
                                     item->who.host);
        }
    }
    coordinator_drain(sim, proc);
}

void sim_cluster_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                      const struct mst_reply *reply)
{
    struct sim_tasks *tasks = proc->tasks;

    if (tag == tasks->claim_tag && proc->kind == SIM_WORKER) {
        worker_joined(sim, proc, reply);
        return;
    }
    if (tag == tasks->claim_tag) {
        claimed(sim, proc, reply);
        return;
    }
    if (tag == tasks->record_tag) {
        recorded(sim, proc, reply->status);
        return;
    }
    tasks->watch_tag = 0;
    tasks->watch_ns = sim->now_ns;
    if (reply->status != MUSTER_OK) {
        tasks->watch_ns += sim->plan.lease_ns / 10;
        return;
    }
    tasks->after = reply->revision;
    if (proc->kind == SIM_WORKER) {
        worker_told(sim, proc, reply);
    } else {
        coordinator_told(sim, proc, reply);
    }
}

/* An ended session watches nothing, although its worker may still be busy. */
static bool wants_to_watch(const struct sim_proc *proc)
{
    return !proc->ended && proc->tasks->watch_tag == 0;
}

void sim_cluster_step(struct sim *sim, struct sim_proc *proc)
{
    if (proc->kind == SIM_WORKER) {
        worker_step(sim, proc);
    } else {
        coordinator_step(sim, proc);
    }
    if (proc->alive && wants_to_watch(proc) && proc->tasks->watch_ns <= sim->now_ns) {
        watch(sim, proc);
    }
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t sim_cluster_due_ns(const struct sim *sim, const struct sim_proc *proc)
{
    const struct sim_clock *clock = &sim->nodes[proc->node].clock;
    const struct sim_tasks *tasks = proc->tasks;
    uint64_t due_ns = SIM_NEVER;

    if (!tasks->worker && !tasks->cluster) {
        due_ns = tasks->claim_tag == 0 ? tasks->claim_ns : SIM_NEVER;
        return proc->ended || tasks->refused ? sim->now_ns : due_ns;
    }
    due_ns = sim_wires_due_ns(sim, proc);
    if (tasks->watch_tag == 0 && !proc->ended) {
        due_ns = sooner(due_ns, tasks->watch_ns);
    }
    if (tasks->cluster) {
        due_ns = sooner(due_ns, tasks->act_ns);
        due_ns = sooner(due_ns, sim_clock_when(clock, mst_cluster_deadline_ns(tasks->cluster)));
        return due_ns;
    }
    for (uint32_t i = 0; i < SIM_CLUSTER_SLOTS; i++) {
        due_ns = sooner(due_ns, tasks->slots[i].busy ? tasks->slots[i].end_ns : SIM_NEVER);
    }
    due_ns = sooner(due_ns, tasks->connect_ns);
    return sooner(due_ns, sim_clock_when(clock, mst_worker_deadline_ns(tasks->worker)));
}
