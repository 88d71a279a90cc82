/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/job.h"

#include "service/core/generation.h"
#include "service/core/host.h"
#include "service/core/narrate.h"
#include "service/core/node.h"
#include "service/core/round.h"
#include "service/core/seating.h"
#include "service/core/watch.h"

struct mst_job *mst_job_find(struct mst_core *core, struct mst_slice name)
{
    return mst_named_find(&core->jobs, name);
}

struct mst_job *mst_job_make(struct mst_core *core, struct mst_slice name)
{
    struct mst_job *job = mst_named_new(&core->mem, sizeof(*job), name);

    if (!job) {
        return NULL;
    }
    job->past = mst_past_make(core, name);
    if (!job->past) {
        mst_mem_release(&core->mem, job);
        return NULL;
    }
    job->core = core;
    job->floor = job->past->generation;
    job->join_alarm.kind = MST_ALARM_JOIN;
    mst_list_init(&job->ready);
    mst_index_init(&job->members);
    mst_index_init(&job->changes);
    mst_index_init(&job->node_changes);
    mst_index_init(&job->faults);
    mst_index_init(&job->nodes);
    mst_names_init(&job->hosts);
    mst_list_init(&job->sessions);
    mst_keyspace_init(&job->keys, core);
    mst_keyspace_init(&job->generation_keys, core);
    for (unsigned topic = 0; topic < MST_TOPICS; topic++) {
        mst_list_init(&job->watching[topic]);
    }
    mst_index_init(&job->watching_nodes);
    mst_names_init(&job->round_names);
    return job;
}

void mst_job_publish(struct mst_job *job)
{
    struct mst_core *core = job->core;

    if (!mst_job_published(job)) {
        mst_past_begin(core, job->past);
        job->serial = ++core->job_serial;
        mst_named_add(&core->jobs, &job->named);
    }
}

bool mst_job_published(const struct mst_job *job)
{
    return mst_named_added(&job->named);
}

static void release(struct mst_job *job)
{
    struct mst_core *core = job->core;

    MST_ASSERT(job->dropped && job->references == 0);
    while (job->members.root) {
        struct mst_member *member = mst_member_first(job);

        mst_index_remove(&job->members, &member->place);
        mst_member_free(core, member);
    }
    mst_host_free_all(job);
    mst_record_clear(job);
    mst_history_clear(job);
    mst_progress_clear(job);
    mst_mem_release(&core->mem, job->ranks);
    mst_mem_release(&core->mem, job);
}

void mst_job_unmake(struct mst_job *job)
{
    MST_ASSERT(!mst_job_published(job));
    mst_past_unmake(job->core, job->past);
    job->past = NULL;
    job->dropped = true;
    release(job);
}

void mst_job_keep(struct mst_job *job)
{
    job->references++;
}

void mst_job_let_go(struct mst_job *job)
{
    MST_ASSERT(job->references > 0);
    if (--job->references == 0 && job->dropped) {
        release(job);
    }
}

static bool agrees(uint64_t mine, uint64_t theirs, uint64_t *limit_out)
{
    if (mine != 0 && theirs != 0 && mine != theirs) {
        *limit_out = mine;
        return false;
    }
    return true;
}

static uint32_t either(uint32_t mine, uint32_t theirs)
{
    return mine != 0 ? mine : theirs;
}

/* Whether they allow a generation. */
static bool can_be_met(const struct mst_job *job, const struct mst_open *open, uint64_t *limit_out)
{
    uint32_t size = either(job->size, open->size);
    uint32_t max_size = either(job->max_size, open->max_size);
    uint32_t multiple = either(job->size_multiple, open->size_multiple);
    uint32_t most = size != 0 ? size : max_size != 0 ? max_size : UINT32_MAX;
    uint32_t min_size = either(either(job->min_size, open->min_size), 1);

    if (max_size != 0 && size > max_size) {
        *limit_out = max_size;
        return false;
    }
    if (mst_seating_fit_to(max_size, multiple, most) < min_size) {
        *limit_out = most < min_size ? most : multiple;
        return false;
    }
    return true;
}

bool mst_job_agrees(const struct mst_job *job, const struct mst_open *open, uint64_t *limit_out)
{
    return can_be_met(job, open, limit_out) && agrees(job->size, open->size, limit_out) &&
           agrees(job->min_size, open->min_size, limit_out) &&
           agrees(job->max_size, open->max_size, limit_out) &&
           agrees(job->size_multiple, open->size_multiple, limit_out) &&
           agrees(job->join_wait_ms, open->join_wait_ms, limit_out);
}

void mst_job_adopt(struct mst_job *job, const struct mst_open *open)
{
    if (job->size == 0 && open->size != 0) {
        job->size = open->size;
        job->grow = open->grow;
        mst_job_mark(job);
    }
    if ((job->max_size == 0 && open->max_size != 0) ||
        (job->size_multiple == 0 && open->size_multiple != 0)) {
        mst_job_mark(job); /* a seal may wait for ranks that have no seat any more */
    }
    job->min_size = either(job->min_size, open->min_size);
    job->max_size = either(job->max_size, open->max_size);
    job->size_multiple = either(job->size_multiple, open->size_multiple);
    if (job->join_wait_ms == 0 && open->join_wait_ms != 0) {
        job->join_wait_ms = open->join_wait_ms;
        mst_job_mark(job);
    }
}

uint64_t mst_job_next_revision(struct mst_job *job)
{
    MST_ASSERT(!job->core->held);
    mst_core_raise(job->core, MST_WEIGHT_PROMISE);
    return ++job->revision;
}

void mst_job_mark(struct mst_job *job)
{
    if (!mst_list_linked(&job->in_dirty) && !job->dropped) {
        mst_list_append(&job->core->dirty, &job->in_dirty);
    }
}

/* What outlives the job. From now on only waiters and connections refer to it, for any time: it
 * must decide nothing any more. */
static void remember(struct mst_job *job)
{
    struct mst_member *member = mst_member_first(job);

    job->past->generation = mst_later(job->generation, job->floor);
    for (; member; member = mst_member_next(member)) {
        job->past->incarnation = mst_later(job->past->incarnation, member->incarnation);
        mst_member_forget_fence(member);
    }
    mst_past_end(job->core, job->past);
    job->past = NULL;
}

static void drop(struct mst_job *job)
{
    struct mst_core *core = job->core;

    mst_core_raise(core, MST_WEIGHT_PROMISE);
    remember(job);
    mst_keyspace_drop(job, &job->keys, MUSTER_EFENCED);
    mst_alarm_clear(core, &job->join_alarm);
    mst_named_remove(&core->jobs, &job->named);
    mst_list_remove(&job->in_dirty);
    job->dropped = true;
    if (job->references == 0) {
        release(job);
    }
}

/* The last session ended. The numbers stay; the generation and the parameters go. */
static void vacate(struct mst_job *job)
{
    mst_generation_end(job);
    job->size = 0;
    job->min_size = 0;
    job->max_size = 0;
    job->size_multiple = 0;
    job->join_wait_ms = 0;
    job->grow = MST_GROW_CHECK;
}

static bool has_agent(const struct mst_job *job)
{
    MST_EACH(session, &job->sessions, const struct mst_session, in_job) {
        if (session->member && session->role == MST_ROLE_AGENT) {
            return true;
        }
    }
    return false;
}

/* No rank is left. A group that is started again in the middle of its work begins with the first
 * run, and so does a group without an agent; else a new rank is late for the completed runs. */
static void settle_finals(struct mst_job *job)
{
    if (job->finals > 0 && job->living == 0 && (!job->at_rest || !has_agent(job))) {
        job->finals = 0;
    }
}

static void settle(struct mst_job *job)
{
    settle_finals(job);
    if (!mst_list_empty(&job->sessions)) {
        mst_generation_settle(job);
        return;
    }
    vacate(job);
    if (job->keys.live == 0) {
        mst_narrate(job, MST_DEBUG, "job-ended");
        drop(job);
    }
}

void mst_job_settle_all(struct mst_core *core)
{
    struct mst_list *node;

    while ((node = mst_list_take(&core->dirty))) {
        settle(MST_CONTAINER(node, struct mst_job, in_dirty));
    }
}

void mst_job_destroy(struct mst_job *job)
{
    vacate(job);
    drop(job);
}
