/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/hang/pace.h"

#include <string.h>

#include "base/time.h"
#include "launch/hang/diagnose.h"

#define MARK_NS (5 * NS_PER_S)
#define CPU_PINGS 8u
#define CPU_NS NS_PER_S
#define THOUSAND UINT64_C(1000)

static uint32_t clamp(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static struct mst_pace_mark mark_of(const struct mst_page *page, uint64_t now_ns)
{
    return (struct mst_pace_mark){
        .at_ns = now_ns, .pings = atomic_load(&page->pings), .step = atomic_load(&page->step)};
}

/* ---- looking ---- */

static void begin(struct mst_pace *pace, const struct mst_page *page, uint64_t turn,
                  uint64_t now_ns)
{
    struct mst_pace_mark mark = mark_of(page, now_ns);

    *pace = (struct mst_pace){
        .turn = turn, .quiet_ns = now_ns, .first = mark, .middle = mark, .last = mark};
}

static void look_at_pings(struct mst_pace *pace, const struct mst_page *page, uint64_t now_ns)
{
    struct mst_pace_mark mark = mark_of(page, now_ns);

    if (mark.pings == pace->last.pings) {
        return;
    }
    if (pace->first.step == MST_PAGE_NO_STEP) { /* that was before the first */
        pace->first = pace->middle = mark;
    }
    pace->last = mark;
    if (now_ns - pace->middle.at_ns >= MARK_NS) {
        pace->first = pace->middle;
        pace->middle = mark;
    }
}

/* The time that the thread used since the period began becomes that of a ping. */
static void look_at_thread(struct mst_pace *pace, const struct mst_page *page, pid_t pid,
                           uint64_t now_ns)
{
    uint64_t pings = pace->last.pings - pace->cpu_pings;
    uint64_t cpu_ns;
    bool begins = pace->cpu_at_ns == 0;

    if (!begins && (pings < CPU_PINGS || now_ns - pace->cpu_at_ns < CPU_NS)) {
        return;
    }
    if (!mst_diagnose_wanted(pid, atomic_load(&page->thread), &cpu_ns)) {
        return;
    }
    if (!begins) {
        pace->cpu_us[1] = pace->cpu_us[0];
        pace->cpu_us[0] = clamp((cpu_ns - pace->cpu_ns) / pings / THOUSAND);
    }
    pace->cpu_ns = cpu_ns;
    pace->cpu_pings = pace->last.pings;
    pace->cpu_at_ns = now_ns;
}

void mst_pace_look(struct mst_pace *pace, const struct mst_page *page, pid_t pid, uint64_t now_ns)
{
    uint64_t turn = atomic_load(&page->turn);
    uint64_t sum = atomic_load(&page->checks) + atomic_load(&page->pings) +
                   atomic_load(&page->atomic) + atomic_load(&page->section) +
                   atomic_load(&page->waits);
    uint32_t work_us, section_us;

    if (turn != pace->turn) {
        begin(pace, page, turn, now_ns);
        pace->sum = sum;
    }
    if (sum != pace->sum) {
        pace->sum = sum;
        pace->quiet_ns = now_ns;
    }
    pace->looked_ns = now_ns;
    look_at_pings(pace, page, now_ns);
    if (turn % 8 == MST_PHASE_FUNCTION && !mst_page_measured(page, &work_us, &section_us)) {
        look_at_thread(pace, page, pid, now_ns);
    }
}

/* ---- reporting ---- */

/* Pings, or where it has reported steps those, in 1000 s. */
static uint32_t rate_of(const struct mst_pace *pace, bool stepped)
{
    uint64_t pings = pace->last.pings - pace->first.pings;
    uint64_t steps = stepped && pace->last.step > pace->first.step
                         ? (uint64_t)pace->last.step - (uint64_t)pace->first.step
                         : 0;
    uint64_t span_ns = pace->last.at_ns - pace->first.at_ns;
    uint64_t still_ns = pace->looked_ns - pace->last.at_ns;

    if (pings == 0 || span_ns == 0) {
        return 0;
    }
    span_ns += still_ns > 2 * (span_ns / pings) ? still_ns : 0;
    return clamp((stepped ? steps : pings) * (THOUSAND * THOUSAND) / (span_ns / NS_PER_MS + 1));
}

static void report_work(const struct mst_pace *pace, const struct mst_page *page,
                        struct mst_rank_progress *out)
{
    uint64_t pings = rate_of(pace, false);
    uint32_t work_us, section_us;

    if (mst_page_measured(page, &work_us, &section_us)) {
        out->work = section_us > 0 ? MST_WORK_SECTIONS : MST_WORK_WAITS;
        out->work_us = section_us > 0 ? section_us : work_us;
    } else if (pace->cpu_us[0] > 0 && pace->cpu_us[1] > 0) {
        out->work = MST_WORK_CPU;
        out->work_us = pace->cpu_us[0] < pace->cpu_us[1] ? pace->cpu_us[0] : pace->cpu_us[1];
    }
    /* us of a ping, pings in 1000 s: its part of the time in 1/1000 */
    out->share = clamp(out->work_us * pings / (THOUSAND * THOUSAND));
}

bool mst_pace_report(const struct mst_pace *pace, const struct mst_page *page,
                     char section[MST_PACE_SECTION], struct mst_rank_progress *out)
{
    uint64_t turn = atomic_load(&page->turn);
    bool stepped = pace->last.step != MST_PAGE_NO_STEP;

    if (turn % 8 != MST_PHASE_FUNCTION || turn != pace->turn) {
        return false;
    }
    *out = (struct mst_rank_progress){
        .generation = atomic_load(&page->generation),
        .step = stepped ? pace->last.step
                        : (int64_t)(pace->last.pings - atomic_load(&page->start_pings)),
        .stepped = stepped,
        .rate = rate_of(pace, stepped),
        .repeated = stepped ? clamp(atomic_load(&page->repeated)) : 0,
        .quiet_ms = clamp((pace->looked_ns - pace->quiet_ns) / NS_PER_MS),
    };
    if (atomic_load(&page->section) % 2 != 0) {
        memcpy(section, page->section_name, MST_PACE_SECTION);
        out->section = mst_slice_of(section, strnlen(section, MST_PACE_SECTION));
    }
    report_work(pace, page, out);
    return true;
}
