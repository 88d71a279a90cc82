/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_STATE_H
#define MST_SERVICE_CORE_STATE_H

/* The core itself: what belongs to no job. */

#include "service/core/counts.h"
#include "service/core/part.h"

enum { MST_WAITER_SPARES = 64 };

struct mst_core {
    struct mst_mem mem;
    struct mst_core_config config;
    struct mst_table_secret secret; /* the one it was born with */
    uint64_t now_ns;
    uint64_t kept_ns; /* of the last input that a journal keeps: the next service continues there */
    uint64_t pulse_ns; /* the requested wake-up, to measure its delay; NEVER: none */
    struct mst_alarms alarms;
    struct mst_tree links;       /* an index: connections, by id */
    struct mst_table link_table; /* the same, to find one */
    struct mst_tree sessions;    /* an index: by token */
    struct mst_tree fences;      /* an index: tokens of lost incarnations */
    struct mst_names jobs;
    struct mst_names pasts; /* of jobs that ended, in the order they ended */
    uint64_t job_serial;
    enum mst_weight weight;  /* of the inputs since the last mst_core_weigh */
    bool refused;            /* the last request, for lack of room */
    bool wordless;           /* or only its text was */
    const char *held;        /* why nothing new can be stored; NULL: it can */
    uint64_t held_ns;        /* since when */
    struct mst_list dirty;   /* jobs to settle before the input is over */
    struct mst_list effects; /* struct mst_todo, in the order they were decided */
    struct mst_waiter *spares[MST_WAITER_SPARES]; /* to use again, see waiter.h */
    uint32_t spare_count;
    struct mst_counts counts;

    /* What mst_core_next hands out, one at a time. */
    struct mst_waiter *current;
    struct mst_effect effect;
    struct mst_reply reply;
    struct mst_item items[MST_PAGE_ITEMS + 1];              /* and a RESET */
    uint32_t missing[(MST_PAGE_ITEMS + 1) * MST_NAMES_MAX]; /* of each item */
    struct mst_staged *staged; /* batch_max of them: a batch being prepared */
    const struct mst_key *sorted[MST_PAGE_ITEMS + 1]; /* see scan.h */
    uint64_t walked;                                  /* records that were looked at for replies */
    uint64_t pinned_bytes;                            /* values and rounds, see pin.h */
    uint64_t waiting_bytes;                           /* of all links */
};

/* An effect to come: embedded in a waiter (a reply) or in a link (a hangup). */
struct mst_todo {
    struct mst_list link;
    enum mst_effect_type type;
};

bool mst_core_config_makes_sense(const struct mst_core_config *config);

/* Around every input. */
void mst_core_begin_input(struct mst_core *core, uint64_t now_ns);
void mst_core_end_input(struct mst_core *core);

/* The core was woken `late_ns` late: it slept itself, so no member is blamed for its silence.
 * Leases have at least their whole length from now, deadlines move. */
void mst_core_forgive(struct mst_core *core, uint64_t late_ns);

/* The weight of the current input for a journal. */
static inline void mst_core_raise(struct mst_core *core, enum mst_weight weight)
{
    if (core->weight < weight) {
        core->weight = weight;
    }
    core->kept_ns = core->now_ns;
}

static inline uint64_t mst_core_since_ms(const struct mst_core *core, uint64_t then_ns)
{
    return (core->now_ns - then_ns) / NS_PER_MS;
}

#endif
