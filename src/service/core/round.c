/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/round.h"

#include <string.h>

#include "proto/vector.h"
#include "service/core/generation.h"
#include "service/core/handlers.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/pin.h"
#include "service/core/reduce.h"
#include "service/core/seating.h"

/* ---- names ---- */

void mst_round_name_publish(struct mst_job *job, struct mst_round_name *name)
{
    name->serial = ++job->round_serial;
    mst_named_add(&job->round_names, &name->named);
}

static void remove_name(struct mst_job *job, struct mst_round_name *name)
{
    if (name->last) {
        mst_pin_leave_round(job->core, name->last);
    }
    mst_named_remove(&job->round_names, &name->named);
    mst_mem_release(&job->core->mem, name);
}

/* ---- names that are forgotten ---- */

static void take_result(struct mst_round *last, struct mst_round_part *part)
{
    if (part && !part->taken) {
        part->taken = true;
        last->owed--;
    }
}

void mst_round_owe(struct mst_round *round)
{
    round->owed = round->part_count;
    for (uint32_t i = 0; i < round->part_count; i++) {
        if (round->parts[i].lost || round->parts[i].outside) {
            take_result(round, &round->parts[i]);
        }
    }
}

static void take_results(const struct mst_session *session, const struct mst_round_request *request)
{
    for (uint32_t i = 0; i < request->taken_count; i++) {
        const struct mst_round_name *name =
            mst_named_find(&session->job->round_names, request->taken[i]);

        if (name && name->last) {
            take_result(name->last, mst_round_part(name->last, session->member));
        }
    }
}

static bool at_limit(const struct mst_job *job)
{
    return job->round_names.tree.count >= job->core->config.limits.rounds_max;
}

/* The first that can be forgotten; NULL: none. */
static struct mst_round_name *outdated(const struct mst_job *job)
{
    MST_NAMED_EACH(struct mst_round_name, name, &job->round_names)
    {
        if (!name->open && name->last->owed == 0) {
            return name;
        }
    }
    return NULL;
}

/* Its members go on counting, so a number that it had reached may begin it again. */
static void forget(struct mst_job *job, struct mst_round_name *name)
{
    job->round_forgotten = mst_later(job->round_forgotten, name->number);
    remove_name(job, name);
}

/* ---- life ---- */

static void clear_alarms(struct mst_core *core, struct mst_round *round)
{
    mst_alarm_clear(core, &round->alarm);
    mst_alarm_clear(core, &round->replace_alarm);
}

void mst_round_let_go(struct mst_core *core, struct mst_round *round)
{
    MST_ASSERT(round->references > 0);
    if (--round->references > 0) {
        return;
    }
    clear_alarms(core, round);
    for (uint32_t i = 0; i < round->part_count; i++) {
        mst_blob_drop(&core->mem, round->parts[i].data);
    }
    for (uint32_t i = 0; i < MST_NAMES_MAX; i++) {
        mst_blob_drop(&core->mem, round->hosts[i]);
    }
    mst_blob_drop(&core->mem, round->value);
    mst_mem_release(&core->mem, round->carries);
    mst_mem_release(&core->mem, round->items);
    mst_mem_release(&core->mem, round->parts);
    mst_mem_release(&core->mem, round->wanted);
    mst_mem_release(&core->mem, round);
}

/* ---- participants ---- */

struct mst_round_part *mst_round_part(const struct mst_round *round,
                                      const struct mst_member *member)
{
    uint32_t low = 0;
    uint32_t high = round->part_count;

    if (!round->wanted) {
        MST_ASSERT(member->seat.rank < round->part_count);
        return &round->parts[member->seat.rank];
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (round->parts[middle].index < member->index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < round->part_count && round->parts[low].index == member->index ? &round->parts[low]
                                                                               : NULL;
}

static void lose_part(struct mst_round *round, struct mst_round_part *part)
{
    const struct mst_seat *seat = &part->member->seat;

    part->lost = true;
    part->cause = seat->cause;
    part->code = seat->code;
    round->lost++;
    round->settled += !part->arrived;
    mst_alarm_clear(round->job->core, &round->replace_alarm); /* each replacement has the time */
}

static void add_part(struct mst_round *round, struct mst_member *member, uint32_t index)
{
    struct mst_round_part *part = &round->parts[round->part_count];

    part->member = member;
    part->index = index;
    part->outside = !member || member->seat.incarnation == 0;
    if (part->outside && round->present_only) {
        *part = (struct mst_round_part){0};
        return;
    }
    round->part_count++;
    if (!part->outside && member->seat.gone) {
        lose_part(round, part);
    }
}

static bool add_parts(struct mst_job *job, struct mst_round *round,
                      const struct mst_round_request *request)
{
    const struct mst_mem *mem = &job->core->mem;
    uint32_t count = request->participants ? request->participant_count : job->rank_count;

    round->parts = mst_mem_array(mem, count, sizeof(*round->parts));
    if (request->participants) {
        round->wanted = mst_mem_array(mem, count, sizeof(*round->wanted));
    }
    if (!round->parts || (request->participants && !round->wanted)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (round->wanted) {
            uint32_t index = request->participants[i];

            round->wanted[i] = index;
            add_part(round, mst_member_find(job, MST_ROLE_RANK, index), index);
        } else {
            add_part(round, job->ranks[i], job->ranks[i]->index);
        }
    }
    round->wanted_count = round->wanted ? count : 0;
    return true;
}

/* ---- the participants that replies name ---- */

struct mst_who mst_round_part_who(const struct mst_round *round, const struct mst_round_part *part)
{
    /* The place may have been taken since the round began. */
    const struct mst_member *member =
        part->member ? part->member : mst_member_find(round->job, MST_ROLE_RANK, part->index);
    struct mst_who who = mst_member_absent_who(part->index);

    if (member) {
        who = part->outside ? mst_member_who(member) : mst_member_seat_who(member);
    }
    if (part->lost) {
        who.state = part->cause == MST_CAUSE_LEFT ? MST_LEFT : MST_STATE_LOST;
        who.cause = part->cause;
        who.code = part->code;
    }
    return who;
}

static bool is_missing(const struct mst_round_part *part)
{
    return !part->arrived && !part->lost;
}

static bool is_lost(const struct mst_round_part *part)
{
    return part->lost;
}

static bool is_different(const struct mst_round_part *part)
{
    return part->differs;
}

/* As many of the `count` parts that are so as there is room for. */
static void name_parts(struct mst_detail *detail, const struct mst_round *round,
                       bool (*is_so)(const struct mst_round_part *part), uint32_t count)
{
    for (uint32_t i = 0; i < round->part_count && count > 0 && detail->who_count < MST_NAMES_MAX;
         i++) {
        if (is_so(&round->parts[i])) {
            detail->who[detail->who_count++] = mst_round_part_who(round, &round->parts[i]);
            count--;
        }
    }
}

uint32_t mst_round_missing(const struct mst_round *round, uint32_t *out)
{
    uint32_t left = round->part_count - round->settled, count = 0;

    for (uint32_t i = 0; i < round->part_count && count < left && count < MST_NAMES_MAX; i++) {
        if (is_missing(&round->parts[i])) {
            out[count++] = round->parts[i].index;
        }
    }
    return count;
}

struct mst_who mst_round_first_missing(const struct mst_round *round)
{
    for (uint32_t i = 0; i < round->part_count; i++) {
        if (is_missing(&round->parts[i])) {
            return mst_round_part_who(round, &round->parts[i]);
        }
    }
    return (struct mst_who){.index = MST_INDEX_ANY, .rank = MST_RANK_NONE, .node = MST_NODE_NONE};
}

struct mst_detail mst_round_detail(const struct mst_round *round)
{
    struct mst_detail detail = {.arrived = round->arrived,
                                .expected = round->part_count,
                                .lost = round->lost,
                                .missing = round->part_count - round->settled};

    if (round->done) {
        return round->detail;
    }
    name_parts(&detail, round, is_lost, detail.lost);
    name_parts(&detail, round, is_missing, detail.missing);
    return detail;
}

/* The members that a result names must not change it any more. */
static void keep_hosts(struct mst_round *round)
{
    for (uint32_t i = 0; i < round->detail.who_count; i++) {
        const struct mst_who *who = &round->detail.who[i];
        const struct mst_member *member = mst_member_find(round->job, MST_ROLE_RANK, who->index);

        if (member && who->host.size > 0) {
            bool seat = member->seat.host && member->seat.host->bytes == who->host.data;

            round->hosts[i] = mst_blob_keep(seat ? member->seat.host : member->host);
        }
    }
}

/* ---- the end ---- */

/* The rank that opened it arrived, so there is always something to reduce. */
bool mst_round_has_value(const struct mst_round *round)
{
    return round->done && (round->status == MUSTER_OK ||
                           (round->status == MUSTER_ETIMEDOUT && round->on_loss == MST_PROCEED));
}

static void tell_closed(const struct mst_round *round)
{
    struct mst_core *core = round->job->core;
    char lost[24] = "", missing[24] = "";

    if (round->opened_ns != 0) {
        mst_counts_round(round, core->now_ns - round->opened_ns);
    }
    if (round->lost > 0) {
        mst_text_print(lost, sizeof(lost), " lost=%u", round->lost);
    }
    if (round->detail.missing > 0) {
        mst_text_print(missing, sizeof(missing), " missing=%u", round->detail.missing);
    }
    mst_narrate(round->job, MST_DEBUG,
                "round-closed name=%.*s number=%" PRIu64 " status=%s arrived=%u%s%s",
                MST_SLICE_ARGS(round->name->named.name), round->number,
                mst_narrate_status(round->status), round->arrived, lost, missing);
}

void mst_round_decide(struct mst_round *round, muster_status status)
{
    MST_ASSERT(!round->done);
    round->detail = mst_round_detail(round);
    if (status == MUSTER_EMISMATCH) { /* it names the ranks that differ, not the missing ones */
        round->detail.who_count = 0;
        name_parts(&round->detail, round, is_different, round->part_count);
    }
    if (status == MUSTER_ETOOFEW) {
        round->detail.limit = mst_generation_min_size(round->job);
    }
    keep_hosts(round);
    mst_round_owe(round);
    round->status = status;
    round->done = true;
    if (mst_round_has_value(round) && mst_reduce_finish(round) != MUSTER_OK) {
        round->status = MUSTER_ERANGE;
    }
    mst_core_raise(round->job->core, MST_WEIGHT_PROMISE);
    clear_alarms(round->job->core, round);
    tell_closed(round);
}

/* No member waits at it any more. */
static void release_members(struct mst_round *round)
{
    for (uint32_t i = 0; i < round->part_count; i++) {
        struct mst_member *member = round->parts[i].member;

        if (member && member->waits_at == round) {
            member->waits_at = NULL;
        }
    }
    if (round->job->seal == round) {
        round->job->seal = NULL;
    }
}

void mst_round_tell(struct mst_round *round)
{
    struct mst_job *job = round->job;
    struct mst_round_name *name = round->name;
    struct mst_round *last = name->last;

    if (round->final && round->status == MUSTER_OK) {
        mst_seating_finish(job);
    }
    while (!mst_list_empty(&round->waiters)) {
        struct mst_waiter *waiter = MST_CONTAINER(round->waiters.next, struct mst_waiter, in_round);

        waiter->detail = MST_DETAIL_ROUND;
        mst_waiter_answer(waiter, round->status);
    }
    release_members(round);
    name->open = NULL;
    name->last = round; /* with the reference it had as the open one */
    name->number = round->number + 1;
    if (last) {
        mst_pin_leave_round(job->core, last);
    }
}

static void close_round(struct mst_round *round, muster_status status)
{
    mst_round_decide(round, status);
    mst_round_tell(round);
}

static void drop_open(struct mst_job *job, struct mst_round *round)
{
    MST_LIST_EACH(node, following, &round->waiters)
    {
        struct mst_waiter *waiter = MST_CONTAINER(node, struct mst_waiter, in_round);

        mst_waiter_set_view(waiter, mst_generation_view(job, waiter->member));
        mst_waiter_answer(waiter, MUSTER_EFENCED);
    }
    release_members(round);
    round->status = MUSTER_EFENCED;
    round->done = true;
    clear_alarms(job->core, round);
    tell_closed(round);
    mst_pin_leave_round(job->core, round);
}

void mst_round_drop_all(struct mst_job *job)
{
    struct mst_round_name *name;

    while ((name = mst_named_first(&job->round_names))) {
        if (name->open) {
            drop_open(job, name->open);
        }
        remove_name(job, name);
    }
    job->round_forgotten = 0;
}

/* Closes it as soon as it cannot succeed, or every participant has arrived or is lost. A seal is
 * closed when the job is settled, because it ends more than itself. */
static void evaluate(struct mst_round *round)
{
    if (round->on_loss == MST_FAIL && round->lost > 0) {
        close_round(round, MUSTER_ELOST);
    } else if (round->settled == round->part_count) {
        if (round->seal) {
            mst_job_mark(round->job);
        } else {
            close_round(round, MUSTER_OK);
        }
    }
}

void mst_round_lose(struct mst_job *job, const struct mst_member *member)
{
    MST_NAMED_EACH(struct mst_round_name, name, &job->round_names)
    {
        struct mst_round *round = name->open;
        struct mst_round_part *part = round ? mst_round_part(round, member) : NULL;

        if (part && !part->lost && !part->outside) {
            lose_part(round, part);
        }
        if (name->last) {
            take_result(name->last, mst_round_part(name->last, member));
        }
    }
}

void mst_round_settle(struct mst_job *job)
{
    MST_NAMED_EACH(struct mst_round_name, name, &job->round_names)
    {
        if (name->open) {
            evaluate(name->open);
        }
    }
}

void mst_round_expire(struct mst_round *round)
{
    if (!round->seal) {
        close_round(round, MUSTER_ETIMEDOUT);
        return;
    }
    for (uint32_t i = 0; i < round->part_count; i++) {
        if (is_missing(&round->parts[i])) {
            mst_member_lose(round->parts[i].member, (struct mst_loss){.cause = MST_CAUSE_EVICTED});
        }
    }
    mst_job_mark(round->job); /* also if none is missing, and there are too few */
}

void mst_round_replace_over(struct mst_round *seal)
{
    seal->replace_ms = 0;
    mst_narrate(seal->job, MST_INFO, "replace-wait-over");
    mst_job_mark(seal->job);
}

/* ---- an arrival ---- */

static bool ascending(const uint32_t *participants, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (participants[i] <= participants[i - 1]) {
            return false;
        }
    }
    return true;
}

/* A seal closes in any case, so its reduction must always have a result. */
static bool seal_makes_sense(const struct mst_round_request *request)
{
    return request->on_loss == MST_PROCEED && !request->participants && !request->final &&
           (request->reduce == MST_REDUCE_NONE || request->reduce == MST_REDUCE_MIN ||
            request->reduce == MST_REDUCE_MAX);
}

static bool among(const struct mst_round_request *request, uint32_t index)
{
    for (uint32_t i = 0; i < request->participant_count; i++) {
        if (request->participants[i] == index) {
            return true;
        }
    }
    return false;
}

static bool makes_sense(const struct mst_round_request *request)
{
    if (request->name.size == 0 || mst_slice_has_nul(request->name) ||
        request->on_loss < MST_FAIL || request->on_loss > MST_PROCEED ||
        request->reduce < MST_REDUCE_NONE || request->reduce > MST_REDUCE_BROADCAST) {
        return false;
    }
    /* Without its root a broadcast has no value to proceed with. */
    if (request->reduce == MST_REDUCE_BROADCAST && request->on_loss != MST_FAIL) {
        return false;
    }
    if (request->participants && (request->participant_count == 0 ||
                                  !ascending(request->participants, request->participant_count))) {
        return false;
    }
    if (request->seal && !seal_makes_sense(request)) {
        return false;
    }
    if (!request->seal && request->order_count > 0) {
        return false;
    }
    return mst_reduce_accepts(request->reduce, request->data);
}

static muster_status check_limits(struct mst_waiter *waiter,
                                  const struct mst_round_request *request)
{
    const struct mst_limits *limits = &waiter->core->config.limits;
    uint32_t participants = request->participants ? request->participant_count : 0;
    uint32_t many = participants > request->order_count ? participants : request->order_count;

    many = many > request->taken_count ? many : request->taken_count;

    if (request->name.size > limits->name_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_NAME_BYTES, request->name.size);
    }
    if (request->data.size > limits->contribution_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_CONTRIBUTION_BYTES, request->data.size);
    }
    if (many > limits->members_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_MEMBERS, many);
    }
    return MUSTER_OK;
}

static bool same_parameters(const struct mst_round *round, const struct mst_round_request *request)
{
    uint32_t count = request->participants ? request->participant_count : 0;

    bool in_time = request->any_deadline || round->deadline_ms == request->deadline_ms;

    return in_time && round->on_loss == request->on_loss && round->reduce == request->reduce &&
           round->present_only == request->present_only && round->seal == request->seal &&
           round->final == request->final && round->root == request->root &&
           round->wanted_count == count &&
           (count == 0 ||
            memcmp(round->wanted, request->participants, count * sizeof(*round->wanted)) == 0) &&
           (!mst_vector_reduced_by(round->reduce) || round->data_size == request->data.size);
}

static struct mst_round *new_round(struct mst_job *job, const struct mst_round_request *request)
{
    struct mst_core *core = job->core;
    struct mst_round *round = mst_mem_zalloc(&core->mem, sizeof(*round));

    if (!round) {
        return NULL;
    }
    round->references = 1;
    round->job = job;
    round->number = request->number;
    round->alarm.kind = MST_ALARM_ROUND;
    round->replace_alarm.kind = MST_ALARM_REPLACE;
    mst_list_init(&round->waiters);
    round->deadline_ms = request->deadline_ms;
    round->on_loss = request->on_loss;
    round->reduce = request->reduce;
    round->root = request->root;
    round->present_only = request->present_only;
    round->seal = request->seal;
    round->final = request->final;
    if (!add_parts(job, round, request) || !mst_reduce_start(core, round, request->data)) {
        mst_round_let_go(core, round);
        return NULL;
    }
    return round;
}

/* The first contribution is in: from now on it is known by its name. */
static void publish(struct mst_job *job, struct mst_round_name *name, struct mst_round *round)
{
    struct mst_core *core = job->core;

    round->name = name;
    name->open = round;
    if (round->deadline_ms > 0) {
        mst_alarm_set(core, &round->alarm, mst_alarm_moment(core->now_ns, round->deadline_ms));
    }
    if (round->seal) {
        job->seal = round;
        job->at_rest = false;
    }
}

/* The waiter's reply describes the round. */
static void refer(struct mst_waiter *waiter, struct mst_round *round)
{
    waiter->round = round;
    round->references++;
}

static void attach(struct mst_round *round, struct mst_waiter *waiter)
{
    mst_waiter_wait(waiter, 0);
    mst_list_append(&round->waiters, &waiter->in_round);
    refer(waiter, round);
}

/* A request that is refused, or whose round is over: the reply describes the round as it stands. */
static muster_status answer_from(struct mst_round *round, struct mst_waiter *waiter,
                                 muster_status status, uint64_t at)
{
    if (!round) {
        return mst_waiter_refuse(waiter, status, at);
    }
    refer(waiter, round);
    waiter->detail = MST_DETAIL_ROUND;
    waiter->limit = (int64_t)at;
    return status;
}

/* Takes the contribution in, and the order that it brings to a seal. Not OK: it is refused, and
 * nothing was changed. */
static muster_status take_in(struct mst_waiter *waiter, struct mst_round *round,
                             struct mst_round_part *part, const struct mst_round_request *request)
{
    struct mst_core *core = waiter->core;
    uint64_t size = round->kept_bytes + request->data.size;
    muster_status status;

    if (core->held) {
        return MUSTER_ENOSPACE;
    }
    status = mst_seating_order(round, request, waiter);
    if (status != MUSTER_OK) {
        return status;
    }
    if (mst_reduce_keeps(round->reduce) && size > core->config.limits.result_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_RESULT_BYTES, size);
    }
    return mst_reduce_add(core, round, part, request->data);
}

static void arrive(struct mst_session *session, struct mst_waiter *waiter, struct mst_round *round,
                   struct mst_round_part *part, uint64_t replace_ms)
{
    mst_core_raise(session->core, MST_WEIGHT_PROMISE);
    if (round->arrived == 0) {
        round->opened_ns = session->core->now_ns;
        mst_narrate(round->job, MST_DEBUG, "round-open name=%.*s number=%" PRIu64,
                    MST_SLICE_ARGS(round->name->named.name), round->number);
    }
    part->arrived = true;
    round->arrived++;
    round->settled++;
    session->member->waits_at = round;
    attach(round, waiter);
    if (round->seal) {
        round->replace_ms = mst_later(round->replace_ms, replace_ms);
        mst_generation_attention(session->job, MST_INTERRUPT);
    }
    if (part->differs) {
        close_round(round, MUSTER_EMISMATCH);
    } else {
        evaluate(round);
    }
}

/* A contribution counts once. A repeat on the same connection cancels the request that waits. */
static void arrive_again(struct mst_waiter *waiter, struct mst_round *round)
{
    struct mst_waiter *earlier = mst_waiter_first_few(waiter->link);

    while (earlier && earlier->round != round) {
        earlier = mst_waiter_next_few(earlier);
    }
    if (earlier) {
        earlier->detail = MST_DETAIL_ROUND;
        mst_waiter_answer(earlier, MUSTER_ECANCELLED);
    }
    attach(round, waiter);
}

static muster_status contribute(struct mst_session *session, struct mst_waiter *waiter,
                                struct mst_round *round, const struct mst_round_request *request)
{
    struct mst_round_part *part = mst_round_part(round, session->member);
    muster_status status;

    if (!part || !same_parameters(round, request)) {
        return answer_from(round, waiter, MUSTER_EINVAL, round->number);
    }
    if (part->arrived) {
        arrive_again(waiter, round);
        return MUSTER_MORE;
    }
    status = take_in(waiter, round, part, request);
    if (status != MUSTER_OK) {
        return status;
    }
    arrive(session, waiter, round, part, request->replace_ms);
    return MUSTER_MORE;
}

static struct mst_round_name *new_name(const struct mst_job *job,
                                       const struct mst_round_request *request)
{
    struct mst_round_name *name = mst_named_new(&job->core->mem, sizeof(*name), request->name);

    if (name) {
        name->number = request->number;
    }
    return name;
}

/* The first arrival: the round, and its name if that is new. A round that gets no contribution
 * leaves no trace. */
static muster_status begin(struct mst_session *session, struct mst_waiter *waiter,
                           struct mst_round_name *name, const struct mst_round_request *request)
{
    struct mst_job *job = session->job;
    struct mst_round_name *fresh = name ? NULL : new_name(job, request);
    struct mst_round *round = new_round(job, request);
    struct mst_round_part *part = round ? mst_round_part(round, session->member) : NULL;
    muster_status status = MUSTER_ENOMEM;

    if (round && (name || fresh)) {
        status = part ? take_in(waiter, round, part, request) : MUSTER_EINVAL;
    }
    if (status != MUSTER_OK) {
        if (round) {
            mst_round_let_go(job->core, round);
        }
        mst_mem_release(&job->core->mem, fresh);
        return status;
    }
    if (fresh) {
        if (at_limit(job)) {
            forget(job, outdated(job));
        }
        mst_round_name_publish(job, fresh);
    }
    publish(job, name ? name : fresh, round);
    arrive(session, waiter, round, part, request->replace_ms);
    return MUSTER_MORE;
}

/* The round that a number means: the open one, the last one, or none. */
static struct mst_round *round_of(const struct mst_round_name *name, uint64_t number)
{
    if (name && number == name->number) {
        return name->open;
    }
    return name && number + 1 == name->number ? name->last : NULL;
}

static bool in_generation(const struct mst_session *session, uint64_t generation)
{
    return !session->claiming && generation != 0 && generation == session->job->generation &&
           mst_member_seated(session->member);
}

/* The number that the name is at. One that is not known may have been forgotten at any up to the
 * greatest: the first caller's counts. */
static uint64_t number_of(const struct mst_job *job, const struct mst_round_name *name,
                          const struct mst_round_request *request)
{
    if (name) {
        return name->number;
    }
    return request->number <= job->round_forgotten ? request->number : 0;
}

/* The root is a participant, and only it has data. */
static bool root_makes_sense(const struct mst_session *session,
                             const struct mst_round_request *request)
{
    const struct mst_job *job = session->job;

    if (request->reduce != MST_REDUCE_BROADCAST) {
        return request->root == 0;
    }
    if (request->root >= job->rank_count ||
        (request->data.size > 0 && session->member->seat.rank != request->root)) {
        return false;
    }
    return !request->participants || among(request, job->ranks[request->root]->index);
}

static muster_status enter(struct mst_session *session, struct mst_waiter *waiter,
                           const struct mst_round_request *wanted)
{
    struct mst_job *job = session->job;
    struct mst_round_name *name;
    struct mst_round *round;
    muster_status status;
    uint64_t at;

    waiter->number = (int64_t)wanted->number;
    waiter->member = session->member;
    if (session->role != MST_ROLE_RANK) {
        return MUSTER_EINVAL;
    }
    status = check_limits(waiter, wanted);
    if (status != MUSTER_OK) {
        return status;
    }
    if (!makes_sense(wanted)) {
        return MUSTER_EINVAL;
    }
    if (!in_generation(session, wanted->generation)) {
        return mst_generation_fence(session, waiter);
    }
    if (!root_makes_sense(session, wanted)) {
        return MUSTER_EINVAL;
    }
    name = mst_named_find(&job->round_names, wanted->name);
    at = number_of(job, name, wanted);
    round = round_of(name, wanted->number);
    if (wanted->number < at) {
        return round && mst_round_part(round, session->member)
                   ? answer_from(round, waiter, round->status, 0)
                   : answer_from(NULL, waiter, MUSTER_ESTALE, at);
    }
    if (wanted->number > at) {
        return answer_from(name ? name->open : NULL, waiter, MUSTER_EINVAL, at);
    }
    if (round) {
        return contribute(session, waiter, round, wanted);
    }
    if (wanted->seal && job->seal) {
        return answer_from(job->seal, waiter, MUSTER_EINVAL, job->seal->number);
    }
    if (!name && at_limit(job) && !outdated(job)) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_ROUNDS,
                                       job->round_names.tree.count + UINT64_C(1));
    }
    return begin(session, waiter, name, wanted);
}

muster_status mst_round_request(struct mst_session *session, struct mst_waiter *waiter,
                                const struct mst_request *request)
{
    muster_status status = enter(session, waiter, &request->round);

    /* One for which there is no room changes nothing. */
    if (status != MUSTER_ENOMEM && status != MUSTER_ELIMIT && !session->core->held &&
        session->role == MST_ROLE_RANK && in_generation(session, request->round.generation)) {
        take_results(session, &request->round);
    }
    return status;
}

muster_status mst_round_request_members(struct mst_session *session, struct mst_waiter *waiter,
                                        const struct mst_request *request)
{
    const struct mst_job *job = session->job;
    const struct mst_round_name *name;
    struct mst_round *round;

    if (request->round_members.generation != job->generation) {
        return mst_generation_fence(session, waiter);
    }
    name = mst_named_find(&job->round_names, request->round_members.name);
    round = round_of(name, request->round_members.number);
    if (!round) {
        return name && request->round_members.number < name->number ? MUSTER_ESTALE
                                                                    : MUSTER_ENOTFOUND;
    }
    waiter->after = request->round_members.after;
    refer(waiter, round);
    return MUSTER_OK;
}
