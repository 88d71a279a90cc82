/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/state_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool mst_state_path(const char *name, char *path, size_t room)
{
    const char *state = getenv("MUSTER_STATE_DIR");
    const char *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int size;

    if (state && *state) {
        size = snprintf(path, room, "%s/%s", state, name);
    } else if (xdg && *xdg) {
        size = snprintf(path, room, "%s/muster/%s", xdg, name);
    } else if (home && *home) {
        size = snprintf(path, room, "%s/.local/state/muster/%s", home, name);
    } else {
        errno = ENOENT;
        return false;
    }
    errno = ENAMETOOLONG;
    return size >= 0 && (size_t)size < room;
}

bool mst_state_make_folders(const char *path)
{
    char folder[PATH_MAX];

    if (strlen(path) >= sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    (void)snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
            return false;
        }
        *slash = '/';
    }
    return true;
}
