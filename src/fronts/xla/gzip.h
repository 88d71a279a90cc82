/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_XLA_GZIP_H
#define MST_FRONTS_XLA_GZIP_H

#include "base/mem.h"
#include "base/slice.h"
#include "muster/status.h"

enum mst_xla_encoding {
    MST_XLA_IDENTITY = 0,
    MST_XLA_GZIP = 1,
    MST_XLA_DEFLATE = 2,
    MST_XLA_ENCODINGS /* another one */
};

/* `*out` is the content, of at most `most` bytes, and the caller's. EPROTO: it is damaged; ELIMIT:
 * it has more; ENOMEM. */
muster_status mst_xla_inflate(const struct mst_mem *mem, enum mst_xla_encoding encoding,
                              struct mst_slice packed, size_t most, unsigned char **out,
                              size_t *size);

#endif
