/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: library / What it is built of */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/blob.h"
#include "failing_mem.h"

/* Many receivers share one counted value. It behaves as a copy for each. */
static void many_receivers_one_value(void **state)
{
    struct failing_mem failing;
    struct mst_slice text = mst_slice_text("value");
    struct mst_blob *blob;

    (void)state;
    failing_mem_init(&failing, 0);
    blob = mst_blob_new(&failing.mem, text);
    assert_non_null(blob);
    assert_ptr_not_equal(blob->bytes, text.data);
    assert_true(mst_slice_equal(mst_blob_slice(blob), text));
    assert_ptr_equal(mst_blob_keep(blob), blob);
    assert_ptr_equal(mst_blob_keep(blob), blob);
    assert_int_equal(failing.count, 1);
    mst_blob_drop(&failing.mem, blob);
    mst_blob_drop(&failing.mem, blob);
    assert_true(mst_slice_equal(mst_blob_slice(blob), text));
    mst_blob_drop(&failing.mem, blob);
    assert_int_equal(failing.live, 0);
}

static void empty_and_absent(void **state)
{
    struct failing_mem failing;
    struct mst_blob *blob;

    (void)state;
    failing_mem_init(&failing, 0);
    blob = mst_blob_new(&failing.mem, mst_slice_of(NULL, 0));
    assert_non_null(blob);
    assert_int_equal(mst_blob_slice(blob).size, 0);
    mst_blob_drop(&failing.mem, blob);
    assert_null(mst_blob_keep(NULL));
    assert_int_equal(mst_blob_slice(NULL).size, 0);
    mst_blob_drop(&failing.mem, NULL);
    assert_int_equal(failing.live, 0);
}

/* A blob finds no memory. What asked for it fails, and what was there is as before. */
static void no_memory(void **state)
{
    struct failing_mem failing;

    (void)state;
    failing_mem_init(&failing, 1);
    assert_null(mst_blob_new(&failing.mem, mst_slice_text("value")));
    assert_null(mst_blob_new(&failing.mem, mst_slice_of("", SIZE_MAX)));
    assert_int_equal(failing.count, 1); /* the second was too large to ask for */
}

static void one_behind_the_other(void **state)
{
    struct failing_mem failing;
    struct mst_blob *blob;

    (void)state;
    failing_mem_init(&failing, 0);
    blob = mst_blob_join(&failing.mem, mst_slice_text("one "), mst_slice_text("two"));
    assert_non_null(blob);
    assert_true(mst_slice_equal(mst_blob_slice(blob), mst_slice_text("one two")));
    mst_blob_drop(&failing.mem, blob);
    blob = mst_blob_join(&failing.mem, mst_slice_of(NULL, 0), mst_slice_text("two"));
    assert_true(mst_slice_equal(mst_blob_slice(blob), mst_slice_text("two")));
    mst_blob_drop(&failing.mem, blob);
    assert_null(mst_blob_join(&failing.mem, mst_slice_of("", SIZE_MAX - 8), mst_slice_of("", 16)));
    failing_mem_init(&failing, 1);
    assert_null(mst_blob_join(&failing.mem, mst_slice_text("one "), mst_slice_text("two")));
    assert_int_equal(failing.live, 0);
}

static void zeroed_memory(void **state)
{
    struct failing_mem failing;
    unsigned char *bytes;

    (void)state;
    failing_mem_init(&failing, 0);
    bytes = mst_mem_array(&failing.mem, 3, 5);
    assert_non_null(bytes);
    for (unsigned i = 0; i < 15; i++) {
        assert_int_equal(bytes[i], 0);
    }
    mst_mem_release(&failing.mem, bytes);
    mst_mem_release(&failing.mem, NULL);
    assert_null(mst_mem_array(&failing.mem, SIZE_MAX / 2, 3)); /* no overflow */
    assert_int_equal(failing.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_receivers_one_value),
        cmocka_unit_test(empty_and_absent),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(one_behind_the_other),
        cmocka_unit_test(zeroed_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
