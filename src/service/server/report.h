/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_REPORT_H
#define MST_SERVICE_SERVER_REPORT_H

/* The loop's side of the HTTP port (service/server/http.h): reports that the loop turns, and makes
 * copies of the state at the end of a turn. Without --http it is closed, and costs a turn one
 * branch. */

#include "service/server/http.h"
#include "service/server/hub.h"
#include "service/server/listener.h"
#include "service/server/service.h"

struct mst_uv_report {
    struct mst_http *http; /* NULL: closed */
    struct mst_uv_hub *hub;
    struct mst_uv_listener listener;
    const char *address, *job; /* the service's; borrowed */
    char host[256];            /* of --http */
    enum mst_http_phase phase;
    uv_async_t asked;
    uv_timer_t second;
    uint64_t seen[MST_KEY_OPS]; /* of keys_at_once, in earlier turns */
    bool trouble;               /* the trouble of the journal was reported */
    struct mst_histogram key_times[MST_KEY_OPS];
};

/* The port answers from here on, as starting: before the hub has its state, whose recovery may take
 * time. `address` is that of the service; it may be filled in later, until it serves. EINVAL,
 * EEXISTS, ENOMEM: `err` is one line. */
muster_status mst_uv_report_open(struct mst_uv_report *report, uv_loop_t *loop,
                                 struct mst_uv_hub *hub, const struct mst_uv_service_config *config,
                                 const char *address, unsigned connections_max,
                                 struct muster_error *err);

/* The loop turns from now on, or is about to end. */
void mst_uv_report_phase(struct mst_uv_report *report, enum mst_http_phase phase);

/* At the end of a turn that began at `began_ns` on the core's clock (0: nothing came in) and has
 * settled. */
void mst_uv_report_turn(struct mst_uv_report *report, uint64_t began_ns);

/* Before the loop's handles are closed. Nothing to do twice. */
void mst_uv_report_close(struct mst_uv_report *report);

#endif
