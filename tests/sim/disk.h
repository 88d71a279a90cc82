/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

/* A folder on a disk that keeps what POSIX promises and no more. Every operation may be the one at
 * which the process dies: a write is then there up to any byte, everything else is done or not.
 *
 * The process dies alone: all that was written is there. The host dies: of each file there is what
 * was there at its last sync, and of what was written since any part - each write whole, up to any
 * byte, or not at all, whatever became of those before it. Names are only certain after the folder
 * was synced: of what was done to them since, each thing has happened or not.
 *
 * It may be full: then nothing grows, and what was reserved can still be written. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "service/journal/disk.h"

#define SIM_FILES_MAX 64u
#define SIM_NAME_ROOM 48u
#define SIM_CHANGES_MAX 32u

struct sim_write {
    size_t at, size;
    bool grows; /* it only made the file longer */
};

/* The bytes of a file, whatever its names are. */
struct sim_inode {
    unsigned char *bytes; /* as every process sees them */
    size_t size, room;
    unsigned char *kept; /* as they were at the last sync */
    size_t kept_size, kept_room;
    size_t differs_from, differs_to; /* the other bytes of both are the same */
    struct sim_write *writes;        /* since then */
    uint32_t write_count, write_room;
};

struct sim_name {
    char text[SIM_NAME_ROOM];
    struct sim_inode *inode; /* NULL: free */
};

enum sim_change_kind { SIM_CREATED, SIM_RENAMED, SIM_REMOVED };

/* What was done to the names since the folder was synced. */
struct sim_change {
    enum sim_change_kind kind;
    char from[SIM_NAME_ROOM], to[SIM_NAME_ROOM];
    struct sim_inode *inode;
};

struct sim_disk {
    struct sim_name names[SIM_FILES_MAX]; /* as every process sees them */
    struct sim_name kept[SIM_FILES_MAX];  /* as they were when the folder was synced */
    struct sim_change changes[SIM_CHANGES_MAX];
    uint32_t change_count;
    struct sim_inode **inodes; /* all there are, removed ones too until the process is gone */
    size_t inode_count, inode_room;
    struct mst_disk recorder; /* does what is asked, if it has a `create` */
    struct mst_prng prng;
    uint64_t dies_in; /* the process dies at this step; 0: at none */
    bool dead;        /* it has: nothing is done any more until sim_disk_crash */
    bool full;        /* nothing may grow */
    uint64_t writes;  /* done so far */
};

void sim_disk_init(struct sim_disk *disk, uint64_t seed);
void sim_disk_fini(struct sim_disk *disk);
void sim_disk_copy(struct sim_disk *out, const struct sim_disk *disk);

/* One step of the process. False: it dies here. */
bool sim_disk_step(struct sim_disk *disk);

/* The process, or its host, is gone. Then a new process begins. */
void sim_disk_crash(struct sim_disk *disk, bool with_host);

/* Until it is called with NULL, what the process does is done by another disk instead. */
void sim_disk_record(struct sim_disk *disk, const struct mst_disk *recorder);

/* As the journal sees it. Files are numbers, which are nothing to the next process. */
struct mst_disk sim_disk_seen(struct sim_disk *disk);

/* Turns bits of one byte of a file, for good. */
void sim_disk_damage(struct sim_disk *disk, struct sim_inode *inode, size_t at);

#endif
