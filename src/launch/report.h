/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_REPORT_H
#define MST_LAUNCH_REPORT_H

/* --report FILE: how the run ended, as a JSON object for the caller. Its fields are the
 * table in docs/operations.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "view/items.h"

#define MST_REPORT_VERSION 1

struct mst_report {
    const char *host; /* the run's */
    char path[4096];  /* empty: none is wanted */
    struct timespec began;
    uint64_t began_ns;
    struct mst_items history; /* of the job, as its service remembered it at the end */
    bool heard;               /* that it did */
};

struct mst_run_job;
struct mst_process;

/* Before anything else: whether FILE, if it is given, can be written, and what an earlier run left
 * there goes. 0, or the exit code after one line. */
int mst_report_open(struct mst_report *report, const char *given, const char *host);

/* When the run has ended, and has said why: whether it began or not. Into the file of --report, and
 * into that which is kept (kept.h). */
void mst_report_write(const struct mst_run_job *job, int code);

/* Asks the service what it remembers, while it is there: what a report is wanted for. */
void mst_report_ask(struct mst_run_job *job);

/* The process of this node that is the first cause; NULL: it is another's, or none. */
const struct mst_process *mst_report_process(const struct mst_run_job *job);

/* The first cause for the reports of the other nodes; empty: there is none. */
void mst_report_cause(const struct mst_run_job *job, char *text, size_t room);

#endif
