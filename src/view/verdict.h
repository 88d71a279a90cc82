/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_VERDICT_H
#define MST_VIEW_VERDICT_H

/* What there is to say about a job, in one sentence: all is well, or what is most wrong. The same
 * sentence is in `muster status`, in `muster top`, in /status.json and on the page. */

#include "base/text.h"
#include "view/status_json.h"

enum { MST_VERDICT_ROOM = 768 };

enum mst_job_verdict_kind {
    MST_JOB_EMPTY = 0,   /* no rank and no worker has joined */
    MST_JOB_RUNS,        /* all ranks run */
    MST_JOB_STRAGGLES,   /* all ranks run, and the others wait for one of them in each step */
    MST_JOB_WORKERS,     /* a job of workers alone */
    MST_JOB_PLAIN,       /* all run, and none uses muster */
    MST_JOB_FINISHED,    /* all ranks have left */
    MST_JOB_STARTS,      /* ranks wait for others to join */
    MST_JOB_MISSING,     /* some run, others are lost or left */
    MST_JOB_WAITS,       /* ranks wait in a round for others */
    MST_JOB_PREEMPTION,  /* the deadline of a notice comes */
    MST_JOB_STOPPED,     /* a signal has stopped the process of a rank */
    MST_JOB_SILENT,      /* the connection of a rank is lost */
    MST_JOB_INTERRUPTED, /* a fault or a loss, and the next generation is not sealed yet */
    MST_JOB_TOO_FEW,     /* for the next generation */
    MST_JOB_OVER         /* no rank is left, and some were lost */
};

enum mst_job_verdict_level { MST_JOB_GOOD = 0, MST_JOB_NOTE = 1, MST_JOB_TROUBLE = 2 };

struct mst_job_verdict {
    enum mst_job_verdict_kind kind;
    enum mst_job_verdict_level level;
    uint32_t index;    /* of the rank that it is about; MST_INDEX_ANY: none, or several */
    uint64_t since_ms; /* 1 + how long it is so; 0: not known */
    char sentence[MST_VERDICT_ROOM]; /* without a full stop; shown as it is */
};

void mst_job_verdict_of(const struct mst_status *status, struct mst_job_verdict *out);

/* The open round that most have come to, as it holds up a job that hangs; NULL: none is open. */
const struct mst_item *mst_job_fullest_round(const struct mst_status *status);

/* Of a straggler: "1.35 times the work of the median". */
void mst_straggler_phrase(struct mst_text *text, const struct mst_rank_progress *progress);

/* "waits": one word for a program; and "good", "note" or "trouble". */
const char *mst_job_verdict_word(enum mst_job_verdict_kind kind);
const char *mst_job_verdict_level_word(enum mst_job_verdict_level level);

#endif
