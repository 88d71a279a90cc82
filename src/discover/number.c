/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/number.h"

#include <stddef.h>

bool mst_number_read(const char **at, uint64_t most, uint64_t *out)
{
    const char *start = *at;
    uint64_t number = 0;

    for (; **at >= '0' && **at <= '9'; (*at)++) {
        number = number * 10 + (uint64_t)(**at - '0');
        if (number > most) {
            return false;
        }
    }
    *out = number;
    return *at != start;
}

bool mst_number_parse(const char *text, uint64_t most, uint64_t *out)
{
    return mst_number_read(&text, most, out) && *text == '\0';
}
