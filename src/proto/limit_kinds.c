/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/limit_kinds.h"

#include <stddef.h>

#include "base/panic.h"

#define VALUE_SERVICE(limits, setting) ((limits)->setting)
#define VALUE_OPTION(limits, setting) 0
#define VALUE_JOB(limits, setting) 0
#define VALUE_PROTOCOL(limits, setting) 0
#define NAME_SERVICE(setting) #setting
#define NAME_OPTION(setting) #setting
#define NAME_JOB(setting) NULL
#define NAME_PROTOCOL(setting) NULL

struct mst_excess mst_excess_of(const struct mst_limits *limits, enum mst_limit_kind kind,
                                uint64_t asked)
{
    struct mst_excess excess = {.kind = kind, .asked = asked};

    MST_ASSERT(mst_limit_kind_setting((uint32_t)kind));
    switch (kind) {
    case MST_LIMIT_UNSAID:
        break;
#define X(name, number, origin, setting)                                                           \
    case MST_LIMIT_##name:                                                                         \
        excess.most = VALUE_##origin(limits, setting);                                             \
        break;
#include "proto/limit_kinds.def"
#undef X
    }
    return excess;
}

const struct mst_setting *mst_limit_kind_setting(uint32_t kind)
{
    static const char *const names[] = {
#define X(name, number, origin, setting) [number] = NAME_##origin(setting),
#include "proto/limit_kinds.def"
#undef X
    };

    return kind < sizeof(names) / sizeof(names[0]) && names[kind] ? mst_setting_find(names[kind])
                                                                  : NULL;
}
