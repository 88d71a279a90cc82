/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <string.h>

#include "base/digest.h"
#include "base/prng.h"

uint32_t sim_model_participants(const struct model_job *job, uint64_t chance, uint32_t *out)
{
    uint32_t count = 0;

    for (uint32_t index = 0; index < MODEL_PLACES && index <= job->places_used; index++) {
        if (chance & (UINT64_C(1) << index) || count == 0) {
            out[count++] = index;
        }
    }
    return count;
}

bool sim_model_among(const uint32_t *participants, uint32_t count, uint32_t index)
{
    for (uint32_t i = 0; i < count; i++) {
        if (participants[i] == index) {
            return true;
        }
    }
    return false;
}

static void put(unsigned char *out, int64_t number)
{
    for (unsigned i = 0; i < 8; i++) {
        out[i] = (unsigned char)((uint64_t)number >> (8 * i));
    }
}

uint32_t sim_model_contribution(const struct model_job *job, const struct mst_round_request *round,
                                uint32_t index, bool vote, unsigned char *out)
{
    uint64_t same = mst_digest_number(job->seed, round->generation * 1000 + round->number);
    struct mst_prng prng = {same + index};
    uint32_t size;

    switch (round->reduce) {
    case MST_REDUCE_NONE:
        return 0;
    case MST_REDUCE_GATHER:
        size = (uint32_t)mst_prng_below(&prng, MODEL_GATHER_MAX + 1);
        for (uint32_t i = 0; i < size; i++) {
            out[i] = (unsigned char)mst_prng_next(&prng);
        }
        return size;
    case MST_REDUCE_MAX:
        put(out, vote ? 1 : 0);
        return 8;
    case MST_REDUCE_MIN:
    case MST_REDUCE_SUM:
        size = 1 + (uint32_t)(same % 3);
        for (uint32_t i = 0; i < size; i++) {
            put(out + 8 * (size_t)i, (int64_t)mst_prng_below(&prng, 2000) - 1000);
        }
        if (same % 7 == 0) { /* may be too much for a sum of several */
            put(out, (int64_t)(mst_prng_next(&prng) >> 1));
        }
        return 8 * size;
    case MST_REDUCE_XOR:
        put(out, (int64_t)mst_prng_next(&prng));
        return 8;
    case MST_REDUCE_SUM_DOUBLE:
    case MST_REDUCE_MIN_DOUBLE:
    case MST_REDUCE_MAX_DOUBLE:
        size = 1 + (uint32_t)(same % 3);
        for (uint32_t i = 0; i < size; i++) { /* of a magnitude from 2^-20 to 2^19 */
            uint64_t exponent = 1003 + mst_prng_below(&prng, 40);

            put(out + 8 * (size_t)i,
                (int64_t)((mst_prng_next(&prng) & ~(UINT64_C(0x7ff) << 52)) | exponent << 52));
        }
        return 8 * size;
    case MST_REDUCE_BROADCAST:
        size = (uint32_t)(same % (MODEL_GATHER_MAX + 1));
        for (uint32_t i = 0; i < size; i++) {
            out[i] = (unsigned char)mst_prng_next(&prng);
        }
        return size;
    case MST_REDUCE_EQUAL:
        put(out, (int64_t)same);
        out[8] = same % 5 == 0 ? (unsigned char)index : 0;
        return 9;
    }
    return 0;
}

/* Only if those who stay can go on without it, also after a loss of all. */
bool sim_model_may_leave(const struct model_job *job)
{
    return job->join_wait_ns > 0 && job->size_multiple < 2 && job->left + 1 < job->size &&
           job->size - job->left - 1 >= job->min_size;
}

uint32_t sim_model_fit(const struct model_job *job, uint32_t count)
{
    if (job->max_size > 0 && count > job->max_size) {
        count = job->max_size;
    }
    return job->size_multiple > 0 ? count - count % job->size_multiple : count;
}
