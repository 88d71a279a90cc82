/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/history.h"

#include "proto/notice.h"
#include "proto/run_keys.h"
#include "proto/secondary.h"
#include "service/core/generation.h"
#include "service/core/job.h"
#include "service/core/node.h"
#include "service/core/round.h"

#define ROOM_LEAST 16u

/* ---- the ring ---- */

struct mst_incident *mst_history_at(const struct mst_history *history, uint32_t i)
{
    return &history->ring[(history->first + i) % history->room];
}

static void release(struct mst_core *core, struct mst_incident *incident)
{
    mst_blob_drop(&core->mem, incident->host);
    mst_blob_drop(&core->mem, incident->text);
    *incident = (struct mst_incident){0};
}

static void drop_oldest(struct mst_core *core, struct mst_history *history)
{
    release(core, mst_history_at(history, 0));
    history->first = (history->first + 1) % history->room;
    history->count--;
}

/* Twice as large, as far as it may be. False: as large as may be, or no memory. */
static bool grow(struct mst_core *core, struct mst_history *history)
{
    uint64_t most = core->config.history;
    uint32_t wanted = history->room > 0 ? history->room * 2 : ROOM_LEAST;
    struct mst_incident *ring;

    wanted = wanted < most ? wanted : (uint32_t)most;
    ring = wanted > history->room ? mst_mem_array(&core->mem, wanted, sizeof(*ring)) : NULL;
    if (!ring) {
        return false;
    }
    for (uint32_t i = 0; i < history->count; i++) {
        ring[i] = *mst_history_at(history, i);
    }
    mst_mem_release(&core->mem, history->ring);
    history->ring = ring;
    history->room = wanted;
    history->first = 0;
    return true;
}

/* NULL: none are kept, or there is no memory. */
static struct mst_incident *make(struct mst_job *job)
{
    struct mst_history *history = &job->history;

    if (history->count == history->room && !grow(job->core, history)) {
        if (history->room == 0) {
            return NULL;
        }
        drop_oldest(job->core, history);
    }
    history->total++;
    return mst_history_at(history, history->count++);
}

/* An incident has all that is known of it. */
static void known(const struct mst_job *job)
{
    const struct mst_core_config *config = &job->core->config;

    if (config->incident) {
        config->incident(config->trace_ctx, job->core, job->named.name);
    }
}

/* Before the last `behind` incidents, and at the time of the first of them. */
static struct mst_incident *add_before(struct mst_job *job, enum mst_incident_kind kind,
                                       uint32_t behind)
{
    const struct mst_history *history = &job->history;
    struct mst_incident *incident = make(job);
    uint64_t at_ns = job->core->now_ns;

    for (uint32_t i = history->count - 1; incident && behind > 0 && i > 0; behind--, i--) {
        struct mst_incident *earlier = mst_history_at(history, i - 1);

        *incident = *earlier;
        at_ns = earlier->at_ns;
        incident = earlier;
    }
    if (incident) {
        *incident = (struct mst_incident){.kind = kind,
                                          .at_ns = at_ns,
                                          .generation = job->generation,
                                          .who = mst_member_absent_who(MST_INDEX_ANY)};
    }
    return incident;
}

static struct mst_incident *add(struct mst_job *job, enum mst_incident_kind kind)
{
    return add_before(job, kind, 0);
}

void mst_history_take(struct mst_job *job, struct mst_incident *loaded)
{
    struct mst_incident *incident = make(job);

    if (incident) {
        *incident = *loaded;
    } else {
        release(job->core, loaded);
    }
}

void mst_history_clear(struct mst_job *job)
{
    struct mst_history *history = &job->history;

    while (history->count > 0) {
        drop_oldest(job->core, history);
    }
    mst_mem_release(&job->core->mem, history->ring);
    *history = (struct mst_history){0};
}

/* ---- what happens ---- */

/* Whether one more of the faults and losses that end this generation has a line. */
static bool has_line(struct mst_job *job)
{
    return job->history.of_seal++ < MST_NAMES_MAX;
}

static void add_of(struct mst_job *job, enum mst_incident_kind kind, const struct mst_who *who,
                   const struct mst_loss *loss, struct mst_blob *host, uint32_t behind)
{
    struct mst_incident *incident = add_before(job, kind, behind);

    if (incident) {
        incident->who = *who;
        incident->who.cause = loss->cause;
        incident->who.code = loss->code;
        incident->told_by = loss->told_by;
        incident->host = mst_blob_keep(host);
        incident->text = mst_blob_keep(loss->text);
        known(job);
    }
}

void mst_history_fault(struct mst_job *job, struct mst_who who, const struct mst_loss *fault,
                       struct mst_blob *host)
{
    if (has_line(job)) {
        add_of(job, MST_INCIDENT_FAULT, &who, fault, host, 0);
    }
}

/* As in the records: the death stands before the failures that follow from it (secondary.h). */
static bool is_secondary(const struct mst_incident *incident, const struct mst_member *dead)
{
    return incident->kind == MST_INCIDENT_FAULT && incident->who.cause == MST_CAUSE_FAULT &&
           incident->told_by == 0 && incident->who.index != dead->index;
}

/* From the first of them to the end; 0: there are none. */
static uint32_t secondaries(const struct mst_member *dead)
{
    const struct mst_history *history = &dead->job->history;
    uint64_t now_ns = dead->job->core->now_ns;
    uint32_t found = 0;

    for (uint32_t i = history->count; i > 0; i--) {
        const struct mst_incident *incident = mst_history_at(history, i - 1);

        if (incident->kind == MST_INCIDENT_SEALED ||
            now_ns - incident->at_ns > MST_SECONDARY_MS * NS_PER_MS) {
            break;
        }
        found = is_secondary(incident, dead) ? history->count - i + 1 : found;
    }
    return found;
}

/* The latest line gives way to the death that explains it; it is one of the last `behind`. */
static void drop_secondary(struct mst_job *job, uint32_t behind, const struct mst_member *dead)
{
    struct mst_history *history = &job->history;
    uint32_t at = history->count - 1;

    while (at > history->count - behind && !is_secondary(mst_history_at(history, at), dead)) {
        at--;
    }
    release(job->core, mst_history_at(history, at));
    for (; at + 1 < history->count; at++) {
        *mst_history_at(history, at) = *mst_history_at(history, at + 1);
    }
    *mst_history_at(history, at) = (struct mst_incident){0};
    history->count--;
    history->total--;
}

/* The loss of a worker, or of a rank without a seat, ends no generation: it is none of those. */
void mst_history_lost(const struct mst_member *member, const struct mst_loss *loss)
{
    struct mst_job *job = member->job;
    struct mst_who who = mst_member_who(member);
    bool seated = mst_member_seated(member);
    uint32_t behind = seated && mst_cause_is_death(loss->cause) ? secondaries(member) : 0;

    if (seated && !has_line(job)) {
        if (behind == 0) {
            return;
        }
        drop_secondary(job, behind, member);
        behind--;
    }
    add_of(job, MST_INCIDENT_LOST, &who, loss, member->host, behind);
}

void mst_history_node(const struct mst_member *agent, uint64_t ranks)
{
    bool ends = ranks > 0 && agent->job->rank_count > 0;
    struct mst_incident *incident =
        !ends || has_line(agent->job) ? add(agent->job, MST_INCIDENT_NODE) : NULL;

    if (incident) {
        incident->who = mst_member_who(agent);
        incident->who.cause = MST_CAUSE_LEASE;
        incident->after = (uint32_t)ranks;
        incident->host = mst_blob_keep(agent->host);
        known(agent->job);
    }
}

static bool awaits_cause(const struct mst_incident *incident, const struct mst_session *teller,
                         const struct mst_request *request)
{
    const struct mst_who *who = &incident->who;

    return incident->kind == MST_INCIDENT_LOST && who->cause == MST_CAUSE_GONE &&
           who->index == request->lost.index && who->pid == request->lost.pid &&
           mst_node_speaks(teller, who->node, mst_blob_slice(incident->host));
}

void mst_history_refine(const struct mst_session *teller, const struct mst_request *request,
                        const struct mst_loss *loss)
{
    const struct mst_history *history = &teller->job->history;

    for (uint32_t i = history->count; i > 0; i--) {
        struct mst_incident *incident = mst_history_at(history, i - 1);

        if (awaits_cause(incident, teller, request)) {
            incident->who.cause = loss->cause;
            incident->who.code = loss->code;
            mst_blob_drop(&teller->core->mem, incident->text);
            incident->text = mst_blob_keep(loss->text);
            known(teller->job);
            return;
        }
    }
}

void mst_history_sealed(struct mst_job *job, const struct mst_round *seal, uint32_t before)
{
    struct mst_incident *incident = add(job, MST_INCIDENT_SEALED);
    uint64_t called_ns = job->interrupted_ns;
    uint64_t from_ns = seal ? seal->opened_ns : called_ns; /* without one none was left to wait */

    if (incident) {
        incident->before = before;
        incident->after = job->rank_count;
        incident->total = job->last_is_cause ? mst_record_total(&job->last_records) : 0;
        if (called_ns != 0 && from_ns >= called_ns) {
            incident->interrupt_ns = from_ns - called_ns;
            incident->gather_ns = job->core->now_ns - from_ns;
        }
        known(job);
    }
    job->history.of_seal = 0;
}

/* Ranks that try once more with as many are no news. */
void mst_history_too_few(struct mst_job *job, uint32_t there)
{
    const struct mst_history *history = &job->history;
    struct mst_incident *last =
        history->count > 0 ? mst_history_at(history, history->count - 1) : NULL;
    struct mst_incident *incident;

    if (last && last->kind == MST_INCIDENT_TOO_FEW && last->generation == job->generation &&
        last->before == there) {
        return;
    }
    incident = add(job, MST_INCIDENT_TOO_FEW);
    if (incident) {
        incident->before = there;
        incident->after = mst_generation_min_size(job);
        known(job);
    }
}

static void notice(struct mst_job *job, const struct mst_key *key, uint32_t index)
{
    struct mst_incident *incident;
    struct mst_notice read;

    if (!mst_notice_read(mst_blob_slice(key->value), &read)) {
        return;
    }
    incident = add(job, MST_INCIDENT_NOTICE);
    if (incident) {
        incident->who.index = index != MST_NOTICE_ALL ? index : MST_INDEX_ANY;
        /* A copy: the value is counted as held while it is shared. */
        incident->text = mst_blob_new(&job->core->mem, mst_blob_slice(key->value));
        known(job);
    }
}

static void saved(struct mst_job *job, const struct mst_key *key)
{
    struct mst_incident *incident;
    struct mst_preempt_fact fact;

    if (!mst_preempt_fact_read(mst_blob_slice(key->value), &fact)) {
        return;
    }
    incident = add(job, MST_INCIDENT_SAVED);
    if (incident) {
        incident->after = fact.of;
        incident->step = fact.step;
        known(job);
    }
}

void mst_history_preempt(struct mst_job *job, const struct mst_key *key,
                         const struct mst_preempt_name *name)
{
    if (name->kind == MST_PREEMPT_KEY_NOTICE) {
        notice(job, key, name->index);
    } else if (name->kind == MST_PREEMPT_KEY_COMPLETE) {
        saved(job, key);
    }
}

void mst_history_straggler(const struct mst_member *member, uint32_t slower, int64_t step)
{
    struct mst_incident *incident = add(member->job, MST_INCIDENT_STRAGGLER);

    if (incident) {
        incident->who = mst_member_who(member);
        incident->total = slower;
        incident->step = step;
        incident->host = mst_blob_keep(member->host);
        known(member->job);
    }
}

void mst_history_repeated(struct mst_job *job, uint64_t generation, uint32_t steps)
{
    const struct mst_history *history = &job->history;

    for (uint32_t i = history->count; i > 0; i--) {
        struct mst_incident *incident = mst_history_at(history, i - 1);

        if (incident->kind == MST_INCIDENT_SEALED && incident->generation == generation &&
            incident->before > 0) {
            if (incident->step < (int64_t)steps) {
                incident->step = steps;
                known(job);
            }
            return;
        }
    }
}

void mst_history_key(struct mst_job *job, const struct mst_key *key)
{
    const struct mst_slice prefix = mst_slice_text(MST_RUN_KEY_PREFIX);
    struct mst_slice name = mst_key_name(key), value = mst_blob_slice(key->value);
    struct mst_incident *incident;
    struct mst_run_word word;

    if (key->space != &job->keys || !mst_slice_starts_with(name, prefix) ||
        !mst_run_key_read(
            mst_slice_of((const char *)name.data + prefix.size, name.size - prefix.size), value,
            &word) ||
        word.key != MST_RUN_KEY_LIFE) {
        return;
    }
    incident = add(job, MST_INCIDENT_GROUP);
    if (incident) {
        incident->after = word.number;
        incident->text = mst_blob_new(&job->core->mem, word.text); /* a copy, as of a notice */
        known(job);
    }
}

void mst_history_resumed(struct mst_core *core)
{
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        if (add(job, MST_INCIDENT_SERVICE)) {
            known(job);
        }
    }
}

/* ---- in replies ---- */

const struct mst_incident *mst_history_after(const struct mst_history *history, uint64_t after,
                                             uint64_t *number_out)
{
    uint64_t first = history->total - history->count + 1;

    if (history->count == 0 || after >= history->total) { /* a request may name any number */
        return NULL;
    }
    *number_out = after >= first ? after + 1 : first;
    return mst_history_at(history, (uint32_t)(*number_out - first));
}

void mst_history_fill(const struct mst_core *core, const struct mst_incident *incident,
                      struct mst_item *item)
{
    item->incident = incident->kind;
    item->who = incident->who;
    item->who.heard_ms = mst_core_since_ms(core, incident->at_ns);
    item->who.host = mst_blob_slice(incident->host);
    item->value = mst_blob_slice(incident->text);
    item->number = incident->generation;
    item->told_by = incident->told_by;
    item->arrived = incident->before;
    item->expected = incident->after;
    item->total = incident->total;
    item->step = incident->step;
    item->interrupt_ms = incident->interrupt_ns / NS_PER_MS;
    item->gather_ms = incident->gather_ns / NS_PER_MS;
}

void mst_core_history(const struct mst_core *core, struct mst_slice name,
                      void (*take)(void *ctx, const struct mst_item *item), void *ctx)
{
    const struct mst_job *job = mst_named_find(&core->jobs, name);
    const struct mst_incident *incident;
    uint64_t number = 0;

    while (job && (incident = mst_history_after(&job->history, number, &number))) {
        struct mst_item item = {.kind = MST_ITEM_INCIDENT, .revision = number};

        mst_history_fill(core, incident, &item);
        take(ctx, &item);
    }
}
