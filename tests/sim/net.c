/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "sim.h"

static enum sim_side other(enum sim_side side)
{
    return side == SIM_CLIENT ? SIM_SERVICE : SIM_CLIENT;
}

static void wake(struct sim *sim, const struct sim_conn *conn, enum sim_side side)
{
    if (side == SIM_CLIENT) {
        sim_proc_wake(sim, conn->proc, sim->now_ns);
    } else {
        sim_service_wake(sim, sim->now_ns);
    }
}

static uint64_t latency(struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    uint64_t most = sim_chance(sim, 3) ? plan->latency_tail_ns : plan->latency_ns;

    return plan->latency_ns / 4 + sim_below(sim, most + 1);
}

/* When bytes pass again between the two ends, if they do not now. */
static uint64_t held_until(const struct sim *sim, const struct sim_conn *conn)
{
    uint64_t until = conn->held_until_ns;
    uint64_t node = sim->nodes[conn->proc->node].away_until_ns;

    return node > until ? node : until;
}

/* ---- arrival --------------------------------------------------------------------------------- */

static void receive(struct sim_end *end, const struct sim_segment *segment)
{
    size_t size = end->received_end - end->received_start;

    if (size + segment->size > end->received_room) {
        end->received_room = (size + segment->size) * 2;
        end->received = sim_grown(end->received, end->received_room, 1);
    }
    if (end->received_end + segment->size > end->received_room) {
        memmove(end->received, end->received + end->received_start, size);
        end->received_start = 0;
        end->received_end = size;
    }
    memcpy(end->received + end->received_end, segment->bytes, segment->size);
    end->received_end += segment->size;
}

static void arrive(struct sim *sim, void *ctx, uint64_t arg);

static void land(struct sim *sim, struct sim_conn *conn, enum sim_side side,
                 const struct sim_segment *segment)
{
    struct sim_end *end = &conn->end[side];

    end->flying -= segment->size;
    if (end->gone) {
        if (!segment->reset && !segment->fin) {
            struct sim_segment *reset = sim_new(sizeof(*reset));

            reset->reset = true;
            reset->arrive_ns = sim->now_ns + latency(sim);
            reset->next = NULL;
            if (conn->end[other(side)].last) {
                conn->end[other(side)].last->next = reset;
            } else {
                conn->end[other(side)].first = reset;
            }
            conn->end[other(side)].last = reset;
            sim_at(sim, reset->arrive_ns, arrive, conn, other(side));
        }
        return;
    }
    if (segment->reset) {
        end->gone = true;
        end->ended = true;
        end->broken = true;
    } else if (segment->fin) {
        end->ended = true;
    } else if (!end->ended) {
        receive(end, segment);
    }
    wake(sim, conn, side);
}

static void arrive(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_conn *conn = ctx;
    enum sim_side side = (enum sim_side)arg;
    struct sim_end *end = &conn->end[side];
    uint64_t held = held_until(sim, conn);

    if (held > sim->now_ns) {
        if (held != SIM_NEVER) {
            sim_at(sim, held, arrive, conn, arg);
        }
        return;
    }
    while (end->first && end->first->arrive_ns <= sim->now_ns) {
        struct sim_segment *segment = end->first;

        end->first = segment->next;
        if (!end->first) {
            end->last = NULL;
        }
        land(sim, conn, side, segment);
        free(segment);
    }
}

static void fly(struct sim *sim, struct sim_conn *conn, enum sim_side to,
                struct sim_segment *segment)
{
    struct sim_end *end = &conn->end[to];
    uint64_t at = sim->now_ns + latency(sim);

    if (at < end->last_arrive_ns) {
        at = end->last_arrive_ns;
    }
    end->last_arrive_ns = at;
    segment->arrive_ns = at;
    segment->next = NULL;
    if (end->last) {
        end->last->next = segment;
    } else {
        end->first = segment;
    }
    end->last = segment;
    end->flying += segment->size;
    sim_at(sim, at, arrive, conn, to);
}

static void fly_mark(struct sim *sim, struct sim_conn *conn, enum sim_side to, bool reset)
{
    struct sim_segment *segment = sim_new(sizeof(*segment));

    segment->fin = !reset;
    segment->reset = reset;
    fly(sim, conn, to, segment);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void answer_attempt(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_conn *conn = ctx;
    uint64_t held = held_until(sim, conn);

    if (conn->attempt != SIM_TRYING || !conn->end[SIM_CLIENT].open) {
        return;
    }
    if (held > sim->now_ns && !arg) {
        /* The packet is lost and sent again, or the attempt is given up. */
        sim_at(sim, sim->now_ns + sim_between(sim, 1, sim->plan.lease_ns / 2), answer_attempt, conn,
               sim_chance(sim, 30));
        return;
    }
    if (arg || sim->service.away_until_ns > sim->now_ns) {
        conn->attempt = SIM_REFUSED;
    } else {
        conn->attempt = SIM_ACCEPTED;
        conn->end[SIM_SERVICE].open = true;
        sim_service_wake(sim, sim->now_ns);
    }
    sim_proc_wake(sim, conn->proc, sim->now_ns);
}

struct sim_conn *sim_net_connect(struct sim *sim, struct sim_proc *proc, bool nobody_there)
{
    struct sim_net *net = &sim->net;
    struct sim_conn *conn = sim_new(sizeof(*conn));

    if (net->count == net->room) {
        net->room = net->room ? net->room * 2 : 64;
        net->conns = sim_grown(net->conns, net->room, sizeof(struct sim_conn *));
    }
    net->conns[net->count++] = conn;
    while (!net->conns[net->first_live]->end[0].open && !net->conns[net->first_live]->end[1].open &&
           net->first_live + 1 < net->count) {
        net->first_live++;
    }
    conn->id.id = net->count;
    conn->proc = proc;
    conn->end[SIM_CLIENT].open = true;
    sim_at(sim, sim->now_ns + latency(sim), answer_attempt, conn, nobody_there);
    sim_chaos_connection(sim, conn);
    return conn;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static size_t split(struct sim *sim, size_t size)
{
    switch (sim->plan.split) {
    case SIM_SPLIT_NONE:
        return size;
    case SIM_SPLIT_SOME:
        return sim_chance(sim, 70) ? size : 1 + (size_t)sim_below(sim, size);
    case SIM_SPLIT_TINY:
        return 1 + (size_t)sim_below(sim, size < 24 ? size : 24);
    }
    return size;
}

size_t sim_net_write(struct sim *sim, struct sim_conn *conn, enum sim_side from,
                     struct mst_slice bytes)
{
    struct sim_end *to = &conn->end[other(from)];
    size_t used = to->flying + to->received_end - to->received_start;
    size_t room = used < sim->plan.window_bytes ? sim->plan.window_bytes - used : 0;
    size_t size = bytes.size < room ? bytes.size : room;
    size_t at = 0;

    if (conn->end[from].gone) {
        return bytes.size;
    }
    if (conn->severed) {
        fly_mark(sim, conn, from, true);
        return bytes.size;
    }
    to->pinched = size < bytes.size;
    while (at < size) {
        size_t piece = split(sim, size - at);
        struct sim_segment *segment = sim_new(sizeof(*segment) + piece);

        segment->size = piece;
        memcpy(segment->bytes, (const unsigned char *)bytes.data + at, piece);
        fly(sim, conn, other(from), segment);
        at += piece;
    }
    return size;
}

struct mst_slice sim_net_received(const struct sim_conn *conn, enum sim_side side)
{
    const struct sim_end *end = &conn->end[side];

    if (end->broken) {
        return mst_slice_of(NULL, 0);
    }
    return mst_slice_of(end->received ? end->received + end->received_start : NULL,
                        end->received_end - end->received_start);
}

void sim_net_take(struct sim *sim, struct sim_conn *conn, enum sim_side side, size_t size)
{
    struct sim_end *end = &conn->end[side];

    end->received_start += size;
    MST_ASSERT(end->received_start <= end->received_end);
    if (end->received_start == end->received_end) {
        end->received_start = 0;
        end->received_end = 0;
    }
    if (end->pinched) {
        end->pinched = false;
        wake(sim, conn, other(side));
    }
}

bool sim_net_over(const struct sim_conn *conn, enum sim_side side)
{
    return conn->end[side].ended && sim_net_received(conn, side).size == 0;
}

/* ---- endings --------------------------------------------------------------------------------- */

void sim_net_close(struct sim *sim, struct sim_conn *conn, enum sim_side side)
{
    struct sim_end *end = &conn->end[side];

    if (!end->open) {
        return;
    }
    end->open = false;
    if (!end->gone && !conn->severed && conn->attempt == SIM_ACCEPTED) {
        fly_mark(sim, conn, other(side), false);
    }
    end->gone = true;
    end->received_start = 0;
    end->received_end = 0;
    if (end->pinched) {
        end->pinched = false;
        wake(sim, conn, other(side));
    }
}

void sim_net_vanish(struct sim_conn *conn, enum sim_side side)
{
    conn->end[side].open = false;
    conn->end[side].gone = true;
    conn->end[side].received_start = 0;
    conn->end[side].received_end = 0;
}

/* Drops what flies to `side` from a random byte on. */
static void lose_tail(struct sim *sim, struct sim_end *end)
{
    size_t keep = (size_t)sim_below(sim, end->flying + 1);
    struct sim_segment *segment = end->first;
    struct sim_segment *last = NULL;

    while (segment && keep >= segment->size && !segment->fin && !segment->reset) {
        keep -= segment->size;
        last = segment;
        segment = segment->next;
    }
    if (segment && keep > 0 && keep < segment->size) {
        end->flying -= segment->size - keep;
        segment->size = keep;
        last = segment;
        segment = segment->next;
    }
    if (last) {
        last->next = NULL;
    } else {
        end->first = NULL;
    }
    end->last = last;
    while (segment) {
        struct sim_segment *next = segment->next;

        end->flying -= segment->size;
        free(segment);
        segment = next;
    }
}

void sim_net_cut(struct sim *sim, struct sim_conn *conn, unsigned told)
{
    conn->severed = true;
    for (unsigned side = 0; side < 2; side++) {
        lose_tail(sim, &conn->end[side]);
    }
    for (unsigned side = 0; side < 2; side++) {
        if (told & (1u << side)) {
            fly_mark(sim, conn, (enum sim_side)side, true);
        }
    }
}

void sim_net_hold(struct sim *sim, struct sim_conn *conn, uint64_t until_ns)
{
    conn->held_until_ns = until_ns;
    sim_at(sim, until_ns, arrive, conn, SIM_CLIENT);
    sim_at(sim, until_ns, arrive, conn, SIM_SERVICE);
}

void sim_net_resume(struct sim *sim)
{
    struct sim_net *net = &sim->net;

    for (size_t i = net->first_live; i < net->count; i++) {
        sim_at(sim, sim->now_ns, arrive, net->conns[i], SIM_CLIENT);
        sim_at(sim, sim->now_ns, arrive, net->conns[i], SIM_SERVICE);
    }
}

struct sim_conn *sim_net_pick(struct sim *sim)
{
    struct sim_net *net = &sim->net;

    for (unsigned tries = 0; tries < 20 && net->count > net->first_live; tries++) {
        size_t at = net->first_live + (size_t)sim_below(sim, net->count - net->first_live);
        struct sim_conn *conn = net->conns[at];

        if (conn->attempt == SIM_ACCEPTED && (conn->end[0].open || conn->end[1].open)) {
            return conn;
        }
    }
    return NULL;
}

void sim_net_fini(struct sim *sim)
{
    struct sim_net *net = &sim->net;

    for (size_t i = 0; i < net->count; i++) {
        struct sim_conn *conn = net->conns[i];

        for (unsigned side = 0; side < 2; side++) {
            while (conn->end[side].first) {
                struct sim_segment *segment = conn->end[side].first;

                conn->end[side].first = segment->next;
                free(segment);
            }
            free(conn->end[side].received);
        }
        free(conn);
    }
    free(net->conns);
}
