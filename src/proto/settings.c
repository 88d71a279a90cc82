/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/settings.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

/* The default of a choice is its first. */
#define CHOICES_grow "check, fault, off"
#define CHOICES_preempt_leave "all, noticed"
#define CHOICES_cluster_policy "fail-fast, collect, isolate"

#define STANDARD_MS(name, value) .standard = (value), .standard_text = #value
#define STANDARD_COUNT(name, value) .standard = (value), .standard_text = #value
#define STANDARD_BYTES(name, value) .standard = (value), .standard_text = #value
#define STANDARD_INDEX(name, value) .standard = (value), .standard_text = #value
#define STANDARD_FLAG(name, value) .standard = (value), .standard_text = #value
#define STANDARD_SIGNAL(name, value) .standard = (value), .standard_text = #value
#define STANDARD_CHOICE(name, value) .standard_text = (value), .choices = CHOICES_##name
#define STANDARD_TEXT(name, value) .standard_text = (value)

const struct mst_setting mst_settings[] = {
#define X(row_scope, row_name, row_unit, row_standard, row_least, row_most, row_help)              \
    {.scope = MST_SCOPE_##row_scope,                                                               \
     .unit = MST_UNIT_##row_unit,                                                                  \
     .name = #row_name,                                                                            \
     .help = (row_help),                                                                           \
     .least = (row_least),                                                                         \
     .most = (row_most),                                                                           \
     STANDARD_##row_unit(row_name, row_standard)},
#include "proto/settings.def"
#undef X
};

const size_t mst_setting_count = sizeof(mst_settings) / sizeof(mst_settings[0]);

static bool same_name(const char *name, const char *wanted)
{
    while (*name && (*name == *wanted || (*name == '_' && *wanted == '-'))) {
        name++;
        wanted++;
    }
    return *name == *wanted;
}

const struct mst_setting *mst_setting_find(const char *name)
{
    for (size_t i = 0; i < mst_setting_count; i++) {
        if (same_name(mst_settings[i].name, name)) {
            return &mst_settings[i];
        }
    }
    return NULL;
}

/* What `suffix` multiplies by; 0: no suffix of this unit. */
static int64_t factor(enum mst_unit unit, const char *suffix)
{
    static const struct {
        enum mst_unit unit;
        const char *suffix;
        int64_t factor;
    } table[] = {
        {MST_UNIT_MS, "ms", 1},
        {MST_UNIT_MS, "s", 1000},
        {MST_UNIT_MS, "m", 60000},
        {MST_UNIT_MS, "h", 3600000},
        {MST_UNIT_BYTES, "k", 1024},
        {MST_UNIT_BYTES, "m", 1048576},
        {MST_UNIT_BYTES, "g", 1073741824},
    };

    if (*suffix == '\0') {
        return 1;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].unit == unit && mst_slice_is(mst_slice_text(suffix), table[i].suffix)) {
            return table[i].factor;
        }
    }
    return 0;
}

static bool parse_number(enum mst_unit unit, const char *text, int64_t *out)
{
    bool negative = *text == '-';
    int64_t number = 0;
    int64_t times;

    text += negative;
    if (*text < '0' || *text > '9') {
        return false;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        if (number > (INT64_MAX - 9) / 10) {
            return false;
        }
        number = number * 10 + (*text - '0');
    }
    times = factor(unit, text);
    if (times == 0 || number > INT64_MAX / times) {
        return false;
    }
    *out = negative ? -number * times : number * times;
    return true;
}

static bool parse_flag(const char *text, int64_t *out)
{
    enum { WORDS = 8 };
    static const char *const words[WORDS] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    size_t position = mst_slice_among(mst_slice_text(text), words, WORDS);

    *out = (int64_t)(position & 1);
    return position < WORDS;
}

static bool parse_choice(const char *choices, const char *text, int64_t *out)
{
    struct mst_slice rest = mst_slice_text(choices);

    for (int64_t position = 0; rest.size > 0; position++) {
        if (mst_slice_is(mst_slice_cut(&rest, ','), text)) {
            *out = position;
            return true;
        }
        rest = mst_slice_from(rest, 1); /* the blank */
    }
    return false;
}

static void complain(const struct mst_setting *setting, const char *given, char *error, size_t room)
{
    static const char *const wanted[] = {
        [MST_UNIT_FLAG] = "neither yes nor no",
        [MST_UNIT_TEXT] = "no text",
        [MST_UNIT_MS] = "no duration (500ms, 10s, 2m)",
        [MST_UNIT_BYTES] = "no size (4096, 64k, 16m)",
        [MST_UNIT_COUNT] = "no number",
        [MST_UNIT_INDEX] = "no number",
        [MST_UNIT_SIGNAL] = "no number",
    };

    /* The user's words are escaped, so that it stays one line. */
    if (setting->unit == MST_UNIT_CHOICE) {
        mst_text_print(error, room, "setting %s: '%.*s' is not one of %s", setting->name,
                       MST_TEXT_ARGS(given), setting->choices);
    } else if (setting->unit == MST_UNIT_FLAG || setting->unit == MST_UNIT_TEXT) {
        mst_text_print(error, room, "setting %s: '%.*s' is %s", setting->name, MST_TEXT_ARGS(given),
                       wanted[setting->unit]);
    } else {
        mst_text_print(error, room, "setting %s: '%.*s' is %s from %" PRId64 " to %" PRId64,
                       setting->name, MST_TEXT_ARGS(given), wanted[setting->unit], setting->least,
                       setting->most);
    }
}

muster_status mst_setting_parse(const struct mst_setting *setting, const char *text, int64_t *out,
                                char *error, size_t room)
{
    int64_t value = 0;
    bool good = false;

    switch (setting->unit) {
    case MST_UNIT_FLAG:
        good = parse_flag(text, &value);
        break;
    case MST_UNIT_CHOICE:
        good = parse_choice(setting->choices, text, &value);
        break;
    case MST_UNIT_TEXT:
        break;
    case MST_UNIT_MS:
    case MST_UNIT_BYTES:
    case MST_UNIT_COUNT:
    case MST_UNIT_INDEX:
    case MST_UNIT_SIGNAL:
        good = parse_number(setting->unit, text, &value) && value >= setting->least &&
               value <= setting->most;
        break;
    }
    if (!good) {
        complain(setting, text, error, room);
        return MUSTER_EINVAL;
    }
    *out = value;
    return MUSTER_OK;
}
