/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of doubles and of words, and broadcasts.
 *
 * behaviour: rounds / Results */
#include <math.h>

#include "base/prng.h"
#include "round_stage.h"

enum { SIZE = 4, ADDENDS = 64, ORDERS = 1000 };

static uint64_t bits_at(const struct mst_reply *reply, size_t position)
{
    return (uint64_t)round_number_at(reply, position);
}

static uint64_t bits_of(double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

/* Of magnitudes from 2^-40 to 2^39, so that nearly every order of adding rounds differently. */
static double any_double(struct mst_prng *prng)
{
    uint64_t exponent = 983 + mst_prng_below(prng, 80);
    uint64_t bits = (mst_prng_next(prng) & ~(UINT64_C(0x7ff) << 52)) | exponent << 52;
    double number;

    memcpy(&number, &bits, sizeof(number));
    return number;
}

static void shuffle(struct mst_prng *prng, uint32_t *order, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)mst_prng_below(prng, i);
        uint32_t swap = order[i - 1];

        order[i - 1] = order[other];
        order[other] = swap;
    }
}

/* 64 ranks add doubles, and arrive in 1,000 different orders. The sum is that of a loop over the
 * ranks in their order, in every bit, each time and on every rank. */
static void a_sum_of_doubles_has_the_same_bits_in_any_order_of_arrival(struct fixture *f)
{
    static const uint32_t checked[] = {0, 1, ADDENDS / 2, ADDENDS - 1};
    struct client ranks[ADDENDS];
    uint32_t order[ADDENDS];
    double mine[ADDENDS], in_order = 0;
    struct mst_prng prng = {17};
    uint32_t differing = 0;

    fixture_seal(f, ranks, ADDENDS);
    for (uint32_t i = 0; i < ADDENDS; i++) {
        order[i] = i;
        mine[i] = any_double(&prng);
        in_order += mine[i];
    }
    for (uint64_t round = 0; round < ORDERS; round++) {
        double as_they_came = 0;

        fixture_forget(f);
        shuffle(&prng, order, ADDENDS);
        for (uint32_t i = 0; i < ADDENDS; i++) {
            as_they_came += mine[order[i]];
            fixture_send(f, &ranks[order[i]],
                         round_doubles(MST_REDUCE_SUM_DOUBLE, round, &mine[order[i]], 1));
        }
        differing += bits_of(as_they_came) != bits_of(in_order);
        for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++) {
            EXPECT_INT(f, round_last(f, &ranks[checked[i]])->status, MUSTER_OK);
            EXPECT_INT(f, bits_at(round_last(f, &ranks[checked[i]]), 0), bits_of(in_order));
        }
    }
    EXPECT(f, differing > ORDERS / 2); /* the order does matter for these numbers */
}

/* Doubles are reduced by sum, minimum or maximum. Each element by itself; infinities count; -0 is
 * below +0 and the sum of one -0 keeps its sign; a NaN anywhere makes the element NaN, always with
 * the same bits. */
static void vectors_of_doubles_are_reduced(struct fixture *f)
{
    const double mine[3][5] = {{0.1, -0.0, INFINITY, (double)NAN, -0.0},
                               {0.2, 0.0, -1.5, 1, -0.0},
                               {0.3, -0.0, -INFINITY, -(double)NAN, -0.0}};
    const enum mst_reduce kinds[] = {MST_REDUCE_SUM_DOUBLE, MST_REDUCE_MIN_DOUBLE,
                                     MST_REDUCE_MAX_DOUBLE};
    const uint64_t no_number = UINT64_C(0x7ff8000000000000);
    const uint64_t results[3][5] = {
        {bits_of(0.1 + 0.2 + 0.3), bits_of(0.0), no_number, no_number, bits_of(-0.0)},
        {bits_of(0.1), bits_of(-0.0), bits_of(-INFINITY), no_number, bits_of(-0.0)},
        {bits_of(0.3), bits_of(0.0), bits_of(INFINITY), no_number, bits_of(-0.0)}};
    const uint32_t order[] = {2, 0, 1};
    struct client ranks[3];

    fixture_seal(f, ranks, 3);
    for (uint64_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < 3; i++) {
            fixture_send(f, &ranks[order[i]], round_doubles(kinds[k], k, mine[order[i]], 5));
        }
        for (uint32_t i = 0; i < 3; i++) {
            EXPECT_INT(f, round_last(f, &ranks[i])->status, MUSTER_OK);
            EXPECT_INT(f, round_last(f, &ranks[i])->value.size, 40);
            for (size_t at = 0; at < 5; at++) {
                EXPECT_INT(f, bits_at(round_last(f, &ranks[i]), at), results[k][at]);
            }
        }
    }
}

/* Words of 64 bits are combined by exclusive or. Each element by itself. */
static void words_are_combined_by_exclusive_or(struct fixture *f)
{
    const int64_t mine[3][2] = {{0x0f, -1}, {0x35, 5}, {INT64_MIN, 3}};
    struct client ranks[3];

    fixture_seal(f, ranks, 3);
    for (int i = 0; i < 3; i++) {
        fixture_send(f, &ranks[i], round_vector(MST_REDUCE_XOR, mine[i], 2));
    }
    round_expect_all(f, ranks, 3, MUSTER_OK);
    EXPECT_INT(f, round_number_at(round_last(f, &ranks[1]), 0), 0x0f ^ 0x35 ^ INT64_MIN);
    EXPECT_INT(f, round_number_at(round_last(f, &ranks[1]), 1), -1 ^ 5 ^ 3);
}

/* A sum of doubles goes on without a lost rank, and without a missing one at its deadline. It is
 * the sum of the ranks that arrived, in their order. */
static void a_sum_of_doubles_goes_on_without_lost_ranks(struct fixture *f)
{
    const double mine[SIZE] = {0.1, 1e16, 0.2, -1e16};
    struct client ranks[SIZE];
    struct mst_request request;

    fixture_seal(f, ranks, SIZE);
    for (uint32_t i = SIZE; i-- > 1;) { /* #0 comes last, and #1 is lost after its arrival */
        request = round_doubles(MST_REDUCE_SUM_DOUBLE, 0, &mine[i], 1);
        request.round.on_loss = MST_PROCEED;
        fixture_send(f, &ranks[i], request);
    }
    round_lose(f, &ranks[2], &ranks[1]);
    request = round_doubles(MST_REDUCE_SUM_DOUBLE, 0, &mine[0], 1);
    request.round.on_loss = MST_PROCEED;
    fixture_send(f, &ranks[0], request);
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_OK);
    EXPECT_INT(f, round_last(f, &ranks[0])->detail.lost, 1);
    EXPECT_INT(f, bits_at(round_last(f, &ranks[3]), 0), bits_of(0.1 + 1e16 + 0.2 + -1e16));
    for (uint32_t i = 3; i >= 2; i--) {
        request = round_doubles(MST_REDUCE_SUM_DOUBLE, 1, &mine[i], 1);
        request.round.on_loss = MST_PROCEED;
        request.round.deadline_ms = 100;
        fixture_send(f, &ranks[i], request);
    }
    fixture_pass(f, 101);
    EXPECT_INT(f, round_last(f, &ranks[2])->status, MUSTER_ETIMEDOUT);
    EXPECT_INT(f, bits_at(round_last(f, &ranks[2]), 0), bits_of(0.2 + -1e16));
}

static struct mst_request sending(uint32_t root, const char *text)
{
    struct mst_request request = round_reducing(MST_REDUCE_BROADCAST, text, strlen(text));

    request.round.root = root;
    return request;
}

/* One rank's bytes go to all. Every rank receives them once all have called, the root first or
 * last; nothing can be as long as no byte. */
static void a_broadcast_brings_the_bytes_of_the_root(struct fixture *f)
{
    struct client ranks[3];
    struct mst_request request;

    fixture_seal(f, ranks, 3);
    fixture_send(f, &ranks[0], sending(1, ""));
    fixture_send(f, &ranks[1], sending(1, "of the root"));
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_MORE);
    fixture_send(f, &ranks[2], sending(1, ""));
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT_INT(f, round_last(f, &ranks[i])->status, MUSTER_OK);
        EXPECT_TEXT(f, round_last(f, &ranks[i])->value, "of the root");
        EXPECT_INT(f, round_last(f, &ranks[i])->item_count, 0);
    }
    request = sending(0, "");
    request.round.number = 1;
    round_send_all(f, ranks, 3, request);
    round_expect_all(f, ranks, 3, MUSTER_OK);
    EXPECT_INT(f, round_last(f, &ranks[1])->value.size, 0);
}

/* A rank names another root than the first rank did, or is not the root and brings bytes, or the
 * root is no participant, or the round would go on without it. It is refused alone. */
static void a_broadcast_has_one_root(struct fixture *f)
{
    const uint32_t others[] = {1, 2};
    struct client ranks[3];
    struct mst_request request;

    fixture_seal(f, ranks, 3);
    EXPECT_INT(f, fixture_call(f, &ranks[1], sending(0, "x"))->status, MUSTER_EINVAL);
    EXPECT_INT(f, fixture_call(f, &ranks[1], sending(3, ""))->status, MUSTER_EINVAL);
    request = sending(0, "");
    request.round.participants = others;
    request.round.participant_count = 2;
    EXPECT_INT(f, fixture_call(f, &ranks[1], request)->status, MUSTER_EINVAL);
    request = sending(0, "x");
    request.round.on_loss = MST_PROCEED;
    EXPECT_INT(f, fixture_call(f, &ranks[0], request)->status, MUSTER_EINVAL);
    fixture_send(f, &ranks[0], sending(0, "x"));
    EXPECT_INT(f, fixture_call(f, &ranks[1], sending(1, ""))->status, MUSTER_EINVAL);
    fixture_send(f, &ranks[1], sending(0, ""));
    fixture_send(f, &ranks[2], sending(0, ""));
    EXPECT_INT(f, round_last(f, &ranks[0])->status, MUSTER_OK);
    EXPECT_TEXT(f, round_last(f, &ranks[2])->value, "x");
}

/* The root is lost before it calls. The broadcast fails for all at once (ELOST). */
static void a_broadcast_fails_without_its_root(struct fixture *f)
{
    struct client ranks[3];

    fixture_seal(f, ranks, 3);
    fixture_send(f, &ranks[1], sending(0, ""));
    round_lose(f, &ranks[2], &ranks[0]);
    EXPECT_INT(f, round_last(f, &ranks[1])->status, MUSTER_ELOST);
    EXPECT_INT(f, round_last(f, &ranks[1])->value.size, 0);
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(vectors_of_doubles_are_reduced)                                                              \
    X(words_are_combined_by_exclusive_or)                                                          \
    X(a_sum_of_doubles_goes_on_without_lost_ranks)                                                 \
    X(a_broadcast_brings_the_bytes_of_the_root)                                                    \
    X(a_broadcast_has_one_root)                                                                    \
    X(a_broadcast_fails_without_its_root)

SCENARIOS(SCENARIO)

static void test_many_orders(void **state)
{
    (void)state;
    fixture_run_once(a_sum_of_doubles_has_the_same_bits_in_any_order_of_arrival);
}

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {SCENARIOS(ROW) cmocka_unit_test(test_many_orders)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
