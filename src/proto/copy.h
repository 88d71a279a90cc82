/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_COPY_H
#define MST_PROTO_COPY_H

/* A request, or a message of a cluster, that outlives what it borrows: all that the fields of its
 * case point at, in one piece of memory. */

#include "proto/field.h"

/* How much room the copy needs beside the struct itself; SIZE_MAX: more than a size can say. */
size_t mst_copy_size(const struct mst_message *type, const void *from);

/* `room`: aligned for any type, of that size; it lives as long as `out` is used. */
void mst_copy(const struct mst_message *type, void *out, const void *from, void *room);

#endif
