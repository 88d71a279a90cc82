/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_SAVING_H
#define MST_LAUNCH_SAVING_H

/* What became of the save that followed a notice: asked of the service when the ranks have ended,
 * or must. `generation` is the last one that a process of this node was in. */

#include <stdatomic.h>

#include "client/shell/internal.h"
#include "preempt/publish.h"

struct mst_run_session;

/* What the service knows of the last save, asked in steps. */
enum mst_saving_step {
    MST_SAVING_NOT_ASKED = 0,
    MST_SAVING_KEYS = 1,    /* which step was agreed, whether that was withdrawn, what was saved */
    MST_SAVING_MEMBERS = 2, /* which ranks had saved */
    MST_SAVING_ANSWERED = 3
};

#define MST_SAVING_MISSING_MAX 8u

struct mst_saving_missing {
    uint32_t index, rank;
    char host[MST_NOTICE_HOST_ROOM];
};

/* The last agreement that there was. */
struct mst_saving_last {
    bool there;
    uint64_t generation, k;
    struct mst_preempt_fact fact;
};

struct mst_saving {
    struct mst_run_session *session;
    struct mst_lib_post post;
    char after[MST_PREEMPT_NAME_ROOM]; /* where the listing goes on */
    uint64_t page;
    bool again; /* only what may have changed since the first time */

    /* Written by the client's threads until it is answered. */
    struct mst_saving_last agreed, withdrawn, complete;
    uint32_t arrived, expected, missing_count; /* 0 expected: not known */
    struct mst_saving_missing missing[MST_SAVING_MISSING_MAX];
    _Atomic(enum mst_saving_step) step;
};

/* Asks; what is under way is left alone. Does not wait. */
void mst_saving_ask(struct mst_saving *saving);
void mst_saving_ask_again(struct mst_saving *saving); /* whether all have saved since */
bool mst_saving_answered(const struct mst_saving *saving);

/* Whether all that the processes of this node did last was to save, with all others. */
bool mst_saving_saved(const struct mst_saving *saving, uint64_t generation);

/* The agreement that matters at the end: the last that all have saved, or, where the processes of
 * this node did something after it, the last of all; NULL: there is none. A notice that comes while
 * they leave may well be agreed upon: what they saved counts. */
const struct mst_saving_last *mst_saving_last(const struct mst_saving *saving, uint64_t generation);

/* "not saved: ...", with the missing ranks; empty: nothing was to be saved, or it was. `late`: the
 * end of the grace time has come. */
void mst_saving_text(const struct mst_saving *saving, uint64_t generation, bool late, char *text,
                     size_t room);

#endif
