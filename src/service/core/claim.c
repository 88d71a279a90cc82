/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/claim.h"

#include "service/core/generation.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/node.h"

/* ---- the answer ---- */

static void answer_session(struct mst_session *session, struct mst_waiter *waiter)
{
    waiter->number = (int64_t)(session->core->config.lease_ns / NS_PER_MS);
    mst_waiter_set_view(waiter, mst_generation_session_view(session));
    if (session->claiming) {
        waiter->detail = MST_DETAIL_HOLDER;
        waiter->member = session->member;
    }
    mst_waiter_answer(waiter, MUSTER_OK);
}

static void answer_fenced(struct mst_job *job, const struct mst_member *member,
                          struct mst_waiter *waiter)
{
    mst_waiter_set_job(waiter, job);
    mst_waiter_set_view(waiter, mst_generation_outside_view(job, member));
    mst_waiter_answer(waiter, MUSTER_EFENCED);
}

/* ---- resuming ---- */

static void resume(struct mst_session *session, struct mst_link *link, struct mst_waiter *waiter,
                   const struct mst_open *open)
{
    struct mst_link *old = session->link;

    if (!mst_slice_equal(open->job, mst_job_name(session->job))) {
        mst_waiter_answer(waiter, MUSTER_EINVAL);
        return;
    }
    if (mst_node_going(session)) {
        mst_waiter_answer(waiter, MUSTER_ETIMEDOUT);
        return;
    }
    mst_waiter_set_job(waiter, session->job);
    if (old != link) {
        if (old) {
            mst_session_detach(session);
            mst_link_hang_up(session->core, old, "its session goes on over another connection");
        }
        mst_session_attach(session, link);
        if (session->member && !session->claiming) {
            mst_narrate_event(session->member, MST_INFO, "member-back");
            mst_member_touch(session->member);
        }
    }
    mst_session_heard(session);
    answer_session(session, waiter);
}

/* ---- who is not let in ---- */

static muster_status check_open(const struct mst_core *core, const struct mst_open *open,
                                struct mst_excess *excess)
{
    const struct mst_limits *limits = &core->config.limits;

    size_t longest = open->job.size > open->host.size ? open->job.size : open->host.size;

    if (longest > limits->name_bytes_max) {
        *excess = mst_excess_of(limits, MST_LIMIT_NAME_BYTES, longest);
        return MUSTER_ELIMIT;
    }
    if ((open->token.high == 0 && open->token.low == 0) || open->job.size == 0 ||
        mst_slice_has_nul(open->job) || open->role < MST_ROLE_OBSERVER ||
        open->role > MST_ROLE_AGENT || open->grow < MST_GROW_CHECK || open->grow > MST_GROW_OFF ||
        open->generation > INT64_MAX) {
        return MUSTER_EINVAL;
    }
    return MUSTER_OK;
}

/* This process was in a generation that we may know nothing of: the next one is above it. */
static void raise_floor(struct mst_job *job, uint64_t generation)
{
    if (generation > job->floor && generation > job->generation) {
        job->floor = generation;
    }
}

/* It was admitted once, but not in this session: a given-up incarnation, or we lost our state. */
static void refuse_returning(struct mst_core *core, struct mst_waiter *waiter,
                             const struct mst_open *open)
{
    struct mst_job *job = mst_job_find(core, open->job);

    if (!job) {
        if (core->jobs.count >= core->config.limits.jobs_max) {
            mst_waiter_exceed_limit(waiter, MST_LIMIT_JOBS, core->jobs.count + UINT64_C(1));
            return;
        }
        job = mst_job_make(core, open->job);
        if (!job) {
            mst_waiter_answer(waiter, MUSTER_ENOMEM);
            return;
        }
        mst_job_publish(job);
    }
    mst_core_raise(core, MST_WEIGHT_PROMISE);
    raise_floor(job, open->generation);
    if (open->incarnation > job->past->incarnation) {
        job->past->incarnation = open->incarnation;
    }
    mst_job_mark(job); /* what nobody is in goes again; its numbers stay */
    answer_fenced(job, mst_member_find(job, open->role, open->index), waiter);
}

/* ---- a new session ---- */

/* What a new session needs, gathered before anything is changed. */
struct claim {
    struct mst_job *job;
    struct mst_member *member; /* NULL: an observer, or a place to be made */
    uint32_t index;
    uint64_t limit;           /* EINVAL: what the job has */
    struct mst_excess excess; /* ELIMIT */
};

static muster_status find_place(struct claim *claim, const struct mst_open *open)
{
    struct mst_job *job = claim->job;
    uint32_t size = job->size ? job->size : open->size;
    bool spares = job->max_size != 0 || open->max_size != 0; /* more may come than have a seat */

    claim->index = open->index;
    if (open->index == MST_INDEX_ANY) {
        claim->index = mst_member_free_index(job, open->role);
        if (open->role == MST_ROLE_RANK && size != 0 && claim->index >= size && !spares) {
            claim->excess = (struct mst_excess){
                .kind = MST_LIMIT_SIZE, .most = size, .asked = claim->index + UINT64_C(1)};
            return MUSTER_ELIMIT;
        }
    }
    if (open->index == MST_INDEX_HELPER && open->role == MST_ROLE_AGENT) {
        claim->index = mst_member_free_helper(job);
    }
    claim->member = mst_member_find(job, open->role, claim->index);
    if (!claim->member) {
        if (job->members.count >= job->core->config.limits.members_max) {
            claim->excess = mst_excess_of(&job->core->config.limits, MST_LIMIT_MEMBERS,
                                          job->members.count + UINT64_C(1));
            return MUSTER_ELIMIT;
        }
        claim->member = mst_member_new(job, open->role, claim->index);
        return claim->member ? MUSTER_OK : MUSTER_ENOMEM;
    }
    return claim->member->claimant ? MUSTER_EEXISTS : MUSTER_OK;
}

static muster_status prepare(struct mst_core *core, struct claim *claim,
                             const struct mst_open *open)
{
    muster_status status = MUSTER_OK;

    claim->job = mst_job_find(core, open->job);
    if (core->sessions.count >= core->config.limits.sessions_max) {
        claim->excess = mst_excess_of(&core->config.limits, MST_LIMIT_SESSIONS,
                                      core->sessions.count + UINT64_C(1));
        return MUSTER_ELIMIT;
    }
    if (!claim->job) {
        if (core->jobs.count >= core->config.limits.jobs_max) {
            claim->excess =
                mst_excess_of(&core->config.limits, MST_LIMIT_JOBS, core->jobs.count + UINT64_C(1));
            return MUSTER_ELIMIT;
        }
        claim->job = mst_job_make(core, open->job);
        if (!claim->job) {
            return MUSTER_ENOMEM;
        }
    }
    if (!mst_job_agrees(claim->job, open, &claim->limit)) {
        return MUSTER_EINVAL;
    }
    if (open->role != MST_ROLE_OBSERVER) {
        status = find_place(claim, open);
    }
    return status;
}

/* Nothing came of it: the state is as it was before. */
static void undo(struct claim *claim)
{
    if (claim->member && claim->member->end == MST_ABSENT) {
        mst_member_forget(claim->member);
    }
    if (claim->job && !mst_job_published(claim->job)) {
        mst_job_unmake(claim->job);
    }
}

static void refuse(struct mst_waiter *waiter, const struct claim *claim, muster_status status)
{
    if (status == MUSTER_EEXISTS) {
        mst_waiter_set_job(waiter, claim->job);
        waiter->detail = MST_DETAIL_HOLDER;
        waiter->member = claim->member;
        mst_waiter_answer(waiter, status);
    } else if (status == MUSTER_ELIMIT) {
        mst_waiter_exceed(waiter, claim->excess);
    } else if (claim->limit != 0 && status != MUSTER_ENOMEM) {
        mst_waiter_refuse(waiter, status, claim->limit);
    } else {
        mst_waiter_answer(waiter, status);
    }
}

static void claim_held(struct mst_session *session, struct mst_member *member)
{
    session->member = member;
    session->claiming = true;
    member->claimant = session;
    mst_node_enter(session);
    mst_narrate(member->job, MST_INFO,
                "claim-waiting " MST_NARRATE_MEMBER " host=%.*s pid=%" PRIu64,
                MST_NARRATE_MEMBER_ARGS(member), MST_SLICE_ARGS(mst_blob_slice(session->host)),
                session->pid);
}

void mst_claim_open(struct mst_core *core, struct mst_link *link, struct mst_waiter *waiter,
                    const struct mst_open *open)
{
    struct claim claim = {0};
    struct mst_session *session = mst_session_find(core, open->token);
    struct mst_member *fenced;
    muster_status status = check_open(core, open, &claim.excess);

    if (status != MUSTER_OK) {
        refuse(waiter, &claim, status);
        return;
    }
    if (session) {
        resume(session, link, waiter, open);
        return;
    }
    fenced = mst_member_fenced(core, open->token);
    if (fenced) {
        mst_core_raise(core, MST_WEIGHT_PROMISE);
        raise_floor(fenced->job, open->generation);
        answer_fenced(fenced->job, fenced, waiter);
        return;
    }
    if (core->held) {
        mst_waiter_answer(waiter, MUSTER_ENOSPACE);
        return;
    }
    if (open->incarnation != 0) {
        refuse_returning(core, waiter, open);
        return;
    }
    status = prepare(core, &claim, open);
    if (status == MUSTER_OK) {
        session = mst_session_new(core, claim.job, open);
        status = session ? MUSTER_OK : MUSTER_ENOMEM;
    }
    if (status != MUSTER_OK) {
        refuse(waiter, &claim, status);
        undo(&claim);
        return;
    }
    if (!mst_job_published(claim.job)) {
        mst_job_publish(claim.job);
    }
    mst_waiter_set_job(waiter, claim.job);
    mst_session_attach(session, link);
    raise_floor(claim.job, open->generation);
    mst_job_adopt(claim.job, open);
    if (claim.member && claim.member->session) {
        claim_held(session, claim.member);
    } else if (claim.member) {
        mst_member_admit(claim.member, session);
    }
    answer_session(session, waiter);
}

void mst_claim_withdraw(struct mst_session *session)
{
    MST_ASSERT(session->claiming && session->member->claimant == session);
    session->member->claimant = NULL;
    mst_session_end(session, MST_LINK_FENCED);
}
