/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator in a program, with a real service and a worker that is the test itself.
 *
 * behaviour: cluster / A coordinator and its program */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/panic.h"
#include "cluster_fake.h"
#include "muster/key.h"
#include "net/secret.h"
#include "tasks/shell/coordinator/cluster.h"

enum { PATIENCE_MS = 3000 }; /* of who waits for what does not come */

static muster_cluster *open_cluster(muster_client *client,
                                    const struct muster_cluster_options *options)
{
    struct muster_error err = {0};
    muster_cluster *cluster = NULL;

    library_ok(muster_cluster_open(&cluster, client, options, LIMIT_MS, &err), &err);
    return cluster;
}

static muster_closure *schedule(muster_cluster *cluster, const char *text)
{
    const struct muster_part part = {.data = text, .size = strlen(text), .type = 3};
    struct muster_error err = {0};
    muster_closure *closure = NULL;

    library_ok(muster_cluster_schedule(cluster, "echo", &part, 1, NULL, LIMIT_MS, &closure, &err),
               &err);
    return closure;
}

static void fetches(muster_closure *closure, const char *text)
{
    const struct muster_part *parts = NULL;
    struct muster_error err = {0};
    size_t count = 0;

    library_ok(muster_closure_fetch(closure, LIMIT_MS, &parts, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_int_equal(parts[0].size, strlen(text));
    assert_memory_equal(parts[0].data, text, strlen(text));
    assert_int_equal(parts[0].type, 7);
}

static void join_ok(muster_cluster *cluster)
{
    struct muster_error err = {0};

    library_ok(muster_cluster_join(cluster, LIMIT_MS, &err), &err);
}

/* ---- what it is for ---- */

static void test_a_closure_runs_and_its_result_is_fetched(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 1);
    muster_closure *closure = schedule(cluster, "hello");
    const struct mst_cluster_message *run = fake_expect(worker, MST_CLUSTER_RUN);

    (void)state;
    assert_int_equal(run->parts.count, 1);
    assert_memory_equal(run->parts.items[0].data.data, "hello", 5);
    assert_int_equal(run->parts.items[0].type, 3);
    fake_answer(worker, run->attempt, "goodbye");
    join_ok(cluster);
    fetches(closure, "goodbye");
    fetches(closure, "goodbye"); /* as often as one likes */
    muster_cluster_close(cluster);
    fake_expect_end(worker);
    fetches(closure, "goodbye"); /* also now */
    muster_closure_release(closure);
    fake_leave(worker);
    muster_client_close(client);
}

static void test_what_is_scheduled_before_a_worker_is_there_waits_for_it(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    muster_closure *closure = schedule(cluster, "early");
    struct muster_cluster_counts counts = MUSTER_CLUSTER_COUNTS_INIT;
    struct muster_cluster_worker seen = MUSTER_CLUSTER_WORKER_INIT;
    struct muster_error err = {0};
    struct fake_worker *worker;
    bool done = true;

    (void)state;
    muster_cluster_look(cluster, &counts);
    assert_int_equal(counts.queued, 1);
    assert_string_equal(counts.oldest_function, "echo");
    assert_int_equal(muster_cluster_join(cluster, 1, &err), MUSTER_ETIMEDOUT);
    library_ok(muster_cluster_done(cluster, &done, &err), &err);
    assert_false(done);
    assert_int_equal(muster_closure_fetch(closure, 0, NULL, NULL, &err), MUSTER_ETIMEDOUT);
    worker = fake_worker(cluster, 2);
    assert_true(muster_cluster_look_worker(cluster, 0, &seen));
    assert_int_equal(seen.state, MUSTER_WORKER_PRESENT);
    assert_int_equal(seen.slots, 2);
    assert_false(muster_cluster_look_worker(cluster, 1, &seen));
    fake_answer(worker, fake_expect(worker, MST_CLUSTER_RUN)->attempt, "late");
    fetches(closure, "late");
    library_ok(muster_cluster_done(cluster, &done, &err), &err);
    assert_true(done);
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
}

static void test_a_failure_is_delivered_once_and_then_all_is_as_new(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 1);
    muster_closure *bad = schedule(cluster, "bad");
    const struct mst_failure failure = {.origin = MST_ORIGIN_FUNCTION,
                                        .code = 5,
                                        .worker = MST_WORKER_NONE,
                                        .text = mst_slice_text("no such number")};
    struct muster_failures *failures;
    struct muster_failure why;
    struct muster_error err = {0};

    (void)state;
    fake_fail(worker, fake_expect(worker, MST_CLUSTER_RUN)->attempt, &failure);
    assert_int_equal(muster_cluster_join(cluster, LIMIT_MS, &err), MUSTER_EFAILED);
    assert_string_equal(
        err.text, "join: closure 1: the function failed with code 5 on worker 0: no such number");
    failures = muster_cluster_failures(cluster);
    assert_non_null(failures);
    assert_int_equal(failures->count, 1);
    assert_int_equal(failures->items[0].origin, MUSTER_ORIGIN_FUNCTION);
    assert_string_equal(failures->items[0].text, "no such number");
    muster_failures_free(failures);
    assert_null(muster_cluster_failures(cluster));
    assert_true(muster_closure_failure(bad, &why));
    assert_int_equal(why.code, 5);
    assert_int_equal(why.closure, 1);
    assert_int_equal(muster_closure_fetch(bad, LIMIT_MS, NULL, NULL, &err), MUSTER_EFAILED);
    muster_closure_release(bad);
    join_ok(cluster);
    muster_closure_release(schedule(cluster, "good"));
    fake_answer(worker, fake_expect(worker, MST_CLUSTER_RUN)->attempt, "well");
    join_ok(cluster);
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
}

/* A closure has failed, another one of its series does not end, and join or schedule has a
 * timeout. It ends in time, with ETIMEDOUT, and a schedule that does not wait with ELIMIT; the
 * failure is delivered to the caller that asks once the series has ended. */
static void test_the_end_of_a_series_is_waited_for_as_long_as_the_caller_says(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 2);
    const struct mst_failure failure = {.origin = MST_ORIGIN_FUNCTION,
                                        .code = 5,
                                        .worker = MST_WORKER_NONE,
                                        .text = mst_slice_text("no such number")};
    const struct mst_failure stopped = {.origin = MST_ORIGIN_CANCELLED, .worker = MST_WORKER_NONE};
    uint64_t began_ns = mst_lib_now_ns();
    struct mst_attempt other;
    struct muster_error err = {0};

    (void)state;
    muster_closure_release(schedule(cluster, "bad"));
    muster_closure_release(schedule(cluster, "long"));
    fake_fail(worker, fake_expect(worker, MST_CLUSTER_RUN)->attempt, &failure);
    other = fake_expect(worker, MST_CLUSTER_RUN)->attempt;
    for (struct muster_cluster_counts counts = MUSTER_CLUSTER_COUNTS_INIT; counts.failures == 0;) {
        muster_cluster_look(cluster, &counts);
    }
    assert_int_equal(muster_cluster_join(cluster, 1, &err), MUSTER_ETIMEDOUT);
    (void)fake_expect(worker, MST_CLUSTER_CANCEL);
    assert_int_equal(muster_cluster_schedule(cluster, "echo", NULL, 0, NULL, 0, NULL, &err),
                     MUSTER_ELIMIT);
    assert_string_equal(err.text,
                        "schedule 'echo': a failure is being delivered, and what runs of its "
                        "series has not ended; wait longer, or call muster_cluster_join first");
    assert_int_equal(muster_cluster_schedule(cluster, "echo", NULL, 0, NULL, 1, NULL, &err),
                     MUSTER_ETIMEDOUT);
    assert_string_equal(err.text,
                        "schedule 'echo': timed out: a failure is being delivered, and what runs "
                        "of its series has not ended; wait longer, or call muster_cluster_join "
                        "first");
    assert_in_range(mst_lib_now_ns() - began_ns, 0, UINT64_C(20000000000));
    fake_fail(worker, other, &stopped);
    assert_int_equal(muster_cluster_join(cluster, LIMIT_MS, &err), MUSTER_EFAILED);
    join_ok(cluster);
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
}

static void test_a_state_server_that_fails_has_a_status_of_its_own(void **state)
{
    struct muster_cluster_options options = MUSTER_CLUSTER_OPTIONS_INIT;
    muster_client *client = library_alone();
    muster_cluster *cluster;
    struct fake_worker *worker;
    const struct mst_failure failure = {.origin = MST_ORIGIN_STATE,
                                        .worker = MST_WORKER_NONE,
                                        .text = mst_slice_text("refused"),
                                        .state = mst_slice_text("parameters")};
    struct muster_error err = {0};

    (void)state;
    options.transient_limit = -1;
    cluster = open_cluster(client, &options);
    library_ok(muster_cluster_state_server(cluster, "parameters", &err), &err);
    assert_int_equal(muster_cluster_state_server(cluster, "parameters", &err), MUSTER_EEXISTS);
    worker = fake_worker(cluster, 1);
    muster_closure_release(schedule(cluster, "x"));
    fake_fail(worker, fake_expect(worker, MST_CLUSTER_RUN)->attempt, &failure);
    assert_int_equal(muster_cluster_join(cluster, LIMIT_MS, &err), MUSTER_ESTATE);
    assert_non_null(strstr(err.text, "state server 'parameters' unavailable"));
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
}

/* `MUSTER_RESTART_EXIT_CODE` is 42 and a state server fails. `muster_cluster_exit_code` gives
 * 42; without the setting 1. [cluster] */
static void test_the_exit_code_of_a_lost_state_server_is_the_one_that_was_asked_for_67(void **state)
{
    (void)state;
    assert_int_equal(muster_cluster_exit_code(MUSTER_ESTATE), 1);
    assert_int_equal(setenv("MUSTER_RESTART_EXIT_CODE", "42", 1), 0);
    assert_int_equal(muster_cluster_exit_code(MUSTER_ESTATE), 42);
    assert_int_equal(muster_cluster_exit_code(MUSTER_EFAILED), 1);
    assert_int_equal(muster_cluster_exit_code(MUSTER_OK), 0);
    assert_int_equal(setenv("MUSTER_RESTART_EXIT_CODE", "many", 1), 0);
    assert_int_equal(muster_cluster_exit_code(MUSTER_ESTATE), 1);
    assert_int_equal(unsetenv("MUSTER_RESTART_EXIT_CODE"), 0);
}

static void test_what_a_broken_connection_had_runs_elsewhere_soon(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 1);
    muster_closure *closure = schedule(cluster, "x");
    struct mst_attempt first = fake_expect(worker, MST_CLUSTER_RUN)->attempt;
    struct fake_worker *other = fake_worker(cluster, 1);
    const struct mst_cluster_message *again;

    (void)state;
    mst_cluster_link_free(worker->link); /* it is still a member */
    worker->link = NULL;
    again = fake_expect(other, MST_CLUSTER_RUN);
    assert_int_equal(again->attempt.closure, first.closure);
    assert_int_equal(again->attempt.attempt, first.attempt + 1);
    fake_answer(other, again->attempt, "elsewhere");
    fetches(closure, "elsewhere");
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(other);
    fake_leave(worker);
    muster_client_close(client);
}

static void test_a_descriptor_tells_that_something_ended(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 1);
    struct pollfd polled = {.fd = muster_cluster_fd(cluster), .events = POLLIN};
    muster_closure *closure = schedule(cluster, "x");
    struct mst_attempt attempt = fake_expect(worker, MST_CLUSTER_RUN)->attempt;
    struct muster_error err = {0};
    size_t index = 9;
    bool done = true;

    (void)state;
    library_ok(muster_cluster_done(cluster, &done, &err), &err);
    assert_false(done);
    fake_answer(worker, attempt, "now");
    while (!done) {
        assert_int_equal(poll(&polled, 1, LIMIT_MS), 1);
        library_ok(muster_cluster_done(cluster, &done, &err), &err);
    }
    library_ok(muster_closure_fetch_any(&closure, 1, 0, &index, &err), &err);
    assert_int_equal(index, 0);
    library_ok(muster_closure_fetch_many(&closure, 1, 0, NULL, &err), &err);
    fetches(closure, "now");
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
}

/* A group of closures, one, and then all are cancelled. Those are cancelled, the others are not
 * until it is their turn, and join reports nothing. */
static void test_one_a_group_and_all_are_cancelled(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct muster_closure_options in_group = MUSTER_CLOSURE_OPTIONS_INIT;
    struct muster_closure_call calls[4] = {{"echo", NULL, 0, &in_group},
                                           {"echo", NULL, 0, NULL},
                                           {"echo", NULL, 0, &in_group},
                                           {"echo", NULL, 0, NULL}};
    muster_closure *closures[4] = {NULL};
    muster_status each[4];
    struct muster_closure_progress look;
    struct muster_error err = {0};
    size_t admitted = 0, index = 9;

    (void)state;
    in_group.group = 7;
    library_ok(muster_cluster_schedule_many(cluster, calls, 4, LIMIT_MS, closures, &admitted, &err),
               &err);
    assert_int_equal(admitted, 4);
    muster_cluster_cancel_group(cluster, 0); /* none */
    muster_cluster_cancel_group(cluster, 7);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(muster_closure_number(closures[i]), i + 1);
        assert_int_equal(muster_closure_wait(closures[i], i % 2 == 0 ? LIMIT_MS : 0, &err),
                         i % 2 == 0 ? MUSTER_OK : MUSTER_ETIMEDOUT);
    }
    muster_closure_cancel(closures[1]);
    library_ok(muster_closure_fetch_any(&closures[1], 1, LIMIT_MS, &index, &err), &err);
    assert_int_equal(muster_closure_fetch_many(closures, 4, 0, each, &err), MUSTER_ETIMEDOUT);
    muster_cluster_cancel_all(cluster);
    assert_int_equal(muster_closure_fetch_many(closures, 4, LIMIT_MS, each, &err),
                     MUSTER_ECANCELLED);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(each[i], MUSTER_ECANCELLED);
        muster_closure_look(closures[i], &look);
        assert_int_equal(look.state, MUSTER_CLOSURE_FAILED);
        assert_int_equal(look.attempts, 0);
        muster_closure_release(closures[i]);
    }
    join_ok(cluster); /* cancelling is nobody's error */
    muster_cluster_close(cluster);
    muster_client_close(client);
}

static void test_a_value_of_a_worker_is_built_before_its_first_use(void **state)
{
    const struct muster_part part = {.data = "seed", .size = 4};
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 1);
    const struct mst_cluster_message *message;
    struct mst_cluster_message built = {.type = MST_CLUSTER_BUILT,
                                        .failure = {.worker = MST_WORKER_NONE}};
    const struct mst_part made = {.data = mst_slice_text("made")};
    const struct muster_part *parts = NULL;
    muster_per_worker *value = NULL;
    muster_dataset *dataset = NULL;
    muster_closure *closure = NULL;
    struct muster_error err = {0};
    size_t count = 0;

    (void)state;
    library_ok(muster_cluster_dataset(cluster, "twice", &part, 1, NULL, &dataset, &err), &err);
    library_ok(muster_dataset_iterate(dataset, &value, &err), &err);
    muster_dataset_drop(dataset);
    assert_int_equal(muster_per_worker_fetch(value, 0, 0, &parts, &count, &err), MUSTER_ETIMEDOUT);
    options.needs = &value;
    options.need_count = 1;
    library_ok(
        muster_cluster_schedule(cluster, "echo", NULL, 0, &options, LIMIT_MS, &closure, &err),
        &err);
    message = fake_expect(worker, MST_CLUSTER_BUILD);
    assert_int_equal(message->function, 1);
    assert_memory_equal(message->parts.items[0].data.data, "seed", 4);
    built.value = message->value;
    message = fake_expect(worker, MST_CLUSTER_RUN);
    assert_int_equal(message->need_count, 1);
    assert_int_equal(message->needs[0], built.value);
    built.parts = (struct mst_parts){.items = &made, .count = 1};
    fake_send(worker, &built);
    library_ok(muster_per_worker_fetch(value, 0, LIMIT_MS, &parts, &count, &err), &err);
    assert_int_equal(count, 1);
    library_ok(muster_per_worker_fetch(value, 0, 0, NULL, NULL, &err), &err); /* only waits */
    assert_memory_equal(parts[0].data, "made", 4);
    fake_answer(worker, message->attempt, "used");
    fetches(closure, "used");
    muster_per_worker_drop(value);
    assert_int_equal(fake_expect(worker, MST_CLUSTER_DROP)->value, built.value);
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
}

/* ---- workers that lie ---- */

static void expect_hung_up_on(struct fake_worker *worker, muster_cluster *cluster,
                              muster_client *client)
{
    struct fake_worker *honest;
    muster_closure *closure;

    fake_expect_end(worker);
    honest = fake_worker(cluster, 1);
    closure = schedule(cluster, "still");
    fake_answer(honest, fake_expect(honest, MST_CLUSTER_RUN)->attempt, "works");
    fetches(closure, "works");
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(honest);
    fake_leave(worker);
    muster_client_close(client);
}

/* A worker commits what it never got, another attempt, or what another worker has. It changes
 * nothing: the closure ends with what its own worker says. */
static void test_who_commits_what_it_never_got_changes_nothing(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 1);
    muster_closure *closure = schedule(cluster, "mine");
    struct mst_attempt attempt = fake_expect(worker, MST_CLUSTER_RUN)->attempt;
    struct fake_worker *liar = fake_worker(cluster, 1);
    struct muster_error err = {0};

    (void)state;
    liar->series = worker->series; /* all else is right */
    fake_answer(liar, attempt, "stolen");
    fake_answer(liar, (struct mst_attempt){.closure = 999, .attempt = 1}, "invented");
    fake_answer(worker, (struct mst_attempt){.closure = 1, .attempt = 9}, "wrong attempt");
    assert_int_equal(muster_closure_wait(closure, 50, &err), MUSTER_ETIMEDOUT);
    fake_answer(worker, attempt, "true");
    fetches(closure, "true");
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(liar);
    fake_leave(worker);
    muster_client_close(client);
}

/* A connection sends a message before HELLO. It is hung up on, a line in the log says why, and
 * the others go on. */
static void test_who_says_something_before_hello_is_hung_up_on(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_join(cluster);

    (void)state;
    fake_connect(worker, cluster);
    fake_answer(worker, (struct mst_attempt){.closure = 1, .attempt = 1}, "hello?");
    expect_hung_up_on(worker, cluster, client);
}

/* A connection to a coordinator sends bytes that are no message. It is hung up on, a line in the
 * log says why, and the others go on. */
static void test_bytes_that_are_no_message_end_the_connection_with_a_reason(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 1);
    uint32_t events;
    int fd = mst_cluster_link_fd(worker->link, &events);

    (void)state;
    assert_int_equal(write(fd, "\xff\xff\xff\xff rubbish", 12), 12);
    expect_hung_up_on(worker, cluster, client);
}

/* An argument is larger than a message may be. The call that schedules it fails with ELIMIT,
 * which names it; nothing is admitted. */
static void test_an_argument_larger_than_a_message_is_refused(void **state)
{
    const size_t size = (size_t)40 << 20;
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    void *bytes = calloc(1, size);
    struct muster_part part = {.data = bytes, .size = size};
    struct muster_error err = {0};
    muster_closure *closure = NULL;

    (void)state;
    assert_non_null(bytes);
    assert_int_equal(muster_cluster_schedule(cluster, "echo", &part, 1, NULL, 0, &closure, &err),
                     MUSTER_ELIMIT);
    assert_null(closure);
    assert_non_null(strstr(err.text, "schedule 'echo'"));
    free(bytes);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

/* A schedule or an open makes no sense: no function, a negative duration, options of no size, an
 * impossible name. It fails with EINVAL and the reason, and nothing is admitted. */
static void test_what_makes_no_sense_is_refused_with_its_reason(void **state)
{
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;
    struct muster_cluster_options named = MUSTER_CLUSTER_OPTIONS_INIT;
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct muster_error err = {0};
    muster_cluster *second = NULL;

    (void)state;
    assert_int_equal(muster_cluster_schedule(cluster, "", NULL, 0, NULL, 0, NULL, &err),
                     MUSTER_EINVAL);
    assert_int_equal(muster_cluster_schedule(cluster, NULL, NULL, 0, NULL, 0, NULL, &err),
                     MUSTER_EINVAL);
    assert_int_equal(muster_cluster_schedule(cluster, "f", NULL, 1, NULL, 0, NULL, &err),
                     MUSTER_EINVAL);
    assert_int_equal(muster_cluster_schedule(NULL, "f", NULL, 0, NULL, 0, NULL, &err),
                     MUSTER_EINVAL);
    options.run_ms = -1;
    assert_int_equal(muster_cluster_schedule(cluster, "f", NULL, 0, &options, 0, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text, "schedule 'f': options.run_ms is no duration");
    options.run_ms = 0;
    options.size = 4;
    assert_int_equal(muster_cluster_schedule(cluster, "f", NULL, 0, &options, 0, NULL, &err),
                     MUSTER_EINVAL);
    assert_int_equal(muster_cluster_open(&second, client, NULL, 0, &err), MUSTER_EEXISTS);
    named.name = "two words";
    assert_int_equal(muster_cluster_open(&second, client, &named, 0, &err), MUSTER_EINVAL);
    assert_null(second);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

/* ---- workers of other machines ---- */

static const char *secret_file(char path[64], const char *bytes)
{
    int fd;

    memcpy(path, "/tmp/muster-secret-XXXXXX", 26);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, strlen(bytes)), strlen(bytes));
    assert_int_equal(close(fd), 0);
    return path;
}

static struct mst_tls_context *context_of(const char *bytes)
{
    struct mst_secret secret = {.size = strlen(bytes)};
    struct mst_tls_context *context = NULL;
    struct muster_error err = {0};

    memcpy(secret.bytes, bytes, secret.size);
    library_ok(mst_tls_context_new(&context, MST_TLS_CLIENT, &secret, &err), &err);
    return context;
}

/* A worker of another machine speaks plain where TLS is spoken, or has another secret. It is
 * hung up on, and a line in the log says why. */
static void test_workers_of_other_machines_need_the_secret(void **state)
{
    static const char secret[] = "0123456789abcdef0123456789abcdef";
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct mst_tls_context *right = context_of(secret);
    struct mst_tls_context *wrong = context_of("fedcba9876543210fedcba9876543210");
    char path[64];
    muster_client *client;
    muster_cluster *cluster;
    struct fake_worker *worker;
    muster_closure *closure;

    (void)state;
    options.secret_file = secret_file(path, secret);
    client = library_open(&options);
    cluster = open_cluster(client, NULL);
    worker = fake_join(cluster);

    fake_connect_tcp(worker, cluster, NULL);
    fake_hello(worker, cluster, 1);
    fake_expect_end(worker);
    mst_cluster_link_free(worker->link);

    fake_connect_tcp(worker, cluster, wrong);
    fake_hello(worker, cluster, 1);
    fake_expect_end(worker);
    mst_cluster_link_free(worker->link);

    fake_connect_tcp(worker, cluster, right);
    fake_hello(worker, cluster, 1);
    (void)fake_expect(worker, MST_CLUSTER_WELCOME);
    closure = schedule(cluster, "far");
    fake_answer(worker, fake_expect(worker, MST_CLUSTER_RUN)->attempt, "away");
    fetches(closure, "away");
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
    mst_tls_context_free(right);
    mst_tls_context_free(wrong);
    assert_int_equal(unlink(path), 0);
}

static void test_without_a_secret_nobody_listens_to_the_network(void **state)
{
    struct muster_cluster_options options = MUSTER_CLUSTER_OPTIONS_INIT;
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    muster_cluster *refused = NULL;
    struct muster_error err = {0};

    (void)state;
    assert_null(strchr(cluster->listener.addresses, ','));
    assert_int_equal(cluster->listener.tcp_fd, -1);
    muster_cluster_close(cluster);
    options.listen = "0.0.0.0:0";
    assert_int_equal(muster_cluster_open(&refused, client, &options, LIMIT_MS, &err),
                     MUSTER_EINVAL);
    assert_non_null(strstr(err.text, "is open to the network"));
    options.listen = "127.0.0.1:0";
    cluster = open_cluster(client, &options);
    assert_non_null(strstr(cluster->listener.addresses, ",127.0.0.1:"));
    muster_cluster_close(cluster);
    muster_client_close(client);
}

/* ---- the term ---- */

/* A second coordinator of the same name is opened. It waits for the first, at most its timeout. */
static void test_a_second_coordinator_waits_for_the_first(void **state)
{
    muster_client *client = library_alone();
    muster_client *other = library_observer(client);
    muster_cluster *cluster = open_cluster(client, NULL);
    uint64_t first = cluster->term.number;
    muster_cluster *second = NULL;
    struct muster_error err = {0};

    (void)state;
    /* Long enough for the service to say that somebody has it. */
    assert_int_equal(muster_cluster_open(&second, other, NULL, PATIENCE_MS, &err),
                     MUSTER_ETIMEDOUT);
    assert_non_null(strstr(err.text, "another coordinator has the term"));
    muster_cluster_close(cluster);
    second = open_cluster(other, NULL);
    assert_true(second->term.number > first);
    muster_cluster_close(second);
    muster_client_close(other);
    muster_client_close(client);
}

/* The coordinator's key is deleted by hand. It is superseded: calls end with EFENCED. */
static void test_whose_key_is_gone_is_superseded(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    muster_closure *closure = schedule(cluster, "x");
    struct muster_error err = {0};

    (void)state;
    library_ok(muster_key_delete(client, "muster/cluster/default", NULL, LIMIT_MS, &err), &err);
    assert_int_equal(muster_cluster_join(cluster, LIMIT_MS, &err), MUSTER_EFENCED);
    assert_non_null(strstr(err.text, "superseded"));
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    muster_client_close(client);
}

/* ---- the end ---- */

struct joiner {
    muster_cluster *cluster;
    muster_status status;
};

static void *join_in_a_thread(void *ctx)
{
    struct joiner *joiner = ctx;
    struct muster_error err = {0};

    joiner->status = muster_cluster_join(joiner->cluster, -1, &err);
    return NULL;
}

static bool is_waited_for(muster_cluster *cluster)
{
    bool any;

    mst_coord_lock(cluster);
    any = !mst_list_empty(&cluster->waiters);
    mst_coord_unlock(cluster);
    return any;
}

static void test_closing_ends_the_calls_of_others(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    muster_closure *closure = schedule(cluster, "for ever");
    struct muster_error err = {0};
    pthread_t thread;
    struct joiner joiner = {.cluster = cluster};

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, join_in_a_thread, &joiner), 0);
    while (!is_waited_for(cluster)) {
        (void)sched_yield();
    }
    muster_cluster_close(cluster);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(joiner.status, MUSTER_ECANCELLED);
    assert_int_equal(muster_closure_fetch(closure, -1, NULL, NULL, &err), MUSTER_ECANCELLED);
    muster_closure_cancel(closure);
    muster_closure_release(closure);
    muster_client_close(client);
}

struct looker {
    muster_closure *closure;
    atomic_bool looks, over;
};

static void *look_in_a_thread(void *ctx)
{
    struct looker *looker = ctx;
    muster_status status;

    while (!atomic_load_explicit(&looker->over, memory_order_relaxed)) {
        status = muster_closure_wait(looker->closure, 0, NULL);
        assert_true(status == MUSTER_ETIMEDOUT || status == MUSTER_ECANCELLED);
        atomic_store_explicit(&looker->looks, true, memory_order_relaxed);
    }
    return NULL;
}

static void close_while_others_look(muster_client *client)
{
    enum { OTHERS = 4 };
    muster_cluster *cluster = open_cluster(client, NULL);
    struct looker looker = {.closure = schedule(cluster, "for ever")};
    struct muster_error err = {0};
    pthread_t threads[OTHERS];

    for (size_t i = 0; i < OTHERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, look_in_a_thread, &looker), 0);
    }
    while (!atomic_load_explicit(&looker.looks, memory_order_relaxed)) {
        (void)sched_yield();
    }
    muster_cluster_close(cluster);
    atomic_store_explicit(&looker.over, true, memory_order_relaxed);
    for (size_t i = 0; i < OTHERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(muster_closure_wait(looker.closure, 0, &err), MUSTER_ECANCELLED);
    muster_closure_release(looker.closure);
}

/* A coordinator is closed while other threads ask for a closure. The thread sanitizer finds no
 * race. */
static void test_closing_while_other_threads_ask_for_a_closure(void **state)
{
    muster_client *client = library_alone();

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        close_while_others_look(client);
    }
    muster_client_close(client);
}

static void test_closing_leaves_no_socket(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    char path[MST_SOCKET_PATH_MAX];
    struct stat info;

    (void)state;
    memcpy(path, cluster->listener.path, sizeof(path));
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISSOCK(info.st_mode));
    assert_int_equal(info.st_mode & 0777, 0700);
    muster_cluster_close(cluster);
    assert_int_not_equal(lstat(path, &info), 0);
    muster_client_close(client);
}

/* The client is closed before its coordinator. Calls end with ECANCELLED, and closing frees what
 * is left. */
static void test_a_client_that_is_closed_first_ends_its_coordinator(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    muster_closure *closure = schedule(cluster, "x");
    struct muster_error err = {0};

    (void)state;
    muster_client_close(client);
    assert_int_equal(muster_cluster_join(cluster, LIMIT_MS, &err), MUSTER_ECANCELLED);
    muster_closure_release(closure);
    muster_cluster_close(cluster);
}

/* The program forks. In the child every call is refused, and closing there does not touch the
 * parent's. */
static void test_a_forked_child_is_refused(void **state)
{
    /* The child has these too: else memcheck calls them lost there. */
    static struct fake_worker *worker;
    static muster_closure *closure;
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct mst_attempt attempt;
    struct muster_error err = {0};
    int status = 0;
    pid_t child;

    (void)state;
    worker = fake_worker(cluster, 1);
    closure = schedule(cluster, "x");
    attempt = fake_expect(worker, MST_CLUSTER_RUN)->attempt;
    mst_lib_lock(client); /* else the background thread may hold memory, which the child has lost */
    child = fork();
    mst_lib_unlock(client);
    if (child == 0) {
        bool refused =
            muster_cluster_join(cluster, -1, &err) == MUSTER_EINVAL &&
            strstr(err.text, "belongs to the parent") != NULL &&
            muster_cluster_schedule(cluster, "f", NULL, 0, NULL, -1, NULL, NULL) == MUSTER_EINVAL &&
            muster_closure_fetch(closure, -1, NULL, NULL, NULL) == MUSTER_EINVAL;

        muster_closure_release(closure);
        muster_cluster_close(cluster);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fake_answer(worker, attempt, "parent");
    fetches(closure, "parent");
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
}

static void test_drain_ends_what_there_is_and_admits_no_more(void **state)
{
    muster_client *client = library_alone();
    muster_cluster *cluster = open_cluster(client, NULL);
    struct fake_worker *worker = fake_worker(cluster, 1);
    muster_closure *closure = schedule(cluster, "last");
    struct mst_attempt attempt = fake_expect(worker, MST_CLUSTER_RUN)->attempt;
    struct muster_error err = {0};

    (void)state;
    assert_int_equal(muster_cluster_drain(cluster, 1, &err), MUSTER_ETIMEDOUT);
    assert_int_equal(muster_cluster_schedule(cluster, "f", NULL, 0, NULL, 0, NULL, &err),
                     MUSTER_ECANCELLED);
    fake_answer(worker, attempt, "done");
    library_ok(muster_cluster_drain(cluster, LIMIT_MS, &err), &err);
    fetches(closure, "done");
    muster_closure_release(closure);
    muster_cluster_close(cluster);
    fake_leave(worker);
    muster_client_close(client);
}

/* ---- a broken invariant ---- */

static void *break_client(void *ctx)
{
    mst_lib_lock(ctx);
    mst_panic("here.c", 7, "one is two");
}

static void *join_for_ever(void *ctx)
{
    return muster_cluster_join(ctx, -1, NULL) == MUSTER_EINTERNAL ? ctx : NULL;
}

/* In a process of its own: a thread of it stands still for good. 0: as it should be. */
static int break_a_client(const char *addr)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    pthread_t joining, breaking;
    muster_client *client = NULL;
    muster_cluster *cluster;
    void *woken = NULL;

    options.addr = addr;
    options.role = MUSTER_ROLE_OBSERVER;
    if (muster_client_open(&client, &options, LIMIT_MS, NULL) != MUSTER_OK) {
        return 1;
    }
    cluster = open_cluster(client, NULL);
    if (muster_cluster_schedule(cluster, "f", NULL, 0, NULL, -1, NULL, NULL) != MUSTER_OK ||
        pthread_create(&joining, NULL, join_for_ever, cluster) != 0) {
        return 2;
    }
    while (!is_waited_for(cluster)) {
        (void)sched_yield();
    }
    if (pthread_create(&breaking, NULL, break_client, client) != 0) {
        return 2;
    }
    (void)pthread_join(joining, &woken);
    (void)unlink(cluster->listener.path); /* else the next coordinator does */
    return woken == cluster ? 0 : 3;
}

static void test_a_broken_client_ends_the_calls_of_its_coordinator(void **state)
{
    (void)state;
    library_in_a_child(break_a_client);
}

/* ---- two coordinators ---- */

/* Deletes its key when the other one was refused, before that watches. */
static muster_client *leaves;

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names */
extern __typeof__(mst_lib_follow_after) __real_mst_lib_follow_after, __wrap_mst_lib_follow_after;

void __wrap_mst_lib_follow_after(struct mst_lib_follow *follow, muster_client *client,
                                 uint32_t kinds, struct mst_slice prefix, uint32_t node,
                                 uint64_t revision)
{
    if (leaves) {
        library_ok(muster_key_delete(leaves, "muster/cluster/default", NULL, LIMIT_MS, NULL), NULL);
        leaves = NULL;
    }
    __real_mst_lib_follow_after(follow, client, kinds, prefix, node, revision);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

/* A second coordinator is refused by the key of the first one, which ends before the second one
 * begins to watch. The second one takes its place. */
static void test_a_coordinator_that_waits_misses_no_end(void **state)
{
    muster_client *client = library_alone(), *first = library_observer(client);
    muster_cluster *cluster;

    (void)state;
    library_ok(muster_key_insert(first, "muster/cluster/default", (struct muster_slice){"x", 1},
                                 NULL, LIMIT_MS, NULL, NULL),
               NULL);
    leaves = first;
    cluster = open_cluster(client, NULL);
    assert_null(leaves);
    muster_cluster_close(cluster);
    muster_client_close(first);
    muster_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_closure_runs_and_its_result_is_fetched),
        cmocka_unit_test(test_what_is_scheduled_before_a_worker_is_there_waits_for_it),
        cmocka_unit_test(test_a_failure_is_delivered_once_and_then_all_is_as_new),
        cmocka_unit_test(test_the_end_of_a_series_is_waited_for_as_long_as_the_caller_says),
        cmocka_unit_test(test_a_state_server_that_fails_has_a_status_of_its_own),
        cmocka_unit_test(
            test_the_exit_code_of_a_lost_state_server_is_the_one_that_was_asked_for_67),
        cmocka_unit_test(test_what_a_broken_connection_had_runs_elsewhere_soon),
        cmocka_unit_test(test_a_descriptor_tells_that_something_ended),
        cmocka_unit_test(test_one_a_group_and_all_are_cancelled),
        cmocka_unit_test(test_a_value_of_a_worker_is_built_before_its_first_use),
        cmocka_unit_test(test_who_commits_what_it_never_got_changes_nothing),
        cmocka_unit_test(test_who_says_something_before_hello_is_hung_up_on),
        cmocka_unit_test(test_bytes_that_are_no_message_end_the_connection_with_a_reason),
        cmocka_unit_test(test_an_argument_larger_than_a_message_is_refused),
        cmocka_unit_test(test_what_makes_no_sense_is_refused_with_its_reason),
        cmocka_unit_test(test_workers_of_other_machines_need_the_secret),
        cmocka_unit_test(test_without_a_secret_nobody_listens_to_the_network),
        cmocka_unit_test(test_a_second_coordinator_waits_for_the_first),
        cmocka_unit_test(test_whose_key_is_gone_is_superseded),
        cmocka_unit_test(test_closing_ends_the_calls_of_others),
        cmocka_unit_test(test_closing_while_other_threads_ask_for_a_closure),
        cmocka_unit_test(test_closing_leaves_no_socket),
        cmocka_unit_test(test_a_client_that_is_closed_first_ends_its_coordinator),
        cmocka_unit_test(test_a_forked_child_is_refused),
        cmocka_unit_test(test_drain_ends_what_there_is_and_admits_no_more),
        cmocka_unit_test(test_a_broken_client_ends_the_calls_of_its_coordinator),
        cmocka_unit_test(test_a_coordinator_that_waits_misses_no_end),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
