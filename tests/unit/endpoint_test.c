/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: library / Opening and closing */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/endpoint.h"
#include "net/lookup.h"

static void takes(const char *text, bool anywhere, uint32_t count, int family)
{
    struct mst_endpoints endpoints;
    char error[320] = "";

    assert_int_equal(mst_endpoints_parse(&endpoints, text, anywhere, error, sizeof(error)),
                     MUSTER_OK);
    assert_int_equal(endpoints.count, count);
    assert_int_equal(endpoints.at[count - 1].name.ss_family, family);
}

static void accepts(const char *text, uint32_t count, int family)
{
    takes(text, false, count, family);
    takes(text, true, count, family);
}

static void refuses(const char *text, const char *line)
{
    struct mst_endpoints endpoints;
    char error[320] = "";

    assert_int_equal(mst_endpoints_parse(&endpoints, text, false, error, sizeof(error)),
                     MUSTER_EINVAL);
    assert_string_equal(error, line);
}

/* An address is good: it is parsed. Up to sixteen are allowed. */
static void good_ones(void **state)
{
    (void)state;
    accepts("unix:/run/x.sock", 1, AF_UNIX);
    accepts("127.0.0.1:5000", 1, AF_INET);
    accepts("localhost:65535", 1, AF_INET);
    accepts("[::1]:1", 1, AF_INET6);
    accepts("unix:/a,127.0.0.1:5000,[::1]:5001", 3, AF_INET6);
}

/* An address makes no sense. It fails with EINVAL, and the line says why. */
static void bad_ones(void **state)
{
    char text[300];

    (void)state;
    refuses("", "address '' is empty");
    refuses("unix:", "address 'unix:' has no path");
    refuses("unix:run/x.sock",
            "address 'unix:run/x.sock' has a path that does not begin with a slash");
    refuses("127.0.0.1", "address '127.0.0.1' has no port (unix:/path, HOST:PORT or [::1]:PORT)");
    refuses("127.0.0.1:0", "address '127.0.0.1:0' has no port from 1 to 65535");
    refuses("127.0.0.1:65536",
            "address '127.0.0.1:65536' has no port (unix:/path, HOST:PORT or [::1]:PORT)");
    refuses("127.0.0.1:80x",
            "address '127.0.0.1:80x' has no port (unix:/path, HOST:PORT or [::1]:PORT)");
    refuses("300.1.1.1:80",
            "address '300.1.1.1:80' is neither unix:/path nor HOST:PORT nor [::1]:PORT");
    refuses("::1:80", "address '::1:80' is neither unix:/path nor HOST:PORT nor [::1]:PORT");
    refuses("[node]:80", "address '[node]:80' is neither unix:/path nor HOST:PORT nor [::1]:PORT");
    refuses("-x:80", "address '-x:80' is neither unix:/path nor HOST:PORT nor [::1]:PORT");
    memset(text, 'x', sizeof(text));
    memcpy(text, "unix:/", 6);
    text[130] = '\0';
    {
        struct mst_endpoints endpoints;
        char error[320];

        assert_int_equal(mst_endpoints_parse(&endpoints, text, false, error, sizeof(error)),
                         MUSTER_EINVAL);
        assert_non_null(strstr(error, "is too long: a socket's path has at most 107 bytes"));
        text[130] = 'x';
        text[299] = '\0';
        assert_int_equal(mst_endpoints_parse(&endpoints, text, false, error, sizeof(error)),
                         MUSTER_EINVAL);
    }
}

/* More than sixteen addresses are given. They are refused. */
static void at_most_sixteen(void **state)
{
    char text[17 * 8] = "";

    (void)state;
    for (size_t i = 0; i < 17; i++) {
        memcpy(text + i * 8, "unix:/a,", 8);
    }
    text[16 * 8 - 1] = '\0';
    accepts(text, 16, AF_UNIX);
    text[16 * 8 - 1] = ',';
    text[sizeof(text) - 1] = '\0';
    refuses(text, "address 'unix:/a' is one too many: 16 are allowed");
}

/* An address is not of this machine and there is no secret. It fails with EINVAL: what is sent
 * there in plain can be read and changed on the way. [security / Addresses] */
static void other_machines_need_a_secret(void **state)
{
    static const char *const others[] = {"10.0.0.1:5000", "[fe80::1]:5000", "0.0.0.0:5000",
                                         "[::ffff:127.0.0.1]:5000"};
    char line[320];

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        (void)snprintf(line, sizeof(line),
                       "address '%s' is not surely of this machine: it needs a secret "
                       "(MUSTER_SECRET_FILE), or MUSTER_INSECURE=1 where everybody on the network "
                       "is trusted",
                       others[i]);
        refuses(others[i], line);
        takes(others[i], true, 1, others[i][0] == '[' ? AF_INET6 : AF_INET);
    }
    refuses("node7:5000",
            "address 'node7:5000' is not surely of this machine: it needs a secret "
            "(MUSTER_SECRET_FILE), or MUSTER_INSECURE=1 where everybody on the network is trusted");
}

/* An address is a name. Each attempt to connect looks it up, on a thread of its own, and the
 * attempts go through the addresses found. [security / Addresses] */
static void a_name_is_kept_to_be_looked_up(void **state)
{
    struct mst_endpoints endpoints;
    char error[320];

    (void)state;
    assert_int_equal(mst_endpoints_parse(&endpoints, "train-0.train.ns.svc:5000,unix:/a", true,
                                         error, sizeof(error)),
                     MUSTER_OK);
    assert_int_equal(endpoints.at[0].kind, MST_ADDRESS_NAME);
    assert_string_equal(endpoints.at[0].host, "train-0.train.ns.svc");
    assert_int_equal(endpoints.at[0].port, 5000);
    assert_false(mst_address_is_local(&endpoints.at[0]));
    assert_true(mst_address_is_local(&endpoints.at[1]));
}

/* An address is looked at as the parsers of both sides see it, with what they pass over. Both
 * agree whether it is a Unix socket. */
static void whether_one_is_no_unix_socket(void **state)
{
    (void)state;
    assert_false(mst_addresses_speak_tcp(""));
    assert_false(mst_addresses_speak_tcp("unix:/a"));
    assert_false(mst_addresses_speak_tcp(",unix:/a,,unix:/run/b:5000,"));
    assert_true(mst_addresses_speak_tcp("127.0.0.1:0"));
    assert_true(mst_addresses_speak_tcp("unix:/a,[::1]:5000"));
    assert_true(mst_addresses_speak_tcp("unix:/a,,unix.example.org:5000,unix:/b"));
}

/* An address is a name. Each attempt to connect looks it up, on a thread of its own, and the
 * attempts go through the addresses found. [security / Addresses]
 *
 * No name server is asked for the name of this machine itself: the test needs no network. */
static void a_name_is_looked_up_beside(void **state)
{
    struct mst_address address;
    struct mst_lookup *lookup;
    struct pollfd done;

    (void)state;
    assert_string_equal(mst_address_parse(&address, mst_slice_of("a\0b:7000", 8)),
                        "has a byte 0 in it");
    assert_null(mst_address_parse(&address, mst_slice_text("localhost.:7000")));
    assert_int_equal(address.kind, MST_ADDRESS_NAME);
    (void)snprintf(address.host, sizeof(address.host), "127.0.0.9");
    lookup = mst_lookup_start(&address);
    assert_non_null(lookup);
    done = (struct pollfd){.fd = mst_lookup_fd(lookup), .events = POLLIN};
    assert_int_equal(poll(&done, 1, 30000), 1);
    assert_true(mst_lookup_is_over(lookup));
    for (uint32_t turn = 0; turn < 3; turn++) {
        assert_null(mst_lookup_take(lookup, turn, &address));
        assert_int_equal(address.name.ss_family, AF_INET);
    }
    mst_lookup_drop(lookup);
    mst_lookup_drop(mst_lookup_start(&address)); /* nobody waits: the thread ends by itself */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones),
        cmocka_unit_test(bad_ones),
        cmocka_unit_test(at_most_sixteen),
        cmocka_unit_test(other_machines_need_a_secret),
        cmocka_unit_test(a_name_is_kept_to_be_looked_up),
        cmocka_unit_test(whether_one_is_no_unix_socket),
        cmocka_unit_test(a_name_is_looked_up_beside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
