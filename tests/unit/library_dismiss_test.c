/* SPDX-License-Identifier: Apache-2.0 */
/* A program dismisses its cluster: a real service, and a worker that is the test itself.
 *
 * behaviour: cluster / The end of a cluster */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_fake.h"
#include "muster/key.h"

static muster_cluster *open_cluster(muster_client *client)
{
    struct muster_error err = {0};
    muster_cluster *cluster = NULL;

    library_ok(muster_cluster_open(&cluster, client, NULL, LIMIT_MS, &err), &err);
    return cluster;
}

static const char *const record_key = "muster/cluster/default/dismissed";

static void dismiss_times_out(muster_cluster *cluster, const char *words)
{
    struct muster_error err = {0};

    assert_int_equal(muster_cluster_dismiss(cluster, 1, &err), MUSTER_ETIMEDOUT);
    if (!strstr(err.text, words)) {
        fail_msg("'%s' does not say '%s'", err.text, words);
    }
}

static void is_dismissed(muster_cluster *cluster)
{
    struct muster_error err = {0};

    assert_true(muster_cluster_dismissed(cluster));
    assert_int_equal(muster_cluster_schedule(cluster, "f", NULL, 0, NULL, 0, NULL, &err),
                     MUSTER_ECANCELLED);
    assert_string_equal(err.text, "schedule 'f': cluster 'default' was dismissed, and its workers "
                                  "have ended: end too (muster_cluster_dismissed), or use another "
                                  "cluster or job");
}

/* A program dismisses its cluster, and its time is short. The line says what is waited for:
 * closures, then a worker by its place and node. Then all have ended, and the record is in the job;
 * the next coordinator finds it, is refused its closures, and ends as well.
 */
static void test_a_dismissal_says_what_it_waits_for_and_stays_in_the_job(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client);
    struct fake_worker *worker = fake_worker(cluster, 1);
    struct mst_attempt attempt;
    muster_value *record = NULL;
    struct muster_error err = {0};
    struct muster_view view;
    char who[32];

    (void)state;
    library_ok(muster_cluster_schedule(cluster, "echo", NULL, 0, NULL, LIMIT_MS, NULL, &err), &err);
    attempt = fake_expect(worker, MST_CLUSTER_RUN)->attempt;
    assert_false(muster_cluster_dismissed(cluster));
    dismiss_times_out(cluster, "closures queued: 0, running: 1; wait longer, or cancel them first");
    assert_int_equal(muster_key_get(client, record_key, NULL, 0, &record, NULL), MUSTER_ENOTFOUND);
    fake_answer(worker, attempt, "done");
    (void)fake_expect(worker, MST_CLUSTER_DRAIN);
    muster_client_view(worker->client, &view);
    (void)snprintf(who, sizeof(who), "worker 0 (#%u, node ", view.index);
    dismiss_times_out(cluster, who);
    library_ok(muster_key_get(client, record_key, NULL, 0, &record, &err), &err);
    muster_value_free(record);
    fake_leave(worker);
    library_ok(muster_cluster_dismiss(cluster, LIMIT_MS, &err), &err);
    is_dismissed(cluster);
    muster_cluster_close(cluster);
    cluster = open_cluster(client);
    is_dismissed(cluster);
    library_ok(muster_cluster_dismiss(cluster, LIMIT_MS, &err), &err);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

/* A program dismisses a cluster without workers, or one that it has drained. Both end at once, and
 * the record is written. */
static void test_a_dismissal_without_workers_ends_at_once(void **state)
{
    (void)state;
    for (int drained = 0; drained < 2; drained++) {
        muster_client *client = library_alone();
        muster_cluster *cluster = open_cluster(client);
        struct muster_error err = {0};

        if (drained) {
            library_ok(muster_cluster_drain(cluster, LIMIT_MS, &err), &err);
        }
        library_ok(muster_cluster_dismiss(cluster, LIMIT_MS, &err), &err);
        is_dismissed(cluster);
        muster_cluster_close(cluster);
        muster_client_close(client);
    }
}

/* A job may have no more keys, and a program dismisses its cluster. The dismissal fails with the
 * key that cannot be written, and no worker ends; with room it succeeds. */
static void test_a_dismissal_that_cannot_be_recorded_dismisses_nobody(void **state)
{
    struct muster_error err = {0};
    struct fake_worker *worker;
    muster_cluster *cluster;
    muster_client *client;
    char name[32];
    int keys = 0;

    (void)state;
    (void)setenv("MUSTER_KEYS_MAX", "16", 1);
    client = library_alone();
    (void)unsetenv("MUSTER_KEYS_MAX");
    cluster = open_cluster(client);
    worker = fake_worker(cluster, 1);
    do {
        (void)snprintf(name, sizeof(name), "filler-%d", keys++);
    } while (keys < 20 && muster_key_put(client, name, (struct muster_slice){"", 0}, NULL, LIMIT_MS,
                                         NULL, &err) == MUSTER_OK);
    assert_int_equal(err.status, MUSTER_ELIMIT);
    assert_int_equal(muster_cluster_dismiss(cluster, LIMIT_MS, &err), MUSTER_ELIMIT);
    assert_string_equal(err.text,
                        "dismiss: the record of it, key 'muster/cluster/default/dismissed', cannot "
                        "be written: a limit is reached; no worker was dismissed");
    assert_false(muster_cluster_dismissed(cluster));
    for (int i = 0; i < 3; i++) { /* the status of the cluster has a key as well */
        (void)snprintf(name, sizeof(name), "filler-%d", i);
        library_ok(muster_key_delete(client, name, NULL, LIMIT_MS, &err), &err);
    }
    dismiss_times_out(cluster, "");
    (void)fake_expect(worker, MST_CLUSTER_DRAIN);
    fake_leave(worker);
    library_ok(muster_cluster_dismiss(cluster, LIMIT_MS, &err), &err);
    is_dismissed(cluster);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dismissal_says_what_it_waits_for_and_stays_in_the_job),
        cmocka_unit_test(test_a_dismissal_without_workers_ends_at_once),
        cmocka_unit_test(test_a_dismissal_that_cannot_be_recorded_dismisses_nobody),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
