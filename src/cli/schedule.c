/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/schedule.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { DAY_MS = 86400000, LEAST_MS = 10, DIGITS_MAX = 9 };

static const char *const words[MST_STRIKE_KINDS] = {
    [MST_STRIKE_KILL] = "kill", [MST_STRIKE_FREEZE] = "freeze", [MST_STRIKE_CUT] = "cut"};

const char *mst_strike_word(enum mst_strike_kind kind)
{
    return words[kind];
}

/* Always three draws, so that a seed's times are the same whatever the kinds are. */
struct mst_strike_plan mst_schedule_next(struct mst_schedule *schedule)
{
    struct mst_strike_plan plan;

    plan.gap_ms = mst_prng_below(&schedule->prng, 2 * schedule->mean_ms + 1);
    plan.kind = schedule->kinds[mst_prng_below(&schedule->prng, schedule->kind_count)];
    plan.pick = mst_prng_next(&schedule->prng);
    return plan;
}

/* The kind that the word of this size is; MST_STRIKE_KINDS: none. */
static enum mst_strike_kind kind_of(const char *text, size_t size)
{
    unsigned kind = 0;

    while (kind < MST_STRIKE_KINDS &&
           (strlen(words[kind]) != size || memcmp(words[kind], text, size) != 0)) {
        kind++;
    }
    return (enum mst_strike_kind)kind;
}

bool mst_schedule_parse_kinds(struct mst_schedule *schedule, const char *text)
{
    bool named[MST_STRIKE_KINDS + 1] = {false};

    schedule->kind_count = 0;
    for (;;) {
        size_t size = strcspn(text, ",");
        enum mst_strike_kind kind = kind_of(text, size);

        if (kind == MST_STRIKE_KINDS || named[kind]) {
            return false;
        }
        named[kind] = true;
        schedule->kinds[schedule->kind_count++] = kind;
        if (text[size] == '\0') {
            return true;
        }
        text += size + 1;
    }
}

/* Digits with at most one point: the number in millionths. False: no number, or too long a one. */
static bool parse_millionths(const char **text, uint64_t *out)
{
    const char *at = *text;
    uint64_t value = 0, digits = 0, places = 0;
    bool point = false;

    for (; isdigit((unsigned char)*at) || (*at == '.' && !point); at++) {
        if (*at == '.') {
            point = true;
        } else {
            value = value * 10 + (uint64_t)(*at - '0');
            digits++;
            places += point;
        }
    }
    if (digits == 0 || digits > DIGITS_MAX || places > 6) {
        return false;
    }
    for (; places < 6; places++) {
        value *= 10;
    }
    *text = at;
    *out = value;
    return true;
}

bool mst_schedule_parse_rate(struct mst_schedule *schedule, const char *text)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"", 60000}, {"/min", 60000}, {"/m", 60000}, {"/s", 1000}, {"/h", 3600000}};
    uint64_t millionths;

    if (!parse_millionths(&text, &millionths) || millionths == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text, units[i].unit) == 0) {
            schedule->mean_ms = units[i].ms * 1000000 / millionths;
            return schedule->mean_ms >= LEAST_MS && schedule->mean_ms <= DAY_MS;
        }
    }
    return false;
}
