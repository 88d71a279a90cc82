/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_LIMIT_KINDS_H
#define MST_PROTO_LIMIT_KINDS_H

/* The limit that a request exceeds. An ELIMIT names it, so that the user knows which one to raise.
 */

#include <stdint.h>

#include "proto/limits.h"
#include "proto/settings.h"

enum mst_limit_kind {
    MST_LIMIT_UNSAID = 0,
#define X(name, number, origin, setting) MST_LIMIT_##name = (number),
#include "proto/limit_kinds.def"
#undef X
};

struct mst_excess {
    enum mst_limit_kind kind;
    uint64_t most, asked;
};

/* Of a limit that is one of `limits`. */
struct mst_excess mst_excess_of(const struct mst_limits *limits, enum mst_limit_kind kind,
                                uint64_t asked);

/* The service's setting for this limit; NULL: there is none. */
const struct mst_setting *mst_limit_kind_setting(uint32_t kind);

#endif
