/* SPDX-License-Identifier: Apache-2.0 */
/* The client machine among several addresses: a process that does not serve sends it on, and the
 * service names a new list.
 *
 * behaviour: sessions / Addresses */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/machine.h"
#include "client/shell/driver/targets.h"
#include "client_stage.h"

/* At endpoint 0, with its OPEN on the way. */
static void arrive(struct stage *stage)
{
    assert_int_equal(stage_init(stage, 0, 1), MUSTER_OK);
    mst_client_start(stage->client, stage->now_ns);
    stage_expect(stage, "connect 0");
    mst_client_connected(stage->client, stage->now_ns);
    stage_expect(stage, "send open 1/1 incarnation 0");
}

/* A process that does not serve sends the client on. The client connects to the named address at
 * once, and its calls go there. A session that was open there begins a new round: the client is
 * sent back at once. */
static void goes_where_it_is_sent(void **state)
{
    struct stage stage;

    (void)state;
    arrive(&stage);
    assert_int_equal(stage_call(&stage, stage_put(), 0, 5), MUSTER_OK);
    mst_client_sent_on(stage.client, stage.now_ns, 1);
    stage_expect(&stage, "disconnect; connect 1");
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "send open 1/1 incarnation 0");
    stage_reply(&stage, stage_opened(&stage, 1));
    stage_expect(&stage, "send watch 1/1; send write 2/2; attention");
    mst_client_sent_on(stage.client, stage.now_ns, 0); /* which is no answer to this one */
    stage_expect(&stage, "disconnect; connect 0");
    stage_fini(&stage);
}

/* Two processes send the client to each other. It waits after one round, each time longer. */
static void two_that_send_it_round_are_waited_for(void **state)
{
    struct stage stage;
    uint64_t most_ms = 10;

    (void)state;
    arrive(&stage);
    for (int round = 0; round < 9; round++) {
        uint64_t wait_ns;

        mst_client_sent_on(stage.client, stage.now_ns, 1);
        stage_expect(&stage, "disconnect; connect 1");
        mst_client_connected(stage.client, stage.now_ns);
        stage_drain(&stage);
        stage_forget(&stage);
        mst_client_sent_on(stage.client, stage.now_ns, 0);
        stage_expect(&stage, "disconnect");
        wait_ns = mst_client_deadline_ns(stage.client) - stage.now_ns;
        assert_in_range(wait_ns, most_ms * MS / 2, most_ms * MS);
        most_ms = most_ms * 2 > 1000 ? 1000 : most_ms * 2;
        stage.now_ns += wait_ns;
        mst_client_tick(stage.client, stage.now_ns);
        stage_expect(&stage, "connect 0");
        mst_client_connected(stage.client, stage.now_ns);
        stage_drain(&stage);
        stage_forget(&stage);
    }
    stage_fini(&stage);
}

/* A process sends the client to itself. The client waits before it comes again. */
static void one_that_names_itself_is_waited_for(void **state)
{
    struct stage stage;

    (void)state;
    arrive(&stage);
    mst_client_sent_on(stage.client, stage.now_ns, 0);
    stage_expect(&stage, "disconnect");
    stage_at(&stage, 12);
    stage_expect(&stage, "connect 0");
    stage_fini(&stage);
}

/* A service stops serving while a session is open, and sends the client on. The session resumes at
 * the named address, the unanswered write is repeated under its id, and a service that sends the
 * client back is waited for. */
static void an_open_session_is_sent_on(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    assert_int_equal(stage_call(&stage, stage_put(), 0, 7), MUSTER_OK);
    stage_expect(&stage, "send write 2/2");
    mst_client_sent_on(stage.client, stage.now_ns, 1);
    stage_expect(&stage, "disconnect; connect 1");
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "send open 3/2 incarnation 4");
    mst_client_sent_on(stage.client, stage.now_ns, 0);
    stage_expect(&stage, "disconnect");
    stage_at(&stage, 12);
    stage_expect(&stage, "connect 0");
    mst_client_connected(stage.client, stage.now_ns);
    stage_expect(&stage, "send open 3/2 incarnation 4");
    stage_reply(&stage, stage_opened(&stage, 3));
    stage_expect(&stage, "send renew 3/2; send watch 4/2; send write 2/2");
    stage_fini(&stage);
}

/* A process among several accepts a connection and says nothing, as one that is frozen. The client
 * leaves it after a fifth of the lease, and has the time to look at the others. */
static void a_frozen_one_is_left_in_time(void **state)
{
    struct stage stage;
    uint64_t since_ns;

    (void)state;
    arrive(&stage);
    stage_reply(&stage, stage_opened(&stage, 1)); /* the lease is 10 s */
    stage_forget(&stage);
    mst_client_sent_on(stage.client, stage.now_ns, 1);
    stage_expect(&stage, "disconnect; connect 1");
    since_ns = stage.now_ns;
    mst_client_connected(stage.client, stage.now_ns);
    stage_drain(&stage);
    stage_forget(&stage);
    stage.now_ns = mst_client_deadline_ns(stage.client);
    assert_int_equal(stage.now_ns - since_ns, 2000 * MS);
    mst_client_tick(stage.client, stage.now_ns);
    stage_expect(&stage, "disconnect");
    stage.now_ns = mst_client_deadline_ns(stage.client);
    mst_client_tick(stage.client, stage.now_ns);
    stage_expect(&stage, "connect 0");
    stage_fini(&stage);
}

/* The service names a list of three addresses. When its connection is lost the client goes round
 * these, from the one behind the lost one. */
static void a_new_list_is_gone_round(void **state)
{
    static const uint32_t was[] = {MST_CLIENT_ENDPOINT_NEW, 0, MST_CLIENT_ENDPOINT_NEW};
    static const char *const next[] = {"connect 2", "connect 0", "connect 1"};
    struct stage stage;

    (void)state;
    assert_int_equal(stage_init(&stage, 0, 1), MUSTER_OK);
    stage_open(&stage);
    mst_client_endpoints(stage.client, 3, was);
    for (size_t i = 0; i < 3; i++) {
        mst_client_disconnected(stage.client, stage.now_ns);
        stage_expect(&stage, "");
        stage.now_ns = mst_client_deadline_ns(stage.client);
        mst_client_tick(stage.client, stage.now_ns);
        stage_expect(&stage, next[i]);
    }
    stage_fini(&stage);
}

/* A list changes while the client is being sent on. An address that it has tried since its last
 * wait is waited for under its new number too; one that it has not is connected to at once. */
static void a_new_list_keeps_what_was_tried(void **state)
{
    static const uint32_t was[] = {MST_CLIENT_ENDPOINT_NEW, 1, 0};
    struct stage stage;

    (void)state;
    for (uint32_t to = 0; to < 3; to += 2) {
        arrive(&stage);
        mst_client_sent_on(stage.client, stage.now_ns, 1);
        stage_expect(&stage, "disconnect; connect 1");
        mst_client_connected(stage.client, stage.now_ns);
        stage_expect(&stage, "send open 1/1 incarnation 0");
        mst_client_endpoints(stage.client, 3, was);
        mst_client_sent_on(stage.client, stage.now_ns, to);
        stage_expect(&stage, to == 0 ? "disconnect; connect 0" : "disconnect");
        stage_fini(&stage);
    }
}

/* More addresses than a client keeps, or none, are refused when it is made. */
static void the_number_of_addresses_is_bounded(void **state)
{
    struct mst_client_config config = {.open = {.job = mst_slice_text("j")},
                                       .limits = mst_limits_default};
    struct failing_mem failing;
    struct mst_client *client;

    (void)state;
    failing_mem_init(&failing, 0);
    assert_int_equal(mst_client_new(&client, &config, &failing.mem), MUSTER_EINVAL);
    config.endpoint_count = MST_CLIENT_ENDPOINTS_MAX + 1;
    assert_int_equal(mst_client_new(&client, &config, &failing.mem), MUSTER_EINVAL);
}

/* ---- the list ---- */

static void given(struct mst_targets *targets, const char *list)
{
    struct mst_endpoints endpoints;
    char error[320];

    assert_int_equal(mst_endpoints_parse(&endpoints, list, true, error, sizeof error), MUSTER_OK);
    mst_targets_init(targets, &endpoints);
}

/* `named` by target `used`; "": the list stays. */
static void assert_list(struct mst_targets *targets, const char *named, enum mst_targets_tcp tcp,
                        uint32_t used, const char *expected)
{
    uint32_t was[MST_TARGETS_MAX];
    char list[MST_TARGETS_MAX * MST_ADDRESS_TEXT] = "";
    struct mst_text text = mst_text_in(list, sizeof list);
    struct mst_targets before = *targets;
    bool changed = mst_targets_take(targets, mst_slice_text(named), tcp, used, was);

    assert_int_equal(changed, expected[0] != '\0');
    if (!changed) {
        assert_int_equal(targets->count, before.count);
        return;
    }
    mst_targets_say(targets, &text);
    assert_string_equal(list, expected);
    for (uint32_t i = 0; i < targets->count; i++) {
        if (was[i] != MST_CLIENT_ENDPOINT_NEW) {
            assert_string_equal(targets->at[i].address.text, before.at[was[i]].address.text);
            assert_int_equal(targets->at[i].given, before.at[was[i]].given);
        } else {
            assert_false(targets->at[i].given);
        }
    }
}

/* The service names its addresses. They come first in the list; the address in use and those of
 * MUSTER_ADDR stay behind them, and addresses that were named earlier go. An empty list, or the
 * same one again, changes nothing. */
static void named_addresses_come_first(void **state)
{
    struct mst_targets targets;

    (void)state;
    given(&targets, "a:1,b:2");
    assert_list(&targets, "", MST_TARGETS_ANY_TCP, 0, "");
    assert_list(&targets, "a:1,b:2", MST_TARGETS_ANY_TCP, 0, "");
    assert_list(&targets, "b:2,c:3", MST_TARGETS_ANY_TCP, 0, "b:2,c:3,a:1");
    assert_list(&targets, "b:2,c:3", MST_TARGETS_ANY_TCP, 2, "");
    assert_list(&targets, "d:4", MST_TARGETS_ANY_TCP, 1, "d:4,c:3,b:2,a:1");
    assert_list(&targets, "e:5,d:4,e:5", MST_TARGETS_ANY_TCP, 0, "e:5,d:4,b:2,a:1");
    assert_int_equal(mst_targets_find(&targets, mst_slice_text("x:1,a:1,e:5")), 3);
    assert_int_equal(mst_targets_find(&targets, mst_slice_text("x:1")), 4);
    mst_targets_fini(&targets);
}

/* The service names addresses that the user could not have given. They are left out: nonsense, the
 * path of a socket that is named over TCP, addresses of other hosts where there is no secret, and
 * every TCP address where there is a secret but no TLS. */
static void unusable_addresses_are_left_out(void **state)
{
    struct mst_targets targets;

    (void)state;
    given(&targets, "127.0.0.1:1");
    assert_list(&targets, "nonsense,:1,a:99999,unix:/tmp/s,10.0.0.1:2,name:3",
                MST_TARGETS_LOCAL_TCP, 0, "");
    assert_list(&targets, "unix:/tmp/s,127.0.0.1:2", MST_TARGETS_LOCAL_TCP, 0,
                "127.0.0.1:2,127.0.0.1:1");
    mst_targets_fini(&targets);
    given(&targets, "unix:/tmp/s");
    assert_list(&targets, "127.0.0.1:1,10.0.0.1:2,unix:/tmp/t", MST_TARGETS_NO_TCP, 0,
                "unix:/tmp/t,unix:/tmp/s");
    assert_list(&targets, "10.0.0.1:2", MST_TARGETS_ANY_TCP, 0,
                "10.0.0.1:2,unix:/tmp/t,unix:/tmp/s");
    mst_targets_fini(&targets);
}

/* The service names more addresses than a client keeps. As many are taken as leave room for all of
 * `MUSTER_ADDR`, of which there are 16, and the address in use: 15. */
static void the_list_is_bounded(void **state)
{
    char named[400] = "x:1,", expected[400] = "x:1,", list[400] = "";
    struct mst_text text = mst_text_in(named + 4, sizeof named - 4);
    struct mst_text wanted = mst_text_in(expected + 4, sizeof expected - 4);
    struct mst_text user = mst_text_in(list, sizeof list);
    struct mst_targets targets;

    (void)state;
    for (int i = 1; i <= 40; i++) {
        mst_text_format(&text, "%sh:%d", i > 1 ? "," : "", i);
        if (i < 15) {
            mst_text_format(&wanted, "h:%d,", i);
        }
    }
    for (int i = 1; i <= (int)MST_ENDPOINTS_MAX; i++) {
        mst_text_format(&user, "%sg:%d", i > 1 ? "," : "", i);
    }
    mst_text_add(&wanted, "u:1,");
    mst_text_add(&wanted, list);
    given(&targets, list);
    assert_true(mst_targets_take(&targets, mst_slice_text("u:1"), MST_TARGETS_ANY_TCP, 0,
                                 (uint32_t[MST_TARGETS_MAX]){0}));
    assert_list(&targets, named, MST_TARGETS_ANY_TCP, 0, expected);
    assert_int_equal(targets.count, MST_TARGETS_MAX);
    mst_targets_fini(&targets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_where_it_is_sent),
        cmocka_unit_test(two_that_send_it_round_are_waited_for),
        cmocka_unit_test(one_that_names_itself_is_waited_for),
        cmocka_unit_test(an_open_session_is_sent_on),
        cmocka_unit_test(a_frozen_one_is_left_in_time),
        cmocka_unit_test(a_new_list_is_gone_round),
        cmocka_unit_test(a_new_list_keeps_what_was_tried),
        cmocka_unit_test(the_number_of_addresses_is_bounded),
        cmocka_unit_test(named_addresses_come_first),
        cmocka_unit_test(unusable_addresses_are_left_out),
        cmocka_unit_test(the_list_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
