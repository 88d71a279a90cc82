/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_COORDINATOR_OPTIONS_H
#define MST_TASKS_SHELL_COORDINATOR_OPTIONS_H

/* What a coordinator was given: the options, else the environment, else the defaults. */

#include "muster/cluster.h"
#include "tasks/coordinator.h"

struct mst_coord_settings {
    struct mst_cluster_config config; /* without its term and seed; its name is `name` */
    char name[256];
    char listen[160]; /* "": any */
};

muster_status mst_coord_settings_read(struct mst_coord_settings *out,
                                      const struct muster_cluster_options *given,
                                      struct muster_error *err);

#endif
