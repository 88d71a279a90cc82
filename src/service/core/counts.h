/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_COUNTS_H
#define MST_SERVICE_CORE_COUNTS_H

/* Counters of decisions, for metrics. Counting is one line at the place that decides, of fixed
 * size, and cannot fail. It is no state: neither in the digest nor in a snapshot, and no decision
 * depends on it, so a recovered service counts from zero. */

#include "base/histogram.h"
#include "proto/reply.h"

struct mst_core;
struct mst_job;
struct mst_key;
struct mst_round;
struct mst_waiter;

/* Results as labels: few words for the many statuses. */
enum mst_result {
#define X(NAME, word) MST_RESULT_##NAME,
#include "service/core/results.def"
#undef X
    MST_RESULTS
};

/* The operations on keys: those of a batch, then the reads. */
enum mst_key_op {
    MST_KEY_INSERT = 0,
    MST_KEY_PUT,
    MST_KEY_CAS,
    MST_KEY_ADD,
    MST_KEY_APPEND,
    MST_KEY_DELETE,
    MST_KEY_GET,
    MST_KEY_LIST,
    MST_KEY_WAIT,
    MST_KEY_OPS
};

/* Of a restart, as the service sees it. */
enum mst_phase {
    MST_PHASE_INTERRUPT = 0, /* from the interruption to the first arrival at the seal */
    MST_PHASE_GATHER,        /* from there to the sealing */
    MST_PHASE_TOTAL,
    MST_PHASES
};

/* The source of a preemption notice. */
enum mst_source {
    MST_SOURCE_SIGNALS = 0,
#define X(NAME, name) MST_SOURCE_##NAME,
#include "proto/sources.def"
#undef X
    MST_SOURCE_HAND,  /* written with `muster key` */
    MST_SOURCE_OTHER, /* of any other name, so that no name of a user becomes a series */
    MST_SOURCES
};

struct mst_counts {
    uint64_t keys[MST_KEY_OPS][MST_RESULTS];  /* each operation of a batch with its result */
    uint64_t keys_at_once[MST_KEY_OPS];       /* of these, answered without waiting for a key */
    struct mst_histogram renewals;            /* between two of the same session */
    struct mst_histogram rounds[MST_RESULTS]; /* from the first arrival to the end */
    struct mst_histogram restarts[MST_PHASES];
    /* Preemption. */
    uint64_t watchers;                            /* watches of notices that began */
    uint64_t notices[MST_SOURCES][2];             /* certain, advisory */
    struct mst_histogram leads[MST_SOURCES];      /* the time left when a notice was written */
    struct mst_histogram agreements[MST_RESULTS]; /* on a step to save */
    uint64_t handled;                             /* agreements that all saved */
};

/* The part of it that belongs to a job, and ends with it. */
struct mst_job_counts {
    uint64_t losses[MST_CAUSES]; /* of ranks and workers, by cause */
    /* Generations sealed after another, by the cause of its first record; NONE: newcomers alone. */
    uint64_t restarts[MST_CAUSES];
    /* From the interruption of the ranks to the next generation, by the same cause as the restart;
     * and since when all this is counted, 0: since no generation yet. */
    uint64_t away_ns[MST_CAUSES], since_ns;
    uint64_t heartbeat_failures; /* periods of the collective heartbeat */
};

enum mst_result mst_result_of(muster_status status);
const char *mst_result_word(enum mst_result result);
const char *mst_key_op_word(enum mst_key_op op);
const char *mst_phase_word(enum mst_phase phase);
const char *mst_source_word(enum mst_source source);
/* Why there was a restart: fault, request, leave or growth. */
const char *mst_restart_kind(enum mst_cause first);

void mst_counts_init(struct mst_counts *counts);

/* Called where it is decided. */
/* A seal; NULL: without predecessors, so without an interruption. */
void mst_counts_restart(struct mst_job *job, const struct mst_round *seal);
/* A generation is sealed: until now its ranks did not run since they were called. */
void mst_counts_back(struct mst_job *job);
/* For how long the ranks of the present generation have not run; 0: they run. */
uint64_t mst_counts_away_now(const struct mst_job *job);
void mst_counts_write(struct mst_counts *counts, const struct mst_request *request,
                      muster_status status);
void mst_counts_read(struct mst_counts *counts, enum mst_command command, muster_status status,
                     bool waited); /* a command that reads no key is not counted */

void mst_counts_watch(struct mst_counts *counts, const struct mst_request *request);
void mst_counts_stored(struct mst_job *job, const struct mst_key *key);
void mst_counts_round(const struct mst_round *round, uint64_t ns);

/* The ranks of the last agreement that all saved; 0: none. */
uint32_t mst_counts_saved(const struct mst_job *job);

/* The counts since the service began, or since mst_core_forget_counts: a replay of inputs repeats
 * earlier counts. */
const struct mst_counts *mst_core_counts(const struct mst_core *core);
void mst_core_forget_counts(struct mst_core *core);

#endif
