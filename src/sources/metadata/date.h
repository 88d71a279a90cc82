/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_METADATA_DATE_H
#define MST_SOURCES_METADATA_DATE_H

/* The dates that clouds write, as milliseconds since 1970. All of the text must be the date, which
 * must exist: no 30 February, no 24:00. False: it is none. */

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

bool mst_date_rfc3339(struct mst_slice text, int64_t *unix_ms); /* 2027-03-01T04:07:10Z */
/* "1 Mar 2027 04:00:00 GMT", or with the day's name: "Mon, 01 Mar 2027 04:07:10 GMT". */
bool mst_date_gmt(struct mst_slice text, int64_t *unix_ms);

#endif
