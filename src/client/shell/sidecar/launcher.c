/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "client/shell/sidecar/launcher.h"
#include "process/proc_stat.h"

enum { STEPS_MAX = 64, ENVIRONMENT_MAX = 4 << 20 };

/* The file's bytes with a NUL behind them, the caller's; NULL: it cannot be read. */
static char *read_file(const char *path, size_t *size_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    size_t room = 16384;
    char *bytes = fd >= 0 ? malloc(room) : NULL;
    ssize_t got = 1;

    while (bytes && got > 0 && room <= ENVIRONMENT_MAX) {
        got = read(fd, bytes + size, room - size - 1);
        size += got > 0 ? (size_t)got : 0;
        if (size + 1 == room) {
            char *larger = realloc(bytes, room * 2);

            if (!larger) {
                free(bytes);
            }
            bytes = larger;
            room *= 2;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (bytes) {
        bytes[size] = '\0';
    }
    *size_out = size;
    return bytes;
}

/* Whether the process was started with `variable` having that value. */
static bool has(pid_t pid, const char *variable, const char *value)
{
    char path[64];
    size_t size;
    size_t length = strlen(variable);
    char *all;
    bool found = false;

    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    all = read_file(path, &size);
    for (size_t at = 0; all && at < size && !found; at += strlen(all + at) + 1) {
        found = strncmp(all + at, variable, length) == 0 && all[at + length] == '=' &&
                strcmp(all + at + length + 1, value) == 0;
    }
    free(all);
    return found;
}

struct mst_lib_launcher mst_lib_launcher(const char *variable)
{
    const char *set;
    char *value;
    struct mst_proc_stat stat;
    pid_t pid = getppid();

    mst_environment_lock();
    set = mst_environment_before(variable);
    value = set ? strdup(set) : NULL;
    mst_environment_unlock();

    for (int i = 0; value && i < STEPS_MAX && pid > 1 && has(pid, variable, value); i++) {
        (void)mst_proc_stat_of(pid, &stat);
        pid = stat.parent;
    }
    free(value);
    if (pid > 0) {
        (void)mst_proc_stat_of(pid, &stat);
    }
    return (struct mst_lib_launcher){.pid = pid, .started = pid > 0 ? stat.start : 0};
}
