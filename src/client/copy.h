/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_COPY_H
#define MST_CLIENT_COPY_H

/* A request that outlives its caller: everything it borrows is laid into one piece of memory. */

#include "base/mem.h"
#include "proto/request.h"

/* How many bytes the borrowed things of `request` need; SIZE_MAX: more than a size can say. */
size_t mst_copy_size(const struct mst_request *request);

/* `room` has mst_copy_size bytes, aligned for any type, and lives as long as `out` is used. */
void mst_copy_into(struct mst_request *out, const struct mst_request *request, unsigned char *room);

#endif
