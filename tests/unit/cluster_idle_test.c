/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's machine with many workers and nothing to do.
 *
 * behaviour: cluster */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "tasks/coordinator.h"

#define SECOND UINT64_C(1000000000)

enum { WORKERS = 1000 };

static void drain(struct mst_cluster *cluster, uint32_t *sent)
{
    const struct mst_cluster_effect *effect;

    while ((effect = mst_cluster_next(cluster)) != NULL) {
        *sent += effect->type == MST_CLUSTER_SEND;
        mst_cluster_done(cluster, effect);
    }
}

static void greet(struct mst_cluster *cluster, uint32_t index)
{
    const struct mst_function function = {.name = mst_slice_text("f"), .version = 1};
    const struct mst_cluster_message hello = {.type = MST_CLUSTER_HELLO,
                                              .version = MST_CLUSTER_VERSION,
                                              .cluster = mst_slice_text("jobs"),
                                              .index = index,
                                              .incarnation = 1,
                                              .pid = index + 1,
                                              .host = mst_slice_text("node"),
                                              .slots = 1,
                                              .functions = &function,
                                              .function_count = 1,
                                              .term = 7};

    assert_int_equal(mst_cluster_member(cluster, 1, index, 1, MST_WORKER_PRESENT,
                                        (struct mst_worker_end){0}, mst_slice_text("node")),
                     MUSTER_OK);
    mst_cluster_message(cluster, 1, index + 1, &hello);
}

/* A thousand workers are idle. They renew their leases and send nothing to the coordinator;
 * after their welcome nothing is due. */
static void test_a_thousand_idle_workers_cost_nothing_88(void **state)
{
    const struct mst_cluster_config config = {.name = mst_slice_text("jobs"),
                                              .term = 7,
                                              .prefetch = 1,
                                              .recovery_max_ns = 3600 * SECOND,
                                              .silent_ns = 2 * SECOND,
                                              .cancel_grace_ns = 5 * SECOND,
                                              .series_grace_ns = 30 * SECOND,
                                              .unknown_grace_ns = 30 * SECOND,
                                              .backoff_ns = SECOND,
                                              .backoff_max_ns = 60 * SECOND,
                                              .poison = 3,
                                              .transient_limit = 3,
                                              .transient_window_ns = 60 * SECOND,
                                              .seed = 1};
    struct failing_mem mem;
    struct mst_cluster *cluster = NULL;
    uint32_t sent = 0;

    (void)state;
    failing_mem_init(&mem, 0);
    assert_int_equal(mst_cluster_new(&cluster, 1, &config, &mem.mem), MUSTER_OK);
    for (uint32_t i = 0; i < WORKERS; i++) {
        greet(cluster, i);
    }
    drain(cluster, &sent);
    assert_int_equal(sent, WORKERS);
    assert_true(mst_cluster_deadline_ns(cluster) == UINT64_MAX);
    mst_cluster_tick(cluster, 3600 * SECOND);
    drain(cluster, &sent);
    assert_int_equal(sent, WORKERS);
    mst_cluster_free(cluster);
    assert_int_equal(mem.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thousand_idle_workers_cost_nothing_88)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
