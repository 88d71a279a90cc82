/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_VARIABLES_H
#define MST_LAUNCH_VARIABLES_H

#include <stdbool.h>

#include "process/environment.h"

struct mst_run_job;
struct mst_place;
struct mst_log;

/* What all ranks of this node get, and what one of them gets. False: no memory. */
bool mst_variables_set(struct mst_environment *environment, const struct mst_run_job *job);
bool mst_variables_of(struct mst_environment *environment, const struct mst_place *place,
                      const char *tag, int page_fd, const struct mst_log *log);

#endif
