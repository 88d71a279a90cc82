/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/fail.h"
#include "base/panic.h"
#include "base/text.h"
#include "service/replica/log_part.h"

#define CHUNK(log) ((log)->config.chunk_bytes)

void mst_replica_log_tell(struct mst_replica_log *log, enum mst_level level, const char *event,
                          const char *reason)
{
    char line[512];

    if (log->config.tell) {
        mst_text_print(line, sizeof line, "%s dir=%s reason=\"%s\"", event, log->disk.where,
                       reason);
        log->config.tell(log->config.tell_ctx, level, line);
    }
}

void mst_replica_log_break(struct mst_replica_log *log, const char *reason)
{
    if (log->why[0] == '\0') { /* the first reason counts */
        mst_text_print(log->why, sizeof log->why, "%s",
                       reason ? reason : "the file that is written is gone");
    }
    log->frame.used = 0;
}

static muster_status break_by_disk(struct mst_replica_log *log)
{
    mst_replica_log_break(log, log->disk.reason(log->disk.ctx));
    return MUSTER_EFAILED;
}

muster_status mst_replica_log_verdict(const struct mst_replica_log *log, struct muster_error *err)
{
    if (log->why[0] == '\0') {
        return MUSTER_OK;
    }
    return mst_fail(err, MUSTER_EFAILED, 0,
                    "the log of this replica cannot be written: %s; it stops, because it could "
                    "not keep its promises",
                    log->why);
}

/* ---- what is gathered ---- */

muster_status mst_replica_log_file_room(struct mst_replica_log *log, uint64_t more, uint64_t spare)
{
    uint64_t need = log->offset + mst_frame_bytes(log->frame.used + more) + spare;
    uint64_t size = log->reserved + CHUNK(log);
    muster_status status;

    if (log->why[0] != '\0') {
        return MUSTER_EFAILED;
    }
    if (need <= log->reserved) {
        return MUSTER_OK;
    }
    size = size < need ? need : size;
    status = log->disk.reserve(log->disk.ctx, log->file, size);
    if (status == MUSTER_ENOSPACE && size > need) {
        size = need;
        status = log->disk.reserve(log->disk.ctx, log->file, size);
    }
    if (status == MUSTER_OK) {
        log->reserved = size;
        return MUSTER_OK;
    }
    return status == MUSTER_ENOSPACE ? MUSTER_ENOSPACE : break_by_disk(log);
}

void mst_replica_log_note(struct mst_replica_log *log, enum mst_record_type type, uint64_t term,
                          uint64_t number)
{
    const struct mst_journal_record record = {.type = type, .now_ns = term, .conn = number};

    if (!mst_gather_room(&log->frame, &log->mem, MST_RECORD_HEAD)) {
        mst_replica_log_flush(log); /* then it fits: there is room from the beginning */
    }
    if (log->why[0] == '\0') {
        mst_gather_keep(&log->frame, &record, 0);
    }
}

void mst_replica_log_flush(struct mst_replica_log *log)
{
    uint64_t size = mst_frame_bytes(log->frame.used);

    if (log->frame.used == 0 || log->why[0] != '\0') {
        log->frame.used = 0;
        return;
    }
    mst_frame_write(log->frame.bytes, &log->crc, log->sequence, log->offset, log->frame.used,
                    log->config.sync ? log->durable : log->offset);
    if (log->disk.write(log->disk.ctx, log->file, log->offset,
                        mst_slice_of(log->frame.bytes, (size_t)size)) != MUSTER_OK) {
        (void)break_by_disk(log); /* room was reserved: ENOSPACE is as bad as any */
        return;
    }
    log->offset += size;
    log->frame.used = 0;
}

/* A failed sync is not tried again: the kernel reports an error once, and the unwritten pages may
 * be lost. */
bool mst_replica_log_sync(struct mst_replica_log *log)
{
    if (log->why[0] != '\0') {
        return false;
    }
    if (log->config.sync && log->durable != log->offset) {
        if (log->disk.sync(log->disk.ctx, log->file) != MUSTER_OK) {
            (void)break_by_disk(log);
            return false;
        }
        log->durable = log->offset;
    }
    return true;
}

/* ---- files ---- */

static void close_file(struct mst_replica_log *log)
{
    char name[MST_FILE_NAME_ROOM];

    if (log->file != MST_NO_FILE) {
        log->disk.close(log->disk.ctx, log->file);
        log->file = MST_NO_FILE;
        mst_file_name(name, MST_FILE_ENTRIES, log->sequence);
        /* No harm if the reserved room cannot be given back. */
        (void)log->disk.cut(log->disk.ctx, name, log->offset, false);
    }
}

/* The head and the first record, which says whose it is and since when, in one write. */
static size_t head_of(const struct mst_replica_log *log, uint64_t sequence, bool anew,
                      unsigned char *at)
{
    const struct mst_file_head head =
        mst_file_head_of(MST_FILE_ENTRIES, sequence, log->config.rules, log->config.version);
    const struct mst_journal_record record = {
        .type = MST_RECORD_SEGMENT, .now_ns = log->term, .conn = log->id};
    unsigned char *body = at + MST_FILE_HEAD + MST_FRAME_HEAD + MST_RECORD_HEAD;

    mst_file_head_write(at, &log->crc, &head);
    mst_record_head_write(at + MST_FILE_HEAD + MST_FRAME_HEAD, &record, MST_SEGMENT_BODY);
    memcpy(body, log->config.boot, MST_REPLICA_BOOT);
    mst_put_u64(body + MST_REPLICA_BOOT, log->config.sync);
    mst_put_u64(body + MST_REPLICA_BOOT + 8, log->vote);
    mst_put_u64(body + MST_REPLICA_BOOT + 16, log->last);
    mst_put_u64(body + MST_REPLICA_BOOT + 24, anew ? log->base_term : 0);
    mst_put_u64(body + MST_REPLICA_BOOT + 32, log->offset);
    mst_frame_write(at + MST_FILE_HEAD, &log->crc, sequence, MST_FILE_HEAD,
                    MST_RECORD_HEAD + MST_SEGMENT_BODY, 0);
    return MST_FILE_HEAD + (size_t)mst_frame_bytes(MST_RECORD_HEAD + MST_SEGMENT_BODY);
}

static muster_status reserve_first(const struct mst_disk *disk, int file, uint64_t chunk,
                                   uint64_t *reserved)
{
    muster_status status = disk->reserve(disk->ctx, file, chunk + MST_REPLICA_SPARE);

    *reserved = chunk + MST_REPLICA_SPARE;
    if (status == MUSTER_ENOSPACE) {
        *reserved = MST_REPLICA_SPARE;
        status = disk->reserve(disk->ctx, file, MST_REPLICA_SPARE);
    }
    return status;
}

static muster_status write_new(const struct mst_disk *disk, int file, struct mst_slice bytes,
                               bool durable)
{
    muster_status status = disk->write(disk->ctx, file, 0, bytes);

    if (status == MUSTER_OK && durable) {
        status = disk->sync(disk->ctx, file);
        status = status == MUSTER_OK ? disk->sync_names(disk->ctx) : status;
    }
    return status;
}

static bool remember(struct mst_replica_log *log)
{
    if (log->older_count == log->older_room) {
        size_t room = log->older_room == 0 ? 8 : log->older_room * 2;
        struct mst_segment *more = mst_mem_array(&log->mem, room, sizeof *more);

        if (!more) {
            return false;
        }
        if (log->older_count > 0) {
            memcpy(more, log->older, log->older_count * sizeof *more);
        }
        mst_mem_release(&log->mem, log->older);
        log->older = more;
        log->older_room = room;
    }
    return true;
}

muster_status mst_replica_log_next_file(struct mst_replica_log *log, uint64_t sequence, bool anew,
                                        bool durable)
{
    unsigned char bytes[MST_FILE_HEAD + MST_FRAME_HEAD + MST_RECORD_HEAD + MST_SEGMENT_BODY + 8];
    const struct mst_disk *disk = &log->disk;
    char name[MST_FILE_NAME_ROOM];
    muster_status status;
    uint64_t reserved;
    size_t size;
    int file;

    MST_ASSERT(log->frame.used == 0);
    if (!remember(log)) {
        return MUSTER_ENOMEM;
    }
    /* The new file will record that the old one is durable up to here. */
    if (!mst_replica_log_sync(log)) {
        return MUSTER_EFAILED;
    }
    mst_file_name(name, MST_FILE_ENTRIES, sequence);
    size = head_of(log, sequence, anew, bytes);
    status = disk->create(disk->ctx, name, &file);
    if (status == MUSTER_OK) {
        status = reserve_first(disk, file, CHUNK(log), &reserved);
        if (status == MUSTER_OK) {
            status = write_new(disk, file, mst_slice_of(bytes, size), durable || log->config.sync);
            status = status == MUSTER_ENOSPACE ? MUSTER_EFAILED : status;
        }
        if (status != MUSTER_OK) {
            disk->close(disk->ctx, file);
            (void)disk->remove(disk->ctx, name);
        }
    }
    if (status != MUSTER_OK) {
        return status == MUSTER_ENOSPACE ? MUSTER_ENOSPACE : break_by_disk(log);
    }
    if (log->file != MST_NO_FILE) {
        log->older[log->older_count++] = (struct mst_segment){.sequence = log->sequence,
                                                              .bytes = log->offset,
                                                              .highest = log->highest,
                                                              .sync = log->config.sync};
    }
    close_file(log);
    log->file = file;
    log->sequence = sequence;
    log->offset = size;
    log->durable = log->config.sync ? size : 0;
    log->reserved = reserved;
    log->highest = 0;
    return MUSTER_OK;
}

static bool is_gone(muster_status status)
{
    return status == MUSTER_OK || status == MUSTER_ENOTFOUND;
}

/* A file that would survive the host must be gone for good before one that would not: alone it
 * would look like all there was. */
void mst_replica_log_prune(struct mst_replica_log *log, uint64_t index)
{
    const struct mst_disk *disk = &log->disk;
    size_t removed = 0;
    char name[MST_FILE_NAME_ROOM];

    while (removed < log->older_count && log->older[removed].highest <= index) {
        mst_file_name(name, MST_FILE_ENTRIES, log->older[removed].sequence);
        if (!is_gone(disk->remove(disk->ctx, name)) ||
            (log->older[removed].sync && !log->config.sync &&
             disk->sync_names(disk->ctx) != MUSTER_OK)) {
            break; /* it is tried again with the next snapshot */
        }
        removed++;
    }
    log->older_count -= removed;
    if (removed > 0 && log->older_count > 0) {
        memmove(log->older, log->older + removed, log->older_count * sizeof *log->older);
    }
}
