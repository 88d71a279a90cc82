/* SPDX-License-Identifier: Apache-2.0 */
/* The direct connections of a cluster: messages in order, each once, or not at all; late, and lost
 * from some message on when it breaks. */
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "cluster.h"
#include "proto/copy.h"

struct sim_wire_message {
    struct sim_wire_message *next;
    uint64_t due_ns;
    struct mst_cluster_message message;
};

static uint64_t soon(struct sim *sim)
{
    return sim->now_ns + sim->plan.latency_ns +
           sim_cluster_below(sim, sim->plan.latency_tail_ns + 1);
}

struct sim_wire *sim_wire_find(const struct sim *sim, uint64_t id)
{
    for (uint32_t i = 0; i < SIM_CLUSTER_WIRES && id != 0; i++) {
        if (sim->cluster->wires[i].id == id) {
            return &sim->cluster->wires[i];
        }
    }
    return NULL;
}

void sim_wire_message_free(struct sim_wire_message *message)
{
    free(message);
}

const struct mst_cluster_message *sim_wire_message(const struct sim_wire_message *message)
{
    return &message->message;
}

static void clear(struct sim_wire *wire, unsigned to)
{
    while (wire->first[to]) {
        struct sim_wire_message *message = wire->first[to];

        wire->first[to] = message->next;
        sim_wire_message_free(message);
    }
    wire->last[to] = NULL;
}

static void free_if_over(struct sim_wire *wire)
{
    if (wire->deaf[0] && wire->deaf[1]) {
        clear(wire, 0);
        clear(wire, 1);
        *wire = (struct sim_wire){0};
    }
}

struct sim_wire *sim_wire_new(struct sim *sim, struct sim_proc *worker,
                              struct sim_proc *coordinator)
{
    for (uint32_t i = 0; i < SIM_CLUSTER_WIRES; i++) {
        struct sim_wire *wire = &sim->cluster->wires[i];

        if (wire->id == 0) {
            *wire = (struct sim_wire){.id = ++sim->cluster->connections,
                                      .end = {worker, coordinator},
                                      .gone_ns = {SIM_NEVER, SIM_NEVER}};
            return wire;
        }
    }
    return NULL;
}

void sim_cluster_send(struct sim *sim, struct sim_wire *wire, unsigned to,
                      const struct mst_cluster_message *message)
{
    struct sim_wire_message *copy;

    if (wire->closed[to] || wire->deaf[to]) {
        return;
    }
    copy = sim_new(sizeof(*copy) + mst_copy_size(&mst_cluster_fields, message));
    mst_copy(&mst_cluster_fields, &copy->message, message, copy + 1);
    copy->due_ns = soon(sim);
    if (wire->last[to]) {
        if (copy->due_ns < wire->last[to]->due_ns) {
            copy->due_ns = wire->last[to]->due_ns;
        }
        wire->last[to]->next = copy;
    } else {
        wire->first[to] = copy;
    }
    wire->last[to] = copy;
    sim_proc_wake(sim, wire->end[to], copy->due_ns);
}

static void gone_soon(struct sim *sim, struct sim_wire *wire, unsigned to)
{
    if (wire->deaf[to] || wire->gone_ns[to] != SIM_NEVER) {
        return;
    }
    wire->gone_ns[to] = soon(sim);
    if (wire->last[to] && wire->gone_ns[to] < wire->last[to]->due_ns) {
        wire->gone_ns[to] = wire->last[to]->due_ns;
    }
    sim_proc_wake(sim, wire->end[to], wire->gone_ns[to]);
}

/* `end` hangs up: what it sent arrives, then the other one is told; or never. */
void sim_wire_close(struct sim *sim, struct sim_wire *wire, unsigned end, bool silently)
{
    wire->closed[1 - end] = true;
    wire->deaf[end] = true;
    clear(wire, end);
    if (!silently) {
        gone_soon(sim, wire, 1 - end);
    }
    free_if_over(wire);
}

void sim_wire_break(struct sim *sim, struct sim_wire *wire)
{
    for (unsigned to = 0; to < 2; to++) {
        clear(wire, to);
        wire->closed[to] = true;
        gone_soon(sim, wire, to);
    }
}

void sim_wires_of_dead(struct sim *sim, const struct sim_proc *proc, bool silently)
{
    for (uint32_t i = 0; i < SIM_CLUSTER_WIRES; i++) {
        struct sim_wire *wire = &sim->cluster->wires[i];

        for (unsigned end = 0; end < 2 && wire->id != 0; end++) {
            if (wire->end[end] == proc && !wire->deaf[end]) {
                sim_wire_close(sim, wire, end, silently);
            }
        }
    }
}

/* Nothing passes to or from a node that is cut off. */
static uint64_t passes_ns(const struct sim *sim, const struct sim_wire *wire, uint64_t due_ns)
{
    for (unsigned end = 0; end < 2; end++) {
        uint64_t away_ns = sim->nodes[wire->end[end]->node].away_until_ns;

        if (wire->end[0]->node != wire->end[1]->node && away_ns > due_ns) {
            due_ns = away_ns;
        }
    }
    return due_ns;
}

static uint64_t due_of(const struct sim *sim, const struct sim_wire *wire, unsigned to)
{
    if (wire->deaf[to]) {
        return SIM_NEVER;
    }
    if (wire->first[to]) {
        return passes_ns(sim, wire, wire->first[to]->due_ns);
    }
    return wire->gone_ns[to] == SIM_NEVER ? SIM_NEVER : passes_ns(sim, wire, wire->gone_ns[to]);
}

uint64_t sim_wires_due_ns(const struct sim *sim, const struct sim_proc *proc)
{
    uint64_t due_ns = SIM_NEVER;

    for (uint32_t i = 0; i < SIM_CLUSTER_WIRES; i++) {
        const struct sim_wire *wire = &sim->cluster->wires[i];

        for (unsigned to = 0; to < 2 && wire->id != 0; to++) {
            uint64_t at_ns = wire->end[to] == proc ? due_of(sim, wire, to) : SIM_NEVER;

            due_ns = at_ns < due_ns ? at_ns : due_ns;
        }
    }
    return due_ns;
}

struct sim_wire_message *sim_wire_take(struct sim *sim, struct sim_proc *proc, uint64_t *id,
                                       bool *over)
{
    for (uint32_t i = 0; i < SIM_CLUSTER_WIRES; i++) {
        struct sim_wire *wire = &sim->cluster->wires[i];

        for (unsigned to = 0; to < 2 && wire->id != 0; to++) {
            struct sim_wire_message *message = wire->first[to];

            if (wire->end[to] != proc || due_of(sim, wire, to) > sim->now_ns) {
                continue;
            }
            *id = wire->id;
            *over = message == NULL;
            if (message) {
                wire->first[to] = message->next;
                wire->last[to] = message->next ? wire->last[to] : NULL;
            } else {
                wire->deaf[to] = true;
                free_if_over(wire);
            }
            return message;
        }
    }
    *over = false;
    return NULL;
}

void sim_wires_free(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLUSTER_WIRES; i++) {
        clear(&sim->cluster->wires[i], 0);
        clear(&sim->cluster->wires[i], 1);
    }
}
