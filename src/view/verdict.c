/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "view/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "proto/words.h"
#include "view/front_waits.h"
#include "view/plain.h"
#include "view/preemption.h"
#include "view/span.h"
#include "view/stopped.h"
#include "view/story.h"

#define WORTH_WAITING_MS 1000u /* a round is open for less in every step of a job that runs */
#define NEWS_MS 60000u
enum { NAMES_SHOWN = 3, WORDS_SHOWN = 200 };

/* What is looked at, and what was counted in it. */
struct scene {
    const struct mst_status *status;
    struct mst_item job;
    uint32_t ranks, here, seated, spares, left, silent, plain; /* of ranks */
    uint32_t workers, workers_lost, stragglers;
    const struct mst_item *worst_silent; /* for longest */
    const struct mst_item *slowest;      /* of the stragglers */
    const struct mst_item *last_lost;    /* the latest loss of a rank or worker */
    uint64_t newest_ms, oldest_ms;       /* of changes of ranks, 1 +; 0: not known */
    struct mst_job_verdict *out;
    struct mst_text text;
};

/* ---- counting ---- */

static void count_rank(struct scene *scene, const struct mst_item *member)
{
    const struct mst_who *who = &member->who;
    bool here = mst_state_is_here(who->state);

    scene->ranks++;
    scene->here += here && who->state != MST_SPARE;
    scene->seated += here && who->rank != MST_RANK_NONE;
    scene->spares += who->state == MST_SPARE;
    scene->left += who->state == MST_LEFT;
    if (who->state == MST_SILENT) {
        scene->silent++;
        if (!scene->worst_silent || who->heard_ms > scene->worst_silent->who.heard_ms) {
            scene->worst_silent = member;
        }
    }
    if (member->has_progress && member->progress.straggler) {
        scene->stragglers++;
        if (!scene->slowest || member->progress.slower > scene->slowest->progress.slower) {
            scene->slowest = member;
        }
    }
    if (member->since_ms > scene->oldest_ms) {
        scene->oldest_ms = member->since_ms;
    }
    if (member->since_ms > 0 && (scene->newest_ms == 0 || member->since_ms < scene->newest_ms)) {
        scene->newest_ms = member->since_ms;
    }
}

static void count(struct scene *scene, const struct mst_item *member)
{
    const struct mst_who *who = &member->who;

    if (who->role == MST_ROLE_RANK) {
        count_rank(scene, member);
    } else if (who->role == MST_ROLE_WORKER) {
        scene->workers += mst_state_is_here(who->state);
        scene->workers_lost += who->state == MST_STATE_LOST;
    }
    if (who->role != MST_ROLE_AGENT && who->state == MST_STATE_LOST &&
        (!scene->last_lost || member->since_ms <= scene->last_lost->since_ms)) {
        scene->last_lost = member;
    }
}

/* ---- words ---- */

static bool say(struct scene *scene, enum mst_job_verdict_kind kind,
                enum mst_job_verdict_level level, uint64_t since_ms)
{
    scene->out->kind = kind;
    scene->out->level = level;
    scene->out->since_ms = since_ms;
    return true;
}

static void add_since(struct scene *scene, uint64_t since_ms)
{
    if (since_ms > 0) {
        mst_text_add(&scene->text, " for ");
        mst_span(&scene->text, since_ms - 1);
    }
}

static void add_ending(struct scene *scene, const struct mst_item *item)
{
    const struct mst_who *who = &item->who;
    struct mst_slice words = item->value;
    const struct mst_caused ending = {
        .cause = who->cause,
        .code = who->code,
        .signal = strsignal(who->code),
        .text = mst_slice_of(words.data, words.size < WORDS_SHOWN ? words.size : WORDS_SHOWN)};

    mst_story_process(&scene->text, who);
    mst_text_add(&scene->text, " ");
    mst_cause_sentence(&scene->text, &ending);
}

/* "rank 7 (#7) on b3", or "#7, #9 and 3 more". */
static void add_missing_of(struct scene *scene, const struct mst_item *round)
{
    uint32_t missing = round->expected - round->arrived;
    const struct mst_item *only =
        round->missing_count == 1 ? mst_status_rank(scene->status, round->missing[0]) : NULL;

    if (only) {
        scene->out->index = only->who.index;
        mst_story_process(&scene->text, &only->who);
        mst_text_add(&scene->text, " has not come");
        return;
    }
    for (uint32_t i = 0; i < round->missing_count && i < NAMES_SHOWN; i++) {
        mst_text_format(&scene->text, "%s#%" PRIu32, i > 0 ? ", " : "", round->missing[i]);
    }
    if (missing > NAMES_SHOWN) {
        mst_text_format(&scene->text, " and %" PRIu32 " more", missing - NAMES_SHOWN);
    }
    mst_text_add(&scene->text, missing == 1 ? " has not come" : " have not come");
}

/* ---- what is most wrong, from the worst on: each says it if it is so ---- */

static bool is_empty(struct scene *scene)
{
    if (scene->ranks > 0 || scene->workers > 0 || scene->workers_lost > 0 || scene->plain > 0) {
        return false;
    }
    if (scene->job.expected > 0) {
        mst_text_format(&scene->text, "none of %" PRIu32 " rank%s has joined yet",
                        scene->job.expected, mst_plural(scene->job.expected));
    } else {
        mst_text_add(&scene->text, "no rank has joined yet");
    }
    return say(scene, MST_JOB_EMPTY, MST_JOB_NOTE, 0);
}

static bool all_have_left(struct scene *scene)
{
    if (scene->ranks == 0 || scene->left < scene->ranks || scene->plain > 0) {
        return false;
    }
    mst_text_format(&scene->text, "finished: %s%" PRIu32 " rank%s left",
                    scene->ranks > 1 ? "all " : "", scene->ranks, mst_plural(scene->ranks));
    return say(scene, MST_JOB_FINISHED, MST_JOB_GOOD, scene->newest_ms);
}

static bool is_over(struct scene *scene)
{
    if (scene->ranks == 0 || scene->here + scene->spares > 0 || scene->plain > 0 ||
        !scene->last_lost) {
        return false;
    }
    mst_text_format(&scene->text, "no rank is left: ");
    add_ending(scene, scene->last_lost);
    scene->out->index = scene->last_lost->who.index;
    return say(scene, MST_JOB_OVER, MST_JOB_TROUBLE, scene->newest_ms);
}

/* The last generation that was tried had too few ranks. */
static const struct mst_item *too_few(const struct mst_items *history)
{
    for (size_t i = history->count; i > 0; i--) {
        const struct mst_item *incident = &history->items[i - 1];

        if (incident->incident == MST_INCIDENT_SEALED) {
            return NULL;
        }
        if (incident->incident == MST_INCIDENT_TOO_FEW) {
            return incident;
        }
    }
    return NULL;
}

static bool has_too_few(struct scene *scene)
{
    const struct mst_item *incident = too_few(&scene->status->history);

    if (!incident) {
        return false;
    }
    mst_story_sentence(&scene->text, incident);
    mst_text_add(&scene->text, ",");
    add_since(scene, 1 + incident->who.heard_ms);
    mst_text_add(&scene->text, " now");
    return say(scene, MST_JOB_TOO_FEW, MST_JOB_TROUBLE, 1 + incident->who.heard_ms);
}

/* The first fault or loss of this generation; NULL: there is none. */
static const struct mst_item *fault_of(const struct mst_status *status, uint64_t generation)
{
    for (size_t i = 0; i < status->faults.count; i++) {
        if (status->faults.items[i].number >= generation) {
            return &status->faults.items[i];
        }
    }
    return NULL;
}

const struct mst_item *mst_job_fullest_round(const struct mst_status *status)
{
    const struct mst_items *rounds = &status->rounds;
    const struct mst_item *most = NULL;

    for (size_t i = 0; i < rounds->count; i++) {
        most = !most || rounds->items[i].arrived > most->arrived ? &rounds->items[i] : most;
    }
    return most;
}

static void add_gathering(struct scene *scene)
{
    const struct mst_item *round = mst_job_fullest_round(scene->status);
    uint32_t index = scene->out->index;

    if (!round) {
        return;
    }
    mst_text_format(&scene->text, "; %" PRIu32 " of %" PRIu32 " wait in '%.*s'", round->arrived,
                    round->expected, MST_SLICE_ARGS(round->name));
    if (round->awaited > 0) {
        mst_text_format(&scene->text, " for #%" PRIu32 ", which is %s", round->who.index,
                        mst_state_is_here(round->who.state) ? "joining" : "starting");
    } else if (round->missing_count > 0) {
        mst_text_add(&scene->text, ", ");
        add_missing_of(scene, round);
    }
    scene->out->index = index;
}

static bool is_interrupted(struct scene *scene)
{
    const struct mst_item *fault =
        scene->job.number > 0 ? fault_of(scene->status, scene->job.number) : NULL;

    if (!fault) {
        return false;
    }
    mst_text_add(&scene->text, "interrupted for ");
    mst_span(&scene->text, fault->who.heard_ms);
    mst_text_add(&scene->text, ": ");
    add_ending(scene, fault);
    scene->out->index = fault->who.index;
    add_gathering(scene);
    return say(scene, MST_JOB_INTERRUPTED, MST_JOB_TROUBLE, 1 + fault->who.heard_ms);
}

struct naming {
    struct scene *scene;
    uint32_t count, only;
};

static void count_absent(void *ctx, uint32_t index, const struct mst_item *item)
{
    struct naming *naming = ctx;

    (void)item;
    naming->only = index;
    naming->count++;
}

static void name_absent(void *ctx, uint32_t index, const struct mst_item *item)
{
    struct naming *naming = ctx;

    (void)item;
    if (naming->count < NAMES_SHOWN) {
        mst_text_format(&naming->scene->text, "%s#%" PRIu32, naming->count > 0 ? ", " : "", index);
    }
    naming->count++;
}

/* ": #2, #3 and 4 more are missing" */
static void add_absent(struct scene *scene)
{
    struct naming naming = {.scene = scene};

    mst_status_each_missing(scene->status, name_absent, &naming);
    if (naming.count > NAMES_SHOWN) {
        mst_text_format(&scene->text, " and %" PRIu32 " more", naming.count - NAMES_SHOWN);
    }
    mst_text_add(&scene->text, naming.count == 1 ? " is missing" : " are missing");
}

static uint32_t absent(struct scene *scene)
{
    struct naming naming = {.scene = scene};

    mst_status_each_missing(scene->status, count_absent, &naming);
    if (naming.count == 1) {
        scene->out->index = naming.only;
    }
    return naming.count;
}

static bool is_starting(struct scene *scene)
{
    if (scene->job.number > 0 || scene->ranks == 0) {
        return false;
    }
    mst_text_format(&scene->text, "%" PRIu32 " of %" PRIu32 " ranks %s for the first generation",
                    scene->here, scene->job.expected, scene->here == 1 ? "waits" : "wait");
    add_since(scene, scene->oldest_ms);
    if (absent(scene) > 0) {
        mst_text_add(&scene->text, ": ");
        add_absent(scene);
    }
    return say(scene, MST_JOB_STARTS, MST_JOB_NOTE, scene->oldest_ms);
}

static void take_soonest(void *ctx, const struct mst_preemption_notice *given)
{
    struct mst_preemption_notice *soonest = ctx;

    if (given->notice.level == MST_NOTICE_CERTAIN &&
        (soonest->notice.level != MST_NOTICE_CERTAIN || given->left_ms < soonest->left_ms)) {
        *soonest = *given;
    }
}

static void add_agreement(struct scene *scene)
{
    struct mst_preemption now;

    mst_preemption_of(scene->status, &now);
    if (now.state == MST_PREEMPTION_AGREED) {
        mst_text_format(&scene->text,
                        "; all save step %" PRId64 ", %" PRIu32 " of %" PRIu32 " have", now.step,
                        now.saved, now.of);
    } else if (now.state == MST_PREEMPTION_SAVED) {
        mst_text_format(&scene->text, "; all have saved step %" PRId64, now.step);
    }
}

static bool is_preempted(struct scene *scene)
{
    struct mst_preemption_notice soonest = {.notice.level = MST_NOTICE_ADVISORY};
    const struct mst_notice *notice = &soonest.notice;
    uint64_t left_ms;

    mst_preemption_each_notice(scene->status, take_soonest, &soonest);
    if (notice->level != MST_NOTICE_CERTAIN) {
        return false;
    }
    left_ms = (uint64_t)(soonest.left_ms < 0 ? -soonest.left_ms : soonest.left_ms);
    mst_text_add(&scene->text, "preemption of ");
    if (notice->index == MST_NOTICE_ALL) {
        mst_text_add(&scene->text, "the whole job");
    } else {
        scene->out->index = notice->index;
        mst_text_format(&scene->text, "#%" PRIu32, notice->index);
    }
    mst_text_add(&scene->text, soonest.left_ms < 0 ? " was due " : " in ");
    mst_span(&scene->text, left_ms);
    mst_text_add(&scene->text, soonest.left_ms < 0 ? " ago" : "");
    mst_text_format(&scene->text, " (%.*s)",
                    MST_TEXT_ARGS(notice->source[0] != '\0' ? notice->source : "by hand"));
    add_agreement(scene);
    return say(scene, MST_JOB_PREEMPTION, MST_JOB_NOTE, 0);
}

struct stopping {
    struct mst_stopped longest;
    uint32_t count;
};

static void take_longest(void *ctx, const struct mst_stopped *stopped)
{
    struct stopping *stopping = ctx;

    if (stopping->count++ == 0 || stopped->for_ms > stopping->longest.for_ms) {
        stopping->longest = *stopped;
    }
}

static bool is_stopped(struct scene *scene)
{
    struct stopping stopping = {.count = 0};
    const struct mst_item *rank;

    mst_stopped_each(scene->status, take_longest, &stopping);
    if (stopping.count == 0) {
        return false;
    }
    scene->out->index = stopping.longest.index;
    rank = mst_status_rank(scene->status, stopping.longest.index);
    if (rank) {
        mst_story_process(&scene->text, &rank->who);
    } else {
        mst_text_format(&scene->text, "#%" PRIu32, stopping.longest.index);
    }
    mst_text_add(&scene->text, " is stopped by a signal for ");
    mst_span(&scene->text, stopping.longest.for_ms);
    if (stopping.count > 1) {
        mst_text_format(&scene->text, ", and %" PRIu32 " more", stopping.count - 1);
    }
    return say(scene, MST_JOB_STOPPED, MST_JOB_TROUBLE, 1 + stopping.longest.for_ms);
}

/* The newest start of the service anew, if it is news. */
static void add_service(struct scene *scene)
{
    const struct mst_items *history = &scene->status->history;

    for (size_t i = history->count; i > 0; i--) {
        const struct mst_item *incident = &history->items[i - 1];

        if (incident->incident == MST_INCIDENT_SERVICE && incident->who.heard_ms < NEWS_MS) {
            mst_text_add(&scene->text, "; ");
            mst_story_sentence(&scene->text, incident);
            mst_text_add(&scene->text, " ");
            mst_span(&scene->text, incident->who.heard_ms);
            mst_text_add(&scene->text, " ago");
            return;
        }
    }
}

static bool is_silent(struct scene *scene)
{
    const struct mst_item *silent = scene->worst_silent;

    if (!silent) {
        return false;
    }
    scene->out->index = silent->who.index;
    mst_story_process(&scene->text, &silent->who);
    mst_text_add(&scene->text, " is silent for ");
    mst_span(&scene->text, silent->who.heard_ms);
    if (scene->silent > 1) {
        mst_text_format(&scene->text, ", and %" PRIu32 " more", scene->silent - 1);
    }
    add_service(scene);
    return say(scene, MST_JOB_SILENT, MST_JOB_TROUBLE, 1 + silent->who.heard_ms);
}

static bool waits_in_a_round(struct scene *scene)
{
    const struct mst_item *round = mst_job_fullest_round(scene->status);

    if (!round || round->missing_count == 0 ||
        (round->since_ms > 0 && round->since_ms <= WORTH_WAITING_MS)) {
        return false;
    }
    mst_text_format(&scene->text, "%" PRIu32 " of %" PRIu32 " wait in '%.*s'", round->arrived,
                    round->expected, MST_SLICE_ARGS(round->name));
    add_since(scene, round->since_ms);
    mst_text_add(&scene->text, ": ");
    add_missing_of(scene, round);
    return say(scene, MST_JOB_WAITS, MST_JOB_NOTE, round->since_ms);
}

struct idle {
    struct scene *scene;
    const struct mst_front_waits *waits;
    uint32_t count, shown[NAMES_SHOWN];
};

static void look_at_rank(struct idle *idle, uint32_t index)
{
    if (!mst_front_waits_has(idle->waits, index)) {
        if (idle->count < NAMES_SHOWN) {
            idle->shown[idle->count] = index;
        }
        idle->count++;
    }
}

/* "; #0 does not wait" */
static void add_idle(struct scene *scene, const struct mst_front_waits *waits)
{
    struct idle idle = {.scene = scene, .waits = waits};
    struct mst_plain plain;

    if (waits->more > 0 || !mst_plain_of(scene->status, &plain)) {
        return;
    }
    for (size_t i = 0; i < plain.count; i++) {
        look_at_rank(&idle, plain.ranks[i].index);
    }
    free(plain.ranks);
    for (size_t i = 0; i < scene->status->members.count; i++) {
        const struct mst_who *who = &scene->status->members.items[i].who;

        if (who->role == MST_ROLE_RANK && who->rank != MST_RANK_NONE &&
            mst_state_is_here(who->state)) {
            look_at_rank(&idle, who->index);
        }
    }
    for (uint32_t i = 0; i < idle.count && i < NAMES_SHOWN; i++) {
        mst_text_format(&scene->text, "%s#%" PRIu32, i > 0 ? ", " : "; ", idle.shown[i]);
    }
    if (idle.count > NAMES_SHOWN) {
        mst_text_format(&scene->text, " and %" PRIu32 " more", idle.count - NAMES_SHOWN);
    }
    if (idle.count > 0) {
        mst_text_add(&scene->text, idle.count == 1 ? " does not wait" : " do not wait");
    }
    if (idle.count == 1) {
        scene->out->index = idle.shown[0];
    }
}

/* As they began to wait, the first one. */
static const struct mst_front_waiter *longest_of(const struct mst_front_waits *waits)
{
    const struct mst_front_waiter *longest = waits->list;

    for (size_t i = 1; i < waits->count; i++) {
        longest = waits->list[i].for_ms > longest->for_ms ? &waits->list[i] : longest;
    }
    return longest;
}

static void add_front_waits(struct scene *scene, const struct mst_front_waits *waits)
{
    const struct mst_front_waiter *longest = longest_of(waits);
    uint64_t all = waits->count + waits->more;

    mst_text_format(&scene->text, "%" PRIu64 " process%s in TCPStore for ", all,
                    all == 1 ? " waits" : "es wait");
    mst_span(&scene->text, longest->for_ms);
    mst_text_add(&scene->text, all == 1 ? ": " : ", the first one: ");
    if (longest->index == MST_INDEX_ANY) {
        mst_text_format(&scene->text, "pid %" PRIu32, longest->pid);
    } else {
        mst_text_format(&scene->text, "#%" PRIu32, longest->index);
    }
    mst_text_format(&scene->text, " %.*s", MST_SLICE_ARGS(longest->what));
    add_idle(scene, waits);
}

static bool waits_in_a_front(struct scene *scene)
{
    struct mst_front_waits waits;
    uint64_t longest_ms;

    if (!mst_front_waits_of(scene->status, &waits) || waits.count == 0) {
        return false;
    }
    longest_ms = longest_of(&waits)->for_ms;
    add_front_waits(scene, &waits);
    free(waits.list);
    return say(scene, MST_JOB_WAITS, MST_JOB_NOTE, 1 + longest_ms);
}

static bool some_are_missing(struct scene *scene)
{
    uint32_t count = scene->ranks > 0 ? absent(scene) : 0;
    const struct mst_item *only;

    if (count == 0) {
        return false;
    }
    only = scene->out->index != MST_INDEX_ANY ? mst_status_rank(scene->status, scene->out->index)
                                              : NULL;
    mst_text_format(&scene->text, "%" PRIu32 " of %" PRIu32 " ranks run", scene->seated,
                    scene->job.expected);
    if (count == scene->left) {
        mst_text_format(&scene->text, ", and %" PRIu32 " %s left", count,
                        count == 1 ? "has" : "have");
        return say(scene, MST_JOB_MISSING, MST_JOB_GOOD, scene->newest_ms);
    }
    mst_text_add(&scene->text, ": ");
    if (only && only->who.state == MST_STATE_LOST) {
        add_ending(scene, only);
    } else {
        add_absent(scene);
    }
    return say(scene, MST_JOB_MISSING, MST_JOB_NOTE, only ? only->since_ms : 0);
}

static bool are_workers(struct scene *scene)
{
    uint32_t all = scene->workers + scene->workers_lost;

    if (scene->ranks > 0 || scene->plain > 0) {
        return false;
    }
    if (scene->workers_lost == 0) {
        mst_text_format(&scene->text, "%s%" PRIu32 " worker%s here", all > 1 ? "all " : "", all,
                        all == 1 ? " is" : "s are");
        return say(scene, MST_JOB_WORKERS, MST_JOB_GOOD, 0);
    }
    mst_text_format(&scene->text, "%" PRIu32 " of %" PRIu32 " workers are here: ", scene->workers,
                    all);
    add_ending(scene, scene->last_lost);
    return say(scene, MST_JOB_WORKERS, MST_JOB_NOTE, scene->last_lost->since_ms);
}

static bool are_plain(struct scene *scene)
{
    if (scene->ranks > 0) {
        return false;
    }
    mst_text_format(&scene->text, "%" PRIu32 " of %" PRIu32 " ranks run, without muster",
                    scene->plain, scene->job.expected);
    return say(scene, MST_JOB_PLAIN, MST_JOB_GOOD, 0);
}

static void add_all_run(struct scene *scene)
{
    uint32_t all = scene->seated + scene->plain;

    mst_text_format(&scene->text, "%s%" PRIu32 " rank%s", all > 1 ? "all " : "", all,
                    all == 1 ? " runs" : "s run");
    add_since(scene, scene->job.since_ms);
    if (scene->plain > 0) {
        mst_text_format(&scene->text, ", %" PRIu32 " of them without muster", scene->plain);
    }
    if (scene->spares > 0) {
        mst_text_format(&scene->text, ", and %" PRIu32 " spare%s", scene->spares,
                        scene->spares == 1 ? " waits" : "s wait");
    }
}

void mst_straggler_phrase(struct mst_text *text, const struct mst_rank_progress *progress)
{
    mst_text_format(text, "%" PRIu32 ".%02" PRIu32 " times the work of the median",
                    progress->slower / 1000, progress->slower % 1000 / 10);
}

static bool one_straggles(struct scene *scene)
{
    const struct mst_item *slowest = scene->slowest;

    if (!slowest) {
        return false;
    }
    add_all_run(scene);
    mst_text_add(&scene->text, "; ");
    mst_story_process(&scene->text, &slowest->who);
    mst_text_add(&scene->text, " is a straggler: ");
    mst_straggler_phrase(&scene->text, &slowest->progress);
    if (scene->stragglers > 1) {
        mst_text_format(&scene->text, ", and %" PRIu32 " more", scene->stragglers - 1);
    }
    scene->out->index = slowest->who.index;
    return say(scene, MST_JOB_STRAGGLES, MST_JOB_NOTE, scene->job.since_ms);
}

static bool all_run(struct scene *scene)
{
    add_all_run(scene);
    add_service(scene);
    return say(scene, MST_JOB_RUNS, MST_JOB_GOOD, scene->job.since_ms);
}

void mst_job_verdict_of(const struct mst_status *status, struct mst_job_verdict *out)
{
    static bool (*const says[])(struct scene *) = {
        is_empty,       all_have_left,    is_over,          has_too_few,
        is_interrupted, is_stopped,       is_starting,      is_preempted,
        is_silent,      waits_in_a_round, waits_in_a_front, some_are_missing,
        are_workers,    are_plain,        one_straggles,    all_run};
    const struct mst_item *job = mst_status_job(status);
    struct scene scene = {.status = status, .out = out};
    struct mst_plain plain;

    *out = (struct mst_job_verdict){.index = MST_INDEX_ANY};
    scene.text = mst_text_in(out->sentence, sizeof out->sentence);
    if (job) {
        scene.job = *job;
    }
    if (mst_plain_of(status, &plain)) {
        scene.plain = (uint32_t)(plain.count + plain.more);
        free(plain.ranks);
    }
    for (size_t i = 0; i < status->members.count; i++) {
        count(&scene, &status->members.items[i]);
    }
    for (size_t i = 0; i < sizeof says / sizeof says[0] && !says[i](&scene); i++) {
    }
}

const char *mst_job_verdict_word(enum mst_job_verdict_kind kind)
{
    static const char *const words[] = {[MST_JOB_EMPTY] = "empty",
                                        [MST_JOB_RUNS] = "runs",
                                        [MST_JOB_STRAGGLES] = "straggles",
                                        [MST_JOB_WORKERS] = "workers",
                                        [MST_JOB_PLAIN] = "plain",
                                        [MST_JOB_FINISHED] = "finished",
                                        [MST_JOB_STARTS] = "starts",
                                        [MST_JOB_MISSING] = "missing",
                                        [MST_JOB_WAITS] = "waits",
                                        [MST_JOB_PREEMPTION] = "preemption",
                                        [MST_JOB_STOPPED] = "stopped",
                                        [MST_JOB_SILENT] = "silent",
                                        [MST_JOB_INTERRUPTED] = "interrupted",
                                        [MST_JOB_TOO_FEW] = "too-few",
                                        [MST_JOB_OVER] = "over"};

    return words[kind];
}

const char *mst_job_verdict_level_word(enum mst_job_verdict_level level)
{
    static const char *const words[] = {
        [MST_JOB_GOOD] = "good", [MST_JOB_NOTE] = "note", [MST_JOB_TROUBLE] = "trouble"};

    return words[level];
}
