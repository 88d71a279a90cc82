/* SPDX-License-Identifier: Apache-2.0 */
/* Since when members are in their state, rounds are open, and the generation runs.
 *
 * behaviour: generations / What happened to a job */
#include "core_fixture.h"
#include "saved_bytes.h"
#include "service/core/look.h"
#include "service/core/snapshot.h"

enum { COUNT = 12 };

static struct mst_item listed(struct fixture *f, struct mst_core *core, enum mst_command command,
                              const struct client *client, uint32_t at)
{
    const struct mst_reply *reply = mst_look_page(core, command, client->open.job, 0);

    (void)f;
    return at < reply->item_count ? reply->items[at] : (struct mst_item){.number = 0};
}

/* A member joins, is present, silent, and lost. Each time the list says since when it is so, and a
 * renewal of its session is no new state. */
static void a_member_says_since_when(struct fixture *f)
{
    struct client ranks[2];

    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = fixture_rank(f, i, 2);
        fixture_connect(f, &ranks[i]);
    }
    fixture_join(f, &ranks[0]);
    fixture_pass_renewing(f, 30);
    EXPECT_INT(f, listed(f, f->core, MST_MEMBERS, &ranks[0], 0).since_ms, 1 + 30);
    EXPECT_INT(f, listed(f, f->core, MST_JOBS, &ranks[0], 0).since_ms, 0);
    fixture_join(f, &ranks[1]);
    fixture_pass_renewing(f, 70);
    EXPECT_INT(f, listed(f, f->core, MST_MEMBERS, &ranks[0], 0).since_ms, 1 + 70);
    EXPECT_INT(f, listed(f, f->core, MST_JOBS, &ranks[0], 0).since_ms, 1 + 70);
    fixture_disconnect(f, &ranks[1]);
    fixture_pass(f, 5);
    EXPECT_INT(f, listed(f, f->core, MST_MEMBERS, &ranks[0], 1).who.state, MST_SILENT);
    EXPECT_INT(f, listed(f, f->core, MST_MEMBERS, &ranks[0], 1).since_ms, 1 + 5);
    fixture_pass_renewing(f, FIXTURE_LEASE_MS);
    EXPECT_INT(f, listed(f, f->core, MST_MEMBERS, &ranks[0], 1).who.state, MST_STATE_LOST);
    EXPECT(f, listed(f, f->core, MST_MEMBERS, &ranks[0], 1).since_ms < FIXTURE_LEASE_MS);
    EXPECT_INT(f, listed(f, f->core, MST_MEMBERS, &ranks[0], 0).since_ms,
               1 + 75 + FIXTURE_LEASE_MS);
}

static void arrive(struct fixture *f, struct client *ranks, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        fixture_send(f, &ranks[i], fixture_round(1, "epoch", 0));
    }
}

/* One of twelve stands in a round, then nine do. The list of rounds says since when it is open, and
 * names all that are missing up to eight. */
static void a_round_says_since_when_and_names_the_missing(struct fixture *f)
{
    struct client ranks[COUNT];
    struct mst_item round;

    fixture_seal(f, ranks, COUNT);
    arrive(f, ranks, 4, 5);
    fixture_pass_renewing(f, 50);
    round = listed(f, f->core, MST_ROUNDS, &ranks[0], 0);
    EXPECT_INT(f, round.since_ms, 1 + 50);
    EXPECT_INT(f, round.missing_count, MST_NAMES_MAX);
    EXPECT(f, round.missing && round.missing[3] == 3 && round.missing[4] == 5);
    arrive(f, ranks, 5, COUNT);
    fixture_pass_renewing(f, 50);
    arrive(f, ranks, 1, 2);
    round = listed(f, f->core, MST_ROUNDS, &ranks[0], 0);
    EXPECT_INT(f, round.since_ms, 1 + 100);
    EXPECT_INT(f, round.missing_count, 3);
    EXPECT(f, round.missing && round.missing[0] == 0 && round.missing[1] == 2 &&
                  round.missing[2] == 3);
}

/* The service saves its state, and another one goes on with it. It knows since when members are in
 * their state and rounds are open, and the digest is the same. */
static void the_next_service_knows_since_when(struct fixture *f)
{
    static struct saved_bytes bytes;
    struct mst_snapshot_sink sink = {.ctx = &bytes, .put = saved_put};
    struct client ranks[COUNT];
    struct mst_core *next;

    bytes.size = 0;
    fixture_seal(f, ranks, COUNT);
    fixture_pass_renewing(f, 40);
    arrive(f, ranks, 0, 5);
    fixture_disconnect(f, &ranks[7]);
    fixture_pass_renewing(f, 60);
    assert_true(mst_core_save(f->core, &sink));
    assert_int_equal(mst_core_load(&next, f->now_ns, mst_slice_of(bytes.data, bytes.size),
                                   &f->config, &f->mem.mem),
                     MUSTER_OK);
    EXPECT_INT(f, listed(f, next, MST_MEMBERS, &ranks[0], 0).since_ms, 1 + 100);
    EXPECT_INT(f, listed(f, next, MST_MEMBERS, &ranks[0], 7).since_ms, 1 + 60);
    EXPECT_INT(f, listed(f, next, MST_ROUNDS, &ranks[0], 0).since_ms, 1 + 60);
    EXPECT_INT(f, mst_core_kept_digest(next), mst_core_kept_digest(f->core));
    mst_core_free(next);
}

static void run_a_member_says_since_when(void **state)
{
    (void)state;
    fixture_run(a_member_says_since_when);
}

static void run_a_round_says_since_when_and_names_the_missing(void **state)
{
    (void)state;
    fixture_run(a_round_says_since_when_and_names_the_missing);
}

static void run_the_next_service_knows_since_when(void **state)
{
    (void)state;
    fixture_run_once(the_next_service_knows_since_when);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_a_member_says_since_when),
        cmocka_unit_test(run_a_round_says_since_when_and_names_the_missing),
        cmocka_unit_test(run_the_next_service_knows_since_when),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
