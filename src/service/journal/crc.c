/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/crc.h"

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41 with its bits reversed */

void mst_crc_init(struct mst_crc *crc)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;

        for (int bit = 0; bit < 8; bit++) {
            value = (value >> 1) ^ ((value & 1u) ? POLYNOMIAL : 0u);
        }
        crc->table[0][byte] = value;
    }
    for (int i = 1; i < 8; i++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t value = crc->table[i - 1][byte];

            crc->table[i][byte] = (value >> 8) ^ crc->table[0][value & 0xffu];
        }
    }
}

uint32_t mst_crc_of(const struct mst_crc *crc, uint32_t before, struct mst_slice bytes)
{
    const unsigned char *p = bytes.data;
    size_t left = bytes.size;
    uint32_t value = ~before;

    for (; left >= 8; left -= 8, p += 8) {
        value ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        value = crc->table[7][value & 0xffu] ^ crc->table[6][value >> 8 & 0xffu] ^
                crc->table[5][value >> 16 & 0xffu] ^ crc->table[4][value >> 24] ^
                crc->table[3][p[4]] ^ crc->table[2][p[5]] ^ crc->table[1][p[6]] ^
                crc->table[0][p[7]];
    }
    for (; left > 0; left--, p++) {
        value = (value >> 8) ^ crc->table[0][(value ^ *p) & 0xffu];
    }
    return ~value;
}
