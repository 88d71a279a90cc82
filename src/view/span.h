/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_SPAN_H
#define MST_VIEW_SPAN_H

/* How long something lasts, for people, in one number: "3.2 s", "45 s", "12 min", "5 h", "3 days".
 */

#include "base/text.h"

void mst_span(struct mst_text *text, uint64_t ms);

/* What follows a noun of which there are so many: "" or "s". */
const char *mst_plural(uint64_t count);

#endif
