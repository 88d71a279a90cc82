/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/metrics/exposition.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "base/time.h"

/* Opens the text at the first call. */
__attribute__((format(printf, 2, 3))) static void put(struct mst_exposition *out,
                                                      const char *format, ...)
{
    va_list args;

    if (!out->file && !out->no_memory) {
        out->file = open_memstream(&out->text, &out->size);
        out->no_memory = !out->file;
    }
    if (out->file) {
        va_start(args, format);
        (void)vfprintf(out->file, format, args);
        va_end(args);
    }
}

/* ---- bytes of others: a value must be UTF-8 in one line ---- */

/* A backslash that would read as the beginning of an escape is written as one: no two values may
 * look the same, for a scraper refuses a text in which a series is there twice. */
static void put_value(struct mst_exposition *out, struct mst_slice value)
{
    const unsigned char *bytes = value.data;
    size_t size;

    for (size_t i = 0; i < value.size; i += size) {
        struct mst_slice rest = mst_slice_of(bytes + i, value.size - i);

        size = mst_text_shown(rest);
        if (bytes[i] == '\n') {
            put(out, "\\n");
            size = 1;
        } else if (size == 0 || mst_slice_starts_with(rest, mst_slice_text("\\x"))) {
            put(out, "\\\\x%02x", bytes[i]);
            size = 1;
        } else if (bytes[i] == '"' || bytes[i] == '\\') {
            put(out, "\\%c", bytes[i]);
        } else {
            put(out, "%.*s", (int)size, (const char *)bytes + i);
        }
    }
}

static void put_help(struct mst_exposition *out, const char *help)
{
    for (; *help; help++) {
        if (*help == '\\' || *help == '\n' || (*help == '"' && out->open_metrics)) {
            put(out, "\\%c", *help == '\n' ? 'n' : *help);
        } else {
            put(out, "%c", *help);
        }
    }
}

/* ---- a family ---- */

static const char *const type_words[] = {
    [MST_GAUGE] = "gauge", [MST_COUNTER] = "counter", [MST_HISTOGRAM] = "histogram"};

void mst_exposition_family(struct mst_exposition *out, const struct mst_metric *metric)
{
    int size = (int)strlen(metric->name);

    if (out->open_metrics && metric->type == MST_COUNTER) {
        size -= (int)strlen("_total"); /* only the samples of the family are called so */
    }
    out->metric = metric;
    put(out, "# HELP %.*s ", size, metric->name);
    put_help(out, metric->help);
    put(out, "\n# TYPE %.*s %s\n", size, metric->name, type_words[metric->type]);
    if (out->open_metrics && *metric->unit) {
        put(out, "# UNIT %.*s %s\n", size, metric->name, metric->unit);
    }
}

/* ---- samples ---- */

/* `le` is the bound of a bucket, or NULL. */
static void put_head(struct mst_exposition *out, const char *suffix, const struct mst_label *labels,
                     size_t count, const char *le)
{
    MST_ASSERT(count <= MST_LABELS_MAX);
    put(out, "%s%s", out->metric->name, suffix);
    for (size_t i = 0; i < count; i++) {
        put(out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
        put_value(out, labels[i].value);
        put(out, "\"");
    }
    if (le) {
        put(out, "%sle=\"%s\"", count == 0 ? "{" : ",", le);
    }
    put(out, "%s ", count > 0 || le ? "}" : "");
}

void mst_exposition_number(struct mst_exposition *out, const struct mst_label *labels, size_t count,
                           uint64_t value)
{
    put_head(out, "", labels, count, NULL);
    put(out, "%" PRIu64 "\n", value);
}

void mst_exposition_seconds(struct mst_exposition *out, const struct mst_label *labels,
                            size_t count, uint64_t s, uint64_t ns)
{
    put_head(out, "", labels, count, NULL);
    put(out, "%" PRIu64 ".%09" PRIu64 "\n", s, ns);
}

/* Exactly, as short as it can be, and always with a point: scrapers compare bounds as text. */
static void name_bound(char *text, size_t room, uint64_t ns)
{
    int size = snprintf(text, room, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_S, ns % NS_PER_S);

    while (text[size - 1] == '0' && text[size - 2] != '.') {
        text[--size] = '\0';
    }
}

void mst_exposition_histogram(struct mst_exposition *out, const struct mst_label *labels,
                              size_t count, const struct mst_histogram *histogram)
{
    uint64_t so_far = 0;
    char le[40];

    for (uint32_t i = 0; i < histogram->bounds->count; i++) {
        so_far += histogram->in[i];
        name_bound(le, sizeof le, histogram->bounds->ns[i]);
        put_head(out, "_bucket", labels, count, le);
        put(out, "%" PRIu64 "\n", so_far);
    }
    so_far += histogram->in[histogram->bounds->count];
    put_head(out, "_bucket", labels, count, "+Inf");
    put(out, "%" PRIu64 "\n", so_far);
    put_head(out, "_sum", labels, count, NULL);
    put(out, "%" PRIu64 ".%09" PRIu64 "\n", histogram->sum_s, histogram->sum_ns);
    put_head(out, "_count", labels, count, NULL);
    put(out, "%" PRIu64 "\n", so_far);
}

char *mst_exposition_finish(struct mst_exposition *out)
{
    bool failed;

    if (out->open_metrics) {
        put(out, "# EOF\n");
    }
    failed = !out->file || ferror(out->file) != 0;
    failed = (out->file && fclose(out->file) != 0) || failed;
    if (failed) {
        free(out->text);
        out->text = NULL;
    }
    return out->text;
}
