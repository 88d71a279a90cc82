/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_NOFOLLOW */
#include "text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"

enum { FILE_BYTES_MAX = 64 << 20 };

struct file {
    char name[256];
    char *data;
    size_t size;
};

struct folder {
    struct file *file;
    size_t count, held_out; /* index of the file to test on */
};

static void explain(char why[512], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void explain(char why[512], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(why, 512, format, list);
    va_end(list);
}

/* ---- reading ---- */

static bool read_all(int fd, struct file *file, size_t size)
{
    file->data = malloc(size + 1);
    while (file->data != NULL && file->size < size) {
        ssize_t got = read(fd, file->data + file->size, size - file->size);
        if (got < 0 && errno != EINTR) {
            return false;
        }
        if (got == 0) {
            break;
        }
        file->size += got > 0 ? (size_t)got : 0;
    }
    return file->data != NULL;
}

/* Adds the file `name`, if it is a regular one. */
static bool folder_add(struct folder *folder, int directory, const char *name, char why[512])
{
    struct stat stat;
    if (fstatat(directory, name, &stat, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(stat.st_mode)) {
        return true;
    }
    if (stat.st_size > FILE_BYTES_MAX) {
        explain(why, "%s is over %d bytes", name, FILE_BYTES_MAX);
        return false;
    }
    struct file *more = realloc(folder->file, (folder->count + 1) * sizeof *more);
    if (more == NULL) {
        explain(why, "out of memory");
        return false;
    }
    folder->file = more;
    struct file *file = &folder->file[folder->count++];
    memset(file, 0, sizeof *file);
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool done = fd >= 0 && read_all(fd, file, (size_t)stat.st_size);
    if (!done) {
        explain(why, "%s: %s", name, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    return done;
}

static int by_bytes(const void *left, const void *right)
{
    return strcmp(((const struct file *)left)->name, ((const struct file *)right)->name);
}

static bool folder_read(struct folder *folder, const char *path, const char *held_out,
                        char why[512])
{
    DIR *directory = opendir(path);
    if (directory == NULL) {
        explain(why, "%s: %s", path, strerror(errno));
        return false;
    }
    bool done = true;
    for (struct dirent *entry; done && (entry = readdir(directory)) != NULL;) {
        done = folder_add(folder, dirfd(directory), entry->d_name, why);
    }
    closedir(directory);
    if (!done) {
        return false;
    }
    if (folder->count < 2) {
        explain(why, "%s: at least two regular files are needed, to learn from and to test on",
                path);
        return false;
    }
    qsort(folder->file, folder->count, sizeof *folder->file, by_bytes);
    folder->held_out = folder->count - 1;
    for (size_t i = 0; i < folder->count; i++) {
        if (strcmp(folder->file[i].name, held_out) == 0) {
            folder->held_out = i;
        }
    }
    return true;
}

static void folder_free(struct folder *folder)
{
    for (size_t i = 0; i < folder->count; i++) {
        free(folder->file[i].data);
    }
    free(folder->file);
}

/* ---- what is repeated ---- */

/* Copies with each run of white space as one space; returns the length. */
static size_t collapse(char *to, const char *from, size_t size)
{
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        bool space = isspace((unsigned char)from[i]) != 0;
        if (!space || length == 0 || to[length - 1] != ' ') {
            to[length] = from[i];
            if (space) {
                to[length] = ' ';
            }
            length++;
        }
    }
    return length;
}

static uint64_t window_hash(const char *window)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < TEXT_WINDOW; i++) {
        hash = (hash ^ (unsigned char)window[i]) * 0x100000001b3u;
    }
    return hash;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void count_windows(struct text_overlap *out, const char *text, size_t windows,
                          const uint64_t *known, size_t known_count)
{
    size_t shared = 0;
    size_t run = 0;
    for (size_t i = 0; i < windows; i++) {
        uint64_t hash = window_hash(text + i);
        bool found = bsearch(&hash, known, known_count, sizeof hash, by_value) != NULL;
        run = found ? run + 1 : 0;
        shared += found;
        if (run > 0 && run + TEXT_WINDOW - 1 > out->longest) {
            out->longest = run + TEXT_WINDOW - 1;
        }
    }
    out->percent = windows > 0 ? 100.0 * (double)shared / (double)windows : 0.0;
}

void text_compare(struct text_overlap *out, const char *held_out, size_t held_out_size,
                  const char *other, size_t other_size)
{
    char *asked = malloc(held_out_size + 1);
    char *given = malloc(other_size + 1);
    uint64_t *known = malloc((other_size + 1) * sizeof *known);
    out->percent = 0.0;
    out->longest = 0;
    if (asked != NULL && given != NULL && known != NULL) {
        size_t asked_size = collapse(asked, held_out, held_out_size);
        size_t given_size = collapse(given, other, other_size);
        size_t count = 0;
        for (size_t i = 0; i + TEXT_WINDOW <= given_size; i++) {
            known[count++] = window_hash(given + i);
        }
        qsort(known, count, sizeof *known, by_value);
        count_windows(out, asked, asked_size < TEXT_WINDOW ? 0 : asked_size - TEXT_WINDOW + 1,
                      known, count);
    }
    free(asked);
    free(given);
    free(known);
}

static bool check_overlap(struct text *text, const struct folder *folder, char why[512])
{
    const struct file *held_out = &folder->file[folder->held_out];
    for (size_t i = 0; i < folder->count; i++) {
        const struct file *file = &folder->file[i];
        if (i == folder->held_out) {
            continue;
        }
        struct text_overlap overlap = {0};
        (void)snprintf(overlap.name, sizeof overlap.name, "%s", file->name);
        text_compare(&overlap, held_out->data, held_out->size, file->data, file->size);
        if (overlap.percent > TEXT_SHARED_MAX || overlap.longest > TEXT_REPEATED_MAX) {
            explain(why,
                    "%s repeats too much of %s, which is to test on: %.1f %% of it (%d are "
                    "allowed), %zu characters in one piece (%d are allowed)",
                    file->name, held_out->name, overlap.percent, TEXT_SHARED_MAX, overlap.longest,
                    TEXT_REPEATED_MAX);
            return false;
        }
        if (text->most.name[0] == '\0' || overlap.percent > text->most.percent) {
            text->most = overlap;
        }
        if (text->longest.name[0] == '\0' || overlap.longest > text->longest.longest) {
            text->longest = overlap;
        }
    }
    return true;
}

/* ---- symbols ---- */

uint8_t text_symbol(char character)
{
    if (character == '\n') {
        return 0;
    }
    if (character >= ' ' && character <= '~') {
        return (uint8_t)(character - ' ' + 1);
    }
    return (uint8_t)(isspace((unsigned char)character) ? ' ' - ' ' + 1 : '?' - ' ' + 1);
}

char text_character(int symbol)
{
    return (char)(symbol == 0 ? '\n' : symbol - 1 + ' ');
}

static void append(uint8_t *to, size_t *size, const struct file *file)
{
    for (size_t i = 0; i < file->size; i++) {
        to[(*size)++] = text_symbol(file->data[i]);
    }
}

static bool fill(struct text *text, const struct folder *folder, char why[512])
{
    const struct file *held_out = &folder->file[folder->held_out];
    size_t total = 0;
    for (size_t i = 0; i < folder->count; i++) {
        total += folder->file[i].size;
    }
    text->files = folder->count - 1;
    text->training = malloc(total + 1);
    text->held_out = calloc(1, CONTEXT + held_out->size + 1);
    if (text->training == NULL || text->held_out == NULL) {
        explain(why, "out of memory");
        return false;
    }
    for (size_t i = 0; i < folder->count; i++) {
        if (i != folder->held_out) {
            append(text->training, &text->training_size, &folder->file[i]);
        }
    }
    text->held_out_size = CONTEXT;
    append(text->held_out, &text->held_out_size, held_out);
    (void)snprintf(text->held_out_name, sizeof text->held_out_name, "%s", held_out->name);
    if (text->training_size <= CONTEXT || text->held_out_size <= CONTEXT) {
        explain(why, "there is too little text to learn from or to test on");
        return false;
    }
    return true;
}

bool text_load(struct text *out, const char *folder, const char *held_out, char why[512])
{
    struct folder files = {0};
    memset(out, 0, sizeof *out);
    bool done = folder_read(&files, folder, held_out, why) && check_overlap(out, &files, why) &&
                fill(out, &files, why);
    folder_free(&files);
    if (!done) {
        text_free(out);
    }
    return done;
}

void text_free(struct text *text)
{
    free(text->training);
    free(text->held_out);
    memset(text, 0, sizeof *text);
}
