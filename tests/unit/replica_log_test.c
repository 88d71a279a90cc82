/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a replica, in a folder in memory: what is found again, what is refused, and what a
 * full or broken disk, damage and a lack of memory do to it.
 *
 * behaviour: replicas / The log of a replica */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/panic.h"
#include "failing_mem.h"
#include "journal_disk_fake.h"
#include "service/replica/log.h"

#define FIRST_FILE "0000000001.entries"

enum { ID = 7, NEXT_ID = 8, STATE_BYTES = 200000 };

struct stage {
    struct fake_disk disk;
    struct failing_mem mem;
    struct mst_replica_log_config config;
    struct mst_replica_log *log;
    struct muster_error err;
    char told[512];
};

/* A broken invariant ends here, if a test expects it. */
static jmp_buf panic_to;
static bool panic_is_expected;

_Noreturn void mst_panic(const char *file, int line, const char *what)
{
    if (panic_is_expected) {
        longjmp(panic_to, 1);
    }
    (void)fprintf(stderr, "broken invariant at %s:%d: %s\n", file, line, what);
    abort();
}

#define assert_panics(call)                                                                        \
    do {                                                                                           \
        volatile bool panicked = true;                                                             \
        panic_is_expected = true;                                                                  \
        if (setjmp(panic_to) == 0) {                                                               \
            call;                                                                                  \
            panicked = false;                                                                      \
        }                                                                                          \
        panic_is_expected = false;                                                                 \
        assert_true(panicked);                                                                     \
    } while (0)

/* ---- the stage ---- */

static void on_tell(void *ctx, enum mst_level level, const char *line)
{
    struct stage *stage = ctx;

    (void)level;
    (void)snprintf(stage->told, sizeof stage->told, "%s", line);
}

static int begin(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);

    assert_non_null(stage);
    fake_disk_init(&stage->disk);
    failing_mem_init(&stage->mem, 0);
    stage->config = (struct mst_replica_log_config){.id = ID,
                                                    .boot = "this boot",
                                                    .version = "test",
                                                    .rules = 3,
                                                    .chunk_bytes = 4096,
                                                    .tell = on_tell,
                                                    .tell_ctx = stage};
    *state = stage;
    return 0;
}

static int end(void **state)
{
    struct stage *stage = *state;

    mst_replica_log_free(stage->log);
    assert_int_equal(stage->mem.live, 0);
    fake_disk_fini(&stage->disk);
    free(stage);
    return 0;
}

static muster_status try_open(struct stage *stage)
{
    mst_replica_log_free(stage->log);
    stage->log = NULL;
    memset(&stage->err, 0, sizeof stage->err);
    return mst_replica_log_open(&stage->log, &stage->disk.disk, &stage->config, &stage->mem.mem,
                                &stage->err);
}

static struct mst_replica_log *again(struct stage *stage)
{
    if (try_open(stage) != MUSTER_OK) {
        fail_msg("%s", stage->err.text);
    }
    return stage->log;
}

static muster_status add(struct stage *stage, uint64_t index, uint64_t term, const char *words)
{
    const struct mst_replica_entry entry = {
        .term = term, .type = MST_REPLICA_COMMAND, .bytes = mst_slice_text(words)};

    return mst_replica_log_append(stage->log, index, &entry, 1);
}

static void must(muster_status status)
{
    assert_int_equal(status, MUSTER_OK);
}

static void write_out(struct stage *stage)
{
    must(mst_replica_log_write(stage->log, &stage->err));
}

static void assert_entry(struct stage *stage, uint64_t index, uint64_t term, const char *words)
{
    const struct mst_replica_entry *entry = mst_replica_log_at(stage->log, index);

    assert_non_null(entry);
    assert_int_equal(entry->term, term);
    assert_true(mst_slice_is(entry->bytes, words));
}

/* Term 2, a vote for 5, entries 1 to 4 of terms 1, 1, 2, 2; all committed but the last. */
static void some_log(struct stage *stage)
{
    (void)again(stage);
    must(mst_replica_log_vote(stage->log, 1, 0));
    must(add(stage, 1, 1, "one"));
    must(add(stage, 2, 1, "two"));
    write_out(stage);
    must(mst_replica_log_vote(stage->log, 2, 5));
    must(add(stage, 3, 2, "three"));
    must(add(stage, 4, 2, "four"));
    write_out(stage);
    mst_replica_log_commit(stage->log, 3);
}

static unsigned char state_byte(size_t at)
{
    return (unsigned char)(at * 7 + at / 65536);
}

/* Puts a state in pieces of 999 bytes. */
static muster_status save(struct stage *stage, uint64_t index, uint64_t term, size_t bytes)
{
    const struct mst_replica_snapshot about = {.index = index,
                                               .term = term,
                                               .configuration_index = 1,
                                               .configuration = mst_slice_text("three voters")};
    struct mst_replica_saving *saving;
    muster_status status = mst_replica_log_save(stage->log, &about, &saving);
    unsigned char piece[999];

    for (size_t at = 0; at < bytes && status == MUSTER_OK;) {
        size_t size = bytes - at < sizeof piece ? bytes - at : sizeof piece;

        for (size_t i = 0; i < size; i++) {
            piece[i] = state_byte(at + i);
        }
        status = mst_replica_saving_put(saving, mst_slice_of(piece, size));
        at += size;
        if (status == MUSTER_OK) {
            assert_int_equal(mst_replica_saving_put_bytes(saving), at);
        }
    }
    if (status == MUSTER_OK) {
        status = mst_replica_saving_close(saving);
    }
    if (status == MUSTER_OK) {
        status = mst_replica_log_take(stage->log, saving, &stage->err);
    }
    saving = mst_replica_log_saving(stage->log);
    if (saving) {
        mst_replica_log_drop(stage->log, saving);
    }
    return status;
}

static size_t files_of(struct stage *stage, const char *ending)
{
    size_t count = 0;

    for (int i = 0; i < FAKE_FILES; i++) {
        const char *dot = strchr(stage->disk.files[i].name, '.');

        count += dot && strcmp(dot, ending) == 0;
    }
    return count;
}

/* ---- what is found again ---- */

/* Entries are appended, voted about and replaced, and the replica begins again. It has the entries
 * as they were at the end, its term, its vote and its id. */
static void the_log_is_found_again(void **state)
{
    struct stage *stage = *state;
    const struct mst_replica_log_recovered *recovered;
    const struct mst_replica_entry entries[] = {
        {.term = 3, .type = MST_REPLICA_BARRIER},
        {.term = 3, .type = MST_REPLICA_CHANGE, .bytes = mst_slice_text("voters")}};

    some_log(stage);
    assert_true(mst_replica_log_recovery(stage->log)->fresh);
    assert_int_equal(mst_replica_log_written(stage->log), 4);
    must(mst_replica_log_vote(stage->log, 3, 0));
    must(mst_replica_log_append(stage->log, 4, entries, 2));
    assert_int_equal(mst_replica_log_written(stage->log), 3);
    write_out(stage);

    stage->config.id = NEXT_ID;
    recovered = mst_replica_log_recovery(again(stage));
    assert_false(recovered->fresh);
    assert_int_equal(recovered->id, ID);
    assert_int_equal(recovered->term, 3);
    assert_int_equal(recovered->vote, 0);
    assert_int_equal(recovered->first, 1);
    assert_int_equal(recovered->last, 5);
    assert_entry(stage, 1, 1, "one");
    assert_entry(stage, 3, 2, "three");
    assert_int_equal(mst_replica_log_at(stage->log, 4)->type, MST_REPLICA_BARRIER);
    assert_int_equal(mst_replica_log_at(stage->log, 5)->type, MST_REPLICA_CHANGE);
    assert_entry(stage, 5, 3, "voters");
    assert_null(mst_replica_log_at(stage->log, 6));
    assert_null(mst_replica_log_at(stage->log, 0));
}

/* An entry is as large as it may be, and so are four of one turn. They are found again. */
static void large_entries_are_found_again(void **state)
{
    struct stage *stage = *state;
    struct mst_replica_entry entry = {.term = 1, .type = MST_REPLICA_COMMAND};
    unsigned char *bytes = malloc(MST_REPLICA_ENTRY_MAX);

    assert_non_null(bytes);
    memset(bytes, 0x5a, MST_REPLICA_ENTRY_MAX);
    entry.bytes = mst_slice_of(bytes, MST_REPLICA_ENTRY_MAX);
    (void)again(stage);
    must(mst_replica_log_vote(stage->log, 1, 0));
    for (uint64_t i = 1; i <= 4; i++) {
        must(mst_replica_log_append(stage->log, i, &entry, 1));
    }
    write_out(stage);
    (void)again(stage);
    for (uint64_t i = 1; i <= 4; i++) {
        assert_true(mst_slice_equal(mst_replica_log_at(stage->log, i)->bytes, entry.bytes));
    }
    free(bytes);
}

/* Files are small: the log goes on in the next one, and is found again over all of them. */
static void a_log_of_many_files_is_found_again(void **state)
{
    struct stage *stage = *state;

    stage->config.segment_bytes = 300;
    (void)again(stage);
    must(mst_replica_log_vote(stage->log, 1, 1));
    for (uint64_t i = 1; i <= 40; i++) {
        must(add(stage, i, 1, "an entry"));
        write_out(stage);
    }
    assert_true(files_of(stage, ".entries") > 5);
    (void)again(stage);
    assert_int_equal(mst_replica_log_last(stage->log), 40);
    assert_entry(stage, 40, 1, "an entry");
    assert_int_equal(mst_replica_log_recovery(stage->log)->cut_bytes, 0);
}

/* With --sync a turn is one write and one sync, whatever was in it; without, no sync. */
static void a_turn_is_one_write_and_one_sync(void **state)
{
    struct stage *stage = *state;
    unsigned writes, syncs;

    stage->config.sync = true;
    some_log(stage);
    writes = stage->disk.writes;
    syncs = stage->disk.syncs;
    must(mst_replica_log_vote(stage->log, 3, 2));
    must(add(stage, 4, 3, "other"));
    must(add(stage, 5, 3, "more"));
    write_out(stage);
    write_out(stage); /* there is nothing */
    assert_int_equal(stage->disk.writes, writes + 1);
    assert_int_equal(stage->disk.syncs, syncs + 1);
    stage->config.sync = false;
    (void)again(stage);
    syncs = stage->disk.syncs;
    must(add(stage, 6, 3, "unsynced"));
    write_out(stage);
    assert_int_equal(stage->disk.syncs, syncs);
}

/* ---- the vote ---- */

/* The host began again since a log without --sync was written. It is thrown away, and the replica
 * has another id: the vote that was forgotten cannot be given again. */
static void without_sync_a_vote_of_another_boot_dies_with_its_id(void **state)
{
    struct stage *stage = *state;

    some_log(stage);
    must(save(stage, 3, 2, 10));
    stage->config.id = NEXT_ID;
    memcpy(stage->config.boot, "another", sizeof "another");
    (void)again(stage);
    assert_true(mst_replica_log_recovery(stage->log)->fresh);
    assert_true(mst_replica_log_recovery(stage->log)->thrown);
    assert_non_null(strstr(stage->told, "replica-log-of-another-boot"));
    assert_int_equal(mst_replica_log_id(stage->log), NEXT_ID);
    assert_int_equal(mst_replica_log_term(stage->log), 0);
    assert_int_equal(mst_replica_log_last(stage->log), 0);
    assert_int_equal(mst_replica_log_snapshot(stage->log)->index, 0);
    assert_int_equal(files_of(stage, ".entries"), 1);
    assert_int_equal(files_of(stage, ".state"), 0);
}

/* The same with --sync: id and vote are there, and another vote in that term is a broken
 * invariant. */
static void with_sync_a_vote_survives_the_boot_with_its_id(void **state)
{
    struct stage *stage = *state;

    stage->config.sync = true;
    some_log(stage);
    stage->config.id = NEXT_ID;
    memcpy(stage->config.boot, "another", sizeof "another");
    (void)again(stage);
    assert_false(mst_replica_log_recovery(stage->log)->fresh);
    assert_int_equal(mst_replica_log_id(stage->log), ID);
    assert_int_equal(mst_replica_log_term(stage->log), 2);
    assert_int_equal(mst_replica_log_vote_of(stage->log), 5);
    assert_panics((void)mst_replica_log_vote(stage->log, 2, 6));
    assert_entry(stage, 4, 2, "four");
}

/* What counts is how a log was written: --sync that comes with the next boot saves nothing, and one
 * that was there until now is not forgotten. */
static void sync_counts_from_when_it_was_there(void **state)
{
    struct stage *stage = *state;

    some_log(stage);
    stage->config.sync = true;
    (void)again(stage); /* of the same boot: made durable now */
    memcpy(stage->config.boot, "another", sizeof "another");
    (void)again(stage);
    assert_int_equal(mst_replica_log_id(stage->log), ID);
    stage->config.sync = false;
    (void)again(stage); /* from here on without */
    memcpy(stage->config.boot, "a third", sizeof "a third");
    stage->config.id = NEXT_ID;
    stage->config.sync = true;
    (void)again(stage);
    assert_true(mst_replica_log_recovery(stage->log)->thrown);
    assert_int_equal(mst_replica_log_id(stage->log), NEXT_ID);
}

/* Whatever the consensus asks for: a term that falls, a second vote in a term, a commit that falls,
 * an entry in the place of a committed one, behind a gap, or of a term to come. Each ends the
 * process. */
static void broken_invariants_end_the_process(void **state)
{
    struct stage *stage = *state;

    some_log(stage);
    assert_panics((void)mst_replica_log_vote(stage->log, 1, 0));
    assert_panics((void)mst_replica_log_vote(stage->log, 2, 6));
    assert_panics((void)mst_replica_log_vote(stage->log, 2, 0));
    assert_panics(mst_replica_log_commit(stage->log, 2));
    assert_panics((void)add(stage, 3, 2, "not three"));
    assert_panics((void)add(stage, 6, 2, "no five"));
    assert_panics((void)add(stage, 5, 3, "too early"));
    assert_panics((void)add(stage, 5, 1, "too late"));
    must(add(stage, 4, 2, "not committed"));
    write_out(stage);
    assert_entry(stage, 3, 2, "three");
    assert_entry(stage, 4, 2, "not committed");
}

/* ---- snapshots ---- */

/* An own snapshot is taken, and the entries behind it are dropped but for some. The state, its
 * configuration and those entries are found again, and no file that only has others. */
static void a_snapshot_takes_the_place_of_entries(void **state)
{
    struct stage *stage = *state;
    const struct mst_replica_snapshot *snapshot;
    unsigned char *bytes = malloc(STATE_BYTES);
    size_t files;

    assert_non_null(bytes);
    stage->config.segment_bytes = 300;
    (void)again(stage);
    must(mst_replica_log_vote(stage->log, 1, 1));
    for (uint64_t i = 1; i <= 30; i++) {
        must(add(stage, i, 1, "an entry"));
        write_out(stage);
    }
    mst_replica_log_commit(stage->log, 28);
    must(save(stage, 25, 1, STATE_BYTES));
    files = files_of(stage, ".entries");
    mst_replica_log_compact(stage->log, 5);
    assert_int_equal(mst_replica_log_first(stage->log), 21);
    assert_null(mst_replica_log_at(stage->log, 20));
    assert_int_equal(mst_replica_log_term_at(stage->log, 20), 1);
    assert_in_range(files_of(stage, ".entries"), 1, files - 3);

    snapshot = mst_replica_log_snapshot(again(stage));
    assert_int_equal(snapshot->index, 25);
    assert_int_equal(snapshot->term, 1);
    assert_int_equal(snapshot->configuration_index, 1);
    assert_true(mst_slice_is(snapshot->configuration, "three voters"));
    assert_int_equal(snapshot->bytes, STATE_BYTES);
    assert_int_equal(mst_replica_log_last(stage->log), 30);
    assert_true(mst_replica_log_first(stage->log) <= 21);
    assert_int_equal(mst_replica_log_committed(stage->log), 25);
    for (size_t at = 0; at < STATE_BYTES;) {
        size_t size = STATE_BYTES - at < 70001 ? STATE_BYTES - at : 70001;

        must(mst_replica_log_read(stage->log, 25, at, bytes + at, size, &stage->err));
        at += size;
    }
    for (size_t at = 0; at < STATE_BYTES; at++) {
        assert_int_equal(bytes[at], state_byte(at));
    }
    assert_int_equal(mst_replica_log_read(stage->log, 24, 0, bytes, 1, &stage->err),
                     MUSTER_ENOTFOUND);
    free(bytes);
}

/* A leader's snapshot is ahead of the log, or its log is another one. All entries are dropped, and
 * the log goes on behind the snapshot; so it is found again. */
static void a_snapshot_of_another_log_drops_the_entries(void **state)
{
    struct stage *stage = *state;

    some_log(stage);
    must(mst_replica_log_vote(stage->log, 9, 0));
    must(save(stage, 4, 9, 100)); /* entry 4 is of term 2 here */
    assert_int_equal(mst_replica_log_first(stage->log), 5);
    assert_int_equal(mst_replica_log_last(stage->log), 4);
    assert_int_equal(mst_replica_log_committed(stage->log), 4);
    must(save(stage, 50, 9, 100));
    must(add(stage, 51, 9, "behind it"));
    write_out(stage);
    (void)again(stage);
    assert_int_equal(mst_replica_log_first(stage->log), 51);
    assert_int_equal(mst_replica_log_last(stage->log), 51);
    assert_int_equal(mst_replica_log_term_at(stage->log, 50), 9);
    assert_entry(stage, 51, 9, "behind it");
    assert_int_equal(files_of(stage, ".state"), 1);
}

/* A snapshot replaces another one, whose file may be so large that to remove it takes longer than
 * an election. It is removed when the next snapshot is begun, in the process that writes that; a
 * log that is found again does not have it either. */
static void a_replaced_snapshot_goes_with_the_next(void **state)
{
    struct stage *stage = *state;
    const struct mst_replica_snapshot about = {.index = 4, .term = 2};
    struct mst_replica_saving *saving;

    some_log(stage);
    must(save(stage, 2, 1, 100));
    must(save(stage, 3, 2, 100));
    assert_int_equal(files_of(stage, ".state"), 2);
    must(mst_replica_log_save(stage->log, &about, &saving));
    assert_int_equal(files_of(stage, ".state"), 2);
    must(mst_replica_saving_put(saving, mst_slice_text("some of it")));
    assert_int_equal(files_of(stage, ".state"), 1);
    mst_replica_log_drop(stage->log, saving);
    must(save(stage, 4, 2, 100));
    assert_int_equal(files_of(stage, ".state"), 2);
    (void)again(stage);
    assert_int_equal(files_of(stage, ".state"), 1);
    assert_int_equal(mst_replica_log_snapshot(stage->log)->index, 4);
}

/* A snapshot is dropped, or its process is gone. Nothing is left of it. */
static void an_unfinished_snapshot_leaves_nothing(void **state)
{
    struct stage *stage = *state;
    const struct mst_replica_snapshot about = {.index = 3, .term = 2};
    struct mst_replica_saving *saving, *second;

    some_log(stage);
    must(mst_replica_log_save(stage->log, &about, &saving));
    assert_int_equal(mst_replica_log_save(stage->log, &about, &second), MUSTER_EFAILED);
    must(mst_replica_saving_put(saving, mst_slice_text("some of it")));
    assert_int_equal(files_of(stage, ".state.tmp"), 1);
    mst_replica_log_drop(stage->log, saving);
    assert_int_equal(files_of(stage, ".state.tmp"), 0);

    must(mst_replica_log_save(stage->log, &about, &saving));
    must(mst_replica_saving_put(saving, mst_slice_text("some of it")));
    /* It is taken, and is not whole. */
    assert_int_equal(mst_replica_log_take(stage->log, saving, &stage->err), MUSTER_EFAILED);
    assert_null(mst_replica_log_trouble(stage->log));
    (void)again(stage);
    assert_int_equal(files_of(stage, ".state.tmp"), 0);
    assert_int_equal(mst_replica_log_snapshot(stage->log)->index, 0);
    assert_entry(stage, 4, 2, "four");
}

/* ---- bytes that are in files only ---- */

static void assert_bytes(struct stage *stage, uint64_t index, const char *words)
{
    struct mst_slice bytes;

    must(mst_replica_log_bytes(stage->log, index, &bytes, &stage->err));
    assert_true(mst_slice_is(bytes, words));
}

static bool is_in_memory(struct stage *stage, uint64_t index)
{
    return mst_replica_log_at(stage->log, index)->bytes.data != NULL;
}

/* Five entries of two files, of which one is a configuration and the last is not written yet. */
static void log_of_two_files(struct stage *stage)
{
    const struct mst_replica_entry change = {
        .term = 1, .type = MST_REPLICA_CHANGE, .bytes = mst_slice_text("voters")};

    stage->config.segment_bytes = 1;
    (void)again(stage);
    must(mst_replica_log_vote(stage->log, 1, 0));
    must(add(stage, 1, 1, "one"));
    must(add(stage, 2, 1, "two"));
    write_out(stage);
    must(mst_replica_log_append(stage->log, 3, &change, 1));
    must(add(stage, 4, 1, "four"));
    write_out(stage);
    must(add(stage, 5, 1, "five"));
    mst_replica_log_commit(stage->log, 5);
}

/* Entries that are written leave the memory from the first one on, as far as is allowed and until
 * few enough bytes are left; their bytes are read again from the files. Configurations stay. The
 * same after the log was found again. */
static void old_entries_are_read_from_their_files(void **state)
{
    struct stage *stage = *state;

    log_of_two_files(stage);
    mst_replica_log_release(stage->log, 5, 17);
    assert_false(is_in_memory(stage, 1));
    assert_true(is_in_memory(stage, 2));
    mst_replica_log_release(stage->log, 1, 0);
    assert_true(is_in_memory(stage, 2));
    mst_replica_log_release(stage->log, 5, 0);
    assert_false(is_in_memory(stage, 2));
    assert_true(is_in_memory(stage, 3));
    assert_false(is_in_memory(stage, 4));
    assert_true(is_in_memory(stage, 5));
    assert_bytes(stage, 4, "four");
    assert_bytes(stage, 2, "two");
    assert_bytes(stage, 1, "one");
    assert_bytes(stage, 3, "voters");
    assert_bytes(stage, 5, "five");
    assert_int_equal(mst_replica_log_at(stage->log, 4)->bytes.size, 4);
    write_out(stage);
    (void)again(stage);
    mst_replica_log_release(stage->log, 5, 0);
    assert_false(is_in_memory(stage, 4));
    assert_bytes(stage, 4, "four");
    assert_bytes(stage, 2, "two");
}

/* A replaced entry that was read from its file before is the new one. */
static void a_replaced_entry_is_read_no_more(void **state)
{
    struct stage *stage = *state;

    some_log(stage);
    mst_replica_log_release(stage->log, 4, 0);
    assert_bytes(stage, 4, "four");
    must(mst_replica_log_vote(stage->log, 3, 0));
    must(add(stage, 4, 3, "another"));
    assert_bytes(stage, 4, "another");
    write_out(stage);
    mst_replica_log_release(stage->log, 4, 0);
    assert_false(is_in_memory(stage, 4));
    assert_bytes(stage, 4, "another");
    assert_bytes(stage, 3, "three");
}

static void cannot_be_read(struct stage *stage, uint64_t index, const char *words)
{
    struct mst_slice bytes;

    assert_int_equal(mst_replica_log_bytes(stage->log, index, &bytes, &stage->err), MUSTER_EFAILED);
    assert_non_null(strstr(stage->err.text, words));
}

/* Bytes of an entry in a file that are damaged, or gone, are refused in a line that names the entry
 * and the file; so is a frame whose head says that it is longer than any. */
static void a_damaged_entry_is_not_read(void **state)
{
    struct stage *stage = *state;
    struct fake_file *file;

    log_of_two_files(stage);
    mst_replica_log_release(stage->log, 4, 0);
    file = fake_disk_find(&stage->disk, FIRST_FILE);
    file->bytes[file->size - 8] ^= 1;
    cannot_be_read(stage, 2, "entry 2 of this replica's log");
    cannot_be_read(stage, 2, FIRST_FILE " is damaged at offset ");
    assert_bytes(stage, 4, "four");
    memset(file->bytes + 64, 0xff, file->size - 64);
    cannot_be_read(stage, 1, FIRST_FILE " is damaged at offset ");
    assert_int_equal(stage->disk.disk.remove(stage->disk.disk.ctx, FIRST_FILE), MUSTER_OK);
    cannot_be_read(stage, 1, "cannot read entry 1 of this replica's log");
}

/* Without memory for them, bytes that are in a file are refused and can be read later. */
static void bytes_are_read_when_there_is_memory(void **state)
{
    struct stage *stage = *state;
    struct mst_slice bytes;

    log_of_two_files(stage);
    mst_replica_log_release(stage->log, 4, 0);
    stage->mem.fail_at = stage->mem.count + 1;
    assert_int_equal(mst_replica_log_bytes(stage->log, 1, &bytes, &stage->err), MUSTER_ENOMEM);
    assert_bytes(stage, 1, "one");
}

/* ---- damage ---- */

static void refuses(struct stage *stage, const char *words)
{
    assert_int_equal(try_open(stage), MUSTER_EFAILED);
    if (!strstr(stage->err.text, words) || strchr(stage->err.text, '\n')) {
        fail_msg("%s", stage->err.text);
    }
    assert_non_null(
        strstr(stage->err.text, "move the folder away: it then joins as a new replica"));
    assert_null(strstr(stage->err.text, "copy"));
}

/* The last bytes of the log are torn. They are cut, with a line, and what was before them is
 * there. */
static void a_torn_tail_is_cut(void **state)
{
    struct stage *stage = *state;
    struct fake_file *file;
    uint64_t bytes;

    some_log(stage);
    bytes = mst_replica_log_file_bytes(stage->log);
    must(add(stage, 5, 2, "five, and it is torn"));
    write_out(stage);
    file = fake_disk_find(&stage->disk, FIRST_FILE);
    memset(file->bytes + bytes + 30, 0, 8);
    (void)again(stage);
    assert_int_equal(mst_replica_log_last(stage->log), 4);
    assert_true(mst_replica_log_recovery(stage->log)->cut_bytes > 0);
    assert_non_null(strstr(stage->told, "replica-log-tail-cut"));
    assert_non_null(strstr(stage->told, FIRST_FILE));
    (void)again(stage);
    assert_int_equal(mst_replica_log_recovery(stage->log)->cut_bytes, 0);
}

/* A byte before others that were promised is another one. The log is refused with the file and the
 * place, and nothing is removed. The line says to move the folder away, and nothing of a copy: an
 * older one has forgotten votes. */
static void damage_is_refused_with_its_place(void **state)
{
    struct stage *stage = *state;
    struct fake_file *file;

    some_log(stage);
    must(save(stage, 3, 2, STATE_BYTES));
    mst_replica_log_free(stage->log);
    stage->log = NULL;
    file = fake_disk_find(&stage->disk, FIRST_FILE);
    file->bytes[200] ^= 1;
    refuses(stage, FIRST_FILE " is damaged at offset 160, and what follows it");
    file->bytes[200] ^= 1;
    file->bytes[20] ^= 1;
    refuses(stage, FIRST_FILE " is damaged at offset 0, and what follows it");
    file->bytes[20] ^= 1;
    file = fake_disk_find(&stage->disk, "0000000001.state");
    file->bytes[70000] ^= 1;
    refuses(stage, "0000000001.state is damaged at offset 65728");
    file->bytes[70000] ^= 1;
    (void)again(stage);
    assert_entry(stage, 4, 2, "four");
}

/* A file of the log is missing. It is refused. */
static void a_missing_file_is_refused(void **state)
{
    struct stage *stage = *state;

    stage->config.segment_bytes = 300;
    (void)again(stage);
    must(mst_replica_log_vote(stage->log, 1, 1));
    for (uint64_t i = 1; i <= 20; i++) {
        must(add(stage, i, 1, "an entry"));
        write_out(stage);
    }
    must(stage->disk.disk.remove(&stage->disk, "0000000002.entries"));
    refuses(stage, "what should come before its entries is missing");
}

/* The state is there, and no entries and no vote. It is refused. */
static void a_state_alone_is_refused(void **state)
{
    struct stage *stage = *state;

    some_log(stage);
    must(save(stage, 3, 2, 10));
    must(stage->disk.disk.remove(&stage->disk, FIRST_FILE));
    refuses(stage, "the entries behind it, and the vote, are missing");
}

/* Entries that no snapshot has were written by a version that decides otherwise. It is refused. Of
 * a log whose snapshot has them all the next version goes on. */
static void entries_of_other_rules_are_refused(void **state)
{
    struct stage *stage = *state;

    some_log(stage);
    stage->config.rules = 4;
    refuses(stage, "decides otherwise");
    stage->config.rules = 3;
    (void)again(stage);
    mst_replica_log_commit(stage->log, 4);
    must(save(stage, 4, 2, 10));
    stage->config.rules = 4;
    (void)again(stage);
    assert_int_equal(mst_replica_log_snapshot(stage->log)->index, 4);
}

/* ---- the disk ---- */

/* The disk is full. An entry is refused before anything was changed, a vote is not; with room again
 * entries are taken. */
static void a_full_disk_refuses_entries_and_no_vote(void **state)
{
    struct stage *stage = *state;
    char words[9000];
    uint64_t bytes;

    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    some_log(stage);
    bytes = mst_replica_log_file_bytes(stage->log);
    stage->disk.room = 0;
    assert_int_equal(add(stage, 5, 2, words), MUSTER_ENOSPACE);
    assert_int_equal(mst_replica_log_reserve(stage->log, 1, sizeof words), MUSTER_ENOSPACE);
    assert_int_equal(mst_replica_log_last(stage->log), 4);
    write_out(stage);
    assert_int_equal(mst_replica_log_file_bytes(stage->log), bytes);
    for (uint64_t term = 3; term < 300; term++) {
        must(mst_replica_log_vote(stage->log, term, 1));
        write_out(stage);
    }
    assert_null(mst_replica_log_trouble(stage->log));
    assert_int_equal(save(stage, 3, 2, STATE_BYTES), MUSTER_ENOSPACE);
    stage->disk.room = UINT64_MAX;
    must(mst_replica_log_reserve(stage->log, 1, sizeof words));
    must(add(stage, 5, 2, words));
    write_out(stage);
    (void)again(stage);
    assert_int_equal(mst_replica_log_term(stage->log), 299);
    assert_entry(stage, 5, 2, words);
}

/* The disk is full when a replica begins. What its last file had reserved is enough for votes; with
 * no room at all it does not start, says so, and has everything when there is room. */
static void a_replica_begins_on_a_full_disk(void **state)
{
    struct stage *stage = *state;
    char words[9000];

    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    some_log(stage);
    stage->disk.room = fake_disk_find(&stage->disk, FIRST_FILE)->size;
    (void)again(stage);
    must(mst_replica_log_vote(stage->log, 3, 1));
    write_out(stage);
    assert_int_equal(add(stage, 5, 3, words), MUSTER_ENOSPACE);
    stage->disk.room = 0;
    assert_int_equal(try_open(stage), MUSTER_ENOSPACE);
    assert_non_null(strstr(stage->err.text, "cannot recover the log of this replica from"));
    stage->disk.room = UINT64_MAX;
    (void)again(stage);
    assert_int_equal(mst_replica_log_term(stage->log), 3);
    assert_entry(stage, 4, 2, "four");
}

/* A write, or a sync, fails. Nothing may be promised any more, and the line says why. */
static void a_failing_disk_breaks_the_log(void **state)
{
    struct stage *stage = *state;

    stage->config.sync = true;
    some_log(stage);
    stage->disk.fail_at = stage->disk.writes + 1;
    must(add(stage, 5, 2, "five"));
    assert_int_equal(mst_replica_log_write(stage->log, &stage->err), MUSTER_EFAILED);
    assert_non_null(strstr(stage->err.text, "a bad sector; it stops"));
    assert_non_null(strstr(mst_replica_log_trouble(stage->log), "a bad sector"));
    assert_int_equal(mst_replica_log_written(stage->log), 4);
    assert_int_equal(add(stage, 6, 2, "six"), MUSTER_EFAILED);
    assert_int_equal(mst_replica_log_vote(stage->log, 3, 1), MUSTER_EFAILED);

    stage->disk.sync_fails = MUSTER_EFAILED;
    (void)again(stage);
    stage->disk.sync_fail_at = stage->disk.syncs + 1;
    must(add(stage, 5, 2, "five"));
    assert_int_equal(mst_replica_log_write(stage->log, &stage->err), MUSTER_EFAILED);
    assert_int_equal(mst_replica_log_write(stage->log, &stage->err), MUSTER_EFAILED);
}

/* ---- memory ---- */

/* All that a log does, until something fails for want of memory, which then has changed nothing.
 * True: nothing failed. */
static bool a_life(struct stage *stage, size_t fail_at)
{
    struct muster_error err;
    uint64_t last;
    bool whole = true;

    fake_disk_fini(&stage->disk);
    fake_disk_init(&stage->disk);
    failing_mem_init(&stage->mem, fail_at);
    if (try_open(stage) != MUSTER_OK) {
        assert_int_equal(stage->err.status, MUSTER_ENOMEM);
        return false;
    }
    must(mst_replica_log_vote(stage->log, 1, 1));
    for (uint64_t i = 1; i <= 300 && whole; i++) {
        last = mst_replica_log_last(stage->log);
        whole =
            add(stage, last + 1, 1, "an entry of some bytes, of which there are many") == MUSTER_OK;
        assert_int_equal(mst_replica_log_last(stage->log), whole ? last + 1 : last);
        if (i % 50 == 0) {
            must(mst_replica_log_write(stage->log, &err));
        }
    }
    must(mst_replica_log_write(stage->log, &err));
    if (mst_replica_log_last(stage->log) > 10) {
        mst_replica_log_commit(stage->log, 10);
        whole = save(stage, 10, 1, 100) == MUSTER_OK && whole;
        mst_replica_log_compact(stage->log, 3);
    }
    last = mst_replica_log_last(stage->log);
    if (try_open(stage) != MUSTER_OK) {
        assert_int_equal(stage->err.status, MUSTER_ENOMEM);
        return false;
    }
    assert_int_equal(mst_replica_log_last(stage->log), last);
    return whole && !stage->mem.failed;
}

/* Each allocation fails, one after the other. What was asked for is refused and has changed
 * nothing, and the log goes on. */
static void memory_may_fail_anywhere(void **state)
{
    struct stage *stage = *state;
    size_t fail_at = 1;

    stage->config.segment_bytes = 2000;
    while (!a_life(stage, fail_at)) {
        mst_replica_log_free(stage->log);
        stage->log = NULL;
        assert_int_equal(stage->mem.live, 0);
        fail_at++;
    }
    assert_true(fail_at > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_log_is_found_again, begin, end),
        cmocka_unit_test_setup_teardown(large_entries_are_found_again, begin, end),
        cmocka_unit_test_setup_teardown(a_log_of_many_files_is_found_again, begin, end),
        cmocka_unit_test_setup_teardown(a_turn_is_one_write_and_one_sync, begin, end),
        cmocka_unit_test_setup_teardown(without_sync_a_vote_of_another_boot_dies_with_its_id, begin,
                                        end),
        cmocka_unit_test_setup_teardown(with_sync_a_vote_survives_the_boot_with_its_id, begin, end),
        cmocka_unit_test_setup_teardown(sync_counts_from_when_it_was_there, begin, end),
        cmocka_unit_test_setup_teardown(broken_invariants_end_the_process, begin, end),
        cmocka_unit_test_setup_teardown(a_snapshot_takes_the_place_of_entries, begin, end),
        cmocka_unit_test_setup_teardown(a_snapshot_of_another_log_drops_the_entries, begin, end),
        cmocka_unit_test_setup_teardown(a_replaced_snapshot_goes_with_the_next, begin, end),
        cmocka_unit_test_setup_teardown(an_unfinished_snapshot_leaves_nothing, begin, end),
        cmocka_unit_test_setup_teardown(old_entries_are_read_from_their_files, begin, end),
        cmocka_unit_test_setup_teardown(a_replaced_entry_is_read_no_more, begin, end),
        cmocka_unit_test_setup_teardown(a_damaged_entry_is_not_read, begin, end),
        cmocka_unit_test_setup_teardown(bytes_are_read_when_there_is_memory, begin, end),
        cmocka_unit_test_setup_teardown(a_torn_tail_is_cut, begin, end),
        cmocka_unit_test_setup_teardown(damage_is_refused_with_its_place, begin, end),
        cmocka_unit_test_setup_teardown(a_missing_file_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_state_alone_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(entries_of_other_rules_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_full_disk_refuses_entries_and_no_vote, begin, end),
        cmocka_unit_test_setup_teardown(a_replica_begins_on_a_full_disk, begin, end),
        cmocka_unit_test_setup_teardown(a_failing_disk_breaks_the_log, begin, end),
        cmocka_unit_test_setup_teardown(memory_may_fail_anywhere, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
