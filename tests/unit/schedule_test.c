/* SPDX-License-Identifier: Apache-2.0 */
/* When `muster chaos random` strikes: as its seed says, and as often as it was told in the mean.
 *
 * behaviour: program / muster chaos */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/schedule.h"

enum { STRIKES = 20000 };

static struct mst_schedule schedule(uint64_t seed, const char *rate, const char *kinds)
{
    struct mst_schedule new = {.prng = {.state = seed}};

    assert_true(mst_schedule_parse_rate(&new, rate));
    assert_true(mst_schedule_parse_kinds(&new, kinds));
    return new;
}

/* The same seed gives the same schedule of `chaos random`. */
static void the_same_seed_gives_the_same_schedule(void **state)
{
    struct mst_schedule one = schedule(7, "6/min", "kill,freeze,cut");
    struct mst_schedule same = schedule(7, "6/min", "kill,freeze,cut");
    struct mst_schedule other = schedule(8, "6/min", "kill,freeze,cut");
    unsigned differ = 0;

    (void)state;
    for (unsigned i = 0; i < STRIKES; i++) {
        struct mst_strike_plan a = mst_schedule_next(&one), b = mst_schedule_next(&same),
                               c = mst_schedule_next(&other);

        assert_int_equal(a.gap_ms, b.gap_ms);
        assert_int_equal(a.kind, b.kind);
        assert_int_equal(a.pick, b.pick);
        differ += a.gap_ms != c.gap_ms && a.pick != c.pick;
    }
    assert_true(differ > STRIKES * 9 / 10);
}

/* The schedule of a seed stays what it is, so a run can be repeated by its seed with another
 * version of the program. */
static void the_schedule_of_a_seed_stays_what_it_is(void **state)
{
    static const struct mst_strike_plan expected[] = {
        {.gap_ms = 15030, .kind = MST_STRIKE_KILL, .pick = UINT64_C(16616101746815609346)},
        {.gap_ms = 7872, .kind = MST_STRIKE_FREEZE, .pick = UINT64_C(4601199455465548305)},
        {.gap_ms = 4951, .kind = MST_STRIKE_KILL, .pick = UINT64_C(2476628477891077985)},
        {.gap_ms = 14870, .kind = MST_STRIKE_FREEZE, .pick = UINT64_C(17706551433532105516)},
        {.gap_ms = 10956, .kind = MST_STRIKE_FREEZE, .pick = UINT64_C(15938128224054089190)},
    };
    struct mst_schedule seven = schedule(7, "6/min", "kill,freeze,cut");

    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct mst_strike_plan plan = mst_schedule_next(&seven);

        assert_int_equal(plan.gap_ms, expected[i].gap_ms);
        assert_int_equal(plan.kind, expected[i].kind);
        assert_int_equal(plan.pick, expected[i].pick);
    }
}

/* The rate of `chaos random` holds in the mean. */
static void the_rate_holds_in_the_mean(void **state)
{
    static const struct {
        const char *rate;
        uint64_t mean_ms;
    } rates[] = {
        {"6/min", 10000}, {"60", 1000}, {"2.5/s", 400}, {"10/h", 360000}, {"0.5/m", 120000}};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct mst_schedule one = schedule(i, rates[i].rate, "kill,freeze,cut");
        uint64_t sum = 0, of_kind[MST_STRIKE_KINDS] = {0};

        for (unsigned k = 0; k < STRIKES; k++) {
            struct mst_strike_plan plan = mst_schedule_next(&one);

            assert_true(plan.gap_ms <= 2 * rates[i].mean_ms);
            sum += plan.gap_ms;
            of_kind[plan.kind]++;
        }
        assert_in_range(sum / STRIKES, rates[i].mean_ms * 98 / 100, rates[i].mean_ms * 102 / 100);
        for (unsigned kind = 0; kind < MST_STRIKE_KINDS; kind++) {
            assert_in_range(of_kind[kind], STRIKES * 30 / 100, STRIKES * 37 / 100);
        }
    }
}

/* Only the kinds that were named happen in `chaos random`. */
static void only_what_was_named_happens(void **state)
{
    struct mst_schedule all = schedule(3, "60", "kill,freeze,cut");
    struct mst_schedule some = schedule(3, "60", "cut,kill");

    (void)state;
    for (unsigned i = 0; i < STRIKES; i++) {
        struct mst_strike_plan plan = mst_schedule_next(&some);

        assert_true(plan.kind == MST_STRIKE_CUT || plan.kind == MST_STRIKE_KILL);
        assert_int_equal(plan.gap_ms, mst_schedule_next(&all).gap_ms);
    }
}

/* Words of `chaos random` make no sense. They are refused. */
static void what_makes_no_sense_is_refused(void **state)
{
    static const char *const rates[] = {"",           "x",        "0",      "-1",    "6/day",
                                        "6 /min",     "/min",     ".",      "1.2.3", "101/s",
                                        "1000000",    "0.01/h",   "6/min ", "1e3",   "0.0",
                                        "9999999999", "1.1234567"};
    static const char *const kinds[] = {"",         "kill,", ",kill",   "kill,kill",
                                        "kill,hug", "Kill",  "kill;cut"};
    struct mst_schedule any = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        assert_false(mst_schedule_parse_rate(&any, rates[i]));
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_false(mst_schedule_parse_kinds(&any, kinds[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_schedule),
        cmocka_unit_test(the_schedule_of_a_seed_stays_what_it_is),
        cmocka_unit_test(the_rate_holds_in_the_mean),
        cmocka_unit_test(only_what_was_named_happens),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
