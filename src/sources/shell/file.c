/* SPDX-License-Identifier: Apache-2.0 */
/* A file that the user makes: its appearance is the notice, its removal withdraws it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "sources/words.h"

#define READ_MAX 4096u

struct file {
    const char *path;
    bool looked;
};

static bool open_file(void **out, const struct mst_source_setup *setup, char *why, size_t room)
{
    struct file *file = calloc(1, sizeof *file);

    if (file == NULL) {
        (void)snprintf(why, room, "the source of notices 'file': out of memory");
        return false;
    }
    file->path = setup->argument;
    *out = file;
    return true;
}

/* The duration in a file that is older than this process began when it was written. */
static void count_from_writing(int fd, int64_t now_unix_ms, struct mst_source_notice *notice)
{
    struct stat is;
    int64_t age_ms = fstat(fd, &is) == 0 ? now_unix_ms - mst_clock_ms_of(&is.st_mtim) : 0;

    if (age_ms > 0) { /* else clocks differ */
        notice->left_ms = notice->left_ms > age_ms ? notice->left_ms - age_ms : 0;
    }
}

static enum mst_source_answer look(void *own, struct mst_source_notice *out)
{
    struct file *file = own;
    /* Not blocking: it may be a pipe without a writer. */
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool first = !file->looked;
    int64_t now_unix_ms;
    char bytes[READ_MAX];
    ssize_t size;

    file->looked = true;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return MST_SOURCE_NOTHING;
    }
    if (fd < 0) {
        (void)snprintf(out->reason, sizeof out->reason, "%.160s: %s", file->path, strerror(errno));
        return MST_SOURCE_UNKNOWN;
    }
    size = read(fd, bytes, sizeof bytes); /* of what cannot be read it is enough that it is there */
    now_unix_ms = mst_clock_ms(CLOCK_REALTIME);
    (void)mst_source_line(mst_slice_of(bytes, size > 0 ? (size_t)size : 0), now_unix_ms, out);
    if (first && out->relative) {
        count_from_writing(fd, now_unix_ms, out);
    }
    (void)close(fd);
    if (out->reason[0] == '\0') {
        (void)snprintf(out->reason, sizeof out->reason, "%.200s is there", file->path);
    }
    return MST_SOURCE_NOTICE;
}

const struct mst_source_kind mst_source_file = {
    .name = "file",
    .argument = "PATH",
    .help = "a file that appears is a notice; its first line may give time and reason: \"60s "
            "maintenance\"",
    .open = open_file,
    .look = look,
    .close = free,
};
