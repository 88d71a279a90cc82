/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine says in numbers, in words. */
#include <string.h>

#include "preempt/shell/preempt.h"
#include "proto/status.h"

/* Of MST_SECONDS_ARGS. */
static uint64_t left(int64_t ms)
{
    return ms > 0 ? (uint64_t)ms : 0;
}

static void add_missing(struct mst_text *text, const struct mst_detail *detail)
{
    mst_lib_add_names(text, detail, detail->lost + detail->missing);
}

/* ---- log lines ---- */

/* The handle knows who gave it and why: the line is written when that changed. */
static void add_noticed(struct mst_text *text, struct muster_preempt *preempt,
                        const struct mst_preempt_line *line, const char *whom)
{
    const struct mst_preempt_seen *seen = mst_preempt_notice_of(preempt->host.machine, line->index);
    const struct mst_notice *notice;

    mst_text_format(text, "notice for %s", whom);
    if (!seen) {
        mst_text_format(text, "; " MST_SECONDS " left", MST_SECONDS_ARGS(left(line->left_ms)));
        return;
    }
    notice = &seen->notice;
    mst_text_format(text, "%s%s%.*s by %.*s%s%.*s; " MST_SECONDS " left%s",
                    notice->level == MST_NOTICE_ADVISORY ? " (advisory)" : "",
                    notice->host[0] != '\0' ? " on " : "", MST_TEXT_ARGS(notice->host),
                    MST_TEXT_ARGS(notice->source[0] != '\0' ? notice->source : "a key"),
                    notice->reason[0] != '\0' ? ": " : "", MST_TEXT_ARGS(notice->reason),
                    MST_SECONDS_ARGS(left(line->left_ms)), notice->assumed ? " (assumed)" : "");
}

static void add_failed(struct mst_text *text, const struct mst_preempt_line *line)
{
    mst_text_format(text, "no step is saved by all: %s", mst_status_text(line->status));
    if (line->detail && line->detail->who_count > 0) {
        mst_text_add(text, ":");
        add_missing(text, line->detail);
    }
}

/* The line, and how much it matters. */
static enum muster_level add_line(struct mst_text *text, struct muster_preempt *preempt,
                                  const struct mst_preempt_line *line)
{
    char whom[16] = "the whole job";

    if (line->index != MST_NOTICE_ALL) {
        mst_text_print(whom, sizeof(whom), "#%u", line->index);
    }
    switch (line->what) {
    case MST_PREEMPT_LOG_NOTICED:
        add_noticed(text, preempt, line, whom);
        return MUSTER_LEVEL_INFO;
    case MST_PREEMPT_LOG_GARBAGE:
        mst_text_format(
            text, "the notice for %s is no notice (left_ms=30000 would be one); it is ignored",
            whom);
        return MUSTER_LEVEL_WARN;
    case MST_PREEMPT_LOG_AGREED:
        mst_text_format(text, "step %" PRId64 " is to be saved by all; " MST_SECONDS " left",
                        line->step, MST_SECONDS_ARGS(left(line->left_ms)));
        return MUSTER_LEVEL_INFO;
    case MST_PREEMPT_LOG_FROZEN:
        mst_text_add(text, "frozen, and left out of the step that is agreed:");
        if (line->detail) {
            add_missing(text, line->detail);
        }
        return MUSTER_LEVEL_WARN;
    case MST_PREEMPT_LOG_POSTPONED:
        mst_text_format(text, "a rank cannot save now: postponed for " MST_SECONDS " at most",
                        MST_SECONDS_ARGS(left(line->left_ms)));
        return MUSTER_LEVEL_INFO;
    case MST_PREEMPT_LOG_AGAIN:
        mst_text_format(text,
                        "step %" PRId64 " was agreed without this rank, which is at %" PRId64
                        " already: agreed once more",
                        line->step, line->other);
        return MUSTER_LEVEL_INFO;
    case MST_PREEMPT_LOG_WITHDRAWN:
        mst_text_add(text, "the notice was taken back: all go on");
        return MUSTER_LEVEL_INFO;
    case MST_PREEMPT_LOG_WAITING:
        mst_text_format(text,
                        "step %" PRId64 " is to be saved since " MST_SECONDS
                        ", and the program here does not ask for it (muster_preempt_reached)",
                        line->step, MST_SECONDS_ARGS(line->since_ms));
        return MUSTER_LEVEL_WARN;
    case MST_PREEMPT_LOG_LATE:
        mst_text_format(text, "the deadline has passed, step %" PRId64 " was not saved here",
                        line->step);
        return MUSTER_LEVEL_ERROR;
    case MST_PREEMPT_LOG_FAILED:
        add_failed(text, line);
        return MUSTER_LEVEL_ERROR;
    case MST_PREEMPT_LOG_PASSED:
        mst_text_format(text,
                        "the others saved step %" PRId64 ", which this rank had passed (at %" PRId64
                        "): it has not saved",
                        line->step, line->other);
        return MUSTER_LEVEL_ERROR;
    }
    return MUSTER_LEVEL_INFO;
}

void mst_preempt_say(struct muster_preempt *preempt, const struct mst_preempt_line *line)
{
    char words[488];
    struct mst_text text = mst_text_in(words, sizeof(words));
    enum muster_level level;

    mst_text_add(&text, "preempt: ");
    level = add_line(&text, preempt, line);
    mst_lib_log(preempt->client, level, "%s", words);
}

/* ---- errors ---- */

void mst_preempt_describe(char what[MST_LIB_WHAT_ROOM], int64_t step)
{
    mst_text_print(what, MST_LIB_WHAT_ROOM, "save of step %" PRId64, step);
}

static void add_savers(struct mst_text *text, const struct mst_preempt_outcome *outcome)
{
    mst_text_add(text, "members have saved different steps, so it counts for none:");
    for (uint32_t i = 0; i < outcome->saver_count; i++) {
        const struct mst_preempt_saver *saver = &outcome->savers[i];

        mst_text_format(text, "%s%u", i > 0 ? ", #" : " #", saver->index);
        if (saver->step == INT64_MIN) {
            mst_text_add(text, " none");
        } else {
            mst_text_format(text, " step %" PRId64, saver->step);
        }
    }
    if (outcome->savers_total > outcome->saver_count) {
        mst_text_format(text, " and %u more", outcome->savers_total - outcome->saver_count);
    }
}

static void add_detail(struct mst_text *text, const struct mst_preempt_outcome *outcome,
                       const char *what, const char *who)
{
    mst_text_add(text, what);
    if (outcome->detail && outcome->detail->who_count > 0) {
        mst_text_add(text, who);
        add_missing(text, outcome->detail);
    }
}

static void add_passed(struct mst_text *text, const struct mst_preempt_outcome *outcome)
{
    mst_text_format(text, "saved by %u of %u", outcome->of > 0 ? outcome->of - 1 : 0, outcome->of);
    if (outcome->saver_count > 0) {
        mst_text_format(text, ": #%u had passed step %" PRId64 " while it was frozen",
                        outcome->savers[0].index, outcome->step);
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
    char what[MST_LIB_WHAT_ROOM];

    err->status = outcome->status;
    err->os_errno = 0;
    err->why = MUSTER_WHY_STATUS;
    mst_preempt_describe(what, step);
    mst_text_format(&text, "%s: ", what);
    add_outcome(&text, outcome);
}
