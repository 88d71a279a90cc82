/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_IO_JOURNAL_DISK_H
#define MST_IO_JOURNAL_DISK_H

/* A folder of real files for a journal, and the child that writes a snapshot beside the service. */

#include <stdbool.h>
#include <sys/types.h>

#include "journal/disk.h"
#include "journal/journal.h"
#include "muster/status.h"

struct mst_journal_disk;

/* Makes the folder (mode 0700) where it is missing, and locks it: one service at a time writes
 * there. EEXISTS: another does; EFAILED. `err` is one line that names the folder, and the process
 * that has it. */
muster_status mst_journal_disk_open(struct mst_journal_disk **out, const char *path,
                                    struct muster_error *err);
void mst_journal_disk_close(struct mst_journal_disk *disk);

/* Removes what a journal has in the folder, and the folder if nothing else is there. Nothing there
 * is no failure. */
void mst_journal_disk_remove(const char *path);

const struct mst_disk *mst_journal_disk_of(const struct mst_journal_disk *disk);

/* Starts a child that writes the snapshot, and dies with us. `*end` is readable when it has ended.
 * False: no child could be made. */
bool mst_journal_disk_fork(struct mst_journal_disk *disk, struct mst_journal *journal, pid_t *child,
                           int *end);

/* Whether the child that has ended, or is ended now, wrote it whole. */
bool mst_journal_disk_reap(pid_t child, int end, bool now);

#endif
