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
#include "client/shell/launcher.h"

enum { STEPS_MAX = 64, ENVIRONMENT_MAX = 4 << 20 };
enum { NAME = 2, PARENT = 4, STARTED = 22 }; /* fields of /proc/PID/stat */

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

/* A field of the process as proc(5) counts them, from PARENT on; 0: not known. */
static uint64_t field_of(pid_t pid, unsigned field)
{
    char path[64];
    size_t size;
    char *stat;
    const char *at;
    uint64_t value = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    stat = read_file(path, &size);
    at = stat ? strrchr(stat, ')') : NULL; /* a command's name may hold anything */
    for (unsigned i = NAME; at && i < field; i++) {
        at = strchr(at + 1, ' ');
    }
    if (at) {
        value = strtoull(at, NULL, 10);
    }
    free(stat);
    return value;
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
    pid_t pid = getppid();

    mst_environment_lock();
    set = mst_environment_before(variable);
    value = set ? strdup(set) : NULL;
    mst_environment_unlock();

    for (int i = 0; value && i < STEPS_MAX && pid > 1 && has(pid, variable, value); i++) {
        pid = (pid_t)field_of(pid, PARENT);
    }
    free(value);
    return (struct mst_lib_launcher){.pid = pid, .started = field_of(pid, STARTED)};
}
