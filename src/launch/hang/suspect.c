/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/hang/suspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "launch/hang/diagnose.h"
#include "launch/hang/waits.h"
#include "proto/run_keys.h"

#define RANGES_MAX 6u /* of ranks, in a text */
#define GROUPS_MAX 3u
/* "4294967295<tab>ranks 4294967293-4294967295, ..., ...<tab>in barrier 'x'<newline>" */
#define LINE_BYTES_MAX (11u + 6u + RANGES_MAX * 24u + 5u + 1u + 63u + 1u)

/* ---- how high one stands ---- */

struct height {
    bool called; /* muster, in this attempt */
    uint64_t pings, checks;
};

/* False: it does not stand in the function of the generation. */
static bool height_of(const struct mst_watched *one, uint64_t generation, struct height *out)
{
    bool stands = mst_hang_stands(&one->hang, &out->pings, &out->checks);

    out->called = out->pings != 0 || out->checks != 0;
    return stands && one->generation == generation;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare(const struct height *a, const struct height *b)
{
    int order = compare_numbers(a->called, b->called);

    order = order != 0 ? order : compare_numbers(a->pings, b->pings);
    return order != 0 ? order : compare_numbers(a->checks, b->checks);
}

/* One that has pinged may try its wait again and again: how often says nothing. */
static int compare_waiting(const struct height *a, const struct height *b)
{
    return a->pings != 0 && a->pings == b->pings ? 0 : compare(a, b);
}

static bool waits(const struct mst_watched *one)
{
    uint64_t since_ns;

    return mst_hang_waits(&one->hang, &since_ns);
}

/* ---- the suspects: those whose mark is set ---- */

/* The ranks of one node: the list is short. */
/* NOLINTBEGIN(bugprone-macro-parentheses): as in base/list.h */
#define EACH(one, monitor)                                                                         \
    for (struct mst_watched *one = (monitor)->first; one != NULL; one = one->next)
/* NOLINTEND(bugprone-macro-parentheses) */

/* How many have this mark, and one of them. */
static uint32_t marked(const struct mst_monitor *monitor, unsigned mark, struct mst_watched **any)
{
    uint32_t count = 0;

    EACH(one, monitor)
    {
        if (one->mark == mark) {
            *any = one;
            count++;
        }
    }
    return count;
}

/* NULL: there are several, or none. */
static struct mst_watched *only(const struct mst_monitor *monitor)
{
    struct mst_watched *any = NULL;

    return marked(monitor, 1, &any) == 1 ? any : NULL;
}

/* Of the marked ones those stay that stand lowest. */
static void keep_lowest(const struct mst_monitor *monitor, uint64_t generation,
                        int (*order)(const struct height *a, const struct height *b))
{
    struct height least = {.called = true, .pings = UINT64_MAX, .checks = UINT64_MAX}, height;

    EACH(one, monitor)
    {
        if (one->mark && height_of(one, generation, &height) && order(&height, &least) < 0) {
            least = height;
        }
    }
    EACH(one, monitor)
    {
        one->mark = one->mark && height_of(one, generation, &height) && order(&height, &least) == 0;
    }
}

static bool is_stopped(const struct mst_watched *one)
{
    return mst_diagnose_stopped(mst_watched_pid(one), atomic_load(&one->page->thread));
}

/* A declared section has a limit of its own, and it is not over that. */
static bool is_in_no_section(const struct mst_watched *one)
{
    return one->hang.last.section % 2 == 0;
}

/* Of the marked ones those stay of which it holds, if it does of any. */
static void prefer(const struct mst_monitor *monitor, bool (*holds)(const struct mst_watched *one))
{
    struct mst_watched *one_of_them;
    bool any = false;

    if (marked(monitor, 1, &one_of_them) < 2) {
        return;
    }
    EACH(one, monitor)
    {
        any = any || (one->mark && holds(one));
    }
    EACH(one, monitor)
    {
        one->mark = one->mark && (!any || holds(one));
    }
}

/* ---- words ---- */

static uint32_t rank_of(const struct mst_watched *one)
{
    return atomic_load(&one->page->rank);
}

/* The lowest rank from `from` on of those with this mark; UINT32_MAX: none. */
static uint32_t next_rank(const struct mst_monitor *monitor, unsigned mark, uint32_t from)
{
    uint32_t least = UINT32_MAX;

    EACH(one, monitor)
    {
        uint32_t rank = rank_of(one);

        if (one->mark == mark && rank >= from && rank < least) {
            least = rank;
        }
    }
    return least;
}

/* "rank 3", "ranks 0-2, 4". */
static void add_ranks(struct mst_text *text, const struct mst_monitor *monitor, unsigned mark)
{
    uint32_t first = next_rank(monitor, mark, 0);
    unsigned ranges = 0;

    mst_text_format(text, first != UINT32_MAX && next_rank(monitor, mark, first + 1) == UINT32_MAX
                              ? "rank "
                              : "ranks ");
    while (first != UINT32_MAX) {
        uint32_t last = first, next;

        while ((next = next_rank(monitor, mark, last + 1)) == last + 1) {
            last = next;
        }
        if (ranges++ == RANGES_MAX) {
            mst_text_add(text, ", ...");
            return;
        }
        mst_text_format(text, "%s%" PRIu32, ranges > 1 ? ", " : "", first);
        if (last != first) {
            mst_text_format(text, "%s%" PRIu32, last == first + 1 ? ", " : "-", last);
        }
        first = next;
    }
}

void mst_suspect_place(const struct mst_watched *one, uint64_t now_ns, char *text, size_t room)
{
    mst_diagnose_thread(mst_watched_pid(one), atomic_load(&one->page->thread), one->cpu_ns,
                        one->cpu_at_ns != 0 ? now_ns - one->cpu_at_ns : 0, text, room);
}

static void add_still(struct mst_text *text, uint64_t ms)
{
    mst_text_format(text, "made no progress for " MST_SECONDS ": ", MST_SECONDS_ARGS(ms));
}

static void add_place(struct mst_text *text, const struct mst_watched *one, uint64_t now_ns)
{
    char place[112];

    mst_suspect_place(one, now_ns, place, sizeof place);
    mst_text_format(text, "; %s", place);
}

/* "7 pings", "1 call of muster". */
static void add_calls(struct mst_text *text, const struct height *height, bool by_pings)
{
    uint64_t count = by_pings ? height->pings : height->checks;

    mst_text_format(text, "%" PRIu64 " %s%s%s", count, by_pings ? "ping" : "call",
                    count == 1 ? "" : "s", by_pings ? "" : " of muster");
}

static bool has_returned(const struct mst_watched *one)
{
    return one->hang.last.turn % 8 == MST_PHASE_WAITS;
}

static void waits_for(const struct mst_watched *one, char name[64])
{
    if (has_returned(one)) {
        (void)snprintf(name, 64, "%s", MST_WAITS_RETURNED);
        return;
    }
    memcpy(name, "in ", 3);
    mst_monitor_name(MST_PAGE_TEXT(one->page->waits_for), name + 3, 61);
    if (name[3] == '\0') {
        (void)snprintf(name, 64, "%s", "in muster");
    }
}

/* ---- one that stands still ---- */

/* What the others of the generation have counted, and how many of them wait in muster. */
struct others {
    uint64_t least, most;
    uint32_t count, waiting;
    char waits_for[64]; /* of all of them; empty: they differ */
};

static void take_wait(struct others *others, const struct mst_watched *one)
{
    char name[64];

    waits_for(one, name);
    if (others->waiting++ == 0) {
        memcpy(others->waits_for, name, sizeof name);
    } else if (strcmp(others->waits_for, name) != 0) {
        others->waits_for[0] = '\0';
    }
}

static struct others others_of(const struct mst_monitor *monitor, uint64_t generation,
                               const struct mst_watched *but, bool by_pings)
{
    struct others others = {.least = UINT64_MAX};
    struct height height;

    EACH(one, monitor)
    {
        if (one != but && height_of(one, generation, &height)) {
            uint64_t count = by_pings ? height.pings : height.checks;

            others.least = count < others.least ? count : others.least;
            others.most = count > others.most ? count : others.most;
            others.count++;
            if (waits(one)) {
                take_wait(&others, one);
            }
        }
    }
    return others;
}

static bool any_pings(const struct mst_monitor *monitor, uint64_t generation)
{
    struct height height;
    bool any = false;

    EACH(one, monitor)
    {
        any = any || (height_of(one, generation, &height) && height.pings != 0);
    }
    return any;
}

static void add_others(struct mst_text *text, const struct others *others)
{
    if (others->count != 0 && others->least == others->most) {
        mst_text_format(text, ", other%s %" PRIu64, others->count == 1 ? "" : "s", others->least);
    } else if (others->count != 0) {
        mst_text_format(text, ", others %" PRIu64 " to %" PRIu64, others->least, others->most);
    }
    if (others->waiting != 0) {
        mst_text_format(text, ", waiting %s",
                        others->waits_for[0] != '\0' ? others->waits_for : "in muster");
        if (others->waiting != others->count) {
            mst_text_format(text, ": %" PRIu32, others->waiting);
        }
    }
}

/* "5 pings in this attempt, others 7, waiting in barrier 'step'". */
static void add_count(struct mst_text *text, const struct mst_monitor *monitor,
                      const struct mst_watched *one)
{
    bool by_pings = any_pings(monitor, one->generation);
    struct others others = others_of(monitor, one->generation, one, by_pings);
    struct height height;

    (void)height_of(one, one->generation, &height);
    /* What tells them apart. */
    if (by_pings && height.called && others.count > others.waiting &&
        others.least == height.pings && others.most == height.pings) {
        struct others by_checks = others_of(monitor, one->generation, one, false);

        by_pings = by_checks.least == height.checks && by_checks.most == height.checks;
        others = by_pings ? others : by_checks;
    }
    if (!height.called) {
        mst_text_add(text, "not one call of muster");
    } else {
        add_calls(text, &height, by_pings);
    }
    mst_text_add(text, " in this attempt");
    add_others(text, &others);
}

/* A slow one may move while the others wait for it. */
static void add_progress(struct mst_text *text, const struct mst_monitor *monitor,
                         const struct mst_watched *suspect, const struct mst_watched *stalled,
                         uint64_t now_ns)
{
    uint64_t still_ms = (now_ns - suspect->moved_ns) / NS_PER_MS;
    bool moves = suspect != stalled && still_ms < stalled->found.since_ms / 2;
    char name[32];

    if (suspect == stalled || moves) {
        still_ms = stalled->found.since_ms;
    }
    mst_text_add(text, moves ? "held up the others, which " : "");
    add_still(text, still_ms);
    if (suspect->hang.last.section % 2 != 0) {
        mst_monitor_name(MST_PAGE_TEXT(suspect->page->section_name), name, sizeof name);
        mst_text_format(text, "in the section %s, ", name);
    }
    add_count(text, monitor, suspect);
    add_place(text, suspect, now_ns);
}

/* Where all the marked ones stand. */
static void add_stand(struct mst_text *text, const struct mst_monitor *monitor, uint64_t generation)
{
    const struct mst_watched *any = NULL;
    struct height height = {0};
    bool same = true;

    EACH(one, monitor)
    {
        if (one->mark) {
            any = any != NULL ? any : one;
            same = same && atomic_load(&one->page->step) == atomic_load(&any->page->step);
        }
    }
    if (any == NULL) {
        return; /* they are compared before */
    }
    (void)height_of(any, generation, &height);
    if (same && height.pings != 0 && atomic_load(&any->page->ranks) != 0 &&
        atomic_load(&any->page->step) != MST_PAGE_NO_STEP) {
        mst_text_format(text, "at step %" PRId64, atomic_load(&any->page->step));
    } else if (height.called) {
        mst_text_add(text, "at ");
        add_calls(text, &height, height.pings != 0);
    } else {
        mst_text_add(text, "before their first call of muster");
    }
}

/* The marked ones are equal. */
static void add_equals(struct mst_text *text, const struct mst_monitor *monitor,
                       const struct mst_watched *stalled)
{
    struct others others = others_of(monitor, stalled->generation, NULL, true);
    struct mst_watched *any;

    add_still(text, stalled->found.since_ms);
    if (others.count == marked(monitor, 1, &any)) {
        mst_text_add(text, "all");
    } else {
        add_ranks(text, monitor, 1);
    }
    mst_text_add(text, " stand ");
    add_stand(text, monitor, stalled->generation);
    mst_text_add(text, ": any of them");
}

struct mst_watched *mst_suspect_of(const struct mst_monitor *monitor, struct mst_watched *stalled,
                                   uint64_t now_ns, char *text_out, size_t room)
{
    struct mst_text text = mst_text_in(text_out, room);
    struct mst_watched *suspect = NULL;
    struct height height;
    uint32_t count;

    EACH(one, monitor)
    {
        one->mark = height_of(one, stalled->generation, &height) && !waits(one);
    }
    keep_lowest(monitor, stalled->generation, compare);
    prefer(monitor, is_stopped);
    prefer(monitor, is_in_no_section);
    count = marked(monitor, 1, &suspect);
    if (count > 1) {
        add_equals(&text, monitor, stalled);
        return NULL;
    }
    suspect = count == 1 ? suspect : stalled;
    add_progress(&text, monitor, suspect, stalled, now_ns);
    return suspect;
}

/* ---- all wait ---- */

static bool is_of(const struct mst_watched *one, uint64_t generation)
{
    return one->generation == generation && rank_of(one) != UINT32_MAX &&
           one->hang.last.soft_ms != 0;
}

static bool waits_in(const struct mst_watched *one, uint64_t generation)
{
    return is_of(one, generation) && waits(one);
}

uint32_t mst_suspect_waiting(const struct mst_monitor *monitor, uint64_t generation,
                             struct mst_watched **silent_out)
{
    uint32_t count = 0;

    *silent_out = NULL;
    EACH(one, monitor)
    {
        uint64_t since_ns;
        bool waits, silent;

        if (!is_of(one, generation)) {
            continue;
        }
        waits = mst_hang_waits(&one->hang, &since_ns);
        silent = !waits && *silent_out == NULL && mst_hang_silent(&one->hang, &since_ns);
        if ((!waits && !silent) || one->hang.last.soft_ms < 0 ||
            since_ns < (uint64_t)one->hang.last.soft_ms * NS_PER_MS) {
            *silent_out = NULL;
            return 0;
        }
        *silent_out = silent ? one : *silent_out;
        count++;
    }
    return count;
}

bool mst_suspect_calls(const struct mst_monitor *monitor, uint64_t generation)
{
    bool any = false;

    EACH(one, monitor)
    {
        any = any || (waits_in(one, generation) && !has_returned(one));
    }
    return any;
}

static struct mst_watched *lowest_unmarked(const struct mst_monitor *monitor, uint64_t generation)
{
    struct mst_watched *lowest = NULL;

    EACH(one, monitor)
    {
        if (one->mark == 0 && waits_in(one, generation) &&
            (lowest == NULL || rank_of(one) < rank_of(lowest))) {
            lowest = one;
        }
    }
    return lowest;
}

/* Marks the ranks that wait, for the same with the same number, from 1 on; returns the last one. */
static unsigned group(const struct mst_monitor *monitor, uint64_t generation)
{
    unsigned groups = 0;
    const struct mst_watched *first;
    char name[64], another[64];

    EACH(one, monitor)
    {
        one->mark = 0;
    }
    while ((first = lowest_unmarked(monitor, generation)) != NULL) {
        groups++;
        waits_for(first, name);
        EACH(same, monitor)
        {
            waits_for(same, another);
            if (waits_in(same, generation) && strcmp(name, another) == 0) {
                same->mark = groups;
            }
        }
    }
    return groups;
}

/* Of at least three the one that waits for something else than all others. */
static struct mst_watched *odd_one(const struct mst_monitor *monitor, unsigned groups)
{
    struct mst_watched *a = NULL, *b = NULL;
    uint32_t size_a, size_b;

    if (groups != 2) {
        return NULL;
    }
    size_a = marked(monitor, 1, &a);
    size_b = marked(monitor, 2, &b);
    if (size_a + size_b < 3 || (size_a != 1 && size_b != 1)) {
        return NULL;
    }
    return size_a == 1 ? a : b;
}

/* "ranks 0, 2 wait in barrier 'step' (missing: rank 1)". */
static void add_group(struct mst_text *text, const struct mst_monitor *monitor, unsigned mark,
                      unsigned groups)
{
    struct mst_watched *any = NULL;
    bool one = marked(monitor, mark, &any) == 1;
    char name[64];

    if (any == NULL) {
        return;
    }
    waits_for(any, name);
    add_ranks(text, monitor, mark);
    mst_text_format(text, " wait%s %s", one ? "s" : "", name);
    if (groups == 2 && !has_returned(any)) {
        mst_text_add(text, " (missing: ");
        add_ranks(text, monitor, 3 - mark);
        mst_text_add(text, ")");
    }
}

static void add_groups(struct mst_text *text, const struct mst_monitor *monitor, unsigned groups)
{
    for (unsigned mark = 1; mark <= groups; mark++) {
        if (mark > GROUPS_MAX) {
            mst_text_add(text, ", ...");
            return;
        }
        mst_text_add(text, mark > 1 ? ", " : "");
        add_group(text, monitor, mark, groups);
    }
}

/* A line of those with this mark. */
static void add_line(struct mst_text *text, const struct mst_monitor *monitor, unsigned mark,
                     const char *what)
{
    struct mst_watched *any = NULL;

    mst_text_format(text, "%" PRIu32 "\t", marked(monitor, mark, &any));
    add_ranks(text, monitor, mark);
    mst_text_format(text, "\t%s\n", what);
}

/* The reader adds up the ranks, so none may be cut off: what there is no room for is one line. */
static void add_lines(struct mst_text *text, const struct mst_monitor *monitor, unsigned groups)
{
    for (unsigned mark = 1; mark <= groups; mark++) {
        struct mst_watched *any = NULL;
        char name[64];

        (void)marked(monitor, mark, &any);
        waits_for(any, name);
        if (mark < groups && text->room - text->size <= (size_t)2 * LINE_BYTES_MAX) {
            EACH(one, monitor)
            {
                one->mark = one->mark > mark ? mark : one->mark;
            }
            (void)snprintf(name, sizeof name, "%s", "in muster, for several things");
            groups = mark;
        }
        add_line(text, monitor, mark, name);
    }
}

void mst_suspect_tell_waits(const struct mst_monitor *monitor, uint64_t generation, bool *first_out,
                            char *text_out, size_t room)
{
    struct mst_text text = mst_text_in(text_out, room);

    *first_out = false;
    EACH(one, monitor)
    {
        *first_out = *first_out || (is_of(one, generation) && rank_of(one) == 0);
        if (is_of(one, generation) && !waits(one)) {
            mst_text_format(&text, MST_WAITS_SILENT "\trank %" PRIu32 "\n", rank_of(one));
        }
    }
    add_lines(&text, monitor, group(monitor, generation));
}

static struct mst_watched *lowest_waiting(const struct mst_monitor *monitor, uint64_t generation)
{
    bool returned = false;
    struct mst_watched *found;

    EACH(one, monitor)
    {
        one->mark = is_of(one, generation);
        returned = returned || (one->mark && has_returned(one));
    }
    prefer(monitor, is_stopped);
    found = only(monitor);
    if (found != NULL || returned) {
        return found;
    }
    keep_lowest(monitor, generation, compare_waiting);
    return only(monitor);
}

struct mst_watched *mst_suspect_of_waiting(const struct mst_monitor *monitor, uint64_t generation,
                                           uint64_t now_ns, char *text_out, size_t room)
{
    struct mst_watched *lowest = lowest_waiting(monitor, generation);
    unsigned groups = group(monitor, generation);
    struct mst_watched *odd = odd_one(monitor, groups), *any = NULL;
    bool stopped = lowest != NULL && is_stopped(lowest);
    struct mst_watched *suspect = odd != NULL && !stopped ? odd : lowest;
    struct mst_text text = mst_text_in(text_out, room);
    uint64_t since_ns;

    (void)marked(monitor, 1, &any);
    any = suspect != NULL ? suspect : any;
    if (any == NULL) {
        return NULL; /* no rank waits: not asked for */
    }
    (void)mst_hang_waits(&any->hang, &since_ns);
    add_still(&text, since_ns / NS_PER_MS);
    if (suspect == NULL) {
        mst_text_add(&text, "any of them, as all wait: ");
    }
    add_groups(&text, monitor, groups);
    if (suspect == lowest && suspect != NULL) {
        mst_text_add(&text, "; ");
        add_count(&text, monitor, suspect);
    }
    if (suspect != NULL) {
        add_place(&text, suspect, now_ns);
    }
    return suspect;
}

void mst_suspect_tell_silent(const struct mst_monitor *monitor, const struct mst_watched *silent,
                             uint64_t now_ns, char *text_out, size_t room)
{
    struct mst_text text = mst_text_in(text_out, room);
    uint64_t since_ns;

    (void)mst_hang_silent(&silent->hang, &since_ns);
    add_still(&text, since_ns / NS_PER_MS);
    add_count(&text, monitor, silent);
    add_place(&text, silent, now_ns);
}
