/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "view/story.h"

#include <string.h>

#include "base/time.h"
#include "proto/notice.h"
#include "proto/words.h"
#include "view/span.h"

/* ---- what it cost ---- */

static bool restarts(const struct mst_item *incident)
{
    return incident->incident == MST_INCIDENT_SEALED && incident->arrived > 0 &&
           incident->total > 0;
}

static bool grows(const struct mst_item *incident)
{
    return incident->incident == MST_INCIDENT_SEALED && incident->arrived > 0 &&
           incident->total == 0 && incident->expected > incident->arrived;
}

uint64_t mst_story_repeated(const struct mst_item *incident)
{
    return incident->incident == MST_INCIDENT_SEALED && incident->step > 0
               ? (uint64_t)incident->step
               : 0;
}

/* How many faults and losses of a generation this one tells. */
static uint64_t told(const struct mst_item *incident)
{
    bool ends = incident->incident == MST_INCIDENT_FAULT ||
                (incident->incident == MST_INCIDENT_LOST && incident->who.rank != MST_RANK_NONE);

    return incident->incident == MST_INCIDENT_NODE ? incident->expected : ends;
}

static uint64_t losses(const struct mst_item *incident)
{
    return incident->incident == MST_INCIDENT_NODE ? incident->expected
                                                   : incident->incident == MST_INCIDENT_LOST;
}

/* Of a generation that it ends. */
static bool ends(const struct mst_item *incident)
{
    return told(incident) > 0;
}

uint64_t mst_story_moment_ms(const struct mst_story *story, const struct mst_item *incident)
{
    uint64_t ago_ms = incident->who.heard_ms;

    return story->age_ms > ago_ms ? story->age_ms - ago_ms : 0;
}

/* Where a generation's ranks were interrupted; the count: none of them was yet. */
static size_t next_sealed(const struct mst_items *history, size_t at)
{
    while (at < history->count && history->items[at].incident != MST_INCIDENT_SEALED) {
        at++;
    }
    return at;
}

static uint64_t interrupted_ms(const struct mst_story *story, const struct mst_item *sealed)
{
    uint64_t moment_ms = mst_story_moment_ms(story, sealed);
    uint64_t took_ms = sealed->interrupt_ms + sealed->gather_ms;

    return moment_ms > took_ms ? moment_ms - took_ms : 0;
}

/* The loss that no generation has followed. NULL: there is none. */
static const struct mst_item *last_end(const struct mst_items *history, size_t after)
{
    for (size_t i = after; i < history->count; i++) {
        if (ends(&history->items[i])) {
            return &history->items[i];
        }
    }
    return NULL;
}

static uint64_t end_ms(const struct mst_story *story, const struct mst_item *end)
{
    return end ? mst_story_moment_ms(story, end) : story->age_ms;
}

/* Whether it is of fewer ranks than another one before. */
static bool is_fewer(struct mst_story_walk *walk, const struct mst_item *sealed)
{
    bool fewer = sealed->expected < walk->most;

    walk->most = fewer ? walk->most : sealed->expected;
    return fewer;
}

/* Each generation has two: that before it, and that of a size that was larger once. An odd `at` is
 * the second one. */
bool mst_story_gap(const struct mst_story *story, const struct mst_items *history,
                   struct mst_story_walk *walk, struct mst_story_gap *out)
{
    for (; walk->at < 2 * (history->count + 1); walk->at++) {
        size_t i = walk->at / 2, next;
        bool last = i == history->count;
        const struct mst_item *incident = last ? NULL : &history->items[i];

        *out = (struct mst_story_gap){.idle = walk->at % 2 == 0};
        if (last && out->idle) {
            size_t sealed = history->count;

            while (sealed > 0 && history->items[sealed - 1].incident != MST_INCIDENT_SEALED) {
                sealed--;
            }
            out->of = sealed > 0 ? last_end(history, sealed) : NULL;
            out->from_ms = end_ms(story, out->of);
            out->to_ms = story->age_ms;
        } else if (!last && incident->incident == MST_INCIDENT_SEALED && out->idle) {
            out->of = incident;
            out->from_ms = interrupted_ms(story, incident);
            out->to_ms = mst_story_moment_ms(story, incident);
        } else if (!last && incident->incident == MST_INCIDENT_SEALED && is_fewer(walk, incident)) {
            next = next_sealed(history, i + 1);
            out->of = incident;
            out->from_ms = mst_story_moment_ms(story, incident);
            out->to_ms = next < history->count ? interrupted_ms(story, &history->items[next])
                                               : end_ms(story, last_end(history, i + 1));
        }
        if (out->to_ms > out->from_ms) {
            walk->at++;
            return true;
        }
    }
    return false;
}

void mst_story_of(const struct mst_items *history, struct mst_story *out)
{
    struct mst_story_walk walk = {0};
    struct mst_story_gap gap;
    uint64_t listed = 0;
    bool whole = false; /* all of this generation is remembered */

    *out = (struct mst_story){0};
    if (history->count > 0) {
        out->age_ms = history->items[0].who.heard_ms;
        out->from_the_start = history->items[0].revision == 1;
    }
    for (size_t i = 0; i < history->count; i++) {
        const struct mst_item *incident = &history->items[i];

        out->restarts += restarts(incident);
        out->grown += grows(incident);
        out->lost += losses(incident);
        out->groups += incident->incident == MST_INCIDENT_GROUP;
        out->services += incident->incident == MST_INCIDENT_SERVICE;
        out->repeated += mst_story_repeated(incident);
        listed += told(incident);
        if (incident->incident == MST_INCIDENT_SEALED) {
            out->away_ms += incident->interrupt_ms + incident->gather_ms;
            out->unlisted += whole && incident->total > listed ? incident->total - listed : 0;
            listed = 0;
            whole = true;
        }
    }
    while (mst_story_gap(out, history, &walk, &gap)) {
        out->without_ms += gap.to_ms - gap.from_ms;
    }
}

/* ---- sentences ---- */

static void seconds(struct mst_text *text, uint64_t ms)
{
    if (ms < 1000) {
        mst_text_format(text, "%" PRIu64 " ms", ms);
    } else {
        mst_text_format(text, MST_SECONDS, MST_SECONDS_ARGS(ms));
    }
}

void mst_story_process(struct mst_text *text, const struct mst_who *who)
{
    if (who->index == MST_INDEX_ANY) { /* nothing tells the ranks apart */
        mst_text_add(text, "the ranks");
        return;
    }
    if (who->role == MST_ROLE_RANK && who->rank != MST_RANK_NONE) {
        mst_text_format(text, "rank %" PRIu32 " (#%" PRIu32 ")", who->rank, who->index);
    } else {
        mst_text_format(text, "%s #%" PRIu32, mst_role_word(who->role), who->index);
    }
    if (who->host.size > 0) {
        mst_text_format(text, " on %.*s", MST_SLICE_ARGS(who->host));
    }
}

static void sealed(struct mst_text *text, const struct mst_item *incident)
{
    uint32_t before = incident->arrived, after = incident->expected;

    if (before == 0) {
        mst_text_format(text, "started with %" PRIu32 " rank%s", after, mst_plural(after));
    } else if (grows(incident)) {
        mst_text_format(text, "grew from %" PRIu32 " to %" PRIu32 " ranks", before, after);
    } else if (incident->total == 0) {
        mst_text_format(text, "began again with %" PRIu32 " rank%s", after, mst_plural(after));
    } else if (after > before) {
        mst_text_format(text, "restarted, and grew from %" PRIu32 " to %" PRIu32 " ranks", before,
                        after);
    } else {
        mst_text_format(text, "restarted with %" PRIu32 " of %" PRIu32 " rank%s", after, before,
                        mst_plural(before));
    }
    if (incident->total > MST_NAMES_MAX) {
        mst_text_format(text, " after %" PRIu32 " faults and losses", incident->total);
    }
    mst_text_format(text, ", generation %" PRIu64, incident->number);
    if (incident->interrupt_ms + incident->gather_ms > 0) {
        mst_text_add(text, ": ");
        seconds(text, incident->interrupt_ms);
        mst_text_add(text, " until the first rank was out of its function, ");
        seconds(text, incident->gather_ms);
        mst_text_add(text, " until all were there");
    }
    if (mst_story_repeated(incident) > 0) {
        mst_text_format(text, "; %" PRIu64 " step%s repeated", mst_story_repeated(incident),
                        mst_plural(mst_story_repeated(incident)));
    }
}

static void ended(struct mst_text *text, const struct mst_item *incident)
{
    const struct mst_who *who = &incident->who;
    const struct mst_caused ending = {.cause = who->cause,
                                      .code = who->code,
                                      .signal = strsignal(who->code),
                                      .text = incident->value};

    mst_story_process(text, who);
    mst_text_add(text, " ");
    mst_cause_sentence(text, &ending);
}

static void notice(struct mst_text *text, const struct mst_item *incident)
{
    struct mst_notice read = {.left_ms = 0};

    (void)mst_notice_read(incident->value, &read);
    mst_text_format(text, "%s of preemption for ",
                    read.level == MST_NOTICE_CERTAIN ? "notice" : "advisory notice");
    if (incident->who.index == MST_INDEX_ANY) {
        mst_text_add(text, "the whole job");
    } else {
        mst_text_format(text, "#%" PRIu32, incident->who.index);
    }
    if (read.reason[0] != '\0') {
        mst_text_format(text, ": %.*s", MST_TEXT_ARGS(read.reason));
    }
    mst_text_format(text, " (%.*s), ",
                    MST_TEXT_ARGS(read.source[0] != '\0' ? read.source : "by hand"));
    seconds(text, read.left_ms);
    mst_text_add(text, " were left");
}

void mst_story_sentence(struct mst_text *text, const struct mst_item *incident)
{
    uint32_t count = incident->expected;

    switch (incident->incident) {
    case MST_INCIDENT_SEALED:
        sealed(text, incident);
        return;
    case MST_INCIDENT_LOST:
    case MST_INCIDENT_FAULT:
        ended(text, incident);
        return;
    case MST_INCIDENT_NODE:
        mst_text_format(text, "node %" PRIu32 " (%.*s) was lost", incident->who.index,
                        MST_SLICE_ARGS(incident->who.host));
        if (count > 0) { /* of the workers on it no generation knows */
            mst_text_format(text, " with %" PRIu32 " rank%s", count, mst_plural(count));
        }
        return;
    case MST_INCIDENT_TOO_FEW:
        if (incident->arrived >= count) { /* a multiple, or an order, leaves some out */
            mst_text_format(text,
                            "could not go on: %" PRIu32 " rank%s here, and fewer than %" PRIu32
                            " of them would have a seat",
                            incident->arrived, incident->arrived == 1 ? " is" : "s are", count);
            return;
        }
        mst_text_format(text, "could not go on: %" PRIu32 " rank%s here, and %" PRIu32 " %s needed",
                        incident->arrived, incident->arrived == 1 ? " is" : "s are", count,
                        count == 1 ? "is" : "are");
        return;
    case MST_INCIDENT_NOTICE:
        notice(text, incident);
        return;
    case MST_INCIDENT_SAVED:
        mst_text_format(text, "step %" PRId64 " was saved for it by %" PRIu32 " rank%s",
                        incident->step, count, mst_plural(count));
        return;
    case MST_INCIDENT_SERVICE:
        mst_text_add(text, "the service was started again");
        return;
    case MST_INCIDENT_STRAGGLER:
        mst_story_process(text, &incident->who);
        mst_text_format(text, " is a straggler: its work in a step takes %u.%02u times the median",
                        incident->total / 1000, incident->total % 1000 / 10);
        return;
    case MST_INCIDENT_GROUP:
        mst_text_format(text, "all processes are to begin anew (%" PRIu32 ")", count);
        if (incident->value.size > 0) {
            mst_text_format(text, ": %.*s", MST_SLICE_ARGS(incident->value));
        }
        return;
    }
    mst_text_add(text, "something that this version does not know");
}

const char *mst_story_word(const struct mst_item *incident)
{
    switch (incident->incident) {
    case MST_INCIDENT_SEALED:
        if (incident->arrived == 0) {
            return "started";
        }
        if (restarts(incident)) {
            return "restarted";
        }
        return grows(incident) ? "grew" : "began-again";
    case MST_INCIDENT_LOST:
        return "lost";
    case MST_INCIDENT_NODE:
        return "node-lost";
    case MST_INCIDENT_FAULT:
        return "fault";
    case MST_INCIDENT_TOO_FEW:
        return "too-few";
    case MST_INCIDENT_NOTICE:
        return "notice";
    case MST_INCIDENT_SAVED:
        return "saved";
    case MST_INCIDENT_SERVICE:
        return "service-restarted";
    case MST_INCIDENT_STRAGGLER:
        return "straggler";
    case MST_INCIDENT_GROUP:
        return "all-restarted";
    }
    return "unknown";
}

enum mst_incident_kind mst_story_kind(const char *word)
{
    static const uint32_t sizes[][3] = {{0, 1, 0}, {1, 1, 1}, {1, 2, 0}, {1, 1, 0}};

    for (int kind = MST_INCIDENT_SEALED; word && kind <= MST_INCIDENT_LAST; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const struct mst_item one = {.incident = (enum mst_incident_kind)kind,
                                         .arrived = sizes[i][0],
                                         .expected = sizes[i][1],
                                         .total = sizes[i][2]};

            if (strcmp(mst_story_word(&one), word) == 0) {
                return one.incident;
            }
        }
    }
    return 0;
}

/* ---- what to do ---- */

static bool of_process(const struct mst_item *incident)
{
    return incident->incident == MST_INCIDENT_LOST || incident->incident == MST_INCIDENT_FAULT ||
           incident->incident == MST_INCIDENT_NODE;
}

/* Losses and faults on that host, and elsewhere. */
static void count_host(const struct mst_items *history, struct mst_slice host, size_t *here,
                       size_t *elsewhere)
{
    *here = *elsewhere = 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct mst_item *incident = &history->items[i];

        if (of_process(incident) && incident->who.host.size > 0) {
            *(mst_slice_equal(incident->who.host, host) ? here : elsewhere) += 1;
        }
    }
}

static bool several_hosts(const struct mst_items *history)
{
    struct mst_slice first = {.size = 0};

    for (size_t i = 0; i < history->count; i++) {
        struct mst_slice host = history->items[i].who.host;

        if (first.size > 0 && host.size > 0 && !mst_slice_equal(first, host)) {
            return true;
        }
        first = host.size > 0 ? host : first;
    }
    return false;
}

static const char *advice_for(const struct mst_item *incident)
{
    switch (incident->who.cause) {
    case MST_CAUSE_SIGNAL:
        return incident->who.code == 9
                   ? "nothing of muster sends signal 9 to a rank that runs: look for the kernel's "
                     "out-of-memory killer (dmesg), a scheduler's limit, or a hand"
                   : "read its last words; muster run --core keeps a core dump";
    case MST_CAUSE_EXIT:
    case MST_CAUSE_FAULT:
        return "read its last words: it ended by itself";
    case MST_CAUSE_LEASE:
        return "look at that host and its network: it sent nothing for longer than the lease";
    case MST_CAUSE_SOFT_TIMEOUT:
    case MST_CAUSE_HARD_TIMEOUT:
        return "look where it stood; if such a step may take that long, raise its time limit";
    case MST_CAUSE_UNHEALTHY:
        return "its health check or heartbeats failed: look at that host, and keep it out with "
               "--avoid";
    case MST_CAUSE_EVICTED:
        return "it did not come to the restart in time: look what its function does when it is "
               "interrupted";
    default: /* what asks for no look at anything */
        return "";
    }
}

/* The first of the faults and losses that ended the same generation as this one: the others follow
 * from it. */
static const struct mst_item *first_of(const struct mst_items *history, size_t at)
{
    const struct mst_item *first = &history->items[at];

    for (size_t i = at; ends(first) && i > 0; i--) {
        const struct mst_item *incident = &history->items[i - 1];

        if (incident->incident == MST_INCIDENT_SEALED || incident->incident == MST_INCIDENT_GROUP) {
            break;
        }
        first = ends(incident) ? incident : first;
    }
    return first;
}

/* What ended or interrupted the ranks last; a loss that ended no generation only where none did. */
static const struct mst_item *last_cause(const struct mst_items *history)
{
    const struct mst_item *other = NULL;

    for (size_t i = history->count; i > 0; i--) {
        const struct mst_item *incident = &history->items[i - 1];

        if (incident->incident == MST_INCIDENT_TOO_FEW) {
            return incident;
        }
        if (ends(incident)) {
            return first_of(history, i - 1);
        }
        other = of_process(incident) && !other ? incident : other;
        if (other && incident->incident == MST_INCIDENT_SEALED) {
            break;
        }
    }
    return other;
}

/* The host of the latest loss, if nearly all losses and faults were there. */
static bool advise_host(struct mst_text *text, const struct mst_items *history)
{
    size_t here, elsewhere, last = history->count;
    struct mst_slice host;

    while (last > 0 && !of_process(&history->items[last - 1])) {
        last--;
    }
    if (last == 0) {
        return false;
    }
    host = history->items[last - 1].who.host;
    count_host(history, host, &here, &elsewhere);
    if (here < 3 || here <= 2 * elsewhere || !several_hosts(history)) {
        return false;
    }
    mst_text_format(text,
                    "%zu of %zu losses and faults were on %.*s: keep it out with --avoid %.*s",
                    here, here + elsewhere, MST_SLICE_ARGS(host), MST_SLICE_ARGS(host));
    return true;
}

void mst_story_advice(struct mst_text *text, const struct mst_items *history,
                      const struct mst_item *ended_by)
{
    const struct mst_item *incident = last_cause(history);

    if (incident && incident->incident == MST_INCIDENT_TOO_FEW) {
        mst_text_add(text, "start more ranks, or let it go on with fewer (--min-size)");
        return;
    }
    incident = ended_by ? ended_by : incident;
    if (incident && !advise_host(text, history)) {
        mst_text_add(text, advice_for(incident));
    }
}
