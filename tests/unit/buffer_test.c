/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: library / What it is built of */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/prng.h"
#include "failing_mem.h"

enum { STEPS = 20000, SIZE_LIMIT = 3000 };

/* What goes in is the sequence 0, 1, 2, ... of bytes; so what is in it is known from two counts. */
struct sequence {
    uint64_t in, out;
};

static void assert_content(const struct mst_buffer *buffer, const struct sequence *sequence)
{
    struct mst_slice content = mst_buffer_content(buffer);
    const unsigned char *bytes = content.data;

    assert_int_equal(content.size, sequence->in - sequence->out);
    for (size_t i = 0; i < content.size; i++) {
        assert_int_equal(bytes[i], (unsigned char)(sequence->out + i));
    }
}

static bool append(struct mst_buffer *buffer, struct sequence *sequence, size_t size)
{
    unsigned char bytes[SIZE_LIMIT];

    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)(sequence->in + i);
    }
    if (!mst_buffer_append(buffer, mst_slice_of(bytes, size))) {
        return false;
    }
    sequence->in += size;
    return true;
}

/* A buffer grows and is read as a queue. It behaves as the plainest thing that does the same. */
static void as_a_queue(void **state)
{
    struct failing_mem failing;
    struct mst_buffer buffer;
    struct sequence sequence = {0};
    struct mst_prng prng = {.state = 11};
    unsigned refused = 0;

    (void)state;
    failing_mem_init(&failing, 0);
    mst_buffer_init(&buffer, &failing.mem, SIZE_LIMIT);
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t used = sequence.in - sequence.out;
        size_t size = (size_t)mst_prng_below(&prng, i % 7 == 0 ? SIZE_LIMIT : 60);

        if (mst_prng_below(&prng, 2) == 0) {
            bool fits = size <= SIZE_LIMIT - used;

            assert_int_equal(append(&buffer, &sequence, size), fits);
            refused += !fits;
        } else {
            size = size < used ? size : (size_t)used;
            mst_buffer_take(&buffer, size);
            sequence.out += size;
        }
        assert_content(&buffer, &sequence);
    }
    assert_true(refused > 10);
    mst_buffer_fini(&buffer);
    assert_int_equal(failing.live, 0);
}

static void reserved_bytes_count_when_committed(void **state)
{
    struct failing_mem failing;
    struct mst_buffer buffer;
    unsigned char *room;

    (void)state;
    failing_mem_init(&failing, 0);
    mst_buffer_init(&buffer, &failing.mem, 1000);
    room = mst_buffer_reserve(&buffer, 600);
    assert_non_null(room);
    memset(room, 'a', 600);
    assert_int_equal(mst_buffer_content(&buffer).size, 0);
    mst_buffer_commit(&buffer, 400); /* less than was reserved */
    assert_int_equal(mst_buffer_content(&buffer).size, 400);
    assert_null(mst_buffer_reserve(&buffer, 601));
    assert_non_null(mst_buffer_reserve(&buffer, 600));
    assert_null(mst_buffer_reserve(&buffer, SIZE_MAX));
    mst_buffer_fini(&buffer);
    assert_int_equal(failing.live, 0);
}

/* A buffer finds no memory. The append fails and leaves what is there as it is, and a later one
 * works. */
static void no_memory(void **state)
{
    (void)state;
    for (size_t at = 1; at <= 4; at++) {
        struct failing_mem failing;
        struct mst_buffer buffer;
        struct sequence sequence = {0};
        unsigned refused = 0;

        failing_mem_init(&failing, at);
        mst_buffer_init(&buffer, &failing.mem, SIZE_LIMIT);
        for (unsigned i = 0; i < 20; i++) {
            refused += !append(&buffer, &sequence, 100);
            assert_content(&buffer, &sequence);
        }
        assert_int_equal(refused, 1);
        assert_true(failing.failed);
        mst_buffer_fini(&buffer);
        assert_int_equal(failing.live, 0);
    }
}

static void of_nothing(void **state)
{
    struct failing_mem failing;
    struct mst_buffer buffer;

    (void)state;
    failing_mem_init(&failing, 0);
    mst_buffer_init(&buffer, &failing.mem, 100);
    assert_true(mst_buffer_append(&buffer, mst_slice_of(NULL, 0)));
    mst_buffer_take(&buffer, 0);
    assert_int_equal(mst_buffer_content(&buffer).size, 0);
    assert_int_equal(failing.count, 0);
    mst_buffer_fini(&buffer);
    mst_buffer_fini(&buffer); /* twice is no harm */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_a_queue),
        cmocka_unit_test(reserved_bytes_count_when_committed),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
