/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a rank, by itself or by the agent that watches its process: faults and deaths. */
#include "proto/status.h"
#include "proto/words.h"
#include "service/core/generation.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/node.h"

/* False: it is too long, and the request is refused. Where there is no memory for it, it is left
 * out: that a rank failed or died must reach the others even if why does not. */
static bool copy_text(struct mst_core *core, struct mst_waiter *waiter, struct mst_slice text,
                      struct mst_blob **out)
{
    if (text.size > core->config.limits.text_bytes_max) {
        mst_waiter_exceed_limit(waiter, MST_LIMIT_TEXT_BYTES, text.size);
        return false;
    }
    *out = text.size > 0 ? mst_blob_new(&core->mem, text) : NULL;
    core->wordless = text.size > 0 && !*out;
    return true;
}

/* As records name who told: 1 + the agent. */
static uint32_t teller(const struct mst_session *session)
{
    return session->role == MST_ROLE_AGENT && !session->claiming ? session->member->index + 1 : 0;
}

/* Whether it is this process of which an agent tells: pids mean something on one host only. */
static bool means(const struct mst_session *session, const struct mst_session *teller, uint64_t pid)
{
    return session->pid == pid &&
           mst_node_speaks(teller, session->agent, mst_blob_slice(session->host));
}

/* ---- faults ---- */

static bool own_kind(enum mst_cause kind)
{
    switch (kind) {
    case MST_CAUSE_NONE:
    case MST_CAUSE_FAULT:
    case MST_CAUSE_LEFT:
    case MST_CAUSE_UNHEALTHY:
    case MST_CAUSE_AGAIN:
    case MST_CAUSE_ABORTED:
        return true;
    case MST_CAUSE_EXIT:
    case MST_CAUSE_SIGNAL:
    case MST_CAUSE_GONE:
    case MST_CAUSE_LEASE:
    case MST_CAUSE_EVICTED:
    case MST_CAUSE_SOFT_TIMEOUT:
    case MST_CAUSE_HARD_TIMEOUT:
        return false;
    }
    return false;
}

static void tell_fault(const struct mst_member *member, const struct mst_loss *fault)
{
    bool has_kind = fault->cause != MST_CAUSE_FAULT;

    mst_narrate(member->job, MST_INFO, "fault " MST_NARRATE_MEMBER "%s%s code=%d",
                MST_NARRATE_MEMBER_ARGS(member), has_kind ? " kind=" : "",
                has_kind ? mst_cause_word(fault->cause) : "", fault->code);
}

/* That a peer was lost, or the generation is over, is no fault of the rank that was told so; where
 * nothing has befallen its generation, it is. */
static bool is_passed_on(const struct mst_session *session, const struct mst_request *request)
{
    return request->fault.pid == 0 && request->fault.kind == MST_CAUSE_NONE &&
           mst_status_is_passed_on(request->fault.code) && session->job->records.total > 0;
}

static void fault(struct mst_session *session, struct mst_waiter *waiter, struct mst_member *member,
                  const struct mst_request *request)
{
    enum mst_cause kind = request->fault.kind;
    struct mst_loss loss = {.cause = kind != MST_CAUSE_NONE ? kind : MST_CAUSE_FAULT,
                            .code = request->fault.code};

    if (request->fault.generation != session->job->generation || !mst_member_seated(member)) {
        mst_waiter_set_view(waiter, mst_generation_session_view(session));
        mst_waiter_answer(waiter, MUSTER_EFENCED);
        return;
    }
    if (is_passed_on(session, request)) {
        mst_waiter_answer(waiter, MUSTER_OK);
        return;
    }
    if (!copy_text(session->core, waiter, request->fault.text, &loss.text)) {
        return;
    }
    loss.told_by = teller(session);
    tell_fault(member, &loss);
    if (mst_member_keep_fault(member, &loss)) {
        mst_record_fault(member, &loss);
    }
    mst_blob_drop(&session->core->mem, loss.text);
    mst_generation_attention(session->job, MST_INTERRUPT);
    waiter->number = request->fault.pid != 0; /* an agent's word was taken */
    mst_waiter_answer(waiter, MUSTER_OK);
}

/* The ranks stand still, and nothing that an agent sees tells which of them is why. */
static void fault_of_nobody(struct mst_session *session, struct mst_waiter *waiter,
                            const struct mst_request *request)
{
    struct mst_job *job = session->job;
    struct mst_loss loss = {.cause = request->fault.kind, .told_by = teller(session)};

    if (session->role != MST_ROLE_AGENT || session->claiming) {
        mst_waiter_answer(waiter, MUSTER_EINVAL);
        return;
    }
    /* Before the first generation, and when the last one is over, nothing can hang. */
    if (job->rank_count == 0 || request->fault.generation != job->generation) {
        mst_waiter_set_view(waiter, mst_generation_session_view(session));
        mst_waiter_answer(waiter, MUSTER_EFENCED);
        return;
    }
    if (!copy_text(session->core, waiter, request->fault.text, &loss.text)) {
        return;
    }
    mst_narrate(job, MST_INFO, "fault kind=%s", mst_cause_word(loss.cause));
    mst_record_nobody(job, &loss);
    mst_blob_drop(&session->core->mem, loss.text);
    mst_generation_attention(job, MST_INTERRUPT);
    waiter->number = 1;
    mst_waiter_answer(waiter, MUSTER_OK);
}

/* An agent's word about a process that it watches. */
static void fault_of(struct mst_session *session, struct mst_waiter *waiter,
                     const struct mst_request *request)
{
    struct mst_member *member = mst_member_find(session->job, MST_ROLE_RANK, request->fault.index);

    if (request->fault.kind != MST_CAUSE_SOFT_TIMEOUT) {
        mst_waiter_answer(waiter, MUSTER_EINVAL);
    } else if (request->fault.index == MST_INDEX_ANY) {
        fault_of_nobody(session, waiter, request);
    } else if (!member || !member->session ||
               !means(member->session, session, request->fault.pid)) {
        mst_waiter_answer(waiter, MUSTER_OK); /* it is gone already, or is another one */
    } else {
        fault(session, waiter, member, request);
    }
}

void mst_member_fault(struct mst_session *session, struct mst_waiter *waiter,
                      const struct mst_request *request)
{
    if (request->fault.pid != 0) {
        fault_of(session, waiter, request);
    } else if (session->role != MST_ROLE_RANK || !own_kind(request->fault.kind)) {
        mst_waiter_answer(waiter, MUSTER_EINVAL);
    } else if (session->claiming) {
        mst_waiter_set_view(waiter, mst_generation_session_view(session));
        mst_waiter_answer(waiter, MUSTER_EFENCED);
    } else {
        fault(session, waiter, session->member, request);
    }
}

/* ---- deaths ---- */

/* The process that only claimed the place, if it is that one which is dead. */
static struct mst_session *claimant_of(const struct mst_member *member,
                                       const struct mst_session *teller, uint64_t pid)
{
    return member && member->claimant && means(member->claimant, teller, pid) ? member->claimant
                                                                              : NULL;
}

static bool is_of(const struct mst_member *member, const struct mst_session *teller, uint64_t pid)
{
    return (member->session && means(member->session, teller, pid)) ||
           claimant_of(member, teller, pid) ||
           (member->pid == pid &&
            mst_node_speaks(teller, member->agent, mst_blob_slice(member->host)));
}

/* Who starts a process does not know as what it joins. A rank and a worker may have one index; the
 * process tells which of them it was. */
static struct mst_member *told_of(const struct mst_session *teller,
                                  const struct mst_request *request)
{
    struct mst_member *worker = mst_member_find(teller->job, MST_ROLE_WORKER, request->lost.index);

    return worker && is_of(worker, teller, request->lost.pid)
               ? worker
               : mst_member_find(teller->job, MST_ROLE_RANK, request->lost.index);
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

/* What became of a process whose death was known before its status was. Decides nothing: it is
 * lost already, and now everybody can see how. */
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

void mst_member_report(struct mst_session *session, struct mst_waiter *waiter,
                       const struct mst_request *request)
{
    struct mst_core *core = session->core;
    struct mst_member *member = told_of(session, request);
    struct mst_session *claimant = claimant_of(member, session, request->lost.pid);
    struct mst_loss loss = {
        .cause = request->lost.cause, .code = request->lost.code, .told_by = teller(session)};

    if (loss.cause != MST_CAUSE_EXIT && loss.cause != MST_CAUSE_SIGNAL &&
        loss.cause != MST_CAUSE_GONE && loss.cause != MST_CAUSE_HARD_TIMEOUT) {
        mst_waiter_answer(waiter, MUSTER_EINVAL);
        return;
    }
    if (!copy_text(session->core, waiter, request->lost.text, &loss.text)) {
        return;
    }
    waiter->number = 0;
    if (member && member->session && means(member->session, session, request->lost.pid)) {
        waiter->number = 1;
        mst_waiter_answer(waiter, MUSTER_OK);
        mst_member_lose(member, loss);
    } else {
        waiter->number = claimant != NULL;
        mst_waiter_answer(waiter, MUSTER_OK);
        if (member && member->pid == request->lost.pid &&
            mst_node_speaks(session, member->agent, mst_blob_slice(member->host))) {
            refine_cause(member, &loss);
        }
        mst_record_refine(session, request, &loss);
        if (claimant) { /* the last: it may be the one that tells, of itself */
            member->claimant = NULL;
            mst_session_end(claimant, MST_LINK_FENCED);
        }
    }
    mst_blob_drop(&core->mem, loss.text);
}
