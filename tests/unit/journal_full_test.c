/* SPDX-License-Identifier: Apache-2.0 */
/* The journal on a disk that is full or fails, and without memory.
 *
 * behaviour: service / Its journal */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "journal_stage.h"
#include "service/journal/format.h"

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
    for (unsigned i = 0; stage_append(stage, "k", value) == MUSTER_OK; i++) {
        assert_true(i < 200);
    }
    assert_non_null(mst_journal_held(stage->journal));
}

/* The disk of the journal is full. Writes are refused, and it goes on when there is room. */
static void a_full_disk_refuses_and_goes_on(void **state)
{
    struct stage stage, copy;

    (void)state;
    stage_init(&stage, false);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    stage_connect(&stage, 7);
    fill(&stage);
    assert_int_equal(stage.last, MUSTER_ENOSPACE);
    assert_non_null(strstr(stage.told,
                           "journal-full dir=/fake reason=\"the journal's disk is full: "
                           "/fake/0000000001.journal: no room"));
    assert_int_equal(stage_ask(&stage, (struct mst_request){.command = MST_RENEW}), MUSTER_OK);

    stage_init_copy(&copy, &stage); /* it dies there: the state is the one before */
    copy.disk.room = UINT64_MAX / 2;
    assert_int_equal(stage_begin(&copy), MUSTER_OK);
    stage_connect(&copy, 99);
    stage_fini(&copy);

    stage.disk.room = UINT64_MAX / 2;
    stage.now_ns += 1100000000;
    assert_int_equal(stage_turn(&stage), MUSTER_OK);
    assert_null(mst_journal_held(stage.journal));
    assert_non_null(strstr(stage.told, "journal-has-room-again"));
    assert_int_equal(stage_append(&stage, "l", "1"), MUSTER_OK);
    stage_die(&stage);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    stage_connect(&stage, 98);
    stage.id = 0;
    assert_string_equal(stage_get(&stage, "l"), "1");
    stage_fini(&stage);
}

/* There is room for a file and not for the state, tried every second for hours. Each try leaves
 * nothing behind, and no client sees a revision that is not kept. */
static void a_try_that_fails_leaves_nothing(void **state)
{
    struct stage stage;
    unsigned files;
    uint64_t bytes;

    (void)state;
    stage_init(&stage, false);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    stage_connect(&stage, 7);
    fill(&stage);
    stage.disk.room = bytes_on(&stage.disk) + CHUNK + 64;
    files = files_on(&stage.disk);
    for (unsigned i = 0; i < 40; i++) {
        stage.now_ns += 1100000000;
        assert_int_equal(stage_ask(&stage, (struct mst_request){.command = MST_RENEW}), MUSTER_OK);
        assert_non_null(mst_journal_held(stage.journal));
        assert_int_equal(files_on(&stage.disk), files);
        bytes = i == 0 ? bytes_on(&stage.disk) : bytes; /* the old file's reserve was given back */
        assert_int_equal(bytes_on(&stage.disk), bytes);
    }
    stage.disk.room = UINT64_MAX / 2;
    stage.now_ns += 1100000000;
    assert_int_equal(stage_turn(&stage), MUSTER_OK);
    assert_null(mst_journal_held(stage.journal));
    assert_int_equal(stage_append(&stage, "l", "1"), MUSTER_OK);
    stage_die(&stage);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    assert_int_equal(mst_journal_recovery(stage.journal)->snapshot, 2);
    stage_fini(&stage);
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
    assert_int_equal(stage_begin(stage), MUSTER_OK);
    stage_connect(stage, 7);
    while (i < count && !strstr(stage->told, "journal-ended")) {
        assert_int_equal(stage_append(stage, "k", value), MUSTER_OK);
        i++;
    }
    return i;
}

/* The journal was given up on a full disk. The next service does not believe it. */
static void a_journal_that_was_given_up_is_not_believed(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage, false);
    assert_true(append_until_ended(&stage, 100) < 100);
    assert_int_equal(stage_append(&stage, "k", "and it goes on"), MUSTER_OK);
    assert_non_null(strstr(stage.told, "journal-ended dir=/fake"));
    stage_die(&stage);
    stage.disk.room = UINT64_MAX / 2;
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    assert_true(mst_journal_recovery(stage.journal)->lost);
    assert_string_equal(stage_recovered_value(&stage), "");
    stage_fini(&stage);
}

/* With `--journal-full=continue` not even the journal's end can be written. The service ends:
 * the next one would believe what is there. */
static void a_journal_whose_end_cannot_be_written_is_a_failure(void **state)
{
    struct stage stage;
    char value[512];
    unsigned count;

    (void)state;
    stage_init(&stage, true);
    count = append_until_ended(&stage, 100);
    assert_true(count < 100);
    stage_fini(&stage);

    stage_init(&stage, true);
    (void)append_until_ended(&stage, count - 1);
    stage.disk.sync_fail_at = stage.disk.syncs + 1;
    stage.disk.sync_fails = MUSTER_EFAILED;
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    (void)stage_append(&stage, "k", value);
    assert_null(strstr(stage.told, "journal-ended"));
    assert_non_null(strstr(stage.err.text, "the journal cannot be written: /fake/"));
    stage_fini(&stage);
}

/* The disk fails otherwise than by being full. Nothing leaves any more, and the service stops
 * with one line. */
static void a_failing_disk_ends_everything(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    stage.disk.fail_at = stage.disk.writes + 1;
    (void)stage_append(&stage, "k", "6");
    assert_non_null(strstr(stage.err.text, "the journal cannot be written: "
                                           "/fake/0000000001.journal: a bad sector"));
    assert_int_equal(stage_turn(&stage), MUSTER_EFAILED); /* and stays so */
    stage_fini(&stage);
}

/* A sync fails. It is not tried again, because the kernel says it once: a second one would
 * succeed and have kept nothing. */
static void a_sync_that_failed_is_not_tried_again(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage, true);
    stage.config.records_max = 5;
    stage_write_some(&stage);
    assert_int_equal(stage_ask(&stage, (struct mst_request){.command = MST_RENEW}), MUSTER_OK);
    stage.disk.sync_fail_at = stage.disk.syncs + 1;
    stage.disk.sync_fails = MUSTER_ENOSPACE;
    assert_false(mst_journal_snapshot_begin(stage.journal));
    assert_int_equal(mst_journal_commit(stage.journal, &stage.err), MUSTER_EFAILED);
    assert_non_null(strstr(stage.err.text, "/fake/0000000001.journal: it was not written"));
    stage_fini(&stage);
}

/* The disk fails when the service is to stop. One line says so. */
static void a_stop_on_a_failing_disk_says_so(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    stage.disk.fail_at = stage.disk.writes + 1; /* the head of the next file */
    assert_int_equal(mst_journal_stop(stage.journal, &stage.err), MUSTER_EFAILED);
    assert_non_null(strstr(stage.err.text, "the journal cannot be written: "
                                           "/fake/0000000002.journal: a bad sector"));
    stage_fini(&stage);
}

/* A service died while it wrote a snapshot. The unfinished file is removed with the next one. */
static void what_was_never_finished_is_cleared_away(void **state)
{
    struct stage stage;
    int file;

    (void)state;
    stage_init(&stage, false);
    stage.config.records_max = 5;
    stage_write_some(&stage);
    stage_die(&stage); /* and the child that wrote this */
    assert_int_equal(stage.disk.disk.create(&stage.disk, "0000000001.snapshot.tmp", &file), 0);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    assert_true(mst_journal_snapshot_begin(stage.journal));
    assert_int_equal(mst_journal_snapshot_write(stage.journal), MUSTER_OK);
    mst_journal_snapshot_end(stage.journal, true);
    assert_null(fake_disk_find(&stage.disk, "0000000001.snapshot.tmp"));
    assert_int_equal(files_on(&stage.disk), 2);
    stage_fini(&stage);
}

/* A client came and went while the journal waits for room. It gets a revision when it goes on: a
 * try that fails gives none, which would be given to something else later. */
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
    stage_init(&stage, false);
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    stage.conn++;
    assert_int_equal(
        mst_journal_conn_open(stage.journal, stage.now_ns, (struct mst_conn){stage.conn}),
        MUSTER_OK);
    assert_int_equal(stage_ask(&stage, open), MUSTER_OK);
    stage_connect(&stage, 7);
    fill(&stage);
    replies = stage.replies;
    (void)stage_ask(&stage, (struct mst_request){.command = MST_WATCH,
                                                 .watch = {.kinds = MST_WATCH_MEMBERS,
                                                           .after = stage.revision,
                                                           .node = MST_NODE_NONE}});
    mst_journal_conn_close(stage.journal, stage.now_ns, (struct mst_conn){1});
    stage.disk.room = bytes_on(&stage.disk) + CHUNK + 64;
    for (unsigned i = 0; i < 3; i++) {
        stage.now_ns += 1100000000;
        assert_int_equal(stage_turn(&stage), MUSTER_OK);
        assert_int_equal(stage.replies, replies);
    }
    stage.disk.room = UINT64_MAX / 2;
    stage.now_ns += 1100000000;
    assert_int_equal(stage_turn(&stage), MUSTER_OK);
    assert_int_equal(stage.replies, replies + 1);
    stage_fini(&stage);
}

/* A service is started again and again on a full disk. It leaves nothing, and does not fill the
 * disk further. */
static void a_beginning_without_room_leaves_nothing(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage, false);
    stage.disk.room = CHUNK + 64;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(stage_begin(&stage), MUSTER_EFAILED);
        assert_non_null(strstr(stage.err.text, "/fake/0000000001.snapshot.tmp: no room"));
        assert_int_equal(files_on(&stage.disk), 0);
    }
    stage.disk.room = UINT64_MAX / 2;
    assert_int_equal(stage_begin(&stage), MUSTER_OK);
    stage_fini(&stage);
}

/* Memory is short while the state is recovered. Recovery fails whole, and says so. */
static void a_recovery_without_memory_fails_whole(void **state)
{
    struct stage stage, copy;
    bool done = false;

    (void)state;
    stage_init(&stage, false);
    stage_write_some(&stage);
    for (unsigned n = 1; !done; n++) {
        stage_init_copy(&copy, &stage);
        copy.mem.fail_at = n;
        done = stage_begin(&copy) == MUSTER_OK;
        if (!done) {
            assert_true(copy.mem.failed);
            assert_true(copy.err.status == MUSTER_ENOMEM || copy.err.status == MUSTER_EFAILED);
            assert_non_null(strstr(copy.err.text, "memory"));
        }
        stage_fini(&copy);
    }
    stage_fini(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
