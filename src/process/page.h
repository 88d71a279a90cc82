/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_PAGE_H
#define MST_PROCESS_PAGE_H

/* The progress page: a few words of memory shared by one rank process and its agent only. The agent
 * makes one for each process it starts; its descriptor's number reaches the process in
 * MUSTER_PAGE_FD.
 *
 * The process says in it how far it is, with plain atomic stores that cost nanoseconds. And it
 * holds `alive`, a robust mutex: the kernel releases that when the holding thread ends, before the
 * memory of the process is torn down, which for a large process is seconds earlier than a closed
 * socket or a readable pidfd (process/death.h waits for it). */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

/* The work of each step, as the function's thread measures it: at both ends of a wait in muster and
 * of a declared section it adds the time since the last of these. The first of them after a ping
 * ends a step, so a step always ends at the same place of a loop. Costs two looks at the clock for
 * a wait or a section, and nothing for a ping. */
#define MST_METER_STEPS 16u
struct mst_page_meter {
    _Atomic uint64_t turn;    /* in which it was measured */
    _Atomic uint64_t marks;   /* steps that were measured in this turn, and... */
    _Atomic uint64_t covered; /* ...the pings in them */
    /* Of one ping in microseconds; a step is at its number modulo the room: the time outside waits,
     * and of that the part in declared sections. */
    _Atomic uint32_t work_us[MST_METER_STEPS], section_us[MST_METER_STEPS];
    uint64_t at_ns, pings, work_ns, section_ns; /* of the step so far; the rank's own */
};

struct mst_page {
    uint32_t version;
    uint32_t size; /* of this structure, as the one who made the page knew it */
    pthread_mutex_t alive;
    /* Written by the rank, read by the agent; relaxed. */
    _Atomic uint64_t pid;        /* of the process that holds or last held `alive` */
    _Atomic uint64_t generation; /* the last one it was sealed into */
    _Atomic uint64_t thread;     /* the function's, as the kernel counts them; 0: none yet */

    /* What hang detection looks at (restart/hang.h says how). The limits are set before the first
     * `turn` of a run; soft_ms 0: nothing is looked for. */
    _Atomic int64_t soft_ms, hard_ms, grace_ms; /* -1: never */
    _Atomic uint32_t from_start;                /* the clock begins with the function */
    _Atomic uint64_t turn;    /* grows with each change of phase: count * 8 + enum mst_page_phase */
    _Atomic uint64_t told;    /* the turn in which the function was told to stop */
    _Atomic uint64_t entered; /* times the wrapped function was entered */
    _Atomic uint64_t checks;  /* calls of muster but the next; of the whole life, as all counters */
    _Atomic uint64_t pings;   /* muster_restart_ping and _step */
    _Atomic int64_t step;     /* the last one told in this attempt; MST_PAGE_NO_STEP */
    _Atomic uint64_t atomic;  /* odd: inside an atomic section; grows at each end of one */
    _Atomic uint64_t section; /* odd: inside a declared section; changes at each */
    _Atomic int64_t section_limit_ms; /* -1: none */
    char section_name[32];            /* for people: may be torn; its last byte is always 0 */
    /* The counters as the turn `start_turn` began (mst_page_turn). */
    _Atomic uint64_t start_turn, start_checks, start_pings;

    _Atomic uint64_t runs_failed; /* runs that ended with an error that is the same on all ranks */
    char failure[256];            /* why, in one line; written before runs_failed grows */
    /* Those of them that muster_restart_abort ended; grows before runs_failed does. */
    _Atomic uint64_t aborts;
    _Atomic uint64_t left;     /* 1: it left the job for good, by muster_restart_leave or exit(0) */
    _Atomic uint64_t preempts; /* 1: muster_preempt_open was called; 2: and _close since */
    _Atomic uint32_t rank;     /* in `generation`, and written before it; UINT32_MAX: in none */
    _Atomic uint32_t exited; /* 1 and the status of exit() in the function; 0: of none that fails */

    /* Written by the agent: before it starts the process, and before its first signal that ends the
     * process, which is never taken back. */
    _Atomic uint64_t agent, agent_start; /* its pid, and when it was started; 0: it is no parent */
    _Atomic uint32_t ends; /* 1: a signal that comes now is the agent's, and no notice */

    /* Added later than the version (MST_PAGE_SIZE_MIN), and the rank's again. */
    _Atomic uint32_t ranks; /* of `generation`, and written before it; 0: not known */
    /* Odd: the function's thread blocks in a call of muster. Grows at both ends of that. */
    _Atomic uint64_t waits;
    char waits_for[64]; /* "barrier 'step'", for people: may be torn; its last byte is always 0 */
    _Atomic uint64_t
        start; /* of `pid` (process/proc_stat.h), and written before it; 0: not known */
    struct mst_page_meter meter;
    /* The last step that an earlier attempt in this place reached, MST_PAGE_NO_STEP: none; the
     * agent writes it before it starts the process. And how many steps this attempt does again. */
    _Atomic int64_t reached;
    _Atomic uint64_t repeated;
};

/* Where the rank stands in muster_restart_run. */
enum mst_page_phase {
    MST_PHASE_OUTSIDE = 0,
    MST_PHASE_BEFORE = 1, /* initialize, and the health check before the function */
    MST_PHASE_FUNCTION = 2,
    MST_PHASE_AFTER = 3, /* abort, finalize, and the health check after a fault */
    MST_PHASE_WAITS = 4  /* in muster, for the others */
};

#define MST_PAGE_VERSION 2u
#define MST_PAGE_NO_STEP INT64_MIN

/* What a page of this version has at least. Fields are only added behind: one side may be older
 * than the other, and reads 0 in, or never looks at, what it or the other does not know. */
#define MST_PAGE_SIZE_MIN offsetof(struct mst_page, ranks)

/* The agent: a new page and its descriptor, close-on-exec, both owned by the caller. EFAILED with
 * errno set when the system gives none. */
muster_status mst_page_create(struct mst_page **out, int *fd_out);

/* The rank: maps the page behind `fd`, which stays open and the caller's. EINVAL when this is no
 * page of ours: then there is no agent, and all goes on without one. */
muster_status mst_page_map(struct mst_page **out, int fd);

void mst_page_unmap(struct mst_page *page); /* NULL: no-op */

/* From now on the death of the calling thread is known to the agent at once. False, and nothing
 * changed, when another process or thread holds the page (the parent of a forked child does) or
 * the one that held it died: such a page belongs to a process that was given up. */
bool mst_page_hold(struct mst_page *page);

/* Called by the thread that holds it: its end is no death any more. */
void mst_page_release(struct mst_page *page);

/* Whether somebody holds the page, or died holding it. */
bool mst_page_held(const struct mst_page *page);
bool mst_page_died(const struct mst_page *page);

/* The rank: the next turn begins, with what was counted until now. */
void mst_page_turn(struct mst_page *page, enum mst_page_phase phase);

/* The last step that was reported in it, or in an attempt before; MST_PAGE_NO_STEP: none. */
int64_t mst_page_reached(const struct mst_page *page);

/* The rank: an attempt begins, before `generation` is that of the attempt; and its first step. */
void mst_page_attempt(struct mst_page *page);
void mst_page_first_step(struct mst_page *page, int64_t step);

/* The rank: its function's thread begins to wait in muster for something (NULL: it has no name),
 * and is done with that. They do not nest. */
void mst_page_wait_begin(struct mst_page *page, const char *what);
void mst_page_wait_end(struct mst_page *page);

/* The rank's function's thread: a wait or a declared section is about to begin or end at this
 * moment of the monotonic clock. mst_page_wait_begin and _end call it themselves. */
void mst_page_measure(struct mst_page *page, uint64_t now_ns);

/* The agent: the medians of the steps that were measured in the present turn, at most the last
 * MST_METER_STEPS; a loop that has no sections has none in `section_us_out`. False: fewer than
 * MST_METER_LEAST, or with so many pings between two that other waits must lie in between. */
#define MST_METER_LEAST 8u
bool mst_page_measured(const struct mst_page *page, uint32_t *work_us_out,
                       uint32_t *section_us_out);

/* The futex word of `alive`: the holder's thread id and the kernel's two bits. */
_Atomic uint32_t *mst_page_word(struct mst_page *page);

#endif
