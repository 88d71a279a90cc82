/* SPDX-License-Identifier: Apache-2.0 */
/* Who is read while the connections hold half of what they may: one after the other of those in the
 * middle of a frame. The rest of the hub is what this needs of it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "service/server/connection.h"
#include "service/server/pressure.h"

#define SECOND_NS UINT64_C(1000000000)
#define PATIENCE_NS UINT64_C(50000000) /* for one from which nothing comes */

enum { COUNT = 3, HELD_MAX = 1000, HIGH = HELD_MAX / 2 + 1 };

static struct mst_uv_hub hub;
static struct mst_uv_connection connections[COUNT];

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

uint64_t mst_core_pinned(const struct mst_core *core)
{
    (void)core;
    return 0;
}

uint64_t mst_core_pinned_by(const struct mst_core *core, struct mst_conn conn)
{
    (void)core;
    (void)conn;
    return 0;
}

uint64_t mst_core_walked(const struct mst_core *core)
{
    (void)core;
    return 0;
}

/* ---- */

static struct mst_native_service codec; /* of each: `in` has what is there of a frame */

/* All are in the middle of a frame, when there is little room left. */
static int begin(void **state)
{
    static const struct mst_mem none;

    (void)state;
    hub.now_ns = SECOND_NS;
    mst_uv_pressure_init(&hub.pressure, &none, HELD_MAX);
    hub.pressure.held = HIGH;
    codec.stream.in.room = 100000;
    for (int i = 0; i < COUNT; i++) {
        connections[i] = (struct mst_uv_connection){.hub = &hub, .codec = &codec};
        assert_true(mst_uv_pressure_may_read(&connections[i]));
        mst_uv_pressure_read(&connections[i], 1);
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

static void the_first_is_read_until_its_frame_is_whole(void **state)
{
    (void)state;
    reads(0);
    mst_uv_pressure_read(&connections[0], 1);
    mst_uv_pressure_turn(&hub);
    reads(0);
    codec.stream.in.room = 0;
    mst_uv_pressure_read(&connections[0], 1);
    codec.stream.in.room = 100000;
    mst_uv_pressure_turn(&hub);
    assert_true(mst_uv_pressure_may_read(&connections[0]));
    assert_true(mst_uv_pressure_may_read(&connections[1]));
    assert_false(mst_uv_pressure_may_read(&connections[2]));
}

static void one_that_goes_makes_way_for_the_next(void **state)
{
    (void)state;
    mst_uv_pressure_forget(&connections[0]);
    connections[0] =
        (struct mst_uv_connection){.deferred = true}; /* as freed: nobody looks at it */
    mst_uv_pressure_turn(&hub);
    reads(1);
    mst_uv_pressure_forget(&connections[2]); /* one that only waits takes nobody's turn */
    connections[2] = (struct mst_uv_connection){.deferred = true};
    mst_uv_pressure_turn(&hub);
    reads(1);
}

static void one_from_which_nothing_comes_waits_for_all_others(void **state)
{
    static const int next[] = {1, 2, 0};

    (void)state;
    assert_int_equal(mst_uv_pressure_deadline_ns(&hub), hub.now_ns + PATIENCE_NS);
    hub.now_ns += PATIENCE_NS - 1;
    mst_uv_pressure_turn(&hub);
    reads(0);
    for (unsigned i = 0; i < 3; i++) {
        hub.now_ns += i == 0 ? 1 : PATIENCE_NS;
        mst_uv_pressure_turn(&hub);
        reads(next[i]);
    }
}

static void one_from_which_something_comes_has_a_second(void **state)
{
    const uint64_t end_ns = hub.now_ns + SECOND_NS;

    (void)state;
    while (hub.now_ns + PATIENCE_NS / 2 < end_ns) {
        hub.now_ns += PATIENCE_NS / 2;
        mst_uv_pressure_read(&connections[0], 1);
        mst_uv_pressure_turn(&hub);
        reads(0);
    }
    assert_int_equal(mst_uv_pressure_deadline_ns(&hub), end_ns);
    hub.now_ns = end_ns;
    mst_uv_pressure_turn(&hub);
    reads(1);
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
        cmocka_unit_test_setup(the_first_is_read_until_its_frame_is_whole, begin),
        cmocka_unit_test_setup(one_that_goes_makes_way_for_the_next, begin),
        cmocka_unit_test_setup(one_from_which_nothing_comes_waits_for_all_others, begin),
        cmocka_unit_test_setup(one_from_which_something_comes_has_a_second, begin),
        cmocka_unit_test_setup(with_room_again_all_are_read, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
