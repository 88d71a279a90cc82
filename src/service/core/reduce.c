/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/reduce.h"

#include <string.h>

#include "proto/vector.h"
#include "service/core/job.h"

enum { ELEMENT = MST_VECTOR_ELEMENT };

bool mst_reduce_accepts(enum mst_reduce reduce, struct mst_slice data)
{
    if (mst_vector_reduced_by(reduce)) {
        return data.size > 0 && data.size % ELEMENT == 0;
    }
    return reduce != MST_REDUCE_NONE || data.size == 0;
}

bool mst_reduce_keeps(enum mst_reduce reduce)
{
    return reduce == MST_REDUCE_GATHER || reduce == MST_REDUCE_SUM_DOUBLE;
}

/* Whether the first contribution is the value to begin with. */
static bool starts_with_first(enum mst_reduce reduce)
{
    return reduce == MST_REDUCE_EQUAL ||
           (mst_vector_reduced_by(reduce) && !mst_reduce_keeps(reduce));
}

bool mst_reduce_start(struct mst_core *core, struct mst_round *round, struct mst_slice data)
{
    if (round->reduce == MST_REDUCE_GATHER) {
        round->items = mst_mem_array(&core->mem, round->part_count + 1u, sizeof(*round->items));
        return round->items != NULL;
    }
    if (round->reduce == MST_REDUCE_BROADCAST) {
        return true;
    }
    round->data_size = data.size;
    if (round->reduce == MST_REDUCE_SUM) {
        round->carries = mst_mem_array(&core->mem, data.size / ELEMENT, sizeof(*round->carries));
        if (!round->carries) {
            return false;
        }
    }
    if (starts_with_first(round->reduce)) {
        round->value = mst_blob_new(&core->mem, data);
        return round->value != NULL;
    }
    return true;
}

/* ---- integers ---- */

static uint64_t load(const unsigned char *bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < ELEMENT; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return number;
}

static void store(unsigned char *bytes, uint64_t number)
{
    for (unsigned i = 0; i < ELEMENT; i++) {
        bytes[i] = (unsigned char)(number >> (8 * i));
    }
}

/* The sum modulo 2^64; `carry` remembers how often it went past an end. */
static int64_t wrap_add(int64_t a, int64_t b, int32_t *carry)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum)) {
        *carry += b > 0 ? 1 : -1;
    }
    return sum;
}

/* ---- doubles, as their bits ---- */

#define SIGN (UINT64_C(1) << 63)
#define INFINITE UINT64_C(0x7ff0000000000000)
#define NOT_A_NUMBER UINT64_C(0x7ff8000000000000)

static bool is_nan(uint64_t bits)
{
    return (bits & ~SIGN) > INFINITE;
}

/* Ascending with the numbers, -0 below +0. */
static uint64_t ordinal(uint64_t bits)
{
    return bits & SIGN ? ~bits : bits | SIGN;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    if (is_nan(a) || is_nan(b)) {
        return NOT_A_NUMBER;
    }
    return ordinal(b) < ordinal(a) ? b : a;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    if (is_nan(a) || is_nan(b)) {
        return NOT_A_NUMBER;
    }
    return ordinal(b) > ordinal(a) ? b : a;
}

/* Which NaN an addition makes depends on the processor. */
static uint64_t add(uint64_t a, uint64_t b)
{
    double x, y;
    uint64_t sum;

    memcpy(&x, &a, sizeof(x));
    memcpy(&y, &b, sizeof(y));
    x += y;
    memcpy(&sum, &x, sizeof(sum));
    return is_nan(sum) ? NOT_A_NUMBER : sum;
}

/* ---- vectors ---- */

static uint64_t combine(const struct mst_round *round, size_t element, uint64_t a, uint64_t b)
{
    switch (round->reduce) {
    case MST_REDUCE_MIN:
        return (int64_t)b < (int64_t)a ? b : a;
    case MST_REDUCE_MAX:
        return (int64_t)b > (int64_t)a ? b : a;
    case MST_REDUCE_SUM:
        return (uint64_t)wrap_add((int64_t)a, (int64_t)b, &round->carries[element]);
    case MST_REDUCE_XOR:
        return a ^ b;
    case MST_REDUCE_SUM_DOUBLE:
        return add(a, b);
    case MST_REDUCE_MIN_DOUBLE:
        return lesser(a, b);
    case MST_REDUCE_MAX_DOUBLE:
        return greater(a, b);
    case MST_REDUCE_NONE:
    case MST_REDUCE_GATHER:
    case MST_REDUCE_EQUAL:
    case MST_REDUCE_BROADCAST:
        break;
    }
    MST_ASSERT(!"a vector");
    return a;
}

static void fold(struct mst_round *round, unsigned char *value, struct mst_slice data)
{
    const unsigned char *more = data.data;

    for (size_t i = 0; i < data.size / ELEMENT; i++) {
        uint64_t number = combine(round, i, load(value + i * ELEMENT), load(more + i * ELEMENT));

        store(value + i * ELEMENT, number);
    }
}

/* ---- one contribution ---- */

static muster_status keep(struct mst_core *core, struct mst_blob **place, struct mst_slice data)
{
    *place = mst_blob_new(&core->mem, data);
    return *place ? MUSTER_OK : MUSTER_ENOMEM;
}

muster_status mst_reduce_add(struct mst_core *core, struct mst_round *round,
                             struct mst_round_part *part, struct mst_slice data)
{
    muster_status status = MUSTER_OK;

    if (mst_reduce_keeps(round->reduce)) {
        status = keep(core, &part->data, data);
        round->kept_bytes += status == MUSTER_OK ? data.size : 0;
    } else if (round->reduce == MST_REDUCE_BROADCAST) {
        if (part->member->seat.rank == round->root) {
            status = keep(core, &round->value, data);
        }
    } else if (round->reduce == MST_REDUCE_EQUAL) {
        part->differs = !mst_slice_equal(data, mst_blob_slice(round->value));
    } else if (round->arrived > 0 && data.size > 0) { /* the first one is the value already */
        fold(round, round->value->bytes, data);
    }
    return status;
}

/* ---- the end ---- */

static void list_parts(struct mst_round *round)
{
    for (uint32_t i = 0; i < round->part_count; i++) {
        const struct mst_round_part *part = &round->parts[i];

        if (part->arrived) {
            round->items[round->item_count++] = (struct mst_item){
                .kind = MST_ITEM_PART,
                .who = {.index = part->index, .rank = mst_round_part_who(round, part).rank},
                .value = mst_blob_slice(part->data)};
        }
    }
}

static void add_parts(struct mst_round *round)
{
    const struct mst_mem *mem = &round->job->core->mem;

    for (uint32_t i = 0; i < round->part_count; i++) {
        struct mst_blob *data = round->parts[i].data;

        round->parts[i].data = NULL;
        if (data && !round->value) {
            round->value = data;
        } else if (data) {
            fold(round, round->value->bytes, mst_blob_slice(data));
            mst_blob_drop(mem, data);
        }
    }
    round->kept_bytes = 0;
}

/* A single contribution was not added to any. */
static void unify_nans(struct mst_round *round)
{
    unsigned char *bytes = round->value->bytes;

    for (size_t i = 0; i < round->data_size / ELEMENT; i++) {
        if (is_nan(load(bytes + i * ELEMENT))) {
            store(bytes + i * ELEMENT, NOT_A_NUMBER);
        }
    }
}

muster_status mst_reduce_finish(struct mst_round *round)
{
    if (round->reduce == MST_REDUCE_SUM) {
        for (size_t i = 0; i < round->data_size / ELEMENT; i++) {
            if (round->carries[i] != 0) {
                return MUSTER_ERANGE;
            }
        }
    }
    if (round->reduce == MST_REDUCE_GATHER) {
        list_parts(round);
    }
    if (round->reduce == MST_REDUCE_SUM_DOUBLE) {
        add_parts(round);
    }
    if (mst_vector_of_doubles(round->reduce)) {
        unify_nans(round);
    }
    return MUSTER_OK;
}
