/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/waiter.h"

#include "service/core/job.h"
#include "service/core/key.h"
#include "service/core/link.h"
#include "service/core/pin.h"
#include "service/core/round.h"
#include "service/core/watch.h"

/* A write, a renewal or a round needs no part of the union, and thousands may wait. */
static size_t size_for(enum mst_command command)
{
    switch (command) {
    case MST_OPEN:
    case MST_RENEW:
    case MST_LEAVE:
    case MST_CANCEL:
    case MST_WRITE:
    case MST_ROUND:
    case MST_FAULT:
    case MST_LOST:
    case MST_CUT:
        return offsetof(struct mst_waiter, keys);
    case MST_JOIN:
    case MST_GET:
    case MST_WAIT:
    case MST_WATCH:
    case MST_LIST:
    case MST_ROUND_MEMBERS:
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
        break;
    }
    return sizeof(struct mst_waiter);
}

struct mst_waiter *mst_waiter_new(struct mst_core *core, struct mst_link *link,
                                  const struct mst_request *request)
{
    struct mst_waiter *waiter = mst_mem_zalloc(&core->mem, size_for(request->command));

    if (!waiter) {
        return NULL;
    }
    waiter->todo.type = MST_EFFECT_REPLY;
    waiter->core = core;
    waiter->link = link;
    waiter->id = request->id;
    waiter->command = request->command;
    waiter->stage = MST_ADMITTED;
    mst_list_append(&link->waiters, &waiter->in_link);
    link->waiter_count++;
    return waiter;
}

void mst_waiter_leave_link(struct mst_waiter *waiter)
{
    if (waiter->link) {
        mst_list_remove(&waiter->in_link);
        waiter->link->waiter_count--;
        waiter->link = NULL;
    }
}

void mst_waiter_return_to_link(struct mst_waiter *waiter, struct mst_link *link)
{
    MST_ASSERT(!waiter->link);
    waiter->link = link;
    mst_list_append(&link->waiters, &waiter->in_link);
    link->waiter_count++;
}

void mst_waiter_set_job(struct mst_waiter *waiter, struct mst_job *job)
{
    MST_ASSERT(!waiter->job);
    waiter->job = job;
    mst_job_keep(job);
}

void mst_waiter_set_view(struct mst_waiter *waiter, struct mst_view view)
{
    waiter->has_view = true;
    waiter->view = view;
}

static void stop_join(struct mst_waiter *waiter)
{
    struct mst_session *session = waiter->join.session;

    if (!session) {
        return;
    }
    MST_ASSERT(session->join == waiter);
    session->join = NULL;
    waiter->join.session = NULL;
    if (session->member && !session->claiming) {
        mst_member_unready(session->member);
    }
}

/* Out of whatever it waits in. */
static void stop(struct mst_waiter *waiter)
{
    if (waiter->stage != MST_WAITING) {
        return;
    }
    switch (waiter->command) {
    case MST_GET:
    case MST_WAIT:
        mst_key_stop(waiter);
        break;
    case MST_WATCH:
        mst_watch_stop(waiter);
        break;
    case MST_ROUND:
        mst_list_remove(&waiter->in_round);
        break;
    case MST_JOIN:
        stop_join(waiter);
        break;
    case MST_OPEN:
    case MST_RENEW:
    case MST_LEAVE:
    case MST_CANCEL:
    case MST_WRITE:
    case MST_LIST:
    case MST_ROUND_MEMBERS:
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
    case MST_FAULT:
    case MST_LOST:
    case MST_CUT:
        break;
    }
}

static void release_payload(struct mst_waiter *waiter)
{
    const struct mst_mem *mem = &waiter->core->mem;

    if (waiter->command == MST_GET || waiter->command == MST_WAIT) {
        mst_pin_drop_value(waiter->core, waiter->keys.value);
    } else if (waiter->command == MST_WATCH) {
        mst_watch_release_prefix(waiter->core, waiter->watch.prefix);
    } else if (waiter->command == MST_LIST) {
        mst_blob_drop(mem, waiter->page.prefix);
        mst_blob_drop(mem, waiter->page.after_name);
    } else if (waiter->command == MST_JOIN) {
        mst_blob_drop(mem, waiter->join.value);
    }
}

void mst_waiter_free(struct mst_waiter *waiter)
{
    struct mst_core *core = waiter->core;
    struct mst_job *job = waiter->job;

    stop(waiter);
    release_payload(waiter);
    if (waiter->round) {
        mst_pin_drop_round(core, waiter->round);
    }
    mst_waiter_leave_link(waiter);
    mst_list_remove(&waiter->todo.link);
    mst_mem_release(&core->mem, waiter);
    if (job) {
        mst_job_let_go(job);
    }
}

void mst_waiter_answer(struct mst_waiter *waiter, muster_status status)
{
    MST_ASSERT(waiter->stage != MST_QUEUED);
    MST_ASSERT((status == MUSTER_ELIMIT) == (waiter->limit_kind != MST_LIMIT_UNSAID));
    mst_counts_read(&waiter->core->counts, waiter->command, status, waiter->stage == MST_WAITING);
    stop(waiter);
    waiter->status = status;
    waiter->stage = MST_QUEUED;
    mst_list_append(&waiter->core->effects, &waiter->todo.link);
}

void mst_waiter_refuse(struct mst_waiter *waiter, muster_status status, uint64_t limit)
{
    waiter->detail = MST_DETAIL_LIMIT;
    waiter->limit = limit > INT64_MAX ? INT64_MAX : (int64_t)limit;
    mst_waiter_answer(waiter, status);
}

void mst_waiter_exceed(struct mst_waiter *waiter, struct mst_excess excess)
{
    MST_ASSERT(excess.kind != MST_LIMIT_UNSAID);
    waiter->limit_kind = excess.kind;
    waiter->asked = excess.asked;
    mst_waiter_refuse(waiter, MUSTER_ELIMIT, excess.most);
}

void mst_waiter_exceed_limit(struct mst_waiter *waiter, enum mst_limit_kind kind, uint64_t asked)
{
    mst_waiter_exceed(waiter, mst_excess_of(&waiter->core->config.limits, kind, asked));
}

struct mst_waiter *mst_waiter_find(const struct mst_link *link, uint64_t id)
{
    MST_LIST_EACH(node, following, &link->waiters)
    {
        struct mst_waiter *waiter = MST_CONTAINER(node, struct mst_waiter, in_link);

        if (waiter->id == id && waiter->stage == MST_WAITING) {
            return waiter;
        }
    }
    return NULL;
}
