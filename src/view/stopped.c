/* SPDX-License-Identifier: Apache-2.0 */
#include "view/stopped.h"

#include "proto/run_keys.h"

void mst_stopped_each(const struct mst_status *status,
                      void (*fn)(void *ctx, const struct mst_stopped *stopped), void *ctx)
{
    for (size_t i = 0; i < status->stopped.count; i++) {
        const struct mst_item *key = &status->stopped.items[i];
        struct mst_slice value = key->value;
        struct mst_run_stopped one;

        while (key->kind == MST_ITEM_KEY && mst_run_stopped_take(&value, &one)) {
            const struct mst_stopped stopped = {
                .index = one.index, .pid = one.pid, .for_ms = one.for_ms + key->number};

            fn(ctx, &stopped);
        }
    }
}
