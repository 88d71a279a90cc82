/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/hosts.h"

#include <stdio.h>
#include <stdlib.h>

/* Flags that count on each node. What the whole run has in common the others hear from node 0. */
static const char each_node[] =
    "service_wait front jax_recoverable grace core label log_dir tee role bind "
    "preempt_sources preempt_signals preempt_period preempt_margin "
    "preempt_grace";

/* As a user types it: --tee=1 would be a stream of torchrun's. NULL: no memory. */
static char *text_of(const struct mst_cli_value *value)
{
    const char *name = value->row->name;
    bool is_flag = value->row->unit == MST_UNIT_FLAG;
    char *text;
    int size;

    if (is_flag && value->by_number) {
        size = asprintf(&text, "--%s=%d", name, value->number != 0 ? 3 : 0);
    } else if (is_flag) {
        size = asprintf(&text, "--%s%s", value->number != 0 ? "" : "no-", name);
    } else {
        size = asprintf(&text, "--%s=%s", name, value->typed);
    }
    return size < 0 ? NULL : text;
}

static bool take_flags(const struct mst_cli *cli, char **out)
{
    for (size_t i = 0, count = 0; i < cli->value_count; i++) {
        const struct mst_cli_value *value = &cli->values[i];

        if (value->typed == NULL || !mst_cli_listed(each_node, value->row->name) ||
            count == MST_CLI_HOSTS_FLAGS_MAX) {
            continue;
        }
        out[count] = text_of(value);
        if (out[count] == NULL) {
            return false;
        }
        count++;
    }
    return true;
}

int mst_cli_hosts_take(const struct mst_cli *cli, struct mst_cli_hosts *out,
                       struct mst_run_options *options)
{
    *out = (struct mst_cli_hosts){.hosts = {.count = 0}};
    if (options->hostfile == NULL) {
        return MST_CLI_OK;
    }
    if (options->join != NULL || options->node_rank > 0) {
        return mst_cli_usage(cli, "--hostfile is for node 0, which starts the others; leave out %s",
                             options->join != NULL ? "--join" : "--node-rank");
    }
    if (!take_flags(cli, out->flags)) {
        return mst_cli_fail(cli, "out of memory");
    }
    options->hosts = &out->hosts;
    options->node_flags = out->flags;
    return mst_hosts_read(&out->hosts, options);
}

void mst_cli_hosts_release(struct mst_cli_hosts *hosts)
{
    for (size_t i = 0; i < MST_CLI_HOSTS_FLAGS_MAX; i++) {
        free(hosts->flags[i]);
    }
    mst_hosts_free(&hosts->hosts);
}
