/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_TOLD_H
#define MST_VIEW_TOLD_H

/* The story of a job (view/story.h) for a reader: as lines, as JSON, as a page. Of a run that has a
 * file (view/kept.h) also how it ended. */

#include <jansson.h>

#include "view/story.h"

struct mst_told {
    const char *job;
    struct mst_items history;  /* ages are until its end */
    struct mst_items restarts; /* MST_RUN_RESTARTS_KEY of the job, if a service answered */
    json_t *run;               /* what its file has; NULL: a service answered, or a record */
    bool runs;                 /* of a file: the run that began it lives */
};

/* The caller frees each. NULL: no memory. */
char *mst_told_text(const struct mst_told *told);
char *mst_told_json(const struct mst_told *told); /* one line */

/* One HTML file that needs nothing else: no script, no address, words of ranks are text. */
char *mst_told_page(const struct mst_told *told);

void mst_told_fini(struct mst_told *told);

/* ---- its parts ---- */

/* "restarted 2 times, lost 1 process, in 412.6 s; ..." */
void mst_told_verdict(struct mst_text *text, const struct mst_told *told,
                      const struct mst_story *story);
/* How it ended, or until when it is known; empty: a job that runs. */
void mst_told_ending(struct mst_text *text, const struct mst_told *told);
/* What to do; empty: nothing. */
void mst_told_advice(struct mst_text *text, const struct mst_told *told);
/* "  1:02:03.4" */
void mst_told_moment(struct mst_text *text, uint64_t ms);
/* "2026-03-01 12:00:00 UTC", of ms since 1970. */
void mst_told_date(struct mst_text *text, int64_t ms);

#endif
