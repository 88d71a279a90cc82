/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/record.h"

#include "service/core/job.h"
#include "service/core/node.h"

/* ---- keeping ---- */

bool mst_records_sane(const struct mst_records *records)
{
    uint64_t kept = records->total < MST_NAMES_MAX ? records->total : MST_NAMES_MAX;

    return records->count == kept && (records->generation != 0 || records->total == 0);
}

/* NULL: as many are kept as there is room for; it is only counted. */
static struct mst_record *add_as_told(struct mst_job *job, const struct mst_loss *told)
{
    struct mst_records *records = &job->records;
    struct mst_record *record;

    records->total++;
    if (records->count == MST_NAMES_MAX) {
        return NULL;
    }
    record = &records->first[records->count++];
    *record = (struct mst_record){
        .cause = told->cause,
        .code = told->code,
        .at_ns = job->core->now_ns,
        .told_by = told->told_by,
        .index = MST_INDEX_ANY,
        .rank = MST_RANK_NONE,
        .agent = MST_NODE_NONE,
        .text = mst_blob_keep(told->text),
    };
    return record;
}

void mst_record_add(struct mst_member *member, const struct mst_loss *told, bool gone)
{
    const struct mst_seat *seat = &member->seat;
    struct mst_record *record = add_as_told(member->job, told);

    if (record) {
        record->gone = gone;
        record->index = member->index;
        record->rank = seat->rank;
        record->incarnation = seat->incarnation;
        record->pid = seat->pid;
        record->agent = seat->agent;
        record->losses = member->losses;
        record->host = mst_blob_keep(seat->host);
    }
}

void mst_record_nobody(struct mst_job *job, const struct mst_loss *told)
{
    for (uint32_t i = 0; i < job->records.count; i++) {
        if (job->records.first[i].index == MST_INDEX_ANY) {
            return;
        }
    }
    (void)add_as_told(job, told);
}

static bool awaits_cause(const struct mst_record *record, const struct mst_session *teller,
                         const struct mst_request *request)
{
    return record->gone && record->cause == MST_CAUSE_GONE &&
           record->index == request->lost.index && record->pid == request->lost.pid &&
           mst_node_speaks(teller, record->agent, mst_blob_slice(record->host));
}

static void refine(struct mst_records *records, const struct mst_session *teller,
                   const struct mst_request *request, const struct mst_loss *loss)
{
    for (uint32_t i = 0; i < records->count; i++) {
        struct mst_record *record = &records->first[i];

        if (awaits_cause(record, teller, request)) {
            record->cause = loss->cause;
            record->code = loss->code;
            mst_blob_drop(&teller->core->mem, record->text);
            record->text = mst_blob_keep(loss->text);
        }
    }
}

/* Why the present generation began; NULL: for newcomers. The last records are kept through a
 * growth, and are of an older generation then. Generation numbers do not show
 * it: they leap where a member was in a later generation that this service does not know
 * (src/service/core/claim.c). */
static const struct mst_record *cause_of_restart(const struct mst_job *job)
{
    return job->last_is_cause ? &job->last_records.first[0] : NULL;
}

static bool cause_known(const struct mst_job *job)
{
    const struct mst_record *first = cause_of_restart(job);

    return !first || first->cause != MST_CAUSE_GONE;
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
    if (cause_known(job)) {
        mst_record_count(job);
    }
}

/* ---- the end of a generation ---- */

static void drop(struct mst_job *job, struct mst_records *records)
{
    for (uint32_t i = 0; i < records->count; i++) {
        mst_blob_drop(&job->core->mem, records->first[i].host);
        mst_blob_drop(&job->core->mem, records->first[i].text);
    }
    *records = (struct mst_records){0};
}

void mst_record_count(struct mst_job *job)
{
    const struct mst_record *first = cause_of_restart(job);

    if (job->restart_uncounted) {
        job->restart_uncounted = false;
        job->counts.restarts[first ? first->cause : MST_CAUSE_NONE]++;
    }
}

void mst_record_seal(struct mst_job *job, bool restarted)
{
    mst_record_count(job); /* the one before */
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
    if (cause_known(job)) {
        mst_record_count(job);
    }
}

void mst_record_clear(struct mst_job *job)
{
    mst_record_count(job);
    drop(job, &job->records);
    drop(job, &job->last_records);
    job->last_is_cause = false;
    job->fault_count = 0;
}

/* ---- telling ---- */

const struct mst_record *mst_record_first(const struct mst_job *job)
{
    return job->records.count > 0 ? &job->records.first[0] : NULL;
}

static enum mst_state state_of(const struct mst_record *record)
{
    if (!record->gone) {
        return MST_PRESENT;
    }
    return record->cause == MST_CAUSE_LEFT ? MST_LEFT : MST_STATE_LOST;
}

struct mst_who mst_record_who(const struct mst_job *job, const struct mst_record *record)
{
    return (struct mst_who){
        .index = record->index,
        .rank = record->rank,
        .incarnation = record->incarnation,
        .role = MST_ROLE_RANK,
        .state = state_of(record),
        .cause = record->cause,
        .code = record->code,
        .losses = record->losses,
        .heard_ms = mst_core_since_ms(job->core, record->at_ns),
        .pid = record->pid,
        .host = mst_blob_slice(record->host),
        .node = record->agent,
    };
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
           cause_of_restart(job) != NULL;
}
