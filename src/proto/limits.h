/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_LIMITS_H
#define MST_PROTO_LIMITS_H

#include <stdint.h>

/* The LIMIT rows of settings.def: every table, queue and message has one, chosen at birth. */
struct mst_limits {
#define MST_FIELD_LIMIT(name) uint64_t name;
#define MST_FIELD_SERVICE(name)
#define MST_FIELD_CLIENT(name)
#define MST_FIELD_RUN(name)
#define MST_FIELD_RESTART(name)
#define X(scope, name, unit, default_value, least, most, help) MST_FIELD_##scope(name)
#include "proto/settings.def"
#undef X
#undef MST_FIELD_LIMIT
#undef MST_FIELD_SERVICE
#undef MST_FIELD_CLIENT
#undef MST_FIELD_RUN
#undef MST_FIELD_RESTART
};

/* The defaults of settings.def. */
extern const struct mst_limits mst_limits_default;

#endif
