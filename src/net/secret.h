/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_SECRET_H
#define MST_NET_SECRET_H

/* The secret of a job: it distinguishes its processes from all others on the network. It comes from
 * a file or from an inherited descriptor, never from the command line or the environment, which
 * other users of the machine can read. */

#include <stddef.h>

#include "muster/status.h"

#define MST_SECRET_BYTES_MIN 16
#define MST_SECRET_BYTES_MAX 64

struct mst_secret {
    unsigned char bytes[MST_SECRET_BYTES_MAX];
    size_t size; /* 0: none */
};

/* Makes a file with a new secret: 32 random bytes as 64 hexadecimal digits and a newline, mode
 * 0600. Missing folders are made with mode 0700. The file appears whole. EEXISTS: there is one
 * already, and it is left as it is; EINVAL: it cannot be made. */
muster_status mst_secret_make(const char *path, struct muster_error *err);

/* Reads a secret of 16 to 64 bytes, taken as they are; one newline at the end is cut. EINVAL: it
 * cannot be read, is too short or too long, or others can read it: the file must belong to this
 * user with no rights for others (0600 or 0400), or to root, as an administrator's and a mounted
 * one does. `err` says what to do. */
muster_status mst_secret_read(const char *path, struct mst_secret *out, struct muster_error *err);

/* The same from an inherited descriptor: a file is read from its beginning, so several processes
 * may share it; a pipe to its end, once. The descriptor stays open. */
muster_status mst_secret_read_fd(int fd, struct mst_secret *out, struct muster_error *err);

/* A descriptor from which this process and those that inherit it can read the secret as often as
 * they like: a file in memory that no process can change. It closes at exec. EINVAL. */
muster_status mst_secret_share(const struct mst_secret *secret, int *fd_out,
                               struct muster_error *err);

/* Where `run` keeps a job's secret: JOB.secret in the folder of state_dir.h. EINVAL: no such folder
 * is known, the path is longer than `room`, or the job's name cannot be a file's. */
muster_status mst_secret_path(const char *job, char *path, size_t room, struct muster_error *err);

/* Overwrites it; the compiler does not leave that out. */
void mst_secret_wipe(struct mst_secret *secret);

#endif
