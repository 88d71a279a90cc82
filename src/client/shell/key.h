/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_KEY_H
#define MST_CLIENT_SHELL_KEY_H

#include "client/shell/handle.h"
#include "muster/key.h"

/* The options as they are meant: a caller's struct may be older and shorter, or NULL. */
muster_status mst_lib_key_options(struct muster_key_options *out,
                                  const struct muster_key_options *given, struct muster_error *err,
                                  const char *what);

/* EINVAL with its text for a name that is none. */
muster_status mst_lib_key_name(const char *key, struct muster_error *err, const char *what);

#endif
