/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_STORY_H
#define MST_VIEW_STORY_H

/* What happened to a job, and what it cost, from its incidents as the service lists them. */

#include "base/text.h"
#include "view/items.h"

struct mst_story {
    uint64_t age_ms;     /* since the first incident that is remembered */
    bool from_the_start; /* that one is the start of the job */
    uint64_t restarts;   /* after a fault or a loss */
    uint64_t grown;      /* the generation grew, and nothing else */
    uint64_t lost;       /* processes, those of lost nodes too */
    uint64_t unlisted;   /* faults and losses without an incident of their own */
    uint64_t away_ms;    /* from each interruption until the next generation was sealed */
    uint64_t without_ms; /* with fewer ranks than the most so far, those restarts included, and
                            from the loss that nothing followed until now */
    uint64_t groups;     /* how often all processes were started anew */
    uint64_t services;   /* how often the service began again */
    uint64_t repeated; /* steps that were done again after restarts, as far as ranks report them */
};

void mst_story_of(const struct mst_items *history, struct mst_story *out);

/* "rank 1 (#1) on b2", "worker #3 on b2", "the ranks". */
void mst_story_process(struct mst_text *text, const struct mst_who *who);

/* The next stretch without all ranks, and whether nothing ran in all of it. Moments as below.
 * False: there is no more. */
struct mst_story_walk { /* begins as {0} */
    size_t at;          /* two stretches are looked for at each incident, and at the end */
    uint32_t most;      /* ranks of a generation so far */
};
struct mst_story_gap {
    uint64_t from_ms, to_ms;
    bool idle;                 /* no generation: the ranks were interrupted */
    const struct mst_item *of; /* why: the generation after it, or that of fewer; the last loss */
};
bool mst_story_gap(const struct mst_story *story, const struct mst_items *history,
                   struct mst_story_walk *walk, struct mst_story_gap *out);

/* What to do about the first cause of the last interruption, a sentence; empty: nothing.
 * `ended_by`: what ended the job, where that is known; or NULL. */
void mst_story_advice(struct mst_text *text, const struct mst_items *history,
                      const struct mst_item *ended_by);

/* One sentence without a full stop: "rank 1 (#1) on b2 was killed by signal 9 (Killed)". */
void mst_story_sentence(struct mst_text *text, const struct mst_item *incident);

/* How many steps were done again in this generation; 0: none, not known, or it is no generation. */
uint64_t mst_story_repeated(const struct mst_item *incident);

/* When it happened: since the first incident. Pages of the list are of different moments. */
uint64_t mst_story_moment_ms(const struct mst_story *story, const struct mst_item *incident);

/* "lost", "restarted": one word for a program. */
const char *mst_story_word(const struct mst_item *incident);
/* What has that word; 0: nothing has. NULL is no word. */
enum mst_incident_kind mst_story_kind(const char *word);

#endif
