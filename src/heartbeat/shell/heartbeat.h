/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_HEARTBEAT_SHELL_HEARTBEAT_H
#define MST_HEARTBEAT_SHELL_HEARTBEAT_H

/* The insides of a muster_heartbeat. heartbeat.c: the machine's effects, start and stop.
 * heartbeat_exit.c: exit(). */

#include "client/shell/handle.h"
#include "client/shell/host.h"
#include "heartbeat/heartbeat.h"
#include "muster/heartbeat.h"

struct muster_heartbeat {
    struct mst_machine_host host; /* of struct mst_heartbeat; first: the hook's */
    muster_client *client;
    struct mst_heartbeat_config config;
    void (*on_crash)(void *ctx, const char *line);
    void *ctx;

    /* Under the client's lock. */
    uint64_t over_in;  /* the generation in which it is over */
    unsigned starters; /* threads in start */
    bool running;      /* started, and not stopped */
    bool over;         /* there will be no token in that generation, `error` says why */
    bool asks;         /* the open call is cancelled, to be told who is missing */
    bool told;         /* in `error` */
    struct muster_error error;

    struct mst_list link; /* heartbeat_exit.c: those that run */
};

/* heartbeat_exit.c: this member leaves the job if the process ends well. No lock. */
void mst_heartbeat_exit_add(struct muster_heartbeat *heartbeat);
void mst_heartbeat_exit_remove(struct muster_heartbeat *heartbeat);

/* heartbeat.c: no failure ends the process any more. Lock held. */
void mst_heartbeat_stop(struct muster_heartbeat *heartbeat);

#endif
