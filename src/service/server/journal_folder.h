/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_JOURNAL_FOLDER_H
#define MST_SERVICE_SERVER_JOURNAL_FOLDER_H

/* The folder of a journal: which process may write there, and which may remove it.
 *
 *   lock    locked by the service that writes there
 *   owner   locked by the `muster run` that owns the journal, also while its service is dead and
 *           about to be started again
 *
 * A folder of another user, or one that others may write to, is refused: its content could have
 * been put there as a trap. The locks are POSIX record locks: a forked child does not inherit them,
 * and they name the process that holds them. */

#include <stdbool.h>

#include "muster/status.h"

struct mst_journal_folder {
    int folder; /* -1: not open */
    int lock;
    bool made_lock; /* and did not find it */
};

/* Makes the folder (mode 0700) where it is missing, and takes its lock. With `sync` its own name
 * survives the host too. EEXISTS: another service writes there; EFAILED. `err` is one line that
 * names the folder, and the process that has it. */
muster_status mst_journal_folder_open(struct mst_journal_folder *out, const char *path, bool sync,
                                      struct muster_error *err);
void mst_journal_folder_close(struct mst_journal_folder *folder);

/* Makes the folder as open does, makes this process its owner until `*owner_out` is closed, and
 * removes the files that an earlier owner left. EEXISTS: it has an owner, or a service writes
 * there; then nothing was changed. */
muster_status mst_journal_folder_claim(int *owner_out, const char *path, struct muster_error *err);

/* Removes the files of a journal, and the folder if nothing else is in it. A folder that another
 * process owns or writes to is left as it is, and so is one that is not there. `with` (NULL: none)
 * is a file that goes with it, before another process can own the folder. */
void mst_journal_folder_remove(const char *path, const char *with);

#endif
