/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a replica's log are damaged, cut, removed, renamed or made up, with checksums that
 * fit or not, and found in the same boot or another. The log is found, goes on, and is found again
 * the same; or one line says which file and what is wrong.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include <stdio.h>
#include <stdlib.h>

#include "../unit/journal_disk_fake.h"
#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "fuzz.h"
#include "service/journal/format.h"
#include "service/replica/log.h"

enum { STORY_MAX = 80, MORE = 1000, DAMAGES_MAX = 12, FILE_MAX = 1 << 18, VALUE_MAX = 64 };

struct stage {
    struct fuzz_bytes input;
    struct fake_disk disk;
    struct counted_mem mem;
    struct mst_replica_log_config config;
    struct mst_crc crc;
    struct mst_replica_log *log;
    struct muster_error err;
};

static void on_tell(void *ctx, enum mst_level level, const char *line)
{
    (void)ctx;
    (void)level;
    MST_ASSERT(strlen(line) > 0 && !strchr(line, '\n'));
}

static bool begin(struct stage *stage)
{
    stage->log = NULL;
    memset(&stage->err, 0, sizeof stage->err);
    if (mst_replica_log_open(&stage->log, &stage->disk.disk, &stage->config, &stage->mem.mem,
                             &stage->err) == MUSTER_OK) {
        return true;
    }
    MST_ASSERT(!stage->log && strlen(stage->err.text) > 0 && !strchr(stage->err.text, '\n'));
    MST_ASSERT(stage->mem.live == 0);
    return false;
}

static void die(struct stage *stage)
{
    mst_replica_log_free(stage->log);
    stage->log = NULL;
    MST_ASSERT(stage->mem.live == 0);
}

static void write_out(struct stage *stage)
{
    MST_ASSERT(mst_replica_log_write(stage->log, &stage->err) == MUSTER_OK);
}

/* ---- a life ---- */

static void append(struct stage *stage)
{
    struct mst_replica_log *log = stage->log;
    struct mst_replica_entry entry = {
        .term = mst_replica_log_term(log),
        .type = (enum mst_replica_entry_type)(1 + fuzz_below(&stage->input, 3))};
    uint64_t last = mst_replica_log_last(log), committed = mst_replica_log_committed(log);
    uint64_t index = last + 1;

    entry.bytes = fuzz_slice(&stage->input, fuzz_below(&stage->input, VALUE_MAX));
    if (last > committed && fuzz_below(&stage->input, 4) == 0) {
        index = committed + 1 + fuzz_below(&stage->input, last - committed);
    }
    if (entry.term > 0) {
        MST_ASSERT(mst_replica_log_append(log, index, &entry, 1) == MUSTER_OK);
    }
}

static void vote(struct stage *stage)
{
    uint64_t term = mst_replica_log_term(stage->log) + 1;

    MST_ASSERT(mst_replica_log_vote(stage->log, term, fuzz_below(&stage->input, 4)) == MUSTER_OK);
}

static void commit(struct stage *stage)
{
    uint64_t committed = mst_replica_log_committed(stage->log);
    uint64_t more = mst_replica_log_last(stage->log) - committed;

    mst_replica_log_commit(stage->log, committed + fuzz_below(&stage->input, more + 1));
}

/* An own snapshot, or one that is ahead. */
static void snapshot(struct stage *stage)
{
    struct mst_replica_log *log = stage->log;
    struct mst_replica_snapshot about = {.index = mst_replica_log_committed(log)};
    struct mst_replica_saving *saving;

    if (fuzz_below(&stage->input, 4) == 0) {
        about.index = mst_replica_log_last(log) + 1 + fuzz_below(&stage->input, 3);
        about.term = mst_replica_log_term(log);
    } else {
        about.term = mst_replica_log_term_at(log, about.index);
    }
    if (about.term == 0 || about.index == 0) {
        return;
    }
    about.configuration_index = fuzz_below(&stage->input, 4);
    about.configuration = fuzz_slice(&stage->input, fuzz_below(&stage->input, 20));
    write_out(stage);
    MST_ASSERT(mst_replica_log_save(log, &about, &saving) == MUSTER_OK);
    MST_ASSERT(mst_replica_saving_put(saving, fuzz_slice(&stage->input, fuzz_u8(&stage->input))) ==
               MUSTER_OK);
    if (fuzz_below(&stage->input, 4) == 0) {
        mst_replica_log_drop(log, saving);
        return;
    }
    MST_ASSERT(mst_replica_saving_close(saving) == MUSTER_OK);
    MST_ASSERT(mst_replica_log_take(log, saving, &stage->err) == MUSTER_OK);
}

static void live(struct stage *stage)
{
    uint64_t steps = fuzz_below(&stage->input, STORY_MAX);

    for (uint64_t i = 0; i < steps; i++) {
        switch (fuzz_below(&stage->input, 8)) {
        case 0:
            vote(stage);
            break;
        case 1:
            commit(stage);
            break;
        case 2:
            snapshot(stage);
            break;
        case 3:
            mst_replica_log_compact(stage->log, fuzz_below(&stage->input, 4));
            break;
        case 4:
            write_out(stage);
            break;
        default:
            append(stage);
            break;
        }
    }
    write_out(stage);
}

/* ---- its files ---- */

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

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

/* Every frame that could be one gets the checksum that belongs to what is in it. */
static void seal(struct stage *stage, struct fake_file *file)
{
    struct mst_file_head head = {.rules = stage->config.rules, .version = "fuzz"};
    uint64_t at = MST_FILE_HEAD;

    if (file->size < MST_FILE_HEAD ||
        !mst_replica_name_read(file->name, &head.kind, &head.sequence)) {
        return;
    }
    head.rules += fuzz_below(&stage->input, 8) == 0;
    mst_file_head_write(file->bytes, &stage->crc, &head);
    while (file->size - at >= MST_FRAME_HEAD) {
        unsigned char *frame = file->bytes + at;
        size_t payload = get_u32(frame);

        if (payload == 0 || mst_frame_bytes(payload) > file->size - at) {
            break;
        }
        mst_frame_write(frame, &stage->crc, head.sequence, at, payload, mst_get_u64(frame + 8));
        at += mst_frame_bytes(payload);
    }
}

static void change_bytes(struct stage *stage, struct fake_file *file)
{
    uint64_t at = file->size > 0 ? fuzz_number(&stage->input, 2) % file->size : 0;
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

/* A record more, of any type, most of them with numbers that are near to those that fit. */
static void add_record(struct stage *stage, struct fake_file *file)
{
    struct mst_journal_record record = {
        .type = (enum mst_record_type)(fuzz_below(&stage->input, 2) == 0
                                           ? 48 + fuzz_below(&stage->input, 4)
                                           : fuzz_u8(&stage->input)),
        .flags = fuzz_u8(&stage->input) % 5,
        .now_ns = fuzz_number(&stage->input, 1 + fuzz_u8(&stage->input) % 8),
        .conn = fuzz_number(&stage->input, 1 + fuzz_u8(&stage->input) % 8)};
    struct mst_slice body = fuzz_slice(&stage->input, fuzz_u8(&stage->input) % VALUE_MAX);
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
    seal(stage, file);
}

static void rename_file(struct stage *stage, struct fake_file *file)
{
    static const char *const endings[] = {".entries", ".state", ".state.tmp", ""};
    char name[48];

    (void)snprintf(name, sizeof name, "%010llu%s",
                   (unsigned long long)(fuzz_below(&stage->input, 4) == 0
                                            ? MST_SEQUENCE_MAX - fuzz_below(&stage->input, 2)
                                            : fuzz_below(&stage->input, 8)),
                   endings[fuzz_below(&stage->input, 4)]);
    if (!fake_disk_find(&stage->disk, name)) {
        (void)snprintf(file->name, sizeof file->name, "%s", name);
    }
}

static void damage(struct stage *stage)
{
    struct fake_file *file = some_file(stage);

    if (!file) {
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
        rename_file(stage, file);
        break;
    case 5:
        rename_file(stage, file);
        seal(stage, file);
        break;
    case 6:
        (void)stage->disk.disk.remove(&stage->disk, file->name);
        break;
    default:
        if (file->size >= MST_FILE_HEAD) {
            add_record(stage, file);
        }
        break;
    }
}

/* ---- and back ---- */

/* What a log is, in one number. How many entries it has that the snapshot has too does not count.
 */
static uint32_t digest(const struct stage *stage)
{
    const struct mst_replica_log *log = stage->log;
    const struct mst_replica_snapshot *snapshot = mst_replica_log_snapshot(log);
    const uint64_t numbers[] = {mst_replica_log_id(log),
                                mst_replica_log_term(log),
                                mst_replica_log_vote_of(log),
                                mst_replica_log_last(log),
                                snapshot->index,
                                snapshot->term,
                                snapshot->configuration_index,
                                snapshot->bytes};
    uint32_t sum = mst_crc_of(&stage->crc, 0, mst_slice_of(numbers, sizeof numbers));

    sum = mst_crc_of(&stage->crc, sum, snapshot->configuration);
    MST_ASSERT(mst_replica_log_first(log) <= snapshot->index + 1);
    MST_ASSERT(mst_replica_log_last(log) >= snapshot->index);
    for (uint64_t i = snapshot->index + 1; i <= mst_replica_log_last(log); i++) {
        const struct mst_replica_entry *entry = mst_replica_log_at(log, i);

        sum = mst_crc_of(&stage->crc, sum, mst_slice_of(&entry->term, sizeof entry->term));
        sum = mst_crc_of(&stage->crc, sum, entry->bytes);
    }
    return sum;
}

/* All of its state can be read: it was looked at when the log was opened. */
static void read_state(struct stage *stage)
{
    const struct mst_replica_snapshot *snapshot = mst_replica_log_snapshot(stage->log);
    unsigned char *bytes = malloc((size_t)snapshot->bytes + 1);

    MST_ASSERT(bytes);
    MST_ASSERT(snapshot->index == 0 ||
               mst_replica_log_read(stage->log, snapshot->index, 0, bytes, (size_t)snapshot->bytes,
                                    &stage->err) == MUSTER_OK);
    free(bytes);
}

/* It was found, and is found again the same. False: its files have no numbers left. */
static bool is_found_again(struct stage *stage)
{
    uint32_t before = digest(stage);

    read_state(stage);
    die(stage);
    if (!begin(stage)) {
        MST_ASSERT(strstr(stage->err.text, "numbers"));
        return false;
    }
    MST_ASSERT(digest(stage) == before && !mst_replica_log_recovery(stage->log)->thrown);
    return true;
}

static void recover(struct stage *stage)
{
    if (!begin(stage) || !is_found_again(stage)) {
        return;
    }
    /* What was made up may have no room for more terms and entries. */
    if (mst_replica_log_term(stage->log) < MST_COUNTED_MAX - MORE &&
        mst_replica_log_last(stage->log) < MST_COUNTED_MAX - MORE) {
        live(stage);
        if (!is_found_again(stage)) {
            return;
        }
    }
    die(stage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct stage stage;
    unsigned how;

    memset(&stage, 0, sizeof stage);
    stage.input = (struct fuzz_bytes){.at = data, .left = size};
    fake_disk_init(&stage.disk);
    counted_mem_init(&stage.mem, 0xa5);
    mst_crc_init(&stage.crc);
    how = fuzz_u8(&stage.input);
    stage.config = (struct mst_replica_log_config){.id = 7,
                                                   .boot = "a boot",
                                                   .sync = how & 1,
                                                   .version = "fuzz",
                                                   .rules = 1,
                                                   .segment_bytes = 4000,
                                                   .chunk_bytes = 512,
                                                   .tell = on_tell};
    MST_ASSERT(begin(&stage));
    live(&stage);
    die(&stage);
    for (int i = 0; i < DAMAGES_MAX && stage.input.left > 0; i++) {
        damage(&stage);
    }
    stage.config.sync = how >> 1 & 1;
    if (how >> 2 & 1) {
        memcpy(stage.config.boot, "another", sizeof "another");
    }
    recover(&stage);
    fake_disk_fini(&stage.disk);
    return 0;
}
