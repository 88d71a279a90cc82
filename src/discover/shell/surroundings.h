/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_DISCOVER_SHELL_SURROUNDINGS_H
#define MST_DISCOVER_SHELL_SURROUNDINGS_H

/* mst_discover for this process: its environment, its host's name and its files. */

#include "discover/discover.h"

/* `get` NULL: getenv. */
bool mst_surroundings_discover_by(struct mst_discovery *out, enum mst_asker asker,
                                  const char *(*get)(const char *name));
bool mst_surroundings_discover(struct mst_discovery *out, enum mst_asker asker);

#endif
