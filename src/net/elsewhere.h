/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_ELSEWHERE_H
#define MST_NET_ELSEWHERE_H

/* A job whose service is on another machine is found like one whose service is here: beside the
 * sockets lies a file JOB.addr with its addresses, written by a process that runs a part of the job
 * here. It is valid while that process lives and holds a lock on it. */

#include "net/address.h"
#include "net/socket_dir.h"

struct mst_elsewhere {
    char addr[MST_ADDRESSES_TEXT]; /* or several, with commas */
    char secret[4096];             /* the file with the secret; empty: none */
    bool insecure;
};

/* Keeps the file until it is forgotten or this process ends; `fd` is for that: -1 before, and where
 * another process keeps one for the job. What this process keeps already is replaced in one step:
 * who looks meanwhile finds the old one or this one. EINVAL as mst_socket_path, or where there can
 * be no file; `fd` is -1 then. */
muster_status mst_elsewhere_keep(const char *job, const struct mst_elsewhere *where, int *fd,
                                 struct muster_error *err);
void mst_elsewhere_forget(const char *job, int fd); /* -1: nothing */

/* The pid of the process that keeps the file at `path`; -1: one whose pid is not known here; 0:
 * none. Not to be asked by that process itself. `out` (may be NULL): what it says. */
pid_t mst_elsewhere_read(const char *path, struct mst_elsewhere *out);

#endif
