/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_SERVICE_H
#define MST_LAUNCH_SERVICE_H

/* The run's own `muster serve`, a child on a socket under the job's name in the user's runtime
 * directory, where every other command finds it. Beside the socket lies its journal, so that the
 * next one goes on where it died; at the end of the run the service removes the journal, or the run
 * where it cannot. */

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "net/address.h"
#include "net/socket_dir.h"
#include "process/serve.h"

struct mst_service {
    struct mst_served served; /* pid 0: not running */
    char addr[MST_ADDRESS_TEXT];
    char journal[MST_SOCKET_PATH_MAX + 8]; /* its folder; empty: none was claimed */
    int journal_owner;                     /* makes it this run's; 0: it is not, or not any more */
    char http[300];                        /* where it serves health and metrics; empty: nowhere */

    /* For several nodes, set before the start; empty: the Unix socket only. */
    char bound[300];  /* HOST:PORT it listens on... */
    char listen[300]; /* ...as the others reach it */

    uv_timer_t again; /* until it is started again */
    uint32_t deaths;  /* soon after its start, in a row */
    uint64_t begun_ns;
    bool again_due; /* that is under way */
    pid_t lost;     /* it ended by itself, and with it the job's state is lost; 0: it is not */
    char how[128];
};

struct mst_run_job;

/* Makes the journal of the job this run's, which is one line in `err` where another run has it.
 * What a run that was killed left there is removed then, and no other process removes any of it. */
muster_status mst_service_claim(struct mst_run_job *job, struct muster_error *err);

/* Starts it, with its journal claimed, and waits until it can be reached. On failure `err` is one
 * line. */
muster_status mst_service_start(struct mst_run_job *job, struct muster_error *err);

/* Not node 0: a replica of the service, which joins the others. A line says it where it cannot be
 * started, and then it is tried again. */
void mst_service_start_replica(struct mst_run_job *job);

/* The timer of the loop. */
void mst_service_open(struct mst_run_job *job);

/* After SIGCHLD: one that has died is started again, unless it cannot bring its state back. The
 * clients try until it is there. */
void mst_service_reap(struct mst_run_job *job);

/* Asks it to stop, and to remove what the run has in files; mst_service_reap sees its end. */
void mst_service_stop(struct mst_service *service);

/* Ends it now. */
void mst_service_kill(struct mst_service *service);

/* It is not running, and will not be again: the journal and the secret of this run are removed
 * where they are still there, and no other run's. */
void mst_service_forget(struct mst_run_job *job);

/* The time before the next try, after `failures` in a row: doubling, at most a minute. */
uint64_t mst_back_off_ms(uint32_t failures);

#endif
