/* SPDX-License-Identifier: Apache-2.0 */
/* The core's side of a journal: the weight of an input, recovery, and the hold while the disk is
 * full. */
#include "service/core/generation.h"
#include "service/core/job.h"
#include "service/core/write.h"

enum mst_weight mst_core_weigh(struct mst_core *core)
{
    enum mst_weight weight = core->weight;

    core->weight = MST_WEIGHT_NONE;
    return weight;
}

/* ---- recovery ---- */

static bool take_limits(struct mst_core *core, const struct mst_core_config *config)
{
    if (config->limits.batch_max > core->config.limits.batch_max) {
        struct mst_staged *staged =
            mst_mem_array(&core->mem, (size_t)config->limits.batch_max, sizeof(*staged));

        if (!staged) {
            return false;
        }
        mst_mem_release(&core->mem, core->staged);
        core->staged = staged;
    }
    core->config = *config;
    return true;
}

/* Forgets what the new limits have no room for. */
static void trim(struct mst_core *core)
{
    mst_past_trim(core);
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        mst_keyspace_trim(job, &job->keys);
        mst_keyspace_trim(job, &job->generation_keys);
    }
}

muster_status mst_core_resume(struct mst_core *core, uint64_t now_ns,
                              const struct mst_core_config *config)
{
    struct mst_link *link;

    if (!mst_core_config_makes_sense(config)) {
        return MUSTER_EINVAL;
    }
    MST_ASSERT(!core->current);
    if (!take_limits(core, config)) {
        return MUSTER_ENOMEM;
    }
    mst_core_begin_input(core, now_ns);
    mst_core_raise(core, MST_WEIGHT_PROMISE);
    /* In their order: the shape of a tree depends on the order of removals. */
    while ((link = mst_link_first(core))) {
        mst_link_free(core, link);
    }
    MST_ASSERT(mst_list_empty(&core->effects));
    mst_session_extend_all(core);
    trim(core);
    mst_history_resumed(core);
    core->pulse_ns = NEVER; /* a new one begins: the old one was not missed */
    mst_core_end_input(core);
    return MUSTER_OK;
}

/* ---- the hold ---- */

/* Watchers learn now of the members that changed while the core was held. */
static void touch_owed(struct mst_core *core)
{
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        struct mst_member *member = mst_member_first(job);

        for (; member; member = mst_member_next(member)) {
            if (member->owes_touch) {
                member->owes_touch = false;
                mst_member_touch(member);
            }
        }
    }
}

void mst_core_hold(struct mst_core *core, const char *why)
{
    bool ends = core->held && !why;

    if (why && !core->held) {
        core->held_ns = core->now_ns;
    }
    core->held = why;
    if (ends) {
        mst_core_forgive(core, core->now_ns - core->held_ns);
        touch_owed(core);
    }
}
