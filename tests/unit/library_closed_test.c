/* SPDX-License-Identifier: Apache-2.0 */
/* A program that closes what is not its own, a coordinator's descriptors. For those of a client see
 * tests/process/test_descriptors.py, for those of a worker library_worker_test.c.
 *
 * behaviour: library / Opening and closing */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "muster/cluster.h"
#include "muster/key.h"
#include "tasks/shell/coordinator/cluster.h"

/* In a process of its own, with a closure that no worker ever takes. */
static muster_cluster *open_at(const char *addr, muster_client **client)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_cluster *cluster = NULL;

    options.addr = addr;
    options.role = MUSTER_ROLE_OBSERVER;
    if (muster_client_open(client, &options, LIMIT_MS, NULL) != MUSTER_OK ||
        muster_cluster_open(&cluster, *client, NULL, LIMIT_MS, NULL) != MUSTER_OK ||
        muster_cluster_schedule(cluster, "f", NULL, 0, NULL, -1, NULL, NULL) != MUSTER_OK) {
        return NULL;
    }
    (void)unlink(cluster->listener.path); /* else the next coordinator does */
    return cluster;
}

static int close_the_epoll(const char *addr)
{
    muster_client *client = NULL;
    muster_cluster *cluster = open_at(addr, &client);
    muster_status status;

    if (!cluster) {
        return 1;
    }
    (void)close(cluster->epoll);
    /* It wakes the thread, which may have noticed before. */
    status = muster_cluster_schedule(cluster, "f", NULL, 0, NULL, -1, NULL, NULL);
    if (status != MUSTER_OK && status != MUSTER_EINTERNAL) {
        return 2;
    }
    return muster_cluster_join(cluster, -1, NULL) == MUSTER_EINTERNAL ? 0 : 3;
}

/* A program closes all descriptors while it has a coordinator, or in a function of a worker. The
 * calls of the coordinator end with EINTERNAL, and `muster_worker_serve` with EUNREACHABLE; the
 * log says why. */
static void test_a_coordinator_whose_descriptors_are_closed_ends_its_calls(void **state)
{
    (void)state;
    library_in_a_child(close_the_epoll);
}

static int close_all(const char *addr)
{
    muster_client *client = NULL;
    muster_cluster *cluster = open_at(addr, &client);

    if (!cluster || muster_cluster_fd(cluster) < 0) {
        return 1;
    }
    closefrom(STDERR_FILENO + 1);
    if (muster_key_put(client, "k", bytes_of("x"), NULL, -1, NULL, NULL) != MUSTER_EUNREACHABLE) {
        return 2;
    }
    library_occupy();
    if (muster_cluster_join(cluster, -1, NULL) != MUSTER_EINTERNAL) {
        return 3;
    }
    muster_client_close(client);
    muster_cluster_close(cluster);
    return library_is_untouched() ? 0 : 4;
}

/* A program closes all descriptors of a coordinator, whose thread sleeps on, and opens others.
 * The numbers it had are neither written to nor closed. */
static void test_nothing_is_done_with_the_numbers_it_had(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it knows the parent's threads by numbers that those of the child get again */
#endif
    library_in_a_child(close_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_coordinator_whose_descriptors_are_closed_ends_its_calls),
        cmocka_unit_test(test_nothing_is_done_with_the_numbers_it_had),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
