/* SPDX-License-Identifier: Apache-2.0 */
/* Faults and deaths, as a rank or the agent that watches its process reports them. */
#include "proto/status.h"
#include "proto/words.h"
#include "service/core/generation.h"
#include "service/core/handlers.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/node.h"

/* Not OK: it is too long, and the request is refused. Without memory for it the text is left out:
 * the others must learn that a rank failed or died even if they do not learn why. */
static muster_status copy_text(struct mst_waiter *waiter, struct mst_slice text,
                               struct mst_blob **out)
{
    struct mst_core *core = waiter->core;

    if (text.size > core->config.limits.text_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_TEXT_BYTES, text.size);
    }
    *out = text.size > 0 ? mst_blob_new(&core->mem, text) : NULL;
    core->wordless = text.size > 0 && !*out;
    return MUSTER_OK;
}

/* The reporter as records name it: 1 + the agent; 0: the rank itself. */
static uint32_t teller(const struct mst_session *session)
{
    return session->role == MST_ROLE_AGENT && !session->claiming ? session->member->index + 1 : 0;
}

/* Whether an agent reports this process: a pid has a meaning on one host only. */
static bool means(const struct mst_session *session, const struct mst_session *teller, uint64_t pid)
{
    return session->pid == pid &&
           mst_node_speaks(teller, session->agent, mst_blob_slice(session->host));
}

/* ---- faults ---- */

/* A fault that a rank may report of itself. */
static bool own_kind(enum mst_cause kind)
{
    return kind == MST_CAUSE_NONE || kind == MST_CAUSE_FAULT || kind == MST_CAUSE_LEFT ||
           kind == MST_CAUSE_UNHEALTHY || kind == MST_CAUSE_AGAIN || kind == MST_CAUSE_ABORTED;
}

static void tell_fault(const struct mst_member *member, const struct mst_loss *fault)
{
    bool has_kind = fault->cause != MST_CAUSE_FAULT;

    mst_narrate(member->job, MST_INFO, "fault " MST_NARRATE_MEMBER "%s%s code=%d",
                MST_NARRATE_MEMBER_ARGS(member), has_kind ? " kind=" : "",
                has_kind ? mst_cause_word(fault->cause) : "", fault->code);
}

/* A rank reports another one only as evidence that does not stand beside a fault or a loss. */
static bool is_of_peer(const struct mst_request *request)
{
    return request->fault.kind == MST_CAUSE_NONE && mst_status_is_passed_on(request->fault.code);
}

/* A rank that reports the loss of a peer, or the end of its generation, has no fault of its own;
 * unless its generation has no record yet. */
static bool is_passed_on(const struct mst_session *session, const struct mst_request *request)
{
    return request->fault.pid == 0 && is_of_peer(request) && session->job->records.total > 0;
}

static void keep_fault(struct mst_job *job, struct mst_member *member, const struct mst_loss *loss)
{
    if (!member) {
        mst_narrate(job, MST_INFO, "fault kind=%s", mst_cause_word(loss->cause));
        if (mst_record_nobody(job, loss)) {
            mst_history_fault(job, mst_member_absent_who(MST_INDEX_ANY), loss, NULL);
        }
        return;
    }
    tell_fault(member, loss);
    if (mst_member_keep_fault(member, loss)) {
        mst_record_add(member, loss, false);
        mst_history_fault(job, mst_member_who(member), loss, member->host);
    }
}

/* Of this rank. NULL: a hang of which no rank is known to be the cause. */
static muster_status fault(struct mst_session *session, struct mst_waiter *waiter,
                           struct mst_member *member, const struct mst_request *request)
{
    enum mst_cause kind = request->fault.kind;
    struct mst_job *job = session->job;
    struct mst_loss loss = {.cause = kind != MST_CAUSE_NONE ? kind : MST_CAUSE_FAULT,
                            .code = member ? request->fault.code : 0,
                            .told_by = teller(session)};
    muster_status status;

    /* Before the first generation, and when the last one is over, no rank can hang. */
    if (request->fault.generation != job->generation ||
        !(member ? mst_member_seated(member) : job->rank_count > 0)) {
        return mst_generation_fence(session, waiter);
    }
    if (is_passed_on(session, request)) {
        return MUSTER_OK;
    }
    status = copy_text(waiter, request->fault.text, &loss.text);
    if (status != MUSTER_OK) {
        return status;
    }
    keep_fault(job, member, &loss);
    mst_blob_drop(&session->core->mem, loss.text);
    mst_generation_attention(job, MST_INTERRUPT);
    waiter->number = request->fault.pid != 0; /* an agent's report was taken */
    return MUSTER_OK;
}

/* The member that a rank's own report is about: itself, or the rank of its generation to which its
 * connection broke. */
static struct mst_member *blamed(const struct mst_session *session,
                                 const struct mst_request *request)
{
    struct mst_member *peer =
        request->fault.peer != 0
            ? mst_member_find(session->job, MST_ROLE_RANK, request->fault.peer - 1)
            : NULL;

    return peer && mst_member_seated(peer) && mst_member_seated(session->member) ? peer
                                                                                 : session->member;
}

/* An agent's report about a process that it watches. */
static muster_status fault_of(struct mst_session *session, struct mst_waiter *waiter,
                              const struct mst_request *request)
{
    struct mst_member *member = mst_member_find(session->job, MST_ROLE_RANK, request->fault.index);

    if (request->fault.kind != MST_CAUSE_SOFT_TIMEOUT) {
        return MUSTER_EINVAL;
    }
    if (request->fault.index == MST_INDEX_ANY) {
        return teller(session) != 0 ? fault(session, waiter, NULL, request) : MUSTER_EINVAL;
    }
    if (!member || !member->session || !means(member->session, session, request->fault.pid)) {
        return MUSTER_OK; /* the process has ended already, or is another one */
    }
    return fault(session, waiter, member, request);
}

muster_status mst_report_fault(struct mst_session *session, struct mst_waiter *waiter,
                               const struct mst_request *request)
{
    if (request->fault.pid != 0) {
        return fault_of(session, waiter, request);
    }
    if (session->role != MST_ROLE_RANK || !own_kind(request->fault.kind)) {
        return MUSTER_EINVAL;
    }
    if (request->fault.peer != 0 && !is_of_peer(request)) {
        return MUSTER_EINVAL;
    }
    return session->claiming ? mst_generation_fence(session, waiter)
                             : fault(session, waiter, blamed(session, request), request);
}

/* ---- deaths ---- */

/* Whether the reported process held this place last, or holds it. */
static bool held(const struct mst_member *member, const struct mst_session *teller, uint64_t pid)
{
    return member->pid == pid &&
           mst_node_speaks(teller, member->agent, mst_blob_slice(member->host));
}

/* The reported process, if it only claims the place. */
static struct mst_session *claimant_of(const struct mst_member *member,
                                       const struct mst_session *teller, uint64_t pid)
{
    return member && member->claimant && means(member->claimant, teller, pid) ? member->claimant
                                                                              : NULL;
}

/* A launcher does not know whether its process joined as a rank or as a worker, and both may have
 * one index. The pid decides which of them is meant. */
static struct mst_member *told_of(const struct mst_session *teller,
                                  const struct mst_request *request)
{
    uint64_t pid = request->lost.pid;
    struct mst_member *worker = mst_member_find(teller->job, MST_ROLE_WORKER, request->lost.index);

    if (worker && ((worker->session && means(worker->session, teller, pid)) ||
                   claimant_of(worker, teller, pid) || held(worker, teller, pid))) {
        return worker;
    }
    return mst_member_find(teller->job, MST_ROLE_RANK, request->lost.index);
}

static void refine_seat(struct mst_member *member, const struct mst_loss *loss)
{
    struct mst_seat *seat = &member->seat;

    seat->cause = loss->cause;
    seat->code = loss->code;
    if (seat->fault_cause == MST_CAUSE_GONE) {
        seat->fault_cause = loss->cause;
        seat->fault_code = loss->code;
        mst_blob_drop(&member->job->core->mem, seat->fault_text);
        seat->fault_text = mst_blob_keep(loss->text);
    }
}

/* The exit status of a process whose death was reported before. It decides nothing: the member is
 * lost already. */
static void refine_cause(struct mst_member *member, const struct mst_loss *loss)
{
    if (member->end != MST_STATE_LOST || member->cause != MST_CAUSE_GONE ||
        loss->cause == MST_CAUSE_GONE) {
        return;
    }
    member->cause = loss->cause;
    member->code = loss->code;
    mst_member_count_loss(member);
    mst_member_set_text(member, loss->text);
    if (member->seat.incarnation == member->incarnation) {
        refine_seat(member, loss);
    }
    mst_member_touch(member);
    mst_narrate(member->job, MST_INFO, "member-cause " MST_NARRATE_MEMBER " cause=%s code=%d",
                MST_NARRATE_MEMBER_ARGS(member), mst_cause_word(member->cause), member->code);
}

/* The process holds no place: it may have held one before, or claim one. */
static void report_other(struct mst_session *session, struct mst_member *member,
                         struct mst_session *claimant, const struct mst_request *request,
                         const struct mst_loss *loss)
{
    if (member && held(member, session, request->lost.pid)) {
        refine_cause(member, loss);
    }
    mst_record_refine(session, request, loss);
    if (claimant) { /* the last: it may be the one that reports, of itself */
        member->claimant = NULL;
        mst_session_end(claimant, MST_LINK_FENCED);
    }
}

/* No process follows in this place: a seal that waits for one need not. The process may be one that
 * the service has never heard of, which died before it joined. */
static void end_place(const struct mst_session *session, struct mst_member *member)
{
    if (member && mst_node_speaks(session, member->agent, mst_blob_slice(member->host))) {
        mst_core_raise(session->core, MST_WEIGHT_PROMISE);
        member->last = true;
        mst_job_mark(member->job);
    }
}

muster_status mst_report_loss(struct mst_session *session, struct mst_waiter *waiter,
                              const struct mst_request *request)
{
    struct mst_core *core = session->core;
    struct mst_member *member = told_of(session, request);
    struct mst_session *claimant = claimant_of(member, session, request->lost.pid);
    bool holds = member && member->session && means(member->session, session, request->lost.pid);
    struct mst_loss loss = {
        .cause = request->lost.cause, .code = request->lost.code, .told_by = teller(session)};
    muster_status status;

    if (loss.cause != MST_CAUSE_EXIT && loss.cause != MST_CAUSE_SIGNAL &&
        loss.cause != MST_CAUSE_GONE && loss.cause != MST_CAUSE_HARD_TIMEOUT &&
        loss.cause != MST_CAUSE_UNHEALTHY) {
        return MUSTER_EINVAL;
    }
    status = copy_text(waiter, request->lost.text, &loss.text);
    if (status != MUSTER_OK) {
        return status;
    }
    waiter->number = holds || claimant;
    mst_waiter_answer(waiter, MUSTER_OK);
    if (request->lost.last && (holds || (member && member->end))) {
        end_place(session, member);
    }
    if (holds) {
        mst_member_lose(member, loss);
    } else {
        report_other(session, member, claimant, request, &loss);
    }
    mst_blob_drop(&core->mem, loss.text);
    return MUSTER_MORE;
}
