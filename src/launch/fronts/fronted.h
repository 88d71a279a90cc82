/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_FRONTS_FRONTED_H
#define MST_LAUNCH_FRONTS_FRONTED_H

/* The fronts of a run (fronts/shell): its processes of JAX and torch speak to them in their own
 * protocols, and are ranks of the job. They find them by their environment. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "launch/fronts/front.h"
#include "launch/session.h"

struct mst_run_job;
struct mst_place;
struct mst_process;

struct mst_fronted {
    struct mst_fronts *fronts; /* NULL: there are none */
    struct mst_fronts_kind kinds[MST_FRONTS_MAX];
    unsigned count;
    uint16_t port;
    struct muster_client_options client;
    bool listens;                     /* the job's notices are followed in this attempt */
    bool noticed;                     /* the fronts of this attempt have been told */
    struct mst_note waits;            /* who waits in the fronts, for what */
    uint64_t began_ns;                /* this attempt */
    uv_timer_t due;                   /* of the next notice */
    bool jax_given, slurm_given;      /* the user's environment says where the job is */
    struct mst_front_notices notices; /* under the run's lock */
};

/* The port, before anything runs. 0, or the exit code after one line. */
int mst_fronted_open(struct mst_run_job *job);
void mst_fronted_close(struct mst_run_job *job); /* the loop runs once more after it */

void mst_fronted_joined(struct mst_run_job *job); /* the session is open */

/* The processes of an attempt are about to start: the session is open, or the same. */
void mst_fronted_begin(struct mst_run_job *job);

/* On the loop, whenever something was told. */
void mst_fronted_look(struct mst_run_job *job);

/* The process has ended, and the service is told so. */
void mst_fronted_gone(struct mst_run_job *job, const struct mst_process *process);

/* Whether its process is a rank by a front now; whether any of this node is. */
bool mst_fronted_has(const struct mst_run_job *job, const struct mst_place *place);
bool mst_fronted_any(const struct mst_run_job *job);

/* Whether any of this node has been in this attempt: such processes are told of no generation, they
 * end, or go on with --jax-recoverable. */
bool mst_fronted_had(const struct mst_run_job *job);

/* Whether the others go on without the process, which has failed: --jax-recoverable. */
bool mst_fronted_recovers(struct mst_run_job *job, const struct mst_process *process);

/* What a process finds the fronts, and its place, by. False: no memory. */
bool mst_fronted_variables(struct mst_environment *environment, const struct mst_place *place);

#endif
