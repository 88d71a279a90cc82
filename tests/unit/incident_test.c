/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of a job for people, and for how long.
 *
 * behaviour: generations / What happened to a job */
#include "core_fixture.h"
#include "saved_bytes.h"
#include "service/core/look.h"
#include "service/core/snapshot.h"

enum { MANY = 100, ROOM = 20 };

static const struct mst_reply *history(struct fixture *f, struct client *client, uint64_t after)
{
    return fixture_call(f, client,
                        (struct mst_request){.command = MST_HISTORY, .page = {.after = after}});
}

/* After a failed allocation there may be fewer. */
static struct mst_item item(const struct mst_reply *reply, uint32_t at)
{
    return at < reply->item_count ? reply->items[at] : (struct mst_item){.number = 0};
}

static void begin(struct fixture *f, struct client *ranks, uint32_t count, struct client *agent)
{
    *agent = fixture_client(f, MST_ROLE_AGENT, 0);
    fixture_connect(f, agent);
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = fixture_rank(f, i, count);
        ranks[i].open.pid = 1000 + i;
        ranks[i].open.node = 0;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
}

static void lose_at(struct fixture *f, struct client *agent, uint32_t index, uint64_t pid)
{
    fixture_call(f, agent,
                 (struct mst_request){
                     .command = MST_LOST,
                     .lost = {.index = index, .pid = pid, .cause = MST_CAUSE_SIGNAL, .code = 9}});
}

static void lose(struct fixture *f, struct client *agent, const struct client *rank)
{
    lose_at(f, agent, rank->open.index, rank->open.pid);
}

static void begin_worker(struct fixture *f, struct client *worker, uint32_t index)
{
    *worker = fixture_client(f, MST_ROLE_WORKER, index);
    worker->open.pid = 1000 + index;
    worker->open.node = 0;
    fixture_connect(f, worker);
}

static void try_to_seal(struct fixture *f, struct client *rank, uint64_t generation,
                        uint64_t number)
{
    struct mst_request request = fixture_round(generation, "seal", number);

    request.round.seal = true;
    request.round.on_loss = MST_PROCEED;
    fixture_send(f, rank, request);
}

static void seal(struct fixture *f, struct client *rank, uint64_t generation)
{
    try_to_seal(f, rank, generation, 0);
}

/* A hundred ranks are lost at once. The first eight are remembered, and with the next generation
 * the number; what came before is still there. */
static void many_losses_leave_what_came_before(struct fixture *f)
{
    static struct client ranks[MANY];
    const struct mst_reply *reply;
    struct client agent;

    begin(f, ranks, MANY, &agent);
    for (uint32_t i = 1; i < MANY; i++) {
        fixture_pass(f, 3);
        lose(f, &agent, &ranks[i]);
    }
    seal(f, &ranks[0], 1);
    reply = history(f, &ranks[0], 0);
    EXPECT_INT(f, reply->item_count, 1 + MST_NAMES_MAX + 1);
    EXPECT_INT(f, item(reply, 0).incident, MST_INCIDENT_SEALED);
    EXPECT_INT(f, item(reply, 0).expected, MANY);
    EXPECT_INT(f, item(reply, 1).incident, MST_INCIDENT_LOST);
    EXPECT_INT(f, item(reply, 8).who.index, 8);
    EXPECT_INT(f, item(reply, 8).told_by, 1);
    EXPECT_INT(f, item(reply, 8).who.heard_ms, 3 * (MANY - 1) - 24);
    EXPECT_INT(f, item(reply, 9).incident, MST_INCIDENT_SEALED);
    EXPECT_INT(f, item(reply, 9).arrived, MANY);
    EXPECT_INT(f, item(reply, 9).expected, 1);
    EXPECT_INT(f, item(reply, 9).total, MANY - 1);
    EXPECT_INT(f, item(reply, 9).interrupt_ms, 3 * (MANY - 2));
}

/* Twenty workers are lost, of a job without ranks. Each is remembered: no generation ends by them.
 */
static void losses_of_workers_have_no_limit_of_a_generation(struct fixture *f)
{
    struct client workers[ROOM], agent = fixture_client(f, MST_ROLE_AGENT, 0);
    const struct mst_reply *reply;

    fixture_connect(f, &agent);
    for (uint32_t i = 0; i < ROOM; i++) {
        begin_worker(f, &workers[i], i);
        lose_at(f, &agent, i, 1000 + i);
    }
    reply = history(f, &agent, 0);
    EXPECT_INT(f, reply->item_count, ROOM);
    EXPECT_INT(f, item(reply, ROOM - 1).incident, MST_INCIDENT_LOST);
    EXPECT_INT(f, item(reply, ROOM - 1).who.role, MST_ROLE_WORKER);
}

/* A worker is lost, and ranks begin again of their own accord. No loss ended the generation. */
static void a_worker_ends_no_generation(struct fixture *f)
{
    const struct mst_reply *reply;
    struct client agent, rank, worker;

    begin(f, &rank, 1, &agent);
    begin_worker(f, &worker, 5);
    lose_at(f, &agent, 5, 1005);
    seal(f, &rank, 1);
    reply = history(f, &rank, 0);
    EXPECT_INT(f, reply->item_count, 3);
    EXPECT_INT(f, item(reply, 1).incident, MST_INCIDENT_LOST);
    EXPECT_INT(f, item(reply, 2).incident, MST_INCIDENT_SEALED);
    EXPECT_INT(f, item(reply, 2).total, 0);
}

static void report_repeated(struct fixture *f, struct client *agent, uint64_t generation,
                            uint32_t steps)
{
    const struct mst_rank_progress progress = {
        .index = 0, .pid = 1000, .generation = generation, .stepped = true, .repeated = steps};

    (void)fixture_call(
        f, agent,
        (struct mst_request){.command = MST_RENEW, .renew = {.progress = &progress, .count = 1}});
}

/* A rank reports that it does steps again that the generation before had reached. The restart says
 * how many, the most that any rank reports; what is reported of the first generation, and of one
 * that is not remembered, is no restart's. */
static void a_restart_says_how_many_steps_are_repeated(struct fixture *f)
{
    const struct mst_reply *reply;
    struct client agent, rank;

    begin(f, &rank, 1, &agent);
    report_repeated(f, &agent, 1, 4);
    seal(f, &rank, 1);
    report_repeated(f, &agent, 2, 7);
    report_repeated(f, &agent, 2, 6);
    report_repeated(f, &agent, 9, 8);
    reply = history(f, &rank, 0);
    EXPECT_INT(f, reply->item_count, 2);
    EXPECT_INT(f, item(reply, 0).step, 0);
    EXPECT_INT(f, item(reply, 1).incident, MST_INCIDENT_SEALED);
    EXPECT_INT(f, item(reply, 1).step, 7);
}

/* All ranks are lost, and others come in their place. The time from the first loss until all were
 * there is the price of that restart too. */
static void a_restart_without_survivors_has_its_price(struct fixture *f)
{
    const struct mst_reply *reply;
    struct client agent, ranks[2], again[2];

    begin(f, ranks, 2, &agent);
    lose(f, &agent, &ranks[0]);
    lose(f, &agent, &ranks[1]);
    fixture_pass_renewing(f, 3000);
    for (uint32_t i = 0; i < 2; i++) {
        again[i] = fixture_rank(f, i, 2);
        again[i].open.pid = 2000 + i;
        again[i].open.node = 0;
        fixture_connect(f, &again[i]);
        fixture_join(f, &again[i]);
    }
    reply = history(f, &agent, 0);
    EXPECT_INT(f, reply->item_count, 4);
    EXPECT_INT(f, item(reply, 3).incident, MST_INCIDENT_SEALED);
    EXPECT_INT(f, item(reply, 3).total, 2);
    EXPECT_INT(f, item(reply, 3).interrupt_ms + item(reply, 3).gather_ms, 3000);
}

/* Too few ranks are left, and the one that is there tries again and again. That is one incident,
 * with how many are there. */
static void too_few_is_told_once(struct fixture *f)
{
    const struct mst_reply *reply;
    struct client agent, ranks[2];

    agent = fixture_client(f, MST_ROLE_AGENT, 0);
    fixture_connect(f, &agent);
    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = fixture_rank(f, i, 2);
        ranks[i].open.min_size = 2;
        ranks[i].open.pid = 1000 + i;
        ranks[i].open.node = 0;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
    lose(f, &agent, &ranks[1]);
    for (uint32_t i = 0; i < 5; i++) {
        try_to_seal(f, &ranks[0], 1, i);
    }
    reply = history(f, &ranks[0], 0);
    EXPECT_INT(f, reply->item_count, 3);
    EXPECT_INT(f, item(reply, 2).incident, MST_INCIDENT_TOO_FEW);
    EXPECT_INT(f, item(reply, 2).arrived, 1);
    EXPECT_INT(f, item(reply, 2).expected, 2);
}

/* More happens than there is room for. The oldest are forgotten, and the numbers go on, so that
 * who has read some can see what is new, and that he missed some. */
static void the_oldest_are_forgotten(struct fixture *f)
{
    const struct mst_reply *reply;
    struct client rank = fixture_rank(f, 0, 1);

    fixture_connect(f, &rank);
    fixture_join(f, &rank);
    for (uint64_t generation = 1; generation <= ROOM; generation++) {
        seal(f, &rank, generation);
    }
    reply = history(f, &rank, 0);
    EXPECT_INT(f, reply->item_count, ROOM);
    EXPECT_INT(f, item(reply, 0).revision, 2);
    EXPECT_INT(f, item(reply, 0).number, 2);
    EXPECT_INT(f, item(reply, ROOM - 1).number, ROOM + 1);
    reply = history(f, &rank, ROOM - 1);
    EXPECT_INT(f, reply->item_count, 2);
    EXPECT_INT(f, item(reply, 0).number, ROOM);
    EXPECT_INT(f, history(f, &rank, ROOM + 1)->item_count, 0);
}

/* A cursor from outside may be any number. Behind the last incident there is none. */
static void no_cursor_is_behind_all(struct fixture *f)
{
    struct client rank = fixture_rank(f, 0, 2);

    fixture_connect(f, &rank);
    EXPECT_INT(f, history(f, &rank, 0)->item_count, 0);
    EXPECT_INT(f, history(f, &rank, UINT64_MAX)->item_count, 0);
}

static struct saved_bytes bytes;

static struct mst_core *next_service(struct fixture *f, uint64_t room)
{
    struct mst_core_config config = f->config;
    struct mst_core *next;

    config.history = room;
    assert_int_equal(
        mst_core_load(&next, f->now_ns, mst_slice_of(bytes.data, bytes.size), &config, &f->mem.mem),
        MUSTER_OK);
    EXPECT_INT(f, mst_core_kept_digest(next), mst_core_kept_digest(f->core));
    return next;
}

static void put_key(struct fixture *f, struct client *client, const char *name, const char *value)
{
    struct mst_write op = {
        .kind = MST_PUT, .key = mst_slice_text(name), .value = mst_slice_text(value)};

    fixture_call(f, client,
                 (struct mst_request){.command = MST_WRITE, .write = {.ops = &op, .count = 1}});
}

/* A run writes the key by which all its processes begin anew. It is remembered with the reason;
 * other keys of a run are not. */
static void all_beginning_anew_is_remembered(struct fixture *f)
{
    struct client agent = fixture_client(f, MST_ROLE_AGENT, 0);
    const struct mst_reply *reply;

    fixture_connect(f, &agent);
    put_key(f, &agent, "muster/run/life/1", "#0 ended with status 3");
    put_key(f, &agent, "muster/run/restarts", "1");
    put_key(f, &agent, "muster/run/life/x", "no number");
    put_key(f, &agent, "muster/run-life/2", "another prefix");
    reply = history(f, &agent, 0);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item(reply, 0).incident, MST_INCIDENT_GROUP);
    EXPECT_INT(f, item(reply, 0).expected, 1);
    EXPECT(f, mst_slice_is(item(reply, 0).value, "#0 ended with status 3"));
}

/* What an observer was last told of. */
static struct {
    uint32_t calls, count;
    struct mst_item last;
} observed;

static void observe_item(void *ctx, const struct mst_item *incident)
{
    (void)ctx;
    observed.count++;
    observed.last = *incident;
}

static void observe(void *ctx, const struct mst_core *core, struct mst_slice job)
{
    (void)ctx;
    observed.calls++;
    observed.count = 0;
    mst_core_history(core, job, observe_item, NULL);
}

static void with_observer(struct mst_core_config *config)
{
    config->incident = observe;
    observed.calls = 0;
}

/* A death is reported before its cause, which comes after the restart. An observer is told of each
 * incident when all of it is known, and once more when the cause has come. */
static void an_observer_is_told_of_each_incident(struct fixture *f)
{
    struct client ranks[2], agent;
    struct mst_request lost = {.command = MST_LOST,
                               .lost = {.index = 1, .pid = 1001, .cause = MST_CAUSE_GONE}};

    begin(f, ranks, 2, &agent);
    EXPECT_INT(f, observed.calls, 1);
    EXPECT_INT(f, observed.last.expected, 2);
    fixture_call(f, &agent, lost);
    EXPECT_INT(f, observed.calls, 2);
    EXPECT_INT(f, observed.last.who.cause, MST_CAUSE_GONE);
    lost.lost.cause = MST_CAUSE_SIGNAL;
    lost.lost.code = 11;
    fixture_call(f, &agent, lost);
    EXPECT_INT(f, observed.calls, 3);
    EXPECT_INT(f, observed.count, 2);
    EXPECT_INT(f, observed.last.who.cause, MST_CAUSE_SIGNAL);
    EXPECT_INT(f, observed.last.who.code, 11);
    EXPECT_INT(f, observed.last.revision, 2);
    EXPECT_INT(f, observed.last.who.index, 1);
}

/* The next service remembers fewer. It has the newest, under their numbers. */
static void the_next_service_keeps_what_it_has_room_for(struct fixture *f)
{
    struct mst_snapshot_sink sink = {.ctx = &bytes, .put = saved_put};
    struct client rank = fixture_rank(f, 0, 1);
    const struct mst_reply *reply;
    struct mst_core *next;

    bytes.size = 0;
    fixture_connect(f, &rank);
    fixture_join(f, &rank);
    for (uint64_t generation = 1; generation <= 9; generation++) {
        seal(f, &rank, generation);
    }
    EXPECT(f, mst_core_save(f->core, &sink));
    next = next_service(f, 4);
    reply = mst_look_page(next, MST_HISTORY, rank.open.job, 0);
    EXPECT_INT(f, reply->item_count, 4);
    EXPECT_INT(f, item(reply, 0).revision, 7);
    EXPECT_INT(f, item(reply, 3).number, 10);
    mst_core_free(next);
    next = next_service(f, 0);
    EXPECT_INT(f, mst_look_page(next, MST_HISTORY, rank.open.job, 0)->item_count, 0);
    mst_core_free(next);
}

#define SCENARIO(name)                                                                             \
    static void run_##name(void **state)                                                           \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

SCENARIO(the_oldest_are_forgotten)
SCENARIO(losses_of_workers_have_no_limit_of_a_generation)
SCENARIO(a_worker_ends_no_generation)
SCENARIO(a_restart_says_how_many_steps_are_repeated)
SCENARIO(a_restart_without_survivors_has_its_price)
SCENARIO(too_few_is_told_once)
SCENARIO(no_cursor_is_behind_all)
SCENARIO(all_beginning_anew_is_remembered)

static void run_many_losses_leave_what_came_before(void **state)
{
    (void)state;
    fixture_run_once(many_losses_leave_what_came_before);
}

static void run_the_next_service_keeps_what_it_has_room_for(void **state)
{
    (void)state;
    fixture_run_once(the_next_service_keeps_what_it_has_room_for);
}

static void run_an_observer_is_told_of_each_incident(void **state)
{
    (void)state;
    fixture_run_with(an_observer_is_told_of_each_incident, with_observer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_many_losses_leave_what_came_before),
        cmocka_unit_test(run_the_oldest_are_forgotten),
        cmocka_unit_test(run_losses_of_workers_have_no_limit_of_a_generation),
        cmocka_unit_test(run_a_worker_ends_no_generation),
        cmocka_unit_test(run_a_restart_says_how_many_steps_are_repeated),
        cmocka_unit_test(run_a_restart_without_survivors_has_its_price),
        cmocka_unit_test(run_too_few_is_told_once),
        cmocka_unit_test(run_no_cursor_is_behind_all),
        cmocka_unit_test(run_an_observer_is_told_of_each_incident),
        cmocka_unit_test(run_all_beginning_anew_is_remembered),
        cmocka_unit_test(run_the_next_service_keeps_what_it_has_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
