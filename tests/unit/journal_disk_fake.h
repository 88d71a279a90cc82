/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOURNAL_DISK_FAKE_H
#define JOURNAL_DISK_FAKE_H

/* A folder in memory, with a limit and with failures on order. */

#include <stdbool.h>
#include <stdint.h>

#include "service/journal/disk.h"

enum { FAKE_FILES = 32 };

struct fake_file {
    char name[48];
    unsigned char *bytes;
    uint64_t size;
    bool dirty;   /* written, and not synced since */
    bool renamed; /* and the names were not synced since */
};

struct fake_disk {
    struct mst_disk disk;
    struct fake_file files[FAKE_FILES];
    uint64_t room; /* for all files together */
    unsigned writes, syncs;
    unsigned fail_at; /* the write of this number fails; 0: none does */
    unsigned sync_fail_at;
    muster_status sync_fails; /* so */
    char reason[96];
    bool unnamed; /* a file was made, and the names were not synced since */
    bool hasty;   /* and then another one */
    /* What a host that dies then would lose. A file got its name before its bytes were synced; or
     * another one was removed before that name was. */
    bool renamed_early, removed_early;
};

void fake_disk_init(struct fake_disk *disk);
void fake_disk_fini(struct fake_disk *disk);
void fake_disk_copy(struct fake_disk *to, const struct fake_disk *from);
void fake_file_resize(struct fake_file *file, uint64_t size);               /* with zeros */
struct fake_file *fake_disk_find(struct fake_disk *disk, const char *name); /* NULL: none */

#endif
