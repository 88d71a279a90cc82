/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/feed.h"

#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "service/core/counts.h"
#include "service/server/journal_disk.h"
#include "service/server/replica.h"

static void on_tell(void *ctx, enum mst_level level, const char *line)
{
    mst_uv_log_line(ctx, level, "journal", "%s", line);
}

static void tell_recovered(const struct mst_uv_feed *feed, const char *path, uint64_t took_ns)
{
    const struct mst_journal_recovered *found = mst_journal_recovery(feed->journal);

    if (found->lost) {
        mst_uv_log_line(feed->log, MST_WARN, "journal",
                        "journal-had-ended dir=%s reason=\"its disk was full, with "
                        "--journal-full=continue: the state is lost, and begins anew\"",
                        path);
    }
    mst_uv_log_line(feed->log, MST_INFO, "journal",
                    "journal-recovered dir=%s records=%" PRIu64 " snapshot=%" PRIu64 " cut=%" PRIu64
                    " took=%" PRIu64 ".%03" PRIu64 "ms",
                    path, found->records, found->snapshot, found->cut_bytes, took_ns / NS_PER_MS,
                    took_ns / 1000 % 1000);
}

/* Core time goes on where the journal ends. */
static void go_on(struct mst_uv_feed *feed, const char *path, uint64_t took_ns)
{
    mst_core_forget_counts(feed->core); /* the replay counted what the last one had counted */
    feed->ahead_ns = mst_journal_time_ns(feed->journal) - uv_hrtime();
    feed->last_conn = mst_journal_last_conn(feed->journal);
    tell_recovered(feed, path, took_ns);
}

static bool begin_record(struct mst_uv_feed *feed, struct muster_error *err)
{
    return !feed->record_folder ||
           mst_uv_record_init(&feed->record, feed->log, feed->record_folder, feed->version,
                              feed->journal, feed->core, &feed->config, mst_uv_feed_now_ns(feed),
                              feed->mem, err);
}

static muster_status begin_replica(struct mst_uv_feed *feed,
                                   const struct mst_uv_journal_config *config,
                                   struct mst_journal_config *how, struct muster_error *err)
{
    muster_status status =
        mst_uv_replica_open(&feed->replica, feed->loop, feed->log, config->replica, feed->mem, err);

    if (status == MUSTER_OK) {
        how->sink = mst_uv_replica_sink(feed->replica);
        status = mst_journal_open(&feed->journal, &feed->core, NULL, how, feed->mem, err);
    }
    if (status == MUSTER_OK) {
        status = mst_uv_replica_start(feed->replica, feed->journal, feed->core, err);
        feed->core = mst_uv_replica_core(feed->replica); /* that of its snapshot, if it has one */
    }
    return status;
}

muster_status mst_uv_feed_init(struct mst_uv_feed *feed, uv_loop_t *loop, struct mst_uv_log *log,
                               const struct mst_core_config *core,
                               const struct mst_uv_journal_config *config,
                               const struct mst_mem *mem, struct muster_error *err)
{
    struct mst_journal_config how = {.core = *core,
                                     .version = config->version,
                                     .sync = config->sync,
                                     .go_on_when_full = config->go_on_when_full,
                                     .tell = on_tell,
                                     .tell_ctx = log};
    uint64_t begun_ns = uv_hrtime();
    muster_status status = MUSTER_OK;

    *feed = (struct mst_uv_feed){.loop = loop,
                                 .log = log,
                                 .config = *core,
                                 .record_folder = config->record,
                                 .version = config->version,
                                 .mem = mem};
    if (config->replica) {
        return begin_replica(feed, config, &how, err);
    }
    if (config->path) {
        status = mst_journal_disk_open(&feed->disk, config->path, config->sync, err);
    }
    if (status == MUSTER_OK) {
        status =
            mst_journal_open(&feed->journal, &feed->core,
                             feed->disk ? mst_journal_disk_of(feed->disk) : NULL, &how, mem, err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (feed->disk) {
        go_on(feed, config->path, uv_hrtime() - begun_ns);
    }
    return begin_record(feed, err) ? MUSTER_OK : MUSTER_EFAILED;
}

uint64_t mst_uv_feed_now_ns(const struct mst_uv_feed *feed)
{
    return uv_hrtime() + feed->ahead_ns;
}

/* ---- the child that writes a snapshot ---- */

static void on_closed(uv_handle_t *handle)
{
    struct mst_uv_feed *feed = handle->data;

    feed->closing = false;
}

static void end_child(struct mst_uv_feed *feed, bool now)
{
    bool written;

    uv_poll_stop(&feed->snapshot);
    feed->closing = true;
    uv_close((uv_handle_t *)&feed->snapshot, on_closed);
    written = mst_journal_disk_reap(feed->child, feed->child_end, now);
    feed->child = 0;
    if (feed->replica) {
        mst_uv_replica_snapshot_end(feed->replica, written);
    } else {
        mst_journal_snapshot_end(feed->journal, written);
    }
}

static void on_child(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    end_child(poll->data, false);
}

static bool wants_snapshot(const struct mst_uv_feed *feed)
{
    return feed->child == 0 && !feed->closing &&
           (feed->replica ? mst_uv_replica_snapshot_due(feed->replica)
                          : mst_journal_snapshot_due(feed->journal));
}

static muster_status write_snapshot(void *journal)
{
    return mst_journal_snapshot_write(journal);
}

static bool begin_snapshot(struct mst_uv_feed *feed)
{
    if (feed->replica) {
        return mst_uv_replica_snapshot_begin(feed->replica);
    }
    return mst_journal_snapshot_begin(feed->journal);
}

static bool fork_snapshot(struct mst_uv_feed *feed)
{
    if (feed->replica) {
        return mst_journal_disk_fork(mst_uv_replica_disk(feed->replica),
                                     mst_uv_replica_snapshot_write, feed->replica, &feed->child,
                                     &feed->child_end);
    }
    return mst_journal_disk_fork(feed->disk, write_snapshot, feed->journal, &feed->child,
                                 &feed->child_end);
}

void mst_uv_feed_rest(struct mst_uv_feed *feed)
{
    mst_uv_record_turn(&feed->record);
    if (feed->replica) {
        mst_uv_replica_rest(feed->replica);
    }
    if (!wants_snapshot(feed) || !begin_snapshot(feed)) {
        return;
    }
    if (!fork_snapshot(feed)) {
        feed->child = 0;
        if (feed->replica) {
            mst_uv_replica_snapshot_end(feed->replica, false);
        } else {
            mst_journal_snapshot_end(feed->journal, false);
        }
        return;
    }
    feed->snapshot.data = feed;
    (void)uv_poll_init(feed->loop, &feed->snapshot, feed->child_end);
    (void)uv_poll_start(&feed->snapshot, UV_READABLE | UV_DISCONNECT, on_child);
}

void mst_uv_feed_stop(struct mst_uv_feed *feed)
{
    struct muster_error err;

    if (feed->child != 0) {
        end_child(feed, true);
    }
    if (feed->replica) {
        mst_uv_replica_stop(feed->replica);
        return;
    }
    if (!feed->broken && mst_journal_stop(feed->journal, &err) != MUSTER_OK) {
        mst_uv_log_line(feed->log, MST_WARN, "journal", "%s", err.text);
    }
}

void mst_uv_feed_fini(struct mst_uv_feed *feed)
{
    mst_uv_record_fini(&feed->record);
    mst_core_free(feed->core);
    mst_uv_replica_free(feed->replica);
    mst_journal_free(feed->journal);
    mst_journal_disk_close(feed->disk);
    feed->core = NULL;
    feed->journal = NULL;
    feed->disk = NULL;
    feed->replica = NULL;
}

/* ---- replicas ---- */

bool mst_uv_feed_follow(struct mst_uv_feed *feed)
{
    if (!feed->replica) {
        return true;
    }
    if (!feed->asked || !mst_uv_feed_serves(feed)) {
        mst_uv_replica_turn(feed->replica);
    } /* else the commit of what was asked hears the others: one wake-up has one look at them */
    feed->core = mst_uv_replica_core(feed->replica);
    if (feed->child != 0 && mst_uv_replica_snapshot_yields(feed->replica)) {
        end_child(feed, true);
    }
    feed->broken = feed->broken || mst_uv_replica_role(feed->replica) == MST_UV_REPLICA_ENDED;
    return !feed->broken;
}

bool mst_uv_feed_serves(const struct mst_uv_feed *feed)
{
    return !feed->replica || mst_uv_replica_role(feed->replica) == MST_UV_REPLICA_LEADS;
}

bool mst_uv_feed_lead_due(const struct mst_uv_feed *feed)
{
    return feed->replica && mst_uv_replica_role(feed->replica) == MST_UV_REPLICA_LEADS_DUE;
}

bool mst_uv_feed_lead(struct mst_uv_feed *feed)
{
    struct muster_error err;

    if (!mst_uv_replica_lead(feed->replica)) {
        feed->broken = true;
        return false;
    }
    mst_core_forget_counts(feed->core);
    feed->ahead_ns = mst_journal_time_ns(feed->journal) - uv_hrtime();
    feed->last_conn = mst_journal_last_conn(feed->journal);
    if (mst_uv_feed_commit(feed) && !begin_record(feed, &err)) {
        mst_uv_log_line(feed->log, MST_ERROR, "record", "record-ended reason=\"%s\"", err.text);
    }
    return !feed->broken;
}

uint64_t mst_uv_feed_wake_ns(const struct mst_uv_feed *feed)
{
    return feed->replica ? mst_uv_replica_deadline_ns(feed->replica) : UINT64_MAX;
}

void mst_uv_feed_pulse(struct mst_uv_feed *feed)
{
    if (feed->replica) {
        mst_uv_replica_pulse(feed->replica);
    }
}

/* Only an entry behind the last request shows that this replica still led when it was read. A turn
 * of several entries may have given the last of them before. */
static bool commit_to_replicas(struct mst_uv_feed *feed)
{
    struct muster_error err;

    if (!feed->broken && mst_uv_feed_serves(feed)) {
        uint64_t given = mst_uv_replica_given(feed->replica);
        bool failed, more;

        mst_uv_replica_pulse(feed->replica);
        failed = mst_journal_commit(feed->journal, &err) != MUSTER_OK;
        more = feed->asked && mst_uv_replica_given(feed->replica) == given;
        feed->broken = failed || !mst_uv_replica_commit(feed->replica, more);
        feed->asked = false;
    }
    return !feed->broken;
}

bool mst_uv_feed_commit(struct mst_uv_feed *feed)
{
    struct muster_error err;

    if (feed->replica) {
        return commit_to_replicas(feed);
    }
    if (!feed->broken && mst_journal_commit(feed->journal, &err) != MUSTER_OK) {
        feed->broken = true;
        mst_uv_log_line(feed->log, MST_ERROR, "journal", "%s", err.text);
    }
    return !feed->broken;
}

const char *mst_uv_feed_trouble(const struct mst_uv_feed *feed)
{
    if (feed->replica) {
        return mst_uv_replica_trouble(feed->replica);
    }
    return feed->journal ? mst_journal_trouble(feed->journal) : NULL; /* it may be recovering */
}

uint64_t mst_uv_feed_deadline_ns(const struct mst_uv_feed *feed)
{
    uint64_t core_ns = mst_uv_feed_serves(feed) ? mst_core_deadline_ns(feed->core) : UINT64_MAX;
    uint64_t journal_ns = mst_journal_deadline_ns(feed->journal);

    if (wants_snapshot(feed)) {
        return 0; /* it is due from the beginning: no event may ever come that makes a turn */
    }
    return mst_sooner(core_ns, journal_ns);
}
