/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBRARY_STAGE_H
#define LIBRARY_STAGE_H

/* The library with a real service behind it: the first client of a test is a job of one that starts
 * it, further ones go to the same address. */

#include "client/shell/handle.h"
#include "muster/muster.h"

#define LIMIT_MS 20000 /* for what must happen: far beyond what it takes */

/* Sets the runtime directory to one of this test's own. */
int library_stage_setup(void **state);
int library_stage_teardown(void **state);

/* Asserts on failure, with the error's text. */
muster_client *library_open(const struct muster_client_options *options);
muster_client *library_alone(void);

/* An observer of the same service and job as `client`. */
muster_client *library_observer(const muster_client *client);
void library_ok(muster_status status, const struct muster_error *err);
struct muster_slice bytes_of(const char *text);

/* Runs `what` in a forked child, with the address of a service of the parent: it is to say 0. */
void library_in_a_child(int (*what)(const char *addr));

/* Opens a file at each number up to 64 that is free; whether all of them are open still, and
 * nothing was written to them. */
void library_occupy(void);
bool library_is_untouched(void);

/* Returns once `count` threads of `client` block in it. */
void library_wait_for_waiters(muster_client *client, size_t count);

/* Returns when its background thread does that. */
void library_wait_for_background(muster_client *client, enum mst_lib_background what);

#endif
