/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/nodelist.h"

#include "base/text.h"
#include "discover/number.h"

#define NUMBER_MAX 999999999u
#define WIDTH_MAX 18

/* One part of a bracket: numbers from `low` to `high`, written with at least `width` digits. */
struct range {
    uint64_t low, high;
    unsigned width;
};

/* "003" or "001-003" at the cursor, which ends behind it. */
static bool range_read(const char **at, struct range *out)
{
    const char *start = *at;
    ptrdiff_t width;

    if (!mst_number_read(at, NUMBER_MAX, &out->low)) {
        return false;
    }
    width = *at - start;
    out->high = out->low;
    if (**at == '-') {
        (*at)++;
        if (!mst_number_read(at, NUMBER_MAX, &out->high)) {
            return false;
        }
    }
    out->width = (unsigned)width;
    return width <= WIDTH_MAX && out->high >= out->low;
}

/* The bracket that begins at the cursor: how many numbers it holds. */
static bool bracket_count(const char **at, uint64_t *count_out)
{
    struct range range;

    *count_out = 0;
    do {
        (*at)++; /* the '[' or the ',' */
        if (!range_read(at, &range)) {
            return false;
        }
        *count_out += range.high - range.low + 1;
    } while (**at == ',');
    if (**at != ']' || *count_out > MST_NODELIST_MAX) {
        return false;
    }
    (*at)++;
    return true;
}

static bool plain(char c)
{
    return c > ' ' && c != 0x7f && c != '[' && c != ']' && c != ',' && c != '/';
}

/* The name at the cursor, which ends at the comma or the end: how many it stands for. */
static bool name_count(const char **at, uint64_t *count_out)
{
    const char *start = *at;

    *count_out = 1;
    while (**at != ',' && **at != '\0') {
        uint64_t count = 1;

        if (plain(**at)) {
            (*at)++;
        } else if (**at != '[' || !bracket_count(at, &count)) {
            return false;
        }
        *count_out *= count;
        if (*count_out > MST_NODELIST_MAX) {
            return false;
        }
    }
    return *at != start;
}

bool mst_nodelist_count(const char *list, uint32_t *count_out)
{
    uint64_t total = 0;

    for (;; list++) {
        uint64_t count;

        if (!name_count(&list, &count)) {
            return false;
        }
        total += count;
        if (total > MST_NODELIST_MAX) {
            return false;
        }
        if (*list == '\0') {
            *count_out = (uint32_t)total;
            return true;
        }
    }
}

static void put_padded(struct mst_text *text, uint64_t number, unsigned width)
{
    char digits[24];

    for (size_t size = mst_text_print(digits, sizeof digits, "%" PRIu64, number); size < width;
         size++) {
        mst_text_add(text, "0");
    }
    mst_text_add(text, digits);
}

/* The number at `at` of a bracket that was counted before; the cursor ends behind the bracket. */
static void bracket_put(const char **cursor, uint64_t at, struct mst_text *text)
{
    struct range range;

    do {
        uint64_t count;

        (*cursor)++;
        (void)range_read(cursor, &range);
        count = range.high - range.low + 1;
        if (at < count) {
            put_padded(text, range.low + at, range.width);
            at = UINT64_MAX;
        } else if (at != UINT64_MAX) {
            at -= count;
        }
    } while (**cursor == ',');
    (*cursor)++;
}

/* The name at `at` of the `count` that the text at the cursor stands for. */
static void name_put(const char *cursor, uint64_t at, uint64_t count, struct mst_text *text)
{
    while (*cursor != ',' && *cursor != '\0') {
        char one[2] = {*cursor, '\0'};

        if (*cursor == '[') {
            const char *behind = cursor;
            uint64_t here = 1;

            (void)bracket_count(&behind, &here);
            count /= here; /* of what follows */
            bracket_put(&cursor, at / count, text);
            at %= count;
        } else {
            mst_text_add(text, one);
            cursor++;
        }
    }
}

bool mst_nodelist_at(const char *list, uint32_t at, char *out, size_t room)
{
    char name[256];
    struct mst_text text = mst_text_in(name, sizeof name);
    uint32_t total;
    uint64_t left = at;

    if (!mst_nodelist_count(list, &total) || at >= total) {
        return false;
    }
    for (;; list++) {
        const char *start = list;
        uint64_t count = 1;

        (void)name_count(&list, &count);
        if (left < count) {
            name_put(start, left, count, &text);
            break;
        }
        left -= count;
    }
    if (text.size + 1 >= sizeof name || text.size >= room || room < 4) {
        return false; /* cut, or to be cut */
    }
    mst_text_print(out, room, "%s", name);
    return true;
}

bool mst_task_counts_read(const char *text, uint32_t node, struct mst_task_counts *out)
{
    uint64_t nodes = 0, tasks = 0;

    *out = (struct mst_task_counts){0};
    for (;; text++) {
        uint64_t count, times = 1;

        if (!mst_number_read(&text, MST_NODELIST_MAX, &count)) {
            return false;
        }
        if (text[0] == '(' && text[1] == 'x') {
            text += 2;
            if (!mst_number_read(&text, MST_NODELIST_MAX, &times) || times == 0 || *text++ != ')') {
                return false;
            }
        }
        if (node >= nodes && node < nodes + times) {
            out->here = (uint32_t)count;
        }
        nodes += times;
        tasks += times * count;
        if (nodes > MST_NODELIST_MAX || tasks > MST_NODELIST_MAX) {
            return false;
        }
        if (*text == '\0') {
            out->nodes = (uint32_t)nodes;
            out->tasks = (uint32_t)tasks;
            return true;
        }
        if (*text != ',') {
            return false;
        }
    }
}
