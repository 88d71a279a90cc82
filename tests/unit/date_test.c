/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sources/metadata/date.h"

typedef bool parser(struct mst_slice text, int64_t *unix_ms);

static void is(parser *parse, const char *text, int64_t unix_ms)
{
    int64_t read_ms = -1;

    if (!parse(mst_slice_text(text), &read_ms) || read_ms != unix_ms) {
        print_error("\"%s\": %lld\n", text, (long long)read_ms);
        assert_int_equal(read_ms, unix_ms);
    }
}

static void is_none(parser *parse, const char *text)
{
    int64_t read_ms = -1;

    if (parse(mst_slice_text(text), &read_ms)) {
        print_error("\"%s\" was taken for a date\n", text);
        fail();
    }
    assert_int_equal(read_ms, -1);
}

static void rfc3339(void **state)
{
    (void)state;
    is(mst_date_rfc3339, "1970-01-01T00:00:00Z", 0);
    is(mst_date_rfc3339, "2027-03-01T04:07:10Z", 1803874030000);
    is(mst_date_rfc3339, "2027-03-01t04:07:10z", 1803874030000);
    is(mst_date_rfc3339, "2027-03-01 04:07:10Z", 1803874030000);
    is(mst_date_rfc3339, "2027-03-01T04:07:10.5Z", 1803874030500);
    is(mst_date_rfc3339, "2027-03-01T04:07:10.1239999999999999Z", 1803874030123);
    is(mst_date_rfc3339, "2027-03-01T05:07:10+01:00", 1803874030000);
    is(mst_date_rfc3339, "2027-02-28T20:37:10-07:30", 1803874030000);
    is(mst_date_rfc3339, "2028-02-29T00:00:00Z", 1835395200000);
    is(mst_date_rfc3339, "2000-02-29T00:00:00Z", 951782400000);
    is(mst_date_rfc3339, "2016-12-31T23:59:60Z", 1483228800000);
    is(mst_date_rfc3339, "9999-12-31T23:59:59Z", 253402300799000);
}

static void gmt(void **state)
{
    (void)state;
    is(mst_date_gmt, "1 Mar 2027 04:00:00 GMT", 1803873600000);
    is(mst_date_gmt, "01 Mar 2027 04:00:00 GMT", 1803873600000);
    is(mst_date_gmt, "31 Dec 1999 23:59:59 GMT", 946684799000);
    is(mst_date_gmt, "Mon, 01 Mar 2027 04:07:10 GMT", 1803874030000);
    is(mst_date_gmt, "Tue, 29 Feb 2028 00:00:00 UTC", 1835395200000);
}

static void what_is_no_rfc3339(void **state)
{
    static const char *const bad[] = {"",
                                      "Z",
                                      "2027",
                                      "2027-03-01",
                                      "2027-03-01T04:07:10",
                                      "2027-03-01T04:07Z",
                                      "2027-03-01T04:07:10ZZ",
                                      "2027-03-01T04:07:10Z ",
                                      " 2027-03-01T04:07:10Z",
                                      "2027-3-01T04:07:10Z",
                                      "2027-03-01X04:07:10Z",
                                      "2027-03-01T04:07:10.Z",
                                      "2027-03-01T24:00:00Z",
                                      "2027-03-01T04:60:00Z",
                                      "2027-03-01T04:07:61Z",
                                      "2027-02-29T04:07:10Z",
                                      "1900-02-29T04:07:10Z",
                                      "2100-02-29T04:07:10Z",
                                      "2027-04-31T04:07:10Z",
                                      "2027-00-01T04:07:10Z",
                                      "2027-13-01T04:07:10Z",
                                      "2027-01-00T04:07:10Z",
                                      "1969-12-31T23:59:59Z",
                                      "2027-03-01T04:07:10+1:00",
                                      "2027-03-01T04:07:10+24:00",
                                      "2027-03-01T04:07:10+01:60",
                                      "2027-03-01T04:07:10+0100",
                                      "-027-03-01T04:07:10Z",
                                      "+2027-03-01T04:07:10Z",
                                      "1 Mar 2027 04:00:00 GMT",
                                      "NONE"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        is_none(mst_date_rfc3339, bad[i]);
    }
}

static void what_is_no_gmt(void **state)
{
    static const char *const bad[] = {"",
                                      "GMT",
                                      "Mon, ",
                                      "1 Mar 2027 04:00:00",
                                      "1 Mar 2027 04:00:00 GMT ",
                                      "1 Mar 2027 04:00:00 CET",
                                      "1 Mar 27 04:00:00 GMT",
                                      "1 March 2027 04:00:00 GMT",
                                      "1 mar 2027 04:00:00 GMT",
                                      "001 Mar 2027 04:00:00 GMT",
                                      "0 Mar 2027 04:00:00 GMT",
                                      "32 Mar 2027 04:00:00 GMT",
                                      "29 Feb 2027 04:00:00 GMT",
                                      "Mon 01 Mar 2027 04:07:10 GMT",
                                      "Mon,01 Mar 2027 04:07:10 GMT",
                                      "Mun, 01 Mar 2027 04:07:10 GMT",
                                      "Monday, 01-Mar-27 04:07:10 GMT",
                                      "Mon Mar  1 04:07:10 2027",
                                      "2027-03-01T04:07:10Z"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        is_none(mst_date_gmt, bad[i]);
    }
}

/* Each beginning of a date is none, and is read without its end, which is not there. */
static void dates_that_are_cut(void **state)
{
    static const char date[] = "2027-03-01T04:07:10.5+01:00",
                      other[] = "Mon, 01 Mar 2027 04:07:10 GMT";
    int64_t read_ms = -1;

    (void)state;
    for (size_t size = 0; size < sizeof date - 1; size++) {
        assert_false(mst_date_rfc3339(mst_slice_of(date, size), &read_ms));
    }
    for (size_t size = 0; size < sizeof other - 1; size++) {
        assert_false(mst_date_gmt(mst_slice_of(other, size), &read_ms));
    }
    assert_false(mst_date_rfc3339(mst_slice_of(NULL, 0), &read_ms));
    assert_false(mst_date_gmt(mst_slice_of(NULL, 0), &read_ms));
}

/* Of 400 years each day is one after the other. */
static void days_follow_each_other(void **state)
{
    static const uint32_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t expected_ms = 0, read_ms = 0;

    (void)state;
    for (uint32_t year = 1970; year < 2370; year++) {
        for (uint32_t month = 1; month <= 12; month++) {
            uint32_t leap =
                month == 2 && ((year % 4 == 0 && year % 100 != 0) || year % 400 == 0) ? 1 : 0;

            for (uint32_t day = 1; day <= days[month - 1] + leap; day++) {
                char text[64];

                (void)snprintf(text, sizeof text, "%04u-%02u-%02uT00:00:00Z", year, month, day);
                assert_true(mst_date_rfc3339(mst_slice_text(text), &read_ms));
                assert_int_equal(read_ms, expected_ms);
                expected_ms += 86400000;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc3339),
        cmocka_unit_test(gmt),
        cmocka_unit_test(what_is_no_rfc3339),
        cmocka_unit_test(what_is_no_gmt),
        cmocka_unit_test(dates_that_are_cut),
        cmocka_unit_test(days_follow_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
