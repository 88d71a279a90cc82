/* SPDX-License-Identifier: Apache-2.0 */
#include "sources/words.h"

#include "sources/metadata/date.h"

#define MS_PER_DAY INT64_C(86400000)
#define DURATION_MAX_MS (30 * MS_PER_DAY)
#define DEADLINE_WORD_MAX 40u

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- durations ---- */

bool mst_source_duration(struct mst_slice text, int64_t *ms_out)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    const char *at = text.data;
    size_t size = 0;
    int64_t value = 0;

    while (size < text.size && is_digit(at[size])) {
        value = value * 10 + (at[size++] - '0');
        if (value > DURATION_MAX_MS) {
            return false;
        }
    }
    for (size_t i = 0; size > 0 && i < sizeof units / sizeof units[0]; i++) {
        if (mst_slice_equal(mst_slice_of(at + size, text.size - size),
                            mst_slice_text(units[i].unit))) {
            *ms_out = value * units[i].ms;
            return *ms_out <= DURATION_MAX_MS;
        }
    }
    return false;
}

int64_t mst_source_left_ms(int64_t unix_ms, int64_t now_unix_ms)
{
    return unix_ms > now_unix_ms ? unix_ms - now_unix_ms : 0;
}

/* ---- lines ---- */

/* How many bytes the character takes; 0: it is none of UTF-8, or not printable. */
static size_t character(const unsigned char *at, size_t size)
{
    size_t length = 1;
    uint32_t least = 0x20, point = at[0];

    if (at[0] >= 0xf0 && at[0] < 0xf5) {
        length = 4;
        least = 0x10000;
        point = at[0] & 0x07u;
    } else if (at[0] >= 0xe0 && at[0] < 0xf0) {
        length = 3;
        least = 0x800;
        point = at[0] & 0x0fu;
    } else if (at[0] >= 0xc2 && at[0] < 0xe0) {
        length = 2;
        least = 0xa0; /* below are more control characters */
        point = at[0] & 0x1fu;
    } else if (at[0] >= 0x7f) {
        return 0;
    }
    if (length > size) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0u) != 0x80u) {
            return 0;
        }
        point = point << 6 | (at[i] & 0x3fu);
    }
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
        return 0;
    }
    return length;
}

void mst_source_reason(struct mst_source_notice *notice, struct mst_slice text)
{
    const unsigned char *at = text.data;
    size_t used = 0;
    bool blank = true; /* the one before: none at the beginning, and never two */

    for (size_t i = 0; i < text.size;) {
        size_t length = character(at + i, text.size - i);
        bool is_blank = length == 0 || (length == 1 && at[i] == ' ');

        if (used + (length > 0 ? length : 1) >= sizeof notice->reason) {
            break;
        }
        if (!is_blank) {
            memcpy(notice->reason + used, at + i, length);
            used += length;
        } else if (!blank) {
            notice->reason[used++] = ' ';
        }
        blank = is_blank;
        i += length > 0 ? length : 1;
    }
    used -= used > 0 && notice->reason[used - 1] == ' ';
    notice->reason[used] = '\0';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == '\0';
}

/* From the first byte that is no blank to the end of its line; empty: there is none. */
static struct mst_slice first_line(struct mst_slice bytes)
{
    const char *at = bytes.data;
    size_t from = 0, to;

    while (from < bytes.size && (is_space(at[from]) || at[from] == '\n')) {
        from++;
    }
    to = from;
    while (to < bytes.size && at[to] != '\n') {
        to++;
    }
    while (to > from && is_space(at[to - 1])) {
        to--;
    }
    return from == bytes.size ? mst_slice_of(NULL, 0) : mst_slice_of(at + from, to - from);
}

static bool read_deadline(struct mst_slice word, int64_t now_unix_ms,
                          struct mst_source_notice *notice)
{
    int64_t unix_ms;

    if (word.size > DEADLINE_WORD_MAX) {
        return false;
    }
    if (mst_date_rfc3339(word, &unix_ms)) {
        notice->left_ms = mst_source_left_ms(unix_ms, now_unix_ms);
        return true;
    }
    notice->relative = mst_source_duration(word, &notice->left_ms);
    return notice->relative;
}

bool mst_source_line(struct mst_slice bytes, int64_t now_unix_ms, struct mst_source_notice *out)
{
    struct mst_slice line = first_line(bytes);
    const char *at = line.data;
    size_t word = 0;

    *out = (struct mst_source_notice){.left_ms = -1};
    if (line.size == 0) {
        return false;
    }
    while (word < line.size && !is_space(at[word])) {
        word++;
    }
    if (read_deadline(mst_slice_of(at, word), now_unix_ms, out)) {
        line = mst_slice_of(at + word, line.size - word);
    }
    mst_source_reason(out, line);
    return true;
}
