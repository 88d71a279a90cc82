/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CORE_COUNTS_H
#define MST_CORE_COUNTS_H

/* How often what was decided, for metrics. Counting is one line at the place that decides, of fixed
 * size, and cannot fail. It is no state: neither in the digest nor in a snapshot, and nothing is
 * ever decided by it, so a service that comes back counts from zero. */

#include "base/histogram.h"
#include "msg/reply.h"

struct mst_core;
struct mst_waiter;

/* How something ended, as a label: few words for the many statuses. */
enum mst_result {
#define X(NAME, word) MST_RESULT_##NAME,
#include "core/results.def"
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

struct mst_counts {
    uint64_t keys[MST_KEY_OPS][MST_RESULTS];  /* each operation of a batch with its result */
    uint64_t keys_at_once[MST_KEY_OPS];       /* of these, answered without waiting for a key */
    struct mst_histogram renewals;            /* between two of the same session */
    struct mst_histogram rounds[MST_RESULTS]; /* from the first arrival to the end */
};

/* The part of it that belongs to a job, and ends with it. */
struct mst_job_counts {
    uint64_t losses[MST_CAUSE_LEFT + 1]; /* of ranks and workers, by cause */
};

enum mst_result mst_result_of(muster_status status);
const char *mst_result_word(enum mst_result result);
const char *mst_key_op_word(enum mst_key_op op);

void mst_counts_init(struct mst_counts *counts);

/* Called where it is decided. */
void mst_counts_renewal(struct mst_counts *counts, uint64_t ns);
void mst_counts_round(struct mst_counts *counts, muster_status status, uint64_t ns);
void mst_counts_write(struct mst_counts *counts, const struct mst_request *request,
                      muster_status status);
void mst_counts_read(struct mst_counts *counts, enum mst_command command, muster_status status,
                     bool waited); /* a command that reads no key is not counted */

/* What was counted since the service began, or since mst_core_forget_counts: a replay of inputs
 * counts what others have counted already. */
const struct mst_counts *mst_core_counts(const struct mst_core *core);
void mst_core_forget_counts(struct mst_core *core);

#endif
