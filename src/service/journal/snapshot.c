/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/fail.h"
#include "service/journal/part.h"

/* A snapshot while it is written. Parts of one size, so that nothing has to be allocated. */
struct saving {
    struct mst_journal *journal;
    int file;
    uint64_t sequence;
    uint64_t offset, total;
    size_t used; /* of the part */
    muster_status status;
};

static unsigned char *part_of(const struct saving *saving)
{
    return saving->journal->part + MST_FRAME_HEAD + MST_RECORD_HEAD;
}

/* One frame with one record, whose body lies in the part. */
static bool put_frame(struct saving *saving, enum mst_record_type type)
{
    struct mst_journal *journal = saving->journal;
    const struct mst_journal_record record = {
        .type = type, .now_ns = journal->now_ns, .conn = journal->last_conn};
    size_t payload = MST_RECORD_HEAD + saving->used;
    uint64_t size = mst_frame_bytes(payload);

    mst_record_head_write(journal->part + MST_FRAME_HEAD, &record, saving->used);
    mst_frame_write(journal->part, &journal->crc, saving->sequence, saving->offset, payload, 0);
    saving->status = journal->disk.write(journal->disk.ctx, saving->file, saving->offset,
                                         mst_slice_of(journal->part, (size_t)size));
    saving->offset += size;
    saving->used = 0;
    return saving->status == MUSTER_OK;
}

static bool put(void *ctx, struct mst_slice bytes)
{
    struct saving *saving = ctx;
    const unsigned char *data = bytes.data;
    size_t left = bytes.size;

    while (left > 0) {
        size_t size = MST_SNAPSHOT_PART - saving->used;

        size = size < left ? size : left;
        memcpy(part_of(saving) + saving->used, data, size);
        saving->used += size;
        saving->total += size;
        data += size;
        left -= size;
        if (saving->used == MST_SNAPSHOT_PART && !put_frame(saving, MST_RECORD_PART)) {
            return false;
        }
    }
    return true;
}

static bool put_head(struct saving *saving)
{
    struct mst_journal *journal = saving->journal;
    const struct mst_file_head head = mst_file_head_of(MST_FILE_SNAPSHOT, saving->sequence,
                                                       MST_CORE_RULES, journal->config.version);
    unsigned char bytes[MST_FILE_HEAD];

    mst_file_head_write(bytes, &journal->crc, &head);
    saving->status =
        journal->disk.write(journal->disk.ctx, saving->file, 0, mst_slice_of(bytes, sizeof bytes));
    saving->offset = MST_FILE_HEAD;
    return saving->status == MUSTER_OK;
}

static bool put_all(struct saving *saving)
{
    const struct mst_snapshot_sink sink = {.ctx = saving, .put = put};

    if (!put_head(saving) || !mst_core_save(saving->journal->core, &sink) ||
        (saving->used > 0 && !put_frame(saving, MST_RECORD_PART))) {
        return false;
    }
    mst_put_u64(part_of(saving), saving->total);
    saving->used = 8;
    return put_frame(saving, MST_RECORD_WHOLE);
}

static muster_status open_unfinished(struct saving *saving, struct mst_journal *journal)
{
    char name[MST_FILE_NAME_ROOM];

    *saving = (struct saving){.journal = journal, .sequence = journal->snapshot};
    mst_file_name(name, MST_FILE_UNFINISHED, saving->sequence);
    return journal->disk.create(journal->disk.ctx, name, &saving->file);
}

/* Closes it; whole it gets its name, and otherwise it is removed. */
static muster_status finish(struct saving *saving)
{
    const struct mst_disk *disk = &saving->journal->disk;
    char name[MST_FILE_NAME_ROOM], unfinished[MST_FILE_NAME_ROOM];

    mst_file_name(name, MST_FILE_SNAPSHOT, saving->sequence);
    mst_file_name(unfinished, MST_FILE_UNFINISHED, saving->sequence);
    disk->close(disk->ctx, saving->file);
    if (saving->status == MUSTER_OK) {
        saving->status = disk->rename(disk->ctx, unfinished, name);
    }
    if (saving->status != MUSTER_OK) {
        (void)disk->remove(disk->ctx, unfinished);
        return saving->status;
    }
    if (disk->sync_names(disk->ctx) != MUSTER_OK) {
        (void)disk->remove(disk->ctx, name); /* no other file needs it yet */
        return MUSTER_EFAILED;
    }
    return MUSTER_OK;
}

static muster_status write_all(struct saving *saving)
{
    const struct mst_disk *disk = &saving->journal->disk;

    if (put_all(saving)) {
        saving->status = disk->sync(disk->ctx, saving->file);
    } else if (saving->status == MUSTER_OK) {
        saving->status = MUSTER_EFAILED;
    }
    return finish(saving);
}

muster_status mst_journal_snapshot_write(struct mst_journal *journal)
{
    struct saving saving;
    muster_status status = open_unfinished(&saving, journal);

    return status == MUSTER_OK ? write_all(&saving) : status;
}

/* ---- of a core that was held ---- */

static bool measure(void *ctx, struct mst_slice bytes)
{
    uint64_t *total = ctx;

    *total += bytes.size;
    return true;
}

/* The size of the file: a release changes numbers of the state, and not its size. */
static uint64_t file_bytes(const struct mst_journal *journal)
{
    uint64_t total = 0;
    const struct mst_snapshot_sink sink = {.ctx = &total, .put = measure};

    (void)mst_core_save(journal->core, &sink);
    return MST_FILE_HEAD +
           (total / MST_SNAPSHOT_PART) * mst_frame_bytes(MST_RECORD_HEAD + MST_SNAPSHOT_PART) +
           mst_frame_bytes(MST_RECORD_HEAD + total % MST_SNAPSHOT_PART) +
           mst_frame_bytes(MST_RECORD_HEAD + 8);
}

/* The room is reserved first: clients learn revisions when the core continues, and a revision must
 * not be given twice for want of room to keep it. */
muster_status mst_journal_snapshot_release(struct mst_journal *journal)
{
    struct saving saving;
    muster_status status = open_unfinished(&saving, journal);

    if (status != MUSTER_OK) {
        return status;
    }
    saving.status = journal->disk.reserve(journal->disk.ctx, saving.file, file_bytes(journal));
    if (saving.status != MUSTER_OK) {
        return finish(&saving);
    }
    mst_journal_hold_core(journal, NULL);
    status = write_all(&saving);
    return status == MUSTER_ENOSPACE ? MUSTER_EFAILED : status;
}

struct older {
    const struct mst_disk *disk;
    uint64_t than;
};

static void remove_older(void *ctx, const char *name)
{
    const struct older *older = ctx;
    enum mst_file_kind kind;
    uint64_t sequence;

    if (mst_file_name_read(name, &kind, &sequence) && sequence < older->than) {
        (void)older->disk->remove(older->disk->ctx, name);
    }
}

/* All that exist, because there may be any gap between their numbers. A file that cannot be removed
 * now does no harm. */
void mst_journal_remove_before(struct mst_journal *journal, uint64_t sequence)
{
    struct older older = {.disk = &journal->disk, .than = sequence};

    (void)journal->disk.list(journal->disk.ctx, remove_older, &older);
}

bool mst_journal_snapshot_due(const struct mst_journal *journal)
{
    return journal->state == MST_JOURNAL_KEEPS && journal->snapshot == 0 &&
           (journal->records >= journal->due_at || journal->bytes >= journal->due_bytes);
}

/* Postpones the next snapshot, whatever the cause of the failure. */
static void put_off(struct mst_journal *journal)
{
    journal->due_at = journal->records + journal->config.records_max / 10 + 1;
    journal->due_bytes = journal->bytes + journal->config.bytes_max / 10 + 1;
}

bool mst_journal_snapshot_begin(struct mst_journal *journal)
{
    if (journal->state != MST_JOURNAL_KEEPS) {
        return false;
    }
    mst_journal_flush(journal);
    if (journal->state != MST_JOURNAL_KEEPS ||
        mst_journal_next_file(journal, journal->sequence + 1, MST_RECORD_CONTINUE) != MUSTER_OK) {
        put_off(journal);
        return false;
    }
    journal->snapshot = journal->sequence;
    journal->due_at = journal->records + journal->config.records_max;
    journal->due_bytes = journal->bytes + journal->config.bytes_max;
    journal->records_before = journal->records;
    journal->bytes_before = journal->bytes;
    return true;
}

void mst_journal_snapshot_end(struct mst_journal *journal, bool written)
{
    if (journal->snapshot == 0) {
        return; /* a newer one was made meanwhile */
    }
    if (written) {
        journal->records -= journal->records_before;
        journal->bytes -= journal->bytes_before;
        journal->due_at = journal->config.records_max;
        journal->due_bytes = journal->config.bytes_max;
        mst_journal_remove_before(journal, journal->snapshot);
    } else {
        put_off(journal);
        mst_journal_tell(journal, MST_WARN, "snapshot-failed", NULL);
    }
    journal->snapshot = 0;
}

muster_status mst_journal_stop(struct mst_journal *journal, struct muster_error *err)
{
    enum mst_record_type first = MST_RECORD_CONTINUE;
    muster_status status;

    if (journal->state == MST_JOURNAL_ENDED) {
        return MUSTER_OK;
    }
    journal->snapshot = 0;
    status = mst_journal_commit(journal, err);
    if (status == MUSTER_OK) {
        if (journal->state == MST_JOURNAL_HOLDS) {
            first = MST_RECORD_BASE;
            mst_journal_hold_core(journal, NULL);
        }
        status = mst_journal_next_file(journal, journal->sequence + 1, first);
    }
    if (status == MUSTER_OK) {
        journal->snapshot = journal->sequence;
        status = mst_journal_snapshot_write(journal);
    }
    if (status == MUSTER_OK) {
        mst_journal_remove_before(journal, journal->sequence);
        mst_journal_leave_file(journal);
        journal->state = MST_JOURNAL_ENDED;
    } else if (mst_journal_verdict(journal, err) == MUSTER_OK) {
        (void)mst_fail(err, status, 0,
                       "no last snapshot could be written, so only this version of the service "
                       "can go on from the journal: %s",
                       journal->disk.reason(journal->disk.ctx));
    }
    return status;
}
