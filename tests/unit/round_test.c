/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: barriers, reductions, gathering, losses, deadlines, numbers, and who is refused alone.
 *
 * behaviour: rounds / Losses and deadlines */
#include "round_stage.h"

enum { SIZE = 4 };

/* ---- the barrier ---- */

/* Ranks wait at a barrier. It opens when all are there, never before, and can be used again
 * under the next number. [Meeting] */
static void a_barrier_opens_when_all_are_there(struct fixture *f)
{
    struct client ranks[SIZE];

    fixture_seal(f, ranks, SIZE);
    round_send_all(f, ranks, SIZE - 1, fixture_round(1, "b", 0));
    round_expect_all(f, ranks, SIZE - 1, MUSTER_MORE);
    round_send_all(f, ranks + SIZE - 1, 1, fixture_round(1, "b", 0));
    round_expect_all(f, ranks, SIZE, MUSTER_OK);
    EXPECT_INT(f, round_last(f, &ranks[0])->detail.arrived, SIZE);
    EXPECT_INT(f, round_last(f, &ranks[0])->detail.expected, SIZE);
    EXPECT_INT(f, round_last(f, &ranks[0])->detail.who_count, 0);
    EXPECT(f, fixture_told_story(f, "round-open name=b number=0"));
    EXPECT(f, fixture_told_story(f, "round-closed name=b number=0 status=ok arrived=4"));
    round_send_all(f, ranks, SIZE, fixture_round(1, "b", 1));
    round_expect_all(f, ranks, SIZE, MUSTER_OK);
    EXPECT_INT(f, round_last(f, &ranks[0])->number, 1);
}

/* A rank is ahead of the others. It is refused alone, with the number of the round and the ranks
 * that stand there. A rank comes late to a round that is over: if it is the last one, it gets
 * the recorded result; an older one is ESTALE. [Meeting] */
static void numbers_are_checked(struct fixture *f)
{
    struct client ranks[SIZE];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, SIZE);
    reply = fixture_call(f, &ranks[0], fixture_round(1, "b", 1));
    EXPECT_INT(f, reply->status, MUSTER_EINVAL); /* too new */
    EXPECT_INT(f, reply->detail.limit, 0);
    round_send_all(f, ranks, SIZE, fixture_round(1, "b", 0));
    round_send_all(f, ranks, SIZE, fixture_round(1, "b", 1));
    reply = fixture_call(f, &ranks[0], fixture_round(1, "b", 0));
    EXPECT_INT(f, reply->status, MUSTER_ESTALE);
    EXPECT_INT(f, reply->detail.limit, 2);
    reply = fixture_call(f, &ranks[0], fixture_round(1, "b", 1)); /* the last one is kept */
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->detail.arrived, SIZE);
    fixture_send(f, &ranks[1], fixture_round(1, "b", 2));
    reply = fixture_call(f, &ranks[0], fixture_round(1, "b", 3));
    EXPECT_INT(f, reply->status, MUSTER_EINVAL);
    EXPECT_INT(f, reply->detail.limit, 2);
    EXPECT_INT(f, reply->detail.arrived, 1); /* who stands where */
    EXPECT_INT(f, reply->detail.missing, 3);
    EXPECT_INT(f, round_last(f, &ranks[1])->status, MUSTER_MORE);
}

/* A contribution is sent twice. It counts once, and the wait is taken up again. [Meeting] */
static void a_repeat_counts_once(struct fixture *f)
{
    const int64_t one = 1;
    struct client ranks[2];
    struct mst_request sum = round_vector(MST_REDUCE_SUM, &one, 1);

    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], sum);
    fixture_disconnect(f, &ranks[0]);
    fixture_connect(f, &ranks[0]);
    fixture_send(f, &ranks[0], sum);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_MORE);
    fixture_send(f, &ranks[1], sum);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_OK);
    EXPECT_INT(f, round_number_at(round_last(f, &ranks[0]), 0), 2);
    /* The answer was lost on its way: once more. */
    EXPECT_INT(f, round_number_at(fixture_call(f, &ranks[1], sum), 0), 2);
}

/* A rank gives up waiting. Its contribution stays, it gets the names of the missing, and when it
 * calls again it is at the same round. [Meeting] */
static void a_wait_given_up_leaves_the_contribution(struct fixture *f)
{
    struct client ranks[2];
    const struct mst_reply *reply;
    uint64_t id;

    fixture_seal(f, ranks, 2);
    id = fixture_send(f, &ranks[0], fixture_round(1, "b", 0));
    fixture_send(f, &ranks[0], (struct mst_request){.command = MST_CANCEL, .cancel = {.id = id}});
    reply = fixture_reply(f, &ranks[0], id);
    EXPECT_INT(f, reply->status, MUSTER_ECANCELLED);
    EXPECT_INT(f, reply->detail.arrived, 1);
    EXPECT_INT(f, reply->detail.missing, 1);
    EXPECT_INT(f, reply->detail.who[0].index, 1);
    EXPECT_INT(f, reply->detail.who[0].state, MST_PRESENT);
    EXPECT_INT(f, fixture_call(f, &ranks[1], fixture_round(1, "b", 0))->status, MUSTER_OK);
    EXPECT_INT(f, fixture_call(f, &ranks[0], fixture_round(1, "b", 0))->status, MUSTER_OK);
}

/* A rank names other parameters than the first arrival. It is refused alone; the others go on
 * waiting. [Meeting] */
static void who_wants_something_else_is_refused_alone(struct fixture *f)
{
    const int64_t numbers[2] = {1, 2};
    const uint32_t some[] = {0, 1};
    struct client ranks[2];
    struct mst_request first = round_vector(MST_REDUCE_SUM, numbers, 1);
    struct mst_request others[6];

    first.round.deadline_ms = 5000;
    for (int i = 0; i < 6; i++) {
        others[i] = first;
    }
    others[0].round.deadline_ms = 6000;
    others[1].round.on_loss = MST_PROCEED;
    others[2].round.reduce = MST_REDUCE_MAX;
    others[3].round.present_only = true;
    others[4].round.data.size = 16;
    others[5].round.participants = some;
    others[5].round.participant_count = 2;
    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], first);
    for (int i = 0; i < 6; i++) {
        const struct mst_reply *reply = fixture_call(f, &ranks[1], others[i]);

        EXPECT_INT(f, reply->status, MUSTER_EINVAL);
        EXPECT_INT(f, reply->detail.arrived, 1);
        EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_MORE);
    }
    fixture_send(f, &ranks[1], first);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_OK);
}

/* Only the deadline differs, and a rank says that any will do. The first one's counts for both.
 * [Meeting] */
static void who_is_content_with_any_deadline_is_not(struct fixture *f)
{
    const int64_t numbers[1] = {1};
    struct client ranks[2];
    struct mst_request first = round_vector(MST_REDUCE_SUM, numbers, 1);
    struct mst_request other;

    first.round.deadline_ms = 5000;
    other = first;
    other.round.deadline_ms = 6000;
    other.round.any_deadline = true;
    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], first);
    fixture_send(f, &ranks[1], other);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_OK);
    EXPECT_INT(f, round_last(f, &ranks[1])->status, MUSTER_OK);
}

/* A round makes no sense: no name, a worker's, unsorted participants, a vector that is none, a
 * contribution too large. It is refused, and nothing of it is remembered. [Meeting] */
static void what_makes_no_sense_is_refused(struct fixture *f)
{
    static const char large[65537];
    const uint32_t unsorted[] = {1, 0};
    const uint32_t others[] = {1};
    struct client ranks[2];
    struct client worker = fixture_client(f, MST_ROLE_WORKER, 0);
    struct mst_request request = fixture_round(1, "b", 0);
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    fixture_connect(f, &worker);
    EXPECT_INT(f, fixture_call(f, &worker, request)->status, MUSTER_EINVAL);
    request.round.generation = 0;
    EXPECT_INT(f, fixture_call(f, &ranks[0], request)->status, MUSTER_EFENCED);
    request.round.generation = 1;
    request.round.name = mst_slice_of(NULL, 0);
    EXPECT_INT(f, fixture_call(f, &ranks[0], request)->status, MUSTER_EINVAL);
    request.round.name = mst_slice_of(large, 257);
    reply = fixture_call(f, &ranks[0], request);
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 256);
    request = fixture_round(1, "b", 0);
    request.round.participants = unsorted;
    request.round.participant_count = 2;
    EXPECT_INT(f, fixture_call(f, &ranks[0], request)->status, MUSTER_EINVAL);
    request.round.participants = others; /* without the caller */
    request.round.participant_count = 1;
    EXPECT_INT(f, fixture_call(f, &ranks[0], request)->status, MUSTER_EINVAL);
    request = fixture_round(1, "b", 0);
    request.round.seal = true; /* and on_loss = fail */
    EXPECT_INT(f, fixture_call(f, &ranks[0], request)->status, MUSTER_EINVAL);
    EXPECT_INT(f, fixture_call(f, &ranks[0], round_reducing(MST_REDUCE_NONE, "x", 1))->status,
               MUSTER_EINVAL);
    EXPECT_INT(f, fixture_call(f, &ranks[0], round_reducing(MST_REDUCE_SUM, "x", 1))->status,
               MUSTER_EINVAL);
    reply = fixture_call(f, &ranks[0], round_reducing(MST_REDUCE_EQUAL, large, sizeof(large)));
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 65536);
    /* None of all that is remembered. */
    EXPECT_INT(f, fixture_call(f, &worker, (struct mst_request){.command = MST_ROUNDS})->item_count,
               0);
    round_send_all(f, ranks, 2, fixture_round(1, "b", 0));
    round_expect_all(f, ranks, 2, MUSTER_OK);
}

/* ---- reductions ---- */

/* Vectors of numbers are reduced by minimum or maximum. Each element by itself, over the whole
 * range of 64 bits. [Results] */
static void vectors_are_reduced(struct fixture *f)
{
    const int64_t mine[3][2] = {{3, -5}, {7, INT64_MIN}, {-1, 9}};
    const enum mst_reduce kinds[] = {MST_REDUCE_MIN, MST_REDUCE_MAX};
    const int64_t results[2][2] = {{-1, INT64_MIN}, {7, 9}};
    struct client ranks[3];

    fixture_seal(f, ranks, 3);
    for (uint64_t k = 0; k < 2; k++) {
        for (int i = 0; i < 3; i++) {
            struct mst_request request = round_vector(kinds[k], mine[i], 2);

            request.round.number = k;
            fixture_send(f, &ranks[i], request);
        }
        for (int i = 0; i < 3; i++) {
            EXPECT_INT(f, round_last(f, &ranks[i])->status, MUSTER_OK);
            EXPECT_INT(f, round_last(f, &ranks[i])->value.size, 16);
            EXPECT_INT(f, round_number_at(round_last(f, &ranks[i]), 0), results[k][0]);
            EXPECT_INT(f, round_number_at(round_last(f, &ranks[i]), 1), results[k][1]);
        }
    }
}

/* Numbers travel least byte first, whatever the machine. [Results] */
static void numbers_travel_little_endian(struct fixture *f)
{
    const unsigned char one[] = {1, 0, 0, 0, 0, 0, 0, 0};
    const unsigned char minus_two[] = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const unsigned char minus_one[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct client ranks[2];
    struct mst_slice value;

    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], round_reducing(MST_REDUCE_SUM, one, sizeof(one)));
    fixture_send(f, &ranks[1], round_reducing(MST_REDUCE_SUM, minus_two, sizeof(minus_two)));
    value = round_last(f, &ranks[0])->value;
    EXPECT_INT(f, value.size, sizeof(minus_one));
    EXPECT(f, value.size == sizeof(minus_one) && memcmp(value.data, minus_one, value.size) == 0);
}

/* A sum leaves the range and comes back. It is right: only the end counts. [Results] */
static void a_sum_may_leave_the_range_and_come_back(struct fixture *f)
{
    const int64_t mine[SIZE] = {INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN};
    struct client ranks[SIZE];

    fixture_seal(f, ranks, SIZE);
    for (int i = 0; i < SIZE; i++) {
        fixture_send(f, &ranks[i], round_vector(MST_REDUCE_SUM, &mine[i], 1));
    }
    round_expect_all(f, ranks, SIZE, MUSTER_OK);
    EXPECT_INT(f, round_number_at(round_last(f, &ranks[0]), 0), -2);
}

/* A sum is out of range in the end. It is an error for all (ERANGE). [Results] */
static void a_sum_out_of_range_is_so_for_all(struct fixture *f)
{
    const int64_t mine[3] = {INT64_MAX, 0, 1};
    struct client ranks[3];

    fixture_seal(f, ranks, 3);
    for (int i = 0; i < 3; i++) {
        fixture_send(f, &ranks[i], round_vector(MST_REDUCE_SUM, &mine[i], 1));
    }
    round_expect_all(f, ranks, 3, MUSTER_ERANGE);
}

/* All must say the same, and do. Each gets those bytes. [Results] */
static void equal_bytes_are_given_back(struct fixture *f)
{
    struct client ranks[2];

    fixture_seal(f, ranks, 2);
    round_send_all(f, ranks, 2, round_reducing(MST_REDUCE_EQUAL, "same", 4));
    round_expect_all(f, ranks, 2, MUSTER_OK);
    EXPECT_TEXT(f, round_last(f, &ranks[1])->value, "same");
}

/* One rank says something else. The round ends at once (EMISMATCH) and names it; a rank that
 * comes later gets the same. [Results] */
static void a_difference_ends_the_round_at_once(struct fixture *f)
{
    struct client ranks[SIZE];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, SIZE);
    fixture_send(f, &ranks[3], round_reducing(MST_REDUCE_EQUAL, "same", 4));
    fixture_send(f, &ranks[1], round_reducing(MST_REDUCE_EQUAL, "not", 3));
    EXPECT_INT(f, round_last(f, &ranks[3])->status, MUSTER_EMISMATCH);
    reply = round_last(f, &ranks[1]);
    EXPECT_INT(f, reply->status, MUSTER_EMISMATCH);
    EXPECT_INT(f, reply->detail.who_count, 1);
    EXPECT_INT(f, reply->detail.who[0].index, 1);
    /* Who comes later hears the same. */
    EXPECT_INT(f, fixture_call(f, &ranks[0], round_reducing(MST_REDUCE_EQUAL, "same", 4))->status,
               MUSTER_EMISMATCH);
}

/* Bytes are gathered. Each rank gets those of all, in the order of the ranks. [Results] */
static void a_gather_brings_everyones_bytes_in_rank_order(struct fixture *f)
{
    const char *const mine[] = {"zero", "", "two"};
    const int order[] = {2, 0, 1};
    struct client ranks[3];

    fixture_seal(f, ranks, 3);
    for (int i = 0; i < 3; i++) {
        const char *bytes = mine[order[i]];

        fixture_send(f, &ranks[order[i]], round_reducing(MST_REDUCE_GATHER, bytes, strlen(bytes)));
    }
    for (uint32_t i = 0; i < 3; i++) {
        const struct mst_reply *reply = round_last(f, &ranks[i]);

        EXPECT_INT(f, reply->status, MUSTER_OK);
        EXPECT_INT(f, reply->item_count, 3);
        for (uint32_t k = 0; k < reply->item_count && k < 3; k++) {
            EXPECT_INT(f, reply->items[k].kind, MST_ITEM_PART);
            EXPECT_INT(f, reply->items[k].who.index, k);
            EXPECT_INT(f, reply->items[k].who.rank, k);
            EXPECT_TEXT(f, reply->items[k].value, mine[k]);
        }
    }
}

/* By a shell that has room for it now, or has not. */
static void contribute_and_take(struct fixture *f, const struct client *rank, uint64_t id,
                                bool room)
{
    struct mst_request request = round_reducing(MST_REDUCE_GATHER, "1234567890", 10);
    const struct mst_effect *effect;

    request.id = id;
    request.oldest = id;
    request.round.number = id - 100; /* rounds are counted from 0 */
    (void)mst_core_request(f->core, f->now_ns, rank->conn, &request);
    while ((effect = mst_core_next(f->core))) {
        if (effect->type == MST_EFFECT_REPLY && effect->reply->command == MST_ROUND && !room) {
            mst_core_defer(f->core, effect);
        } else {
            mst_core_done(f->core, effect);
        }
        mst_core_check(f->core);
    }
}

static void a_result_is_charged_once_its_name_has_another(struct fixture *f)
{
    struct client rank;

    fixture_seal(f, &rank, 1);
    if (f->mem.failed) {
        return;
    }
    contribute_and_take(f, &rank, 100, false);
    EXPECT_INT(f, mst_core_pinned(f->core), 0); /* it is the last of its name */
    contribute_and_take(f, &rank, 101, true);
    EXPECT(f, f->mem.failed || mst_core_pinned(f->core) > 10);
    EXPECT_INT(f, mst_core_pinned_by(f->core, rank.conn), mst_core_pinned(f->core));
    fixture_disconnect(f, &rank);
    EXPECT_INT(f, mst_core_pinned(f->core), 0);
}

static void small(struct mst_core_config *config)
{
    config->limits.result_bytes_max = 10;
    config->limits.rounds_max = 2;
}

/* A gather or a sum of doubles would be too large, or there are too many rounds. The one over the
 * limit is refused with it; a smaller contribution is still taken. [Results] */
static void a_result_has_a_limit(struct fixture *f)
{
    const double one = 1;
    struct client ranks[2];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    reply = fixture_call(f, &ranks[1], round_reducing(MST_REDUCE_GATHER, "12345678901", 11));
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 10);
    fixture_send(f, &ranks[0], round_reducing(MST_REDUCE_GATHER, "123456", 6));
    reply = fixture_call(f, &ranks[1], round_reducing(MST_REDUCE_GATHER, "12345", 5));
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_MORE);
    fixture_send(f, &ranks[1], round_reducing(MST_REDUCE_GATHER, "1234", 4));
    round_expect_all(f, ranks, 2, MUSTER_OK);
    fixture_send(f, &ranks[0], round_doubles(MST_REDUCE_SUM_DOUBLE, 1, &one, 1));
    reply = fixture_call(f, &ranks[1], round_doubles(MST_REDUCE_SUM_DOUBLE, 1, &one, 1));
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.asked, 16);
    fixture_send(f, &ranks[0], fixture_round(1, "second", 0));
    reply = fixture_call(f, &ranks[0], fixture_round(1, "third", 0));
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 2);
}

static void two_names(struct mst_core_config *config)
{
    config->limits.rounds_max = 2;
}

static struct mst_request taking(const char *name, uint64_t number, const struct mst_slice *taken)
{
    struct mst_request request = fixture_round(1, name, number);

    request.round.taken = taken;
    request.round.taken_count = 1;
    return request;
}

/* There are as many names as the limit allows. One whose last result every rank says it has is
 * forgotten for a new one; one that a rank may still ask for is not, and is answered with the
 * recorded result. A forgotten name begins again with the number that its ranks count. [Results] */
static void a_name_is_forgotten_when_all_have_its_result(struct fixture *f)
{
    const struct mst_slice a = mst_slice_text("a"), b = mst_slice_text("b");
    struct client ranks[2];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    round_send_all(f, ranks, 2, fixture_round(1, "a", 0));
    round_send_all(f, ranks, 2, taking("b", 0, &a));
    round_expect_all(f, ranks, 2, MUSTER_OK);
    fixture_send(f, &ranks[0], taking("c", 0, &b)); /* a is forgotten */
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_MORE);
    reply = fixture_call(f, &ranks[1], fixture_round(1, "d", 0)); /* b is not */
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    reply = fixture_call(f, &ranks[1], fixture_round(1, "b", 0));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    fixture_send(f, &ranks[1], taking("c", 0, &b));
    EXPECT_INT(f, round_last(f, &ranks[1])->status, MUSTER_OK);
    reply = fixture_call(f, &ranks[0], fixture_round(1, "a", 2)); /* none had this number */
    EXPECT_INT(f, reply->status, MUSTER_EINVAL);
    round_send_all(f, ranks, 2, fixture_round(1, "a", 1));
    round_expect_all(f, ranks, 2, MUSTER_OK);
    EXPECT_INT(f, round_last(f, &ranks[0])->number, 1);
}

/* The same, where the other rank, which has no result, is lost. [Results] */
static void a_lost_rank_asks_for_no_result(struct fixture *f)
{
    const struct mst_slice a = mst_slice_text("a");
    struct client ranks[3];
    struct mst_request proceeds = fixture_round(1, "c", 0);

    proceeds.round.on_loss = MST_PROCEED;
    fixture_seal(f, ranks, 3);
    round_send_all(f, ranks, 3, fixture_round(1, "a", 0));
    round_send_all(f, ranks, 2, taking("b", 0, &a));
    EXPECT_INT(f, fixture_call(f, &ranks[0], proceeds)->status, MUSTER_ELIMIT);
    round_lose(f, &ranks[0], &ranks[2]);
    fixture_send(f, &ranks[0], proceeds);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_MORE);
    fixture_send(f, &ranks[1], proceeds);
    round_expect_all(f, ranks, 2, MUSTER_OK);
}

/* ---- losses and deadlines ---- */

/* A participant is lost before it arrived. The round fails at once for all (ELOST), naming
 * which, where, by which cause, and which others are missing. Later rounds fail as soon as they
 * begin. */
static void a_loss_fails_the_round_at_once(struct fixture *f)
{
    struct client ranks[SIZE];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, SIZE);
    round_send_all(f, ranks, 2, fixture_round(1, "b", 0));
    round_lose(f, &ranks[3], &ranks[2]);
    reply = fixture_reply(f, &ranks[0], ranks[0].id);
    EXPECT_INT(f, reply->status, MUSTER_ELOST);
    EXPECT_INT(f, reply->detail.lost, 1);
    EXPECT_INT(f, reply->detail.missing, 1);
    EXPECT_INT(f, reply->detail.who[0].index, 2);
    EXPECT_INT(f, reply->detail.who[0].state, MST_STATE_LOST);
    EXPECT_INT(f, reply->detail.who[0].cause, MST_CAUSE_SIGNAL);
    EXPECT_INT(f, reply->detail.who[0].code, 9);
    EXPECT_TEXT(f, reply->detail.who[0].host, "b3");
    EXPECT_INT(f, reply->detail.who[1].index, 3);
    /* Later ones fail as soon as they begin. */
    EXPECT_INT(f, fixture_call(f, &ranks[3], fixture_round(1, "c", 0))->status, MUSTER_ELOST);
}

/* A participant is lost after it arrived. The round fails at once for all (ELOST). */
static void a_loss_after_arrival_fails_it_too(struct fixture *f)
{
    struct client ranks[3];

    fixture_seal(f, ranks, 3);
    round_send_all(f, ranks, 2, fixture_round(1, "b", 0));
    round_lose(f, &ranks[2], &ranks[0]);
    EXPECT_INT(f, round_last(f, &ranks[1])->status, MUSTER_ELOST);
}

/* A participant is lost and the round is to proceed. The rest goes on; what the lost one had
 * contributed counts, and the result names it. Leaving counts as being lost. */
static void with_proceed_the_rest_goes_on(struct fixture *f)
{
    const int64_t one = 1;
    struct client ranks[SIZE];
    struct mst_request sum = round_vector(MST_REDUCE_SUM, &one, 1);
    const struct mst_reply *reply;

    sum.round.on_loss = MST_PROCEED;
    fixture_seal(f, ranks, SIZE);
    round_send_all(f, ranks, 3, sum);
    round_lose(f, &ranks[3], &ranks[0]); /* it has contributed: that counts */
    EXPECT_INT(f, round_last(f, &ranks[1])->status, MUSTER_MORE);
    fixture_send(f, &ranks[3], (struct mst_request){.command = MST_LEAVE});
    reply = round_last(f, &ranks[1]);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, round_number_at(reply, 0), 3);
    EXPECT_INT(f, reply->detail.arrived, 3);
    EXPECT_INT(f, reply->detail.lost, 2);
    EXPECT_INT(f, reply->detail.missing, 0);
    EXPECT_INT(f, reply->detail.who[1].state, MST_LEFT);
}

/* The deadline passes. The round ends for all (ETIMEDOUT) and names exactly which are missing
 * and how each is: present, silent for how long, lost, left or never started. */
static void a_deadline_names_who_is_missing(struct fixture *f)
{
    struct client ranks[SIZE];
    struct mst_request request = fixture_round(1, "b", 0);
    const struct mst_reply *reply;

    request.round.deadline_ms = 3000;
    fixture_seal(f, ranks, SIZE);
    round_send_all(f, ranks, 2, request);
    fixture_disconnect(f, &ranks[3]);
    fixture_pass(f, 2999);
    round_expect_all(f, ranks, 2, MUSTER_MORE);
    fixture_pass(f, 1);
    round_expect_all(f, ranks, 2, MUSTER_ETIMEDOUT);
    reply = round_last(f, &ranks[0]);
    EXPECT_INT(f, reply->detail.arrived, 2);
    EXPECT_INT(f, reply->detail.missing, 2);
    EXPECT_INT(f, reply->detail.who_count, 2);
    EXPECT_INT(f, reply->detail.who[0].index, 2);
    EXPECT_INT(f, reply->detail.who[0].state, MST_PRESENT);
    EXPECT_INT(f, reply->detail.who[1].state, MST_SILENT);
    EXPECT_INT(f, reply->detail.who[1].heard_ms, 3000);
    EXPECT(f, fixture_told_story(
                  f, "round-closed name=b number=0 status=timed-out arrived=2 missing=2"));
    EXPECT_INT(f, fixture_call(f, &ranks[2], request)->status, MUSTER_ETIMEDOUT);
}

/* The `number`-th round of those who do not wait for the missing: a second each. */
static struct mst_request proceeding(enum mst_reduce reduce, uint64_t number, struct mst_slice data)
{
    struct mst_request request = round_reducing(reduce, data.data, data.size);

    request.round.number = number;
    request.round.deadline_ms = 1000;
    request.round.on_loss = MST_PROCEED;
    return request;
}

/* Ranks 0 and 1 of four bring these, 3 is lost, and 2 comes late: all have the same result. */
static const struct mst_reply *pass_deadline(struct fixture *f, struct client *ranks,
                                             enum mst_reduce reduce, uint64_t number,
                                             const struct mst_slice *data)
{
    const struct mst_reply *reply;

    fixture_send(f, &ranks[0], proceeding(reduce, number, data[0]));
    fixture_send(f, &ranks[1], proceeding(reduce, number, data[1]));
    fixture_pass(f, 999);
    round_expect_all(f, ranks, 2, MUSTER_MORE);
    fixture_pass(f, 1);
    fixture_send(f, &ranks[2], proceeding(reduce, number, data[0]));
    reply = round_last(f, &ranks[0]);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mst_reply *same = round_last(f, &ranks[i]);

        EXPECT_INT(f, same->status, reply->status);
        EXPECT(f, mst_slice_equal(same->value, reply->value));
        EXPECT_INT(f, same->item_count, reply->item_count);
        EXPECT_INT(f, same->detail.arrived, 2);
        EXPECT_INT(f, same->detail.lost, 1);
        EXPECT_INT(f, same->detail.missing, 1);
        EXPECT_INT(f, same->detail.who_count, 2);
        EXPECT_INT(f, same->detail.who[0].index, 3);
        EXPECT_INT(f, same->detail.who[1].index, 2);
    }
    return reply;
}

static struct mst_slice number_of(const int64_t *number)
{
    return mst_slice_of(number, sizeof(*number));
}

/* The deadline passes, and the round is to proceed. All that arrived, and later those that were
 * missing, get the same: ETIMEDOUT, the names of the missing, and the least, largest or total
 * number or the equal bytes of those that arrived. */
static void a_deadline_gives_what_those_who_arrived_come_to(struct fixture *f)
{
    static const struct {
        enum mst_reduce reduce;
        int64_t result;
    } rows[] = {{MST_REDUCE_MIN, -4}, {MST_REDUCE_MAX, 9}, {MST_REDUCE_SUM, 5}};
    const int64_t numbers[] = {-4, 9};
    const struct mst_slice data[] = {number_of(&numbers[0]), number_of(&numbers[1])};
    const struct mst_slice words[] = {mst_slice_text("v1.2"), mst_slice_text("v1.2")};
    struct client ranks[SIZE];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, SIZE);
    round_lose(f, &ranks[0], &ranks[3]);
    for (uint64_t i = 0; i < 3; i++) {
        reply = pass_deadline(f, ranks, rows[i].reduce, i, data);
        EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
        EXPECT_INT(f, reply->value.size, 8);
        EXPECT_INT(f, round_number_at(reply, 0), rows[i].result);
    }
    reply = pass_deadline(f, ranks, MST_REDUCE_EQUAL, 3, words);
    EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
    EXPECT_TEXT(f, reply->value, "v1.2");
    EXPECT_INT(f, fixture_call(f, &ranks[0], proceeding(MST_REDUCE_SUM, 2, data[0]))->status,
               MUSTER_ESTALE);
    EXPECT_INT(f, round_last(f, &ranks[0])->value.size, 0);
}

/* The deadline of a gather passes, and it is to proceed. All get the parts of those that
 * arrived. */
static void a_deadline_gives_the_parts_of_those_who_arrived(struct fixture *f)
{
    const struct mst_slice data[] = {mst_slice_text("zero"), mst_slice_text("one")};
    struct client ranks[SIZE];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, SIZE);
    round_lose(f, &ranks[0], &ranks[3]);
    reply = pass_deadline(f, ranks, MST_REDUCE_GATHER, 0, data);
    EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
    EXPECT_INT(f, reply->value.size, 0);
    EXPECT_INT(f, reply->item_count, 2);
    for (uint32_t i = 0; i < 2 && i < reply->item_count; i++) {
        EXPECT_INT(f, reply->items[i].kind, MST_ITEM_PART);
        EXPECT_INT(f, reply->items[i].who.index, i);
        EXPECT(f, mst_slice_equal(reply->items[i].value, data[i]));
    }
}

/* The deadline passes, and the sum of those that arrived is out of range. They get ERANGE. */
static void a_sum_out_of_range_at_the_deadline(struct fixture *f)
{
    const int64_t numbers[] = {INT64_MAX, 1};
    const struct mst_slice data[] = {number_of(&numbers[0]), number_of(&numbers[1])};
    struct client ranks[SIZE];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, SIZE);
    round_lose(f, &ranks[0], &ranks[3]);
    reply = pass_deadline(f, ranks, MST_REDUCE_SUM, 0, data);
    EXPECT_INT(f, reply->status, MUSTER_ERANGE);
    EXPECT_INT(f, reply->value.size, 0);
}

/* The deadline passes of a round that fails with a loss. There is no value, nor for a rank that
 * gave up waiting. */
static void who_fails_at_the_deadline_has_no_value(struct fixture *f)
{
    const int64_t number = 7;
    struct client ranks[SIZE];
    struct mst_request request = proceeding(MST_REDUCE_SUM, 0, number_of(&number));
    uint64_t given_up;

    fixture_seal(f, ranks, SIZE);
    request.round.on_loss = MST_FAIL;
    fixture_send(f, &ranks[0], request);
    fixture_pass(f, 1000);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_ETIMEDOUT);
    EXPECT_INT(f, round_last(f, &ranks[0])->value.size, 0);
    given_up = fixture_send(f, &ranks[0], proceeding(MST_REDUCE_SUM, 1, number_of(&number)));
    fixture_send(f, &ranks[0], (struct mst_request){.command = MST_CANCEL, .cancel = {given_up}});
    fixture_pass(f, 1000);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], given_up)->status, MUSTER_ECANCELLED);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], given_up)->value.size, 0);
}

/* Very many are missing. The number is exact; eight are named. */
static void at_most_eight_are_named(struct fixture *f)
{
    struct client ranks[12];
    struct mst_request request = fixture_round(1, "b", 0);

    request.round.deadline_ms = 1000;
    fixture_seal(f, ranks, 12);
    fixture_send(f, &ranks[0], request);
    fixture_pass(f, 1000);
    EXPECT_INT(f, round_last(f, &ranks[0])->detail.missing, 11);
    EXPECT_INT(f, round_last(f, &ranks[0])->detail.who_count, MST_NAMES_MAX);
}

/* Only some ranks take part. The others are refused, and losses among them do not matter.
 * [Meeting] */
static void participants_can_be_chosen(struct fixture *f)
{
    const uint32_t some[] = {0, 2};
    struct client ranks[SIZE];
    struct mst_request request = fixture_round(1, "b", 0);

    request.round.participants = some;
    request.round.participant_count = 2;
    fixture_seal(f, ranks, SIZE);
    fixture_send(f, &ranks[0], request);
    EXPECT_INT(f, fixture_call(f, &ranks[1], request)->status, MUSTER_EINVAL);
    round_lose(f, &ranks[1], &ranks[3]); /* not its business */
    fixture_send(f, &ranks[2], request);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_OK);
    EXPECT_INT(f, round_last(f, &ranks[0])->detail.expected, 2);
}

/* A participant has never joined. It is waited for until the deadline and named; with
 * `present_only` it is not counted. [Meeting] */
static void who_never_joined_is_waited_for_or_not_counted(struct fixture *f)
{
    const uint32_t some[] = {0, 1, 9};
    struct client ranks[2];
    struct client newcomer = fixture_client(f, MST_ROLE_RANK, 9);
    struct mst_request request = fixture_round(1, "waiting", 0);
    const struct mst_reply *reply;

    request.round.participants = some;
    request.round.participant_count = 3;
    request.round.deadline_ms = 2000;
    fixture_seal(f, ranks, 2);
    round_send_all(f, ranks, 2, request);
    fixture_pass(f, 2000);
    reply = round_last(f, &ranks[1]);
    EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
    EXPECT_INT(f, reply->detail.who[0].index, 9);
    EXPECT_INT(f, reply->detail.who[0].state, MST_ABSENT);
    /* A newcomer is named as what it is when the others are told. */
    request.round.number = 1;
    round_send_all(f, ranks, 2, request);
    fixture_connect(f, &newcomer);
    fixture_pass(f, 2000);
    reply = round_last(f, &ranks[1]);
    EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
    EXPECT_INT(f, reply->detail.who[0].index, 9);
    EXPECT_INT(f, reply->detail.who[0].state, MST_JOINING);
    EXPECT_TEXT(f, reply->detail.who[0].host, "b3");
    request.round.number = 0;
    request.round.name = mst_slice_text("present");
    request.round.present_only = true;
    round_send_all(f, ranks, 2, request);
    round_expect_all(f, ranks, 2, MUSTER_OK);
    EXPECT_INT(f, round_last(f, &ranks[0])->detail.expected, 2);
}

/* Two seals are asked for at once. Only one at a time: the other is refused.
 * [generations / The next one] */
static void only_one_seal_at_a_time(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request one = fixture_round(1, "one", 0);
    struct mst_request two = fixture_round(1, "two", 0);

    one.round.seal = true;
    one.round.on_loss = MST_PROCEED;
    two.round.seal = true;
    two.round.on_loss = MST_PROCEED;
    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], one);
    EXPECT_INT(f, fixture_call(f, &ranks[1], two)->status, MUSTER_EINVAL);
    EXPECT_INT(f, fixture_call(f, &ranks[1], one)->status, MUSTER_OK);
}

/* A lost participant's place is taken over afterwards. The recorded result still names the one
 * that was lost. */
static void a_result_outlives_what_it_names(struct fixture *f)
{
    struct client ranks[2];
    struct client heir = fixture_rank(f, 1, 2);
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], fixture_round(1, "b", 0));
    round_lose(f, &ranks[0], &ranks[1]);
    heir.open.host = mst_slice_text("elsewhere");
    fixture_connect(f, &heir);
    reply = fixture_call(f, &ranks[0], fixture_round(1, "b", 0));
    EXPECT_INT(f, reply->status, MUSTER_ELOST);
    EXPECT_TEXT(f, reply->detail.who[0].host, "b3");
    EXPECT_INT(f, reply->detail.who[0].incarnation, 1);
}

/* ---- looking at them ---- */

/* The open rounds are listed. Each comes with how many arrived, how many are expected, and the
 * first that is missing. [Looking at them] */
static void open_rounds_and_their_members_are_listed(struct fixture *f)
{
    struct client ranks[3];
    struct mst_request request = {.command = MST_ROUND_MEMBERS,
                                  .round_members = {.generation = 1, .name = mst_slice_text("b")}};
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 3);
    fixture_send(f, &ranks[1], fixture_round(1, "b", 0));
    fixture_send(f, &ranks[1], fixture_round(1, "a", 0));
    reply = fixture_call(f, &ranks[2], (struct mst_request){.command = MST_ROUNDS});
    EXPECT_INT(f, reply->item_count, 2);
    if (reply->item_count == 2) {
        EXPECT_TEXT(f, reply->items[0].name, "b");
        EXPECT_INT(f, reply->items[0].arrived, 1);
        EXPECT_INT(f, reply->items[0].expected, 3);
        EXPECT_INT(f, reply->items[0].who.index, 0);
        EXPECT_TEXT(f, reply->items[1].name, "a");
    }
    reply = fixture_call(f, &ranks[2], request);
    EXPECT_INT(f, reply->item_count, 3);
    if (reply->item_count == 3) {
        EXPECT_INT(f, reply->items[0].arrived, 0);
        EXPECT_INT(f, reply->items[1].arrived, 1);
        EXPECT_INT(f, reply->items[1].who.index, 1);
    }
    fixture_send(f, &ranks[0], fixture_round(1, "b", 0));
    fixture_send(f, &ranks[2], fixture_round(1, "b", 0));
    reply = fixture_call(f, &ranks[2], request); /* the last one */
    EXPECT_INT(f, reply->item_count > 0 ? reply->items[0].arrived : 0, 1);
    request.round_members.number = 1;
    EXPECT_INT(f, fixture_call(f, &ranks[2], request)->status, MUSTER_ENOTFOUND);
    for (uint32_t i = 0; i < 3; i++) {
        fixture_send(f, &ranks[i], fixture_round(1, "b", 1));
    }
    request.round_members.number = 0;
    EXPECT_INT(f, fixture_call(f, &ranks[2], request)->status, MUSTER_ESTALE);
    request.round_members.generation = 2;
    EXPECT_INT(f, fixture_call(f, &ranks[2], request)->status, MUSTER_EFENCED);
    reply = fixture_call(f, &ranks[2], (struct mst_request){.command = MST_ROUNDS});
    EXPECT_INT(f, reply->item_count, 1);
}

/* All participants of one round are asked for. The whole list comes, in pages when it is long;
 * of another round or generation it is refused. [Looking at them] */
static void a_large_round_is_listed_in_pages(struct fixture *f)
{
    enum { MANY = 300 };
    struct client ranks[MANY];
    struct mst_request request = {.command = MST_ROUND_MEMBERS,
                                  .round_members = {.generation = 1, .name = mst_slice_text("b")}};
    const struct mst_reply *reply;

    fixture_seal(f, ranks, MANY);
    fixture_send(f, &ranks[7], fixture_round(1, "b", 0));
    reply = fixture_call(f, &ranks[0], request);
    EXPECT_INT(f, reply->item_count, MST_PAGE_ITEMS);
    EXPECT_INT(f, reply->next, MST_PAGE_ITEMS);
    request.round_members.after = reply->next;
    reply = fixture_call(f, &ranks[0], request);
    EXPECT_INT(f, reply->item_count, MANY - MST_PAGE_ITEMS);
    EXPECT_INT(f, reply->next, 0);
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(a_barrier_opens_when_all_are_there)                                                          \
    X(numbers_are_checked)                                                                         \
    X(a_repeat_counts_once)                                                                        \
    X(a_wait_given_up_leaves_the_contribution)                                                     \
    X(who_wants_something_else_is_refused_alone)                                                   \
    X(who_is_content_with_any_deadline_is_not)                                                     \
    X(what_makes_no_sense_is_refused)                                                              \
    X(vectors_are_reduced)                                                                         \
    X(numbers_travel_little_endian)                                                                \
    X(a_sum_may_leave_the_range_and_come_back)                                                     \
    X(a_sum_out_of_range_is_so_for_all)                                                            \
    X(equal_bytes_are_given_back)                                                                  \
    X(a_difference_ends_the_round_at_once)                                                         \
    X(a_result_is_charged_once_its_name_has_another)                                               \
    X(a_gather_brings_everyones_bytes_in_rank_order)                                               \
    X(a_loss_fails_the_round_at_once)                                                              \
    X(a_loss_after_arrival_fails_it_too)                                                           \
    X(with_proceed_the_rest_goes_on)                                                               \
    X(a_deadline_names_who_is_missing)                                                             \
    X(a_deadline_gives_what_those_who_arrived_come_to)                                             \
    X(a_deadline_gives_the_parts_of_those_who_arrived)                                             \
    X(a_sum_out_of_range_at_the_deadline)                                                          \
    X(who_fails_at_the_deadline_has_no_value)                                                      \
    X(at_most_eight_are_named)                                                                     \
    X(participants_can_be_chosen)                                                                  \
    X(who_never_joined_is_waited_for_or_not_counted)                                               \
    X(only_one_seal_at_a_time)                                                                     \
    X(a_result_outlives_what_it_names)                                                             \
    X(open_rounds_and_their_members_are_listed)

SCENARIOS(SCENARIO)

static void test_a_result_has_a_limit(void **state)
{
    (void)state;
    fixture_run_with(a_result_has_a_limit, small);
}

static void test_a_name_is_forgotten_when_all_have_its_result(void **state)
{
    (void)state;
    fixture_run_with(a_name_is_forgotten_when_all_have_its_result, two_names);
}

static void test_a_lost_rank_asks_for_no_result(void **state)
{
    (void)state;
    fixture_run_with(a_lost_rank_asks_for_no_result, two_names);
}

static void test_a_large_round_is_listed_in_pages(void **state)
{
    (void)state;
    fixture_run_once(a_large_round_is_listed_in_pages);
}

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIOS(ROW) cmocka_unit_test(test_a_result_has_a_limit),
        cmocka_unit_test(test_a_name_is_forgotten_when_all_have_its_result),
        cmocka_unit_test(test_a_lost_rank_asks_for_no_result),
        cmocka_unit_test(test_a_large_round_is_listed_in_pages)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
