/* SPDX-License-Identifier: Apache-2.0 */
#include "view/span.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR };

void mst_span(struct mst_text *text, uint64_t ms)
{
    if (ms < UINT64_C(10) * SECOND - SECOND / 20) {
        mst_text_format(text, MST_SECONDS, MST_SECONDS_ARGS(ms));
    } else if (ms < UINT64_C(2) * MINUTE) {
        mst_text_format(text, "%" PRIu64 " s", (ms + SECOND / 2) / SECOND);
    } else if (ms < UINT64_C(2) * HOUR) {
        mst_text_format(text, "%" PRIu64 " min", ms / MINUTE);
    } else if (ms < UINT64_C(2) * DAY) {
        mst_text_format(text, "%" PRIu64 " h", ms / HOUR);
    } else {
        mst_text_format(text, "%" PRIu64 " days", ms / DAY);
    }
}

const char *mst_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}
