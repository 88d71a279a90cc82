/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/narrate.h"

#include "proto/words.h"
#include "service/core/job.h"

bool mst_narrate_begin(struct mst_line *line, const struct mst_job *job, enum mst_level level,
                       const char *event)
{
    line->core = job->core;
    line->job = job;
    line->level = level;
    if (!line->core->config.trace) {
        return false;
    }
    line->text = mst_text_in(line->array, sizeof(line->array));
    mst_text_add(&line->text, event);
    return true;
}

void mst_narrate_member(struct mst_line *line, const struct mst_member *member)
{
    switch (member->role) {
    case MST_ROLE_OBSERVER:
    case MST_ROLE_RANK:
        mst_text_add(&line->text, " #");
        break;
    case MST_ROLE_WORKER:
        mst_text_add(&line->text, " worker#");
        break;
    case MST_ROLE_AGENT:
        mst_text_add(&line->text, " agent#");
        break;
    }
    mst_text_u64(&line->text, member->index);
}

static void name_it(struct mst_line *line, const char *name)
{
    mst_text_add(&line->text, " ");
    mst_text_add(&line->text, name);
    mst_text_add(&line->text, "=");
}

void mst_narrate_number(struct mst_line *line, const char *name, uint64_t number)
{
    name_it(line, name);
    mst_text_u64(&line->text, number);
}

void mst_narrate_code(struct mst_line *line, const char *name, int64_t number)
{
    name_it(line, name);
    mst_text_i64(&line->text, number);
}

void mst_narrate_word(struct mst_line *line, const char *name, const char *word)
{
    name_it(line, name);
    mst_text_add(&line->text, word);
}

void mst_narrate_bytes(struct mst_line *line, const char *name, struct mst_slice bytes)
{
    name_it(line, name);
    mst_text_slice(&line->text, bytes);
}

void mst_narrate_end(struct mst_line *line)
{
    const struct mst_core_config *config = &line->core->config;
    struct mst_trace trace = {.now_ns = line->core->now_ns,
                              .level = line->level,
                              .job = mst_job_name(line->job),
                              .text = line->array};

    config->trace(config->trace_ctx, &trace);
}

const char *mst_narrate_cause(enum mst_cause cause)
{
    return mst_cause_word(cause);
}

/* Only those a round or a seal can end with. */
const char *mst_narrate_status(muster_status status)
{
    static const struct {
        muster_status status;
        const char *word;
    } words[] = {
        {MUSTER_OK, "ok"},
        {MUSTER_ETIMEDOUT, "timed-out"},
        {MUSTER_ELOST, "lost"},
        {MUSTER_EMISMATCH, "mismatch"},
        {MUSTER_ERANGE, "out-of-range"},
        {MUSTER_ETOOFEW, "too-few"},
        {MUSTER_EFENCED, "fenced"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].status == status) {
            return words[i].word;
        }
    }
    return "?";
}

void mst_narrate_event(const struct mst_member *member, enum mst_level level, const char *event)
{
    struct mst_line line;

    if (!mst_narrate_begin(&line, member->job, level, event)) {
        return;
    }
    mst_narrate_member(&line, member);
    mst_narrate_number(&line, "incarnation", member->incarnation);
    mst_narrate_end(&line);
}
