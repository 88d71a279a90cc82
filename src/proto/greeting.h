/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_GREETING_H
#define MST_PROTO_GREETING_H

/* The first frame of a client, and of the service. proto/muster.proto says what each field holds.
 */

#include <stdint.h>

#include "base/slice.h"

struct mst_hello {
    uint32_t version_min, version_max;
    struct mst_slice auth, program;
};

struct mst_welcome {
    uint32_t version; /* 0: refused */
    struct mst_slice service, refusal;
    uint64_t frame_bytes_max, key_bytes_max, value_bytes_max, contribution_bytes_max;
};

#endif
