/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_DISCOVER_NUMBER_H
#define MST_DISCOVER_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* `most` is below UINT64_MAX / 16. Decimal digits from `*at` on, at least one; the cursor ends
 * behind them. False: none, or more than `most`. */
bool mst_number_read(const char **at, uint64_t most, uint64_t *out);

/* The whole text is one number. */
bool mst_number_parse(const char *text, uint64_t most, uint64_t *out);

#endif
