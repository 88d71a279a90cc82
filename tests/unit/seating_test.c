/* SPDX-License-Identifier: Apache-2.0 */
/* Who is seated by a seal and who waits as a spare: max_size, size_multiple and an order; what a
 * seal was contributed with, and the end of the work.
 *
 * behaviour: generations / Seats and spares */
#include "core_fixture.h"

static struct mst_request seal_request(uint64_t generation, uint64_t number)
{
    struct mst_request request = fixture_round(generation, "seal", number);

    request.round.on_loss = MST_PROCEED;
    request.round.seal = true;
    return request;
}

/* Contributed with one number. */
static struct mst_request seal_with(uint64_t generation, const unsigned char *number)
{
    struct mst_request request = seal_request(generation, 0);

    request.round.reduce = MST_REDUCE_MAX;
    request.round.data = mst_slice_of(number, 8);
    return request;
}

static struct mst_request seal_in_order(uint64_t generation, uint64_t number, const uint32_t *order,
                                        uint32_t count)
{
    struct mst_request request = seal_request(generation, number);

    request.round.order = order;
    request.round.order_count = count;
    return request;
}

static const struct mst_reply *last(struct fixture *f, const struct client *client)
{
    return fixture_reply(f, client, client->id);
}

static void die(struct fixture *f, struct client *teller, const struct client *victim)
{
    fixture_send(f, teller,
                 (struct mst_request){.command = MST_LOST,
                                      .lost = {.index = victim->open.index,
                                               .pid = victim->open.pid,
                                               .cause = MST_CAUSE_SIGNAL,
                                               .code = 9,
                                               .text = mst_slice_text("")}});
}

static void join(struct fixture *f, struct client *client, bool spare)
{
    fixture_send(f, client, (struct mst_request){.command = MST_JOIN, .join.spare = spare});
}

static struct mst_view view_of(struct fixture *f, struct client *client)
{
    uint64_t id = fixture_watch(f, client, MST_WATCH_VIEW, "", 0);

    return fixture_reply(f, client, id)->view;
}

/* `count` of a job that starts with `size`; each waits to join, and wants to know if it is spare.
 */
static void come(struct fixture *f, struct client *ranks, uint32_t count, struct mst_open job)
{
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = fixture_rank(f, i, job.size);
        ranks[i].open.min_size = job.min_size;
        ranks[i].open.max_size = job.max_size;
        ranks[i].open.size_multiple = job.size_multiple;
        ranks[i].open.grow = job.grow;
        ranks[i].open.join_wait_ms = job.join_wait_ms;
        fixture_connect(f, &ranks[i]);
        EXPECT_INT(f, ranks[i].open.incarnation, 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        join(f, &ranks[i], true);
    }
}

static bool waits(struct fixture *f, const struct client *client)
{
    return last(f, client)->status == MUSTER_MORE;
}

static bool is_spare(struct fixture *f, const struct client *client)
{
    const struct mst_reply *reply = last(f, client);

    return reply->status == MUSTER_OK && reply->view.spare && reply->view.rank == MST_RANK_NONE;
}

static void expect_rank(struct fixture *f, const struct client *client, uint32_t rank,
                        uint32_t size)
{
    const struct mst_reply *reply = last(f, client);

    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.rank, rank);
    EXPECT_INT(f, reply->view.size, size);
    EXPECT(f, !reply->view.spare);
}

/* ---- max_size ---- */

/* More processes come than `max_size`. The generation has `max_size` ranks. The others learn
 * that they are spares, and no rank is asked to let them in. */
static void who_comes_beyond_max_size_is_a_spare(struct fixture *f)
{
    struct client ranks[4];

    come(f, ranks, 4, (struct mst_open){.size = 2, .max_size = 2});
    expect_rank(f, &ranks[1], 1, 2);
    EXPECT(f, is_spare(f, &ranks[2]));
    EXPECT_INT(f, last(f, &ranks[2])->view.size, 2);
    EXPECT_INT(f, last(f, &ranks[2])->view.generation, 1);
    EXPECT(f, is_spare(f, &ranks[3]));
    /* Nobody is disturbed, now or when it waits for a seat. */
    join(f, &ranks[2], false);
    EXPECT(f, waits(f, &ranks[2]));
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
    /* It asks once more whether it is spare: it is told so at once. */
    join(f, &ranks[3], true);
    EXPECT(f, is_spare(f, &ranks[3]));
    EXPECT(f, fixture_told_story(f, "member-spare #3 incarnation=1"));
}

/* A rank is lost while a spare waits. The seal that follows seats the spare: as many ranks as
 * before, one generation later. */
static void a_spare_takes_the_seat_of_a_loss(struct fixture *f)
{
    struct client ranks[4];

    come(f, ranks, 4, (struct mst_open){.size = 3, .max_size = 3});
    join(f, &ranks[3], false);
    die(f, &ranks[0], &ranks[1]);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    EXPECT(f, waits(f, &ranks[3]));
    fixture_send(f, &ranks[2], seal_request(1, 0));
    expect_rank(f, &ranks[0], 0, 3);
    expect_rank(f, &ranks[2], 1, 3);
    expect_rank(f, &ranks[3], 2, 3);
    EXPECT_INT(f, last(f, &ranks[3])->view.generation, 2);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
}

/* A spare dies. No rank is interrupted, and no round notices. */
static void the_death_of_a_spare_disturbs_nobody(struct fixture *f)
{
    struct client ranks[3];

    come(f, ranks, 3, (struct mst_open){.size = 2, .max_size = 2});
    join(f, &ranks[2], false);
    fixture_send(f, &ranks[0], fixture_round(1, "step", 0));
    die(f, &ranks[0], &ranks[2]);
    fixture_send(f, &ranks[1], fixture_round(1, "step", 0));
    EXPECT_INT(f, last(f, &ranks[1])->status, MUSTER_OK);
    EXPECT_INT(f, last(f, &ranks[1])->detail.expected, 2);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
}

/* Several spares wait for one seat. The one that has waited longest gets it, although its index
 * is larger. */
static void the_first_that_was_ready_is_seated(struct fixture *f)
{
    struct client ranks[4];

    come(f, ranks, 4, (struct mst_open){.size = 2, .max_size = 2});
    join(f, &ranks[3], false);
    join(f, &ranks[2], false);
    die(f, &ranks[1], &ranks[0]);
    fixture_send(f, &ranks[1], seal_request(1, 0));
    expect_rank(f, &ranks[1], 0, 2);
    expect_rank(f, &ranks[3], 1, 2);
    EXPECT(f, waits(f, &ranks[2]));
}

/* A rank leaves while a spare waits. The spare asks to be let in, as a newcomer does. */
static void a_seat_that_is_left_is_offered(struct fixture *f)
{
    struct client ranks[3];

    come(f, ranks, 3, (struct mst_open){.size = 2, .max_size = 2});
    join(f, &ranks[2], false);
    fixture_send(f, &ranks[1], (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_GROW);
    EXPECT(f, fixture_told_story(f, "grow requested-by=#2"));
    fixture_send(f, &ranks[0], seal_request(1, 0));
    expect_rank(f, &ranks[2], 1, 2);
}

/* All ranks are gone, and more are ready than there are seats. The generation sealed from nobody
 * has its spares as well. */
static void a_generation_from_nobody_has_spares_too(struct fixture *f)
{
    struct client ranks[3];
    struct client observer = fixture_client(f, MST_ROLE_OBSERVER, 0);

    fixture_connect(f, &observer);
    come(f, ranks, 1, (struct mst_open){.size = 1, .max_size = 1});
    expect_rank(f, &ranks[0], 0, 1);
    for (uint32_t i = 1; i < 3; i++) {
        ranks[i] = fixture_rank(f, i, 1);
        fixture_connect(f, &ranks[i]);
        join(f, &ranks[i], false);
        EXPECT(f, waits(f, &ranks[i]));
    }
    die(f, &observer, &ranks[0]);
    expect_rank(f, &ranks[1], 0, 1);
    EXPECT_INT(f, last(f, &ranks[1])->view.generation, 2);
    EXPECT(f, view_of(f, &ranks[2]).spare);
}

/* ---- size_multiple ---- */

/* Ranks run in multiples, and one is lost. The survivor with the highest index that is too many
 * stands aside as a spare. With the next joiner the multiple is full again, and both are let in. */
static void a_multiple_is_seated(struct fixture *f)
{
    struct client ranks[5];

    come(f, ranks, 5, (struct mst_open){.size = 4, .size_multiple = 2});
    expect_rank(f, &ranks[3], 3, 4);
    EXPECT(f, is_spare(f, &ranks[4]));
    die(f, &ranks[0], &ranks[1]);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[2], seal_request(1, 0));
    fixture_send(f, &ranks[3], seal_request(1, 0));
    /* The last of the survivors, of whom one is too many, stands aside. */
    expect_rank(f, &ranks[0], 0, 2);
    expect_rank(f, &ranks[2], 1, 2);
    EXPECT(f, is_spare(f, &ranks[3]));
    EXPECT_INT(f, last(f, &ranks[3])->view.generation, 2);
    EXPECT(f, fixture_told_story(f, "member-spare #3 incarnation=1"));
    /* One alone makes no pair; with the second, which was spare all the time, both are asked in. */
    join(f, &ranks[3], false);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
    join(f, &ranks[4], false);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_GROW);
    fixture_send(f, &ranks[0], seal_request(2, 0));
    fixture_send(f, &ranks[2], seal_request(2, 0));
    expect_rank(f, &ranks[3], 2, 4);
    expect_rank(f, &ranks[4], 3, 4);
}

/* Not even one multiple is left. Nothing is sealed, and the line says that it is because of the
 * multiple (ETOOFEW). */
static void too_few_for_the_multiple_do_not_seal(struct fixture *f)
{
    struct client ranks[4];
    const struct mst_reply *reply;

    come(f, ranks, 4, (struct mst_open){.size = 4, .min_size = 2, .size_multiple = 4});
    die(f, &ranks[0], &ranks[3]);
    for (uint32_t i = 0; i < 3; i++) {
        fixture_send(f, &ranks[i], seal_request(1, 0));
    }
    reply = last(f, &ranks[1]);
    EXPECT_INT(f, reply->status, MUSTER_ETOOFEW);
    EXPECT_INT(f, reply->detail.arrived, 3);
    EXPECT_INT(f, reply->detail.limit, 2);
    EXPECT_INT(f, reply->detail.multiple, 4);
    /* With one left it is not the multiple that is to blame. */
    die(f, &ranks[0], &ranks[2]);
    die(f, &ranks[0], &ranks[1]);
    fixture_send(f, &ranks[0], seal_request(1, 1));
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_ETOOFEW);
    EXPECT_INT(f, last(f, &ranks[0])->detail.multiple, 0);
}

/* `join_wait` has passed with a number that is no multiple. It starts with the largest that is. */
static void join_wait_starts_with_a_multiple(struct fixture *f)
{
    struct client ranks[3];

    come(f, ranks, 3, (struct mst_open){.size = 4, .size_multiple = 2, .join_wait_ms = 500});
    EXPECT(f, waits(f, &ranks[0]));
    fixture_pass(f, 501);
    expect_rank(f, &ranks[1], 1, 2);
    EXPECT(f, is_spare(f, &ranks[2]));
}

/* The parameters contradict each other or the job's. The process that names them is refused
 * alone. */
static void what_cannot_be_met_is_refused(struct fixture *f)
{
    static const struct {
        struct mst_open open;
        int64_t limit;
    } table[] = {
        {{.size = 4, .max_size = 3}, 3},
        {{.min_size = 3, .max_size = 2}, 2},
        {{.size = 5, .min_size = 5, .size_multiple = 2}, 2},
        {{.min_size = 5, .max_size = 7, .size_multiple = 4}, 4},
        {{.size = 3, .size_multiple = 4}, 4},
    };
    struct client refused[sizeof(table) / sizeof(table[0])];
    struct client others[3];
    struct client good = fixture_rank(f, 0, 4);

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct client *rank = &refused[i];
        const struct mst_reply *reply;

        *rank = fixture_rank(f, 0, table[i].open.size);
        rank->open.min_size = table[i].open.min_size;
        rank->open.max_size = table[i].open.max_size;
        rank->open.size_multiple = table[i].open.size_multiple;
        reply = fixture_connect(f, rank);
        EXPECT_INT(f, reply->status, MUSTER_EINVAL);
        EXPECT_INT(f, reply->detail.limit, table[i].limit);
    }
    /* Whoever names others later is refused alone; who names none is not. */
    good.open.max_size = 6;
    good.open.size_multiple = 2;
    EXPECT_INT(f, fixture_connect(f, &good)->status, MUSTER_OK);
    for (uint32_t i = 0; i < 3; i++) {
        others[i] = fixture_rank(f, 1, 0);
        others[i].open.max_size = i == 0 ? 8 : 0;
        others[i].open.size_multiple = i == 1 ? 4 : 0;
        EXPECT_INT(f, fixture_connect(f, &others[i])->status, i == 2 ? MUSTER_OK : MUSTER_EINVAL);
    }
}

/* A process without an index comes to a job with `max_size`. It gets the next free one, `size`
 * or above too. */
static void anywhere_is_beyond_size_too_where_spares_are(struct fixture *f)
{
    struct client ranks[2];

    come(f, ranks, 1, (struct mst_open){.size = 1, .max_size = 1});
    ranks[1] = fixture_rank(f, MST_INDEX_ANY, 1);
    EXPECT_INT(f, fixture_connect(f, &ranks[1])->view.index, 1);
}

/* A spare's connection breaks. It comes back as the spare it was. */
static void a_spare_stays_one_when_its_connection_breaks(struct fixture *f)
{
    struct client ranks[3];

    come(f, ranks, 3, (struct mst_open){.size = 2, .max_size = 2});
    join(f, &ranks[2], false);
    fixture_disconnect(f, &ranks[2]);
    EXPECT(f, fixture_connect(f, &ranks[2])->view.spare);
    join(f, &ranks[2], false);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
    die(f, &ranks[0], &ranks[1]);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    expect_rank(f, &ranks[2], 1, 2);
}

/* ---- an order ---- */

/* One rank brings an order, and all that it names stand there. They are the next ranks, in this
 * order, in all rounds of the generation. Another rank that stood there is a spare.
 * [What a seal is given] */
static void an_order_is_kept(struct fixture *f)
{
    static const uint32_t order[] = {3, 0, 2};
    struct client ranks[4];
    uint64_t gather;
    struct mst_request request;

    come(f, ranks, 4, (struct mst_open){.size = 4});
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_in_order(1, 0, order, 3));
    fixture_send(f, &ranks[2], seal_request(1, 0));
    fixture_send(f, &ranks[3], seal_request(1, 0));
    expect_rank(f, &ranks[3], 0, 3);
    expect_rank(f, &ranks[0], 1, 3);
    expect_rank(f, &ranks[2], 2, 3);
    EXPECT(f, last(f, &ranks[0])->view.ordered);
    EXPECT(f, is_spare(f, &ranks[1]));
    /* Rounds of the generation count by its ranks. */
    request = fixture_round(2, "all", 0);
    request.round.reduce = MST_REDUCE_GATHER;
    request.round.data = mst_slice_text("a");
    fixture_send(f, &ranks[0], request);
    fixture_send(f, &ranks[2], request);
    gather = fixture_send(f, &ranks[3], request);
    EXPECT_INT(f, fixture_reply(f, &ranks[3], gather)->item_count, 3);
    for (uint32_t i = 0; i < 3 && i < fixture_reply(f, &ranks[3], gather)->item_count; i++) {
        EXPECT_INT(f, fixture_reply(f, &ranks[3], gather)->items[i].who.index, order[i]);
        EXPECT_INT(f, fixture_reply(f, &ranks[3], gather)->items[i].who.rank, i);
    }
    /* A loss is that of the right one. */
    fixture_send(f, &ranks[3], fixture_round(2, "step", 0));
    die(f, &ranks[0], &ranks[2]);
    EXPECT_INT(f, last(f, &ranks[3])->status, MUSTER_ELOST);
    EXPECT_INT(f, last(f, &ranks[3])->detail.who[0].index, 2);
    EXPECT_INT(f, last(f, &ranks[3])->detail.who[0].rank, 2);
}

/* A rank that an order names dies before the seal closes. The order is ignored: ranks go by
 * index. [What a seal is given] */
static void an_order_that_a_loss_breaks_is_ignored(struct fixture *f)
{
    static const uint32_t order[] = {2, 0};
    struct client ranks[3];

    come(f, ranks, 3, (struct mst_open){.size = 3});
    fixture_send(f, &ranks[0], seal_in_order(1, 0, order, 2));
    fixture_send(f, &ranks[2], seal_request(1, 0));
    die(f, &ranks[1], &ranks[2]);
    fixture_send(f, &ranks[1], seal_request(1, 0));
    expect_rank(f, &ranks[0], 0, 2);
    expect_rank(f, &ranks[1], 1, 2);
    EXPECT(f, !last(f, &ranks[1])->view.ordered);
}

/* The order names a rank twice or a stranger, or is too long or no multiple; or it is the second
 * one. The rank that brings it is refused alone. [What a seal is given] */
static void an_order_that_makes_no_sense_is_refused_alone(struct fixture *f)
{
    static const uint32_t twice[] = {0, 0};
    static const uint32_t strange[] = {0, 7};
    static const uint32_t good[] = {1, 0};
    static const uint32_t many[] = {0, 1, 2, 3};
    struct client ranks[5];
    struct mst_request barrier = fixture_round(1, "step", 0);

    come(f, ranks, 5, (struct mst_open){.size = 4, .max_size = 4, .size_multiple = 2});
    EXPECT_INT(f, fixture_call(f, &ranks[0], seal_in_order(1, 0, twice, 2))->status, MUSTER_EINVAL);
    EXPECT_INT(f, fixture_call(f, &ranks[0], seal_in_order(1, 0, strange, 2))->status,
               MUSTER_EINVAL);
    EXPECT_INT(f, fixture_call(f, &ranks[0], seal_in_order(1, 0, many, 3))->status, MUSTER_EINVAL);
    barrier.round.order = good;
    barrier.round.order_count = 2;
    EXPECT_INT(f, fixture_call(f, &ranks[0], barrier)->status, MUSTER_EINVAL);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM); /* it left no trace */
    fixture_send(f, &ranks[0], seal_in_order(1, 0, good, 2));
    EXPECT(f, waits(f, &ranks[0]));
    /* A second one, even the same; but who gave it may ask again. */
    EXPECT_INT(f, fixture_call(f, &ranks[1], seal_in_order(1, 0, good, 2))->status,
               MUSTER_EMISMATCH);
    fixture_send(f, &ranks[0], seal_in_order(1, 0, good, 2));
    EXPECT(f, waits(f, &ranks[0]));
    for (uint32_t i = 1; i < 4; i++) {
        fixture_send(f, &ranks[i], seal_request(1, 0));
    }
    expect_rank(f, &ranks[1], 0, 2);
    expect_rank(f, &ranks[0], 1, 2);
    EXPECT(f, is_spare(f, &ranks[2]) && is_spare(f, &ranks[3]));
}

/* A rank that the order left out asks to be let in. It waits for the next seal without an order,
 * which takes all. A newcomer asks for one, and then all are let in. [What a seal is given] */
static void only_newcomers_disturb_an_ordered_generation(struct fixture *f)
{
    static const uint32_t order[] = {2, 1};
    struct client ranks[3];
    struct client fresh = fixture_rank(f, 5, 3);

    come(f, ranks, 3, (struct mst_open){.size = 3});
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    fixture_send(f, &ranks[2], seal_in_order(1, 0, order, 2));
    EXPECT(f, is_spare(f, &ranks[0]));
    join(f, &ranks[0], false);
    EXPECT(f, waits(f, &ranks[0]));
    EXPECT_INT(f, view_of(f, &ranks[1]).attention, MST_CALM);
    fixture_connect(f, &fresh);
    join(f, &fresh, true);
    EXPECT(f, waits(f, &fresh));
    EXPECT_INT(f, view_of(f, &ranks[1]).attention, MST_GROW);
    fixture_send(f, &ranks[1], seal_request(2, 0));
    fixture_send(f, &ranks[2], seal_request(2, 0));
    expect_rank(f, &ranks[0], 0, 4);
    expect_rank(f, &ranks[1], 1, 4);
    expect_rank(f, &ranks[2], 2, 4);
    expect_rank(f, &fresh, 3, 4);
    EXPECT(f, !last(f, &fresh)->view.ordered);
}

/* A rank that an order left out has not come to ask again when the others seal without an order,
 * and then with another one. It asks as a newcomer does: the second order did not leave it out.
 * [What a seal is given] */
static void who_missed_the_order_before_this_one_asks(struct fixture *f)
{
    static const uint32_t order[] = {2, 1};
    struct client ranks[3];
    struct client fresh = fixture_rank(f, 5, 3);

    come(f, ranks, 3, (struct mst_open){.size = 3});
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    fixture_send(f, &ranks[2], seal_in_order(1, 0, order, 2));
    EXPECT(f, is_spare(f, &ranks[0]));
    fixture_connect(f, &fresh);
    join(f, &fresh, true);
    fixture_send(f, &ranks[1], seal_request(2, 0));
    fixture_send(f, &ranks[2], seal_request(2, 0));
    expect_rank(f, &fresh, 2, 3);
    fixture_send(f, &ranks[1], seal_request(3, 0));
    fixture_send(f, &fresh, seal_request(3, 0));
    fixture_send(f, &ranks[2], seal_in_order(3, 0, order, 2));
    EXPECT(f, is_spare(f, &fresh));
    join(f, &fresh, false);
    EXPECT_INT(f, view_of(f, &ranks[1]).attention, MST_CALM);
    join(f, &ranks[0], false);
    EXPECT(f, waits(f, &ranks[0]));
    EXPECT_INT(f, view_of(f, &ranks[1]).attention, MST_GROW);
    fixture_send(f, &ranks[1], seal_request(4, 0));
    fixture_send(f, &ranks[2], seal_request(4, 0));
    expect_rank(f, &ranks[0], 0, 4);
    expect_rank(f, &fresh, 3, 4);
}

/* A joiner is ready at an ordered seal. It asks after it. [What a seal is given] */
static void who_is_ready_at_an_ordered_seal_asks_after_it(struct fixture *f)
{
    static const uint32_t order[] = {1, 0};
    struct client ranks[2];
    struct client fresh = fixture_rank(f, 2, 2);

    come(f, ranks, 2, (struct mst_open){.size = 2});
    fixture_send(f, &ranks[0], seal_in_order(1, 0, order, 2));
    fixture_connect(f, &fresh);
    join(f, &fresh, true);
    fixture_send(f, &ranks[1], seal_request(1, 0));
    expect_rank(f, &ranks[1], 0, 2);
    EXPECT(f, waits(f, &fresh));
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_GROW);
}

/* An order names fewer than `min_size`. Nothing is sealed (ETOOFEW). [What a seal is given] */
static void an_order_below_min_size_does_not_seal(struct fixture *f)
{
    static const uint32_t order[] = {1};
    struct client ranks[2];

    come(f, ranks, 2, (struct mst_open){.size = 2, .min_size = 2});
    fixture_send(f, &ranks[0], seal_in_order(1, 0, order, 1));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_ETOOFEW);
    EXPECT_INT(f, last(f, &ranks[0])->detail.multiple, 0);
}

/* ---- what a seal was contributed with ---- */

/* Each rank gives the seal numbers. The largest go to each rank that it seats, newcomers and
 * those that ask again included, until the next seal. [What a seal is given] */
static void a_seal_tells_the_largest_to_newcomers_too(struct fixture *f)
{
    static const unsigned char small[8] = {3};
    static const unsigned char large[8] = {200};
    struct client ranks[2];
    struct client fresh = fixture_rank(f, 2, 2);

    come(f, ranks, 2, (struct mst_open){.size = 2});
    EXPECT_INT(f, last(f, &ranks[0])->value.size, 0);
    fixture_connect(f, &fresh);
    join(f, &fresh, true);
    fixture_send(f, &ranks[0], seal_with(1, large));
    fixture_send(f, &ranks[1], seal_with(1, small));
    EXPECT_INT(f, last(f, &ranks[1])->value.size, 8);
    EXPECT_INT(f, last(f, &fresh)->status, MUSTER_OK);
    EXPECT(f, mst_slice_equal(last(f, &ranks[1])->value, mst_slice_of(large, 8)));
    EXPECT(f, mst_slice_equal(last(f, &fresh)->value, mst_slice_of(large, 8)));
    /* Until the next seal, to whoever asks again. */
    fixture_disconnect(f, &fresh);
    fixture_connect(f, &fresh);
    join(f, &fresh, false);
    EXPECT(f, mst_slice_equal(last(f, &fresh)->value, mst_slice_of(large, 8)));
    fixture_send(f, &ranks[0], seal_request(2, 0));
    fixture_send(f, &ranks[1], seal_request(2, 0));
    fixture_send(f, &fresh, seal_request(2, 0));
    join(f, &fresh, false);
    EXPECT_INT(f, last(f, &fresh)->view.generation, 3);
    EXPECT_INT(f, last(f, &fresh)->value.size, 0);
}

/* A seal is to gather, add up or compare. It is refused: a seal must not fail by what it is
 * given. [What a seal is given] */
static void a_seal_takes_no_other_contributions(struct fixture *f)
{
    static const enum mst_reduce others[] = {MST_REDUCE_GATHER, MST_REDUCE_SUM, MST_REDUCE_EQUAL};
    static const unsigned char number[8] = {1};
    struct client ranks[2];

    come(f, ranks, 2, (struct mst_open){.size = 2});
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct mst_request request = seal_with(1, number);

        request.round.reduce = others[i];
        EXPECT_INT(f, fixture_call(f, &ranks[0], request)->status, MUSTER_EINVAL);
    }
}

/* ---- the end of the work ---- */

static struct mst_request final_round_number(uint64_t number)
{
    struct mst_request request = fixture_round(1, "done", number);

    request.round.final = true;
    return request;
}

static struct mst_request final_round(void)
{
    return final_round_number(0);
}

static void join_knowing(struct fixture *f, struct client *client, uint64_t heard)
{
    fixture_send(f, client, (struct mst_request){.command = MST_JOIN, .join.heard = heard});
}

/* The ranks have done their work, and say so in a round marked final. A process that waits to
 * join learns that there is no seat any more. */
static void the_end_of_the_work_is_told_to_who_waits(struct fixture *f)
{
    struct client ranks[4];

    come(f, ranks, 3, (struct mst_open){.size = 2, .max_size = 2, .grow = MST_GROW_OFF});
    join(f, &ranks[2], false);
    fixture_send(f, &ranks[0], final_round());
    EXPECT(f, waits(f, &ranks[2]));
    fixture_send(f, &ranks[1], final_round());
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_OK);
    EXPECT(f, is_spare(f, &ranks[2]));
    EXPECT_INT(f, last(f, &ranks[2])->number, 1);
    /* Should that have been lost, it is told again; else it waits for the next. */
    join(f, &ranks[2], false);
    EXPECT(f, is_spare(f, &ranks[2]));
    EXPECT_INT(f, last(f, &ranks[2])->number, 1);
    join_knowing(f, &ranks[2], 1);
    EXPECT(f, waits(f, &ranks[2]));
}

/* A run ends while a spare is not waiting yet, or the answer that says so is lost. It learns of
 * it when it asks: of one run at a time, until it knows of all. Only then is it ready for a
 * seat, not beside others that are further. */
static void who_is_late_is_told_of_what_is_over(struct fixture *f)
{
    struct client ranks[3];

    come(f, ranks, 2, (struct mst_open){.size = 2, .max_size = 3});
    for (uint64_t run = 0; run < 2; run++) {
        fixture_send(f, &ranks[0], final_round_number(run));
        fixture_send(f, &ranks[1], final_round_number(run));
    }
    ranks[2] = fixture_rank(f, 2, 2);
    fixture_connect(f, &ranks[2]);
    for (uint64_t heard = 0; heard < 2; heard++) {
        join(f, &ranks[2], true); /* the answer to open, which takes none in */
        EXPECT(f, is_spare(f, &ranks[2]));
        join_knowing(f, &ranks[2], heard);
        EXPECT(f, is_spare(f, &ranks[2]));
        EXPECT_INT(f, last(f, &ranks[2])->number, heard + 1);
    }
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
    join_knowing(f, &ranks[2], 2);
    EXPECT(f, waits(f, &ranks[2]));
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_GROW);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    expect_rank(f, &ranks[2], 2, 3);
    EXPECT_INT(f, last(f, &ranks[2])->number, 2);
}

static void go(struct fixture *f, struct client *client)
{
    fixture_send(f, client, (struct mst_request){.command = MST_LEAVE});
}

/* A spare comes when all ranks have done their work and gone. It learns that, as long as an
 * agent of the job is there. */
static void who_comes_when_all_have_gone_is_told(struct fixture *f)
{
    struct client ranks[2];
    struct client late;
    struct client agent = fixture_client(f, MST_ROLE_AGENT, 0);

    fixture_connect(f, &agent);
    come(f, ranks, 2, (struct mst_open){.size = 2, .max_size = 2});
    fixture_send(f, &ranks[0], final_round());
    fixture_send(f, &ranks[1], final_round());
    go(f, &ranks[0]);
    go(f, &ranks[1]);
    late = fixture_rank(f, 2, 2);
    fixture_connect(f, &late);
    join(f, &late, false);
    EXPECT(f, is_spare(f, &late));
    EXPECT_INT(f, last(f, &late)->number, 1);
    /* Nobody is left who belongs to it: what comes next is another group. */
    go(f, &late);
    go(f, &agent);
    ranks[0] = fixture_rank(f, 0, 2);
    fixture_connect(f, &ranks[0]);
    join(f, &ranks[0], true);
    EXPECT(f, waits(f, &ranks[0]));
}

/* A group fails in its second run and is started anew. It begins with the first run. */
static void a_group_that_is_started_anew_begins_with_its_first_run(struct fixture *f)
{
    struct client ranks[2];
    struct client agent = fixture_client(f, MST_ROLE_AGENT, 0);

    fixture_connect(f, &agent);
    come(f, ranks, 2, (struct mst_open){.size = 2, .max_size = 2, .min_size = 2});
    fixture_send(f, &ranks[0], final_round());
    fixture_send(f, &ranks[1], final_round());
    go(f, &ranks[0]);
    fixture_send(f, &ranks[1], seal_request(1, 0)); /* too few */
    go(f, &ranks[1]);
    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = fixture_rank(f, i, 2);
        fixture_connect(f, &ranks[i]);
    }
    join(f, &ranks[0], false);
    EXPECT(f, waits(f, &ranks[0]));
    join(f, &ranks[1], false);
    expect_rank(f, &ranks[0], 0, 2);
    EXPECT_INT(f, last(f, &ranks[0])->number, 0);
}

/* A round marked final fails. That is not the end of the work. */
static void work_that_failed_is_no_end(struct fixture *f)
{
    struct client ranks[3];
    uint64_t done;

    come(f, ranks, 3, (struct mst_open){.size = 2, .max_size = 2});
    join(f, &ranks[2], false);
    done = fixture_send(f, &ranks[0], final_round());
    die(f, &ranks[0], &ranks[1]);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], done)->status, MUSTER_ELOST);
    EXPECT(f, waits(f, &ranks[2]));
}

/* A round is marked final by some. It is final for all or none: all must mark it. */
static void a_round_is_final_for_all_or_none(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request seal = seal_request(1, 0);

    come(f, ranks, 2, (struct mst_open){.size = 2});
    seal.round.final = true;
    EXPECT_INT(f, fixture_call(f, &ranks[0], seal)->status, MUSTER_EINVAL);
    fixture_send(f, &ranks[0], final_round());
    EXPECT_INT(f, fixture_call(f, &ranks[1], fixture_round(1, "done", 0))->status, MUSTER_EINVAL);
    EXPECT_INT(f, fixture_call(f, &ranks[1], final_round())->status, MUSTER_OK);
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(who_comes_beyond_max_size_is_a_spare)                                                        \
    X(a_spare_takes_the_seat_of_a_loss)                                                            \
    X(the_death_of_a_spare_disturbs_nobody)                                                        \
    X(the_first_that_was_ready_is_seated)                                                          \
    X(a_seat_that_is_left_is_offered)                                                              \
    X(a_generation_from_nobody_has_spares_too)                                                     \
    X(a_multiple_is_seated)                                                                        \
    X(too_few_for_the_multiple_do_not_seal)                                                        \
    X(join_wait_starts_with_a_multiple)                                                            \
    X(what_cannot_be_met_is_refused)                                                               \
    X(anywhere_is_beyond_size_too_where_spares_are)                                                \
    X(a_spare_stays_one_when_its_connection_breaks)                                                \
    X(an_order_is_kept)                                                                            \
    X(an_order_that_a_loss_breaks_is_ignored)                                                      \
    X(an_order_that_makes_no_sense_is_refused_alone)                                               \
    X(only_newcomers_disturb_an_ordered_generation)                                                \
    X(who_missed_the_order_before_this_one_asks)                                                   \
    X(who_is_ready_at_an_ordered_seal_asks_after_it)                                               \
    X(an_order_below_min_size_does_not_seal)                                                       \
    X(a_seal_tells_the_largest_to_newcomers_too)                                                   \
    X(a_seal_takes_no_other_contributions)                                                         \
    X(the_end_of_the_work_is_told_to_who_waits)                                                    \
    X(work_that_failed_is_no_end)                                                                  \
    X(who_is_late_is_told_of_what_is_over)                                                         \
    X(who_comes_when_all_have_gone_is_told)                                                        \
    X(a_group_that_is_started_anew_begins_with_its_first_run)                                      \
    X(a_round_is_final_for_all_or_none)

SCENARIOS(SCENARIO)

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {SCENARIOS(ROW)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
