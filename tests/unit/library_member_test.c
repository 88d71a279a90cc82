/* SPDX-License-Identifier: Apache-2.0 */
/* What the public functions say of other processes: places that are held, taken over or lost,
 * faults, who stands at a round. The lease is short only for what its end decides, and still so
 * long that a machine that stands still for a moment does not end it first.
 *
 * behaviour: members / Places */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "process/page.h"

static char logged[400];

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)snprintf(logged, sizeof(logged), "%s", line);
}

/* A place in a job of `size` at the service of `client`. */
static struct muster_client_options place(const muster_client *client, const char *job,
                                          uint32_t size, int64_t index)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.addr = client->addr;
    options.job = job;
    options.size_of_job = size;
    options.index = index;
    return options;
}

/* ---- seats ---- */

/* What it is told of where it stands is what it can look up. */
static void assert_watched(muster_client *client, const struct muster_view *view)
{
    struct muster_watch_options kinds = MUSTER_WATCH_OPTIONS_INIT;
    struct muster_event event;
    struct muster_error err;
    muster_watch *watch = NULL;

    kinds.kinds = MUSTER_WATCH_VIEW;
    library_ok(muster_watch_open(&watch, client, &kinds, &err), &err);
    library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    assert_int_equal(event.type, MUSTER_EVENT_VIEW);
    assert_int_equal(event.view.generation, view->generation);
    assert_int_equal(event.view.rank, view->rank);
    assert_int_equal(event.view.size, view->size);
    assert_int_equal(event.view.index, view->index);
    assert_int_equal(event.view.spare, view->spare);
    muster_watch_close(watch);
}

/* A spare watches the view. The view that it gets says `spare`, as `muster_client_view` does.
 * [watches / Watches] */
static void beyond_max_size_an_open_returns_a_spare(void **state)
{
    muster_client *service = library_alone();
    struct muster_client_options options = place(service, "seats", 1, 0);
    muster_client *seated;
    muster_client *spare;
    struct muster_view view;

    (void)state;
    options.max_size = 1;
    seated = library_open(&options);
    options.index = 1;
    spare = library_open(&options);
    muster_client_view(spare, &view);
    assert_true(view.spare);
    assert_int_equal(view.generation, 1);
    assert_int_equal(view.size, 1);
    assert_int_equal(view.rank, MUSTER_RANK_NONE);
    assert_int_equal(view.index, 1);
    assert_watched(spare, &view);
    muster_client_view(seated, &view);
    assert_false(view.spare);
    assert_int_equal(view.rank, 0);
    assert_watched(seated, &view);
    muster_client_close(spare);
    muster_client_close(seated);
    muster_client_close(service);
}

/* `MUSTER_ADDR` is set and the first rank of a job does not say its size. It is refused: the
 * line says to set `MUSTER_SIZE`. [discover / Not guessing] */
static void the_first_of_a_job_is_to_say_its_size(void **state)
{
    muster_client *service = library_alone();
    struct muster_client_options options = place(service, "sizeless", 0, MUSTER_INDEX_ANY);
    struct muster_error err = {0};
    muster_client *late = NULL;
    muster_client *first;

    (void)state;
    assert_int_equal(muster_client_open(&late, &options, -1, &err), MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "join job 'sizeless': no member has set how many ranks it starts with, so "
                        "it would wait forever: set MUSTER_SIZE or options.size_of_job on all of "
                        "them (1 for a process alone)");
    assert_null(late);
    options.size_of_job = options.max_size = 1;
    first = library_open(&options);
    options.size_of_job = options.max_size = 0;
    late = library_open(&options); /* a spare: the job has begun */
    muster_client_close(late);
    muster_client_close(first);
    muster_client_close(service);
}

/* Parameters of an open contradict each other. The library says which two, before it asks the
 * service. [generations / Seats and spares] */
static void parameters_that_contradict_each_other_are_refused(void **state)
{
    static const struct {
        uint32_t size, min_size, max_size, multiple;
        const char *text;
    } table[] = {
        {0, 3, 2, 0, "open: max_size 2 is below min_size 3"},
        {4, 0, 3, 0, "open: max_size 3 is below size 4, with which the job is to start"},
        {2, 3, 0, 0, "open: size 2 is below min_size 3"},
        {5, 5, 0, 2,
         "open: no multiple of size_multiple 2 is from min_size to size 5: the job could not "
         "start"},
        {0, 5, 7, 4,
         "open: no multiple of size_multiple 4 is from min_size to max_size 7: the job could not "
         "start"},
    };
    struct muster_error err;
    muster_client *client = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

        options.addr = "unix:/nonexistent/muster.sock";
        options.size_of_job = table[i].size;
        options.min_size = table[i].min_size;
        options.max_size = table[i].max_size;
        options.size_multiple = table[i].multiple;
        assert_int_equal(muster_client_open(&client, &options, LIMIT_MS, &err), MUSTER_EINVAL);
        assert_string_equal(err.text, table[i].text);
    }
}

/* The launcher's variables give seats that contradict the size. The open fails with EINVAL and
 * the line says which two. [generations / Seats and spares] */
static void the_launcher_names_the_seats(void **state)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err;
    muster_client *client = NULL;

    (void)state;
    options.addr = "unix:/nonexistent/muster.sock";
    options.size_of_job = 6;
    assert_int_equal(setenv("MUSTER_MAX_SIZE", "4", 1), 0);
    assert_int_equal(muster_client_open(&client, &options, LIMIT_MS, &err), MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "open: max_size 4 is below size 6, with which the job is to start");
    assert_int_equal(unsetenv("MUSTER_MAX_SIZE"), 0);
    assert_int_equal(setenv("MUSTER_SIZE_MULTIPLE", "7", 1), 0);
    assert_int_equal(muster_client_open(&client, &options, LIMIT_MS, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "open: no multiple of size_multiple 7 is from min_size to size "
                                  "6: the job could not start");
    assert_int_equal(unsetenv("MUSTER_SIZE_MULTIPLE"), 0);
}

/* ---- places ---- */

/* A place is claimed whose holder lives. It is refused. */
static void a_place_whose_holder_lives_is_refused(void **state)
{
    muster_client *service = library_alone();
    struct muster_client_options options = place(service, "held", 1, 0);
    muster_client *holder = library_open(&options);
    muster_client *second = NULL;
    struct muster_error err;
    char expected[128];

    (void)state;
    options.log = on_log;
    assert_int_equal(muster_client_open(&second, &options, LIMIT_MS, &err), MUSTER_EEXISTS);
    assert_null(second);
    (void)snprintf(expected, sizeof(expected), "#0 is held by process %d on ", (int)getpid());
    assert_non_null(strstr(err.text, expected));
    library_ok(muster_barrier_wait(holder, "alive", LIMIT_MS, &err), &err);
    muster_client_close(holder);
    muster_client_close(service);
}

/* A process that holds place 0 of the job and writes to it until it is told why it cannot. */
static void hold(const muster_client *service, const char *job, int told)
{
    struct muster_client_options options = place(service, job, 1, 0);
    struct muster_error err = {0};
    muster_client *client = NULL;

    if (muster_client_open(&client, &options, LIMIT_MS, &err) == MUSTER_OK) {
        (void)!write(told, "in", 2);
        while (muster_key_add(client, "n", 1, NULL, LIMIT_MS, NULL, &err) == MUSTER_OK) {
        }
    }
    (void)!write(told, err.text, strlen(err.text));
    _exit(err.status == MUSTER_EFENCED ? 0 : 1);
}

struct holder {
    pid_t pid;
    int told;
};

static void holder_start(struct holder *holder, const muster_client *service, const char *job)
{
    char in[2];
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    holder->pid = fork();
    assert_true(holder->pid >= 0);
    if (holder->pid == 0) {
        hold(service, job, ends[1]);
    }
    (void)close(ends[1]);
    holder->told = ends[0];
    assert_int_equal(read(holder->told, in, 2), 2);
    assert_memory_equal(in, "in", 2);
}

static int holder_end(struct holder *holder)
{
    int how = 0;

    assert_int_equal(waitpid(holder->pid, &how, 0), holder->pid);
    (void)close(holder->told);
    return how;
}

/* A place is claimed whose holder is lost. The claimant takes it over. */
static void a_place_whose_holder_is_lost_is_taken_over(void **state)
{
    muster_client *service = library_alone();
    struct muster_client_options options = place(service, "heir", 1, 0);
    struct holder holder;
    struct muster_view view;
    muster_client *heir;

    (void)state;
    holder_start(&holder, service, "heir");
    assert_int_equal(kill(holder.pid, SIGKILL), 0);
    (void)holder_end(&holder);
    options.log = on_log;
    heir = library_open(&options);
    assert_non_null(strstr(logged, "waiting for place #0, held by process "));
    muster_client_view(heir, &view);
    assert_int_equal(view.index, 0);
    assert_int_equal(view.rank, 0);
    assert_int_equal(view.incarnation, 2);
    assert_int_equal(view.generation, 2);
    muster_client_close(heir);
    muster_client_close(service);
}

/* Until the service has given up the rank of the job. */
static void wait_for_loss(const muster_client *service, const char *job)
{
    struct muster_client_options options = place(service, job, 0, MUSTER_INDEX_ANY);
    struct muster_watch_options kinds = MUSTER_WATCH_OPTIONS_INIT;
    struct muster_event event = {0};
    struct muster_error err;
    muster_watch *watch = NULL;
    muster_client *observer;

    options.role = MUSTER_ROLE_OBSERVER;
    kinds.kinds = MUSTER_WATCH_MEMBERS;
    observer = library_open(&options);
    library_ok(muster_watch_open(&watch, observer, &kinds, &err), &err);
    while (event.member.state != MUSTER_MEMBER_LOST) {
        library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    }
    assert_int_equal(event.member.cause, MUSTER_CAUSE_LEASE);
    muster_watch_close(watch);
    muster_client_close(observer);
}

/* A member returns after its loss. It is refused with the generation the job is in. */
static void who_returns_after_its_loss_is_told_the_generation(void **state)
{
    muster_client *service = library_alone();
    struct holder holder;
    char text[512] = "";

    (void)state;
    holder_start(&holder, service, "stopped");
    assert_int_equal(kill(holder.pid, SIGSTOP), 0);
    wait_for_loss(service, "stopped");
    assert_int_equal(kill(holder.pid, SIGCONT), 0);
    assert_true(read(holder.told, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "this process was replaced; the job continues without it"));
    assert_non_null(strstr(text, "; the job is in generation 1"));
    assert_non_null(strstr(text, "the job is in generation 1"));
    assert_int_equal(holder_end(&holder), 0);
    muster_client_close(service);
}

/* `MUSTER_ADDR` is set and no service is there. It never becomes a job of one.
 * [library / Opening and closing] */
static void an_address_in_the_environment_is_never_left(void **state)
{
    struct muster_error err;
    muster_client *client = NULL;

    (void)state;
    assert_int_equal(setenv("MUSTER_ADDR", "unix:/nonexistent/muster.sock", 1), 0);
    assert_int_equal(muster_client_open(&client, NULL, 100, &err), MUSTER_EUNREACHABLE);
    assert_int_equal(unsetenv("MUSTER_ADDR"), 0);
    assert_null(client);
    assert_non_null(strstr(err.text, "unix:/nonexistent/muster.sock"));
}

/* ---- what its agent sees ---- */

static muster_status ping_thrice(muster_restart *restart, void *ctx)
{
    const struct mst_page *page = ctx;
    muster_status status = MUSTER_OK;

    for (int i = 0; i < 3 && status == MUSTER_OK; i++) {
        status = muster_restart_ping(restart);
    }
    return mst_page_held(page) ? status : MUSTER_EFAILED;
}

/* An agent gave the process a progress page. The library holds it while the client is open,
 * shows pings and generation there, and lets it go when it closes.
 * [library / Opening and closing] */
static void a_rank_shows_its_progress_on_its_page(void **state)
{
    struct mst_page *page = NULL;
    struct muster_error err;
    muster_client *client;
    char text[16];
    int fd = -1;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    (void)snprintf(text, sizeof(text), "%d", fd);
    assert_int_equal(setenv("MUSTER_PAGE_FD", text, 1), 0);
    client = library_alone();
    assert_int_equal(unsetenv("MUSTER_PAGE_FD"), 0);
    assert_true(mst_page_held(page));
    assert_int_equal(page->pid, getpid());
    library_ok(muster_restart_run(client, NULL, ping_thrice, page, &err), &err);
    assert_int_equal(page->pings, 3);
    assert_int_equal(page->generation, 1);
    muster_client_close(client);
    assert_false(mst_page_held(page)); /* a close is no death */
    assert_false(mst_page_died(page));
    mst_page_unmap(page);
    (void)close(fd);
}

/* ---- faults ---- */

static void next(muster_watch *watch, struct muster_event *event)
{
    struct muster_error err;

    library_ok(muster_watch_next(watch, LIMIT_MS, event, &err), &err);
}

/* A rank reports a fault and dies of it. The reported fault is what watchers see, not the death
 * that followed. [Loss] */
static void a_fault_and_an_end_are_told_to_those_who_watch(void **state)
{
    muster_client *service = library_alone();
    struct muster_client_options options = place(service, "faults", 1, 0);
    struct muster_watch_options kinds = MUSTER_WATCH_OPTIONS_INIT;
    muster_client *rank = library_open(&options);
    muster_client *observer = library_observer(rank);
    struct muster_event event;
    struct muster_error err;
    muster_watch *watch = NULL;

    (void)state;
    kinds.kinds = MUSTER_WATCH_MEMBERS | MUSTER_WATCH_FAULTS | MUSTER_WATCH_VIEW;
    library_ok(muster_watch_open(&watch, observer, &kinds, &err), &err);
    next(watch, &event);
    assert_int_equal(event.type, MUSTER_EVENT_MEMBER);
    assert_int_equal(event.member.state, MUSTER_MEMBER_PRESENT);
    next(watch, &event);
    assert_int_equal(event.type, MUSTER_EVENT_VIEW);
    assert_int_equal(event.view.generation, 1);
    library_ok(muster_member_fault(rank, 7, "loss is nan", LIMIT_MS, &err), &err);
    next(watch, &event);
    assert_int_equal(event.type, MUSTER_EVENT_FAULT);
    assert_int_equal(event.member.index, 0);
    assert_int_equal(event.member.cause, MUSTER_CAUSE_FAULT);
    assert_int_equal(event.member.code, 7);
    assert_string_equal(event.member.text, "loss is nan");
    next(watch, &event);
    assert_int_equal(event.type, MUSTER_EVENT_VIEW);
    muster_client_close(rank);
    next(watch, &event);
    assert_int_equal(event.type, MUSTER_EVENT_MEMBER);
    assert_int_equal(event.member.state, MUSTER_MEMBER_LEFT);
    muster_watch_close(watch);
    muster_client_close(observer);
    muster_client_close(service);
}

/* ---- rounds ---- */

struct opening {
    const muster_client *service;
    const char *job;
    muster_client *client;
    struct muster_error err;
};

static void *open_second(void *ctx)
{
    struct opening *opening = ctx;
    struct muster_client_options options = place(opening->service, opening->job, 2, 1);

    (void)!muster_client_open(&opening->client, &options, LIMIT_MS, &opening->err);
    return NULL;
}

/* A rank stands at a round. The program sees it in the list of the round.
 * [rounds / Looking at them] */
static void who_stands_at_a_round_is_listed(void **state)
{
    muster_client *service = library_alone();
    struct muster_client_options options = place(service, "two", 2, 0);
    struct opening second = {.service = service, .job = "two"};
    const struct muster_round_info *info;
    muster_rounds *rounds = NULL;
    muster_members *members = NULL;
    muster_client *first;
    struct muster_error err;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, open_second, &second), 0);
    first = library_open(&options);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(second.client);
    assert_int_equal(muster_barrier_wait(first, "loaded", 500, &err), MUSTER_ETIMEDOUT);
    library_ok(muster_round_list(second.client, LIMIT_MS, &rounds, &err), &err);
    assert_int_equal(muster_rounds_count(rounds), 1);
    info = muster_rounds_get(rounds, 0);
    assert_string_equal(info->name, "loaded");
    assert_int_equal(info->number, 0);
    assert_int_equal(info->arrived, 1);
    assert_int_equal(info->expected, 2);
    assert_true(info->has_missing);
    assert_int_equal(info->missing.index, 1);
    assert_null(muster_rounds_get(rounds, 1));
    muster_rounds_free(rounds);
    library_ok(muster_round_members(second.client, "loaded", 0, LIMIT_MS, &members, &err), &err);
    assert_int_equal(muster_members_count(members), 2);
    assert_true(muster_members_get(members, 0)->arrived);
    assert_false(muster_members_get(members, 1)->arrived);
    muster_members_free(members);
    assert_int_equal(muster_round_members(first, "loaded", 1, LIMIT_MS, &members, &err),
                     MUSTER_ENOTFOUND);
    muster_client_close(second.client);
    muster_client_close(first);
    muster_client_close(service);
}

/* All contribute the same bytes, or numbers to add. The caller gets the bytes, or the sum.
 * [rounds / Results] */
static void equal_bytes_and_sums_are_given_to_the_caller(void **state)
{
    muster_client *client = library_alone();
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    const int64_t numbers[2] = {40, -2};
    struct muster_slice mine = {.data = numbers, .size = sizeof(numbers)};
    muster_round_result *result = NULL;
    struct muster_error err;

    (void)state;
    options.reduce = MUSTER_REDUCE_EQUAL;
    library_ok(muster_round_join(client, "e", &options, bytes_of("v1.2"), LIMIT_MS, &result, &err),
               &err);
    assert_int_equal(muster_round_value(result).size, 4);
    assert_memory_equal(muster_round_value(result).data, "v1.2", 4);
    muster_round_free(result);
    options.reduce = MUSTER_REDUCE_SUM;
    library_ok(muster_round_join(client, "s", &options, mine, LIMIT_MS, &result, &err), &err);
    assert_int_equal(muster_round_int64(result, 0), 40);
    assert_int_equal(muster_round_int64(result, 1), -2);
    muster_round_free(result);
    muster_client_close(client);
}

/* A round of the library reaches its deadline. The caller gets what arrived.
 * [rounds / Losses and deadlines] */
static void a_round_at_its_deadline_gives_what_arrived(void **state)
{
    muster_client *service = library_alone();
    struct muster_client_options options = place(service, "bounded", 2, 0);
    struct opening second = {.service = service, .job = "bounded"};
    struct muster_round_options round = MUSTER_ROUND_OPTIONS_INIT;
    const int64_t numbers[2] = {7, 100};
    muster_client *clients[2];
    struct muster_error err;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, open_second, &second), 0);
    clients[0] = library_open(&options);
    assert_int_equal(pthread_join(thread, NULL), 0);
    clients[1] = second.client;
    assert_non_null(clients[1]);
    round.reduce = MUSTER_REDUCE_MAX;
    round.on_loss = MUSTER_ON_LOSS_PROCEED;
    round.deadline_ms = 100;
    for (size_t i = 0; i < 2; i++) { /* the second when it is over */
        struct muster_slice mine = {.data = &numbers[i], .size = sizeof(numbers[i])};
        muster_round_result *result = NULL;
        struct muster_round_count count;

        assert_int_equal(
            muster_round_join(clients[i], "most", &round, mine, LIMIT_MS, &result, &err),
            MUSTER_ETIMEDOUT);
        assert_non_null(result);
        assert_int_equal(muster_round_status(result), MUSTER_ETIMEDOUT);
        assert_int_equal(muster_round_int64(result, 0), 7);
        muster_round_count(result, &count);
        assert_int_equal(count.arrived, 1);
        assert_int_equal(count.missing, 1);
        assert_int_equal(muster_round_missing(result, 0)->index, 1);
        muster_round_free(result);
    }
    muster_client_close(clients[1]);
    muster_client_close(clients[0]);
    muster_client_close(service);
}

/* One rank's bytes go to all ranks of the library, and doubles are added. A rank that is not the
 * root need not have bytes; a root that is no rank is refused in one line. The view has the size of
 * the job. [rounds / Results] */
static void bytes_of_one_rank_go_to_all(void **state)
{
    muster_client *service = library_alone();
    struct muster_client_options options = place(service, "sent", 2, 0);
    struct opening second = {.service = service, .job = "sent"};
    struct muster_round_options round = MUSTER_ROUND_OPTIONS_INIT;
    const double numbers[2] = {0.1, 0.2};
    muster_client *clients[2];
    muster_round_result *results[2] = {NULL};
    muster_call *calls[2] = {NULL};
    struct muster_error err;
    struct muster_view view;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, open_second, &second), 0);
    clients[0] = library_open(&options);
    assert_int_equal(pthread_join(thread, NULL), 0);
    clients[1] = second.client;
    assert_non_null(clients[1]);
    muster_client_view(clients[1], &view);
    assert_int_equal(view.size_of_job, 2);
    assert_int_equal(
        muster_round_broadcast(clients[0], "s", 2, bytes_of("x"), LIMIT_MS, &results[0], &err),
        MUSTER_EINVAL);
    assert_string_equal(err.text, "broadcast 's': the root is rank 2, but the ranks are 0 to 1");
    assert_null(results[0]);
    for (size_t i = 0; i < 2; i++) {
        library_ok(muster_round_broadcast_start(clients[i], "s", 1,
                                                bytes_of(i == 1 ? "of 1" : "not used"), LIMIT_MS,
                                                &results[i], &calls[i], &err),
                   &err);
    }
    for (size_t i = 0; i < 2; i++) {
        library_ok(muster_call_wait(calls[i], LIMIT_MS, &err), &err);
        assert_int_equal(muster_round_value(results[i]).size, 4);
        assert_memory_equal(muster_round_value(results[i]).data, "of 1", 4);
        muster_call_free(calls[i]);
        muster_round_free(results[i]);
    }
    round.reduce = MUSTER_REDUCE_SUM_DOUBLE;
    for (size_t i = 2; i-- > 0;) {
        struct muster_slice mine = {.data = &numbers[i], .size = sizeof(numbers[i])};

        library_ok(muster_round_join_start(clients[i], "d", &round, mine, LIMIT_MS, &results[i],
                                           &calls[i], &err),
                   &err);
    }
    for (size_t i = 0; i < 2; i++) {
        library_ok(muster_call_wait(calls[i], LIMIT_MS, &err), &err);
        assert_true(muster_round_double(results[i], 0) == 0.1 + 0.2);
        assert_true(muster_round_double(results[i], 1) == 0);
        muster_call_free(calls[i]);
        muster_round_free(results[i]);
    }
    muster_client_close(clients[1]);
    muster_client_close(clients[0]);
    muster_client_close(service);
}

/* ---- what is left of keys, and words ---- */

/* A program waits for several keys. The call ends when each has existed. [keys / Waiting] */
static void several_keys_are_waited_for(void **state)
{
    muster_client *client = library_alone();
    const char *const names[] = {"a", "b"};
    struct muster_error err;

    (void)state;
    library_ok(muster_key_put(client, "a", bytes_of("1"), NULL, LIMIT_MS, NULL, &err), &err);
    assert_int_equal(muster_key_wait(client, names, 2, NULL, 20, &err), MUSTER_ETIMEDOUT);
    library_ok(muster_key_put(client, "b", bytes_of("1"), NULL, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_key_wait(client, names, 2, NULL, LIMIT_MS, &err), &err);
    muster_client_close(client);
}

/* A batch compares and sets. If one comparison fails nothing of it is done, and the error names its
 * key.
 * [keys / Several keys] */
static void a_batch_compares_and_sets(void **state)
{
    muster_client *client = library_alone();
    muster_batch *batch = NULL;
    muster_value *value = NULL;
    struct muster_error err;
    uint64_t revision = 0;

    (void)state;
    library_ok(muster_key_put(client, "lock", bytes_of("free"), NULL, LIMIT_MS, &revision, &err),
               &err);
    library_ok(muster_batch_new(&batch, NULL), NULL);
    library_ok(muster_batch_put(batch, "1:by\n", bytes_of("me")), NULL);
    library_ok(muster_batch_cas(batch, "lock", revision, bytes_of("mine")), NULL);
    library_ok(muster_batch_put(batch, "since", bytes_of("now")), NULL);
    library_ok(muster_batch_apply(client, batch, LIMIT_MS, &err), &err);
    library_ok(muster_key_delete(client, "since", NULL, LIMIT_MS, &err), &err);
    assert_int_equal(muster_batch_apply(client, batch, LIMIT_MS, &err), MUSTER_ECONFLICT);
    assert_non_null(strstr(err.text, "apply a batch of 3 writes: 'lock': "));
    assert_int_equal(muster_key_get(client, "since", NULL, 0, &value, &err), MUSTER_ENOTFOUND);
    muster_batch_free(batch);
    muster_client_close(client);
}

/* What `err` says of a refusal: which limit, what was asked for, and what the limit is. */
static void refused_for(muster_status status, const struct muster_error *err, const char *limit)
{
    const char *said = strstr(err->text, ": over ");

    assert_int_equal(status, MUSTER_ELIMIT);
    assert_non_null(said);
    assert_string_equal(said + strlen(": over "), limit);
}

#define OVER(flag, help, asked, most)                                                              \
    flag " of the service (" help "): " asked " bytes asked for, at most " most                    \
         "; raise it at `muster serve`, or ask for less"

/* A call is over a limit of the service. Its error has the limit. [keys / Limits] */
static void what_is_over_a_limit_is_told_the_limit(void **state)
{
    static char name[5001];
    static const char bytes[65537];
    struct muster_slice large = {.data = bytes, .size = sizeof(bytes)};
    muster_client *client = library_alone();
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_client_options other;
    struct muster_error err;
    muster_client *none = NULL;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    refused_for(muster_key_put(client, name, bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err,
                OVER("--key-bytes-max", "a key", "5000", "4096"));
    refused_for(muster_member_fault(client, 1, name, LIMIT_MS, &err), &err,
                OVER("--text-bytes-max", "the text of a fault or last words", "5000", "1024"));
    refused_for(muster_barrier_wait(client, name, LIMIT_MS, &err), &err,
                OVER("--name-bytes-max", "a name of a job, host or round", "5000", "256"));
    options.reduce = MUSTER_REDUCE_GATHER;
    refused_for(muster_round_join(client, "g", &options, large, LIMIT_MS, NULL, &err), &err,
                OVER("--contribution-bytes-max", "one contribution to a round", "65537", "65536"));
    large.size--;
    library_ok(muster_round_join(client, "g", &options, large, LIMIT_MS, NULL, &err), &err);
    other = place(client, name, 1, 0);
    refused_for(muster_client_open(&none, &other, LIMIT_MS, &err), &err,
                OVER("--name-bytes-max", "a name of a job, host or round", "5000", "256"));
    muster_client_close(client);
}

static void too_large_for(muster_status status, const struct muster_error *err, const char *what)
{
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "%s: 1073741824 bytes, and a message to this service has at most 17825792 "
                   "(--frame-bytes-max of `muster serve`); raise it there, or send less at once",
                   what);
    assert_int_equal(status, MUSTER_ELIMIT);
    assert_string_equal(err->text, text);
}

/* A value or contribution has more bytes than any message to the service may have, and cannot be
 * read. It fails with ELIMIT with both numbers and the setting, before anything is copied; a
 * batch takes no more than 512 MiB in all. [library / Reading the errors] */
static void what_no_message_takes_is_refused_before_it_is_copied(void **state)
{
    const size_t size = (size_t)1 << 30;
    struct muster_round_options gather = MUSTER_ROUND_OPTIONS_INIT;
    muster_client *client = library_alone();
    struct muster_slice huge = {.size = size};
    muster_batch *batch = NULL;
    muster_call *call = NULL;
    void *memory;
    struct muster_error err;

    (void)state;
    gather.reduce = MUSTER_REDUCE_GATHER;
    memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    huge.data = memory;
    too_large_for(muster_key_put(client, "k", huge, NULL, LIMIT_MS, NULL, &err), &err, "put 'k'");
    too_large_for(muster_key_append_start(client, "k", huge, NULL, LIMIT_MS, NULL, &call, &err),
                  &err, "append to 'k'");
    too_large_for(muster_round_join(client, "r", &gather, huge, LIMIT_MS, NULL, &err), &err,
                  "round 'r'");
    library_ok(muster_batch_new(&batch, NULL), NULL);
    assert_int_equal(muster_batch_put(batch, "k", huge), MUSTER_ELIMIT);
    library_ok(muster_batch_put(batch, "k", bytes_of("x")), NULL);
    huge.size = size / 2 - 1; /* a message may have it alone, but not with what is there */
    assert_int_equal(muster_batch_put(batch, "l", huge), MUSTER_ELIMIT);
    library_ok(muster_batch_apply(client, batch, LIMIT_MS, &err), &err); /* it is as before */
    muster_batch_free(batch);
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    (void)munmap(memory, size);
    muster_client_close(client);
}

/* Each status has a name, a text and an exit code: 0, 75, else 1. [library / Reading the errors] */
static void words_and_exit_codes(void **state)
{
    (void)state;
    assert_string_equal(muster_status_name(MUSTER_EFENCED), "MUSTER_EFENCED");
    assert_string_equal(muster_status_name((muster_status)-999), "MUSTER_?");
    assert_string_equal(muster_status_text(MUSTER_ETIMEDOUT), "timed out");
    assert_int_equal(muster_exit_code(MUSTER_OK), 0);
    assert_int_equal(muster_exit_code(MUSTER_EPREEMPTED), 75);
    assert_int_equal(muster_exit_code(MUSTER_EFAILED), 1);
    assert_string_equal(muster_version(), "0.1.0");
}

static int lease_ends_soon(void **state)
{
    (void)state;
    return setenv("MUSTER_LEASE", "4s", 1);
}

static int lease_as_ever(void **state)
{
    (void)state;
    return unsetenv("MUSTER_LEASE");
}

#define WITH_A_SHORT_LEASE(test)                                                                   \
    cmocka_unit_test_setup_teardown(test, lease_ends_soon, lease_as_ever)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beyond_max_size_an_open_returns_a_spare),
        cmocka_unit_test(the_first_of_a_job_is_to_say_its_size),
        cmocka_unit_test(parameters_that_contradict_each_other_are_refused),
        cmocka_unit_test(the_launcher_names_the_seats),
        cmocka_unit_test(a_place_whose_holder_lives_is_refused),
        WITH_A_SHORT_LEASE(a_place_whose_holder_is_lost_is_taken_over),
        WITH_A_SHORT_LEASE(who_returns_after_its_loss_is_told_the_generation),
        cmocka_unit_test(an_address_in_the_environment_is_never_left),
        cmocka_unit_test(a_rank_shows_its_progress_on_its_page),
        cmocka_unit_test(a_fault_and_an_end_are_told_to_those_who_watch),
        cmocka_unit_test(who_stands_at_a_round_is_listed),
        cmocka_unit_test(equal_bytes_and_sums_are_given_to_the_caller),
        cmocka_unit_test(a_round_at_its_deadline_gives_what_arrived),
        cmocka_unit_test(bytes_of_one_rank_go_to_all),
        cmocka_unit_test(several_keys_are_waited_for),
        cmocka_unit_test(a_batch_compares_and_sets),
        cmocka_unit_test(what_is_over_a_limit_is_told_the_limit),
        cmocka_unit_test(what_no_message_takes_is_refused_before_it_is_copied),
        cmocka_unit_test(words_and_exit_codes),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
