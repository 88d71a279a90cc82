/* SPDX-License-Identifier: Apache-2.0 */
/* The service's shell as the contract wants it: everything readable is fed, then one tick, then the
 * effects are drained; one `now` per turn. */
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "journal.h"
#include "properties.h"
#include "record.h"
#include "sim.h"

uint64_t sim_service_clock(const struct sim *sim)
{
    return sim_clock_read(&sim->service.clock, sim->now_ns);
}

static void trace(void *ctx, const struct mst_trace *line)
{
    struct sim *sim = ctx;

    if (sim->service.journal && sim->service.journal->recovers) {
        return; /* it was told before */
    }
    sim_tell(sim, "service %.*s: %s", (int)line->job.size, (const char *)line->job.data,
             line->text);
    sim_record_traced(sim, line);
    sim_witness_trace(sim, line);
}

struct mst_core_config sim_service_config(struct sim *sim)
{
    return (struct mst_core_config){.lease_ns = sim->plan.lease_ns,
                                    .limits = sim->service.limits,
                                    .history = 20,
                                    .straggler_percent = 20,
                                    .trace = trace,
                                    .trace_ctx = sim,
                                    /* Another one each time: it must make no difference. */
                                    .secret = {{sim->now_ns, sim->service.limits.tombstones_max}}};
}

void sim_service_start(struct sim *sim)
{
    struct sim_service *service = &sim->service;
    struct mst_core_config config;

    service->limits = mst_limits_default;
    service->limits.tombstones_max = 16;
    if (sim->plan.fat) {
        service->limits.output_bytes_max = MST_PAGE_BYTES + 131072;
    }
    config = sim_service_config(sim);
    service->wake_ns = SIM_NEVER;
    service->clock.offset_ns = (UINT64_C(1) << 45) + sim_below(sim, UINT64_C(1) << 50);
    service->clock.ppm = (int64_t)sim_below(sim, 20001) - 10000;
    if (sim->plan.journal) {
        sim_journal_start(sim);
    } else {
        MST_ASSERT(mst_core_new(&service->core, &config, &service->memory.mem) == MUSTER_OK);
        sim_record_begin(sim, 0);
    }
}

/* ---- one connection -------------------------------------------------------------------------- */

static void drop(struct sim *sim, struct sim_conn *conn)
{
    if (conn->admitted) {
        conn->admitted = false;
        sim_witness_close(sim, conn);
        sim_journal_close(sim, conn->id);
    }
    if (conn->codec) {
        mst_native_service_free(conn->codec);
        conn->codec = NULL;
    }
    sim_net_close(sim, conn, SIM_SERVICE);
}

static void flush(struct sim *sim, struct sim_conn *conn)
{
    while (sim_service_step(sim)) {
        struct mst_slice output = mst_native_stream_output(&conn->codec->stream);
        size_t sent = output.size ? sim_net_write(sim, conn, SIM_SERVICE, output) : 0;

        if (sent == 0) {
            return;
        }
        mst_native_stream_written(&conn->codec->stream, sent);
    }
}

static struct sim_conn *conn_of(struct sim *sim, struct mst_conn id)
{
    MST_ASSERT(id.id >= 1 && id.id <= sim->net.count);
    return sim->net.conns[id.id - 1];
}

/* Without memory the service serves this one no better than a broken cable does. */
static void unserved(const struct sim *sim, const struct sim_conn *conn)
{
    if (conn->proc->troubled_ns < sim->now_ns) {
        conn->proc->troubled_ns = sim->now_ns;
    }
}

/* Nothing leaves before what it depends on is kept. Effects for a connection that is gone by now
 * are allowed: the shell drops them. */
static void drain(struct sim *sim)
{
    const struct mst_effect *effect;

    while (sim_journal_keep(sim) && (effect = mst_core_next(sim->service.core)) != NULL) {
        struct sim_conn *conn = conn_of(sim, effect->conn);
        bool hang_up = effect->type == MST_EFFECT_HANGUP;
        struct mst_reply named;

        if (conn->codec && effect->type == MST_EFFECT_REPLY) {
            sim_saw_reply(sim, conn, effect->reply);
            named = sim_addresses_name(sim, effect->reply);
            hang_up = mst_native_service_answer(conn->codec, &named) != MUSTER_OK;
            if (hang_up || effect->reply->status == MUSTER_ENOMEM) {
                unserved(sim, conn);
            }
            if (hang_up) {
                sim_tell(sim,
                         "service: connection %" PRIu64 " of pid=%" PRIu64 ": no room for a reply",
                         conn->id.id, conn->proc->pid);
            }
        }
        mst_core_done(sim->service.core, effect);
        if (!sim_service_step(sim)) {
            return;
        }
        if (hang_up && conn->codec) {
            flush(sim, conn);
            drop(sim, conn);
        }
    }
}

static bool requests(struct sim *sim, struct sim_conn *conn)
{
    for (;;) {
        struct mst_request request;
        muster_status status = mst_native_service_next(conn->codec, &request);

        if (status == MUSTER_MORE) {
            return true;
        }
        if (status != MUSTER_OK) {
            sim_tell(sim, "service: connection %" PRIu64 ": %s", conn->id.id,
                     conn->codec->stream.reason);
            sim_saw_bad_bytes(sim, status);
            return false;
        }
        sim_witness_request(sim, conn, &request);
        status = sim_journal_request(sim, conn->id, &request);
        sim_witness_over(sim);
        if (status != MUSTER_OK) {
            sim_witness_nothing(sim, conn, request.id);
        }
        if (sim->plan.drains_each) {
            drain(sim);
        }
        if (status != MUSTER_OK) {
            return false;
        }
        if (!conn->codec || sim_service_dead(sim)) {
            return true; /* the core hung up on it, or is no more */
        }
    }
}

static bool feed(struct sim *sim, struct sim_conn *conn)
{
    for (;;) {
        struct mst_slice in = sim_net_received(conn, SIM_SERVICE);
        muster_status status;

        if (in.size == 0) {
            return true;
        }
        if (in.size > 1 && sim_chance(sim, 20)) {
            in.size = 1 + (size_t)sim_below(sim, in.size);
        }
        status = mst_native_stream_feed(&conn->codec->stream, in);
        if (status != MUSTER_OK) {
            sim_saw_bad_bytes(sim, status);
            return false;
        }
        sim_net_take(sim, conn, SIM_SERVICE, in.size);
        if (!requests(sim, conn)) {
            return false;
        }
        if (!conn->codec || sim_service_dead(sim)) {
            return true;
        }
    }
}

static bool admit(struct sim *sim, struct sim_conn *conn)
{
    struct sim_service *service = &sim->service;

    if (mst_native_service_new(&conn->codec, &service->limits, &service->memory.mem) != MUSTER_OK) {
        return false;
    }
    if (sim_journal_accept(sim, conn->id) != MUSTER_OK) {
        return false;
    }
    conn->admitted = true;
    return true;
}

static void serve(struct sim *sim, struct sim_conn *conn)
{
    bool ok = true;

    if (!conn->end[SIM_SERVICE].open) {
        return;
    }
    if (conn->elsewhere) {
        ok = sim_addresses_serve(sim, conn);
    } else if (!conn->admitted) {
        ok = admit(sim, conn);
    }
    ok = ok && (conn->elsewhere || feed(sim, conn));
    if (!ok) {
        unserved(sim, conn);
    }
    if (!conn->codec) {
        sim_net_close(sim, conn, SIM_SERVICE);
        return;
    }
    if (!ok || sim_net_over(conn, SIM_SERVICE)) {
        flush(sim, conn);
        drop(sim, conn);
    }
}

static void flush_all(struct sim *sim)
{
    struct sim_net *net = &sim->net;

    for (size_t i = net->first_live; i < net->count; i++) {
        if (net->conns[i]->codec) {
            flush(sim, net->conns[i]);
        }
    }
}

/* ---- the turn -------------------------------------------------------------------------------- */

static void turn(struct sim *sim)
{
    struct sim_service *service = &sim->service;
    struct sim_net *net = &sim->net;

    uint64_t now, written;

    if (!service->core && !sim_service_return(sim)) {
        return;
    }
    now = sim_service_clock(sim);
    service->turns++;
    if (service->asked_ns < now) {
        service->late_ns += now - service->asked_ns;
    }
    if (service->turns > 1 && now > service->turn_ns + sim->plan.lease_ns / 4 + SIM_MS) {
        service->back_ns = now; /* at least a whole pulse was missed */
    }
    if (now > service->asked_ns + sim->plan.lease_ns / 8 - SIM_MS) {
        service->excused_ns = now;
    }
    service->last_ns = service->turns > 1 ? service->turn_ns : now;
    service->turn_ns = now;
    for (size_t i = net->first_live; i < net->count && !sim_service_dead(sim); i++) {
        serve(sim, net->conns[i]);
    }
    written = sim_journal_writes(sim);
    sim_journal_tick(sim);
    drain(sim);
    if (sim->plan.write_ns != 0 && sim_journal_writes(sim) != written) {
        service->writes_until_ns = sim->now_ns + sim->plan.write_ns;
        service->owes_answers = true;
    } else {
        flush_all(sim);
    }
    mst_core_check(service->core);
    sim_journal_snapshot(sim);
    if (sim_service_dead(sim)) {
        sim_service_die(sim);
        return;
    }
    sim_saw_turn(sim);
    if (service->owes_answers) {
        sim_service_wake(sim, service->writes_until_ns);
    }
    service->asked_ns = sim_journal_deadline_ns(sim);
    sim_service_wake(sim, sim_clock_when(&service->clock, service->asked_ns));
}

static void wake(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_service *service = &sim->service;
    uint64_t until = service->stalled_until_ns > service->away_until_ns ? service->stalled_until_ns
                                                                        : service->away_until_ns;

    (void)ctx;
    until = service->writes_until_ns > until ? service->writes_until_ns : until;
    if (service->wake_ns != arg) {
        return; /* an earlier turn took its place */
    }
    service->wake_ns = SIM_NEVER;
    if (until > sim->now_ns) {
        sim_service_wake(sim, until);
        return;
    }
    if (service->owes_answers) {
        service->owes_answers = false;
        flush_all(sim);
        if (sim_service_dead(sim)) {
            sim_service_die(sim);
            return;
        }
    }
    turn(sim);
}

void sim_service_wake(struct sim *sim, uint64_t at_ns)
{
    struct sim_service *service = &sim->service;

    if (at_ns < service->wake_ns) {
        if (at_ns <= sim->now_ns) {
            at_ns = sim->now_ns + sim->plan.latency_ns / 50;
            if (at_ns >= service->wake_ns) {
                return;
            }
        }
        service->wake_ns = at_ns;
        sim_at(sim, at_ns, wake, NULL, at_ns);
    }
}

/* As if it were started again from its journal: all it knew is there, no connection is. */
void sim_service_leave(struct sim *sim, uint64_t until_ns)
{
    struct sim_net *net = &sim->net;

    if (!sim->service.core) {
        return;
    }
    sim->service.away_until_ns = until_ns;
    for (size_t i = net->first_live; i < net->count; i++) {
        if (net->conns[i]->end[SIM_SERVICE].open) {
            drop(sim, net->conns[i]);
        }
    }
    drain(sim);
    if (sim_service_dead(sim)) {
        sim_service_die(sim);
    }
    sim_service_wake(sim, until_ns);
}

void sim_service_fini(struct sim *sim)
{
    struct sim_net *net = &sim->net;

    for (size_t i = 0; i < net->count; i++) {
        if (net->conns[i]->codec) {
            mst_native_service_free(net->conns[i]->codec);
            net->conns[i]->codec = NULL;
        }
    }
    sim_record_end(sim);
    sim_journal_fini(sim);
    mst_core_free(sim->service.core);
    sim_witness_fini(sim);
}
