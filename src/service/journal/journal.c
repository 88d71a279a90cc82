/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"
#include "service/journal/part.h"

#include <string.h>

#include "base/panic.h"
#include "proto/protobuf.h"

enum { CHUNK_BYTES = 4 << 20, RECORDS_MAX = 200000, BYTES_MAX = 64 << 20 };

/* ---- life ---- */

static struct mst_journal *new_journal(const struct mst_disk *disk,
                                       const struct mst_journal_config *config,
                                       const struct mst_mem *mem)
{
    struct mst_journal *journal = mst_mem_zalloc(mem, sizeof *journal);

    if (!journal) {
        return NULL;
    }
    journal->mem = *mem;
    if (disk) {
        journal->disk = *disk;
    }
    journal->config = *config;
    if (config->chunk_bytes == 0) {
        journal->config.chunk_bytes = CHUNK_BYTES;
    }
    if (config->records_max == 0) {
        journal->config.records_max = RECORDS_MAX;
    }
    if (config->bytes_max == 0) {
        journal->config.bytes_max = BYTES_MAX;
    }
    journal->due_at = journal->config.records_max;
    journal->due_bytes = journal->config.bytes_max;
    journal->file = MST_NO_FILE;
    (void)mst_gather_init(&journal->frame, mem, MST_JOURNAL_BUFFER);
    journal->part = mem->alloc(mem->ctx, MST_FRAME_HEAD + MST_RECORD_HEAD + MST_SNAPSHOT_PART +
                                             MST_FRAME_ALIGN);
    mst_crc_init(&journal->crc);
    mst_native_arena_init(&journal->arena, &journal->mem);
    return journal;
}

/* Without a disk nothing is kept, as after the end of a journal. */
static muster_status begin_unkept(struct mst_journal *journal, struct muster_error *err)
{
    muster_status status = mst_core_new(&journal->core, &journal->config.core, &journal->mem);

    journal->state = journal->config.sink.take ? MST_JOURNAL_FOLLOWS : MST_JOURNAL_ENDED;
    if (status != MUSTER_OK) {
        (void)mst_fail(err, status, 0, "cannot make the service: out of memory or invalid limits");
    }
    return status;
}

muster_status mst_journal_open(struct mst_journal **out, struct mst_core **core,
                               const struct mst_disk *disk, const struct mst_journal_config *config,
                               const struct mst_mem *mem, struct muster_error *err)
{
    struct mst_journal *journal = new_journal(disk, config, mem);
    muster_status status = MUSTER_ENOMEM;

    if (journal && journal->frame.bytes && journal->part) {
        status = disk ? mst_journal_recover(journal, err) : begin_unkept(journal, err);
    } else {
        (void)mst_fail(err, status, 0, "no memory to recover the state from the journal");
    }
    if (status != MUSTER_OK) {
        if (journal) {
            mst_core_free(journal->core);
        }
        mst_journal_free(journal);
        return status;
    }
    *out = journal;
    *core = journal->core;
    return MUSTER_OK;
}

void mst_journal_free(struct mst_journal *journal)
{
    struct mst_mem mem;

    if (!journal) {
        return;
    }
    mem = journal->mem;
    if (journal->file != MST_NO_FILE) {
        journal->disk.close(journal->disk.ctx, journal->file);
    }
    mst_native_arena_fini(&journal->arena);
    mst_gather_fini(&journal->frame, &mem);
    mst_mem_release(&mem, journal->part);
    mst_mem_release(&mem, journal);
}

const struct mst_journal_recovered *mst_journal_recovery(const struct mst_journal *journal)
{
    return &journal->recovered;
}

bool mst_journal_fresh(const struct mst_journal *journal)
{
    return journal->recovered.snapshot == 0 || journal->recovered.lost;
}

uint64_t mst_journal_time_ns(const struct mst_journal *journal)
{
    return journal->now_ns;
}

uint64_t mst_journal_last_conn(const struct mst_journal *journal)
{
    return journal->last_conn;
}

const char *mst_journal_held(const struct mst_journal *journal)
{
    return journal->state == MST_JOURNAL_HOLDS ? journal->why : NULL;
}

const char *mst_journal_trouble(const struct mst_journal *journal)
{
    return journal->state == MST_JOURNAL_BROKEN ? journal->why : mst_journal_held(journal);
}

/* ---- the listener ---- */

void mst_journal_listen(struct mst_journal *journal, const struct mst_input_listener *listener)
{
    journal->listener = *listener;
}

static void tell(const struct mst_journal *journal, const struct mst_input *input)
{
    if (journal->listener.heard) {
        journal->listener.heard(journal->listener.ctx, input);
    }
}

void mst_journal_hold_core(struct mst_journal *journal, const char *why)
{
    mst_core_hold(journal->core, why);
    tell(journal,
         &(struct mst_input){.type = MST_RECORD_HOLD, .now_ns = journal->now_ns, .why = why});
}

/* ---- inputs ----
 *
 * A record is prepared before the core is fed, because then it can still be refused; whether it
 * counts is known after. */

static void keep(struct mst_journal *journal, const struct mst_journal_record *record,
                 size_t body_size)
{
    mst_gather_keep(&journal->frame, record, body_size);
    journal->records++;
    journal->inputs++;
}

/* The weight of the last input for the state, which the commit adds up. */
static bool lasts(struct mst_journal *journal)
{
    enum mst_weight weight = mst_core_weigh(journal->core);

    if (weight > journal->weight) {
        journal->weight = weight;
    }
    return weight != MST_WEIGHT_NONE;
}

/* For inputs that cannot fail: the buffer has room, or gets it by a write. */
static bool room_for_plain(struct mst_journal *journal, uint64_t now_ns)
{
    journal->now_ns = now_ns;
    return mst_journal_has_room(journal, MST_RECORD_HEAD) &&
           mst_journal_record_room(journal, MST_RECORD_HEAD) &&
           journal->state != MST_JOURNAL_BROKEN;
}

/* An input that has no body. Only an open can fail. */
static muster_status feed_plain(struct mst_journal *journal, enum mst_record_type type,
                                uint64_t now_ns, struct mst_conn conn)
{
    const struct mst_journal_record record = {.type = type, .now_ns = now_ns, .conn = conn.id};
    bool recorded = room_for_plain(journal, now_ns);
    muster_status status = MUSTER_OK;

    if (type == MST_RECORD_OPEN) {
        status = mst_core_open(journal->core, now_ns, conn);
    } else if (type == MST_RECORD_CLOSE) {
        mst_core_close(journal->core, now_ns, conn);
    } else {
        mst_core_tick(journal->core, now_ns);
    }
    if (lasts(journal) && recorded && status == MUSTER_OK) {
        keep(journal, &record, 0);
    }
    tell(journal, &(struct mst_input){.type = type,
                                      .flags = status != MUSTER_OK ? MST_RECORD_REFUSED : 0,
                                      .now_ns = now_ns,
                                      .conn = conn});
    return status;
}

muster_status mst_journal_conn_open(struct mst_journal *journal, uint64_t now_ns,
                                    struct mst_conn conn)
{
    journal->last_conn = mst_later(journal->last_conn, conn.id);
    return feed_plain(journal, MST_RECORD_OPEN, now_ns, conn);
}

void mst_journal_conn_close(struct mst_journal *journal, uint64_t now_ns, struct mst_conn conn)
{
    (void)feed_plain(journal, MST_RECORD_CLOSE, now_ns, conn);
}

void mst_journal_tick(struct mst_journal *journal, uint64_t now_ns)
{
    (void)feed_plain(journal, MST_RECORD_TICK, now_ns, (struct mst_conn){.id = 0});
    mst_journal_retry(journal, now_ns);
}

uint64_t mst_journal_deadline_ns(const struct mst_journal *journal)
{
    return mst_journal_held(journal) ? journal->retry_ns : UINT64_MAX;
}

/* Room for a request, which is written only if it lasts: most of them are reads and renewals. OK
 * with `*at` NULL: there is nothing to record, or nowhere. */
static muster_status prepare(struct mst_journal *journal, const struct mst_request *request,
                             unsigned char **at, size_t *size)
{
    *at = NULL;
    if (journal->state == MST_JOURNAL_ENDED || journal->state == MST_JOURNAL_BROKEN) {
        return MUSTER_OK;
    }
    *size = mst_input_request_bytes(request);
    if (*size == 0 || *size > UINT32_MAX / 2) {
        return MUSTER_OK; /* no command: the core refuses it without a trace */
    }
    if (journal->config.sink.take && MST_RECORD_HEAD + *size > journal->config.sink.max) {
        return MUSTER_ELIMIT;
    }
    if (mst_journal_has_room(journal, MST_RECORD_HEAD + *size)) {
        *at = mst_journal_record_room(journal, MST_RECORD_HEAD + *size);
        if (*at == NULL) {
            return MUSTER_ENOMEM;
        }
        *at = journal->state == MST_JOURNAL_BROKEN ? NULL : *at;
    }
    return MUSTER_OK;
}

muster_status mst_journal_request(struct mst_journal *journal, uint64_t now_ns,
                                  struct mst_conn conn, const struct mst_request *request)
{
    struct mst_journal_record record = {
        .type = MST_RECORD_REQUEST, .now_ns = now_ns, .conn = conn.id};
    struct mst_request room;
    const struct mst_request *kept = mst_input_kept(request, &room);
    muster_status status;
    unsigned char *at;
    size_t size = 0;

    journal->now_ns = now_ns;
    status = prepare(journal, kept, &at, &size);
    if (status != MUSTER_OK) {
        return status;
    }
    status = mst_core_request(journal->core, now_ns, conn, request);
    /* Without memory even for a refusal it was admitted all the same. */
    if (lasts(journal) && at) {
        record.flags = mst_input_flags(journal->core);
        mst_input_request_write(at + MST_RECORD_HEAD, kept, size);
        keep(journal, &record, size);
    }
    if (journal->listener.heard) { /* without one, an input would be filled in vain */
        tell(journal, &(struct mst_input){.type = MST_RECORD_REQUEST,
                                          .flags = mst_input_flags(journal->core),
                                          .now_ns = now_ns,
                                          .conn = conn,
                                          .request = request});
    }
    return status;
}

muster_status mst_journal_verdict(const struct mst_journal *journal, struct muster_error *err)
{
    if (journal->state != MST_JOURNAL_BROKEN) {
        return MUSTER_OK;
    }
    return mst_fail(err, MUSTER_EFAILED, 0,
                    "the journal cannot be written: %s; the service stops, because it could not "
                    "keep its promises",
                    journal->why);
}

muster_status mst_journal_commit(struct mst_journal *journal, struct muster_error *err)
{
    mst_journal_flush(journal);
    if (journal->weight == MST_WEIGHT_PROMISE) {
        (void)mst_journal_sync(journal);
    }
    journal->weight = MST_WEIGHT_NONE;
    return mst_journal_verdict(journal, err);
}
