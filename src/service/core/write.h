/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_WRITE_H
#define MST_SERVICE_CORE_WRITE_H

/* A batch of key operations: prepared with everything that can fail, then carried out at once. */

#include "service/core/session.h"

/* What one operation of the batch would do. */
struct mst_staged {
    struct mst_key *key;    /* NULL: a delete of nothing */
    struct mst_blob *value; /* what the key is then; NULL: not there */
    bool owned;
    int64_t number;
    uint64_t revision; /* that the key then has, once carried out */
};

#endif
