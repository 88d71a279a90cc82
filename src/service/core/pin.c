/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/pin.h"

#include "service/core/core.h"
#include "service/core/link.h"

/* ---- values ---- */

void mst_pin_leave_value(struct mst_core *core, struct mst_blob *value)
{
    if (value->references > 1) {
        value->pinned = true;
        core->pinned_bytes += value->size;
    }
    mst_blob_drop(&core->mem, value);
}

void mst_pin_drop_value(struct mst_core *core, struct mst_blob *value)
{
    if (value && value->pinned && value->references == 1) {
        core->pinned_bytes -= value->size;
    }
    mst_blob_drop(&core->mem, value);
}

/* ---- rounds ---- */

static uint64_t bytes_of(const struct mst_round *round)
{
    return mst_blob_slice(round->value).size + round->kept_bytes +
           round->part_count * sizeof(struct mst_round_part);
}

void mst_pin_leave_round(struct mst_core *core, struct mst_round *round)
{
    if (round->references > 1) {
        round->pinned_bytes = bytes_of(round);
        core->pinned_bytes += round->pinned_bytes;
    }
    mst_round_let_go(core, round);
}

void mst_pin_drop_round(struct mst_core *core, struct mst_round *round)
{
    if (round->references == 1) {
        core->pinned_bytes -= round->pinned_bytes;
    }
    mst_round_let_go(core, round);
}

/* ---- whose they are ---- */

uint64_t mst_pin_share(const struct mst_waiter *waiter)
{
    const struct mst_blob *value = waiter->value;

    if (waiter->round) {
        return waiter->round->pinned_bytes / waiter->round->references;
    }
    return value && value->pinned ? value->size / value->references : 0;
}

uint64_t mst_core_pinned(const struct mst_core *core)
{
    return core->pinned_bytes + core->waiting_bytes;
}

uint64_t mst_core_pinned_by(const struct mst_core *core, struct mst_conn conn)
{
    const struct mst_link *link = mst_core_pinned(core) > 0 ? mst_link_find(core, conn) : NULL;
    uint64_t bytes = link ? link->waiting_bytes : 0;

    if (!link || core->pinned_bytes == 0) {
        return bytes;
    }
    MST_EACH(waiter, &link->deferred, const struct mst_waiter, todo.link) {
        bytes += mst_pin_share(waiter);
    }
    return bytes;
}
