/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a replica on a disk that keeps what POSIX promises and no more: the process, or its
 * host, dies at any operation, and what comes back is compared with what was promised.
 *
 * behaviour: replicas / The log of a replica */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../sim/disk.h"
#include "../sim/world.h"
#include "base/prng.h"
#include "failing_mem.h"
#include "service/replica/log.h"

enum {
    STORIES = 40,
    STEPS = 100,
    ENTRIES_MAX = 256,
    STATES_MAX = 64, /* between two promises */
    VALUE_MAX = 90,
    STATE_MAX = 200000,
    CONFIGURATION = 40
};

void *sim_new(size_t size)
{
    void *p = calloc(1, size);

    assert_non_null(p);
    return p;
}

void *sim_grown(void *array, size_t count, size_t size)
{
    void *p = realloc(array, count * size);

    assert_non_null(p);
    return p;
}

/* ---- what must come back ---- */

struct kept_entry {
    uint64_t term, value;
};

struct kept {
    uint64_t term, vote, last;
    uint64_t snapshot, snapshot_term, state_bytes;
    struct kept_entry entries[ENTRIES_MAX]; /* at their indexes */
};

struct stage {
    struct sim_disk sim;
    struct mst_disk disk;
    struct failing_mem mem;
    struct mst_replica_log_config config;
    struct mst_replica_log *log;
    struct mst_prng prng;
    struct muster_error err;
    uint64_t next_id, id, committed, values;
    bool dead;
    size_t state_count;
    struct kept states[STATES_MAX]; /* [0] was promised, the others are since then */
};

static uint64_t below(struct stage *stage, uint64_t bound)
{
    return mst_prng_below(&stage->prng, bound);
}

static struct kept *now(struct stage *stage)
{
    return &stage->states[stage->state_count - 1];
}

/* What may come back from here on. */
static struct kept *another(struct stage *stage)
{
    assert_true(stage->state_count < STATES_MAX);
    stage->states[stage->state_count] = *now(stage);
    stage->state_count++;
    return now(stage);
}

static void promised(struct stage *stage)
{
    stage->states[0] = *now(stage);
    stage->state_count = 1;
}

/* The bytes of an entry, and of a state, follow from a number. */
static struct mst_slice bytes_of(uint64_t value, unsigned char *room)
{
    size_t size = (size_t)(value % VALUE_MAX);

    for (size_t i = 0; i < size; i++) {
        room[i] = (unsigned char)(value + i);
    }
    return mst_slice_of(room, size);
}

static unsigned char state_byte(uint64_t index, uint64_t at)
{
    return (unsigned char)(index * 31 + at * 7 + at / 65536);
}

static struct mst_slice configuration_of(uint64_t index, unsigned char room[CONFIGURATION])
{
    memset(room, (int)(index % 251), CONFIGURATION);
    return mst_slice_of(room, CONFIGURATION);
}

/* ---- life ---- */

static bool fine(struct stage *stage, muster_status status)
{
    if (status != MUSTER_OK) {
        if (!stage->sim.dead) {
            fail_msg("%d: %s", (int)status, stage->err.text);
        }
        stage->dead = true;
    }
    return status == MUSTER_OK;
}

static bool open_log(struct stage *stage)
{
    stage->config.id = stage->next_id;
    return fine(stage, mst_replica_log_open(&stage->log, &stage->disk, &stage->config,
                                            &stage->mem.mem, &stage->err));
}

static void leave(struct stage *stage)
{
    mst_replica_log_free(stage->log);
    stage->log = NULL;
    assert_int_equal(stage->mem.live, 0);
}

/* ---- a story ---- */

static void vote(struct stage *stage)
{
    struct kept *kept = now(stage);
    uint64_t term = kept->term, to = kept->vote;

    if (to == 0 && below(stage, 2) == 0) {
        to = 1 + below(stage, 3);
    } else {
        term++;
        to = below(stage, 4);
    }
    (void)fine(stage, mst_replica_log_vote(stage->log, term, to));
    kept = another(stage);
    kept->term = term;
    kept->vote = to;
}

static void append(struct stage *stage)
{
    struct mst_replica_entry entries[3];
    unsigned char rooms[3][VALUE_MAX];
    uint64_t values[3];
    size_t count = 1 + (size_t)below(stage, 3);
    uint64_t last = now(stage)->last, index = last + 1;
    struct kept *kept;

    if (below(stage, 4) == 0 && last > stage->committed) {
        index = stage->committed + 1 + below(stage, last - stage->committed);
    }
    if (now(stage)->term == 0 || index + count > ENTRIES_MAX) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = ++stage->values;
        entries[i] =
            (struct mst_replica_entry){.term = now(stage)->term,
                                       .type = (enum mst_replica_entry_type)(1 + values[i] % 3),
                                       .bytes = bytes_of(values[i], rooms[i])};
    }
    (void)fine(stage, mst_replica_log_append(stage->log, index, entries, count));
    for (size_t i = 0; i < count; i++) {
        kept = another(stage);
        kept->last = index + i;
        kept->entries[index + i] = (struct kept_entry){.term = entries[i].term, .value = values[i]};
    }
}

static void write_out(struct stage *stage)
{
    if (fine(stage, mst_replica_log_write(stage->log, &stage->err))) {
        promised(stage);
        assert_int_equal(mst_replica_log_written(stage->log), now(stage)->last);
    }
}

static void commit(struct stage *stage)
{
    uint64_t written = stage->states[0].last;

    if (written > stage->committed && stage->state_count == 1) {
        stage->committed += 1 + below(stage, written - stage->committed);
        mst_replica_log_commit(stage->log, stage->committed);
    }
}

/* A state at `index`, an own one or one from a leader. */
static void snapshot(struct stage *stage, uint64_t index, uint64_t term, bool drops)
{
    unsigned char room[CONFIGURATION], piece[3000];
    struct mst_replica_snapshot about = {.index = index,
                                         .term = term,
                                         .configuration_index = 1,
                                         .configuration = configuration_of(index, room)};
    uint64_t bytes = below(stage, 12) == 0 ? below(stage, STATE_MAX) : below(stage, 3000);
    struct mst_replica_saving *saving;
    bool whole = true;
    struct kept *kept;

    assert_int_equal(mst_replica_log_save(stage->log, &about, &saving), MUSTER_OK);
    while (whole && mst_replica_saving_put_bytes(saving) < bytes) {
        uint64_t at = mst_replica_saving_put_bytes(saving);
        size_t size = (size_t)(1 + below(stage, sizeof piece));

        size = size < bytes - at ? size : (size_t)(bytes - at);
        for (size_t i = 0; i < size; i++) {
            piece[i] = state_byte(index, at + i);
        }
        whole = fine(stage, mst_replica_saving_put(saving, mst_slice_of(piece, size)));
    }
    if (!whole) {
        return;
    }
    kept = another(stage);
    kept->snapshot = index;
    kept->snapshot_term = term;
    kept->state_bytes = bytes;
    if (drops) {
        kept->last = index;
    }
    if (fine(stage, mst_replica_saving_close(saving)) &&
        fine(stage, mst_replica_log_take(stage->log, saving, &stage->err))) {
        stage->committed = stage->committed < index ? index : stage->committed;
        promised(stage);
    }
}

static void own_snapshot(struct stage *stage)
{
    const struct kept *kept = now(stage);

    if (stage->committed > kept->snapshot && stage->state_count == 1) {
        snapshot(stage, stage->committed, kept->entries[stage->committed].term, false);
    }
}

static void received_snapshot(struct stage *stage)
{
    uint64_t index = now(stage)->last + 1 + below(stage, 4);

    if (stage->state_count == 1 && now(stage)->term > 0 && index < ENTRIES_MAX) {
        snapshot(stage, index, now(stage)->term, true);
    }
}

static void one_step(struct stage *stage)
{
    switch (below(stage, 16)) {
    case 0:
        vote(stage);
        break;
    case 1:
    case 2:
        commit(stage);
        break;
    case 3:
        own_snapshot(stage);
        break;
    case 4:
        if (below(stage, 4) == 0) {
            received_snapshot(stage);
        }
        break;
    case 5:
        mst_replica_log_compact(stage->log, below(stage, 6));
        break;
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
        write_out(stage);
        break;
    default:
        append(stage);
        break;
    }
    stage->dead = stage->dead || stage->sim.dead;
}

static void live(struct stage *stage, unsigned steps)
{
    for (unsigned i = 0; i < steps && !stage->dead; i++) {
        if (stage->state_count + 4 > STATES_MAX) {
            write_out(stage);
        } else {
            one_step(stage);
        }
    }
}

/* ---- and back ---- */

static bool is_state(struct stage *stage, const struct kept *kept)
{
    const struct mst_replica_log *log = stage->log;
    const struct mst_replica_snapshot *snapshot = mst_replica_log_snapshot(log);
    unsigned char room[VALUE_MAX];

    if (mst_replica_log_term(log) != kept->term || mst_replica_log_vote_of(log) != kept->vote ||
        mst_replica_log_last(log) != kept->last || snapshot->index != kept->snapshot ||
        snapshot->term != kept->snapshot_term || snapshot->bytes != kept->state_bytes) {
        return false;
    }
    if (mst_replica_log_first(log) > snapshot->index + 1) {
        return false;
    }
    for (uint64_t i = mst_replica_log_first(log); i <= kept->last; i++) {
        const struct mst_replica_entry *entry = mst_replica_log_at(log, i);
        uint64_t value = kept->entries[i].value;

        if (entry->term != kept->entries[i].term ||
            entry->type != (enum mst_replica_entry_type)(1 + value % 3) ||
            !mst_slice_equal(entry->bytes, bytes_of(value, room))) {
            return false;
        }
    }
    return true;
}

static void check_snapshot(struct stage *stage)
{
    const struct mst_replica_snapshot *snapshot = mst_replica_log_snapshot(stage->log);
    unsigned char room[CONFIGURATION];
    unsigned char *state;

    if (snapshot->index == 0) {
        return;
    }
    assert_true(mst_slice_equal(snapshot->configuration, configuration_of(snapshot->index, room)));
    assert_int_equal(snapshot->configuration_index, 1);
    state = malloc((size_t)snapshot->bytes + 1);
    assert_non_null(state);
    assert_int_equal(mst_replica_log_read(stage->log, snapshot->index, 0, state,
                                          (size_t)snapshot->bytes, &stage->err),
                     MUSTER_OK);
    for (uint64_t i = 0; i < snapshot->bytes; i++) {
        if (state[i] != state_byte(snapshot->index, i)) {
            fail_msg("byte %llu of the state", (unsigned long long)i);
        }
    }
    free(state);
}

/* The log is one of the states that may come back; that is the promised one from now on. */
static void find_state(struct stage *stage)
{
    for (size_t i = 0; i < stage->state_count; i++) {
        if (is_state(stage, &stage->states[i])) {
            stage->states[0] = stage->states[i];
            stage->state_count = 1;
            stage->committed = stage->states[0].snapshot;
            check_snapshot(stage);
            return;
        }
    }
    fail_msg("term %llu, vote %llu, entries %llu to %llu, snapshot %llu: it was never so",
             (unsigned long long)mst_replica_log_term(stage->log),
             (unsigned long long)mst_replica_log_vote_of(stage->log),
             (unsigned long long)mst_replica_log_first(stage->log),
             (unsigned long long)mst_replica_log_last(stage->log),
             (unsigned long long)mst_replica_log_snapshot(stage->log)->index);
}

static void begin(struct stage *stage, uint64_t seed, bool sync)
{
    memset(stage, 0, sizeof *stage);
    sim_disk_init(&stage->sim, seed);
    stage->disk = sim_disk_seen(&stage->sim);
    failing_mem_init(&stage->mem, 0);
    stage->prng.state = seed;
    stage->next_id = 100;
    stage->state_count = 1;
    stage->config = (struct mst_replica_log_config){.boot = "a boot",
                                                    .sync = sync,
                                                    .version = "test",
                                                    .rules = 1,
                                                    .segment_bytes = 700,
                                                    .chunk_bytes = 300};
}

static void begin_again(struct stage *stage)
{
    stage->dead = false;
    if (!open_log(stage)) {
        fail_msg("%s", stage->err.text);
    }
}

/* Reopens what is left, lives on a little, and finds that again too. */
static void come_back(struct stage *stage)
{
    begin_again(stage);
    if (stage->id != 0 && !mst_replica_log_recovery(stage->log)->fresh) {
        assert_int_equal(mst_replica_log_id(stage->log), stage->id);
    }
    find_state(stage);
    leave(stage);
    begin_again(stage);
    find_state(stage);
    live(stage, 20);
    write_out(stage);
    leave(stage);
    sim_disk_crash(&stage->sim, stage->config.sync);
    begin_again(stage);
    find_state(stage);
    leave(stage);
}

/* False: it was over before the `dies_in`th operation. */
static bool try_death(struct stage *stage, uint64_t seed, bool sync, bool with_host,
                      uint64_t dies_in)
{
    bool died;

    begin(stage, seed, sync);
    stage->sim.dies_in = dies_in;
    if (open_log(stage)) {
        stage->id = mst_replica_log_id(stage->log);
        live(stage, STEPS);
    }
    died = stage->dead;
    leave(stage);
    sim_disk_crash(&stage->sim, with_host);
    come_back(stage);
    sim_disk_fini(&stage->sim);
    return died;
}

static void try_all(bool sync, bool with_host)
{
    struct stage *stage = malloc(sizeof *stage);
    uint64_t deaths = 0;

    assert_non_null(stage);
    for (uint64_t seed = 1; seed <= STORIES; seed++) {
        uint64_t at = 1;

        while (try_death(stage, seed, sync, with_host, at)) {
            at++;
        }
        deaths += at;
    }
    assert_true(deaths > STORIES * (uint64_t)20);
    free(stage);
}

/* The process dies at any operation of the disk. Entries, vote and snapshot are those that were
 * promised, or some of what was being added behind them; and the log goes on. */
static void a_process_dies_at_any_operation(void **state)
{
    (void)state;
    try_all(false, false);
    try_all(true, false);
}

/* The host dies at any operation of a log with --sync. What was promised is there, the same id with
 * the same vote too. */
static void a_host_dies_at_any_operation(void **state)
{
    (void)state;
    try_all(true, true);
}

/* The next service, of another boot. False: with --sync what cannot be read is not taken for
 * something without, and it does not start. */
static bool open_in_boot(struct stage *stage, const char *boot, uint64_t id)
{
    muster_status status;

    memset(stage->config.boot, 0, sizeof stage->config.boot);
    memcpy(stage->config.boot, boot, strlen(boot));
    stage->config.id = id;
    stage->dead = false;
    status = mst_replica_log_open(&stage->log, &stage->disk, &stage->config, &stage->mem.mem,
                                  &stage->err);
    if (status != MUSTER_OK && !stage->sim.dead) {
        assert_true(stage->config.sync);
        assert_non_null(strstr(stage->err.text, "joins as a new replica"));
    }
    return status == MUSTER_OK;
}

/* It has what was promised, or is one that never voted. */
static void is_as_promised_or_new(struct stage *stage)
{
    if (mst_replica_log_id(stage->log) == 100) {
        find_state(stage);
    } else {
        assert_int_equal(mst_replica_log_term(stage->log), 0);
        assert_int_equal(mst_replica_log_last(stage->log), 0);
        assert_int_equal(mst_replica_log_snapshot(stage->log)->index, 0);
    }
}

static bool try_death_unsynced(struct stage *stage, uint64_t seed, uint64_t dies_in)
{
    bool died;

    begin(stage, seed, true);
    if (seed % 2 == 0) { /* it had --sync */
        begin_again(stage);
        live(stage, STEPS / 2);
        write_out(stage);
        leave(stage);
        sim_disk_crash(&stage->sim, false);
    }
    stage->config.sync = false;
    stage->sim.dies_in = dies_in;
    if (open_log(stage)) {
        stage->committed = mst_replica_log_snapshot(stage->log)->index;
        live(stage, STEPS);
    }
    died = stage->dead;
    leave(stage);
    sim_disk_crash(&stage->sim, true);

    stage->config.sync = seed % 3 == 0;
    if (seed % 4 < 2) { /* that host dies while its service begins */
        stage->sim.dies_in = 1 + below(stage, 16);
        if (open_in_boot(stage, "another", 200)) {
            is_as_promised_or_new(stage);
        }
        leave(stage);
        sim_disk_crash(&stage->sim, true);
    }
    if (open_in_boot(stage, "a third", 300)) {
        is_as_promised_or_new(stage);
        if (mst_replica_log_recovery(stage->log)->fresh) {
            assert_int_equal(mst_replica_log_id(stage->log), 300);
        }
    }
    leave(stage);
    sim_disk_fini(&stage->sim);
    return died;
}

/* A host dies at any operation of a log without --sync, with or without one from before with it,
 * and the next service is of another boot. It finds all that was promised, or nothing, and then it
 * has an id that never voted: a forgotten vote cannot be given again. If it has --sync and cannot
 * read what there is, it does not start. */
static void a_host_dies_without_sync(void **state)
{
    struct stage *stage = malloc(sizeof *stage);

    (void)state;
    assert_non_null(stage);
    for (uint64_t seed = 1; seed <= STORIES; seed++) {
        uint64_t at = 1;

        while (try_death_unsynced(stage, seed, at)) {
            at++;
        }
    }
    free(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_dies_at_any_operation),
        cmocka_unit_test(a_host_dies_at_any_operation),
        cmocka_unit_test(a_host_dies_without_sync),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
