/* SPDX-License-Identifier: Apache-2.0 */
#include "sources/metadata/date.h"

enum { YEAR_LEAST = 1970, YEAR_MOST = 9999, SECOND_LEAP = 60 };

struct cursor {
    const char *at, *end;
};

struct moment {
    uint32_t year, month, day, hour, minute, second;
};

static struct cursor cursor_of(struct mst_slice text)
{
    const char *start = text.data ? text.data : "";

    return (struct cursor){.at = start, .end = start + text.size};
}

static bool letter(struct cursor *cursor, char wanted)
{
    if (cursor->at == cursor->end || *cursor->at != wanted) {
        return false;
    }
    cursor->at++;
    return true;
}

static bool any_of(struct cursor *cursor, const char *wanted)
{
    for (; *wanted; wanted++) {
        if (letter(cursor, *wanted)) {
            return true;
        }
    }
    return false;
}

/* From `least` to `most` digits. */
static bool digits(struct cursor *cursor, uint32_t least, uint32_t most, uint32_t *out)
{
    uint32_t count = 0, number = 0;

    while (count < most && cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        number = number * 10 + (uint32_t)(*cursor->at - '0');
        cursor->at++;
        count++;
    }
    *out = number;
    return count >= least;
}

/* One of words of three letters, from 1 on. */
static bool word(struct cursor *cursor, const char *words, uint32_t *out)
{
    for (uint32_t i = 0; words[3 * (size_t)i]; i++) {
        if (cursor->end - cursor->at >= 3 && memcmp(cursor->at, words + 3 * (size_t)i, 3) == 0) {
            cursor->at += 3;
            *out = i + 1;
            return true;
        }
    }
    return false;
}

static bool is_leap(uint32_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static uint32_t days_of(uint32_t year, uint32_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year) ? 1U : 0U);
}

static bool exists(const struct moment *moment)
{
    return moment->year >= YEAR_LEAST && moment->year <= YEAR_MOST && moment->month >= 1 &&
           moment->month <= 12 && moment->day >= 1 &&
           moment->day <= days_of(moment->year, moment->month) && moment->hour < 24 &&
           moment->minute < 60 && moment->second <= SECOND_LEAP;
}

static int64_t unix_ms_of(const struct moment *moment)
{
    int64_t before = (int64_t)moment->year - 1; /* whole years since year 1 */
    int64_t days = before * 365 + before / 4 - before / 100 + before / 400 - 719162;

    for (uint32_t month = 1; month < moment->month; month++) {
        days += days_of(moment->year, month);
    }
    days += (int64_t)moment->day - 1;
    return (((days * 24 + moment->hour) * 60 + moment->minute) * 60 + moment->second) * 1000;
}

static bool clock_time(struct cursor *cursor, struct moment *moment)
{
    return digits(cursor, 2, 2, &moment->hour) && letter(cursor, ':') &&
           digits(cursor, 2, 2, &moment->minute) && letter(cursor, ':') &&
           digits(cursor, 2, 2, &moment->second);
}

/* Behind the point; of what is finer than a millisecond nothing is kept. */
static bool fraction(struct cursor *cursor, int64_t *ms)
{
    uint32_t count = 0;
    int64_t value = 0;

    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (count < 3) {
            value = value * 10 + (*cursor->at - '0');
        }
        count++;
        cursor->at++;
    }
    for (uint32_t have = count; have < 3; have++) {
        value *= 10;
    }
    *ms = value;
    return count > 0;
}

static bool offset(struct cursor *cursor, int64_t *ms)
{
    uint32_t hours = 0, minutes = 0;
    bool east;

    *ms = 0;
    if (any_of(cursor, "Zz")) {
        return true;
    }
    east = letter(cursor, '+');
    if ((!east && !letter(cursor, '-')) || !digits(cursor, 2, 2, &hours) || !letter(cursor, ':') ||
        !digits(cursor, 2, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *ms = (int64_t)(hours * 60 + minutes) * 60 * 1000 * (east ? -1 : 1);
    return true;
}

bool mst_date_rfc3339(struct mst_slice text, int64_t *unix_ms)
{
    struct cursor cursor = cursor_of(text);
    struct moment moment = {0};
    int64_t finer_ms = 0, offset_ms = 0;

    if (!digits(&cursor, 4, 4, &moment.year) || !letter(&cursor, '-') ||
        !digits(&cursor, 2, 2, &moment.month) || !letter(&cursor, '-') ||
        !digits(&cursor, 2, 2, &moment.day) || !any_of(&cursor, "Tt ") ||
        !clock_time(&cursor, &moment)) {
        return false;
    }
    if (letter(&cursor, '.') && !fraction(&cursor, &finer_ms)) {
        return false;
    }
    if (!offset(&cursor, &offset_ms) || cursor.at != cursor.end || !exists(&moment)) {
        return false;
    }
    *unix_ms = unix_ms_of(&moment) + finer_ms + offset_ms;
    return true;
}

bool mst_date_gmt(struct mst_slice text, int64_t *unix_ms)
{
    struct cursor cursor = cursor_of(text);
    struct moment moment = {0};
    uint32_t weekday = 0, gmt = 0;

    if (word(&cursor, "MonTueWedThuFriSatSun", &weekday) &&
        (!letter(&cursor, ',') || !letter(&cursor, ' '))) {
        return false;
    }
    if (!digits(&cursor, 1, 2, &moment.day) || !letter(&cursor, ' ') ||
        !word(&cursor, "JanFebMarAprMayJunJulAugSepOctNovDec", &moment.month) ||
        !letter(&cursor, ' ') || !digits(&cursor, 4, 4, &moment.year) || !letter(&cursor, ' ') ||
        !clock_time(&cursor, &moment) || !letter(&cursor, ' ') || !word(&cursor, "GMTUTC", &gmt) ||
        cursor.at != cursor.end || !exists(&moment)) {
        return false;
    }
    *unix_ms = unix_ms_of(&moment);
    return true;
}
