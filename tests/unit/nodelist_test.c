/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: discover / Finding a place */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "discover/nodelist.h"

/* The whole list, expanded with commas, against the words. */
static void expands_to(const char *list, const char *expected)
{
    char all[1024] = "";
    char name[64];
    uint32_t count = 0;
    size_t size = 0;

    assert_true(mst_nodelist_count(list, &count));
    for (uint32_t i = 0; i < count; i++) {
        assert_true(mst_nodelist_at(list, i, name, sizeof name));
        size += (size_t)snprintf(all + size, sizeof all - size, "%s%s", i > 0 ? "," : "", name);
    }
    assert_string_equal(all, expected);
    assert_false(mst_nodelist_at(list, count, name, sizeof name));
}

/* Slurm's lists of nodes are compressed. They are read with leading zeros and several brackets
 * in a name. */
static void lists(void **state)
{
    (void)state;
    expands_to("a", "a");
    expands_to("a,b", "a,b");
    expands_to("a[1-3]", "a1,a2,a3");
    expands_to("a[001-003,007],b[1-2]-ib", "a001,a002,a003,a007,b1-ib,b2-ib");
    expands_to("a[08-11]", "a08,a09,a10,a11");
    expands_to("a[9-11]", "a9,a10,a11");
    expands_to("r[1-2]n[0-1]", "r1n0,r1n1,r2n0,r2n1");
    expands_to("[1-2].x,tail", "1.x,2.x,tail");
    expands_to("a[5],a[000]", "a5,a000");
    expands_to("a[1-2][3,5]b", "a13b,a15b,a23b,a25b");
}

/* A text is no list of Slurm. It is none. */
static void what_is_no_list(void **state)
{
    static const char *const bad[] = {
        "",
        ",",
        "a,",
        ",a",
        "a[",
        "a[]",
        "a[1",
        "a]",
        "a[1-]",
        "a[-1]",
        "a[2-1]",
        "a[x]",
        "a[1,,2]",
        "a[1-2-3]",
        "a[[1]",
        "a[1]],b",
        "a b",
        "a[1 ]",
        "a[0-999999999]",
        "a\n",
        "a[1-1000][1-1000][1-2]",
        "a[9999999999]",
        "a[1-1000000],b",
    };
    uint32_t count;
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        print_message("'%s'\n", bad[i]);
        assert_false(mst_nodelist_count(bad[i], &count));
        assert_false(mst_nodelist_at(bad[i], 0, name, sizeof name));
    }
}

/* The name that ends a list of nodes is as long as the room, or one longer. It fits, or is
 * refused. */
static void a_name_that_does_not_fit(void **state)
{
    char name[8];
    char path[320];

    (void)state;
    assert_true(mst_nodelist_at("abc[1000-1001]", 1, name, sizeof name));
    assert_string_equal(name, "abc1001");
    assert_false(mst_nodelist_at("abcd[1000-1001]", 1, name, sizeof name));
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_false(mst_nodelist_at(path, 0, path, sizeof path));
}

/* A list made from names expands to these names. */
static void random_lists(void **state)
{
    struct mst_prng prng = {.state = 7};

    (void)state;
    for (int round = 0; round < 2000; round++) {
        char list[512] = "", expected[2048] = "";
        size_t size = 0, wide = 0;
        uint64_t names = 1 + mst_prng_below(&prng, 3);

        for (uint64_t i = 0; i < names; i++) {
            unsigned low = (unsigned)mst_prng_below(&prng, 1000);
            unsigned high = low + (unsigned)mst_prng_below(&prng, 12);
            int width = (int)mst_prng_below(&prng, 6);
            unsigned racks = 1 + (unsigned)mst_prng_below(&prng, 2);

            size += (size_t)snprintf(list + size, sizeof list - size, "%sr[0-%u]n[%0*u-%0*u]x",
                                     i > 0 ? "," : "", racks - 1, width, low, width, high);
            for (unsigned rack = 0; rack < racks; rack++) {
                for (unsigned number = low; number <= high; number++) {
                    wide += (size_t)snprintf(expected + wide, sizeof expected - wide, "%sr%un%0*ux",
                                             wide > 0 ? "," : "", rack, width, number);
                }
            }
        }
        if (wide < 1000) {
            expands_to(list, expected);
        }
    }
}

/* A list of nodes has any bytes. There is no crash, and what is counted can be had. */
static void random_bytes(void **state)
{
    static const char letters[] = "a1[]-,09(x)/ ";
    struct mst_prng prng = {.state = 11};

    (void)state;
    for (int round = 0; round < 200000; round++) {
        char text[16] = "";
        char name[64];
        uint64_t size = mst_prng_below(&prng, sizeof text - 1);
        uint32_t count = 0;
        struct mst_task_counts tasks;

        for (uint64_t i = 0; i < size; i++) {
            text[i] = letters[mst_prng_below(&prng, sizeof letters - 1)];
        }
        if (mst_nodelist_count(text, &count)) {
            assert_true(count > 0 && count <= MST_NODELIST_MAX);
            assert_true(mst_nodelist_at(text, count - 1, name, sizeof name));
            assert_true(strlen(name) > 0);
        }
        if (mst_task_counts_read(text, 0, &tasks)) {
            assert_true(tasks.nodes > 0 && tasks.here <= tasks.tasks);
        }
    }
}

static void counts_are(const char *text, uint32_t node, uint32_t nodes, uint32_t tasks,
                       uint32_t here)
{
    struct mst_task_counts found;

    assert_true(mst_task_counts_read(text, node, &found));
    assert_int_equal(found.nodes, nodes);
    assert_int_equal(found.tasks, tasks);
    assert_int_equal(found.here, here);
}

/* Slurm's counts of tasks are compressed. They are read. */
static void counts(void **state)
{
    static const char *const bad[] = {"",     ",",      "4(",          "4(x",
                                      "4(x3", "4(y3)",  "4(x0)",       "4,",
                                      "x",    "4(x3)2", "1(x1000001)", "1000(x1000),1000(x1000)"};
    struct mst_task_counts found;

    (void)state;
    counts_are("4", 0, 1, 4, 4);
    counts_are("4(x3),2", 0, 4, 14, 4);
    counts_are("4(x3),2", 2, 4, 14, 4);
    counts_are("4(x3),2", 3, 4, 14, 2);
    counts_are("4(x3),2", 4, 4, 14, 0);
    counts_are("1,2,3(x2)", 1, 4, 9, 2);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(mst_task_counts_read(bad[i], 0, &found));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(what_is_no_list),
        cmocka_unit_test(a_name_that_does_not_fit),
        cmocka_unit_test(random_lists),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
