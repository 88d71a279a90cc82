/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/past.h"

#include "service/core/state.h"

struct mst_past *mst_past_make(struct mst_core *core, struct mst_slice name)
{
    struct mst_past *past = mst_named_find(&core->pasts, name);

    return past ? past : mst_named_new(&core->mem, sizeof(*past), name);
}

void mst_past_unmake(struct mst_core *core, struct mst_past *past)
{
    if (!mst_named_added(&past->named)) {
        mst_mem_release(&core->mem, past);
    }
}

void mst_past_begin(struct mst_core *core, struct mst_past *past)
{
    mst_named_remove(&core->pasts, &past->named);
}

static void forget_first(struct mst_core *core)
{
    struct mst_past *past = mst_named_first(&core->pasts);

    mst_named_remove(&core->pasts, &past->named);
    mst_mem_release(&core->mem, past);
}

void mst_past_end(struct mst_core *core, struct mst_past *past)
{
    if (past->generation == 0 && past->incarnation == 0) {
        mst_mem_release(&core->mem, past);
        return;
    }
    mst_named_add(&core->pasts, &past->named);
    mst_past_trim(core);
}

void mst_past_trim(struct mst_core *core)
{
    while (core->pasts.tree.count > core->config.limits.jobs_max) {
        forget_first(core);
    }
}

void mst_past_free_all(struct mst_core *core)
{
    while (core->pasts.tree.count > 0) {
        forget_first(core);
    }
}
