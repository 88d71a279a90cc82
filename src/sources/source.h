/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_SOURCE_H
#define MST_SOURCES_SOURCE_H

/* What can know that this node is about to be taken away: one descriptor each, and one question,
 * "what do you know now?". A source may take its time with the answer, or hang: it is asked on a
 * thread of its own (sources.h), so no caller waits, and it needs neither callbacks nor a
 * loop.
 *
 * UNKNOWN is not "all clear": after a timeout, a refused connection or an answer that makes no
 * sense, what was known before holds. Only NOTHING takes a notice back. A source that knows several
 * notices reports the worst one: certain before advisory, then the first deadline.
 *
 * What reads replies is in files *_words.c, which are pure: they take bytes and give a notice, so
 * that hostile ones can be given to them by tests. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MST_SOURCE_REASON_ROOM 256u

struct mst_source_notice {
    int64_t left_ms; /* from now to the end, 0: now; -1: not known */
    bool relative;   /* given as a duration: when it is repeated the first one counts */
    bool advisory;   /* reported only */
    bool whole_job;  /* it is not this node alone */
    /* One line for people (mst_source_reason makes one of any bytes). Of UNKNOWN: why. */
    char reason[MST_SOURCE_REASON_ROOM];
};

enum mst_source_answer {
    MST_SOURCE_UNKNOWN = 0,
    MST_SOURCE_NOTHING = 1, /* nothing is announced */
    MST_SOURCE_NOTICE = 2
};

/* What a source is opened with. What it points to is there until `close`. */
struct mst_source_setup {
    const char *argument; /* what stands behind '=' in the list; NULL: nothing */
    /* Readable once the source is to end: a look that blocks for longer than a second polls it too.
     */
    int stop_fd;
    int64_t period_ms; /* between two looks, as the user wants it */
    int64_t margin_ms; /* how long before a known end it is reported */
    int64_t age_ms;    /* of the run: from its beginning a duration that is its end counts */
    /* One line for the user, at once; at most a few in the life of a source. Thread: any. */
    void (*say)(void *ctx, const char *line);
    void *say_ctx;
};

struct mst_source_kind {
    const char *name;
    const char
        *argument; /* what has to stand behind '=': "PATH"; "[URL]": what may; NULL: nothing may */
    const char *help;  /* one line: what is looked at, and how */
    int64_t period_ms; /* between the end of a look and the next; 0: the setup's */
    bool has_child;    /* a look that is cut short has something to end, which is waited for */

    /* In the thread of the owner, must not block. False: it cannot run here, and `why` says in one
     * line what to do; nothing is left to be closed. */
    bool (*open)(void **out, const struct mst_source_setup *setup, char *why, size_t room);

    /* On the thread of the source, which has all signals blocked. Fills `out` unless NOTHING. */
    enum mst_source_answer (*look)(void *own, struct mst_source_notice *out);

    /* After the last look; on the source's thread, or on the owner's if there never was a look. */
    void (*close)(void *own);
};

/* Those that are asked. "signals" is none of them: the owner catches those. */
#define X(NAME, name) extern const struct mst_source_kind mst_source_##name;
#include "proto/sources.def"
#undef X

#endif
