/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_CAUSE_H
#define MST_LAUNCH_CAUSE_H

/* What a run ended by, in parts: the same that its last line says. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/faults.h"

#define MST_CAUSE_TEXT_MAX 1024u

struct mst_run_job;
struct mst_process;

struct mst_first_cause {
    const char *kind;    /* of mst_cause_word, or one of cause.c; NULL: there is none */
    bool numbered;       /* `code` is a status, a signal, or the code of a fault */
    bool placed;         /* it was a process of the job */
    struct mst_fault of; /* the code, and as far as that is known which process it was */
    const struct mst_process *process; /* of this node; NULL: of another, or none */
    char text[MST_CAUSE_TEXT_MAX];     /* the last line of the run; empty: nothing to report */
};

/* Once no process is left. Only what this node knows: where another one decided the end there is a
 * text and no kind. */
void mst_cause_find(const struct mst_run_job *job, struct mst_first_cause *out);

/* The same, for the user. */
void mst_cause_tell(const struct mst_run_job *job);

/* The exit code of the run. */
int mst_cause_code(const struct mst_run_job *job);

/* A later process of its place took over. */
bool mst_cause_got_over(const struct mst_run_job *job, const struct mst_process *process);

/* The process of this node with that pid, as the service knows it; NULL: there is none. */
const struct mst_process *mst_cause_process(const struct mst_run_job *job, uint32_t index,
                                            uint64_t pid);

#endif
