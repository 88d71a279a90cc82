/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/hang/monitor.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "base/time.h"
#include "launch/hang/diagnose.h"
#include "launch/hang/suspect.h"

#define LOOK_MS_MIN 5u
#define LOOK_MS_MAX 500u /* while something is counted */
#define LOOK_MS_IDLE 100u
#define AGAIN_MS_MIN 5u /* SIGKILL */
#define AGAIN_MS_MAX 500u
#define GRACE_MS_MAX 3600000
#define TEXT_MAX 384

/* ---- looking ---- */

/* The counters of the start come first: those of now are at least as many. */
static struct mst_hang_sample sample_of(struct mst_page *page)
{
    struct mst_hang_sample sample = {
        .turn = atomic_load(&page->turn),
        .soft_ms = atomic_load(&page->soft_ms),
        .hard_ms = atomic_load(&page->hard_ms),
        .section_limit_ms = atomic_load(&page->section_limit_ms),
        .from_start = atomic_load(&page->from_start) != 0,
    };

    sample.checks_start = atomic_load(&page->start_checks);
    sample.pings_start = atomic_load(&page->start_pings);
    sample.start_known = atomic_load(&page->start_turn) == sample.turn;
    sample.told = atomic_load(&page->told);
    sample.waits = atomic_load(&page->waits);
    sample.atomic = atomic_load(&page->atomic);
    sample.section = atomic_load(&page->section);
    sample.checks = atomic_load(&page->checks);
    sample.pings = atomic_load(&page->pings);
    return sample;
}

/* In the middle of a standstill the processor time is taken, so that at its end it can be told
 * whether the thread used any. */
static void look_at_cpu(struct mst_watched *one, uint64_t now_ns)
{
    const struct mst_hang_sample *page = &one->hang.last;
    uint64_t sum =
        page->turn + page->checks + page->pings + page->atomic + page->section + page->waits;
    uint64_t soft_ns = page->soft_ms > 0 ? (uint64_t)page->soft_ms * NS_PER_MS : 0;
    uint64_t pings, checks;

    if (sum != one->moved_sum || one->moved_ns == 0) {
        one->moved_sum = sum;
        one->moved_ns = now_ns;
        one->cpu_at_ns = 0;
    } else if (one->cpu_at_ns == 0 && soft_ns != 0 && now_ns - one->moved_ns >= soft_ns / 4 &&
               mst_hang_stands(&one->hang, &pings, &checks) &&
               mst_diagnose_cpu(mst_watched_pid(one), atomic_load(&one->page->thread),
                                &one->cpu_ns)) {
        one->cpu_at_ns = now_ns;
    }
}

static void look(const struct mst_monitor *monitor, struct mst_watched *one, uint64_t now_ns)
{
    uint64_t generation = atomic_load(&one->page->generation); /* first: it is written first */
    struct mst_hang_sample sample = sample_of(one->page);

    one->generation = generation;
    if (generation <= monitor->over_generation) {
        sample.waits = 0; /* its wait was cut short, or it does not run and cannot be */
    }
    if (monitor->held && monitor->looked_ns != 0) {
        mst_hang_pause(&one->hang, now_ns - monitor->looked_ns);
    } else if (mst_hang_deadline_ns(&one->hang) == UINT64_MAX && now_ns > monitor->next_ns &&
               monitor->next_ns != 0) {
        mst_hang_pause(&one->hang, now_ns - monitor->next_ns); /* it asked for no look itself */
    }
    one->found = mst_hang_look(&one->hang, now_ns, &sample);
    look_at_cpu(one, now_ns);
    mst_pace_look(&one->pace, one->page, mst_watched_pid(one), now_ns);
}

static void look_at_all(struct mst_monitor *monitor, uint64_t now_ns)
{
    uint64_t over = monitor->said_generation;

    for (struct mst_watched *one = monitor->first; one != NULL; one = one->next) {
        const struct mst_hang_sample *page = &one->hang.last;

        if (one->signal_ns == 0) {
            look(monitor, one, now_ns);
        }
        if (page->turn != 0 && (page->told == page->turn || page->turn % 8 == MST_PHASE_AFTER)) {
            over = mst_later(over, one->generation); /* the rank knows that its attempt is over */
        }
    }
    monitor->over_generation = mst_later(monitor->over_generation, over);
}

/* ---- words ---- */

void mst_monitor_name(struct mst_slice from, char *name, size_t room)
{
    size_t size = from.size < room - 1 ? from.size : room - 1;

    for (size_t i = 0; i < size; i++) {
        char byte = ((const char *)from.data)[i];
        bool shown = (unsigned char)byte >= ' ' && byte != 127;

        name[i] = (char)(shown ? byte : '?');
    }
    name[size] = '\0';
}

/* A section that is over its limit is the rank's own doing. */
static void tell_section(const struct mst_watched *stalled, uint64_t now_ns, struct mst_text *text)
{
    char place[112], name[sizeof stalled->page->section_name];

    mst_suspect_place(stalled, now_ns, place, sizeof place);
    if (stalled->found.reason == MST_HANG_SECTION) {
        mst_monitor_name(MST_PAGE_TEXT(stalled->page->section_name), name, sizeof name);
        mst_text_format(text, "was in the section %s for longer than its limit of " MST_SECONDS,
                        name, MST_SECONDS_ARGS(stalled->hang.last.section_limit_ms));
    } else {
        mst_text_format(text, "was in an atomic section for " MST_SECONDS,
                        MST_SECONDS_ARGS(stalled->found.since_ms));
    }
    mst_text_format(text, "; %s", place);
}

void mst_monitor_why(const struct mst_hang_finding *hard, char *text, size_t room)
{
    static const struct {
        const char *before, *after;
    } words[] = {
        [MST_HANG_PROGRESS] = {"made no progress for", ""},
        [MST_HANG_SECTION] = {"was in a section for", ""},
        [MST_HANG_ATOMIC] = {"was in an atomic section for", ""},
        [MST_HANG_TOLD] = {"did not return within", " after it was told to stop"},
        [MST_HANG_AFTER] = {"spent", " in abort, finalize and health check"},
    };

    mst_text_print(text, room, "%s " MST_SECONDS "%s", words[hard->reason].before,
                   MST_SECONDS_ARGS(hard->since_ms), words[hard->reason].after);
}

/* ---- soft ---- */

static void act_soft(struct mst_monitor *monitor, struct mst_watched *stalled, uint64_t now_ns)
{
    struct mst_watched *suspect = stalled;
    char text[TEXT_MAX];
    struct mst_text line = mst_text_in(text, sizeof text);

    if (stalled->generation == monitor->said_generation) {
        return;
    }
    monitor->said_generation = stalled->generation;
    if (stalled->found.reason == MST_HANG_PROGRESS) {
        suspect = mst_suspect_of(monitor, stalled, now_ns, text, sizeof text);
    } else {
        tell_section(stalled, now_ns, &line);
    }
    monitor->events.soft(monitor->events.ctx, suspect, stalled, text);
}

/* Those that other agents watch. */
static bool others_wait(const struct mst_monitor *monitor, const struct mst_watched *last,
                        const struct mst_watched *silent, uint64_t now_ns, char *text, size_t room)
{
    const struct mst_watched *one = silent != NULL ? silent : last;
    uint64_t since_ns;
    char place[112];
    size_t used;

    if (monitor->events.waits == NULL) {
        return false;
    }
    if (!mst_hang_waits(&one->hang, &since_ns)) {
        (void)mst_hang_silent(&one->hang, &since_ns);
    }
    used = mst_text_print(text, room, "made no progress for " MST_SECONDS ": ",
                          MST_SECONDS_ARGS(since_ns / NS_PER_MS));
    if (!monitor->events.waits(monitor->events.ctx, one, now_ns, text + used, room - used)) {
        return false;
    }
    if (silent != NULL) {
        used = strlen(text);
        mst_suspect_place(silent, now_ns, place, sizeof place);
        (void)snprintf(text + used, room - used, "; %s", place);
    }
    return true;
}

static struct mst_watched *newest(const struct mst_monitor *monitor)
{
    struct mst_watched *last = NULL;

    for (struct mst_watched *one = monitor->first; one != NULL; one = one->next) {
        last = last == NULL || one->generation > last->generation ? one : last;
    }
    return last;
}

/* A rank that waits in muster has no clock, nor has one that never called it where no limit was
 * set. So no clock finds ranks that all wait, each for another one, or all for a silent one. */
static void look_at_waits(struct mst_monitor *monitor, uint64_t now_ns)
{
    struct mst_watched *suspect = NULL, *silent, *last = newest(monitor);
    char text[TEXT_MAX];
    uint32_t count;
    bool all;

    if (last == NULL || last->generation <= monitor->over_generation) {
        return;
    }
    count = mst_suspect_waiting(monitor, last->generation, &silent);
    all = count == atomic_load(&last->page->ranks);
    if (count == 0 || (all && silent != NULL && !mst_suspect_calls(monitor, last->generation)) ||
        (!all && !others_wait(monitor, last, silent, now_ns, text, sizeof text))) {
        return;
    }
    if (all && silent == NULL) {
        suspect = mst_suspect_of_waiting(monitor, last->generation, now_ns, text, sizeof text);
    } else if (silent != NULL) {
        suspect = silent;
        mst_hang_await(&silent->hang);
    }
    if (all && silent != NULL) {
        mst_suspect_tell_silent(monitor, silent, now_ns, text, sizeof text);
    }
    monitor->said_generation = last->generation;
    monitor->events.soft(monitor->events.ctx, suspect, last, text);
}

/* ---- hard ---- */

static void send_signal(struct mst_monitor *monitor, struct mst_watched *one, int number)
{
    one->ended_by = number;
    atomic_store(&one->page->ends, 1); /* first: it is not to take the signal for a notice */
    if (monitor->events.send != NULL) {
        monitor->events.send(monitor->events.ctx, one, number);
    } else if (one->pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, one->pidfd, number, NULL, 0);
        (void)syscall(SYS_pidfd_send_signal, one->pidfd, SIGCONT, NULL, 0);
    }
}

static void act_hard(struct mst_monitor *monitor, struct mst_watched *one, uint64_t now_ns)
{
    int64_t grace_ms = atomic_load(&one->page->grace_ms);
    char text[TEXT_MAX], why[96], place[112];

    mst_monitor_why(&one->found, why, sizeof why);
    mst_suspect_place(one, now_ns, place, sizeof place);
    (void)snprintf(text, sizeof text, "%s; %s", why, place);
    one->hard = one->found;
    if (!monitor->events.hard(monitor->events.ctx, one, text)) {
        return;
    }
    grace_ms = grace_ms < GRACE_MS_MAX ? grace_ms : GRACE_MS_MAX;
    one->signal_ns = now_ns + (grace_ms > 0 ? (uint64_t)grace_ms * NS_PER_MS : 0);
    one->again_ns = AGAIN_MS_MIN * NS_PER_MS;
    send_signal(monitor, one, SIGTERM);
}

/* ---- all of them ---- */

static uint64_t next_look_ns(const struct mst_monitor *monitor, uint64_t now_ns)
{
    uint64_t next_ns = NEVER;

    if (monitor->first == NULL) {
        return NEVER;
    }
    for (const struct mst_watched *one = monitor->first; one != NULL; one = one->next) {
        next_ns = mst_sooner(next_ns, one->signal_ns != 0 ? one->signal_ns
                                                          : mst_hang_deadline_ns(&one->hang));
    }
    if (next_ns == NEVER) {
        return now_ns + LOOK_MS_IDLE * NS_PER_MS;
    }
    next_ns = mst_sooner(next_ns, now_ns + LOOK_MS_MAX * NS_PER_MS);
    return mst_later(next_ns, now_ns + LOOK_MS_MIN * NS_PER_MS);
}

/* One of those that something is to be done about; events may have removed any. */
static bool act_on_one(struct mst_monitor *monitor, uint64_t now_ns)
{
    for (struct mst_watched *one = monitor->first; one != NULL; one = one->next) {
        enum mst_hang_verdict verdict = one->found.verdict;

        if (one->signal_ns != 0 && one->signal_ns <= now_ns) {
            one->signal_ns = now_ns + one->again_ns;
            one->again_ns *= one->again_ns < AGAIN_MS_MAX * NS_PER_MS ? 2 : 1;
            send_signal(monitor, one, SIGKILL);
            return true;
        }
        if (verdict == MST_HANG_SOFT) {
            act_soft(monitor, one, now_ns);
        } else if (verdict == MST_HANG_HARD) {
            act_hard(monitor, one, now_ns);
        }
        if (verdict != MST_HANG_NONE) {
            one->found.verdict = MST_HANG_NONE;
            return true;
        }
    }
    return false;
}

uint64_t mst_monitor_look(struct mst_monitor *monitor, uint64_t now_ns)
{
    look_at_all(monitor, now_ns);
    monitor->looked_ns = now_ns;
    while (act_on_one(monitor, now_ns)) {
    }
    look_at_waits(monitor, now_ns);
    monitor->next_ns = next_look_ns(monitor, now_ns);
    return monitor->next_ns;
}

/* ---- the watched ---- */

void mst_monitor_init(struct mst_monitor *monitor, const struct mst_monitor_events *events)
{
    *monitor = (struct mst_monitor){.events = *events};
}

void mst_monitor_add(struct mst_monitor *monitor, struct mst_watched *one)
{
    mst_hang_init(&one->hang);
    one->next = monitor->first;
    monitor->first = one;
}

void mst_monitor_remove(struct mst_monitor *monitor, struct mst_watched *one)
{
    struct mst_watched **link = &monitor->first;

    while (*link != NULL && *link != one) {
        link = &(*link)->next;
    }
    if (*link == one) {
        *link = one->next;
        one->next = NULL;
    }
}

void mst_monitor_stop(struct mst_monitor *monitor)
{
    while (monitor->first != NULL) {
        mst_monitor_remove(monitor, monitor->first);
    }
}
