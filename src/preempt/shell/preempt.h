/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PREEMPT_SHELL_PREEMPT_H
#define MST_PREEMPT_SHELL_PREEMPT_H

/* The insides of a muster_preempt, for the files of this folder.
 *
 *   preempt.c  the machine's effects, the gate, the hook, opening and closing
 *   calls.c    reached, saved, holds, what is known
 *   exit.c     waiting for the end of the ranks with a notice
 *   publish.c  giving a notice and taking it back
 *   sources.c  the user's own sources
 *   options.c  what a handle was given
 *   words.c    log lines and errors
 *
 * The gate. A caller stores the step it asks for, then loads the limit. The closing thread stores
 * the limit, makes the kernel run a barrier on every thread of the process, and loads the step. So
 * either the caller sees the closed gate, or its step is seen here: no step is answered GO_ON
 * behind what this member contributes. That takes the barrier off the caller, for whom a compiler's
 * is enough; where the kernel has no such call the caller's store is a locked exchange. */

#include <stdatomic.h>

#include "client/shell/handle.h"
#include "client/shell/host.h"
#include "client/shell/signals.h"
#include "muster/preempt.h"
#include "preempt/preempt.h"
#include "preempt/shell/publish.h"
#include "process/page.h"

/* The limits that are no step. */
#define MST_GATE_OPEN INT64_MAX
#define MST_GATE_SLOW INT64_MIN /* closed, or to STOP: see the lock */

enum { MST_PREEMPT_NAMES_ROOM = 512, MST_PREEMPT_HOLDS_MAX = 1000 };

/* What a handle was given: the options, else the environment, else the defaults. */
struct mst_preempt_settings {
    struct muster_preempt_options options; /* as given */
    struct mst_preempt_config config;
    int64_t grace_ms;
    uint64_t signals; /* bit s - 1: signal s */
    /* What others do for this process: MUSTER_PREEMPT_SOURCES; NULL: not set. Borrowed. */
    const char *elsewhere;
};

struct mst_preempt_exit; /* exit.c: a waiting call */

struct muster_preempt {
    struct mst_machine_host host; /* of struct mst_preempt; first: the hook's */

    /* Read and written without the lock by the callers. */
    _Atomic int64_t limit;
    _Atomic int64_t last;               /* the largest step that was asked for */
    _Atomic(_Atomic uint64_t *) checks; /* of the page: a sign of life */
    _Atomic uint64_t own_checks;        /* where there is no page */
    bool exchanges;                     /* constant, as what follows */
    pid_t pid;
    struct mst_preempt_settings settings;
    char sources_text[MST_PREEMPT_NAMES_ROOM];
    struct mst_preempt_sources *sources; /* the opener's; NULL: none */

    /* Under the client's lock. */
    muster_client *client;          /* NULL: it was closed */
    struct mst_list exits;          /* calls that wait for the exit of others */
    struct mst_lib_publish publish; /* of the signals */
    struct mst_signals signals;
    int64_t opened_limit; /* of the gate when it is not closed */
    int64_t closed_last;  /* the last step that was answered GO_ON, as it was closed */
    bool closed;          /* the gate */
    bool ended;           /* the session */
    bool closing;         /* the handle */
    bool saver;           /* a thread waits in _saved */
    uint32_t holds;       /* regions in which it cannot save */
    int64_t saved_step;   /* that the answer is waited for: */
    bool has_outcome;     /* in `error`, as the names of missing ranks are */
    struct muster_error error;
};

/* preempt.c, on the sources' thread, lock not held: passes a notice on. False: it was not taken,
 * and is to be given again. */
bool mst_preempt_give(struct muster_preempt *preempt, const char *source,
                      const struct muster_notice_given *given);

/* options.c */
muster_status mst_preempt_settings_read(struct mst_preempt_settings *out,
                                        const struct muster_preempt_options *given,
                                        struct muster_error *err);

/* The names alone of a list such as "signals,file=/x,slurm", one after the other. False: no more.
 */
bool mst_preempt_source_next(const char **list, struct mst_slice *name);

/* sources.c. EINVAL for what is no source, with its text. */
muster_status mst_preempt_sources_check(const struct muster_preempt_source *list, size_t count,
                                        struct muster_error *err);
muster_status mst_preempt_sources_start(struct muster_preempt *preempt, struct muster_error *err);
void mst_preempt_sources_stop(struct muster_preempt *preempt); /* lock not held; none: a no-op */

/* exit.c. Lock held: the notices have changed. */
void mst_preempt_exit_look(struct muster_preempt *preempt);

/* words.c */
/* "save of step 17": what is attempted. */
void mst_preempt_describe(char what[MST_LIB_WHAT_ROOM], int64_t step);
void mst_preempt_say(struct muster_preempt *preempt, const struct mst_preempt_line *line);
/* Why a save came to nothing, in *err. */
void mst_preempt_say_outcome(struct muster_error *err, const struct mst_preempt_outcome *outcome,
                             int64_t step);

#endif
