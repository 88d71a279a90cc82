/* SPDX-License-Identifier: Apache-2.0 */
/* The journal's files: what is recovered after any cut and any damaged byte, snapshots, and that a
 * replay comes to the state that was there.
 *
 * behaviour: service / Its journal */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "journal_stage.h"
#include "service/core/snapshot.h"
#include "service/journal/format.h"

/* ---- the format ---- */

static void the_checksum_is_crc32c(void **state)
{
    struct mst_crc crc;
    uint32_t whole;

    (void)state;
    mst_crc_init(&crc);
    whole = mst_crc_of(&crc, 0, mst_slice_text("123456789"));
    assert_int_equal(whole, 0xe3069283u);
    for (size_t i = 0; i <= 9; i++) {
        uint32_t part = mst_crc_of(&crc, 0, mst_slice_of("123456789", i));

        assert_int_equal(mst_crc_of(&crc, part, mst_slice_of(&"123456789"[i], 9 - i)), whole);
    }
}

static void names_say_which_file_it_is(void **state)
{
    char name[MST_FILE_NAME_ROOM];
    enum mst_file_kind kind;
    uint64_t sequence;

    (void)state;
    mst_file_name(name, MST_FILE_SNAPSHOT, 1234567890);
    assert_string_equal(name, "1234567890.snapshot");
    assert_true(mst_file_name_read(name, &kind, &sequence));
    assert_true(kind == MST_FILE_SNAPSHOT && sequence == 1234567890);
    assert_false(mst_file_name_read("0000000001.snapshot.old", &kind, &sequence));
    assert_false(mst_file_name_read("0000000000.journal", &kind, &sequence));
    assert_true(mst_file_name_read("8999999999.journal", &kind, &sequence));
    assert_false(mst_file_name_read("9000000000.journal", &kind, &sequence)); /* no room behind */
    assert_false(mst_file_name_read("lock", &kind, &sequence));
    assert_false(mst_file_name_read("0000000001.record", &kind, &sequence));
    assert_true(mst_record_name_read("0000000001.record", &sequence));
    assert_false(mst_record_name_read("0000000001.journal", &sequence));
    assert_false(mst_file_name_read("00000000x1.journal", &kind, &sequence));
}

/* ---- recovery ---- */

static void a_replay_comes_to_the_state_that_was_there(void **state)
{
    struct stage stage, copy;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    stage_init_copy(&copy, &stage);
    assert_int_equal(stage_begin(&copy), MUSTER_OK);
    assert_int_equal(mst_core_resume(stage.core, stage.now_ns, &stage.config.core), MUSTER_OK);
    assert_int_equal(mst_core_resume(copy.core, stage.now_ns, &stage.config.core), MUSTER_OK);
    mst_core_check(copy.core);
    assert_true(mst_core_kept_digest(copy.core) == mst_core_kept_digest(stage.core));
    assert_true(mst_journal_recovery(copy.journal)->records >= 8);
    copy.now_ns = stage.now_ns;
    assert_string_equal(stage_recovered_value(&copy), "012345");
    stage_fini(&copy);
    stage_fini(&stage);
}

/* A request is written in another way than muster would, its id in two bytes instead of one, or
 * has unknown fields. It is kept as it came; with unknown fields it is kept without them,
 * because a later version would do with them what this one did not. */
static void a_request_is_kept_as_it_came(void **state)
{
    static const unsigned char bytes[] = {8, 0x87, 0, 16, 7, 0xb2, 1,  10, 0x12,
                                          8, 8,    5, 26, 1, 'k',  34, 1,  '6'};
    const struct mst_write op = {.kind = MST_APPEND, .key = {"k", 1}, .value = {"6", 1}};
    struct mst_request request = {.command = MST_WRITE,
                                  .bytes = mst_slice_of(bytes, sizeof bytes),
                                  .write = {.ops = &op, .count = 1}};
    const struct fake_file *file;
    struct stage stage, copy;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    assert_int_equal(stage_ask(&stage, request), MUSTER_OK);
    assert_int_equal(stage.id, 7);
    file = fake_disk_find(&stage.disk, stage_first_file);
    assert_non_null(memmem(file->bytes, file->size, bytes, sizeof bytes));
    stage_init_copy(&copy, &stage);
    assert_int_equal(stage_begin(&copy), MUSTER_OK);
    copy.now_ns = stage.now_ns;
    assert_string_equal(stage_recovered_value(&copy), "0123456");
    stage_fini(&copy);
    stage_fini(&stage);
}

/* A journal's file ends anywhere. The torn tail is cut; everything before it is there. */
static void a_file_may_end_anywhere(void **state)
{
    struct stage stage, copy;
    const struct fake_file *file;
    const char *value;
    size_t longest = 0;
    uint64_t end;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    file = fake_disk_find(&stage.disk, stage_first_file);
    for (end = file->size; end > 0 && file->bytes[end - 1] == 0; end--) {
    }
    end += MST_FRAME_ALIGN; /* with what aligns the last frame */
    for (uint64_t cut = 0; cut <= end; cut++) {
        stage_init_copy(&copy, &stage);
        copy.config.core.lease_ns = 5000000000u;
        fake_disk_find(&copy.disk, stage_first_file)->size = cut;
        assert_int_equal(stage_begin(&copy), cut < MST_FILE_HEAD ? MUSTER_EFAILED : MUSTER_OK);
        if (copy.journal) {
            value = stage_recovered_value(&copy);
            assert_true(strlen(value) >= longest); /* more bytes, never less state */
            assert_memory_equal(value, "012345", strlen(value));
            longest = strlen(value);
        }
        stage_fini(&copy);
    }
    assert_int_equal(longest, 6);
    stage_fini(&stage);
}

/* Any byte of a journal is damaged. It does not go unnoticed. */
static void no_damaged_byte_goes_unnoticed(void **state)
{
    struct stage stage, copy;
    const struct fake_file *file;
    unsigned refused = 0, cut = 0;
    uint64_t end;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    file = fake_disk_find(&stage.disk, stage_first_file);
    for (end = file->size; end > 0 && file->bytes[end - 1] == 0; end--) {
    }
    for (uint64_t at = 0; at < end; at++) {
        stage_init_copy(&copy, &stage);
        fake_disk_find(&copy.disk, stage_first_file)->bytes[at] ^= 0x40;
        if (stage_begin(&copy) == MUSTER_OK) {
            const char *value = stage_recovered_value(&copy);

            /* The last frame, or the bytes that align one. */
            assert_true(strcmp(value, "012345") == 0 || strcmp(value, "01234") == 0);
            cut++;
        } else {
            assert_non_null(strstr(copy.err.text, "0000000001.journal is damaged at offset "));
            refused++;
        }
        stage_fini(&copy);
    }
    assert_true(refused > 6 * cut);
    stage_fini(&stage);
}

/* The middle of a journal is damaged. The error says which file and where. */
static void a_damaged_middle_says_where(void **state)
{
    struct stage stage, copy;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    stage_init_copy(&copy, &stage);
    memset(fake_disk_find(&copy.disk, stage_first_file)->bytes + MST_FILE_HEAD, 0, 48);
    assert_int_equal(stage_begin(&copy), MUSTER_EFAILED);
    assert_non_null(strstr(copy.err.text, "cannot recover the state from /fake: 0000000001.journal "
                                          "is damaged at offset 64,"));
    stage_fini(&copy);
    stage_fini(&stage);
}

/* With `--sync` a frame that was never promised is missing before another one. Both are cut. */
static void what_was_not_promised_may_be_missing(void **state)
{
    struct mst_crc crc;
    struct mst_frame_reader reader;
    unsigned char file[512];
    struct mst_slice payload;

    (void)state;
    mst_crc_init(&crc);
    for (int durable = 0; durable < 2; durable++) {
        memset(file, 0, sizeof file);
        memset(file + MST_FRAME_HEAD, 'a', 8);
        mst_frame_write(file, &crc, 5, 0, 8, 0);
        memset(file + 24 + MST_FRAME_HEAD, 'b', 8);
        mst_frame_write(file + 24, &crc, 5, 24, 8, 24);
        memset(file + 48 + MST_FRAME_HEAD, 'c', 8);
        mst_frame_write(file + 48, &crc, 5, 48, 8, durable ? 48 : 24);
        file[24 + MST_FRAME_HEAD] ^= 1;
        reader = (struct mst_frame_reader){
            .crc = &crc, .file = mst_slice_of(file, sizeof file), .sequence = 5};
        assert_int_equal(mst_frame_next(&reader, &payload), MST_FRAME_WHOLE);
        assert_int_equal(mst_frame_next(&reader, &payload),
                         durable ? MST_FRAME_CORRUPT : MST_FRAME_TORN);
    }
}

static void a_frame_of_another_file_or_place_is_none(void **state)
{
    struct mst_crc crc;
    struct mst_frame_reader reader;
    unsigned char file[96];
    struct mst_slice payload;

    (void)state;
    mst_crc_init(&crc);
    memset(file, 0, sizeof file);
    memset(file + MST_FRAME_HEAD, 'a', 8);
    mst_frame_write(file, &crc, 5, 0, 8, 0);
    reader = (struct mst_frame_reader){
        .crc = &crc, .file = mst_slice_of(file, sizeof file), .sequence = 6};
    assert_int_equal(mst_frame_next(&reader, &payload), MST_FRAME_TORN);
    memmove(file + 24, file, 24);
    memset(file, 0, 24);
    reader.sequence = 5;
    reader.offset = 24;
    assert_int_equal(mst_frame_next(&reader, &payload), MST_FRAME_TORN);
}

/* The service begins again and again. Where a file between two others is gone, it does not
 * start. */
static void it_begins_again_and_again(void **state)
{
    struct stage stage;
    char expected[32] = "";

    (void)state;
    stage_init(&stage, true);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(stage_begin(&stage), MUSTER_OK);
        stage_connect(&stage, 100 + i);
        stage.id = 0;
        assert_string_equal(stage_get(&stage, "k"), expected);
        assert_int_equal(stage_append(&stage, "k", "x"), MUSTER_OK);
        expected[i] = 'x';
        stage_die(&stage);
    }
    assert_non_null(fake_disk_find(&stage.disk, "0000000005.journal"));
    /* One in the middle is gone: nothing may be made up. */
    stage.disk.disk.remove(&stage.disk, "0000000003.journal");
    assert_int_equal(stage_begin(&stage), MUSTER_EFAILED);
    assert_non_null(strstr(stage.err.text, "is missing"));
    stage_fini(&stage);
}

/* Some starts without a stop in order, with a snapshot between them: files of every kind. */
static void stage_begin_often(struct stage *stage)
{
    stage_init(stage, false);
    stage->config.records_max = 5;
    stage_write_some(stage);
    assert_true(mst_journal_snapshot_begin(stage->journal));
    assert_int_equal(mst_journal_snapshot_write(stage->journal), MUSTER_OK);
    for (int i = 0; i < 3; i++) {
        stage_die(stage);
        assert_int_equal(stage_begin(stage), MUSTER_OK);
    }
    stage_die(stage);
}

/* A file of the journal was given another name. The service does not start, names both names and
 * changes nothing: what a file means is in its place. */
static void a_file_under_another_name_is_refused(void **state)
{
    static const enum mst_file_kind kinds[] = {MST_FILE_JOURNAL, MST_FILE_SNAPSHOT,
                                               MST_FILE_UNFINISHED};
    struct stage stage;
    unsigned tries = 0;

    (void)state;
    stage_begin_often(&stage);
    for (int at = 0; at < FAKE_FILES; at++) {
        for (uint64_t to = 0; to < UINT64_C(36); to++) {
            char right[MST_FILE_NAME_ROOM], wrong[MST_FILE_NAME_ROOM], before[MST_FILE_NAME_ROOM];
            struct stage copy;

            mst_file_name(wrong, kinds[to % 3], 1 + to / 3);
            mst_file_name(before, MST_FILE_SNAPSHOT, 1 + to / 3);
            if (stage.disk.files[at].name[0] == '\0' || fake_disk_find(&stage.disk, wrong)) {
                continue;
            }
            if (kinds[to % 3] == MST_FILE_UNFINISHED &&
                strcmp(stage.disk.files[at].name, before) == 0) {
                continue; /* as a snapshot is called until it is whole */
            }
            stage_init_copy(&copy, &stage);
            (void)snprintf(right, sizeof right, "%s", copy.disk.files[at].name);
            (void)snprintf(copy.disk.files[at].name, sizeof copy.disk.files[at].name, "%s", wrong);
            assert_int_equal(stage_begin(&copy), MUSTER_EFAILED);
            assert_non_null(strstr(copy.err.text, wrong));
            assert_non_null(strstr(copy.err.text, " holds what belongs to "));
            assert_non_null(strstr(copy.err.text, right));
            for (int i = 0; i < FAKE_FILES; i++) { /* and nothing was changed */
                assert_int_equal(copy.disk.files[i].size, stage.disk.files[i].size);
            }
            stage_fini(&copy);
            tries++;
        }
    }
    assert_true(tries > 100);
    stage_fini(&stage);
}

/* A file has a head that no file has, with the right checksum. It is refused. */
static void a_head_of_no_file_is_refused(void **state)
{
    static const struct mst_file_head heads[] = {
        {.kind = (enum mst_file_kind)0, .sequence = 1},
        {.kind = (enum mst_file_kind)1000000, .sequence = 1},
        {.kind = MST_FILE_UNFINISHED, .sequence = 1},
        {.kind = MST_FILE_JOURNAL, .sequence = UINT64_MAX},
    };
    struct mst_crc crc;

    (void)state;
    mst_crc_init(&crc);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct stage stage;

        stage_begin_often(&stage);
        mst_file_head_write(fake_disk_find(&stage.disk, "0000000003.journal")->bytes, &crc,
                            &heads[i]);
        assert_int_equal(stage_begin(&stage), MUSTER_EFAILED);
        assert_non_null(strstr(stage.err.text, "0000000003.journal has a head that belongs to no"));
        stage_fini(&stage);
    }
}

static unsigned count_files(const struct stage *stage)
{
    unsigned count = 0;

    for (int i = 0; i < FAKE_FILES; i++) {
        count += stage->disk.files[i].name[0] != '\0';
    }
    return count;
}

/* Services without a stop in order have left more than a few files. A snapshot is due, however
 * little happened. */
static void more_than_a_few_files_make_a_snapshot_due(void **state)
{
    struct stage stage;
    unsigned due = 0;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    for (int i = 0; i < 100; i++) {
        stage_die(&stage);
        assert_int_equal(stage_begin(&stage), MUSTER_OK);
        assert_true(count_files(&stage) <= 12);
        if (mst_journal_snapshot_due(stage.journal)) {
            due++;
            assert_true(mst_journal_snapshot_begin(stage.journal));
            assert_int_equal(mst_journal_snapshot_write(stage.journal), MUSTER_OK);
            mst_journal_snapshot_end(stage.journal, true);
            assert_false(mst_journal_snapshot_due(stage.journal));
            assert_int_equal(count_files(&stage), 2);
        }
    }
    assert_true(due >= 8 && due <= 12); /* and not at each start */
    assert_string_equal(stage_recovered_value(&stage), "012345");
    stage_fini(&stage);
}

/* With `--sync` the disk keeps a write before its answer; what promises nothing is not synced. */
static void only_a_promise_is_synced(void **state)
{
    struct stage stage;
    unsigned before;

    (void)state;
    stage_init(&stage, true);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    stage_connect(&stage, 7);
    before = stage.disk.syncs;
    assert_int_equal(stage_append(&stage, "k", "1"), MUSTER_OK);
    assert_int_equal(stage.disk.syncs, before + 1);
    assert_string_equal(stage_get(&stage, "k"), "1");
    assert_int_equal(stage_ask(&stage, (struct mst_request){.command = MST_RENEW}), MUSTER_OK);
    assert_int_equal(stage.disk.syncs, before + 1);
    stage_fini(&stage);
}

/* A service died as soon as it had made a file. The next file is not made before that one has
 * its name, or a host that dies then could lose the one and keep the other. */
static void a_file_has_its_name_before_the_next(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage, true);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    assert_int_equal(stage_append(&stage, "k", "1"), MUSTER_OK);
    stage_die(&stage);
    stage.disk.unnamed = true;
    stage.disk.hasty = false;
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    assert_false(stage.disk.hasty);
    stage_fini(&stage);
}

/* A request was refused for want of memory, and the next service has enough. It stays refused in
 * the replay. */
static void what_was_refused_stays_refused(void **state)
{
    static const struct mst_write op = {
        .kind = MST_APPEND, .key = {"k", 1}, .value = {"0123456789012345678901234567890", 31}};
    struct stage stage, copy;
    unsigned refused = 0;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    for (unsigned n = 1; n < 6; n++) {
        struct mst_request request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};

        request.id = request.oldest = stage.id + 1;
        stage.mem.fail_at = stage.mem.count + n;
        stage.now_ns += STEP_NS;
        if (mst_journal_request(stage.journal, stage.now_ns, (struct mst_conn){stage.conn},
                                &request) == MUSTER_OK) {
            stage.id++;
            (void)stage_turn(&stage);
            refused += stage.last == MUSTER_ENOMEM;
        }
        stage.mem.fail_at = 0;
        stage_init_copy(&copy, &stage);
        assert_int_equal(stage_begin(&copy), MUSTER_OK);
        assert_string_equal(stage_recovered_value(&copy), stage_get(&stage, "k"));
        stage_fini(&copy);
    }
    assert_true(refused > 0);
    stage_fini(&stage);
}

/* A frame whose bytes were changed is whole again. */
static void seal_frame(struct fake_file *file, uint64_t sequence, uint64_t at)
{
    struct mst_crc crc;
    uint32_t payload;

    mst_crc_init(&crc);
    memcpy(&payload, file->bytes + at, sizeof payload);
    mst_frame_write(file->bytes + at, &crc, sequence, at, payload,
                    mst_get_u64(file->bytes + at + 8));
}

/* The next service has other limits, or its version knows others. What is replayed obeys those
 * of then, by their names; an unknown limit is refused. */
static void limits_are_known_by_their_names(void **state)
{
    static const char name[] = "keys_max";
    struct stage stage, copy;
    struct fake_file *file;
    size_t at = 0;

    (void)state;
    stage_init(&stage, false);
    stage.config.core.limits.keys_max = 1;
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    stage_connect(&stage, 7);
    assert_int_equal(stage_append(&stage, "k", "1"), MUSTER_OK);
    assert_int_equal(stage_append(&stage, "l", "1"), MUSTER_ELIMIT);

    stage_init_copy(&copy, &stage); /* with others, from now on */
    copy.config.core.limits = mst_limits_default;
    assert_int_equal(stage_begin(&copy), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(copy.journal)->digest, mst_core_kept_digest(stage.core));
    stage_fini(&copy);

    stage_init_copy(&copy, &stage); /* an unknown one */
    file = fake_disk_find(&copy.disk, stage_first_file);
    while (memcmp(file->bytes + at, name, sizeof name - 1) != 0) {
        assert_true(++at < file->size - sizeof name);
    }
    file->bytes[at] = 'K';
    seal_frame(file, 1, MST_FILE_HEAD + mst_frame_bytes(MST_RECORD_HEAD + 8));
    assert_int_equal(stage_begin(&copy), MUSTER_EFAILED);
    assert_non_null(strstr(copy.err.text, "it makes no sense"));
    stage_fini(&copy);
    stage_fini(&stage);
}

/* Appends a frame that no service writes: whoever damaged the file knew how to seal one. */
static void append_record(struct stage *stage, const struct mst_journal_record *record)
{
    struct fake_file *file = fake_disk_find(&stage->disk, stage_first_file);
    struct mst_crc crc;
    struct mst_frame_reader frames = {
        .crc = &crc, .file = {file->bytes, file->size}, .sequence = 1, .offset = MST_FILE_HEAD};
    struct mst_slice payload;

    mst_crc_init(&crc);
    while (mst_frame_next(&frames, &payload) == MST_FRAME_WHOLE) {
    }
    assert_true(frames.offset + mst_frame_bytes(MST_RECORD_HEAD) <= file->size);
    mst_record_head_write(file->bytes + frames.offset + MST_FRAME_HEAD, record, 0);
    mst_frame_write(file->bytes + frames.offset, &crc, 1, frames.offset, MST_RECORD_HEAD,
                    frames.offset);
}

static void records_that_no_service_writes_are_damage(void **state)
{
    const struct mst_journal_record records[] = {
        {.type = MST_RECORD_OPEN, .now_ns = UINT32_MAX, .conn = 1}, /* it is open already */
        {.type = MST_RECORD_OPEN, .now_ns = UINT32_MAX, .conn = UINT64_MAX},
        {.type = MST_RECORD_TICK, .now_ns = UINT64_MAX}};

    (void)state;
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        struct stage stage;

        stage_init(&stage, false);
        assert_int_equal(stage_begin(&stage), MUSTER_OK);
        stage_connect(&stage, 7);
        assert_int_equal(stage.conn, 1);
        stage_die(&stage);
        append_record(&stage, &records[i]);
        assert_int_equal(stage_begin(&stage), MUSTER_EFAILED);
        assert_non_null(strstr(stage.err.text, "it makes no sense"));
        stage_fini(&stage);
    }
}

/* ---- snapshots ---- */

/* A snapshot is made. It takes the place of the files before. */
static void a_snapshot_takes_the_place_of_what_was_before(void **state)
{
    struct stage stage, copy;

    (void)state;
    stage_init(&stage, false);
    stage.config.records_max = 5;
    stage_write_some(&stage);
    assert_true(mst_journal_snapshot_due(stage.journal));
    assert_true(mst_journal_snapshot_begin(stage.journal));
    assert_int_equal(mst_journal_snapshot_write(stage.journal), MUSTER_OK);
    assert_int_equal(stage_append(&stage, "k", "6"), MUSTER_OK); /* meanwhile */
    mst_journal_snapshot_end(stage.journal, true);
    assert_null(fake_disk_find(&stage.disk, stage_first_file));
    assert_false(mst_journal_snapshot_due(stage.journal));

    stage_init_copy(&copy, &stage);
    assert_int_equal(stage_begin(&copy), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(copy.journal)->snapshot, 2);
    assert_string_equal(stage_recovered_value(&copy), "0123456");
    stage_fini(&copy);

    stage_init_copy(&copy, &stage); /* and a damaged one is refused, not passed over */
    fake_disk_find(&copy.disk, "0000000002.snapshot")->bytes[100] ^= 1;
    assert_int_equal(stage_begin(&copy), MUSTER_EFAILED);
    assert_non_null(strstr(copy.err.text, "snapshot is damaged"));
    stage_fini(&copy);
    stage_fini(&stage);
}

/* Another version left a whole snapshot in a form that this one does not know. The service does
 * not start, and names that version, not damage. */
static void a_snapshot_of_another_form_is_refused_by_name(void **state)
{
    struct stage stage;
    struct fake_file *file;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    assert_int_equal(mst_journal_stop(stage.journal, &stage.err), MUSTER_OK);
    stage_die(&stage);
    file = fake_disk_find(&stage.disk, "0000000002.snapshot");
    assert_non_null(file);
    file->bytes[MST_FILE_HEAD + MST_FRAME_HEAD + MST_RECORD_HEAD + 8] ^= 0x40; /* the form */
    seal_frame(file, 2, MST_FILE_HEAD);
    assert_int_equal(stage_begin(&stage), MUSTER_EFAILED);
    assert_non_null(strstr(stage.err.text, "its snapshot was kept by muster "));
    assert_non_null(strstr(stage.err.text, ", and this one cannot read it; go on with that"));
    stage_fini(&stage);
}

/* A file of the journal has a number far from the others. It is removed with those before it;
 * counting up to the number would take for ever. [fuzzing / Fuzzing, races, leaks] */
static void files_that_are_far_apart_are_removed(void **state)
{
    struct stage stage;
    int file;

    (void)state;
    stage_init(&stage, false);
    assert_int_equal(stage.disk.disk.create(&stage.disk, "0000000003.snapshot.tmp", &file),
                     MUSTER_OK);
    assert_int_equal(stage.disk.disk.create(&stage.disk, "8000000000.journal", &file), MUSTER_OK);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    assert_non_null(fake_disk_find(&stage.disk, "8000000001.snapshot"));
    assert_non_null(fake_disk_find(&stage.disk, "8000000001.journal"));
    assert_null(fake_disk_find(&stage.disk, "8000000000.journal"));
    assert_null(fake_disk_find(&stage.disk, "0000000003.snapshot.tmp"));
    stage_fini(&stage);
}

/* The snapshot could not be written. It is tried again later, and recovery takes the files
 * before it. */
static void a_snapshot_that_was_not_written_is_not_missed(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage, false);
    stage.config.records_max = 5;
    stage_write_some(&stage);
    assert_true(mst_journal_snapshot_begin(stage.journal));
    assert_int_equal(stage_append(&stage, "k", "6"), MUSTER_OK);
    mst_journal_snapshot_end(stage.journal, false);
    assert_false(mst_journal_snapshot_due(stage.journal)); /* not at once again */
    stage_die(&stage);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(stage.journal)->snapshot, 1);
    assert_string_equal(stage_recovered_value(&stage), "0123456");
    assert_true(mst_journal_snapshot_due(stage.journal)); /* what was replayed counts */
    stage_fini(&stage);
}

/* A service stops in order. It leaves a snapshot. */
static void a_stop_in_order_leaves_a_snapshot(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage, true);
    stage_write_some(&stage);
    assert_int_equal(mst_journal_stop(stage.journal, &stage.err), MUSTER_OK);
    stage_die(&stage);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(stage.journal)->records, 0);
    assert_string_equal(stage_recovered_value(&stage), "012345");
    stage_fini(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_crc32c),
        cmocka_unit_test(names_say_which_file_it_is),
        cmocka_unit_test(a_replay_comes_to_the_state_that_was_there),
        cmocka_unit_test(a_request_is_kept_as_it_came),
        cmocka_unit_test(a_file_may_end_anywhere),
        cmocka_unit_test(no_damaged_byte_goes_unnoticed),
        cmocka_unit_test(a_damaged_middle_says_where),
        cmocka_unit_test(what_was_not_promised_may_be_missing),
        cmocka_unit_test(a_frame_of_another_file_or_place_is_none),
        cmocka_unit_test(it_begins_again_and_again),
        cmocka_unit_test(a_file_under_another_name_is_refused),
        cmocka_unit_test(a_head_of_no_file_is_refused),
        cmocka_unit_test(more_than_a_few_files_make_a_snapshot_due),
        cmocka_unit_test(only_a_promise_is_synced),
        cmocka_unit_test(a_file_has_its_name_before_the_next),
        cmocka_unit_test(what_was_refused_stays_refused),
        cmocka_unit_test(limits_are_known_by_their_names),
        cmocka_unit_test(records_that_no_service_writes_are_damage),
        cmocka_unit_test(a_snapshot_takes_the_place_of_what_was_before),
        cmocka_unit_test(a_snapshot_of_another_form_is_refused_by_name),
        cmocka_unit_test(files_that_are_far_apart_are_removed),
        cmocka_unit_test(a_snapshot_that_was_not_written_is_not_missed),
        cmocka_unit_test(a_stop_in_order_leaves_a_snapshot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
