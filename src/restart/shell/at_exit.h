/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_SHELL_AT_EXIT_H
#define MST_RESTART_SHELL_AT_EXIT_H

/* What the library does in exit(). By on_exit and not atexit, because only that passes the status.
 */

#include <stdbool.h>

#include "base/list.h"
#include "muster/client.h"

struct mst_at_exit {
    struct mst_list link; /* zeroed: not added */
    muster_client *client;
    void (*call)(struct mst_at_exit *entry, int status);
};

/* `call` is called once in exit(), without a lock. Not in a forked child, nor where the client can
 * no longer be used by this thread. Added already: a no-op. */
void mst_at_exit_add(struct mst_at_exit *entry);
void mst_at_exit_remove(struct mst_at_exit *entry); /* not added: a no-op */

/* Whether a process that exits with it ended well: 0, or 75 after a save. */
bool mst_at_exit_well(int status);

#endif
