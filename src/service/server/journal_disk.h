/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_JOURNAL_DISK_H
#define MST_SERVICE_SERVER_JOURNAL_DISK_H

/* A folder of real files for a journal, and the child that writes a snapshot beside the service. */

#include <stdbool.h>
#include <sys/types.h>

#include "muster/status.h"
#include "service/journal/disk.h"

struct mst_journal_disk;

/* The folder as mst_journal_folder_open makes and locks it. */
muster_status mst_journal_disk_open(struct mst_journal_disk **out, const char *path, bool sync,
                                    struct muster_error *err);
void mst_journal_disk_close(struct mst_journal_disk *disk);

const struct mst_disk *mst_journal_disk_of(const struct mst_journal_disk *disk);

/* Writes all bytes; 0, or an errno. */
int mst_disk_write(int file, struct mst_slice bytes, uint64_t offset);

/* Starts a child that calls `write`, which writes a snapshot into the folder, and dies with us.
 * `*end` is readable when it has ended. False: no child could be made. */
bool mst_journal_disk_fork(struct mst_journal_disk *disk, muster_status (*write)(void *ctx),
                           void *ctx, pid_t *child, int *end);

/* Waits for the child, or kills it `now`. True: it wrote the whole snapshot. */
bool mst_journal_disk_reap(pid_t child, int end, bool now);

#endif
