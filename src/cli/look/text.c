/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/look/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/look/nodes.h"
#include "cli/print.h"
#include "proto/words.h"
#include "view/replicas.h"
#include "view/span.h"
#include "view/story.h"

#define NAMES_SHOWN 8u

/* ---- words ---- */

bool mst_cli_coloured(void)
{
    static int coloured = -1;
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    if (coloured < 0) {
        coloured = isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
    }
    return coloured;
}

void mst_cli_put_span(uint64_t ms)
{
    char words[32];
    struct mst_text text = mst_text_in(words, sizeof words);

    mst_span(&text, ms);
    mst_cli_put("%s", words);
}

void mst_cli_put_rank(const struct mst_who *who)
{
    mst_cli_say("rank %u (#%u, node %.*s)", who->rank, who->index, MST_SLICE_ARGS(who->host));
}

/* The loss of a place that was taken again and left is not kept. */
static bool has_loss(const struct mst_who *who)
{
    return who->cause != MST_CAUSE_NONE && who->cause != MST_CAUSE_LEFT;
}

void mst_cli_put_loss(const struct mst_who *who)
{
    const struct mst_caused ending = {
        .cause = who->cause, .code = who->code, .signal = strsignal(who->code)};
    char words[256];
    struct mst_text text = mst_text_in(words, sizeof words);

    if (has_loss(who)) {
        mst_cause_phrase(&text, &ending);
        mst_cli_put("%s", words);
    }
}

/* `who` is NULL for a place that was never taken. */
static void put_absence(const struct mst_who *who, uint32_t index)
{
    mst_cli_put("#%u (", index);
    if (!who || who->state == MST_ABSENT) {
        mst_cli_put("never came");
    } else if (who->state == MST_LEFT) {
        mst_cli_put("left");
    } else {
        mst_cli_put_loss(who);
        mst_cli_say(", node %.*s", MST_SLICE_ARGS(who->host));
    }
    mst_cli_put(")");
}

/* ---- the verdict ---- */

void mst_cli_verdict_put(const struct mst_job_verdict *verdict)
{
    static const char *const colours[] = {[MST_JOB_GOOD] = "\033[1;32m",
                                          [MST_JOB_NOTE] = "\033[1;33m",
                                          [MST_JOB_TROUBLE] = "\033[1;31m"};
    bool coloured = mst_cli_coloured();

    mst_cli_put("%s%s%s", coloured ? colours[verdict->level] : "", verdict->sentence,
                coloured ? "\033[0m" : "");
}

static void put_cost(const struct mst_status *status, const struct mst_item *job)
{
    struct mst_story story;

    mst_story_of(&status->history, &story);
    if (job->total > 0) {
        mst_cli_put("; %" PRIu32 " restart%s", job->total, job->total == 1 ? "" : "s");
    }
    if (job->total > 0 && story.away_ms > 0) {
        mst_cli_put(", which took ");
        mst_cli_put_span(story.away_ms);
    }
}

static void print_head(const struct mst_status *status, const struct mst_item *job)
{
    uint32_t spares = mst_status_spares(status);

    if (job->number == 0) {
        mst_cli_put("no generation yet");
    } else {
        mst_cli_put("generation %" PRIu64, job->number);
    }
    if (job->since_ms > 0) {
        mst_cli_put(" for ");
        mst_cli_put_span(job->since_ms - 1);
    }
    mst_cli_put(", %u of %u here", job->arrived, job->expected);
    if (spares > 0) {
        mst_cli_put(", %u spare%s", spares, spares == 1 ? "" : "s");
    }
    put_cost(status, job);
    mst_cli_put("\n");
}

/* ---- the missing ---- */

struct missing {
    const struct mst_items *members;
    uint32_t count;
};

static void print_one_missing(void *ctx, uint32_t index, const struct mst_item *item)
{
    struct missing *missing = ctx;

    if (mst_cli_node_took(missing->members->items, missing->members->count, index)) {
        return;
    }
    if (missing->count < NAMES_SHOWN) {
        mst_cli_put("%s", missing->count == 0 ? "missing: " : ", ");
        put_absence(item ? &item->who : NULL, index);
    }
    missing->count++;
}

/* The missing ranks, and a line for each node that is lost as a whole. */
static void print_missing(const struct mst_status *status)
{
    struct missing missing = {.members = &status->members};

    mst_status_each_missing(status, print_one_missing, &missing);
    mst_cli_put_more(missing.count, NAMES_SHOWN);
    if (missing.count > 0) {
        mst_cli_put("\n");
    }
    mst_cli_nodes_print(status->members.items, status->members.count);
}

/* ---- rounds ---- */

/* Lost ranks that are being replaced: the seal stays open for them. */
static void put_awaited(const struct mst_item *seal)
{
    mst_cli_put("; waiting for #%u (%s, " MST_SECONDS ")", seal->who.index,
                mst_state_is_here(seal->who.state) ? "joining" : "starting",
                MST_SECONDS_ARGS(seal->lost_ms));
    if (seal->awaited > 1) {
        mst_cli_put(" and %u more", seal->awaited - 1);
    }
}

/* An older service names only the first. */
static void put_missing_of(const struct mst_status *status, const struct mst_item *round)
{
    if (round->missing_count == 0) {
        mst_cli_put(", first missing: ");
        mst_cli_put_rank(&round->who);
        return;
    }
    for (uint32_t i = 0; i < round->missing_count; i++) {
        const struct mst_item *rank = mst_status_rank(status, round->missing[i]);

        mst_cli_put(i == 0 ? ", missing: " : ", ");
        if (rank && rank->who.rank != MST_RANK_NONE) {
            mst_cli_put_rank(&rank->who);
        } else {
            mst_cli_put("#%" PRIu32, round->missing[i]);
        }
    }
    mst_cli_put_more(round->expected - round->arrived, NAMES_SHOWN);
}

static void print_round(const struct mst_status *status, const struct mst_item *round)
{
    mst_cli_say("round '%.*s' %" PRIu64 ": %u of %u arrived", MST_SLICE_ARGS(round->name),
                round->number, round->arrived, round->expected);
    if (round->since_ms > 0) {
        mst_cli_put(", open for ");
        mst_cli_put_span(round->since_ms - 1);
    }
    if (round->awaited > 0) {
        put_awaited(round);
    } else if (round->who.state != 0) {
        put_missing_of(status, round);
    }
    mst_cli_put("\n");
}

/* The rounds that ranks wait in. The one with the most arrivals comes first, as it holds up a job
 * that hangs. */
static void print_rounds(const struct mst_status *status)
{
    const struct mst_items *rounds = &status->rounds;
    size_t most = 0, shown = rounds->count < NAMES_SHOWN ? rounds->count : NAMES_SHOWN;

    for (size_t i = 1; i < rounds->count; i++) {
        most = rounds->items[i].arrived > rounds->items[most].arrived ? i : most;
    }
    if (shown > 0) {
        print_round(status, &rounds->items[most]);
    }
    for (size_t i = 0, left = shown - (shown > 0); left > 0; i++) {
        if (i != most) {
            print_round(status, &rounds->items[i]);
            left--;
        }
    }
    if (rounds->count > shown) {
        size_t more = rounds->count - shown;

        mst_cli_put("and %zu more round%s (--json has all)\n", more, more == 1 ? "" : "s");
    }
}

/* ---- the service ---- */

static void print_service(const struct mst_status *status)
{
    char words[8192] = "";
    struct mst_text text = mst_text_in(words, sizeof words);

    mst_replicas_sentence(&text, status->jobs.value, &status->replicas);
    if (*words) {
        mst_cli_put("service: %s\n", words);
    }
}

/* ---- other jobs ---- */

static void print_other_jobs(const struct mst_status *status)
{
    const struct mst_items *jobs = &status->jobs;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct mst_item *job = &jobs->items[i];
        const char *name = job->name.data;

        if (strcmp(name, status->job) != 0) {
            mst_cli_say("also here: job %.*s, generation %" PRIu64 ", %u of %u (--addr ",
                        MST_TEXT_ARGS(name), job->number, job->arrived, job->expected);
            mst_cli_print_word(status->address);
            mst_cli_put(" -j ");
            mst_cli_print_word(name);
            mst_cli_put(")\n");
        }
    }
}

/* ---- why it was interrupted ---- */

static void put_fault(const struct mst_item *fault)
{
    const struct mst_who *who = &fault->who;
    const struct mst_caused ending = {.cause = who->cause,
                                      .code = who->code,
                                      .signal = strsignal(who->code),
                                      .text = fault->value};
    char words[1024];
    struct mst_text text = mst_text_in(words, sizeof words);

    if (who->index == MST_INDEX_ANY) { /* nothing tells the ranks apart */
        mst_cli_put("the ranks");
    } else {
        mst_cli_put_rank(who);
    }
    mst_cause_sentence(&text, &ending);
    mst_cli_put(" %s", words);
}

/* The number of faults before this generation; the next fault is of this one. */
static size_t faults_before(const struct mst_items *faults, uint64_t generation)
{
    size_t count = 0;

    while (count < faults->count && faults->items[count].number < generation) {
        count++;
    }
    return count;
}

static void print_interruption(const struct mst_items *faults, uint64_t generation)
{
    size_t first = faults_before(faults, generation);

    if (first < faults->count) {
        mst_cli_put("interrupted: ");
        put_fault(&faults->items[first]);
        mst_cli_put("\n");
    }
}

/* Why the generation began. One that only grew began for its newcomers: then the first fault ended
 * an earlier one. */
static void print_beginning(const struct mst_items *faults, uint64_t generation)
{
    const struct mst_item *first = faults->items;

    if (faults_before(faults, generation) == 0) {
        return;
    }
    if (first->number + 1 < generation) {
        mst_cli_put("generation %" PRIu64 " ended after ", first->number);
    } else {
        mst_cli_put("generation %" PRIu64 " began after ", generation);
    }
    put_fault(first);
    mst_cli_put("\n");
}

/* A hang is shown first, although the ranks continue and wait for each other in rounds again. */
static bool was_a_hang(const struct mst_items *faults, uint64_t generation)
{
    return faults_before(faults, generation) > 0 &&
           (faults->items->who.cause == MST_CAUSE_SOFT_TIMEOUT ||
            faults->items->who.cause == MST_CAUSE_HARD_TIMEOUT);
}

/* ---- all of it ---- */

static bool any_rank_came(const struct mst_status *status)
{
    for (size_t i = 0; i < status->members.count; i++) {
        if (status->members.items[i].who.role == MST_ROLE_RANK) {
            return true;
        }
    }
    return false;
}

/* Of a job without ranks the verdict says all. */
static bool has_generations(const struct mst_status *status)
{
    const struct mst_item *job = mst_status_job(status);

    return job && (job->number > 0 || any_rank_came(status));
}

void mst_cli_status_print(const struct mst_status *status, bool all)
{
    const struct mst_item *found = mst_status_job(status);
    const struct mst_items *faults = &status->faults;
    struct mst_item job = {.number = 0};
    struct mst_job_verdict verdict;
    bool hung;

    if (found) {
        job = *found;
    }
    mst_job_verdict_of(status, &verdict);
    mst_cli_say("job %.*s: ", MST_TEXT_ARGS(status->job));
    mst_cli_verdict_put(&verdict);
    mst_cli_put("\n");
    if (has_generations(status)) {
        print_head(status, &job);
    }
    /* What blocks the job comes next, whatever else there is. */
    if (verdict.kind != MST_JOB_INTERRUPTED) {
        print_interruption(faults, job.number);
    }
    hung = was_a_hang(faults, job.number);
    if (hung) {
        print_beginning(faults, job.number);
    }
    print_missing(status);
    print_rounds(status);
    if (!hung) {
        print_beginning(faults, job.number);
    }
    mst_cli_hosts_print(status->hosts.items, status->hosts.count);
    print_service(status);
    mst_cli_preemption_print(status);
    mst_cli_clusters_print(status);
    mst_cli_members_print(status, &verdict, all);
    print_other_jobs(status);
}
