/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HELPER_HELPER_H
#define MST_LAUNCH_HELPER_HELPER_H

/* `muster agent`: what `muster run` does for all processes of its node, for one process that was
 * started by something else. The library in that process starts it (client/shell/sidecar/helper.h).
 * It is not the parent, so it knows of the death but not of the status; and it may be ended at any
 * time, which costs nothing but that knowledge until the next one runs. */

#include <stdbool.h>
#include <stdint.h>

struct mst_helper_options {
    const char *addr, *job, *host; /* the host as the rank tells it: it is the proof of nearness */
    const char *secret;            /* a file; NULL or "": none, or a descriptor */
    bool insecure;
    uint32_t index;
    bool worker; /* it is no rank */
    uint64_t incarnation;
    int page_fd, link_fd; /* the link: a byte before its end says that the client was closed */
    int pid_fd;           /* of the rank's process; -1: none was given */
    int last_fd;          /* those above it are not ours */
};

/* Forks: the caller's process ends with 0 once the other one runs. Returns, there, the exit code.
 */
int mst_helper(const struct mst_helper_options *options);

#endif
