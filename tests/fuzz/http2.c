/* SPDX-License-Identifier: Apache-2.0 */
#include "http2.h"

#include <string.h>

size_t http2_frame(unsigned char *at, unsigned type, unsigned flags, unsigned stream,
                   struct mst_slice payload)
{
    const unsigned char head[HTTP2_HEAD] = {0,
                                            (unsigned char)(payload.size >> 8),
                                            (unsigned char)payload.size,
                                            (unsigned char)type,
                                            (unsigned char)flags,
                                            0,
                                            0,
                                            (unsigned char)(stream >> 8),
                                            (unsigned char)stream};

    memcpy(at, head, HTTP2_HEAD);
    if (payload.size > 0) {
        memcpy(at + HTTP2_HEAD, payload.data, payload.size);
    }
    return HTTP2_HEAD + payload.size;
}

size_t http2_header(unsigned char *at, const char *name, const char *value)
{
    size_t name_size = strlen(name), value_size = strlen(value);

    at[0] = 0; /* a literal without indexing, and a new name */
    at[1] = (unsigned char)name_size;
    memcpy(at + 2, name, name_size);
    at[2 + name_size] = (unsigned char)value_size;
    memcpy(at + 3 + name_size, value, value_size);
    return 3 + name_size + value_size;
}

size_t http2_preface(unsigned char *at)
{
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    memcpy(at, magic, HTTP2_MAGIC);
    return HTTP2_MAGIC + http2_frame(at + HTTP2_MAGIC, HTTP2_SETTINGS, 0, 0, mst_slice_of(NULL, 0));
}
