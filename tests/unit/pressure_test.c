/* SPDX-License-Identifier: Apache-2.0 */
/* Who is read while the connections hold half of what they may: one after the other of those in the
 * middle of a frame. The rest of the hub is what this needs of it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/uv/connection.h"
#include "io/uv/pressure.h"

#define SECOND_NS UINT64_C(1000000000)

enum { COUNT = 3, HELD_MAX = 1000, HIGH = HELD_MAX / 2 + 1 };

static struct mst_uv_hub hub;
static struct mst_uv_connection connections[COUNT];
static size_t input; /* what each has of a frame */

/* ---- what pressure.c is told by others ---- */

size_t mst_uv_connection_unread(const struct mst_uv_connection *connection)
{
    (void)connection;
    return 0;
}

void mst_uv_connection_refuse(struct mst_uv_connection *connection, const char *reason)
{
    (void)connection;
    fail_msg("%s", reason);
}

void mst_uv_connection_watch(struct mst_uv_connection *connection)
{
    assert_ptr_equal(connection->hub, &hub);
}

void mst_uv_hub_carry_all(struct mst_uv_hub *of)
{
    (void)of;
}

uint64_t mst_uv_feed_now_ns(const struct mst_uv_feed *feed)
{
    (void)feed;
    return 0;
}

void mst_core_resume_deferred(struct mst_core *core, struct mst_conn conn)
{
    (void)core;
    (void)conn;
}

uint64_t mst_core_walked(const struct mst_core *core)
{
    (void)core;
    return 0;
}

static struct mst_codec_room room(const struct mst_codec *codec)
{
    (void)codec;
    return (struct mst_codec_room){.input = input};
}

/* ---- */

static const struct mst_codec_ops ops = {.room = room};
static struct mst_codec codec = {.ops = &ops};

/* All are in the middle of a frame, when there is little room left. */
static int begin(void **state)
{
    static const struct mst_mem none;

    (void)state;
    hub.now_ns = SECOND_NS;
    mst_uv_pressure_init(&hub.pressure, &none, HELD_MAX);
    hub.pressure.held = HIGH;
    input = 100000;
    for (int i = 0; i < COUNT; i++) {
        connections[i] = (struct mst_uv_connection){.hub = &hub, .codec = &codec};
        assert_true(mst_uv_pressure_may_read(&connections[i]));
        mst_uv_pressure_read(&connections[i]);
        assert_false(mst_uv_pressure_may_read(&connections[i]));
    }
    mst_uv_pressure_turn(&hub);
    return 0;
}

/* Only this one is read. */
static void reads(int which)
{
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(mst_uv_pressure_may_read(&connections[i]), i == which);
    }
}

static void the_latest_is_read_until_its_frame_is_whole(void **state)
{
    (void)state;
    reads(2);
    mst_uv_pressure_read(&connections[2]);
    mst_uv_pressure_turn(&hub);
    reads(2);
    input = 0;
    mst_uv_pressure_read(&connections[2]);
    input = 100000;
    mst_uv_pressure_turn(&hub);
    assert_true(mst_uv_pressure_may_read(&connections[2]));
    assert_true(mst_uv_pressure_may_read(&connections[1]));
    assert_false(mst_uv_pressure_may_read(&connections[0]));
}

static void one_that_goes_makes_way_for_the_next(void **state)
{
    (void)state;
    mst_uv_pressure_forget(&connections[2]);
    connections[2] =
        (struct mst_uv_connection){.deferred = true}; /* as freed: nobody looks at it */
    mst_uv_pressure_turn(&hub);
    reads(1);
    mst_uv_pressure_forget(&connections[0]); /* one that only waits takes nobody's turn */
    connections[0] = (struct mst_uv_connection){.deferred = true};
    mst_uv_pressure_turn(&hub);
    reads(1);
}

static void one_that_takes_longer_than_a_second_waits_for_all_others(void **state)
{
    (void)state;
    assert_int_equal(mst_uv_pressure_deadline_ns(&hub), 2 * SECOND_NS);
    hub.now_ns += SECOND_NS - 1;
    mst_uv_pressure_turn(&hub);
    reads(2);
    for (int which = 1; which >= -1; which--) {
        hub.now_ns += which == 1 ? 1 : SECOND_NS;
        mst_uv_pressure_turn(&hub);
        reads(which < 0 ? 2 : which);
    }
}

static void with_room_again_all_are_read(void **state)
{
    (void)state;
    hub.pressure.held = HELD_MAX / 2;
    mst_uv_pressure_turn(&hub);
    for (int i = 0; i < COUNT; i++) {
        assert_true(mst_uv_pressure_may_read(&connections[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_latest_is_read_until_its_frame_is_whole, begin),
        cmocka_unit_test_setup(one_that_goes_makes_way_for_the_next, begin),
        cmocka_unit_test_setup(one_that_takes_longer_than_a_second_waits_for_all_others, begin),
        cmocka_unit_test_setup(with_room_again_all_are_read, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
