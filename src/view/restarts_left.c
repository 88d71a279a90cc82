/* SPDX-License-Identifier: Apache-2.0 */
#include "view/restarts_left.h"

#include "proto/run_keys.h"

bool mst_restarts_left_of(const struct mst_items *keys, struct mst_restarts_left *out)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct mst_item *key = &keys->items[i];
        uint32_t used, most;

        if (key->kind == MST_ITEM_KEY &&
            mst_slice_equal(key->name, mst_slice_text(MST_RUN_RESTARTS_KEY)) &&
            mst_run_restarts_read(key->value, &used, &most)) {
            *out = (struct mst_restarts_left){.left = most - used, .of = most};
            return true;
        }
    }
    return false;
}

json_t *mst_restarts_left_json(const struct mst_items *keys)
{
    struct mst_restarts_left left;

    return mst_restarts_left_of(keys, &left) ? json_integer(left.left) : json_null();
}
