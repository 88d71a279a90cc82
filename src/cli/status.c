/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/nodes.h"
#include "cli/print.h"
#include "client/shell/items.h"
#include "proto/run_keys.h"
#include "proto/words.h"
#include "view/clusters.h"
#include "view/plain.h"
#include "view/preemption.h"
#include "view/status_json.h"

#define ANSWER_MS 10000
#define NAMES_SHOWN 8u

struct picture {
    const struct mst_cli *cli;
    struct mst_cli_place place;
    muster_client *client;
    struct mst_status status; /* its texts are those of `place` */
};

/* ---- gathering ---- */

static int gather(struct picture *picture)
{
    struct mst_status *status = &picture->status;
    const struct {
        enum mst_command command;
        const char *prefix; /* of LIST */
        struct mst_items *items;
        const char *what;
    } parts[] = {{MST_JOBS, NULL, &status->jobs, "list the jobs"},
                 {MST_MEMBERS, NULL, &status->members, "list the members"},
                 {MST_ROUNDS, NULL, &status->rounds, "list the rounds"},
                 {MST_HOSTS, NULL, &status->hosts, "list the hosts"},
                 {MST_FAULTS, NULL, &status->faults, "list the faults"},
                 {MST_HISTORY, NULL, &status->history, "list what happened"},
                 {MST_LIST, MST_PREEMPT_PREFIX, &status->preemption, "list the notices"},
                 {MST_LIST, MST_CLUSTER_STATUS_PREFIX, &status->clusters, "list the clusters"},
                 {MST_LIST, MST_RUN_PLAIN_PREFIX, &status->plain, "list the ranks without muster"}};
    struct muster_error err;
    int code = mst_cli_observe(picture->cli, &picture->client, &picture->place);

    if (code != MST_CLI_OK) {
        return code;
    }
    status->address = picture->place.addr;
    status->job = picture->place.job;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct mst_request request = {.command = parts[i].command};

        if (parts[i].prefix) {
            request.list.prefix = mst_slice_text(parts[i].prefix);
        }
        if (mst_lib_items_collect(picture->client, &request, ANSWER_MS, parts[i].items, &err,
                                  parts[i].what) != MUSTER_OK) {
            return mst_cli_fail_with(picture->cli, &err);
        }
    }
    return MST_CLI_OK;
}

/* The loss of a place that was taken again and left is not kept. */
static bool has_loss(const struct mst_who *who)
{
    return who->cause != MST_CAUSE_NONE && who->cause != MST_CAUSE_LEFT;
}

static void put_loss(const struct mst_who *who)
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
        put_loss(who);
        mst_cli_say(", node %.*s", MST_SLICE_ARGS(who->host));
    }
    mst_cli_put(")");
}

/* ---- as text ---- */

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

static void print_member(const struct mst_item *member)
{
    const struct mst_who *who = &member->who;
    char place[48];

    if (who->role != MST_ROLE_RANK) {
        (void)snprintf(place, sizeof place, "%s #%u", mst_role_word(who->role), who->index);
    } else if (who->rank != MST_RANK_NONE) {
        (void)snprintf(place, sizeof place, "rank %u (#%u)", who->rank, who->index);
    } else {
        (void)snprintf(place, sizeof place, "#%u", who->index);
    }
    mst_cli_put("  %-14s %-8s node ", place, mst_state_word(who->state));
    mst_cli_say("%.*s, pid %" PRIu64, MST_SLICE_ARGS(who->host), who->pid);
    if (who->state == MST_SILENT) {
        mst_cli_put(", last heard %.1f s ago", (double)who->heard_ms / 1000);
    }
    if (who->state == MST_STATE_LOST) {
        mst_cli_put(", ");
        put_loss(who);
        if (member->value.size > 0) {
            mst_cli_say(": %.*s", MST_SLICE_ARGS(member->value));
        }
    }
    if (who->losses > 0) {
        mst_cli_put(", lost %u time%s", who->losses, who->losses == 1 ? "" : "s");
        if (who->state != MST_STATE_LOST && has_loss(who)) {
            mst_cli_put(", last ");
            put_loss(who);
        }
    }
    if (member->name.size > 0) {
        mst_cli_say(", waits at '%.*s' %" PRIu64, MST_SLICE_ARGS(member->name), member->number);
    }
    mst_cli_put("\n");
}

/* "rank 2 (#2, node b3)" */
static void put_rank(const struct mst_who *who)
{
    mst_cli_say("rank %u (#%u, node %.*s)", who->rank, who->index, MST_SLICE_ARGS(who->host));
}

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

static void print_round(const struct mst_item *round)
{
    mst_cli_say("round '%.*s' %" PRIu64 ": %u of %u arrived", MST_SLICE_ARGS(round->name),
                round->number, round->arrived, round->expected);
    if (round->awaited > 0) {
        put_awaited(round);
    } else if (round->who.state != 0) {
        mst_cli_put(", first missing: ");
        put_rank(&round->who);
    }
    mst_cli_put("\n");
}

/* The rounds that ranks wait in. The one with the most arrivals comes first, as it holds up a job
 * that hangs. */
static void print_rounds(const struct mst_items *rounds)
{
    size_t most = 0, shown = rounds->count < NAMES_SHOWN ? rounds->count : NAMES_SHOWN;

    for (size_t i = 1; i < rounds->count; i++) {
        most = rounds->items[i].arrived > rounds->items[most].arrived ? i : most;
    }
    if (shown > 0) {
        print_round(&rounds->items[most]);
    }
    for (size_t i = 0, left = shown - (shown > 0); left > 0; i++) {
        if (i != most) {
            print_round(&rounds->items[i]);
            left--;
        }
    }
    if (rounds->count > shown) {
        size_t more = rounds->count - shown;

        mst_cli_put("and %zu more round%s (--json has all)\n", more, more == 1 ? "" : "s");
    }
}

static void print_other_jobs(const struct picture *picture)
{
    const struct mst_items *jobs = &picture->status.jobs;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct mst_item *job = &jobs->items[i];
        const char *name = job->name.data;

        if (strcmp(name, picture->place.job) != 0) {
            mst_cli_say("also here: job %.*s, generation %" PRIu64 ", %u of %u (--addr ",
                        MST_TEXT_ARGS(name), job->number, job->arrived, job->expected);
            mst_cli_print_word(picture->place.addr);
            mst_cli_put(" -j ");
            mst_cli_print_word(name);
            mst_cli_put(")\n");
        }
    }
}

static void put_age(int64_t ms)
{
    const int64_t minute = 60;
    int64_t seconds = ms / 1000;

    if (seconds < 2 * minute) {
        mst_cli_put("%lld s", (long long)seconds);
    } else if (seconds < 2 * minute * minute) {
        mst_cli_put("%lld min", (long long)(seconds / minute));
    } else {
        mst_cli_put("%lld h", (long long)(seconds / minute / minute));
    }
}

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
        put_rank(who);
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

/* Why the generation began. One that only grew began for its newcomers: then the first fault is of
 * an earlier one, and is not what the age is of. */
static void print_beginning(const struct mst_items *faults, uint64_t generation)
{
    const struct mst_item *first = faults->items;

    if (faults_before(faults, generation) == 0) {
        return;
    }
    mst_cli_put("generation %" PRIu64 " since ", generation);
    put_age(faults->number);
    if (first->number + 1 < generation) {
        mst_cli_put("; generation %" PRIu64 " ended", first->number);
    } else {
        mst_cli_put(",");
    }
    mst_cli_put(" after ");
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

/* ---- preemption ---- */

/* The notices of a node are one line. */
struct notices {
    struct mst_preemption_notice last;
    uint32_t lines, count; /* of the last line: for how many ranks */
};

static bool is_like(const struct notices *notices, const struct mst_preemption_notice *given)
{
    const struct mst_notice *a = &notices->last.notice, *b = &given->notice;
    int64_t apart = notices->last.left_ms - given->left_ms;

    return notices->count > 0 && b->index != MST_NOTICE_ALL && a->index != MST_NOTICE_ALL &&
           a->level == b->level && apart < 1000 && apart > -1000 &&
           strcmp(a->source, b->source) == 0 && strcmp(a->host, b->host) == 0 &&
           strcmp(a->reason, b->reason) == 0;
}

/* The end of a line of notices, after the names. */
static void end_notice(const struct notices *notices)
{
    const struct mst_preemption_notice *given = &notices->last;
    const struct mst_notice *notice = &given->notice;

    if (notices->count == 0 || notices->lines > NAMES_SHOWN) {
        return;
    }
    mst_cli_put_more(notices->count, NAMES_SHOWN);
    mst_cli_say(": %.*s (%.*s%s%.*s), ",
                MST_TEXT_ARGS(notice->reason[0] != '\0' ? notice->reason : "no reason is given"),
                MST_TEXT_ARGS(notice->source[0] != '\0' ? notice->source : "by hand"),
                notice->host[0] != '\0' ? ", " : "", MST_TEXT_ARGS(notice->host));
    if (given->left_ms >= 0) {
        mst_cli_put("%.1f s are left%s\n", (double)given->left_ms / 1000,
                    notice->assumed ? ", as is assumed" : "");
    } else {
        mst_cli_put("its deadline passed %.1f s ago\n", (double)-given->left_ms / 1000);
    }
}

static void print_notice(void *ctx, const struct mst_preemption_notice *given)
{
    const struct mst_notice *notice = &given->notice;
    struct notices *notices = ctx;
    bool like = is_like(notices, given);

    if (!like) {
        end_notice(notices);
        notices->lines++;
        notices->count = 0;
        notices->last = *given;
    }
    notices->count++;
    if (notices->lines > NAMES_SHOWN || notices->count > NAMES_SHOWN) {
        return;
    }
    if (!like) {
        mst_cli_put("%s for ", notice->level == MST_NOTICE_CERTAIN ? "notice" : "advisory notice");
    }
    if (notice->index == MST_NOTICE_ALL) {
        mst_cli_put("the whole job");
    } else {
        mst_cli_put("%s#%u", like ? ", " : "", notice->index);
    }
}

static void print_not_saved(void *ctx, uint32_t index, const struct mst_item *item)
{
    struct missing *missing = ctx;

    (void)index;
    if (missing->count < NAMES_SHOWN) {
        mst_cli_put(missing->count == 0 ? "; not yet by " : ", ");
        put_rank(&item->who);
    }
    missing->count++;
}

static void print_preemption(const struct mst_status *status)
{
    struct notices notices = {.count = 0};
    struct missing missing = {.count = 0};
    struct mst_preemption now;

    mst_preemption_each_notice(status, print_notice, &notices);
    end_notice(&notices);
    if (notices.lines > NAMES_SHOWN) {
        uint32_t more = notices.lines - NAMES_SHOWN;

        mst_cli_put("and %u more notice%s\n", more, more == 1 ? "" : "s");
    }
    mst_preemption_of(status, &now);
    switch (now.state) {
    case MST_PREEMPTION_NONE:
        return;
    case MST_PREEMPTION_AGREED:
        mst_cli_put("agreed: all save step %" PRId64 "; saved by %u of %u", now.step, now.saved,
                    now.of);
        mst_preemption_each_missing(status, &now, print_not_saved, &missing);
        mst_cli_put_more(missing.count, NAMES_SHOWN);
        mst_cli_put("\n");
        return;
    case MST_PREEMPTION_AGAIN:
        mst_cli_put("agreed: step %" PRId64 ", and now it is agreed anew\n", now.step);
        return;
    case MST_PREEMPTION_WITHDRAWN:
        mst_cli_put("the notice was withdrawn: step %" PRId64 " was not saved for it\n", now.step);
        return;
    case MST_PREEMPTION_SAVED:
        mst_cli_put("saved by all: step %" PRId64 " by %u of %u, in generation %" PRIu64 "\n",
                    now.step, now.saved, now.of, now.generation);
        return;
    case MST_PREEMPTION_FAILED:
        mst_cli_put("not saved by all: step %" PRId64 ", in generation %" PRIu64 "\n", now.step,
                    now.generation);
        return;
    }
}

/* ---- clusters ---- */

static void put_closure(const char *head, uint64_t closure, const char *function, uint64_t ms)
{
    mst_cli_put("  %s: closure %" PRIu64, head, closure);
    if (*function) {
        mst_cli_say(" (%.*s)", MST_TEXT_ARGS(function));
    }
    mst_cli_put(", for ");
    put_age((int64_t)ms);
}

static void print_cluster(void *ctx, const struct mst_cluster_look *look)
{
    const struct mst_cluster_status *status = &look->status;

    (void)ctx;
    mst_cli_say("cluster %.*s: %" PRIu64 " queued, %" PRIu64 " in flight; %" PRIu64 " of %" PRIu64
                " slot%s free, %" PRIu64 " of %" PRIu64 " worker%s here; %" PRIu64 ".%" PRIu64
                " per second\n",
                MST_SLICE_ARGS(look->name), status->queued, status->in_flight, status->slots_free,
                status->slots, status->slots == 1 ? "" : "s", status->present, status->workers,
                status->workers == 1 ? "" : "s", status->rate / 1000, status->rate % 1000 / 100);
    mst_cli_put("  ended: %" PRIu64 " with a value, %" PRIu64 " failed, %" PRIu64
                " cancelled; %" PRIu64 " retried, %" PRIu64 " put back by a loss\n",
                status->values, status->failures, status->cancelled, status->retried,
                status->put_back);
    if (status->oldest != 0) {
        put_closure("waits longest", status->oldest, status->oldest_function, status->oldest_ms);
        mst_cli_put(": %s\n", mst_cluster_wait_sentence(status->waits));
    }
    if (status->longest != 0) {
        put_closure("runs longest", status->longest, status->longest_function, status->longest_ms);
        mst_cli_put(", on worker #%" PRIu64 "\n", status->longest_worker);
    }
}

static bool any_rank_came(const struct mst_status *status)
{
    for (size_t i = 0; i < status->members.count; i++) {
        if (status->members.items[i].who.role == MST_ROLE_RANK) {
            return true;
        }
    }
    return false;
}

static void print_plain(const struct mst_plain *plain)
{
    for (size_t i = 0; i < plain->count; i++) {
        const struct mst_plain_rank *rank = &plain->ranks[i];
        char place[16];

        (void)snprintf(place, sizeof place, "#%" PRIu32, rank->index);
        mst_cli_put("  %-14s running, does not use muster; node ", place);
        mst_cli_say("%.*s, pid %" PRIu32 "\n", MST_SLICE_ARGS(rank->host), rank->pid);
    }
    if (plain->more > 0) {
        mst_cli_put("  and %" PRIu64 " more that do not use muster\n", plain->more);
    }
}

static void print_head(const struct picture *picture, const struct mst_item *job,
                       const struct mst_plain *plain)
{
    uint32_t spares = mst_status_spares(&picture->status);
    uint32_t workers = mst_status_workers_only(&picture->status);

    mst_cli_say("job %.*s: ", MST_TEXT_ARGS(picture->place.job));
    if (job->number == 0 && workers > 0) {
        mst_cli_put("%u worker%s here\n", workers, workers == 1 ? "" : "s");
        return;
    }
    if (plain->count > 0 && !any_rank_came(&picture->status)) {
        mst_cli_put("%" PRIu64 " of %u running, without muster\n", plain->count + plain->more,
                    job->expected);
        return;
    }
    if (job->number == 0) {
        mst_cli_put("no generation yet, ");
    } else {
        mst_cli_put("generation %" PRIu64 ", ", job->number);
    }
    mst_cli_put("%u of %u here", job->arrived, job->expected);
    if (spares > 0) {
        mst_cli_put(", %u spare%s", spares, spares == 1 ? "" : "s");
    }
    mst_cli_put("\n");
}

static void print_text(const struct picture *picture)
{
    const struct mst_items *members = &picture->status.members;
    const struct mst_item *found = mst_status_job(&picture->status);
    const struct mst_items *faults = &picture->status.faults;
    struct mst_item job = {.number = 0};
    uint32_t helpers = 0;
    struct mst_plain plain;
    bool hung;

    if (found) {
        job = *found;
    }
    (void)mst_plain_of(&picture->status, &plain); /* without memory it is empty */
    print_head(picture, &job, &plain);
    /* What blocks the job comes next, whatever else there is. */
    print_interruption(faults, job.number);
    hung = was_a_hang(faults, job.number);
    if (hung) {
        print_beginning(faults, job.number);
    }
    print_missing(&picture->status);
    print_rounds(&picture->status.rounds);
    if (!hung) {
        print_beginning(faults, job.number);
    }
    mst_cli_hosts_print(picture->status.hosts.items, picture->status.hosts.count);
    print_preemption(&picture->status);
    mst_clusters_each(&picture->status.clusters, print_cluster, NULL);
    for (size_t i = 0; i < members->count; i++) {
        const struct mst_who *who = &members->items[i].who;

        if (who->role == MST_ROLE_AGENT && who->index >= MST_HELPERS_FROM) {
            helpers += who->state != MST_STATE_LOST && who->state != MST_LEFT;
        } else {
            print_member(&members->items[i]);
        }
    }
    print_plain(&plain);
    free(plain.ranks);
    if (helpers > 0) {
        mst_cli_put("  %u helper%s of single ranks\n", helpers, helpers == 1 ? "" : "s");
    }
    print_other_jobs(picture);
}

/* ---- the command ---- */

static int print_json(const struct picture *picture)
{
    char *text = mst_status_json(&picture->status);

    if (!text) {
        return mst_cli_fail(picture->cli, "out of memory");
    }
    mst_cli_put("%s", text);
    free(text);
    return MST_CLI_OK;
}

static int run(struct mst_cli *cli)
{
    struct picture picture = {.cli = cli};
    int code = gather(&picture);

    if (code == MST_CLI_OK && mst_cli_number(cli, "json")) {
        code = print_json(&picture);
    } else if (code == MST_CLI_OK) {
        print_text(&picture);
    }
    mst_status_fini(&picture.status);
    muster_client_close(picture.client);
    return code == MST_CLI_OK ? mst_cli_finish_output(cli) : code;
}

const struct mst_cli_command mst_cli_status = {
    .name = "status",
    .arguments = "",
    .summary =
        "show the members that are present, lost or waiting in a round, and the missing ones",
    .example = "  muster status\n  muster status -j train --json\n",
    .finds_job = true,
    .run = run,
};
