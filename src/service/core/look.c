/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/look.h"

#include "service/core/job.h"
#include "service/core/render.h"
#include "service/core/waiter.h"

/* The reply to a waiter that was answered in this moment; it is in no list, and nothing of it is
 * kept. */
static const struct mst_reply *look(struct mst_core *core, struct mst_waiter waiter,
                                    struct mst_slice job)
{
    MST_ASSERT(!core->current);
    waiter.core = core;
    waiter.job = mst_job_find(core, job);
    waiter.stage = MST_QUEUED;
    if (waiter.status == MUSTER_OK && !waiter.job && waiter.command != MST_JOBS) {
        waiter.status = MUSTER_ENOTFOUND;
    }
    mst_render_reply(core, &waiter);
    return &core->reply;
}

const struct mst_reply *mst_look_page(struct mst_core *core, enum mst_command command,
                                      struct mst_slice job, uint64_t after)
{
    MST_ASSERT(command == MST_JOBS || command == MST_MEMBERS || command == MST_ROUNDS ||
               command == MST_HOSTS || command == MST_FAULTS || command == MST_HISTORY);
    return look(core, (struct mst_waiter){.command = command, .after = after}, job);
}

const struct mst_reply *mst_look_keys(struct mst_core *core, struct mst_slice job,
                                      struct mst_slice prefix, struct mst_slice after)
{
    struct mst_waiter waiter = {.command = MST_LIST,
                                .list = {.prefix = mst_blob_new(&core->mem, prefix),
                                         .after_name = mst_blob_new(&core->mem, after)}};

    if (!waiter.list.prefix || !waiter.list.after_name) {
        waiter.status = MUSTER_ENOMEM;
    }
    (void)look(core, waiter, job);
    mst_blob_drop(&core->mem, waiter.list.prefix);
    mst_blob_drop(&core->mem, waiter.list.after_name);
    return &core->reply;
}

void mst_look_jobs(struct mst_core *core, void (*fn)(void *ctx, const struct mst_job_look *look),
                   void *ctx)
{
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        struct mst_member *member = mst_member_first(job);
        struct mst_job_look look = {.name = job->named.name,
                                    .generation = job->generation,
                                    .saved_ranks = mst_counts_saved(job),
                                    .counts = &job->counts};

        mst_record_count(job);
        for (; member; member = mst_member_next(member)) {
            mst_member_count_loss(member);
            if (member->role != MST_ROLE_AGENT) {
                look.members[mst_member_state(member)]++;
            }
        }
        look.away_ns = mst_counts_away_now(job);
        look.away_cause = job->records.total > 0 ? job->records.first[0].who.cause : MST_CAUSE_NONE;
        look.counted_ns = job->counts.since_ns != 0 ? core->now_ns - job->counts.since_ns : 0;
        mst_progress_job(job, &look.rate, &look.stragglers);
        fn(ctx, &look);
    }
}
