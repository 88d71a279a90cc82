/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_METRICS_EXPOSITION_H
#define MST_SERVICE_METRICS_EXPOSITION_H

/* The text for a metrics scraper: Prometheus format 0.0.4, or OpenMetrics 1.0. This module has the
 * format; metrics.def has the content. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/histogram.h"
#include "base/slice.h"

enum mst_metric_type { MST_GAUGE, MST_COUNTER, MST_HISTOGRAM };

struct mst_figures;
struct mst_exposition;

struct mst_metric {
    enum mst_metric_type type;
    const char *name;   /* of a counter with its _total */
    const char *unit;   /* "seconds", "bytes" or "" */
    const char *labels; /* for the documentation: "job,state" */
    const char *help;
    void (*read)(struct mst_exposition *out, const struct mst_figures *figures);
    size_t at; /* of the figure, for a reader of many rows */
};

struct mst_label {
    const char *name;
    struct mst_slice value;
};

#define MST_LABELS_MAX 3u

struct mst_exposition {
    bool open_metrics;
    bool no_memory;
    const struct mst_metric *metric; /* the family being written */
    FILE *file;                      /* writes to the text */
    char *text;
    size_t size;
};

/* A family: its head, then its samples. */
void mst_exposition_family(struct mst_exposition *out, const struct mst_metric *metric);

/* One sample; `labels` may be NULL for a count of 0. */
void mst_exposition_number(struct mst_exposition *out, const struct mst_label *labels, size_t count,
                           uint64_t value);
void mst_exposition_seconds(struct mst_exposition *out, const struct mst_label *labels,
                            size_t count, uint64_t s, uint64_t ns);
void mst_exposition_histogram(struct mst_exposition *out, const struct mst_label *labels,
                              size_t count, const struct mst_histogram *histogram);

/* The text, now the caller's to free; NULL: no memory. */
char *mst_exposition_finish(struct mst_exposition *out);

#endif
