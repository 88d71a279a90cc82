/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/seating.h"

#include "service/core/generation.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/node.h"

/* ---- how many ---- */

uint32_t mst_seating_fit_to(uint32_t max_size, uint32_t size_multiple, uint32_t count)
{
    if (max_size != 0 && count > max_size) {
        count = max_size;
    }
    return size_multiple != 0 ? count - count % size_multiple : count;
}

uint32_t mst_seating_fit(const struct mst_job *job, uint32_t count)
{
    return mst_seating_fit_to(job->max_size, job->size_multiple, count);
}

/* Whether newcomers are admitted now. */
static bool lets_in(const struct mst_job *job)
{
    return job->alive == 0 || job->grow != MST_GROW_OFF;
}

/* ---- survivors and joiners ---- */

static bool stands(const struct mst_round_part *part)
{
    return part->arrived && !part->lost;
}

static bool order_holds(const struct mst_round *round)
{
    for (uint32_t i = 0; i < round->part_count; i++) {
        if (round->parts[i].place != 0 && !stands(&round->parts[i])) {
            return false;
        }
    }
    return round->order_count > 0;
}

struct mst_seating mst_seating_plan(const struct mst_job *job)
{
    const struct mst_round *round = job->seal;
    struct mst_seating seating = {0};

    for (uint32_t i = 0; round && i < round->part_count; i++) {
        seating.survivors += stands(&round->parts[i]);
    }
    seating.there = seating.survivors + (lets_in(job) ? job->ready_count : 0);
    seating.ordered = round && order_holds(round);
    seating.seats = seating.ordered ? round->order_count : mst_seating_fit(job, seating.there);
    return seating;
}

/* ---- lost ranks that are replaced ---- */

/* It left of its own accord. One that left after a fault, of its health for example, is replaced
 * like a lost one, unless its agent says otherwise. */
static bool left_for_good(const struct mst_seat *seat)
{
    return seat->cause == MST_CAUSE_LEFT &&
           (seat->fault_cause == MST_CAUSE_NONE || seat->fault_cause == MST_CAUSE_LEFT);
}

bool mst_seating_awaits(const struct mst_member *member)
{
    const struct mst_seat *seat = &member->seat;

    return seat->gone && !left_for_good(seat) && !member->last &&
           !mst_list_linked(&member->in_ready) && mst_node_replaces(member->job, member->agent);
}

uint32_t mst_seating_awaited(const struct mst_job *job, const struct mst_seating *seating)
{
    uint32_t awaited = 0;

    if (seating->ordered || !lets_in(job)) {
        return 0;
    }
    for (uint32_t rank = 0; rank < job->rank_count; rank++) {
        awaited += mst_seating_awaits(job->ranks[rank]);
    }
    return mst_seating_fit(job, seating->there + awaited) > seating->seats ? awaited : 0;
}

/* ---- seating ---- */

static void take_seat(struct mst_member *member, uint32_t rank)
{
    struct mst_job *job = member->job;

    mst_generation_clear_seat(member);
    member->seat.incarnation = member->incarnation;
    member->seat.rank = rank;
    member->seat.pid = member->pid;
    member->seat.host = mst_blob_keep(member->host);
    member->seat.agent = member->agent;
    member->spare = false;
    MST_ASSERT(rank < job->rank_room);
    job->ranks[rank] = member;
    job->rank_count++;
    if (mst_list_linked(&member->in_ready)) {
        mst_list_remove(&member->in_ready);
        job->ready_count--;
        mst_member_touch(member);
    }
}

static void stand_aside(struct mst_member *member)
{
    member->spare = true;
    mst_narrate_event(member, MST_INFO, "member-spare");
    mst_member_touch(member);
}

/* There is no seat for it. An order before may have left it out; if it has not asked again, the
 * next order may include it, so it counts as a newcomer when it asks. */
static void leave_out(struct mst_member *member, bool stood)
{
    mst_generation_clear_seat(member);
    if (stood) {
        stand_aside(member);
    } else if (member->spare && member->job->ordered && !mst_list_linked(&member->in_ready)) {
        member->spare = false;
        mst_member_touch(member);
    }
}

static bool stands_at_seal(const struct mst_job *job, const struct mst_member *member)
{
    return job->seal && mst_member_seated(member) && stands(mst_round_part(job->seal, member));
}

static void choose(struct mst_job *job, uint32_t seats)
{
    struct mst_member *member = mst_member_from(job, MST_ROLE_RANK, 0);

    for (; member && member->role == MST_ROLE_RANK; member = mst_member_next(member)) {
        member->chosen = seats > 0 && stands_at_seal(job, member);
        seats -= member->chosen;
    }
    MST_EACH(joiner, &job->ready, struct mst_member, in_ready) {
        joiner->chosen = seats > 0;
        seats -= joiner->chosen;
    }
}

/* Sorted by index, which for survivors keeps their order, if that had none of its own. The array is
 * overwritten while members are found by their places, so no second one is needed. */
static void seat_by_index(struct mst_job *job, uint32_t seats)
{
    struct mst_member *member = mst_member_from(job, MST_ROLE_RANK, 0);

    choose(job, seats);
    for (; member && member->role == MST_ROLE_RANK; member = mst_member_next(member)) {
        bool chosen = member->chosen;
        bool stood = stands_at_seal(job, member);

        member->chosen = false;
        if (chosen) {
            take_seat(member, job->rank_count);
        } else {
            leave_out(member, stood);
        }
    }
}

static void seat_by_order(struct mst_round *round)
{
    for (uint32_t i = 0; i < round->part_count; i++) {
        const struct mst_round_part *part = &round->parts[i];
        struct mst_member *member = part->member;

        if (part->place != 0) {
            take_seat(member, part->place - 1);
        } else {
            mst_generation_clear_seat(member);
            if (stands(part)) {
                stand_aside(member);
            }
        }
    }
}

void mst_seating_carry_out(struct mst_job *job, const struct mst_seating *seating)
{
    job->rank_count = 0;
    if (seating->ordered) {
        seat_by_order(job->seal);
    } else {
        seat_by_index(job, seating->seats);
    }
    MST_ASSERT(job->rank_count == seating->seats);
    job->ordered = seating->ordered;
}

/* ---- members without a seat ---- */

static void tell_spare(struct mst_member *member)
{
    struct mst_waiter *join = member->session->join;
    struct mst_view view = mst_generation_view(member->job, member);

    view.spare = true;
    mst_waiter_set_view(join, view);
    join->number = (int64_t)mst_seating_heard(member->job, join->join.heard);
    mst_waiter_answer(join, MUSTER_OK);
}

static void pass_over(struct mst_member *member)
{
    const struct mst_waiter *join = member->session->join;

    if (!member->spare) {
        mst_core_raise(member->job->core, MST_WEIGHT_PROMISE);
        stand_aside(member);
    }
    if (join && join->join.spare) {
        tell_spare(member);
    }
}

uint64_t mst_seating_heard(const struct mst_job *job, uint64_t heard)
{
    return heard < job->finals ? heard + 1 : job->finals;
}

/* One run at a time, so that the k-th run of a process is the k-th run of the job: a late process
 * is answered for each run that it missed, and never runs the function of one run beside another.
 */
void mst_seating_joins(struct mst_member *member)
{
    if (member->session->join->join.heard < member->job->finals) {
        mst_core_raise(member->job->core, MST_WEIGHT_PROMISE);
        tell_spare(member);
    } else {
        mst_member_set_ready(member);
    }
}

void mst_seating_finish(struct mst_job *job)
{
    job->finals++;
    job->at_rest = true;
    MST_LIST_EACH(node, following, &job->ready)
    {
        tell_spare(MST_CONTAINER(node, struct mst_member, in_ready));
    }
}

/* ---- growth ---- */

/* A member that this order left out requests nothing: the next order would leave it out again. */
static void ask_to_grow(struct mst_job *job, const struct mst_member *member)
{
    if (job->grow == MST_GROW_CHECK && job->attention == MST_CALM &&
        !(job->ordered && member->spare)) {
        mst_narrate(job, MST_INFO, "grow requested-by=#%u", member->index);
        mst_generation_attention(job, MST_GROW);
    }
}

void mst_seating_newcomer(struct mst_member *member)
{
    struct mst_job *job = member->job;

    if (job->alive == 0) {
        return;
    }
    if (mst_seating_fit(job, job->alive + job->ready_count) > job->alive) {
        ask_to_grow(job, member); /* a seal now would seat more */
    } else {
        pass_over(member);
    }
}

void mst_seating_survey(struct mst_job *job)
{
    MST_LIST_EACH(node, following, &job->ready)
    {
        mst_seating_newcomer(MST_CONTAINER(node, struct mst_member, in_ready));
    }
}

/* ---- an order ---- */

/* The part of a rank of the generation, which may be lost. */
static struct mst_round_part *part_of(const struct mst_round *round, uint32_t index)
{
    const struct mst_member *member = mst_member_find(round->job, MST_ROLE_RANK, index);

    return member && member->seat.incarnation != 0 ? &round->parts[member->seat.rank] : NULL;
}

muster_status mst_seating_order(struct mst_round *round, const struct mst_round_request *request,
                                struct mst_waiter *waiter)
{
    const struct mst_job *job = round->job;

    if (request->order_count == 0) {
        return MUSTER_OK;
    }
    if (round->order_count > 0) {
        return MUSTER_EMISMATCH;
    }
    if (job->max_size != 0 && request->order_count > job->max_size) {
        return mst_waiter_exceed(waiter, MST_LIMIT_MAX_SIZE, job->max_size, request->order_count);
    }
    if (mst_seating_fit(job, request->order_count) != request->order_count) {
        return MUSTER_EINVAL;
    }
    MST_ASSERT(round->parts || round->part_count == 0);
    for (uint32_t i = 0; i < request->order_count; i++) {
        struct mst_round_part *part = part_of(round, request->order[i]);

        if (!part || part->place != 0) {
            for (uint32_t one = 0; one < round->part_count; one++) {
                round->parts[one].place = 0;
            }
            return MUSTER_EINVAL;
        }
        part->place = i + 1;
    }
    round->order_count = request->order_count;
    return MUSTER_OK;
}

/* Each place marks the part that has its number: a place that occurs twice shows in the count. */
bool mst_seating_order_whole(const struct mst_round *round)
{
    uint32_t missing = round->order_count;
    bool fits = round->seal || round->order_count == 0;

    for (uint32_t i = 0; i < round->part_count; i++) {
        uint32_t place = round->parts[i].place;

        if (place > round->order_count || place > round->part_count || !fits) {
            fits = false;
        } else if (place != 0) {
            round->parts[place - 1].member->chosen = true;
        }
    }
    for (uint32_t i = 0; i < round->part_count && round->seal; i++) {
        missing -= round->parts[i].member->chosen;
        round->parts[i].member->chosen = false;
    }
    return fits && missing == 0;
}
