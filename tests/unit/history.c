/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include <string.h>

#include "base/panic.h"

static const uint64_t ms_ns = 1000000;

static const char *const jobs[HISTORY_JOBS] = {"train", "eval", "sweep"};
static const char *const names[] = {"a", "b", "long/name/of/a/key", "c", "d/1", "d/2", "e", "f"};
static const char *const values[] = {"", "1", "-7", "some longer value than the others",
                                     "9223372036854775807"};
static const char *const rounds[] = {"step", "eval", "save"};

static uint64_t below(struct history *history, uint64_t bound)
{
    if (history->bytes) {
        return fuzz_below(history->bytes, bound);
    }
    return mst_prng_below(&history->prng, bound);
}

static bool one_in(struct history *history, uint64_t bound)
{
    return below(history, bound) == 0;
}

#define PICK(history, table) ((table)[below((history), sizeof(table) / sizeof((table)[0]))])

struct mst_core_config history_config(bool wild)
{
    struct mst_core_config config = {.lease_ns = (wild ? 2000 : 5000) * ms_ns,
                                     .limits = mst_limits_default};

    config.limits.jobs_max = 2;
    config.limits.sessions_max = 13;
    config.limits.connections_max = 14;
    config.limits.members_max = 8;
    config.limits.keys_max = 9;
    config.limits.job_bytes_max = 400;
    config.limits.rounds_max = 2;
    config.limits.value_bytes_max = 64;
    config.limits.tombstones_max = 3;
    config.limits.wait_keys_max = 3;
    config.limits.result_bytes_max = 40;
    config.limits.text_bytes_max = 8;
    return config;
}

static void be_born(struct history *history, struct history_process *process)
{
    static const enum mst_role roles[] = {MST_ROLE_RANK,    MST_ROLE_RANK,  MST_ROLE_RANK,
                                          MST_ROLE_RANK,    MST_ROLE_AGENT, MST_ROLE_WORKER,
                                          MST_ROLE_OBSERVER};
    uint32_t job =
        one_in(history, history->wild ? 3 : 5) ? 1 + (uint32_t)below(history, HISTORY_JOBS - 1) : 0;

    *process = (struct history_process){.job = job, .oldest = 1};
    process->open.token = (struct mst_token){.high = 1, .low = ++history->tokens};
    process->open.job = mst_slice_text(jobs[job]);
    process->open.role = PICK(history, roles);
    process->open.index = one_in(history, 8) ? MST_INDEX_ANY : (uint32_t)below(history, 6);
    process->open.size = one_in(history, 4) ? 0 : 3 + (job == 1);
    process->open.min_size = one_in(history, 4) ? 2 : 0;
    process->open.max_size = one_in(history, 3) ? 4 : 0;
    process->open.size_multiple = one_in(history, 3) && (history->wild || job == 1) ? 2 : 0;
    process->open.join_wait_ms = one_in(history, 4) ? 300 : 0;
    process->open.grow = (enum mst_grow)below(history, 3);
    process->open.host = mst_slice_text(one_in(history, 2) ? "node-1" : "n2");
    process->open.pid = 100 + below(history, 30);
    process->open.node = one_in(history, 3) ? (uint32_t)below(history, 3) : MST_NODE_NONE;
    process->open.replaces =
        process->open.pid % 3 != 0; /* no draw: an older input stays the same */
}

void history_init_from(struct history *history, struct fuzz_bytes *bytes, bool wild)
{
    history_init(history, wild ? 0 : 1);
    history->bytes = bytes;
}

void history_init(struct history *history, uint64_t seed)
{
    *history = (struct history){
        .prng = {.state = seed}, .now_ns = 7000 * ms_ns, .wild = HISTORY_WILD(seed)};
    for (uint32_t i = 0; i < HISTORY_PROCESSES; i++) {
        be_born(history, &history->processes[i]);
    }
}

/* ---- requests ---- */

static struct mst_slice some_data(struct history *history, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        history->data[i] = (unsigned char)(one_in(history, 3) ? 0xff : below(history, 4));
    }
    return mst_slice_of(history->data, size);
}

static uint64_t some_generation(struct history *history)
{
    uint64_t generation = history->generations[history->at->job];

    return one_in(history, 20) ? generation + 1 : generation;
}

static uint64_t space(struct history *history)
{
    return one_in(history, 3) ? some_generation(history) : 0;
}

static void make_write(struct history *history)
{
    uint32_t count = 1 + (one_in(history, 3) ? (uint32_t)below(history, HISTORY_OPS) : 0);

    for (uint32_t i = 0; i < count; i++) {
        history->ops[i] = (struct mst_write){
            .kind = (enum mst_write_kind)(1 + below(history, 6)),
            .owned = one_in(history, 3),
            .key = mst_slice_text(PICK(history, names)),
            .value = mst_slice_text(PICK(history, values)),
            .expected = below(history, 20),
            .delta = (int64_t)below(history, 100) - 50,
        };
        if (one_in(history, 3)) {
            history->ops[i].kind = MST_PUT;
        }
    }
    history->request.write.generation = space(history);
    history->request.write.ops = history->ops;
    history->request.write.count = count;
}

static void make_wait(struct history *history)
{
    uint32_t count = 1 + (uint32_t)below(history, HISTORY_OPS);

    for (uint32_t i = 0; i < count; i++) {
        history->keys[i] = mst_slice_text(PICK(history, names));
    }
    history->request.wait.generation = space(history);
    history->request.wait.keys = history->keys;
    history->request.wait.count = count;
}

/* Often of ranks that are there. */
static void make_order(struct history *history)
{
    history->order[0] = (uint32_t)below(history, 6);
    history->order[1] = (uint32_t)below(history, 4);
    if (one_in(history, 3)) {
        history->request.round.order = history->order;
        history->request.round.order_count = 2;
    }
}

static void make_round(struct history *history)
{
    struct mst_round_request *round = &history->request.round;
    uint32_t at = one_in(history, 4) ? 2 : (uint32_t)below(history, 2);

    *round = (struct mst_round_request){
        .generation = some_generation(history),
        .name = mst_slice_text(rounds[at]),
        .number = one_in(history, 2) ? 0 : below(history, 3),
        .deadline_ms = at == 1 ? 700 : 0,
        .on_loss = at == 0 ? MST_FAIL : MST_PROCEED,
    };
    round->reduce = (enum mst_reduce)((round->generation + (uint64_t)at * 2 + round->number) %
                                      (MST_REDUCE_BROADCAST + 1));
    if (round->reduce != MST_REDUCE_NONE) {
        round->data = some_data(history, round->reduce == MST_REDUCE_EQUAL ? 1 : 16);
        if (round->reduce == MST_REDUCE_GATHER && !one_in(history, 4)) {
            round->data.size = 7;
        }
    }
    if (round->reduce == MST_REDUCE_BROADCAST) {
        round->on_loss = MST_FAIL;
        round->data.size = one_in(history, 2) ? 0 : 16; /* refused unless the root brings them */
    }
    history->taken = mst_slice_text(rounds[(at + 1) % (sizeof(rounds) / sizeof(rounds[0]))]);
    round->taken = &history->taken;
    round->taken_count = (round->generation + round->number) % 2; /* also where it is not true */
    if (at == 1 && history->generations[history->at->job] % 2 == 0) {
        history->participants[0] = 0;
        history->participants[1] = 2;
        history->participants[2] = 5;
        round->participants = history->participants;
        round->participant_count = 3;
        round->present_only = true;
    }
    if (at == 2) {
        round->seal = true;
        round->deadline_ms = 900;
        round->reduce = round->generation % 2 == 0 ? MST_REDUCE_NONE : MST_REDUCE_MAX;
        round->data = some_data(history, round->generation % 2 == 0 ? 0 : 16);
        round->replace_ms = round->generation % 3 == 0 ? 0 : 400;
        make_order(history);
    } else {
        round->final = at == 0 && round->generation % 3 == 0;
    }
}

static void make_lost(struct history *history)
{
    const struct history_process *victim = &history->processes[below(history, HISTORY_PROCESSES)];

    history->request.lost.index = victim->open.index;
    history->request.lost.pid = victim->open.pid;
    history->request.lost.cause = one_in(history, 2)     ? MST_CAUSE_GONE
                                  : one_in(history, 3)   ? MST_CAUSE_HARD_TIMEOUT
                                  : victim->open.pid % 2 ? MST_CAUSE_UNHEALTHY
                                                         : MST_CAUSE_SIGNAL;
    history->request.lost.code = 9;
    history->request.lost.text = mst_slice_text(one_in(history, 9) ? "much too long" : "died");
    history->request.lost.last = victim->open.pid % 4 == 0;
}

static void make_cut(struct history *history)
{
    history->request.cut.index = history->processes[below(history, HISTORY_PROCESSES)].open.index;
    history->request.cut.incarnation = one_in(history, 4);
    history->request.cut.for_ms = one_in(history, 2) ? below(history, 2000) : 0;
}

/* Its own, or an agent's word. */
static void make_fault(struct history *history)
{
    static const enum mst_cause kinds[] = {MST_CAUSE_NONE,      MST_CAUSE_FAULT, MST_CAUSE_LEFT,
                                           MST_CAUSE_UNHEALTHY, MST_CAUSE_AGAIN, MST_CAUSE_ABORTED};
    const struct history_process *about = &history->processes[below(history, HISTORY_PROCESSES)];
    struct mst_request *request = &history->request;

    request->fault.generation = some_generation(history);
    request->fault.code = 3;
    request->fault.text = mst_slice_text("oops");
    request->fault.kind = PICK(history, kinds);
    if (one_in(history, 3)) {
        request->fault.kind = MST_CAUSE_SOFT_TIMEOUT;
        request->fault.index = about->open.index;
        request->fault.pid = about->open.pid;
    } else if (one_in(history, 3)) {
        request->fault.kind = MST_CAUSE_NONE;
        request->fault.code = MUSTER_ELOST;
        request->fault.peer = about->open.index + 1;
    }
}

static void fill(struct history *history)
{
    struct mst_request *request = &history->request;

    switch (request->command) {
    case MST_WRITE:
        make_write(history);
        break;
    case MST_GET:
        request->get.generation = space(history);
        request->get.key = mst_slice_text(PICK(history, names));
        request->get.wait = !one_in(history, 4);
        break;
    case MST_LIST:
        request->list.prefix = mst_slice_text("d/");
        break;
    case MST_DELETE_PREFIX:
        request->delete_prefix.generation = space(history);
        request->delete_prefix.prefix =
            mst_slice_text(one_in(history, 2) ? PICK(history, names) : "d/");
        break;
    case MST_WAIT:
        make_wait(history);
        break;
    case MST_WATCH:
        request->watch.kinds = 1 + (uint32_t)below(history, 15);
        request->watch.generation = space(history);
        request->watch.prefix = mst_slice_text(one_in(history, 2) ? "" : "d/");
        request->watch.after = below(history, 60);
        request->watch.node =
            request->watch.after % 2 ? MST_NODE_NONE : (uint32_t)request->watch.after % 4 / 2;
        if (one_in(history, 4)) { /* on a later page of a listing */
            request->watch.after |= UINT64_C(1) << 63 | below(history, 6) << 44;
        }
        break;
    case MST_ROUND:
        make_round(history);
        break;
    case MST_ROUND_MEMBERS:
        request->round_members.generation = some_generation(history);
        request->round_members.name = mst_slice_text(PICK(history, rounds));
        request->round_members.number = below(history, 4);
        break;
    case MST_FAULT:
        make_fault(history);
        break;
    case MST_LOST:
        make_lost(history);
        break;
    case MST_CUT:
        make_cut(history);
        break;
    case MST_CANCEL:
        request->cancel.id = history->at->id > 0 ? 1 + below(history, history->at->id) : 0;
        break;
    case MST_JOIN:
        request->join.spare = one_in(history, 3);
        request->join.heard = request->join.spare ? 0 : 8;
        break;
    case MST_OPEN:
    case MST_RENEW:
    case MST_LEAVE:
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
    case MST_HISTORY:
        break;
    }
}

static enum mst_command some_command(struct history *history)
{
    static const enum mst_command often[] = {
        MST_WRITE, MST_WRITE, MST_WRITE, MST_ROUND, MST_ROUND, MST_ROUND, MST_ROUND, MST_ROUND,
        MST_RENEW, MST_RENEW, MST_GET,   MST_WAIT,  MST_WATCH, MST_JOIN,  MST_JOIN,  MST_JOIN,
    };
    static const enum mst_command seldom[] = {
        MST_LEAVE,  MST_CANCEL, MST_LIST,  MST_ROUND_MEMBERS, MST_FAULT,         MST_MEMBERS,
        MST_ROUNDS, MST_JOBS,   MST_HOSTS, MST_LOST,          MST_LOST,          MST_CANCEL,
        MST_FAULT,  MST_FAULTS, MST_CUT,   MST_HISTORY,       MST_DELETE_PREFIX,
    };

    return one_in(history, history->wild ? 8 : 30) ? PICK(history, seldom) : PICK(history, often);
}

static void speak(struct history *history, struct history_process *process)
{
    struct mst_request *request = &history->request;

    history->kind = HISTORY_REQUEST;
    history->at = process;
    *request = (struct mst_request){.command = some_command(history)};
    if (process->id == 0 || !one_in(history, 10)) {
        process->id++;
    } /* else the last id once more: a write is replayed */
    if (one_in(history, 4)) {
        process->oldest = process->id - (process->id > 3 ? below(history, 3) : 0);
    }
    request->id = process->id;
    request->oldest = process->oldest;
    fill(history);
}

/* ---- inputs ---- */

static void open_session(struct history *history, struct history_process *process)
{
    history->kind = HISTORY_REQUEST;
    history->at = process;
    process->opened = true;
    history->request = (struct mst_request){.command = MST_OPEN,
                                            .id = process->id + 1,
                                            .oldest = process->id + 1,
                                            .open = process->open};
}

static void go_on(struct history *history, struct history_process *process)
{
    if (process->conn.id == 0) {
        if (one_in(history, 12)) {
            be_born(history, process); /* another process instead */
        }
        history->kind = HISTORY_OPEN;
        process->conn.id = ++history->conns;
        process->opened = one_in(history, 30); /* a stranger who asks without a session */
    } else if (!process->opened || one_in(history, 60)) {
        open_session(history, process);
    } else if (one_in(history, 40)) {
        history->kind = HISTORY_CLOSE;
    } else {
        speak(history, process);
    }
    history->conn = process->conn;
    if (history->kind == HISTORY_CLOSE) {
        process->conn.id = 0;
    }
}

void history_next(struct history *history)
{
    uint64_t step_ms = below(history, 20);

    if (one_in(history, history->wild ? 150 : 300)) {
        step_ms += below(history, 6000); /* it slept */
    }
    history->now_ns += step_ms * ms_ns;
    if (one_in(history, 4)) {
        history->kind = one_in(history, 200) ? HISTORY_RESUME : HISTORY_TICK;
        for (uint32_t i = 0; history->kind == HISTORY_RESUME && i < HISTORY_PROCESSES; i++) {
            history->processes[i].conn.id = 0;
        }
        return;
    }
    go_on(history, &history->processes[below(history, HISTORY_PROCESSES)]);
}

static struct history_process *of_conn(struct history *history, struct mst_conn conn)
{
    for (uint32_t i = 0; i < HISTORY_PROCESSES; i++) {
        if (history->processes[i].conn.id == conn.id) {
            return &history->processes[i];
        }
    }
    return NULL;
}

void history_hear(struct history *history, const struct mst_effect *effect)
{
    struct history_process *process = of_conn(history, effect->conn);

    if (!process || effect->type != MST_EFFECT_REPLY || !effect->reply->has_view) {
        return;
    }
    history->generations[process->job] = effect->reply->view.generation;
    if (effect->reply->command == MST_OPEN && effect->reply->status == MUSTER_OK) {
        process->open.incarnation = effect->reply->view.incarnation;
        process->open.index = effect->reply->view.index;
    }
    if (effect->reply->status == MUSTER_EFENCED && process->open.incarnation != 0 &&
        one_in(history, 2)) {
        struct mst_conn conn = process->conn;

        be_born(history, process);
        process->conn = conn;
    }
}

void history_cut(struct history *history, struct mst_conn conn)
{
    struct history_process *process = of_conn(history, conn);

    if (process) {
        process->conn.id = 0;
    }
}

struct history_record history_play(const struct history *history, struct mst_core *core,
                                   const struct mst_core_config *config)
{
    const struct mst_core_config copy = *config; /* it may be the core's own */
    struct history_record record = {0};

    switch (history->kind) {
    case HISTORY_OPEN:
        record.opened = mst_core_open(core, history->now_ns, history->conn) == MUSTER_OK;
        break;
    case HISTORY_REQUEST:
        record.status = mst_core_request(core, history->now_ns, history->conn, &history->request);
        record.refused = mst_core_refused(core);
        record.wordless = mst_core_wordless(core);
        break;
    case HISTORY_CLOSE:
        mst_core_close(core, history->now_ns, history->conn);
        break;
    case HISTORY_TICK:
        mst_core_tick(core, history->now_ns);
        break;
    case HISTORY_RESUME:
        MST_ASSERT(mst_core_resume(core, history->now_ns, &copy) == MUSTER_OK);
        break;
    }
    record.weight = mst_core_weigh(core);
    mst_core_check(core);
    return record;
}

void history_replay(const struct history *history, struct mst_core *core,
                    const struct mst_core_config *config, const struct history_record *record)
{
    if (record->weight == MST_WEIGHT_NONE) {
        return; /* was not recorded */
    }
    if (record->refused) {
        mst_core_request_refused(core, history->now_ns, history->conn, &history->request);
    } else if (record->wordless) {
        (void)mst_core_request_wordless(core, history->now_ns, history->conn, &history->request);
        (void)mst_core_weigh(core);
    } else {
        (void)history_play(history, core, config);
    }
    mst_core_check(core);
}
