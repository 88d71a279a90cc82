/* SPDX-License-Identifier: Apache-2.0 */
/* The client machine, one story per rule. The lease is 10 s: a renewal each 2 s, the self-stop
 * after 8 s, a connection without an answer for 4 s counts as dead.
 *
 * behaviour: sessions / The client's side */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/machine.h"
#include "client_stage.h"
#include "proto/limit_kinds.h"

/* A session is opened. The client gets the lease, its index and its incarnation.
 * [Silence and coming back] */
static void opens_a_session(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_expect(&stage, "");
    mst_client_start(stage.client, stage.now_ns);
    stage_expect(&stage, "connect 0");
    assert_int_equal(stage_call(&stage, stage_put(), 0, 5), MUSTER_OK);
    stage_expect(&stage, ""); /* waits for the session */
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "send open 1/1 incarnation 0");
    assert_false(mst_client_online(stage.client));
    stage_reply(&stage, stage_opened(&stage, 1));
    stage_expect(&stage, "send watch 1/1; send write 2/2; attention");
    assert_true(mst_client_online(stage.client));
    assert_int_equal(mst_client_lease_ns(stage.client), 10000 * MS);
    assert_int_equal(mst_client_view(stage.client)->incarnation, 4);
    stage_answer(&stage, 2, MST_WRITE, MUSTER_OK);
    stage_expect(&stage, "done 5 OK");
    stage_fini(&stage);
}

/* A client has nothing else to send. Its lease is renewed each fifth of it. What counts is when
 * the renewal was sent. */
static void renews_and_stops_itself(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage); /* at 1 ms, which counts as renewed */
    assert_int_equal(mst_client_deadline_ns(stage.client), 2001 * MS);
    stage_at(&stage, 2000);
    stage_expect(&stage, "");
    stage_at(&stage, 2001);
    stage_expect(&stage, "send renew 2/2");
    stage_at(&stage, 3000);
    stage_answer(&stage, 2, MST_RENEW, MUSTER_OK);
    /* It counts from when it was sent, not from when it was answered. */
    assert_int_equal(mst_client_deadline_ns(stage.client), 4001 * MS);
    stage_at(&stage, 4001);
    stage_expect(&stage, "send renew 3/3");
    stage_at(&stage, 8001);
    stage_expect(&stage, "disconnect"); /* no answer for 4 s */
    stage_at(&stage, 8020);
    stage_expect(&stage, "connect 1");
    stage_at(&stage, 10000);
    assert_false(mst_client_stopped(stage.client));
    stage_at(&stage, 10001); /* 8 s after the last answered one was sent */
    assert_true(mst_client_stopped(stage.client));
    stage_expect(&stage, "attention stopped");
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "send open 4/4 incarnation 4");
    stage_reply(&stage, stage_opened(&stage, 4));
    /* To be resumed is not to be renewed. */
    stage_expect(&stage, "send renew 4/4; send watch 5/5");
    assert_true(mst_client_stopped(stage.client));
    stage_answer(&stage, 4, MST_RENEW, MUSTER_OK);
    stage_expect(&stage, "attention");
    assert_false(mst_client_stopped(stage.client));
    stage_fini(&stage);
}

/* A long answer stands before that to the renewal. The connection lives, and the lease ends. */
static void what_still_comes_is_no_silence(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    stage_at(&stage, 2001);
    stage_expect(&stage, "send renew 2/2");
    for (uint64_t at_ms = 3000; at_ms <= 9000; at_ms += 3000) {
        mst_client_heard(stage.client, at_ms * MS);
        stage_at(&stage, at_ms);
    }
    stage_expect(&stage, "attention stopped"); /* 8 s after the last answered one was sent */
    assert_true(mst_client_online(stage.client));
    stage_at(&stage, 12999);
    stage_expect(&stage, "");
    stage_at(&stage, 13000);
    stage_expect(&stage, "disconnect");
    stage_fini(&stage);
}

/* A client has asked nothing. Nothing has to come: the time for an answer begins with the
 * renewal. */
static void who_was_not_asked_is_not_silent(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    stage_at(&stage, 2001);
    stage_expect(&stage, "send renew 2/2");
    stage_at(&stage, 6000);
    stage_expect(&stage, "");
    stage_at(&stage, 6001); /* two fifths of the lease later */
    stage_expect(&stage, "disconnect");
    stage_fini(&stage);
}

/* A rank has stopped itself, and its connection lives: its agent is silent. What it asks waits
 * until a renewal is answered well; it takes part in nothing before. */
static void who_has_stopped_itself_takes_no_part(void **state)
{
    struct stage stage;
    size_t calls = 0;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    for (uint64_t at_ms = 2001; at_ms <= 9000; at_ms += 1000) {
        stage_at(&stage, at_ms);
        if (stage.sent_count > 0) {
            stage_answer(&stage, stage.sent[stage.sent_count - 1].id, MST_RENEW, MUSTER_ETIMEDOUT);
        }
    }
    assert_true(mst_client_stopped(stage.client));
    assert_true(mst_client_online(stage.client));
    stage_forget(&stage);
    assert_int_equal(stage_call(&stage, stage_put(), 0, 7), MUSTER_OK);
    stage_drain(&stage);
    assert_int_equal(stage.sent_count, 0);
    while (mst_client_stopped(stage.client)) {
        assert_true(calls++ < 10);
        stage_at(&stage, stage.now_ns / MS + 1000);
        if (stage.sent_count > 0) {
            assert_int_equal(stage.sent[0].command, MST_RENEW);
            assert_int_equal(stage.sent_count, 1);
            stage_answer(&stage, stage.sent[0].id, MST_RENEW, MUSTER_OK);
        }
    }
    assert_int_equal(stage.sent_count, 1);
    assert_int_equal(stage.sent[0].command, MST_WRITE);
    stage_fini(&stage);
}

/* No endpoint answers. The client tries them in turn, with a wait that doubles up to a second. */
static void backs_off_round_the_endpoints(void **state)
{
    struct stage stage;
    uint64_t most_ms = 10;
    uint32_t endpoint = 0;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    mst_client_start(stage.client, stage.now_ns);
    stage_expect(&stage, "connect 0");
    for (int attempt = 0; attempt < 12; attempt++) {
        uint64_t wait_ns;

        mst_client_disconnected(stage.client, stage.now_ns);
        stage_expect(&stage, "");
        wait_ns = mst_client_deadline_ns(stage.client) - stage.now_ns;
        assert_in_range(wait_ns, most_ms * MS / 2, most_ms * MS);
        most_ms = most_ms * 2 > 1000 ? 1000 : most_ms * 2;
        endpoint = 1 - endpoint;
        stage.now_ns += wait_ns;
        mst_client_tick(stage.client, stage.now_ns);
        stage_expect(&stage, endpoint ? "connect 1" : "connect 0");
    }
    stage_fini(&stage);
}

/* A connection does not answer. It is given up, and the next address is tried. */
static void gives_up_an_attempt(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    mst_client_start(stage.client, stage.now_ns);
    stage_expect(&stage, "connect 0");
    stage_at(&stage, 4001);
    stage_expect(&stage, "disconnect"); /* nobody answers the connect */
    stage_at(&stage, 4020);
    stage_expect(&stage, "connect 1");
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "send open 1/1 incarnation 0");
    stage_at(&stage, 8020);
    stage_expect(&stage, "disconnect"); /* or the open */
    stage_fini(&stage);
}

/* A connection is lost with requests unanswered. Writes are sent again under their numbers, the
 * rest under new ones. Each call ends once, and each addition reaches the sum once.
 * [Requests that are repeated] */
static void repeats_after_a_resume(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_put(), 0, 10);
    (void)stage_call(&stage, stage_get(), 0, 11);
    (void)stage_call(&stage, stage_put(), 0, 12);
    stage_expect(&stage, "send write 2/2; send get 3/2; send write 4/2");
    mst_client_disconnected(stage.client, stage.now_ns);
    (void)stage_call(&stage, stage_put(), 0, 13);
    stage_at(&stage, 12);
    stage_expect(&stage, "connect 1");
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "send open 5/2 incarnation 4");
    assert_int_equal(mst_client_view(stage.client)->incarnation, 4);
    stage_reply(&stage, stage_opened(&stage, 5));
    /* The writes under their numbers, in order; then the rest under new ones. */
    stage_expect(&stage, "send renew 5/2; send watch 6/2; send write 2/2; send write 4/2; "
                         "send get 7/2; send write 8/2");
    stage_answer(&stage, 3, MST_GET, MUSTER_OK); /* of the old number: nobody's */
    stage_expect(&stage, "");
    stage_answer(&stage, 2, MST_WRITE, MUSTER_OK);
    stage_answer(&stage, 2, MST_WRITE, MUSTER_OK); /* twice is once */
    stage_answer(&stage, 7, MST_GET, MUSTER_OK);
    stage_answer(&stage, 8, MST_WRITE, MUSTER_EEXISTS);
    stage_answer(&stage, 4, MST_WRITE, MUSTER_OK);
    stage_expect(&stage, "done 10 OK; done 11 OK; done 13 EEXISTS; done 12 OK");
    stage_fini(&stage);
}

/* An observer comes back after its session was forgotten. It does not return as a new one, which
 * would let its writes be applied twice: it is refused. */
static void an_observer_does_not_return_as_somebody_new(void **state)
{
    struct stage stage;
    struct mst_reply reply;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    mst_client_start(stage.client, stage.now_ns);
    stage_drain(&stage);
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "connect 0; send open 1/1 incarnation 0");
    reply = stage_opened(&stage, 1);
    reply.view.incarnation = 0;
    stage_reply(&stage, reply);
    (void)stage_call(&stage, stage_put(), 0, 10);
    stage_drain(&stage);
    mst_client_disconnected(stage.client, stage.now_ns);
    stage_at(&stage, 12);
    stage_forget(&stage);
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "send open 3/2 incarnation 1");
    stage_answer(&stage, 3, MST_OPEN, MUSTER_EFENCED);
    stage_expect(&stage, "disconnect; done 10 EFENCED here; ended EFENCED");
    stage_fini(&stage);
}

/* A call's time is over. The client asks the service which ranks are missing, for at most a
 * second, and ends with the names. [Deadlines and cancelling] */
static void names_who_is_missing_at_a_deadline(void **state)
{
    struct stage stage;
    struct mst_reply reply = {.id = 2, .command = MST_GET, .status = MUSTER_ECANCELLED};

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 100, 10);
    stage_expect(&stage, "send get 2/2");
    assert_int_equal(mst_client_deadline_ns(stage.client), 100 * MS);
    stage_at(&stage, 100);
    stage_expect(&stage, "send cancel 3/3 of 2");
    reply.has_detail = true;
    reply.detail.missing = 3;
    stage_reply(&stage, reply);
    stage_expect(&stage, "done 10 ETIMEDOUT here");
    assert_int_equal(stage.detail.missing, 3);
    stage_answer(&stage, 3, MST_CANCEL, MUSTER_OK);
    stage_expect(&stage, "");
    stage_fini(&stage);
}

/* A call's time is over and the service does not answer. The names of the missing are waited for
 * no longer than a second, and not beyond the end of the program that asked.
 * [program / muster key] */
static void names_are_waited_for_so_long(void **state)
{
    const uint64_t ends_ms[] = {0, 350}, gives_up_ms[] = {1100, 350};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct stage stage;

        assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
        if (ends_ms[i] != 0) {
            stage.client->end_ns = ends_ms[i] * MS;
        }
        stage_open(&stage);
        (void)stage_call(&stage, stage_get(), 100, 10);
        stage_expect(&stage, "send get 2/2");
        stage_at(&stage, 100);
        stage_expect(&stage, "send cancel 3/3 of 2");
        stage_at(&stage, gives_up_ms[i] - 1);
        stage_expect(&stage, "");
        stage_at(&stage, gives_up_ms[i]);
        stage_expect(&stage, "done 10 ETIMEDOUT here");
        stage_fini(&stage);
    }
}

/* The answer arrives at the deadline. The answer counts. [Deadlines and cancelling] */
static void a_reply_beats_its_deadline(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 100, 10);
    stage_drain(&stage);
    stage_at(&stage, 100);
    stage_forget(&stage);
    stage_answer(&stage, 2, MST_GET, MUSTER_OK); /* it was on its way */
    stage_expect(&stage, "done 10 OK");
    stage_fini(&stage);
}

/* The service does not say which ranks are missing. The call ends a second after its deadline.
 * [Deadlines and cancelling] */
static void a_deadline_waits_no_longer_than_a_second(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 100, 10);
    (void)stage_call(&stage, stage_put(), 200, 11); /* no names belong to a write */
    stage_expect(&stage, "send get 2/2; send write 3/3");
    stage_at(&stage, 200);
    stage_expect(&stage, "send cancel 4/4 of 2; done 11 ETIMEDOUT here");
    stage_at(&stage, 1199);
    stage_expect(&stage, "");
    stage_at(&stage, 1200);
    stage_expect(&stage, "done 10 ETIMEDOUT here");
    stage_fini(&stage);
}

/* A call's time is over without a connection. It ends at once. [Deadlines and cancelling] */
static void a_deadline_ends_at_once_without_a_connection(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 100, 10);
    (void)stage_call(&stage, stage_get(), 50, 11);
    stage_drain(&stage);
    stage_at(&stage, 50);
    stage_expect(&stage, "send get 2/2; send get 3/3; send cancel 4/4 of 3");
    mst_client_disconnected(stage.client, stage.now_ns);
    stage_expect(&stage, "done 11 ETIMEDOUT here");
    stage_at(&stage, 100);
    stage_expect(&stage, "connect 1; done 10 ETIMEDOUT here");
    stage_fini(&stage);
}

/* A waiting request is cancelled. It ends as cancelled, and the caller learns whether it was
 * still waiting. [Deadlines and cancelling] */
static void a_cancelled_call_ends_with_the_service_s_word(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 0, 10);
    (void)stage_call(&stage, stage_get(), 0, 11);
    stage_expect(&stage, "send get 2/2; send get 3/3");
    mst_client_cancel(stage.client, stage.now_ns, 10);
    mst_client_cancel(stage.client, stage.now_ns, 10);
    stage_expect(&stage, "send cancel 4/4 of 2");
    mst_client_disconnected(stage.client, stage.now_ns);
    stage_at(&stage, 12);
    mst_client_connected(stage.client, stage.now_ns);
    stage_drain(&stage);
    stage_forget(&stage);
    stage_reply(&stage, stage_opened(&stage, 5));
    /* Sent again, and cancelled again: only the service knows what was decided. */
    stage_expect(&stage, "send renew 5/5; send watch 6/6; send get 7/7; send cancel 8/8 of 7; "
                         "send get 9/9");
    stage_answer(&stage, 7, MST_GET, MUSTER_ECANCELLED);
    stage_answer(&stage, 9, MST_GET, MUSTER_OK);
    stage_expect(&stage, "done 10 ECANCELLED; done 11 OK");
    (void)stage_call(&stage, stage_get(), 0, 12); /* never sent: nobody else knows it */
    mst_client_cancel(stage.client, stage.now_ns, 12);
    stage_expect(&stage, "done 12 ECANCELLED here");
    stage_fini(&stage);
}

/* A call is dropped. Its answer is thrown away. [Deadlines and cancelling] */
static void a_dropped_call_is_heard_of_no_more(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 100, 10);
    (void)stage_call(&stage, stage_put(), 100, 11);
    stage_expect(&stage, "send get 2/2; send write 3/3");
    (void)stage_call(&stage, stage_put(), 100, 12);
    mst_client_drop(stage.client, stage.now_ns, 12);
    mst_client_drop(stage.client, stage.now_ns, 11);
    mst_client_drop(stage.client, stage.now_ns, 10);
    mst_client_drop(stage.client, stage.now_ns, 10);
    stage_expect(&stage, "send cancel 4/4 of 2");
    stage_answer(&stage, 2, MST_GET, MUSTER_ECANCELLED);
    stage_answer(&stage, 3, MST_WRITE, MUSTER_OK);
    stage_at(&stage, 200);
    stage_expect(&stage, "");
    (void)stage_call(&stage, stage_get(), 0, 13);
    stage_drain(&stage);
    mst_client_drop(stage.client, stage.now_ns, 13); /* its CANCEL is never sent */
    stage_fini(&stage);
}

/* Many writes are sent without waiting. The client keeps to the window and still renews its
 * lease. [Requests that are repeated] */
static void the_window_holds_writes_back(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    for (uint64_t tag = 1; tag <= 100; tag++) {
        assert_int_equal(stage_call(&stage, stage_put(), 0, tag), MUSTER_OK);
    }
    stage_drain(&stage);
    assert_int_equal(stage.sent_count, MST_WINDOW - 8);
    stage_forget(&stage);
    stage_at(&stage, 2001); /* a full window does not keep the lease from being renewed */
    stage_expect(&stage, "send renew 58/2");
    stage_answer(&stage, 3, MST_WRITE, MUSTER_OK); /* the oldest is still open */
    stage_expect(&stage, "done 2 OK");
    stage_answer(&stage, 2, MST_WRITE, MUSTER_OK);
    stage_expect(&stage, "send write 59/4; done 1 OK");
    stage_fini(&stage);
}

static void refuse_waits(struct stage *stage, uint64_t id)
{
    struct mst_reply reply = {
        .id = id, .command = MST_GET, .status = MUSTER_ELIMIT, .has_detail = true};

    reply.detail.limit_kind = MST_LIMIT_WAITING;
    reply.detail.limit = 256;
    mst_client_reply(stage->client, stage->now_ns, &reply);
}

/* Thousands of calls wait for something. They hold no part of the window: all of them are with the
 * service, and another call is sent at once. [Requests that are repeated] */
static void waits_leave_the_window_to_others(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    for (uint64_t tag = 1; tag <= 3000; tag++) {
        assert_int_equal(stage_call(&stage, stage_get(), 0, tag), MUSTER_OK);
        stage_drain(&stage);
        assert_int_equal(stage.sent_count, 1);
        stage_forget(&stage);
    }
    (void)stage_call(&stage, stage_put(), 0, 10000);
    stage_drain(&stage);
    stage_expect(&stage, "send write 3002/3002");
    stage_answer(&stage, 3002, MST_WRITE, MUSTER_OK);
    stage_expect(&stage, "done 10000 OK");
    mst_client_cancel(stage.client, stage.now_ns, 2000);
    stage_drain(&stage);
    stage_expect(&stage, "send cancel 3003/3003 of 2001");
    stage_answer(&stage, 2001, MST_GET, MUSTER_ECANCELLED);
    stage_expect(&stage, "done 2000 ECANCELLED");
    stage_fini(&stage);
}

/* A service before 0.2 takes 256 waits of a connection and refuses one more. The refused call waits
 * in the client for its turn, and so do later ones while 240 are with the service. */
static void an_older_service_has_its_own_limit_of_waits(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    for (uint64_t tag = 1; tag <= 241; tag++) {
        (void)stage_call(&stage, stage_get(), 0, tag);
    }
    stage_drain(&stage);
    assert_int_equal(stage.sent_count, 241);
    stage_forget(&stage);
    refuse_waits(&stage, 242);
    stage_drain(&stage);
    stage_expect(&stage, "");
    (void)stage_call(&stage, stage_get(), 0, 300);
    stage_drain(&stage);
    stage_expect(&stage, "");
    stage_answer(&stage, 2, MST_GET, MUSTER_OK);
    stage_expect(&stage, "send get 243/243; done 1 OK");
    stage_answer(&stage, 3, MST_GET, MUSTER_OK);
    stage_expect(&stage, "send get 244/244; done 2 OK");
    stage_fini(&stage);
}

/* Calls that wait hold as much memory as a client may have for them. One more is refused (ELIMIT);
 * a call that does not wait is not, and one that ends makes room. */
static void calls_that_wait_have_a_limit_of_memory(void **state)
{
    static char name[60000];
    struct mst_request get = {.command = MST_GET, .get = {.wait = true}};
    struct stage stage;
    uint64_t tag = 1;

    (void)state;
    memset(name, 'x', sizeof(name));
    get.get.key = mst_slice_of(name, sizeof(name));
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    while (stage_call(&stage, get, 0, tag) == MUSTER_OK) {
        tag++;
    }
    assert_in_range(tag, MST_CLIENT_WAIT_BYTES_MAX / 62000, MST_CLIENT_WAIT_BYTES_MAX / 60000);
    assert_int_equal(stage_call(&stage, get, 0, tag), MUSTER_ELIMIT);
    assert_int_equal(stage_call(&stage, stage_put(), 0, 100000), MUSTER_OK);
    mst_client_drop(stage.client, stage.now_ns, 1);
    assert_int_equal(stage_call(&stage, get, 0, tag), MUSTER_OK);
    stage_fini(&stage);
}

/* A waiting call is dropped. Its memory stays until the service has answered, or the connection is
 * lost. [Requests that are repeated] */
static void a_dropped_wait_keeps_its_place(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    for (uint64_t tag = 1; tag <= 2; tag++) {
        (void)stage_call(&stage, stage_get(), 0, tag);
    }
    stage_drain(&stage);
    stage_forget(&stage);
    mst_client_drop(stage.client, stage.now_ns, 1);
    stage_drain(&stage);
    stage_expect(&stage, "send cancel 4/4 of 2");
    stage_answer(&stage, 2, MST_GET, MUSTER_ECANCELLED);
    stage_expect(&stage, "");
    mst_client_drop(stage.client, stage.now_ns, 2); /* and is let go with the connection */
    mst_client_disconnected(stage.client, stage.now_ns);
    stage_drain(&stage);
    stage_fini(&stage);
}

/* Waiting calls have room at the service. All are sent in the order they were made.
 * [Requests that are repeated] */
static void a_wait_does_not_overtake(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_put(), 0, 1);
    (void)stage_call(&stage, stage_get(), 0, 2);
    (void)stage_call(&stage, stage_put(), 0, 3);
    stage_drain(&stage);
    stage_expect(&stage, "send write 2/2; send get 3/2; send write 4/2");
    stage_fini(&stage);
}

/* A read waits for long. It holds no writes back. [Requests that are repeated] */
static void a_waiting_read_holds_nothing_back(void **state)
{
    struct stage stage;
    uint64_t id = 3;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 0, 1000);
    stage_drain(&stage);
    for (uint64_t tag = 1; tag <= 300; tag++) {
        stage_forget(&stage);
        (void)stage_call(&stage, stage_put(), 0, tag);
        stage_drain(&stage);
        assert_int_equal(stage.sent_count, 1);
        assert_int_equal(stage.sent[0].id, id);
        assert_int_equal(stage.sent[0].oldest, id);
        stage_answer(&stage, id++, MST_WRITE, MUSTER_OK);
    }
    stage_forget(&stage);
    stage_answer(&stage, 2, MST_GET, MUSTER_OK);
    stage_expect(&stage, "done 1000 OK");
    stage_fini(&stage);
}

/* The view changes. The client follows; an answer that was overtaken does not set it back. */
static void follows_the_view(void **state)
{
    struct stage stage;
    struct mst_reply reply = {.id = 1,
                              .command = MST_WATCH,
                              .revision = 17,
                              .has_view = true,
                              .view = {.generation = 3,
                                       .size = 4,
                                       .rank = 1,
                                       .index = 2,
                                       .incarnation = 4,
                                       .attention = MST_GROW}};

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    stage_reply(&stage, reply);
    stage_expect(&stage, "send watch 2/2; attention");
    assert_int_equal(mst_client_view(stage.client)->attention, MST_GROW);
    reply.id = 2;
    reply.revision = 18;
    stage_reply(&stage, reply);
    stage_expect(&stage, "send watch 3/3"); /* nothing new */
    reply.id = 3;
    reply.view.attention = MST_INTERRUPT;
    mst_client_reply(stage.client, stage.now_ns, &reply);
    stage_drain(&stage);
    assert_int_equal(stage.sent[0].after, 18);
    stage_expect(&stage, "send watch 4/4; attention");
    reply.id = 4;
    reply.view.generation = 2; /* an answer that was overtaken */
    stage_reply(&stage, reply);
    assert_int_equal(mst_client_view(stage.client)->generation, 3);
    stage_fini(&stage);
}

/* A renewal, or the session's watch of the view, is refused for want of room: by the service, or
 * before it was sent. The next renewal asks for both again. */
static void what_the_session_asks_for_is_asked_for_again(void **state)
{
    static const muster_status refusals[] = {MUSTER_ENOMEM, MUSTER_ELIMIT, MUSTER_ENOSPACE,
                                             MUSTER_ETIMEDOUT};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct stage stage;

        assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
        stage_open(&stage);
        if (i % 2 == 0) {
            stage_answer(&stage, 1, MST_WATCH, refusals[i / 2]);
        } else {
            mst_client_refused(stage.client, stage.now_ns, 1, refusals[i / 2]);
        }
        stage_drain(&stage);
        stage_expect(&stage, "");
        stage_at(&stage, 2001);
        stage_expect(&stage, "send renew 2/2; send watch 3/3");
        if (i % 2 == 0) {
            stage_answer(&stage, 2, MST_RENEW, refusals[i / 2]);
        } else {
            mst_client_refused(stage.client, stage.now_ns, 2, refusals[i / 2]);
        }
        stage_at(&stage, 4001);
        stage_expect(&stage, "send renew 4/4"); /* the watch waits: it was not refused again */
        stage_fini(&stage);
    }
}

/* The service says that this session was lost. Every open call ends with that, and so does every
 * later one. */
static void ends_when_it_was_given_up(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 0, 10);
    stage_drain(&stage);
    stage_at(&stage, 2001);
    stage_forget(&stage);
    stage_answer(&stage, 3, MST_RENEW, MUSTER_EFENCED);
    stage_expect(&stage, "disconnect; done 10 EFENCED here; ended EFENCED");
    assert_int_equal(stage_call(&stage, stage_put(), 0, 11), MUSTER_EFENCED);
    assert_int_equal(mst_client_deadline_ns(stage.client), NEVER);
    stage_fini(&stage);
}

/* A request named a generation that is over. Only that call ends (EFENCED); the session goes on. */
static void a_generation_that_is_over_ends_no_session(void **state)
{
    struct stage stage;
    struct mst_request get = stage_get();

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    get.get.generation = 3;
    (void)stage_call(&stage, get, 0, 10);
    (void)stage_call(&stage, stage_get(), 0, 11);
    stage_drain(&stage);
    stage_forget(&stage);
    stage_answer(&stage, 2, MST_GET, MUSTER_EFENCED);
    stage_expect(&stage, "done 10 EFENCED");
    stage_answer(&stage, 3, MST_GET, MUSTER_EFENCED); /* names none: it is the session's */
    stage_expect(&stage, "disconnect; done 11 EFENCED; ended EFENCED");
    stage_fini(&stage);
}

/* A claim is refused, in the answer to its join or to its watch. The error names the holder of the
 * place. [members / Places] */
static void a_refused_claim_names_the_holder(void **state)
{
    static const enum mst_command answered[] = {MST_WATCH, MST_JOIN}; /* by their ids */

    (void)state;
    for (uint64_t id = 1; id <= 2; id++) {
        struct stage stage;
        struct mst_reply reply = {.id = 1, .command = MST_OPEN, .number = 10000, .has_view = true};
        struct mst_request join = {.command = MST_JOIN};

        assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
        mst_client_start(stage.client, stage.now_ns);
        stage_drain(&stage);
        mst_client_connected(stage.client, stage.now_ns);
        stage_drain(&stage);
        reply.view.rank = MST_RANK_NONE;
        reply.has_detail = true;
        reply.detail.who_count = 1;
        reply.detail.who[0] = (struct mst_who){.index = 2, .pid = 77, .host = mst_slice_text("b3")};
        stage_reply(&stage, reply);
        assert_non_null(mst_client_holder(stage.client));
        assert_int_equal(mst_client_holder(stage.client)->pid, 77);
        assert_true(mst_slice_equal(mst_client_holder(stage.client)->host, mst_slice_text("b3")));
        (void)stage_call(&stage, join, 0, 10);
        stage_drain(&stage);
        stage_forget(&stage);
        reply.id = id;
        reply.command = answered[id - 1];
        reply.status = MUSTER_EEXISTS;
        stage_reply(&stage, reply);
        stage_expect(&stage, id == 1 ? "disconnect; done 10 EEXISTS here; ended EEXISTS"
                                     : "disconnect; done 10 EEXISTS; ended EEXISTS");
        assert_int_equal(stage.detail.who[0].pid, 77);
        stage_fini(&stage);
    }
}

/* A rank is called out of its function. The client says why.
 * [generations / Faults of a generation] */
static void an_interruption_says_why(void **state)
{
    static char long_name[1000];
    struct stage stage;
    struct mst_reply reply = {.command = MST_WATCH, .revision = 7, .has_view = true};

    (void)state;
    memset(long_name, 'h', sizeof(long_name));
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    reply.id = 1;
    reply.view = *mst_client_view(stage.client);
    reply.view.generation = 5;
    reply.view.attention = MST_INTERRUPT;
    stage_reply(&stage, reply); /* somebody only stands at the seal */
    assert_null(mst_client_first_fault(stage.client));
    reply.id = 2;
    reply.has_detail = true;
    reply.detail.who_count = 1;
    reply.detail.who[0] = (struct mst_who){.index = 2,
                                           .rank = 1,
                                           .cause = MST_CAUSE_SOFT_TIMEOUT,
                                           .host = mst_slice_of(long_name, sizeof(long_name))};
    stage_reply(&stage, reply);
    assert_non_null(mst_client_first_fault(stage.client));
    assert_int_equal(mst_client_first_fault(stage.client)->index, 2);
    assert_int_equal(mst_client_first_fault(stage.client)->cause, MST_CAUSE_SOFT_TIMEOUT);
    assert_in_range(mst_client_first_fault(stage.client)->host.size, 1, 256);
    memset(long_name, 'x', sizeof(long_name)); /* it has a copy */
    assert_memory_equal(mst_client_first_fault(stage.client)->host.data, "hhh", 3);
    reply.id = 3;
    reply.has_detail = false;
    reply.view.generation = 6;
    reply.view.attention = MST_CALM;
    stage_reply(&stage, reply);
    assert_null(mst_client_first_fault(stage.client));
    stage_fini(&stage);
}

/* The first opening is refused. The client ends with the reason. */
static void a_refused_open_ends_it(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    mst_client_start(stage.client, stage.now_ns);
    stage_drain(&stage);
    mst_client_connected(stage.client, stage.now_ns);
    (void)stage_call(&stage, stage_put(), 0, 10);
    stage_drain(&stage);
    stage_forget(&stage);
    stage_answer(&stage, 1, MST_OPEN, MUSTER_EINVAL);
    stage_expect(&stage, "disconnect; done 10 EINVAL here; ended EINVAL");
    stage_fini(&stage);
}

static void waits_for_room(muster_status refused)
{
    struct stage stage;

    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    mst_client_disconnected(stage.client, stage.now_ns);
    stage_at(&stage, 12);
    mst_client_connected(stage.client, stage.now_ns);
    stage_drain(&stage);
    stage_forget(&stage);
    stage_answer(&stage, 2, MST_OPEN, refused);
    stage_expect(&stage, "disconnect");
    stage_at(&stage, 100);
    stage_expect(&stage, "connect 0");
    stage_fini(&stage);
}

/* A client was in, and the service has no room when it comes back. It waits and tries again. */
static void who_was_in_waits_for_room(void **state)
{
    (void)state;
    waits_for_room(MUSTER_ELIMIT);
    waits_for_room(MUSTER_ENOSPACE);
    waits_for_room(MUSTER_ETIMEDOUT); /* for a word from the agent */
}

/* A client leaves. What it still waits for is cancelled. */
static void leaves(void **state)
{
    struct stage stage;
    struct mst_request leave = {.command = MST_LEAVE};

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_get(), 0, 10);
    (void)stage_call(&stage, leave, 0, 11);
    stage_drain(&stage);
    stage_forget(&stage);
    stage_answer(&stage, 3, MST_LEAVE, MUSTER_OK);
    stage_expect(&stage, "disconnect; done 11 OK; done 10 ECANCELLED here; ended OK");
    stage_fini(&stage);
}

/* A request is too large to be encoded. Only that call fails. [Deadlines and cancelling] */
static void what_cannot_be_encoded_is_refused(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    (void)stage_call(&stage, stage_put(), 0, 10);
    stage_expect(&stage, "send write 2/2");
    mst_client_refused(stage.client, stage.now_ns, 2, MUSTER_ELIMIT);
    stage_expect(&stage, "done 10 ELIMIT here");
    stage_at(&stage, 2001);
    stage_expect(&stage, "send renew 3/3");
    mst_client_refused(stage.client, stage.now_ns, 3, MUSTER_ENOMEM);
    assert_int_equal(mst_client_deadline_ns(stage.client), 4001 * MS); /* and not at once again */
    stage_fini(&stage);
}

/* A connection is lost in any state. The client comes back. */
static void disconnected_in_every_state(void **state)
{
    (void)state;
    for (int steps = 0; steps < 5; steps++) {
        struct stage stage;

        assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
        mst_client_disconnected(stage.client, stage.now_ns); /* of nothing: ignored */
        mst_client_start(stage.client, stage.now_ns);
        if (steps > 0) {
            stage_drain(&stage);
        }
        if (steps > 1) {
            mst_client_connected(stage.client, stage.now_ns);
        }
        if (steps > 2) {
            stage_drain(&stage);
        }
        if (steps > 3) {
            stage_reply(&stage, stage_opened(&stage, 1));
        }
        mst_client_disconnected(stage.client, stage.now_ns);
        mst_client_disconnected(stage.client, stage.now_ns); /* twice is once */
        stage_drain(&stage);
        stage_at(&stage, 20);
        mst_client_connected(stage.client, stage.now_ns);
        stage_drain(&stage);
        stage_reply(&stage, stage_opened(&stage, stage.sent_count > 0 ? stage.sent[0].id : 0));
        assert_true(mst_client_online(stage.client));
        stage_fini(&stage);
    }
}

/* One story through most of the machine, for the allocations in it. */
static muster_status tell_a_story(struct stage *stage)
{
    struct mst_slice keys[2] = {{.data = "key", .size = 3}, {.data = "other", .size = 5}};
    uint32_t indices[2] = {1, 2};
    struct mst_request wait = {.command = MST_WAIT, .wait = {.keys = keys, .count = 2}};
    struct mst_request round = {.command = MST_ROUND,
                                .round = {.name = {.data = "r", .size = 1},
                                          .participants = indices,
                                          .participant_count = 2}};
    muster_status worst;

    stage_open(stage);
    worst = stage_call(stage, stage_put(), 0, 1);
    for (int i = 0; i < 2; i++) {
        muster_status status = stage_call(stage, i == 0 ? wait : round, 50, 2 + (uint64_t)i);

        worst = status < worst ? status : worst;
    }
    keys[0].data = "xxx"; /* everything was copied */
    indices[0] = 9;
    stage_drain(stage);
    mst_client_disconnected(stage->client, stage->now_ns);
    stage_at(stage, 20);
    mst_client_connected(stage->client, stage->now_ns);
    stage_drain(stage);
    stage_reply(stage, stage_opened(stage, stage->sent[0].id));
    mst_client_drop(stage->client, stage->now_ns, 3);
    stage_at(stage, 50);
    stage_at(stage, 2000);
    return worst;
}

/* There is no memory. The call that needs it fails, and the client goes on.
 * [Deadlines and cancelling] */
static void survives_each_failed_allocation(void **state)
{
    bool failed = true;

    (void)state;
    for (size_t fail_at = 1; failed; fail_at++) {
        struct stage stage;
        muster_status status = stage_init(&stage, fail_at, 1);

        if (status == MUSTER_OK) {
            status = tell_a_story(&stage);
        }
        failed = stage.failing.failed;
        assert_int_equal(status, failed ? MUSTER_ENOMEM : MUSTER_OK);
        stage_fini(&stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_a_session),
        cmocka_unit_test(renews_and_stops_itself),
        cmocka_unit_test(what_still_comes_is_no_silence),
        cmocka_unit_test(who_was_not_asked_is_not_silent),
        cmocka_unit_test(who_has_stopped_itself_takes_no_part),
        cmocka_unit_test(backs_off_round_the_endpoints),
        cmocka_unit_test(gives_up_an_attempt),
        cmocka_unit_test(repeats_after_a_resume),
        cmocka_unit_test(an_observer_does_not_return_as_somebody_new),
        cmocka_unit_test(names_who_is_missing_at_a_deadline),
        cmocka_unit_test(names_are_waited_for_so_long),
        cmocka_unit_test(a_reply_beats_its_deadline),
        cmocka_unit_test(a_deadline_waits_no_longer_than_a_second),
        cmocka_unit_test(a_deadline_ends_at_once_without_a_connection),
        cmocka_unit_test(a_cancelled_call_ends_with_the_service_s_word),
        cmocka_unit_test(a_dropped_call_is_heard_of_no_more),
        cmocka_unit_test(the_window_holds_writes_back),
        cmocka_unit_test(waits_leave_the_window_to_others),
        cmocka_unit_test(an_older_service_has_its_own_limit_of_waits),
        cmocka_unit_test(calls_that_wait_have_a_limit_of_memory),
        cmocka_unit_test(a_dropped_wait_keeps_its_place),
        cmocka_unit_test(a_wait_does_not_overtake),
        cmocka_unit_test(a_waiting_read_holds_nothing_back),
        cmocka_unit_test(follows_the_view),
        cmocka_unit_test(what_the_session_asks_for_is_asked_for_again),
        cmocka_unit_test(ends_when_it_was_given_up),
        cmocka_unit_test(a_generation_that_is_over_ends_no_session),
        cmocka_unit_test(a_refused_claim_names_the_holder),
        cmocka_unit_test(an_interruption_says_why),
        cmocka_unit_test(a_refused_open_ends_it),
        cmocka_unit_test(who_was_in_waits_for_room),
        cmocka_unit_test(leaves),
        cmocka_unit_test(what_cannot_be_encoded_is_refused),
        cmocka_unit_test(disconnected_in_every_state),
        cmocka_unit_test(survives_each_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
