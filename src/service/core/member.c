/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/member.h"

#include <string.h>

#include "proto/words.h"
#include "service/core/generation.h"
#include "service/core/host.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/node.h"
#include "service/core/record.h"
#include "service/core/round.h"
#include "service/core/seating.h"
#include "service/core/watch.h"

/* ---- the indexes it is in ---- */

static struct mst_member *at_place(struct mst_index_node *place)
{
    return MST_CONTAINER_OR_NULL(place, struct mst_member, place);
}

struct mst_member *mst_member_fenced(struct mst_core *core, struct mst_token token)
{
    return MST_CONTAINER_OR_NULL(mst_index_find(&core->fences, token.high, token.low),
                                 struct mst_member, fence);
}

struct mst_member *mst_member_find(const struct mst_job *job, enum mst_role role, uint32_t index)
{
    return at_place(mst_index_find(&job->members, role, index));
}

struct mst_member *mst_member_from(const struct mst_job *job, enum mst_role role, uint32_t index)
{
    return at_place(mst_index_from(&job->members, role, index));
}

struct mst_member *mst_member_first(const struct mst_job *job)
{
    return at_place(mst_index_first(&job->members));
}

struct mst_member *mst_member_next(const struct mst_member *member)
{
    return at_place(mst_index_next(&member->place));
}

uint32_t mst_member_node(const struct mst_member *member)
{
    return member->role == MST_ROLE_AGENT ? member->index : member->agent;
}

struct mst_member *mst_member_changed(const struct mst_job *job, uint32_t node, uint64_t revision)
{
    struct mst_member *member;

    if (node == MST_NODE_NONE) {
        return MST_CONTAINER_OR_NULL(mst_index_from(&job->changes, revision, 0), struct mst_member,
                                     change_node);
    }
    member = MST_CONTAINER_OR_NULL(mst_index_from(&job->node_changes, node, revision),
                                   struct mst_member, node_change_node);
    return member && mst_member_node(member) == node ? member : NULL;
}

bool mst_member_set_change(struct mst_member *member)
{
    struct mst_job *job = member->job;
    uint32_t node = mst_member_node(member);

    return mst_index_try(&job->changes, &member->change_node, member->revision, 0) &&
           (node == MST_NODE_NONE ||
            mst_index_try(&job->node_changes, &member->node_change_node, node, member->revision));
}

struct mst_member *mst_member_faulted(const struct mst_job *job, uint64_t revision)
{
    return MST_CONTAINER_OR_NULL(mst_index_from(&job->faults, revision, 0), struct mst_member,
                                 seat.fault_node);
}

/* ---- places ---- */

uint32_t mst_member_free_index(struct mst_job *job, enum mst_role role, uint32_t from)
{
    uint32_t *free_from = from == MST_HELPERS_FROM ? &job->free_helper : &job->free_from[role];
    uint32_t index = *free_from > from ? *free_from : from;
    const struct mst_member *member = mst_member_from(job, role, index);

    while (member && member->role == role && member->index == index && !member->end) {
        index++;
        member = mst_member_next(member);
    }
    *free_from = index;
    return index;
}

/* The place is free from now on. */
static void free_index(struct mst_job *job, const struct mst_member *member)
{
    uint32_t *free_from = &job->free_from[member->role];

    *free_from = member->index < *free_from ? member->index : *free_from;
    if (member->role == MST_ROLE_AGENT && job->free_helper > member->index) {
        job->free_helper = member->index;
    }
}

/* Room in the next view for one more rank. */
static bool reserve_rank(struct mst_job *job)
{
    uint32_t room = job->rank_room ? job->rank_room * 2 : 8;
    struct mst_member **ranks;

    if (job->rank_places < job->rank_room) {
        return true;
    }
    ranks = mst_mem_array(&job->core->mem, room, sizeof(struct mst_member *));
    if (!ranks) {
        return false;
    }
    if (job->rank_count > 0) {
        memcpy(ranks, job->ranks, job->rank_count * sizeof(struct mst_member *));
    }
    mst_mem_release(&job->core->mem, job->ranks);
    job->ranks = ranks;
    job->rank_room = room;
    return true;
}

struct mst_member *mst_member_new(struct mst_job *job, enum mst_role role, uint32_t index)
{
    struct mst_member *member;

    if (role == MST_ROLE_RANK && !reserve_rank(job)) {
        return NULL;
    }
    member = mst_mem_zalloc(&job->core->mem, sizeof(*member));
    if (!member) {
        return NULL;
    }
    member->job = job;
    member->role = role;
    member->index = index;
    member->end = MST_ABSENT;
    member->agent = MST_NODE_NONE;
    member->incarnation = job->past->incarnation; /* of its last holder at most */
    mst_index_put(&job->members, &member->place, role, index);
    job->rank_places += role == MST_ROLE_RANK;
    return member;
}

void mst_member_forget(struct mst_member *member)
{
    struct mst_job *job = member->job;

    MST_ASSERT(member->end == MST_ABSENT);
    mst_index_remove(&job->members, &member->place);
    job->rank_places -= member->role == MST_ROLE_RANK;
    mst_member_free(job->core, member);
}

void mst_member_free(struct mst_core *core, struct mst_member *member)
{
    MST_ASSERT(!member->session && !member->claimant);
    mst_member_forget_fence(member);
    mst_blob_drop(&core->mem, member->text);
    mst_blob_drop(&core->mem, member->host);
    mst_blob_drop(&core->mem, member->seat.host);
    mst_blob_drop(&core->mem, member->seat.fault_text);
    mst_progress_forget(core, member);
    mst_mem_release(&core->mem, member);
}

void mst_member_touch(struct mst_member *member)
{
    struct mst_job *job = member->job;
    enum mst_state state = mst_member_state(member);
    bool fresh;

    if (state != member->state) {
        member->state = state;
        member->state_ns = job->core->now_ns;
    }
    if (job->core->held) { /* watchers would see a revision that no journal has */
        member->owes_touch = true;
        return;
    }
    mst_index_remove(&job->changes, &member->change_node);
    mst_index_remove(&job->node_changes, &member->node_change_node);
    member->revision = mst_job_next_revision(job);
    fresh = mst_member_set_change(member);
    MST_ASSERT(fresh);
    mst_watch_wake_members(member);
}

/* ---- holding a place ---- */

void mst_member_set_text(struct mst_member *member, struct mst_blob *text)
{
    struct mst_blob *old = member->text;

    member->text = mst_blob_keep(text);
    mst_blob_drop(&member->job->core->mem, old);
}

static void tell_admitted(const struct mst_member *member)
{
    char node[24] = "";

    if (member->agent != MST_NODE_NONE) {
        mst_text_print(node, sizeof(node), " node=%u", member->agent);
    }
    mst_narrate(member->job, MST_INFO, "%s " MST_NARRATE_MEMBER " host=%.*s pid=%" PRIu64 "%s",
                member->role == MST_ROLE_RANK ? "member-joining" : "member-present",
                MST_NARRATE_MEMBER_ARGS(member), MST_SLICE_ARGS(mst_blob_slice(member->host)),
                member->pid, node);
}

void mst_member_admit(struct mst_member *member, struct mst_session *session)
{
    struct mst_blob *host = mst_blob_keep(session->host);

    MST_ASSERT(member->end && !member->session);
    mst_member_count_loss(member);
    session->member = member;
    session->claiming = false;
    mst_node_enter(session);
    mst_host_hold(session->place, 1);
    member->session = session;
    member->incarnation++;
    member->spare = false;
    member->last = false;
    member->end = 0;
    mst_blob_drop(&member->job->core->mem, member->host);
    member->host = host;
    member->pid = session->pid;
    mst_index_remove(&member->job->node_changes, &member->node_change_node);
    member->agent = session->agent; /* it may be of another node than the last holder */
    member->heard_ns = session->heard_ns;
    member->job->living += member->role == MST_ROLE_RANK;
    mst_member_touch(member);
    mst_job_mark(member->job); /* a worker may be in the way of ranks that wait */
    tell_admitted(member);
    if (!session->join) {
        return;
    }
    if (member->role == MST_ROLE_RANK) {
        mst_seating_joins(member);
    } else {
        mst_waiter_set_view(session->join, mst_generation_view(member->job, member));
        mst_waiter_answer(session->join, MUSTER_OK);
    }
}

void mst_member_set_ready(struct mst_member *member)
{
    struct mst_job *job = member->job;

    if (mst_list_linked(&member->in_ready)) {
        return;
    }
    mst_list_append(&job->ready, &member->in_ready);
    job->ready_count++;
    mst_narrate_event(member, MST_INFO, "member-ready");
    mst_seating_newcomer(member);
    mst_job_mark(job);
}

void mst_member_unready(struct mst_member *member)
{
    if (mst_list_linked(&member->in_ready)) {
        mst_list_remove(&member->in_ready);
        member->job->ready_count--;
        mst_job_mark(member->job);
    }
}

/* ---- losing it ---- */

static void tell_gone(const struct mst_member *member)
{
    bool is_lost = member->end == MST_STATE_LOST;
    bool has_code = member->cause == MST_CAUSE_EXIT || member->cause == MST_CAUSE_SIGNAL ||
                    member->cause == MST_CAUSE_HARD_TIMEOUT || member->cause == MST_CAUSE_UNHEALTHY;
    char code[24] = "";

    if (is_lost && has_code) {
        mst_text_print(code, sizeof(code), " code=%d", member->code);
    }
    mst_narrate(member->job, MST_INFO, "%s " MST_NARRATE_MEMBER "%s%s%s",
                member->end == MST_LEFT ? "member-left" : "member-lost",
                MST_NARRATE_MEMBER_ARGS(member), is_lost ? " cause=" : "",
                is_lost ? mst_cause_word(member->cause) : "", code);
}

bool mst_member_keep_fault(struct mst_member *member, const struct mst_loss *fault)
{
    struct mst_job *job = member->job;
    struct mst_seat *seat = &member->seat;

    if (seat->fault_revision != 0) {
        return false;
    }
    seat->fault_revision = mst_job_next_revision(job);
    seat->fault_cause = fault->cause;
    seat->fault_code = fault->code;
    seat->fault_text = mst_blob_keep(fault->text);
    seat->fault_ns = job->core->now_ns;
    seat->fault_told_by = fault->told_by;
    mst_index_put(&job->faults, &seat->fault_node, seat->fault_revision, 0);
    mst_watch_wake(job, MST_TOPIC_FAULTS, seat->fault_revision);
    return true;
}

/* The generation loses the rank of this seat. */
static void leave_seat(struct mst_member *member, const struct mst_loss *loss)
{
    struct mst_job *job = member->job;
    struct mst_seat *seat = &member->seat;

    if (!mst_member_seated(member)) {
        return;
    }
    seat->gone = true;
    seat->cause = member->cause;
    seat->code = member->code;
    seat->losses = member->losses;
    seat->heard_ns = member->heard_ns;
    job->alive--;
    if (member->end != MST_LEFT ||
        seat->fault_cause != MST_CAUSE_LEFT) { /* it announced its leave */
        mst_record_add(member, loss, true);
    }
    if (member->end == MST_STATE_LOST) {
        (void)mst_member_keep_fault(member, loss);
        mst_generation_attention(job, MST_INTERRUPT);
    } else {
        mst_seating_survey(job); /* its place may be a joiner's */
    }
    mst_round_lose(job, member);
}

void mst_member_forget_fence(struct mst_member *member)
{
    mst_index_remove(&member->job->core->fences, &member->fence);
}

bool mst_member_set_fence(struct mst_member *member, struct mst_token token)
{
    mst_member_forget_fence(member);
    return mst_index_try(&member->job->core->fences, &member->fence, token.high, token.low);
}

void mst_member_count_loss(struct mst_member *member)
{
    if (member->loss_uncounted) {
        member->loss_uncounted = false;
        member->job->counts.losses[member->cause]++;
    }
}

/* A death is often reported before the exit status is known, and a counter never decreases. So a
 * loss with the cause GONE is counted when the status comes, when another process takes the place,
 * or when the counters are read. */
static void count_end(struct mst_member *member)
{
    member->loss_uncounted = member->role != MST_ROLE_AGENT;
    if (member->cause != MST_CAUSE_GONE) {
        mst_member_count_loss(member);
    }
}

enum company { ALONE, WITH_NODE };

static void end_holder(struct mst_member *member, const struct mst_loss *loss, enum company company)
{
    struct mst_job *job = member->job;
    struct mst_session *session = member->session;
    struct mst_session *heir = member->claimant;
    bool lost = loss->cause != MST_CAUSE_LEFT;
    bool fresh;

    MST_ASSERT(session && !member->end);
    mst_member_unready(member);
    member->spare = false;
    member->end = lost ? MST_STATE_LOST : MST_LEFT;
    member->cause = loss->cause;
    member->code = loss->code;
    member->heard_ns = session->heard_ns;
    member->losses += lost;
    mst_member_set_text(member, loss->text);
    member->session = NULL;
    member->claimant = NULL;
    member->waits_at = NULL;
    job->living -= member->role == MST_ROLE_RANK;
    free_index(job, member);
    count_end(member);
    fresh = mst_member_set_fence(member, session->token);
    MST_ASSERT(fresh);
    mst_member_touch(member);
    tell_gone(member);
    if (lost && company == ALONE) {
        mst_history_lost(member, loss);
    }
    mst_host_hold(session->place, -1);
    if (lost && member->role == MST_ROLE_RANK && company == ALONE) {
        mst_host_count(session->place, MST_ROLE_RANK);
    }
    mst_session_end(session, MST_LINK_FENCED);
    leave_seat(member, loss);
    if (company == ALONE) {
        mst_round_settle(job);
    }
    if (heir) {
        mst_member_admit(member, heir);
    }
    mst_job_mark(job);
}

void mst_member_lose(struct mst_member *member, struct mst_loss loss)
{
    end_holder(member, &loss, ALONE);
}

void mst_member_lose_with_node(struct mst_member *member, struct mst_loss loss)
{
    end_holder(member, &loss, WITH_NODE);
}

void mst_member_heard(struct mst_member *member)
{
    struct mst_session *claimant = member->claimant;

    /* A journal could not keep the refusal now; the holder's next request leads to it again. */
    if (!claimant || member->job->core->held) {
        return;
    }
    mst_narrate_event(member, MST_INFO, "claim-refused");
    member->claimant = NULL;
    mst_session_end(claimant, MST_LINK_REFUSED);
}

/* ---- as replies show it ---- */

bool mst_member_seated(const struct mst_member *member)
{
    return member->seat.incarnation != 0 && member->seat.incarnation == member->incarnation &&
           !member->seat.gone;
}

enum mst_state mst_member_state(const struct mst_member *member)
{
    if (member->end) {
        return member->end;
    }
    if (!member->session->link) {
        return MST_SILENT;
    }
    if (member->role != MST_ROLE_RANK || mst_member_seated(member)) {
        return MST_PRESENT;
    }
    return member->spare ? MST_SPARE : MST_JOINING;
}

uint64_t mst_member_since_ms(const struct mst_member *member)
{
    bool known = member->state_ns != 0 && member->state == mst_member_state(member);

    return known ? 1 + mst_core_since_ms(member->job->core, member->state_ns) : 0;
}

struct mst_who mst_member_who(const struct mst_member *member)
{
    bool sits = member->seat.incarnation != 0 && member->seat.incarnation == member->incarnation;

    return (struct mst_who){
        .index = member->index,
        .rank = sits ? member->seat.rank : MST_RANK_NONE,
        .incarnation = member->incarnation,
        .role = member->role,
        .state = mst_member_state(member),
        .cause = member->cause,
        .code = member->code,
        .losses = member->losses,
        .heard_ms = mst_core_since_ms(member->job->core, member->session ? member->session->heard_ns
                                                                         : member->heard_ns),
        .pid = member->pid,
        .host = mst_blob_slice(member->host),
        .node = member->agent,
    };
}

struct mst_who mst_member_absent_who(uint32_t index)
{
    return (struct mst_who){.index = index,
                            .rank = MST_RANK_NONE,
                            .role = MST_ROLE_RANK,
                            .state = MST_ABSENT,
                            .node = MST_NODE_NONE};
}

struct mst_who mst_member_seat_who(const struct mst_member *member)
{
    const struct mst_seat *seat = &member->seat;

    if (seat->incarnation == 0 || seat->incarnation == member->incarnation) {
        return mst_member_who(member);
    }
    return (struct mst_who){
        .index = member->index,
        .rank = seat->rank,
        .incarnation = seat->incarnation,
        .role = member->role,
        .state = seat->cause == MST_CAUSE_LEFT ? MST_LEFT : MST_STATE_LOST,
        .cause = seat->cause,
        .code = seat->code,
        .losses = seat->losses,
        .heard_ms = mst_core_since_ms(member->job->core, seat->heard_ns),
        .pid = seat->pid,
        .host = mst_blob_slice(seat->host),
        .node = seat->agent,
    };
}
