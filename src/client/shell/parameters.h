/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_PARAMETERS_H
#define MST_CLIENT_SHELL_PARAMETERS_H

#include "muster/client.h"
#include "proto/request.h"

/* From the options, else the environment. */
muster_status mst_lib_parameters(struct mst_open *open, const struct muster_client_options *options,
                                 struct muster_error *err);

/* EINVAL, and what is wrong, if no generation can come of them. */
muster_status mst_lib_parameters_check(const struct mst_open *open, struct muster_error *err);

#endif
