/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { AROUND = 3 };

struct lines {
    const char **line;
    size_t *size;
    size_t count;
};

static struct lines split(const char *text)
{
    struct lines lines = {0};
    size_t room = 1;

    for (const char *p = text; *p; p++) {
        room += *p == '\n';
    }
    lines.line = calloc(room, sizeof(*lines.line));
    lines.size = calloc(room, sizeof(*lines.size));
    if (!lines.line || !lines.size) {
        abort();
    }
    while (*text) {
        size_t size = strcspn(text, "\n");

        lines.line[lines.count] = text;
        lines.size[lines.count++] = size;
        text += size + (text[size] == '\n');
    }
    return lines;
}

static bool same(const struct lines *a, size_t i, const struct lines *b, size_t j)
{
    return a->size[i] == b->size[j] && memcmp(a->line[i], b->line[j], a->size[i]) == 0;
}

/* common[i][j]: how many lines the rests from i and j on have in common, in order. */
static uint32_t *count_common(const struct lines *a, const struct lines *b)
{
    size_t row = b->count + 1;
    uint32_t *common = calloc((a->count + 1) * row, sizeof(*common));

    if (!common) {
        abort();
    }
    for (size_t i = a->count; i-- > 0;) {
        for (size_t j = b->count; j-- > 0;) {
            uint32_t down = common[(i + 1) * row + j];
            uint32_t right = common[i * row + j + 1];

            common[i * row + j] = same(a, i, b, j) ? common[(i + 1) * row + j + 1] + 1
                                  : down >= right  ? down
                                                   : right;
        }
    }
    return common;
}

static void print_line(FILE *out, char mark, const struct lines *lines, size_t i)
{
    (void)fprintf(out, "%c%.*s\n", mark, (int)lines->size[i], lines->line[i]);
}

/* Lines that are the same: only those near a difference are worth printing. */
static void print_same(FILE *out, const struct lines *lines, size_t from, size_t to, bool first,
                       bool last)
{
    size_t head = first ? 0 : AROUND;
    size_t tail = last ? 0 : AROUND;

    if (to - from <= head + tail) {
        head = to - from;
        tail = 0;
    }
    for (size_t i = from; i < from + head; i++) {
        print_line(out, ' ', lines, i);
    }
    if (from + head < to - tail) {
        (void)fprintf(out, "@ line %zu\n", to - tail + 1);
    }
    for (size_t i = to - tail; i < to; i++) {
        print_line(out, ' ', lines, i);
    }
}

void compare_print(FILE *out, const char *expected, const char *actual)
{
    struct lines a = split(expected);
    struct lines b = split(actual);
    uint32_t *common = count_common(&a, &b);
    size_t row = b.count + 1;
    size_t i = 0;
    size_t j = 0;

    while (i < a.count || j < b.count) {
        size_t from = j;

        for (; i < a.count && j < b.count && same(&a, i, &b, j); i++) {
            j++;
        }
        if (j > from) {
            print_same(out, &b, from, j, from == 0, i == a.count && j == b.count);
        } else if (j == b.count ||
                   (i < a.count && common[(i + 1) * row + j] >= common[i * row + j + 1])) {
            print_line(out, '-', &a, i++);
        } else {
            print_line(out, '+', &b, j++);
        }
    }
    free(common);
    free(a.line);
    free(a.size);
    free(b.line);
    free(b.size);
}
