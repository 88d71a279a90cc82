/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_MONITOR_H
#define MST_LAUNCH_HANG_MONITOR_H

/* Watches a set of processes by their progress pages: finds those without progress (restart/hang.h
 * says when), names the suspect among them, and ends those that made none for too long: SIGTERM,
 * after the grace time SIGKILL, again and again until the caller removes it because it is gone. A
 * stopped one is continued, or it could not die politely.
 *
 * It has no loop and no thread: the caller looks when it is told to. Before anything is counted
 * that is ten times a second, without a watched process it is never. */

#include <sys/types.h>

#include "base/slice.h"
#include "launch/hang/pace.h"
#include "process/page.h"
#include "restart/hang.h"

/* One process: the caller's memory, which stays until it is removed. */
struct mst_watched {
    /* Set by the caller, the others zero. */
    uint64_t tag;   /* for the caller */
    uint32_t index; /* the rank's place */
    struct mst_page *page;
    pid_t pid; /* that was started; page->pid is its own word */
    int pidfd; /* signals go there where the events have no `send`; else -1 */

    unsigned mark; /* suspect.c: while ranks are compared */

    /* For the caller to read: */
    int ended_by; /* the last signal it was ended by; 0: it was not */
    struct mst_hang_finding hard;

    /* The monitor's own. */
    struct mst_watched *next;
    struct mst_hang hang;
    struct mst_hang_finding found;            /* by the last look, and not acted on yet */
    uint64_t generation, moved_ns, moved_sum; /* when its counters last changed, and to what */
    uint64_t cpu_ns, cpu_at_ns;               /* of its thread, in the middle of a standstill */
    uint64_t signal_ns;                       /* when it gets the next one */
    uint64_t again_ns;                        /* and then how often */
    struct mst_pace pace;
};

/* The process that opened the client, or before that the one that was started. */
static inline pid_t mst_watched_pid(const struct mst_watched *one)
{
    uint64_t pid = atomic_load(&one->page->pid);

    return pid != 0 ? (pid_t)pid : one->pid;
}

/* Texts are one line, borrowed for the call. `add` and `remove` may be called from all of them. */
struct mst_monitor_events {
    /* The ranks of its generation stand still, as `one` does, and the suspect is why, as far as
     * can be told: "made no progress for 60.0 s: 50 pings in this attempt, others 51; blocked in
     * futex (sleeping)", which goes after its name. NULL: nothing tells the ranks apart; the text
     * goes after "the ranks". Once for a generation. */
    void (*soft)(void *ctx, struct mst_watched *suspect, struct mst_watched *one, const char *text);
    /* All of its generation that are watched here wait in muster, one perhaps being silent instead
     * (launch/hang/suspect.h), and there are more of them. True: so do those, and one of all at
     * most is silent; `text` says for what they wait. May be NULL: that is not known. */
    bool (*waits)(void *ctx, const struct mst_watched *one, uint64_t now_ns, char *text,
                  size_t room);
    /* It is about to get SIGTERM. False: it is dead already, or is not to be ended. */
    bool (*hard)(void *ctx, struct mst_watched *one, const char *text);
    /* Sends it a signal, and makes it run if it is stopped. NULL: it goes to the pidfd. */
    void (*send)(void *ctx, struct mst_watched *one, int number);
    void *ctx;
};

struct mst_monitor {
    struct mst_monitor_events events;
    struct mst_watched *first;
    uint64_t said_generation;    /* the last one that was said to stand still */
    uint64_t over_generation;    /* the last one that is known to be over: no rank waits in it */
    uint64_t looked_ns, next_ns; /* the last look, and when the next one was to be */
    bool held; /* the caller's: from now on no limit runs, as what is known could not be told */
};

void mst_monitor_init(struct mst_monitor *monitor, const struct mst_monitor_events *events);

/* Looks at all of them, on the monotonic clock. Returns when to look again; UINT64_MAX: none is
 * watched. */
uint64_t mst_monitor_look(struct mst_monitor *monitor, uint64_t now_ns);

/* Watches it from now on, whatever it did before; looks must begin again if there were none. */
void mst_monitor_add(struct mst_monitor *monitor, struct mst_watched *one);

/* One that is not watched is a no-op. */
void mst_monitor_remove(struct mst_monitor *monitor, struct mst_watched *one);

/* Forgets all of them. */
void mst_monitor_stop(struct mst_monitor *monitor);

/* An array of a page: the rank may write it at this moment. */
#define MST_PAGE_TEXT(array) mst_slice_of(array, strnlen(array, sizeof(array)))

/* What a rank or another agent wrote, for people: as far as there is room, and printable. */
void mst_monitor_name(struct mst_slice from, char *name, size_t room);

/* What it was ended for: "made no progress for 90.0 s". */
void mst_monitor_why(const struct mst_hang_finding *hard, char *text, size_t room);

#endif
