/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/core.h"

#include "proto/command.h"
#include "service/core/claim.h"
#include "service/core/cut.h"
#include "service/core/generation.h"
#include "service/core/handlers.h"
#include "service/core/host.h"
#include "service/core/job.h"
#include "service/core/key.h"
#include "service/core/render.h"
#include "service/core/round.h"
#include "service/core/scan.h"
#include "service/core/watch.h"
#include "service/core/write.h"

/* ---- life ---- */

bool mst_core_config_makes_sense(const struct mst_core_config *config)
{
    const struct mst_limits *limits = &config->limits;

    return config->lease_ns >= NS_PER_MS && limits->jobs_max > 0 && limits->sessions_max > 0 &&
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

    if (!mst_core_config_makes_sense(config)) {
        return MUSTER_EINVAL;
    }
    core = mst_mem_zalloc(mem, sizeof(*core));
    if (!core) {
        return MUSTER_ENOMEM;
    }
    core->mem = *mem;
    core->config = *config;
    core->secret = config->secret;
    core->staged = mst_mem_array(mem, (size_t)config->limits.batch_max, sizeof(*core->staged));
    if (!core->staged) {
        mst_mem_release(mem, core);
        return MUSTER_ENOMEM;
    }
    core->pulse_ns = NEVER;
    mst_counts_init(&core->counts);
    mst_alarm_init(&core->alarms);
    mst_index_init(&core->links);
    mst_table_init(&core->link_table, &core->mem);
    mst_index_init(&core->sessions);
    mst_index_init(&core->fences);
    mst_names_init(&core->jobs);
    mst_names_init(&core->pasts);
    mst_list_init(&core->dirty);
    mst_list_init(&core->effects);
    *out = core;
    return MUSTER_OK;
}

void mst_core_free(struct mst_core *core)
{
    struct mst_session *session;
    struct mst_link *link;
    struct mst_mem mem;

    if (!core) {
        return;
    }
    core->config.incident = NULL;
    core->config.trace = NULL; /* the end of the core is no event of a job */
    core->held = NULL;         /* and no journal keeps it */
    if (core->current) {
        mst_waiter_free(core->current);
    }
    while ((link = mst_link_first(core))) {
        mst_link_free(core, link);
    }
    while ((session = mst_session_first(core))) {
        if (session->member) {
            if (session->claiming) {
                session->member->claimant = NULL;
            } else {
                mst_host_hold(session->place, -1);
                session->member->session = NULL;
                session->member->end = MST_LEFT;
            }
        }
        mst_session_end(session, MST_LINK_OVER);
    }
    while (core->jobs.tree.count > 0) {
        mst_job_destroy(mst_named_first(&core->jobs));
    }
    mst_past_free_all(core);
    mst_waiter_free_spares(core);
    mem = core->mem;
    mst_mem_release(&mem, core->staged);
    mst_mem_release(&mem, core);
}

/* ---- inputs ---- */

void mst_core_begin_input(struct mst_core *core, uint64_t now_ns)
{
    MST_ASSERT(now_ns >= core->now_ns);
    core->now_ns = now_ns;
}

static uint64_t pulse_length_ns(const struct mst_core *core)
{
    return core->config.lease_ns / 8;
}

void mst_core_end_input(struct mst_core *core)
{
    mst_job_settle_all(core);
    if (core->sessions.count == 0) {
        core->pulse_ns = NEVER;
    } else if (core->pulse_ns == NEVER) {
        core->pulse_ns = core->now_ns + pulse_length_ns(core);
    }
}

muster_status mst_core_open(struct mst_core *core, uint64_t now_ns, struct mst_conn conn)
{
    mst_core_begin_input(core, now_ns);
    if (mst_link_find(core, conn)) {
        return MUSTER_EPROTO;
    }
    if (core->links.count >= core->config.limits.connections_max) {
        return MUSTER_ELIMIT;
    }
    if (!mst_link_new(core, conn)) {
        return MUSTER_ENOMEM;
    }
    mst_core_raise(core, MST_WEIGHT_ALONG);
    return MUSTER_OK;
}

void mst_core_close(struct mst_core *core, uint64_t now_ns, struct mst_conn conn)
{
    struct mst_link *link = mst_link_find(core, conn);

    mst_core_begin_input(core, now_ns);
    if (link) {
        mst_core_raise(core, MST_WEIGHT_ALONG);
        mst_link_free(core, link);
    }
    mst_core_end_input(core);
}

static mst_handler *const handlers[] = {
    [MST_JOIN] = mst_session_join,
    [MST_RENEW] = mst_session_renew,
    [MST_LEAVE] = mst_session_leave,
    [MST_CANCEL] = mst_session_cancel,
    [MST_WRITE] = mst_write_request,
    [MST_GET] = mst_key_get,
    [MST_LIST] = mst_key_list,
    [MST_WAIT] = mst_key_wait_all,
    [MST_WATCH] = mst_watch_request,
    [MST_ROUND] = mst_round_request,
    [MST_ROUND_MEMBERS] = mst_round_request_members,
    [MST_MEMBERS] = mst_render_request,
    [MST_ROUNDS] = mst_render_request,
    [MST_JOBS] = mst_render_request,
    [MST_FAULT] = mst_report_fault,
    [MST_LOST] = mst_report_loss,
    [MST_HOSTS] = mst_render_request,
    [MST_FAULTS] = mst_render_request,
    [MST_HISTORY] = mst_render_request,
    [MST_CUT] = mst_cut_request,
    [MST_DELETE_PREFIX] = mst_write_delete_prefix,
};

static void answer(struct mst_waiter *waiter, muster_status status)
{
    if (status != MUSTER_MORE) {
        mst_waiter_answer(waiter, status);
    }
}

/* A request on a connection without a session. */
static muster_status refuse_stranger(struct mst_core *core, struct mst_link *link,
                                     struct mst_waiter *waiter)
{
    switch (link->end) {
    case MST_LINK_NEVER:
        mst_waiter_answer(waiter, MUSTER_EPROTO);
        mst_link_hang_up(core, link, "no session: the first request must be open");
        return MUSTER_MORE;
    case MST_LINK_REFUSED:
        if (link->job) {
            mst_waiter_set_job(waiter, link->job);
            mst_waiter_name_holder(waiter, link->member);
        }
        return MUSTER_EEXISTS;
    case MST_LINK_FENCED:
    case MST_LINK_OVER:
        break;
    }
    if (link->job) {
        mst_waiter_set_job(waiter, link->job);
        mst_waiter_set_view(waiter, mst_generation_outside_view(link->job, link->member));
    }
    return MUSTER_EFENCED;
}

static muster_status open_session(struct mst_core *core, struct mst_link *link,
                                  struct mst_waiter *waiter, const struct mst_open *open)
{
    if (link->session && (link->session->token.high != open->token.high ||
                          link->session->token.low != open->token.low)) {
        mst_waiter_answer(waiter, MUSTER_EPROTO);
        mst_link_hang_up(core, link, "a second session on one connection");
        return MUSTER_MORE;
    }
    return mst_claim_open(core, link, waiter, open);
}

static muster_status speak(struct mst_link *link, struct mst_waiter *waiter,
                           const struct mst_request *request)
{
    struct mst_session *session = link->session;
    muster_status status;

    mst_waiter_set_job(waiter, session->job);
    status = mst_session_admit(session, waiter, request);
    if (status != MUSTER_OK) {
        return status;
    }
    answer(waiter, handlers[request->command](session, waiter, request));
    /* Unless the request ended the session. */
    if (mst_command_writes(request->command) && link->session == session) {
        mst_session_record(session, waiter);
    }
    return MUSTER_MORE;
}

/* The whole effect of a request for which there was no room. */
static void admit_only(struct mst_link *link, const struct mst_request *request)
{
    if (link->session && request->command != MST_OPEN &&
        mst_command_known((uint32_t)request->command)) {
        (void)mst_session_take(link->session, request);
    }
}

static muster_status decide(struct mst_core *core, struct mst_link *link, struct mst_waiter *waiter,
                            const struct mst_request *request)
{
    if (!mst_command_known((uint32_t)request->command)) {
        return MUSTER_EPROTO;
    }
    if (request->command == MST_OPEN) {
        return open_session(core, link, waiter, &request->open);
    }
    return link->session ? speak(link, waiter, request) : refuse_stranger(core, link, waiter);
}

/* OK: the reply has the outcome. */
static muster_status take(struct mst_core *core, struct mst_link *link,
                          const struct mst_request *request)
{
    struct mst_waiter *waiter;

    mst_core_raise(core, MST_WEIGHT_ALONG);
    if (request->command == MST_OPEN && mst_cut_covers(core, link, &request->open)) {
        mst_link_hang_up(core, link, mst_cut_reason);
        return MUSTER_OK;
    }
    waiter = mst_waiter_new(core, link, request);
    if (!waiter) {
        core->refused = true;
        admit_only(link, request);
        return MUSTER_ENOMEM;
    }
    answer(waiter, decide(core, link, waiter, request));
    core->refused = waiter->stage == MST_QUEUED &&
                    (waiter->status == MUSTER_ENOMEM || waiter->status == MUSTER_ELIMIT);
    return MUSTER_OK;
}

/* The connection, unless it is being closed: no reply would arrive. */
static struct mst_link *open_link(const struct mst_core *core, struct mst_conn conn)
{
    struct mst_link *link = mst_link_find(core, conn);

    return link && !link->reason ? link : NULL;
}

muster_status mst_core_request(struct mst_core *core, uint64_t now_ns, struct mst_conn conn,
                               const struct mst_request *request)
{
    struct mst_link *link = open_link(core, conn);
    muster_status status;

    mst_core_begin_input(core, now_ns);
    core->refused = false;
    core->wordless = false;
    status = link ? take(core, link, request) : MUSTER_OK;
    mst_core_end_input(core);
    return status;
}

bool mst_core_refused(const struct mst_core *core)
{
    return core->refused;
}

bool mst_core_wordless(const struct mst_core *core)
{
    return core->wordless;
}

muster_status mst_core_request_wordless(struct mst_core *core, uint64_t now_ns,
                                        struct mst_conn conn, const struct mst_request *request)
{
    struct mst_request wordless = *request;

    if (request->command == MST_FAULT) {
        wordless.fault.text = (struct mst_slice){0};
    } else if (request->command == MST_LOST) {
        wordless.lost.text = (struct mst_slice){0};
    }
    return mst_core_request(core, now_ns, conn, &wordless);
}

void mst_core_request_refused(struct mst_core *core, uint64_t now_ns, struct mst_conn conn,
                              const struct mst_request *request)
{
    struct mst_link *link = open_link(core, conn);

    mst_core_begin_input(core, now_ns);
    core->refused = true;
    if (link) {
        mst_core_raise(core, MST_WEIGHT_ALONG);
        admit_only(link, request);
    }
    mst_core_end_input(core);
}

/* ---- time ---- */

void mst_core_forgive(struct mst_core *core, uint64_t late_ns)
{
    mst_session_extend_all(core);
    mst_alarm_shift(core, late_ns);
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
    case MST_ALARM_REPLACE:
        mst_round_replace_over(MST_CONTAINER(alarm, struct mst_round, replace_alarm));
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

    mst_core_begin_input(core, now_ns);
    if (now_ns >= core->pulse_ns) {
        uint64_t late_ns = now_ns - core->pulse_ns;

        if (late_ns > pulse_length_ns(core) &&
            !core->held) { /* else mst_core_hold forgives all of it at the end */
            mst_core_forgive(core, late_ns);
        }
        core->pulse_ns = now_ns + pulse_length_ns(core);
        mst_core_raise(core, MST_WEIGHT_ALONG);
    }
    while (!core->held && (alarm = mst_alarm_take(core))) {
        mst_core_raise(core, MST_WEIGHT_ALONG);
        ring(alarm);
        mst_job_settle_all(core);
    }
    mst_core_end_input(core);
}

uint64_t mst_core_sessions(const struct mst_core *core)
{
    return core->sessions.count;
}

bool mst_core_in_session(struct mst_core *core, struct mst_conn conn)
{
    const struct mst_link *link = mst_link_find(core, conn);

    return link && link->session;
}

uint64_t mst_core_deadline_ns(const struct mst_core *core)
{
    uint64_t first_ns = core->held ? NEVER : mst_alarm_first_ns(core);

    return first_ns < core->pulse_ns ? first_ns : core->pulse_ns;
}

/* ---- effects ---- */

static const struct mst_effect *tell(struct mst_core *core, struct mst_waiter *waiter)
{
    mst_list_remove(&waiter->todo.link);
    core->current = waiter;
    mst_render_reply(core, waiter);
    core->effect = (struct mst_effect){
        .type = MST_EFFECT_REPLY, .conn = waiter->link->conn, .reply = &core->reply};
    mst_waiter_leave_link(waiter);
    return &core->effect;
}

static struct mst_todo *next_todo(const struct mst_core *core)
{
    MST_ASSERT(!core->current);
    return MST_CONTAINER_OR_NULL(mst_list_empty(&core->effects) ? NULL : core->effects.next,
                                 struct mst_todo, link);
}

/* NULL: the next effect, if any, is no reply. */
static struct mst_waiter *next_waiter(const struct mst_core *core)
{
    struct mst_todo *todo = next_todo(core);

    return todo && todo->type == MST_EFFECT_REPLY ? MST_CONTAINER(todo, struct mst_waiter, todo)
                                                  : NULL;
}

const struct mst_effect *mst_core_next(struct mst_core *core)
{
    struct mst_todo *todo = next_todo(core);

    if (todo && todo->type == MST_EFFECT_HANGUP) {
        const struct mst_link *link = MST_CONTAINER(todo, struct mst_link, hangup);

        mst_list_remove(&todo->link);
        core->effect = (struct mst_effect){
            .type = MST_EFFECT_HANGUP, .conn = link->conn, .reason = link->reason};
        return &core->effect;
    }
    return todo ? tell(core, next_waiter(core)) : NULL;
}

const struct mst_effect *mst_core_answer(struct mst_core *core, struct mst_conn conn, uint64_t id)
{
    struct mst_waiter *waiter = next_waiter(core);

    return waiter && waiter->id == id && waiter->link->conn.id == conn.id ? tell(core, waiter)
                                                                          : NULL;
}

void mst_core_done(struct mst_core *core, const struct mst_effect *effect)
{
    MST_ASSERT(effect == &core->effect);
    if (core->current) {
        mst_waiter_free(core->current);
        core->current = NULL;
    }
}

void mst_core_drop_effects(struct mst_core *core)
{
    struct mst_todo *todo;

    while ((todo = next_todo(core))) {
        if (todo->type == MST_EFFECT_REPLY) {
            mst_waiter_free(MST_CONTAINER(todo, struct mst_waiter, todo));
        } else {
            mst_list_remove(&todo->link);
        }
    }
}

void mst_core_defer(struct mst_core *core, const struct mst_effect *effect)
{
    struct mst_link *link = mst_link_find(core, effect->conn);
    struct mst_waiter *waiter = core->current;

    MST_ASSERT(effect == &core->effect && effect->type == MST_EFFECT_REPLY && link && waiter);
    core->current = NULL;
    mst_waiter_return_to_link(waiter, link);
    mst_list_append(&link->deferred, &waiter->todo.link);
}

void mst_core_resume_deferred(struct mst_core *core, struct mst_conn conn)
{
    struct mst_link *link = mst_link_find(core, conn);
    struct mst_list *node;

    while (link && (node = mst_list_take(&link->deferred))) {
        mst_list_append(&core->effects, node);
    }
}

bool mst_core_next_searches(const struct mst_core *core)
{
    const struct mst_waiter *waiter = next_waiter(core);

    return waiter && mst_render_searches(waiter);
}

struct mst_conn mst_core_defer_next(struct mst_core *core)
{
    struct mst_waiter *waiter = next_waiter(core);

    MST_ASSERT(waiter);
    mst_list_remove(&waiter->todo.link);
    mst_list_append(&waiter->link->deferred, &waiter->todo.link);
    return waiter->link->conn;
}

uint64_t mst_core_walked(const struct mst_core *core)
{
    return core->walked;
}

bool mst_core_has_agent(const struct mst_core *core)
{
    const struct mst_session *session = mst_session_first(core);

    while (session && (session->role != MST_ROLE_AGENT || !session->member ||
                       session->member->index >= MST_HELPERS_FROM)) {
        session = mst_session_next(session);
    }
    return session != NULL;
}
