/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/proc_stat.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "proto/run_keys.h"

enum {
    FIELD_STATE = 3,
    FIELD_PARENT = 4,
    FIELD_FLAGS = 9,
    FIELD_CPU_USER = 14,
    FIELD_CPU_SYSTEM = 15,
    FIELD_START = 22,
    FIELD_ENV_START = 50,
    FIELD_ENV_END = 51,
    FIELD_END = 52
};
enum { ROOM = 2048 };

/* Moves on to the next field. 0 also for one that is missing or negative. */
static uint64_t number_of(const char **at)
{
    const char *digit = *at;
    uint64_t number = 0;

    for (; *digit >= '0' && *digit <= '9'; digit++) {
        number = number * 10 + (uint64_t)(*digit - '0');
    }
    while (*digit != '\0' && *digit++ != ' ') {
    }
    *at = digit;
    return number;
}

bool mst_proc_stat_read(int fd, struct mst_proc_stat *out)
{
    uint64_t fields[FIELD_END + 1] = {0};
    char text[ROOM];
    ssize_t size = read(fd, text, sizeof text - 1);
    const char *at;

    *out = (struct mst_proc_stat){0};
    text[size > 0 ? size : 0] = '\0';
    at = strrchr(text, ')'); /* the name may hold anything */
    if (at == NULL || strlen(at) < 4) {
        return false;
    }
    out->state = at[2];
    at += 4;
    for (unsigned field = FIELD_STATE + 1; field <= FIELD_END; field++) {
        fields[field] = number_of(&at);
    }
    *out = (struct mst_proc_stat){.state = out->state,
                                  .parent = (pid_t)fields[FIELD_PARENT],
                                  .flags = fields[FIELD_FLAGS],
                                  .cpu = fields[FIELD_CPU_USER] + fields[FIELD_CPU_SYSTEM],
                                  .start = fields[FIELD_START],
                                  .env_start = fields[FIELD_ENV_START],
                                  .env_end = fields[FIELD_ENV_END],
                                  .end = (int)fields[FIELD_END]};
    return out->state != 'Z' && out->state != 'X';
}

static bool read_path(const char *path, struct mst_proc_stat *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool runs;

    if (fd < 0) {
        *out = (struct mst_proc_stat){0};
        return false;
    }
    runs = mst_proc_stat_read(fd, out);
    (void)close(fd);
    return runs;
}

bool mst_proc_stat_of(pid_t pid, struct mst_proc_stat *out)
{
    char path[40];

    mst_text_print(path, sizeof path, "/proc/%d/stat", (int)(pid > 0 ? pid : getpid()));
    return read_path(path, out);
}

bool mst_proc_stat_thread(pid_t pid, uint64_t thread, struct mst_proc_stat *out)
{
    char path[64];

    mst_text_print(path, sizeof path, "/proc/%d/task/%" PRIu64 "/stat", (int)pid, thread);
    return read_path(path, out);
}

uint64_t mst_proc_stat_start(pid_t pid)
{
    struct mst_proc_stat stat;

    return mst_proc_stat_of(pid, &stat) ? stat.start : 0;
}

pid_t mst_proc_stat_next(struct mst_folder *proc)
{
    const char *name;
    uint32_t pid;

    while ((name = mst_folder_next(proc)) != NULL) {
        if (mst_run_number_read(mst_slice_text(name), INT32_MAX, &pid) && pid > 0) {
            return (pid_t)pid;
        }
    }
    return 0;
}
