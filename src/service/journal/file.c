/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/part.h"

#include <string.h>

#include "base/panic.h"

#define CHUNK(journal) ((journal)->config.chunk_bytes)

enum { MARGIN = 256 }; /* for the last record of a journal that ends */

static const char gone[] = "the file that is written is gone";

void mst_journal_tell(struct mst_journal *journal, enum mst_level level, const char *event,
                      const char *reason)
{
    char line[512];

    if (!journal->config.tell) {
        return;
    }
    mst_text_print(line, sizeof line, "%s dir=%s%s%s%s", event, journal->disk.where,
                   reason ? " reason=\"" : "", reason ? reason : "", reason ? "\"" : "");
    journal->config.tell(journal->config.tell_ctx, level, line);
}

void mst_journal_break(struct mst_journal *journal, const char *reason)
{
    if (journal->state == MST_JOURNAL_BROKEN) {
        return; /* the first reason counts */
    }
    mst_text_print(journal->why, sizeof journal->why, "%s", reason ? reason : gone);
    journal->state = MST_JOURNAL_BROKEN;
    journal->frame.used = 0;
}

/* ---- a file ---- */

/* The head and the first record, which gives the meaning of the file, in one write. */
static size_t begin_file(struct mst_journal *journal, uint64_t sequence, enum mst_record_type first,
                         unsigned char *at)
{
    const struct mst_journal_record record = {.type = first, .now_ns = journal->now_ns};
    const struct mst_file_head head =
        mst_file_head_of(MST_FILE_JOURNAL, sequence, MST_CORE_RULES, journal->config.version);
    unsigned char *payload = at + MST_FILE_HEAD + MST_FRAME_HEAD;

    mst_file_head_write(at, &journal->crc, &head);
    mst_record_head_write(payload, &record, 8);
    mst_put_u64(payload + MST_RECORD_HEAD, journal->offset);
    mst_frame_write(at + MST_FILE_HEAD, &journal->crc, sequence, MST_FILE_HEAD, MST_RECORD_HEAD + 8,
                    0);
    return MST_FILE_HEAD + (size_t)mst_frame_bytes(MST_RECORD_HEAD + 8);
}

/* False: there was none. */
static bool close_file(struct mst_journal *journal, char name[MST_FILE_NAME_ROOM])
{
    if (journal->file == MST_NO_FILE) {
        return false;
    }
    journal->disk.close(journal->disk.ctx, journal->file);
    journal->file = MST_NO_FILE;
    mst_file_name(name, MST_FILE_JOURNAL, journal->sequence);
    return true;
}

void mst_journal_leave_file(struct mst_journal *journal)
{
    char name[MST_FILE_NAME_ROOM];

    if (close_file(journal, name)) { /* no harm if the reserved room cannot be given back */
        (void)journal->disk.cut(journal->disk.ctx, name, journal->offset, false);
    }
}

void mst_journal_drop_file(struct mst_journal *journal)
{
    char name[MST_FILE_NAME_ROOM];

    if (close_file(journal, name)) {
        (void)journal->disk.remove(journal->disk.ctx, name);
        journal->sequence--;
    }
}

/* A failed sync is not tried again, whatever the cause: the kernel reports an error once, and the
 * unwritten pages may be lost. */
bool mst_journal_sync(struct mst_journal *journal)
{
    const struct mst_disk *disk = &journal->disk;

    if (!journal->config.sync || journal->file == MST_NO_FILE ||
        journal->durable == journal->offset || journal->state == MST_JOURNAL_BROKEN) {
        return journal->state != MST_JOURNAL_BROKEN;
    }
    if (disk->sync(disk->ctx, journal->file) != MUSTER_OK) {
        mst_journal_break(journal, disk->reason(disk->ctx));
        return false;
    }
    journal->durable = journal->offset;
    return true;
}

/* A new file with these bytes, as durable as was promised. */
static muster_status write_new(struct mst_journal *journal, const char *name,
                               struct mst_slice bytes, int *file_out)
{
    const struct mst_disk *disk = &journal->disk;
    muster_status status = disk->create(disk->ctx, name, file_out);

    if (status != MUSTER_OK) {
        return status;
    }
    status = disk->reserve(disk->ctx, *file_out, CHUNK(journal));
    if (status == MUSTER_OK) {
        status = disk->write(disk->ctx, *file_out, 0, bytes);
    }
    if (status == MUSTER_OK && journal->config.sync) {
        status = disk->sync(disk->ctx, *file_out);
        status = status == MUSTER_OK ? disk->sync_names(disk->ctx) : status;
    }
    if (status != MUSTER_OK) {
        disk->close(disk->ctx, *file_out);
        (void)disk->remove(disk->ctx, name);
    }
    return status;
}

muster_status mst_journal_next_file(struct mst_journal *journal, uint64_t sequence,
                                    enum mst_record_type first)
{
    unsigned char bytes[MST_FILE_HEAD + MST_FRAME_HEAD + MST_RECORD_HEAD + 16];
    char name[MST_FILE_NAME_ROOM];
    muster_status status;
    size_t size;
    int file;

    MST_ASSERT(journal->frame.used == 0);
    /* The new file will record that the old one is durable up to here. */
    if (!mst_journal_sync(journal)) {
        return MUSTER_EFAILED;
    }
    mst_file_name(name, MST_FILE_JOURNAL, sequence);
    size = begin_file(journal, sequence, first, bytes);
    status = write_new(journal, name, mst_slice_of(bytes, size), &file);
    if (status != MUSTER_OK && status != MUSTER_ENOSPACE) {
        mst_journal_break(journal, journal->disk.reason(journal->disk.ctx));
    }
    if (status != MUSTER_OK) {
        return status;
    }
    mst_journal_leave_file(journal);
    journal->file = file;
    journal->sequence = sequence;
    journal->offset = size;
    journal->durable = journal->config.sync ? size : 0;
    journal->reserved = CHUNK(journal);
    return MUSTER_OK;
}

/* ---- room on the disk ---- */

/* Without this record the next service would trust the files: then this one ends. */
static void end_of_promise(struct mst_journal *journal)
{
    const struct mst_journal_record record = {.type = MST_RECORD_ENDED, .now_ns = journal->now_ns};
    unsigned char *at;

    mst_journal_flush(journal);
    at = mst_journal_record_room(journal, MST_RECORD_HEAD);
    if (journal->state != MST_JOURNAL_BROKEN && at) {
        mst_gather_keep(&journal->frame, &record, 0);
        mst_journal_flush(journal);
    }
    if (!at || !mst_journal_sync(journal)) {
        mst_journal_break(journal, "no memory to end it");
        return;
    }
    mst_journal_leave_file(journal);
    mst_journal_tell(journal, MST_ERROR, "journal-ended", journal->why);
    journal->state = MST_JOURNAL_ENDED;
}

void mst_journal_hold(struct mst_journal *journal, uint64_t now_ns)
{
    mst_text_print(journal->why, sizeof journal->why, "the journal's disk is full: %s%s",
                   journal->disk.reason(journal->disk.ctx),
                   journal->config.go_on_when_full
                       ? "; what is written from now on dies with the service "
                         "(--journal-full=continue)"
                       : "; make room there");
    if (journal->config.go_on_when_full) {
        end_of_promise(journal);
        return;
    }
    journal->state = MST_JOURNAL_HOLDS;
    journal->retry_ns = now_ns + NS_PER_S;
    mst_journal_hold_core(journal, journal->why);
    mst_journal_tell(journal, MST_ERROR, "journal-full", journal->why);
}

/* OK, ENOSPACE, or broken. */
static muster_status reserve(struct mst_journal *journal, uint64_t need)
{
    uint64_t size = journal->reserved + CHUNK(journal);
    muster_status status;

    if (size < need + MARGIN) {
        size = need + MARGIN;
    }
    status = journal->disk.reserve(journal->disk.ctx, journal->file, size);
    if (status == MUSTER_OK) {
        journal->reserved = size;
    } else if (status != MUSTER_ENOSPACE) {
        mst_journal_break(journal, journal->disk.reason(journal->disk.ctx));
    }
    return status;
}

bool mst_journal_has_room(struct mst_journal *journal, size_t more)
{
    uint64_t need = journal->offset + mst_frame_bytes(journal->frame.used + more);

    if (journal->config.sink.take) {
        return journal->state == MST_JOURNAL_KEEPS;
    }
    if (journal->state == MST_JOURNAL_KEEPS && need + MARGIN > journal->reserved &&
        reserve(journal, need) == MUSTER_ENOSPACE) {
        mst_journal_hold(journal, journal->now_ns);
    }
    return journal->state == MST_JOURNAL_KEEPS;
}

/* ---- frames ---- */

unsigned char *mst_journal_record_room(struct mst_journal *journal, size_t size)
{
    size_t max = journal->config.sink.take ? journal->config.sink.max : MST_JOURNAL_FRAME_MAX;
    unsigned char *at;

    if (journal->frame.used > 0 && journal->frame.used + size > max) {
        mst_journal_flush(journal);
    }
    at = mst_gather_room(&journal->frame, &journal->mem, size);
    if (!at) {
        mst_journal_flush(journal); /* perhaps it fits then */
        at = mst_gather_room(&journal->frame, &journal->mem, size);
    }
    return at;
}

static void give(struct mst_journal *journal)
{
    const struct mst_journal_sink *sink = &journal->config.sink;
    struct mst_slice payload =
        mst_slice_of(journal->frame.bytes + MST_FRAME_HEAD, journal->frame.used);

    if (payload.size > 0 && journal->state != MST_JOURNAL_BROKEN) {
        journal->bytes += payload.size;
        if (!sink->take(sink->ctx, payload)) {
            mst_journal_break(journal, "it has ended");
        }
    }
    journal->frame.used = 0;
}

void mst_journal_flush(struct mst_journal *journal)
{
    uint64_t size = mst_frame_bytes(journal->frame.used);
    muster_status status;

    if (journal->config.sink.take) {
        give(journal);
        return;
    }
    if (journal->frame.used == 0 || journal->file == MST_NO_FILE ||
        journal->state == MST_JOURNAL_BROKEN) {
        journal->frame.used = 0;
        return;
    }
    mst_frame_write(journal->frame.bytes, &journal->crc, journal->sequence, journal->offset,
                    journal->frame.used, journal->config.sync ? journal->durable : journal->offset);
    status = journal->disk.write(journal->disk.ctx, journal->file, journal->offset,
                                 mst_slice_of(journal->frame.bytes, (size_t)size));
    if (status != MUSTER_OK) { /* room was reserved: ENOSPACE is as bad as any */
        mst_journal_break(journal, journal->disk.reason(journal->disk.ctx));
        return;
    }
    journal->offset += size;
    journal->bytes += size;
    journal->frame.used = 0;
}

/* ---- room again ---- */

/* No file has the changes made meanwhile, so the whole state must be written before anything is
 * promised again. A file without its snapshot means nothing; the next try makes both. */
void mst_journal_retry(struct mst_journal *journal, uint64_t now_ns)
{
    uint64_t unfinished = journal->snapshot; /* by a child that may still have success */
    muster_status status;

    if (journal->state != MST_JOURNAL_HOLDS || now_ns < journal->retry_ns) {
        return;
    }
    journal->retry_ns = now_ns + NS_PER_S;
    mst_journal_flush(journal);
    status = mst_journal_next_file(journal, journal->sequence + 1, MST_RECORD_BASE);
    if (status != MUSTER_OK) {
        return;
    }
    journal->snapshot = journal->sequence;
    status = mst_journal_snapshot_release(journal);
    if (status == MUSTER_ENOSPACE) {
        journal->snapshot = unfinished;
        mst_journal_drop_file(journal);
        return;
    }
    journal->snapshot = 0;
    if (status != MUSTER_OK) {
        mst_journal_break(journal, journal->disk.reason(journal->disk.ctx));
        return;
    }
    journal->state = MST_JOURNAL_KEEPS;
    journal->records = journal->bytes = 0;
    journal->due_at = journal->config.records_max;
    journal->due_bytes = journal->config.bytes_max;
    mst_journal_remove_before(journal, journal->sequence);
    mst_journal_tell(journal, MST_WARN, "journal-has-room-again", NULL);
}
