/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a journal are damaged, cut, removed, renamed or made up, with checksums that fit
 * or not. The state is recovered, and once more the same; or one line says which file and what
 * is wrong.
 *
 * First a service lives for a while and writes its journal; then its files are damaged.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include <stdio.h>
#include <stdlib.h>

#include "../unit/journal_disk_fake.h"
#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "fuzz.h"
#include "history.h"
#include "service/core/snapshot.h"
#include "service/journal/format.h"
#include "service/journal/journal.h"

enum {
    STORY_MAX = 60,
    DAMAGES_MAX = 12,
    FILES_MAX = 10, /* by damage; the journal needs some itself */
    FILE_MAX = 65536,
    STEP_NS = 1000000
};

struct stage {
    struct fuzz_bytes input;
    struct fake_disk disk;
    struct counted_mem mem;
    struct mst_journal_config config;
    struct history history;
    struct mst_crc crc;
    struct mst_journal *journal;
    struct mst_core *core;
    struct muster_error err;
};

static void on_tell(void *ctx, enum mst_level level, const char *line)
{
    (void)ctx;
    (void)level;
    MST_ASSERT(strlen(line) > 0 && !strchr(line, '\n'));
}

static muster_status begin(struct stage *stage)
{
    stage->journal = NULL;
    stage->core = NULL;
    memset(&stage->err, 0, sizeof stage->err);
    return mst_journal_open(&stage->journal, &stage->core, &stage->disk.disk, &stage->config,
                            &stage->mem.mem, &stage->err);
}

static void die(struct stage *stage)
{
    mst_core_free(stage->core);
    mst_journal_free(stage->journal);
    MST_ASSERT(stage->mem.live == 0);
}

/* ---- a life ---- */

static void one_input(struct stage *stage)
{
    struct history *history = &stage->history;
    struct mst_journal *journal = stage->journal;

    history_next(history);
    switch (history->kind) {
    case HISTORY_OPEN:
        if (mst_journal_conn_open(journal, history->now_ns, history->conn) != MUSTER_OK) {
            history_cut(history, history->conn);
        }
        break;
    case HISTORY_REQUEST:
        (void)mst_journal_request(journal, history->now_ns, history->conn, &history->request);
        break;
    case HISTORY_CLOSE:
        mst_journal_conn_close(journal, history->now_ns, history->conn);
        break;
    case HISTORY_TICK:
    case HISTORY_RESUME:
        mst_journal_tick(journal, history->now_ns);
        break;
    }
}

static void drain(struct stage *stage)
{
    const struct mst_effect *effect;

    while ((effect = mst_core_next(stage->core))) {
        history_hear(&stage->history, effect);
        mst_core_done(stage->core, effect);
    }
}

static void live(struct stage *stage)
{
    uint64_t steps = fuzz_below(&stage->input, STORY_MAX);

    history_init_from(&stage->history, &stage->input, false);
    stage->history.now_ns = mst_journal_time_ns(stage->journal);
    for (uint64_t i = 0; i < steps; i++) {
        one_input(stage);
        if (fuzz_below(&stage->input, 3) != 0) {
            MST_ASSERT(mst_journal_commit(stage->journal, &stage->err) == MUSTER_OK);
            drain(stage);
        }
        if (mst_journal_snapshot_due(stage->journal) &&
            mst_journal_snapshot_begin(stage->journal)) {
            bool written = mst_journal_snapshot_write(stage->journal) == MUSTER_OK;

            mst_journal_snapshot_end(stage->journal, written && fuzz_below(&stage->input, 4) != 0);
        }
    }
    MST_ASSERT(mst_journal_commit(stage->journal, &stage->err) == MUSTER_OK);
}

/* ---- its files ---- */

static struct fake_file *some_file(struct stage *stage)
{
    struct fake_file *files[FAKE_FILES];
    size_t count = 0;

    for (int i = 0; i < FAKE_FILES; i++) {
        if (stage->disk.files[i].name[0]) {
            files[count++] = &stage->disk.files[i];
        }
    }
    return count == 0 ? NULL : files[fuzz_below(&stage->input, count)];
}

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Every frame that could be one gets the checksum that belongs to what is in it. */
static void seal(struct stage *stage, struct fake_file *file)
{
    enum mst_file_kind kind;
    uint64_t sequence, at = MST_FILE_HEAD;

    if (!mst_file_name_read(file->name, &kind, &sequence)) {
        return;
    }
    while (at < file->size && file->size - at >= MST_FRAME_HEAD) {
        unsigned char *frame = file->bytes + at;
        size_t payload = get_u32(frame);

        if (payload == 0 || mst_frame_bytes(payload) > file->size - at) {
            break;
        }
        mst_frame_write(frame, &stage->crc, sequence, at, payload, mst_get_u64(frame + 8));
        at += mst_frame_bytes(payload);
    }
}

static void write_head(struct stage *stage, struct fake_file *file)
{
    struct mst_file_head head = {.rules = MST_CORE_RULES, .version = "fuzz"};
    unsigned what = fuzz_u8(&stage->input);

    if (file->size < MST_FILE_HEAD || !mst_file_name_read(file->name, &head.kind, &head.sequence)) {
        return;
    }
    head.kind = what & 1 ? MST_FILE_SNAPSHOT : head.kind;
    if (what >> 4 == 15) {
        head.kind = (enum mst_file_kind)fuzz_number(&stage->input, 4);
        head.sequence = fuzz_number(&stage->input, 8);
    }
    head.sequence += what >> 1 & 3;
    head.rules += what >> 3 & 1;
    mst_file_head_write(file->bytes, &stage->crc, &head);
}

static void change_bytes(struct stage *stage, struct fake_file *file)
{
    uint64_t at = file->size > 0 ? fuzz_number(&stage->input, 3) % file->size : 0;
    struct mst_slice bytes = fuzz_slice(&stage->input, 1 + fuzz_u8(&stage->input) % 16);

    if (bytes.size > 0 && bytes.size <= file->size - at) {
        memcpy(file->bytes + at, bytes.data, bytes.size);
    }
}

/* Where zeros begin: behind the last frame. */
static uint64_t end_of(const struct fake_file *file)
{
    uint64_t at = file->size;

    while (at > MST_FILE_HEAD && file->bytes[at - 1] == 0) {
        at--;
    }
    at = at < MST_FILE_HEAD ? MST_FILE_HEAD : at;
    return (at + MST_FRAME_ALIGN - 1) / MST_FRAME_ALIGN * MST_FRAME_ALIGN;
}

/* A record more, of any type and with any body, its head of little that makes sense. */
static void add_record(struct stage *stage, struct fake_file *file)
{
    struct mst_journal_record record = {.type = (enum mst_record_type)(fuzz_u8(&stage->input) % 40),
                                        .flags = fuzz_u8(&stage->input) % 4,
                                        .now_ns = fuzz_number(&stage->input, 6),
                                        .conn = fuzz_number(&stage->input, 1)};
    struct mst_slice body = fuzz_slice(&stage->input, fuzz_u8(&stage->input));
    size_t payload = MST_RECORD_HEAD + body.size;
    uint64_t at = end_of(file);
    unsigned char *frame;

    if (at + mst_frame_bytes(payload) > FILE_MAX) {
        return;
    }
    if (at + mst_frame_bytes(payload) > file->size) {
        fake_file_resize(file, at + mst_frame_bytes(payload));
    }
    frame = file->bytes + at;
    for (unsigned i = 0; i < 4; i++) {
        frame[i] = (unsigned char)(payload >> (8 * i));
    }
    mst_record_head_write(frame + MST_FRAME_HEAD, &record, body.size);
    if (body.size > 0) {
        memcpy(frame + MST_FRAME_HEAD + MST_RECORD_HEAD, body.data, body.size);
    }
}

static void add_file(struct stage *stage)
{
    static const char *const endings[] = {".journal", ".snapshot", ".unfinished", ""};
    struct fake_file *file = NULL;
    char name[48];

    (void)snprintf(name, sizeof name, "%010llu%s",
                   (unsigned long long)(fuzz_below(&stage->input, 4) == 0
                                            ? 9999999999u - fuzz_below(&stage->input, 2)
                                            : fuzz_below(&stage->input, 8)),
                   endings[fuzz_below(&stage->input, 4)]);
    for (int i = 0; i < FILES_MAX && !fake_disk_find(&stage->disk, name); i++) {
        if (!stage->disk.files[i].name[0]) {
            file = &stage->disk.files[i];
            (void)snprintf(file->name, sizeof file->name, "%s", name);
            fake_file_resize(file, MST_FILE_HEAD + fuzz_number(&stage->input, 1));
            write_head(stage, file);
        }
    }
}

static void damage(struct stage *stage)
{
    struct fake_file *file = some_file(stage);

    if (!file) {
        add_file(stage);
        return;
    }
    switch (fuzz_below(&stage->input, 8)) {
    case 0:
    case 1:
        change_bytes(stage, file);
        break;
    case 2:
        change_bytes(stage, file);
        seal(stage, file);
        break;
    case 3:
        fake_file_resize(file, fuzz_number(&stage->input, 2) % (file->size + 1));
        break;
    case 4:
        write_head(stage, file);
        break;
    case 5:
        add_file(stage);
        break;
    case 6:
        (void)stage->disk.disk.remove(&stage->disk, file->name);
        break;
    default:
        if (file->size >= MST_FILE_HEAD) {
            add_record(stage, file);
            seal(stage, file);
        }
        break;
    }
}

/* ---- and back ---- */

/* A file has a whole head that belongs to another name. */
static bool is_misnamed(const struct stage *stage, const struct fake_file *file)
{
    struct mst_file_head head;
    enum mst_file_kind kind;
    uint64_t sequence;

    return mst_file_name_read(file->name, &kind, &sequence) && kind != MST_FILE_UNFINISHED &&
           mst_file_head_read(&head, &stage->crc, mst_slice_of(file->bytes, file->size)) &&
           (head.kind != kind || head.sequence != sequence);
}

/* What was recovered goes on, and is found again as it was. */
static void recover(struct stage *stage)
{
    bool misnamed = false;
    struct stage *second;
    uint64_t digest;

    for (int i = 0; i < FAKE_FILES; i++) {
        misnamed = misnamed || is_misnamed(stage, &stage->disk.files[i]);
    }
    if (begin(stage) != MUSTER_OK) {
        MST_ASSERT(strlen(stage->err.text) > 0 && !strchr(stage->err.text, '\n'));
        MST_ASSERT(!stage->journal && !stage->core);
        return;
    }
    MST_ASSERT(!misnamed);
    mst_core_check(stage->core);
    digest = mst_core_kept_digest(stage->core);
    second = calloc(1, sizeof *second);
    MST_ASSERT(second);
    fake_disk_copy(&second->disk, &stage->disk);
    counted_mem_init(&second->mem, 0x5a);
    second->config = stage->config;
    MST_ASSERT(begin(second) == MUSTER_OK);
    MST_ASSERT(mst_journal_recovery(second->journal)->digest == digest);
    mst_core_check(second->core);
    die(second);
    fake_disk_fini(&second->disk);
    free(second);
    mst_journal_tick(stage->journal, mst_journal_time_ns(stage->journal) + STEP_NS);
    MST_ASSERT(mst_journal_commit(stage->journal, &stage->err) == MUSTER_OK);
    die(stage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct stage stage;

    memset(&stage, 0, sizeof stage);
    stage.input = (struct fuzz_bytes){.at = data, .left = size};
    fake_disk_init(&stage.disk);
    counted_mem_init(&stage.mem, 0xa5);
    mst_crc_init(&stage.crc);
    stage.config = (struct mst_journal_config){.core = history_config(false),
                                               .version = "fuzz",
                                               .chunk_bytes = 4096,
                                               .records_max = 20,
                                               .tell = on_tell};
    MST_ASSERT(begin(&stage) == MUSTER_OK);
    live(&stage);
    die(&stage);
    for (int i = 0; i < DAMAGES_MAX && stage.input.left > 0; i++) {
        damage(&stage);
    }
    recover(&stage);
    fake_disk_fini(&stage.disk);
    return 0;
}
