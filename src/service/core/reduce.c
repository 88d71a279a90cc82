/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/reduce.h"

#include <string.h>

#include "service/core/job.h"

enum { ELEMENT = 8 };

static bool is_vector(enum mst_reduce reduce)
{
    return reduce == MST_REDUCE_MIN || reduce == MST_REDUCE_MAX || reduce == MST_REDUCE_SUM;
}

bool mst_reduce_accepts(enum mst_reduce reduce, struct mst_slice data)
{
    if (is_vector(reduce)) {
        return data.size > 0 && data.size % ELEMENT == 0;
    }
    return reduce != MST_REDUCE_NONE || data.size == 0;
}

bool mst_reduce_start(struct mst_core *core, struct mst_round *round, struct mst_slice data)
{
    if (round->reduce == MST_REDUCE_GATHER) {
        round->items = mst_mem_array(&core->mem, round->part_count + 1u, sizeof(*round->items));
        return round->items != NULL;
    }
    round->data_size = data.size;
    if (round->reduce == MST_REDUCE_SUM) {
        round->carries = mst_mem_array(&core->mem, data.size / ELEMENT, sizeof(*round->carries));
        if (!round->carries) {
            return false;
        }
    }
    if (round->reduce != MST_REDUCE_NONE) {
        round->value = mst_blob_new(&core->mem, data);
        return round->value != NULL;
    }
    return true;
}

/* ---- vectors ---- */

static int64_t load(const unsigned char *bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < ELEMENT; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return (int64_t)number;
}

static void store(unsigned char *bytes, int64_t number)
{
    for (unsigned i = 0; i < ELEMENT; i++) {
        bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
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

static int64_t combine(const struct mst_round *round, size_t element, int64_t a, int64_t b)
{
    if (round->reduce == MST_REDUCE_SUM) {
        return wrap_add(a, b, &round->carries[element]);
    }
    if (round->reduce == MST_REDUCE_MIN) {
        return b < a ? b : a;
    }
    return b > a ? b : a;
}

static void fold(struct mst_round *round, struct mst_slice data)
{
    const unsigned char *more = data.data;
    unsigned char *sum = round->value->bytes;

    for (size_t i = 0; i < data.size / ELEMENT; i++) {
        int64_t number = combine(round, i, load(sum + i * ELEMENT), load(more + i * ELEMENT));

        store(sum + i * ELEMENT, number);
    }
}

/* ---- one contribution ---- */

muster_status mst_reduce_add(struct mst_core *core, struct mst_round *round,
                             struct mst_round_part *part, struct mst_slice data)
{
    switch (round->reduce) {
    case MST_REDUCE_GATHER:
        part->data = mst_blob_new(&core->mem, data);
        if (!part->data) {
            return MUSTER_ENOMEM;
        }
        round->data_size += data.size;
        break;
    case MST_REDUCE_MIN:
    case MST_REDUCE_MAX:
    case MST_REDUCE_SUM:
        if (round->arrived > 0) { /* the first one is the value already */
            fold(round, data);
        }
        break;
    case MST_REDUCE_NONE:
        break;
    case MST_REDUCE_EQUAL:
        part->differs = !mst_slice_equal(data, mst_blob_slice(round->value));
        break;
    }
    return MUSTER_OK;
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
    return MUSTER_OK;
}
