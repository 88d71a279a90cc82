/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_HANG_H
#define MST_RESTART_HANG_H

/* Whether a rank makes progress, decided from its progress page, on the clock of the process
 * that watches it. Pure: the agent samples the page and passes the time; so does the simulator.
 *
 *   phase          the clock of no progress runs since                       soft        hard
 *   before, fn     the last change of pings, once one came in this phase;    soft_ms     hard_ms
 *                  else of checks, once one came; else the start of the
 *                  phase if from_start; else it does not run, until
 *                  mst_hang_await. Not before the end of the last section
 *   in a section   its beginning, instead                       limit   limit + hard_ms - soft_ms
 *   in an atomic   its beginning, instead of both                            soft_ms     hard_ms
 *   fn was told    when that was first seen, whatever is counted since,      -           hard_ms
 *                  and what runs above goes on
 *   after          its beginning                                             -           hard_ms
 *   outside, waits it does not run
 *
 * Of several clocks the first to reach its limit counts. The time in an atomic section is taken off
 * the clock of progress. So is the time in which the function's thread waits in a call of muster,
 * off that of a section too: it waits for another rank, or for the service. What is taken off are
 * the times between two looks of which one saw it wait. soft is said once per attempt, and not to a
 * rank that was interrupted already.
 *
 * A watcher that was itself stopped blames no rank: how late a look is, measured against the time
 * it asked for, is taken off all clocks. While a clock runs it asks for a look after an eighth of
 * the limit at the latest, or else a stop that ends just before a limit would go unseen. */

#include <stdbool.h>
#include <stdint.h>

struct mst_hang_sample {
    uint64_t turn, told, checks, pings, atomic, section, waits;
    int64_t soft_ms, hard_ms, section_limit_ms; /* -1: never; soft_ms 0: nothing is looked for */
    bool from_start;
    /* The counters as the turn began. Unknown: those at the first look at it, so that calls which
     * came sooner are not heeded. */
    bool start_known;
    uint64_t checks_start, pings_start;
};

enum mst_hang_verdict { MST_HANG_NONE = 0, MST_HANG_SOFT = 1, MST_HANG_HARD = 2 };

/* Which row of the table it was. */
enum mst_hang_reason {
    MST_HANG_PROGRESS = 1,
    MST_HANG_SECTION = 2,
    MST_HANG_ATOMIC = 3,
    MST_HANG_TOLD = 4,
    MST_HANG_AFTER = 5
};

struct mst_hang {
    struct mst_hang_sample last;
    /* When it changed. */
    uint64_t turn_ns, checks_ns, pings_ns, atomic_ns, section_ns, told_ns, waits_ns;
    /* Since when it has not pinged, and of two looks in a row one saw it wait. */
    uint64_t excused_ns;
    uint64_t checks_start, pings_start; /* at the start of the phase */
    uint64_t looked_ns;                 /* the last look */
    uint64_t asked_ns;                  /* for the next look */
    bool awaited;                       /* in this turn: mst_hang_await */
    bool soft_said, hard_said;
};

struct mst_hang_finding {
    enum mst_hang_verdict verdict;
    enum mst_hang_reason reason;
    uint64_t since_ms; /* how long there was no progress */
    uint64_t count;    /* pings, or else checks, of this phase */
    bool never;        /* neither came in it */
};

void mst_hang_init(struct mst_hang *hang);

/* Looks now. Each verdict is found once: soft in an attempt, hard in a life. */
struct mst_hang_finding mst_hang_look(struct mst_hang *hang, uint64_t now_ns,
                                      const struct mst_hang_sample *sample);

/* The last `ns` before the look that follows are taken off all clocks. */
void mst_hang_pause(struct mst_hang *hang, uint64_t ns);

/* When to look again at the latest; UINT64_MAX: never, as nothing can be found before the page
 * changes, and that is looked for as often as the caller likes. */
uint64_t mst_hang_deadline_ns(const struct mst_hang *hang);

/* How often the function called muster since it was entered, as of the last look: by pings, and by
 * its other calls. False, with both 0, where it is not in the function or on the way into it. */
bool mst_hang_stands(const struct mst_hang *hang, uint64_t *pings_out, uint64_t *checks_out);

/* As of the last look, whether it waits in muster: in the function or on the way into it in a call
 * that was not cut short, or else for the others. `*since_ns_out`: for how long, in one and the
 * same wait. For a rank that pinged in this phase also in a row of short waits: since its last
 * ping, as long as its clock stood still for the waits. */
bool mst_hang_waits(const struct mst_hang *hang, uint64_t *since_ns_out);

/* As of the last look, whether it is in the function or on the way into it, has not called muster
 * there, and has no clock for that reason. `*since_ns_out`: for how long. */
bool mst_hang_silent(const struct mst_hang *hang, uint64_t *since_ns_out);

/* All others wait for this silent rank, and soft was said of it: from now on its clock runs, as if
 * it had begun soft_ms before the last look. */
void mst_hang_await(struct mst_hang *hang);

#endif
