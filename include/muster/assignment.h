/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_ASSIGNMENT_H
#define MUSTER_ASSIGNMENT_H

/* Which members run the function, and as which rank.
 *
 * Without an assignment, every member of a generation runs the function, and ranks follow the order
 * of the indices. The job's max_size and size_multiple (client.h) limit how many run, at no cost.
 * With an assignment, the members first meet in a generation of its own. One of them works the
 * assignment out for all. The members with a rank seal the generation that runs; the others wait as
 * spares. So all ranks see the same result, whatever a callback returns. */

#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_NUMBER_NONE UINT32_MAX

/* One place of the job, as the assignment sees it. Ascending by index. */
struct muster_place {
    uint32_t index;
    bool alive; /* a member now; a lost place keeps its last values */
    uint32_t
        number; /* the rank after the steps so far; NUMBER_NONE: takes no part, or not alive. Before
                   the first step: the previous rank; places without one come last, by index */
    uint32_t previous; /* the rank of the last attempt, below 2^20; NUMBER_NONE: none */
    uint32_t node;     /* the agent that started it; NUMBER_NONE: none */
    const char *host;  /* NULL: "" */
    const char *label; /* the `label` of its options; NULL: "" */
};

/* What a step does. A member that it leaves out waits as a spare, and may get a rank the next time.
 */
enum muster_assignment_kind {
    MUSTER_ASSIGN_SHIFT = 1,     /* keeps the order, closes the gaps */
    MUSTER_ASSIGN_FILL_GAPS = 2, /* members keep their numbers where possible; the last ones move
                                    into the gaps, newcomers take the numbers that are left */
    MUSTER_ASSIGN_GROUP = 3,     /* leaves out groups by `key` whose size is not `count` */
    MUSTER_ASSIGN_MAX = 4,       /* at most `count` run */
    MUSTER_ASSIGN_MULTIPLE = 5,  /* the largest multiple of `count` runs */
    MUSTER_ASSIGN_FILTER = 6,    /* `filter` returns how many run */
    MUSTER_ASSIGN_TREE = 7,      /* `layers`; only FILTER may follow */
    MUSTER_ASSIGN_CUSTOM = 8     /* `assign` sets the numbers */
};

/* Writes the key of a place into `key`, at most `room` (256) bytes with the NUL. The place may be
 * one that is no longer alive. NULL instead of a callback means the label. */
typedef void muster_assignment_key(void *arg, const struct muster_place *place, char *key,
                                   size_t room);
/* Returns how many of `size` run; at most `size`. */
typedef uint32_t muster_assignment_filter(void *arg, uint32_t size);
/* Sets `number` of every place: a permutation of 0 to n - 1 over some of the places that are alive,
 * NUMBER_NONE for all others. Anything else ends the run with EINVAL. */
typedef muster_status muster_assignment_assign(void *arg, struct muster_place *places,
                                               size_t count);

/* What a group of a layer does when it has lost a rank. Layers are those of the tree, from the root
 * to the groups that hold ranks. */
enum muster_layer_flags {
    MUSTER_LAYER_RESERVE = 1, /* a spare of the group replaces a rank of the group */
    MUSTER_LAYER_BACKFILL = 2 /* the group's last ranks move into its gaps */
};
/* One layer of the tree. */
struct muster_assignment_layer {
    uint32_t min; /* with fewer members alive the whole group is left out; 0: 1 */
    uint32_t max; /* ranks that run in the group; 0: no limit */
    unsigned flags;
    muster_assignment_key *key; /* the group in this layer; all members share the root */
    void *arg;
};

/* One step of an assignment: its kind, and the fields that this kind names. */
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

/* An assignment: its steps, in the order in which they apply. SHIFT, FILL_GAPS, CUSTOM and TREE
 * assign numbers. Before the first of them there are no numbers, and GROUP leaves gaps. MAX,
 * MULTIPLE and FILTER need numbers without gaps, and so does the end of the list. A TREE is the
 * first step, and only FILTER may follow it. All ranks must pass the same steps; the callbacks run
 * on any one of them. If no member is left to run, the run ends with ETOOFEW. */
struct muster_assignment {
    size_t size;                               /* sizeof */
    const struct muster_assignment_step *list; /* copied, with the layers */
    size_t count;
    const char
        *label; /* of this process, for its key; MUSTER_ASSIGNMENT_LABEL, ""; at most 63 bytes */
};

#define MUSTER_ASSIGNMENT_INIT                                                                     \
    {                                                                                              \
        sizeof(struct muster_assignment), NULL, 0, NULL                                            \
    }

/* A ready-made key: the host. Thread: any. Since 0.1. */
MUSTER_API void muster_assignment_key_host(void *arg, const struct muster_place *place, char *key,
                                           size_t room);
/* A ready-made key: the node. Thread: any. Since 0.1. */
MUSTER_API void muster_assignment_key_node(void *arg, const struct muster_place *place, char *key,
                                           size_t room);
/* A ready-made key: the number divided by *(const uint32_t *)arg, or the previous rank where there
 * is no number. Thread: any. Since 0.1. */
MUSTER_API void muster_assignment_key_block(void *arg, const struct muster_place *place, char *key,
                                            size_t room);
/* A ready-made key: one group of all members. Thread: any. Since 0.1. */
MUSTER_API void muster_assignment_key_all(void *arg, const struct muster_place *place, char *key,
                                          size_t room);

/* A key that each process has made itself, once, rather than a callback for every place: the first
 * *(const uint32_t *)arg parts of the label, which '/' separates: of "pod3/rack7/host" these are
 * "pod3", "pod3/rack7" and all of it, a layer each. 0, NULL, or more than there are: the whole
 * label. For programs whose callbacks are slow, such as those of another language. Thread: any.
 * Since 0.1. */
MUSTER_API void muster_assignment_key_label(void *arg, const struct muster_place *place, char *key,
                                            size_t room);

/* Works an assignment out without a job, to test one's own steps. Sets `number` of the places;
 * changes nothing on failure. Errors: EINVAL with its text, ENOMEM, or the status of `assign`.
 * Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_assignment_try(const struct muster_assignment *assignment, struct muster_place *places,
                      size_t count, struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
