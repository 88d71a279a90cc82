/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_LOG_H
#define MST_SERVICE_SERVER_LOG_H

/* The log of the service: `time level component text key=value`, one line each. Lines are gathered
 * in a turn of the loop and written at its end, and only if the descriptor takes them at once: a
 * slow reader of the log must not block the service. Lines without room are counted, and the count
 * is logged. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/core/core.h"

#define MST_UV_LOG_BYTES 32768

struct mst_uv_log {
    int fd;
    enum mst_level level;
    size_t size;
    uint64_t dropped;
    char bytes[MST_UV_LOG_BYTES];
};

void mst_uv_log_init(struct mst_uv_log *log, int fd, enum mst_level level);
void mst_uv_log_fini(struct mst_uv_log *log); /* flushes once more */
bool mst_uv_log_wants(const struct mst_uv_log *log, enum mst_level level);
void mst_uv_log_line(struct mst_uv_log *log, enum mst_level level, const char *component,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
void mst_uv_log_flush(struct mst_uv_log *log);

/* For a panic: what the newest log has gathered is written. */
void mst_uv_log_last_words(void);

#endif
