/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_CAUSE_H
#define MST_LAUNCH_CAUSE_H

/* What a run ended by, in parts: the same that its last line says. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MST_CAUSE_HOST_MAX 256u

struct mst_run_job;
struct mst_process;

struct mst_first_cause {
    const char *kind; /* of mst_cause_word, or one of cause.c; NULL: there is none */
    bool numbered;    /* `code` is a status, a signal, or the code of a fault */
    int code;
    bool placed; /* what follows is known: it was a process of the job */
    uint32_t index, rank;
    uint64_t pid, generation;
    char host[MST_CAUSE_HOST_MAX];
    const struct mst_process *process; /* of this node; NULL: of another, or none */
};

/* What the run is told to have ended by, once no process is left. */
void mst_cause_tell(const struct mst_run_job *job);
void mst_cause_text(const struct mst_run_job *job, char *text,
                    size_t room); /* empty: nothing to tell */
int mst_cause_code(const struct mst_run_job *job);

/* What this node knows by itself: where another decided the end there is none. */
void mst_cause_parts(const struct mst_run_job *job, struct mst_first_cause *out);

/* A later process of its place took over. */
bool mst_cause_got_over(const struct mst_run_job *job, const struct mst_process *process);

/* The process of this node with that pid, as the service knows it; NULL: there is none. */
const struct mst_process *mst_cause_process(const struct mst_run_job *job, uint32_t index,
                                            uint64_t pid);

#endif
