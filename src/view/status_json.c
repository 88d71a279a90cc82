/* SPDX-License-Identifier: Apache-2.0 */
#include "view/status_json.h"

#include <stdlib.h>
#include <string.h>

#include "proto/words.h"
#include "view/brief.h"
#include "view/clusters.h"
#include "view/front_waits.h"
#include "view/json.h"
#include "view/plain.h"
#include "view/preemption.h"
#include "view/replicas.h"
#include "view/restarts_left.h"
#include "view/stopped.h"
#include "view/story.h"
#include "view/verdict.h"

void mst_status_fini(struct mst_status *status)
{
    mst_items_fini(&status->jobs);
    mst_items_fini(&status->members);
    mst_items_fini(&status->rounds);
    mst_items_fini(&status->hosts);
    mst_items_fini(&status->faults);
    mst_items_fini(&status->history);
    mst_items_fini(&status->preemption);
    mst_items_fini(&status->clusters);
    mst_items_fini(&status->plain);
    mst_items_fini(&status->stopped);
    mst_items_fini(&status->front_waits);
    mst_items_fini(&status->replicas);
    mst_items_fini(&status->restarts);
}

const struct mst_item *mst_status_job(const struct mst_status *status)
{
    struct mst_slice wanted = mst_slice_text(status->job);

    for (size_t i = 0; i < status->jobs.count; i++) {
        if (mst_slice_equal(status->jobs.items[i].name, wanted)) {
            return &status->jobs.items[i];
        }
    }
    return NULL;
}

const struct mst_item *mst_status_rank(const struct mst_status *status, uint32_t index)
{
    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_who *who = &status->members.items[i].who;

        if (who->role == MST_ROLE_RANK && who->index == index) {
            return &status->members.items[i];
        }
    }
    return NULL;
}

/* ---- progress ---- */

static int compare_rates(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

static uint32_t middle_of(uint32_t *rates, size_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(rates, count, sizeof(*rates), compare_rates);
    return rates[(count - 1) / 2];
}

uint32_t mst_status_rate(const struct mst_status *status)
{
    const struct mst_item *job = mst_status_job(status);
    uint32_t *rates = malloc(status->members.count * sizeof(*rates) + 1);
    uint32_t rate;
    size_t count = 0;

    for (size_t i = 0; rates && i < status->members.count; i++) {
        const struct mst_item *member = &status->members.items[i];
        const struct mst_rank_progress *progress = &member->progress;

        if (job && member->has_progress && progress->generation == job->number &&
            (progress->stepped || progress->step > 0)) {
            rates[count++] = progress->rate;
        }
    }
    rate = middle_of(rates, count);
    free(rates);
    return rate;
}

/* ---- missing ranks ---- */

static bool is_here(enum mst_state state)
{
    return state == MST_JOINING || state == MST_PRESENT || state == MST_SILENT ||
           state == MST_SPARE;
}

uint32_t mst_status_spares(const struct mst_status *status)
{
    uint32_t spares = 0;

    for (size_t i = 0; i < status->members.count; i++) {
        spares += status->members.items[i].who.state == MST_SPARE;
    }
    return spares;
}

uint32_t mst_status_workers_only(const struct mst_status *status)
{
    uint32_t workers = 0;

    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_who *who = &status->members.items[i].who;

        if (who->role == MST_ROLE_RANK) {
            return 0;
        }
        workers += who->role == MST_ROLE_WORKER && is_here(who->state);
    }
    return workers;
}

/* The missing places, without those where a process runs that does not use muster. Both come by
 * index. */
struct absences {
    struct mst_plain plain;
    size_t at; /* in it */
    mst_status_missing_fn *fn;
    void *ctx;
};

static void is_absent(struct absences *absences, uint32_t index, const struct mst_item *member)
{
    const struct mst_plain *plain = &absences->plain;

    while (absences->at < plain->count && plain->ranks[absences->at].index < index) {
        absences->at++;
    }
    if (absences->at == plain->count || plain->ranks[absences->at].index != index) {
        absences->fn(absences->ctx, index, member);
    }
}

/* Members are listed by role and index, so ranks come by index. */
void mst_status_each_missing(const struct mst_status *status, mst_status_missing_fn *fn, void *ctx)
{
    const struct mst_item *job = mst_status_job(status);
    bool complete = !job || job->arrived >= job->expected || mst_status_workers_only(status) > 0;
    struct absences absences = {.fn = fn, .ctx = ctx};
    uint32_t size = complete ? 0 : job->expected;
    uint32_t next = 0;

    if (!mst_plain_of(status, &absences.plain) || absences.plain.more > 0) {
        size = 0; /* which of those that never came run all the same is not known */
    }

    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_item *member = &status->members.items[i];

        if (member->who.role != MST_ROLE_RANK) {
            continue;
        }
        for (; next < member->who.index && next < size; next++) {
            is_absent(&absences, next, NULL);
        }
        if (!is_here(member->who.state)) {
            is_absent(&absences, member->who.index, member);
        }
        next = member->who.index + 1;
    }
    for (; next < size; next++) {
        is_absent(&absences, next, NULL);
    }
    free(absences.plain.ranks);
}

/* ---- JSON. NULL anywhere is "no memory", and makes the whole NULL ---- */

static json_t *text_json(struct mst_slice bytes)
{
    return mst_json_text(bytes);
}

static json_t *number_json(uint64_t number)
{
    return json_integer((json_int_t)number);
}

/* Of what has no such number: null. */
static json_t *number_but_json(uint32_t number, uint32_t none)
{
    return number == none ? json_null() : number_json(number);
}

/* Takes the object over. */
static json_t *drop(json_t *object)
{
    json_decref(object);
    return NULL;
}

/* Takes the value over. */
static bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

/* Takes the value over; `*list` is NULL from the first that is. */
static void append(json_t **list, json_t *value)
{
    if (json_array_append_new(*list, value) != 0) {
        *list = drop(*list);
    }
}

/* How long it is so; null: not known. */
static json_t *since_json(const struct mst_item *item)
{
    return item->since_ms > 0 ? number_json(item->since_ms - 1) : json_null();
}

/* A rank of which no agent reports any is without it. */
static json_t *progress_json(const struct mst_item *member)
{
    const struct mst_rank_progress *progress = &member->progress;
    bool works = progress->work != MST_WORK_NONE && progress->work_us > 0;
    json_t *object = member->has_progress ? json_object() : NULL;
    bool good =
        put(object, "generation", number_json(progress->generation)) &&
        put(object, "step", progress->stepped ? json_integer(progress->step) : json_null()) &&
        put(object, "pings", progress->stepped ? json_null() : json_integer(progress->step)) &&
        put(object, "steps_per_s", json_real((double)progress->rate / 1000)) &&
        put(object, "behind", number_json(progress->behind)) &&
        put(object, "quiet_ms", number_json(progress->quiet_ms)) &&
        put(object, "section",
            progress->section.size > 0 ? text_json(progress->section) : json_null()) &&
        put(object, "work", json_string(mst_work_word(progress->work))) &&
        put(object, "work_ms", works ? json_real((double)progress->work_us / 1000) : json_null()) &&
        put(object, "slower",
            progress->slower > 0 ? json_real((double)progress->slower / 1000) : json_null()) &&
        put(object, "straggler", json_boolean(progress->straggler));

    return !member->has_progress ? json_null() : good ? object : drop(object);
}

static json_t *member_json(const struct mst_item *member)
{
    const struct mst_who *who = &member->who;
    json_t *object = json_object();
    bool good =
        put(object, "role", json_string(mst_role_word(who->role))) &&
        put(object, "index", number_json(who->index)) &&
        put(object, "rank", number_but_json(who->rank, MST_RANK_NONE)) &&
        put(object, "incarnation", number_json(who->incarnation)) &&
        put(object, "state", json_string(mst_state_word(who->state))) &&
        put(object, "since_ms", since_json(member)) &&
        put(object, "cause", json_string(mst_cause_word(who->cause))) &&
        put(object, "code", json_integer(who->code)) &&
        put(object, "losses", number_json(who->losses)) &&
        put(object, "heard_ms", number_json(who->heard_ms)) &&
        put(object, "pid", number_json(who->pid)) && put(object, "host", text_json(who->host)) &&
        put(object, "node", number_but_json(who->node, MST_NODE_NONE)) &&
        put(object, "text", text_json(member->value)) &&
        put(object, "waits_at", member->name.size > 0 ? text_json(member->name) : json_null()) &&
        put(object, "waits_number", number_json(member->name.size > 0 ? member->number : 0)) &&
        put(object, "progress", progress_json(member));

    return good ? object : drop(object);
}

static json_t *indices_json(const struct mst_item *round)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < round->missing_count; i++) {
        append(&list, number_json(round->missing[i]));
    }
    return list;
}

static json_t *round_json(const struct mst_item *round)
{
    json_t *object = json_object();
    bool good = put(object, "name", text_json(round->name)) &&
                put(object, "number", number_json(round->number)) &&
                put(object, "arrived", number_json(round->arrived)) &&
                put(object, "expected", number_json(round->expected)) &&
                put(object, "since_ms", since_json(round)) &&
                put(object, "first_missing",
                    round->who.state != 0 ? number_json(round->who.index) : json_null()) &&
                put(object, "missing", indices_json(round)) &&
                put(object, "awaited", number_json(round->awaited)) &&
                put(object, "awaited_ms", number_json(round->lost_ms));

    return good ? object : drop(object);
}

static json_t *host_json(const struct mst_item *host)
{
    json_t *object = json_object();
    bool good = put(object, "host", text_json(host->name)) &&
                put(object, "losses", number_json(host->number)) &&
                put(object, "rank_losses", number_json(host->expected)) &&
                put(object, "members", number_json(host->arrived));

    return good ? object : drop(object);
}

/* The ranks of some hangs cannot be told apart: such a fault belongs to no process, and the fields
 * of a process are null. */
static json_t *fault_json(const struct mst_item *fault)
{
    const struct mst_who *who = &fault->who;
    bool named = who->index != MST_INDEX_ANY;
    json_t *object = json_object();
    bool good =
        put(object, "generation", number_json(fault->number)) &&
        put(object, "after_ms", number_json(fault->arrived)) &&
        put(object, "ago_ms", number_json(who->heard_ms)) &&
        put(object, "cause", json_string(mst_cause_word(who->cause))) &&
        put(object, "code", json_integer(who->code)) &&
        put(object, "text", text_json(fault->value)) &&
        put(object, "state", named ? json_string(mst_state_word(who->state)) : json_null()) &&
        put(object, "index", number_but_json(who->index, MST_INDEX_ANY)) &&
        put(object, "rank", number_but_json(who->rank, MST_RANK_NONE)) &&
        put(object, "incarnation", named ? number_json(who->incarnation) : json_null()) &&
        put(object, "pid", named ? number_json(who->pid) : json_null()) &&
        put(object, "host", named ? text_json(who->host) : json_null()) &&
        put(object, "node", number_but_json(who->node, MST_NODE_NONE)) &&
        put(object, "told_by",
            fault->expected > 0 ? number_json(fault->expected - 1) : json_null());

    return good ? object : drop(object);
}

static void add_missing(void *ctx, uint32_t index, const struct mst_item *member)
{
    (void)member;
    append(ctx, number_json(index));
}

static json_t *notice_json(const struct mst_preemption_notice *given)
{
    const struct mst_notice *notice = &given->notice;
    json_t *object = json_object();
    bool good = put(object, "index",
                    notice->index == MST_NOTICE_ALL ? json_null() : number_json(notice->index)) &&
                put(object, "level",
                    json_string(notice->level == MST_NOTICE_CERTAIN ? "certain" : "advisory")) &&
                put(object, "left_ms", json_integer(given->left_ms)) &&
                put(object, "assumed", json_boolean(notice->assumed)) &&
                put(object, "source", text_json(mst_slice_text(notice->source))) &&
                put(object, "host", text_json(mst_slice_text(notice->host))) &&
                put(object, "reason", text_json(mst_slice_text(notice->reason)));

    return good ? object : drop(object);
}

static void add_notice(void *ctx, const struct mst_preemption_notice *given)
{
    append(ctx, notice_json(given));
}

static json_t *preemption_json(const struct mst_status *status)
{
    json_t *notices = json_array(), *missing = json_array();
    struct mst_preemption now;
    json_t *object = json_object();
    bool good;

    mst_preemption_of(status, &now);
    mst_preemption_each_notice(status, add_notice, &notices);
    mst_preemption_each_missing(status, &now, add_missing, &missing);
    good = put(object, "notices", notices) &&
           put(object, "state", json_string(mst_preemption_word(now.state))) &&
           put(object, "generation",
               now.state == MST_PREEMPTION_NONE ? json_null() : number_json(now.generation)) &&
           put(object, "agreed_step",
               now.state == MST_PREEMPTION_NONE ? json_null() : json_integer(now.step)) &&
           put(object, "saved", number_json(now.saved)) && put(object, "of", number_json(now.of)) &&
           put(object, "missing", missing);
    return good ? object : drop(object);
}

/* The closure that waits or runs longest, with one more value; null: none does. */
static json_t *closure_json(uint64_t closure, const char *function, uint64_t ms, const char *name,
                            json_t *value)
{
    json_t *object = json_object();
    bool good = put(object, "closure", number_json(closure)) &&
                put(object, "function", text_json(mst_slice_text(function))) &&
                put(object, "ms", number_json(ms));

    good = put(object, name, value) && good;
    if (good && closure > 0) {
        return object;
    }
    json_decref(object);
    return closure > 0 ? NULL : json_null();
}

static json_t *cluster_json(const struct mst_cluster_look *look)
{
    const struct mst_cluster_status *status = &look->status;
    json_t *object = json_object();
    bool good = put(object, "name", text_json(look->name)) &&
                put(object, "queued", number_json(status->queued)) &&
                put(object, "queued_bytes", number_json(status->queued_bytes)) &&
                put(object, "in_flight", number_json(status->in_flight)) &&
                put(object, "hungry", number_json(status->hungry)) &&
                put(object, "workers", number_json(status->workers)) &&
                put(object, "present", number_json(status->present)) &&
                put(object, "slots", number_json(status->slots)) &&
                put(object, "slots_free", number_json(status->slots_free)) &&
                put(object, "per_second", json_real((double)status->rate / 1000)) &&
                put(object, "admitted", number_json(status->admitted)) &&
                put(object, "values", number_json(status->values)) &&
                put(object, "failures", number_json(status->failures)) &&
                put(object, "cancelled", number_json(status->cancelled)) &&
                put(object, "retried", number_json(status->retried)) &&
                put(object, "put_back", number_json(status->put_back)) &&
                put(object, "late", number_json(status->late)) &&
                put(object, "refused", number_json(status->refused)) &&
                put(object, "series", number_json(status->series)) &&
                put(object, "oldest",
                    closure_json(status->oldest, status->oldest_function, status->oldest_ms,
                                 "waits_for", json_string(mst_cluster_wait_word(status->waits)))) &&
                put(object, "longest",
                    closure_json(status->longest, status->longest_function, status->longest_ms,
                                 "worker", number_json(status->longest_worker)));

    return good ? object : drop(object);
}

static void add_cluster(void *ctx, const struct mst_cluster_look *look)
{
    append(ctx, cluster_json(look));
}

static json_t *clusters_json(const struct mst_status *status)
{
    json_t *list = json_array();

    mst_clusters_each(&status->clusters, add_cluster, &list);
    return list;
}

static json_t *plain_json(const struct mst_status *status)
{
    json_t *list = json_array();
    struct mst_plain plain;

    if (!mst_plain_of(status, &plain)) {
        return drop(list);
    }
    for (size_t i = 0; i < plain.count; i++) {
        const struct mst_plain_rank *rank = &plain.ranks[i];
        json_t *object = json_object();
        bool good = put(object, "index", number_json(rank->index)) &&
                    put(object, "pid", number_json(rank->pid)) &&
                    put(object, "host", text_json(rank->host)) &&
                    put(object, "node", number_json(rank->node));

        append(&list, good ? object : drop(object));
    }
    free(plain.ranks);
    return list;
}

static void add_stopped(void *ctx, const struct mst_stopped *stopped)
{
    json_t *object = json_object();
    bool good = put(object, "index", number_json(stopped->index)) &&
                put(object, "pid", number_json(stopped->pid)) &&
                put(object, "for_ms", number_json(stopped->for_ms));

    append(ctx, good ? object : drop(object));
}

static json_t *stopped_json(const struct mst_status *status)
{
    json_t *list = json_array();

    mst_stopped_each(status, add_stopped, &list);
    return list;
}

static json_t *front_waits_json(const struct mst_status *status)
{
    json_t *list = json_array();
    struct mst_front_waits waits;

    if (!mst_front_waits_of(status, &waits)) {
        return drop(list);
    }
    for (size_t i = 0; i < waits.count; i++) {
        const struct mst_front_waiter *waiter = &waits.list[i];
        json_t *object = json_object();
        bool good =
            put(object, "index",
                waiter->index == MST_INDEX_ANY ? json_null() : number_json(waiter->index)) &&
            put(object, "pid", number_json(waiter->pid)) &&
            put(object, "for_ms", number_json(waiter->for_ms)) &&
            put(object, "what", text_json(waiter->what));

        append(&list, good ? object : drop(object));
    }
    free(waits.list);
    return list;
}

static json_t *job_json(const struct mst_item *job)
{
    json_t *object = json_object();
    bool good = put(object, "job", text_json(job->name)) &&
                put(object, "generation", number_json(job->number)) &&
                put(object, "present", number_json(job->arrived)) &&
                put(object, "size", number_json(job->expected)) &&
                put(object, "since_ms", since_json(job)) &&
                put(object, "restarts", number_json(job->total));

    return good ? object : drop(object);
}

static json_t *replicas_json(const struct mst_status *status)
{
    struct mst_slice rest = status->jobs.value;
    struct mst_replica_look look;
    json_t *list = json_array();

    while (mst_replica_look_next(&rest, &look)) {
        json_t *one = json_object();
        uint32_t node;
        const bool placed = mst_replica_node(&status->replicas, look.address, &node);
        const bool good =
            put(one, "address", text_json(look.address)) &&
            put(one, "node", placed ? number_json(node) : json_null()) &&
            put(one, "leads", json_boolean(look.there == MST_REPLICA_THERE_LEADS)) &&
            put(one, "here", json_boolean(look.there != MST_REPLICA_THERE_AWAY)) &&
            put(one, "votes", json_boolean(mst_replica_votes(status->jobs.value, look.address))) &&
            put(one, "behind", number_json(look.behind));

        append(&list, good ? one : drop(one));
    }
    return list;
}

/* Of a single service, and at one that does not lead: null. */
static json_t *service_json(const struct mst_status *status)
{
    const struct mst_slice lines = status->jobs.value;
    struct mst_service_process process;
    struct mst_replica_look leader;
    json_t *object;
    uint32_t listed, here;
    bool leads = mst_replica_leader(lines, &leader);
    bool known = mst_service_process_read(lines, &process);

    mst_replicas_count(lines, &listed, &here);
    if (listed == 0) {
        return json_null();
    }
    object = json_object();
    return put(object, "leader", leads ? text_json(leader.address) : json_null()) &&
                   put(object, "host", known ? text_json(process.host) : json_null()) &&
                   put(object, "pid", known ? number_json(process.pid) : json_null()) &&
                   put(object, "here", number_json(here)) &&
                   put(object, "of", number_json(listed)) &&
                   put(object, "replicas", replicas_json(status))
               ? object
               : drop(object);
}

static json_t *list_json(const struct mst_items *items, json_t *(*one)(const struct mst_item *))
{
    json_t *list = json_array();

    for (size_t i = 0; i < items->count; i++) {
        append(&list, one(&items->items[i]));
    }
    return list;
}

/* Of the ranks of which a step and a rate are known. */
static json_t *rate_json(const struct mst_status *status)
{
    uint32_t rate = mst_status_rate(status);

    return rate > 0 ? json_real((double)rate / 1000) : json_null();
}

static json_t *stragglers_json(const struct mst_status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_item *member = &status->members.items[i];

        if (member->has_progress && member->progress.straggler) {
            append(&list, number_json(member->who.index));
        }
    }
    return list;
}

static json_t *missing_json(const struct mst_status *status)
{
    json_t *list = json_array();

    mst_status_each_missing(status, add_missing, &list);
    return list;
}

/* What there is to say, and what it has cost so far. */
static json_t *verdict_json(const struct mst_status *status)
{
    struct mst_job_verdict verdict;
    json_t *object = json_object();
    bool good;

    mst_job_verdict_of(status, &verdict);
    good = put(object, "sentence", text_json(mst_slice_text(verdict.sentence))) &&
           put(object, "kind", json_string(mst_job_verdict_word(verdict.kind))) &&
           put(object, "level", json_string(mst_job_verdict_level_word(verdict.level))) &&
           put(object, "index", number_but_json(verdict.index, MST_INDEX_ANY)) &&
           put(object, "since_ms",
               verdict.since_ms > 0 ? number_json(verdict.since_ms - 1) : json_null());
    return good ? object : drop(object);
}

static json_t *members_json(const struct mst_status *status, bool brief)
{
    json_t *list = json_array();
    uint32_t listed = 0;

    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_item *member = &status->members.items[i];

        if (!brief || (mst_brief_lists(member) && listed++ < MST_BRIEF_MEMBERS_MAX)) {
            append(&list, member_json(member));
        }
    }
    return list;
}

static json_t *status_json(const struct mst_status *status, bool brief)
{
    const struct mst_item nobody = {.name = mst_slice_text(status->job)};
    const struct mst_item *job = mst_status_job(status);
    json_t *object = job_json(job ? job : &nobody);
    struct mst_story story;
    bool good;

    mst_story_of(&status->history, &story);
    good = put(object, "verdict", verdict_json(status)) &&
           put(object, "restarts_left", mst_restarts_left_json(&status->restarts)) &&
           put(object, "lost_ms", number_json(story.away_ms)) &&
           put(object, "address", text_json(mst_slice_text(status->address))) &&
           put(object, "service", service_json(status)) &&
           put(object, "spares", number_json(mst_status_spares(status))) &&
           put(object, "missing", missing_json(status)) &&
           put(object, "steps_per_s", rate_json(status)) &&
           put(object, "stragglers", stragglers_json(status)) &&
           put(object, "without_muster", plain_json(status)) &&
           put(object, "stopped", stopped_json(status)) &&
           put(object, "front_waits", front_waits_json(status)) &&
           put(object, "members", members_json(status, brief)) &&

           put(object, "rounds", list_json(&status->rounds, round_json)) &&
           put(object, "hosts", list_json(&status->hosts, host_json)) &&
           put(object, "faults", list_json(&status->faults, fault_json)) &&
           put(object, "preemption", preemption_json(status)) &&
           put(object, "clusters", clusters_json(status)) &&
           put(object, "jobs", list_json(&status->jobs, job_json));

    return good ? object : drop(object);
}

char *mst_status_json(const struct mst_status *status)
{
    return mst_json_line(status_json(status, false));
}

char *mst_status_brief_json(const struct mst_status *status)
{
    json_t *object = status_json(status, true);

    if (object && !mst_brief_put(object, json_object_get(object, "rounds"), status)) {
        object = drop(object);
    }
    return mst_json_line(object);
}
