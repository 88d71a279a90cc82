/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTED_CALLS_H
#define EXPORTED_CALLS_H

/* One for each exported function; the name of the last is 0. */
struct exported_call {
    const char *name;
    int blocks; /* it has a `timeout_ms`, and does not only begin a call */
};
extern const struct exported_call exported_calls[];

#endif
