/* SPDX-License-Identifier: Apache-2.0 */
/* One call that must arrive, and what a run's agent says that way, with a service that refuses as
 * the test says. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_client.h"
#include "launch/session.h"

#define MS UINT64_C(1000000)

static struct {
    struct mst_delivery delivery;
    muster_client *client;
    unsigned arrived;
    muster_status status;
} word;

static muster_status say(struct mst_delivery *delivery)
{
    const struct mst_request request = {.command = MST_LOST};

    assert_ptr_equal(delivery, &word.delivery);
    return mst_lib_post(delivery->client, &request, UINT64_MAX, &delivery->post);
}

static void arrived(struct mst_delivery *delivery, const struct mst_reply *reply)
{
    assert_false(delivery->owed);
    word.arrived++;
    word.status = reply->status;
}

static int set_up(void **state)
{
    (void)state;
    memset(&word, 0, sizeof(word));
    word.client = fake_client();
    word.delivery = (struct mst_delivery){.send = say, .arrived = arrived};
    return 0;
}

static void deliver(void)
{
    mst_deliver(&word.delivery, word.client);
}

static void sent(unsigned times)
{
    assert_int_equal(fake.count, times);
}

static void it_arrives_once(void **state)
{
    (void)state;
    deliver();
    sent(1);
    assert_true(word.delivery.owed);
    assert_int_equal(word.arrived, 0);
    fake_answer(MUSTER_OK);
    assert_int_equal(word.arrived, 1);
    assert_int_equal(word.status, MUSTER_OK);
    fake_pass(5000 * MS);
    sent(1);
    word.delivery.arrived = NULL;
    deliver();
    fake_answer(MUSTER_OK);
    assert_false(word.delivery.owed);
}

static void it_is_sent_again_while_there_is_no_room(void **state)
{
    static const muster_status refusals[] = {MUSTER_ENOMEM, MUSTER_ELIMIT, MUSTER_ENOSPACE};

    (void)state;
    deliver();
    for (unsigned i = 0; i < 3; i++) {
        uint64_t wait_ns = i == 0 ? 250 * MS : i == 1 ? 500 * MS : 1000 * MS;

        fake_answer(refusals[i]);
        assert_true(word.delivery.owed);
        fake_pass(wait_ns - 1);
        sent(i + 1);
        fake_pass(1);
        sent(i + 2);
    }
    fake_answer(MUSTER_EEXISTS); /* another answer is one */
    assert_int_equal(word.arrived, 1);
    assert_int_equal(word.status, MUSTER_EEXISTS);
    deliver(); /* the next one is in a hurry again */
    fake_answer(MUSTER_ENOMEM);
    fake_pass(250 * MS);
    sent(6);
}

static void what_could_not_be_posted_is_posted_later(void **state)
{
    (void)state;
    fake.refuses = MUSTER_ELIMIT;
    deliver();
    fake.refuses = MUSTER_OK;
    fake_pass(250 * MS);
    sent(2);
    fake_answer(MUSTER_OK);
    assert_int_equal(word.arrived, 1);
}

static void what_changes_on_its_way_is_sent_once_more(void **state)
{
    (void)state;
    deliver();
    deliver();
    deliver();
    sent(1);
    fake_answer(MUSTER_OK);
    assert_int_equal(word.arrived, 0);
    sent(2);
    fake_answer(MUSTER_OK);
    assert_int_equal(word.arrived, 1);
    sent(2);
}

static void what_changes_while_it_waits_is_sent_at_once(void **state)
{
    (void)state;
    deliver();
    fake_answer(MUSTER_ENOMEM);
    deliver();
    sent(2);
    fake_pass(5000 * MS);
    sent(2);
}

static void one_that_is_stopped_stays_owed(void **state)
{
    (void)state;
    mst_deliver_stop(&word.delivery);
    deliver();
    deliver();
    mst_deliver_stop(&word.delivery);
    assert_true(word.delivery.owed);
    assert_false(fake.posts[0]->open);
    deliver();
    sent(2);
    fake_answer(MUSTER_OK);
    assert_int_equal(word.arrived, 1);
    sent(2); /* what had changed was in it */
    deliver();
    fake_answer(MUSTER_ELIMIT);
    mst_deliver_stop(&word.delivery);
    fake_pass(5000 * MS);
    sent(3);
    assert_true(word.delivery.owed);
}

static void the_end_of_the_session_is_its_end(void **state)
{
    (void)state;
    deliver();
    fake_end(MUSTER_EFENCED);
    assert_int_equal(word.arrived, 1);
    assert_int_equal(word.status, MUSTER_EFENCED);
    deliver();
    assert_int_equal(word.arrived, 2);
    assert_false(word.delivery.owed);
}

static void one_that_outlives_it_is_for_the_next_session(void **state)
{
    (void)state;
    word.delivery.outlives = true;
    mst_deliver(&word.delivery, NULL); /* there is none yet */
    assert_true(word.delivery.owed);
    deliver();
    fake_end(MUSTER_EFENCED);
    assert_true(word.delivery.owed);
    deliver();
    assert_true(word.delivery.owed);
    assert_int_equal(word.arrived, 0);
    fake.status = fake.refuses = MUSTER_OK;
    deliver();
    fake_answer(MUSTER_EFENCED); /* said by the service, of the process */
    assert_false(word.delivery.owed);
    assert_int_equal(word.arrived, 1);
}

/* ---- a run's agent ---- */

static unsigned turns;

int uv_async_send(uv_async_t *async)
{
    (void)async;
    turns++;
    return 0;
}

static void session_open(struct mst_run_session *session)
{
    static struct mst_shared shared;

    turns = 0;
    *session = (struct mst_run_session){.client = fake_client(), .shared = &shared};
}

static void a_death_is_told_until_it_is_heard(void **state)
{
    struct mst_process process = {.index = 4, .pid = 77};
    struct mst_run_session session;

    (void)state;
    session_open(&session);
    (void)snprintf(process.why, sizeof process.why, "hung");
    mst_session_lost(&session, &process, MST_CAUSE_SIGNAL, 9);
    assert_int_equal(fake.requests[0].lost.index, 4);
    assert_int_equal(fake.requests[0].lost.cause, MST_CAUSE_SIGNAL);
    assert_int_equal(fake.requests[0].lost.code, 9);
    assert_int_equal(fake.requests[0].lost.text.size, 0);
    mst_session_lost(&session, &process, MST_CAUSE_HARD_TIMEOUT, 6);
    assert_int_equal(fake.requests[1].lost.text.size, 4);
    fake_answer(MUSTER_ENOSPACE);
    assert_false(mst_session_heard_all(&session, &process));
    fake_pass(250 * MS);
    sent(3);
    fake_answer(MUSTER_OK);
    assert_false(mst_session_heard_all(&session, &process)); /* the first word */
    mst_session_last(&session, &process);
    assert_int_equal(fake.requests[3].lost.pid, 77);
    assert_true(fake.requests[3].lost.last && !fake.requests[2].lost.last);
    fake_answer(MUSTER_OK);
    fake_end(MUSTER_ECANCELLED);
    assert_true(mst_session_heard_all(&session, &process));
}

static void an_unhealthy_process_is_told_with_its_error(void **state)
{
    struct mst_process process = {.index = 4, .pid = 77, .why = "no heartbeats"};
    struct mst_run_session session;

    (void)state;
    session_open(&session);
    mst_session_lost(&session, &process, MST_CAUSE_UNHEALTHY, 14);
    assert_int_equal(fake.requests[0].lost.pid, 77);
    assert_int_equal(fake.requests[0].lost.cause, MST_CAUSE_UNHEALTHY);
    assert_int_equal(fake.requests[0].lost.code, 14);
    assert_int_equal(fake.requests[0].lost.text.size, sizeof "no heartbeats" - 1);
    fake_answer(MUSTER_OK);
    fake_end(MUSTER_ECANCELLED);
}

static void a_note_is_written_until_there_is_room(void **state)
{
    struct mst_run_session session;
    struct mst_note note = {.insert = true, .key = "k"};
    muster_status status = MUSTER_OK;

    (void)state;
    session_open(&session);
    mst_session_write(&session, &note, "1");
    fake_answer(MUSTER_ELIMIT);
    assert_false(mst_session_told(&session, &note, &status));
    fake_pass(250 * MS);
    sent(2);
    fake_answer(MUSTER_EEXISTS);
    assert_true(mst_session_told(&session, &note, &status));
    assert_int_equal(status, MUSTER_EEXISTS);
    assert_int_equal(turns, 1);
    mst_session_write(&session, &note, "2");
    assert_false(mst_session_told(&session, &note, &status));
    mst_session_write(&session, &note, "3");
    fake_answer(MUSTER_OK);
    assert_false(mst_session_told(&session, &note, &status));
    fake_answer(MUSTER_OK);
    assert_true(mst_session_told(&session, &note, &status));
}

static void a_counter_is_answered_once_for_each_time(void **state)
{
    struct mst_run_session session;
    struct mst_counter counter = {.asked = 0};
    int64_t sum = 0;

    (void)state;
    session_open(&session);
    mst_session_ask(&session, &counter);
    mst_session_ask(&session, &counter);
    sent(1);
    fake_answer(MUSTER_ENOMEM);
    assert_false(mst_session_answer(&session, &counter, &sum));
    fake_pass(250 * MS);
    fake_reply(&(struct mst_reply){.status = MUSTER_OK, .number = 5});
    assert_int_equal(turns, 1);
    assert_true(mst_session_answer(&session, &counter, &sum));
    assert_int_equal(sum, 5);
    assert_false(mst_session_answer(&session, &counter, &sum));
    sent(3);
    fake_answer(MUSTER_EINVAL);
    assert_true(mst_session_answer(&session, &counter, &sum));
    assert_true(sum == INT64_MAX);
    sent(3); /* none is asked for any more */
    mst_session_ask(&session, &counter);
    fake_end(MUSTER_EFENCED); /* what becomes of the session decides */
    assert_false(mst_session_answer(&session, &counter, &sum));
}

static void a_hang_is_told_until_it_is_heard(void **state)
{
    struct mst_stalled is = {
        .generation = 3, .pid = 77, .index = 4, .named = true, .text = "made no progress"};
    struct mst_stall stall = {.text = ""};
    muster_client *client = fake_client();

    (void)state;
    mst_stall_set(&stall, client, &is);
    assert_true(mst_stall_owed(&stall, client));
    fake_answer(MUSTER_ELIMIT);
    assert_true(mst_stall_owed(&stall, client));
    is.generation = 4; /* the newest counts */
    mst_stall_set(&stall, client, &is);
    sent(2);
    assert_int_equal(fake.requests[1].fault.generation, 4);
    fake_answer(MUSTER_ELIMIT);
    fake_pass(1000 * MS);
    sent(3);
    fake_answer(MUSTER_EFENCED); /* that generation is over */
    assert_false(mst_stall_owed(&stall, client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_arrives_once, set_up),
        cmocka_unit_test_setup(it_is_sent_again_while_there_is_no_room, set_up),
        cmocka_unit_test_setup(what_could_not_be_posted_is_posted_later, set_up),
        cmocka_unit_test_setup(what_changes_on_its_way_is_sent_once_more, set_up),
        cmocka_unit_test_setup(what_changes_while_it_waits_is_sent_at_once, set_up),
        cmocka_unit_test_setup(one_that_is_stopped_stays_owed, set_up),
        cmocka_unit_test_setup(the_end_of_the_session_is_its_end, set_up),
        cmocka_unit_test_setup(one_that_outlives_it_is_for_the_next_session, set_up),
        cmocka_unit_test(a_death_is_told_until_it_is_heard),
        cmocka_unit_test(an_unhealthy_process_is_told_with_its_error),
        cmocka_unit_test(a_note_is_written_until_there_is_room),
        cmocka_unit_test(a_counter_is_answered_once_for_each_time),
        cmocka_unit_test(a_hang_is_told_until_it_is_heard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
