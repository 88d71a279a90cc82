/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

/* What the seed decides before anything happens: the sizes, the times, the workload, and which
 * kinds of faults exist at all in this run. That a kind is absent is as important as that it is
 * there: a fault that strikes all the time hides what only shows when it strikes alone. */

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_conn;

/* X(NAME, name, chance in percent that this kind exists in a run, weight when it does, words) */
#define SIM_FAULTS(X)                                                                              \
    X(CRASH, crash, 55, 6, "a process is killed")                                                  \
    X(HOST, host, 12, 1, "all of a node dies at once and its connections say nothing")             \
    X(FREEZE, freeze, 30, 4, "a process is stopped and continued")                                 \
    X(CUT, cut, 40, 8, "a connection is cut at any byte; one end may not know")                    \
    X(HOLD, hold, 35, 6, "nothing passes on one connection for a while")                           \
    X(PARTITION, partition, 25, 3, "nothing passes between a node and the service")                \
    X(STALL, stall, 25, 3, "the service does not run for a while")                                 \
    X(AWAY, away, 20, 2, "the service is away, its connections are gone, its state is kept")       \
    X(DEATH, death, 25, 5, "the service dies at any step and begins again from its journal")       \
    X(POWER, power, 12, 3, "the host of the service dies; it syncs its journal")                   \
    X(FULL, full, 10, 2, "the disk of the journal is full for a while")                            \
    X(JUMP, jump, 20, 3, "the clock of a node jumps forward")                                      \
    X(SLOW, slow, 15, 3, "a process does not read for a while")                                    \
    X(MEMORY, memory, 12, 2, "allocations in the service fail for a while")                        \
    X(AGENT_FAULT, agent, 25, 3, "the agent of a node is killed or stopped")                       \
    X(TWIN, twin, 20, 2, "a second process claims the place of a living one")                      \
    X(LOOPER, looper, 15, 2, "a process that dies before it enters fn, each time it is started")   \
    X(FAIL, fail, 35, 5, "fn fails by itself")                                                     \
    X(AGAIN, again, 15, 3, "fn asks that all begin again")                                         \
    X(HANG, hang, 25, 2, "fn does not look at its flag for long")                                  \
    X(BROKEN, broken, 40, 3, "the connection of a rank to another one breaks")                     \
    X(LEAVE, leave, 6, 1, "a rank leaves the job for good")                                        \
    X(ABORT, abort, 6, 1, "fn asks that all end")                                                  \
    X(UNHEALTHY, unhealthy, 12, 1, "finalize, a health check or the assignment fails")             \
    X(SEVER, sever, 20, 5, "a rank is cut off by a request")                                       \
    X(NOTICE, notice, 40, 16, "a notice of preemption is given or taken back")

enum sim_fault {
#define X(NAME, name, chance, weight, words) SIM_##NAME,
    SIM_FAULTS(X)
#undef X
        SIM_FAULT_COUNT
};

enum sim_split { SIM_SPLIT_NONE, SIM_SPLIT_SOME, SIM_SPLIT_TINY };

struct sim_plan {
    bool has[SIM_FAULT_COUNT];
    uint64_t lease_ns;
    uint64_t latency_ns, latency_tail_ns;
    uint64_t window_bytes;
    enum sim_split split;
    uint64_t chaos_ns;       /* how long the first phase lasts */
    uint64_t fault_every_ns; /* mean distance between two faults */
    bool notices;            /* agents tell deaths; else only the lease does */
    bool respawns_fast;      /* else with a growing back-off */
    bool drains_each;        /* effects are drained after each request, not once per turn */
    bool two_endpoints;      /* and the other one is refused */
    bool sends_on;           /* or sends each client on */
    bool tied;               /* ranks name the agent of their node */
    bool parents;            /* and die with it, as children of `muster run` do */
    bool replaces;           /* agents say that they replace the ranks that name them */
    bool journal;            /* the service keeps one */
    bool syncs;              /* it survives its host */
    uint64_t write_ns;       /* how long a turn takes in which something is written; 0: no time */
    uint64_t snapshot_every; /* records */
    uint64_t chunk_bytes;    /* reserved at a time */
    bool follows;            /* every state of the service, not only those before a death */
    bool fat;                /* some values are large, and the output of a connection is limited */
    uint32_t jobs, nodes;
    uint32_t observers; /* per job */
    uint64_t think_ns;  /* of an observer between two operations */
};

void sim_plan_draw(struct sim *sim);
const char *sim_fault_name(enum sim_fault fault);

/* The faults of the first phase, and the end of all of them. */
void sim_chaos_start(struct sim *sim);
void sim_chaos_connection(struct sim *sim, struct sim_conn *conn); /* a new one */
void sim_chaos_end(struct sim *sim);

#endif
