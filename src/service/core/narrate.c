/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/narrate.h"

#include "service/core/job.h"

void mst_narrate(const struct mst_job *job, enum mst_level level, const char *format, ...)
{
    const struct mst_core_config *config = &job->core->config;
    char array[512];
    struct mst_text text = mst_text_in(array, sizeof(array));
    struct mst_trace trace = {
        .now_ns = job->core->now_ns, .level = level, .job = job->named.name, .text = array};
    va_list arguments;

    if (!config->trace) {
        return;
    }
    va_start(arguments, format);
    mst_text_format_list(&text, format, arguments);
    va_end(arguments);
    config->trace(config->trace_ctx, &trace);
}

const char *mst_narrate_sign(const struct mst_member *member)
{
    static const char *const signs[] = {[MST_ROLE_OBSERVER] = "#",
                                        [MST_ROLE_RANK] = "#",
                                        [MST_ROLE_WORKER] = "worker#",
                                        [MST_ROLE_AGENT] = "agent#"};

    return signs[member->role];
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
    mst_narrate(member->job, level, "%s " MST_NARRATE_MEMBER, event,
                MST_NARRATE_MEMBER_ARGS(member));
}
