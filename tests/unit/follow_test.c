/* SPDX-License-Identifier: Apache-2.0 */
/* A watch that goes on, and that of a run's agent, with a service that refuses as the test says. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/shell/follow.h"
#include "fake_client.h"
#include "launch/session.h"

#define MS UINT64_C(1000000)

/* ---- what takes it ---- */

static struct {
    struct mst_lib_follow follow;
    muster_client *client;
    muster_status says; /* of each reply */
    unsigned taken, over;
    muster_status over_by;
} taker;

static muster_status take(void *ctx, const struct mst_reply *reply)
{
    assert_ptr_equal(ctx, &taker);
    assert_int_equal(reply->status, MUSTER_OK);
    taker.taken++;
    return taker.says;
}

static void over(void *ctx, muster_status status)
{
    assert_ptr_equal(ctx, &taker);
    taker.over++;
    taker.over_by = status;
}

static int set_up(void **state)
{
    (void)state;
    memset(&taker, 0, sizeof(taker));
    taker.client = fake_client();
    taker.follow = (struct mst_lib_follow){.take = take, .over = over, .ctx = &taker};
    return 0;
}

static void follow(void)
{
    mst_lib_follow(&taker.follow, taker.client, MST_WATCH_KEYS, mst_slice_text("a/"), 3);
}

static void tell(uint64_t revision)
{
    fake_reply(&(struct mst_reply){.status = MUSTER_OK, .revision = revision});
}

static uint64_t after(void)
{
    return fake.requests[fake.count - 1].watch.after;
}

static void asked(unsigned times)
{
    assert_int_equal(fake.count, times);
}

/* ---- the rules ---- */

static void waits_grow_and_have_a_bound(void **state)
{
    (void)state;
    assert_int_equal(mst_retry_after_ns(1), 250 * MS);
    assert_int_equal(mst_retry_after_ns(2), 500 * MS);
    assert_int_equal(mst_retry_after_ns(3), 1000 * MS);
    assert_int_equal(mst_retry_after_ns(UINT32_MAX), 1000 * MS);
}

static void only_want_of_room_passes(void **state)
{
    static const muster_status passes[] = {MUSTER_ENOMEM, MUSTER_ELIMIT, MUSTER_ENOSPACE};
    static const muster_status stays[] = {MUSTER_OK, MUSTER_EFENCED, MUSTER_ECANCELLED,
                                          MUSTER_EEXISTS, MUSTER_EINVAL};

    (void)state;
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        assert_true(mst_retry_helps(passes[i]));
    }
    for (size_t i = 0; i < sizeof(stays) / sizeof(stays[0]); i++) {
        assert_false(mst_retry_helps(stays[i]));
    }
}

static void each_request_is_for_what_follows(void **state)
{
    const struct mst_request *request = &fake.requests[0];

    (void)state;
    follow();
    assert_int_equal(request->command, MST_WATCH);
    assert_int_equal(request->watch.kinds, MST_WATCH_KEYS);
    assert_true(mst_slice_equal(request->watch.prefix, mst_slice_text("a/")));
    assert_int_equal(request->watch.node, 3);
    assert_int_equal(request->watch.generation, 0);
    assert_int_equal(request->watch.after, 0);
    tell(7);
    asked(2);
    assert_int_equal(after(), 7);
    tell(9);
    assert_int_equal(after(), 9);
    assert_int_equal(taker.taken, 2);
    assert_int_equal(fake.requests[2].watch.kinds, MST_WATCH_KEYS);
}

static void what_was_refused_is_asked_again(void **state)
{
    static const muster_status refusals[] = {MUSTER_ENOMEM, MUSTER_ELIMIT, MUSTER_EINVAL};

    (void)state;
    follow();
    tell(7);
    for (unsigned i = 0; i < 3; i++) {
        fake_answer(refusals[i]);
        fake_pass(mst_retry_after_ns(i + 1) - 1);
        asked(2 + i);
        fake_pass(1);
        asked(3 + i);
        assert_int_equal(after(), 7);
    }
    assert_int_equal(taker.taken, 1);
    tell(8); /* and then it is in a hurry again */
    asked(6);
    fake_answer(MUSTER_ENOMEM);
    fake_pass(250 * MS);
    asked(7);
    assert_int_equal(after(), 8);
    assert_int_equal(taker.over, 0);
}

static void what_could_not_be_posted_is_posted_later(void **state)
{
    (void)state;
    fake.refuses = MUSTER_ELIMIT;
    follow();
    asked(1);
    fake.refuses = MUSTER_OK;
    fake_pass(250 * MS);
    asked(2);
    tell(4);
    assert_int_equal(taker.taken, 1);
}

static void what_found_no_memory_here_is_told_again(void **state)
{
    (void)state;
    follow();
    tell(7);
    taker.says = MUSTER_ENOMEM;
    tell(9);
    asked(2);
    fake_pass(250 * MS);
    asked(3);
    assert_int_equal(after(), 7);
}

static void one_that_has_enough_is_asked_nothing_more(void **state)
{
    (void)state;
    follow();
    taker.says = MUSTER_EFENCED;
    tell(7);
    fake_pass(5000 * MS);
    asked(1);
    assert_int_equal(taker.over, 0);
}

static void one_that_pauses_goes_on_where_it_was(void **state)
{
    (void)state;
    follow();
    taker.says = MUSTER_MORE;
    tell(7);
    fake_pass(5000 * MS);
    asked(1);
    mst_lib_follow_on(&taker.follow);
    asked(2);
    assert_int_equal(after(), 7);
}

static void the_end_of_the_session_ends_it(void **state)
{
    (void)state;
    follow();
    fake_end(MUSTER_EFENCED);
    assert_int_equal(taker.over, 1);
    assert_int_equal(taker.over_by, MUSTER_EFENCED);
    fake_pass(5000 * MS);
    asked(1);
    follow(); /* of that session */
    assert_int_equal(taker.over, 2);
    taker.follow.over = NULL;
    follow();
}

/* The word of the service comes before the client knows that its session is over. */
static void a_service_that_fences_ends_it_at_once(void **state)
{
    (void)state;
    follow();
    fake_answer(MUSTER_EFENCED);
    assert_int_equal(taker.over, 1);
    assert_int_equal(taker.over_by, MUSTER_EFENCED);
    fake_pass(5000 * MS);
    asked(1);
}

static void nothing_is_asked_once_it_is_ended(void **state)
{
    (void)state;
    mst_lib_follow_end(&taker.follow);
    follow();
    mst_lib_follow_end(&taker.follow);
    assert_false(fake.posts[0]->open);
    follow();
    fake_answer(MUSTER_ENOMEM);
    mst_lib_follow_end(&taker.follow);
    fake_pass(5000 * MS);
    asked(2);
}

static void it_begins_anew_for_something_else(void **state)
{
    (void)state;
    follow();
    tell(7);
    fake_answer(MUSTER_ENOMEM);
    mst_lib_follow(&taker.follow, taker.client, MST_WATCH_MEMBERS, mst_slice_text(""),
                   MST_NODE_NONE);
    asked(3);
    assert_int_equal(after(), 0);
    assert_int_equal(fake.requests[2].watch.kinds, MST_WATCH_MEMBERS);
    assert_int_equal(fake.requests[2].watch.node, MST_NODE_NONE);
    fake_pass(5000 * MS); /* and not for that one as well */
    asked(3);
    fake_answer(MUSTER_ENOMEM);
    fake_pass(250 * MS);
    asked(4);
}

/* ---- a run's agent ---- */

static unsigned turns, resets, fences;

int uv_async_send(uv_async_t *async)
{
    (void)async;
    return 0;
}

static muster_status take_turn(void *ctx, const struct mst_reply *reply)
{
    assert_ptr_equal(ctx, &turns);
    if (reply->item_count == 1 && reply->items[0].kind == MST_ITEM_RESET) {
        assert_false(mst_follow_listed(reply));
        resets++;
    } else {
        turns += mst_follow_listed(reply);
    }
    return MUSTER_OK;
}

static void on_over(void *ctx, muster_status status)
{
    fences += ctx == &turns && status == MUSTER_EFENCED;
}

static void watch(struct mst_run_session *session, uint32_t node)
{
    turns = resets = fences = 0;
    session->client = fake_client();
    session->follow = (struct mst_lib_follow){.take = take_turn, .over = on_over, .ctx = &turns};
    mst_session_watch(session, node);
}

/* Also on one node, where nothing else looks after it. */
static void an_agent_whose_watch_is_refused_asks_again(void **state)
{
    struct mst_run_session session = {0};

    (void)state;
    watch(&session, MST_NODE_NONE);
    fake_answer(MUSTER_ENOMEM);
    fake_pass(1000 * MS);
    asked(2);
    fake_answer(MUSTER_ELIMIT);
    fake_pass(1000 * MS);
    asked(3);
    tell(5);
    asked(4);
    assert_int_equal(turns, 1);
    fake_end(MUSTER_EFENCED);
    assert_int_equal(fences, 1);
}

static void a_node_follows_itself_until_it_follows_all(void **state)
{
    struct mst_run_session session = {0};

    (void)state;
    watch(&session, 2);
    assert_int_equal(fake.requests[0].watch.node, 2);
    assert_int_equal(fake.requests[0].watch.kinds, MST_WATCH_MEMBERS | MST_WATCH_KEYS);
    assert_int_equal(fake.requests[0].watch.prefix.size, strlen("muster/run/"));
    tell(5);
    mst_session_widen(&session);
    assert_int_equal(resets, 1);
    assert_int_equal(fake.drops, 1); /* what comes next of it is not heeded */
    asked(3);
    assert_int_equal(after(), 0);
    assert_int_equal(fake.requests[2].watch.node, MST_NODE_NONE);
    assert_int_equal(fake.requests[2].watch.kinds,
                     MST_WATCH_MEMBERS | MST_WATCH_KEYS | MST_WATCH_FAULTS | MST_WATCH_VIEW);
    assert_int_equal(fake.requests[2].watch.prefix.size, strlen("muster/run"));
    fake_end(MUSTER_ECANCELLED);
    assert_int_equal(fences, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_grow_and_have_a_bound),
        cmocka_unit_test(only_want_of_room_passes),
        cmocka_unit_test_setup(each_request_is_for_what_follows, set_up),
        cmocka_unit_test_setup(what_was_refused_is_asked_again, set_up),
        cmocka_unit_test_setup(what_could_not_be_posted_is_posted_later, set_up),
        cmocka_unit_test_setup(what_found_no_memory_here_is_told_again, set_up),
        cmocka_unit_test_setup(one_that_has_enough_is_asked_nothing_more, set_up),
        cmocka_unit_test_setup(one_that_pauses_goes_on_where_it_was, set_up),
        cmocka_unit_test_setup(the_end_of_the_session_ends_it, set_up),
        cmocka_unit_test_setup(a_service_that_fences_ends_it_at_once, set_up),
        cmocka_unit_test_setup(nothing_is_asked_once_it_is_ended, set_up),
        cmocka_unit_test_setup(it_begins_anew_for_something_else, set_up),
        cmocka_unit_test(an_agent_whose_watch_is_refused_asks_again),
        cmocka_unit_test(a_node_follows_itself_until_it_follows_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
