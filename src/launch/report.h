/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_REPORT_H
#define MST_LAUNCH_REPORT_H

/* --report FILE: how the run ended, as a JSON object for the caller. Its fields are the
 * table in docs/operations.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define MST_REPORT_VERSION 1

struct mst_report {
    const char *host; /* the run's */
    char path[4096];  /* empty: none is wanted */
    struct timespec began;
    uint64_t began_ns;
};

struct mst_run_job;
struct mst_process;

/* Before anything else: whether FILE, if it is given, can be written, and what an earlier run left
 * there goes. 0, or the exit code after one line. */
int mst_report_open(struct mst_report *report, const char *given, const char *host);

/* Puts a file in the place of `path` in one step. Nodes may have been given one for all, so what it
 * is made of has the host in its name. False with errno. */
bool mst_report_store(const char *path, const char *host, const char *bytes, size_t size);

/* When the run has ended, and has said why: whether it began or not. */
void mst_report_write(const struct mst_run_job *job, int code);

/* The process of this node that is the first cause; NULL: it is another's, or none. */
const struct mst_process *mst_report_process(const struct mst_run_job *job);

/* The first cause for the reports of the other nodes; empty: there is none. */
void mst_report_cause(const struct mst_run_job *job, char *text, size_t room);

#endif
