/* SPDX-License-Identifier: Apache-2.0 */
/* Text, slices, digests and the generator of numbers: what has no memory of its own.
 *
 * behaviour: library / What it is built of */
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/prng.h"
#include "base/text.h"

static void a_sentence_has_words_and_numbers(void **state)
{
    char array[200];
    struct mst_text text = mst_text_in(array, sizeof(array));

    (void)state;
    mst_text_format(&text, "rank %u (#%d, node %s) ", 7U, -12, "b3");
    mst_text_format(&text, "%c%c 100%% %i %x", 'a', '-', 5, 0xbeefU);
    assert_string_equal(array, "rank 7 (#-12, node b3) a- 100% 5 beef");
    assert_int_equal(text.size, strlen(array));
    mst_text_format(&text, "%s", "");
    mst_text_format(&text, "no %%s, %s", "and a % of an argument is none of the format: %d");
    assert_string_equal(array, "rank 7 (#-12, node b3) a- 100% 5 beef"
                               "no %s, and a % of an argument is none of the format: %d");
}

static void each_length_of_a_number_has_its_bounds(void **state)
{
    char array[400];

    (void)state;
    mst_text_print(array, sizeof array, "%d %i %u %x", INT_MIN, INT_MAX, UINT_MAX, UINT_MAX);
    assert_string_equal(array, "-2147483648 2147483647 4294967295 ffffffff");
    mst_text_print(array, sizeof array, "%ld %li %lu %lx", LONG_MIN, LONG_MAX, ULONG_MAX,
                   ULONG_MAX);
    assert_string_equal(array, "-9223372036854775808 9223372036854775807 18446744073709551615 "
                               "ffffffffffffffff");
    mst_text_print(array, sizeof array, "%lld %lli %llu %llx", LLONG_MIN, LLONG_MAX, ULLONG_MAX,
                   0xdeadbeef01ULL);
    assert_string_equal(array, "-9223372036854775808 9223372036854775807 18446744073709551615 "
                               "deadbeef01");
    mst_text_print(array, sizeof array, "%zu %zx %zd", SIZE_MAX, (size_t)255, (ssize_t)-1);
    assert_string_equal(array, "18446744073709551615 ff -1");
    mst_text_print(array, sizeof array, "%" PRIu32 " %" PRId32 " %" PRIu64 " %" PRId64 " %" PRIx64,
                   UINT32_MAX, INT32_MIN, UINT64_MAX, INT64_MIN, UINT64_MAX);
    assert_string_equal(array, "4294967295 -2147483648 18446744073709551615 "
                               "-9223372036854775808 ffffffffffffffff");
    mst_text_print(array, sizeof array, "%u %d %x %" PRIu64 "|%lu", 0U, 0, 0U, UINT64_C(10), 9UL);
    assert_string_equal(array, "0 0 0 10|9");
}

static void words_are_as_they_are_and_bytes_are_quoted(void **state)
{
    char array[64];
    struct mst_slice bytes = mst_slice_of("a\nb\0c", 5);
    struct mst_slice none = mst_slice_of(*state, 0); /* what a compiler cannot know */
    const char *missing = *state;

    mst_text_print(array, sizeof array, "'%.*s' '%s' '%.*s'", MST_SLICE_ARGS(bytes), "\t",
                   MST_SLICE_ARGS(none));
    assert_string_equal(array, "'a\\x0ab\\x00c' '\t' ''");
    assert_int_equal(mst_text_print(array, sizeof array, "<%s>", missing), 8);
    assert_string_equal(array, "<(null)>");
}

/* The list of the caller is still whole. */
static void say_twice(struct mst_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say_twice(struct mst_text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    mst_text_format_list(text, format, arguments);
    mst_text_format_list(text, format, arguments);
    va_end(arguments);
}

static void a_list_of_arguments_is_only_read(void **state)
{
    char array[64];
    struct mst_text text = mst_text_in(array, sizeof array);

    (void)state;
    say_twice(&text, "%s %d;", "a", 1);
    assert_string_equal(array, "a 1;a 1;");
}

static void a_sentence_that_does_not_fit_is_cut(void **state)
{
    char array[12];
    struct mst_text text;

    (void)state;
    memset(array, '#', sizeof array);
    assert_int_equal(mst_text_print(array, 10, "%s%d", "123456", 789), 9);
    assert_string_equal(array, "123456789");
    assert_int_equal(mst_text_print(array, 10, "%s%d%c", "123456", 789, '0'), 9);
    assert_string_equal(array, "123456...");
    assert_int_equal(array[10], '#');
    text = mst_text_in(array, 10);
    mst_text_format(&text, "12345678");
    mst_text_format(&text, "%x%s", 0x90U, "ab");
    mst_text_format(&text, "%%");
    assert_string_equal(array, "123456...");
    assert_int_equal(text.size, 9);
    mst_text_print(array, 8, "abc%s%c", "\xe6\x97\xa5z", 'y');
    assert_string_equal(array, "abc...");
}

/* In a child of its own, as a broken invariant ends it. */
static bool is_broken(const char *format)
{
    void (*say)(struct mst_text * text, const char *format, ...) = mst_text_format;
    char array[64];
    struct mst_text text = mst_text_in(array, sizeof array);
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO);
        say(&text, format, 1, "a", 2, 3);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void other_conversions_are_a_broken_invariant(void **state)
{
    static const char *const formats[] = {"%f",    "%p",    "%X",    "%5d",   "%-d", "%",    "%ls",
                                          "%lc",   "%hd",   "%lld%", "%lx%l", "%z",  "%.3s", "%.s",
                                          "%.*d",  "%llld", "%zld",  "%n",    "%m",  "% d",  "%02d",
                                          "%023u", "%0s",   "%lzu",  "%zlu",  "%lo%"};

    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        assert_true(is_broken(formats[i]));
    }
    assert_false(is_broken("%d%%%s"));
    assert_true(is_broken("%d %s %f"));
}

static void a_size_below_zero_is_a_broken_invariant(void **state)
{
    char array[64];
    int status = 0;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO);
        mst_text_print(array, sizeof array, "%.*s", -1, "a");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void zeros_fill_a_number_up(void **state)
{
    char array[200];

    (void)state;
    mst_text_print(array, sizeof array, "%016" PRIx64 " %02x %02x %03x %09lu %020" PRIu64 " %01u",
                   UINT64_C(0xdeadbeef01), 0U, 0x1ffU, 0x1ffU, 1234UL, UINT64_MAX, 0U);
    assert_string_equal(array, "000000deadbeef01 00 1ff 1ff 000001234 18446744073709551615 0");
    mst_text_print(array, sizeof array, "%020zu %04o %lo", (size_t)7, 0644U, ULONG_MAX);
    assert_string_equal(array, "00000000000000000007 0644 1777777777777777777777");
}

static void seconds(void **state)
{
    static const struct {
        uint64_t ms;
        const char *words;
    } rows[] = {{0, "0.0 s"},   {49, "0.0 s"},         {50, "0.1 s"},    {12400, "12.4 s"},
                {999, "1.0 s"}, {3600000, "3600.0 s"}, {30049, "30.0 s"}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char array[32];
        mst_text_print(array, sizeof array, MST_SECONDS, MST_SECONDS_ARGS(rows[i].ms));
        assert_string_equal(array, rows[i].words);
    }
}

/* A text does not fit its array. It is cut, the cut is marked, and nothing is written behind it. */
static void what_does_not_fit(void **state)
{
    char array[12];
    struct mst_text text;

    (void)state;
    memset(array, '#', sizeof(array));
    text = mst_text_in(array, 10);
    mst_text_add(&text, "123456789");
    assert_string_equal(array, "123456789");
    mst_text_add(&text, "0");
    assert_string_equal(array, "123456...");
    mst_text_format(&text, "%d", 12345);
    assert_string_equal(array, "123456...");
    assert_int_equal(array[10], '#');
    text = mst_text_in(array, 4);
    mst_text_add(&text, "abcd");
    assert_string_equal(array, "...");
}

static void bytes_that_do_not_print(void **state)
{
    char array[64];
    struct mst_text text = mst_text_in(array, sizeof(array));

    (void)state;
    mst_text_slice(&text, mst_slice_of("a\nb\0c\x7f", 6));
    assert_string_equal(array, "a\\x0ab\\x00c\\x7f");
}

static void what_a_terminal_obeys_is_quoted_and_letters_are_not(void **state)
{
    static const struct {
        const char *bytes, *shown;
    } rows[] = {
        {"a b~\\x1b", "a b~\\x1b"}, /* what was quoted stays */
        {"\x1b[2J", "\\x1b[2J"},
        {"\xc3\xa9\xe6\x97\xa5\xf0\x9f\x9a\x80", "\xc3\xa9\xe6\x97\xa5\xf0\x9f\x9a\x80"},
        {"\xc2\xa0", "\xc2\xa0"},
        {"\xc2\x9b", "\\xc2\\x9b"}, /* C1, as UTF-8 and as a byte */
        {"\x9b", "\\x9b"},
        {"\xe2\x80\xa7\xe2\x80\xa8", "\xe2\x80\xa7\\xe2\\x80\\xa8"},
        // NOLINTBEGIN(misc-misleading-bidirectional): what is tried
        {"\xe2\x80\xae", "\\xe2\\x80\\xae"}, /* turns the line round */
        {"\xe2\x81\xa6\xe2\x81\xaa", "\\xe2\\x81\\xa6\xe2\x81\xaa"},
        {"\xe2\x81\xa9", "\\xe2\\x81\\xa9"},
        {"\xe2\x80\x8d\xe2\x80\x8e", "\xe2\x80\x8d\\xe2\\x80\\x8e"},
        {"\xe2\x80\x8f\xe2\x80\x90", "\\xe2\\x80\\x8f\xe2\x80\x90"},
        // NOLINTEND(misc-misleading-bidirectional)
        {"\xd8\x9c\xef\xbb\xbf", "\\xd8\\x9c\\xef\\xbb\\xbf"},
        {"\xc3", "\\xc3"}, /* half of one */
        {"\xc0\xaf\xed\xa0\x80\xf5", "\\xc0\\xaf\\xed\\xa0\\x80\\xf5"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char array[128];
        struct mst_text text = mst_text_in(array, sizeof array);

        mst_text_slice(&text, mst_slice_text(rows[i].bytes));
        assert_string_equal(array, rows[i].shown);
    }
}

static void a_character_is_not_cut(void **state)
{
    char array[8];
    struct mst_text text = mst_text_in(array, sizeof array);

    (void)state;
    mst_text_slice(&text, mst_slice_text("abc\xe6\x97\xa5z"));
    assert_string_equal(array, "abc\xe6\x97\xa5z");
    mst_text_add(&text, "y");
    assert_string_equal(array, "abc...");
    mst_text_add(&text, "y");
    assert_string_equal(array, "abc...");
    assert_int_equal(text.size, strlen(array));
}

static void order_of_slices(void **state)
{
    /* each before the next */
    static const struct mst_slice rows[] = {{NULL, 0}, {"\0", 1}, {"a", 1},   {"a\0", 2},
                                            {"ab", 2}, {"b", 1},  {"\xff", 1}};
    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < ROWS; j++) {
            int order = mst_slice_compare(rows[i], rows[j]);

            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
            assert_int_equal(mst_slice_equal(rows[i], rows[j]), i == j);
        }
    }
    assert_true(mst_slice_starts_with(rows[4], rows[2]));
    assert_true(mst_slice_starts_with(rows[4], rows[0]));
    assert_true(mst_slice_starts_with(rows[0], rows[0]));
    assert_false(mst_slice_starts_with(rows[2], rows[4]));
    assert_false(mst_slice_starts_with(rows[5], rows[2]));
    assert_true(mst_slice_has_nul(rows[3]));
    assert_false(mst_slice_has_nul(rows[4]));
    assert_false(mst_slice_has_nul(rows[0]));
    assert_int_equal(mst_slice_text(NULL).size, 0);
    assert_int_equal(mst_slice_text("four").size, 4);
}

static void a_nul_is_found_anywhere(void **state)
{
    unsigned char bytes[20];

    (void)state;
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        for (unsigned fill = 1; fill <= 0xff; fill += 0x7f) { /* 1, 0x80, 0xff */
            memset(bytes, (int)fill, sizeof(bytes));
            assert_false(mst_slice_has_nul(mst_slice_of(bytes, size)));
            for (size_t at = 0; at < sizeof(bytes); at++) {
                bytes[at] = 0;
                assert_true(mst_slice_has_nul(mst_slice_of(bytes, size)) == (at < size));
                bytes[at] = (unsigned char)fill;
            }
        }
    }
}

/* Digests have known values, so that a recorded run means the same in the next version. */
static void digests_are_for_ever(void **state)
{
    uint64_t digest = MST_DIGEST_INIT;

    (void)state;
    assert_int_equal(mst_digest_number(digest, 0), 0xa8c7f832281a39c5u);
    assert_true(
        mst_digest_slice(digest, mst_slice_text("ab")) !=
        mst_digest_slice(mst_digest_slice(digest, mst_slice_text("a")), mst_slice_text("b")));
}

/* A seed gives the same numbers in every version. */
static void a_seed_gives_the_same_numbers(void **state)
{
    struct mst_prng prng = {.state = 1234567};
    unsigned seen[10] = {0};

    (void)state;
    /* the first outputs of splitmix64 for this seed */
    assert_true(mst_prng_next(&prng) == 6457827717110365317u);
    assert_true(mst_prng_next(&prng) == 3203168211198807973u);
    for (unsigned i = 0; i < 1000; i++) {
        seen[mst_prng_below(&prng, 10)]++;
    }
    for (unsigned i = 0; i < 10; i++) {
        assert_in_range(seen[i], 60, 140);
    }
    assert_int_equal(mst_prng_below(&prng, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_has_words_and_numbers),
        cmocka_unit_test(each_length_of_a_number_has_its_bounds),
        cmocka_unit_test(words_are_as_they_are_and_bytes_are_quoted),
        cmocka_unit_test(a_list_of_arguments_is_only_read),
        cmocka_unit_test(a_sentence_that_does_not_fit_is_cut),
        cmocka_unit_test(other_conversions_are_a_broken_invariant),
        cmocka_unit_test(a_size_below_zero_is_a_broken_invariant),
        cmocka_unit_test(zeros_fill_a_number_up),
        cmocka_unit_test(seconds),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(bytes_that_do_not_print),
        cmocka_unit_test(what_a_terminal_obeys_is_quoted_and_letters_are_not),
        cmocka_unit_test(a_character_is_not_cut),
        cmocka_unit_test(order_of_slices),
        cmocka_unit_test(a_nul_is_found_anywhere),
        cmocka_unit_test(digests_are_for_ever),
        cmocka_unit_test(a_seed_gives_the_same_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
