/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_VOTE_H
#define MST_RESTART_VOTE_H

/* What the ranks agree on at a seal. Each contributes a vector of little-endian int64, the service
 * keeps the largest of each element, and all ranks with a seat get the same vector; a newcomer as
 * well, with its JOIN. So the count of attempts and the rules by which a run is given up are the
 * same on all ranks, without a rank that leads.
 *
 * The vectors of one seal must be equally long, so there is room to grow: an element that a version
 * does not know it contributes as 0, and a vector that is shorter is read as if zeros followed. So
 * in elements to come 0 must mean nothing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum mst_vote_element {
    MST_VOTE_ITERATION = 0, /* of the next attempt */
    MST_VOTE_BASE = 1,      /* 1 + view.faults of the generation in which the run began */
    MST_VOTE_FAULTS = 2,    /* view.faults of the generation that ends */
    MST_VOTE_ENTERED = 3,   /* 1: there was an attempt in it */
    MST_VOTE_BEFORE = 4,    /* `best` before this attempt; INT64_MIN: none */
    MST_VOTE_BEST = 5,  /* the largest step reported in it; older versions: or before, if larger */
    MST_VOTE_MOVED = 6, /* 1: a rank pinged, or its attempt lasted for soft_timeout */
    MST_VOTE_STALLED = 7,  /* attempts in a row without progress, before this one */
    MST_VOTE_END = 8,      /* 1: a rank asked that all end. 2: so does a failed assignment */
    MST_VOTE_STATUS = 9,   /* of the failed assignment, negated */
    MST_VOTE_LOWEST = 10,  /* for older versions, as LAST_LOW by pings alone */
    MST_VOTE_HIGHEST = 11, /* the same; of all that were in the attempt: 1 + its pings */
    /* Of a rank that was in the attempt and did not wait in muster as it was interrupted: how far
     * below 2^42 - 1 it stands, times 2^20, and its index; and the same with 2^20 - 1 less its
     * index: of the lowest the last one comes out, and the first. */
    MST_VOTE_LAST_LOW = 12,
    MST_VOTE_FIRST_LOW = 13,
    MST_VOTE_TOP = 14,  /* 1 + where it stands; 2^42 + 1 if it did wait */
    MST_VOTE_BACK = 15, /* the attempt began further back than the last one that made progress. 1:
                           and stayed there; 2: and advanced */
    MST_VOTE_ELEMENTS = 16,
    MST_VOTE_LENGTH = 16,
    MST_VOTE_SIZE = 8 * MST_VOTE_LENGTH
};

enum mst_vote_end { MST_END_NONE = 0, MST_END_ABORTED = 1, MST_END_ASSIGNMENT = 2 };

/* What one rank knows of the run: the first part is the same on all ranks of a generation. */
struct mst_vote {
    uint64_t iteration; /* of the next attempt */
    uint64_t base;      /* view.faults when the run began */
    int64_t best;     /* the largest step reported since the job last went back; INT64_MIN: none */
    uint64_t stalled; /* attempts in a row without progress */

    /* Of this rank since the last seal. */
    bool entered, moved;
    bool waited; /* in muster, as it was interrupted: the others did not wait for it */
    uint64_t pings, checks;
    int64_t first, step; /* the first and the largest reported; INT64_MIN: none */
    enum mst_vote_end end;
    int32_t end_status; /* of END_ASSIGNMENT */

    /* Of this rank: where the last attempt that made progress, or went back, began; INT64_MIN: it
     * knows of none. */
    int64_t from;
};

/* What came of it. */
struct mst_vote_result {
    bool known;        /* there was a vote; else all the rest is as it was */
    bool entered;      /* an attempt ended with the generation */
    uint64_t attempts; /* of this run that ended by a fault */
    enum mst_vote_end end;
    int32_t end_status;
    bool has_lowest; /* one alone stood lowest, and others higher */
    uint32_t lowest; /* its index */
};

void mst_vote_begin(struct mst_vote *vote, uint64_t faults);

/* The vector of this rank, of the generation that had `faults` when it was sealed. */
void mst_vote_write(const struct mst_vote *vote, uint32_t index, uint64_t faults,
                    unsigned char out[MST_VOTE_SIZE]);

/* Takes over what all agreed on; `faults` is that of the new generation, and `asked` whether the
 * old one ended because a rank asked for it: that is no sign of running in circles. */
struct mst_vote_result mst_vote_take(struct mst_vote *vote, struct mst_slice value, uint64_t faults,
                                     bool asked);

#endif
