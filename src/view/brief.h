/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_BRIEF_H
#define MST_VIEW_BRIEF_H

/* What the status of a job has for a reader that comes every second, instead of all members:
 *
 *   states    ranks and workers by state
 *   by_host   the same by host, and each as [role, index, rank, state] in a job of at most
 *             MST_BRIEF_PLACES_MAX members
 *   absent    of each open round: the ranks of the generation that do not wait at it, where those
 *             are all that it waits for */

#include <jansson.h>

#include "view/status_json.h"

#define MST_BRIEF_PLACES_MAX 2000u
#define MST_BRIEF_MEMBERS_MAX 256u /* that are listed in full */

/* Whether it is listed in full all the same: it is not present, or a straggler. */
bool mst_brief_lists(const struct mst_item *member);

/* Adds them; `rounds` has one object for each round of the status. False: no memory. */
bool mst_brief_put(json_t *object, json_t *rounds, const struct mst_status *status);

#endif
