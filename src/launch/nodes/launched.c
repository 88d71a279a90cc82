/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/nodes/launched.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "discover/shell/surroundings.h"
#include "launch/say.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "os/system.h"

/* Below the ports that the kernel gives away, and none that another launcher's programs use. */
#define PORT_FIRST 20000u
#define PORT_COUNT 9000u

#define SECRET_LOOK_MS 50

/* Every node comes to the same one by itself; the steps of one machine to different ones. */
static uint16_t port_of(const char *job)
{
    uint32_t hash = 2166136261u;

    for (; *job != '\0'; job++) {
        hash = (hash ^ (unsigned char)*job) * 16777619u;
    }
    return (uint16_t)(PORT_FIRST + hash % PORT_COUNT);
}

static int take_secret(struct mst_run_options *options, struct mst_launched *launched)
{
    struct muster_error err;

    if (options->secret_file != NULL || options->secret_fd >= 0 || options->insecure) {
        return 0;
    }
    if (mst_secret_path(options->job, launched->secret, sizeof launched->secret, &err) !=
        MUSTER_OK) {
        return mst_refuse("%s", err.text);
    }
    options->secret_file = launched->secret;
    return 0;
}

static int take(struct mst_run_options *options, struct mst_launched *launched,
                const struct mst_discovered *place)
{
    uint16_t port;

    if (options->nodes_max == 0) {
        options->nodes_min = options->nodes_max = place->size;
    }
    if (options->job == NULL) {
        (void)snprintf(launched->job, sizeof launched->job, "%s", place->job);
        options->job = launched->job;
    }
    options->launched = true;
    options->node_rank = place->rank;
    port = port_of(place->job);
    if (place->rank != 0) {
        mst_rendezvous_join(place->host, port, launched->address, sizeof launched->address);
        options->join = launched->address;
        return take_secret(options, launched);
    }
    if (options->listen == NULL) {
        (void)snprintf(launched->address, sizeof launched->address, "0.0.0.0:%u", (unsigned)port);
        options->listen = launched->address;
    }
    return 0;
}

int mst_launched_take(struct mst_run_options *options, struct mst_launched *launched)
{
    struct mst_discovery *found;
    const struct mst_discovered *place;
    int code = 0;

    /* Inside a rank its variables are those of the run around, and one node needs no other. */
    if (options->join != NULL || options->hosts != NULL || options->node_rank >= 0 ||
        options->nodes_max == 1 || getenv("MUSTER_INDEX") != NULL) {
        return 0;
    }
    found = calloc(1, sizeof *found);
    if (found == NULL) {
        return mst_no_memory();
    }
    place = &found->place;
    if (!mst_surroundings_discover(found, MST_ASKER_AGENT)) {
        /* Of a node that was told where it is in the run, the launcher need not say it. */
        if (options->nodes_max == 0) {
            mst_say("%s", found->why);
            code = MST_EXIT_LAUNCHER;
        }
    } else if (place->rank != MST_PLACE_UNKNOWN && place->host[0] != '\0' &&
               place->job[0] != '\0' &&
               (options->nodes_max > 1 || (place->size != MST_PLACE_UNKNOWN && place->size > 1))) {
        code = take(options, launched, place);
    }
    free(found);
    return code;
}

bool mst_launched_await_secret(const struct mst_run_options *options)
{
    uint64_t until_ns = mst_system_now_ns() + (uint64_t)options->service_wait_ms * NS_PER_MS;

    if (!options->launched || options->secret_file == NULL) {
        return true;
    }
    while (access(options->secret_file, R_OK) != 0) {
        if (mst_system_now_ns() >= until_ns) {
            mst_say("node 0 (%s) has made no secret for job '%s' at %s: is that folder shared by "
                    "the nodes? Else set MUSTER_STATE_DIR to one that is, or give --secret-file",
                    options->join, options->job, options->secret_file);
            return false;
        }
        (void)poll(NULL, 0, SECRET_LOOK_MS);
    }
    return true;
}
