/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LIB_PARAMETERS_H
#define MST_LIB_PARAMETERS_H

#include "msg/request.h"
#include "muster/client.h"

/* From the options, else the environment. */
muster_status mst_lib_parameters(struct mst_open *open, const struct muster_client_options *options,
                                 struct muster_error *err);

/* EINVAL, and what is wrong, if no generation can come of them. */
muster_status mst_lib_parameters_check(const struct mst_open *open, struct muster_error *err);

#endif
