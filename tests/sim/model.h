/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

/* What an observer who sees everything knows: what was asked, what was answered, what was decided.
 * It repeats none of the service's code: it only keeps what the properties need. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/reply.h"
#include "proto/request.h"

struct sim;
struct sim_proc;

#define MODEL_NAMES 10u /* rounds of fn; behind them the seal and the completion */
#define MODEL_SEAL 10u
#define MODEL_COMPLETE 11u
#define MODEL_ROUNDS 13u
#define MODEL_PLACES 8u
#define MODEL_DATA_MAX 128u /* a vote at the seal is the largest */
#define MODEL_GATHER_MAX 40u

/* What the service decided about the session of one process. */
struct model_member {
    bool asked; /* an OPEN of it has reached the service */
    uint32_t index;
    uint64_t incarnation; /* 0: none given */
    bool claims;          /* it waits for the loss of who holds its index */
    bool ready;
    uint64_t join_id, join_conn;
    uint64_t cut_ns;    /* the service's clock: until then it is cut off by a request; 0: it is not,
                           or has been back since */
    uint64_t back_conn; /* where it last came back: what it said on others is not heard; 0: any */
    uint64_t ready_ns;
    uint64_t ready_number; /* in which order they became so */
    bool lost, left, refused;
    enum mst_cause cause;
    uint64_t gone_ns; /* the world's time of the loss */
    /* The service's clock: its last OPEN or RENEW, and the last one that was taken. */
    uint64_t asked_ns, heard_ns;
    uint64_t view; /* the last generation it was sealed into; 0: none */
    uint32_t rank;
    uint64_t entered;                    /* the last generation whose fn it entered */
    uint64_t attention_in, attention_ns; /* the last generation it was called out of, and when */
    uint32_t agent; /* 1 + the index of the agent it named when it was admitted; 0: none */
};

struct model_place {
    uint64_t incarnation;      /* the newest one given */
    uint64_t lost_incarnation; /* the newest one lost or left */
    bool last;                 /* its agent has said that none follows */
};

/* Why a generation may be interrupted. */
enum model_reason {
    MODEL_FAULT = 1,  /* somebody reported one */
    MODEL_LOSS = 2,   /* one of its members is gone */
    MODEL_JOINER = 4, /* a joiner was ready while grow = check */
    MODEL_TABLE = 16, /* its members met to work out who runs */
    MODEL_SELF = 8    /* a rank had stopped itself, so it went to the seal */
};

struct model_view {
    uint64_t generation;
    uint32_t size;
    uint32_t index[MODEL_PLACES];
    uint64_t incarnation[MODEL_PLACES];
    struct sim_proc *proc[MODEL_PLACES];
    bool gone[MODEL_PLACES]; /* lost or left since */
    uint64_t sealed_ns;
    uint64_t called_ns; /* when its ranks were first called out of fn; 0: not yet */
    unsigned reasons;   /* a mask, of what happened since it was sealed */
    unsigned others;    /* the same, without what the looper of the job caused */
    bool ordered;
    uint32_t there; /* who stood at its seal or was ready */
    bool entered;   /* somebody was told the next two with it */
    uint64_t iteration, record;
    int stopped; /* enum mst_restart_why by which all end in it; 0: not so */
};

struct model_part {
    bool expected, arrived, gone;
    uint32_t size;
    unsigned char data[MODEL_DATA_MAX];
};

struct model_round {
    uint64_t generation;
    uint64_t number;
    uint32_t name;
    bool closed;
    enum mst_on_loss on_loss;
    enum mst_reduce reduce;
    uint32_t root;
    uint64_t deadline_ms;
    uint64_t open_ns, late_ns;            /* the service's clock, and its lateness so far */
    uint64_t moved_ns, moved_late_ns;     /* the same at the last arrival or loss */
    struct model_part part[MODEL_PLACES]; /* by index */
    bool ok;                              /* closed well */
    uint32_t seats[MODEL_PLACES];         /* the indices of the ranks, in their order */
    uint32_t order[MODEL_PLACES];         /* of a seal that brought one */
    uint32_t order_count;
    bool told; /* a result was seen; it is in `result` */
    uint64_t result;
};

/* An agreement on a step to save; -1: not yet. */
struct model_agreement {
    uint64_t generation, k;
    int64_t agreed, saved;
};

struct model_slot {
    uint32_t node;
    bool spawning, done;
    uint32_t loops; /* 1 + how the processes of this place die, 0: they do not */
    uint64_t late_ns;
    uint64_t spawned_ns, backoff_ns;
};

/* ---- keys -------------------------------------------------------------------------------------
 */

/* Counters are added to with distinct powers of four: the sum then tells for each add whether it
 * was applied never, once or more often. */
#define MODEL_ADDS 31u
#define MODEL_COUNTERS 12u
#define MODEL_LOGS 6u
#define MODEL_TOKENS 24u
#define MODEL_REGISTERS 4u
#define MODEL_VERSIONS 256u
#define MODEL_CELLS 2u
#define MODEL_FLAGS 24u

enum model_fate { MODEL_UNISSUED = 0, MODEL_UNKNOWN, MODEL_REFUSED, MODEL_ACKED };

struct model_counter {
    uint32_t used;
    enum model_fate fate[MODEL_ADDS];
    bool read; /* by the audit; the same below */
};

struct model_log {
    uint32_t used;
    enum model_fate fate[MODEL_TOKENS];
    bool read;
};

struct model_version {
    uint64_t revision, value;
};

struct model_register {
    uint64_t acked; /* the largest revision that a writer was told */
    struct model_version versions[MODEL_VERSIONS];
    uint32_t version_count;
    bool read;
};

/* Changed by compare-and-set only: who won against which revision. */
struct model_cell {
    uint64_t acked;
    uint64_t won[MODEL_VERSIONS];
    uint32_t won_count;
};

struct model_flag { /* insert only */
    bool tried, read;
    uint32_t winners;
    uint64_t value; /* of the winner */
    uint64_t revision;
};

/* When a key got its revision, by the service's clock: after `after_ns`, at `until_ns` at the
 * latest, as all that was told of it says together. */
#define MODEL_AGES 512u /* the entry of a revision is used for a later one too */

struct model_age {
    uint64_t revision;
    uint64_t after_ns, until_ns;
    uint64_t told_ms; /* the largest age told, that no later one may be below */
};

struct model_keys {
    struct model_age ages[MODEL_AGES];
    struct model_counter counters[MODEL_COUNTERS];
    struct model_log logs[MODEL_LOGS];
    struct model_register registers[MODEL_REGISTERS];
    struct model_register pair; /* two keys that are only written together */
    struct model_cell cells[MODEL_CELLS];
    struct model_flag flags[MODEL_FLAGS];
    uint32_t counter, log, flag; /* the ones in use */
};

/* ---- the job ----------------------------------------------------------------------------------
 */

/* A node that is being lost: told, and not all of its members have followed. */
struct model_losing {
    bool now, agent_left; /* the agent's own loss is still to be told */
    uint32_t node, ranks_left;
};

struct model_job {
    char name[8];
    uint64_t seed;
    uint32_t size, min_size, max_size, size_multiple;
    uint32_t places_used; /* processes that are started: size and the spares */
    bool by_table, tells_steps, pings;
    uint64_t soft_ns, hard_ns; /* 0: nobody looks whether a rank makes progress */
    bool from_start;
    uint64_t ready_count; /* how often one became ready */
    uint64_t completion_timeout_ns, settle_ns;
    uint32_t iterations_max, faults_max;
    int32_t stalled_max;
    uint64_t join_wait_ns, replace_ms;
    enum mst_grow grow;
    uint64_t barrier_timeout_ns, round_deadline_ns, step_ns;
    uint32_t steps, collective;
    bool until_calm, votes, greets, any_index;
    struct model_slot slots[MODEL_PLACES];
    uint32_t left;
    bool finished, over;
    bool completed; /* all ranks of a generation were done */
    bool audited;

    struct model_place places[MODEL_PLACES];
    struct model_view view, before; /* the newest generation and the one before */
    uint64_t ready_since_ns;        /* the service's clock: when the first of the ready became so */
    uint64_t ended_ns;      /* the world's clock: when the service forgot who was given up in it */
    uint64_t told_revision; /* by its watches */
    uint64_t told_ns;       /* the service's clock, when it was told */
    uint64_t unready_ns;    /* the world's clock: when one of the ready was lost */
    uint64_t seals;
    uint64_t looper_costs, looper_seals; /* interruptions it may have caused, and has */
    uint64_t seal_open_ns;               /* the service's clock */
    struct model_round *rounds;          /* of all generations, in the order they were opened */
    uint32_t round_count, round_room;
    struct model_agreement *agreements;
    uint32_t agreement_count;
    struct model_keys keys;
    struct model_losing losing;
};

/* The indices that take part in a round that names them, decided by a number all ranks know. */
uint32_t sim_model_participants(const struct model_job *job, uint64_t chance, uint32_t *out);
bool sim_model_among(const uint32_t *participants, uint32_t count, uint32_t index);

/* What the rank with this index contributes; at most MODEL_DATA_MAX bytes. */
uint32_t sim_model_contribution(const struct model_job *job, const struct mst_round_request *round,
                                uint32_t index, bool vote, unsigned char *out);
bool sim_model_may_leave(const struct model_job *job);
uint32_t sim_model_fit(const struct model_job *job, uint32_t count); /* how many can be seated */

#endif
