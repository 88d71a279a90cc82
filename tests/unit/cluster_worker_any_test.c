/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's machine with any allocation failing, and fed with anything in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "cluster_shell.h"

static void end_builds(const struct mst_failure *failure)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (shell.built[slot] != 0) {
            shell_built(slot, failure);
        }
    }
}

static void end_runs(const struct mst_failure *failure)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (shell.run[slot] != 0) {
            mst_worker_log(shell.machine, shell.now_ns, slot, mst_slice_text("x"));
            shell_finish_with(slot, failure, "result");
        }
    }
}

/* Everything once. What a failed allocation may cost: the connection, or the content of a result.
 */
static bool play_all(size_t fail_at)
{
    struct mst_failure failure = {.origin = MST_ORIGIN_FUNCTION, .text = mst_slice_text("bad")};
    uint64_t need = 40;

    if (!shell_open(&shell_config, fail_at)) {
        assert_int_equal(shell.failing.live, 0);
        return true;
    }
    shell_coordinator(TERM);
    for (unsigned turn = 0; turn < 4; turn++) {
        if (shell.connecting) {
            shell_link_up(TERM);
        }
        shell_value(MST_CLUSTER_BUILD, 40, F);
        shell_run_with(10 * turn + 1, F, &need);
        shell_run_with(10 * turn + 2, F, NULL);
        end_builds(turn == 1 ? &failure : NULL);
        end_runs(turn == 2 ? &failure : NULL);
        if (turn == 1) {
            shell_link_down();
        }
        shell_pass(2000);
    }
    mst_worker_drain(shell.machine, shell.now_ns);
    shell_drain();
    end_builds(NULL);
    end_runs(NULL);
    shell_pass(5000);
    assert_int_equal(shell.ends, 1);
    shell_close();
    return shell.failing.failed;
}

static void any_allocation_may_fail(void **state)
{
    size_t fail_at = 1;

    (void)state;
    while (play_all(fail_at)) {
        fail_at++;
    }
    assert_true(fail_at > 20);
}

/* ---- anything in any order ---- */

static struct mst_prng prng;

static uint64_t below(uint64_t bound)
{
    return mst_prng_below(&prng, bound);
}

static void say_anything(void)
{
    uint64_t needs[2] = {1 + below(4), 1 + below(4)};
    static const enum mst_cluster_message_type types[] = {
        MST_CLUSTER_RUN,    MST_CLUSTER_RUN,       MST_CLUSTER_RUN,   MST_CLUSTER_RUN,
        MST_CLUSTER_CANCEL, MST_CLUSTER_TAKE_BACK, MST_CLUSTER_BUILD, MST_CLUSTER_DROP};
    struct mst_cluster_message message = {
        .type = types[below(8)],
        .term = TERM + below(3),
        .attempt = {.closure = 1 + below(60), .attempt = 1 + (uint32_t)below(3)},
        .function = (uint32_t)below(4),
        .left_ms = below(2) ? below(400) : 0,
        .run_limit_ms = below(2) ? below(400) : 0,
        .needs = needs,
        .need_count = (uint32_t)below(3),
        .value = 1 + below(4),
    };

    if (below(50) == 0) {
        message.type = (enum mst_cluster_message_type)(1 + below(6));
    } else if (below(100) == 0) {
        message.type = (enum mst_cluster_message_type)(16 + below(8));
    }
    shell_say(&message);
}

static void end_something(uint32_t slot)
{
    struct mst_failure failure = {.origin = (enum mst_origin)below(8)};

    if (shell.run[slot] != 0) {
        shell_finish_with(slot, below(2) ? &failure : NULL, "x");
    } else if (shell.built[slot] != 0) {
        shell_built(slot, below(2) ? &failure : NULL);
    }
}

static void do_anything(void)
{
    uint32_t slot = (uint32_t)below(SLOTS);

    switch (below(11)) {
    case 0:
        if (below(20) == 0) {
            shell_coordinator(below(4) == 0 ? 0 : shell.machine->term - 1 + below(3));
        }
        break;
    case 1:
        if (below(5) == 0) {
            shell_link_down();
        }
        break;
    case 2:
        if (shell.connecting) {
            shell_link_up(below(8) == 0 ? TERM : shell.machine->term);
        }
        break;
    case 3:
        end_something(slot);
        break;
    case 4:
        shell_pass(shell.connected ? below(100) : 1000);
        break;
    case 5:
        mst_worker_value_lost(shell.machine, shell.now_ns, 1 + below(4));
        shell_drain();
        break;
    case 6:
        mst_worker_progress(shell.machine, shell.now_ns, slot, 0.1, mst_slice_text("p"));
        shell_drain();
        break;
    case 7:
        if (below(500) == 0) {
            mst_worker_drain(shell.machine, shell.now_ns);
            shell_drain();
        }
        break;
    default:
        say_anything();
        break;
    }
}

static unsigned all_starts, all_builds;

static uint64_t play(uint64_t seed)
{
    struct mst_worker_config other = shell_config;
    uint64_t digest;

    prng = (struct mst_prng){.state = seed};
    other.results_max = below(2) ? 2000 : 1 << 20;
    assert_true(shell_open(&other, 0));
    shell_coordinator(TERM);
    for (unsigned i = 0; i < 300; i++) {
        do_anything();
    }
    mst_worker_ended(shell.machine, shell.now_ns, MUSTER_EUNREACHABLE);
    shell_drain();
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (shell.run[slot] != 0) {
            shell_finish(slot);
        } else if (shell.built[slot] != 0) {
            shell_built(slot, NULL);
        }
    }
    assert_int_equal(shell.ends, 1);
    all_starts += shell.starts;
    all_builds += shell.builds;
    digest = mst_worker_digest(shell.machine);
    shell_close();
    return digest;
}

static void anything_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        uint64_t digest = play(seed);

        if (seed % 50 == 0) {
            assert_true(digest == play(seed));
        }
    }
    assert_true(all_starts > 10000);
    assert_true(all_builds > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(anything_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
