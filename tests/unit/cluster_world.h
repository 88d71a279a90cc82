/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLUSTER_WORLD_H
#define CLUSTER_WORLD_H

/* Coordinators and workers of src/tasks in one process: connections that delay and break, a
 * service whose news come late, processes that freeze and die. What a function does is decided
 * here; what must hold whenever one begins is checked here. Same seed, same world. */

#include "base/prng.h"
#include "failing_mem.h"
#include "tasks/coordinator.h"
#include "tasks/worker.h"

enum {
    WORLD_PLACES = 4,
    WORLD_SLOTS = 3,
    WORLD_COORDINATORS = 3,
    WORLD_LINKS = 64,
    WORLD_CLOSURES = 100,
    WORLD_VALUES = 4,
    WORLD_NEWS = 512
};

/* The functions, by their place in HELLO's list. */
enum world_function {
    WORLD_WORK = 0,
    WORLD_ALONE = 1,
    WORLD_ONCE = 2,
    WORLD_IDEMPOTENT = 3,
    WORLD_FAIL = 4,
    WORLD_RETRY = 5,  /* works at its second attempt */
    WORLD_POISON = 6, /* ends its worker */
    WORLD_STATE = 7,  /* reports the state server "ps" */
    WORLD_LONG = 8,   /* until it is asked to stop */
    WORLD_DEAF = 9,   /* until it is killed */
    WORLD_BUILD = 10,
    WORLD_BUILD_BAD = 11,
    WORLD_FUNCTIONS = 12
};

struct world_busy {
    bool there, asked, killed;
    uint64_t term, value; /* value 0: a run */
    struct mst_attempt attempt;
    uint32_t function;
    uint64_t end_ns;
};

struct world_worker {
    bool forgets;               /* results, while its coordinator is away */
    struct mst_worker *machine; /* NULL: no process */
    uint64_t incarnation;
    bool frozen, fenced, orphan; /* orphan: somebody else holds its sockets open */
    uint64_t thaw_ns, fenced_ns, lease_ns, restart_ns; /* when that happens; UINT64_MAX: never */
    uint64_t connection, connect_ns;                   /* when its connecting is answered */
    uint32_t key_seen;
    uint64_t key_ns, term;
    struct world_busy busy[WORLD_SLOTS];
    uint64_t values[WORLD_VALUES * WORLD_COORDINATORS]; /* built and not dropped */
    bool ended;
};

struct world_closure {
    uint64_t number, group;
    uint32_t function;
    bool cancelled; /* by the user */
    bool settled;
    enum mst_closure_state state;
    enum mst_origin origin;
    uint32_t starts, deaths;
    uint64_t needs[1];
    uint32_t need_count;
};

struct world_news {
    uint64_t due_ns, incarnation;
    uint32_t index;
    enum mst_worker_state state;
};

struct world_coordinator {
    struct mst_cluster *machine; /* NULL: not yet, or dead */
    uint64_t term;
    bool frozen, superseded;
    uint64_t superseded_ns;
    struct world_closure closures[WORLD_CLOSURES];
    uint32_t closure_count;
    uint64_t values[WORLD_VALUES];
    uint32_t value_count;
    struct world_news news[WORLD_NEWS];
    uint32_t news_first, news_count;
    uint64_t series_broken; /* failures that were delivered */
};

struct world_link {
    uint64_t id; /* 0: free */
    uint32_t place, coordinator;
    uint64_t incarnation;
    struct world_message *first[2], *last[2]; /* to the worker, to the coordinator */
    bool closed[2];                           /* by the end that sends it */
    bool deaf[2];                             /* the receiving end has hung up, or was told */
    uint64_t gone_ns[2];                      /* when the receiving end is told of the end */
};

enum { TO_WORKER = 0, TO_COORDINATOR = 1 };

struct world {
    struct failing_mem mem;
    struct mst_prng prng;
    uint64_t seed, now_ns, connections, incarnations;
    uint32_t delay_us; /* the longest one of a message */
    struct mst_cluster_config config;
    struct world_worker workers[WORLD_PLACES];
    struct world_coordinator coordinators[WORLD_COORDINATORS];
    uint32_t current; /* whose key it is */
    bool key_there;
    uint64_t keys[2 * WORLD_COORDINATORS + 1]; /* terms, in order; 0: gone */
    uint32_t key_count;
    struct world_link links[WORLD_LINKS];
    unsigned starts, deaths, delivered;
    bool tells; /* its story */
};

extern const struct mst_function world_functions[WORLD_FUNCTIONS];

_Noreturn void world_fail(const struct world *world, const char *what, uint64_t number);
uint64_t world_below(struct world *world, uint64_t bound);

void world_init(struct world *world, uint64_t seed);
void world_fini(struct world *world);

/* A coordinator gets the key; the one before it has lost it. */
void world_coordinator_new(struct world *world, bool old_one_dies);
void world_worker_new(struct world *world, uint32_t place);
void world_worker_kill(struct world *world, uint32_t place);
void world_worker_freeze(struct world *world, uint32_t place, uint64_t for_ns);
void world_break(struct world *world, uint64_t connection);

/* Does what a machine wants done. */
void world_drain_worker(struct world *world, uint32_t place);
void world_drain_coordinator(struct world *world, uint32_t coordinator);

/* The next thing that is due happens, at most `most_ns` later. False: nothing is due by then, and
 * so much time has passed. */
bool world_step(struct world *world, uint64_t most_ns);

#endif
