/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generation.h"

#include "core/job.h"
#include "core/narrate.h"
#include "core/round.h"
#include "core/watch.h"

struct mst_view mst_generation_view(const struct mst_job *job, const struct mst_member *member)
{
    bool seated = member && mst_member_seated(member);

    return (struct mst_view){
        .generation = job->generation,
        .size = job->rank_count,
        .rank = seated ? member->seat.rank : MST_RANK_NONE,
        .index = member ? member->index : MST_INDEX_ANY,
        .incarnation = member ? member->incarnation : 0,
        .attention = job->attention,
    };
}

struct mst_view mst_generation_outside_view(const struct mst_job *job,
                                            const struct mst_member *member)
{
    struct mst_view view = mst_generation_view(job, member);

    view.incarnation = 0;
    view.rank = MST_RANK_NONE;
    return view;
}

struct mst_view mst_generation_session_view(const struct mst_session *session)
{
    return session->claiming ? mst_generation_outside_view(session->job, session->member)
                             : mst_generation_view(session->job, session->member);
}

static void touch_view(struct mst_job *job)
{
    job->view_revision = mst_job_next_revision(job);
    mst_watch_wake_view(job, job->view_revision);
}

void mst_generation_attention(struct mst_job *job, enum mst_attention attention)
{
    if (attention > job->attention) {
        job->attention = attention;
        touch_view(job);
    }
}

uint32_t mst_generation_min_size(const struct mst_job *job)
{
    return job->min_size > 0 ? job->min_size : 1;
}

/* ---- sealing ---- */

static void clear_seat(struct mst_core *core, struct mst_job *job, struct mst_member *member)
{
    struct mst_seat *seat = &member->seat;

    mst_tree_remove(&job->faults, &seat->fault_node);
    mst_blob_drop(&core->mem, seat->fault_text);
    mst_blob_drop(&core->mem, seat->host);
    *seat = (struct mst_seat){.rank = MST_RANK_NONE};
}

static void take_seat(struct mst_job *job, struct mst_member *member)
{
    bool newcomer = mst_list_linked(&member->in_ready);

    clear_seat(job->core, job, member);
    member->seat.incarnation = member->incarnation;
    member->seat.rank = job->rank_count;
    member->seat.pid = member->pid;
    member->seat.host = mst_blob_keep(member->host);
    member->seat.agent = member->agent;
    MST_ASSERT(job->rank_count < job->rank_room);
    job->ranks[job->rank_count++] = member;
    if (newcomer) {
        mst_list_remove(&member->in_ready);
        job->ready_count--;
        mst_member_touch(member);
    }
}

static bool lets_in(const struct mst_job *job)
{
    return job->alive == 0 || job->grow != MST_GROW_OFF;
}

/* A rank of the old generation that stands at the seal, or a newcomer that is ready. */
static bool goes_on(const struct mst_job *job, const struct mst_member *member)
{
    if (mst_list_linked(&member->in_ready)) {
        return lets_in(job);
    }
    if (!job->seal || !mst_member_seated(member)) {
        return false;
    }
    return mst_round_part(job->seal, member)->arrived;
}

/* Sorted by index, which for survivors keeps their order. The array is overwritten as it is read
 * from the places, so no second one is needed. */
static void seat_all(struct mst_job *job)
{
    struct mst_member *member = mst_member_from(job, MST_ROLE_RANK, 0);

    job->rank_count = 0;
    for (; member && member->role == MST_ROLE_RANK; member = mst_member_next(member)) {
        if (goes_on(job, member)) {
            take_seat(job, member);
        } else {
            clear_seat(job->core, job, member);
        }
    }
}

static void tell_seal(struct mst_job *job)
{
    MST_LIST_EACH(node, following, &job->seal->waiters)
    {
        struct mst_waiter *waiter = MST_CONTAINER(node, struct mst_waiter, in_round);

        mst_waiter_set_view(waiter, mst_generation_view(job, waiter->member));
    }
    mst_round_tell(job->seal);
}

static void tell_joined(struct mst_job *job)
{
    for (uint32_t rank = 0; rank < job->rank_count; rank++) {
        struct mst_member *member = job->ranks[rank];
        struct mst_waiter *join = member->session->join;

        if (join) {
            mst_waiter_set_view(join, mst_generation_view(job, member));
            mst_waiter_answer(join, MUSTER_OK);
        }
    }
}

static void seal(struct mst_job *job)
{
    struct mst_line line;
    uint64_t last = job->floor > job->generation ? job->floor : job->generation;

    if (job->seal) {
        mst_round_decide(job->seal, MUSTER_OK); /* while the old seats are there to name */
    }
    seat_all(job);
    job->generation = last + 1;
    job->attention = MST_CALM;
    job->alive = job->rank_count;
    job->join_due = false;
    mst_alarm_clear(&job->core->alarms, &job->join_alarm);
    if (mst_narrate_begin(&line, job, MST_INFO, "generation-sealed ")) {
        mst_text_u64(&line.text, job->generation);
        mst_narrate_number(&line, "size", job->rank_count);
        mst_narrate_end(&line);
    }
    if (job->seal) {
        tell_seal(job);
    }
    mst_round_drop_all(job);
    mst_keyspace_drop(job, &job->generation_keys, MUSTER_EFENCED);
    tell_joined(job);
    touch_view(job);
}

/* ---- when ---- */

static void settle_seal(struct mst_job *job)
{
    struct mst_round *round = job->seal;
    uint32_t survivors = 0;
    uint32_t total;

    if (!round || round->settled < round->part_count) {
        return;
    }
    for (uint32_t i = 0; i < round->part_count; i++) {
        survivors += round->parts[i].arrived && !round->parts[i].lost;
    }
    total = survivors + (lets_in(job) ? job->ready_count : 0);
    /* Nobody left to go on with: that is a generation from nobody, with its own condition. */
    if (survivors == 0 || total < mst_generation_min_size(job)) {
        mst_round_close(round, MUSTER_ETOOFEW);
    } else {
        seal(job);
    }
}

static void settle_from_nobody(struct mst_job *job)
{
    struct mst_core *core = job->core;

    if (job->alive > 0 || job->ready_count == 0) {
        mst_alarm_clear(&core->alarms, &job->join_alarm);
        job->join_due = false;
        return;
    }
    if (job->size != 0 && job->ready_count >= job->size) {
        seal(job);
        return;
    }
    if (job->join_due && job->ready_count >= mst_generation_min_size(job)) {
        seal(job);
        return;
    }
    if (!job->join_due && job->join_wait_ms != 0 && !mst_alarm_is_set(&job->join_alarm)) {
        mst_alarm_set(&core->alarms, &job->join_alarm, core->now_ns,
                      mst_alarm_moment(core->now_ns, job->join_wait_ms));
    }
}

void mst_generation_settle(struct mst_job *job)
{
    settle_seal(job);
    settle_from_nobody(job);
}

void mst_generation_end(struct mst_job *job)
{
    for (uint32_t rank = 0; rank < job->rank_count; rank++) {
        clear_seat(job->core, job, job->ranks[rank]);
    }
    job->rank_count = 0;
    job->alive = 0;
    job->attention = MST_CALM;
    job->join_due = false;
    mst_alarm_clear(&job->core->alarms, &job->join_alarm);
    mst_round_drop_all(job);
    mst_keyspace_drop(job, &job->generation_keys, MUSTER_EFENCED);
}
