/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "io/poll/endpoint.h"

static void accepts(const char *text, uint32_t count, int family)
{
    struct mst_endpoints endpoints;
    char error[256] = "";

    assert_int_equal(mst_endpoints_parse(&endpoints, text, error, sizeof(error)), MUSTER_OK);
    assert_int_equal(endpoints.count, count);
    assert_int_equal(endpoints.at[count - 1].address.ss_family, family);
}

static void refuses(const char *text, const char *line)
{
    struct mst_endpoints endpoints;
    char error[256] = "";

    assert_int_equal(mst_endpoints_parse(&endpoints, text, error, sizeof(error)), MUSTER_EINVAL);
    assert_string_equal(error, line);
}

static void good_ones(void **state)
{
    (void)state;
    accepts("unix:/run/x.sock", 1, AF_UNIX);
    accepts("127.0.0.1:5000", 1, AF_INET);
    accepts("localhost:65535", 1, AF_INET);
    accepts("[::1]:1", 1, AF_INET6);
    accepts("unix:/a,127.0.0.1:5000,[::1]:5001", 3, AF_INET6);
}

static void bad_ones(void **state)
{
    char text[300];

    (void)state;
    refuses("", "address '' is empty");
    refuses("unix:", "address 'unix:' has no path");
    refuses("127.0.0.1", "address '127.0.0.1' has no port from 1 to 65535 (unix:/path, or "
                         "HOST:PORT)");
    refuses("127.0.0.1:0", "address '127.0.0.1:0' has no port from 1 to 65535 (unix:/path, or "
                           "HOST:PORT)");
    refuses("127.0.0.1:65536", "address '127.0.0.1:65536' has no port from 1 to 65535 "
                               "(unix:/path, or HOST:PORT)");
    refuses("127.0.0.1:80x", "address '127.0.0.1:80x' has no port from 1 to 65535 (unix:/path, or "
                             "HOST:PORT)");
    refuses("node7:5000",
            "address 'node7:5000' is neither unix:/path nor NUMBER:PORT nor localhost:PORT");
    refuses("10.0.0.1:5000", "address '10.0.0.1:5000' is not of this machine: only 127.0.0.0/8 and "
                             "[::1] are safe without a secret");
    refuses("[fe80::1]:5000", "address '[fe80::1]:5000' is not of this machine: only 127.0.0.0/8 "
                              "and [::1] are safe without a secret");
    memset(text, 'x', sizeof(text));
    memcpy(text, "unix:", 5);
    text[130] = '\0';
    {
        struct mst_endpoints endpoints;
        char error[256];

        assert_int_equal(mst_endpoints_parse(&endpoints, text, error, sizeof(error)),
                         MUSTER_EINVAL);
        assert_non_null(strstr(error, "is too long: a socket's path has at most 107 bytes"));
        text[130] = 'x';
        text[299] = '\0';
        assert_int_equal(mst_endpoints_parse(&endpoints, text, error, sizeof(error)),
                         MUSTER_EINVAL);
    }
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones),
        cmocka_unit_test(bad_ones),
        cmocka_unit_test(at_most_sixteen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
