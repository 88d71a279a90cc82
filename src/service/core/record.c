/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/record.h"

#include <string.h>

#include "proto/secondary.h"
#include "service/core/job.h"
#include "service/core/node.h"

/* ---- keeping ---- */

bool mst_records_sane(const struct mst_records *records, uint64_t now_ns)
{
    uint64_t kept = records->total < MST_NAMES_MAX ? records->total : MST_NAMES_MAX;
    bool sane = records->count == kept && (records->generation != 0 || records->total == 0);
    uint64_t last_ns = records->begun_ns;

    for (uint32_t i = 0; sane && i < records->count; i++) {
        sane = records->first[i].at_ns >= last_ns;
        last_ns = records->first[i].at_ns;
    }
    return sane && last_ns <= now_ns;
}

static void release(struct mst_core *core, struct mst_record *record)
{
    mst_blob_drop(&core->mem, record->host);
    mst_blob_drop(&core->mem, record->text);
}

/* Makes room there. The latest one gives way: it explains least. */
static void make_room(struct mst_job *job, uint32_t at)
{
    struct mst_records *records = &job->records;

    if (records->count == MST_NAMES_MAX) {
        release(job->core, &records->first[--records->count]);
    }
    memmove(&records->first[at + 1], &records->first[at],
            (records->count - at) * sizeof(records->first[0]));
    records->count++;
}

/* At this place. NULL: as many are kept as there is room for; it is only counted. */
static struct mst_record *add(struct mst_job *job, uint32_t at, struct mst_who who,
                              const struct mst_loss *told)
{
    struct mst_records *records = &job->records;
    struct mst_record *record = &records->first[at];
    uint64_t at_ns = at < records->count ? record->at_ns : job->core->now_ns;

    records->total++;
    if (at == MST_NAMES_MAX) {
        return NULL;
    }
    make_room(job, at);
    *record = (struct mst_record){.who = who,
                                  .at_ns = at_ns, /* it was no later than what it explains */
                                  .told_by = told->told_by,
                                  .text = mst_blob_keep(told->text)};
    record->who.cause = told->cause;
    record->who.code = told->code;
    return record;
}

/* A failure that a rank reports of itself may be no more than an error of its connection to this
 * member, whose death the agent reports a moment later. */
static bool is_secondary(const struct mst_record *record, const struct mst_member *dead)
{
    return !record->gone && record->who.cause == MST_CAUSE_FAULT && record->told_by == 0 &&
           record->who.index != dead->index;
}

/* The death of a member stands before the failures of other ranks that were reported a moment
 * before it. */
static uint32_t place_of_death(const struct mst_member *dead)
{
    const struct mst_records *records = &dead->job->records;
    uint64_t now_ns = dead->job->core->now_ns;
    uint32_t at = records->count;

    while (at > 0 && now_ns - records->first[at - 1].at_ns <= MST_SECONDARY_MS * NS_PER_MS) {
        at--;
    }
    while (at < records->count && !is_secondary(&records->first[at], dead)) {
        at++;
    }
    return at;
}

void mst_record_add(struct mst_member *member, const struct mst_loss *told, bool gone)
{
    bool death = gone && mst_cause_is_death(told->cause);
    uint32_t at = death ? place_of_death(member) : member->job->records.count;
    struct mst_record *record = add(member->job, at, mst_member_who(member), told);

    if (record) {
        record->gone = gone;
        record->host = mst_blob_keep(member->seat.host);
    }
}

bool mst_record_nobody(struct mst_job *job, const struct mst_loss *told)
{
    for (uint32_t i = 0; i < job->records.count; i++) {
        if (job->records.first[i].who.index == MST_INDEX_ANY) {
            return false;
        }
    }
    (void)add(job, job->records.count, mst_member_absent_who(MST_INDEX_ANY), told);
    return true;
}

static bool awaits_cause(const struct mst_record *record, const struct mst_session *teller,
                         const struct mst_request *request)
{
    const struct mst_who *who = &record->who;

    return record->gone && who->cause == MST_CAUSE_GONE && who->index == request->lost.index &&
           who->pid == request->lost.pid &&
           mst_node_speaks(teller, who->node, mst_blob_slice(record->host));
}

static void refine(struct mst_records *records, const struct mst_session *teller,
                   const struct mst_request *request, const struct mst_loss *loss)
{
    for (uint32_t i = 0; i < records->count; i++) {
        struct mst_record *record = &records->first[i];

        if (awaits_cause(record, teller, request)) {
            record->who.cause = loss->cause;
            record->who.code = loss->code;
            mst_blob_drop(&teller->core->mem, record->text);
            record->text = mst_blob_keep(loss->text);
        }
    }
}

/* Why the present generation began; NONE: for newcomers. The last records are kept through a
 * growth, and are of an older generation then. Generation numbers do not show it: they leap where a
 * member was in a later generation that this service does not know (src/service/core/claim.c). */
static enum mst_cause cause_of_restart(const struct mst_job *job)
{
    return job->last_is_cause ? job->last_records.first[0].who.cause : MST_CAUSE_NONE;
}

static void count_known(struct mst_job *job)
{
    if (cause_of_restart(job) != MST_CAUSE_GONE) {
        mst_record_count(job);
    }
}

void mst_record_refine(const struct mst_session *teller, const struct mst_request *request,
                       const struct mst_loss *loss)
{
    struct mst_job *job = teller->job;

    if (loss->cause == MST_CAUSE_GONE) {
        return;
    }
    refine(&job->records, teller, request, loss);
    refine(&job->last_records, teller, request, loss);
    mst_history_refine(teller, request, loss);
    count_known(job);
}

/* ---- the end of a generation ---- */

static void drop(struct mst_job *job, struct mst_records *records)
{
    for (uint32_t i = 0; i < records->count; i++) {
        release(job->core, &records->first[i]);
    }
    *records = (struct mst_records){0};
}

void mst_record_count(struct mst_job *job)
{
    if (job->restart_uncounted) {
        job->restart_uncounted = false;
        job->counts.restarts[cause_of_restart(job)]++;
    }
    job->counts.away_ns[cause_of_restart(job)] += job->away_ns;
    job->away_ns = 0;
}

void mst_record_seal(struct mst_job *job, bool restarted)
{
    mst_record_count(job); /* the one before */
    mst_counts_back(job);
    job->last_is_cause = job->records.total > 0;
    if (job->last_is_cause) { /* growth keeps the records of the generation before it */
        drop(job, &job->last_records);
        job->last_records = job->records;
        job->fault_count++;
    }
    job->records =
        (struct mst_records){.generation = job->generation, .begun_ns = job->core->now_ns};
    /* A death is often reported before its cause, as with losses: member.c. */
    job->restart_uncounted = restarted;
    count_known(job);
}

void mst_record_clear(struct mst_job *job)
{
    mst_record_count(job);
    drop(job, &job->records);
    drop(job, &job->last_records);
    job->last_is_cause = false;
    job->fault_count = 0;
}

/* ---- in replies ---- */

struct mst_who mst_record_who(const struct mst_job *job, const struct mst_record *record)
{
    struct mst_who who = record->who;

    who.state = MST_PRESENT;
    if (record->gone) {
        who.state = who.cause == MST_CAUSE_LEFT ? MST_LEFT : MST_STATE_LOST;
    }
    who.role = MST_ROLE_RANK;
    who.heard_ms = mst_core_since_ms(job->core, record->at_ns);
    who.host = mst_blob_slice(record->host);
    return who;
}

uint32_t mst_record_after_ms(const struct mst_records *records, uint64_t at_ns)
{
    uint64_t ms = (at_ns - records->begun_ns) / NS_PER_MS;

    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

uint32_t mst_record_total(const struct mst_records *records)
{
    return records->total < UINT32_MAX ? (uint32_t)records->total : UINT32_MAX;
}

uint64_t mst_record_age_ms(const struct mst_job *job)
{
    return job->records.generation != 0 ? mst_core_since_ms(job->core, job->records.begun_ns) : 0;
}

void mst_record_fill(const struct mst_job *job, const struct mst_records *records,
                     const struct mst_record *record, struct mst_item *item)
{
    item->who = mst_record_who(job, record);
    item->value = mst_blob_slice(record->text);
    item->number = records->generation;
    item->arrived = mst_record_after_ms(records, record->at_ns);
    item->expected = record->told_by;
}

bool mst_record_belongs(const struct mst_job *job, const struct mst_view *view, bool stood)
{
    return (stood || view->rank != MST_RANK_NONE) && view->generation == job->records.generation &&
           job->last_is_cause;
}
