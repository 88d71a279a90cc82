/* SPDX-License-Identifier: Apache-2.0 */
#include "service/server/log_json.h"

#include <stdbool.h>
#include <string.h>

#include "base/panic.h"

struct out {
    char *at, *end;
};

static void put(struct out *out, char c)
{
    MST_ASSERT(out->at < out->end);
    *out->at++ = c;
}

static void put_raw(struct out *out, const char *text)
{
    for (; *text; text++) {
        put(out, *text);
    }
}

/* What a line shows is UTF-8 without control characters. */
static void put_string(struct out *out, struct mst_slice text)
{
    const char *bytes = text.data;

    put(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        if (bytes[i] == '"' || bytes[i] == '\\') {
            put(out, '\\');
        }
        put(out, bytes[i]);
    }
    put(out, '"');
}

static void put_pair(struct out *out, const char *name, struct mst_slice value)
{
    put_raw(out, out->at[-1] == '{' ? "" : ",");
    put_string(out, mst_slice_text(name));
    put(out, ':');
    put_string(out, value);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

/* As JSON has it, and small enough for a double: 0, -5, 1234567890. */
static bool is_number(struct mst_slice value)
{
    const char *bytes = value.data;
    size_t i = value.size > 0 && bytes[0] == '-';

    if (value.size == i || value.size - i > 15 || (bytes[i] == '0' && value.size - i > 1)) {
        return false;
    }
    while (i < value.size && is_digit(bytes[i])) {
        i++;
    }
    return i == value.size;
}

/* ---- "event #5 key=value key="value"" ---- */

struct field {
    struct mst_slice name, value;
};

/* Whether "#" or "key=" begins at `at`, or the text ends there. */
static bool begins_field(struct mst_slice text, size_t at)
{
    const char *bytes = text.data;
    size_t i = at;

    while (i < text.size && is_word(bytes[i])) {
        i++;
    }
    return at >= text.size || bytes[at] == '#' || (i > at && i < text.size && bytes[i] == '=');
}

/* Where a value ends that begins at `at`: at a blank, or for one in quotes behind the quote that
 * another field or the end follows, for quotes inside are not marked. */
static size_t value_end(struct mst_slice text, size_t at)
{
    const char *bytes = text.data;
    bool quoted = at < text.size && bytes[at] == '"';

    for (size_t i = at + quoted; i < text.size; i++) {
        bool last = i + 1 == text.size;

        if (!quoted && bytes[i] == ' ') {
            return i;
        }
        if (quoted && bytes[i] == '"' &&
            (last || (bytes[i + 1] == ' ' && begins_field(text, i + 2)))) {
            return i + 1;
        }
    }
    return text.size;
}

/* The field at *at, which is moved behind it and its blank. False: there is none. */
static bool take_field(struct mst_slice text, size_t *at, struct field *out)
{
    const char *bytes = text.data;
    size_t begin = *at, i = begin, end;

    if (i < text.size && bytes[i] == '#') { /* "#5": a member */
        out->name = mst_slice_text("index");
        begin = ++i;
    } else {
        while (i < text.size && is_word(bytes[i])) {
            i++;
        }
        if (i == begin || i == text.size || bytes[i] != '=') {
            return false;
        }
        out->name = mst_slice_of(bytes + begin, i - begin);
        begin = ++i;
    }
    end = value_end(text, begin);
    out->value = mst_slice_of(bytes + begin, end - begin);
    if (out->value.size >= 2 && bytes[begin] == '"' && bytes[end - 1] == '"') {
        out->value = mst_slice_of(bytes + begin + 1, end - begin - 2);
    }
    *at = end + (end < text.size);
    return end > begin;
}

/* The first word, where nothing but fields follows; else 0: the text is a sentence. */
static size_t event_size(struct mst_slice text)
{
    const char *bytes = text.data;
    struct field field;
    size_t size = 0, at;

    while (size < text.size && is_word(bytes[size])) {
        size++;
    }
    if (size < text.size && bytes[size] != ' ') {
        return 0;
    }
    at = size + (size < text.size);
    while (at < text.size) {
        if (!take_field(text, &at, &field)) {
            return 0;
        }
    }
    return size;
}

static void put_fields(struct out *out, struct mst_slice text, size_t at)
{
    struct field field;

    put_raw(out, ",\"fields\":{");
    while (at < text.size && take_field(text, &at, &field)) {
        if (out->at[-1] != '{') {
            put(out, ',');
        }
        put_string(out, field.name);
        put(out, ':');
        if (is_number(field.value)) {
            for (size_t i = 0; i < field.value.size; i++) {
                put(out, ((const char *)field.value.data)[i]);
            }
        } else {
            put_string(out, field.value);
        }
    }
    put(out, '}');
}

size_t mst_log_json(char *line, size_t room, const struct mst_log_parts *parts)
{
    struct out out = {.at = line, .end = line + room};
    size_t event = event_size(parts->text);

    put(&out, '{');
    put_pair(&out, "time", mst_slice_text(parts->time));
    put_pair(&out, "level", mst_slice_text(parts->level));
    put_pair(&out, "area", mst_slice_text(parts->area));
    if (parts->job.size > 0) {
        put_pair(&out, "job", parts->job);
    }
    if (event > 0) {
        put_pair(&out, "event", mst_slice_of(parts->text.data, event));
        put_fields(&out, parts->text, event + (event < parts->text.size));
    }
    put_pair(&out, "text", parts->text);
    put(&out, '}');
    return (size_t)(out.at - line);
}
