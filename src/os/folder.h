/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_FOLDER_H
#define MST_OS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* A folder that is read; no memory but its own. */
struct mst_folder {
    int fd;
    size_t at, size;
    union {
        long long aligned;
        char bytes[2048];
    } room;
};

bool mst_folder_open(struct mst_folder *folder, int parent, const char *path);
/* The next name but `.` and `..`, until the next call; NULL: that was all. */
const char *mst_folder_next(struct mst_folder *folder);
void mst_folder_close(struct mst_folder *folder);

/* The folder and all that is in it on its file system; no link is followed. What cannot be removed
 * stays. */
void mst_folder_remove(const char *path);

#endif
