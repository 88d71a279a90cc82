/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_DISK_H
#define MST_SERVICE_JOURNAL_DISK_H

/* One folder of files, as the journal needs it. service/server/journal_disk has real ones, the
 * simulator has some that crash. Every function returns OK, ENOSPACE (the disk is full: nothing was
 * done), or another failure; then `reason` names the file and the cause in one line. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "muster/status.h"

struct mst_disk {
    void *ctx;
    const char *where; /* the folder, for people */

    /* Every name in the folder, in any order. */
    muster_status (*list)(void *ctx, void (*each)(void *each_ctx, const char *name),
                          void *each_ctx);
    muster_status (*size)(void *ctx, const char *name, uint64_t *out);
    /* All of `size` bytes, from `offset` on. */
    muster_status (*read)(void *ctx, const char *name, uint64_t offset, void *into, size_t size);

    /* A new, empty file to write, in the place of one of this name; a small number names it. */
    muster_status (*create)(void *ctx, const char *name, int *out);
    muster_status (*write)(void *ctx, int file, uint64_t offset, struct mst_slice bytes);

    /* Makes the file `size` bytes long, zeros behind what was written, so that writing within never
     * wants room again. */
    muster_status (*reserve)(void *ctx, int file, uint64_t size);

    /* Shortens it; with `sync` the rest survives the host then. */
    muster_status (*cut)(void *ctx, const char *name, uint64_t size, bool sync);
    muster_status (*sync)(void *ctx, int file); /* what was written survives the host */
    void (*close)(void *ctx, int file);

    muster_status (*rename)(void *ctx, const char *from, const char *to); /* replaces `to` */
    muster_status (*remove)(void *ctx, const char *name); /* ENOTFOUND is no failure to anyone */
    muster_status (*sync_names)(void *ctx); /* what was created, renamed, removed survives too */

    const char *(*reason)(void *ctx); /* of the last failure */
};

#endif
