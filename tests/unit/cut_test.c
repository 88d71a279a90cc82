/* SPDX-License-Identifier: Apache-2.0 */
/* The network of one rank is cut because somebody asked for it.
 *
 * behaviour: sessions / A cut that is asked for */
#include "core_fixture.h"

enum { HOUR_MS = 3600000 };

static struct mst_request cut(uint32_t index, uint64_t for_ms)
{
    return (struct mst_request){.command = MST_CUT, .cut = {.index = index, .for_ms = for_ms}};
}

/* Two ranks in generation 1, and somebody who asks. */
struct scene {
    struct client ranks[2], asks;
};

static void begin(struct fixture *f, struct scene *s)
{
    fixture_seal(f, s->ranks, 2);
    s->asks = fixture_client(f, MST_ROLE_OBSERVER, 0);
    fixture_connect(f, &s->asks);
}

/* What it tries over a new connection: whether that is hung up, without a word. */
static bool finds_nobody(struct fixture *f, struct client *client)
{
    const struct mst_reply *reply = fixture_connect(f, client);

    return reply->status == MUSTER_MORE && fixture_hung_up(f, client);
}

static enum mst_state state_of(struct fixture *f, struct client *asks, uint32_t index)
{
    const struct mst_reply *reply =
        fixture_call(f, asks, (struct mst_request){.command = MST_MEMBERS});

    for (size_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].who.index == index && reply->items[i].who.role == MST_ROLE_RANK) {
            return reply->items[i].who.state;
        }
    }
    return MST_ABSENT;
}

/* A client asks that the network of a rank be cut. The rank's connection is hung up: it is
 * silent, and its lease goes on. */
static void a_short_cut_is_a_lost_connection(struct fixture *f)
{
    struct scene s;
    const struct mst_reply *reply;

    begin(f, &s);
    reply = fixture_call(f, &s.asks, cut(1, 0));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 1);
    EXPECT(f, fixture_hung_up(f, &s.ranks[1]));
    EXPECT(f, fixture_told_story(f, "member-cut #1 incarnation=1 for-ms=0"));
    EXPECT(f, fixture_told_story(f, "member-silent #1 incarnation=1"));
    EXPECT_INT(f, state_of(f, &s.asks, 1), MST_SILENT);
    EXPECT_INT(f, state_of(f, &s.asks, 0), MST_PRESENT);
    reply = fixture_connect(f, &s.ranks[1]);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.incarnation, 1);
    EXPECT_INT(f, reply->view.rank, 1);
    EXPECT(f, fixture_told_story(f, "member-back #1 incarnation=1"));
}

/* A rank that is cut off connects again before the time is over. It is hung up on without a
 * word, and that is no sign of life. Afterwards it is back with its identity. */
static void until_it_is_over_nothing_comes_through(struct fixture *f)
{
    struct scene s;

    begin(f, &s);
    fixture_call(f, &s.asks, cut(1, 3000));
    EXPECT(f, finds_nobody(f, &s.ranks[1]));
    fixture_pass(f, 2999);
    EXPECT(f, finds_nobody(f, &s.ranks[1]));
    EXPECT_INT(f, state_of(f, &s.asks, 1), MST_SILENT);
    fixture_pass(f, 1);
    EXPECT_INT(f, fixture_connect(f, &s.ranks[1])->status, MUSTER_OK);
    EXPECT_INT(f, state_of(f, &s.asks, 1), MST_PRESENT);
}

/* The lease of a rank ends in a long cut, as for one that is silent. It is lost, and learns that
 * when it returns. */
static void the_lease_ends_in_a_long_cut(struct fixture *f)
{
    struct scene s;

    begin(f, &s);
    fixture_call(f, &s.asks, cut(1, HOUR_MS));
    fixture_pass(f, FIXTURE_LEASE_MS - 1);
    fixture_renew(f, &s.asks);
    EXPECT(f, finds_nobody(f, &s.ranks[1]));
    EXPECT_INT(f, state_of(f, &s.asks, 1), MST_SILENT);
    fixture_pass(f, 1);
    EXPECT(f, fixture_told_story(f, "member-lost #1 incarnation=1 cause=lease"));
    /* The session is over, and with it the cut: it is told that it was given up. */
    EXPECT_INT(f, fixture_connect(f, &s.ranks[1])->status, MUSTER_EFENCED);
}

/* A worker and a rank have the same index, and the worker is to be cut off. The rank is not.
 * [program / muster chaos] */
static void a_worker_is_cut_off_and_not_the_rank_of_its_index(struct fixture *f)
{
    struct mst_request request = cut(1, 3000);
    struct client worker = fixture_client(f, MST_ROLE_WORKER, 1);
    struct scene s;

    begin(f, &s);
    request.cut.worker = true;
    EXPECT_INT(f, fixture_call(f, &s.asks, request)->status, MUSTER_ENOTFOUND);
    fixture_connect(f, &worker);
    EXPECT_INT(f, fixture_call(f, &s.asks, request)->number, 1);
    EXPECT(f, fixture_hung_up(f, &worker));
    EXPECT(f, finds_nobody(f, &worker));
    EXPECT_INT(f, state_of(f, &s.asks, 1), MST_PRESENT);
    fixture_pass(f, 3000);
    EXPECT_INT(f, fixture_connect(f, &worker)->status, MUSTER_OK);
}

/* A rank is lost in a cut. Its place is free for another process, which is not cut off. */
static void a_replacement_is_not_cut_off(struct fixture *f)
{
    struct scene s;
    struct client heir;

    begin(f, &s);
    fixture_call(f, &s.asks, cut(1, HOUR_MS));
    fixture_pass(f, FIXTURE_LEASE_MS);
    heir = fixture_rank(f, 1, 2);
    EXPECT_INT(f, fixture_connect(f, &heir)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_connect(f, &heir)->view.incarnation, 2);
}

/* A cut is asked for again. The time can only become longer. */
static void a_second_cut_ends_no_earlier(struct fixture *f)
{
    struct scene s;
    const struct mst_reply *reply;

    begin(f, &s);
    fixture_call(f, &s.asks, cut(1, 5000));
    reply = fixture_call(f, &s.asks, cut(1, 1000));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 0); /* it was silent already */
    fixture_pass(f, 4999);
    EXPECT(f, finds_nobody(f, &s.ranks[1]));
    fixture_call(f, &s.asks, cut(1, 1000));
    fixture_pass(f, 1000);
    EXPECT_INT(f, fixture_connect(f, &s.ranks[1])->status, MUSTER_OK);
}

/* A cut names a place that is empty, is for over an hour, or is for the sender itself. It is
 * refused. */
static void only_who_is_there_can_be_cut_off(struct fixture *f)
{
    struct scene s;
    struct mst_request request = cut(1, 0);
    const struct mst_reply *reply;

    begin(f, &s);
    EXPECT_INT(f, fixture_call(f, &s.asks, cut(7, 0))->status, MUSTER_ENOTFOUND);
    request.cut.incarnation = 2;
    EXPECT_INT(f, fixture_call(f, &s.asks, request)->status, MUSTER_ENOTFOUND);
    request.cut.incarnation = 1;
    EXPECT_INT(f, fixture_call(f, &s.asks, request)->status, MUSTER_OK);
    /* Itself: nobody could be told. */
    EXPECT_INT(f, fixture_call(f, &s.ranks[0], cut(0, 0))->status, MUSTER_EINVAL);
    reply = fixture_call(f, &s.asks, cut(0, HOUR_MS + 1));
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, HOUR_MS);
    EXPECT_INT(f, state_of(f, &s.asks, 0), MST_PRESENT);
    fixture_call(f, &s.ranks[0], (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, fixture_call(f, &s.asks, cut(0, 0))->status, MUSTER_ENOTFOUND);
}

/* The request for a cut is repeated. The repeat has no second effect. */
static void a_repeated_cut_is_one(struct fixture *f)
{
    struct scene s;
    struct mst_request request = cut(1, 0);

    begin(f, &s);
    request.id = fixture_send(f, &s.asks, request);
    request.oldest = request.id;
    fixture_connect(f, &s.ranks[1]);
    fixture_connect(f, &s.asks);
    EXPECT_INT(f, fixture_call(f, &s.asks, request)->number, 1);
    EXPECT_INT(f, state_of(f, &s.asks, 1), MST_PRESENT);
}

/* A connection that is being closed still carries its session. The session can be cut off all
 * the same. */
static void who_is_hung_up_on_already_can_be_cut_off(struct fixture *f)
{
    struct scene s;
    struct mst_request again = {.command = MST_OPEN};

    begin(f, &s);
    again.open = s.ranks[1].open;
    again.open.token.low += 1000;
    fixture_send(f, &s.ranks[1], again);
    EXPECT(f, fixture_hung_up(f, &s.ranks[1]));
    EXPECT_INT(f, fixture_call(f, &s.asks, cut(1, 0))->number, 1);
    EXPECT_INT(f, fixture_connect(f, &s.ranks[1])->status, MUSTER_OK);
}

/* A connection that is being closed still carries its session. The session can be resumed
 * elsewhere all the same. */
static void who_is_hung_up_on_already_can_resume(struct fixture *f)
{
    struct scene s;
    struct mst_request again = {.command = MST_OPEN};

    begin(f, &s);
    again.open = s.ranks[1].open;
    again.open.token.low += 1000;
    fixture_send(f, &s.ranks[1], again);
    EXPECT_INT(f, fixture_connect(f, &s.ranks[1])->status, MUSTER_OK);
    EXPECT_INT(f, fixture_get(f, &s.ranks[1], "k")->status, MUSTER_ENOTFOUND);
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(a_short_cut_is_a_lost_connection)                                                            \
    X(until_it_is_over_nothing_comes_through)                                                      \
    X(a_worker_is_cut_off_and_not_the_rank_of_its_index)                                           \
    X(the_lease_ends_in_a_long_cut)                                                                \
    X(a_replacement_is_not_cut_off)                                                                \
    X(a_second_cut_ends_no_earlier)                                                                \
    X(only_who_is_there_can_be_cut_off)                                                            \
    X(a_repeated_cut_is_one)                                                                       \
    X(who_is_hung_up_on_already_can_be_cut_off)                                                    \
    X(who_is_hung_up_on_already_can_resume)

SCENARIOS(SCENARIO)

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {SCENARIOS(ROW)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
