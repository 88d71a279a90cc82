/* SPDX-License-Identifier: Apache-2.0 */
#include "service/server/exposition.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "base/time.h"

#define ROOM_FIRST 16384u

/* ---- text that grows ---- */

static bool make_room(struct mst_exposition *out, size_t size)
{
    size_t room = out->room > 0 ? out->room : ROOM_FIRST;
    char *grown;

    while (room - out->size <= size) {
        room *= 2;
    }
    if (out->no_memory || room == out->room) {
        return !out->no_memory;
    }
    grown = realloc(out->text, room);
    if (!grown) {
        out->no_memory = true;
        return false;
    }
    out->text = grown;
    out->room = room;
    return true;
}

static void put_bytes(struct mst_exposition *out, const char *bytes, size_t size)
{
    if (make_room(out, size)) {
        memcpy(out->text + out->size, bytes, size);
        out->size += size;
        out->text[out->size] = '\0';
    }
}

__attribute__((format(printf, 2, 3))) static void put(struct mst_exposition *out,
                                                      const char *format, ...)
{
    char piece[256];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    MST_ASSERT(size >= 0 && (size_t)size < sizeof piece);
    put_bytes(out, piece, (size_t)size);
}

/* ---- bytes of others: a value must be UTF-8 in one line ---- */

/* A backslash that would read as the beginning of an escape is written as one: no two values may
 * look the same, for a scraper refuses a text in which a series is there twice. */
static bool is_as_an_escape(struct mst_slice rest)
{
    return mst_slice_starts_with(rest, mst_slice_text("\\x"));
}

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
        } else if (size == 0 || is_as_an_escape(rest)) {
            put(out, "\\\\x%02x", bytes[i]);
            size = 1;
        } else if (bytes[i] == '"' || bytes[i] == '\\') {
            put(out, "\\%c", bytes[i]);
        } else {
            put_bytes(out, (const char *)bytes + i, size);
        }
    }
}

static void put_help(struct mst_exposition *out, const char *help)
{
    for (; *help; help++) {
        if (*help == '\\' || *help == '\n' || (*help == '"' && out->open_metrics)) {
            put(out, "\\%c", *help == '\n' ? 'n' : *help);
        } else {
            put_bytes(out, help, 1);
        }
    }
}

/* ---- a family ---- */

static const char *type_word(enum mst_metric_type type)
{
    switch (type) {
    case MST_GAUGE:
        return "gauge";
    case MST_COUNTER:
        return "counter";
    case MST_HISTOGRAM:
        return "histogram";
    }
    return "?";
}

/* In OpenMetrics a counter's family is called without the _total of its samples. */
static int family_size(const struct mst_exposition *out, const struct mst_metric *metric)
{
    size_t size = strlen(metric->name);

    return (int)(out->open_metrics && metric->type == MST_COUNTER ? size - strlen("_total") : size);
}

void mst_exposition_family(struct mst_exposition *out, const struct mst_metric *metric)
{
    int size = family_size(out, metric);

    out->metric = metric;
    put(out, "# HELP %.*s ", size, metric->name);
    put_help(out, metric->help);
    put(out, "\n# TYPE %.*s %s\n", size, metric->name, type_word(metric->type));
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
    char *text;

    if (out->open_metrics) {
        put(out, "# EOF\n");
    }
    if (out->no_memory) {
        free(out->text);
        out->text = NULL;
    }
    text = out->text;
    out->text = NULL;
    return text;
}
