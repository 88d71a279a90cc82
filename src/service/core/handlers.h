/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_HANDLERS_H
#define MST_SERVICE_CORE_HANDLERS_H

/* What the core does for each command but OPEN; core.c has the table. */

#include "service/core/session.h"

/* Decides a request, and returns the status to answer it with. MUSTER_MORE: the request waits, or
 * was answered already because other effects come after the answer. The waiter gets the detail of
 * a refusal: mst_waiter_exceed. */
typedef muster_status mst_handler(struct mst_session *session, struct mst_waiter *waiter,
                                  const struct mst_request *request);

mst_handler mst_session_join, mst_session_renew, mst_session_leave, mst_session_cancel;
mst_handler mst_write_request, mst_write_delete_prefix;
mst_handler mst_key_get, mst_key_list, mst_key_wait_all;
mst_handler mst_watch_request;
mst_handler mst_round_request, mst_round_request_members;
mst_handler mst_render_request; /* the page commands that need only a cursor */
mst_handler mst_report_fault, mst_report_loss;
mst_handler mst_cut_request;

#endif
