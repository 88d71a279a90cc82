/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_AGENT_DEATHS_H
#define MST_LAUNCH_AGENT_DEATHS_H

/* The processes that speak to the fronts of an agent, which is not their parent: each is found by
 * its connection, and its death is known by a pidfd. The service is told by the agent's session, or
 * by the next one. All functions are for the thread of the loop. */

#include <uv.h>

#include "base/list.h"
#include "client/shell/deliver.h"
#include "fronts/shell/fronts.h"

struct mst_deaths {
    uv_loop_t *loop;
    struct mst_fronts *fronts;
    muster_client *client; /* of the agent; NULL: there is no session now */
    const char *host;
    void (*changed)(void *ctx); /* fewer reports are owed; on any thread */
    void (*say)(void *ctx, const char *line);
    void *ctx;
    int asks; /* net/loopback_peer.h */
    bool unknown_said, closing;
    struct mst_list list;
};

/* After what has no default was set, but the fronts, which need what is needed here, and say so. */
void mst_deaths_open(struct mst_deaths *deaths);

/* As `process` of mst_fronts_options. A process that cannot be found or watched, as it is in
 * another PID namespace, is lost with its connection: the front itself sees that. */
bool mst_deaths_process(struct mst_deaths *deaths, uint32_t index, int connection,
                        uint64_t *pid_out, char *why, size_t room);

/* As `unhealthy` of mst_fronts_options: the process is reported once, as this. */
bool mst_deaths_unhealthy(struct mst_deaths *deaths, uint32_t index, int32_t code,
                          struct mst_slice text);

/* The session of the agent is another one, or NULL. The earlier one is closed by now. */
void mst_deaths_session(struct mst_deaths *deaths, muster_client *client);

/* Whether the service has not answered to all deaths. What is over is freed. */
bool mst_deaths_owed(struct mst_deaths *deaths);

/* No session any more. The loop runs once more after it. */
void mst_deaths_close(struct mst_deaths *deaths);

#endif
