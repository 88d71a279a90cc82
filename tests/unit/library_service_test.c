/* SPDX-License-Identifier: Apache-2.0 */
/* The service of a program that is alone: it stops, is killed, or stands still when it is to end.
 *
 * behaviour: library / Threads and time */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "net/socket_dir.h"

static pid_t service_of(const muster_client *client)
{
    pid_t pid = mst_socket_alive(client->addr + strlen("unix:"));

    assert_true(pid > 1);
    return pid;
}

/* The service stands still. Calls time out and nothing is lost: when it goes on, each write was
 * applied once or never. */
static void a_stopped_service_costs_time_only(void **state)
{
    muster_client *client = library_alone();
    pid_t service = service_of(client);
    struct muster_error err;
    int64_t sum = 0;

    (void)state;
    assert_int_equal(kill(service, SIGSTOP), 0);
    assert_int_equal(muster_key_add(client, "n", 1, NULL, 500, NULL, &err), MUSTER_ETIMEDOUT);
    assert_string_equal(err.text, "add to 'n': timed out; the service does not answer");
    assert_int_equal(muster_key_add(client, "n", 1, NULL, 500, NULL, &err), MUSTER_ETIMEDOUT);
    assert_int_equal(kill(service, SIGCONT), 0);
    library_ok(muster_key_add(client, "n", 1, NULL, LIMIT_MS, &sum, &err), &err);
    assert_in_range(sum, 1, 3); /* each of those that timed out was applied once, or never */
    muster_client_close(client);
}

/* The service of a job of one is killed. Calls that time out say why there was no answer, and
 * closing does not wait for it. */
static void a_killed_service_is_told(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    /* It was this program's own, and nobody starts it again: not even a patient call waits. */
    assert_int_equal(kill(service_of(client), SIGKILL), 0);
    assert_int_equal(muster_key_put(client, "n", bytes_of("x"), NULL, LIMIT_MS, NULL, &err),
                     MUSTER_EUNREACHABLE);
    assert_non_null(strstr(err.text, "put 'n': the service at unix:"));
    assert_non_null(strstr(err.text, ", which this process had started, has ended"));
    assert_int_equal(muster_key_wait(client, (const char *[]){"n"}, 1, NULL, LIMIT_MS, &err),
                     MUSTER_EUNREACHABLE);
    assert_non_null(strstr(err.text, "wait for 'n': the service at unix:"));
    assert_int_equal(unlink(client->addr + strlen("unix:")), 0);
    muster_client_close(client); /* does not wait for who is gone */
}

/* The service of a job of one stands still, so that it cannot remove its socket. The socket goes
 * all the same. [Opening and closing] */
static void a_service_that_stands_still_leaves_no_socket(void **state)
{
    muster_client *client = library_alone();
    char *path = strdup(client->addr + strlen("unix:"));

    (void)state;
    assert_non_null(path);
    assert_int_equal(kill(service_of(client), SIGSTOP), 0);
    muster_client_close(client);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(errno, ENOENT);
    free(path);
}

static volatile sig_atomic_t rings;
static volatile sig_atomic_t stuck;

enum { RING_US = 20000, RINGS_MAX = 1500 };

static void on_ring(int number)
{
    (void)number;
    if (++rings == RINGS_MAX) { /* half a minute: let the test end, to fail */
        (void)kill(stuck, SIGCONT);
    }
}

/* The service of a job of one stands still as the program closes its client. It is killed after
 * two seconds, also where a profiler's timer interrupts each wait. */
static void close_leaves_a_service_that_stands_still(void **state)
{
    const struct itimerval often = {.it_interval.tv_usec = RING_US, .it_value.tv_usec = RING_US};
    const struct itimerval never = {.it_interval.tv_usec = 0};
    const struct sigaction action = {.sa_handler = on_ring};
    struct sigaction before;
    muster_client *client = library_alone();
    char *path = strdup(client->addr + strlen("unix:"));

    (void)state;
    assert_non_null(path);
    rings = 0;
    stuck = service_of(client);
    assert_int_equal(kill(stuck, SIGSTOP), 0);
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    muster_client_close(client);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_in_range(rings, 1, RINGS_MAX - 1);
    assert_int_equal(kill(stuck, 0), -1);
    (void)signal(SIGALRM, SIG_IGN); /* one may be on its way */
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    (void)unlink(path);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_service_costs_time_only),
        cmocka_unit_test(a_killed_service_is_told),
        cmocka_unit_test(a_service_that_stands_still_leaves_no_socket),
        cmocka_unit_test(close_leaves_a_service_that_stands_still),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
