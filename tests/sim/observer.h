/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_OBSERVER_H
#define SIM_OBSERVER_H

#include "sim.h"

enum sim_op_kind {
    SIM_OP_ADD,
    SIM_OP_APPEND,
    SIM_OP_PUT,
    SIM_OP_GET,
    SIM_OP_SUM,
    SIM_OP_LOG,
    SIM_OP_CAS,
    SIM_OP_CELL,
    SIM_OP_INSERT,
    SIM_OP_FLAG,
    SIM_OP_AWAIT,
    SIM_OP_PAIR,
    SIM_OP_PAIRS,
    SIM_OP_OWN,
    SIM_OP_OWN_GET,
    SIM_OP_OWNED,
    SIM_OP_PASSING,
    SIM_OP_MANY,
    SIM_OP_SHELVE,
    SIM_OP_CLEAR,
    SIM_OP_SHELF,
    SIM_OP_HELD,
    SIM_OP_COUNT
};

#define SIM_OPS_MAX 6u   /* beside those that are held */
#define SIM_HELD_MAX 64u /* gets of keys that may never be written */
#define SIM_OWN_MAX 8u
#define SIM_REPLICA_MAX 256u

struct sim_op {
    enum sim_op_kind kind;
    uint64_t tag;
    uint32_t which, slot;
    uint64_t value;
    uint64_t before; /* a revision that was acknowledged when this was asked */
    uint64_t deadline_ns;
    struct mst_slice key;
    struct mst_write writes[2];
    uint32_t write_count;
    char name[32];
    unsigned char bytes[8];
    struct model_counter counter; /* as they were known when this was asked */
    struct model_log log;
};

/* What a key with one writer may hold: the last acknowledged write, and those after it whose
 * outcome is not known. 0: absent. */
struct sim_own {
    bool busy;
    uint64_t candidate[SIM_OWN_MAX];
    uint32_t candidates;
};

/* The keys under a prefix with one writer, a bit each: those that are there for certain, and those
 * that may be. */
#define SIM_SHELF_KEYS 6u
struct sim_shelf {
    bool busy;
    uint32_t must, may;
};

/* A key as a watch told of it. */
struct sim_copy {
    uint64_t name; /* its digest */
    uint64_t revision, value;
    bool there;
};

struct sim_work {
    struct sim_op ops[SIM_OPS_MAX + SIM_HELD_MAX];
    uint32_t op_count, held;
    bool holds; /* it starts many */
    uint64_t think_ns;
    bool awaiting;
    uint64_t cell_known[MODEL_CELLS];
    struct sim_own own[1];
    struct sim_shelf shelf;

    const char *prefix;
    uint64_t watch_tag, watch_ns, after;
    struct sim_copy copies[SIM_REPLICA_MAX];
    uint32_t copy_count;
    bool whole; /* the audit has read everything */
    char last[64];
    uint32_t last_size;
};

void sim_observer_release(struct sim *sim, struct sim_proc *proc);

/* replica.c: a copy of the keys made from what a watch tells, and from a listing at the end */
void sim_replica_ask(struct sim *sim, struct sim_proc *proc);
void sim_replica_page(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply);
void sim_audit_step(struct sim *sim, struct sim_proc *proc);
void sim_audit_page(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply);
void sim_audit_compare(struct sim *sim, const struct sim_proc *auditor);

#endif
