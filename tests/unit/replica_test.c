/* SPDX-License-Identifier: Apache-2.0 */
/* A few replicas in one process, which exchange bytes: they elect a leader, keep one log, change
 * their members, and catch up.
 *
 * behaviour: replicas / A group of replicas */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "replica_stage.h"

static size_t other_than(size_t a)
{
    return a == 0 ? 1 : 0;
}

/* Three replicas elect one of them. What is submitted to it is applied by all, in one order. */
static void a_group_elects_and_applies_one_log(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage);
    struct mst_replica_status status;

    assert_true(stage_put(stage, leader, "one"));
    assert_true(stage_put(stage, leader, ""));
    assert_true(stage_put(stage, leader, "two"));
    for (size_t i = 0; i < 3; i++) {
        stage_follow(stage, i, leader);
        stage_status(stage, i, &status);
        assert_int_equal(status.leader, stage->nodes[leader].id);
        assert_string_equal(status.leader_address, stage->nodes[leader].address);
        assert_int_equal(stage->nodes[i].state.digest, stage->nodes[leader].state.digest);
        assert_int_equal(stage->nodes[i].leads, i == leader);
    }
    stage_status(stage, leader, &status);
    assert_int_equal(mst_replica_servers_voters(status.servers), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(status.of[i].match, status.last);
        assert_true(status.of[i].heard);
    }
}

/* A follower takes no submissions, and neither does a leader before its first entry is committed.
 */
static void only_a_serving_leader_takes_submissions(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage);
    uint64_t index;

    for (size_t i = 0; i < 3; i++) {
        if (i != leader) {
            assert_int_equal(mst_replica_submit(stage->nodes[i].replica, stage->now_ns,
                                                MST_REPLICA_RECORDS, mst_slice_text("x"), &index),
                             MUSTER_ECONFLICT);
        }
    }
}

/* The leader is killed after an entry was committed: another one leads within 10 election timeouts
 * and has it. The killed one starts again on its disk and follows. */
static void a_killed_leader_is_replaced_and_comes_back(void **state)
{
    struct stage *stage = *state;
    size_t first = stage_leader(stage), second;

    assert_true(stage_put(stage, first, "kept"));
    stage_down(stage, first);
    second = stage_leader(stage);
    assert_true(second != first);
    assert_true(stage_put(stage, second, "more"));
    assert_int_equal(stage_up(stage, first, NULL), MUSTER_OK);
    stage_follow(stage, first, second);
    assert_int_equal(stage->nodes[first].state.digest, stage->nodes[second].state.digest);
}

/* A leader that is cut off commits nothing more and ends, since it hears of no majority. What it
 * had appended by then is replaced by what the next leader commits. */
static void a_leader_that_is_cut_off_ends_and_its_entries_are_replaced(void **state)
{
    struct stage *stage = *state;
    size_t first = stage_leader(stage), second;

    assert_true(stage_put(stage, first, "kept"));
    stage_cut(stage, first, true);
    assert_false(stage_put(stage, first, "lost 1"));
    assert_false(stage_put(stage, first, "lost 2"));
    stage_run(stage, 3 * STAGE_ELECTION_MS);
    assert_int_equal(stage->nodes[first].ended, MST_REPLICA_DEPOSED);
    assert_non_null(strstr(stage->nodes[first].reason, "no majority for 200 ms"));
    second = stage_leader(stage);
    assert_true(stage_put(stage, second, "taken"));
    stage_cut(stage, first, false);
    assert_int_equal(stage_up(stage, first, NULL), MUSTER_OK);
    stage_follow(stage, first, second);
    assert_int_equal(stage->nodes[first].state.digest, stage->nodes[second].state.digest);
}

/* A leader that was stopped wakes up while another one leads: it learns the newer term, is deposed,
 * and has committed nothing in between. */
static void a_leader_that_was_stopped_is_deposed(void **state)
{
    struct stage *stage = *state;
    size_t first = stage_leader(stage), second;
    struct mst_replica *frozen = stage->nodes[first].replica;
    struct mst_replica_status status;

    assert_true(stage_put(stage, first, "kept"));
    stage->nodes[first].replica = NULL; /* it neither receives nor ticks */
    second = stage_leader(stage);
    assert_true(stage_put(stage, second, "other"));
    stage->nodes[first].replica = frozen;
    stage_run(stage, 2 * STAGE_ELECTION_MS);
    assert_int_equal(stage->nodes[first].ended, MST_REPLICA_DEPOSED);
    stage_status(stage, second, &status);
    assert_true(status.serves);
}

/* Five hundred entries are committed while a follower is away; it gets all of them, in batches. */
static void a_follower_that_lags_catches_up(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), away = other_than(leader);

    stage_cut(stage, away, true);
    for (unsigned i = 0; i < 500; i++) {
        assert_true(stage_put(stage, leader, "entry"));
    }
    stage_cut(stage, away, false);
    stage_follow(stage, away, leader);
    assert_true(stage->nodes[leader].replica != NULL);
    assert_int_equal(stage->nodes[away].restored, 0);
}

/* Entries of a MiB each go one in a message, and a message is never longer than one may be. */
static void large_entries_are_sent_one_by_one(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), away = other_than(leader);
    char *large = malloc(MST_REPLICA_BATCH_MAX);

    assert_non_null(large);
    memset(large, 'x', MST_REPLICA_BATCH_MAX - 1);
    large[MST_REPLICA_BATCH_MAX - 1] = '\0';
    stage_cut(stage, away, true);
    for (unsigned i = 0; i < 6; i++) {
        assert_true(stage_put(stage, leader, large));
    }
    stage_cut(stage, away, false);
    stage_follow(stage, away, leader);
    assert_true(stage->longest < MST_REPLICA_BATCH_MAX + 4096);
    free(large);
}

/* The answer to a pre-vote comes late: by then the candidate follows another one, or leads. Neither
 * begins the term of which the answer is. */
static void a_late_answer_to_a_pre_vote_changes_no_term(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage);
    struct mst_replica_message late = {.type = MST_REPLICA_VOTE_RESULT};
    struct mst_replica_status before, after;

    stage_status(stage, leader, &before);
    late.vote_result.term = before.term + 1;
    late.vote_result.granted = late.vote_result.pre = true;
    for (size_t i = 0; i < stage->count; i++) {
        size_t from = other_than(i);

        mst_replica_receive(stage->nodes[i].replica, stage->now_ns, stage->nodes[from].id,
                            stage->nodes[from].address, &late);
    }
    stage_carry(stage);
    stage_status(stage, leader, &after);
    assert_int_equal(after.state, MST_REPLICA_LEADER);
    assert_int_equal(after.term, before.term);
}

/* All replicas are killed after snapshots and begin again on their disks: the state is that of
 * before, and the group goes on. */
static void a_group_begins_again_on_its_disks(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage);
    uint64_t digest;

    stage->trailing = 3;
    for (unsigned i = 0; i < 10; i++) {
        assert_true(stage_put(stage, leader, "entry"));
    }
    for (size_t i = 0; i < 3; i++) {
        stage_follow(stage, i, leader);
        stage_snapshot(stage, i);
    }
    assert_true(stage_put(stage, leader, "behind the snapshot"));
    digest = stage->nodes[leader].state.digest;
    for (size_t i = 0; i < 3; i++) {
        stage_down(stage, i);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(stage_up(stage, i, NULL), MUSTER_OK);
    }
    leader = stage_leader(stage);
    assert_int_equal(stage->nodes[leader].state.digest, digest);
    assert_true(stage_put(stage, leader, "more"));
}

/* The lead is handed to a chosen voter within an election timeout; the one that had it is deposed.
 */
static void the_lead_is_handed_over(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), next = other_than(leader);

    assert_true(stage_put(stage, leader, "entry"));
    assert_int_equal(mst_replica_transfer(stage->nodes[leader].replica, stage->now_ns, 999),
                     MUSTER_ENOTFOUND);
    assert_int_equal(
        mst_replica_transfer(stage->nodes[leader].replica, stage->now_ns, stage->nodes[next].id),
        MUSTER_OK);
    stage_carry(stage);
    assert_int_equal(stage->nodes[leader].ended, MST_REPLICA_DEPOSED);
    assert_non_null(strstr(stage->nodes[leader].reason, "has begun"));
    assert_int_equal(stage_leader(stage), next);
}

static size_t voters_of(struct stage *stage, size_t at)
{
    struct mst_replica_status status;

    stage_status(stage, at, &status);
    return status.changing ? 0 : mst_replica_servers_voters(status.servers);
}

static bool is_voter(struct stage *stage, size_t at, size_t who)
{
    struct mst_replica_status status;
    const struct mst_replica_server *server;

    stage_status(stage, at, &status);
    server = mst_replica_servers_find(status.servers, stage->nodes[who].id);
    return server && server->role == MST_REPLICA_VOTER;
}

/* A group of one grows to three when two more are present, and then survives its first member; a
 * dead voter is replaced by another replica, and never are there fewer voters than before. */
static void a_group_grows_and_replaces_a_dead_voter(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), next;

    assert_int_equal(leader, 0);
    assert_true(stage_put(stage, leader, "alone"));
    stage->wanted = 3;
    stage->present_count = 2;
    stage_run(stage, 5 * STAGE_ELECTION_MS);
    assert_int_equal(voters_of(stage, leader), 1);
    stage->present_count = 3;
    stage_run(stage, 10 * STAGE_ELECTION_MS);
    assert_int_equal(voters_of(stage, leader), 3);
    assert_true(stage_put(stage, leader, "three"));
    stage_down(stage, 0);
    next = stage_leader(stage);
    assert_true(next == 1 || next == 2);
    stage->present[0] = stage->present[3]; /* the agent of node 0 is given up */
    for (unsigned i = 0; i < 20 * STAGE_ELECTION_MS / 5; i++) {
        stage_run(stage, 5);
        assert_true(voters_of(stage, next) == 0 || voters_of(stage, next) >= 3);
    }
    assert_int_equal(voters_of(stage, next), 3);
    assert_true(is_voter(stage, next, 3));
    assert_false(is_voter(stage, next, 0));
    assert_true(stage_put(stage, next, "without node 0"));
    stage_down(stage, next);
    assert_true(stage_put(stage, stage_leader(stage), "and without the next"));
}

/* The only voter makes a standby the second one, and is killed when the new configuration is on its
 * disk and on no other. When it begins again it needs the vote of the new voter, which does not
 * know that it is one, and gets it. */
static void a_new_voter_that_does_not_know_it_votes(void **state)
{
    struct stage *stage = *state;
    const struct mst_voters_wanted wanted = {.voters = 3, .present = stage->present, .count = 3};
    struct mst_replica_status status;
    size_t voters = 1;

    assert_int_equal(stage_leader(stage), 0);
    for (unsigned i = 0; voters == 1; i++) {
        assert_true(i < 100);
        stage_run(stage, STAGE_ELECTION_MS / 5);
        stage_cut(stage, 0, true);
        mst_replica_lead_voters(stage->nodes[0].replica, stage->now_ns, &wanted);
        stage_carry(stage);
        stage_cut(stage, 0, false);
        stage_status(stage, 0, &status);
        voters = mst_replica_servers_voters(status.servers);
    }
    assert_true(status.changing);
    stage_down(stage, 0);
    assert_int_equal(stage_up(stage, 0, NULL), MUSTER_OK);
    assert_int_equal(stage_leader(stage), 0);
    assert_int_equal(voters_of(stage, 0), 2);
    assert_true(stage_put(stage, 0, "two"));
}

/* A replica waits to be added to a group, has its term, and none of its entries. It begins again as
 * a founder: it founds nothing, since it belongs to that group, and waits. */
static void a_replica_with_a_term_founds_nothing(void **state)
{
    struct stage *stage = *state;
    const struct mst_replica_message heartbeat = {.type = MST_REPLICA_APPEND,
                                                  .append = {.term = 7}};
    struct mst_replica_servers found = {
        .count = 1, .of = {{.id = stage->nodes[1].id, .role = MST_REPLICA_VOTER}}};
    struct mst_replica_status status;

    (void)snprintf(found.of[0].address, sizeof found.of[0].address, "%s", stage->nodes[1].address);
    mst_replica_receive(stage->nodes[1].replica, stage->now_ns, stage->nodes[0].id,
                        stage->nodes[0].address, &heartbeat);
    stage_carry(stage);
    stage_down(stage, 1);
    assert_int_equal(stage_up(stage, 1, &found), MUSTER_OK);
    stage_run(stage, 5 * STAGE_ELECTION_MS);
    stage_status(stage, 1, &status);
    assert_int_equal(status.state, MST_REPLICA_FOLLOWER);
    assert_int_equal(status.term, 7);
    assert_int_equal(status.last, 0);
}

/* The only voter of a group that begins again leads a new term, so that an entry that it sent and
 * had not written is never taken for another one. */
static void a_group_of_one_begins_a_new_term(void **state)
{
    struct stage *stage = *state;
    struct mst_replica_status before, after;

    assert_int_equal(stage_leader(stage), 0);
    stage_status(stage, 0, &before);
    stage_down(stage, 0);
    assert_int_equal(stage_up(stage, 0, NULL), MUSTER_OK);
    assert_int_equal(stage_leader(stage), 0);
    stage_status(stage, 0, &after);
    assert_true(after.term > before.term);
}

/* The entry of a leader that died before it knew of the commit is committed by the next one, which
 * has it: as an older one, and not as an answer to its own clients. */
static void an_entry_of_an_older_term_is_not_the_next_leaders(void **state)
{
    struct stage *stage = *state;
    size_t first = stage_leader(stage), second;
    struct mst_replica *replica = stage->nodes[first].replica;
    const struct mst_replica_effect *effect;
    uint64_t index = 0;

    assert_int_equal(mst_replica_submit(replica, stage->now_ns, MST_REPLICA_RECORDS,
                                        mst_slice_text("sent"), &index),
                     MUSTER_OK);
    while ((effect = mst_replica_next(replica)) != NULL) {
        stage_post(stage, first, effect);
        mst_replica_done(replica, effect);
    }
    stage->nodes[first].replica = NULL; /* its letters arrive, and it hears no answer */
    stage_carry(stage);
    second = stage_leader(stage);
    assert_true(stage->nodes[second].seen[index] != 0);
    assert_true(stage->nodes[second].own == 0);
    stage->nodes[first].replica = replica;
}

/* Whether the replica grants its vote to `candidate`, which asks it in `term`. */
static bool grants(struct stage *stage, size_t at, size_t candidate, uint64_t term)
{
    struct mst_replica *replica = stage->nodes[at].replica;
    const struct mst_replica_effect *effect;
    struct mst_replica_message message = {.type = MST_REPLICA_VOTE,
                                          .vote = {.term = term,
                                                   .candidate = stage->nodes[candidate].id,
                                                   .last_index = 1000,
                                                   .last_term = term,
                                                   .disrupt = true}};
    bool granted = false;

    mst_replica_receive(replica, stage->now_ns, stage->nodes[candidate].id,
                        stage->nodes[candidate].address, &message);
    while ((effect = mst_replica_next(replica)) != NULL) {
        if (effect->type == MST_REPLICA_SEND) {
            const unsigned char *bytes = effect->bytes.data;

            granted |= bytes[4] == MST_REPLICA_VOTE_RESULT && (bytes[16] & 1) != 0;
        }
        mst_replica_done(replica, effect);
    }
    return granted;
}

/* A vote is on the disk before it leaves: a replica that is killed at once, and starts again, gives
 * no second one in the same term, and the same one again. */
static void a_vote_is_not_forgotten(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), voter = other_than(leader);
    size_t third = 3 - leader - voter;

    assert_true(grants(stage, voter, third, 50));
    stage_down(stage, voter);
    assert_int_equal(stage_up(stage, voter, NULL), MUSTER_OK);
    assert_false(grants(stage, voter, leader, 50));
    assert_true(grants(stage, voter, third, 50));
    assert_true(grants(stage, voter, leader, 51));
}

/* The effects as letters: S, a message, and C, an entry to apply. */
static const char *effects_of(struct mst_replica *replica)
{
    static char letters[16];
    const struct mst_replica_effect *effect;
    size_t count = 0;

    while ((effect = mst_replica_next(replica)) != NULL) {
        if (effect->type == MST_REPLICA_SEND || effect->type == MST_REPLICA_COMMITTED) {
            assert_true(count + 1 < sizeof letters);
            letters[count++] = effect->type == MST_REPLICA_SEND ? 'S' : 'C';
        }
        mst_replica_done(replica, effect);
    }
    letters[count] = '\0';
    return letters;
}

/* A follower acknowledges nothing that it has not written: its shell forgets to write, and nothing
 * is committed by its vote. */
static void nothing_is_acknowledged_before_it_is_written(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), to = other_than(leader);
    struct mst_replica *follower = stage->nodes[to].replica;
    const struct mst_replica_log *log = stage->nodes[to].log;

    stage_receive_entry(stage, to, leader, mst_replica_log_last(log), 0);
    assert_string_equal(effects_of(follower), "");
    mst_replica_write(follower, stage->now_ns);
    assert_string_equal(effects_of(follower), "S");
}

/* A follower gets an entry, and with it the news that the one before is committed. It acknowledges
 * the new one before it applies the older one: the leader waits for that, and nobody for this. */
static void an_entry_is_acknowledged_before_others_are_applied(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), to = other_than(leader);
    struct mst_replica *follower = stage->nodes[to].replica;
    const struct mst_replica_log *log = stage->nodes[to].log;

    stage_receive_entry(stage, to, leader, mst_replica_log_last(log), 0);
    mst_replica_write(follower, stage->now_ns);
    assert_string_equal(effects_of(follower), "S");
    stage_receive_entry(stage, to, leader, mst_replica_log_last(log), mst_replica_log_last(log));
    assert_string_equal(effects_of(follower), "");
    mst_replica_write(follower, stage->now_ns);
    assert_string_equal(effects_of(follower), "SC");
}

/* The answer to entries behind `prev` of a leader of term 1. */
static void answer_to_older(struct stage *stage, size_t to, size_t from, uint64_t prev,
                            struct mst_replica_message *out)
{
    struct mst_replica *follower = stage->nodes[to].replica;
    const struct mst_replica_effect *effect;
    struct mst_replica_reader reader;
    const char *why;

    *out = (struct mst_replica_message){
        .type = MST_REPLICA_APPEND,
        .append = {.term = 1, .prev_index = prev, .prev_term = prev > 0 ? 1 : 0}};
    mst_replica_reader_init(&reader, &stage->mem.mem);
    mst_replica_receive(follower, stage->now_ns, stage->nodes[from].id, stage->nodes[from].address,
                        out);
    effect = mst_replica_next(follower);
    assert_non_null(effect);
    assert_int_equal(mst_replica_reader_take(&reader, effect->bytes), MUSTER_OK);
    assert_int_equal(mst_replica_reader_next(&reader, out, &why), MUSTER_OK);
    assert_int_equal(out->type, MST_REPLICA_APPEND_RESULT);
    assert_true(out->append_result.term > 1);
    mst_replica_done(follower, effect);
    mst_replica_reader_fini(&reader);
}

/* The next term has begun when an entry of the last one comes. Its sender may lead that term too:
 * it is told neither that the log here is empty, nor that what is in it agrees with its own. */
static void an_older_leader_is_told_how_long_the_log_is(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), to = other_than(leader);
    struct mst_replica_message answer;
    uint64_t last;

    assert_true(stage_put(stage, leader, "one"));
    last = mst_replica_log_last(stage->nodes[to].log);
    answer_to_older(stage, to, leader, last + 5, &answer);
    assert_int_equal(answer.append_result.rejected, last + 5);
    assert_int_equal(answer.append_result.last_index, last);
    answer_to_older(stage, to, leader, last, &answer);
    assert_int_equal(answer.append_result.rejected, last);
    assert_int_equal(answer.append_result.last_index, last - 1);
    answer_to_older(stage, to, leader, 0, &answer);
    assert_int_equal(answer.append_result.rejected, 0);
    assert_int_equal(answer.append_result.last_index, 0);
}

/* A follower whose disk is full drops entries and goes on following; with room again it has them.
 */
static void a_full_disk_drops_entries_and_keeps_following(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), full = other_than(leader);
    char large[20000];

    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    stage->nodes[full].disk.room = 0;
    for (unsigned i = 0; i < 10; i++) {
        assert_true(stage_put(stage, leader, large));
    }
    stage_run(stage, 5 * STAGE_ELECTION_MS);
    assert_non_null(stage->nodes[full].replica);
    assert_non_null(stage->nodes[leader].replica);
    assert_true(stage->nodes[full].state.index < stage->nodes[leader].state.index);
    stage->nodes[full].disk.room = UINT64_MAX;
    stage_follow(stage, full, leader);
}

/* A leader whose disk is full refuses an entry and has changed nothing; it goes on leading, and
 * takes entries when there is room again. One that is too long is refused as well. */
static void a_full_leader_refuses_entries(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage);
    struct stage_node *node = &stage->nodes[leader];
    const struct mst_slice too_long = mst_slice_of(stage, (size_t)MST_REPLICA_PAYLOAD_MAX + 1);
    struct mst_replica_status before, after;
    char large[20000];
    uint64_t index;

    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    node->disk.room = 0;
    for (unsigned i = 0; i < 10; i++) {
        (void)stage_put(stage, leader, large);
    }
    stage_status(stage, leader, &before);
    assert_int_equal(mst_replica_submit(node->replica, stage->now_ns, MST_REPLICA_RECORDS,
                                        mst_slice_text(large), &index),
                     MUSTER_ENOSPACE);
    assert_int_equal(
        mst_replica_submit(node->replica, stage->now_ns, MST_REPLICA_RECORDS, too_long, &index),
        MUSTER_ELIMIT);
    stage_status(stage, leader, &after);
    assert_int_equal(after.last, before.last);
    stage_run(stage, 3 * STAGE_ELECTION_MS);
    assert_int_equal(stage_leader(stage), leader);
    node->disk.room = UINT64_MAX;
    assert_true(stage_put(stage, leader, large));
}

/* The disks of all replicas are full, and the leader dies. Neither of the others is elected, since
 * its first entry has no room, and neither ends; with room again one of them leads. */
static void a_full_replica_is_not_elected(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage);

    for (size_t i = 0; i < stage->count; i++) {
        stage->nodes[i].disk.room = 0;
    }
    while (stage_put(stage, leader, "entry") || stage_put(stage, leader, "")) {
    }
    stage_down(stage, leader);
    stage_run(stage, 10 * STAGE_ELECTION_MS);
    for (size_t i = 0; i < stage->count; i++) {
        struct mst_replica_status status;

        if (i != leader) {
            assert_non_null(stage->nodes[i].replica);
            stage_status(stage, i, &status);
            assert_int_not_equal(status.state, MST_REPLICA_LEADER);
        }
        stage->nodes[i].disk.room = UINT64_MAX;
    }
    assert_int_not_equal(stage_leader(stage), leader);
}

/* A disk that fails ends its replica, in one line; the others go on. */
static void a_broken_disk_ends_its_replica(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), failing = other_than(leader);

    stage->nodes[failing].disk.fail_at = stage->nodes[failing].disk.writes + 1;
    assert_true(stage_put(stage, leader, "entry"));
    assert_int_equal(stage->nodes[failing].ended, MST_REPLICA_FAILED);
    assert_non_null(strstr(stage->nodes[failing].reason, "a bad sector"));
    assert_true(stage_put(stage, leader, "more"));
}

/* ---- invariants ---- */

static void receive_append(struct stage *stage, size_t to, size_t from, uint64_t term)
{
    struct mst_replica_message message = {.type = MST_REPLICA_APPEND, .append = {.term = term}};

    mst_replica_receive(stage->nodes[to].replica, stage->now_ns, stage->nodes[from].id,
                        stage->nodes[from].address, &message);
    stage_carry(stage);
}

/* A leader that hears of another leader of its own term ends, and names both. */
static void two_leaders_of_one_term_are_noticed(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), other = other_than(leader);
    struct mst_replica_status status;

    stage_status(stage, leader, &status);
    receive_append(stage, leader, other, status.term);
    assert_int_equal(stage->nodes[leader].ended, MST_REPLICA_BROKEN);
    assert_non_null(strstr(stage->nodes[leader].reason, "leads it too"));
}

/* An entry that would replace a committed one is not taken: the replica ends and names the index.
 */
static void a_committed_entry_is_never_replaced(void **state)
{
    struct stage *stage = *state;
    size_t leader = stage_leader(stage), follower = other_than(leader);
    struct mst_replica_status status;

    assert_true(stage_put(stage, leader, "one"));
    stage_run(stage, STAGE_ELECTION_MS);
    stage_status(stage, follower, &status);
    assert_true(status.committed > 1);
    stage_receive_entry(stage, follower, leader, 1, 0);
    stage_carry(stage);
    assert_int_equal(stage->nodes[follower].ended, MST_REPLICA_BROKEN);
    assert_non_null(strstr(stage->nodes[follower].reason, "commit index"));
}

/* ---- memory ---- */

/* A life of the group: election, entries, growth, a snapshot that is installed. Where memory fails
 * the replica in need ends or the call is refused; what ended starts again with memory. */
static void live(struct stage *stage)
{
    stage->wanted = 3;
    stage->present_count = 3;
    for (unsigned round = 0; round < 12; round++) {
        for (size_t i = 0; i < 3; i++) {
            struct stage_node *node = &stage->nodes[i];

            if (!node->replica) {
                if (node->ended == MST_REPLICA_BROKEN) {
                    fail_msg("%s", node->reason);
                }
                (void)stage_up(stage, i, NULL);
            }
        }
        stage_run(stage, STAGE_ELECTION_MS / 2);
        (void)stage_put(stage, 0, "entry");
    }
}

static int begin_failing(void **state)
{
    (void)stage_begin_one(state);
    ((struct stage *)*state)->count = 3;
    for (size_t i = 3; i < STAGE_NODES; i++) {
        stage_down(*state, i);
        fake_disk_fini(&((struct stage *)*state)->nodes[i].disk);
    }
    return 0;
}

/* Each allocation of a life fails once: no replica is broken by it, nothing that was acknowledged
 * is lost, and the group goes on. */
static void memory_may_fail_anywhere(void **state)
{
    size_t fail_at = 1;
    bool failed = true;

    for (; failed; fail_at++) {
        struct stage *stage;

        stage_end(state);
        (void)begin_failing(state);
        stage = *state;
        stage->mem.count = 0;
        stage->mem.fail_at = fail_at;
        live(stage);
        failed = stage->mem.failed;
        stage->mem.fail_at = 0;
        for (size_t i = 0; i < 3; i++) {
            assert_true(stage->nodes[i].ended != MST_REPLICA_BROKEN);
        }
        live(stage);
        assert_true(stage_put(stage, stage_leader(stage), "goes on"));
    }
    assert_true(fail_at > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_group_elects_and_applies_one_log, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(only_a_serving_leader_takes_submissions, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_killed_leader_is_replaced_and_comes_back,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_leader_that_is_cut_off_ends_and_its_entries_are_replaced,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_leader_that_was_stopped_is_deposed, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_follower_that_lags_catches_up, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(large_entries_are_sent_one_by_one, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_group_begins_again_on_its_disks, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(the_lead_is_handed_over, stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_group_grows_and_replaces_a_dead_voter, stage_begin_one,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_new_voter_that_does_not_know_it_votes, stage_begin_one,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_replica_with_a_term_founds_nothing, stage_begin_one,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_group_of_one_begins_a_new_term, stage_begin_one,
                                        stage_end),
        cmocka_unit_test_setup_teardown(an_entry_of_an_older_term_is_not_the_next_leaders,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_vote_is_not_forgotten, stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(an_entry_is_acknowledged_before_others_are_applied,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(nothing_is_acknowledged_before_it_is_written,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(an_older_leader_is_told_how_long_the_log_is,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_full_disk_drops_entries_and_keeps_following,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(a_full_leader_refuses_entries, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_full_replica_is_not_elected, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_broken_disk_ends_its_replica, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(two_leaders_of_one_term_are_noticed, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_committed_entry_is_never_replaced, stage_begin_three,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_late_answer_to_a_pre_vote_changes_no_term,
                                        stage_begin_three, stage_end),
        cmocka_unit_test_setup_teardown(memory_may_fail_anywhere, begin_failing, stage_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
