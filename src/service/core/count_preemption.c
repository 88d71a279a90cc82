/* SPDX-License-Identifier: Apache-2.0 */
/* Preemption and the collective heartbeat consist of ordinary keys, watches and rounds. They are
 * recognised by their names here, for the counts only. */
#include "service/core/counts.h"

#include <string.h>

#include "proto/heartbeat.h"
#include "proto/notice.h"
#include "service/core/job.h"
#include "service/core/look.h"
#include "service/core/round.h"

#define COMPLETE MST_PREEMPT_PREFIX "complete/"

static bool begins(struct mst_slice name, const char *prefix)
{
    return mst_slice_starts_with(name, mst_slice_text(prefix));
}

/* ---- notices ---- */

const char *mst_source_word(enum mst_source source)
{
    static const char *const words[MST_SOURCES] = {
        [MST_SOURCE_SIGNALS] = "signals",
        [MST_SOURCE_HAND] = "hand",
        [MST_SOURCE_OTHER] = "other",
#define X(NAME, name) [MST_SOURCE_##NAME] = #name,
#include "proto/sources.def"
#undef X
    };

    return source < MST_SOURCES ? words[source] : "?";
}

/* A notice without a source was written with `muster key`. */
static enum mst_source source_of(const struct mst_notice *notice)
{
    enum mst_source source = 0;

    if (notice->source[0] == '\0') {
        return MST_SOURCE_HAND;
    }
    while (source < MST_SOURCE_OTHER && !mst_slice_equal(mst_slice_text(notice->source),
                                                         mst_slice_text(mst_source_word(source)))) {
        source++;
    }
    return source;
}

static void count_notice(struct mst_counts *counts, struct mst_slice value)
{
    struct mst_notice notice;
    enum mst_source source;
    uint64_t left_ms;

    if (!mst_notice_read(value, &notice)) {
        return;
    }
    source = source_of(&notice);
    left_ms = notice.left_ms < MST_NOTICE_LEFT_MS_MAX ? notice.left_ms : MST_NOTICE_LEFT_MS_MAX;
    counts->notices[source][notice.level == MST_NOTICE_ADVISORY]++;
    mst_histogram_add(&counts->leads[source], left_ms * NS_PER_MS, 1);
}

void mst_counts_stored(struct mst_job *job, const struct mst_key *key)
{
    struct mst_slice name = mst_key_name(key);
    struct mst_preempt_name read;
    struct mst_counts *counts;

    if (!begins(name, MST_PREEMPT_PREFIX) || key->space != &job->keys ||
        !mst_preempt_name_read(name, &read)) {
        return;
    }
    counts = &job->core->counts;
    if (read.kind == MST_PREEMPT_KEY_NOTICE) {
        count_notice(counts, mst_blob_slice(key->value));
    }
    counts->handled += read.kind == MST_PREEMPT_KEY_COMPLETE;
    mst_history_preempt(job, key, &read);
}

void mst_counts_watch(struct mst_counts *counts, const struct mst_request *request)
{
    bool first = request->watch.after == 0; /* a later page of a counted watch has a cursor */

    counts->watchers += first && (request->watch.kinds & MST_WATCH_KEYS) &&
                        begins(request->watch.prefix, MST_PREEMPT_PREFIX);
}

uint32_t mst_counts_saved(const struct mst_job *job)
{
    const struct mst_key *key = mst_key_after(&job->keys, mst_slice_text(COMPLETE));
    uint64_t newest = 0;
    uint32_t saved = 0;

    for (; key && begins(mst_key_name(key), COMPLETE); key = mst_key_next(key)) {
        struct mst_preempt_fact fact;

        if (key->value && key->revision > newest &&
            mst_preempt_fact_read(mst_blob_slice(key->value), &fact)) {
            newest = key->revision;
            saved = fact.of;
        }
    }
    return saved;
}

/* ---- rounds ---- */

/* A rank was lost that had not announced that it leaves. */
static bool lost_any(const struct mst_round *round)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < round->part_count && seen < round->lost; i++) {
        const struct mst_round_part *part = &round->parts[i];

        seen += part->lost;
        if (part->lost && part->cause != MST_CAUSE_LEFT) {
            return true;
        }
    }
    return false;
}

/* The end of its generation is no failure. The first round agrees on the token; the others are the
 * periods. */
static bool beat_failed(const struct mst_round *round)
{
    return round->status != MUSTER_EFENCED &&
           (round->status != MUSTER_OK || (round->number > 0 && lost_any(round)));
}

void mst_counts_round(const struct mst_round *round, uint64_t ns)
{
    struct mst_slice name = round->name->named.name;
    struct mst_counts *counts = &round->job->core->counts;
    enum mst_result result = mst_result_of(round->status);

    mst_histogram_add(&counts->rounds[result], ns, 1);
    if (begins(name, MST_PREEMPT_ROUND_STEP)) {
        mst_histogram_add(&counts->agreements[result], ns, 1);
    } else if (mst_slice_equal(name, mst_slice_text(MST_HEARTBEAT_ROUND))) {
        round->job->counts.heartbeat_failures += beat_failed(round);
    }
}
