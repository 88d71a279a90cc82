/* SPDX-License-Identifier: Apache-2.0 */

/* States: written part by part, all of one size but the last, so that any of them can be read
 * alone. */

#include <string.h>

#include "base/fail.h"
#include "base/panic.h"
#include "base/text.h"
#include "service/replica/log_part.h"

#define PART_FRAME mst_frame_bytes(MST_RECORD_HEAD + (uint64_t)MST_STATE_PART)
#define LAST_FRAME mst_frame_bytes(MST_RECORD_HEAD + (uint64_t)8)

/* ---- writing ---- */

static void state_name(char name[MST_FILE_NAME_ROOM], uint64_t sequence)
{
    mst_file_name(name, MST_FILE_STATE, sequence);
}

static void unfinished_name(char name[MST_FILE_NAME_ROOM], uint64_t sequence)
{
    mst_file_name(name, MST_FILE_STATE_UNFINISHED, sequence);
}

static unsigned char *body_of(const struct mst_replica_saving *saving)
{
    return saving->part + MST_FRAME_HEAD + MST_RECORD_HEAD;
}

muster_status mst_replica_log_save(struct mst_replica_log *log,
                                   const struct mst_replica_snapshot *snapshot,
                                   struct mst_replica_saving **out)
{
    size_t part = MST_FRAME_HEAD + MST_RECORD_HEAD + MST_STATE_PART + MST_FRAME_ALIGN;
    struct mst_replica_saving *saving;

    MST_ASSERT(snapshot->index > 0 && snapshot->index <= MST_COUNTED_MAX && snapshot->term > 0);
    MST_ASSERT(snapshot->term <= log->term);
    MST_ASSERT(snapshot->configuration.size <= MST_REPLICA_CONFIGURATION_MAX);
    if (log->saving || log->why[0] != '\0') {
        return MUSTER_EFAILED;
    }
    saving = mst_mem_zalloc(&log->mem, sizeof *saving);
    if (!saving) {
        return MUSTER_ENOMEM;
    }
    *saving = (struct mst_replica_saving){
        .log = log, .about = *snapshot, .sequence = log->next_state, .file = MST_NO_FILE};
    saving->about.bytes = 0;
    saving->about.configuration = mst_slice_of(NULL, 0);
    saving->part = log->mem.alloc(log->mem.ctx, part);
    if (!saving->part ||
        !mst_replica_log_copy(log, snapshot->configuration, &saving->about.configuration)) {
        mst_mem_release(&log->mem, saving->part);
        mst_mem_release(&log->mem, saving);
        return MUSTER_ENOMEM;
    }
    log->next_state++;
    log->saving = saving;
    *out = saving;
    return MUSTER_OK;
}

/* One frame with one record, whose body lies in the part. */
static void put_frame(struct mst_replica_saving *saving, enum mst_record_type type)
{
    const struct mst_replica_log *log = saving->log;
    const struct mst_journal_record record = {
        .type = type, .now_ns = saving->about.term, .conn = saving->about.index};
    size_t payload = MST_RECORD_HEAD + saving->used;
    uint64_t size = mst_frame_bytes(payload);

    if (saving->status != MUSTER_OK) {
        return;
    }
    mst_record_head_write(saving->part + MST_FRAME_HEAD, &record, saving->used);
    mst_frame_write(saving->part, &log->crc, saving->sequence, saving->offset, payload, 0);
    saving->status = log->disk.write(log->disk.ctx, saving->file, saving->offset,
                                     mst_slice_of(saving->part, (size_t)size));
    saving->offset += size;
    saving->used = 0;
}

/* The file is made with its first bytes: in the child, if one writes it. There the state before the
 * last one goes, too: to remove a large file may take longer than an election. */
static void begin_file(struct mst_replica_saving *saving)
{
    struct mst_replica_log *log = saving->log;
    const struct mst_file_head head =
        mst_file_head_of(MST_FILE_STATE, saving->sequence, log->config.rules, log->config.version);
    struct mst_slice configuration = saving->about.configuration;
    unsigned char *body = body_of(saving);
    char name[MST_FILE_NAME_ROOM];

    if (saving->file != MST_NO_FILE || saving->status != MUSTER_OK) {
        return;
    }
    if (log->old_state != 0) {
        state_name(name, log->old_state);
        (void)log->disk.remove(log->disk.ctx, name);
    }
    unfinished_name(name, saving->sequence);
    saving->status = log->disk.create(log->disk.ctx, name, &saving->file);
    if (saving->status != MUSTER_OK) {
        saving->file = MST_NO_FILE;
        return;
    }
    mst_file_head_write(saving->part, &log->crc, &head);
    saving->status =
        log->disk.write(log->disk.ctx, saving->file, 0, mst_slice_of(saving->part, MST_FILE_HEAD));
    saving->offset = MST_FILE_HEAD;
    memcpy(body, log->config.boot, MST_REPLICA_BOOT);
    mst_put_u64(body + MST_REPLICA_BOOT, log->config.sync);
    mst_put_u64(body + MST_REPLICA_BOOT + 8, saving->about.configuration_index);
    if (configuration.size > 0) {
        memcpy(body + MST_ABOUT_BODY, configuration.data, configuration.size);
    }
    saving->used = MST_ABOUT_BODY + configuration.size;
    put_frame(saving, MST_RECORD_ABOUT);
}

muster_status mst_replica_saving_put(struct mst_replica_saving *saving, struct mst_slice bytes)
{
    const unsigned char *data = bytes.data;
    size_t left = bytes.size;

    MST_ASSERT(!saving->closed);
    begin_file(saving);
    while (left > 0 && saving->status == MUSTER_OK) {
        size_t size = MST_STATE_PART - saving->used;

        size = size < left ? size : left;
        memcpy(body_of(saving) + saving->used, data, size);
        saving->used += size;
        saving->about.bytes += size;
        data += size;
        left -= size;
        if (saving->used == MST_STATE_PART) {
            put_frame(saving, MST_RECORD_PART);
        }
    }
    return saving->status;
}

uint64_t mst_replica_saving_put_bytes(const struct mst_replica_saving *saving)
{
    return saving->about.bytes;
}

const struct mst_replica_snapshot *mst_replica_saving_about(const struct mst_replica_saving *saving)
{
    return &saving->about;
}

struct mst_replica_saving *mst_replica_log_saving(struct mst_replica_log *log)
{
    return log->saving;
}

muster_status mst_replica_saving_close(struct mst_replica_saving *saving)
{
    struct mst_replica_log *log = saving->log;
    const struct mst_disk *disk = &log->disk;
    char name[MST_FILE_NAME_ROOM], unfinished[MST_FILE_NAME_ROOM];

    MST_ASSERT(!saving->closed);
    begin_file(saving);
    if (saving->used > 0) {
        put_frame(saving, MST_RECORD_PART);
    }
    mst_put_u64(body_of(saving), saving->about.bytes);
    saving->used = 8;
    put_frame(saving, MST_RECORD_WHOLE);
    if (saving->status == MUSTER_OK && log->config.sync) {
        saving->status = disk->sync(disk->ctx, saving->file);
    }
    if (saving->status != MUSTER_OK) {
        return saving->status;
    }
    disk->close(disk->ctx, saving->file);
    saving->file = MST_NO_FILE;
    saving->closed = true;
    state_name(name, saving->sequence);
    unfinished_name(unfinished, saving->sequence);
    saving->status = disk->rename(disk->ctx, unfinished, name);
    if (saving->status == MUSTER_OK && log->config.sync) {
        saving->status = disk->sync_names(disk->ctx);
    }
    return saving->status;
}

static void end_saving(struct mst_replica_log *log, struct mst_replica_saving *saving)
{
    if (saving->file != MST_NO_FILE) {
        log->disk.close(log->disk.ctx, saving->file);
    }
    mst_replica_log_uncopy(log, &saving->about.configuration);
    mst_mem_release(&log->mem, saving->part);
    mst_mem_release(&log->mem, saving);
    log->saving = NULL;
}

void mst_replica_log_drop(struct mst_replica_log *log, struct mst_replica_saving *saving)
{
    char name[MST_FILE_NAME_ROOM];

    MST_ASSERT(saving == log->saving);
    unfinished_name(name, saving->sequence);
    (void)log->disk.remove(log->disk.ctx, name);
    state_name(name, saving->sequence);
    (void)log->disk.remove(log->disk.ctx, name);
    end_saving(log, saving);
}

/* ---- reading ---- */

/* One frame of `size` bytes at `*at`, into the log's part. EPROTO: none lies there, or one of
 * another record. */
static muster_status read_frame(struct mst_replica_log *log, uint64_t sequence, uint64_t at,
                                uint64_t size, enum mst_record_type type,
                                struct mst_journal_record *out)
{
    struct mst_slice payload;
    char name[MST_FILE_NAME_ROOM];
    muster_status status;

    state_name(name, sequence);
    status = log->disk.read(log->disk.ctx, name, at, log->part, (size_t)size);
    if (status != MUSTER_OK) {
        return MUSTER_EFAILED;
    }
    if (!mst_frame_read(&payload, &log->crc, mst_slice_of(log->part, (size_t)size), sequence, at) ||
        mst_frame_bytes(payload.size) != size || !mst_record_read(out, &payload) ||
        payload.size > 0 || out->type != type) {
        return MUSTER_EPROTO;
    }
    return MUSTER_OK;
}

/* The size of the first frame, whose configuration may be of any size. */
static muster_status first_frame(struct mst_replica_log *log, uint64_t sequence, uint64_t size,
                                 uint64_t *out)
{
    struct mst_file_head head;
    char name[MST_FILE_NAME_ROOM];
    uint64_t payload;

    state_name(name, sequence);
    if (size < MST_FILE_HEAD + MST_FRAME_HEAD) {
        return MUSTER_EPROTO;
    }
    if (log->disk.read(log->disk.ctx, name, 0, log->part, MST_FILE_HEAD + MST_FRAME_HEAD) !=
        MUSTER_OK) {
        return MUSTER_EFAILED;
    }
    payload = mst_get_u64(log->part + MST_FILE_HEAD) & UINT32_MAX;
    *out = mst_frame_bytes(payload);
    if (!mst_file_head_read(&head, &log->crc, mst_slice_of(log->part, MST_FILE_HEAD)) ||
        head.kind != MST_FILE_STATE || head.sequence != sequence ||
        payload > MST_RECORD_HEAD + MST_ABOUT_BODY + MST_REPLICA_CONFIGURATION_MAX ||
        *out > size - MST_FILE_HEAD) {
        return MUSTER_EPROTO;
    }
    return MUSTER_OK;
}

static uint64_t rest_frame(uint64_t bytes)
{
    uint64_t rest = bytes % MST_STATE_PART;

    return rest > 0 ? mst_frame_bytes(MST_RECORD_HEAD + rest) : 0;
}

/* The last frame first, because the configuration of the first is left in the part. */
muster_status mst_state_look(struct mst_replica_log *log, uint64_t sequence,
                             struct mst_state_head *out, uint64_t *at)
{
    struct mst_journal_record record;
    uint64_t size, first, bytes;
    char name[MST_FILE_NAME_ROOM];
    muster_status status;

    *at = 0;
    state_name(name, sequence);
    if (log->disk.size(log->disk.ctx, name, &size) != MUSTER_OK) {
        return MUSTER_EFAILED;
    }
    status = first_frame(log, sequence, size, &first);
    if (status != MUSTER_OK) {
        return status;
    }
    *at = MST_FILE_HEAD + first;
    if (size - *at < LAST_FRAME) {
        return MUSTER_EPROTO;
    }
    *at = size - LAST_FRAME;
    status = read_frame(log, sequence, *at, LAST_FRAME, MST_RECORD_WHOLE, &record);
    if (status != MUSTER_OK) {
        return status;
    }
    bytes = record.body.size == 8 ? mst_get_u64(record.body.data) : UINT64_MAX;
    if (bytes > size || MST_FILE_HEAD + first + bytes / MST_STATE_PART * PART_FRAME +
                                rest_frame(bytes) + LAST_FRAME !=
                            size) {
        return MUSTER_EPROTO;
    }
    *at = MST_FILE_HEAD;
    status = read_frame(log, sequence, MST_FILE_HEAD, first, MST_RECORD_ABOUT, &record);
    if (status != MUSTER_OK || record.body.size < MST_ABOUT_BODY || record.conn == 0 ||
        record.now_ns == 0) {
        return status != MUSTER_OK ? status : MUSTER_EPROTO;
    }
    memcpy(out->boot, record.body.data, MST_REPLICA_BOOT);
    out->sync = mst_get_u64((const unsigned char *)record.body.data + MST_REPLICA_BOOT) != 0;
    out->first = MST_FILE_HEAD + first;
    out->about = (struct mst_replica_snapshot){
        .index = record.conn,
        .term = record.now_ns,
        .configuration_index =
            mst_get_u64((const unsigned char *)record.body.data + MST_REPLICA_BOOT + 8),
        .configuration = mst_slice_from(record.body, MST_ABOUT_BODY),
        .bytes = bytes};
    return MUSTER_OK;
}

/* The part with the byte at `offset` of the state: its bytes from there on. */
static muster_status read_part(struct mst_replica_log *log, uint64_t sequence, uint64_t first,
                               uint64_t bytes, uint64_t offset, struct mst_slice *out, uint64_t *at)
{
    uint64_t number = offset / MST_STATE_PART;
    uint64_t size = bytes / MST_STATE_PART > number ? PART_FRAME : rest_frame(bytes);
    struct mst_journal_record record;
    muster_status status;

    *at = first + number * PART_FRAME;
    status = read_frame(log, sequence, *at, size, MST_RECORD_PART, &record);
    if (status == MUSTER_OK) {
        *out = mst_slice_from(record.body, (size_t)(offset % MST_STATE_PART));
        status = out->size == 0 ? MUSTER_EPROTO : MUSTER_OK;
    }
    return status;
}

muster_status mst_state_check(struct mst_replica_log *log, uint64_t sequence,
                              const struct mst_state_head *head, uint64_t *at)
{
    uint64_t bytes = head->about.bytes;
    muster_status status = MUSTER_OK;
    struct mst_slice part = {.size = 0};

    for (uint64_t offset = 0; offset < bytes && status == MUSTER_OK; offset += part.size) {
        status = read_part(log, sequence, head->first, bytes, offset, &part, at);
    }
    return status;
}

static muster_status state_failed(const struct mst_replica_log *log, uint64_t sequence,
                                  muster_status status, uint64_t at, struct muster_error *err)
{
    char name[MST_FILE_NAME_ROOM];

    state_name(name, sequence);
    if (status == MUSTER_EPROTO) {
        return mst_fail(err, MUSTER_EFAILED, 0,
                        "cannot read the state of this replica from %s: %s is damaged at offset "
                        "%" PRIu64,
                        log->disk.where, name, at);
    }
    return mst_fail(err, MUSTER_EFAILED, 0, "cannot read the state of this replica from %s: %s",
                    log->disk.where, log->disk.reason(log->disk.ctx));
}

muster_status mst_replica_log_read(struct mst_replica_log *log, uint64_t index, uint64_t offset,
                                   void *into, size_t size, struct muster_error *err)
{
    const struct mst_replica_snapshot *snapshot = &log->snapshot;
    unsigned char *to = into;
    struct mst_slice part;
    uint64_t at;

    if (index == 0 || index != snapshot->index) {
        return MUSTER_ENOTFOUND;
    }
    MST_ASSERT(offset <= snapshot->bytes && size <= snapshot->bytes - offset);
    while (size > 0) {
        muster_status status =
            read_part(log, log->state, log->state_first, snapshot->bytes, offset, &part, &at);

        if (status != MUSTER_OK) {
            return state_failed(log, log->state, status, at, err);
        }
        part.size = part.size < size ? part.size : size;
        memcpy(to, part.data, part.size);
        to += part.size;
        offset += part.size;
        size -= part.size;
    }
    return MUSTER_OK;
}

/* ---- the snapshot of this log ---- */

muster_status mst_state_adopt(struct mst_replica_log *log, uint64_t sequence,
                              const struct mst_state_head *head)
{
    struct mst_slice configuration;

    if (!mst_replica_log_copy(log, head->about.configuration, &configuration)) {
        return MUSTER_ENOMEM;
    }
    mst_replica_log_uncopy(log, &log->snapshot.configuration);
    log->snapshot = head->about;
    log->snapshot.configuration = configuration;
    log->state = sequence;
    log->state_first = head->first;
    log->state_sync = head->sync;
    return MUSTER_OK;
}

/* The log does not have the entries that led to it: they are dropped, with all behind them, and the
 * next ones are in another file. */
static bool begin_behind(struct mst_replica_log *log, uint64_t index, uint64_t term)
{
    MST_ASSERT(index >= log->committed);
    mst_replica_log_flush(log);
    mst_replica_log_begin_behind(log, index, term);
    return log->why[0] == '\0' &&
           mst_replica_log_next_file(log, log->sequence + 1, true, false) == MUSTER_OK;
}

muster_status mst_replica_log_take(struct mst_replica_log *log, struct mst_replica_saving *saving,
                                   struct muster_error *err)
{
    const struct mst_replica_snapshot *about = &saving->about;
    uint64_t at = 0, before = log->state;
    struct mst_state_head head;
    char name[MST_FILE_NAME_ROOM];
    muster_status status;
    bool before_sync = log->state_sync;
    bool leads_to_it = mst_replica_log_term_at(log, about->index) == about->term;

    MST_ASSERT(saving == log->saving && about->index >= log->snapshot.index);
    status = mst_state_look(log, saving->sequence, &head, &at);
    if (status != MUSTER_OK) {
        return state_failed(log, saving->sequence, status, at, err);
    }
    MST_ASSERT(head.about.index == about->index && head.about.term == about->term);
    status = mst_state_adopt(log, saving->sequence, &head);
    if (status != MUSTER_OK) {
        return mst_fail(err, status, 0, "no memory for the snapshot of this replica");
    }
    if (!leads_to_it && !begin_behind(log, about->index, about->term)) {
        mst_replica_log_break(log, "there is no room for the file behind a new snapshot");
        return mst_replica_log_verdict(log, err);
    }
    if (log->committed < about->index) {
        log->committed = about->index;
    }
    log->old_state = before;
    if (before_sync && !log->config.sync) { /* see mst_replica_log_prune */
        state_name(name, before);
        (void)log->disk.remove(log->disk.ctx, name);
        (void)log->disk.sync_names(log->disk.ctx);
    }
    end_saving(log, saving);
    return MUSTER_OK;
}
