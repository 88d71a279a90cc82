/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_SERVICE_H
#define MST_LAUNCH_SERVICE_H

/* The run's own `muster serve`, a child on a socket under the job's name in the user's runtime
 * directory, where every other command finds it. Beside the socket lies its journal, so that the
 * next one goes on where it died; at the end of the run the journal is removed, by the run or, if
 * that was killed, by the service. */

#include <stdbool.h>
#include <stdint.h>

#include "net/socket_dir.h"
#include "process/serve.h"

struct mst_service {
    struct mst_served served; /* pid 0: not running */
    char job[MST_SOCKET_PATH_MAX];
    char addr[MST_SOCKET_PATH_MAX + 8];
    char journal[MST_SOCKET_PATH_MAX + 8]; /* its folder */
    int journal_owner;                     /* makes it this run's; 0: it is not */
    char lease[24];                        /* empty: the default */

    /* For several nodes, set before the start; empty: the Unix socket only. */
    char bound[300];    /* HOST:PORT it listens on... */
    char listen[300];   /* ...as the others reach it */
    const char *secret; /* file; empty: none */
    bool secret_made;   /* for this run: it goes with it */
    int secret_fd;      /* instead; -1: none */
    const char *http; /* set before the start: where it serves health and metrics. NULL: nowhere */
    char http_got[300];          /* the same with the port that it got, from its start on */
    uint64_t buffered_bytes_max; /* the same: what its connections may hold together */
    const char *record; /* the same: the folder it records in, each time anew. NULL: none */
};

/* Makes the journal of the job this run's, which is one line in `err` where another run has it.
 * What was left by a run that was killed is gone then, and nobody removes any of it any more. */
muster_status mst_service_claim(struct mst_service *service, const char *job,
                                struct muster_error *err);

/* Starts it, with its journal claimed, and waits until it can be reached. On failure `err` is one
 * line. */
muster_status mst_service_start(struct mst_service *service, const char *job, const char *lease,
                                struct muster_error *err);

/* Where it serves health and metrics, with the port that it got; NULL: nowhere. */
const char *mst_service_http(const struct mst_service *service);

/* Again, after it died. Does not wait for it: the clients try until it is there. */
muster_status mst_service_again(struct mst_service *service, struct muster_error *err);

/* Asks it to stop; whoever reaps the children sees it go. */
void mst_service_stop(struct mst_service *service);

/* Ends it now. */
void mst_service_kill(struct mst_service *service);

/* It is not running, and will not be again: its journal goes, if it is this run's. */
void mst_service_forget(struct mst_service *service);

#endif
