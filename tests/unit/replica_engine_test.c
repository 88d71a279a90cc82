/* SPDX-License-Identifier: Apache-2.0 */
/* What the consensus does with what it is given, as far as replicas rely on it: its defect with a
 * configuration in the midst of a batch, and who owns the memory of an event. One that fails here
 * says that this libraft is another one than replicas were written for.
 *
 * behaviour: replicas / The consensus */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "service/replica/engine.h"

enum {
    SERVERS = 3,
    SELF = 2,
    LEADER = 1,
    ENTRIES_MAX = 8,
    BATCH = 4096,
    COMMAND_BYTES = 8,
    EVEN = 65536
};

/* ---- a heap that counts ---- */

static size_t live;
static bool even; /* each address is a multiple of 64 KiB */

static void *heap_malloc(void *data, size_t size)
{
    (void)data;
    live++;
    return even ? aligned_alloc(EVEN, EVEN) : malloc(size);
}

static void *heap_calloc(void *data, size_t count, size_t size)
{
    (void)data;
    live++;
    return calloc(count, size);
}

static void *heap_realloc(void *data, void *bytes, size_t size)
{
    (void)data;
    live += bytes == NULL;
    return realloc(bytes, size);
}

static void heap_free(void *data, void *bytes)
{
    (void)data;
    live -= bytes != NULL;
    free(bytes);
}

static void *heap_aligned_alloc(void *data, size_t alignment, size_t size)
{
    (void)data;
    live++;
    return aligned_alloc(alignment, size);
}

static void heap_aligned_free(void *data, size_t alignment, void *bytes)
{
    (void)alignment;
    heap_free(data, bytes);
}

/* ---- one server ---- */

struct stage {
    struct raft raft;
    raft_time now;
    struct raft_update update;
    struct raft_entry entries[ENTRIES_MAX]; /* of the last message */
};

static int step(struct stage *stage, struct raft_event *event)
{
    event->time = stage->now++;
    event->capacity = UINT16_MAX;
    return raft_step(&stage->raft, event, &stage->update);
}

static struct raft_configuration servers(unsigned count)
{
    struct raft_configuration configuration;
    char address[16];

    raft_configuration_init(&configuration);
    for (unsigned i = 1; i <= count; i++) {
        (void)snprintf(address, sizeof address, "a%u", i);
        assert_int_equal(raft_configuration_add(&configuration, i, address,
                                                i <= SERVERS ? RAFT_VOTER : RAFT_SPARE),
                         0);
    }
    return configuration;
}

static struct raft_buffer encoded(unsigned count)
{
    struct raft_configuration configuration = servers(count);
    struct raft_buffer bytes;

    assert_int_equal(raft_configuration_encode(&configuration, &bytes), 0);
    raft_configuration_close(&configuration);
    return bytes;
}

/* A voter of three whose log is their configuration, in term 1. */
static void start(struct stage *stage)
{
    static struct raft_heap heap = {.malloc = heap_malloc,
                                    .free = heap_free,
                                    .calloc = heap_calloc,
                                    .realloc = heap_realloc,
                                    .aligned_alloc = heap_aligned_alloc,
                                    .aligned_free = heap_aligned_free};
    struct raft_event event = {.type = RAFT_START};
    struct raft_entry first = {.term = 1, .type = RAFT_CHANGE};

    raft_heap_set(&heap);
    live = 0;
    memset(stage, 0, sizeof *stage);
    stage->now = 1000;
    assert_int_equal(raft_init(&stage->raft, NULL, NULL, SELF, "a2"), 0);
    first.buf = encoded(SERVERS);
    first.batch = first.buf.base;
    event.start.term = 1;
    event.start.start_index = 1;
    event.start.entries = &first;
    event.start.n_entries = 1;
    assert_int_equal(step(stage, &event), 0);
    raft_free(first.batch); /* it was read, and is still the caller's */
}

static void stop(struct stage *stage)
{
    raft_close(&stage->raft, NULL);
    assert_int_equal(live, 0);
    raft_heap_set_default();
}

/* Entries of `term` from the leader, those of type CHANGE with a fourth server. */
static void append(struct stage *stage, raft_term term, raft_index previous,
                   raft_term previous_term, raft_index commit, const char *types)
{
    struct raft_message message = {
        .type = RAFT_APPEND_ENTRIES, .server_id = LEADER, .server_address = "a1"};
    struct raft_event event = {.type = RAFT_RECEIVE};
    struct raft_buffer change = encoded(SERVERS + 1);
    unsigned count = (unsigned)strlen(types);
    unsigned char *batch = count > 0 ? raft_malloc(BATCH) : NULL;
    size_t used = 0;

    for (unsigned i = 0; i < count; i++) {
        bool is_change = types[i] == 'c';
        size_t size = is_change ? change.len : COMMAND_BYTES;

        memset(batch + used, 0, size);
        if (is_change) {
            memcpy(batch + used, change.base, size);
        }
        stage->entries[i] = (struct raft_entry){.term = term,
                                                .type = is_change ? RAFT_CHANGE : RAFT_COMMAND,
                                                .buf = {.base = batch + used, .len = size},
                                                .batch = batch};
        used += (size + 7) / 8 * 8;
    }
    raft_free(change.base);
    message.append_entries = (struct raft_append_entries){.term = term,
                                                          .prev_log_index = previous,
                                                          .prev_log_term = previous_term,
                                                          .leader_commit = commit,
                                                          .entries = stage->entries,
                                                          .n_entries = count};
    event.receive.message = &message;
    assert_int_equal(step(stage, &event), 0);
}

/* They were taken: they are on the disk now, and their memory is given back by who takes them. */
static void persist(struct stage *stage)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};

    assert_true(stage->update.flags & RAFT_UPDATE_ENTRIES);
    event.persisted_entries.index = stage->update.entries.index + stage->update.entries.n - 1;
    raft_free(stage->update.entries.batch[0].batch);
    assert_int_equal(step(stage, &event), 0);
}

static void apply_configuration(struct stage *stage, raft_index index)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION};

    event.configuration.index = index;
    event.configuration.conf = servers(SERVERS + 1);
    assert_int_equal(step(stage, &event), 0); /* takes the configuration over */
}

/* ---- its defect ---- */

/* A configuration in the midst of a batch takes the number of the batch's first entry, so its
 * commit is never seen: that server, once it leads, could change nothing any more. */
static void a_configuration_in_a_batch_stays_uncommitted(void **state)
{
    struct stage stage;

    (void)state;
    start(&stage);
    append(&stage, 1, 1, 1, 3, "xcx"); /* the configuration is entry 3 */
    persist(&stage);
    assert_int_equal(stage.raft.commit_index, 3);
    assert_int_equal(stage.raft.configuration_uncommitted_index, 2);
    apply_configuration(&stage, 3);
    assert_int_equal(stage.raft.configuration_uncommitted_index, 2);
    assert_int_equal(stage.raft.configuration_committed_index, 1);
    stop(&stage);
}

/* A configuration in the midst of a batch that another leader replaces stays in force: four
 * servers where there are three. */
static void a_replaced_configuration_of_a_batch_stays_in_force(void **state)
{
    struct stage stage;

    (void)state;
    start(&stage);
    append(&stage, 1, 1, 1, 1, "xc");
    persist(&stage);
    append(&stage, 2, 2, 1, 1, "x"); /* another entry 3 */
    assert_int_equal(stage.raft.configuration.n, SERVERS + 1);
    assert_int_equal(stage.raft.configuration_uncommitted_index, 2);
    persist(&stage);
    stop(&stage);
}

/* A batch is cut in front of each configuration. Then its commit is seen, and one that another
 * leader replaces is given up. */
static void a_configuration_that_stands_first_is_right(void **state)
{
    struct stage stage;

    (void)state;
    start(&stage);
    append(&stage, 1, 1, 1, 1, "x");
    persist(&stage);
    append(&stage, 1, 2, 1, 3, "cx");
    persist(&stage);
    assert_int_equal(stage.raft.configuration_uncommitted_index, 3);
    apply_configuration(&stage, 3);
    assert_int_equal(stage.raft.configuration_uncommitted_index, 0);
    assert_int_equal(stage.raft.configuration_committed_index, 3);
    stop(&stage);

    start(&stage);
    append(&stage, 1, 1, 1, 1, "x");
    persist(&stage);
    append(&stage, 1, 2, 1, 1, "c");
    persist(&stage);
    append(&stage, 2, 2, 1, 1, "x");
    assert_int_equal(stage.raft.configuration.n, SERVERS);
    assert_int_equal(stage.raft.configuration_uncommitted_index, 0);
    persist(&stage);
    stop(&stage);
}

/* ---- who owns what ---- */

/* Entries are received. Those that are to be persisted are the caller's to give back; of refused
 * and of known ones the consensus has given back the memory itself. */
static void entries_that_are_not_taken_are_given_back(void **state)
{
    struct stage stage;
    size_t before;

    (void)state;
    start(&stage);
    append(&stage, 1, 1, 1, 1, "x");
    persist(&stage); /* from the first message on there is room for messages */
    before = live;

    append(&stage, 1, 2, 1, 1, "xx");
    assert_true(stage.update.flags & RAFT_UPDATE_ENTRIES);
    assert_int_equal(live, before + 1);
    persist(&stage);
    assert_int_equal(live, before);
    append(&stage, 1, 7, 1, 1, "xx"); /* there is no entry 7 */
    assert_false(stage.update.flags & RAFT_UPDATE_ENTRIES);
    assert_int_equal(live, before);
    append(&stage, 1, 2, 1, 1, "xx"); /* the same again */
    assert_false(stage.update.flags & RAFT_UPDATE_ENTRIES);
    assert_int_equal(live, before);
    stop(&stage);
}

/* Entries are submitted to a server that does not lead. They stay the caller's. */
static void refused_submissions_stay_the_callers(void **state)
{
    struct raft_event event = {.type = RAFT_SUBMIT};
    struct raft_entry entry = {.term = 1, .type = RAFT_COMMAND};
    struct stage stage;

    (void)state;
    start(&stage);
    entry.buf = (struct raft_buffer){.base = raft_malloc(COMMAND_BYTES), .len = COMMAND_BYTES};
    entry.batch = entry.buf.base;
    event.submit.entries = &entry;
    event.submit.n = 1;
    assert_int_equal(step(&stage, &event), RAFT_NOTLEADER);
    raft_free(entry.batch);
    stop(&stage);
}

/* A committed configuration, and that of a snapshot, is given with an event. The consensus keeps it
 * or gives back its memory; it is the caller's no more. */
static void a_configuration_of_an_event_is_taken_over(void **state)
{
    struct raft_event event = {.type = RAFT_SNAPSHOT};
    struct stage stage;

    (void)state;
    start(&stage);
    append(&stage, 1, 1, 1, 2, "cx");
    persist(&stage);
    apply_configuration(&stage, 2); /* kept */
    apply_configuration(&stage, 2); /* known already */
    event.snapshot.metadata.index = 2;
    event.snapshot.metadata.term = 1;
    event.snapshot.metadata.configuration = servers(SERVERS + 1);
    event.snapshot.metadata.configuration_index = 2;
    event.snapshot.trailing = 1;
    assert_int_equal(step(&stage, &event), 0);
    stop(&stage);
}

/* A follower that was a candidate before gets a late answer to its pre-vote, of the next term. The
 * defect: whether it is in a pre-vote is read from a byte of its leader's address in memory. If
 * that byte is 0 it begins the term of the answer, and its leader is deposed. */
static void a_late_answer_to_a_pre_vote_begins_a_term(void **state)
{
    struct raft_message message = {
        .type = RAFT_REQUEST_VOTE_RESULT, .server_id = SERVERS, .server_address = "a3"};
    struct raft_event event = {.type = RAFT_RECEIVE, .receive = {.message = &message}};
    struct stage stage;

    (void)state;
    start(&stage);
    even = true;
    append(&stage, 1, 1, 1, 1, "");
    even = false;
    message.request_vote_result = (struct raft_request_vote_result){
        .version = 2, .term = 2, .vote_granted = true, .pre_vote = true};
    assert_int_equal(step(&stage, &event), 0);
    assert_int_equal(raft_current_term(&stage.raft), 2); /* mended: 1 */
    stop(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_configuration_in_a_batch_stays_uncommitted),
        cmocka_unit_test(a_replaced_configuration_of_a_batch_stays_in_force),
        cmocka_unit_test(a_configuration_that_stands_first_is_right),
        cmocka_unit_test(entries_that_are_not_taken_are_given_back),
        cmocka_unit_test(refused_submissions_stay_the_callers),
        cmocka_unit_test(a_configuration_of_an_event_is_taken_over),
        cmocka_unit_test(a_late_answer_to_a_pre_vote_begins_a_term),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
