/* SPDX-License-Identifier: Apache-2.0 */
/* What callbacks can say and do, and a handler of the interrupt signal that is the program's own:
 * the run of a job of one, with a real service.
 *
 * behaviour: restart / Options, callbacks and clients */
#define _GNU_SOURCE
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "library_stage.h"
#include "restart/shell/restart.h"

/* ---- the program's handler of the interruption ---- */

static muster_restart *interrupted;
static volatile sig_atomic_t handled;

static void on_interruption(int signal)
{
    (void)signal;
    handled = handled + muster_restart_interrupted(interrupted);
}

/* Fails and then sleeps, once. */
static muster_status fail_and_sleep(muster_restart *restart, void *arg)
{
    int *attempts = arg;
    muster_status status = MUSTER_OK;
    uint64_t checks = restart->page->checks;

    interrupted = restart;
    assert_false(muster_restart_interrupted(restart));
    assert_int_equal(restart->page->checks, checks);
    muster_restart_alive(restart);
    assert_int_equal(restart->page->checks, checks + 1);
    if ((*attempts)++ == 0) {
        status = muster_restart_fail(restart, 0, "once");
        assert_int_equal(poll(NULL, 0, LIMIT_MS), -1);
        assert_true(handled > 0);
        muster_restart_alive(restart);
        assert_int_equal(restart->delivered, 0);
        assert_int_equal(muster_restart_atomic_begin(restart), MUSTER_EINTERRUPTED);
    }
    return status;
}

static muster_status is_over(muster_restart *restart, void *arg)
{
    (void)arg;
    assert_false(muster_restart_interrupted(restart));
    return MUSTER_OK;
}

/* A program keeps its own handler of the interrupt signal. The interruption calls that, and ends a
 * system call of the function; there the interruption is known, and no longer when the function has
 * returned. After the run the handler is there still. */
static void a_handler_of_the_program_is_called(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_restart_hook hook = {.call = is_over};
    struct sigaction action = {.sa_handler = on_interruption};
    struct sigaction before;
    muster_client *client = library_alone();
    struct muster_error err;
    int attempts = 0;

    (void)state;
    options.keep_handler = true;
    options.finalize = (struct muster_restart_hooks){.list = &hook, .count = 1};
    assert_int_equal(muster_restart_run(client, &options, fail_and_sleep, &attempts, &err),
                     MUSTER_EINVAL);
    assert_non_null(strstr(err.text, "install one without SA_RESTART before the run"));
    (void)sigaction(SIGRTMIN + 7, &action, &before);
    library_ok(muster_restart_run(client, &options, fail_and_sleep, &attempts, &err), &err);
    (void)sigaction(SIGRTMIN + 7, &before, &action);
    assert_true(action.sa_handler == on_interruption);
    assert_int_equal(attempts, 2);
    muster_client_close(client);
}

/* ---- reasons ---- */

static char logged[400];

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    if (level == MUSTER_LEVEL_WARN) {
        (void)snprintf(logged, sizeof(logged), "%s", line);
    }
}

/* A callback that says why it fails; the second reason is of no interest. */
struct saying {
    int good;              /* calls before that */
    muster_status instead; /* of what the report returned; 0: that */
};

static muster_status say_why(muster_restart *restart, void *arg)
{
    struct saying *saying = arg;
    muster_status status;

    if (saying->good-- > 0) {
        return MUSTER_OK;
    }
    status = muster_restart_fail(restart, 31, "the card is hot");
    assert_int_equal(status, MUSTER_EFAILED);
    assert_int_equal(muster_restart_fail(restart, 32, "the second"), MUSTER_EFAILED);
    assert_int_equal(muster_restart_again(restart), MUSTER_EINVAL);
    return saying->instead ? saying->instead : status;
}

static muster_status again_once(muster_restart *restart, void *arg)
{
    struct muster_view view;

    (void)arg;
    muster_restart_view(restart, &view);
    return view.iteration == 0 ? muster_restart_again(restart) : MUSTER_OK;
}

/* The callbacks of one kind are one that says why it fails. */
static muster_status run_saying(enum mst_step_kind kind, struct saying saying,
                                struct muster_error *err)
{
    struct muster_client_options with_log = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_restart_hook hook = {.call = say_why, .arg = &saying};
    struct muster_restart_hooks *const lists[MST_STEP_KINDS] = {
        [MST_STEP_PRECONDITION] = &options.precondition,
        [MST_STEP_HEALTH_CHECK] = &options.health_check,
        [MST_STEP_FINALIZE] = &options.finalize,
        [MST_STEP_COMPLETION] = &options.completion};
    muster_client *client;
    muster_status status;

    with_log.log = on_log;
    client = library_open(&with_log);
    *lists[kind] = (struct muster_restart_hooks){.list = &hook, .count = 1};
    status = muster_restart_run(client, &options, again_once, NULL, err);
    muster_client_close(client);
    return status;
}

/* A callback outside of an attempt says why it fails. Its text is in the error of the run, or in
 * the log; a status of its own stays. */
static void a_callback_says_why_it_fails(void **state)
{
    struct muster_error err;

    (void)state;
    assert_int_equal(run_saying(MST_STEP_PRECONDITION, (struct saying){0}, &err), MUSTER_EFAILED);
    assert_string_equal(err.text, "run: precondition failed: the card is hot");
    assert_int_equal(
        run_saying(MST_STEP_FINALIZE, (struct saying){.instead = MUSTER_ENOSPACE}, &err),
        MUSTER_ENOSPACE);
    assert_string_equal(err.text, "run: finalize failed: the card is hot");
    assert_int_equal(run_saying(MST_STEP_HEALTH_CHECK, (struct saying){.good = 1}, &err),
                     MUSTER_EUNHEALTHY);
    assert_string_equal(err.text, "run: health_check failed: the card is hot");
    library_ok(run_saying(MST_STEP_COMPLETION, (struct saying){0}, &err), &err);
    assert_string_equal(logged, "completion failed: the card is hot");
}

/* ---- leaving before the function ---- */

static char told[200];

static void tell(const char *word)
{
    struct mst_text text = {.start = told, .size = strlen(told), .room = sizeof(told)};

    mst_text_format(&text, "%s ", word);
}

static muster_status named(muster_restart *restart, void *arg)
{
    (void)restart;
    tell(arg);
    return MUSTER_OK;
}

/* In the first call only: the check after the attempt is called too. */
static muster_status leave_once(muster_restart *restart, void *arg)
{
    muster_status status = MUSTER_OK;

    if (!strstr(told, arg)) {
        status = muster_restart_leave(restart);
        assert_int_equal(status, MUSTER_OK);
    }
    tell(arg);
    return status;
}

static void leaves_in(enum mst_step_kind kind, const char *expected)
{
    struct muster_restart_hook early[] = {{.call = named, .arg = (char[]){"initialize"}},
                                          {.call = named, .arg = (char[]){"second"}}};
    struct muster_restart_hook health[] = {{.call = named, .arg = (char[]){"health"}}};
    struct muster_restart_hook late[] = {{.call = named, .arg = (char[]){"finalize"}}};
    struct muster_restart_hook last[] = {{.call = named, .arg = (char[]){"completion"}}};
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    muster_client *client = library_alone();
    struct muster_error err;

    told[0] = '\0';
    (kind == MST_STEP_INITIALIZE ? early : health)[0].call = leave_once;
    options.initialize = (struct muster_restart_hooks){.list = early, .count = 2};
    options.health_check = (struct muster_restart_hooks){.list = health, .count = 1};
    options.finalize = (struct muster_restart_hooks){.list = late, .count = 1};
    options.completion = (struct muster_restart_hooks){.list = last, .count = 1};
    library_ok(muster_restart_run(client, &options, named, (char[]){"fn"}, &err), &err);
    assert_string_equal(told, expected);
    muster_client_close(client);
}

/* A rank leaves in `initialize`, or in the first health check. Nothing more of the attempt is
 * called, the function neither; it is unwound, and the run ends well. [Atomic sections, leaving,
 * giving up] */
static void a_rank_leaves_before_the_function(void **state)
{
    (void)state;
    leaves_in(MST_STEP_INITIALIZE, "initialize finalize health ");
    leaves_in(MST_STEP_HEALTH_CHECK, "initialize second health finalize health ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_of_the_program_is_called),
        cmocka_unit_test(a_callback_says_why_it_fails),
        cmocka_unit_test(a_rank_leaves_before_the_function),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
