/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_FEED_H
#define MST_SERVICE_SERVER_FEED_H

/* The journal through which the hub feeds the core (it may be one that keeps nothing, or one that
 * several replicas have in common), the clock of the core, which goes on where the service before
 * us stopped, the child that writes snapshots, and the record. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "service/core/core.h"
#include "service/journal/journal.h"
#include "service/server/log.h"
#include "service/server/record.h"

struct mst_journal_disk;
struct mst_uv_replica;
struct mst_uv_replica_config;

struct mst_uv_journal_config {
    const char *path; /* NULL: no journal, and the state dies with the service */
    const char *version;
    bool sync;
    bool go_on_when_full;
    const char *record;                          /* folder; NULL: nothing is recorded */
    const struct mst_uv_replica_config *replica; /* its folder takes the place of a journal's; NULL:
                                                    this service is the only one */
};

struct mst_uv_feed {
    uv_loop_t *loop;
    struct mst_core *core;
    struct mst_journal *journal;
    struct mst_journal_disk *disk;  /* of the journal; NULL: it keeps nothing */
    struct mst_uv_replica *replica; /* NULL: this service is the only one */
    struct mst_uv_record record;
    struct mst_core_config config; /* for the record of a leader */
    const char *record_folder, *version;
    const struct mst_mem *mem;
    bool asked; /* a request was fed since the last commit */
    struct mst_uv_log *log;
    uint64_t ahead_ns;  /* of the core's clock before ours, modulo 2^64 */
    uint64_t last_conn; /* of the service before us */
    uv_poll_t snapshot; /* its child's end */
    pid_t child;        /* 0: none */
    int child_end;
    bool closing; /* the handle of the last one */
    bool broken;
};

/* Recovers the state. Any failure: `err` is one line, and the feed is to be finished too. */
muster_status mst_uv_feed_init(struct mst_uv_feed *feed, uv_loop_t *loop, struct mst_uv_log *log,
                               const struct mst_core_config *core,
                               const struct mst_uv_journal_config *config,
                               const struct mst_mem *mem, struct muster_error *err);

/* The service stops in order: the last snapshot. */
void mst_uv_feed_stop(struct mst_uv_feed *feed);
void mst_uv_feed_fini(struct mst_uv_feed *feed); /* after the loop has closed all handles */

uint64_t mst_uv_feed_now_ns(const struct mst_uv_feed *feed);

/* With replicas, at the begin of a turn: what came from the others. The core may be another one
 * after it. False: this replica has ended. */
bool mst_uv_feed_follow(struct mst_uv_feed *feed);

/* Whether the core may be fed: this service is the only one, or leads. */
bool mst_uv_feed_serves(const struct mst_uv_feed *feed);

/* With replicas: it was elected, and may serve. All connections are gone already. False: it has
 * ended. */
bool mst_uv_feed_lead_due(const struct mst_uv_feed *feed);
bool mst_uv_feed_lead(struct mst_uv_feed *feed);

/* When the others want a turn at the latest, on the clock of uv_hrtime. */
uint64_t mst_uv_feed_wake_ns(const struct mst_uv_feed *feed);

/* In the midst of a long turn: the other replicas learn that this one is there. */
void mst_uv_feed_pulse(struct mst_uv_feed *feed);

/* Makes the inputs durable on which the pending effects depend. False: it failed, and no effect may
 * leave. */
bool mst_uv_feed_commit(struct mst_uv_feed *feed);

/* Why nothing can be kept at present, in one line; NULL: it can, or there is no journal. */
const char *mst_uv_feed_trouble(const struct mst_uv_feed *feed);

/* After a turn: starts a snapshot if one is due. */
void mst_uv_feed_rest(struct mst_uv_feed *feed);

uint64_t mst_uv_feed_deadline_ns(const struct mst_uv_feed *feed);

#endif
