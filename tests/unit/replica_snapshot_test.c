/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots in a group of replicas: who takes one, how a replica that lags gets one, and what is
 * noticed of a wrong one.
 *
 * behaviour: replicas / A group of replicas */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "replica_stage.h"

static size_t other_than(size_t a)
{
    return a == 0 ? 1 : 0;
}

/* The leader of three that begin again, and keep so many entries behind a snapshot. */
static size_t leader_that_keeps(struct stage *stage, uint64_t trailing)
{
    stage->trailing = trailing;
    for (size_t i = 0; i < 3; i++) {
        stage_down(stage, i);
        assert_int_equal(stage_up(stage, i, NULL), MUSTER_OK);
    }
    return stage_leader(stage);
}

/* The leader; `away` is cut off, and needs its snapshot. */
static size_t leader_with_a_snapshot(struct stage *stage, uint64_t trailing, size_t *away_out)
{
    size_t leader, away;

    leader = leader_that_keeps(stage, trailing);
    away = other_than(leader);
    stage_cut(stage, away, true);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(stage_put(stage, leader, "entry"));
    }
    stage_snapshot(stage, leader);
    assert_true(mst_replica_log_first(stage->nodes[leader].log) > 10);
    *away_out = away;
    return leader;
}

/* While a follower asks for the pieces of the leader's snapshot, no newer one takes its place:
 * under load it would never have a whole one. */
static void a_snapshot_on_its_way_is_kept(void **state)
{
    struct stage *stage = *state;
    size_t away, leader = leader_with_a_snapshot(stage, 2, &away);
    struct mst_replica *replica = stage->nodes[leader].replica;
    struct mst_replica_snapshot about;

    stage->pieces_max = 1;
    stage_cut(stage, away, false);
    for (unsigned i = 0; stage->pieces == 0; i++) {
        assert_true(i < 100);
        stage_run(stage, STAGE_ELECTION_MS / 10);
    }
    assert_true(stage_put(stage, leader, "meanwhile"));
    assert_int_equal(mst_replica_snapshot_begin(replica, &about), MUSTER_EFAILED);
    stage->pieces_max = UINT64_MAX;
    stage_follow(stage, away, leader);
    assert_int_equal(stage->nodes[away].restored, 1);
    stage_run(stage, 2 * STAGE_ELECTION_MS);
    assert_int_equal(mst_replica_snapshot_begin(replica, &about), MUSTER_OK);
}

/* Behind a snapshot no more entries are kept when they have enough bytes, here those of two. One
 * that lags by more gets the snapshot. */
static void few_bytes_are_kept_behind_a_snapshot(void **state)
{
    struct stage *stage = *state;
    size_t away, leader;

    stage->trailing_bytes = 2 * (sizeof "entry" - 1);
    leader = leader_with_a_snapshot(stage, 100, &away);
    assert_int_equal(mst_replica_log_first(stage->nodes[leader].log),
                     mst_replica_log_snapshot(stage->nodes[leader].log)->index - 1);
    stage_cut(stage, away, false);
    stage_follow(stage, away, leader);
    assert_int_equal(stage->nodes[away].restored, 1);
    assert_true(stage_put(stage, leader, "more"));
}

/* The leader; `away` was cut off, and lacks entries. */
static size_t leader_with_entries_in_files(struct stage *stage, size_t *away)
{
    const struct mst_replica_log *log;
    size_t leader;

    stage->entry_bytes = 1;
    leader = leader_that_keeps(stage, 100);
    *away = other_than(leader);
    stage_cut(stage, *away, true);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(stage_put(stage, leader, "entry"));
    }
    log = stage->nodes[leader].log;
    assert_null(mst_replica_log_at(log, mst_replica_log_last(log) - 10)->bytes.data);
    stage_cut(stage, *away, false);
    return leader;
}

/* A follower that lags gets entries that its leader has in files only. */
static void entries_in_files_are_sent(void **state)
{
    struct stage *stage = *state;
    size_t away, leader = leader_with_entries_in_files(stage, &away);

    stage_follow(stage, away, leader);
    assert_int_equal(stage->nodes[away].restored, 0);
    assert_int_equal(stage->nodes[away].state.digest, stage->nodes[leader].state.digest);
    assert_true(stage_put(stage, leader, "more"));
}

/* A leader cannot read an entry that a follower needs. It ends and says which; the others go on. */
static void an_entry_that_cannot_be_read_ends_the_leader(void **state)
{
    struct stage *stage = *state;
    size_t away, leader = leader_with_entries_in_files(stage, &away);
    struct fake_disk *disk = &stage->nodes[leader].disk;

    for (size_t i = 0; i < FAKE_FILES; i++) {
        if (strstr(disk->files[i].name, ".entries")) {
            fake_file_resize(&disk->files[i], 0);
        }
    }
    stage_run(stage, 2 * STAGE_ELECTION_MS);
    assert_int_equal(stage->nodes[leader].ended, MST_REPLICA_FAILED);
    assert_non_null(strstr(stage->nodes[leader].reason, "cannot read entry "));
    stage_down(stage, leader);
    assert_true(stage_put(stage, stage_leader(stage), "more"));
}

/* A follower whose entries were dropped behind a snapshot gets the snapshot in pieces and goes on
 * from it; after a cut in the midst it asks on where it was. */
static void a_snapshot_comes_in_pieces_and_is_resumed_after_a_cut(void **state)
{
    struct stage *stage = *state;
    size_t away, leader = leader_with_a_snapshot(stage, 2, &away);

    stage->pieces_max = 1;
    stage_cut(stage, away, false);
    stage_run(stage, STAGE_ELECTION_MS);
    assert_int_equal(stage->nodes[away].restored, 0);
    stage_cut(stage, away, true);
    stage_run(stage, STAGE_ELECTION_MS / 2);
    stage->pieces_max = UINT64_MAX;
    stage->wants_again = 0;
    stage->pieces = 0;
    stage_cut(stage, away, false);
    mst_replica_connected(stage->nodes[away].replica, stage->now_ns, stage->nodes[leader].id);
    stage_follow(stage, away, leader);
    assert_int_equal(stage->nodes[away].restored, 1);
    assert_true(stage->wants_again > 0);
    assert_int_equal(stage->pieces, 2);
    assert_true(stage_put(stage, leader, "behind"));
    stage_follow(stage, away, leader);
    assert_int_equal(stage->nodes[away].state.digest, stage->nodes[leader].state.digest);
}

/* An offer from a leader, of a snapshot of its term, ahead of all that is in the log. */
static void receive_offer(struct stage *stage, size_t to, size_t from, uint64_t term,
                          uint64_t bytes)
{
    static unsigned char configuration[MST_REPLICA_CONFIGURATION_MAX];
    struct mst_replica_message offer = {.type = MST_REPLICA_SNAPSHOT};
    struct mst_replica_status status;

    stage_status(stage, to, &status);
    mst_replica_configuration_write(configuration, status.servers);
    offer.snapshot.term = term;
    offer.snapshot.about = (struct mst_replica_snapshot){
        .index = status.last + 100,
        .term = term,
        .configuration_index = 1,
        .configuration =
            mst_slice_of(configuration, mst_replica_configuration_bytes(status.servers)),
        .bytes = bytes};
    mst_replica_receive(stage->nodes[to].replica, stage->now_ns, stage->nodes[from].id,
                        stage->nodes[from].address, &offer);
}

/* A leader of a later term offers its snapshot before its first heartbeat has come. The offer is
 * ignored, since the log has nothing of that term yet; after the heartbeat it is taken. */
static void an_offer_waits_for_its_term(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), follower = other_than(leader);
    const struct mst_replica_message heartbeat = {.type = MST_REPLICA_APPEND,
                                                  .append = {.term = 1000}};
    struct mst_replica *replica = stage->nodes[follower].replica;
    struct mst_replica_status status;

    receive_offer(stage, follower, leader, 1000, 10);
    stage_status(stage, follower, &status);
    assert_int_equal(status.receiving, 0);
    mst_replica_receive(replica, stage->now_ns, stage->nodes[leader].id,
                        stage->nodes[leader].address, &heartbeat);
    receive_offer(stage, follower, leader, 1000, 10);
    stage_status(stage, follower, &status);
    assert_int_equal(status.receiving, status.last + 100);
}

/* How many messages it would send now. */
static unsigned messages_of(struct mst_replica *replica)
{
    const struct mst_replica_effect *effect;
    unsigned count = 0;

    while ((effect = mst_replica_next(replica)) != NULL) {
        count += effect->type == MST_REPLICA_SEND;
        mst_replica_done(replica, effect);
    }
    return count;
}

/* The last piece of a snapshot comes when the next term has begun. From who leads that too it is
 * installed; from another one it is forgotten, and nobody is answered. */
static void a_snapshot_outlives_the_term_of_its_offer(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), follower = other_than(leader),
           third = 3 - leader - follower;
    struct mst_replica *replica = stage->nodes[follower].replica;
    struct mst_replica_message piece = {.type = MST_REPLICA_PIECE};
    struct mst_replica_message heartbeat = {.type = MST_REPLICA_APPEND};
    const size_t leads_next[] = {third, leader};
    struct mst_replica_status status;

    for (size_t i = 0; i < 2; i++) {
        stage_status(stage, follower, &status);
        receive_offer(stage, follower, leader, status.term, 10);
        piece.piece.index = status.last + 100;
        piece.piece.term = status.term;
        piece.piece.bytes = mst_slice_text("1234567890");
        piece.piece.last = true;
        heartbeat.append.term = status.term + 1;
        mst_replica_receive(replica, stage->now_ns, stage->nodes[leads_next[i]].id,
                            stage->nodes[leads_next[i]].address, &heartbeat);
        (void)messages_of(replica);
        mst_replica_receive(replica, stage->now_ns, stage->nodes[leader].id,
                            stage->nodes[leader].address, &piece);
        stage_status(stage, follower, &status);
        assert_int_equal(status.receiving, 0);
        assert_int_equal(status.last == piece.piece.index, leads_next[i] == leader);
        assert_int_equal(messages_of(replica), leads_next[i] == leader);
    }
}

/* A piece goes beyond the size of the snapshot that was offered. It is not kept: a snapshot takes
 * no more room than its offer says. */
static void a_piece_beyond_the_offer_is_not_kept(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), follower = other_than(leader);
    struct mst_replica_message piece = {.type = MST_REPLICA_PIECE};
    struct mst_replica_status status;

    stage_status(stage, follower, &status);
    receive_offer(stage, follower, leader, status.term, 10);
    piece.piece.index = status.last + 100;
    piece.piece.term = status.term;
    piece.piece.bytes = mst_slice_text("1234567");
    for (uint64_t i = 0; i < 2; i++) {
        piece.piece.offset = 7 * i;
        mst_replica_receive(stage->nodes[follower].replica, stage->now_ns, stage->nodes[leader].id,
                            stage->nodes[leader].address, &piece);
        stage_status(stage, follower, &status);
        assert_int_equal(status.received_bytes, i == 0 ? 7 : 0);
        assert_int_equal(status.receiving != 0, i == 0);
    }
}

/* While an own snapshot is being written, the leader's is not received: the shell is asked to end
 * its own, and then it comes. */
static void an_own_snapshot_yields_to_the_leaders(void **state)
{
    struct stage *stage = *state;
    size_t leader, away;
    struct mst_replica_snapshot about;
    struct mst_replica_saving *saving;

    leader = leader_that_keeps(stage, 2);
    away = other_than(leader);
    assert_true(stage_put(stage, leader, "entry"));
    stage_follow(stage, away, leader);
    stage_cut(stage, away, true);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(stage_put(stage, leader, "entry"));
    }
    stage_snapshot(stage, leader);
    assert_int_equal(mst_replica_snapshot_begin(stage->nodes[away].replica, &about), MUSTER_OK);
    assert_int_equal(mst_replica_log_save(stage->nodes[away].log, &about, &saving), MUSTER_OK);
    stage_cut(stage, away, false);
    stage_run(stage, 2 * STAGE_ELECTION_MS);
    assert_true(stage->nodes[away].yields > 0);
    assert_int_equal(stage->nodes[away].restored, 0);
    mst_replica_snapshot_end(stage->nodes[away].replica, stage->now_ns, false);
    stage_follow(stage, away, leader);
    assert_int_equal(stage->nodes[away].restored, 1);
}

/* A snapshot without its configuration, or of what was not applied, is not taken. */
static void a_snapshot_without_its_configuration_is_noticed(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage);
    struct stage_node *node = &stage->nodes[leader];
    struct mst_replica_snapshot about;
    struct mst_replica_saving *saving;

    assert_true(stage_put(stage, leader, "one"));
    assert_int_equal(mst_replica_snapshot_begin(node->replica, &about), MUSTER_OK);
    about.configuration_index = 0;
    assert_int_equal(mst_replica_log_save(node->log, &about, &saving), MUSTER_OK);
    assert_int_equal(mst_replica_saving_put(saving, mst_slice_text("state")), MUSTER_OK);
    assert_int_equal(mst_replica_saving_close(saving), MUSTER_OK);
    mst_replica_snapshot_end(node->replica, stage->now_ns, true);
    stage_carry(stage);
    assert_int_equal(node->ended, MST_REPLICA_BROKEN);
    assert_non_null(strstr(node->reason, "has no configuration"));
}

/* A replica that begins again knows of configurations in its log before it knows that the entries
 * in front of them are committed. It takes no snapshot that has one of them and not these. */
static void a_snapshot_has_no_later_configuration(void **state)
{
    struct stage *stage = *state;
    struct mst_replica_snapshot about;
    struct mst_replica_status status;
    struct mst_replica *follower;
    uint64_t last;

    stage->wanted = 3;
    stage->present_count = 3;
    assert_int_equal(stage_leader(stage), 0);
    stage_run(stage, 10 * STAGE_ELECTION_MS);
    stage_status(stage, 0, &status);
    assert_int_equal(mst_replica_servers_voters(status.servers), 3);
    stage_cut(stage, 1, true);
    stage_down(stage, 1);
    assert_int_equal(stage_up(stage, 1, NULL), MUSTER_OK);
    follower = stage->nodes[1].replica;
    last = mst_replica_log_last(stage->nodes[1].log);
    stage_receive_entry(stage, 1, 0, last, 2);
    stage_carry(stage);
    assert_int_equal(mst_replica_committed(follower), 2);
    assert_int_equal(mst_replica_snapshot_begin(follower, &about), MUSTER_EFAILED);
    stage_receive_entry(stage, 1, 0, last + 1, last + 2);
    stage_carry(stage);
    assert_int_equal(mst_replica_snapshot_begin(follower, &about), MUSTER_OK);
    assert_int_equal(about.index, last + 2);
    assert_in_range(about.configuration_index, 3, last);
}

/* A follower whose first entries are behind a snapshot is sent the first one again: it has it. */
static void entries_behind_a_snapshot_are_not_taken_again(void **state)
{
    struct stage *stage = *state;
    size_t away, leader = leader_with_a_snapshot(stage, 2, &away);
    size_t to = 3 - leader - away;
    struct mst_replica_status before, after;

    stage_follow(stage, to, leader);
    stage_snapshot(stage, to);
    stage_status(stage, to, &before);
    assert_true(before.first > 10);
    stage_receive_entry(stage, to, leader, 0, 0);
    stage_carry(stage);
    stage_status(stage, to, &after);
    assert_null(after.reason);
    assert_int_equal(after.last, before.last);
}

static void damage_state(struct stage_node *node)
{
    struct fake_file *file = fake_disk_find(&node->disk, "0000000001.state");

    assert_non_null(file);
    file->bytes[file->size / 2] ^= 1;
}

/* The leader's snapshot was damaged on its disk, and a follower needs it. The leader ends and names
 * the file and the place, and the follower has the snapshot of the next leader. */
static void a_damaged_snapshot_ends_its_leader(void **state)
{
    struct stage *stage = *state;
    size_t leader, away;

    leader = leader_that_keeps(stage, 2);
    away = other_than(leader);
    stage_cut(stage, away, true);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(stage_put(stage, leader, "entry"));
    }
    stage_follow(stage, 3 - leader - away, leader);
    stage_snapshot(stage, leader);
    stage_snapshot(stage, 3 - leader - away);
    damage_state(&stage->nodes[leader]);
    stage_cut(stage, away, false);
    stage_run(stage, 10 * STAGE_ELECTION_MS);
    assert_int_equal(stage->nodes[leader].ended, MST_REPLICA_FAILED);
    assert_non_null(strstr(stage->nodes[leader].reason, "0000000001.state is damaged at offset"));
    leader = stage_leader(stage);
    assert_true(stage_put(stage, leader, "more"));
    stage_follow(stage, away, leader);
    assert_int_equal(stage->nodes[away].restored, 1);
}

/* An own snapshot is damaged before it is taken. The replica ends, and the line names the file and
 * the place. */
static void a_damaged_own_snapshot_is_named(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage);
    struct stage_node *node = &stage->nodes[leader];
    struct mst_replica_snapshot about;
    struct mst_replica_saving *saving;
    struct fake_file *file;

    assert_true(stage_put(stage, leader, "one"));
    assert_int_equal(mst_replica_snapshot_begin(node->replica, &about), MUSTER_OK);
    assert_int_equal(mst_replica_log_save(node->log, &about, &saving), MUSTER_OK);
    assert_int_equal(mst_replica_saving_put(saving, mst_slice_text("state")), MUSTER_OK);
    assert_int_equal(mst_replica_saving_close(saving), MUSTER_OK);
    file = fake_disk_find(&node->disk, "0000000001.state");
    assert_non_null(file);
    file->bytes[file->size - 1] ^= 1;
    mst_replica_snapshot_end(node->replica, stage->now_ns, true);
    stage_carry(stage);
    assert_int_equal(node->ended, MST_REPLICA_FAILED);
    assert_non_null(strstr(node->reason, "its snapshot cannot be taken"));
    assert_non_null(strstr(node->reason, "0000000001.state is damaged at offset"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_snapshot_on_its_way_is_kept, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(entries_in_files_are_sent, stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(an_entry_that_cannot_be_read_ends_the_leader,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(few_bytes_are_kept_behind_a_snapshot, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_snapshot_comes_in_pieces_and_is_resumed_after_a_cut,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(an_offer_waits_for_its_term, stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_snapshot_outlives_the_term_of_its_offer,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_piece_beyond_the_offer_is_not_kept, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(an_own_snapshot_yields_to_the_leaders, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_snapshot_without_its_configuration_is_noticed,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_snapshot_has_no_later_configuration, stage_begin_one,
                                        stage_end),
        cmocka_unit_test_setup_teardown(entries_behind_a_snapshot_are_not_taken_again,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_damaged_snapshot_ends_its_leader, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_damaged_own_snapshot_is_named, stage_begin_three,
                                        stage_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
