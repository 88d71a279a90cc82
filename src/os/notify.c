/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool mst_notify(const char *lines)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = path ? strlen(path) : 0;
    bool sent;
    int fd, os_errno;

    if (size == 0) {
        return true;
    }
    if ((*path != '/' && *path != '@') || size >= sizeof address.sun_path) {
        errno = EINVAL;
        return false;
    }
    memcpy(address.sun_path, path, size);
    if (*path == '@') {
        address.sun_path[0] = '\0'; /* an abstract socket */
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    sent = sendto(fd, lines, strlen(lines), MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)) >= 0;
    os_errno = errno;
    (void)close(fd);
    errno = os_errno;
    return sent;
}
