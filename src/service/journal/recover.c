/* SPDX-License-Identifier: Apache-2.0 */

/* From files to a core. A file counts up to the offset that the next one records, or to its end.
 * Recovery begins with the newest whole snapshot; a file whose first record is BASE needs its own.
 */

#include <string.h>

#include "base/fail.h"
#include "base/panic.h"
#include "service/journal/part.h"

enum { FILES_FEW = 8 }; /* more are not replayed again and again: a snapshot is due */

/* One file in memory. */
struct content {
    char name[MST_FILE_NAME_ROOM];
    unsigned char *bytes;
    struct mst_slice file;
    struct mst_file_head head;
    bool headed;
};

struct recovery {
    struct mst_journal *journal;
    struct muster_error *err;
    struct content now, next;
    uint64_t last;                     /* number of any kind; 0: there is none */
    bool ended;                        /* an ENDED record was met */
    char other[MST_FILE_VERSION_ROOM]; /* kept a whole snapshot that cannot be read; empty: none */
};

/* ---- errors ---- */

#define CANNOT "cannot recover the state from %s: "
#define CANNOT_ARGS(recovery) (recovery)->journal->disk.where

static muster_status fail(struct recovery *recovery, const char *what)
{
    return mst_fail(recovery->err, MUSTER_EFAILED, 0, CANNOT "%s", CANNOT_ARGS(recovery), what);
}

static muster_status no_memory(struct recovery *recovery)
{
    return mst_fail(recovery->err, MUSTER_ENOMEM, 0, CANNOT "out of memory", CANNOT_ARGS(recovery));
}

static muster_status damaged(struct recovery *recovery, const struct content *content,
                             uint64_t offset, const char *what)
{
    return mst_fail(recovery->err, MUSTER_EFAILED, 0,
                    CANNOT "%s is damaged at offset %" PRIu64
                           "%s; put back a whole copy, or move the folder away to begin without it",
                    CANNOT_ARGS(recovery), content->name, offset, what);
}

static muster_status disk_failed(struct recovery *recovery)
{
    return fail(recovery, recovery->journal->disk.reason(recovery->journal->disk.ctx));
}

/* ---- one file ---- */

static void release(struct recovery *recovery, struct content *content)
{
    mst_mem_release(&recovery->journal->mem, content->bytes);
    *content = (struct content){.bytes = NULL};
}

static muster_status load(struct recovery *recovery, struct content *content,
                          enum mst_file_kind kind, uint64_t sequence)
{
    struct mst_journal *journal = recovery->journal;
    const struct mst_disk *disk = &journal->disk;
    uint64_t size;

    release(recovery, content);
    mst_file_name(content->name, kind, sequence);
    if (disk->size(disk->ctx, content->name, &size) != MUSTER_OK) {
        return disk_failed(recovery);
    }
    if (size > SIZE_MAX - 1) {
        return no_memory(recovery);
    }
    content->bytes = journal->mem.alloc(journal->mem.ctx, (size_t)size + 1);
    if (!content->bytes) {
        return no_memory(recovery);
    }
    if (disk->read(disk->ctx, content->name, 0, content->bytes, (size_t)size) != MUSTER_OK) {
        return disk_failed(recovery);
    }
    content->file = mst_slice_of(content->bytes, (size_t)size);
    content->headed = mst_file_head_read(&content->head, &journal->crc, content->file) &&
                      content->head.kind == kind && content->head.sequence == sequence;
    return MUSTER_OK;
}

/* ---- which files ---- */

/* A pass over the files of a journal, until one of them makes it fail. */
struct pass {
    struct recovery *recovery;
    muster_status (*each)(struct pass *pass, enum mst_file_kind kind, uint64_t sequence);
    muster_status status;
    const char *name;       /* of the current file */
    uint64_t below, newest; /* of the snapshots: the largest number below; 0: none */
};

static void on_name(void *ctx, const char *name)
{
    struct pass *pass = ctx;
    enum mst_file_kind kind;
    uint64_t sequence;

    if (pass->status == MUSTER_OK && mst_file_name_read(name, &kind, &sequence)) {
        pass->name = name;
        pass->status = pass->each(pass, kind, sequence);
    }
}

static muster_status pass_over(struct pass *pass)
{
    const struct mst_disk *disk = &pass->recovery->journal->disk;

    if (disk->list(disk->ctx, on_name, pass) != MUSTER_OK) {
        return disk_failed(pass->recovery);
    }
    return pass->status;
}

static muster_status misnamed(struct recovery *recovery, const char *name,
                              const struct mst_file_head *head)
{
    bool known = head->kind == MST_FILE_JOURNAL || head->kind == MST_FILE_SNAPSHOT ||
                 head->kind == MST_FILE_RECORD;
    char right[MST_FILE_NAME_ROOM];

    if (known && head->sequence <= MST_SEQUENCE_MAX) {
        mst_file_name(right, head->kind, head->sequence);
        return mst_fail(recovery->err, MUSTER_EFAILED, 0,
                        CANNOT "%s holds what belongs to %s; give it that name again, or move it "
                               "out of the folder",
                        CANNOT_ARGS(recovery), name, right);
    }
    return mst_fail(recovery->err, MUSTER_EFAILED, 0,
                    CANNOT "%s has a head that belongs to no file; put back a whole copy, or move "
                           "it out of the folder",
                    CANNOT_ARGS(recovery), name);
}

/* A misnamed file would be missing without a trace, and its number be used again. An unfinished
 * snapshot is ignored, even if it is unreadable, and removed with its neighbours; so no other file
 * may have its name. */
static muster_status look_at_head(struct pass *pass, enum mst_file_kind kind, uint64_t sequence)
{
    struct recovery *recovery = pass->recovery;
    const struct mst_journal *journal = recovery->journal;
    const struct mst_disk *disk = &journal->disk;
    unsigned char bytes[MST_FILE_HEAD];
    bool needed = kind != MST_FILE_UNFINISHED;
    struct mst_file_head head;
    uint64_t size;

    recovery->last = mst_later(recovery->last, sequence);
    kind = needed ? kind : MST_FILE_SNAPSHOT;
    if (disk->size(disk->ctx, pass->name, &size) != MUSTER_OK) {
        return needed ? disk_failed(recovery) : MUSTER_OK;
    }
    if (size < sizeof bytes) {
        return MUSTER_OK;
    }
    if (disk->read(disk->ctx, pass->name, 0, bytes, sizeof bytes) != MUSTER_OK) {
        return needed ? disk_failed(recovery) : MUSTER_OK;
    }
    if (!mst_file_head_read(&head, &journal->crc, mst_slice_of(bytes, sizeof bytes)) ||
        (head.kind == kind && head.sequence == sequence)) {
        return MUSTER_OK;
    }
    return misnamed(recovery, pass->name, &head);
}

static muster_status on_snapshot(struct pass *pass, enum mst_file_kind kind, uint64_t sequence)
{
    if (kind == MST_FILE_SNAPSHOT && sequence < pass->below) {
        pass->newest = mst_later(pass->newest, sequence);
    }
    return MUSTER_OK;
}

/* `*out` is the number of the newest one below; 0: there is none. */
static muster_status snapshot_below(struct recovery *recovery, uint64_t below, uint64_t *out)
{
    struct pass pass = {.recovery = recovery, .each = on_snapshot, .below = below};
    muster_status status = pass_over(&pass);

    *out = pass.newest;
    return status;
}

static bool has_journal(const struct recovery *recovery, uint64_t sequence)
{
    const struct mst_disk *disk = &recovery->journal->disk;
    char name[MST_FILE_NAME_ROOM];
    uint64_t size;

    mst_file_name(name, MST_FILE_JOURNAL, sequence);
    return disk->size(disk->ctx, name, &size) != MUSTER_ENOTFOUND; /* or it fails when it is read */
}

static struct mst_frame_reader reader_of(const struct recovery *recovery,
                                         const struct content *content, uint64_t sequence)
{
    return (struct mst_frame_reader){.crc = &recovery->journal->crc,
                                     .file = content->file,
                                     .sequence = sequence,
                                     .offset = MST_FILE_HEAD};
}

/* ---- a snapshot ---- */

/* Moves the parts together and makes a core of them. EPROTO: it is not whole. */
static muster_status build(struct recovery *recovery, uint64_t sequence)
{
    struct mst_journal *journal = recovery->journal;
    struct content *content = &recovery->now;
    struct mst_frame_reader reader = reader_of(recovery, content, sequence);
    struct mst_slice payload;
    muster_status status;
    size_t total = 0;

    while (content->headed && mst_frame_next(&reader, &payload) == MST_FRAME_WHOLE) {
        struct mst_journal_record record;

        if (!mst_record_read(&record, &payload)) {
            return MUSTER_EPROTO;
        }
        if (record.type == MST_RECORD_WHOLE) {
            if (record.body.size != 8 || mst_get_u64(record.body.data) != total) {
                return MUSTER_EPROTO;
            }
            journal->now_ns = record.now_ns;
            journal->last_conn = record.conn;
            status =
                mst_core_load(&journal->core, record.now_ns, mst_slice_of(content->bytes, total),
                              &journal->config.core, &journal->mem);
            if (status == MUSTER_EPROTO && recovery->other[0] == '\0') {
                memcpy(recovery->other, content->head.version, sizeof recovery->other);
            }
            return status == MUSTER_EINVAL ? MUSTER_EPROTO : status; /* of a time to come */
        }
        if (record.type != MST_RECORD_PART) {
            return MUSTER_EPROTO;
        }
        memmove(content->bytes + total, record.body.data, record.body.size); /* always forward */
        total += record.body.size;
    }
    return MUSTER_EPROTO;
}

/* The newest whole one, or none; and then there may be nothing that would need one. */
static muster_status begin_with_snapshot(struct recovery *recovery)
{
    struct mst_journal *journal = recovery->journal;
    uint64_t sequence;
    muster_status status = snapshot_below(recovery, UINT64_MAX, &sequence);

    while (status == MUSTER_OK && sequence != 0) {
        status = load(recovery, &recovery->now, MST_FILE_SNAPSHOT, sequence);
        if (status != MUSTER_OK) {
            return status;
        }
        status = build(recovery, sequence);
        if (status == MUSTER_OK) {
            journal->recovered.snapshot = sequence;
            return MUSTER_OK;
        }
        if (status == MUSTER_ENOMEM) {
            return no_memory(recovery);
        }
        mst_journal_tell(journal, MST_WARN, "snapshot-not-whole", recovery->now.name);
        status = snapshot_below(recovery, sequence, &sequence);
    }
    return status;
}

/* ---- replay ---- */

static muster_status other_rules(struct recovery *recovery)
{
    return mst_fail(recovery->err, MUSTER_EFAILED, 0,
                    CANNOT "%s was written by muster %.*s, which decides otherwise; start that "
                           "version with it and stop it with SIGTERM: it then leaves a snapshot, "
                           "from which this one can begin",
                    CANNOT_ARGS(recovery), recovery->now.name,
                    MST_TEXT_ARGS(recovery->now.head.version));
}

static muster_status replay_record(struct recovery *recovery,
                                   const struct mst_journal_record *record, uint64_t offset)
{
    struct mst_journal *journal = recovery->journal;
    muster_status status;

    if (record->type == MST_RECORD_CONTINUE || record->type == MST_RECORD_BASE) {
        return MUSTER_OK;
    }
    if (record->type == MST_RECORD_ENDED) {
        recovery->ended = true;
        return MUSTER_OK;
    }
    if (recovery->now.head.rules != MST_CORE_RULES) {
        return other_rules(recovery);
    }
    if (record->now_ns < journal->now_ns) {
        return damaged(recovery, &recovery->now, offset, ": its time goes backwards");
    }
    status = mst_input_again(journal->core, &journal->arena, record, &journal->config.core);
    if (record->type == MST_RECORD_OPEN) {
        journal->last_conn = mst_later(journal->last_conn, record->conn);
    }
    if (status == MUSTER_ENOMEM || status == MUSTER_ELIMIT) {
        return fail(recovery, "out of memory while its requests were done again; more memory is "
                              "needed than the service had before");
    }
    if (status != MUSTER_OK) {
        return damaged(recovery, &recovery->now, offset, ": it makes no sense");
    }
    journal->now_ns = record->now_ns;
    journal->records++;
    return MUSTER_OK;
}

static muster_status replay_frame(struct recovery *recovery, struct mst_slice payload,
                                  uint64_t offset)
{
    struct mst_journal_record record;
    muster_status status;

    while (payload.size > 0) {
        if (!mst_record_read(&record, &payload)) {
            return damaged(recovery, &recovery->now, offset, ": it makes no sense");
        }
        status = replay_record(recovery, &record, offset);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

static void cut_tail(struct recovery *recovery, uint64_t offset)
{
    struct mst_journal *journal = recovery->journal;
    char line[128];
    uint64_t end = recovery->now.file.size;
    const unsigned char *bytes = recovery->now.bytes;

    while (end > offset && bytes[end - 1] == 0) {
        end--;
    }
    journal->recovered.cut_bytes += end - offset;
    mst_text_print(line, sizeof line,
                   "%s ends in %" PRIu64 " bytes that are no whole record, from offset %" PRIu64
                   " on",
                   recovery->now.name, end - offset, offset);
    mst_journal_tell(journal, MST_WARN, "journal-tail-cut", line);
}

/* `end`: how much of the file counts by the record of the next one; 0: no such record. */
static muster_status replay_file(struct recovery *recovery, uint64_t sequence, uint64_t end)
{
    struct mst_frame_reader reader = reader_of(recovery, &recovery->now, sequence);
    struct mst_slice payload;

    for (;;) {
        uint64_t offset = reader.offset;
        enum mst_frame_found found =
            end != 0 && offset >= end ? MST_FRAME_END : mst_frame_next(&reader, &payload);
        muster_status status = MUSTER_OK;

        if (found == MST_FRAME_CORRUPT || (found != MST_FRAME_WHOLE && end != 0 && offset != end)) {
            return damaged(recovery, &recovery->now, offset,
                           ", and what follows it was already promised");
        }
        if (found == MST_FRAME_WHOLE) {
            status = replay_frame(recovery, payload, offset);
        } else if (found == MST_FRAME_TORN) {
            cut_tail(recovery, offset);
        }
        if (status != MUSTER_OK || found != MST_FRAME_WHOLE) {
            recovery->journal->offset = offset;
            return status;
        }
    }
}

/* ---- the chain ---- */

enum beginning {
    BEGINS_NOT,   /* it was never whole: it died while it was made */
    BEGINS_ALONE, /* BASE, and nothing behind it */
    BEGINS_ON,    /* BASE, and inputs */
    CONTINUES
};

/* The meaning of a file; `*end` is the number of bytes of the one before that count. */
static muster_status look_at(struct recovery *recovery, const struct content *content,
                             uint64_t sequence, enum beginning *out, uint64_t *end)
{
    struct mst_frame_reader reader = reader_of(recovery, content, sequence);
    struct mst_slice payload;
    struct mst_journal_record record;
    enum mst_frame_found found = MST_FRAME_TORN;

    *out = BEGINS_NOT;
    if (content->headed) {
        found = mst_frame_next(&reader, &payload);
        if (found == MST_FRAME_WHOLE && mst_record_read(&record, &payload) &&
            record.body.size == 8 &&
            (record.type == MST_RECORD_CONTINUE || record.type == MST_RECORD_BASE)) {
            *end = mst_get_u64(record.body.data);
            *out = record.type == MST_RECORD_CONTINUE                     ? CONTINUES
                   : mst_frame_next(&reader, &payload) == MST_FRAME_WHOLE ? BEGINS_ON
                                                                          : BEGINS_ALONE;
            return MUSTER_OK;
        }
    } else if (content->file.size > MST_FILE_HEAD) {
        /* The head and the first record were one write. Whatever lies behind them was later. */
        found = mst_frame_next(&reader, &payload);
        if (found == MST_FRAME_WHOLE) {
            found = mst_frame_next(&reader, &payload);
        }
    }
    if (found == MST_FRAME_CORRUPT || found == MST_FRAME_WHOLE) {
        return damaged(recovery, content, 0, ", and what follows it was already promised");
    }
    return MUSTER_OK;
}

/* Loads the file after `sequence` into `next`, if it goes on from there; else `*end` is 0. */
static muster_status look_ahead(struct recovery *recovery, uint64_t sequence, uint64_t *end)
{
    enum beginning beginning = BEGINS_NOT;
    muster_status status;

    *end = 0;
    if (!has_journal(recovery, sequence + 1)) {
        return MUSTER_OK;
    }
    status = load(recovery, &recovery->next, MST_FILE_JOURNAL, sequence + 1);
    if (status == MUSTER_OK) {
        status = look_at(recovery, &recovery->next, sequence + 1, &beginning, end);
    }
    if (status == MUSTER_OK && beginning == BEGINS_ON) {
        return damaged(recovery, &recovery->next, 0,
                       ": it needs the snapshot of its number, and that is not whole");
    }
    if (beginning != CONTINUES) {
        *end = 0;
    }
    return status;
}

static muster_status replay_all(struct recovery *recovery)
{
    struct mst_journal *journal = recovery->journal;
    uint64_t sequence = journal->recovered.snapshot, end;
    muster_status status;

    if (!has_journal(recovery, sequence)) {
        mst_file_name(recovery->now.name, MST_FILE_JOURNAL, sequence);
        return damaged(recovery, &recovery->now, 0, ": it is missing");
    }
    status = load(recovery, &recovery->now, MST_FILE_JOURNAL, sequence);
    if (status == MUSTER_OK && !recovery->now.headed) {
        return damaged(recovery, &recovery->now, 0, "");
    }
    while (status == MUSTER_OK) {
        status = look_ahead(recovery, sequence, &end);
        if (status == MUSTER_OK) {
            status = replay_file(recovery, sequence, end);
        }
        if (status != MUSTER_OK || end == 0) {
            break;
        }
        release(recovery, &recovery->now);
        recovery->now = recovery->next;
        recovery->next = (struct content){.bytes = NULL};
        sequence++;
    }
    journal->sequence = sequence;
    return status;
}

/* Its checksums are right, so it is not damaged. */
static muster_status other_form(struct recovery *recovery)
{
    return mst_fail(recovery->err, MUSTER_EFAILED, 0,
                    CANNOT "its snapshot was kept by muster %.*s, and this one cannot read it; go "
                           "on with that version, or move the folder away to begin without it",
                    CANNOT_ARGS(recovery), MST_TEXT_ARGS(recovery->other));
}

/* Files after the used ones mean nothing if they never got their snapshot. Otherwise something
 * between is missing. */
static muster_status on_left(struct pass *pass, enum mst_file_kind kind, uint64_t sequence)
{
    struct recovery *recovery = pass->recovery;
    enum beginning beginning = BEGINS_NOT;
    muster_status status;
    uint64_t end;

    if (kind != MST_FILE_JOURNAL || sequence <= recovery->journal->sequence) {
        return MUSTER_OK;
    }
    status = load(recovery, &recovery->now, MST_FILE_JOURNAL, sequence);
    if (status == MUSTER_OK) {
        status = look_at(recovery, &recovery->now, sequence, &beginning, &end);
    }
    if (status == MUSTER_OK && (beginning == BEGINS_ON || beginning == CONTINUES)) {
        status = damaged(recovery, &recovery->now, 0,
                         ": what should come before it, a snapshot or a file, is missing");
    }
    return status;
}

static muster_status nothing_is_left(struct recovery *recovery)
{
    struct pass pass = {.recovery = recovery, .each = on_left};
    uint64_t newest;
    muster_status status = snapshot_below(recovery, UINT64_MAX, &newest);

    if (status != MUSTER_OK) {
        return status;
    }
    if (newest > recovery->journal->sequence) {
        if (recovery->other[0] != '\0') {
            return other_form(recovery);
        }
        return fail(recovery, "its newest snapshot is damaged, and no older one can take its "
                              "place; put back a whole copy, or move the folder away to begin "
                              "without it");
    }
    return pass_over(&pass);
}

/* ---- from here on ---- */

/* A state that continues no file gets a file and a snapshot of its own. */
static muster_status begin_new(struct recovery *recovery, uint64_t sequence)
{
    struct mst_journal *journal = recovery->journal;
    muster_status status = mst_core_new(&journal->core, &journal->config.core, &journal->mem);

    if (status != MUSTER_OK) {
        return status == MUSTER_ENOMEM ? no_memory(recovery)
                                       : fail(recovery, "the limits make no sense");
    }
    if (journal->now_ns == 0) {
        journal->now_ns = NS_PER_S;
    }
    status = mst_journal_next_file(journal, sequence, MST_RECORD_BASE);
    if (status == MUSTER_OK) {
        journal->snapshot = sequence;
        status = mst_journal_snapshot_write(journal);
        journal->snapshot = 0;
    }
    if (status != MUSTER_OK) {
        mst_journal_drop_file(journal);
        return disk_failed(recovery);
    }
    journal->records = journal->bytes = 0;
    mst_journal_remove_before(journal, sequence);
    return MUSTER_OK;
}

/* The cut tail must stay cut, and what was replayed be durable, before a file continues from there.
 * On a full disk the state is there all the same, and waits for room. */
static muster_status go_on(struct recovery *recovery)
{
    struct mst_journal *journal = recovery->journal;
    const struct mst_disk *disk = &journal->disk;
    char name[MST_FILE_NAME_ROOM];
    muster_status status;

    mst_file_name(name, MST_FILE_JOURNAL, journal->sequence);
    if (journal->sequence - journal->recovered.snapshot >= FILES_FEW) {
        journal->due_at = journal->due_bytes = 0;
    }
    status = disk->cut(disk->ctx, name, journal->offset, journal->config.sync);
    if (status == MUSTER_OK && journal->config.sync) {
        status = disk->sync_names(disk->ctx); /* the service before may have died in between */
    }
    if (status == MUSTER_OK) {
        status = mst_journal_next_file(journal, journal->sequence + 1, MST_RECORD_CONTINUE);
    }
    if (status == MUSTER_ENOSPACE && !journal->config.go_on_when_full) {
        mst_journal_hold(journal, journal->now_ns);
        return MUSTER_OK;
    }
    return status == MUSTER_OK ? MUSTER_OK : disk_failed(recovery);
}

static muster_status resume(struct recovery *recovery)
{
    struct mst_journal *journal = recovery->journal;
    const struct mst_journal_record record = {.type = MST_RECORD_RESUME, .now_ns = journal->now_ns};
    size_t body = mst_input_config_bytes();
    unsigned char *at = mst_journal_record_room(journal, MST_RECORD_HEAD + body);
    muster_status status;

    journal->recovered.digest = mst_core_kept_digest(journal->core);
    status = mst_core_resume(journal->core, journal->now_ns, &journal->config.core);
    if (status != MUSTER_OK || !at) {
        return status == MUSTER_EINVAL ? fail(recovery, "the limits make no sense")
                                       : no_memory(recovery);
    }
    mst_core_drop_effects(journal->core);
    mst_input_config_write(at + MST_RECORD_HEAD, &journal->config.core);
    if (journal->state == MST_JOURNAL_KEEPS) {
        mst_gather_keep(&journal->frame, &record, body);
    }
    journal->weight = MST_WEIGHT_PROMISE;
    (void)mst_core_weigh(journal->core);
    return mst_journal_commit(journal, recovery->err);
}

static muster_status recover_with(struct recovery *recovery)
{
    struct mst_journal *journal = recovery->journal;
    struct pass heads = {.recovery = recovery, .each = look_at_head};
    muster_status status = pass_over(&heads);

    if (status == MUSTER_OK) {
        status = begin_with_snapshot(recovery);
    }
    if (status == MUSTER_OK) {
        status = journal->core ? replay_all(recovery) : MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        status = nothing_is_left(recovery);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    journal->recovered.records = journal->records;
    if (!journal->core || recovery->ended) {
        journal->recovered.lost = recovery->ended;
        mst_core_free(journal->core);
        journal->core = NULL;
        status = begin_new(recovery, recovery->last + 1);
    } else {
        status = go_on(recovery);
    }
    return status == MUSTER_OK ? resume(recovery) : status;
}

muster_status mst_journal_recover(struct mst_journal *journal, struct muster_error *err)
{
    struct recovery recovery = {.journal = journal, .err = err};
    muster_status status = recover_with(&recovery);

    release(&recovery, &recovery.now);
    release(&recovery, &recovery.next);
    return status;
}
