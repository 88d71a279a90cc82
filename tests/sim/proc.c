/* SPDX-License-Identifier: Apache-2.0 */
/* A process: the shell around a client machine, and around a restart machine for a rank. Everything
 * is level-triggered, as in the real one: whatever woke it, it looks at its socket, its clock and
 * its work. So a frozen process needs no bookkeeping: it simply does not look. */
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "properties.h"
#include "sim.h"

uint64_t sim_proc_clock(const struct sim *sim, const struct sim_proc *proc)
{
    return sim_clock_read(&sim->nodes[proc->node].clock, sim->now_ns);
}

/* ---- birth and death ------------------------------------------------------------------------- */

struct sim_proc *sim_proc_spawn(struct sim *sim, enum sim_kind kind, struct model_job *job,
                                uint32_t node, uint32_t place)
{
    struct sim_proc *proc = sim_new(sizeof(*proc));

    MST_ASSERT(sim->proc_count < SIM_PROCS_MAX);
    sim->procs[sim->proc_count++] = proc;
    proc->pid = 100 + sim->proc_count;
    proc->kind = kind;
    proc->job = job;
    proc->node = node;
    proc->place = place;
    proc->wake_ns = SIM_NEVER;
    proc->retry_ns = SIM_NEVER;
    proc->unwind_ns = SIM_NEVER;
    proc->assign_ns = SIM_NEVER;
    proc->token.high = mst_prng_next(&sim->prng);
    proc->token.low = mst_prng_next(&sim->prng);
    proc->born_ns = sim->now_ns;
    proc->troubled_ns = sim->now_ns;
    proc->alive = true;
    return proc;
}

static enum mst_role role_of(const struct sim_proc *proc)
{
    switch (proc->kind) {
    case SIM_RANK:
        return MST_ROLE_RANK;
    case SIM_AGENT:
        return MST_ROLE_AGENT;
    case SIM_WORKER:
        return MST_ROLE_WORKER;
    case SIM_OBSERVER:
    case SIM_AUDITOR:
    case SIM_COORDINATOR:
        break;
    }
    return MST_ROLE_OBSERVER;
}

void sim_proc_begin(struct sim *sim, struct sim_proc *proc)
{
    static const char *const kinds[] = {"rank",    "observer",    "agent",
                                        "auditor", "coordinator", "worker"};
    const struct model_job *job = proc->job;
    char host[2] = {(char)('a' + (int)proc->node), 0};
    struct mst_client_config config = {
        .seed = mst_prng_next(&sim->prng),
        .endpoint_count = sim->plan.two_endpoints ? 2 : 1,
        .limits = mst_limits_default,
        .open = {.token = proc->token,
                 .job = mst_slice_text(job->name),
                 .role = role_of(proc),
                 .index = proc->place,
                 .host = mst_slice_text(host),
                 .pid = proc->pid,
                 .node = sim->plan.tied && proc->kind != SIM_WORKER ? proc->node : MST_NODE_NONE},
    };

    config.open.replaces = proc->kind == SIM_AGENT && sim->plan.replaces;
    if (proc->kind == SIM_RANK) {
        config.open.size = job->size;
        config.open.min_size = job->min_size;
        config.open.max_size = job->max_size;
        config.open.size_multiple = job->size_multiple;
        config.open.join_wait_ms = job->join_wait_ns / SIM_MS;
        config.open.grow = job->grow;
    }
    MST_ASSERT(mst_client_new(&proc->client, &config, &sim->memory.mem) == MUSTER_OK);
    sim_tell(sim, "%s: %s pid=%" PRIu64 " node=%s place=%d starts%s%s", job->name,
             kinds[proc->kind], proc->pid, host, (int)proc->place, proc->twin ? ", a twin" : "",
             proc->looper ? ", a looper" : "");
    mst_client_start(proc->client, sim_proc_clock(sim, proc));
    switch (proc->kind) {
    case SIM_RANK:
        sim_rank_start(sim, proc);
        break;
    case SIM_AGENT:
        sim_agent_start(sim, proc);
        break;
    case SIM_OBSERVER:
    case SIM_AUDITOR:
        sim_observer_start(sim, proc);
        break;
    case SIM_COORDINATOR:
    case SIM_WORKER:
        sim_cluster_start(sim, proc);
        break;
    }
    sim_proc_wake(sim, proc, sim->now_ns);
}

static void die(struct sim *sim, struct sim_proc *proc, bool silently)
{
    proc->alive = false;
    proc->frozen = false;
    proc->died_ns = sim->now_ns;
    if (proc->conn) {
        if (silently) {
            sim_net_vanish(proc->conn, SIM_CLIENT);
        } else {
            sim_net_close(sim, proc->conn, SIM_CLIENT);
        }
    }
    if (proc->tasks) {
        sim_cluster_death(sim, proc, silently);
    }
    sim_saw_death(sim, proc);
    if (proc->kind == SIM_RANK && proc->fn.state != SIM_FN_NOT && sim->plan.has[SIM_FAIL]) {
        sim_rank_feel(sim, proc);
    }
}

static void kill_one(struct sim *sim, struct sim_proc *proc, bool with_host)
{
    if (proc->alive) {
        sim_tell(sim, "%s: pid=%" PRIu64 " is killed%s", proc->job->name, proc->pid,
                 with_host ? " with its host" : "");
        proc->exit_code = -9;
        die(sim, proc, with_host);
    }
}

/* What `muster run` started dies with it. */
static void kill_children(struct sim *sim, const struct sim_proc *agent)
{
    for (uint32_t i = 0; i < sim->proc_count && sim->plan.parents; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_RANK && proc->job == agent->job && proc->node == agent->node) {
            kill_one(sim, proc, false);
        }
    }
}

void sim_proc_kill(struct sim *sim, struct sim_proc *proc, bool with_host)
{
    bool parent = proc->alive && proc->kind == SIM_AGENT;

    kill_one(sim, proc, with_host);
    if (parent) {
        kill_children(sim, proc);
    }
}

void sim_proc_exit(struct sim *sim, struct sim_proc *proc, int code)
{
    if (proc->alive) {
        sim_tell(sim, "%s: pid=%" PRIu64 " exits %d", proc->job->name, proc->pid, code);
        proc->exit_code = code;
        die(sim, proc, false);
        if (proc->kind == SIM_AGENT) {
            kill_children(sim, proc);
        }
    }
}

void sim_proc_freeze(struct sim *sim, struct sim_proc *proc, uint64_t until_ns)
{
    (void)until_ns;
    sim_tell(sim, "%s: pid=%" PRIu64 " is frozen", proc->job->name, proc->pid);
    proc->frozen = true;
}

void sim_proc_thaw(struct sim *sim, struct sim_proc *proc)
{
    if (proc->alive && proc->frozen) {
        sim_tell(sim, "%s: pid=%" PRIu64 " goes on", proc->job->name, proc->pid);
        proc->frozen = false;
        if (proc->troubled_ns < sim->now_ns) { /* its node may be cut off for longer */
            proc->troubled_ns = sim->now_ns;
        }
        sim_preempt_races(sim, proc);
        sim_proc_wake(sim, proc, sim->now_ns);
    }
}

void sim_proc_fini(struct sim *sim, struct sim_proc *proc)
{
    (void)sim;
    if (proc->conn && proc->conn->client_codec) {
        mst_native_client_free(proc->conn->client_codec);
        proc->conn->client_codec = NULL;
    }
    mst_client_free(proc->client);
    mst_restart_free(proc->restart);
    sim_preempt_fini(proc);
    sim_cluster_fini(proc);
    free(proc->work);
    free(proc->agent);
    free(proc);
}

/* ---- calls ----------------------------------------------------------------------------------- */

bool sim_proc_call(struct sim *sim, struct sim_proc *proc, enum sim_owner owner,
                   const struct mst_request *request, uint64_t within_ns, uint64_t *tag)
{
    uint64_t now = sim_proc_clock(sim, proc);
    uint64_t own = ((uint64_t)owner << SIM_TAG_OWNER_SHIFT) |
                   (owner == SIM_OWNER_RESTART || owner >= SIM_OWNER_PREEMPT ? *tag : ++proc->tags);
    muster_status status;

    MST_ASSERT(proc->call_count < SIM_CALLS_MAX);
    status = mst_client_call(proc->client, now, request,
                             within_ns == SIM_NEVER ? SIM_NEVER : now + within_ns, own);
    if (status != MUSTER_OK) {
        return false;
    }
    proc->calls[proc->call_count].tag = own;
    proc->calls[proc->call_count++].command = request->command;
    *tag = own;
    return true;
}

/* The call with this tag is over; false: it was over before. */
static bool call_over(struct sim_proc *proc, uint64_t tag, enum mst_command *command)
{
    for (uint32_t i = 0; i < proc->call_count; i++) {
        if (proc->calls[i].tag == tag) {
            *command = proc->calls[i].command;
            proc->calls[i] = proc->calls[--proc->call_count];
            return true;
        }
    }
    return false;
}

void sim_proc_forget(struct sim_proc *proc, uint64_t tag)
{
    enum mst_command command;

    (void)call_over(proc, tag, &command);
}

/* The machines of a process, as their shells run them. */
static const struct shell {
    enum sim_owner owner;
    const struct mst_machine *kind;
    void (*effect)(struct sim *sim, struct sim_proc *proc, const void *effect);
    void (*answer)(struct sim *sim, struct sim_proc *proc, const void *effect); /* or NULL */
} shells[] = {
    {SIM_OWNER_RESTART, &mst_restart_machine, sim_rank_effect, NULL},
    {SIM_OWNER_PREEMPT, &mst_preempt_machine, sim_preempt_effect, sim_preempt_answer},
    {SIM_OWNER_PUBLISH, &mst_publish_machine, sim_publish_effect, sim_publish_answer},
};

enum { SHELLS = sizeof(shells) / sizeof(shells[0]) };

static void *machine_of(const struct sim_proc *proc, enum sim_owner owner)
{
    if (owner == SIM_OWNER_RESTART) {
        return proc->restart;
    }
    return owner == SIM_OWNER_PREEMPT ? (void *)proc->preempt : (void *)proc->publish;
}

static void machine_reply(struct sim *sim, struct sim_proc *proc, enum sim_owner owner,
                          uint64_t tag, const struct mst_reply *reply)
{
    uint64_t own = tag & ((UINT64_C(1) << SIM_TAG_OWNER_SHIFT) - 1);

    for (size_t i = 0; i < SHELLS; i++) {
        if (shells[i].owner == owner && machine_of(proc, owner)) {
            shells[i].kind->reply(machine_of(proc, owner), sim_proc_clock(sim, proc), own, reply);
        }
    }
}

static void machine_effect(struct sim *sim, struct sim_proc *proc, const struct shell *shell,
                           const struct mst_machine_effect *effect)
{
    uint64_t tag = effect->tag;

    shell->effect(sim, proc, effect);
    if (effect->kind == MST_MACHINE_CALL &&
        !sim_proc_call(sim, proc, shell->owner, effect->request, SIM_NEVER, &tag)) {
        MST_ASSERT(proc->ended);
    } else if (effect->kind == MST_MACHINE_CANCEL) {
        mst_client_cancel(proc->client, sim_proc_clock(sim, proc),
                          ((uint64_t)shell->owner << SIM_TAG_OWNER_SHIFT) | tag);
    }
    if (shell->answer) {
        shell->answer(sim, proc, effect);
    }
}

/* True: there was something. */
static bool machines_drain(struct sim *sim, struct sim_proc *proc)
{
    bool any = false;

    for (size_t i = 0; i < SHELLS; i++) {
        const struct mst_machine_effect *effect;

        while (proc->alive && machine_of(proc, shells[i].owner) &&
               (effect = shells[i].kind->next(machine_of(proc, shells[i].owner))) != NULL) {
            machine_effect(sim, proc, &shells[i], effect);
            any = true;
        }
    }
    return any;
}

static void call_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                      const struct mst_reply *reply)
{
    enum sim_owner owner = (enum sim_owner)(tag >> SIM_TAG_OWNER_SHIFT);
    enum mst_command command = MST_OPEN;
    bool was_open;

    was_open = call_over(proc, tag, &command);
    sim_saw_done(sim, proc, tag, was_open, command, reply);
    switch (owner) {
    case SIM_OWNER_LIFE:
        sim_rank_life(sim, proc, command, reply);
        break;
    case SIM_OWNER_FN:
        sim_rank_done(sim, proc, tag, reply);
        break;
    case SIM_OWNER_WORK:
        if (proc->kind == SIM_AGENT) {
            sim_agent_done(sim, proc, tag, reply);
        } else if (proc->tasks) {
            sim_cluster_done(sim, proc, tag, reply);
        } else {
            sim_observer_done(sim, proc, tag, reply);
        }
        break;
    case SIM_OWNER_RESTART:
    case SIM_OWNER_PREEMPT:
    case SIM_OWNER_PUBLISH:
        machine_reply(sim, proc, owner, tag, reply);
        break;
    }
}

/* ---- the connection -------------------------------------------------------------------------- */

static void hang_up(struct sim *sim, struct sim_proc *proc)
{
    struct sim_conn *conn = proc->conn;

    if (conn) {
        sim_net_close(sim, conn, SIM_CLIENT);
        mst_native_client_free(conn->client_codec);
        conn->client_codec = NULL;
        proc->conn = NULL;
    }
}

static void lost_conn(struct sim *sim, struct sim_proc *proc)
{
    hang_up(sim, proc);
    mst_client_disconnected(proc->client, sim_proc_clock(sim, proc));
}

static void look_at_attempt(struct sim *sim, struct sim_proc *proc)
{
    struct sim_conn *conn = proc->conn;

    if (!conn || conn->client_codec) {
        return;
    }
    if (conn->attempt == SIM_REFUSED) {
        lost_conn(sim, proc);
    } else if (conn->attempt == SIM_ACCEPTED) {
        MST_ASSERT(mst_native_client_new(&conn->client_codec, &mst_limits_default,
                                         &sim->memory.mem) == MUSTER_OK);
        mst_client_connected(proc->client, sim_proc_clock(sim, proc));
    }
}

static void pump(struct sim *sim, struct sim_proc *proc);

/* Takes in what the socket holds. False: the connection is dead. */
static bool read_some(struct sim *sim, struct sim_proc *proc, struct sim_conn *conn)
{
    struct mst_slice in = sim_net_received(conn, SIM_CLIENT);
    struct mst_reply reply;
    muster_status status;

    if (in.size > 1 && sim_chance(sim, 20)) {
        in.size = 1 + (size_t)sim_below(sim, in.size);
    }
    status = mst_native_stream_feed(&conn->client_codec->stream, in);
    sim_net_take(sim, conn, SIM_CLIENT, in.size);
    while (status == MUSTER_OK) {
        status = mst_native_client_next(conn->client_codec, &reply);
        if (status == MUSTER_OK) {
            if (!sim_addresses_told(sim, proc, &reply)) {
                sim_saw_answer(sim, proc, &reply);
                mst_client_reply(proc->client, sim_proc_clock(sim, proc), &reply);
            }
            pump(sim, proc);
            if (!proc->alive || proc->conn != conn) {
                return true;
            }
        }
    }
    if (status != MUSTER_MORE) {
        sim_saw_bad_bytes(sim, status);
    }
    return status == MUSTER_MORE;
}

static void look_at_socket(struct sim *sim, struct sim_proc *proc)
{
    struct sim_conn *conn = proc->conn;

    if (proc->blind_until_ns > sim->now_ns) {
        sim_proc_wake(sim, proc, proc->blind_until_ns);
        return;
    }
    while (proc->alive && conn && proc->conn == conn && conn->client_codec) {
        if (sim_net_over(conn, SIM_CLIENT)) {
            lost_conn(sim, proc);
            return;
        }
        if (sim_net_received(conn, SIM_CLIENT).size == 0) {
            return;
        }
        mst_client_heard(proc->client, sim_proc_clock(sim, proc));
        if (!read_some(sim, proc, conn)) {
            lost_conn(sim, proc);
            return;
        }
    }
}

static void flush(struct sim *sim, struct sim_proc *proc)
{
    struct sim_conn *conn = proc->conn;

    while (conn && conn->client_codec) {
        struct mst_slice output = mst_native_stream_output(&conn->client_codec->stream);
        size_t sent = output.size ? sim_net_write(sim, conn, SIM_CLIENT, output) : 0;

        if (sent == 0) {
            return;
        }
        mst_native_stream_written(&conn->client_codec->stream, sent);
    }
}

/* ---- effects --------------------------------------------------------------------------------- */

static void send_one(struct sim *sim, struct sim_proc *proc, const struct mst_request *request)
{
    muster_status status;

    if (!proc->conn || !proc->conn->client_codec) {
        return;
    }
    sim_saw_sent(sim, proc, request);
    status = mst_native_client_send(proc->conn->client_codec, request);
    if (status != MUSTER_OK) {
        mst_client_refused(proc->client, sim_proc_clock(sim, proc), request->id, status);
    }
}

static void attention(struct sim *sim, struct sim_proc *proc)
{
    sim_saw_attention(sim, proc);
    if (proc->restart && proc->started) {
        mst_restart_machine.attention(proc->restart, sim_proc_clock(sim, proc),
                                      mst_client_view(proc->client),
                                      mst_client_stopped(proc->client));
        sim_preempt_view(sim, proc, mst_client_view(proc->client));
    }
}

static void ended(struct sim *sim, struct sim_proc *proc, const struct mst_client_effect *effect)
{
    sim_saw_ended(sim, proc, effect);
    proc->ended = true;
    proc->end_status = effect->status;
    if (proc->restart && proc->started) {
        mst_restart_machine.ended(proc->restart, sim_proc_clock(sim, proc), effect->status);
        sim_preempt_ended(sim, proc, effect->status);
    }
}

static void connect_to(struct sim *sim, struct sim_proc *proc, uint32_t address)
{
    bool sends_on = sim->plan.sends_on && address == 1;

    MST_ASSERT(!proc->conn);
    sim_addresses_connects(sim, proc, address);
    proc->conn = sim_net_connect(sim, proc, address == 1 && !sends_on);
    proc->conn->elsewhere = sends_on;
}

static void client_effect(struct sim *sim, struct sim_proc *proc,
                          const struct mst_client_effect *effect)
{
    switch (effect->type) {
    case MST_CLIENT_CONNECT:
        connect_to(sim, proc, sim_addresses_at(proc, effect->endpoint));
        break;
    case MST_CLIENT_SEND:
        send_one(sim, proc, effect->request);
        break;
    case MST_CLIENT_DONE:
        call_done(sim, proc, effect->tag, effect->reply);
        break;
    case MST_CLIENT_ATTENTION:
        attention(sim, proc);
        break;
    case MST_CLIENT_DISCONNECT:
        flush(sim, proc);
        hang_up(sim, proc);
        break;
    case MST_CLIENT_ENDED:
        ended(sim, proc, effect);
        break;
    }
}

/* Until no machine has anything to say. */
static void pump(struct sim *sim, struct sim_proc *proc)
{
    bool again = true;

    while (again && proc->alive) {
        const struct mst_client_effect *effect;

        again = false;
        while (proc->alive && (effect = mst_client_next(proc->client)) != NULL) {
            client_effect(sim, proc, effect);
            mst_client_done(proc->client, effect);
            again = true;
        }
        again = machines_drain(sim, proc) || again;
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void work(struct sim *sim, struct sim_proc *proc)
{
    switch (proc->kind) {
    case SIM_RANK:
        sim_rank_step(sim, proc);
        break;
    case SIM_AGENT:
        sim_agent_step(sim, proc);
        break;
    case SIM_OBSERVER:
    case SIM_AUDITOR:
        sim_observer_step(sim, proc);
        break;
    case SIM_COORDINATOR:
    case SIM_WORKER:
        sim_cluster_step(sim, proc);
        break;
    }
}

static uint64_t due(const struct sim *sim, const struct sim_proc *proc)
{
    const struct sim_clock *clock = &sim->nodes[proc->node].clock;
    uint64_t when = sim_clock_when(clock, mst_client_deadline_ns(proc->client));
    uint64_t next = SIM_NEVER;

    switch (proc->kind) {
    case SIM_RANK:
        next = sim_rank_due_ns(proc);
        break;
    case SIM_AGENT:
        next = sim_agent_due_ns(proc);
        break;
    case SIM_OBSERVER:
    case SIM_AUDITOR:
        next = sim_observer_due_ns(proc);
        break;
    case SIM_COORDINATOR:
    case SIM_WORKER:
        next = sim_cluster_due_ns(sim, proc);
        break;
    }
    if (next < when) {
        when = next;
    }
    if (proc->restart) {
        next = sim_clock_when(clock, mst_restart_machine.deadline_ns(proc->restart));
        when = next < when ? next : when;
    }
    if (proc->preempt) {
        next = sim_clock_when(clock, mst_preempt_machine.deadline_ns(proc->preempt));
        when = next < when ? next : when;
    }
    return when;
}

static void look(struct sim *sim, struct sim_proc *proc)
{
    look_at_attempt(sim, proc);
    pump(sim, proc);
    if (proc->alive) {
        look_at_socket(sim, proc);
    }
    if (!proc->alive) {
        return;
    }
    mst_client_tick(proc->client, sim_proc_clock(sim, proc));
    if (proc->restart) {
        mst_restart_machine.tick(proc->restart, sim_proc_clock(sim, proc));
    }
    if (proc->preempt) {
        mst_preempt_machine.tick(proc->preempt, sim_proc_clock(sim, proc));
    }
    pump(sim, proc);
    if (proc->alive) {
        work(sim, proc);
    }
    if (proc->alive) {
        pump(sim, proc);
    }
    if (!proc->alive) {
        return;
    }
    flush(sim, proc);
    mst_client_check(proc->client);
    if (proc->restart) {
        mst_restart_check(proc->restart);
    }
    if (proc->preempt) {
        mst_preempt_check(proc->preempt);
    }
    sim_saw_look(sim, proc);
    sim_proc_wake(sim, proc, due(sim, proc));
}

static void woken(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_proc *proc = ctx;

    if (proc->wake_ns != arg) {
        return;
    }
    proc->wake_ns = SIM_NEVER;
    if (proc->alive && !proc->frozen) {
        look(sim, proc);
    }
}

void sim_proc_wake(struct sim *sim, struct sim_proc *proc, uint64_t at_ns)
{
    if (at_ns < sim->now_ns) {
        at_ns = sim->now_ns;
    }
    if (at_ns < proc->wake_ns) {
        proc->wake_ns = at_ns;
        sim_at(sim, at_ns, woken, proc, at_ns);
    }
}
