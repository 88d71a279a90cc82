/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_LOG_LINE_H
#define MST_SERVICE_SERVER_LOG_LINE_H

/* The format of a log line, for the service and for a replay of its record. */

#include <stddef.h>
#include <time.h>

#include "service/core/core.h"

enum { MST_LOG_TIME_ROOM = 32, MST_LOG_STORY_ROOM = 2048 };

/* "2026-11-21T09:30:00.123456Z"; how long it is. */
size_t mst_log_time(char text[MST_LOG_TIME_ROOM], const struct timespec *at);

const char *mst_log_level(enum mst_level level);

/* What follows the component: "job: text", or the text alone if no job is named. */
void mst_log_story(char text[MST_LOG_STORY_ROOM], const struct mst_trace *line);

#endif
