/* SPDX-License-Identifier: Apache-2.0 */
/* Moments and spans: no sum turns over, no wait ends early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"

static void sums_end_at_never(void **state)
{
    (void)state;
    assert_true(mst_after_ns(5, 7) == 12);
    assert_true(mst_after_ns(5, NEVER - 5) == NEVER);
    assert_true(mst_after_ns(5, NEVER - 4) == NEVER);
    assert_true(mst_after_ns(NEVER, 1) == NEVER);
    assert_true(mst_after_ms(5, 7) == 7000005);
    assert_true(mst_after_ms(0, NEVER / NS_PER_MS) == NEVER / NS_PER_MS * NS_PER_MS);
    assert_true(mst_after_ms(0, NEVER / NS_PER_MS + 1) == NEVER);
    assert_true(mst_after_ms(NEVER - NS_PER_MS, 2) == NEVER);
    assert_true(mst_after_ms(NEVER, 0) == NEVER);
}

static void waits_round_up(void **state)
{
    (void)state;
    assert_true(mst_ms_up(0) == 0);
    assert_true(mst_ms_up(1) == 1);
    assert_true(mst_ms_up(NS_PER_MS) == 1);
    assert_true(mst_ms_up(NS_PER_MS + 1) == 2);
    assert_true(mst_ms_up(NEVER) == NEVER / NS_PER_MS + 1);
    assert_true(mst_ms_until(10, 10) == 0);
    assert_true(mst_ms_until(9, 10) == 0);
    assert_true(mst_ms_until(11, 10) == 1);
    assert_true(mst_ms_until(10 + NS_PER_S, 10) == 1000);
}

static void the_sooner_and_the_later(void **state)
{
    (void)state;
    assert_true(mst_sooner(3, NEVER) == 3 && mst_sooner(NEVER, 3) == 3);
    assert_true(mst_later(3, NEVER) == NEVER && mst_later(4, 3) == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_end_at_never),
        cmocka_unit_test(waits_round_up),
        cmocka_unit_test(the_sooner_and_the_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
