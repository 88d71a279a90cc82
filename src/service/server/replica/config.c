/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "net/endpoint.h"
#include "net/rendezvous.h"
#include "service/server/replica.h"

enum { WHY_ROOM = 320 };

/* Which of the addresses is this one: that which it listens on, or that which it is to be found at.
 */
static bool find_self(struct mst_uv_replica_config *config, const struct mst_endpoints *all,
                      const char *listens, const char *advertised)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const char *text = all->at[i].text;

        if (*advertised ? strcmp(text, advertised) == 0 : mst_rendezvous_listed(listens, text)) {
            (void)snprintf(config->self, sizeof config->self, "%s", text);
            return true;
        }
    }
    return false;
}

static muster_status check_list(struct mst_uv_replica_config *config,
                                const struct mst_endpoints *all, const char *listens,
                                const char *advertised, struct muster_error *err)
{
    if (!find_self(config, all, listens, advertised)) {
        return mst_fail(err, MUSTER_EINVAL, 0,
                        "--replica %s: this service listens on %s%s%s, which is none of them: name "
                        "its own address among them, or give the one that the others reach it at "
                        "with --advertise",
                        config->addresses, listens, *advertised ? ", advertised as " : "",
                        advertised);
    }
    config->voters = config->voters > 0 ? config->voters : all->count;
    if (config->voters != 1 && config->voters != 3 && config->voters != 5) {
        return mst_fail(err, MUSTER_EINVAL, 0,
                        "--replicas %u: 1, 3 or 5 replicas vote, since an even number survives no "
                        "more losses than one less",
                        config->voters);
    }
    return MUSTER_OK;
}

muster_status mst_uv_replica_config_check(struct mst_uv_replica_config *config, const char *listens,
                                          const char *advertised, bool anywhere,
                                          struct muster_error *err)
{
    struct mst_endpoints all;
    char why[WHY_ROOM];

    if (!*config->addresses) {
        return config->voters == 0
                   ? MUSTER_OK
                   : mst_fail(err, MUSTER_EINVAL, 0,
                              "--replicas needs the addresses of the replicas: --replica");
    }
    if (!config->path) {
        return mst_fail(err, MUSTER_EINVAL, 0,
                        "--replica needs a folder for its log: --journal DIR");
    }
    if (!config->run || !*config->run) {
        config->run = "default";
    }
    return mst_endpoints_parse(&all, config->addresses, anywhere, why, sizeof why) == MUSTER_OK
               ? check_list(config, &all, listens, advertised, err)
               : mst_fail(err, MUSTER_EINVAL, 0, "--replica %s: %s", config->addresses, why);
}
