/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/journal_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fail.h"
#include "os/folder.h"
#include "os/own_file.h"
#include "service/journal/format.h"

#define LOCK "lock"
#define OWNER "owner"
#define TRIES_MAX 100 /* each but the last met a process that removed the folder just then */

/* As much of a path as leaves room for the reason. */
#define CANNOT "cannot keep a journal in %.*s: "
#define CANNOT_ARGS(path) (int)strnlen(path, 200), (path)

static muster_status refuse_os(struct muster_error *err, const char *path, int os_errno)
{
    return mst_fail(err, MUSTER_EFAILED, os_errno, CANNOT "%s", CANNOT_ARGS(path),
                    mst_own_file_why(os_errno));
}

/* ---- the owner of the folder ---- */

static muster_status look_at(int folder, const char *path, struct muster_error *err)
{
    struct stat info;

    if (fstat(folder, &info) != 0) {
        return refuse_os(err, path, errno);
    }
    if (info.st_uid != geteuid()) {
        return mst_fail(
            err, MUSTER_EFAILED, 0,
            CANNOT "it belongs to another user (uid %u, and this is %u); name a folder that is "
                   "not there yet, or is yours",
            CANNOT_ARGS(path), (unsigned)info.st_uid, (unsigned)geteuid());
    }
    if ((info.st_mode & 022) != 0) {
        return mst_fail(err, MUSTER_EFAILED, 0,
                        CANNOT
                        "others may write to it (mode %04o); take that right away (chmod go-w), or "
                        "name a folder in it that is not there yet",
                        CANNOT_ARGS(path), (unsigned)(info.st_mode & 07777));
    }
    return MUSTER_OK;
}

/* -1, with errno and `err`, and no folder that was not there before. A link is followed: what
 * counts is where it leads. */
static int open_folder(const char *path, bool make, bool *made_out, struct muster_error *err)
{
    bool made = make && mkdir(path, 0700) == 0;
    int folder = -1, os_errno;

    *made_out = made;
    if (!make || made || errno == EEXIST) {
        folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (folder < 0) {
        os_errno = errno;
        (void)refuse_os(err, path, os_errno);
        if (made) {
            (void)rmdir(path);
        }
    } else if (look_at(folder, path, err) != MUSTER_OK) {
        (void)close(folder);
        os_errno = EPERM;
    } else {
        return folder;
    }
    errno = os_errno;
    return -1;
}

/* ---- its locks ---- */

/* EEXISTS: `*holder_out` holds it; 0: a process of another pid namespace. EAGAIN in errno: it was
 * just released. */
static muster_status take_lock(int fd, pid_t *holder_out)
{
    struct flock how = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(fd, F_SETLK, &how) == 0) {
        return MUSTER_OK;
    }
    if ((errno != EACCES && errno != EAGAIN) || fcntl(fd, F_GETLK, &how) != 0) {
        return MUSTER_EFAILED;
    }
    *holder_out = how.l_pid > 0 ? how.l_pid : 0;
    errno = EAGAIN;
    return how.l_type == F_UNLCK ? MUSTER_EFAILED : MUSTER_EEXISTS;
}

/* One of the two locks of an open folder. Between any two of these calls another process may remove
 * both. A lock on a removed file excludes no other process: errno is then EAGAIN. */
static muster_status lock_in(struct mst_journal_folder *folder, const char *name, pid_t *holder_out)
{
    muster_status status;

    folder->lock = mst_own_file_open(folder->folder, name, O_RDWR | O_CREAT | O_EXCL);
    folder->made_lock = folder->lock >= 0;
    if (folder->lock < 0 && errno == EEXIST) {
        folder->lock = mst_own_file_open(folder->folder, name, O_RDWR);
    }
    if (folder->lock < 0) {
        errno = errno == ENOENT ? EAGAIN : errno;
        return MUSTER_EFAILED;
    }
    status = take_lock(folder->lock, holder_out);
    if (status == MUSTER_OK && !mst_own_file_found(folder->folder, name, folder->lock)) {
        errno = EAGAIN;
        return MUSTER_EFAILED;
    }
    return status;
}

/* A folder and one of its locks. On failure neither, and EEXISTS leaves `err` to the caller. */
static muster_status open_locked(struct mst_journal_folder *out, const char *path, bool make,
                                 const char *name, pid_t *holder_out, struct muster_error *err)
{
    int os_errno = EAGAIN;
    bool made = false;

    for (int tries = 0; tries < TRIES_MAX; tries++) {
        muster_status status;

        *out =
            (struct mst_journal_folder){.folder = open_folder(path, make, &made, err), .lock = -1};
        if (out->folder < 0 && !(make && errno == ENOENT)) {
            return MUSTER_EFAILED;
        }
        if (out->folder < 0) {
            os_errno = ENOENT; /* removed just after it was made, or its parent is not there */
            continue;
        }
        status = lock_in(out, name, holder_out);
        os_errno = errno;
        if (status == MUSTER_OK) {
            return MUSTER_OK;
        }
        mst_journal_folder_close(out);
        if (status == MUSTER_EEXISTS) {
            return status;
        }
        if (os_errno != EAGAIN) {
            break;
        }
    }
    if (made) {
        (void)rmdir(path);
    }
    return refuse_os(err, path, os_errno);
}

/* ---- a service's ---- */

/* A parent that we may not read, or cannot sync, existed before us. */
static int sync_parent(int folder)
{
    int parent = openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int os_errno = 0;

    if (parent < 0) {
        return errno == EACCES ? 0 : errno;
    }
    if (fsync(parent) != 0 && errno != EINVAL && errno != EROFS) {
        os_errno = errno;
    }
    (void)close(parent);
    return os_errno;
}

static muster_status refuse_held(struct muster_error *err, const char *path, pid_t holder,
                                 const char *does)
{
    return holder > 0 ? mst_fail(err, MUSTER_EEXISTS, 0, CANNOT "process %d %s", CANNOT_ARGS(path),
                                 (int)holder, does)
                      : mst_fail(err, MUSTER_EEXISTS, 0, CANNOT "a process of another container %s",
                                 CANNOT_ARGS(path), does);
}

muster_status mst_journal_folder_open(struct mst_journal_folder *out, const char *path, bool sync,
                                      struct muster_error *err)
{
    pid_t holder;
    muster_status status = open_locked(out, path, true, LOCK, &holder, err);
    int os_errno;

    if (status == MUSTER_EEXISTS) {
        return refuse_held(err, path, holder, "keeps its own there already");
    }
    os_errno = status == MUSTER_OK && sync ? sync_parent(out->folder) : 0;
    if (os_errno != 0) {
        mst_journal_folder_close(out);
        return refuse_os(err, path, os_errno);
    }
    return status;
}

void mst_journal_folder_close(struct mst_journal_folder *folder)
{
    if (folder->lock >= 0) {
        (void)close(folder->lock);
    }
    if (folder->folder >= 0) {
        (void)close(folder->folder);
    }
    *folder = (struct mst_journal_folder){.folder = -1, .lock = -1};
}

/* ---- an owner's ---- */

/* The locks are removed last, with the folder: until then no other process can begin there. */
static void remove_files(int folder)
{
    struct mst_folder names;
    enum mst_file_kind kind;
    uint64_t sequence;
    const char *name;

    if (!mst_folder_open(&names, folder, ".")) {
        return;
    }
    while ((name = mst_folder_next(&names))) {
        if (mst_file_name_read(name, &kind, &sequence) ||
            mst_replica_name_read(name, &kind, &sequence)) {
            (void)unlinkat(folder, name, 0);
        }
    }
    mst_folder_close(&names);
}

/* On failure: removes what was made for it. */
static void close_unowned(struct mst_journal_folder *owned)
{
    if (owned->made_lock) {
        (void)unlinkat(owned->folder, OWNER, 0);
    }
    mst_journal_folder_close(owned);
}

muster_status mst_journal_folder_claim(int *owner_out, const char *path, struct muster_error *err)
{
    struct mst_journal_folder owned, written;
    pid_t holder;
    muster_status status = open_locked(&owned, path, true, OWNER, &holder, err);

    if (status == MUSTER_EEXISTS) {
        return refuse_held(err, path, holder,
                           "runs a job of this name already; choose another one (-j)");
    }
    if (status != MUSTER_OK) {
        return status;
    }
    status = mst_journal_folder_open(&written, path, false, err);
    if (status == MUSTER_OK) {
        remove_files(written.folder);
        mst_journal_folder_close(&written);
        *owner_out = owned.lock;
        owned.lock = -1;
        mst_journal_folder_close(&owned);
        return MUSTER_OK;
    }
    close_unowned(&owned);
    if (status != MUSTER_EEXISTS) {
        (void)rmdir(path);
    }
    return status;
}

void mst_journal_folder_remove(const char *path, const char *with)
{
    struct mst_journal_folder owned, written;
    pid_t holder;
    muster_status status = open_locked(&owned, path, false, OWNER, &holder, NULL);

    if (status == MUSTER_EFAILED && with) { /* no folder has an owner then */
        (void)unlink(with);
    }
    if (status != MUSTER_OK) {
        return;
    }
    if (open_locked(&written, path, false, LOCK, &holder, NULL) != MUSTER_OK) {
        close_unowned(&owned);
        return;
    }
    if (with) {
        (void)unlink(with);
    }
    remove_files(written.folder);
    (void)unlinkat(written.folder, LOCK, 0);
    (void)unlinkat(written.folder, OWNER, 0);
    (void)rmdir(path);
    mst_journal_folder_close(&written);
    mst_journal_folder_close(&owned);
}
