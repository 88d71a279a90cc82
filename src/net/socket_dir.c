/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/socket_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text.h"
#include "net/elsewhere.h"

#define SUFFIX ".sock"
#define LOG_SUFFIX ".log"
#define SUFFIX_ELSEWHERE ".addr"

static muster_status fail(struct muster_error *err, muster_status status, int os_errno,
                          const char *what, const char *path, const char *why)
{
    return mst_fail(err, status, os_errno, "%s '%s' %s", what, path, why);
}

static bool ours(const char *path, bool private)
{
    struct stat info;

    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (!private || (info.st_mode & 077) == 0);
}

/* False: too long. */
static bool wanted_dir(char path[MST_SOCKET_PATH_MAX])
{
    const char *own = getenv("MUSTER_RUNTIME_DIR");
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    int size;

    if (own && *own) {
        size = snprintf(path, MST_SOCKET_PATH_MAX, "%s", own);
    } else if (xdg && *xdg) {
        size = snprintf(path, MST_SOCKET_PATH_MAX, "%s/muster", xdg);
    } else {
        (void)snprintf(path, MST_SOCKET_PATH_MAX, "/run/user/%u", (unsigned)geteuid());
        if (ours(path, false)) {
            size = snprintf(path, MST_SOCKET_PATH_MAX, "/run/user/%u/muster", (unsigned)geteuid());
        } else {
            size = snprintf(path, MST_SOCKET_PATH_MAX, "/tmp/muster-%u", (unsigned)geteuid());
        }
    }
    return size < MST_SOCKET_PATH_MAX;
}

static muster_status fail_os(struct muster_error *err, muster_status status, int os_errno,
                             const char *what, const char *path)
{
    char why[160];

    (void)snprintf(why, sizeof why, "(%s): set MUSTER_RUNTIME_DIR to a directory of this user",
                   strerror(os_errno));
    return fail(err, status, os_errno, what, path, why);
}

muster_status mst_socket_dir(char path[MST_SOCKET_PATH_MAX], bool create, struct muster_error *err)
{
    struct stat info;

    if (!wanted_dir(path)) {
        return fail(
            err, MUSTER_EINVAL, ENAMETOOLONG, "the runtime directory", path,
            "has too long a name for a socket in it: set MUSTER_RUNTIME_DIR to a shorter one");
    }
    if (create && mkdir(path, 0700) != 0 && errno != EEXIST) {
        return fail_os(err, MUSTER_EINVAL, errno, "cannot make the runtime directory", path);
    }
    if (lstat(path, &info) != 0) {
        return fail_os(err, errno == ENOENT ? MUSTER_ENOTFOUND : MUSTER_EINVAL, errno,
                       "cannot use the runtime directory", path);
    }
    if (!ours(path, true)) {
        return fail(err, MUSTER_EINVAL, 0, "the runtime directory", path,
                    "is not safe: it must be a directory of this user with mode 0700; set "
                    "MUSTER_RUNTIME_DIR to such a one");
    }
    return MUSTER_OK;
}

static muster_status path_of(const char *job, const char *suffix, char path[MST_SOCKET_PATH_MAX],
                             bool create, struct muster_error *err)
{
    muster_status status = mst_socket_dir(path, create, err);
    size_t size;

    if (status != MUSTER_OK) {
        return status;
    }
    if (*job == '\0' || *job == '.' || strchr(job, '/')) {
        return fail(err, MUSTER_EINVAL, 0, "the job name", job,
                    "cannot name a socket: it must not be empty, begin with a dot or hold a slash");
    }
    size = strlen(path);
    if (snprintf(path + size, MST_SOCKET_PATH_MAX - size, "/%s%s", job, suffix) >=
        (int)(MST_SOCKET_PATH_MAX - size)) {
        return fail(err, MUSTER_EINVAL, ENAMETOOLONG, "the job name", job,
                    "is too long for a socket in the runtime directory");
    }
    return MUSTER_OK;
}

bool mst_socket_log(const char *address, char path[MST_SOCKET_PATH_MAX])
{
    size_t size = strlen(address);
    size_t scheme = sizeof "unix:" - 1;
    size_t suffix = sizeof SUFFIX - 1;

    if (size <= scheme + suffix || size - scheme >= MST_SOCKET_PATH_MAX ||
        strncmp(address, "unix:", scheme) != 0 || strcmp(address + size - suffix, SUFFIX) != 0) {
        return false;
    }
    (void)snprintf(path, MST_SOCKET_PATH_MAX, "%.*s" LOG_SUFFIX, (int)(size - scheme - suffix),
                   address + scheme);
    return true;
}

muster_status mst_socket_path(const char *job, char path[MST_SOCKET_PATH_MAX], bool create,
                              struct muster_error *err)
{
    return path_of(job, SUFFIX, path, create, err);
}

muster_status mst_elsewhere_path(const char *job, char path[MST_SOCKET_PATH_MAX], bool create,
                                 struct muster_error *err)
{
    return path_of(job, SUFFIX_ELSEWHERE, path, create, err);
}

pid_t mst_socket_alive(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof peer;
    int fd;

    if (strlen(path) >= sizeof address.sun_path) {
        return 0;
    }
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    /* Only these two mean that no process listens. A busy listener, one of another kind of socket
     * or of another user must not be taken for dead: the caller may put its own in that place. */
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        peer.pid = errno == ECONNREFUSED || errno == ENOENT ? 0 : -1;
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid == 0) {
        peer.pid = -1;
    }
    close(fd);
    return peer.pid;
}

static bool job_of(const char *file, const char *suffix, char job[MST_SOCKET_PATH_MAX])
{
    size_t size = strlen(file);
    size_t end = strlen(suffix);

    if (file[0] == '.' || size <= end || size >= MST_SOCKET_PATH_MAX ||
        strcmp(file + size - end, suffix) != 0) {
        return false;
    }
    memcpy(job, file, size - end);
    job[size - end] = '\0';
    return true;
}

/* Whether `file` of the directory stands for a job that can be reached. */
static bool look_at(const char *directory, const char *file, struct mst_socket_found *one)
{
    one->elsewhere = job_of(file, SUFFIX_ELSEWHERE, one->job);
    if (!one->elsewhere && !job_of(file, SUFFIX, one->job)) {
        return false;
    }
    if (snprintf(one->path, sizeof one->path, "%s/%s", directory, file) >= (int)sizeof one->path) {
        return false;
    }
    one->pid = one->elsewhere ? mst_elsewhere_read(one->path, NULL) : mst_socket_alive(one->path);
    return one->pid != 0;
}

static int by_name(const void *a, const void *b)
{
    const struct mst_socket_found *left = a, *right = b;

    int before = strcmp(left->job, right->job);

    return before != 0 ? before : left->elsewhere - right->elsewhere;
}

/* The service itself goes before a file that says where it is. */
static size_t without_doubles(struct mst_socket_found *found, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(found[kept - 1].job, found[i].job) != 0) {
            found[kept++] = found[i];
        }
    }
    return kept;
}

muster_status mst_socket_list(struct mst_socket_found *found, size_t max, size_t *count,
                              struct muster_error *err)
{
    char path[MST_SOCKET_PATH_MAX];
    muster_status status = mst_socket_dir(path, false, err);
    DIR *dir;

    *count = 0;
    if (status != MUSTER_OK) {
        return status == MUSTER_ENOTFOUND ? MUSTER_OK : status;
    }
    dir = opendir(path);
    if (!dir) {
        return fail_os(err, MUSTER_EINVAL, errno, "cannot read the runtime directory", path);
    }
    for (struct dirent *entry = readdir(dir); entry && *count < max; entry = readdir(dir)) {
        *count += look_at(path, entry->d_name, &found[*count]);
    }
    closedir(dir);
    qsort(found, *count, sizeof *found, by_name);
    *count = without_doubles(found, *count);
    return MUSTER_OK;
}
