/* SPDX-License-Identifier: Apache-2.0 */
/* Folders by system calls alone: opendir and nftw allocate, which a process that was forked from
 * one with threads must not. */
#define _GNU_SOURCE
#include "os/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h> /* renameat */
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

enum { PASSES_MAX = 100000, TRIES_MAX = 1000 };

/* As the kernel gives it. */
struct entry {
    uint64_t inode;
    int64_t next;
    uint16_t size;
    uint8_t type;
    char name[];
};

bool mst_folder_open(struct mst_folder *folder, int parent, const char *path)
{
    *folder = (struct mst_folder){
        .fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    return folder->fd >= 0;
}

const char *mst_folder_next(struct mst_folder *folder)
{
    const struct entry *entry;

    do {
        if (folder->at >= folder->size) {
            long got =
                syscall(SYS_getdents64, folder->fd, folder->room.bytes, sizeof(folder->room.bytes));

            if (got <= 0) {
                return NULL;
            }
            folder->at = 0;
            folder->size = (size_t)got;
        }
        entry = (const struct entry *)(const void *)(folder->room.bytes + folder->at);
        folder->at += entry->size;
    } while (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0);
    return entry->name;
}

void mst_folder_close(struct mst_folder *folder)
{
    if (folder->fd >= 0) {
        (void)close(folder->fd);
        folder->fd = -1;
    }
}

/* ---- removing ---- */

/* However deep a tree is, only two levels are open: what lies below a folder of the root and is not
 * empty is moved into the root, and is one of its folders in the next pass. */
struct removal {
    int root;
    dev_t device;
    uint64_t moved;
};

/* True: it is an entry of the root now. */
static bool move_up(struct removal *removal, int folder, const char *name)
{
    char to[32];

    for (int i = 0; i < TRIES_MAX; i++) {
        mst_text_print(to, sizeof(to), ".muster-%" PRIu64, removal->moved++);
        if (renameat(folder, name, removal->root, to) == 0) {
            return true;
        }
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) {
            return false;
        }
    }
    return false;
}

/* False: it is still there. A mount is BUSY and stays. */
static bool remove_one(int folder, const char *name, bool *full_out)
{
    *full_out = false;
    if (unlinkat(folder, name, 0) == 0) {
        return true;
    }
    if ((errno == EISDIR || errno == EPERM) && unlinkat(folder, name, AT_REMOVEDIR) == 0) {
        return true;
    }
    *full_out = errno == ENOTEMPTY || errno == EEXIST;
    return false;
}

static bool empty(struct removal *removal, const char *name)
{
    struct mst_folder folder;
    struct stat status;
    const char *below;
    bool any = false, full;

    if (!mst_folder_open(&folder, removal->root, name)) {
        return false;
    }
    if (fstat(folder.fd, &status) == 0 && status.st_dev == removal->device) {
        while ((below = mst_folder_next(&folder)) != NULL) {
            any = remove_one(folder.fd, below, &full) ||
                  (full && move_up(removal, folder.fd, below)) || any;
        }
    }
    mst_folder_close(&folder);
    return remove_one(removal->root, name, &full) || any;
}

/* True: there may be more that can be removed now. */
static bool pass(struct removal *removal)
{
    struct mst_folder folder = {.fd = removal->root};
    const char *name;
    bool any = false, full;

    (void)lseek(removal->root, 0, SEEK_SET);
    while ((name = mst_folder_next(&folder)) != NULL) {
        any = remove_one(removal->root, name, &full) || (full && empty(removal, name)) || any;
    }
    return any;
}

void mst_folder_remove(const char *path)
{
    struct mst_folder folder;
    struct stat status;

    if (!mst_folder_open(&folder, AT_FDCWD, path)) {
        return;
    }
    if (fstat(folder.fd, &status) == 0) {
        struct removal removal = {.root = folder.fd, .device = status.st_dev};

        for (int i = 0; i < PASSES_MAX && pass(&removal); i++) {
        }
    }
    mst_folder_close(&folder);
    (void)unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}
