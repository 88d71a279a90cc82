/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "replicas.h"

enum { WINDOW = 128 * 1024 };

bool rep_wire_passes(const struct replicas *replicas, uint32_t from, uint32_t to)
{
    const struct rep_wire *wire = &replicas->wire;

    return !wire->down[from] && !wire->down[to] &&
           (from == to || wire->cut_ns[from][to] <= replicas->sim.now_ns);
}

/* ---- waking ---------------------------------------------------------------------------------- */

static void woken(struct sim *sim, void *ctx, uint64_t at_ns)
{
    struct rep_actor *actor = ctx;

    if (actor->wake_ns == at_ns) {
        actor->wake_ns = SIM_NEVER;
        if (actor->alive && !actor->frozen) {
            actor->look(rep_of(sim), actor);
        }
    }
}

void rep_wake(struct replicas *replicas, struct rep_actor *actor, uint64_t at_ns)
{
    if (at_ns < replicas->sim.now_ns) {
        at_ns = replicas->sim.now_ns;
    }
    if (at_ns < actor->wake_ns) {
        actor->wake_ns = at_ns;
        sim_at(&replicas->sim, at_ns, woken, actor, at_ns);
    }
}

static void wake_end(struct replicas *replicas, const struct rep_end *end)
{
    if (end->owner) {
        rep_wake(replicas, end->owner, replicas->sim.now_ns);
    }
}

static uint64_t latency(struct replicas *replicas)
{
    uint64_t usual = replicas->plan.latency_ns;

    return usual / 2 + sim_below(&replicas->sim, usual) +
           (sim_chance(&replicas->sim, 2) ? sim_below(&replicas->sim, 10 * usual) : 0);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void drop_pieces(struct rep_end *end)
{
    while (end->first) {
        struct rep_piece *piece = end->first;

        end->first = piece->next;
        free(piece);
    }
    end->last = NULL;
    end->flying = 0;
}

static void forget_end(struct rep_end *end)
{
    drop_pieces(end);
    free(end->got);
    end->got = NULL;
    end->got_size = 0;
    end->got_room = 0;
}

static void end_over(struct replicas *replicas, struct rep_end *end)
{
    drop_pieces(end);
    end->over = true;
    wake_end(replicas, end);
}

void rep_link_break(struct replicas *replicas, struct rep_link *link)
{
    for (unsigned side = 0; side < 2; side++) {
        end_over(replicas, &link->ends[side]);
    }
}

/* ---- bytes on their way ---------------------------------------------------------------------- */

static void arrive(struct sim *sim, void *ctx, uint64_t side);

static void append(struct replicas *replicas, struct rep_link *link, unsigned to,
                   struct mst_slice bytes, bool fin)
{
    struct rep_end *end = &link->ends[to];
    struct rep_piece *piece = sim_new(sizeof(*piece) + bytes.size);

    piece->size = bytes.size;
    piece->fin = fin;
    if (bytes.size > 0) {
        memcpy(piece->bytes, bytes.data, bytes.size);
    }
    piece->arrive_ns = replicas->sim.now_ns + latency(replicas);
    if (piece->arrive_ns < end->last_arrive_ns) {
        piece->arrive_ns = end->last_arrive_ns;
    }
    end->last_arrive_ns = piece->arrive_ns;
    if (end->last) {
        end->last->next = piece;
    } else {
        end->first = piece;
    }
    end->last = piece;
    end->flying += piece->size;
    sim_at(&replicas->sim, piece->arrive_ns, arrive, link, to);
}

/* The first piece waits for the path. */
static void wait_for_path(struct replicas *replicas, struct rep_link *link, unsigned to)
{
    struct rep_end *end = &link->ends[to];
    uint64_t now = replicas->sim.now_ns;

    if (link->stuck_ns == 0) {
        link->stuck_ns = now;
    } else if (now > link->stuck_ns + replicas->plan.patience_ns) {
        rep_link_break(replicas, link);
        return;
    }
    end->first->arrive_ns = now + 20 * SIM_MS + sim_below(&replicas->sim, 40 * SIM_MS);
    sim_at(&replicas->sim, end->first->arrive_ns, arrive, link, to);
}

static void land(struct replicas *replicas, struct rep_link *link, unsigned to)
{
    struct rep_end *end = &link->ends[to];
    struct rep_piece *piece = end->first;

    if (!end->owner || end->over) { /* its kernel answers with a reset */
        if (!end->owner && !piece->fin && !link->ends[1 - to].over) {
            end_over(replicas, &link->ends[1 - to]);
        }
        drop_pieces(end);
        return;
    }
    end->first = piece->next;
    end->last = end->first ? end->last : NULL;
    end->flying -= piece->size;
    if (piece->fin) {
        end_over(replicas, end);
    } else {
        if (end->got_size + piece->size > end->got_room) {
            end->got_room = 2 * (end->got_size + piece->size);
            end->got = sim_grown(end->got, end->got_room, 1);
        }
        memcpy(end->got + end->got_size, piece->bytes, piece->size);
        end->got_size += piece->size;
    }
    free(piece);
}

static void arrive(struct sim *sim, void *ctx, uint64_t side)
{
    struct replicas *replicas = rep_of(sim);
    struct rep_link *link = ctx;
    unsigned to = (unsigned)side;
    struct rep_end *end = &link->ends[to];
    bool any = false;

    while (end->first && end->first->arrive_ns <= sim->now_ns) {
        if (!rep_wire_passes(replicas, link->hosts[1 - to], link->hosts[to])) {
            wait_for_path(replicas, link, to);
            break;
        }
        link->stuck_ns = 0;
        land(replicas, link, to);
        any = true;
    }
    if (any) {
        wake_end(replicas, end);
    }
}

size_t rep_link_write(struct replicas *replicas, struct rep_link *link, unsigned side,
                      struct mst_slice bytes)
{
    struct rep_end *other = &link->ends[1 - side];
    size_t used = other->flying + other->got_size;
    size_t size = bytes.size;
    size_t at = 0;

    if (link->ends[side].over || link->attempt != REP_ACCEPTED || used >= WINDOW) {
        return 0;
    }
    size = size < WINDOW - used ? size : WINDOW - used;
    while (at < size) {
        size_t piece = size - at;

        if (piece > 1 && sim_chance(&replicas->sim, 15)) {
            piece = 1 + (size_t)sim_below(&replicas->sim, piece);
        }
        append(replicas, link, 1 - side,
               mst_slice_of((const unsigned char *)bytes.data + at, piece), false);
        at += piece;
    }
    return size;
}

struct mst_slice rep_link_got(const struct rep_link *link, unsigned side)
{
    return mst_slice_of(link->ends[side].got, link->ends[side].got_size);
}

void rep_link_take(struct replicas *replicas, struct rep_link *link, unsigned side, size_t size)
{
    struct rep_end *end = &link->ends[side];

    MST_ASSERT(size <= end->got_size);
    if (size > 0) {
        bool full = end->flying + end->got_size >= WINDOW;

        memmove(end->got, end->got + size, end->got_size - size);
        end->got_size -= size;
        if (full) { /* its writer waits */
            wake_end(replicas, &link->ends[1 - side]);
        }
    }
}

/* ---- connecting and closing ------------------------------------------------------------------ */

/* The attempt reaches the other host, or tries again, as SYNs do. */
static void try_connect(struct sim *sim, void *ctx, uint64_t arg)
{
    struct replicas *replicas = rep_of(sim);
    struct rep_link *link = ctx;
    struct rep_actor *target = link->target;
    bool passes = rep_wire_passes(replicas, link->hosts[0], link->hosts[1]) &&
                  rep_wire_passes(replicas, link->hosts[1], link->hosts[0]);

    (void)arg;
    if (link->ends[0].owner && !passes &&
        sim->now_ns < link->since_ns + replicas->plan.patience_ns) {
        sim_at(sim, sim->now_ns + 100 * SIM_MS, try_connect, link, 0);
        return;
    }
    if (link->ends[0].owner && passes && target && target->alive &&
        target->life == link->target_life) {
        link->attempt = REP_ACCEPTED;
        link->ends[1].owner = target;
        rep_wake(replicas, target, sim->now_ns);
    } else {
        link->attempt = REP_REFUSED;
        link->ends[0].over = true;
    }
    wake_end(replicas, &link->ends[0]);
}

struct rep_link *rep_link_open(struct replicas *replicas, struct rep_actor *from,
                               struct rep_actor *target, uint32_t host, enum rep_link_kind kind)
{
    struct rep_wire *wire = &replicas->wire;
    struct rep_link *link = sim_new(sizeof(*link));

    if (wire->count == wire->room) {
        wire->room = wire->room ? wire->room * 2 : 64;
        wire->links = sim_grown(wire->links, wire->room, sizeof(struct rep_link *));
    }
    wire->links[wire->count++] = link;
    link->id = wire->count;
    link->kind = kind;
    link->hosts[0] = from->host;
    link->hosts[1] = host;
    link->ends[0].owner = from;
    link->target = target;
    link->target_life = target ? target->life : 0;
    link->since_ns = replicas->sim.now_ns;
    sim_at(&replicas->sim, replicas->sim.now_ns + 2 * latency(replicas), try_connect, link, 0);
    return link;
}

static void pass_dead(struct rep_wire *wire)
{
    while (wire->first_live < wire->count && !wire->links[wire->first_live]->ends[0].owner &&
           !wire->links[wire->first_live]->ends[1].owner) {
        wire->first_live++;
    }
}

void rep_link_close(struct replicas *replicas, struct rep_link *link, unsigned side)
{
    struct rep_end *end = &link->ends[side];

    if (!end->owner) {
        return;
    }
    end->owner = NULL;
    link->user[side] = NULL;
    if (!end->over && link->attempt == REP_ACCEPTED) {
        append(replicas, link, 1 - side, mst_slice_of(NULL, 0), true);
    }
    forget_end(end);
    pass_dead(&replicas->wire);
}

void rep_wire_death(struct replicas *replicas, struct rep_actor *actor, bool with_host)
{
    struct rep_wire *wire = &replicas->wire;

    for (uint32_t i = wire->first_live; i < wire->count; i++) {
        struct rep_link *link = wire->links[i];

        for (unsigned side = 0; side < 2; side++) {
            if (link->ends[side].owner != actor) {
                continue;
            }
            if (with_host) {
                link->ends[side].owner = NULL;
                link->user[side] = NULL;
                forget_end(&link->ends[side]);
            } else {
                rep_link_close(replicas, link, side);
            }
        }
    }
    pass_dead(wire);
}

void rep_wire_fini(struct replicas *replicas)
{
    struct rep_wire *wire = &replicas->wire;

    for (uint32_t i = 0; i < wire->count; i++) {
        forget_end(&wire->links[i]->ends[0]);
        forget_end(&wire->links[i]->ends[1]);
        free(wire->links[i]);
    }
    free(wire->links);
}
