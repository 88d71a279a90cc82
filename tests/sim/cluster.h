/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

/* The coordinators and workers of a cluster, with sessions of their own in a job of their own, and
 * the connections between them. */

#include "sim.h"
#include "tasks/coordinator.h"
#include "tasks/worker.h"

#define SIM_CLUSTER_WORKERS 3u
#define SIM_CLUSTER_SLOTS 3u
#define SIM_CLUSTER_CLOSURES 48u
#define SIM_CLUSTER_WIRES 128u

enum sim_cluster_function {
    SIM_CLUSTER_WORK = 0,
    SIM_CLUSTER_ONCE,
    SIM_CLUSTER_IDEMPOTENT,
    SIM_CLUSTER_FAIL,
    SIM_CLUSTER_KILL, /* ends its worker */
    SIM_CLUSTER_LONG, /* until it is asked to stop */
    SIM_CLUSTER_BUILD,
    SIM_CLUSTER_FUNCTIONS
};

struct sim_closure {
    uint64_t number;
    uint32_t function, starts;
    bool settled;
    enum mst_closure_state state;
    enum mst_origin origin;
};

struct sim_slot {
    bool busy;
    uint64_t term, value; /* value 0: a run */
    struct mst_attempt attempt;
    uint32_t function;
    uint64_t end_ns;
};

/* What a coordinator's or worker's process has beside its client. */
struct sim_tasks {
    uint64_t watch_tag, watch_ns, after;
    /* of a coordinator */
    struct mst_cluster *cluster;
    uint64_t term, claim_tag, claim_ns, act_ns, value, record_tag;
    bool waits, superseded;
    struct sim_closure closures[SIM_CLUSTER_CLOSURES];
    uint32_t closure_count;
    uint64_t calm_end_ns; /* when its queue must be empty */
    /* of a worker */
    struct mst_worker *worker;
    uint64_t told_term, connect_ns, target;
    uint64_t wire;
    struct sim_slot slots[SIM_CLUSTER_SLOTS];
    bool told_end, refused;
    muster_status end_status; /* with which it was told */
};

struct sim_wire_message;

/* A connection: to the worker, to the coordinator. */
struct sim_wire {
    uint64_t id; /* 0: free */
    struct sim_proc *end[2];
    struct sim_wire_message *first[2], *last[2];
    bool deaf[2];        /* nobody is at that end any more */
    bool closed[2];      /* nothing more is sent to it */
    uint64_t gone_ns[2]; /* when that end is told */
};

struct sim_cluster {
    struct mst_prng prng;
    struct model_job job;
    struct sim_wire wires[SIM_CLUSTER_WIRES];
    uint64_t connections;
    struct sim_proc *coordinators[SIM_PROCS_MAX]; /* each has its closures, dead or not */
    uint32_t coordinator_count;
    uint64_t values, ends;
    bool dismisses;         /* a coordinator whose work is done dismisses the cluster */
    bool recorded;          /* a process knows of the record of the dismissal */
    uint64_t recorded_term; /* whose coordinator was answered that it is written; 0: none */
    uint32_t homes;         /* bits of workers' places: the last process ended with OK */
    uint32_t successors;    /* coordinators that found the record */
};

extern const struct mst_function sim_cluster_functions[SIM_CLUSTER_FUNCTIONS];

/* workers.c */
uint64_t sim_cluster_below(struct sim *sim, uint64_t bound);
void sim_cluster_send(struct sim *sim, struct sim_wire *wire, unsigned to,
                      const struct mst_cluster_message *message);

/* cluster_wire.c */
struct sim_wire *sim_wire_new(struct sim *sim, struct sim_proc *worker,
                              struct sim_proc *coordinator);
struct sim_wire *sim_wire_find(const struct sim *sim, uint64_t id);
void sim_wire_close(struct sim *sim, struct sim_wire *wire, unsigned end, bool silently);
void sim_wire_break(struct sim *sim, struct sim_wire *wire);
void sim_wires_of_dead(struct sim *sim, const struct sim_proc *proc, bool silently);
/* What is due for this end. NULL: nothing. `over`: it is the end of this wire. */
struct sim_wire_message *sim_wire_take(struct sim *sim, struct sim_proc *proc, uint64_t *wire,
                                       bool *over);
const struct mst_cluster_message *sim_wire_message(const struct sim_wire_message *message);
void sim_wire_message_free(struct sim_wire_message *message);
uint64_t sim_wires_due_ns(const struct sim *sim, const struct sim_proc *proc);
void sim_wires_free(struct sim *sim);

/* cluster_user.c: what runs, and what is asked for */
void sim_cluster_act(struct sim *sim, struct sim_proc *proc);

/* properties_cluster.c */
void sim_saw_begin(struct sim *sim, struct sim_proc *proc, const struct mst_worker_effect *effect);
void sim_check_closures(struct sim *sim, struct sim_proc *proc);
void sim_saw_admission(struct sim *sim, const struct sim_proc *proc);
void sim_saw_worker_end(struct sim *sim, const struct sim_proc *proc);
bool sim_cluster_drained(const struct sim_proc *proc);

#endif
