/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: library / What it is built of */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/panic.h"

struct thing {
    int number;
    struct mst_list node;
};

static int number_of(struct mst_list *node)
{
    return MST_CONTAINER(node, struct thing, node)->number;
}

static void in_order(void **state)
{
    struct thing things[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    struct mst_list head;
    int expected = 0;

    (void)state;
    mst_list_init(&head);
    assert_true(mst_list_empty(&head));
    assert_null(mst_list_take(&head));
    for (unsigned i = 0; i < 4; i++) {
        assert_false(mst_list_linked(&things[i].node));
        mst_list_append(&head, &things[i].node);
        assert_true(mst_list_linked(&things[i].node));
    }
    MST_LIST_EACH(node, following, &head)
    {
        assert_int_equal(number_of(node), expected);
        expected++;
    }
    assert_int_equal(expected, 4);
    assert_int_equal(number_of(mst_list_take(&head)), 0);
    assert_false(mst_list_linked(&things[0].node));
    assert_int_equal(number_of(mst_list_take(&head)), 1);
}

/* A node is removed from its list, twice, or from no list at all. Owners need not remember. */
static void removing(void **state)
{
    struct thing things[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    struct mst_list head;

    (void)state;
    mst_list_init(&head);
    mst_list_remove(&things[0].node);
    for (unsigned i = 0; i < 3; i++) {
        mst_list_append(&head, &things[i].node);
    }
    mst_list_remove(&things[1].node);
    mst_list_remove(&things[1].node);
    assert_int_equal(number_of(head.next), 0);
    assert_int_equal(number_of(head.prev), 2);
    assert_ptr_equal(head.next->next, head.prev);
    mst_list_append(&head, &things[1].node); /* and in again */
    assert_int_equal(number_of(head.prev), 1);
}

/* A list is walked while nodes are removed. The walk goes on. */
static void removing_while_walking(void **state)
{
    struct thing things[5] = {
        {.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};
    struct mst_list head;
    int seen = 0;

    (void)state;
    mst_list_init(&head);
    for (unsigned i = 0; i < 5; i++) {
        mst_list_append(&head, &things[i].node);
    }
    MST_LIST_EACH(node, following, &head)
    {
        seen++;
        if (number_of(node) % 2 == 0) {
            mst_list_remove(node);
        }
    }
    assert_int_equal(seen, 5);
    assert_int_equal(number_of(head.next), 1);
    assert_int_equal(number_of(head.prev), 3);
    MST_LIST_EACH(node, following, &head)
    {
        mst_list_remove(node);
    }
    assert_true(mst_list_empty(&head));
}

static void putting_others_before(void **state)
{
    struct thing things[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    struct mst_list head;
    struct mst_list others;
    int seen = 0;

    (void)state;
    mst_list_init(&head);
    mst_list_init(&others);
    mst_list_put_before(&head, &others);
    assert_true(mst_list_empty(&head));
    mst_list_append(&others, &things[0].node);
    mst_list_append(&others, &things[1].node);
    mst_list_append(&head, &things[2].node);
    mst_list_append(&head, &things[3].node);
    mst_list_put_before(&head, &others);
    assert_true(mst_list_empty(&others));
    MST_LIST_EACH(node, following, &head)
    {
        assert_int_equal(number_of(node), seen++);
        assert_ptr_equal(node->next->prev, node);
    }
    assert_int_equal(seen, 4);
    mst_list_put_before(&others, &head);
    assert_int_equal(number_of(others.prev), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(removing),
        cmocka_unit_test(removing_while_walking),
        cmocka_unit_test(putting_others_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
