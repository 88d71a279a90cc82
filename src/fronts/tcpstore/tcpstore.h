/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_TCPSTORE_TCPSTORE_H
#define MST_FRONTS_TCPSTORE_TCPSTORE_H

/* The front for torch's TCPStore clients: the store of a job's attempt, as torch 2.13's own server
 * has it, in keys of the service. So the fronts of all nodes show one store, and it outlives the
 * process of the service.
 *
 * Where it differs from torch's server: a key has a few bytes less than the service's longest, and
 * a value at most value_bytes_max; a MULTI_SET beyond batch_max is several writes; a MULTI_GET of
 * several keys reads them one after the other; a WAIT is latched in groups of 64 keys. The limits
 * of the protocol have no reply: the client is disconnected, and a line says why. */

#include "fronts/front.h"

extern const struct mst_front mst_tcpstore_front;

#endif
