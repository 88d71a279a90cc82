/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_LOOK_TEXT_H
#define MST_CLI_LOOK_TEXT_H

/* The status of a job as text on stdout. */

#include "view/status_json.h"
#include "view/verdict.h"

/* `all`: every member has a line, where else the ordinary ones are summed. */
void mst_cli_status_print(const struct mst_status *status, bool all);

/* ---- its parts ---- */

/* The verdict in the colour of its level. */
void mst_cli_verdict_put(const struct mst_job_verdict *verdict);
void mst_cli_members_print(const struct mst_status *status, const struct mst_job_verdict *verdict,
                           bool all);
void mst_cli_preemption_print(const struct mst_status *status);
void mst_cli_clusters_print(const struct mst_status *status);

/* "rank 2 (#2, node b3)" */
void mst_cli_put_rank(const struct mst_who *who);
/* "killed by signal 9 (Killed)"; nothing where that is not kept. */
void mst_cli_put_loss(const struct mst_who *who);
void mst_cli_put_span(uint64_t ms);

/* Whether stdout is a terminal that takes colours: NO_COLOR is not set, and TERM is not "dumb". */
bool mst_cli_coloured(void);

#endif
