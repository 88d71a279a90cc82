/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_REQUEST_BYTES_H
#define MST_PROTO_NATIVE_REQUEST_BYTES_H

/* A request as the bytes of its message, without a connection around them: what a journal keeps. */

#include "base/mem.h"
#include "muster/status.h"
#include "proto/native/arena.h"
#include "proto/native/request_message.h"
#include "proto/request.h"

struct mst_native_request_bytes {
    struct mst_native_arena arena;
    struct mst_native_request_message message;
};

void mst_native_request_bytes_init(struct mst_native_request_bytes *bytes,
                                   const struct mst_mem *mem);
void mst_native_request_bytes_fini(struct mst_native_request_bytes *bytes);

/* How many bytes it will take. ENOMEM; EINVAL: no such command. */
muster_status mst_native_request_measure(struct mst_native_request_bytes *bytes,
                                         const struct mst_request *request, size_t *size);

/* Writes what was measured last. */
void mst_native_request_write(const struct mst_native_request_bytes *bytes, unsigned char *at);

/* Borrows from `in` and from `bytes`, until the next call. ENOMEM; EPROTO. */
muster_status mst_native_request_read(struct mst_native_request_bytes *bytes, struct mst_slice in,
                                      struct mst_request *out);

#endif
