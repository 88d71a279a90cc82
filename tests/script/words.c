/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/settings.h"

void words_bad(const struct words *words, const char *why, const char *word)
{
    (void)fprintf(stderr, "%s:%zu: %s: %s\n", words->file, words->line, why, word);
    exit(2);
}

/* ---- cutting ---- */

/* From `from` to the blank that ends the word; quotes are taken away. NULL: the line is over. */
static char *cut(struct words *words, char *from)
{
    char *to = from;
    bool quoted = false;

    for (; *from && (quoted || *from != ' '); from++) {
        if (*from == '"') {
            quoted = !quoted;
        } else {
            *to++ = *from;
        }
    }
    if (quoted) {
        words_bad(words, "a quote is not closed", words->text);
    }
    from = *from ? from + 1 : NULL;
    *to = '\0';
    return from;
}

void words_split(struct words *words, const char *file, size_t line, const char *text)
{
    char *from = words->text;

    *words = (struct words){.file = file, .line = line};
    if (strlen(text) >= sizeof(words->text)) {
        words_bad(words, "the line is too long", text);
    }
    memcpy(words->text, text, strlen(text) + 1);
    while (from) {
        char *word = from;

        if (*from == ' ') {
            from++;
            continue;
        }
        if (words->count == WORDS_MAX) {
            words_bad(words, "too many words", text);
        }
        from = cut(words, from);
        if (*word || text[word - words->text] == '"') {
            words->word[words->count++] = word;
        }
    }
    words->end = words->count;
}

bool words_part(struct words *words, const char *separator)
{
    size_t at = words->end < words->count ? words->end + 1 : words->count;

    if (words->first == 0) { /* the first part begins after what was used up */
        at = 0;
        while (at < words->count && words->used[at]) {
            at++;
        }
    }
    if (at == words->count) {
        return false;
    }
    words->first = at;
    while (at < words->count && strcmp(words->word[at], separator) != 0) {
        at++;
    }
    words->end = at;
    if (at < words->count) {
        words->used[at] = true;
    }
    return true;
}

/* ---- using ---- */

const char *words_next(struct words *words)
{
    for (size_t i = words->first; i < words->end; i++) {
        if (!words->used[i]) {
            words->used[i] = true;
            return words->word[i];
        }
    }
    return NULL;
}

const char *words_need(struct words *words, const char *what)
{
    const char *word = words_next(words);

    if (!word) {
        words_bad(words, "missing", what);
    }
    return word;
}

bool words_flag(struct words *words, const char *flag)
{
    for (size_t i = words->first; i < words->end; i++) {
        if (!words->used[i] && strcmp(words->word[i], flag) == 0) {
            words->used[i] = true;
            return true;
        }
    }
    return false;
}

const char *words_option(struct words *words, const char *name)
{
    size_t size = strlen(name);

    for (size_t i = words->first; i < words->end; i++) {
        const char *word = words->word[i];

        if (!words->used[i] && strncmp(word, name, size) == 0 && word[size] == '=') {
            words->used[i] = true;
            return word + size + 1;
        }
    }
    return NULL;
}

uint64_t words_number(struct words *words, const char *name, uint64_t standard)
{
    const char *word = words_option(words, name);

    return word ? (uint64_t)words_to_number(words, word) : standard;
}

static int64_t parse(const struct words *words, const char *setting, const char *word)
{
    char why[256];
    int64_t number;

    if (mst_setting_parse(mst_setting_find(setting), word, &number, why, sizeof(why)) !=
        MUSTER_OK) {
        words_bad(words, why, word);
    }
    return number;
}

uint64_t words_to_ms(const struct words *words, const char *word)
{
    return (uint64_t)parse(words, "join_wait", word);
}

uint64_t words_ms(struct words *words, const char *name)
{
    const char *word = words_option(words, name);

    return word ? words_to_ms(words, word) : 0;
}

uint32_t words_choice(struct words *words, const char *name)
{
    const char *word = words_option(words, name);

    return word ? (uint32_t)parse(words, name, word) : 0;
}

int64_t words_to_number(const struct words *words, const char *word)
{
    char *end;
    int64_t number;

    errno = 0;
    number = strtoll(word, &end, 10);
    if (end == word || *end || errno) {
        words_bad(words, "no number", word);
    }
    return number;
}

void words_all_used(const struct words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        if (!words->used[i]) {
            words_bad(words, "not understood", words->word[i]);
        }
    }
}
