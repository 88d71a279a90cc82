/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_SERVICE_H
#define MST_SERVICE_SERVER_SERVICE_H

/* The coordination service as a process sees it: sockets to listen on, a loop, signals that end it.
 * One at a time in a process: it takes over SIGTERM and SIGINT, with a parent it ignores all that
 * asks a process to end, and always SIGPIPE. */

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"
#include "net/secret.h"
#include "service/core/core.h"
#include "service/server/feed.h"

#define MST_UV_ADDRESSES_MAX 8u

struct mst_uv_service;

struct mst_uv_service_config {
    const char *const *addresses; /* unix:/path, HOST:PORT, [::1]:PORT */
    uint32_t address_count;       /* 1 to MST_UV_ADDRESSES_MAX */
    uint64_t lease_ns;
    struct mst_limits limits;
    uint64_t history;            /* incidents that are remembered of each job */
    uint64_t straggler_percent;  /* core.h */
    uint64_t waiting_bytes_max;  /* core.h */
    uint64_t buffered_bytes_max; /* what all connections together may hold */
    enum mst_level log_level;
    bool log_json;    /* each line of the log is an object */
    const char *http; /* HOST:PORT of health and metrics; NULL or empty: none */
    const char *job;  /* what its /status.json shows; borrowed until the service is closed */
    const char *kept; /* the file of the run of that job; borrowed likewise; NULL or empty: none */
    struct mst_uv_journal_config journal;
    const struct mst_secret *secret; /* TCP then speaks TLS, on loopback too; NULL: plain */
    const char *named; /* the addresses that clients are to use, with commas; NULL or empty: none */
    bool elsewhere;    /* does not serve, and sends each client on to the first of `named` */
    bool insecure;     /* serve, without a secret, on TCP addresses that others can reach */
    bool parent;       /* stop at input or the end of stdin, and at no signal */
    bool until_idle;   /* stop when the last session is over, or when none was opened in a lease */
    bool notify;       /* report the begin and the end to the service manager: sd_notify(3) */
};

/* Recovers its state, and then listens. EINVAL, EEXISTS: an address that is refused or taken;
 * ENOMEM; EFAILED: what its journal has cannot be recovered. `err` is one line. */
muster_status mst_uv_service_open(struct mst_uv_service **out,
                                  const struct mst_uv_service_config *config,
                                  struct muster_error *err);

/* The addresses it listens on, as MUSTER_ADDR takes them: with the actual ports, and commas. */
const char *mst_uv_service_address(const struct mst_uv_service *service);

/* HOST:PORT of health and metrics, with the port it got; NULL: none. */
const char *mst_uv_service_http(const struct mst_uv_service *service);

/* Serves until a signal, input on stdin or its end. False: the journal failed, which the log
 * reports, and the service had to stop. */
bool mst_uv_service_run(struct mst_uv_service *service);

/* The parent said so, or was killed, and the job is over. */
bool mst_uv_service_dismissed(const struct mst_uv_service *service);

/* Removes the sockets. */
void mst_uv_service_close(struct mst_uv_service *service);

#endif
