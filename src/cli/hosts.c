/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/hosts.h"

#include <stdio.h>
#include <stdlib.h>

/* Flags that count on each node; the others get them as settings of their environment. What the
 * whole run has in common they hear from node 0. */
static const char each_node[] = "service_wait grace core label log_dir tee preempt_sources "
                                "preempt_signals preempt_period preempt_margin preempt_grace";

static char *setting(const struct mst_cli_value *value)
{
    char name[MST_CLI_VARIABLE_ROOM];
    char *text = NULL;
    int size;

    mst_cli_variable(name, value->row->name);
    if (value->row->unit == MST_UNIT_TEXT) {
        size = asprintf(&text, "%s=%s", name, value->text);
    } else {
        size = asprintf(&text, "%s=%lld%s", name, (long long)value->number,
                        value->row->unit == MST_UNIT_MS ? "ms" : "");
    }
    return size >= 0 ? text : NULL;
}

static bool take_settings(const struct mst_cli *cli, char **out)
{
    for (size_t i = 0, count = 0; i < cli->value_count; i++) {
        const struct mst_cli_value *value = &cli->values[i];

        if (!value->by_flag || !mst_cli_listed(each_node, value->row->name) ||
            count == MST_CLI_HOSTS_SETTINGS_MAX) {
            continue;
        }
        out[count] = setting(value);
        if (out[count++] == NULL) {
            return false;
        }
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
    if (!take_settings(cli, out->settings)) {
        return mst_cli_fail(cli, "out of memory");
    }
    options->hosts = &out->hosts;
    options->settings = out->settings;
    return mst_hosts_read(&out->hosts, options);
}

void mst_cli_hosts_release(struct mst_cli_hosts *hosts)
{
    for (size_t i = 0; i < MST_CLI_HOSTS_SETTINGS_MAX; i++) {
        free(hosts->settings[i]);
    }
    mst_hosts_free(&hosts->hosts);
}
