/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_STORY_JSON_H
#define MST_VIEW_STORY_JSON_H

/* The story of a job (view/story.h) as one line of JSON: `muster why --json` prints it, the
 * service's /history.json answers with it. */

#include <jansson.h>

#include "view/story.h"

/* The sums are of the whole history; the incidents are those with a number above `after`. Ends with
 * a newline; the caller frees it. NULL: no memory. */
char *mst_story_json(const char *job, const struct mst_items *history, uint64_t after);

/* One incident of it. NULL: no memory. */
json_t *mst_story_incident_json(const struct mst_item *incident);

#endif
