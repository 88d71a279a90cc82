/* SPDX-License-Identifier: Apache-2.0 */
/* Why an attempt ended, for the callbacks; and why a run did, in words. */
#define _GNU_SOURCE
#include <time.h>

#include "os/clock.h"
#include "proto/status.h"
#include "proto/words.h"
#include "restart/record.h"
#include "restart/shell/restart.h"

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

_Static_assert((int)MUSTER_WHY_STATUS == (int)MST_WHY_REPLY &&
                   (int)MUSTER_WHY_ITERATIONS == (int)MST_WHY_ITERATIONS &&
                   (int)MUSTER_WHY_STALLED == (int)MST_WHY_STALLED &&
                   (int)MUSTER_WHY_ABORTED == (int)MST_WHY_ABORTED &&
                   (int)MUSTER_WHY_FAULTS == (int)MST_WHY_FAULTS &&
                   (int)MUSTER_WHY_UNHEALTHY == (int)MST_WHY_UNHEALTHY &&
                   (int)MUSTER_WHY_FINALIZE == (int)MST_WHY_FINALIZE &&
                   (int)MUSTER_WHY_ASSIGNMENT == (int)MST_WHY_ASSIGNMENT &&
                   (int)MUSTER_WHY_SUSPECT == (int)MST_WHY_SUSPECT,
               "the public reasons are those of the machine and two more");

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

/* The machine knows no clock but the monotonic one. */
void mst_run_records_set(struct muster_restart *restart, const struct mst_record_list *records)
{
    int64_t offset_ms = mst_clock_ms(CLOCK_REALTIME) - (int64_t)(mst_lib_now_ns() / NS_PER_MS);

    (void)pthread_mutex_lock(&restart->records_lock);
    restart->records = *records;
    for (uint32_t i = 0; i < records->count; i++) {
        restart->records.first[i].wall_ms += offset_ms;
    }
    (void)pthread_mutex_unlock(&restart->records_lock);
}

void mst_run_records_seal(struct muster_restart *restart)
{
    (void)pthread_mutex_lock(&restart->records_lock);
    restart->sealed = restart->records;
    (void)pthread_mutex_unlock(&restart->records_lock);
}

void mst_run_records_so_far(struct muster_restart *restart)
{
    const struct mst_who *first = mst_client_first_fault(mst_lib_machine(restart->client));
    struct mst_record_list records = {.count = first != NULL, .total = first != NULL};

    if (first) {
        struct mst_who who = *first;

        who.heard_ms = 0;
        mst_fault_fill(&records.first[0], mst_lib_now_ns(), restart->view.generation, &who,
                       mst_slice_text(""));
    }
    mst_run_records_set(restart, &records);
}

/* An attempt of this thread reads what the records were as it began. No lock: only this thread
 * begins and ends an attempt. */
static const struct mst_record_list *records_of(const struct muster_restart *restart)
{
    return mst_run_is_mine(restart) && restart->attempt ? &restart->sealed : &restart->records;
}

uint32_t muster_restart_fault_count(muster_restart *restart)
{
    uint32_t total;

    if (!restart) {
        return 0;
    }
    (void)pthread_mutex_lock(&restart->records_lock);
    total = records_of(restart)->total;
    (void)pthread_mutex_unlock(&restart->records_lock);
    return total;
}

bool muster_restart_fault(muster_restart *restart, uint32_t number, struct muster_fault *out)
{
    const struct mst_record_list *records;
    bool found;

    if (!restart || !out) {
        return false;
    }
    (void)pthread_mutex_lock(&restart->records_lock);
    records = records_of(restart);
    found = number < records->count;
    if (found) {
        *out = records->first[number];
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
    const struct mst_record_list *records = &restart->records;
    const struct muster_fault *fault = &records->first[0];

    if (records->count == 0) {
        return;
    }
    for (uint32_t i = 0; i < records->count; i++) {
        if (records->first[i].kind == wanted ||
            (wanted == 0 && is_better(&records->first[i], fault))) {
            fault = &records->first[i];
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

    if (effect->faults->count > 0) {
        mst_run_records_set(restart, effect->faults);
    }
    err->status = effect->status;
    err->os_errno = 0;
    err->why = (enum muster_why)effect->why;
    mst_text_add(&text, "run: ");
    say(&text, restart, effect->why);
}

bool mst_run_ends_all(muster_status status, enum mst_restart_why why)
{
    return why == MST_WHY_ITERATIONS || why == MST_WHY_STALLED || why == MST_WHY_ABORTED ||
           why == MST_WHY_ASSIGNMENT || (why == MST_WHY_REPLY && status == MUSTER_ETOOFEW);
}
