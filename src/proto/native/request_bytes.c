/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/request_bytes.h"

#include <stdint.h>

void mst_native_request_bytes_init(struct mst_native_request_bytes *bytes,
                                   const struct mst_mem *mem)
{
    mst_native_arena_init(&bytes->arena, mem);
}

void mst_native_request_bytes_fini(struct mst_native_request_bytes *bytes)
{
    mst_native_arena_fini(&bytes->arena);
}

muster_status mst_native_request_measure(struct mst_native_request_bytes *bytes,
                                         const struct mst_request *request, size_t *size)
{
    muster_status status;

    mst_native_arena_reset(&bytes->arena, SIZE_MAX);
    status = mst_native_request_encode(&bytes->message, request, &bytes->arena);
    if (status == MUSTER_OK) {
        *size = muster__request__get_packed_size(&bytes->message.base);
    }
    return status;
}

void mst_native_request_write(const struct mst_native_request_bytes *bytes, unsigned char *at)
{
    (void)muster__request__pack(&bytes->message.base, at);
}

muster_status mst_native_request_read(struct mst_native_request_bytes *bytes, struct mst_slice in,
                                      struct mst_request *out)
{
    ProtobufCAllocator allocator = mst_native_arena_allocator(&bytes->arena);
    struct mst_native_fault fault;
    const Muster__Request *message;

    mst_native_arena_reset(&bytes->arena, SIZE_MAX);
    message = muster__request__unpack(&allocator, in.size, in.data);
    if (message) {
        return mst_native_request_decode(out, message, &bytes->arena, &fault);
    }
    return bytes->arena.starved ? MUSTER_ENOMEM : MUSTER_EPROTO;
}
