/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine says in numbers, in words. */
#include <string.h>

#include "preempt/shell/preempt.h"
#include "proto/status.h"

static void add_step(struct mst_text *text, const char *before, int64_t step, const char *after)
{
    mst_text_add(text, before);
    mst_text_i64(text, step);
    mst_text_add(text, after);
}

static void add_left(struct mst_text *text, const char *before, int64_t left_ms, const char *after)
{
    mst_text_add(text, before);
    mst_text_seconds(text, left_ms > 0 ? (uint64_t)left_ms : 0);
    mst_text_add(text, after);
}

static void add_missing(struct mst_text *text, const struct mst_detail *detail)
{
    mst_lib_add_names(text, detail, detail->lost + detail->missing);
}

/* ---- log lines ---- */

static void add_index(struct mst_text *text, uint32_t index)
{
    if (index == MST_NOTICE_ALL) {
        mst_text_add(text, "the whole job");
        return;
    }
    mst_text_add(text, "#");
    mst_text_u64(text, index);
}

/* Who gave it and why stands in what the handle knows: the line is said when it changed. */
static void add_noticed(struct mst_text *text, struct muster_preempt *preempt,
                        const struct mst_preempt_line *line)
{
    struct mst_preempt_noticed noticed;

    mst_text_add(text, "notice for ");
    add_index(text, line->index);
    if (mst_preempt_notice_from(preempt->host.machine, line->index, &noticed) && noticed.any &&
        noticed.notice.index == line->index) {
        const struct mst_notice *notice = &noticed.notice;

        mst_text_add(text, notice->level == MST_NOTICE_ADVISORY ? " (advisory)" : "");
        if (notice->host[0] != '\0') {
            mst_text_add(text, " on ");
            mst_text_slice(text, mst_slice_text(notice->host));
        }
        mst_text_add(text, " by ");
        mst_text_slice(text, mst_slice_text(notice->source[0] != '\0' ? notice->source : "a key"));
        if (notice->reason[0] != '\0') {
            mst_text_add(text, ": ");
            mst_text_slice(text, mst_slice_text(notice->reason));
        }
        add_left(text, "; ", line->left_ms, notice->assumed ? " left (assumed)" : " left");
        return;
    }
    add_left(text, "; ", line->left_ms, " left");
}

static enum muster_level level_of(enum mst_preempt_log what)
{
    switch (what) {
    case MST_PREEMPT_LOG_NOTICED:
    case MST_PREEMPT_LOG_AGREED:
    case MST_PREEMPT_LOG_POSTPONED:
    case MST_PREEMPT_LOG_AGAIN:
    case MST_PREEMPT_LOG_WITHDRAWN:
        return MUSTER_LEVEL_INFO;
    case MST_PREEMPT_LOG_GARBAGE:
    case MST_PREEMPT_LOG_FROZEN:
    case MST_PREEMPT_LOG_WAITING:
        return MUSTER_LEVEL_WARN;
    case MST_PREEMPT_LOG_LATE:
    case MST_PREEMPT_LOG_FAILED:
    case MST_PREEMPT_LOG_PASSED:
        return MUSTER_LEVEL_ERROR;
    }
    return MUSTER_LEVEL_INFO;
}

static void add_failed(struct mst_text *text, const struct mst_preempt_line *line)
{
    mst_text_add(text, "no step is saved by all: ");
    mst_text_add(text, mst_status_text(line->status));
    if (line->has_detail && line->detail->who_count > 0) {
        mst_text_add(text, ":");
        add_missing(text, line->detail);
    }
}

static void add_line(struct mst_text *text, struct muster_preempt *preempt,
                     const struct mst_preempt_line *line)
{
    switch (line->what) {
    case MST_PREEMPT_LOG_NOTICED:
        add_noticed(text, preempt, line);
        break;
    case MST_PREEMPT_LOG_GARBAGE:
        mst_text_add(text, "the notice for ");
        add_index(text, line->index);
        mst_text_add(text, " is no notice (left_ms=30000 would be one); it is ignored");
        break;
    case MST_PREEMPT_LOG_AGREED:
        add_step(text, "step ", line->step, " is to be saved by all");
        add_left(text, "; ", line->left_ms, " left");
        break;
    case MST_PREEMPT_LOG_FROZEN:
        mst_text_add(text, "frozen, and left out of the step that is agreed:");
        if (line->has_detail) {
            add_missing(text, line->detail);
        }
        break;
    case MST_PREEMPT_LOG_POSTPONED:
        add_left(text, "a rank cannot save now: postponed for ", line->left_ms, " at most");
        break;
    case MST_PREEMPT_LOG_AGAIN:
        add_step(text, "step ", line->step, " was agreed without this rank");
        add_step(text, ", which is at ", line->other, " already: agreed once more");
        break;
    case MST_PREEMPT_LOG_WITHDRAWN:
        mst_text_add(text, "the notice was taken back: all go on");
        break;
    case MST_PREEMPT_LOG_WAITING:
        add_step(text, "step ", line->step, " is to be saved");
        add_left(text, " since ", (int64_t)line->since_ms,
                 ", and the program here does not ask for it (muster_preempt_reached)");
        break;
    case MST_PREEMPT_LOG_LATE:
        add_step(text, "the deadline has passed, step ", line->step, " was not saved here");
        break;
    case MST_PREEMPT_LOG_FAILED:
        add_failed(text, line);
        break;
    case MST_PREEMPT_LOG_PASSED:
        add_step(text, "the others saved step ", line->step, ", which this rank had passed");
        add_step(text, " (at ", line->other, "): it has not saved");
        break;
    }
}

void mst_preempt_say(struct muster_preempt *preempt, const struct mst_preempt_line *line)
{
    char words[488];
    struct mst_text text = mst_text_in(words, sizeof(words));

    mst_text_add(&text, "preempt: ");
    add_line(&text, preempt, line);
    mst_lib_log(preempt->client, level_of(line->what), words);
}

void mst_preempt_say_limit(struct muster_preempt *preempt, int64_t limit)
{
    char words[128];
    struct mst_text text = mst_text_in(words, sizeof(words));

    add_step(&text, "preempt: step ", limit, " is to be saved here");
    mst_lib_log(preempt->client, MUSTER_LEVEL_DEBUG, words);
}

/* ---- errors ---- */

static void add_savers(struct mst_text *text, const struct mst_preempt_outcome *outcome)
{
    mst_text_add(text, "members have saved different steps, so it counts for none:");
    for (uint32_t i = 0; i < outcome->saver_count; i++) {
        const struct mst_preempt_saver *saver = &outcome->savers[i];

        mst_text_add(text, i > 0 ? ", #" : " #");
        mst_text_u64(text, saver->index);
        if (saver->step == INT64_MIN) {
            mst_text_add(text, " none");
        } else {
            add_step(text, " step ", saver->step, "");
        }
    }
    if (outcome->savers_total > outcome->saver_count) {
        mst_text_add(text, " and ");
        mst_text_u64(text, outcome->savers_total - outcome->saver_count);
        mst_text_add(text, " more");
    }
}

static void add_detail(struct mst_text *text, const struct mst_preempt_outcome *outcome,
                       const char *what, const char *who)
{
    mst_text_add(text, what);
    if (outcome->has_detail && outcome->detail->who_count > 0) {
        mst_text_add(text, who);
        add_missing(text, outcome->detail);
    }
}

static void add_passed(struct mst_text *text, const struct mst_preempt_outcome *outcome)
{
    mst_text_add(text, "saved by ");
    mst_text_u64(text, outcome->of > 0 ? outcome->of - 1 : 0);
    mst_text_add(text, " of ");
    mst_text_u64(text, outcome->of);
    if (outcome->saver_count > 0) {
        mst_text_add(text, ": #");
        mst_text_u64(text, outcome->savers[0].index);
        add_step(text, " had passed step ", outcome->step, " while it was frozen");
    }
}

static void add_outcome(struct mst_text *text, const struct mst_preempt_outcome *outcome)
{
    if (outcome->status == MUSTER_EMISMATCH) {
        add_savers(text, outcome);
    } else if (outcome->status == MUSTER_ELOST) {
        add_detail(text, outcome, "a member was lost before it had saved", ":");
    } else if (outcome->status == MUSTER_ETIMEDOUT) {
        add_detail(text, outcome, "the deadline has passed before all had saved", "; missing");
    } else if (outcome->status == MUSTER_EFAILED) {
        add_passed(text, outcome);
    } else if (outcome->status == MUSTER_ESTALE) {
        mst_text_add(text, "this step is not to be saved any more: go on, and ask "
                           "muster_preempt_reached");
    } else if (outcome->status == MUSTER_EINVAL) {
        mst_text_add(text, "no save is due: ask muster_preempt_reached first");
    } else if (outcome->status == MUSTER_EPREEMPTED) {
        mst_text_add(text, "saved by all, this process is to end (exit code 75)");
    } else {
        mst_text_add(text, mst_status_text(outcome->status));
    }
}

void mst_preempt_say_outcome(struct muster_error *err, const struct mst_preempt_outcome *outcome,
                             int64_t step)
{
    struct mst_text text = mst_text_in(err->text, sizeof(err->text));

    err->status = outcome->status;
    err->os_errno = 0;
    add_step(&text, "save of step ", step, ": ");
    add_outcome(&text, outcome);
}

void mst_preempt_say_missing(struct muster_error *err, int64_t step, const struct mst_reply *reply)
{
    char what[MST_LIB_WHAT_ROOM];
    struct mst_text text = mst_text_in(what, sizeof(what));

    add_step(&text, "save of step ", step, "");
    (void)mst_lib_fail(err, MUSTER_ETIMEDOUT, what, reply);
}
