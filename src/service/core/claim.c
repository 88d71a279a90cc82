/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/claim.h"

#include "service/core/generation.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/node.h"

/* ---- the answer ---- */

static muster_status answer_session(struct mst_session *session, struct mst_waiter *waiter)
{
    waiter->number = (int64_t)(session->core->config.lease_ns / NS_PER_MS);
    mst_waiter_set_view(waiter, mst_generation_session_view(session));
    if (session->claiming) {
        mst_waiter_name_holder(waiter, session->member);
    }
    return MUSTER_OK;
}

static muster_status answer_fenced(struct mst_job *job, const struct mst_member *member,
                                   struct mst_waiter *waiter)
{
    mst_waiter_set_job(waiter, job);
    mst_waiter_set_view(waiter, mst_generation_outside_view(job, member));
    return MUSTER_EFENCED;
}

/* ---- resuming ---- */

static muster_status resume(struct mst_session *session, struct mst_link *link,
                            struct mst_waiter *waiter, const struct mst_open *open)
{
    struct mst_link *old = session->link;

    if (!mst_slice_equal(open->job, session->job->named.name)) {
        return MUSTER_EINVAL;
    }
    if (mst_node_going(session)) {
        return MUSTER_ETIMEDOUT;
    }
    mst_waiter_set_job(waiter, session->job);
    if (old != link) {
        if (old) {
            mst_session_detach(session);
            mst_link_hang_up(session->core, old, "its session continues on another connection");
        }
        mst_session_attach(session, link);
        if (mst_session_holds(session)) {
            mst_narrate_event(session->member, MST_INFO, "member-back");
            mst_member_touch(session->member);
        }
    }
    mst_session_heard(session);
    return answer_session(session, waiter);
}

/* ---- refusals ---- */

static muster_status check_open(struct mst_waiter *waiter, const struct mst_open *open)
{
    size_t longest = open->job.size > open->host.size ? open->job.size : open->host.size;

    if (longest > waiter->core->config.limits.name_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_NAME_BYTES, longest);
    }
    if ((open->token.high == 0 && open->token.low == 0) || open->job.size == 0 ||
        mst_slice_has_nul(open->job) || open->role < MST_ROLE_OBSERVER ||
        open->role > MST_ROLE_AGENT || open->grow < MST_GROW_CHECK || open->grow > MST_GROW_OFF ||
        open->generation > INT64_MAX) {
        return MUSTER_EINVAL;
    }
    return MUSTER_OK;
}

/* The process was in a generation that this service may not know: the next one is above it. */
static void raise_floor(struct mst_job *job, uint64_t generation)
{
    if (generation > job->generation) {
        job->floor = mst_later(job->floor, generation);
    }
}

/* The job that is named, or a new one that is not published yet. Not OK: there is no room. */
static muster_status obtain_job(struct mst_core *core, struct mst_waiter *waiter,
                                struct mst_slice name, struct mst_job **out)
{
    *out = mst_job_find(core, name);
    if (!*out) {
        if (core->jobs.tree.count >= core->config.limits.jobs_max) {
            return mst_waiter_exceed_limit(waiter, MST_LIMIT_JOBS,
                                           core->jobs.tree.count + UINT64_C(1));
        }
        *out = mst_job_make(core, name);
    }
    return *out ? MUSTER_OK : MUSTER_ENOMEM;
}

/* The process was admitted once, but not in this session: its incarnation was replaced, or the
 * service lost its state. */
static muster_status refuse_returning(struct mst_core *core, struct mst_waiter *waiter,
                                      const struct mst_open *open)
{
    struct mst_job *job;
    muster_status status = obtain_job(core, waiter, open->job, &job);

    if (status != MUSTER_OK) {
        return status;
    }
    mst_job_publish(job);
    mst_core_raise(core, MST_WEIGHT_PROMISE);
    raise_floor(job, open->generation);
    job->past->incarnation = mst_later(job->past->incarnation, open->incarnation);
    mst_job_mark(job); /* a job without sessions ends again; its numbers stay */
    return answer_fenced(job, mst_member_find(job, open->role, open->index), waiter);
}

/* ---- a new session ---- */

/* What a new session needs, gathered before anything is changed. */
struct claim {
    struct mst_waiter *waiter; /* gets the detail of a refusal */
    struct mst_job *job;
    struct mst_member *member; /* NULL: an observer */
};

static muster_status find_index(const struct claim *claim, const struct mst_open *open,
                                uint32_t *out)
{
    struct mst_job *job = claim->job;
    uint32_t size = job->size ? job->size : open->size;
    bool spares = job->max_size != 0 || open->max_size != 0; /* more may come than have a seat */

    *out = open->index;
    if (open->index == MST_INDEX_ANY) {
        *out = mst_member_free_index(job, open->role, 0);
        if (open->role == MST_ROLE_RANK && size != 0 && *out >= size && !spares) {
            return mst_waiter_exceed(claim->waiter, MST_LIMIT_SIZE, size, *out + UINT64_C(1));
        }
    } else if (open->index == MST_INDEX_HELPER && open->role == MST_ROLE_AGENT) {
        *out = mst_member_free_index(job, MST_ROLE_AGENT, MST_HELPERS_FROM);
    }
    return MUSTER_OK;
}

static muster_status find_place(struct claim *claim, const struct mst_open *open)
{
    struct mst_job *job = claim->job;
    uint32_t index;
    muster_status status = find_index(claim, open, &index);

    if (status != MUSTER_OK) {
        return status;
    }
    claim->member = mst_member_find(job, open->role, index);
    if (!claim->member) {
        if (job->members.count >= job->core->config.limits.members_max) {
            return mst_waiter_exceed_limit(claim->waiter, MST_LIMIT_MEMBERS,
                                           job->members.count + UINT64_C(1));
        }
        claim->member = mst_member_new(job, open->role, index);
        return claim->member ? MUSTER_OK : MUSTER_ENOMEM;
    }
    if (claim->member->claimant) {
        mst_waiter_set_job(claim->waiter, job);
        mst_waiter_name_holder(claim->waiter, claim->member);
        return MUSTER_EEXISTS;
    }
    return MUSTER_OK;
}

static muster_status prepare(struct mst_core *core, struct claim *claim,
                             const struct mst_open *open)
{
    muster_status status;
    uint64_t limit = 0;

    if (core->sessions.count >= core->config.limits.sessions_max) {
        return mst_waiter_exceed_limit(claim->waiter, MST_LIMIT_SESSIONS,
                                       core->sessions.count + UINT64_C(1));
    }
    status = obtain_job(core, claim->waiter, open->job, &claim->job);
    if (status != MUSTER_OK) {
        return status;
    }
    if (!mst_job_agrees(claim->job, open, &limit)) {
        return limit != 0 ? mst_waiter_refuse(claim->waiter, MUSTER_EINVAL, limit) : MUSTER_EINVAL;
    }
    return open->role != MST_ROLE_OBSERVER ? find_place(claim, open) : MUSTER_OK;
}

/* The state is as it was before. */
static void undo(struct claim *claim)
{
    if (claim->member && claim->member->end == MST_ABSENT) {
        mst_member_forget(claim->member);
    }
    if (claim->job && !mst_job_published(claim->job)) {
        mst_job_unmake(claim->job);
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

static muster_status admit(struct mst_core *core, struct mst_link *link, struct mst_waiter *waiter,
                           const struct mst_open *open)
{
    struct claim claim = {.waiter = waiter};
    muster_status status = prepare(core, &claim, open);
    struct mst_session *session =
        status == MUSTER_OK ? mst_session_new(core, claim.job, open) : NULL;

    if (!session) {
        undo(&claim);
        return status != MUSTER_OK ? status : MUSTER_ENOMEM;
    }
    MST_ASSERT(claim.job);
    mst_job_publish(claim.job);
    mst_waiter_set_job(waiter, claim.job);
    mst_session_attach(session, link);
    raise_floor(claim.job, open->generation);
    mst_job_adopt(claim.job, open);
    if (claim.member && claim.member->session) {
        claim_held(session, claim.member);
    } else if (claim.member) {
        mst_member_admit(claim.member, session);
    }
    return answer_session(session, waiter);
}

muster_status mst_claim_open(struct mst_core *core, struct mst_link *link,
                             struct mst_waiter *waiter, const struct mst_open *open)
{
    struct mst_session *session = mst_session_find(core, open->token);
    struct mst_member *fenced = mst_member_fenced(core, open->token);
    muster_status status = check_open(waiter, open);

    if (status != MUSTER_OK) {
        return status;
    }
    if (session) {
        return resume(session, link, waiter, open);
    }
    if (fenced) {
        mst_core_raise(core, MST_WEIGHT_PROMISE);
        raise_floor(fenced->job, open->generation);
        return answer_fenced(fenced->job, fenced, waiter);
    }
    if (core->held) {
        return MUSTER_ENOSPACE;
    }
    return open->incarnation != 0 ? refuse_returning(core, waiter, open)
                                  : admit(core, link, waiter, open);
}

void mst_claim_withdraw(struct mst_session *session)
{
    MST_ASSERT(session->claiming && session->member->claimant == session);
    session->member->claimant = NULL;
    mst_session_end(session, MST_LINK_FENCED);
}
