/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "proto/copy.h"

#define MS UINT64_C(1000000)

struct world_message {
    struct world_message *next;
    uint64_t due_ns;
    struct mst_cluster_message message;
};

const struct mst_function world_functions[WORLD_FUNCTIONS] = {
    [WORLD_WORK] = {{"work", 4}, 1, MST_FUNCTION_THREADS},
    [WORLD_ALONE] = {{"alone", 5}, 1, 0},
    [WORLD_ONCE] = {{"once", 4}, 1, MST_FUNCTION_ONCE | MST_FUNCTION_CHILD},
    [WORLD_IDEMPOTENT] = {{"idem", 4}, 1, MST_FUNCTION_IDEMPOTENT | MST_FUNCTION_THREADS},
    [WORLD_FAIL] = {{"fail", 4}, 1, MST_FUNCTION_THREADS},
    [WORLD_RETRY] = {{"retry", 5}, 1, MST_FUNCTION_THREADS},
    [WORLD_POISON] = {{"poison", 6}, 1, MST_FUNCTION_THREADS},
    [WORLD_STATE] = {{"state", 5}, 1, MST_FUNCTION_THREADS},
    [WORLD_LONG] = {{"long", 4}, 1, MST_FUNCTION_THREADS},
    [WORLD_DEAF] = {{"deaf", 4}, 1, MST_FUNCTION_COMMAND},
    [WORLD_BUILD] = {{"build", 5}, 1, MST_FUNCTION_THREADS},
    [WORLD_BUILD_BAD] = {{"badbuild", 8}, 1, MST_FUNCTION_THREADS},
};

/* One seed alone tells its story. */
__attribute__((format(printf, 2, 3))) static void tell(const struct world *world,
                                                       const char *format, ...)
{
    va_list list;

    if (world->tells) {
        (void)fprintf(stderr, "%lu us: ", (unsigned long)(world->now_ns / 1000));
        va_start(list, format);
        /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was started one line above */
        (void)vfprintf(stderr, format, list);
        va_end(list);
        (void)fputc('\n', stderr);
    }
}

_Noreturn void world_fail(const struct world *world, const char *what, uint64_t number)
{
    (void)fprintf(stderr, "seed %lu at %lu us: %s (%lu)\n", (unsigned long)world->seed,
                  (unsigned long)(world->now_ns / 1000), what, (unsigned long)number);
    abort();
}

uint64_t world_below(struct world *world, uint64_t bound)
{
    return mst_prng_below(&world->prng, bound);
}

static uint64_t soon(struct world *world)
{
    return world->now_ns + 1000 * world_below(world, (uint64_t)world->delay_us + 1);
}

/* ---- connections ---- */

static struct world_link *link_find(struct world *world, uint64_t id)
{
    for (uint32_t i = 0; i < WORLD_LINKS && id != 0; i++) {
        if (world->links[i].id == id) {
            return &world->links[i];
        }
    }
    return NULL;
}

static void message_free(struct world_message *message)
{
    free(message);
}

static void link_clear(struct world_link *link, unsigned way)
{
    while (link->first[way]) {
        struct world_message *message = link->first[way];

        link->first[way] = message->next;
        message_free(message);
    }
    link->last[way] = NULL;
}

static void link_free_if_over(struct world_link *link)
{
    if (link->deaf[0] && link->deaf[1]) {
        link_clear(link, 0);
        link_clear(link, 1);
        *link = (struct world_link){0};
    }
}

static struct world_link *link_new(struct world *world, uint32_t place)
{
    for (uint32_t i = 0; i < WORLD_LINKS; i++) {
        struct world_link *link = &world->links[i];

        if (link->id == 0) {
            *link = (struct world_link){.id = ++world->connections,
                                        .place = place,
                                        .coordinator = world->current,
                                        .incarnation = world->workers[place].incarnation,
                                        .gone_ns = {NEVER, NEVER}};
            return link;
        }
    }
    world_fail(world, "too many connections", world->connections);
}

static void post(struct world *world, struct world_link *link, unsigned way,
                 const struct mst_cluster_message *message)
{
    struct world_message *copy;

    if (link->closed[way] || link->deaf[way]) {
        return; /* into the void */
    }
    copy = calloc(1, sizeof(*copy) + mst_copy_size(&mst_cluster_fields, message));
    mst_copy(&mst_cluster_fields, &copy->message, message, copy + 1);
    copy->due_ns = soon(world);
    if (link->last[way]) {
        if (copy->due_ns < link->last[way]->due_ns) {
            copy->due_ns = link->last[way]->due_ns;
        }
        link->last[way]->next = copy;
    } else {
        link->first[way] = copy;
    }
    link->last[way] = copy;
}

/* One end closes: what it sent arrives, then the other end is told. */
static void link_close(struct world *world, struct world_link *link, unsigned way_out, bool silent)
{
    uint64_t last_ns = link->last[way_out] ? link->last[way_out]->due_ns : world->now_ns;

    link->closed[way_out] = true;
    link->deaf[1 - way_out] = true;
    link_clear(link, 1 - way_out);
    if (!silent && !link->deaf[way_out]) {
        link->gone_ns[way_out] = soon(world);
        if (link->gone_ns[way_out] < last_ns) {
            link->gone_ns[way_out] = last_ns;
        }
    }
    link_free_if_over(link);
}

void world_break(struct world *world, uint64_t connection)
{
    struct world_link *link = link_find(world, connection);

    for (unsigned way = 0; link && way < 2; way++) {
        link_clear(link, way);
        link->closed[way] = true;
        if (!link->deaf[way] && link->gone_ns[way] == NEVER) {
            link->gone_ns[way] = soon(world);
        }
    }
}

/* ---- the service ---- */

static void tell_members(struct world *world, uint32_t index, enum mst_worker_state state)
{
    for (uint32_t i = 0; i < WORLD_COORDINATORS; i++) {
        struct world_coordinator *coordinator = &world->coordinators[i];
        struct world_news *news;
        uint64_t due_ns = soon(world);

        if (!coordinator->machine) {
            continue;
        }
        if (coordinator->news_count == WORLD_NEWS) {
            world_fail(world, "too much news", i);
        }
        if (coordinator->news_count > 0) {
            uint32_t last = (coordinator->news_first + coordinator->news_count - 1) % WORLD_NEWS;

            if (due_ns < coordinator->news[last].due_ns) {
                due_ns = coordinator->news[last].due_ns;
            }
        }
        news =
            &coordinator->news[(coordinator->news_first + coordinator->news_count++) % WORLD_NEWS];
        *news = (struct world_news){.due_ns = due_ns,
                                    .incarnation = world->workers[index].incarnation,
                                    .index = index,
                                    .state = state};
    }
}

static void key_changes(struct world *world, uint64_t term)
{
    world->keys[world->key_count++] = term;
    for (uint32_t i = 0; i < WORLD_PLACES; i++) {
        if (world->workers[i].key_ns == NEVER) {
            world->workers[i].key_ns = soon(world);
        }
    }
}

void world_coordinator_new(struct world *world, bool old_one_dies)
{
    struct world_coordinator *old = &world->coordinators[world->current];
    struct world_coordinator *coordinator;

    if (old->machine) {
        key_changes(world, 0);
        if (old_one_dies) {
            for (uint32_t i = 0; i < WORLD_LINKS; i++) {
                if (world->links[i].id != 0 && world->links[i].coordinator == world->current) {
                    link_close(world, &world->links[i], TO_WORKER, false);
                }
            }
            mst_cluster_free(old->machine);
            old->machine = NULL;
        } else {
            old->superseded_ns = world->now_ns + world_below(world, 2000) * MS;
            old->frozen = world_below(world, 2) == 0; /* or it just has not heard of it */
        }
        world->current++;
    }
    coordinator = &world->coordinators[world->current];
    world->config.term = 100 + 10 * (uint64_t)world->current;
    world->config.seed = world_below(world, 1000);
    coordinator->term = world->config.term;
    coordinator->superseded_ns = NEVER;
    if (mst_cluster_new(&coordinator->machine, world->now_ns, &world->config, &world->mem.mem) !=
        MUSTER_OK) {
        world_fail(world, "no coordinator", world->current);
    }
    (void)mst_cluster_state_server(coordinator->machine, mst_slice_of("ps", 2));
    for (uint32_t i = 0; i < WORLD_PLACES; i++) {
        const struct world_worker *worker = &world->workers[i];

        if (worker->incarnation != 0 && !worker->fenced && worker->machine) {
            (void)mst_cluster_member(coordinator->machine, world->now_ns, i, worker->incarnation,
                                     MST_WORKER_PRESENT, (struct mst_worker_end){0},
                                     mst_slice_of("host", 4));
        }
    }
    key_changes(world, coordinator->term);
    world_drain_coordinator(world, world->current);
}

/* ---- workers ---- */

void world_worker_new(struct world *world, uint32_t place)
{
    struct world_worker *worker = &world->workers[place];
    struct mst_worker_config config = {
        .cluster = {"default", 7},
        .index = place,
        .incarnation = ++world->incarnations,
        .pid = world->incarnations,
        .host = {"host", 4},
        .slots = 1 + (uint32_t)world_below(world, WORLD_SLOTS),
        .functions = world_functions,
        .function_count = WORLD_FUNCTIONS,
        .cancel_grace_ns = 100 * MS,
        .backoff_ns = 20 * MS,
        .backoff_max_ns = 200 * MS,
        .results_max = world_below(world, 4) ? 1 << 20 : 2000,
        .seed = world_below(world, 1000),
    };

    *worker = (struct world_worker){.incarnation = config.incarnation,
                                    .thaw_ns = NEVER,
                                    .forgets = config.results_max < 1 << 20,
                                    .fenced_ns = NEVER,
                                    .lease_ns = NEVER,
                                    .restart_ns = NEVER,
                                    .connect_ns = NEVER,
                                    .key_ns = soon(world),
                                    .orphan = world_below(world, 4) == 0};
    if (mst_worker_new(&worker->machine, world->now_ns, &config, &world->mem.mem) != MUSTER_OK) {
        world_fail(world, "no worker", place);
    }
    tell_members(world, place, MST_WORKER_PRESENT);
}

static void process_ends(struct world *world, uint32_t place)
{
    struct world_worker *worker = &world->workers[place];
    struct world_link *link = link_find(world, worker->connection);

    if (link) {
        link_close(world, link, TO_COORDINATOR, worker->orphan);
    }
    mst_worker_free(worker->machine);
    worker->machine = NULL;
    worker->connection = 0;
    worker->connect_ns = worker->key_ns = worker->thaw_ns = worker->fenced_ns = NEVER;
    worker->frozen = false;
    memset(worker->busy, 0, sizeof(worker->busy));
    worker->restart_ns = world->now_ns + world_below(world, 300) * MS;
}

static void is_lost(struct world *world, uint32_t place, enum mst_worker_state state)
{
    struct world_worker *worker = &world->workers[place];

    if (!worker->fenced) {
        worker->fenced = true;
        worker->lease_ns = NEVER;
        tell_members(world, place, state);
    }
}

void world_worker_kill(struct world *world, uint32_t place)
{
    world->deaths++;
    tell(world, "worker %u dies", place);
    process_ends(world, place);
    is_lost(world, place, MST_WORKER_LOST);
}

void world_worker_freeze(struct world *world, uint32_t place, uint64_t for_ns)
{
    struct world_worker *worker = &world->workers[place];

    worker->frozen = true;
    worker->thaw_ns = world->now_ns + for_ns;
    if (!worker->fenced) {
        worker->lease_ns = world->now_ns + 1000 * MS;
    }
}

/* ---- what functions do ---- */

static struct world_coordinator *coordinator_of(struct world *world, uint64_t term)
{
    for (uint32_t i = 0; i < WORLD_COORDINATORS; i++) {
        if (world->coordinators[i].term == term) {
            return &world->coordinators[i];
        }
    }
    world_fail(world, "a term that nobody has", term);
}

static struct world_closure *closure_of(struct world *world, uint64_t term, uint64_t number)
{
    struct world_coordinator *coordinator = coordinator_of(world, term);

    for (uint32_t i = 0; i < coordinator->closure_count; i++) {
        if (coordinator->closures[i].number == number) {
            return &coordinator->closures[i];
        }
    }
    world_fail(world, "a run of a closure that was never admitted", number);
}

static uint64_t *value_place(struct world_worker *worker, uint64_t number)
{
    for (unsigned i = 0; i < sizeof(worker->values) / sizeof(worker->values[0]); i++) {
        if (worker->values[i] == number) {
            return &worker->values[i];
        }
    }
    return NULL;
}

static void check_old(const struct world *world, const struct world_worker *worker)
{
    for (unsigned i = 0; i < WORLD_SLOTS; i++) {
        if (worker->busy[i].there && worker->busy[i].term != worker->term) {
            world_fail(world, "it began beside what runs for another term", worker->term);
        }
    }
}

static void begin(struct world *world, uint32_t place, const struct mst_worker_effect *effect)
{
    struct world_worker *worker = &world->workers[place];
    struct world_busy *busy = &worker->busy[effect->slot];
    const struct mst_cluster_message *message = effect->message;
    uint32_t function = message->function;
    struct world_closure *closure;

    check_old(world, worker);
    if (busy->there) {
        world_fail(world, "two in one slot", effect->slot);
    }
    *busy = (struct world_busy){.there = true,
                                .term = worker->term,
                                .function = function,
                                .end_ns = world->now_ns + world_below(world, 30) * MS};
    if (effect->type == MST_WORKER_BUILD) {
        busy->value = message->value;
        return;
    }
    busy->attempt = message->attempt;
    closure = closure_of(world, worker->term, message->attempt.closure);
    if (closure->function != function) {
        world_fail(world, "another function than was asked for", message->attempt.closure);
    }
    for (uint32_t i = 0; i < message->need_count; i++) {
        if (!value_place(worker, message->needs[i])) {
            world_fail(world, "it began without its value", message->needs[i]);
        }
    }
    closure->starts++;
    tell(world, "worker %u begins %lu/%u (%.*s) in slot %u", place, (unsigned long)closure->number,
         message->attempt.attempt, (int)world_functions[function].name.size,
         (const char *)world_functions[function].name.data, effect->slot);
    world->starts++;
    if (function == WORLD_ONCE && closure->starts > 1) {
        world_fail(world, "a once function began twice", closure->number);
    }
    if (function == WORLD_LONG || function == WORLD_DEAF) {
        busy->end_ns = NEVER;
    }
    if (function == WORLD_POISON) {
        busy->end_ns = world->now_ns + world_below(world, 3) * MS;
    }
}

static bool fails(uint32_t function, uint32_t attempt, struct mst_failure *failure)
{
    *failure = (struct mst_failure){.code = 3};
    switch ((enum world_function)function) {
    case WORLD_FAIL:
    case WORLD_BUILD_BAD:
        failure->origin = MST_ORIGIN_FUNCTION;
        failure->text = mst_slice_of("Unavailable: the worker was lost", 32);
        return true;
    case WORLD_RETRY:
        failure->origin = MST_ORIGIN_RETRYABLE;
        return attempt == 1;
    case WORLD_STATE:
        failure->origin = MST_ORIGIN_STATE;
        failure->state = mst_slice_of("ps", 2);
        return true;
    case WORLD_LONG:
    case WORLD_DEAF:
        failure->origin = MST_ORIGIN_CRASH;
        return true;
    case WORLD_WORK:
    case WORLD_ALONE:
    case WORLD_ONCE:
    case WORLD_IDEMPOTENT:
    case WORLD_POISON:
    case WORLD_BUILD:
    case WORLD_FUNCTIONS:
        break;
    }
    return false;
}

static void finish(struct world *world, uint32_t place, uint32_t slot)
{
    struct world_worker *worker = &world->workers[place];
    struct world_busy busy = worker->busy[slot];
    uint64_t own[2] = {busy.attempt.closure, busy.attempt.attempt};
    struct mst_part part = {.data = {own, sizeof(own)}};
    struct mst_parts parts = {.items = &part, .count = 1};
    struct mst_failure failure;
    bool failed = fails(busy.function, busy.attempt.attempt, &failure);

    if (busy.function == WORLD_POISON) {
        closure_of(world, busy.term, busy.attempt.closure)->deaths++;
        world_worker_kill(world, place);
        return;
    }
    worker->busy[slot].there = false;
    if (busy.killed && busy.function != WORLD_ALONE) {
        failure.origin = MST_ORIGIN_CRASH;
        failed = true;
    }
    if (busy.value != 0) {
        if (!failed) {
            uint64_t *room = value_place(worker, busy.value);

            room = room ? room : value_place(worker, 0);
            *room = busy.value;
        }
        part.data = mst_slice_of(&busy.value, sizeof(uint64_t));
        mst_worker_built(worker->machine, world->now_ns, busy.value, failed ? &failure : NULL,
                         parts);
    } else {
        mst_worker_finished(worker->machine, world->now_ns, slot, failed ? &failure : NULL, parts,
                            1 + world_below(world, 1000000));
    }
    world_drain_worker(world, place);
}

static void stop(struct world *world, struct world_busy *busy, bool kill)
{
    if (!busy->there) {
        world_fail(world, "asked to stop what is not there", busy->attempt.closure);
    }
    busy->asked = true;
    if (kill || busy->function != WORLD_DEAF) {
        uint64_t end_ns = world->now_ns + world_below(world, 5) * MS;

        busy->killed = kill;
        busy->end_ns = end_ns < busy->end_ns ? end_ns : busy->end_ns;
    }
}

/* ---- effects ---- */

static void worker_effect(struct world *world, uint32_t place,
                          const struct mst_worker_effect *effect)
{
    struct world_worker *worker = &world->workers[place];
    struct world_link *link = link_find(world, worker->connection);
    uint64_t *value;

    switch (effect->type) {
    case MST_WORKER_CONNECT:
        worker->connect_ns = soon(world);
        break;
    case MST_WORKER_HANG_UP:
        worker->connect_ns = NEVER;
        worker->connection = 0;
        if (link) {
            link_close(world, link, TO_COORDINATOR, false);
        }
        break;
    case MST_WORKER_SEND:
        if (link) {
            post(world, link, TO_COORDINATOR, effect->message);
        }
        break;
    case MST_WORKER_START:
    case MST_WORKER_BUILD:
        begin(world, place, effect);
        break;
    case MST_WORKER_STOP:
        stop(world, &worker->busy[effect->slot], effect->kill);
        break;
    case MST_WORKER_DROP:
        value = value_place(worker, effect->message->value);
        if (value) {
            *value = 0;
        }
        break;
    case MST_WORKER_END:
        worker->ended = true;
        break;
    case MST_WORKER_SAY:
        break;
    }
}

void world_drain_worker(struct world *world, uint32_t place)
{
    struct world_worker *worker = &world->workers[place];
    const struct mst_worker_effect *effect;

    while ((effect = mst_worker_next(worker->machine))) {
        worker_effect(world, place, effect);
        mst_worker_done(worker->machine, effect);
    }
    mst_worker_check(worker->machine);
    if (worker->ended) { /* it leaves, or was fenced; another one comes */
        bool fenced = worker->fenced;

        process_ends(world, place);
        if (!fenced) {
            is_lost(world, place, MST_WORKER_LEFT);
        }
    }
}

void world_drain_coordinator(struct world *world, uint32_t number)
{
    struct world_coordinator *coordinator = &world->coordinators[number];
    const struct mst_cluster_effect *effect;
    struct world_link *link;

    while ((effect = mst_cluster_next(coordinator->machine))) {
        link = link_find(world, effect->connection);
        if (effect->type == MST_CLUSTER_SEND && link) {
            post(world, link, TO_WORKER, effect->message);
        } else if (effect->type == MST_CLUSTER_CLOSE && link) {
            link_close(world, link, TO_WORKER, false);
        }
        mst_cluster_done(coordinator->machine, effect);
    }
    mst_cluster_check(coordinator->machine);
}

/* ---- what is due ---- */

struct due {
    uint64_t at_ns;
    enum { DUE_NONE, DUE_LINK, DUE_GONE, DUE_WORKER, DUE_SLOT, DUE_COORDINATOR, DUE_NEWS } what;
    uint32_t i, j;
};

static void consider(struct due *due, uint64_t at_ns, unsigned what, uint32_t i, uint32_t j)
{
    if (at_ns < due->at_ns) {
        *due = (struct due){.at_ns = at_ns, .i = i, .j = j};
        due->what = what;
    }
}

static bool receiver_frozen(const struct world *world, const struct world_link *link, unsigned way)
{
    return way == TO_WORKER ? world->workers[link->place].frozen
                            : world->coordinators[link->coordinator].frozen;
}

static void consider_link(const struct world *world, struct due *due, uint32_t i)
{
    const struct world_link *link = &world->links[i];

    for (unsigned way = 0; link->id != 0 && way < 2; way++) {
        if (receiver_frozen(world, link, way) || link->deaf[way]) {
            continue;
        }
        if (link->first[way]) {
            consider(due, link->first[way]->due_ns, DUE_LINK, i, way);
        } else {
            consider(due, link->gone_ns[way], DUE_GONE, i, way);
        }
    }
}

static void consider_worker(const struct world *world, struct due *due, uint32_t i)
{
    const struct world_worker *worker = &world->workers[i];

    consider(due, worker->restart_ns, DUE_WORKER, i, 0);
    consider(due, worker->thaw_ns, DUE_WORKER, i, 1);
    consider(due, worker->lease_ns, DUE_WORKER, i, 2);
    if (!worker->machine || worker->frozen) {
        return;
    }
    consider(due, worker->fenced_ns, DUE_WORKER, i, 3);
    consider(due, worker->connect_ns, DUE_WORKER, i, 4);
    consider(due, worker->key_ns, DUE_WORKER, i, 5);
    consider(due, mst_worker_deadline_ns(worker->machine), DUE_WORKER, i, 6);
    for (uint32_t slot = 0; slot < WORLD_SLOTS; slot++) {
        if (worker->busy[slot].there) {
            consider(due, worker->busy[slot].end_ns, DUE_SLOT, i, slot);
        }
    }
}

static void consider_coordinator(const struct world *world, struct due *due, uint32_t i)
{
    const struct world_coordinator *coordinator = &world->coordinators[i];

    if (!coordinator->machine) {
        return;
    }
    consider(due, coordinator->superseded_ns, DUE_COORDINATOR, i, 0);
    if (coordinator->frozen) {
        return;
    }
    if (coordinator->news_count > 0) {
        consider(due, coordinator->news[coordinator->news_first].due_ns, DUE_NEWS, i, 0);
    }
    consider(due, mst_cluster_deadline_ns(coordinator->machine), DUE_COORDINATOR, i, 1);
}

/* ---- it happens ---- */

static void deliver(struct world *world, struct world_link *link, unsigned way)
{
    struct world_message *message = link->first[way];
    uint32_t place = link->place;
    uint32_t coordinator = link->coordinator;

    link->first[way] = message->next;
    if (!link->first[way]) {
        link->last[way] = NULL;
    }
    world->delivered++;
    if (way == TO_WORKER) {
        if (world->workers[place].connection == link->id) {
            mst_worker_message(world->workers[place].machine, world->now_ns, &message->message);
            world_drain_worker(world, place);
        }
    } else if (world->coordinators[coordinator].machine) {
        tell(world, "coordinator %u hears %d of %u: %lu/%u, origin %d", coordinator,
             (int)message->message.type, place, (unsigned long)message->message.attempt.closure,
             message->message.attempt.attempt, (int)message->message.failure.origin);
        mst_cluster_message(world->coordinators[coordinator].machine, world->now_ns, link->id,
                            &message->message);
        world_drain_coordinator(world, coordinator);
    }
    message_free(message);
}

static void tell_gone(struct world *world, struct world_link *link, unsigned way)
{
    uint64_t id = link->id;
    uint32_t place = link->place;
    uint32_t coordinator = link->coordinator;

    link->deaf[way] = true;
    link_free_if_over(link);
    if (way == TO_WORKER) {
        if (world->workers[place].connection == id) {
            world->workers[place].connection = 0;
            mst_worker_gone(world->workers[place].machine, world->now_ns);
            world_drain_worker(world, place);
        }
    } else if (world->coordinators[coordinator].machine) {
        mst_cluster_gone(world->coordinators[coordinator].machine, world->now_ns, id);
        world_drain_coordinator(world, coordinator);
    }
}

static void connects(struct world *world, uint32_t place)
{
    struct world_worker *worker = &world->workers[place];
    struct world_link *link;

    worker->connect_ns = NEVER;
    if (!world->coordinators[world->current].machine || world_below(world, 20) == 0) {
        mst_worker_gone(worker->machine, world->now_ns);
    } else {
        link = link_new(world, place);
        worker->connection = link->id;
        mst_worker_connected(worker->machine, world->now_ns);
    }
    world_drain_worker(world, place);
}

static void hears_of_key(struct world *world, uint32_t place)
{
    struct world_worker *worker = &world->workers[place];
    uint64_t term = world->keys[worker->key_seen++];

    worker->key_ns = worker->key_seen < world->key_count ? soon(world) : NEVER;
    if (worker->key_seen > world->key_count) {
        worker->key_seen = world->key_count;
        return; /* there was none yet */
    }
    if (term != 0) {
        worker->term = term > worker->term ? term : worker->term;
    }
    mst_worker_coordinator(worker->machine, world->now_ns, term, mst_slice_of("unix:/run/c", 11));
    world_drain_worker(world, place);
}

static void worker_due(struct world *world, uint32_t place, uint32_t what)
{
    struct world_worker *worker = &world->workers[place];

    switch (what) {
    case 0:
        worker->restart_ns = NEVER;
        world_worker_new(world, place);
        break;
    case 1:
        worker->thaw_ns = NEVER;
        worker->frozen = false;
        if (worker->fenced) {
            worker->fenced_ns = world->now_ns + world_below(world, 100) * MS;
        } else {
            worker->lease_ns = NEVER;
            tell_members(world, place, MST_WORKER_PRESENT);
        }
        break;
    case 2:
        is_lost(world, place, MST_WORKER_LOST);
        break;
    case 3:
        worker->fenced_ns = NEVER;
        mst_worker_ended(worker->machine, world->now_ns, MUSTER_EFENCED);
        world_drain_worker(world, place);
        break;
    case 4:
        connects(world, place);
        break;
    case 5:
        hears_of_key(world, place);
        break;
    default:
        mst_worker_tick(worker->machine, world->now_ns);
        world_drain_worker(world, place);
        break;
    }
}

static void coordinator_due(struct world *world, uint32_t i, uint32_t what)
{
    struct world_coordinator *coordinator = &world->coordinators[i];

    if (what == 0) {
        coordinator->superseded_ns = NEVER;
        coordinator->frozen = false;
        coordinator->superseded = true;
        mst_cluster_superseded(coordinator->machine, world->now_ns, MUSTER_EFENCED);
    } else {
        mst_cluster_tick(coordinator->machine, world->now_ns);
    }
    world_drain_coordinator(world, i);
}

static void news_due(struct world *world, uint32_t i)
{
    struct world_coordinator *coordinator = &world->coordinators[i];
    struct world_news news = coordinator->news[coordinator->news_first];

    coordinator->news_first = (coordinator->news_first + 1) % WORLD_NEWS;
    coordinator->news_count--;
    tell(world, "coordinator %u learns that worker %u is %d", i, news.index, (int)news.state);
    (void)mst_cluster_member(coordinator->machine, world->now_ns, news.index, news.incarnation,
                             news.state, (struct mst_worker_end){0}, mst_slice_of("host", 4));
    world_drain_coordinator(world, i);
}

bool world_step(struct world *world, uint64_t most_ns)
{
    struct due due = {.at_ns = NEVER};

    for (uint32_t i = 0; i < WORLD_LINKS; i++) {
        consider_link(world, &due, i);
    }
    for (uint32_t i = 0; i < WORLD_PLACES; i++) {
        consider_worker(world, &due, i);
    }
    for (uint32_t i = 0; i < WORLD_COORDINATORS; i++) {
        consider_coordinator(world, &due, i);
    }
    if (due.at_ns > world->now_ns + most_ns) {
        world->now_ns += most_ns;
        return false;
    }
    if (due.at_ns > world->now_ns) {
        world->now_ns = due.at_ns;
    }
    switch (due.what) {
    case DUE_LINK:
        deliver(world, &world->links[due.i], due.j);
        break;
    case DUE_GONE:
        tell_gone(world, &world->links[due.i], due.j);
        break;
    case DUE_WORKER:
        worker_due(world, due.i, due.j);
        break;
    case DUE_SLOT:
        finish(world, due.i, due.j);
        break;
    case DUE_COORDINATOR:
        coordinator_due(world, due.i, due.j);
        break;
    case DUE_NEWS:
        news_due(world, due.i);
        break;
    case DUE_NONE:
        break;
    }
    return true;
}

/* ---- begin, end ---- */

void world_init(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->prng = (struct mst_prng){.state = seed};
    world->now_ns = 1000 * MS;
    world->delay_us = 500;
    failing_mem_init(&world->mem, 0);
    for (uint32_t i = 0; i < WORLD_PLACES; i++) {
        struct world_worker *worker = &world->workers[i];

        worker->thaw_ns = worker->fenced_ns = worker->lease_ns = worker->restart_ns = NEVER;
        worker->connect_ns = worker->key_ns = NEVER;
    }
}

void world_fini(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_PLACES; i++) {
        mst_worker_free(world->workers[i].machine);
    }
    for (uint32_t i = 0; i < WORLD_COORDINATORS; i++) {
        mst_cluster_free(world->coordinators[i].machine);
    }
    for (uint32_t i = 0; i < WORLD_LINKS; i++) {
        link_clear(&world->links[i], 0);
        link_clear(&world->links[i], 1);
    }
    if (world->mem.live != 0) {
        world_fail(world, "memory was not given back", world->mem.live);
    }
}
