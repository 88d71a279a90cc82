/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NULL_CALLS_H
#define NULL_CALLS_H

#include <stddef.h>

#include "muster/muster.h"

/* One for each exported function with a pointer among its parameters; the name of the last is 0. */
struct null_call {
    const char *name;
    /* Handles and options are NULL, and so is all else unless `full`: then it is `room`, and `err`.
     * A muster_status is returned, of a function without one EINVAL. */
    int (*call)(int full, void *room, struct muster_error *err);
    int takes_err;
};
extern const struct null_call null_calls[];

#endif
