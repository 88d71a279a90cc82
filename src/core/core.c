/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"

#include "core/claim.h"
#include "core/generation.h"
#include "core/host.h"
#include "core/job.h"
#include "core/key.h"
#include "core/render.h"
#include "core/round.h"
#include "core/watch.h"
#include "core/write.h"
#include "msg/command.h"

/* ---- life ---- */

static bool makes_sense(const struct mst_core_config *config)
{
    const struct mst_limits *limits = &config->limits;

    return config->lease_ns >= MST_MS_NS && limits->jobs_max > 0 && limits->sessions_max > 0 &&
           limits->members_max > 0 && limits->members_max < UINT32_MAX && limits->keys_max > 0 &&
           limits->job_bytes_max > 0 && limits->name_bytes_max > 0 && limits->key_bytes_max > 0 &&
           limits->key_bytes_max < UINT32_MAX && limits->value_bytes_max > 0 &&
           limits->batch_max > 0 && limits->batch_max < UINT32_MAX && limits->wait_keys_max > 0 &&
           limits->tombstones_max > 0 && limits->connections_max > 0;
}

muster_status mst_core_new(struct mst_core **out, const struct mst_core_config *config,
                           const struct mst_mem *mem)
{
    struct mst_core *core;

    if (!makes_sense(config)) {
        return MUSTER_EINVAL;
    }
    core = mst_mem_zalloc(mem, sizeof(*core));
    if (!core) {
        return MUSTER_ENOMEM;
    }
    core->mem = *mem;
    core->config = *config;
    core->items = mst_mem_array(mem, MST_PAGE_ITEMS + 1, sizeof(*core->items)); /* and a RESET */
    core->staged = mst_mem_array(mem, (size_t)config->limits.batch_max, sizeof(*core->staged));
    if (!core->items || !core->staged) {
        mst_mem_release(mem, core->items);
        mst_mem_release(mem, core->staged);
        mst_mem_release(mem, core);
        return MUSTER_ENOMEM;
    }
    core->pulse_ns = MST_NEVER;
    mst_counts_init(&core->counts);
    mst_alarm_init(&core->alarms);
    mst_link_tree_init(&core->links);
    mst_session_tree_init(&core->sessions);
    mst_member_fences_init(&core->fences);
    mst_job_tree_init(&core->jobs);
    mst_list_init(&core->job_list);
    mst_past_tree_init(&core->pasts);
    mst_list_init(&core->past_list);
    mst_list_init(&core->dirty);
    mst_list_init(&core->effects);
    *out = core;
    return MUSTER_OK;
}

void mst_core_free(struct mst_core *core)
{
    struct mst_mem mem;

    if (!core) {
        return;
    }
    core->config.trace = NULL; /* the end of the world is no story */
    if (core->current) {
        mst_waiter_free(core->current);
    }
    while (core->links.root) {
        mst_link_free(core, MST_CONTAINER(core->links.root, struct mst_link, node));
    }
    while (core->sessions.root) {
        struct mst_session *session = MST_CONTAINER(core->sessions.root, struct mst_session, node);

        if (session->member) {
            if (session->claiming) {
                session->member->claimant = NULL;
            } else {
                mst_host_part(session->place);
                session->member->session = NULL;
                session->member->end = MST_LEFT;
            }
        }
        mst_session_end(session, MST_LINK_OVER);
    }
    while (!mst_list_empty(&core->job_list)) {
        mst_job_destroy(mst_job_of_list(core->job_list.next));
    }
    mst_past_free_all(core);
    mem = core->mem;
    mst_mem_release(&mem, core->items);
    mst_mem_release(&mem, core->staged);
    mst_mem_release(&mem, core);
}

/* ---- inputs ---- */

static void begin_input(struct mst_core *core, uint64_t now_ns)
{
    MST_ASSERT(now_ns >= core->now_ns);
    core->now_ns = now_ns;
}

static uint64_t pulse_length_ns(const struct mst_core *core)
{
    return core->config.lease_ns / 8;
}

static void end_input(struct mst_core *core)
{
    mst_job_settle_all(core);
    if (core->sessions.count == 0) {
        core->pulse_ns = MST_NEVER;
    } else if (core->pulse_ns == MST_NEVER) {
        core->pulse_ns = core->now_ns + pulse_length_ns(core);
    }
}

muster_status mst_core_open(struct mst_core *core, uint64_t now_ns, struct mst_conn conn)
{
    begin_input(core, now_ns);
    MST_ASSERT(!mst_link_find(core, conn));
    if (core->links.count >= core->config.limits.connections_max) {
        return MUSTER_ELIMIT;
    }
    return mst_link_new(core, conn) ? MUSTER_OK : MUSTER_ENOMEM;
}

void mst_core_close(struct mst_core *core, uint64_t now_ns, struct mst_conn conn)
{
    struct mst_link *link = mst_link_find(core, conn);

    begin_input(core, now_ns);
    if (link) {
        mst_link_free(core, link);
    }
    end_input(core);
}

static void carry_out(struct mst_session *session, struct mst_waiter *waiter,
                      const struct mst_request *request)
{
    switch (request->command) {
    case MST_OPEN:
        break;
    case MST_JOIN:
        mst_session_join(session, waiter);
        break;
    case MST_RENEW:
        mst_session_renew(session, waiter);
        break;
    case MST_LEAVE:
        mst_session_leave(session, waiter);
        break;
    case MST_CANCEL:
        mst_session_cancel(session, waiter, request->cancel.id);
        break;
    case MST_WRITE:
        mst_write_request(session, waiter, request);
        mst_counts_write(&session->core->counts, request, waiter->status);
        break;
    case MST_GET:
        mst_key_get(session, waiter, request);
        break;
    case MST_LIST:
        mst_key_list(session, waiter, request);
        break;
    case MST_WAIT:
        mst_key_wait_all(session, waiter, request);
        break;
    case MST_WATCH:
        mst_watch_request(session, waiter, request);
        break;
    case MST_ROUND:
        mst_round_request(session, waiter, request);
        break;
    case MST_ROUND_MEMBERS:
        mst_round_request_members(session, waiter, request);
        break;
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
        mst_render_request(waiter, request);
        break;
    case MST_FAULT:
        mst_member_fault(session, waiter, request);
        break;
    case MST_LOST:
        mst_member_report(session, waiter, request);
        break;
    }
}

/* It had a session, or should have had one. */
static void refuse_stranger(struct mst_core *core, struct mst_link *link, struct mst_waiter *waiter)
{
    switch (link->end) {
    case MST_LINK_NEVER:
        mst_waiter_answer(waiter, MUSTER_EPROTO);
        mst_link_hang_up(core, link, "no session: the first request must be open");
        return;
    case MST_LINK_REFUSED:
        waiter->detail = MST_DETAIL_HOLDER;
        waiter->member = link->member;
        mst_waiter_set_job(waiter, link->job);
        mst_waiter_answer(waiter, MUSTER_EEXISTS);
        return;
    case MST_LINK_FENCED:
    case MST_LINK_OVER:
        mst_waiter_set_job(waiter, link->job);
        mst_waiter_set_view(waiter, mst_generation_outside_view(link->job, link->member));
        mst_waiter_answer(waiter, MUSTER_EFENCED);
        return;
    }
}

static void open_session(struct mst_core *core, struct mst_link *link, struct mst_waiter *waiter,
                         const struct mst_open *open)
{
    if (link->session && (link->session->token.high != open->token.high ||
                          link->session->token.low != open->token.low)) {
        mst_waiter_answer(waiter, MUSTER_EPROTO);
        mst_link_hang_up(core, link, "a second session on one connection");
        return;
    }
    mst_claim_open(core, link, waiter, open);
}

static void speak(struct mst_session *session, struct mst_link *link, struct mst_waiter *waiter,
                  const struct mst_request *request)
{
    session->heard_ns = session->core->now_ns;
    mst_waiter_set_job(waiter, session->job);
    if (!mst_session_admit(session, waiter, request)) {
        return;
    }
    carry_out(session, waiter, request);
    /* Unless the request ended the session. */
    if (mst_command_writes(request->command) && link->session == session) {
        mst_session_record(session, waiter);
    }
}

muster_status mst_core_request(struct mst_core *core, uint64_t now_ns, struct mst_conn conn,
                               const struct mst_request *request)
{
    struct mst_link *link = mst_link_find(core, conn);
    struct mst_waiter *waiter;

    begin_input(core, now_ns);
    if (!link || link->reason) {
        return MUSTER_OK; /* being closed: nobody listens any more */
    }
    waiter = mst_waiter_new(core, link, request);
    if (!waiter) {
        return MUSTER_ENOMEM;
    }
    if (!mst_command_known((uint32_t)request->command)) {
        mst_waiter_answer(waiter, MUSTER_EPROTO);
    } else if (request->command == MST_OPEN) {
        open_session(core, link, waiter, &request->open);
    } else if (link->session) {
        speak(link->session, link, waiter, request);
    } else {
        refuse_stranger(core, link, waiter);
    }
    end_input(core);
    return MUSTER_OK;
}

/* ---- time ---- */

/* We come later than we asked for: it was we who slept, so nobody else is to blame for silence. */
static void forgive(struct mst_core *core, uint64_t late_ns)
{
    struct mst_session *session = mst_session_first(core);

    for (; session; session = mst_session_next(session)) {
        mst_session_extend(session);
    }
    mst_alarm_shift(&core->alarms, core->now_ns, late_ns);
}

static void ring(struct mst_alarm *alarm)
{
    struct mst_job *job;

    switch (alarm->kind) {
    case MST_ALARM_LEASE:
        mst_session_expire(MST_CONTAINER(alarm, struct mst_session, alarm));
        break;
    case MST_ALARM_ROUND:
        mst_round_expire(MST_CONTAINER(alarm, struct mst_round, alarm));
        break;
    case MST_ALARM_JOIN:
        job = MST_CONTAINER(alarm, struct mst_job, join_alarm);
        job->join_due = true;
        mst_job_mark(job);
        break;
    }
}

void mst_core_tick(struct mst_core *core, uint64_t now_ns)
{
    struct mst_alarm *alarm;

    begin_input(core, now_ns);
    if (now_ns >= core->pulse_ns) {
        uint64_t late_ns = now_ns - core->pulse_ns;

        if (late_ns > pulse_length_ns(core)) {
            forgive(core, late_ns);
        }
        core->pulse_ns = now_ns + pulse_length_ns(core);
    }
    while ((alarm = mst_alarm_take(&core->alarms, now_ns))) {
        ring(alarm);
        mst_job_settle_all(core);
    }
    end_input(core);
}

uint64_t mst_core_deadline_ns(const struct mst_core *core)
{
    uint64_t first_ns = mst_alarm_first_ns(&core->alarms);

    return first_ns < core->pulse_ns ? first_ns : core->pulse_ns;
}

/* ---- effects ---- */

const struct mst_effect *mst_core_next(struct mst_core *core)
{
    struct mst_list *node = mst_list_take(&core->effects);
    struct mst_todo *todo;

    MST_ASSERT(!core->current);
    if (!node) {
        return NULL;
    }
    todo = MST_CONTAINER(node, struct mst_todo, link);
    if (todo->type == MST_EFFECT_HANGUP) {
        const struct mst_link *link = MST_CONTAINER(todo, struct mst_link, hangup);

        core->effect = (struct mst_effect){
            .type = MST_EFFECT_HANGUP, .conn = link->conn, .reason = link->reason};
        return &core->effect;
    }
    core->current = MST_CONTAINER(todo, struct mst_waiter, todo);
    mst_render_reply(core, core->current);
    core->effect = (struct mst_effect){
        .type = MST_EFFECT_REPLY, .conn = core->current->link->conn, .reply = &core->reply};
    mst_waiter_leave_link(core->current);
    return &core->effect;
}

void mst_core_done(struct mst_core *core, const struct mst_effect *effect)
{
    MST_ASSERT(effect == &core->effect);
    if (core->current) {
        mst_waiter_free(core->current);
        core->current = NULL;
    }
}
