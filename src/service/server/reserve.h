/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_RESERVE_H
#define MST_SERVICE_SERVER_RESERVE_H

/* The memory of the service, with a small reserve. When memory runs out, members must still be able
 * to renew, report a failure or report a loss: such requests, which keep nothing, use up the
 * reserve. Keys, newcomers and waits do not, and get no memory at all until the reserve is full
 * again. */

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

#define MST_UV_RESERVE_BLOCKS 128u

struct mst_uv_reserve {
    void *blocks[MST_UV_RESERVE_BLOCKS];
    unsigned count; /* all, or fewer after a shortage */
    bool storing;   /* what is allocated now is kept */
};

/* `reserve` must stay where it is: it is the context of what is returned. From now on the loop's
 * own memory, which would otherwise end the process, comes from here too. */
struct mst_mem mst_uv_reserve_init(struct mst_uv_reserve *reserve);
void mst_uv_reserve_fini(struct mst_uv_reserve *reserve);

/* Fills it up again, if there is memory. */
void mst_uv_reserve_refill(struct mst_uv_reserve *reserve);

#endif
