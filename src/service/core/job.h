/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_JOB_H
#define MST_SERVICE_CORE_JOB_H

/* A job: an island of members, keys and rounds. It lives while it has a session or a key; when its
 * last session ends, everything of the generation goes, and the next session may name other
 * parameters. Its numbers outlive it: past.h. */

#include "service/core/counts.h"
#include "service/core/history.h"
#include "service/core/key.h"
#include "service/core/member.h"
#include "service/core/past.h"
#include "service/core/progress.h"
#include "service/core/record.h"

struct mst_job {
    struct mst_named named;
    struct mst_core *core;
    uint32_t references; /* sessions, links that ended in it, and waiters */
    bool dropped;        /* out of the table; lives on for its references */
    uint64_t serial;
    struct mst_list in_dirty;
    struct mst_past *past; /* owned until the job is dropped */

    uint32_t size, min_size;          /* 0: not named */
    uint32_t max_size, size_multiple; /* limits of a seal; 0: any */
    uint64_t join_wait_ms;
    enum mst_grow grow;
    enum mst_attention attention; /* in the generation */

    uint64_t generation;
    uint64_t floor; /* the next generation is above both */
    uint64_t view_revision;
    struct mst_member **ranks; /* the ranks of the generation, by rank */
    uint32_t rank_count;
    uint32_t alive; /* of them, not gone */
    uint32_t rank_places, rank_room;
    bool ordered;                  /* the generation's seal gave the order of the ranks */
    bool at_rest;                  /* no rank arrived at a seal since the last of `finals` */
    struct mst_blob *sealed_value; /* what that was contributed with; NULL: nothing */
    uint64_t finals;       /* final rounds that succeeded: the completed runs of this group */
    struct mst_list ready; /* members, in the order they became ready */
    uint32_t ready_count;
    bool join_due; /* join_wait is over: min_size is enough */
    struct mst_alarm join_alarm;

    /* Indexes of members. */
    struct mst_tree members;      /* by role and index */
    struct mst_tree changes;      /* by revision */
    struct mst_tree node_changes; /* agents and the members they started: by node and revision */
    struct mst_tree faults;       /* those of the generation with a fault, by its revision */
    uint32_t free_from[MST_ROLE_AGENT + 1]; /* below it every index is held */
    uint32_t free_helper;                   /* the same of agents that are helpers, if not 0 */
    uint32_t living;                        /* ranks that are held */
    struct mst_tree nodes;                  /* sessions that name an agent, by that: node.h */
    struct mst_names hosts;
    uint64_t host_serial;
    struct mst_list sessions;

    uint64_t revision; /* counts every change of anything */
    struct mst_keyspace keys, generation_keys;
    uint64_t key_count, key_bytes;         /* of both: names and values of existing keys */
    uint64_t awaited_count, awaited_bytes; /* names that are only awaited */
    struct mst_list watching[MST_TOPICS];
    struct mst_tree watching_nodes; /* watchers of the members of one node, by that */
    uint64_t watch_serial;

    struct mst_names round_names;
    uint64_t round_serial;
    uint64_t round_forgotten; /* the greatest next number of a name that was forgotten */
    struct mst_round *seal;   /* the open one; borrowed */

    struct mst_records records;      /* of the generation */
    struct mst_records last_records; /* of the last one that had any, as it was sealed */
    uint64_t fault_count;            /* generations that ended with a record */
    bool last_is_cause;              /* the last of them ended by the seal of this one */
    bool restart_uncounted;          /* its cause may still be refined */
    uint64_t away_ns;                /* what is not counted yet: of the ranks before it */
    uint64_t interrupted_ns;         /* the present call for attention; 0: none, or not known */

    struct mst_job_counts counts;
    struct mst_history history;
    struct mst_job_pace pace;
};

struct mst_job *mst_job_find(struct mst_core *core, struct mst_slice name);

/* A job that is not visible yet: it is published, or dropped without a trace. NULL: no memory. The
 * caller checks the limit. */
struct mst_job *mst_job_make(struct mst_core *core, struct mst_slice name);
void mst_job_publish(struct mst_job *job); /* unless it is */
bool mst_job_published(const struct mst_job *job);
void mst_job_unmake(struct mst_job *job);

void mst_job_keep(struct mst_job *job);
void mst_job_let_go(struct mst_job *job);

/* Whether `open` agrees with the job's fixed parameters; the required number in `limit_out`. Adopt
 * takes them over. */
bool mst_job_agrees(const struct mst_job *job, const struct mst_open *open, uint64_t *limit_out);
void mst_job_adopt(struct mst_job *job, const struct mst_open *open);

/* The job is settled before the input is over: seals, first generations, end. */
void mst_job_mark(struct mst_job *job);
void mst_job_settle_all(struct mst_core *core);

uint64_t mst_job_next_revision(struct mst_job *job);

/* For the end of the core. */
void mst_job_destroy(struct mst_job *job);

#endif
