/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_STATE_DIR_H
#define MST_NET_STATE_DIR_H

/* The folder of a user's files that outlive a job: $MUSTER_STATE_DIR, else $XDG_STATE_HOME/muster,
 * else $HOME/.local/state/muster, which on a cluster is the same folder on every node. */

#include <stdbool.h>
#include <stddef.h>

/* False: no such folder is known, or with `name` behind it its path is longer than `room`, which
 * errno says: ENOENT or ENAMETOOLONG. It need not exist. */
bool mst_state_path(const char *name, char *path, size_t room);

/* Makes the folders that lead to the last name of the path, where they are missing, with mode 0700.
 * False with errno. */
bool mst_state_make_folders(const char *path);

#endif
