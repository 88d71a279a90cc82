/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_CUT_H
#define MST_SERVICE_CORE_CUT_H

/* A cut of the network between one rank and the service, requested as a test. It consists only of
 * lost connections: the rank becomes silent, and its lease continues and decides. So it works on
 * any machine, and has the effect of a broken switch at most. */

#include "service/core/session.h"

#define MST_CUT_MS_MAX UINT64_C(3600000)

/* An OPEN of a session that is cut off at present: its connection is closed without an answer, like
 * the holder's connection when the cut began. */
bool mst_cut_covers(struct mst_core *core, const struct mst_link *link,
                    const struct mst_open *open);

extern const char mst_cut_reason[];

#endif
