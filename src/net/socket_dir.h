/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_SOCKET_DIR_H
#define MST_NET_SOCKET_DIR_H

/* How the commands of one user find the services of the same user by themselves: each service
 * keeps a socket under its job's name in the user's runtime directory.
 *
 * The directory is $MUSTER_RUNTIME_DIR, else $XDG_RUNTIME_DIR/muster, else /run/user/<uid>/muster
 * where /run/user/<uid> is ours, else /tmp/muster-<uid>. It is made with mode 0700, and refused
 * unless it is a directory of ours that nobody else can enter: whoever could put a socket there
 * could pose as the service. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "muster/status.h"

/* A path fits into the address of a Unix socket, or it is refused. */
#define MST_SOCKET_PATH_MAX 108

/* "/run/x/train.log" for "unix:/run/x/train.sock": where a service in the background logs. False:
 * no such socket. */
bool mst_socket_log(const char *address, char path[MST_SOCKET_PATH_MAX]);

struct mst_socket_found {
    char job[MST_SOCKET_PATH_MAX];
    char path[MST_SOCKET_PATH_MAX];
    pid_t pid;      /* of the service, or of the process that keeps its address */
    bool elsewhere; /* `path` is no socket, but a file that says so: see net/elsewhere.h */
};

/* The directory's path. With `create` it is made where it is missing; without, a missing one is
 * ENOTFOUND. EINVAL: it is not safe, or its path too long; `err` names it. */
muster_status mst_socket_dir(char path[MST_SOCKET_PATH_MAX], bool create, struct muster_error *err);

/* The path of the job's socket in the directory, whether it exists or not. EINVAL also for a job
 * whose name cannot be a file's. */
muster_status mst_socket_path(const char *job, char path[MST_SOCKET_PATH_MAX], bool create,
                              struct muster_error *err);

/* The same of the file that says where the job's service is, if it is not here. */
muster_status mst_elsewhere_path(const char *job, char path[MST_SOCKET_PATH_MAX], bool create,
                                 struct muster_error *err);

/* The pid of the service that listens at `path`; 0: nobody does; -1: somebody does, or may, and who
 * it is cannot be asked. */
pid_t mst_socket_alive(const char *path);

/* The living services, and those elsewhere, by name; at most `max`, and `count` says how many. No
 * directory is no service, not an error. */
muster_status mst_socket_list(struct mst_socket_found *found, size_t max, size_t *count,
                              struct muster_error *err);

#endif
