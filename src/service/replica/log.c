/* SPDX-License-Identifier: Apache-2.0 */
#include "service/replica/log.h"

#include <string.h>

#include "base/fail.h"
#include "base/panic.h"
#include "base/text.h"
#include "service/replica/log_part.h"

enum {
    SEGMENT_BYTES = 16 << 20,
    CHUNK_BYTES = 4 << 20,
    FRAME_MAX = 1 << 22, /* more than this is written before the turn ends */
    BUFFER = 65536,
    RING_FIRST = 256,
    BETWEEN = 64 /* what two frames are longer than one */
};

/* ---- life ---- */

static struct mst_replica_log *new_log(const struct mst_disk *disk,
                                       const struct mst_replica_log_config *config,
                                       const struct mst_mem *mem)
{
    struct mst_replica_log *log = mst_mem_zalloc(mem, sizeof *log);

    if (!log) {
        return NULL;
    }
    log->mem = *mem;
    log->disk = *disk;
    log->config = *config;
    if (config->segment_bytes == 0) {
        log->config.segment_bytes = SEGMENT_BYTES;
    }
    if (config->chunk_bytes == 0) {
        log->config.chunk_bytes = CHUNK_BYTES;
    }
    log->file = MST_NO_FILE;
    mst_crc_init(&log->crc);
    log->part =
        mem->alloc(mem->ctx, MST_FRAME_HEAD + MST_RECORD_HEAD + MST_STATE_PART + MST_FRAME_ALIGN);
    if (!mst_gather_init(&log->frame, mem, BUFFER) || !log->part) {
        mst_replica_log_free(log);
        return NULL;
    }
    return log;
}

muster_status mst_replica_log_open(struct mst_replica_log **out, const struct mst_disk *disk,
                                   const struct mst_replica_log_config *config,
                                   const struct mst_mem *mem, struct muster_error *err)
{
    struct mst_replica_log *log = new_log(disk, config, mem);
    muster_status status;

    MST_ASSERT(config->id != 0 && config->id <= MST_COUNTED_MAX);
    if (!log) {
        return mst_fail(err, MUSTER_ENOMEM, 0, "no memory to recover the log of this replica");
    }
    status = mst_replica_log_recover(log, err);
    if (status != MUSTER_OK) {
        mst_replica_log_free(log);
        return status;
    }
    *out = log;
    return MUSTER_OK;
}

struct mst_log_slot *mst_replica_log_slot(const struct mst_replica_log *log, uint64_t index)
{
    return &log->ring[index & (log->ring_room - 1)];
}

static struct mst_log_slot *slot(const struct mst_replica_log *log, uint64_t index)
{
    return mst_replica_log_slot(log, index);
}

static void release_entry(struct mst_replica_log *log, uint64_t index)
{
    struct mst_log_slot *at = slot(log, index);

    log->held -= at->entry.bytes.data ? at->entry.bytes.size : 0;
    mst_replica_log_uncopy(log, &at->entry.bytes);
    *at = (struct mst_log_slot){.entry = {.term = 0}};
}

/* Drops those from `index` on. */
static void cut(struct mst_replica_log *log, uint64_t index)
{
    while (log->last >= index && log->last > log->base) {
        release_entry(log, log->last--);
    }
    if (log->written > log->last) {
        log->written = log->last;
    }
    if (log->released > log->last) {
        log->released = log->last;
    }
}

void mst_replica_log_free(struct mst_replica_log *log)
{
    struct mst_mem mem;

    if (!log) {
        return;
    }
    mem = log->mem;
    if (log->saving) {
        mst_replica_log_drop(log, log->saving);
    }
    if (log->file != MST_NO_FILE) {
        log->disk.close(log->disk.ctx, log->file);
    }
    cut(log, 0);
    mst_replica_log_forget_frame(log);
    mst_mem_release(&mem, log->ring);
    mst_mem_release(&mem, log->older);
    mst_mem_release(&mem, log->part);
    mst_replica_log_uncopy(log, &log->snapshot.configuration);
    mst_gather_fini(&log->frame, &mem);
    mst_mem_release(&mem, log);
}

/* ---- what is there ---- */

const struct mst_replica_log_recovered *mst_replica_log_recovery(const struct mst_replica_log *log)
{
    return &log->recovered;
}

uint64_t mst_replica_log_id(const struct mst_replica_log *log)
{
    return log->id;
}

uint64_t mst_replica_log_term(const struct mst_replica_log *log)
{
    return log->term;
}

uint64_t mst_replica_log_vote_of(const struct mst_replica_log *log)
{
    return log->vote;
}

uint64_t mst_replica_log_first(const struct mst_replica_log *log)
{
    return log->base + 1;
}

uint64_t mst_replica_log_last(const struct mst_replica_log *log)
{
    return log->last;
}

uint64_t mst_replica_log_written(const struct mst_replica_log *log)
{
    return log->written;
}

uint64_t mst_replica_log_committed(const struct mst_replica_log *log)
{
    return log->committed;
}

const struct mst_replica_entry *mst_replica_log_at(const struct mst_replica_log *log,
                                                   uint64_t index)
{
    return index > log->base && index <= log->last ? &slot(log, index)->entry : NULL;
}

uint64_t mst_replica_log_term_at(const struct mst_replica_log *log, uint64_t index)
{
    const struct mst_replica_entry *entry = mst_replica_log_at(log, index);

    if (entry) {
        return entry->term;
    }
    if (index == log->base && log->base_term != 0) {
        return log->base_term;
    }
    return index != 0 && index == log->snapshot.index ? log->snapshot.term : 0;
}

const struct mst_replica_snapshot *mst_replica_log_snapshot(const struct mst_replica_log *log)
{
    return &log->snapshot;
}

const char *mst_replica_log_trouble(const struct mst_replica_log *log)
{
    return log->why[0] != '\0' ? log->why : NULL;
}

uint64_t mst_replica_log_file_bytes(const struct mst_replica_log *log)
{
    uint64_t bytes = log->offset;

    for (size_t i = 0; i < log->older_count; i++) {
        bytes += log->older[i].bytes;
    }
    return bytes;
}

/* ---- entries in memory ---- */

bool mst_replica_log_ring_room(struct mst_replica_log *log, uint64_t more)
{
    uint64_t need = log->last - log->base + more;
    uint64_t room = log->ring_room == 0 ? RING_FIRST : log->ring_room;
    struct mst_log_slot *ring;

    if (need <= log->ring_room) {
        return true;
    }
    while (room < need) {
        room *= 2;
    }
    ring = mst_mem_array(&log->mem, room, sizeof *ring);
    if (!ring) {
        return false;
    }
    for (uint64_t i = log->base + 1; i <= log->last; i++) {
        ring[i & (room - 1)] = *slot(log, i);
    }
    mst_mem_release(&log->mem, log->ring);
    log->ring = ring;
    log->ring_room = room;
    return true;
}

bool mst_replica_log_copy(struct mst_replica_log *log, struct mst_slice bytes,
                          struct mst_slice *out)
{
    unsigned char *copy = NULL;

    if (bytes.size > 0) {
        copy = log->mem.alloc(log->mem.ctx, bytes.size);
        if (!copy) {
            return false;
        }
        memcpy(copy, bytes.data, bytes.size);
    }
    *out = mst_slice_of(copy, bytes.size);
    return true;
}

void mst_replica_log_uncopy(struct mst_replica_log *log, struct mst_slice *copy)
{
    union {
        const void *seen;
        void *owned;
    } bytes = {.seen = copy->data};

    mst_mem_release(&log->mem, bytes.owned);
    *copy = mst_slice_of(NULL, 0);
}

void mst_replica_log_put(struct mst_replica_log *log, uint64_t index,
                         const struct mst_replica_entry *owned)
{
    cut(log, index);
    MST_ASSERT(index == log->last + 1);
    log->last = index;
    log->held += owned->bytes.size;
    *slot(log, index) = (struct mst_log_slot){.entry = *owned};
    if (log->highest < index) {
        log->highest = index;
    }
}

void mst_replica_log_begin_behind(struct mst_replica_log *log, uint64_t index, uint64_t term)
{
    cut(log, 0);
    log->base = log->last = log->written = log->released = index;
    log->base_term = term;
    log->highest = 0;
    for (size_t i = 0; i < log->older_count; i++) {
        log->older[i].highest = 0;
    }
}

/* ---- what is added ---- */

static size_t records_of(const struct mst_replica_entry *entries, size_t count)
{
    size_t bytes = count * MST_RECORD_HEAD;

    for (size_t i = 0; i < count; i++) {
        bytes += entries[i].bytes.size;
    }
    return bytes;
}

/* A leader's log never goes back in terms, and no entry is of a term that is still to come. */
static void check_append(const struct mst_replica_log *log, uint64_t index,
                         const struct mst_replica_entry *entries, size_t count)
{
    uint64_t term = mst_replica_log_term_at(log, index - 1);

    MST_ASSERT(index > log->committed && index > log->base && index <= log->last + 1);
    for (size_t i = 0; i < count; i++) {
        MST_ASSERT(entries[i].term >= term && entries[i].term <= log->term);
        MST_ASSERT(entries[i].term > 0 && entries[i].bytes.size <= MST_REPLICA_ENTRY_MAX);
        MST_ASSERT(entries[i].type >= MST_REPLICA_COMMAND && entries[i].type <= MST_REPLICA_CHANGE);
        term = entries[i].term;
    }
}

/* The copies lie in the ring behind the last entry, where they do no harm. */
static bool copy_behind(struct mst_replica_log *log, const struct mst_replica_entry *entries,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mst_replica_entry *to = &slot(log, log->last + 1 + i)->entry;

        *to = (struct mst_replica_entry){.term = entries[i].term, .type = entries[i].type};
        if (!mst_replica_log_copy(log, entries[i].bytes, &to->bytes)) {
            while (i > 0) {
                mst_replica_log_uncopy(log, &slot(log, log->last + i--)->entry.bytes);
            }
            return false;
        }
    }
    return true;
}

static void gather(struct mst_replica_log *log, uint64_t index)
{
    const struct mst_replica_entry *entry = &slot(log, index)->entry;
    const struct mst_journal_record record = {
        .type = MST_RECORD_ENTRY, .flags = entry->type, .now_ns = entry->term, .conn = index};
    unsigned char *at =
        mst_gather_room(&log->frame, &log->mem, MST_RECORD_HEAD + entry->bytes.size);

    MST_ASSERT(at);
    if (entry->bytes.size > 0) {
        memcpy(at + MST_RECORD_HEAD, entry->bytes.data, entry->bytes.size);
    }
    slot(log, index)->place = (struct mst_log_place){
        .sequence = log->sequence, .frame = log->offset, .record = log->frame.used};
    mst_gather_keep(&log->frame, &record, entry->bytes.size);
}

muster_status mst_replica_log_append(struct mst_replica_log *log, uint64_t index,
                                     const struct mst_replica_entry *entries, size_t count)
{
    size_t bytes = records_of(entries, count);
    uint64_t behind = log->last + 1; /* where the copies are */
    muster_status status;

    if (count == 0) {
        return mst_replica_log_verdict(log, NULL);
    }
    check_append(log, index, entries, count);
    status = mst_replica_log_file_room(log, bytes, MST_REPLICA_SPARE);
    if (status != MUSTER_OK) {
        return status;
    }
    if (!mst_gather_room(&log->frame, &log->mem, bytes) || !mst_replica_log_ring_room(log, count) ||
        !copy_behind(log, entries, count)) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct mst_replica_entry owned = slot(log, behind + i)->entry;

        *slot(log, behind + i) = (struct mst_log_slot){.entry = {.term = 0}};
        mst_replica_log_put(log, index + i, &owned);
        gather(log, index + i);
    }
    if (log->frame.used > FRAME_MAX) {
        mst_replica_log_flush(log);
    }
    return mst_replica_log_verdict(log, NULL);
}

muster_status mst_replica_log_reserve(struct mst_replica_log *log, size_t count, size_t bytes)
{
    return mst_replica_log_file_room(log, count * MST_RECORD_HEAD + bytes, MST_REPLICA_SPARE);
}

muster_status mst_replica_log_vote(struct mst_replica_log *log, uint64_t term, uint64_t vote)
{
    muster_status status;

    MST_ASSERT(term >= log->term && term <= MST_COUNTED_MAX && vote <= MST_COUNTED_MAX);
    MST_ASSERT(term > log->term || log->vote == 0 || vote == log->vote);
    if (term == log->term && vote == log->vote) {
        return mst_replica_log_verdict(log, NULL);
    }
    status = mst_replica_log_file_room(log, MST_RECORD_HEAD, BETWEEN);
    if (status != MUSTER_OK) {
        return status;
    }
    log->term = term;
    log->vote = vote;
    mst_replica_log_note(log, MST_RECORD_VOTE, term, vote);
    return mst_replica_log_verdict(log, NULL);
}

muster_status mst_replica_log_write(struct mst_replica_log *log, struct muster_error *err)
{
    mst_replica_log_flush(log);
    if (mst_replica_log_sync(log)) {
        log->written = log->last;
        /* Without room or memory for a new one this file goes on. */
        if (log->offset >= log->config.segment_bytes) {
            (void)mst_replica_log_next_file(log, log->sequence + 1, false, false);
        }
    }
    return mst_replica_log_verdict(log, err);
}

void mst_replica_log_commit(struct mst_replica_log *log, uint64_t index)
{
    MST_ASSERT(index >= log->committed);
    log->committed = index < log->last ? index : log->last;
}

void mst_replica_log_compact(struct mst_replica_log *log, uint64_t trailing)
{
    uint64_t index = log->snapshot.index > trailing ? log->snapshot.index - trailing : 0;

    MST_ASSERT(index <= log->last);
    while (log->base < index) {
        log->base_term = mst_replica_log_term_at(log, log->base + 1);
        release_entry(log, ++log->base);
    }
    mst_replica_log_forget_frame(log);
    mst_replica_log_prune(log, index);
}
