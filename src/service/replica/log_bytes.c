/* SPDX-License-Identifier: Apache-2.0 */

/* Entries are kept until a snapshot has them, and longer, for replicas that lag. All of them in
 * memory would be many times the state. So the bytes of older ones are in their files only, and
 * read again for a replica that needs them. */

#include <inttypes.h>

#include "base/fail.h"
#include "base/time.h"
#include "service/replica/log_part.h"

enum { FRAME_MOST = 16 << 20 }; /* of bytes; a longer one is damaged */

/* ---- letting go ---- */

void mst_replica_log_release(struct mst_replica_log *log, uint64_t index, uint64_t most)
{
    uint64_t end = mst_sooner(index, log->written);

    log->released = mst_later(log->released, log->base);
    while (log->held > most && log->released < end) {
        struct mst_log_slot *slot = mst_replica_log_slot(log, ++log->released);
        struct mst_slice *bytes = &slot->entry.bytes;
        size_t size = bytes->size;

        if (slot->entry.type != MST_REPLICA_CHANGE && bytes->data) {
            mst_replica_log_uncopy(log, bytes);
            bytes->size = size;
            log->held -= size;
        }
    }
    mst_replica_log_forget_frame(log);
}

/* ---- reading again ---- */

void mst_replica_log_forget_frame(struct mst_replica_log *log)
{
    mst_mem_release(&log->mem, log->found.bytes);
    log->found.bytes = NULL;
    log->found.sequence = 0;
}

/* EPROTO: it is damaged. */
static muster_status read_frame(struct mst_replica_log *log, const struct mst_log_place *place)
{
    const struct mst_disk *disk = &log->disk;
    unsigned char head[MST_FRAME_HEAD];
    char name[MST_FILE_NAME_ROOM];
    muster_status status;
    uint64_t size;

    mst_replica_log_forget_frame(log);
    mst_file_name(name, MST_FILE_ENTRIES, place->sequence);
    status = disk->read(disk->ctx, name, place->frame, head, sizeof head);
    if (status != MUSTER_OK) {
        return status;
    }
    size = mst_frame_bytes((uint32_t)mst_get_u64(head)); /* of its payload */
    if (size > FRAME_MOST) {
        return MUSTER_EPROTO;
    }
    log->found.bytes = log->mem.alloc(log->mem.ctx, (size_t)size);
    if (!log->found.bytes) {
        return MUSTER_ENOMEM;
    }
    status = disk->read(disk->ctx, name, place->frame, log->found.bytes, (size_t)size);
    if (status == MUSTER_OK && !mst_frame_read(&log->found.payload, &log->crc,
                                               mst_slice_of(log->found.bytes, (size_t)size),
                                               place->sequence, place->frame)) {
        status = MUSTER_EPROTO;
    }
    log->found.sequence = place->sequence;
    log->found.offset = place->frame;
    return status;
}

static bool find_record(const struct mst_replica_log *log, const struct mst_log_slot *slot,
                        uint64_t index, struct mst_slice *out)
{
    struct mst_slice rest = mst_slice_from(log->found.payload, (size_t)slot->place.record);
    struct mst_journal_record record;

    if (!mst_record_read(&record, &rest) || record.type != MST_RECORD_ENTRY ||
        record.conn != index || record.now_ns != slot->entry.term ||
        record.body.size != slot->entry.bytes.size) {
        return false;
    }
    *out = record.body;
    return true;
}

muster_status mst_replica_log_bytes(struct mst_replica_log *log, uint64_t index,
                                    struct mst_slice *out, struct muster_error *err)
{
    const struct mst_log_slot *slot = mst_replica_log_slot(log, index);
    char name[MST_FILE_NAME_ROOM];
    muster_status status = MUSTER_OK;

    if (slot->entry.bytes.data || slot->entry.bytes.size == 0) {
        *out = slot->entry.bytes;
        return MUSTER_OK;
    }
    if (log->found.sequence != slot->place.sequence || log->found.offset != slot->place.frame) {
        status = read_frame(log, &slot->place);
    }
    if (status == MUSTER_OK && find_record(log, slot, index, out)) {
        return MUSTER_OK;
    }
    mst_replica_log_forget_frame(log);
    mst_file_name(name, MST_FILE_ENTRIES, slot->place.sequence);
    if (status == MUSTER_ENOMEM) {
        return mst_fail(err, status, 0, "out of memory for an entry of the log");
    }
    if (status != MUSTER_OK && status != MUSTER_EPROTO) {
        return mst_fail(err, MUSTER_EFAILED, 0,
                        "cannot read entry %" PRIu64 " of this replica's log from %s: %s", index,
                        log->disk.where, log->disk.reason(log->disk.ctx));
    }
    return mst_fail(err, MUSTER_EFAILED, 0,
                    "cannot read entry %" PRIu64 " of this replica's log from %s: %s is damaged "
                    "at offset %" PRIu64,
                    index, log->disk.where, name, slot->place.frame);
}
