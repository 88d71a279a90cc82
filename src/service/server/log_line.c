/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/log_line.h"

#include <stdio.h>

#include "base/text.h"

size_t mst_log_time(char text[MST_LOG_TIME_ROOM], const struct timespec *at)
{
    struct tm day;
    size_t size;

    (void)gmtime_r(&at->tv_sec, &day);
    size = strftime(text, MST_LOG_TIME_ROOM, "%Y-%m-%dT%H:%M:%S", &day);
    return size +
           (size_t)snprintf(text + size, MST_LOG_TIME_ROOM - size, ".%06ldZ", at->tv_nsec / 1000);
}

const char *mst_log_level(enum mst_level level)
{
    switch (level) {
    case MST_ERROR:
        return "error";
    case MST_WARN:
        return "warn";
    case MST_INFO:
        return "info";
    case MST_DEBUG:
        return "debug";
    }
    return "?";
}

void mst_log_story(char text[MST_LOG_STORY_ROOM], const struct mst_trace *line)
{
    char job[1024];

    if (line->job.size == 0) {
        (void)snprintf(text, MST_LOG_STORY_ROOM, "%s", line->text);
        return;
    }
    mst_text_print(job, sizeof job, "%.*s",
                   MST_SLICE_ARGS(line->job)); /* a client chose it: it must not begin a line */
    (void)snprintf(text, MST_LOG_STORY_ROOM, "%s: %s", job, line->text);
}
