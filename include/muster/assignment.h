/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_ASSIGNMENT_H
#define MUSTER_ASSIGNMENT_H

/* Who of the members runs the function, and as what rank.
 *
 * Without one, every member of a generation runs it, numbered in the order of the indices; max_size
 * and size_multiple of the job (client.h) limit how many, and cost nothing. With one, the members
 * first meet in a generation of its own, one of them works the assignment out for all, and those
 * that are given a rank seal the generation that runs; the others wait as spares. So whatever a
 * callback says, all ranks hear the same. */

#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_NUMBER_NONE UINT32_MAX

/* One place of the job, as the assignment sees it. Ascending by index. */
struct muster_place {
    uint32_t index;
    bool alive;        /* a member now; a place that is not alive keeps what was known of it */
    uint32_t number;   /* the rank in the steps so far; NUMBER_NONE: takes no part, or not alive.
                          Before the first step its previous rank; who has none comes after all
                          others, by index */
    uint32_t previous; /* the rank of the last attempt, below 2^20; NUMBER_NONE: it had none */
    uint32_t node;     /* the agent that started it; NUMBER_NONE: none */
    const char *host;  /* NULL: "" */
    const char *label; /* the `label` of its options; NULL: "" */
};

/* Who is left out by a step waits as a spare, and may be given a rank the next time. */
enum muster_assignment_kind {
    MUSTER_ASSIGN_SHIFT = 1,     /* the order stays, the numbers close up */
    MUSTER_ASSIGN_FILL_GAPS = 2, /* who can keep its number does; the last ones move into the gaps,
                                    and newcomers into what is left */
    MUSTER_ASSIGN_GROUP = 3,     /* groups by `key` with other than `count` members are left out */
    MUSTER_ASSIGN_MAX = 4,       /* at most `count` run */
    MUSTER_ASSIGN_MULTIPLE = 5,  /* the largest multiple of `count` runs */
    MUSTER_ASSIGN_FILTER = 6,    /* `filter` says how many run */
    MUSTER_ASSIGN_TREE = 7,      /* `layers`; instead of all the others but FILTER */
    MUSTER_ASSIGN_CUSTOM = 8     /* `assign` sets the numbers */
};

/* The key of a place, written into `key` and ended with NUL, `room` (256) bytes at most; it may be
 * asked for a place that is not alive any more. NULL stands for the label. */
typedef void muster_assignment_key(void *arg, const struct muster_place *place, char *key,
                                   size_t room);
/* How many of `size` run; not more than that. */
typedef uint32_t muster_assignment_filter(void *arg, uint32_t size);
/* Sets `number` of every place: a permutation of 0 to n - 1 over some that are alive, and
 * NUMBER_NONE for all others; anything else ends the run with EINVAL. */
typedef muster_status muster_assignment_assign(void *arg, struct muster_place *places,
                                               size_t count);

/* A layer of the tree, from the root to the groups that hold ranks. */
enum muster_layer_flags {
    MUSTER_LAYER_RESERVE = 1, /* a spare of it stands in for a rank of it */
    MUSTER_LAYER_BACKFILL = 2 /* the last ranks of it move into its gaps */
};
struct muster_assignment_layer {
    uint32_t min; /* with fewer alive the whole group is left out; 0: 1 */
    uint32_t max; /* ranks that run in it; 0: no limit */
    unsigned flags;
    muster_assignment_key *key; /* which group of this layer; all must share the root */
    void *arg;
};

struct muster_assignment_step {
    enum muster_assignment_kind kind;
    uint32_t count;
    muster_assignment_key *key;
    muster_assignment_filter *filter;
    muster_assignment_assign *assign;
    void *arg;
    const struct muster_assignment_layer *layers;
    size_t layer_count;
};

/* Steps in the order in which they are taken. SHIFT, FILL_GAPS, CUSTOM and TREE number; before the
 * first of them there are no numbers, and a GROUP leaves gaps. MAX, MULTIPLE and FILTER need
 * numbers without gaps, and so does the end of the list. A TREE is the first step, and only FILTER
 * follows it. All ranks must be given the same steps; the callbacks are called on one of them,
 * whichever. If nobody is left to run, the run ends with ETOOFEW. */
struct muster_assignment {
    size_t size;                               /* sizeof */
    const struct muster_assignment_step *list; /* copied, with the layers */
    size_t count;
    const char *label; /* of this process, for its key; MUSTER_ASSIGNMENT_LABEL, "";
                           at most 63 bytes */
};

#define MUSTER_ASSIGNMENT_INIT                                                                     \
    {                                                                                              \
        sizeof(struct muster_assignment), NULL, 0, NULL                                            \
    }

/* Keys ready to use: the host; the node; the number (of who has none the previous rank) divided by
 * *(const uint32_t *)arg; nothing, which is one group of all. Thread: any. Since 0.1. */
MUSTER_API void muster_assignment_key_host(void *arg, const struct muster_place *place, char *key,
                                           size_t room);
MUSTER_API void muster_assignment_key_node(void *arg, const struct muster_place *place, char *key,
                                           size_t room);
MUSTER_API void muster_assignment_key_block(void *arg, const struct muster_place *place, char *key,
                                            size_t room);
MUSTER_API void muster_assignment_key_all(void *arg, const struct muster_place *place, char *key,
                                          size_t room);

/* Works an assignment out without a job: for tests of one's own steps. Changes `number` of the
 * places, and nothing on failure. EINVAL with its text, ENOMEM, or what `assign` returned. Thread:
 * any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_assignment_try(const struct muster_assignment *assignment, struct muster_place *places,
                      size_t count, struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
