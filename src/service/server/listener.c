/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "net/socket_dir.h"
#include "os/own_file.h"

#define LOCK_SUFFIX ".lock"
#define ADDRESS_SHOWN 160 /* bytes of one that makes no sense */
#define BACKLOG 4096      /* the kernel cuts it to net.core.somaxconn */

static muster_status fail_os(struct muster_error *err, const char *address)
{
    int os_errno = errno;

    return mst_fail(err, MUSTER_EINVAL, os_errno, "cannot serve on %s: %s", address,
                    strerror(os_errno));
}

/* When two services find the file of a dead one at the same time, one must not remove the new file
 * of the other: a service that binds holds this lock until it listens. The lock is a file beside
 * the socket, which only this user can open; the folder could be locked by any user who can read
 * it. -1: `err` is filled. */
static int lock_beside(const char *path, const char *address, struct muster_error *err)
{
    char name[MST_UV_ADDRESS_MAX + sizeof LOCK_SUFFIX];
    int fd;

    (void)snprintf(name, sizeof name, "%s" LOCK_SUFFIX, path);
    while ((fd = mst_own_file_open(AT_FDCWD, name, O_RDWR | O_CREAT)) >= 0) {
        bool locked = flock(fd, LOCK_EX) == 0;
        int os_errno = errno;

        if (locked && mst_own_file_found(AT_FDCWD, name, fd)) {
            return fd;
        }
        (void)close(fd); /* removed while it was waited for, or a signal came */
        if (!locked && os_errno != EINTR) {
            errno = os_errno;
            break;
        }
    }
    (void)mst_fail(err, MUSTER_EINVAL, errno, "cannot serve on %s: %s: %s", address, name,
                   mst_own_file_why(errno));
    return -1;
}

static void unlock_beside(const char *path, int lock)
{
    char name[MST_UV_ADDRESS_MAX + sizeof LOCK_SUFFIX];

    (void)snprintf(name, sizeof name, "%s" LOCK_SUFFIX, path);
    (void)unlink(name);
    (void)close(lock);
}

static bool bind_private(int fd, const struct sockaddr_un *name)
{
    mode_t mask = umask(0077);
    bool good = bind(fd, (const struct sockaddr *)name, sizeof *name) == 0;

    umask(mask);
    return good;
}

/* The file of a dead service is removed; a living one keeps it. */
static muster_status bind_or_replace(int fd, const struct sockaddr_un *name, const char *address,
                                     struct muster_error *err)
{
    struct stat info;
    pid_t pid;

    if (bind_private(fd, name)) {
        return MUSTER_OK;
    }
    if (errno != EADDRINUSE) {
        return fail_os(err, address);
    }
    if (lstat(name->sun_path, &info) == 0 && !S_ISSOCK(info.st_mode)) {
        return mst_fail(err, MUSTER_EINVAL, 0,
                        "cannot serve on %s: there is a file that is no socket", address);
    }
    pid = mst_socket_alive(name->sun_path);
    if (pid > 0) {
        return mst_fail(err, MUSTER_EEXISTS, 0,
                        "cannot serve on %s: process %d serves there already", address, (int)pid);
    }
    if (pid < 0) {
        return mst_fail(err, MUSTER_EEXISTS, 0, "cannot serve on %s: another process serves there",
                        address);
    }
    (void)unlink(name->sun_path);
    return bind_private(fd, name) ? MUSTER_OK : fail_os(err, address);
}

static muster_status listen_unix(struct mst_uv_listener *out, struct muster_error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct stat info = {0};
    muster_status status;
    int lock;

    strncpy(name.sun_path, out->path, sizeof name.sun_path - 1);
    lock = lock_beside(out->path, out->address, err);
    if (lock < 0) {
        return MUSTER_EINVAL;
    }
    out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (out->fd < 0) {
        status = fail_os(err, out->address);
    } else {
        status = bind_or_replace(out->fd, &name, out->address, err);
    }
    if (status == MUSTER_OK && (listen(out->fd, BACKLOG) != 0 || stat(name.sun_path, &info) != 0)) {
        status = fail_os(err, out->address);
    }
    unlock_beside(out->path, lock);
    out->device = info.st_dev;
    out->inode = info.st_ino;
    return status;
}

static bool bind_and_listen(struct mst_uv_listener *out, const struct addrinfo *name)
{
    struct sockaddr_storage got;
    socklen_t size = sizeof got;
    char host[64], port[8];
    const int on = 1;

    out->fd = socket(name->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (out->fd < 0 || setsockopt(out->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(out->fd, name->ai_addr, name->ai_addrlen) != 0 || listen(out->fd, BACKLOG) != 0 ||
        getsockname(out->fd, (struct sockaddr *)&got, &size) != 0) {
        return false;
    }
    if (getnameinfo((struct sockaddr *)&got, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return false;
    }
    (void)snprintf(out->address, sizeof out->address,
                   name->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return true;
}

/* Only here the address of a name is known; a numeric address was checked before. */
static muster_status listen_tcp(struct mst_uv_listener *out, const struct mst_address *address,
                                bool anywhere, struct muster_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    muster_status status = MUSTER_OK;
    char port[8];
    int code;

    (void)snprintf(port, sizeof port, "%u", (unsigned)address->port);
    code = getaddrinfo(address->host, port, &hints, &found);
    if (code != 0) {
        return mst_fail(err, MUSTER_EINVAL, 0, "cannot serve on %s: %s", out->address,
                        gai_strerror(code));
    }
    if (!anywhere && !mst_address_is_loopback(found->ai_addr)) {
        status =
            mst_fail(err, MUSTER_EINVAL, 0,
                     "refused to serve on %s: anybody on the network could join; give it a secret "
                     "(--secret-file), or say --insecure where everybody there is trusted",
                     out->address);
    } else if (!bind_and_listen(out, found)) {
        status = fail_os(err, out->address);
    }
    freeaddrinfo(found);
    return status;
}

muster_status mst_uv_listener_open(struct mst_uv_listener *out, const char *text, bool anywhere,
                                   struct muster_error *err)
{
    struct mst_address address;
    const char *wrong = mst_address_parse(&address, mst_slice_text(text));
    muster_status status;

    *out = (struct mst_uv_listener){.fd = -1};
    if (wrong) {
        return mst_fail(err, MUSTER_EINVAL, 0, "cannot serve: the address '%.*s' %s",
                        (int)strnlen(text, ADDRESS_SHOWN), text, wrong);
    }
    memcpy(out->address, address.text, sizeof out->address);
    if (address.kind == MST_ADDRESS_UNIX) {
        out->path = strchr(out->address, '/');
        status = listen_unix(out, err);
    } else {
        status = listen_tcp(out, &address, anywhere, err);
    }
    if (status != MUSTER_OK && out->fd >= 0) {
        close(out->fd);
        out->fd = -1;
    }
    return status;
}

void mst_uv_listener_close(struct mst_uv_listener *listener)
{
    struct stat info;

    if (listener->fd < 0) {
        return;
    }
    if (listener->path && stat(listener->path, &info) == 0 && info.st_dev == listener->device &&
        info.st_ino == listener->inode) {
        (void)unlink(listener->path);
    }
    close(listener->fd);
    listener->fd = -1;
}
