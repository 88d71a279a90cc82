/* SPDX-License-Identifier: Apache-2.0 */
/* Why an attempt ended, for the callbacks; and why a run did, in words. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "os/clock.h"
#include "proto/status.h"
#include "proto/words.h"
#include "restart/shell/restart.h"

enum { MS_PER_S = 1000 };

_Static_assert((int)MUSTER_FAULT_EXIT == (int)MST_CAUSE_EXIT &&
                   (int)MUSTER_FAULT_SIGNAL == (int)MST_CAUSE_SIGNAL &&
                   (int)MUSTER_FAULT_GONE == (int)MST_CAUSE_GONE &&
                   (int)MUSTER_FAULT_UNRESPONSIVE == (int)MST_CAUSE_LEASE &&
                   (int)MUSTER_FAULT_FAILED == (int)MST_CAUSE_FAULT &&
                   (int)MUSTER_FAULT_EVICTED == (int)MST_CAUSE_EVICTED &&
                   (int)MUSTER_FAULT_LEFT == (int)MST_CAUSE_LEFT &&
                   (int)MUSTER_FAULT_SOFT_TIMEOUT == (int)MST_CAUSE_SOFT_TIMEOUT &&
                   (int)MUSTER_FAULT_HARD_TIMEOUT == (int)MST_CAUSE_HARD_TIMEOUT &&
                   (int)MUSTER_FAULT_UNHEALTHY == (int)MST_CAUSE_UNHEALTHY &&
                   (int)MUSTER_FAULT_AGAIN == (int)MST_CAUSE_AGAIN &&
                   (int)MUSTER_FAULT_ABORTED == (int)MST_CAUSE_ABORTED,
               "the public kinds are the causes");

const char *muster_fault_kind_name(enum muster_fault_kind kind)
{
    if (kind == MUSTER_FAULT_UNRESPONSIVE) {
        return "unresponsive";
    }
    if (kind == MUSTER_FAULT_FAILED) {
        return "failed";
    }
    return kind == 0 ? "?" : mst_cause_word((enum mst_cause)kind);
}

/* --- the records --- */

/* The service tells how long ago it was, since two machines share no clock. */
static void record_take(struct muster_fault *out, const struct mst_fault_record *record,
                        uint64_t now_ns)
{
    uint64_t ago_ms = record->ago_ms + (now_ns - record->heard_ns) / NS_PER_MS;
    struct mst_text text;

    *out = (struct muster_fault){
        .kind = (enum muster_fault_kind)record->kind,
        .index = record->index,
        .rank = record->rank,
        .code = record->code,
        .generation = record->generation,
        .incarnation = record->incarnation,
        .pid = record->pid,
        .after_ms = (int64_t)record->after_ms,
        .wall_ms = mst_clock_ms(CLOCK_REALTIME) - (int64_t)ago_ms,
        .detector = record->detector,
    };
    _Static_assert(sizeof(out->host) == sizeof(record->host), "the host fits");
    memcpy(out->host, record->host, sizeof(out->host));
    text = mst_text_in(out->text, sizeof(out->text)); /* one line, whatever the rank said */
    mst_text_slice(&text, mst_slice_text(record->text));
}

void mst_run_records_set(struct muster_restart *restart, const struct mst_fault_record *records,
                         uint32_t count, uint32_t total)
{
    uint64_t now_ns = mst_lib_now_ns();

    (void)pthread_mutex_lock(&restart->records_lock);
    restart->record_count = count < MST_NAMES_MAX ? count : MST_NAMES_MAX;
    restart->records_total = total;
    for (uint32_t i = 0; i < restart->record_count; i++) {
        record_take(&restart->records[i], &records[i], now_ns);
    }
    (void)pthread_mutex_unlock(&restart->records_lock);
}

void mst_run_records_seal(struct muster_restart *restart)
{
    (void)pthread_mutex_lock(&restart->records_lock);
    memcpy(restart->sealed, restart->records, sizeof(restart->sealed));
    restart->sealed_count = restart->record_count;
    restart->sealed_total = restart->records_total;
    (void)pthread_mutex_unlock(&restart->records_lock);
}

void mst_run_records_so_far(struct muster_restart *restart)
{
    const struct mst_who *who = mst_client_first_fault(mst_lib_machine(restart->client));
    struct mst_fault_record record;

    if (!who) {
        mst_run_records_set(restart, NULL, 0, 0);
        return;
    }
    record = (struct mst_fault_record){
        .kind = who->cause,
        .code = who->code,
        .index = who->index,
        .rank = who->rank,
        .generation = restart->entry.generation,
        .incarnation = who->incarnation,
        .pid = who->pid,
        .heard_ns = mst_lib_now_ns(),
        .detector = -1,
    };
    if (who->host.size > 0) {
        memcpy(record.host, who->host.data,
               who->host.size < sizeof(record.host) ? who->host.size : sizeof(record.host) - 1);
    }
    mst_run_records_set(restart, &record, 1, 1);
}

/* No lock: only this thread begins and ends an attempt. */
static bool in_attempt(const struct muster_restart *restart)
{
    return mst_run_is_mine(restart) && restart->attempt;
}

uint32_t muster_restart_fault_count(muster_restart *restart)
{
    uint32_t total;
    bool sealed;

    if (!restart) {
        return 0;
    }
    sealed = in_attempt(restart);
    (void)pthread_mutex_lock(&restart->records_lock);
    total = sealed ? restart->sealed_total : restart->records_total;
    (void)pthread_mutex_unlock(&restart->records_lock);
    return total;
}

bool muster_restart_fault(muster_restart *restart, uint32_t number, struct muster_fault *out)
{
    bool sealed, found;

    if (!restart || !out) {
        return false;
    }
    sealed = in_attempt(restart);
    (void)pthread_mutex_lock(&restart->records_lock);
    found = number < (sealed ? restart->sealed_count : restart->record_count);
    if (found) {
        *out = sealed ? restart->sealed[number] : restart->records[number];
    }
    (void)pthread_mutex_unlock(&restart->records_lock);
    return found;
}

/* --- in words --- */

/* "rank 2 (#2) failed: code 7: loss is nan". */
static void add_fault(struct mst_text *text, const struct muster_fault *fault)
{
    if (fault->index == MST_INDEX_ANY) { /* nothing tells them apart */
        mst_text_add(text, "the ranks");
    } else if (fault->rank != MUSTER_RANK_NONE) {
        mst_text_format(text, "rank %u (#%u)", fault->rank, fault->index);
    } else {
        mst_text_format(text, "#%u", fault->index);
    }
    mst_text_add(text, " ");
    mst_cause_sentence(text, &(struct mst_caused){.cause = (enum mst_cause)fault->kind,
                                                  .code = fault->code,
                                                  .text = mst_slice_text(fault->text)});
}

/* Another rank than the one that seemed to stand still did not stop and was ended; or a peer
 * noticed a death before the service: that is why. */
static bool is_better(const struct muster_fault *fault, const struct muster_fault *first)
{
    if (fault->index == first->index || fault->generation != first->generation) {
        return false;
    }
    return first->kind == MUSTER_FAULT_SOFT_TIMEOUT
               ? fault->kind == MUSTER_FAULT_HARD_TIMEOUT
               : first->kind == MUSTER_FAULT_FAILED && mst_status_is_passed_on(first->code);
}

/* The first one, which is the cause; of a kind, if there is one of it. */
static void add_cause(struct mst_text *text, const struct muster_restart *restart,
                      const char *before, enum muster_fault_kind wanted)
{
    const struct muster_fault *fault = restart->records;

    if (restart->record_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < restart->record_count; i++) {
        if (restart->records[i].kind == wanted ||
            (wanted == 0 && is_better(&restart->records[i], fault))) {
            fault = &restart->records[i];
            break;
        }
    }
    mst_text_add(text, before);
    add_fault(text, fault);
}

static void add_limit(struct mst_text *text, const char *before, int64_t number,
                      const char *between, const char *name)
{
    mst_text_format(text, "%s%" PRId64 "%s%s (%s %" PRId64 ")", before, number,
                    number == 1 ? " attempt " : " attempts ", between, name, number);
}

static void say(struct mst_text *text, const struct muster_restart *restart,
                enum mst_restart_why why)
{
    const struct mst_restart_config *config = &restart->settings.config;
    const enum muster_fault_kind first = (enum muster_fault_kind)0;

    switch (why) {
    case MST_WHY_REPLY:
        break;
    case MST_WHY_ITERATIONS:
        add_limit(text, "given up after ", config->iterations_max, "that failed", "iterations_max");
        add_cause(text, restart, "; the last: ", first);
        break;
    case MST_WHY_STALLED:
        add_limit(text, "given up after ", config->stalled_max, "in a row without progress",
                  "stalled_max");
        add_cause(text, restart, "; the last: ", first);
        break;
    case MST_WHY_ABORTED:
        mst_text_add(text, "ended for all");
        add_cause(text, restart, ": ", MUSTER_FAULT_ABORTED);
        break;
    case MST_WHY_FAULTS:
        mst_text_format(text, "this rank has failed more than %u%s (faults_max) and leaves",
                        config->faults_max, config->faults_max == 1 ? " time" : " times");
        add_cause(text, restart, "; the last: ", first);
        break;
    case MST_WHY_UNHEALTHY:
    case MST_WHY_FINALIZE:
        mst_text_add(text, restart->trouble.text);
        break;
    case MST_WHY_ASSIGNMENT:
        mst_text_add(text, "the assignment failed");
        add_cause(text, restart, ": ", first);
        break;
    case MST_WHY_SUSPECT:
        mst_text_add(text, "this rank made no progress in two attempts, one after the other, and "
                           "ends for a new process to take its place");
        break;
    }
}

void mst_run_say_why(struct muster_restart *restart, const struct mst_restart_effect *effect)
{
    struct muster_error *err = &restart->error;
    struct mst_text text = mst_text_in(err->text, sizeof(err->text));

    if (effect->fault_count > 0) {
        mst_run_records_set(restart, effect->faults, effect->fault_count, effect->faults_total);
    }
    err->status = effect->status;
    err->os_errno = 0;
    mst_text_add(&text, "run: ");
    say(&text, restart, effect->why);
}

bool mst_run_ends_all(muster_status status, enum mst_restart_why why)
{
    switch (why) {
    case MST_WHY_ITERATIONS:
    case MST_WHY_STALLED:
    case MST_WHY_ABORTED:
    case MST_WHY_ASSIGNMENT:
        return true;
    case MST_WHY_REPLY:
        return status == MUSTER_ETOOFEW;
    case MST_WHY_FAULTS:
    case MST_WHY_UNHEALTHY:
    case MST_WHY_FINALIZE:
    case MST_WHY_SUSPECT:
        break;
    }
    return false;
}
