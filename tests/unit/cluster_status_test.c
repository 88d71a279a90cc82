/* SPDX-License-Identifier: Apache-2.0 */
/* What a coordinator tells of itself: written, read, refused, and told only when it is news.
 *
 * behaviour: http / Metrics */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/cluster_status.h"
#include "tasks/publisher.h"

#define S UINT64_C(1000000000)

/* ---- a cluster that says what it is told to ---- */

struct mst_cluster {
    struct mst_cluster_counts counts;
    struct mst_cluster_worker workers[2];
    struct mst_histogram times[MST_TIMERS];
};

void mst_cluster_counts(const struct mst_cluster *cluster, uint64_t now_ns,
                        struct mst_cluster_counts *out)
{
    *out = cluster->counts;
    out->oldest_ns = out->oldest != 0 ? now_ns : 0;
}

bool mst_cluster_worker_at(const struct mst_cluster *cluster, uint64_t now_ns, uint32_t worker,
                           struct mst_cluster_worker *out)
{
    if (worker >= 2) {
        return false;
    }
    *out = cluster->workers[worker];
    out->oldest_run_ns += now_ns;
    return true;
}

const struct mst_histogram *mst_cluster_histogram(const struct mst_cluster *cluster,
                                                  enum mst_cluster_timer timer)
{
    return &cluster->times[timer];
}

static struct mst_cluster quiet(void)
{
    struct mst_cluster cluster = {.counts = {.workers = 2, .present = 2}};

    for (unsigned i = 0; i < MST_TIMERS; i++) {
        mst_histogram_init(&cluster.times[i], &mst_cluster_time_bounds);
    }
    return cluster;
}

/* ---- the line ---- */

static bool reads(const char *text)
{
    struct mst_cluster_status status;

    return mst_cluster_status_read(mst_slice_text(text), &status);
}

static void what_is_written_is_read(void **state)
{
    struct mst_cluster_status status, got;
    char text[MST_CLUSTER_STATUS_ROOM], again[MST_CLUSTER_STATUS_ROOM];
    size_t size;

    (void)state;
    mst_cluster_status_init(&status);
    status.queued = 12;
    status.rate = INT64_MAX;
    status.oldest = 17;
    status.oldest_ms = 4100;
    status.waits = MST_WAIT_FUNCTION;
    mst_cluster_status_function(status.oldest_function, mst_slice_text("re size\n\x7f"));
    mst_histogram_add(&status.times[MST_TIMER_RUN], 3 * S + 1, 2);
    size = mst_cluster_status_write(text, sizeof text, &status);
    assert_non_null(strstr(text, "queued=12 "));
    assert_non_null(strstr(text, " waits=function oldest_function=re-size-- "));
    assert_non_null(strstr(text, " run=0,0,0,0,0,0,0,0,0,0,0,2,0,0,0,0;6.000000002 "));
    assert_true(mst_cluster_status_read(mst_slice_of(text, size), &got));
    assert_int_equal(got.queued, 12);
    assert_int_equal(got.oldest_ms, 4100);
    assert_int_equal(got.waits, MST_WAIT_FUNCTION);
    assert_string_equal(got.oldest_function, "re-size--");
    assert_string_equal(got.longest_function, "");
    assert_int_equal(got.times[MST_TIMER_RUN].sum_s, 6);
    assert_int_equal(mst_histogram_count(&got.times[MST_TIMER_RUN]), 2);
    assert_int_equal(mst_cluster_status_write(again, sizeof again, &got), size);
    assert_memory_equal(text, again, size);
}

/* The longest status that there can be has room. */
static void every_status_has_room(void **state)
{
    struct mst_cluster_status status, got;
    char text[MST_CLUSTER_STATUS_ROOM];
    char name[300];
    size_t size;

    (void)state;
    mst_cluster_status_init(&status);
#define X(number, counts, help) status.number = INT64_MAX;
#include "proto/cluster_numbers.def"
#undef X
    memset(name, 'f', sizeof name);
    mst_cluster_status_function(status.oldest_function, mst_slice_of(name, sizeof name));
    mst_cluster_status_function(status.longest_function, mst_slice_of(name, sizeof name));
    for (unsigned i = 0; i < MST_TIMERS; i++) {
        for (uint32_t bucket = 0; bucket <= mst_cluster_time_bounds.count; bucket++) {
            status.times[i].in[bucket] = INT64_MAX / 16;
        }
        status.times[i].sum_s = INT64_MAX;
        status.times[i].sum_ns = 999999999;
    }
    size = mst_cluster_status_write(text, sizeof text, &status);
    assert_true(size < sizeof text - 4);
    assert_true(mst_cluster_status_read(mst_slice_of(text, size), &got));
    assert_int_equal(strlen(got.oldest_function), MST_CLUSTER_FUNCTION_ROOM - 1);
    assert_int_equal(got.longest_worker, INT64_MAX);
}

/* A client writes a key that looks like a cluster's status and is none. It is refused. */
static void what_is_no_status_is_refused(void **state)
{
    (void)state;
    assert_true(reads("queued=1"));
    assert_true(reads("queued=1 newer=words are=passed/over"));
    assert_false(reads(""));
    assert_false(reads("queued"));
    assert_false(reads("queued="));
    assert_false(reads("queued=-1"));
    assert_false(reads("queued=1.5"));
    assert_false(reads("queued=9223372036854775808"));
    assert_false(reads("queued=1\nqueued=2"));
    assert_false(reads("waits=for-godot"));
    assert_false(reads("run=1"));
    assert_false(reads("run=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0;1.000000000"));
    assert_false(reads("run=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0;1.00000000"));
    assert_false(reads("run=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0;1"));
    assert_false(reads("run=,,,,,,,,,,,,,,,;0.000000000"));
    assert_true(reads("run=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0;1.000000000"));
    /* buckets that would wrap when they are added */
    assert_false(reads("run=9223372036854775807,9223372036854775807,9223372036854775807,0,0,0,0,0,0"
                       ",0,0,0,0,0,0,0;1.000000000"));
    assert_false(reads("oldest_function=0123456789012345678901234567890123456789012345678901234567"
                       "890123456789"));
}

static void too_long_a_status_is_refused(void **state)
{
    char text[MST_CLUSTER_STATUS_ROOM + 20];
    struct mst_cluster_status status;

    (void)state;
    memset(text, 'x', sizeof text);
    text[1] = '=';
    assert_false(mst_cluster_status_read(mst_slice_of(text, sizeof text), &status));
    assert_true(mst_cluster_status_read(mst_slice_of(text, 100), &status));
}

/* A key is not quite that of a cluster's status, or its name is none. It is refused. */
static void names_are_parts_of_keys(void **state)
{
    static const char *const bad[] = {
        "muster/cluster-status/",     "muster/cluster-status",      "muster/cluster-status/a/b",
        "muster/cluster/a",           "muster/cluster/a/status",    "muster/cluster-statuses/a",
        "muster/cluster-status/a b",  "muster/cluster-status/\"",   "muster/cluster-status/\\x01",
        "muster/cluster-status/\x01", "muster/cluster-status/\xff", "muster/cluster-status/a\n"};
    char key[MST_CLUSTER_LABEL_ROOM], name[MST_CLUSTER_LABEL_MAX + 1];
    struct mst_slice got;
    size_t size;

    (void)state;
    memset(name, 'n', sizeof name);
    assert_false(mst_cluster_name_valid(mst_slice_of(name, sizeof name)));
    size = mst_cluster_status_key(key, sizeof key, mst_slice_of(name, MST_CLUSTER_LABEL_MAX));
    assert_int_equal(strlen(key), size);
    assert_true(mst_cluster_status_key_read(mst_slice_of(key, size), &got));
    assert_true(mst_slice_equal(got, mst_slice_of(name, MST_CLUSTER_LABEL_MAX)));
    size = mst_cluster_key(key, sizeof key, mst_slice_text("a-B.9_z"));
    assert_string_equal(key, "muster/cluster/a-B.9_z");
    assert_false(mst_cluster_status_key_read(mst_slice_of(key, size), &got));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(mst_cluster_status_key_read(mst_slice_text(bad[i]), &got));
    }
}

static void every_reason_has_its_words(void **state)
{
    (void)state;
    for (unsigned wait = 0; wait < MST_WAITS; wait++) {
        assert_non_null(mst_cluster_wait_word((enum mst_cluster_wait)wait));
        assert_non_null(mst_cluster_wait_sentence((enum mst_cluster_wait)wait));
    }
}

/* ---- when it is told ---- */

static struct mst_cluster_status told(const struct mst_cluster_publisher *publisher)
{
    struct mst_cluster_status status;

    assert_true(mst_cluster_status_read(mst_slice_of(publisher->text, publisher->size), &status));
    return status;
}

/* A cluster changes all the time, or not at all. It is reported once a second at most, and only
 * news; a closure that only grows older is none. [Status] */
static void it_is_told_once_a_second_and_only_news(void **state)
{
    struct mst_cluster cluster = quiet();
    struct mst_cluster_publisher publisher;

    (void)state;
    mst_cluster_publisher_init(&publisher, S);
    assert_int_equal(mst_cluster_publisher_deadline_ns(&publisher), S);
    assert_true(mst_cluster_publisher_next(&publisher, S, &cluster) > 0); /* that it is there */
    assert_true(mst_cluster_publisher_deadline_ns(&publisher) == UINT64_MAX);
    assert_int_equal(mst_cluster_publisher_next(&publisher, 9 * S, &cluster), 0);

    mst_cluster_publisher_stir(&publisher); /* but nothing changed */
    assert_true(mst_cluster_publisher_deadline_ns(&publisher) <= 9 * S);
    assert_int_equal(mst_cluster_publisher_next(&publisher, 9 * S, &cluster), 0);
    assert_true(mst_cluster_publisher_deadline_ns(&publisher) == UINT64_MAX);

    cluster.counts.queued = 1;
    mst_cluster_publisher_stir(&publisher);
    assert_int_equal(mst_cluster_publisher_next(&publisher, 9 * S + S / 2, &cluster), 0);
    assert_int_equal(mst_cluster_publisher_deadline_ns(&publisher), 10 * S);
    assert_true(mst_cluster_publisher_next(&publisher, 10 * S, &cluster) > 0);
    assert_int_equal(told(&publisher).queued, 1);
}

/* A closure that waits grows older without a report: a reader knows the key's age. */
static void time_alone_is_no_news(void **state)
{
    struct mst_cluster cluster = quiet();
    struct mst_cluster_publisher publisher;

    (void)state;
    cluster.counts.oldest = 17;
    cluster.counts.oldest_waits = MST_WAIT_WORKERS;
    cluster.counts.oldest_function = mst_slice_text("resize");
    cluster.workers[1] = (struct mst_cluster_worker){.state = MST_WORKER_PRESENT,
                                                     .index = 7,
                                                     .oldest = 5,
                                                     .oldest_run_ns = S,
                                                     .oldest_function = mst_slice_text("train")};
    cluster.workers[0] = (struct mst_cluster_worker){.oldest = 6, .oldest_run_ns = 0};
    mst_cluster_publisher_init(&publisher, S);
    assert_true(mst_cluster_publisher_next(&publisher, S, &cluster) > 0);
    assert_int_equal(told(&publisher).oldest_ms, 1000);
    assert_string_equal(told(&publisher).oldest_function, "resize");
    assert_int_equal(told(&publisher).longest, 5);
    assert_int_equal(told(&publisher).longest_ms, 2000);
    assert_int_equal(told(&publisher).longest_worker, 7);
    assert_int_equal(told(&publisher).workers, 1); /* the other never came */
    assert_string_equal(told(&publisher).longest_function, "train");
    mst_cluster_publisher_stir(&publisher);
    assert_int_equal(mst_cluster_publisher_next(&publisher, 5 * S, &cluster), 0);
    cluster.counts.oldest_waits = MST_WAIT_SLOT; /* but another reason is */
    mst_cluster_publisher_stir(&publisher);
    assert_true(mst_cluster_publisher_next(&publisher, 6 * S, &cluster) > 0);
}

/* A cluster has nothing more to do. The last rate that is reported is 0. */
static void the_rate_goes_back_to_zero(void **state)
{
    struct mst_cluster cluster = quiet();
    struct mst_cluster_publisher publisher;

    (void)state;
    mst_cluster_publisher_init(&publisher, S);
    (void)mst_cluster_publisher_next(&publisher, S, &cluster);
    cluster.counts.values = 30;
    cluster.counts.failures = 2;
    cluster.counts.cancelled = 1;
    mst_cluster_publisher_stir(&publisher);
    assert_true(mst_cluster_publisher_next(&publisher, 3 * S, &cluster) > 0);
    assert_int_equal(told(&publisher).rate, 16500);
    assert_int_equal(mst_cluster_publisher_deadline_ns(&publisher), 4 * S);
    assert_true(mst_cluster_publisher_next(&publisher, 4 * S, &cluster) > 0);
    assert_int_equal(told(&publisher).rate, 0);
    assert_true(mst_cluster_publisher_deadline_ns(&publisher) == UINT64_MAX);
}

static void what_could_not_be_put_is_told_again(void **state)
{
    struct mst_cluster cluster = quiet();
    struct mst_cluster_publisher publisher;

    (void)state;
    mst_cluster_publisher_init(&publisher, S);
    assert_true(mst_cluster_publisher_next(&publisher, S, &cluster) > 0);
    mst_cluster_publisher_failed(&publisher);
    assert_int_equal(mst_cluster_publisher_next(&publisher, S, &cluster), 0);
    assert_int_equal(mst_cluster_publisher_deadline_ns(&publisher), 2 * S);
    assert_true(mst_cluster_publisher_next(&publisher, 2 * S, &cluster) > 0);
}

static void timers_are_told(void **state)
{
    struct mst_cluster cluster = quiet();
    struct mst_cluster_publisher publisher;
    struct mst_bounds others = {.count = 1, .ns = {S}};

    (void)state;
    mst_histogram_add(&cluster.times[MST_TIMER_RUN], S / 2, 3);
    mst_histogram_init(&cluster.times[MST_TIMER_FETCH], &others); /* not ours: left out */
    mst_histogram_add(&cluster.times[MST_TIMER_FETCH], S / 2, 3);
    mst_cluster_publisher_init(&publisher, S);
    assert_true(mst_cluster_publisher_next(&publisher, S, &cluster) > 0);
    {
        struct mst_cluster_status status = told(&publisher);

        assert_int_equal(mst_histogram_count(&status.times[MST_TIMER_RUN]), 3);
        assert_int_equal(mst_histogram_count(&status.times[MST_TIMER_FETCH]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(every_status_has_room),
        cmocka_unit_test(what_is_no_status_is_refused),
        cmocka_unit_test(too_long_a_status_is_refused),
        cmocka_unit_test(names_are_parts_of_keys),
        cmocka_unit_test(every_reason_has_its_words),
        cmocka_unit_test(it_is_told_once_a_second_and_only_news),
        cmocka_unit_test(time_alone_is_no_news),
        cmocka_unit_test(the_rate_goes_back_to_zero),
        cmocka_unit_test(what_could_not_be_put_is_told_again),
        cmocka_unit_test(timers_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
