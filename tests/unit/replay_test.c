/* SPDX-License-Identifier: Apache-2.0 */
/* What a core is fed, recorded and replayed: the same story and the same digest, as far as the file
 * goes; and what is damaged, foreign or out of memory is told.
 *
 * behaviour: record / What cannot be replayed */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "service/core/snapshot.h"
#include "service/journal/journal.h"
#include "service/journal/recorder.h"
#include "service/journal/replay.h"

enum { STEP_NS = 1000000, FILE_ROOM = 1 << 20, STORY_ROOM = 8192 };

static const uint64_t wall_ns = 1795000000123456789u;

/* A core whose inputs are recorded, and what it told. */
struct stage {
    struct failing_mem mem, own; /* the recorder's, the core's */
    struct mst_journal *journal;
    struct mst_core *core;
    struct mst_recorder *recorder;
    uint64_t now_ns, id;
    size_t room; /* of the file; what goes beyond does not fit */
    size_t size;
    unsigned char file[FILE_ROOM];
    char story[STORY_ROOM];
    bool begun;
    struct mst_replayed about;
    struct muster_error err;
};

static void on_trace(void *ctx, const struct mst_trace *line)
{
    struct stage *stage = ctx;
    size_t size = strlen(stage->story);

    (void)snprintf(stage->story + size, sizeof stage->story - size, "%u %u %.*s: %s\n",
                   (unsigned)(line->now_ns / STEP_NS), (unsigned)line->level, (int)line->job.size,
                   (const char *)line->job.data, line->text);
}

static bool put(void *ctx, struct mst_slice bytes)
{
    struct stage *stage = ctx;

    if (bytes.size > stage->room - stage->size) {
        return false;
    }
    memcpy(stage->file + stage->size, bytes.data, bytes.size);
    stage->size += bytes.size;
    return true;
}

static void drain(struct stage *stage)
{
    const struct mst_effect *effect;

    while ((effect = mst_core_next(stage->core))) {
        mst_core_done(stage->core, effect);
    }
}

static void turn(struct stage *stage)
{
    stage->now_ns += STEP_NS;
    mst_journal_tick(stage->journal, stage->now_ns);
    drain(stage);
    if (stage->recorder) {
        mst_recorder_flush(stage->recorder);
    }
}

static struct mst_core_config born_with(struct stage *stage)
{
    return (struct mst_core_config){.lease_ns = 10000000000u,
                                    .limits = mst_limits_default,
                                    .trace = on_trace,
                                    .trace_ctx = stage};
}

static void open_core(struct stage *stage)
{
    const struct mst_journal_config config = {.core = born_with(stage), .version = "0.1.0"};

    failing_mem_init(&stage->own, 0);
    assert_int_equal(
        mst_journal_open(&stage->journal, &stage->core, NULL, &config, &stage->own.mem, NULL),
        MUSTER_OK);
    stage->now_ns = STEP_NS;
}

static muster_status record(struct stage *stage, size_t fail_at)
{
    const struct mst_core_config fresh = born_with(stage);
    const struct mst_recorder_config config = {.version = "0.1.0",
                                               .fresh = stage->id > 0 ? NULL : &fresh,
                                               .sequence = 3,
                                               .wall_ns = wall_ns,
                                               .now_ns = stage->now_ns,
                                               .put = put,
                                               .put_ctx = stage};
    struct mst_input_listener listener;
    muster_status status;

    failing_mem_init(&stage->mem, fail_at);
    status = mst_recorder_new(&stage->recorder, &config, stage->core, &stage->mem.mem);
    if (status == MUSTER_OK) {
        listener = mst_recorder_listener(stage->recorder);
        mst_journal_listen(stage->journal, &listener);
    } else {
        stage->recorder = NULL;
    }
    return status;
}

static struct stage *new_stage(void)
{
    struct stage *stage = calloc(1, sizeof *stage);

    assert_non_null(stage);
    stage->room = FILE_ROOM;
    open_core(stage);
    return stage;
}

static void free_stage(struct stage *stage)
{
    mst_recorder_free(stage->recorder);
    mst_core_free(stage->core);
    mst_journal_free(stage->journal);
    assert_int_equal(stage->own.live, 0);
    assert_int_equal(stage->mem.live, 0);
    free(stage);
}

static void ask(struct stage *stage, uint64_t conn, struct mst_request request)
{
    stage->now_ns += STEP_NS;
    request.id = request.command == MST_OPEN ? 1 : ++stage->id;
    request.oldest = request.id;
    assert_true(mst_journal_request(stage->journal, stage->now_ns, (struct mst_conn){conn},
                                    &request) == MUSTER_OK ||
                stage->own.failed);
    turn(stage);
}

/* A rank that joins. */
static void come(struct stage *stage, uint64_t conn)
{
    assert_int_equal(mst_journal_conn_open(stage->journal, stage->now_ns, (struct mst_conn){conn}),
                     MUSTER_OK);
    ask(stage, conn,
        (struct mst_request){.command = MST_OPEN,
                             .open = {.token = {conn, conn},
                                      .role = MST_ROLE_RANK,
                                      .index = (uint32_t)conn % 4,
                                      .size = 4,
                                      .job = mst_slice_text("job"),
                                      .host = mst_slice_text("b3")}});
}

static void append(struct stage *stage, uint64_t conn, const char *value, size_t size)
{
    const struct mst_write op = {
        .kind = MST_APPEND, .key = mst_slice_text("k"), .value = mst_slice_of(value, size)};

    ask(stage, conn, (struct mst_request){.command = MST_WRITE, .write = {.ops = &op, .count = 1}});
}

/* Ranks come, write, go, stay away for longer than a lease. */
static void live(struct stage *stage)
{
    come(stage, 1);
    come(stage, 2);
    append(stage, 1, "0", 1);
    append(stage, 2, "1", 1);
    mst_journal_conn_close(stage->journal, stage->now_ns, (struct mst_conn){1});
    for (unsigned i = 0; i < 12; i++) {
        stage->now_ns += 1000000000u;
        ask(stage, 2, (struct mst_request){.command = MST_RENEW});
    }
    append(stage, 2, "2", 1);
}

static muster_status replay_bytes(struct stage *stage, const unsigned char *bytes, size_t size)
{
    struct mst_replay_config config = {.about = &stage->about, .trace = on_trace, .ctx = stage};

    stage->story[0] = '\0';
    memset(&stage->err, 0, sizeof stage->err);
    return mst_replay(&config, "3.record", mst_slice_of(bytes, size), &stage->mem.mem, &stage->err);
}

/* A replay of what `stage` recorded. */
static struct stage *new_replay(void)
{
    struct stage *replay = calloc(1, sizeof *replay);

    assert_non_null(replay);
    failing_mem_init(&replay->mem, 0);
    failing_mem_init(&replay->own, 0);
    return replay;
}

static struct stage *recorded(void)
{
    struct stage *stage = new_stage();

    assert_int_equal(record(stage, 0), MUSTER_OK);
    live(stage);
    mst_recorder_stop(stage->recorder);
    assert_null(mst_recorder_trouble(stage->recorder));
    return stage;
}

/* ---- the same story ---- */

/* A core's inputs are recorded. The replay has the same story. [The same story] */
static void a_replay_tells_the_same_story(void **state)
{
    struct stage *stage = recorded(), *replay = new_replay();

    (void)state;
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_OK);
    assert_string_equal(replay->story, stage->story);
    assert_non_null(strstr(replay->story, "member-lost #1 incarnation=1 cause=lease"));
    assert_true(replay->about.stopped);
    assert_true(replay->about.digest == mst_core_kept_digest(stage->core));
    assert_true(replay->about.digest == mst_recorder_digest(stage->recorder));
    assert_true(replay->about.inputs == mst_recorder_inputs(stage->recorder));
    assert_true(replay->about.wall_ns == wall_ns && replay->about.begin_ns == STEP_NS);
    assert_true(replay->about.now_ns == stage->now_ns);
    assert_string_equal(replay->about.version, "0.1.0");
    free_stage(replay);
    free_stage(stage);
}

static void hold(struct stage *stage, const char *why)
{
    const struct mst_input_listener listener = mst_recorder_listener(stage->recorder);

    mst_core_hold(stage->core, why);
    listener.heard(listener.ctx, &(struct mst_input){
                                     .type = MST_RECORD_HOLD, .now_ns = stage->now_ns, .why = why});
}

/* The core is held for a while, as by a full disk. The replay refuses the same writes. [The same
 * story] */
static void a_hold_is_replayed(void **state)
{
    struct stage *stage = new_stage(), *replay = new_replay();

    (void)state;
    assert_int_equal(record(stage, 0), MUSTER_OK);
    come(stage, 1);
    append(stage, 1, "0", 1);
    hold(stage, "the disk is full");
    append(stage, 1, "1", 1);
    hold(stage, NULL);
    append(stage, 1, "2", 1);
    mst_recorder_stop(stage->recorder);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_OK);
    assert_string_equal(replay->story, stage->story);
    assert_true(replay->about.digest == mst_core_kept_digest(stage->core));
    free_stage(replay);
    free_stage(stage);
}

/* A record begins with a state. The replay begins with what was there. [The same story] */
static void it_begins_with_what_was_there(void **state)
{
    struct stage *stage = new_stage(), *replay = new_replay();

    (void)state;
    live(stage);
    stage->story[0] = '\0';
    assert_int_equal(record(stage, 0), MUSTER_OK);
    append(stage, 2, "3", 1);
    come(stage, 3);
    mst_recorder_stop(stage->recorder);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_OK);
    assert_string_equal(replay->story, stage->story);
    assert_non_null(strstr(replay->story, "member-joining #3"));
    free_stage(replay);
    free_stage(stage);
}

/* A request is larger than a frame takes, and than the buffer begins with. It is recorded as the
 * others are. [The same story] */
static void large_requests_are_recorded(void **state)
{
    static char value[100000];
    struct stage *stage = new_stage(), *replay = new_replay();

    (void)state;
    memset(value, 'v', sizeof value);
    assert_int_equal(record(stage, 0), MUSTER_OK);
    come(stage, 1);
    for (unsigned i = 0; i < 4; i++) {
        append(stage, 1, value, sizeof value);
    }
    mst_recorder_stop(stage->recorder);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_OK);
    assert_true(replay->about.digest == mst_recorder_digest(stage->recorder));
    free_stage(replay);
    free_stage(stage);
}

/* The service had no memory for a request, or a connection. It is recorded as refused, and a
 * replay with enough refuses it too. [The same story] */
static void what_was_refused_stays_refused(void **state)
{
    struct stage *stage = new_stage(), *replay = new_replay();

    (void)state;
    assert_int_equal(record(stage, 0), MUSTER_OK);
    come(stage, 1);
    stage->own.fail_at = stage->own.count + 1;
    append(stage, 1, "0", 1);
    assert_true(stage->own.failed);
    stage->own.fail_at = stage->own.count + 1;
    assert_int_equal(mst_journal_conn_open(stage->journal, stage->now_ns, (struct mst_conn){9}),
                     MUSTER_ENOMEM);
    append(stage, 1, "1", 1);
    mst_recorder_stop(stage->recorder);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_OK);
    assert_string_equal(replay->story, stage->story);
    free_stage(replay);
    free_stage(stage);
}

static void join_all(struct stage *stage)
{
    for (uint64_t conn = 1; conn <= 4; conn++) {
        come(stage, conn);
        ask(stage, conn, (struct mst_request){.command = MST_JOIN});
    }
}

static void report(struct stage *stage)
{
    ask(stage, 1,
        (struct mst_request){.command = MST_FAULT,
                             .fault = {.generation = 1, .text = mst_slice_text("no space left")}});
}

/* A fault's text found no memory. The fault interrupts without its text; so does the one of the
 * replay. */
static void words_that_found_no_memory_stay_away(void **state)
{
    struct stage *stage = new_stage(), *replay = new_replay();
    uint64_t digest;

    (void)state;
    assert_int_equal(record(stage, 0), MUSTER_OK);
    join_all(stage);
    stage->own.fail_at = stage->own.count + 1; /* the request has a waiter that was kept */
    report(stage);
    assert_true(stage->own.failed && mst_core_wordless(stage->core));
    mst_recorder_stop(stage->recorder);
    digest = mst_core_kept_digest(stage->core);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_OK);
    assert_true(replay->about.digest == digest);
    assert_string_equal(replay->story, stage->story);
    assert_non_null(strstr(replay->story, "fault #1"));
    free_stage(replay);
    free_stage(stage);
}

/* ---- damage ---- */

/* A file of a record ends anywhere. It is replayed from the beginning as far as it goes, and
 * further with more bytes. */
static void a_file_may_end_anywhere(void **state)
{
    struct stage *stage = recorded(), *replay = new_replay();
    size_t longest = 0;
    uint64_t inputs = 0;

    (void)state;
    for (size_t cut = 0; cut <= stage->size; cut++) {
        assert_int_equal(replay_bytes(replay, stage->file, cut), MUSTER_OK);
        assert_memory_equal(replay->story, stage->story, strlen(replay->story));
        assert_true(strlen(replay->story) >= longest && replay->about.inputs >= inputs);
        assert_true(replay->about.stopped == (cut == stage->size));
        longest = strlen(replay->story);
        inputs = replay->about.inputs;
    }
    assert_string_equal(replay->story, stage->story);
    free_stage(replay);
    free_stage(stage);
}

/* A byte of a record is changed. The error has its place, or it makes a tail of the last frame. */
static void no_damaged_byte_goes_unnoticed(void **state)
{
    struct stage *stage = recorded(), *replay = new_replay();
    unsigned torn = 0, refused = 0;

    (void)state;
    for (size_t at = 0; at < stage->size; at++) {
        muster_status status;

        stage->file[at] ^= 0x40;
        status = replay_bytes(replay, stage->file, stage->size);
        stage->file[at] ^= 0x40;
        assert_memory_equal(replay->story, stage->story, strlen(replay->story));
        if (status == MUSTER_OK) {
            torn += !replay->about.stopped;
        } else {
            assert_int_equal(status, MUSTER_EFAILED);
            assert_non_null(strstr(replay->err.text, "3.record is damaged at offset "));
            refused++;
        }
    }
    assert_true(torn > 0 && torn <= 64); /* the last frame */
    assert_true(refused > stage->size / 2);
    free_stage(replay);
    free_stage(stage);
}

/* Something follows the end of a record. That is damage. */
static void nothing_follows_the_end(void **state)
{
    struct stage *stage = recorded(), *replay = new_replay();

    (void)state;
    memset(stage->file + stage->size, 'x', 64);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size + 64), MUSTER_EFAILED);
    assert_non_null(strstr(replay->err.text, ": it goes on behind its end"));
    free_stage(replay);
    free_stage(stage);
}

static void seal_head(struct stage *stage, enum mst_file_kind kind, uint32_t rules)
{
    struct mst_file_head head = {.kind = kind, .sequence = 3, .rules = rules, .version = "9.8.7"};
    struct mst_crc crc;

    mst_crc_init(&crc);
    mst_file_head_write(stage->file, &crc, &head);
}

/* A record has other rules. It is refused, and the line names the version that made it. */
static void other_rules_are_refused_by_name(void **state)
{
    struct stage *stage = recorded(), *replay = new_replay();

    (void)state;
    seal_head(stage, MST_FILE_RECORD, MST_CORE_RULES + 1);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_EFAILED);
    assert_non_null(strstr(replay->err.text, "3.record was made by muster 9.8.7, which decides "
                                             "otherwise than this one"));
    assert_string_equal(replay->story, "");
    seal_head(stage, MST_FILE_JOURNAL, MST_CORE_RULES);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_EFAILED);
    assert_non_null(strstr(replay->err.text, "it does not begin as a record does"));
    free_stage(replay);
    free_stage(stage);
}

/* The last frame of a record has another digest. One line names both. */
static void another_digest_is_told(void **state)
{
    struct stage *stage = recorded(), *replay = new_replay();
    size_t payload = MST_RECORD_HEAD + 16;
    size_t frame = stage->size - (size_t)mst_frame_bytes(payload);
    struct mst_crc crc;

    (void)state;
    mst_crc_init(&crc);
    mst_put_u64(stage->file + frame + MST_FRAME_HEAD + MST_RECORD_HEAD, 0xab);
    mst_frame_write(stage->file + frame, &crc, 3, frame, payload, frame);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_EMISMATCH);
    assert_non_null(strstr(replay->err.text, "3.record: the digest is "));
    assert_non_null(
        strstr(replay->err.text, ", and 00000000000000ab was recorded by muster 0.1.0"));
    free_stage(replay);
    free_stage(stage);
}

/* A record begins with a state of another format, whole as a frame and wrong in itself. It is
 * refused, and the line names the version that made it. */
static void a_state_of_another_format_is_refused_by_name(void **state)
{
    struct stage *stage = new_stage(), *replay = new_replay();
    size_t payload = 0;
    struct mst_crc crc;

    (void)state;
    live(stage);
    assert_int_equal(record(stage, 0), MUSTER_OK);
    mst_crc_init(&crc);
    memcpy(&payload, stage->file + MST_FILE_HEAD, 4);
    stage->file[MST_FILE_HEAD + MST_FRAME_HEAD + 3 * MST_RECORD_HEAD] ^= 1;
    mst_frame_write(stage->file + MST_FILE_HEAD, &crc, 3, MST_FILE_HEAD, payload, MST_FILE_HEAD);
    assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_EFAILED);
    assert_string_equal(replay->err.text,
                        "3.record begins with a state that muster 0.1.0 kept, and this one cannot "
                        "read: replay it with that version");
    free_stage(replay);
    free_stage(stage);
}

/* ---- no room ---- */

/* A file of a record ends anywhere to have room. The core goes on, and what was written can be
 * replayed. [A disk that does not play along] */
static void a_full_file_ends_the_record(void **state)
{
    struct stage *whole = recorded(), *replay = new_replay();

    (void)state;
    for (size_t room = 0; room < whole->size; room += 37) {
        struct stage *stage = new_stage();

        stage->room = room;
        assert_int_equal(record(stage, 0), MUSTER_OK);
        live(stage);
        mst_recorder_stop(stage->recorder);
        assert_non_null(mst_recorder_trouble(stage->recorder));
        assert_string_equal(stage->story, whole->story);
        assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_OK);
        assert_false(replay->about.stopped);
        free_stage(stage);
    }
    free_stage(replay);
    free_stage(whole);
}

/* Memory is short for the recorder. The record ends, and the service goes on.
 * [A disk that does not play along] */
static void a_recorder_without_memory_ends_the_record(void **state)
{
    static char value[100000];
    struct stage *replay = new_replay();
    bool failed = true;

    (void)state;
    memset(value, 'v', sizeof value);
    for (size_t at = 1; failed; at++) {
        struct stage *stage = new_stage();
        muster_status status = record(stage, at);

        live(stage);
        append(stage, 2, value, sizeof value);
        failed = stage->mem.failed;
        if (status == MUSTER_OK) {
            mst_recorder_stop(stage->recorder);
            assert_true(failed == (mst_recorder_trouble(stage->recorder) != NULL));
            assert_int_equal(replay_bytes(replay, stage->file, stage->size), MUSTER_OK);
            assert_memory_equal(replay->story, stage->story, strlen(replay->story));
            assert_true(replay->about.stopped == !failed);
        } else {
            assert_int_equal(status, MUSTER_ENOMEM);
            assert_true(failed);
        }
        free_stage(stage);
    }
    free_stage(replay);
}

/* Memory ends during a replay. One line says so; where the memory was only to make it faster, it
 * is the same replay without. */
static void a_replay_without_memory_says_so(void **state)
{
    struct stage *stage = new_stage();
    unsigned faster = 0;
    bool failed = true;

    (void)state;
    assert_int_equal(record(stage, 0), MUSTER_OK);
    join_all(stage);
    append(stage, 2, "0", 1);
    report(stage);
    mst_recorder_stop(stage->recorder);
    for (size_t at = 1; failed; at++) {
        struct stage *replay = new_replay();
        muster_status status;

        failing_mem_init(&replay->mem, at);
        status = replay_bytes(replay, stage->file, stage->size);
        failed = replay->mem.failed;
        if (status == MUSTER_OK) {
            assert_string_equal(replay->err.text, "");
            faster += failed;
        } else {
            assert_int_equal(status, MUSTER_ENOMEM);
            assert_true(failed);
            assert_string_equal(replay->err.text, "3.record: out of memory");
        }
        free_stage(replay);
    }
    assert_true(faster <= 2);
    free_stage(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_tells_the_same_story),
        cmocka_unit_test(a_hold_is_replayed),
        cmocka_unit_test(it_begins_with_what_was_there),
        cmocka_unit_test(large_requests_are_recorded),
        cmocka_unit_test(what_was_refused_stays_refused),
        cmocka_unit_test(words_that_found_no_memory_stay_away),
        cmocka_unit_test(a_file_may_end_anywhere),
        cmocka_unit_test(no_damaged_byte_goes_unnoticed),
        cmocka_unit_test(nothing_follows_the_end),
        cmocka_unit_test(other_rules_are_refused_by_name),
        cmocka_unit_test(another_digest_is_told),
        cmocka_unit_test(a_state_of_another_format_is_refused_by_name),
        cmocka_unit_test(a_full_file_ends_the_record),
        cmocka_unit_test(a_recorder_without_memory_ends_the_record),
        cmocka_unit_test(a_replay_without_memory_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
