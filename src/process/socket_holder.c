/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/socket_holder.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "process/proc_stat.h"

static bool holds(pid_t pid, const char *socket)
{
    struct mst_folder open;
    char path[32], target[64];
    const char *name;
    bool found = false;

    mst_text_print(path, sizeof path, "/proc/%d/fd", (int)pid);
    if (!mst_folder_open(&open, AT_FDCWD, path)) {
        return false;
    }
    while (!found && (name = mst_folder_next(&open)) != NULL) {
        ssize_t size = readlinkat(open.fd, name, target, sizeof target - 1);

        target[size > 0 ? size : 0] = '\0';
        found = strcmp(target, socket) == 0;
    }
    mst_folder_close(&open);
    return found;
}

pid_t mst_socket_holder(uint64_t inode)
{
    struct mst_folder proc;
    char socket[40];
    uint64_t oldest = UINT64_MAX;
    pid_t holder = 0, pid;

    mst_text_print(socket, sizeof socket, "socket:[%" PRIu64 "]", inode);
    if (!mst_folder_open(&proc, AT_FDCWD, "/proc")) {
        return 0;
    }
    while ((pid = mst_proc_stat_next(&proc)) != 0) {
        if (holds(pid, socket)) {
            uint64_t start = mst_proc_stat_start(pid);

            if (start != 0 && start < oldest) {
                oldest = start;
                holder = pid;
            }
        }
    }
    mst_folder_close(&proc);
    return holder;
}
