/* SPDX-License-Identifier: Apache-2.0 */
/* Some members' machines around the real service, millisecond by millisecond; the seed decides the
 * sizes, the ways, the clocks and what goes wrong. In the first phase things go wrong, in the
 * second nothing does any more. What must hold is in the names of the tests.
 *
 * behaviour: heartbeat / Failures */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "core_service.h"
#include "failing_mem.h"
#include "heartbeat/heartbeat.h"

#define MS UINT64_C(1000000)
#define SEEDS 250
#define NONE UINT64_MAX
#define PHASE_MS UINT64_C(30000)

enum { MEMBERS_MAX = 6, PARCELS_MAX = 32 };

/* What is on its way, in order: a request up, or a reply down. */
struct parcel {
    uint64_t at_ms, tag;
    struct mst_round_request round;
    unsigned char data[32];
    struct mst_reply *reply;
};

struct way {
    struct parcel parcels[PARCELS_MAX];
    unsigned count;
};

struct member {
    struct failing_mem memory;
    struct mst_heartbeat *machine;
    struct mst_heartbeat_sight sight;
    struct way up, down;
    uint64_t offset_ns;
    int64_t drift_ppm;
    uint64_t frozen_until_ms;
    uint64_t waits_id, waits_tag; /* at the service */
    bool alive, odd;
    bool crashed;
    uint64_t crashed_ms;
    enum mst_heartbeat_why why;
    unsigned counted, excused;
};

struct world {
    struct mst_prng prng;
    uint64_t now_ms;
    uint32_t size;
    struct member members[MEMBERS_MAX];
    uint64_t latency_ms;
    struct mst_heartbeat_config config;

    struct core_service service;
    uint32_t agent; /* which tells it who died */
    uint64_t generation, away_until_ms;
    uint64_t closed; /* rounds of the generation that were counted */
    unsigned ok, bad, bad_in_a_row, most_bad;
    uint64_t bad_ms; /* when a round last failed */
    uint64_t seal_ms;
};

static uint64_t below(struct world *world, uint64_t bound)
{
    return mst_prng_below(&world->prng, bound);
}

static uint64_t clock_of(const struct world *world, const struct member *member)
{
    int64_t slow = (int64_t)world->now_ms * member->drift_ppm;

    return member->offset_ns + world->now_ms * MS + (uint64_t)slow;
}

/* ---- ways ---- */

static struct parcel *post(struct world *world, struct way *way)
{
    struct parcel *parcel = &way->parcels[way->count];
    uint64_t at_ms = world->now_ms + below(world, world->latency_ms + 1);

    assert_true(way->count < PARCELS_MAX);
    if (way->count > 0 && way->parcels[way->count - 1].at_ms > at_ms) {
        at_ms = way->parcels[way->count - 1].at_ms;
    }
    way->count++;
    *parcel = (struct parcel){.at_ms = at_ms};
    return parcel;
}

static bool take(const struct world *world, struct way *way, struct parcel *out)
{
    if (way->count == 0 || way->parcels[0].at_ms > world->now_ms) {
        return false;
    }
    *out = way->parcels[0];
    memmove(way->parcels, way->parcels + 1, --way->count * sizeof(way->parcels[0]));
    return true;
}

/* ---- the service ---- */

static void count_round(struct world *world, const struct mst_reply *reply)
{
    bool good = reply->status == MUSTER_OK;

    if (reply->status == MUSTER_EFENCED || reply->status == MUSTER_ESTALE ||
        reply->status == MUSTER_EINVAL || (uint64_t)reply->number < world->closed) {
        return;
    }
    world->closed = (uint64_t)reply->number + 1;
    world->ok += good;
    world->bad += !good;
    world->bad_ms = good ? world->bad_ms : world->now_ms;
    world->bad_in_a_row = good ? 0 : world->bad_in_a_row + 1;
    world->most_bad = world->bad_in_a_row > world->most_bad ? world->bad_in_a_row : world->most_bad;
}

static void replied(void *ctx, uint32_t client, const struct mst_reply *reply)
{
    struct world *world = ctx;
    struct member *member = &world->members[client];

    if (client >= world->size) {
        return;
    }
    if (reply->has_view) {
        member->sight.view = reply->view;
    } else if (reply->command == MST_ROUND && reply->id == member->waits_id) {
        struct parcel *parcel = post(world, &member->down);

        count_round(world, reply);
        parcel->tag = member->waits_tag;
        parcel->reply = core_reply_copy(reply);
    }
}

static void serve(struct world *world, uint32_t i, struct parcel *parcel)
{
    struct member *member = &world->members[i];
    const struct mst_request request = {.command = MST_ROUND, .round = parcel->round};

    member->waits_id = world->service.clients[i].id + 1;
    member->waits_tag = parcel->tag;
    (void)core_service_send(&world->service, i, &request);
}

static void seal(struct world *world)
{
    const struct mst_request join = {.command = MST_JOIN};
    const struct mst_request round = {.command = MST_ROUND,
                                      .round = {.generation = world->generation,
                                                .name = mst_slice_text("muster/seal"),
                                                .on_loss = MST_PROCEED,
                                                .seal = true}};

    world->seal_ms = NONE;
    world->bad_in_a_row = 0;
    world->closed = 0;
    for (uint32_t i = 0; i < world->size; i++) {
        if (world->members[i].alive) {
            (void)core_service_send(&world->service, i, world->generation > 0 ? &round : &join);
        }
    }
    world->generation++;
    for (uint32_t i = 0; i < world->size; i++) {
        assert_true(!world->members[i].alive ||
                    world->members[i].sight.view.generation == world->generation);
    }
}

static void service_turn(struct world *world)
{
    struct parcel parcel;

    if (world->now_ms < world->away_until_ms) {
        return; /* no deadline runs */
    }
    if (world->seal_ms <= world->now_ms) {
        seal(world);
    }
    for (uint32_t i = 0; i < world->size; i++) {
        while (take(world, &world->members[i].up, &parcel)) {
            parcel.round.data.data = parcel.data;
            serve(world, i, &parcel);
        }
    }
    core_service_tick(&world->service, world->service.now_ns + MS);
}

static void lose(struct world *world, uint32_t i)
{
    const struct mst_request lost = {
        .command = MST_LOST, .lost = {.index = i, .pid = 100 + i, .cause = MST_CAUSE_SIGNAL}};

    world->members[i].alive = false;
    (void)core_service_send(&world->service, world->agent, &lost);
}

/* ---- members ---- */

static void drain(struct world *world, struct member *member)
{
    const struct mst_heartbeat_effect *effect;

    while ((effect = mst_heartbeat_machine.next(member->machine)) != NULL) {
        if (effect->head.kind == MST_MACHINE_CALL && member->alive) {
            struct parcel *parcel = post(world, &member->up);

            parcel->tag = effect->head.tag;
            parcel->round = effect->head.request->round;
            memcpy(parcel->data, parcel->round.data.data, parcel->round.data.size);
            parcel->data[0] ^= member->odd && parcel->round.reduce == MST_REDUCE_EQUAL;
        } else if (effect->type == MST_HEARTBEAT_FAILED) {
            *(effect->failures > 0 ? &member->counted : &member->excused) += 1;
        } else if (effect->type == MST_HEARTBEAT_CRASH) {
            member->crashed = true;
            member->crashed_ms = world->now_ms;
            member->why = effect->why;
            lose(world, (uint32_t)(member - world->members));
        }
    }
    mst_heartbeat_check(member->machine);
}

static void member_turn(struct world *world, struct member *member)
{
    uint64_t now_ns = clock_of(world, member);
    struct parcel parcel;

    if (!member->alive || member->frozen_until_ms > world->now_ms) {
        return;
    }
    member->sight.away = world->now_ms < world->away_until_ms;
    mst_heartbeat_look(member->machine, now_ns, &member->sight);
    drain(world, member);
    while (member->alive && take(world, &member->down, &parcel)) {
        mst_heartbeat_machine.reply(member->machine, now_ns, parcel.tag, parcel.reply);
        drain(world, member);
        free(parcel.reply);
    }
    if (member->alive) {
        mst_heartbeat_machine.tick(member->machine, now_ns);
        drain(world, member);
    }
}

/* ---- a world ---- */

static void world_init(struct world *world, uint64_t seed)
{
    *world = (struct world){.prng = {seed}, .seal_ms = NONE};
    world->size = 2 + (uint32_t)below(world, MEMBERS_MAX - 1);
    world->latency_ms = below(world, 2) ? 0 : below(world, 40);
    world->config.period_ms = 500 + below(world, 1500);
    world->config.timeout_ms = 200 + below(world, 1500);
    world->config.failures_max = 3;
    core_service_init(&world->service, 1000 * MS);
    world->service.replied = replied;
    world->service.ctx = world;
    for (uint32_t i = 0; i < world->size; i++) {
        struct member *member = &world->members[i];
        struct mst_heartbeat_config config = world->config;

        (void)core_service_open(&world->service, &(struct mst_open){.role = MST_ROLE_RANK,
                                                                    .index = i,
                                                                    .size = world->size,
                                                                    .min_size = 1});
        failing_mem_init(&member->memory, 0);
        config.seed = mst_prng_next(&world->prng);
        config.period_ms -= i == 0 ? 0 : below(world, 100); /* the largest counts */
        assert_int_equal(mst_heartbeat_new(&member->machine, &config, &member->memory.mem),
                         MUSTER_OK);
        mst_heartbeat_judge(member->machine, true);
        member->alive = true;
        member->offset_ns = mst_prng_next(&world->prng) >> 20;
        member->drift_ppm = (int64_t)below(world, 401) - 200;
    }
    world->agent = core_service_open(&world->service, &(struct mst_open){.role = MST_ROLE_AGENT});
    seal(world);
}

static void world_fini(struct world *world)
{
    for (uint32_t i = 0; i < world->size; i++) {
        struct way *down = &world->members[i].down;

        mst_heartbeat_free(world->members[i].machine);
        assert_int_equal(world->members[i].memory.live, 0);
        while (down->count > 0) {
            free(down->parcels[--down->count].reply);
        }
    }
    core_service_fini(&world->service);
}

static void run_ms(struct world *world, uint64_t ms)
{
    for (uint64_t end_ms = world->now_ms + ms; world->now_ms < end_ms; world->now_ms++) {
        service_turn(world);
        for (uint32_t i = 0; i < world->size; i++) {
            member_turn(world, &world->members[i]);
        }
    }
}

static uint64_t cycle_ms(const struct world *world)
{
    return world->config.period_ms > world->config.timeout_ms ? world->config.period_ms
                                                              : world->config.timeout_ms;
}

static void away(struct world *world, uint64_t ms)
{
    world->away_until_ms = world->now_ms + ms;
    for (uint32_t i = 0; i < world->size; i++) {
        world->members[i].sight.outages++;
    }
}

/* A rank dies: all of its generation are called out of their work. */
static void kill(struct world *world, struct member *member)
{
    lose(world, (uint32_t)(member - world->members));
    for (uint32_t i = 0; i < world->size; i++) {
        world->members[i].sight.view.attention = MST_INTERRUPT;
    }
}

static unsigned crashes(const struct world *world)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < world->size; i++) {
        count += world->members[i].crashed;
    }
    return count;
}

static unsigned counted(const struct world *world)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < world->size; i++) {
        count += world->members[i].counted;
    }
    return count;
}

/* ---- properties ---- */

/* All members are there, with clocks that drift. No beat fails. (141) [Starting and stopping] */
static void nobody_fails_while_all_are_there(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;

        world_init(&world, seed);
        run_ms(&world, 2 * PHASE_MS);
        assert_int_equal(counted(&world) + crashes(&world) + world.bad, 0);
        assert_true(world.ok >= 2 * PHASE_MS / (world.config.period_ms + 100) - 2);
        world_fini(&world);
    }
}

/* The service comes and goes. It costs no failure. [The service, and recovery] */
static void a_service_that_comes_and_goes_costs_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;
        uint64_t ok;

        world_init(&world, seed);
        while (world.now_ms < PHASE_MS) {
            run_ms(&world, below(&world, 3000));
            away(&world, below(&world, 5000));
        }
        assert_int_equal(counted(&world) + crashes(&world), 0);
        run_ms(&world, 5000 + 2 * cycle_ms(&world));
        ok = world.ok;
        run_ms(&world, 10 * cycle_ms(&world));
        assert_true(world.ok >= ok + 8);
        assert_int_equal(counted(&world) + crashes(&world), 0);
        world_fini(&world);
    }
}

/* A member shows another token. It ends all within a period. (142) */
static void another_token_kills_all_within_a_period(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;
        uint64_t from_ms;

        world_init(&world, seed);
        run_ms(&world, below(&world, PHASE_MS));
        from_ms = world.now_ms;
        world.members[below(&world, world.size)].odd = true;
        run_ms(&world, 2 * cycle_ms(&world) + 1000);
        assert_int_equal(crashes(&world), world.size);
        for (uint32_t i = 0; i < world.size; i++) {
            assert_int_equal(world.members[i].why, MST_BEAT_MISMATCH);
            /* The period, and the ways: of a call that was out, and of the one that differs. */
            assert_true(world.members[i].crashed_ms <=
                        from_ms + world.config.period_ms + 4 * world.latency_ms + 110);
        }
        world_fini(&world);
    }
}

/* Members freeze and go on. They come back in step. (143) */
static void frozen_members_come_back_in_step(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;
        uint64_t calm_ms;

        world_init(&world, seed);
        for (uint32_t i = 0; i < world.size; i++) {
            struct mst_heartbeat_config config = world.config;

            config.failures_max = 1000; /* only whether they meet again */
            config.seed = seed + i;
            assert_int_equal(mst_heartbeat_configure(world.members[i].machine, &config), MUSTER_OK);
        }
        while (world.now_ms < PHASE_MS) {
            struct member *member = &world.members[below(&world, world.size)];

            run_ms(&world, below(&world, 2000));
            member->frozen_until_ms = world.now_ms + below(&world, 6000);
        }
        calm_ms = world.now_ms + 6000;
        run_ms(&world, PHASE_MS + 6000);
        assert_int_equal(crashes(&world), 0);
        /* Each failure brings a late one nearer by a timeout. */
        if (world.bad_ms >
            calm_ms + (cycle_ms(&world) / world.config.timeout_ms + 3) * cycle_ms(&world)) {
            fail_msg("seed %u: a round failed %u ms after it was calm", (unsigned)seed,
                     (unsigned)(world.bad_ms - calm_ms));
        }
        world_fini(&world);
    }
}

/* Members fail fewer than three times in a row. None ends. (144) */
static void nobody_dies_of_fewer_than_three_in_a_row(void **state)
{
    unsigned deaths = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;

        world_init(&world, seed);
        while (world.now_ms < PHASE_MS && crashes(&world) == 0) {
            struct member *member = &world.members[below(&world, world.size)];

            run_ms(&world, 500 + below(&world, 4000));
            member->frozen_until_ms = world.now_ms + below(&world, 3000);
        }
        if (crashes(&world) > 0) {
            deaths++;
            assert_true(world.most_bad >= 3);
        }
        world_fini(&world);
    }
    assert_true(deaths > 0 && deaths < SEEDS);
}

/* A member dies without a run. All end. */
static void a_death_without_a_run_is_the_end_of_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;

        world_init(&world, seed);
        run_ms(&world, 2000 + below(&world, PHASE_MS));
        kill(&world, &world.members[below(&world, world.size)]);
        run_ms(&world, 5 * cycle_ms(&world) + 1000);
        assert_int_equal(crashes(&world), world.size - 1);
        world_fini(&world);
    }
}

/* A run recovers from deaths. No member ends, however long it takes. [The service, and recovery] */
static void a_run_recovers_from_deaths_however_long_it_takes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;
        unsigned ok;

        world_init(&world, seed);
        for (uint32_t i = 0; i < world.size; i++) {
            world.members[i].sight.restarting = true;
        }
        for (uint32_t left = world.size; left > 1; left--) {
            struct member *member = &world.members[left - 1];

            run_ms(&world, below(&world, 5000));
            if (below(&world, 2)) { /* silent for long, before it is given up */
                member->frozen_until_ms = NONE;
                run_ms(&world, below(&world, 10000));
            }
            kill(&world, member);
            world.seal_ms = world.now_ms + below(&world, 10000);
            run_ms(&world, world.seal_ms - world.now_ms + 1);
        }
        assert_int_equal(crashes(&world), 0);
        assert_int_equal(counted(&world), 0);
        ok = world.ok;
        run_ms(&world, 5 * cycle_ms(&world) + 1000);
        assert_true(world.ok >= ok + 4);
        world_fini(&world);
    }
}

/* A member leaves. It is not missed. (145) [Starting and stopping] */
static void who_leaves_is_not_missed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world;

        world_init(&world, seed);
        run_ms(&world, 1000);
        for (uint32_t left = world.size; left > 1; left--) {
            struct member *member = &world.members[left - 1];

            run_ms(&world, below(&world, 5000));
            if (below(&world, 2)) {
                mst_heartbeat_judge(member->machine, false); /* it has stopped first */
                run_ms(&world, below(&world, 5000));
            }
            member->alive = false;
            (void)core_service_send(&world.service, left - 1,
                                    &(struct mst_request){.command = MST_LEAVE});
        }
        run_ms(&world, 5 * cycle_ms(&world));
        assert_int_equal(counted(&world) + crashes(&world), 0);
        world_fini(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_fails_while_all_are_there),
        cmocka_unit_test(a_service_that_comes_and_goes_costs_nothing),
        cmocka_unit_test(another_token_kills_all_within_a_period),
        cmocka_unit_test(frozen_members_come_back_in_step),
        cmocka_unit_test(nobody_dies_of_fewer_than_three_in_a_row),
        cmocka_unit_test(a_death_without_a_run_is_the_end_of_all),
        cmocka_unit_test(a_run_recovers_from_deaths_however_long_it_takes),
        cmocka_unit_test(who_leaves_is_not_missed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
