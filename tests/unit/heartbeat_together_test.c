/* SPDX-License-Identifier: Apache-2.0 */
/* Some members' machines around a small service, millisecond by millisecond; the seed decides the
 * sizes, the ways, the clocks and what goes wrong. In the first phase things go wrong, in the
 * second nothing does any more. What must hold is in the names of the tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "failing_mem.h"
#include "heartbeat/heartbeat.h"

#define MS UINT64_C(1000000)
#define SEEDS 250
#define NONE UINT64_MAX
#define PHASE_MS UINT64_C(30000)

enum { MEMBERS_MAX = 6, PARCELS_MAX = 32 };

/* What is on its way, in order. */
struct parcel {
    uint64_t at_ms, tag, generation, number, deadline_ms;
    int64_t terms[4];
    enum mst_reduce reduce;
    struct mst_reply reply;
    unsigned char value[32];
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
    uint64_t stamp; /* of the generation it was told of */
    bool alive, left, odd;
    bool crashed;
    uint64_t crashed_ms;
    enum mst_heartbeat_why why;
    unsigned counted, excused;
    struct parcel waits; /* at the service */
    bool is_waiting, arrived;
};

struct world {
    struct mst_prng prng;
    uint64_t now_ms;
    uint32_t size;
    struct member members[MEMBERS_MAX];
    uint64_t latency_ms;
    struct mst_heartbeat_config config;

    /* The service. */
    uint64_t generation, number, end_ms, away_until_ms;
    bool open, over;
    struct parcel first;
    struct mst_reply last;
    unsigned char last_value[32];
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

static void put(unsigned char *at, int64_t number)
{
    for (unsigned byte = 0; byte < 8; byte++) {
        at[byte] = (unsigned char)((uint64_t)number >> (8 * byte));
    }
}

static int64_t get(const unsigned char *at)
{
    uint64_t number = 0;

    for (unsigned byte = 8; byte > 0; byte--) {
        number = number << 8 | at[byte - 1];
    }
    return (int64_t)number;
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

static void answer(struct world *world, struct member *member, uint64_t tag,
                   const struct mst_reply *reply, const unsigned char *value)
{
    struct parcel *parcel = post(world, &member->down);

    parcel->tag = tag;
    parcel->reply = *reply;
    parcel->generation = world->generation;
    memcpy(parcel->value, value, sizeof(parcel->value));
}

static void close_round(struct world *world, muster_status status)
{
    struct mst_reply *last = &world->last;

    *last = (struct mst_reply){.command = MST_ROUND, .status = status, .has_detail = true};
    for (uint32_t i = 0; i < world->size; i++) {
        const struct member *member = &world->members[i];

        if (!member->alive && member->stamp == world->generation) {
            struct mst_who *who = &last->detail.who[last->detail.who_count++];

            last->detail.lost++;
            who->index = i;
            who->cause = member->left ? MST_CAUSE_LEFT : MST_CAUSE_SIGNAL;
        }
    }
    world->number++;
    world->open = false;
    for (uint32_t i = 0; i < world->size; i++) {
        struct member *member = &world->members[i];

        if (member->is_waiting) {
            answer(world, member, member->waits.tag, last, world->last_value);
        }
        member->is_waiting = member->arrived = false;
    }
    if (status == MUSTER_OK) {
        world->ok++;
        world->bad_in_a_row = 0;
    } else {
        world->bad++;
        world->bad_ms = world->now_ms;
        world->bad_in_a_row++;
        world->most_bad =
            world->bad_in_a_row > world->most_bad ? world->bad_in_a_row : world->most_bad;
    }
}

static void settle(struct world *world)
{
    for (uint32_t i = 0; world->open && i < world->size; i++) {
        const struct member *member = &world->members[i];

        if (member->alive && !member->arrived && member->stamp == world->generation) {
            return;
        }
    }
    if (world->open) {
        close_round(world, MUSTER_OK);
    }
}

static void contribute(struct world *world, struct member *member, const struct parcel *parcel)
{
    unsigned char *value = world->last_value;

    if (!world->open) {
        world->open = true;
        world->first = *parcel;
        world->end_ms = parcel->deadline_ms > 0 ? world->now_ms + parcel->deadline_ms : NONE;
        memcpy(value, parcel->value, sizeof(parcel->value));
    }
    assert_true(parcel->reduce == world->first.reduce);
    assert_true(parcel->deadline_ms == world->first.deadline_ms);
    for (size_t i = 0; i < 4 && parcel->reduce == MST_REDUCE_MAX; i++) {
        if (get(parcel->value + 8 * i) > get(value + 8 * i)) {
            put(value + 8 * i, get(parcel->value + 8 * i));
        }
    }
    member->is_waiting = member->arrived = true;
    member->waits = *parcel;
    if (parcel->reduce == MST_REDUCE_EQUAL && memcmp(value, parcel->value, 2) != 0) {
        close_round(world, MUSTER_EMISMATCH);
        return;
    }
    settle(world);
}

static void serve(struct world *world, struct member *member, const struct parcel *parcel)
{
    struct mst_reply reply = {.command = MST_ROUND, .has_detail = true};

    reply.detail.limit = (int64_t)world->number;
    if (parcel->generation != world->generation) {
        reply.status = MUSTER_EFENCED;
    } else if (parcel->number == world->number) {
        contribute(world, member, parcel);
        return;
    } else if (parcel->number + 1 == world->number) {
        answer(world, member, parcel->tag, &world->last, world->last_value);
        return;
    } else {
        reply.status = parcel->number < world->number ? MUSTER_ESTALE : MUSTER_EINVAL;
    }
    answer(world, member, parcel->tag, &reply, world->last_value);
}

static void seal(struct world *world)
{
    uint32_t rank = 0;

    world->generation++;
    world->number = 0;
    world->open = false;
    world->seal_ms = NONE;
    world->bad_in_a_row = 0;
    for (uint32_t i = 0; i < world->size; i++) {
        struct member *member = &world->members[i];

        if (member->alive) {
            if (member->is_waiting) {
                answer(world, member, member->waits.tag,
                       &(struct mst_reply){.command = MST_ROUND, .status = MUSTER_EFENCED},
                       world->last_value);
            }
            member->is_waiting = member->arrived = false;
            member->stamp = world->generation;
            member->sight.view.generation = world->generation;
            member->sight.view.rank = rank++;
            member->sight.view.attention = MST_CALM;
        }
    }
}

static void service_turn(struct world *world)
{
    struct parcel parcel;

    if (world->now_ms < world->away_until_ms) {
        world->end_ms += world->open && world->end_ms != NONE; /* no deadline runs */
        return;
    }
    if (world->seal_ms <= world->now_ms) {
        seal(world);
    }
    for (uint32_t i = 0; i < world->size; i++) {
        while (take(world, &world->members[i].up, &parcel)) {
            serve(world, &world->members[i], &parcel);
        }
    }
    if (world->open && world->end_ms <= world->now_ms) {
        close_round(world, MUSTER_ETIMEDOUT);
    }
}

/* ---- members ---- */

static void drain(struct world *world, struct member *member)
{
    const struct mst_heartbeat_effect *effect;

    while ((effect = mst_heartbeat_machine.next(member->machine)) != NULL) {
        if (effect->head.kind == MST_MACHINE_CALL && member->alive) {
            const struct mst_round_request *round = &effect->head.request->round;
            struct parcel *parcel = post(world, &member->up);

            parcel->tag = effect->head.tag;
            parcel->generation = round->generation;
            parcel->number = round->number;
            parcel->deadline_ms = round->deadline_ms;
            parcel->reduce = round->reduce;
            memcpy(parcel->value, round->data.data, round->data.size);
            parcel->value[0] ^= member->odd && round->reduce == MST_REDUCE_EQUAL;
        } else if (effect->type == MST_HEARTBEAT_FAILED) {
            *(effect->failures > 0 ? &member->counted : &member->excused) += 1;
        } else if (effect->type == MST_HEARTBEAT_CRASH) {
            member->crashed = true;
            member->crashed_ms = world->now_ms;
            member->why = effect->why;
            member->alive = false;
        }
        mst_heartbeat_machine.done(member->machine, effect);
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
        size_t size = world->generation && parcel.reply.status == MUSTER_OK ? 2 : 0;

        if (parcel.reply.status == MUSTER_OK && mst_heartbeat_token(member->machine) == 0) {
            size = 32;
        }
        parcel.reply.value = mst_slice_of(parcel.value, size);
        mst_heartbeat_machine.reply(member->machine, now_ns, parcel.tag, &parcel.reply);
        drain(world, member);
    }
    if (member->alive) {
        mst_heartbeat_machine.tick(member->machine, now_ns);
        drain(world, member);
    }
    settle(world);
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
    for (uint32_t i = 0; i < world->size; i++) {
        struct member *member = &world->members[i];
        struct mst_heartbeat_config config = world->config;

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
    seal(world);
}

static void world_fini(struct world *world)
{
    for (uint32_t i = 0; i < world->size; i++) {
        mst_heartbeat_free(world->members[i].machine);
        assert_int_equal(world->members[i].memory.live, 0);
    }
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
    member->alive = false;
    for (uint32_t i = 0; i < world->size; i++) {
        world->members[i].sight.view.attention = MST_INTERRUPT;
    }
    settle(world);
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
            member->left = true;
            settle(&world);
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
