/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_RESERVE_H
#define MST_SERVICE_SERVER_RESERVE_H

/* The service's memory, a little of which is kept for bad times. Where there is no more, whoever is
 * in must still be able to say that he lives, that he failed or that another died: for what only
 * passes through, the reserve is given up. For what stays - keys, newcomers, waits - it is not, and
 * as long as it is gone nothing of that kind is given any memory at all. */

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

#define MST_UV_RESERVE_BLOCKS 128u

struct mst_uv_reserve {
    void *blocks[MST_UV_RESERVE_BLOCKS];
    unsigned count; /* all or, after bad times, those that were found again */
    bool storing;   /* what is asked for now is to stay */
};

/* `reserve` must stay where it is: it is the context of what is returned. From now on the loop's
 * own memory, which would otherwise end the process, comes from here too. */
struct mst_mem mst_uv_reserve_init(struct mst_uv_reserve *reserve);
void mst_uv_reserve_fini(struct mst_uv_reserve *reserve);

/* Fills it up again, if there is memory. */
void mst_uv_reserve_refill(struct mst_uv_reserve *reserve);

#endif
