/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a function, as the only rank of a job with a real service: callbacks, sections, what is
 * told of its end.
 *
 * behaviour: restart / Options, callbacks and clients */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "library_stage.h"
#include "restart/shell/restart.h"

enum { SHORT_MS = 100 }; /* for what must not end before it */

static char told[1024]; /* the words of what was called, in order */
static char logged[400];

static void tell(const char *word)
{
    struct mst_text text = {.start = told, .size = strlen(told), .room = sizeof(told)};

    mst_text_format(&text, "%s ", word);
}

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    if (level == MUSTER_LEVEL_WARN) {
        (void)snprintf(logged, sizeof(logged), "%s", line);
    }
}

/* A callback that tells its name, and fails with `status` as long as `times` lasts. */
struct scripted {
    const char *name;
    muster_status status;
    int times;
};

static muster_status scripted(muster_restart *restart, void *arg)
{
    struct scripted *script = arg;

    (void)restart;
    tell(script->name);
    return script->times-- > 0 ? script->status : MUSTER_OK;
}

static muster_status fail_a_while(muster_restart *restart, void *arg)
{
    struct scripted *script = arg;
    char text[32];

    tell("fn");
    if (script->times-- <= 0) {
        return script->status;
    }
    (void)snprintf(text, sizeof(text), "%d to go", script->times);
    return muster_restart_fail(restart, 7, text);
}

enum { ALL = 7 };

struct cast {
    struct scripted scripts[ALL];
    struct muster_restart_hook steps[ALL];
    struct muster_restart_options options;
};

static struct cast *all_callbacks(void)
{
    static const char *const names[ALL] = {"precondition", "initialize", "health",   "abort",
                                           "finalize",     "completion", "terminate"};
    static const struct muster_restart_options standard = MUSTER_RESTART_OPTIONS_INIT;
    static struct cast cast;
    struct muster_restart_hooks *const lists[ALL] = {
        &cast.options.precondition, &cast.options.initialize, &cast.options.health_check,
        &cast.options.abort,        &cast.options.finalize,   &cast.options.completion,
        &cast.options.terminate};

    cast.options = standard;
    for (size_t i = 0; i < ALL; i++) {
        cast.scripts[i] = (struct scripted){.name = names[i], .status = MUSTER_EFAILED};
        cast.steps[i] = (struct muster_restart_hook){.call = scripted, .arg = &cast.scripts[i]};
        *lists[i] = (struct muster_restart_hooks){.list = &cast.steps[i], .count = 1};
    }
    told[0] = '\0';
    logged[0] = '\0';
    return &cast;
}

static muster_client *client_with_log(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.log = on_log;
    return library_open(&options);
}

/* Runs with these callbacks; the function fails `times` times. */
static muster_status run_cast(struct cast *cast, int times, struct muster_error *err)
{
    struct scripted function = {.status = MUSTER_OK, .times = times};
    muster_client *client = client_with_log();
    muster_status status;

    *err = (struct muster_error){0};
    status = muster_restart_run(client, &cast->options, fail_a_while, &function, err);
    muster_client_close(client);
    return status;
}

/* A run has callbacks of every kind. They are called in their order. */
static void callbacks_are_called_in_their_order(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_error err;

    (void)state;
    library_ok(run_cast(cast, 1, &err), &err);
    assert_string_equal(told, "precondition initialize health fn abort finalize health "
                              "initialize health fn completion ");
}

/* The precondition fails. Nothing is started, and its status is returned. */
static void a_precondition_refuses_before_anything(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_error err;

    (void)state;
    cast->scripts[0].times = 1;
    cast->scripts[0].status = MUSTER_EEXISTS;
    assert_int_equal(run_cast(cast, 0, &err), MUSTER_EEXISTS);
    assert_int_equal(err.status, MUSTER_EEXISTS);
    assert_string_equal(err.text,
                        "run: precondition failed: callback returned MUSTER_EEXISTS (-6)");
    assert_int_equal(err.why, MUSTER_WHY_PRECONDITION);
    assert_string_equal(told, "precondition ");
}

/* `initialize` fails again and again. Each time a fault; the function is never entered. */
static void a_failing_initialize_is_a_fault_until_the_limit_11(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_error err;

    (void)state;
    cast->scripts[1].times = 100;
    cast->options.iterations_max = 2;
    assert_int_equal(run_cast(cast, 0, &err), MUSTER_EFAILED);
    assert_string_equal(err.text,
                        "run: given up after 2 attempts that failed (iterations_max 2); the last: "
                        "rank 0 (#0) failed: code -17: initialize failed: callback returned "
                        "MUSTER_EFAILED (-17)");
    assert_string_equal(told, "precondition initialize abort finalize health "
                              "initialize abort finalize health terminate ");
}

/* An abort callback fails. It is logged, and that is all. */
static void a_failing_abort_is_only_logged_12(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_error err;

    (void)state;
    cast->scripts[3].times = 100;
    cast->options.iterations_max = 2;
    assert_int_equal(run_cast(cast, 100, &err), MUSTER_EFAILED);
    assert_string_equal(told, "precondition initialize health fn abort finalize health "
                              "initialize health fn abort finalize health terminate ");
    assert_string_equal(logged, "abort failed: callback returned MUSTER_EFAILED (-17)");
    assert_string_equal(err.text, "run: given up after 2 attempts that failed (iterations_max 2); "
                                  "the last: rank 0 (#0) failed: code 7: 98 to go");
}

/* `finalize` fails. The run ends with its status. */
static void a_failing_finalize_ends_the_rank_13(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_error err;

    (void)state;
    cast->scripts[4].times = 1;
    cast->scripts[4].status = MUSTER_ENOSPACE;
    assert_int_equal(run_cast(cast, 100, &err), MUSTER_ENOSPACE);
    assert_string_equal(err.text, "run: finalize failed: callback returned MUSTER_ENOSPACE (-19)");
    assert_int_equal(err.why, MUSTER_WHY_FINALIZE);
    assert_string_equal(told, "precondition initialize health fn abort finalize terminate ");
}

/* The health check always fails. The run ends with EUNHEALTHY, without an entry. */
static void an_unhealthy_rank_never_enters_the_function_14(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_error err;

    (void)state;
    cast->scripts[2].times = 100;
    assert_int_equal(run_cast(cast, 0, &err), MUSTER_EUNHEALTHY);
    assert_string_equal(err.text,
                        "run: health_check failed: callback returned MUSTER_EFAILED (-17)");
    assert_int_equal(err.why, MUSTER_WHY_UNHEALTHY);
    assert_string_equal(told, "precondition initialize health abort finalize health terminate ");
}

/* The health check fails once. There is one restart. */
static void a_rank_unhealthy_once_costs_one_restart_15(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_error err;

    (void)state;
    cast->scripts[2].times = 1;
    library_ok(run_cast(cast, 0, &err), &err);
    assert_string_equal(told, "precondition initialize health abort finalize health "
                              "initialize health fn completion ");
}

static void of_several_callbacks_the_failing_one_is_named(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_restart_hook list[3] = {cast->steps[1], cast->steps[2], cast->steps[4]};
    struct muster_error err;

    (void)state;
    cast->scripts[2].times = 1;
    cast->options.precondition = (struct muster_restart_hooks){.list = list, .count = 3};
    assert_int_equal(run_cast(cast, 0, &err), MUSTER_EFAILED);
    assert_string_equal(err.text,
                        "run: precondition failed: callback 2 of 3 returned MUSTER_EFAILED (-17)");
    assert_string_equal(told, "initialize health ");
}

/* ---- switched off ---- */

static muster_status look_around(muster_restart *restart, void *arg)
{
    struct muster_view view;

    muster_restart_view(restart, &view);
    assert_int_equal(view.rank, 0);
    assert_int_equal(view.size, 1);
    assert_int_equal(muster_restart_step(restart, 3), MUSTER_OK);
    assert_int_equal(muster_restart_atomic_begin(restart), MUSTER_OK);
    assert_int_equal(muster_restart_atomic_end(restart), MUSTER_OK);
    assert_int_equal(muster_restart_section_begin(restart, "long", -1), MUSTER_OK);
    assert_int_equal(muster_restart_fault_count(restart), 0);
    assert_int_equal(muster_restart_leave(restart), MUSTER_OK);
    assert_int_equal(muster_restart_again(restart), MUSTER_EINTERRUPTED);
    return *(muster_status *)arg;
}

/* A run is switched off. The function is called once, without a client even, and nothing else
 * happens. */
static void a_disabled_run_calls_the_function_and_nothing_else_3(void **state)
{
    struct cast *cast = all_callbacks();
    muster_status status = MUSTER_ERANGE;
    struct muster_error err;

    (void)state;
    cast->options.disabled = true;
    assert_int_equal(muster_restart_run(NULL, &cast->options, look_around, &status, &err),
                     MUSTER_ERANGE);
    assert_string_equal(told, "");
    cast->options.settle_ms = -1; /* validated all the same */
    assert_int_equal(muster_restart_run(NULL, &cast->options, look_around, &status, &err),
                     MUSTER_EINVAL);
}

/* ---- the environment ---- */

static muster_status see_environment(muster_restart *restart, void *arg)
{
    (void)restart;
    (void)arg;
    assert_string_equal(getenv("RANK"), "0");
    assert_string_equal(getenv("WORLD_SIZE"), "1");
    return MUSTER_OK;
}

static muster_status see_the_old_one(muster_restart *restart, void *arg)
{
    (void)restart;
    (void)arg;
    assert_string_equal(getenv("RANK"), "17");
    assert_null(getenv("WORLD_SIZE"));
    return MUSTER_OK;
}

/* Runs change RANK and WORLD_SIZE. At the end of the last one both are as before.
 * [Atomic sections, leaving, giving up] */
static void rank_and_world_size_are_set_and_put_back(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_restart_hook first = {.call = see_environment};
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    (void)setenv("RANK", "17", 1);
    (void)unsetenv("WORLD_SIZE");
    options.initialize = (struct muster_restart_hooks){.list = &first, .count = 1};
    library_ok(muster_restart_run(client, &options, see_environment, NULL, &err), &err);
    assert_string_equal(getenv("RANK"), "17");
    assert_null(getenv("WORLD_SIZE"));
    options = (struct muster_restart_options)MUSTER_RESTART_OPTIONS_INIT;
    options.keep_environment = true;
    library_ok(muster_restart_run(client, &options, see_the_old_one, NULL, &err), &err);
    (void)unsetenv("RANK");
    muster_client_close(client);
}

static muster_status open_another(muster_restart *restart, void *arg)
{
    muster_client *client = NULL;
    struct muster_error err;

    (void)restart;
    (void)arg;
    assert_string_equal(getenv("RANK"), "0");
    library_ok(muster_client_open(&client, NULL, LIMIT_MS, &err), &err);
    muster_client_close(client);
    return MUSTER_OK;
}

/* A client is opened while a run has set RANK and WORLD_SIZE. They are not taken for a
 * launcher's. */
static void another_client_is_opened_during_a_run(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    library_ok(muster_restart_run(client, NULL, open_another, NULL, &err), &err);
    muster_client_close(client);
}

struct second {
    muster_client *client;
    _Atomic int inside, leave;
};

static muster_status stay(muster_restart *restart, void *arg)
{
    struct second *second = arg;

    (void)restart;
    atomic_store(&second->inside, 1);
    while (atomic_load(&second->leave) == 0) {
        (void)sched_yield();
    }
    return MUSTER_OK;
}

static void *run_beside(void *ctx)
{
    struct second *second = ctx;

    (void)!muster_restart_run(second->client, NULL, stay, second, NULL);
    return NULL;
}

/* Two runs share the environment. At the end of the last one RANK and WORLD_SIZE are as before.
 * [Atomic sections, leaving, giving up] */
static void two_runs_share_the_environment(void **state)
{
    struct second first = {.client = library_alone()};
    struct second last = {.client = library_alone()};
    pthread_t threads[2];

    (void)state;
    assert_int_equal(pthread_create(&threads[0], NULL, run_beside, &first), 0);
    while (atomic_load(&first.inside) == 0) {
        (void)sched_yield();
    }
    assert_int_equal(pthread_create(&threads[1], NULL, run_beside, &last), 0);
    while (atomic_load(&last.inside) == 0) {
        (void)sched_yield();
    }
    atomic_store(&first.leave, 1);
    (void)pthread_join(threads[0], NULL);
    atomic_store(&last.leave, 1);
    (void)pthread_join(threads[1], NULL);
    assert_null(getenv("RANK"));
    assert_null(getenv("WORLD_SIZE"));
    muster_client_close(first.client);
    muster_client_close(last.client);
}

/* Two clients of one process run a function each. The progress page belongs to the one that was
 * opened first, whose agent would take the other's progress for its own. */
static void of_two_clients_only_one_writes_the_page(void **state)
{
    struct mst_page *page = NULL;
    struct muster_error err;
    muster_client *first;
    muster_client *second;
    char number[16];
    int fd = -1;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    (void)snprintf(number, sizeof(number), "%d", fd);
    (void)setenv("MUSTER_PAGE_FD", number, 1);
    first = library_alone();
    second = library_alone();
    (void)unsetenv("MUSTER_PAGE_FD");
    library_ok(muster_restart_run(second, NULL, see_environment, NULL, &err), &err);
    assert_int_equal(page->entered, 0);
    assert_int_equal(page->turn, 0);
    library_ok(muster_restart_run(first, NULL, see_environment, NULL, &err), &err);
    assert_int_equal(page->entered, 1);
    muster_client_close(second);
    muster_client_close(first);
    mst_page_unmap(page);
    (void)close(fd);
}

static muster_status steps(muster_restart *restart, void *arg)
{
    static const int64_t told_steps[] = {5, 7, 6, 9, 9};

    (void)arg;
    for (size_t i = 0; i < sizeof(told_steps) / sizeof(told_steps[0]); i++) {
        assert_int_equal(muster_restart_step(restart, told_steps[i]), MUSTER_OK);
    }
    assert_int_equal(atomic_load(&restart->first_step), 5);
    assert_int_equal(atomic_load(&restart->best_step), 9);
    return MUSTER_OK;
}

/* The first step of each attempt and the largest are kept. By them it is known whether the job
 * went back, and whether it advanced. */
static void the_first_step_and_the_largest_are_kept(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    library_ok(muster_restart_run(client, NULL, steps, NULL, &err), &err);
    library_ok(muster_restart_run(client, NULL, steps, NULL, &err), &err);
    muster_client_close(client);
}

/* ---- how far it came ---- */

static struct mst_restart_progress last_progress;

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names */
void __real_mst_restart_progress(struct mst_restart *restart,
                                 const struct mst_restart_progress *progress);
void __wrap_mst_restart_progress(struct mst_restart *restart,
                                 const struct mst_restart_progress *progress);

void __wrap_mst_restart_progress(struct mst_restart *restart,
                                 const struct mst_restart_progress *progress)
{
    if (progress->pings != 0) { /* of an attempt that failed */
        last_progress = *progress;
    }
    __real_mst_restart_progress(restart, progress);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

struct interrupted {
    muster_client *client;
    bool waits;
};

static void *fail_once_it_waits(void *ctx)
{
    muster_restart *restart = ctx;

    while (atomic_load(&restart->page->waits) % 2 == 0) {
        (void)sched_yield();
    }
    (void)!muster_member_fault(restart->client, 1, "as was to be", LIMIT_MS, NULL);
    return NULL;
}

/* It goes on a little after it was told to stop. */
static muster_status is_interrupted(muster_restart *restart, void *arg)
{
    const struct interrupted *how = arg;
    muster_value *value = NULL;
    struct muster_view view;
    pthread_t thread;

    muster_restart_view(restart, &view);
    if (view.iteration == 1) {
        return MUSTER_OK;
    }
    assert_int_equal(muster_restart_ping(restart), MUSTER_OK);
    if (how->waits) {
        assert_int_equal(pthread_create(&thread, NULL, fail_once_it_waits, restart), 0);
        assert_int_equal(muster_key_get(how->client, "never", NULL, -1, &value, NULL),
                         MUSTER_EINTERRUPTED);
        assert_int_equal(pthread_join(thread, NULL), 0);
    } else {
        assert_int_equal(muster_restart_fail(restart, 1, "as was to be"), MUSTER_EFAILED);
    }
    while (atomic_load(&restart->page->told) != atomic_load(&restart->page->turn)) {
        (void)sched_yield();
    }
    for (int i = 0; i < 3; i++) {
        (void)!muster_restart_ping(restart);
    }
    return MUSTER_EINTERRUPTED;
}

/* The step counts at which a rank was when it was interrupted. What it did since is no sign of
 * what the others waited for. */
static void what_counts_is_how_far_it_was_when_it_was_told_to_stop(void **state)
{
    struct interrupted how = {.client = library_alone()};
    struct muster_error err;

    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        how.waits = waits != 0;
        library_ok(muster_restart_run(how.client, NULL, is_interrupted, &how, &err), &err);
        assert_int_equal(last_progress.pings, 1);
        assert_int_equal(last_progress.waited, how.waits);
    }
    muster_client_close(how.client);
}

/* ---- atomic sections ---- */

static void wait_until_told(muster_restart *restart)
{
    while ((atomic_load(&restart->atomic.word) & MST_ATOMIC_TOLD) == 0) {
        (void)sched_yield();
    }
}

static _Atomic int aborts, aborts_inside, aborts_refused;

/* On the thread of the abort callbacks, where no assertion can fail a test. */
static muster_status count_abort(muster_restart *restart, void *arg)
{
    struct muster_error err = {0};

    if (mst_atomic_inside(&restart->atomic)) {
        atomic_fetch_add(&aborts_inside, 1);
    }
    if (muster_barrier_wait(arg, "no", 1000, &err) == MUSTER_EDEADLK &&
        strcmp(err.text, "barrier 'no': called from an abort callback, which is to return before "
                         "the function can be cut short") == 0) {
        atomic_fetch_add(&aborts_refused, 1);
    }
    atomic_fetch_add(&aborts, 1);
    return MUSTER_OK;
}

static enum mst_abort_state abort_state(muster_restart *restart)
{
    enum mst_abort_state state;

    (void)pthread_mutex_lock(&restart->abort.lock);
    state = restart->abort.state;
    (void)pthread_mutex_unlock(&restart->abort.lock);
    return state;
}

static muster_status in_a_section(muster_restart *restart, void *arg)
{
    struct muster_error err = {0};
    struct muster_view view;

    muster_restart_view(restart, &view);
    if (view.iteration == 1) {
        return MUSTER_OK;
    }
    assert_int_equal(muster_restart_atomic_begin(restart), MUSTER_OK);
    assert_int_equal(muster_restart_atomic_begin(restart), MUSTER_OK);
    assert_int_equal(restart->page->atomic, 1);
    assert_int_equal(muster_restart_fail(restart, 1, "from inside"), MUSTER_EFAILED);
    wait_until_told(restart);
    assert_int_equal(muster_restart_check(restart), MUSTER_OK);
    assert_int_equal(muster_restart_ping(restart), MUSTER_OK);
    assert_int_equal(muster_barrier_wait(arg, "no", -1, &err), MUSTER_EDEADLK);
    assert_string_equal(err.text, "barrier 'no': called inside an atomic section, which "
                                  "cannot be interrupted: end it first");
    assert_int_equal(muster_restart_atomic_end(restart), MUSTER_OK);
    while (abort_state(restart) == MST_ABORT_NONE) { /* until it is asked for */
        (void)sched_yield();
    }
    for (int look = 0; look < 1000; look++) { /* time enough for one that would not wait */
        (void)sched_yield();
    }
    assert_int_equal(atomic_load(&aborts), 0);
    assert_int_equal(muster_restart_atomic_end(restart), MUSTER_EINTERRUPTED);
    assert_int_equal(restart->page->atomic, 2);
    assert_int_equal(muster_restart_atomic_begin(restart), MUSTER_EINTERRUPTED);
    assert_int_equal(muster_restart_check(restart), MUSTER_EINTERRUPTED);
    assert_int_equal(muster_restart_atomic_end(restart), MUSTER_EINVAL);
    while (atomic_load(&aborts) == 0) { /* while the function still runs */
        (void)sched_yield();
    }
    return MUSTER_EINTERRUPTED;
}

/* A peer fails while this rank is in an atomic section. It is not interrupted, cut short or
 * aborted before the end of the section; right after it is.
 * [Atomic sections, leaving, giving up] */
static void an_atomic_section_hides_the_interruption_until_its_end_63(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    muster_client *client = library_alone();
    struct muster_restart_hook abort = {.call = count_abort, .arg = client};
    struct muster_error err;

    (void)state;
    atomic_store(&aborts, 0);
    options.abort = (struct muster_restart_hooks){.list = &abort, .count = 1};
    library_ok(muster_restart_run(client, &options, in_a_section, client, &err), &err);
    assert_int_equal(atomic_load(&aborts), 1);
    assert_int_equal(atomic_load(&aborts_inside), 0);
    assert_int_equal(atomic_load(&aborts_refused), 1);
    library_ok(muster_barrier_wait(client, "yes", LIMIT_MS, &err), &err);
    muster_client_close(client);
}

/* ---- long phases, and what else is on the page ---- */

static muster_status in_phases(muster_restart *restart, void *arg)
{
    const struct mst_page *page = restart->page;
    char name[64];

    (void)arg;
    assert_int_equal(page->turn % 8, MST_PHASE_FUNCTION);
    assert_int_equal(page->thread, gettid());
    assert_int_equal(muster_restart_section_end(restart), MUSTER_EINVAL);
    assert_int_equal(muster_restart_section_begin(restart, "zero", 0), MUSTER_EINVAL);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof(name), "phase %d whose name is too long for the page", i);
        assert_int_equal(muster_restart_section_begin(restart, name, i + 1), MUSTER_OK);
        assert_int_equal(page->section % 2, 1);
        assert_int_equal(page->section_limit_ms, i + 1);
        assert_int_equal(strlen(page->section_name), 31);
        assert_memory_equal(page->section_name, name, 31);
    }
    assert_int_equal(muster_restart_section_begin(restart, "ninth", -1), MUSTER_ELIMIT);
    assert_int_equal(muster_restart_section_end(restart), MUSTER_OK);
    assert_int_equal(page->section % 2, 1);
    assert_int_equal(page->section_limit_ms, 7);
    assert_memory_equal(page->section_name, "phase 6", 7);
    assert_int_equal(muster_restart_atomic_begin(restart), MUSTER_OK);
    assert_int_equal(muster_restart_step(restart, 41), MUSTER_OK);
    assert_int_equal(page->step, 41);
    return MUSTER_OK; /* with all of them open */
}

/* The function returns with sections open. They are ended. [Atomic sections, leaving, giving up] */
static void what_is_open_when_the_function_returns_is_ended(void **state)
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
    library_ok(muster_restart_run(client, NULL, in_phases, NULL, &err), &err);
    assert_int_equal(page->section % 2, 0);
    assert_int_equal(page->atomic, 2);
    assert_int_equal(page->turn % 8, MST_PHASE_OUTSIDE);
    assert_int_equal(page->soft_ms, 60000);
    assert_int_equal(page->hard_ms, 90000);
    assert_int_equal(page->grace_ms, 5000);
    assert_int_equal(page->from_start, 0);
    assert_int_equal(page->entered, 1);
    assert_int_equal(page->pings, 1);
    assert_true(page->checks > 8);
    assert_int_equal(page->runs_failed, 0);
    library_ok(muster_barrier_wait(client, "not refused", LIMIT_MS, &err), &err);
    muster_client_close(client);
    mst_page_unmap(page);
    (void)close(fd);
}

/* Both counters, as they were when it was last looked at. */
struct counted {
    uint64_t checks, pings;
};

static void count_on(muster_restart *restart, struct counted *counted)
{
    const struct mst_page *page = restart->page;

    assert_true(page->checks >= counted->checks && page->pings >= counted->pings);
    counted->checks = page->checks;
    counted->pings = page->pings;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(muster_restart_ping(restart), MUSTER_OK);
        assert_int_equal(page->pings, ++counted->pings);
        assert_int_equal(muster_restart_check(restart), MUSTER_OK);
        assert_int_equal(page->checks, ++counted->checks);
    }
}

static muster_status in_counts(muster_restart *restart, void *arg)
{
    const struct mst_page *page = restart->page;
    struct muster_view view;

    muster_restart_view(restart, &view);
    assert_int_equal(page->start_turn, page->turn);
    assert_int_equal(page->start_pings, page->pings); /* what came before is not of this attempt */
    count_on(restart, arg);
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(muster_restart_section_begin(restart, "compile", -1), MUSTER_OK);
        count_on(restart, arg);
        assert_int_equal(page->section, 6 * view.iteration + 2 * (uint64_t)turn + 1);
        assert_int_equal(muster_restart_section_end(restart), MUSTER_OK);
        assert_int_equal(muster_restart_section_end(restart), MUSTER_EINVAL);
        assert_int_equal(muster_restart_atomic_end(restart), MUSTER_EINVAL);
        assert_int_equal(page->section % 2, 0);
        count_on(restart, arg);
    }
    return view.iteration < 2 ? muster_restart_again(restart) : MUSTER_OK;
}

/* The counters of progress count over many calls, sections and attempts; a section is ended once
 * too often. Each call counts one, and they never go back; calls inside of a section count too;
 * an end too many is EINVAL and changes nothing. The library runs no timer and writes no times:
 * the watcher looks as often as the limits need, and stamps what it sees with its own clock.
 * [restart] */
static void counters_never_go_back_and_an_end_too_many_is_harmless_84(void **state)
{
    struct counted counted = {0};
    struct muster_error err;
    muster_client *client = library_alone();

    (void)state;
    library_ok(muster_restart_run(client, NULL, in_counts, &counted, &err), &err);
    assert_int_equal(counted.pings, 3 * 7 * 100);
    muster_client_close(client);
}

/* ---- the record ---- */

static muster_status read_the_record(muster_restart *restart, void *arg)
{
    struct muster_fault fault;
    struct muster_view view;
    struct timeval now;

    (void)arg;
    muster_restart_view(restart, &view);
    if (view.iteration == 0) {
        assert_int_equal(muster_restart_fault_count(restart), 0);
        assert_false(muster_restart_fault(restart, 0, &fault));
        return muster_restart_fail(restart, 7, "loss\nis nan");
    }
    assert_int_equal(muster_restart_fault_count(restart), 1);
    assert_true(muster_restart_fault(restart, 0, &fault));
    assert_false(muster_restart_fault(restart, 1, &fault));
    assert_int_equal(fault.kind, MUSTER_FAULT_FAILED);
    assert_int_equal(fault.code, 7);
    assert_string_equal(fault.text, "loss\\x0ais nan"); /* one line */
    assert_int_equal(fault.index, 0);
    assert_int_equal(fault.rank, 0);
    assert_int_equal(fault.generation, view.generation - 1);
    assert_int_equal(fault.pid, getpid());
    assert_int_equal(fault.detector, -1);
    (void)gettimeofday(&now, NULL);
    assert_in_range(fault.wall_ms, now.tv_sec * 1000 - LIMIT_MS, now.tv_sec * 1000 + 1000);
    return MUSTER_OK;
}

static muster_status first_known(muster_restart *restart, void *arg)
{
    struct muster_fault fault;

    assert_true(muster_restart_fault(restart, 0, &fault));
    assert_int_equal(fault.code, 7);
    *(int *)arg = 1;
    return MUSTER_OK;
}

/* A run asks why the attempt before ended. The record has it. */
static void the_record_tells_why_the_attempt_before_ended(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    int finalized = 0;
    struct muster_restart_hook finalize = {.call = first_known, .arg = &finalized};
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    options.finalize = (struct muster_restart_hooks){.list = &finalize, .count = 1};
    library_ok(muster_restart_run(client, &options, read_the_record, NULL, &err), &err);
    assert_int_equal(finalized, 1);
    muster_client_close(client);
    assert_string_equal(muster_fault_kind_name(MUSTER_FAULT_SOFT_TIMEOUT), "soft-timeout");
    assert_string_equal(muster_fault_kind_name(MUSTER_FAULT_FAILED), "failed");
    assert_string_equal(muster_fault_kind_name((enum muster_fault_kind)99), "?");
}

static muster_status end_all(muster_restart *restart, void *arg)
{
    (void)arg;
    return muster_restart_abort(restart, 5, "wrong data");
}

/* A rank aborts the run. It ends on all with its text. [Atomic sections, leaving, giving up] */
static void an_abort_ends_the_run_with_its_text(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    assert_int_equal(muster_restart_run(client, NULL, end_all, NULL, &err), MUSTER_EFAILED);
    assert_string_equal(err.text,
                        "run: ended for all: rank 0 (#0) asked that all end: code 5: wrong data");
    muster_client_close(client);
}

/* ---- health checks that need no code ---- */

static void on_alarm(int signal)
{
    (void)signal;
}

/* A health command is given. Its exit status says whether the rank is healthy. */
static void a_command_tells_whether_the_rank_is_healthy(void **state)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}};
    const struct itimerval never = {.it_value = {0}};
    struct mst_run_trouble trouble = {0};

    (void)state;
    assert_true(mst_health_command("true", LIMIT_MS, &trouble));
    assert_false(mst_health_command("exit 3", LIMIT_MS, &trouble));
    assert_int_equal(trouble.status, MUSTER_EUNHEALTHY);
    assert_int_equal(trouble.code, 3);
    assert_string_equal(trouble.text, "health_command 'exit 3': ended with status 3");
    assert_false(mst_health_command("kill -9 $$", LIMIT_MS, &trouble));
    assert_string_equal(trouble.text, "health_command 'kill -9 $$': killed by signal 9");
    /* In a process group of its own, with nothing of ours open. */
    assert_true(mst_health_command("test $(ps -o pgid= -p $$) = $$ || test ! -x /bin/ps", LIMIT_MS,
                                   &trouble));
    /* Signals of the program do not cut it short. */
    (void)sigaction(SIGALRM, &action, NULL);
    (void)setitimer(ITIMER_REAL, &often, NULL);
    assert_true(mst_health_command("sleep 0.1", LIMIT_MS, &trouble));
    assert_false(mst_health_command("sleep 60 & wait", SHORT_MS, &trouble));
    (void)setitimer(ITIMER_REAL, &never, NULL); /* one may be on its way: the handler stays */
    assert_string_equal(
        trouble.text, "health_command 'sleep 60 & wait': did not end within 0.1 s and was killed");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left of them */
}

/* The program ignores SIGCHLD and has a health command, so that its end cannot be known. The
 * rank is unhealthy, and the text says why. */
static void a_health_command_of_a_program_that_ignores_its_children(void **state)
{
    struct mst_run_trouble trouble = {0};

    (void)state;
    (void)signal(SIGCHLD, SIG_IGN);
    assert_false(mst_health_command("true", LIMIT_MS, &trouble));
    (void)signal(SIGCHLD, SIG_DFL);
    assert_non_null(strstr(trouble.text, "the program ignores SIGCHLD"));
}

/* ---- what callbacks leave behind ---- */

static muster_status leave_open(muster_restart *restart, void *arg)
{
    (void)arg;
    assert_int_equal(muster_restart_atomic_begin(restart), MUSTER_OK);
    assert_int_equal(muster_restart_section_begin(restart, "left open", -1), MUSTER_OK);
    return MUSTER_OK;
}

static muster_status see_none_open(muster_restart *restart, void *arg)
{
    (void)arg;
    assert_int_equal(muster_restart_atomic_end(restart), MUSTER_EINVAL);
    assert_int_equal(muster_restart_section_end(restart), MUSTER_EINVAL);
    return MUSTER_OK;
}

/* A callback leaves sections open. They are ended with it, or with the run. */
static void what_a_callback_leaves_open_is_ended(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_restart_hook step = {.call = leave_open};
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    options.precondition = (struct muster_restart_hooks){.list = &step, .count = 1};
    options.completion = options.precondition;
    library_ok(muster_restart_run(client, &options, see_none_open, NULL, &err), &err);
    assert_int_equal(client->page->section & 1, 0);
    assert_int_equal(client->page->atomic & 1, 0);
    assert_null(mst_lib_thread.no_waiting);
    library_ok(muster_restart_run(client, NULL, see_none_open, NULL, &err), &err);
    muster_client_close(client);
}

/* A callback returns a positive number, which is no status. It has failed, and what ends with it
 * ends with EFAILED. */
static void a_callback_that_returns_a_positive_number_has_failed(void **state)
{
    struct cast *cast = all_callbacks();
    struct muster_error err;

    (void)state;
    cast->scripts[0].status = (muster_status)3;
    cast->scripts[0].times = 1;
    assert_int_equal(run_cast(cast, 0, &err), MUSTER_EFAILED);
    cast = all_callbacks();
    cast->scripts[4].status = (muster_status)3; /* finalize */
    cast->scripts[4].times = 1;
    assert_int_equal(run_cast(cast, 1, &err), MUSTER_EFAILED);
    assert_non_null(strstr(err.text, "finalize failed: callback returned"));
}

/* A folder is given for health. The rank is healthy if a file can be written there. */
static void a_folder_is_healthy_if_a_file_can_be_written_there(void **state)
{
    struct mst_run_trouble trouble = {0};
    const char *folder = getenv("MUSTER_RUNTIME_DIR");

    (void)state;
    assert_true(mst_health_folder(folder, &trouble)); /* the teardown looks that it is empty */
    assert_false(mst_health_folder("/nonexistent", &trouble));
    assert_int_equal(trouble.status, MUSTER_EUNHEALTHY);
    assert_string_equal(trouble.text, "health_folder '/nonexistent': no file can be written there: "
                                      "No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_are_called_in_their_order),
        cmocka_unit_test(a_precondition_refuses_before_anything),
        cmocka_unit_test(a_failing_initialize_is_a_fault_until_the_limit_11),
        cmocka_unit_test(a_failing_abort_is_only_logged_12),
        cmocka_unit_test(a_failing_finalize_ends_the_rank_13),
        cmocka_unit_test(an_unhealthy_rank_never_enters_the_function_14),
        cmocka_unit_test(a_rank_unhealthy_once_costs_one_restart_15),
        cmocka_unit_test(of_several_callbacks_the_failing_one_is_named),
        cmocka_unit_test(a_disabled_run_calls_the_function_and_nothing_else_3),
        cmocka_unit_test(rank_and_world_size_are_set_and_put_back),
        cmocka_unit_test(another_client_is_opened_during_a_run),
        cmocka_unit_test(two_runs_share_the_environment),
        cmocka_unit_test(of_two_clients_only_one_writes_the_page),
        cmocka_unit_test(the_first_step_and_the_largest_are_kept),
        cmocka_unit_test(what_counts_is_how_far_it_was_when_it_was_told_to_stop),
        cmocka_unit_test(an_atomic_section_hides_the_interruption_until_its_end_63),
        cmocka_unit_test(what_is_open_when_the_function_returns_is_ended),
        cmocka_unit_test(counters_never_go_back_and_an_end_too_many_is_harmless_84),
        cmocka_unit_test(the_record_tells_why_the_attempt_before_ended),
        cmocka_unit_test(an_abort_ends_the_run_with_its_text),
        cmocka_unit_test(a_command_tells_whether_the_rank_is_healthy),
        cmocka_unit_test(a_health_command_of_a_program_that_ignores_its_children),
        cmocka_unit_test(what_a_callback_leaves_open_is_ended),
        cmocka_unit_test(a_callback_that_returns_a_positive_number_has_failed),
        cmocka_unit_test(a_folder_is_healthy_if_a_file_can_be_written_there),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
