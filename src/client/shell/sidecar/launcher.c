/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "client/shell/sidecar/launcher.h"
#include "process/proc_stat.h"

enum { STEPS_MAX = 64 };

/* Whether the process was started with `variable` having that value. */
static bool has(pid_t pid, const char *variable, const char *value)
{
    size_t length = strlen(variable);
    char path[64];
    char *one = NULL;
    size_t room = 0;
    bool found = false;
    FILE *all;

    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    all = fopen(path, "re");
    while (all && !found && getdelim(&one, &room, '\0', all) > 0) {
        found = strncmp(one, variable, length) == 0 && one[length] == '=' &&
                strcmp(one + length + 1, value) == 0;
    }
    free(one);
    if (all) {
        (void)fclose(all);
    }
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
