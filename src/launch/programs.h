/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_PROGRAMS_H
#define MST_LAUNCH_PROGRAMS_H

/* The programs of a run. The places of a node are theirs in order; spares run the last one. */

#include "launch/run.h"
#include "launch/say.h"

/* Finds the files of all. 0, or the exit code after one line. */
int mst_programs_find(const struct mst_run_options *options);

/* That of the place with this number on its node. */
const struct mst_run_program *mst_program_of(const struct mst_run_options *options, uint32_t slot);

/* As they are typed: "-n 1 -- ./a : -n 8 -- ./b". */
void mst_programs_words(const struct mst_run_options *options, struct mst_words *line);

#endif
