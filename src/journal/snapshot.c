/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "journal/part.h"

#define TEMPORARY ".tmp"

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
    const struct mst_record record = {
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
    struct mst_file_head head = {
        .kind = MST_FILE_SNAPSHOT, .sequence = saving->sequence, .rules = MST_CORE_RULES};
    unsigned char bytes[MST_FILE_HEAD];
    size_t size = strlen(journal->config.version);

    memcpy(head.version, journal->config.version,
           size < sizeof head.version ? size : sizeof head.version - 1);
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

muster_status mst_journal_snapshot_write(struct mst_journal *journal)
{
    const struct mst_disk *disk = &journal->disk;
    struct saving saving = {.journal = journal, .sequence = journal->snapshot};
    char name[MST_FILE_NAME_ROOM], temporary[MST_FILE_NAME_ROOM];
    struct mst_text text = mst_text_in(temporary, sizeof temporary);

    mst_file_name(name, MST_FILE_SNAPSHOT, saving.sequence);
    mst_text_add(&text, name);
    mst_text_add(&text, TEMPORARY);
    saving.status = disk->create(disk->ctx, temporary, &saving.file);
    if (saving.status != MUSTER_OK) {
        return saving.status;
    }
    if (put_all(&saving)) {
        saving.status = disk->sync(disk->ctx, saving.file);
    } else if (saving.status == MUSTER_OK) {
        saving.status = MUSTER_EFAILED;
    }
    disk->close(disk->ctx, saving.file);
    if (saving.status == MUSTER_OK) {
        saving.status = disk->rename(disk->ctx, temporary, name);
    }
    if (saving.status == MUSTER_OK) {
        return disk->sync_names(disk->ctx);
    }
    (void)disk->remove(disk->ctx, temporary);
    return saving.status;
}

void mst_journal_remove_before(struct mst_journal *journal, uint64_t sequence)
{
    char name[MST_FILE_NAME_ROOM];

    for (; journal->oldest < sequence; journal->oldest++) {
        mst_file_name(name, MST_FILE_SNAPSHOT, journal->oldest);
        (void)journal->disk.remove(journal->disk.ctx, name);
        mst_file_name(name, MST_FILE_JOURNAL, journal->oldest);
        (void)journal->disk.remove(journal->disk.ctx, name);
    }
}

bool mst_journal_snapshot_due(const struct mst_journal *journal)
{
    return journal->state == MST_JOURNAL_KEEPS && journal->snapshot == 0 &&
           (journal->records >= journal->due_at || journal->bytes >= journal->due_bytes);
}

/* Not at once again, whatever was in the way. */
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
            mst_core_hold(journal->core, NULL);
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
    } else if (err && journal->state != MST_JOURNAL_BROKEN) {
        struct mst_text text = mst_text_in(err->text, sizeof err->text);

        err->status = status;
        err->os_errno = 0;
        mst_text_add(&text, "no last snapshot could be written, so only this version of the "
                            "service can go on from the journal: ");
        mst_text_add(&text, journal->disk.reason(journal->disk.ctx));
    }
    return status;
}
