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
#include "service/server/log_json.h"

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

size_t mst_log_time_now(char text[MST_LOG_TIME_ROOM])
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return mst_log_time(text, &now);
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

void mst_uv_log_init(struct mst_uv_log *log, int fd, enum mst_level level, bool json)
{
    log->fd = fd;
    log->json = json;
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

enum { LINE_ROOM = MST_LOG_JSON_ROOM(LINE_MAX_BYTES) };

/* One line with its end; returns its size. `words` may hold bytes of others. */
static size_t make_line(const struct mst_uv_log *log, char line[LINE_ROOM], enum mst_level level,
                        const char *component, struct mst_slice job, const char *words)
{
    char at[MST_LOG_TIME_ROOM], shown[LINE_MAX_BYTES + 1], of_job[1024];
    struct mst_text text = mst_text_in(shown, LINE_MAX_BYTES);
    size_t size;

    (void)mst_log_time_now(at);
    /* A client chose it: it must not begin a line. */
    (void)mst_text_print(of_job, sizeof of_job, "%.*s", MST_SLICE_ARGS(job));
    if (log->json) {
        mst_text_slice(&text, mst_slice_text(words));
        size = mst_log_json(line, LINE_ROOM - 1,
                            &(struct mst_log_parts){.time = at,
                                                    .level = mst_log_level(level),
                                                    .area = component,
                                                    .job = mst_slice_text(of_job),
                                                    .text = mst_slice_text(shown)});
    } else {
        mst_text_format(&text, "%s %s %s %s%s", at, mst_log_level(level), component, of_job,
                        *of_job ? ": " : "");
        mst_text_slice(&text, mst_slice_text(words)); /* one line, whatever names are in it */
        memcpy(line, shown, text.size);
        size = text.size;
    }
    line[size++] = '\n';
    return size;
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
        char words[64];

        (void)snprintf(words, sizeof words, "log-lines-dropped count=%" PRIu64, log->dropped);
        log->size = make_line(log, log->bytes, MST_WARN, "service", mst_slice_of(NULL, 0), words);
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
    char words[LINE_MAX_BYTES], line[LINE_ROOM];
    va_list args;

    if (!mst_uv_log_wants(log, level)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    put_line(log, line, make_line(log, line, level, component, mst_slice_of(NULL, 0), words));
}

void mst_uv_log_story(struct mst_uv_log *log, const struct mst_trace *story)
{
    char line[LINE_ROOM];

    put_line(log, line, make_line(log, line, story->level, "core", story->job, story->text));
}
