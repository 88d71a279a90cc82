/* SPDX-License-Identifier: Apache-2.0 */
#include "restart/hang.h"

#include <stddef.h>

#include "base/time.h"

#define PULSES 8u /* looks within one limit, so that a late one is noticed */

/* As enum mst_page_phase numbers them. */
enum phase { OUTSIDE = 0, BEFORE = 1, FUNCTION = 2, AFTER = 3, WAITS = 4 };

#define PHASES UINT64_C(8)

/* A clock that runs, and how long it may. -1: for ever. */
struct clock {
    enum mst_hang_reason reason;
    uint64_t since_ns;
    int64_t soft_ms, hard_ms;
};

#define CLOCKS_MAX 2u

static enum phase phase_of(uint64_t turn)
{
    uint64_t number = turn % PHASES;

    return number <= WAITS ? (enum phase)number : OUTSIDE;
}

static bool in_function(const struct mst_hang *hang)
{
    enum phase phase = phase_of(hang->last.turn);

    return hang->last.soft_ms != 0 && (phase == BEFORE || phase == FUNCTION);
}

static bool was_told(const struct mst_hang *hang)
{
    return in_function(hang) && hang->last.told == hang->last.turn;
}

static bool inside(uint64_t word)
{
    return word % 2 != 0;
}

static uint64_t after_ms(uint64_t since_ns, int64_t ms)
{
    return ms < 0 ? NEVER : mst_after_ms(since_ns, (uint64_t)ms);
}

/* ---- what the page says ---- */

void mst_hang_pause(struct mst_hang *hang, uint64_t ns)
{
    hang->turn_ns += ns;
    hang->checks_ns += ns;
    hang->pings_ns += ns;
    hang->atomic_ns += ns;
    hang->section_ns += ns;
    hang->told_ns += ns;
    hang->waits_ns += ns;
    hang->excused_ns += ns;
    hang->looked_ns += ns;
    hang->asked_ns = NEVER; /* that is no lateness as well */
}

/* What it waits for in muster is not in its hands. */
static void excuse_wait(struct mst_hang *hang, uint64_t now_ns,
                        const struct mst_hang_sample *sample)
{
    uint64_t ns = now_ns - hang->looked_ns;

    if (in_function(hang) && (inside(hang->last.waits) || inside(sample->waits))) {
        hang->turn_ns += ns;
        hang->checks_ns += ns;
        hang->pings_ns += ns;
        hang->section_ns += ns;
    } else {
        hang->excused_ns = now_ns;
    }
}

/* A turn into the function is of the same attempt only if the one before was seen. */
static bool begins_attempt(uint64_t before, uint64_t now)
{
    enum phase phase = phase_of(now);

    return phase == BEFORE || (phase == FUNCTION &&
                               (phase_of(before) != BEFORE || now / PHASES != before / PHASES + 1));
}

static void take_turn(struct mst_hang *hang, uint64_t now_ns, const struct mst_hang_sample *sample)
{
    if (begins_attempt(hang->last.turn, sample->turn)) {
        hang->soft_said = false;
    }
    hang->checks_start = sample->start_known ? sample->checks_start : sample->checks;
    hang->pings_start = sample->start_known ? sample->pings_start : sample->pings;
    hang->turn_ns = hang->checks_ns = hang->pings_ns = now_ns;
    hang->atomic_ns = hang->section_ns = hang->told_ns = hang->waits_ns = now_ns;
    hang->excused_ns = now_ns;
    hang->awaited = false;
}

static void take(struct mst_hang *hang, uint64_t now_ns, const struct mst_hang_sample *sample)
{
    const struct mst_hang_sample *last = &hang->last;

    if (sample->turn != last->turn) {
        take_turn(hang, now_ns, sample);
    } else if (sample->atomic != last->atomic && inside(last->atomic)) {
        hang->pings_ns = mst_sooner(now_ns, hang->pings_ns + (now_ns - hang->atomic_ns));
        hang->checks_ns = mst_sooner(now_ns, hang->checks_ns + (now_ns - hang->atomic_ns));
        hang->turn_ns = mst_sooner(now_ns, hang->turn_ns + (now_ns - hang->atomic_ns));
    }
    hang->checks_ns = sample->checks != last->checks ? now_ns : hang->checks_ns;
    hang->pings_ns = sample->pings != last->pings ? now_ns : hang->pings_ns;
    hang->excused_ns = sample->pings != last->pings ? now_ns : hang->excused_ns;
    hang->atomic_ns = sample->atomic != last->atomic ? now_ns : hang->atomic_ns;
    hang->section_ns = sample->section != last->section ? now_ns : hang->section_ns;
    hang->told_ns = sample->told != last->told ? now_ns : hang->told_ns;
    hang->waits_ns = sample->waits != last->waits ? now_ns : hang->waits_ns;
    hang->looked_ns = now_ns;
    hang->last = *sample;
}

/* ---- which clocks run ---- */

static struct clock section_clock(const struct mst_hang *hang)
{
    const struct mst_hang_sample *page = &hang->last;
    int64_t limit_ms = page->section_limit_ms;
    struct clock clock = {MST_HANG_SECTION, hang->section_ns, -1, -1};

    if (limit_ms >= 0 && page->soft_ms > 0) {
        clock.soft_ms = limit_ms;
    }
    if (limit_ms >= 0 && page->hard_ms >= 0) {
        int64_t more_ms = page->soft_ms < 0 ? page->hard_ms : page->hard_ms - page->soft_ms;

        more_ms = more_ms > 0 ? more_ms : 0;
        clock.hard_ms = limit_ms > INT64_MAX - more_ms ? INT64_MAX : limit_ms + more_ms;
    }
    return clock;
}

static bool progress_clock(const struct mst_hang *hang, struct clock *out)
{
    const struct mst_hang_sample *page = &hang->last;
    uint64_t since_ns;

    if (inside(page->atomic)) {
        *out = (struct clock){MST_HANG_ATOMIC, hang->atomic_ns, page->soft_ms, page->hard_ms};
        return true;
    }
    if (inside(page->section)) {
        *out = section_clock(hang);
        return true;
    }
    if (page->pings != hang->pings_start) {
        since_ns = hang->pings_ns;
    } else if (page->checks != hang->checks_start) {
        since_ns = hang->checks_ns;
    } else if (page->from_start || hang->awaited) {
        since_ns = hang->turn_ns;
    } else {
        return false;
    }
    *out = (struct clock){MST_HANG_PROGRESS, mst_later(since_ns, hang->section_ns), page->soft_ms,
                          page->hard_ms};
    return true;
}

static unsigned clocks_of(const struct mst_hang *hang, struct clock clocks[CLOCKS_MAX])
{
    const struct mst_hang_sample *page = &hang->last;
    unsigned count = 0;

    if (page->soft_ms == 0 || hang->hard_said) {
        return 0;
    }
    if (phase_of(page->turn) == AFTER) {
        clocks[count++] = (struct clock){MST_HANG_AFTER, hang->turn_ns, -1, page->hard_ms};
    } else if (in_function(hang) && progress_clock(hang, &clocks[count])) {
        count++;
    }
    if (was_told(hang)) {
        clocks[count++] = (struct clock){MST_HANG_TOLD, hang->told_ns, -1, page->hard_ms};
    }
    return count;
}

/* ---- what that means ---- */

static bool soft_may_come(const struct mst_hang *hang)
{
    return !hang->soft_said && !was_told(hang);
}

/* An eighth of the smallest limit there still is. */
static uint64_t pulse_ns(const struct mst_hang *hang, const struct clock *clock)
{
    uint64_t limit_ns = after_ms(0, clock->hard_ms);

    if (soft_may_come(hang)) {
        limit_ns = mst_sooner(limit_ns, after_ms(0, clock->soft_ms));
    }
    return limit_ns == NEVER ? NEVER : mst_later(limit_ns / PULSES, NS_PER_MS);
}

static void ask(struct mst_hang *hang, uint64_t now_ns)
{
    struct clock clocks[CLOCKS_MAX];
    unsigned count = clocks_of(hang, clocks);

    hang->asked_ns = NEVER;
    for (unsigned i = 0; i < count; i++) {
        uint64_t pulse = pulse_ns(hang, &clocks[i]);

        if (pulse <= NEVER - now_ns) {
            hang->asked_ns = mst_sooner(hang->asked_ns, now_ns + pulse);
        }
        hang->asked_ns =
            mst_sooner(hang->asked_ns, after_ms(clocks[i].since_ns, clocks[i].hard_ms));
        if (soft_may_come(hang)) {
            hang->asked_ns =
                mst_sooner(hang->asked_ns, after_ms(clocks[i].since_ns, clocks[i].soft_ms));
        }
    }
}

static enum mst_hang_verdict judge(const struct mst_hang *hang, uint64_t now_ns,
                                   const struct clock *clock)
{
    if (after_ms(clock->since_ns, clock->hard_ms) <= now_ns) {
        return MST_HANG_HARD;
    }
    return soft_may_come(hang) && after_ms(clock->since_ns, clock->soft_ms) <= now_ns
               ? MST_HANG_SOFT
               : MST_HANG_NONE;
}

void mst_hang_init(struct mst_hang *hang)
{
    *hang = (struct mst_hang){.asked_ns = NEVER};
}

struct mst_hang_finding mst_hang_look(struct mst_hang *hang, uint64_t now_ns,
                                      const struct mst_hang_sample *sample)
{
    struct mst_hang_finding finding = {.verdict = MST_HANG_NONE};
    struct clock clocks[CLOCKS_MAX];
    uint64_t pings, checks;
    unsigned count;

    if (now_ns > hang->asked_ns) { /* the watcher was stopped, and saw no progress made meanwhile */
        mst_hang_pause(hang, now_ns - hang->asked_ns);
    }
    excuse_wait(hang, now_ns, sample);
    take(hang, now_ns, sample);
    count = clocks_of(hang, clocks);
    for (unsigned i = 0; i < count; i++) {
        enum mst_hang_verdict verdict = judge(hang, now_ns, &clocks[i]);

        if (verdict > finding.verdict) {
            finding.verdict = verdict;
            finding.reason = clocks[i].reason;
            finding.since_ms = (now_ns - clocks[i].since_ns) / NS_PER_MS;
        }
    }
    (void)mst_hang_stands(hang, &pings, &checks);
    finding.count = pings != 0 ? pings : checks;
    finding.never = finding.count == 0;
    hang->soft_said = hang->soft_said || finding.verdict == MST_HANG_SOFT;
    hang->hard_said = hang->hard_said || finding.verdict == MST_HANG_HARD;
    ask(hang, now_ns);
    return finding;
}

uint64_t mst_hang_deadline_ns(const struct mst_hang *hang)
{
    return hang->asked_ns;
}

bool mst_hang_stands(const struct mst_hang *hang, uint64_t *pings_out, uint64_t *checks_out)
{
    bool stands = in_function(hang);

    *pings_out = stands ? hang->last.pings - hang->pings_start : 0;
    *checks_out = stands ? hang->last.checks - hang->checks_start : 0;
    return stands;
}

bool mst_hang_waits(const struct mst_hang *hang, uint64_t *since_ns_out)
{
    bool apart = hang->last.soft_ms != 0 && phase_of(hang->last.turn) == WAITS;
    bool in_call = in_function(hang) && inside(hang->last.waits) && !was_told(hang);
    bool pinged = hang->last.pings != hang->pings_start;
    uint64_t since_ns = apart ? hang->turn_ns : hang->waits_ns;

    /* Its calls are no progress: nor is it that each of them is another wait. */
    if (in_call && pinged) {
        since_ns = mst_sooner(since_ns, hang->excused_ns);
    }
    *since_ns_out = hang->looked_ns - since_ns;
    return apart || in_call;
}

bool mst_hang_silent(const struct mst_hang *hang, uint64_t *since_ns_out)
{
    struct clock clock;
    bool counted = progress_clock(hang, &clock);

    *since_ns_out = hang->looked_ns - mst_later(hang->turn_ns, hang->section_ns);
    return in_function(hang) && !was_told(hang) && !inside(hang->last.waits) && !counted;
}

void mst_hang_await(struct mst_hang *hang)
{
    hang->awaited = true;
    hang->turn_ns = hang->looked_ns - after_ms(0, hang->last.soft_ms);
    hang->soft_said = true;
    ask(hang, hang->looked_ns);
}
