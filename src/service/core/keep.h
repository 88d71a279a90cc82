/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_KEEP_H
#define MST_SERVICE_CORE_KEEP_H

/* What a snapshot keeps of each part of the state, each described once, for saving and for loading.
 * A field that is added to one of these structs belongs here, or has to follow from those that do:
 * tests/unit/kept_fields.def has a row for each.
 *
 * Loading follows an order in which the target of a pointer comes first: members, sessions, keys,
 * rounds, then jobs that ended, then connections. */

#include "service/core/archive.h"
#include "service/core/job.h"
#include "service/core/round.h"

void mst_keep_cause(struct mst_archive *archive, enum mst_cause *cause, int32_t *code);
void mst_keep_alarm(struct mst_archive *archive, struct mst_core *core, struct mst_alarm *alarm);

void mst_keep_members(struct mst_archive *archive, struct mst_job *job);
void mst_keep_sessions(struct mst_archive *archive, struct mst_job *job);
void mst_keep_keys(struct mst_archive *archive, struct mst_job *job);
void mst_keep_rounds(struct mst_archive *archive, struct mst_job *job);
void mst_keep_results_taken(struct mst_archive *archive, struct mst_core *core);
void mst_keep_jobs(struct mst_archive *archive, struct mst_core *core);
void mst_keep_pasts(struct mst_archive *archive, struct mst_core *core);
void mst_keep_links(struct mst_archive *archive, struct mst_core *core);
void mst_keep_histories(struct mst_archive *archive, struct mst_core *core);
void mst_keep_moments(struct mst_archive *archive, struct mst_core *core);

#endif
