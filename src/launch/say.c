/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/say.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "launch/run.h"
#include "os/descriptors.h"
#include "service/server/log.h"
#include "service/server/log_json.h"

/* Where mst_say writes. */
static int said_to = STDERR_FILENO;

static const char *command = "run";

static bool said_as_json;

static char last[1024];

const char *mst_said_last(void)
{
    return last;
}

/* One line, whatever others wrote into their names and texts. */
__attribute__((format(printf, 2, 0))) static void say(enum mst_level level, const char *format,
                                                      va_list args)
{
    char words[4096], line[4096 + 1], object[MST_LOG_JSON_ROOM(sizeof words)];
    struct mst_text text = mst_text_in(line, sizeof line - 1);
    const char *bytes = line;
    size_t size, begin;

    (void)vsnprintf(words, sizeof words, format, args);
    mst_text_format(&text, "muster %s: ", command);
    begin = text.size;
    mst_text_format(&text, "%.*s", MST_TEXT_ARGS(words));
    (void)snprintf(last, sizeof last, "%.*s", (int)sizeof last - 1, line + begin);
    size = text.size;
    if (said_as_json) {
        char time[MST_LOG_TIME_ROOM];

        (void)mst_log_time_now(time);
        size = mst_log_json(object, sizeof object - 1,
                            &(struct mst_log_parts){.time = time,
                                                    .level = mst_log_level(level),
                                                    .area = command,
                                                    .text = mst_slice_text(line + begin)});
        bytes = object;
    }
    (said_as_json ? object : line)[size] = '\n';
    (void)!write(said_to, bytes, size + 1); /* at once: the ranks write there too */
}

void mst_say_as(const char *name)
{
    command = name;
}

void mst_say_as_json(void)
{
    said_as_json = true;
}

void mst_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(MST_INFO, format, args);
    va_end(args);
}

int mst_refuse(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(MST_ERROR, format, args);
    va_end(args);
    return MST_EXIT_LAUNCHER;
}

int mst_no_memory(void)
{
    char why[128];

    if (mst_descriptors_left(MST_DESCRIPTORS_OF_A_LOOP)) {
        return mst_refuse("out of memory");
    }
    mst_descriptors_text(why, sizeof why);
    return mst_refuse("%s", why);
}

/* While ranks run, what is said goes the way of their output. A terminal or a pager that is held up
 * must not hold up the loop: it has to start ranks again, and to stop them. */
void mst_say_with_output(struct mst_output *output)
{
    struct mst_output_stream *stream;
    int fd = mst_output_open(output, MST_OUTPUT_NO_LABEL, STDERR_FILENO,
                             (struct mst_output_file){.fd = -1}, &stream);

    if (fd >= 0) {
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        mst_output_comments(output, stream);
        said_to = fd;
    }
}

void mst_say_directly(struct mst_output *output)
{
    mst_output_drain(output);
    if (said_to != STDERR_FILENO) {
        (void)close(said_to);
        said_to = STDERR_FILENO;
    }
}

/* ---- a command to type ---- */

void mst_words_append(struct mst_words *line, const char *text)
{
    size_t size = strlen(text), left = sizeof line->text - 1 - line->size;

    size = size < left ? size : left;
    memcpy(line->text + line->size, text, size);
    line->size += size;
    line->text[line->size] = '\0';
}

bool mst_words_fit(const struct mst_words *line)
{
    return line->size < sizeof line->text - 1;
}

void mst_words_add(struct mst_words *line, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:=,+@%";

    mst_words_append(line, " ");
    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        mst_words_append(line, word);
        return;
    }
    mst_words_append(line, "'");
    for (; *word != '\0'; word++) {
        char one[2] = {*word, '\0'};

        mst_words_append(line, *word == '\'' ? "'\\''" : one);
    }
    mst_words_append(line, "'");
}

bool mst_words_own(struct mst_words *line)
{
    char words[sizeof line->text];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, words, sizeof words) : -1;

    if (fd >= 0) {
        (void)close(fd);
    }
    if (size <= 0 || (size_t)size == sizeof words || words[size - 1] != '\0') {
        return false;
    }
    for (const char *word = words; word < words + size; word += strlen(word) + 1) {
        mst_words_add(line, word);
    }
    return mst_words_fit(line) && strchr(line->text, '\n') == NULL;
}
