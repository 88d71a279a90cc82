/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/generation.h"

#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/round.h"
#include "service/core/seating.h"
#include "service/core/watch.h"

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
        .faults = job->fault_count,
        .spare = member && member->spare,
        .ordered = job->ordered,
        .size_of_job = job->size,
    };
}

struct mst_view mst_generation_outside_view(const struct mst_job *job,
                                            const struct mst_member *member)
{
    struct mst_view view = mst_generation_view(job, member);

    view.incarnation = 0;
    view.rank = MST_RANK_NONE;
    view.spare = false;
    return view;
}

struct mst_view mst_generation_session_view(const struct mst_session *session)
{
    return session->claiming ? mst_generation_outside_view(session->job, session->member)
                             : mst_generation_view(session->job, session->member);
}

muster_status mst_generation_fence(const struct mst_session *session, struct mst_waiter *waiter)
{
    mst_waiter_set_view(waiter, mst_generation_session_view(session));
    return MUSTER_EFENCED;
}

static void touch_view(struct mst_job *job)
{
    job->view_revision = mst_job_next_revision(job);
    mst_watch_wake(job, MST_TOPIC_VIEW, job->view_revision);
}

void mst_generation_attention(struct mst_job *job, enum mst_attention attention)
{
    if (attention > job->attention) {
        job->attention = attention;
        if (attention == MST_INTERRUPT) {
            job->interrupted_ns = job->core->now_ns;
        }
        touch_view(job);
    }
}

uint32_t mst_generation_min_size(const struct mst_job *job)
{
    return job->min_size > 0 ? job->min_size : 1;
}

/* ---- sealing ---- */

void mst_generation_clear_seat(struct mst_member *member)
{
    struct mst_job *job = member->job;
    struct mst_seat *seat = &member->seat;

    mst_index_remove(&job->faults, &seat->fault_node);
    mst_blob_drop(&job->core->mem, seat->fault_text);
    mst_blob_drop(&job->core->mem, seat->host);
    *seat = (struct mst_seat){.rank = MST_RANK_NONE};
}

static void tell_seal(struct mst_job *job)
{
    MST_EACH(waiter, &job->seal->waiters, struct mst_waiter, in_round) {
        mst_waiter_set_view(waiter, mst_generation_view(job, waiter->member));
    }
    mst_round_tell(job->seal);
}

void mst_generation_tell_join(struct mst_waiter *join, const struct mst_member *member)
{
    mst_waiter_set_view(join, mst_generation_view(member->job, member));
    join->value = mst_blob_keep(member->job->sealed_value);
    join->number = (int64_t)member->job->finals;
    mst_waiter_answer(join, MUSTER_OK);
}

static void tell_joined(struct mst_job *job)
{
    for (uint32_t rank = 0; rank < job->rank_count; rank++) {
        struct mst_member *member = job->ranks[rank];
        struct mst_waiter *join = member->session->join;

        if (join) {
            mst_generation_tell_join(join, member);
        }
    }
}

/* A generation ended because of a fault, a loss or newcomers. The first generation is no restart,
 * nor is the second step of an assignment, which only changes the order of the ranks. */
static bool is_restart(const struct mst_job *job, const struct mst_seating *seating)
{
    return job->rank_count > 0 && (job->records.total > 0 || seating->seats > seating->survivors);
}

static void seal(struct mst_job *job, const struct mst_seating *seating)
{
    uint64_t last = mst_later(job->floor, job->generation);
    bool restarted = is_restart(job, seating);
    uint32_t before = job->rank_count;

    if (job->seal) {
        mst_round_decide(job->seal, MUSTER_OK); /* while the old seats are there to name */
    }
    mst_seating_carry_out(job, seating);
    /* It lasts until the next seal, because a JOIN may be answered late. */
    mst_blob_drop(&job->core->mem, job->sealed_value);
    job->sealed_value = mst_blob_keep(job->seal ? job->seal->value : NULL);
    job->generation = last + 1;
    mst_record_seal(job, restarted);
    mst_history_sealed(job, job->seal, before);
    mst_counts_restart(job, restarted ? job->seal : NULL);
    job->attention = MST_CALM;
    job->alive = job->rank_count;
    job->join_due = false;
    mst_alarm_clear(job->core, &job->join_alarm);
    mst_narrate(job, MST_INFO, "generation-sealed %" PRIu64 " size=%u", job->generation,
                job->rank_count);
    if (job->seal) {
        tell_seal(job);
    }
    mst_round_drop_all(job);
    mst_keyspace_drop(job, &job->generation_keys, MUSTER_EFENCED);
    tell_joined(job);
    mst_seating_survey(job);
    touch_view(job);
}

/* ---- when ---- */

bool mst_generation_can_begin(const struct mst_job *job)
{
    return job->alive > 0 || job->size != 0 || job->join_wait_ms != 0;
}

bool mst_generation_waits_for_more(const struct mst_round *seal)
{
    return seal->number > 0 && seal->arrived > 0 && mst_alarm_is_set(&seal->alarm);
}

bool mst_generation_waits_for_places(const struct mst_round *seal)
{
    struct mst_seating seating;

    if (seal->replace_ms == 0) {
        return false;
    }
    seating = mst_seating_plan(seal->job);
    return seating.survivors > 0 && mst_seating_awaited(seal->job, &seating) > 0;
}

/* All others have arrived: from now on the seal waits for replacements alone. */
static void await_places(struct mst_round *seal)
{
    struct mst_core *core = seal->job->core;

    if (!mst_alarm_is_set(&seal->replace_alarm)) {
        mst_alarm_set(core, &seal->replace_alarm, mst_alarm_moment(core->now_ns, seal->replace_ms));
        mst_narrate(seal->job, MST_INFO, "replace-wait ms=%" PRIu64, seal->replace_ms);
    }
}

static void settle_seal(struct mst_job *job)
{
    struct mst_round *round = job->seal;
    struct mst_seating seating;

    if (!round || round->settled < round->part_count) {
        return;
    }
    if (mst_generation_waits_for_places(round)) {
        await_places(round);
        return;
    }
    mst_alarm_clear(job->core, &round->replace_alarm);
    seating = mst_seating_plan(job);
    /* Without survivors the next generation has no predecessors, and its own condition. */
    if (seating.survivors == 0 || seating.seats < mst_generation_min_size(job)) {
        if (seating.survivors > 0 && mst_generation_waits_for_more(round)) {
            return;
        }
        mst_round_decide(round, MUSTER_ETOOFEW);
        if (seating.survivors > 0) {
            mst_history_too_few(job, seating.there);
        }
        if (seating.there >= mst_generation_min_size(job) && !seating.ordered) {
            round->detail.multiple = job->size_multiple;
        }
        mst_round_tell(round);
    } else {
        seal(job, &seating);
    }
}

/* A process that an agent of the run started, and that came as a worker: no rank will come to its
 * place. Workers that were started otherwise have indices of their own, beside those of ranks.
 * NULL: there is none, or the job starts without it. */
static struct mst_member *worker_in_the_way(const struct mst_job *job)
{
    bool waits_for_all = job->size != 0 && job->join_wait_ms == 0 && job->max_size == 0;
    struct mst_member *worker = waits_for_all ? mst_member_from(job, MST_ROLE_WORKER, 0) : NULL;

    for (; worker && worker->role == MST_ROLE_WORKER && worker->index < job->size;
         worker = mst_member_next(worker)) {
        const struct mst_member *rank = mst_member_find(job, MST_ROLE_RANK, worker->index);

        if (!worker->end && worker->agent < MST_HELPERS_FROM && (!rank || rank->end)) {
            return worker;
        }
    }
    return NULL;
}

/* They would wait forever. */
static void refuse_beside(struct mst_job *job, struct mst_member *worker)
{
    MST_EACH(member, &job->ready, struct mst_member, in_ready) {
        struct mst_waiter *join = member->session->join;

        if (join) {
            mst_waiter_name_holder(join, worker);
            mst_waiter_answer(join, MUSTER_EINVAL);
        }
    }
}

static void settle_from_nobody(struct mst_job *job)
{
    struct mst_core *core = job->core;
    struct mst_seating seating;
    struct mst_member *worker;

    if (job->alive > 0 || job->ready_count == 0) {
        mst_alarm_clear(core, &job->join_alarm);
        job->join_due = false;
        return;
    }
    worker = worker_in_the_way(job);
    if (worker) {
        refuse_beside(job, worker);
        return;
    }
    seating = mst_seating_plan(job);
    if (seating.seats >= mst_generation_min_size(job) &&
        (job->join_due || (job->size != 0 && job->ready_count >= job->size))) {
        seal(job, &seating);
        return;
    }
    if (!job->join_due && job->join_wait_ms != 0 && !mst_alarm_is_set(&job->join_alarm)) {
        mst_alarm_set(core, &job->join_alarm, mst_alarm_moment(core->now_ns, job->join_wait_ms));
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
        mst_generation_clear_seat(job->ranks[rank]);
    }
    mst_blob_drop(&job->core->mem, job->sealed_value);
    job->sealed_value = NULL;
    job->finals = 0;
    job->at_rest = false;
    job->ordered = false;
    job->rank_count = 0;
    job->alive = 0;
    job->attention = MST_CALM;
    job->interrupted_ns = 0;
    mst_record_clear(job);
    job->join_due = false;
    mst_alarm_clear(job->core, &job->join_alarm);
    mst_round_drop_all(job);
    mst_keyspace_drop(job, &job->generation_keys, MUSTER_EFENCED);
}
