/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/journal_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "os/folder.h"
#include "os/own_file.h"
#include "process/forked.h"
#include "service/server/journal_folder.h"

struct mst_journal_disk {
    struct mst_disk disk;
    struct mst_journal_folder of;
    char path[PATH_MAX];
    char reason[PATH_MAX + 256];
};

/* ---- files ---- */

static muster_status failed(struct mst_journal_disk *disk, const char *name, int os_errno)
{
    (void)snprintf(disk->reason, sizeof disk->reason, "%s/%s: %s", disk->path, name,
                   mst_own_file_why(os_errno));
    if (os_errno == ENOSPC || os_errno == EDQUOT) {
        return MUSTER_ENOSPACE;
    }
    return os_errno == ENOENT ? MUSTER_ENOTFOUND : MUSTER_EFAILED;
}

/* Of an open file, whose name the system still has. */
static muster_status failed_file(struct mst_journal_disk *disk, int file, int os_errno)
{
    char link[64], path[PATH_MAX] = "";
    const char *name;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    (void)!readlink(link, path, sizeof path - 1);
    name = strrchr(path, '/');
    return failed(disk, name ? name + 1 : "", os_errno);
}

static muster_status list(void *ctx, void (*each)(void *each_ctx, const char *name), void *each_ctx)
{
    struct mst_journal_disk *disk = ctx;
    struct mst_folder names;
    const char *name;

    if (!mst_folder_open(&names, disk->of.folder, ".")) {
        return failed(disk, "", errno);
    }
    while ((name = mst_folder_next(&names))) {
        each(each_ctx, name);
    }
    mst_folder_close(&names);
    return MUSTER_OK;
}

static muster_status size_of(void *ctx, const char *name, uint64_t *out)
{
    struct mst_journal_disk *disk = ctx;
    struct stat about;

    if (fstatat(disk->of.folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
        return failed(disk, name, errno);
    }
    if (!S_ISREG(about.st_mode)) {
        return failed(disk, name, ELOOP);
    }
    *out = (uint64_t)about.st_size;
    return MUSTER_OK;
}

static muster_status read_at(void *ctx, const char *name, uint64_t offset, void *into, size_t size)
{
    struct mst_journal_disk *disk = ctx;
    int file = mst_own_file_open(disk->of.folder, name, O_RDONLY);
    unsigned char *at = into;
    muster_status status = MUSTER_OK;

    if (file < 0) {
        return failed(disk, name, errno);
    }
    while (size > 0 && status == MUSTER_OK) {
        ssize_t got = pread(file, at, size, (off_t)offset);

        if (got > 0) {
            at += got;
            offset += (uint64_t)got;
            size -= (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            status = failed(disk, name, got == 0 ? EIO : errno);
        }
    }
    close(file);
    return status;
}

static muster_status create(void *ctx, const char *name, int *out)
{
    struct mst_journal_disk *disk = ctx;

    *out = mst_own_file_open(disk->of.folder, name, O_RDWR | O_CREAT | O_TRUNC);
    return *out >= 0 ? MUSTER_OK : failed(disk, name, errno);
}

int mst_disk_write(int file, struct mst_slice bytes, uint64_t offset)
{
    const unsigned char *data = bytes.data;
    size_t left = bytes.size;

    while (left > 0) {
        ssize_t done = pwrite(file, data, left, (off_t)offset);

        if (done > 0) {
            data += done;
            left -= (size_t)done;
            offset += (uint64_t)done;
        } else if (done == 0 || errno != EINTR) {
            return done == 0 ? EIO : errno;
        }
    }
    return 0;
}

static muster_status write_at(void *ctx, int file, uint64_t offset, struct mst_slice bytes)
{
    int error = mst_disk_write(file, bytes, offset);

    return error == 0 ? MUSTER_OK : failed_file(ctx, file, error);
}

static muster_status reserve(void *ctx, int file, uint64_t size)
{
    int error;

    do {
        error = fallocate(file, 0, 0, (off_t)size) == 0 ? 0 : errno;
    } while (error == EINTR);
    if (error == EOPNOTSUPP || error == ENOSYS) { /* slower: glibc touches every block */
        error = posix_fallocate(file, 0, (off_t)size);
    }
    return error == 0 ? MUSTER_OK : failed_file(ctx, file, error);
}

static muster_status cut(void *ctx, const char *name, uint64_t size, bool sync)
{
    struct mst_journal_disk *disk = ctx;
    int file = mst_own_file_open(disk->of.folder, name, O_RDWR);
    muster_status status = MUSTER_OK;

    if (file < 0) {
        return failed(disk, name, errno);
    }
    if (ftruncate(file, (off_t)size) != 0 || (sync && fdatasync(file) != 0)) {
        status = failed(disk, name, errno);
    }
    close(file);
    return status;
}

static muster_status sync_file(void *ctx, int file)
{
    return fdatasync(file) == 0 ? MUSTER_OK : failed_file(ctx, file, errno);
}

static void close_file(void *ctx, int file)
{
    (void)ctx;
    close(file);
}

static muster_status rename_file(void *ctx, const char *from, const char *to)
{
    struct mst_journal_disk *disk = ctx;

    return renameat(disk->of.folder, from, disk->of.folder, to) == 0 ? MUSTER_OK
                                                                     : failed(disk, to, errno);
}

static muster_status remove_file(void *ctx, const char *name)
{
    struct mst_journal_disk *disk = ctx;

    return unlinkat(disk->of.folder, name, 0) == 0 ? MUSTER_OK : failed(disk, name, errno);
}

static muster_status sync_names(void *ctx)
{
    struct mst_journal_disk *disk = ctx;

    return fsync(disk->of.folder) == 0 ? MUSTER_OK : failed(disk, "", errno);
}

static const char *reason_of(void *ctx)
{
    const struct mst_journal_disk *disk = ctx;

    return disk->reason;
}

const struct mst_disk *mst_journal_disk_of(const struct mst_journal_disk *disk)
{
    return &disk->disk;
}

/* ---- the folder ---- */

muster_status mst_journal_disk_open(struct mst_journal_disk **out, const char *path, bool sync,
                                    struct muster_error *err)
{
    struct mst_journal_disk *disk = calloc(1, sizeof *disk);
    muster_status status;

    if (!disk) {
        return mst_fail(err, MUSTER_ENOMEM, ENOMEM, "cannot keep a journal in %.*s: %s",
                        (int)strnlen(path, 300), path, strerror(ENOMEM));
    }
    status = mst_journal_folder_open(&disk->of, path, sync, err);
    if (status != MUSTER_OK) {
        free(disk);
        return status;
    }
    (void)snprintf(disk->path, sizeof disk->path, "%s", path);
    disk->disk = (struct mst_disk){.ctx = disk,
                                   .where = disk->path,
                                   .list = list,
                                   .size = size_of,
                                   .read = read_at,
                                   .create = create,
                                   .write = write_at,
                                   .reserve = reserve,
                                   .cut = cut,
                                   .sync = sync_file,
                                   .close = close_file,
                                   .rename = rename_file,
                                   .remove = remove_file,
                                   .sync_names = sync_names,
                                   .reason = reason_of};
    *out = disk;
    return MUSTER_OK;
}

void mst_journal_disk_close(struct mst_journal_disk *disk)
{
    if (disk) {
        mst_journal_folder_close(&disk->of);
        free(disk);
    }
}

/* ---- the child ---- */

static void close_between(unsigned first, unsigned last)
{
#ifdef SYS_close_range
    if (first <= last) {
        (void)syscall(SYS_close_range, first, last, 0);
    }
#else
    (void)first;
    (void)last;
#endif
}

/* Closes the connections of the service. Signals to the service do not reach the child. */
static _Noreturn void be_child(struct mst_journal_disk *disk, muster_status (*write)(void *ctx),
                               void *ctx, pid_t parent, int end)
{
    unsigned low = (unsigned)(disk->of.folder < end ? disk->of.folder : end);
    unsigned high = (unsigned)(disk->of.folder < end ? end : disk->of.folder);

    if (!mst_forked_dies_with(parent, SIGKILL)) {
        _exit(1);
    }
    if (low >= 3) {
        close_between(3, low - 1);
        close_between(low + 1, high - 1);
        close_between(high + 1, UINT_MAX);
    }
    _exit(write(ctx) == MUSTER_OK ? 0 : 1);
}

bool mst_journal_disk_fork(struct mst_journal_disk *disk, muster_status (*write)(void *ctx),
                           void *ctx, pid_t *child, int *end)
{
    pid_t parent = getpid();
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    *child = mst_forked(NULL);
    if (*child == 0) {
        be_child(disk, write, ctx, parent, ends[1]);
    }
    close(ends[1]);
    if (*child < 0) {
        close(ends[0]);
        return false;
    }
    *end = ends[0];
    return true;
}

bool mst_journal_disk_reap(pid_t child, int end, bool now)
{
    int status = -1;

    close(end);
    if (now) {
        (void)kill(child, SIGKILL);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
