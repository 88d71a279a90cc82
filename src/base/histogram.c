/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"

#include "base/panic.h"
#include "base/time.h"

void mst_histogram_init(struct mst_histogram *histogram, const struct mst_bounds *bounds)
{
    MST_ASSERT(bounds->count <= MST_BOUNDS_MAX);
    *histogram = (struct mst_histogram){.bounds = bounds};
}

void mst_histogram_add(struct mst_histogram *histogram, uint64_t ns, uint64_t times)
{
    const struct mst_bounds *bounds = histogram->bounds;
    uint32_t bucket = 0;

    while (bucket < bounds->count && ns > bounds->ns[bucket]) {
        bucket++;
    }
    histogram->in[bucket] += times;
    histogram->sum_s += ns / NS_PER_S * times;
    histogram->sum_ns += ns % NS_PER_S * times;
    histogram->sum_s += histogram->sum_ns / NS_PER_S;
    histogram->sum_ns %= NS_PER_S;
}

uint64_t mst_histogram_count(const struct mst_histogram *histogram)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i <= histogram->bounds->count; i++) {
        count += histogram->in[i];
    }
    return count;
}
