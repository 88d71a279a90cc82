/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/words.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void add(struct mst_words *line, const char *text)
{
    size_t size = strlen(text), left = sizeof line->text - 1 - line->size;

    size = size < left ? size : left;
    memcpy(line->text + line->size, text, size);
    line->size += size;
    line->text[line->size] = '\0';
}

void mst_words_add(struct mst_words *line, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:=,+@%";

    add(line, " ");
    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        add(line, word);
        return;
    }
    add(line, "'");
    for (; *word != '\0'; word++) {
        char one[2] = {*word, '\0'};

        add(line, *word == '\'' ? "'\\''" : one);
    }
    add(line, "'");
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
    return line->size < sizeof line->text - 1 && strchr(line->text, '\n') == NULL;
}
