/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_RESTARTS_LEFT_H
#define MST_VIEW_RESTARTS_LEFT_H

/* How many restarts a run has left, as its first node says (proto/run_keys.h). */

#include <jansson.h>

#include "view/items.h"

struct mst_restarts_left {
    uint32_t left, of;
};

/* False: no run says it. */
bool mst_restarts_left_of(const struct mst_items *keys, struct mst_restarts_left *out);

/* Null: no run says it. */
json_t *mst_restarts_left_json(const struct mst_items *keys);

#endif
