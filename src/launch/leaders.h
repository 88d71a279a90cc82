/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_LEADERS_H
#define MST_LAUNCH_LEADERS_H

/* One line of the run when another replica leads its service, and when a replica becomes a voter or
 * takes the place of another one. One node prints it for all: node 0, or without it the lowest that
 * is there. It asks the service once a second; the others ask nothing.
 *
 * A node that begins to print prints first how it is, since it does not know what was printed. */

#include <uv.h>

#include "base/slice.h"
#include "client/shell/internal.h"
#include "net/address.h"

enum { MST_LEADERS_VOTERS_MAX = 8, MST_LEADERS_PLACES_MAX = 32 };

struct mst_leaders_state {
    char leader[MST_ADDRESS_TEXT]; /* empty: not known */
    unsigned count;
    char voters[MST_LEADERS_VOTERS_MAX][MST_ADDRESS_TEXT];
};

struct mst_leaders {
    uv_timer_t timer;
    struct mst_lib_post post;
    struct mst_leaders_state printed;

    /* Written by the client's threads: under the run's lock. */
    bool answered;
    struct mst_leaders_state heard;
    struct {
        uint32_t node;
        char address[MST_ADDRESS_TEXT];
    } places[MST_LEADERS_PLACES_MAX]; /* of replicas, also of those that are lost */
    unsigned place_count;             /* of all times; the oldest gives way */
};

struct mst_run_job;

void mst_leaders_init(struct mst_run_job *job);

/* The session is open. */
void mst_leaders_begin(struct mst_run_job *job);

/* With the client's lock held: a key under MST_RUN_REPLICA_PREFIX. */
void mst_leaders_heard(struct mst_run_job *job, struct mst_slice name, struct mst_slice value);

#endif
