/* SPDX-License-Identifier: Apache-2.0 */
/* Which replicas vote.
 *
 * behaviour: replicas / Who votes */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "service/replica/voters.h"

enum { NODES = 8, STEPS = 200, SEEDS = 300 };

struct stage {
    struct mst_replica_servers servers;
    struct mst_voters_progress progress[MST_REPLICA_SERVERS_MAX];
    struct mst_voters_present present[NODES];
    char addresses[NODES][16];
    struct mst_voters_wanted wanted;
    uint64_t self;
};

/* Node 1 leads and is the only voter; `count` nodes are present. */
static void init(struct stage *stage, unsigned voters, size_t count)
{
    memset(stage, 0, sizeof *stage);
    stage->self = 1;
    for (size_t i = 0; i < NODES; i++) {
        (void)snprintf(stage->addresses[i], sizeof stage->addresses[i], "n%zu:1", i + 1);
        stage->present[i] =
            (struct mst_voters_present){.id = i + 1, .address = stage->addresses[i]};
    }
    stage->wanted =
        (struct mst_voters_wanted){.voters = voters, .present = stage->present, .count = count};
    stage->servers.count = 1;
    stage->servers.of[0] =
        (struct mst_replica_server){.id = 1, .role = MST_REPLICA_VOTER, .address = "n1:1"};
    for (size_t i = 0; i < MST_REPLICA_SERVERS_MAX; i++) {
        stage->progress[i].heard = true;
    }
}

static struct mst_voters_decision next(const struct stage *stage)
{
    return mst_voters_next(&stage->wanted, &stage->servers, stage->progress, stage->self);
}

static void is(struct stage *stage, enum mst_voters_step step, uint64_t id)
{
    struct mst_voters_decision decision = next(stage);

    assert_int_equal(decision.step, step);
    assert_int_equal(decision.id, id);
    for (size_t i = 0; i < stage->servers.count; i++) {
        if (stage->servers.of[i].id == id && step == MST_VOTERS_CATCH_UP) {
            stage->progress[i].current = true;
        } else if (stage->servers.of[i].id == id && step == MST_VOTERS_REMOVE) {
            memmove(&stage->progress[i], &stage->progress[i + 1],
                    (MST_REPLICA_SERVERS_MAX - 1 - i) * sizeof stage->progress[0]);
        }
    }
    if (step != MST_VOTERS_CATCH_UP && step != MST_VOTERS_NONE) {
        mst_voters_apply(&stage->servers, decision);
    }
}

static void grow(struct stage *stage)
{
    is(stage, MST_VOTERS_ADD, 2);
    is(stage, MST_VOTERS_ADD, 3);
    is(stage, MST_VOTERS_CATCH_UP, 2);
    is(stage, MST_VOTERS_CATCH_UP, 3);
    is(stage, MST_VOTERS_PROMOTE, 2);
    is(stage, MST_VOTERS_PROMOTE, 3);
    is(stage, MST_VOTERS_NONE, 0);
}

/* A group of one grows to three, the second voter only when the third has caught up too. */
static void a_group_grows_by_two(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 5);
    grow(&stage);
}

/* With two nodes there is one voter: two of two survive no loss. */
static void two_nodes_have_one_voter(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 2);
    is(&stage, MST_VOTERS_NONE, 0);
    init(&stage, 1, 5);
    is(&stage, MST_VOTERS_NONE, 0);
}

/* A dead voter stays a voter until another replica has taken its place; without another it stays.
 */
static void a_dead_voter_is_replaced_not_removed(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 3);
    grow(&stage);
    stage.present[1] = stage.present[2]; /* 2 is dead */
    stage.wanted.count = 2;
    is(&stage, MST_VOTERS_NONE, 0);
    stage.present[2] = stage.present[3]; /* 4 has come */
    stage.wanted.count = 3;
    is(&stage, MST_VOTERS_ADD, 4);
    is(&stage, MST_VOTERS_CATCH_UP, 4);
    is(&stage, MST_VOTERS_PROMOTE, 4);
    is(&stage, MST_VOTERS_REMOVE, 2);
    is(&stage, MST_VOTERS_NONE, 0);
}

/* The dead voter comes back while the other one catches up: the other one is not needed and goes.
 */
static void a_standby_that_is_not_needed_goes(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 3);
    grow(&stage);
    stage.present[1] = stage.present[3];
    is(&stage, MST_VOTERS_ADD, 4);
    stage.present[1] = (struct mst_voters_present){.id = 2, .address = stage.addresses[1]};
    stage.present[3] = (struct mst_voters_present){.id = 4, .address = stage.addresses[3]};
    stage.wanted.count = 4;
    is(&stage, MST_VOTERS_REMOVE, 4);
    is(&stage, MST_VOTERS_NONE, 0);
}

/* A node whose folder was thrown away comes back under a new id and the same address: the old id,
 * which can never vote again, gives way first. */
static void an_address_under_a_new_id_takes_the_old_ones_place(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 3);
    grow(&stage);
    stage.present[1].id = 12;
    is(&stage, MST_VOTERS_REMOVE, 2);
    is(&stage, MST_VOTERS_ADD, 12);
    is(&stage, MST_VOTERS_CATCH_UP, 12);
    is(&stage, MST_VOTERS_PROMOTE, 12);
    is(&stage, MST_VOTERS_NONE, 0);
}

/* The former and the new id of a replica that has begun anew are both present. The address is that
 * of a member, or of one candidate: a configuration has each address once. */
static void an_address_becomes_a_member_once(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 2);
    stage.present[2] = (struct mst_voters_present){.id = 11, .address = stage.addresses[0]};
    stage.present[3] = (struct mst_voters_present){.id = 12, .address = stage.addresses[1]};
    stage.wanted.count = 4;
    is(&stage, MST_VOTERS_NONE, 0); /* two addresses: one voter */
    stage.present[4] = (struct mst_voters_present){.id = 3, .address = stage.addresses[2]};
    stage.wanted.count = 5;
    is(&stage, MST_VOTERS_ADD, 2);
    is(&stage, MST_VOTERS_ADD, 3);
}

/* Replicas on one host do not become voters together. */
static void voters_are_on_different_hosts(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 4);
    stage.present[0].host = stage.present[1].host = mst_slice_text("a");
    stage.present[2].host = mst_slice_text("b");
    stage.present[3].host = mst_slice_text("b");
    is(&stage, MST_VOTERS_NONE, 0); /* two hosts: one voter */
    stage.present[3].host = mst_slice_text("c");
    is(&stage, MST_VOTERS_ADD, 3);
    is(&stage, MST_VOTERS_ADD, 4);
}

/* A standby that does not answer is neither caught up nor made a voter. */
static void a_silent_standby_is_not_promoted(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 3);
    is(&stage, MST_VOTERS_ADD, 2);
    is(&stage, MST_VOTERS_ADD, 3);
    stage.progress[1].heard = stage.progress[2].heard = false;
    is(&stage, MST_VOTERS_NONE, 0);
    stage.progress[1].heard = stage.progress[1].current = stage.progress[2].current = true;
    is(&stage, MST_VOTERS_NONE, 0);
}

/* The leader cannot reach a replica whose process runs. Another one is added beside it, and when
 * there are enough voters the silent one goes. */
static void a_silent_standby_is_not_waited_for(void **state)
{
    struct stage stage;

    (void)state;
    init(&stage, 3, 4);
    is(&stage, MST_VOTERS_ADD, 2);
    stage.progress[1].heard = false;
    is(&stage, MST_VOTERS_ADD, 3);
    is(&stage, MST_VOTERS_ADD, 4);
    is(&stage, MST_VOTERS_CATCH_UP, 3);
    is(&stage, MST_VOTERS_CATCH_UP, 4);
    is(&stage, MST_VOTERS_PROMOTE, 3);
    is(&stage, MST_VOTERS_PROMOTE, 4);
    is(&stage, MST_VOTERS_REMOVE, 2);
    is(&stage, MST_VOTERS_NONE, 0);
}

static size_t alive_voters(const struct stage *stage)
{
    size_t alive = 0;

    for (size_t i = 0; i < stage->servers.count; i++) {
        const struct mst_replica_server *member = &stage->servers.of[i];
        bool lives = member->id == stage->self;

        for (size_t k = 0; k < stage->wanted.count; k++) {
            lives |= stage->present[k].id == member->id;
        }
        alive += lives && member->role == MST_REPLICA_VOTER;
    }
    return alive;
}

/* Node 1 is there; of the others some. */
static void come_and_go(struct stage *stage, struct mst_prng *prng)
{
    stage->wanted.count = 1;
    for (uint64_t id = 2; id <= NODES; id++) {
        if (mst_prng_below(prng, 4) > 0) {
            stage->present[stage->wanted.count++] =
                (struct mst_voters_present){.id = id, .address = stage->addresses[id - 1]};
        }
    }
}

/* One step removes no voter that the group cannot spare. */
static void step_is_right(struct stage *stage)
{
    size_t voters = mst_replica_servers_voters(&stage->servers), alive = alive_voters(stage);
    struct mst_voters_decision decision = next(stage);

    if (decision.step == MST_VOTERS_NONE || decision.step == MST_VOTERS_CATCH_UP) {
        return;
    }
    mst_voters_apply(&stage->servers, decision);
    assert_non_null(mst_replica_servers_find(&stage->servers, 1));
    if (mst_replica_servers_voters(&stage->servers) < voters) {
        assert_true(voters > stage->wanted.voters);
        assert_true(alive_voters(stage) == alive || alive == voters);
    }
}

/* Whatever nodes come and go: the leader stays, one member changes at a time, a voter is removed
 * only while as many live as before are left or more than are wanted, and it ends with the wanted
 * number if there are nodes for it. */
static void any_coming_and_going_ends_well(void **state)
{
    static struct stage stage;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct mst_prng prng = {.state = seed};
        unsigned wanted = 1 + 2 * (unsigned)mst_prng_below(&prng, 3);

        init(&stage, wanted, NODES);
        for (unsigned i = 0; i < STEPS; i++) {
            bool early = i < STEPS / 4;

            if (early) {
                come_and_go(&stage, &prng);
            }
            for (size_t k = 0; k < MST_REPLICA_SERVERS_MAX; k++) {
                stage.progress[k].current = mst_prng_below(&prng, 2);
                stage.progress[k].heard = !early || mst_prng_below(&prng, 4) > 0;
            }
            step_is_right(&stage);
        }
        if (stage.wanted.count >= wanted) {
            assert_int_equal(alive_voters(&stage), wanted);
            assert_int_equal(stage.servers.count, wanted);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_grows_by_two),
        cmocka_unit_test(two_nodes_have_one_voter),
        cmocka_unit_test(a_dead_voter_is_replaced_not_removed),
        cmocka_unit_test(a_standby_that_is_not_needed_goes),
        cmocka_unit_test(an_address_under_a_new_id_takes_the_old_ones_place),
        cmocka_unit_test(an_address_becomes_a_member_once),
        cmocka_unit_test(voters_are_on_different_hosts),
        cmocka_unit_test(a_silent_standby_is_not_promoted),
        cmocka_unit_test(a_silent_standby_is_not_waited_for),
        cmocka_unit_test(any_coming_and_going_ends_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
