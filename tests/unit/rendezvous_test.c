/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: nodes / A run over several nodes */
#include "net/rendezvous.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void splits_as(const char *address, const char *host, uint16_t port)
{
    char found[64] = "", again[80];
    uint16_t number = 0;

    assert_true(mst_rendezvous_split(address, found, sizeof found, &number));
    assert_string_equal(found, host);
    assert_int_equal(number, port);
    mst_rendezvous_join(found, number, again, sizeof again);
    assert_string_equal(again, address);
}

/* Addresses are written with names, numbers or brackets. They are cut where they must be, and
 * what is none is refused. */
static void addresses_are_split_and_joined(void **state)
{
    static const char *const wrong[] = {
        "",        "host",       ":1",          "host:",    "host:x", "host:-1",
        "host:1x", "host:65536", "host:123456", "::1:7000", "[::1]",  "[]:1"};
    char host[16];
    uint16_t port;

    (void)state;
    splits_as("10.0.0.1:34567", "10.0.0.1", 34567);
    splits_as("node-1.example:0", "node-1.example", 0);
    splits_as("[::1]:65535", "::1", 65535);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(mst_rendezvous_split(wrong[i], host, sizeof host, &port));
    }
    assert_false(mst_rendezvous_split("a-name-that-is-too-long:1", host, sizeof host, &port));
}

/* A free port is asked for. There is one. */
static void a_free_port_can_be_had(void **state)
{
    (void)state;
    assert_int_not_equal(mst_rendezvous_free_port("127.0.0.1"), 0);
    assert_int_not_equal(mst_rendezvous_free_port(NULL), 0);
    assert_int_equal(mst_rendezvous_free_port("192.0.2.1"), 0); /* of nobody, by its standard */
}

/* An address is not the one for every address. It stays itself. */
static void what_is_not_every_address_is_itself(void **state)
{
    char name[64];

    (void)state;
    assert_true(mst_rendezvous_reach("10.9.8.7", name, sizeof name));
    assert_string_equal(name, "10.9.8.7");
    (void)mst_rendezvous_reach("0.0.0.0", name, sizeof name);
    assert_string_not_equal(name, "0.0.0.0");
    assert_string_not_equal(name, "");
}

/* A list of hosts has names that begin alike. Only whole names count. [Refused nodes] */
static void lists_hold_whole_names(void **state)
{
    (void)state;
    assert_true(mst_rendezvous_listed("a,node-1,b", "node-1"));
    assert_true(mst_rendezvous_listed("10.0.0.1", "10.0.0.1"));
    assert_false(mst_rendezvous_listed("node-10,,no", "node-1"));
    assert_false(mst_rendezvous_listed("", ""));
    assert_false(mst_rendezvous_listed(",,", ""));
    assert_false(mst_rendezvous_listed(NULL, "node-1"));
}

/* A machine is named by name or address. Either means it. */
static void a_machine_is_named_by_name_or_address(void **state)
{
    char list[80], own[64];

    (void)state;
    assert_true(mst_rendezvous_names("other,node-1", "node-1"));
    assert_false(mst_rendezvous_names("other,0.0.0.1", "node-1"));
    assert_false(mst_rendezvous_names("127.0.0.1", "node-1")); /* everybody's */
    assert_false(mst_rendezvous_names(NULL, "node-1"));
    if (mst_rendezvous_reach("0.0.0.0", own, sizeof own)) {
        (void)snprintf(list, sizeof list, "other,%s", own);
        assert_true(mst_rendezvous_names(list, "node-1"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_split_and_joined),
        cmocka_unit_test(a_free_port_can_be_had),
        cmocka_unit_test(what_is_not_every_address_is_itself),
        cmocka_unit_test(lists_hold_whole_names),
        cmocka_unit_test(a_machine_is_named_by_name_or_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
