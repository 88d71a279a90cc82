/* SPDX-License-Identifier: Apache-2.0 */
#include "restart/vote.h"

#include <string.h>

#include "proto/vector.h"

#define NO_STEP INT64_MIN
#define PINGS_MAX ((UINT64_C(1) << 42) - 1)
#define INDEX_BITS 20u
#define INDEX_MAX ((UINT64_C(1) << INDEX_BITS) - 1)
#define CHECKS_BITS 16u
#define CHECKS_MAX ((UINT64_C(1) << CHECKS_BITS) - 1)

static int64_t positive(uint64_t number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static uint64_t count(int64_t number)
{
    return number < 0 ? 0 : (uint64_t)number;
}

static void begin_attempt(struct mst_vote *vote)
{
    *vote = (struct mst_vote){.iteration = vote->iteration,
                              .base = vote->base,
                              .best = vote->best,
                              .stalled = vote->stalled,
                              .from = vote->from,
                              .first = NO_STEP,
                              .step = NO_STEP};
}

void mst_vote_begin(struct mst_vote *vote, uint64_t faults)
{
    *vote = (struct mst_vote){.base = faults, .best = NO_STEP, .from = NO_STEP};
    begin_attempt(vote);
}

/* A rank's height: its pings, and of equally many its other calls of muster. Numbers that are too
 * large for the field are equally high, and of equal ones none is the lowest. */
static void write_height(const struct mst_vote *vote, uint32_t index, unsigned char *out)
{
    uint64_t checks = vote->checks < CHECKS_MAX ? vote->checks : CHECKS_MAX;
    uint64_t height =
        vote->pings < PINGS_MAX >> CHECKS_BITS ? vote->pings << CHECKS_BITS | checks : PINGS_MAX;

    if (vote->waited) {
        mst_vector_put(out, MST_VOTE_TOP, (int64_t)PINGS_MAX + 2);
        return;
    }
    mst_vector_put(out, MST_VOTE_LAST_LOW, (int64_t)((PINGS_MAX - height) << INDEX_BITS | index));
    mst_vector_put(out, MST_VOTE_FIRST_LOW,
                   (int64_t)((PINGS_MAX - height) << INDEX_BITS | (INDEX_MAX - index)));
    mst_vector_put(out, MST_VOTE_TOP, (int64_t)height + 1);
}

/* An old checkpoint, say, was all that was left: then what was reached before is no measure. */
static int64_t went_back(const struct mst_vote *vote)
{
    if (vote->first == NO_STEP || vote->first >= vote->from) {
        return 0;
    }
    return vote->step > vote->first ? 2 : 1;
}

void mst_vote_write(const struct mst_vote *vote, uint32_t index, uint64_t faults,
                    unsigned char out[MST_VOTE_SIZE])
{
    uint64_t pings = vote->pings < PINGS_MAX ? vote->pings : PINGS_MAX;

    memset(out, 0, MST_VOTE_SIZE);
    mst_vector_put(out, MST_VOTE_ITERATION, positive(vote->iteration));
    mst_vector_put(out, MST_VOTE_BASE, positive(vote->base + 1));
    mst_vector_put(out, MST_VOTE_FAULTS, positive(faults));
    mst_vector_put(out, MST_VOTE_ENTERED, vote->entered);
    mst_vector_put(out, MST_VOTE_BEFORE, vote->best);
    mst_vector_put(out, MST_VOTE_BEST, vote->step);
    mst_vector_put(out, MST_VOTE_MOVED, vote->moved);
    mst_vector_put(out, MST_VOTE_STALLED, positive(vote->stalled));
    mst_vector_put(out, MST_VOTE_END, vote->end);
    mst_vector_put(out, MST_VOTE_STATUS, -(int64_t)vote->end_status);
    mst_vector_put(out, MST_VOTE_BACK, went_back(vote));
    if (vote->entered && index <= INDEX_MAX) {
        mst_vector_put(out, MST_VOTE_HIGHEST, (int64_t)pings + 1);
        write_height(vote, index, out);
        if (!vote->waited) {
            mst_vector_put(out, MST_VOTE_LOWEST,
                           (int64_t)((PINGS_MAX - pings) << INDEX_BITS | index));
        }
    }
}

/* Whether the attempt that ended came further than those since the job last went back; if it went
 * back itself, whether it came further than it began. Not simply the latter: a job that fails again
 * and again between two checkpoints does that each time, and runs in circles. */
static bool progressed(struct mst_slice value)
{
    int64_t before = mst_vector_at(value, MST_VOTE_BEFORE);
    int64_t last = mst_vector_at(value, MST_VOTE_BEST);
    int64_t back = mst_vector_at(value, MST_VOTE_BACK);

    if (back > 0) {
        return back > 1;
    }
    if (last != NO_STEP || before != NO_STEP) {
        return last > before;
    }
    return mst_vector_at(value, MST_VOTE_MOVED) > 0;
}

static uint64_t stalled(struct mst_slice value, uint64_t faults, bool asked)
{
    uint64_t before = count(mst_vector_at(value, MST_VOTE_STALLED));

    if (mst_vector_at(value, MST_VOTE_ENTERED) <= 0) {
        return before;
    }
    if (progressed(value)) {
        return 0;
    }
    return faults > count(mst_vector_at(value, MST_VOTE_FAULTS)) && !asked ? before + 1 : before;
}

/* A rank of an older version votes by LOWEST and HIGHEST only. One that stands lower in that is the
 * lowest, and not known to the others as such. */
static void find_lowest(struct mst_slice value, struct mst_vote_result *result)
{
    uint64_t last = count(mst_vector_at(value, MST_VOTE_LAST_LOW));
    uint64_t first = count(mst_vector_at(value, MST_VOTE_FIRST_LOW));
    uint64_t height = PINGS_MAX - (last >> INDEX_BITS);
    uint64_t older = PINGS_MAX - (count(mst_vector_at(value, MST_VOTE_LOWEST)) >> INDEX_BITS);
    uint64_t top = count(mst_vector_at(value, MST_VOTE_TOP));

    result->lowest = (uint32_t)(last & INDEX_MAX);
    result->has_lowest = last != 0 && result->entered &&
                         result->lowest == INDEX_MAX - (first & INDEX_MAX) && top > height + 1 &&
                         older >= height >> CHECKS_BITS;
}

static void take_steps(struct mst_vote *vote, struct mst_slice value)
{
    int64_t last = mst_vector_at(value, MST_VOTE_BEST);
    bool back = mst_vector_at(value, MST_VOTE_BACK) > 0;

    vote->best = mst_vector_at(value, MST_VOTE_BEFORE);
    if (back || last > vote->best) {
        vote->best = last;
    }
    if (vote->first != NO_STEP && (back || vote->from == NO_STEP || progressed(value))) {
        vote->from = vote->first;
    }
}

struct mst_vote_result mst_vote_take(struct mst_vote *vote, struct mst_slice value, uint64_t faults,
                                     bool asked)
{
    struct mst_vote_result result = {.known = value.size >= 8};

    if (!result.known) {
        begin_attempt(vote);
        return result;
    }
    vote->iteration = count(mst_vector_at(value, MST_VOTE_ITERATION));
    vote->stalled = stalled(value, faults, asked);
    take_steps(vote, value);
    if (mst_vector_at(value, MST_VOTE_BASE) > 0) {
        vote->base = count(mst_vector_at(value, MST_VOTE_BASE)) - 1;
    }
    begin_attempt(vote);

    result.entered = mst_vector_at(value, MST_VOTE_ENTERED) > 0;
    result.attempts = faults > vote->base ? faults - vote->base : 0;
    if (mst_vector_at(value, MST_VOTE_END) > 0) {
        int64_t status = -mst_vector_at(value, MST_VOTE_STATUS);

        result.end = mst_vector_at(value, MST_VOTE_END) == MST_END_ASSIGNMENT ? MST_END_ASSIGNMENT
                                                                              : MST_END_ABORTED;
        result.end_status = status < 0 && status >= INT32_MIN ? (int32_t)status : 0;
    }
    find_lowest(value, &result);
    return result;
}
