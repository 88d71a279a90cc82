/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_CLUSTER_STATUS_H
#define MST_PROTO_CLUSTER_STATUS_H

/* The status of a coordinator in the key muster/cluster-status/<name>, as one line of words:
 *
 *   queued=12 in_flight=8 slots=4 ... oldest=17 oldest_ms=4100 waits=slot oldest_function=resize
 *   run=0,3,12,0,...;4.120000000
 *
 * `muster status` and the service's metrics show it. Any client may have written such a key: it is
 * accepted whole or refused. It is not below the cluster's own key, or each worker, which watches
 * that, would be notified each second. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/slice.h"

#define MST_CLUSTER_PREFIX "muster/cluster/"
#define MST_CLUSTER_STATUS_PREFIX "muster/cluster-status/"

enum {
    MST_CLUSTER_LABEL_MAX = 64,
    MST_CLUSTER_LABEL_ROOM = 96, /* for the key of any name */
    MST_CLUSTER_FUNCTION_ROOM = 64,
    MST_CLUSTER_STATUS_ROOM = 3072 /* for any status that mst_cluster_status_write writes */
};

/* Letters, digits, '.', '_' and '-', at most this many: it is part of keys and of metrics. */
bool mst_cluster_name_valid(struct mst_slice name);

/* Of a cluster of that name, which is valid; the sizes. They end with a 0; room >= LABEL_ROOM. */
size_t mst_cluster_key(char *at, size_t room, struct mst_slice name);
size_t mst_cluster_status_key(char *at, size_t room, struct mst_slice name);

/* The record of the cluster's dismissal: below its own key, so that each worker, which watches
 * that, is notified. It has no owner: it outlives the coordinator. */
size_t mst_cluster_dismissed_key(char *at, size_t room, struct mst_slice name);

/* The name in the key of a status; false: it is none. */
bool mst_cluster_status_key_read(struct mst_slice key, struct mst_slice *name);

/* Why the oldest queued closure is not running. The words are in the value of the key. */
enum mst_cluster_wait {
    MST_WAIT_NONE = 0,
    MST_WAIT_WORKERS = 1,  /* no closure is queued */
    MST_WAIT_FUNCTION = 2, /* no worker has the function, or its version */
    MST_WAIT_SLOT = 3,     /* all slots that could run it are busy */
    MST_WAIT_BACKOFF = 4,  /* it failed, and is retried later */
    MST_WAIT_DELAY = 5,    /* staggered start */
    MST_WAIT_SERIES = 6    /* a failure is being delivered */
};
enum { MST_WAITS = MST_WAIT_SERIES + 1 };

const char *mst_cluster_wait_word(enum mst_cluster_wait wait);     /* "slot" */
const char *mst_cluster_wait_sentence(enum mst_cluster_wait wait); /* "all slots that ..." */

/* Seconds of: resolving a function on a worker the first time, running to a value, from the end of
 * the run to the commit, and running to a failure. */
enum mst_cluster_timer {
    MST_TIMER_RESOLVE = 0,
    MST_TIMER_RUN = 1,
    MST_TIMER_FETCH = 2,
    MST_TIMER_FAILED = 3
};
enum { MST_TIMERS = MST_TIMER_FAILED + 1 };

/* The bounds of all of them. */
extern const struct mst_bounds mst_cluster_time_bounds;

/* The numbers of the table are words of the key by their names. */
struct mst_cluster_status {
#define X(name, counts, help) uint64_t name;
#include "proto/cluster_numbers.def"
#undef X
    enum mst_cluster_wait waits;
    char oldest_function[MST_CLUSTER_FUNCTION_ROOM], longest_function[MST_CLUSTER_FUNCTION_ROOM];
    struct mst_histogram times[MST_TIMERS];
};

void mst_cluster_status_init(struct mst_cluster_status *status);

/* A function's name as shown: truncated, with dashes for non-graphic characters. */
void mst_cluster_status_function(char room[MST_CLUSTER_FUNCTION_ROOM], struct mst_slice name);

/* The size; room >= STATUS_ROOM. */
size_t mst_cluster_status_write(char *at, size_t room, const struct mst_cluster_status *status);

/* False, and *out is undefined: not a status. Unknown words are ignored, absent ones are 0. */
bool mst_cluster_status_read(struct mst_slice value, struct mst_cluster_status *out);

#endif
