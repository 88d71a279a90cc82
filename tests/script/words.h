/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORDS_H
#define WORDS_H

/* One line of a story, cut into words: a verb, who, and then words, flags and options name=value in
 * any order. Quotes keep blanks in a word. Each word is used once; what nobody used is a mistake.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORDS_MAX = 64, LINE_BYTES_MAX = 512 };

struct words {
    const char *file;
    size_t line;
    char text[LINE_BYTES_MAX];
    char *word[WORDS_MAX];
    bool used[WORDS_MAX];
    size_t first, end; /* only these are looked at */
    size_t count;
};

void words_split(struct words *words, const char *file, size_t line, const char *text);

/* The story itself is wrong: says where, and ends the program with status 2. */
_Noreturn void words_bad(const struct words *words, const char *why, const char *word);

const char *words_next(struct words *words); /* the first unused one; NULL: there is none */
const char *words_need(struct words *words, const char *what);
bool words_flag(struct words *words, const char *flag);
const char *words_option(struct words *words, const char *name); /* NULL: not given */
uint64_t words_number(struct words *words, const char *name, uint64_t standard);
uint64_t words_ms(struct words *words, const char *name);     /* 0: not given */
uint32_t words_choice(struct words *words, const char *name); /* grow=check, fault or off */
void words_all_used(const struct words *words);

int64_t words_to_number(const struct words *words, const char *word);
uint64_t words_to_ms(const struct words *words, const char *word);

/* Narrows the words to those before the next `separator`, beginning where the last part ended.
 * False: there is no further part. */
bool words_part(struct words *words, const char *separator);

#endif
