/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/counts.h"

#include "service/core/job.h"
#include "service/core/round.h"

#define MS UINT64_C(1000000)

/* Renewals come every fifth of a lease: 2 s by default, and four fifths are the last moment. Dense
 * there, and wide enough for leases from 50 ms to a day. */
static const struct mst_bounds renewal_bounds = {
    .count = 16,
    .ns = {10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, 1000 * MS, 1500 * MS, 2100 * MS,
           3000 * MS, 5000 * MS, 8000 * MS, 15000 * MS, 60000 * MS, 900000 * MS, 20000000 * MS}};

/* From processes of one machine to stragglers after a long step. */
static const struct mst_bounds round_bounds = {
    .count = 16,
    .ns = {1 * MS, 2 * MS, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS,
           1000 * MS, 5000 * MS, 15000 * MS, 60000 * MS, 300000 * MS, 900000 * MS, 3600000 * MS}};

/* From a signal before the end to the end of a reservation. */
static const struct mst_bounds lead_bounds = {
    .count = 16,
    .ns = {1000 * MS, 5000 * MS, 10000 * MS, 15000 * MS, 25000 * MS, 30000 * MS, 60000 * MS,
           90000 * MS, 120000 * MS, 300000 * MS, 600000 * MS, 900000 * MS, 1800000 * MS,
           3600000 * MS, 21600000 * MS, 86400000 * MS}};

enum mst_result mst_result_of(muster_status status)
{
    static const struct {
        muster_status status;
        enum mst_result result;
    } known[] = {
        {MUSTER_OK, MST_RESULT_OK},
        {MUSTER_ETIMEDOUT, MST_RESULT_TIMEOUT},
        {MUSTER_ECANCELLED, MST_RESULT_CANCELLED},
        {MUSTER_ELOST, MST_RESULT_MEMBER_LOST},
        {MUSTER_EMISMATCH, MST_RESULT_MISMATCH},
        {MUSTER_ERANGE, MST_RESULT_OUT_OF_RANGE},
        {MUSTER_ETOOFEW, MST_RESULT_TOO_FEW},
        {MUSTER_EFENCED, MST_RESULT_FENCED},
        {MUSTER_EEXISTS, MST_RESULT_EXISTS},
        {MUSTER_ECONFLICT, MST_RESULT_CONFLICT},
        {MUSTER_ENOTFOUND, MST_RESULT_NOT_FOUND},
        {MUSTER_ELIMIT, MST_RESULT_LIMIT},
        {MUSTER_ENOMEM, MST_RESULT_LIMIT},
        {MUSTER_ENOSPACE, MST_RESULT_NO_SPACE},
        {MUSTER_EINVAL, MST_RESULT_INVALID},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].status == status) {
            return known[i].result;
        }
    }
    return MST_RESULT_OTHER;
}

const char *mst_result_word(enum mst_result result)
{
    static const char *const words[] = {
#define X(NAME, word) word,
#include "service/core/results.def"
#undef X
    };

    return result < MST_RESULTS ? words[result] : "?";
}

const char *mst_key_op_word(enum mst_key_op op)
{
    static const char *const words[MST_KEY_OPS] = {
        [MST_KEY_INSERT] = "insert", [MST_KEY_PUT] = "put",       [MST_KEY_CAS] = "cas",
        [MST_KEY_ADD] = "add",       [MST_KEY_APPEND] = "append", [MST_KEY_DELETE] = "delete",
        [MST_KEY_GET] = "get",       [MST_KEY_LIST] = "list",     [MST_KEY_WAIT] = "wait"};

    return op < MST_KEY_OPS ? words[op] : "?";
}

const char *mst_phase_word(enum mst_phase phase)
{
    static const char *const words[MST_PHASES] = {[MST_PHASE_INTERRUPT] = "interrupt",
                                                  [MST_PHASE_GATHER] = "gather",
                                                  [MST_PHASE_TOTAL] = "total"};

    return phase < MST_PHASES ? words[phase] : "?";
}

const char *mst_restart_kind(enum mst_cause first)
{
    if (first == MST_CAUSE_NONE) {
        return "growth";
    }
    if (first == MST_CAUSE_AGAIN) {
        return "request";
    }
    return first == MST_CAUSE_LEFT ? "leave" : "fault";
}

void mst_counts_init(struct mst_counts *counts)
{
    *counts = (struct mst_counts){0};
    mst_histogram_init(&counts->renewals, &renewal_bounds);
    for (unsigned i = 0; i < MST_RESULTS; i++) {
        mst_histogram_init(&counts->rounds[i], &round_bounds);
        mst_histogram_init(&counts->agreements[i], &round_bounds);
    }
    for (unsigned i = 0; i < MST_PHASES; i++) {
        mst_histogram_init(&counts->restarts[i], &round_bounds);
    }
    for (unsigned i = 0; i < MST_SOURCES; i++) {
        mst_histogram_init(&counts->leads[i], &lead_bounds);
    }
}

void mst_counts_restart(struct mst_job *job, const struct mst_round *seal)
{
    struct mst_histogram *restarts = job->core->counts.restarts;
    uint64_t called_ns = job->interrupted_ns;
    uint64_t now_ns = job->core->now_ns;

    job->interrupted_ns = 0;
    if (!seal || seal->opened_ns == 0 || called_ns == 0) {
        return; /* the service has begun again since */
    }
    mst_histogram_add(&restarts[MST_PHASE_INTERRUPT], seal->opened_ns - called_ns, 1);
    mst_histogram_add(&restarts[MST_PHASE_GATHER], now_ns - seal->opened_ns, 1);
    mst_histogram_add(&restarts[MST_PHASE_TOTAL], now_ns - called_ns, 1);
}

/* A service that began again meanwhile knows of the time since then. */
uint64_t mst_counts_away_now(const struct mst_job *job)
{
    uint64_t from_ns = mst_later(job->interrupted_ns, job->counts.since_ns);

    return job->attention == MST_INTERRUPT && from_ns != 0 ? job->core->now_ns - from_ns : 0;
}

void mst_counts_back(struct mst_job *job)
{
    job->away_ns = mst_counts_away_now(job);
    if (job->counts.since_ns == 0) {
        job->counts.since_ns = job->core->now_ns;
    }
}

void mst_counts_write(struct mst_counts *counts, const struct mst_request *request,
                      muster_status status)
{
    enum mst_result result = mst_result_of(status);

    if (request->command == MST_DELETE_PREFIX) {
        counts->keys[MST_KEY_DELETE][result]++;
        counts->keys_at_once[MST_KEY_DELETE]++;
    }
    for (uint32_t i = 0; request->command == MST_WRITE && i < request->write.count; i++) {
        enum mst_write_kind kind = request->write.ops[i].kind;

        if (kind >= MST_INSERT && kind <= MST_DELETE) {
            counts->keys[kind - MST_INSERT][result]++;
            counts->keys_at_once[kind - MST_INSERT]++;
        }
    }
}

void mst_counts_read(struct mst_counts *counts, enum mst_command command, muster_status status,
                     bool waited)
{
    enum mst_key_op op;

    if (command == MST_GET) {
        op = MST_KEY_GET;
    } else if (command == MST_LIST) {
        op = MST_KEY_LIST;
    } else if (command == MST_WAIT) {
        op = MST_KEY_WAIT;
    } else {
        return;
    }
    counts->keys[op][mst_result_of(status)]++;
    counts->keys_at_once[op] += !waited;
}

const struct mst_counts *mst_core_counts(const struct mst_core *core)
{
    return &core->counts;
}

void mst_core_forget_counts(struct mst_core *core)
{
    mst_counts_init(&core->counts);
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        job->counts = (struct mst_job_counts){.since_ns = job->rank_count > 0 ? core->now_ns : 0};
    }
}
