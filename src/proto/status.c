/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/status.h"

#define X(name, value, group, text)                                                                \
    _Static_assert(MUSTER_##name == (value), "status.def and status.h agree");
#include "proto/status.def"
#undef X

const char *mst_status_name(muster_status status)
{
    switch (status) {
#define X(name, value, group, text)                                                                \
    case MUSTER_##name:                                                                            \
        return "MUSTER_" #name;
#include "proto/status.def"
#undef X
    }
    return "MUSTER_?";
}

const char *mst_status_text(muster_status status)
{
    switch (status) {
#define X(name, value, group, text)                                                                \
    case MUSTER_##name:                                                                            \
        return text;
#include "proto/status.def"
#undef X
    }
    return "unknown status";
}
