/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_HTTP2_H
#define FUZZ_HTTP2_H

/* The frames of an HTTP/2 client. */

#include "base/slice.h"

enum {
    HTTP2_MAGIC = 24, /* bytes before the first frame */
    HTTP2_HEAD = 9,   /* bytes before the payload of a frame */

    HTTP2_DATA = 0,
    HTTP2_HEADERS = 1,
    HTTP2_SETTINGS = 4,
    HTTP2_PUSH_PROMISE = 5,
    HTTP2_GOAWAY = 7,

    HTTP2_END_STREAM = 1,
    HTTP2_END_HEADERS = 4
};

/* Both write to `at` and return the size. */
size_t http2_frame(unsigned char *at, unsigned type, unsigned flags, unsigned stream,
                   struct mst_slice payload);
/* A literal without indexing; the name and the value are shorter than 127 bytes. */
size_t http2_header(unsigned char *at, const char *name, const char *value);
/* The preface and empty settings. */
size_t http2_preface(unsigned char *at);

#endif
