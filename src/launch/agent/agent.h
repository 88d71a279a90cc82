/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_AGENT_AGENT_H
#define MST_LAUNCH_AGENT_AGENT_H

/* `muster agent --front`: the fronts of a node (fronts/shell) for processes that something else
 * starts: srun, kubectl, a shell. They are ranks of the job, as those of `muster run` are. */

#include <stdbool.h>
#include <stdint.h>

#include "muster/client.h"

struct mst_agent_options {
    const struct muster_client_options *access; /* the service, the job, the secret */
    const char *fronts;                         /* "xla,tcpstore" */
    uint32_t size;                              /* of the job, in processes of JAX; 0: not given */
    uint16_t port;                              /* 0: a free one */
    bool jax_recoverable;
    bool until_idle; /* it ends with the last process */
    int64_t service_wait_ms;
    /* It listens: what the processes find it by, "NAME=value" each, NULL at the end. */
    void (*ready)(char *const *variables);
};

/* Runs until it is asked to stop, and no process of the node needs it; or is asked twice. */
muster_status mst_agent(const struct mst_agent_options *options, struct muster_error *err);

#endif
