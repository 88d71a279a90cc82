/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_ENUMS_H
#define MST_PROTO_NATIVE_ENUMS_H

/* proto3 lets any number through as the value of an enum. These say which ones we know; that the
 * schema and msg/ number them alike is checked when this is compiled. */

#include <stdbool.h>
#include <stdint.h>

#include "muster.pb-c.h"

bool mst_native_role_known(int value);
bool mst_native_grow_known(int value);
bool mst_native_write_kind_known(int value);
bool mst_native_on_loss_known(int value);
bool mst_native_reduce_known(int value);
bool mst_native_cause_known(int value);
bool mst_native_state_known(int value); /* 0 counts: not told */
bool mst_native_attention_known(int value);
bool mst_native_item_kind_known(int value);

/* The first thing in a message that is well-formed protobuf and still makes no sense. */
struct mst_native_fault {
    const char *what; /* NULL: nothing, or no memory */
    int64_t number;
};

/* Returns `known`; if not, notes the fault. */
static inline bool mst_native_expect(struct mst_native_fault *fault, bool known, const char *what,
                                     int64_t number)
{
    if (!known) {
        *fault = (struct mst_native_fault){.what = what, .number = number};
    }
    return known;
}

#endif
