/* SPDX-License-Identifier: Apache-2.0 */
/* The journal on a disk in memory: what is recovered after any cut and any damaged byte, a full
 * disk, a failing one, snapshots, and that a replay comes to the state that was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/snapshot.h"
#include "failing_mem.h"
#include "journal/format.h"
#include "journal/journal.h"
#include "journal_disk_fake.h"

enum { STEP_NS = 1000000, CHUNK = 8192 };

static const char *const first_file = "0000000001.journal";

struct stage {
    struct fake_disk disk;
    struct mst_journal_config config;
    struct mst_journal *journal;
    struct mst_core *core;
    struct failing_mem mem;
    uint64_t now_ns, conn, id;
    unsigned replies;
    muster_status last; /* of the last one */
    uint64_t revision;
    char value[512];
    char told[1024];
    struct muster_error err;
};

static void on_tell(void *ctx, enum mst_level level, const char *line)
{
    struct stage *stage = ctx;
    size_t size = strlen(stage->told);

    (void)level;
    (void)snprintf(stage->told + size, sizeof stage->told - size, "%s\n", line);
}

static struct mst_journal_config config_of(struct stage *stage, bool sync)
{
    return (struct mst_journal_config){
        .core = {.lease_ns = 10000000000u, .limits = mst_limits_default},
        .version = "0.1.0",
        .sync = sync,
        .chunk_bytes = CHUNK,
        .tell = on_tell,
        .tell_ctx = stage};
}

static muster_status begin(struct stage *stage)
{
    muster_status status = mst_journal_open(&stage->journal, &stage->core, &stage->disk.disk,
                                            &stage->config, &stage->mem.mem, &stage->err);

    if (status == MUSTER_OK) {
        stage->now_ns = mst_journal_time_ns(stage->journal);
        stage->conn = mst_journal_last_conn(stage->journal);
    } else {
        stage->journal = NULL;
        stage->core = NULL;
    }
    return status;
}

static void init(struct stage *stage, bool sync)
{
    memset(stage, 0, sizeof *stage);
    fake_disk_init(&stage->disk);
    failing_mem_init(&stage->mem, 0);
    stage->config = config_of(stage, sync);
}

/* Another service on a copy of the disk, as it is. */
static void init_copy(struct stage *copy, const struct stage *stage)
{
    memset(copy, 0, sizeof *copy);
    fake_disk_copy(&copy->disk, &stage->disk);
    failing_mem_init(&copy->mem, 0);
    copy->config = stage->config;
    copy->config.tell_ctx = copy;
}

static void die(struct stage *stage)
{
    mst_core_free(stage->core);
    mst_journal_free(stage->journal);
    stage->core = NULL;
    stage->journal = NULL;
}

static void fini(struct stage *stage)
{
    die(stage);
    fake_disk_fini(&stage->disk);
    assert_int_equal(stage->mem.live, 0);
}

static void drain(struct stage *stage)
{
    const struct mst_effect *effect;

    while ((effect = mst_core_next(stage->core))) {
        if (effect->type == MST_EFFECT_REPLY) {
            stage->replies++;
            stage->last = effect->reply->status;
            if (effect->reply->revision > 0) {
                stage->revision = effect->reply->revision;
            }
            if (effect->reply->value.size > 0 && effect->reply->value.size < sizeof stage->value) {
                memcpy(stage->value, effect->reply->value.data, effect->reply->value.size);
                stage->value[effect->reply->value.size] = '\0';
            }
        }
        mst_core_done(stage->core, effect);
    }
}

static muster_status turn(struct stage *stage)
{
    muster_status status;

    stage->now_ns += STEP_NS;
    mst_journal_tick(stage->journal, stage->now_ns);
    status = mst_journal_commit(stage->journal, &stage->err);
    drain(stage);
    return status;
}

static muster_status ask(struct stage *stage, struct mst_request request)
{
    stage->now_ns += STEP_NS;
    request.id = request.command == MST_OPEN ? 1 : ++stage->id;
    request.oldest = request.id;
    assert_int_equal(mst_journal_request(stage->journal, stage->now_ns,
                                         (struct mst_conn){stage->conn}, &request),
                     MUSTER_OK);
    (void)turn(stage);
    return stage->last;
}

static void connect(struct stage *stage, uint64_t token)
{
    struct mst_request open = {.command = MST_OPEN,
                               .open = {.token = {token, token},
                                        .job = mst_slice_text("job"),
                                        .host = mst_slice_text("b3")}};

    stage->conn++;
    assert_int_equal(
        mst_journal_conn_open(stage->journal, stage->now_ns, (struct mst_conn){stage->conn}),
        MUSTER_OK);
    assert_int_equal(ask(stage, open), MUSTER_OK);
}

static muster_status append(struct stage *stage, const char *key, const char *value)
{
    const struct mst_write op = {
        .kind = MST_APPEND, .key = mst_slice_text(key), .value = mst_slice_text(value)};

    return ask(stage,
               (struct mst_request){.command = MST_WRITE, .write = {.ops = &op, .count = 1}});
}

static const char *get(struct stage *stage, const char *key)
{
    stage->value[0] = '\0';
    (void)ask(stage, (struct mst_request){.command = MST_GET, .get = {.key = mst_slice_text(key)}});
    return stage->value;
}

/* Six appends in six turns. */
static void write_some(struct stage *stage)
{
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5"};

    assert_int_equal(begin(stage), MUSTER_OK);
    connect(stage, 7);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(append(stage, "k", digits[i]), MUSTER_OK);
    }
}

static const char *recovered_value(struct stage *stage)
{
    connect(stage, 99);
    stage->id = 0;
    return get(stage, "k");
}

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
    assert_false(mst_file_name_read("lock", &kind, &sequence));
    assert_false(mst_file_name_read("00000000x1.journal", &kind, &sequence));
}

/* ---- recovery ---- */

static void a_replay_comes_to_the_state_that_was_there(void **state)
{
    struct stage stage, copy;

    (void)state;
    init(&stage, false);
    write_some(&stage);
    init_copy(&copy, &stage);
    assert_int_equal(begin(&copy), MUSTER_OK);
    assert_int_equal(mst_core_resume(stage.core, stage.now_ns, &stage.config.core), MUSTER_OK);
    assert_int_equal(mst_core_resume(copy.core, stage.now_ns, &stage.config.core), MUSTER_OK);
    mst_core_check(copy.core);
    assert_true(mst_core_kept_digest(copy.core) == mst_core_kept_digest(stage.core));
    assert_true(mst_journal_recovery(copy.journal)->records >= 8);
    copy.now_ns = stage.now_ns;
    assert_string_equal(recovered_value(&copy), "012345");
    fini(&copy);
    fini(&stage);
}

static void a_file_may_end_anywhere(void **state)
{
    struct stage stage, copy;
    const struct fake_file *file;
    const char *value;
    size_t longest = 0;
    uint64_t end;

    (void)state;
    init(&stage, false);
    write_some(&stage);
    file = fake_disk_find(&stage.disk, first_file);
    for (end = file->size; end > 0 && file->bytes[end - 1] == 0; end--) {
    }
    end += MST_FRAME_ALIGN; /* with what aligns the last frame */
    for (uint64_t cut = 0; cut <= end; cut++) {
        init_copy(&copy, &stage);
        copy.config.core.lease_ns = 5000000000u;
        fake_disk_find(&copy.disk, first_file)->size = cut;
        assert_int_equal(begin(&copy), cut < MST_FILE_HEAD ? MUSTER_EFAILED : MUSTER_OK);
        if (copy.journal) {
            value = recovered_value(&copy);
            assert_true(strlen(value) >= longest); /* more bytes, never less state */
            assert_memory_equal(value, "012345", strlen(value));
            longest = strlen(value);
        }
        fini(&copy);
    }
    assert_int_equal(longest, 6);
    fini(&stage);
}

static void no_damaged_byte_goes_unnoticed(void **state)
{
    struct stage stage, copy;
    const struct fake_file *file;
    unsigned refused = 0, cut = 0;
    uint64_t end;

    (void)state;
    init(&stage, false);
    write_some(&stage);
    file = fake_disk_find(&stage.disk, first_file);
    for (end = file->size; end > 0 && file->bytes[end - 1] == 0; end--) {
    }
    for (uint64_t at = 0; at < end; at++) {
        init_copy(&copy, &stage);
        fake_disk_find(&copy.disk, first_file)->bytes[at] ^= 0x40;
        if (begin(&copy) == MUSTER_OK) {
            const char *value = recovered_value(&copy);

            /* The last frame, or the bytes that align one. */
            assert_true(strcmp(value, "012345") == 0 || strcmp(value, "01234") == 0);
            cut++;
        } else {
            assert_non_null(strstr(copy.err.text, "0000000001.journal is damaged at offset "));
            refused++;
        }
        fini(&copy);
    }
    assert_true(refused > 6 * cut);
    fini(&stage);
}

static void a_damaged_middle_says_where(void **state)
{
    struct stage stage, copy;

    (void)state;
    init(&stage, false);
    write_some(&stage);
    init_copy(&copy, &stage);
    memset(fake_disk_find(&copy.disk, first_file)->bytes + MST_FILE_HEAD, 0, 48);
    assert_int_equal(begin(&copy), MUSTER_EFAILED);
    assert_non_null(strstr(copy.err.text, "cannot recover the state from /fake: 0000000001.journal "
                                          "is damaged at offset 64,"));
    fini(&copy);
    fini(&stage);
}

/* With --sync a frame that was never promised may be missing although a later one is there. */
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

static void it_begins_again_and_again(void **state)
{
    struct stage stage;
    char expected[32] = "";

    (void)state;
    init(&stage, true);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(begin(&stage), MUSTER_OK);
        connect(&stage, 100 + i);
        stage.id = 0;
        assert_string_equal(get(&stage, "k"), expected);
        assert_int_equal(append(&stage, "k", "x"), MUSTER_OK);
        expected[i] = 'x';
        die(&stage);
    }
    assert_non_null(fake_disk_find(&stage.disk, "0000000005.journal"));
    /* One in the middle is gone: nothing may be made up. */
    stage.disk.disk.remove(&stage.disk, "0000000003.journal");
    assert_int_equal(begin(&stage), MUSTER_EFAILED);
    assert_non_null(strstr(stage.err.text, "is missing"));
    fini(&stage);
}

static void only_a_promise_is_synced(void **state)
{
    struct stage stage;
    unsigned before;

    (void)state;
    init(&stage, true);
    assert_int_equal(begin(&stage), MUSTER_OK);
    connect(&stage, 7);
    before = stage.disk.syncs;
    assert_int_equal(append(&stage, "k", "1"), MUSTER_OK);
    assert_int_equal(stage.disk.syncs, before + 1);
    assert_string_equal(get(&stage, "k"), "1");
    assert_int_equal(ask(&stage, (struct mst_request){.command = MST_RENEW}), MUSTER_OK);
    assert_int_equal(stage.disk.syncs, before + 1);
    fini(&stage);
}

/* It died as soon as it had made a file: the next one is not made before that has its name, or a
 * host that dies then could lose the one and keep the other. */
static void a_file_has_its_name_before_the_next(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, true);
    assert_int_equal(begin(&stage), MUSTER_OK);
    assert_int_equal(append(&stage, "k", "1"), MUSTER_OK);
    die(&stage);
    stage.disk.unnamed = true;
    stage.disk.hasty = false;
    assert_int_equal(begin(&stage), MUSTER_OK);
    assert_false(stage.disk.hasty);
    fini(&stage);
}

/* A replay has memory where there was none before, and must not carry out what was refused. */
static void what_was_refused_stays_refused(void **state)
{
    static const struct mst_write op = {
        .kind = MST_APPEND, .key = {"k", 1}, .value = {"0123456789012345678901234567890", 31}};
    struct stage stage, copy;
    unsigned refused = 0;

    (void)state;
    init(&stage, false);
    write_some(&stage);
    for (unsigned n = 1; n < 6; n++) {
        struct mst_request request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};

        request.id = request.oldest = stage.id + 1;
        stage.mem.fail_at = stage.mem.count + n;
        stage.now_ns += STEP_NS;
        if (mst_journal_request(stage.journal, stage.now_ns, (struct mst_conn){stage.conn},
                                &request) == MUSTER_OK) {
            stage.id++;
            (void)turn(&stage);
            refused += stage.last == MUSTER_ENOMEM;
        }
        stage.mem.fail_at = 0;
        init_copy(&copy, &stage);
        assert_int_equal(begin(&copy), MUSTER_OK);
        assert_string_equal(recovered_value(&copy), get(&stage, "k"));
        fini(&copy);
    }
    assert_true(refused > 0);
    fini(&stage);
}

/* The frame behind the first record, whose bytes were changed, is whole again. */
static void seal_second_frame(struct fake_file *file)
{
    struct mst_crc crc;
    uint64_t at = MST_FILE_HEAD + mst_frame_bytes(MST_RECORD_HEAD + 8);
    uint32_t payload;

    mst_crc_init(&crc);
    memcpy(&payload, file->bytes + at, sizeof payload);
    mst_frame_write(file->bytes + at, &crc, 1, at, payload, mst_get_u64(file->bytes + at + 8));
}

/* The limits of a service are part of its inputs: what was refused must be refused again. They are
 * found by name, so one that is moved, or that only another version knows, is no other. */
static void limits_are_known_by_their_names(void **state)
{
    static const char name[] = "keys_max";
    struct stage stage, copy;
    struct fake_file *file;
    size_t at = 0;

    (void)state;
    init(&stage, false);
    stage.config.core.limits.keys_max = 1;
    assert_int_equal(begin(&stage), MUSTER_OK);
    connect(&stage, 7);
    assert_int_equal(append(&stage, "k", "1"), MUSTER_OK);
    assert_int_equal(append(&stage, "l", "1"), MUSTER_ELIMIT);

    init_copy(&copy, &stage); /* with others, from now on */
    copy.config.core.limits = mst_limits_default;
    assert_int_equal(begin(&copy), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(copy.journal)->digest, mst_core_kept_digest(stage.core));
    fini(&copy);

    init_copy(&copy, &stage); /* an unknown one */
    file = fake_disk_find(&copy.disk, first_file);
    while (memcmp(file->bytes + at, name, sizeof name - 1) != 0) {
        assert_true(++at < file->size - sizeof name);
    }
    file->bytes[at] = 'K';
    seal_second_frame(file);
    assert_int_equal(begin(&copy), MUSTER_EFAILED);
    assert_non_null(strstr(copy.err.text, "it makes no sense"));
    fini(&copy);
    fini(&stage);
}

/* ---- snapshots ---- */

static void a_snapshot_takes_the_place_of_what_was_before(void **state)
{
    struct stage stage, copy;

    (void)state;
    init(&stage, false);
    stage.config.records_max = 5;
    write_some(&stage);
    assert_true(mst_journal_snapshot_due(stage.journal));
    assert_true(mst_journal_snapshot_begin(stage.journal));
    assert_int_equal(mst_journal_snapshot_write(stage.journal), MUSTER_OK);
    assert_int_equal(append(&stage, "k", "6"), MUSTER_OK); /* meanwhile */
    mst_journal_snapshot_end(stage.journal, true);
    assert_null(fake_disk_find(&stage.disk, first_file));
    assert_false(mst_journal_snapshot_due(stage.journal));

    init_copy(&copy, &stage);
    assert_int_equal(begin(&copy), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(copy.journal)->snapshot, 2);
    assert_string_equal(recovered_value(&copy), "0123456");
    fini(&copy);

    init_copy(&copy, &stage); /* and a damaged one is refused, not passed over */
    fake_disk_find(&copy.disk, "0000000002.snapshot")->bytes[100] ^= 1;
    assert_int_equal(begin(&copy), MUSTER_EFAILED);
    assert_non_null(strstr(copy.err.text, "snapshot is damaged"));
    fini(&copy);
    fini(&stage);
}

static void a_snapshot_that_was_not_written_is_not_missed(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, false);
    stage.config.records_max = 5;
    write_some(&stage);
    assert_true(mst_journal_snapshot_begin(stage.journal));
    assert_int_equal(append(&stage, "k", "6"), MUSTER_OK);
    mst_journal_snapshot_end(stage.journal, false);
    assert_false(mst_journal_snapshot_due(stage.journal)); /* not at once again */
    die(&stage);
    assert_int_equal(begin(&stage), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(stage.journal)->snapshot, 1);
    assert_string_equal(recovered_value(&stage), "0123456");
    assert_true(mst_journal_snapshot_due(stage.journal)); /* what was replayed counts */
    fini(&stage);
}

static void a_stop_in_order_leaves_a_snapshot(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, true);
    write_some(&stage);
    assert_int_equal(mst_journal_stop(stage.journal, &stage.err), MUSTER_OK);
    die(&stage);
    assert_int_equal(begin(&stage), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(stage.journal)->records, 0);
    assert_string_equal(recovered_value(&stage), "012345");
    fini(&stage);
}

/* ---- a full disk, a failing disk ---- */

static unsigned files_on(const struct fake_disk *disk)
{
    unsigned count = 0;

    for (int i = 0; i < FAKE_FILES; i++) {
        count += disk->files[i].name[0] != '\0';
    }
    return count;
}

static uint64_t bytes_on(const struct fake_disk *disk)
{
    uint64_t sum = 0;

    for (int i = 0; i < FAKE_FILES; i++) {
        sum += disk->files[i].size;
    }
    return sum;
}

/* Fills the disk until the core is held. */
static void fill(struct stage *stage)
{
    char value[512];

    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    stage->disk.room = (uint64_t)4 * CHUNK;
    for (unsigned i = 0; append(stage, "k", value) == MUSTER_OK; i++) {
        assert_true(i < 200);
    }
    assert_non_null(mst_journal_held(stage->journal));
}

static void a_full_disk_refuses_and_goes_on(void **state)
{
    struct stage stage, copy;

    (void)state;
    init(&stage, false);
    assert_int_equal(begin(&stage), MUSTER_OK);
    connect(&stage, 7);
    fill(&stage);
    assert_int_equal(stage.last, MUSTER_ENOSPACE);
    assert_non_null(strstr(stage.told,
                           "journal-full dir=/fake reason=\"the journal's disk is full: "
                           "/fake/0000000001.journal: no room"));
    assert_int_equal(ask(&stage, (struct mst_request){.command = MST_RENEW}), MUSTER_OK);

    init_copy(&copy, &stage); /* it dies there: the state is the one before */
    copy.disk.room = UINT64_MAX / 2;
    assert_int_equal(begin(&copy), MUSTER_OK);
    connect(&copy, 99);
    fini(&copy);

    stage.disk.room = UINT64_MAX / 2;
    stage.now_ns += 1100000000;
    assert_int_equal(turn(&stage), MUSTER_OK);
    assert_null(mst_journal_held(stage.journal));
    assert_non_null(strstr(stage.told, "journal-has-room-again"));
    assert_int_equal(append(&stage, "l", "1"), MUSTER_OK);
    die(&stage);
    assert_int_equal(begin(&stage), MUSTER_OK);
    connect(&stage, 98);
    stage.id = 0;
    assert_string_equal(get(&stage, "l"), "1");
    fini(&stage);
}

/* There is room for a file and not for what it needs: it is tried every second, for hours. */
static void a_try_that_fails_leaves_nothing(void **state)
{
    struct stage stage;
    unsigned files;
    uint64_t bytes;

    (void)state;
    init(&stage, false);
    assert_int_equal(begin(&stage), MUSTER_OK);
    connect(&stage, 7);
    fill(&stage);
    stage.disk.room = bytes_on(&stage.disk) + CHUNK + 64;
    files = files_on(&stage.disk);
    for (unsigned i = 0; i < 40; i++) {
        stage.now_ns += 1100000000;
        assert_int_equal(ask(&stage, (struct mst_request){.command = MST_RENEW}), MUSTER_OK);
        assert_non_null(mst_journal_held(stage.journal));
        assert_int_equal(files_on(&stage.disk), files);
        bytes = i == 0 ? bytes_on(&stage.disk) : bytes; /* the old file's reserve was given back */
        assert_int_equal(bytes_on(&stage.disk), bytes);
    }
    stage.disk.room = UINT64_MAX / 2;
    stage.now_ns += 1100000000;
    assert_int_equal(turn(&stage), MUSTER_OK);
    assert_null(mst_journal_held(stage.journal));
    assert_int_equal(append(&stage, "l", "1"), MUSTER_OK);
    die(&stage);
    assert_int_equal(begin(&stage), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(stage.journal)->snapshot, 2);
    fini(&stage);
}

/* A value that fills a small disk soon: appends it `count` times, or until the journal was ended.
 */
static unsigned append_until_ended(struct stage *stage, unsigned count)
{
    char value[512];
    unsigned i = 0;

    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    stage->config.go_on_when_full = true;
    stage->disk.room = (uint64_t)4 * CHUNK;
    assert_int_equal(begin(stage), MUSTER_OK);
    connect(stage, 7);
    while (i < count && !strstr(stage->told, "journal-ended")) {
        assert_int_equal(append(stage, "k", value), MUSTER_OK);
        i++;
    }
    return i;
}

static void a_journal_that_was_given_up_is_not_believed(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, false);
    assert_true(append_until_ended(&stage, 100) < 100);
    assert_int_equal(append(&stage, "k", "and it goes on"), MUSTER_OK);
    assert_non_null(strstr(stage.told, "journal-ended dir=/fake"));
    die(&stage);
    stage.disk.room = UINT64_MAX / 2;
    assert_int_equal(begin(&stage), MUSTER_OK);
    assert_true(mst_journal_recovery(stage.journal)->lost);
    assert_string_equal(recovered_value(&stage), "");
    fini(&stage);
}

/* Its end must be in it, or the next service would believe it. */
static void a_journal_whose_end_cannot_be_written_is_a_failure(void **state)
{
    struct stage stage;
    char value[512];
    unsigned count;

    (void)state;
    init(&stage, true);
    count = append_until_ended(&stage, 100);
    assert_true(count < 100);
    fini(&stage);

    init(&stage, true);
    (void)append_until_ended(&stage, count - 1);
    stage.disk.sync_fail_at = stage.disk.syncs + 1;
    stage.disk.sync_fails = MUSTER_EFAILED;
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    (void)append(&stage, "k", value);
    assert_null(strstr(stage.told, "journal-ended"));
    assert_non_null(strstr(stage.err.text, "the journal cannot be written: /fake/"));
    fini(&stage);
}

static void a_failing_disk_ends_everything(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, false);
    write_some(&stage);
    stage.disk.fail_at = stage.disk.writes + 1;
    (void)append(&stage, "k", "6");
    assert_non_null(strstr(stage.err.text, "the journal cannot be written: "
                                           "/fake/0000000001.journal: a bad sector"));
    assert_int_equal(turn(&stage), MUSTER_EFAILED); /* and stays so */
    fini(&stage);
}

/* The kernel says it once. A second sync would say that all is well. */
static void a_sync_that_failed_is_not_tried_again(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, true);
    stage.config.records_max = 5;
    write_some(&stage);
    assert_int_equal(ask(&stage, (struct mst_request){.command = MST_RENEW}), MUSTER_OK);
    stage.disk.sync_fail_at = stage.disk.syncs + 1;
    stage.disk.sync_fails = MUSTER_ENOSPACE;
    assert_false(mst_journal_snapshot_begin(stage.journal));
    assert_int_equal(mst_journal_commit(stage.journal, &stage.err), MUSTER_EFAILED);
    assert_non_null(strstr(stage.err.text, "/fake/0000000001.journal: it was not written"));
    fini(&stage);
}

static void a_stop_on_a_failing_disk_says_so(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, false);
    write_some(&stage);
    stage.disk.fail_at = stage.disk.writes + 1; /* the head of the next file */
    assert_int_equal(mst_journal_stop(stage.journal, &stage.err), MUSTER_EFAILED);
    assert_non_null(strstr(stage.err.text, "the journal cannot be written: "
                                           "/fake/0000000002.journal: a bad sector"));
    fini(&stage);
}

static void what_was_never_finished_is_cleared_away(void **state)
{
    struct stage stage;
    int file;

    (void)state;
    init(&stage, false);
    stage.config.records_max = 5;
    write_some(&stage);
    die(&stage); /* and the child that wrote this */
    assert_int_equal(stage.disk.disk.create(&stage.disk, "0000000001.snapshot.tmp", &file), 0);
    assert_int_equal(begin(&stage), MUSTER_OK);
    assert_true(mst_journal_snapshot_begin(stage.journal));
    assert_int_equal(mst_journal_snapshot_write(stage.journal), MUSTER_OK);
    mst_journal_snapshot_end(stage.journal, true);
    assert_null(fake_disk_find(&stage.disk, "0000000001.snapshot.tmp"));
    assert_int_equal(files_on(&stage.disk), 2);
    fini(&stage);
}

/* Who came and went while it was held gets a revision when it goes on. A try that fails gives none:
 * whoever was told of it would miss what gets the same one later. */
static void a_try_that_fails_tells_nobody(void **state)
{
    const struct mst_request open = {.command = MST_OPEN,
                                     .open = {.token = {5, 5},
                                              .job = mst_slice_text("job"),
                                              .host = mst_slice_text("b3"),
                                              .role = MST_ROLE_WORKER,
                                              .index = 0}};
    struct stage stage;
    unsigned replies;

    (void)state;
    init(&stage, false);
    assert_int_equal(begin(&stage), MUSTER_OK);
    stage.conn++;
    assert_int_equal(
        mst_journal_conn_open(stage.journal, stage.now_ns, (struct mst_conn){stage.conn}),
        MUSTER_OK);
    assert_int_equal(ask(&stage, open), MUSTER_OK);
    connect(&stage, 7);
    fill(&stage);
    replies = stage.replies;
    (void)ask(&stage, (struct mst_request){.command = MST_WATCH,
                                           .watch = {.kinds = MST_WATCH_MEMBERS,
                                                     .after = stage.revision,
                                                     .node = MST_NODE_NONE}});
    mst_journal_conn_close(stage.journal, stage.now_ns, (struct mst_conn){1});
    stage.disk.room = bytes_on(&stage.disk) + CHUNK + 64;
    for (unsigned i = 0; i < 3; i++) {
        stage.now_ns += 1100000000;
        assert_int_equal(turn(&stage), MUSTER_OK);
        assert_int_equal(stage.replies, replies);
    }
    stage.disk.room = UINT64_MAX / 2;
    stage.now_ns += 1100000000;
    assert_int_equal(turn(&stage), MUSTER_OK);
    assert_int_equal(stage.replies, replies + 1);
    fini(&stage);
}

/* A service that is started again and again on a full disk does not fill it further. */
static void a_beginning_without_room_leaves_nothing(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, false);
    stage.disk.room = CHUNK + 64;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(begin(&stage), MUSTER_EFAILED);
        assert_non_null(strstr(stage.err.text, "/fake/0000000001.snapshot.tmp: no room"));
        assert_int_equal(files_on(&stage.disk), 0);
    }
    stage.disk.room = UINT64_MAX / 2;
    assert_int_equal(begin(&stage), MUSTER_OK);
    fini(&stage);
}

static void a_recovery_without_memory_fails_whole(void **state)
{
    struct stage stage, copy;
    bool done = false;

    (void)state;
    init(&stage, false);
    write_some(&stage);
    for (unsigned n = 1; !done; n++) {
        init_copy(&copy, &stage);
        copy.mem.fail_at = n;
        done = begin(&copy) == MUSTER_OK;
        if (!done) {
            assert_true(copy.mem.failed);
            assert_true(copy.err.status == MUSTER_ENOMEM || copy.err.status == MUSTER_EFAILED);
            assert_non_null(strstr(copy.err.text, "memory"));
        }
        fini(&copy);
    }
    fini(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_crc32c),
        cmocka_unit_test(names_say_which_file_it_is),
        cmocka_unit_test(a_replay_comes_to_the_state_that_was_there),
        cmocka_unit_test(a_file_may_end_anywhere),
        cmocka_unit_test(no_damaged_byte_goes_unnoticed),
        cmocka_unit_test(a_damaged_middle_says_where),
        cmocka_unit_test(what_was_not_promised_may_be_missing),
        cmocka_unit_test(a_frame_of_another_file_or_place_is_none),
        cmocka_unit_test(it_begins_again_and_again),
        cmocka_unit_test(only_a_promise_is_synced),
        cmocka_unit_test(a_file_has_its_name_before_the_next),
        cmocka_unit_test(what_was_refused_stays_refused),
        cmocka_unit_test(limits_are_known_by_their_names),
        cmocka_unit_test(a_snapshot_takes_the_place_of_what_was_before),
        cmocka_unit_test(a_snapshot_that_was_not_written_is_not_missed),
        cmocka_unit_test(a_stop_in_order_leaves_a_snapshot),
        cmocka_unit_test(what_was_never_finished_is_cleared_away),
        cmocka_unit_test(a_full_disk_refuses_and_goes_on),
        cmocka_unit_test(a_try_that_fails_leaves_nothing),
        cmocka_unit_test(a_try_that_fails_tells_nobody),
        cmocka_unit_test(a_beginning_without_room_leaves_nothing),
        cmocka_unit_test(a_journal_that_was_given_up_is_not_believed),
        cmocka_unit_test(a_journal_whose_end_cannot_be_written_is_a_failure),
        cmocka_unit_test(a_failing_disk_ends_everything),
        cmocka_unit_test(a_sync_that_failed_is_not_tried_again),
        cmocka_unit_test(a_stop_on_a_failing_disk_says_so),
        cmocka_unit_test(a_recovery_without_memory_fails_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
