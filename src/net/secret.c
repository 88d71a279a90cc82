/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/secret.h"

#include "base/fail.h"
#include "net/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RANDOM_BYTES 32

void mst_secret_wipe(struct mst_secret *secret)
{
    explicit_bzero(secret, sizeof *secret);
}

/* ---- making ---- */

static bool write_secret(int fd)
{
    unsigned char random[RANDOM_BYTES];
    char text[2 * RANDOM_BYTES + 2];
    bool good = getrandom(random, sizeof random, 0) == (ssize_t)sizeof random;

    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", random[i]);
    }
    text[sizeof text - 2] = '\n';
    good = good && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1 && fsync(fd) == 0;
    explicit_bzero(random, sizeof random);
    explicit_bzero(text, sizeof text);
    return good;
}

/* Written under another name and then linked: a process that waits for the file never reads half of
 * it, and of two that make it at once one fails. */
muster_status mst_secret_make(const char *path, struct muster_error *err)
{
    char draft[PATH_MAX];
    bool good;
    int fd = -1;
    int os_errno;

    if (snprintf(draft, sizeof draft, "%s.XXXXXX", path) < (int)sizeof draft &&
        mst_state_make_folders(path)) {
        fd = mkostemp(draft, O_CLOEXEC); /* mode 0600, and new */
    }
    if (fd < 0) {
        os_errno = errno;
        return mst_fail(err, MUSTER_EINVAL, os_errno, "cannot make a secret in '%s': %s", path,
                        strerror(os_errno));
    }
    good = write_secret(fd) && link(draft, path) == 0;
    os_errno = errno;
    close(fd);
    (void)unlink(draft);
    if (good) {
        return MUSTER_OK;
    }
    return mst_fail(err, os_errno == EEXIST ? MUSTER_EEXISTS : MUSTER_EINVAL, os_errno,
                    "cannot make a secret in '%s': %s", path, strerror(os_errno));
}

/* ---- reading ---- */

/* At most `room` bytes, from the beginning where that can be said. */
static ssize_t read_whole(int fd, unsigned char *bytes, size_t room)
{
    bool seekable = lseek(fd, 0, SEEK_CUR) >= 0;
    size_t size = 0;

    while (size < room) {
        ssize_t got = seekable ? pread(fd, bytes + size, room - size, (off_t)size)
                               : read(fd, bytes + size, room - size);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        size += (size_t)got;
    }
    return (ssize_t)size;
}

static muster_status take(int fd, const char *name, struct mst_secret *out,
                          struct muster_error *err)
{
    unsigned char bytes[MST_SECRET_BYTES_MAX + 2];
    ssize_t got = read_whole(fd, bytes, sizeof bytes);
    muster_status status = MUSTER_OK;
    int os_errno = errno;

    if (got < 0) {
        return mst_fail(err, MUSTER_EINVAL, os_errno, "cannot read the secret from %s: %s", name,
                        strerror(os_errno));
    }
    if (got > 0 && bytes[got - 1] == '\n') {
        got--;
    }
    if (got < MST_SECRET_BYTES_MIN || got > MST_SECRET_BYTES_MAX) {
        status =
            mst_fail(err, MUSTER_EINVAL, 0,
                     "the secret in %s has %s bytes: %d to %d are taken (openssl rand -hex 32)",
                     name, got < MST_SECRET_BYTES_MIN ? "too few" : "too many",
                     MST_SECRET_BYTES_MIN, MST_SECRET_BYTES_MAX);
    } else {
        memset(out, 0, sizeof *out);
        memcpy(out->bytes, bytes, (size_t)got);
        out->size = (size_t)got;
    }
    explicit_bzero(bytes, sizeof bytes);
    return status;
}

/* Why another user could know it, or could have chosen it; NULL: none could. The administrator
 * gives out files of root, and decides which users may read them; of root's own files that is only
 * known where the file system is a mounted secret, which cannot be written. */
static const char *exposed(int fd, const struct stat *info)
{
    struct statvfs mount;

    if (!S_ISREG(info->st_mode)) {
        return "is no regular file";
    }
    if (info->st_uid != geteuid() && info->st_uid != 0) {
        return "belongs to another user, who knows it";
    }
    if (info->st_uid == 0 &&
        (geteuid() != 0 || (fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_RDONLY)))) {
        return NULL;
    }
    return (info->st_mode & 077) ? "can be read or written by other users" : NULL;
}

muster_status mst_secret_read(const char *path, struct mst_secret *out, struct muster_error *err)
{
    char name[256];
    const char *why;
    struct stat info;
    muster_status status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    (void)snprintf(name, sizeof name, "'%s'", path);
    if (fd < 0 || fstat(fd, &info) != 0) {
        int os_errno = errno;

        if (fd >= 0) {
            close(fd);
        }
        return mst_fail(err, MUSTER_EINVAL, os_errno, "cannot read the secret from %s: %s", name,
                        strerror(os_errno));
    }
    why = exposed(fd, &info);
    if (why) {
        status =
            mst_fail(err, MUSTER_EINVAL, 0,
                     "the secret file '%s' %s (mode %04o, owner %u): make a new one, with chmod "
                     "600 before the secret is in it",
                     path, why, (unsigned)(info.st_mode & 07777), (unsigned)info.st_uid);
    } else {
        status = take(fd, name, out, err);
    }
    close(fd);
    return status;
}

muster_status mst_secret_read_fd(int fd, struct mst_secret *out, struct muster_error *err)
{
    char name[32];

    (void)snprintf(name, sizeof name, "descriptor %d", fd);
    return take(fd, name, out, err);
}

muster_status mst_secret_share(const struct mst_secret *secret, int *fd_out,
                               struct muster_error *err)
{
    const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    int fd = memfd_create("muster-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int os_errno;

    if (fd >= 0 && write(fd, secret->bytes, secret->size) == (ssize_t)secret->size &&
        fcntl(fd, F_ADD_SEALS, seals) == 0) {
        *fd_out = fd;
        return MUSTER_OK;
    }
    os_errno = errno;
    if (fd >= 0) {
        close(fd);
    }
    return mst_fail(err, MUSTER_EINVAL, os_errno, "cannot share the secret: %s",
                    strerror(os_errno));
}

/* ---- where ---- */

muster_status mst_secret_path(const char *job, char *path, size_t room, struct muster_error *err)
{
    char name[NAME_MAX + 1];

    errno = 0;
    if (*job == '\0' || *job == '.' || strchr(job, '/')) {
        return mst_fail(
            err, MUSTER_EINVAL, 0,
            "the job name '%s' cannot name a secret's file: it must not be empty, begin "
            "with a dot or hold a slash",
            job);
    }
    if ((size_t)snprintf(name, sizeof name, "%s.secret", job) < sizeof name &&
        mst_state_path(name, path, room)) {
        return MUSTER_OK;
    }
    if (errno == ENOENT) {
        return mst_fail(
            err, MUSTER_EINVAL, 0,
            "no folder for the secret of job '%s' is known: set HOME or MUSTER_STATE_DIR", job);
    }
    return mst_fail(err, MUSTER_EINVAL, ENAMETOOLONG,
                    "the path of the secret of job '%s' is too long", job);
}
