/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HOSTS_H
#define MST_LAUNCH_HOSTS_H

/* The other nodes of a run without a scheduler: their hosts are listed in a file, and node 0 starts
 * `muster run --join` on each of them by ssh. Standard input of that ssh is the secret, so no
 * command line shows it. Such a node is a node as any other: what happens to it later is told by
 * the service, and not by its ssh. */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "process/child.h"

struct mst_ssh_host {
    char name[HOST_NAME_MAX + 1];
    struct mst_child ssh;
};

struct mst_hosts {
    struct mst_ssh_host *list; /* of the other nodes: the first is node 1 */
    uint32_t count;
    uint32_t slots;               /* of each host; 0: the file does not say */
    uint32_t failed;              /* whose node never joined, and will not */
    char how[HOST_NAME_MAX + 96]; /* of the last of these */
};

struct mst_run_job;
struct mst_run_options;

/* Reads the file: a host on each line, "NAME" or "NAME slots=N"; # begins a comment. Sets the nodes
 * of the run and its ranks on each node where no flag did. 0, or the exit code after one line. */
int mst_hosts_read(struct mst_hosts *hosts, struct mst_run_options *options);
void mst_hosts_free(struct mst_hosts *hosts);

/* Node 0, once the others can join: starts theirs. 0, or the exit code after one line. */
int mst_hosts_start(struct mst_run_job *job);

/* On the loop, after a SIGCHLD: an ssh that ended before its node joined leaves the run without
 * that node, and ends it where too few can come. */
void mst_hosts_look(struct mst_run_job *job);

/* Fewer nodes can come than the run needs; the last one to fail is the cause. */
bool mst_hosts_too_few(const struct mst_hosts *hosts, uint32_t needed);

/* The run is over: waits for what the others still print, for some seconds at most. */
void mst_hosts_finish(struct mst_hosts *hosts);

#endif
