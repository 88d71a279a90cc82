/* SPDX-License-Identifier: Apache-2.0 */
/* One rank whose function and callbacks do what a case says: what muster_restart_run returns, how
 * often everything was called, and that nothing is left. It is the only rank of its job; one line
 * per surprise, and exit code 1 if there was one.
 *
 *   restart_single CASE */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "muster/muster.h"
#include "rank/belongings.h"

enum { ENTRIES_MAX = 8, LOG_ROOM = 4096, ALWAYS = -1, OPEN_MS = 10000 };

static int surprises;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            surprises++;                                                                           \
        }                                                                                          \
    } while (0)

/* What one case has at hand. */
struct single {
    muster_client *client;
    struct muster_restart_options options;
    muster_status status; /* of the last run */
    struct muster_error err;
    char log[LOG_ROOM];
    unsigned lines;
    /* The function: what it returns at each entry. */
    muster_status returns[ENTRIES_MAX];
    unsigned entered;
    uint64_t iterations[ENTRIES_MAX];
    muster_status (*also)(struct single *single, muster_restart *restart);
};

/* Returned by the function: asks for another attempt. */
#define AGAIN ((muster_status)1000)

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    struct single *single = ctx;
    size_t at = strlen(single->log);

    (void)level;
    single->lines++;
    (void)snprintf(single->log + at, sizeof(single->log) - at, "%s\n", line);
}

static muster_status function(muster_restart *restart, void *arg)
{
    struct single *single = arg;
    unsigned entry = single->entered++;
    struct muster_view view;

    muster_restart_view(restart, &view);
    EXPECT(view.size == 1 && view.rank == 0 && !view.spare);
    if (entry >= ENTRIES_MAX) {
        return muster_restart_abort(restart, 1, "the function was entered too often");
    }
    single->iterations[entry] = view.iteration;
    if (single->also) {
        muster_status status = single->also(single, restart);

        if (status) {
            return status;
        }
    }
    return single->returns[entry] == AGAIN ? muster_restart_again(restart) : single->returns[entry];
}

static void run_with(struct single *single, muster_restart_fn *fn)
{
    single->entered = 0;
    single->err = (struct muster_error){0};
    single->status = muster_restart_run(single->client, &single->options, fn, single, &single->err);
}

static void run(struct single *single)
{
    run_with(single, function);
}

static void expect_end(const struct single *single, muster_status status, const char *text)
{
    if (single->status != status || !strstr(single->err.text, text)) {
        printf("%s '%s' instead of %s '%s'\n", muster_status_name(single->status), single->err.text,
               muster_status_name(status), text);
        surprises++;
    }
}

static void expect_entries(const struct single *single, unsigned entries)
{
    EXPECT(single->entered == entries);
    for (unsigned i = 0; i < single->entered && i < ENTRIES_MAX; i++) {
        EXPECT(single->iterations[i] == i);
    }
}

static void fails(struct single *single, unsigned times)
{
    for (unsigned i = 0; i < ENTRIES_MAX; i++) {
        single->returns[i] = i < times ? MUSTER_EFAILED : MUSTER_OK;
    }
}

static void expect_same(const struct belongings *before)
{
    char text[512];

    if (!belongings_are(before, text, sizeof(text))) {
        printf("left: %s\n", text);
        surprises++;
    }
}

/* --- a callback that fails at some of its calls --- */

struct called {
    int fails_at; /* from 1; 0: never; ALWAYS */
    int calls;
    struct muster_restart_hook step;
};

static muster_status callback(muster_restart *restart, void *arg)
{
    struct called *called = arg;

    (void)restart;
    called->calls++;
    return called->fails_at == ALWAYS || called->fails_at == called->calls ? MUSTER_ENOSPACE
                                                                           : MUSTER_OK;
}

static struct muster_restart_hooks with(struct called *called, int fails_at)
{
    *called = (struct called){.fails_at = fails_at, .step = {.call = callback, .arg = called}};
    return (struct muster_restart_hooks){.list = &called->step, .count = 1};
}

/* --- 1: what fn returns, and what it is given --- */

struct payload {
    struct single *single;
    int entries;
    char text[16];
};

static muster_status use_payload(muster_restart *restart, void *arg)
{
    struct payload *payload = arg;

    (void)restart;
    EXPECT(strcmp(payload->text, payload->entries == 0 ? "as it was" : "changed") == 0);
    (void)snprintf(payload->text, sizeof(payload->text), "changed");
    return payload->entries++ == 0 ? MUSTER_EFAILED : MUSTER_EPREEMPTED;
}

static muster_status no_argument(muster_restart *restart, void *arg)
{
    (void)restart;
    EXPECT(arg == NULL);
    return MUSTER_OK;
}

static void case_returns(struct single *single)
{
    struct payload payload = {.single = single, .text = "as it was"};

    run(single);
    expect_end(single, MUSTER_OK, "");
    expect_entries(single, 1);
    EXPECT(muster_restart_run(single->client, NULL, use_payload, &payload, NULL) ==
           MUSTER_EPREEMPTED);
    EXPECT(payload.entries == 2);
    EXPECT(muster_restart_run(single->client, NULL, no_argument, NULL, NULL) == MUSTER_OK);
}

/* --- 2: what fn can do --- */

static muster_status try_handle(struct single *single, muster_restart *restart)
{
    struct muster_view view;
    struct muster_view outside;

    muster_restart_view(restart, &view);
    muster_client_view(single->client, &outside);
    EXPECT(view.iteration == 0 && view.generation == outside.generation && view.index == 0);
    EXPECT(muster_restart_check(restart) == MUSTER_OK);
    EXPECT(muster_restart_ping(restart) == MUSTER_OK);
    EXPECT(muster_restart_step(restart, 1) == MUSTER_OK);
    EXPECT(muster_restart_atomic_begin(restart) == MUSTER_OK);
    EXPECT(muster_restart_ping(restart) == MUSTER_OK);
    EXPECT(muster_restart_atomic_begin(restart) == MUSTER_OK);
    EXPECT(muster_restart_ping(restart) == MUSTER_OK);
    EXPECT(muster_restart_atomic_end(restart) == MUSTER_OK);
    EXPECT(muster_restart_ping(restart) == MUSTER_OK);
    EXPECT(muster_restart_atomic_end(restart) == MUSTER_OK);
    EXPECT(muster_restart_atomic_end(restart) == MUSTER_EINVAL);
    EXPECT(muster_restart_fault_count(restart) == 0);
    return MUSTER_OK;
}

static void case_handle(struct single *single)
{
    single->also = try_handle;
    run(single);
    expect_end(single, MUSTER_OK, "");
    expect_entries(single, 1);
}

/* --- 3: switched off --- */

static struct belongings outside;

static muster_status look_disabled(struct single *single, muster_restart *restart)
{
    (void)single;
    expect_same(&outside);
    EXPECT(muster_restart_check(restart) == MUSTER_OK);
    EXPECT(muster_restart_ping(restart) == MUSTER_OK);
    return MUSTER_OK;
}

static void run_disabled(struct single *single)
{
    static const muster_status all[] = {MUSTER_OK, MUSTER_EFAILED, MUSTER_EPREEMPTED};
    struct called initialize;

    single->also = look_disabled;
    single->options.initialize = with(&initialize, ALWAYS);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        single->returns[0] = all[i];
        run(single);
        EXPECT(single->status == all[i]);
        expect_entries(single, 1);
        expect_same(&outside);
    }
    EXPECT(initialize.calls == 0);
}

static void case_disabled(struct single *single)
{
    struct muster_restart_options none = MUSTER_RESTART_OPTIONS_INIT;

    belongings_note(&outside);
    single->options.disabled = true;
    run_disabled(single);
    single->options = none;
    (void)setenv("MUSTER_ENABLED", "0", 1);
    belongings_note(&outside);
    run_disabled(single);
    single->options.settle_ms = -1; /* what makes no sense is refused all the same */
    run(single);
    expect_end(single, MUSTER_EINVAL, "settle");
    expect_entries(single, 0);
    (void)unsetenv("MUSTER_ENABLED");
}

/* --- 4: what contradicts is refused --- */

struct rule {
    int64_t barrier, hard, soft, settle, grace, health;
    const char *text;
};

static void set_rule(struct single *single, const struct rule *rule)
{
    single->options.barrier_timeout_ms = rule->barrier;
    single->options.hard_timeout_ms = rule->hard;
    single->options.soft_timeout_ms = rule->soft;
    single->options.settle_ms = rule->settle;
    single->options.grace_ms = rule->grace;
    single->options.health_timeout_ms = rule->health;
    single->options.health_command = rule->health ? "true" : NULL;
}

static void case_refused(struct single *single)
{
    static const struct rule equal[] = {
        {.soft = 5000,
         .hard = 5000,
         .text = "soft_timeout (5000 ms) must be less than hard_timeout"},
        {.hard = 9000, .barrier = 9000, .text = "hard_timeout (9000 ms) must be less than barrier"},
        {.hard = 9000,
         .grace = 1000,
         .barrier = 10000,
         .text = "hard_timeout (9000 ms) and grace (1000 ms) together must be less than barrier"},
        {.settle = 5000, .soft = 5000, .text = "settle (5000 ms) must be less than soft_timeout"},
        {.settle = 9000,
         .soft = -1,
         .hard = -1,
         .barrier = 9000,
         .text = "settle (9000 ms) must be less than barrier_timeout"},
        {.health = 5000, .hard = 5000, .text = "health_timeout (5000 ms) must be less than hard"},
    };
    struct belongings *before = malloc(sizeof(*before));

    if (!before) {
        abort();
    }
    for (size_t i = 0; i < sizeof(equal) / sizeof(equal[0]); i++) {
        set_rule(single, &equal[i]);
        belongings_note(before);
        run(single);
        expect_end(single, MUSTER_EINVAL, equal[i].text);
        expect_entries(single, 0);
        expect_same(before);
    }
    free(before);
}

/* --- 5: a precondition --- */

static void case_precondition(struct single *single)
{
    struct belongings *before = malloc(sizeof(*before));
    struct called precondition;
    struct called initialize;
    struct called terminate;

    if (!before) {
        abort();
    }
    single->options.precondition = with(&precondition, 1);
    single->options.initialize = with(&initialize, 0);
    single->options.terminate = with(&terminate, 0);
    belongings_note(before);
    run(single);
    expect_end(single, MUSTER_ENOSPACE,
               "run: precondition failed: callback returned MUSTER_ENOSPACE");
    expect_entries(single, 0);
    EXPECT(initialize.calls == 0 && terminate.calls == 0);
    expect_same(before);
    free(before);
    run(single); /* the communicator is gone now */
    expect_end(single, MUSTER_OK, "");
    expect_entries(single, 1);
    EXPECT(precondition.calls == 2 && initialize.calls == 1);
}

/* --- 6, 7: several runs --- */

static muster_status other_function(muster_restart *restart, void *arg)
{
    struct single *single = arg;
    struct muster_view view;

    muster_restart_view(restart, &view);
    EXPECT(view.iteration == single->entered);
    return single->entered++ == 0 ? MUSTER_EFAILED : MUSTER_OK;
}

static void case_several_runs(struct single *single)
{
    for (int i = 0; i < 3; i++) {
        fails(single, 2);
        run(single);
        expect_end(single, MUSTER_OK, "");
        expect_entries(single, 3);
    }
    run_with(single, other_function);
    expect_end(single, MUSTER_OK, "");
    EXPECT(single->entered == 2);
    single->options.iterations_max = 3;
    for (int i = 0; i < 3; i++) {
        fails(single, ENTRIES_MAX);
        run(single);
        expect_end(single, MUSTER_EFAILED, "run: given up after 3 attempts that failed");
        expect_entries(single, 3);
    }
    fails(single, 2);
    run(single);
    expect_end(single, MUSTER_OK, "");
    expect_entries(single, 3);
}

static void same_after_each(struct single *single, struct belongings *before)
{
    belongings_note(before);
    fails(single, 0);
    run(single);
    expect_same(before);
    fails(single, 3);
    run(single);
    expect_same(before);
    single->options.iterations_max = 2;
    fails(single, ENTRIES_MAX);
    run(single);
    expect_same(before);
}

/* Where an agent watches already: not even the first run leaves anything. */
static void case_nothing_is_left(struct single *single)
{
    struct belongings *before = malloc(sizeof(*before));

    if (before) {
        same_after_each(single, before);
    }
    free(before);
}

/* Where the library starts a helper in the first run, which lives as long as the client. It has
 * come when what has forked it is waited for, which is the last thing that the library does. */
static void case_nothing_more_is_left(struct single *single)
{
    struct belongings *before = malloc(sizeof(*before));

    if (before) {
        belongings_note(before);
        run(single);
        EXPECT(belongings_children_are(before));
    }
    free(before);
    case_nothing_is_left(single);
}

/* --- 8 to 17: faults and limits --- */

static void case_always_fails(struct single *single)
{
    single->options.iterations_max = 4;
    fails(single, ENTRIES_MAX);
    run(single);
    expect_end(single, MUSTER_EFAILED, "run: given up after 4 attempts that failed");
    expect_entries(single, 4);
}

/* The steps that an attempt tells: from its checkpoint to where it fails. */
static muster_status from_100_to_110(struct single *single, muster_restart *restart)
{
    for (int64_t step = 100; step <= 110; step++) {
        EXPECT(muster_restart_step(restart, step) == MUSTER_OK);
    }
    (void)single;
    return MUSTER_OK;
}

static muster_status far_back(struct single *single, muster_restart *restart)
{
    static const int64_t first[ENTRIES_MAX] = {0, 5000, 1000, 1100, 1200, 1300, 1400, 1500};
    int64_t from = first[single->entered - 1];

    for (int64_t step = from; step <= from + (from == 0 ? 5000 : 100); step += 50) {
        EXPECT(muster_restart_step(restart, step) == MUSTER_OK);
    }
    return MUSTER_OK;
}

static void case_far_back(struct single *single)
{
    single->options.stalled_max = 2;
    single->also = far_back;
    fails(single, ENTRIES_MAX - 1);
    run(single);
    expect_end(single, MUSTER_OK, "");
    expect_entries(single, ENTRIES_MAX);
}

static void case_circles(struct single *single)
{
    single->options.stalled_max = 3;
    single->also = from_100_to_110;
    fails(single, ENTRIES_MAX);
    run(single);
    expect_end(single, MUSTER_EFAILED, "run: given up after 3 attempts in a row without progress");
    expect_entries(single, 4);
}

static void case_fails_three_times(struct single *single)
{
    fails(single, 3);
    single->returns[3] = MUSTER_EPREEMPTED;
    run(single);
    EXPECT(single->status == MUSTER_EPREEMPTED);
    expect_entries(single, 4);
}

static void case_initialize(struct single *single)
{
    struct called initialize;

    single->options.iterations_max = 2;
    single->options.initialize = with(&initialize, ALWAYS);
    run(single);
    expect_end(single, MUSTER_EFAILED, "run: given up after 2 attempts that failed");
    expect_end(single, MUSTER_EFAILED, "initialize failed");
    expect_entries(single, 0);
    EXPECT(initialize.calls == 2);
}

static void case_abort(struct single *single)
{
    struct called callback_abort;
    struct called finalize;

    single->options.iterations_max = 2;
    single->options.abort = with(&callback_abort, ALWAYS);
    single->options.finalize = with(&finalize, 0);
    fails(single, ENTRIES_MAX);
    run(single);
    expect_end(single, MUSTER_EFAILED, "run: given up after 2 attempts that failed");
    expect_entries(single, 2);
    EXPECT(callback_abort.calls == 2 && finalize.calls == 2);
    EXPECT(strstr(single->log, "abort failed: callback returned MUSTER_ENOSPACE") != NULL);
}

static void case_finalize(struct single *single)
{
    struct called finalize;
    struct called health;
    struct called terminate;

    single->options.finalize = with(&finalize, ALWAYS);
    single->options.health_check = with(&health, 0);
    single->options.terminate = with(&terminate, 0);
    fails(single, ENTRIES_MAX);
    run(single);
    expect_end(single, MUSTER_ENOSPACE, "run: finalize failed: callback returned MUSTER_ENOSPACE");
    expect_entries(single, 1);
    EXPECT(finalize.calls == 1 && terminate.calls == 1);
    EXPECT(health.calls == 1); /* before the function, not after the fault */
}

static void case_unhealthy(struct single *single)
{
    struct called health;

    single->options.health_check = with(&health, ALWAYS);
    run(single);
    expect_end(single, MUSTER_EUNHEALTHY, "run: health_check failed");
    expect_entries(single, 0);
    EXPECT(health.calls == 2);
}

static void case_unhealthy_once(struct single *single)
{
    struct called health;

    single->options.health_check = with(&health, 1);
    run(single);
    expect_end(single, MUSTER_OK, "");
    EXPECT(single->entered == 1 && single->iterations[0] == 1);
    EXPECT(health.calls == 3); /* before, after the fault, before */
}

struct assigned {
    int fails_at, calls;
};

static muster_status assign(void *arg, struct muster_place *places, size_t count)
{
    struct assigned *assigned = arg;

    for (size_t i = 0; i < count; i++) {
        places[i].number = (uint32_t)i;
    }
    return ++assigned->calls == assigned->fails_at ? MUSTER_ENOSPACE : MUSTER_OK;
}

static void assign_failing(struct single *single, int fails_at)
{
    struct assigned assigned = {.fails_at = fails_at};
    const struct muster_assignment_step step = {
        .kind = MUSTER_ASSIGN_CUSTOM, .assign = assign, .arg = &assigned};
    struct muster_assignment assignment = MUSTER_ASSIGNMENT_INIT;

    assignment.list = &step;
    assignment.count = 1;
    single->options.assignment = &assignment;
    fails(single, ENTRIES_MAX);
    run(single);
    single->options.assignment = NULL;
    expect_end(single, MUSTER_ENOSPACE, "run: the assignment failed: ");
    expect_entries(single, (unsigned)fails_at - 1);
    EXPECT(assigned.calls == fails_at);
}

static void case_first_assignment(struct single *single)
{
    assign_failing(single, 1);
}

static void case_second_assignment(struct single *single)
{
    assign_failing(single, 2);
}

static void case_again(struct single *single)
{
    single->options.iterations_max = 2;
    for (unsigned i = 0; i < ENTRIES_MAX; i++) {
        single->returns[i] = AGAIN;
    }
    run(single);
    expect_end(single, MUSTER_EFAILED, "run: given up after 2 attempts that failed");
    expect_entries(single, 2);
}

/* --- 19: what callbacks are shown is a copy --- */

static muster_status scribble(muster_restart *restart, void *arg)
{
    struct muster_view view;
    struct muster_view again;
    struct muster_fault fault;
    struct muster_fault told;

    ++*(int *)arg;
    muster_restart_view(restart, &view);
    memset(&view, 0x55, sizeof(view));
    muster_restart_view(restart, &again);
    EXPECT(again.rank == 0 && again.size == 1 && again.index == 0 && again.generation > 0);
    if (muster_restart_fault(restart, 0, &fault)) {
        memset(&fault, 0x55, sizeof(fault));
        EXPECT(muster_restart_fault(restart, 0, &told));
        EXPECT(told.kind == MUSTER_FAULT_FAILED && told.index == 0);
    }
    return MUSTER_OK;
}

static void case_copies(struct single *single)
{
    int calls = 0;
    const struct muster_restart_hook step = {.call = scribble, .arg = &calls};
    const struct muster_restart_hooks steps = {.list = &step, .count = 1};

    single->options.precondition = single->options.initialize = single->options.health_check =
        steps;
    single->options.abort = single->options.finalize = single->options.completion = steps;
    fails(single, 2);
    run(single);
    expect_end(single, MUSTER_OK, "");
    expect_entries(single, 3);
    /* precondition and completion; initialize and health 3; abort, finalize and health 2 times */
    EXPECT(calls == 2 + 3 + 3 + 2 + 2 + 2);
}

/* --- 20: keys of a generation --- */

static muster_status count_in_keys(struct single *single, muster_restart *restart)
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    struct muster_view view;
    int64_t mine = 0;
    int64_t all = 0;

    muster_restart_view(restart, &view);
    options.generation = view.generation;
    EXPECT(muster_key_add(single->client, "count", 1, &options, -1, &mine, NULL) == MUSTER_OK);
    EXPECT(muster_key_add(single->client, "count", 1, NULL, -1, &all, NULL) == MUSTER_OK);
    EXPECT(mine == 1 && all == (int64_t)single->entered);
    return MUSTER_OK;
}

static void case_keys(struct single *single)
{
    single->also = count_in_keys;
    fails(single, 4);
    run(single);
    expect_end(single, MUSTER_OK, "");
    expect_entries(single, 5);
}

/* --- 21: what is logged --- */

static void case_log(struct single *single)
{
    struct called finalize;
    struct called completion;
    unsigned first;

    single->options.finalize = with(&finalize, 0);
    single->options.completion = with(&completion, ALWAYS); /* a failure that is logged */
    fails(single, 3);
    run(single);
    first = single->lines;
    EXPECT(strstr(single->log, "completion failed: callback returned MUSTER_ENOSPACE") != NULL);
    single->lines = 0;
    run(single);
    EXPECT(first > 0 && single->lines == first);
    if (single->lines != first) {
        printf("%s", single->log);
    }
}

/* --- */

static const struct {
    const char *name;
    void (*run)(struct single *single);
    bool alone; /* without a client */
} cases[] = {
    {"returns", case_returns, false},
    {"handle", case_handle, false},
    {"disabled", case_disabled, true},
    {"refused", case_refused, false},
    {"precondition", case_precondition, false},
    {"several-runs", case_several_runs, false},
    {"nothing-is-left", case_nothing_is_left, false},
    {"nothing-more-is-left", case_nothing_more_is_left, false},
    {"always-fails", case_always_fails, false},
    {"fails-three-times", case_fails_three_times, false},
    {"far-back", case_far_back, false},
    {"circles", case_circles, false},
    {"initialize", case_initialize, false},
    {"abort", case_abort, false},
    {"finalize", case_finalize, false},
    {"unhealthy", case_unhealthy, false},
    {"unhealthy-once", case_unhealthy_once, false},
    {"first-assignment", case_first_assignment, false},
    {"second-assignment", case_second_assignment, false},
    {"again", case_again, false},
    {"copies", case_copies, false},
    {"keys", case_keys, false},
    {"log", case_log, false},
};

static void run_case(size_t i)
{
    static struct belongings before;
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    static struct single single;

    single.options = (struct muster_restart_options)MUSTER_RESTART_OPTIONS_INIT;
    options.log = on_log;
    options.log_ctx = &single;
    belongings_note(&before);
    if (!cases[i].alone &&
        muster_client_open(&single.client, &options, OPEN_MS, &single.err) != MUSTER_OK) {
        printf("not opened: %s\n", single.err.text);
        surprises++;
        return;
    }
    cases[i].run(&single);
    muster_client_close(single.client);
    expect_same(&before);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            run_case(i);
            return surprises > 0;
        }
    }
    printf("there is no such case\n");
    return 2;
}
