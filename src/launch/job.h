/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_JOB_H
#define MST_LAUNCH_JOB_H

/* A run on this node, of its parts. Each part is changed by the functions of its own header; only
 * what a decision takes from several parts is given the whole of it. */

#include <limits.h>
#include <uv.h>

#include "launch/awaited.h"
#include "launch/ending.h"
#include "launch/faults.h"
#include "launch/fronts/fronted.h"
#include "launch/group.h"
#include "launch/kept.h"
#include "launch/leaders.h"
#include "launch/logs.h"
#include "launch/nodes/hosts.h"
#include "launch/nodes/nodes.h"
#include "launch/nodes/reach.h"
#include "launch/nodes/replicas.h"
#include "launch/place.h"
#include "launch/plain.h"
#include "launch/preempted.h"
#include "launch/report.h"
#include "launch/restarts_left.h"
#include "launch/run.h"
#include "launch/service.h"
#include "launch/session.h"
#include "launch/shared.h"
#include "launch/stopped.h"
#include "launch/streams.h"
#include "process/binding.h"
#include "process/death.h"
#include "process/environment.h"
#include "process/keeper.h"
#include "process/output.h"

#define MST_JOB_SIGNALS 6

struct mst_run_job {
    struct mst_run_options own;            /* as typed, filled up with what the run is */
    const struct mst_run_options *options; /* that */
    char name[MST_SOCKET_PATH_MAX];
    char host[HOST_NAME_MAX + 1];
    struct mst_environment environment;
    uv_loop_t loop;
    uv_signal_t child, signals[MST_JOB_SIGNALS];
    uint64_t tag; /* of the run: see process/tagged.h */
    struct mst_shared shared;
    struct mst_keeper keeper;
    struct mst_binding binding;
    struct mst_output *output;
    struct mst_streams streams;
    struct mst_death *death;
    struct mst_service service;
    struct mst_run_session session;
    struct mst_nodes nodes;
    struct mst_replicas replicas;
    struct mst_reach reach;
    struct mst_leaders leaders;
    struct mst_group group;
    struct mst_fronted fronted;
    struct mst_run_places places;
    struct mst_plain_ranks plain;
    struct mst_note stopped; /* the ranks that a signal has stopped */
    struct mst_note restarts_left;
    struct mst_hung hung;
    struct mst_awaited awaited;
    struct mst_faults faults;
    struct mst_preempted preempted;
    struct mst_logs logs;
    struct mst_report report;
    struct mst_kept_file kept;
    struct mst_end end;
};

#endif
