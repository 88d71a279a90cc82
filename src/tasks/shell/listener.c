/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tasks/shell/listener.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "net/address.h"
#include "net/rendezvous.h"
#include "net/unix_peer.h"
#include "os/system.h"

#define PREFIX ".cluster-"

enum { BACKLOG = 4096, NUMBER_ROOM = 64, ADDRESS_SHOWN = 160, DIGITS = 16 };

static muster_status refuse_os(struct muster_error *err, const char *where)
{
    char words[128];
    int os_errno = errno;

    return mst_fail(err, MUSTER_EINVAL, os_errno, "cannot listen on %s: %s", where,
                    strerror_r(os_errno, words, sizeof words));
}

/* ---- workers of this machine ---- */

/* A name of its own: on another machine, or after a fall, it leads nowhere. */
static muster_status choose_path(const char *folder, char path[MST_SOCKET_PATH_MAX],
                                 struct muster_error *err)
{
    uint64_t number;

    mst_system_random(&number, 1);
    if (snprintf(path, MST_SOCKET_PATH_MAX, "%s/" PREFIX "%016" PRIx64, folder, number) >=
        MST_SOCKET_PATH_MAX) {
        path[0] = '\0';
        return mst_fail(err, MUSTER_EINVAL, 0,
                        "cannot listen in %s: its path is too long for a socket", folder);
    }
    return MUSTER_OK;
}

/* The files of coordinators that were killed. */
static void sweep(const char *folder)
{
    DIR *dir = opendir(folder);

    if (!dir) {
        return;
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char path[MST_SOCKET_PATH_MAX];

        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            strlen(entry->d_name) == sizeof PREFIX - 1 + DIGITS &&
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path &&
            mst_socket_alive(path) == 0) {
            (void)unlink(path);
        }
    }
    (void)closedir(dir);
}

/* The folder is of this user alone, so the file needs no care of its own until its mode is set. */
static bool bind_unix(struct mst_cluster_listener *out)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    memcpy(name.sun_path, out->path, strlen(out->path));
    out->unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return out->unix_fd >= 0 &&
           bind(out->unix_fd, (const struct sockaddr *)&name, sizeof name) == 0 &&
           chmod(out->path, 0700) == 0 && listen(out->unix_fd, BACKLOG) == 0;
}

/* Between bind and listen a socket looks dead to who sweeps: the lock keeps them apart. */
static muster_status listen_unix(struct mst_cluster_listener *out, struct muster_error *err)
{
    char folder[MST_SOCKET_PATH_MAX];
    muster_status status = mst_socket_dir(folder, true, err);
    int lock;

    if (status == MUSTER_OK) {
        status = choose_path(folder, out->path, err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0) {
        (void)flock(lock, LOCK_EX);
        sweep(folder);
    }
    if (!bind_unix(out)) {
        status = refuse_os(err, out->path);
    }
    if (lock >= 0) {
        (void)close(lock);
    }
    (void)snprintf(out->addresses, sizeof out->addresses, "unix:%s", out->path);
    return status;
}

/* ---- workers of other machines ---- */

/* The address by which this machine reaches the service, unless that is its own. */
static bool by_socket(int fd, char *text, size_t room)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof name;

    return fd >= 0 && getsockname(fd, (struct sockaddr *)&name, &size) == 0 &&
           (name.ss_family == AF_INET || name.ss_family == AF_INET6) &&
           !mst_address_is_loopback((struct sockaddr *)&name) &&
           getnameinfo((struct sockaddr *)&name, size, text, (socklen_t)room, NULL, 0,
                       NI_NUMERICHOST) == 0 &&
           !strchr(text, '%'); /* a link-local address is of no use elsewhere */
}

/* Of "any address" one by which others reach this machine. */
static void advertise(struct mst_cluster_listener *out, const struct mst_cluster_listen *how,
                      const struct sockaddr_storage *name, socklen_t size)
{
    size_t have = strlen(out->addresses);
    char host[NUMBER_ROOM] = "", port[8] = "";

    (void)getnameinfo((const struct sockaddr *)name, size, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    if ((strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) &&
        !by_socket(how->reached_by, host, sizeof host) &&
        !mst_rendezvous_interface(host, sizeof host)) {
        (void)snprintf(host, sizeof host, "127.0.0.1");
    }
    (void)snprintf(out->addresses + have, sizeof out->addresses - have,
                   strchr(host, ':') ? ",[%s]:%s" : ",%s:%s", host, port);
}

static muster_status bind_tcp(struct mst_cluster_listener *out, const struct mst_address *address,
                              const struct mst_cluster_listen *how, struct muster_error *err)
{
    struct sockaddr_storage got = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof got;
    const int off = 0, on = 1;

    out->tcp_fd = socket(address->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (out->tcp_fd >= 0 && address->name.ss_family == AF_INET6) {
        (void)setsockopt(out->tcp_fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (out->tcp_fd < 0 || setsockopt(out->tcp_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(out->tcp_fd, (const struct sockaddr *)&address->name, address->size) != 0 ||
        listen(out->tcp_fd, BACKLOG) != 0 ||
        getsockname(out->tcp_fd, (struct sockaddr *)&got, &size) != 0) {
        return refuse_os(err, address->text);
    }
    advertise(out, how, &got, size);
    return MUSTER_OK;
}

static muster_status listen_tcp(struct mst_cluster_listener *out,
                                const struct mst_cluster_listen *how, struct muster_error *err)
{
    const char *text = how->address ? how->address : how->anywhere ? "0.0.0.0:0" : "127.0.0.1:0";
    struct mst_address address;
    const char *wrong = mst_address_parse(&address, mst_slice_text(text));

    if (!wrong && address.kind != MST_ADDRESS_NUMBER) {
        wrong = "is not a number and a port";
    }
    if (!wrong && !how->anywhere && !mst_address_is_local(&address)) {
        wrong = "is open to the network: it needs a secret (MUSTER_SECRET_FILE), or "
                "MUSTER_INSECURE=1 where everybody on the network is trusted";
    }
    if (wrong) {
        return mst_fail(err, MUSTER_EINVAL, 0, "cannot listen: the address '%.*s' %s",
                        (int)strnlen(text, ADDRESS_SHOWN), text, wrong);
    }
    return bind_tcp(out, &address, how, err);
}

/* ---- both ---- */

muster_status mst_cluster_listener_open(struct mst_cluster_listener *out,
                                        const struct mst_cluster_listen *how,
                                        struct muster_error *err)
{
    muster_status status;

    *out = (struct mst_cluster_listener){.unix_fd = -1, .tcp_fd = -1};
    status = listen_unix(out, err);
    if (status == MUSTER_OK && how->tcp) {
        status = listen_tcp(out, how, err);
    }
    if (status != MUSTER_OK) {
        mst_cluster_listener_close(out);
    }
    return status;
}

void mst_cluster_listener_close(struct mst_cluster_listener *listener)
{
    if (listener->path[0] != '\0' && listener->unix_fd >= 0) {
        (void)unlink(listener->path);
    }
    mst_cluster_listener_abandon(listener);
}

void mst_cluster_listener_abandon(struct mst_cluster_listener *listener)
{
    if (listener->unix_fd >= 0) {
        (void)close(listener->unix_fd);
    }
    if (listener->tcp_fd >= 0) {
        (void)close(listener->tcp_fd);
    }
    *listener = (struct mst_cluster_listener){.unix_fd = -1, .tcp_fd = -1};
}

static bool may_talk(int fd)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof name;

    return getsockname(fd, (struct sockaddr *)&name, &size) == 0 &&
           (name.ss_family != AF_UNIX || mst_unix_peer_trusted(fd));
}

int mst_cluster_listener_accept(int fd)
{
    for (;;) {
        int got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (got >= 0 && may_talk(got)) {
            return got;
        }
        if (got >= 0) {
            (void)close(got);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            return -2;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return -1;
        }
    }
}
