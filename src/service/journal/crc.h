/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_CRC_H
#define MST_SERVICE_JOURNAL_CRC_H

/* CRC-32C (Castagnoli), eight bytes at a time. */

#include <stdint.h>

#include "base/slice.h"

struct mst_crc {
    uint32_t table[8][256];
};

void mst_crc_init(struct mst_crc *crc);

/* The checksum of `bytes` that follow those of `before`; 0 for the first. */
uint32_t mst_crc_of(const struct mst_crc *crc, uint32_t before, struct mst_slice bytes);

#endif
