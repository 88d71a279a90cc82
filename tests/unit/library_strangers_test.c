/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to a coordinator that are no worker's yet: what they cost has a limit.
 *
 * behaviour: cluster / A coordinator and its program */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster_fake.h"
#include "tasks/shell/coordinator/cluster.h"

static muster_cluster *open_cluster(muster_client *client)
{
    struct muster_error err = {0};
    muster_cluster *cluster = NULL;

    library_ok(muster_cluster_open(&cluster, client, NULL, LIMIT_MS, &err), &err);
    return cluster;
}

struct lines {
    pthread_mutex_t lock;
    unsigned warnings;
    char text[8192];
};

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    struct lines *lines = ctx;
    size_t have;

    (void)pthread_mutex_lock(&lines->lock);
    lines->warnings += level == MUSTER_LEVEL_WARN;
    have = strlen(lines->text);
    (void)snprintf(lines->text + have, sizeof(lines->text) - have, "%s\n", line);
    (void)pthread_mutex_unlock(&lines->lock);
}

static bool has_line(struct lines *lines, const char *part)
{
    bool has;

    (void)pthread_mutex_lock(&lines->lock);
    has = strstr(lines->text, part) != NULL;
    (void)pthread_mutex_unlock(&lines->lock);
    return has;
}

static void wait_for_line(struct lines *lines, const char *part)
{
    while (!has_line(lines, part)) {
        (void)sched_yield();
    }
}

static muster_client *open_logged(struct lines *lines)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    (void)pthread_mutex_init(&lines->lock, NULL);
    lines->text[0] = '\0';
    lines->warnings = 0;
    options.log = on_log;
    options.log_ctx = lines;
    return library_open(&options);
}

/* A connection that is no member's, with the preamble and the head of a frame on their way. */
static struct fake_worker *stranger(const muster_cluster *cluster, uint32_t frame)
{
    const unsigned char head[4] = {(unsigned char)(frame >> 24), (unsigned char)(frame >> 16),
                                   (unsigned char)(frame >> 8), (unsigned char)frame};
    struct fake_worker *worker = calloc(1, sizeof(*worker));
    uint32_t events;

    assert_non_null(worker);
    fake_connect(worker, cluster);
    mst_cluster_link_flush(worker->link);
    assert_int_equal(write(mst_cluster_link_fd(worker->link, &events), head, sizeof(head)),
                     sizeof(head));
    return worker;
}

static void stranger_leave(struct fake_worker *worker)
{
    mst_cluster_link_free(worker->link);
    free(worker);
}

/* So many bytes of a frame, which is not whole by then. False: it was hung up on. */
static bool stranger_sends(struct fake_worker *worker, size_t size)
{
    static const char zeroes[65536];
    uint32_t events;
    struct pollfd polled = {.fd = mst_cluster_link_fd(worker->link, &events), .events = POLLOUT};

    while (size > 0) {
        ssize_t put = send(polled.fd, zeroes, size < sizeof(zeroes) ? size : sizeof(zeroes),
                           MSG_NOSIGNAL | MSG_DONTWAIT);

        if (put < 0 && errno != EAGAIN) {
            return false;
        }
        size -= put > 0 ? (size_t)put : 0;
        assert_int_equal(poll(&polled, 1, LIMIT_MS), 1);
    }
    return true;
}

static void still_works(muster_cluster *cluster)
{
    struct fake_worker *honest = fake_worker(cluster, 1);
    muster_closure *closure = NULL;
    struct muster_error err = {0};

    library_ok(muster_cluster_schedule(cluster, "echo", NULL, 0, NULL, LIMIT_MS, &closure, &err),
               &err);
    fake_answer(honest, fake_expect(honest, MST_CLUSTER_RUN)->attempt, "works");
    library_ok(muster_closure_wait(closure, LIMIT_MS, &err), &err);
    muster_closure_release(closure);
    fake_leave(honest);
}

/* A connection that is no worker yet sends a huge first message. Before its WELCOME it may send
 * 4 MiB. */
static void test_who_is_no_worker_yet_may_not_send_as_much_as_one(void **state)
{
    struct lines lines;
    muster_client *client = open_logged(&lines);
    muster_cluster *cluster = open_cluster(client);
    struct fake_worker *worker = stranger(cluster, MST_COORD_HELLO_BYTES_MAX + 1);

    (void)state;
    fake_expect_end(worker);
    stranger_leave(worker);
    wait_for_line(&lines, "a frame of 4194305 bytes is over the limit of 4194304");
    still_works(cluster);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

static uint64_t bytes_of_strangers(muster_cluster *cluster)
{
    uint64_t bytes;

    mst_coord_lock(cluster);
    bytes = cluster->stranger_bytes;
    mst_coord_unlock(cluster);
    return bytes;
}

/* Strangers send many large messages. All together may hold 64 MiB, beyond which the one that
 * sent most is closed. */
static void test_strangers_hold_so_much_all_together_and_the_largest_goes(void **state)
{
    enum { MUCH = 65536, REST = 1000 };
    struct lines lines;
    muster_client *client = open_logged(&lines);
    muster_cluster *cluster = open_cluster(client);
    struct fake_worker *large = stranger(cluster, MST_COORD_HELLO_BYTES_MAX);
    struct fake_worker *small;

    (void)state;
    assert_true(stranger_sends(large, MUCH));
    while (bytes_of_strangers(cluster) < MUCH) {
        (void)sched_yield();
    }
    mst_coord_lock(cluster);
    cluster->stranger_bytes += MST_COORD_STRANGERS_BYTES_MAX - MUCH - REST; /* of others, made up */
    mst_coord_unlock(cluster);
    small = stranger(cluster, MST_COORD_HELLO_BYTES_MAX);
    (void)stranger_sends(small, REST);
    fake_expect_end(large);
    wait_for_line(&lines, "sent too much and it most");
    mst_coord_lock(cluster);
    cluster->stranger_bytes -= MST_COORD_STRANGERS_BYTES_MAX - MUCH - REST;
    mst_coord_unlock(cluster);
    still_works(cluster);
    stranger_leave(large);
    stranger_leave(small);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

/* Strangers open many connections. 4,096 are kept, beyond which the oldest is closed. */
static void test_of_too_many_strangers_the_oldest_goes(void **state)
{
    struct lines lines;
    muster_client *client = open_logged(&lines);
    muster_cluster *cluster = open_cluster(client);
    struct fake_worker *oldest = stranger(cluster, 100);
    struct fake_worker *next;

    (void)state;
    for (bool there = false; !there;) {
        (void)sched_yield();
        mst_coord_lock(cluster);
        there = cluster->stranger_count == 1;
        if (there) {
            cluster->stranger_count = MST_COORD_STRANGERS_MAX; /* the others are made up */
        }
        mst_coord_unlock(cluster);
    }
    next = stranger(cluster, 100);
    fake_expect_end(oldest);
    wait_for_line(&lines, "too many connections are no worker's yet and it is the oldest");
    mst_coord_lock(cluster);
    cluster->stranger_count -= MST_COORD_STRANGERS_MAX - 1;
    mst_coord_unlock(cluster);
    still_works(cluster);
    stranger_leave(oldest);
    stranger_leave(next);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

/* A connection says HELLO as a member that the job does not know. It is held, for the news of
 * the member may be on their way; it is closed after 10 s. */
static void test_who_says_that_it_is_a_member_and_is_none_is_closed_in_the_end(void **state)
{
    struct mst_cluster_message hello = {.type = MST_CLUSTER_HELLO,
                                        .version = MST_CLUSTER_VERSION,
                                        .index = 77,
                                        .incarnation = 7,
                                        .host = mst_slice_text("nowhere"),
                                        .slots = 1};
    struct fake_worker *worker = calloc(1, sizeof(*worker));
    struct lines lines;
    muster_client *client = open_logged(&lines);
    muster_cluster *cluster = open_cluster(client);

    (void)state;
    assert_non_null(worker);
    hello.cluster = mst_slice_text(cluster->settings.name);
    hello.term = cluster->term.number;
    fake_connect(worker, cluster);
    fake_send(worker, &hello);
    for (bool there = false; !there;) {
        (void)sched_yield();
        mst_coord_lock(cluster);
        if (cluster->stranger_count == 1) {
            struct mst_coord_peer *peer =
                MST_CONTAINER(cluster->strangers.next, struct mst_coord_peer, stranger);

            there = peer->greeted;
            peer->since_ns = there ? 0 : peer->since_ns; /* its time is up */
            mst_coord_hurry(cluster);
        }
        mst_coord_unlock(cluster);
    }
    fake_expect_end(worker);
    wait_for_line(&lines, "it claims to be a member that the job does not know");
    still_works(cluster);
    stranger_leave(worker);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

static struct mst_cluster_message hello_of(const muster_cluster *cluster)
{
    return (struct mst_cluster_message){.type = MST_CLUSTER_HELLO,
                                        .version = MST_CLUSTER_VERSION,
                                        .cluster = mst_slice_text(cluster->settings.name),
                                        .slots = 1,
                                        .term = cluster->term.number};
}

static void is_too_large(struct fake_worker *worker, const muster_cluster *cluster)
{
    static const unsigned char head[] = {0x7f, 0xff, 0xff, 0xff};
    uint32_t events;

    (void)cluster;
    assert_int_equal(send(mst_cluster_link_fd(worker->link, &events), head, sizeof(head), 0),
                     sizeof(head));
}

static void is_damaged(struct fake_worker *worker, const muster_cluster *cluster)
{
    static const unsigned char frame[] = {0, 0, 0, 2, 0xff, 0xff};
    uint32_t events;

    (void)cluster;
    assert_int_equal(send(mst_cluster_link_fd(worker->link, &events), frame, sizeof(frame), 0),
                     sizeof(frame));
}

static void is_no_hello(struct fake_worker *worker, const muster_cluster *cluster)
{
    struct mst_cluster_message message = {.type = MST_CLUSTER_DRAINING};

    (void)cluster;
    fake_send(worker, &message);
}

static void is_of_another_version(struct fake_worker *worker, const muster_cluster *cluster)
{
    struct mst_cluster_message hello = hello_of(cluster);

    hello.version++;
    fake_send(worker, &hello);
}

static void is_of_another_cluster(struct fake_worker *worker, const muster_cluster *cluster)
{
    struct mst_cluster_message hello = hello_of(cluster);

    hello.cluster = mst_slice_text("another");
    fake_send(worker, &hello);
}

static void speaks_before_its_welcome(struct fake_worker *worker, const muster_cluster *cluster)
{
    struct mst_cluster_message hello = hello_of(cluster);

    hello.index = 77;
    hello.incarnation = 7;
    fake_send(worker, &hello);
    is_no_hello(worker, cluster);
}

/* Strangers do all that a connection can be refused for, at once. At most 20 lines in 10 s
 * report them, whatever they did wrong, and one more how many there were beyond; workers are
 * served meanwhile. */
static void test_lines_about_strangers_are_few_however_many_come(void **state)
{
    static void (*const mistakes[])(struct fake_worker *, const muster_cluster *) = {
        is_too_large,          is_damaged,
        is_no_hello,           is_of_another_version,
        is_of_another_cluster, speaks_before_its_welcome};
    enum { MISTAKES = sizeof(mistakes) / sizeof(mistakes[0]), EACH = 10 };
    struct lines lines;
    muster_client *client = open_logged(&lines);
    muster_cluster *cluster = open_cluster(client);
    char rest[80];

    (void)state;
    mst_coord_lock(cluster);
    cluster->complaints_until_ns = UINT64_MAX; /* until the test says that the 10 s are over */
    mst_coord_unlock(cluster);
    for (unsigned i = 0; i < (unsigned)EACH * MISTAKES; i++) {
        struct fake_worker *worker = calloc(1, sizeof(*worker));

        assert_non_null(worker);
        fake_connect(worker, cluster);
        mistakes[i % MISTAKES](worker, cluster);
        fake_expect_end(worker);
        stranger_leave(worker);
    }
    mst_coord_lock(cluster);
    cluster->complaints_until_ns = 0;
    mst_coord_hurry(cluster);
    mst_coord_unlock(cluster);
    (void)snprintf(rest, sizeof(rest), "connections refused: %d more in the last 10 s",
                   EACH * MISTAKES - MST_COORD_COMPLAINTS_MAX);
    wait_for_line(&lines, rest);
    assert_int_equal(lines.warnings, MST_COORD_COMPLAINTS_MAX + 1);
    still_works(cluster);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

/* A coordinator of the same user looks whether a socket beside its own is of a dead one. The
 * other logs nothing of that. */
static void test_of_who_only_looks_whether_it_is_there_nothing_is_said(void **state)
{
    struct muster_cluster_options options = MUSTER_CLUSTER_OPTIONS_INIT;
    struct lines lines;
    muster_client *client = open_logged(&lines);
    muster_cluster *cluster = open_cluster(client);
    muster_client *observer = library_observer(client);
    muster_cluster *other = NULL;
    struct fake_worker *liar;
    struct muster_error err;

    (void)state;
    options.name = "other";
    library_ok(muster_cluster_open(&other, observer, &options, LIMIT_MS, &err), &err);
    liar = stranger(cluster, MST_COORD_HELLO_BYTES_MAX + 1);
    wait_for_line(&lines, "is over the limit of 4194304");
    assert_false(has_line(&lines, "reset by peer") || has_line(&lines, "closed by the peer"));
    stranger_leave(liar);
    muster_cluster_close(other);
    muster_client_close(observer);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_no_worker_yet_may_not_send_as_much_as_one),
        cmocka_unit_test(test_strangers_hold_so_much_all_together_and_the_largest_goes),
        cmocka_unit_test(test_of_too_many_strangers_the_oldest_goes),
        cmocka_unit_test(test_who_says_that_it_is_a_member_and_is_none_is_closed_in_the_end),
        cmocka_unit_test(test_lines_about_strangers_are_few_however_many_come),
        cmocka_unit_test(test_of_who_only_looks_whether_it_is_there_nothing_is_said),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
