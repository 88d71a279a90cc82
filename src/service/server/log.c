/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define LINE_MAX_BYTES 2048
#define PIPE_ATOMIC 4096 /* a pipe that polls writable takes this much without blocking */

static struct mst_uv_log *newest;

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
    static const char *const words[] = {
        [MST_ERROR] = "error", [MST_WARN] = "warn", [MST_INFO] = "info", [MST_DEBUG] = "debug"};

    return words[level];
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

void mst_uv_log_init(struct mst_uv_log *log, int fd, enum mst_level level)
{
    log->fd = fd;
    log->level = level;
    log->size = 0;
    log->dropped = 0;
    newest = log;
}

void mst_uv_log_fini(struct mst_uv_log *log)
{
    mst_uv_log_flush(log);
    newest = newest == log ? NULL : newest;
}

void mst_uv_log_last_words(void)
{
    if (newest) {
        mst_uv_log_flush(newest);
    }
}

bool mst_uv_log_wants(const struct mst_uv_log *log, enum mst_level level)
{
    return level <= log->level;
}

static size_t put_head(char *line, size_t room, enum mst_level level, const char *component)
{
    struct timespec now;
    char at[MST_LOG_TIME_ROOM];

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)mst_log_time(at, &now);
    return (size_t)snprintf(line, room, "%s %s %s ", at, mst_log_level(level), component);
}

static bool takes(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLOUT};

    return poll(&one, 1, 0) == 1 && (one.revents & (POLLERR | POLLNVAL)) == 0;
}

void mst_uv_log_flush(struct mst_uv_log *log)
{
    size_t done = 0;

    while (done < log->size && takes(log->fd)) {
        size_t part = log->size - done < PIPE_ATOMIC ? log->size - done : PIPE_ATOMIC;
        ssize_t written = write(log->fd, log->bytes + done, part);

        if (written <= 0) {
            break;
        }
        done += (size_t)written;
    }
    memmove(log->bytes, log->bytes + done, log->size - done);
    log->size -= done;
    if (log->size == 0 && log->dropped > 0) {
        log->size = put_head(log->bytes, sizeof log->bytes, MST_WARN, "service");
        log->size += (size_t)snprintf(log->bytes + log->size, sizeof log->bytes - log->size,
                                      "log-lines-dropped count=%" PRIu64 "\n", log->dropped);
        log->dropped = 0;
    }
}

static void put_line(struct mst_uv_log *log, const char *line, size_t size)
{
    if (size > sizeof log->bytes - log->size) {
        mst_uv_log_flush(log);
    }
    if (size > sizeof log->bytes - log->size) {
        log->dropped++;
        return;
    }
    memcpy(log->bytes + log->size, line, size);
    log->size += size;
}

void mst_uv_log_line(struct mst_uv_log *log, enum mst_level level, const char *component,
                     const char *format, ...)
{
    char words[LINE_MAX_BYTES], line[LINE_MAX_BYTES + 1];
    struct mst_text text = mst_text_in(line, LINE_MAX_BYTES);
    va_list args;

    if (!mst_uv_log_wants(log, level)) {
        return;
    }
    text.size = put_head(line, text.room, level, component);
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    mst_text_slice(&text, mst_slice_text(words)); /* one line, whatever names are in it */
    line[text.size++] = '\n';
    put_line(log, line, text.size);
}
