/* SPDX-License-Identifier: Apache-2.0 */
#include "fronts/xla/gzip.h"

#include <limits.h>
#include <zlib.h>

#include "base/panic.h"

enum { WINDOW = 15, OF_GZIP = 16, GROWTH = 4, LEAST = 1024 };

static voidpf take(voidpf ctx, uInt count, uInt size)
{
    const struct mst_mem *mem = ctx;

    return mst_mem_array(mem, count, size);
}

static void give(voidpf ctx, voidpf p)
{
    const struct mst_mem *mem = ctx;

    mst_mem_release(mem, p);
}

struct unpacked {
    unsigned char *bytes;
    size_t size, room;
};

/* More room, up to `most` and one byte that shows that there is more. */
static bool grow(const struct mst_mem *mem, struct unpacked *out, size_t hint, size_t most)
{
    size_t room = out->room == 0 ? hint : out->room * GROWTH;
    unsigned char *bytes;

    room = room < LEAST ? LEAST : room;
    room = room > most + 1 ? most + 1 : room;
    bytes = mem->alloc(mem->ctx, room);
    if (!bytes) {
        return false;
    }
    if (out->size > 0) {
        memcpy(bytes, out->bytes, out->size);
    }
    mst_mem_release(mem, out->bytes);
    out->bytes = bytes;
    out->room = room;
    return true;
}

static muster_status unpack(z_stream *stream, const struct mst_mem *mem, size_t most,
                            struct unpacked *out)
{
    size_t hint = (size_t)stream->avail_in * GROWTH;
    int status = Z_OK;

    while (status != Z_STREAM_END) {
        size_t room;

        if (out->size > most) {
            return MUSTER_ELIMIT;
        }
        if (out->size == out->room && !grow(mem, out, hint, most)) {
            return MUSTER_ENOMEM;
        }
        room = out->room - out->size;
        stream->next_out = out->bytes + out->size;
        stream->avail_out = (uInt)room;
        status = inflate(stream, Z_NO_FLUSH);
        out->size += room - stream->avail_out;
        if (status == Z_MEM_ERROR) {
            return MUSTER_ENOMEM;
        }
        if (status != Z_STREAM_END &&
            (status != Z_OK || (stream->avail_in == 0 && stream->avail_out > 0))) {
            return MUSTER_EPROTO;
        }
    }
    if (out->size > most) {
        return MUSTER_ELIMIT;
    }
    return stream->avail_in == 0 ? MUSTER_OK : MUSTER_EPROTO;
}

muster_status mst_xla_inflate(const struct mst_mem *mem, enum mst_xla_encoding encoding,
                              struct mst_slice packed, size_t most, unsigned char **out,
                              size_t *size)
{
    struct mst_mem copy = *mem;
    z_stream stream = {.zalloc = take, .zfree = give, .opaque = &copy};
    struct unpacked unpacked = {0};
    muster_status status;

    MST_ASSERT(packed.size <= UINT_MAX && most < UINT_MAX);
    /* zlib's only pointer to what it reads that is not const; it does not write there. */
    memcpy(&stream.next_in, &packed.data, sizeof packed.data);
    stream.avail_in = (uInt)packed.size;
    if (inflateInit2(&stream, encoding == MST_XLA_GZIP ? WINDOW + OF_GZIP : WINDOW) != Z_OK) {
        return MUSTER_ENOMEM;
    }
    status = unpack(&stream, mem, most, &unpacked);
    (void)inflateEnd(&stream);
    if (status != MUSTER_OK) {
        mst_mem_release(mem, unpacked.bytes);
        return status;
    }
    *out = unpacked.bytes;
    *size = unpacked.size;
    return MUSTER_OK;
}
