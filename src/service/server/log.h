/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_LOG_H
#define MST_SERVICE_SERVER_LOG_H

/* The log of the service: `time level component text key=value`, one line each, or the same as
 * JSON. Lines are gathered in a turn of the loop and written at its end, and only if the descriptor
 * takes them at once: a slow reader of the log must not block the service. Lines without room are
 * counted, and the count is logged. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "service/core/core.h"

#define MST_UV_LOG_BYTES 32768

struct mst_uv_log {
    int fd;
    enum mst_level level;
    bool json; /* each line is an object: log_json.h */
    size_t size;
    uint64_t dropped;
    char bytes[MST_UV_LOG_BYTES];
};

/* ---- the format of a line, also for a replay ---- */

enum { MST_LOG_TIME_ROOM = 32, MST_LOG_STORY_ROOM = 2048 };

/* "2026-11-21T09:30:00.123456Z"; how long it is. */
size_t mst_log_time(char text[MST_LOG_TIME_ROOM], const struct timespec *at);

size_t mst_log_time_now(char text[MST_LOG_TIME_ROOM]);

const char *mst_log_level(enum mst_level level);

/* What follows the component: "job: text", or the text alone if no job is named. */
void mst_log_story(char text[MST_LOG_STORY_ROOM], const struct mst_trace *line);

/* ---- the log ---- */

void mst_uv_log_init(struct mst_uv_log *log, int fd, enum mst_level level, bool json);
void mst_uv_log_fini(struct mst_uv_log *log); /* flushes once more */
bool mst_uv_log_wants(const struct mst_uv_log *log, enum mst_level level);
void mst_uv_log_line(struct mst_uv_log *log, enum mst_level level, const char *component,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
void mst_uv_log_story(struct mst_uv_log *log, const struct mst_trace *line); /* of the core */
void mst_uv_log_flush(struct mst_uv_log *log);

/* For a panic: writes the gathered lines of the newest log. */
void mst_uv_log_last_words(void);

#endif
