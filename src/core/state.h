/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CORE_STATE_H
#define MST_CORE_STATE_H

/* The core itself: what belongs to no job. */

#include "core/counts.h"
#include "core/part.h"

struct mst_core {
    struct mst_mem mem;
    struct mst_core_config config;
    uint64_t now_ns;
    uint64_t pulse_ns; /* the wake-up asked for, to measure how late it comes; MST_NEVER: none */
    struct mst_alarms alarms;
    struct mst_tree links;     /* connections, by id */
    struct mst_tree sessions;  /* by token */
    struct mst_tree fences;    /* tokens of incarnations that were given up */
    struct mst_tree jobs;      /* by name */
    struct mst_list job_list;  /* the same, in the order they came */
    struct mst_tree pasts;     /* of jobs that ended, by name */
    struct mst_list past_list; /* the same, in the order they ended */
    uint64_t job_serial;
    struct mst_list dirty;   /* jobs to settle before the input is over */
    struct mst_list effects; /* struct mst_todo, in the order they were decided */
    struct mst_counts counts;

    /* What mst_core_next hands out, one at a time. */
    struct mst_waiter *current;
    struct mst_effect effect;
    struct mst_reply reply;
    struct mst_item *items;    /* MST_PAGE_ITEMS + 2 of them */
    struct mst_staged *staged; /* batch_max of them: a batch being prepared */
};

/* Something to do: embedded in a waiter (a reply) or in a link (a hangup). */
struct mst_todo {
    struct mst_list link;
    enum mst_effect_type type;
};

#endif
