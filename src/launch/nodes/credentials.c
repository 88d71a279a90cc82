/* SPDX-License-Identifier: Apache-2.0 */

/* The secret of a run over several nodes: where this node has it from, and how the service, the
 * ranks and the agent's own client come to it. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch/nodes/nodes.h"
#include "launch/say.h"
#include "net/secret.h"

/* What is behind the descriptor may be a pipe, which can be read once. Every rank and every service
 * that is started again reads it: they inherit a copy, and not the original. */
static int take_descriptor(struct mst_nodes *nodes, int given)
{
    struct mst_secret secret = {.size = 0};
    struct muster_error err;
    muster_status status = mst_secret_read_fd(given, &secret, &err);

    if (status == MUSTER_OK) {
        status = mst_secret_share(&secret, &nodes->secret_fd, &err);
    }
    mst_secret_wipe(&secret);
    (void)fcntl(given, F_SETFD, FD_CLOEXEC);
    return status == MUSTER_OK ? 0 : mst_refuse("%s", err.text);
}

static int make_file(struct mst_nodes *nodes, const char *job)
{
    struct muster_error err;
    muster_status status = mst_secret_path(job, nodes->secret, sizeof nodes->secret, &err);

    if (status == MUSTER_OK) {
        status = mst_secret_make(nodes->secret, &err);
        nodes->secret_made = status == MUSTER_OK;
    }
    if (status == MUSTER_EEXISTS) { /* of a run that was killed: as good as a new one */
        mst_say("the secret of job '%s' is there already, %s; it is used again", job,
                nodes->secret);
        status = MUSTER_OK;
    }
    if (status != MUSTER_OK) {
        nodes->secret[0] = '\0';
        return mst_refuse("%s", err.text);
    }
    return 0;
}

/* The environment may name another secret, which the library would take: that of a job around this
 * one, or the one that a flag overrode. */
static bool clean_environment(const struct mst_nodes *nodes)
{
    char number[16];

    (void)unsetenv("MUSTER_SECRET_FILE");
    (void)unsetenv("MUSTER_SECRET_FD");
    (void)unsetenv("MUSTER_INSECURE");
    (void)snprintf(number, sizeof number, "%d", nodes->secret_fd);
    return nodes->secret_fd < 0 || setenv("MUSTER_SECRET_FD", number, 1) == 0;
}

int mst_nodes_credentials(struct mst_nodes *nodes, const struct mst_run_options *options,
                          const char *job)
{
    int code = 0;

    if (options->secret_fd >= 0) {
        code = take_descriptor(nodes, options->secret_fd);
    } else if (options->secret_file != NULL) {
        (void)snprintf(nodes->secret, sizeof nodes->secret, "%s", options->secret_file);
    } else if (nodes->first && !options->insecure) {
        code = make_file(nodes, job);
    }
    return code != 0 || clean_environment(nodes) ? code : mst_no_memory();
}
