/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_HEARTBEAT_SHELL_HEARTBEAT_H
#define MST_HEARTBEAT_SHELL_HEARTBEAT_H

/* The insides of a muster_heartbeat. */

#include "client/shell/handle.h"
#include "client/shell/host.h"
#include "heartbeat/heartbeat.h"
#include "muster/heartbeat.h"
#include "restart/shell/at_exit.h"

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
    struct muster_error error;

    struct mst_at_exit at_exit; /* added while it runs */
};

#endif
