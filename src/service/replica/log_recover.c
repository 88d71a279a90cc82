/* SPDX-License-Identifier: Apache-2.0 */

/* From files to a log. The newest state counts, and the files of entries that continue each other
 * up to the newest one; a file before a gap was to be removed. A file counts up to the offset that
 * the next one records, or to its end. */

#include <string.h>

#include "base/fail.h"
#include "base/panic.h"
#include "base/text.h"
#include "base/time.h"
#include "service/replica/log_part.h"

/* A file of entries, as its beginning describes it. */
struct found {
    uint64_t sequence;
    bool begun; /* its first record is whole; else it died while it was made */
    bool sync;
    unsigned char boot[MST_REPLICA_BOOT];
    uint64_t id, term, vote;
    uint64_t last;      /* the last entry before it */
    uint64_t last_term; /* of that one, if it does not continue the file before it; else 0 */
    uint64_t before;    /* so much of the file before it counts */
    uint64_t end;       /* of this one */
};

struct recovery {
    struct mst_replica_log *log;
    struct muster_error *err;
    struct found *files; /* by their numbers */
    size_t count, room;
    size_t first;   /* of the chain */
    uint64_t state; /* the newest one; 0: there is none */
    uint64_t last;  /* number of any file of entries; 0: there is none */
    uint64_t last_state;
    struct mst_state_head head; /* of `state`; the configuration is in the log's part */
    muster_status status;       /* of the list */
    unsigned char *bytes;
    struct mst_slice file;
    muster_status damage; /* EFAILED: there is some, and `err` has it */
    bool state_known;     /* `head` is that of `state` */
};

#define CANNOT "cannot recover the log of this replica from %s: "
/* An older copy would have forgotten votes. */
#define REMEDY "move the folder away: it then joins as a new replica"

/* ---- errors ---- */

static muster_status no_memory(struct recovery *recovery)
{
    return mst_fail(recovery->err, MUSTER_ENOMEM, 0, CANNOT "out of memory",
                    recovery->log->disk.where);
}

static muster_status disk_failed(struct recovery *recovery)
{
    const struct mst_disk *disk = &recovery->log->disk;

    return mst_fail(recovery->err, MUSTER_EFAILED, 0, CANNOT "%s", disk->where,
                    disk->reason(disk->ctx));
}

static muster_status damaged(struct recovery *recovery, enum mst_file_kind kind, uint64_t sequence,
                             uint64_t offset, const char *what)
{
    char name[MST_FILE_NAME_ROOM];

    mst_file_name(name, kind, sequence);
    return mst_fail(recovery->err, MUSTER_EFAILED, 0,
                    CANNOT "%s is damaged at offset %" PRIu64 "%s; " REMEDY,
                    recovery->log->disk.where, name, offset, what);
}

static muster_status senseless(struct recovery *recovery, uint64_t sequence, uint64_t offset)
{
    return damaged(recovery, MST_FILE_ENTRIES, sequence, offset, ": it makes no sense");
}

/* ---- which files there are ---- */

static bool add(struct recovery *recovery, uint64_t sequence)
{
    const struct mst_mem *mem = &recovery->log->mem;
    size_t at = recovery->count;

    if (recovery->count == recovery->room) {
        size_t room = recovery->room == 0 ? 16 : recovery->room * 2;
        struct found *more = mst_mem_array(mem, room, sizeof *more);

        if (!more) {
            return false;
        }
        if (recovery->count > 0) {
            memcpy(more, recovery->files, recovery->count * sizeof *more);
        }
        mst_mem_release(mem, recovery->files);
        recovery->files = more;
        recovery->room = room;
    }
    for (; at > 0 && recovery->files[at - 1].sequence > sequence; at--) {
        recovery->files[at] = recovery->files[at - 1];
    }
    recovery->files[at] = (struct found){.sequence = sequence};
    recovery->count++;
    return true;
}

static void on_name(void *ctx, const char *name)
{
    struct recovery *recovery = ctx;
    enum mst_file_kind kind;
    uint64_t sequence;

    if (recovery->status != MUSTER_OK || !mst_replica_name_read(name, &kind, &sequence)) {
        return;
    }
    if (kind == MST_FILE_ENTRIES) {
        recovery->last = mst_later(recovery->last, sequence);
        recovery->status = add(recovery, sequence) ? MUSTER_OK : no_memory(recovery);
    } else {
        recovery->last_state = mst_later(recovery->last_state, sequence);
        if (kind == MST_FILE_STATE) {
            recovery->state = mst_later(recovery->state, sequence);
        }
    }
}

/* ---- one file of entries ---- */

static muster_status load(struct recovery *recovery, uint64_t sequence)
{
    struct mst_replica_log *log = recovery->log;
    char name[MST_FILE_NAME_ROOM];
    uint64_t size;

    mst_mem_release(&log->mem, recovery->bytes);
    recovery->bytes = NULL;
    mst_file_name(name, MST_FILE_ENTRIES, sequence);
    if (log->disk.size(log->disk.ctx, name, &size) != MUSTER_OK) {
        return disk_failed(recovery);
    }
    if (size > SIZE_MAX - 1) {
        return no_memory(recovery);
    }
    recovery->bytes = log->mem.alloc(log->mem.ctx, (size_t)size + 1);
    if (!recovery->bytes) {
        return no_memory(recovery);
    }
    if (log->disk.read(log->disk.ctx, name, 0, recovery->bytes, (size_t)size) != MUSTER_OK) {
        return disk_failed(recovery);
    }
    recovery->file = mst_slice_of(recovery->bytes, (size_t)size);
    return MUSTER_OK;
}

static struct mst_frame_reader reader_of(const struct recovery *recovery, uint64_t sequence)
{
    return (struct mst_frame_reader){.crc = &recovery->log->crc,
                                     .file = recovery->file,
                                     .sequence = sequence,
                                     .offset = MST_FILE_HEAD};
}

static bool is_segment(const struct mst_journal_record *record)
{
    return record->type == MST_RECORD_SEGMENT && record->body.size == MST_SEGMENT_BODY &&
           record->conn != 0;
}

/* The beginning of a file that is in memory, as far as it is there. */
static muster_status look_at_loaded(struct recovery *recovery, struct found *found)
{
    struct mst_frame_reader reader = reader_of(recovery, found->sequence);
    enum mst_frame_found next = MST_FRAME_TORN;
    struct mst_journal_record record;
    struct mst_slice payload;
    struct mst_file_head head;
    bool headed = mst_file_head_read(&head, &recovery->log->crc, recovery->file);
    const unsigned char *body;

    if (headed && (head.kind != MST_FILE_ENTRIES || head.sequence != found->sequence)) {
        return damaged(recovery, MST_FILE_ENTRIES, found->sequence, 0,
                       ": it has the head of another file");
    }
    if (recovery->file.size > MST_FILE_HEAD) {
        next = mst_frame_next(&reader, &payload);
    }
    if (headed && next == MST_FRAME_WHOLE && mst_record_read(&record, &payload) &&
        is_segment(&record)) {
        body = record.body.data;
        memcpy(found->boot, body, MST_REPLICA_BOOT);
        found->begun = true;
        found->sync = mst_get_u64(body + MST_REPLICA_BOOT) != 0;
        found->id = record.conn;
        found->term = record.now_ns;
        found->vote = mst_get_u64(body + MST_REPLICA_BOOT + 8);
        found->last = mst_get_u64(body + MST_REPLICA_BOOT + 16);
        found->last_term = mst_get_u64(body + MST_REPLICA_BOOT + 24);
        found->before = mst_get_u64(body + MST_REPLICA_BOOT + 32);
        return MUSTER_OK;
    }
    /* The head and the first record were one write. Whatever lies behind them was later. */
    if (next == MST_FRAME_WHOLE) {
        next = mst_frame_next(&reader, &payload);
    }
    if (next == MST_FRAME_CORRUPT || next == MST_FRAME_WHOLE) {
        return damaged(recovery, MST_FILE_ENTRIES, found->sequence, 0,
                       ", and what follows it was already promised");
    }
    return MUSTER_OK;
}

/* Whether that file belongs to those behind it. */
static bool continues_to(const struct recovery *recovery, size_t number)
{
    const struct found *next = &recovery->files[number + 1];

    return number + 1 == recovery->count ||
           (recovery->files[number].begun && next->last_term == 0 &&
            recovery->files[number].sequence + 1 == next->sequence);
}

/* Damage is no failure yet: what is thrown away may be damaged. */
static muster_status look_at_all(struct recovery *recovery)
{
    size_t begun = 0;

    for (size_t i = 0; i < recovery->count; i++) {
        muster_status status = load(recovery, recovery->files[i].sequence);

        if (status != MUSTER_OK) {
            return status;
        }
        if (look_at_loaded(recovery, &recovery->files[i]) != MUSTER_OK) {
            recovery->damage = MUSTER_EFAILED;
        }
        begun = recovery->files[i].begun ? i + 1 : begun;
    }
    recovery->count = begun; /* one behind it gets another one of its name, or is removed */
    recovery->first = begun;
    while (recovery->first > 0 && continues_to(recovery, recovery->first - 1)) {
        recovery->first--;
    }
    return MUSTER_OK;
}

/* ---- the state ---- */

static muster_status state_damaged(struct recovery *recovery, muster_status status, uint64_t at)
{
    return status == MUSTER_EPROTO ? damaged(recovery, MST_FILE_STATE, recovery->state, at, "")
                                   : disk_failed(recovery);
}

static muster_status look_at_state(struct recovery *recovery)
{
    uint64_t at = 0;
    muster_status status = MUSTER_OK;

    if (recovery->state != 0) {
        status = mst_state_look(recovery->log, recovery->state, &recovery->head, &at);
        recovery->state_known = status == MUSTER_OK;
    }
    if (status == MUSTER_EPROTO) {
        recovery->damage = state_damaged(recovery, status, at);
        return MUSTER_OK;
    }
    return status == MUSTER_OK ? MUSTER_OK : disk_failed(recovery);
}

static muster_status take_state(struct recovery *recovery)
{
    struct mst_replica_log *log = recovery->log;
    uint64_t at = 0;
    muster_status status;

    if (recovery->state == 0) {
        return MUSTER_OK;
    }
    status = mst_state_adopt(log, recovery->state, &recovery->head);
    if (status != MUSTER_OK) {
        return no_memory(recovery);
    }
    status = mst_state_check(log, recovery->state, &recovery->head, &at);
    return status == MUSTER_OK ? MUSTER_OK : state_damaged(recovery, status, at);
}

/* ---- what is thrown away ---- */

struct removal {
    struct mst_replica_log *log;
    uint64_t keep_state, keep_from, keep_to; /* numbers; of entries from .. to */
    bool failed;
};

static void on_removed(void *ctx, const char *name)
{
    struct removal *removal = ctx;
    enum mst_file_kind kind;
    uint64_t sequence;

    if (!mst_replica_name_read(name, &kind, &sequence) ||
        (kind == MST_FILE_STATE && sequence == removal->keep_state) ||
        (kind == MST_FILE_ENTRIES && sequence >= removal->keep_from &&
         sequence <= removal->keep_to)) {
        return;
    }
    if (removal->log->disk.remove(removal->log->disk.ctx, name) != MUSTER_OK) {
        removal->failed = true;
    }
}

/* Removes all but those; false: the disk failed. */
static bool remove_but(struct mst_replica_log *log, uint64_t state, uint64_t from, uint64_t to)
{
    struct removal removal = {.log = log, .keep_state = state, .keep_from = from, .keep_to = to};

    return log->disk.list(log->disk.ctx, on_removed, &removal) == MUSTER_OK && !removal.failed;
}

/* The file that shows what the folder is goes last. */
static muster_status throw_away(struct recovery *recovery)
{
    struct mst_replica_log *log = recovery->log;
    const struct mst_disk *disk = &log->disk;
    uint64_t newest = recovery->count > 0 ? recovery->files[recovery->count - 1].sequence : 0;
    uint64_t state = recovery->count > 0 ? 0 : recovery->state;

    if (!remove_but(log, state, newest, newest) || disk->sync_names(disk->ctx) != MUSTER_OK ||
        !remove_but(log, 0, 1, 0) || disk->sync_names(disk->ctx) != MUSTER_OK) {
        return disk_failed(recovery);
    }
    log->recovered.thrown = true;
    mst_replica_log_tell(log, MST_WARN, "replica-log-of-another-boot",
                         "it was written without --sync, and may have lost a vote: this replica "
                         "joins as a new one");
    recovery->count = 0;
    recovery->state = 0;
    recovery->damage = MUSTER_OK;
    return MUSTER_OK;
}

/* Without a promise, and with no beginning that can be read, it is as good as nothing. */
static bool is_to_be_thrown_away(const struct recovery *recovery)
{
    const unsigned char *boot = recovery->log->config.boot;
    const struct found *newest;

    if (recovery->count > 0) {
        newest = &recovery->files[recovery->count - 1];
        return !newest->sync && memcmp(newest->boot, boot, MST_REPLICA_BOOT) != 0;
    }
    if (recovery->state_known) {
        return !recovery->head.sync && memcmp(recovery->head.boot, boot, MST_REPLICA_BOOT) != 0;
    }
    return recovery->damage != MUSTER_OK && !recovery->log->config.sync;
}

/* ---- the chain ---- */

/* 0: not known. */
static uint64_t term_before(const struct mst_replica_log *log, uint64_t index)
{
    const struct mst_replica_entry *entry = mst_replica_log_at(log, index - 1);

    return entry ? entry->term : index - 1 == log->base ? log->base_term : 0;
}

static muster_status again_entry(struct recovery *recovery, uint64_t sequence, uint64_t offset,
                                 const struct mst_journal_record *record, uint32_t rules)
{
    struct mst_replica_log *log = recovery->log;
    struct mst_replica_entry entry = {.term = record->now_ns,
                                      .type = (enum mst_replica_entry_type)record->flags};
    uint64_t index = record->conn;

    if (index == 0 || entry.term == 0 || entry.type < MST_REPLICA_COMMAND ||
        entry.type > MST_REPLICA_CHANGE || record->body.size > MST_REPLICA_ENTRY_MAX) {
        return senseless(recovery, sequence, offset);
    }
    if (rules != log->config.rules && entry.type == MST_REPLICA_COMMAND &&
        index > log->snapshot.index) {
        return mst_fail(recovery->err, MUSTER_EFAILED, 0,
                        CANNOT "its entries are of a version that decides otherwise; go on with "
                               "that version, or move the folder away: it then joins as a new "
                               "replica",
                        log->disk.where);
    }
    /* It replaced one in a file that was removed since, because the snapshot has both. */
    if (index <= log->base && index <= log->snapshot.index && log->base_term == 0) {
        mst_replica_log_begin_behind(log, index - 1, 0);
    }
    if (index > log->last + 1 || index <= log->base || entry.term > log->term ||
        entry.term < term_before(log, index)) {
        return senseless(recovery, sequence, offset);
    }
    if (!mst_replica_log_ring_room(log, 1) ||
        !mst_replica_log_copy(log, record->body, &entry.bytes)) {
        return no_memory(recovery);
    }
    mst_replica_log_put(log, index, &entry);
    return MUSTER_OK;
}

static muster_status again(struct recovery *recovery, uint64_t sequence, uint64_t offset,
                           const struct mst_journal_record *record, uint32_t rules)
{
    struct mst_replica_log *log = recovery->log;

    switch (record->type) {
    case MST_RECORD_SEGMENT: /* looked at before */
        return MUSTER_OK;
    case MST_RECORD_ENTRY:
        return again_entry(recovery, sequence, offset, record, rules);
    case MST_RECORD_VOTE:
        if (record->now_ns < log->term ||
            (record->now_ns == log->term && log->vote != 0 && record->conn != log->vote)) {
            return senseless(recovery, sequence, offset);
        }
        log->term = record->now_ns;
        log->vote = record->conn;
        return MUSTER_OK;
    default:
        return senseless(recovery, sequence, offset);
    }
}

static muster_status again_frame(struct recovery *recovery, uint64_t sequence, uint64_t offset,
                                 struct mst_slice payload, uint32_t rules)
{
    const size_t whole = payload.size;
    muster_status status = MUSTER_OK;
    struct mst_journal_record record;

    while (payload.size > 0 && status == MUSTER_OK) {
        const size_t at = whole - payload.size;

        status = mst_record_read(&record, &payload)
                     ? again(recovery, sequence, offset, &record, rules)
                     : senseless(recovery, sequence, offset);
        if (status == MUSTER_OK && record.type == MST_RECORD_ENTRY) {
            mst_replica_log_slot(recovery->log, record.conn)->place =
                (struct mst_log_place){.sequence = sequence, .frame = offset, .record = at};
        }
    }
    return status;
}

static void tail_is_cut(struct recovery *recovery, uint64_t sequence, uint64_t offset)
{
    struct mst_replica_log *log = recovery->log;
    uint64_t end = recovery->file.size;
    char name[MST_FILE_NAME_ROOM];
    char line[160];

    while (end > offset && recovery->bytes[end - 1] == 0) {
        end--;
    }
    log->recovered.cut_bytes += end - offset;
    mst_file_name(name, MST_FILE_ENTRIES, sequence);
    mst_text_print(line, sizeof line,
                   "%s ends in %" PRIu64 " bytes that are no whole record, from offset %" PRIu64
                   " on",
                   name, end - offset, offset);
    mst_replica_log_tell(log, MST_WARN, "replica-log-tail-cut", line);
}

/* `end`: how much of the file counts by the record of the next one; 0: there is none. */
static muster_status replay(struct recovery *recovery, struct found *found, uint64_t end)
{
    struct mst_frame_reader reader = reader_of(recovery, found->sequence);
    struct mst_file_head head = {.rules = 0};
    struct mst_slice payload;

    (void)mst_file_head_read(&head, &recovery->log->crc, recovery->file);
    for (;;) {
        uint64_t offset = reader.offset;
        enum mst_frame_found next =
            end != 0 && offset >= end ? MST_FRAME_END : mst_frame_next(&reader, &payload);
        muster_status status = MUSTER_OK;

        if (next == MST_FRAME_CORRUPT || (next != MST_FRAME_WHOLE && end != 0 && offset != end)) {
            return damaged(recovery, MST_FILE_ENTRIES, found->sequence, offset,
                           ", and what follows it was already promised");
        }
        if (next == MST_FRAME_WHOLE) {
            status = again_frame(recovery, found->sequence, offset, payload, head.rules);
        } else if (next == MST_FRAME_TORN) {
            tail_is_cut(recovery, found->sequence, offset);
        }
        if (status != MUSTER_OK || next != MST_FRAME_WHOLE) {
            found->end = offset;
            return status;
        }
    }
}

/* A file begins with what was true at the end of the one before it. */
static bool continues(const struct mst_replica_log *log, const struct found *found)
{
    return found->vote <= MST_COUNTED_MAX && found->last <= MST_COUNTED_MAX &&
           (found->last_term == 0 || (found->last > 0 && found->last_term <= found->term)) &&
           found->id == log->id && found->term == log->term && found->vote == log->vote &&
           found->last == log->last;
}

static muster_status replay_all(struct recovery *recovery)
{
    struct mst_replica_log *log = recovery->log;
    const struct found *first = &recovery->files[recovery->first];

    log->id = first->id;
    log->term = first->term;
    log->vote = first->vote;
    mst_replica_log_begin_behind(log, first->last, first->last_term);
    for (size_t i = recovery->first; i < recovery->count; i++) {
        struct found *found = &recovery->files[i];
        bool is_last = i + 1 == recovery->count;
        muster_status status = load(recovery, found->sequence);

        if (status == MUSTER_OK && !continues(log, found)) {
            status = senseless(recovery, found->sequence, MST_FILE_HEAD);
        }
        if (status == MUSTER_OK) {
            log->highest = 0;
            status = replay(recovery, found, is_last ? 0 : found[1].before);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        log->older[log->older_count++] = (struct mst_segment){.sequence = found->sequence,
                                                              .bytes = found->end,
                                                              .highest = log->highest,
                                                              .sync = found->sync};
    }
    return MUSTER_OK;
}

/* The entries lead to the snapshot, or at least not beyond it. `*out`: they lead there. */
static muster_status compare(struct recovery *recovery, bool *out)
{
    const struct mst_replica_log *log = recovery->log;
    const struct mst_replica_snapshot *snapshot = &log->snapshot;
    const struct mst_replica_entry *entry = mst_replica_log_at(log, snapshot->index);
    uint64_t term = entry ? entry->term : log->base_term;

    if (log->base > snapshot->index) {
        return damaged(recovery, MST_FILE_ENTRIES, recovery->files[recovery->first].sequence, 0,
                       ": what should come before its entries is missing");
    }
    if (log->term < snapshot->term) {
        return damaged(recovery, MST_FILE_STATE, recovery->state, MST_FILE_HEAD,
                       ": it is of a term that is still to come");
    }
    *out = log->last >= snapshot->index &&
           (term == snapshot->term || (log->base == snapshot->index && term == 0));
    return MUSTER_OK;
}

/* ---- from here on ---- */

/* The cut tail must stay cut, and what was replayed be durable, before a file continues from
 * there. */
static muster_status keep(struct recovery *recovery)
{
    struct mst_replica_log *log = recovery->log;
    const struct mst_disk *disk = &log->disk;
    char name[MST_FILE_NAME_ROOM];
    muster_status status = MUSTER_OK;

    for (size_t i = 0; i < log->older_count && status == MUSTER_OK; i++) {
        mst_file_name(name, MST_FILE_ENTRIES, log->older[i].sequence);
        if (log->config.sync || i + 1 == log->older_count) {
            status = disk->cut(disk->ctx, name, log->older[i].bytes, log->config.sync);
        }
    }
    if (status == MUSTER_OK && log->config.sync && log->state != 0) {
        uint64_t size = 0;

        mst_file_name(name, MST_FILE_STATE, log->state);
        status = disk->size(disk->ctx, name, &size);
        status = status == MUSTER_OK ? disk->cut(disk->ctx, name, size, true) : status;
    }
    if (status == MUSTER_OK && log->config.sync) {
        status = disk->sync_names(disk->ctx);
    }
    return status == MUSTER_OK ? MUSTER_OK : disk_failed(recovery);
}

static muster_status begin(struct recovery *recovery, bool anew)
{
    struct mst_replica_log *log = recovery->log;
    const struct mst_segment *before =
        log->older_count > 0 ? &log->older[log->older_count - 1] : NULL;
    uint64_t sequence = before ? before->sequence + 1 : recovery->last + 1;
    uint64_t from = before ? log->older[0].sequence : sequence;
    muster_status status;

    if (sequence > MST_SEQUENCE_MAX || recovery->last_state >= MST_SEQUENCE_MAX) {
        return mst_fail(recovery->err, MUSTER_EFAILED, 0,
                        CANNOT "its files have used up their numbers; " REMEDY, log->disk.where);
    }
    log->offset = log->durable = before ? before->bytes : 0;
    log->next_state = recovery->last_state + 1;
    /* The first file without a promise says so for good, behind those with one. */
    status = mst_replica_log_next_file(log, sequence, anew, before && before->sync);
    if (status == MUSTER_ENOMEM) {
        return no_memory(recovery);
    }
    if (status != MUSTER_OK) {
        return mst_fail(recovery->err, status, 0, CANNOT "%s", log->disk.where,
                        log->disk.reason(log->disk.ctx));
    }
    log->committed = log->snapshot.index;
    log->written = log->last;
    (void)remove_but(log, log->state, from, sequence);
    return MUSTER_OK;
}

static muster_status begin_anew(struct recovery *recovery)
{
    struct mst_replica_log *log = recovery->log;

    if (recovery->state != 0) {
        return damaged(recovery, MST_FILE_STATE, recovery->state, 0,
                       ": the entries behind it, and the vote, are missing");
    }
    log->id = log->config.id;
    log->recovered.fresh = true;
    return begin(recovery, false);
}

static bool room_for_chain(struct recovery *recovery)
{
    struct mst_replica_log *log = recovery->log;

    log->older_room = recovery->count + 8;
    log->older = mst_mem_array(&log->mem, log->older_room, sizeof *log->older);
    return log->older != NULL;
}

static muster_status look(struct recovery *recovery)
{
    struct mst_replica_log *log = recovery->log;
    muster_status status = MUSTER_OK;

    if (log->disk.list(log->disk.ctx, on_name, recovery) != MUSTER_OK) {
        return disk_failed(recovery);
    }
    status = recovery->status;
    status = status == MUSTER_OK ? look_at_all(recovery) : status;
    status = status == MUSTER_OK ? look_at_state(recovery) : status;
    if (status == MUSTER_OK && is_to_be_thrown_away(recovery)) {
        status = throw_away(recovery);
    }
    return status == MUSTER_OK ? recovery->damage : status;
}

static muster_status recover_with(struct recovery *recovery)
{
    struct mst_replica_log *log = recovery->log;
    muster_status status = look(recovery);
    bool leads = true;

    if (status != MUSTER_OK) {
        return status;
    }
    if (!room_for_chain(recovery)) {
        return no_memory(recovery);
    }
    if (recovery->count == 0) {
        return begin_anew(recovery);
    }
    status = take_state(recovery);
    status = status == MUSTER_OK ? replay_all(recovery) : status;
    status = status == MUSTER_OK ? compare(recovery, &leads) : status;
    status = status == MUSTER_OK ? keep(recovery) : status;
    if (status == MUSTER_OK && !leads) {
        mst_replica_log_begin_behind(log, log->snapshot.index, log->snapshot.term);
    }
    return status == MUSTER_OK ? begin(recovery, !leads) : status;
}

muster_status mst_replica_log_recover(struct mst_replica_log *log, struct muster_error *err)
{
    struct recovery recovery = {.log = log, .err = err};
    muster_status status = recover_with(&recovery);

    if (status == MUSTER_OK && err) {
        *err = (struct muster_error){.status = MUSTER_OK}; /* damage that was thrown away */
    }
    mst_mem_release(&log->mem, recovery.bytes);
    mst_mem_release(&log->mem, recovery.files);
    log->recovered.id = log->id;
    log->recovered.term = log->term;
    log->recovered.vote = log->vote;
    log->recovered.snapshot = log->snapshot;
    log->recovered.first = log->base + 1;
    log->recovered.last = log->last;
    return status;
}
