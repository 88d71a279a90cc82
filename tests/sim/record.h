/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_RECORD_H
#define SIM_RECORD_H

/* What the service is fed is recorded, each of its lives as one file, and replayed at the end of
 * that life: RECORD_SAME. In a share of the seeds, chosen without the seed's dice, so that the
 * others tell what they told without it. */

#include "service/core/core.h"
#include "service/journal/input.h"

#define SIM_RECORD_1_IN 4u

struct sim;

void sim_record_begin(struct sim *sim, uint64_t now_ns); /* a core is there, between two inputs */
void sim_record_traced(struct sim *sim, const struct mst_trace *line);
void sim_record_heard(struct sim *sim, const struct mst_input *input); /* without a journal */
void sim_record_end(struct sim *sim); /* the core is there for the last time */

#endif
