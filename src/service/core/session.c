/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/session.h"

#include "proto/command.h"
#include "service/core/claim.h"
#include "service/core/counts.h"
#include "service/core/generation.h"
#include "service/core/handlers.h"
#include "service/core/host.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/node.h"
#include "service/core/round.h"
#include "service/core/seating.h"

enum { OUTCOME_ROOM_MIN = 4 };

struct mst_session *mst_session_find(struct mst_core *core, struct mst_token token)
{
    return MST_CONTAINER_OR_NULL(mst_index_find(&core->sessions, token.high, token.low),
                                 struct mst_session, node);
}

struct mst_session *mst_session_first(const struct mst_core *core)
{
    return MST_CONTAINER_OR_NULL(mst_index_first(&core->sessions), struct mst_session, node);
}

struct mst_session *mst_session_next(const struct mst_session *session)
{
    return MST_CONTAINER_OR_NULL(mst_index_next(&session->node), struct mst_session, node);
}

struct mst_session *mst_session_new(struct mst_core *core, struct mst_job *job,
                                    const struct mst_open *open)
{
    struct mst_session *session = mst_mem_zalloc(&core->mem, sizeof(*session));

    if (!session) {
        return NULL;
    }
    session->outcomes = mst_mem_array(&core->mem, OUTCOME_ROOM_MIN, sizeof(*session->outcomes));
    session->host = mst_blob_new(&core->mem, open->host);
    if (!session->host || !session->outcomes ||
        (open->role != MST_ROLE_OBSERVER &&
         mst_host_reach(job, open->host, &session->place) != MUSTER_OK)) {
        mst_blob_drop(&core->mem, session->host);
        mst_mem_release(&core->mem, session->outcomes);
        mst_mem_release(&core->mem, session);
        return NULL;
    }
    mst_core_raise(core, MST_WEIGHT_PROMISE);
    session->core = core;
    session->outcome_room = OUTCOME_ROOM_MIN;
    session->token = open->token;
    session->role = open->role;
    session->pid = open->pid;
    session->agent = mst_node_named(job, open);
    session->replaces = open->replaces && open->role == MST_ROLE_AGENT;
    session->oldest = 1;
    session->heard_ns = core->now_ns;
    session->alarm.kind = MST_ALARM_LEASE;
    mst_list_init(&session->owned);
    mst_index_put(&core->sessions, &session->node, open->token.high, open->token.low);
    session->job = job;
    mst_job_keep(job);
    mst_list_append(&job->sessions, &session->in_job);
    session->lease_ns = core->now_ns + core->config.lease_ns;
    mst_alarm_set(core, &session->alarm, session->lease_ns);
    return session;
}

/* The answer has the current generation, or names the holder of the place that was claimed; a later
 * request is answered from the link's end. */
static void end_waits(const struct mst_session *session, enum mst_link_end end)
{
    struct mst_link *link = session->link;

    MST_EACH(waiter, &link->waiters, struct mst_waiter, in_link) {
        if (waiter->stage == MST_WAITING && end == MST_LINK_REFUSED) {
            mst_waiter_name_holder(waiter, session->member);
            mst_waiter_answer(waiter, MUSTER_EEXISTS);
        } else if (waiter->stage == MST_WAITING) {
            mst_waiter_set_view(waiter, mst_generation_outside_view(session->job, session->member));
            mst_waiter_answer(waiter, MUSTER_EFENCED);
        }
    }
}

void mst_session_end(struct mst_session *session, enum mst_link_end end)
{
    struct mst_core *core = session->core;
    struct mst_job *job = session->job;

    mst_core_raise(core, MST_WEIGHT_PROMISE);
    mst_alarm_clear(core, &session->alarm);
    mst_index_remove(&core->sessions, &session->node);
    mst_list_remove(&session->in_job);
    mst_node_leave(session);
    mst_host_let_go(session->place);
    if (session->link) {
        end_waits(session, end);
        session->link->session = NULL;
        mst_link_set_end(session->link, end, job, session->member);
    }
    MST_ASSERT(!session->join);
    while (!mst_list_empty(&session->owned)) {
        mst_key_erase(job, MST_CONTAINER(session->owned.next, struct mst_key, in_owner));
    }
    mst_blob_drop(&core->mem, session->host);
    mst_mem_release(&core->mem, session->outcomes);
    mst_mem_release(&core->mem, session);
    mst_job_mark(job);
    mst_job_let_go(job);
}

/* ---- the window ---- */

static bool make_room(struct mst_session *session, uint64_t id)
{
    uint32_t room = session->outcome_room;
    struct mst_outcome *outcomes;

    while (id - session->oldest >= room) {
        room *= 2;
    }
    if (room == session->outcome_room) {
        return true;
    }
    outcomes = mst_mem_array(&session->core->mem, room, sizeof(*outcomes));
    if (!outcomes) {
        return false;
    }
    for (uint32_t i = 0; i < session->outcome_room; i++) {
        const struct mst_outcome *old = &session->outcomes[i];

        if (old->id >= session->oldest) {
            outcomes[old->id % room] = *old;
        }
    }
    mst_mem_release(&session->core->mem, session->outcomes);
    session->outcomes = outcomes;
    session->outcome_room = room;
    return true;
}

static bool replay(const struct mst_session *session, struct mst_waiter *waiter)
{
    const struct mst_outcome *outcome = &session->outcomes[waiter->id % session->outcome_room];

    if (outcome->id != waiter->id || outcome->status == MUSTER_ELIMIT) {
        return false; /* an ELIMIT is not recorded; an older journal may have one */
    }
    waiter->number = outcome->number;
    waiter->revision = outcome->revision;
    mst_waiter_answer(waiter, outcome->status);
    return true;
}

muster_status mst_session_take(struct mst_session *session, const struct mst_request *request)
{
    struct mst_waiter *earlier;

    session->heard_ns = session->core->now_ns;
    if (request->id == 0 || request->oldest == 0 || request->oldest > request->id) {
        return MUSTER_EINVAL;
    }
    if (request->id < session->oldest) {
        return MUSTER_EFENCED;
    }
    if (request->oldest > session->oldest) {
        session->oldest = request->oldest;
    }
    if (request->id - session->oldest >= MST_WINDOW) {
        return MUSTER_ELIMIT;
    }
    if (mst_command_waits(request->command)) {
        earlier = mst_waiter_find(session->link, request->id);
        if (earlier) {
            mst_waiter_free(earlier); /* this one takes its place */
        }
    }
    return MUSTER_OK;
}

/* A write: the window will keep its outcome. */
static muster_status admit_write(struct mst_session *session, struct mst_waiter *waiter,
                                 const struct mst_request *request)
{
    if (!make_room(session, request->id)) {
        return MUSTER_ENOMEM;
    }
    if (replay(session, waiter)) {
        return MUSTER_MORE;
    }
    if (session->core->held) {
        mst_counts_write(&session->core->counts, request, MUSTER_ENOSPACE);
        return MUSTER_ENOSPACE;
    }
    return MUSTER_OK;
}

muster_status mst_session_admit(struct mst_session *session, struct mst_waiter *waiter,
                                const struct mst_request *request)
{
    muster_status status = mst_session_take(session, request);

    if (status == MUSTER_ELIMIT) {
        return mst_waiter_exceed(waiter, MST_LIMIT_UNANSWERED, MST_WINDOW,
                                 request->id - session->oldest + 1);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    return mst_command_writes(request->command) ? admit_write(session, waiter, request) : MUSTER_OK;
}

bool mst_session_restore_outcome(struct mst_session *session, const struct mst_outcome *outcome)
{
    if (outcome->id < session->oldest || outcome->id - session->oldest >= MST_WINDOW ||
        !make_room(session, outcome->id)) {
        return false;
    }
    session->outcomes[outcome->id % session->outcome_room] = *outcome;
    return true;
}

void mst_session_record(struct mst_session *session, const struct mst_waiter *waiter)
{
    /* Refused for lack of room: nothing happened, and a repeat may find room. */
    if (waiter->status == MUSTER_ENOMEM || waiter->status == MUSTER_ELIMIT) {
        return;
    }
    mst_core_raise(session->core, MST_WEIGHT_PROMISE);
    session->outcomes[waiter->id % session->outcome_room] =
        (struct mst_outcome){.id = waiter->id,
                             .status = waiter->status,
                             .number = waiter->number,
                             .revision = waiter->revision};
}

/* ---- lease and connection ---- */

void mst_session_extend(struct mst_session *session)
{
    uint64_t least_ns = session->core->now_ns + session->core->config.lease_ns;

    if (session->lease_ns < least_ns) {
        session->lease_ns = least_ns;
    }
    if (session->alarm.at_ns > session->lease_ns) { /* it no longer waits for its node */
        mst_alarm_set(session->core, &session->alarm, session->lease_ns);
    }
}

void mst_session_extend_all(struct mst_core *core)
{
    struct mst_session *session = mst_session_first(core);

    for (; session; session = mst_session_next(session)) {
        mst_session_extend(session);
    }
}

void mst_session_heard(struct mst_session *session)
{
    session->heard_ns = session->core->now_ns;
    mst_node_heard(session);
    mst_session_extend(session);
    if (mst_session_holds(session)) {
        mst_member_heard(session->member);
    }
}

muster_status mst_session_renew(struct mst_session *session, struct mst_waiter *waiter,
                                const struct mst_request *request)
{
    struct mst_core *core = session->core;

    (void)waiter;
    if (mst_node_going(session)) { /* it may repeat this: the agent may renew */
        return MUSTER_ETIMEDOUT;
    }
    if (session->renewed_ns != 0) {
        mst_histogram_add(&core->counts.renewals, core->now_ns - session->renewed_ns, 1);
    }
    session->renewed_ns = core->now_ns;
    mst_session_heard(session);
    mst_progress_take(session, request);
    return MUSTER_OK;
}

void mst_session_expire(struct mst_session *session)
{
    struct mst_core *core = session->core;

    if (session->lease_ns > core->now_ns) {
        mst_alarm_set(core, &session->alarm, session->lease_ns);
    } else if (!session->member) {
        mst_session_end(session, MST_LINK_OVER);
    } else if (session->claiming) {
        mst_claim_withdraw(session);
    } else if (!mst_node_expire(session)) {
        mst_member_lose(session->member, (struct mst_loss){.cause = MST_CAUSE_LEASE});
    }
}

void mst_session_detach(struct mst_session *session)
{
    MST_ASSERT(session->link);
    mst_link_drop_waiters(session->link);
    session->link->session = NULL;
    session->link = NULL;
    if (mst_session_holds(session)) {
        mst_narrate_event(session->member, MST_INFO, "member-silent");
        mst_member_touch(session->member);
    }
}

void mst_session_attach(struct mst_session *session, struct mst_link *link)
{
    mst_link_set_end(link, MST_LINK_NEVER, NULL, NULL);
    session->link = link;
    link->session = session;
}

/* ---- requests about itself ---- */

/* The answer to a JOIN that does not wait. */
static muster_status tell_standing(const struct mst_session *session, struct mst_waiter *waiter,
                                   uint64_t heard)
{
    if (mst_member_seated(session->member)) {
        mst_generation_tell_join(waiter, session->member);
        return MUSTER_MORE;
    }
    mst_waiter_set_view(waiter, mst_generation_view(session->job, session->member));
    waiter->number = (int64_t)mst_seating_heard(session->job, heard);
    return MUSTER_OK;
}

muster_status mst_session_join(struct mst_session *session, struct mst_waiter *waiter,
                               const struct mst_request *request)
{
    struct mst_member *member = session->member;
    bool spare = request->join.spare;

    if (!member || session->join) {
        return MUSTER_EINVAL;
    }
    if (!session->claiming &&
        (session->role != MST_ROLE_RANK || mst_member_seated(member) || (spare && member->spare))) {
        return tell_standing(session, waiter, request->join.heard);
    }
    if (session->core->held) {
        return MUSTER_ENOSPACE;
    }
    if (!session->claiming && !mst_generation_can_begin(session->job)) {
        return MUSTER_EINVAL;
    }
    waiter->join.spare = spare;
    waiter->join.heard = request->join.heard;
    mst_session_wait_to_join(session, waiter);
    if (!session->claiming) {
        mst_seating_joins(member);
    }
    return MUSTER_MORE;
}

void mst_session_wait_to_join(struct mst_session *session, struct mst_waiter *waiter)
{
    mst_waiter_wait(waiter, 0);
    waiter->join.session = session;
    waiter->member = session->member;
    session->join = waiter;
}

muster_status mst_session_leave(struct mst_session *session, struct mst_waiter *waiter,
                                const struct mst_request *request)
{
    (void)request;
    mst_waiter_answer(waiter, MUSTER_OK);
    if (!session->member) {
        mst_session_end(session, MST_LINK_OVER);
    } else if (session->claiming) {
        mst_claim_withdraw(session);
    } else {
        mst_member_lose(session->member, (struct mst_loss){.cause = MST_CAUSE_LEFT});
    }
    return MUSTER_MORE;
}

muster_status mst_session_cancel(struct mst_session *session, struct mst_waiter *waiter,
                                 const struct mst_request *request)
{
    struct mst_waiter *wanted = mst_waiter_find(session->link, request->cancel.id);

    waiter->number = wanted != NULL;
    if (wanted) {
        if (wanted->command == MST_ROUND) {
            wanted->detail = MST_DETAIL_ROUND;
        } else if (wanted->command == MST_JOIN) {
            wanted->detail = session->claiming ? MST_DETAIL_HOLDER : MST_DETAIL_JOIN;
        }
        mst_waiter_answer(wanted, MUSTER_ECANCELLED);
    }
    return MUSTER_OK;
}
