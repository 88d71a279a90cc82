/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_SETTINGS_H
#define MST_PROTO_SETTINGS_H

/* The rows of settings.def, and how a value is read from text: the same for a flag and for the
 * environment. Reading the environment itself is the shells' business. */

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

enum mst_scope {
    MST_SCOPE_SERVICE = 1,
    MST_SCOPE_LIMIT,
    MST_SCOPE_CLIENT,
    MST_SCOPE_RUN,
    MST_SCOPE_RESTART
};

enum mst_unit {
    MST_UNIT_MS = 1, /* "1500", "500ms", "10s", "2m", "1h" */
    MST_UNIT_COUNT,
    MST_UNIT_BYTES, /* "4096", "64k", "16m", "1g": powers of 1024 */
    MST_UNIT_INDEX,
    MST_UNIT_FLAG,   /* 1, 0, true, false, yes, no, on, off */
    MST_UNIT_SIGNAL, /* a number */
    MST_UNIT_CHOICE, /* one of `choices`; the number is its position */
    MST_UNIT_TEXT
};

struct mst_setting {
    enum mst_scope scope;
    enum mst_unit unit;
    const char *name; /* as in settings.def, with underscores */
    const char *help;
    int64_t standard;          /* the default, unless TEXT */
    const char *standard_text; /* the default as text */
    int64_t least, most;
    const char *choices; /* CHOICE: "check, fault, off" */
};

extern const struct mst_setting mst_settings[];
extern const size_t mst_setting_count;

/* The row, or NULL. Dashes in `name` count as underscores. */
const struct mst_setting *mst_setting_find(const char *name);

/* Reads `text`. On failure EINVAL, and `error` has one line with the setting, the mistake and the
 * allowed values. Not for TEXT. */
muster_status mst_setting_parse(const struct mst_setting *setting, const char *text, int64_t *out,
                                char *error, size_t room);

#endif
