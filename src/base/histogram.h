/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_HISTOGRAM_H
#define MST_BASE_HISTOGRAM_H

#include <stdint.h>

#define MST_BOUNDS_MAX 20u

/* Upper bounds of a histogram's buckets, ascending, each inclusive. */
struct mst_bounds {
    uint32_t count;
    uint64_t ns[MST_BOUNDS_MAX];
};

/* How often durations fell between the bounds. Of fixed size, so that counting never fails. */
struct mst_histogram {
    const struct mst_bounds *bounds;
    uint64_t sum_s, sum_ns;          /* nanoseconds alone would wrap within weeks of a large job */
    uint64_t in[MST_BOUNDS_MAX + 1]; /* each bucket alone, not cumulative; the last is +Inf */
};

void mst_histogram_init(struct mst_histogram *histogram, const struct mst_bounds *bounds);
void mst_histogram_add(struct mst_histogram *histogram, uint64_t ns, uint64_t times);
uint64_t mst_histogram_count(const struct mst_histogram *histogram);

#endif
