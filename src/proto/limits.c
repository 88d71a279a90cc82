/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/limits.h"

#define MST_VALUE_LIMIT(name, value) .name = (value),
#define MST_VALUE_SERVICE(name, value)
#define MST_VALUE_CLIENT(name, value)
#define MST_VALUE_RUN(name, value)
#define MST_VALUE_RESTART(name, value)
#define X(scope, name, unit, default_value, least, most, help)                                     \
    MST_VALUE_##scope(name, default_value)

const struct mst_limits mst_limits_default = {
#include "proto/settings.def"
};
