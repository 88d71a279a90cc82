/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_CUT_H
#define MST_SERVICE_CORE_CUT_H

/* A cut of the network between one rank and the service, asked for to see what comes of it. It is
 * nothing but lost connections: the rank becomes silent, its lease goes on and decides. So it works
 * wherever the rank runs, and can do nothing that a broken switch could not. */

#include "service/core/session.h"

#define MST_CUT_MS_MAX UINT64_C(3600000)

/* Hangs up the holder's connection. Until the time is over every connection over which its session
 * would go on is hung up too. */
void mst_cut_request(struct mst_session *session, struct mst_waiter *waiter,
                     const struct mst_request *request);

/* An OPEN of a session that is cut off at present: nobody hears it, nor is anything answered. */
bool mst_cut_covers(struct mst_core *core, const struct mst_link *link,
                    const struct mst_open *open);

extern const char mst_cut_reason[];

#endif
